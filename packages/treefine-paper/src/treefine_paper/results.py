"""Measure a trained system on dev or test: scores and costs in a JSON file, the trees of each step in another."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch

from treefine.errors import TreefineError
from treefine.evaluation.scores import evaluate
from treefine.model.parser_model import ParserModel
from treefine.parsing.initial import given
from treefine.parsing.parser import Parser
from treefine.training.folder import FolderNames
from treefine.treebank.conllu import read_treebank
from treefine.treebank.files import open_output
from treefine.treebank.graph import Graph
from treefine.treebank.sentence import Sentence
from treefine_paper.biaffine import COSTS, trees_file
from treefine_paper.predictions import Predictions, predictions_of, save_predictions, treebank_of

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
    UAS_by_step: tuple[float | None, ...]  # from t = 0; None without initial parses
    LAS_by_step: tuple[float | None, ...]
    changed_by_step: tuple[float, ...]  # the fraction of the sentences that each step changed
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
    changes: tuple[str, ...] = ()  # of single settings
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
    """Read all scores in a folder."""
    results = []
    for path in sorted(folder.glob("*.json")):
        try:
            results.append(result_of(json.loads(path.read_bytes())))
        except (ValueError, TypeError):
            hint = "Remove it; the next run measures the system again."
            raise TreefineError("The file is damaged.", hint=hint, path=str(path)) from None
    return results


def result_of(values: dict[str, Any]) -> SystemResult:
    """Return a result from JSON, which has lists instead of tuples; other fields are ignored."""
    names = {field.name for field in fields(SystemResult)} & set(values)
    known: dict[str, Any] = {name: tuple(x) if isinstance(x := values[name], list) else x for name in names}
    return SystemResult(**known)


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
    """Return UAS and LAS of the final trees and by step, and the fraction of sentences that each step changed."""
    by_step = [evaluate(gold, treebank_of(predictions, gold, t=t), rule=rule) for t in predictions.steps]
    none = [None] * predictions.first  # without an initial parse, t = 0 has no trees
    result: dict[str, Any] = {}
    for name in ("UAS", "LAS"):
        result[name] = round(by_step[-1][name].f1, 6)
        result[f"{name}_by_step"] = none + [round(step[name].f1, 6) for step in by_step]
    graphs = [predictions.graphs(t) for t in predictions.steps]
    changes = [sum(map(Graph.__ne__, *two)) for two in zip(graphs, graphs[1:], strict=False)]
    result["changed_by_step"] = [1.0] * predictions.first + [round(change / len(gold), 6) for change in changes]
    return result


def timed_parse(parser: Parser, gold: Sequence[Sentence]) -> tuple[list[Sentence], float]:
    """Return the trees of a plain parse, and its seconds."""
    start = time.perf_counter()
    parsed = list(parser.stream_trees(gold))
    if parser.device.type == "cuda":
        torch.cuda.synchronize(parser.device)
    return parsed, time.perf_counter() - start


def n_parameters(model: ParserModel) -> int:
    """Return the number of parameters, pretrained ones included."""
    return sum(weight.numel() for weight in model.parameters())


def device_name(device: torch.device) -> str:
    """Return the name of a GPU, or `cpu`."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def measure_model(parser: Parser, gold: Sequence[Sentence]) -> tuple[Predictions, dict[str, Any]]:
    """Return the trees of a model, and what they cost."""
    predictions = parsed_steps(parser, gold)
    _, seconds = timed_parse(parser, gold)
    initial = parser.initial
    return predictions, {
        "parameters": n_parameters(parser.model),
        "initial_parameters": n_parameters(initial.model) if isinstance(initial, Parser) else 0,
        "parsing_seconds": round(seconds, 3),
    }


def measure_biaffine(
    model: Path, gold: Sequence[Sentence], split: str, form: str | None
) -> tuple[Predictions, dict[str, Any]]:
    """Return the trees that the biaffine parser has written, and what they cost."""
    trees = [sentence.graph for sentence in read_treebank(str(trees_file(model, split)), format=form)]
    costs = biaffine_costs(model)
    facts = {"parameters": costs["parameters"], "parsing_seconds": round(costs["seconds"][split], 3)}
    return predictions_of(gold, [trees], first=1), facts | {"initial_parameters": 0}


def biaffine_costs(model: Path) -> dict[str, Any]:
    """Return the number of parameters of a biaffine parser, and its seconds for each split."""
    costs: dict[str, Any] = json.loads((model / COSTS).read_bytes())
    return costs


def write_result(
    identity: dict[str, Any], gold: Sequence[Sentence], predictions: Predictions, training: Path, folder: Path
) -> SystemResult:
    """Write the trees and the scores into `folder`, and return the scores.

    `training` is the output folder of the training. `identity` has the fields that do not follow from the rest.
    """
    name = result_name(*(identity[key] for key in ("treebank", "system", "seed", "split")))
    folder.mkdir(parents=True, exist_ok=True)
    digest = save_predictions(predictions, folder / f"{name}{TREES_SUFFIX}")
    path = training / FolderNames.metrics
    epochs = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    best: dict[str, Any] = max((each for each in epochs if "LAS" in each), key=lambda each: each["LAS"], default={})
    values = {
        "sentences": len(gold),
        "words": sum(map(len, gold)),
        "training_seconds": round(float(epochs[-1]["seconds"]), 1) if epochs else None,
        "epochs": len(epochs) or None,
        "updates": epochs[-1].get("updates") if epochs else None,
        "best_epoch": best.get("epoch"),
        "sha256": digest,
        "when": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    result = result_of(identity | scores(predictions, gold, rule=identity["rule"]) | values)
    save_result(result, folder)
    return result


def chosen_seed(results: Iterable[SystemResult]) -> int:
    """Return the seed with the best sum of dev LAS; of equal ones, the lowest. 0 without results."""
    sums: dict[int, float] = {}
    for result in results:
        if result.split == "dev":
            sums[result.seed] = sums.get(result.seed, 0.0) + result.LAS
    return min(sums, key=lambda seed: (-sums[seed], seed), default=0)
