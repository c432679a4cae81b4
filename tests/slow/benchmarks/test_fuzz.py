"""The fuzzer covers all commands and routes, notices faults, and finds none in a short run."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.fuzz import commands
from benchmarks.fuzz.commands import Call, Outcome
from benchmarks.fuzz.run import LAST_INPUT, Fuzzer, Plan, Tried, run_all

ONE = b"1\ta\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
TWO = b"1\tb\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
CONVERT = Call("convert", ["in.conllu", "out.conllu"], files={"in.conllu": ONE + TWO})
RIGHT = {"in.conllu": ONE + TWO, "out.conllu": ONE + TWO}


def test_a_short_run_over_all_commands_and_routes_finds_no_faults(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the fuzzer changes the working folder
    fuzzer = Fuzzer(tmp_path, seed=1)
    fuzzer.server.start()

    tried = [fuzzer(number) for number in range(200)]
    fuzzer.server.stop()

    assert [each for each in tried if each.fault] == []
    assert {each.kind for each in tried if each.succeeded} >= {"parse", "refine", "convert", "POST /v1/parse"}
    assert fuzzer.weights.keys() >= {*commands.ARGUMENTS, "GET /", "POST /process", "POST /v1/refine"}


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        (Outcome(0, b"", "", None, RIGHT), None),
        (Outcome(0, b"", "", None, RIGHT | {"out.conllu": ONE}), "lost"),
        (Outcome(0, b"", "", None, RIGHT | {"out.conllu.part": b""}), "other"),
        (Outcome(0, b"", "UserWarning: x", None, RIGHT), "other"),
        (Outcome(1, b"", "treefine: message\n", None, CONVERT.files), None),
        (Outcome(1, b"", "treefine: message\n", None, RIGHT), "other"),
        (Outcome(1, b"", "", ValueError(), CONVERT.files), "crash"),
        (Outcome(139, b"", "", None, CONVERT.files), "crash"),
    ],
)
def test_the_outcome_of_a_command_is_checked(outcome, kind):
    assert getattr(commands.check(CONVERT, outcome), "kind", None) == kind


@dataclass(frozen=True)
class DyingPlan(Plan):
    """A plan whose input 1 ends its process."""

    def fuzzer(self, folder: Path):
        def run(number):
            (folder / LAST_INPUT).write_text(f"parse\ninput {number}")
            if number == 1:
                os._exit(3)
            time.sleep(0.01)
            return Tried(number, "parse")

        return run


def test_a_worker_that_dies_is_replaced_and_its_input_is_reported(tmp_path):
    tried = run_all(DyingPlan(1, (), 2, time.monotonic() + 10), tmp_path)

    assert [each for each in tried if each.fault] == [
        Tried(1, "parse", "crash", "the process ended with code 3", "input 1")
    ]
    assert {0, 2, 3} <= {each.number for each in tried}
