"""Score a system file against a gold file, by the rule of its corpus: UD, CoNLL-X, Penn Treebank or CoNLL-2009."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from itertools import compress
from operator import eq, or_
from typing import TypeAlias, TypeVar

from treefine.errors import TreefineError
from treefine.evaluation.pairing import AT_ROOT, UNALIGNED, AlignedWords, Treebank, WordColumns, load_pairs, stretches
from treefine.treebank.conllu import read_treebank

# The lists of the CoNLL 2018 shared task, not of the current guidelines, so that scores stay comparable.
CONTENT_LABELS = frozenset(
    "nsubj obj iobj csubj ccomp xcomp obl vocative expl dislocated advcl advmod discourse nmod appos nummod acl amod "
    "conj fixed flat compound list parataxis orphan goeswith reparandum root dep".split()
)
FUNCTION_LABELS = frozenset("aux cop mark det clf case cc".split())
UNIVERSAL_FEATURES = frozenset(
    "PronType NumType Poss Reflex Foreign Abbr Gender Animacy Number Case Definite Degree VerbForm Mood Tense Aspect "
    "Voice Evident Polarity Person Polite".split()
)
PTB_PUNCTUATION = frozenset(["``", "''", ":", ",", ".", "PU"])  # PU is the Chinese treebank's only punctuation tag

# A word is right under a metric if gold and system agree in all of these.
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


_Value = TypeVar("_Value", bound=Hashable)
FunctionWord: TypeAlias = tuple[int, str, str, str]  # gold word, label, UPOS, FEATS


def agreements_of(pair: AlignedWords, kinds: Iterable[str]) -> dict[str, list[bool]]:
    """Return, for each kind of annotation, whether each gold word agrees with its system word; False if unaligned."""
    gold, system = pair.gold, pair.system

    def same(ours: Sequence[object], theirs: Sequence[object]) -> list[bool]:
        aligned = [None if word == UNALIGNED else theirs[word] for word in pair.system_of]
        return list(map(eq, ours, aligned))  # None equals no value

    def same_lemma() -> list[bool]:
        blank = [lemma == "_" and word != UNALIGNED for lemma, word in zip(gold.lemmas, pair.system_of, strict=True)]
        return [*map(or_, blank, same(gold.lemmas, system.lemmas))]  # a blank gold lemma agrees with any lemma

    def same_function_words() -> list[bool]:
        ours = zip(range(len(gold)), gold.labels, gold.upos, feats[0], strict=True)
        theirs = zip(pair.gold_of, system.labels, system.upos, feats[1], strict=True)
        return same(_function_words(gold, [*ours]), _function_words(system, [*theirs]))

    feats = [_universal(words.feats) for words in (gold, system)]
    mapped_heads = [AT_ROOT if head == AT_ROOT else pair.gold_of[head] for head in system.heads]
    compare = {
        "head": lambda: same(gold.heads, mapped_heads),
        "label": lambda: same(gold.labels, system.labels),
        "upos": lambda: same(gold.upos, system.upos),
        "xpos": lambda: same(gold.xpos, system.xpos),
        "feats": lambda: same(*feats),
        "lemma": same_lemma,
        "function words": same_function_words,
    }
    return {kind: compare[kind]() for kind in kinds}


def _function_words(words: WordColumns, described: Sequence[FunctionWord]) -> list[tuple[FunctionWord, ...]]:
    """Return the function words attached to each word, in order."""
    children: dict[int, list[FunctionWord]] = {}
    for head, child in zip(words.heads, described, strict=True):
        if child[1] in FUNCTION_LABELS:
            children.setdefault(head, []).append(child)
    return [tuple(children.get(word, ())) for word in range(len(words))]


def _universal(column: Sequence[str]) -> list[str]:
    """Return each FEATS cell with only its universal features, sorted."""
    reduced = {
        feats: "|".join(sorted(each for each in feats.split("|") if each.partition("=")[0] in UNIVERSAL_FEATURES))
        for feats in set(column)
    }
    return [reduced[feats] for feats in column]


@dataclass(frozen=True, slots=True)
class Score:
    """Counts of gold, system and correct items, and the shares that follow from them.

    >>> Score(4, 5, 3) + Score(0, 1, 0)
    Score(gold=4, system=6, correct=3, aligned=None, system_correct=None)
    """

    gold: int
    system: int
    correct: int
    aligned: int | None = None  # gold items with a match in the system's file; None where alignment itself is measured
    system_correct: int | None = None  # correct items of the system's, if they are grouped by the system's values

    def __add__(self, other: Score) -> Score:
        """Return the score of both parts together."""
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Score(*[None if None in pair else sum(pair) for pair in pairs])  # type: ignore[arg-type]  # counts

    @property
    def precision(self) -> float:
        """The share of the system's items that are right."""
        return _share(self.correct if self.system_correct is None else self.system_correct, self.system)

    @property
    def recall(self) -> float:
        """The share of the gold items that were found."""
        return _share(self.correct, self.gold)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall; the attachment score if both files have the same words."""
        if self.system_correct is None:
            return _share(2 * self.correct, self.gold + self.system)
        return _share(2 * self.precision * self.recall, self.precision + self.recall)

    @property
    def aligned_accuracy(self) -> float | None:
        """The share of the aligned words that are right."""
        return None if self.aligned is None else _share(self.correct, self.aligned)


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def relative_error_reduction(before: float, after: float) -> float | None:
    """Return the share of errors removed (RER, Eq. 8) between two scores from 0 to 1; None if there were no errors.

    >>> round(relative_error_reduction(0.90, 0.92), 3)
    0.2
    """
    return (after - before) / (1 - before) if before < 1 else None


@dataclass(frozen=True, slots=True)
class Marks:
    """The words that a metric counts, and the gold words that are right under it."""

    gold: Sequence[bool]  # for each gold word: whether it counts
    system: Sequence[bool]  # for each system word: whether it counts
    correct: Sequence[bool]  # for each gold word: whether it counts and is right


@dataclass(frozen=True, slots=True)
class Rule:
    """The rules of a corpus's official scorer: its metrics, how it pairs words, and which words it ignores."""

    metrics: tuple[str, ...]
    is_ud: bool = False  # pairs words by characters, needs trees, drops label subtypes and other features
    is_left_out: Callable[[WordColumns, int], bool] | None = None


