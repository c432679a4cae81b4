"""Write tables and numbers as Markdown pages show them."""

from __future__ import annotations

from collections.abc import Sequence

NONE = "–"
Line = tuple[object, ...]  # the cells of a table's row
Lines = list[Line]


def table(*rows: Line) -> str:
    """Return the rows as a table; the first one is its header.

    >>> print(table(("word", "head"), ("Dogs", 2)))
    | word | head |
    | --- | --- |
    | Dogs | 2 |
    """
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])


def folded(summary: str, body: str) -> str:
    """Return a block that a reader opens by clicking on its summary; GitHub and MkDocs render the Markdown in it."""
    plain = summary.replace("`", "")  # GitHub shows no Markdown in a summary
    return f'<details markdown="1"><summary>{plain}</summary>\n\n{body}\n\n</details>'


def percent(share: float | None) -> str:
    """Return a share in percent, with two digits."""
    return NONE if share is None else f"{100 * share:.2f}"


def listed(parts: Sequence[str]) -> str:
    """Return the parts with commas and a last "and"."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def verdict(is_met: bool) -> str:
    """Return whether a target is met, as a table shows it."""
    return "met" if is_met else "**missed**"
