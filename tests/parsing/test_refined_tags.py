"""Tags, features and lemmas in the output: from which step they come, which given ones are kept, and for any text."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.tiny import ALL_TAGS, sample, short, sure_of_tags, tiny_biaffine, tiny_model
from tests.support.tiny_segmenter import tiny_segmenter
from treefine import Parser, Sentence
from treefine.config import COLUMNS, TagSettings
from treefine.model.vocabulary import ruled_scripts, tag_names
from treefine.parsing.annotate import with_parse
from treefine.parsing.batches import run
from treefine.parsing.results import parses, steps, trees
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import BLANK

REFINING, FIRST = (
    Parser(tiny_model(tags=replace(ALL_TAGS, refined=refined)), device="cpu", max_steps=4, segmenter=tiny_segmenter())
    for refined in (True, False)
)
BIAFFINE = Parser(tiny_biaffine(tags=ALL_TAGS), device="cpu")
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


def test_other_tags_are_those_of_the_first_step():
    sentences = untagged(short(8))
    found = [FIRST.steps(each) for each in sentences]

    assert [tags_of(each) for each in FIRST.stream_trees(sentences)] == [each[0].tags for each in found]
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


def test_the_temperature_of_a_column_changes_only_its_own_probabilities():
    sentences = untagged(short(3))
    model = tiny_model(tags=ALL_TAGS)
    model.settings = replace(model.settings, confidence=replace(model.settings.confidence, feats_temperature=5.0))

    plain, hotter = REFINING.using(max_steps=4).parse(sentences), Parser(model, device="cpu").parse(sentences)

    for ours, theirs in zip(plain, hotter, strict=True):
        assert ours.sentence == theirs.sentence
        changed = {name for name in COLUMNS if ours.tag_confidences[name] != theirs.tag_confidences[name]}
        assert changed == {"feats"}


@every_parser
def test_the_tags_of_a_step_are_those_with_the_highest_scores(parser):
    for sentence in untagged(short(4)):
        for step in parser.steps(sentence):
            for column, scores in zip(COLUMNS, step.tag_scores, strict=True):
                assert scores.shape == (len(sentence) + 1, len(parser.model.vocabulary.tags(column)))
            best = [scores[1:].argmax(-1).tolist() for scores in step.tag_scores]
            assert list(map(list, step.tags)) == tag_names(parser.model.vocabulary, COLUMNS, best, sentence)


@pytest.mark.parametrize("columns", ["all given", "lemmas", "features", "nothing given"])
@pytest.mark.parametrize("tags", ["given", "predicted"])
@every_parser
def test_given_values_are_kept_and_blank_ones_are_filled(parser, tags, columns):
    blank = {
        "all given": (),
        "lemmas": ("upos", "xpos", "feats"),
        "features": ("upos", "xpos", "lemma"),
        "nothing given": COLUMNS,
    }[columns]
    given_ones = [each.with_tags(**{name: [BLANK] * len(each) for name in blank}) for each in short(5)]

    for old, new in zip(given_ones, parser.using(tags=tags).parse(given_ones), strict=True):
        for name in COLUMNS:
            before, after = getattr(old, name), getattr(new.sentence, name)
            if name in blank or set(before) == {BLANK}:
                assert name == "feats" or BLANK not in after
            else:
                assert after == before


def test_some_blank_lemmas_are_filled_and_the_others_are_kept():
    old = short(1)[0]
    half = old.with_tags(lemma=["_" if n % 2 else lemma for n, lemma in enumerate(old.lemma)])

    (new,) = REFINING.using(tags="given").stream_trees([half])

    assert new.lemma[::2] == old.lemma[::2]
    assert BLANK not in new.lemma


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


@pytest.mark.filterwarnings("ignore::treefine.errors.LongSentenceWarning")
@pytest.mark.parametrize("tags", ["given", "predicted"])
@every_parser
def test_a_sentence_in_parts_has_the_tags_of_its_parts(parser, tags):
    forms = [form for each in sample(3) for form in each.forms][:20]
    plan = replace(parser.using(tags=tags).plan(), most_words=6)
    sentence = Sentence.of_words(forms)

    ((_, tree),) = run(plan, [sentence], trees)
    ((_, parse),) = run(plan, [sentence], parses)
    ((_, found),) = run(plan, [sentence], steps)

    assert tree == parse.sentence
    assert BLANK not in tree.lemma
    assert {name: len(each) for name, each in parse.tag_confidences.items()} == dict.fromkeys(COLUMNS, len(forms))
    if parser is FIRST:
        assert tags_of(tree) == found[0].tags


@pytest.mark.filterwarnings("ignore::treefine.errors.LongSentenceWarning")
@pytest.mark.parametrize("tags", [None, "given"])
def test_a_long_sentence_keeps_its_features_and_lemmas(tags):
    (sentence,) = [each for each in sample() if len(each) > 20][:1]
    lemma = [f"my-{each}" for each in sentence.lemma]
    model = sure_of_tags(tiny_model(tags=ALL_TAGS), 1e-6)  # so that it replaces no tag
    parser = Parser(model, device="cpu", initial="given", trust=0, tags=tags)
    plan = replace(parser.plan(), most_words=10)

    ((_, tree),) = run(plan, [sentence.with_tags(lemma=lemma)], trees)

    assert tree.lemma == tuple(lemma)
    assert tree.feats == sentence.feats


@pytest.mark.filterwarnings("ignore::treefine.errors.LongSentenceWarning")
def test_the_parts_of_a_long_sentence_read_its_lemmas():
    (sentence,) = [each for each in sample() if len(each) > 20][:1]
    plan = replace(REFINING.using(tags="given").plan(), most_words=10)
    blank = sentence.with_tags(lemma=[BLANK] * len(sentence))

    ((_, with_lemmas),), ((_, without),) = (run(plan, [each], steps) for each in (sentence, blank))

    assert not np.array_equal(with_lemmas[0].arc_scores, without[0].arc_scores)


@pytest.mark.parametrize("parser", [REFINING, BIAFFINE], ids=["transformer", "bilstm"])
@pytest.mark.parametrize(
    "text", ["...", "!", "🦆", "👩‍👩‍👧", "你好世界", "Привет мир", "مرحبا", "ὁ λόγος", "İ", "_", "= | =", "7"]
)
def test_words_of_any_script_get_a_tree_tags_and_lemmas(parser, text):
    (found,) = parser.stream_trees([Sentence.of_words(text.split())])

    assert found.graph.is_tree
    assert all(map(bool, (*found.upos, *found.xpos, *found.feats, *found.lemma)))
    assert all(tag != BLANK for tag in found.upos)


@settings(max_examples=25)
@given(text=st.text(max_size=30))
def test_any_text_gets_trees_tags_and_lemmas(text):
    for parse in REFINING(text):
        assert parse.tree.is_tree
        for column in COLUMNS:
            assert len(getattr(parse.sentence, column)) == len(parse)
            assert all(getattr(parse.sentence, column))


def test_a_model_without_tags_is_as_sure_of_a_lemma_as_its_network():
    parser = Parser(tiny_model(tags=TagSettings("predicted", ("feats", "lemma"))), device="cpu")

    (parse,) = parser.parse(untagged(short(1)))

    assert set(parse.tag_confidences) == {"feats", "lemma"}
