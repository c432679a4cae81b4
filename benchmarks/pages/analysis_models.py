"""Choose the models of the refinement analysis, load what each step did on dev, and tabulate their costs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from benchmarks.accuracy.model_rows import Group, grouped
from benchmarks.markdown import NONE, Lines, percent, table
from benchmarks.pages.results import short, title
from benchmarks.rows import PREDICTIONS, TREEBANKS, Row, read_rows, save_row
from treefine import Sentence, TreefineError, read_treebank
from treefine.evaluation.analysis.export import costs_table
from treefine.evaluation.analysis.export import reduction_text as reduction
from treefine.evaluation.analysis.refinement import LARGE, Costs, Refinement, mean, refinement_of, together
from treefine.evaluation.scores import relative_error_reduction
from treefine.training.train import FolderNames
from treefine.wording import clock, count
from treefine_paper import paper
from treefine_paper.predictions import checksum, load_predictions

NAMES = ("en_ewt", "ko_gsd", "tr_imst")  # the paper's treebanks that are available here
KINDS = {  # the paper's name of a model: its initial parser
    "SynTr+RNGTr": "SynTr",
    "Biaffine+RNGTr": "the biaffine parser",
    "Empty+RNGTr": "an empty graph",
}
LOW, HIGH = paper.LOW, paper.HIGH


@dataclass(frozen=True)
class Model:
    """The trainings of one recipe on one treebank, which differ only in their seed."""

    treebank: str
    kind: str
    recipe: str
    encoder: str
    chosen: int  # the seed with the best dev LAS
    results: Mapping[int, Mapping[str, Any]]  # the result of each seed's row

    @property
    def predictions(self) -> dict[int, str]:
        """The file of trees of each seed."""
        return {seed: result["predictions"] for seed, result in self.results.items()}

    @property
    def is_mixed(self) -> bool:
        """Whether it was trained to refine several initial parsers."""
        return self.recipe.endswith("-mixed")

    @property
    def las(self) -> float:
        """The mean dev LAS of its seeds."""
        return float(sum(each["LAS"] for each in self.results.values()) / len(self.results))


def models_of(groups: Sequence[Group], others: Sequence[Row] = ()) -> dict[str, dict[str, Model]]:
    """Return the model with the best mean dev LAS, by kind and treebank.

    `others` are rows of models that refined another parser's parses. A model for several initial parsers is analysed
    with the biaffine parser.
    """
    found: dict[str, dict[str, Model]] = {kind: {} for kind in KINDS}
    for model in [*_trained(groups), *_mixed(groups, others)]:
        best = found[model.kind].get(model.treebank)
        if best is None or model.las > best.las:
            found[model.kind][model.treebank] = model
    return {kind: dict(sorted(each.items())) for kind, each in found.items() if each}


def _trained(groups: Sequence[Group]) -> Iterator[Model]:
    """Yield the unchanged recipes with more than one step."""
    for group in groups:
        config = group.config
        if group.is_plain and group.dev and config["kind"] in KINDS and config["treebank"] in NAMES and config["T"] > 1:
            results = {seed: row["result"] for seed, row in sorted(group.dev.items())}
            yield Model(config["treebank"], config["kind"], config["recipe"], config["encoder"], group.chosen, results)


def _mixed(groups: Sequence[Group], others: Sequence[Row]) -> Iterator[Model]:
    """Yield the models of mixed recipes with the biaffine parser; the newest row of each seed."""
    encoders = {group.config["recipe"]: group.config["encoder"] for group in groups}
    found: dict[tuple[str, str], dict[int, Any]] = {}
    for row in others:
        config = row["config"]
        name = re.fullmatch(r"(.+-mixed)-seed(\d+)", config["model"])
        is_whole = config["treebank"] in NAMES and config["gold"] == checksum(gold_of(config["treebank"]))
        if name and config["parser"] == "biaffine" and config["tags"] == "given" and is_whole:
            found.setdefault((config["treebank"], name[1]), {})[int(name[2])] = row["result"]
    for (treebank, recipe), results in found.items():
        best = max(results, key=lambda seed: float(results[seed]["LAS"]))
        yield Model(treebank, "Biaffine+RNGTr", recipe, encoders.get(recipe, NONE), best, dict(sorted(results.items())))


@cache
def gold_of(treebank: str) -> tuple[Sentence, ...]:
    """Return the dev set of a treebank."""
    return tuple(read_treebank(Path(os.environ.get("TREEBANKS", TREEBANKS), treebank, "dev.conllu.xz")))


@cache
def all_models() -> dict[str, dict[str, Model]]:
    """Return the models of the rows."""
    return models_of(grouped(read_rows("accuracy")), read_rows("others"))


@cache
def syntr_las(treebank: str, encoder: str) -> float | None:
    """Return the mean dev LAS of SynTr with this encoder."""
    wanted = {"kind": "SynTr", "treebank": treebank, "encoder": encoder}
    groups = [each for each in grouped(read_rows("accuracy")) if each.is_plain and each.dev]
    return next((group.mean("LAS") for group in groups if wanted.items() <= group.config.items()), None)


@cache
def refinement_of_seed(treebank: str, predictions: str) -> Refinement:
    """Return what the steps of one training did."""
    gold, found = gold_of(treebank), load_predictions(PREDICTIONS / predictions)
    if found.gold != checksum(gold):
        raise TreefineError("These predictions were made from another treebank.", path=predictions)
    trees = [[graph.arcs for graph in found.graphs(t)] for t in found.steps]
    return refinement_of(gold, trees, first=found.first, name=treebank)


def refinement_of_model(model: Model) -> Refinement:
    """Return the mean over the seeds; the examples are those of the chosen seed."""
    seeds = sorted(model.predictions, key=lambda seed: seed != model.chosen)
    return mean([refinement_of_seed(model.treebank, model.predictions[seed]) for seed in seeds], name=model.treebank)


def refinement_of_all(models: Mapping[str, Model]) -> Refinement:
    """Concatenate the treebanks of one kind of model; each counts once, whatever its number of seeds."""
    return together([refinement_of_model(model) for model in models.values()], name=", ".join(models))


def training_sizes(readme: str) -> dict[str, int]:
    """Return the number of training sentences of each treebank, from the table in the treebanks' README.

    >>> training_sizes("| xx_yy | UD_X | r2.3 | CC0 | 1,234 / 5,678 | 1 / 2 |")
    {'xx_yy': 1234}
    """
    rows = re.findall(r"^\| (\w+) \| [^|]* \| [^|]* \| [^|]* \| ([\d,]+) /", readme, re.MULTILINE)
    return {name: int(number.replace(",", "")) for name, number in rows}


@cache
def sizes() -> dict[str, int]:
    """Return the number of training sentences of the treebanks next to this checkout."""
    return training_sizes((TREEBANKS.parent / "README.md").read_text())


def resource(treebank: str) -> str:
    """Return the paper's name for the size of a training set."""
    return HIGH if sizes()[treebank] > LARGE else LOW


