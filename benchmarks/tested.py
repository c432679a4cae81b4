"""The tables of docs/results.md on what was tested: paired tests, means of weights, and every touch of a test set."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.groups import Group, Row, grouped
from benchmarks.markdown import table
from benchmarks.results import NONE, footnote, listed, percent, short, title
from benchmarks.rows import read_rows
from benchmarks.significance import comparisons

Line = tuple[object, ...]


def significance(groups: Sequence[Group], rows: Sequence[Row]) -> str:
    """The paired tests of single models."""
    lines: list[Line] = [("treebank", "encoder", "first", "second", "LAS", "p", "UAS", "p")]
    best: list[str] = []
    shown: list[Group] = []
    for each in comparisons(groups, rows):
        shown += each.systems.values()
        place = (each.treebank, short(each.encoder))
        if each.las is None or each.uas is None:
            lines.append((*place, *[NONE] * 6))
            continue
        for las, uas in zip(each.las["differences"], each.uas["differences"], strict=True):
            names = (title(each.systems[las["first"]]), title(each.systems[las["second"]]))
            lines.append((*place, *names, *_difference(las), *_difference(uas)))
        alike = "; ".join(title(group) for name, group in each.systems.items() if name in each.las["best"])
        best.append(f"- {', '.join(place)}: {alike}.")
    if best:
        best = ["", "By LAS the best, or not told from it:", "", *best]
    return "\n".join([table(*lines), *footnote(shown), *best]) if len(lines) > 1 else NONE


def means(groups: Sequence[Group], rows: Sequence[Row]) -> str:
    """The means of weights beside the trainings they were made of, and SynTr."""
    differences = ("dev: less the seeds' mean", "test: less the tested seed, p", "test: less SynTr, p")
    lines: list[Line] = [("treebank", "model", "encoder", "seeds", "dev LAS", "test LAS", *differences)]
    shown = [group for group in groups if group.is_mean and group.dev and group.tested]
    for group in shown:
        config = group.config
        single, syntr = (_single(groups, group, kind) for kind in (config["kind"], "SynTr"))
        ours, theirs = group.mean("LAS"), single.mean("LAS") if single else None
        gain = NONE if ours is None or theirs is None else f"{100 * (ours - theirs):+.2f}"
        scores = (percent(ours), percent(group.tested["result"]["LAS"] if group.tested else None))
        tests = [_paired(groups, rows, first, group) for first in (single, syntr)]
        lines.append(
            (config["treebank"], title(group), short(config["encoder"]), _mean_of(group), *scores, gain, *tests)
        )
    return "\n".join([table(*lines), *footnote(shown)]) if shown else NONE


def _single(groups: Sequence[Group], mean: Group, kind: str) -> Group | None:
    """The single model of this kind, with the treebank and the encoder of the mean."""
    wanted = {"treebank": mean.config["treebank"], "encoder": mean.config["encoder"], "kind": kind}
    return next((group for group in groups if group.is_plain and wanted.items() <= group.config.items()), None)


def _paired(groups: Sequence[Group], rows: Sequence[Row], first: Group | None, second: Group) -> str:
    """The second's test LAS less the first's, and how probable that is by chance."""
    names = {first.name if first else None, second.name}
    for each in comparisons(groups, rows, means=True):
        for found in each.las["differences"] if each.las else ():
            if {found["first"], found["second"]} == names:
                sign = 1 if found["second"] == second.name else -1
                difference, p = _difference(found | {"difference": sign * found["difference"]})
                return f"{difference}, {p}"
    return NONE


def _mean_of(group: Group) -> str:
    """The seeds whose weights were averaged: 1 to the number of members."""
    members = int(group.changes["training.members"])
    return f"mean of {', '.join(str(seed) for seed in range(1, members + 1))}"


def _difference(each: dict[str, float]) -> tuple[str, str]:
    return f"{100 * each['difference']:+.2f}", f"{each['randomisation']:.4f} / {each['bootstrap']:.4f}"


def tests(rows: Sequence[Row]) -> str:
    """Every measurement of a test set, in the order they were made, and the seeds that were scored as G⁰ alone."""
    lines: list[Line] = [("when", "treebank", "recipe", "changes", "seed", "UAS", "LAS", "commit")]
    for row in rows:
        config, result = row["config"], row["result"]
        if config["split"] == "test":
            changes, seed = ", ".join(config["changes"]) or NONE, config["seed"]
            group = Group({}, {seed: row})
            if group.is_mean:
                changes, seed = "weights averaged", _mean_of(group)
            scores = (percent(result["UAS"]), percent(result["LAS"]))
            when = row["when"][:16].replace("T", " ")
            lines.append((when, config["treebank"], config["recipe"], changes, seed, *scores, row["commit"]))
    if len(lines) == 1:
        return "No test set has been touched."
    others = _scored_as_initial(grouped(rows))
    note = ["", f"Scored as G⁰ alone, not as models of their own: {listed(others)}."] if others else []
    return "\n".join([table(*lines), *note])


def _scored_as_initial(groups: Sequence[Group]) -> list[str]:
    """The initial parsers whose test score is known from the rows of what refines them alone."""
    found = []
    for group in groups:
        kind, treebank = group.config["kind"].removesuffix("+RNGTr"), group.config["treebank"]
        encoders = (group.config["encoder"], "bilstm")
        tested: set[int] = set()
        for each in groups:
            is_that_parser = (each.config["kind"], each.config["treebank"]) == (kind, treebank)
            if is_that_parser and each.is_plain and each.config["encoder"] in encoders:
                tested |= each.test.keys()
        for seed, row in group.test.items():
            if row["result"]["LAS_by_step"][0] is not None and seed not in tested:
                found.append(f"{kind} of {treebank}, seed {seed}")
    return found


def _groups() -> list[Group]:
    return grouped(read_rows("accuracy"))


TESTED: dict[str, Callable[[], str]] = {
    "significance": lambda: significance(_groups(), read_rows("significance")),
    "means": lambda: means(_groups(), read_rows("significance")),
    "tests": lambda: tests(read_rows("accuracy")),
}
