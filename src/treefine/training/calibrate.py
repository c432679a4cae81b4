"""Calibrate confidences on dev: temperatures for heads, labels and tags, and a logistic curve for sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from treefine.config import Column, ConfidenceSettings
from treefine.model.vocabulary import flat_tags, lemma_tag, ruled_scripts
from treefine.parsing.confidence import log_loss
from treefine.parsing.parser import Parser
from treefine.training.data import by_treebank
from treefine.treebank.sentence import BLANK, Sentence

MIN_TEMPERATURE, MAX_TEMPERATURE = 0.05, 20.0  # range to search; also that of slopes
_MAX_SCALE = 1e6  # scales are searched between 1 / this and this
_PRIOR = 0.1  # penalty of a temperature or slope of e or 1/e, so that a small dev set has less effect
_N_TRIALS = 60  # each trial keeps 62% of the search interval


def calibrated(
    parser: Parser, dev: Sequence[Sentence], *, sentences: ConfidenceSettings | None = None
) -> ConfidenceSettings:
    """Fit the confidence of a parser to its accuracy on these sentences, and return the settings.

    The curve for whole sentences is that of other settings, if they are given: few sentences are not enough for it.
    """
    arcs: list[tuple[np.ndarray, np.ndarray]] = []  # scores, one row per word, and the gold heads
    labels: list[tuple[np.ndarray, np.ndarray]] = []
    ruled: list[tuple[np.ndarray, np.ndarray]] = []  # tag scores, and whether the lemma by a rule is wrong
    settings = parser.model.settings.tags
    columns = settings.columns if settings.source == "predicted" else ()
    tags: dict[Column, list[tuple[np.ndarray, np.ndarray]]] = {column: [] for column in settings.predicted}
    for sentence, steps in parser.stream_steps(dev):
        tagged = steps[-1 if settings.refined else 0]
        rules = ruled_scripts(parser.model.vocabulary, columns, tagged.tags, sentence)
        is_ruled = np.array([rule is not None for rule in rules])
        for column, pairs in tags.items():
            right = flat_tags([sentence], parser.model.vocabulary, [column])[:, 0] - 1
            is_learned = (right >= 0) & ~(is_ruled & (column == "lemma"))
            pairs.append((tagged.tag_scores[columns.index(column)][1:][is_learned], right[is_learned]))
        if is_ruled.any():
            lemmas, place = tagged.tags[columns.index("lemma")], columns.index(lemma_tag(columns))
            is_wrong = np.array([ours != right for ours, right in zip(lemmas, sentence.lemma, strict=True)])
            is_known = is_ruled & (np.array(sentence.lemma) != BLANK)
            ruled.append((tagged.tag_scores[place][1:][is_known], is_wrong[is_known]))
        last, gold = steps[-1], sentence.graph
        heads = np.array(gold.heads[1:])
        arcs.append((last.arc_scores[1:], heads))
        number = {label: column for column, label in enumerate(last.labels)}
        right = np.array([number.get(label, -1) for label in gold.labels[1:]])
        chosen = (np.array(last.graph.heads[1:]) == heads) & (right >= 0)
        scores = last.label_scores[1:][chosen]
        possible = np.isfinite(scores[np.arange(len(scores)), right[chosen]])  # the root rule can exclude a gold label
        labels.append((scores[possible], right[chosen][possible]))
    of_columns = {f"{column}_temperature": fitted_temperature(pairs) for column, pairs in tags.items()}
    temperatures = ConfidenceSettings(fitted_temperature(arcs), fitted_temperature(labels), **of_columns)
    if ruled:
        temperature = temperatures.tag_temperature(lemma_tag(columns))
        temperatures = replace(temperatures, lemma_doubt=_doubt_in_rules(ruled, temperature))
    if sentences is None:
        return _with_sentences(parser, dev, temperatures)
    return replace(temperatures, sentence_scale=sentences.sentence_scale, sentence_slope=sentences.sentence_slope)


def calibrated_by_treebank(
    parser: Parser, dev: Sequence[Sentence], whole: ConfidenceSettings
) -> dict[str, ConfidenceSettings]:
    """Fit the confidence of a parser to the sentences of each treebank, if they name their treebanks.

    `whole` is fitted to the sentences of all treebanks, and has the curve for whole sentences.
    """
    return {code: calibrated(parser, some, sentences=whole) for code, some in by_treebank(dev).items() if code}


def _doubt_in_rules(pairs: Sequence[tuple[np.ndarray, np.ndarray]], temperature: float) -> float:
    """Return the error rate of lemmas by rules, divided by that of their tags.

    Each pair holds the scores of tags, one row per word, and whether the lemma of each word is wrong.
    """
    doubt, n_wrong = 0.0, 0
    for scores, is_wrong in pairs:
        scaled = scores.astype(np.float64) / temperature
        exponents = np.exp(scaled - scaled.max(-1, keepdims=True))
        doubt += float((1 - exponents.max(-1) / exponents.sum(-1)).sum())
        n_wrong += int(is_wrong.sum())
    return float(np.clip(n_wrong / max(doubt, 1.0), 0.05, MAX_TEMPERATURE))


def fitted_temperature(pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> float:
    """Return the temperature that maximises the likelihood of the gold choices, or 1 without any."""
    if not any(len(right) for _, right in pairs):
        return 1.0

    def penalised_loss(log_temperature: float) -> float:
        total = _PRIOR * log_temperature**2
        for scores, right in pairs:
            scaled = scores.astype(np.float64) / np.exp(log_temperature)
            highest = scaled.max(-1, keepdims=True)
            total += float(np.log(np.exp(scaled - highest).sum(-1)).sum() + highest.sum())
            total -= float(scaled[np.arange(len(right)), right].sum())
        return total

    return float(np.exp(golden_section_minimum(penalised_loss, np.log(MIN_TEMPERATURE), np.log(MAX_TEMPERATURE))))


def _with_sentences(parser: Parser, dev: Sequence[Sentence], settings: ConfidenceSettings) -> ConfidenceSettings:
    """Fit the logistic curve that maps the logarithm of a sentence's doubt to the probability of an error.

    The doubt of a sentence is the sum over its words. The settings of the model are restored at the end.
    """
    model = parser.model
    before, model.settings = model.settings, replace(model.settings, confidence=settings)
    try:
        pairs = [
            (log_loss(parse.word_confidences), parse.tree == gold.graph)
            for parse, gold in zip(parser.stream(dev), dev, strict=True)
        ]
    finally:
        model.settings = before
    doubts = np.log(np.array([doubt for doubt, _ in pairs]))
    is_right = np.array([right for _, right in pairs])

    def penalised_loss(log_scale: float, slope: float) -> float:
        faults = slope * (doubts - log_scale)  # log-odds of an error
        unlikely = _PRIOR * (np.log(slope) ** 2 + log_scale**2 / 10)
        return float(unlikely + np.logaddexp(0.0, np.where(is_right, faults, -faults)).sum())

    far = np.log(_MAX_SCALE)

    def best_scale(log_slope: float) -> float:
        return golden_section_minimum(lambda log_scale: penalised_loss(log_scale, np.exp(log_slope)), -far, far)

    log_slope = golden_section_minimum(
        lambda log: penalised_loss(best_scale(log), np.exp(log)),
        np.log(MIN_TEMPERATURE),
        np.log(MAX_TEMPERATURE),
    )
    return replace(
        settings, sentence_scale=float(np.exp(best_scale(log_slope))), sentence_slope=float(np.exp(log_slope))
    )


def golden_section_minimum(value: Callable[[float], float], low: float, high: float) -> float:
    """Return the minimum of a function with one valley, by golden-section search.

    >>> round(golden_section_minimum(lambda x: (x - 2) ** 2, -5, 5), 6)
    2.0
    """
    golden = (5**0.5 - 1) / 2
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = value(left), value(right)
    for _ in range(_N_TRIALS):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = value(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = value(right)
    return (low + high) / 2
