"""Connections: slow clients, too many clients, and the log when no connection can be accepted."""

import asyncio
import logging
from unittest.mock import MagicMock

import pytest
import uvicorn
from uvicorn.server import ServerState

from tests.support.tiny import tiny_parser
from tests.support.tiny_app import listening
from treefine.serving.connections import AcceptLogFilter, connection_class, raise_file_limit
from treefine.serving.limits import ServerLimits

HEAD = b"POST /v1/parse HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n"


class Clients:
    """Connections to an app that never answers, without a network. Its timers are called by hand."""

    def __init__(self, **limits):
        async def app(scope, receive, send):
            await asyncio.Event().wait()

        self.loop = MagicMock()
        self.loop.create_task = lambda coroutine, **_: coroutine.close() or MagicMock()
        self.loop.call_later = lambda _, action: MagicMock(run=action)
        limits = ServerLimits(**limits)
        self.config = uvicorn.Config(app, http=connection_class(limits), ws="none", log_config=None, lifespan="off")
        self.config.load()
        self.state = ServerState()

    def connect(self, *data):
        connection = self.config.http_protocol_class(self.config, self.state, {}, _loop=self.loop)
        transport = MagicMock()
        transport.get_extra_info.return_value = None
        transport.is_closing.return_value = False
        connection.connection_made(transport)
        for each in data:
            connection.data_received(each)
        return connection


@pytest.mark.parametrize(
    "data",
    [[], [b"POST /v1"], [HEAD], [HEAD + b"\r\n"], [HEAD + b"\r\n", b"{", b"}"]],
    ids=["nothing", "part of a line", "partial headers", "no body", "partial body"],
)
def test_a_connection_is_closed_if_its_request_does_not_arrive_in_time(data):
    connection = Clients().connect()
    timer = connection._timer
    for each in data:
        connection.data_received(each)

    assert connection._timer is timer  # single bytes do not extend the time
    timer.run()
    connection.transport.abort.assert_called_once()


def test_a_connection_whose_request_has_arrived_waits_for_the_answer():
    connection = Clients().connect()
    timer = connection._timer
    connection.data_received(HEAD + b"\r\n0123456789")

    timer.cancel.assert_called_once()
    assert connection._timer is None


def test_the_time_starts_again_with_the_next_request():
    connection = Clients().connect(HEAD + b"\r\n0123456789")
    connection.cycle.response_complete = True
    assert connection._timer is None

    connection.data_received(b"GET /he")

    assert connection._timer is not None


def test_a_client_that_does_not_read_its_answer_is_disconnected():
    connection = Clients().connect(HEAD + b"\r\n0123456789")
    connection.pause_writing()
    timer = connection._timer
    connection.resume_writing()
    assert connection._timer is None

    connection.pause_writing()
    assert connection._timer is not timer
    connection._timer.run()
    connection.transport.abort.assert_called_once()


def test_too_many_connections_close_the_one_that_has_been_idle_longest():
    clients = Clients(connections=3)
    busy = clients.connect(HEAD + b"\r\n0123456789")
    idle = [clients.connect() for _ in range(5)]

    assert [each.transport.abort.called for each in (busy, *idle)] == [False, True, True, True, False, False]
    for each in idle[-2:]:
        each.data_received(HEAD + b"\r\n0123456789")
    beyond = clients.connect()
    assert beyond.transport.abort.called  # all others wait for answers
    assert len(clients.state.connections) == 3


def test_idle_connections_do_not_stop_the_server_from_answering():
    async def run(port):
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(12)]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = await asyncio.wait_for(reader.read(), 20)
        for _, each in [*idle, (reader, writer)]:
            each.close()
        return answer

    limits = ServerLimits(connections=4)
    with listening({"tiny": tiny_parser()}, limits=limits) as address:
        assert b" 200 OK" in asyncio.run(run(int(address.rpartition(":")[2])))


def test_failing_to_accept_connections_is_logged_once_a_minute_without_a_traceback(monkeypatch):
    limiter, said = AcceptLogFilter(), []
    now = [1000.0]
    monkeypatch.setattr("treefine.serving.connections.monotonic", lambda: now[0])
    for seconds in (0, 1, 58, 2):
        now[0] += seconds
        message = "socket.accept() out of system resource\nsocket: <…>"
        record = logging.LogRecord("asyncio", logging.ERROR, "", 0, message, (), (OSError, OSError(24), None))
        if limiter.filter(record):
            said.append((record.getMessage(), record.exc_info))

    assert said == [("Too many open files: new connections have to wait (see ulimit -n).", None)] * 2
    assert limiter.filter(logging.LogRecord("asyncio", logging.ERROR, "", 0, "other", (), None))


def test_the_limit_of_open_files_is_raised_to_the_hard_one(monkeypatch):
    resource = pytest.importorskip("resource")
    limit = [256, 4096]
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(limit))
    monkeypatch.setattr(resource, "setrlimit", lambda _, wanted: limit.__setitem__(slice(None), wanted))

    assert raise_file_limit() == 4096
    assert limit == [4096, 4096]
    limit[:] = 256, 10**6
    assert raise_file_limit() == 65_536
