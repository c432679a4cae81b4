"""Measure a server under load, compared with `treefine parse` on the same sentences, and its memory growth."""

from __future__ import annotations

import argparse
import asyncio
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.options import MODEL, ROWS_FILE, THREADS, TREEBANKS_FOLDER, command, count, option
from benchmarks.rows import model_fields, save_row
from benchmarks.server.clients import Outcome, Request, ServeProcess, ask_all
from benchmarks.server.loads import LOADS, Asked, Load, OfflineParser, Tree, read_sentences

CLIENTS = 50
WARM_UP = 1 / 6  # duration of the warm-up, as a share of the measured time
BUSY = re.compile(r"^treefine_batch_seconds_sum\{[^}]*\} (\S+)$", re.MULTILINE)
ROUND = re.compile(r'^treefine_batch_sentences_bucket\{le="([^"]+)",model="[^"]*"\} (\S+)$', re.MULTILINE)


@dataclass(frozen=True)
class Watched:
    """The outcomes of all requests of a load, with time, memory and CPU use."""

    outcomes: list[Outcome]
    surplus: int  # bytes received without a request
    seconds: float
    memory: list[float]  # MiB of the server, second by second
    client_seconds: float  # CPU seconds
    server_seconds: float


@command(
    MODEL,
    option("--loads", default="", help="measure only kinds of load whose name contains this"),
    count("--clients", CLIENTS, "number of simultaneous clients"),
    option("--seconds", type=float, default=60, help="seconds per kind of load (default: 60)"),
    count("--sentences", 2002, "number of sentences of en_ewt dev, evenly spread"),
    THREADS,
    TREEBANKS_FOLDER,
    ROWS_FILE,
)
def measure_load(options: argparse.Namespace) -> None:
    """Measure a server under every kind of load; write one row.

    python -m benchmarks load
    python -m benchmarks load --clients 16
    python -m benchmarks load --seconds 5 --sentences 200 --rows scratch/rows.jsonl      # a trial run

    `treefine serve` and the offline parser run in separate processes and take turns: offline, served, offline again.
    The clients share the machine with the server; their CPU use is reported. They repeat the sentences of en_ewt dev
    until the time is over, and finish the last round. Every answer is compared with the offline parser's trees.
    """
    sentences = read_sentences(options.treebanks, options.sentences)
    result = {}
    with (
        OfflineParser(options.model, sentences, threads=options.threads) as offline,
        ServeProcess(["--model", options.model], threads=options.threads) as server,
    ):
        for load in LOADS:
            if options.loads in load.name:
                print(load.name, file=sys.stderr, flush=True)
                result[load.name] = _measured(load, offline, server, options)
        config = {
            **model_fields(options.model),
            "settings": offline.settings,
            "file": "en_ewt dev",
            "sentences": len(sentences),
            "clients": options.clients,
            "seconds": options.seconds,
            "threads": options.threads,
            "packages": offline.packages,
        }
    save_row("load", config, result, path=options.rows)


def _measured(load: Load, offline: OfflineParser, server: ServeProcess, options: argparse.Namespace) -> dict[str, Any]:
    """Measure one kind of load, with the offline parser before and after it."""
    asked = offline.asked(load)
    before = offline.run(load.offline)
    asyncio.run(under_load(server, asked, clients=options.clients, seconds=WARM_UP * options.seconds))
    earlier = server.get("/metrics")[1]
    watched = asyncio.run(under_load(server, asked, clients=options.clients, seconds=options.seconds))
    later = server.get("/metrics")[1]
    rounds = round_sizes(earlier, later) | {"share_of_time": round(busy_seconds(earlier, later) / watched.seconds, 3)}
    after = offline.run(load.offline)
    return (
        load_result(asked, load, watched) | compared_with_offline(asked, watched, [before, after]) | {"rounds": rounds}
    )


async def under_load(server: ServeProcess, asked: Asked, *, clients: int, seconds: float) -> Watched:
    """Repeat all requests for this many seconds, and finish the last round."""
    memory: list[float] = []

    async def watch() -> None:
        while True:
            memory.append(server.memory())
            await asyncio.sleep(1)

    watcher = asyncio.create_task(watch())
    started, ours, theirs = time.perf_counter(), time.process_time(), server.processor_seconds()
    outcomes, surplus = await ask_all(server.port, _again(asked.requests, started + seconds), clients=clients)
    taken = time.perf_counter() - started
    watcher.cancel()
    used = (time.process_time() - ours, server.processor_seconds() - theirs)
    return Watched(outcomes, surplus, taken, memory, *used)


def _again(requests: Sequence[Request], until: float) -> Iterator[Request]:
    """Yield all requests, and repeat them until the time is over."""
    while True:
        yield from requests
        if time.perf_counter() >= until:
            return


