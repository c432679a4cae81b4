"""Generate the first tables of docs/results.md: scores before and after refinement, and compared with the paper."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from benchmarks.accuracy.model_rows import Group, grouped
from benchmarks.accuracy.significance import comparisons
from benchmarks.markdown import NONE, Lines, listed, table
from benchmarks.pages.results import TREEBANKS, footnote, short, tags_lost, title
from benchmarks.rows import Row, read_rows
from treefine.evaluation.significance import ALPHA
from treefine_paper import paper

COLUMNS = ("SynTr", "SynTr+RNGTr", "Empty+RNGTr")  # the kinds of models shown
FLOORS = {  # targets for test LAS, by treebank and encoder
    ("en_ewt", "gte-small"): 91.0,
    ("en_ewt", "mpnet"): 92.2,
    ("ko_gsd", "e5-small"): 87.9,
    ("tr_imst", "e5-small"): 70.0,
}
Models = dict[str, Group]  # by kind
Found = dict[tuple[str, str], Models]  # by treebank and encoder


def summary(groups: Sequence[Group], rows: Sequence[Row]) -> str:
    """Return test LAS by treebank and encoder, compared with the paper's best, and the findings."""
    found = _models(groups)
    lines: Lines = [("treebank", "encoder", "parameters", *COLUMNS, "paper's best", "difference")]
    for (treebank, encoder), models in found.items():
        best = _best(models)
        scores = [_test_las(models.get(kind)) for kind in COLUMNS]
        cells = [
            NONE if score is None else f"**{score:.2f}**" if models[kind] is best else f"{score:.2f}"
            for score, kind in zip(scores, COLUMNS, strict=True)
        ]
        size = max(row["result"]["parameters"] for group in models.values() for row in group.dev.values())
        paper_best, difference = _against_paper(treebank, best)
        ours = (treebank, short(encoder), f"{size / 1e6:.0f}M")
        lines.append((*ours, *cells, f"{paper_best:.2f}", NONE if difference is None else f"{difference:+.2f}"))
    shown = [group for models in found.values() for group in models.values()]
    sentences = [
        *_compared_with_paper(found),
        *_dev_gains(groups),
        *_test_gains(groups, rows),
        *_own_gains(groups),
        *_first_steps(groups),
    ]
    return "\n".join([table(*lines), *footnote(shown), "", *(f"- {each}" for each in sentences)]).rstrip()


def before_and_after(groups: Sequence[Group]) -> str:
    """Return LAS before and after refinement, compared with the paper."""
    lines: Lines = [("treebank", "encoder", "initial parser", "dev LAS", "test LAS", "paper's test LAS")]
    shown = [group for group in groups if group.is_plain and group.is_refined and group.dev and group.tested]
    for group in shown:
        config = group.config
        kind, reported = config["kind"].removesuffix("+RNGTr"), paper.TEST.get(config["treebank"], {})
        initial = "none" if kind == "Empty" else kind
        test = _ends(group.tested["result"]["LAS_by_step"]) if group.tested else []
        theirs = [reported[name][1] for name in (kind, config["kind"]) if name in reported]
        scores = (_arrow(_ends(group.means("LAS_by_step"))), _arrow(test), _arrow(theirs) or NONE)
        lines.append((config["treebank"], short(config["encoder"]), initial, *scores))
    lost = tags_lost(groups)
    return "\n".join([table(*lines), *footnote(shown), *(["", *lost] if lost else [])]) if shown else NONE


def floors(groups: Sequence[Group]) -> str:
    """Return which models reach the target for test LAS, at two digits."""
    lines: Lines = [("treebank", "encoder", "target", "reached by", "missed by")]
    for (treebank, encoder), models in _models(groups).items():
        floor = FLOORS.get((treebank, _pretrained(encoder)))
        scores = {kind: _test_las(models.get(kind)) for kind in COLUMNS}
        tested = {kind: round(score, 2) for kind, score in scores.items() if score is not None}
        if floor is not None:
            parts = [
                ", ".join(f"{kind} {score:.2f}" for kind, score in tested.items() if (score >= floor) is wanted) or NONE
                for wanted in (True, False)
            ]
            lines.append((treebank, short(encoder), f"{floor:.2f}", *parts))
    return table(*lines) if len(lines) > 1 else NONE


def _models(groups: Sequence[Group]) -> Found:
    """Return the unchanged models of the columns, by treebank and encoder."""
    found: Found = {}
    for group in groups:
        treebank, kind = group.config["treebank"], group.config["kind"]
        if group.is_plain and group.dev and treebank in TREEBANKS and kind in COLUMNS:
            found.setdefault((treebank, group.config["encoder"]), {})[kind] = group
    return found


def _best(models: Models) -> Group:
    """Return the model with the best mean dev LAS; test is not used to choose."""
    return max(models.values(), key=lambda group: group.mean("LAS") or 0)


def _against_paper(treebank: str, group: Group) -> tuple[float, float | None]:
    """Return the paper's best test LAS, and the difference of the group's."""
    best, ours = max(las for _, las in paper.TEST[treebank].values()), _test_las(group)
    return best, None if ours is None else round(ours, 2) - best


