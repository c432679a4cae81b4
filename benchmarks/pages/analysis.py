"""The refinement analysis of docs/analysis.md, from the rows of accuracy and the trees of each step."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path

from benchmarks.accuracy.predictions import load_predictions
from benchmarks.markdown import NONE, Lines, listed, percent, table
from benchmarks.markdown import Line as Cells
from benchmarks.options import DEVICE, ROWS_FILE, command, option
from benchmarks.pages import paper
from benchmarks.pages.analysis_models import (
    HIGH,
    KINDS,
    LOW,
    MODEL_TABLES,
    NAMES,
    Model,
    all_models,
    gold_of,
    measure_step_times,
    refinement_of_all,
    refinement_of_model,
    refinement_of_seed,
    resource,
    sizes,
    syntr_las,
)
from benchmarks.pages.tables import filled
from benchmarks.rows import PREDICTIONS, ROOT, TREEBANKS
from treefine import TreefineError
from treefine.drawing.svg import draw_svg
from treefine.evaluation.analysis.charts import PERCENT, Line, Mark, draw_lines, draw_steps
from treefine.evaluation.analysis.curves import Point, Tally, draw_curves, join, tally
from treefine.evaluation.analysis.export import reduction_text as reduction
from treefine.evaluation.analysis.export import share_text as share
from treefine.evaluation.analysis.pages import APART, example_pictures
from treefine.evaluation.analysis.refinement import LARGE, Example, Refinement, StepCounts, ranked_labels, step_pair
from treefine.evaluation.breakdown import PROPERTIES
from treefine.evaluation.scores import all_marks
from treefine.evaluation.words import WordColumns, load_words

PAGE = "docs/analysis.md"
LEAST, MOST = 100, 12  # gold words of a dependency type that is ranked, and how many types are shown
TREEBANK = "en_ewt"  # of the examples: its licence (CC BY-SA 4.0) lets us show its sentences
EXAMPLES = 2
LONG = 30  # words
MANY = 500  # gold words of a point that is compared
RULE = "conll18"
CURVES = {  # by property: the title of its axis
    "dependency length": "dependency length (words)",
    "distance to root": "distance to root (arcs)",
    "sentence length": "sentence length (words)",
}


@command(
    option("--time", metavar="MODEL", help="only time each step of this model on en_ewt dev, as a row"),
    ROWS_FILE,
    DEVICE,
)
def measure_analysis(options: argparse.Namespace) -> None:
    """Write the page and its figures from the rows; or time the steps of a model, for the page.

    python -m benchmarks analysis
    python -m benchmarks analysis --time en
    """
    if options.time:
        measure_step_times(options.time, options.rows, options.device)
    elif not TREEBANKS.exists():
        raise TreefineError("The treebanks are missing; they should stand beside this checkout.", path=str(TREEBANKS))
    else:
        write_analysis()


def write_analysis() -> None:
    """Fill the page's tables, and draw its figures."""
    page = Path(ROOT, PAGE)
    page.write_text(filled(page.read_text(), ANALYSIS))
    for name, draw in FIGURES.items():
        Path(ROOT, name).write_text(draw())


def models() -> str:
    """Which models the page is about."""
    lines: Lines = [("model", "treebank", "training sentences", "dataset type", "encoder", "seeds", "recipe")]
    for kind, of_kind in all_models().items():
        for model in of_kind.values():
            seeds = " ".join(f"**{seed}**" if seed == model.chosen else str(seed) for seed in model.predictions)
            place = (model.treebank, f"{sizes()[model.treebank]:,}", resource(model.treebank))
            lines.append((kind, *place, model.encoder.partition(", ")[0], seeds, f"`{model.recipe}`"))
    mixed = {model.recipe for of_kind in all_models().values() for model in of_kind.values() if model.is_mixed}
    notes = [
        f"`{each}` was trained to refine several initial parsers; here it starts from the biaffine parser's parses."
        for each in sorted(mixed)
    ]
    return "\n\n".join([table(*lines), *notes])


def steps() -> str:
    """UAS and LAS of each model after each step, and its RELᵗ."""

    def lines(kind: str, models: Mapping[str, Model]) -> Iterable[Cells]:
        found = {treebank: refinement_of_model(model) for treebank, model in models.items()}
        if len(found) > 1:
            found["all together"] = refinement_of_all(models)
        ts = next(iter(found.values())).steps
        uas_titles, rel_titles = (f"UAS t = {ts[0]}", f"t = {ts[-1]}"), _titles("REL t = {}", ts[1:])
        yield ("treebank", *uas_titles, *_titles("LAS t = {}", ts), *rel_titles, "all steps", "by seed")
        for treebank, each in found.items():
            uas, las = each.attachment["UAS"], each.attachment["LAS"]
            ends = (percent(uas.f1[0]), percent(uas.f1[-1]))
            rel = (*map(reduction, las.reductions), reduction(las.total))
            yield (treebank, *ends, *map(percent, las.f1), *rel, _spread(models.get(treebank)))

    return _by_kind(lines, first_step)


