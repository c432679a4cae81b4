"""Where the errors are: scores of each label, and what is taken for what."""

from __future__ import annotations

from collections import Counter

from treefine.evaluation.agreement import compared_labels
from treefine.evaluation.alignment import UNALIGNED, Pair
from treefine.evaluation.conll18 import Marks, Score, rule_of


def label_scores(pair: Pair, found: Marks, *, rule: str = "conll18") -> dict[str, Score]:
    """Precision, recall and F1 of each label, from the marks of LAS; the most frequent gold label first."""
    ours, theirs = (compared_labels(words, is_ud=rule_of(rule).is_ud) for words in (pair.gold, pair.system))
    gold = Counter(label for label, counts in zip(ours, found.gold, strict=True) if counts)
    system = Counter(label for label, counts in zip(theirs, found.system, strict=True) if counts)
    correct = Counter(label for label, is_right in zip(ours, found.correct, strict=True) if is_right)
    aligned = Counter(
        label for label, counts, s in zip(ours, found.gold, pair.system_of, strict=True) if counts and s != UNALIGNED
    )
    order = sorted(gold | system, key=lambda label: (-gold[label], label))
    return {label: Score(gold[label], system[label], correct[label], aligned[label]) for label in order}


def label_confusions(pair: Pair, found: Marks, *, rule: str = "conll18") -> Counter[tuple[str, str]]:
    """How often a gold label (first) was given another one (second), over the aligned words that count."""
    ours, theirs = (compared_labels(words, is_ud=rule_of(rule).is_ud) for words in (pair.gold, pair.system))
    return Counter(
        (ours[g], theirs[s])
        for g, s in enumerate(pair.system_of)
        if found.gold[g] and s != UNALIGNED and ours[g] != theirs[s]
    )


def head_confusions(pair: Pair, found: Marks) -> Counter[tuple[str, str]]:
    """How often a word that hangs on a word of one tag (first) was hung on another word of some tag (second).

    `found` are the marks of UAS. Tags are UPOS, or XPOS where that is blank, or ROOT.
    """
    ours, theirs = [*pair.gold.tags(), "ROOT"], [*pair.system.tags(), "ROOT"]  # AT_ROOT counts from the end
    return Counter(
        (ours[pair.gold.heads[g]], theirs[pair.system.heads[s]])
        for g, s in enumerate(pair.system_of)
        if found.gold[g] and s != UNALIGNED and not found.correct[g]
    )
