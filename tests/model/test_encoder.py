import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch.nn import functional as F  # noqa: N812 - the customary name

from tests.support.generated_inputs import LABELS, inputs_of, words_in_pieces
from tests.support.tiny import TOKENIZERS, read_config, tiny_shape, write_encoder
from treefine.config import RelationSettings, TransformerSettings
from treefine.errors import TreefineError
from treefine.model.attention import PaddedAttention
from treefine.model.batch import ROOT_PIECE, Graphs, PieceInputs
from treefine.model.encoder import TagEmbedding, TransformerEncoder
from treefine.model.hf_weights import fill, load_encoder, translate
from treefine.model.subwords import Subwords

transformers = pytest.importorskip("transformers")

FAMILIES = ["bert", "roberta", "xlm-roberta", "electra", "mpnet"]
every_family = pytest.mark.parametrize("family", FAMILIES)


def embedded(encoder, inputs, tags=None):
    places = torch.arange(inputs.pieces.shape[1])
    return encoder.embed(inputs.pieces, inputs.words, places, inputs.piece_tags(tags, slice(None)))


def encoder_in(folder, **options):
    """The encoder of a folder, ROOT's vector being that of the mask piece."""
    shape, weights = load_encoder(folder)
    encoder = TransformerEncoder(shape, RelationSettings(), n_labels=len(LABELS), **options).eval()
    fill(encoder, weights, path=str(folder))
    encoder.root.data.copy_(weights["pieces.weight"][Subwords.from_folder(folder).mask_id])
    return encoder


@cache
def both(family):
    """Our encoder and the reference library's, with the same weights, and the pieces that stand for no word."""
    with TemporaryDirectory() as name:
        reference = write_encoder(Path(name), family)
        return encoder_in(Path(name), n_tags=(3,)), reference, Subwords(TOKENIZERS[family]())


def inputs_for(subwords, sentences, n_positions):
    return PieceInputs.of(
        sentences, cls_id=subwords.cls_id, sep_id=subwords.sep_id, pad_id=subwords.pad_id, n_positions=n_positions
    )


@torch.no_grad()
def assert_equal_vectors(ours, reference, subwords, sentences):
    """The vectors of all pieces, and of the words, are the reference library's."""
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
@profile(max_examples=profile().max_examples // 4)
@given(sentences=st.lists(st.lists(words_in_pieces(), max_size=8), min_size=1, max_size=3))
def test_without_graph_and_tags_the_vectors_are_the_reference_librarys(family, sentences):
    ours, reference, subwords = both(family)

    assert_equal_vectors(ours, reference, subwords, sentences)


@every_family
def test_the_first_and_the_last_position_are_those_of_the_reference_library(family):
    ours, reference, subwords = both(family)
    n_positions = 66 if family in ("bert", "electra") else 64  # RoBERTa and MPNet leave out two

    sentences = [[[5 + word % 20] for word in range(n_positions - 3)], [[7]]]

    assert ours.settings.n_positions == n_positions
    assert inputs_for(subwords, sentences, n_positions).pieces.shape == (2, n_positions)
    assert_equal_vectors(ours, reference, subwords, sentences)


@pytest.mark.parametrize("n_words", [150, 400])
def test_mpnets_bias_is_the_reference_librarys_at_any_distance(n_words, tmp_path):
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


def test_embeddings_as_wide_as_the_layers_are_not_widened():
    shape = tiny_shape(30)

    assert TransformerEncoder(shape, RelationSettings(), n_labels=1).widen is None
    assert TransformerEncoder(replace(shape, embedding_width=8), RelationSettings(), n_labels=1).widen is not None
    assert both("electra")[0].settings.embedding_width == 8


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "gelu_pytorch_tanh", "relu"])
def test_activations_are_the_reference_librarys(activation, tmp_path):
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


# What folders look like


def assert_same_weights(found, expected):
    assert found.keys() == expected.keys()
    for name in expected:
        assert torch.equal(found[name], expected[name]), name


