"""Connections: slow clients, too many clients, and the log when no connection can be accepted."""

import asyncio
import logging
from contextlib import suppress
from unittest.mock import MagicMock

import pytest
import uvicorn
from uvicorn.server import ServerState

from tests.support.tiny import tiny_parser
from tests.support.tiny_app import listening
from treefine.serving.connections import AcceptLogFilter, connection_class, raise_file_limit
from treefine.serving.limits import ServerLimits

HEAD = b"POST /v1/parse HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n"


RECEIVE = 30  # seconds, the default
WHOLE = HEAD + b"\r\n0123456789"


class Clients:
    """Connections to an app that never answers, without a network. Its timers are called by hand."""

    def __init__(self, **limits):
        async def app(scope, receive, send):
            await asyncio.Event().wait()

        self.loop = MagicMock()
        self.loop.create_task = lambda coroutine, **_: coroutine.close() or MagicMock()
        self.loop.call_later = self.call_later
        self.timers = []
        self.config = config_of(app, **limits)
        self.state = ServerState()

    def call_later(self, delay, action):
        timer = MagicMock(delay=delay, run=lambda: self.timers.remove(timer) or action())
        timer.cancel = lambda: self.timers.remove(timer)
        self.timers.append(timer)
        return timer

    def connect(self, *data):
        connection = self.config.http_protocol_class(self.config, self.state, {}, _loop=self.loop)
        transport = MagicMock()
        transport.get_extra_info.return_value = None
        transport.get_write_buffer_size.return_value = 0
        transport.is_closing.return_value = False
        connection.connection_made(transport)
        for each in data:
            connection.data_received(each)
        return connection


def config_of(app, **limits):
    """Return the settings of a server with these limits."""
    connection = connection_class(ServerLimits(**limits))
    config = uvicorn.Config(app, http=connection, ws="none", log_config=None, lifespan="off")
    config.load()
    return config


def unread(connection, size):
    """Let the answer to a connection fill the write buffer."""
    connection.transport.get_write_buffer_size.return_value = size
    connection.pause_writing()


@pytest.mark.parametrize(
    "data",
    [[], [b"POST /v1"], [HEAD], [HEAD + b"\r\n"], [HEAD + b"\r\n", b"{", b"}"]],
    ids=["nothing", "part of a line", "partial headers", "no body", "partial body"],
)
def test_a_connection_is_closed_if_its_request_does_not_arrive_in_time(data):
    clients = Clients()
    connection = clients.connect(*data[:1])
    (timer,) = clients.timers
    for each in data[1:]:
        connection.data_received(each)

    assert clients.timers == [timer]  # single bytes do not extend the time
    assert RECEIVE < timer.delay < RECEIVE + 5  # the app has answered before
    timer.run()
    connection.transport.abort.assert_called_once()


def test_the_time_for_a_request_starts_with_its_first_byte():
    clients = Clients()
    connection = clients.connect()
    (unused,) = clients.timers

    connection.data_received(b"POST")

    (timer,) = clients.timers
    assert timer is not unused


def test_a_connection_whose_request_has_arrived_waits_for_the_answer():
    clients = Clients()
    clients.connect(HEAD, b"\r\n0123456789")

    assert clients.timers == []


def test_the_time_starts_again_with_the_next_request():
    clients = Clients()
    connection = clients.connect(WHOLE)
    connection.cycle.response_complete = True
    assert clients.timers == []

    connection.data_received(b"GET /he")

    assert len(clients.timers) == 1


def test_a_client_that_reads_nothing_of_its_answer_is_disconnected():
    clients = Clients()
    connection = clients.connect(WHOLE)
    unread(connection, 20_000_000)
    connection.data_received(WHOLE)  # the next request does not help

    (timer,) = clients.timers
    assert timer.delay == RECEIVE
    timer.run()
    connection.transport.abort.assert_called_once()
    assert clients.timers == []


def test_a_client_may_read_its_answer_slowly():
    clients = Clients()
    connection = clients.connect(WHOLE)
    unread(connection, 300_000)
    for size in (299_000, 200_000, 70_000):
        connection.transport.get_write_buffer_size.return_value = size
        clients.timers[0].run()
        assert len(clients.timers) == 1
    connection.resume_writing()
    unread(connection, 100_000)  # the rest of the answer: more than at the last check
    clients.timers[0].run()
    connection.transport.get_write_buffer_size.return_value = 0
    clients.timers[0].run()

    connection.transport.abort.assert_not_called()
    assert clients.timers == []


def test_reading_an_answer_does_not_extend_the_time_for_the_next_request():
    clients = Clients()
    connection = clients.connect(WHOLE)
    unread(connection, 300_000)
    connection.cycle.response_complete = True
    connection.data_received(b"GET /he")
    connection.transport.get_write_buffer_size.return_value = 0
    connection.resume_writing()

    for timer in list(clients.timers):
        timer.run()
    connection.transport.abort.assert_called_once()


def test_a_real_client_that_does_not_read_is_disconnected():
    async def answer(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"20000000")]})
        await send({"type": "http.response.body", "body": bytes(20_000_000)})

    async def run():
        config, state = config_of(answer, receive=0.1), ServerState()
        connections = state.connections
        server = await asyncio.get_running_loop().create_server(
            lambda: config.http_protocol_class(config, state, {}), "127.0.0.1", 0
        )
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())  # it reads 128 KiB ahead
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        try:
            while not any(each.flow.write_paused for each in connections):
                await asyncio.sleep(0.01)
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            while connections:
                await asyncio.sleep(0.01)
            with suppress(ConnectionResetError):
                assert len(await reader.read()) < 20_000_000
        finally:
            for each in connections:  # otherwise a failing test would hang
                each.transport.abort()
            writer.close()
            server.close()

    asyncio.run(asyncio.wait_for(run(), 20))


def test_too_many_connections_close_the_one_that_has_waited_for_its_client_longest():
    clients = Clients(connections=3)
    busy = clients.connect(WHOLE)
    idle = [clients.connect() for _ in range(5)]

    assert [each.transport.abort.called for each in (busy, *idle)] == [False, True, True, True, False, False]
    for each in idle[-2:]:
        each.data_received(WHOLE)
    beyond = clients.connect()
    assert beyond.transport.abort.called  # all others wait for answers
    assert len(clients.state.connections) == 3


def test_clients_that_announce_a_body_but_send_none_do_not_keep_others_out():
    clients = Clients(connections=3)
    silent = [clients.connect(HEAD + b"\r\n") for _ in range(3)]
    new = clients.connect()

    assert [each.transport.abort.called for each in (*silent, new)] == [True, False, False, False]


def test_connections_beyond_the_limit_are_closed_and_the_server_answers():
    async def run(port):
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(12)]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = await asyncio.wait_for(reader.read(), 20)
        ends = [asyncio.ensure_future(each.read()) for each, _ in idle]
        await asyncio.gather(*ends[:9])  # 12 and 1, less the limit of 4
        are_closed = [each.done() for each in ends]
        for _, each in [*idle, (reader, writer)]:
            each.close()
        return answer, are_closed

    limits = ServerLimits(connections=4)
    with listening({"tiny": tiny_parser()}, limits=limits) as address:
        answer, are_closed = asyncio.run(asyncio.wait_for(run(int(address.rpartition(":")[2])), 20))

    assert b" 200 OK" in answer
    assert are_closed == [True] * 9 + [False] * 3


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
