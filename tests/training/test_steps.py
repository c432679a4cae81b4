"""Gold arcs that training shows as decided: which ones, and what the next step may do with them."""

from dataclasses import replace

import pytest
import torch

from tests.support.tiny import sample, tiny_model
from tests.support.tiny_learner import blank, learner_of, without_dropout
from treefine.config import RelationSettings
from treefine.model.batch import ARC, HEAD, LABEL, NOTHING, Graphs
from treefine.model.vocabulary import NO_HEAD, UNSEEN
from treefine.parsing.decode import dependents
from treefine.parsing.refine import BatchStep
from treefine.training.learner import GoldBatch, step_loss
from treefine.training.recipe import InitialSettings, RefineSettings, TagTraining
from treefine.training.steps import Decisions, with_gold

SENTENCES = [each for each in sample() if 3 <= len(each) < 12][:40]
MODEL = tiny_model(relations=RelationSettings(decided=True))
N_LABELS = len(MODEL.vocabulary.labels)
BATCH = MODEL.batch_of(SENTENCES)
GOLD = Graphs.of([each.arcs for each in SENTENCES], MODEL.vocabulary)
EMPTY = Graphs.of(blank(SENTENCES), MODEL.vocabulary)
IS_WORD = dependents(BATCH.is_word)


def drawn(seed=1, **shares):
    torch.manual_seed(seed)
    return Decisions.drawn(BATCH, GOLD, N_LABELS, InitialSettings(**shares))


def step_of(graphs, t=1):
    none = torch.zeros(len(BATCH), dtype=torch.bool)
    return BatchStep(t, tuple(range(len(BATCH))), BATCH, None, graphs, None, none, none, layers=2)


def with_wrong_arcs(*places):
    """Return the gold graphs with wrong labels at these places of every sentence."""
    labels = GOLD.labels.clone()
    for place in places:
        labels[:, place] = (labels[:, place] + 1) % N_LABELS
    return replace(GOLD, labels=labels, decided=torch.zeros_like(GOLD.heads))


def test_decisions_are_on_words_only():
    first = drawn(decided_share=1.0).first

    assert not first[~IS_WORD].any()
    assert set(first[IS_WORD].tolist()) == {NOTHING, ARC, HEAD, LABEL}


def test_half_of_the_sentences_are_decided_up_to_some_place():
    decisions = drawn(decided_share=1.0)

    for row, length in enumerate(BATCH.lengths):
        if not decisions.are_confirmed[row]:  # read from left to right
            decided = decisions.first[row, 1 : length + 1].tolist()
            n_read = decided.count(ARC)
            assert decided == [ARC] * n_read + [NOTHING] * (length - n_read)


def test_a_root_is_decided_with_its_label_or_by_its_head():
    first = torch.cat([drawn(seed, decided_share=1.0).first[GOLD.heads == 0] for seed in range(5)])

    assert LABEL not in first.tolist()


def test_decided_arcs_are_read_and_nothing_else_may_be_chosen():
    decided = torch.zeros_like(GOLD.heads)
    decided[:, 1], decided[:, 2], decided[:, 3] = ARC, HEAD, LABEL

    batch, graphs = with_gold(BATCH, EMPTY, GOLD, decided, N_LABELS)

    assert graphs.heads[:, 1:4].tolist() == [[*gold[1:3], NO_HEAD] for gold in GOLD.heads.tolist()]
    assert graphs.labels[:, 1:4].tolist() == [[gold[1], UNSEEN, gold[3]] for gold in GOLD.labels.tolist()]
    assert batch.allowed.heads[:, 1:3].sum(-1).unique().tolist() == [1]
    assert batch.allowed.labels[:, 1].sum(-1).unique().tolist() == [1]
    assert batch.allowed.labels[:, 2].all()
    assert not batch.allowed.heads[:, 3, 0].any()  # a word with another label is not the root
    assert batch.allowed.heads[~IS_WORD].all()


def test_a_new_head_loses_the_label_of_the_old_one():
    others = replace(GOLD, heads=(GOLD.heads + 1) % 3)
    decided = torch.where(IS_WORD, HEAD, NOTHING)

    _, graphs = with_gold(BATCH, others, GOLD, decided, N_LABELS)

    is_moved = IS_WORD & (others.heads != GOLD.heads)
    assert (graphs.labels[is_moved] == UNSEEN).all()
    assert torch.equal(graphs.labels[~is_moved], GOLD.labels[~is_moved])


def test_after_the_first_step_the_first_wrong_arc_is_corrected():
    decisions = drawn(corrected_share=1.0)

    _, graphs = decisions.correct(step_of(with_wrong_arcs(2, 3)))

    assert torch.equal(graphs.labels[:, 2], GOLD.labels[:, 2])
    assert not torch.equal(graphs.labels[:, 3], GOLD.labels[:, 3])
    for row, decided in enumerate(graphs.decided.tolist()):
        assert decided[1:4] == [ARC if decisions.are_confirmed[row] else NOTHING, ARC, NOTHING]


def test_later_steps_and_right_sentences_are_not_corrected():
    decisions, wrong = drawn(corrected_share=1.0), with_wrong_arcs(2)

    _, later = decisions.correct(step_of(wrong, t=2))
    _, right = decisions.correct(step_of(with_wrong_arcs()))

    assert later is wrong
    assert not right.decided.any()


def test_decided_words_add_nothing_to_the_loss():
    batch, graphs = with_gold(BATCH, EMPTY, GOLD, torch.where(IS_WORD, ARC, NOTHING), N_LABELS)
    scores = MODEL(batch, graphs, None)[0].within(batch.allowed)

    loss = step_loss(
        replace(step_of(graphs, 2), batch=batch, scores=scores), GoldBatch(GOLD, None), TagTraining()
    ).detach()

    assert loss.item() == 0.0


@pytest.mark.parametrize("is_marked", [True, False])
def test_every_step_of_training_keeps_the_decided_arcs(is_marked):
    model = without_dropout(tiny_model(relations=RelationSettings(decided=is_marked)))
    settings = {"initial": InitialSettings(decided_share=1.0), "refine": RefineSettings(max_steps=3, stop=False)}
    learner = learner_of(model, SENTENCES, **settings)
    torch.manual_seed(3)

    steps = list(learner.steps(learner.model.batch_of(SENTENCES), blank(SENTENCES), None, GOLD))

    assert len(steps) > 1
    first = steps[0].graphs.decided
    assert (first == ARC).any()
    for step in steps:
        assert torch.equal(step.graphs.heads[first == ARC], GOLD.heads[first == ARC])
        assert torch.equal(step.graphs.labels[first == ARC], GOLD.labels[first == ARC])
