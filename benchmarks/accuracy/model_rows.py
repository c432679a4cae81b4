"""Group the rows of models: trainings that differ only in their seed, or measurements of the same weights."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.rows import ROWS, Row, read_rows, release_of
from treefine import TreefineError
from treefine.config import COLUMNS
from treefine.evaluation.scores import AGREEMENTS
from treefine.treebank.sentence import BLANK, Sentence
from treefine_paper.predictions import checksum

KINDS = ("Biaffine", "SynTr", "Empty+RNGTr", "SynTr+RNGTr", "Biaffine+RNGTr")  # in the order of the tables


@dataclass(frozen=True)
class Group:
    """The rows of one recipe with the same changes, by seed: the newest of dev, the first of test."""

    dev: dict[int, Row]
    test: dict[int, Row]

    @property
    def config(self) -> dict[str, Any]:
        """The configuration that all rows share."""
        config: dict[str, Any] = next(iter([*self.dev.values(), *self.test.values()]))["config"]
        return config

    @property
    def changes(self) -> dict[str, str]:
        """The settings that differ from the recipe."""
        parts = [change.partition("=") for change in self.config["changes"]]
        return {key.strip(): value.strip() for key, _, value in parts}

    @property
    def is_mean(self) -> bool:
        """Whether this is an unchanged recipe, except that the weights of several trainings are averaged."""
        return self.changes.keys() == {"training.weight_averaging"} and self.config["tags"] == "given"

    @property
    def is_refined(self) -> bool:
        """Whether the model refines a graph."""
        return str(self.config["kind"]).endswith("RNGTr")

    @property
    def is_plain(self) -> bool:
        """Whether this is an unchanged recipe, with the treebank's tags and the paper's loop."""
        config = self.config
        is_of_the_grid = self.is_refined and (config["T"] == 1 or not config["stop"])
        return not self.changes and config["tags"] == "given" and not is_of_the_grid

    @property
    def chosen(self) -> int:
        """The seed with the best dev LAS; without rows of dev, the seed of the first test."""
        return max(self.dev, key=lambda seed: self.dev[seed]["result"]["LAS"], default=next(iter(self.test), 0))

    @property
    def tested(self) -> Row | None:
        """The test row of the chosen seed."""
        return self.test.get(self.chosen)

    def mean(self, name: str) -> float | None:
        """Return the mean of a dev result over the seeds, or None if a seed lacks it."""
        values = [row["result"][name] for row in self.dev.values()]
        return statistics.mean(values) if values and None not in values else None

    def means(self, name: str) -> list[float | None]:
        """Return the mean over the seeds for each number of a list."""
        lists = [row["result"][name] for row in self.dev.values()]
        return [statistics.mean(each) if None not in each else None for each in zip(*lists, strict=True)]

    @property
    def name(self) -> str:
        """The recipe and its changes, as `treefine train` takes them."""
        return " ".join([self.config["recipe"], *(f"--set {each}" for each in self.config["changes"])])


def grouped(rows: Iterable[Row]) -> list[Group]:
    """Group the rows of accuracy by recipe, in the order of the tables."""
    found: dict[tuple[str, ...], Group] = {}
    for row in rows:
        config = row["config"]
        group = found.setdefault((config["recipe"], *config["changes"]), Group({}, {}))
        if config["split"] == "dev":
            group.dev[config["seed"]] = row
        else:
            group.test.setdefault(config["seed"], row)
    return sorted(found.values(), key=_order)


def _order(group: Group) -> tuple[object, ...]:
    config = group.config
    kind = KINDS.index(config["kind"]) if config["kind"] in KINDS else len(KINDS)
    encoder = "" if config["kind"] == "Biaffine" else config["encoder"]
    return config["treebank"], encoder, kind, config["T"], config["stop"], config["recipe"], config["changes"]


# The measures in a row of pipeline, by input. Given tags and words are not measured.
RAW, WORDS, TAGGED, UPOS_GIVEN = "raw text", "gold words", "gold words and tags", "gold words and UPOS"
TREES = ("UAS", "LAS", "CLAS", "UEM", "LEM")
_TREES_AND_MORE = ("UFeats", "AllTags", "Lemmas", "UAS", "LAS", "CLAS", "MLAS", "BLEX", "UEM", "LEM")
MEASURES = {  # measures of CoNLL 2018 that apply to the parser's output
    RAW: ("Tokens", "Sentences", "Words", "UPOS", "XPOS", *_TREES_AND_MORE),
    WORDS: ("UPOS", "XPOS", *_TREES_AND_MORE),
    TAGGED: TREES,
    UPOS_GIVEN: ("XPOS", *_TREES_AND_MORE),
}


def measures_of(given: str, columns: Collection[str]) -> tuple[str, ...]:
    """Return the measures of a kind of input for a model that predicts these columns.

    >>> measures_of(WORDS, ("upos", "xpos"))
    ('UPOS', 'XPOS', 'UAS', 'LAS', 'CLAS', 'UEM', 'LEM')
    """
    return tuple(
        name for name in MEASURES[given] if set(AGREEMENTS.get(name, ())).intersection(COLUMNS).issubset(columns)
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
