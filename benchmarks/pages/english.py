"""Generate docs/english.md and the table of the README: the accuracy of the bundled English parser.

`ENGLISH_EWT` holds the scores that other parsers publish for the test set of English EWT, as measures of CoNLL 2018 in
percent. Treebank releases differ in text, words and labels, so only scores of one UD version compare well. The line of
UDPipe 1 for UD 2.5 is from Trankit's page. All were read on 2026-11-15 in the named version or commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

from benchmarks.accuracy.calibration import ARC, BOTH, LABEL, SENTENCE, WAYS
from benchmarks.accuracy.model_rows import MEASURES, RAW, TAGGED, WORDS, by_split
from benchmarks.markdown import NONE, Line, Lines, folded, percent, table
from benchmarks.peers.answers import WORDS as FROM_WORDS
from benchmarks.rows import Row, machine_of, newest, read_rows, weights_checksum
from treefine.model.bundled import ABOUT, bundled_models
from treefine.model.weight_files import LAYOUT


@dataclass(frozen=True, slots=True)
class Published:
    """One published line of another parser; None means not published."""

    system: str
    ud: str  # version of Universal Dependencies, for training and test
    given: Literal["raw text", "gold words", "gold words and tags"]
    tokens: float | None
    sentences: float | None
    words: float | None
    upos: float | None
    uas: float
    las: float
    source: str  # URL of the page
    version: str  # of the page or the models: a date, a release or a commit
    ufeats: float | None = None
    lemmas: float | None = None


_STANZA = "https://stanfordnlp.github.io/stanza"
_TRANKIT = ("https://trankit.readthedocs.io/en/latest/performance.html", "commit 04a9ef1")
_UDPIPE = "https://github.com/ufal/udpipe/blob"
_SOURCES = {  # by system and UD: the page, and its version
    ("UDPipe 1", "2.3"): (
        f"{_UDPIPE}/a964cbfca5069211c406b172be85be6058f54855/doc/manual_model_ud-2.3.t2t",
        "models of 2018-11-15",
    ),
    ("UDPipe 1", "2.5"): _TRANKIT,  # UDPipe 1.2; its manual has the same, rounded: 77.4, 98.9, 93.3, 80.2, 77.0
    ("Stanza", "2.5"): (f"{_STANZA}/v100performance.html", "Stanza 1.0"),
    ("Trankit base", "2.5"): _TRANKIT,
    ("Trankit large", "2.5"): _TRANKIT,
    ("UDPipe 2", "2.6"): (f"{_UDPIPE}/udpipe-2/models-2.6/EVALUATION-server.txt", "models of 2020-08-30"),
    ("Stanza", "2.12"): (f"{_STANZA}/performance.html", "Stanza 1.5.1"),
    ("UDPipe 2", "2.17"): (f"{_UDPIPE}/udpipe-2/models-2.17/EVALUATION-server.txt", "models of 2025-11-25"),
}
_REPORTED: tuple[tuple[Any, ...], ...] = (  # tokens, sentences, words, UPOS, UAS and LAS
    # UDPipe 1 publishes one decimal. For gold words it publishes no scores of tokens and sentences.
    ("UDPipe 1", "2.3", RAW, None, 77.1, 99.1, 93.5, 80.5, 77.5),
    ("UDPipe 1", "2.3", WORDS, None, None, None, 94.4, 84.5, 81.2),
    ("UDPipe 1", "2.3", TAGGED, None, None, None, None, 87.7, 85.8),
    ("UDPipe 1", "2.5", RAW, 98.90, 77.40, 98.90, 93.26, 80.22, 77.03),
    ("Stanza", "2.5", RAW, 99.01, 81.13, 99.01, 95.40, 86.22, 83.59),
    ("Trankit base", "2.5", RAW, 98.48, 88.35, 98.48, 95.95, 90.14, 87.96),
    ("Trankit large", "2.5", RAW, 98.67, 90.49, 98.67, 96.65, 91.29, 89.40),
    ("UDPipe 2", "2.6", RAW, 98.95, 86.60, 98.95, 96.36, 89.55, 87.43),
    ("UDPipe 2", "2.6", WORDS, 100.00, 100.00, 100.00, 97.29, 92.24, 90.05),
    ("Stanza", "2.12", RAW, 99.17, 89.16, 98.92, 96.20, 88.90, 86.77),
    ("UDPipe 2", "2.17", RAW, 99.29, 88.42, 99.07, 96.75, 91.59, 89.91),
    ("UDPipe 2", "2.17", WORDS, 100.00, 100.00, 100.00, 97.61, 94.09, 92.36),
)
_ANALYSES: dict[tuple[Any, ...], tuple[Any, ...]] = {  # UFeats and Lemmas; only those of UDPipe 2 are copied
    ("UDPipe 2", "2.17", RAW): (97.21, 97.13),
    ("UDPipe 2", "2.17", WORDS): (98.13, 97.96),
}
ENGLISH_EWT = tuple(Published(*(line + _SOURCES[line[0], line[1]] + _ANALYSES.get(line[:3], ()))) for line in _REPORTED)
SIDE = 220  # pixels of a square from 0 to 1
LEFT, TOP, GAP, BOTTOM, RIGHT = 52, 84, 64, 48, 30
COUNT, TITLE, HEADING = 8, 24, 30  # pixels above a square for counts and title; below the top for the heading
TICKS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
COLUMNS = 2
LEAST, LARGEST = 2.0, 5.0  # radius of a point for one word, and for all words
Bins = Sequence[Sequence[float]]  # start, end, size, mean confidence and accuracy, as in the rows


def _colors(*, paper: str, ink: str, soft: str, line: str, bar: str, point: str) -> str:
    return f"""
