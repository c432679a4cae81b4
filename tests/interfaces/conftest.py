"""A parser that reads text, in a folder of its own."""

import pytest

from tests.tiny import tiny_model
from tests.tiny_segmenter import tiny_segmenter
from treefine.config import TagSettings
from treefine.parsing.parser import Parser


@pytest.fixture(scope="session")
def text_model(tmp_path_factory):
    """The folder of a parser with a tagger and a segmenter; it cuts and parses nonsense, but always the same."""
    folder = tmp_path_factory.mktemp("text") / "model"
    tags = TagSettings("predicted", ("upos", "xpos"))
    Parser(tiny_model(tags=tags), device="cpu", segmenter=tiny_segmenter()).save(folder)
    return str(folder)


@pytest.fixture(scope="session")
def nlp(text_model):
    """The same parser, loaded."""
    return Parser.from_pretrained(text_model, device="cpu")
