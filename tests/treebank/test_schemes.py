"""Labels of other annotation schemes, and the tags that a label allows."""

import io

import pytest

from tests.support.tiny import sample
from treefine import TreebankError
from treefine.treebank.graph import Arcs
from treefine.treebank.schemes import allows, contradictions, follows_ud, label_map_of, read_as

UD = ("acl", "acl:relcl", "appos", "aux:pass", "case", "csubj:pass", "dep", "nmod", "nsubj", "nsubj:pass", "obj", "obl")


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("obj", "obj"),
        ("nsubj:outer", "nsubj"),  # a subtype counts as its main type
        ("dobj", "obj"),
        ("npadvmod", "obl"),  # obl:npmod, whose main type is known
        ("auxpass:reflex", "aux:pass"),  # a subtype of an older name
        ("poss", "nmod"),
        *[(label, label) for label in ("prep", "pobj", "attr", "dative", "agent", "foo", "_")],  # no counterpart
    ],
)
def test_a_label_is_read_as_the_model_name_for_the_relation(label, name):
    assert read_as(label, UD) == name


def file(text):
    stream = io.BytesIO(text if isinstance(text, bytes) else text.encode())
    stream.name = "labels.tsv"
    return stream


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prep\tcase\npobj nmod\n", "2: The line must have two labels with a tab between them, not 'pobj nmod'."),
        ("a\tobj\t\n", "1: The line must have two labels with a tab between them, not 'a\\tobj'. Write a label"),
        ("prep\tcase\n#\nprep\tobj\n", "3: The label 'prep' has a line above. Remove one of the lines."),
        ("prep\tcse\n", "1: The model has no label 'cse'. Did you mean case?"),
        ("prep\txyz\n", "1: The model has no label 'xyz'. Write _ to ignore a label."),
        (b"prep\tcase\n\xff\tobj\n", "2: Byte 0xff is not UTF-8. Convert it to UTF-8"),
    ],
)
def test_a_fault_in_a_label_map_is_reported_with_its_line(text, message):
    with pytest.raises(TreebankError) as error:
        label_map_of(file(text), UD)

    assert str(error.value).startswith(f"labels.tsv:{message}")


# The rules of UD on which tags a label allows


@pytest.mark.parametrize(
    ("label", "tag", "is_allowed"),
    [
        ("det", "DET", True),
        ("aux:pass", "VERB", False),
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


def test_labels_and_tags_of_ud_are_recognised():
    labels, tags = (
        {tag for each in sample() for tag in column(each)} for column in (lambda s: s.labels, lambda s: s.upos)
    )

    assert follows_ud(labels, tags)
    assert not follows_ud(labels, tags | {"NN"})
    assert not follows_ud(labels, ())
    assert not follows_ud(["SBJ", "OBJ", "ROOT", "NMOD"], tags)
