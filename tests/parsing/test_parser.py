"""The Parser class: what it takes and returns, the trees that it starts from, and a clear error for anything else."""

from collections.abc import Iterator
from itertools import cycle, islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import treefine
from tests.support.tiny import sample, short, tiny_model, tiny_parser
from treefine import Constraints, Graph, Parses, Sentence, TreefineError
from treefine.config import DecodeSettings, RelationSettings
from treefine.errors import AlignmentError
from treefine.parsing.initial import from_file, input_trees, renamed
from treefine.parsing.parser import Parser
from treefine.treebank.conllu import write_treebank
from treefine.treebank.graph import Arcs

PARSER = tiny_parser()
SYNTR = Parser(tiny_model(relations=RelationSettings(graph="none")), device="cpu")


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


@pytest.mark.parametrize("max_steps", [1, 2, 7])
def test_the_last_step_says_whether_the_sentence_has_converged(max_steps):
    for _, steps in PARSER.using(max_steps=max_steps).stream_steps(short(30)):
        *before, last = steps
        assert not any(step.converged for step in before)
        assert last.converged == (len(steps) > 1 and last.graph == before[-1].graph)
        assert last.converged or len(steps) == max_steps


def test_steps_are_four_from_an_empty_graph_three_from_another_and_one_without_graphs():
    assert PARSER.max_steps == 4
    assert PARSER.using(initial=input_trees).max_steps == 3
    assert PARSER.using(initial=input_trees).using(initial="empty").max_steps == 4
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


def test_a_word_that_differs_is_named_and_so_is_a_file_that_ends_too_early(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_treebank(words("A dog barks", "It sleeps now"), "initial.conllu")
    initial = from_file("initial.conllu")

    with pytest.raises(
        AlignmentError, match=r"^initial.conllu:6: \(sentence 2, word 2\) The text differs from the input "
    ):
        list(initial(words("A dog barks", "It slept now")))
    with pytest.raises(AlignmentError, match="^initial.conllu: The file ends before 'Nowitsnows' in the input"):
        list(initial(words("A dog barks", "It sleeps now", "Now it snows")))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (None, ("_", "obj", "nsubj", "prep", "obj")),
        ({"dobj": "nsubj", "obj": "_"}, ("_", "nsubj", "nsubj", "prep", "_")),
    ],
)
def test_labels_are_mapped_to_known_names_or_as_the_user_says(names, expected):
    arcs = Arcs((None, 0, 1, 2, 3), ("_", "dobj", "nsubj:outer", "prep", "obj"))

    (found,) = renamed(lambda sentences: iter([arcs]), ("nsubj", "obj"), names)(words("a b c d e"))

    assert found == Arcs(arcs.heads, expected)


# Many texts


TEXTS = ["Ab a. B c.", "", "a b a b.\n\nc", "  \n", "b."]


@pytest.mark.parametrize("batch_size", [1, 2, 100])
def test_pipe_gives_the_parses_of_each_text_as_if_it_were_alone(nlp, batch_size):
    found = list(nlp.pipe(iter(TEXTS), batch_size=batch_size))

    assert all(isinstance(each, Parses) for each in found)
    for parses, text in zip(found, TEXTS, strict=True):
        assert [(each.sentence, each.spans) for each in parses] == [(each.sentence, each.spans) for each in nlp(text)]
    assert [len(each) for each in found][1::2] == [0, 0]


def test_the_texts_of_a_pipe_may_be_endless_and_are_parsed_as_one_stream(nlp, monkeypatch):
    streams, parse = [], nlp.stream_segmented
    monkeypatch.setattr(nlp, "stream_segmented", lambda *args: streams.append(args) or parse(*args))

    letters = [chr(ord("a") + number % 20) for number in range(300)]
    found = list(islice(nlp.pipe(f"a {letter} ." for letter in cycle(letters)), 300))

    assert [each[0].words[1].form for each in found] == letters
    assert len(streams) == 1


def test_an_error_in_a_text_comes_after_the_results_of_the_texts_before_it(nlp):
    parsed = nlp.pipe(["a b.", "", "c.", 5, "d."])

    assert [len(each) for each in islice(parsed, 3)] == [1, 0, 1]
    with pytest.raises(TreefineError, match="Item 4 of the texts is not a string"):
        next(parsed)


