"""CSV and TSV tables as Python reads them, and Parquet tables as pyarrow and pandas do."""

import csv
import io
import re
from pathlib import Path

import pandas
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.commands import failed, invoke
from tests.support.generated import conllu_files
from tests.support.tiny import sample
from treefine import Graph, read_treebank, write_treebank
from treefine.parsing.table import Content, csv_texts, table_of
from treefine.treebank.sentence import Sentence

TEXT = "The old man the boats. Nobody came.\n\nReally? Yes"


@pytest.fixture
def run(text_model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text(TEXT)
    write_treebank(sample(6), "in.conllu")

    def run_with(*arguments, command="parse", **options):
        return invoke(*arguments, *(["--model", text_model] if command == "parse" else []), command=command, **options)

    return run_with


def rows(path):
    """Return the rows of a file, on which both readers must agree."""
    found = pyarrow.parquet.read_table(path).to_pylist()
    of_pandas = pandas.read_parquet(path).astype(object)
    assert of_pandas.where(of_pandas.notna(), None).to_dict("records") == found
    return found


@given(content=conllu_files(), delimiter=st.sampled_from([",", "\t"]))
def test_csv_holds_every_word_as_it_is_also_if_it_looks_like_a_formula(content, delimiter):
    forms = ["-LRB-", "--", "@user", "=)", "+1", '"', "'"]
    odd = Sentence.of_words(forms, lemma=forms).with_graph(Graph.of_words(range(7), ["x"] * 7))
    sentences = [*read_treebank(io.BytesIO(content)), odd]

    text = "".join(csv_texts(sentences, Content(), delimiter=delimiter))
    found = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)

    words = [(number, each, word) for number, each in enumerate(sentences, start=1) for word in each.words]
    for row, (number, sentence, word) in zip(found, words, strict=True):
        assert (row["sentence"], row["word"], row["head"]) == (str(number), str(word.number), str(word.head))
        for name in ("form", "lemma", "upos", "xpos", "feats", "label"):
            assert row[name] == getattr(word, name)
        assert row["sent_id"] == sentence.sent_id


@pytest.mark.parametrize(("options", "content"), [([], Content()), (["--confidence"], Content(confidence=True))])
def test_a_text_becomes_the_rows_that_the_parser_returns(run, nlp, options, content):
    run("a.txt", "-o", "out.parquet", *options)

    expected = [row | {"file": "a.txt"} for row in table_of(nlp(TEXT), content).to_pylist()]
    assert [row | {"sent_id": None} for row in rows("out.parquet")] == [row | {"sent_id": None} for row in expected]


@pytest.mark.parametrize("command", ["parse", "convert"])
def test_an_error_half_way_leaves_only_the_old_file(run, command):
    Path("out.parquet").write_text("old")
    with Path("in.conllu").open("a") as file:
        file.write("1\tword\n\n")
    before = sorted(Path().iterdir())

    arguments = ["in.conllu", *(["-o"] if command == "parse" else []), "out.parquet", "--force"]
    message = failed(run, *arguments, command=command)

    assert re.match(r"in.conllu:\d+: .*The line must have 10 columns, not 2\.", message)
    assert Path("out.parquet").read_text() == "old"
    assert sorted(Path().iterdir()) == before
