"""Parse long sentences in parts, in linear memory."""

import tracemalloc
import warnings
from dataclasses import replace
from io import BytesIO
from itertools import product
from math import prod

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.overrides import TorchFunctionMode

from tests.fast.test_engine import packed_plan
from tests.parsing.test_constrained import obeys
from tests.support.data import DATA
from tests.support.generated import random_heads
from tests.support.tiny import sample, tiny_biaffine, tiny_model
from treefine import Graph, Parser, Sentence, TreefineError, read_treebank
from treefine.config import MOST_WORDS, DecodeSettings, TagSettings
from treefine.errors import LongSentenceWarning
from treefine.fast.engine import Engine
from treefine.fast.packed_encoder import Room
from treefine.parsing.batches import run
from treefine.parsing.confidence import Confidence
from treefine.parsing.initial import given as given_arcs
from treefine.parsing.long_sentences import SentenceParts, word_ranges
from treefine.parsing.plan import Item
from treefine.parsing.results import parses, steps, timed_steps, trees
from treefine.serving.limits import work_of
from treefine.treebank.constraints import FREE, Constraints
from treefine.treebank.graph import Arcs

pytestmark = pytest.mark.filterwarnings("ignore::treefine.errors.LongSentenceWarning")
TAGGING = Parser(tiny_model(tags=TagSettings("predicted", ("upos", "xpos"))), device="cpu", max_steps=3)
PARSERS = {"transformer": TAGGING, "BiLSTM": Parser(tiny_biaffine(), device="cpu")}
FORMS = [form for sentence in sample(20) for form in sentence.forms]
MOST = 6


def plan_of(parser=TAGGING, *, most_words=MOST, constraints=None, **options):
    return replace(parser.using(**options).plan(constraints), most_words=most_words)


def results(work, sentences, **options):
    return [found for _, found in run(plan_of(**options), sentences, work)]


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


WORDS = st.lists(st.sampled_from(FORMS), min_size=MOST + 1, max_size=4 * MOST).map(Sentence.of_words)


@pytest.mark.parametrize("kind", PARSERS)
@settings(max_examples=4, deadline=None)
@given(sentences=st.lists(WORDS | st.just(Sentence.of_words(["Go", "."])), min_size=1, max_size=3))
def test_the_tree_of_a_long_sentence_joins_the_trees_of_its_parts(kind, sentences):
    parser = PARSERS[kind]

    found = results(trees, sentences, parser=parser)

    for sentence, parsed in zip(sentences, found, strict=True):
        parts = [results(trees, [part], parser=parser)[0] for part in parts_of(sentence)]
        assert parsed.graph == joined([part.graph for part in parts])
        assert parsed.graph.is_tree
        assert parsed.forms == sentence.forms
        assert parsed.upos == tuple(tag for part in parts for tag in part.upos)


def test_a_sentence_of_the_maximum_length_is_parsed_as_a_whole():
    sentence = Sentence.of_words(FORMS[:MOST])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert results(parses, [sentence]) == results(parses, [sentence], most_words=MOST_WORDS)


@settings(max_examples=3, deadline=None)
@given(sentence=WORDS)
def test_a_parse_joins_everything_that_the_parses_of_its_parts_have(sentence):
    (whole,), (tree,) = results(parses, [sentence]), results(trees, [sentence])
    parts = [results(parses, [part])[0] for part in parts_of(sentence)]
    start, words = 0, list(whole.word_confidences)
    for part in parts:
        root = start + part.tree.roots[0]
        assert whole.word_confidences[root - 1] == (Confidence(0, 0) if start else part.word_confidences[root - 1])
        words[root - 1] = part.word_confidences[part.tree.roots[0] - 1]
        start += len(part)

    assert whole.sentence == tree
    assert tuple(words) == tuple(each for part in parts for each in part.word_confidences)
    assert len(whole.steps) == max(len(part.steps) for part in parts)
    assert whole.steps[-1].heads[1:][: len(parts[0])] == parts[0].steps[-1].heads[1:]
    assert whole.initial_confidences == (None,) * len(sentence)
    assert whole.converged == all(part.converged for part in parts)
    assert 0 <= whole.confidence < 0.5
    assert len(replace(whole, spans=((0, 0),) * len(sentence)).changes) == len(sentence)
    assert all(0 <= each <= 1 for each in whole.agreement)


