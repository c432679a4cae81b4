"""Cores of this process, threads of the commands, and environment variables that they set before importing torch."""

import os
import subprocess
import sys
import threading
import time

import pytest
import torch

from tests.support.commands import failed, invoke
from tests.support.tiny import SAMPLE
from treefine import TreefineError, cores
from treefine.cores import limit_spinning, on_all_cores, quota_cores, torch_threads, usable_cores, use_threads

CHOSEN = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
TORCH = f"import os; raise OSError({{name: os.environ[name] for name in {CHOSEN} if name in os.environ}})"


def run(*command, paths=(), **variables):
    inherited = {name: value for name, value in os.environ.items() if name not in CHOSEN}
    search = os.pathsep.join([*map(str, paths), *filter(None, sys.path)])
    env = {**inherited, "PYTHONPATH": search, **variables}
    return subprocess.run([sys.executable, *command], env=env, capture_output=True, text=True, check=True).stdout


def test_a_command_limits_spinning_before_it_imports_torch(tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(TORCH)

    out = run("-m", "treefine", "info", paths=[tmp_path])

    assert "cannot be imported: OSError: {'GOMP_SPINCOUNT': '2000'}\n" in out
    code = "import os; before = dict(os.environ); import treefine, treefine.cli.app; print(before == dict(os.environ))"
    assert run("-c", code) == "True\n"


@pytest.mark.parametrize("variables", [{"GOMP_SPINCOUNT": "7"}, {"OMP_WAIT_POLICY": "active"}, {}])
def test_users_and_applications_that_have_loaded_torch_keep_their_environment(monkeypatch, variables):
    if not variables:
        monkeypatch.setitem(sys.modules, "torch", object())
    else:
        monkeypatch.delitem(sys.modules, "torch")
    before = dict(variables)

    limit_spinning(variables)

    assert variables == before


@pytest.mark.parametrize(("content", "quota"), [("250000 100000\n", 2.5), ("max 100000\n", None), (None, None)])
def test_the_quota_of_a_container_is_that_of_its_cgroup(tmp_path, content, quota):
    if content is not None:
        (tmp_path / "cpu.max").write_text(content)

    assert quota_cores(tmp_path) == quota


@pytest.mark.parametrize(("quota", "usable"), [(None, 4), (8.0, 4), (2.5, 3), (0.5, 1)])
def test_usable_cores_are_the_affinity_or_the_quota(monkeypatch, quota, usable):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(4), raising=False)
    monkeypatch.setattr(cores, "quota_cores", lambda: quota)

    assert usable_cores() == usable


@pytest.mark.parametrize(
    ("threads", "variables", "chosen"),
    [
        (None, {}, [2]),  # the quota
        (None, {"OMP_NUM_THREADS": "4"}, []),
        (3, {"OMP_NUM_THREADS": "4"}, [3]),
    ],
)
def test_threads_are_those_asked_for_or_in_the_environment_or_the_usable_cores(monkeypatch, threads, variables, chosen):
    calls = []
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"RAYON_NUM_THREADS": "1", **variables}.items():  # so that the test changes no environment
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    monkeypatch.setattr(torch, "set_num_threads", calls.append)
    monkeypatch.setattr(cores, "usable_cores", lambda: 2)

    use_threads(threads)

    assert calls == chosen


@pytest.mark.parametrize(
    "command", ["parse Yes.", "serve --port 0", f"analyse {SAMPLE} --model en", "train my.toml -o out"]
)
def test_a_command_that_runs_a_model_has_an_option_for_threads(monkeypatch, command):
    def stop(threads):
        raise TreefineError(f"{threads} threads")

    monkeypatch.setenv("RAYON_NUM_THREADS", "1")
    monkeypatch.setattr(torch, "set_num_threads", stop)

    assert failed(invoke, *command.split(), "--threads", 77) == "77 threads"


def test_tasks_run_at_once_and_share_the_threads_of_torch_and_one_task_has_all_of_them():
    here, together = threading.current_thread(), threading.Barrier(2, timeout=60)

    def work(number):
        if number:
            together.wait()  # two tasks are here at the same time
        return number, torch.get_num_threads(), threading.current_thread() is here

    with torch_threads(4):
        assert on_all_cores(work, [1, 2]) == [(1, 2, False), (2, 2, False)]
        assert on_all_cores(work, [0]) == [(0, 4, True)]
        assert torch.get_num_threads() == 4


def test_an_error_in_a_task_is_raised_and_no_further_task_starts():
    started = []

    def work(number):
        started.append(number)
        if number < 2:
            raise ZeroDivisionError(number)
        time.sleep(0.005)

    with torch_threads(2), pytest.raises(ZeroDivisionError, match="0"):
        on_all_cores(work, range(1000))

    assert len(started) < 1000


def test_blocks_with_a_number_of_threads_can_be_nested_and_other_threads_keep_the_number_of_the_application():
    seen, before, are_ready = [], torch.get_num_threads(), threading.Barrier(2)

    def start_one():
        thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
        thread.start()
        thread.join()

    torch.set_num_threads(3)
    try:
        on_all_cores(lambda _: (are_ready.wait(60), start_one()), [1, 2])  # others may see a number as it is set
        with torch_threads(2):
            with torch_threads(1):
                start_one()
            assert torch.get_num_threads() == 2
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)

    assert seen == [3, 3, 3]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_free_memory_is_given_back():
    code = """
import sys
from pathlib import Path
from treefine.cores import give_back_memory
def pages(): return int(Path("/proc/self/statm").read_text().split()[1])
held = [bytes(60_000) for _ in range(2000)]
pinned = held[::100]  # so that the C library cannot shrink the heap at its end
del held
before = pages()
give_back_memory()
print(before - pages() > 10_000)
"""
    assert run("-c", code, PYTHONMALLOC="malloc") == "True\n"
