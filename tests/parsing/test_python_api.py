"""The Python interface: texts, words and treebanks in, one kind of result out, and a clear error for anything else."""

import json
import pydoc
from collections.abc import Iterator
from itertools import count, islice

import pytest

import treefine
from tests.support.refine_commands import damaged
from tests.support.tiny import sample, tiny_model, tiny_parser
from treefine import Constraints, Graph, Parse, Parses, Sentence, TreefineError
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


def test_pipe_reads_only_the_texts_that_it_parses_together(nlp):
    read = []
    endless = (read.append(number) or "a b." for number in count())

    found = list(islice(nlp.pipe(endless, batch_size=3), 4))

    assert len(found) == 4
    assert len(read) == 6


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        (["a.", 5], {}, "Item 2 of the texts is not a string but the int 5."),
        (
            [("a.", 1)],
            {},
            "Item 1 of the texts is not a string but the tuple ('a.', 1). Pass as_tuples=True for pairs.",
        ),
        (["a."], {"as_tuples": True}, "Item 1 of the texts is not a pair but the str 'a.'. With as_tuples, "),
        ("a b.", {}, "The texts must be a list or an iterator, not the str 'a b.'. Pass a list of texts, "),
        ([], {"batch_size": 0}, "batch_size must be a number of texts, at least 1, not the int 0."),
    ],
)
def test_pipe_names_the_item_that_is_wrong(nlp, texts, options, message):
    with pytest.raises(TreefineError) as error:
        list(nlp.pipe(texts, **options))

    assert str(error.value).startswith(message)


# One kind of result


def test_words_sentences_and_earlier_parses_give_the_same_parse():
    words = ["A", "dog", "barks"]

    parse = PARSER.parse(words)

    assert isinstance(parse, Parse)
    assert PARSER.parse(iter(words)) == parse
    for same in (tuple(words), Sentence.of_words(words), parse):
        assert PARSER.parse(same) == parse
        assert PARSER.steps(same)[-1].tree == parse.tree
    assert PARSER.parse([words, parse]) == list(PARSER.stream([words, parse.sentence]))
    assert isinstance(PARSER.parse([words]), Parses)


def test_parses_can_be_written_in_every_format(tmp_path):
    parses = PARSER.parse(sample(2))

    treefine.write_treebank(parses, tmp_path / "out.conllu")

    assert (tmp_path / "out.conllu").read_text() == parses.to_conllu()
    assert parses.to_conllu(confidence=True).count("Conf=") == sum(map(len, parses))
    assert [json.loads(line) for line in parses.to_json().splitlines()] == json.loads(json.dumps(parses.to_dict()))
    assert parses.to_text() == f"{parses[0].to_text()}\n{parses[1].to_text()}"
    assert parses.to_svg() == treefine.to_svg(parses)
    assert parses.to_html(title="x").count("<section>") == 2
    assert parses[0].to_html().startswith("<!DOCTYPE html>")


# Words


# What objects say about themselves


def test_a_parser_a_sentence_and_a_parse_say_what_they_are(nlp, text_model):
    syntr = Parser(tiny_model(relations=RelationSettings(graph="none")), device="cpu")

    assert repr(nlp.using(max_steps=2)) == (
        f"<Parser {text_model!r}: RNGTr, T=2, tags: predicted, reads text and words, cpu, {nlp.precision}>"
    )
    assert repr(syntr) == "<Parser: SynTr, T=1, tags: given, reads words only, cpu, float32>"
    assert repr(Sentence.of_words(["Dogs", "bark"])) == "<Sentence 'Dogs bark', 2 words>"
    assert repr(Sentence.of_words(["x" * 100])) == f"<Sentence '{'x' * 59}…', 1 word>"
    assert repr(PARSER.parse([["A"]])).startswith("[<Parse 'A', 1 word, confidence ")


def test_dir_and_help_show_every_public_name():
    assert set(dir(treefine)) == {*treefine.__all__, "__version__"}
    for name in treefine.__all__:
        described = getattr(treefine, name)
        assert described.__doc__, name
        for member, value in vars(described).items() if isinstance(described, type) else ():
            if not member.startswith("_") and (callable(value) or isinstance(value, property | classmethod)):
                assert pydoc.getdoc(getattr(described, member)), f"{name}.{member}"
    assert "pipe(self, texts" in pydoc.plain(pydoc.render_doc(treefine.Parser))


def test_an_error_about_words_or_constraints_names_their_sentence(nlp):
    words = ["a", "dog"]
    with pytest.raises(TreefineError, match=r"\(sentence 2, word 1\)"):
        nlp.parse([words, words, words], constraints=[None, {"heads": {1: 9}}, {}])
    with pytest.raises(TreefineError, match=r"\(sentence 3\)"):
        nlp.parse([words, words, words], constraints=[{}, {}])
    with pytest.raises(TreefineError, match="Item 2 of the words is the int 3"):
        nlp.parse(["a", 3])
    with pytest.raises(TreefineError, match="read_treebank"):
        nlp.refine("other.conllu")


# Options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 3}, "A parser has no option 'steps'. Did you mean max_steps?"),
        ({"xyz": 3}, "A parser has no option 'xyz'. The options are initial, trust, max_steps, "),
        ({"k": "3"}, "The option k must be a whole number from 1, not the str '3'."),
    ],
)
def test_a_wrong_option_is_a_clear_error(text_model, options, message):
    for call in (lambda: treefine.load(text_model, **options), lambda: PARSER.using(**options)):
        with pytest.raises(TreefineError) as error:
            call()

        assert str(error.value).startswith(message)


