"""What the dev set is for: scores of an epoch, calibration of confidences, and settings of sentence ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from operator import eq
from typing import NamedTuple

import numpy as np
import torch

from treefine.config import Column, ConfidenceSettings, SentenceEndSettings
from treefine.evaluation.pairing import compared_labels, load_words
from treefine.evaluation.scores import rule_of
from treefine.model.parser_model import ParserModel
from treefine.model.vocabulary import flat_tags, lemma_tag, ruled_scripts
from treefine.parsing.batches import batches, retry_in_halves
from treefine.parsing.confidence import log_losses
from treefine.parsing.decode import Decoder
from treefine.parsing.initial import empty
from treefine.parsing.parser import Parser
from treefine.parsing.results import Step, predicted_tags
from treefine.segmenter.cut import has_blank_line
from treefine.segmenter.segmenter import Segmenter
from treefine.segmenter.sentence_ends import SentenceEnds, SentenceScorer, combined, places_of
from treefine.training.data import by_treebank
from treefine.training.recipe import Recipe, RefineSettings
from treefine.training.segmenter import BATCH_WINDOWS, windows_of
from treefine.training.steps import input_tags, refined
from treefine.treebank.graph import Arcs
from treefine.treebank.raw_text import RawText, raw_text
from treefine.treebank.sentence import BLANK, Sentence

MIN_TEMPERATURE, MAX_TEMPERATURE = 0.05, 20.0  # range to search; also that of slopes
_MAX_SCALE = 1e6  # scales are searched between 1 / this and this
_PRIOR = 0.1  # penalty of a temperature or slope of e or 1/e, so that a small dev set has less effect
_N_TRIALS = 30  # each trial keeps two thirds of the search interval
CHAR_WEIGHTS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0)
MARGINS = (0.0, 1.0, 2.0, 3.0, 4.0, 6.0)
_NEARLY = 0.0025  # difference in F1 that a larger margin may cost
_ENCODER_ALONE = SentenceEndSettings(char_weight=0.0, margin=0.0)


@dataclass(frozen=True)
class Accuracy:
    """Shares of correct words. `las_by_step` scores the graphs Gᵗ as they are, `uas` and `las` the final trees."""

    las_by_step: tuple[float, ...]
    uas: float
    las: float
    tags: dict[str, float] = field(default_factory=dict)  # UPOS, XPOS, FEATS, LEMMA and Sentences, if predicted


def attachment_scores(
    sentences: Sequence[Sentence], labels: Sequence[str], parses: np.ndarray, rule: str
) -> tuple[list[float], list[float]]:
    """Return UAS and LAS of parses of all sentences by a scoring rule.

    The first table of `parses` has heads and the second one numbers of `labels`; each row is a parse.
    """
    chosen = rule_of(rule)
    words = load_words(sentences, is_ud=chosen.is_ud)
    ours = compared_labels(labels, is_ud=chosen.is_ud)
    ids = {label: number for number, label in enumerate(dict.fromkeys([*ours, *words.labels]))}
    counts = np.ones(len(words), dtype=bool)
    if chosen.is_left_out is not None:
        counts = np.array([not chosen.is_left_out(words, word) for word in range(len(words))], dtype=bool)
    has_head = (parses[0] == np.array([head for sentence in sentences for head in sentence.heads])) & counts
    names = np.array([ids[label] for label in ours])[parses[1]]
    has_both = has_head & (names == np.array([ids[label] for label in words.labels]))
    uas, las = (right.sum(-1) / max(1, int(counts.sum())) for right in (has_head, has_both))
    return uas.tolist(), las.tolist()


@torch.no_grad()
def accuracy_of(
    model: ParserModel, sentences: Sequence[Sentence], arcs: Sequence[Arcs], recipe: Recipe, device: torch.device
) -> Accuracy:
    """Refine these initial graphs with a model that is in evaluation mode on the device, and score each step."""
    settings, decoder, cpu, max_steps = model.settings, Decoder.of(model), torch.device("cpu"), recipe.refine.max_steps
    columns, starts = settings.tags.predicted, np.cumsum([0, *map(len, sentences)]).tolist()
    parses = np.zeros((2, max_steps + 1, starts[-1]), dtype=np.int64)  # heads and labels by step, and of trees
    right_tags = np.zeros((len(columns), len(sentences)), dtype=np.int64)

    def score(numbers: Sequence[int]) -> list[None]:
        chosen = [sentences[number] for number in numbers]
        batch, tags = model.batch_of(chosen).to(device), input_tags(model, chosen, device)
        for step in refined(model, batch, [arcs[number] for number in numbers], tags, RefineSettings(max_steps)):
            is_last = step.t == max_steps
            ending = {row for row, done in enumerate(step.converged.tolist()) if done or is_last}
            trees = decoder.trees(step.scores, step.graphs, step.batch.is_word, rows=ending).to(cpu)
            graphs, has_tags = (
                step.graphs.to(cpu),
                bool(columns) and (step.t == 1 or settings.tags.refined or step.scores.stage > 0),
            )
            names = predicted_tags(step, model, [chosen[row] for row in step.sentences]) if has_tags else []
            for row, (place, length) in enumerate(zip(step.sentences, step.batch.lengths, strict=True)):
                words = slice(start := starts[numbers[place]], start + length)
                parses[:, step.t - 1 : max_steps, words] = np.stack(graphs.words(row, length))[:, None]
                if row in ending:
                    parses[:, max_steps, words] = trees.words(row, length)
                for number, column in enumerate(columns if has_tags else ()):
                    ours = names[row][settings.tags.columns.index(column)]
                    right_tags[number, numbers[place]] = sum(map(eq, ours, getattr(chosen[place], column)))
        return [None] * len(numbers)

    sizes = [model.n_pieces(sentence) for sentence in sentences]
    for numbers in batches(sizes, 4 * recipe.training.batch_pieces, settings.encoder.n_positions):
        retry_in_halves(numbers, score, sentences)
    uas, las = attachment_scores(sentences, model.vocabulary.labels, parses, recipe.treebank.rule)
    right = zip(columns, right_tags.sum(-1).tolist(), strict=True)
    n_tagged = {
        column: sum(tag != BLANK or column == "feats" for one in sentences for tag in getattr(one, column))
        for column in columns
    }
    tags = {column.upper(): number / max(1, n_tagged[column]) for column, number in right}
    if model.finds_sentences:
        tags["Sentences"] = encoder_f1(model, sentences)
    return Accuracy(tuple(las[:-1]), uas[-1], las[-1], tags=tags)


def calibrated(
    parser: Parser, dev: Sequence[Sentence], *, sentences: ConfidenceSettings | None = None
) -> tuple[ConfidenceSettings, tuple[ConfidenceSettings, ...]]:
    """Fit the confidence of a parser to its accuracy on these sentences.

    Return the settings of the last stage, and those of each stage before it. The curve for whole sentences is that of
    other settings, if they are given: few sentences are not enough for it.
    """
    n_drafts = len(parser.model.settings.stage_ends) - 1 if parser.initial is empty else 0
    all_steps = (steps for _, steps in parser.using(stop_above=1.0).stream_steps(dev))
    used = [(*(steps[min(t, len(steps) - 1)] for t in range(n_drafts)), steps[0], steps[-1]) for steps in all_steps]
    *drafts, first, last = zip(*used, strict=True)
    are_refined = parser.model.settings.tags.refined or n_drafts > 0
    fitted = [_temperatures(parser, dev, some, some) for some in drafts]
    fitted.append(_temperatures(parser, dev, last, last if are_refined else first))
    if sentences is None:
        sentences = _with_sentences(parser, dev, fitted)
    curve = {"sentence_scale": sentences.sentence_scale, "sentence_slope": sentences.sentence_slope}
    *early, of_last = (replace(each, **curve) for each in fitted)
    return of_last, tuple(early)


def _temperatures(
    parser: Parser, dev: Sequence[Sentence], steps: Sequence[Step], tagged_steps: Sequence[Step]
) -> ConfidenceSettings:
    """Fit the temperatures of one step of each sentence, and those of its tags at the step that predicts them."""
    arcs: list[tuple[np.ndarray, np.ndarray]] = []  # scores, one row per word, and the gold heads
    labels: list[tuple[np.ndarray, np.ndarray]] = []
    ruled: list[tuple[np.ndarray, np.ndarray]] = []  # tag scores, and whether the lemma by a rule is wrong
    settings = parser.model.settings.tags
    columns = settings.columns if settings.source == "predicted" else ()
    tags: dict[Column, list[tuple[np.ndarray, np.ndarray]]] = {column: [] for column in settings.predicted}
    for sentence, step, tagged in zip(dev, steps, tagged_steps, strict=True):
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
        gold = sentence.graph
        heads = np.array(gold.heads[1:])
        arcs.append((step.arc_scores[1:], heads))
        number = {label: column for column, label in enumerate(step.labels)}
        right = np.array([number.get(label, -1) for label in gold.labels[1:]])
        chosen = (np.array(step.graph.heads[1:]) == heads) & (right >= 0)
        scores = step.label_scores[1:][chosen]
        possible = np.isfinite(scores[np.arange(len(scores)), right[chosen]])  # the root rule can exclude a gold label
        labels.append((scores[possible], right[chosen][possible]))
    of_columns = {f"{column}_temperature": fitted_temperature(pairs) for column, pairs in tags.items()}
    temperatures = ConfidenceSettings(fitted_temperature(arcs), fitted_temperature(labels), **of_columns)
    if not ruled:
        return temperatures
    temperature = getattr(temperatures, f"{lemma_tag(columns)}_temperature")
    return replace(temperatures, lemma_doubt=_doubt_in_rules(ruled, temperature))


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

    return float(np.exp(minimum(penalised_loss, np.log(MIN_TEMPERATURE), np.log(MAX_TEMPERATURE))))


def _with_sentences(
    parser: Parser, dev: Sequence[Sentence], stages: Sequence[ConfidenceSettings]
) -> ConfidenceSettings:
    """Fit the logistic curve that maps the logarithm of a sentence's doubt to the probability of an error.

    The doubt of a sentence is the sum over its words. The settings of the model are restored at the end.
    """
    model, (*drafts, settings) = parser.model, stages
    before = model.settings
    model.settings = replace(before, confidence=settings, draft_confidence=tuple(drafts))
    try:
        pairs = [
            (np.array([1.0, *(word.both for word in parse.word_confidences)]), parse.tree == gold.graph)
            for parse, gold in zip(parser.stream(dev), dev, strict=True)
        ]
    finally:
        model.settings = before
    doubts = np.log(np.concatenate([log_losses(words[None], [len(words) - 1]) for words, _ in pairs]))
    is_right = np.array([right for _, right in pairs])

    def penalised_loss(log_scale: float, slope: float) -> float:
        faults = slope * (doubts - log_scale)  # log-odds of an error
        unlikely = _PRIOR * (np.log(slope) ** 2 + log_scale**2 / 10)
        return float(unlikely + np.logaddexp(0.0, np.where(is_right, faults, -faults)).sum())

    far = np.log(_MAX_SCALE)

    def best_scale(log_slope: float) -> float:
        return minimum(lambda log_scale: penalised_loss(log_scale, np.exp(log_slope)), -far, far)

    def best_loss(log_slope: float) -> float:
        return penalised_loss(best_scale(log_slope), np.exp(log_slope))

    log_slope = minimum(best_loss, np.log(MIN_TEMPERATURE), np.log(MAX_TEMPERATURE))
    scale, slope = np.exp(best_scale(log_slope)), np.exp(log_slope)
    return replace(settings, sentence_scale=float(scale), sentence_slope=float(slope))


def minimum(value: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function with one valley has its minimum, by ternary search.

    >>> round(minimum(lambda x: (x - 2) ** 2, -5, 5), 3)
    2.0
    """
    for _ in range(_N_TRIALS):
        third = (high - low) / 3
        if value(low + third) < value(high - third):
            high -= third
        else:
            low += third
    return (low + high) / 2


