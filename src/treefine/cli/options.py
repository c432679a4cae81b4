"""How a command declares its options, and those that several commands have."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import Field, fields, is_dataclass
from typing import Any, get_type_hints

import typer
from typer.models import OptionInfo

from treefine.evaluation.scores import RULES
from treefine.model.bundled import bundled_models
from treefine.parsing.options import OPTIONS, Option, ParserOptions
from treefine.treebank.conllu import FORMATS


def argument(default: object, metavar: str, description: str, **settings: Any) -> Any:
    """Declare an argument of a command, as `option` does; the default of a required one is `...`."""
    return typer.Argument(default, metavar=metavar, help=description, **_settings(**settings))


def option(default: object, usage: str, description: str, **settings: Any) -> Any:
    """Declare an option of a command; `usage` is its flags and its metavar, as in "-o --output FILE".

    `shown` describes the default, and a shell completes `names`.
    """
    flags = [part for part in usage.split() if part.startswith("-")]
    metavar = " ".join(part for part in usage.split() if part not in flags) or None
    return typer.Option(default, *flags, metavar=metavar, help=description, **_settings(**settings))


def _settings(
    *, shown: str | bool = True, names: Callable[[], Iterable[str]] | None = None, **others: Any
) -> dict[str, Any]:
    def complete(incomplete: str) -> list[str]:  # without a match, the shell completes file names
        return [name for name in names() if name.startswith(incomplete)] if names else []

    return {"show_default": shown, **({"autocompletion": complete} if names else {}), **others}


def model_option(description: str, shown: str | bool = True) -> Any:
    """Declare the option --model, which can name a bundled model."""
    return option(None, "--model NAME|DIR", description, shown=shown, names=bundled_models)


FORMAT_NAMES = f"{', '.join([*FORMATS][:-1])} or {[*FORMATS][-1]}"
TREEBANKS = argument(None, "FILE", "Treebank files, folders or quoted patterns.", shown="standard input")
GOLD = argument(..., "GOLD", "Gold treebank, or a folder of gold treebanks.")
RULE = option(
    "conll18",
    "--rule RULE",
    "conll18 (UD, aligns words), conllx (no punctuation, by its characters), ptb (by its tag) or conll09 (all words).",
    names=RULES.keys,
)
INPUT_FORMAT = option(
    None, "--format FORMAT", f"Input format: {FORMAT_NAMES}.", shown="by the file names", names=FORMATS.keys
)
TREEBANK_KIND = option(None, "--from", "Input format.", shown="by the file name, else conllu")
NAMES = option(None, "--names NAME,…", "Names of the SYSTEMs in the results. Can be repeated.", shown="the file names")
FORCE = option(False, "--force", "Replace existing files.")
JSON = option(False, "--json", "Print the result as JSON.")
DEVICE = option(None, "--device DEVICE", OPTIONS["device"].help, shown=OPTIONS["device"].default)
THREADS = option(None, "--threads N", "Number of CPU threads.", shown="all usable cores, or OMP_NUM_THREADS", min=1)


def with_options(
    *, without: Collection[str] = (), defaults: Mapping[str, str] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let a command take the fields of a dataclass as options, instead of a parameter that has this type.

    The options of `ParserOptions` come from `OPTIONS`, except those in `without`; `defaults` describes defaults that
    differ. A field of another dataclass is declared by `option`, or has the arguments of `option` as its metadata.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command)
        parameters = list[inspect.Parameter]()
        groups = dict[str, list[str]]()
        for name, parameter in inspect.signature(command).parameters.items():
            fields_of = [_named(name, parameter.default, hints[name])]
            if hints[name] is ParserOptions:
                offered = [each for each in OPTIONS.values() if each.name not in without]
                fields_of = [_parameter(each, (defaults or {}).get(each.name, each.default)) for each in offered]
            elif is_dataclass(hints[name]):
                types = get_type_hints(hints[name])
                fields_of = [_named(each.name, _declared(each), types[each.name]) for each in fields(hints[name])]
                fields_of = [each for each in fields_of if isinstance(each.default, OptionInfo)]
            if is_dataclass(hints[name]):
                groups[name] = [each.name for each in fields_of]
            parameters += fields_of

        def run(**values: Any) -> None:
            for name, names in groups.items():
                chosen = {each: values.pop(each) for each in names}
                if hints[name] is ParserOptions:
                    chosen = {
                        each: OPTIONS[each].from_text(given) for each, given in chosen.items() if given is not None
                    }
                values[name] = hints[name](**chosen)
            command(**values)

        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": None}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate


def _parameter(declared: Option, shown: str) -> inspect.Parameter:
    is_flag = declared.type is bool
    usage = f"{declared.flag} {declared.metavar or ''}"
    limits = {"min": declared.at_least, "max": declared.at_most}
    default = option(False if is_flag else None, usage, declared.help, shown=False if is_flag else shown, **limits)
    return _named(declared.name, default, bool if is_flag else (declared.text_type or declared.type) | None)


def _declared(setting: Field[Any]) -> object:
    return option(setting.default, **setting.metadata) if setting.metadata else setting.default


def _named(name: str, default: object, annotation: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
