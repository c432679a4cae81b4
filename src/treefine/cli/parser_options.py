"""The options of a parser as options of a command, generated from `ParserOptions`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, get_type_hints

import typer

from treefine.parsing.options import OPTIONS, Option, options_from_text


def with_parser_options(
    *, without: Collection[str] = (), defaults: Mapping[str, str] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace the parameter `options: ParserOptions` of a command by one parameter for each parser option.

    `without` names options that the command does not offer. `defaults` describes defaults that differ.
    """
    offered = [each for each in OPTIONS.values() if each.name not in without]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        parameters = list[inspect.Parameter]()
        for name, each in inspect.signature(command).parameters.items():
            if name == "options":
                parameters += [_parameter(one, (defaults or {}).get(one.name, one.default)) for one in offered]
            else:
                parameters.append(each.replace(annotation=hints[name]))

        def run(**values: Any) -> None:
            chosen = {each.name: values.pop(each.name) for each in offered}
            command(**values, options=options_from_text(chosen))

        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": None}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate


def _parameter(option: Option, default: str) -> inspect.Parameter:
    is_flag = option.type is bool
    declared = typer.Option(
        option.flag,
        metavar=option.metavar,
        min=option.at_least,
        max=option.at_most,
        help=option.help,
        show_default=False if is_flag else default,
    )
    value_type: Any = bool if is_flag else (option.text_type or option.type) | None
    return inspect.Parameter(
        option.name,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=False if is_flag else None,
        annotation=Annotated[value_type, declared],
    )
