"""The benchmark of cuts in raw text."""

import lzma

import pytest

from benchmarks.accuracy.cuts import final_sentences, measure_cuts, on_one_line, one_line, sentence_spans
from benchmarks.rows import read_rows
from tests.support.tiny import sample, tiny_model
from tests.support.tiny_segmenter import tiny_segmenter
from treefine import Parser, Sentence, write_treebank
from treefine.segmenter.cut import Segmented
from treefine.treebank.raw_text import RawText


@pytest.fixture
def text_file(tmp_path):
    with lzma.open(tmp_path / "en.txt.xz", "wt", encoding="utf-8") as file:
        file.write("Dogs bark.\nNo end\nWhy?\n")
    return tmp_path / "en.txt.xz"


def test_only_sentences_with_final_punctuation_are_read(text_file):
    assert list(final_sentences(text_file)) == ["Dogs bark.", "Why?"]


def test_boundaries_after_other_tokens_are_counted_per_1000_sentences():
    text, gold = one_line(["Hong Kong is.", 'He said "no."', "Why?"])
    cuts = [(0, 9), (10, 13), (14, 27), (28, 32)]

    found = on_one_line(text, gold, [Segmented(Sentence.of_words(["a"]), (span,), 0.5) for span in cuts])

    assert text[0:9] == "Hong Kong"
    assert found["odd_boundaries_per_1000"] == pytest.approx(1000 / 3, abs=1e-3)
    assert found["Sentences"] == pytest.approx(2 * 2 / (3 + 4), abs=1e-6)
    assert (found["cut_confidence"], found["cut_right"], found["cut_gap"]) == (0.5, 0.5, 0.0)


def test_the_spans_of_sentences_come_from_those_of_tokens():
    text = RawText("a b. c", ((0, 1), (2, 3), (3, 4), (5, 6)), (("",),) * 4, (False, False, True, True))

    assert sentence_spans(text) == [(0, 4), (5, 6)]


def test_a_model_is_measured_on_a_treebank_and_on_other_text(tmp_path, text_file):
    Parser(tiny_model(), device="cpu", segmenter=tiny_segmenter()).save(tmp_path / "model")
    (tmp_path / "tiny").mkdir()
    write_treebank(sample(5), tmp_path / "tiny" / "dev.conllu.xz")
    rows = tmp_path / "rows.jsonl"

    places = ["--treebanks", str(tmp_path), "--rows", str(rows), "--text", str(text_file)]
    measure_cuts(["--model", str(tmp_path / "model"), "--treebank", "tiny", "--device", "cpu", *places])

    (row,) = read_rows("cuts", path=rows)
    assert row["config"]["text_sentences"] == 2
    assert row["config"]["sentence_ends"] is None
    assert {"Tokens", "Sentences", "Words", "cut_gap", "other_text"} <= row["result"].keys()
    assert row["result"]["cut_confidence"] == 1.0
