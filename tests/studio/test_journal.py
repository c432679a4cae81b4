"""The journal: records that are on disk, whatever ends a write."""

import json
import os

import pytest

from treefine.errors import TreebankError
from treefine.studio.document import VERSION, Journal, trusted_hashes

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


def test_a_record_that_cannot_be_written_leaves_the_journal_as_it_was(journal, monkeypatch):
    before = journal.path.read_bytes()

    def fail(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(TreebankError, match="could not be written: No space left on device"):
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
