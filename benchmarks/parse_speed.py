"""How fast a model parses en_ewt test on a CPU, from CoNLL-U to CoNLL-U, beside Stanza's parser module in the same run.

python -m benchmarks parse_speed --model runs/en/model
python -m benchmarks parse_speed --model runs/en/model --stanza-python stanza/bin/python --stanza-folder stanza/models

Stanza stands in a Python of its own (see `stanza_parser` for what its model is made of), and both parse in turn. It is
given words, lemmas and tags; treefine does with tags what its model was trained to do. No score is looked at.
"""

from __future__ import annotations

import argparse
import json
import lzma
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.model_rows import weights_checksum
from benchmarks.rows import ROWS, TREEBANKS, save_row
from treefine import Parser, TreefineError, read_treebank, write_treebank
from treefine.config import BATCH_PIECES
from treefine.parsing.models import find_model

PEER = Path(__file__).with_name("stanza_parser.py")
STANZA_BATCH = 5000  # words; its default
BATCHES = (STANZA_BATCH, 1000)  # of which the fastest is measured too


@dataclass(frozen=True)
class StandIn:
    """One size and state of Stanza's model."""

    name: str
    has_char_lm: bool  # as by default for English; without, it is what its "default_fast" has
    updates: int  # that it has learned from, so that its search for trees has trees to find
    batch_size: int  # words in an update


STAND_INS = (
    StandIn("default", has_char_lm=True, updates=100, batch_size=300),
    StandIn("default untrained", has_char_lm=True, updates=0, batch_size=300),
    StandIn("fast", has_char_lm=False, updates=300, batch_size=1000),
)


def measure_parse_speed(arguments: Sequence[str]) -> None:
    """The command: parse in turn, round by round, and write a row."""
    options = _options(arguments)
    torch.set_num_threads(options.threads)
    parser = Parser.from_pretrained(options.model, device="cpu", batch_pieces=options.batch_pieces)
    with tempfile.TemporaryDirectory() as scratch:
        source, train = Path(scratch, "source.conllu"), Path(scratch, "train.conllu")
        source.write_text(without_trees(_read("test")), encoding="utf-8")
        train.write_text(_read("train"), encoding="utf-8")
        sentences = list(read_treebank(source))
        n_words = sum(map(len, sentences))
        _ours(parser, source)  # a warm-up
        times: dict[str, list[float]] = {}
        stanza = None
        if options.stanza_python is not None:
            folder = options.stanza_folder or Path(scratch)
            stanza = Stanza(options.stanza_python, source, train, folder, options.threads, options.stand_ins)
        for _ in range(options.rounds):
            _add(times, "treefine", _ours(parser, source))
            if stanza is not None:
                for name, each in stanza.times().items():
                    _add(times, name, each)
    config: dict[str, Any] = {
        "file": "en_ewt test",
        "sentences": len(sentences),
        "words": n_words,
        "model": Path(options.model).name,
        "weights": weights_checksum(find_model(options.model)),
        "max_steps": parser.max_steps,
        "tags": parser.tags,
        "batch_pieces": parser.batch_pieces,
        "threads": options.threads,
        "rounds": options.rounds,
        "torch": torch.__version__,
    }
    if stanza is not None:
        config = stanza.config | config  # the torch version is ours
        stanza.close()
    save_row("parse_speed", config, summed_up(times, len(sentences), n_words), path=options.rows)


def summed_up(times: dict[str, list[float]], n_sentences: int, n_words: int) -> dict[str, float]:
    """Median seconds of each, sentences and words a second, and how many times as long as treefine each takes.

    >>> summed_up({"treefine, all": [2.0, 1.0, 4.0], "stanza, all": [4.0, 3.0, 4.0]}, 10, 100)["stanza/treefine, all"]
    2.0
    """
    result = {}
    for name, each in times.items():
        seconds = statistics.median(each)
        result[f"{name}_seconds"] = round(seconds, 2)
        if "processor" not in name:
            result[f"{name}_sentences_per_second"] = round(n_sentences / seconds, 1)
            result[f"{name}_words_per_second"] = round(n_words / seconds)
    for name, each in times.items():
        system, _, rest = name.rpartition(", ")
        ours = times["treefine, all processor" if "processor" in rest else "treefine, all"]
        if system != "treefine":
            result[f"{system}/treefine, {rest}"] = round(
                statistics.median(a / b for a, b in zip(each, ours, strict=True)), 2
            )
    return result


