"""A server in a process of its own with many clients: too many of them, and while it is killed or ended."""

import asyncio
import signal
import time
from collections import Counter

import pytest

from benchmarks.server.clients import ServeProcess, ask_all
from benchmarks.server.load import requests_of, trees_in
from tests.support.tiny import sample, tiny_parser

QUEUE = 8


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny"
    tiny_parser().save(folder)
    with ServeProcess(["--model", str(folder), "--queue", str(QUEUE)], threads=1) as server:
        yield server


@pytest.fixture(scope="module")
def asked():
    """Return requests of five sentences, and their trees: clients ask faster than the server answers."""
    return requests_of(tiny_parser(), sample(30), 5, "conllu")


async def until_open(server, number, asking):
    """Wait until a number of requests is open."""
    while (
        f'treefine_open_requests{{model="tiny"}} {number}.0' not in (await asyncio.to_thread(server.get, "/metrics"))[1]
    ):
        assert not asking.done(), "all requests were answered"
        await asyncio.sleep(0.01)


def all_are_right(answers, expected):
    return all(each.status == 200 and trees_in(each.body.decode()) == expected[each.number] for each in answers)


def test_rejected_clients_are_served_after_retry_after(server, asked):
    requests, expected = asked
    long_requests, long_expected = requests_of(tiny_parser(), sample(30) * 2 * QUEUE, 60, "conllu")

    async def ask():
        filling = asyncio.create_task(ask_all(server.port, iter(enumerate(long_requests)), clients=QUEUE))
        await until_open(server, QUEUE, filling)
        answers = await ask_all(server.port, iter(enumerate(requests)), clients=2, retries=True)
        return await filling, answers

    filled, answers = asyncio.run(ask())

    assert all_are_right(filled, long_expected)
    assert all_are_right(answers, expected)
    assert sum((each.refusals for each in answers), Counter())["503"] > 0
    assert sum(each.without_retry_after for each in answers) == 0


def test_clients_that_retry_lose_nothing_when_the_server_is_killed_and_started_again(server, asked):
    requests, expected = asked

    async def ask():
        asking = asyncio.create_task(ask_all(server.port, iter(list(enumerate(requests)) * 4), clients=6, retries=True))
        await asyncio.sleep(0.05)
        code = await asyncio.to_thread(server.stop, signal.SIGKILL)
        await asyncio.to_thread(server.start)
        return code, await asking

    code, answers = asyncio.run(ask())

    assert code == -signal.SIGKILL
    assert len(answers) == 4 * len(requests)
    assert all_are_right(answers, expected)


def test_open_requests_are_answered_before_the_server_exits_on_sigterm(server):
    requests, expected = requests_of(tiny_parser(), sample(30) * 12, 60, "conllu")

    async def ask():
        asking = asyncio.create_task(ask_all(server.port, iter(enumerate(requests)), clients=6))
        await until_open(server, 6, asking)
        server.send(signal.SIGTERM)
        return time.perf_counter(), await asking

    mark, answers = asyncio.run(ask())

    assert server.wait() in (0, -signal.SIGTERM)  # uvicorn hands the signal on once it is done
    assert all_are_right(answers, expected)
    assert any(each.came > mark for each in answers)
