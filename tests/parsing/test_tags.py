"""Tags, features and lemmas: those that a parser reads and writes, and those of each step and of a Parse."""

import io
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.generated import conllu_files
from tests.support.tiny import ALL_TAGS, short, tiny_model
from tests.support.tiny_segmenter import tiny_segmenter
from treefine import Graph, ModelError, Parser, Sentence, read_treebank
from treefine.config import COLUMNS, TagSettings
from treefine.model.vocabulary import ruled_scripts
from treefine.parsing.confidence import Confidence
from treefine.parsing.parse import Parse
from treefine.treebank.conllu import newdoc, with_newdoc
from treefine.treebank.graph import Arcs
from treefine.treebank.schemes import UPOS

TAGS = ("upos", "xpos")
TAGGER = Parser(tiny_model(tags=TagSettings("predicted", TAGS)), device="cpu")


@given(content=conllu_files(), replaces_tags=st.booleans(), kept=st.sampled_from([(), ("xpos",)]), data=st.data())
def test_nothing_but_arcs_and_tags_changes_and_given_tags_only_on_request(content, replaces_tags, kept, data):
    for old in read_treebank(io.BytesIO(content)):
        tags = [data.draw(st.sampled_from(sorted(UPOS))) for _ in range(len(old))]

        new = old.with_parse(old.arcs, TAGS, (tags, tags), replaces_tags=replaces_tags, kept=kept)

        changed = {old.format.upos, old.format.xpos}
        for place, (was, is_now) in enumerate(zip(old.columns, new.columns, strict=True)):
            assert place in changed or was == is_now
        for column in TAGS if old.format.is_ud else ():
            is_replaced = replaces_tags and column not in kept
            for was, is_now, best in zip(getattr(old, column), getattr(new, column), tags, strict=True):
                assert is_now == (best if was == "_" or is_replaced else was)


def test_a_model_without_tags_supports_only_none():
    for tags, why in (("predicted", "has no tagger"), ("given", "reads no tags")):
        with pytest.raises(ModelError, match=f"^tags cannot be '{tags}': this model {why}.$"):
            Parser(tiny_model(tags=TagSettings("none")), tags=tags, device="cpu")


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


# Refined tags

REFINING, FIRST = (
    Parser(tiny_model(tags=replace(ALL_TAGS, refined=refined)), device="cpu", max_steps=4, segmenter=tiny_segmenter())
    for refined in (True, False)
)


def columns_of(sentence):
    return tuple(getattr(sentence, column) for column in COLUMNS)


def test_refined_tags_are_those_of_the_last_step():
    sentences = [Sentence.of_words(each.forms) for each in short(8)]
    found = [REFINING.steps(each) for each in sentences]

    assert [columns_of(each) for each in REFINING.stream_trees(sentences)] == [each[-1].tags for each in found]
    assert any(each[-1].tags != each[0].tags for each in found)


@pytest.mark.parametrize("parser", [REFINING, FIRST], ids=["refined", "of the first step"])
def test_trees_and_full_parses_agree_and_each_tag_has_its_probability(parser):
    sentences = [Sentence.of_words(each.forms) for each in short(8)]

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


TWO_ARCS = Arcs((2, 0), ("det", "root"))
TWO_FOUND = (("DET", "NOUN"), ("DT", "NNS"), ("Definite=Def", "Number=Plur"), ("the", "dog"))


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

    found = words.with_parse(TWO_ARCS, COLUMNS, TWO_FOUND, replaces_tags=replaces_tags)

    assert found.feats == expected
    assert found.lemma == ("the", "dog")


# Lemmas and features of a parse

WORDS = ("The", "children", "were", "running", ".")
SURE = {"upos": 0.9, "xpos": 0.8, "feats": 0.7, "lemma": 0.6}


def children(before=None):
    """Return a parse of a short sentence; `before` is the sentence of the input."""
    before = before or Sentence.of_words(WORDS)
    sentence = Sentence.of_words(
        WORDS,
        upos=["DET", "NOUN", "AUX", "VERB", "PUNCT"],
        xpos=["DT", "NNS", "VBD", "VBG", "."],
        feats=["PronType=Art", "Number=Plur", "Tense=Past|VerbForm=Fin", "Tense=Pres|VerbForm=Part", "_"],
        lemma=["the", "child", "be", "run", "."],
    )
    tree = Graph.of_words([2, 4, 4, 0, 4], ["det", "nsubj", "aux", "root", "punct"])
    return Parse(
        sentence.with_graph(tree),
        ((0, 3), (4, 12), (13, 17), (18, 25), (25, 26)),
        (Confidence(0.9, 1.0),) * 5,
        0.5,
        (tree,),
        Arcs((None,) * 5, ("_",) * 5),
        (None,) * 5,
        True,
        given_tags=before.words,
        tag_confidences={column: (number,) * 5 for column, number in SURE.items()},
    )


def test_json_has_lemmas_features_and_their_confidence():
    word = children().to_dict()["words"][1]

    assert (word["lemma"], word["feats"]) == ("child", "Number=Plur")
    assert {column: word[f"{column}_confidence"] for column in COLUMNS} == SURE


def test_values_of_the_input_have_no_confidence_and_replaced_ones_do():
    before = Sentence.of_words(WORDS, lemma=["the", "children", "_", "_", "_"], upos=["DET", *["_"] * 4])

    words = children(before).words

    assert [word.lemma_confidence for word in words] == [None, 0.6, 0.6, 0.6, 0.6]  # "children" was replaced
    assert [word.upos_confidence for word in words] == [None, 0.9, 0.9, 0.9, 0.9]
    assert {word.feats_confidence for word in words} == {0.7}


def test_changes_list_replaced_features_and_lemmas():
    before = Sentence.of_words(WORDS, lemma=["the", "childs", *["_"] * 3], feats=["PronType=Dem", *["_"] * 4])
    parse = replace(children(before), initial=children().sentence.arcs)

    first, second = parse.changes

    assert (first.word, first.old_feats, first.feats, first.has_new_lemma) == (1, "PronType=Dem", "PronType=Art", False)
    assert (second.word, second.old_lemma, second.lemma, second.has_new_feats) == (2, "childs", "child", False)


# Comments that mark the start of a file


@settings(max_examples=30)
@given(content=conllu_files(), path=st.text(st.characters(), min_size=1, max_size=9))
def test_the_name_of_a_file_is_one_comment_before_its_first_sentence(content, path):
    first, *others = (replace(each, path=path) for each in read_treebank(io.BytesIO(content)))

    named = with_newdoc(first)

    (again,) = read_treebank(io.BytesIO(named.to_conllu().encode()))
    start = newdoc("" if path.startswith("<") else path)
    assert again.comments == (start, *first.comments)
    assert again.columns == first.columns
    assert with_newdoc(named) == named
    assert [with_newdoc(each) for each in others] == others
