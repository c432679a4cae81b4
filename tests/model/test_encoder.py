"""The encoder, compared with the reference library; tags, dropout and graphs."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from tests.support.generated_inputs import LABELS, inputs_of, words_in_pieces
from tests.support.tiny import TOKENIZERS, tiny_shape, write_encoder
from treefine.config import RelationSettings
from treefine.model.batch import ROOT_PIECE, Graphs, PieceInputs
from treefine.model.encoder import TransformerEncoder
from treefine.model.hf_weights import fill, load_encoder
from treefine.model.subwords import Subwords

transformers = pytest.importorskip("transformers")

FAMILIES = ["bert", "roberta", "xlm-roberta", "electra", "mpnet"]
every_family = pytest.mark.parametrize("family", FAMILIES)


def embedded(encoder, inputs, tags=None):
    places = torch.arange(inputs.pieces.shape[1])
    return encoder.embed(inputs.pieces, inputs.words, places, inputs.piece_tags(tags, slice(None)))


def encoder_in(folder, **options):
    """Return the encoder of a folder, with the vector of the mask piece for ROOT."""
    shape, weights = load_encoder(folder)
    encoder = TransformerEncoder(shape, RelationSettings(), n_labels=len(LABELS), **options).eval()
    fill(encoder, weights, path=str(folder))
    encoder.root.data.copy_(weights["pieces.weight"][Subwords.from_folder(folder).mask_id])
    return encoder


@cache
def both(family):
    """Return our encoder and the reference library's, with the same weights, and the special pieces."""
    with TemporaryDirectory() as name:
        reference = write_encoder(Path(name), family)
        return encoder_in(Path(name), n_tags=(3,)), reference, Subwords(TOKENIZERS[family]())


def inputs_for(subwords, sentences, n_positions):
    return PieceInputs.of(
        sentences, cls_id=subwords.cls_id, sep_id=subwords.sep_id, pad_id=subwords.pad_id, n_positions=n_positions
    )


@torch.no_grad()
def assert_equal_vectors(ours, reference, subwords, sentences):
    """Check that the vectors of all pieces and words equal those of the reference library."""
    inputs = inputs_for(subwords, sentences, ours.settings.n_positions)
    ids = inputs.pieces.clone()
    ids[:, ROOT_PIECE] = subwords.mask_id

    pieces = embedded(ours, inputs)
    for layer in ours.layers:
        pieces = layer(pieces, ours.attention(inputs.is_piece, None, pieces.dtype))
    words = ours(inputs, None, None)

    expected = reference(input_ids=ids, attention_mask=inputs.is_piece.long()).last_hidden_state
    torch.testing.assert_close(pieces[inputs.is_piece], expected[inputs.is_piece], atol=1e-5, rtol=1e-5)
    for row, sentence in enumerate(sentences):
        firsts = [ROOT_PIECE]
        for before in [[ROOT_PIECE], *sentence][: len(sentence)]:
            firsts.append(firsts[-1] + len(before))
        torch.testing.assert_close(words[row, : len(firsts)], expected[row, firsts], atol=1e-5, rtol=1e-5)


# The reference library's vectors


