"""Generate docs/results.md: scores compared with the paper, significance, averaged weights, and uses of test sets."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import partial

from benchmarks.accuracy.model_rows import Group, grouped
from benchmarks.accuracy.significance import comparisons
from benchmarks.markdown import NONE, Lines, folded, listed, percent, table
from benchmarks.rows import Row, read_rows
from treefine.evaluation.scores import relative_error_reduction
from treefine.wording import clock
from treefine_paper import paper

METRICS = ("UAS", "LAS")
SOURCES = ("given", "predicted", "none")  # of tags
COMMAND = "treefine train RECIPE --set training.seed=SEED --output DIR"
TREEBANKS = ("en_ewt", "ko_gsd", "tr_imst")


def accuracy(treebank: str, groups: Sequence[Group]) -> str:
    """Return all unchanged models of a treebank, with the paper's scores."""
    head = ("model", "encoder", "seeds", "dev UAS", "dev LAS", "test UAS", "test LAS")
    lines: Lines = [(*head, "paper UAS", "paper LAS", "recipe")]
    ours = [group for group in groups if group.config["treebank"] == treebank and group.is_plain]
    reported = paper.TEST[treebank]
    for group in ours:
        scores = [f"{each:.2f}" for each in reported.get(group.config["kind"], ())] or [NONE, NONE]
        lines.append((*_model(group), _seeds(group), *_dev(group), *_test(group), *scores, _recipe(group)))
    for kind in _kinds(treebank):
        if kind not in [group.config["kind"] for group in ours]:
            scores = [f"{each:.2f}" for each in reported.get(kind, ())] or [NONE, NONE]
            lines.append((kind, *[NONE] * (len(head) - 1), *scores, NONE))
    return "\n".join([table(*lines), *footnote(ours), *_command(ours)])


def grid(groups: Sequence[Group]) -> str:
    """Return the paper's Table 1, on the dev set of tr_imst."""
    head = ("model", "encoder", "updates", "seeds", "dev UAS", "dev LAS")
    lines: Lines = [(*head, "paper's initial parser", "paper UAS", "paper LAS", "recipe")]
    shown = []
    for model, steps, stop, uas, las in paper.GRID:
        kind = model.replace("UDify", "Biaffine")  # takes the role of UDify here
        found = [group for group in groups if _is_of_grid(group, kind, steps, stop)]
        reported = (model.removesuffix("+RNGTr"), f"{uas:.2f}", f"{las:.2f}")
        for group in found:
            ours = (*_model(group), _updates(group), _seeds(group), *_dev(group))
            lines.append((*ours, *reported, _recipe(group)))
        if not found:
            lines.append((_title(kind, steps, stop), *[NONE] * 5, *reported, NONE))
        shown += found
    return "\n".join([table(*lines), *footnote(shown), *_command(shown)])


def _updates(group: Group) -> str:
    """Return the number of updates per batch; a step is skipped if all sentences have stopped."""
    config = group.config
    may_stop = config["T"] > 1 and config["stop"]
    return f"{'up to ' if may_stop else ''}{config['T'] * config['epochs']}"


def _is_of_grid(group: Group, kind: str, steps: int, stop: bool) -> bool:
    wanted = {"treebank": "tr_imst", "kind": kind, "T": steps, "stop": stop, "tags": "given"}
    has_only_these_changes = group.changes.keys() <= {"refine.max_steps", "refine.stop"}
    return bool(group.dev) and wanted.items() <= group.config.items() and has_only_these_changes


def steps(groups: Sequence[Group]) -> str:
    """Return LAS after each step, the share of sentences it changed, and the share of errors removed."""
    shown = [group for group in groups if group.is_plain and group.config["T"] > 1 and group.dev]
    n_steps = max([group.config["T"] for group in shown], default=1)
    head = ("treebank", "model", "encoder", "G⁰", *(f"t = {t}" for t in range(1, n_steps + 1)))
    lines: Lines = [(*head, "errors removed, dev", "errors removed, test")]
    for group in shown:
        las, changed = group.means("LAS_by_step"), group.means("changed_by_step")
        cells = [f"{percent(score)} ({share or 0:.0%})" for score, share in zip(las[1:], changed, strict=True)]
        cells += [NONE] * (n_steps - len(cells))
        removed = (_removed(group, "dev"), _removed(group, "test"))
        lines.append((group.config["treebank"], *_model(group), percent(las[0]), *cells, *removed))
    return "\n".join([table(*lines), *footnote(shown)]) if shown else NONE


