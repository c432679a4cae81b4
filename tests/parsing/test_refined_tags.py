"""Tags, features and lemmas in the output: from which step they come, which given ones are kept, and for any text."""

from dataclasses import replace

import numpy as np
import pytest

from tests.support.tiny import ALL_TAGS, short, tiny_model
from tests.support.tiny_segmenter import tiny_segmenter
from treefine import Parser, Sentence
from treefine.config import COLUMNS
from treefine.model.vocabulary import ruled_scripts
from treefine.parsing.annotate import with_parse
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import BLANK

REFINING, FIRST = (
    Parser(tiny_model(tags=replace(ALL_TAGS, refined=refined)), device="cpu", max_steps=4, segmenter=tiny_segmenter())
    for refined in (True, False)
)
every_parser = pytest.mark.parametrize("parser", [REFINING, FIRST], ids=["refined", "of the first step"])


def untagged(sentences):
    return [Sentence.of_words(each.forms) for each in sentences]


def tags_of(sentence):
    return tuple(getattr(sentence, column) for column in COLUMNS)


def test_refined_tags_are_those_of_the_last_step():
    sentences = untagged(short(8))
    found = [REFINING.steps(each) for each in sentences]

    assert [tags_of(each) for each in REFINING.stream_trees(sentences)] == [each[-1].tags for each in found]
    assert any(each[-1].tags != each[0].tags for each in found)


@every_parser
def test_trees_and_full_parses_agree_and_each_tag_has_its_probability(parser):
    sentences = untagged(short(8))

    found = parser.parse(sentences)

    assert [each.sentence for each in found] == list(parser.stream_trees(sentences))
    for parse, sentence in zip(found, sentences, strict=True):
        scores = parser.steps(sentence)[-1 if parser is REFINING else 0].tag_scores
        assert list(parse.tag_confidences) == list(COLUMNS)
        tags = [getattr(parse.sentence, column) for column in COLUMNS]
        rules = ruled_scripts(parser.model.vocabulary, COLUMNS, tags, sentence)
        is_free = np.array([rule is None for rule in rules])
        for column, of_column in zip(COLUMNS, scores, strict=True):
            shares = np.exp(of_column[1:] - of_column[1:].max(-1, keepdims=True))
            best = (shares / shares.sum(-1, keepdims=True)).max(-1)
            ours = np.array(parse.tag_confidences[column])
            chosen = is_free if column == "lemma" else slice(None)
            np.testing.assert_allclose(ours[chosen], best[chosen], rtol=1e-4)
        sure = [np.array(parse.tag_confidences[column])[~is_free] for column in ("lemma", "xpos")]
        np.testing.assert_allclose(*sure, rtol=1e-6)  # a rule is as sure as its tag, before calibration


ARCS = Arcs((2, 0), ("det", "root"))
FOUND = (("DET", "NOUN"), ("DT", "NNS"), ("Definite=Def", "Number=Plur"), ("the", "dog"))


@pytest.mark.parametrize(
    ("feats", "replaces_tags", "expected"),
    [
        (("_", "_"), False, ("Definite=Def", "Number=Plur")),
        (("_", "Number=Sing"), False, ("_", "Number=Sing")),
        (("_", "Number=Sing"), True, ("Definite=Def", "Number=Plur")),
    ],
)
def test_a_word_without_features_gets_some_only_if_no_word_of_the_sentence_has_any(feats, replaces_tags, expected):
    words = Sentence.of_words(["The", "dogs"], upos=["ADV", "NOUN"]).with_tags(feats=feats)

    found = with_parse(words, ARCS, COLUMNS, FOUND, replaces_tags=replaces_tags)

    assert found.feats == expected
    assert found.lemma == ("the", "dog")


@pytest.mark.parametrize("text", ["...", "🦆", "你好世界", "Привет мир", "مرحبا", "İ", "_", "= | ="])
def test_words_of_any_script_get_a_tree_tags_and_lemmas(text):
    (found,) = REFINING.stream_trees([Sentence.of_words(text.split())])

    assert found.graph.is_tree
    assert all(map(bool, (*found.upos, *found.xpos, *found.feats, *found.lemma)))
    assert all(tag != BLANK for tag in found.upos)
