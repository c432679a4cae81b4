"""Nothing is lost: kills at any moment, disks that fail, and other programs that change the file."""

import json
import shutil
import threading
from contextlib import contextmanager
from unittest import mock

import pytest

from tests.support.studio import DONE, RAIN, STARS, TREES, as_left_by_a_kill, change, label, texts, until
from treefine.errors import TreebankError
from treefine.studio import document as document_module
from treefine.studio.actions import Action
from treefine.studio.document import VERSION, Document, Journal, StaleError, trusted_hashes

# The journal: records that are on disk, whatever ends a write

FULL = OSError(28, "No space left on device")
NOT_WRITTEN = "could not be written: No space left on device"
START = {"record": "start", "version": VERSION, "hash": "h0"}


@pytest.fixture
def journal(tmp_path):
    """Return a journal with one record."""
    found = Journal(tmp_path / "journal.jsonl")
    found.append(START)
    return found


def records_of(journal):
    """Return what another process would read."""
    return Journal(journal.path).read()


def test_records_come_back_as_they_were_written(journal):
    texts = ["a\tb\n", "line\u2028separator\x85", "\ufeff", "byte \udcff of another encoding", "中\0\r\n"]

    journal.append({"record": "one", "texts": texts}, {"record": "two"})

    assert records_of(journal) == [START, {"record": "one", "texts": texts}, {"record": "two"}]


def test_a_last_line_of_any_length_is_dropped_and_the_next_record_replaces_it(journal):
    whole = journal.path.read_bytes()
    line = json.dumps({"record": "né"}, ensure_ascii=False).encode()

    for length in range(len(line) + 1):
        journal.path.write_bytes(whole + line[:length])
        again = Journal(journal.path)
        assert again.read() == [START]
        again.append({"record": "next"})
        assert records_of(again) == [START, {"record": "next"}]


def test_a_record_that_cannot_be_written_leaves_the_journal_as_it_was(journal):
    before = journal.path.read_bytes()

    with mock.patch("os.fsync", side_effect=FULL), pytest.raises(TreebankError, match=NOT_WRITTEN):
        journal.append({"record": "lost"})
    assert journal.path.read_bytes() == before
    journal.append({"record": "kept"})

    assert records_of(journal) == [START, {"record": "kept"}]


def test_a_journal_that_was_moved_away_is_not_continued_without_its_beginning(journal):
    journal.path.rename(journal.path.with_name("elsewhere"))

    with pytest.raises(TreebankError, match="No such file"):
        journal.append({"record": "lost"})

    assert not journal.path.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"record": "start", "version": 1}\n{"record\n{}\n', ":2: This is not a line of a journal. Move the journal"),
        (b'{"record": "start", "version": 99}\n', "Another version of treefine wrote this journal. Update treefine"),
    ],
    ids=["damaged", "newer"],
)
def test_a_journal_that_cannot_be_used_is_reported_with_a_way_out(tmp_path, content, message):
    path = tmp_path / "journal.jsonl"
    path.write_bytes(content)

    with pytest.raises(TreebankError) as error:
        Journal(path).read()

    assert message in str(error.value)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("records", "trusted"),
    [
        ([], set()),
        ([("start", "h0")], {"h0"}),
        ([("start", "h0"), ("saving", "h1")], {"h0", "h1"}),
        ([("start", "h0"), ("saving", "h1"), ("saving", "h2")], {"h0", "h1", "h2"}),
        ([("start", "h0"), ("saving", "h1"), ("saved", "h1")], {"h1"}),
        ([("start", "h0"), ("saving", "h1"), ("saved", "h1"), ("change", ""), ("saving", "h2")], {"h1", "h2"}),
    ],
)
def test_the_file_may_have_the_last_hash_saved_or_one_that_was_being_saved(records, trusted):
    assert trusted_hashes([{"record": name, "hash": found} for name, found in records]) == trusted


# Kills


