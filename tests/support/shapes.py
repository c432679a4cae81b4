"""Limit the run-time checks of shapes in signatures, because a check takes longer than a layer of a tiny model."""

from functools import wraps

from beartype import beartype
from jaxtyping import config

_FIRST_CHECKS = 400  # per test; half as many calls, because arguments and results are checked separately
_left = _FIRST_CHECKS


def checked(function):
    """Let beartype check the calls of a function for jaxtyping, until the test has used up its checks."""
    check = beartype(function)

    @wraps(check)
    def counted(*arguments, **named):
        global _left
        _left -= 1
        if not _left:
            config.update("jaxtyping_disable", True)
        return check(*arguments, **named)

    return counted


def start_checks(*, all_calls):
    """Start a test; check all of its calls, or only the first ones."""
    global _left
    _left = -1 if all_calls else _FIRST_CHECKS
    config.update("jaxtyping_disable", False)
