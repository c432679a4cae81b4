"""Watch the memory of a server for a long time, under a mix of all kinds of requests."""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from benchmarks.options import MODEL, ROWS_FILE, THREADS, TREEBANKS_FOLDER, command, count
from benchmarks.rows import model_fields, save_row
from benchmarks.server.clients import Outcome, Request, ServeProcess
from benchmarks.server.load import CLIENTS, under_load
from benchmarks.server.loads import LOADS, Asked, Load, OfflineParser, read_sentences

WARM_UP = 5  # minutes in which the memory may grow
MINUTE = 60.0  # seconds


@command(
    MODEL,
    count("--minutes", 30, "minutes under load"),
    count("--clients", CLIENTS, "number of simultaneous clients"),
    count("--sentences", 600, "number of sentences of en_ewt dev, evenly spread"),
    THREADS,
    TREEBANKS_FOLDER,
    ROWS_FILE,
)
def measure_soak(options: argparse.Namespace) -> None:
    """Watch the memory of a server under a mix of all kinds of requests; write one row.

    python -m benchmarks soak
    python -m benchmarks soak --minutes 7 --sentences 60 --rows scratch/rows.jsonl       # a trial run

    The memory is that of the server and its workers. Every answer is compared with the offline parser's trees.
    """
    sentences = read_sentences(options.treebanks, options.sentences)
    with OfflineParser(options.model, sentences, threads=options.threads) as offline:
        of_kinds = [offline.asked(load) for load in LOADS]
        config = {
            **model_fields(options.model),
            "settings": offline.settings,
            "file": "en_ewt dev",
            "sentences": len(sentences),
            "clients": options.clients,
            "minutes": options.minutes,
            "threads": options.threads,
            "packages": offline.packages,
        }
    asked, kinds = mixed(of_kinds, LOADS)
    with ServeProcess(["--model", options.model], threads=options.threads) as server:
        minutes = list(_minutes(server, asked, kinds, options))
    save_row("soak", config, summed_up(minutes), path=options.rows)


def mixed(of_kinds: Sequence[Asked], loads: Sequence[Load]) -> tuple[Asked, list[Load]]:
    """Return the requests of all kinds in turn, and the kind of each."""
    in_turn = [
        (load, request.data, expected)
        for requests in zip_longest(
            *(
                zip([load] * len(each.requests), each.requests, each.expected, strict=True)
                for load, each in zip(loads, of_kinds, strict=True)
            )
        )  # fmt: skip
        for load, request, expected in filter(None, requests)
    ]
    requests = tuple(Request(number, data) for number, (_, data, _) in enumerate(in_turn))
    return Asked(requests, tuple(expected for _, _, expected in in_turn)), [load for load, _, _ in in_turn]


def _minutes(
    server: ServeProcess, asked: Asked, kinds: Sequence[Load], options: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Yield the memory and the answers of each minute."""
    for number in range(options.minutes):
        watched = asyncio.run(under_load(server, asked, clients=options.clients, seconds=MINUTE))
        answers = [each.answer for each in watched.outcomes if each.answer is not None]
        yield {
            "memory": statistics.median(watched.memory),
            "requests": len(watched.outcomes),
            "seconds": watched.seconds,
            "statuses": Counter(str(each.status) for each in answers),
            "other_trees": sum(not _is_right(each, asked, kinds) for each in watched.outcomes),
        }
        print(f"minute {number + 1}: {statistics.median(watched.memory):.0f} MiB", file=sys.stderr, flush=True)


def _is_right(outcome: Outcome, asked: Asked, kinds: Sequence[Load]) -> bool:
    answer = outcome.answer
    if answer is None or answer.status != 200:
        return True  # counted by status
    return kinds[outcome.number].trees(answer.body) == asked.expected[outcome.number]


def summed_up(minutes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the memory of each minute, and its growth from the first minute after the warm-up to the last.

    >>> quiet = {"requests": 10, "seconds": 60.0, "statuses": Counter({"200": 10}), "other_trees": 0}
    >>> found = summed_up([{"memory": 100.0 + number, **quiet} for number in range(11)])
    >>> found["grown_mib"], found["grown_percent"], found["requests_per_second"]
    (5.0, 4.76, 0.2)
    """
    memory = [round(each["memory"], 1) for each in minutes]
    first, last = memory[min(WARM_UP, len(memory) - 1)], memory[-1]
    n_requests = sum(each["requests"] for each in minutes)
    return {
        "memory_mib": memory,
        "grown_mib": round(last - first, 1),
        "grown_percent": round(100 * (last / first - 1), 2),
        "requests": n_requests,
        "requests_per_second": round(n_requests / sum(each["seconds"] for each in minutes), 1),
        "answers_by_status": dict(sum((each["statuses"] for each in minutes), Counter[str]())),
        "other_trees": sum(each["other_trees"] for each in minutes),
    }
