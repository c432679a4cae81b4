"""Clients that hang up, as an ASGI server tells it."""

import asyncio
import json
import threading

from tests.support.tiny import tiny_parser
from treefine.serving.app import create_app
from treefine.serving.middleware import ServerLimits

BODY = json.dumps({"words": [["a", "dog"]], "format": "conllu"}).encode()
SCOPE = {
    "type": "http",
    "asgi": {"version": "3.0"},
    "http_version": "1.1",
    "method": "POST",
    "path": "/v1/parse",
    "raw_path": b"/v1/parse",
    "root_path": "",
    "query_string": b"",
    "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
}


def test_a_client_that_hangs_up_leaves_its_place_in_the_queue_at_once(monkeypatch):
    parser = tiny_parser()
    held, whole = threading.Event(), parser.stream
    monkeypatch.setattr(parser, "stream", lambda *given, **options: held.wait(20) and whole(*given, **options))
    app = create_app({"tiny": parser}, limits=ServerLimits(queue=1, gather=0))

    async def ask(*, hangs_up):
        parts = iter(
            [{"type": "http.request", "body": BODY[:5], "more_body": True}, {"type": "http.request", "body": BODY[5:]}]
        )
        sent = []

        async def receive():
            message = next(parts, None)
            if message is None and hangs_up:
                return {"type": "http.disconnect"}
            return message or await asyncio.Event().wait()

        async def send(message):
            sent.append(message)

        await app(dict(SCOPE), receive, send)
        return [each["status"] for each in sent if each["type"] == "http.response.start"]

    async def run():
        async with app.router.lifespan_context(app):
            first = await ask(hangs_up=True)
            held.set()
            return first, await ask(hangs_up=False)

    assert asyncio.run(run()) == ([], [200])
    assert b'status="499"' in b"".join(_metrics(app))


def _metrics(app):
    return [app.state.served.find("")._metrics.text()]


def test_a_client_that_hangs_up_within_its_body_is_no_failure_of_ours():
    app = create_app({"tiny": tiny_parser()})
    headers = [(b"host", b"localhost"), (b"content-type", b"application/x-www-form-urlencoded")]
    parts = iter([{"type": "http.request", "body": b"data=a", "more_body": True}, {"type": "http.disconnect"}])

    async def receive():
        return next(parts)

    async def send(_):
        pass

    asyncio.run(app(SCOPE | {"path": "/process", "raw_path": b"/process", "headers": headers}, receive, send))

    assert b'treefine_answers_total{route="/process",status="499"} 1.0' in app.state.served.find("")._metrics.text()
