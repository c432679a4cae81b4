"""What the gate lets through: hosts, origins, bodies; clients that hang up, as an ASGI server reports it."""

import asyncio
import json
import threading

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from tests.support.tiny import tiny_parser
from treefine.serving import batching, udpipe_api
from treefine.serving.app import create_app
from treefine.serving.gate import Gate, add_error_handlers
from treefine.serving.limits import ServerLimits

BODY = json.dumps({"words": [["a", "dog"]], "format": "conllu"}).encode()
JSON, FORM = b"application/json", b"application/x-www-form-urlencoded"


def echo_app(**options):
    """Return an app that answers every request, behind a gate."""
    app = FastAPI()

    @app.api_route("/{path:path}", methods=["GET", "POST"])
    async def answer(path: str) -> str:
        return path

    add_error_handlers(app, hint="Reload the page.")
    app.add_middleware(Gate, limits=ServerLimits(max_bytes=20), **options)
    return app


@pytest.fixture(scope="module")
def client():
    with TestClient(echo_app()) as client:
        yield client


LINK = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
IMAGE = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
SCRIPT = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}  # of another port
OWN, OTHER = {"Origin": "http://192.0.2.1:8080"}, {"Origin": "https://a.example"}


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/process", {}, 200),
        # Browsers send Sec-Fetch-Site only to localhost and over HTTPS; elsewhere, Origin must be that of the host.
        ("POST", "/process", OWN, 200),
        ("POST", "/process", OTHER, 403),
        ("GET", "/process", OTHER, 403),
        ("POST", "/v1/parse", {"Origin": "http://192.0.2.1:8081"}, 403),
        ("POST", "/v1/parse", {"Origin": "null"}, 403),
        ("POST", "/v1/parse", {"Origin": "http://["}, 403),
        ("GET", "/process", {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}, 200),
        ("GET", "/process", IMAGE | {"Sec-Fetch-Site": "same-origin"}, 200),
        ("HEAD", "/process", IMAGE, 403),
        ("GET", "/process", LINK, 403),
        ("POST", "/process", LINK | OTHER, 403),  # a form
        ("POST", "/process", SCRIPT | OTHER, 403),
        ("GET", "/health", IMAGE, 403),
        ("GET", "/", LINK, 200),
        ("GET", "/", LINK | {"Sec-Fetch-Dest": "iframe"}, 403),
        ("POST", "/", LINK, 403),
    ],
)
def test_web_pages_of_other_origins_cannot_make_the_server_work(client, method, path, headers, status):
    answer = client.request(method, path, headers=headers | {"Host": "192.0.2.1:8080"})

    assert answer.status_code == status
    if status == 403 and method != "HEAD":
        assert "--allow-origin" in answer.json()["error"]["hint"]


def test_web_pages_of_allowed_origins_can_use_the_server_and_read_its_answers():
    own = {"Origin": "https://a.example"}
    one, every = (
        TestClient(create_app({"tiny": tiny_parser()}, origins=[each]), base_url="http://localhost")
        for each in ("https://a.example", "*")
    )

    answers = [one.get("/models", headers=each) for each in (own, SCRIPT | own, {"Origin": "https://b.example"}, IMAGE)]
    assert [each.status_code for each in answers] == [200, 200, 403, 403]
    allowed = [each.headers.get("access-control-allow-origin") for each in answers]
    assert allowed == ["https://a.example", "https://a.example", None, None]
    assert [every.get("/models", headers=each).status_code for each in (SCRIPT | OTHER, IMAGE)] == [200, 200]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:81", "[::1]:8080", "127.0.0.1", "192.0.2.1:80", "parser.lan"])
def test_requests_for_addresses_localhost_and_allowed_names_are_answered(host):
    client = TestClient(echo_app(hosts=["Parser.lan"]))

    assert client.get("/", headers={"Host": host}).status_code == 200


OTHER_HOSTS = ["evil.example", "localhost.evil.example:80", "", "[::1]evil", "localhost:80/", "*", "a:8x", "::1"]


