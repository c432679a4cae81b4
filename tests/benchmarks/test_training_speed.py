"""Training is timed together with a reference implementation that learns the same."""

import json

import pytest
import torch

from benchmarks.speed import training as training_speed
from benchmarks.speed.straightforward import Straightforward, relation_matrix
from benchmarks.speed.training import (
    OURS,
    REFERENCE,
    Setting,
    kept_bytes,
    measure_training_speed,
    profile,
    random_graphs,
    random_model,
    random_sentences,
)
from tests.support.tiny import sample, tiny_model
from tests.support.tiny_learner import learner_of, without_dropout
from treefine.model.batch import Graphs
from treefine.model.relations import relate
from treefine.model.vocabulary import UNSEEN
from treefine.training.optimiser import Optimiser
from treefine.training.recipe import OptimiserSettings, RefineSettings

SHORT = [each for each in sample() if len(each) < 12][:12]
FIXED = OptimiserSettings(
    learning_rate=0.0, encoder_learning_rate=0.0, clip_gradient_norm=0.0
)  # the weights never change
CPU = torch.device("cpu")


def shifted(sentences):
    """Return graphs with cycles of two words and long arcs: the trees of other sentences."""
    arcs = random_graphs(sentences, seed=2)
    first = arcs[0]
    return [type(first)((2, 1, *first.heads[2:]), first.labels), *arcs[1:]]


def test_the_reference_has_the_same_loss_and_gradients_at_every_step():
    # Equal to 1e-4 in float32 for three steps; each starts from the graph of the previous one.
    model = without_dropout(tiny_model(scale=1.0)).train()
    learner = learner_of(model, SHORT, refine=RefineSettings(max_steps=3, stop=False), optimiser=FIXED)
    reference = Straightforward(model, Optimiser(model, FIXED), max_steps=3, dtype=torch.float32)
    start, gradients = shifted(SHORT), {}

    def watch(name, optimiser):
        gradients[name], update = [], optimiser.update

        def watched(progress):
            gradients[name].append([each.grad.clone() for each in optimiser.parameters])
            update(progress)

        optimiser.update = watched

    watch(OURS, learner.optimiser)
    watch(REFERENCE, reference.optimiser)
    ours = learner.learn_from(range(len(SHORT)), start, 0.5)()
    theirs = reference.learn_from(SHORT, start, 0.5)

    assert ours == pytest.approx(theirs, rel=1e-5)
    assert len(gradients[OURS]) == len(gradients[REFERENCE]) == 3
    for our_step, their_step in zip(gradients[OURS], gradients[REFERENCE], strict=True):
        for name, found, right in zip(learner.optimiser.names, our_step, their_step, strict=True):
            torch.testing.assert_close(found, right, rtol=1e-4, atol=1e-5, msg=name)


def test_the_references_matrix_has_the_same_relations():
    model, start = tiny_model(), shifted(SHORT)
    inputs = model.batch_of(SHORT).inputs
    reference = Straightforward(model, Optimiser(model, FIXED), max_steps=1, dtype=torch.float32)

    relations = relate(
        inputs, Graphs.of(start, model.vocabulary), len(model.vocabulary.labels), model.settings.relations
    )

    for row, parse in enumerate(reference.parses(start)):
        matrix = relation_matrix(inputs, row, parse, len(model.vocabulary.labels))
        expected = torch.zeros_like(matrix)
        for piece, (above, up, down) in enumerate(
            zip(relations.above[row].tolist(), relations.up[row].tolist(), relations.down[row].tolist(), strict=True)
        ):
            expected[piece, above] += up
            expected[above, piece] += down
        assert torch.equal(matrix, expected)


def test_random_sentences_have_the_given_length_and_some_words_of_two_pieces():
    model, sentences = random_model("tiny"), random_sentences(5, 40, "tiny")

    counts = [len(each) for sentence in sentences for each in model.subwords.pieces_of(sentence.forms)]

    assert [len(each) for each in sentences] == [40] * 5
    assert set(counts) == {1, 2}
    assert 0.2 < sum(each == 2 for each in counts) / len(counts) < 0.4
    assert model.subwords.unk_id not in {
        piece for sentence in sentences for word in model.subwords.pieces_of(sentence.forms) for piece in word
    }
    vocabulary = model.vocabulary
    assert all(UNSEEN not in vocabulary.label_ids(each.labels) for each in sentences)
    assert all(0 not in vocabulary.tag_ids("upos", each.upos) for each in sentences)


def test_the_command_reports_times_memory_and_ratios(tmp_path):
    rows = tmp_path / "rows.jsonl"

    measure_training_speed(["--size", "tiny", "--sentences", "2", "--words", "5", "--rounds", "1", "--rows", str(rows)])

    (found,) = [json.loads(line) for line in rows.read_text().splitlines()]
    assert (found["config"]["sentences"], found["config"]["words"], found["config"]["steps"]) == (2, 5, 3)
    assert {
        "treefine_sentences_per_second",
        "straightforward_sentences_per_second",
        "straightforward/treefine, time",
        "straightforward/treefine, kept memory",
        "one step/one step without a graph, time",
        "one step/one step without a graph, kept memory",
    } <= set(found["result"])


def test_no_time_is_reported_if_the_losses_differ(tmp_path, monkeypatch):
    monkeypatch.setattr(training_speed.Straightforward, "learn_from", lambda *_: 1.0)

    with pytest.raises(SystemExit, match="the losses differ"):
        measure_training_speed(["--size", "tiny", "--sentences", "2", "--words", "5", "--rows", str(tmp_path / "rows")])

    assert not (tmp_path / "rows").exists()


def test_a_profile_counts_operations_and_names_the_costliest(tmp_path):
    setting = Setting("tiny", 2, 5, 1, CPU, "float32")

    result = profile(setting.contenders[OURS], CPU, rounds=1)

    assert result["operations"] > 100
    assert [name for name in result if name.startswith("aten::mm ×")]


def test_memory_kept_for_backward_is_that_of_one_step_without_the_weights():
    setting = Setting("tiny", 2, 5, 1, CPU, "float32")
    weight = setting.optimiser.parameters[0]

    def learn():
        for _ in range(2):  # each step keeps x and its exponential, 4,000 bytes each; steps are not added up
            x = torch.rand(1000, requires_grad=True)
            loss = (x * weight.sum()).exp().mul(x).sum()
            loss.backward()
            setting.optimiser.adam.step()
        return 0.0

    assert kept_bytes(setting.optimiser, learn) == 8000 + 4  # plus the sum of the weight


def test_the_reference_also_keeps_the_vectors_of_all_pairs():
    setting = Setting("tiny", 4, 20, 2, CPU, "float32")

    ours, reference = (kept_bytes(setting.optimiser, setting.contenders[name]) for name in (OURS, REFERENCE))

    n_pairs, width, n_layers = 4 * setting.n_pieces**2, 32, 2
    assert reference - ours > 2 * n_layers * n_pairs * width * 4  # keys and values in float32
