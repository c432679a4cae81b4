"""The server against its descriptions: docs/serving.md, and /openapi.json by way of Schemathesis."""

import re
import shlex
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from random import SystemRandom

import httpx
import pytest
import schemathesis
from hypothesis import settings
from schemathesis.engine import events, from_schema

from tests.support.tiny_app import listening, tiny_tagging_parser

PAGE = Path(__file__).parents[3] / "docs" / "serving.md"
COMMANDS = re.findall(r"^curl .*$", PAGE.read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def address():
    with listening({"en": tiny_tagging_parser()}) as address:
        yield address


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_docs_list_each_route_and_metric_and_each_curl_command_is_answered(address):
    routes = httpx.get(f"{address}/openapi.json", timeout=60).json()["paths"]
    metrics = re.findall(r"^# TYPE (treefine_\w+?)(?:_created)? ", httpx.get(f"{address}/metrics").text, re.M)

    assert [name for name in (*routes, *metrics) if name not in PAGE.read_text()] == []
    for command in COMMANDS:
        arguments = shlex.split(command.replace("http://127.0.0.1:8080", address))[1:]
        done = subprocess.run(["curl", "--fail", "--silent", *arguments], capture_output=True, text=True)
        assert (done.returncode, done.stdout != "") == (0, True), command


@pytest.mark.hypothesis  # so that `make fuzz` selects it
def test_every_answer_to_a_generated_request_matches_the_description(address):
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
    schema.config.generation.max_examples = max(2, settings.default.max_examples // 10)
    schema.config.generation.database = "none"  # examples of earlier runs must not affect this one
    schema.config.seed = 0 if settings.default.derandomize else SystemRandom().getrandbits(32)
    schema.config.request_timeout = 120
    schema.config.checks.negative_data_rejection.expected_statuses = ["400", "404", "405", "413", "422"]
    schema.config.phases.stateful.enabled = False  # requests do not depend on each other
    schema.config.checks.positive_data_acceptance.enabled = False  # the description does not define CoNLL-U
    statuses, faults = {}, []
    for event in from_schema(schema).execute():
        if isinstance(event, events.NonFatalError | events.FatalError):
            faults.append(str(getattr(event, "info", event)))
        elif isinstance(event, events.ScenarioFinished):
            counts = statuses.setdefault(event.recorder.label, Counter())
            counts.update(each.response.status_code for each in event.recorder.interactions.values() if each.response)
            for case, checks in event.recorder.checks.items():
                sent = event.recorder.interactions[case].request
                failures = [check.failure_info.failure for check in checks if check.failure_info is not None]
                faults += [f"{sent.method} {sent.uri} {sent.body!r}: {each.title}. {each.message}" for each in failures]

    assert faults[:3] == [], f"seed {schema.config.seed}"
    assert {"POST /v1/parse", "POST /v1/refine", "POST /v1/steps", "GET /v1/models"} <= set(statuses)
    assert all(counts[200] and not counts[500] for counts in statuses.values()), statuses
