"""A person's decisions, in the columns of a treebank."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treefine import Sentence, TreebankError, TreefineError, read_treebank
from treefine.treebank.constraints import FREE, Constraints, decisions_in, marks_of
from treefine.treebank.edits import make_multiword
from treefine.treebank.graph import Arcs

WORDS = ("The", "old", "man", "sleeps")


def sentence(notes=("_", "_", "_", "_"), *, heads=(3, 3, 4, 0), labels=("det", "amod", "nsubj", "root")):
    return Sentence.of_words(WORDS).with_arcs(Arcs(heads, labels)).with_misc(notes)


@pytest.mark.parametrize(
    ("notes", "decided"),
    [
        (
            ["Keep=Arc", "Keep=Head|SpaceAfter=No", "A=1|Keep=Label", "_"],
            Constraints(heads={1: 3, 2: 3}, labels={1: "det", 3: "nsubj"}),
        ),
        (
            ["NotHead=0,4", "_", "NotLabel=obj,iobj|NotHead=1", "_"],
            Constraints(not_heads={1: (0, 4), 3: (1,)}, not_labels={3: ("obj", "iobj")}),
        ),
        (["_", "SpaceAfter=No", "Keeper=Yes", "X=Keep=Arc"], FREE),  # other notes are ignored
    ],
)
def test_marks_keep_or_forbid_heads_and_labels(notes, decided):
    assert marks_of(sentence(notes)) == decided


@pytest.mark.parametrize(
    ("note", "message"),
    [
        ("keep=Arc", "keep=Arc is not a valid mark."),
        ("NotHead=" + "9" * 5000, "is not a valid mark."),
        ("Keep=arc", "Keep=arc is not a valid mark. Write Keep=Arc"),
        ("NotHead=", "NotHead= is not a valid mark."),
        ("NotLabel=obj,", "NotLabel=obj, is not a valid mark."),
    ],
)
def test_an_invalid_mark_is_an_error_with_its_place(note, message):
    with pytest.raises(TreebankError, match=message) as caught:
        marks_of(sentence(["_", note, "_", "_"]))

    assert caught.value.word == "2"


def test_a_mark_on_a_multiword_token_is_an_error():
    marked = make_multiword(sentence(), 1, 2)
    (found,) = read_treebank(io.BytesIO(marked.to_conllu().replace("_\n1\t", "Keep=Arc\n1\t").encode()))

    with pytest.raises(TreebankError, match="Keep=Arc is on the line of a multiword token or empty node. Mark the"):
        marks_of(found)


@pytest.mark.parametrize("wrong", [{"not_labels": {1: "xcomp"}}, {"not_heads": {1: 2}}])
def test_forbidden_values_must_be_lists(wrong):
    with pytest.raises(TreefineError, match="cannot contain the dict {1: .*}. Write not_"):
        Constraints(**wrong)


@pytest.mark.parametrize(("note", "column"), [("Keep=Head", "HEAD"), ("Keep=Label", "DEPREL"), ("Keep=Arc", "HEAD")])
def test_blank_heads_and_labels_cannot_be_kept(note, column):
    blank = sentence(["_", note, "_", "_"], heads=(3, None, 4, 0), labels=("det", "_", "nsubj", "root"))

    with pytest.raises(TreebankError, match=f"but {column} is blank"):
        marks_of(blank)


def test_all_given_keeps_every_head_and_label_that_is_not_blank():
    partial = sentence(["_", "NotHead=1", "_", "_"], heads=(3, None, None, 0), labels=("det", "_", "nsubj", "_"))

    found = decisions_in(partial, "given")

    assert found == Constraints({1: 3, 4: 0}, {1: "det", 3: "nsubj"}, {2: (1,)}, {})


words = st.integers(1, 4)
constraints = st.builds(
    Constraints,
    st.dictionaries(words, st.integers(0, 4)),
    st.dictionaries(words, st.sampled_from(["det", "nsubj:pass", "x"])),
    st.dictionaries(words, st.lists(st.integers(0, 4), min_size=1).map(tuple)),
    st.dictionaries(words, st.lists(st.sampled_from(["obj", "a:b"]), min_size=1).map(tuple)),
)


@given(constraints, st.lists(st.sampled_from(["_", "SpaceAfter=No", "Keep=Arc|A=1"]), min_size=4, max_size=4))
def test_marked_decisions_are_read_back(decided, notes):
    marked = decided.mark(sentence(notes))

    assert marks_of(marked) == decided
    kept = [note for note in "|".join(notes).split("|") if note in ("SpaceAfter=No", "A=1")]
    assert [note for note in "|".join(marked.column(9)).split("|") if note in ("SpaceAfter=No", "A=1")] == kept
    for word in range(1, 5):
        assert marked.heads[word - 1] == decided.heads.get(word, sentence().heads[word - 1])
        assert marked.labels[word - 1] == decided.labels.get(word, sentence().labels[word - 1])


@given(constraints)
def test_arcs_follow_the_decisions_put_into_them(decided):
    arcs = decided.put_into(sentence().arcs)

    for word in range(1, 5):
        head, label = arcs.heads[word - 1], arcs.labels[word - 1]
        assert head == decided.heads.get(word, head) or head is None
        assert label == decided.labels.get(word, label) or label == "_"
        assert head not in decided.not_heads.get(word, ())
        assert label not in decided.not_labels.get(word, ())