def test_each_step_has_confidences_for_all_words():
    sentence = Sentence.of_words(FORMS[: 3 * MOST])

    (whole,) = parses(plan_of(), [Item(sentence, next(TAGGING.initial([sentence])), FREE)], each_step=True)

    assert [len(each) for each in whole.step_confidences] == [len(sentence)] * len(whole.steps)


def test_the_k_best_trees_are_the_best_combinations_of_the_trees_of_the_parts():
    sentence = Sentence.of_words(FORMS[: 2 * MOST])
    (whole,) = results(parses, [sentence], k=4)
    parts = [results(parses, [part], k=4)[0].trees for part in parts_of(sentence)]

    best = sorted(product(*parts), key=lambda chosen: -prod(each.probability for each in chosen))[:4]

    assert [each.tree for each in whole.trees] == [joined([each.tree for each in chosen]) for chosen in best]
    assert whole.trees[0].tree == whole.tree
    assert whole.trees[1].probability == pytest.approx(prod(each.probability for each in best[1]))
    assert len(whole.ranked_sentences(confidence=True)) == 4


def test_the_steps_of_a_long_sentence_have_the_scores_of_its_parts():
    sentence = Sentence.of_words(FORMS[: 3 * MOST])
    (found,), (tree,) = results(steps, [sentence]), results(trees, [sentence])
    first, second, _ = parts_of(sentence)
    (of_first,), (of_second,) = results(steps, [first]), results(steps, [second])
    n_first, n_both = len(first) + 1, len(first) + len(second) + 1

    assert [step.t for step in found] == list(range(1, len(found) + 1))
    assert found[-1].tree == tree.graph
    scores = found[0].arc_scores
    np.testing.assert_array_equal(scores[1:n_first, :n_first], of_first[0].arc_scores[1:])
    np.testing.assert_array_equal(scores[n_first:n_both, n_first:n_both], of_second[0].arc_scores[1:, 1:])
    assert np.isneginf(scores[1:n_first, n_first:]).all()
    assert found[0].arc_probabilities.shape == (len(sentence) + 1, len(sentence) + 1)
    assert found[0].graph.heads[1:] == tuple(scores[1:].argmax(1))
    assert [len(each) for each in found[0].tags] == [len(sentence)] * 2
    assert found[0].label_probabilities.shape == (len(sentence) + 1, len(found[0].labels))


def test_initial_arcs_between_parts_are_dropped():
    sentence = Sentence.of_words(FORMS[: 2 * MOST])
    n_words = len(sentence)
    chain = sentence.with_graph(Graph.of_words(range(n_words), ["root"] + ["obj"] * (n_words - 1)))
    _, second = word_ranges(chain, MOST)
    item = Item(chain, chain.arcs, FREE)

    parts = SentenceParts.of(plan_of(), item).items
    (whole,) = results(parses, [chain], initial=given_arcs)

    assert parts[1].initial.heads == (None, *range(1, len(second)))
    assert [word for word, each in enumerate(whole.initial_confidences, 1) if each is None] == [second[0]]
    assert whole.initial == chain.arcs


@st.composite
def decisions(draw, n_words):
    """Draw a tree, and constraints that it satisfies."""
    heads = draw(random_heads(n_words))
    words = st.sets(st.integers(1, n_words), max_size=4)
    kept = {word: heads[word - 1] for word in draw(words)}
    labels = {word: "obj" for word in draw(words) if heads[word - 1]}
    not_heads = {word: {draw(st.integers(0, n_words))} - {word, heads[word - 1]} for word in draw(words)}
    not_labels = {word: ["parataxis"] for word in draw(words)}
    return Constraints(kept, labels, not_heads, not_labels)