.reliability .paper {{ fill: {paper}; }}
.reliability text {{ fill: {soft}; }}
.reliability .title {{ fill: {ink}; }}
.reliability .frame, .reliability .grid, .reliability .even {{ stroke: {line}; fill: none; }}
.reliability .bar {{ fill: {bar}; }}
.reliability .point {{ fill: {point}; }}"""


_FONTS = 'system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif'
STYLE = f"""
.reliability text {{ font: 11px {_FONTS}; text-anchor: middle; }}
.reliability .title {{ font-size: 13px; font-weight: 600; text-anchor: start; }}
.reliability .end {{ text-anchor: end; }}
.reliability .count {{ font-size: 9px; }}
.reliability .grid {{ stroke-width: 0.5; opacity: 0.5; }}
.reliability .even {{ stroke-dasharray: 4 3; }}
{_colors(paper="#ffffff", ink="#1f2328", soft="#59636e", line="#818b98", bar="#c8ddf5", point="#0a5fc0")}
@media screen and (prefers-color-scheme: dark) {{
{_colors(paper="#151b23", ink="#f0f6fc", soft="#a3adb8", line="#7d8793", bar="#1f3a5c", point="#6cb2ff")}
}}
"""


def draw_reliability(bins: Mapping[str, Bins], errors: Mapping[str, float], *, heading: str) -> str:
    """Draw a reliability diagram for each kind of confidence: accuracy by confidence, with counts.

    A bar is a bin, and its point is at the mean confidence; a larger point stands for more words. Below the diagonal
    the parser is overconfident, above it underconfident.
    """
    n_rows = -(-len(bins) // COLUMNS)
    width = LEFT + COLUMNS * SIDE + (COLUMNS - 1) * GAP + RIGHT
    height = TOP + n_rows * SIDE + (n_rows - 1) * (GAP + BOTTOM) + BOTTOM
    parts = [_text(LEFT, HEADING, heading, "title")]
    for number, (title, each) in enumerate(bins.items()):
        row, column = divmod(number, COLUMNS)
        left, top = LEFT + column * (SIDE + GAP), TOP + row * (SIDE + GAP + BOTTOM)
        drawn = _square(each, f"{title}: error {errors[title]:.1%}")
        parts.append(f'<g transform="translate({left} {top})">\n{drawn}\n</g>')
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="reliability" role="img" {size}>\n'
        f"<title>{escape(heading)}</title>\n<style>{STYLE}</style>\n"
        '<rect class="paper" width="100%" height="100%" rx="6"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _square(bins: Bins, title: str) -> str:
    """Draw one diagram from (0, 0) to (1, 1)."""
    parts = [_text(0, -TITLE, title, "title")]
    for tick in TICKS:
        at = _number(tick * SIDE)
        parts.append(f'<path class="grid" d="M0 {_number(SIDE - tick * SIDE)}h{SIDE}M{at} 0v{SIDE}"/>')
        parts.append(_text(tick * SIDE, SIDE + 16, f"{tick:g}"))
        parts.append(_text(-8, SIDE - tick * SIDE + 4, f"{tick:g}", "end"))
    parts.append(_text(SIDE / 2, SIDE + 34, "confidence"))
    parts.append(f'<text transform="translate(-36 {SIDE // 2}) rotate(-90)">accuracy</text>')
    total = sum(size for _, _, size, _, _ in bins) or 1
    for start, end, size, _, right in bins:
        place = f'x="{_number(start * SIDE + 1)}" width="{_number((end - start) * SIDE - 2)}"'
        bar = f'{place} y="{_number(SIDE - right * SIDE)}" height="{_number(right * SIDE)}"'
        parts.append(
            f'<rect class="bar" {bar}><title>{start:g} to {end:g}: {size:,.0f}, {right:.1%} right</title></rect>'
        )
        parts.append(_text((start + end) / 2 * SIDE, -COUNT, _short(size), "count"))
    parts.append(f'<path class="even" d="M0 {SIDE}L{SIDE} 0"/><path class="frame" d="M0 0h{SIDE}v{SIDE}h{-SIDE}z"/>')
    for _, _, size, confidence, right in bins:
        if size:
            radius = LEAST + (LARGEST - LEAST) * (size / total) ** 0.5
            at = f'cx="{_number(confidence * SIDE)}" cy="{_number(SIDE - right * SIDE)}"'
            parts.append(f'<circle class="point" {at} r="{_number(radius)}"/>')
    return "\n".join(parts)


def _short(count: float) -> str:
    """Return a count for a narrow column.

    >>> _short(999), _short(1234), _short(23456), _short(0)
    ('999', '1.2k', '23k', '')
    """
    if count < 1000:
        return f"{count:.0f}" if count else ""
    return f"{count / 1000:.1f}k" if count < 9950 else f"{count / 1000:.0f}k"


def _text(x: float, y: float, text: str, name: str = "") -> str:
    return f'<text class="{name}" x="{_number(x)}" y="{_number(y)}">{escape(text)}</text>'


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


NAME = "en"
FIRST_RELEASE = "2.3"  # the UD release of rows that do not name theirs
FIGURE = "reliability.svg"
TITLES = {ARC: "head", LABEL: "label of a right head", BOTH: "head and label", SENTENCE: "whole sentence"}
TAG_TITLES = {"upos": "UPOS", "xpos": "XPOS", "feats": "features", "lemma": "lemma"}
Splits = Mapping[str, Row]


def scores(rows: Splits) -> str:
    """Return all measures by split and input."""
    names = MEASURES[RAW]
    lines: Lines = [("split", "input", *names)]
    for split, row in rows.items():
        for given, result in row["result"].items():
            lines.append((split, given, *(percent(result.get(name)) for name in names)))
    return _table(lines, rows)


def steps(rows: Splits) -> str:
    """Return LAS after each step."""
    n_steps = max([row["config"]["T"] for row in rows.values()], default=1)
    lines: Lines = [("split", "input", *(f"step {t}" for t in range(1, n_steps + 1)))]
    for split, row in rows.items():
        for given, result in row["result"].items():
            lines.append((split, given, *map(percent, result["LAS_by_step"][1:])))
    return _table(lines, rows)


def peers(rows: Splits, published: Sequence[Published] = ENGLISH_EWT) -> str:
    """Return treefine's scores above those that other parsers publish, by input."""
    split, row = _shown(rows)
    measures = ("Tokens", "Sentences", "Words", "UPOS", "UFeats", "Lemmas", "UAS", "LAS")
    head = ("input", "parser", "UD", *measures, "source")
    lines: Lines = [head]
    for given in (RAW, WORDS, TAGGED):
        if row is not None:
            result = row["result"][given]
            cells = (_bold(percent(result.get(name))) for name in measures)
            lines.append((given, _our_name(split), _release(row), *cells, "measured here"))
        for each in published:
            if each.given == given:
                lines.append((given, each.system, each.ud, *_figures(each), f"[{each.version}]({each.source})"))
    return _table(lines, rows)


