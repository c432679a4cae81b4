"""Measure and plot the cost of parsing by sentence length, batch size, T and number of labels."""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle, islice
from pathlib import Path

import torch

from benchmarks.options import CPU_OR_CUDA, MODEL, ROUNDS, ROWS_FILE, THREADS, TREEBANKS_FOLDER, command, option
from benchmarks.peers.process import forget_peak, memory
from benchmarks.rows import (
    DEVICES,
    ROWS,
    english_path,
    machine_of,
    missing,
    model_fields,
    newest,
    save_row,
    torch_fields,
)
from treefine import Parser, Sentence, read_treebank
from treefine.evaluation.analysis.charts import Line, Mark, draw_lines
from treefine.model.parser_model import ParserModel

LENGTHS = (10, 20, 40, 80, 160, 400, 2000)  # words
WORDS = {"cpu": 1600, "cuda": 200_000}  # parsed per point, but at least one sentence
SENTENCES = {"cpu": 120, "cuda": 20_000}  # of dev, for the other curves
BATCHES = {"cpu": (125, 250, 500, 1000, 2000, 4000), "cuda": (1000, 4000, 16_000, 64_000, 256_000)}  # pieces
STEPS = (1, 2, 3, 4)
LABELS = (5, 10, 20, 50, 100, 200)
LABEL_WEIGHT = "scorer.label_weight"
NEVER = -1e4  # with this score a label never wins


