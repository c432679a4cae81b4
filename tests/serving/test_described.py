"""The server against its descriptions: docs/serving.md, and /openapi.json by way of a fuzzer."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from random import SystemRandom

import httpx
import pytest
from hypothesis import settings

from tests.support.described import fuzz_deeply, fuzz_described
from tests.support.tiny_app import listening, tiny_tagging_parser

PAGE = Path(__file__).parents[2] / "docs" / "serving.md"
COMMANDS = re.findall(r"^curl .*$", PAGE.read_text(), re.MULTILINE)
SEED = 0 if settings.default.derandomize else SystemRandom().getrandbits(32)


@pytest.fixture(scope="module")
def address():
    with listening({"en": tiny_tagging_parser()}) as address:
        yield address


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("command", COMMANDS, ids=[str(number) for number in range(1, len(COMMANDS) + 1)])
def test_each_curl_command_is_answered_with_200(address, command):
    command = command.replace("http://127.0.0.1:8080", address)

    done = subprocess.run(["curl", "--fail", "--silent", *shlex.split(command)[1:]], capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout


def test_the_docs_list_each_route(address):
    described = httpx.get(f"{address}/openapi.json", timeout=60).json()["paths"]

    assert [route for route in described if route not in PAGE.read_text()] == []


def test_the_docs_list_each_metric(address):
    counted = re.findall(
        r"^# TYPE (treefine_\w+?)(?:_created)? ", httpx.get(f"{address}/metrics", timeout=60).text, re.M
    )

    assert [name for name in counted if name not in PAGE.read_text()] == []


@pytest.mark.hypothesis  # so that `make fuzz` selects it
def test_every_answer_to_a_generated_request_matches_the_schema(address):
    found = fuzz_described(address, max_examples=settings.default.max_examples // 20, random_seed=SEED)

    assert found.faults[:3] == (), f"seed {SEED}"
    assert found.n_errors == 0
    asked = {"POST /v1/parse", "POST /v1/refine", "POST /v1/steps", "GET /models", "GET /process", "POST /process"}
    assert asked <= set(found.statuses)
    assert all(statuses[200] for statuses in found.statuses.values())


@pytest.mark.hypothesis
def test_no_input_that_reaches_the_model_makes_the_server_fail(address):
    n_requests = settings.default.max_examples * 3 // 2

    found = fuzz_deeply(address, max_examples=n_requests, random_seed=SEED)

    assert found.faults[:3] == (), f"seed {SEED}"
    assert found.n_errors == 0
    assert all(statuses[200] for statuses in found.statuses.values())
    assert found.n_requests == n_requests
