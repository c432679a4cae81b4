"""Limits on connections: their number, and the time that a client takes to send a request or to read a response."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from itertools import count
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from treefine.serving.limits import ServerLimits

MOST_FILES = 65_536  # open files and connections; more are never needed
_GRACE = 1  # seconds, so that the app can answer with an error before the connection is closed


def connection_class(limits: ServerLimits) -> type[asyncio.Protocol]:
    """Return uvicorn's class for HTTP connections with these limits added, which uvicorn lacks."""
    order = count()  # of the moments at which connections start to wait for their clients

    class LimitedConnection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
        """A connection that is closed if the client is too slow, or if there are too many connections."""

        _receiving: asyncio.TimerHandle | None = None  # closes the connection if no whole request arrives
        _sending: asyncio.TimerHandle | None = None  # closes it if the client reads nothing of its answer
        _has_part = False  # part of a request has arrived

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._waits_since = next(order)
            self._receiving = self.loop.call_later(limits.receive + _GRACE, transport.abort)
            if len(self.connections) > limits.connections:
                waiting = [each for each in self.connections if each.waits_for_client]  # at least this one
                oldest = min(waiting, key=lambda each: each._waits_since)
                self.connections.discard(oldest)  # at once: more connections may follow in this turn of the loop
                oldest.transport.abort()

        def data_received(self, data: bytes) -> None:
            had_part = self._has_part
            super().data_received(data)
            self._has_part = self.waits_for_client
            if self._has_part and had_part:  # single bytes of a request do not extend its time
                return
            if self._receiving is not None:
                self._receiving.cancel()
            if self._has_part:
                self._receiving = self.loop.call_later(limits.receive + _GRACE, self.transport.abort)

        def on_response_complete(self) -> None:
            self._waits_since = next(order)
            super().on_response_complete()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._check_sending(math.inf)

        def resume_writing(self) -> None:
            super().resume_writing()
            if self._sending is not None:
                self._sending.cancel()

        def connection_lost(self, exc: Exception | None) -> None:
            for timer in (self._receiving, self._sending):
                if timer is not None:
                    timer.cancel()
            super().connection_lost(exc)

        @property
        def waits_for_client(self) -> bool:
            """Whether no whole request waits for its answer."""
            return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

        def _check_sending(self, n_before: float) -> None:
            """Close the connection if the client has read nothing since there were this many unread bytes."""
            n_unread = self.transport.get_write_buffer_size()
            if n_unread >= n_before:
                self.transport.abort()
            else:
                self._sending = self.loop.call_later(limits.receive, self._check_sending, n_unread)

    return LimitedConnection


def raise_file_limit() -> int:
    """Raise the limit of open files of this process as far as allowed, and return it."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return MOST_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft
