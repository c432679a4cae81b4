"""Treebanks from one format into another, and what the other has no place for."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator

from treefine.treebank.conllu import write_treebank
from treefine.treebank.formats import Format
from treefine.treebank.sentence import BLANK, PLAIN, Sentence

_NAMES_2009 = "ID FORM LEMMA PLEMMA POS PPOS FEAT PFEAT HEAD PHEAD DEPREL PDEPREL FILLPRED PRED".split()


def convert_treebank(sentences: Iterable[Sentence], target: str | os.PathLike[str], to: Format) -> Counter[str]:
    """Write the sentences in another format; return how many things of each kind it has no place for."""
    lost: Counter[str] = Counter()

    def converted() -> Iterator[Sentence]:
        for sentence in sentences:
            lost.update(losses(sentence, to))
            yield convert(sentence, to)

    write_treebank(converted(), target)
    return lost


def convert(sentence: Sentence, to: Format) -> Sentence:
    """The sentence in another format; in its own, it comes back as it is.

    UPOS is CoNLL-X's coarse tag and XPOS its fine one. CoNLL-2009 has one tag, XPOS or, where that is blank, UPOS; it
    gets each value in its gold and in its predicted column.
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
    place = (sentence.path, sentence.line, sentence.number)
    return Sentence(comments, tuple(columns), range(len(sentence)), to, PLAIN, *place)


def _only_tag(sentence: Sentence) -> tuple[str, ...]:
    return tuple([x if x != BLANK else u for x, u in zip(sentence.xpos, sentence.upos, strict=True)])


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
