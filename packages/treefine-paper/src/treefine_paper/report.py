"""The report: the paper's tables, with each line of results above the paper's numbers for the systems."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TypeAlias

from treefine.errors import count
from treefine.evaluation.analysis.refinement import (
    Refinement,
    Steps,
    ranked_labels,
    reductions,
    together,
    total_reduction,
)
from treefine.evaluation.analysis.report import reduction_text
from treefine.evaluation.scores import relative_error_reduction
from treefine.evaluation.significance import ALPHA
from treefine.evaluation.tables import Table
from treefine.training.recipe import FILES
from treefine.treebank.files import open_output
from treefine.version import __version__
from treefine_paper import paper, systems
from treefine_paper.paper import ScoreCell
from treefine_paper.results import SYSTEM_TITLES, UD, ResultCollection, SystemResult, counted_treebanks
from treefine_paper.treebanks import TREEBANKS, in_words
from treefine_paper.trees import TreeFindings, analyse_trees

Row: TypeAlias = "tuple[str | int | ScoreCell | None, ...]"  # None is a dash
Best: TypeAlias = Mapping[tuple[str, str], frozenset[str]]  # by treebank and metric: the systems that tie for the best
OURS, PAPER = "treefine", "paper"
LARGE = 10_000  # sentences: a training set with more is "high-resource" in the paper
LEAST_GOLD, MOST = 100, 12  # gold words of a ranked dependency type, and number of types shown
_STEPS = 3  # in the tables of the paper
_STEP_TITLES = (*(f"t = {t}" for t in range(1, _STEPS + 1)), "all steps")
_PENN_NAMES = {"ptb": "PTB", "ctb": "CTB", "de_conll09": "German"}
_BOLD = f"Bold: not significantly different from the best {{}} (approximate randomisation, α = {ALPHA:g} per pair)."
_SPREAD = "mean ± sample standard deviation of the seeds"


def _table(title: str, header: Sequence[str], rows: Sequence[Row], note: str, *, n_names: int = 1) -> Table:
    cells = {(i, column): cell for i, row in enumerate(rows) for column, cell in enumerate(row)}
    bold = [place for place, cell in cells.items() if isinstance(cell, ScoreCell) and cell.is_bold]
    texts = tuple(tuple("–" if cell is None else str(cell) for cell in row) for row in rows)
    return Table(tuple(header), texts, title, note, n_names=n_names, bold=frozenset(bold))


def table_1(results: ResultCollection) -> Table:
    """Return the number of steps and the stopping rule on the dev set of tr_imst."""
    rows: list[Row] = []
    for initial, printed in ((systems.SYNTR, paper.GRID[:4]), (FILES, paper.GRID[4:])):
        refined = f"{initial}-rngtr"
        names = (initial, f"{refined}-t1", f"{refined}-no-stop", refined)
        for system, (model, uas, las) in zip(names, printed, strict=True):
            seeds = results.of(systems.TABLE_1, system, "dev")
            title = SYSTEM_TITLES[system] + (f" (T={systems.SYSTEMS[system].steps})" if system == refined else "")
            ours = (title, len(seeds) or None, *(_spread(seeds, metric) for metric in systems.METRICS))
            rows.append((*ours, model, ScoreCell(uas), ScoreCell(las)))
    named = [name for name in systems.SYSTEMS if name.startswith((systems.SYNTR, FILES))]
    note = (
        f"UAS and LAS on the dev set of {results.title(systems.TABLE_1)}: {_SPREAD}. Files are the parses of another "
        f"parser, next to the paper's UDify. {results.note([systems.TABLE_1], named, 'dev')}"
    )
    header = ("model", "seeds", "UAS", "LAS", "model of the paper", "paper UAS", "paper LAS")
    title = "Table 1: the number of refinement iterations"
    return _table(title, header, rows, note)


def _spread(seeds: Sequence[SystemResult], metric: str) -> str | None:
    """Return the mean over the seeds, and the sample standard deviation if there are several."""
    values = [100 * float(getattr(result, metric)) for result in seeds]
    spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{spread}" if values else None


def ud_table(results: ResultCollection, best: Best, metric: str) -> Table:
    """Return the test scores of the UD treebanks with the error reduction of refinement (Table 2, Appendix C)."""
    printed, models = paper.UD_SCORES[metric], systems.UD_SYSTEMS.values()
    rows: list[Row] = []
    for code in UD:
        title, size = results.title(code), results.train_sentences(code)
        scores = (_score(results, best, code, system, metric, is_reduction_shown=True) for system in systems.UD_SYSTEMS)
        rows.append((title, OURS, f"{size:,}" if size else None, *scores))
        rows.append((title, PAPER, f"{paper.TRAIN_SIZES[code]:g}K", *map(printed[code].get, models)))
    chosen, counted = results.shared(systems.UD_SYSTEMS, "test")
    averaged = "No treebank has all systems, so there is no average. "
    if counted:
        averaged = f"The average is over {in_words(counted)}, which have results of all averaged systems. "
        title = f"Average of {len(counted)}" + "†" * (not all(map(results.is_comparable, counted)))
        scores_of = {
            system: [100 * getattr(results.tested(code, system), metric) for code in counted] for system in chosen
        }
        theirs = [[printed[code][model].score for code in counted] if model else [] for model in models]
        rows.append((title, OURS, None, *(_mean(scores_of.get(system, [])) for system in systems.UD_SYSTEMS)))
        rows.append((title, PAPER, None, *map(_mean, theirs)))
    rows.append((f"Average of {len(UD)}, as printed", PAPER, None, *map(printed["Average"].get, models)))
    note = (
        f"Test {metric} in %. In parentheses: the share of the errors of the initial parser, trained with the same "
        f"seed, that refinement removes. {_BOLD.format('of the row')} Files are the parses of another "
        f"parser; the paper's number is that of UDify. {averaged}{results.note(UD, systems.UD_SYSTEMS, 'test')}"
    )
    name = "Table 2: UD treebanks, LAS" if metric == "LAS" else "Appendix C: UD treebanks, UAS"
    header = ("treebank", "source", "train", *(SYSTEM_TITLES[system] for system in systems.UD_SYSTEMS))
    return _table(name, header, rows, note, n_names=2)


def _mean(scores: Sequence[float]) -> ScoreCell | None:
    return ScoreCell(statistics.mean(scores)) if scores else None


def _score(
    results: ResultCollection, best: Best, code: str, system: str, metric: str, *, is_reduction_shown: bool = False
) -> ScoreCell | None:
    """Return the test score of a system."""
    tested = results.tested(code, system)
    if tested is None:
        return None
    score, reduction = float(getattr(tested, metric)), None
    if is_reduction_shown and system in systems.SYSTEMS and systems.SYSTEMS[system].initial in systems.UD_SYSTEMS:
        before = getattr(tested, f"{metric}_by_step")[0]  # the initial parser of the same seed
        reduction = None if before is None else relative_error_reduction(before, score)
    removed = None if reduction is None else 100 * reduction
    return ScoreCell(100 * score, removed, system in best.get((code, metric), ()))


def penn_table(results: ResultCollection, best: Best) -> Table:
    """Return the test scores of the Penn Treebanks and of German (Table 3)."""
    places = [(code, metric) for code in _PENN_NAMES for metric in systems.METRICS]
    printed: dict[str, Row] = {model: (model, PAPER, kind, *cells) for model, (kind, cells) in paper.PENN.items()}
    titles = {SYSTEM_TITLES[system]: system for system in systems.PENN_SYSTEMS}
    rows = [row for model, row in printed.items() if model not in titles]
    for title, system in titles.items():
        rows.append((title, OURS, "G", *(_score(results, best, code, system, metric) for code, metric in places)))
        rows += [printed[title]] if title in printed else []
    note = (
        "Test UAS and LAS in %, without punctuation for the Penn Treebanks and with it for German. T: transition-based,"
        f" G: graph-based. {_BOLD.format('of the column, treefine and paper each for itself')} "
        + results.note([*_PENN_NAMES], systems.PENN_SYSTEMS, "test")
    )
    header = ("model", "source", "type", *(f"{_PENN_NAMES[code]} {metric}" for code, metric in places))
    return _table("Table 3: Penn Treebanks and German", header, rows, note, n_names=2)


def resources_table(results: ResultCollection, findings: TreeFindings) -> Table:
    """Return REL^t by the size of the training set (Table 4, Appendix D)."""
    rows: list[Row] = []
    for system in systems.REFINING:
        sizes = {code: results.train_sentences(code) or 0 for code in _codes(results, findings, system)}
        for title in (paper.LOW, paper.HIGH):
            codes = [code for code, size in sizes.items() if (size > LARGE) == (title == paper.HIGH)]
            steps = _counts(findings, system, codes, "attachment").get("LAS")
            rows.append((SYSTEM_TITLES[system], title, OURS, ", ".join(codes) or None, *_removed(steps)))
            rows.append(
                (systems.UD_SYSTEMS[system], title, PAPER, None, *_reported(paper.RESOURCES, system, title), None)
            )
    note = (
        f"The share of the LAS errors that each step removes (REL, Eq. 8), dev sets together, mean of the seeds. "
        f"{paper.HIGH} treebanks have more than {LARGE:,} training sentences. {_sources(results, findings)}"
    )
    header = ("model", "dataset type", "source", "treebanks", *_STEP_TITLES)
    return _table("Table 4: refinement by the size of the training set", header, rows, note, n_names=4)


def label_tables(results: ResultCollection, findings: TreeFindings) -> Iterator[Table]:
    """Yield the error reduction of dependency types by step, one table per system (Table 5, Appendix D)."""
    for system in systems.REFINING:
        codes = _codes(results, findings, system)
        counts = _counts(findings, system, codes, "labels")
        ranked = ranked_labels(_together(findings, system, codes), least=LEAST_GOLD, most=MOST) if codes else []
        rows: list[Row] = []
        for label in dict.fromkeys((*ranked, *paper.DEPENDENCY_TYPES[systems.UD_SYSTEMS[system]])):
            steps = counts.get(label)
            theirs = _reported(paper.DEPENDENCY_TYPES, system, label)
            rows.append((label, _gold(steps), *_removed(steps), *theirs))
        note = (
            f"{SYSTEM_TITLES[system]}, next to the paper's {systems.UD_SYSTEMS[system]}: the share of the F-score "
            f"errors that each step removes, mean of the seeds, on the dev sets of {counted_treebanks(codes)} "
            f"together. First up to {MOST} types with at least {LEAST_GOLD} gold words, ranked by all steps; then the "
            f"other types of the paper's table. {results.note(codes, [system], 'dev')}"
        )
        header = ("dependency type", "gold words", *_STEP_TITLES, *(f"paper {step}" for step in _STEP_TITLES[:_STEPS]))
        yield _table(f"Table 5: refinement by dependency type, {SYSTEM_TITLES[system]}", header, rows, note)


def projectivity_table(results: ResultCollection, findings: TreeFindings) -> Table:
    """Return the error reduction in projective and non-projective trees by step (Table 6, Appendix D)."""
    rows: list[Row] = []
    for system in systems.REFINING:
        counts = _counts(findings, system, _codes(results, findings, system), "projectivity")
        for kind in ("non-projective", "projective"):
            steps, theirs = counts.get(kind), _reported(paper.PROJECTIVITY, system, kind)
            rows.append((SYSTEM_TITLES[system], kind, OURS, _gold(steps), *_removed(steps)))
            rows.append((systems.UD_SYSTEMS[system], kind, PAPER, None, *theirs, None))
    note = (
        "The share of the F-score errors that each step removes in words of projective and non-projective gold trees, "
        f"dev sets together, mean of the seeds. {_sources(results, findings)}"
    )
    header = ("model", "tree type", "source", "gold words", *_STEP_TITLES)
    return _table("Table 6: refinement by projectivity", header, rows, note, n_names=3)


def _codes(results: ResultCollection, findings: TreeFindings, system: str) -> list[str]:
    return [code for code in results.pooled() if (code, system) in findings.refinements]


def _together(findings: TreeFindings, system: str, codes: Sequence[str]) -> Refinement:
    return together([findings.refinements[code, system] for code in codes], name=system)


def _counts(findings: TreeFindings, system: str, codes: Sequence[str], group: str) -> Mapping[str, Steps]:
    """Return the counts of all these treebanks by kind, such as those of each label."""
    return getattr(_together(findings, system, codes), group) if codes else {}


def _sources(results: ResultCollection, findings: TreeFindings) -> str:
    """Say which treebanks each system has, and where the numbers come from."""
    shown = systems.REFINING
    chosen = [f"{SYSTEM_TITLES[system]}: {counted_treebanks(_codes(results, findings, system))}" for system in shown]
    left_out = [code for code in UD if results.of_treebank(code) and code not in results.pooled()]
    apart = f" Left out, because they are of another release: {in_words(left_out)}." if left_out else ""
    return f"{'; '.join(chosen)}.{apart} {results.note(results.pooled(), shown, 'dev')}"


def _gold(counts: Steps | None) -> str | None:
    return None if counts is None else f"{counts[0].gold:,.0f}"


def _removed(counts: Steps | None) -> Row:
    """Return the reduction of each step and of all steps together."""
    if counts is None:
        return (None,) * (_STEPS + 1)
    steps = [*map(reduction_text, reductions(counts)[:_STEPS])]
    return (*steps, *[None] * (_STEPS - len(steps)), reduction_text(total_reduction(counts)))


def _reported(numbers: Mapping[str, Mapping[str, tuple[float, ...]]], system: str, kind: str) -> Row:
    """Return the paper's numbers of each step."""
    reported = numbers[systems.UD_SYSTEMS[system]].get(kind)
    return (None,) * _STEPS if reported is None else tuple(f"{number:+.2f}%" for number in reported)


