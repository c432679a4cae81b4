"""A file that a person edits: opening, changes, undo, keys, versions and marks."""

import gzip
import stat
import threading

import pytest

from tests.support.studio_files import DONE, MIXED, change, label, texts
from tests.support.studio_pages import DOG, RAIN, STARS, TREES
from treefine.errors import TreebankError
from treefine.studio import document as document_module
from treefine.studio.actions import Action, act
from treefine.studio.document import Document, StaleError

# Opening and closing


def test_a_file_that_is_only_read_stays_as_it_is_and_nothing_is_left_beside_it(path, open_file):
    before = path.stat()

    document = open_file()
    assert texts(document) == [STARS, DOG, RAIN]
    document.spend(1, 5.0, 0)
    document.token()
    document.save()
    document.close()

    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    assert list(path.parent.iterdir()) == [path]


def test_a_second_session_on_the_same_file_is_refused_until_the_first_ends(path, open_file):
    first = open_file()

    with pytest.raises(TreebankError, match="Another treefine annotate has opened this file. Close it there first"):
        Document(path)
    path.with_name("link.conllu").symlink_to(path)
    with pytest.raises(TreebankError, match="Another treefine annotate has opened this file."):
        Document(path.with_name("link.conllu"))  # a link and its target are one file
    first.close()

    assert len(open_file().keys) == 3


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.conllu", None, "There is no such file."),
        ("wsj.conllx", b"1\ta\n\n", "Only CoNLL-U files can be annotated. Convert it first: treefine convert {}"),
        ("wsj.v2.conll.gz", gzip.compress(b"x", mtime=0), "Convert it first: treefine convert {} {folder}/wsj.conllu"),
        ("wide.conllu", STARS.encode("utf-16"), "This file is UTF-16 or UTF-32."),
        ("empty.conllu", b"\n\n", "The file contains no sentences."),
        ("zeros.conllu", b"\0" * 100, "contains null bytes"),
        ("packed.conllu.gz", STARS.encode(), "This is not a .gz file"),
    ],
)
def test_a_file_that_cannot_be_edited_is_refused_and_nothing_is_left_beside_it(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(TreebankError) as error:
        Document(path)

    assert message.format(path, folder=tmp_path) in str(error.value)
    assert list(tmp_path.iterdir()) == ([path] if content is not None else [])


def test_the_token_stays_the_same_over_a_restart_and_only_the_owner_can_read_it(open_file):
    document = open_file()
    token = document.token()
    change(document, DONE)
    document.close()

    again = open_file()

    assert again.token() == token
    assert len(token) == 16
    assert stat.S_IMODE((again.folder / "token").stat().st_mode) == 0o600


# Changing


def test_changes_are_written_soon_without_being_asked_for(path, monkeypatch):
    monkeypatch.setattr(document_module, "_PAUSE", 0.0)
    document, written = Document(path), threading.Event()
    save, document.save = document.save, lambda: (save(), written.set())

    change(document, DONE)

    assert written.wait(10)
    assert "# treefine_status = done" in path.read_text()
    document.close()


def test_undo_and_redo_have_no_limit_and_survive_restarts(path, open_file):
    names = ["iobj", "obl", "ccomp", "xcomp", "obj"]
    document, states = open_file(), [TREES]
    for number, name in enumerate(names):
        change(document, label(4, name), id=f"change {number}")
        states.append(document.content().decode())

    for number, expected in enumerate(reversed(states[:-1])):
        document.close()
        assert path.read_text() == document.content().decode()
        document = open_file()
        assert document.undo(f"undo {number}").kind == "undo"
        assert document.content().decode() == expected
    assert document.undo("nothing left") is None
    assert not document.undo_stack
    for number, expected in enumerate(states[1:]):
        document.close()
        document = open_file()
        assert document.redo(f"redo {number}").what == "label"
        assert document.content().decode() == expected
    assert document.redo("nothing left") is None
    assert not document.redo_stack


def test_the_same_id_is_applied_once_also_after_a_restart(open_file):
    document = open_file()
    first = change(document, label(4, "iobj"), id="same")

    assert change(document, label(4, "obl"), id="same") == first
    assert document.undo("also once").after[0].text == STARS
    assert document.undo("also once").after[0].text == STARS
    document.close()
    document = open_file()

    assert document.changes["same"] == first
    assert change(document, label(4, "obl"), id="same") == first
    assert document.undo("also once").kind == "undo"
    assert document.revision == 2
    assert document.text(1) == STARS


def test_a_change_of_an_old_version_is_refused(open_file):
    document = open_file()
    change(document, label(4, "iobj"), id="a", versions=[0])
    assert document.version(1) == 1

    with pytest.raises(StaleError, match="This sentence was changed in another tab."):
        change(document, label(4, "obl"), id="b", versions=[0])
    change(document, label(4, "obl"), id="c", versions=[1])
    document.undo("d")

    assert document.version(1) == 3
    assert document.version(2) == 0


def test_only_neighbours_that_exist_can_be_replaced(open_file):
    document = open_file()
    joined = act(document, 1, Action("join_sentences"))[1]

    with pytest.raises(StaleError, match="not neighbours"):
        document.replace([1, 3], joined, what="join", id="a")
    document.replace([1, 2], joined, what="join", id="b")
    with pytest.raises(StaleError, match="This sentence does not exist any more. It was joined with another one."):
        change(document, DONE, key=2, id="c")
    for read in (document.text, document.sentence, document.status, document.place, document.is_changed):
        with pytest.raises(StaleError):
            read(2)


def test_the_time_spent_survives_a_restart_also_if_it_was_spent_before_the_first_change(open_file):
    document = open_file()
    document.spend(1, 2.5, 0)
    change(document, DONE, key=2)
    document.spend(1, 1.0, 3)
    document.spend(2, 0.5, 1)
    document.spend(99, 100.0, 100)
    document.close()

    assert open_file().spent == {1: (3.5, 3), 2: (0.5, 1)}


@pytest.mark.parametrize(
    ("comment", "status"),
    [
        ("# treefine_status = done", "done"),
        ("#treefine_status=doubtful", "doubtful"),
        ("# treefine_status = done ", "done"),
        ("# treefine_status = open", "open"),
        ("# treefine_status = nearly done", "open"),
        ("# the treefine_status = done", "open"),
    ],
)
def test_the_status_is_a_comment_that_is_replaced_in_its_place(path, open_file, comment, status):
    path.write_text(f"{comment}\n{STARS}")

    document = open_file()
    assert document.status(1) == status
    for number, new in enumerate(["doubtful", "done", "open"]):
        change(document, Action("status", value=new), id=str(number))
        assert document.status(1) == new

    assert document.content().decode() == (
        STARS if "# treefine" in comment or status != "open" else f"{comment}\n{STARS}"
    )


# Marks


def test_without_marks_the_file_has_none_and_the_journal_has_all(path, open_file):
    document = open_file(has_marks=False)
    change(document, label(4, "iobj"), id="a")
    change(document, DONE, id="b")
    change(document, Action("keep", words=(1, 2)), key=2, id="c")
    document.close()

    assert path.read_text() == STARS.replace("\tobj", "\tiobj") + DOG + RAIN
    assert document.content(has_marks=False) == path.read_bytes()
    again = open_file(has_marks=False)
    assert again.status(1) == "done"
    assert b"Keep=Arc" in again.content()
    again.close()
    with_marks = open_file()
    with_marks.close()
    assert path.read_bytes() == with_marks.content(has_marks=True)


def test_a_sentence_with_new_marks_only_stays_byte_for_byte_in_a_file_without_marks(tmp_path, open_file):
    path = tmp_path / "file.conllu"
    mixed = MIXED.replace("SpaceAfter=No", "SpaceAfter=No|Keep=Head", 1)
    path.write_bytes(mixed.encode())

    document = open_file(path, has_marks=False)
    for number, action in enumerate([DONE, Action("keep", words=(1,)), Action("free", words=(4,))]):
        change(document, action, id=str(number))
    document.close()

    assert path.read_bytes() == mixed.encode()
