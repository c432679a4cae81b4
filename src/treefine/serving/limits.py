"""The limits of a server, and the errors that it reports to its clients. This module does not import torch."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from treefine.config import MOST_WORDS
from treefine.errors import TreefineError

_MOST_STEPS = 8  # for a sentence of the maximum length; with more steps or several trees, the maximum is lower
_SMALL_WORK = 6_000  # about a second on one core: always allowed


def _limit(default: float, description: str, usage: str) -> Any:
    least = 0.1 if usage.endswith("SECONDS") else 1
    return field(default=default, metadata={"usage": usage, "description": description, "min": least})


@dataclass(frozen=True)
class ServerLimits:
    """The limits of a server. A request beyond a limit gets an error at once; other requests are not affected."""

    max_bytes: int = _limit(1_000_000, "Maximum size of a request body, in bytes.", "--max-bytes N")
    max_words: int = _limit(
        1_000, "Maximum length of a sentence, in words; less with many steps or trees.", "--max-words N"
    )
    max_chars: int = _limit(10_000, "Maximum length of a word, in characters.", "--max-chars N")
    queue: int = _limit(256, "Maximum number of requests waiting for a model.", "--queue N")
    queue_size: int = 20_000_000  # maximum number of characters in all these requests
    seconds: float = _limit(60, "Time limit of a request, in seconds.", "--seconds SECONDS")
    receive: float = _limit(30, "Time limit for sending a request, in seconds.", "--receive-seconds SECONDS")
    connections: int = _limit(1_000, "Maximum open connections; the one idle longest is closed.", "--connections N")
    gather: float = 0.003  # seconds to wait for another request that can join a batch

    def max_sentence_words(self, work: Callable[[int], int]) -> int:
        """Return the length of a sentence that is as much work as one of `max_words` in 8 steps, but not longer."""
        most = max(_SMALL_WORK, work_of(self.max_words, steps=_MOST_STEPS))
        return max(1, bisect_right(range(1, self.max_words + 1), most, key=work))


def work_of(n_words: int, *, steps: int, k: int = 1, is_projective: bool = False) -> int:
    """Return the approximate work of a sentence. The unit is one word of a short sentence in one step.

    >>> work_of(10, steps=3), work_of(250, steps=3), work_of(250, steps=3, k=2), work_of(20_000, steps=1)
    (30, 1500, 10500, 180000)
    """
    at_once = min(n_words, MOST_WORDS)  # a longer sentence is parsed in parts
    step = n_words + n_words * at_once // 250  # at 250 words, half of the time grows with the square of the length
    if k == 1:
        return step * steps
    # From 50 words on, finding the k best projective trees takes longer than other trees.
    ranking = step + n_words * at_once**2 // 2_500 if is_projective else step
    return step * steps + ranking * (10 + 4 * k)


class ServingError(TreefineError):
    """The server cannot answer this request, or not now; `status` is that of the HTTP response.

    The client could have named one of the `models`, or can ask again after `retry_after` seconds.
    """

    status = 400

    def __init__(
        self, message: str, *, hint: str = "", status: int = 0, models: Sequence[str] = (), retry_after: int = 0
    ) -> None:
        super().__init__(message, hint=hint)
        self.status, self.models, self.retry_after = status or self.status, [*models], retry_after
