import pytest
from hypothesis import given
from hypothesis import strategies as st

from treefine.errors import TreebankError
from treefine.model.vocabulary import UNSEEN, Vocabulary
from treefine.treebank.graph import Graph
from treefine.treebank.sentence import Sentence

names = st.lists(st.text(min_size=1), unique=True)
KINDS = ("labels", "upos", "xpos", "feats", "lemma", "treebanks")


def sentence(forms, labels, *, upos=None, xpos=None):
    words = Sentence.of_words(forms, upos=upos or ["_"] * len(forms), xpos=xpos or ["_"] * len(forms))
    return words.with_graph(Graph.of_words([0] * len(forms), labels))


@given(labels=names.filter(bool), upos=names, xpos=names)
def test_ids_are_positions_in_the_vocabulary_and_tag_ids_start_at_1(labels, upos, xpos):
    vocabulary = Vocabulary(labels=tuple(labels), upos=tuple(upos), xpos=tuple(xpos))

    assert vocabulary.label_ids(labels) == list(range(len(labels)))
    assert [vocabulary.label_id(label) for label in labels] == list(range(len(labels)))
    for column, tags in (("upos", upos), ("xpos", xpos)):
        ids = vocabulary.tag_ids(column, tags)
        assert ids == list(range(1, len(tags) + 1))
        assert [vocabulary.tags(column)[tag_id - 1] for tag_id in ids] == tags


def test_an_unknown_subtype_counts_as_its_main_type():
    vocabulary = Vocabulary(labels=("nsubj", "nsubj:pass", "obl:tmod"))

    ids = vocabulary.label_ids(["nsubj:pass", "nsubj:outer", "obl:agent", "obl", "nsubj:", ":"])

    assert ids == [1, 0, UNSEEN, UNSEEN, 0, UNSEEN]


def test_the_vocabulary_of_a_treebank_is_sorted_and_leaves_blanks_out():
    treebank = [
        sentence(["The", "dog"], ["nsubj", "_"], upos=["DET", "_"]),
        sentence(["the", "_"], ["det", "root"], upos=["DET", "X"], xpos=["b", "a"]),
    ]

    vocabulary = Vocabulary.of_treebank(treebank)

    assert vocabulary == Vocabulary(
        labels=("det", "nsubj", "root"),
        upos=("DET", "X"),
        xpos=("a", "b"),
    )


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"labels": ()}, "there is no label"),
        *[({kind: ("a", "b", "a")}, f"a name occurs twice in {kind}") for kind in KINDS],
    ],
)
def test_a_vocabulary_without_labels_or_with_duplicates_is_an_error(names, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        Vocabulary(**{"labels": ("root",)} | names)


def test_a_treebank_without_labels_is_an_error():
    with pytest.raises(TreebankError, match="The treebank has no labels to learn. Use a treebank with a filled DEPREL"):
        Vocabulary.of_treebank([Sentence.of_words(["A", "dog"])])


def test_labels_of_another_scheme_are_mapped_to_the_same_relations():
    """So an initial graph means the same whether it comes from a file, training or a user."""
    vocabulary = Vocabulary(labels=("acl:relcl", "nsubj", "obj", "root"))

    assert vocabulary.label_ids(["dobj", "ROOT", "relcl", "nsubj:outer", "prep", "dobj"]) == [2, 3, 0, 1, UNSEEN, 2]
    assert [vocabulary.label_id(label) for label in ("nsubj", "nsubj:outer", "dobj")] == [1, None, None]
