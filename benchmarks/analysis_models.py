"""The tables of docs/analysis.md about whole models, as in the paper's appendix: parameters, run time, and UAS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from benchmarks import paper
from benchmarks.groups import Group, grouped
from benchmarks.markdown import table
from benchmarks.refinements import NAMES, gold_of
from benchmarks.results import NONE, clock, percent, short, title
from benchmarks.rows import read_rows, save_row
from treefine.evaluation.analysis.export import costs_table
from treefine.evaluation.analysis.export import reduction_text as reduction
from treefine.evaluation.analysis.refinement import Costs
from treefine.evaluation.scores import relative_error_reduction
from treefine.evaluation.tables import count
from treefine.training.train import LAYOUT

TREEBANK = "en_ewt"  # of the paper's run times
WARM_UP = 50  # sentences: the first ones take longer


def measure_step_times(name: str, rows: Path, device: str | None) -> None:
    """Refine en_ewt dev with a model, and save the seconds of each step as a row."""
    from treefine import Parser
    from treefine.cli.analyse_model import costs_of
    from treefine.parsing.timed import timed_steps

    parser, gold = Parser.from_pretrained(name, device=device), gold_of(TREEBANK)
    timed_steps(parser, gold[:WARM_UP])
    costs = costs_of(parser, timed_steps(parser, gold))
    folder = Path(name)
    config = {
        "model": folder.parent.name if folder.name == LAYOUT.model else folder.name,  # of a training's folder
        "treebank": TREEBANK,
        "words": sum(map(len, gold)),
        "T": parser.max_steps,
        "tags": parser.tags,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    save_row("step_times", config, asdict(costs), path=rows)


def step_times() -> str:
    """The time of each step of the models that were timed, the newest row of each."""
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
    """Parameters, training and evaluation time on English, in the layout of the paper's appendix."""
    lines: list[tuple[object, ...]] = [
        ("model", "encoder", "no. parameters", "training time (H:MM:SS)", "evaluation time (seconds)")
    ]
    devices = set()
    for group in _groups(TREEBANK):
        results = [row["result"] for row in group.dev.values()]
        devices |= {each["device"] for each in results}
        size = f"{results[0]['parameters'] / 1e6:.1f}M"
        seconds = group.mean("parsing_seconds")
        time = NONE if seconds is None else f"{seconds:.1f}"
        lines.append((title(group), short(group.config["encoder"]), size, clock(group.mean("training_seconds")), time))
    for kind, (training, evaluation) in paper.TIMES.items():
        size = f"{paper.PARAMETERS[kind]}M (Penn Treebank)"
        lines.append((f"the paper's {kind}", "BERT", size, training, evaluation))
    return f"{table(*lines)}\n\nOurs on {', '.join(sorted(devices))}, dev; the paper's on {paper.DEVICE}."


def uas() -> str:
    """Test UAS in the layout of the paper's appendix: before and after refinement, and the errors removed."""
    lines: list[tuple[object, ...]] = [("treebank", "", "encoder", "SynTr", "SynTr+RNGTr", "Empty+RNGTr")]
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
                lines.append((treebank, "ours", encoder, *_uas_cells(scores, gone)))
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
