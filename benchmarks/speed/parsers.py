"""Compare the speed of treefine and other parsers on the same words, in turn, in one run."""

from __future__ import annotations

import argparse
import lzma
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from benchmarks.markdown import Lines, table
from benchmarks.options import (
    CPU_OR_CUDA,
    MODEL,
    PYTHON,
    ROUNDS,
    ROWS_FILE,
    THREADS,
    TREEBANKS_FOLDER,
    command,
    count,
    option,
)
from benchmarks.peers.answers import FILE, WORDS
from benchmarks.peers.process import Peer
from benchmarks.rows import (
    Row,
    english_path,
    model_fields,
    newest,
    origin,
    save_row,
)
from treefine import TreefineError
from treefine.model.bundled import find_model

Device = Literal["cpu", "cuda"]
OURS = "treefine"  # runs in the current Python
STOP_ABOVE = 0.935  # chosen on dev: see `stopping`
SURE = f"treefine, stop above {STOP_ABOVE}"  # confident sentences stop early
UNTRAINED = "untrained"  # with random weights, trees take longer to find


@dataclass(frozen=True)
class System:
    """One parser with its options."""

    name: str
    package: str
    module: str
    build: Mapping[str, Any] = field(default_factory=dict)
    ways: tuple[str, ...] = (WORDS, FILE)
    devices: tuple[Device, ...] = ("cpu",)

    @property
    def is_other(self) -> bool:
        """Whether it is another project's parser. It parses only one copy of the sentences, to save time."""
        return self.package != OURS


def _ours(name: str, *devices: Device, **build: Any) -> System:
    return System(name, OURS, "treefine_parser", build, devices=devices)


def _stanza(name: str, updates: int, update_words: int, batch_words: int = 5000, **build: Any) -> System:
    build |= {"updates": updates, "update_words": update_words, "batch_words": batch_words}
    return System(f"Stanza {name}", "stanza", "stanza_parser", build, devices=("cpu", "cuda"))


def _supar(name: str, *, tree: bool, **build: Any) -> System:
    ways = (WORDS,) if tree else (WORDS, FILE)  # the tree search takes long, and the same time in both ways
    how = "trees" if tree else "best heads"
    devices: tuple[Device, ...] = ("cpu",) if tree else ("cpu", "cuda")
    return System(f"supar {name}, {how}", "supar", "supar_parser", {"tree": tree, **build}, ways, devices)


SYSTEMS = (
    _ours("treefine", "cpu", "cuda"),
    _ours(SURE, "cpu", "cuda", stop_above=STOP_ABOVE),
    _ours("treefine, float32", "cpu", "cuda", precision="float32"),
    _ours("treefine, one pass", "cpu", "cuda", max_steps=1),
    _ours("treefine, one pass, float32", "cpu", "cuda", max_steps=1, precision="float32"),
    System("spaCy", "spacy", "spacy_parser", {"updates": 390, "processes": 1}, (WORDS,)),
    System("spaCy, 2 processes", "spacy", "spacy_parser", {"updates": 390, "processes": 2}, (WORDS,)),
    System("UDPipe 1, beam 5", "ufal.udpipe", "udpipe_parser", {"sentences": 12_000, "beam": 5}),
    System("UDPipe 1, beam 1", "ufal.udpipe", "udpipe_parser", {"sentences": 12_000, "beam": 1}),
    _stanza(f"default, {UNTRAINED}", 0, 300, has_char_lm=True),
    _stanza("fast, trained a little", 300, 1000, has_char_lm=False),
    _stanza("fast, trained a little, batches of 1000", 300, 1000, 1000, has_char_lm=False),
    _stanza(f"fast over BERT 12 × 384, {UNTRAINED}", 0, 300, has_char_lm=False, layers=12, width=384),
    _supar(f"BiLSTM, {UNTRAINED}", tree=False),
    _supar(f"BiLSTM, {UNTRAINED}", tree=True),
    _supar(f"BERT 12 × 384, {UNTRAINED}", tree=False, layers=12, width=384),
    _supar(f"BERT 12 × 384, {UNTRAINED}", tree=True, layers=12, width=384),
    _supar(f"BERT 12 × 768, {UNTRAINED}", tree=False, layers=12, width=768),
)
BASE = SYSTEMS[0]  # the others are compared with it
BLANKED = (6, 7, 8)  # HEAD, DEPREL and DEPS


