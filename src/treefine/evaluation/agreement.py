"""Agreement of two annotators of the same sentences: attachment, labels and tags, with Cohen's kappa."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import compress, zip_longest
from operator import eq
from typing import Any

from treefine.errors import AlignmentError, count
from treefine.evaluation.tables import Table, confusion_table
from treefine.treebank.sentence import BLANK, HasSentence, Sentence, sentences_in

_TAGS = ("upos", "xpos", "feats", "lemma")  # columns of a Sentence
_CONFUSIONS = 10  # listed in a report


@dataclass(frozen=True, slots=True)
class Agreement:
    """The agreement of two annotators, as shares from 0 to 1; None if there is nothing to compare.

    Labels are compared with their subtypes, FEATS as a whole. A tag column is None if both annotators left it blank.
    """

    sentences: int  # pairs that are compared
    words: int  # of these sentences
    other_words: int  # pairs that are left out because their words differ
    unfinished: int  # pairs that are left out because a head is blank
    uas: float | None  # words with the same head
    las: float | None  # words with the same head and label
    label: float | None  # words with the same label, whatever the head
    label_kappa: float | None  # Cohen's kappa of the labels of all words
    same_head_label_kappa: float | None  # and of the words with the same head
    upos: float | None
    upos_kappa: float | None
    xpos: float | None
    feats: float | None
    lemma: float | None
    identical_trees: float | None  # sentences in which all heads and labels agree
    label_confusions: Counter[tuple[str, str]] = field(default_factory=Counter)  # first label, second label

    @property
    def note(self) -> str:
        """The numbers of sentences and words, and of the pairs that are left out."""
        notes = [f"{count(self.words, 'word')} in {count(self.sentences, 'sentence')}."]
        for reason, number in (("their words differ", self.other_words), ("a head is blank", self.unfinished)):
            notes += [f"Left out because {reason}: {count(number, 'pair')} of sentences."] if number else []
        return " ".join(notes)

    def to_text(self, *, confusions: int = _CONFUSIONS) -> str:
        """Return a report for the terminal, with this many of the most frequent label confusions."""
        rows = (
            ("head (UAS)", self.uas, None),
            ("head and label (LAS)", self.las, None),
            ("label", self.label, self.label_kappa),
            ("label, if the head agrees", self.las / self.uas if self.uas and self.las is not None else None,
             self.same_head_label_kappa),
            ("UPOS", self.upos, self.upos_kappa),
            ("XPOS", self.xpos, None),
            ("FEATS", self.feats, None),
            ("lemma", self.lemma, None),
            ("whole tree", self.identical_trees, None),
        )  # fmt: skip
        shown = tuple(
            (name, f"{100 * share:.2f}", None if kappa is None else f"{kappa:.3f}")
            for name, share, kappa in rows
            if share is not None
        )
        parts = [self.note]
        if shown:
            parts.append(Table(("agreement on", "percent", "kappa"), shown).to_text())
        if confusions and self.label_confusions:
            table = confusion_table(self.label_confusions, most=confusions)
            parts.append(replace(table, header=("first label", "second label", "times")).to_text())
        return "\n\n".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return all values for JSON; the confusions are a list, the most frequent first."""
        confusions = confusion_table(self.label_confusions)
        listed = replace(confusions, header=("first", "second", "times")).to_records()
        return {each.name: getattr(self, each.name) for each in fields(self)} | {"label_confusions": listed}


def sentence_pairs(
    first: Iterable[Sentence | HasSentence], second: Iterable[Sentence | HasSentence]
) -> Iterator[tuple[Sentence, Sentence]]:
    """Yield the sentences of two treebanks in pairs. Raises AlignmentError at the end if one has more sentences."""
    n_first = n_second = 0
    path = ""
    for a, b in zip_longest(sentences_in(first, "The first treebank"), sentences_in(second, "The second treebank")):
        n_first, n_second = n_first + (a is not None), n_second + (b is not None)
        if a is not None and b is not None:
            path = b.path
            yield a, b
    if n_first != n_second:
        message = f"The first treebank has {count(n_first, 'sentence')}, but the second has {n_second:,}."
        raise AlignmentError(message, hint="Sentences are compared in order.", path=path)


