"""The refinement analysis of docs/analysis.md, from the rows of accuracy and the trees of each step.

python -m benchmarks analysis
python -m benchmarks analysis --time en
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks import paper
from benchmarks.analysis_figures import FIGURES, curves, examples, mixture
from benchmarks.analysis_models import MODEL_TABLES, measure_step_times
from benchmarks.markdown import table
from benchmarks.refinements import (
    HIGH,
    KINDS,
    LOW,
    Model,
    all_models,
    refinement_of_all,
    refinement_of_model,
    refinement_of_seed,
    resource,
    sizes,
    syntr_las,
)
from benchmarks.results import NONE, listed, percent
from benchmarks.rows import ROOT, ROWS, TREEBANKS
from benchmarks.tables import filled
from treefine import TreefineError
from treefine.evaluation.analysis.export import reduction_text as reduction
from treefine.evaluation.analysis.export import share_text as share
from treefine.evaluation.analysis.refinement import LARGE, Refinement, StepCounts, ranked_labels

PAGE = "docs/analysis.md"
LEAST, MOST = 100, 12  # gold words of a dependency type that is ranked, and how many types are shown
Line = tuple[object, ...]


def measure_analysis(arguments: Sequence[str]) -> None:
    """The command: write the page and its figures anew; or time the steps of a model, for the page."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks analysis", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--time", metavar="MODEL", help="only time each step of this model on en_ewt dev, as a row")
    parser.add_argument("--rows", type=Path, default=ROWS, help="the file that this row goes to")
    parser.add_argument("--device", default=None, help="cpu or cuda")
    options = parser.parse_args(arguments)
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
    lines: list[Line] = [("model", "treebank", "training sentences", "dataset type", "encoder", "seeds", "recipe")]
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

    def lines(kind: str, models: Mapping[str, Model]) -> Iterable[Line]:
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

    def lines(kind: str, models: Mapping[str, Model]) -> Iterable[Line]:
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

    def lines(kind: str, models: Mapping[str, Model]) -> Iterable[Line]:
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

    def lines(kind: str, models: Mapping[str, Model]) -> Iterable[Line]:
        found = refinement_of_all(models)
        yield ("tree type", "gold words", *_header(kind, found.steps, paper.PROJECTIVITY))
        for name, counts in found.projectivity.items():
            yield (name.title(), *_counted(counts), *_reported(paper.PROJECTIVITY, kind, name))

    return _by_kind(lines)


def converged() -> str:
    """The share of the sentences whose tree each step left as it was."""

    def lines(kind: str, models: Mapping[str, Model]) -> Iterable[Line]:
        found = {treebank: refinement_of_model(model) for treebank, model in models.items()}
        yield ("treebank", "sentences", *_titles("t = {}", next(iter(found.values())).steps[1:]))
        for treebank, each in found.items():
            shares = [share(number, each.n_sentences) for number in each.converged]
            yield (treebank, f"{each.n_sentences:,.0f}", *shares)

    return _by_kind(lines)


def changed() -> str:
    """How many sentences became right, and how many became wrong."""

    def lines(kind: str, models: Mapping[str, Model]) -> Iterable[Line]:
        yield ("treebank", "seed", "sentences", "corrected", "spoiled")
        for treebank, model in models.items():
            found = refinement_of_model(model)
            yield (treebank, model.chosen, f"{found.n_sentences:,.0f}", len(found.corrected), len(found.spoiled))

    return _by_kind(lines)


def _by_kind(
    lines: Callable[[str, Mapping[str, Model]], Iterable[Line]],
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


ANALYSIS: dict[str, Callable[[], str]] = {
    f"analysis_{each.__name__}": each
    for each in (models, steps, resources, labels, projectivity, converged, changed, examples, curves, mixture)
} | MODEL_TABLES
