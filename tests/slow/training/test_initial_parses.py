"""A training with a mix of initial parsers: order, scores, files and reports."""

import numpy as np
import pytest

from tests.support.tiny import sample, tiny_parser
from tests.support.trainings import CPU, SYNTR, run, write_recipe
from treefine import Constraints, evaluate, read_treebank, write_treebank
from treefine.parsing.initial import empty
from treefine.parsing.parser import Parser
from treefine.training.data import Data, noised
from treefine.training.prepare import Prepared, prepare
from treefine.training.processes import Processes
from treefine.training.recipe import InitialSettings, PretrainedSettings, Recipe, TreebankSettings
from treefine.training.train import Stages
from treefine.treebank.graph import Graph

MIX = """
[initial.mix.syntr]
parser = "syntr.toml"
folds = 2
share = 0.3
[initial.mix.model]
parser = "{folder}/encoder"
share = 0.2
[initial.mix.other]
parser = "files"
train = "{folder}/other-train.conllu"
dev = "{folder}/other-dev.conllu"
share = 0.2
"""


def write_mix(folder):
    """Write the recipe of a mix: an empty graph, a recipe, a model folder, and files with some unknown labels."""
    write_recipe(folder, "syntr", sections=SYNTR, epochs=2)
    rng, labels = np.random.default_rng(1), np.array(["obj", "no_such_label"])
    for name in ("train", "dev"):
        gold = list(read_treebank(folder / f"{name}.conllu"))
        parsed = [each.with_graph(Graph.of_words(*noised(each.arcs, 0.3, labels, rng))) for each in gold]
        write_treebank(parsed, folder / f"other-{name}.conllu")
    sections = MIX.format(folder=folder) + "[refine]\nmax_steps = 1\n"
    return write_recipe(folder, "mixed", sections=sections, epochs=1)


def result_of(stage):
    """Run a stage of a training to its end, and return its result."""
    while True:
        try:
            next(stage)
        except StopIteration as end:
            return end.value


def test_training_draws_from_the_parses_of_each_source_and_dev_is_measured_from_them(tmp_path):
    recipe, folder = write_mix(tmp_path), tmp_path
    run(recipe, folder / "out")

    initial = result_of(Stages(prepare(recipe), folder / "out", Processes(CPU)).initial_graphs())

    train, dev = (list(read_treebank(folder / f"{name}.conllu")) for name in ("train", "dev"))

    def parsed(model, sentences):
        return [each.arcs for each in Parser.from_pretrained(folder / model, device="cpu").stream_trees(sentences)]

    assert {name: list(arcs) for name, arcs in initial.dev.items()} == {
        "empty": list(empty(dev)),
        "syntr": parsed("out/mix/syntr/initial/model", dev),
        "model": parsed("encoder", dev),
        "other": [each.arcs for each in read_treebank(folder / "other-dev.conllu")],
    }
    *_, of_model, of_files, of_main = initial.train.sources
    assert of_model == parsed("encoder", train)
    assert of_files == [each.arcs for each in read_treebank(folder / "other-train.conllu")]
    assert of_main == list(empty(train))


def test_a_mix_can_have_a_main_parser_that_is_saved_with_the_model(tmp_path):
    write_mix(tmp_path)
    sections = '[initial]\nparser = "syntr.toml"\n[initial.mix.none]\nparser = "empty"\nshare = 0.5\n'
    recipe = write_recipe(tmp_path, "beside", sections=sections)

    steps = run(recipe, tmp_path / "out")

    assert list(dict.fromkeys(step.stage for step in steps)) == ["initial parser", ""]
    assert list(steps[-1].state.best.las_from) == ["parser", "none"]
    gold = list(read_treebank(tmp_path / "dev.conllu"))
    parser = Parser.from_pretrained(tmp_path / "out" / "model", device="cpu")
    assert isinstance(parser.initial, Parser)
    assert evaluate(gold, parser.parse(gold))["LAS"].f1 == pytest.approx(steps[-1].state.best.las_from["parser"])


def parses_of(settings, data, folder):
    """Return the parses of a source without training."""
    recipe = Recipe(TreebankSettings(("x",), ("x",)), PretrainedSettings("x"), initial=settings)
    return result_of(Stages(Prepared(recipe, data), folder, Processes(CPU)).parses(""))


def test_initial_parsers_ignore_marked_gold_arcs(tmp_path):
    """Marks of manual corrections in a treebank do not affect training."""
    tiny_parser(max_steps=1).save(tmp_path / "model")
    plain = tuple(sample(12))
    marked = tuple(
        Constraints(dict(enumerate(each.heads, start=1)), dict(enumerate(each.labels, start=1))).mark(each)
        for each in plain
    )
    settings = InitialSettings(parser=str(tmp_path / "model"))

    found = parses_of(settings, Data(marked, marked[:4], {}), tmp_path)

    expected = parses_of(settings, Data(plain, plain[:4], {}), tmp_path)
    assert (found.train, found.dev) == (expected.train, expected.dev)
    assert any(arcs != each.arcs for arcs, each in zip(found.train, plain, strict=True))
