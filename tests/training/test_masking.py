"""Masking: which pieces, how many, and only in training."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tiny import sample, tiny_model
from tests.support.tiny_learner import accuracy_of, are_equal, blank, learn, learner_of, weights_of
from treefine.training import learner as learn_module
from treefine.training.learner import masked
from treefine.training.recipe import TrainingSettings

MODEL = tiny_model(n_positions=40)  # some sentences need several windows
MASK = MODEL.subwords.mask_id
SENTENCES = sample()
shares = st.floats(0, 0.99)
seeds = st.integers(0, 2**32)
some_sentences = st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=5)


def masked_batch(model, sentences, share, seed):
    """Return a batch, and the same batch with pieces masked."""
    batch = model.batch_of(sentences)
    torch.manual_seed(seed)
    return batch, masked(batch, share, MASK)


@given(sentences=some_sentences, share=shares, seed=seeds)
def test_only_pieces_of_words_are_masked(sentences, share, seed):
    batch, found = masked_batch(MODEL, sentences, share, seed)

    before, after = batch.inputs, found.inputs
    assert torch.equal(before.pieces, MODEL.batch_of(sentences).inputs.pieces)  # the input batch
    is_changed = after.pieces != before.pieces
    assert (after.pieces[is_changed] == MASK).all()
    assert (before.words[is_changed] > 0).all()  # not ROOT, CLS, SEP or padding
    names = ("words", "is_first", "is_piece", "sentences", "word_rows", "word_pieces")
    assert all(torch.equal(getattr(before, name), getattr(after, name)) for name in names)
    assert (found.lengths, after.row_lengths) == (batch.lengths, before.row_lengths)


def masked_by(learner, monkeypatch):
    """Return the ids that replace masked pieces in an epoch."""
    found = set()

    def watched(batch, share, piece):
        after = masked(batch, share, piece)
        found.update(after.inputs.pieces[after.inputs.pieces != batch.inputs.pieces].tolist())
        return after

    monkeypatch.setattr(learn_module, "masked", watched)
    learn(learner, epochs=1)
    return found


def test_a_masked_piece_is_the_mask_token_or_else_the_unknown_token(monkeypatch):
    training = TrainingSettings(epochs=10, batch_pieces=200, masking=0.5)
    has_mask, has_none = tiny_model(), tiny_model()
    has_none.subwords.mask_id = None

    assert MASK not in (None, has_none.subwords.unk_id)
    assert masked_by(learner_of(has_mask, SENTENCES[:10], training=training), monkeypatch) == {MASK}
    learner = learner_of(has_none, SENTENCES[:10], training=training)
    assert masked_by(learner, monkeypatch) == {has_none.subwords.unk_id}


def test_pieces_are_masked_in_training_but_not_in_scoring():
    train, dev = SENTENCES[:20], SENTENCES[20:30]

    def learner(share):
        training = TrainingSettings(epochs=10, batch_pieces=200, masking=share)
        return learner_of(tiny_model(), train, training=training)

    plain, masking = learner(0.0), learner(0.9)
    assert accuracy_of(masking, dev, blank(dev)) == accuracy_of(plain, dev, blank(dev))

    learn(plain, epochs=1)
    learn(masking, epochs=1)
    assert not are_equal(weights_of(masking.model), weights_of(plain.model))
