"""A model of several languages behind the server: the JSON API and the UDPipe API."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from fastapi.testclient import TestClient

from tests.support.tiny import tiny_parser
from tests.support.tiny_app import tiny_parser_of_two, tiny_tagging_parser
from treefine.serving.app import create_app
from treefine.treebank.sentence import Sentence

SWEDISH = "Hunden sover under bordet och katten ligger på soffan. Det är inte så konstigt att de är trötta."
DANISH = "Hunden sover under bordet, og katten ligger på sofaen. Det er ikke så mærkeligt, at de er trætte."
ALL = {"tokenizer": "", "tagger": "", "parser": ""}
WORDS = {"data": "en hund", "input": "horizontal", "parser": ""}


@pytest.fixture(scope="module")
def parser():
    return tiny_parser_of_two()


@pytest.fixture(scope="module")
def client():
    app = create_app({"en": tiny_tagging_parser(), "multi": tiny_parser_of_two(), "tr_imst": tiny_parser()})
    with TestClient(app, base_url="http://localhost") as client:
        yield client


def parsed(client, **body):
    answer = client.post("/v1/parse", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["sentences"]


def test_without_a_language_it_is_identified_from_the_input_and_chooses_the_model_if_it_is_named(client):
    for source in (
        {"text": DANISH},
        {"words": [DANISH.split()]},
        {"conllu": Sentence.of_words(DANISH.split()).to_conllu()},
    ):
        assert {each["treebank"] for each in parsed(client, model="multi", **source)} == {"da_ddt"}
    assert not {"language", "treebank"} & set(parsed(client, text="ab 12")[0])  # a model of one language

    answer = client.post("/v1/steps", json={"words": [["en", "hund"]], "language": "Danish"}).json()
    assert (answer["model"], answer["sentences"][0]["language"]) == ("multi", "da")


def test_requests_in_different_languages_at_once_do_not_change_each_other(client, parser):
    requests = [
        {"model": "multi", "language": language} | source
        for text in (SWEDISH, DANISH)
        for language in (None, "sv", "sv_lines", "da")
        for source in ({"text": text}, {"words": [text.split()]})
    ]

    with ThreadPoolExecutor(len(requests)) as pool:
        answers = list(pool.map(lambda each: parsed(client, **each), requests))

    for request, answer in zip(requests, answers, strict=True):
        one = parser.using(language=request["language"])
        parses = list(one.stream_chunks([request["text"]]) if "text" in request else one.stream(request["words"]))
        assert [each["words"] for each in answer] == [json.loads(each.to_json())["words"] for each in parses]
        assert [each["treebank"] for each in answer] == [each.sentence.treebank for each in parses]


def test_an_unknown_language_is_an_error_of_the_model_with_the_most_languages(client):
    body = {"language": "swedisch", "conllu": Sentence.of_words(["a"]).to_conllu()}

    hint = "Did you mean sv (Swedish)? Choose one of da, sv."
    expected = {"status": 400, "message": "There is no language 'swedisch'.", "hint": hint}
    assert client.post("/v1/refine", json=body).json() == {"error": expected}


def test_the_list_of_models_has_the_languages_of_each(client):
    _, multi, single = client.get("/v1/models").json()

    assert multi["languages"] == [
        {"code": "da", "name": "Danish", "treebanks": ["da_ddt"]},
        {"code": "sv", "name": "Swedish", "treebanks": ["sv_talbanken", "sv_lines"]},
    ]
    assert single["languages"] == []


# UDPipe


MODELS = {
    "": "en",
    "english-ewt-ud-2.15-241121": "en",
    "turkish-imst": "tr_imst",
    "multi": "multi",
    "swedish-lines-ud-2.15-241121": "swedish-lines",
    "swedish-pud-ud-2.15-241121": "swedish-talbanken",
    "swe": "swedish-talbanken",
    "danish-ddt-ud-2.5-191206": "danish-ddt",
} | dict.fromkeys(("finnish", "turkish-penn", "../en", "_", "é" * 300))


@pytest.mark.parametrize(("name", "model"), MODELS.items())
def test_udpipe_names_choose_a_model_of_their_language_or_are_an_error_that_lists_the_models(client, name, model):
    answer = client.post("/process", data={**WORDS, "model": name})

    assert answer.status_code == (200 if model else 404)
    assert answer.json().get("model") == model
    assert model or answer.json()["error"]["models"] == ["en", "multi", "tr_imst"]


@pytest.mark.parametrize(("model", "treebank"), [("swedish-lines", "sv_lines"), ("danish-ddt", "da_ddt")])
def test_udpipe_names_of_a_treebank_choose_the_treebank(client, parser, model, treebank):
    result = client.post("/process", data={"data": DANISH, "model": model, **ALL}).json()["result"]

    assert f"# udpipe_model = {model}\n" in result
    trees = [each.sentence for each in parser.using(language=treebank).stream_chunks([DANISH])]
    heads = [line.split("\t")[6] for each in trees for line in each.to_conllu().splitlines() if "\t" in line]
    assert [line.split("\t")[6] for line in result.splitlines() if "\t" in line] == heads


def test_udpipe_clients_see_a_model_for_each_treebank(client):
    listed = client.get("/models").json()

    stages = ["tokenizer", "tagger", "parser"]
    assert listed == {
        "models": {"en": stages, "multi": stages, "tr_imst": ["parser"]}
        | dict.fromkeys(["danish-ddt", "swedish-lines", "swedish-talbanken"], stages),
        "default_model": "en",
    }
    for name in listed["models"]:
        assert client.post("/process", data={**WORDS, "model": name}).json()["model"] == name
