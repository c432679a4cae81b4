"""A parser reads some tags and writes others, depending on the option `tags`."""

import io
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.generated import conllu_files
from tests.support.tiny import sample, short, sure_of_tags, tiny_model
from treefine import ModelError, Parser, Sentence, TreefineError, read_treebank
from treefine.config import TagSettings
from treefine.parsing.annotate import with_parse
from treefine.parsing.initial import empty
from treefine.parsing.parse import tags_of
from treefine.treebank.graph import Arcs
from treefine.treebank.tag_rules import UPOS, allows, contradictions

COLUMNS = ("upos", "xpos")


def sure_model(times=100.0, **settings):
    """Return a tiny model that predicts tags, and is sure of all of them if its scores are multiplied."""
    return sure_of_tags(tiny_model(tags=TagSettings("predicted", COLUMNS), **settings), times)


TAGGER = Parser(sure_model(), device="cpu")
DOG = Sentence.of_words(["The", "dog", "barks"], upos=["ADV", "NOUN", "_"], xpos=["RB", "NN", "VBZ"])
DOG_ARCS = Arcs((2, 3, 0), ("det", "nsubj", "root"))
FOUND = (("DET", "PROPN", "VERB"), ("DT", "NNP", "VBP"))


@pytest.mark.parametrize(
    ("written", "is_sure", "upos", "xpos"),
    [
        ("given", [True] * 3, ("ADV", "NOUN", "VERB"), ("RB", "NN", "VBZ")),
        ("predicted", [False] * 3, ("DET", "PROPN", "VERB"), ("DT", "NNP", "VBP")),
        ("best", [True] * 3, ("DET", "NOUN", "VERB"), ("DT", "NN", "VBZ")),
        ("best", [False, True, True], ("ADV", "NOUN", "VERB"), ("RB", "NN", "VBZ")),
    ],
    ids=["given", "predicted", "best", "best, but not sure"],
)
def test_best_tags_replace_only_those_that_the_label_does_not_allow(written, is_sure, upos, xpos):
    found = with_parse(DOG, DOG_ARCS, COLUMNS, FOUND, written, is_sure)

    assert (found.upos, found.xpos) == (upos, xpos)


def test_a_tag_is_not_replaced_by_one_that_the_label_does_not_allow_either():
    found = with_parse(DOG, DOG_ARCS, COLUMNS, (("NOUN", "NOUN", "VERB"), FOUND[1]), "best", [True] * 3)

    assert (found.upos[0], found.xpos[0]) == ("ADV", "RB")


@settings(max_examples=40)
@given(content=conllu_files(), written=st.sampled_from(["given", "predicted", "best"]), data=st.data())
def test_nothing_but_arcs_and_tags_changes(content, written, data):
    for old in read_treebank(io.BytesIO(content)):
        tags = [data.draw(st.sampled_from(sorted(UPOS))) for _ in range(len(old))]
        is_sure = [data.draw(st.booleans()) for _ in range(len(old))]

        new = with_parse(old, old.arcs, COLUMNS, (tags, tags), written, is_sure)

        changed = {old.format.upos, old.format.xpos}
        for place, (was, is_now) in enumerate(zip(old.columns, new.columns, strict=True)):
            assert place in changed or was == is_now
        wanted = set(range(1, len(old) + 1)) if written == "predicted" else set()
        if written == "best":
            bad = contradictions(old.arcs, old.upos)
            wanted = {n for n in bad if is_sure[n - 1] and allows(old.labels[n - 1], tags[n - 1])}
        for number, (was, is_now, best) in enumerate(zip(old.upos, new.upos, tags, strict=True), start=1):
            assert is_now == (best if was == "_" or number in wanted else was)


def test_refining_chooses_the_best_tags_by_default_and_parsing_does_not():
    assert TAGGER.tags == "predicted"
    assert TAGGER.using(initial="given").tags == "best"
    assert TAGGER.using(initial="given", tags="given").tags == "given"
    untagged = Parser(tiny_model(tags=TagSettings("given")), device="cpu")
    assert untagged.using(initial="given").tags == "given"


