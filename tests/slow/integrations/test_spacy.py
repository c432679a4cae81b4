"""treefine in a spaCy pipeline."""

import io
import pickle
import re
import runpy
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import spacy
from hypothesis import example, given, settings
from hypothesis import strategies as st
from spacy import displacy
from spacy.tokens import Doc, Token
from spacy.training import Example

from tests.support.tiny_app import tiny_parser_of_two
from tests.support.tiny_segmenter import ODD
from treefine import TreefineError, read_treebank
from treefine.integrations.spacy import split_sentences, to_conllu
from treefine.parsing.initial import input_trees, renamed
from treefine.parsing.parser import Parser
from treefine.treebank.graph import Graph
from treefine.treebank.raw_text import text_of

ROOT = Path(__file__).parents[3]
WORDS = ["She", " ", "saw", "the", "\n", "old", "man", ".", "He", "waved", "."]
SPACES = ("\n", " ", "  ", "\t", "\u00a0", "\r\n\r\n")
odd_texts = st.text(
    st.one_of(st.sampled_from(ODD), st.characters()).filter(lambda each: not "\ud800" <= each <= "\udfff")
)


def pipeline(model, *, lang="en", before=(), **config):
    nlp = spacy.blank(lang)
    for each in before:
        nlp.add_pipe(each)
    nlp.add_pipe("treefine", config={"model": model, "device": "cpu", **config})
    return nlp


@pytest.fixture(scope="module")
def pipe(text_model):
    """Return a pipeline with a tiny parser that tags and segments."""
    return pipeline(text_model)


@pytest.fixture(scope="module")
def english():
    """Return a pipeline with the bundled parser."""
    return pipeline("en", precision="float32")


def doc_of(nlp, words, *, starts=None, **columns):
    return Doc(nlp.vocab, words=words, sent_starts=starts, **columns)


def tree_of(doc):
    return [(token.head.i, token.dep_, token.is_sent_start) for token in doc]


def words_of(sentence):
    return [token for token in sentence if token.text.strip()]


def arcs_of(sentence):
    """Heads and labels of a sentence of spaCy's, as those of ours are counted."""
    words = words_of(sentence)
    number = {token.i: each for each, token in enumerate(words, start=1)}
    heads = tuple(0 if token.head.i == token.i else number[token.head.i] for token in words)
    return heads, tuple("root" if token.dep_ == "ROOT" else token.dep_ for token in words)


def tags_of(words):
    """The tags, features and lemmas of words."""
    rows = [(token.pos_, token.tag_, str(token.morph) or "_", token.lemma_) for token in words]
    return tuple(zip(*rows, strict=True))


def check_trees(doc):
    """Every sentence has one root, and every token a label, and a head within its sentence that leads to the root."""
    assert doc.has_annotation("DEP", require_complete=True)
    for sentence in doc.sents:
        assert [token.dep_ for token in sentence if token.head.i == token.i] == ["ROOT"]
        heads = [0 if token.head.i == token.i else token.head.i - sentence.start + 1 for token in sentence]
        assert min(heads) >= 0
        assert Graph.of_words(heads, [token.dep_ for token in sentence]).is_tree


# Trees


def test_the_bundled_parser_sets_heads_labels_tags_sentences_and_confidence_and_displacy_draws_them(english):
    doc = english("The dog barked. Nobody knew why.")

    words = [f"{token.text} {token.head.text} {token.dep_} {token.pos_} {token.tag_}" for token in doc]
    assert words[:3] == ["The dog det DET DT", "dog barked nsubj NOUN NN", "barked barked ROOT VERB VBD"]
    assert words[4:6] == ["Nobody knew nsubj PRON NN", "knew knew ROOT VERB VBD"]
    assert [sentence.text for sentence in doc.sents] == ["The dog barked.", "Nobody knew why."]
    assert all(token._.confidence == token._.arc_confidence * token._.label_confidence for token in doc)
    assert all(0.5 < token._.confidence < 1 for token in doc)
    assert all(0.5 < sentence._.confidence < 1 for sentence in doc.sents)
    assert re.search("^<svg.*>nsubj<", displacy.render(doc, style="dep", jupyter=False), re.DOTALL)


