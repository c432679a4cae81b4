"""Load pretrained encoders from folders of the reference library, and report faulty ones."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.support.generated_inputs import LABELS
from tests.support.messages import assert_message
from tests.support.tiny import read_config, write_encoder
from treefine.config import RelationSettings
from treefine.errors import TreefineError
from treefine.model.encoder import TransformerEncoder
from treefine.model.hf_weights import fill, load_encoder, translate

transformers = pytest.importorskip("transformers")


def weights_in(folder):
    return folder / "model.safetensors"


def write_config(folder, **changes):
    (folder / "config.json").write_text(json.dumps(read_config(folder) | changes))


# Layouts of folders


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
def test_an_encoder_saved_with_a_task_head_is_loaded_without_it(family, head, tmp_path):
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
def test_half_precision_weights_are_read_as_float32(dtype, tmp_path):
    reference = write_encoder(tmp_path / "whole", "bert")
    _, whole = load_encoder(tmp_path / "whole")
    reference.to(dtype).save_pretrained(tmp_path / "half")

    _, half = load_encoder(tmp_path / "half")

    assert {each.dtype for each in half.values()} == {torch.float32}
    name = "layers.1.attention.query.weight"
    assert torch.equal(half[name], whole[name].to(dtype).float())
    torch.testing.assert_close(half["positions.weight"], whole["positions.weight"], atol=1e-2, rtol=1e-2)


def test_all_shards_of_a_folder_are_read(tmp_path):
    reference = write_encoder(tmp_path / "one", "roberta")
    reference.save_pretrained(tmp_path / "many", max_shard_size="5KB")

    shape, weights = load_encoder(tmp_path / "many")

    assert len(list((tmp_path / "many").glob("model-*.safetensors"))) > 2
    assert not weights_in(tmp_path / "many").exists()
    expected_shape, expected = load_encoder(tmp_path / "one")
    assert shape == expected_shape
    assert_same_weights(weights, expected)


def test_older_folders_name_their_norms_gamma_and_beta(tmp_path):
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
def test_the_positions_of_roberta_start_after_the_padding_id(pad_token_id, tmp_path):
    reference = write_encoder(tmp_path, "roberta")
    write_config(tmp_path, pad_token_id=pad_token_id)

    shape, weights = load_encoder(tmp_path)

    assert shape.n_positions == 66 - pad_token_id - 1
    embeddings = reference.embeddings
    expected = embeddings.position_embeddings.weight[pad_token_id + 1] + embeddings.token_type_embeddings.weight[0]
    torch.testing.assert_close(weights["positions.weight"][0], expected.detach())


# Faulty folders

NO_FILE = "There is no such file. Weights are read from safetensors files."
NO_WEIGHTS = "There is no such file. The weights of an encoder are read from model.safetensors or pytorch_model.bin."
NO_TENSORS = "The file is damaged, or it contains more than weights."
NO_JSON = "The file is damaged: it is not JSON. Copy or download it again."
NO_NAMES = "DIR/model.safetensors.index.json: The file is damaged: it lists no files. Copy or download it again."
UNFIT = "DIR: The weights do not fit the model; "
NOT_ITS_CONFIG = " The weights do not belong to the config.json in this folder."
UNKNOWN_USE = "DIR: The encoder has unknown weights: encoder.layer.0."
NOT_ITS_FAMILY = " Its layers do not match the model_type in its config.json."
KINDS = "Choose an encoder of type bert, roberta, xlm-roberta, camembert, electra, mpnet."


def load_and_fill(folder):
    shape, weights = load_encoder(folder)
    fill(TransformerEncoder(shape, RelationSettings(), n_labels=len(LABELS)), weights, path=str(folder))


def error_of(folder):
    """Return the error of loading and filling, without the folder's name."""
    with pytest.raises(TreefineError) as caught:
        load_and_fill(folder)
    return str(caught.value).replace(str(folder), "DIR")


