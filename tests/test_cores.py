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
from treefine.cores import (
    limit_spinning,
    on_all_cores,
    quota_cores,
    torch_threads,
    usable_cores,
    use_threads,
)
from treefine.fast.file_workers import default_workers

CHOSEN = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
TORCH = f"import os; raise OSError({{name: os.environ[name] for name in {CHOSEN} if name in os.environ}})"


def run(*command, paths=(), **variables):
    inherited = {name: value for name, value in os.environ.items() if name not in CHOSEN}
    search = os.pathsep.join([*map(str, paths), *filter(None, sys.path)])
    env = {**inherited, "PYTHONPATH": search, **variables}
    return subprocess.run([sys.executable, *command], env=env, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ({}, {"GOMP_SPINCOUNT": "2000"}),
        ({"GOMP_SPINCOUNT": "7"}, {"GOMP_SPINCOUNT": "7"}),
        ({"OMP_WAIT_POLICY": "active"}, {"OMP_WAIT_POLICY": "active"}),
    ],
)
def test_a_command_limits_spinning_before_it_imports_torch_unless_the_user_has_chosen(tmp_path, given, seen):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(TORCH)

    out = run("-m", "treefine", "info", paths=[tmp_path], **given)

    assert f"cannot be imported: OSError: {seen}\n" in out


def test_importing_treefine_changes_no_environment_variable():
    code = "import os; before = dict(os.environ); import treefine, treefine.cli.app; print(before == dict(os.environ))"

    assert run("-c", code) == "True\n"


def test_an_application_that_has_loaded_torch_keeps_its_environment(monkeypatch):
    variables = {}
    monkeypatch.setitem(sys.modules, "torch", object())
    limit_spinning(variables)

    assert variables == {}


NESTED = "0::/user.slice/app.service\n"
V1 = "4:memory:/docker/a\n3:cpu,cpuacct:/docker/a\n0::/\n"


@pytest.mark.parametrize(
    ("membership", "files", "quota"),
    [
        ("0::/\n", {"cpu.max": "250000 100000\n"}, 2.5),
        ("0::/\n", {"cpu.max": "max 100000\n"}, None),
        ("0::/\n", {}, None),
        (NESTED, {"user.slice/app.service/cpu.max": "50000 100000\n", "user.slice/cpu.max": "max 100000\n"}, 0.5),
        (NESTED, {"user.slice/app.service/cpu.max": "300000 100000\n", "user.slice/cpu.max": "200000 100000\n"}, 2.0),
        (NESTED, {"cpu.max": "100000 50000\n"}, 2.0),  # a container that sees its own cgroup as the root
        (V1, {"cpu/cpu.cfs_quota_us": "400000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 4.0),
        (
            V1,
            {"cpu,cpuacct/docker/a/cpu.cfs_quota_us": "150000\n", "cpu,cpuacct/docker/a/cpu.cfs_period_us": "100000\n"},
            1.5,
        ),
        (None, {"cpu.max": "100000 100000\n"}, 1.0),
    ],
)
def test_the_smallest_quota_from_the_root_to_the_cgroup_of_the_process_applies(tmp_path, membership, files, quota):
    if membership is not None:
        (tmp_path / "membership").write_text(membership)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    assert quota_cores(tmp_path, tmp_path / "membership") == quota


@pytest.mark.parametrize(("quota", "usable"), [(None, 8), (0.2, 1), (2.1, 3), (64.0, 8)])
def test_usable_cores_are_limited_by_affinity_and_quota(monkeypatch, quota, usable):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(cores, "quota_cores", lambda: quota)

    assert usable_cores() == usable
    assert default_workers() == max(0, usable - 2)


@pytest.mark.parametrize(
    ("threads", "variables", "chosen"),
    [
        (None, {}, [2]),  # the quota
        (3, {}, [3]),
        (None, {"OMP_NUM_THREADS": "4"}, []),
        (3, {"OMP_NUM_THREADS": "4"}, [3]),
    ],
)
def test_threads_are_those_asked_for_or_in_the_environment_or_the_usable_cores(monkeypatch, threads, variables, chosen):
    calls = []
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RAYON_NUM_THREADS", "1")  # so that the test changes no environment
    for name, value in variables.items():
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


def test_tasks_run_at_once_and_share_the_threads_of_torch():
    here, together = threading.current_thread(), threading.Barrier(2, timeout=60)

    def work(number):
        together.wait()  # two tasks are here at the same time
        return number, torch.get_num_threads(), threading.current_thread() is here

    with torch_threads(4):
        found = on_all_cores(work, [1, 2])
        assert torch.get_num_threads() == 4

    assert found == [(1, 2, False), (2, 2, False)]


@pytest.mark.parametrize(("threads", "tasks"), [(1, [1, 2]), (2, [1]), (2, [])])
def test_a_task_alone_has_all_threads_of_torch(threads, tasks):
    here = threading.current_thread()
    with torch_threads(threads):
        found = on_all_cores(lambda task: (task, torch.get_num_threads(), threading.current_thread() is here), tasks)

    assert found == [(task, threads, True) for task in tasks]


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


def test_blocks_with_a_number_of_threads_can_be_nested():
    before = torch.get_num_threads()
    seen = []
    with torch_threads(4):
        with torch_threads(2):
            with torch_threads(1):
                pass
            seen.append(torch.get_num_threads())
        seen.append(torch.get_num_threads())

    assert [*seen, torch.get_num_threads()] == [2, 4, before]


def test_threads_that_start_meanwhile_have_the_number_of_the_application():
    seen, are_ready = [], threading.Barrier(2)  # while a thread sets its number, others may see that number

    def start_one():
        thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
        thread.start()
        thread.join()

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        on_all_cores(lambda _: (are_ready.wait(60), start_one()), [1, 2])
        with torch_threads(1):
            start_one()
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
