"""What parsing costs by length, batch size, T and the number of labels, and the plots of it in docs/speed.md."""

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
WORDS = {"cpu": 1600, "cuda": 200_000}  # that are parsed for a point, or one sentence
SENTENCES = {"cpu": 120, "cuda": 20_000}  # of dev, for the other curves
BATCHES = {"cpu": (125, 250, 500, 1000, 2000, 4000), "cuda": (1000, 4000, 16_000, 64_000, 256_000)}  # pieces
STEPS = (1, 2, 3, 4)
LABELS = (5, 10, 20, 50, 100, 200)
LABEL_WEIGHT = "scorer.label_weight"
NEVER = -1e4  # a score with which no label wins


@command(
    MODEL,
    CPU_OR_CUDA,
    option("--share", type=float, default=1.0, help="of the words that a point usually takes (default: 1)"),
    ROUNDS.but(default=2),
    THREADS,
    TREEBANKS_FOLDER,
    ROWS_FILE,
)
def measure_speed_curves(options: argparse.Namespace) -> None:
    """Measure what parsing costs by length, batch size, T and the number of labels: one row.

    Sentences of a wanted length are made of the words of en_ewt dev, one after another. A model of fewer or more labels
    is the bundled one with some of its labels, or with copies of them that never win. All points of a curve are
    measured in turn, and the best of some rounds is taken.
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
    """So many sentences of this length, made of the words of others, no two alike as long as there are words.

    >>> [each.forms for each in sentences_of([Sentence.of_words(["a", "b", "c"])], 2, 2)]
    [('a', 'b'), ('c', 'a')]
    """
    words = cycle(form for sentence in sentences for form in sentence.forms)
    return [Sentence.of_words(list(islice(words, length))) for _ in range(number)]


def with_labels(model: ParserModel, number: int) -> ParserModel:
    """The same model with so many labels: some of its own, or all of them and copies that never win.

    So nearly all decisions stay as clear as they were. Random weights would leave many labels close to each other, and
    such sentences are scored twice.
    """
    old = model.vocabulary.labels
    root = model.settings.decode.root_label
    order = sorted(range(len(old)), key=lambda label: old[label] != root)  # the root's label comes first
    chosen = [order[each % len(old)] for each in range(number)]
    labels = tuple(old[label] if place < len(old) else f"copy{place}" for place, label in enumerate(chosen))
    made = ParserModel(model.settings, replace(model.vocabulary, labels=labels), model.subwords)
    kinds = [*chosen, len(old)]  # the last is the arc from a word's first piece to its others
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
    """The x of each point and its microseconds a word, the best of the rounds; before these is a warm-up."""
    best = dict.fromkeys(points, float("inf"))
    for number in range(rounds + 1):
        for x, (parser, sentences) in points.items():
            started = time.perf_counter()
            n_words = sum(map(len, parser.stream(sentences)))
            if number:
                best[x] = min(best[x], (time.perf_counter() - started) / n_words)
    return {"x": list(points), "microseconds_a_word": [round(1e6 * each, 2) for each in best.values()]}


def _peak(parser: Parser, sentences: Sequence[Sentence]) -> float:
    """The most memory that this process holds while it parses them, in MiB."""
    forget_peak(os.getpid())
    for _ in parser.stream(sentences):
        pass
    return memory(os.getpid(), "VmHWM")


PLACES = {"length": 40, "batch": 1000, "T": 1, "labels": 50}  # of each curve, the point that counts as 1
FROM_ZERO = (0.0, math.inf)
TITLES = {
    "length": ("Cost of a word by length", "words in a sentence"),
    "batch": ("Cost of a word by batch size", "pieces in a batch at most"),
    "T": ("Cost of a word by T", "steps at most (T)"),
    "labels": ("Cost of a word by number of labels", "labels of the model"),
}


def draw_curve(name: str, path: Path = ROWS) -> str | None:
    """One curve, a line a device; None where nothing was measured."""
    lines = []
    for device in DEVICES:
        row = newest("speed_curves", device, path=path)
        if row is None:
            continue
        curve = row["result"][name]
        cost = dict(zip(curve["x"], curve["microseconds_a_word"], strict=True))
        one = cost.get(PLACES[name]) or next(iter(cost.values()))
        marks = tuple(Mark(f"{x:g}", each / one) for x, each in cost.items())  # names: the places are far apart
        lines.append(Line("CPU" if device == "cpu" else "GPU", marks))
    if not lines:
        return None
    title, x_title = TITLES[name]
    y_title = f"time a word; at {PLACES[name]:,} it is 1"
    return draw_lines(lines, title=title, x_title=x_title, y_title=y_title, y_format="{:.2f}", limits=FROM_ZERO)


def shown_figures(command: str, path: Path = ROWS) -> str:
    """The figures as a page shows them, and where they were measured."""
    rows = {device: newest("speed_curves", device, path=path) for device in DEVICES}
    known = [row for row in rows.values() if row is not None]
    if not known:
        return missing("cost against length, batch size, T and labels", command)
    pictures = "\n".join(f"![{title}](speed-{name}.svg)" for name, (title, _) in TITLES.items())
    costs = []
    for row in known:
        curve, config = row["result"]["length"], row["config"]
        cost = dict(zip(curve["x"], curve["microseconds_a_word"], strict=True))
        costs.append(
            f"{machine_of(row)}, {config['precision']}: a word of a sentence of {PLACES['length']} words takes "
            f"{cost[PLACES['length']]:,.1f} µs; a sentence of 2,000 words takes {row['result']['longest_peak_mib']:,} "
            "MiB, all of the process counted."
        )
    absent = [missing(f"the curves on {device}", command) for device, row in rows.items() if row is None]
    return "\n\n".join([pictures, *costs, *absent])


FIGURES: Mapping[str, Callable[[], str | None]] = {
    f"docs/speed-{name}.svg": partial(draw_curve, name) for name in TITLES
}
