"""The tables of docs/results.md, made from the rows of accuracy, beside the paper's numbers."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import partial

from benchmarks import paper
from benchmarks.groups import Group, grouped
from benchmarks.markdown import table
from benchmarks.rows import read_rows
from treefine.evaluation.scores import relative_error_reduction

NONE = "–"
METRICS = ("UAS", "LAS")
SOURCES = ("given", "predicted", "none")  # of tags
COMMAND = "treefine train RECIPE --set training.seed=SEED --output DIR"
TREEBANKS = tuple(paper.TEST)
Line = tuple[object, ...]


def accuracy(treebank: str, groups: Sequence[Group]) -> str:
    """All plain models of a treebank beside the paper's."""
    head = ("model", "encoder", "seeds", "dev UAS", "dev LAS", "test UAS", "test LAS")
    lines: list[Line] = [(*head, "paper: UAS", "LAS", "recipe")]
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
    """The paper's Table 1, on the dev set of tr_imst."""
    head = ("model", "encoder", "updates", "seeds", "dev UAS", "dev LAS")
    lines: list[Line] = [(*head, "paper: starts from", "UAS", "LAS", "recipe")]
    shown = []
    for kind, steps, stop, uas, las in paper.GRID:
        found = [group for group in groups if _is_of_grid(group, kind, steps, stop)]
        reported = ("UDify" if kind.startswith("Biaffine") else "SynTr", f"{uas:.2f}", f"{las:.2f}")
        for group in found:
            ours = (*_model(group), _updates(group), _seeds(group), *_dev(group))
            lines.append((*ours, *reported, _recipe(group)))
        if not found:
            lines.append((_title(kind, steps, stop), *[NONE] * 5, *reported, NONE))
        shown += found
    return "\n".join([table(*lines), *footnote(shown), *_command(shown)])


def _updates(group: Group) -> str:
    """How many updates a training makes for each batch; a step that all its sentences have stopped before has none."""
    config = group.config
    may_stop = config["T"] > 1 and config["stop"]
    return f"{'up to ' if may_stop else ''}{config['T'] * config['epochs']}"


def _is_of_grid(group: Group, kind: str, steps: int, stop: bool) -> bool:
    wanted = {"treebank": "tr_imst", "kind": kind, "T": steps, "stop": stop, "tags": "given"}
    is_changed_alone_in_it = group.changes.keys() <= {"refine.max_steps", "refine.stop"}
    return bool(group.dev) and wanted.items() <= group.config.items() and is_changed_alone_in_it


def steps(groups: Sequence[Group]) -> str:
    """LAS after each step, how many sentences it changed, and the errors removed."""
    shown = [group for group in groups if group.is_plain and group.config["T"] > 1 and group.dev]
    n_steps = max([group.config["T"] for group in shown], default=1)
    head = ("treebank", "model", "encoder", "G⁰", *(f"t = {t}" for t in range(1, n_steps + 1)))
    lines: list[Line] = [(*head, "errors removed: dev", "test")]
    for group in shown:
        las, changed = group.means("LAS_by_step"), group.means("changed_by_step")
        cells = [f"{percent(score)} ({share or 0:.0%})" for score, share in zip(las[1:], changed, strict=True)]
        cells += [NONE] * (n_steps - len(cells))
        removed = (_removed(group, "dev"), _removed(group, "test"))
        lines.append((group.config["treebank"], *_model(group), percent(las[0]), *cells, *removed))
    return "\n".join([table(*lines), *footnote(shown)]) if shown else NONE


def tags(groups: Sequence[Group]) -> str:
    """The models that were measured with every source of tags, by that source."""
    lines: list[Line] = [("treebank", "model", "encoder", "tags", "seeds", "dev UAS", "dev LAS", "recipe")]
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
    """What a model without tags loses on dev, in the mean of the seeds measured both ways."""
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


def _model(group: Group) -> tuple[str, str]:
    return title(group), encoder(group)


def costs(groups: Sequence[Group]) -> str:
    """Parameters, training time and parsing time, as in the paper's appendix."""
    lines: list[Line] = [
        ("treebank", "model", "encoder", "parameters", "training", "before it", "parsing dev", "words a second")
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
    for kind, (training, evaluation) in paper.TIMES.items():
        lines.append(("en_ewt", f"the paper's {kind}", "BERT", NONE, training, NONE, f"{evaluation} s", NONE))
    sizes = listed([f"{kind} {size}M" for kind, size in paper.PARAMETERS.items()])
    where = [f"Ours on {', '.join(sorted(devices))}; the paper's on {paper.DEVICE}."] if shown else []
    where += ["", f"The paper gives parameters for its English Penn Treebank models alone: {sizes}."]
    return "\n".join([table(*lines), *footnote(shown), "", *where])


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


def encoder(group: Group) -> str:
    """The name of its encoder, for a table with a footnote."""
    return short(group.config["encoder"])


def short(name: str) -> str:
    """The name of an encoder; a star stands for the recipe whose model it goes on from."""
    pretrained, _, start = name.partition(", ")
    return f"{pretrained}*" if start else pretrained


def footnote(groups: Sequence[Group]) -> list[str]:
    """What the stars in a table stand for."""
    starts = {group.config["encoder"].partition(", ")[2] for group in groups} - {""}
    return ["", f"\\* goes on from the model of {', '.join(f'`{each}`' for each in sorted(starts))}."] if starts else []


def listed(parts: Sequence[str]) -> str:
    """The parts with commas and a last "and"."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _kinds(treebank: str) -> tuple[str, ...]:
    biaffine = ("Biaffine", "Biaffine+RNGTr") if treebank == "tr_imst" else ()
    return (*paper.TEST[treebank], *biaffine)


def _seeds(group: Group) -> str:
    """The seeds measured, the chosen one in bold."""
    seeds = sorted({*group.dev, group.chosen})
    return " ".join(f"**{seed}**" if seed == group.chosen else str(seed) for seed in seeds)


def _dev(group: Group) -> tuple[str, ...]:
    """UAS and LAS, mean and spread."""
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
    """The share of the initial parser's errors in LAS that refinement removed."""
    if split == "dev":
        by_step = group.means("LAS_by_step") if group.dev else [None]
    else:
        by_step = group.tested["result"]["LAS_by_step"] if group.tested else [None]
    if by_step[0] is None or by_step[-1] is None:
        return NONE
    share = relative_error_reduction(by_step[0], by_step[-1])
    return NONE if share is None else f"{100 * share:+.1f} %"


def percent(share: float | None) -> str:
    """A score as the tables show it."""
    return NONE if share is None else f"{100 * share:.2f}"


def clock(seconds: float | None) -> str:
    """Hours, minutes and seconds."""
    if seconds is None:
        return NONE
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def _recipe(group: Group) -> str:
    return f"`{group.name}`"


def _command(groups: Sequence[Group]) -> list[str]:
    """What makes a line of the table anew."""
    return ["", f"`{COMMAND}` trains a row: with its recipe, and the seed in bold."] if groups else []


def _groups() -> list[Group]:
    return grouped(read_rows("accuracy"))


RESULTS: dict[str, Callable[[], str]] = {
    **{f"accuracy_{treebank}": partial(lambda name: accuracy(name, _groups()), treebank) for treebank in TREEBANKS},
    "grid": lambda: grid(_groups()),
    "steps": lambda: steps(_groups()),
    "tags": lambda: tags(_groups()),
    "costs": lambda: costs(_groups()),
}
