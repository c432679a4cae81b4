"""The limits of a server, and the errors that it reports to its clients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

from treefine.errors import TreefineError

_MOST_STEPS = 8  # with more steps, or trees counted as steps, the maximum length of a sentence is lower
_RANKING_STEPS, _TREE_STEPS = 10, 4  # finding the k best trees of a long sentence takes about 10 + 4 k steps
_PROJECTIVE_SHARE = 0.1  # of the length, for the k best projective trees: their time grows with its third power


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
    connections: int = 1_000  # beyond it, the connection that has been idle longest is closed
    gather: float = 0.003  # seconds to wait for another request that can join the batch

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value < 0 or (value == 0 and each.name != "gather"):
                raise TreefineError(f"{each.name} is {value}.", hint="Use a number above 0.")

    def words_with(self, *, steps: int, k: int, is_projective: bool = False) -> int:
        """Return the maximum length of a sentence that takes this many steps and trees.

        A shorter sentence may take more of them, because the time grows with the square of its length.

        >>> ServerLimits().words_with(steps=3, k=1), ServerLimits().words_with(steps=20, k=20)
        (1000, 269)
        """
        for_trees = _RANKING_STEPS + _TREE_STEPS * k if k > 1 else 0
        ratio = _MOST_STEPS / (steps + for_trees)
        share = math.sqrt(min(1, ratio))
        if is_projective and k > 1:
            share = min(share, _PROJECTIVE_SHARE)
        return max(1, int(self.max_words * share))


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