@pytest.mark.parametrize(
    ("family", "head"),
    [
        ("bert", "AutoModelForMaskedLM"),
        ("bert", "AutoModelForPreTraining"),
        ("bert", "AutoModelForTokenClassification"),
        ("roberta", "AutoModelForMaskedLM"),
        ("xlm-roberta", "AutoModelForMaskedLM"),
        ("electra", "AutoModelForMaskedLM"),  # the generator
        ("electra", "AutoModelForPreTraining"),  # the discriminator
        ("mpnet", "AutoModelForMaskedLM"),
    ],
)
def test_an_encoder_that_was_saved_with_a_task_head_is_loaded_without_it(family, head, tmp_path):
    reference = write_encoder(tmp_path / "plain", family)
    whole = getattr(transformers, head).from_config(reference.config)
    missing, _ = whole.base_model.load_state_dict(reference.state_dict(), strict=False)
    whole.save_pretrained(tmp_path / "whole")

    shape, weights = load_encoder(tmp_path / "whole")

    plain_shape, plain_weights = load_encoder(tmp_path / "plain")
    assert not missing
    assert any(name.startswith(f"{whole.base_model_prefix}.") for name in load_file(weights_in(tmp_path / "whole")))
    assert shape == plain_shape
    assert_same_weights(weights, plain_weights)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_weights_of_half_precision_are_read_as_single_precision(dtype, tmp_path):
    reference = write_encoder(tmp_path / "whole", "bert")
    _, whole = load_encoder(tmp_path / "whole")
    reference.to(dtype).save_pretrained(tmp_path / "half")

    _, half = load_encoder(tmp_path / "half")

    assert {each.dtype for each in half.values()} == {torch.float32}
    name = "layers.1.attention.query.weight"
    assert torch.equal(half[name], whole[name].to(dtype).float())
    torch.testing.assert_close(half["positions.weight"], whole["positions.weight"], atol=1e-2, rtol=1e-2)


def test_a_folder_in_several_shards_is_read_whole(tmp_path):
    reference = write_encoder(tmp_path / "one", "roberta")
    reference.save_pretrained(tmp_path / "many", max_shard_size="5KB")

    shape, weights = load_encoder(tmp_path / "many")

    assert len(list((tmp_path / "many").glob("model-*.safetensors"))) > 2
    assert not weights_in(tmp_path / "many").exists()
    expected_shape, expected = load_encoder(tmp_path / "one")
    assert shape == expected_shape
    assert_same_weights(weights, expected)


def test_the_settings_are_those_of_the_config_and_the_tables(tmp_path):
    write_encoder(tmp_path, "electra")
    write_config(
        tmp_path, hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.3, layer_norm_eps=1e-5, hidden_act="relu"
    )

    shape, _ = load_encoder(tmp_path)

    assert shape == TransformerSettings(
        family="electra",
        n_pieces=TOKENIZERS["electra"]().get_vocab_size(),
        n_positions=66,
        n_layers=2,
        width=16,
        n_attention_heads=2,
        inner_width=24,
        embedding_width=8,
        activation="relu",
        norm_eps=1e-5,
        n_buckets=0,
        dropout=0.2,
        attention_dropout=0.3,
    )


def test_the_norms_of_older_folders_are_called_gamma_and_beta(tmp_path):
    write_encoder(tmp_path, "bert")
    _, expected = load_encoder(tmp_path)
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): each
        for name, each in load_file(weights_in(tmp_path)).items()
    }
    old["embeddings.position_ids"] = torch.arange(66)[None]
    save_file(old, weights_in(tmp_path))

    _, weights = load_encoder(tmp_path)

    assert_same_weights(weights, expected)


def test_the_token_types_become_part_of_the_positions(tmp_path):
    reference = write_encoder(tmp_path, "bert")

    _, weights = load_encoder(tmp_path)

    embeddings = reference.embeddings
    expected = embeddings.position_embeddings.weight + embeddings.token_type_embeddings.weight[0]
    torch.testing.assert_close(weights["positions.weight"], expected.detach())
    assert "token_types.weight" not in weights


@pytest.mark.parametrize("pad_token_id", [0, 1, 4])
def test_the_positions_of_roberta_start_behind_that_of_the_padding(pad_token_id, tmp_path):
    reference = write_encoder(tmp_path, "roberta")
    write_config(tmp_path, pad_token_id=pad_token_id)

    shape, weights = load_encoder(tmp_path)

    assert shape.n_positions == 66 - pad_token_id - 1
    embeddings = reference.embeddings
    expected = embeddings.position_embeddings.weight[pad_token_id + 1] + embeddings.token_type_embeddings.weight[0]
    torch.testing.assert_close(weights["positions.weight"][0], expected.detach())


