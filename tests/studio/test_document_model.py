"""Any sequence of changes, undo, redo and restarts gives the same as a simple model: a list of texts per state."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.generated import conllu_files
from tests.support.studio import as_left_by_a_kill, texts
from treefine.errors import TreefineError
from treefine.studio.actions import Action, act
from treefine.studio.document import Document, without_marks
from treefine.treebank.sentence import Sentence

WORDS = st.integers(1, 7)
ACTIONS = st.one_of(
    st.builds(Action, st.just("arc"), word=WORDS, head=st.integers(0, 7), label=st.sampled_from([None, "obj", "det"])),
    st.builds(Action, st.just("label"), word=WORDS, label=st.sampled_from(["obj", "nsubj", " det "])),
    st.builds(Action, st.sampled_from(["keep", "free"]), words=st.tuples(WORDS, WORDS)),
    st.builds(Action, st.just("forbid"), word=WORDS, column=st.sampled_from(["head", "label"])),
    st.builds(
        Action, st.just("cell"), word=WORDS, column=st.sampled_from(["form", "misc", "upos"]), value=st.text("ab|=")
    ),
    st.builds(Action, st.just("split_into_multiword"), word=WORDS, forms=st.just(("a", "b"))),
    st.builds(Action, st.sampled_from(["join_words", "make_multiword"]), word=WORDS, last=WORDS),
    st.builds(Action, st.just("remove_multiword"), word=WORDS),
    st.builds(Action, st.just("status"), value=st.sampled_from(["done", "doubtful", "open"])),
    st.builds(Action, st.just("comments"), lines=st.lists(st.sampled_from(["# a", "sent_id = x", ""])).map(tuple)),
    st.builds(Action, st.just("source"), lines=st.just(("# new", "1\tnew\t_\t_\t_\t_\t0\troot\t_\t_"))),
    st.builds(Action, st.just("split_sentence"), word=WORDS),
    st.just(Action("join_sentences")),
)


class Editing(RuleBasedStateMachine):
    """A person who edits, undoes, redoes and restarts; the model is a list of texts for each state of the file."""

    @initialize(content=conllu_files(), has_marks=st.booleans())
    def open(self, content, has_marks):
        self.folder = self.new_folder()
        self.path = self.folder / "file.conllu"
        self.path.write_bytes(content)
        self.has_marks, self.original, self.n_ids = has_marks, content, 0
        self.document = Document(self.path, has_marks=has_marks)
        self.states, self.now = [texts(self.document)], 0
        self.first = dict(zip(self.document.keys, self.states[0], strict=True))

    def new_id(self):
        self.n_ids += 1
        return f"id {self.n_ids}"

    @rule(data=st.data(), action=ACTIONS)
    def edit(self, data, action):
        key = data.draw(st.sampled_from(self.document.keys))
        place, before = self.document.place(key), self.states[self.now]
        try:
            keys, sentences = act(self.document, key, action)
        except TreefineError:
            return  # not possible in this sentence
        made = self.document.replace(keys, sentences, what=action.do, id=self.new_id())
        after = texts(self.document)
        n_new = len(after) - len(before) + len(keys)
        assert after[:place] + after[place + n_new :] == before[:place] + before[place + len(keys) :]
        for wanted, text in zip(sentences, after[place : place + n_new], strict=True):
            read = self.document.read(text)
            assert isinstance(read, Sentence)
            assert (read.comments, read.columns) == (wanted.comments, wanted.columns)
        assert (made is None) == (after == before)
        if made is not None:
            self.states, self.now = [*self.states[: self.now + 1], after], self.now + 1

    @precondition(lambda self: self.now)
    @rule()
    def undo(self):
        assert self.document.undo(self.new_id()) is not None
        self.now -= 1

    @precondition(lambda self: self.now + 1 < len(self.states))
    @rule()
    def redo(self):
        assert self.document.undo(self.new_id(), is_redo=True) is not None
        self.now += 1

    @rule(is_killed=st.booleans())
    def restart(self, is_killed):
        old = self.document
        if is_killed:
            folder = self.new_folder()
            self.path = as_left_by_a_kill(old, folder / "killed")
        old.close()
        self.document = Document(self.path, has_marks=self.has_marks)
        assert self.document.notice == ""
        assert self.document.keys == old.keys
        assert self.document.revision == old.revision

    @rule()
    def save(self):
        self.document.save()
        assert self.path.read_bytes() == self.document.content(has_marks=self.has_marks)

    @invariant()
    def the_document_is_the_model(self):
        if not hasattr(self, "document"):
            return
        assert texts(self.document) == self.states[self.now]
        assert (len(self.document.undo_stack), len(self.document.redo_stack)) == (
            self.now,
            len(self.states) - self.now - 1,
        )
        if self.now == 0:
            assert self.document.content() == self.original

    def teardown(self):
        if hasattr(self, "document"):
            self.document.close()
            content = self.path.read_bytes()
            assert content == self.document.content(has_marks=self.has_marks)
            if not self.has_marks:
                self.check_without_marks(content)

    def check_without_marks(self, content):
        assert b"Keep=" not in content
        assert b"treefine_status" not in content
        plain = [
            text if text == self.first.get(key) else without_marks(self.document.read(text)).to_conllu()
            for key, text in zip(self.document.keys, texts(self.document), strict=True)
        ]
        assert content.split() == "".join(plain).encode().split()


@pytest.mark.usefixtures("_folders")
class TestEditing(Editing.TestCase):
    settings = settings(stateful_step_count=20)


@pytest.fixture
def _folders(tmp_path, monkeypatch, unsaved):
    """Give each run of the state machine new folders, and save time: a test cannot cut the power."""
    numbers = iter(range(100_000))

    def new_folder(self):
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        return folder

    monkeypatch.setattr(Editing, "new_folder", new_folder, raising=False)
    monkeypatch.setattr("os.fsync", lambda _: None)