def first_step(kind: str, models: Mapping[str, Model]) -> str:
    """Which part of the gain the first step brings; and where the initial parser has no such encoder, SynTr's LAS."""
    found = refinement_of_all(models)
    first, second, *_, last = found.attachment["LAS"].f1
    if last <= first:
        return "The steps together bring no gain."
    text = f"The step t = {found.steps[1]} brings {(second - first) / (last - first):.0%} of the gain of all steps."
    for treebank, model in models.items():
        plain = syntr_las(treebank, model.encoder) if kind == "Biaffine+RNGTr" else None
        if plain is not None:
            start, refined = refinement_of_model(model).attachment["LAS"].f1[:2]
            text += (
                f" On {treebank}, SynTr, which has the same encoder and reads no graph, has LAS {percent(plain)}: the "
                f"biaffine parser has {percent(start)}, and the first step makes {percent(refined)} of it."
            )
    return text


def _spread(model: Model | None) -> str:
    """The least and the largest total reduction of a seed."""
    if model is None or len(model.predictions) < 2:
        return NONE
    found = [refinement_of_seed(model.treebank, file) for file in model.predictions.values()]
    totals = [each.attachment["LAS"].total or 0.0 for each in found]
    return f"{reduction(min(totals))} to {reduction(max(totals))}"


def resources() -> str:
    """The paper's table of low- and high-resource treebanks."""

    def lines(kind: str, models: Mapping[str, Model]) -> Iterable[Cells]:
        ts = refinement_of_all(models).steps
        yield ("dataset type", "treebanks", *_header(kind, ts, paper.RESOURCES))
        for size in (LOW, HIGH):
            chosen = {treebank: model for treebank, model in models.items() if resource(treebank) == size}
            cells: Sequence[str] = [NONE] * len(ts)
            if chosen:
                counts = refinement_of_all(chosen).attachment["LAS"]
                cells = (*map(reduction, counts.reductions), reduction(counts.total))
            yield (size, ", ".join(chosen) or NONE, *cells, *_reported(paper.RESOURCES, kind, size))

    rule = f"{HIGH} are treebanks with more than {LARGE:,} training sentences, {LOW} all others."
    return f"{rule}\n\n{_by_kind(lines, later_steps)}"


def later_steps(kind: str, models: Mapping[str, Model]) -> str:
    """What the second step from a weak parser brings on small training sets, which is much in the paper."""
    small = {treebank: model for treebank, model in models.items() if resource(treebank) == LOW}
    if kind != "Biaffine+RNGTr" or not small:
        return ""
    ours, theirs = refinement_of_all(small).attachment["LAS"].reductions[1], paper.RESOURCES[kind][LOW][1]
    return (
        f"In the paper the second step on small training sets removes {theirs:.2f} % of the errors that the first left "
        f"of UDify's; here, on {listed(list(small))}, {100 * (ours or 0):.2f} % of those left of the biaffine parser's."
    )


def labels() -> str:
    """The paper's table of dependency types."""

    def lines(kind: str, models: Mapping[str, Model]) -> Iterable[Cells]:
        found = refinement_of_all(models)
        yield ("dependency type", "gold words", *_header(kind, found.steps, paper.LABELS))
        for label in ranked_labels(found, least=LEAST, most=MOST):
            yield (f"`{label}`", *_counted(found.labels[label]), *_reported(paper.LABELS, kind, label))

    def below(kind: str, models: Mapping[str, Model]) -> str:
        return label_sentence(refinement_of_all(models))

    rule = f"Shown are the first {MOST} of the types with at least {LEAST} gold words."
    return f"{rule}\n\n{_by_kind(lines, below)}"


def label_sentence(found: Refinement) -> str:
    """How many types got better and worse, and which ones the most."""
    ranked = ranked_labels(found, least=LEAST)
    totals = {label: found.labels[label].total or 0.0 for label in ranked}
    worse = [label for label in reversed(ranked) if totals[label] < 0]
    better = sum(total > 0 for total in totals.values())
    text = (
        f"Of the {len(ranked)} types with at least {LEAST} gold words, the steps together lower the error of {better} "
        f"and raise that of {len(worse)}"
    )
    most = [f"`{label}` ({reduction(totals[label])})" for label in worse[:3]]
    return f"{text}, most of all of {listed(most)}." if most else f"{text}."


