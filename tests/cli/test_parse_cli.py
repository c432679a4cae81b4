"""The parse and refine commands with treebanks."""

import re
import shutil
from pathlib import Path

import pytest

from tests.support.commands import failed, invoke, read
from tests.support.data import DATA
from tests.support.tiny import sample, tiny_model
from treefine import Constraints, read_treebank
from treefine.config import RelationSettings, TagSettings
from treefine.parsing.initial import input_trees
from treefine.parsing.parser import Parser
from treefine.treebank.conllu import validate, write_treebank


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


@pytest.mark.parametrize(
    ("command", "arguments", "options"),
    [
        ("parse", [], {}),
        *(("parse", ["--initial", name], {"initial": name}) for name in ("syntr", "in.conllu")),
        ("refine", ["--steps", 1], {"initial": input_trees, "max_steps": 1}),
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

    before, after = (list(read_treebank(path)) for path in (DATA / name, f"out{Path(name).suffix}"))
    assert after == [old.with_graph(new.graph) for old, new in zip(before, after, strict=True)]  # DEPS follows the tree
    assert all(new.graph.is_tree for new in after)


def test_a_file_without_sentences_and_a_missing_model_are_reported(models):
    Path("empty.txt").touch()
    empty = ("parse", "--model", "rngtr", "--from", "words", "empty.txt")

    assert failed(invoke, *empty) == "empty.txt: The file contains no sentences. Is it the right file?"
    assert failed(invoke, "parse", "--model", "./no", "in.conllu") == "./no: There is no such model folder."


def test_missing_tags_are_reported_once(models):
    result = invoke("parse", "--model", "rngtr", "--from", "words", "-", input="A dog\nIt sleeps\n")

    assert result.stderr == (
        "treefine: warning: <stdin>:1: (1) The sentence has no UPOS, which the model was trained to read. "
        "Its tree will be less accurate.\n"
    )
    for tags in ([], ["--tags", "given"]):  # a model that predicts tags does not need them
        assert invoke("parse", "--model", "tagger", *tags, "--from", "words", "-", input="A dog\n").stderr == ""
    assert invoke("parse", "--model", "rngtr", "in.conllu").stderr == ""


# --keep (decisions of a user) and --k (several trees per sentence)


def test_an_unknown_label_in_a_mark_is_kept_with_one_warning(models):
    marks = [Constraints(labels={1: "obj:lvc"}), Constraints(labels={2: "nsbj"}, not_labels={3: ["zzz"]})] * 2
    long = [each for each in sample() if len(each) > 5][:4]
    write_treebank([mark.mark(each) for mark, each in zip(marks, long, strict=True)], "marked.conllu")

    result = invoke("parse", "marked.conllu", "--model", "rngtr", "-o", "out.conllu")

    first, second, *_ = read_treebank("out.conllu")
    assert (first.labels[0], second.labels[1]) == ("obj:lvc", "nsbj")
    (warning,) = re.findall(r"warning: .*", result.stderr)
    assert warning.startswith("warning: marked.conllu:")
    assert warning.endswith("word 2) The model has no label 'nsbj'. Did you mean nsubj?")
    assert "warning" not in invoke("parse", "marked.conllu", "--model", "rngtr", "--keep", "nothing").stderr


def test_k_trees_are_k_sentences_of_a_valid_treebank(models):
    invoke("parse", "in.conllu", "--model", "rngtr", "--k", "3", "-o", "out.conllu")

    found = list(read_treebank("out.conllu"))
    assert [each.comment("tree") for each in found[:3]] == ["1 of 3", "2 of 3", "3 of 3"]
    assert found[1].sent_id == f"{found[0].sent_id}-tree2"
    probabilities = [float(each.comment("probability")) for each in found[:3]]
    assert probabilities == sorted(probabilities, reverse=True)
    assert all("Agree=" in note for each in found for note in each.column(9))
    assert list(validate("out.conllu")) == []
    best = [each.graph for each in found if each.comment("tree").startswith("1 of")]
    assert best == [each.graph for each in read(invoke("parse", "in.conllu", "--model", "rngtr").stdout)]
