"""The rules of UD on which tags a label allows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tiny import sample
from treefine.treebank.graph import Arcs
from treefine.treebank.schemes import UPOS, allows, contradictions, follows_ud


@pytest.mark.parametrize(
    ("label", "tag", "is_allowed"),
    [
        ("det", "DET", True),
        ("det:predet", "ADV", False),
        ("aux:pass", "VERB", False),
        ("advmod", "NOUN", False),
        ("case", "PRON", False),
        ("mark", "SCONJ", True),
        ("punct", "SYM", False),
        ("nsubj", "VERB", True),  # a cited word may have any function
        ("nsubj", "PUNCT", False),
        ("root", "PUNCT", True),
        ("det", "_", True),
        ("_", "PUNCT", True),
        ("det", "VBD", True),  # a tag of another tagset contradicts nothing
    ],
)
def test_a_label_allows_some_tags(label, tag, is_allowed):
    assert allows(label, tag) == is_allowed


def test_the_first_word_of_a_fixed_expression_may_have_any_tag():
    arcs = Arcs((3, 1, 0, 3), ("case", "fixed", "root", "case"))

    assert contradictions(arcs, ("PRON", "ADP", "NOUN", "PRON")) == [4]


@given(st.data())
def test_a_contradiction_is_a_word_whose_label_does_not_allow_its_tag(data):
    n_words = data.draw(st.integers(1, 6))
    each = {"min_size": n_words, "max_size": n_words}
    heads = data.draw(st.lists(st.none() | st.integers(0, n_words), **each))
    labels = data.draw(st.lists(st.sampled_from(["det", "aux:pass", "punct", "fixed", "nsubj", "_"]), **each))
    upos = data.draw(st.lists(st.sampled_from([*sorted(UPOS), "_", "NN"]), **each))

    found = contradictions(Arcs(tuple(heads), tuple(labels)), upos)

    assert found == sorted(set(found))
    assert all(not allows(labels[word - 1], upos[word - 1]) for word in found)


def test_labels_and_tags_of_ud_are_recognised():
    labels, tags = (
        {tag for each in sample() for tag in column(each)} for column in (lambda s: s.labels, lambda s: s.upos)
    )

    assert follows_ud(labels, tags)
    assert not follows_ud(labels, tags | {"NN"})
    assert not follows_ud(labels, ())
    assert not follows_ud(["SBJ", "OBJ", "ROOT", "NMOD"], tags)
