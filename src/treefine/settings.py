"""Settings from the values of a JSON or TOML file, with all faults told together."""

from __future__ import annotations

import difflib
import json
import math
import types
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from treefine.errors import ConfigError

LARGEST = 10_000_000  # of any number; a larger one is a slip, or damage
Settings = TypeVar("Settings")


def read_settings(kind: type[Settings], values: object, *, path: str = "") -> Settings:
    """Settings of this kind from the values of a JSON or TOML file; all faults come in one report.

    >>> from treefine.config import ScorerSettings
    >>> read_settings(ScorerSettings, {"arc_width": 50}).arc_width
    50
    >>> read_settings(ScorerSettings, {"arc_with": 50})
    Traceback (most recent call last):
    treefine.errors.ConfigError: The settings have 1 fault: arc_with is unknown; did you mean arc_width?
    """
    found, faults = try_settings(kind, values)
    if found is None:
        count = f"{len(faults)} fault{'s' if len(faults) > 1 else ''}"
        raise ConfigError(f"The settings have {count}: {'; '.join(faults)}", path=path)
    return found


def try_settings(kind: type[Settings], values: object) -> tuple[Settings | None, list[str]]:
    """Settings of this kind, or None and all that is wrong with the values."""
    faults: list[str] = []
    found = _read(kind, values, "", faults)
    return (None if faults else found), faults


def _read(kind: Any, value: object, name: str, faults: list[str]) -> Any:
    if types.NoneType in get_args(kind):  # what may be left out
        if value is None:
            return None
        kind = get_args(kind)[0]
    if _is_section(kind):
        return _read_section(kind, value, name, faults)
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            faults.append(_choice(name, value, get_args(kind)))
    elif get_origin(kind) is tuple:
        if not isinstance(value, (list, tuple)):
            faults.append(f"{name} = {_shown(value)}; it must be a list")
            return ()
        return tuple(_read(get_args(kind)[0], each, name, faults) for each in value)
    elif get_origin(kind) is dict:
        if not isinstance(value, Mapping):
            faults.append(f"{name} = {_shown(value)}; it must be a table")
            return {}
        inner = get_args(kind)[1]
        return {str(key): _read(inner, each, f"{name}.{_named(key)}", faults) for key, each in value.items()}
    elif kind in (int, float) and isinstance(value, (int, kind)) and type(value) is not bool and abs(value) < math.inf:
        if value < 0 or value > LARGEST:
            wrong = "must not be negative" if value < 0 else f"must not be over {LARGEST:,}"
            faults.append(f"{name} = {_shown(value)}; it {wrong}")
            return value
        return kind(value)
    elif kind in (int, float) or type(value) is not kind:
        names = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}
        faults.append(f"{name} = {_shown(value)}; it must be {names[kind]}")
    return value


def _read_section(kind: Any, value: object, name: str, faults: list[str]) -> Any:
    place = f"[{name}] " if name else ""
    if not isinstance(value, Mapping):
        faults.append(f"{place}{_shown(value)} is not a section of settings")
        return None
    if not is_dataclass(kind):
        kind = _of_family(get_args(kind), value, place, faults)
        if kind is None:
            return None
    types_of = get_type_hints(kind)
    known = {each.name: each for each in fields(kind)}
    before = len(faults)
    for key in value:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            faults.append(f"{place}{_named(key)} is unknown" + (f"; did you mean {near[0]}?" if near else ""))
    read = {}
    for key, each in known.items():
        if key in value:
            inner = f"{name}.{key}".lstrip(".") if _holds_sections(types_of[key]) else place + key
            read[key] = _read(types_of[key], value[key], inner, faults)
        elif each.default is MISSING and each.default_factory is MISSING:
            faults.append(f"{place}{key} is missing")
    if len(faults) > before:
        return None
    try:
        return kind(**read)
    except ValueError as error:
        faults.extend(f"{place}{fault}" for fault in error.args)
        return None


def _is_section(kind: Any) -> bool:
    return is_dataclass(kind) or get_origin(kind) in (Union, types.UnionType)


def _holds_sections(kind: Any) -> bool:
    """Whether this is a section, or several of them by name."""
    return _is_section(kind) or (get_origin(kind) is dict and _is_section(get_args(kind)[1]))


def _of_family(kinds: tuple[Any, ...], value: Mapping[str, object], place: str, faults: list[str]) -> Any:
    """The one of several kinds of section whose `family` the value names."""
    families = {family: kind for kind in kinds for family in get_args(get_type_hints(kind)["family"])}
    found = value.get("family")
    for family, kind in families.items():
        if family == found:
            return kind
    faults.append(f"{place}family is missing" if found is None else _choice(f"{place}family", found, families))
    return None


def _choice(name: str, value: object, choices: Iterable[str]) -> str:
    return f"{name} = {_shown(value)}; choose {' or '.join(map(_shown, choices))}"


def _named(key: object) -> str:
    return str(key) if str(key).isidentifier() else _shown(key)


def _shown(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):  # Python writes no number of over 4300 digits, and no list of over 1000 levels
        return "a value too large to show"
