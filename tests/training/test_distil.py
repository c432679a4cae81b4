"""Distillation: targets from the averaged probabilities of teachers, on labelled and unlabelled sentences."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.support.tiny import short, tiny_model
from tests.support.tiny_learner import learner_of, recipe_for
from tests.support.tiny_segmenter import tiny_segmenter
from tests.support.tiny_tokenizers import byte_bpe
from tests.support.trainings import CPU
from tests.training.test_learner import gold_of
from treefine.config import RelationSettings, TagSettings
from treefine.errors import TreefineError
from treefine.parsing.initial import empty
from treefine.parsing.parser import Parser
from treefine.training.data import load_texts
from treefine.training.distil import (
    FIRST_TAGS,
    HEADS,
    LABELS,
    N_KEPT,
    Targets,
    compute_targets,
    most_likely,
    unlabelled_sentences,
)
from treefine.training.learner import step_loss
from treefine.training.recipe import InitialSettings, RefineSettings, TagTraining, TeacherSettings
from treefine.training.steps import refined
from treefine.treebank.conllu import write_treebank
from treefine.treebank.sentence import Sentence

SENTENCES = short(14, longest=12)
N_ALL = len(SENTENCES)
TAGS = TagSettings("predicted", ("upos", "xpos"))


def targets_of(teachers, n_labelled=N_ALL, *, weight=0.5, max_steps=3):
    """Return the targets of all sentences, and the parsed unlabelled ones."""
    recipe = replace(recipe_for(teachers[0]), teacher=TeacherSettings(models=("x",), weight=weight))
    recipe = replace(recipe, refine=replace(recipe.refine, max_steps=max_steps))
    unlabelled = words_only(SENTENCES[n_labelled:])
    targets, parsed, steps = compute_targets(recipe, SENTENCES[:n_labelled], unlabelled, teachers, CPU)
    assert list(steps)[-1] == 1
    return targets, parsed


def words_only(sentences):
    return [Sentence.of_words(each.forms) for each in sentences]


def steps_of(model, sentences, max_steps=3):
    return list(refined(model, model.batch_of(sentences), list(empty(sentences)), None, RefineSettings(max_steps)))


# Targets


def test_the_most_likely_choices_sum_to_one_and_keep_their_order():
    ids, probabilities = most_likely(torch.tensor([[0.5, 0.1, 0.4, 0.0]]))  # the last is impossible

    assert ids.tolist() == [[0, 2, 1, 0, 0, 0, 0, 0]]
    torch.testing.assert_close(probabilities, torch.tensor([[0.5, 0.4, 0.1, 0, 0, 0, 0, 0]]))
    torch.testing.assert_close(most_likely(torch.full((2, 20), 0.05))[1], torch.full((2, 8), 0.125))


def dense(ids, probabilities, n_choices):
    """Return the probabilities of all choices."""
    found = np.zeros((len(ids), n_choices))
    for row, choices in enumerate(zip(ids, probabilities, strict=True)):
        for choice, probability in zip(*choices, strict=True):
            found[row, choice] += probability
    return found


@pytest.mark.parametrize("n_labelled", [N_ALL, 5])
@torch.no_grad()
def test_targets_are_the_mean_probabilities_of_independent_teachers_at_each_step(n_labelled):
    """Compares with each sentence and teacher alone. The teachers have different encoders and pieces."""
    teachers = tiny_model(tags=TAGS), tiny_model(tags=TAGS, tokenizer=byte_bpe, family="roberta", seed=2)

    targets, parsed = targets_of(teachers, n_labelled, max_steps=4)

    assert [each.forms for each in parsed] == [each.forms for each in SENTENCES[n_labelled:]]
    for number, sentence in enumerate(SENTENCES):
        heads = list(sentence.heads)
        if number >= n_labelled:
            heads = list(parsed[number - n_labelled].heads)
            assert "_" not in (*parsed[number - n_labelled].labels, *parsed[number - n_labelled].upos)
        runs = [steps_of(teacher, [sentence], 4) for teacher in teachers]
        words = slice(targets.starts[number], targets.starts[number] + len(sentence))
        for t in range(4):
            steps = [run[min(t, len(run) - 1)].scores for run in runs]
            kinds = {
                HEADS: [scores.arcs for scores in steps],
                LABELS: [scores.labels(torch.tensor([[0, *heads]])) for scores in steps],
                FIRST_TAGS + 1: [scores.tags[1] for scores in steps],
            }
            for kind, scores in kinds.items():
                mean = sum(each.softmax(-1) for each in scores)[0, 1:] / 2
                ours = dense(targets.ids[words, t, kind], targets.probabilities[words, t, kind], mean.shape[-1])
                theirs = dense(*(each.numpy() for each in most_likely(mean)), mean.shape[-1])
                np.testing.assert_allclose(ours, theirs, atol=4e-3)


def test_unlabelled_sentences_get_the_trees_and_tags_of_a_single_teacher():
    model = tiny_model(tags=TAGS)

    _, parsed = targets_of([model], 0)

    expected = Parser(model, device="cpu", max_steps=3).stream_trees(words_only(SENTENCES))
    assert [(each.arcs, each.upos, each.xpos) for each in parsed] == [
        (each.arcs, each.upos, each.xpos) for each in expected
    ]


def test_targets_are_the_same_after_saving_and_loading(tmp_path):
    targets, _ = targets_of([tiny_model()])

    targets.save(tmp_path / "targets.safetensors")
    loaded = Targets.load(tmp_path / "targets.safetensors", SENTENCES)

    for name in ("lengths", "ids", "probabilities", "shares"):
        assert np.array_equal(getattr(loaded, name), getattr(targets, name))
    assert (loaded.ids.dtype, loaded.probabilities.dtype, loaded.ids.shape[-1]) == (np.int16, np.float16, N_KEPT)
    with pytest.raises(TreefineError, match="targets of other sentences"):
        Targets.load(tmp_path / "targets.safetensors", SENTENCES[1:])
    (tmp_path / "targets.safetensors").write_bytes(b"no")
    with pytest.raises(TreefineError, match="The file is damaged"):
        Targets.load(tmp_path / "targets.safetensors", SENTENCES)


# The loss


def with_targets(gold, targets):
    return replace(gold, targets=targets.of_batch(range(N_ALL), CPU))


@torch.no_grad()
def test_the_loss_is_the_cross_entropy_with_a_mixture():
    model, n_labelled = tiny_model(tags=TAGS), 5
    targets, _ = targets_of([tiny_model(tags=TAGS, seed=2)], n_labelled, weight=0.25)
    gold = gold_of(model, SENTENCES)
    for step in steps_of(model, SENTENCES):
        distilled, total = step_loss(step, with_targets(gold, targets), TagTraining()), 0.0
        for row, number in enumerate(step.sentences):
            share = 0.25 if number < n_labelled else 1.0
            heads = gold.graphs.heads[number : number + 1, : step.batch.n_words]
            part = step.scores.only(row)
            kinds = [(part.arcs, gold.graphs.heads), (part.labels(heads), gold.graphs.labels)]
            if step.t == 1:
                kinds += [(scores, gold.tags[..., column] - 1) for column, scores in enumerate(part.tags)]
            for kind, (scores, right) in enumerate(kinds):
                for word in range(1, len(SENTENCES[number]) + 1):
                    if right[number, word] < 0:
                        continue
                    place = targets.starts[number] + word - 1
                    logs = scores[0, word].log_softmax(-1).tolist()
                    soft = zip(
                        targets.ids[place, step.t - 1, kind],
                        targets.probabilities[place, step.t - 1, kind],
                        strict=True,
                    )
                    total -= (1 - share) * logs[right[number, word]]
                    total -= share * sum(float(p) * logs[each] for each, p in soft if p)
        assert float(distilled) == pytest.approx(total, rel=1e-4)


def test_sentences_with_decided_arcs_learn_only_their_trees_and_all_gradients_are_finite():
    model = tiny_model(relations=RelationSettings(decided=True))
    targets, _ = targets_of([tiny_model(seed=2)], 7)
    settings = {"initial": InitialSettings(decided_share=0.5, corrected_share=0.4), "refine": RefineSettings(3, False)}
    learner, n_decided = learner_of(model, SENTENCES, **settings), 0
    gold = with_targets(gold_of(model, SENTENCES), targets)
    torch.manual_seed(3)

    batch, arcs = learner.model.batch_of(SENTENCES), [each.arcs for each in SENTENCES]
    for step in learner.steps(batch, arcs, None, gold.graphs):
        loss = step_loss(step, gold, TagTraining())
        loss.backward()

        assert loss.isfinite()
        own = gold.targets.select(torch.tensor(step.sentences), step.batch.n_words).at(step.t, step.graphs)
        is_decided = step.graphs.decided.any(1)
        n_decided += int(is_decided.sum())
        assert torch.equal(own.share[:, 0] == 0, is_decided)
    assert 0 < n_decided < 3 * len(SENTENCES)
    assert all(each.grad.isfinite().all() for each in model.parameters() if each.grad is not None)


# Texts


def test_texts_are_lines_and_the_words_of_treebanks(tmp_path):
    (tmp_path / "a.txt").write_text("ab a.\n\nb 1\nba\n")
    write_treebank(SENTENCES[:2], tmp_path / "b.conllu.xz")

    found = load_texts(TeacherSettings(models=("x",), texts=(f"{tmp_path}/a.txt", f"{tmp_path}/b.conllu.xz")))

    assert found == ("ab a.\n", "b 1\n", "ba\n", *words_only(SENTENCES[:2]))
    sampled = load_texts(TeacherSettings(models=("x",), texts=(f"{tmp_path}/a.txt",), sentences=2))
    assert sampled == ("ab a.\n", "b 1\n")


def test_lines_are_divided_by_the_segmenter_and_very_long_ones_are_left_out():
    segmenter = tiny_segmenter()
    lines = ["ab a.\n", "b 1\n"]
    one = Sentence.of_words(["a"] * 201)

    found = unlabelled_sentences([*lines, one, SENTENCES[0]], segmenter)

    expected = [each.sentence.forms for each in segmenter.stream_lines(lines)]
    assert [each.forms for each in found] == [SENTENCES[0].forms, *expected]
