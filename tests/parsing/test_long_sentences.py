"""Parse long sentences in parts, in linear memory."""

import warnings
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tiny import sample, tiny_model
from treefine import Graph, Parser, Sentence, TreefineError
from treefine.config import MOST_WORDS, TagSettings
from treefine.parsing.batches import run, word_ranges
from treefine.parsing.confidence import Confidence
from treefine.parsing.initial import given as given_arcs
from treefine.parsing.results import parses, trees
from treefine.treebank.constraints import Constraints

pytestmark = pytest.mark.filterwarnings("ignore::treefine.errors.LongSentenceWarning")
TAGGING = Parser(tiny_model(tags=TagSettings("predicted", ("upos", "xpos"))), device="cpu", max_steps=3)
FORMS = [form for sentence in sample(20) for form in sentence.forms]
MOST = 6
WORDS = st.lists(st.sampled_from(FORMS), min_size=MOST + 1, max_size=4 * MOST).map(Sentence.of_words)
LONG = Sentence.of_words(FORMS[:20])


def parser_of(most_words=MOST, **options):
    parser = TAGGING.using(**options)
    parser._plan = replace(parser._plan, most_words=most_words)
    return parser


def results(work, sentences, **options):
    return [result for _, result in run(parser_of(**options).plan(), sentences, work)]


def joined(graphs):
    """Join trees in a simple way: all roots attach to the first root."""
    heads, labels, root = [], [], graphs[0].roots[0]
    for graph in graphs:
        before = len(heads)
        for head, label in zip(graph.heads[1:], graph.labels[1:], strict=True):
            is_join = head == 0 and before > 0
            heads.append(before + head if head else root if is_join else 0)
            labels.append("parataxis" if is_join else label)
    return Graph.of_words(heads, labels)


def parts_of(sentence):
    """Return the parts as sentences of their own, without initial arcs."""
    return [Sentence.of_words(sentence.forms[words[0] - 1 : words[-1]]) for words in word_ranges(sentence, MOST)]


@given(sentences=st.lists(WORDS | st.just(Sentence.of_words(["Go", "."])), min_size=1, max_size=3))
def test_the_tree_of_a_long_sentence_joins_the_trees_of_its_parts(sentences):
    for sentence, parsed in zip(sentences, results(trees, sentences), strict=True):
        parts = [results(trees, [part])[0] for part in parts_of(sentence)]
        assert parsed.graph == joined([part.graph for part in parts])
        assert parsed.graph.is_tree
        assert parsed.forms == sentence.forms
        assert parsed.upos == tuple(tag for part in parts for tag in part.upos)


def test_a_parse_has_the_confidences_of_the_parts_and_none_for_the_arcs_between_them():
    (whole,), (tree,) = results(parses, [LONG]), results(trees, [LONG])
    parts = [results(parses, [part])[0] for part in parts_of(LONG)]

    assert whole.sentence == tree
    words = list(parts[0].word_confidences)
    for part in parts[1:]:
        words += [
            Confidence(0, 0) if head == 0 else sure
            for head, sure in zip(part.heads, part.word_confidences, strict=True)
        ]
    assert whole.word_confidences == tuple(words)
    assert whole.tag_confidences["upos"] == tuple(sure for part in parts for sure in part.tag_confidences["upos"])
    assert whole.converged == all(part.converged for part in parts)
    assert whole.steps == ()
    assert parser_of().parse(LONG).to_dict()["steps"] == []


def test_a_sentence_of_the_maximum_length_is_parsed_as_a_whole():
    sentence = Sentence.of_words(FORMS[:MOST])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert results(parses, [sentence]) == results(parses, [sentence], most_words=MOST_WORDS)


def test_the_parts_read_the_initial_arcs_that_stay_within_them():
    tree = Graph.of_words([0, *range(1, 20)], ["root", *["obj"] * 19])
    (parse,) = results(parses, [LONG.with_graph(tree)], initial=given_arcs, trust=1000)

    starts = [words[0] for words in word_ranges(LONG, MOST)]
    assert [head for word, head in enumerate(parse.heads, start=1) if word not in starts] == [
        word - 1 for word in range(1, 21) if word not in starts
    ]


@pytest.mark.parametrize("place", ["end", "line", "comma", "token"])
def test_parts_end_where_a_sentence_could_end(place):
    forms, notes = ["a"] * 10, ["_"] * 10
    if place in ("end", "comma"):
        forms[3] = "." if place == "end" else ","
    if place == "line":
        notes[3] = "SpacesAfter=\\n"

    ranges = word_ranges(Sentence.of_words(forms).with_misc(notes), 6)

    assert ranges == ([range(1, 6), range(6, 11)] if place == "token" else [range(1, 5), range(5, 11)])


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: parser_of().parse(LONG, constraints=Constraints(heads={1: 0})), "Constraints are not possible in a"),
        (lambda: parser_of(k=2).parse(LONG), r"The sentence has more than 6 words, so k must be 1 \(--k 1\)"),
        (lambda: parser_of().steps(LONG), r"so its refinement steps cannot be shown \(--show-steps\)"),
        (lambda: parser_of().parse(LONG).pictures(steps=True), "The steps of so long a sentence cannot be drawn"),
    ],
    ids=["constraints", "k", "steps", "drawing"],
)
def test_constraints_k_best_trees_and_steps_are_for_shorter_sentences(use, message):
    with pytest.raises(TreefineError, match=message):
        use()
