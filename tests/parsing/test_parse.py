"""The results of a parser: words with offsets, tags and arcs, confidences, and changes."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from tests.support.generated import random_heads
from tests.support.tiny import sample
from treefine import Graph, Sentence, TreefineError
from treefine.parsing.confidence import Confidence
from treefine.parsing.parse import Change, Parse, ParsedWord
from treefine.treebank.graph import Arcs

TEXT = "Dogs bark. Don't you\n\nhear them?  "


@for_all(st.text(max_size=60))
def test_offsets_rebuild_any_text(nlp, text):
    parses = nlp(text)

    spans = [span for parse in parses for span in parse.spans]
    assert all(start < end for start, end in spans)
    assert all(before[1] <= after[0] for before, after in zip(spans, spans[1:], strict=False))
    gaps = [text[a:b] for a, b in zip([0, *(e for _, e in spans)], [*(s for s, _ in spans), len(text)], strict=True)]
    assert not any(character.isalnum() for gap in gaps for character in gap)
    forms = [word.form for parse in parses for word in parse.words]
    assert forms == [text[start:end] for start, end in spans]


def test_trees_equal_those_of_stream_and_steps_those_of_refine(nlp):
    sentences = sample(12)

    parses = list(nlp.stream(sentences))

    assert [parse.sentence for parse in parses] == list(nlp.stream_trees(sentences))
    for parse, sentence in zip(parses, sentences, strict=True):
        steps = list(nlp.steps(sentence))
        assert parse.steps == tuple(step.graph for step in steps)
        assert parse.tree == steps[-1].tree
        last = steps[-1].arc_probabilities
        for word in parse.words:
            assert word.arc_confidence == pytest.approx(last[word.number, word.head], rel=1e-3)


def test_json_has_everything(nlp):
    parse = nlp(TEXT)[0]

    found = json.loads(parse.to_json())

    assert "\n" not in parse.to_json()
    assert found["text"] == parse.text
    assert (found["start"], found["end"]) == (parse.start, parse.end) == (parse.spans[0][0], parse.spans[-1][1])
    assert [word["head"] for word in found["words"]] == list(parse.heads)
    assert [(word["start"], word["end"]) for word in found["words"]] == list(parse.spans)
    assert found["steps"][-1]["heads"] == list(parse.steps[-1].heads[1:])
    assert found["confidence"] == pytest.approx(parse.confidence, abs=1e-4)


# Changes made by refinement

WORDS = ["Dogs", "bark", "loudly"]
TREE = Graph.of_words([2, 0, 2], ["nsubj", "root", "advmod"])
SURE = (Confidence(0.5, 0.5), Confidence(1.0, 1.0), Confidence(0.8, 0.5))


def parse(initial, *steps, before=SURE, converged=True):
    sentence = Sentence.of_words(WORDS).with_graph(TREE)
    return Parse(sentence, ((0, 4), (5, 9), (10, 16)), SURE, 0.3, steps or (TREE,), initial, before, converged)


def test_a_change_has_the_old_and_the_new_arc_with_confidences():
    old = Arcs((2, 0, 1), ("obj", "root", "advmod"))
    before = (Confidence(0.5, 0.25), Confidence(1.0, 1.0), Confidence(0.25, 0.5))

    assert parse(old, before=before).changes == (
        Change(1, "Dogs", 2, "obj", 2, "nsubj", 0.125, 0.25, 1),
        Change(3, "loudly", 1, "advmod", 2, "advmod", 0.125, 0.4, 1),
    )


@st.composite
def arcs_over(draw, n_words):
    heads = [draw(st.none() | st.integers(0, n_words)) for _ in range(n_words)]
    return Arcs(tuple(heads), tuple(draw(st.sampled_from(["obj", "nsubj", "_", "odd"])) for _ in heads))


@for_all(st.data())
def test_changes_lead_from_any_start_to_any_tree(data):
    n_words = data.draw(st.integers(1, 6))
    start = data.draw(arcs_over(n_words))
    tree = Graph.of_words(data.draw(random_heads(n_words)), ["nsubj"] * n_words)
    sure = tuple(Confidence(0.5, 0.5) for _ in range(n_words))
    before = tuple(None if head is None else Confidence(0.25, 1.0) for head in start.heads)
    sentence = Sentence.of_words(["x"] * n_words).with_graph(tree)
    found = Parse(sentence, ((0, 1),) * n_words, sure, 0.5, (tree,), start, before, True)

    changed = list(zip(*start, strict=True))
    for change in found.changes:
        assert changed[change.word - 1] == (change.old_head, change.old_label)
        changed[change.word - 1] = (change.head, change.label)
        assert (change.before is None) == (change.old_head is None)
        assert math.isclose(change.after, 0.25)
    assert changed == list(zip(*tree.arcs, strict=True))
    assert found.changed_picture().graph == tree


def test_the_confidence_of_a_sentence_includes_that_of_its_cut(nlp):
    (given, *_) = nlp.segment(["Dogs bark."])
    whole, cut = nlp.stream_segmented([given, replace(given, boundary_confidence=0.5)])

    assert (whole.cut_confidence, cut.cut_confidence) == (1.0, 0.5)
    assert cut.confidence == pytest.approx(0.5 * whole.confidence, rel=1e-4)
    assert cut.to_dict()["cut_confidence"] == 0.5
    assert "cut_confidence" not in whole.to_dict()
    assert f"# confidence = {cut.confidence:.2f}" in cut.to_conllu(confidence=True)


def chain(n_words):
    """Return a parse in which each word attaches to the one before it."""
    tree = Graph.of_words(range(n_words), ["root", *["dep"] * (n_words - 1)])
    sentence, none = Sentence.of_words(["x"] * n_words).with_graph(tree), (None,) * n_words
    words = (Confidence(1.0, 1.0),) * n_words
    return Parse(sentence, ((0, 1),) * n_words, words, 1.0, (tree,), Arcs(none, ("_",) * n_words), none, True)


class CountedWords(tuple):
    """Words that count how often all of them are read."""

    n_passes = 0

    def __iter__(self):
        self.n_passes += 1
        return super().__iter__()


def test_walking_a_tree_takes_a_number_of_comparisons_that_grows_with_its_size(monkeypatch):
    compared, equal = [], ParsedWord.__eq__
    monkeypatch.setattr(ParsedWord, "__eq__", lambda *words: compared.append(1) or equal(*words))
    parse = chain(2000)
    vars(parse)["words"] = words = CountedWords(parse.words)

    path = [parse.root]
    while children := parse.children(path[-1]):
        path += children
    heads = [parse.head_of(word) for word in path]

    assert [word.number for word in path] == list(range(1, 2001))
    assert [head.number for head in heads[1:]] == list(range(1, 2000))
    assert len(parse.subtree(path[1500])) == 500
    assert len(compared) <= 3 * 2000
    assert words.n_passes == 1


def test_a_word_of_another_parse_is_an_error():
    with pytest.raises(TreefineError, match=r"is not a word of this parse. Pass one of its words, such as parse\[0\]."):
        chain(2).children(replace(chain(3)[0], form="y"))
