"""The annotate command: what it opens, what it refuses, and that a killed command loses nothing."""

import gzip
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

import treefine.serving
import treefine.studio
from tests.support.commands import failed, invoke
from tests.support.studio_files import until
from tests.support.studio_pages import DOG, RAIN, STARS, TREES
from treefine.cli import annotate

OTHER = STARS.replace("2\tobj", "1\tnmod") + DOG + RAIN
NO_PARSER = ("--model", "none", "--no-browser", "--port", "0")


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Write the files of two annotators to the working folder."""
    monkeypatch.chdir(tmp_path)
    Path("anna.conllu").write_text(TREES)
    Path("ben.conllu").write_text(OTHER)


@pytest.fixture
def run(monkeypatch):
    """Return a function that runs the command in this process, with a visit of its app instead of a server.

    The visit gets a client; the function returns the result of the command and what the visit returns.
    """

    def make(*arguments, visit=lambda client: None):
        found = []

        def serve(server, sockets):
            (token,) = [path.read_text() for path in Path().rglob("*.annotation/token")]
            client = TestClient(server.config.app, base_url=f"http://127.0.0.1/{token}/api/")
            found.append(visit(client))

        monkeypatch.setattr("uvicorn.Server.run", serve)
        result = invoke("annotate", *arguments)
        return result, found[0]

    before = signal.getsignal(signal.SIGTERM)
    yield make
    signal.signal(signal.SIGTERM, before)


def project_json(client):
    return client.get("project").json()


def edited(client, action, *, key=1):
    answer = client.post("edit", json={"key": key, "id": f"id {key}", "action": action})
    assert answer.status_code == 200


# Commands that are refused


@pytest.mark.parametrize("name", ["uvicorn", "fastapi"])
def test_an_error_about_a_missing_package_contains_the_command_to_install_it(monkeypatch, name):
    monkeypatch.setattr(treefine, "serving", treefine.serving)  # importing them again would replace them
    monkeypatch.setattr(treefine, "studio", treefine.studio)
    for module in [each for each in sys.modules if each.startswith(("treefine.serving", "treefine.studio"))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, name, None)

    assert failed(invoke, "annotate") == f"The page needs {name}. Install it with: pip install 'treefine[serve]'"


REFUSED = {
    "-": "Standard input cannot be annotated. Name a file.",
    "ana.conllu": "ana.conllu: There is no such file. Did you mean anna.conllu?",
    "wsj.conllx": "wsj.conllx: Only CoNLL-U files can be annotated. Convert it first: treefine convert wsj.conllx wsj",
    "none-*.conllu": "none-*.conllu: There is no such file.",
    "empty": "empty: There is no treebank in this folder. File names must end in .conllu;",
    "anna.conllu --adjudicate out.conllu": "--adjudicate needs two files, not 1. Name those of A and B.",
    "anna.conllu ben.conllu one.conllu --adjudicate out.conllu": "--adjudicate needs two files, not 3.",
    "anna.conllu one.conllu --adjudicate out.conllu": "The files have 3 and 1 sentences. Adjudicate files of the same",
    "anna.conllu ben.conllu --adjudicate ./ben.conllu": "The result cannot be one of the two files. Name another",
    "wsj.conllx one.conllu --adjudicate out.conllu": "wsj.conllx: Only CoNLL-U files can be annotated.",
    "anna.conllu --adjudicate x --against ben.conllu": "--against and --adjudicate cannot be combined.",
    "anna.conllu --against missing.conllu": "missing.conllu: There is no such file.",
    "anna.conllu --against bad.conllu": "bad.conllu:1: (sentence 1) The line must have 10 columns, not 1.",
    "bad.conllu": "bad.conllu:1: The line must have 10 columns, not 1. If this is a text, parse it first:",
    "anna.conllu --learn --model none": "--learn needs a model. Name it with --model.",
    "anna.conllu ben.conllu --adjudicate out.conllu --learn --model none": "--learn needs a model. Name it with",
    "anna.conllu ben.conllu --adjudicate out.conllx": "out.conllx: Only CoNLL-U files can be annotated.",
    "anna.conllu --model nosuch": "There is no model 'nosuch'. Choose a bundled one",
    "anna.conllu missing.conllu --model none": "missing.conllu: There is no such file.",
    "anna.conllu --model none --port USED": "Cannot listen on 127.0.0.1:",
}


@pytest.mark.parametrize(("arguments", "message"), REFUSED.items(), ids=REFUSED)
def test_a_command_that_cannot_work_says_why_and_leaves_nothing(files, arguments, message):
    Path("wsj.conllx").write_text(RAIN.partition("\n")[2].partition("\n")[2])
    Path("one.conllu").write_text(RAIN)
    Path("bad.conllu").write_text("bad\n\n")
    Path("empty").mkdir()
    before = sorted(Path().iterdir())

    with socket.create_server(("127.0.0.1", 0)) as used:
        words = arguments.replace("USED", str(used.getsockname()[1])).split()
        assert failed(invoke, "annotate", *words).startswith(message)

    assert sorted(Path().iterdir()) == before


# Commands that open files


def test_files_folders_and_patterns_are_opened_once_and_nothing_is_left(files, run):
    Path("more").mkdir()
    Path("more/c.conllu").write_text(RAIN)
    Path("more/notes.txt").write_text("not a treebank")
    before = sorted(Path().rglob("*"))

    result, project = run("anna.conllu", "more", "*.conllu", "./anna.conllu", *NO_PARSER, visit=project_json)

    assert [each["name"] for each in project["files"]] == ["anna.conllu", "c.conllu", "ben.conllu"]
    assert project["parser"] is None
    assert re.fullmatch(r"treefine: http://127\.0\.0\.1:\d+/[\w-]{16}/\n", result.stderr)
    assert sorted(Path().rglob("*")) == before


def test_the_page_opens_in_a_browser(files, run, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)

    result, _ = run("anna.conllu", "--model", "none", "--port", "0")

    assert result.stderr == f"treefine: {opened[0]}\n"


def test_another_port_is_used_if_the_default_one_is_in_use(files, run, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = used.getsockname()[1]
        monkeypatch.setattr(annotate, "_PORT", port)

        result, _ = run("anna.conllu", *NO_PARSER[:3], "--port", port)

    assert "http://127.0.0.1:" in result.stderr
    assert f":{port}/" not in result.stderr


def test_another_file_is_compared_and_its_agreement_is_printed(files, run):
    def visit(client):
        return project_json(client)["references"], client.get("queue?order=difference").json()["keys"]

    result, found = run("anna.conllu", "--against", "ben.conllu", *NO_PARSER, visit=visit)

    assert found == (["ben.conllu"], [1, 2, 3])
    assert result.stdout.startswith("16 words in 3 sentences.\n")
    assert re.search(r"^head \(UAS\) +93\.75", result.stdout, re.MULTILINE)


def test_two_files_are_adjudicated_into_a_third_one_that_is_kept(files, run):
    Path("anna.conllu.gz").write_bytes(gzip.compress(TREES.encode()))
    arguments = ("anna.conllu.gz", "ben.conllu", "--adjudicate", "agreed.conllu", *NO_PARSER)

    _, project = run(*arguments, visit=project_json)

    assert [each["name"] for each in project["files"]] == ["agreed.conllu"]
    assert project["references"] == ["anna.conllu.gz", "ben.conllu"]
    assert Path("agreed.conllu").read_text() == TREES
    Path("agreed.conllu").write_text(OTHER)
    run(*arguments)
    assert Path("agreed.conllu").read_text() == OTHER


def test_annotators_whose_files_have_the_same_name_are_shown_with_their_folders(files, run):
    for name in ("a", "b"):
        Path(name).mkdir()
        Path(name, "trees.conllu").write_text(TREES)

    _, project = run(
        "a/trees.conllu", "b/trees.conllu", "--adjudicate", "agreed.conllu", *NO_PARSER, visit=project_json
    )

    assert project["references"] == ["a/trees.conllu", "b/trees.conllu"]


def test_a_file_of_an_unknown_language_opens_without_a_parser(files, run, monkeypatch):
    monkeypatch.setattr(annotate, "model_for", lambda language: None)

    result, project = run("anna.conllu", *NO_PARSER[2:], visit=project_json)

    assert project["parser"] is None
    assert result.stderr.startswith(
        "treefine: warning: No installed model knows the language en, so the files open without a parser. "
        "Name one with --model.\n"
    )


@pytest.mark.parametrize(
    ("model", "language", "identified", "chosen"),
    [
        (None, None, "en", ("en", None)),
        (None, "en", "mt", ("en", None)),
        ("en", None, "mt", ("en", None)),
        ("my-model", None, "mt", ("my-model", None)),
        ("my-model", "sv", "mt", ("my-model", "sv")),
        ("multi", "sv", "mt", ("multi", "sv")),
    ],
)
def test_the_parser_is_that_of_the_language_or_the_one_that_the_user_names(model, language, identified, chosen):
    assert annotate._parser_of(model, language, identified) == chosen


def test_a_model_that_does_not_exist_is_a_fault_and_the_file_can_be_edited(files, run):
    def visit(client):
        client.get("sentence?file=0&key=1")
        until(lambda: client.get("status").json()["parser"]["fault"])
        edited(client, {"do": "status", "value": "done"})
        return client.get("status").json()["parser"]

    _, parser = run("anna.conllu", "--model", "./missing-model", *NO_PARSER[2:], visit=visit)

    assert not parser["is_ready"]
    assert "missing-model" in parser["fault"]
    assert "# treefine_status = done" in Path("anna.conllu").read_text()


def test_marks_can_be_left_out_of_the_file(files, run):
    label = {"do": "label", "word": 4, "label": "iobj"}

    run("anna.conllu", "--no-marks", *NO_PARSER, visit=lambda client: edited(client, label))

    assert Path("anna.conllu").read_text() == TREES.replace("\tobj", "\tiobj")
    assert "Keep=Arc" in Path("anna.conllu.annotation/journal.jsonl").read_text()


def test_a_file_that_could_not_be_written_is_reported_at_the_end_and_at_the_next_start(files, run):
    def visit(client):
        edited(client, {"do": "status", "value": "done"})
        Path("anna.conllu").write_text(RAIN)
        edited(client, {"do": "status", "value": "done"}, key=2)

    ended, _ = run("anna.conllu", *NO_PARSER, visit=visit)
    assert Path("anna.conllu").read_text() == RAIN
    started, _ = run("anna.conllu", *NO_PARSER)

    assert "treefine: warning: Another program has changed anna.conllu, so it is not written any more." in ended.stderr
    assert "treefine: warning: anna.conllu was changed by another program since it was last" in started.stderr


# The command as a process


class Command:
    """A running command, and requests to it."""

    def __init__(self, *arguments, cwd, **environment):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "treefine", "annotate", *map(str, arguments), "--no-browser"],
            cwd=cwd,
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        line = self.process.stderr.readline()
        found = re.fullmatch(r"treefine: (http://127\.0\.0\.1:(\d+)/([\w-]{16})/)\n", line)
        assert found, line + self.process.stderr.read()
        self.address, self.port, self.token = found.groups()

    def ask(self, path, body=None):
        """Return the JSON of an answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.address}api/{path}", data, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)

    def end(self, how=signal.SIGINT):
        """End the command, and return its exit code and the rest of its messages."""
        self.process.send_signal(how)
        _, messages = self.process.communicate(timeout=20)
        return self.process.returncode, messages


