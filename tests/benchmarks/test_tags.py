"""Other systems' tags and trees are refined with each choice of tags, here by a tiny model."""

import pytest

from benchmarks.accuracy.tags import CHOICES, measure_tags, refined_tags_of, replaced, scores
from benchmarks.rows import read_rows
from tests.benchmarks.test_english import cells
from tests.support.tiny import short, tiny_model
from treefine import Parser, Sentence, TreefineError, write_treebank
from treefine.config import TagSettings

DEV = short(6)


@pytest.fixture(scope="module")
def row(tmp_path_factory):
    """Return the row of a system whose tags are all NOUN."""
    folder = tmp_path_factory.mktemp("tags")
    (folder / "en_ewt").mkdir()
    write_treebank(DEV, folder / "en_ewt" / "dev.conllu.xz")
    write_treebank([each.with_tags(upos=["NOUN"] * len(each)) for each in DEV], folder / "system.conllu")
    Parser(tiny_model(tags=TagSettings("predicted", ("upos", "xpos"))), device="cpu").save(folder / "model")

    places = ["--treebanks", str(folder), "--rows", str(folder / "rows.jsonl"), "--device", "cpu"]
    measure_tags(["--model", str(folder / "model"), "--parses", f"peer={folder / 'system.conllu'}", *places])

    (found,) = read_rows("tags", path=folder / "rows.jsonl")
    return found


def test_the_row_scores_tags_and_trees_before_refining_and_for_each_choice(row):
    result = row["result"]

    n_words, n_nouns = sum(map(len, DEV)), sum(each.upos.count("NOUN") for each in DEV)
    assert result["before"]["UPOS"] == pytest.approx(n_nouns / n_words, abs=1e-6)
    assert result["before"]["LAS"] == 1
    assert {name: result["given"][name] for name in ("UPOS", "replaced", "corrected", "spoiled")} == {
        "UPOS": result["before"]["UPOS"],
        "replaced": 0,
        "corrected": 0,
        "spoiled": 0,
    }
    assert result["best"]["LAS"] == result["predicted"]["LAS"]
    assert result["best"]["replaced"] <= result["predicted"]["replaced"]


def test_each_word_has_one_probability(row):
    assert sum(each["words"] for each in row["result"]["by_probability"]) == sum(map(len, DEV))


def test_the_table_has_a_line_per_choice(row):
    text = refined_tags_of([row, row])

    for choice in CHOICES:
        assert len(cells(text, "peer, refined by model", choice)) == 7
    assert refined_tags_of([]) == "Not measured yet."


def test_replaced_tags_are_corrected_spoiled_or_neither():
    old, new, gold = (
        [Sentence.of_words(["a", "b", "c", "d"], upos=tags)]
        for tags in (["X", "NOUN", "X", "X"], ["DET", "X", "VERB", "X"], ["DET", "NOUN", "ADV", "X"])
    )

    assert replaced(old, new, gold) == {"replaced": 3, "corrected": 1, "spoiled": 1}


def test_contradictions_are_counted():
    sentences = [each.with_tags(upos=["PUNCT"] * len(each)) for each in DEV]

    n_allowed = sum(label in ("punct", "root") for each in DEV for label in each.labels)
    assert scores(sentences, DEV)["contradictions"] == pytest.approx(sum(map(len, DEV)) - n_allowed, abs=8)  # fixed


def test_other_words_than_those_of_dev_are_an_error(tmp_path):
    (tmp_path / "en_ewt").mkdir()
    write_treebank(DEV, tmp_path / "en_ewt" / "dev.conllu.xz")
    write_treebank(DEV[1:], tmp_path / "system.conllu")

    with pytest.raises(TreefineError, match="The words differ from those of dev"):
        measure_tags(["--treebanks", str(tmp_path), "--parses", f"peer={tmp_path / 'system.conllu'}"])
