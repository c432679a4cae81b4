"""The figures of docs/analysis.md: errors by length and depth as in the paper, errors left by step, and examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial

from benchmarks.predictions import load_predictions
from benchmarks.refinements import NAMES, PREDICTIONS, all_models, gold_of, refinement_of_model
from benchmarks.results import listed
from treefine.drawing.svg import draw_svg
from treefine.evaluation.analysis.charts import PERCENT, Line, Mark, draw_lines, draw_steps
from treefine.evaluation.analysis.curves import Point, Tally, draw_curves, join, tally
from treefine.evaluation.analysis.pages import APART, example_pictures
from treefine.evaluation.analysis.refinement import Example, step_pair
from treefine.evaluation.breakdown import PROPERTIES
from treefine.evaluation.scores import all_marks
from treefine.evaluation.words import WordColumns, load_words

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
