"""What the results come to: the table at the top of docs/results.md with its sentences, and the one in README."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from benchmarks import paper
from benchmarks.groups import Group, Row, grouped
from benchmarks.markdown import table
from benchmarks.results import NONE, footnote, short, title
from benchmarks.rows import read_rows
from benchmarks.significance import ALPHA, comparisons

COLUMNS = {  # kind and members of the models shown
    "SynTr": ("SynTr", 1),
    "SynTr+RNGTr": ("SynTr+RNGTr", 1),
    "Empty+RNGTr": ("Empty+RNGTr", 1),
    "Empty+RNGTr, mean of 3": ("Empty+RNGTr", 3),
}
Models = dict[tuple[str, int], Group]  # by kind and members
Found = dict[tuple[str, str], Models]  # by treebank and encoder


def summary(groups: Sequence[Group], rows: Sequence[Row]) -> str:
    """Test LAS by treebank and encoder beside the paper's best, and what can be said of it."""
    found = _models(groups)
    lines: list[tuple[object, ...]] = [
        ("treebank", "encoder", "parameters", *COLUMNS, "the paper's best", "difference")
    ]
    for (treebank, encoder), models in found.items():
        best = _best(models)
        scores = [_test_las(models.get(column)) for column in COLUMNS.values()]
        cells = [
            NONE if score is None else f"**{score:.2f}**" if models[column] is best else f"{score:.2f}"
            for score, column in zip(scores, COLUMNS.values(), strict=True)
        ]
        size = max(row["result"]["parameters"] for group in models.values() for row in group.dev.values())
        paper_best, difference = _against_paper(treebank, best)
        ours = (treebank, short(encoder), f"{size / 1e6:.0f}M")
        lines.append((*ours, *cells, f"{paper_best:.2f}", NONE if difference is None else f"{difference:+.2f}"))
    shown = [group for models in found.values() for group in models.values()]
    sentences = [
        *_beside_paper(found),
        *_dev_gains(found),
        *_test_gains(groups, rows),
        *_own_gains(groups),
        *_first_steps(found),
    ]
    return "\n".join([table(*lines), *footnote(shown), "", *(f"- {each}" for each in sentences)]).rstrip()


def before_and_after(groups: Sequence[Group]) -> str:
    """LAS before and after refinement, ours beside the paper's."""
    lines: list[tuple[object, ...]] = [
        ("treebank", "encoder", "initial parser", "dev LAS", "test LAS", "the paper's test LAS")
    ]
    shown = [group for group in groups if group.is_plain and group.is_refined and group.dev and group.tested]
    for group in shown:
        config = group.config
        kind, reported = config["kind"].removesuffix("+RNGTr"), paper.TEST.get(config["treebank"], {})
        initial = "none" if kind == "Empty" else kind
        if group.members > 1:
            initial += f"; mean of {group.members} trainings"
        test = _ends(group.tested["result"]["LAS_by_step"]) if group.tested else []
        theirs = [reported[name][1] for name in (kind, config["kind"]) if name in reported]
        scores = (_arrow(_ends(group.means("LAS_by_step"))), _arrow(test), _arrow(theirs) or NONE)
        lines.append((config["treebank"], short(config["encoder"]), initial, *scores))
    return "\n".join([table(*lines), *footnote(shown)]) if shown else NONE


def _models(groups: Sequence[Group]) -> Found:
    """The plain models of the columns, by treebank and encoder."""
    found: Found = {}
    for group in groups:
        column = (group.config["kind"], group.members)
        if group.is_plain and group.dev and group.config["treebank"] in paper.TEST and column in COLUMNS.values():
            found.setdefault((group.config["treebank"], group.config["encoder"]), {})[column] = group
    return found


def _best(models: Models) -> Group:
    """The one with the best dev LAS, so that test chooses nothing."""
    return max(models.values(), key=lambda group: group.mean("LAS") or 0)


def _against_paper(treebank: str, group: Group) -> tuple[float, float | None]:
    """The paper's best test LAS, and how far above it the group's is."""
    best, ours = max(las for _, las in paper.TEST[treebank].values()), _test_las(group)
    return best, None if ours is None else round(ours, 2) - best


