"""Make the notebooks of the tutorials from their pages, when the site is built.

A notebook has the text of its page, without the outputs: Python blocks and consoles become cells to run.
"""

from __future__ import annotations

import doctest
import json
import re

NAMES = ("parse-a-folder", "correct-trees")  # those with tables and trees to play with in Python
START = "# Start in the root of the checkout.\n%cd ../.."
RUNNABLE = re.compile(r"^```(console|python)\n(.*?)^```$\n?", re.DOTALL | re.MULTILINE)


def notebook(page: str) -> str:
    """Return the notebook of a page as JSON in the format of Jupyter, nbformat 4.5."""
    cells: list[tuple[str, str]] = []
    text = RUNNABLE.split(page)
    for prose, language, body in zip(text[::3], [*text[1::3], ""], [*text[2::3], ""], strict=True):
        if prose.strip():
            cells.append(("markdown", prose.strip()))
        if language == "console":
            cells.append(("code", _commands(body)))
        elif language == "python":
            cells += [("code", statements) for statements in _statements(body)]
    cells.insert(1, ("code", START))
    document = {
        "cells": [_cell(number, *cell) for number, cell in enumerate(cells, start=1)],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def _commands(console: str) -> str:
    """Return the commands of a console as lines of a cell."""
    lines = re.sub(r"\\\n\s*", "", console).split("\n")  # a command may continue on the next line
    found = [line[2:] for line in lines if line.startswith("$ ")]
    return "\n".join(f"%{command}" if command.startswith("cd ") else f"!{command}" for command in found)


def _statements(block: str) -> list[str]:
    """Return the statements of a Python block, cut after each one that prints: a cell shows only its last value."""
    cells = [""]
    for example in doctest.DocTestParser().get_examples(block):
        cells[-1] += example.source
        if example.want:
            cells.append("")
    return [cell.rstrip("\n") for cell in cells if cell]


def _cell(number: int, kind: str, source: str) -> dict[str, object]:
    cell: dict[str, object] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}}
    if kind == "code":
        cell |= {"execution_count": None, "outputs": []}
    return cell | {"source": source.splitlines(keepends=True)}
