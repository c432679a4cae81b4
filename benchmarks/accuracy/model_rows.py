"""Say what a row of accuracy measures: kinds of input, their measures, and the treebank."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from benchmarks.rows import ROWS, Row, read_rows, release_of
from treefine import TreefineError
from treefine.config import COLUMNS
from treefine.evaluation.scores import AGREEMENTS
from treefine.treebank.sentence import BLANK, Sentence
from treefine_paper.predictions import checksum

# The kinds of input, with the measures that apply to the parser's output. Given tags and words are not measured.
RAW, WORDS, TAGGED, UPOS_GIVEN = "raw text", "gold words", "gold words and tags", "gold words and UPOS"
TREES = ("UAS", "LAS", "CLAS", "UEM", "LEM")
_TREES_AND_MORE = ("UFeats", "AllTags", "Lemmas", "UAS", "LAS", "CLAS", "MLAS", "BLEX", "UEM", "LEM")
MEASURES = {
    RAW: ("Tokens", "Sentences", "Words", "UPOS", "XPOS", *_TREES_AND_MORE),
    WORDS: ("UPOS", "XPOS", *_TREES_AND_MORE),
    TAGGED: TREES,
    UPOS_GIVEN: ("XPOS", *_TREES_AND_MORE),
}


def measures_of(kind: str, columns: Collection[str]) -> tuple[str, ...]:
    """Return the measures of a kind of input for a model that predicts these columns.

    >>> measures_of(WORDS, ("upos", "xpos"))
    ('UPOS', 'XPOS', 'UAS', 'LAS', 'CLAS', 'UEM', 'LEM')
    """
    return tuple(
        name for name in MEASURES[kind] if set(AGREEMENTS.get(name, ())).intersection(COLUMNS).issubset(columns)
    )


def by_split(benchmark: str, weights: str, *, path: Path = ROWS, treebank: str = "en_ewt") -> dict[str, Row]:
    """Return the rows that the tables show for these weights: the newest of dev and the only one of test."""
    dev = read_rows(benchmark, path=path, weights=weights, treebank=treebank, split="dev")[-1:]
    test = read_rows(benchmark, path=path, weights=weights, treebank=treebank, split="test")[:1]
    return {row["config"]["split"]: row for row in (*dev, *test)}


def refuse_second_test(benchmark: str, weights: str, treebank: str, *, path: Path = ROWS) -> None:
    """Raise an error if these weights were measured on this test set before."""
    for row in read_rows(benchmark, path=path, weights=weights, treebank=treebank, split="test"):
        message = f"{row['config']['model']} was tested on {treebank} by {benchmark} on {row['when'][:10]}."
        raise TreefineError(message, hint="A model is tested only once.", path=str(path))


def treebank_path(options: argparse.Namespace) -> Path:
    """Return the file of the requested split."""
    path: Path = options.treebanks / options.treebank / f"{options.split}.conllu.xz"
    return path


def gold_fields(options: argparse.Namespace, gold: Sequence[Sentence]) -> dict[str, Any]:
    """Return the fields of a config that say on which treebank a model was measured."""
    place = {"treebank": options.treebank, "split": options.split, "gold": checksum(gold)}
    place["release"] = release_of(options.treebanks, options.treebank)
    return place | {"sentences": len(gold), "words": sum(map(len, gold))}


def without_tags(sentence: Sentence, *, keep_upos: bool = False) -> Sentence:
    """Return the sentence without tags, features and lemmas, or with universal tags only."""
    blank = [BLANK] * len(sentence)
    return sentence.with_tags(upos=None if keep_upos else blank, xpos=blank, feats=blank, lemma=blank)
