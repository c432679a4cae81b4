"""The command line reference in docs/cli.md, generated from the commands' own `--help` texts."""

from __future__ import annotations

import re
from typing import Any

import typer

from treefine.cli.app import app


def command_line() -> str:
    """Return Markdown for `treefine` and for each of its commands: usage, description, options, examples."""
    main: Any = typer.main.get_command(app)
    parts = [_command("treefine", main), *(_command(f"treefine {name}", each) for name, each in main.commands.items())]
    return "\n\n".join(parts)


def _command(name: str, command: Any) -> str:
    context = typer.Context(command, info_name=name)
    usage = " ".join(command.get_usage(context).split()).removeprefix("Usage: ")
    parts = [f"## {name}", f"```\n{usage}\n```", _paragraphs(command.help)]
    commands = getattr(command, "commands", {})
    if commands:
        parts.append("Commands:")
        parts.append("\n".join(f"- [`{each}`](#treefine-{each}): {_summary(commands[each].help)}" for each in commands))
    records: dict[str, list[str]] = {"argument": [], "option": []}
    for parameter in command.get_params(context):
        if record := parameter.get_help_record(context):
            records[parameter.param_type_name].append(_item(*record))
    for kind, items in records.items():
        if items:
            parts += [f"{kind.capitalize()}s:", "\n".join(items)]
    examples = [line.strip() for line in (command.epilog or "").splitlines() if line.startswith("  ")]
    if examples:
        parts += ["Examples:", "\n".join(["```sh", *examples, "```"])]
    return "\n\n".join(parts)


def _item(names: str, text: str) -> str:
    """Return a list item for an option; the bracketed end of its help text, such as its default, is set in italics.

    >>> print(_item("--k N", "Return the k best trees.  [default: 1; x>=1]"))
    - **`--k N`**: Return the k best trees. *(default: 1; at least 1)*
    """
    notes = re.findall(r"\[([^\[\]]+)\](?=(?:\s*\[[^\[\]]+\])*$)", text)
    text = re.sub(r"(\s*\[[^\[\]]+\])+$", "", text)
    names = re.sub(r" <list\[str\]>", "…", names).replace(" <str>", "").replace(" range>", ">")
    return " ".join([f"- **`{names}`**: {_escaped(text)}", *(f"*({_escaped(_limits(note))})*" for note in notes)])


def _limits(note: str) -> str:
    """Return a note of Typer with its ranges in words, and without parentheses around a described default.

    >>> _limits("default: 0.5; 0<=x<=1"), _limits("x>=1"), _limits("default: (as in training); x>=1")
    ('default: 0.5; from 0 to 1', 'at least 1', 'default: as in training; at least 1')
    """
    note = re.sub(r"^default: \((.*)\)(?=;|$)", r"default: \1", note)
    note = re.sub(r"([\d.]+)<=x<=([\d.]+)", r"from \1 to \2", note)
    return re.sub(r"x>=([\d.]+)", r"at least \1", note)


def _paragraphs(text: str) -> str:
    return "\n\n".join(_escaped(" ".join(each.split())) for each in text.split("\n\n"))


def _summary(text: str) -> str:
    return _escaped(" ".join(text.split("\n\n")[0].split()))


def _escaped(text: str) -> str:
    r"""Return text that Markdown shows as it is, with options as code.

    >>> print(_escaped("Parse *.txt with -o, or --k; _ is blank."))
    Parse \*.txt with `-o`, or `--k`; \_ is blank.
    """
    text = re.sub(r"([\\`*_\[\]])", r"\\\1", text).replace("<", "&lt;")
    return re.sub(r"(?<![\w`-])(--?[a-z][a-z-]*)(?![\w`])", r"`\1`", text)
