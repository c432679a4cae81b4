"""A server in a process of its own, with many clients: too many, bad ones among them, and while it is ended.

The long form of these, with a real model, is `python -m benchmarks outages`.
"""

import asyncio
import signal
import time

import pytest

from benchmarks.server.clients import ServeProcess, ask_all
from benchmarks.server.loads import asked, paragraphs
from benchmarks.server.outages import LOAD, among_bad, overloaded, stopped, summed_up
from benchmarks.speed.parsers import without_trees
from tests.support.tiny import sample, tiny_parser

QUEUE = 8
N_SENTENCES = 30


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny"
    tiny_parser().save(folder)
    return folder


@pytest.fixture(scope="module")
def server(folder):
    with ServeProcess(["--model", str(folder), "--queue", str(QUEUE)], threads=1) as server:
        yield server


@pytest.fixture(scope="module")
def trees():
    """Return the trees of a local parser for the sample sentences."""
    parsed = tiny_parser().parse(sample(N_SENTENCES))
    return [tuple(zip(each.forms, each.heads, each.labels, strict=True)) for each in parsed]


def requests_of(trees, *, copies=1, size=1):
    """Requests for the sentences of the sample, so many times over and so many sentences each."""
    texts = [without_trees(each.to_conllu().strip()) for each in sample(N_SENTENCES)] * copies
    expected = trees * copies
    starts = range(0, len(expected), size)
    return asked(LOAD, paragraphs(texts, size), [expected[start : start + size] for start in starts])


def test_rejected_clients_are_served_after_retry_after(server, trees):
    # Five sentences per request: clients ask faster than the server answers, on any machine.
    reported = asyncio.run(overloaded(server, requests_of(trees, size=5), clients=4, too_many=3 * QUEUE))

    assert reported["refusals"]["503"] > 0
    assert reported["without_retry_after"] == 0
    assert reported["answers_by_status"] == {"200": 6 * QUEUE}
    assert (reported["other_trees"], reported["surplus_bytes"]) == (0, 0)


def test_bad_requests_and_disconnecting_clients_do_not_affect_others(server, trees):
    reported = asyncio.run(among_bad(server, requests_of(trees, copies=4), clients=2))

    assert reported["answers_by_status"] == {"200": 120}
    assert (reported["other_trees"], reported["refusals"]) == (0, {})
    assert reported["bad"].pop("hung up") > 0
    assert all(each.split(": ")[0] == each.split(": ")[1] for each in reported["bad"])
    assert {each.split(": ")[1] for each in reported["bad"]} == {"400", "404", "413", "422"}


def test_clients_that_retry_lose_nothing_when_the_server_is_killed_and_started_again(server, trees):
    reported = asyncio.run(stopped(server, requests_of(trees, copies=2), clients=6, pauses=[0.5], is_killed=True))

    assert reported["exit_codes"] == [-9]
    assert sum(reported["refusals"].values()) > 0
    assert reported["answers_by_status"] == {"200": reported["requests"]}
    assert (reported["unanswered"], reported["other_trees"], reported["surplus_bytes"]) == (0, 0, 0)


def test_open_requests_are_answered_before_the_server_exits_on_sigterm(server, trees):
    requests = requests_of(trees, copies=12, size=70)  # more than a share: none is answered in the first round

    async def ask():
        asking = asyncio.create_task(ask_all(server.port, iter(requests.requests), clients=6))
        while 'treefine_open_requests{model="tiny"} 6.0' not in (await asyncio.to_thread(server.get, "/metrics"))[1]:
            assert not asking.done(), "all requests were answered before SIGTERM"
            await asyncio.sleep(0.01)
        server.terminate()
        return time.perf_counter(), await asking

    mark, (outcomes, surplus) = asyncio.run(ask())

    assert server.wait() in (0, -signal.SIGTERM)  # uvicorn hands the signal on once it is done
    assert server.get("/health") == (0, "")
    reported = summed_up(requests, outcomes, surplus)
    assert reported["answers_by_status"] == {"200": 6}
    assert (reported["unanswered"], reported["other_trees"], reported["surplus_bytes"]) == (0, 0, 0)
    assert sum(each.answer.came > mark for each in outcomes) > 1