def encoder_f1(model: ParserModel, sentences: Sequence[Sentence]) -> float:
    """Return the F1 of the sentences that the encoder alone finds in the text of a treebank with gold tokens.

    With several treebanks, return the mean of their F1.
    """
    found = []
    for treebank, some in by_treebank(sentences).items():
        windows, ends = windows_of(raw_text(some)), list[bool]()
        for first in range(0, len(windows), BATCH_WINDOWS):
            tokens = [window.tokens for window in windows[first : first + BATCH_WINDOWS]]
            ends += [bool(score > 0) for scores in model.sentence_end_scores(tokens, treebank) for score in scores]
        gold = [end for window in windows for end in window.ends]
        ends[-1] = gold[-1] = True  # the text ends here
        found.append(sentence_f1(np.array(ends), np.array(gold)))
    return sum(found) / max(1, len(found))


def fitted_ends(parser: Parser, dev: Sequence[Sentence]) -> SentenceEndSettings:
    """Fit the settings of a parser that finds sentences to the text of dev; keep those of any other parser."""
    segmenter = parser.segmenter
    if segmenter is None or not parser.model.finds_sentences:
        return parser.model.settings.sentence_ends
    scores = [
        end_scores(segmenter.for_treebank(code), parser.running, raw_text(some))
        for code, some in by_treebank(dev).items()
    ]
    return fitted(EndScores(*map(np.concatenate, zip(*scores, strict=True))))


