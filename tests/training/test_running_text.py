"""The head that finds the sentences of running text: its windows, its loss, its training and its F1."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tiny import ALL_TAGS, sample, tiny_model
from tests.support.tiny_learner import learn, learner_of, weights_of, without_dropout
from tests.support.tiny_segmenter import ANY_TREEBANK
from tests.training.test_learner import SHORT
from tests.training.test_segmenter import of_treebanks
from treefine.config import TagSettings
from treefine.evaluation.scores import evaluate
from treefine.fast import view_of
from treefine.fast.packed_encoder import PackedEncoder
from treefine.model.parser_model import ParserModel
from treefine.training.dev import encoder_f1
from treefine.training.recipe import SegmenterTraining
from treefine.training.segmenter import WINDOW, RunningText, TextWindow, end_loss, windows_of
from treefine.treebank.graph import Graph
from treefine.treebank.raw_text import GapToken, RawText, raw_text
from treefine.treebank.sentence import Sentence

UPOS = TagSettings("predicted", ("upos",))


@st.composite
def texts(draw):
    """Draw a text, from its tokens and the gaps around them."""
    forms = draw(st.lists(st.sampled_from(["a", "word", "."]), max_size=12))
    gaps = draw(st.lists(st.sampled_from(["", " ", "\n", "\n\n"]), min_size=len(forms) + 1, max_size=len(forms) + 1))
    text, spans = gaps[0] if forms else "", []
    for form, gap in zip(forms, gaps[1:], strict=True):
        spans.append((len(text), len(text) + len(form)))
        text += form + gap
    ends = tuple(draw(st.booleans()) for _ in forms)
    return RawText(text, tuple(spans), tuple((form,) for form in forms), ends)


@given(text=texts(), size=st.integers(1, 6))
def test_windows_have_each_token_once_with_its_gaps_and_whether_a_sentence_ends(text, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("treefine.training.segmenter.WINDOW", size)
        windows = windows_of(text)

    tokens = [token for window in windows for token in window.tokens]
    assert "".join(token.before + token.form for token in tokens) + "".join(each.after for each in tokens[-1:]) == (
        text.text
    )
    assert [token.form for token in tokens] == [text.text[first:end] for first, end in text.spans]
    assert all(left.after == right.before for left, right in zip(tokens, tokens[1:], strict=False))
    assert tuple(end for window in windows for end in window.ends) == text.ends_sentence
    assert all(len(window.tokens) == size for window in windows[:-1])


def test_windows_of_a_training_have_any_length_and_some_are_like_short_texts():
    text = raw_text(20 * sample())

    windows = windows_of(text, rng=np.random.default_rng(1))

    assert [token.form for window in windows for token in window.tokens] == [text.text[a:b] for a, b in text.spans]
    lengths = {len(window.tokens) for window in windows}
    assert min(lengths) < 10
    assert max(lengths) >= WINDOW
    assert any(window.ends[-1] and window.tokens[0].before == window.tokens[-1].after == "" for window in windows)


def test_an_epoch_reads_the_whole_text_as_often_as_the_recipe_says():
    settings = SegmenterTraining(texts_per_epoch=3, lowered=0, unpointed=0, quoted=0, short=0)
    text = RunningText(3 * sample(), settings, ANY_TREEBANK)

    drawn = text.batches(np.random.default_rng(1))

    forms = [token.form for batch in drawn for window in batch for token in window.tokens]
    assert sorted(forms) == sorted(9 * [token.form for each in sample() for token in each.tokens()])
    assert drawn == text.batches(np.random.default_rng(1))
    assert drawn != text.batches(np.random.default_rng(2))


def test_the_loss_is_the_mean_over_the_tokens_without_root_and_padding():
    tokens = [GapToken("a", "", " "), GapToken("b", " ", "")]
    windows = [TextWindow(tuple(tokens), (False, True)), TextWindow(tuple(tokens[:1]), (True,))]
    logits = torch.tensor([[9.0, 0.5, -1.0], [-9.0, 2.0, 7.0]])

    def surprise(logit, is_end):
        share = 1 / (1 + math.exp(-logit))
        return -math.log(share if is_end else 1 - share)

    expected = (surprise(0.5, False) + surprise(-1.0, True) + surprise(2.0, True)) / 3
    assert float(end_loss(logits, windows)) == pytest.approx(expected, rel=1e-5)


def test_the_head_and_its_layers_learn_where_sentences_end():
    model = without_dropout(tiny_model(tags=ALL_TAGS, sentence_layers=1, scale=1.0))
    learner, text, before = learner_of(model, SHORT), raw_text(SHORT), weights_of(model)
    windows = windows_of(text) + windows_of(text, rng=np.random.default_rng(1))

    def loss():
        batch, inputs = model.text_batch([window.tokens for window in windows], [""] * len(windows))
        with torch.no_grad():
            return float(end_loss(model.sentence_end_logits(batch, inputs), windows))

    first = loss()
    for _ in range(50):
        learner.learn_sentence_ends(windows, 0.1)

    after = weights_of(model)
    changed = {name for name in after if not torch.equal(after[name], before[name])}
    assert loss() < 0.5 * first
    gaps = f"encoder.tags.{len(model.encoder.tags) - 1}.weight"
    assert {"sentence_ends.weight", "sentence_ends.bias", gaps, "encoder.layers.0.inner.weight"} < changed
    unused = ("scorer.", "tagger.", "encoder.layers.1.", "encoder.layers.0.attention.relations")
    assert not [name for name in changed if name.startswith(unused)]
    assert encoder_f1(model.eval(), SHORT) > 0.8


def test_an_epoch_also_trains_the_head_of_a_model_that_has_one():
    learner = learner_of(tiny_model(tags=UPOS, sentence_layers=1, scale=1.0), SHORT)
    before = weights_of(learner.model)

    learn(learner, epochs=1)

    assert not torch.equal(before["sentence_ends.weight"], weights_of(learner.model)["sentence_ends.weight"])


def test_running_text_is_read_by_an_encoder_that_hides_its_tables_and_tags_are_its_only_inputs():
    model = tiny_model(tags=UPOS, sentence_layers=1).eval()
    packed = view_of(model, ParserModel, encoder=PackedEncoder(model.encoder, torch.float32))  # as on a GPU
    windows = [window.tokens for window in windows_of(raw_text(SHORT))]

    for ours, theirs in zip(packed.sentence_end_scores(windows), model.sentence_end_scores(windows), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)


@given(data=st.data())
def test_f1_equals_that_of_the_official_scores(data):
    gold = [Sentence.of_words(["w"] * n) for n in data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))]
    gold = [each.with_graph(Graph.of_words(range(len(each)), ["dep"] * len(each))) for each in gold]
    ends = [data.draw(st.booleans()) for each in gold for _ in range(len(each))]
    ends[-1] = True
    lengths = np.diff([0, *(np.flatnonzero(ends) + 1)]).tolist()
    system = [Sentence.of_words(["w"] * n).with_graph(Graph.of_words(range(n), ["dep"] * n)) for n in lengths]

    left = iter(ends)

    def scores(windows, *_):
        return [np.array([0.1 * next(left) for _ in window]) for window in windows]

    found = encoder_f1(SimpleNamespace(sentence_end_scores=scores), gold)

    assert found == pytest.approx(evaluate(gold, system)["Sentences"].f1)


def test_a_window_of_text_carries_its_treebank_and_mixes_none():
    train = of_treebanks(aa_one=[Sentence.of_words(["a"] * 9)] * 60, bb_two=[Sentence.of_words(["b"] * 9)] * 60)
    settings = SegmenterTraining(lowered=0, quoted=0, short=0)

    windows = [
        each
        for batch in RunningText(train, settings, replace(ANY_TREEBANK, unnamed=0)).batches(np.random.default_rng(1))
        for each in batch
    ]

    assert {(each.treebank, token.form) for each in windows for token in each.tokens} == {
        ("aa_one", "a"),
        ("bb_two", "b"),
    }
