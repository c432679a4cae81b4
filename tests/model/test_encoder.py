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
from torch import nn

from tests.support.generated_inputs import LABELS, inputs_of, words_in_pieces
from tests.support.tiny import TOKENIZERS, tiny_shape, write_encoder
from treefine.config import RelationSettings
from treefine.model.batch import Graphs, PieceInputs
from treefine.model.encoder import TransformerEncoder
from treefine.model.hf_weights import fill, load_encoder
from treefine.model.subwords import Subwords

transformers = pytest.importorskip("transformers")

FAMILIES = ["bert", "roberta", "xlm-roberta", "electra", "mpnet"]
every_family = pytest.mark.parametrize("family", FAMILIES)


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
    """Check that the vectors of all pieces equal those of the reference library."""
    inputs = inputs_for(subwords, sentences, ours.settings.n_positions)
    ids = torch.where(inputs.words == 0, subwords.mask_id, inputs.pieces)
    padded = nn.utils.rnn.pad_sequence(ids.split(inputs.row_sizes), batch_first=True, padding_value=subwords.pad_id)
    is_piece = torch.arange(padded.shape[1]) < torch.tensor(inputs.row_sizes)[:, None]

    found = ours(inputs, None, None).last

    expected = reference(input_ids=padded, attention_mask=is_piece.long()).last_hidden_state
    torch.testing.assert_close(found, expected[is_piece], atol=1e-5, rtol=1e-5)


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
    assert inputs_for(subwords, sentences, n_positions).row_sizes == (n_positions, 4)
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
    plain = ours.embed(inputs, None)

    tagged = ours.embed(inputs, tags)

    is_changed = (tagged - plain).abs().amax(-1) > 1e-6
    assert torch.equal(is_changed, inputs.words > 0)
    table = ours.tags[0].weight
    x = ours.pieces.weight[8] + ours.positions.weight[3] + table[2 - 1]  # the second piece of word 1
    torch.testing.assert_close(tagged[3], ours.norm(x))


@torch.no_grad()
def test_doubled_specials_count_cls_and_sep_twice():
    ours, _, subwords = both("bert")
    doubled = TransformerEncoder(ours.settings, ours.relation_settings, n_labels=3, n_tags=(3,), double_specials=True)
    doubled.eval().load_state_dict(ours.state_dict())
    inputs = inputs_for(subwords, [[[7, 8], [9]], [[10]]], 66)

    plain, twice = (each.embed(inputs, None) for each in (ours, doubled))

    is_changed = (plain - twice).abs().amax(-1) > 1e-6
    assert torch.equal(is_changed, inputs.words < 0)
    cls = 2 * ours.pieces.weight[subwords.cls_id] + ours.positions.weight[0]
    torch.testing.assert_close(twice[0], ours.norm(cls))


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

    first, second = encoder(inputs, None, graphs).last, encoder(inputs, None, graphs).last

    assert not torch.equal(first, second)
    encoder.eval()
    assert torch.equal(encoder(inputs, None, graphs).last, encoder(inputs, None, graphs).last)


# Some of the layers: those below `first_layer` read no graph, so that they run once for all steps

SENTENCES = [[[7, 8], [9]], [[10]]]
GRAPHS = Graphs(torch.tensor([[-1, 2, 0], [-1, 0, -1]]), torch.tensor([[-1, 1, 2], [-1, 2, -1]]))


def encoder_of(n_layers, first_layer, seed=1):
    """Return an encoder with weights so large that each layer and graph changes the vectors."""
    shape, relations = replace(tiny_shape(30), n_layers=n_layers), RelationSettings(first_layer=first_layer)
    encoder = TransformerEncoder(shape, relations, n_labels=len(LABELS)).eval()
    generator = torch.Generator().manual_seed(seed)
    for weight in encoder.parameters():
        weight.data += 0.3 * torch.randn(weight.shape, generator=generator)
    return encoder


@torch.no_grad()
def test_layers_that_run_in_two_calls_return_the_vectors_of_one():
    encoder, inputs = encoder_of(n_layers=3, first_layer=1), inputs_of(SENTENCES)

    lower = encoder(inputs, None, None, range(1))
    upper = encoder(inputs, None, GRAPHS, range(1, 3), lower)

    whole = encoder(inputs, None, GRAPHS)
    assert torch.equal(upper.last, whole.last)
    assert torch.equal(lower.last, lower.lower)
    assert torch.equal(upper.lower, whole.lower)
    assert (lower.n_layers, upper.n_layers, whole.n_layers) == (1, 2, 3)


@torch.no_grad()
def test_layers_that_run_again_from_the_first_that_reads_the_graph_continue_from_the_layers_below():
    encoder, inputs = encoder_of(n_layers=3, first_layer=1), inputs_of(SENTENCES)
    first = encoder(inputs, None, None)

    again = encoder(inputs, None, GRAPHS, range(1, 3), first)

    assert torch.equal(again.last, encoder(inputs, None, GRAPHS).last)
    assert not torch.allclose(again.last, first.last, atol=1e-3)


@torch.no_grad()
def test_layers_below_the_first_that_reads_the_graph_have_no_relations_and_do_not_depend_on_it():
    encoder, inputs = encoder_of(n_layers=3, first_layer=2), inputs_of(SENTENCES)

    with_graph, without = encoder(inputs, None, GRAPHS), encoder(inputs, None, None)

    assert [layer.attention.relations is not None for layer in encoder.layers] == [False, False, True]
    assert torch.equal(with_graph.lower, without.lower)
    assert not torch.allclose(with_graph.last, without.last, atol=1e-3)