def _beside_paper(found: Found) -> Iterable[str]:
    for word, sign in (("Above", 1), ("Below", -1)):
        places = []
        for (treebank, encoder), models in found.items():
            difference = _against_paper(treebank, _best(models))[1]
            if difference is not None and sign * difference > 0:
                places.append(f"{treebank} with {_pretrained(encoder)} ({difference:+.2f})")
        if places:
            yield f"{word} the paper's best on test: {_listed(places)}."


def _dev_gains(found: Found) -> Iterable[str]:
    """Refinement against SynTr where both have the same seeds, three or more."""
    gains = []
    for models in found.values():
        base = models.get(("SynTr", 1))
        for group in models.values():
            if base is not None and group.is_refined and base.dev.keys() == group.dev.keys() and len(base.dev) >= 3:
                gains.append(100 * ((group.mean("LAS") or 0) - (base.mean("LAS") or 0)))
    if gains:
        above = f"{sum(gain > 0 for gain in gains)} of {len(gains)}"
        yield f"Refinement is above SynTr on dev, in the mean of the same seeds, in {above} cases: {_range(gains)} LAS."


def _test_gains(groups: Sequence[Group], rows: Sequence[Row]) -> Iterable[str]:
    """The tested models against the tested SynTr."""
    gains, significant = [], []
    for each in comparisons(groups, rows):
        for difference in each.las["differences"] if each.las else ():
            first, second = each.systems[difference["first"]], each.systems[difference["second"]]
            if first.config["kind"] == "SynTr" and second.is_refined:
                gains.append(100 * difference["difference"])
                if difference["randomisation"] < ALPHA:
                    place = f"{each.treebank} with {_pretrained(each.encoder)}"
                    significant.append(f"{place}, {title(second)} ({gains[-1]:+.2f})")
    if gains:
        above = f"{sum(gain > 0 for gain in gains)} of {len(gains)}"
        told = "; ".join(significant) or "none"
        yield f"On test, with the chosen seed of each, it is in {above} cases. Significant (α = {ALPHA}) are: {told}."


def _own_gains(groups: Sequence[Group]) -> Iterable[str]:
    """The tested models against the very parses that they began with."""
    gains = []
    for group in groups:
        ends = _ends(group.tested["result"]["LAS_by_step"]) if group.is_plain and group.tested else []
        if len(ends) == 2:
            gains.append(f"{group.config['kind']} {ends[1] - ends[0]:+.2f} ({group.config['treebank']})")
    if gains:
        yield f"Against its own initial parses, on test: {_listed(gains)}."


def _first_steps(found: Found) -> Iterable[str]:
    """What the first step does on dev, and what is left to the others."""
    shares, later = [], []
    for models in found.values():
        for group in models.values():
            by_step = group.means("LAS_by_step")
            initial, first, last = by_step[0], by_step[1], by_step[-1]
            if not group.is_refined or first is None or last is None:
                continue
            if initial is None:
                later.append(100 * (last - first))
            elif last > initial:
                shares.append((first - initial) / (last - initial))
    if shares:
        yield f"The first step brings {min(shares):.0%} to {max(shares):.0%} of the gain over SynTr's parses on dev."
    if later:
        yield f"From an empty graph, the steps after the first change dev LAS by {_range(later)}."


def _ends(by_step: Sequence[float | None]) -> list[float]:
    """The initial score, where there is one, and the final one, in percent."""
    return [100 * each for each in (by_step[0], by_step[-1]) if each is not None]


def _test_las(group: Group | None) -> float | None:
    return None if group is None or group.tested is None else 100 * float(group.tested["result"]["LAS"])


def _pretrained(encoder: str) -> str:
    return encoder.partition(", ")[0]


def _arrow(scores: Sequence[float]) -> str:
    return " → ".join(f"{each:.2f}" for each in scores)


def _range(numbers: Sequence[float]) -> str:
    return f"{min(numbers):+.2f} to {max(numbers):+.2f}"


def _listed(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _groups() -> list[Group]:
    return grouped(read_rows("accuracy"))


SUMMARY: dict[str, Callable[[], str]] = {
    "summary": lambda: summary(_groups(), read_rows("significance")),
    "before_and_after": lambda: before_and_after(_groups()),
}