def small(rows: Splits, published: Sequence[Published] = ENGLISH_EWT) -> str:
    """Return treefine's scores above those that other parsers publish, one line per parser."""
    split, row = _shown(rows)
    raw = ("Tokens", "Sentences", "UPOS", "UFeats", "Lemmas", "UAS", "LAS")
    lines: Lines = [("parser", "UD", *raw, "LAS, gold words", "LAS, gold words and tags")]
    if row is not None:
        result = row["result"]
        cells = [percent(result[RAW].get(name)) for name in raw]
        cells += [percent(result[given]["LAS"]) for given in (WORDS, TAGGED)]
        lines.append((f"**{_our_name(split)}**", _release(row), *map(_bold, cells)))
    systems = dict.fromkeys((each.system, each.ud) for each in published)
    for system, ud in systems:
        found: dict[str, Published] = {each.given: each for each in published if (each.system, each.ud) == (system, ud)}
        tokens, sentences, _, *others = _figures(found[RAW])
        cells = [tokens, sentences, *others]
        cells += [_figures(found[given])[-1] if given in found else NONE for given in (WORDS, TAGGED)]
        lines.append((system, ud, *cells))
    return table(*lines)


# The published lines that the README shows, with the name under which `speed` measured the parser.
README_PARSERS: dict[tuple[str, str], str | None] = {
    ("UDPipe 1", "2.3"): "UDPipe 1, beam 5",
    ("Stanza", "2.12"): "Stanza default, untrained",
    ("Trankit base", "2.5"): None,
    ("Trankit large", "2.5"): None,
    ("UDPipe 2", "2.6"): None,
    ("UDPipe 2", "2.17"): None,
}


