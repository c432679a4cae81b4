"""What a refinement changed, counted: what is told as old is what the file has."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.generated import random_heads
from treefine import Graph, Sentence
from treefine.cli.changes import Changes
from treefine.parsing.confidence import Confidence
from treefine.parsing.initial import renamed
from treefine.parsing.parse import Parse
from treefine.treebank.graph import Arcs

KNOWN = ("nsubj", "obj", "root")
SURE = Confidence(0.5, 0.5)


def parse(tree, read):
    n_words = len(read.heads)
    sentence = Sentence.of_words(["x"] * n_words).with_graph(tree)
    before = tuple(SURE if head is not None and label in KNOWN else None for head, label in zip(*read, strict=True))
    return Parse(sentence, ((0, 1),) * n_words, (SURE,) * n_words, 0.5, (tree,), read, before, True)


def added(given, tree, names=None):
    """The counts, and the parse as it is told."""
    (read,) = renamed(lambda sentences: (given for _ in sentences), KNOWN, names)([None])
    changes = Changes(KNOWN)
    return changes, changes.add(parse(tree, read), given)


@pytest.mark.parametrize(
    ("given", "labels", "names", "told", "read_as"),
    [
        (["nsubj", "root"], ["nsubj", "root"], {"nsubj": "_"}, [], {("nsubj", "_"): 1}),
        (["nsubj", "root"], ["obj", "root"], {"nsubj": "_"}, [(1, "nsubj", "obj", None)], {("nsubj", "_"): 1}),
        (["nsubj", "root"], ["nsubj", "root"], {"nsubj": "obj"}, [], {("nsubj", "obj"): 1}),
        (
            ["dobj", "ROOT", "dobj"],
            ["obj", "root", "nsubj"],
            None,
            [(3, "obj", "nsubj", 0.25)],
            {("dobj", "obj"): 2, ("ROOT", "root"): 1},
        ),
        (["prep", "root"], ["prep", "root"], None, [], {}),
    ],
    ids=["not read, came back", "not read, changed", "read as another, came back", "newer name", "a person's own"],
)
def test_a_label_that_came_back_is_no_change_and_another_is_told_from_what_was_read(
    given, labels, names, told, read_as
):
    heads = (2, 0, 2)[: len(given)]

    changes, parse = added(Arcs(heads, tuple(given)), Graph.of_words(heads, labels), names)

    assert [(each.word, each.old_label, each.label, each.before) for each in parse.changes] == told
    assert all(each.old_head == 2 for each in parse.changes)
    assert changes.relabelled == Counter(each[1:3] for each in told)
    assert changes.n_changed == bool(told)
    assert changes.read_as == read_as


def test_a_blank_label_that_got_one_is_counted_apart_from_changes():
    given = Arcs((2, 0, 1), ("_", "root", "_"))

    changes, told = added(given, Graph.of_words([2, 0, 2], ["nsubj", "root", "obj"]))

    assert [(each.old_label, each.before) for each in told.changes] == [("_", None), ("_", None)]
    assert (changes.n_named, changes.n_heads, changes.n_added) == (2, 1, 0)
    assert (changes.relabelled, changes.replaced, changes.moved, changes.read_as) == ({}, {}, {}, {})
    assert ("new labels", "2, of words that had a head alone") in changes.rows()
    assert changes.values()["new_labels"] == 2
    assert told.changed_picture().changed == {3}  # its head: a label is drawn as if the new one had been there


LABELS = st.sampled_from(["nsubj", "obj", "root", "dobj", "prep", "_"])


@given(st.data())
def test_what_is_told_leads_from_the_file_to_the_output_and_each_word_is_counted_once(data):
    n_words = data.draw(st.integers(1, 6))

    def labels(of=LABELS):
        return data.draw(st.lists(of, min_size=n_words, max_size=n_words))

    heads = data.draw(st.lists(st.none() | st.integers(0, n_words), min_size=n_words, max_size=n_words))
    start = Arcs(tuple(heads), tuple("_" if head is None else each for head, each in zip(heads, labels(), strict=True)))
    tree = Graph.of_words(data.draw(random_heads(n_words)), labels(st.sampled_from(KNOWN)))
    names = data.draw(st.dictionaries(st.sampled_from(["nsubj", "obj", "prep"]), st.sampled_from([*KNOWN, "_"])))

    changes, told = added(start, tree, names)

    changed = {each.word: each for each in told.changes}
    file = zip(*start, strict=True)
    for word, (old, new) in enumerate(zip(file, zip(*tree.arcs, strict=True), strict=True), start=1):
        if old == new:
            assert word not in changed
        if word in changed:
            change = changed[word]
            assert (change.old_head, change.head, change.label) == (old[0], *new)
            assert change.old_label in KNOWN or change.old_label == old[1]
            assert (change.before is None) == (change.old_head is None or told.initial_confidences[word - 1] is None)
    counted = changes.moved.total() + changes.relabelled.total() + changes.replaced.total()
    assert counted + changes.n_added + changes.n_named == len(changed)
    assert changes.n_heads == sum(None is not each.old_head != each.head for each in changed.values())
