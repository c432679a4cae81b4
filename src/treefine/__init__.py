"""treefine: a dependency parser that corrects its own trees.

    import treefine

    nlp = treefine.load("en")
    for sentence in nlp("The dog barked. Nobody knew why."):
        for word in sentence:
            print(word.form, word.head, word.label)

`help(treefine.Parser)` lists everything that a parser can do. Reading and scoring treebanks does not import torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from treefine.errors import (
    AlignmentError,
    ConfigError,
    LanguageWarning,
    LongSentenceWarning,
    ModelError,
    TreebankError,
    TreefineError,
    UnknownLabelWarning,
)
from treefine.evaluation.scores import Score, evaluate
from treefine.treebank.conllu import read_treebank, write_treebank
from treefine.treebank.constraints import Constraints
from treefine.treebank.graph import Graph
from treefine.treebank.sentence import Sentence, Word
from treefine.version import __version__ as __version__

if TYPE_CHECKING:
    from treefine.drawing.html import to_html
    from treefine.drawing.svg import to_svg
    from treefine.parsing.options import ParserOptions
    from treefine.parsing.parse import Parse, Parses
    from treefine.parsing.parser import Parser, load
    from treefine.parsing.results import Step
    from treefine.parsing.table import to_table

__all__ = [
    "AlignmentError",
    "ConfigError",
    "Constraints",
    "Graph",
    "LanguageWarning",
    "LongSentenceWarning",
    "ModelError",
    "Parse",
    "Parser",
    "ParserOptions",
    "Parses",
    "Score",
    "Sentence",
    "Step",
    "TreebankError",
    "TreefineError",
    "UnknownLabelWarning",
    "Word",
    "evaluate",
    "load",
    "read_treebank",
    "to_html",
    "to_svg",
    "to_table",
    "write_treebank",
]


# The modules of names that are imported on first use, because they need torch or are rarely used.
_LATER = {
    "Parse": "parsing.parse",
    "Parser": "parsing.parser",
    "ParserOptions": "parsing.options",
    "Parses": "parsing.parse",
    "Step": "parsing.results",
    "load": "parsing.parser",
    "to_html": "drawing.html",
    "to_svg": "drawing.svg",
    "to_table": "parsing.table",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"treefine.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