def test_best_tags_read_the_same_tags_as_predicted_ones_so_the_trees_are_equal():
    sentences = short(8)

    best, predicted = (TAGGER.refine(sentences, tags=tags) for tags in ("best", "predicted"))

    assert [each.tree for each in best] == [each.tree for each in predicted]


def test_refining_with_given_tags_keeps_all_tags():
    for old, new in zip(short(8), TAGGER.refine(short(8), tags="given"), strict=True):
        assert (new.upos, new.xpos) == (old.upos, old.xpos)
        assert not any(each.has_new_upos or each.has_new_xpos for each in new.changes)


def test_refining_with_predicted_tags_replaces_all_tags_and_parsing_fills_only_blanks():
    for old, new in zip(short(8), TAGGER.refine(short(8), tags="predicted"), strict=True):
        assert new.upos == TAGGER.using(initial="given").steps(old)[0].tags[0]
    for old, new in zip(short(8), TAGGER.using(tags="predicted").parse(short(8)), strict=True):
        assert (new.upos, new.xpos) == (old.upos, old.xpos)


def test_a_parse_lists_the_replaced_tags():
    for old, new in zip(short(8), TAGGER.refine(short(8), tags="predicted"), strict=True):
        pairs = zip(old.upos, new.upos, strict=True)
        expected = {word: pair for word, pair in enumerate(pairs, start=1) if pair[0] != pair[1]}
        assert {each.word: (each.old_upos, each.upos) for each in new.changes if each.has_new_upos} == expected
        assert new.given_tags == tags_of(old)


def test_best_tags_leave_no_contradiction_that_a_sure_model_can_remove():
    n_before = n_after = 0
    for given_tags, best in zip(*(TAGGER.refine(sample(12), tags=tags) for tags in ("none", "best")), strict=True):
        n_before += len(contradictions(best.sentence.arcs, given_tags.upos))
        n_after += len(contradictions(best.sentence.arcs, best.upos))

    assert n_after < n_before


@pytest.mark.parametrize("tags", ["best", "predicted", "given"])
def test_trees_and_full_parses_have_the_same_tags(tags):
    parser = TAGGER.using(initial="given", tags=tags)

    assert list(parser.stream_trees(short(8))) == [each.sentence for each in parser.stream(short(8))]


def test_a_sentence_that_is_parsed_in_parts_also_gets_the_best_tags():
    (sentence,) = [each for each in sample() if len(each) > 20][:1]
    parser = TAGGER.using(initial="given", tags="best")
    parser._plan = replace(parser._plan, most_words=10)

    with pytest.warns(Warning, match="parsed in"):
        (parse,) = parser.stream([sentence])

    with pytest.warns(Warning, match="parsed in"):
        assert list(parser.stream_trees([sentence])) == [parse.sentence]
    assert parse.given_tags == tags_of(sentence)
    changed = {each.word for each in parse.changes if each.has_new_upos}
    assert changed
    assert not changed & set(contradictions(parse.sentence.arcs, parse.upos))


def test_a_model_that_is_never_sure_replaces_no_tag():
    parser = Parser(sure_model(times=1e-6), device="cpu")

    for old, new in zip(short(8), parser.refine(short(8)), strict=True):
        assert (new.upos, new.xpos) == (old.upos, old.xpos)


@pytest.mark.parametrize(
    ("model", "initial", "error", "message"),
    [
        (TAGGER.model, empty, TreefineError, "tags cannot be 'best' without an initial parse."),
        (tiny_model(), "given", ModelError, "tags cannot be 'best': this model has no tagger."),
        (
            tiny_model(tags=TagSettings("predicted", ("xpos",))),
            "given",
            ModelError,
            "tags cannot be 'best': this model does not use the labels and tags of UD.",
        ),
    ],
    ids=["no initial parse", "no tagger", "no UPOS"],
)
def test_best_tags_need_an_initial_parse_and_a_model_of_ud_that_predicts_tags(model, initial, error, message):
    with pytest.raises(error) as raised:
        Parser(model, initial=initial, tags="best", device="cpu")

    assert raised.value.message == message
