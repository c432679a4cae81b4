"""Run the tutorials in docs/tutorials from top to bottom, and compare what they print with what they show.

python -m tests.support.tutorials docs/tutorials/parse-a-folder.md    # run a page and write the real outputs into it

Blocks run in order in an empty folder with a link `docs`, and share the folder, the environment and the variables:

- A ```console block holds commands (`$ …`) and under each its output. `treefine …` runs in this process and so loads
  torch once; everything else, also `treefine` with a pipe or a redirection, goes to a shell. A command must exit with
  0, unless its output starts with "treefine: " (an expected error).
- A ```python block with `>>>` is a doctest; `...` in an expected output matches anything, also in consoles.
- A block with a title, such as ```toml title="my.toml", is written to that file. All other blocks are only shown.

Numbers such as 0.97 are confidences, which depend a little on the machine, and may differ by 0.05.
"""

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from tests.support.fake_hub import treebanks_and_hub
from treefine.cli.app import app

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "tutorials"
PAGES = sorted(page for page in FOLDER.glob("*.md") if page.name != "README.md")
PREPARATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {"train-your-own": treebanks_and_hub}

BLOCK = re.compile(r"^```(\w+)[^\S\n]*(.*?)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NEEDS_SHELL = re.compile(r"[|<>;&`$]")
CONFIDENCE = re.compile(r"(?<![\d.])[01]\.\d\d(?![\d.])")
TOLERANCE = 5  # hundredths
BLANK_LINE = "<BLANKLINE>"


class TutorialError(AssertionError):
    """A tutorial shows something other than what happens."""


@dataclass(frozen=True)
class Command:
    """One command or Python statement of a page, with the output that the page shows."""

    source: str
    expected: str
    line: int
    is_python: bool


def run(page: Path) -> None:
    """Run all blocks of a page in the current folder, and raise a TutorialError at the first difference."""
    for command, printed in results(page):
        if not matches(command.expected, printed):
            place = f"{page.name}:{command.line}: {command.source}"
            raise TutorialError(f"{place}\n--- the page shows\n{command.expected}\n--- it prints\n{printed}")


def updated(page: Path) -> str:
    """Run a page in the current folder, and return its text with the real outputs; outputs that match stay."""
    lines = page.read_text().split("\n")
    for command, printed in reversed(list(results(page))):
        if not matches(command.expected, printed):
            start = command.line - 1 + command.source.count("\n") + 1
            shown = re.sub(r"^$", BLANK_LINE, printed[:-1], flags=re.MULTILINE) if command.is_python else printed[:-1]
            lines[start : start + command.expected.count("\n")] = shown.split("\n") if printed else []
    return "\n".join(lines)


def results(page: Path) -> Iterator[tuple[Command, str]]:
    """Run the blocks of a page in order, and yield each command with what it printed."""
    variables: dict[str, Any] = {"__name__": "__main__"}
    (Path.cwd() / "docs").symlink_to(ROOT / "docs")
    with working_folder_and_environment(), PREPARATIONS.get(page.stem, contextlib.nullcontext)():
        for block in commands(page.read_text()):
            if isinstance(block, Command):
                printed = run_python(block, variables) if block.is_python else run_command(block)
                yield block, printed
            else:
                name, text = block
                Path(name).write_text(text)


def commands(text: str) -> Iterator[Command | tuple[str, str]]:
    """Yield the commands and statements of a page in order, and (name, text) for each file that it shows."""
    for block in BLOCK.finditer(text):
        language, options, body = block.groups()
        line = text[: block.start(3)].count("\n") + 1
        if title := re.search(r'title="([^"]+)"', options):
            yield title[1], body
        elif language == "console":
            for match in re.finditer(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", body, re.MULTILINE):
                yield Command(match[1], match[2], line + body[: match.start()].count("\n"), is_python=False)
        elif language == "python" and ">>> " in body:
            for example in doctest.DocTestParser().get_examples(body):
                yield Command(example.source.rstrip("\n"), example.want, line + example.lineno, is_python=True)


def run_command(command: Command) -> str:
    """Run a command of a console block, and return what it printed."""
    program, *arguments = shlex.split(command.source.replace("\\\n", " "))
    if program == "cd":
        os.chdir(arguments[0])
        return ""
    if program == "treefine" and not NEEDS_SHELL.search(re.sub(r"'[^']*'", "", command.source)):
        names = [name for each in arguments for name in expanded(each)]
        done = CliRunner().invoke(app, names)
        code, printed = done.exit_code, done.output
    else:
        shell = subprocess.run(command.source, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        code, printed = shell.returncode, shell.stdout
    if code and not printed.startswith("treefine: "):
        raise TutorialError(f"line {command.line}: {command.source}\nexit code {code}\n{printed}")
    return printed


def expanded(argument: str) -> list[str]:
    """Return the names of the files that a pattern with an asterisk matches, as a shell does."""
    return sorted(map(str, Path().glob(argument))) if "*" in argument else [argument]


def run_python(command: Command, variables: dict[str, Any]) -> str:
    """Run a statement as the interactive interpreter does, and return what it printed."""
    printed = io.StringIO()
    displayhook, sys.displayhook = sys.displayhook, sys.__displayhook__
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(command.source + "\n", "<tutorial>", "single"), variables)
    except Exception as error:
        if not command.expected.startswith("Traceback"):
            raise TutorialError(f"line {command.line}: {command.source}\n{traceback.format_exc()}") from error
        printed.write("Traceback (most recent call last):\n    ...\n")
        printed.write("".join(traceback.format_exception_only(error)))
    finally:
        sys.displayhook = displayhook
    return printed.getvalue()


def matches(expected: str, printed: str) -> bool:
    """Return whether an output is the expected one, up to `...` and a little difference in confidences."""
    parts = re.split(rf"({CONFIDENCE.pattern}|\.\.\.)", expected.replace(BLANK_LINE, ""))
    return re.fullmatch("".join(map(pattern_of, parts)), printed, re.DOTALL) is not None


def pattern_of(part: str) -> str:
    """Return a regular expression for `...`, for a confidence, or for a text between them."""
    if part == "...":
        return ".*"
    if CONFIDENCE.fullmatch(part):
        number = round(100 * float(part))
        near = (f"{each / 100:.2f}" for each in range(number - TOLERANCE, number + TOLERANCE + 1))
        return f"(?:{'|'.join(map(re.escape, near))})"
    return re.escape(part)


@contextlib.contextmanager
def working_folder_and_environment() -> Iterator[None]:
    """Put this Python's commands on PATH and set the width, and restore environment and working folder at the end."""
    before, folder = dict(os.environ), Path.cwd()
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    os.environ["COLUMNS"] = "80"
    try:
        yield
    finally:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(before)


if __name__ == "__main__":
    for name in sys.argv[1:] or PAGES:
        path = Path(name).resolve()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            path.write_text(updated(path))
            os.chdir(ROOT)
