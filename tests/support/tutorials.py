"""Run the tutorials in docs/tutorials from top to bottom, and compare what they print with what they show.

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
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from typer.testing import CliRunner

from tests.support.tiny import short
from tests.support.toy_hub import toy_encoder
from treefine.cli.app import app
from treefine.training import prepare, segmenter
from treefine.treebank.conllu import write_treebank

ROOT = Path(__file__).parents[2]
PAGES = sorted(page for page in (ROOT / "docs" / "tutorials").glob("*.md") if page.name != "README.md")

BLOCK = re.compile(r"^```(\w+)[^\S\n]*(.*?)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NEEDS_SHELL = re.compile(r"[|<>;&`$]")
CONFIDENCE = re.compile(r"(?<![\d.])[01]\.\d\d(?![\d.])")
TOLERANCE = 5  # hundredths


@dataclass(frozen=True)
class Command:
    """A command of a page, with the output that the page shows."""

    source: str
    expected: str
    line: int


def run(page: Path) -> None:
    """Run all blocks of a page in the current folder, and raise an error at the first difference."""
    (Path.cwd() / "docs").symlink_to(ROOT / "docs")
    runner = doctest.DebugRunner(Checker())
    variables: dict[str, Any] = {"__name__": "__main__"}
    preparation = treebanks_and_hub if page.stem == "train-your-own" else contextlib.nullcontext
    with working_folder_and_environment(), preparation():
        for block in blocks(page.read_text()):
            if isinstance(block, doctest.DocTest):
                block.globs = variables
                runner.run(block, clear_globs=False)
            elif isinstance(block, Command):
                printed = run_command(block)
                assert matches(block.expected, printed), f"{page.name}:{block.line}: {block.source}\n{printed}"
            else:
                name, text = block
                Path(name).write_text(text)


def blocks(text: str) -> Iterator[Command | doctest.DocTest | tuple[str, str]]:
    """Yield the commands and doctests of a page in order, and (name, text) for each file that it shows."""
    for block in BLOCK.finditer(text):
        language, options, body = block.groups()
        line = text[: block.start(3)].count("\n") + 1
        if title := re.search(r'title="([^"]+)"', options):
            yield title[1], body
        elif language == "console":
            for match in re.finditer(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", body, re.MULTILINE):
                yield Command(match[1], match[2], line + body[: match.start()].count("\n"))
        elif language == "python" and ">>> " in body:
            yield doctest.DocTestParser().get_doctest(body, {}, "page", None, line)


def run_command(command: Command) -> str:
    """Run a command of a console block, and return what it printed."""
    program, *arguments = shlex.split(command.source.replace("\\\n", " "))
    if program == "cd":
        os.chdir(arguments[0])
        return ""
    if program == "treefine" and not NEEDS_SHELL.search(re.sub(r"'[^']*'", "", command.source)):
        names = [
            name for each in arguments for name in (sorted(map(str, Path().glob(each))) if "*" in each else [each])
        ]
        done = CliRunner().invoke(app, names)
        code, printed = done.exit_code, done.output
    else:
        shell = subprocess.run(command.source, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        code, printed = shell.returncode, shell.stdout
    assert not code or printed.startswith("treefine: "), f"line {command.line}: {command.source}\n{code}\n{printed}"
    return printed


class Checker(doctest.OutputChecker):
    """Compares the output of Python as that of commands."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return matches(want.replace("<BLANKLINE>", ""), got)


def matches(expected: str, printed: str) -> bool:
    """Return whether an output is the expected one, up to `...` and a little difference in confidences."""
    parts = re.split(rf"({CONFIDENCE.pattern}|\.\.\.)", expected)
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


# A hub and UD repositories on this machine, for the tutorial on training: no test needs a network

ENCODER = "bert-base-multilingual-cased"
TREEBANKS = {"UD_English-EWT": "en_ewt", "UD_English-Atis": "en_atis"}
GITHUB = "https://github.com/UniversalDependencies/"
HUB = "https://huggingface.co/"


@contextlib.contextmanager
def treebanks_and_hub() -> Iterator[None]:
    """Let git clone toy treebanks, and let the hub's client find a tiny encoder and store models in a folder."""
    with tempfile.TemporaryDirectory() as name:
        hub, repositories = Path(name, "hub"), Path(name, "git")
        toy_encoder(hub / ENCODER, ENCODER)
        for title, short_name in TREEBANKS.items():
            write_repository(repositories / title, short_name)
        git = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"url.{repositories.as_uri()}/.insteadOf"}
        git |= {"GIT_CONFIG_VALUE_0": GITHUB}

        def download(name: str, **_: object) -> str:
            assert (hub / name).is_dir(), f"{name} is not on the hub"
            return str(hub / name)

        class Api:
            def create_repo(self, name: str, *, private: bool, exist_ok: bool) -> str:
                (hub / name).mkdir(parents=True, exist_ok=exist_ok)
                return HUB + name

            def upload_folder(self, *, repo_id: str, folder_path: Path, commit_message: str) -> None:
                shutil.copytree(folder_path, hub / repo_id, dirs_exist_ok=True)

        with (
            mock.patch.dict(os.environ, git),
            mock.patch("huggingface_hub.snapshot_download", download),
            mock.patch("huggingface_hub.try_to_load_from_cache", return_value=None),
            mock.patch("huggingface_hub.HfApi", Api),
            mock.patch.object(segmenter, "N_UPDATES", 40),  # instead of 2,000
            mock.patch.object(prepare, "SIZES", ((0, 3, 1000, 0.1),)),  # instead of 30
        ):
            yield


def write_repository(folder: Path, short_name: str) -> None:
    """Write a git repository with a treebank of a few short sentences."""
    folder.mkdir(parents=True)
    sentences = short(longest=9)  # dev and test repeat some of them, so that they have no new labels
    for part, chosen in (("train", sentences), ("dev", sentences[:4]), ("test", sentences[4:8])):
        write_treebank(chosen, folder / f"{short_name}-ud-{part}.conllu")
    user = ["-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
    for command in (["init", "--quiet"], ["add", "."], [*user, "commit", "--quiet", "-m", "A toy treebank"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
