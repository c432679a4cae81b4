"""Dev scores, calibration of confidences, and the settings of sentence ends."""

import math
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.segmenter.test_sentence_ends import WordScorer
from tests.support.generated import LABELS, random_heads
from tests.support.tiny import ALL_TAGS, sample, short, tiny_model, tiny_syntr, with_errors
from tests.support.tiny_learner import accuracy_of, blank, learn, learner_of
from tests.support.tiny_segmenter import tiny_segmenter
from treefine.config import (
    COLUMNS,
    ConfidenceSettings,
    DecodeSettings,
    RelationSettings,
    SentenceEndSettings,
    TagSettings,
)
from treefine.evaluation.scores import RULES, evaluate
from treefine.model.batch import Graphs
from treefine.model.vocabulary import flat_tags
from treefine.parsing.confidence import word_confidences
from treefine.parsing.decode import Decoder
from treefine.parsing.parser import Parser
from treefine.segmenter.sentence_ends import combined
from treefine.training.dev import (
    MAX_TEMPERATURE,
    MIN_TEMPERATURE,
    EndScores,
    attachment_scores,
    calibrated,
    end_scores,
    fitted,
    fitted_temperature,
)
from treefine.training.recipe import OptimiserSettings, RefineSettings
from treefine.treebank.graph import Graph
from treefine.treebank.raw_text import RawText
from treefine.treebank.sentence import Sentence

KNOWN = ("nsubj", "root", "nsubj:pass", "obj", "punct", "nsubj:outer")  # labels of the model; gold has more
FORMS = ["dog", ".", "--", "a-b", "¿", "``", "$"]
TAGS = ["NN", ".", "``", "PU", ",", "_"]


@st.composite
def gold_and_system(draw, rule):
    """Draw gold sentences with predicted heads and label ids; the predictions are trees if the rule needs trees."""
    gold, system = [], []
    for _ in range(draw(st.integers(1, 3))):
        n_words = draw(st.integers(1, 6))
        some = {"min_size": n_words, "max_size": n_words}
        tags = {name: draw(st.lists(st.sampled_from(TAGS), **some)) for name in ("upos", "xpos")}
        words = Sentence.of_words(draw(st.lists(st.sampled_from(FORMS), **some)), **tags)
        heads = draw(random_heads(n_words))
        labels = [draw(st.sampled_from(LABELS)) if head else "root" for head in heads]
        gold.append(words.with_graph(Graph.of_words(heads, labels)))
        if RULES[rule].is_ud:
            found = draw(st.just(heads) | random_heads(n_words))
        else:
            found = [draw(st.just(head) | st.integers(0, n_words)) for head in heads]
        ids = [
            KNOWN.index(label) if label in KNOWN and draw(st.booleans()) else draw(st.integers(0, len(KNOWN) - 1))
            for label in labels
        ]
        system.append((found, ids))
    return gold, system


@pytest.mark.parametrize("rule", RULES)
@given(data=st.data())
def test_counts_equal_those_of_evaluate_for_every_rule(rule, data):
    gold, system = data.draw(gold_and_system(rule))

    heads, ids = (np.concatenate([np.array(parse[kind]) for parse in system]) for kind in (0, 1))
    (uas,), (las,) = attachment_scores(gold, KNOWN, np.stack([heads, ids])[:, None], rule)

    parsed = [
        sentence.with_graph(Graph.of_words(heads, [KNOWN[each] for each in ids]))
        for sentence, (heads, ids) in zip(gold, system, strict=True)
    ]
    scores = evaluate(gold, parsed, rule=rule)
    assert (uas, las) == pytest.approx((scores["UAS"].recall, scores["LAS"].recall))


