"""The paper's tables of scores and costs: each line of results is above the paper's numbers for the same systems."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from treefine.evaluation.scores import relative_error_reduction
from treefine.evaluation.significance import ALPHA
from treefine.evaluation.tables import Table, TableCell
from treefine.training.recipe import BIAFFINE, FILES, SYNTR
from treefine.wording import clock
from treefine_paper import paper
from treefine_paper.collection import (
    DASH,
    OURS,
    PAPER,
    SYSTEM_TITLES,
    UD,
    ResultCollection,
    in_words,
    percent,
)
from treefine_paper.results import SystemResult
from treefine_paper.systems import MULTI, SYSTEMS, TABLE_1
from treefine_paper.treebanks import TREEBANKS

Metric: TypeAlias = Literal["UAS", "LAS"]
Best: TypeAlias = Mapping[tuple[str, str], frozenset[str]]  # by treebank and metric: the systems that tie for the best
SYNTR_LONGER, REFINED, EMPTY_REFINED = "syntr-long", "syntr-rngtr", "empty-rngtr"
# The columns of the UD tables, each with the system of the paper that has the same role.
UD_SYSTEMS = {
    BIAFFINE: "",
    f"{BIAFFINE}-rngtr": "",
    MULTI: "UDify",
    f"{MULTI}-rngtr": "UDify+RNGTr",
    FILES: "UDify",
    f"{FILES}-rngtr": "UDify+RNGTr",
    SYNTR: "SynTr",
    SYNTR_LONGER: "",
    REFINED: "SynTr+RNGTr",
    EMPTY_REFINED: "Empty+RNGTr",
}
PENN_SYSTEMS = (BIAFFINE, f"{BIAFFINE}-rngtr", SYNTR, SYNTR_LONGER, REFINED, EMPTY_REFINED)
_PENN_NAMES = {"ptb": "PTB", "ctb": "CTB", "de_conll09": "German"}
_BOLD = f"Bold: not significantly different from the best {{}} (approximate randomisation, α = {ALPHA:g} per pair)."
_ROLES = (
    "Multi is SynTr trained on all UD treebanks together and takes the role of UDify. Files are the parses of another "
    "parser. In both columns, the paper's number is that of UDify."
)


def table_1(found: ResultCollection) -> Table:
    """Return the number of steps and the stopping rule on the dev set of tr_imst."""
    rows: list[tuple[TableCell, ...]] = []
    printed = [(_grid_title(model, steps, stop), uas, las) for model, steps, stop, uas, las in paper.GRID]
    for initial, reported in ((SYNTR, printed[:4]), (FILES, printed[4:]), (MULTI, printed[4:])):
        refined = f"{initial}-rngtr"
        names = (initial, f"{refined}-t1", f"{refined}-no-stop", refined)
        for system, (theirs, uas, las) in zip(names, reported, strict=True):
            seeds = found.of(TABLE_1, system, "dev")
            title = (
                f"{SYSTEM_TITLES[system]} (T={SYSTEMS[system].steps})" if system == refined else SYSTEM_TITLES[system]
            )
            ours = (len(seeds) or DASH, _spread(seeds, "UAS"), _spread(seeds, "LAS"))
            rows.append((title, *ours, theirs, f"{uas:.2f}", f"{las:.2f}"))
    systems = [name for name in SYSTEMS if SYSTEMS[name].base in (SYNTR, REFINED, MULTI, f"{MULTI}-rngtr")]
    note = (
        f"UAS and LAS on the dev set of {found.title(TABLE_1)}: mean ± sample standard deviation of the seeds. Files "
        "are the parses of another parser, and Multi takes the role of UDify: both are next to the paper's UDify. "
        + found.note([TABLE_1], [*systems, *(each for each in SYSTEMS if each.startswith(FILES))], "dev")
    )
    header = ("model", "seeds", "UAS", "LAS", "model of the paper", "paper UAS", "paper LAS")
    return Table(header, tuple(rows), "Table 1: the number of refinement iterations", note)


def _grid_title(model: str, steps: int, stop: bool) -> str:
    if not model.endswith("+RNGTr"):
        return model
    return f"{model} (T={steps})" + ("" if stop else " w/o stop")


def _spread(seeds: Sequence[SystemResult], metric: Metric) -> str:
    """Return the mean over the seeds, and the sample standard deviation if there are several."""
    if not seeds:
        return DASH
    values = [100 * float(getattr(each, metric)) for each in seeds]
    spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{spread}"


def ud_table(found: ResultCollection, best: Best, metric: Metric) -> Table:
    """Return the test scores of the UD treebanks with the error reduction of refinement (Table 2, Appendix C)."""
    printed = paper.LAS if metric == "LAS" else paper.UAS
    rows: list[tuple[TableCell, ...]] = []
    bold: set[tuple[int, int]] = set()
    for code in UD:
        ties, title = best.get((code, metric), frozenset()), found.title(code)
        bold |= {(len(rows), 3 + column) for column, system in enumerate(UD_SYSTEMS) if system in ties}
        size = found.train_sentences(code)
        cells = [_ud_cell(found, code, system, metric) for system in UD_SYSTEMS]
        rows.append((title, OURS, f"{size:,}" if size else DASH, *cells))
        theirs = [printed[code].get(model) for model in UD_SYSTEMS.values()]
        bold |= {(len(rows), 3 + column) for column, each in enumerate(theirs) if each and each.is_bold}
        rows.append((title, PAPER, f"{paper.TRAIN_SIZES[code]:g}K", *map(_printed_text, theirs)))
    systems, counted = found.shared([*UD_SYSTEMS], "test")
    rows += _averages(found, systems, counted, metric)
    reduced = (
        f"Test {metric} in %. In parentheses: the share of the errors of the initial parser, trained with the same "
        f"seed, that refinement removes. {_BOLD.format('of the row')} {_ROLES}"
    )
    averaged = (
        f"The average is over {in_words(counted)}, which have results of all averaged systems."
        if counted
        else "No treebank has all systems, so there is no average."
    )
    note = f"{reduced} {averaged} {found.note(UD, UD_SYSTEMS, 'test')}"
    name = "Table 2: UD treebanks, LAS" if metric == "LAS" else "Appendix C: UD treebanks, UAS"
    header = ("treebank", "source", "train", *(SYSTEM_TITLES[each] for each in UD_SYSTEMS))
    return Table(header, tuple(rows), name, note, n_names=2, bold=frozenset(bold))


def _ud_cell(found: ResultCollection, code: str, system: str, metric: Metric) -> str:
    tested = found.tested(code, system)
    if tested is None:
        return DASH
    score, by_step = float(getattr(tested, metric)), getattr(tested, f"{metric}_by_step")
    is_refined = system in SYSTEMS and SYSTEMS[system].initial in UD_SYSTEMS
    before = by_step[0] if is_refined else None  # the initial parser of the same seed
    reduction = None if before is None else relative_error_reduction(before, score)
    return percent(score) + ("" if reduction is None else f" ({100 * reduction:+.2f}%)")


def _score(found: ResultCollection, code: str, system: str, metric: Metric) -> float | None:
    result = found.tested(code, system)
    return None if result is None else float(getattr(result, metric))


def _printed_text(each: paper.Printed | None) -> str:
    if each is None:
        return DASH
    return f"{each.score:.2f}" + ("" if each.reduction is None else f" ({each.reduction:+.2f}%)")


def _averages(
    found: ResultCollection, systems: Sequence[str], counted: Sequence[str], metric: Metric
) -> list[tuple[TableCell, ...]]:
    """Return the averages over the counted treebanks, ours and the paper's, and the average that the paper prints."""
    printed = paper.LAS if metric == "LAS" else paper.UAS
    all_printed = paper.LAS_AVERAGES if metric == "LAS" else paper.UAS_AVERAGES
    ours, theirs = [], []
    for system, model in UD_SYSTEMS.items():
        scores = [_score(found, code, system, metric) for code in counted] if system in systems else []
        known = [score for score in scores if score is not None]
        ours.append(percent(statistics.mean(known)) if known else DASH)
        reported = [printed[code][model].score for code in counted if model in printed[code]]
        theirs.append(f"{statistics.mean(reported):.2f}" if reported else DASH)
    mark = "" if all(map(found.is_comparable, counted)) else "†"
    title = f"Average of {len(counted)}{mark}"
    whole = [f"{all_printed[model]:.2f}" if model in all_printed else DASH for model in UD_SYSTEMS.values()]
    lines: list[tuple[TableCell, ...]] = [(title, OURS, DASH, *ours), (title, PAPER, DASH, *theirs)]
    return [*(lines if counted else ()), (f"Average of {len(UD)}, as printed", PAPER, DASH, *whole)]


