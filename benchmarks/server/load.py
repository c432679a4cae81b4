"""Measure a server under load, compared with parsing the same sentences from file to file."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from benchmarks.options import MODEL, ROWS_FILE, THREADS, TREEBANKS_FOLDER, command, count, option
from benchmarks.rows import english_path, model_fields, save_row
from benchmarks.server.clients import Answer, ServeProcess, ask_all, post
from treefine import Parser, Sentence, read_treebank, write_treebank
from treefine.treebank.raw_text import text_of

WARM_UP = 1 / 6  # duration of the warm-up, as a share of the measured time
SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "longest": 1.0}
KINDS = {  # kind of load: sentences per request, and the field of the JSON; /process has no JSON
    "a sentence": (1, "conllu"),
    "a sentence, /process": (1, ""),
    "ten sentences": (10, "conllu"),
    "ten sentences of text": (10, "text"),
}
Tree = list[tuple[str, str, str]]  # form, head and label of each word


@command(
    MODEL,
    option("--only", nargs="+", choices=KINDS, default=[*KINDS], help="kinds of load (default: all)"),
    count("--clients", 50, "number of simultaneous clients"),
    option("--seconds", type=float, default=60, help="seconds per kind of load (default: 60)"),
    count("--sentences", 2002, "number of sentences of en_ewt dev, from the first"),
    THREADS,
    TREEBANKS_FOLDER,
    ROWS_FILE,
)
def measure_load(options: argparse.Namespace) -> None:
    """Measure a server under every kind of load; write one row.

    python -m benchmarks load
    python -m benchmarks load --seconds 5 --sentences 200 --rows scratch/rows.jsonl      # a trial run

    The clients share the machine with the server; their CPU use is reported. They repeat the sentences of en_ewt dev
    until the time is over. Every answer is compared with the trees of a parser in this process, which also measures
    the speed from file to file before the server starts.
    """
    import torch

    torch.set_num_threads(options.threads)
    parser = Parser.from_pretrained(options.model, device="cpu")
    sentences = list(read_treebank(english_path(options.treebanks, "dev")))[: options.sentences]
    loads = {name: requests_of(parser, sentences, *KINDS[name]) for name in options.only}
    result: dict[str, Any] = {"file to file": {"sentences_per_second": offline_speed(parser, sentences)}}
    with ServeProcess(["--model", options.model, "--device", "cpu"], threads=options.threads) as server:
        for name, (requests, expected) in loads.items():
            print(name, file=sys.stderr, flush=True)
            result[name] = measured(server, requests, expected, options.clients, options.seconds)
    config = {
        **model_fields(options.model),
        "precision": parser.precision,
        "T": parser.max_steps,
        "file": "en_ewt dev",
        "sentences": len(sentences),
        "clients": options.clients,
        "seconds": options.seconds,
        "threads": options.threads,
    }
    save_row("load", config, result, path=options.rows)


def requests_of(
    parser: Parser, sentences: Sequence[Sentence], size: int, field: str
) -> tuple[list[bytes], list[list[Tree]]]:
    """Return the requests of one kind of load, and the trees that each answer must have."""
    requests, expected = [], []
    for start in range(0, len(sentences), size):
        some = sentences[start : start + size]
        source = text_of(some) if field == "text" else "".join(each.to_conllu() for each in some)
        if field:
            requests.append(post("/v1/parse", json.dumps({field: source, "format": "conllu"}).encode()))
        else:
            form = {"data": source, "input": "conllu", "tagger": "", "parser": "", "output": "conllu"}
            requests.append(post("/process", urlencode(form).encode(), kind="application/x-www-form-urlencoded"))
        given = [each.sentence for each in parser.segment([source])] if field == "text" else some
        expected.append(trees_in("".join(each.to_conllu() for each in parser.stream_trees(given))))
    return requests, expected


def trees_in(conllu: str) -> list[Tree]:
    r"""Return the trees in CoNLL-U.

    >>> trees_in("1\tGo\t_\t_\t_\t_\t0\troot\t_\t_\n\n")
    [[('Go', '0', 'root')]]
    """
    blocks = [[line.split("\t") for line in block.split("\n")] for block in conllu.split("\n\n")]
    trees = [[(row[1], row[6], row[7]) for row in rows if row[0].isdigit()] for rows in blocks]
    return [tree for tree in trees if tree]


def offline_speed(parser: Parser, sentences: Sequence[Sentence]) -> float:
    """Return the sentences per second from file to file; the first run is a warm-up."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "source.conllu"), Path(folder, "target.conllu")
        write_treebank(sentences, source)
        for _ in range(2):
            started = time.perf_counter()
            parser.parse_file(source, target)
            seconds = time.perf_counter() - started
    return round(len(sentences) / seconds, 1)


def measured(
    server: ServeProcess, requests: Sequence[bytes], expected: Sequence[list[Tree]], clients: int, seconds: float
) -> dict[str, Any]:
    """Return speed, latency, errors, memory and CPU use of one kind of load."""
    asyncio.run(ask_all(server.port, until(requests, WARM_UP * seconds), clients=clients))
    mark, memory = (time.perf_counter(), time.process_time(), server.processor_seconds()), server.memory()
    answers = asyncio.run(ask_all(server.port, until(requests, seconds), clients=clients))
    took = time.perf_counter() - mark[0]
    right = [each for each in answers if each.status == 200]
    latencies = sorted(each.seconds for each in right)
    n_sentences = sum(len(expected[each.number]) for each in right)
    return {
        "requests": len(answers),
        "sentences": n_sentences,
        "seconds": round(took, 2),
        "sentences_per_second": round(n_sentences / took, 1),
        "latency_milliseconds": {name: percentile(latencies, share) for name, share in SHARES.items()},
        "mean_milliseconds": round(1000 * statistics.mean(latencies), 1) if latencies else None,
        "answers_by_status": dict(Counter(str(each.status) for each in answers)),
        "other_trees": sum(_trees_of(each) != expected[each.number] for each in right),
        "memory_mib": {"before": round(memory), "after": round(server.memory())},
        "processor_share": {
            "clients": round((time.process_time() - mark[1]) / took, 3),
            "server": round((server.processor_seconds() - mark[2]) / took, 3),
        },
        "cores": os.cpu_count(),
    }


def until(requests: Sequence[bytes], seconds: float) -> Iterator[tuple[int, bytes]]:
    """Yield the requests with their numbers, again and again until the time is over, but each once at least."""
    end = time.perf_counter() + seconds
    for number, request in enumerate(cycle(requests)):
        if number >= len(requests) and time.perf_counter() > end:
            return
        yield number % len(requests), request


def percentile(ranked: Sequence[float], share: float) -> float:
    """Return the smallest of the seconds that this share of them does not exceed, in milliseconds.

    >>> percentile([0.001, 0.002, 0.003, 0.004], 0.5), percentile([0.007], 0.99), percentile([], 0.5)
    (2.0, 7.0, 0.0)
    """
    place = -(-len(ranked) * round(share * 1000) // 1000)  # rounded up
    return round(1000 * ranked[max(place, 1) - 1], 1) if ranked else 0.0


def _trees_of(answer: Answer) -> list[Tree]:
    body = answer.body.decode()
    return trees_in(json.loads(body)["result"] if body.startswith("{") else body)
