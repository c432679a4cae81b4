"""The loop of Eq. 1, compared with the same loop for one sentence; and learning with it."""

import pytest
import torch

from tests.support.tiny import sample, short, tiny_model
from tests.support.tiny_learner import blank, learn, learner_of, without_dropout
from treefine.config import RelationSettings, TagSettings
from treefine.model.batch import Graphs
from treefine.parsing.decode import Decoder
from treefine.parsing.parser import Parser
from treefine.parsing.refine import refine
from treefine.training.recipe import OptimiserSettings, TrainingSettings


def run(model, sentences, arcs, *, max_steps, tags=None, predict_tags=False):
    """Return the steps of each sentence in one batch as (t, graph, converged)."""
    decoder = Decoder(model.vocabulary.label_id("root"))
    found = [[] for _ in sentences]
    sizes = []

    def score(batch, graphs, tags, t):
        sizes.append(len(batch))
        return model(batch, graphs, tags)

    with torch.no_grad():
        for step in refine(
            score,
            model.batch_of(sentences),
            Graphs.of(arcs, model.vocabulary),
            max_steps=max_steps,
            decode=lambda scores, batch, t: decoder.graphs(scores, batch.is_word),
            tags=tags,
            predict_tags=predict_tags,
        ):
            for row, number in enumerate(step.sentences):
                length = step.batch.lengths[row]
                heads, labels = step.graphs.heads[row, 1 : length + 1], step.graphs.labels[row, 1 : length + 1]
                found[number].append((step.t, heads.tolist(), labels.tolist(), bool(step.converged[row])))
    return found, sizes


def slow_loop(model, sentence, arcs, max_steps):
    """Run Eq. 1 for one sentence, as in the paper."""
    decoder = Decoder(model.vocabulary.label_id("root"))
    batch = model.batch_of([sentence])
    graph = Graphs.of([arcs], model.vocabulary)
    steps = []
    for t in range(1, max_steps + 1):
        with torch.no_grad():
            scores = model(batch, graph, model.given_tags([sentence]))
            refined = decoder.graphs(scores, batch.is_word)
        is_same = refined.heads.tolist() == graph.heads.tolist() and refined.labels.tolist() == graph.labels.tolist()
        steps.append((t, refined.heads[0, 1:].tolist(), refined.labels[0, 1:].tolist(), is_same))
        if is_same:
            break
        graph = refined
    return steps


@pytest.mark.parametrize("start", ["empty", "gold"])
@pytest.mark.parametrize("graph", ["labelled", "unlabelled"])
def test_a_batch_takes_the_steps_that_each_sentence_takes_alone(start, graph):
    model = tiny_model(relations=RelationSettings(graph=graph), scale=1.5)
    sentences = short(30)
    arcs = blank(sentences) if start == "empty" else [sentence.arcs for sentence in sentences]

    found, sizes = run(model, sentences, arcs, max_steps=6, tags=model.given_tags(sentences))

    assert found == [slow_loop(model, s, a, 6) for s, a in zip(sentences, arcs, strict=True)]
    assert len({len(steps) for steps in found}) > 1  # they converge at different steps, and leave the batch
    assert sizes == [sum(len(steps) >= t for steps in found) for t in range(1, len(sizes) + 1)]


def test_tags_predicted_in_the_first_step_are_read_in_the_later_ones():
    model = tiny_model(tags=TagSettings("predicted", ("upos", "xpos")))
    sentences = sample(4)
    read, lengths = [], []
    original = model.forward

    def forward(batch, graphs=None, tags=None, **rest):
        scores = original(batch, graphs, tags, **rest)
        read.append((tags, [each.argmax(-1) + 1 for each in scores.tags]))
        lengths.append(batch.lengths)
        return scores

    model.forward = forward
    run(model, sentences, blank(sentences), max_steps=3, predict_tags=True)

    (first, predicted), (second, _), (third, repeated) = read
    assert first is None
    for row, length in enumerate(lengths[2]):  # these still change; their tags are not predicted again
        before = lengths[1].index(length)
        assert torch.equal(third[row, : length + 1], second[before, : length + 1])
        assert (
            repeated[0][row, 1 : length + 1] != predicted[0][before, 1 : length + 1]
        ).any()  # though they would differ
    for row, sentence in enumerate(sentences):
        words = slice(1, len(sentence) + 1)
        for column in (0, 1):
            assert second[row, words, column].tolist() == predicted[column][row, words].tolist()
        assert (second[row, 0] == 0).all()
        assert (second[row, len(sentence) + 1 :] == 0).all()


# Learning with the loop

KINDS = {
    "rngtr": lambda: tiny_model(scale=1.0),
    "unlabelled": lambda: tiny_model(relations=RelationSettings("unlabelled", none="zero"), scale=1.0),
    "syntr": lambda: tiny_model(relations=RelationSettings(graph="none"), scale=1.0),
    "tagger": lambda: tiny_model(tags=TagSettings("predicted", ("upos", "xpos")), scale=1.0),
}


def is_learned(model, sentences, found, gold, **options):
    """Train on one batch until the result is gold."""
    training = TrainingSettings(epochs=200, batch_pieces=10_000)
    rates = OptimiserSettings(learning_rate=0.02, encoder_learning_rate=0.02)
    learner = learner_of(without_dropout(model), sentences, training=training, optimiser=rates, **options)
    for first in range(1, 200, 10):
        learn(learner, epochs=10, first=first)
        model.eval()
        if found() == gold:
            return True
    return False


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_can_memorise_a_few_sentences(kind):
    sentences = [sentence for sentence in sample() if len(sentence) < 15][:6]
    model = KINDS[kind]()
    parser = Parser(model, device="cpu")

    def found():
        return [each.tree for each in parser.parse(sentences)], [parser.steps(each)[0].tags for each in sentences]

    gold = (
        [each.graph for each in sentences],
        [(each.upos, each.xpos) if kind == "tagger" else () for each in sentences],
    )
    assert is_learned(model, sentences, found, gold)
