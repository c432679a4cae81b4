"""The paper's tables of scores and costs: each line of results is above the paper's numbers for the same systems."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from treefine.errors import count
from treefine.evaluation.scores import relative_error_reduction
from treefine.evaluation.significance import ALPHA
from treefine.evaluation.tables import Table, TableCell
from treefine.training.recipe import FILES
from treefine_paper import paper
from treefine_paper.collection import DASH, SYSTEM_TITLES, UD, ResultCollection, percent
from treefine_paper.results import SystemResult
from treefine_paper.systems import BIAFFINE, MULTI, SYNTR, SYSTEMS, TABLE_1
from treefine_paper.treebanks import TREEBANKS, clock, in_words

Metric: TypeAlias = Literal["UAS", "LAS"]
METRICS: tuple[Metric, Metric] = ("UAS", "LAS")
Best: TypeAlias = Mapping[tuple[str, str], frozenset[str]]  # by treebank and metric: the systems that tie for the best
Row: TypeAlias = tuple[TableCell, ...]
OURS, PAPER = "treefine", "paper"
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
_SPREAD = "mean ± sample standard deviation of the seeds"


def table_1(results: ResultCollection) -> Table:
    """Return the number of steps and the stopping rule on the dev set of tr_imst."""
    rows: list[Row] = []
    for initial, printed in ((SYNTR, paper.GRID[:4]), (FILES, paper.GRID[4:]), (MULTI, paper.GRID[4:])):
        refined = f"{initial}-rngtr"
        for system, (model, steps, stop, uas, las) in zip(
            (initial, f"{refined}-t1", f"{refined}-no-stop", refined), printed, strict=True
        ):
            seeds = results.of(TABLE_1, system, "dev")
            title = SYSTEM_TITLES[system] + (f" (T={SYSTEMS[system].steps})" if system == refined else "")
            theirs = f"{model} (T={steps})" if model.endswith("+RNGTr") else model
            theirs += "" if stop else " w/o stop"
            ours = (title, len(seeds) or DASH, *(_spread(seeds, metric) for metric in METRICS))
            rows.append((*ours, theirs, f"{uas:.2f}", f"{las:.2f}"))
    systems = [name for name in SYSTEMS if name.startswith((SYNTR, MULTI, FILES))]
    note = (
        f"UAS and LAS on the dev set of {results.title(TABLE_1)}: {_SPREAD}. Files are the parses of another parser, "
        "and Multi takes the role of UDify: both are next to the paper's UDify. "
        + results.note([TABLE_1], systems, "dev")
    )
    header = ("model", "seeds", "UAS", "LAS", "model of the paper", "paper UAS", "paper LAS")
    return Table(header, tuple(rows), "Table 1: the number of refinement iterations", note)


def _spread(seeds: Sequence[SystemResult], metric: Metric) -> str:
    """Return the mean over the seeds, and the sample standard deviation if there are several."""
    values = [100 * float(getattr(result, metric)) for result in seeds]
    spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{spread}" if values else DASH


def ud_table(results: ResultCollection, best: Best, metric: Metric) -> Table:
    """Return the test scores of the UD treebanks with the error reduction of refinement (Table 2, Appendix C)."""
    printed = paper.LAS if metric == "LAS" else paper.UAS
    rows: list[Row] = []
    bold: set[tuple[int, int]] = set()
    for code in UD:
        ties, title, size = best.get((code, metric), ()), results.title(code), results.train_sentences(code)
        bold |= {(len(rows), column) for column, system in enumerate(UD_SYSTEMS, start=3) if system in ties}
        cells = [_ud_cell(results, code, system, metric) for system in UD_SYSTEMS]
        rows.append((title, OURS, f"{size:,}" if size else DASH, *cells))
        theirs = [printed[code].get(model) for model in UD_SYSTEMS.values()]
        bold |= {(len(rows), column) for column, cell in enumerate(theirs, start=3) if cell and cell.is_bold}
        rows.append((title, PAPER, f"{paper.TRAIN_SIZES[code]:g}K", *map(_printed_text, theirs)))
    systems, counted = results.shared([*UD_SYSTEMS], "test")
    rows += _averages(results, systems, counted, metric)
    note = (
        f"Test {metric} in %. In parentheses: the share of the errors of the initial parser, trained with the same "
        f"seed, that refinement removes. {_BOLD.format('of the row')} Multi is SynTr trained on all UD treebanks "
        "together and takes the role of UDify. Files are the parses of another parser. In both columns, the paper's "
        "number is that of UDify. "
    )
    if counted:
        note += f"The average is over {in_words(counted)}, which have results of all averaged systems. "
    else:
        note += "No treebank has all systems, so there is no average. "
    name = "Table 2: UD treebanks, LAS" if metric == "LAS" else "Appendix C: UD treebanks, UAS"
    header = ("treebank", "source", "train", *(SYSTEM_TITLES[system] for system in UD_SYSTEMS))
    note += results.note(UD, UD_SYSTEMS, "test")
    return Table(header, tuple(rows), name, note, n_names=2, bold=frozenset(bold))


def _ud_cell(results: ResultCollection, code: str, system: str, metric: Metric) -> str:
    tested = results.tested(code, system)
    if tested is None:
        return DASH
    score = float(getattr(tested, metric))
    is_refined = system in SYSTEMS and SYSTEMS[system].initial in UD_SYSTEMS
    before = getattr(tested, f"{metric}_by_step")[0] if is_refined else None  # the initial parser of the same seed
    reduction = None if before is None else relative_error_reduction(before, score)
    return percent(score) + ("" if reduction is None else f" ({100 * reduction:+.2f}%)")


def _score(results: ResultCollection, code: str, system: str, metric: Metric) -> float | None:
    result = results.tested(code, system)
    return None if result is None else float(getattr(result, metric))


def _printed_text(cell: paper.Printed | None) -> str:
    if cell is None:
        return DASH
    return f"{cell.score:.2f}" + ("" if cell.reduction is None else f" ({cell.reduction:+.2f}%)")


def _averages(
    results: ResultCollection, systems: Sequence[str], counted: Sequence[str], metric: Metric
) -> list[tuple[TableCell, ...]]:
    """Return the averages over the counted treebanks, ours and the paper's, and the average that the paper prints."""
    printed = paper.LAS if metric == "LAS" else paper.UAS
    all_printed = paper.LAS_AVERAGES if metric == "LAS" else paper.UAS_AVERAGES
    ours, theirs = [], []
    for system, model in UD_SYSTEMS.items():
        scores = [_score(results, code, system, metric) for code in counted] if system in systems else []
        known = [score for score in scores if score is not None]
        ours.append(percent(statistics.mean(known)) if known else DASH)
        reported = [printed[code][model].score for code in counted if model in printed[code]]
        theirs.append(f"{statistics.mean(reported):.2f}" if reported else DASH)
    title = f"Average of {len(counted)}" + "†" * (not all(map(results.is_comparable, counted)))
    whole = [f"{all_printed[model]:.2f}" if model in all_printed else DASH for model in UD_SYSTEMS.values()]
    lines: list[Row] = [(title, OURS, DASH, *ours), (title, PAPER, DASH, *theirs)] if counted else []
    return [*lines, (f"Average of {len(UD)}, as printed", PAPER, DASH, *whole)]


