"""Published treebanks, if they are next to this checkout: round trips, validation, properties and texts."""

import io
import lzma
from dataclasses import replace

import pytest

from tests.support.data import UD, ud_files
from treefine import read_treebank
from treefine.treebank.conllu import validate
from treefine.treebank.raw_text import text_of


@pytest.mark.parametrize("path", ud_files("*/*.conllu.xz"))
def test_every_treebank_comes_back_byte_for_byte(path):
    content = lzma.open(path).read()

    assert "".join(sentence.to_conllu() for sentence in read_treebank(io.BytesIO(content))).encode() == content


@pytest.mark.parametrize("path", ud_files("*/dev.conllu.xz"))
def test_published_treebanks_are_valid_and_their_text_has_each_sentence_in_order(path):
    sentences = list(read_treebank(path))
    text, place = text_of(sentences), 0

    assert list(validate(path)) == []
    for sentence in sentences:
        own = text_of([replace(sentence, comments=())])  # in `# text`, some have more spaces than in MISC
        place = text.index(own, place) + len(own)


@pytest.mark.skipif(not UD.exists(), reason="no treebanks next to this checkout")
@pytest.mark.parametrize(("treebank", "share"), [("tr_imst", 11.5), ("hu_szeged", 27.1), ("vi_vtb", 2.9)])
def test_the_share_of_non_projective_sentences_is_the_published_share(treebank, share):
    sentences = [each for path in (UD / treebank).glob("*.conllu.xz") for each in read_treebank(path)]

    assert round(100 * sum(not each.graph.is_projective for each in sentences) / len(sentences), 1) == share
