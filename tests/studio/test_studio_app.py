"""The JSON of the studio: what each route answers, and how it refuses."""

import json

import pytest
from fastapi.testclient import TestClient
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.studio import RAIN, STARS, TREES, Stub, reference, until
from treefine.studio import checks
from treefine.studio.app import create_studio
from treefine.studio.document import Document
from treefine.studio.project import Project

TOKEN = "a-secret-0123456"
TOKENS = (
    "# text = al mar\n1-2\tal\t_\t_\t_\t_\t_\t_\t_\t_\n1\ta\ta\tADP\t_\t_\t3\tcase\t_\tKeep=Arc\n"
    "2\tel\tel\tDET\t_\t_\t3\tdet\t_\tNotHead=1|NotLabel=case\n2.1\tnada\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "3\tmar\tmar\tNOUN\t_\t_\t0\troot\t_\t_\n\n"
)
STUB = {
    "confidences": {4: 0.3},
    "suggests": {4: (1, "nmod")},
    "follows": {(4, 1): [(5, 4, "punct")]},
    "parses": [(3, 2, "obj")],
}


class Studio:
    """A client of a studio, and its project."""

    def __init__(self, project):
        self.project = project
        app = create_studio(project, token=TOKEN)
        self.client = TestClient(app, base_url="http://localhost", raise_server_exceptions=False)

    def ask(self, method, path, body=None, status=200, **fields):
        """Return the JSON of an answer."""
        answer = self.client.request(method, f"/{TOKEN}/api/{path}", json=body, params=fields)
        assert answer.status_code == status, answer.text
        return answer.json()

    def get(self, path, **fields):
        return self.ask("GET", path, **fields)

    def edit(self, action, *, key=1, version=None, id="one", **fields):
        version = self.project.documents[0].version(key) if version is None else version
        return self.ask("POST", "edit", {"key": key, "version": version, "id": id, "action": action} | fields)


@pytest.fixture
def open_studio(open_project, monkeypatch):
    """Return a function that opens texts as the files of a studio."""
    monkeypatch.setattr(checks, "validator_of", lambda language: None)  # udtools takes longer to load than a test
    return lambda *texts, **options: Studio(open_project(*texts, **options))


@pytest.fixture
def studio(open_studio):
    """Return a studio on three sentences with a parser."""
    found = open_studio(partner=Stub(**STUB))
    until(lambda: found.project.expected_errors(0, 3) is not None)
    return found


# Who may ask


def test_only_addresses_with_the_token_exist(studio):
    for path in ("/", "/api/project", "/wrong-token-00000/api/project", f"/{TOKEN}/api/nothing", "/docs"):
        answer = studio.client.get(path)
        assert answer.status_code == 404
        assert answer.json()["error"]["hint"] == "Open the address that treefine annotate printed."


# Reading


def test_the_project_lists_files_values_and_the_parser(open_studio):
    studio = open_studio(TREES, RAIN, partner=Stub(labels=("of:model",)), references=[reference(STARS)])

    about = studio.get("project")

    first, second = about["files"]
    assert (first["name"], first["notice"]) == ("a.conllu", "")
    assert (first["upos"][0], second["labels"][:3]) == ("NOUN", ["nsubj", "root", "punct"])
    assert {"of:model", "orphan"} < set(second["labels"])
    assert about["parser"] == {"name": "stub", "is_ready": True, "fault": ""}
    assert (about["references"], about["is_example"]) == (["B"], False)
    assert (about["agreement"]["uas"], about["doubtful"]) == (1.0, 0.8)


