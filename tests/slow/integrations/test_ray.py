"""Parse a corpus with Ray: actors and the whole run may be killed at any time."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.commands import invoke
from tests.support.tiny import sample
from treefine.treebank.conllu import write_treebank

pytest.importorskip("ray")
OPTIONS = ["--device", "cpu", "--steps", "2"]


def begin(model, names):
    command = [sys.executable, "-m", "treefine.integrations.ray", *names, "-o", "out", "--model", model, *OPTIONS]
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    return subprocess.Popen([*command, "--actors", "2"], stderr=subprocess.PIPE, text=True, env=environment)


def wait_for(find, process, seconds=300):
    """Wait until `find` returns something, and return it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        if value := find():
            return value
        time.sleep(0.005)
    process.kill()
    raise AssertionError(process.communicate())


def descendants(pid):
    """Return the processes that a process has started, directly or through others, parents first."""
    found, parents = [pid], {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
    for known in found:
        found += [child for child, parent in parents.items() if parent == known]
    return found[1:]


def writer_of_a_part(process):
    """Return the process of this run that has a part file open, stopped in the middle of it."""
    for pid in descendants(process.pid):
        with suppress(OSError):
            if any(path.readlink().suffix == ".part" for path in Path(f"/proc/{pid}/fd").iterdir()):
                os.kill(pid, signal.SIGSTOP)
                return pid
    return None


def test_a_killed_run_is_resumed_and_a_killed_worker_replaced(text_model, tmp_path, monkeypatch):
    """Use two actors: kill everything after the first file, then one actor in the middle of another file."""
    monkeypatch.chdir(tmp_path)
    names = [f"{number}.conllu" for number in range(4)]
    for number, name in enumerate(names):
        write_treebank(sample(60) * (1 + number), name)

    process = begin(text_model, names)
    wait_for(lambda: list(Path("out").glob("*.conllu")), process)
    for pid in [process.pid, *descendants(process.pid)]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.communicate()
    n_before = len(list(Path("out").glob("*.conllu")))
    process = begin(text_model, names)
    os.kill(wait_for(lambda: writer_of_a_part(process), process), signal.SIGKILL)
    _, printed = process.communicate()

    assert 0 < n_before < len(names)
    assert process.returncode == 0, printed
    assert re.search(r"treefine: [1-3] of 4 files already finished\n", printed)
    invoke("parse", *names, "-o", "local/", "--model", text_model, *OPTIONS)
    assert {path.name for path in Path("out").iterdir()} == set(names)
    for name in names:
        assert Path("out", name).read_bytes() == Path("local", name).read_bytes()


def test_faults_are_reported_at_the_end_and_the_rest_is_written(text_model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_treebank(sample(2), "good.conllu")
    Path("bad.conllu").write_text("1\tDogs\n\n")
    Path("empty.txt").write_text("\n")

    process = begin(text_model, ["good.conllu", "bad.conllu", "empty.txt"])
    _, printed = process.communicate()

    assert process.returncode == 1
    assert "treefine: bad.conllu:1: (sentence 1) The line must have 10 columns, not 2." in printed
    assert "treefine: empty.txt: The text contains no words.\n" in printed
    assert "1 file parsed, 2 sentences; 2 failed or empty\n" in printed
    assert Path("out/good.conllu").exists()
