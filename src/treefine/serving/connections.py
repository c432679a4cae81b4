"""Limits on connections: their number, and the time that a client takes to send a request or to read a response."""

from __future__ import annotations

import asyncio
import logging
import math
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
    order = count()  # of the moments at which connections start to wait for their clients

    class LimitedConnection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
        """A connection that is closed if the client is too slow, or if there are too many connections."""

        _receiving: asyncio.TimerHandle | None = None  # closes the connection if no whole request arrives
        _sending: asyncio.TimerHandle | None = None  # checks whether the client reads its answer
        _has_part = False  # part of a request has arrived
        _n_unread: float = 0  # bytes in the write buffer at the last check

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._waits_since = next(order)
            self._start_receiving()
            if len(self.connections) > limits.connections:
                waiting = [each for each in self.connections if each.waits_for_client]  # at least this one
                oldest = min(waiting, key=lambda each: each._waits_since)
                self.connections.discard(oldest)  # at once: more connections may follow in this turn of the loop
                oldest.transport.abort()

        def data_received(self, data: bytes) -> None:
            if not self._has_part:  # the time of a request starts with its first byte
                self._stop_receiving()
            super().data_received(data)
            self._has_part = self.waits_for_client
            if self._has_part:
                self._start_receiving()
            else:
                self._stop_receiving()

        def on_response_complete(self) -> None:
            self._waits_since = next(order)
            super().on_response_complete()

        def pause_writing(self) -> None:
            super().pause_writing()
            if self._sending is None:
                self._n_unread = self.transport.get_write_buffer_size()
                self._sending = self.loop.call_later(limits.receive, self._check_sending)

        def resume_writing(self) -> None:
            super().resume_writing()
            self._n_unread = math.inf  # the client has read something, whatever is written until the next check

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_receiving()
            if self._sending is not None:
                self._sending.cancel()
            super().connection_lost(exc)

        @property
        def waits_for_client(self) -> bool:
            """Whether no whole request waits for its answer."""
            return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

        def _start_receiving(self) -> None:
            """Close the connection after the time limit. Data does not restart a running timer."""
            if self._receiving is None:
                self._receiving = self.loop.call_later(limits.receive + _GRACE, self.transport.abort)

        def _stop_receiving(self) -> None:
            if self._receiving is not None:
                self._receiving.cancel()
                self._receiving = None

        def _check_sending(self) -> None:
            """Close the connection if the client has read nothing since the last check."""
            n_before, self._n_unread = self._n_unread, self.transport.get_write_buffer_size()
            self._sending = None
            if self._n_unread >= n_before:
                self.transport.abort()
            elif self._n_unread:
                self._sending = self.loop.call_later(limits.receive, self._check_sending)

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