def test_the_queue_lists_keys_marked_words_and_progress(studio):
    studio.edit({"do": "status", "value": "done"}, key=3)
    studio.ask("POST", "spent", {"key": 3, "seconds": 2.5, "actions": 4})

    found = studio.get("queue", search="VERB -nsubj-> *", order="doubt")

    assert found["keys"] == [2, 1, 3]
    assert found["marked"] == {"1": [1, 2], "2": [3, 4], "3": [1, 2]}
    assert found["counts"] == {"done": 1, "doubtful": 0, "open": 2}
    assert (found["seconds"], found["actions"], found["visited"], found["revision"]) == (2.5, 4, 1, 1)
    assert (found["can_undo"], found["can_redo"], found["rated"]) == (True, False, 3)
    assert found["errors_left"] == pytest.approx(1.7, abs=0.1)
    assert studio.get("queue", show="done")["keys"] == [3]


def test_a_sentence_has_words_tokens_empty_nodes_decisions_and_faults(open_studio):
    studio = open_studio(TOKENS.replace("3\tdet", "2\tdet") + STARS.replace("She", "هيهيهيهيهيهيهي"))

    found = studio.get("sentence", file=0, key=1)

    assert [each["form"] for each in found["words"]] == ["a", "el", "mar"]
    assert found["tokens"] == [{"form": "al", "first": 1, "last": 2}]
    assert found["empty"] == [{"id": "2.1", "after": 2, "form": "nada"}]
    first, second, _ = found["words"]
    assert (first["keeps_head"], first["keeps_label"], first["head"], first["label"]) == (True, True, 3, "case")
    assert (second["keeps_head"], second["not_heads"], second["not_labels"]) == (False, [1], ["case"])
    assert [(each["word"], each["source"]) for each in found["faults"]] == [(2, "treefine")]
    assert (found["number"], found["version"], found["status"], found["is_changed"]) == (1, 0, "open", False)
    assert (found["direction"], found["text"], found["others"]) == ("ltr", "al mar", [])
    assert "\n".join(found["lines"]) + "\n\n" == TOKENS.replace("3\tdet", "2\tdet")
    assert studio.get("sentence", file=0, key=2)["direction"] == "rtl"


def test_lines_that_are_not_a_sentence_are_shown_with_their_faults(open_studio):
    content = b"\xef\xbb\xbf# sent_id = x\r\n1\tcaf\xe9\r\n\r\n1\t\0\r\n\r\n" + STARS.encode()
    studio = open_studio(content)

    found, null, good = (studio.get("sentence", file=0, key=key) for key in (1, 2, 3))

    assert (found["words"], found["lines"], found["sent_id"]) == (None, ["# sent_id = x", "1\tcaf\ufffd"], "x")
    assert [each["message"] for each in found["faults"]][0] == "line 2: Byte 0xe9 is not UTF-8."
    assert "null byte" in null["faults"][0]["message"]
    assert good["words"]
    assert [each["key"] for each in studio.get("rows", keys="1,2,3")] == [1, 2, 3]
    lines = ["1\tcafé\t_\t_\t_\t_\t0\troot\t_\t_"]
    assert studio.edit({"do": "source", "lines": lines})["sentences"][0]["words"][0]["form"] == "café"


# Changing


def test_an_edit_answers_with_the_sentence_and_the_arcs_that_are_new(studio):
    found = studio.edit({"do": "arc", "word": 4, "head": 1})

    assert (found["is_changed"], found["words"]) == (True, [4])
    assert not found["is_new_order"]
    (sentence,) = found["sentences"]
    assert (sentence["version"], sentence["words"][3]["head"], sentence["is_changed"]) == (1, 1, True)
    assert (found["revision"], found["can_undo"], found["can_redo"]) == (1, True, False)


# Requests that are refused

