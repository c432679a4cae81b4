"""The JSON API over tiny parsers: what it answers, and how it refuses."""

import json
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from itertools import chain
from threading import Event

import pytest
from fastapi.testclient import TestClient

from tests.support.tiny import sample, tiny_parser
from tests.support.tiny_app import tiny_tagging_parser
from treefine.serving.app import create_app, graphs_of
from treefine.serving.batching import LARGE_REQUEST
from treefine.serving.gate import SAFE_HEADERS
from treefine.serving.limits import ServerLimits
from treefine.treebank.conllu import read_treebank

WORDS = ["a", "dog", "saw", "Ann", "."]
CONLLU = "".join(each.to_conllu() for each in sample(3))
TEXT = "ab 12 a. b' del 1\n\nab baki é."


@pytest.fixture(scope="module")
def client():
    limits = ServerLimits(max_bytes=100_000, max_words=50, gather=0)
    app = create_app({"tiny": tiny_tagging_parser(), "other": tiny_parser()}, limits=limits)
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        yield client


@pytest.fixture(scope="module")
def parser():
    return tiny_tagging_parser()


def sentences_of(answer):
    assert answer.status_code == 200, answer.text
    return answer.json()["sentences"]


@pytest.mark.parametrize(
    "source", [{"words": [WORDS]}, {"conllu": CONLLU}, {"text": TEXT}], ids=lambda each: [*each][0]
)
def test_parse_returns_the_parses_of_the_parser(client, parser, source):
    answer = client.post("/v1/parse", json=source)

    parses = parser(TEXT) if "text" in source else parser.stream(source.get("words") or sample(3))
    assert sentences_of(answer) == [json.loads(each.to_json()) for each in parses]
    assert answer.json()["model"] == "tiny"


