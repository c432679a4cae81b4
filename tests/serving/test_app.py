"""The JSON API over a tiny parser: what it answers, and how it refuses."""

import json
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from threading import Barrier, Event

import pytest
from fastapi.testclient import TestClient
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.tiny import sample, tiny_parser
from tests.support.tiny_app import tiny_tagging_parser
from treefine.errors import TreefineError
from treefine.serving import schema
from treefine.serving.app import create_app
from treefine.serving.gate import LOOPBACK, SAFE_HEADERS, host_name
from treefine.serving.limits import ServerLimits
from treefine.serving.service import LARGE_REQUEST, Service
from treefine.treebank.conllu import read_treebank
from treefine.treebank.constraints import Constraints

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
    ("asked", "inputs"), [({"words": [WORDS]}, [WORDS]), ({"conllu": CONLLU}, sample(3))], ids=["words", "conllu"]
)
def test_parse_returns_the_parses_of_the_parser(client, parser, asked, inputs):
    answer = client.post("/v1/parse", json=asked)

    assert sentences_of(answer) == [json.loads(each.to_json()) for each in parser.stream(inputs)]
    schema.ParseAnswer.model_validate(answer.json(), strict=True, extra="forbid")


def test_parse_segments_text(client, parser):
    answer = client.post("/v1/parse", json={"text": TEXT})

    assert sentences_of(answer) == [json.loads(each.to_json()) for each in parser(TEXT)]


def test_parse_as_conllu_returns_the_bytes_of_a_file(client, parser):
    answer = client.post("/v1/parse", json={"conllu": CONLLU, "format": "conllu"})

    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.text == "".join(
        each.to_conllu() for each in parser.stream_trees(read_treebank(BytesIO(CONLLU.encode())))
    )


def test_several_trees_per_sentence_are_also_returned_as_conllu(client, parser):
    answer = client.post("/v1/parse", json={"words": [WORDS], "k": 2, "format": "conllu"})

    (parse,) = parser.using(k=2).stream([WORDS])
    assert answer.text == "".join(each.to_conllu() for each in parse.ranked_sentences())


def test_parse_accepts_all_options(client, parser):
    asked = {"words": [WORDS], "steps": 1, "initial": "empty", "projective": True, "k": 3, "tags": "none"}
    answer = client.post("/v1/parse", json=asked | {"stop_above": 0.5, "keep": "nothing", "model": "tiny"})

    other = parser.using(
        max_steps=1, initial="empty", is_projective=True, k=3, tags="none", stop_above=0.5, keep="nothing"
    )
    assert sentences_of(answer) == [json.loads(each.to_json()) for each in other.stream([WORDS])]
    assert len(sentences_of(answer)[0]["trees"]) == 3
    schema.ParseAnswer.model_validate(answer.json(), strict=True, extra="forbid")


def test_refine_starts_from_the_given_trees_and_lists_the_changes(client, parser):
    answer = client.post("/v1/refine", json={"conllu": CONLLU})

    parses = list(parser.using(initial=lambda given: (each.arcs for each in given), trust=1.0).stream(sample(3)))
    schema.RefineAnswer.model_validate(answer.json(), strict=True, extra="forbid")
    for reported, parse in zip(sentences_of(answer), parses, strict=True):
        assert [word["head"] for word in reported["words"]] == list(parse.heads)
        assert reported["initial"] == {"heads": list(parse.initial.heads), "labels": list(parse.initial.labels)}
        assert [(each["word"], each["old_head"], each["head"]) for each in reported["changes"]] == [
            (each.word, each.old_head, each.head) for each in parse.changes
        ]
        assert reported["converged"] == parse.converged
    as_conllu = client.post("/v1/refine", json={"conllu": CONLLU, "format": "conllu"})
    assert [each.heads for each in read_treebank(BytesIO(as_conllu.content))] == [each.heads for each in parses]


def test_refine_keeps_the_given_trees_with_a_huge_trust(client):
    answer = client.post("/v1/refine", json={"conllu": CONLLU, "trust": 1000})

    assert all(each["changes"] == [] for each in sentences_of(answer))
    assert client.post("/v1/refine", json={"conllu": CONLLU, "trust": -1}).status_code == 422