def tags(groups: Sequence[Group]) -> str:
    """Return the models that were measured with every source of tags."""
    lines: Lines = [("treebank", "model", "encoder", "tags", "seeds", "dev UAS", "dev LAS", "recipe")]
    sources: dict[tuple[str, ...], dict[str, Group]] = {}
    for group in groups:
        if group.dev and group.changes.keys() <= {"tags.source"}:
            model = (group.config["treebank"], *_model(group))
            sources.setdefault(model, {})[group.config["tags"]] = group
    shown = []
    for found in sources.values():
        for group in [found[source] for source in SOURCES] if found.keys() >= set(SOURCES) else []:
            place = (group.config["treebank"], *_model(group), group.config["tags"])
            lines.append((*place, _seeds(group), *_dev(group), _recipe(group)))
            shown.append(group)
    lost = ["", *tags_lost(groups)]
    return "\n".join([table(*lines), *footnote(shown), *lost, *_command(shown)]) if shown else NONE


def tags_lost(groups: Sequence[Group]) -> list[str]:
    """Return sentences on the LAS lost without tags on dev: the mean over the seeds measured both ways."""
    losses: dict[tuple[str, str], list[str]] = {}
    plain = {group.config["recipe"]: group for group in groups if group.is_plain}
    for group in groups:
        given = plain.get(group.config["recipe"])
        if given is None or group.changes != {"tags.source": "none"}:
            continue
        seeds = sorted(given.dev.keys() & group.dev.keys())
        if seeds:
            loss = statistics.mean(
                given.dev[seed]["result"]["LAS"] - group.dev[seed]["result"]["LAS"] for seed in seeds
            )
            kind = (title(group), "seed " + listed([str(seed) for seed in seeds]))
            losses.setdefault(kind, []).append(f"{100 * loss:.2f} ({group.config['treebank']})")
    return [f"Without tags, {kind} loses {listed(each)} LAS on dev, {seed}." for (kind, seed), each in losses.items()]


MORE = "-more"  # ends the names of recipes that have more than the treebank
BASES = {  # the models that these recipes start from
    "ud8-syntr": "8 treebanks of other languages",
    "ud17-syntr": "17 treebanks, 7 of them Turkish and 2 Korean",
}


def more(groups: Sequence[Group]) -> str:
    """Return the models of Turkish and Korean that start from more treebanks, and what else each of them has."""
    head = ("treebank", "model", "first trained on", "also learns", "weights averaged", "seeds", "dev UAS", "dev LAS")
    lines: Lines = [(*head, "test LAS", "paper's best", "recipe")]
    shown = []
    for group in groups:
        treebank, base = group.config["treebank"], group.config["encoder"].partition(", ")[2]
        is_empty = group.config["kind"] == "Empty+RNGTr" and (group.is_plain or group.is_mean)
        is_more = group.config["recipe"].endswith(MORE)
        if base not in BASES or not group.dev or not (is_more or is_empty):
            continue
        shown.append(group)
        what = (title(group), BASES[base], _auxiliary(group), _averaged(group) or NONE)
        best = paper.best_las(treebank)
        place = (treebank, *what, _seeds(group), *_dev(group), _test(group)[1], f"{best:.2f}")
        lines.append((*place, "weights averaged by a script" if group.is_mean else f"`{group.name}`"))
    return "\n".join([table(*lines), "", *_gains(shown), *_command(shown)]) if shown else NONE


def _gains(groups: Sequence[Group]) -> list[str]:
    """Say what each addition changes on dev for Empty+RNGTr; each starts from the one before it."""
    found: dict[str, dict[tuple[str, bool, bool], float]] = {}
    for group in groups:
        if group.changes.get("tags.given") != "[]" or group.changes.get("tags.source") == "given":
            key = (group.config["encoder"].partition(", ")[2], _auxiliary(group) != NONE, bool(_averaged(group)))
            found.setdefault(group.config["treebank"], {})[key] = group.mean("LAS") or 0.0
    steps = (
        ("other treebanks of the language first", ("ud8-syntr", False, False), ("ud17-syntr", False, False)),
        ("more columns to learn", ("ud17-syntr", False, False), ("ud17-syntr", True, False)),
        ("averaged weights", ("ud17-syntr", True, False), ("ud17-syntr", True, True)),
    )
    lines = []
    for treebank, las in found.items():
        parts = [f"{what} {100 * (las[new] - las[old]):+.2f}" for what, old, new in steps if {old, new} <= las.keys()]
        if parts:
            lines.append(f"- Empty+RNGTr on {treebank}, dev LAS, one step after the other: {listed(parts)}.")
    return lines


