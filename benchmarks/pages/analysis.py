"""Generate docs/analysis.md: what refinement corrects, from the rows of accuracy and the trees of each step."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path

from benchmarks.markdown import NONE, Lines, folded, listed, percent, table
from benchmarks.markdown import Line as Cells
from benchmarks.options import DEVICE, ROWS_FILE, command, option
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
from treefine_paper import paper
from treefine_paper.predictions import load_predictions

PAGE = "docs/analysis.md"
LEAST, MOST = 100, 12  # minimum of gold words of a ranked dependency type, and number of types shown
TREEBANK = "en_ewt"  # of the examples; its licence (CC BY-SA 4.0) allows showing sentences
EXAMPLES = 2
LONG = 30  # words
MANY = 500  # minimum of gold words of a point that is compared
RULE = "conll18"
CURVES = {  # property: title of its axis
    "dependency length": "dependency length (words)",
    "distance to root": "distance to root (arcs)",
    "sentence length": "sentence length (words)",
}


@command(
    option(
        "--time",
        metavar="MODEL",
        help="only measure the time of each step of this model on en_ewt dev, and write a row",
    ),
    ROWS_FILE,
    DEVICE,
)
def measure_analysis(options: argparse.Namespace) -> None:
    """Write docs/analysis.md and its figures from the rows, or measure the time of each step of a model.

    python -m benchmarks analysis
    python -m benchmarks analysis --time en
    """
    if options.time:
        measure_step_times(options.time, options.rows, options.device)
    elif not TREEBANKS.exists():
        raise TreefineError("The treebanks are missing: they must be next to this checkout.", path=str(TREEBANKS))
    else:
        write_analysis()


def write_analysis() -> None:
    """Write the tables and figures of the page."""
    page = Path(ROOT, PAGE)
    page.write_text(filled(page.read_text(), ANALYSIS))
    for name, draw in FIGURES.items():
        Path(ROOT, name).write_text(draw())


def models() -> str:
    """Return the models that the page analyses."""
    lines: Lines = [("model", "treebank", "training sentences", "dataset type", "encoder", "seeds", "recipe")]
    for kind, of_kind in all_models().items():
        for model in of_kind.values():
            seeds = " ".join(f"**{seed}**" if seed == model.chosen else str(seed) for seed in model.predictions)
            place = (model.treebank, f"{sizes()[model.treebank]:,}", resource(model.treebank))
            lines.append((kind, *place, model.encoder.partition(", ")[0], seeds, f"`{model.recipe}`"))
    mixed = {model.recipe for of_kind in all_models().values() for model in of_kind.values() if model.is_mixed}
    notes = [
        f"`{each}` was trained to refine several initial parsers; here it starts from the biaffine parser."
        for each in sorted(mixed)
    ]
    return "\n\n".join([table(*lines), *notes])


def findings() -> str:
    """Return the main findings as three sentences."""
    totals, first_shares, ratios, last_shares = [], [], [], []
    for kind, of_kind in all_models().items():
        found = refinement_of_all(of_kind)
        first, second, *_, last = found.attachment["LAS"].f1
        totals.append(f"{100 * (found.attachment['LAS'].total or 0.0):.1f}% if it starts from {KINDS[kind]}")
        first_shares.append((second - first) / (last - first))
        each = [refinement_of_model(model) for model in of_kind.values()]
        corrected, spoiled = (sum(len(getattr(one, name)) for one in each) for name in ("corrected", "spoiled"))
        ratios.append(f"{corrected / spoiled:.1f} if it starts from {KINDS[kind]}")
        last_shares += [1 - one.converged[-1] / one.n_sentences for one in each]
    return "\n".join(
        [
            f"- Refinement removes part of the LAS errors on dev: {listed(totals)}.",
            f"- The first step with a graph brings {min(first_shares):.0%} to {max(first_shares):.0%} of the gain."
            f" The last step changes {min(last_shares):.1%} to {max(last_shares):.1%} of the sentences.",
            f"- For each sentence that refinement spoils, it corrects more than one: {listed(ratios)}.",
        ]
    )


def steps() -> str:
    """Return LAS of each model after each step; error reductions by step, UAS and the spread of seeds are folded."""

    def found(models: Mapping[str, Model]) -> dict[str, Refinement]:
        each = {treebank: refinement_of_model(model) for treebank, model in models.items()}
        return each | ({"all together": refinement_of_all(models)} if len(each) > 1 else {})

    def lines(kind: str, models: Mapping[str, Model]) -> Iterable[Cells]:
        ts = next(iter(found(models).values())).steps
        yield ("treebank", *_titles("LAS t = {}", ts), "errors removed")
        for treebank, each in found(models).items():
            las = each.attachment["LAS"]
            yield (treebank, *map(percent, las.f1), reduction(las.total))

    def details(models: Mapping[str, Model]) -> Iterable[Cells]:
        ts = next(iter(found(models).values())).steps
        yield ("treebank", *_titles("REL t = {}", ts[1:]), "by seed, all steps", f"UAS t = {ts[0]}", f"t = {ts[-1]}")
        for treebank, each in found(models).items():
            uas = each.attachment["UAS"].f1
            spread = _spread(models.get(treebank))
            yield (
                treebank,
                *map(reduction, each.attachment["LAS"].reductions),
                spread,
                percent(uas[0]),
                percent(uas[-1]),
            )

    def below(kind: str, models: Mapping[str, Model]) -> str:
        return f"{first_step(kind, models)}\n\n{folded('Error reduction by step, and UAS', table(*details(models)))}"

    return _by_kind(lines, below)


def first_step(kind: str, models: Mapping[str, Model]) -> str:
    """Return the first step's share of the gain, and SynTr's LAS if the initial parser has another encoder."""
    found = refinement_of_all(models)
    first, second, *_, last = found.attachment["LAS"].f1
    if last <= first:
        return "All steps together bring no gain."
    text = f"Step {found.steps[1]} brings {(second - first) / (last - first):.0%} of the gain of all steps."
    for treebank, model in models.items():
        plain = syntr_las(treebank, model.encoder) if kind == "Biaffine+RNGTr" else None
        if plain is not None:
            start, refined = refinement_of_model(model).attachment["LAS"].f1[:2]
            text += (
                f" On {treebank}, the first step raises LAS from {percent(start)} to {percent(refined)}; SynTr, with "
                f"the same encoder and without a graph, has {percent(plain)}."
            )
    return text


def _spread(model: Model | None) -> str:
    """Return the smallest and the largest total reduction of a seed."""
    if model is None or len(model.predictions) < 2:
        return NONE
    found = [refinement_of_seed(model.treebank, file) for file in model.predictions.values()]
    totals = [each.attachment["LAS"].total or 0.0 for each in found]
    return f"{reduction(min(totals))} to {reduction(max(totals))}"


def resources() -> str:
    """Return the paper's table of low- and high-resource treebanks."""

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

    rule = f"{HIGH} treebanks have more than {LARGE:,} training sentences, {LOW} treebanks have fewer."
    return f"{rule}\n\n{_by_kind(lines, later_steps)}"


