"""Initial parses from a file: alignment of words, and mapping of labels."""

import pytest

from treefine.errors import AlignmentError
from treefine.parsing.initial import from_file, renamed
from treefine.treebank.conllu import write_treebank
from treefine.treebank.graph import Arcs
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


def test_a_word_that_differs_is_named_and_so_is_a_file_that_ends_too_early(parses):
    initial = parses("A dog barks", "It sleeps now")

    with pytest.raises(
        AlignmentError, match=r"^initial.conllu:6: \(sentence 2, word 2\) The text differs from the input "
    ):
        list(initial(words("A dog barks", "It slept now")))
    with pytest.raises(AlignmentError, match="^initial.conllu: The file ends before 'Nowitsnows' in the input"):
        list(initial(words("A dog barks", "It sleeps now", "Now it snows")))


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
