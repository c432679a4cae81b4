"""Fixtures: saved parsers that read text or refine trees."""

from functools import partial

import pytest

from tests.support.commands import damaged, invoke
from tests.support.tiny import sample, tiny_model
from tests.support.tiny_segmenter import tiny_segmenter
from treefine.config import COLUMNS, TagSettings
from treefine.parsing.initial import given, renamed
from treefine.parsing.parser import Parser
from treefine.treebank.conllu import write_treebank


@pytest.fixture
def only_own_models(monkeypatch):
    """Hide the models of extra packages, which may be installed or not."""
    monkeypatch.setattr("treefine.model.bundled.extra_models", lambda: iter(()))


@pytest.fixture(scope="session")
def text_model(tmp_path_factory):
    """Return the folder of a parser with a tagger and a segmenter; its output is random but deterministic."""
    folder = tmp_path_factory.mktemp("text") / "model"
    tags = TagSettings("predicted", COLUMNS)
    Parser(tiny_model(tags=tags), device="cpu", segmenter=tiny_segmenter()).save(folder)
    return str(folder)


@pytest.fixture(scope="session")
def nlp(text_model):
    """Return the parser of `text_model`, loaded."""
    return Parser.from_pretrained(text_model, device="cpu")


@pytest.fixture(scope="session")
def refine_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("refine") / "model"
    Parser(tiny_model(scale=2.0), device="cpu").save(folder)
    return str(folder)


@pytest.fixture
def run_refine(refine_model, tmp_path, monkeypatch):
    """Return a function that runs `treefine refine` in a folder with a file of damaged trees."""
    monkeypatch.chdir(tmp_path)
    write_treebank(damaged(sample(10)), "in.conllu")

    return partial(invoke, "--model", refine_model, "--device", "cpu", command="refine")


@pytest.fixture
def refiner(refine_model):
    """Return the parser that `treefine refine` builds from the model."""
    loaded = Parser.from_pretrained(refine_model, initial=given, device="cpu")
    names = renamed(given, loaded.model.vocabulary.labels)
    return loaded.using(initial=names, max_steps=loaded.max_steps)
