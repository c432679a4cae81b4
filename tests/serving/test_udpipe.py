"""The UDPipe API: what UDPipe answers, over our models."""

from io import BytesIO

import pytest
from fastapi.testclient import TestClient

from tests.support.data import DATA
from tests.support.tiny import tiny_parser
from tests.support.tiny_app import tiny_tagging_parser
from treefine.serving.app import create_app
from treefine.serving.limits import ServerLimits
from treefine.treebank.conllu import read_treebank
from treefine.treebank.raw_text import raw_text
from treefine.treebank.sentence import Sentence

TEXT = "a bab. bb del 'a\n\n21 baki é. b"
GIVEN = list(read_treebank(DATA / "en_ewt-sample.conllu"))[:3]
CONLLU = "".join(each.to_conllu() for each in GIVEN)
ALL = {"tokenizer": "", "tagger": "", "parser": ""}


@pytest.fixture(scope="module")
def parser():
    return tiny_tagging_parser()


@pytest.fixture(scope="module")
def client(parser):
    with TestClient(create_app({"en": parser, "tr_imst": tiny_parser()})) as client:
        yield client


def process(client, path="/process", **params):
    answer = client.post(path, data=params)
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]


def fault(client, url="/process", **request):
    answer = client.post(url, **request)
    return answer.status_code, answer.json()["error"]


def sentences(client, **params):
    return list(read_treebank(BytesIO(process(client, **params).encode()), format="conllu"))


def test_all_three_stages_return_the_trees_and_tags_of_the_parser(client, parser):
    found = sentences(client, data=TEXT, **ALL)

    expected = [parse.sentence for parse in parser(TEXT)]
    assert [each.columns for each in found] == [each.columns for each in expected]
    assert [each.text for each in found] == [each.text for each in expected]


def test_the_tagger_fills_in_features_and_lemmas_and_replaces_those_of_the_data(client, parser):
    found = sentences(client, data=CONLLU, tagger="")

    expected = parser.parse([Sentence.of_words(each.forms) for each in GIVEN])
    assert [(each.feats, each.lemma) for each in found] == [(each.feats, each.lemma) for each in expected]
    assert [each.arcs for each in found] == [each.arcs for each in GIVEN]


def test_without_the_tagger_features_and_lemmas_stay_or_are_blank(client):
    (kept, *_), (cut, *_) = sentences(client, data=CONLLU, parser=""), sentences(client, data=TEXT, tokenizer="")

    assert (kept.feats, kept.lemma) == (GIVEN[0].feats, GIVEN[0].lemma)
    assert {*cut.feats, *cut.lemma} == {"_"}


def test_the_answer_has_the_fields_and_the_result_the_comments_of_udpipe(client):
    answer = client.get("/process", params={"data": "a b", **ALL}).json()

    assert list(answer) == ["model", "acknowledgements", "result"]
    assert answer["model"] == "en"
    assert all(isinstance(each, str) for each in answer["acknowledgements"])
    lines = answer["result"].split("\n")
    assert lines[0].startswith("# generator = treefine ")
    assert lines[1:6] == ["# udpipe_model = en", "# newdoc", "# newpar", "# sent_id = 1", "# text = a b"]


@pytest.mark.parametrize(
    ("stages", "has_tags", "has_heads"),
    [
        ({}, False, False),
        ({"tagger": ""}, True, False),
        ({"parser": ""}, False, True),
        ({"tagger": "none", "parser": ""}, False, True),  # none means no in UDPipe 1
    ],
)
def test_a_stage_that_was_not_requested_is_skipped(client, stages, has_tags, has_heads):
    found = sentences(client, data=TEXT, tokenizer="", **stages)

    assert {tag != "_" for each in found for tag in (*each.upos, *each.xpos)} == {has_tags}
    assert {head is not None for each in found for head in each.heads} == {has_heads}
    assert {label != "_" for each in found for label in each.labels} == {has_heads}


def test_text_that_is_only_segmented_is_not_parsed(client, parser, monkeypatch):
    monkeypatch.setattr(parser, "stream_trees", None)

    assert process(client, data="a b", tokenizer="", output="horizontal") == "a b\n"


def test_the_tagger_replaces_the_tags_of_conllu_and_leaves_its_trees(client, parser):
    found = sentences(client, data=CONLLU, tagger="")

    predicted = parser.parse([each.forms for each in GIVEN])
    assert [(each.upos, each.xpos) for each in found] == [(each.upos, each.xpos) for each in predicted]
    assert [each.upos for each in found] != [each.upos for each in GIVEN]
    assert [each.arcs for each in found] == [each.arcs for each in GIVEN]


