"""Sentences as a table with one row per word, the same in pyarrow, pandas and Polars."""

import json
import sys

import pyarrow
import pytest

from tests.support.commands import damaged
from tests.support.data import DATA
from tests.support.tiny import sample
from treefine import Sentence, TreefineError, read_treebank
from treefine.parsing.initial import input_trees
from treefine.parsing.table import Content, record_batches, to_table

TEXT = "Dogs bark. Don't you\n\nhear them?  "


def rows_of_json(parses):
    """Return the values of `to_json` for each word, by column name."""
    for number, parse in enumerate(parses, start=1):
        said = json.loads(parse.to_json())
        tokens = {word: token["form"] for token in said.get("multiword_tokens", ()) for word in token["words"]}
        for word in said["words"]:
            head = word["head"]
            yield {
                "file": parse.sentence.path,
                "sentence": number,
                "sent_id": said["sent_id"],
                "text": said["text"],
                "word": word["number"],
                **{name: cell for name, cell in word.items() if name != "number"},
                "head_form": said["words"][head - 1]["form"] if head else None,
                "token": tokens.get(word["number"]),
                "sentence_confidence": said["confidence"],
            }


def frames(parses):
    """Return the rows of the table from each library."""
    of_pandas = parses.to_pandas().astype(object)
    yield parses.to_arrow().to_pylist()
    yield of_pandas.where(of_pandas.notna(), None).to_dict("records")
    yield parses.to_polars().to_dicts()


def test_the_table_of_a_text_equals_its_json_in_every_library(nlp):
    parses = nlp(TEXT)
    expected = list(rows_of_json(parses))

    for rows in frames(parses):
        assert len(rows) == len(expected) > 5
        for row, other in zip(rows, expected, strict=True):
            assert row.keys() == other.keys()
            for name, cell in row.items():
                assert cell == (pytest.approx(other[name], abs=1e-4) if isinstance(cell, float) else other[name])


@pytest.mark.parametrize("name", ["constructs.conllu", "penn.conllx", "german.conll09"])
def test_the_table_of_a_treebank_has_the_cells_of_its_words(name):
    sentences = list(read_treebank(DATA / name))

    rows, cells = iter(to_table(sentences).to_pylist()), ("form", "lemma", "upos", "xpos", "feats")

    for number, sentence in enumerate(sentences, start=1):
        multiword = {word: token.form for token in sentence.tokens() for word in token.words if len(token.words) > 1}
        for word in sentence.words:
            row = next(rows)
            head_form = sentence.forms[word.head - 1] if word.head else None
            assert (row["file"], row["sentence"], row["word"]) == (str(DATA / name), number, word.number)
            assert (row["sent_id"], row["token"]) == (sentence.sent_id, multiword.get(word.number))
            assert (row["head"], row["head_form"], row["label"]) == (word.head, head_form, word.label)
            assert [row[each] for each in cells] == [getattr(word, each) for each in cells]
            if not row["token"] and row["end"] > row["start"]:
                assert row["text"][row["start"] : row["end"]] == word.form
    assert next(rows, None) is None  # empty nodes have no row


def test_the_initial_trees_are_included_on_request(nlp):
    before = [*damaged(sample(6)), Sentence.of_words(["no", "tree"])]

    table = to_table(nlp.using(initial=input_trees).stream(before), initial=True)

    assert table["initial_head"].to_pylist() == [head for each in before for head in each.heads]
    assert table["initial_label"].to_pylist() == [label for each in before for label in each.labels]


@pytest.mark.parametrize("size", [1, 7, 100])
def test_the_size_of_record_batches_makes_no_difference(size):
    sentences = sample(12)
    found = list(record_batches(sentences, Content(), size=size))

    assert pyarrow.Table.from_batches(found).to_pylist() == to_table(sentences).to_pylist()
    assert all(size <= len(batch) < size + max(map(len, sentences)) for batch in found[:-1])


def test_parses_and_sentences_cannot_be_mixed_with_each_other_or_anything_else(nlp):
    parses = list(nlp("Dogs bark."))

    with pytest.raises(TreefineError, match="This is not a Parse: .* Pass only Parses or only Sentences."):
        to_table([*parses, *sample(1)])
    with pytest.raises(TreefineError, match="A table cannot be made from the str 'Dogs'"):
        to_table("Dogs")
    with pytest.raises(TreefineError, match="A Sentence has no initial tree"):
        to_table(sample(1), initial=True)


@pytest.mark.parametrize(
    ("package", "command"), [("pyarrow", r"pip install 'treefine\[tables\]'"), ("pandas", "pip install pandas")]
)
def test_a_missing_package_is_answered_with_the_command_that_installs_it(nlp, monkeypatch, package, command):
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(TreefineError, match=f"The package {package} is not installed. Install it: {command}$"):
        nlp("Dogs bark.").to_pandas()