# Refinement


def test_refine_gives_the_trees_of_the_command(run_refine, refine_model, tmp_path):
    (tmp_path / "map.tsv").write_text("obl\tobj\n")
    run_refine("in.conllu", "-o", "out.conllu", "--label-map", "map.tsv")
    parser = Parser.from_pretrained(refine_model, device="cpu")
    sentences, by_command = (list(treefine.read_treebank(name)) for name in ("in.conllu", "out.conllu"))

    for label_map in ({"obl": "obj"}, tmp_path / "map.tsv"):
        assert [each.sentence for each in parser.refine(iter(sentences), label_map=label_map)] == by_command
    assert any("obl" in each.initial.labels for each in parser.refine(sentences))
    assert isinstance(parser.refine(sentences[0]), Parse)
    with pytest.raises(TreefineError, match=r"The model has no label 'objj'. Did you mean obj\?"):
        parser.refine(sentences, label_map={"x": "objj"})


def test_refine_keeps_the_options_of_the_parser_and_its_constraints(refine_model):
    parser = Parser.from_pretrained(refine_model, device="cpu", max_steps=1)

    parse = parser.refine(next(damaged(sample(1))), constraints={"heads": {2: 0}})

    assert len(parse.steps) == 1
    assert parse.heads[1] == 0


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
        ({"heads": {1: "0"}}, "heads of word 1: the str '0' is not a head. Write heads={4: 0}, "),
        ({"labels": {1: 3}}, 'labels of word 1: the int 3 is not a label. Write labels={2: "obj"}, '),
        ({"not_labels": {1: "obj"}}, "not_labels of word 1 must be a list, not 'obj'. Give a list: "),
        ({"not_heads": {1: ["a"]}}, "not_heads of word 1: the str 'a' is not a head. "),
        ({"heads": {9: 0}}, "There is a constraint on word 9, but the sentence has 2 words."),
        ({"heads": {1: 9}}, "A constraint names the head 9, but the sentence has 2 words."),
        (5, "The constraints must be a list, not the int 5. Pass a list with one for each sentence."),
        ([5], "The constraints of a sentence must be a Constraints or a dictionary, not the int 5. Write Constr"),
    ],
)
def test_wrong_constraints_are_a_clear_error(constraints, message):
    with pytest.raises(TreefineError) as error:
        PARSER.parse(["A", "dog"], constraints=constraints)

    assert message in str(error.value)


# Anything else

JUNK = [
    None,
    5,
    2.5,
    b"x",
    "",
    "x\0",
    [],
    [[]],
    [""],
    [1],
    [None],
    [[1]],
    [[["a"]]],
    {},
    {"a": 1},
    {4: 0},
    object(),
    (1, 2),
]
JUNK += [sample(1)[0], [sample(1)[0], 5], [["a"], "b"], Graph.of_words([0], ["root"]), Constraints, print]


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
    "stream": PARSER.stream,
    "stream_trees": PARSER.stream_trees,
    "stream_steps": PARSER.stream_steps,
    "steps": PARSER.steps,
    "refine": PARSER.refine,
    "label_map": lambda junk: PARSER.refine(sample(1), label_map=junk),
    "constraints": lambda junk: PARSER.parse(["A", "dog"], constraints=junk),
    "constraints of several": lambda junk: PARSER.stream([["A"], ["a"]], constraints=junk),
    "constraints of steps": lambda junk: PARSER.steps(["A"], constraints=junk),
    "read_treebank": treefine.read_treebank,
    "format": lambda junk: treefine.read_treebank("x.conllu", format=junk),
    "encoding": lambda junk: treefine.read_treebank("x.conllu", encoding=junk),
    "parse_file": lambda junk: PARSER.parse_file(junk, "out.conllu"),
    "save": PARSER.save,
    "Graph": lambda junk: Graph.of_words(junk, ["root"]),
    "with_graph": sample(1)[0].with_graph,
    "write_treebank": lambda junk: treefine.write_treebank(junk, "out.conllu"),
    "target": lambda junk: treefine.write_treebank(sample(1), junk),
    "evaluate": lambda junk: treefine.evaluate(sample(1), junk),
    "gold": lambda junk: treefine.evaluate(junk, sample(1)),
    "rule": lambda junk: treefine.evaluate(sample(1), sample(1), rule=junk),
    "to_table": treefine.to_table,
    "to_svg": treefine.to_svg,
    "to_html": treefine.to_html,
    "Constraints.of": Constraints.of,
    "Constraints": lambda junk: Constraints(heads=junk),
    "of_words": Sentence.of_words,
    "tags": lambda junk: Sentence.of_words(["a"], upos=junk),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore::treefine.errors.UnknownLabelWarning")
def test_wrong_arguments_raise_only_errors_of_treefine(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    errors = [error_of(CALLS[name], junk) for junk in [*JUNK, (each for each in [1, 2])]]

    said = [each for each in errors if each is not None]
    assert len(said) >= 5
    assert all(each and "\n" not in each for each in said)


@pytest.mark.parametrize("name", ["__call__", "pipe", "stream_chunks", "stream_lines"])
def test_wrong_texts_raise_only_errors_of_treefine(nlp, name):
    said = [error_of(getattr(nlp, name), junk) for junk in JUNK]

    assert all("\n" not in each for each in said if each is not None)
    assert said[1]
