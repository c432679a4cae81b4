"""Write the tables of README and docs from the newest rows, each between two markers that name it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.accuracy.clicks import clicks
from benchmarks.accuracy.decisions import decisions
from benchmarks.accuracy.others import OTHER_PARSERS
from benchmarks.accuracy.reproduction import REPRODUCTION
from benchmarks.accuracy.segmenter import SEGMENTERS
from benchmarks.accuracy.tags import REFINED_TAGS
from benchmarks.accuracy.trust import trust
from benchmarks.accuracy.vote import votes
from benchmarks.annotation.summary import annotation
from benchmarks.fuzz.run import fuzz_inputs
from benchmarks.pages import english, languages, speed
from benchmarks.pages.cli import command_line
from benchmarks.pages.english import ENGLISH
from benchmarks.pages.languages import LANGUAGES
from benchmarks.pages.refinement import REFINEMENT
from benchmarks.pages.results import RESULTS, TESTED
from benchmarks.pages.serving import SERVING_PAGE, sentence_lengths
from benchmarks.pages.settings import SETTINGS_PAGE
from benchmarks.pages.speed import SPEED_PAGE
from benchmarks.pages.structure import structure_table
from benchmarks.pages.summary import SUMMARY
from benchmarks.pages.targets import TARGETS
from benchmarks.reliability.first_output import first_output
from benchmarks.reliability.kills import kills
from benchmarks.reliability.long_sentences import long_sentences
from benchmarks.reliability.streaming import streaming
from benchmarks.rows import ROOT
from benchmarks.speed import curves
from benchmarks.speed.commands import analyse_speed, memory, newcomer, reading, resampling, scoring, startup
from benchmarks.speed.contention import contention
from benchmarks.speed.corpora import CORPORA
from benchmarks.speed.operations import attention, decoding

PAGES = (
    "README.md",
    "docs/benchmarks.md",
    "docs/results.md",
    "docs/refinement.md",
    "docs/english.md",
    "docs/languages.md",
    "docs/refining.md",
    "docs/deciding.md",
    "docs/annotating.md",
    "docs/speed.md",
    "docs/serving.md",
    "docs/corpora.md",
    "docs/targets.md",
    "docs/cli.md",
    "docs/settings.md",
)
TABLES: dict[str, Callable[[], str]] = {
    each.__name__: each
    for each in (
        reading,
        memory,
        scoring,
        resampling,
        analyse_speed,
        startup,
        decoding,
        attention,
        newcomer,
        decisions,
        clicks,
        trust,
        votes,
        structure_table,
        command_line,
        contention,
        sentence_lengths,
        fuzz_inputs,
        kills,
        streaming,
        long_sentences,
        first_output,
        annotation,
    )
} | (
    RESULTS
    | REPRODUCTION
    | REFINEMENT
    | TESTED
    | SUMMARY
    | ENGLISH
    | LANGUAGES
    | SEGMENTERS
    | OTHER_PARSERS
    | REFINED_TAGS
    | SPEED_PAGE
    | CORPORA
    | SERVING_PAGE
    | TARGETS
    | SETTINGS_PAGE
)
FIGURES = {**english.FIGURES, **languages.FIGURES, **curves.FIGURES, **speed.FIGURES}


def filled(page: str, tables: Mapping[str, Callable[[], str]] = TABLES) -> str:
    """Return the page with its tables regenerated."""

    def fill(match: re.Match[str]) -> str:
        return f"{match[1]}\n{tables[match[2]]()}\n{match[3]}"

    marker = r"(<!-- table: (\w+) -->)\n.*?(<!-- end -->)"
    return re.sub(marker, fill, page, flags=re.DOTALL)


def write_tables() -> None:
    """Write all tables and figures."""
    for name in PAGES:
        path = Path(ROOT, name)
        path.write_text(filled(path.read_text()))
    for name, draw in FIGURES.items():
        if (figure := draw()) is not None:
            Path(ROOT, name).write_text(figure)
