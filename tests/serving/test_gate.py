"""Clients that hang up, as an ASGI server tells it, and the protection of another app."""

import asyncio
import json
import subprocess
import sys
import threading

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from tests.support.tiny import tiny_parser
from treefine.serving import service as service_module
from treefine.serving import udpipe_api
from treefine.serving.app import create_app
from treefine.serving.gate import LOOPBACK, SAFE_HEADERS, Gate, add_error_handlers
from treefine.serving.limits import ServerLimits
from treefine.serving.static import static_routes

BODY = json.dumps({"words": [["a", "dog"]], "format": "conllu"}).encode()


async def statuses(app, path, content_type, *messages):
    """Send the messages of a client to the app, and return the statuses of the answer."""
    found = await answer_to(app, path, content_type, *messages)
    return [found["status"]] if found else []


async def answer_to(app, path, content_type, *messages, length=0, method="POST", query=b""):
    """Send the messages of a client to the app, and return the start of the answer, or None without an answer."""
    headers = [(b"host", b"localhost"), (b"content-type", content_type), (b"content-length", b"%d" % length)]
    scope = {"type": "http", "method": method, "path": path, "query_string": query, "headers": headers}
    waiting, sent = iter(messages), []

    async def receive():
        return next(waiting, None) or await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    (found,) = [each for each in sent if each["type"] == "http.response.start"] or [None]
    return found


def part(body, *, has_more):
    return {"type": "http.request", "body": body, "more_body": has_more}


def metrics(app):
    return app.state.served.find("")._metrics.text()


def test_a_client_that_disconnects_frees_its_place_in_the_queue_at_once(monkeypatch):
    parser = tiny_parser()
    held, whole = threading.Event(), parser.stream_trees
    monkeypatch.setattr(parser, "stream_trees", lambda *given, **options: held.wait(20) and whole(*given, **options))
    app = create_app({"tiny": parser}, limits=ServerLimits(queue=1, gather=0))
    asked = ["/v1/parse", b"application/json", part(BODY[:5], has_more=True), part(BODY[5:], has_more=False)]

    async def run():
        async with app.router.lifespan_context(app):
            first = await statuses(app, *asked, {"type": "http.disconnect"})
            held.set()
            return first, await statuses(app, *asked)

    assert asyncio.run(run()) == ([], [200])
    assert b'status="499"' in metrics(app)


@pytest.mark.parametrize(
    ("length", "status"), [(len(BODY), 408), (2_000_000, 413)], ids=["partial body", "announced but not sent"]
)
def test_a_client_that_sends_too_slowly_gets_an_error(length, status):
    app = create_app({"tiny": tiny_parser()}, limits=ServerLimits(receive=0.01))
    sent = [part(BODY[:5], has_more=True)]

    found = asyncio.run(answer_to(app, "/v1/parse", b"application/json", *sent, length=length))

    assert found["status"] == status
    assert (b"connection", b"close") in found["headers"]


def test_a_request_that_was_received_may_take_longer_than_receiving(monkeypatch):
    parser = tiny_parser()
    held, whole = threading.Event(), parser.stream_trees
    monkeypatch.setattr(parser, "stream_trees", lambda *given, **options: held.wait(20) and whole(*given, **options))
    app = create_app({"tiny": parser}, limits=ServerLimits(receive=0.01, gather=0))

    async def run():
        async with app.router.lifespan_context(app):
            asking = asyncio.ensure_future(statuses(app, "/v1/parse", b"application/json", part(BODY, has_more=False)))
            await asyncio.sleep(0.05)
            held.set()
            return await asking

    assert asyncio.run(run()) == [200]


@pytest.mark.parametrize("hangs_up", [False, True], ids=["waits", "disconnects"])
def test_a_request_without_a_body_may_wait_until_its_client_disconnects(monkeypatch, hangs_up):
    parser = tiny_parser()
    held, whole = threading.Event(), parser.stream_trees
    monkeypatch.setattr(parser, "stream_trees", lambda *given, **options: held.wait(20) and whole(*given, **options))
    app = create_app({"tiny": parser}, limits=ServerLimits(receive=0.01, gather=0))
    asked = {"method": "GET", "query": b"input=horizontal&parser&data=a%20dog"}
    messages = [part(b"", has_more=False), *[{"type": "http.disconnect"}] * hangs_up]

    async def run():
        async with app.router.lifespan_context(app):
            asking = asyncio.ensure_future(answer_to(app, "/process", b"", *messages, **asked))
            await asyncio.sleep(0.05)
            if hangs_up:
                await asyncio.wait_for(asyncio.shield(asking), 10)
            held.set()
            return await asking

    found = asyncio.run(run())
    assert found is None if hangs_up else found["status"] == 200


