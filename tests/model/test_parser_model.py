from dataclasses import replace
from functools import cache

import pytest
import torch
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st
from torch.nn import functional as F  # noqa: N812 - the customary name

from tests.support.generated_inputs import SOME_WAYS_TO_READ, arcs_over, name_of
from tests.support.tiny import sample, tiny_model, tiny_syntr
from treefine.config import RelationSettings, TagSettings
from treefine.errors import ConfigError
from treefine.model.attention import PaddedAttention
from treefine.model.batch import Graphs
from treefine.model.parser_model import ParserModel
from treefine.model.vocabulary import NO_HEAD, UNSEEN
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import Sentence

SENTENCES = sample(12)
BOTH_COLUMNS = TagSettings("given", ("upos", "xpos"))
few_examples = profile(max_examples=max(5, profile().max_examples // 4))


@cache
def model_of(kind):
    """Return a shared model of each kind, for tests that do not change it."""
    return {
        "bert": lambda: tiny_model(tags=BOTH_COLUMNS),
        "mpnet": lambda: tiny_model(family="mpnet", tags=BOTH_COLUMNS),
        "windows": lambda: tiny_model(n_positions=16, tags=BOTH_COLUMNS),
        "syntr": lambda: tiny_syntr(tags=BOTH_COLUMNS),
    }[kind]()


every_kind = pytest.mark.parametrize("kind", ["bert", "mpnet", "windows", "syntr"])


@torch.no_grad()
def scores_of(model, sentences, graphs=None, *, tags=None, **options):
    return model(model.batch_of(sentences), graphs, tags, **options)[0]


def gold(model, sentences):
    return Graphs.of([sentence.arcs for sentence in sentences], model.vocabulary)


def without_heads(sentences):
    shape = (len(sentences), max(map(len, sentences)) + 1)
    return Graphs(torch.full(shape, NO_HEAD), torch.full(shape, UNSEEN))


def assert_equal_scores(found, expected):
    """Check that scores are equal to the last bit."""
    assert torch.equal(found.arcs, expected.arcs)
    heads = torch.zeros(found.arcs.shape[:2], dtype=torch.int64)
    assert torch.equal(found.labels(heads), expected.labels(heads))


def assert_near(found, expected, row=None):
    """Check that scores are equal to 1e-5; with a row, those of one sentence with those of the sentence alone."""
    found = found if row is None else found.only(row)
    torch.testing.assert_close(found.arcs, expected.arcs, atol=1e-5, rtol=1e-5)
    for name in ("label_dep", "label_head"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name), atol=1e-5, rtol=1e-5)


# Graphs


@pytest.mark.parametrize("settings", SOME_WAYS_TO_READ, ids=name_of)
def test_without_a_graph_the_encoder_is_the_plain_one(settings):
    model = tiny_model(relations=settings)
    plain = tiny_model(relations=RelationSettings(graph="none"))
    weights = {name: each for name, each in model.state_dict().items() if ".relations." not in name}
    plain.load_state_dict(weights)

    without = scores_of(model, SENTENCES, None)

    assert_equal_scores(without, scores_of(plain, SENTENCES, None))
    assert_equal_scores(without, scores_of(model, SENTENCES, without_heads(SENTENCES)))


# Tags


def test_given_tags_are_ids_by_column_and_0_for_root_padding_blank_and_unknown_tags():
    model = model_of("bert")
    sentences = [
        Sentence.of_words(["a", "b", "c"], upos=["NOUN", "_", "NEW"], xpos=["_", "NN", "NEW"]),
        Sentence.of_words(["d"], upos=["VERB"]),
    ]
    noun, verb = model.vocabulary.tag_ids("upos", ["NOUN", "VERB"])
    (nn,) = model.vocabulary.tag_ids("xpos", ["NN"])

    tags = model.given_tags(sentences)

    assert tags.tolist() == [[[0, 0], [noun, 0], [0, nn], [0, 0]], [[0, 0], [verb, 0], [0, 0], [0, 0]]]
    assert min(noun, verb, nn) >= 1


def test_a_model_cannot_predict_a_column_that_its_vocabulary_lacks():
    model = tiny_model(tags=TagSettings("predicted", ("upos", "xpos")))

    with pytest.raises(ConfigError) as caught:
        ParserModel(model.settings, replace(model.vocabulary, xpos=()), model.subwords)

    assert str(caught.value) == (
        "The model should predict xpos, but its treebank has no such tags. Remove xpos from the columns in [tags]."
    )


# Batches and windows


@every_kind
@few_examples
@given(data=st.data())
def test_other_sentences_in_the_batch_change_no_score(kind, data):
    model = model_of(kind)
    sentences = data.draw(st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=4))
    arcs = [Arcs(*data.draw(arcs_over(len(each), model.vocabulary.labels))) for each in sentences]
    tags = model.given_tags(sentences)

    together = scores_of(model, sentences, Graphs.of(arcs, model.vocabulary), tags=tags)

    for row, sentence in enumerate(sentences):
        n_words = len(sentence) + 1
        graph = Graphs.of([arcs[row]], model.vocabulary)
        alone = scores_of(model, [sentence], graph, tags=tags[row : row + 1, :n_words])
        assert_near(together, alone, row)