def _is_unicode_punctuation(words: WordColumns, word: int) -> bool:
    form = words.forms[word]
    return form != "" and all([unicodedata.category(each).startswith("P") for each in form])


def _is_tagged_punctuation(words: WordColumns, word: int) -> bool:
    return words.xpos[word] in PTB_PUNCTUATION or (words.xpos[word] == "_" and words.upos[word] in PTB_PUNCTUATION)


_UD_METRICS = ("UPOS", "XPOS", "UFeats", "AllTags", "Lemmas", "UAS", "LAS", "CLAS", "MLAS", "BLEX")
_ATTACHMENT = ("UAS", "LAS", "LA")
RULES: Mapping[str, Rule] = {
    "conll18": Rule(_UD_METRICS, is_ud=True),
    "conllx": Rule(_ATTACHMENT, is_left_out=_is_unicode_punctuation),
    "ptb": Rule(_ATTACHMENT, is_left_out=_is_tagged_punctuation),
    "conll09": Rule(_ATTACHMENT),
}


def rule_of(name: str) -> Rule:
    """Return the rule with this name; raise an error that lists the names if it does not exist."""
    if not isinstance(name, str) or name not in RULES:
        raise TreefineError(f"There is no scoring rule {name!r}.", hint=f"Choose one of {', '.join(RULES)}.")
    return RULES[name]


