"""Simulate a full disk: writing beyond a limit fails with a system error."""

import resource
from contextlib import contextmanager


@contextmanager
def full_disk(limit):
    """Limit the size of all files, in bytes, while the context lasts."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
