"""The Parser class, and the trees that it starts from."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tiny import sample, short, tiny_model, tiny_parser
from treefine.config import DecodeSettings, RelationSettings, TagSettings
from treefine.errors import AlignmentError, TreefineError
from treefine.parsing.initial import from_file, renamed
from treefine.parsing.initial import given as given_arcs
from treefine.parsing.parser import Parser
from treefine.treebank.conllu import write_treebank
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import Sentence

PARSER = tiny_parser()
TAGGER = Parser(tiny_model(tags=TagSettings("predicted", ("upos", "xpos"))), device="cpu")
SYNTR = Parser(tiny_model(relations=RelationSettings(graph="none")), device="cpu")


def test_a_single_word_attaches_to_root():
    for parser in (PARSER, TAGGER, SYNTR):
        assert parser.parse(["Hello"]).tree.arcs == Arcs((0,), ("root",))


@given(
    st.lists(st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=5), min_size=1, max_size=5)
)
def test_any_words_can_be_parsed(words):
    parsed = PARSER.parse(words)

    assert parsed.forms == tuple(words)
    assert parsed.tree.is_tree


def test_refine_gives_each_step_with_graph_scores_and_probabilities():
    sentence = sample(2)[1]

    steps = PARSER.steps(sentence)

    assert [step.t for step in steps] == list(range(1, len(steps) + 1))
    assert 1 < len(steps) <= 4
    n_words = len(sentence) + 1
    for step in steps:
        assert step.arc_scores.shape == step.arc_probabilities.shape == (n_words, n_words)
        assert step.label_probabilities.shape == (n_words, len(step.labels))
        np.testing.assert_allclose(step.arc_probabilities.sum(1), 1, rtol=1e-5)
        np.testing.assert_allclose(step.label_probabilities.sum(1), 1, rtol=1e-5)
        assert step.tree.is_tree
        for word in range(1, n_words):
            assert step.graph.heads[word] == step.arc_scores[word].argmax()
            assert step.graph.labels[word] == step.labels[step.label_scores[word].argmax()]
    assert PARSER.parse(sentence).tree == steps[-1].tree


@cache
def steps_of_sample(max_steps):
    return [steps for _, steps in PARSER.using(max_steps=max_steps).stream_steps(short(30))]


@pytest.mark.parametrize("max_steps", [1, 2, 7])
def test_the_last_step_says_whether_the_sentence_has_converged(max_steps):
    for steps in steps_of_sample(max_steps):
        *before, last = steps
        assert not any(step.converged for step in before)
        assert last.converged == (len(steps) > 1 and last.graph == before[-1].graph)
        assert last.converged or len(steps) == max_steps


def test_steps_are_four_from_an_empty_graph_three_from_another_and_one_without_graphs():
    assert PARSER.max_steps == 4
    assert PARSER.using(initial=given_arcs).max_steps == 3
    assert PARSER.using(initial=given_arcs).using(initial="empty").max_steps == 4
    assert PARSER.using(max_steps=2).using(tags="none").max_steps == 2
    assert SYNTR.max_steps == 1


def test_options_that_are_left_out_stay_the_same(tmp_path):
    SYNTR.save(tmp_path / "syntr")
    parser = tiny_parser(is_projective=True, batch_pieces=77, tags="none", initial=tmp_path / "syntr")

    other = parser.using(max_steps=2)

    assert (other.options.is_projective, other.options.batch_pieces) == (True, 77)
    assert (other.tags, other.max_steps) == ("none", 2)
    assert other.initial is parser.initial
    assert other.model is parser.model
    assert parser.initial.options.batch_pieces == 77
    assert parser.initial.device == parser.device
    assert not parser.using(is_projective=False).plan().decoder.is_projective


@pytest.mark.parametrize(
    ("arcs", "message"),
    [
        ([], "The initial parser must return a head and a label for each word of this sentence."),
        ([Arcs((0,), ("root",))], "The initial parser must return a head and a label for each word of this sentence."),
        ([Arcs((0, 3), ("root", "dep"))], "The initial parser returned a head that is not a word of this sentence."),
        ([Arcs((0, 1), ("root", "dep"))] * 2, "The initial parser returned more parses than there are sentences."),
    ],
)
def test_invalid_results_of_an_initial_parser_are_errors(arcs, message):
    with pytest.raises(TreefineError) as error:
        tiny_parser(initial=lambda sentences: iter(arcs)).parse([["A", "dog"]])

    assert error.value.message == message


def test_trees_can_be_required_to_be_projective():
    parsed = PARSER.parse(short(30))
    projective = PARSER.using(is_projective=True).parse(short(30))

    assert not all(each.tree.is_projective for each in parsed)
    assert all(each.tree.is_projective and each.tree.is_tree for each in projective)


def test_the_first_graph_of_the_released_code_is_a_tree():
    decode = DecodeSettings(root_rule="none", first_graph="tree", tree_over="probabilities")
    parser = Parser(tiny_model(decode=decode), device="cpu")

    found = [steps for _, steps in parser.stream_steps(sample(20))]

    assert all(steps[0].graph.is_tree for steps in found)
    assert not all(step.graph.is_tree for steps in found for step in steps[1:])
    assert not all(steps[0].graph.is_tree for _, steps in PARSER.stream_steps(sample(20)))


def test_a_stream_is_parsed_without_holding_all_of_it():
    read = 0

    def endless():
        nonlocal read
        while True:
            read += 1
            yield ["A", "dog", "barks"]

    parsed = Parser(tiny_model(), device="cpu", batch_pieces=100).stream_trees(endless())

    assert [next(parsed).forms for _ in range(3)] == [("A", "dog", "barks")] * 3
    assert read < 1000


def test_a_missing_device_is_an_error():
    for name in ("cuda:99", "abacus", "meta"):
        with pytest.raises(TreefineError, match=rf"Device '{name}' cannot be used \(.*\)\. Use cpu\."):
            Parser(PARSER.model, device=name)


# Initial parses from a file


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
