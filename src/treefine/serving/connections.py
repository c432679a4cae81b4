"""Limits on connections: their number, and the time that a client takes to send a request or to read a response."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from itertools import count
from time import monotonic
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from treefine.serving.limits import ServerLimits

MOST_FILES = 65_536  # open files and connections; more are never needed
_GRACE = 1  # seconds, so that the app can answer with an error before the connection is closed
_LOG_EVERY = 60  # seconds between two messages that connections cannot be accepted


def connection_class(limits: ServerLimits) -> type[asyncio.Protocol]:
    """Return uvicorn's class for HTTP connections with these limits added."""
    order = count()  # of the moments at which connections become idle

    class LimitedConnection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
        """A connection that is closed if the client is too slow, or if there are too many connections."""

        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._idle_since = next(order)
            self._start_timer()
            if len(self.connections) > limits.connections:
                idle = [each for each in self.connections if each.is_idle]  # at least this one
                oldest = min(idle, key=lambda each: each._idle_since)
                self.connections.discard(oldest)  # at once: more connections may follow in this turn of the loop
                oldest.transport.abort()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.is_idle or self.cycle.more_body:
                self._start_timer()
            else:
                self._stop_timer()

        def on_response_complete(self) -> None:
            self._idle_since = next(order)
            super().on_response_complete()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._start_timer()

        def resume_writing(self) -> None:
            super().resume_writing()
            self._stop_timer()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            super().connection_lost(exc)

        @property
        def is_idle(self) -> bool:
            """Whether no request with complete headers waits for its response."""
            return self.cycle is None or self.cycle.response_complete

        def _start_timer(self) -> None:
            """Close the connection after the time limit. Data does not restart a running timer."""
            if self._timer is None:
                self._timer = self.loop.call_later(limits.receive + _GRACE, self.transport.abort)

        def _stop_timer(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    return LimitedConnection


def raise_file_limit() -> int:
    """Raise the limit of open files of this process as far as allowed, and return it."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return MOST_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return most
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        return most
    return soft


class AcceptLogFilter(logging.Filter):
    """Log once a minute, without a traceback, that the process has too many open files to accept connections.

    asyncio logs it thousands of times per second.
    """

    def __init__(self) -> None:
        super().__init__()
        self._next = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log the record."""
        if "socket.accept() out of system resource" not in record.getMessage():
            return True
        if monotonic() < self._next:
            return False
        self._next = monotonic() + _LOG_EVERY
        record.msg, record.args = "Too many open files: new connections have to wait (see ulimit -n).", ()
        record.exc_info = record.exc_text = None
        return True
