"""The draw command."""

from pathlib import Path

import pytest

from tests.support.commands import failed, invoke
from tests.support.data import DATA
from treefine import read_treebank
from treefine.treebank.conllu import write_treebank
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import Sentence

SENTENCES = [Sentence.of_words(words.split()) for words in ("Dogs bark", "It sleeps now")]
TREES = [
    SENTENCES[0].with_arcs(Arcs((2, 0), ("nsubj", "root"))),
    SENTENCES[1].with_arcs(Arcs((2, None, 2), ("nsubj", "_", "advmod"))),  # word 2 has no head
]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_treebank(TREES, "in.conllu")


def test_a_treebank_is_drawn_with_names_and_texts(place):
    assert invoke("draw", "in.conllu").stdout == (
        "1\nDogs bark\n1   ╭─> Dogs  2 nsubj\n2 ──┴─> bark  0 root\n\n"
        "2\nIt sleeps now\n1   ╭─> It      2 nsubj\n2   ├── sleeps  _ _\n3   ╰─> now     2 advmod\n"
    )


def test_sentences_are_chosen_by_number_and_by_sent_id(place):
    invoke("convert", DATA / "en_ewt-sample.conllu", "many.conllu")
    names = [sentence.sent_id for sentence in read_treebank("many.conllu")]

    out = invoke("draw", "many.conllu", "--sentence", names[4], "--sentence", "2").stdout

    assert [line for line in out.splitlines() if line in names] == [names[1], names[4]]
    assert failed(invoke, "draw", "in.conllu", "--sentence", "3", "-o", "x.svg") == (
        "in.conllu: There is no sentence 3. Give the number or the sent_id of a sentence."
    )
    assert not Path("x.svg").exists()