def agreement_of_pairs(pairs: Iterable[tuple[Sentence, Sentence]]) -> Agreement:
    """Compare two annotations of the same sentences; count and leave out pairs with other words or a blank head."""
    n_sentences = other_words = unfinished = identical = 0
    labels, labels_at_same_head = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    tags = {name: Counter[tuple[str, str]]() for name in _TAGS}
    for a, b in pairs:
        different = differences(a, b)
        if different is None:
            other_words += 1
        elif None in a.heads or None in b.heads:
            unfinished += 1
        else:
            n_sentences += 1
            identical += not different
            both = list(zip(a.labels, b.labels, strict=True))
            labels.update(both)
            labels_at_same_head.update(compress(both, map(eq, a.heads, b.heads)))
            for name, counted in tags.items():
                counted.update(zip(getattr(a, name), getattr(b, name), strict=True))
    for counted in tags.values():
        if set(counted) == {(BLANK, BLANK)}:
            counted.clear()
    words = labels.total()
    return Agreement(
        sentences=n_sentences,
        words=words,
        other_words=other_words,
        unfinished=unfinished,
        uas=_share(labels_at_same_head.total(), words),
        las=_share(_same(labels_at_same_head), words),
        label=_share(_same(labels), words),
        label_kappa=cohen_kappa(labels),
        same_head_label_kappa=cohen_kappa(labels_at_same_head),
        upos_kappa=cohen_kappa(tags["upos"]),
        identical_trees=_share(identical, n_sentences),
        label_confusions=Counter({pair: times for pair, times in labels.items() if pair[0] != pair[1]}),
        **{name: _share(_same(counted), counted.total()) for name, counted in tags.items()},
    )


def cohen_kappa(pairs: Mapping[tuple[str, str], int]) -> float | None:
    """Return Cohen's kappa, from the number of times that each pair of values was chosen; None without pairs.

    Kappa is (observed - expected) / (1 - expected) agreement. If both annotators always chose the same single value,
    the expected agreement is 1, and kappa is defined as 1.

    >>> cohen_kappa({("yes", "yes"): 20, ("yes", "no"): 5, ("no", "yes"): 10, ("no", "no"): 15})
    0.4
    """
    total = sum(pairs.values())
    if not total:
        return None
    first, second = Counter[str](), Counter[str]()
    for (a, b), times in pairs.items():
        first[a] += times
        second[b] += times
    # Multiplied by total², so that whole numbers make the result exact.
    expected = sum(times * second[value] for value, times in first.items())
    if expected == total * total:
        return 1.0
    return (_same(pairs) * total - expected) / (total * total - expected)


def differences(a: Sentence, b: Sentence) -> tuple[int, ...] | None:
    """Return the numbers of the words whose head or label differ, or None if the sentences have other words."""
    if a.forms != b.forms:
        return None
    arcs = zip(a.heads, a.labels, b.heads, b.labels, strict=True)
    return tuple(word for word, (*arc, head, label) in enumerate(arcs, start=1) if arc != [head, label])


def tag_differences(a: Sentence, b: Sentence) -> tuple[tuple[int, str, str], ...] | None:
    """Return the word number, the column and the value in `b` of each tag, feature set and lemma that differs.

    A column that one of the sentences leaves blank throughout is not compared. Return None if the words differ.
    """
    if a.forms != b.forms:
        return None
    compared = [name for name in _TAGS if all(set(getattr(each, name)) - {BLANK} for each in (a, b))]
    return tuple(
        (word.number, name, getattr(word, name))
        for word, own in zip(b.words, a.words, strict=True)
        for name in compared
        if getattr(word, name) != getattr(own, name)
    )


def _same(pairs: Mapping[tuple[str, str], int]) -> int:
    return sum(times for (a, b), times in pairs.items() if a == b)


def _share(part: int, total: int) -> float | None:
    return part / total if total else None
