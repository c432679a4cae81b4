"""The annotate command as a process: Ctrl-C leaves nothing, and a killed command loses no acknowledged change."""

import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import suppress

import httpx

from tests.support.studio import TREES, until


class Command:
    """A running command on a free port, unless another one is named, and requests to it."""

    def __init__(self, *arguments, cwd, port=0, **environment):
        command = [sys.executable, "-m", "treefine", "annotate", *arguments, "--no-browser", "--port", port]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(list(map(str, command)), cwd=cwd, env=os.environ | environment, **pipes)
        line = self.process.stderr.readline()
        found = re.fullmatch(r"treefine: (http://127\.0\.0\.1:(\d+)/[\w-]{16}/)\n", line)
        assert found, line + self.process.stderr.read()
        self.address, self.port = found.groups()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.communicate()

    def ask(self, path, body=None):
        """Return the JSON of an answer."""
        answer = httpx.request("GET" if body is None else "POST", f"{self.address}api/{path}", json=body, timeout=20)
        return answer.raise_for_status().json()

    def end(self, how=signal.SIGINT):
        """End the command, and return its exit code and the rest of its messages."""
        self.process.send_signal(how)
        _, messages = self.process.communicate(timeout=20)
        return self.process.returncode, messages


def test_the_example_opens_and_ctrl_c_leaves_nothing(tmp_path):
    with Command("--model", "none", cwd=tmp_path, TMPDIR=str(tmp_path)) as command:
        project = command.ask("project")
        assert list(tmp_path.rglob("example.conllu"))
        code, messages = command.end()

    assert (project["is_example"], project["parser"]) == (True, None)
    assert (code, messages) == (130, "treefine: Stopped.\n")
    assert list(tmp_path.iterdir()) == []


def test_the_parser_is_loaded_in_the_background_and_follows_a_correction(tmp_path):
    with Command(cwd=tmp_path, TMPDIR=str(tmp_path)) as command:
        assert not command.ask("project")["parser"]["is_ready"]
        assert command.ask("sentence?file=0&key=1")["words"][8]["form"] == "pages"
        until(lambda: command.ask("status")["parser"]["is_ready"])
        command.ask("edit", {"key": 1, "id": "a", "action": {"do": "arc", "word": 9, "head": 6}})
        followed = command.ask("follow", {"key": 1, "version": 1, "id": "b"})
        code, _ = command.end()

    assert followed["words"] == [9]
    assert followed["sentences"][0]["words"][8]["label"] == "nmod"
    assert code == 130
    assert list(tmp_path.iterdir()) == []


def test_a_command_that_was_killed_while_a_person_edits_loses_no_acknowledged_change(tmp_path):
    path = tmp_path / "trees.conllu"
    path.write_text(TREES)
    labels = ["iobj", "obl", "obj", "xcomp"]
    acknowledged = []

    def edit(command):
        with suppress(httpx.HTTPError):  # until the command is killed
            while True:
                number = len(acknowledged)
                action = {"do": "label", "word": 4, "label": labels[number % 4]}
                found = command.ask("edit", {"key": 1, "version": number, "id": f"id {number}", "action": action})
                assert found["is_changed"]
                acknowledged.append(action["label"])

    with Command(path, "--model", "none", cwd=tmp_path) as first:
        editing = threading.Thread(target=edit, args=(first,))
        editing.start()
        until(lambda: len(acknowledged) > 12)
        first.process.kill()
        editing.join()
    assert first.process.returncode == -signal.SIGKILL

    with Command(path, "--model", "none", port=first.port, cwd=tmp_path) as second:
        assert second.address == first.address
        status, sentence = second.ask("status"), second.ask("sentence?file=0&key=1")
        code, _ = second.end(signal.SIGTERM)
    assert code == 128 + signal.SIGTERM
    assert status["revision"] in (len(acknowledged), len(acknowledged) + 1)  # the last answer may have been lost
    label = labels[(status["revision"] - 1) % 4]
    assert (sentence["version"], sentence["words"][3]["label"]) == (status["revision"], label)
    assert path.read_text() == TREES.replace("obj\t_\tSpaceAfter=No", f"{label}\t_\tSpaceAfter=No|Keep=Arc")

    with Command(path, "--model", "none", cwd=tmp_path) as third:
        for number in range(status["revision"]):
            assert third.ask("undo", {"id": f"undo {number}"})["is_changed"]
        third.end()
    assert path.read_text() == TREES