def test_trees_tags_and_confidences_equal_those_of_treefine_for_the_same_words(pipe, nlp, text_model):
    starts = [i in (0, 8) for i in range(11)]
    doc = pipe.get_pipe("treefine")(doc_of(pipe, WORDS, starts=starts))
    quick = pipeline(text_model, confidence=False).get_pipe("treefine")(doc_of(pipe, WORDS, starts=starts))

    for sentence in doc.sents:
        words = words_of(sentence)
        (own,) = nlp.stream([[token.text for token in words]])
        assert arcs_of(sentence) == (own.heads, own.labels)
        assert tags_of(words) == (own.upos, own.xpos, own.sentence.feats, own.sentence.lemma)
        assert [token._.confidence for token in words] == pytest.approx([word.confidence for word in own.words])
        assert sentence._.confidence == pytest.approx(own.confidence)
    assert tree_of(quick) == tree_of(doc)
    assert all(token._.confidence is None for token in quick)


@settings(max_examples=10)
@given(st.lists(st.lists(st.sampled_from(["a", "dog", *SPACES]), min_size=1, max_size=8), max_size=4))
def test_white_space_never_changes_a_tree(pipe, nlp, sentences):
    starts = [place == 0 for sentence in sentences for place in range(len(sentence))]
    forms = [[word for word in sentence if word.strip()] for sentence in sentences]

    doc = pipe.get_pipe("treefine")(doc_of(pipe, [word for each in sentences for word in each], starts=starts))

    check_trees(doc)
    assert [token.is_sent_start for token in doc] == starts
    own = nlp.parse([each for each in forms if each])
    assert [arcs_of(each) for each in doc.sents if words_of(each)] == [(each.heads, each.labels) for each in own]
    for token in doc:
        words = words_of(token.sent)
        if token.is_space and words:  # it attaches to the word before it, or else after it
            assert token.head == max([each for each in words if each.i < token.i] or words[:1])
            assert (token.dep_, token.pos_, token.tag_) == ("dep", "SPACE", "_SP")


@settings(max_examples=15)
@given(odd_texts)
@example("")
@example(" \n\t ")
@example("a\x00b \x00")
@example("\u0627\u0644\u0643\u0644\u0628 \u0646\u0628\u062d. \u05d4\u05db\u05dc\u05d1 \u05e0\u05d1\u05d7.")
def test_every_sentence_of_any_text_gets_one_tree_and_conllu_restores_the_text(pipe, text):
    doc = pipe(text)

    assert doc.text == text
    check_trees(doc)
    is_written_as_it_is = not any(set(token.text) & set("\t\r\n\0") for token in doc if token.text.strip())
    if text.strip() and is_written_as_it_is:
        assert text_of(read_treebank(io.BytesIO(to_conllu(doc).encode()))) == text


@settings(max_examples=10)
@given(st.lists(st.tuples(odd_texts.filter(bool), st.booleans(), st.sampled_from([True, False, None])), max_size=12))
def test_every_sentence_of_any_tokens_gets_one_tree_and_keeps_its_start(pipe, tokens):
    words, spaces, starts = zip(*tokens, strict=True) if tokens else ((), (), ())
    doc = Doc(pipe.vocab, words=list(words), spaces=list(spaces), sent_starts=list(starts))

    pipe.get_pipe("treefine")(doc)

    check_trees(doc)
    for token, start in list(zip(doc, starts, strict=True))[1:]:
        assert start is None or token.is_sent_start == start


