"""Find words whose label and universal tag contradict each other, by the rules of UD.

The rules are those of the UD guidelines (https://universaldependencies.org/u/dep/ and /u/pos/) that UD checks in every
language, at level 3 of its validation (https://universaldependencies.org/contributing/validation.html).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import BLANK

UPOS = frozenset("ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split())
_CONTENT = frozenset("NOUN PROPN ADJ PRON DET NUM VERB AUX INTJ".split())  # never conjunctions

# The tags that each main type of label allows. Other types allow all tags except PUNCT.
ALLOWED: Mapping[str, frozenset[str]] = {
    "advmod": frozenset(("ADV", "ADJ", "CCONJ", "DET", "PART", "SYM")),
    "aux": frozenset(("AUX",)),
    "case": UPOS - {"PROPN", "ADJ", "PRON", "DET", "NUM", "AUX", "PUNCT"},
    "cc": UPOS - _CONTENT - {"PUNCT"},
    "cop": frozenset(("AUX", "PRON", "DET", "SYM")),
    "det": frozenset(("DET", "PRON")),
    "expl": frozenset(("PRON", "DET", "PART")),
    "mark": UPOS - _CONTENT - {"PUNCT"},
    "nummod": frozenset(("NUM", "NOUN", "SYM")),
    "punct": frozenset(("PUNCT",)),
    "root": UPOS,
}
_ELSEWHERE = UPOS - {"PUNCT"}
_HEADS_OF = ("fixed", "goeswith")  # the first word of such an expression has the label of the whole expression


def follows_ud(labels: Collection[str], upos: Collection[str]) -> bool:
    """Return whether these labels and tags are those of UD, so that its rules apply.

    >>> follows_ud(["root", "det", "case", "cc", "mark", "aux", "punct"], ["DET", "NOUN"])
    True
    >>> follows_ud(["ROOT", "NMOD", "P"], ["DET", "NOUN"]), follows_ud(["root", "det", "punct"], ["DT", "NN"])
    (False, False)
    """
    known = {main_type(each) for each in labels} & ALLOWED.keys()
    return 2 * len(known) > len(ALLOWED) and bool(upos) and UPOS.issuperset(upos)


def main_type(label: str) -> str:
    """Return the label without its subtype.

    >>> main_type("aux:pass")
    'aux'
    """
    return label.partition(":")[0]


def allows(label: str, upos: str) -> bool:
    """Return whether a word with this label may have this tag.

    A blank tag or label contradicts nothing, and neither does a tag of another tagset.

    >>> allows("det", "DET"), allows("det", "ADV"), allows("aux:pass", "VERB"), allows("nsubj", "PUNCT")
    (True, False, False, False)
    """
    return label == BLANK or upos not in UPOS or upos in ALLOWED.get(main_type(label), _ELSEWHERE)


def contradictions(arcs: Arcs, upos: Sequence[str]) -> list[int]:
    """Return the numbers of the words whose tag their label does not allow.

    The first word of a fixed expression, or of a word that is written as several, may have any tag.

    >>> contradictions(Arcs((2, 3, 0), ("det", "nsubj", "root")), ("ADV", "NOUN", "VERB"))
    [1]
    >>> contradictions(Arcs((0, 1), ("cc", "fixed")), ("ADV", "PUNCT"))
    []
    """
    exempt = set(exempt_words(arcs))
    return [
        word
        for word, (head, label, tag) in enumerate(zip(*arcs, upos, strict=True), start=1)
        if head is not None and word not in exempt and not allows(label, tag)
    ]


def exempt_words(arcs: Arcs) -> Iterable[int]:
    """Yield the words that start an expression of several words, and the words that continue it."""
    for word, (head, label) in enumerate(zip(*arcs, strict=True), start=1):
        if main_type(label) in _HEADS_OF and head is not None:
            yield head
            yield word
