"""The UDPipe API: what UDPipe answers, over our models. Expected formats were written by UDPipe (ufal.udpipe 1.4)."""

from io import BytesIO

import pytest
from fastapi.testclient import TestClient
from hypothesis import given

from tests.support.data import DATA
from tests.support.tiny import tiny_parser
from tests.support.tiny_app import tiny_tagging_parser
from tests.support.tiny_segmenter import texts, tiny_segmenter
from treefine.serving.app import create_app
from treefine.serving.limits import ServerLimits
from treefine.serving.udpipe_api import UDPipeRequest, _segmented, read_sentences, write_sentences
from treefine.treebank.conllu import read_treebank

TEXT = "a bab. bb del 'a\n\n21 baki é. b"
GIVEN = list(read_treebank(DATA / "en_ewt-sample.conllu"))[:3]
CONLLU = "".join(each.to_conllu() for each in GIVEN)
ALL = {"tokenizer": "", "tagger": "", "parser": ""}


@pytest.fixture(scope="module")
def parser():
    return tiny_tagging_parser()


@pytest.fixture(scope="module")
def client(parser):
    limits = ServerLimits(max_bytes=1_300_000)
    with TestClient(
        create_app({"en": parser, "tr_imst": tiny_parser()}, limits=limits), base_url="http://localhost"
    ) as client:
        yield client


def process(client, path="/process", **params):
    answer = client.post(path, data=params)
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]


def sentences(client, **params):
    return list(read_treebank(BytesIO(process(client, **params).encode()), format="conllu"))


def test_all_three_stages_return_the_trees_and_tags_of_the_parser(client, parser):
    answer = client.get("/process", params={"data": TEXT, **ALL}).json()

    parsed = list(read_treebank(BytesIO(answer["result"].encode())))
    expected = [parse.sentence for parse in parser(TEXT)]
    assert [(each.columns, each.text) for each in parsed] == [(each.columns, each.text) for each in expected]
    assert list(answer) == ["model", "acknowledgements", "result"]
    lines = answer["result"].split("\n")
    assert lines[0].startswith("# generator = treefine ")
    assert lines[1:5] == ["# udpipe_model = en", "# newdoc", "# newpar", "# sent_id = 1"]


@pytest.mark.parametrize(
    ("stages", "has_tags", "has_heads"),
    [
        ({}, False, False),
        ({"tagger": ""}, True, False),
        ({"parser": ""}, False, True),
        ({"tagger": "none", "parser": ""}, False, True),  # none means no in UDPipe 1
    ],
)
def test_a_stage_that_was_not_requested_leaves_its_columns_blank(client, stages, has_tags, has_heads):
    parsed = sentences(client, data=TEXT, tokenizer="", **stages)

    assert {tag != "_" for each in parsed for tag in (*each.upos, *each.xpos, *each.lemma)} == {has_tags}
    assert {head is not None for each in parsed for head in each.heads} == {has_heads}
    assert {label != "_" for each in parsed for label in each.labels} == {has_heads}


def test_the_tagger_replaces_the_tags_of_conllu_and_the_parser_its_trees(client, parser):
    tagged, parsed = sentences(client, data=CONLLU, tagger=""), sentences(client, data=CONLLU, parser="")

    predicted = parser.parse([each.forms for each in GIVEN])
    for column in ("upos", "xpos", "feats", "lemma"):
        assert [getattr(each, column) for each in tagged] == [getattr(each, column) for each in predicted]
    assert [each.upos for each in tagged] != [each.upos for each in GIVEN]
    assert [each.arcs for each in tagged] == [each.arcs for each in GIVEN]
    assert [(each.upos, each.lemma) for each in parsed] == [(each.upos, each.lemma) for each in GIVEN]
    assert [each.arcs for each in parsed] == [each.tree.arcs for each in parser.parse(GIVEN)]


def test_conllu_without_stages_is_returned_unchanged_with_line_feeds(client):
    for data in (CONLLU, "\ufeff" + CONLLU.replace("\n", "\r\n")):
        assert process(client, data=data).split("\n", maxsplit=2)[2] == CONLLU  # after two comments on who made it


@pytest.mark.parametrize("stages", [ALL, {"parser": ""}, {"input": "horizontal", "tagger": ""}, {}])
def test_empty_input_gives_empty_output(client, stages):
    assert process(client, data=" \n\n", **stages) == ""


def test_a_request_may_use_every_encoding_that_clients_use(client):
    params = {"data": "é b. 1\n a'b", **ALL}
    in_parts = {name: (None, value.replace("\n", "\r\n")) for name, value in params.items()}  # as libraries send forms
    as_file = in_parts | {"data": ("text.txt", params["data"].encode(), "text/plain")}

    answers = [
        client.get("/process?tokenizer&tagger&parser&data=%C3%A9+b.%201%0A%20a%27b"),
        client.post("/process", params=params),
        client.post("/process", data=params),
        client.post("/process", files=in_parts),
        client.post("/process", files=as_file),
        client.post("/process?data=no&parser=none", data=params),  # what the body says wins
    ]

    assert [answer.status_code for answer in answers] == [200] * 6
    assert len({answer.text for answer in answers}) == 1


@pytest.mark.parametrize("prefix", ["", "/api", "/services/udpipe/api"])
def test_the_api_answers_under_every_prefix_that_clients_use(client, prefix):
    assert process(client, f"{prefix}/process", data="a b", **ALL)
    expected = {"models": {"en": [*ALL], "tr_imst": ["parser"]}, "default_model": "en"}
    assert client.get(f"{prefix}/models").json() == client.post(f"{prefix}/models").json() == expected