def _auxiliary(group: Group) -> str:
    """Return the columns that a model predicts beside the tree."""
    has_more = group.config["recipe"].endswith(MORE) and group.changes.get("tags.source") != "given"
    if not has_more:
        return NONE
    columns = "FEATS, LEMMA" if group.config["treebank"].startswith("tr") else "XPOS, LEMMA"
    return f"UPOS, {columns}" if group.changes.get("tags.given") == "[]" else columns


def _averaged(group: Group) -> str:
    number = group.changes.get("training.weight_averaging", "5" if group.config["recipe"].endswith(MORE) else "1")
    return "" if number == "1" else number


def _model(group: Group) -> tuple[str, str]:
    return title(group), encoder(group)


def costs(groups: Sequence[Group]) -> str:
    """Return parameters, training time and parsing time, as in the paper's appendix."""
    lines: Lines = [
        ("treebank", "model", "encoder", "parameters", "training", "other training", "parsing dev", "words/s")
    ]
    shown = [group for group in groups if group.is_plain and group.dev]
    devices = set()
    for group in shown:
        results = [row["result"] for row in group.dev.values()]
        devices |= {each["device"] for each in results}
        parameters = f"{results[0]['parameters'] / 1e6:.1f}M"
        if results[0]["initial_parameters"]:
            parameters += f" + {results[0]['initial_parameters'] / 1e6:.1f}M"
        before = [sum(each[f"{name}_seconds"] or 0 for name in ("start", "initial", "folds")) for each in results]
        seconds = group.mean("parsing_seconds")
        cells = (
            parameters,
            clock(group.mean("training_seconds")),
            clock(statistics.mean(before)) if any(before) else NONE,
            f"{seconds:.1f} s" if seconds is not None else NONE,
            f"{group.mean('words_per_second') or 0:,.0f}",
        )
        lines.append((group.config["treebank"], *_model(group), *cells))
    for kind in ("SynTr", "RNGTr"):
        training, evaluation = paper.TIMES["en_ewt"][kind]
        lines.append(("en_ewt", f"the paper's {kind}", "BERT", NONE, training, NONE, f"{evaluation} s", NONE))
    sizes = listed([f"{kind} {size}M" for kind, size in paper.PARAMETERS.items()])
    where = [f"treefine ran on {', '.join(sorted(devices))}, the paper's models on {paper.DEVICE}."] if shown else []
    where += ["", f"The paper reports parameters only for its models of the English Penn Treebank: {sizes}."]
    return "\n".join([table(*lines), *footnote(shown), "", *where])


def title(group: Group) -> str:
    """Return the paper's name of a model, and how the model differs."""
    config = group.config
    initial, extras = config["initial"], []
    if initial["folds"]:
        extras.append(f"{initial['folds']} folds")
    for name in ("empty", "noised"):
        if initial[f"{name}_share"]:
            extras.append(f"{initial[f'{name}_share']:.0%} {name}")
    return ", ".join([_title(config["kind"], config["T"], config["stop"]), *extras])


def _title(kind: str, steps: int, stop: bool) -> str:
    if not kind.endswith("RNGTr"):
        return kind
    return f"{kind} (T={steps})" + ("" if stop else " without stop")


def encoder(group: Group) -> str:
    """Return the name of the encoder, for a table with a footnote."""
    return short(group.config["encoder"])


def short(name: str) -> str:
    """Return the name of an encoder, with a star if the model is fine-tuned from another recipe's."""
    pretrained, _, start = name.partition(", ")
    return f"{pretrained}*" if start else pretrained


def footnote(groups: Sequence[Group]) -> list[str]:
    """Return the footnote that explains the stars in a table."""
    starts = {group.config["encoder"].partition(", ")[2] for group in groups} - {""}
    return (
        ["", f"\\* fine-tuned from the model of {', '.join(f'`{each}`' for each in sorted(starts))}."] if starts else []
    )