def readme(rows: Splits, speed: Row | None, published: Sequence[Published] = ENGLISH_EWT) -> str:
    """Return the table of the README: how accurate and how fast the bundled parser is, compared with other parsers."""
    _, row = _shown(rows)
    if row is None:
        return NONE
    result = row["result"]
    lines: Lines = [("parser", "UD version", "LAS from raw text", "LAS from gold words", "sentences/s on a CPU")]
    for name, ours, step in (
        ("treefine `en`", "treefine", -1),
        ("treefine `en`, one pass (no refinement)", "treefine, one pass", 1),
    ):
        scores = (percent(result[given]["LAS_by_step"][step]) for given in (RAW, WORDS))
        lines.append((f"**{name}**", _release(row), *scores, _speed(speed, ours)))
    for (system, ud), measured in README_PARSERS.items():
        lines_of = {each.given: each for each in published if (each.system, each.ud) == (system, ud)}
        scores = (_figures(lines_of[given])[-1] if given in lines_of else NONE for given in (RAW, WORDS))
        lines.append((system, ud, *scores, _speed(speed, measured)))
    notes = (
        "LAS is the percentage of words with the right head and label, on the test set of the English Web Treebank. "
        "The scores of the other parsers are the ones they publish. The treebank differs from one UD version to the "
        "next, so compare only scores of the same version."
    )
    if speed is not None:
        precision = speed["config"]["settings"]["treefine"]["precision"]
        notes += (
            f" Speed is measured from words to trees ({machine_of(speed)}); treefine runs in {precision} and also "
            "predicts the tags. Stanza has its default size but random weights. A dash means not published or not "
            "measured."
        )
        if speed["config"]["weights"] != row["config"]["weights"]:
            notes += " The speed of treefine is that of earlier weights of the same size, without features and lemmas."
    return f"{table(*lines)}\n\n{notes}"


