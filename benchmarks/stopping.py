"""What it costs, and what it saves, to refine no further once a sentence is sure enough. One row, of dev.

All sentences are refined to the end once; what each limit would have given is read from their steps.

python -m benchmarks stopping --model en
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from benchmarks.markdown import table
from benchmarks.model_rows import TAGGED, WORDS, add_model_options, treebank_path, weights_checksum, without_tags
from benchmarks.predictions import checksum
from benchmarks.rows import read_rows, save_row
from treefine import Parser, Sentence, Step, read_treebank
from treefine.model.bundled import find_model
from treefine.treebank.graph import Graph

LIMITS = (1.0, 0.99, 0.98, 0.97, 0.96, 0.95, 0.94, 0.93, 0.92, 0.91, 0.9, 0.8, 0.0)  # values of stop_above


class Refined(NamedTuple):
    """The steps of one sentence: how sure each is, whether it is the last one, its right words, and its tree."""

    n_pieces: int
    sure: list[float]
    converged: list[bool]
    right: list[int]
    trees: list[Graph]

    def ends(self, limit: float) -> int:
        """The step, counted from 0, after which it would stop."""
        stops = (sure > limit or converged for sure, converged in zip(self.sure, self.converged, strict=True))
        return next((t for t, is_one in enumerate(stops) if is_one), len(self.sure) - 1)


def measure_stopping(arguments: Sequence[str]) -> None:
    """The command."""
    options = _options(arguments)
    folder = find_model(options.model)
    gold = list(islice(read_treebank(treebank_path(options)), options.limit))
    parser = Parser.from_pretrained(folder, device=options.device)
    config = {
        "model": folder.name,
        "weights": weights_checksum(folder),
        "treebank": options.treebank,
        "split": options.split,
        "gold": checksum(gold),
        "sentences": len(gold),
        "max_steps": parser.max_steps,
        "precision": parser.precision,
    }
    untagged = [without_tags(sentence) for sentence in gold]
    result = {WORDS: limits_of(refined_by(parser, untagged, gold), gold)}
    if parser.model.settings.tags.source != "none":
        result[TAGGED] = limits_of(refined_by(parser.using(tags="given"), gold, gold), gold)
    save_row("stopping", config, result, path=options.rows)


def refined_by(parser: Parser, sentences: Sequence[Sentence], gold: Sequence[Sentence]) -> list[Refined]:
    """All steps of the sentences."""
    return [
        refined_of(parser, steps, right) for (_, steps), right in zip(parser.stream_steps(sentences), gold, strict=True)
    ]


def refined_of(parser: Parser, steps: Sequence[Step], gold: Sentence) -> Refined:
    """What is to be known of the steps of one sentence."""
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
    """As `treefine.parsing.invariance` has it, of the step of one sentence, which read a graph or none."""
    sure = step.arc_probabilities[1:].max(1) * step.label_probabilities[1:].max(1)
    if read is not None:
        pairs = zip(step.graph.heads[1:], step.graph.labels[1:], read.heads[1:], read.labels[1:], strict=True)
        sure[[(head, label) == (old_head, old_label) for head, label, old_head, old_label in pairs]] = 1
    return float(sure.mean())


def right_words(tree: Graph, gold: Graph) -> int:
    """How many words have their gold head and main type."""
    pairs = zip(tree.heads[1:], tree.labels[1:], gold.heads[1:], gold.labels[1:], strict=True)
    return sum((head, _main(label)) == (right, _main(name)) for head, label, right, name in pairs)


def _main(label: str) -> str:
    return label.partition(":")[0]


def limits_of(refined: Sequence[Refined], gold: Sequence[Sentence]) -> list[dict[str, Any]]:
    """For each limit: passes, by sentences and by pieces; LAS; and how many trees are not those of all steps."""
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


def stopping() -> str:
    """The newest row, as a table for each kind of input."""
    rows = read_rows("stopping")
    if not rows:
        return "Not measured yet."
    row = rows[-1]
    config, parts = row["config"], []
    for given, found in row["result"].items():
        lines: list[tuple[object, ...]] = [
            (f"`stop_above`, {given}", "passes a sentence", "passes a piece", "LAS", "difference", "other trees")
        ]
        for each in found:
            las, difference = 100 * each["LAS"], 100 * (each["LAS"] - found[0]["LAS"])
            passes = f"{each['passes']:.2f}", f"{each['passes_by_pieces']:.2f}"
            other = f"{100 * each['other_trees']:.1f} %"
            lines.append((each["stop_above"], *passes, f"{las:.2f}", f"{difference:+.3f}", other))
        parts.append(table(*lines))
    return "\n\n".join(
        [
            *parts,
            f"{config['sentences']:,} sentences of {config['treebank']} {config['split']}, model `{config['model']}`, "
            f"T = {config['max_steps']}, {config['precision']}. `python -m benchmarks stopping`, commit "
            f"{row['commit']}.",
        ]
    )


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks stopping", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_model_options(parser)
    parser.add_argument("--limit", type=int, default=None, help="the first so many sentences; all")
    options = parser.parse_args(arguments)
    if options.split != "dev":
        parser.error("--split: only dev is looked at")
    return options