@every_family
@profile(max_examples=max(5, profile().max_examples // 4))
@given(sentences=st.lists(st.lists(words_in_pieces(), max_size=8), min_size=1, max_size=3))
def test_without_graph_and_tags_the_vectors_equal_the_reference_library(family, sentences):
    ours, reference, subwords = both(family)

    assert_equal_vectors(ours, reference, subwords, sentences)


@every_family
def test_the_first_and_last_positions_equal_the_reference_library(family):
    ours, reference, subwords = both(family)
    n_positions = 66 if family in ("bert", "electra") else 64  # RoBERTa and MPNet reserve two

    sentences = [[[5 + word % 20] for word in range(n_positions - 3)], [[7]]]

    assert ours.settings.n_positions == n_positions
    assert inputs_for(subwords, sentences, n_positions).pieces.shape == (2, n_positions)
    assert_equal_vectors(ours, reference, subwords, sentences)


@pytest.mark.parametrize("n_words", [150, 400])
def test_mpnets_bias_equals_the_reference_library_at_any_distance(n_words, tmp_path):
    config = transformers.MPNetConfig(
        vocab_size=30,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=8,
        max_position_embeddings=514,
    )
    reference = transformers.MPNetModel(config).eval()
    reference.encoder.relative_attention_bias.weight.data.normal_()
    reference.save_pretrained(tmp_path)
    shape, weights = load_encoder(tmp_path)
    ours = TransformerEncoder(shape, RelationSettings(), n_labels=1)
    fill(ours, weights, path="")

    distance = torch.arange(n_words)[None] - torch.arange(n_words)[:, None]  # from query to key
    bias = ours.bias_by_distance(n_words)[:, distance + n_words - 1][None]

    torch.testing.assert_close(bias, reference.encoder.compute_position_bias(torch.zeros(1, n_words, 16)))


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "gelu_pytorch_tanh", "relu"])
def test_activations_equal_the_reference_library(activation, tmp_path):
    config = transformers.BertConfig(
        vocab_size=200,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        hidden_act=activation,
        layer_norm_eps=0.01,
    )
    reference = transformers.BertModel(config).eval()
    for weight in reference.parameters():
        weight.data += 0.3 * torch.randn(weight.shape)
    reference.save_pretrained(tmp_path)
    TOKENIZERS["bert"]().save(str(tmp_path / "tokenizer.json"))

    ours = encoder_in(tmp_path)

    assert_equal_vectors(ours, reference, Subwords.from_folder(tmp_path), [[[7, 8], [9]], [[10]]])


# Tags and specials


@torch.no_grad()
def test_every_piece_of_a_word_has_the_vector_of_its_tag_and_specials_have_none():
    ours, _, subwords = both("bert")
    inputs = inputs_for(subwords, [[[7, 8], [9]], [[10]]], 66)
    tags = torch.tensor([[[3], [2], [3]], [[3], [1], [0]]])  # a tagger also tags ROOT
    plain = embedded(ours, inputs)

    tagged = embedded(ours, inputs, tags)

    is_changed = (tagged - plain).abs().amax(-1) > 1e-6
    assert torch.equal(is_changed, inputs.words > 0)
    table = ours.tags[0].weight
    x = ours.pieces.weight[8] + ours.positions.weight[3] + table[2 - 1]  # the second piece of word 1
    torch.testing.assert_close(tagged[0, 3], ours.norm(x))


@torch.no_grad()
def test_doubled_specials_count_cls_and_sep_twice():
    ours, _, subwords = both("bert")
    doubled = TransformerEncoder(ours.settings, ours.relation_settings, n_labels=3, n_tags=(3,), double_specials=True)
    doubled.eval().load_state_dict(ours.state_dict())
    inputs = inputs_for(subwords, [[[7, 8], [9]], [[10]]], 66)

    plain, twice = (embedded(each, inputs) for each in (ours, doubled))

    is_special = inputs.is_piece & (inputs.words < 0)
    is_changed = (plain - twice).abs().amax(-1) > 1e-6
    assert torch.equal(is_changed & inputs.is_piece, is_special)
    cls = 2 * ours.pieces.weight[subwords.cls_id] + ours.positions.weight[0]
    torch.testing.assert_close(twice[0, 0], ours.norm(cls))


# Dropout


def encoder_that_drops(**rates):
    shape = replace(tiny_shape(30), **{"dropout": 0.0, "attention_dropout": 0.0} | rates)
    return TransformerEncoder(shape, RelationSettings(), n_labels=len(LABELS)).train()


@torch.no_grad()
@pytest.mark.parametrize("rates", [{"dropout": 0.5}, {"attention_dropout": 0.5}])
@pytest.mark.parametrize("has_graph", [True, False])
def test_each_rate_of_dropout_takes_effect_with_and_without_a_graph(rates, has_graph):
    encoder, inputs = encoder_that_drops(**rates), inputs_of([[[7, 8], [9]]])
    graphs = Graphs(torch.tensor([[-1, 2, 0]]), torch.tensor([[-1, 1, 2]])) if has_graph else None

    first, second = encoder(inputs, None, graphs), encoder(inputs, None, graphs)

    assert not torch.equal(first, second)
    encoder.eval()
    assert torch.equal(encoder(inputs, None, graphs), encoder(inputs, None, graphs))
