"""Reading labels of other annotation schemes as the model's labels."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treefine import TreebankError
from treefine.treebank.schemes import OLDER_NAMES, read_as, read_label_map

UD = ("acl", "acl:relcl", "appos", "aux:pass", "case", "csubj:pass", "dep", "nmod", "nsubj", "nsubj:pass", "obj", "obl")
NAMES = st.sampled_from([*OLDER_NAMES, *OLDER_NAMES.values(), "prep", "foo", "obl:tmod", "nsubj:outer", "_", ""])


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("obj", "obj"),
        ("nsubj:outer", "nsubj"),  # a subtype counts as its main type
        ("dobj", "obj"),
        ("nsubjpass", "nsubj:pass"),
        ("relcl", "acl:relcl"),
        ("npadvmod", "obl"),  # obl:npmod, whose main type is known
        ("auxpass:reflex", "aux:pass"),  # a subtype of an older name
        ("poss", "nmod"),
        *[(label, label) for label in ("prep", "pobj", "attr", "dative", "agent", "foo", "_")],  # no counterpart
    ],
)
def test_a_label_is_read_as_the_model_name_for_the_relation(label, name):
    assert read_as(label, UD) == name


def test_every_newer_name_is_a_label_of_ud_2():
    main_types = "acl advcl advmod appos aux case cc compound csubj det discourse fixed flat mark nmod nsubj nummod obj"

    assert {name.partition(":")[0] for name in OLDER_NAMES.values()} <= {*main_types.split(), "obl", "root", "xcomp"}
    assert not set(OLDER_NAMES) & set(OLDER_NAMES.values())


def file(text):
    stream = io.BytesIO(text if isinstance(text, bytes) else text.encode())
    stream.name = "labels.tsv"
    return stream


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "prep\tcase\npobj nmod\n",
            "2: The line must have two labels with a tab between them, not 'pobj nmod'. Write ",
        ),
        (
            "prep\t\n",
            "1: The line must have two labels with a tab between them, not 'prep'. Write a label, a tab, ",
        ),
        (
            "a\tobj\tb\n",
            "1: The line must have two labels with a tab between them, not 'a\\tobj\\tb'. Write a label, a tab, ",
        ),
        (
            "prep\tcase\n#\nprep\tobj\n",
            "3: 'prep' is mapped to 'obj' here, but to 'case' above. Remove one of the lines.",
        ),
        ("prep\tcse\n", "1: The model has no label 'cse'. Did you mean case?"),
        ("prep\txyz\n", "1: The model has no label 'xyz'. Write _ to ignore a label."),
        (
            b"prep\tcase\n\xff\tobj\n",
            "2: Byte 0xff is not UTF-8. Convert it to UTF-8: iconv -f latin-1 -t UTF-8.",
        ),
    ],
)
def test_a_fault_in_a_label_map_is_reported_with_its_line(text, message):
    with pytest.raises(TreebankError) as error:
        read_label_map(file(text), UD)

    assert str(error.value).startswith(f"labels.tsv:{message}")


@given(st.dictionaries(st.text("ab:", min_size=1, max_size=3), st.sampled_from(["obj", "_", "case"])))
def test_a_written_label_map_is_read_back(names):
    text = "".join(f"{old}\t{new}\n" for old, new in names.items())

    assert read_label_map(file(text), UD) == names
