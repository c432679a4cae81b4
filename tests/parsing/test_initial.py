"""Initial parses from a file: alignment of words, and mapping of labels."""

import pytest

from tests.support.tiny import sample, tiny_model
from treefine.errors import AlignmentError
from treefine.parsing.initial import from_file, given, renamed
from treefine.parsing.parser import Parser
from treefine.treebank.conllu import write_treebank
from treefine.treebank.graph import Arcs, Graph
from treefine.treebank.sentence import Sentence


def words(*sentences):
    return [Sentence.of_words(sentence.split()) for sentence in sentences]


@pytest.fixture
def parses(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(*sentences):
        write_treebank(words(*sentences), "initial.conllu")
        return from_file("initial.conllu")

    return write


def test_a_word_that_differs_is_named_with_both_places(parses):
    initial = parses("A dog barks", "It sleeps now")

    with pytest.raises(AlignmentError) as error:
        list(initial(words("A dog barks", "It slept now")))

    assert str(error.value) == (
        "initial.conllu:6: (sentence 2, word 2) The text differs from the input (sentence 1): it is 'epsnow' here and "
        "'ptnow' there. Both files must have the same characters; spaces and segmentation may differ."
    )


def test_a_file_that_ends_too_early_is_an_error(parses):
    initial = parses("A dog barks")

    with pytest.raises(AlignmentError) as error:
        list(initial(words("A dog barks", "It sleeps")))

    assert str(error.value) == (
        "initial.conllu: The file ends before 'Itsleeps' in the input (sentence 1). "
        "Both files must have the same characters; spaces and segmentation may differ."
    )


def arcs_of(*labels):
    return lambda sentences: (Arcs((None, *range(len(labels) - 1)), labels) for _ in sentences)


def test_labels_are_mapped_to_known_names():
    initial = renamed(arcs_of("_", "dobj", "nsubj:outer", "prep", "obj"), ("nsubj", "obj"))

    (found,) = initial(words("a b c d e"))

    assert found == Arcs((None, 0, 1, 2, 3), ("_", "obj", "nsubj", "prep", "obj"))


def test_the_users_label_map_takes_precedence_and_can_blank_a_label():
    initial = renamed(arcs_of("_", "dobj", "obj"), ("nsubj", "obj"), {"dobj": "nsubj", "obj": "_"})

    (found,) = initial(words("a b c"))

    assert found.labels == ("_", "nsubj", "_")


def test_an_older_label_gives_the_same_tree_as_its_newer_name():
    parser = Parser(tiny_model(), initial=given, max_steps=1, device="cpu")
    older = {"obj": "dobj", "nsubj:pass": "nsubjpass", "root": "ROOT", "acl:relcl": "relcl", "nmod:poss": "poss"}

    def sentences(names):
        return [
            each.with_graph(Graph.of_words(each.heads, [names.get(label, label) for label in each.labels]))
            for each in sample(20)
        ]

    renaming = parser.using(initial=renamed(given, parser.model.vocabulary.labels), max_steps=1)

    graphs = [each.tree for each in parser.parse(sample(20))]
    assert [each.tree for each in parser.parse(sentences(older))] == graphs
    assert [each.tree for each in renaming.parse(sentences(older))] == graphs  # the same graphs, with newer names
    unknown = dict.fromkeys(older, "prep")
    assert [each.tree for each in parser.parse(sentences(unknown))] != graphs
