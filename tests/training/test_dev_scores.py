from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.data import DATA
from tests.support.generated import LABELS, random_heads
from tests.support.tiny import sample, tiny_model, tiny_syntr
from tests.support.tiny_learner import accuracy_of, blank, learn, learner_of
from treefine.config import DecodeSettings, TagSettings
from treefine.evaluation.scores import RULES, evaluate
from treefine.parsing.parser import Parser
from treefine.training.data import noised
from treefine.training.dev import Accuracy, DevScorer
from treefine.training.recipe import OptimiserSettings, RefineSettings
from treefine.treebank.conllu import read_treebank
from treefine.treebank.graph import Graph
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
        any_heads = st.lists(st.integers(0, n_words), **some)
        wrong = draw(random_heads(n_words) if RULES[rule].is_ud else any_heads)
        keeps = draw(st.lists(st.booleans(), **some)) if not RULES[rule].is_ud else [draw(st.booleans())] * n_words
        found = [head if keep else other for head, other, keep in zip(heads, wrong, keeps, strict=True)]
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
    scorer = DevScorer(gold, KNOWN, rule=rule)

    right = [scorer.right(number, np.array(heads), np.array(ids)) for number, (heads, ids) in enumerate(system)]

    parsed = [
        sentence.with_graph(Graph.of_words(heads, [KNOWN[each] for each in ids]))
        for sentence, (heads, ids) in zip(gold, system, strict=True)
    ]
    scores = evaluate(gold, parsed, rule=rule)
    assert scorer.total == max(1, scores["LAS"].gold)
    assert sum(heads for heads, _ in right) == scores["UAS"].correct
    assert sum(both for _, both in right) == scores["LAS"].correct


@pytest.mark.parametrize(
    ("name", "rule"), [("constructs.conllu", "conll18"), ("german.conll09", "conll09"), ("penn.conllx", "ptb")]
)
def test_files_with_all_constructs_are_counted_correctly(name, rule):
    """Score a copy of gold as fully correct, with multiword tokens, empty nodes, spaces in forms, and older formats."""
    gold = list(read_treebank(DATA / name))
    labels = sorted({label for sentence in gold for label in sentence.labels})
    scorer = DevScorer(gold, labels, rule=rule)

    right = [
        scorer.right(number, np.array(each.heads), np.array([labels.index(label) for label in each.labels]))
        for number, each in enumerate(gold)
    ]

    counted = evaluate(gold, gold, rule=rule)["LAS"].gold
    assert sum(both for _, both in right) == sum(heads for heads, _ in right) == scorer.total == counted


KINDS = {
    "rngtr": lambda: tiny_model(),
    "released code": lambda: tiny_model(decode=DecodeSettings("root", "none", "tree", "probabilities")),
    "tagger": lambda: tiny_model(tags=TagSettings("predicted", ("upos", "xpos"))),
    "windows": lambda: tiny_model(n_positions=24),
    "syntr": lambda: tiny_syntr(),
}


def first_parses(kind, sentences):
    """Return initial graphs with errors for some kinds of model, and empty graphs for the rest."""
    if kind not in ("rngtr", "windows"):
        return blank(sentences)
    rng = np.random.default_rng(1)
    labels = np.array(["nsubj", "obj", "root"])
    return [noised(sentence.arcs, 0.3, labels, rng) for sentence in sentences]


@pytest.mark.parametrize("kind", KINDS)
def test_dev_accuracy_equals_that_of_the_parser(kind):
    """Compares final trees, and the graphs of each step; a converged sentence keeps its graph."""
    model, sentences = KINDS[kind](), [each for each in sample() if len(each) < 15]
    arcs = first_parses(kind, sentences)
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


def test_several_sources_count_equally_and_each_is_reported():
    first, second = Accuracy((0.2, 0.4), 0.6, 0.5), Accuracy((0.6, 0.7), 0.9, 0.8)

    mean = Accuracy.mean({"empty": first, "other": second})

    assert mean.las_by_step == pytest.approx((0.4, 0.55))
    assert (mean.uas, mean.las) == pytest.approx((0.75, 0.65))
    assert mean.las_from == {"empty": 0.5, "other": 0.8}
    assert Accuracy.mean({"empty": first}) is first