@settings(max_examples=8, deadline=None)
@given(decided=decisions(10))
def test_the_tree_of_a_long_sentence_satisfies_constraints_within_and_between_parts(decided):
    (parsed,) = results(parses, [Sentence.of_words(FORMS[:10])], most_words=4, constraints=[decided], max_steps=2)

    assert parsed.tree.is_tree
    assert obeys(parsed.tree, decided)
    assert all(parsed.word_confidences[word - 1].arc == 1 for word in decided.heads)


@settings(max_examples=5, deadline=None)
@given(heads=random_heads(12))
def test_a_tree_that_is_kept_as_a_whole_stays_as_it_is(heads):
    sentence = Sentence.of_words(FORMS[:12])
    tree = Graph.of_words(heads, ["obj" if head else "root" for head in heads])

    (parsed,) = results(trees, [sentence.with_graph(tree)], most_words=4, keep="given")

    assert parsed.graph == tree


@pytest.mark.parametrize(
    ("decided", "message"),
    [
        (Constraints({1: 0, 9: 0}), "No tree with one root satisfies all of these constraints: word 1"),
        (Constraints({1: 9, 9: 1}), "No tree with one root satisfies all of these constraints: word 1"),
        (Constraints(labels={1: "root", 9: "root"}), "Constraints make words 1 and 9 the root, but a tree has one"),
        (Constraints(not_heads={10: range(11)}), "No tree satisfies all constraints on words 8 to 10. The sentence"),
        (Constraints({11: 1}), "There is a constraint on word 11, but the sentence has 10 words"),
    ],
)
def test_impossible_constraints_on_a_long_sentence_are_an_error(decided, message):
    parser = Parser(tiny_model(decode=DecodeSettings(root_label="root")), device="cpu", max_steps=1)

    with pytest.raises(TreefineError, match=message):
        results(trees, [Sentence.of_words([*"abcdefghij"])], parser=parser, most_words=4, constraints=[decided])


def test_trees_of_long_sentences_can_be_projective():
    sentence = Sentence.of_words(FORMS[: 3 * MOST])
    crossing = Constraints({1: 9, 2: 12, 10: 3})

    (parsed,) = results(trees, [sentence], is_projective=True)
    with pytest.raises(TreefineError, match="word 1.*not projective.*remove this constraint"):
        results(trees, [sentence], is_projective=True, constraints=[crossing])

    assert parsed.graph.is_projective


def test_only_heads_labels_and_blank_tags_change():
    (before, *_) = [each for each in read_treebank(DATA / "constructs.conllu") if len(each.columns[0]) > len(each) > 3]
    before = before.with_tags(upos=["_" if word % 2 else "NOUN" for word in range(len(before))])

    (after,) = results(trees, [before], most_words=2)

    assert after == before.with_graph(after.graph).with_tags(upos=after.upos, xpos=after.xpos)
    assert all(new in (old, "_") or old == "_" for old, new in zip(before.upos, after.upos, strict=True))
    assert "_" not in after.upos
    assert after.graph.is_tree


@settings(max_examples=60)
@given(st.lists(st.sampled_from(["a", ",", "."]), min_size=1, max_size=40), st.integers(1, 12))
def test_parts_contain_each_word_once_and_are_not_too_long(forms, most_words):
    found = word_ranges(Sentence.of_words(forms), most_words)

    assert [word for words in found for word in words] == list(range(1, len(forms) + 1))
    assert all(1 <= len(words) <= most_words for words in found)


