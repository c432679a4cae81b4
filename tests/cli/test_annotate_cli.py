"""The annotate command: what it opens, what it refuses, and what it prints. tests/slow/studio runs it as a process."""

import re
import signal
import socket
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tests.support.commands import failed, invoke
from tests.support.studio import DOG, RAIN, STARS, TREES, until
from treefine.studio.project import model_of

OTHER = STARS.replace("2\tobj", "1\tnmod") + DOG + RAIN
NO_PARSER = ("--model", "none", "--no-browser", "--port", "0")
REFUSED = {
    "-": "Standard input cannot be annotated. Name a file.",
    "ana.conllu": "ana.conllu: There is no such file. Did you mean anna.conllu?",
    "wsj.conllx": "wsj.conllx: Only CoNLL-U files can be annotated. Convert it first: treefine convert wsj.conllx wsj",
    "anna.conllu --adjudicate out.conllu": "--adjudicate needs two files, not 1. Name those of A and B.",
    "anna.conllu one.conllu --adjudicate out.conllu": "The files have 3 and 1 sentences. Adjudicate files of the same",
    "anna.conllu ben.conllu --adjudicate ./ben.conllu": "The result cannot be one of the two files. Name another",
    "anna.conllu --against bad.conllu": "bad.conllu:1: (sentence 1) The line must have 10 columns, not 1.",
    "bad.conllu": "bad.conllu:1: The line must have 10 columns, not 1. If this is a text, parse it first:",
    "anna.conllu ben.conllu --adjudicate out.conllu --learn --model none": "--learn needs a model. Name it with",
    "anna.conllu --model nosuch": "There is no model 'nosuch'. Choose a bundled one",
    "anna.conllu missing.conllu --model none": "missing.conllu: There is no such file.",
    "anna.conllu --model none --port USED": "Cannot listen on 127.0.0.1:",
}


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Write the files of two annotators to the working folder."""
    monkeypatch.chdir(tmp_path)
    Path("anna.conllu").write_text(TREES)
    Path("ben.conllu").write_text(OTHER)


@pytest.fixture
def run(monkeypatch):
    """Return a function that runs the command in this process, with a visit of its app instead of a server."""
    before = signal.getsignal(signal.SIGTERM)

    def make(*arguments, visit=lambda client: client.get("project").json()):
        answers = []

        def serve(server, sockets):
            (token,) = [path.read_text() for path in Path().rglob("*.annotation/token")]
            answers.append(visit(TestClient(server.config.app, base_url=f"http://127.0.0.1/{token}/api/")))

        monkeypatch.setattr("uvicorn.Server.run", serve)
        result = invoke("annotate", *arguments)
        return result, answers[0]

    yield make
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(("arguments", "message"), REFUSED.items(), ids=REFUSED)
def test_a_command_that_cannot_work_says_why_and_leaves_nothing(files, arguments, message):
    Path("wsj.conllx").write_text(RAIN.partition("\n")[2].partition("\n")[2])
    Path("one.conllu").write_text(RAIN)
    Path("bad.conllu").write_text("bad\n\n")
    before = sorted(Path().iterdir())

    with socket.create_server(("127.0.0.1", 0)) as used:
        words = arguments.replace("USED", str(used.getsockname()[1])).split()
        assert failed(invoke, "annotate", *words).startswith(message)

    assert sorted(Path().iterdir()) == before


def test_files_and_folders_are_opened_once_and_nothing_is_left(files, run):
    Path("more").mkdir()
    Path("more/c.conllu").write_text(RAIN)
    before = sorted(Path().rglob("*"))

    result, project = run("anna.conllu", "more", "*.conllu", "./anna.conllu", *NO_PARSER)

    assert [each["name"] for each in project["files"]] == ["anna.conllu", "c.conllu", "ben.conllu"]
    assert (project["parser"], sorted(Path().rglob("*"))) == (None, before)
    assert re.fullmatch(r"treefine: http://127\.0\.0\.1:\d+/[\w-]{16}/\n", result.stderr)


def test_two_files_are_adjudicated_into_a_third_one_and_their_agreement_is_printed(files, run):
    result, project = run("anna.conllu", "ben.conllu", "--adjudicate", "agreed.conllu", *NO_PARSER)

    assert (project["files"][0]["name"], project["references"]) == ("agreed.conllu", ["anna.conllu", "ben.conllu"])
    assert Path("agreed.conllu").read_text() == TREES
    assert result.stdout.startswith("16 words in 3 sentences.\n")
    assert run("ben.conllu", "--against", "anna.conllu", *NO_PARSER)[1]["references"] == ["anna.conllu"]


@pytest.mark.parametrize(
    ("model", "language", "identified", "chosen"),
    [
        (None, None, "en", ("en", None)),
        (None, "en", "mt", ("en", None)),
        ("my-model", None, "mt", ("my-model", None)),
        ("multi", "sv", "mt", ("multi", "sv")),
        ("none", "sv", "mt", None),
        (None, None, "xx", None),
    ],
)
def test_the_parser_is_that_of_the_language_or_the_one_that_the_user_names(model, language, identified, chosen):
    warnings = []

    assert model_of(model, language, identified, warnings.append) == chosen
    assert len(warnings) == (identified == "xx")


def test_a_model_that_cannot_be_loaded_is_a_fault_and_marks_can_be_left_out_of_the_file(files, run):
    def visit(client):
        client.get("sentence?file=0&key=1")
        until(lambda: client.get("status").json()["parser"]["fault"])
        action = {"do": "label", "word": 4, "label": "iobj"}
        assert client.post("edit", json={"key": 1, "id": "a", "action": action}).status_code == 200
        return client.get("status").json()["parser"]

    _, parser = run("anna.conllu", "--no-marks", "--model", "./missing-model", *NO_PARSER[2:], visit=visit)

    assert (parser["is_ready"], "missing-model" in parser["fault"]) == (False, True)
    assert Path("anna.conllu").read_text() == TREES.replace("\tobj", "\tiobj")
