"""A process that runs the methods of an object for this process."""

import os
import pickle
import signal
import sys
import time

import pytest

from treefine.errors import TreefineError
from treefine.worker_process import WorkerDiedError, WorkerProcess


class Counter:
    """Counts, and does what a test asks for."""

    def __init__(self, start):
        self.count = start

    def add(self, number):
        self.count += number
        sys.stdout.write("printed by a library")
        return self.count

    def fail(self, kind):
        raise kind("A message.")

    def wait(self):
        while True:
            time.sleep(1)

    def die(self):
        os._exit(1)


@pytest.fixture(scope="module")
def worker():
    process = WorkerProcess(Counter, 5, hint="Try again.")
    yield process
    process.close()


def test_methods_change_the_object_in_the_worker(worker):
    assert [worker.run(Counter.add, (number,)) for number in (1, 2)] == [6, 8]


def test_errors_of_the_user_are_raised_as_they_are_and_others_with_their_traceback(worker):
    with pytest.raises(TreefineError, match="^A message.$"):
        worker.run(Counter.fail, (TreefineError,))
    with pytest.raises(RuntimeError, match=r"(?s)Traceback.*ZeroDivisionError: A message."):
        worker.run(Counter.fail, (ZeroDivisionError,))


def test_a_worker_that_dies_is_an_error_with_a_hint():
    worker = WorkerProcess(Counter, 0, hint="Try again.")
    with pytest.raises(WorkerDiedError, match="^A worker process has ended unexpectedly. Try again.$"):
        worker.run(Counter.die, ())
    worker.close()

    assert worker.process.poll() is not None


def test_arguments_that_cannot_be_sent_are_an_error_that_says_why():
    worker = WorkerProcess(Counter, 0)
    with pytest.raises(WorkerDiedError, match=r"^A worker process has ended unexpectedly \(.*lambda"):
        worker.run(Counter.add, (lambda: 1,))
    worker.close()


def test_a_worker_ignores_the_signals_that_stop_its_parent(worker):
    worker.run(Counter.add, (0,))
    for name in (signal.SIGTERM, signal.SIGINT):
        worker.process.send_signal(name)

    assert worker.run(Counter.add, (0,)) > 0


def test_a_worker_ends_with_its_parent_even_in_the_middle_of_a_task():
    worker = WorkerProcess(Counter, 0)
    worker.run(Counter.add, (0,))
    pickle.dump((Counter.wait, ()), worker.process.stdin)
    worker.process.stdin.close()

    assert worker.process.wait(timeout=60) == 0
    worker.process.stdout.close()