@command(
    MODEL,
    CPU_OR_CUDA,
    PYTHON,
    option("--folder", type=Path, help="folder that keeps the models of other parsers between runs"),
    option("--systems", default="", help="measure only systems whose name contains this"),
    count("--sentences", 500, "number of sentences of en_ewt test, evenly spread"),
    count("--copies", 1, "number of copies of these sentences"),
    count("--dev-sentences", 2002, "number of sentences of en_ewt dev to compare trees on"),
    count("--batch-pieces", None, "pieces per batch of treefine and bare encoders"),
    THREADS,
    ROUNDS,
    TREEBANKS_FOLDER,
    ROWS_FILE,
)
def measure_speed(options: argparse.Namespace) -> None:
    """Measure the speed of treefine and other parsers; write one row.

    python -m benchmarks speed --python spacy=a/bin/python stanza=b/bin/python supar=c/bin/python
    python -m benchmarks speed --device cuda --copies 40 --sentences 2077

    Each system runs in a separate process (see `peers`) and works only on request. Systems for which no Python is named
    are left out. Trained models are kept in --folder. The trees of treefine's fast paths are first compared on dev with
    those of the reference implementation; no time is reported if they differ. The test set is not scored.
    """
    pythons = {OURS: sys.executable} | dict(each.split("=", 1) for each in options.python)
    wanted = [each for each in SYSTEMS if options.device in each.devices and options.systems in each.name]
    lacking = sorted({each.package for each in wanted} - pythons.keys())
    if lacking:
        print(f"left out, because --python names no Python for: {', '.join(lacking)}")
    systems = [BASE, *(each for each in wanted if each.package in pythons and each is not BASE)]
    with tempfile.TemporaryDirectory() as scratch:
        given, once = given_files(options, Path(scratch))
        with Peers(systems, pythons, given, once, options.threads) as peers:
            rounds = [peers.round() for _ in range(options.rounds)]
    config = peers.config | {
        "file": "en_ewt test",
        "sentences": given["n_sentences"],
        "words": given["n_words"],
        "copies": options.copies,
        "device": options.device,
        "device_name": _device_name(options.device),
        **model_fields(options.model),
        "threads": options.threads,
        "rounds": options.rounds,
    }
    save_row("speed", config, summed_up(rounds, peers.memory), path=options.rows)
    print(parsers_of(newest("speed", options.device, path=options.rows), "python -m benchmarks speed"))


class Peers:
    """A context manager that builds and warms up all systems, and ends their processes."""

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

    def __enter__(self) -> Peers:
        with ExitStack() as stack:
            for system in self.systems:
                print(f"building {system.name}", file=sys.stderr, flush=True)
                self._build(system, stack)
            self.round()  # a warm-up
            self.ending = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.ending.close()

    def _build(self, system: System, stack: ExitStack) -> None:
        arguments = dict(self.once if system.is_other else self.given) | dict(system.build)
        peer, built = self._started(system, arguments, stack)
        if built["has_learned"]:  # a new process does not count the memory of training
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

    def _started(self, system: System, arguments: Mapping[str, Any], stack: ExitStack) -> tuple[Peer, dict[str, Any]]:
        module = f"benchmarks.peers.{system.module}"
        peer = Peer(system.name, self.pythons[system.package], module, threads=self.threads)
        stack.callback(peer.close)
        return peer, peer.ask("build", arguments)

    def round(self) -> dict[str, dict[str, Any]]:
        """Return the answer of each system, by name and way."""
        found = {}
        for system in self.systems:
            for way in system.ways:
                print(f"{system.name}: {way}", file=sys.stderr, flush=True)
                answer, peak = self.peers[system.name].ask_with_memory("parse", {"way": way})
                kept = self.memory[system.name]
                kept["peak_mib"] = max(kept["peak_mib"], peak)
                given = self.once if system.is_other else self.given
                check_heads(f"{system.name}, {way}", answer, given["n_sentences"], given["n_words"])
                found[f"{system.name}: {way}"] = answer | {
                    "sentences": given["n_sentences"],
                    "words": given["n_words"],
                }
        return found


def check_heads(name: str, answer: Mapping[str, Any], n_sentences: int, n_words: int) -> None:
    """Raise an error unless every word of every sentence has a head."""
    got = (answer["sentences"], answer["words"], answer["headless"])
    if got != (n_sentences, n_words, 0):
        raise TreefineError(
            f"{name} returned {got[0]} sentences and {got[1]} words, {got[2]} of them without a head, instead of "
            f"{n_sentences} and {n_words}. No time is printed."
        )