def _speed(speed: Row | None, name: str | None) -> str:
    """Return how many sentences per second a system parses, from words to trees."""
    found = speed["result"].get(f"{name}: {FROM_WORDS}") if speed else None
    return f"{found['sentences_per_second']:,.0f}" if found else NONE


def calibration(rows: Splits) -> str:
    """Return the figure and a sentence on it; the errors and the review are folded."""
    if not rows:
        return NONE
    split, row = _shown(rows)
    assert row is not None
    error = row["result"][BOTH]["error"][next(iter(WAYS))]
    gist = (
        f"On the {split} set, confidence in a head and its label differs from accuracy by {100 * error:.1f} points on "
        "average."
    )
    details = "\n\n".join([calibration_errors(rows), *_origins(rows)])
    return "\n\n".join(
        [gist, f"![Accuracy by confidence, on {split}]({FIGURE})", folded("All calibration errors", details)]
    )


def calibration_errors(rows: Splits) -> str:
    """Return the calibration errors of each kind of confidence, and what a review finds."""
    ways = list(WAYS)
    errors = [f"error, {ways[0]}", "by chance", *(f"error, {way}" for way in ways[1:])]
    lines: Lines = [("split", "confidence in", "count", "mean", "accuracy", *errors, "Brier score")]
    for split, row in rows.items():
        for kind, title in (TITLES | TAG_TITLES).items():
            if kind not in row["result"]:
                continue
            each = row["result"][kind]
            first, *others = (percent(each["error"][way]) for way in ways)
            means = (percent(each["confidence"]), percent(each["right"]))
            chance = percent(each["error_by_chance"][ways[0]])
            lines.append((split, title, f"{each['count']:,}", *means, first, chance, *others, f"{each['brier']:.4f}"))
    reviews = [_review(split, row["result"]["review"]) for split, row in rows.items()]
    return "\n\n".join([table(*lines), "\n".join(reviews)])


def _review(split: str, found: Mapping[str, float]) -> str:
    return (
        f"- {split}: `--review {found['limit']:g}` lists {found['listed']:.0%} of the sentences. They include "
        f"{found['wrong_found']:.0%} of the sentences with an error; {found['listed_wrong']:.0%} of the listed "
        "sentences have one."
    )


def cuts(rows: Splits) -> str:
    """Return how well sentences are found in raw text: in the treebank, and in one running line of other text."""
    lines: Lines = [
        ("text", "Sentences", "cut right", "mean confidence in the cut", "odd boundaries per 1,000 sentences")
    ]
    for split, row in rows.items():
        for text, found in ((f"English EWT, {split}", row["result"]), ("other text", row["result"]["other_text"])):
            shares = (percent(found[name]) for name in ("Sentences", "cut_right", "cut_confidence"))
            odd = found.get("odd_boundaries_per_1000")
            lines.append((text, *shares, NONE if odd is None else f"{odd:.1f}"))
    return _table(lines, rows)


def size(row: Row | None, rows: Splits, before: Splits) -> str:
    """Return the total size; files, and the LAS that eight bits cost on dev, are folded. `before`: rows as trained."""
    if row is None:
        return NONE
    lines: Lines = [("file", "size")]
    files = {name: size for name, size in row["result"]["files"].items() if name not in (LAYOUT.card, ABOUT)}
    lines += [(f"`{name}`", _megabytes(n_bytes)) for name, n_bytes in files.items()]
    lines.append(("total", _megabytes(sum(files.values()))))
    parts = [table(*lines)]
    total = sum(files.values())
    if "dev" in rows and "dev" in before:
        changes: Lines = [("LAS on dev from", "as trained", "in eight bits", "difference")]
        for given, result in rows["dev"]["result"].items():
            ours, theirs = result["LAS"], before["dev"]["result"][given]["LAS"]
            changes.append((given, percent(theirs), percent(ours), f"{100 * (ours - theirs):+.2f}"))
        parts.append(table(*changes))
    gist = f"The model takes {_megabytes(total)} on disk. Its weights are stored in eight bits, with a scale per row."
    return "\n\n".join([gist, folded("Files, and the accuracy that eight bits cost", "\n\n".join(parts))])


