"""Calibration of confidence: temperatures compared with a grid, sentences with a known curve."""

import math
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch

from tests.support.tiny import sample, tiny_model
from tests.support.tiny_learner import learn, learner_of
from treefine.config import ConfidenceSettings, RelationSettings
from treefine.model.batch import Graphs
from treefine.parsing.confidence import word_confidences
from treefine.parsing.decode import Decoder
from treefine.parsing.parser import Parser
from treefine.training.dev import MAX_TEMPERATURE, MIN_TEMPERATURE, calibrated, fitted_temperature
from treefine.treebank.graph import Graph

DEV = [each for each in sample() if len(each) < 22][:24]


def drawn(temperature, *, rows=4000, columns=6, seed=1):
    """Return scores, and choices drawn from their softmax at a temperature."""
    rng = np.random.default_rng(seed)
    scores = 3 * rng.standard_normal((rows, columns))
    scores[:, 0] = -np.inf
    likely = np.exp(scores / temperature)
    likely /= likely.sum(-1, keepdims=True)
    return scores, np.array([rng.choice(columns, p=row) for row in likely])


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_the_true_temperature_is_recovered(temperature):
    scores, right = drawn(temperature)

    found = fitted_temperature([(scores[:1000], right[:1000]), (scores[1000:], right[1000:])])

    assert found == pytest.approx(temperature, rel=0.02)


def test_no_temperature_in_a_grid_gives_a_higher_likelihood():
    scores, right = drawn(1.7, rows=500)

    def likelihood(temperature):
        scaled = scores / temperature
        return (scaled[np.arange(500), right] - np.log(np.exp(scaled).sum(-1))).sum()

    best = fitted_temperature([(scores, right)])

    assert all(likelihood(best) >= likelihood(each) - 1e-6 for each in np.linspace(0.1, 10, 200))


@pytest.fixture(scope="module")
def model():
    """Return a model trained on half of the sentences, so that some of its parses are wrong."""
    found = tiny_model(scale=1.0)
    learn(learner_of(found, DEV[:12]), epochs=20)
    return found.eval()


def test_calibration_raises_the_likelihood_and_keeps_the_trees(model):
    parser = Parser(model, device="cpu")
    before = list(parser.stream_trees(DEV))

    settings = calibrated(parser, DEV)

    def surprise(confidence):
        model.settings = replace(model.settings, confidence=confidence)
        words = sentences = 0.0
        for parse, gold in zip(parser.stream(DEV), DEV, strict=True):
            for word, head in zip(parse.words, gold.heads, strict=True):
                sure = word.arc_confidence if word.head == head else 1 - word.arc_confidence
                words -= math.log(max(sure, 1e-9))
            sentences -= math.log(parse.confidence if parse.tree == gold.graph else 1 - parse.confidence)
        return words, sentences

    plain, fitted = surprise(ConfidenceSettings()), surprise(settings)
    assert settings != ConfidenceSettings()
    assert fitted[0] < plain[0]
    assert fitted[1] < plain[1]
    assert list(parser.stream_trees(DEV)) == before


@pytest.mark.parametrize("graph", ["labelled", "none"])
def test_word_confidence_is_the_softmax_of_the_scores_at_the_chosen_head_and_label(graph):
    model = tiny_model(relations=RelationSettings(graph=graph), scale=1.0).eval()
    sentences = sample(4)
    batch, decoder = model.batch_of(sentences), Decoder.of(model)
    settings = ConfidenceSettings(arc_temperature=2.0, label_temperature=0.5)
    with torch.no_grad():
        scores = model(batch, Graphs.of([each.arcs for each in sentences], model.vocabulary), None)
        trees = decoder.trees(scores, decoder.graphs(scores, batch.is_word), batch.is_word)

        found = word_confidences(scores, trees, decoder, settings.arc_temperature, settings.label_temperature)
        labels = decoder.allowed_labels(scores, trees.heads.clamp(min=0))

    for row, sentence in enumerate(sentences):
        for word in range(1, len(sentence) + 1):
            head, label = int(trees.heads[row, word]), int(trees.labels[row, word])
            arcs = [math.exp(each / 2.0) for each in scores.arcs[row, word].tolist()]
            names = [math.exp(each / 0.5) for each in labels[row, word].tolist()]
            assert found[row, word, 0].item() == pytest.approx(arcs[head] / sum(arcs), rel=1e-4)
            assert found[row, word, 1].item() == pytest.approx(names[label] / sum(names), rel=1e-4)


def test_a_gold_label_excluded_by_the_root_rule_is_skipped(model):
    """Such a label, `root` on a word that is not a root, has probability 0 at any temperature."""
    odd = [
        each.with_graph(Graph.of_words(each.graph.heads[1:], ["root"] * len(each))) if number % 2 else each
        for number, each in enumerate(sample(10))
    ]

    settings = calibrated(Parser(model, device="cpu"), odd)

    assert all(math.isfinite(each) for each in asdict(settings).values())
    assert MIN_TEMPERATURE * 1.01 < settings.label_temperature < MAX_TEMPERATURE * 0.99