def config_of(content):
    return lambda folder: (folder / "config.json").write_bytes(content)


def config_with(**changes):
    return lambda folder: write_config(folder, **changes)


def config_without(name):
    def change(folder):
        config = read_config(folder)
        del config[name]
        (folder / "config.json").write_text(json.dumps(config))

    return change


def a_folder_named(name):
    """Put a folder where a file should be."""

    def change(folder):
        (folder / name).unlink()
        (folder / name).mkdir()

    return change


def index_of(weight_map):
    def change(folder):
        weights_in(folder).unlink()
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))

    return change


def weights_of(damage):
    """Change the bytes of the weight file."""
    return lambda folder: weights_in(folder).write_bytes(damage(weights_in(folder).read_bytes()))


def weights_with(**changes):
    """Change some weights by name, with double underscores for dots; None removes one."""

    def change(folder):
        new = {name.replace("__", "."): weight for name, weight in changes.items()}
        weights = load_file(weights_in(folder)) | new
        save_file({name: each for name, each in weights.items() if each is not None}, weights_in(folder))

    return change


def other_family(folder):
    write_config(folder, model_type="mpnet" if read_config(folder)["model_type"] == "bert" else "bert")


FAULTS = [
    (
        lambda folder: (folder / "config.json").unlink(),
        "DIR/config.json: There is no such file. Is this a model folder?",
    ),
    (a_folder_named("config.json"), "DIR/config.json: The file cannot be read (Is a directory)."),
    (config_of(b'{\n "model_type": "bert",\n "hidden_si'), f"DIR/config.json:3: {NO_JSON}"),
    (config_of(b""), f"DIR/config.json:1: {NO_JSON}"),
    (config_of(b'["bert"]'), "DIR/config.json: The file is damaged: it is not a JSON object."),
    *[
        (config_of(content), f"DIR/config.json: {NO_JSON}")
        for content in (b"\xff\xfe{}", b'{"n": ' + b"9" * 5000 + b"}", b"[" * 100_000)
    ],
    *[
        (
            config_with(model_type=kind),
            f"DIR/config.json: Encoders with model_type {kind!r} are not supported. {KINDS}",
        )
        for kind in ("gpt2", None, ["bert"])
    ],
    *[
        (config_without(name), f"DIR/config.json: {name} is missing.")
        for name in ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size")
    ],
    *[
        (config_with(**changes), f"DIR/config.json: The settings have 1 fault: {fault}")
        for changes, fault in [
            ({"num_attention_heads": 3}, "width = 16; it must be a multiple of n_attention_heads = 3"),
            ({"num_attention_heads": 0}, "width = 16; it must be a multiple of n_attention_heads = 0"),
            ({"num_hidden_layers": "two"}, 'n_layers = "two"; it must be a whole number'),
            ({"hidden_dropout_prob": 1.5}, "dropout = 1.5; it must be below 1"),
            ({"layer_norm_eps": None}, "norm_eps = null; it must be a number"),
        ]
    ],
    *[
        (config_with(**{name: kind}), f"DIR/config.json: Encoders with {name} '{kind}' are not supported.")
        for name, kind in [
            ("position_embedding_type", "relative_key"),
            ("position_embedding_type", "relative_key_query"),
            ("hidden_act", "silu"),
        ]
    ],
    (lambda folder: weights_in(folder).unlink(), f"DIR/model.safetensors: {NO_WEIGHTS}"),
    (
        lambda folder: weights_in(folder).rename(folder / "pytorch_model.bin"),
        f"DIR/pytorch_model.bin: {NO_TENSORS} Download it again, or save the encoder as model.safetensors.",
    ),
    *[
        (weights_of(damage), "DIR/model.safetensors: The file is damaged (…). Copy or download it again.")
        for damage in (lambda content: content[:-9], lambda content: b"", lambda content: b"\x80\x02" * 50)
    ],
    (a_folder_named("model.safetensors"), "DIR/model.safetensors: The file is damaged (…"),
    (index_of({"a": "model-00001-of-00002.safetensors"}), f"DIR/model-00001-of-00002.safetensors: {NO_FILE}"),
    *[(index_of(names), NO_NAMES) for names in (None, [], {"a": 5}, {"a": None}, "model.safetensors")],
    (
        weights_with(encoder__layer__1__output__dense__bias=None),
        f"{UNFIT}missing: layers.1.outer.bias.{NOT_ITS_CONFIG}",
    ),
    (
        weights_with(encoder__layer__0__intermediate__dense__weight=torch.zeros(25, 16)),
        f"{UNFIT}layers.0.inner.weight is 25 × 16 instead of 24 × 16.{NOT_ITS_CONFIG}",
    ),
    *[
        (
            weights_with(**{f"embeddings__{name}_embeddings__weight": None}),
            f"DIR: The encoder has no weights for its {ours}.",
        )
        for name, ours in (("word", "pieces"), ("position", "positions"))
    ],
    (other_family, f"{UNKNOWN_USE}attention.…{NOT_ITS_FAMILY}"),
    (
        weights_with(encoder__layer__0__adapter__weight=torch.zeros(2)),
        f"{UNKNOWN_USE}adapter.weight.{NOT_ITS_FAMILY}",
    ),
]


