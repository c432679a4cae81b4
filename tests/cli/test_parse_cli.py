"""The parse and refine commands."""

import shutil
from pathlib import Path

import pytest

from tests.support.commands import failed, invoke, read
from tests.support.data import DATA
from tests.support.tiny import sample, tiny_model
from treefine import read_treebank
from treefine.config import RelationSettings, TagSettings
from treefine.parsing.initial import given
from treefine.parsing.parser import Parser
from treefine.treebank.conllu import write_treebank

INITIAL = ["empty", "syntr", "in.conllu", "tagger"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Save a model of each kind in a folder."""
    folder = tmp_path_factory.mktemp("models")
    Parser(tiny_model(), device="cpu").save(folder / "rngtr")
    Parser(tiny_model(tags=TagSettings("predicted", ("upos", "xpos"))), device="cpu").save(folder / "tagger")
    Parser(tiny_model(relations=RelationSettings(graph="none")), device="cpu").save(folder / "syntr")
    return folder


@pytest.fixture
def models(saved, tmp_path, monkeypatch):
    """Change to a folder with a copy of these models and a treebank."""
    shutil.copytree(saved, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    write_treebank(sample(4), "in.conllu")


def assert_only_the_tree_changed(before, after):
    """Check that comments, order, lines and columns are unchanged; DEPS follows the tree, as in `with_graph`."""
    assert after == [old.with_graph(new.graph) for old, new in zip(before, after, strict=True)]
    assert all(new.graph.is_tree for new in after)


@pytest.mark.parametrize(
    ("command", "arguments", "options"),
    [
        ("parse", [], {}),
        *(("parse", ["--initial", name], {"initial": name}) for name in INITIAL),
        ("refine", ["--steps", 1], {"initial": given, "max_steps": 1}),
        (
            "parse",
            ["--steps", 2, "--tags", "none", "--batch-pieces", 50, "--projective"],
            {"max_steps": 2, "tags": "none", "is_projective": True},
        ),
    ],
)
def test_a_command_returns_the_trees_of_the_parser_with_the_same_options(models, command, arguments, options):
    out = invoke(command, "in.conllu", "--model", "rngtr", *arguments, "--device", "cpu").stdout

    assert read(out) == list(Parser.from_pretrained("rngtr", device="cpu", **options).stream_trees(sample(4)))


@pytest.mark.parametrize("name", ["constructs.conllu", "penn.conllx", "german.conll09"])
def test_every_construct_of_every_format_is_kept(models, name):
    invoke("parse", "--model", "rngtr", DATA / name, "-o", f"out{Path(name).suffix}")

    assert_only_the_tree_changed(list(read_treebank(DATA / name)), list(read_treebank(f"out{Path(name).suffix}")))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["parse", "--model", "rngtr", "--from", "words", "empty.txt"],
            "empty.txt: The file contains no sentences. Is it the right file?",
        ),
        (
            ["refine", "--model", "syntr", "in.conllu"],
            "This model reads no graph, so it cannot refine an initial parse.",
        ),
        (["parse", "--model", "./nowhere", "in.conllu"], "./nowhere: There is no such model folder."),
    ],
)
def test_bad_inputs_and_models_are_reported(models, arguments, message):
    Path("empty.txt").touch()

    assert failed(invoke, *arguments) == message


def test_missing_tags_are_reported_once(models):
    result = invoke("parse", "--model", "rngtr", "--from", "words", "-", input="A dog\nIt sleeps\n")

    assert result.stderr == (
        "treefine: warning: <stdin>:1: (1) The sentence has no UPOS tags, which the model was trained to read. "
        "Its tree will be less accurate.\n"
    )
    for tags in ([], ["--tags", "given"]):  # a model that predicts tags does not need them
        assert invoke("parse", "--model", "tagger", *tags, "--from", "words", "-", input="A dog\n").stderr == ""
    assert invoke("parse", "--model", "rngtr", "in.conllu").stderr == ""