EDIT = {"key": 1, "version": 0, "id": "x", "action": {"do": "arc", "word": 4, "head": 1}}


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("GET", "queue?file=9", None, 400, "There is no file 9."),
        ("GET", "queue?order=random", None, 422, ""),
        ("GET", "sentence?file=0&key=9", None, 409, "This sentence does not exist any more."),
        ("POST", "edit", EDIT | {"version": 3}, 409, "This sentence was changed in another tab."),
        ("POST", "edit", EDIT | {"id": ""}, 422, "id: String should have at least 1 character"),
        ("POST", "edit", EDIT | {"action": {}}, 422, "action.do: Field required"),
        ("POST", "edit", EDIT | {"action": {"do": "fly"}}, 400, "There is no action 'fly'."),
        ("POST", "edit", EDIT | {"action": {"do": "label", "word": 4, "label": "objj"}}, 422, "the label 'objj'"),
        ("POST", "undo", {"id": "x", "revision": 5}, 409, "The file was changed in another tab."),
        ("POST", "spent", {"key": 1, "seconds": -1, "actions": 0}, 422, "seconds: Input should be greater than or eq"),
        ("POST", "adopt", None, 400, "There is no new model."),
    ],
)
def test_a_wrong_request_is_answered_with_the_reason(studio, method, path, body, status, message):
    answer = studio.client.request(method, f"/{TOKEN}/api/{path}", json=body)

    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert error["status"] == status
    assert message in error["message"]
    assert studio.project.documents[0].revision == 0


NUMBERS = st.none() | st.integers(-2, 9) | st.just(10**30)
TEXTS = st.none() | st.sampled_from(["", "obj", "head", "form", "misc", "done", "a|b,c", "_"]) | st.text(max_size=5)
ANY_ACTION = st.fixed_dictionaries(
    {
        "do": st.sampled_from(
            "arc label tree keep free forbid cell split_word join_words make_multiword split_into_multiword "
            "remove_multiword comments status split_sentence join_sentences source".split()
        ),
        "is_new": st.booleans(),
    },
    optional={
        **{name: NUMBERS for name in ("word", "last", "head")},
        **{name: TEXTS for name in ("label", "column", "value")},
        **{name: st.lists(st.text(max_size=5) | st.just(RAIN), max_size=3) for name in ("forms", "lines")},
        "arcs": st.lists(
            st.tuples(st.integers(-1, 6), st.none() | st.integers(-1, 6), st.text(max_size=4)), max_size=3
        ),
        "words": st.lists(st.integers(-1, 9), max_size=3),
    },
)


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory):
    """Return one studio for all examples, with sentences of each kind."""
    path = tmp_path_factory.mktemp("fuzzed") / "file.conllu"
    path.write_bytes(
        b"\xef\xbb\xbf" + TOKENS.replace("\n", "\r\n").encode() + b"1\tcaf\xe9\n\n" + TREES.encode().rstrip()
    )
    project = Project([Document(path)], partner=Stub(**STUB))
    yield Studio(project)
    project.close()


@given(keys=st.integers(0, 5), action=ANY_ACTION, confirms=st.booleans())
@example(keys=3, action={"do": "tree", "arcs": [(1, 2, "\ud800")]}, confirms=False)
@example(keys=3, action={"do": "comments", "lines": ["\udcff"]}, confirms=False)
@example(keys=1, action={"do": "source", "lines": ["\ud800", RAIN]}, confirms=True)
def test_any_action_is_answered_and_leaves_a_valid_file(fuzzed, keys, action, confirms):
    document = fuzzed.project.documents[0]
    key = document.keys[keys % len(document.keys)]
    body = {"key": key, "version": document.version(key), "id": f"edit {document.revision}", "action": action}

    answer = fuzzed.client.post(
        f"/{TOKEN}/api/edit",
        content=json.dumps(body | {"confirms": confirms}),
        headers={"content-type": "application/json"},
    )

    assert answer.status_code in (200, 400, 422), answer.text
    if answer.status_code == 200:
        assert all(each["words"] for each in answer.json()["sentences"] if answer.json()["is_changed"])
    else:
        assert answer.json()["error"]["message"]
    assert document.content().decode(errors="replace")
    assert "".join(map(document.text, document.keys)).encode(errors="surrogateescape") == document.content()
    if document.undo_stack:
        undone = fuzzed.ask("POST", "undo", {"id": f"undo {document.revision}"})
        assert undone["is_changed"]
