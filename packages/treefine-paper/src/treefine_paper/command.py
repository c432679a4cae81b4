"""The reproduce command: the experiments of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from treefine.cli.options import DEVICE, THREADS, argument, option
from treefine.cli.terminal import Detail, is_shown, say, warn
from treefine.cores import use_threads
from treefine.errors import TreefineError, count

if TYPE_CHECKING:
    from treefine_paper.plan import ReproductionPlan


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
    files: str = option(
        "", "--files DIR", "Folder with another parser's trees, such as UDify's, in files named as the treebanks are."
    ),
    changes: list[str] | None = option(
        None,
        "--set [SYSTEM:]KEY=VALUE",
        "Override a setting of all systems or of one, such as training.epochs=20. Can be repeated.",
    ),
    device: str | None = DEVICE,
    dry_run: bool = option(False, "--dry-run", "Print the trainings, and exit."),
    show: bool = option(
        False, "--list", "Print the treebanks with their places and encoders, and the systems, and exit."
    ),
    threads: int | None = THREADS,
) -> None:
    r"""Train and test the systems of the paper on its treebanks.

    Trains SynTr, Empty+RNGTr, SynTr+RNGTr, Biaffine, Biaffine+RNGTr and RNGTr over another parser's files, and a
    control, SynTr with as many updates as RNGTr. Of each system, the seed with the best dev LAS is tested once.
    DIR/report has the tables of the paper, next to the paper's numbers.

    \b
    Examples:
      treefine reproduce ud-treebanks-v2.3 --list
      treefine reproduce ud-treebanks-v2.3 --only tr_imst --seeds 1,2,3 --set training.epochs=20 -o reproduction
    """
    from treefine_paper.plan import ReproductionPlan, ReproductionRequest

    request = ReproductionRequest(
        tuple(str(Path(folder).resolve()) for folder in treebanks),
        Path(output).resolve(),
        dict(map(_encoder, encoder or ())),
        _seeds(seeds),
        tuple(only or ()),
        tuple(changes or ()),
        str(Path(files).resolve()) if files else "",
    )
    plan = ReproductionPlan(request)
    if show:
        typer.echo("\n".join(plan.inventory()))
        return
    plan.check()  # before anything is trained
    if not dry_run:
        _run(plan, device, threads)
        return
    for run in plan.runs:
        typer.echo(f"{run.name}: {plan.encoder(run)}, {plan.sizes[run.treebank]:,} sentences")
    typer.echo(f"{count(len(plan.runs), 'training')} with recipes in {request.output / 'recipes'}")


def _encoder(text: str) -> tuple[str, str]:
    code, _, name = text.rpartition("=")  # without a code, it is the encoder of all treebanks
    return code, str(Path(name).absolute()) if Path(name).is_dir() else name


def _seeds(text: str) -> tuple[int, ...]:
    try:
        return tuple(dict.fromkeys(int(seed) for seed in text.split(",")))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a list of numbers, such as 1,2,3.", param_hint="--seeds") from None


def _run(plan: ReproductionPlan, device: str | None, threads: int | None) -> None:
    from treefine.model.folder import fetch
    from treefine.parsing.plan import find_device
    from treefine_paper.report import write_report
    from treefine_paper.results import load_results
    from treefine_paper.run import RESULTS, Reproduction
    from treefine_paper.systems import BIAFFINE

    use_threads(threads)
    output, chosen = plan.request.output, find_device(device)
    reproduction = Reproduction(plan, chosen, say)
    left = [run for run in plan.runs if not reproduction.is_measured(run)]
    for encoder in dict.fromkeys(plan.encoder(run) for run in left if run.system != BIAFFINE):
        fetch(encoder)  # report a missing encoder once, before the first training
    say(f"{count(len(left), 'training')} to do on {chosen}.")
    if chosen.type == "cpu" and left:
        warn("The trainings run on the CPU. With an encoder of the paper, that takes many times as long as on a GPU.")
    try:
        reproduction.run()
    except KeyboardInterrupt:
        raise KeyboardInterrupt("The same command continues where this one was stopped.") from None
    results = load_results(output / RESULTS)
    page = write_report(results, output / RESULTS, output / "report", warn=warn)
    if is_shown(Detail.NORMAL):
        typer.echo(f"The report is in {page}.")
    if failures := reproduction.failures:
        lines = [f"{run.name}, {split}: {reason}" for (run, split), reason in failures.items()]
        what = f"{len(failures)} trainings and tests were not done. The same command tries them again."
        raise TreefineError("\n".join([*lines, what]))
