"""treefine: a dependency parser that corrects its own trees. Reading and scoring treebanks does not import torch."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from treefine.errors import AlignmentError, ConfigError, ModelError, TreebankError, TreefineError
from treefine.evaluation.scores import Score, evaluate
from treefine.treebank.conllu import read_treebank, write_treebank
from treefine.treebank.constraints import Constraints
from treefine.treebank.graph import Graph
from treefine.treebank.sentence import Sentence, Word
from treefine.version import __version__ as __version__

if TYPE_CHECKING:
    from treefine.parsing.parse import Parse
    from treefine.parsing.parser import Parser, load
    from treefine.parsing.results import Step
    from treefine.parsing.table import to_table

__all__ = [
    "AlignmentError",
    "ConfigError",
    "Constraints",
    "Graph",
    "ModelError",
    "Parse",
    "Parser",
    "Score",
    "Sentence",
    "Step",
    "TreebankError",
    "TreefineError",
    "Word",
    "evaluate",
    "load",
    "read_treebank",
    "to_table",
    "write_treebank",
]


# Modules of treefine.parsing.
_LATER = {"Parse": "parse", "Parser": "parser", "Step": "results", "load": "parser", "to_table": "table"}


def __getattr__(name: str) -> Any:
    """Import names that need torch, or are rarely used, on first use."""
    if name in _LATER:
        return getattr(import_module(f"treefine.parsing.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