@pytest.mark.parametrize("pad_token_id", [None, "1"])
def test_a_roberta_whose_padding_is_no_number_is_refused(pad_token_id, tmp_path):
    write_encoder(tmp_path, "roberta")
    write_config(tmp_path, pad_token_id=pad_token_id)

    assert error_of(tmp_path) == (f"DIR/config.json: pad_token_id is {pad_token_id!r}; it must be a whole number.")


@pytest.mark.parametrize("family", ["bert", "electra"])
def test_the_positions_of_bert_and_electra_start_at_0_whatever_their_padding(family, tmp_path):
    write_encoder(tmp_path, family)
    write_config(tmp_path, pad_token_id=None)

    shape, _ = load_encoder(tmp_path)

    assert shape.n_positions == 66


def test_the_positions_of_mpnet_start_at_2_whatever_its_padding(tmp_path):
    reference = write_encoder(tmp_path, "mpnet")
    write_config(tmp_path, pad_token_id=0)

    _, weights = load_encoder(tmp_path)

    torch.testing.assert_close(weights["positions.weight"], reference.embeddings.position_embeddings.weight.data[2:])


# What is wrong with folders


def weights_in(folder):
    return folder / "model.safetensors"


def write_config(folder, **changes):
    (folder / "config.json").write_text(json.dumps(read_config(folder) | changes))


def change_weights(folder, change):
    weights = load_file(weights_in(folder))
    change(weights)
    save_file(weights, weights_in(folder))


def error_of(folder):
    """What loading and filling says, without the folder's name."""
    with pytest.raises(TreefineError) as caught:
        encoder_in(folder)
    return str(caught.value).replace(str(folder), "DIR")


@pytest.fixture(params=["bert", "mpnet"])
def folder(request, tmp_path):
    write_encoder(tmp_path, request.param)
    return tmp_path


def test_a_folder_without_config_is_refused(folder):
    (folder / "config.json").unlink()

    assert error_of(folder) == "DIR/config.json: There is no such file. Is this a model folder?"


def test_a_config_that_is_no_file_is_refused(folder):
    (folder / "config.json").unlink()
    (folder / "config.json").mkdir()

    assert error_of(folder) == "DIR/config.json: The file cannot be read (Is a directory)."


def test_a_damaged_config_is_refused_with_its_line(folder):
    (folder / "config.json").write_text('{\n "model_type": "bert",\n "hidden_si')

    assert error_of(folder) == "DIR/config.json:3: The file is damaged: it is no JSON. Copy or download it again."


@pytest.mark.parametrize("content", [b"\xff\xfe{}", b"", b'{"n": ' + b"9" * 5000 + b"}", b"[" * 100_000])
def test_a_config_of_other_bytes_is_refused(folder, content):
    (folder / "config.json").write_bytes(content)

    found = error_of(folder).replace("json:1:", "json:")

    assert found == "DIR/config.json: The file is damaged: it is no JSON. Copy or download it again."


def test_a_config_that_is_no_object_is_refused(folder):
    (folder / "config.json").write_text('["bert"]')

    assert error_of(folder) == "DIR/config.json: The file is damaged: it is no JSON object."


@pytest.mark.parametrize("kind", ["gpt2", None, ["bert"]])
def test_an_unknown_model_type_is_answered_with_the_known_ones(folder, kind):
    write_config(folder, model_type=kind)

    assert error_of(folder) == (
        f"DIR/config.json: model_type is {kind!r}, which is no encoder that can be used. "
        "Choose one of the kinds bert, roberta, xlm-roberta, camembert, electra, mpnet."
    )


@pytest.mark.parametrize("name", ["num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size"])
def test_a_config_that_lacks_a_number_is_refused(folder, name):
    config = read_config(folder)
    del config[name]
    (folder / "config.json").write_text(json.dumps(config))

    assert error_of(folder) == f"DIR/config.json: {name} is missing."


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"num_attention_heads": 3}, "a width of 16 cannot be shared by 3 attention heads"),
        ({"num_attention_heads": 0}, "a width of 16 cannot be shared by 0 attention heads"),
        ({"num_hidden_layers": "two"}, 'n_layers = "two"; it must be a whole number'),
        ({"hidden_dropout_prob": 1.5}, "dropout = 1.5; it must be below 1"),
        ({"layer_norm_eps": None}, "norm_eps = null; it must be a number"),
    ],
)
def test_a_config_with_a_number_that_cannot_be_is_refused(folder, changes, fault):
    write_config(folder, **changes)

    assert error_of(folder) == f"DIR/config.json: The settings have 1 fault: {fault}"


