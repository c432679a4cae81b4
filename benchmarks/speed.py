"""How fast treefine parses en_ewt test beside other parsers and bare encoders: the same words, in turn, in one run.

python -m benchmarks speed --python spacy=a/bin/python stanza=b/bin/python supar=c/bin/python ufal.udpipe=a/bin/python
python -m benchmarks speed --device cuda --copies 40 --sentences 2077

Each system is a process of its own (see `peers`) that works only while it is asked. A package for which no Python is
named is left out. Models that learn something are kept in --folder. No score of the test set is looked at; trees of
treefine's fast paths are first compared with those of its plain path on dev, and no time is told where they differ.
"""

from __future__ import annotations

import argparse
import lzma
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.model_rows import weights_checksum
from benchmarks.peer import Peer
from benchmarks.peers.answers import ALL_PASSES, FILE, ONE_PASS, WORDS
from benchmarks.rows import ROWS, TREEBANKS, save_row
from benchmarks.speed_page import parsers_of
from benchmarks.speed_rows import newest
from benchmarks.speed_systems import ENCODER, OURS, SYSTEMS, System
from treefine import TreefineError
from treefine.model.bundled import find_model

BASE = SYSTEMS[0]  # what others are compared with
BESIDE = {WORDS: WORDS, FILE: FILE, ONE_PASS: FILE, ALL_PASSES: FILE}  # with which way of ours each way is compared
HIDDEN = (6, 7, 8)  # HEAD, DEPREL and DEPS


def measure_speed(arguments: Sequence[str]) -> None:
    """The command: build all, parse in turn, round by round, and write a row."""
    options = _options(arguments)
    pythons = {OURS: sys.executable, ENCODER: sys.executable} | dict(each.split("=", 1) for each in options.python)
    wanted = [each for each in SYSTEMS if options.device in each.devices and options.systems in each.name]
    lacking = sorted({each.package for each in wanted} - pythons.keys())
    if lacking:
        print(f"left out, for no Python is named that has them: {', '.join(lacking)}")
    systems = [BASE, *(each for each in wanted if each.package in pythons and each is not BASE)]
    with tempfile.TemporaryDirectory() as scratch:
        given, once = given_files(options, Path(scratch))
        with Peers(systems, pythons, given, once, options.threads) as peers:
            rounds = [peers.round() for _ in range(options.rounds)]
            profile = peers.peers[BASE.name].ask("profile")
    config = peers.config | {
        "profile": profile,
        "file": "en_ewt test",
        "sentences": given["n_sentences"],
        "words": given["n_words"],
        "copies": options.copies,
        "device": options.device,
        "device_name": _device_name(options.device),
        "model": Path(options.model).name,
        "weights": weights_checksum(find_model(options.model)),
        "threads": options.threads,
        "rounds": options.rounds,
    }
    save_row("speed", config, summed_up(rounds, peers.memory), path=options.rows)
    row = newest("speed", options.device, path=options.rows)
    assert row is not None
    print(parsers_of(row, "python -m benchmarks speed"))


class Peers:
    """All systems, built and warm within a `with` block; their processes end with it."""

    def __init__(
        self,
        systems: Sequence[System],
        pythons: Mapping[str, str],
        given: Mapping[str, Any],
        once: Mapping[str, Any],
        threads: int,
    ) -> None:
        self.systems, self.pythons, self.threads = systems, pythons, threads
        self.given, self.once = given, once
        self.peers: dict[str, Peer] = {}
        self.memory: dict[str, dict[str, float]] = {}
        self.config: dict[str, Any] = {"packages": {}, "parameters": {}, "trees": {}, "settings": {}}
        self.passes: list[int] = [1] * given["n_sentences"]  # of our refinement, for bare encoders

    def __enter__(self) -> Peers:
        with ExitStack() as stack:
            for system in self.systems:
                print(f"building {system.name}", file=sys.stderr, flush=True)
                self._build(system, stack)
            self.round()  # all are warm after it
            self.ending = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.ending.close()

    def _build(self, system: System, stack: ExitStack) -> None:
        arguments = dict(self.once if system.is_other else self.given) | dict(system.build)
        if system.package == ENCODER:
            arguments["passes"] = self.passes
        peer, built = self._started(system, arguments, stack)
        if built["has_learned"]:  # another process has not held what learning took
            peer.close()
            peer, built = self._started(system, arguments, stack)
        self.peers[system.name] = peer
        self.config["packages"] |= peer.ask("packages")
        self.config["parameters"][system.name] = built["parameters"]
        start = peer.memory()
        self.memory[system.name] = {"start_mib": start, "peak_mib": start}
        if system.package == OURS:
            self.config["settings"][system.name] = peer.ask("settings")
            self.config["trees"][system.name] = peer.ask("check")
        if system is BASE:
            self.passes = peer.ask("passes")
            steps = range(1, max(self.passes) + 1)
            self.config["sentences by step"] = [sum(count >= t for count in self.passes) for t in steps]

    def _started(self, system: System, arguments: Mapping[str, Any], stack: ExitStack) -> tuple[Peer, dict[str, Any]]:
        module = f"benchmarks.peers.{system.module}"
        peer = Peer(system.name, self.pythons[system.package], module, threads=self.threads)
        stack.callback(peer.close)
        return peer, peer.ask("build", arguments)

    def round(self) -> dict[str, dict[str, Any]]:
        """What each system answers, by name and way."""
        found = {}
        for system in self.systems:
            for way in system.ways:
                print(f"{system.name}: {way}", file=sys.stderr, flush=True)
                answer, peak = self.peers[system.name].ask_with_memory("parse", {"way": way})
                kept = self.memory[system.name]
                kept["peak_mib"] = max(kept["peak_mib"], peak)
                given = self.once if system.is_other else self.given
                if system.is_parser:
                    check_heads(f"{system.name}, {way}", answer, given["n_sentences"], given["n_words"])
                found[f"{system.name}: {way}"] = answer | {
                    "sentences": given["n_sentences"],
                    "words": given["n_words"],
                }
        return found


