"""Connections of a real server: slow clients, too many clients, and the limit of open files."""

import asyncio
import threading
from contextlib import contextmanager, suppress

import pytest

from tests.support.tiny_app import running
from treefine.serving.gate import Gate, connection_class, raise_file_limit
from treefine.serving.limits import ServerLimits

REQUEST = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n0123456789"
LAST_REQUEST = REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@contextmanager
def server(app, monkeypatch, **limits):
    """Yield the port of a server with these limits on its connections."""
    monkeypatch.setattr("treefine.serving.gate._GRACE", 0)
    limits = ServerLimits(**limits)
    connection, app = connection_class(limits), Gate(app, limits=limits)
    with running(app, http=connection, ws="none", lifespan="off", timeout_graceful_shutdown=1) as address:
        yield int(address.rpartition(":")[2])


def answers_with(size, *, held=None):
    async def app(scope, receive, send):
        if held is not None and scope["method"] == "POST":
            await asyncio.to_thread(held.wait, 20)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % size)]})
        await send({"type": "http.response.body", "body": bytes(size)})

    return app


async def reply_to(port, *parts, pause=0.0):
    """Send parts of a request, and return all that the server sends until it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    received = b""
    with suppress(ConnectionError):
        for each in parts:
            writer.write(each)
            await writer.drain()
            await asyncio.sleep(pause)
        received = await reader.read()
    writer.close()
    return received


@pytest.mark.parametrize(
    "parts",
    [[], [b"POST / HT"], [REQUEST[:-10]], [REQUEST.replace(b"10", b"9999"), *[b"0"] * 900], [REQUEST, REQUEST[:-1]]],
    ids=["nothing", "part of a line", "no body", "byte after byte", "a second request"],
)
def test_a_connection_is_closed_if_its_request_does_not_arrive_in_time(parts, monkeypatch):
    with server(answers_with(2), monkeypatch, receive=0.1) as port:
        received = asyncio.run(asyncio.wait_for(reply_to(port, *parts, pause=0.02), 15))

    assert received.count(b"200 OK") <= (parts[:1] == [REQUEST])


def test_a_whole_request_may_wait_for_its_answer_longer_than_that(monkeypatch):
    held = threading.Event()
    threading.Timer(0.2, held.set).start()
    with server(answers_with(2, held=held), monkeypatch, receive=0.05) as port:
        answer = asyncio.run(asyncio.wait_for(reply_to(port, LAST_REQUEST), 20))

    assert b"200 OK" in answer


def test_a_client_that_does_not_read_its_answer_is_disconnected(monkeypatch):
    async def run(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)  # it reads 128 KiB ahead
        writer.write(GET)
        await asyncio.sleep(1)
        received = b""
        with suppress(ConnectionResetError):
            received = await reader.read()
        writer.close()
        return received

    with server(answers_with(20_000_000), monkeypatch, receive=0.1) as port:
        assert len(asyncio.run(asyncio.wait_for(run(port), 20))) < 20_000_000


def test_too_many_connections_close_those_that_have_waited_for_their_clients_longest(monkeypatch):
    held = threading.Event()

    async def run(port):
        busy = asyncio.ensure_future(reply_to(port, LAST_REQUEST))
        await asyncio.sleep(0.1)
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(12)]
        answer = await reply_to(port, GET)
        ends = [asyncio.ensure_future(reader.read()) for reader, _ in idle]
        await asyncio.wait(ends[:10], timeout=20)  # 12, one busy and one that asks, less the limit of 4
        are_closed = [each.done() for each in ends]
        held.set()
        answers = [answer, await busy]
        for _, writer in idle:
            writer.close()
        await asyncio.gather(*ends)
        return answers, are_closed

    with server(answers_with(2, held=held), monkeypatch, connections=4) as port:
        answers, are_closed = asyncio.run(asyncio.wait_for(run(port), 20))

    assert [b"200 OK" in each for each in answers] == [True, True]
    assert are_closed == [True] * 10 + [False] * 2


def test_the_limit_of_open_files_is_raised_to_the_hard_one(monkeypatch):
    resource = pytest.importorskip("resource")
    limit = [256, 4096]
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(limit))
    monkeypatch.setattr(resource, "setrlimit", lambda _, wanted: limit.__setitem__(slice(None), wanted))

    assert raise_file_limit() == 4096
    assert limit == [4096, 4096]
