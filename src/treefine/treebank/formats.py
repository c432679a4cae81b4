"""CoNLL-U, CoNLL-X and CoNLL-2009: the columns of each, and conversion between them."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePath

from treefine.errors import TreebankError
from treefine.treebank.files import COMPRESSED
from treefine.treebank.sentence import BLANK, CONLLU, PLAIN, Format, Sentence

CONLLX = Format("conllx", "CoNLL-X", (".conllx", ".conll"), 10)
CONLL09 = Format(
    "conll09", "CoNLL-2009", (".conll09", ".conll2009"), 14, True, upos=None, xpos=4, feats=6, head=8, deprel=10
)
# The same file, with the columns of an automatic tagger (PLEMMA, PPOS, PFEAT) instead of the gold ones.
CONLL09_PREDICTED = Format(
    "conll09-predicted", "CoNLL-2009", (), 14, True, lemma=3, upos=None, xpos=5, feats=7, head=8, deprel=10
)
FORMATS = {each.name: each for each in (CONLLU, CONLLX, CONLL09, CONLL09_PREDICTED)}
TREEBANK_SUFFIXES = tuple(suffix for each in FORMATS.values() for suffix in each.suffixes)
_NAMES_2009 = "ID FORM LEMMA PLEMMA POS PPOS FEAT PFEAT HEAD PHEAD DEPREL PDEPREL FILLPRED PRED".split()


def format_of(path: str, name: str | None = None) -> Format:
    """Return the format called `name`. Without a name, the file's suffix decides; unknown suffixes mean CoNLL-U.

    >>> format_of("wsj/test.conllx.gz").title
    'CoNLL-X'
    """
    if name is not None:
        if not isinstance(name, str) or name not in FORMATS:
            raise TreebankError(f"There is no format {name!r}.", hint=f"Choose one of {', '.join(FORMATS)}.")
        return FORMATS[name]
    return format_by_name(path) or CONLLU


def format_by_name(path: str) -> Format | None:
    """Return the format of a file's suffix, or None if the suffix is unknown."""
    return next((each for each in FORMATS.values() if suffix_of(path) in each.suffixes), None)


def suffix_of(path: str) -> str:
    """Return the last suffix of a file's name in lower case, ignoring compression suffixes; "" if it has no suffix.

    >>> suffix_of("Notes.TXT.gz")
    '.txt'
    """
    suffixes = [suffix for suffix in PurePath(path.lower()).suffixes if suffix not in COMPRESSED]
    return suffixes[-1] if suffixes else ""


def convert(sentence: Sentence, to: Format) -> Sentence:
    """Return the sentence in another format; in its own format, return it unchanged.

    UPOS becomes the coarse tag of CoNLL-X and XPOS the fine one. CoNLL-2009 has one tag: XPOS, or UPOS if XPOS is
    blank. Its gold and its predicted columns get the same values.
    """
    source = sentence.format
    if source.title == to.title:
        return sentence
    columns = [(BLANK,) * len(sentence)] * to.width
    columns[0] = sentence.column(0)
    columns[to.form] = sentence.forms
    values = {
        to.lemma: sentence.column(source.lemma),
        to.xpos: sentence.xpos if to.upos is not None else _only_tag(sentence),
        to.feats: sentence.column(source.feats),
        to.head: sentence.column(source.head),
        to.deprel: sentence.labels,
    }
    if to.upos is not None:
        values[to.upos] = sentence.upos
    for index, column in values.items():
        columns[index] = column
        if to.has_more_columns:
            columns[_twin(index)] = column
    comments = sentence.comments if to.is_ud else ()
    place = (sentence.path, sentence.line, sentence.number, sentence.treebank)
    return Sentence(comments, tuple(columns), range(len(sentence)), to, PLAIN, *place)


def _only_tag(sentence: Sentence) -> tuple[str, ...]:
    return tuple([x if x != BLANK else u for x, u in zip(sentence.xpos, sentence.upos, strict=True)])


def _twin(index: int) -> int:
    """Return the predicted column of a gold column in CoNLL-2009, or the reverse; the two are neighbours."""
    return index ^ 1


def losses(sentence: Sentence, to: Format) -> Counter[str]:
    """Count the items of each kind that the other format cannot store."""
    source = sentence.format
    lost: Counter[str] = Counter()
    if source.title == to.title:
        return lost
    if not to.is_ud:
        lost["comment"] = len(sentence.comments)
    if source.is_ud:
        lost["multiword token"] = sum("-" in identifier for identifier in sentence.columns[0])
        lost["empty node"] = sum("." in identifier for identifier in sentence.columns[0])
        lost["DEPS"], lost["MISC"] = (_filled(sentence, column) for column in (source.deps, source.misc))
    elif source.has_more_columns:
        for kept in (source.lemma, source.xpos, source.feats, source.head, source.deprel):
            pairs = zip(sentence.column(kept), sentence.column(_twin(kept)), strict=True)
            lost[_NAMES_2009[_twin(kept)]] = sum(twin not in (BLANK, value) for value, twin in pairs)
        lost["FILLPRED"], lost["PRED"] = (_filled(sentence, column) for column in (12, 13))
        lost["APRED"] = sum(_filled(sentence, column) for column in range(14, len(sentence.columns)))
    else:
        lost["PHEAD"], lost["PDEPREL"] = (_filled(sentence, column) for column in (8, 9))
    if to.upos is None:
        lost["UPOS"] = sum(u not in (BLANK, tag) for u, tag in zip(sentence.upos, _only_tag(sentence), strict=True))
    return +lost


def _filled(sentence: Sentence, column: int | None) -> int:
    return sum(cell != BLANK for cell in sentence.column(column))
