"""Trainings in several stages: bases, members of weight averaging, teachers and initial parsers are trained first."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tests.support.tiny import sample, tiny_parser, with_errors
from tests.support.trainings import CPU, SYNTR, run, weights, write_recipe, write_recipe_with_base
from treefine import Constraints, Sentence, evaluate, read_treebank, write_treebank
from treefine.model.folder import load_model
from treefine.parsing.parser import Parser
from treefine.training import new_model
from treefine.training.data import Data
from treefine.training.distil import N_KEPT, Targets
from treefine.training.prepare import Prepared, prepare
from treefine.training.processes import Processes
from treefine.training.recipe import InitialSettings, PretrainedSettings, Recipe, TreebankSettings, recipe_toml
from treefine.training.train import Stages
from treefine.treebank.graph import Graph


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("stages")


def stages(steps):
    return list(dict.fromkeys(step.stage for step in steps))


# Bases


@pytest.fixture
def recipe(tmp_path):
    return write_recipe_with_base(tmp_path)


@pytest.fixture
def begun(monkeypatch):
    """Return a list that collects the folders that new models start from."""
    folders = []
    monkeypatch.setattr(new_model, "load_model", lambda folder: folders.append(folder) or load_model(folder))
    return folders


def test_a_base_is_trained_first_and_only_once_for_all_models(tmp_path, recipe, begun):
    steps = run(recipe, tmp_path / "out")

    assert stages(steps) == ["base model base", "initial parser", "fold 1 of 2", "fold 2 of 2", ""]
    base = tmp_path / "out" / "start" / "base" / "model"
    card = (tmp_path / "out" / "model" / "README.md").read_text()
    base_recipe = recipe_toml(prepare(tmp_path / "base.toml").recipe)
    assert f"The recipe of the base model base:\n```toml\n{base_recipe}```" in card
    assert 'fine_tune_from = "base.toml"' in card
    assert f"  {tmp_path}/other.conllu\n" in card  # with its checksum
    assert begun == [tmp_path / "encoder"] + 4 * [base]  # initial parser, two folds, the model itself


def test_a_model_starts_with_the_weights_of_its_base(tmp_path, recipe):
    recipe.write_text(recipe.read_text().replace("rate = 1e-2", "rate = 0").replace("rate = 1e-3", "rate = 0"))

    run(recipe, tmp_path / "out")

    old = load_model(tmp_path / "out" / "start" / "base" / "model")
    new = load_model(tmp_path / "out" / "model")
    assert torch.equal(new.scorer.arc_weight, old.scorer.arc_weight)
    assert len(new.subwords) < len(old.subwords)  # cut to the pieces of the treebank
    (ours,), (theirs,) = (model.subwords.pieces_of(["the"]) for model in (new, old))
    assert torch.equal(new.encoder.pieces.weight[ours], old.encoder.pieces.weight[theirs])


# Weight averaging over several models


@pytest.fixture(scope="module")
def out(folder):
    run(write_recipe(folder, "two", training="weight_averaging = 2", epochs=2), folder / "averaged")
    return folder / "averaged"


def saved(folder):
    return load_file(folder / "model" / "model.safetensors")


def test_the_weights_are_the_average_of_the_members(out):
    first, second = (saved(out / "members" / number) for number in "12")

    assert all(torch.allclose(weight, (first[name] + second[name]) / 2) for name, weight in saved(out).items())
    assert any(not torch.equal(first[name], second[name]) for name in first)


def test_the_first_member_equals_a_single_training(folder, out):
    alone = write_recipe(folder, "one", epochs=2)

    run(alone, folder / "alone")

    assert weights(folder / "alone") == weights(out / "members" / "1")


def test_members_start_from_the_same_weights(folder):
    """Models with different initial weights cannot be averaged: their attention heads do not correspond."""
    still = write_recipe(folder, "still", training="weight_averaging = 2", epochs=1)
    still.write_text(still.read_text().replace("rate = 1e-2", "rate = 0").replace("rate = 1e-3", "rate = 0"))

    run(still, folder / "still")

    first, second = (saved(folder / "still" / "members" / number) for number in "12")
    assert all(torch.equal(weight, second[name]) for name, weight in first.items())


def test_an_initial_parser_may_have_members_too(folder):
    write_recipe(folder, "syntr", sections=SYNTR, training="weight_averaging = 2", epochs=1)
    refining = write_recipe(folder, "refining", sections='[initial]\nparser = "syntr.toml"\nfolds = 2\n', epochs=1)

    found = stages(run(refining, folder / "refined"))

    assert found[:3] == [
        "initial parser, member 1 of 2",
        "initial parser, member 2 of 2",
        "fold 1 of 2, member 1 of 2",
    ]
    assert len(found) == 7
    assert not list(folder.glob("refined/folds/*/members/*/model"))


# Teachers

SECTIONS = '[tags]\ncolumns = ["upos"]\n'


def write_student(folder, name="student", teacher='recipes = "teacher.toml"\nmembers = 2\n', **options):
    """Write a recipe whose two teachers are trained first, and an unlabelled treebank and text."""
    write_recipe(folder, "teacher", sections=SECTIONS, epochs=1)
    write_treebank([Sentence.of_words(each.forms) for each in sample()[50:56]], folder / "texts.conllu")
    sections = f'{SECTIONS}[teacher]\n{teacher}texts = ["{folder}/texts.conllu"]\nsentences = 5\n'
    return write_recipe(folder, name, sections=sections, epochs=2, **options)


@pytest.fixture(scope="module")
def whole(folder):
    """Return the folder of a training, and its progress reports."""
    return folder / "whole", run(write_student(folder), folder / "whole")


def test_a_model_learns_from_two_teachers_that_are_trained_first(folder, whole):
    output, steps = whole

    assert stages(steps) == ["teacher 1 of 2", "teacher 2 of 2", "targets", ""]
    first, second = (weights(output / "teachers" / "teacher" / number) for number in "12")
    assert first != second
    parsed = list(read_treebank(output / "teachers" / "unlabelled.conllu.gz"))
    assert len(parsed) == 5
    targets = Targets.load(
        output / "teachers" / "targets.safetensors", [*read_treebank(folder / "train.conllu"), *parsed]
    )
    assert targets.shares.tolist() == [0.5] * 20 + [1.0] * 5
    assert targets.ids.shape[1:] == (4, 3, N_KEPT)
    card = (output / "model" / "README.md").read_text()
    assert "It learned from the probabilities of 2 teachers (teacher)." in card
    assert f"5 sentences of {folder}/texts.conllu had no trees; the teachers parsed them." in card
    assert "The recipe of the teacher teacher:" in card
    assert f"  {folder}/texts.conllu" in card


def test_trained_models_are_teachers_too_and_members_of_weight_averaging_share_the_targets(folder, whole):
    models = [str(whole[0] / "teachers" / "teacher" / number / "model") for number in "12"]
    recipe = write_student(folder, "sharing", f"models = {models}\n".replace("'", '"'), training="weight_averaging = 2")

    found = stages(run(recipe, folder / "sharing"))

    assert found == ["targets", "member 1 of 2", "member 2 of 2"]
    files = [folder / each / "teachers" / "targets.safetensors" for each in ("whole", "sharing")]
    assert files[0].read_bytes() == files[1].read_bytes()


# Initial parsers


def test_dev_is_scored_from_the_initial_parser_that_is_saved_with_the_model(tmp_path):
    write_recipe(tmp_path, "syntr", sections=SYNTR, epochs=1)
    recipe = write_recipe(tmp_path, "rngtr", sections='[initial]\nparser = "syntr.toml"\n')

    steps = run(recipe, tmp_path / "out")

    gold = list(read_treebank(tmp_path / "dev.conllu"))
    parser = Parser.from_pretrained(tmp_path / "out" / "model", device="cpu")
    assert isinstance(parser.initial, Parser)
    assert evaluate(gold, parser.parse(gold))["LAS"].f1 == pytest.approx(steps[-1].state.best.las)


def test_trees_in_files_are_initial_graphs(tmp_path):
    parts = ("train", "dev")
    write_recipe(tmp_path, "any")
    gold = {name: list(read_treebank(tmp_path / f"{name}.conllu")) for name in parts}
    rng, labels = np.random.default_rng(1), np.array(["obj", "no_such_label"])
    parses = {name: [Graph.of_words(*with_errors(each.arcs, labels, rng)) for each in gold[name]] for name in parts}
    for name in parts:
        parsed = (each.with_graph(graph) for each, graph in zip(gold[name], parses[name], strict=True))
        write_treebank(parsed, tmp_path / f"other-{name}.conllu")
    sections = f'[initial]\nparser = "files"\ntrain = "{tmp_path}/other-train.conllu"\n'
    sections += f'dev = "{tmp_path}/other-dev.conllu"\n[refine]\nmax_steps = 1\n'
    recipe = write_recipe(tmp_path, "files", sections=sections, epochs=1)

    initial = result_of(Stages(prepare(recipe), tmp_path / "out", Processes(CPU)).initial_graphs())

    for name, arcs in (("train", initial.train), ("dev", initial.dev)):
        assert [(each.heads, each.labels) for each in arcs] == [(g.heads[1:], g.labels[1:]) for g in parses[name]]
    run(recipe, tmp_path / "out")
    card = (tmp_path / "out" / "model" / "README.md").read_text()
    assert "It was trained to refine parses from files, and contains no initial parser." in card


def result_of(stage):
    """Run a stage of a training to its end, and return its result."""
    while True:
        try:
            next(stage)
        except StopIteration as end:
            return end.value


def with_marks(sentence):
    heads, labels = (dict(enumerate(column, start=1)) for column in sentence.arcs)
    return Constraints(heads, labels).mark(sentence)


def test_the_parsers_of_the_folds_ignore_marked_gold_arcs(tmp_path):
    def parses(name, change):
        folder = tmp_path / name
        folder.mkdir()
        write_recipe(folder, "syntr", sections=SYNTR, epochs=1)
        write_treebank([change(each) for each in list(read_treebank(folder / "train.conllu"))], folder / "train.conllu")
        sections = '[initial]\nparser = "syntr.toml"\nfolds = 2\n'
        run(write_recipe(folder, "rngtr", sections=sections, epochs=1), folder / "out")
        files = sorted(folder.glob("out/folds/*/parses.conllu.gz"))
        return [each.arcs for file in files for each in read_treebank(file)]

    assert parses("marked", with_marks) == parses("plain", lambda each: each)


def test_initial_parsers_ignore_marked_gold_arcs(tmp_path):
    """Marks of manual corrections in a treebank do not affect training."""
    tiny_parser(max_steps=1).save(tmp_path / "model")
    plain = tuple(sample(12))
    marked = tuple(map(with_marks, plain))
    settings = InitialSettings(parser=str(tmp_path / "model"))
    recipe = Recipe(TreebankSettings(("x",), ("x",)), PretrainedSettings("x"), initial=settings)

    found, expected = (
        result_of(Stages(Prepared(recipe, Data(each, each[:4], {})), tmp_path, Processes(CPU)).initial_graphs())
        for each in (marked, plain)
    )

    assert (found.train, found.dev) == (expected.train, expected.dev)
    assert any(arcs != each.arcs for arcs, each in zip(found.train, plain, strict=True))
