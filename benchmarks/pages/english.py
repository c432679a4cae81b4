"""Generate the tables of docs/english.md and of the README: the accuracy of the bundled English parser.

`REPORTED` holds the scores that other parsers publish for the test set of English EWT, as measures of CoNLL 2018 in
percent. Treebank releases differ in text, words and labels, so only scores of one UD version compare well. All were
read on 2026-11-15 in the version or commit that `SOURCES` names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from benchmarks.accuracy.calibration import ARC, BOTH, LABEL, SENTENCE
from benchmarks.accuracy.model_rows import MEASURES, RAW, TAGGED, WORDS, by_split
from benchmarks.markdown import NONE, Lines, percent, table
from benchmarks.pages.speed import accuracy_rows, cell, user_rows
from benchmarks.peers.answers import RUNNING, TREES
from benchmarks.rows import Row, machine_of, weights_checksum
from benchmarks.speed.running_text import FAST, NOW
from treefine.model.bundled import bundled_models

NAME = "en"
_STANZA = "https://stanfordnlp.github.io/stanza"
_TRANKIT = "https://trankit.readthedocs.io/en/latest/performance.html"
_UDPIPE = "https://github.com/ufal/udpipe/blob"
SOURCES = {  # system, UD version, version of the page: its address
    "UDPipe 1, UD 2.3, models of 2018-11-15": (
        f"{_UDPIPE}/a964cbfca5069211c406b172be85be6058f54855/doc/manual_model_ud-2.3.t2t"
    ),
    "UDPipe 1 and Trankit, UD 2.5, commit 04a9ef1": _TRANKIT,
    "Stanza, UD 2.5, Stanza 1.0": f"{_STANZA}/v100performance.html",
    "UDPipe 2, UD 2.6, models of 2020-08-30": f"{_UDPIPE}/udpipe-2/models-2.6/EVALUATION-server.txt",
    "Stanza, UD 2.12, Stanza 1.5.1": f"{_STANZA}/performance.html",
    "UDPipe 2, UD 2.17, models of 2025-11-25": f"{_UDPIPE}/udpipe-2/models-2.17/EVALUATION-server.txt",
}


class Reported(NamedTuple):
    """What another parser publishes, as text; a dash stands for a score that is not published."""

    system: str
    ud: str
    raw: str  # Tokens, Sentences, UPOS, UFeats, Lemmas, UAS and LAS from raw text
    words: str = NONE  # LAS from gold words
    tagged: str = NONE  # LAS from gold words and tags
    measured_as: str = ""  # the name under which `running_text` measured the parser, if it did


REPORTED = (
    Reported("UDPipe 1", "2.3", "– 77.1 93.5 – – 80.5 77.5", "81.2", "85.8", "UDPipe 1"),
    Reported("UDPipe 1", "2.5", "98.90 77.40 93.26 – – 80.22 77.03"),
    Reported("Stanza", "2.5", "99.01 81.13 95.40 – – 86.22 83.59"),
    Reported("Trankit base", "2.5", "98.48 88.35 95.95 – – 90.14 87.96"),
    Reported("Trankit large", "2.5", "98.67 90.49 96.65 – – 91.29 89.40"),
    Reported("UDPipe 2", "2.6", "98.95 86.60 96.36 – – 89.55 87.43", "90.05"),
    Reported("Stanza", "2.12", "99.17 89.16 96.20 – – 88.90 86.77", NONE, NONE, "Stanza"),
    Reported("UDPipe 2", "2.17", "99.29 88.42 96.75 97.21 97.13 91.59 89.91", "92.36"),
)
IN_README = [REPORTED[number] for number in (0, 6, 3, 4, 5, 7)]
KINDS = {ARC: "head", LABEL: "label of a right head", BOTH: "head and label", SENTENCE: "whole sentence"}
KINDS |= {"upos": "UPOS", "xpos": "XPOS", "feats": "features", "lemma": "lemma"}
Splits = Mapping[str, Row]


def compared(rows: Splits) -> str:
    """Return our test scores and those that other parsers publish, one line per parser."""
    names = ("Tokens", "Sentences", "UPOS", "UFeats", "Lemmas", "UAS", "LAS")
    result, release = rows["test"]["result"], rows["test"]["config"]["release"]
    ours = [result[RAW].get(name) for name in names] + [result[kind]["LAS"] for kind in (WORDS, TAGGED)]
    lines: Lines = [("parser", "UD", *names, "LAS, gold words", "LAS, gold words and tags")]
    lines.append((f"**treefine `{NAME}`**", release, *(f"**{percent(score)}**" for score in ours)))
    lines += [(each.system, each.ud, *each.raw.split(), each.words, each.tagged) for each in REPORTED]
    sources = ", ".join(f"[{name}]({address})" for name, address in SOURCES.items())
    return f"{table(*lines)}\n\nSources: {sources}."


def readme(rows: Splits, speed: Mapping[str, Row], dev: Row | None) -> str:
    """Return how accurate and how fast the bundled parser is, compared with other parsers."""
    result, config = rows["test"]["result"], rows["test"]["config"]
    scores = [percent(result[kind]["LAS"]) for kind in (RAW, WORDS)]
    others = [(each.system, each.ud, each.raw.split()[-1], each.words, each.measured_as) for each in IN_README]
    timed = speed[RUNNING]["result"] if RUNNING in speed else {}
    parsers = [(f"**treefine `{NAME}`**", config["release"], *scores, NOW)]
    if FAST in timed:
        parsers.append((f'**treefine `{NAME}`, `speed="fast"`**', config["release"], NONE, NONE, FAST))
    parsers += others
    if "spaCy" in timed:
        parsers.append(("spaCy, small, trained here", config["release"], NONE, NONE, "spaCy"))
    titles = ("LAS from raw text", "LAS from gold words", "LAS from raw text, dev", "sentences/s from running text")
    lines: Lines = [("parser", "UD version", *titles, "sentences/s from words")]
    for *cells, name in parsers:
        speeds = (cell(speed.get(path), name, "sentences_per_second") for path in (RUNNING, TREES))
        is_published = name in {each.measured_as for each in IN_README}  # with other weights than those that were timed
        lines.append((*cells, NONE if is_published else cell(dev, name, "LAS, raw text", 2), *speeds))
    notes = (
        "LAS is the percentage of words with the right head and label, on the English Web Treebank: its test set, "
        "unless the column says dev. The scores of UDPipe, Stanza and Trankit are the ones they publish. The treebank "
        "differs from one UD version to the next, so compare only scores of the same version. "
    )
    if timed:
        size = speed[RUNNING]["config"]["words"] / speed[RUNNING]["config"]["sentences"]
        notes += (
            f"Speed is that of one long text with {size:.0f} words per sentence, all parsers in one run "
            f"({machine_of(speed[RUNNING])}). "
        )
    if "UDPipe 1" in timed and "Stanza" in timed:
        notes += (
            "spaCy and Stanza then predict tags and trees, treefine and UDPipe features and lemmas too. The Stanza "
            "that was timed has its default size but random weights; the UDPipe 1 that was timed was trained here. "
        )
    return f"{table(*lines)}\n\n{notes}A dash means not published or not measured."


def scores(rows: Splits) -> str:
    """Return all measures by split and input, and LAS after the first step."""
    names = MEASURES[RAW]
    lines: Lines = [("split", "input", *names, "LAS, step 1")]
    for split, row in rows.items():
        for kind, result in row["result"].items():
            cells = (result.get(name) for name in names)
            lines.append((split, kind, *map(percent, cells), percent(result["LAS_by_step"][1])))
    return f"{table(*lines)}\n\n{_origins(rows)}"


def calibration(rows: Splits) -> str:
    """Return how far each kind of confidence is from accuracy."""
    lines: Lines = [("split", "confidence in", "mean", "accuracy", "error, 10 bins", "by chance", "Brier score")]
    for split, row in rows.items():
        for kind, title in KINDS.items():
            each = row["result"][kind]
            shares = (each["confidence"], each["right"], each["error"]["10 bins"], each["error_by_chance"]["10 bins"])
            lines.append((split, title, *map(percent, shares), f"{each['brier']:.4f}"))
    return f"{table(*lines)}\n\n{_origins(rows)}"


def _origins(rows: Splits) -> str:
    """Return the command, date, commit, weights, treebank and precision of the rows."""
    return "\n".join(
        f"`python -m benchmarks {row['benchmark']} --split {split}`, {row['when'][:10]}, commit {row['commit']}, "
        f"weights {row['config']['weights'][:8]}, UD {row['config']['release']}, {row['config']['precision']}."
        for split, row in rows.items()
    )


def _rows(benchmark: str) -> Splits:
    return by_split(benchmark, weights_checksum(bundled_models()[NAME]))


ENGLISH: dict[str, Callable[[], str]] = {
    "readme": lambda: readme(_rows("pipeline"), user_rows(), accuracy_rows().get("en_ewt dev")),
    "english": lambda: compared(_rows("pipeline")),
    "english_scores": lambda: scores(_rows("pipeline")),
    "english_calibration": lambda: calibration(_rows("calibration")),
}
