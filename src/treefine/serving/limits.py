"""How much a server takes: of one request, of all that wait, and of time."""

from __future__ import annotations

from dataclasses import dataclass, fields

from treefine.errors import TreefineError


@dataclass(frozen=True)
class Limits:
    """What is more is answered at once, in words, and harms nothing that is under way."""

    max_bytes: int = 1_000_000  # of a request's body: 413
    max_words: int = 1_000  # of a sentence: 413; the time for one grows with the square of its length
    queue: int = 256  # requests that wait for a model or are being parsed: 503
    queue_size: int = 20_000_000  # characters in these requests together: 503
    seconds: float = 60  # from when a request has been read to its answer: 504
    gather: float = 0.003  # seconds that a model waits for one more request to parse together with those it has

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value < 0 or (value == 0 and each.name != "gather"):
                raise TreefineError(f"{each.name} is {value}.", hint="Give a number above 0.")