def test_steps_returns_every_graph_with_its_drawing(client, parser):
    answer = client.post("/v1/steps", json={"words": [WORDS], "steps": 4})

    schema.StepsAnswer.model_validate(answer.json(), strict=True, extra="forbid")
    (reported,) = sentences_of(answer)
    (parse,) = parser.using(max_steps=4).stream([WORDS])
    graphs = reported["graphs"]
    assert [each["t"] for each in graphs] == list(range(len(graphs)))
    assert graphs[0]["heads"] == [None] * 5
    steps = [(each["heads"], each["labels"]) for each in graphs[1 : len(parse.steps) + 1]]
    assert steps == [(list(each.heads[1:]), list(each.labels[1:])) for each in parse.steps]
    assert graphs[-1]["heads"] == list(parse.heads)
    assert all(each["svg"].startswith("<svg") for each in graphs)
    assert all(len(each["confidence"]) == 5 for each in graphs[1:])
    assert reported["conllu"] == parse.to_conllu()


def test_graphs_are_drawn_for_few_requests_at_once_and_within_the_time_limit(monkeypatch):
    held, drawn = Event(), []
    monkeypatch.setattr("treefine.serving.app.graphs_of", lambda parse: drawn.append(parse) or held.wait(60))
    app = create_app({"tiny": tiny_parser()}, limits=ServerLimits(seconds=0.2, gather=0))

    def ask(client):
        return client.post("/v1/steps", json={"words": [WORDS]}).status_code

    with TestClient(app, base_url="http://localhost") as client, ThreadPoolExecutor(3) as threads:
        found = list(threads.map(ask, [client] * 3))
        n_drawn = len(drawn)
        held.set()

    assert found == [504] * 3
    assert n_drawn <= 2


def test_constraints_are_satisfied_and_marked_in_the_conllu(client, parser):
    decided = {"sentence": 2, "heads": {"4": 0}, "labels": {"1": "det"}, "not_heads": {"3": [2, 4]}}
    (_, reported) = sentences_of(client.post("/v1/steps", json={"words": [WORDS, WORDS], "constraints": [decided]}))

    heads = [word["head"] for word in reported["words"]]
    assert (heads[3], reported["words"][0]["label"]) == (0, "det")
    assert heads[2] not in (2, 4)
    (again,) = read_treebank(BytesIO(reported["conllu"].encode()))
    expected = Constraints({4: 0}, {1: "det"}, {3: [2, 4]})
    assert parser.parse(again) == parser.parse(again, constraints=expected)
    assert [note for note in again.column(9) if note != "_"] == ["Keep=Label", "NotHead=2,4", "Keep=Head"]


def test_steps_returns_marks_as_constraints_which_can_be_sent_back_in_their_place(client):
    rows = [("a", 2, "nsubj:outer", "Keep=Arc"), ("dog", 0, "root", "Own=1|NotHead=1|NotLabel=dobj")]
    lines = (
        f"{n}\t{form}\t_\t_\t_\t_\t{head}\t{label}\t_\t{misc}\n" for n, (form, head, label, misc) in enumerate(rows, 1)
    )
    asked = {"conllu": "".join(lines) + "\n", "initial": "given"}

    (first,) = sentences_of(client.post("/v1/steps", json=asked))
    given = {"sentence": 1, **first["constraints"]}
    (again,) = sentences_of(client.post("/v1/steps", json=asked | {"keep": "nothing", "constraints": [given]}))
    (free,) = sentences_of(client.post("/v1/steps", json=asked | {"keep": "nothing"}))

    assert first["constraints"] == {
        "heads": {"1": 2},
        "labels": {"1": "nsubj:outer"},
        "not_heads": {"2": [1]},
        "not_labels": {"2": ["dobj"]},
    }
    assert again == first
    assert free["constraints"] == {"heads": {}, "labels": {}, "not_heads": {}, "not_labels": {}}
    (marked, unmarked) = (read_treebank(BytesIO(each["conllu"].encode())) for each in (first, free))
    assert [sentence.column(9) for sentence in marked] == [("Keep=Arc", "Own=1|NotHead=1|NotLabel=dobj")]
    assert [sentence.column(9) for sentence in unmarked] == [("_", "Own=1")]
    assert free["graphs"][0]["labels"] == ["nsubj:outer", "root"]  # as in the input; the model reads it as nsubj


