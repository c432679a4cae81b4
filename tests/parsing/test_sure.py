"""A sentence that is sure enough of a step takes no further one."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.parsing.test_stable import Noisy
from tests.support.tiny import sample, tiny_model, tiny_parser
from treefine.config import ModelSettings, TagSettings, read_settings
from treefine.errors import ConfigError, TreefineError
from treefine.parsing import invariance as stable
from treefine.parsing.initial import given as given_trees
from treefine.parsing.invariance import unsteadiness
from treefine.parsing.parser import Parser
from treefine.parsing.refine import sureness


@st.composite
def scored_words(draw):
    """Scores of heads and labels of a batch, which words are dependents, and which of them repeat what was read."""
    n_sentences, n_words, n_labels = draw(st.integers(1, 3)), draw(st.integers(1, 5)), draw(st.integers(1, 4))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10_000)))
    arcs = draw(st.sampled_from([0.1, 1.0, 10.0])) * torch.randn(n_sentences, n_words, n_words + 1, generator=generator)
    arcs[..., 1] = draw(st.sampled_from([0.0, -math.inf]))
    labels = 3 * torch.randn(n_sentences, n_words, n_labels, generator=generator)
    is_dependent, is_same = (torch.rand(2, n_sentences, n_words, generator=generator) < 0.7).unbind(0)
    return arcs, labels, is_dependent, is_same


@given(scored_words())
def test_sureness_is_the_mean_probability_of_what_changed_where_what_did_not_counts_as_one(scored):
    arcs, labels, is_dependent, is_same = scored

    found = sureness(*scored)

    for row, sure in enumerate(found.tolist()):
        words = [word for word in range(arcs.shape[1]) if is_dependent[row, word]]
        each = [
            1.0
            if is_same[row, word]
            else float(arcs[row, word].softmax(-1).max() * labels[row, word].softmax(-1).max())
            for word in words
        ]
        assert sure == pytest.approx(np.mean(each) if each else 0, abs=1e-6)


@given(scored_words(), st.sampled_from([1e-4, 1e-2, 0.5]), st.integers(0, 1000))
def test_noise_in_the_scores_moves_the_sureness_by_no_more_than_its_bound(scored, size, seed):
    arcs, labels, is_dependent, is_same = scored
    generator = torch.Generator().manual_seed(seed)
    exact = [arcs.double(), labels.double()]

    def noise(scores):
        return torch.full(scores.shape[:-1], size, dtype=scores.dtype)

    bound = unsteadiness(*exact, is_dependent, is_same, noise)

    shifts = [size * (torch.rand(each.shape, generator=generator).round() - 0.5) for each in exact]
    moved = sureness(*(each + shift for each, shift in zip(exact, shifts, strict=True)), is_dependent, is_same)
    assert ((moved - sureness(*exact, is_dependent, is_same)).abs() <= bound + 1e-12).all()


def test_the_bound_is_near_what_noise_can_do():
    arcs, labels = torch.tensor([[[0.0, 1.0]]]).double(), torch.tensor([[[0.0]]]).double()
    is_dependent, is_same = torch.tensor([[True]]), torch.tensor([[False]])

    bound = float(unsteadiness(arcs, labels, is_dependent, is_same, lambda scores: torch.full((1, 1), 0.01)))

    worst = torch.tensor([[[0.005, 0.995]]]).double()
    moved = float(sureness(arcs, labels, is_dependent, is_same) - sureness(worst, labels, is_dependent, is_same))
    assert 0.5 * bound < moved < bound


def test_a_score_that_is_no_number_leaves_a_sentence_unsure():
    arcs, labels = torch.tensor([[[0.0, math.nan]]]), torch.zeros(1, 1, 2)

    assert not sureness(arcs, labels, torch.tensor([[True]]), torch.tensor([[False]])) > 0


def sure_of(step, before):
    """How sure one step of one sentence is, from what it tells."""
    probabilities = step.arc_probabilities[1:].max(1) * step.label_probabilities[1:].max(1)
    if before is not None:
        old = zip(before.heads[1:], before.labels[1:], strict=True)
        new = zip(step.graph.heads[1:], step.graph.labels[1:], strict=True)
        probabilities[[a == b for a, b in zip(old, new, strict=True)]] = 1
    return probabilities.mean()


def slow_parse(parser, sentence, stop_above):
    """The tree of the first step that is sure enough or has converged, from all steps."""
    before = None
    for step in parser.refine(sentence):
        if step.converged or sure_of(step, before) > stop_above:
            return step.tree
        before = step.graph
    return step.tree


MODELS = {
    "given tags": lambda: tiny_model(scale=1.5),
    "predicted tags": lambda: tiny_model(tags=TagSettings("predicted", ("upos", "xpos")), scale=1.5),
}


@pytest.mark.parametrize("kind", MODELS)
def test_a_sentence_has_the_tree_of_the_first_step_that_is_sure_enough(kind):
    parser, sentences = Parser(MODELS[kind](), max_steps=4, device="cpu"), sample(30)
    stop_above = float(np.median([sure_of(next(parser.refine(each)), None) for each in sentences]))

    parsed = parser.using(stop_above=stop_above).parse(sentences)

    assert [each.graph for each in parsed] == [slow_parse(parser, each, stop_above) for each in sentences]
    assert parsed != parser.parse(sentences)
    assert parsed != parser.using(max_steps=1).parse(sentences)


def test_all_that_is_told_of_a_sentence_is_of_the_steps_it_took():
    parser, sentences = Parser(MODELS["given tags"](), max_steps=2, device="cpu"), sample(30)
    firsts = [sure_of(next(parser.refine(each)), None) for each in sentences]
    parser = parser.using(stop_above=float(np.quantile(firsts, 0.95)))

    parses = list(parser.stream_parses(sentences))

    assert [each.sentence for each in parses] == parser.parse(sentences)
    assert {len(each.steps) for each in parses} == {1, 2}
    assert all(each.was_sure == (not each.converged and len(each.steps) < 2) for each in parses)
    assert {each.was_sure for each in parses} == {True, False}


def test_steps_that_are_asked_for_are_never_left_out():
    parser, sentences = tiny_parser(max_steps=4), sample(10)

    hasty = parser.using(stop_above=0.0)

    for sentence in sentences:
        assert [step.graph for step in hasty.refine(sentence)] == [step.graph for step in parser.refine(sentence)]


def test_by_default_a_sentence_stops_only_where_it_has_converged_and_at_zero_after_its_first_step():
    parser, sentences = tiny_parser(max_steps=4), sample(30)

    assert parser.stop_above == 1.0
    assert parser.parse(sentences) == parser.using(stop_above=1.0).parse(sentences)
    assert parser.using(stop_above=0.0).parse(sentences) == parser.using(max_steps=1).parse(sentences)


def test_arcs_that_were_read_and_stay_need_no_confidence():
    parser = tiny_parser(initial=given_trees, max_steps=8, keep="nothing")
    parses = parser.stream_parses(sample(60))
    fixed = [each.sentence for each in parses if each.converged and each.steps[-1] == each.tree]

    again = list(parser.using(stop_above=0.999999).stream_parses(fixed))

    assert fixed
    assert all(len(each.steps) == 1 for each in again)
    assert all(sure_of(next(parser.refine(each)), None) < 0.999 for each in fixed if len(each) > 1)


def trees(model, sentences, batch_pieces, stop_above):
    parser = Parser(model, device="cpu", batch_pieces=batch_pieces, stop_above=stop_above)
    return [parsed.graph for parsed in parser.parse(sentences)]


def test_whether_a_sentence_is_sure_enough_does_not_depend_on_its_batch(monkeypatch):
    sentences = sample(40)
    noisy = Noisy(tiny_model(scale=1.5), 0.4 * stable.TOLERANCE)
    parser = Parser(noisy, device="cpu", batch_pieces=300)
    limits = [sure_of(next(parser.refine(each)), None) for each in sentences[::8]]  # what some of them have alone

    for limit in limits:
        assert trees(noisy, sentences, 300, limit) == trees(noisy, sentences, 1, limit)
    monkeypatch.setattr(stable, "unsteadiness", lambda arcs, *_: -torch.ones(len(arcs)))
    assert any(trees(noisy, sentences, 300, limit) != trees(noisy, sentences, 1, limit) for limit in limits)


@pytest.mark.parametrize("wrong", [-0.1, 1.5, math.nan])
def test_a_share_of_words_is_from_0_to_1(wrong):
    with pytest.raises(TreefineError, match=r"stop_above is .*from 0 to 1; with 1 a sentence stops only where"):
        tiny_parser(stop_above=wrong)


def test_a_model_says_how_sure_is_sure_enough(tmp_path):
    parser = tiny_parser()
    parser.model.settings = replace(parser.model.settings, stop_above=0.9)

    parser.save(tmp_path / "model")

    loaded = Parser.from_pretrained(tmp_path / "model", device="cpu")
    assert loaded.stop_above == 0.9
    assert loaded.using(max_steps=2).stop_above == 0.9
    assert loaded.using(stop_above=0.5).stop_above == 0.5
    assert loaded.using(initial=given_trees).stop_above == 1.0  # it was not measured from other parsers' trees
    assert loaded.using(initial=given_trees, stop_above=0.5).using(k=2).stop_above == 0.5
    assert Parser.from_pretrained(tmp_path / "model", stop_above=1.0, device="cpu").stop_above == 1.0


def test_a_model_cannot_ask_for_more_than_all_words():
    encoder = {"family": "bilstm"}
    values = {"encoder": encoder, "relations": {"graph": "none"}, "stop_above": 1.01}

    with pytest.raises(ConfigError, match="stop_above = 1.01; it must not be over 1"):
        read_settings(ModelSettings, values)