def run_times_table(results: ResultCollection) -> Table:
    """Return parameters and run times (Appendix B)."""
    rows: list[Row] = []
    for code in TREEBANKS:
        for system in systems.SYSTEMS:
            if not (seeds := results.of(code, system, "dev")):
                continue
            sizes = filter(None, (seeds[0].parameters, seeds[0].initial_parameters))
            size = " + ".join(f"{n / 1e6:.1f}M" for n in sizes)
            tested = results.tested(code, system)
            costs: Row = (None, None)
            if tested and tested.parsing_seconds:
                costs = (f"{tested.parsing_seconds:.1f}", f"{tested.words / tested.parsing_seconds:,.0f}")
            seconds = results.mean(code, system, "training_seconds")
            training = None if seconds is None else str(timedelta(seconds=round(seconds)))
            devices = in_words(sorted({result.device for result in seeds}))
            rows.append((results.title(code), OURS, SYSTEM_TITLES[system], size, training, *costs, devices))
        for model, times in paper.TIMES.get(code, {}).items():
            printed_size = f"{paper.PARAMETERS[model]}M" if code == "ptb" else None
            rows.append((results.title(code), PAPER, model, printed_size, *times, None, paper.DEVICE))
    note = (
        "Parameters of the network, and of its initial parser after the plus sign. Training time (h:mm:ss) is the mean "
        "of the seeds, without that of the initial parser. Evaluation time is that of the test set. The paper does not "
        f"name the initial parser of its RNGTr. {results.note([*TREEBANKS], systems.SYSTEMS, 'test')}"
    )
    header = ("treebank", "source", "model", "parameters", "training", "evaluation (s)", "words/s", "device")
    return _table("Appendix B: parameters and run times", header, rows, note, n_names=3)