def test_options_of_the_tokenizer(client):
    lines = sentences(client, data="a b. a\nb. b\n\n1 2", tokenizer="presegmented")
    plain = process(client, data=TEXT, tokenizer="ranges")
    normal = process(client, data=TEXT, tokenizer="ranges;normalized_spaces")
    generic = process(client, data=TEXT, input="generic_tokenizer=ranges")  # the model's own one is taken

    assert [each.text for each in lines] == ["a b. a", "b. b", "1 2"]
    assert "SpacesAfter=" in plain
    assert "SpacesAfter=" not in normal
    assert normal.count("SpaceAfter=No") == plain.count("SpaceAfter=No") > 0
    assert generic == plain


def test_words_separated_by_spaces_get_their_tree(client, parser):
    parsed = sentences(client, data="a b .\n\nNew\u00a0York a\n", input="horizontal", parser="")

    assert [each.forms for each in parsed] == [("a", "b", "."), ("New\u00a0York", "a")]
    assert [each.arcs for each in parsed] == [each.tree.arcs for each in parser.parse([each.forms for each in parsed])]


FORM = {"content-type": "application/x-www-form-urlencoded"}
BOUNDARY = {"content-type": "multipart/form-data; boundary=b"}
PART = b'--b\r\nContent-Disposition: form-data; name="data"\r\n\r\n%s\r\n--b--\r\n'
NOT_UTF8 = "The request is not UTF-8."
HORIZONTAL = {"data": "a", "input": "horizontal"}
IS_JSON = {"content": b"{}", "headers": {"content-type": "application/json"}}


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"data": {"tokenizer": ""}}, "The parameter data is missing."),
        ({"data": {"data": "a", "output": "vertical"}}, "Unknown output format 'vertical'."),
        ({"data": {"data": "a", "input": "epe"}}, "Unknown input format 'epe'."),
        ({"data": {"data": "1\ta\n"}}, "The line must have 10 columns, not 2."),
        ({"data": {"data": "a", "tokenizer": "", "model": "tr"}}, "The model tr_imst has no tokenizer."),
        ({"data": HORIZONTAL | {"tagger": "", "model": "tr"}}, "The model tr_imst has no tagger."),
        ({"content": b"data=%ff", "headers": FORM}, NOT_UTF8),
        ({"url": "/process?data=%ff"}, NOT_UTF8),
        ({"content": PART % b"\xff", "headers": BOUNDARY}, NOT_UTF8),
        ({"files": {"data": ("a.txt", b"\xff")}}, NOT_UTF8),
        (IS_JSON, "The Content-Type 'application/json' is not supported."),
        ({"content": b"a", "headers": BOUNDARY}, None),
        ({"content": b"a", "headers": {"content-type": "multipart/form-data"}}, None),
    ],
)
def test_an_invalid_request_gets_a_clear_error(client, request_, message):
    answer = client.post(**({"url": "/process"} | request_))

    error = answer.json()["error"]
    assert answer.status_code == 400
    assert error.get("hint") or error["line"] == 1
    assert message in (None, error["message"])


def test_the_charset_of_a_client_is_ignored_and_a_field_may_be_as_long_as_a_request(client):
    """A charset could make half a surrogate pair. Starlette alone takes a million characters in a field."""
    headers = {"content-type": "multipart/form-data; boundary=b; charset=unicode_escape"}
    comment, words = "# " + "a" * 1_200_000, {"input": (None, "conllu")}
    data = "\n".join([comment, "\t".join(["1", "a", *"________"]), "", ""])

    answer = client.post("/process?tokenizer&output=plaintext", content=PART % rb"\ud800", headers=headers)

    assert answer.json()["result"] == r"\ud800"
    assert client.post("/process", files=words | {"data": (None, data)}).status_code == 200
    assert client.post("/process", files=words | {"data": (None, data * 2)}).status_code == 413


SPACES = """\
# newdoc
# newpar
1	I	_	PRON	PRP	_	2	nsubj	_	_
2-3	can't	_	_	_	_	_	_	_	SpacesAfter=\\s\\n
2	ca	_	AUX	_	_	0	root	_	_
3	n't	_	PART	_	_	2	advmod	_	_
4	New York	_	X	_	_	2	obj	_	SpaceAfter=No
5	.	_	PUNCT	_	_	2	punct	_	SpacesAfter=\\n\\n

"""


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", "I can't \nNew York.\n\nI can't \nNew York.\n\n"),
        ("normalized_spaces", "I can't New York.\n\nI can't New York.\n"),
    ],
)
def test_plaintext_equals_that_of_udpipe(options, expected):
    wanted = UDPipeRequest({"data": "", "output": f"plaintext={options}"})

    assert write_sentences(read_sentences(SPACES * 2, "conllu"), wanted) == expected


@given(texts)
def test_ranges_are_the_offsets_of_every_token_of_any_text(text):
    for sentence in _segmented([each.sentence for each in tiny_segmenter().segment(text)], ["ranges"]):
        for token in sentence.tokens():
            start, end = map(int, token.misc.rpartition("TokenRange=")[2].split(":"))
            assert text[start:end] == token.form


def test_the_range_of_a_multiword_token_is_in_its_own_line():
    (sentence,) = _segmented(read_sentences(SPACES, "conllu"), ["ranges"])

    notes = dict(zip(sentence.columns[0], sentence.columns[-1], strict=True))
    assert notes["2-3"] == "SpacesAfter=\\s\\n|TokenRange=2:7"
    assert (notes["1"], notes["2"], notes["3"]) == ("TokenRange=0:1", "_", "_")
    assert notes["4"] == "SpaceAfter=No|TokenRange=9:17"