def later_steps(kind: str, models: Mapping[str, Model]) -> str:
    """Compare the gain of the second step from a weak parser on small training sets with the paper's."""
    small = {treebank: model for treebank, model in models.items() if resource(treebank) == LOW}
    if kind != "Biaffine+RNGTr" or not small:
        return ""
    ours, theirs = refinement_of_all(small).attachment["LAS"].reductions[1], paper.RESOURCES[_in_paper(kind)][LOW][1]
    return (
        f"On small training sets, the paper's second step removes {theirs:.2f}% of UDify's remaining errors. Here, on "
        f"{listed(list(small))}, it removes {100 * (ours or 0):.2f}% of the biaffine parser's remaining errors."
    )


def labels() -> str:
    """Return the paper's table of dependency types."""

    def lines(kind: str, models: Mapping[str, Model]) -> Iterable[Cells]:
        found = refinement_of_all(models)
        yield ("dependency type", "gold words", *_header(kind, found.steps, paper.DEPENDENCY_TYPES))
        for label in ranked_labels(found, least=LEAST, most=MOST):
            yield (f"`{label}`", *_counted(found.labels[label]), *_reported(paper.DEPENDENCY_TYPES, kind, label))

    def below(kind: str, models: Mapping[str, Model]) -> str:
        return label_sentence(refinement_of_all(models))

    rule = f"The tables show the first {MOST} of the types with at least {LEAST} gold words."
    return f"{rule}\n\n{_by_kind(lines, below)}"


