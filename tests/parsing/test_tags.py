"""A parser reads some tags and writes others, depending on the option `tags`."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.generated import conllu_files
from tests.support.tiny import short, tiny_model
from treefine import ModelError, Parser, Sentence, read_treebank
from treefine.config import TagSettings
from treefine.parsing.annotate import with_parse
from treefine.treebank.graph import Arcs
from treefine.treebank.schemes import UPOS

COLUMNS = ("upos", "xpos")
TAGGER = Parser(tiny_model(tags=TagSettings("predicted", COLUMNS)), device="cpu")
DOG = Sentence.of_words(["The", "dog", "barks"], upos=["ADV", "NOUN", "_"], xpos=["RB", "NN", "VBZ"])
DOG_ARCS = Arcs((2, 3, 0), ("det", "nsubj", "root"))
FOUND = (("DET", "PROPN", "VERB"), ("DT", "NNP", "VBP"))


@pytest.mark.parametrize(
    ("options", "upos", "xpos"),
    [
        ({}, ("ADV", "NOUN", "VERB"), ("RB", "NN", "VBZ")),
        ({"replaces_tags": True}, ("DET", "PROPN", "VERB"), ("DT", "NNP", "VBP")),
        ({"replaces_tags": True, "kept": ("xpos",)}, ("DET", "PROPN", "VERB"), ("RB", "NN", "VBZ")),
    ],
    ids=["filled in", "replaced", "replaced, except in one column"],
)
def test_blank_tags_are_filled_in_and_others_replaced_on_request(options, upos, xpos):
    found = with_parse(DOG, DOG_ARCS, COLUMNS, FOUND, **options)

    assert (found.upos, found.xpos) == (upos, xpos)


@given(content=conllu_files(), replaces_tags=st.booleans(), data=st.data())
def test_nothing_but_arcs_and_tags_changes(content, replaces_tags, data):
    for old in read_treebank(io.BytesIO(content)):
        tags = [data.draw(st.sampled_from(sorted(UPOS))) for _ in range(len(old))]

        new = with_parse(old, old.arcs, COLUMNS, (tags, tags), replaces_tags=replaces_tags)

        changed = {old.format.upos, old.format.xpos}
        for place, (was, is_now) in enumerate(zip(old.columns, new.columns, strict=True)):
            assert place in changed or was == is_now
        for was, is_now, best in zip(old.upos, new.upos, tags, strict=True):
            assert is_now == (best if was == "_" or replaces_tags else was)


@pytest.mark.parametrize("tags", [None, "given", "none"])
def test_refining_keeps_the_tags_of_the_input(tags):
    for old, new in zip(short(8), TAGGER.refine(short(8), tags=tags), strict=True):
        assert (new.upos, new.xpos) == (old.upos, old.xpos)
        assert not any(each.has_new_upos or each.has_new_xpos for each in new.changes)


def test_by_default_refining_reads_the_predicted_tags():
    default, predicted = (TAGGER.refine(short(8), tags=tags) for tags in (None, "predicted"))

    assert [each.tree for each in default] == [each.tree for each in predicted]


def test_refining_with_predicted_tags_replaces_all_tags_and_parsing_fills_only_blanks():
    for old, new in zip(short(8), TAGGER.refine(short(8), tags="predicted"), strict=True):
        assert new.upos == TAGGER.using(initial="given").steps(old)[0].tags[0]
    for old, new in zip(short(8), TAGGER.using(tags="predicted").parse(short(8)), strict=True):
        assert (new.upos, new.xpos) == (old.upos, old.xpos)


@pytest.mark.parametrize("tags", ["predicted", "given"])
def test_trees_and_full_parses_have_the_same_tags(tags):
    parser = TAGGER.using(initial="given", tags=tags)

    assert list(parser.stream_trees(short(8))) == [each.sentence for each in parser.stream(short(8))]


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        ("predicted", "tags cannot be 'predicted': this model has no tagger."),
        ("given", "tags cannot be 'given': this model reads no tags."),
    ],
)
def test_a_model_without_tags_supports_only_none(tags, message):
    with pytest.raises(ModelError) as raised:
        Parser(tiny_model(tags=TagSettings("none")), tags=tags, device="cpu")

    assert raised.value.message == message
