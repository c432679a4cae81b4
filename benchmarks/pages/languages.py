"""Generate docs/languages.md: the accuracy of the bundled parser of many languages, next to that of other parsers.

`published.json` holds the scores that other parsers publish, by treebank. Not every release of UD has scores, so the
tables show those of the nearest release, and of two equally near ones the later.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sized
from functools import cache
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any, Literal, NamedTuple

from benchmarks.accuracy.language_training import ALONE, CURVE, MULTI, PLAIN, TOGETHER
from benchmarks.accuracy.languages import IDENTIFIED, TreebankFacts, treebank_facts
from benchmarks.accuracy.model_rows import RAW, WORDS
from benchmarks.markdown import NONE, Lines, listed, table
from benchmarks.pages.speed import STYLE
from benchmarks.rows import ROWS, Row, missing, read_rows, weights_checksum
from treefine.drawing.characters import safe_html
from treefine.drawing.svg import number_text, text_element, text_width, whole_svg
from treefine.evaluation.analysis.charts import marker, nice_ticks, tick_labels
from treefine.model.bundled import bundled_models

NAME = "multi"
FROM_TEXT, FROM_WORDS = "LAS from text", "LAS from words"  # in about.json
PUBLISHED = Path(__file__).parents[1] / "published.json"
PICTURE = "languages-refinement.svg"
COMMAND = "python -m benchmarks languages --split test"
IMPORT = "python -m benchmarks import_training LOGS"
ENOUGH = 20_000  # training words of a treebank that is compared with UDPipe 2
MANY = 1.0  # % of the test sentences that are in a training file; treebanks with more are named
SIZES = ((0, 25_000), (25_000, 75_000), (75_000, math.inf))  # training words of the groups of treebanks
Input = Literal["raw", "words"]  # as in published.json
OURS: dict[Input, str] = {"raw": RAW, "words": WORDS}
OTHERS: dict[Input, tuple[str, ...]] = {
    "raw": ("UDPipe 1", "UDPipe 2", "Stanza", "Trankit base"),
    "words": ("UDPipe 1", "UDPipe 2"),
}
Facts = Mapping[str, TreebankFacts]
ByTreebank = Mapping[str, Row]


class Nearest(NamedTuple):
    """A published score, and the release of UD on which it was measured."""

    score: float
    release: str


@cache
def published() -> dict[str, Any]:
    """Return the published scores and their sources."""
    return dict(json.loads(PUBLISHED.read_text(encoding="utf-8")))


def nearest(parser: str, code: str, given: Input, release: str, *, measure: str = "LAS") -> Nearest | None:
    """Return the score that a parser publishes for the release of a treebank that is nearest to this one."""
    known = published()
    found = []
    for source, scores in known["scores"].get(code, {}).items():
        about = known["sources"][source]
        if about["parser"] == parser and measure in scores.get(given, {}):
            found.append(Nearest(scores[given][measure], about["release"]))
    own = minor(release)
    return min(found, key=lambda each: (abs(minor(each.release) - own), -minor(each.release)), default=None)


def minor(release: str) -> int:
    """Return the second number of a release.

    >>> minor("2.16"), minor("before 2.11")
    (16, 11)
    """
    return int(re.findall(r"\d+", release)[1])


def scores_by_treebank(rows: ByTreebank, facts: Facts) -> str:
    """Return our scores on the test set of each treebank, next to what a reader must know about it."""
    names = ("UPOS", "UFeats", "Lemmas")
    head = ("language", "`language=`", "treebank", "training words", "LAS, text", "LAS, words", *names)
    lines: Lines = [head]
    for code in _sorted(facts):
        each, row = facts[code], rows.get(code)
        treebank = f"{each.treebank.removeprefix('UD ')} {each.release}{'*' * each.is_dev_only}"
        scores = [_score(row, RAW, "LAS"), _score(row, WORDS, "LAS"), *(_score(row, WORDS, name) for name in names)]
        main = f"`{code}`, `{each.language}`" if each.is_main else f"`{code}`"
        lines.append((each.name, main, treebank, f"{each.words:,}", *map(_two, scores)))
    notes = [f"{code}: {facts[code].note}." for code in _sorted(facts) if _has_own_note(facts[code])]
    repeated = [f"{code} {facts[code].repeated:.1f}%" for code in _sorted(facts) if facts[code].repeated >= MANY]
    if repeated:
        notes.append(f"Test sentences of six words or more that are also in a training file: {listed(repeated)}.")
    return "\n\n".join([table(*lines), " ".join(notes), *_origin(rows)])


def _has_own_note(facts: TreebankFacts) -> bool:
    return bool(facts.note) and not facts.is_dev_only


def beside_others(rows: ByTreebank, facts: Facts) -> str:
    """Return LAS next to that of other parsers, with the release of their treebank in brackets."""
    heads = [f"{name}, {'text' if given == 'raw' else 'words'}" for given in OURS for name in (NAME, *OTHERS[given])]
    lines: Lines = [("language", "treebank", *heads)]
    for code in _sorted(facts):
        each, cells = facts[code], list[str]()
        for given, kind in OURS.items():
            own = _score(rows.get(code), kind, "LAS")
            cells.append(NONE if own is None else f"**{own:.1f}** ({each.release})")
            for parser in OTHERS[given]:
                found = nearest(parser, code, given, each.release)
                cells.append(NONE if found is None else f"{found.score:.1f} ({found.release})")
        lines.append((each.name, f"{code}{'*' * each.is_dev_only}", *cells))
    sources = [f"[{each['parser']} {each['release']}]({each['url']})" for each in published()["sources"].values()]
    return f"{table(*lines)}\n\nSources: {', '.join(sources)}."


def summary(rows: ByTreebank, facts: Facts) -> str:
    """Compare the mean LAS from words with UDPipe 2, and each language with UDPipe 1."""
    groups: dict[str, Callable[[TreebankFacts], bool]] = {
        f"at least {ENOUGH:,} training words": lambda each: each.words >= ENOUGH,
        "of these, with a training file": lambda each: each.words >= ENOUGH and not each.is_dev_only,
        "of these, with most of the dev set in its place": lambda each: each.words >= ENOUGH and each.is_dev_only,
        f"fewer than {ENOUGH:,} training words": lambda each: each.words < ENOUGH,
        "all without a training file": lambda each: each.is_dev_only,
        "all": lambda _: True,
    }
    lines: Lines = [("treebanks", "number", f"`{NAME}`", "UDPipe 2", "difference")]
    for title, belongs in groups.items():
        pairs = _pairs(rows, facts, "UDPipe 2", "words", belongs)
        own, others = ([pair[number] for pair in pairs.values()] for number in (0, 1))
        cells = (_two(mean(own)), _two(mean(others)), f"{mean(own) - mean(others):+.2f}") if pairs else [NONE] * 3
        lines.append((title, len(pairs), *cells))
    ahead = [_ahead(rows, facts, given) for given in OURS]
    return "\n\n".join([table(*lines), *filter(None, ahead)])


def _pairs(
    rows: ByTreebank, facts: Facts, parser: str, given: Input, belongs: Callable[[TreebankFacts], bool] = lambda _: True
) -> dict[str, tuple[float, float]]:
    """Return our LAS and that of another parser for each treebank for which both are known."""
    pairs = {}
    for code, each in facts.items():
        own, other = _score(rows.get(code), OURS[given], "LAS"), nearest(parser, code, given, each.release)
        if own is not None and other is not None and belongs(each):
            pairs[code] = (own, other.score)
    return pairs


def _ahead(rows: ByTreebank, facts: Facts, given: Input) -> str:
    """Say in how many languages we are ahead of UDPipe 1, by the mean over the treebanks of a language."""
    gains: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for code, (own, other) in _pairs(rows, facts, "UDPipe 1", given).items():
        gains[facts[code].name.partition(" (")[0]].append((code, own - other))
    if not gains:
        return ""
    means = {name: mean(gain for _, gain in some) for name, some in gains.items()}
    behind = [
        f"{name} ({', '.join(code + '*' * facts[code].is_dev_only for code, _ in gains[name])}, {gain:+.1f})"
        for name, gain in sorted(means.items())
        if gain <= 0
    ]
    where = "raw text" if given == "raw" else "words"
    said = f"From {where}, `{NAME}` is ahead of UDPipe 1 in {len(means) - len(behind)} of {len(means)} languages"
    return f"{said}; it is behind in {listed(behind)}." if behind else f"{said}."


def cost_of_many(alone: ByTreebank, together: ByTreebank, facts: Facts) -> str:
    """Compare a model of one treebank with the model of all, on the dev set, by size of the treebank."""
    codes = sorted(alone, key=lambda code: facts[code].words)
    if not codes:
        return missing("models of one treebank", IMPORT)
    lines: Lines = [("language", "treebank", "training words", "alone", "together", "difference")]
    gains = []
    for code in codes:
        own, other = alone[code]["result"]["LAS"], together[code]["result"]["LAS"] if code in together else None
        gains += [] if other is None else [other - own]
        shown = NONE if other is None else f"{other - own:+.2f}"
        lines.append((facts[code].name, _starred(code, facts), f"{facts[code].words:,}", _two(own), _two(other), shown))
    mean_gain = f"\n\nMean difference: {mean(gains):+.2f} points." if gains else ""
    return table(*lines) + mean_gain


def size() -> str:
    """Return the size of the weights and of the segmenter, from the row of the bundle."""
    rows = read_rows("bundle", weights=_weights())
    if not rows:
        return missing("the size of the model", "python -m benchmarks bundle --name multi")
    files = rows[-1]["result"]["files"]
    parts = sum(number for name, number in files.items() if name.startswith("segmenter/"))
    weights, whole = files["model.safetensors"] / 1e6, sum(files.values()) / 1e6
    return f"The weights take {weights:.1f} MB, the segmenter {parts / 1e6:.1f} MB, and all files {whole:.1f} MB."


def precision(together: ByTreebank, bundled: ByTreebank, facts: Facts) -> str:
    """Compare the weights before rounding, in float32, with the bundled ones in int8, on the same dev sets."""
    codes = [code for code in _sorted(facts) if code in together and code in bundled]
    if not codes:
        return missing("the loss of rounding", "python -m benchmarks languages --split dev")
    lines: Lines = [("treebank", "words", "LAS, float32", "LAS, int8", "difference")]
    pairs = {code: (together[code]["result"]["LAS"], bundled[code]["result"][WORDS]["LAS"]) for code in codes}
    for code, (before, after) in pairs.items():
        n_words = f"{bundled[code]['config']['words']:,}"
        lines.append((_starred(code, facts), n_words, _two(before), _two(after), f"{after - before:+.2f}"))
    change = mean(after - before for before, after in pairs.values())
    return f"Mean difference over {_number(codes)}: {change:+.2f} points.\n\n" + table(*lines)


def refinement(rows: ByTreebank, facts: Facts) -> str:
    """Return LAS of the first graph and of the last one, by size of the treebank, and the picture."""
    codes = sorted((code for code in rows if code in facts), key=lambda code: facts[code].words)
    if not codes:
        return missing("the gain of refinement", IMPORT)
    n_steps = max(len(rows[code]["result"]["LAS_by_step"]) for code in codes)
    lines: Lines = [("language", "treebank", "training words", "T=1", f"T={n_steps}", "gain")]
    for code in codes:
        first, last = _ends(rows[code])
        gain = f"{last - first:+.2f}"
        lines.append((facts[code].name, _starred(code, facts), f"{facts[code].words:,}", _two(first), _two(last), gain))
    groups = []
    for least, most in SIZES:
        gains = [gain_of(rows[code]) for code in codes if least <= facts[code].words < most]
        if gains:
            size = f"fewer than {most:,} training words" if not least else f"at least {least:,}"
            size = f"{least:,} to {most:,}" if least and most < math.inf else size
            groups.append(f"{mean(gains):+.2f} with {size} ({_number(gains)})")
    said = f"Mean gain in LAS: {listed(groups)}."
    return f"![Gain of refinement by size of the treebank]({PICTURE})\n\n{said}\n\n" + _details(
        "LAS of the first and of the last graph, by treebank", table(*lines), {}
    )


def gain_of(row: Row) -> float:
    """Return the points of LAS that refinement adds to the first graph."""
    first, last = _ends(row)
    return last - first


def _ends(row: Row) -> tuple[float, float]:
    by_step: list[float] = row["result"]["LAS_by_step"]
    return by_step[0], by_step[-1]


def curve(rows: Iterable[Row], facts: Facts) -> str:
    """Return UAS and LAS by number of training sentences, from the model of other languages and from the encoder."""
    found = {
        (each["config"]["treebank"], each["config"]["training_sentences"], each["config"]["start"]): each["result"]
        for each in rows
    }
    if not found:
        return missing("learning curves", IMPORT)
    names = ("UAS", "LAS")
    heads = [f"{name}, {start}" for start in ("from many languages", "from the encoder") for name in names]
    lines: Lines = [("language", "training sentences", *heads)]
    for code, size in sorted({(code, size) for code, size, _ in found}):
        cells = [_two(found.get((code, size, start), {}).get(name)) for start in (MULTI, PLAIN) for name in names]
        lines.append((facts[code].name, size, *cells))
    return table(*lines)


def calibration(rows: ByTreebank, facts: Facts) -> str:
    """Return the mean confidence in heads, their accuracy, and the calibration error."""
    codes = [code for code in _sorted(facts) if code in rows]
    if not codes:
        return missing("calibration", COMMAND)
    lines: Lines = [("language", "treebank", "confidence", "accuracy", "error, 10 bins")]
    for code in codes:
        found = rows[code]["result"]["calibration"]
        cells = [_two(found[name]) for name in ("confidence", "right", "error")]
        lines.append((facts[code].name, _starred(code, facts), *cells))
    errors = {code: rows[code]["result"]["calibration"]["error"] for code in codes}
    worst = max(errors, key=lambda code: errors[code])
    said = f"Mean error: {mean(errors.values()):.2f}; largest: {errors[worst]:.2f} ({worst})."
    return f"{said}\n\n" + _details("Confidence and accuracy by treebank", table(*lines), rows)


def identified(rows: ByTreebank, facts: Facts) -> str:
    """Return the share of the sentences whose language is identified."""
    codes = [code for code in _sorted(facts) if code in rows]
    if not codes:
        return missing("identified languages", COMMAND)
    shares = {code: rows[code]["result"][IDENTIFIED].get("right") or 0.0 for code in codes}
    wrong = [f"{_starred(code, facts)} {_two(share)}%" for code, share in shares.items() if share < 100]
    said = f"On average {mean(shares.values()):.2f}% of the sentences are put into the right language"
    return f"{said}; all of them in {_number(shares)}." if not wrong else f"{said}. Below 100%: {listed(wrong)}."


def attribution(facts: Facts) -> str:
    """Return the source, licence and contributors of each treebank."""
    lines: Lines = [("treebank", "release", "licence", "contributors")]
    for code in _sorted(facts):
        each = facts[code]
        lines.append((f"[{each.treebank}]({each.link})", each.release, each.licence, each.contributors or NONE))
    return table(*lines)


def languages_about(rows: Iterable[Row], facts: Facts | None = None) -> dict[str, dict[str, Any]]:
    """Return the description of each treebank for about.json; `rows` are those of `languages` for one model.

    The scores are those of the test set; they are empty before the test.
    """
    tested = {row["config"]["treebank"]: row for row in rows if row["config"]["split"] == "test"}
    return {
        code: {
            "name": each.name,
            "language": each.language,
            "treebank": f"{each.treebank} {each.release}",
            "licence": each.licence,
            "words": each.words,
            "is_main": each.is_main,
            "scores": _scores_to_list(tested.get(code)),
            "note": each.note,
        }
        for code, each in (treebank_facts() if facts is None else facts).items()
    }


def _scores_to_list(row: Row | None) -> dict[str, float]:
    """Return the scores for a list of models: LAS from text and from words, and tags from words."""
    if row is None:
        return {}
    of_words = row["result"][WORDS]
    found = {FROM_TEXT: row["result"][RAW]["LAS"], FROM_WORDS: of_words["LAS"]}
    return found | {name: of_words[name] for name in ("UPOS", "UFeats", "Lemmas") if name in of_words}


# The picture, in pixels.
WIDTH, HEIGHT = 760, 540
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 70, 56  # from the edges to the axes
RADIUS, LETTERS, ROOM = 3.6, 10, 11  # of a dot; size of the letters of a label; height of a label
TICKS = (5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000)  # training words
TITLE = "What refinement adds, by size of the treebank"
SUBTITLE = "LAS after the last step less LAS after the first, in points. Hollow: without a training file."
SMALL = f"""
.treefine-chart .small {{ font-size: {LETTERS}px; }}
.treefine-chart .leader {{ stroke: #818b98; stroke-width: 0.6; }}
"""


class Box(NamedTuple):
    """A rectangle that a label or a dot takes."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: Box) -> bool:
        """Return whether two rectangles share a point."""
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


def draw_refinement(rows: ByTreebank, facts: Facts) -> str | None:
    """Draw the gain of refinement against the number of training words, one dot per treebank; None without rows."""
    codes = [code for code in rows if code in facts]
    if not codes:
        return None
    gains = {code: gain_of(rows[code]) for code in codes}
    ticks = nice_ticks([0.0, *gains.values()])
    least, most = (math.log(f(facts[code].words for code in codes)) for f in (min, max))
    low, high = least - 0.15, most + 0.15

    def across(words: float) -> float:
        return LEFT + (math.log(words) - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def down(gain: float) -> float:
        return HEIGHT - BOTTOM - (gain - ticks[0]) / (ticks[-1] - ticks[0]) * (HEIGHT - BOTTOM - TOP)

    parts = [
        text_element(16, 24, TITLE, "title"),
        text_element(16, 44, SUBTITLE, "start"),
    ]
    for tick, label in zip(ticks, tick_labels(ticks, "{:.1f}"), strict=True):
        kind, height = "grid" if tick else "zero", down(tick)
        parts.append(f'<path class="{kind}" d="M{LEFT} {number_text(height)}H{WIDTH - RIGHT}"/>')
        parts.append(text_element(LEFT - 8, height + 4.5, label, "end"))
    for words in TICKS:
        if low <= math.log(words) <= high:
            parts.append(f'<path class="grid" d="M{number_text(across(words))} {TOP}V{HEIGHT - BOTTOM}"/>')
            parts.append(text_element(across(words), HEIGHT - BOTTOM + 18, f"{words:,}"))
    parts.append(text_element((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, "training words"))
    places = {code: (across(facts[code].words), down(gains[code])) for code in codes}
    for code, box in labels_of(places).items():
        x, y = places[code]
        end_x, end_y = _within(x, box.left, box.right), _within(y, box.top, box.bottom)
        if math.hypot(end_x - x, end_y - y) > 2 * RADIUS:
            line = f"M{number_text(x)} {number_text(y)}L{number_text(end_x)} {number_text(end_y)}"
            parts.append(f'<path class="leader" d="{line}"/>')
        parts.append(text_element(box.left, box.bottom - 2.5, code, "name small start"))
    for code, (x, y) in places.items():
        kind = "color0 hollow" if facts[code].is_dev_only else "color0"
        said = safe_html(f"{facts[code].name}, {code}, {facts[code].words:,} words: {gains[code]:+.2f}")
        dot = f'<path class="marker" d="{marker(0, x, y, RADIUS)}"/>'
        parts.append(f'<g class="{kind}"><title>{said}</title>{dot}</g>')
    return whole_svg("treefine-chart", TITLE, STYLE + SMALL, parts, width=WIDTH, height=HEIGHT)


def _within(value: float, least: float, most: float) -> float:
    return least if value < least else most if value > most else value


def labels_of(places: Mapping[str, tuple[float, float]]) -> dict[str, Box]:
    """Return the place of each label near its dot, without overlaps; a label without room is left out.

    >>> labels_of({"a": (100, 100)})["a"].left
    105.6
    """
    taken = [Box(x - RADIUS, y - RADIUS, x + RADIUS, y + RADIUS) for x, y in places.values()]
    found = dict[str, Box]()
    steps = sorted(product(range(-6, 7), range(-3, 4)), key=lambda step: (abs(step[0]) + 2 * abs(step[1]), step))
    for code, (x, y) in sorted(places.items(), key=lambda each: each[1]):
        width = text_width(code, LETTERS)
        for (rows, columns), is_left in product(steps, (False, True)):
            gap = RADIUS + 2 + 14 * abs(columns)
            left = x - gap - width if is_left else x + gap
            top = y - ROOM / 2 + rows * (ROOM - 2)
            box = Box(left, top, left + width, top + ROOM)
            is_inside = box.left >= LEFT and box.right <= WIDTH - 4 and box.top >= TOP - 12 and box.bottom <= HEIGHT
            if is_inside and not any(map(box.overlaps, taken)):
                found[code] = box
                taken.append(box)
                break
    return found


def _details(title: str, body: str, rows: ByTreebank) -> str:
    origin = "\n\n".join(_origin(rows))
    return f'<details markdown="1"><summary>{title}</summary>\n\n{body}\n\n{origin}\n\n</details>'


def _origin(rows: ByTreebank) -> list[str]:
    """Return the command, the dates, the weights and the precision of the rows."""
    found: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows.values():
        config = row["config"]
        found[config["split"], config["weights"][:8], config["precision"]].append(row)
    lines = []
    for (split, weights, precision), some in sorted(found.items()):
        dates = sorted({row["when"][:10] for row in some})
        days = " to ".join(dict.fromkeys([dates[0], dates[-1]]))
        command = f"`python -m benchmarks languages --split {split}`"
        lines.append(f"{command}, {_number(some)}, {days}, weights {weights}, {precision}.")
    return ["\n".join(lines)] if lines else []


def _sorted(facts: Facts) -> list[str]:
    """Return the codes by the name of the language; its main treebank is first."""
    return sorted(facts, key=lambda code: (facts[code].name.partition(" (")[0], not facts[code].is_main, code))


def _starred(code: str, facts: Facts) -> str:
    return f"{code}{'*' * facts[code].is_dev_only}"


def _score(row: Row | None, given: str, name: str) -> float | None:
    return None if row is None else row["result"][given].get(name)


def _number(treebanks: Sized) -> str:
    return f"{len(treebanks)} treebank{'s' * (len(treebanks) != 1)}"


def _two(score: float | None) -> str:
    return NONE if score is None else f"{score:.2f}"


def _weights(path: Path = ROWS) -> str:
    """Return the checksum of the bundled parser, or else that of the newest row."""
    folder = bundled_models().get(NAME)
    if folder is not None:
        return weights_checksum(folder)
    rows = read_rows("languages", path=path)
    return str(rows[-1]["config"]["weights"]) if rows else ""


def rows_of_test(path: Path = ROWS) -> dict[str, Row]:
    """Return the first test row of each treebank."""
    rows = read_rows("languages", path=path, weights=_weights(path), split="test")
    return {row["config"]["treebank"]: row for row in reversed(rows)}


def rows_of_dev(path: Path = ROWS) -> dict[str, Row]:
    """Return the newest dev row of each treebank."""
    rows = read_rows("languages", path=path, weights=_weights(path), split="dev")
    return {row["config"]["treebank"]: row for row in rows}


def rows_to_analyse(path: Path = ROWS) -> dict[str, Row]:
    """Return the test row of each treebank, or its newest dev row if it was not tested."""
    return rows_of_dev(path) | rows_of_test(path)


def _newest(benchmark: str) -> dict[str, Row]:
    return {row["config"]["treebank"]: row for row in read_rows(benchmark)}


LANGUAGES: dict[str, Callable[[], str]] = {
    "languages": lambda: scores_by_treebank(rows_of_test(), treebank_facts()),
    "languages_summary": lambda: summary(rows_of_test(), treebank_facts()),
    "languages_others": lambda: beside_others(rows_of_test(), treebank_facts()),
    "languages_cost": lambda: cost_of_many(_newest(ALONE), _newest(TOGETHER), treebank_facts()),
    "languages_refinement": lambda: refinement(_newest(TOGETHER), treebank_facts()),
    "languages_size": size,
    "languages_precision": lambda: precision(_newest(TOGETHER), rows_of_dev(), treebank_facts()),
    "languages_curve": lambda: curve(read_rows(CURVE), treebank_facts()),
    "languages_calibration": lambda: calibration(rows_to_analyse(), treebank_facts()),
    "languages_identified": lambda: identified(rows_to_analyse(), treebank_facts()),
    "languages_attribution": lambda: attribution(treebank_facts()),
}
FIGURES: dict[str, Callable[[], str | None]] = {
    f"docs/{PICTURE}": lambda: draw_refinement(_newest(TOGETHER), treebank_facts())
}