def penn_table(found: ResultCollection, best: Best) -> Table:
    """Return the test scores of the Penn Treebanks and of German (Table 3)."""
    metrics: tuple[Metric, Metric] = ("UAS", "LAS")
    places = [(code, metric) for code in _PENN_NAMES for metric in metrics]
    rows: list[tuple[TableCell, ...]] = []
    bold: set[tuple[int, int]] = set()

    def add_printed(model: str) -> None:
        scores = [each for code in _PENN_NAMES for each in paper.PENN[model].scores.get(code, (None, None))]
        bold.update((len(rows), 3 + column) for column, each in enumerate(scores) if each and each.is_bold)
        kind = "T" if paper.PENN[model].is_transition_based else "G"
        rows.append((model, PAPER, kind, *map(_printed_text, scores)))

    titles = [SYSTEM_TITLES[system] for system in PENN_SYSTEMS]
    for model in paper.PENN:
        if model not in titles:
            add_printed(model)
    for system, title in zip(PENN_SYSTEMS, titles, strict=True):
        ties = [column for column, place in enumerate(places) if system in best.get(place, ())]
        bold.update((len(rows), 3 + column) for column in ties)
        rows.append((title, OURS, "G", *(percent(_score(found, code, system, metric)) for code, metric in places)))
        if title in paper.PENN:
            add_printed(title)
    note = (
        "Test UAS and LAS in %, without punctuation for the Penn Treebanks and with it for German. T: transition-based,"
        f" G: graph-based. {_BOLD.format('of the column, treefine and paper each for itself')} "
        + found.note([*_PENN_NAMES], PENN_SYSTEMS, "test")
    )
    header = ("model", "source", "type", *(f"{_PENN_NAMES[code]} {metric}" for code, metric in places))
    title = "Table 3: Penn Treebanks and German"
    return Table(header, tuple(rows), title, note, n_names=2, bold=frozenset(bold))