def dev_table(results: ResultCollection) -> Table:
    """Return the dev scores of all seeds."""
    rows: list[Row] = []
    for code in TREEBANKS:
        for system in systems.SYSTEMS:
            if seeds := results.of(code, system, "dev"):
                best, numbers = results.chosen(code, system), " ".join(str(result.seed) for result in seeds)
                scores = [_spread(seeds, metric) for metric in systems.METRICS]
                rows.append((results.title(code), SYSTEM_TITLES[system], numbers, best.seed if best else None, *scores))
    note = f"Dev scores in %: {_SPREAD}. The chosen seed has the best dev LAS. "
    header = ("treebank", "system", "seeds", "chosen", "UAS", "LAS")
    note += results.note([*TREEBANKS], systems.SYSTEMS, "dev")
    return _table("Dev scores of all seeds", header, rows, note, n_names=2)


def equal_cost_table(results: ResultCollection) -> Table:
    """Return dev LAS with the number of updates that it took, and the gains of refinement over both controls."""
    chosen = (systems.SYNTR, systems.SYNTR_LONGER, systems.REFINED, systems.EMPTY_REFINED)
    rows: list[Row] = []
    all_gains: list[list[float]] = []
    for code in TREEBANKS:
        las = {system: results.mean(code, system, "LAS") for system in chosen}
        if any(las.values()):
            cells = [
                cell
                for system, score in las.items()
                for cell in (_updates(results, code, system), None if score is None else f"{100 * score:.2f}")
            ]
            gains = [_gain(results, code, control) for control in (systems.SYNTR, systems.SYNTR_LONGER)]
            known = [gain for gain in gains if gain is not None]
            all_gains += [known] if len(known) == 2 else []
            rows.append((results.title(code), *cells, *(None if gain is None else f"{gain:+.2f}" for gain in gains)))
    titles = [SYSTEM_TITLES[system] for system in chosen]
    syntr, longer, refined, _ = titles
    note = (
        f"Mean dev LAS of the seeds, and the mean number of updates. {longer} has as many updates as {refined} can "
        f"have. For {refined}, the updates of its initial parser are added after the plus sign. Gains are those of the "
        "seeds that both systems have. "
    )
    if all_gains:
        first, second = (statistics.mean(gains) for gains in zip(*all_gains, strict=True))
        note += f"On {count(len(all_gains), 'treebank')}, {refined} gains {first:+.2f} LAS over {syntr} and "
        note += f"{second:+.2f} over {longer} on average. "
    columns = [f"{title} {kind}" for title in titles for kind in ("updates", "LAS")]
    header = ("treebank", *columns, f"gain over {syntr}", f"gain over {longer}")
    return _table("At equal cost", header, rows, note + results.note([*TREEBANKS], chosen, "dev"))