def test_crossing_arcs_do_not_move_the_start_of_a_sentence(pipe, monkeypatch):
    """spaCy finds starts by following arcs some eleven times, which is too few for this tree."""
    n_words = 60
    heads = [n_words - i + (i > n_words // 2) for i in range(1, n_words + 1)]
    heads[n_words // 2 - 1] = 0
    graph = Graph.of_words(heads, ["dep" if head else "root" for head in heads])
    component = pipe.get_pipe("treefine")
    own = component.parser.stream

    def with_zigzag(sentences):
        return (replace(parse, sentence=parse.sentence.with_graph(graph)) for parse in own(sentences))

    monkeypatch.setattr(component.parser, "stream", with_zigzag)

    doc = component(doc_of(pipe, ["a"] * (2 * n_words), starts=[i % n_words == 0 for i in range(2 * n_words)]))

    assert [len(sentence) for sentence in doc.sents] == [n_words, n_words]


# Sentences


def test_sentences_that_another_component_found_are_kept_and_otherwise_the_segmenter_finds_them(pipe, nlp, text_model):
    text = "ab ba. ab 12! ba ab\n\nba ab 1 . ab" * 3
    ends = [each.spans[-1][1] for each in nlp.segment([text])]

    kept, found = pipeline(text_model, before=["sentencizer"])("ab ba. ab 12! ba"), pipe(text)

    assert [sentence.text for sentence in kept.sents] == ["ab ba.", "ab 12!", "ba"]
    check_trees(kept)
    assert len(ends) > 3
    words = [token.idx for token in found if not token.is_space]
    expected = {min([place for place in words if place >= end], default=None) for end in ends} - {None}
    assert {sentence[0].idx for sentence in found.sents} == {found[0].idx} | expected


@pytest.mark.parametrize(
    ("words", "starts", "ends", "sentences"),
    [
        (["a", "b.c", "d"], None, [4, 7], [[0, 1], [2]]),  # a token across an end belongs to the earlier sentence
        (["a", "b", "c", "d"], [True, False, None, None], [1, 3, 7], [[0, 1], [2, 3]]),  # a start is said, or none
    ],
)
def test_the_segmenter_splits_only_where_sentence_starts_are_unknown(pipe, words, starts, ends, sentences):
    found = split_sentences(doc_of(pipe, words, starts=starts), lambda text: ends)

    assert [[token.i for token in each.words] for each in found] == sentences


def test_missing_annotations_are_reported_with_a_hint_at_the_first_doc(pipe, text_model, refine_model, tmp_path):
    with pytest.raises(TreefineError, match=r"no segmenter\. Add a component that finds them, such as nlp\.add_pipe"):
        pipeline(refine_model)("She left.")
    with pytest.raises(TreefineError, match=r"no heads and labels\. Put a parser before treefine"):
        pipeline(text_model, initial="doc")("ab ba")
    with pytest.raises(TreefineError, match="There is no such model folder"):
        pipeline(str(tmp_path / "none"))("ab")
    with pytest.raises(TreefineError, match="no confidences"):
        to_conllu(pipe.make_doc("a b"), confidence=True)

    check_trees(pipeline(refine_model, before=["sentencizer"])("She left."))
    assert len(pipeline(text_model, initial="doc")("")) == 0


# Many Docs


def test_a_failing_doc_goes_to_the_error_handler_and_the_rest_are_parsed(text_model, monkeypatch):
    nlp = pipeline(text_model)
    component, failed = nlp.get_pipe("treefine"), []
    own = component.parser.stream

    def fails(sentences):
        if any("bad" in sentence.forms for sentence in sentences):
            raise TreefineError("It is bad.")
        return own(sentences)

    monkeypatch.setattr(component.parser, "stream", fails)
    with pytest.raises(TreefineError, match="It is bad"):
        list(nlp.pipe(["a", "bad", "b"]))

    nlp.set_error_handler(lambda name, proc, docs, error: failed.append((name, [doc.text for doc in docs], str(error))))
    docs = list(nlp.pipe(["a", "bad", "b"]))

    assert [doc.text for doc in docs] == ["a", "b"]
    assert all(doc.has_annotation("DEP") for doc in docs)
    assert failed == [("treefine", ["bad"], "It is bad.")]


def test_docs_of_a_pipe_are_the_same_as_alone_in_their_order_also_in_several_processes(pipe):
    texts = ["She left. He waved.", "ab ba 12", "", "  "] * 4
    alone = [pipe(text) for text in texts]

    for docs in (list(pipe.pipe(texts, batch_size=5)), list(pipe.pipe(texts, n_process=2, batch_size=3))):
        assert [doc.text for doc in docs] == texts
        assert [tree_of(doc) for doc in docs] == [tree_of(doc) for doc in alone]
        sure = [[token._.confidence for doc in each for token in doc if not token.is_space] for each in (docs, alone)]
        assert sure[0] == pytest.approx(sure[1])


# Refining


def test_the_trees_of_another_parser_are_the_initial_graph(refine_model):
    words = ["Dogs", "\n", "chase", "cats", "He", "was", "seen"]
    heads = [2, 0, 2, 2, 6, 6, 6]
    labels = ["nsubj", "dep", "ROOT", "dobj", "nsubjpass", "auxpass", "ROOT"]
    doc = doc_of(nlp := pipeline(refine_model, initial="doc", max_steps=1), words, heads=heads, deps=labels)
    component = nlp.get_pipe("treefine")
    written = list(read_treebank(io.BytesIO(to_conllu(doc).encode())))
    assert [each.heads for each in written] == [(2, 0, 2), (3, 3, 0)]
    known = [("nsubj", "root", "obj"), ("nsubj:pass", "aux:pass", "root")]  # the labels by their names in UD
    assert [each.labels for each in component.parser.initial(written)] == known
    parser = Parser.from_pretrained(refine_model, initial=input_trees, device="cpu")
    parser = parser.using(initial=renamed(input_trees, parser.model.vocabulary.labels), max_steps=1)
    expected = [(each.heads, each.labels) for each in parser.stream_trees(written)]

    component(doc)

    assert [arcs_of(sentence) for sentence in doc.sents] == expected
    assert [sentence.start for sentence in doc.sents] == [0, 4]


def test_a_white_space_head_is_replaced_by_its_ancestor(pipe):
    doc = doc_of(pipe, ["a", "\n", "b", "c"], heads=[1, 2, 2, 1], deps=["det", "dep", "ROOT", "obj"])

    (sentence,) = read_treebank(io.BytesIO(to_conllu(doc).encode()))

    assert (sentence.heads, sentence.labels) == ((2, 0, 2), ("det", "root", "obj"))


def test_given_tags_are_read_from_the_doc_and_stay_and_without_tags_those_of_the_doc_stay(text_model, nlp):
    given_tags, untagged = pipeline(text_model, tags="given"), pipeline(text_model, tags="none")
    words, starts = ["She", "saw", "it"], [True, False, False]
    upos, xpos, feats = ["PRON", "VERB", "PRON"], ["PRP", "VBD", "PRP"], ["Case=Nom", "Tense=Past", ""]
    lemmas = ["she", "see", "it"]
    doc = doc_of(given_tags, words, starts=starts, pos=upos, tags=xpos, morphs=feats, lemmas=lemmas)
    other = doc_of(untagged, words, starts=starts, tags=xpos, morphs=feats)

    (sentence,) = read_treebank(io.BytesIO(to_conllu(doc).encode()))

    given_tags.get_pipe("treefine")(doc)
    untagged.get_pipe("treefine")(other)

    own = nlp.using(tags="given").parse(sentence)
    assert arcs_of(doc) == (own.heads, own.labels)
    assert tags_of(doc) == (tuple(upos), tuple(xpos), ("Case=Nom", "Tense=Past", "_"), tuple(lemmas))
    assert [(token.tag_, token.pos_, str(token.morph)) for token in other] == [*zip(xpos, [""] * 3, feats, strict=True)]


# CoNLL-U


def test_a_doc_is_written_as_conllu(english):
    doc = english("The dog barked.\n\n Nobody knew why. ")

    assert doc._.conllu == to_conllu(doc)
    assert doc._.conllu.replace("\t", " ").splitlines()[7:] == [
        "# sent_id = 2",
        "# text = Nobody knew why.",
        "1 Nobody nobody PRON NN Number=Sing|PronType=Neg 2 nsubj _ _",
        "2 knew know VERB VBD Mood=Ind|Number=Sing|Person=3|Tense=Past|VerbForm=Fin 0 root _ _",
        "3 why why ADV WRB PronType=Int 2 advmod _ SpaceAfter=No",
        r"4 . . PUNCT . _ 2 punct _ SpacesAfter=\s",
        "",
    ]
    first, second = doc.sents
    assert first._.conllu + second._.conllu == doc._.conllu
    assert "SpaceAfter=No|Conf=0." in to_conllu(doc, confidence=True)


# Saving


def test_a_saved_pipeline_needs_no_other_files(text_model, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(text_model, folder)
    nlp = pipeline(str(folder))
    texts = ["She left. He waved.", "ab ba 12"]
    expected = [tree_of(doc) for doc in nlp.pipe(texts)]
    nlp.to_disk(tmp_path / "saved")
    packed, config, pickled = nlp.to_bytes(), nlp.config, pickle.dumps(nlp.get_pipe("treefine"))
    shutil.rmtree(folder)

    loaded = spacy.load(tmp_path / "saved").pipe(texts)
    restored = spacy.util.load_model_from_config(config).from_bytes(packed).pipe(texts)
    unpickled = pickle.loads(pickled).pipe(map(nlp.make_doc, texts))

    for docs in (loaded, restored, unpickled):
        assert [tree_of(doc) for doc in docs] == expected
    assert Parser.from_pretrained(tmp_path / "saved" / "treefine", device="cpu").segmenter is not None


def test_the_saved_folder_is_the_whole_model_but_only_the_name_of_a_bundled_one(refine_model, english, tmp_path):
    refiner = Parser.from_pretrained(refine_model, device="cpu")
    refiner.using(initial=refiner.using(initial="empty", max_steps=1)).save(tmp_path / "model")
    component = pipeline(str(tmp_path / "model"), initial="empty").get_pipe("treefine")

    component.to_disk(tmp_path / "saved")
    pickle.loads(pickle.dumps(component)).to_disk(tmp_path / "again")
    english.to_disk(tmp_path / "english")

    for folder in (tmp_path / "saved", tmp_path / "again"):
        assert isinstance(Parser.from_pretrained(folder, device="cpu").initial, Parser)
    assert not (tmp_path / "english" / "treefine").exists()
    assert spacy.load(tmp_path / "english").get_pipe("treefine").model == "en"
    assert len(english.get_pipe("treefine").to_bytes()) < 100


# What else spaCy's users expect


def test_the_pipeline_can_be_analysed_switched_off_and_evaluated(pipe):
    gold = pipe("She left. He waved.")

    assert "token.head" in pipe.analyze_pipes()["summary"]["treefine"]["assigns"]
    assert {"ROOT", "nsubj"} <= set(pipe.pipe_labels["treefine"])
    with pipe.select_pipes(disable=["treefine"]):
        assert not pipe("She left.").has_annotation("DEP")
    scores = pipe.evaluate([Example(pipe.make_doc(gold.text), gold)])
    assert [scores[name] for name in ("dep_uas", "dep_las", "sents_f", "tag_acc", "pos_acc")] == [1.0] * 5


WRONG = [
    ({"model": "fr"}, "There is no model 'fr'. Choose a bundled one (en), or give the path of a folder, "),
    ({"max_steps": "3"}, "The option max_steps must be a whole number from 1, not the str '3'."),
    ({"language": "Klingon"}, "There is no language 'Klingon'."),
    ({"stop_above": 2}, "The option stop_above must be a number from 0 to 1, not the int 2."),
]


@pytest.mark.parametrize(("config", "reported"), WRONG)
@pytest.mark.usefixtures("only_own_models")
def test_a_wrong_value_is_reported_in_one_line(text_model, config, reported):
    with pytest.raises(TreefineError) as caught:
        pipeline(**{"model": text_model, **config})

    assert reported in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_extension_of_another_component_is_never_replaced(text_model):
    own = Token.remove_extension("confidence")
    Token.set_extension("confidence", default=1.0)
    try:
        with pytest.raises(ValueError, match=r"'confidence' already exists on Token"):
            pipeline(text_model)
        pipeline(text_model, confidence=False)
        assert Token.get_extension("confidence") == (1.0, None, None, None)
    finally:
        Token.set_extension("confidence", getter=own[2], force=True)


def test_without_spacy_the_error_says_what_to_install():
    code = "import sys; sys.modules['spacy'] = None; import treefine.integrations.spacy"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert "spaCy is not installed. Install it: pip install 'treefine[spacy]'\n" in done.stderr


def test_the_example_runs(capsys):
    runpy.run_path(str(ROOT / "examples" / "spacy_pipeline.py"))

    assert "Nobody<-nsubj-knew" in capsys.readouterr().out


def test_the_language_of_a_model_of_several_is_that_of_the_config_or_of_each_doc(tmp_path):
    parser = tiny_parser_of_two()
    parser.save(tmp_path / "two")
    texts = ["Hunden sover under bordet, det är inte konstigt.", "Hunden sover under bordet, det er ikke mærkeligt."]

    for config, treebanks in [({"language": "Danish"}, ["da_ddt"] * 2), ({}, ["sv_talbanken", "da_ddt"])]:
        for doc, treebank in zip(pipeline(str(tmp_path / "two"), **config).pipe(texts), treebanks, strict=True):
            of_doc = [[token.text for token in sentence] for sentence in doc.sents]
            parses = parser.using(language=treebank).parse(of_doc)
            assert [sentence._.confidence for sentence in doc.sents] == [parse.confidence for parse in parses]