def evaluate(gold: Treebank, system: Treebank, *, rule: str = "conll18") -> dict[str, Score]:
    """Return all scores of `system` against `gold`.

    Each of them is a path, an open binary file, or a list of Sentences or Parses. `rule` is conll18 for UD, conllx,
    ptb (Penn Treebank) or conll09. The result maps metrics, such as LAS, to scores. Raises TreebankError if a file
    cannot be read, and AlignmentError if the two do not have the same text or words.

    >>> from treefine import Sentence, Graph, evaluate
    >>> words = Sentence.of_words(["Dogs", "bark"])
    >>> gold = words.with_graph(Graph.of_words([2, 0], ["nsubj", "root"]))
    >>> system = words.with_graph(Graph.of_words([2, 0], ["obj", "root"]))
    >>> scores = evaluate([gold], [system])
    >>> scores["UAS"].f1, scores["LAS"].f1
    (1.0, 0.5)
    """
    return evaluate_stretches(stretches(gold, system, is_ud=rule_of(rule).is_ud), rule=rule).scores


@dataclass
class Evaluation:
    """The scores of a file; details are empty unless wanted."""

    scores: dict[str, Score] = field(default_factory=dict)
    by_label: dict[str, Score] = field(default_factory=dict)
    label_confusions: Counter[tuple[str, str]] = field(default_factory=Counter)
    head_confusions: Counter[tuple[str, str]] = field(default_factory=Counter)


def evaluate_stretches(
    pairs: Iterable[AlignedWords], *, rule: str = "conll18", labels: bool = False, confusions: bool = False
) -> Evaluation:
    """Return the scores of all stretches together, and on request those of each label and the confusions."""
    total = Evaluation()
    for pair in pairs:
        marks = all_marks(pair, rule=rule)
        _add_scores(total.scores, all_scores(pair, marks, rule=rule))
        if labels:
            _add_scores(total.by_label, scores_by_label(pair, marks["LAS"]))
        if confusions:
            total.label_confusions.update(label_confusions(pair, marks["LAS"]))
            total.head_confusions.update(head_confusions(pair, marks["UAS"]))
    total.by_label = dict(sorted(total.by_label.items(), key=lambda item: (-item[1].gold, item[0])))
    return total


def _add_scores(total: dict[str, Score], scores: Mapping[str, Score]) -> None:
    for name, score in scores.items():
        total[name] = total[name] + score if name in total else score


def load_pair(gold: Treebank, system: Treebank, *, rule: str = "conll18", format: str | None = None) -> AlignedWords:
    """Read two files and align their words as the rule says."""
    read = partial(read_treebank, format=format)
    return load_pairs(gold, {"system": system}, is_ud=rule_of(rule).is_ud, read=read)["system"]


def all_marks(pair: AlignedWords, *, rule: str = "conll18", metrics: Sequence[str] = ()) -> dict[str, Marks]:
    """Return the words that each metric counts and those that are right; `metrics` defaults to all of the rule."""
    chosen = rule_of(rule)
    for metric in metrics:
        if metric not in chosen.metrics:
            names = ", ".join(chosen.metrics)
            raise TreefineError(f"The rule {rule} has no metric {metric!r}.", hint=f"Choose one of {names}.")
    metrics = metrics or chosen.metrics
    kinds = {kind for metric in metrics for kind in AGREEMENTS[metric]}
    agreements = agreements_of(pair, kinds)
    marks = {}
    for metric in metrics:
        gold = _counted(pair.gold, chosen, metric)
        # If words are paired by number, the gold file decides what is punctuation.
        system = gold if chosen.is_left_out else _counted(pair.system, chosen, metric)
        agreeing = [gold, *[agreements[kind] for kind in AGREEMENTS[metric]]]
        marks[metric] = Marks(gold, system, [*map(all, zip(*agreeing, strict=True))])
    return marks


def all_scores(pair: AlignedWords, marks: Mapping[str, Marks], *, rule: str = "conll18") -> dict[str, Score]:
    """Return the scores of the rule's official scorer, then exact match of sentences: UEM (heads), LEM (labels too)."""
    scores = segmentation_scores(pair) if rule_of(rule).is_ud else {}
    scores |= {metric: _score(pair, each) for metric, each in marks.items()}
    return scores | {"UEM": _exact_match(pair, marks["UAS"]), "LEM": _exact_match(pair, marks["LAS"])}