KINDS = {
    "rngtr": lambda: tiny_model(),
    "released code": lambda: tiny_model(decode=DecodeSettings("root", "none", "tree", "probabilities")),
    "tagger": lambda: tiny_model(tags=TagSettings("predicted", ("upos", "xpos"))),
    "windows": lambda: tiny_model(n_positions=24),
    "syntr": lambda: tiny_syntr(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_dev_accuracy_equals_that_of_the_parser(kind):
    """Compares final trees, and the graphs of each step; a converged sentence keeps its graph."""
    model, sentences = KINDS[kind](), [each for each in sample() if len(each) < 15]
    arcs = blank(sentences)
    if kind in ("rngtr", "windows"):
        rng, labels = np.random.default_rng(1), np.array(["nsubj", "obj", "root"])
        arcs = [with_errors(sentence.arcs, labels, rng) for sentence in sentences]
    learner = learner_of(model, sentences, parses=arcs)
    learn(learner, epochs=2)
    max_steps = learner.recipe.refine.max_steps
    initial = (lambda _: iter(arcs)) if model.settings.reads_graph else None
    parser = Parser(model, initial=initial, max_steps=max_steps, device="cpu")

    for rule in ("conll18", "conll09"):
        accuracy = accuracy_of(learner, sentences, arcs, rule=rule)

        scores = evaluate(sentences, parser.parse(sentences), rule=rule)
        assert accuracy.las == pytest.approx(scores["LAS"].f1)
        assert accuracy.uas == pytest.approx(scores["UAS"].f1)
        assert 0.02 < accuracy.las < accuracy.uas < 1

    taken = [steps for _, steps in parser.stream_steps(sentences)]
    assert len(accuracy.las_by_step) == max_steps
    for t, las in enumerate(accuracy.las_by_step):
        graphs = [steps[min(t, len(steps) - 1)].graph for steps in taken]
        stepped = [sentence.with_graph(graph) for sentence, graph in zip(sentences, graphs, strict=True)]
        assert las == pytest.approx(evaluate(sentences, stepped, rule="conll09")["LAS"].f1)
    if model.settings.reads_graph:
        assert len({len(steps) for steps in taken}) > 1  # some stopped and some did not


def test_scores_do_not_depend_on_the_batches():
    model, sentences = tiny_syntr(), sample(30)
    learner = learner_of(model, sentences)
    learn(learner, epochs=2)

    whole = accuracy_of(learner, sentences, blank(sentences))
    learner.recipe = replace(learner.recipe, training=replace(learner.recipe.training, batch_pieces=10))
    apart = accuracy_of(learner, sentences, blank(sentences))

    assert whole == apart


def test_dev_is_scored_with_the_ema_and_training_continues_without_it():
    model, sentences = tiny_model(), sample(20)
    settings = OptimiserSettings(learning_rate=0.05, encoder_learning_rate=0.05, ema=0.99)
    learner = learner_of(model, sentences, optimiser=settings, refine=RefineSettings(max_steps=1))
    learn(learner, epochs=2)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}

    accuracy = accuracy_of(learner, sentences, blank(sentences))

    assert all((before[name] == weight).all() for name, weight in model.state_dict().items())
    model.load_state_dict(learner.measured_weights())
    parsed = Parser(model, max_steps=1, device="cpu").parse(sentences)
    assert accuracy.las == pytest.approx(evaluate(sentences, parsed)["LAS"].f1)
    model.load_state_dict(before)
    parsed = Parser(model, max_steps=1, device="cpu").parse(sentences)
    assert accuracy.las != pytest.approx(evaluate(sentences, parsed)["LAS"].f1)


HALF_DEV = [each for each in sample() if len(each) < 22][:24]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_the_true_temperature_is_recovered(temperature):
    rng = np.random.default_rng(1)
    scores = 3 * rng.standard_normal((4000, 6))
    scores[:, 0] = -np.inf
    likely = np.exp(scores / temperature)
    right = np.array([rng.choice(6, p=row / row.sum()) for row in likely])

    found = fitted_temperature([(scores[:1000], right[:1000]), (scores[1000:], right[1000:])])

    assert found == pytest.approx(temperature, rel=0.02)


@pytest.fixture(scope="module")
def half_trained():
    """Return a model trained on half of the sentences, so that some of its parses are wrong."""
    found = tiny_model(scale=1.0)
    learn(learner_of(found, HALF_DEV[:12]), epochs=20)
    return found.eval()


def test_calibration_raises_the_likelihood_and_keeps_the_trees(half_trained):
    parser = Parser(half_trained, device="cpu")
    before = list(parser.stream_trees(HALF_DEV))

    settings, _ = calibrated(parser, HALF_DEV)

    def surprise(confidence):
        half_trained.settings = replace(half_trained.settings, confidence=confidence)
        words = sentences = 0.0
        for parse, gold in zip(parser.stream(HALF_DEV), HALF_DEV, strict=True):
            for word, head in zip(parse.words, gold.heads, strict=True):
                sure = word.arc_confidence if word.head == head else 1 - word.arc_confidence
                words -= math.log(max(sure, 1e-9))
            sentences -= math.log(parse.confidence if parse.tree == gold.graph else 1 - parse.confidence)
        return words, sentences

    plain, fitted = surprise(ConfidenceSettings()), surprise(settings)
    assert settings != ConfidenceSettings()
    assert fitted[0] < plain[0]
    assert fitted[1] < plain[1]
    assert list(parser.stream_trees(HALF_DEV)) == before


@pytest.mark.parametrize("graph", ["labelled", "none"])
def test_word_confidence_is_the_softmax_of_the_scores_at_the_chosen_head_and_label(graph):
    model, sentences = tiny_model(relations=RelationSettings(graph=graph), scale=1.0).eval(), sample(4)
    batch, decoder = model.batch_of(sentences), Decoder.of(model)
    with torch.no_grad():
        scores, _ = model(batch, Graphs.of([each.arcs for each in sentences], model.vocabulary), None)
        trees = decoder.trees(scores, decoder.graphs(scores, batch.is_word), batch.is_word)

        found = word_confidences(scores, trees, decoder, 2.0, 0.5)
        labels = decoder.allowed_labels(scores, trees.heads.clamp(min=0))

    for row, sentence in enumerate(sentences):
        for word in range(1, len(sentence) + 1):
            head, label = int(trees.heads[row, word]), int(trees.labels[row, word])
            arcs = [math.exp(each / 2.0) for each in scores.arcs[row, word].tolist()]
            names = [math.exp(each / 0.5) for each in labels[row, word].tolist()]
            assert found[row, word, 0].item() == pytest.approx(arcs[head] / sum(arcs), rel=1e-4)
            assert found[row, word, 1].item() == pytest.approx(names[label] / sum(names), rel=1e-4)


def test_a_gold_label_excluded_by_the_root_rule_is_skipped(half_trained):
    """Such a label, `root` on a word that is not a root, has probability 0 at any temperature."""
    odd = [
        each.with_graph(Graph.of_words(each.graph.heads[1:], ["root"] * len(each))) if number % 2 else each
        for number, each in enumerate(sample(10))
    ]

    settings, _ = calibrated(Parser(half_trained, device="cpu"), odd)

    assert all(math.isfinite(each) for each in asdict(settings).values())
    assert MIN_TEMPERATURE * 1.01 < settings.label_temperature < MAX_TEMPERATURE * 0.99


@pytest.mark.parametrize("refined", [True, False], ids=["last step", "first step"])
def test_each_column_of_tags_gets_the_temperature_of_its_scores(refined):
    parser, sentences = Parser(tiny_model(tags=replace(ALL_TAGS, refined=refined)), device="cpu"), short(8)
    parser.model.vocabulary = replace(parser.model.vocabulary, lemma_rules=())  # the network chooses all lemmas

    settings, _ = calibrated(parser, sentences)

    for place, column in enumerate(COLUMNS):
        found = []
        for sentence in sentences:
            scores = parser.steps(sentence)[-1 if refined else 0].tag_scores[place][1:]
            right = flat_tags([sentence], parser.model.vocabulary, [column])[:, 0] - 1
            found.append((scores[right >= 0], right[right >= 0]))
        assert getattr(settings, f"{column}_temperature") == pytest.approx(fitted_temperature(found), rel=1e-3)
        assert getattr(settings, f"{column}_temperature") > 1.2  # a random model is too sure


@pytest.mark.parametrize(("char_weight", "margin"), [(0.0, 0.0), (0.25, 4.0), (0.5, 2.0), (1.0, 6.0)])
def test_known_settings_are_recovered(char_weight, margin):
    rng = np.random.default_rng(1)
    encoder, char = rng.normal(-1, 4, (2, 4000)).astype(np.float32)
    needs_margin, is_forced = rng.random((2, 4000)) < [[0.5], [0.02]]
    is_end = combined(encoder, char, needs_margin, SentenceEndSettings(char_weight, margin)) > 0

    found = fitted(EndScores(encoder, char, needs_margin, is_end | is_forced, is_forced))

    assert (found.char_weight, found.margin) == (char_weight, margin)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_a_known_temperature_is_recovered(temperature):
    rng = np.random.default_rng(1)
    encoder, is_forced = rng.normal(-1, 4, 20_000), rng.random(20_000) < 0.02
    is_end = rng.random(20_000) < 1 / (1 + np.exp(-encoder / temperature))
    scores = EndScores(encoder, np.zeros(20_000), np.zeros(20_000, bool), is_end | is_forced, is_forced)

    assert fitted(scores).temperature == pytest.approx(temperature, rel=0.05)


def test_of_equal_settings_the_largest_margin_and_the_smallest_weight_are_chosen():
    scores = EndScores(
        np.array([9.0, -9.0, 9.0]), np.zeros(3), np.array([False, True, False]), *np.array([[1, 0, 1], [0, 0, 1]], bool)
    )

    found = fitted(scores)

    assert (found.char_weight, found.margin) == (0.0, 6.0)


def test_scores_of_a_text_have_one_entry_per_token():
    segmenter = tiny_segmenter(most_spaces=0)
    segmenter.network.scorer.weight.data.zero_()
    segmenter.network.scorer.bias.data[:] = segmenter.network.scorer.bias.new_tensor([1.0, 0.0, 0.0, -1.0])
    text = RawText("a b\n\na.", ((0, 1), (2, 3), (5, 7)), (("a",), ("b",), ("a.",)), (False, True, True))

    found = end_scores(segmenter, WordScorer(a=-3.0, b=2.0), text)

    assert found.encoder.tolist() == [-3, 2, 0]
    assert found.char.tolist() == [-1, -1, -1]
    assert found.needs_margin.tolist() == [True, False, False]
    assert found.is_end.tolist() == [False, True, True]
    assert found.is_forced.tolist() == [False, True, True]
