"""The tables of docs/settings.md, generated from the settings classes, their comments and the parser options."""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

from benchmarks.markdown import table
from treefine.config import BiLSTMSettings, SegmenterSettings, old_names
from treefine.parsing.options import ParserOptions
from treefine.training.new_recipe import meanings
from treefine.training.recipe import MixedSettings, PretrainedSettings, Recipe, SegmenterTraining


def recipe_settings() -> str:
    """Return a heading, a sentence and a table for each section of a recipe."""
    kinds = get_type_hints(Recipe)
    sections: dict[str, Any] = {}
    for each in fields(Recipe):
        if each.name == "encoder":
            sections["encoder"] = PretrainedSettings
            sections['encoder] with family = "bilstm"'] = BiLSTMSettings
        elif each.name == "segmenter":
            sections |= {"segmenter": SegmenterTraining, "segmenter.network": SegmenterSettings}
        elif is_dataclass(kinds[each.name]):
            sections[each.name] = kinds[each.name]
        if each.name == "initial":
            sections["initial.mix.NAME"] = MixedSettings
    return "\n\n".join(_section(name, kind) for name, kind in sections.items())


def _section(name: str, kind: Any) -> str:
    heading = f"### [{name}]" if "]" not in name else f"### [{name}"
    notes, hints = meanings(kind), get_type_hints(kind)
    rows = [
        (f"`{each.name}`", _default(each), _meaning(notes.get(each.name, ""), hints[each.name]))
        for each in fields(kind)
        if (name, each.name) != ("decode", "root_label")  # read from the treebank
    ]
    return f"{heading}\n\n{inspect.getdoc(kind)}\n\n{table(('Setting', 'Default', 'Meaning'), *rows)}"


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


def renamed_settings() -> str:
    """Return a table of the old and the current names of settings."""
    names: dict[str, list[str]] = {}
    for old, new in old_names(Recipe):
        names.setdefault(old, []).append(new)
    return table(
        ("Old name", "Name"), *((f"`{old}`", " or ".join(f"`{each}`" for each in new)) for old, new in names.items())
    )


def parser_options() -> str:
    """Return a table of the options of a parser, from the docstring of `ParserOptions`."""
    found = re.findall(r"^(\w+): (.+(?:\n    .+)*)", inspect.getdoc(ParserOptions) or "", re.MULTILINE)
    texts = {name: " ".join(text.split()).partition(" Default: ") for name, text in found}
    rows = [
        (f"`{name}`", f"`{command_line_name(name)}`", default.rstrip(".") or "–", text)
        for name, (text, _, default) in texts.items()
    ]
    return table(("Option", "Command line", "Default", "Meaning"), *rows)


def command_line_name(option: str) -> str:
    """Return the name of a parser option on the command line.

    >>> command_line_name("max_steps"), command_line_name("stop_above")
    ('--steps', '--stop-above')
    """
    return "--" + {"max_steps": "steps", "is_projective": "projective"}.get(option, option).replace("_", "-")


SETTINGS_PAGE = {each.__name__: each for each in (recipe_settings, renamed_settings, parser_options)}