def dev_table(found: ResultCollection) -> Table:
    """Return the dev scores of all seeds."""
    rows: list[tuple[TableCell, ...]] = []
    for code, system, seeds in _trained(found):
        best = found.chosen(code, system)
        numbers = " ".join(str(each.seed) for each in seeds)
        scores = (_spread(seeds, "UAS"), _spread(seeds, "LAS"))
        rows.append((found.title(code), SYSTEM_TITLES[system], numbers, best.seed if best else DASH, *scores))
    note = (
        "Dev scores in %: mean ± sample standard deviation of the seeds. The chosen seed has the best dev LAS. "
        + found.note([*TREEBANKS], SYSTEMS, "dev")
    )
    header = ("treebank", "system", "seeds", "chosen", "UAS", "LAS")
    return Table(header, tuple(rows), "Dev scores of all seeds", note, n_names=2)


def _trained(found: ResultCollection) -> Iterable[tuple[str, str, list[SystemResult]]]:
    """Yield the dev results of each treebank and system that has some."""
    for code in TREEBANKS:
        for system in SYSTEMS:
            if seeds := found.of(code, system, "dev"):
                yield code, system, seeds


_AT_EQUAL_COST = (SYNTR, SYNTR_LONGER, REFINED, EMPTY_REFINED)


def equal_cost_table(found: ResultCollection) -> Table:
    """Return dev LAS with the number of updates that it took, and the gains of refinement over both controls."""
    rows: list[tuple[TableCell, ...]] = []
    for code in TREEBANKS:
        las = {system: found.mean(code, system, "LAS") for system in _AT_EQUAL_COST}
        if any(score is not None for score in las.values()):
            cells = [each for system in las for each in (_updates(found, code, system), percent(las[system]))]
            gains = [found.gain(code, control, REFINED) for control in (SYNTR, SYNTR_LONGER)]
            rows.append((found.title(code), *cells, *(DASH if gain is None else f"{gain:+.2f}" for gain in gains)))
    names = [SYSTEM_TITLES[system] for system in _AT_EQUAL_COST]
    header = ("treebank", *(f"{name} {kind}" for name in names for kind in ("updates", "LAS")))
    note = (
        f"Mean dev LAS of the seeds, and the mean number of updates. {names[1]} has as many updates as "
        f"{names[2]} can have. For {names[2]}, the updates of its initial parser are added after the plus sign. Gains "
        "are those of the seeds that both systems have. "
        f"{equal_cost_sentence(found)} {found.note([*TREEBANKS], _AT_EQUAL_COST, 'dev')}"
    )
    gained = (f"gain over {names[0]}", f"gain over {names[1]}")
    return Table((*header, *gained), tuple(rows), "At equal cost", note)


