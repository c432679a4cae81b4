"""The reproduce command: the experiments of the paper."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from treefine.cli.options import JSON, THREADS, argument, option
from treefine.cli.terminal import Detail, is_shown, say, warn
from treefine.cores import use_threads
from treefine.errors import TreefineError, count

if TYPE_CHECKING:
    from treefine_paper.plan import ReproductionPlan
    from treefine_paper.run import KeepModels, Schedule


def _names() -> list[str]:
    from treefine_paper.systems import SYSTEMS
    from treefine_paper.treebanks import TREEBANKS

    return [*TREEBANKS, *SYSTEMS]


def reproduce_command(
    treebanks: list[str] = argument(..., "FOLDER", "Folders with treebanks, as downloaded; searched four levels deep."),
    output: str = option(
        "reproduction", "-o --output DIR", "Folder for models, results and report. The same command continues."
    ),
    only: list[str] | None = option(
        None,
        "--only NAME",
        "Only this treebank or system, such as tr_imst or syntr. Can be repeated.",
        shown="all",
        names=_names,
    ),
    encoder: list[str] | None = option(
        None,
        "--encoder [TREEBANK=]NAME",
        "Pretrained encoder (name on the hub, or folder), for all treebanks or for one. Can be repeated.",
        shown="as in the paper",
    ),
    seeds: str = option("1", "--seeds N,N", "Random seeds; the best on dev is tested."),
    settings: Literal["paper", "by-size"] = option(
        "paper", "--settings", "Settings of the paper's Appendix A, or shorter ones by the size of a treebank."
    ),
    start: Literal["encoder", "multi"] = option(
        "encoder", "--start", "Weights to start from: the encoder, or one model trained on all UD treebanks."
    ),
    files: str = option(
        "", "--files DIR", "Folder with another parser's trees, such as UDify's, in files named as the treebanks are."
    ),
    changes: list[str] | None = option(
        None,
        "--set [SYSTEM:]KEY=VALUE",
        "Override a setting of all systems or of one, such as training.epochs=20. Can be repeated.",
    ),
    device: list[str] | None = option(
        None, "--device DEVICE", "Device to use: cpu, cuda:0, … Can be repeated.", shown="all GPUs"
    ),
    jobs: int = option(1, "--jobs", "Trainings at the same time on each device.", min=1),
    keep_models: Literal["chosen", "all"] = option(
        "chosen", "--keep-models", "Keep the models of tested seeds, or all."
    ),
    dry_run: bool = option(False, "--dry-run", "Print the trainings and their time, and exit."),
    show: bool = option(False, "--list", "Print the treebanks, encoders and systems, with their places, and exit."),
    as_json: bool = JSON,
    threads: int | None = THREADS,
) -> None:
    r"""Train and test the systems of the paper on its treebanks.

    Trains SynTr, Empty+RNGTr, SynTr+RNGTr, Biaffine, Biaffine+RNGTr and RNGTr over another parser's files, and two
    controls: SynTr with as many updates as RNGTr, and one model for all UD treebanks in the role of UDify. Of each
    system, the seed with the best dev LAS is tested once. DIR/report has the tables and figures of the paper, next to
    the paper's numbers.

    \b
    Examples:
      treefine reproduce ud-treebanks-v2.3 --list
      treefine reproduce ud-treebanks-v2.3 --only tr_imst --seeds 1,2,3 --settings by-size -o reproduction
    """
    from treefine_paper.plan import ReproductionRequest, inventory, make_plan, time_table, why_nothing
    from treefine_paper.run import Schedule

    request = ReproductionRequest(
        tuple(str(Path(folder).resolve()) for folder in treebanks),
        Path(output).resolve(),
        dict(map(_encoder, encoder or ())),
        _seeds(seeds),
        settings,
        start,
        tuple(only or ()),
        tuple(changes or ()),
        str(Path(files).resolve()) if files else "",
    )
    plan = make_plan(request)
    if show:
        _list(inventory(plan), as_json=as_json)
        return
    if reason := why_nothing(plan):
        raise TreefineError(reason)
    for run in plan.runs:
        plan.recipe(run)  # report faults in the settings before anything is trained
    plan.bilstm()
    slots = [name for name in _devices(device) for _ in range(jobs)]
    if not dry_run:
        _run(plan, slots, keep_models, threads, as_json=as_json)
        return
    table = time_table(plan, Schedule(plan, say, len(slots)).seconds, n_slots=len(slots))
    if as_json:
        typer.echo(json.dumps(table.to_records(), ensure_ascii=False, indent=1))
    else:
        typer.echo(f"{table.to_text()}\n\n{table.note}")


def _encoder(text: str) -> tuple[str, str]:
    """Return the treebank ("" for all) and its encoder."""
    code, equals, name = text.partition("=")
    code, name = (code, name) if equals else ("", text)
    if not name:
        raise typer.BadParameter("Name a folder, or a model on the hub.", param_hint="--encoder")
    return code, str(Path(name).absolute()) if Path(name).is_dir() else name


def _seeds(text: str) -> tuple[int, ...]:
    try:
        return tuple(dict.fromkeys(int(seed) for seed in text.split(",")))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a list of numbers, such as 1,2,3.", param_hint="--seeds") from None


def _devices(names: list[str] | None) -> list[str]:
    """Return the devices to train on: all GPUs, or the CPU."""
    import torch

    from treefine.parsing.plan import find_device

    if names:
        return [str(find_device(name)) for name in names]
    return [f"cuda:{number}" for number in range(torch.cuda.device_count())] or ["cpu"]


def _list(records: dict[str, list[dict[str, str | None]]], *, as_json: bool) -> None:
    """Print a line for each treebank, encoder and system."""
    if as_json:
        typer.echo(json.dumps(records, ensure_ascii=False, indent=1))
        return
    for row in records["treebanks"]:
        size, release = row["training sentences"], row["release"]
        facts = [f"{size} training sentences"] if size else []
        facts += [f"UD {release}"] if size and release else []
        typer.echo(f"{row['treebank']:<12}  {', '.join([*facts, str(row['where'])])}")
    typer.echo("")
    for row in records["encoders"]:
        typer.echo(f"{row['encoder']}: {row['where']}; for {row['treebanks']}")
    typer.echo("")
    for row in records["systems"]:
        typer.echo(f"{row['system']:<19}  {row['title']}: {row['what it is']}")


def _run(plan: ReproductionPlan, devices: list[str], keep: KeepModels, threads: int | None, *, as_json: bool) -> None:
    from treefine.model.folder import fetch
    from treefine_paper.collection import ResultCollection
    from treefine_paper.report import write_report
    from treefine_paper.results import load_results
    from treefine_paper.run import RESULTS, Schedule, run_plan
    from treefine_paper.systems import BIAFFINE

    before = Schedule(plan, say, len(devices))
    left = [run for run in plan.runs if not before.is_measured(run)]
    for encoder in dict.fromkeys(plan.encoder(run) for run in left if run.system != BIAFFINE):
        fetch(encoder)  # report a missing encoder once, before the first training
    use_threads(threads)
    output, where = plan.request.output, ", ".join(f"{n} on {name}" for name, n in Counter(devices).items())
    say(f"{count(len(left), 'training')} to do; at a time: {where}.")
    if "cpu" in devices and left:
        warn("The trainings run on the CPU. With an encoder of the paper, that takes many times as long as on a GPU.")
    try:
        schedule = run_plan(plan, devices, keep=keep, threads=threads or 1, say=say)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("The same command continues where this one was stopped.") from None
    results = load_results(output / RESULTS)
    for name in ResultCollection(tuple(results)).tested_early():
        warn(f"{name} was tested before a seed that is better on dev was trained. A system is tested only once.")
    page = write_report(results, output / RESULTS, output / "report", warn=warn)
    if as_json:
        failed = {run.name: reason for run, reason in (*schedule.failed.items(), *schedule.failed_tests.items())}
        typer.echo(json.dumps({"report": str(page), "results": len(results), "failed": failed}, ensure_ascii=False))
    elif is_shown(Detail.NORMAL):
        typer.echo(f"The report is in {page}.")
    _fail_if_failed(schedule)


def _fail_if_failed(schedule: Schedule) -> None:
    lines = [f"{run.name}: {reason}" for run, reason in schedule.failed.items()]
    lines += [f"{run.name}, test: {reason}" for run, reason in schedule.failed_tests.items()]
    if lines:
        trainings = f"{len(schedule.failed)} of {len(schedule.plan.runs)} trainings"
        what = f"{trainings} and {len(schedule.failed_tests)} tests were not done."
        raise TreefineError("\n".join([*lines, f"{what} The same command tries them again."]))
