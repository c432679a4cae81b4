"""Measure what clients see of a server that is overloaded, killed, stopped, or has misbehaving clients."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from typing import Any

from benchmarks.options import MODEL, ROWS_FILE, THREADS, TREEBANKS_FOLDER, command, count
from benchmarks.rows import model_fields, save_row
from benchmarks.server.clients import Connection, Outcome, Refusal, Request, ServeProcess, ask_all, post
from benchmarks.server.load import CLIENTS, SHARES, milliseconds, under_load, wrong_answers
from benchmarks.server.loads import LOADS, Asked, Load, OfflineParser, read_sentences

LOAD = LOADS[1]  # one sentence per request
PAUSE = 0.03  # seconds between two bad requests of a client
SECONDS = 3.0  # before each stop
UNDER_WAY = 0.05  # seconds after which the server has received a request
BAD = {  # requests that are answered with an error, by status
    400: post("/v1/parse", b'{"conllu": "1\\tGo\\n\\n"}'),
    404: post("/v1/parse", b'{"model": "../../etc", "text": "Go."}'),
    413: post("/v1/parse", b'{"text": "' + b"go " * 350_000 + b'"}'),
    422: post("/v1/parse", b'{"text": 1'),
}


@command(
    MODEL,
    count("--clients", CLIENTS, "number of simultaneous clients"),
    count("--too-many", 600, "number of clients in the overload"),
    count("--stops", 3, "how often the server is stopped and restarted"),
    count("--sentences", 1000, "number of sentences of en_ewt dev, evenly spread"),
    THREADS,
    TREEBANKS_FOLDER,
    ROWS_FILE,
)
def measure_outages(options: argparse.Namespace) -> None:
    """Measure what clients see of a server in trouble; write one row.

    python -m benchmarks outages
    python -m benchmarks outages --sentences 200 --stops 1 --rows scratch/rows.jsonl     # a trial run

    Clients that may retry do so after a connection error and after a 503, when the server says. Every request must get
    its own answer, with the trees of the offline parser.
    """
    sentences = read_sentences(options.treebanks, options.sentences)
    with (
        OfflineParser(options.model, sentences, threads=options.threads) as offline,
        ServeProcess(["--model", options.model], threads=options.threads) as server,
    ):
        asked, clients, pauses = offline.asked(LOAD), options.clients, [SECONDS] * options.stops
        result = {
            "overload": asyncio.run(overloaded(server, asked, clients=clients, too_many=options.too_many)),
            "bad neighbours": asyncio.run(among_bad(server, asked, clients=clients)),
            "kill -9": asyncio.run(stopped(server, asked, clients=clients, pauses=pauses, is_killed=True)),
            "SIGTERM": asyncio.run(stopped(server, asked, clients=clients, pauses=pauses, is_killed=False)),
        }
        config = {
            **model_fields(options.model),
            "settings": offline.settings,
            "file": "en_ewt dev",
            "sentences": len(sentences),
            "clients": clients,
            "too_many": options.too_many,
            "threads": options.threads,
            "packages": offline.packages,
        }
    save_row("outages", config, result, path=options.rows)


async def overloaded(server: ServeProcess, asked: Asked, *, clients: int, too_many: int) -> dict[str, Any]:
    """Run far more clients than the queue has room for, and measure the server before and afterwards."""
    before = await under_load(server, asked, clients=clients, seconds=0)
    memory = server.memory()
    requests = islice(cycle(asked.requests), max(len(asked.requests), 2 * too_many))
    started = time.perf_counter()
    outcomes, surplus = await ask_all(server.port, requests, clients=too_many, retries=True)
    seconds = time.perf_counter() - started
    after = await under_load(server, asked, clients=clients, seconds=0)
    refused = [each for outcome in outcomes for each in outcome.refusals]
    return {
        "clients": too_many,
        **summed_up(asked, outcomes, surplus),
        "without_retry_after": sum(each.reason == "503" and not each.retry_after for each in refused),
        "sentences_per_second": round(len(outcomes) / seconds, 1),
        "sentences_per_second_before": round(len(asked.requests) / before.seconds, 1),
        "sentences_per_second_after": round(len(asked.requests) / after.seconds, 1),
        "memory_mib_before": round(memory, 1),
        "memory_mib_after": round(server.memory(), 1),
    }


async def among_bad(server: ServeProcess, asked: Asked, *, clients: int) -> dict[str, Any]:
    """Send good requests while other clients send bad ones or close the connection before the answer."""
    is_over = False
    bad: Counter[str] = Counter()

    async def nuisance(status: int, data: bytes) -> None:
        while not is_over:
            outcomes, _ = await ask_all(server.port, iter([Request(0, data)]), clients=1)
            answer = outcomes[0].answer
            bad[f"{status}: {'no answer' if answer is None else answer.status}"] += 1
            await asyncio.sleep(PAUSE)

    async def hangs_up() -> None:
        for request in asked.requests:
            connection = await Connection.to(server.port)
            waiting = asyncio.create_task(connection.ask(request.data))
            await asyncio.sleep(PAUSE)
            connection.close()
            await asyncio.gather(waiting, return_exceptions=True)
            bad["hung up"] += 1

    others = [asyncio.create_task(nuisance(*each)) for each in BAD.items()] + [asyncio.create_task(hangs_up())]
    outcomes, surplus = await ask_all(server.port, iter(asked.requests), clients=clients)
    is_over = True
    await asyncio.gather(*others)
    return summed_up(asked, outcomes, surplus) | {"bad": dict(sorted(bad.items()))}


async def stopped(
    server: ServeProcess, asked: Asked, *, clients: int, pauses: Sequence[float], is_killed: bool
) -> dict[str, Any]:
    """Stop and restart the server under load, after each pause; clients retry until each has its answers."""
    marks: list[float] = []  # when it was stopped
    codes: list[int] = []
    starts: list[float] = []
    is_over = False

    def ended() -> None:
        marks.append(time.perf_counter())
        if is_killed:
            server.kill()
        else:
            server.terminate()
        codes.append(server.wait())
        starts.append(server.start())

    def requests() -> Iterator[Request]:
        while not is_over:  # until the last restart, then each request once more
            yield from asked.requests
        yield from asked.requests

    async def operator() -> None:
        nonlocal is_over
        for seconds in pauses:
            await asyncio.sleep(seconds)
            await asyncio.to_thread(ended)
        is_over = True

    (outcomes, surplus), _ = await asyncio.gather(
        ask_all(server.port, requests(), clients=clients, retries=True), operator()
    )
    refusals = [each for outcome in outcomes for each in outcome.refusals]
    return {
        "stops": len(pauses),
        **summed_up(asked, outcomes, surplus),
        "lost_under_way": sum(was_under_way(each, mark) for each in refusals for mark in marks),
        "exit_codes": codes,
        "seconds_to_start": [round(each, 1) for each in starts],
    }


def was_under_way(refusal: Refusal, mark: float) -> bool:
    """Return whether the server had received the request when it was stopped, and the request failed afterwards.

    >>> was_under_way(Refusal("503", 1.0, 3.0), mark=2.0), was_under_way(Refusal("503", 1.99, 3.0), mark=2.0)
    (True, False)
    """
    return refusal.sent < mark - UNDER_WAY and mark <= refusal.came


def summed_up(asked: Asked, outcomes: Sequence[Outcome], surplus: int, load: Load = LOAD) -> dict[str, Any]:
    """Return the numbers of requests, missing and wrong answers and retries, and the latencies."""
    answers = [each.answer for each in outcomes if each.answer is not None]
    latencies = [each.seconds for each in answers if each.status == 200]
    return {
        "requests": len(outcomes),
        "unanswered": len(outcomes) - len(answers),
        "answers_by_status": dict(Counter(str(each.status) for each in answers)),
        "refusals": dict(Counter(each.reason for outcome in outcomes for each in outcome.refusals)),
        "other_trees": wrong_answers(asked, load, outcomes),
        "surplus_bytes": surplus,
        "latency_milliseconds": {name: milliseconds(latencies, share) for name, share in SHARES.items()},
    }