def segmentation_scores(pair: AlignedWords) -> dict[str, Score]:
    """Return the scores of tokens and sentences that cover the same characters in both files, and of aligned words."""

    def span_score(gold: Sequence[tuple[int, int]], system: Sequence[tuple[int, int]]) -> Score:
        return Score(len(gold), len(system), len(set(gold) & set(system)))

    aligned = len(pair.system_of) - pair.system_of.count(UNALIGNED)
    return {
        "Tokens": span_score(pair.gold.tokens, pair.system.tokens),
        "Sentences": span_score(pair.gold.sentence_spans, pair.system.sentence_spans),
        "Words": Score(len(pair.gold), len(pair.system), aligned),
    }


def _counted(words: WordColumns, rule: Rule, metric: str) -> list[bool]:
    if metric in CONTENT_METRICS:
        return [label in CONTENT_LABELS for label in words.labels]
    if rule.is_left_out:
        return [not rule.is_left_out(words, word) for word in range(len(words))]
    return [True] * len(words)


def _score(pair: AlignedWords, marks: Marks) -> Score:
    gold, unaligned = sum(marks.gold), [*compress(pair.system_of, marks.gold)].count(UNALIGNED)
    return Score(gold, sum(marks.system), sum(marks.correct), aligned=gold - unaligned)


def _exact_match(pair: AlignedWords, marks: Marks) -> Score:
    """Return the score of whole sentences: right if the system has the same sentence and words, all of them right."""
    gold_spans, system_spans = pair.gold.sentence_spans, pair.system.sentence_spans
    system_words = dict(zip(system_spans, map(len, pair.system.sentence_words()), strict=True))
    correct = 0
    for span, words in zip(gold_spans, pair.gold.sentence_words(), strict=True):
        counted, right = marks.gold[words.start : words.stop], marks.correct[words.start : words.stop]
        correct += system_words.get(span) == len(words) and sum(counted) == sum(right)
    return Score(len(gold_spans), len(system_spans), correct)


def scores_by_value(
    pair: AlignedWords, marks: Marks, gold_values: Sequence[_Value], system_values: Sequence[_Value]
) -> dict[_Value, Score]:
    """Return the score of each value: recall of gold words with it, precision of system words; frequent ones first."""
    gold, system = Counter(compress(gold_values, marks.gold)), Counter(compress(system_values, marks.system))
    correct = Counter(compress(gold_values, marks.correct))
    system_correct = Counter(system_values[word] for word in compress(pair.system_of, marks.correct))
    pairs = zip(compress(gold_values, marks.gold), compress(pair.system_of, marks.gold), strict=True)
    aligned = Counter(value for value, system_word in pairs if system_word != UNALIGNED)
    return {
        value: Score(gold[value], system[value], correct[value], aligned[value], system_correct[value])
        for value in sorted(gold | system, key=lambda value: (-gold[value], str(value)))
    }


def scores_by_label(pair: AlignedWords, marks: Marks) -> dict[str, Score]:
    """Return the score of each label, from the marks of LAS; the most frequent gold label comes first."""
    scores = scores_by_value(pair, marks, pair.gold.labels, pair.system.labels)
    return {label: replace(score, system_correct=None) for label, score in scores.items()}  # right words: same label


def label_confusions(pair: AlignedWords, marks: Marks) -> Counter[tuple[str, str]]:
    """Count the words with a wrong label, by gold label (first) and system label (second), over aligned words."""
    ours, theirs = pair.gold.labels, pair.system.labels
    return Counter(
        (ours[g], theirs[s])
        for g, s in enumerate(pair.system_of)
        if marks.gold[g] and s != UNALIGNED and ours[g] != theirs[s]
    )


def head_confusions(pair: AlignedWords, marks: Marks) -> Counter[tuple[str, str]]:
    """Count wrong heads, from the marks of UAS, by the tag (UPOS or XPOS) or ROOT of the gold and the system's head."""
    ours, theirs = (
        ["ROOT" if head == AT_ROOT else tags[head] for head in words.heads]
        for words, tags in ((each, each.tags()) for each in (pair.gold, pair.system))
    )
    return Counter(
        (ours[g], theirs[s])
        for g, s in enumerate(pair.system_of)
        if marks.gold[g] and s != UNALIGNED and not marks.correct[g]
    )
