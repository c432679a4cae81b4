"""The loop of Eq. 1 and its stages, compared with the same loop for one sentence."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given as given_by_hypothesis
from hypothesis import strategies as st

from tests.support.tiny import sample, short, tiny_model
from tests.support.tiny_learner import blank
from treefine import Constraints, Parser, Sentence, fast
from treefine.config import ConfidenceSettings, RelationSettings, TagSettings
from treefine.model.batch import Graphs
from treefine.model.vocabulary import NO_HEAD
from treefine.parsing.decode import Decoder
from treefine.parsing.initial import input_trees
from treefine.parsing.refine import expected_stability, refine

TAGGER = TagSettings("predicted", ("upos", "xpos"))


def run(model, sentences, arcs, *, max_steps, tags=None, predict_tags=False):
    """Return the steps of each sentence in one batch as (t, graph, converged)."""
    decoder = Decoder(model.vocabulary.label_id("root"))
    found = [[] for _ in sentences]
    sizes = []

    def score(batch, graphs, tags, t):
        sizes.append(len(batch))
        return model(batch, graphs, tags, stage=t - 1)

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
            scores, _ = model(batch, graph, model.given_tags([sentence]))
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
    model, sentences, read = tiny_model(tags=TAGGER), sample(4), []
    original = model.forward

    def forward(batch, graphs=None, tags=None, **rest):
        scores, encoded = original(batch, graphs, tags, **rest)
        read.append((batch.lengths, tags, torch.stack([each.argmax(-1) + 1 for each in scores.tags], dim=-1)))
        return scores, encoded

    model.forward = forward
    run(model, sentences, blank(sentences), max_steps=3, predict_tags=True)

    (_, first, predicted), (lengths, second, _), (remaining, third, repeated) = read
    assert first is None
    for row, sentence in enumerate(sentences):
        words = slice(1, len(sentence) + 1)
        assert torch.equal(second[row, words], predicted[row, words])
        assert not second[row, 0].any()
        assert not second[row, len(sentence) + 1 :].any()
    for row, length in enumerate(remaining):  # these still change; their tags are not predicted again
        words, before = slice(length + 1), lengths.index(length)
        assert torch.equal(third[row, words], second[before, words])
        assert (repeated[row, words] != predicted[before, words]).any()  # though they would differ


# Batches: up to rounding, other sentences in the batch change nothing


MODELS = {
    "given tags": lambda: tiny_model(),
    "predicted tags": lambda: tiny_model(tags=TAGGER),
    "windows": lambda: tiny_model(n_positions=16),
}


@pytest.mark.parametrize("kind", MODELS)
def test_batches_and_order_change_no_tree_without_close_calls(kind):
    model = MODELS[kind]()
    sentences = short(14)
    alone = [next(Parser(model, device="cpu").stream_trees([sentence])) for sentence in sentences]

    for batch_pieces in (30, 200, 10_000):
        order = list(range(len(sentences)))
        random.Random(batch_pieces).shuffle(order)
        parsed = Parser(model, device="cpu", batch_pieces=batch_pieces).stream_trees([sentences[n] for n in order])
        assert list(parsed) == [alone[number] for number in order]


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("scale", [1.0, 3.0, 10.0, 30.0])
def test_scores_of_one_sentence_differ_between_batches_only_by_rounding(scale, precision):
    model = fast.parsing_model(tiny_model(scale=scale), torch.device("cpu"), precision)
    sentences = sample(24)
    with torch.no_grad():
        together, _ = model(model.batch_of(sentences, padded_to=4), None, model.given_tags(sentences))

        for row, sentence in enumerate(sentences):
            alone, _ = model(model.batch_of([sentence], padded_to=4), None, model.given_tags([sentence]))
            is_arc = alone.arcs.isfinite()
            difference = (together.only(row).arcs - alone.arcs)[is_arc].abs().max()
            assert difference < 0.001 * max(1, alone.arcs[is_arc].abs().max())


# Early stopping: a sentence that is sure enough takes no further step


@st.composite
def scored_words(draw):
    """Draw scores of heads and labels of a batch, the mask of dependents, and the mask of unchanged words."""
    n_sentences, n_words, n_labels = draw(st.integers(1, 3)), draw(st.integers(1, 5)), draw(st.integers(1, 4))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10_000)))
    arcs = draw(st.sampled_from([0.1, 1.0, 10.0])) * torch.randn(n_sentences, n_words, n_words + 1, generator=generator)
    arcs[..., 1] = draw(st.sampled_from([0.0, -math.inf]))
    labels = 3 * torch.randn(n_sentences, n_words, n_labels, generator=generator)
    is_dependent, is_same = (torch.rand(2, n_sentences, n_words, generator=generator) < 0.7).unbind(0)
    return arcs, labels, is_dependent, is_same


@given_by_hypothesis(scored_words())
def test_expected_stability_is_the_mean_probability_with_unchanged_words_as_1(scored):
    arcs, labels, is_dependent, is_same = scored

    found = expected_stability(*scored)

    for row, sure in enumerate(found.tolist()):
        words = [word for word in range(arcs.shape[1]) if is_dependent[row, word]]
        each = [
            1.0
            if is_same[row, word]
            else float(arcs[row, word].softmax(-1).max() * labels[row, word].softmax(-1).max())
            for word in words
        ]
        assert sure == pytest.approx(np.mean(each) if each else 0, abs=1e-6)


def sure_of(step, before):
    """Return the expected stability of one step of one sentence, computed from the step."""
    probabilities = step.arc_probabilities[1:].max(1) * step.label_probabilities[1:].max(1)
    if before is not None:
        old = zip(before.heads[1:], before.labels[1:], strict=True)
        new = zip(step.graph.heads[1:], step.graph.labels[1:], strict=True)
        probabilities[[a == b for a, b in zip(old, new, strict=True)]] = 1
    return probabilities.mean()


def slow_parse(parser, sentence, stop_above):
    """Return the tree of the first step that is sure enough or has converged."""
    before = None
    for step in parser.steps(sentence):
        if step.converged or sure_of(step, before) > stop_above:
            return step.tree
        before = step.graph
    return step.tree


@pytest.mark.parametrize("tags", [None, TAGGER], ids=["given tags", "predicted tags"])
def test_a_sentence_has_the_tree_of_the_first_step_that_is_sure_enough(tags):
    parser, sentences = Parser(tiny_model(tags=tags, scale=1.5), max_steps=4, device="cpu"), short(16)
    stop_above = float(np.median([sure_of(parser.steps(each)[0], None) for each in sentences]))

    parsed = list(parser.using(stop_above=stop_above).stream_trees(sentences))

    assert [each.graph for each in parsed] == [slow_parse(parser, each, stop_above) for each in sentences]
    assert parsed != list(parser.stream_trees(sentences))
    assert parsed != list(parser.using(max_steps=1).stream_trees(sentences))


# Stages: a step runs some of the layers


def staged(**options):
    """Return a model whose first step drafts a graph with layer 1; layers 2 and 3 read the graph of the step before."""
    stages = {"n_layers": 3, "stages": (1, 2, 3), "relations": RelationSettings(first_layer=1)}
    return tiny_model(**{**stages, "tags": TagSettings("none"), "scale": 1.5} | options)


def layers_by_hand(model, sentence, graphs, max_steps, first_stage=0):
    """Run the layers for one sentence, as in issue 36: return the graph of each step, and whether it was the same.

    After the last stage, layers 2 and 3 run again, from the vectors after layer 1.
    """
    encoder, decoder = model.encoder, Decoder(model.vocabulary.label_id("root"))
    batch = model.batch_of([sentence])
    inputs, found = batch.inputs, []

    def layer(number, x, graphs):
        return encoder.layers[number](x, encoder.attention(inputs, encoder.relate(inputs, graphs), x.dtype))

    with torch.no_grad():
        lower = x = layer(0, encoder.embed(inputs, None), None)
        for stage in range(first_stage, first_stage + max_steps):
            if stage == 1 or (stage == 2 and not found):
                x = layer(1, lower, graphs)
            elif stage == 2:
                x = layer(2, x, graphs)
            elif stage > 2:
                x = layer(2, layer(1, lower, graphs), graphs)
            scorer = model.draft_scorers[stage] if stage < 2 else model.scorer
            refined = decoder.graphs(
                scorer(x[inputs.first_pieces], batch.is_word, batch.places, batch.roots), batch.is_word
            )
            is_same = bool(refined.same_words(graphs).all())
            found.append((refined.heads[0, 1:].tolist(), refined.labels[0, 1:].tolist(), is_same))
            graphs = refined
            if is_same:
                break
    return found


def by_steps(steps, model):
    """Return the graphs of the steps of a parser, with the numbers of labels."""
    ids = model.vocabulary.label_id
    return [
        (list(step.graph.heads[1:]), [ids(label) for label in step.graph.labels[1:]], step.converged) for step in steps
    ]


def empty_of(sentence, model):
    return Graphs.of(blank([sentence]), model.vocabulary)


def test_each_stage_runs_its_layers_over_the_graph_of_the_step_before():
    model, sentences = staged(), short(16)
    parser = Parser(model, device="cpu", max_steps=5, batch_pieces=400, stop_above=1.0)

    found = [by_steps(steps, model) for _, steps in parser.stream_steps(sentences)]

    assert found == [layers_by_hand(model, each, empty_of(each, model), 5) for each in sentences]
    n_steps = {len(steps) for steps in found}
    assert len(n_steps) > 1  # some converge before others
    assert max(n_steps) > 3  # and some go through the upper layers again


def test_a_step_runs_only_its_layers():
    model, sentences = staged(), short(3)

    def score(batch, graphs, tags, t):
        return model(batch, graphs, tags, stage=t - 1)

    def decode(scores, batch, t):
        return Decoder(model.vocabulary.label_id("root")).graphs(scores, batch.is_word)

    initial = Graphs.of(blank(sentences), model.vocabulary)
    with torch.no_grad():
        steps = refine(score, model.batch_of(sentences), initial, max_steps=5, decode=decode, stops=False, drafts=True)
        found = [(step.t, step.layers, step.scores.stage) for step in steps]

    assert found == [(1, 1, 0), (2, 1, 1), (3, 1, 2), (4, 2, 2), (5, 2, 2)]


@pytest.mark.parametrize("lacking", [(), (0, 2)], ids=["all given", "some lack a graph"])
def test_a_given_graph_is_read_in_place_of_the_draft(lacking):
    model, sentences = staged(), short(5)
    without = [Sentence.of_words(each.forms) if n in lacking else each for n, each in enumerate(sentences)]
    parser = Parser(model, device="cpu", max_steps=4, initial=input_trees, trust=0, stop_above=1.0)

    found = [by_steps(steps, model) for _, steps in parser.stream_steps(without)]

    for number, (sentence, steps) in enumerate(zip(sentences, found, strict=True)):
        graph = Graphs.of([sentence.arcs], model.vocabulary)
        if number in lacking:  # its draft is made first
            heads, labels, _ = layers_by_hand(model, sentence, empty_of(sentence, model), 1)[0]
            graph = Graphs(torch.tensor([[NO_HEAD, *heads]]), torch.tensor([[NO_HEAD, *labels]]))
        assert steps == layers_by_hand(model, sentence, graph, 4, first_stage=1)


def test_a_sentence_with_decided_arcs_stops_only_if_it_has_converged_and_not_at_the_draft():
    relations = RelationSettings(first_layer=1, decided=True)
    sentence = short(1)[0]
    parser = Parser(staged(relations=relations), device="cpu", max_steps=3, stop_above=0.0)

    free, decided = parser.parse(sentence), parser.parse(sentence, constraints=Constraints(heads={1: 0}))

    assert len(free.steps) == 1
    assert len(decided.steps) == 3 or decided.converged
    assert len(decided.steps) > 1
    assert decided.heads[0] == 0


@pytest.mark.parametrize("layers", [1, 3])
def test_with_one_stage_and_every_layer_reading_the_graph_a_step_does_not_depend_on_those_before(layers):
    options = {} if layers == 1 else {"stages": (3,)}
    model, sentences = tiny_model(n_layers=layers, **options), sample(3)
    batch, graphs = model.batch_of(sentences), Graphs.of([each.arcs for each in sentences], model.vocabulary)

    with torch.no_grad():
        scores, encoded = model(batch, None, None, stage=0)
        again, _ = model(replace(batch, encoded=encoded), graphs, None, stage=1)
        alone, _ = model(batch, graphs, None, stage=0)

    assert torch.equal(again.arcs, alone.arcs)
    assert encoded.n_layers == layers
    assert not torch.equal(again.arcs, scores.arcs)


def test_a_sentence_that_stops_at_a_draft_has_the_confidence_that_was_calibrated_for_the_draft():
    model, sentence = staged(), short(1)[0]
    plain, hesitant = ConfidenceSettings(), ConfidenceSettings(arc_temperature=5.0)

    def confidences(*stages):
        """Return the confidence of a sentence that stops at the draft, and that of one that reaches the last stage."""
        model.settings = replace(model.settings, draft_confidence=stages[:-1], confidence=stages[-1])
        parser = Parser(model, device="cpu", max_steps=3)
        return [parser.using(stop_above=limit).parse(sentence).confidence for limit in (0.0, 1.0)]

    of_draft, of_last = confidences(plain, plain, plain)
    assert confidences(hesitant, plain, plain)[1] == of_last
    assert confidences(hesitant, plain, plain)[0] != of_draft
    assert confidences(plain, plain, hesitant)[0] == of_draft
    assert confidences(plain, plain, hesitant)[1] != of_last


def test_the_fast_speed_stops_at_its_own_limit_unless_another_is_given():
    model, sentence = staged(), short(1)[0]
    model.settings = replace(model.settings, stop_above=1.0, fast_stop_above=0.0)

    def n_steps(**options):
        return len(Parser(model, device="cpu", max_steps=3, **options).parse(sentence).steps)

    assert n_steps(speed="fast") == 1
    assert n_steps() == n_steps(speed="default") == n_steps(speed="fast", stop_above=1.0) == 3
    given = {"initial": input_trees, "trust": 0}
    assert n_steps(speed="fast", **given) == n_steps(**given)  # limits are measured from an empty graph
