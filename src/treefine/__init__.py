"""treefine: a dependency parser that corrects itself. Reading and measuring treebanks loads no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treefine.errors import AlignmentError, ConfigError, ModelError, TreebankError, TreefineError
from treefine.evaluation.conll18 import Score, evaluate
from treefine.treebank.conllu import read_treebank, write_treebank
from treefine.treebank.graph import Graph
from treefine.treebank.sentence import Sentence, Word
from treefine.version import __version__ as __version__

if TYPE_CHECKING:
    from treefine.parsing.parser import Parser
    from treefine.parsing.steps import Step

__all__ = [
    "AlignmentError",
    "ConfigError",
    "Graph",
    "ModelError",
    "Parser",
    "Score",
    "Sentence",
    "Step",
    "TreebankError",
    "TreefineError",
    "Word",
    "evaluate",
    "read_treebank",
    "write_treebank",
]


def __getattr__(name: str) -> Any:
    """Parser and Step on first use, since they load torch."""
    if name == "Parser":
        from treefine.parsing.parser import Parser

        return Parser
    if name == "Step":
        from treefine.parsing.steps import Step

        return Step
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
