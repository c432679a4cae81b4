"""Where the errors are: scores of each label, and what is taken for what."""

from __future__ import annotations

from collections import Counter

from treefine.evaluation.agreement import compared_labels
from treefine.evaluation.alignment import UNALIGNED, Pair
from treefine.evaluation.conll18 import Score, marks, rule_of
from treefine.evaluation.words import AT_ROOT, Words


def label_scores(pair: Pair, *, rule: str = "conll18") -> dict[str, Score]:
    """Precision, recall and F1 of each label, head and label right; the most frequent gold label first."""
    found = marks(pair, "LAS", rule=rule)
    ours, theirs = (compared_labels(words, is_ud=rule_of(rule).is_ud) for words in (pair.gold, pair.system))
    gold = Counter(label for label, counts in zip(ours, found.gold, strict=True) if counts)
    system = Counter(label for label, counts in zip(theirs, found.system, strict=True) if counts)
    correct = Counter(label for label, is_right in zip(ours, found.correct, strict=True) if is_right)
    aligned = Counter(
        label for label, counts, s in zip(ours, found.gold, pair.system_of, strict=True) if counts and s != UNALIGNED
    )
    order = sorted(gold | system, key=lambda label: (-gold[label], label))
    return {label: Score(gold[label], system[label], correct[label], aligned[label]) for label in order}


def label_confusions(pair: Pair, *, rule: str = "conll18") -> Counter[tuple[str, str]]:
    """How often a gold label (first) was given another one (second), over the aligned words."""
    found = marks(pair, "LAS", rule=rule)
    ours, theirs = (compared_labels(words, is_ud=rule_of(rule).is_ud) for words in (pair.gold, pair.system))
    return Counter(
        (ours[g], theirs[s])
        for g, s in enumerate(pair.system_of)
        if found.gold[g] and s != UNALIGNED and ours[g] != theirs[s]
    )


def head_confusions(pair: Pair, *, rule: str = "conll18") -> Counter[tuple[str, str]]:
    """How often a word that hangs on a word of one tag (first) was hung on another word of some tag (second)."""
    found = marks(pair, "UAS", rule=rule)
    confusions: Counter[tuple[str, str]] = Counter()
    for g, s in enumerate(pair.system_of):
        if found.gold[g] and s != UNALIGNED and not found.correct[g]:
            head = pair.system.heads[s]
            confusions[_tag(pair.gold, pair.gold.heads[g]), _tag(pair.system, head)] += 1
    return confusions


def _tag(words: Words, word: int) -> str:
    if word == AT_ROOT:
        return "ROOT"
    return words.upos[word] if words.upos[word] != "_" else words.xpos[word]