@pytest.mark.parametrize("host", OTHER_HOSTS)
def test_requests_for_other_host_names_are_rejected_unless_all_are_allowed(client, host):
    answer = client.get("/", headers={"Host": host})

    assert answer.status_code == 400
    assert "--allowed-host" in answer.json()["error"]["hint"]
    if host == "evil.example":
        assert TestClient(echo_app(hosts=["*"])).get("/", headers={"Host": host}).status_code == 200


def test_a_body_that_is_too_large_is_rejected_with_and_without_a_content_length(client):
    answers = [
        client.post("/", content=content, headers={"Host": "localhost"})
        for content in (b"a" * 21, iter([b"a" * 15] * 2))
    ]

    assert [each.status_code for each in answers] == [413, 413]
    assert answers[0].json()["error"]["message"] == "The request is larger than 20 bytes."


# An app below an ASGI server


async def answer_to(app, path, content_type, *messages):
    """Send the messages of a client to the app, and return the start of the answer; without one, the status is None."""
    headers = [(b"host", b"localhost"), (b"content-type", content_type)]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}
    waiting, sent = iter(messages), []

    async def receive():
        return next(waiting, None) or await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    (start,) = [each for each in sent if each["type"] == "http.response.start"] or [{"status": None}]
    return start


async def status_of(*arguments):
    return (await answer_to(*arguments))["status"]


def part(body, *, has_more):
    return {"type": "http.request", "body": body, "more_body": has_more}


GONE = {"type": "http.disconnect"}


def test_a_client_that_disconnects_frees_its_place_in_the_queue_at_once(monkeypatch):
    parser, held = tiny_parser(), threading.Event()
    stream_trees = parser.stream_trees
    monkeypatch.setattr(
        parser, "stream_trees", lambda *given, **options: held.wait(20) and stream_trees(*given, **options)
    )
    app = create_app({"tiny": parser}, limits=ServerLimits(queue=1, gather=0))
    request = [app, "/v1/parse", JSON, part(BODY[:5], has_more=True), part(BODY[5:], has_more=False)]

    async def run():
        async with app.router.lifespan_context(app):
            first = await status_of(*request, GONE)
            held.set()
            return first, await status_of(*request)

    assert asyncio.run(run()) == (None, 200)
    metrics = app.state.models.find()._metrics.text()
    assert b'treefine_answers_total{route="/v1/parse",status="499"} 1.0' in metrics


def test_a_client_that_sends_too_slowly_gets_an_error():
    app = create_app({"tiny": tiny_parser()}, limits=ServerLimits(receive=0.01))

    answer = asyncio.run(answer_to(app, "/v1/parse", JSON, part(BODY[:5], has_more=True)))

    assert answer["status"] == 408
    assert (b"connection", b"close") in answer["headers"]


def test_a_client_that_disconnects_while_sending_gets_no_answer():
    app = create_app({"tiny": tiny_parser()})

    assert asyncio.run(status_of(app, "/process", FORM, part(b"data=a", has_more=True), GONE)) is None


def test_few_large_inputs_are_read_at_once_and_the_rest_wait(monkeypatch):
    monkeypatch.setattr(batching, "LARGE_REQUEST", 3)
    app = create_app({"tiny": tiny_parser()}, limits=ServerLimits(queue=4))
    held, reading, read_sentences = threading.Event(), [], udpipe_api.read_sentences
    monkeypatch.setattr(
        udpipe_api, "read_sentences", lambda *given: reading.append(given) or (held.wait(20) and read_sentences(*given))
    )
    request = [app, "/process", FORM, part(b"input=horizontal&data=a+dog", has_more=False)]

    async def run():
        async with app.router.lifespan_context(app):
            asking = [asyncio.ensure_future(status_of(*request)) for _ in range(4)]
            while len(reading) < 2:
                await asyncio.sleep(0.01)
            beyond = await status_of(*request)
            n_reading = len(reading)
            held.set()
            return beyond, n_reading, await asyncio.gather(*asking)

    assert asyncio.run(run()) == (503, 2, [200] * 4)