def label_sentence(found: Refinement) -> str:
    """Return how many types got better and worse, and which got worse most."""
    ranked = ranked_labels(found, least=LEAST)
    totals = {label: found.labels[label].total or 0.0 for label in ranked}
    worse = [label for label in reversed(ranked) if totals[label] < 0]
    better = sum(total > 0 for total in totals.values())
    text = (
        f"Refinement lowers the error of {better} and raises that of {len(worse)} of the {len(ranked)} types with at "
        f"least {LEAST} gold words"
    )
    most = [f"`{label}` ({reduction(totals[label])})" for label in worse[:3]]
    return f"{text}, mostly of {listed(most)}." if most else f"{text}."


def projectivity() -> str:
    """Return the paper's table of tree types."""

    def lines(kind: str, models: Mapping[str, Model]) -> Iterable[Cells]:
        found = refinement_of_all(models)
        yield ("tree type", "gold words", *_header(kind, found.steps, paper.PROJECTIVITY))
        for name, counts in found.projectivity.items():
            yield (name.title(), *_counted(counts), *_reported(paper.PROJECTIVITY, kind, name))

    return _by_kind(lines)


def converged() -> str:
    """Return the share of sentences whose tree a step did not change."""

    def lines(kind: str, models: Mapping[str, Model]) -> Iterable[Cells]:
        found = {treebank: refinement_of_model(model) for treebank, model in models.items()}
        yield ("treebank", "sentences", *_titles("t = {}", next(iter(found.values())).steps[1:]))
        for treebank, each in found.items():
            shares = [share(number, each.n_sentences) for number in each.converged]
            yield (treebank, f"{each.n_sentences:,.0f}", *shares)

    return _by_kind(lines)


def changed() -> str:
    """Return how many sentences became right, and how many became wrong."""

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
    """Return one table for each kind of model; all but the first are folded."""
    parts: list[str] = []
    for kind, models in all_models().items():
        title = f"{kind}, from {KINDS[kind]}, on {listed(list(models))}"
        body = "\n\n".join(filter(None, [table(*lines(kind, models)), below(kind, models) if below else ""]))
        parts.append(folded(title, body) if parts else f"**{title}:**\n\n{body}")
    return "\n\n".join(parts)


def _titles(form: str, ts: Iterable[int]) -> list[str]:
    first, *rest = ts
    return [form.format(first), *[f"t = {t}" for t in rest]]


def _header(kind: str, ts: Sequence[int], reported: Mapping[str, object]) -> tuple[str, ...]:
    ours = (*_titles("t = {}", ts[1:]), "all steps")
    return (*ours, *_titles("paper: t = {}", ts[1:])) if _in_paper(kind) in reported else ours


def _counted(counts: StepCounts) -> tuple[str, ...]:
    return (f"{counts.gold:,.0f}", *map(reduction, counts.reductions), reduction(counts.total))


def _reported(reported: Mapping[str, Mapping[str, Sequence[float]]], kind: str, name: str) -> tuple[str, ...]:
    """Return the paper's numbers for each step: dashes if it has no such row, nothing if it has no such model."""
    rows = reported.get(_in_paper(kind))
    if rows is None:
        return ()
    n_steps = len(next(iter(rows.values())))
    return tuple(f"{each:+.2f}%" for each in rows.get(name, ())) or (NONE,) * n_steps


def _in_paper(kind: str) -> str:
    """Return the model of the paper with the same role: it starts from UDify, treefine from the biaffine parser."""
    return kind.replace("Biaffine", "UDify")


@cache
def words_of(treebank: str) -> WordColumns:
    """Return the gold words of a dev set."""
    return load_words(gold_of(treebank))


@cache
def gold_values(treebank: str, by: str) -> list[int | str]:
    """Return a property of each gold word."""
    return PROPERTIES[by](words_of(treebank), RULE)