def _updates(found: ResultCollection, code: str, system: str) -> str:
    own = found.mean(code, system, "updates")
    initial = found.mean(code, SYSTEMS[system].initial, "updates")
    return DASH if own is None else f"{own:,.0f}" + ("" if initial is None else f" + {initial:,.0f}")


def equal_cost_sentence(found: ResultCollection) -> str:
    """Say how much of the gain of refinement over SynTr is left over SynTr that was trained longer."""
    names = [SYSTEM_TITLES[each] for each in _AT_EQUAL_COST]
    gains = []
    for code in TREEBANKS:
        over_syntr, over_control = (found.gain(code, control, REFINED) for control in (SYNTR, SYNTR_LONGER))
        if over_syntr is not None and over_control is not None:
            gains.append((over_syntr, over_control))
    if not gains:
        return f"No treebank has results of {in_words(names[:3])}."
    first, second = (statistics.mean(each) for each in zip(*gains, strict=True))
    treebanks = "one treebank" if len(gains) == 1 else f"{len(gains)} treebanks on average"
    syntr, longer, refined = names[:3]
    said = f"On {treebanks}, {refined} gains {first:+.2f} LAS over {syntr} and {second:+.2f} over {longer}"
    if first <= 0:
        return f"{said}: there is no gain over {syntr} to compare."
    return f"{said}: {max(second, 0) / first:.0%} of the gain is left.{_cost_sentence(found)}"


def _cost_sentence(found: ResultCollection) -> str:
    """Say how many updates the control had, compared with refinement and its initial parser; "" if unknown."""
    shares = []
    for code in TREEBANKS:
        initial, control, refined = (found.mean(code, system, "updates") for system in (SYNTR, SYNTR_LONGER, REFINED))
        if initial is not None and control is not None and refined is not None and initial + refined > 0:
            shares.append(control / (initial + refined))
    if not shares:
        return ""
    names = [SYSTEM_TITLES[each] for each in _AT_EQUAL_COST]
    return f" {names[1]} had {statistics.mean(shares):.0%} of the updates of {names[0]} and {names[2]} together."


def run_times_table(found: ResultCollection) -> Table:
    """Return parameters and run times (Appendix B)."""
    rows: list[tuple[TableCell, ...]] = []
    trained = [*_trained(found)]
    for code in TREEBANKS:
        for _, system, seeds in [each for each in trained if each[0] == code]:
            size = f"{seeds[0].parameters / 1e6:.1f}M"
            if seeds[0].initial_parameters:
                size += f" + {seeds[0].initial_parameters / 1e6:.1f}M"
            tested = found.tested(code, system)
            seconds = [DASH, DASH]
            if tested:
                speed = tested.words / tested.parsing_seconds if tested.parsing_seconds else None
                seconds = [f"{tested.parsing_seconds:.1f}", DASH if speed is None else f"{speed:,.0f}"]
            devices = in_words(sorted({each.device for each in seeds}))
            times = (clock(found.mean(code, system, "training_seconds")), *seconds, devices)
            rows.append((found.title(code), OURS, SYSTEM_TITLES[system], size, *times))
        for model, (training, evaluation) in paper.TIMES.get(code, {}).items():
            size = f"{paper.PARAMETERS[model]}M" if code == "ptb" else DASH
            rows.append((found.title(code), PAPER, model, size, training, evaluation, DASH, paper.DEVICE))
    note = (
        "Parameters of the network, and of its initial parser after the plus sign. Training time (h:mm:ss) is the mean "
        "of the seeds, without that of the initial parser. Evaluation time is that of the test set. The paper does not "
        f"name the initial parser of its RNGTr. {found.note([*TREEBANKS], SYSTEMS, 'test')}"
    )
    header = ("treebank", "source", "model", "parameters", "training", "evaluation (s)", "words/s", "device")
    return Table(header, tuple(rows), "Appendix B: parameters and run times", note, n_names=3)
