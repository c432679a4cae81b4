"""Actions of a person: the sentence and the decisions after each of them, and actions that are refused."""

import pytest

from tests.support.studio import DOG, RAIN, STARS, change
from treefine.errors import TreebankError, TreefineError
from treefine.serving.limits import ServingError
from treefine.studio.actions import Action, act, confirmed, decisions_of
from treefine.treebank.constraints import Constraints

LABELS = ("nsubj", "obj", "obl", "root")
STARS_WORDS = ["1 2 nsubj _", "2 0 root _", "3 4 nummod _", "4 2 obj SpaceAfter=No", "5 2 punct _"]


@pytest.fixture
def document(open_file):
    """Return a file with three sentences."""
    return open_file()


def edited(document, action, *, key=1, labels=()):
    """Return the only sentence that an action gives."""
    keys, (found,) = act(document, key, action, labels=labels)
    assert keys == [key]
    return found


# Arcs: what was done before, the action, and the words that are new: number, head, label, and MISC with decisions


def arc(word, head, label=None):
    return Action("arc", word=word, head=head, label=label, is_new=True)


def keep(*words):
    return Action("keep", words=words)


NOT_HEAD, NOT_LABEL = (Action("forbid", word=4, column=column) for column in ("head", "label"))
AGAIN = [arc(4, 1, "obl"), NOT_HEAD, arc(4, 5, "obl")]
ARCS = [
    ([], arc(3, 2), ["3 2 nummod Keep=Head"]),  # without a label, only the head is decided
    ([], arc(4, 1, " obl "), ["4 1 obl SpaceAfter=No|Keep=Arc"]),
    ([], arc(4, 1, "_"), ["4 1 _ SpaceAfter=No|Keep=Head"]),  # a blank label is not decided
    # An arc below itself keeps the tree a tree, and frees the words that had to move.
    ([keep(1, 2, 4)], arc(2, 4, "acl"), ["1 2 nsubj Keep=Arc", "2 4 acl Keep=Arc", "4 0 root SpaceAfter=No"]),
    ([NOT_HEAD], NOT_LABEL, ["4 2 obj SpaceAfter=No|NotHead=2|NotLabel=obj"]),
    ([NOT_HEAD, NOT_LABEL], arc(4, 2, "obj"), ["4 2 obj SpaceAfter=No|Keep=Arc"]),  # choosing it allows it again
    ([NOT_HEAD, NOT_LABEL], keep(4), ["4 2 obj SpaceAfter=No|Keep=Arc"]),
    (AGAIN, NOT_HEAD, ["4 5 obl SpaceAfter=No|NotHead=1,5"]),  # the word is free
    (AGAIN, NOT_LABEL, ["4 5 obl SpaceAfter=No|Keep=Head|NotHead=1|NotLabel=obl"]),
    ([], keep(1, 3, 99), ["1 2 nsubj Keep=Arc", "3 4 nummod Keep=Arc"]),
    ([keep(1, 3)], Action("free", words=(3, 5)), ["1 2 nsubj Keep=Arc"]),
]


@pytest.mark.parametrize(("before", "action", "new_words"), ARCS)
def test_an_action_changes_arcs_and_what_is_decided(document, before, action, new_words):
    for number, each in enumerate(before):
        change(document, each, id=str(number))

    sentence = edited(document, action)

    words = [f"{each.number} {each.head} {each.label} {each.misc}" for each in sentence]
    assert [new for old, new in zip(STARS_WORDS, words, strict=True) if new != old] == new_words


def test_only_arcs_with_a_label_are_confirmed_as_a_whole(document):
    sentence = edited(document, Action("arc", word=4, head=1, label="_", is_new=True))

    assert decisions_of(confirmed(sentence, [1, 4])) == Constraints({1: 2, 4: 1}, {1: "nsubj"})


def test_tags_are_taken_with_a_tree_or_an_arc(document):
    tags = ((2, "upos", "NOUN"), (2, "feats", "Number=Sing|Case=Nom"), (3, "lemma", "deux"))

    for action in (Action("tree", arcs=((3, 2, "obj"),), tags=tags), Action("arc", word=3, head=2, tags=tags)):
        found = edited(document, action)
        assert (found.heads[2], found.upos[1], found.lemma[2]) == (2, "NOUN", "deux")
        assert found.feats[1] == "Case=Nom|Number=Sing"


# Labels


@pytest.mark.parametrize(("label", "hint"), [("objj", " Did you mean obj?"), ("zzz", "")])
def test_an_unknown_label_is_refused_with_the_nearest_known_one(document, label, hint):
    with pytest.raises(ServingError) as error:
        edited(document, Action("label", word=4, label=label), labels=LABELS)

    assert str(error.value) == f"No word of this treebank has the label '{label}'.{hint}"
    assert error.value.status == 422
    assert edited(document, Action("label", word=4, label="objj", is_new=True), labels=LABELS).labels[3] == "objj"


