"""Generate requests for every route of the server, send them to the app in this process, and check the answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any
from urllib.parse import quote, urlencode

from benchmarks.fuzz import generate
from benchmarks.fuzz.commands import Fault, Models, letters_of, words_in
from treefine.serving.app import create_app

JSON, FORM, MULTIPART = b"application/json", b"application/x-www-form-urlencoded", b"multipart/form-data; boundary=b"
OTHER_METHODS = ("HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "x")
STATUSES = {200, 307, 400, 403, 404, 405, 408, 411, 413, 415, 422, 429, 431, 503, 504}
HEADERS = (
    (b"sec-fetch-site", b"cross-site"),
    (b"origin", b"https://example.org"),
    (b"accept-encoding", b"gzip;q=x"),
    (b"content-length", b"99999999999999999999"),
    (b"content-length", b"-1"),
    (b"expect", b"100-continue"),
    (b"x-odd", b"\xff\x00"),
    (b"host", b"[::1]evil"),
    (b"cookie", b"\xc3"),
)


@dataclass(frozen=True)
class Sent:
    """A request; the answer must have these words, and the letters of this text, unless they are None."""

    method: str
    path: str
    headers: tuple[tuple[bytes, bytes], ...] = ()
    query: bytes = b""
    body: bytes = b""
    words: list[list[str]] | None = None
    text: str | None = None


@dataclass(frozen=True)
class Answer:
    """An answer of the app."""

    status: int
    kind: bytes  # Content-Type
    body: bytes


class Server:
    """An app with tiny models, which runs in an event loop of its own."""

    def __init__(self, models: Models) -> None:
        self.app = create_app(models.parsers)
        self._loop = asyncio.new_event_loop()
        self._lifespan = self.app.router.lifespan_context(self.app)
        self.routes = sorted({*routes_of(self.app.routes)})

    def start(self) -> None:
        """Start the threads of the models; they end with the process."""
        self._loop.run_until_complete(self._lifespan.__aenter__())

    def stop(self) -> None:
        """Stop these threads."""
        self._loop.run_until_complete(self._lifespan.__aexit__(None, None, None))
        self._loop.close()

    def ask(self, sent: Sent) -> Answer:
        """Send a request and return the answer."""
        return self._loop.run_until_complete(self._answer(sent))

    async def _answer(self, sent: Sent) -> Answer:
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": sent.method,
            "scheme": "http",
            "path": sent.path,
            "raw_path": quote(sent.path).encode(),
            "query_string": sent.query,
            "root_path": "",
            "headers": list(sent.headers),
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        parts, start, body = [sent.body[:50], sent.body[50:]], dict[str, Any](), list[bytes]()

        async def receive() -> dict[str, Any]:
            if not parts:
                await asyncio.sleep(3600)
            return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            else:
                body.append(message.get("body", b""))

        await self.app(scope, receive, send)  # type: ignore[arg-type]
        return Answer(start["status"], dict(start["headers"]).get(b"content-type", b""), b"".join(body))


def routes_of(routes: Any) -> Iterator[str]:
    """Yield each method and path of an app, such as POST /v1/parse."""
    for route in routes:
        if hasattr(route, "original_router"):  # how newer versions of FastAPI include a router
            yield from routes_of(route.original_router.routes)
        else:
            yield from (f"{method} {route.path}" for method in (getattr(route, "methods", None) or ("GET",)))


def request_for(rng: Random, route: str) -> Sent:
    """Return a random request for a route, such as POST /v1/parse."""
    method, _, path = route.partition(" ")
    if rng.random() < 0.02:
        method = rng.choice(OTHER_METHODS)
    if rng.random() < 0.02:
        path += rng.choice(("/", "/x", "%00", "/../v1/parse", "\u00e9"))
    kind, query, body, words, text = JSON, b"", b"", None, None
    if path.endswith("/process"):
        form = urlencode(_udpipe(rng), errors="surrogatepass").encode()
        kind, query, body = (FORM, b"", form) if method == "POST" else (b"", form, b"")
        if method == "POST" and rng.random() < 0.2:
            kind, body = MULTIPART, _multipart(rng, _udpipe(rng))
    elif path.startswith("/v1/") and method == "POST":
        values = _json(rng, path)
        body, text, words = json.dumps(values).encode(), values.get("text"), values.get("words")
        words = words_in(values["conllu"].encode()) if "conllu" in values else words
        if rng.random() < 0.2:
            body, words, text = rng.choice((generate.json_damaged, generate.damaged))(rng, body), None, None
    elif rng.random() < 0.3:
        query, body = generate.text(rng).encode("utf-8", "replace"), generate.text_bytes(rng)
    if rng.random() < 0.05:
        kind = rng.choice((JSON, FORM, b"multipart/form-data", b"text/plain", b"", b"\xff"))
    if rng.random() < 0.03:
        body, words, text = _extreme(rng), None, None
    headers = [(b"host", b"localhost"), (b"content-type", kind), (b"content-length", str(len(body)).encode())]
    if rng.random() < 0.05:
        headers.append(rng.choice(HEADERS))
    return Sent(method, path, tuple(headers), query, body, words, text)


def _extreme(rng: Random) -> bytes:
    return rng.choice(
        (
            b"[" * 50_000,
            b'{"text":' * 5_000,
            b'{"text": "a", "k": 1e999}',
            b'{"text": 1' + b"0" * 5000,
            b'{"text": "\\ud800"}',
            json.dumps({"text": "a" * rng.choice((9_999, 10_001, 1_000_001))}).encode(),
            json.dumps({"words": [["word"] * rng.choice((999, 1001))], "k": rng.randint(1, 4)}).encode(),
            json.dumps({"text": "a\n\n" * rng.choice((10, 3000))}).encode(),
            rng.randbytes(rng.randint(0, 200)),
        )
    )


def _conllu(rng: Random) -> str:
    data = generate.treebank(rng)
    return (data if rng.random() < 0.7 else generate.damaged(rng, data)).decode("utf-8", "replace")


def _json(rng: Random, path: str) -> dict[str, Any]:
    """Return the values of a request, valid or nearly so."""
    values: dict[str, Any] = {}
    kind = "conllu" if path.endswith("refine") else rng.choice(("text", "words", "conllu"))
    if kind == "text":
        values["text"] = generate.text(rng)
    elif kind == "words":
        sizes = rng.choice(((), (1,), (2, 5), (1, 1, 2, 5)))
        values["words"] = [[generate.word(rng) for _ in range(size)] for size in sizes]
    else:
        values["conllu"] = _conllu(rng)
    numbers = [rng.randint(0, 4) for _ in range(5)]
    decided: dict[str, Any] = {
        "sentence": numbers[0],
        "heads": {str(numbers[1]): numbers[2], str(numbers[3]): numbers[4]},
        "labels": {str(numbers[1]): rng.choice((*generate.LABELS, ""))},
        "not_heads": {str(numbers[3]): numbers},
        "not_labels": {str(numbers[4]): [rng.choice(generate.LABELS)]},
    }
    options: dict[str, tuple[Any, ...]] = {
        "model": ("", "text", "refine", "en", "../en", generate.word(rng)),
        "steps": (1, 2, 20, 0, 21, 1.0, "1"),
        "tags": ("given", "predicted", "none", "x"),
        "keep": ("marked", "given", "nothing", "x"),
        "projective": (True, False, 1),
        "k": (1, 2, 5, 20, 21),
        "stop_above": (0, 0.5, 1, 0.123456, 2),
        "constraints": ([], [{name: decided[name] for name in rng.sample(sorted(decided), rng.randint(0, 3))}]),
        "initial": ("own", "empty", "given"),
        "format": ("json", "conllu"),
        "unknown": (None,),
    }
    for name, choices in options.items():
        if rng.random() < (0.01 if name == "unknown" else 0.15):
            values[name] = rng.choice(choices)
    return values


def _udpipe(rng: Random) -> dict[str, str]:
    values = {
        "model": ("", "english", "text", "refine", "en_ewt-ud-2.5", "cs", "../en"),
        "tokenizer": ("", "ranges", "presegmented;ranges", "normalized_spaces", "x"),
        "tagger": ("", "none", "x"),
        "parser": ("", "none", "x"),
        "input": ("conllu", "horizontal", "generic_tokenizer=ranges", "epe", ""),
        "output": ("conllu", "plaintext", "plaintext=normalized_spaces", "conllu=v2", "x"),
    }
    chosen = {name: rng.choice(choices) for name, choices in values.items() if rng.random() < 0.4}
    if rng.random() < 0.97:
        chosen["data"] = rng.choice((generate.text, _conllu))(rng)
    return chosen


def _multipart(rng: Random, values: dict[str, str]) -> bytes:
    part = '--b\r\nContent-Disposition: form-data; name="{}"{}\r\n\r\n{}\r\n'
    parts = [part.format(name, rng.choice(("", "; filename=x")), value) for name, value in values.items()]
    data = "".join([*parts, "--b--\r\n"]).encode("utf-8", "replace")
    return generate.damaged(rng, data) if rng.random() < 0.3 else data


def check(sent: Sent, answer: Answer) -> Fault | None:
    """Return the fault of an answer, or None."""
    if answer.status not in STATUSES:
        return Fault("crash", f"status {answer.status}: {answer.body[:500]!r}")
    if answer.status == 307 or sent.method in OTHER_METHODS:
        return None
    try:
        values = json.loads(answer.body) if answer.kind.startswith(JSON) or answer.status != 200 else {}
    except ValueError:
        return Fault("other", f"status {answer.status}, and an answer that is not JSON: {answer.body[:500]!r}")
    if answer.status != 200:
        is_clear = isinstance(values, dict) and isinstance(values.get("error", {}).get("message"), str)
        return None if is_clear else Fault("other", f"status {answer.status} without a message: {values}")
    if sent.path in ("/v1/parse", "/v1/refine") and not answer.kind.startswith(JSON):
        return _check_words(sent, words_in(answer.body))
    if not sent.path.startswith("/v1/") or sent.method != "POST":
        return None
    letters = letters_of("".join(token for each in values["sentences"] for token in _tokens(each)))
    if sent.text is not None and letters != letters_of(sent.text):
        return Fault("lost", f"the answer has other characters: {letters[:300]!r}, not {sent.text[:300]!r}")
    return _check_words(sent, [[word["form"] for word in each["words"]] for each in values["sentences"]])


def _tokens(sentence: dict[str, Any]) -> Iterator[str]:
    """Yield the tokens of a sentence: words, and multiword tokens instead of their words."""
    tokens = sentence.get("multiword_tokens", [])
    multiword = {each["words"][0]: each["form"] for each in tokens}
    inner = {word for each in tokens for word in each["words"]}
    for word in sentence["words"]:
        if word["number"] in multiword:
            yield multiword[word["number"]]
        elif word["number"] not in inner:
            yield word["form"]


def _check_words(sent: Sent, words: list[list[str]]) -> Fault | None:
    if sent.words is None or words == json.loads(json.dumps(sent.words)):  # JSON joins two halves of a surrogate pair
        return None
    return Fault("lost", f"the answer has other words: {words!r:.500}, not {sent.words!r:.500}")
