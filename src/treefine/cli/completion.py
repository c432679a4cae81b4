"""Shell completion: the options that install it, and the names that it completes besides commands and options."""

from __future__ import annotations

from typing import Annotated, Literal

import typer
from typer._completion_classes import completion_init
from typer.completion import install_callback, show_callback

from treefine.evaluation.scores import RULES
from treefine.model.bundled import bundled_models
from treefine.training.recipe import BUNDLED_RECIPES
from treefine.treebank.formats import FORMATS

Shell = Literal["bash", "zsh", "fish", "powershell", "pwsh"]
# Typer's own options guess the shell from the process tree, which fails in scripts; ours take its name.
completion_init()


def _show(ctx: typer.Context, param: typer.CallbackParam, shell: str | None) -> None:
    show_callback(ctx, param, shell)


def _install(ctx: typer.Context, param: typer.CallbackParam, shell: str | None) -> None:
    install_callback(ctx, param, shell)


InstallOption = Annotated[
    Shell | None,
    typer.Option(
        "--install-completion",
        metavar="SHELL",
        help="Install completion for bash, zsh, fish, powershell or pwsh.",
        callback=_install,
        is_eager=True,
    ),
]
ShowOption = Annotated[
    Shell | None,
    typer.Option(
        "--show-completion", metavar="SHELL", help="Print the completion script.", callback=_show, is_eager=True
    ),
]


def complete_model(incomplete: str) -> list[str]:
    """Return the bundled models whose names start like this; without a match the shell completes file names."""
    return [name for name in bundled_models() if name.startswith(incomplete)]


def complete_recipe(incomplete: str) -> list[str]:
    """Return the bundled recipes whose names start like this."""
    return sorted(each.stem for each in BUNDLED_RECIPES.glob("*.toml") if each.stem.startswith(incomplete))


def complete_format(incomplete: str) -> list[str]:
    """Return the treebank formats whose names start like this."""
    return [name for name in FORMATS if name.startswith(incomplete)]


def complete_rule(incomplete: str) -> list[str]:
    """Return the scoring rules whose names start like this."""
    return [name for name in RULES if name.startswith(incomplete)]
