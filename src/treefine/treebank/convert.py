"""A sentence from one treebank format into another, and what the other has no place for."""

from __future__ import annotations

from collections import Counter

from treefine.treebank.formats import Format
from treefine.treebank.sentence import BLANK, PLAIN, Sentence


def convert(sentence: Sentence, to: Format) -> Sentence:
    """The sentence in another format; in its own, it comes back as it is.

    UPOS is CoNLL-X's coarse tag and XPOS its fine one; CoNLL-2009 has one tag, XPOS if there is one and UPOS if not.
    CoNLL-2009 gets each value in its gold and in its predicted column.
    """
    source = sentence.format
    if source.title == to.title:
        return sentence
    blank = (BLANK,) * len(sentence)
    columns = [blank] * to.width
    columns[0] = sentence.column(0)
    columns[to.form] = sentence.forms
    fine = tuple([x if x != BLANK else u for x, u in zip(sentence.xpos, sentence.upos, strict=True)])
    coarse = tuple([u if u != BLANK else x for x, u in zip(sentence.xpos, sentence.upos, strict=True)])
    values = {
        to.lemma: sentence.column(source.lemma),
        to.xpos: sentence.xpos if to.is_ud else fine,
        to.feats: sentence.column(source.feats),
        to.head: sentence.column(source.head),
        to.deprel: sentence.labels,
    }
    if to.upos is not None:
        values[to.upos] = sentence.upos if to.is_ud else coarse
    for index, column in values.items():
        columns[index] = column
        if to.has_more_columns:
            columns[_twin(index)] = column
    comments = sentence.comments if to.is_ud else ()
    place = (sentence.path, sentence.line, sentence.number)
    return Sentence(comments, tuple(columns), range(len(sentence)), to, PLAIN, *place)


def _twin(index: int) -> int:
    """The predicted column of a gold one in CoNLL-2009, and the reverse: each two stand side by side."""
    return index ^ 1


def losses(sentence: Sentence, to: Format) -> Counter[str]:
    """How many things of each kind the other format has no place for."""
    source = sentence.format
    lost: Counter[str] = Counter()
    if source.title == to.title:
        return lost
    if not to.is_ud:
        lost["comment"] = len(sentence.comments)
    if source.is_ud:
        lost["multiword token"] = sum("-" in identifier for identifier in sentence.columns[0])
        lost["empty node"] = sum("." in identifier for identifier in sentence.columns[0])
    named: dict[str, int | None] = {"DEPS": source.deps, "MISC": source.misc}
    if source.name == "conllx":
        named = {"PHEAD": 8, "PDEPREL": 9}
    elif source.has_more_columns:
        named = {"PRED": 13}
        named |= {f"APRED{number}": 13 + number for number in range(1, len(sentence.columns) - 13)}
    if to.upos is None and any(tag != BLANK for tag in sentence.xpos):
        named["UPOS"] = source.upos
    for name, column in named.items():
        lost[name] = sum(cell != BLANK for cell in sentence.column(column))
    return +lost
