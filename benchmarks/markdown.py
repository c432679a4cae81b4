"""Tables as Markdown."""

from __future__ import annotations


def table(*rows: tuple[object, ...]) -> str:
    """The rows, of which the first is the head.

    >>> print(table(("word", "head"), ("Dogs", 2)))
    | word | head |
    | --- | --- |
    | Dogs | 2 |
    """
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])