@pytest.mark.parametrize(("copies", "k"), [(1, 1), (1, 2), (LARGE_REQUEST // len(CONLLU) + 2, 1)])
def test_parse_as_conllu_returns_the_bytes_of_a_file(client, parser, copies, k):
    answer = client.post("/v1/parse", json={"conllu": CONLLU * copies, "format": "conllu", "k": k})

    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    sentences = read_treebank(BytesIO(CONLLU.encode() * copies))
    ranked = (parse.ranked_sentences() for parse in parser.using(k=k).stream(sentences))
    trees = parser.stream_trees(sentences) if k == 1 else chain.from_iterable(ranked)
    assert answer.text == "".join(each.to_conllu() for each in trees)


def test_parse_accepts_all_options(client, parser):
    options = {"words": [WORDS], "steps": 1, "initial": "empty", "projective": True, "k": 3, "tags": "none"}
    answer = client.post("/v1/parse", json=options | {"stop_above": 0.5, "keep": "nothing", "model": "tiny"})

    other = parser.using(
        max_steps=1, initial="empty", is_projective=True, k=3, tags="none", stop_above=0.5, keep="nothing"
    )
    assert sentences_of(answer) == [json.loads(each.to_json()) for each in other.stream([WORDS])]


def test_refine_starts_from_the_given_trees_and_lists_the_changes(client, parser):
    answer = client.post("/v1/refine", json={"conllu": CONLLU})
    as_conllu = client.post("/v1/refine", json={"conllu": CONLLU, "format": "conllu"})

    parses = list(parser.using(initial="given", trust=1.0).stream(sample(3)))
    for sentence, parse in zip(sentences_of(answer), parses, strict=True):
        assert [word["head"] for word in sentence["words"]] == list(parse.heads)
        assert sentence["initial"] == {"heads": list(parse.initial.heads), "labels": list(parse.initial.labels)}
        assert [(each["word"], each["old_head"], each["head"]) for each in sentence["changes"]] == [
            (each.word, each.old_head, each.head) for each in parse.changes
        ]
        assert sentence["converged"] == parse.converged
    assert [each.heads for each in read_treebank(BytesIO(as_conllu.content))] == [each.heads for each in parses]


def test_steps_returns_every_graph_with_its_drawing(client, parser):
    answer = client.post("/v1/steps", json={"words": [WORDS], "steps": 4})

    (sentence,) = sentences_of(answer)
    (parse,) = parser.using(max_steps=4).stream([WORDS])
    assert [each["heads"] for each in sentence["graphs"]] == [each["heads"] for each in graphs_of(parse)]
    assert all(each["svg"].startswith("<svg") for each in sentence["graphs"])
    assert sentence["conllu"] == parse.to_conllu()


def test_graphs_are_drawn_for_few_requests_at_once_and_within_the_time_limit(monkeypatch):
    held, drawn = Event(), []
    monkeypatch.setattr("treefine.serving.app.graphs_of", lambda parse: drawn.append(parse) or held.wait(3))
    app = create_app({"tiny": tiny_parser()}, limits=ServerLimits(seconds=0.2, gather=0))

    def ask(client):
        return client.post("/v1/steps", json={"words": [WORDS]}).status_code

    with TestClient(app, base_url="http://localhost") as client, ThreadPoolExecutor(3) as threads:
        statuses = list(threads.map(ask, [client] * 3))
        n_drawn = len(drawn)
        held.set()

    assert statuses == [504] * 3
    assert n_drawn <= 2


def test_constraints_are_satisfied(client):
    constraints = {"sentence": 2, "heads": {"4": 0}, "labels": {"1": "det"}, "not_heads": {"3": [2, 4]}}
    body = {"words": [WORDS, WORDS], "constraints": [constraints]}
    (_, sentence) = sentences_of(client.post("/v1/parse", json=body))

    heads = [word["head"] for word in sentence["words"]]
    assert (heads[3], sentence["words"][0]["label"]) == (0, "det")
    assert heads[2] not in (2, 4)


def marked(label, misc):
    """Return the CoNLL-U of a sentence whose first word has this label and MISC."""
    return f"1\ta\t_\t_\t_\t_\t2\t{label}\t_\t{misc}\n2\tdog\t_\t_\t_\t_\t0\troot\t_\t_\n\n"


def test_marks_of_the_input_are_kept_unless_the_request_says_otherwise(client):
    body = {"conllu": marked("nsubj:outer", "Keep=Arc"), "steps": 1}

    (kept,) = sentences_of(client.post("/v1/steps", json=body))
    (free,) = sentences_of(client.post("/v1/parse", json=body | {"keep": "nothing"}))

    assert (kept["words"][0]["head"], kept["words"][0]["label"]) == (2, "nsubj:outer")
    assert kept["conllu"].count("Keep=Arc") == 1
    assert free["words"][0]["label"] != "nsubj:outer"


@pytest.mark.parametrize("label", ["nsubj:outer", "dobj", "prep"])
def test_a_constraint_may_keep_a_subtype_an_older_name_and_the_label_of_the_input(client, label):
    body = {"conllu": marked(label, "_"), "constraints": [{"labels": {"1": label}}]}

    assert sentences_of(client.post("/v1/parse", json=body))[0]["words"][0]["label"] == label


W = {"words": [WORDS]}
NO_LABEL = {"message": "The model has no label 'nsbj'.", "hint": "Did you mean nsubj?", "sentence": 2, "word": "2"}
NO_MODEL = {"message": "Unknown model '../etc'.", "hint": "Choose tiny or other.", "models": ["tiny", "other"]}


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ({"conllu": CONLLU + "1\tx\n\n"}, 400, {"message": "The line must have 10 columns, not 2.", "sentence": 4}),
        ({"conllu": "1\ta\t_\t_\t_\t_\t7\tdet\t_\t_\n\n"}, 400, {"line": 1, "word": "1"}),
        ({"words": [WORDS, []]}, 400, {"message": "A sentence must have at least one word."}),
        ({"words": [["a"] * 51]}, 413, {"message": "Sentence 1 has 51 words."}),
        (W | {"model": "../etc"}, 404, NO_MODEL),
        ({"text": "a", "model": "other"}, 400, {"message": "This model has no segmenter, so it cannot read text."}),
        (W | {"model": "other", "tags": "predicted"}, 400, {}),
        (W | {"constraints": [{"heads": {"1": 2, "2": 1}}]}, 400, {"sentence": 1}),
        (W | {"constraints": [{"heads": {"1": 99}}]}, 400, {}),
        (W | {"constraints": [{"sentence": 2}]}, 400, {}),
        (W | {"constraints": [{}, {"sentence": 2, "labels": {"1": "det", "2": "nsbj"}}]}, 400, NO_LABEL),
        ({"text": "a", "constraints": [{"not_labels": {"1": ["dobj"]}}]}, 400, {"hint": "Did you mean obj?"}),
        (W | {"text": "a"}, 422, {"message": "Give exactly one of text, words and conllu."}),
        ({"text": "a", "initial": "given"}, 422, {}),
        (W | {"steps": 21}, 422, {}),
        (W | {"trust": -1}, 422, {}),
        (W | {"stepz": 1}, 422, {"message": "stepz: Extra inputs are not permitted"}),
        (W | {"constraints": [{"heads": {"1": 2}}, {"heads": {"3": 2}}]}, 422, {}),
        (
            {"words": [["\ud800"]]},
            422,
            {"message": "words.0.0: Input should be a valid string, unable to parse raw data as a unicode string"},
        ),
        (b'{"text": }', 422, {"message": "The body is not valid JSON at character 9: Expecting value"}),
        (b"\xff\xfe", 422, {}),
        (b'{"text": "' + b"a " * 60_000, 413, {"message": "The request is larger than 100,000 bytes."}),
        ((b"{}", "Text/Plain; a=b"), 422, {"message": "The Content-Type header is 'text/plain'."}),
        ((b"{}", ""), 422, {"message": "The Content-Type header is ''."}),
    ],
)
def test_an_invalid_request_gets_an_error_with_its_reason_and_place(client, body, status, error):
    content, kind = body if isinstance(body, tuple) else (body, "application/json")
    content = json.dumps(content).encode() if isinstance(content, dict) else content
    answer = client.post("/v1/parse", content=content, headers={"Content-Type": kind})

    reported = answer.json()["error"]
    assert (answer.status_code, reported["status"]) == (status, status)
    assert {name: reported.get(name) for name in error} == error
    assert reported["message"]


def test_an_internal_error_reveals_no_details(client, monkeypatch, caplog):
    with monkeypatch.context() as patch:
        patch.setattr(client.app.state.models.find("tiny").parser, "stream_trees", lambda *_, **__: 1 / 0)
        answer = client.post("/v1/parse", json=W | {"format": "conllu"})

    assert answer.status_code == 500
    assert "division" not in answer.text
    assert "division" in caplog.text
    assert client.post("/v1/parse", json=W | {"format": "conllu"}).status_code == 200


PATHS = {"/": 200, "/page/page.js": 200, "/openapi.json": 200, "/v1/models": 200, "/v1/parse": 405}
NO_PATHS = ("/nope", "/page/app.py", "/page/", "/page/%2e%2e/app.py")


@pytest.mark.parametrize(("path", "status"), [*PATHS.items(), *((path, 404) for path in NO_PATHS)])
def test_every_answer_has_the_safe_headers_and_head_is_answered_like_get(client, path, status):
    answer, head = client.get(path), client.head(path)

    assert (answer.status_code, head.status_code) == (status, status)
    assert {name: answer.headers[name] for name in SAFE_HEADERS} == SAFE_HEADERS
    assert head.headers["content-type"] == answer.headers["content-type"]


def test_models_health_and_metrics_report_the_state_of_the_server(client, monkeypatch):
    client.post("/v1/parse", json=W)
    models = client.get("/v1/models").json()

    assert [(each["name"], each["is_default"]) for each in models] == [("tiny", True), ("other", False)]
    assert (models[0]["has_segmenter"], models[1]["has_segmenter"]) == (True, False)
    assert (models[0]["predicts_tags"], models[1]["predicts_tags"]) == (True, False)
    assert "root" in models[0]["labels"]
    health = client.get("/health").json()
    assert (health["status"], health["models"]) == ("ok", {"tiny": "ok", "other": "ok"})
    metrics = client.get("/metrics").text
    assert 'treefine_answers_total{route="/v1/parse",status="200"}' in metrics
    assert "treefine_batch_sentences_bucket" in metrics
    monkeypatch.setattr(client.app.state.models["other"], "_n_failures", 3)
    assert (client.get("/health").status_code, client.get("/health").json()["status"]) == (503, "failed")
