"""The server against requests made from its own description, and against odd ones that reach the model."""

import pytest

from benchmarks.fuzzing import fuzz_deeply, fuzz_described
from tests.support.tiny_app import listening, tiny_tagging_parser


@pytest.fixture(scope="module")
def address():
    with listening({"en": tiny_tagging_parser()}) as address:
        yield address


def test_every_answer_to_what_the_description_allows_or_forbids_is_as_described(address):
    found = fuzz_described(address, max_examples=5)

    assert found.faults[:3] == ()
    assert found.n_errors == 0
    asked = {"POST /v1/parse", "POST /v1/refine", "POST /v1/steps", "GET /models", "GET /process", "POST /process"}
    assert asked <= set(found.statuses)
    assert all(statuses[200] for statuses in found.statuses.values())


def test_nothing_that_reaches_the_model_makes_the_server_fail(address):
    found = fuzz_deeply(address, max_examples=150)

    assert found.faults[:3] == ()
    assert found.n_errors == 0
    assert all(statuses[200] for statuses in found.statuses.values())
    assert found.n_requests == 150