def _kinds(treebank: str) -> tuple[str, ...]:
    biaffine = ("Biaffine", "Biaffine+RNGTr") if treebank == "tr_imst" else ()
    return (*paper.TEST[treebank], *biaffine)


def _seeds(group: Group) -> str:
    """Return the measured seeds, the chosen one in bold."""
    seeds = sorted({*group.dev, group.chosen})
    return " ".join(f"**{seed}**" if seed == group.chosen else str(seed) for seed in seeds)


def _dev(group: Group) -> tuple[str, ...]:
    """Return the mean and standard deviation of UAS and LAS on dev."""
    if not group.dev:
        return NONE, NONE
    cells = []
    for metric in METRICS:
        values = [100 * row["result"][metric] for row in group.dev.values()]
        spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
        cells.append(f"{statistics.mean(values):.2f}{spread}")
    return tuple(cells)


def _test(group: Group) -> tuple[str, str]:
    if group.tested is None:
        return NONE, NONE
    result = group.tested["result"]
    return percent(result["UAS"]), percent(result["LAS"])


def _removed(group: Group, split: str) -> str:
    """Return the share of the initial parser's LAS errors that refinement removed."""
    if split == "dev":
        by_step = group.means("LAS_by_step") if group.dev else [None]
    else:
        by_step = group.tested["result"]["LAS_by_step"] if group.tested else [None]
    if by_step[0] is None or by_step[-1] is None:
        return NONE
    share = relative_error_reduction(by_step[0], by_step[-1])
    return NONE if share is None else f"{100 * share:+.1f}%"


def _recipe(group: Group) -> str:
    return f"`{group.name}`"


def _command(groups: Sequence[Group]) -> list[str]:
    """Return the command that trains a row of the table."""
    return ["", f"To train a row, run `{COMMAND}` with its recipe and the seed in bold."] if groups else []


def _groups() -> list[Group]:
    return grouped(read_rows("accuracy"))


RESULTS: dict[str, Callable[[], str]] = {
    **{f"accuracy_{treebank}": partial(lambda name: accuracy(name, _groups()), treebank) for treebank in TREEBANKS},
    "grid": lambda: grid(_groups()),
    "steps": lambda: steps(_groups()),
    "tags": lambda: tags(_groups()),
    "more": lambda: more(_groups()),
    "costs": lambda: costs(_groups()),
}


def significance(groups: Sequence[Group], rows: Sequence[Row]) -> str:
    """Return which models are the best, and all paired tests, folded."""
    lines: Lines = [("treebank", "encoder", "first", "second", "LAS difference", "p", "UAS difference", "p")]
    best: list[str] = []
    shown: list[Group] = []
    for each in comparisons(groups, rows):
        shown += each.systems.values()
        place = (each.treebank, short(each.encoder))
        if each.las is None or each.uas is None:
            lines.append((*place, *[NONE] * 6))
            continue
        for las, uas in zip(each.las["differences"], each.uas["differences"], strict=True):
            names = (title(each.systems[las["first"]]), title(each.systems[las["second"]]))
            lines.append((*place, *names, *_difference(las), *_difference(uas)))
        alike = "; ".join(title(group) for name, group in each.systems.items() if name in each.las["best"])
        best.append(f"- {', '.join(place)}: {alike}.")
    if best:
        best = ["The best models by LAS, and those that do not differ significantly from the best:", "", *best, ""]
    details = folded("All paired tests", table(*lines))
    return "\n".join([*best, details, *footnote(shown)]) if len(lines) > 1 else NONE


def means(groups: Sequence[Group], rows: Sequence[Row]) -> str:
    """Return the models with averaged weights, compared with their members and with SynTr."""
    compared = (
        "dev: compared with single seeds",
        "test: compared with the tested seed, p",
        "test: compared with SynTr, p",
    )
    lines: Lines = [("treebank", "model", "encoder", "seeds", "dev LAS", "test LAS", *compared)]
    shown = [group for group in groups if group.is_mean and group.dev and group.tested]
    for group in shown:
        config = group.config
        single, syntr = (_single(groups, group, kind) for kind in (config["kind"], "SynTr"))
        ours, theirs = group.mean("LAS"), single.mean("LAS") if single else None
        gain = NONE if ours is None or theirs is None else f"{100 * (ours - theirs):+.2f}"
        scores = (percent(ours), percent(group.tested["result"]["LAS"] if group.tested else None))
        tests = [_paired(groups, rows, first, group) for first in (single, syntr)]
        lines.append(
            (config["treebank"], title(group), short(config["encoder"]), _mean_of(group), *scores, gain, *tests)
        )
    return "\n".join([table(*lines), *footnote(shown)]) if shown else NONE


