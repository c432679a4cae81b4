"""CSV and TSV tables from the command line."""

import csv
import io
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.commands import invoke
from tests.support.generated import conllu_files
from treefine import read_treebank
from treefine.parsing.table import Content, csv_texts
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
