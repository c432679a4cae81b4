"""The JSON API over tiny parsers: what it answers, and how it refuses."""

import json
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from threading import Event

import pytest
from fastapi.testclient import TestClient

from tests.support.tiny import sample, tiny_parser
from tests.support.tiny_app import tiny_tagging_parser
from treefine.serving.app import create_app
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


def conllu_of(words):
    """Return the lines of one sentence; each word is given as form, head, label and MISC."""
    lines = (
        f"{number}\t{form}\t_\t_\t_\t_\t{head}\t{label}\t_\t{misc}\n"
        for number, (form, head, label, misc) in enumerate(words, 1)
    )
    return "".join(lines) + "\n"


@pytest.mark.parametrize(
    "source", [{"words": [WORDS]}, {"conllu": CONLLU}, {"text": TEXT}], ids=lambda each: [*each][0]
)
def test_parse_returns_the_parses_of_the_parser(client, parser, source):
    answer = client.post("/v1/parse", json=source)

    parses = parser(TEXT) if "text" in source else parser.stream(source.get("words") or sample(3))
    assert sentences_of(answer) == [json.loads(each.to_json()) for each in parses]
    assert answer.json()["model"] == "tiny"


@pytest.mark.parametrize("copies", [1, LARGE_REQUEST // len(CONLLU) + 2], ids=["small", "large"])
def test_parse_as_conllu_returns_the_bytes_of_a_file(client, parser, copies):
    answer = client.post("/v1/parse", json={"conllu": CONLLU * copies, "format": "conllu"})

    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    sentences = read_treebank(BytesIO(CONLLU.encode() * copies))
    assert answer.text == "".join(each.to_conllu() for each in parser.stream_trees(sentences))


def test_several_trees_per_sentence_are_also_returned_as_conllu(client, parser):
    answer = client.post("/v1/parse", json={"words": [WORDS], "k": 2, "format": "conllu"})

    (parse,) = parser.using(k=2).stream([WORDS])
    assert answer.text == "".join(each.to_conllu() for each in parse.ranked_sentences())


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


def test_refine_keeps_the_given_trees_with_a_huge_trust(client):
    answer = client.post("/v1/refine", json={"conllu": CONLLU, "trust": 1000})

    assert all(each["changes"] == [] for each in sentences_of(answer))


def test_steps_returns_every_graph_with_its_drawing(client, parser):
    answer = client.post("/v1/steps", json={"words": [WORDS], "steps": 4})

    (sentence,) = sentences_of(answer)
    (parse,) = parser.using(max_steps=4).stream([WORDS])
    graphs = sentence["graphs"]
    assert [each["t"] for each in graphs] == list(range(len(graphs)))
    assert graphs[0]["heads"] == [None] * 5
    steps = [(each["heads"], each["labels"]) for each in graphs[1 : len(parse.steps) + 1]]
    assert steps == [(list(each.heads[1:]), list(each.labels[1:])) for each in parse.steps]
    assert graphs[-1]["heads"] == list(parse.heads)
    assert all(each["svg"].startswith("<svg") for each in graphs)
    assert all(len(each["confidence"]) == 5 for each in graphs[1:])
    assert sentence["conllu"] == parse.to_conllu()


def test_graphs_are_drawn_for_few_requests_at_once_and_within_the_time_limit(monkeypatch):
    held, drawn = Event(), []
    monkeypatch.setattr("treefine.serving.app.graphs_of", lambda parse: drawn.append(parse) or held.wait(60))
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


def test_marks_of_the_input_are_kept_unless_the_request_says_otherwise(client):
    marked = conllu_of([("a", 2, "nsubj:outer", "Keep=Arc"), ("dog", 0, "root", "Own=1|NotHead=1")])

    (kept,) = sentences_of(client.post("/v1/steps", json={"conllu": marked}))
    answer = client.post("/v1/parse", json={"conllu": marked, "keep": "nothing", "steps": 1})

    assert (kept["words"][0]["head"], kept["words"][0]["label"]) == (2, "nsubj:outer")
    assert kept["conllu"].count("Keep=Arc") == 1
    assert sentences_of(answer)[0]["words"][0]["label"] != "nsubj:outer"


@pytest.mark.parametrize("label", ["nsubj:outer", "dobj", "prep"])
def test_a_constraint_may_keep_a_subtype_an_older_name_and_the_label_of_the_input(client, label):
    conllu = conllu_of([("a", 2, label, "_"), ("dog", 0, "root", "_")])
    answer = client.post("/v1/parse", json={"conllu": conllu, "constraints": [{"labels": {"1": label}}]})

    assert sentences_of(answer)[0]["words"][0]["label"] == label


W = {"words": [WORDS]}


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ({"conllu": CONLLU + "1\tx\n\n"}, 400, {"message": "The line must have 10 columns, not 2.", "sentence": 4}),
        ({"conllu": "1\ta\t_\t_\t_\t_\t7\tdet\t_\t_\n\n"}, 400, {"line": 1, "word": "1"}),
        ({"words": [WORDS, []]}, 400, {"message": "A sentence must have at least one word."}),
        ({"words": [["a"] * 51]}, 413, {"message": "Sentence 1 has 51 words."}),
        (
            W | {"model": "../../etc"},
            404,
            {
                "message": "Unknown model '../../etc'.",
                "hint": "Choose tiny or other.",
                "models": ["tiny", "other"],
            },
        ),
        ({"text": "a", "model": "other"}, 400, {"message": "This model has no segmenter, so it cannot read text."}),
        (W | {"model": "other", "tags": "predicted"}, 400, {}),
        (W | {"constraints": [{"heads": {"1": 2, "2": 1}}]}, 400, {"sentence": 1}),
        (W | {"constraints": [{"heads": {"1": 99}}]}, 400, {}),
        (W | {"constraints": [{"sentence": 2}]}, 400, {}),
        (
            W | {"constraints": [{}, {"sentence": 2, "labels": {"1": "det", "2": "nsbj"}}]},
            400,
            {"message": "The model has no label 'nsbj'.", "hint": "Did you mean nsubj?", "sentence": 2, "word": "2"},
        ),
        (
            {"text": "a b", "constraints": [{"not_labels": {"1": ["det", "dobj"]}}]},
            400,
            {"message": "The model has no label 'dobj'.", "hint": "Did you mean obj?", "sentence": 1, "word": "1"},
        ),
        (W | {"text": "a"}, 422, {"message": "Give exactly one of text, words and conllu."}),
        ({"text": "a", "initial": "given"}, 422, {}),
        (W | {"steps": 0}, 422, {}),
        (W | {"steps": 21}, 422, {}),
        (W | {"trust": -1}, 422, {}),
        (W | {"stepz": 1}, 422, {"message": "stepz: Extra inputs are not permitted"}),
        (W | {"constraints": [{"heads": {"1": 2}}, {"heads": {"3": 2}}]}, 422, {}),
        ({"words": [["\ud800"]]}, 422, {"message": "words.0.0: Character 1 is an unpaired surrogate."}),
        ({}, 422, {}),
        (b'{"text": }', 422, {"message": "The body is not valid JSON at character 9: Expecting value"}),
        (b"\xff\xfe", 422, {}),
        (b'{"text": "' + b"a " * 60_000, 413, {"message": "The request is larger than 100,000 bytes."}),
    ],
)
def test_an_invalid_request_gets_an_error_with_its_reason_and_place(client, body, status, error):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = client.post("/v1/parse", content=content, headers={"Content-Type": "application/json"})

    reported = answer.json()["error"]
    assert (answer.status_code, reported["status"]) == (status, status)
    assert {name: reported.get(name) for name in error} == error
    assert reported["message"]


