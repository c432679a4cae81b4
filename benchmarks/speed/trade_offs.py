"""Measure the accuracy that faster parsing costs: reduced precision and early stopping."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.accuracy.decisions import wrong_words
from benchmarks.accuracy.model_rows import TAGGED, WORDS, gold_fields, treebank_path, without_tags
from benchmarks.markdown import Lines, folded, table
from benchmarks.options import (
    DEVICE,
    MODEL,
    OF_ONE_MODEL,
    ROUNDS,
    ROWS_FILE,
    SPLIT,
    THREADS,
    TREEBANK,
    TREEBANKS_FOLDER,
    command,
    count,
    dev_only,
)
from benchmarks.rows import model_fields, read_rows, save_row, torch_fields
from benchmarks.timing import in_turn, median_ratio
from treefine import Parser, Sentence, Step, evaluate, read_treebank
from treefine.config import Precision
from treefine.parsing.plan import precisions_of
from treefine.treebank.graph import Graph

EXACT: Precision = "float32"


@command(
    MODEL,
    TREEBANK,
    TREEBANKS_FOLDER,
    count("--limit", None, "use only the first sentences of dev"),
    ROUNDS,
    THREADS.but(default=None, help="number of CPU threads (default: torch's)"),
    DEVICE,
    ROWS_FILE,
)
def measure_precision(options: argparse.Namespace) -> None:
    """Measure the accuracy and speed of each precision, compared with float32, on a dev set; write one row.

    python -m benchmarks precision --model en
    python -m benchmarks precision --model en --device cuda --limit 200

    The precisions that the device supports take turns on the same sentences, with predicted and with given tags.
    """
    if options.threads:
        torch.set_num_threads(options.threads)
    gold = list(islice(read_treebank(options.treebanks / options.treebank / "dev.conllu.xz"), options.limit))
    parser = Parser.from_pretrained(options.model, device=options.device, precision=EXACT)
    parsers = {each: parser.using(precision=each) for each in precisions_of(parser.model, parser.device)}
    given = {WORDS: [without_tags(each) for each in gold]}
    if parser.model.settings.tags.source != "none":
        given[TAGGED] = gold
    result: dict[str, Any] = {}
    for kind, sentences in given.items():
        readers = {each: one.using(tags="given") if kind == TAGGED else one for each, one in parsers.items()}
        result[kind] = compared(readers, sentences, gold, rounds=options.rounds)
    options.split = "dev"
    config = model_fields(options.model) | gold_fields(options, gold) | torch_fields(parser.device.type)
    config |= {"T": parser.max_steps, "rounds": options.rounds}
    save_row("precision", config, result, path=options.rows)


def compared(
    parsers: dict[Precision, Parser], given: Sequence[Sentence], gold: Sequence[Sentence], *, rounds: int
) -> dict[str, dict[str, float]]:
    """Return accuracy, the share of sentences that differ from float32, and the median speed of each parser."""
    for parser in parsers.values():
        parser.parse(given[:50])  # a warm-up
    trees: dict[str, list[Sentence]] = {}

    def parse(name: str, parser: Parser) -> None:
        trees[name] = list(parser.stream_trees(given))

    times = in_turn({name: partial(parse, name, parser) for name, parser in parsers.items()}, rounds)
    scores = {name: evaluate(gold, found) for name, found in trees.items()}
    result: dict[str, dict[str, float]] = {}
    for name, found in trees.items():
        differing = sum(a.arcs != b.arcs for a, b in zip(found, trees[EXACT], strict=True))
        result[name] = {
            "UAS": round(scores[name]["UAS"].f1, 6),
            "LAS": round(scores[name]["LAS"].f1, 6),
            "LAS_lost": round(scores[EXACT]["LAS"].f1 - scores[name]["LAS"].f1, 6),
            "sentences_that_differ": round(differing / len(given), 6),
            "sentences_per_second": round(len(given) / statistics.median(times[name]), 1),
            "times_as_fast": round(median_ratio(times, EXACT, name), 2),
        }
    return result


LIMITS = (1.0, 0.99, 0.98, 0.97, 0.96, 0.95, 0.94, 0.93, 0.92, 0.91, 0.9, 0.8, 0.0)  # values of stop_above


class Refined(NamedTuple):
    """The steps of one sentence: the confidence of each, whether it converged, its right words, and its tree."""

    n_pieces: int
    sure: list[float]
    converged: list[bool]
    right: list[int]
    trees: list[Graph]

    def ends(self, limit: float) -> int:
        """Return the step, counted from 0, after which the sentence would stop."""
        stops = (sure > limit or converged for sure, converged in zip(self.sure, self.converged, strict=True))
        return next((t for t, is_one in enumerate(stops) if is_one), len(self.sure) - 1)


@command(
    *OF_ONE_MODEL[:2],
    SPLIT.but(type=dev_only, choices=None, help="only dev is allowed"),
    *OF_ONE_MODEL[3:],
    count("--limit", None, "use only the first sentences of dev"),
)
def measure_stopping(options: argparse.Namespace) -> None:
    """Measure accuracy and number of passes with early stopping, on dev; write one row.

    All sentences are refined to convergence once; the result of each limit is derived from their steps.

    python -m benchmarks stopping --model en
    """
    gold = list(islice(read_treebank(treebank_path(options)), options.limit))
    parser = Parser.from_pretrained(options.model, device=options.device)
    config = model_fields(options.model) | gold_fields(options, gold)
    config |= {"max_steps": parser.max_steps, "precision": parser.precision}
    untagged = [without_tags(sentence) for sentence in gold]
    result = {WORDS: limits_of(refined_by(parser, untagged, gold), gold)}
    if parser.model.settings.tags.source != "none":
        result[TAGGED] = limits_of(refined_by(parser.using(tags="given"), gold, gold), gold)
    save_row("stopping", config, result, path=options.rows)


def refined_by(parser: Parser, sentences: Sequence[Sentence], gold: Sequence[Sentence]) -> list[Refined]:
    """Return all steps of the sentences."""
    return [
        refined_of(parser, steps, right) for (_, steps), right in zip(parser.stream_steps(sentences), gold, strict=True)
    ]


def refined_of(parser: Parser, steps: Sequence[Step], gold: Sentence) -> Refined:
    """Return what the limits need to know of the steps of one sentence."""
    subwords = parser.model.subwords
    n_pieces = len(gold) if subwords is None else sum(map(len, subwords.pieces_of(gold.forms)))
    before = [None, *(step.graph for step in steps[:-1])]
    return Refined(
        n_pieces,
        [sureness_of(step, read) for step, read in zip(steps, before, strict=True)],
        [step.converged for step in steps],
        [right_words(step.tree, gold.graph) for step in steps],
        [step.tree for step in steps],
    )


def sureness_of(step: Step, read: Graph | None) -> float:
    """Return the confidence of a step, as `treefine.parsing.invariance` computes it; `read` is the graph it read."""
    sure = step.arc_probabilities[1:].max(1) * step.label_probabilities[1:].max(1)
    if read is not None:
        pairs = zip(step.graph.heads[1:], step.graph.labels[1:], read.heads[1:], read.labels[1:], strict=True)
        sure[[(head, label) == (old_head, old_label) for head, label, old_head, old_label in pairs]] = 1
    return float(sure.mean())


def right_words(tree: Graph, gold: Graph) -> int:
    """Count the words that have their gold head and main type."""
    return len(gold) - len(wrong_words(tree, gold))


def limits_of(refined: Sequence[Refined], gold: Sequence[Sentence]) -> list[dict[str, Any]]:
    """Return passes per sentence and per piece, LAS, and the share of trees that differ, for each limit."""
    n_words, pieces = sum(map(len, gold)), np.array([each.n_pieces for each in refined])
    found = []
    for limit in LIMITS:
        last = np.array([each.ends(limit) for each in refined])
        right = sum(each.right[t] for each, t in zip(refined, last.tolist(), strict=True))
        changed = sum(each.trees[t] != each.trees[-1] for each, t in zip(refined, last.tolist(), strict=True))
        found.append(
            {
                "stop_above": limit,
                "passes": round(float((last + 1).mean()), 4),
                "passes_by_pieces": round(float(((last + 1) * pieces).sum() / pieces.sum()), 4),
                "LAS": round(right / n_words, 6),
                "other_trees": round(changed / len(refined), 6),
            }
        )
    return found


GIST = (1.0, 0.97, 0.94, 0.9, 0.0)  # the limits that a page shows first


def stopping() -> str:
    """Return the newest row as a table: first some limits, then all of them, folded, for each kind of input."""
    rows = read_rows("stopping")
    if not rows:
        return "Not measured yet."
    row = rows[-1]
    config, result = row["config"], row["result"]
    found = next(iter(result.values()))
    details = [f"Input: {each}.\n\n{_limits_table(all_limits)}" for each, all_limits in result.items()]
    details.append(
        f"{config['sentences']:,} sentences of {config['treebank']} {config['split']}, model `{config['model']}`, "
        f'T = {config["max_steps"]}, {config["precision"]}. "Passes per piece" weights each sentence by its length in '
        f"sub-words. `python -m benchmarks stopping`, commit {row['commit']}."
    )
    return "\n\n".join(
        [_limits_table(found, GIST), folded("All values, and how it was measured", "\n\n".join(details))]
    )


def _limits_table(found: Sequence[dict[str, Any]], shown: Sequence[float] | None = None) -> str:
    lines: Lines = [
        ("`stop_above`", "passes per sentence", "passes per piece", "LAS on dev", "difference", "trees that differ")
    ]
    for each in found:
        if shown is None or each["stop_above"] in shown:
            las, difference = 100 * each["LAS"], 100 * (each["LAS"] - found[0]["LAS"])
            passes = f"{each['passes']:.2f}", f"{each['passes_by_pieces']:.2f}"
            other = f"{100 * each['other_trees']:.1f}%"
            lines.append((each["stop_above"], *passes, f"{las:.2f}", f"{difference:+.3f}", other))
    return table(*lines)