@pytest.mark.parametrize("kind", ["relative_key", "relative_key_query"])
def test_relative_positions_are_refused(folder, kind):
    write_config(folder, position_embedding_type=kind)

    assert error_of(folder) == (f"DIR/config.json: An encoder with position_embedding_type '{kind}' cannot be used.")


def test_an_unknown_activation_is_refused(folder):
    write_config(folder, hidden_act="silu")

    assert error_of(folder) == "DIR/config.json: An encoder with hidden_act 'silu' cannot be used."


def test_a_folder_without_weights_is_refused(folder):
    weights_in(folder).unlink()

    assert error_of(folder) == (
        "DIR/model.safetensors: There is no such file. Weights are read from safetensors alone."
    )


def test_a_folder_with_a_pickle_alone_is_refused(folder):
    weights_in(folder).rename(folder / "pytorch_model.bin")

    assert error_of(folder) == (
        "DIR/model.safetensors: There is no such file. Weights are read from safetensors alone, "
        "not from the pickle pytorch_model.bin: save the model in that format."
    )


@pytest.mark.parametrize(
    "damage", [lambda content: content[:-9], lambda content: b"", lambda content: b"\x80\x02" * 50]
)
def test_damaged_weights_are_refused(folder, damage):
    weights_in(folder).write_bytes(damage(weights_in(folder).read_bytes()))

    found = error_of(folder)

    assert found.startswith("DIR/model.safetensors: The file is damaged (")
    assert found.endswith("). Copy or download it again.")


def test_weights_that_are_no_file_are_refused(folder):
    weights_in(folder).unlink()
    weights_in(folder).mkdir()

    assert error_of(folder).startswith("DIR/model.safetensors: The file is damaged (")


def test_a_missing_shard_is_refused_by_name(folder):
    weights_in(folder).unlink()
    index = {"weight_map": {"embeddings.word_embeddings.weight": "model-00001-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))

    assert error_of(folder) == (
        "DIR/model-00001-of-00002.safetensors: There is no such file. Weights are read from safetensors alone."
    )


@pytest.mark.parametrize("weight_map", [None, [], {"a": 5}, {"a": None}, "model.safetensors"])
def test_an_index_that_names_no_shards_is_refused(folder, weight_map):
    weights_in(folder).unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))

    assert error_of(folder) == (
        "DIR/model.safetensors.index.json: The file is damaged: it names no files. Copy or download it again."
    )


def test_a_missing_weight_is_refused_by_name(folder):
    change_weights(folder, lambda weights: weights.pop("encoder.layer.1.output.dense.bias"))

    assert error_of(folder) == (
        "DIR: The weights do not fit the model; missing: layers.1.outer.bias. "
        "The weights do not belong to the config.json beside them."
    )


def test_the_names_of_many_missing_weights_are_cut_short(tmp_path):
    write_encoder(tmp_path, "bert")
    write_config(tmp_path, num_hidden_layers=3)

    assert error_of(tmp_path) == (
        "DIR: The weights do not fit the model; missing: layers.2.attention.key.bias, layers.2.attention.key.weight, "
        "layers.2.attention.output.bias, layers.2.attention.output.weight, layers.2.attention.query.bias and 11 more. "
        "The weights do not belong to the config.json beside them."
    )


def test_more_layers_than_the_config_names_are_refused(tmp_path):
    write_encoder(tmp_path, "bert")
    write_config(tmp_path, num_hidden_layers=1)

    assert "; surplus: layers.1.attention.key.bias, " in error_of(tmp_path)


@pytest.mark.parametrize(
    ("name", "ours"),
    [("embeddings.word_embeddings.weight", "pieces"), ("embeddings.position_embeddings.weight", "positions")],
)
def test_an_encoder_without_a_table_is_refused(folder, name, ours):
    change_weights(folder, lambda weights: weights.pop(name))

    assert error_of(folder) == f"DIR: The encoder has no weights for its {ours}."


def test_weights_of_another_family_are_refused(folder):
    other = "mpnet" if read_config(folder)["model_type"] == "bert" else "bert"
    write_config(folder, model_type=other)

    assert error_of(folder).startswith("DIR: The encoder has weights of no known use: encoder.layer.0.attention.")
    assert error_of(folder).endswith(" Its layers are not those of the family that its config.json names.")