def without_trees(text: str) -> str:
    """CoNLL-U with the columns HEAD, DEPREL and DEPS blank."""
    lines = []
    for line in text.split("\n"):
        columns = line.split("\t")
        if len(columns) == 10:
            line = "\t".join([*columns[:6], "_", "_", "_", columns[9]])
        lines.append(line)
    return "\n".join(lines)


class Stanza:
    """Stanza in another process, which works only while it is asked to."""

    def __init__(
        self, python: Path, source: Path, train: Path, folder: Path, threads: int, stand_ins: Sequence[str]
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            self.process = subprocess.Popen(
                [python, PEER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        except OSError as error:
            raise TreefineError(f"{python}: {error.strerror}.", hint="Name the python of Stanza's venv.") from None
        self.config: dict[str, Any] = self.ask("version")
        self.ask("threads", threads)
        self.batches: dict[str, set[int]] = {}
        text = source.read_text(encoding="utf-8")
        for each in (each for each in STAND_INS if each.name in stand_ins):
            what = {"updates": each.updates, "batch_size": each.batch_size, "has_char_lm": each.has_char_lm}
            self.ask("build", {"name": each.name, "train": str(train), "text": text, "folder": str(folder), **what})
            self.config[f"parameters of {each.name}"] = self.ask("parameters", each.name)
            seconds = {size: self._round(each.name, size)["parser"] for size in BATCHES}  # a warm-up too
            self.batches[each.name] = {STANZA_BATCH, min(seconds, key=seconds.__getitem__)}

    def ask(self, request: str, arguments: object = None) -> Any:
        """The answer of the other process."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps([request, arguments or {}]) + "\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())
        except (BrokenPipeError, json.JSONDecodeError):  # nothing came back
            hint = f"Start {PEER.name} in its Python by hand to see why."
            raise TreefineError(f"Stanza ended while it was asked for {request}.", hint=hint) from None

    def times(self) -> dict[str, dict[str, float]]:
        """One round: the seconds of each stand-in, in batches as by default and as it is fastest."""
        return {
            f"stanza {name}, batches of {size}": self._round(name, size)
            for name, sizes in self.batches.items()
            for size in sorted(sizes)
        }

    def _round(self, name: str, size: int) -> dict[str, float]:
        found: dict[str, float] = self.ask("times", {"name": name, "batch_size": size, "is_repaired": True})
        return found

    def close(self) -> None:
        """End the process."""
        self.process.communicate()


def _ours(parser: Parser, source: Path) -> dict[str, float]:
    """Seconds to read, parse and write, and the processor's own seconds."""
    started, before = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        write_treebank(parser.stream(read_treebank(source)), Path(folder, "parsed.conllu"))
    return {"all": time.perf_counter() - started, "all processor": time.process_time() - before}


def _add(times: dict[str, list[float]], system: str, seconds: dict[str, float]) -> None:
    for name, each in seconds.items():
        times.setdefault(f"{system}, {name}", []).append(each)


def _read(split: str) -> str:
    path = TREEBANKS / "en_ewt" / f"{split}.conllu.xz"
    if not path.exists():
        sys.exit(f"the treebanks are missing: {TREEBANKS.parent} should stand beside this checkout")
    return lzma.open(path, "rt", encoding="utf-8").read()


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks parse_speed",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--model", default="en", help="a bundled model's name, or a model folder; en")
    parser.add_argument(
        "--stanza-python", type=Path, help="the python of a venv with stanza; without it treefine alone"
    )
    parser.add_argument(
        "--stanza-folder", type=Path, help="where the stand-ins for its models are kept from run to run"
    )
    parser.add_argument("--batch-pieces", type=int, default=BATCH_PIECES)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    names = [each.name for each in STAND_INS]
    parser.add_argument("--stand-ins", nargs="+", choices=names, default=names, help="which of Stanza's to measure")
    parser.add_argument("--rows", type=Path, default=ROWS)
    return parser.parse_args(arguments)
