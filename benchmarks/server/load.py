"""How a server does under load, beside `treefine parse` on the same sentences, and whether its memory grows."""

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
WARM_UP = 1 / 6  # of the seconds, with the same load, before anything is measured
BUSY = re.compile(r"^treefine_round_seconds_sum\{[^}]*\} (\S+)$", re.MULTILINE)
ROUND = re.compile(r'^treefine_round_sentences_bucket\{le="([^"]+)",model="[^"]*"\} (\S+)$', re.MULTILINE)


@dataclass(frozen=True)
class Watched:
    """What became of all requests of a load, and what it took."""

    outcomes: list[Outcome]
    surplus: int  # bytes that no client had asked for
    seconds: float
    memory: list[float]  # MiB that the server held, second by second
    client_seconds: float  # of the processor …
    server_seconds: float


@command(
    MODEL,
    option("--loads", default="", help="only the kinds of load with this in their name"),
    count("--clients", CLIENTS, "at the same time"),
    option("--seconds", type=float, default=60, help="of each kind of load (default: 60)"),
    count("--sentences", 2002, "of en_ewt dev, evenly spread; it has no more"),
    THREADS,
    TREEBANKS_FOLDER,
    ROWS_FILE,
)
def measure_load(options: argparse.Namespace) -> None:
    """Measure a server under every kind of load: one row.

    python -m benchmarks load
    python -m benchmarks load --seconds 5 --sentences 200 --rows scratch/rows.jsonl      to try it

    `treefine serve` and the offline parser are processes of their own and work in turn: offline, served, offline again.
    The clients share the machine with the server; how much of it they take is reported. They go through the sentences
    of en_ewt dev again and again, and end with a whole round. Every answer is compared with the offline parser's
    trees; no score is looked at.
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
    """One kind of load: the offline parser before and after it, and all that is told of it."""
    asked = offline.asked(load)
    before = offline.run(load.offline)
    asyncio.run(under_load(server, asked, clients=options.clients, seconds=WARM_UP * options.seconds))
    earlier = server.get("/metrics")[1]
    watched = asyncio.run(under_load(server, asked, clients=options.clients, seconds=options.seconds))
    later = server.get("/metrics")[1]
    rounds = round_sizes(earlier, later) | {"share_of_time": round(busy_seconds(earlier, later) / watched.seconds, 3)}
    after = offline.run(load.offline)
    return told(asked, load, watched) | beside_offline(asked, watched, [before, after]) | {"rounds": rounds}


async def under_load(server: ServeProcess, asked: Asked, *, clients: int, seconds: float) -> Watched:
    """Ask about all sentences, again and again, for so long, and then to the end of the list."""
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
    """The requests, from the first again if there is time."""
    while True:
        yield from requests
        if time.perf_counter() >= until:
            return


def told(asked: Asked, load: Load, watched: Watched) -> dict[str, Any]:
    """Speed, latency, what was not as it should be, memory, and who used the processor."""
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
    """The trees that were asked for and came: those of a request with another answer than 200 do not count."""
    answered = [each.number for each in watched.outcomes if each.answer is not None and each.answer.status == 200]
    return [tree for number in answered for tree in asked.expected[number]]


SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "longest": 1.0}


def milliseconds(latencies: Sequence[float], share: float) -> float:
    """That percentile of some seconds; 0 where there are none."""
    return round(1000 * percentile(latencies, share), 1) if latencies else 0.0


def percentile(values: Sequence[float], share: float) -> float:
    """The least of the values that so many of them do not pass.

    >>> percentile([3, 1, 2, 4], 0.5), percentile([3, 1, 2, 4], 0.51), percentile([7], 0.99)
    (2, 3, 7)
    """
    ranked = sorted(values)
    place = -(-len(ranked) * round(share * 1000) // 1000)  # rounded up
    return ranked[max(place, 1) - 1]


def wrong_answers(asked: Asked, load: Load, outcomes: Sequence[Outcome]) -> int:
    """How many of the answers with a 200 do not hold the words and trees that their own request asked for."""
    answered = [each for each in outcomes if each.answer is not None and each.answer.status == 200]
    return sum(load.trees(each.answer.body) != asked.expected[each.number] for each in answered if each.answer)


def growth(memory: Sequence[float]) -> dict[str, float]:
    """How much more memory the server held in the last fifth of the time than in the first: the medians of both.

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


def beside_offline(asked: Asked, watched: Watched, rates: Sequence[float]) -> dict[str, float]:
    """The speed of the offline parser, before and after, and the server's as a share of it."""
    served, offline = len(served_trees(asked, watched)) / watched.seconds, statistics.mean(rates)
    return {"offline_sentences_per_second": round(offline, 1), "of_offline": round(served / offline, 3)}


def round_sizes(earlier: str, later: str) -> dict[str, Any]:
    """How many sentences the server parsed together, from what its metrics counted before and after.

    >>> metric = 'treefine_round_sentences_bucket{le="%s",model="en"} %s'
    >>> round_sizes("", chr(10).join([metric % ("8.0", 1), metric % ("16.0", 3), metric % ("+Inf", 4)]))
    {'rounds': 4, 'at_most': {'8.0': 1, '16.0': 2, '+Inf': 1}}
    """
    old = {limit: float(count) for limit, count in ROUND.findall(earlier)}
    sums = {limit: int(float(count) - old.get(limit, 0)) for limit, count in ROUND.findall(later)}
    counts = list(sums.values())
    own = {limit: count - below for limit, count, below in zip(sums, counts, [0, *counts], strict=False)}
    return {"rounds": counts[-1] if counts else 0, "at_most": {limit: count for limit, count in own.items() if count}}


def busy_seconds(earlier: str, later: str) -> float:
    """How long the server parsed in the meantime: what is missing to the whole time, its model had nothing to do.

    >>> metric = 'treefine_round_seconds_sum{model="en"} %s'
    >>> busy_seconds(metric % 1.5, metric % 4.0)
    2.5
    """
    return sum(map(float, BUSY.findall(later))) - sum(map(float, BUSY.findall(earlier)))