@command(
    MODEL,
    CPU_OR_CUDA,
    option("--share", type=float, default=1.0, help="share of the usual number of words per point (default: 1)"),
    ROUNDS.but(default=2),
    THREADS,
    TREEBANKS_FOLDER,
    ROWS_FILE,
)
def measure_speed_curves(options: argparse.Namespace) -> None:
    """Measure the cost of parsing by sentence length, batch size, T and number of labels; write one row.

    Sentences of each length consist of consecutive words of en_ewt dev. A model with fewer or more labels is the
    bundled one with some of its labels, or with copies that never win. All points of a curve take turns, and the best
    round counts.
    """
    if options.threads:
        torch.set_num_threads(options.threads)
    device = options.device
    parser = Parser.from_pretrained(options.model, device=device)
    dev = [Sentence.of_words(each.forms) for each in read_treebank(english_path(options.treebanks, "dev"))]
    some = list(islice(cycle(dev), max(1, round(SENTENCES[device] * options.share))))
    n_words = max(1, round(WORDS[device] * options.share))
    made = {length: sentences_of(dev, length, max(1, n_words // length)) for length in LENGTHS}
    by_batch = {size: _with_batches(parser, size) for size in BATCHES[device]}
    by_steps = {steps: parser.using(max_steps=steps) for steps in STEPS}
    by_labels = {number: _with_labels(parser, number) for number in LABELS}
    of_length = {x: (parser, each) for x, each in made.items()}
    result = {
        "length": _curve(of_length, options.rounds),
        "batch": _curve({x: (each, some) for x, each in by_batch.items()}, options.rounds),
        "T": _curve({x: (each, some) for x, each in by_steps.items()}, options.rounds),
        "labels": _curve({x: (each, some) for x, each in by_labels.items()}, options.rounds),
        "longest_peak_mib": round(_peak(parser, made[LENGTHS[-1]])),
    }
    config = {
        "precision": parser.precision,
        "T": parser.max_steps,
        "sentences": len(some),
        "rounds": options.rounds,
    } | (model_fields(options.model) | torch_fields(device))
    save_row("speed_curves", config, result, path=options.rows)


def sentences_of(sentences: Sequence[Sentence], length: int, number: int) -> list[Sentence]:
    """Return `number` sentences of this length made of the words of others, all different if there are enough words.

    >>> [each.forms for each in sentences_of([Sentence.of_words(["a", "b", "c"])], 2, 2)]
    [('a', 'b'), ('c', 'a')]
    """
    words = cycle(form for sentence in sentences for form in sentence.forms)
    return [Sentence.of_words(list(islice(words, length))) for _ in range(number)]


def with_labels(model: ParserModel, number: int) -> ParserModel:
    """Return the model with this many labels: some of its own, or all of them and copies that never win.

    Nearly all decisions stay as clear as before. With random weights many labels would have nearly equal scores, and
    these sentences would be scored twice.
    """
    old = model.vocabulary.labels
    root = model.settings.decode.root_label
    order = sorted(range(len(old)), key=lambda label: old[label] != root)  # the root's label comes first
    chosen = [order[each % len(old)] for each in range(number)]
    labels = tuple(old[label] if place < len(old) else f"copy{place}" for place, label in enumerate(chosen))
    made = ParserModel(model.settings, replace(model.vocabulary, labels=labels), model.subwords)
    kinds = [*chosen, len(old)]  # the last is the arc from a word's first piece to its other pieces
    rows = [0, *(1 + kind for kind in kinds), *(1 + len(old) + 1 + kind for kind in kinds)]
    weights = model.state_dict()
    for name, each in weights.items():
        if name.endswith(("relations.keys", "relations.values")):
            weights[name] = each[rows]
    weights[LABEL_WEIGHT] = weights[LABEL_WEIGHT][chosen].clone()
    weights[LABEL_WEIGHT][len(old) :, -1, -1] = NEVER  # the constant part of a label's score
    made.load_state_dict(weights)
    return made.eval()


def _with_labels(parser: Parser, number: int) -> Parser:
    model = with_labels(parser.model, number)
    return Parser(model, device=parser.device, precision=parser.precision, max_steps=2)


def _with_batches(parser: Parser, pieces: int) -> Parser:
    return Parser(parser.model, device=parser.device, precision=parser.precision, batch_pieces=pieces)


def _curve(points: Mapping[int, tuple[Parser, Sequence[Sentence]]], rounds: int) -> dict[str, list[float]]:
    """Return the x of each point and its microseconds per word: the best round after a warm-up."""
    best = dict.fromkeys(points, float("inf"))
    for number in range(rounds + 1):
        for x, (parser, sentences) in points.items():
            started = time.perf_counter()
            n_words = sum(map(len, parser.stream_trees(sentences)))
            if number:
                best[x] = min(best[x], (time.perf_counter() - started) / n_words)
    return {"x": list(points), "microseconds_a_word": [round(1e6 * each, 2) for each in best.values()]}


def _peak(parser: Parser, sentences: Sequence[Sentence]) -> float:
    """Return the peak memory of this process while it parses the sentences, in MiB."""
    forget_peak(os.getpid())
    for _ in parser.stream_trees(sentences):
        pass
    return memory(os.getpid(), "VmHWM")


PLACES = {"length": 40, "batch": 1000, "T": 1, "labels": 50}  # the point of each curve whose cost is 1
FROM_ZERO = (0.0, math.inf)
TITLES = {
    "length": ("Cost per word by sentence length", "words per sentence"),
    "batch": ("Cost per word by batch size", "maximal pieces per batch"),
    "T": ("Cost per word by T", "maximal number of steps (T)"),
    "labels": ("Cost per word by number of labels", "number of labels"),
}


def draw_curve(name: str, path: Path = ROWS) -> str | None:
    """Draw one curve with a line per device; None if nothing was measured."""
    lines = []
    for device in DEVICES:
        row = newest("speed_curves", device, path=path)
        if row is None:
            continue
        curve = row["result"][name]
        cost = dict(zip(curve["x"], curve["microseconds_a_word"], strict=True))
        one = cost.get(PLACES[name]) or next(iter(cost.values()))
        marks = tuple(Mark(f"{x:g}", each / one) for x, each in cost.items())  # names, because the values are far apart
        lines.append(Line("CPU" if device == "cpu" else "GPU", marks))
    if not lines:
        return None
    title, x_title = TITLES[name]
    y_title = f"time per word ({PLACES[name]:,} = 1)"
    return draw_lines(lines, title=title, x_title=x_title, y_title=y_title, y_format="{:.2f}", limits=FROM_ZERO)


def shown_figures(command: str, path: Path = ROWS) -> str:
    """Return the figures and where they were measured."""
    rows = {device: newest("speed_curves", device, path=path) for device in DEVICES}
    known = [row for row in rows.values() if row is not None]
    if not known:
        return missing("cost by length, batch size, T and labels", command)
    pictures = "\n".join(f"![{title}](speed-{name}.svg)" for name, (title, _) in TITLES.items())
    costs = []
    for row in known:
        curve, config = row["result"]["length"], row["config"]
        cost = dict(zip(curve["x"], curve["microseconds_a_word"], strict=True))
        costs.append(
            f"{machine_of(row)}, {config['precision']}: a word takes {cost[PLACES['length']]:,.1f} µs in sentences of "
            f"{PLACES['length']} words. The process needs {row['result']['longest_peak_mib']:,} MiB for a sentence of "
            "2,000 words."
        )
    return "\n\n".join([pictures, *costs])


FIGURES: Mapping[str, Callable[[], str | None]] = {
    f"docs/speed-{name}.svg": partial(draw_curve, name) for name in TITLES
}
