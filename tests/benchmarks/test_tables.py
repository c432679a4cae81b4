"""The tables of README and docs are those of the newest rows."""

import pytest

from benchmarks.pages.tables import PAGES, filled
from benchmarks.rows import ROOT


@pytest.mark.parametrize("page", PAGES)
def test_tables_are_those_of_the_newest_rows(page):
    text = (ROOT / page).read_text(encoding="utf-8")

    assert "<!-- table: " in text
    assert filled(text) == text
