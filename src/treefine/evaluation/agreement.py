"""In what a gold word and its system word agree: tags, lemma, head, label, function words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import and_, eq
from typing import TypeAlias

from treefine.evaluation.alignment import UNALIGNED, Pair
from treefine.evaluation.words import AT_ROOT, Words

# The lists of the CoNLL 2018 shared task, not those of today's guidelines: scores must stay comparable.
CONTENT_LABELS = frozenset(
    "nsubj obj iobj csubj ccomp xcomp obl vocative expl dislocated advcl advmod discourse nmod appos nummod acl amod "
    "conj fixed flat compound list parataxis orphan goeswith reparandum root dep".split()
)
FUNCTION_LABELS = frozenset("aux cop mark det clf case cc".split())
UNIVERSAL_FEATURES = frozenset(
    "PronType NumType Poss Reflex Foreign Abbr Gender Animacy Number Case Definite Degree VerbForm Mood Tense Aspect "
    "Voice Evident Polarity Person Polite".split()
)

# A word is right under a metric if the gold and the system word agree in all of these.
AGREEMENTS = {
    "UPOS": ("upos",),
    "XPOS": ("xpos",),
    "UFeats": ("feats",),
    "AllTags": ("upos", "xpos", "feats"),
    "Lemmas": ("lemma",),
    "UAS": ("head",),
    "LAS": ("head", "label"),
    "LA": ("label",),
    "CLAS": ("head", "label"),
    "MLAS": ("head", "label", "upos", "feats", "function words"),
    "BLEX": ("head", "label", "lemma"),
}
CONTENT_METRICS = frozenset(["CLAS", "MLAS", "BLEX"])  # count content words only

FunctionWord: TypeAlias = tuple[int, str, str, str]  # which gold word it is, label, UPOS, FEATS


def compared_labels(words: Words, *, is_ud: bool) -> list[str]:
    """The labels as they are compared: without subtypes in UD."""
    if not is_ud:
        return words.labels
    bare = {label: label.partition(":")[0] for label in set(words.labels)}
    return [bare[label] for label in words.labels]


def agreements_of(pair: Pair, kinds: Iterable[str], *, is_ud: bool) -> dict[str, list[bool]]:
    """For each kind of annotation and each gold word, whether its system word says the same; False if it has none."""
    gold, system = pair.gold, pair.system

    def same(ours: Sequence[object], theirs: Sequence[object]) -> list[bool]:
        padded = [*theirs, None, None]  # UNALIGNED counts from the end, where nothing equals anything
        return list(map(eq, ours, map(padded.__getitem__, pair.system_of)))

    def same_lemma() -> list[bool]:
        agree = same(gold.lemmas, system.lemmas)
        for g, lemma in enumerate(gold.lemmas):
            if lemma == "_" and pair.system_of[g] != UNALIGNED:
                agree[g] = True  # a gold file without a lemma agrees with any
        return agree

    def same_function_words() -> list[bool]:
        ours = zip(range(len(gold)), labels[0], gold.upos, feats[0], strict=True)
        theirs = zip(pair.gold_of, labels[1], system.upos, feats[1], strict=True)
        return same(_function_words(gold, [*ours]), _function_words(system, [*theirs]))

    labels = [compared_labels(words, is_ud=is_ud) for words in (gold, system)]
    feats = [_universal(words.feats) for words in (gold, system)]
    mapped_heads = [*map([*pair.gold_of, AT_ROOT].__getitem__, system.heads)]  # AT_ROOT counts from the end, too
    compare = {
        "head": lambda: same(gold.heads, mapped_heads),
        "label": lambda: same(*labels),
        "upos": lambda: same(gold.upos, system.upos),
        "xpos": lambda: same(gold.xpos, system.xpos),
        "feats": lambda: same(*feats),
        "lemma": same_lemma,
        "function words": same_function_words,
    }
    return {kind: compare[kind]() for kind in kinds}


def right_words(metric: str, counted: list[bool], agreements: Mapping[str, list[bool]]) -> list[bool]:
    """The gold words that count and are right under the metric."""
    return reduce(lambda a, b: list(map(and_, a, b)), [agreements[each] for each in AGREEMENTS[metric]], counted)


def _function_words(words: Words, described: Sequence[FunctionWord]) -> list[tuple[FunctionWord, ...]]:
    """The function words that hang on each word, in their order."""
    children: dict[int, list[FunctionWord]] = {}
    for head, child in zip(words.heads, described, strict=True):
        if child[1] in FUNCTION_LABELS:
            children.setdefault(head, []).append(child)
    return [tuple(children.get(word, ())) for word in range(len(words))]


def _universal(column: Sequence[str]) -> list[str]:
    """Each FEATS cell with its universal features alone, sorted."""
    reduced = {
        feats: "|".join(sorted(each for each in feats.split("|") if each.partition("=")[0] in UNIVERSAL_FEATURES))
        for feats in set(column)
    }
    return [reduced[feats] for feats in column]
