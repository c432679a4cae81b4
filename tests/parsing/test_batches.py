"""Split a stream of sentences into batches, halve them when memory runs out, and parse long sentences in parts."""

import warnings
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tiny import sample, short, tiny_model, tiny_parser
from tests.support.wrapped_models import Crowded
from treefine import Graph, Parser, Sentence, TreefineError
from treefine.config import MOST_WORDS, TagSettings
from treefine.cores import torch_threads
from treefine.parsing.batches import batches, parse_inputs, run, word_ranges
from treefine.parsing.confidence import Confidence
from treefine.parsing.initial import input_trees
from treefine.parsing.results import parses, trees
from treefine.treebank.constraints import Constraints


@given(st.lists(st.integers(1, 30), max_size=40), st.integers(1, 100), st.integers(1, 30))
def test_every_sentence_is_in_one_batch_of_at_most_the_given_size(sizes, batch_pieces, longest):
    found = batches(sizes, batch_pieces, longest)

    assert sorted(number for batch in found for number in batch) == list(range(len(sizes)))
    for batch in found:
        most = max(sizes[number] for number in batch)
        assert len(batch) == 1 or (len(batch) * most <= batch_pieces and most <= longest)


# Skipped sentences: the others stay in their batches


@pytest.fixture(scope="module")
def parser():
    return tiny_parser(max_steps=1, batch_pieces=60)


def scored_together(parser, skip):
    """Return the sentences that are scored together, and those that are yielded."""
    scored = []

    def work(plan, items):
        scored.append(tuple(item.sentence.number for item in items))
        return [None] * len(items)

    plan = parser.plan()
    found = [sentence.number for sentence, _ in run(plan, parse_inputs(plan, sample(60)), work, skip=skip)]
    return scored, found


@pytest.mark.parametrize("skip", range(0, 64, 7))
def test_skipping_keeps_the_batches_and_most_skipped_sentences_are_not_scored(parser, skip):
    """Rounding depends on the batch, and a confidence must be the same to its last digit."""
    whole, all_found = scored_together(parser, 0)

    scored, found = scored_together(parser, skip)

    assert found == all_found[skip:]
    assert scored == whole[len(whole) - len(scored) :]
    assert len(whole) > 16
    assert skip - (60 - sum(map(len, scored))) <= 40  # those in the chunk of the first one


# Memory


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes."),
    ],
    ids=repr,
)
def test_when_memory_runs_out_the_batch_is_halved_and_nothing_is_lost(parser, error):
    crowded = Crowded(parser.model, 200, error)
    together = 8 * short(2)  # sentences of equal length share a batch

    parsed = Parser(crowded, device="cpu", max_steps=1, batch_pieces=4000).parse(together)

    assert crowded.refusals
    assert parsed == 8 * parser.parse(short(2))


def test_too_little_memory_for_one_sentence_is_an_error(parser):
    crowded = Crowded(parser.model, 1, MemoryError())

    with pytest.raises(TreefineError) as error:
        Parser(crowded, device="cpu").parse(sample(2)[1])

    assert str(error.value).endswith(
        "-0002) There is not enough memory to parse this sentence. Use another device or a smaller model."
    )
    assert crowded.refusals == 1  # a single sentence cannot be split, so it is not tried again


@pytest.mark.parametrize("batch_pieces", [60, 1000])
def test_batches_parsed_at_the_same_time_give_the_same_trees_and_parses(batch_pieces):
    parser = tiny_parser(batch_pieces=batch_pieces, max_steps=3)
    sentences = short()
    one_by_one = list(parser.stream_trees(sentences))
    with torch_threads(3):
        at_once, parses = list(parser.stream_trees(sentences)), list(parser.stream(sentences))

    assert at_once == one_by_one
    assert [each.sentence for each in parses] == one_by_one


# Long sentences


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
    plan = parser_of(**options).plan()
    return [result for _, result in run(plan, parse_inputs(plan, sentences), work)]


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
    found, expected = (
        [number for each in some for number in (each.arc, each.label)] for some in (whole.word_confidences, words)
    )
    assert found == pytest.approx(expected, abs=1e-5)  # up to rounding, because the parts share a batch
    of_tags = [sure for part in parts for sure in part.tag_confidences["upos"]]
    assert list(whole.tag_confidences["upos"]) == pytest.approx(of_tags, abs=1e-5)
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
    (parse,) = results(parses, [LONG.with_graph(tree)], initial=input_trees, trust=1000)

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
        (lambda: parser_of(k=2).parse(LONG), "A sentence of more than 6 words has neither refinement steps nor"),
        (lambda: parser_of().steps(LONG), "A sentence of more than 6 words has neither refinement steps nor"),
        (lambda: parser_of().parse(LONG).pictures(steps=True), "The steps of so long a sentence cannot be drawn"),
    ],
    ids=["constraints", "k", "steps", "drawing"],
)
def test_constraints_k_best_trees_and_steps_are_for_shorter_sentences(use, message):
    with pytest.raises(TreefineError, match=message):
        use()
