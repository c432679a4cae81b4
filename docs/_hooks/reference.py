"""The references that the site generates from the code: commands, settings of a recipe, and options of a parser.

A page says where they belong: `<!-- generated: command_line -->`.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

import typer

from treefine.cli.app import app
from treefine.config import SegmenterSettings
from treefine.parsing.options import OPTIONS
from treefine.training.recipe import Recipe, SegmenterTraining


def with_references(markdown: str) -> str:
    """Return a page with its generated parts."""
    return re.sub(r"<!-- generated: (\w+) -->", lambda match: REFERENCES[match[1]](), markdown)


def table(*rows: Sequence[str]) -> str:
    """Return the rows as a table; the first one is its header."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])


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
    note = re.sub(r'^default: "(\w+)"(?=;|$)', r"default: \1", note)
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


def meanings(kind: type) -> dict[str, str]:
    """Return the comments on the fields of a settings class."""
    sources = map(inspect.getsource, (each for each in reversed(kind.__mro__) if is_dataclass(each)))
    return dict(re.findall(r"^    (\w+):[^#\n]*  # (.+)$", "".join(sources), re.MULTILINE))


def recipe_settings() -> str:
    """Return a heading, a sentence and a table for each section of a recipe."""
    kinds = get_type_hints(Recipe)
    sections: dict[str, Any] = {}
    for each in fields(Recipe):
        if each.name == "segmenter":
            sections |= {"segmenter": SegmenterTraining, "segmenter.network": SegmenterSettings}
        elif is_dataclass(kinds[each.name]):
            sections[each.name] = kinds[each.name]
    return "\n\n".join(_section(name, kind) for name, kind in sections.items())


def _section(name: str, kind: Any) -> str:
    notes, hints = meanings(kind), get_type_hints(kind)
    rows = [
        (f"`{each.name}`", _default(each), _meaning(notes.get(each.name, ""), hints[each.name]))
        for each in fields(kind)
        if (name, each.name) != ("decode", "root_label")  # read from the treebank
    ]
    return f"### [{name}]\n\n{inspect.getdoc(kind)}\n\n{table(('Setting', 'Default', 'Meaning'), *rows)}"


def _default(field: Field[Any]) -> str:
    if field.default_factory is not MISSING or field.default is None:
        return "–"
    return "required" if field.default is MISSING else f"`{json.dumps(field.default)}`"


def _meaning(note: str, hint: Any) -> str:
    """Return the comment of a setting as a sentence, and its choices.

    >>> from typing import Literal
    >>> _meaning("exact: only one root", Literal["exact", "none"])
    'exact: only one root. One of `exact`, `none`.'
    """
    is_list = get_origin(hint) is tuple
    listed = [each for each in get_args(get_args(hint)[0] if is_list else hint) if isinstance(each, str)]
    sentence = note if note.partition(":")[0] in listed else note[:1].upper() + note[1:]
    names = ", ".join(f"`{each}`" for each in listed)
    return f"{sentence}." + (f" {'Any' if is_list else 'One'} of {names}." if len(listed) > 1 else "")


def parser_options() -> str:
    """Return a table of the options of a parser."""
    rows = [(f"`{each.name}`", f"`{each.flag}`", each.default, each.full_help) for each in OPTIONS.values()]
    return table(("Option", "Command line", "Default", "Meaning"), *rows)


REFERENCES: dict[str, Callable[[], str]] = {
    each.__name__: each for each in (command_line, recipe_settings, parser_options)
}