def test_a_kill_in_the_middle_of_a_record_loses_only_the_change_that_was_not_acknowledged(unsaved, tmp_path, open_file):
    document = open_file()
    change(document, label(4, "iobj"), id="a")
    document.save()
    acknowledged, size = document.content(), (document.folder / "journal.jsonl").stat().st_size
    change(document, Action("split_sentence", word=2), key=3, id="b")

    copy = as_left_by_a_kill(document, tmp_path / "killed" / "x")
    journal = copy.with_name("trees.conllu.annotation") / "journal.jsonl"
    whole = journal.read_bytes()
    assert len(whole) > size
    for length in range(size, len(whole)):
        journal.write_bytes(whole[:length])
        again = Document(copy)
        assert again.content() == acknowledged
        again.close()
        assert copy.read_bytes() == acknowledged
    journal.write_bytes(whole)
    assert open_file(copy).content() == document.content()


def test_a_kill_in_the_first_record_keeps_the_original_if_the_file_is_gone(unsaved, path, tmp_path, open_file):
    document = open_file()
    change(document, DONE)
    copy = as_left_by_a_kill(document, tmp_path / "killed")
    (copy.with_name("trees.conllu.annotation") / "journal.jsonl").write_bytes(b'{"record"')
    copy.unlink()

    with pytest.raises(TreebankError, match="There is no such file"):
        Document(copy)

    assert (copy.with_name("trees.conllu.annotation") / "original.bak").read_text() == TREES


class Camera:
    """Copies the file and its folder at each step of each write, with the states that a restart may have then."""

    def __init__(self, document, place, monkeypatch):
        self.document, self.place, self.shots, self.states = document, place, [], [document.content()]
        append, open_output, copyfile = Journal.append, document_module.open_output, shutil.copyfile

        def slow_append(journal, *records):
            self.shoot()
            append(journal, *records)
            self.shoot()

        @contextmanager
        def slow_output(*target, **options):
            with open_output(*target, **options) as stream:
                self.shoot()  # the temporary file is empty
                yield stream
                self.shoot()
            self.shoot()

        def slow_copy(source, target):
            target.write_bytes(source.read_bytes()[:100])
            self.shoot()
            copyfile(source, target)
            self.shoot()

        monkeypatch.setattr(Journal, "append", slow_append)
        monkeypatch.setattr(document_module, "open_output", slow_output)
        monkeypatch.setattr(document_module.shutil, "copyfile", slow_copy)

    def shoot(self):
        path = as_left_by_a_kill(self.document, self.place / str(len(self.shots)))
        self.shots.append((path, len(self.states)))

    def note(self):
        """Call this after a change was acknowledged."""
        self.states.append(self.document.content())


def test_a_kill_at_any_step_loses_no_acknowledged_change(unsaved, path, tmp_path, monkeypatch, open_file):
    document = open_file()
    with monkeypatch.context() as patch:
        camera = Camera(document, tmp_path.parent / "shots", patch)
        steps = [
            lambda: change(document, label(4, "iobj"), id="a"),
            lambda: change(document, Action("join_sentences"), key=2, id="b"),
            lambda: document.undo("c"),
            lambda: change(document, DONE, key=3, id="d"),
            lambda: document.undo("e"),
            lambda: document.undo("f", is_redo=True),
        ]
        for step in steps:
            step()
            camera.note()
            document.save()
        camera.shoot()

    assert len(camera.shots) > 50
    for copy, n_states in camera.shots:
        # The change that was being made is either there as a whole, or not at all.
        allowed = camera.states[n_states - 1 : n_states + 1]
        assert copy.read_bytes() in camera.states[max(n_states - 2, 0) : n_states + 1]
        again = Document(copy)
        assert again.notice == ""
        assert again.content() in allowed
        again.close()
        assert copy.read_bytes() == again.content()
        if n_states > 1:
            assert (again.folder / "original.bak").read_text() == TREES


