"""The tables of docs/english.md and README on the bundled English parser, made from the rows of its weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from benchmarks.markdown import table
from benchmarks.model_rows import (
    ARC,
    BOTH,
    LABEL,
    MEASURES,
    RAW,
    SENTENCE,
    TAGGED,
    WAYS,
    WORDS,
    Row,
    by_split,
    rows_of,
    weights_checksum,
)
from benchmarks.published import ENGLISH_EWT, Published
from benchmarks.reliability_figure import draw_reliability
from benchmarks.results import NONE
from treefine.model.bundled import ABOUT, bundled_models
from treefine.model.weight_files import LAYOUT

NAME, UD = "en", "2.3"
FIGURE = "reliability.svg"
TITLES = {ARC: "head", LABEL: "label of a right head", BOTH: "head and label", SENTENCE: "whole sentence"}
Splits = Mapping[str, Row]
Line = tuple[object, ...]


def scores(rows: Splits) -> str:
    """All measures by split and by what the parser was given."""
    names = MEASURES[RAW]
    lines: list[Line] = [("split", "given", *names)]
    for split, row in rows.items():
        for given, result in row["result"].items():
            lines.append((split, given, *(percent(result.get(name)) for name in names)))
    return _told(lines, rows)


def steps(rows: Splits) -> str:
    """LAS after each step."""
    n_steps = max([row["config"]["T"] for row in rows.values()], default=1)
    lines: list[Line] = [("split", "given", *(f"t = {t}" for t in range(1, n_steps + 1)))]
    for split, row in rows.items():
        for given, result in row["result"].items():
            lines.append((split, given, *map(percent, result["LAS_by_step"][1:])))
    return _told(lines, rows)


def peers(rows: Splits, published: Sequence[Published] = ENGLISH_EWT) -> str:
    """Ours above what others publish, by what the parsers were given."""
    split, row = _shown(rows)
    head = ("given", "parser", "UD", "Tokens", "Sentences", "Words", "UPOS", "UAS", "LAS", "told by")
    lines: list[Line] = [head]
    for given in (RAW, WORDS, TAGGED):
        if row is not None:
            result = row["result"][given]
            cells = (_bold(percent(result.get(name))) for name in head[3:9])
            lines.append((given, _our_name(split), UD, *cells, "these rows"))
        for each in published:
            if each.given == given:
                lines.append((given, each.system, each.ud, *_figures(each), f"[{each.version}]({each.source})"))
    return _told(lines, rows)


def small(rows: Splits, published: Sequence[Published] = ENGLISH_EWT) -> str:
    """Ours above what others publish, one line a parser: the measures that were asked for."""
    split, row = _shown(rows)
    raw = ("Tokens", "Sentences", "UPOS", "UAS", "LAS")
    lines: list[Line] = [("parser", "UD", *raw, "LAS, gold words", "LAS, gold words and tags")]
    if row is not None:
        result = row["result"]
        cells = [percent(result[RAW][name]) for name in raw]
        cells += [percent(result[given]["LAS"]) for given in (WORDS, TAGGED)]
        lines.append((f"**{_our_name(split)}**", UD, *map(_bold, cells)))
    systems = dict.fromkeys((each.system, each.ud) for each in published)
    for system, ud in systems:
        told: dict[str, Published] = {each.given: each for each in published if (each.system, each.ud) == (system, ud)}
        tokens, sentences, _, *others = _figures(told[RAW])
        cells = [tokens, sentences, *others]
        cells += [_figures(told[given])[-1] if given in told else NONE for given in (WORDS, TAGGED)]
        lines.append((system, ud, *cells))
    return table(*lines)


def calibration(rows: Splits) -> str:
    """The figure, the errors, and what a review finds."""
    if not rows:
        return NONE
    picture = f"![How often the parser is right, by how sure it is, on {_shown(rows)[0]}]({FIGURE})"
    return "\n\n".join([picture, calibration_errors(rows), *_origins(rows)])


def calibration_errors(rows: Splits) -> str:
    """By how much confidence and the share of right ones differ, and what a review finds."""
    ways = list(WAYS)
    errors = [f"error, {ways[0]}", "by chance", *(f"error, {way}" for way in ways[1:])]
    lines: list[Line] = [("split", "confidence in", "how many", "mean", "right", *errors, "Brier score")]
    for split, row in rows.items():
        for kind, title in TITLES.items():
            each = row["result"][kind]
            first, *others = (percent(each["error"][way]) for way in ways)
            means = (percent(each["confidence"]), percent(each["right"]))
            chance = percent(each["error_by_chance"][ways[0]])
            lines.append((split, title, f"{each['count']:,}", *means, first, chance, *others, f"{each['brier']:.4f}"))
    reviews = [_review(split, row["result"]["review"]) for split, row in rows.items()]
    return "\n\n".join([table(*lines), "\n".join(reviews)])


def _review(split: str, found: Mapping[str, float]) -> str:
    return (
        f"- {split}: `--review {found['limit']:g}` lists {found['listed']:.0%} of the sentences and among them "
        f"{found['wrong_found']:.0%} of those with a fault; {found['listed_wrong']:.0%} of those listed have one."
    )


def size(row: Row | None, rows: Splits, before: Splits) -> str:
    """Bytes by file, and what rounding to eight bits costs on dev; `before` are the rows of the weights as trained."""
    if row is None:
        return NONE
    lines: list[Line] = [("file", "size")]
    files = {name: size for name, size in row["result"]["files"].items() if name not in (LAYOUT.card, ABOUT)}
    lines += [(f"`{name}`", _megabytes(n_bytes)) for name, n_bytes in files.items()]
    lines.append(("all, without the card", _megabytes(sum(files.values()))))
    parts = [table(*lines)]
    if "dev" in rows and "dev" in before:
        changes: list[Line] = [("LAS on dev", "as trained", "in eight bits", "difference")]
        for given, result in rows["dev"]["result"].items():
            ours, theirs = result["LAS"], before["dev"]["result"][given]["LAS"]
            changes.append((given, percent(theirs), percent(ours), f"{100 * (ours - theirs):+.2f}"))
        parts.append(table(*changes))
    return "\n\n".join(parts)


def figure(rows: Splits) -> str | None:
    """The drawing of how often the parser is right, by how sure it is; None where that was not measured."""
    split, row = _shown(rows)
    if row is None:
        return None
    bins = {title: row["result"][kind]["bins"] for kind, title in TITLES.items()}
    errors = {title: row["result"][kind]["error"][next(iter(WAYS))] for kind, title in TITLES.items()}
    heading = f"How often {NAME} is right, by how sure it is: {row['config']['treebank']} {split}"
    return draw_reliability(bins, errors, heading=heading)


def percent(share: float | None) -> str:
    """A share as the tables show it."""
    return NONE if share is None else f"{100 * share:.2f}"


def _shown(rows: Splits) -> tuple[str, Row | None]:
    """The split that stands beside others' test scores: test, and dev until that is measured."""
    split = "test" if "test" in rows else "dev"
    return split, rows.get(split)


