"""The rows of one model, which is known by the checksum of its weights; its test rows are written once."""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path
from typing import Any

from benchmarks.reliability import Kind
from benchmarks.rows import ROWS, TREEBANKS, read_rows
from treefine import TreefineError
from treefine.treebank.sentence import BLANK, Sentence

Row = dict[str, Any]

# What a row of pipeline tells, by what the parser was given. What it was given is not measured.
RAW, WORDS, TAGGED, UPOS_GIVEN = "raw text", "gold words", "gold words and tags", "gold words and UPOS"
TREES = ("UAS", "LAS", "CLAS", "UEM", "LEM")
MEASURES = {  # of CoNLL 2018, as far as the parser gives what they measure
    RAW: ("Tokens", "Sentences", "Words", "UPOS", "XPOS", *TREES),
    WORDS: ("UPOS", "XPOS", *TREES),
    TAGGED: TREES,
    UPOS_GIVEN: ("XPOS", *TREES),
}

# What a row of calibration tells: of which claims, and how their expected error was counted.
ARC, LABEL, BOTH, SENTENCE = "arc", "label", "both", "sentence"
WAYS: dict[str, tuple[int, Kind]] = {  # number and kind of bins; the first way is the one that is asked for
    "10 bins": (10, "width"),
    "15 bins": (15, "width"),
    "10 bins of equal mass": (10, "mass"),
}


def weights_checksum(folder: Path) -> str:
    """SHA-256 of all weights in a model folder: its own, its segmenter's and its initial parser's."""
    paths = sorted(folder.rglob("*.safetensors"))
    if not paths:
        raise TreefineError("There are no weights in this folder.", hint="Name a model folder.", path=str(folder))
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.relative_to(folder).as_posix()}\n{path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def rows_of(benchmark: str, weights: str, *, path: Path = ROWS, **wanted: str) -> list[Row]:
    """The rows of the model with these weights and of what else is wanted of them, the oldest first."""
    asked = {"weights": weights, **wanted}
    return [row for row in read_rows(benchmark, path=path) if asked.items() <= row["config"].items()]


def by_split(benchmark: str, weights: str, *, path: Path = ROWS, treebank: str = "en_ewt") -> dict[str, Row]:
    """The rows that the tables show of the model with these weights: the newest of dev and the only one of test."""
    dev = rows_of(benchmark, weights, path=path, treebank=treebank, split="dev")[-1:]
    test = rows_of(benchmark, weights, path=path, treebank=treebank, split="test")[:1]
    return {row["config"]["split"]: row for row in (*dev, *test)}


def refuse_second_test(benchmark: str, weights: str, treebank: str, *, path: Path = ROWS) -> None:
    """An error where these weights were measured on that test set before."""
    for row in rows_of(benchmark, weights, path=path, treebank=treebank, split="test"):
        message = f"{row['config']['model']} was tested on {treebank} by {benchmark} on {row['when'][:10]}."
        raise TreefineError(message, hint="A model is tested once.", path=str(path))


def treebank_path(options: argparse.Namespace) -> Path:
    """The file of the split that is asked for."""
    path: Path = options.treebanks / options.treebank / f"{options.split}.conllu.xz"
    return path


def without_tags(sentence: Sentence, *, keep_upos: bool = False) -> Sentence:
    """The sentence as if it had not been tagged, or with its universal tags alone."""
    blank = [BLANK] * len(sentence)
    return sentence.with_tags(upos=None if keep_upos else blank, xpos=blank)


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """What all commands that measure a model on a split are told."""
    parser.add_argument("--model", default="en", help="a bundled model's name, or a model folder; en")
    parser.add_argument("--treebank", default="en_ewt", help="a folder of the treebanks; en_ewt")
    parser.add_argument("--split", choices=["dev", "test"], default="dev", help="test: once for the same weights")
    parser.add_argument("--treebanks", type=Path, default=TREEBANKS)
    parser.add_argument("--rows", type=Path, default=ROWS)
    parser.add_argument("--device", default=None, help="cpu or cuda")
