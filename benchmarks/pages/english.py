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
from benchmarks.peers.answers import WORDS as FROM_WORDS
from benchmarks.rows import Row, machine_of, newest, weights_checksum
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
    measured_as: str = ""  # the name under which `speed` measured the parser, if it did


REPORTED = (
    Reported("UDPipe 1", "2.3", "– 77.1 93.5 – – 80.5 77.5", "81.2", "85.8", "UDPipe 1, beam 5"),
    Reported("UDPipe 1", "2.5", "98.90 77.40 93.26 – – 80.22 77.03"),
    Reported("Stanza", "2.5", "99.01 81.13 95.40 – – 86.22 83.59"),
    Reported("Trankit base", "2.5", "98.48 88.35 95.95 – – 90.14 87.96"),
    Reported("Trankit large", "2.5", "98.67 90.49 96.65 – – 91.29 89.40"),
    Reported("UDPipe 2", "2.6", "98.95 86.60 96.36 – – 89.55 87.43", "90.05"),
    Reported("Stanza", "2.12", "99.17 89.16 96.20 – – 88.90 86.77", NONE, NONE, "Stanza default, untrained"),
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


def readme(rows: Splits, speed: Row) -> str:
    """Return how accurate and how fast the bundled parser is, compared with other parsers."""
    result, config = rows["test"]["result"], rows["test"]["config"]
    lines: Lines = [("parser", "UD version", "LAS from raw text", "LAS from gold words", "sentences/s on a CPU")]
    for name, measured_as, step in (
        ("treefine `en`", "treefine", -1),
        ("treefine `en`, one pass (no refinement)", "treefine, one pass", 1),
    ):
        scores = (percent(result[kind]["LAS_by_step"][step]) for kind in (RAW, WORDS))
        lines.append((f"**{name}**", config["release"], *scores, _speed(speed, measured_as)))
    for each in IN_README:
        lines.append((each.system, each.ud, each.raw.split()[-1], each.words, _speed(speed, each.measured_as)))
    notes = (
        "LAS is the percentage of words with the right head and label, on the test set of the English Web Treebank. "
        "The scores of the other parsers are the ones they publish. The treebank differs from one UD version to the "
        "next, so compare only scores of the same version. Speed is measured from words to trees "
        f"({machine_of(speed)}); treefine runs in {speed['config']['settings']['treefine']['precision']} and also "
        "predicts the tags. Stanza has its default size but random weights. A dash means not published or not measured."
    )
    if speed["config"]["weights"] != config["weights"]:
        notes += " The speed of treefine is that of earlier weights of the same size, without features and lemmas."
    return f"{table(*lines)}\n\n{notes}"


def _speed(speed: Row, name: str) -> str:
    """Return how many sentences per second a system parses, from words to trees."""
    measured = speed["result"].get(f"{name}: {FROM_WORDS}")
    return f"{measured['sentences_per_second']:,.0f}" if measured else NONE


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
    "readme": lambda: readme(_rows("pipeline"), newest("speed", "cpu")),
    "english": lambda: compared(_rows("pipeline")),
    "english_scores": lambda: scores(_rows("pipeline")),
    "english_calibration": lambda: calibration(_rows("calibration")),
}