def load_result(asked: Asked, load: Load, watched: Watched) -> dict[str, Any]:
    """Return speed, latency, errors, memory and CPU use."""
    answers = [each.answer for each in watched.outcomes if each.answer is not None]
    latencies = [each.seconds for each in answers if each.status == 200]
    trees = served_trees(asked, watched)
    return {
        "requests": len(watched.outcomes),
        "sentences": len(trees),
        "seconds": round(watched.seconds, 2),
        "sentences_per_second": round(len(trees) / watched.seconds, 1),
        "words_per_second": round(sum(map(len, trees)) / watched.seconds),
        "latency_milliseconds": {name: milliseconds(latencies, share) for name, share in SHARES.items()},
        "answers_by_status": dict(Counter(str(each.status) for each in answers)),
        "refusals": dict(Counter(each.reason for outcome in watched.outcomes for each in outcome.refusals)),
        "other_trees": wrong_answers(asked, load, watched.outcomes),
        "surplus_bytes": watched.surplus,
        "memory": growth(watched.memory),
        "processor_share": {
            "clients": round(watched.client_seconds / watched.seconds, 3),
            "server": round(watched.server_seconds / watched.seconds, 3),
        },
    }


def served_trees(asked: Asked, watched: Watched) -> list[Tree]:
    """Return the trees of all requests that were answered with 200."""
    answered = [each.number for each in watched.outcomes if each.answer is not None and each.answer.status == 200]
    return [tree for number in answered for tree in asked.expected[number]]


SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "longest": 1.0}


def milliseconds(latencies: Sequence[float], share: float) -> float:
    """Return a percentile of latencies in milliseconds, or 0 without latencies."""
    return round(1000 * percentile(latencies, share), 1) if latencies else 0.0


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the values does not exceed.

    >>> percentile([3, 1, 2, 4], 0.5), percentile([3, 1, 2, 4], 0.51), percentile([7], 0.99)
    (2, 3, 7)
    """
    ranked = sorted(values)
    place = -(-len(ranked) * round(share * 1000) // 1000)  # rounded up
    return ranked[max(place, 1) - 1]


def wrong_answers(asked: Asked, load: Load, outcomes: Sequence[Outcome]) -> int:
    """Count the answers with status 200 whose words or trees differ from the expected ones."""
    answered = [each for each in outcomes if each.answer is not None and each.answer.status == 200]
    return sum(load.trees(each.answer.body) != asked.expected[each.number] for each in answered if each.answer)


def growth(memory: Sequence[float]) -> dict[str, float]:
    """Return how much the memory grew from the first fifth of the time to the last, by their medians.

    >>> growth([100, 101, 100, 101, 103, 103, 103, 103, 102, 102])["grown_percent"]
    1.49
    """
    fifth = max(1, len(memory) // 5)
    first, last = statistics.median(memory[:fifth]), statistics.median(memory[-fifth:])
    per_second = statistics.linear_regression(range(len(memory)), memory).slope if len(memory) > 1 else 0.0
    return {
        "first_mib": round(first, 1),
        "last_mib": round(last, 1),
        "grown_mib": round(last - first, 1),
        "grown_percent": round(100 * (last / first - 1), 2),
        "slope_mib_per_minute": round(60 * per_second, 2),
    }


def compared_with_offline(asked: Asked, watched: Watched, rates: Sequence[float]) -> dict[str, float]:
    """Return the mean speed of the offline parser, and the server's speed as a share of it."""
    served, offline = len(served_trees(asked, watched)) / watched.seconds, statistics.mean(rates)
    return {"offline_sentences_per_second": round(offline, 1), "of_offline": round(served / offline, 3)}


def round_sizes(earlier: str, later: str) -> dict[str, Any]:
    """Return how many sentences the server parsed together, from its metrics before and after.

    >>> metric = 'treefine_batch_sentences_bucket{le="%s",model="en"} %s'
    >>> round_sizes("", chr(10).join([metric % ("8.0", 1), metric % ("16.0", 3), metric % ("+Inf", 4)]))
    {'rounds': 4, 'at_most': {'8.0': 1, '16.0': 2, '+Inf': 1}}
    """
    old = {limit: float(count) for limit, count in ROUND.findall(earlier)}
    sums = {limit: int(float(count) - old.get(limit, 0)) for limit, count in ROUND.findall(later)}
    counts = list(sums.values())
    own = {limit: count - below for limit, count, below in zip(sums, counts, [0, *counts], strict=False)}
    return {"rounds": counts[-1] if counts else 0, "at_most": {limit: count for limit, count in own.items() if count}}


def busy_seconds(earlier: str, later: str) -> float:
    """Return the seconds in which the server parsed, from its metrics before and after.

    >>> metric = 'treefine_batch_seconds_sum{model="en"} %s'
    >>> busy_seconds(metric % 1.5, metric % 4.0)
    2.5
    """
    return sum(map(float, BUSY.findall(later))) - sum(map(float, BUSY.findall(earlier)))