class EndScores(NamedTuple):
    """The scores of the tokens of a text, one entry per token, and where its sentences end."""

    encoder: np.ndarray
    char: np.ndarray
    needs_margin: np.ndarray  # the token is within a line and does not end in final punctuation
    is_end: np.ndarray  # whether the sentence ends here in the treebank
    is_forced: np.ndarray  # whether a blank line or the end of the text follows


def end_scores(segmenter: Segmenter, scorer: SentenceScorer, text: RawText) -> EndScores:
    r"""Return the scores of the tokens that a segmenter finds in a text without \r\n."""
    ends = {stop - 1 for (_, stop), is_end in zip(text.spans, text.ends_sentence, strict=True) if is_end}
    (scored,) = segmenter.char_scores([text.text])
    tokens = places_of(scored, segmenter.rules.most_spaces)
    (encoder,) = SentenceEnds(scorer, _ENCODER_ALONE, treebank=segmenter.treebank).encoder_scores(
        [tokens], [range(len(tokens))]
    )
    char = scored.sentence[np.array([token.last for token in tokens], dtype=np.int64)]
    is_forced = np.array([has_blank_line(token.token.after) for token in tokens], dtype=bool)
    is_forced[-1:] = True
    has_margin = segmenter.rules.marks_ends
    needs_margin = np.array([token.needs_margin and has_margin for token in tokens], dtype=bool)
    is_end = np.array([token.last in ends for token in tokens], dtype=bool)
    return EndScores(encoder, char, needs_margin, is_end, is_forced)