@contextmanager
def started(*arguments, cwd, **environment):
    """Run the command on a free port, unless another one is named."""
    port = () if "--port" in arguments else ("--port", "0")
    command = Command(*arguments, *port, cwd=cwd, **environment)
    try:
        yield command
    finally:
        command.process.kill()
        command.process.communicate()


def test_the_example_opens_and_ctrl_c_leaves_nothing(tmp_path):
    with started("--model", "none", cwd=tmp_path, TMPDIR=str(tmp_path)) as command:
        project = command.ask("project")
        assert list(tmp_path.rglob("example.conllu"))
        code, messages = command.end()

    assert (project["is_example"], project["parser"]) == (True, None)
    assert (code, messages) == (130, "treefine: Stopped.\n")
    assert list(tmp_path.iterdir()) == []


def test_the_parser_is_loaded_in_the_background_and_follows_a_correction(tmp_path):
    with started(cwd=tmp_path, TMPDIR=str(tmp_path)) as command:
        assert not command.ask("project")["parser"]["is_ready"]
        assert command.ask("sentence?file=0&key=1")["words"][8]["form"] == "pages"
        until(lambda: command.ask("status")["parser"]["is_ready"])
        command.ask("edit", {"key": 1, "id": "a", "action": {"do": "arc", "word": 9, "head": 6}})
        followed = command.ask("follow", {"key": 1, "version": 1, "id": "b"})
        code, _ = command.end()

    assert followed["words"] == [{"word": 9, "head": 6, "label": "obl"}]
    assert followed["sentences"][0]["words"][8]["label"] == "nmod"
    assert code == 130
    assert list(tmp_path.iterdir()) == []


