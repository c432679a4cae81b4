import gc
import os
import random
from functools import cache, partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

# One thread for each test and for the commands it runs: tests run side by side, and waiting threads are slow.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
import typer.testing

from tests.support.commands import damaged, invoke
from tests.support.data import DATA
from tests.support.shapes import start_checks
from tests.support.tiny import sample, tiny_model
from tests.support.tiny_segmenter import tiny_segmenter
from treefine.config import COLUMNS, TagSettings
from treefine.parsing.initial import input_trees, renamed
from treefine.parsing.parser import Parser
from treefine.treebank.conllu import write_treebank

# `make test` tries the same examples every time; `make fuzz` sets FUZZ and tries new ones.
is_fuzzing = "FUZZ" in os.environ
settings.register_profile(
    "treefine",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    derandomize=not is_fuzzing,
    database=None,
    max_examples=int(os.environ.get("EXAMPLES", "10")),
)
settings.load_profile("treefine")
if not is_fuzzing:
    # Hypothesis also draws numbers and strings from the source of whichever of our modules are imported by then, so
    # examples would depend on the order of the tests.
    assert callable(providers._get_local_constants)
    providers._get_local_constants = lambda: providers._local_constants

# CliRunner would build all commands again for each call, which takes longer than most of the commands.
typer.testing._get_command = cache(typer.testing._get_command)


def pytest_collection():
    """Collect no garbage while tests are collected: almost nothing of what they import is ever released."""
    gc.disable()


def pytest_runtest_setup(item):
    """Check the shapes of all calls where the network itself is tested, and elsewhere of the first calls."""
    folders = ("model", "contracts")
    start_checks(all_calls=is_fuzzing or item.path.parent.name in folders)


@pytest.fixture(autouse=True)
def _seeded():
    """Let numbers that a test draws from the global generators not depend on the tests before it."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture
def data() -> Path:
    return DATA


@pytest.fixture
def only_own_models(monkeypatch):
    """Hide the models of extra packages, which may be installed or not."""
    monkeypatch.setattr("treefine.model.bundled.ENTRY_POINTS", "none")


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
    loaded = Parser.from_pretrained(refine_model, initial=input_trees, device="cpu")
    names = renamed(input_trees, loaded.model.vocabulary.labels)
    return loaded.using(initial=names, max_steps=loaded.max_steps)


def pytest_collection_finish(session):
    """Exclude what was imported so far from garbage collection: collecting it again takes a second each time."""
    gc.collect()
    gc.freeze()
    gc.enable()