def test_the_parser_replaces_the_trees_of_conllu_and_leaves_its_tags(client, parser):
    found = sentences(client, data=CONLLU, parser="")

    assert [each.upos for each in found] == [each.upos for each in GIVEN]
    assert [each.arcs for each in found] == [each.tree.arcs for each in parser.parse(GIVEN)]
    assert [each.arcs for each in found] != [each.arcs for each in GIVEN]


def test_conllu_without_stages_is_returned_unchanged_with_line_feeds(client):
    for data in (CONLLU, "\ufeff" + CONLLU.replace("\n", "\r\n")):
        assert process(client, data=data).split("\n", maxsplit=2)[2] == CONLLU  # after two comments on who made it


@pytest.mark.parametrize("data", ["", " \n\n"])
@pytest.mark.parametrize("stages", [ALL, {"parser": ""}, {"input": "horizontal", "tagger": ""}, {}])
def test_empty_input_gives_empty_output(client, data, stages):
    assert process(client, data=data, **stages) == ""


def test_a_request_may_use_every_encoding_that_clients_use(client):
    params = {"data": "é b. 1 a'b", **ALL}
    in_parts = {name: (None, value) for name, value in params.items()}
    as_file = in_parts | {"data": ("text.txt", params["data"].encode(), "text/plain")}

    answers = [
        client.get("/process?tokenizer&tagger&parser&data=%C3%A9+b.%201%20a%27b"),
        client.get("/process", params=params),
        client.post("/process", params=params),
        client.post("/process", data=params),
        client.post("/process", files=in_parts),
        client.post("/process", files=as_file),
        client.post("/process?data=no&parser=none", data=params),  # what the body says wins
    ]

    assert [answer.status_code for answer in answers] == [200] * 7
    assert len({answer.text for answer in answers}) == 1


@pytest.mark.parametrize("prefix", ["", "/api", "/services/udpipe/api"])
def test_the_api_answers_under_every_prefix_that_clients_use(client, prefix):
    assert process(client, f"{prefix}/process", data="a b", **ALL)
    assert client.get(f"{prefix}/models").json() == client.get("/models").json()
    assert client.post(f"{prefix}/models").json() == client.get("/models").json()
    assert client.put(f"{prefix}/models").headers["Allow"] in ("GET, POST", "POST, GET")


def test_models_are_listed_with_their_stages(client):
    assert client.get("/models").json() == {
        "models": {"en": ["tokenizer", "tagger", "parser"], "tr_imst": ["parser"]},
        "default_model": "en",
    }


@pytest.mark.parametrize(
    ("asked", "answered"),
    [("", "en"), ("en", "en"), ("eng", "en"), ("english", "en"), ("english-ewt-ud-2.5-191206", "en")]
    + [("en_gum-ud-2.15-241121", "en"), ("tr", "tr_imst"), ("turkish-imst", "tr_imst"), ("turkish", "tr_imst")],
)
def test_a_model_is_found_by_udpipe_names_of_its_language(client, asked, answered):
    answer = client.post("/process", data={"data": "a b", "input": "horizontal", "parser": "", "model": asked})

    assert answer.json()["model"] == answered


@pytest.mark.parametrize("asked", ["cs", "turkish-penn", "../en", "/etc/passwd", "en/", "-", "_", "é" * 300])
def test_the_error_for_an_unknown_model_lists_the_known_ones(client, asked):
    status, error = fault(client, data={"data": "a b", "tokenizer": "", "model": asked})

    assert status == 404
    assert error["models"] == ["en", "tr_imst"]


def test_carriage_returns_added_by_form_encoding_change_nothing(client):
    """Python's email package, with which udapi and UDPipe's own client write their requests, sends CRLF."""
    options = {"tokenizer": "ranges", "tagger": "", "parser": ""}
    crlf = {name: (None, value) for name, value in {"data": TEXT.replace("\n", "\r\n"), **options}.items()}

    assert client.post("/process", files=crlf).json()["result"] == process(client, data=TEXT, **options)


def test_presegmented_text_has_one_sentence_per_line(client):
    found = sentences(client, data="a b. a\nb. b\n\n1 2", tokenizer="presegmented")

    assert [each.text for each in found] == ["a b. a", "b. b", "1 2"]


def test_ranges_are_the_offsets_of_each_token(client):
    found = sentences(client, data=TEXT, tokenizer="ranges", parser="")

    notes = [token.misc.split("|")[-1] for each in found for token in each.tokens()]
    spans = [tuple(map(int, note.removeprefix("TokenRange=").split(":"))) for note in notes]
    assert [TEXT[start:end] for start, end in spans] == [token.form for each in found for token in each.tokens()]
    assert spans == list(raw_text(found).spans)


