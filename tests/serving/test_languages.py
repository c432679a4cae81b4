"""A model of several languages behind the server: the JSON API and the UDPipe API."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from fastapi.testclient import TestClient

from tests.support.tiny import tiny_parser
from tests.support.tiny_app import tiny_parser_of_two, tiny_tagging_parser
from treefine.serving import schema
from treefine.serving.app import create_app
from treefine.treebank.sentence import Sentence

SWEDISH = "Hunden sover under bordet och katten ligger på soffan. Det är inte så konstigt att de är trötta."
DANISH = "Hunden sover under bordet, og katten ligger på sofaen. Det er ikke så mærkeligt, at de er trætte."
ALL = {"tokenizer": "", "tagger": "", "parser": ""}
HORIZONTAL = {"data": "en hund", "input": "horizontal", "parser": ""}


@pytest.fixture(scope="module")
def parser():
    return tiny_parser_of_two()


@pytest.fixture(scope="module")
def client():
    app = create_app({"en": tiny_tagging_parser(), "multi": tiny_parser_of_two(), "tr_imst": tiny_parser()})
    with TestClient(app, base_url="http://localhost") as client:
        yield client


def parsed(client, **asked):
    answer = client.post("/v1/parse", json=asked)
    assert answer.status_code == 200, answer.text
    schema.ParseAnswer.model_validate(answer.json(), strict=True, extra="forbid")
    return answer.json()["sentences"]


def without_language(sentences):
    return [{name: each[name] for name in each if name not in ("language", "treebank")} for each in sentences]


def expected(parses):
    return without_language([json.loads(each.to_json()) for each in parses])


@pytest.mark.parametrize(
    ("asked", "treebank"),
    [("sv", "sv_talbanken"), ("Swedish", "sv_talbanken"), ("sv_lines", "sv_lines"), ("DA", "da_ddt")],
)
def test_a_request_can_name_the_language_or_the_treebank(client, parser, asked, treebank):
    found = parsed(client, text=SWEDISH, model="multi", language=asked)

    assert {(each["language"], each["treebank"]) for each in found} == {(treebank[:2], treebank)}
    assert without_language(found) == expected(parser.using(language=treebank).stream_chunks([SWEDISH]))


@pytest.mark.parametrize(("text", "treebank"), [(SWEDISH, "sv_talbanken"), (DANISH, "da_ddt")])
@pytest.mark.parametrize("form", ["text", "words", "conllu"])
def test_without_one_the_language_is_identified_from_the_input(client, text, treebank, form):
    asked = {"text": text, "words": [text.split()], "conllu": Sentence.of_words(text.split()).to_conllu()}

    found = parsed(client, model="multi", **{form: asked[form]})

    assert {each["treebank"] for each in found} == {treebank}


def test_requests_in_different_languages_at_once_do_not_change_each_other(client, parser):
    asked = [(text, language) for text in (SWEDISH, DANISH) for language in (None, "sv", "sv_lines", "da")] * 3
    requests = [{"text": text, "model": "multi", "language": language} for text, language in asked]
    requests += [{"words": [text.split()], "model": "multi", "language": language} for text, language in asked]

    with ThreadPoolExecutor(len(requests)) as pool:
        answers = list(pool.map(lambda each: parsed(client, **each), requests))

    for request, answer in zip(requests, answers, strict=True):
        one = parser.using(language=request["language"])
        parses = list(one.stream_chunks([request["text"]]) if "text" in request else one.stream(request["words"]))
        assert without_language(answer) == expected(parses)
        assert [each["treebank"] for each in answer] == [each.sentence.treebank for each in parses]


def test_a_model_of_one_language_reports_none(client):
    assert not {"language", "treebank"} & set(parsed(client, text="ab 12")[0])


@pytest.mark.parametrize("route", ["/v1/parse", "/v1/steps"])
def test_without_a_model_the_language_chooses_it(client, route):
    answer = client.post(route, json={"words": [["en", "hund"]], "language": "da"}).json()

    assert answer["model"] == "multi"
    assert answer["sentences"][0]["language"] == "da"


def test_refine_reports_the_language_too(client):
    asked = {"conllu": schema.REFINE_EXAMPLE, "language": "sv", "model": "multi"}

    answer = client.post("/v1/refine", json=asked).json()

    schema.RefineAnswer.model_validate(answer, strict=True, extra="forbid")
    assert answer["sentences"][0]["treebank"] == "sv_talbanken"


@pytest.mark.parametrize("route", ["/v1/parse", "/v1/steps", "/v1/refine"])
def test_an_unknown_language_is_an_error_that_lists_the_known_ones(client, route):
    asked = {"conllu": schema.REFINE_EXAMPLE, "language": "swedisch", "model": "multi"}

    answer = client.post(route, json=asked)

    assert answer.status_code == 400
    assert answer.json()["error"] == {
        "status": 400,
        "message": "There is no language 'swedisch'.",
        "hint": "Did you mean sv (Swedish)? The model knows da and sv.",
    }


def test_without_a_model_the_error_for_an_unknown_language_lists_those_of_the_largest_model(client):
    answer = client.post("/v1/parse", json={"text": "a b", "language": "Klingon"})

    assert (answer.status_code, answer.json()["error"]["hint"]) == (400, "The model knows da and sv.")


def test_the_list_of_models_has_the_languages_of_each(client):
    _, multi, single = client.get("/v1/models").json()

    assert multi["languages"] == [
        {"code": "da", "name": "Danish", "treebanks": ["da_ddt"]},
        {"code": "sv", "name": "Swedish", "treebanks": ["sv_talbanken", "sv_lines"]},
    ]
    assert single["languages"] == []


# UDPipe


@pytest.mark.parametrize(
    ("asked", "answered", "treebank"),
    [
        ("swedish-talbanken-ud-2.15-241121", "swedish-talbanken", "sv_talbanken"),
        ("swedish-lines-ud-2.15-241121", "swedish-lines", "sv_lines"),
        ("swedish-pud-ud-2.15-241121", "swedish-talbanken", "sv_talbanken"),
        ("swedish", "swedish-talbanken", "sv_talbanken"),
        ("sv", "swedish-talbanken", "sv_talbanken"),
        ("swe", "swedish-talbanken", "sv_talbanken"),
        ("sv_lines", "swedish-lines", "sv_lines"),
        ("danish-ddt-ud-2.5-191206", "danish-ddt", "da_ddt"),
    ],
)
def test_udpipe_names_of_a_language_choose_the_model_and_the_treebank(client, parser, asked, answered, treebank):
    answer = client.post("/process", data={"data": DANISH, "model": asked, **ALL}).json()

    assert answer["model"] == answered
    assert f"# udpipe_model = {answered}\n" in answer["result"]
    trees = [each.sentence for each in parser.using(language=treebank).stream_chunks([DANISH])]
    assert [line.split("\t")[6] for line in answer["result"].splitlines() if "\t" in line] == [
        row.split("\t")[6] for each in trees for row in each.to_conllu().splitlines() if "\t" in row
    ]


@pytest.mark.parametrize(
    ("asked", "answered"),
    [("", "en"), ("english-ewt-ud-2.15-241121", "en"), ("eng", "en"), ("turkish-imst", "tr_imst"), ("multi", "multi")],
)
def test_other_names_choose_the_same_models_as_before(client, asked, answered):
    assert client.post("/process", data={**HORIZONTAL, "model": asked}).json()["model"] == answered


@pytest.mark.parametrize("asked", ["finnish", "sv/", "-", "_", "turkish-penn"])
def test_a_name_of_no_language_of_any_model_is_an_error(client, asked):
    answer = client.post("/process", data={**HORIZONTAL, "model": asked})

    assert answer.status_code == 404
    assert answer.json()["error"]["models"] == ["en", "multi", "tr_imst"]


def test_udpipe_clients_see_a_model_for_each_treebank(client):
    listed = client.get("/models").json()

    stages = ["tokenizer", "tagger", "parser"]
    assert listed == {
        "models": {"en": stages, "multi": stages, "tr_imst": ["parser"]}
        | dict.fromkeys(["danish-ddt", "swedish-lines", "swedish-talbanken"], stages),
        "default_model": "en",
    }
    for name in listed["models"]:
        assert client.post("/process", data={**HORIZONTAL, "model": name}).json()["model"] == name