def _compared_with_paper(found: Found) -> Iterable[str]:
    for word, sign in (("Above", 1), ("Below", -1)):
        places = []
        for (treebank, encoder), models in found.items():
            difference = _against_paper(treebank, _best(models))[1]
            if difference is not None and sign * difference > 0:
                places.append(f"{treebank} with {_pretrained(encoder)} ({difference:+.2f})")
        if places:
            yield f"{word} the paper's best test LAS: {listed(places)}."


def _with_syntr(groups: Sequence[Group]) -> list[tuple[Group, Group]]:
    """Return pairs of SynTr and a refining model that have the same seeds, at least three."""
    pairs = []
    for group in groups:
        wanted = {"kind": "SynTr", "treebank": group.config["treebank"], "encoder": group.config["encoder"]}
        for base in groups if group.is_plain and group.is_refined else ():
            has_same_seeds = base.dev.keys() == group.dev.keys() and len(base.dev) >= 3
            if base.is_plain and wanted.items() <= base.config.items() and has_same_seeds:
                pairs.append((base, group))
    return pairs


def _dev_gains(groups: Sequence[Group]) -> Iterable[str]:
    """Compare RNGTr with SynTr on dev; say how many more updates it had."""
    gains = []
    updates: dict[int, float] = {}  # maximal ratio of RNGTr's updates to SynTr's, by T
    for base, group in _with_syntr(groups):
        gains.append(100 * ((group.mean("LAS") or 0) - (base.mean("LAS") or 0)))
        steps, epochs = group.config["T"], group.config["epochs"]
        updates[steps] = max(updates.get(steps, 0), steps * epochs / base.config["epochs"])
    if gains:
        above = f"{sum(gain > 0 for gain in gains)} of {len(gains)}"
        times = listed([f"{ratio:g} (T={steps})" for steps, ratio in sorted(updates.items())])
        yield (
            f"On dev, models with refinement are better than SynTr in {above} cases ({_range(gains)} LAS, mean of the "
            f"same seeds). They also had up to {times} times as many updates, which may explain part of the gain."
        )


def _test_gains(groups: Sequence[Group], rows: Sequence[Row]) -> Iterable[str]:
    """Compare the tested models with the tested SynTr."""
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
        yield (
            f"On test, with one seed each, they are better than SynTr in {above} cases. Significant differences, at "
            f"α = {ALPHA} per pair without correction for multiple comparisons: {'; '.join(significant) or 'none'}."
        )


def _own_gains(groups: Sequence[Group]) -> Iterable[str]:
    """Compare the tested models with their initial parses and with their first step."""
    named, gains, later = [], [], []
    for group in groups:
        by_step: list[Any] = group.tested["result"]["LAS_by_step"] if group.is_plain and group.tested else [None]
        if by_step[0] is not None:
            gains.append(100 * (by_step[-1] - by_step[0]))
            later.append(by_step[-1] - by_step[1])
            named.append(f"{group.config['kind']} {gains[-1]:+.2f} ({group.config['treebank']})")
    if gains:
        below, falls = (sum(each < 0 for each in differences) for differences in (gains, later))
        yield (
            f"On test, compared with the initial parses: {listed(named)}; {below} of {len(gains)} are worse. "
            f"Steps after the first lower test LAS in {falls} of {len(later)} cases."
        )


def _first_steps(groups: Sequence[Group]) -> Iterable[str]:
    """Return the share of the gain that the first step brings on dev."""
    shares, from_none = [], []
    for base, group in _with_syntr(groups):
        initial, first, *_, last = group.means("LAS_by_step")
        syntr = base.mean("LAS")
        if first is None or last is None or syntr is None:
            continue
        if initial is None and last > syntr:
            place = f"{group.config['treebank']} with {_pretrained(group.config['encoder'])}"
            from_none.append(f"{(first - syntr) / (last - syntr):.0%} ({place})")
        elif group.config["kind"] == "SynTr+RNGTr" and initial is not None and last > initial:
            shares.append((first - initial) / (last - initial))
    if shares:
        yield f"On dev, the first step brings {min(shares):.0%} to {max(shares):.0%} of the gain over SynTr's parses."
    if from_none:
        yield (
            "The first step of Empty+RNGTr reads no graph. It brings this share of its gain over SynTr on dev: "
            f"{listed(from_none)}."
        )


def _ends(by_step: Sequence[float | None]) -> list[float]:
    """Return the initial score, if there is one, and the final score, in percent."""
    return [100 * each for each in (by_step[0], by_step[-1]) if each is not None]


def _test_las(group: Group | None) -> float | None:
    return None if group is None or group.tested is None else 100 * float(group.tested["result"]["LAS"])


def _pretrained(encoder: str) -> str:
    return encoder.partition(", ")[0]


def _arrow(scores: Sequence[float]) -> str:
    return " → ".join(f"{each:.2f}" for each in scores)


def _range(numbers: Sequence[float]) -> str:
    return f"{min(numbers):+.2f} to {max(numbers):+.2f}"


def _groups() -> list[Group]:
    return grouped(read_rows("accuracy"))


SUMMARY: dict[str, Callable[[], str]] = {
    "summary": lambda: summary(_groups(), read_rows("significance")),
    "floors": lambda: floors(_groups()),
    "before_and_after": lambda: before_and_after(_groups()),
}