def check_heads(name: str, answer: Mapping[str, Any], n_sentences: int, n_words: int) -> None:
    """An error unless every word of every sentence got a head."""
    got = (answer["sentences"], answer["words"], answer["headless"])
    if got != (n_sentences, n_words, 0):
        raise TreefineError(
            f"{name}: {got[0]} sentences, {got[1]} words and {got[2]} without a head came back, where {n_sentences} "
            f"and {n_words} were given. No time is printed."
        )


def summed_up(
    rounds: Sequence[Mapping[str, Mapping[str, Any]]], memory: Mapping[str, Mapping[str, float]]
) -> dict[str, dict[str, Any]]:
    """By system and way: median seconds, sentences and words a second, memory, and the median ratio to treefine's time.

    The ratio is that of the times for a word. A bare encoder is compared with treefine from file to file.
    """
    result = {}
    for name, first in rounds[0].items():
        system, _, way = name.rpartition(": ")
        seconds = statistics.median(each[name]["seconds"] for each in rounds)
        ours = f"{BASE.name}: {BESIDE[way]}"
        ratios = (each[name]["seconds"] / each[ours]["seconds"] for each in rounds)
        result[name] = {
            "seconds": round(seconds, 3),
            "processor_seconds": round(statistics.median(each[name]["processor_seconds"] for each in rounds), 3),
            "sentences_per_second": round(first["sentences"] / seconds, 1),
            "words_per_second": round(first["words"] / seconds),
            "times_ours": round(statistics.median(ratios) * rounds[0][ours]["words"] / first["words"], 3),
            "peak_mib": round(memory[system]["peak_mib"]),
            "above_start_mib": round(memory[system]["peak_mib"] - memory[system]["start_mib"]),
        }
        for part in rounds[0][name]["parts"]:
            taken = statistics.median(each[name]["parts"][part] for each in rounds)
            result[name][f"{part}_seconds"] = round(taken, 3)
    return result


def without_trees(text: str) -> str:
    """CoNLL-U with the columns HEAD, DEPREL and DEPS blank."""
    lines = []
    for line in text.split("\n"):
        columns = line.split("\t")
        if len(columns) == 10:
            line = "\t".join("_" if number in HIDDEN else each for number, each in enumerate(columns))
        lines.append(line)
    return "\n".join(lines)


def spread(text: str, n_sentences: int) -> list[str]:
    r"""So many sentences of a CoNLL-U file, evenly spread over it, or all where it has no more.

    >>> spread("a\n\nb\n\nc\n\nd\n\n", 2)
    ['a', 'c']
    """
    found = text.strip().split("\n\n")
    wanted = min(n_sentences, len(found))
    return [found[number * len(found) // wanted] for number in range(wanted)]


def given_files(options: argparse.Namespace, scratch: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What systems are built with, for all copies of the sentences and for one."""
    texts = {split: _read(options.treebanks, split) for split in ("test", "train")}
    sentences = spread(without_trees(texts["test"]), options.sentences)
    source, once, train = (scratch / f"{name}.conllu" for name in ("source", "once", "train"))
    text = "".join(f"{each}\n\n" for each in sentences)
    once.write_text(text, encoding="utf-8")
    source.write_text(text * options.copies, encoding="utf-8")
    train.write_text(texts["train"], encoding="utf-8")
    folder = options.folder or scratch
    folder.mkdir(parents=True, exist_ok=True)
    n_words = sum(line.split("\t")[0].isdigit() for line in text.split("\n"))
    given = {
        "source": str(source),
        "train": str(train),
        "folder": str(folder.resolve()),
        "device": options.device,
        "model": options.model,
        "tokenizer": str(find_model(options.model)),
        "dev": str(options.treebanks / "en_ewt" / "dev.conllu.xz"),
        "dev_sentences": options.dev_sentences,
        "copies": options.copies,
        "batch_pieces": options.batch_pieces,
        "n_sentences": len(sentences) * options.copies,
        "n_words": n_words * options.copies,
    }
    one = {"source": str(once), "copies": 1, "n_sentences": len(sentences), "n_words": n_words}
    return given, given | one


def _read(treebanks: Path, split: str) -> str:
    path = treebanks / "en_ewt" / f"{split}.conllu.xz"
    if not path.exists():
        raise TreefineError(f"There is no {path}.", hint="Name the folder of treebanks: --treebanks.")
    return lzma.open(path, "rt", encoding="utf-8").read()


def _device_name(device: str) -> str | None:
    if device == "cpu":
        return None
    import torch

    return torch.cuda.get_device_name()


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks speed", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="en", help="a bundled model's name, or a model folder; en")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument(
        "--python", nargs="+", default=[], metavar="PACKAGE=PYTHON", help="the python of a venv that has the package"
    )
    parser.add_argument("--folder", type=Path, help="where models of other parsers are kept from run to run")
    parser.add_argument("--systems", default="", help="measure only those whose name has this in it; all")
    parser.add_argument("--sentences", type=int, default=500, help="of en_ewt test, evenly spread; 500")
    parser.add_argument("--copies", type=int, default=1, help="of these, so that a run lasts seconds; 1")
    parser.add_argument("--dev-sentences", type=int, default=2002, help="of en_ewt dev, to compare trees; all")
    parser.add_argument("--batch-pieces", type=int, help="pieces in a batch of ours and of bare encoders")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--treebanks", type=Path, default=TREEBANKS)
    parser.add_argument("--rows", type=Path, default=ROWS)
    return parser.parse_args(arguments)
