"""The reproduce command: the experiments of the paper."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from treefine.cli.parse import ThreadsOption
from treefine.cli.terminal import completing, is_quiet, say, warn
from treefine.cli.treebanks import JsonOption
from treefine.cores import use_threads
from treefine.errors import TreefineError

if TYPE_CHECKING:
    from treefine.evaluation.tables import Table
    from treefine_paper.plan import ReproductionPlan
    from treefine_paper.run import KeepModels, Run


def _names() -> list[str]:
    from treefine_paper.systems import SYSTEMS
    from treefine_paper.treebanks import TREEBANKS

    return [*TREEBANKS, *SYSTEMS]


def reproduce_command(
    treebanks: Annotated[
        list[str],
        typer.Argument(metavar="FOLDER", help="Folders with treebanks, as downloaded; searched four levels deep."),
    ],
    output: Annotated[
        str,
        typer.Option(
            "-o", "--output", metavar="DIR", help="Folder for models, results and report. The same command continues."
        ),
    ] = "reproduction",
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="NAME",
            help="Only this treebank or system, such as tr_imst or syntr. Can be repeated.",
            show_default="all",
            autocompletion=completing(_names),
        ),
    ] = None,
    encoder: Annotated[
        list[str] | None,
        typer.Option(
            "--encoder",
            metavar="[TREEBANK=]NAME",
            help="Pretrained encoder (name on the hub, or folder), for all treebanks or for one. Can be repeated.",
            show_default="as in the paper",
        ),
    ] = None,
    seeds: Annotated[
        str, typer.Option("--seeds", metavar="N,N", help="Random seeds; the best on dev is tested.")
    ] = "1",
    settings: Annotated[
        Literal["paper", "by-size"],
        typer.Option(
            "--settings", help="Settings of the paper's Appendix A, or shorter ones by the size of a treebank."
        ),
    ] = "paper",
    start: Annotated[
        Literal["encoder", "multi"],
        typer.Option("--start", help="Weights to start from: the encoder, or one model trained on all UD treebanks."),
    ] = "encoder",
    files: Annotated[
        str,
        typer.Option(
            "--files",
            metavar="DIR",
            help="Folder with another parser's trees, such as UDify's, in files that are named as the treebanks are.",
        ),
    ] = "",
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="[SYSTEM:]KEY=VALUE",
            help="Override a setting of all systems or of one, such as training.epochs=20. Can be repeated.",
        ),
    ] = None,
    device: Annotated[
        list[str] | None,
        typer.Option(
            "--device", metavar="DEVICE", help="Device to use: cpu, cuda:0, … Can be repeated.", show_default="all GPUs"
        ),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Trainings at the same time on each device.")] = 1,
    keep_models: Annotated[
        Literal["chosen", "all"], typer.Option("--keep-models", help="Keep the models of tested seeds, or all.")
    ] = "chosen",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the trainings and their time, and exit.")] = False,
    show: Annotated[
        bool,
        typer.Option(
            "--list", help="Print the treebanks, encoders and systems, and where to get what is missing, and exit."
        ),
    ] = False,
    as_json: JsonOption = False,
    threads: ThreadsOption = None,
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
    from treefine_paper.plan import (
        ReproductionRequest,
        encoder_table,
        make_plan,
        system_table,
        time_table,
        treebank_table,
        why_nothing,
    )
    from treefine_paper.run import Run

    request = ReproductionRequest(
        tuple(str(Path(each).resolve()) for each in treebanks),
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
    nothing = why_nothing(plan)
    if nothing and not show:
        raise TreefineError(nothing)
    if show:
        tables = {"treebanks": treebank_table(plan), "encoders": encoder_table(plan), "systems": system_table()}
        _list(tables, as_json=as_json)
    elif dry_run:
        n_slots = jobs * len(_devices(device))
        _show(time_table(plan, Run(plan, say, n_slots).seconds, n_slots=n_slots), as_json=as_json)
    else:
        _run(plan, [each for each in _devices(device) for _ in range(jobs)], keep_models, threads, as_json=as_json)


def _encoder(text: str) -> tuple[str, str]:
    """Return the treebank ("" for all) and its encoder."""
    code, equals, name = text.partition("=")
    found = (code, name) if equals else ("", text)
    if not found[1]:
        raise typer.BadParameter("Name a folder, or a model on the hub.", param_hint="--encoder")
    return found[0], str(Path(found[1]).absolute()) if Path(found[1]).is_dir() else found[1]


def _seeds(text: str) -> tuple[int, ...]:
    try:
        found = tuple(dict.fromkeys(int(each) for each in text.split(",")))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a list of numbers, such as 1,2,3.", param_hint="--seeds") from None
    return found


def _devices(names: list[str] | None) -> list[str | None]:
    """Return the devices to train on: all GPUs, or the CPU."""
    import torch

    from treefine.parsing.plan import find_device

    if names:
        return [str(find_device(name)) for name in names]
    return [f"cuda:{number}" for number in range(torch.cuda.device_count())] or ["cpu"]


def _list(tables: dict[str, Table], *, as_json: bool) -> None:
    """Print a line for each treebank, encoder and system."""
    found = {name: table.to_records() for name, table in tables.items()}
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False, indent=1))
        return
    width = max(len(str(row["treebank"])) for row in found["treebanks"])
    for row in found["treebanks"]:
        size, release = row["training sentences"], row["release"]
        facts = [f"{size} training sentences"] if size else []
        facts += [f"UD {release}"] if size and release else []
        typer.echo(f"{row['treebank']:<{width}}  {', '.join([*facts, str(row['where'])])}")
    typer.echo("")
    for row in found["encoders"]:
        typer.echo(f"{row['encoder']}: {row['where']}; for {row['treebanks']}")
    typer.echo("")
    width = max(len(str(row["system"])) for row in found["systems"])
    for row in found["systems"]:
        typer.echo(f"{row['system']:<{width}}  {row['title']}: {row['what it is']}")


def _show(table: Table, *, as_json: bool) -> None:
    """Print a table, with its note below it."""
    if as_json:
        typer.echo(json.dumps(table.to_records(), ensure_ascii=False, indent=1))
        return
    typer.echo(table.to_text())
    if table.note:
        typer.echo(f"\n{table.note}")


def _run(
    plan: ReproductionPlan, devices: list[str | None], keep: KeepModels, threads: int | None, *, as_json: bool
) -> None:
    from treefine.model.folder import fetch
    from treefine.wording import count
    from treefine_paper.collection import ResultCollection
    from treefine_paper.report import write_report
    from treefine_paper.results import load_results
    from treefine_paper.run import RESULTS, Run, run_plan
    from treefine_paper.systems import SYSTEMS
    from treefine_paper.treebanks import TREEBANKS

    for job in plan.jobs:
        plan.recipe(job)  # report faults in the settings before anything is trained
    before = Run(plan, say, len(devices))
    left = [job for job in plan.jobs if not before.is_measured(job)]
    for encoder in dict.fromkeys(plan.encoder(job) for job in left if not SYSTEMS[job.system].is_bilstm):
        fetch(encoder)  # report a missing encoder once, before the first training
    use_threads(threads)
    output, where = plan.request.output, ", ".join(f"{n} on {each}" for each, n in Counter(devices).items())
    say(f"{count(len(left), 'training')} to do; at a time: {where}.")
    if "cpu" in devices and left:
        warn("The trainings run on the CPU. With an encoder of the paper, that takes many times as long as on a GPU.")
    try:
        run = run_plan(plan, devices, keep=keep, threads=threads or 1, say=say)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("The same command continues where this one was stopped.") from None
    results = load_results(output / RESULTS)
    for name in ResultCollection(tuple(results)).tested_early(TREEBANKS, SYSTEMS):
        warn(f"{name} was tested before a seed that is better on dev was trained. A system is tested only once.")
    page = write_report(results, output / RESULTS, output / "report", warn=warn)
    if as_json:
        failed = {job.name: reason for job, reason in (*run.failed.items(), *run.failed_tests.items())}
        typer.echo(json.dumps({"report": str(page), "results": len(results), "failed": failed}, ensure_ascii=False))
    elif not is_quiet():
        typer.echo(f"The report is in {page}.")
    _fail_if_failed(run)


def _fail_if_failed(run: Run) -> None:
    lines = [f"{job.name}: {reason}" for job, reason in run.failed.items()]
    lines += [f"{job.name}, test: {reason}" for job, reason in run.failed_tests.items()]
    if lines:
        what = f"{len(run.failed)} of {len(run.plan.jobs)} trainings and {len(run.failed_tests)} tests were not done."
        raise TreefineError("\n".join([*lines, f"{what} The same command tries them again."]))