def projectivity() -> str:
    """The paper's table of tree types."""

    def lines(kind: str, models: Mapping[str, Model]) -> Iterable[Cells]:
        found = refinement_of_all(models)
        yield ("tree type", "gold words", *_header(kind, found.steps, paper.PROJECTIVITY))
        for name, counts in found.projectivity.items():
            yield (name.title(), *_counted(counts), *_reported(paper.PROJECTIVITY, kind, name))

    return _by_kind(lines)


def converged() -> str:
    """The share of the sentences whose tree each step left as it was."""

    def lines(kind: str, models: Mapping[str, Model]) -> Iterable[Cells]:
        found = {treebank: refinement_of_model(model) for treebank, model in models.items()}
        yield ("treebank", "sentences", *_titles("t = {}", next(iter(found.values())).steps[1:]))
        for treebank, each in found.items():
            shares = [share(number, each.n_sentences) for number in each.converged]
            yield (treebank, f"{each.n_sentences:,.0f}", *shares)

    return _by_kind(lines)


def changed() -> str:
    """How many sentences became right, and how many became wrong."""

    def lines(kind: str, models: Mapping[str, Model]) -> Iterable[Cells]:
        yield ("treebank", "seed", "sentences", "corrected", "spoiled")
        for treebank, model in models.items():
            found = refinement_of_model(model)
            yield (treebank, model.chosen, f"{found.n_sentences:,.0f}", len(found.corrected), len(found.spoiled))

    return _by_kind(lines)


def _by_kind(
    lines: Callable[[str, Mapping[str, Model]], Iterable[Cells]],
    below: Callable[[str, Mapping[str, Model]], str] | None = None,
) -> str:
    """One table for each kind of model, under a line that says what it starts from."""
    parts = []
    for kind, models in all_models().items():
        parts += [f"**{kind}**, from {KINDS[kind]}, on {listed(list(models))}:", table(*lines(kind, models))]
        parts += [below(kind, models)] if below else []
    parts = [part for part in parts if part]
    return "\n\n".join(parts)


def _titles(form: str, ts: Iterable[int]) -> list[str]:
    first, *rest = ts
    return [form.format(first), *[f"t = {t}" for t in rest]]


def _header(kind: str, ts: Sequence[int], reported: Mapping[str, object]) -> tuple[str, ...]:
    ours = (*_titles("t = {}", ts[1:]), "all steps")
    return (*ours, *_titles("paper: t = {}", ts[1:])) if kind in reported else ours


def _counted(counts: StepCounts) -> tuple[str, ...]:
    return (f"{counts.gold:,.0f}", *map(reduction, counts.reductions), reduction(counts.total))


def _reported(reported: Mapping[str, Mapping[str, Sequence[float]]], kind: str, name: str) -> tuple[str, ...]:
    """What the paper has for each step; dashes where it does not name this, nothing where it has no such model."""
    if kind not in reported:
        return ()
    n_steps = len(next(iter(reported[kind].values())))
    return tuple(f"{each:+.2f} %" for each in reported[kind].get(name, ())) or (NONE,) * n_steps


@cache
def words_of(treebank: str) -> WordColumns:
    """The gold words of a dev set."""
    return load_words(gold_of(treebank))


@cache
def gold_values(treebank: str, by: str) -> list[int | str]:
    """The property of each gold word."""
    return PROPERTIES[by](words_of(treebank), RULE)


def tally_of(treebank: str, predictions: str, t: int | None, by: str) -> Tally:
    """The words of a training's trees after step t, or the last, by a property."""
    trees = [graph.arcs for graph in load_predictions(PREDICTIONS / predictions).graphs(t)]
    pair = step_pair(words_of(treebank), trees)
    found = all_marks(pair, rule=RULE, metrics=("LAS",))["LAS"]
    return tally(by, pair, found, gold_values(treebank, by), PROPERTIES[by](pair.system, RULE))


def shown_systems() -> dict[str, dict[str, tuple[str, int | None]]]:
    """By system and treebank the file of trees and its t: of initial parsers and models that all treebanks have."""
    found: dict[str, dict[str, tuple[str, int | None]]] = {}
    for kind, models in all_models().items():
        for treebank, model in models.items():
            file = model.predictions[model.chosen]
            if kind != "Empty+RNGTr":
                found.setdefault(kind.removesuffix("+RNGTr"), {})[treebank] = (file, 0)
            found.setdefault(kind, {})[treebank] = (file, None)
    return {system: files for system, files in found.items() if files.keys() == set(NAMES)}


@cache
def curves_of(by: str) -> dict[str, tuple[Point, ...]]:
    """The points of each system over all treebanks together."""
    tallies = {
        system: join([tally_of(treebank, *files[treebank], by) for treebank in NAMES])
        for system, files in shown_systems().items()
    }
    return draw_curves({by: tallies}, samples=200, seed=1)[by]