def test_a_failing_disk_acknowledges_nothing_and_loses_nothing(path, unsaved, open_file):
    document = open_file()
    for name in ("shutil.copyfile", "os.fsync"):
        with mock.patch(name, side_effect=FULL), pytest.raises(TreebankError, match=NOT_WRITTEN):
            change(document, label(4, "iobj"), id="a")
    assert (document.text(1), document.undo_stack, document.changes) == (STARS, [], {})
    change(document, label(4, "obl"), id="a")
    with mock.patch("os.fsync", side_effect=FULL):
        with pytest.raises(TreebankError, match=NOT_WRITTEN):
            document.undo("b")
        document.save()
    assert "No space left on device" in document.fault
    assert path.read_text() == TREES
    change(document, DONE, key=2, id="c")
    document.save()

    assert document.fault == ""
    assert path.read_bytes() == document.content()
    document.close()
    assert open_file().content() == document.content()


def test_a_file_that_could_not_be_written_is_written_later_without_another_change(path, monkeypatch, open_file):
    monkeypatch.setattr(document_module, "_PAUSE", 0.0)
    monkeypatch.setattr(document_module, "_RETRY", 0.01)
    document, has_failed, may_write = open_file(), threading.Event(), threading.Event()
    open_output = document_module.open_output

    def failing(*target, **options):
        if may_write.is_set():
            return open_output(*target, **options)
        has_failed.set()
        raise TreebankError("The output could not be written: Read-only file system.")

    monkeypatch.setattr(document_module, "open_output", failing)
    change(document, DONE)
    assert has_failed.wait(10)
    may_write.set()
    until(lambda: not document.fault and path.read_bytes() != TREES.encode())

    assert path.read_bytes() == document.content()


# Other programs


def test_a_file_that_another_program_changed_between_sessions_is_opened_as_it_is(path, open_file):
    document = open_file()
    change(document, label(4, "iobj"), id="a")
    document.close()

    for number in (1, 2):
        path.write_text(RAIN + STARS)
        again = open_file()
        archive = document.folder / f"earlier-{number}"
        assert again.notice == (
            "trees.conllu was changed by another program since it was last annotated. "
            f"The earlier journal and original are in {archive}."
        )
        assert texts(again) == [RAIN, STARS]
        assert not again.undo_stack
        assert {each.name for each in archive.iterdir()} == {"journal.jsonl", "original.bak"}
        change(again, DONE, id="a")
        again.close()
    assert (document.folder / "earlier-1" / "original.bak").read_text() == TREES
    assert open_file().notice == ""


def test_a_file_that_another_program_changes_during_a_session_is_not_overwritten(path, unsaved, open_file):
    document = open_file()
    change(document, label(4, "iobj"), id="a")
    document.save()
    path.write_text(RAIN)

    change(document, DONE, key=2, id="b")
    document.save()
    assert document.fault == (
        "Another program has changed trees.conllu, so treefine stopped saving it. "
        "Your changes are safe in trees.conllu.annotation. "
        "Move the other program's file away, then start treefine annotate again."
    )
    document.undo("c")
    document.save()
    assert document.fault  # also if it is as it was last written
    document.undo("d", is_redo=True)
    document.close()
    assert path.read_text() == RAIN

    path.rename(path.with_name("other.conllu"))
    again = open_file()
    assert again.notice == "trees.conllu was missing. It is written again from its journal."
    again.close()
    assert path.read_bytes() == document.content()
    assert again.content() == document.content()


def test_nothing_can_be_changed_if_another_program_changed_the_file_before_the_first_change(path, open_file):
    document = open_file()
    path.write_text(RAIN)

    with pytest.raises(StaleError, match="Another program has changed trees.conllu since it was opened. Stop treefine"):
        change(document, DONE)
    document.close()

    assert path.read_text() == RAIN
    assert list(path.parent.iterdir()) == [path]


def test_a_changed_copy_of_the_original_is_reported(path, open_file):
    document = open_file()
    change(document, DONE)
    document.close()
    (document.folder / "original.bak").write_text(RAIN)

    with pytest.raises(TreebankError, match="This copy of the original file was changed. Move the folder") as error:
        Document(path)

    assert error.value.path == str(document.folder / "original.bak")
    (document.folder / "original.bak").write_text(TREES)
    assert open_file().status(1) == "done"
