"""The limits of a server, and the errors that it reports to its clients."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial

from treefine.config import MOST_WORDS
from treefine.errors import TreefineError

_MOST_STEPS = 8  # for a sentence of the maximum length; with more steps or several trees, the maximum is lower
_LONG = 250  # words; here half of the time for a step grows with the square of the length
_RANKING_STEPS, _TREE_STEPS = 10, 4  # finding the k best trees takes as long as about 10 + 4 k steps
_LONG_PROJECTIVE = 50  # words; from here on, finding the k best projective trees takes longer than other trees
_SMALL_WORK = 6_000  # about a second on one core: always allowed


@dataclass(frozen=True)
class ServerLimits:
    """The limits of a server. A request beyond a limit gets an error at once; other requests are not affected."""

    max_bytes: int = 1_000_000  # in the body of a request: 413
    max_words: int = 1_000  # per sentence: 413; time grows with the square of the length; see `words_with`
    max_chars: int = 10_000  # per word: 413
    queue: int = 256  # requests per model that wait or are being parsed: 503
    queue_size: int = 20_000_000  # characters in all these requests: 503
    seconds: float = 60  # from the end of a request to its response: 504
    receive: float = 30  # seconds from the headers of a request to the end of its body: 408
    connections: int = 1_000  # beyond it, the one that has waited longest for its client is closed
    gather: float = 0.003  # seconds to wait for another request that can join the batch

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value < 0 or (value == 0 and each.name != "gather"):
                raise TreefineError(f"{each.name} is {value}.", hint="Use a number above 0.")

    def words_with(self, *, steps: int, k: int = 1, is_projective: bool = False) -> int:
        """Return the maximum length of a sentence with this many steps and trees.

        It is as much work as a sentence of `max_words` in 8 steps.

        >>> ServerLimits().words_with(steps=3), ServerLimits().words_with(steps=20, k=20)
        (1000, 201)
        """
        most = max(_SMALL_WORK, work_of(self.max_words, steps=_MOST_STEPS))
        lengths = range(1, self.max_words + 1)
        work = partial(work_of, steps=steps, k=k, is_projective=is_projective)
        return max(1, bisect_right(lengths, most, key=work))


def work_of(n_words: int, *, steps: int, k: int = 1, is_projective: bool = False) -> int:
    """Return the approximate work of a sentence. The unit is one word of a short sentence in one step.

    >>> work_of(10, steps=3), work_of(250, steps=3), work_of(250, steps=3, k=2), work_of(20_000, steps=1)
    (30, 1500, 10500, 180000)
    """
    at_once = min(n_words, MOST_WORDS)  # a longer sentence is parsed in parts
    step = n_words + n_words * at_once // _LONG
    if k == 1:
        return step * steps
    ranking = step + n_words * at_once**2 // _LONG_PROJECTIVE**2 if is_projective else step
    return step * steps + ranking * (_RANKING_STEPS + _TREE_STEPS * k)


class ServingError(TreefineError):
    """The server cannot answer this request, or not now."""

    status = 400


class UnknownModelError(ServingError):
    """No model of that name is loaded."""

    status = 404

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.models = tuple(known)
        super().__init__(f"Unknown model {name[:80]!r}.", hint=f"Choose {' or '.join(known)}.")


class TooSlowError(ServingError):
    """The client took too long to send the request."""

    status = 408


class TooLargeError(ServingError):
    """The request is larger than the server accepts."""

    status = 413


class BusyError(ServingError):
    """The queue is full."""

    status = 503

    def __init__(self, retry_after: int) -> None:
        self.retry_after = retry_after  # seconds
        super().__init__("The queue is full.", hint=f"Retry in {retry_after} s.")


class TooLateError(ServingError):
    """The request took longer than the server allows."""

    status = 504