@pytest.mark.parametrize(
    ("kind", "message"),
    [(None, "The Content-Type header is missing."), ("Text/Plain; a=b", "The Content-Type header is 'text/plain'.")],
)
def test_json_with_another_content_type_gets_an_error_that_names_the_header(client, kind, message):
    answer = client.post("/v1/parse", content=b'{"text": "a"}', headers={"Content-Type": kind} if kind else {})

    expected = {"status": 422, "message": message, "hint": "Send Content-Type: application/json."}
    assert answer.json() == {"error": expected}


def test_an_internal_error_reveals_no_details(client, monkeypatch, caplog):
    with monkeypatch.context() as patch:
        patch.setattr(client.app.state.models.find("tiny").parser, "stream_trees", lambda *_, **__: 1 / 0)
        answer = client.post("/v1/parse", json=W | {"format": "conllu"})

    assert answer.status_code == 500
    assert "division" not in answer.text
    assert "division" in caplog.text
    assert client.post("/v1/parse", json=W | {"format": "conllu"}).status_code == 200


@pytest.mark.parametrize(
    ("path", "status"), [("/", 200), ("/openapi.json", 200), ("/v1/models", 200), ("/nope", 404), ("/v1/parse", 405)]
)
def test_every_answer_has_the_safe_headers_and_head_is_answered_like_get(client, path, status):
    answer, head = client.get(path), client.head(path)

    assert (answer.status_code, head.status_code) == (status, status)
    assert {name: answer.headers[name] for name in SAFE_HEADERS} == SAFE_HEADERS
    assert head.headers["content-type"] == answer.headers["content-type"]


def test_models_health_and_metrics_report_the_state_of_the_server(client):
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


def test_a_model_whose_thread_has_ended_is_unhealthy():
    with TestClient(create_app({"tiny": tiny_parser()}), base_url="http://localhost") as client:
        client.app.state.models.find("tiny").stop()
        answer = client.get("/health")

    assert (answer.status_code, answer.json()["status"]) == (503, "failed")


def test_the_options_of_a_request_are_described_with_their_limits(client):
    schemas = client.get("/openapi.json").json()["components"]["schemas"]

    options = schemas["ParseBody"]["properties"]
    assert "refinement steps" in options["steps"]["description"]
    assert {"minimum": 1, "maximum": 20, "type": "integer"} in options["steps"]["anyOf"]