def summed_up(
    rounds: Sequence[Mapping[str, Mapping[str, Any]]], memory: Mapping[str, Mapping[str, float]]
) -> dict[str, dict[str, Any]]:
    """Return median seconds, speed, memory and the median ratio to treefine's time, by system and way.

    The ratio is that of the times per word.
    """
    result = {}
    for name, first in rounds[0].items():
        system, _, way = name.rpartition(": ")
        seconds = statistics.median(each[name]["seconds"] for each in rounds)
        ours = f"{BASE.name}: {way}"
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
    """Return CoNLL-U with the columns HEAD, DEPREL and DEPS blank."""
    lines = []
    for line in text.split("\n"):
        columns = line.split("\t")
        if len(columns) == 10:
            line = "\t".join("_" if number in BLANKED else each for number, each in enumerate(columns))
        lines.append(line)
    return "\n".join(lines)


def spread(text: str, n_sentences: int) -> list[str]:
    r"""Return `n_sentences` sentences of a CoNLL-U file, evenly spread over it, or all if it has fewer.

    >>> spread("a\n\nb\n\nc\n\nd\n\n", 2)
    ['a', 'c']
    """
    found = text.strip().split("\n\n")
    wanted = min(n_sentences, len(found))
    return [found[number * len(found) // wanted] for number in range(wanted)]


def given_files(options: argparse.Namespace, scratch: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments to build systems with, for all copies of the sentences and for one."""
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
    return lzma.open(english_path(treebanks, split), "rt", encoding="utf-8").read()


def _device_name(device: str) -> str | None:
    if device == "cpu":
        return None
    import torch

    return torch.cuda.get_device_name()


PART, WHOLE = "_seconds", ("seconds", "processor_seconds")  # names of times in a row


def parsers_of(row: Row, command: str) -> str:
    """Return the table of one row."""
    config = row["config"]
    lines: Lines = [("parser", "way", "sentences/s", "words/s", "time (treefine = 1)", "peak memory", "for parsing")]
    for name, found in row["result"].items():
        system, _, way = name.rpartition(": ")
        system = shown_name(system)
        lines.append(
            (
                system,
                way,
                f"{found['sentences_per_second']:,.0f}",
                f"{found['words_per_second']:,}",
                _ratio(found["times_ours"]),
                f"{found['peak_mib']:,} MiB",
                f"{found['above_start_mib']:,} MiB",
            )
        )
        for part in (each for each in found if each.endswith(PART) and each not in WHOLE):
            share = found[part] / found["seconds"]
            speeds = (f"{found[name] / share:,.0f}" for name in ("sentences_per_second", "words_per_second"))
            lines.append(
                (
                    system,
                    f"{way}, {shown_name(part.removesuffix(PART))}",
                    *speeds,
                    _ratio(found["times_ours"] * share),
                    "",
                    "",
                )
            )
    ours = config["settings"]["treefine"]
    copies = f", repeated {config['copies']} times" if config["copies"] > 1 else ""
    also = (
        f"{config['sentences']:,} sentences, {config['words']:,} words of {config['file']}{copies}; "
        f"{config['threads']} threads, median of {config['rounds']} rounds; treefine: `{config['model']}`, "
        f"{ours['precision']}, T = {ours['T']}, tags {ours['tags']}; "
        f"{', '.join(f'{package} {version}' for package, version in config['packages'].items())}."
    )
    return f"{table(*lines)}\n\n{also}\n\n{checked(row)}\n\n{origin(row, command)}"


def shown_name(name: str) -> str:
    """Return the name of a system or a part as pages show it.

    >>> shown_name("encoder alone, 12 × 384"), shown_name("network alone")
    ('bare encoder, 12 × 384', 'network only')
    """
    return name.replace("encoder alone", "bare encoder").replace("network alone", "network only")


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def checked(row: Row) -> str:
    """Return the comparison of treefine's trees with the reference implementation's."""
    compared = [
        f"{name}: {found['other trees, percent']}% of the trees differ, LAS {found['LAS']:.2f} instead of "
        f"{found['LAS, plain']:.2f}"
        for name, found in row["config"]["trees"].items()
    ]
    number = next(iter(row["config"]["trees"].values()))["sentences"]
    return f"Compared with the reference implementation in float32, on {number:,} dev sentences: {'; '.join(compared)}."