def figure(rows: Splits) -> str | None:
    """Draw the reliability diagrams; None if calibration was not measured."""
    split, row = _shown(rows)
    if row is None:
        return None
    bins = {title: row["result"][kind]["bins"] for kind, title in TITLES.items()}
    errors = {title: row["result"][kind]["error"][next(iter(WAYS))] for kind, title in TITLES.items()}
    heading = f"Accuracy of {NAME} by confidence: {row['config']['treebank']} {split}"
    return draw_reliability(bins, errors, heading=heading)


def _shown(rows: Splits) -> tuple[str, Row | None]:
    """Return the split to compare with other parsers' test scores: test, or dev if test was not measured."""
    split = "test" if "test" in rows else "dev"
    return split, rows.get(split)


def _our_name(split: str) -> str:
    return f"treefine `{NAME}`" + ("" if split == "test" else f", {split}")


def _figures(each: Published) -> list[str]:
    """Return Tokens, Sentences, Words, UPOS, UFeats, Lemmas, UAS and LAS with the decimals of their source."""
    values = (each.tokens, each.sentences, each.words, each.upos, each.ufeats, each.lemmas, each.uas, each.las)
    n_digits = 1 if all(value is None or round(value, 1) == value for value in values) else 2
    return [NONE if value is None else f"{value:.{n_digits}f}" for value in values]


def _release(row: Row) -> str:
    """Return the UD release of the treebank of a row."""
    return row["config"].get("release", FIRST_RELEASE) or NONE


def _bold(cell: str) -> str:
    return cell if cell == NONE else f"**{cell}**"


def _megabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 50_000 else f"{n_bytes:,} bytes"


def _table(lines: Sequence[Line], rows: Splits) -> str:
    return "\n\n".join([table(*lines), *_origins(rows)]) if len(lines) > 1 else NONE


def _origins(rows: Splits) -> list[str]:
    """Return command, date, commit, weights, treebank and precision of the rows."""
    found = []
    for split, row in rows.items():
        precision = f", {row['config']['precision']}" if "precision" in row["config"] else ""
        found.append(
            f"`python -m benchmarks {row['benchmark']} --split {split}`, {row['when'][:10]}, commit {row['commit']}, "
            f"weights {row['config']['weights'][:8]}, UD {_release(row)}{precision}."
        )
    return ["\n".join(found)] if found else []


def _weights() -> str:
    """Return the checksum of the bundled parser, or an empty string, which has no rows."""
    folder = bundled_models().get(NAME)
    return weights_checksum(folder) if folder else ""


def _pipeline() -> dict[str, Row]:
    return by_split("pipeline", _weights())


def _calibration() -> dict[str, Row]:
    return by_split("calibration", _weights())


def _size() -> str:
    weights = _weights()
    row = next(iter(read_rows("bundle", weights=weights)), None)
    made_of = row["config"]["made_of"] if row else ""
    before = by_split("pipeline", made_of) if made_of != weights else {}
    return size(row, by_split("pipeline", weights), before)


ENGLISH: dict[str, Callable[[], str]] = {
    "readme": lambda: readme(_pipeline(), newest("speed", "cpu")),
    "english": lambda: small(_pipeline()),
    "english_scores": lambda: scores(_pipeline()),
    "english_steps": lambda: steps(_pipeline()),
    "english_peers": lambda: peers(_pipeline()),
    "english_calibration": lambda: calibration(_calibration()),
    "english_cuts": lambda: cuts(by_split("cuts", _weights())),
    "english_size": _size,
}
FIGURES: dict[str, Callable[[], str | None]] = {f"docs/{FIGURE}": lambda: figure(_calibration())}