@pytest.mark.parametrize("label", ["nsubj:outer", "dobj", "prep"])
def test_a_constraint_may_keep_a_subtype_an_older_name_and_the_label_of_the_input(client, label):
    conllu = f"1\ta\t_\t_\t_\t_\t2\t{label}\t_\t_\n2\tdog\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
    answer = client.post("/v1/parse", json={"conllu": conllu, "constraints": [{"labels": {"1": label}}]})

    assert sentences_of(answer)[0]["words"][0]["label"] == label


def test_a_large_request_gets_the_same_answer_as_small_ones(client, parser):
    many = CONLLU * (LARGE_REQUEST // len(CONLLU) + 2)
    answer = client.post("/v1/parse", json={"conllu": many, "format": "conllu"})

    assert answer.text == "".join(
        each.to_conllu() for each in parser.stream_trees(read_treebank(BytesIO(many.encode())))
    )


@pytest.mark.parametrize(
    ("asked", "status", "said"),
    [
        ({"conllu": CONLLU + "1\tx\n\n"}, 400, {"message": "The line must have 10 columns, not 2.", "sentence": 4}),
        ({"conllu": "1\ta\t_\t_\t_\t_\t7\tdet\t_\t_\n\n"}, 400, {"line": 1, "word": "1"}),
        ({"words": [WORDS, []]}, 400, {"message": "A sentence must have at least one word."}),
        ({"words": [["a\tb"]]}, 400, {}),
        ({"words": [["a"] * 51]}, 413, {"message": "Sentence 1 has 51 words."}),
        (
            {"words": [WORDS], "model": "../../etc"},
            404,
            {
                "message": "Unknown model '../../etc'.",
                "hint": "Choose tiny or other.",
                "models": ["tiny", "other"],
            },
        ),
        ({"text": "a b", "model": "other"}, 400, {"message": "This model has no segmenter, so it cannot read text."}),
        ({"words": [WORDS], "constraints": [{"heads": {"1": 2, "2": 1}}]}, 400, {"sentence": 1, "line": None}),
        ({"words": [WORDS], "constraints": [{"heads": {"1": 99}}]}, 400, {}),
        ({"words": [WORDS], "constraints": [{"sentence": 2}]}, 400, {}),
        (
            {"words": [WORDS], "constraints": [{}, {"sentence": 2, "labels": {"1": "det", "2": "nsbj"}}]},
            400,
            {"message": "The model has no label 'nsbj'.", "hint": "Did you mean nsubj?", "sentence": 2, "word": "2"},
        ),
        (
            {"text": "a b", "constraints": [{"not_labels": {"1": ["det", "dobj"]}}]},
            400,
            {"message": "The model has no label 'dobj'.", "hint": "Did you mean obj?", "sentence": 1, "word": "1"},
        ),
        (
            {"words": [WORDS], "constraints": [{"labels": {"999": "zzz"}}]},
            400,
            {"message": "The model has no label 'zzz'.", "hint": "GET /v1/models lists its labels."},
        ),
        ({"words": [WORDS], "model": "other", "tags": "predicted"}, 400, {}),
        ({"words": [WORDS], "text": "a"}, 422, {"message": "Give exactly one of text, words and conllu."}),
        ({"text": "a", "initial": "given"}, 422, {}),
        ({"words": [WORDS], "steps": 0}, 422, {}),
        ({"words": [WORDS], "stepz": 1}, 422, {"message": "stepz: Extra inputs are not permitted"}),
        ({"words": [["\ud800"]]}, 422, {"message": "words.0.0: Character 1 is an unpaired surrogate."}),
        ({"words": [WORDS], "constraints": [{"heads": {"1": 2}}, {"heads": {"3": 2}}]}, 422, {}),
        ({"text": "\udfff"}, 422, {}),
        ({}, 422, {}),
    ],
)
def test_an_invalid_request_gets_an_error_with_its_reason_and_place(client, asked, status, said):
    answer = client.post("/v1/parse", content=json.dumps(asked), headers={"Content-Type": "application/json"})

    reported = schema.ErrorJson.model_validate(answer.json(), strict=True, extra="forbid").error.model_dump()
    assert (answer.status_code, reported["status"]) == (status, status)
    assert {name: reported[name] for name in said} == said
    assert reported["message"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff\xfe", b'{"words": "a"}', b"null", b'{"text": 1e999}'])
def test_a_body_that_does_not_match_the_schema_is_rejected(client, body):
    answer = client.post("/v1/parse", content=body, headers={"Content-Type": "application/json"})

    assert answer.status_code in (400, 422)
    assert answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (None, "The Content-Type header is missing."),
        ("Text/Plain; charset=utf-8", "The Content-Type header is 'text/plain'."),
        ("application/jsonx", "The Content-Type header is 'application/jsonx'."),
    ],
)
def test_json_with_another_content_type_gets_an_error_that_names_the_header(client, kind, message):
    answer = client.post("/v1/parse", content=b'{"text": "a"}', headers={"Content-Type": kind} if kind else {})

    expected = {"status": 422, "message": message, "hint": "Send Content-Type: application/json."}
    assert answer.json() == {"error": expected}