def test_a_weight_of_unknown_use_is_refused_by_name(folder):
    change_weights(folder, lambda weights: weights.update({"encoder.layer.0.adapter.weight": torch.zeros(2)}))

    assert error_of(folder) == (
        "DIR: The encoder has weights of no known use: encoder.layer.0.adapter.weight. "
        "Its layers are not those of the family that its config.json names."
    )


def test_a_weight_of_another_shape_is_refused_with_both(folder):
    name = "encoder.layer.0.intermediate.dense.weight"
    change_weights(folder, lambda weights: weights.update({name: torch.zeros(25, 16)}))

    assert error_of(folder) == (
        "DIR: The weights do not fit the model; layers.0.inner.weight is 25 × 16 instead of 24 × 16. "
        "The weights do not belong to the config.json beside them."
    )


@pytest.mark.parametrize("shape", [(), (5,), (66, 15), (2, 3, 16)])
@pytest.mark.parametrize("name", ["word_embeddings", "position_embeddings", "token_type_embeddings"])
def test_a_table_of_another_shape_is_refused(name, shape, tmp_path):
    write_encoder(tmp_path, "bert")
    change_weights(tmp_path, lambda weights: weights.update({f"embeddings.{name}.weight": torch.zeros(shape)}))

    found = error_of(tmp_path)

    assert found.startswith("DIR: The encoder's tables do not fit each other; pieces.weight is ")
    assert f".weight is {' × '.join(map(str, shape)) or 'a number'}" in found


def test_what_is_filled_may_have_a_root_tags_and_relations_of_its_own(tmp_path):
    write_encoder(tmp_path, "bert")
    shape, weights = load_encoder(tmp_path)
    encoder = TransformerEncoder(shape, RelationSettings(), n_labels=3, n_tags=(4,))
    before = {name: each.clone() for name, each in encoder.state_dict().items()}

    fill(encoder, weights, path="")

    own = {name for name, each in encoder.state_dict().items() if torch.equal(each, before[name])}
    assert own == before.keys() - weights.keys()
    assert all(name == "root" or name.startswith("tags.") or ".relations." in name for name in own)


def test_heads_for_other_tasks_are_left_out_where_there_is_no_prefix():
    pieces, positions = torch.zeros(3, 2), torch.zeros(4, 2)
    weights = {
        "embeddings.word_embeddings.weight": pieces,
        "embeddings.position_embeddings.weight": positions,
        "cls.predictions.bias": torch.zeros(3),
        "pooler.dense.weight": torch.zeros(2, 2),
    }

    assert translate(weights, "bert").keys() == {"pieces.weight", "positions.weight"}


# Tags and specials


def test_tag_0_has_the_zero_vector_and_the_others_vectors_of_their_own():
    table = TagEmbedding(3, 4)

    vectors = table(torch.tensor([[0, 1], [2, 3]]))

    assert not vectors[0, 0].any()
    assert torch.equal(vectors.flatten(0, 1)[1:], table.weight)


def test_a_treebank_without_tags_has_the_zero_vector_for_every_word():
    assert not TagEmbedding(0, 4)(torch.zeros(2, 3, dtype=torch.int64)).any()


@torch.no_grad()
def test_every_piece_of_a_word_has_the_vector_of_its_tag_and_specials_have_none():
    ours, _, subwords = both("bert")
    inputs = inputs_for(subwords, [[[7, 8], [9]], [[10]]], 66)
    tags = torch.tensor([[[3], [2], [3]], [[3], [1], [0]]])  # a tagger says something of ROOT, too
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


@torch.no_grad()
def test_half_of_the_embedded_values_are_dropped_at_a_rate_of_a_half():
    torch.manual_seed(1)
    encoder = encoder_that_drops(dropout=0.5)

    found = embedded(encoder, inputs_of([[[7]] * 100]))

    assert (found == 0).float().mean().item() == pytest.approx(0.5, abs=0.05)


@torch.no_grad()
def test_a_layer_drops_out_what_it_adds_after_attention_and_after_the_feed_forward_network():
    layer = encoder_that_drops(dropout=0.5).layers[0]
    x, attend = torch.randn(2, 5, 16), PaddedAttention(torch.zeros(2, 1, 1, 5), None)

    torch.manual_seed(1)
    found = layer(x, attend)

    torch.manual_seed(1)
    inside = layer.attention_norm(x + F.dropout(layer.attention(x, attend), 0.5))
    expected = layer.outer_norm(inside + F.dropout(layer.outer(F.gelu(layer.inner(inside))), 0.5))
    torch.testing.assert_close(found, expected)
