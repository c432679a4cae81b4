"""The tables of docs/results.md, made from the rows of accuracy and significance, beside the paper's numbers."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import partial

from benchmarks import paper
from benchmarks.groups import Group, Row, grouped
from benchmarks.markdown import table
from benchmarks.rows import read_rows
from benchmarks.significance import compared
from treefine.evaluation.conll18 import relative_error_reduction

NONE = "–"
METRICS = ("UAS", "LAS")
TREEBANKS = tuple(paper.TEST)
Line = tuple[object, ...]


def accuracy(treebank: str, groups: Sequence[Group]) -> str:
    """All plain models of a treebank beside the paper's."""
    head = ("model", "encoder", "dev UAS", "dev LAS", "seeds", "test UAS", "test LAS", "seed tested")
    lines: list[Line] = [(*head, "paper: test UAS", "LAS", "errors removed, dev", "test")]
    ours = [group for group in groups if group.config["treebank"] == treebank and group.is_plain]
    reported = paper.TEST[treebank]
    for group in ours:
        scores = [f"{each:.2f}" for each in reported.get(group.config["kind"], ())] or [NONE, NONE]
        removed = (_removed(group, "dev"), _removed(group, "test"))
        lines.append((title(group), group.config["encoder"], *_dev(group), *_test(group), *scores, *removed))
    for kind in _kinds(treebank):
        if kind not in [group.config["kind"] for group in ours]:
            scores = [f"{each:.2f}" for each in reported.get(kind, ())] or [NONE, NONE]
            lines.append((kind, *[NONE] * (len(head) - 1), *scores, NONE, NONE))
    return "\n".join([table(*lines), *_commands(ours)])


def grid(groups: Sequence[Group]) -> str:
    """The paper's Table 1, on the dev set of tr_imst."""
    lines: list[Line] = [("model", "encoder", "dev UAS", "dev LAS", "seeds", "paper: starts from", "UAS", "LAS")]
    shown = []
    for kind, steps, stop, uas, las in paper.GRID:
        found = [group for group in groups if _is_of_grid(group, kind, steps, stop)]
        reported = ("UDify" if kind.startswith("Biaffine") else "SynTr", f"{uas:.2f}", f"{las:.2f}")
        lines += [(title(group), group.config["encoder"], *_dev(group), *reported) for group in found]
        if not found:
            lines.append((_title(kind, steps, stop), *[NONE] * 4, *reported))
        shown += found
    return "\n".join([table(*lines), *_commands(shown)])


def _is_of_grid(group: Group, kind: str, steps: int, stop: bool) -> bool:
    config = group.config
    changed = {change.partition("=")[0].strip() for change in config["changes"]}
    wanted = {"treebank": "tr_imst", "kind": kind, "T": steps, "stop": stop, "tags": "given"}
    return bool(group.dev) and wanted.items() <= config.items() and changed <= {"refine.max_steps", "refine.stop"}


def steps(groups: Sequence[Group]) -> str:
    """LAS after each step, and how many sentences it changed."""
    n_steps = max([group.config["T"] for group in groups if group.is_plain], default=1)
    lines: list[Line] = [
        ("treebank", "model", "encoder", "G⁰", *(f"t = {t}: LAS (sentences changed)" for t in range(1, n_steps + 1)))
    ]
    for group in groups:
        if group.is_plain and group.config["T"] > 1 and group.dev:
            las, changed = group.means("LAS_by_step"), group.means("changed_by_step")
            cells = [f"{_percent(score)} ({share or 0:.0%})" for score, share in zip(las[1:], changed, strict=True)]
            cells += [NONE] * (n_steps - len(cells))
            lines.append((group.config["treebank"], title(group), group.config["encoder"], _percent(las[0]), *cells))
    return table(*lines) if len(lines) > 1 else NONE


def tags(groups: Sequence[Group]) -> str:
    """The best model of each treebank, and those trained with other tags, by where tags come from."""
    lines: list[Line] = [
        ("treebank", "model", "encoder", "tags", "dev UAS", "dev LAS", "seeds", "test UAS", "test LAS", "seed tested")
    ]
    shown = []
    for treebank in TREEBANKS:
        ours = [group for group in groups if group.config["treebank"] == treebank]
        others = [group for group in ours if group.config["tags"] != "given"]
        plain = [group for group in ours if group.is_plain and group.dev]
        best = max(plain, key=lambda group: group.mean("LAS") or 0, default=None)
        pairs = dict.fromkeys(_model(group) for group in [*([best] if best else []), *others])
        for model in pairs:
            for source in ("given", "predicted", "none"):
                found = [each for each in (plain if source == "given" else others) if each.config["tags"] == source]
                same = [group for group in found if _model(group) == model]
                lines += [(treebank, *model, source, *_dev(group), *_test(group)) for group in same]
                if not same:
                    lines.append((treebank, *model, source, *[NONE] * 6))
                shown += same
        if not pairs:
            lines.append((treebank, *[NONE] * 9))
    return "\n".join([table(*lines), *_commands([group for group in shown if not group.is_plain])])


def _model(group: Group) -> tuple[str, str]:
    return title(group), group.config["encoder"]