def penn_table(results: ResultCollection, best: Best) -> Table:
    """Return the test scores of the Penn Treebanks and of German (Table 3)."""
    places = [(code, metric) for code in _PENN_NAMES for metric in METRICS]
    rows: list[Row] = []
    bold: set[tuple[int, int]] = set()

    def add_printed(model: str) -> None:
        scores = [cell for code in _PENN_NAMES for cell in paper.PENN[model].scores.get(code, (None, None))]
        bold.update((len(rows), column) for column, cell in enumerate(scores, start=3) if cell and cell.is_bold)
        kind = "T" if paper.PENN[model].is_transition_based else "G"
        rows.append((model, PAPER, kind, *map(_printed_text, scores)))

    titles = {SYSTEM_TITLES[system]: system for system in PENN_SYSTEMS}
    for model in paper.PENN:
        if model not in titles:
            add_printed(model)
    for title, system in titles.items():
        bold.update(
            (len(rows), column) for column, place in enumerate(places, start=3) if system in best.get(place, ())
        )
        rows.append((title, OURS, "G", *(percent(_score(results, code, system, metric)) for code, metric in places)))
        if title in paper.PENN:
            add_printed(title)
    note = (
        "Test UAS and LAS in %, without punctuation for the Penn Treebanks and with it for German. T: transition-based,"
        f" G: graph-based. {_BOLD.format('of the column, treefine and paper each for itself')} "
        + results.note([*_PENN_NAMES], PENN_SYSTEMS, "test")
    )
    header = ("model", "source", "type", *(f"{_PENN_NAMES[code]} {metric}" for code, metric in places))
    title = "Table 3: Penn Treebanks and German"
    return Table(header, tuple(rows), title, note, n_names=2, bold=frozenset(bold))


def _trained(results: ResultCollection) -> list[tuple[str, str, list[SystemResult]]]:
    """Return the dev results of each treebank and system that has some."""
    pairs = [(code, system) for code in TREEBANKS for system in SYSTEMS]
    return [(code, system, seeds) for code, system in pairs if (seeds := results.of(code, system, "dev"))]


