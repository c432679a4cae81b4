"""From file to file on one machine: sentences a second, the passes they take, and how much of that time a GPU works.

python -m benchmarks files --device cuda --copies 40
python -m benchmarks files --device cuda --copies 40 --python supar=python3       and supar over the same encoder size

The words of en_ewt test, so many times over, are parsed by one process and its workers, refined
to convergence and stopping early. No score is looked at; trees are first compared with those of the plain path on
some of dev, and no time is told where they differ.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from benchmarks.model_rows import weights_checksum
from benchmarks.peer import Peer
from benchmarks.peers.answers import WORDS
from benchmarks.peers.treefine_parser import same_trees
from benchmarks.rows import ROWS, TREEBANKS, save_row
from benchmarks.speed import given_files
from benchmarks.speed_systems import STOP_ABOVE, SYSTEMS
from treefine import Parser, read_treebank
from treefine.fast.engine import Slot
from treefine.fast.file_workers import default_workers
from treefine.model.bundled import find_model

WAYS = {"to convergence": 1.0, f"stop above {STOP_ABOVE}": STOP_ABOVE}  # stop_above of each
PEER = "supar BERT 12 × 384, untrained, best heads"
REPLAYS = 30


def measure_files(arguments: Sequence[str]) -> None:
    """The command: a row, and one more with supar."""
    options = _options(arguments)
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        given, once = given_files(options, Path(scratch))
        source, target = Path(given["source"]), Path(scratch, "target.conllu")
        parsers = {
            name: Parser.from_pretrained(options.model, device=options.device, stop_above=stop_above)
            for name, stop_above in WAYS.items()
        }
        dev = list(read_treebank(given["dev"]))[: options.dev_sentences]
        for name, parser in parsers.items():
            result[name] = {"trees": same_trees(parser, dev)}
            with _noted() as slots:  # compiled and captured, and the file read from the disk
                parser.parse_file(source, target, workers=options.workers)
            result[name] |= _on_device(slots, given["n_sentences"])
        times: dict[str, list[float]] = {name: [] for name in WAYS}
        for _ in range(options.rounds):
            for name, parser in parsers.items():
                started = time.perf_counter()
                parser.parse_file(source, target, workers=options.workers)
                times[name].append(time.perf_counter() - started)
        for name, each in times.items():
            seconds = statistics.median(each)
            speeds = {f"{unit}_per_second": round(given[f"n_{unit}"] / seconds) for unit in ("sentences", "words")}
            result[name] |= {"seconds": round(seconds, 3), **speeds}
            if "device_seconds" in result[name]:
                result[name]["device_share"] = round(result[name]["device_seconds"] / seconds, 3)
        config = {
            "device": torch.cuda.get_device_name() if options.device == "cuda" else options.device,
            "model": Path(options.model).name,
            "weights": weights_checksum(find_model(options.model)),
            "settings": {name: [each.precision, each.stop_above] for name, each in parsers.items()},
            "file": "en_ewt test",
            "sentences": given["n_sentences"],
            "words": given["n_words"],
            "workers": default_workers() if options.workers is None else options.workers,
            "rounds": options.rounds,
            "torch": torch.__version__,
        }
        save_row("files", config, result, path=options.rows)
        if options.python:
            save_row("files", config, result | {PEER: _peer(options, once)}, path=options.rows)


@contextmanager
def _noted() -> Any:
    """The buffers that are sent, each with the number of its sentences."""
    slots: list[tuple[Slot, int]] = []
    start = Slot.start

    def noted(slot: Slot) -> None:
        slots.append((slot, len(slot.buffer.numbers)))
        start(slot)

    with mock.patch.object(Slot, "start", noted):
        yield slots


def _on_device(slots: Sequence[tuple[Slot, int]], n_sentences: int) -> dict[str, float]:
    """The passes of a sentence, and how long the device takes for all of them, and for their encoder alone."""
    if not slots:
        return {}
    whole = bare = 0.0
    for lane in {slot.lane for slot, _ in slots}:
        ours = [slot for slot, _ in slots if slot.lane is lane]
        packed = ours[0].buffer.inputs().packed
        encoder = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(encoder):
            lane.step.encoder(packed, lane.room)
        assert ours[0].graph is not None
        whole += len(ours) * _seconds(ours[0].graph)
        bare += len(ours) * _seconds(encoder)
    return {
        "passes_a_sentence": round(sum(count for _, count in slots) / n_sentences, 3),
        "buffers": len(slots),
        "device_seconds": round(whole, 3),
        "encoder_seconds": round(bare, 3),
    }


def _seconds(graph: torch.cuda.CUDAGraph) -> float:
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(REPLAYS):
        graph.replay()
    torch.cuda.synchronize()
    return (time.perf_counter() - started) / REPLAYS


def _peer(options: argparse.Namespace, once: dict[str, Any]) -> dict[str, float]:
    """How fast supar is over an encoder of the same size, from words to the best head of each."""
    system = next(each for each in SYSTEMS if each.name == PEER)
    python = dict(each.split("=", 1) for each in options.python)[system.package]
    peer = Peer(system.name, python, f"benchmarks.peers.{system.module}", threads=options.threads)
    try:
        peer.ask("build", once | dict(system.build))
        seconds = min(peer.ask("parse", {"way": WORDS})["seconds"] for _ in range(1 + options.rounds))
    finally:
        peer.close()
    return {"seconds": round(seconds, 3), "sentences_per_second": round(once["n_sentences"] / seconds)}


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks files", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="en", help="a bundled model's name, or a model folder; en")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--sentences", type=int, default=2077, help="of en_ewt test; 2077, which is all")
    parser.add_argument("--copies", type=int, default=1, help="of these sentences; 1")
    parser.add_argument("--dev-sentences", type=int, default=2002, help="on which trees are compared; 2002")
    parser.add_argument("--workers", type=int, help="processes that read and write; as many as there are cores for")
    parser.add_argument("--threads", type=int, default=2, help="of supar")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python", nargs="+", default=[], metavar="PACKAGE=PYTHON", help="supar's python")
    parser.add_argument("--folder", type=Path, help="for what is made on the way")
    parser.add_argument("--treebanks", type=Path, default=TREEBANKS)
    parser.add_argument("--batch-pieces", type=int, help="of the general path")
    parser.add_argument("--rows", type=Path, default=ROWS)
    return parser.parse_args(arguments)