def _single(groups: Sequence[Group], mean: Group, kind: str) -> Group | None:
    """Return the single model of this kind, with the treebank and encoder of the averaged one."""
    wanted = {"treebank": mean.config["treebank"], "encoder": mean.config["encoder"], "kind": kind}
    return next((group for group in groups if group.is_plain and wanted.items() <= group.config.items()), None)


def _paired(groups: Sequence[Group], rows: Sequence[Row], first: Group | None, second: Group) -> str:
    """Return the difference of the second's test LAS to the first's, and its p-values."""
    names = {first.name if first else None, second.name}
    for each in comparisons(groups, rows, means=True):
        for found in each.las["differences"] if each.las else ():
            if {found["first"], found["second"]} == names:
                sign = 1 if found["second"] == second.name else -1
                difference, p = _difference(found | {"difference": sign * found["difference"]})
                return f"{difference}, {p}"
    return NONE


def _mean_of(group: Group) -> str:
    """Return the seeds whose weights were averaged: 1 to the number of members."""
    members = int(group.changes["training.weight_averaging"])
    return f"mean of {', '.join(str(seed) for seed in range(1, members + 1))}"


def _difference(each: dict[str, float]) -> tuple[str, str]:
    return f"{100 * each['difference']:+.2f}", f"{each['randomisation']:.4f} / {each['bootstrap']:.4f}"


def tests(rows: Sequence[Row], others: Sequence[Row]) -> str:
    """Return every measurement on a test set in order, and the seeds that were scored only as G⁰.

    `others` are rows of reproductions and votes.
    """
    lines: Lines = [("when", "treebank", "recipe", "changes", "seed", "UAS", "LAS", "commit")]
    for row in sorted([*rows, *others], key=lambda row: str(row["when"])):
        config, result = row["config"], row["result"]
        if config["split"] == "test":
            scores = (percent(result["UAS"]), percent(result["LAS"]))
            when = row["when"][:16].replace("T", " ")
            lines.append((when, config["treebank"], *_tested_model(row), *scores, row["commit"]))
    if len(lines) == 1:
        return "No test set was used."
    initial = _scored_as_initial(grouped(rows))
    note = ["", f"Scored only as initial parsers (G⁰): {listed(initial)}."] if initial else []
    return "\n".join([table(*lines), *note])


def _tested_model(row: Row) -> tuple[str, str, str]:
    """Return the recipe or system, the changes and the seed of a measured model."""
    config = row["config"]
    if row["benchmark"] == "vote":
        return f"vote of {len(config['members'])} models", NONE, NONE
    if row["benchmark"] == "reproduction":
        return f"reproduce: {config['system']}", NONE, str(config["seed"])
    group = Group({}, {config["seed"]: row})
    if group.is_mean:
        return config["recipe"], "weights averaged", _mean_of(group)
    return config["recipe"], ", ".join(config["changes"]) or NONE, str(config["seed"])


def _scored_as_initial(groups: Sequence[Group]) -> list[str]:
    """Return the initial parsers whose test score is known only from the rows of models that refine them."""
    found = []
    for group in groups:
        kind, treebank = group.config["kind"].removesuffix("+RNGTr"), group.config["treebank"]
        encoders = (group.config["encoder"], "bilstm")
        tested: set[int] = set()
        for each in groups:
            is_that_parser = (each.config["kind"], each.config["treebank"]) == (kind, treebank)
            if is_that_parser and each.is_plain and each.config["encoder"] in encoders:
                tested |= each.test.keys()
        for seed, row in group.test.items():
            if row["result"]["LAS_by_step"][0] is not None and seed not in tested:
                found.append(f"{kind} of {treebank}, seed {seed}")
    return found


TESTED: dict[str, Callable[[], str]] = {
    "significance": lambda: significance(_groups(), read_rows("significance")),
    "means": lambda: means(_groups(), read_rows("significance")),
    "tests": lambda: tests(read_rows("accuracy"), [*read_rows("reproduction"), *read_rows("vote")]),
}
