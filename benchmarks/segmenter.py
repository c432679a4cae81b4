"""Train a segmenter on a treebank and measure it on the raw text of dev: a line an epoch, then a row.

python -m benchmarks segmenter en_ewt --set epochs=40 --set network.run_hidden=128 --output runs --rows rows.jsonl
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.rows import ROWS, TREEBANKS, save_row
from treefine import read_treebank
from treefine.config import read_settings
from treefine.parsing.device import find_device
from treefine.training.segmenter import SegmenterLearner, measured
from treefine.training.segmenter_settings import SegmenterTraining
from treefine.treebank.raw_text import raw_text

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found]


def measure_segmenter(arguments: Sequence[str]) -> None:
    """The command."""
    options = _options(arguments)
    settings = read_settings(SegmenterTraining, tomllib.loads("\n".join(options.set)))
    train, dev = (
        list(read_treebank(options.treebanks / options.treebank / f"{split}.conllu.xz"))[: options.sentences]
        for split in ("train", "dev")
    )
    device = find_device(options.device)
    title = re.sub(r"[^A-Za-z0-9_.-]+", "-", "-".join([options.treebank, *options.set, f"seed{options.seed}"]))
    learner = SegmenterLearner(train, dev, settings, seed=options.seed, device=device)
    best_epoch, trained_seconds = 0, 0.0
    for epoch in learner.epochs():
        best_epoch, trained_seconds = epoch.epoch if epoch.is_best else best_epoch, epoch.seconds
        f1 = "  ".join(f"{name} {each.f1:.2%}" for name, each in epoch.scores.items())
        mark = " *" if epoch.is_best else ""
        print(
            f"{title} {epoch.epoch}/{settings.epochs} {epoch.loss:.4f}  {f1}  {epoch.seconds:.0f} s{mark}", flush=True
        )
    segmenter = learner.segmenter
    if options.output is not None:
        segmenter.save(options.output / title)
    text = raw_text(dev).text
    start = time.perf_counter()
    n_sentences = len(segmenter.segment(text))
    speed = round(len(text) / (time.perf_counter() - start))
    scores = measured(segmenter, text, dev)
    result: dict[str, Any] = {name: round(each.f1, 6) for name, each in scores.items()}
    result |= {"best_epoch": best_epoch, "seconds": round(trained_seconds, 1), "device": device.type}
    result |= {"found_sentences": n_sentences, "characters_per_second": speed}
    result |= {"parameters": sum(each.numel() for each in segmenter.network.parameters())}
    config = {"treebank": options.treebank, "seed": options.seed, "changes": options.set, "settings": asdict(settings)}
    save_row("segmenter", config, result, path=options.rows)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks segmenter", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("treebank", help="a folder of the treebanks")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change one setting")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, help="where to save the segmenter, in a folder of its own")
    parser.add_argument("--rows", type=Path, default=ROWS)
    parser.add_argument("--device", default=None)
    parser.add_argument("--treebanks", type=Path, default=TREEBANKS)
    parser.add_argument("--sentences", type=int, default=None, help="of each split, for a rehearsal; all")
    return parser.parse_args(arguments)
