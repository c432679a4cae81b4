"""A disk that is full: files cannot grow over a limit, and whoever writes on is told so by the system."""

import resource
from contextlib import contextmanager


@contextmanager
def full_disk(limit):
    """No file can have more bytes than this, as long as it lasts."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