def test_normalized_spaces_keep_only_space_after_no(client):
    plain = process(client, data=TEXT, tokenizer="ranges")
    result = process(client, data=TEXT, tokenizer="ranges;normalized_spaces")

    assert "SpacesAfter=" in plain
    assert "SpacesAfter=" not in result
    assert result.count("SpaceAfter=No") == plain.count("SpaceAfter=No") > 0


@pytest.mark.parametrize(
    ("asked", "same"),
    [
        ({"tokenizer": "joint_with_parsing;x=1"}, {"tokenizer": ""}),  # which only UDPipe knows
        ({"input": "generic_tokenizer=ranges"}, {"tokenizer": "ranges"}),  # the model's own one is taken
    ],
)
def test_other_ways_to_request_the_tokenizer_work(client, asked, same):
    assert process(client, data=TEXT, **asked) == process(client, data=TEXT, **same)


def test_given_words_get_their_tree(client, parser):
    found = sentences(client, data="a b .\nNew\u00a0York a\n", input="horizontal", parser="")

    assert [each.forms for each in found] == [("a", "b", "."), ("New York", "a")]
    assert [each.arcs for each in found] == [each.tree.arcs for each in parser.parse([each.forms for each in found])]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"tokenizer": ""}, "The parameter data is missing."),
        ({"data": "a", "tokenizer": "", "output": "epe"}, "Unknown output format 'epe'."),
        ({"data": "a", "tokenizer": "", "output": ""}, "Unknown output format ''."),
        ({"data": "a", "input": "epe"}, "Unknown input format 'epe'."),
        ({"data": "a", "tokenizer": "", "model": "tr"}, "The model tr_imst has no tokenizer."),
        ({"data": "a", "input": "horizontal", "tagger": "", "model": "tr"}, "The model tr_imst has no tagger."),
    ],
)
def test_an_invalid_request_gets_a_clear_error(client, params, message):
    status, error = fault(client, data=params)

    assert (status, error["message"]) == (400, message)
    assert error["hint"]


@pytest.mark.parametrize(
    ("data", "input", "line"),
    [(GIVEN[0].to_conllu() + "1\ta\n", "conllu", GIVEN[0].to_conllu().count("\n") + 1), ("a\n\na\0b", "horizontal", 3)],
)
def test_the_error_for_an_unreadable_line_has_its_number(client, data, input, line):
    status, error = fault(client, data={"data": data, "input": input, "parser": ""})

    assert (status, error["line"], error["sentence"]) == (400, line, 2)


BOUNDARY = {"content-type": "multipart/form-data; boundary=b"}
PART = b'--b\r\nContent-Disposition: form-data; name="data"\r\n\r\n%s\r\n--b--\r\n'


@pytest.mark.parametrize(
    "request_",
    [
        {"content": b"data=%ff"},
        {"content": b"data=\xff"},
        {"url": "/process?data=%ff"},
        {"content": PART % b"\xff", "headers": BOUNDARY},
        {"files": {"data": ("a.txt", b"\xff")}},
    ],
)
def test_invalid_utf8_is_rejected(client, request_):
    headers = {"content-type": "application/x-www-form-urlencoded"} if "content" in request_ else {}

    assert fault(client, **({"headers": headers} | request_)) == (
        400,
        {"status": 400, "message": "The request is not UTF-8.", "hint": "Encode it as UTF-8."},
    )


def test_the_charset_of_a_client_is_ignored(client):
    """With unicode_escape it would make half a surrogate pair of six letters, which is no text."""
    headers = {"content-type": "multipart/form-data; boundary=b; charset=unicode_escape"}

    answer = client.post("/process?tokenizer&output=horizontal", content=PART % rb"\ud800", headers=headers)

    assert answer.status_code == 200
    assert r"\ud800" in answer.json()["result"].replace(" ", "")


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json", b"{}"),
        ("text/plain", b"a"),
        ("multipart/form-data", b"a"),
        (BOUNDARY["content-type"], b"a"),
    ],
)
def test_a_body_that_is_not_a_form_is_rejected(client, content_type, body):
    status, error = fault(client, content=body, headers={"content-type": content_type})

    assert status == 400
    assert error["hint"]


def test_a_field_may_be_as_long_as_a_request(parser):
    """Starlette alone takes a million characters in a field, whatever the server's limit."""
    data = "a " * 600_000
    with TestClient(create_app({"en": parser}, limits=ServerLimits(max_bytes=1_300_000))) as client:
        in_parts = {"data": (None, data), "input": (None, "horizontal"), "output": (None, "vertical")}

        assert client.post("/process", files=in_parts).status_code == 200
        assert client.post("/process", files=in_parts | {"data": (None, data * 2)}).status_code == 413
