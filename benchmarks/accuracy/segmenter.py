"""Train segmenters, measure them on raw text, and show them in tables."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.accuracy.model_rows import refuse_second_test, treebank_path
from benchmarks.markdown import percent, table
from benchmarks.options import DEVICE, ROWS_FILE, SET, SPLIT, TREEBANKS_FOLDER, command, count, option
from benchmarks.rows import read_rows, renaming, save_row, weights_checksum
from treefine import Sentence, TreefineError, read_treebank
from treefine.config import read_settings
from treefine.parsing.plan import find_device
from treefine.segmenter.segmenter import Segmenter
from treefine.training.recipe import SegmenterTraining
from treefine.training.segmenter import SegmenterLearner, measured
from treefine.treebank.raw_text import raw_text

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found]


@command(
    option("treebank", help="name of a treebank folder, such as en_ewt"),
    option("--measure", type=Path, metavar="FOLDER", help="measure the segmenter in this folder instead of training"),
    SPLIT,
    SET,
    count("--seed", 1, "seed of the training"),
    option("--output", type=Path, help="parent folder to save the segmenter in"),
    ROWS_FILE,
    DEVICE,
    TREEBANKS_FOLDER,
    count("--sentences", None, "use only the first sentences of each split, for a trial run"),
)
def measure_segmenter(options: argparse.Namespace) -> None:
    """Train a segmenter and measure it on the raw text of dev, or measure a saved one, on test only once.

    python -m benchmarks segmenter tr_imst --set batch_windows=8 --output runs
    python -m benchmarks segmenter tr_imst --measure runs/tr_imst-batch_windows-8-seed1 --split test
    """
    if options.measure is None:
        _train(options)
    else:
        _measure(options)


def _train(options: argparse.Namespace) -> None:
    """Train, print each epoch, and write a row of dev."""
    if options.split == "test":
        raise TreefineError("A training is measured on dev.", hint="Measure its folder on test: --measure FOLDER.")
    # Rows without this setting were measured with 32.
    settings = read_settings(SegmenterTraining, {"batch_windows": 32} | tomllib.loads("\n".join(options.set)))
    train = list(read_treebank(options.treebanks / options.treebank / "train.conllu.xz"))[: options.sentences]
    dev = list(read_treebank(treebank_path(options)))[: options.sentences]
    device = find_device(options.device)
    title = re.sub(r"[^A-Za-z0-9_.-]+", "-", "-".join([options.treebank, *options.set, f"seed{options.seed}"]))
    learner = SegmenterLearner(train, dev, settings, seed=options.seed, device=device)
    result: dict[str, Any] = {}
    for epoch in learner.epochs():
        f1 = "  ".join(f"{name} {each.f1:.2%}" for name, each in epoch.scores.items())
        place, mark = f"{title} {epoch.epoch}/{settings.epochs}", " *" if epoch.is_best else ""
        print(f"{place} {epoch.loss:.4f}  {f1}  {epoch.seconds:.0f} s{mark}", flush=True)
        result |= {"seconds": round(epoch.seconds, 1)} | ({"best_epoch": epoch.epoch} if epoch.is_best else {})
    if options.output is not None:
        learner.segmenter.save(options.output / title)
    changes = [*map(renaming(SegmenterTraining), options.set)]
    config = {"seed": options.seed, "changes": changes, "settings": asdict(settings)}
    _save_row(options, learner.segmenter, dev, config, result | {"device": device.type})


def _measure(options: argparse.Namespace) -> None:
    """Write a row of a saved segmenter."""
    weights = weights_checksum(options.measure)
    if options.split == "test":
        refuse_second_test("segmenter", weights, options.treebank, path=options.rows)
    gold = list(read_treebank(treebank_path(options)))
    config = {"model": options.measure.name, "weights": weights}
    _save_row(options, Segmenter.from_folder(options.measure), gold, config, {"device": "cpu"})


def _save_row(
    options: argparse.Namespace,
    segmenter: Segmenter,
    gold: Sequence[Sentence],
    config: dict[str, Any],
    result: dict[str, Any],
) -> None:
    text = raw_text(gold).text
    start = time.perf_counter()
    n_sentences = len(segmenter.segment(text))
    speed = round(len(text) / (time.perf_counter() - start))
    scores = {name: round(each.f1, 6) for name, each in measured(segmenter, text, gold).items()}
    found = {"found_sentences": n_sentences, "characters_per_second": speed}
    size = {"parameters": sum(each.numel() for each in segmenter.network.parameters())}
    place = {"treebank": options.treebank, "split": options.split}
    save_row("segmenter", place | config, scores | result | found | size, path=options.rows)


F1 = ("Tokens", "Sentences", "Words")


def trained_segmenters() -> str:
    """Return F1 on the raw text of dev by treebank and changed settings; the newest row of each."""
    found = {}
    for row in read_rows("segmenter"):
        config = row["config"]
        if "changes" in config:
            found[config["treebank"], tuple(config["changes"]), config["seed"]] = row["result"]
    lines = [
        (treebank, ", ".join(changes).replace("network.", "") or "–", seed, *_cells(result))
        for (treebank, changes, seed), result in sorted(found.items())
    ]
    return table(("treebank", "changed settings", "seed", *F1), *lines)


def saved_segmenters() -> str:
    """Return F1 on raw text of saved segmenters, in eight bits; the newest row of dev, and the only one of test."""
    found = {}
    for row in read_rows("segmenter"):
        config = row["config"]
        if "weights" in config:
            found[config["treebank"], config["split"], config["model"]] = row["result"]
    lines = [
        (treebank, split, model, *_cells(result), f"{result['parameters'] / 1e6:.1f}M")
        for (treebank, split, model), result in sorted(found.items())
    ]
    return table(("treebank", "split", "folder", *F1, "parameters"), *lines)


def _cells(result: Mapping[str, Any]) -> list[str]:
    return [percent(result[name]) for name in F1]


SEGMENTERS: dict[str, Callable[[], str]] = {each.__name__: each for each in (trained_segmenters, saved_segmenters)}
