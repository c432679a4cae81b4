"""The three treebank formats, as the place of each column: CoNLL-U, CoNLL-X and CoNLL-2009."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from treefine.errors import TreebankError
from treefine.treebank.files import COMPRESSED


@dataclass(frozen=True, slots=True)
class Format:
    """Where a format keeps what, columns counted from 0; None where it has no such column. ID is always the first."""

    name: str
    title: str
    suffixes: tuple[str, ...]
    width: int  # columns of a line; CoNLL-2009 adds one for each predicate of the sentence
    has_more_columns: bool = False
    is_ud: bool = False  # comments, multiword tokens, empty nodes, and exactly one root
    form: int = 1
    lemma: int = 2
    upos: int | None = 3
    xpos: int = 4
    feats: int = 5
    head: int = 6
    deprel: int = 7
    deps: int | None = None
    misc: int | None = None


CONLLU = Format("conllu", "CoNLL-U", (".conllu",), 10, is_ud=True, deps=8, misc=9)
CONLLX = Format("conllx", "CoNLL-X", (".conllx", ".conll"), 10)
CONLL09 = Format(
    "conll09", "CoNLL-2009", (".conll09", ".conll2009"), 14, True, upos=None, xpos=4, feats=6, head=8, deprel=10
)
# The same file, seen through the columns of an automatic tagger (PLEMMA, PPOS, PFEAT) instead of the gold ones.
CONLL09_PREDICTED = Format(
    "conll09-predicted", "CoNLL-2009", (), 14, True, lemma=3, upos=None, xpos=5, feats=7, head=8, deprel=10
)
FORMATS = {each.name: each for each in (CONLLU, CONLLX, CONLL09, CONLL09_PREDICTED)}


def format_of(path: str, name: str | None = None) -> Format:
    """The format called `name`, or else the one that the file's name tells; CoNLL-U where it tells nothing.

    >>> format_of("wsj/test.conllx.gz").title
    'CoNLL-X'
    """
    if name is not None:
        if name not in FORMATS:
            raise TreebankError(f"There is no format {name!r}.", hint=f"Choose one of {', '.join(FORMATS)}.")
        return FORMATS[name]
    return format_by_name(path) or CONLLU


def format_by_name(path: str) -> Format | None:
    """The format that a file's name tells, if it tells any."""
    return next((each for each in FORMATS.values() if suffix_of(path) in each.suffixes), None)


def suffix_of(path: str) -> str:
    """The last suffix of a file's name that does not stand for packing, in lower case; empty without one.

    >>> suffix_of("Notes.TXT.gz")
    '.txt'
    """
    suffixes = [suffix for suffix in PurePath(path.lower()).suffixes if suffix not in COMPRESSED]
    return suffixes[-1] if suffixes else ""
