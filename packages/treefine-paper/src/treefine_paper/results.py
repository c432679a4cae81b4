"""The scores and costs of a trained system, which are saved as JSON, and the trees of each step of a parser."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from treefine.errors import TreefineError
from treefine.evaluation.scores import evaluate
from treefine.model.parser_model import ParserModel
from treefine.parsing.initial import given
from treefine.parsing.parser import Parser
from treefine.treebank.files import open_output
from treefine.treebank.graph import Graph
from treefine.treebank.sentence import Sentence
from treefine_paper.predictions import Predictions, predictions_of, treebank_of

TREES_SUFFIX = ".trees.xz"


@dataclass(frozen=True)
class SystemResult:
    """The scores of one trained system on dev or test, and what they cost."""

    treebank: str
    system: str
    seed: int
    split: str  # dev or test
    encoder: str
    start: str  # of the weights: the encoder, or the model of all treebanks
    rule: str  # of the scores
    tags: str  # where the tags come from: given, predicted or none
    gold_file: str
    release: str  # of UD; empty if the folder does not name it
    train_sentences: int
    sentences: int
    words: int
    UAS: float
    LAS: float
    UAS_by_step: Sequence[float | None]  # from t = 0; None without initial parses
    LAS_by_step: Sequence[float | None]
    parameters: int
    initial_parameters: int
    parsing_seconds: float
    device: str
    training_seconds: float | None
    epochs: int | None  # that were run
    updates: int | None  # of the weights: one per batch and step
    best_epoch: int | None
    sha256: str  # of the file of trees
    settings: str = "paper"  # or by-size
    changes: Sequence[str] = ()  # of single settings
    when: str = ""  # the time of the measurement (UTC)

    @property
    def name(self) -> str:
        """The name of the files of this result, without their endings."""
        return result_name(self.treebank, self.system, self.seed, self.split)


def result_name(treebank: str, system: str, seed: int, split: str) -> str:
    """Return the name of the files of a result.

    >>> result_name("tr_imst", "syntr", 1, "dev")
    'tr_imst-syntr-seed1-dev'
    """
    return f"{treebank}-{system}-seed{seed}-{split}"


def save_result(result: SystemResult, folder: Path) -> None:
    """Write the scores as JSON."""
    with open_output(folder / f"{result.name}.json") as file:
        file.write(json.dumps(asdict(result), indent=1).encode() + b"\n")


def load_results(folder: Path) -> list[SystemResult]:
    """Read all scores in a folder; fields of other versions are ignored."""
    names, results = {field.name for field in fields(SystemResult)}, []
    for path in sorted(folder.glob("*.json")):
        try:
            values = {name: value for name, value in json.loads(path.read_bytes()).items() if name in names}
            results.append(SystemResult(**values))
        except (ValueError, TypeError):
            hint = "Remove it; the next run measures the system again."
            raise TreefineError("The file is damaged.", hint=hint, path=str(path)) from None
    return results


def parsed_steps(parser: Parser, gold: Sequence[Sentence]) -> Predictions:
    """Return the tree after each step (a stopped sentence keeps its last), and the initial parses if all are trees."""
    initial = None
    if isinstance(parser.initial, Parser):
        initial = list(parser.initial.stream_trees(gold))
    elif any(head is not None for arcs in parser.initial(gold) for head in arcs.heads):
        initial = [
            sentence.with_graph(Graph.of_words([head or 0 for head in arcs.heads], arcs.labels))
            for sentence, arcs in zip(gold, parser.initial(gold), strict=True)
        ]
    if initial is not None:
        parses = initial
        parser = parser.using(initial=lambda _: given(parses), max_steps=parser.max_steps)
    steps = [[step.tree for step in steps] for _, steps in parser.stream_steps(gold)]
    trees = [[own[min(t, len(own)) - 1] for own in steps] for t in range(1, parser.max_steps + 1)]
    if initial is None or not all(sentence.graph.is_tree for sentence in initial):  # the scorer rejects other graphs
        return predictions_of(gold, trees, first=1)
    return predictions_of(gold, [[sentence.graph for sentence in initial], *trees], first=0)


def scores(predictions: Predictions, gold: Sequence[Sentence], *, rule: str) -> dict[str, Any]:
    """Return UAS and LAS of the final trees and by step."""
    by_step = [evaluate(gold, treebank_of(predictions, gold, t=t), rule=rule) for t in predictions.steps]
    none = [None] * predictions.first  # without an initial parse, t = 0 has no trees
    result: dict[str, Any] = {}
    for name in ("UAS", "LAS"):
        result[name] = round(by_step[-1][name].f1, 6)
        result[f"{name}_by_step"] = none + [round(step[name].f1, 6) for step in by_step]
    return result


def n_parameters(model: ParserModel) -> int:
    """Return the number of parameters, pretrained ones included."""
    return sum(weight.numel() for weight in model.parameters())


def chosen_seed(results: Iterable[SystemResult]) -> int:
    """Return the seed with the best sum of dev LAS; of equal ones, the lowest. 0 without results."""
    sums: dict[int, float] = {}
    for result in results:
        if result.split == "dev":
            sums[result.seed] = sums.get(result.seed, 0.0) + result.LAS
    return min(sums, key=lambda seed: (-sums[seed], seed), default=0)