def dev_table(results: ResultCollection) -> Table:
    """Return the dev scores of all seeds."""
    rows: list[Row] = []
    for code, system, seeds in _trained(results):
        best = results.chosen(code, system)
        numbers = " ".join(str(result.seed) for result in seeds)
        scores = [_spread(seeds, metric) for metric in METRICS]
        rows.append((results.title(code), SYSTEM_TITLES[system], numbers, best.seed if best else DASH, *scores))
    note = f"Dev scores in %: {_SPREAD}. The chosen seed has the best dev LAS. "
    note += results.note([*TREEBANKS], SYSTEMS, "dev")
    header = ("treebank", "system", "seeds", "chosen", "UAS", "LAS")
    return Table(header, tuple(rows), "Dev scores of all seeds", note, n_names=2)


_AT_EQUAL_COST = (SYNTR, SYNTR_LONGER, REFINED, EMPTY_REFINED)


def equal_cost_table(results: ResultCollection) -> Table:
    """Return dev LAS with the number of updates that it took, and the gains of refinement over both controls."""
    rows: list[Row] = []
    all_gains: list[list[float]] = []
    for code in TREEBANKS:
        las = {system: results.mean(code, system, "LAS") for system in _AT_EQUAL_COST}
        if any(score is not None for score in las.values()):
            cells = [cell for system in las for cell in (_updates(results, code, system), percent(las[system]))]
            gains = [results.gain(code, control, REFINED) for control in (SYNTR, SYNTR_LONGER)]
            rows.append((results.title(code), *cells, *(DASH if gain is None else f"{gain:+.2f}" for gain in gains)))
            known = [gain for gain in gains if gain is not None]
            all_gains += [known] if len(known) == 2 else []
    syntr, longer, refined, empty = (SYSTEM_TITLES[system] for system in _AT_EQUAL_COST)
    note = (
        f"Mean dev LAS of the seeds, and the mean number of updates. {longer} has as many updates as {refined} can "
        f"have. For {refined}, the updates of its initial parser are added after the plus sign. Gains are those of the "
        "seeds that both systems have. "
    )
    if all_gains:
        first, second = (statistics.mean(gains) for gains in zip(*all_gains, strict=True))
        note += f"On {count(len(all_gains), 'treebank')}, {refined} gains {first:+.2f} LAS over {syntr} and "
        note += f"{second:+.2f} over {longer} on average. "
    note += results.note([*TREEBANKS], _AT_EQUAL_COST, "dev")
    columns = [f"{name} {kind}" for name in (syntr, longer, refined, empty) for kind in ("updates", "LAS")]
    header = ("treebank", *columns, f"gain over {syntr}", f"gain over {longer}")
    return Table(header, tuple(rows), "At equal cost", note)


def _updates(results: ResultCollection, code: str, system: str) -> str:
    own = results.mean(code, system, "updates")
    initial = results.mean(code, SYSTEMS[system].initial, "updates")
    return DASH if own is None else f"{own:,.0f}" + ("" if initial is None else f" + {initial:,.0f}")


def run_times_table(results: ResultCollection) -> Table:
    """Return parameters and run times (Appendix B)."""
    rows: list[Row] = []
    for code in TREEBANKS:
        for _, system, seeds in [trained for trained in _trained(results) if trained[0] == code]:
            size = f"{seeds[0].parameters / 1e6:.1f}M"
            if seeds[0].initial_parameters:
                size += f" + {seeds[0].initial_parameters / 1e6:.1f}M"
            tested, costs = results.tested(code, system), [DASH, DASH]
            if tested and tested.parsing_seconds:
                costs = [f"{tested.parsing_seconds:.1f}", f"{tested.words / tested.parsing_seconds:,.0f}"]
            training = clock(results.mean(code, system, "training_seconds"))
            devices = in_words(sorted({result.device for result in seeds}))
            rows.append((results.title(code), OURS, SYSTEM_TITLES[system], size, training, *costs, devices))
        for model, (training, evaluation) in paper.TIMES.get(code, {}).items():
            size = f"{paper.PARAMETERS[model]}M" if code == "ptb" else DASH
            rows.append((results.title(code), PAPER, model, size, training, evaluation, DASH, paper.DEVICE))
    note = (
        "Parameters of the network, and of its initial parser after the plus sign. Training time (h:mm:ss) is the mean "
        "of the seeds, without that of the initial parser. Evaluation time is that of the test set. The paper does not "
        f"name the initial parser of its RNGTr. {results.note([*TREEBANKS], SYSTEMS, 'test')}"
    )
    header = ("treebank", "source", "model", "parameters", "training", "evaluation (s)", "words/s", "device")
    return Table(header, tuple(rows), "Appendix B: parameters and run times", note, n_names=3)