def errors_by(by: str) -> str:
    """LAS by one property, a line a system."""
    lines = [
        Line(system, tuple(Mark(point.value, 100 * point.f1, count=point.gold) for point in points))
        for system, points in curves_of(by).items()
    ]
    title, x_title, y_title = f"LAS by {by}", CURVES[by], "LAS (F1, %)"
    return draw_lines(lines, title=title, x_title=x_title, y_title=y_title, limits=PERCENT, apart=APART)


def errors_left() -> str:
    """The LAS errors that are left after each step, in percent of those of the initial parses, a line a model."""
    lines = []
    for kind, models in all_models().items():
        for treebank, model in models.items():
            found = refinement_of_model(model)
            errors = [1 - las for las in found.attachment["LAS"].f1]
            marks = [Mark(t, 100 * each / errors[0]) for t, each in zip(found.steps, errors, strict=True)]
            if found.first == 0:
                lines.append(Line(f"{treebank}, {kind}", tuple(marks)))
    return draw_steps(lines, title="LAS errors left after each step", y_title="% of the initial parses' errors")


def chosen_examples(kind: str) -> list[Example]:
    """The shortest sentences that the English model on SynTr's parses "corrected" or "spoiled" by moving an arc.

    Those with a name, a number or a word of no kind are left out: many are of private mail.
    """
    found: Sequence[Example] = getattr(refinement_of_model(all_models()["SynTr+RNGTr"][TREEBANK]), kind)
    moved = [each for each in found if each.first.heads != each.last.heads]
    return [each for each in moved if not {"PROPN", "NUM", "X", "SYM"} & set(each.gold.upos)][:EXAMPLES]


def drawn_examples(kind: str) -> str:
    """Those sentences, one below another: SynTr's parse, and what the model made of it."""
    steps = refinement_of_model(all_models()["SynTr+RNGTr"][TREEBANK]).steps
    pictures = [example_pictures(each, steps, is_corrected=kind == "corrected") for each in chosen_examples(kind)]
    return draw_svg([picture for two in pictures for picture in two])


def examples() -> str:
    """Which sentences are drawn."""
    names = {kind: [f"`{each.gold.sent_id}`" for each in chosen_examples(kind)] for kind in ("corrected", "spoiled")}
    corrected, spoiled = map(listed, names.values())
    return f"Drawn are, of {TREEBANK} dev, {corrected} (corrected), and {spoiled} (spoiled)."


def curves() -> str:
    """Which encoders the lines over length and depth are of, and how far apart those of the refined models lie."""
    text = []
    for treebank in NAMES:
        encoders: dict[str, list[str]] = {}
        for kind, models in all_models().items():
            if kind in shown_systems():
                initial = ["SynTr"] if kind == "SynTr+RNGTr" else []
                encoders.setdefault(models[treebank].encoder.partition(", ")[0], []).extend([*initial, kind])
        if len(encoders) > 1:
            named = [
                f"{listed(kinds)} {'has' if len(kinds) == 1 else 'have'} {each}" for each, kinds in encoders.items()
            ]
            text.append(f"On {treebank} the lines mix encoders: {listed(named)}.")
    refined = [system for system in shown_systems() if system.endswith("+RNGTr")]
    closer = []
    for by in CURVES:
        shown = [{point.value: point for point in curves_of(by)[system]} for system in refined]
        for value in [value for value, point in shown[0].items() if point.gold >= MANY]:
            points = [each[value] for each in shown]
            apart = max(point.f1 for point in points) - min(point.f1 for point in points)
            closer.append(apart < min(point.high - point.low for point in points))
    text.append(
        f"The lines are of one seed each and have no bands. Those of {listed(refined)} differ by little: at "
        f"{sum(closer)} of the {len(closer)} points with at least {MANY} gold words they lie closer together than the "
        "95 % band of each is wide."
    )
    return " ".join(text)


def mixture() -> str:
    """Which treebank the words of long sentences come from."""
    n_long = {treebank: sum(len(each) for each in gold_of(treebank) if len(each) > LONG) for treebank in NAMES}
    shares = [f"{number / sum(n_long.values()):.0%} of {treebank}" for treebank, number in n_long.items()]
    return f"Of the words in sentences of more than {LONG} words, {listed(shares)}."


FIGURES: Mapping[str, Callable[[], str]] = {
    "docs/analysis-steps.svg": errors_left,
    **{f"docs/analysis-{by.replace(' ', '-')}.svg": partial(errors_by, by) for by in CURVES},
    **{f"docs/analysis-{kind}.svg": partial(drawn_examples, kind) for kind in ("corrected", "spoiled")},
}
ANALYSIS: dict[str, Callable[[], str]] = {
    f"analysis_{each.__name__}": each
    for each in (models, steps, resources, labels, projectivity, converged, changed, examples, curves, mixture)
} | MODEL_TABLES