def test_a_sentence_is_cut_after_punctuation_at_line_ends_and_never_inside_a_token():
    six = Sentence.of_words([*"abcdef"])
    at_line = six.with_misc(["_", "_", "SpacesAfter=\\n", "_", "_", "_"])
    with_token = six.to_conllu().replace("4\td", "4-5\tde" + "\t_" * 8 + "\n4\td")
    (around_token,) = read_treebank(BytesIO(with_token.encode()))

    assert [len(words) for words in word_ranges(Sentence.of_words("a b c , d e . f g".split()), 8)] == [7, 2]
    assert [len(words) for words in word_ranges(Sentence.of_words("a b c , d e f".split()), 5)] == [4, 3]
    assert [len(words) for words in word_ranges(at_line, 5)] == [3, 3]
    assert [len(words) for words in word_ranges(around_token, 4)] == [3, 3]


@pytest.mark.filterwarnings("default::treefine.errors.LongSentenceWarning")
def test_a_warning_names_the_sentence_and_the_number_of_parts():
    sentence = replace(Sentence.of_words(FORMS[: 3 * MOST]), path="in.conllu", line=7, number=2)

    with pytest.warns(LongSentenceWarning) as found:
        results(trees, [Sentence.of_words(["Go"]), sentence])

    expected = "in.conllu:7: (sentence 2) The sentence has 18 words and is parsed in 3 parts."
    assert [str(each.message) for each in found] == [f"{expected} Only the roots of the parts are connected."]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (("dep", "parataxis", "root"), "parataxis"),
        (("dep", "obj", "root"), "dep"),
        (("obj", "root"), "obj"),
        (("x",), "x"),
    ],
)
def test_the_label_between_parts_is_one_that_the_model_knows(labels, expected):
    plan = plan_of()
    vocabulary = replace(plan.model.vocabulary, labels=labels)
    model = tiny_model()
    model.vocabulary = vocabulary
    sentence = Sentence.of_words(FORMS[: 2 * MOST])
    item = Item(sentence, Arcs((None,) * len(sentence), ("_",) * len(sentence)), FREE)

    parts = SentenceParts.of(replace(plan, model=model), item)

    assert parts.joining[0] == expected


def test_the_engine_parses_a_long_sentence_in_the_same_parts():
    sentences = [*sample(2), Sentence.of_words(["Go"])]
    plan = replace(packed_plan(TAGGING), most_words=MOST)
    rooms = (Room(160, 12, 24), Room(128, 4, 64))

    found = list(Engine(plan, rooms).stream_sentences(plan, sentences))

    assert found == results(trees, sentences)


def test_the_analysis_of_steps_counts_a_long_sentence_once(monkeypatch):
    monkeypatch.setattr("treefine.parsing.plan.MOST_WORDS", MOST)
    sentences, done = sample(3), []

    found = timed_steps(TAGGING.using(), sentences, on_sentences=done.append)

    assert sum(done) == found.sentences[0] == 3
    expected = results(steps, sentences)
    assert [[each.tree for each in one] for one in found.steps] == [
        [each.tree.arcs for each in one] for one in expected
    ]


class Largest(TorchFunctionMode):
    """Records the number of elements of the largest tensor."""

    size = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        for each in found if isinstance(found, (tuple, list)) else [found]:
            if isinstance(each, torch.Tensor):
                self.size = max(self.size, each.numel())
        return found


def memory(n_words):
    """Return the size of the largest tensor, and the peak of Python's and numpy's memory."""
    sentence, plan = Sentence.of_words((FORMS * 9)[:n_words]), plan_of(most_words=9, max_steps=1)
    list(run(plan, [sentence], parses))  # fills caches
    tracemalloc.start()
    try:
        with Largest() as largest:
            list(run(plan, [sentence], parses))
        return largest.size, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_grows_linearly_with_the_length_of_a_sentence():
    half, whole = memory(90), memory(180)

    assert whole[0] <= 2.2 * half[0]
    assert whole[1] <= 2.2 * half[1]


def test_the_work_of_a_long_sentence_grows_linearly():
    for options in ({}, {"k": 2}, {"k": 2, "is_projective": True}):
        half, whole = (work_of(n_words, steps=3, **options) for n_words in (4 * MOST_WORDS, 8 * MOST_WORDS))
        assert whole <= 2 * half + 1
