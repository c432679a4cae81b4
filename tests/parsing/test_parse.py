"""What a parser gives back for a text: words with their places, tags, arcs, how sure it is, and how it got there."""

import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tiny import sample, tiny_model
from tests.support.tiny_segmenter import tiny_segmenter
from treefine import ModelError, Parser, Sentence, TreefineError, read_treebank
from treefine.config import TagSettings
from treefine.parsing.initial import given as given_trees
from treefine.treebank.raw_text import spans_in

TEXT = "Dogs bark. Don't you\n\nhear them?  "


@pytest.fixture(scope="module")
def nlp():
    model = tiny_model(tags=TagSettings("predicted", ("upos", "xpos")), scale=1.0)
    return Parser(model, device="cpu", segmenter=tiny_segmenter())


def test_a_text_becomes_sentences_whose_words_have_tags_heads_labels_and_places(nlp):
    parses = nlp(TEXT)

    assert len(parses) > 1  # a blank line ends a sentence, whatever the segmenter says
    for parse in parses:
        assert parse.tree.is_tree
        assert 0 <= parse.confidence <= 1
        for word in parse.words:
            assert TEXT[word.start : word.end] == word.form
            assert word.upos != "_" != word.xpos
            assert 0 < word.arc_confidence <= 1
            assert 0 < word.label_confidence <= 1
            assert word.confidence == pytest.approx(word.arc_confidence * word.label_confidence)
    words = [word for parse in parses for word in parse.words]
    assert "".join(TEXT.split()) == "".join(word.form for word in words)
    assert [word.start for word in words] == sorted(word.start for word in words)


@given(st.text(max_size=60))
def test_places_rebuild_any_text(nlp, text):
    parses = nlp(text)

    spans = [span for parse in parses for span in parse.spans]
    assert all(start < end for start, end in spans)
    assert all(before[1] <= after[0] for before, after in zip(spans, spans[1:], strict=False))
    gaps = [text[a:b] for a, b in zip([0, *(e for _, e in spans)], [*(s for s, _ in spans), len(text)], strict=True)]
    assert not any(character.isalnum() for gap in gaps for character in gap)
    forms = [word.form for parse in parses for word in parse.words]
    assert forms == [text[start:end] for start, end in spans]


def test_the_trees_are_those_of_stream_and_the_steps_those_of_refine(nlp):
    sentences = sample(12)

    parses = list(nlp.stream_parses(sentences))

    assert [parse.sentence for parse in parses] == list(nlp.stream(sentences))
    for parse, sentence in zip(parses, sentences, strict=True):
        steps = list(nlp.refine(sentence))
        assert parse.steps == tuple(step.graph for step in steps)
        assert parse.tree == steps[-1].tree
        last = steps[-1].arc_probabilities
        for word in parse.words:
            assert word.arc_confidence == pytest.approx(last[word.number, word.head], rel=1e-3)


def test_tags_of_the_input_stay_and_blank_ones_are_filled(nlp):
    sentence = Sentence.of_words(["Dogs", "bark"], upos=["X", "_"])

    for tags in ("given", "predicted"):
        (parse,) = nlp.using(tags=tags).stream_parses([sentence])
        assert parse.upos[0] == "X"
        assert parse.upos[1] != "_" != parse.xpos[0]


def test_confidence_is_written_to_misc_beside_what_stands_there(nlp, tmp_path):
    sentence = Sentence.of_words(["Dogs", "bark", "."]).with_misc(["_", "SpaceAfter=No", "Conf=0.10"])
    sentence = replace(sentence, comments=("# confidence = 0.10", "# source = here"))
    (parse,) = nlp.stream_parses([sentence])

    (tmp_path / "out.conllu").write_text(parse.to_conllu(confidence=True))
    (read,) = read_treebank(tmp_path / "out.conllu")

    sure = [f"Conf={word.confidence:.2f}" for word in parse.words]
    assert [word.misc for word in read.words] == [sure[0], f"SpaceAfter=No|{sure[1]}", sure[2]]
    assert read.comments == ("# source = here", f"# confidence = {parse.confidence:.2f}")
    assert parse.with_confidence().with_misc(["_", "_", "_"]).columns[:9] == parse.sentence.columns[:9]


def test_json_says_all_of_it(nlp):
    parse = nlp(TEXT)[0]

    found = json.loads(parse.to_json())

    assert "\n" not in parse.to_json()
    assert found["text"] == parse.text
    assert (found["start"], found["end"]) == (parse.start, parse.end) == (parse.spans[0][0], parse.spans[-1][1])
    assert [word["head"] for word in found["words"]] == list(parse.heads)
    assert [(word["start"], word["end"]) for word in found["words"]] == list(parse.spans)
    assert found["steps"][-1]["heads"] == list(parse.steps[-1].heads[1:])
    assert found["confidence"] == pytest.approx(parse.confidence, abs=1e-4)


def test_pictures_show_the_tree_or_each_step(nlp):
    (parse,) = nlp.using(initial=given_trees).stream_parses(sample(1))

    whole, steps = parse.pictures(), parse.pictures(steps=True)

    assert [each.graph for each in whole] == [parse.tree]
    assert [each.graph for each in steps] == [sample(1)[0].graph, *parse.steps] + [parse.tree] * (
        parse.steps[-1] != parse.tree
    )
    assert steps[0].title == "initial graph"
    assert ElementTree.fromstring(parse.to_svg(steps=True)).tag.endswith("svg")
    assert all(form in parse.to_text() for form in parse.forms)
    assert "<svg" in parse._repr_html_()
    assert parse._repr_html_().startswith("<div")


def test_a_list_of_sentences_shows_itself_in_a_line_each_and_in_a_notebook(nlp):
    parses = nlp("Dogs bark.\n\nCats meow.")

    assert repr(parses[0]).startswith("<Parse '")
    assert len(repr(parses[0])) < 100
    assert parses._repr_html_().count("<svg") == len(parses)


def test_a_last_graph_that_is_no_tree_is_followed_by_the_tree():
    parser = Parser(tiny_model(), device="cpu", max_steps=1)
    found = [parse for parse in parser.stream_parses(sample(20)) if parse.steps[-1] != parse.tree]

    assert found, "random scores give cycles now and then"
    pictures = found[0].pictures(steps=True)
    assert pictures[-1].graph == found[0].tree
    assert pictures[-1].title.startswith("best tree")


def test_words_that_stand_nowhere_in_the_text_have_no_characters():
    sentence = Sentence.of_words(["a", "x", "b"])

    assert spans_in("a b", sentence) == ((0, 1), (2, 2), (2, 3))
    assert spans_in("a bx", sentence) == ((0, 1), (2, 2), (2, 3))  # also where it stands later on


def test_a_parser_without_a_segmenter_and_a_text_that_is_none_are_refused(nlp):
    with pytest.raises(ModelError, match="This model has no segmenter, so it cannot read text"):
        Parser(tiny_model(), device="cpu")("Dogs bark.")
    with pytest.raises(TreefineError, match=r"A text is a string. Words that are cut already go to `parse`."):
        nlp(["Dogs", "bark"])