@torch.no_grad()
def test_each_word_is_read_from_the_window_that_owns_it():
    model = model_of("windows")
    sentence = Sentence.of_words([form for each in SENTENCES for form in each.forms])
    inputs = model.batch_of([sentence]).inputs
    assert len(inputs.row_sizes) > 10

    words = model.encoder(inputs, None, None).last[inputs.first_pieces]

    assert len(words) == len(sentence) + 1
    for vector, piece in zip(words, inputs.first_pieces.tolist(), strict=True):
        row = inputs.rows == inputs.rows[piece]
        pieces, places = int(row.sum()), inputs.places[row]
        x = model.encoder.embed_pieces(inputs.pieces[row], inputs.words[row], places, None)
        for layer in model.encoder.layers:
            start, number = torch.zeros(1, dtype=torch.long), torch.zeros(pieces, dtype=torch.long)
            x = layer(x, PaddedAttention(start, number, places, torch.zeros(1, 1, 1, pieces), None))
        torch.testing.assert_close(vector, x[inputs.places[piece]], atol=1e-5, rtol=1e-5)


# Gradients


def loss_of(scores, graphs, tags, batch):
    """Return the cross-entropy of heads, labels and tags."""
    is_word = batch.is_word.clone()
    is_word[:, 0] = False
    loss = F.cross_entropy(scores.arcs[is_word], graphs.heads[is_word])
    loss = loss + F.cross_entropy(scores.labels(graphs.heads)[is_word], graphs.labels[is_word])
    for column, each in enumerate(scores.tags):
        loss = loss + F.cross_entropy(each[is_word], tags[..., column][is_word] - 1)
    return loss


PREDICTED = TagSettings("predicted", ("upos", "xpos"))


@pytest.mark.parametrize(
    "make",
    [
        lambda: tiny_model(tags=PREDICTED),
        lambda: tiny_model(tags=PREDICTED, relations=RelationSettings(none="zero")),
        lambda: tiny_model(tags=PREDICTED, relations=RelationSettings(key_norm=False, graph="unlabelled")),
        lambda: tiny_model(tags=PREDICTED, family="mpnet"),
        lambda: tiny_syntr(tags=PREDICTED),
    ],
    ids=["bert", "none-zero", "raw-unlabelled", "mpnet", "syntr"],
)
def test_a_gradient_reaches_every_parameter_that_a_softmax_does_not_cancel(make):
    model = make()
    batch, graphs, tags = model.batch_of(SENTENCES), gold(model, SENTENCES), model.given_tags(SENTENCES)

    loss_of(model(batch, graphs, tags)[0], graphs, tags, batch).backward()

    # A term that is equal for all keys cancels in the softmax: the bias of the keys, and the bias of the norm of the
    # relation keys unless NONE is zero.
    cancelled = ["attention.key.bias"]
    if model.settings.relations.none == "learned":
        cancelled.append("relations.norm.bias")
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
        assert (weight.grad.abs().max() > 1e-6) == (not name.endswith(tuple(cancelled))), name
