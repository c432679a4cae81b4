"""What a server answers when it cannot do what it was asked for, each with its HTTP status.

TreefineError (400)
└── ServingError
    ├── UnknownModelError   404, with the names of those there are
    ├── TooLargeError       413
    ├── BusyError           503, with when to come again
    └── TooLateError        504
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treefine.errors import TreefineError


class ServingError(TreefineError):
    """The request may be right, but this server does not do it, or not now."""

    status = 400


class UnknownModelError(ServingError):
    """No model of that name is loaded."""

    status = 404

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.models = tuple(known)
        super().__init__(f"There is no model {name[:80]!r} here.", hint=f"Choose {' or '.join(known)}.")


class TooLargeError(ServingError):
    """More than the server takes at once."""

    status = 413


class BusyError(ServingError):
    """The queue is full."""

    status = 503

    def __init__(self, retry_after: int) -> None:
        self.retry_after = retry_after  # seconds
        super().__init__("The queue is full.", hint=f"Ask again in {retry_after} s.")


class TooLateError(ServingError):
    """It took longer than the server lets a request take."""

    status = 504


def status_of(error: TreefineError) -> int:
    """The HTTP status that an error is answered with."""
    return error.status if isinstance(error, ServingError) else 400


def error_json(error: TreefineError) -> dict[str, Any]:
    """The error as a client gets it: what is wrong, where, and what to do, as far as that is known."""
    told: dict[str, Any] = {"status": status_of(error), "message": error.message, "hint": error.hint or None}
    told |= {"line": error.line, "sent_id": error.sent_id or None, "sentence": error.sentence}
    told |= {"word": error.word or None}
    if isinstance(error, UnknownModelError):
        told["models"] = list(error.models)
    return {"error": {name: value for name, value in told.items() if value is not None}}
