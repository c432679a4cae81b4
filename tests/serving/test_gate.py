"""Clients that hang up, as an ASGI server tells it."""

import asyncio
import json
import threading

from tests.support.tiny import tiny_parser
from treefine.serving.app import create_app
from treefine.serving.service import ServerLimits

BODY = json.dumps({"words": [["a", "dog"]], "format": "conllu"}).encode()


async def statuses(app, path, content_type, *messages):
    """Send the messages of a client to the app, and return the statuses of the answer."""
    headers = [(b"host", b"localhost"), (b"content-type", content_type)]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}
    waiting, sent = iter(messages), []

    async def receive():
        return next(waiting, None) or await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    return [each["status"] for each in sent if each["type"] == "http.response.start"]


def part(body, *, has_more):
    return {"type": "http.request", "body": body, "more_body": has_more}


def metrics(app):
    return app.state.served.find("")._metrics.text()


def test_a_client_that_disconnects_frees_its_place_in_the_queue_at_once(monkeypatch):
    parser = tiny_parser()
    held, whole = threading.Event(), parser.stream
    monkeypatch.setattr(parser, "stream", lambda *given, **options: held.wait(20) and whole(*given, **options))
    app = create_app({"tiny": parser}, limits=ServerLimits(queue=1, gather=0))
    asked = ["/v1/parse", b"application/json", part(BODY[:5], has_more=True), part(BODY[5:], has_more=False)]

    async def run():
        async with app.router.lifespan_context(app):
            first = await statuses(app, *asked, {"type": "http.disconnect"})
            held.set()
            return first, await statuses(app, *asked)

    assert asyncio.run(run()) == ([], [200])
    assert b'status="499"' in metrics(app)


def test_a_client_that_disconnects_while_sending_causes_no_internal_error():
    app = create_app({"tiny": tiny_parser()})
    sent = [part(b"data=a", has_more=True), {"type": "http.disconnect"}]

    asyncio.run(statuses(app, "/process", b"application/x-www-form-urlencoded", *sent))

    assert b'treefine_answers_total{route="/process",status="499"} 1.0' in metrics(app)
