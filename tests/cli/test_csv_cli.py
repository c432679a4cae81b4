"""CSV and TSV tables from the command line."""

import csv
import gzip
import io
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.commands import invoke
from tests.support.generated import conllu_files
from treefine import read_treebank
from treefine.parsing.table import CONFIDENCE, TREES, WORDS, Content, csv_texts
from treefine.treebank.conllu import write_treebank
from treefine.treebank.sentence import Sentence

TEXT = 'The "old" man, the boats. =1+1'


@pytest.fixture
def run(text_model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text(TEXT)
    Path("words.txt").write_text("Dogs bark .\nYes\n")
    write_treebank([Sentence.of_words(["Dogs", "bark"])], "in.conllu")

    return partial(invoke, "--model", text_model, command="parse")


def rows(text, delimiter=","):
    return list(csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter))


@settings(max_examples=25)
@given(content=conllu_files(), delimiter=st.sampled_from([",", "\t"]))
def test_csv_holds_every_word_as_it_is(content, delimiter):
    sentences = list(read_treebank(io.BytesIO(content)))

    found = rows("".join(csv_texts(sentences, Content(), delimiter=delimiter)), delimiter)

    words = [(number, each, word) for number, each in enumerate(sentences, start=1) for word in each.words]
    for row, (number, sentence, word) in zip(found, words, strict=True):
        assert (row["sentence"], row["word"], row["head"]) == (str(number), str(word.number), str(word.head))
        for name in ("form", "lemma", "upos", "xpos", "feats", "label"):
            assert row[name] == getattr(word, name)
        assert row["sent_id"] == sentence.sent_id


def test_a_table_of_parses_has_the_columns_of_parquet(run, nlp):
    found = rows(run("a.txt", "--format", "csv", "--confidence", "--k", 2).stdout)

    assert list(found[0]) == [column.name for column in (*WORDS, *CONFIDENCE, *TREES)]
    words = [word for parse in nlp(TEXT) for word in parse.words]
    best = [row for row in found if row["tree"] == "1"]
    assert [(row["form"], row["head"]) for row in best] == [(w.form, str(w.head)) for w in words]
    assert {row["file"] for row in found} == {"a.txt"}
    assert [float(row["confidence"]) for row in best] == [pytest.approx(w.confidence, abs=1e-3) for w in words]


@pytest.mark.parametrize(("name", "shape"), [("x.tsv", "tsv"), ("x.csv.gz", "csv")])
def test_the_extension_selects_the_table(run, name, shape):
    run("words.txt", "--from", "words", "-o", name)

    data = gzip.decompress(Path(name).read_bytes()) if name.endswith(".gz") else Path(name).read_bytes()
    assert data.decode() == run("words.txt", "--from", "words", "--format", shape).stdout
    assert not data.startswith(b"\xef\xbb\xbf")