def test_pipe_returns_the_context_of_each_text(nlp):
    found = list(nlp.pipe([("a b.", {"file": 1}), ["", None]], as_tuples=True))

    assert [(len(parses), context) for parses, context in found] == [(1, {"file": 1}), (0, None)]


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        (["a.", 5], {}, "Item 2 of the texts is not a string but the int 5."),
        (["a."], {"as_tuples": True}, "Item 1 of the texts is not a pair of a text and its context but the str 'a.'."),
        ("a b.", {}, "The texts must be a list or an iterator, not the str 'a b.'. Pass an open file "),
        ([], {"batch_size": 0}, "batch_size must be a number of texts, at least 1, not the int 0."),
    ],
)
def test_pipe_names_the_item_that_is_wrong(nlp, texts, options, message):
    with pytest.raises(TreefineError) as error:
        list(nlp.pipe(texts, **options))

    assert str(error.value).startswith(message)


def test_refine_needs_trees_and_a_model_that_reads_them():
    with pytest.raises(TreefineError, match=r"There are no heads to refine in the list \['A', 'dog'\]"):
        PARSER.refine(["A", "dog"])
    with pytest.raises(TreefineError, match="This model reads no graph, so it cannot refine an initial parse."):
        SYNTR.refine(sample(1))


# Constraints


def test_constraints_may_be_dictionaries():
    words, constraints = ["A", "dog", "barks"], {"heads": {3: 0}, "labels": {1: "det"}, "not_heads": {2: [1]}}

    parse = PARSER.parse(words, constraints=constraints)

    assert parse == PARSER.parse(words, constraints=Constraints(**constraints))
    assert PARSER.parse([words, words], constraints=[constraints, {}])[0].tree == parse.tree
    assert PARSER.steps(words, constraints=constraints)[-1].tree == parse.tree


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        ({4: 0}, "Constraints have no key 4. The keys are heads, labels, not_heads, not_labels. Write Constraints("),
        ({"head": {4: 0}}, "Constraints have no key 'head'. Did you mean heads?"),
        ({"heads": 4}, "heads must be a dictionary, not the int 4. Write heads={4: 0}, with words numbered from 1."),
        ({"heads": {"4": 0}}, "heads cannot contain the dict {'4': 0}. Write heads={4: 0}, "),
        ({"not_labels": {1: "obj"}}, "not_labels cannot contain the dict {1: 'obj'}. Write not_labels={2: ["),
        ({"not_heads": {1: ["a"]}}, "not_heads cannot contain the dict {1: ['a']}. "),
        ({"heads": {9: 0}}, "There is a constraint on word 9, but the sentence has 2 words."),
        ({"heads": {1: 9}}, "A constraint names the head 9, but the sentence has 2 words."),
        ({"heads": {2: 2}}, "A constraint attaches this word to itself."),
        (5, "The constraints must be a list, not the int 5. Pass a list with one for each sentence."),
        ([5], "The constraints of a sentence must be a Constraints or a dictionary, not the int 5. Write Constr"),
    ],
)
def test_wrong_constraints_are_a_clear_error(constraints, message):
    with pytest.raises(TreefineError) as error:
        PARSER.parse(["A", "dog"], constraints=constraints)

    assert message in str(error.value)


# Anything else

JUNK = [None, 5, 2.5, b"x", "", "x\0", [], [[]], [""], [1], [None], [[["a"]]], {}, {"a": 1}, {4: 0}, object(), (1, 2)]
JUNK += [[sample(1)[0], 5], [["a"], "b"], Graph.of_words([0], ["root"]), Constraints, print]


def error_of(call, junk):
    """Return the error that a call raises, at once or when its result is read; None if it raises none."""
    try:
        result = call(junk)
        list(islice(result, 10) if isinstance(result, Iterator) else ())
    except TreefineError as error:
        return str(error)
    return None


CALLS = {
    "load": treefine.load,
    "Parser": Parser,
    "parse": PARSER.parse,
    "stream_trees": PARSER.stream_trees,
    "steps": PARSER.steps,
    "refine": PARSER.refine,
    "label_map": lambda junk: PARSER.refine(sample(1), label_map=junk),
    "constraints": lambda junk: PARSER.parse(["A", "dog"], constraints=junk),
    "read_treebank": treefine.read_treebank,
    "parse_file": lambda junk: PARSER.parse_file(junk, "out.conllu"),
    "save": PARSER.save,
    "write_treebank": lambda junk: treefine.write_treebank(junk, "out.conllu"),
    "evaluate": lambda junk: treefine.evaluate(sample(1), junk),
    "to_table": treefine.to_table,
    "to_html": treefine.to_html,
    "of_words": Sentence.of_words,
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore::treefine.errors.UnknownLabelWarning")
def test_wrong_arguments_raise_only_errors_of_treefine(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    errors = [error_of(CALLS[name], junk) for junk in [*JUNK, (each for each in [1, 2])]]

    said = [each for each in errors if each is not None]
    assert len(said) >= 5
    assert all(each and "\n" not in each for each in said)