def test_invalid_json_gets_an_error_with_the_place(client):
    answer = client.post("/v1/parse", content=b'{"text": }', headers={"Content-Type": "application/json"})

    assert answer.json()["error"]["message"] == "The body is not valid JSON at character 9: Expecting value"


@pytest.mark.parametrize("is_announced", [True, False])
@pytest.mark.parametrize("path", ["/v1/parse", "/process"])
def test_a_body_that_is_too_large_is_rejected_with_and_without_a_content_length(client, path, is_announced):
    body = b'{"text": "' + b"a " * 60_000 + b'"}'
    kind = "application/json" if path == "/v1/parse" else "application/x-www-form-urlencoded"
    pieces = body if is_announced else (body[start : start + 1000] for start in range(0, len(body), 1000))
    answer = client.post(path, content=pieces, headers={"Content-Type": kind})

    assert answer.status_code == 413
    assert answer.json()["error"]["message"] == "The request is larger than 100,000 bytes."


def test_an_internal_error_reveals_no_details(client, monkeypatch, parser, caplog):
    service = client.app.state.served.find("tiny")
    monkeypatch.setattr(service.parser, "stream_trees", lambda *_, **__: 1 / 0)
    answer = client.post("/v1/parse", json={"words": [WORDS], "format": "conllu"})
    monkeypatch.undo()

    assert answer.status_code == 500
    assert "division" not in answer.text
    assert "division" in caplog.text
    assert client.post("/v1/parse", json={"words": [WORDS], "format": "conllu"}).status_code == 200


@pytest.mark.parametrize(
    ("path", "status"), [("/", 200), ("/docs", 200), ("/v1/models", 200), ("/nope", 404), ("/v1/parse", 405)]
)
def test_every_answer_has_the_safe_headers(client, path, status):
    answer = client.get(path)

    assert answer.status_code == status
    assert {name: answer.headers[name] for name in SAFE_HEADERS} == SAFE_HEADERS


@pytest.mark.parametrize(
    "path", ["/", "/page/page.css", "/docs", "/openapi.json", "/health", "/metrics", "/models", "/v1/models"]
)
def test_head_is_answered_like_get_without_a_body(client, path):
    head, get = client.head(path), client.get(path)

    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == get.headers["content-type"]
    assert client.head("/v1/parse").status_code == 405


def test_models_health_and_metrics_report_the_state_of_the_server(client):
    client.post("/v1/parse", json={"words": [WORDS]})
    models = client.get("/v1/models").json()

    assert [(each["name"], each["is_default"]) for each in models] == [("tiny", True), ("other", False)]
    assert (models[0]["has_segmenter"], models[1]["has_segmenter"]) == (True, False)
    assert (models[0]["predicts_tags"], models[1]["predicts_tags"]) == (True, False)
    assert "root" in models[0]["labels"]
    health = client.get("/health").json()
    assert (health["status"], health["models"]) == ("ok", {"tiny": "ok", "other": "ok"})
    counted = client.get("/metrics").text
    assert 'treefine_answers_total{route="/v1/parse",status="200"}' in counted
    assert "treefine_round_sentences_bucket" in counted


def test_a_model_whose_thread_has_ended_is_unhealthy():
    with TestClient(create_app({"tiny": tiny_parser()}), base_url="http://localhost") as client:
        client.app.state.served.find("tiny").stop()
        answer = client.get("/health")

    assert (answer.status_code, answer.json()["status"]) == (503, "failed")


def test_all_models_are_stopped_at_the_same_time(monkeypatch):
    all_stop, stop = Barrier(2), Service.stop
    monkeypatch.setattr(Service, "stop", lambda service: (all_stop.wait(5), stop(service)))

    with TestClient(create_app({"one": tiny_parser(), "two": tiny_parser()})):
        pass

    assert not all_stop.broken