def _our_name(split: str) -> str:
    return f"treefine `{NAME}`" + ("" if split == "test" else f", {split}")


def _figures(each: Published) -> list[str]:
    """Tokens, Sentences, Words, UPOS, UAS and LAS, with as many digits as the page that tells them."""
    values = (each.tokens, each.sentences, each.words, each.upos, each.uas, each.las)
    n_digits = 1 if all(value is None or round(value, 1) == value for value in values) else 2
    return [NONE if value is None else f"{value:.{n_digits}f}" for value in values]


def _bold(cell: str) -> str:
    return cell if cell == NONE else f"**{cell}**"


def _megabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 50_000 else f"{n_bytes:,} bytes"


def _told(lines: Sequence[Line], rows: Splits) -> str:
    return "\n\n".join([table(*lines), *_origins(rows)]) if len(lines) > 1 else NONE


def _origins(rows: Splits) -> list[str]:
    """When and by which command the rows were written, and of which weights."""
    found = [
        f"`python -m benchmarks {row['benchmark']} --split {split}`, {row['when'][:10]}, commit {row['commit']}, "
        f"weights {row['config']['weights'][:8]}."
        for split, row in rows.items()
    ]
    return ["\n".join(found)] if found else []


def _weights() -> str:
    """The checksum of the bundled parser; empty, and so without rows, where none is bundled."""
    folder = bundled_models().get(NAME)
    return weights_checksum(folder) if folder else ""


def _pipeline() -> dict[str, Row]:
    return by_split("pipeline", _weights())


def _calibration() -> dict[str, Row]:
    return by_split("calibration", _weights())


def _size() -> str:
    weights = _weights()
    row = next(iter(rows_of("bundle", weights)), None)
    made_of = row["config"]["made_of"] if row else ""
    before = by_split("pipeline", made_of) if made_of != weights else {}
    return size(row, by_split("pipeline", weights), before)


ENGLISH: dict[str, Callable[[], str]] = {
    "english": lambda: small(_pipeline()),
    "english_scores": lambda: scores(_pipeline()),
    "english_steps": lambda: steps(_pipeline()),
    "english_peers": lambda: peers(_pipeline()),
    "english_calibration": lambda: calibration(_calibration()),
    "english_size": _size,
}
FIGURES: dict[str, Callable[[], str | None]] = {f"docs/{FIGURE}": lambda: figure(_calibration())}
