"""The fuzzer: it covers all commands, options and routes; it finds faults; a short run of it finds none."""

from random import Random

import pytest

from benchmarks.fuzz import commands, endpoints
from benchmarks.fuzz.commands import Call, Outcome, call_of, check
from benchmarks.fuzz.endpoints import Answer, Sent, request_for
from benchmarks.fuzz.run import Fuzzer, Plan, Tried, watch
from tests.support.stub_fuzzer import DIES, FAILS, HANGS, StubFuzzer

ONE = b"1\ta\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
TWO = b"1\tb\t_\t_\t_\t_\t0\troot\t_\t_\n\n"


@pytest.fixture(scope="module")
def fuzzer(tmp_path_factory):
    found = Fuzzer(tmp_path_factory.mktemp("fuzz"), seed=1)
    found.server.start()
    yield found
    found.server.stop()


def test_every_command_and_every_option_is_generated(fuzzer):
    assert commands.ARGUMENTS.keys() == commands.COMMANDS.keys() == commands.OPTIONS.keys() <= fuzzer.weights.keys()
    for name, options in commands.OPTIONS.items():
        rng, missing = Random(name), {option.name for option in options}
        for _ in range(1000):
            if missing:
                missing -= call_of(rng, name, fuzzer.models).options.keys()
        assert not missing


def test_every_route_is_generated(fuzzer):
    described = {
        f"{method.upper()} {path}" for path, each in fuzzer.server.app.openapi()["paths"].items() for method in each
    }

    assert described | {"GET /", "GET /docs", "GET /openapi.json", "POST /api/process"} <= fuzzer.weights.keys()
    for route in fuzzer.server.routes:
        rng = Random(route)
        sent = [request_for(rng, route) for _ in range(20)]
        assert route in {f"{each.method} {each.path}" for each in sent}


def test_a_short_run_finds_no_faults(fuzzer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the fuzzer changes the working folder

    tried = [fuzzer(number) for number in range(100)]

    assert [each for each in tried if each.fault] == []
    assert len({each.kind for each in tried}) > 15


def test_the_same_number_gives_the_same_input(fuzzer):
    calls = [repr(call_of(Random("1/7"), "parse", fuzzer.models)) for _ in range(2)]

    assert calls[0] == calls[1]


CONVERT = Call("convert", ["in.conllu", "out.conllu"], files={"in.conllu": ONE + TWO})
RIGHT = {"in.conllu": ONE + TWO, "out.conllu": ONE + TWO}


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        (Outcome(0, b"", "", None, RIGHT), None),
        (Outcome(0, b"", "", None, RIGHT | {"out.conllu": TWO}), "lost"),
        (Outcome(0, b"", "", None, RIGHT | {"in.conllu": b""}), "lost"),
        (Outcome(0, b"", "", None, RIGHT | {".out.conllu.1.tmp": b""}), "other"),
        (Outcome(0, b"", "UserWarning: x", None, RIGHT), "other"),
        (Outcome(1, b"", "treefine: message\n", None, {"in.conllu": ONE + TWO}), None),
        (Outcome(1, b"", "treefine: message\n", None, RIGHT), "other"),
        (Outcome(1, b"", "", None, {"in.conllu": ONE + TWO}), "other"),
        (Outcome(1, b"", "", ValueError(), {"in.conllu": ONE + TWO}), "crash"),
        (Outcome(139, b"", "", None, {"in.conllu": ONE + TWO}), "crash"),
    ],
)
def test_the_outcome_of_a_command_is_checked(outcome, kind):
    assert getattr(check(CONVERT, outcome), "kind", None) == kind


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (200, b'{"model": "m", "sentences": []}', "lost"),
        (200, b'{"model": "m"}', "other"),
        (422, b"not JSON", "other"),
        (422, b'{"error": {"status": 422, "message": "m"}}', None),
        (500, b"", "crash"),
    ],
)
def test_the_answer_of_a_server_is_checked(status, body, kind):
    sent = Sent("POST", "/v1/parse", words=[["a"]])

    found = endpoints.check(sent, Answer(status, {b"content-type": b"application/json"}, body))

    assert getattr(found, "kind", None) == kind


def test_a_worker_that_hangs_or_dies_is_replaced_and_its_input_is_reported():
    found = watch(StubFuzzer, Plan(seconds=60, workers=2, most=6, hang_seconds=1))

    assert found.inputs == {"parse": 6}
    faults = dict(found.faults)
    hang = faults.pop(HANGS)
    assert (hang.kind, hang.fault, hang.shown) == ("parse", "hang", f"input {HANGS}")
    assert "stub_fuzzer.py" in hang.message
    assert faults == {
        DIES: Tried("parse", "crash", "the process ended with code 3", f"input {DIES}"),
        FAILS: Tried("parse", "lost", "a word"),
    }
    assert found.counts == {"crash": 1, "hang": 1, "lost": 1, "other": 0}