@pytest.mark.parametrize(("change", "message"), FAULTS, ids=[message[:60] for _, message in FAULTS])
@pytest.mark.parametrize("family", ["bert", "mpnet"])
def test_a_faulty_folder_is_an_error_that_names_the_file_and_the_fault(family, change, message, tmp_path):
    write_encoder(tmp_path, family)
    change(tmp_path)

    assert_message(error_of(tmp_path), message)


@pytest.mark.parametrize(
    ("family", "changes", "message"),
    [
        (
            "bert",
            {"num_hidden_layers": 3},
            f"{UNFIT}missing: layers.2.attention.key.bias, layers.2.attention.key.weight, "
            "layers.2.attention.output.bias, layers.2.attention.output.weight, "
            f"layers.2.attention.query.bias and 11 more.{NOT_ITS_CONFIG}",
        ),
        ("bert", {"num_hidden_layers": 1}, f"{UNFIT}surplus: layers.1.attention.key.bias, …"),
        ("roberta", {"pad_token_id": None}, "DIR/config.json: pad_token_id must be a whole number, not None."),
        ("roberta", {"pad_token_id": "1"}, "DIR/config.json: pad_token_id must be a whole number, not '1'."),
    ],
)
def test_a_config_that_does_not_fit_the_weights_is_an_error(family, changes, message, tmp_path):
    write_encoder(tmp_path, family)
    write_config(tmp_path, **changes)

    assert_message(error_of(tmp_path), message)


def test_a_module_may_have_additional_parameters_for_root_tags_and_relations(tmp_path):
    write_encoder(tmp_path, "bert")
    shape, weights = load_encoder(tmp_path)
    encoder = TransformerEncoder(shape, RelationSettings(), n_labels=3, n_tags=(4,))
    before = {name: each.clone() for name, each in encoder.state_dict().items()}

    fill(encoder, weights, path="")

    own = {name for name, each in encoder.state_dict().items() if torch.equal(each, before[name])}
    assert own == before.keys() - weights.keys()
    assert all(name == "root" or name.startswith("tags.") or ".relations." in name for name in own)


def test_task_heads_are_left_out_if_names_have_no_prefix():
    pieces, positions = torch.zeros(3, 2), torch.zeros(4, 2)
    weights = {
        "embeddings.word_embeddings.weight": pieces,
        "embeddings.position_embeddings.weight": positions,
        "cls.predictions.bias": torch.zeros(3),
        "pooler.dense.weight": torch.zeros(2, 2),
    }

    assert translate(weights, "bert").keys() == {"pieces.weight", "positions.weight"}
