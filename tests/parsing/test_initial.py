"""Initial parses from a file: the same words, or a clear error at the first that differ."""

import pytest

from tests.tiny import sample, tiny_model
from treefine.errors import AlignmentError, TreefineError
from treefine.parsing.initial import from_file
from treefine.parsing.parser import Parser
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


def test_the_parses_of_a_file_are_its_heads_and_labels(tmp_path):
    write_treebank(sample(5), tmp_path / "parses.conllu")

    found = list(from_file(str(tmp_path / "parses.conllu"))(sample(5)))

    assert found == [Arcs(sentence.heads, sentence.labels) for sentence in sample(5)]


def test_a_word_that_differs_is_named_with_both_places(parses):
    initial = parses("A dog barks", "It sleeps now")

    with pytest.raises(AlignmentError) as error:
        list(initial(words("A dog barks", "It slept now")))

    assert str(error.value) == (
        "initial.conllu:5: (sentence 2, word 2) The initial parse is of another sentence: word 2 is 'sleeps' here but "
        "'slept' in the input. Parse the same words, in the same order, with the initial parser."
    )


def test_the_place_in_the_input_is_told_where_it_is_a_file(parses, data):
    initial = parses("From the AP comes this tale :")

    with pytest.raises(AlignmentError) as error:
        list(initial(sample(1)))

    assert f"word 6 is 'tale' here but 'story' in the input ({data}/en_ewt-sample.conllu:1)." in str(error.value)


def test_a_sentence_that_is_cut_short_is_told_by_its_length(parses):
    initial = parses("A dog")

    with pytest.raises(AlignmentError) as error:
        list(initial(words("A dog barks")))

    assert "(sentence 1) The initial parse is of another sentence: there are 2 words here but 3 in the input." in str(
        error.value
    )


def test_a_file_that_ends_too_early_is_an_error(parses):
    initial = parses("A dog barks")

    with pytest.raises(AlignmentError) as error:
        list(initial(words("A dog barks", "It sleeps")))

    assert str(error.value) == (
        "initial.conllu: The file of initial parses ends before sentence 2. "
        "Parse the whole input with the initial parser."
    )


def test_a_file_that_goes_on_is_an_error(parses):
    initial = parses("A dog barks", "It sleeps")

    with pytest.raises(AlignmentError) as error:
        list(initial(words("A dog barks")))

    assert str(error.value) == (
        "initial.conllu:5: (sentence 2) The file of initial parses goes on after the last sentence of the input."
    )


def test_a_word_without_a_head_has_no_arc(parses):
    initial = parses("A dog barks")

    assert list(initial(words("A dog barks"))) == [Arcs((None, None, None), ("_", "_", "_"))]


def test_an_initial_parser_that_is_not_there_is_an_error():
    with pytest.raises(
        TreefineError, match=r"There is no initial parser 'syntr'\. Choose empty, the folder of a SynTr"
    ):
        Parser(tiny_model(), initial="syntr", device="cpu")