def _gain(results: ResultCollection, code: str, control: str) -> float | None:
    """Return the mean difference of SynTr+RNGTr and a control in dev LAS, in points, over the seeds that both have."""
    before, after = ({r.seed: r.LAS for r in results.of(code, system, "dev")} for system in (control, systems.REFINED))
    gains = [100 * (after[seed] - before[seed]) for seed in before.keys() & after.keys()]
    return statistics.mean(gains) if gains else None


def _updates(results: ResultCollection, code: str, system: str) -> str | None:
    own = results.mean(code, system, "updates")
    initial = results.mean(code, systems.SYSTEMS[system].initial, "updates")
    return None if own is None else f"{own:,.0f}" + ("" if initial is None else f" + {initial:,.0f}")


def write_report(
    results: Sequence[SystemResult], results_folder: Path, output: Path, *, warn: Callable[[str], object] = str
) -> Path:
    """Write report.md into `output`, and return its path.

    `results_folder` has the saved trees. Treebanks and systems without results have dashes. If trees or gold files are
    missing, the report leaves out what needs them, says so, and calls `warn`.
    """
    collection = ResultCollection(results)
    findings = analyse_trees(collection, results_folder)
    with_results = [code for code in TREEBANKS if collection.of_treebank(code)]
    parts = [
        "# The tables of the paper",
        f"Written by treefine {__version__} from the results of {counted_treebanks(with_results)}. Lines named treefine"
        " are our results. Lines named paper are the numbers of Mohammadshahi and Henderson (2021). A dash: no result.",
    ]
    for what in dict.fromkeys(findings.left_out):
        parts.append(f"Left out of tests and tables: {what}.")
        warn(parts[-1])
    for table in report_tables(collection, findings):
        content = [table.to_markdown(), table.note] if table.rows else ["There are no results yet."]
        parts += [f"## {table.title}", *content]
    output.mkdir(parents=True, exist_ok=True)
    with open_output(output / "report.md") as file:
        file.write(("\n\n".join(parts) + "\n").encode())
    return output / "report.md"


def report_tables(results: ResultCollection, findings: TreeFindings) -> list[Table]:
    """Return the tables in the order of the paper, then those of the controls."""
    return [
        table_1(results),
        ud_table(results, findings.best, "LAS"),
        penn_table(results, findings.best),
        resources_table(results, findings),
        *label_tables(results, findings),
        projectivity_table(results, findings),
        run_times_table(results),
        ud_table(results, findings.best, "UAS"),
        dev_table(results),
        equal_cost_table(results),
    ]