def test_few_large_inputs_are_read_at_once_and_the_rest_wait_within_the_time_limit(monkeypatch):
    monkeypatch.setattr(service_module, "LARGE_REQUEST", 3)
    app = create_app({"tiny": tiny_parser()}, limits=ServerLimits(queue=4))
    held, reading, whole = threading.Event(), [], udpipe_api.read_sentences
    monkeypatch.setattr(
        udpipe_api, "read_sentences", lambda *given: reading.append(given) or (held.wait(20) and whole(*given))
    )
    asked = ["/process", b"application/x-www-form-urlencoded", part(b"input=horizontal&data=a+dog", has_more=False)]

    async def run():
        asking = [asyncio.ensure_future(statuses(app, *asked)) for _ in range(4)]
        while len(reading) < 2:
            await asyncio.sleep(0.01)
        beyond = await statuses(app, *asked)
        n_reading = len(reading)
        held.set()
        return beyond, n_reading, await asyncio.gather(*asking)

    assert asyncio.run(run()) == ([503], 2, [[200]] * 4)


def test_reading_a_large_input_ends_with_the_time_limit(monkeypatch):
    monkeypatch.setattr(service_module, "LARGE_REQUEST", 3)
    app = create_app({"tiny": tiny_parser()}, limits=ServerLimits(seconds=0.05))
    held = threading.Event()
    monkeypatch.setattr(udpipe_api, "read_sentences", lambda *_: held.wait(20))
    asked = ["/process", b"application/x-www-form-urlencoded", part(b"input=horizontal&data=a+dog", has_more=False)]

    async def run():
        return await asyncio.gather(*(statuses(app, *asked) for _ in range(3)))

    assert asyncio.run(run()) == [[504]] * 3
    held.set()


def test_a_client_that_disconnects_while_sending_causes_no_internal_error():
    app = create_app({"tiny": tiny_parser()})
    sent = [part(b"data=a", has_more=True), {"type": "http.disconnect"}]

    asyncio.run(statuses(app, "/process", b"application/x-www-form-urlencoded", *sent))

    assert b'treefine_answers_total{route="/process",status="499"} 1.0' in metrics(app)


def test_the_gate_and_static_files_do_not_import_torch():
    modules = "treefine.serving.gate, treefine.serving.limits, treefine.serving.static"

    done = subprocess.run([sys.executable, "-c", f"import sys, {modules}; sys.exit('torch' in sys.modules)"])

    assert done.returncode == 0


def test_another_app_has_the_same_protection_without_metrics_and_serves_its_own_files(tmp_path):
    app = FastAPI()
    (tmp_path / "index.html").write_text("<p>é</p>", encoding="utf-8")
    (tmp_path / "own.js").write_text("export {};")
    (tmp_path / "notes.txt").write_text("private")
    app.include_router(static_routes(tmp_path, prefix="/own", index="/start", before={"own.js": "// first\n"}))

    @app.post("/save")
    async def save(words: list[str]) -> int:
        return len(words)

    add_error_handlers(app, hint="Reload the page.")
    app.add_middleware(Gate, limits=ServerLimits(max_bytes=20), hosts=frozenset(LOOPBACK), origins=frozenset())
    json_body = {"content-type": "application/json"}

    with TestClient(app, base_url="http://localhost") as client:
        page, script, unlisted = (client.get(path) for path in ("/start", "/own/own.js", "/own/notes.txt"))
        saved, invalid = client.post("/save", json=["a"]), client.post("/save", json={})
        chunks = client.post("/save", content=iter([b"[" * 15] * 2), headers=json_body)  # no Content-Length
        other_host = client.get("/start", headers={"host": "evil.example"})
        other_site = client.post("/save", json=[], headers={"sec-fetch-site": "cross-site"})

    assert (page.text, script.text) == ("<p>é</p>", "// first\nexport {};")
    assert {name: page.headers[name] for name in SAFE_HEADERS} == SAFE_HEADERS
    assert (unlisted.status_code, saved.json()) == (404, 1)
    assert (invalid.status_code, invalid.json()["error"]["hint"]) == (422, "Reload the page.")
    assert (chunks.status_code, chunks.json()["error"]["message"]) == (413, "The request is larger than 20 bytes.")
    assert (other_host.status_code, other_site.status_code) == (400, 403)