def test_a_command_that_was_killed_while_a_person_edits_loses_no_acknowledged_change(tmp_path):
    path = tmp_path / "trees.conllu"
    path.write_text(TREES)
    labels = ["iobj", "obl", "obj", "xcomp"]
    acknowledged = []

    def edit(command):
        with suppress(urllib.error.URLError, OSError, json.JSONDecodeError):  # until the command is killed
            while True:
                number = len(acknowledged)
                action = {"do": "label", "word": 4, "label": labels[number % 4]}
                found = command.ask("edit", {"key": 1, "version": number, "id": f"id {number}", "action": action})
                assert found["is_changed"]
                acknowledged.append(action["label"])

    with started(path, "--model", "none", cwd=tmp_path) as first:
        editing = threading.Thread(target=edit, args=(first,))
        editing.start()
        until(lambda: len(acknowledged) > 12)
        first.process.kill()
        editing.join()
    assert first.process.returncode == -signal.SIGKILL

    with started(path, "--model", "none", "--port", first.port, cwd=tmp_path) as second:
        assert second.address == first.address
        status, sentence = second.ask("status"), second.ask("sentence?file=0&key=1")
        code, _ = second.end(signal.SIGTERM)
    assert code == 128 + signal.SIGTERM
    assert status["revision"] in (len(acknowledged), len(acknowledged) + 1)  # the last answer may have been lost
    label = labels[(status["revision"] - 1) % 4]
    assert (sentence["version"], sentence["words"][3]["label"]) == (status["revision"], label)
    assert path.read_text() == TREES.replace("obj\t_\tSpaceAfter=No", f"{label}\t_\tSpaceAfter=No|Keep=Arc")

    with started(path, "--model", "none", cwd=tmp_path) as third:
        for number in range(status["revision"]):
            assert third.ask("undo", {"id": f"undo {number}"})["is_changed"]
        third.end()
    assert path.read_text() == TREES
