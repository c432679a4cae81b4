"""Lemmas and features of a parse: its words, JSON, tables and drawings."""

from dataclasses import replace

from tests.support.tiny import tiny_model
from treefine import Graph, Parser, Sentence
from treefine.config import COLUMNS, TagSettings
from treefine.parsing.confidence import Confidence
from treefine.parsing.parse import Parse, tags_of
from treefine.treebank.graph import Arcs

PARSER = Parser(tiny_model(tags=TagSettings("predicted", COLUMNS)), device="cpu")
WORDS = ("The", "children", "were", "running", ".")
SURE = {"upos": 0.9, "xpos": 0.8, "feats": 0.7, "lemma": 0.6}


def children(given=None):
    """Return a parse of a short sentence; `given` is the sentence of the input."""
    given = given or Sentence.of_words(WORDS)
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
        given_tags=tags_of(given),
        tag_confidences={column: (number,) * 5 for column, number in SURE.items()},
    )


def test_json_has_lemmas_features_and_their_confidence():
    word = children().to_dict()["words"][1]

    assert (word["lemma"], word["feats"]) == ("child", "Number=Plur")
    assert {column: word[f"{column}_confidence"] for column in COLUMNS} == SURE


def test_values_of_the_input_have_no_confidence_and_replaced_ones_do():
    given = Sentence.of_words(WORDS, lemma=["the", "children", "_", "_", "_"], upos=["DET", *["_"] * 4])

    words = children(given).words

    assert [word.lemma_confidence for word in words] == [None, 0.6, 0.6, 0.6, 0.6]  # "children" was replaced
    assert [word.upos_confidence for word in words] == [None, 0.9, 0.9, 0.9, 0.9]
    assert {word.feats_confidence for word in words} == {0.7}


def test_changes_list_replaced_features_and_lemmas():
    given = Sentence.of_words(WORDS, lemma=["the", "childs", *["_"] * 3], feats=["PronType=Dem", *["_"] * 4])
    parse = replace(children(given), initial=children().sentence.arcs)

    first, second = parse.changes

    assert (first.word, first.old_feats, first.feats, first.has_new_lemma) == (1, "PronType=Dem", "PronType=Art", False)
    assert (second.word, second.old_lemma, second.lemma, second.has_new_feats) == (2, "childs", "child", False)
