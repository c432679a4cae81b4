"""The server against requests made from its own description, and against odd ones that reach the model."""

from random import SystemRandom

import pytest
from hypothesis import settings

from benchmarks.server.fuzz import fuzz_deeply, fuzz_described
from tests.support.tiny_app import listening, tiny_tagging_parser

pytestmark = pytest.mark.hypothesis  # so that `make fuzz` selects these too
SEED = 0 if settings.default.derandomize else SystemRandom().getrandbits(32)


@pytest.fixture(scope="module")
def address():
    with listening({"en": tiny_tagging_parser()}) as address:
        yield address


def test_every_answer_to_what_the_description_allows_or_forbids_is_as_described(address):
    found = fuzz_described(address, max_examples=settings.default.max_examples // 20, random_seed=SEED)

    assert found.faults[:3] == (), f"seed {SEED}"
    assert found.n_errors == 0
    asked = {"POST /v1/parse", "POST /v1/refine", "POST /v1/steps", "GET /models", "GET /process", "POST /process"}
    assert asked <= set(found.statuses)
    assert all(statuses[200] for statuses in found.statuses.values())


def test_nothing_that_reaches_the_model_makes_the_server_fail(address):
    n_requests = settings.default.max_examples * 3 // 2

    found = fuzz_deeply(address, max_examples=n_requests, random_seed=SEED)

    assert found.faults[:3] == (), f"seed {SEED}"
    assert found.n_errors == 0
    assert all(statuses[200] for statuses in found.statuses.values())
    assert found.n_requests == n_requests