def test_unknown_host_names_are_rejected():
    with TestClient(create_app({"tiny": tiny_parser()}, hosts=LOOPBACK), base_url="http://localhost:81") as client:
        assert client.get("/health").status_code == 200
        assert client.get("/health", headers={"Host": "[::1]:8080"}).status_code == 200
        for host in ("evil.example", "localhost.evil.example:8080", "", "[::1]evil", "[::1]:80:evil", "localhost:80/"):
            answer = client.get("/health", headers={"Host": host})
            assert answer.status_code == 400
            assert "host name" in answer.json()["error"]["message"]


@given(st.sampled_from(LOOPBACK), st.text(st.characters(codec="latin-1"), min_size=1, max_size=8))
@example("[::1]", "evil")
@example("localhost", "@evil")
def test_a_host_name_is_accepted_only_with_a_port_after_it(name, rest):
    is_port = rest[0] == ":" and (not rest[1:] or rest[1:].isascii() and rest[1:].isdecimal() and len(rest) <= 6)

    assert (host_name(name + rest) == name) == is_port
    assert host_name(rest + name) != name


def test_allowing_something_that_is_not_a_host_name_is_an_error():
    with pytest.raises(TreefineError, match="'https://a.example/' is not a host name"):
        create_app({"tiny": tiny_parser()}, hosts=["https://a.example/"])


def test_only_allowed_origins_may_send_requests():
    for origins, allowed in (((), None), (("https://a.example",), "https://a.example")):
        with TestClient(create_app({"tiny": tiny_parser()}, origins=origins), base_url="http://localhost") as client:
            answer = client.get("/health", headers={"Origin": "https://a.example"})
            udpipe = client.get("/models", headers={"Origin": "https://a.example"})
            refused = client.post("/v1/parse", content=b"0" * 1_000_001, headers={"Origin": "https://a.example"})

        assert answer.headers.get("access-control-allow-origin") == allowed
        assert udpipe.headers.get("access-control-allow-origin") == allowed
        assert (refused.status_code, refused.headers.get("access-control-allow-origin")) == (413, allowed)


LINK = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
IMAGE = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
SCRIPT = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}  # of another port
A, B = {"Origin": "https://a.example"}, {"Origin": "https://b.example"}
WORK = "/process?data=a&input=horizontal&parser"


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", WORK, {}, 200),
        ("GET", WORK, A, 200),
        ("GET", WORK, {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}, 200),
        ("GET", WORK, IMAGE | {"Sec-Fetch-Site": "same-origin"}, 200),
        ("GET", WORK, IMAGE, 403),
        ("HEAD", WORK, IMAGE, 403),
        ("GET", WORK, LINK, 403),
        ("POST", WORK, LINK | A, 403),  # a form
        ("POST", WORK, SCRIPT | A, 403),
        ("GET", "/health", IMAGE, 403),
        ("GET", "/", LINK, 200),
        ("GET", "/docs", LINK | {"Sec-Fetch-Site": "same-site"}, 200),
        ("GET", "/", LINK | {"Sec-Fetch-Dest": "iframe"}, 403),
        ("POST", "/", LINK, 403),
    ],
)
def test_web_pages_of_other_origins_cannot_make_the_server_work(client, method, path, headers, status):
    answer = client.request(method, path, headers=headers)

    assert answer.status_code == status
    if status == 403 and method != "HEAD":
        assert "--allow-origin" in answer.json()["error"]["hint"]


@pytest.mark.parametrize(
    ("origins", "headers", "status"),
    [
        (["https://a.example"], SCRIPT | A, 200),
        (["https://a.example"], SCRIPT | B, 403),
        (["https://a.example"], IMAGE, 403),
        (["*"], SCRIPT | B, 200),
        (["*"], IMAGE, 200),
    ],
)
def test_web_pages_of_allowed_origins_can_use_the_server(origins, headers, status):
    with TestClient(create_app({"tiny": tiny_parser()}, origins=origins), base_url="http://localhost") as client:
        assert client.get(WORK, headers=headers).status_code == status


def test_the_docs_page_has_every_route_and_no_link_to_other_hosts(client):
    page = client.get("/docs").text

    for path in client.get("/openapi.json").json()["paths"]:
        assert path in page
    assert "http://" not in page.replace("http://localhost", "")
    assert "https://" not in page
    assert "<script" not in page
    assert client.get("/docs.css").headers["content-type"].startswith("text/css")
