"""The options --keep (decisions of a user) and --k (several trees per sentence) of parse and refine."""

import re

import pytest

from tests.support.commands import failed, invoke, read
from tests.support.tiny import sample, tiny_model
from treefine import Constraints, Parser, read_treebank, write_treebank
from treefine.config import DecodeSettings
from treefine.treebank.conllu import validate


def medium_sentences():
    return [each for each in sample() if 5 < len(each) < 20][:8]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Save a model and a treebank of eight sentences in the working folder."""
    monkeypatch.chdir(tmp_path)
    Parser(tiny_model(decode=DecodeSettings(root_label="root")), device="cpu").save("model")
    write_treebank(medium_sentences(), "in.conllu")


def marked(sentences, decided):
    write_treebank([each.mark(sentence) for sentence, each in zip(sentences, decided, strict=True)], "marked.conllu")


def test_marked_arcs_and_their_marks_are_kept(place):
    sentences = medium_sentences()
    decided = [Constraints(heads={1: 2}, labels={1: "obj"}, not_heads={3: [4]}) for _ in sentences]
    marked(sentences, decided)

    invoke("parse", "marked.conllu", "--model", "model", "-o", "out.conllu")

    for sentence in read_treebank("out.conllu"):
        assert sentence.graph.is_tree
        assert (sentence.heads[0], sentence.labels[0]) == (2, "obj")
        assert sentence.heads[2] != 4
        assert "Keep=Arc" in sentence.column(9)[0]
        assert "NotHead=4" in sentence.column(9)[2]


def test_an_unknown_label_in_a_mark_is_kept_with_one_warning(place):
    sentences = medium_sentences()
    decided = [Constraints(labels={1: "obj:lvc"}), Constraints(labels={2: "nsbj"}, not_labels={3: ["zzz"]})]
    marked(sentences[:4], decided * 2)

    result = invoke("parse", "marked.conllu", "--model", "model", "-o", "out.conllu")

    assert [each.labels[number] for number, each in zip((0, 1), read_treebank("out.conllu"), strict=False)] == [
        "obj:lvc",
        "nsbj",
    ]
    (warning,) = re.findall(r"warning: .*", result.stderr)
    assert warning.startswith("warning: marked.conllu:")
    assert warning.endswith("word 2) The model has no label 'nsbj'. It is kept; did you mean nsubj?")
    assert "warning" not in invoke("parse", "marked.conllu", "--model", "model", "--keep", "nothing").stderr


def test_k_trees_are_k_sentences_of_a_valid_treebank(place):
    invoke("parse", "in.conllu", "--model", "model", "--k", "3", "-o", "out.conllu")

    found = list(read_treebank("out.conllu"))
    assert len(found) == 24
    assert [each.comment("tree") for each in found[:3]] == ["1 of 3", "2 of 3", "3 of 3"]
    assert found[1].sent_id == f"{found[0].sent_id}-tree2"
    probabilities = [float(each.comment("probability")) for each in found[:3]]
    assert probabilities == sorted(probabilities, reverse=True)
    assert all("Agree=" in note for each in found for note in each.column(9))
    assert list(validate("out.conllu")) == []
    first = read(invoke("parse", "in.conllu", "--model", "model").stdout)
    assert [each.graph for each in found[::3]] == [each.graph for each in first]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "out.conllx"], "CoNLL-X cannot hold several trees per sentence. Write CoNLL-U, or leave out --k."),
        (["-o", "out.conllu", "--resume"], "--resume cannot continue this kind of output."),
        (["--review", "0.5"], "--review prints a list instead of trees."),
        (["--format", "svg", "--show-steps"], "--k and --show-steps cannot be drawn together."),
    ],
)
def test_incompatible_options_are_reported_before_work_starts(place, options, message):
    assert failed(invoke, "parse", "in.conllu", "--model", "missing", "--k", "2", *options).startswith(message)
