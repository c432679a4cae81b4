import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# One thread for each test and for the commands it runs: tests run side by side, and waiting threads are slow.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from tests.support.data import DATA
from tests.support.fixtures import nlp, refine_model, refiner, run_refine, text_model  # noqa: F401

settings.register_profile(
    "treefine",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    derandomize="CI" in os.environ,  # new examples here, the same ones where a change is judged
    max_examples=int(os.environ.get("EXAMPLES", "100")),
)
settings.load_profile("treefine")


@pytest.fixture
def data() -> Path:
    return DATA
