"""The Python interface: texts, words and treebanks in, one kind of result out, and a clear error for anything else."""

from collections.abc import Iterator
from itertools import islice

import pytest

import treefine
from tests.support.tiny import sample, tiny_model, tiny_parser
from treefine import Constraints, Graph, Parses, Sentence, TreefineError
from treefine.config import RelationSettings
from treefine.parsing.parser import Parser

PARSER = tiny_parser()
TEXTS = ["Ab a. B c.", "", "a b a b.\n\nc", "  \n", "b."]


def trees(parses):
    return [(each.sentence, each.spans) for each in parses]


# Many texts


@pytest.mark.parametrize("batch_size", [1, 2, 100])
def test_pipe_gives_the_parses_of_each_text_as_if_it_were_alone(nlp, batch_size):
    found = list(nlp.pipe(iter(TEXTS), batch_size=batch_size))

    assert all(isinstance(each, Parses) for each in found)
    assert list(map(trees, found)) == [trees(nlp(text)) for text in TEXTS]
    assert [len(each) for each in found][1::2] == [0, 0]


def test_pipe_returns_the_context_of_each_text(nlp):
    found = list(nlp.pipe([("a b.", {"file": 1}), ["", None]], as_tuples=True))

    assert [(len(parses), context) for parses, context in found] == [(1, {"file": 1}), (0, None)]


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        (["a.", 5], {}, "Item 2 of the texts is not a string but the int 5."),
        (["a."], {"as_tuples": True}, "Item 1 of the texts is not a pair but the str 'a.'. With as_tuples, "),
        ("a b.", {}, "The texts must be a list or an iterator, not the str 'a b.'. Pass a list of texts, "),
        ([], {"batch_size": 0}, "batch_size must be a number of texts, at least 1, not the int 0."),
    ],
)
def test_pipe_names_the_item_that_is_wrong(nlp, texts, options, message):
    with pytest.raises(TreefineError) as error:
        list(nlp.pipe(texts, **options))

    assert str(error.value).startswith(message)


def test_refine_needs_trees_and_a_model_that_reads_them():
    with pytest.raises(TreefineError, match=r"A list of words has no heads to refine: \['A', 'dog'\]"):
        PARSER.refine(["A", "dog"])
    syntr = Parser(tiny_model(relations=RelationSettings(graph="none")), device="cpu")
    with pytest.raises(TreefineError, match="This model reads no graph"):
        syntr.refine(sample(1))


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
        ({"heads": {"4": 0}}, "heads has the str '4' where it needs a word number. Write heads={4: 0}, "),
        ({"not_labels": {1: "obj"}}, "not_labels of word 1 must be a list, not 'obj'. Give a list: "),
        ({"not_heads": {1: ["a"]}}, "not_heads of word 1: the str 'a' is not a head. "),
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