def costs(groups: Sequence[Group]) -> str:
    """Parameters, training time and parsing time, as in the paper's appendix."""
    head = (
        "treebank",
        "model",
        "encoder",
        "parameters",
        "training",
        "initial parsers",
        "parsing dev",
        "words a second",
    )
    lines: list[Line] = [(*head, "device")]
    for group in groups:
        if group.is_plain and group.dev:
            config, results = group.config, [row["result"] for row in group.dev.values()]
            parameters = f"{results[0]['parameters'] / 1e6:.1f}M"
            if results[0]["initial_parameters"]:
                parameters += f" + {results[0]['initial_parameters'] / 1e6:.1f}M"
            before = [sum(each[f"{name}_seconds"] or 0 for name in ("start", "initial", "folds")) for each in results]
            seconds = group.mean("parsing_seconds")
            cells = (
                parameters,
                _clock(group.mean("training_seconds")),
                _clock(statistics.mean(before)) if any(before) else NONE,
                f"{seconds:.1f} s" if seconds is not None else NONE,
                f"{group.mean('words_per_second') or 0:,.0f}",
            )
            devices = sorted({each["device"] for each in results})
            lines.append((config["treebank"], title(group), config["encoder"], *cells, ", ".join(devices)))
    for kind, (training, evaluation) in paper.TIMES.items():
        reported = (f"{paper.PARAMETERS[kind]}M", training, NONE, f"{evaluation} s", NONE, "V100")
        lines.append(("en_ewt", f"the paper's {kind}", "BERT", *reported))
    return table(*lines)


def significance(groups: Sequence[Group], rows: Sequence[Row]) -> str:
    """The paired tests of what was tested."""
    newest = {tuple(row["config"][name] for name in ("treebank", "encoder", "metric")): row for row in rows}
    lines: list[Line] = [
        ("treebank", "encoder", "first", "second", "LAS", "p", "p (bootstrap)", "UAS", "p", "p (bootstrap)")
    ]
    best = []
    for (treebank, encoder), systems in compared(groups).items():
        found = [newest.get((treebank, encoder, metric)) for metric in ("LAS", "UAS")]
        tested = {name: group.tested["result"]["sha256"] for name, group in systems.items() if group.tested}
        fresh = [row["result"] for row in found if row is not None and row["result"]["systems"] == tested]
        if len(fresh) < 2:  # what was compared has been tested anew, or never compared
            lines.append((treebank, encoder, *[NONE] * 8))
            continue
        for las, uas in zip(fresh[0]["differences"], fresh[1]["differences"], strict=True):
            names = (title(systems[las["first"]]), title(systems[las["second"]]))
            lines.append((treebank, encoder, *names, *_difference(las), *_difference(uas)))
        alike = ", ".join(title(systems[name]) for name in systems if name in fresh[0]["best"])
        best.append(f"- {treebank}, {encoder}: not told from the best by LAS: {alike}.")
    return "\n".join([table(*lines), "", *best]).rstrip() if len(lines) > 1 else NONE


def _difference(each: dict[str, float]) -> tuple[str, ...]:
    return f"{100 * each['difference']:+.2f}", f"{each['randomisation']:.4f}", f"{each['bootstrap']:.4f}"


def tests(rows: Sequence[Row]) -> str:
    """Every measurement of a test set, in the order they were made."""
    lines: list[Line] = [("when", "treebank", "recipe", "changes", "seed", "UAS", "LAS", "commit")]
    for row in rows:
        config, result = row["config"], row["result"]
        if config["split"] == "test":
            changes = ", ".join(config["changes"]) or NONE
            scores = (_percent(result["UAS"]), _percent(result["LAS"]))
            when = row["when"][:16].replace("T", " ")
            lines.append((when, config["treebank"], config["recipe"], changes, config["seed"], *scores, row["commit"]))
    return table(*lines) if len(lines) > 1 else "No test set has been touched."


def title(group: Group) -> str:
    """What the paper calls such a model, and how it differs from it."""
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


def _kinds(treebank: str) -> tuple[str, ...]:
    biaffine = ("Biaffine", "Biaffine+RNGTr") if treebank == "tr_imst" else ()
    return (*paper.TEST[treebank], *biaffine)


def _dev(group: Group) -> tuple[str, str, str]:
    """UAS, LAS and the number of seeds."""
    if not group.dev:
        return NONE, NONE, NONE
    cells = []
    for metric in METRICS:
        values = [100 * row["result"][metric] for row in group.dev.values()]
        spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
        cells.append(f"{statistics.mean(values):.2f}{spread}")
    return cells[0], cells[1], str(len(group.dev))


def _test(group: Group) -> tuple[str, str, str]:
    if group.tested is None:
        return NONE, NONE, NONE
    result = group.tested["result"]
    return _percent(result["UAS"]), _percent(result["LAS"]), str(group.chosen)


def _removed(group: Group, split: str) -> str:
    """The share of the initial parser's errors in LAS that refinement removed."""
    if split == "dev":
        by_step = group.means("LAS_by_step") if group.dev else [None]
    else:
        by_step = group.tested["result"]["LAS_by_step"] if group.tested else [None]
    if by_step[0] is None or by_step[-1] is None:
        return NONE
    share = relative_error_reduction(by_step[0], by_step[-1])
    return NONE if share is None else f"{100 * share:+.1f} %"


def _percent(share: float | None) -> str:
    return NONE if share is None else f"{100 * share:.2f}"


def _clock(seconds: float | None) -> str:
    """Hours, minutes and seconds."""
    if seconds is None:
        return NONE
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def _commands(groups: Sequence[Group]) -> list[str]:
    """The command of each group, one a line."""
    commands = [f"- {title(group)}, {group.config['encoder']}: `{group.command}`" for group in groups]
    return ["", *commands] if commands else []


def _groups() -> list[Group]:
    return grouped(read_rows("accuracy"))


RESULTS: dict[str, Callable[[], str]] = {
    **{f"accuracy_{treebank}": partial(lambda name: accuracy(name, _groups()), treebank) for treebank in TREEBANKS},
    "grid": lambda: grid(_groups()),
    "steps": lambda: steps(_groups()),
    "tags": lambda: tags(_groups()),
    "costs": lambda: costs(_groups()),
    "significance": lambda: significance(_groups(), read_rows("significance")),
    "tests": lambda: tests(read_rows("accuracy")),
}