def tally_of(treebank: str, predictions: str, t: int | None, by: str) -> Tally:
    """Tally the words of the trees after step t, or of the final trees, by a property."""
    trees = [graph.arcs for graph in load_predictions(PREDICTIONS / predictions).graphs(t)]
    pair = step_pair(words_of(treebank), trees)
    found = all_marks(pair, rule=RULE, metrics=("LAS",))["LAS"]
    return tally(by, pair, found, gold_values(treebank, by), PROPERTIES[by](pair.system, RULE))


def shown_systems() -> dict[str, dict[str, tuple[str, int | None]]]:
    """Return the file of trees and its step t by system and treebank, for systems that all treebanks have."""
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
    """Return the points of each system over all treebanks together."""
    tallies = {
        system: join([tally_of(treebank, *files[treebank], by) for treebank in NAMES])
        for system, files in shown_systems().items()
    }
    return draw_curves({by: tallies}, samples=200, seed=1)[by]


def errors_by(by: str) -> str:
    """Draw LAS by one property, with a line per system."""
    lines = [
        Line(system, tuple(Mark(point.value, 100 * point.f1, count=point.gold) for point in points))
        for system, points in curves_of(by).items()
    ]
    title, x_title, y_title = f"LAS by {by}", CURVES[by], "LAS (F1, %)"
    return draw_lines(lines, title=title, x_title=x_title, y_title=y_title, limits=PERCENT, apart=APART)


def errors_left() -> str:
    """Draw the LAS errors left after each step, in percent of the initial ones, with a line per model."""
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
    """Return the shortest sentences that the English model "corrected" or "spoiled" by moving an arc of SynTr's parse.

    Sentences with names, numbers or words of unknown kind are left out, because many come from private mail.
    """
    found: Sequence[Example] = getattr(refinement_of_model(all_models()["SynTr+RNGTr"][TREEBANK]), kind)
    moved = [each for each in found if each.first.heads != each.last.heads]
    return [each for each in moved if not {"PROPN", "NUM", "X", "SYM"} & set(each.gold.upos)][:EXAMPLES]


def drawn_examples(kind: str) -> str:
    """Draw these sentences below each other: SynTr's parse and the refined one."""
    steps = refinement_of_model(all_models()["SynTr+RNGTr"][TREEBANK]).steps
    pictures = [example_pictures(each, steps, is_corrected=kind == "corrected") for each in chosen_examples(kind)]
    return draw_svg([picture for two in pictures for picture in two])


def examples() -> str:
    """Name the sentences that are drawn."""
    names = {kind: [f"`{each.gold.sent_id}`" for each in chosen_examples(kind)] for kind in ("corrected", "spoiled")}
    corrected, spoiled = map(listed, names.values())
    return f"The sentences are {corrected} (corrected) and {spoiled} (spoiled) of {TREEBANK} dev."


def curves() -> str:
    """Say which encoders the lines belong to, and how close the lines of the refined models are."""
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
        f"Each line shows one seed. The lines of {listed(refined)} are close: at {sum(closer)} of the {len(closer)} "
        f"points with at least {MANY} gold words, their distance is smaller than each of their 95% bands."
    )
    return " ".join(text)


def mixture() -> str:
    """Say which treebanks the words of long sentences come from."""
    n_long = {treebank: sum(len(each) for each in gold_of(treebank) if len(each) > LONG) for treebank in NAMES}
    shares = [f"{number / sum(n_long.values()):.0%} come from {treebank}" for treebank, number in n_long.items()]
    return f"Of the words in sentences with more than {LONG} words, {listed(shares)}."


FIGURES: Mapping[str, Callable[[], str]] = {
    "docs/analysis-steps.svg": errors_left,
    **{f"docs/analysis-{by.replace(' ', '-')}.svg": partial(errors_by, by) for by in CURVES},
    **{f"docs/analysis-{kind}.svg": partial(drawn_examples, kind) for kind in ("corrected", "spoiled")},
}
ANALYSIS: dict[str, Callable[[], str]] = {
    f"analysis_{each.__name__}": each
    for each in (
        findings,
        models,
        steps,
        resources,
        labels,
        projectivity,
        converged,
        changed,
        examples,
        curves,
        mixture,
    )
} | MODEL_TABLES
