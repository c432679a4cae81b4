"""Files that a person edits in the studio, for tests: how to open, change, and kill."""

import time

import pytest

from tests.support.studio_pages import TREES
from treefine.studio.actions import Action, act
from treefine.studio.document import Document

DONE = Action("status", value="done")
MIXED = TREES.replace("\t0\troot\t_\t_\n", "\t0\troot\t_\t_\r\n")  # line ends


@pytest.fixture(name="path")
def trees_path(tmp_path):
    """Return the path of a file with three sentences."""
    found = tmp_path / "trees.conllu"
    found.write_text(TREES)
    return found


@pytest.fixture
def open_file(path):
    """Return a function that opens a file; after the test, all files are closed."""
    documents = []

    def make(file=path, **options):
        documents.append(Document(file, **options))
        return documents[-1]

    yield make
    for each in documents:
        each.close()


@pytest.fixture
def unsaved(monkeypatch):
    """Write files only when a test calls `save` or `close`."""
    monkeypatch.setattr(Document, "_save_when_changed", lambda self: None)


def change(document, action, *, key=1, id="one", **options):
    """Do one action to a sentence."""
    keys, sentences = act(document, key, action)
    return document.replace(keys, sentences, what=action.do, id=id, **options)


def label(word, name):
    """Return the action that changes a label."""
    return Action("label", word=word, label=name)


def texts(document):
    """Return the texts of all sentences, in order."""
    return [document.text(key) for key in document.keys]


def until(condition):
    """Wait until another thread or process has made a condition true."""
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def as_left_by_a_kill(document, place):
    """Copy a file and its folder as they are on disk now, and return the path of the copy."""
    files = [*document.path.parent.glob(f"*{document.path.name}*"), *document.folder.glob("*")]
    for each in files:  # also a temporary file
        if each.is_file() and each.name != "lock":
            copy = place / each.relative_to(document.path.parent)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(each.read_bytes())
    return place / document.path.name