def fitted(scores: EndScores) -> SentenceEndSettings:
    """Return the settings with a high F1 of sentences, and the temperature that makes the ends most likely.

    Of the settings that are about as good as the best, the one with the largest margin is chosen: a dev set has few
    sentences that end without punctuation, and text of other kinds has fewer. Line ends are decided by the
    scores alone, without the rules for line ends of `segmenter/cut`.
    """
    trials = [SentenceEndSettings(weight, margin) for weight, margin in product(CHAR_WEIGHTS, MARGINS)]
    gold = scores.is_end | scores.is_forced
    f1 = {trial: sentence_f1((_log_odds(scores, trial) > 0) | scores.is_forced, gold) for trial in trials}
    good = [trial for trial in trials if f1[trial] >= max(f1.values()) - _NEARLY]
    best = max(good, key=lambda trial: (trial.margin, f1[trial], -trial.char_weight))
    log_odds = _log_odds(scores, best)[~scores.is_forced]
    choices = np.stack([np.zeros_like(log_odds), log_odds], axis=1)  # the sentence continues, or ends
    is_end = scores.is_end[~scores.is_forced].astype(np.int64)
    return replace(best, temperature=fitted_temperature([(choices, is_end)]))


def _log_odds(scores: EndScores, settings: SentenceEndSettings) -> np.ndarray:
    return combined(scores.encoder, scores.char, scores.needs_margin, settings)


def sentence_f1(ends: np.ndarray, gold: np.ndarray) -> float:
    """Return the F1 of sentences, from whether a sentence ends after each token.

    >>> sentence_f1(np.array([True, False, True, True]), np.array([True, False, False, True]))
    0.4
    """
    # of each sentence, the token before it and its last token
    ours, theirs = (set(pairwise([-1, *np.flatnonzero(some).tolist()])) for some in (ends, gold))
    return 2 * len(ours & theirs) / max(1, len(ours) + len(theirs))
