import gc
import os
import random
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

# One thread for each test and for the commands it runs: tests run side by side, and waiting threads are slow.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
import typer.testing

from tests.support.data import DATA
from tests.support.fixtures import nlp, only_own_models, refine_model, refiner, run_refine, text_model  # noqa: F401
from tests.support.shapes import start_checks

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


def pytest_collection_finish(session):
    """Exclude what was imported so far from garbage collection: collecting it again takes a second each time."""
    gc.collect()
    gc.freeze()
    gc.enable()
