"""Labels, tags, features and lemmas in the vocabulary, and what a model reads of a word besides its pieces."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tiny import ALL_TAGS, sample, short, tiny_model, tiny_syntr
from treefine.config import COLUMNS, TagSettings
from treefine.errors import TreebankError
from treefine.model.vocabulary import UNSEEN, Vocabulary, case_of, flat_tags, ruled_scripts, tag_names, tags_in
from treefine.training.segmenter import windows_of
from treefine.treebank.graph import Graph
from treefine.treebank.lemmas import lemma_of
from treefine.treebank.raw_text import gap_kinds, raw_text
from treefine.treebank.sentence import BLANK, Sentence

names = st.lists(st.text(min_size=1), unique=True)
SING, PLUR = "Number=Sing", "Number=Plur"
GRAPH = Graph.of_words([0], ["dep"])


def sentence(text, *, lemma=None, feats=None):
    """Return a sentence with a label for each word."""
    forms = text.split()
    words = Sentence.of_words(forms).with_graph(Graph.of_words([0] * len(forms), ["dep"] * len(forms)))
    return words.with_tags(lemma=lemma and lemma.split(), feats=feats and feats.split())


def test_a_word_without_features_has_the_value_blank_only_beside_words_that_have_some():
    some, none = sentence("the dogs", feats=f"_ {PLUR}"), sentence("the dogs")

    vocabulary = Vocabulary.of_treebank([some, none])

    assert vocabulary.feats == (PLUR, BLANK)
    assert (tags_in(some, "feats"), tags_in(none, "feats")) == (("_", PLUR), ["", ""])
    assert flat_tags([some, none], vocabulary, ["feats"])[:, 0].tolist() == [2, 1, 0, 0]


def test_lemma_scripts_that_occur_once_are_left_out_but_are_rules():
    treebank = [sentence("dogs cats ran was", lemma="dog cat run _"), sentence("was", lemma="be")]
    treebank = [each.with_tags(xpos=["X"] * len(each)) for each in treebank]

    vocabulary = Vocabulary.of_treebank(treebank)

    assert vocabulary.lemma == ("L|0|1",)
    assert "X\t^was\t=be" in vocabulary.lemma_rules or "X\t2was\t=be" in vocabulary.lemma_rules
    assert flat_tags(treebank, vocabulary, ["lemma"])[:, 0].tolist() == [1, 1, 0, 0, 0]
    assert tag_names(vocabulary, ("lemma", "xpos"), [[0, 0], [0, 0]], Sentence.of_words(["was", "oaks"]))[0] == [
        "be",
        "oak",
    ]


@given(forms=st.lists(st.text("ab=|_0\u00a0", min_size=1), unique=True, min_size=1, max_size=5))
def test_the_lemma_of_any_form_of_the_treebank_is_known_by_a_rule(forms):
    treebank = [Sentence.of_words([form], xpos=["X"]).with_tags(lemma=["lemma"]) for form in ("x", *forms)]

    vocabulary = Vocabulary.of_treebank([each.with_graph(GRAPH) for each in treebank])

    words = Sentence.of_words(forms)
    rules = ruled_scripts(vocabulary, ("lemma", "xpos"), [["?"] * len(forms), ["X"] * len(forms)], words)
    assert [lemma_of(form, script) for form, script in zip(forms, rules, strict=True)] == ["lemma"] * len(forms)


def test_the_lemma_of_a_letter_in_brackets_is_the_letter():
    treebank = [Sentence.of_words(["5", "b"], xpos=["CD", "CD"]).with_tags(lemma=["5", "billion"])]
    vocabulary = Vocabulary.of_treebank([each.with_graph(Graph.of_words([0, 1], ["root", "dep"])) for each in treebank])
    words = Sentence.of_words(["5", "b", "(", "b", ")"])

    rules = ruled_scripts(vocabulary, ("lemma", "xpos"), [["?"] * 5, ["CD"] * 5], words)

    assert (lemma_of("b", rules[1]), lemma_of("b", rules[3])) == ("billion", "b")


def test_the_values_of_a_treebank_are_recovered_from_their_ids():
    vocabulary = Vocabulary.of_treebank(2 * sample(20))  # twice, so that no lemma script is rare

    for each in sample(20):
        ids = flat_tags([each], vocabulary, COLUMNS)
        for column, numbers in zip(COLUMNS, ids.T.tolist(), strict=True):
            values = getattr(each, column)
            has_features = column == "feats" and set(values) != {BLANK}
            (found,) = tag_names(vocabulary, (column,), [[number - 1 for number in numbers]], each)
            for value, number, name in zip(values, numbers, found, strict=True):
                assert (number > 0) == (value != BLANK or has_features)
                assert number == 0 or name == value


@pytest.mark.parametrize("make", [tiny_model, tiny_syntr])
@pytest.mark.parametrize("place", range(5))
def test_scores_depend_on_each_column(make, place):
    model, sentences = make(tags=ALL_TAGS), short(2)
    tags = model.tag_inputs(sentences, read=model.settings.tags.columns)
    changed = tags.clone()
    changed[0, 1, place] = 1 + tags[0, 1, place] % 2

    with torch.no_grad():
        batch = model.batch_of(sentences)
        before, after = (model(batch, None, each)[0].arcs for each in (tags, changed))

    assert not torch.equal(before[0], after[0])
    assert torch.equal(before[1], after[1])


def test_running_text_has_the_gaps_in_the_last_column():
    model = tiny_model(tags=ALL_TAGS, sentence_layers=1)
    windows = 2 * windows_of(raw_text(sample(4)))
    tokens = [window.tokens for window in windows]

    batch, tags = model.text_batch(tokens, [""] * len(tokens))

    assert len(windows) == 2
    assert tags.shape[-1] == len(model.encoder.tags) == 6
    for row, window in zip(tags, tokens, strict=True):
        words = slice(1, len(window) + 1)
        assert row[words, -1].tolist() == list(map(gap_kinds, window))
        assert row[words, 4].tolist() == [case_of(each.form) for each in window]
        assert not row[words, :4].any()
        assert not row[0].any()
    assert list(batch.lengths) == list(map(len, tokens))


@pytest.mark.parametrize("tags", [TagSettings("none"), TagSettings("predicted", ("upos",)), ALL_TAGS], ids=str)
def test_each_token_has_one_score_for_ending_a_sentence_whatever_is_beside_it(tags):
    model = tiny_model(tags=tags, sentence_layers=1)
    windows = [window.tokens for window in windows_of(raw_text(sample(5)), rng=np.random.default_rng(1))]

    together = model.sentence_end_scores(windows)

    assert [each.shape for each in together] == [(len(window),) for window in windows]
    for window, scores in zip(windows, together, strict=True):
        np.testing.assert_allclose(model.sentence_end_scores([window])[0], scores, atol=1e-4)
    otherwise = [token._replace(after="\n\n") for token in windows[0]]
    assert not np.allclose(model.sentence_end_scores([otherwise])[0], together[0], atol=1e-3)


@given(labels=names.filter(bool), upos=names, xpos=names)
def test_ids_are_positions_in_the_vocabulary_and_tag_ids_start_at_1(labels, upos, xpos):
    vocabulary = Vocabulary(labels=tuple(labels), upos=tuple(upos), xpos=tuple(xpos))

    assert vocabulary.label_ids(labels) == list(range(len(labels)))
    assert [vocabulary.label_id(label) for label in labels] == list(range(len(labels)))
    for column, tags in (("upos", upos), ("xpos", xpos)):
        ids = vocabulary.tag_ids(column, tags)
        assert ids == list(range(1, len(tags) + 1))
        assert [getattr(vocabulary, column)[tag_id - 1] for tag_id in ids] == tags


def test_the_vocabulary_of_a_treebank_is_sorted_and_leaves_blanks_out():
    def words(forms, labels, upos, xpos="_ _"):
        tagged = Sentence.of_words(forms.split(), upos=upos.split(), xpos=xpos.split())
        return tagged.with_graph(Graph.of_words([0, 0], labels.split()))

    treebank = [words("The dog", "nsubj _", "DET _"), words("the _", "det root", "DET X", "b a")]

    vocabulary = Vocabulary.of_treebank(treebank)

    assert vocabulary == Vocabulary(labels=("det", "nsubj", "root"), upos=("DET", "X"), xpos=("a", "b"))


def test_a_treebank_without_labels_is_an_error():
    with pytest.raises(TreebankError, match="The treebank has no labels to learn. Use a treebank with a filled DEPREL"):
        Vocabulary.of_treebank([Sentence.of_words(["A", "dog"])])


def test_labels_of_another_scheme_are_mapped_to_the_same_relations():
    """So an initial graph means the same whether it comes from a file, training or a user."""
    vocabulary = Vocabulary(labels=("acl:relcl", "nsubj", "obj", "root"))

    assert vocabulary.label_ids(["dobj", "ROOT", "relcl", "nsubj:outer", "prep", "dobj"]) == [2, 3, 0, 1, UNSEEN, 2]
    assert [vocabulary.label_id(label) for label in ("nsubj", "nsubj:outer", "dobj")] == [1, None, None]
