"""treefine as a peer process: the bundled model with a given precision and number of steps."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch._C._autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from benchmarks.peers.answers import FILE, WORDS, Built, Way, answer, heads_in_file
from treefine import Parser, Sentence, TreefineError, evaluate, read_treebank, write_treebank
from treefine.config import BATCH_PIECES, Precision
from treefine.parsing.batches import run
from treefine.parsing.plan import ParseInput, Plan, refine_inputs
from treefine.parsing.results import trees

TOP = 8  # kernels or operations in a profile
NAME = 60  # maximal length of a name
MOST_LAS = 0.1  # the LAS of a fast path may differ by this from the reference implementation's, in points …
MOST_TREES = {"float32": 0.0, "float16": 2.0, "bfloat16": 2.0, "int8": 5.0}  # … and this many percent of its trees


def build(
    source: str,
    model: str,
    device: str,
    dev: str,
    dev_sentences: int,
    copies: int = 1,
    precision: Precision | None = None,
    max_steps: int | None = None,
    stop_above: float | None = None,
    batch_pieces: int | None = None,
    **_: Any,
) -> Built:
    """Build the parser; precision and T default to the model's. The source repeats its sentences `copies` times."""
    pieces = batch_pieces or BATCH_PIECES
    parser = Parser.from_pretrained(
        model, device=device, precision=precision, max_steps=max_steps, stop_above=stop_above, batch_pieces=pieces
    )
    sentences = list(read_treebank(source))
    output = Path(tempfile.mkdtemp(), "parsed.conllu")

    def parse_file() -> Path:
        parser.parse_file(source, output)
        return output

    def parse() -> list[Sentence]:
        return list(parser.stream_trees(sentences))

    more: dict[str, Callable[..., Any]] = {
        "settings": lambda: {
            "precision": parser.precision,
            "T": parser.max_steps,
            "stop_above": parser.stop_above,
            "tags": parser.tags,
        },
        "check": lambda: same_trees(parser, list(islice(read_treebank(dev), dev_sentences))),
        "passes": lambda: passes(parser, sentences[: len(sentences) // copies]) * copies,
        "profile": lambda: around(parser, source) | profiled(parse_file, parser.device),
    }
    ways = {
        WORDS: Way(parse, lambda parsed: [each.heads for each in parsed]),
        FILE: Way(parse_file, heads_in_file),
    }
    return Built(ways, sum(each.numel() for each in parser.model.parameters()), more=more)


def same_trees(parser: Parser, gold: Sequence[Sentence]) -> dict[str, float]:
    """Compare the trees with those of the reference implementation in float32; raise an error if they differ too much.

    Both use the same options: `stopping` measures the effect of early stopping.
    """
    plain = parser.using(precision="float32").plan()
    expected = [sentence.with_graph(parsed.graph) for sentence, parsed in run(plain, gold, trees)]
    found = list(parser.stream_trees(gold))
    las = [100 * evaluate(gold, each)["LAS"].f1 for each in (expected, found)]
    others = sum(a.graph != b.graph for a, b in zip(expected, found, strict=True))
    result = {
        "sentences": len(gold),
        "LAS, plain": round(las[0], 3),
        "LAS": round(las[1], 3),
        "other trees, percent": round(100 * others / len(gold), 2),
    }
    if abs(las[0] - las[1]) > MOST_LAS or result["other trees, percent"] > MOST_TREES[parser.precision]:
        raise TreefineError(
            f"The trees of the fast path differ from the reference implementation's: {result}. No time is printed."
        )
    return result


def passes(parser: Parser, sentences: Sequence[Sentence]) -> list[int]:
    """Return how often each sentence is scored."""

    @torch.no_grad()
    def work(plan: Plan, items: Sequence[ParseInput]) -> list[int]:
        found = [0] * len(items)
        for step in refine_inputs(plan, items, wants_trees=False):
            for number in step.sentences:
                found[number] += 1
        return found

    return [count for _, count in run(parser.plan(), sentences, work)]


def around(parser: Parser, source: str) -> dict[str, float]:
    """Return the seconds of each part outside the network, measured separately in one process."""
    seconds = {}
    started = time.perf_counter()

    def lap(name: str) -> None:
        nonlocal started
        seconds[f"{name}, alone_seconds"] = round(time.perf_counter() - started, 4)
        started = time.perf_counter()

    sentences = list(read_treebank(source))
    lap("reading")
    subwords = parser.model.subwords
    if subwords is not None:
        for sentence in sentences:
            subwords.pieces_of(sentence.forms)
        lap("tokenising")
    with tempfile.TemporaryDirectory() as folder:
        write_treebank(sentences, Path(folder, "written.conllu"))
    lap("writing")
    return seconds


def profiled(work: Callable[[], object], device: torch.device) -> dict[str, Any]:
    """Profile one run; return its seconds, the share in which the device is busy, and the costliest operations."""
    work()  # a warm-up: compiling and recording happen once
    kind = ProfilerActivity.CUDA if device.type == "cuda" else ProfilerActivity.CPU
    started = time.perf_counter()
    with profile(activities=[kind], acc_events=True) as found:
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds = time.perf_counter() - started
    if device.type == "cuda":
        events = [each for each in found.events() or () if each.device_type == DeviceType.CUDA]
        spans = [(each.time_range.start, each.time_range.end) for each in events]
        busy = covered(spans) / 1e6
        times: Counter[str] = Counter()
        for each in events:
            times[each.name[:NAME]] += each.time_range.elapsed_us()
    else:
        times = Counter({each.key[:NAME]: each.self_cpu_time_total for each in found.key_averages()})
        busy = sum(times.values()) / 1e6  # in torch operations of one thread
    top = {name: round(us / 1e6, 4) for name, us in times.most_common(TOP)}
    return {
        "profiled_seconds": round(seconds, 3),
        "busy_seconds": round(busy, 3),
        "busy_share": round(busy / seconds, 3),
        "top_seconds": top,
    }


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """Return the total length covered by spans that may overlap.

    >>> covered([(0, 2), (1, 3), (5, 6)])
    4.0
    """
    total, end = 0.0, float("-inf")
    for start, stop in sorted(spans):
        if stop > end:
            total += stop - max(start, end)
            end = stop
    return total


if __name__ == "__main__":
    answer(build, ("torch", "numpy"))