# Words and sentences


def test_splitting_a_sentence_frees_the_words_whose_arcs_had_to_change(document):
    change(document, Action("keep", words=(1, 4, 5, 7, 8)), key=2)

    keys, (first, second) = act(document, 2, Action("split_sentence", word=5))

    assert keys == [2]
    assert [first.heads, second.heads] == [(3, 3, 4, 0), (3, 3, 0, 3)]
    assert decisions_of(first) == Constraints(heads={1: 3, 4: 0}, labels={1: "det", 4: "root"})
    assert decisions_of(second) == Constraints(heads={1: 3}, labels={1: "case"})
    assert second.sent_id == "dog-2"


def test_joining_sentences_frees_the_root_of_the_second(document):
    change(document, Action("keep", words=(2, 3)), id="a")
    change(document, Action("keep", words=(1, 4)), key=2, id="b")

    keys, (joined,) = act(document, 1, Action("join_sentences"))

    assert keys == [1, 2]
    assert joined.heads[5:] == (8, 8, 9, 2, 12, 12, 9, 9)
    assert decisions_of(joined) == Constraints(heads={2: 0, 3: 4, 6: 8}, labels={2: "root", 3: "nummod", 6: "det"})


@pytest.mark.parametrize(
    ("first", "second", "joined"), [("done", "done", "done"), ("open", "done", "open"), ("done", "doubtful", "open")]
)
def test_joined_sentences_keep_only_a_status_that_both_had(document, first, second, joined):
    change(document, Action("status", value=first), key=1, id="a")
    change(document, Action("status", value=second), key=2, id="b")

    change(document, Action("join_sentences"), id="c")

    assert document.status(1) == joined


# Lines


def test_lines_replace_a_sentence(document):
    found = edited(document, Action("source", lines=tuple(RAIN.split("\n"))))

    assert found.to_conllu() == RAIN
    assert edited(document, Action("source", lines=(RAIN.replace("\n", "\r\n"),))).to_conllu() == RAIN
    separator = RAIN.replace("rain\tNOUN", "ra\u2028in\tNOUN")
    assert edited(document, Action("source", lines=(separator,))).to_conllu() == separator


@pytest.mark.parametrize(
    ("lines", "message", "line"),
    [
        ((), "There are no lines. Join the sentence with another one instead.", None),
        (("# only a comment",), "There are no words after the comments.", 1),
        (("# a", "1\tno"), "The line must have 10 columns, not 2.", 2),
        ((STARS, DOG), "There is a comment between words.", 8),
        (("1\t\ud800\t_\t_\t_\t_\t0\troot\t_\t_",), "is not UTF-8", 1),
    ],
)
def test_lines_that_are_not_one_sentence_are_refused_with_the_line(document, lines, message, line):
    with pytest.raises(TreebankError) as error:
        edited(document, Action("source", lines=lines))

    assert message in f"{error.value.message} {error.value.hint}"
    assert error.value.line == line


# Actions that are not possible


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (Action("arc", word=1), "The action 'arc' needs head."),
        (Action("arc", word=9, head=1), "There is no word 9. The sentence has 5 words."),
        (Action("arc", word=1, head=9), "There is no word 9."),
        (Action("tree", arcs=((1, 6, "x"),)), "There is no arc from 6 to 1. The last word is 5."),
        (Action("tree", arcs=((2, 2, "x"),)), "There is no arc from 2 to 2."),
        (Action("tree", arcs=((0, 1, "x"),)), "There is no arc from 1 to 0."),
        (Action("tree", arcs=((1, 2, "a\tb"),)), "cannot be a cell of a treebank"),
        (Action("forbid", word=1, column="upos"), "The upos of a word cannot be forbidden."),
        (Action("tree", arcs=(), tags=((1, "head", "2"),)), "There is no column 'head' to edit."),
        (Action("cell", word=1, column="shoe", value="x"), "There is no column 'shoe' to edit."),
        (Action("status", value="maybe"), "There is no status 'maybe'. There are open, done, doubtful."),
        (Action("split_word", word=1, forms=("x", "y")), "The new forms do not spell 'She'."),
        (Action("jump"), "There is no action 'jump'. There are arc, label, tree, keep, free, forbid"),
    ],
)
def test_an_action_that_is_not_possible_is_refused_with_the_reason(document, action, message):
    with pytest.raises(TreefineError) as error:
        edited(document, action)

    assert message in f"{error.value.message} {error.value.hint}"