TIMED = "en_ewt"  # of the paper's run times
WARM_UP = 50  # sentences; the first ones take longer


def measure_step_times(name: str, rows: Path, device: str | None) -> None:
    """Refine en_ewt dev with a model, and save the seconds of each step as a row."""
    from treefine import Parser
    from treefine.cli.analyse import costs_of
    from treefine.parsing.results import timed_steps

    parser, gold = Parser.from_pretrained(name, device=device), gold_of(TIMED)
    timed_steps(parser, gold[:WARM_UP])
    costs = costs_of(parser, timed_steps(parser, gold))
    folder = Path(name)
    config = {
        "model": folder.parent.name
        if folder.name == FolderNames.model
        else folder.name,  # the folder is that of a training
        "treebank": TIMED,
        "words": sum(map(len, gold)),
        "T": parser.max_steps,
        "tags": parser.tags,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    save_row("step_times", config, asdict(costs), path=rows)


def step_times() -> str:
    """Return the time of each step, from the newest row of each model."""
    newest: dict[str, dict[str, Any]] = {row["config"]["model"]: row for row in read_rows("step_times")}
    parts = []
    for model, row in newest.items():
        config, result, machine = row["config"], row["result"], row["machine"]
        values: dict[str, Any] = {
            name: tuple(each) if isinstance(each, list) else each for name, each in result.items()
        }
        shown = costs_table(Costs(**values))
        place = f"{machine['processor']}, {count(config['threads'], 'thread')}, torch {config['torch']}"
        where = (
            f"`{model}` on {config['treebank']} dev ({config['words']:,} words), T = {config['T']}, tags "
            f"{config['tags']}: {result['parameters'] / 1e6:.1f}M parameters, the same in each step. On "
            f"{result['device']} ({place}), {row['when'][:10]}."
        )
        parts += [table(shown.header, *shown.rows), where]
    return "\n\n".join(parts) or NONE


def costs() -> str:
    """Return parameters, training and evaluation time on English, as in the paper's appendix."""
    lines: Lines = [("model", "encoder", "parameters", "training time (h:mm:ss)", "evaluation time (seconds)")]
    devices = set()
    for group in _groups(TIMED):
        results = [row["result"] for row in group.dev.values()]
        devices |= {each["device"] for each in results}
        size = f"{results[0]['parameters'] / 1e6:.1f}M"
        seconds = group.mean("parsing_seconds")
        time = NONE if seconds is None else f"{seconds:.1f}"
        lines.append((title(group), short(group.config["encoder"]), size, clock(group.mean("training_seconds")), time))
    for kind in ("SynTr", "RNGTr"):
        training, evaluation = paper.TIMES[TIMED][kind]
        size = f"{paper.PARAMETERS[kind]}M (Penn Treebank)"
        lines.append((f"the paper's {kind}", "BERT", size, training, evaluation))
    where = f"treefine parsed dev on {', '.join(sorted(devices))}; the paper used {paper.DEVICE}."
    return f"{table(*lines)}\n\n{where}"


def uas() -> str:
    """Return test UAS in the layout of the paper's appendix: before and after refinement, and the errors removed."""
    lines: Lines = [("treebank", "source", "encoder", "SynTr", "SynTr+RNGTr", "Empty+RNGTr")]
    for treebank in NAMES:
        tested: dict[str, dict[str, float]] = {}
        for group in _groups(treebank):
            if group.tested is not None:
                encoder = short(group.config["encoder"])
                tested.setdefault(encoder, {})[group.config["kind"]] = group.tested["result"]["UAS"]
        for encoder, scores in tested.items():
            if len(scores) > 1:
                before, after = scores.get("SynTr"), scores.get("SynTr+RNGTr")
                gone = None if before is None or after is None else relative_error_reduction(before, after)
                lines.append((treebank, "treefine", encoder, *_uas_cells(scores, gone)))
        reported = {kind: uas / 100 for kind, (uas, _) in paper.TEST[treebank].items()}
        lines.append((treebank, "paper", "BERT", *_uas_cells(reported, paper.UAS_REDUCTIONS[treebank] / 100)))
    return table(*lines)


def _uas_cells(scores: dict[str, float], gone: float | None) -> list[str]:
    before, after, empty = (percent(scores.get(kind)) for kind in ("SynTr", "SynTr+RNGTr", "Empty+RNGTr"))
    return [before, after if gone is None else f"{after} ({reduction(gone)})", empty]


def _groups(treebank: str) -> list[Group]:
    found = grouped(read_rows("accuracy"))
    return [group for group in found if group.is_plain and group.dev and group.config["treebank"] == treebank]


MODEL_TABLES: dict[str, Callable[[], str]] = {f"analysis_{each.__name__}": each for each in (costs, step_times, uas)}
