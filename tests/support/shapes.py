"""How often the shapes in signatures are checked: a check takes longer than a layer of a tiny model."""

from functools import wraps

from beartype import beartype
from jaxtyping import config

_FIRST_CHECKS = 2000  # of a test; that is half as many calls, as arguments and results are checked apart
_left = _FIRST_CHECKS


def checked(function):
    """Let beartype check the calls of a function, as jaxtyping asks for it, until the test has had its checks."""
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
    """Begin a test, in which all calls are checked or only the first ones."""
    global _left
    _left = -1 if all_calls else _FIRST_CHECKS
    config.update("jaxtyping_disable", False)
