"""Write the tables of README and docs from the newest rows, each between two markers that name it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.pages.english import ENGLISH
from benchmarks.pages.languages import LANGUAGES
from benchmarks.pages.speed import SPEED_PAGE
from benchmarks.rows import ROOT

PAGES = (
    "README.md",
    "docs/english.md",
    "docs/languages.md",
    "docs/speed.md",
    "src/treefine/models/en/README.md",
)
TABLES: dict[str, Callable[[], str]] = ENGLISH | LANGUAGES | SPEED_PAGE
MARKERS = re.compile(r"(<!-- table: (\w+) -->)\n.*?(<!-- end -->)", re.DOTALL)


def filled(page: str, tables: Mapping[str, Callable[[], str]] = TABLES) -> str:
    """Return the page with its tables made again."""
    return MARKERS.sub(lambda match: f"{match[1]}\n{tables[match[2]]()}\n{match[3]}", page)


def write_tables() -> None:
    """Write all tables."""
    for name in PAGES:
        path = Path(ROOT, name)
        path.write_text(filled(path.read_text()))
