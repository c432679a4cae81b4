"""Generate the tables of docs/languages.md: the accuracy of the bundled parser of many languages.

`published.json` holds the scores that other parsers publish, by treebank. Not every release of UD has scores, so the
tables show those of the nearest release, and of two equally near ones the later.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any, Literal, NamedTuple

from benchmarks.accuracy.languages import TreebankFacts, treebank_facts
from benchmarks.accuracy.model_rows import RAW, WORDS
from benchmarks.markdown import NONE, Lines, listed, table
from benchmarks.rows import Row, read_rows

NAME = "multi"
PUBLISHED = Path(__file__).parents[1] / "published.json"
ENOUGH = 20_000  # training words of a treebank that is compared with UDPipe 2
MANY = 1.0  # % of the test sentences that are in a training file; treebanks with more are named
Input = Literal["raw", "words"]  # as in published.json
OURS: dict[Input, str] = {"raw": RAW, "words": WORDS}
Facts = Mapping[str, TreebankFacts]
ByTreebank = Mapping[str, Row]


class Published(NamedTuple):
    """A published score, and the release of UD on which it was measured."""

    score: float
    release: str


@cache
def published() -> dict[str, Any]:
    """Return the published scores and their sources."""
    return dict(json.loads(PUBLISHED.read_text(encoding="utf-8")))


def nearest(parser: str, code: str, kind: Input, release: str) -> Published | None:
    """Return the LAS that a parser publishes for the release of a treebank that is nearest to this one."""
    scores = []
    for source, by_kind in published()["scores"].get(code, {}).items():
        about = published()["sources"][source]
        if about["parser"] == parser and "LAS" in by_kind.get(kind, {}):
            scores.append(Published(by_kind[kind]["LAS"], about["release"]))
    ours = minor(release)
    return min(scores, key=lambda each: (abs(minor(each.release) - ours), -minor(each.release)), default=None)


def minor(release: str) -> int:
    """Return the second number of a release.

    >>> minor("2.16"), minor("before 2.11")
    (16, 11)
    """
    return int(re.findall(r"\d+", release)[1])


def scores_by_treebank(rows: ByTreebank, facts: Facts) -> str:
    """Return our scores on the test set of each treebank, and LAS of UDPipe 2 with the release of its treebank."""
    names = ("UPOS", "UFeats", "Lemmas")
    udpipe = ("UDPipe 2, text", "UDPipe 2, words")
    lines: Lines = [
        ("language", "`language=`", "treebank", "training words", "LAS, text", "LAS, words", *names, *udpipe)
    ]
    codes = sorted(facts, key=lambda code: (facts[code].name.partition(" (")[0], not facts[code].is_main, code))
    for code in codes:
        each, row = facts[code], rows.get(code)
        treebank = f"{each.treebank.removeprefix('UD ')} {each.release}{'*' * each.is_dev_only}"
        scores = [_score(row, RAW, "LAS"), _score(row, WORDS, "LAS"), *(_score(row, WORDS, name) for name in names)]
        cells = [NONE if score is None else f"{score:.2f}" for score in scores]
        others = (nearest("UDPipe 2", code, kind, each.release) for kind in OURS)
        cells += [NONE if other is None else f"{other.score:.1f} ({other.release})" for other in others]
        name = f"`{code}`, `{each.language}`" if each.is_main else f"`{code}`"
        lines.append((each.name, name, treebank, f"{each.words:,}", *cells))
    notes = [f"{code}: {facts[code].note}." for code in codes if facts[code].note and not facts[code].is_dev_only]
    repeated = [f"{code} {facts[code].repeated:.1f}%" for code in codes if facts[code].repeated >= MANY]
    notes.append(f"Test sentences of six words or more that are also in a training file: {listed(repeated)}.")
    return f"{table(*lines)}\n\n{' '.join(notes)}\n\n{_origin(rows)}"


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
    pairs = _pairs(rows, facts, "UDPipe 2", "words")
    lines: Lines = [("treebanks", "number", f"`{NAME}`", "UDPipe 2", "difference")]
    for title, belongs in groups.items():
        ours, theirs = zip(*(pair for code, pair in pairs.items() if belongs(facts[code])), strict=True)
        difference = f"{mean(ours) - mean(theirs):+.2f}"
        lines.append((title, len(ours), f"{mean(ours):.2f}", f"{mean(theirs):.2f}", difference))
    sources = [
        f"[{each['parser']} {each['release']}]({each['url']})"
        for each in published()["sources"].values()
        if each["parser"].startswith("UDPipe")
    ]
    return "\n\n".join(
        [table(*lines), *(_ahead(rows, facts, kind) for kind in OURS), f"Sources: {', '.join(sources)}."]
    )


def _pairs(rows: ByTreebank, facts: Facts, parser: str, kind: Input) -> dict[str, tuple[float, float]]:
    """Return our LAS and that of another parser for each treebank for which both are known."""
    pairs = {}
    for code, each in facts.items():
        ours, other = _score(rows.get(code), OURS[kind], "LAS"), nearest(parser, code, kind, each.release)
        if ours is not None and other is not None:
            pairs[code] = (ours, other.score)
    return pairs


def _ahead(rows: ByTreebank, facts: Facts, kind: Input) -> str:
    """Say in how many languages we are ahead of UDPipe 1, by the mean over the treebanks of a language."""
    gains: dict[str, dict[str, float]] = defaultdict(dict)
    for code, (ours, theirs) in _pairs(rows, facts, "UDPipe 1", kind).items():
        gains[facts[code].name.partition(" (")[0]][code] = ours - theirs
    means = {name: mean(by_code.values()) for name, by_code in sorted(gains.items())}
    behind = [
        f"{name} ({', '.join(code + '*' * facts[code].is_dev_only for code in gains[name])}, {gain:+.1f})"
        for name, gain in means.items()
        if gain <= 0
    ]
    start = "raw text" if kind == "raw" else "words"
    ahead = f"From {start}, `{NAME}` is ahead of UDPipe 1 in {len(means) - len(behind)} of {len(means)} languages"
    return f"{ahead}; it is behind in {listed(behind)}." if behind else f"{ahead}."


def _origin(rows: ByTreebank) -> str:
    """Return the command, the dates, the weights and the precision of the rows."""
    config = next(iter(rows.values()))["config"]
    dates = sorted({row["when"][:10] for row in rows.values()})
    days = " to ".join(dict.fromkeys([dates[0], dates[-1]]))
    return (
        f"`python -m benchmarks languages --split test`, {len(rows)} treebanks, {days}, weights "
        f"{config['weights'][:8]}, {config['precision']}."
    )


def _score(row: Row | None, kind: str, name: str) -> float | None:
    return None if row is None else row["result"][kind].get(name)


def rows_of_test() -> dict[str, Row]:
    """Return the test row of each treebank for the newest weights that were tested."""
    rows = read_rows("languages", split="test")
    return {row["config"]["treebank"]: row for row in rows if row["config"]["weights"] == rows[-1]["config"]["weights"]}


LANGUAGES: dict[str, Callable[[], str]] = {
    "languages": lambda: scores_by_treebank(rows_of_test(), treebank_facts()),
    "languages_summary": lambda: summary(rows_of_test(), treebank_facts()),
}
