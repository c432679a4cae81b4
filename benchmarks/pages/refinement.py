"""Generate docs/refinement.md: what refinement adds, by training size, number of steps and genre, and its cost."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.accuracy.model_rows import Group, grouped
from benchmarks.accuracy.refinement import STEPS, SYNTR
from benchmarks.accuracy.starts import PLAIN
from benchmarks.markdown import NONE, Lines, listed, table
from benchmarks.peers.answers import WORDS
from benchmarks.rows import ROWS, Row, machine_of, missing, newest, origin, read_rows
from treefine.evaluation.significance import ALPHA
from treefine.training.recipe import bundled_recipes

JOBS = "python -m benchmarks refinement jobs"
STARTS = "python -m benchmarks starts"
OF_SIZE = {"treebank.train", "treebank.dev", "treebank.sentences"}  # settings that choose the training set
OF_EACH = {"training.epochs", "training.batch_pieces", "training.dev_every"}  # that follow from its size
TRIED = {  # what was changed, by the changed settings
    ("refine.sampled",): "heads drawn by their probability",
    ("initial.noised_share",): "gold trees with errors as first graphs",
    ("refine.stop",): "no stopping in training",
    ("initial.parser", "initial.folds"): "jack-knifed trees of SynTr as first graphs",
}
PARTS = {"": "news", "en_ewt-reviews": "reviews"}  # the dev set of the same genre, and of another


class Curve:
    """The models of docs/refinement.md: pairs of RNGTr and SynTr by training set, and changes that were tried."""

    def __init__(self, rows: Sequence[Row]) -> None:
        groups = [each for each in grouped(rows) if each.dev and each.config["recipe"].endswith("-refinement")]
        self.pairs: dict[tuple[str, int], dict[str, Group]] = {}
        self.tried: dict[tuple[str, int], list[Group]] = {}
        for group in groups:
            place = (group.config["treebank"], int(group.changes.get("treebank.sentences", "0")))
            changed = group.changes.keys() - OF_SIZE - OF_EACH
            if not changed:
                self.pairs.setdefault(place, {})["rngtr"] = group
            elif changed == {each.partition("=")[0] for each in SYNTR}:
                self.pairs.setdefault(place, {})["syntr"] = group
            else:
                self.tried.setdefault(place, []).append(group)

    def both(self) -> dict[tuple[str, int], tuple[Group, Group]]:
        """Return SynTr and RNGTr of each training set that has both, in the order of the tables."""
        whole = {place: (each["syntr"], each["rngtr"]) for place, each in self.pairs.items() if len(each) == 2}
        return {place: whole[place] for place in sorted(whole, key=_by_size)}


def _by_size(place: tuple[str, int]) -> tuple[str, float]:
    treebank, sentences = place
    return treebank, sentences or float("inf")


def las(group: Group, *, t: int | None = None, also: str = "") -> dict[int, float]:
    """Return the LAS in percent of each seed: of the final trees, or after step t; of dev, or of another treebank."""

    def of(result: Mapping[str, Any]) -> float:
        found = result["also"][also] if also else result
        return 100 * float(found["LAS"] if t is None else found["LAS_by_step"][t])

    return {seed: of(row["result"]) for seed, row in group.dev.items()}


def spread(values: Sequence[float], *, signed: bool = False) -> str:
    """Return the mean and the standard deviation.

    >>> spread([90.0, 91.0]), spread([0.5], signed=True)
    ('90.50 ± 0.71', '+0.50')
    """
    if not values:
        return NONE
    mean = f"{statistics.mean(values):{'+' if signed else ''}.2f}"
    return mean + (f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else "")


def gains(first: Mapping[int, float], second: Mapping[int, float]) -> list[float]:
    """Return the difference of each seed that both have."""
    return [second[seed] - first[seed] for seed in sorted(first.keys() & second.keys())]


def _sentences(n_sentences: int) -> str:
    return f"{n_sentences:,}" if n_sentences else "all"


def _missing(what: str) -> str:
    return missing(what, JOBS)


def sizes(curve: Curve) -> str:
    """Return LAS by training size: SynTr with as many updates, the first step of RNGTr, and its last."""
    both = {place: each for place, each in curve.both().items() if "also" not in _first(each[1])}
    if not both:
        return _missing("LAS by training size")
    head = ("treebank", "sentences", "SynTr", "RNGTr, step 1", f"RNGTr, step {STEPS}", "RNGTr over SynTr")
    lines: Lines = [(*head, "updates, SynTr / RNGTr", "seeds")]
    for (treebank, sentences), (syntr, rngtr) in both.items():
        plain, refined = las(syntr), las(rngtr)
        lines.append(
            (
                treebank,
                _sentences(sentences),
                spread([*plain.values()]),
                spread([*las(rngtr, t=1).values()]),
                spread([*refined.values()]),
                spread(gains(plain, refined), signed=True),
                f"{_updates(syntr)} / {_updates(rngtr)}",
                len(gains(plain, refined)),
            )
        )
    return table(*lines)


def _first(group: Group) -> dict[str, Any]:
    result: dict[str, Any] = next(iter(group.dev.values()))["result"]
    return result


def _updates(group: Group) -> str:
    found = group.mean("updates")
    return NONE if found is None else f"{found:,.0f}"


def steps(curve: Curve) -> str:
    """Return LAS after each step of the same model, and in how many seeds the last differs from the first."""
    models = [(place, rngtr) for place, (_, rngtr) in curve.both().items()]
    if not models:
        return _missing("LAS by step")
    head = ("treebank", "sentences", *(f"step {t}" for t in range(1, STEPS + 1)), "last over first")
    lines: Lines = [(*head, f"seeds with p < {ALPHA}", "sentences changed by step 2")]
    for (treebank, sentences), group in models:
        by_step = [las(group, t=t) for t in range(1, STEPS + 1)]
        found = [row["result"]["last_step_over_first"] for row in group.dev.values()]
        changed = [row["result"]["changed_by_step"][1] for row in group.dev.values()]
        lines.append(
            (
                treebank,
                _sentences(sentences),
                *(spread([*each.values()]) for each in by_step),
                spread(gains(by_step[0], by_step[-1]), signed=True),
                f"{sum(each['randomisation'] < ALPHA for each in found)} of {len(found)}",
                f"{100 * statistics.mean(changed):.1f}%",
            )
        )
    return table(*lines)


def genres(curve: Curve) -> str:
    """Return LAS on the genre of the training set and on another genre."""
    both = [each for each in curve.both().values() if "also" in _first(each[1])]
    if not both:
        return _missing("LAS on another genre")
    head = ("trained on", "measured on", "SynTr", "RNGTr, step 1", f"RNGTr, step {STEPS}")
    lines: Lines = [(*head, "RNGTr over SynTr", "last step over first", "updates, SynTr / RNGTr", "seeds")]
    for syntr, rngtr in both:
        for also, part in PARTS.items():
            plain, first, refined = las(syntr, also=also), las(rngtr, t=1, also=also), las(rngtr, also=also)
            lines.append(
                (
                    rngtr.config["treebank"].removeprefix("en_ewt-"),
                    part,
                    *(spread([*each.values()]) for each in (plain, first, refined)),
                    spread(gains(plain, refined), signed=True),
                    spread(gains(first, refined), signed=True),
                    f"{_updates(syntr)} / {_updates(rngtr)}",
                    len(gains(plain, refined)),
                )
            )
    return table(*lines)


def tried(curve: Curve) -> str:
    """Return each change that was tried, compared with the same model without it."""
    head = ("treebank", "sentences", "change", "step 1", f"step {STEPS}", "last over first")
    lines: Lines = [(*head, "over RNGTr without it", "seeds")]
    for place, groups in sorted(curve.tried.items(), key=lambda each: _by_size(each[0])):
        unchanged = curve.pairs.get(place, {}).get("rngtr")
        for name, group in [("none", unchanged), *((_change(each), each) for each in groups)]:
            if group is not None:
                first, last = las(group, t=1), las(group)
                over = gains(las(unchanged), last) if unchanged is not None and group is not unchanged else []
                cells = (spread([*first.values()]), spread([*last.values()]), spread(gains(first, last), signed=True))
                lines.append((place[0], _sentences(place[1]), name, *cells, spread(over, signed=True), len(last)))
    return table(*lines) if len(lines) > 1 else _missing("changes of the training")


def _change(group: Group) -> str:
    changes = {key: value for key, value in group.changes.items() if key not in OF_SIZE | OF_EACH}
    text = ", ".join(f"{key}={Path(value).name}" for key, value in changes.items())
    name = next((name for keys, name in TRIED.items() if set(keys) == changes.keys()), "")
    return f"{name} (`{text}`)" if name else f"`{text}`"


def recipes(path: Path = ROWS) -> str:
    """Return LAS after the first step and after the last of each bundled recipe that refines, and of `en`."""
    known = bundled_recipes()
    lines: Lines = [("recipe", "tags", "T", "step 1", "step 2", "step T", "step T over step 1", "seeds")]
    for group in grouped(read_rows("accuracy", path=path)):
        is_bundled = group.config["recipe"] in known and group.changes.keys() <= OF_EACH
        if group.dev and group.is_refined and is_bundled:
            first, second, last = las(group, t=1), las(group, t=2), las(group)
            cells = [spread([*each.values()]) for each in (first, second, last)]
            gain = spread(gains(first, last), signed=True)
            name, tags = group.config["recipe"], group.config["tags"]
            lines.append((f"`{name}`", tags, group.config["T"], *cells, gain, len(last)))
    for of_model in read_rows("pipeline", path=path, split="dev", model="en")[-1:]:
        by_step = [100 * each for each in of_model["result"]["gold words"]["LAS_by_step"][1:]]
        cells = [f"{each:.2f}" for each in (by_step[0], by_step[1], by_step[-1])]
        lines.append(("`en`, as bundled", "predicted", len(by_step), *cells, f"{by_step[-1] - by_step[0]:+.2f}", NONE))
    return table(*lines)


def starts(path: Path = ROWS) -> str:
    """Return the LAS of one start and of several, and what they cost."""
    row = newest("starts", "cpu", path=path)
    if row is None:
        return missing("several starts", STARTS)
    result, config = row["result"], row["config"]
    names = {
        PLAIN: f"one start, up to {config['T']} steps",
        "fixed point from an empty graph": f"one start, up to {config['most_steps']} steps",
        "most probable": "several starts, the most probable tree",
        "most agreed": "several starts, the tree that shares the most arcs with the others",
        "best by gold": "several starts, the tree nearest to gold (an upper bound)",
    }
    lines: Lines = [("trees", "LAS", "over one start", "p")]
    for key, name in names.items():
        found = result[key]
        over = (f"{100 * found['difference']:+.2f}", f"{found['randomisation']:.4f}") if key != PLAIN else (NONE, NONE)
        lines.append((name, f"{100 * found['LAS']:.2f}", *over))
    times = result["passes_per_sentence_of_several"] / result["passes_per_sentence"]
    notes = (
        f"{config['sentences']:,} sentences of {config['treebank']} {config['split']}, model `{config['model']}`, gold "
        f"words without tags. The starts are an empty graph and the {config['k']} best trees of the first step; they "
        f"lead to different trees in {100 * result['sentences_with_several_trees']:.1f}% of the sentences. They take "
        f"{result['passes_per_sentence_of_several']:.1f} passes per sentence instead of "
        f"{result['passes_per_sentence']:.1f} ({times:.1f} times as many). {origin(row, STARTS)}"
    )
    return f"{table(*lines)}\n\n{notes}"


def cost(path: Path = ROWS) -> str:
    """Return the time of one pass and of refinement, from the rows of docs/speed.md."""
    speed, curve = newest("speed", "cpu", path=path), newest("speed_curves", "cpu", path=path)
    if speed is None or curve is None:
        return missing("the cost of a step", "python -m benchmarks speed")
    per_second = {
        name: speed["result"][f"{system}: {WORDS}"]["sentences_per_second"]
        for name, system in (("one", "treefine, one pass"), ("all", "treefine"))
    }
    points = dict(zip(curve["result"]["T"]["x"], curve["result"]["T"]["microseconds_a_word"], strict=True))
    lines: Lines = [("", *(f"T = {t}" for t in points))]
    lines.append(("microseconds per word", *(f"{each:,.0f}" for each in points.values())))
    lines.append(("relative to one step", *(f"{each / points[1]:.1f}" for each in points.values())))
    return (
        f"The bundled model parses {per_second['one']:,.0f} sentences per second in one step, and "
        f"{per_second['all']:,.0f} with up to {curve['config']['T']} steps ({machine_of(speed)}). A sentence that no "
        f"longer changes takes no further step.\n\n{table(*lines)}\n\n{machine_of(curve)}; [speed.md](speed.md) has "
        "the details."
    )


def gist(curve: Curve) -> str:
    """Return sentences that summarise the tables."""
    both = curve.both()
    if not both:
        return _missing("what refinement adds")
    over_syntr = {place: statistics.mean(gains(las(one), las(two)) or [0.0]) for place, (one, two) in both.items()}
    over_first = {place: statistics.mean(gains(las(two, t=1), las(two)) or [0.0]) for place, (_, two) in both.items()}
    significant = [
        row["result"]["last_step_over_first"]["randomisation"] < ALPHA
        for _, group in both.values()
        for row in group.dev.values()
    ]
    sentences = [
        f"- RNGTr is better than SynTr with as many updates in {_share(over_syntr)} ({_range(over_syntr)} LAS, means "
        "of the same seeds).",
        f"- Its last step is better than its first in {_share(over_first)} ({_range(over_first)} LAS). Of single "
        f"models, {sum(significant)} of {len(significant)} differ significantly between the two (p < {ALPHA}).",
    ]
    for treebank in dict.fromkeys(treebank for treebank, _ in both):
        found = [f"{over_syntr[place]:+.2f} ({_sentences(place[1])})" for place in both if place[0] == treebank]
        if len(found) > 1:
            sentences.append(f"- {treebank}, gain over SynTr by number of training sentences: {listed(found)}.")
    for syntr, rngtr in both.values():
        if "also" in _first(rngtr):
            means = {
                part: statistics.mean(gains(las(syntr, also=also), las(rngtr, also=also)) or [0.0])
                for also, part in PARTS.items()
            }
            found = [f"{gain:+.2f} on {part}" for part, gain in means.items()]
            sentences.append(f"- Trained on news, gain over SynTr: {listed(found)}.")
    return "\n".join(sentences)


def _share(found: Mapping[Any, float]) -> str:
    return f"{sum(each > 0 for each in found.values())} of {len(found)} cases"


def _range(found: Mapping[Any, float]) -> str:
    return f"{min(found.values()):+.2f} to {max(found.values()):+.2f}"


def _of_curve(make: Callable[[Curve], str]) -> Callable[[], str]:
    return lambda: make(Curve(read_rows("accuracy")))


REFINEMENT: dict[str, Callable[[], str]] = {
    **{f"refinement_{make.__name__}": _of_curve(make) for make in (gist, sizes, steps, genres, tried)},
    "refinement_recipes": recipes,
    "refinement_starts": starts,
    "refinement_cost": cost,
}
