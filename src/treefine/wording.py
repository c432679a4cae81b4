"""Write numbers, times and file losses as people read them. Needs only the standard library."""

from __future__ import annotations

from collections.abc import Mapping


def count(number: int, thing: str) -> str:
    """Return the number and the noun, in the plural if needed.

    >>> count(2000, "sentence"), count(1, "word"), count(3, "DEPS")
    ('2,000 sentences', '1 word', '3 DEPS')
    """
    return f"{number:,} {thing}{'s' if number != 1 and thing.islower() else ''}"


def clock(seconds: float | None) -> str:
    """Return hours, minutes and seconds.

    >>> clock(5383), clock(None)
    ('1:29:43', '–')
    """
    if seconds is None:
        return "–"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def losses_line(lost: Mapping[str, int], title: str) -> str:
    """Return a line that lists the items a format cannot store, with their counts."""
    items = ", ".join(count(number, kind) for kind, number in lost.items())
    return f"dropped, because {title} cannot store them: {items}"
