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
from treefine.model.hf_weights import fill, load_encoder

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


# Faulty folders

NO_FILE = "There is no such file. Weights are read from safetensors files."
NO_TENSORS = "The file is damaged, or it contains more than weights."
NO_JSON = "The file is damaged: it is not a JSON object. Copy or download it again."
UNFIT = "DIR: The weights do not fit the model: "
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


CONFIG, SAFE = "DIR/config.json", "DIR/model.safetensors"
FAULTS = [
    (lambda folder: (folder / "config.json").unlink(), f"{CONFIG}: There is no such file. Is this a model folder?"),
    (a_folder_named("config.json"), f"{CONFIG}: The file cannot be read (Is a directory)."),
    (config_of(b'{\n "model_type": "bert",\n "hidden_si'), f"{CONFIG}:3: {NO_JSON}"),
    (config_of(b'["bert"]'), f"{CONFIG}: The file is damaged: it is not a JSON object. Copy or download it again."),
    (config_of(b"\xff\xfe{}"), f"{CONFIG}: {NO_JSON}"),
    (config_of(b"[" * 100_000), f"{CONFIG}: {NO_JSON}"),
    (config_with(model_type=["bert"]), f"{CONFIG}: Encoders with model_type ['bert'] are not supported. {KINDS}"),
    (config_without("hidden_size"), f"{CONFIG}: hidden_size is missing."),
    (config_with(num_attention_heads=3), f"{CONFIG}: The settings have 1 fault: width = 16; it must be a multiple …"),
    (config_with(hidden_act="silu"), f"{CONFIG}: Encoders with hidden_act 'silu' are not supported."),
    (
        config_with(position_embedding_type="relative_key"),
        f"{CONFIG}: Encoders with position_embedding_type 'relative_key' are not supported.",
    ),
    (lambda folder: weights_in(folder).unlink(), f"{SAFE}: {NO_FILE}"),
    (
        lambda folder: weights_in(folder).rename(folder / "pytorch_model.bin"),
        f"DIR/pytorch_model.bin: {NO_TENSORS} Download it again, or save the encoder as model.safetensors.",
    ),
    (weights_of(lambda content: content[:-9]), f"{SAFE}: The file is damaged (…). Copy or download it again."),
    (weights_of(lambda content: b""), f"{SAFE}: The file is damaged (…). Copy or download it again."),
    (
        weights_with(encoder__layer__1__output__dense__bias=None),
        f"{UNFIT}layers.1.outer.bias is missing instead of 16.{NOT_ITS_CONFIG}",
    ),
    (
        weights_with(encoder__layer__0__intermediate__dense__weight=torch.zeros(25, 16)),
        f"{UNFIT}layers.0.inner.weight is 25 × 16 instead of 24 × 16.{NOT_ITS_CONFIG}",
    ),
    (weights_with(embeddings__word_embeddings__weight=None), "DIR: The encoder has no weights for its pieces."),
    (config_with(model_type="mpnet"), f"{UNKNOWN_USE}attention.…{NOT_ITS_FAMILY}"),
    (weights_with(encoder__layer__0__adapter__weight=torch.zeros(2)), f"{UNKNOWN_USE}adapter.weight.{NOT_ITS_FAMILY}"),
]


@pytest.mark.parametrize(("change", "message"), FAULTS, ids=[message[:60] for _, message in FAULTS])
def test_a_faulty_folder_is_an_error_that_names_the_file_and_the_fault(change, message, tmp_path):
    write_encoder(tmp_path, "bert")
    change(tmp_path)

    assert_message(error_of(tmp_path), message)


@pytest.mark.parametrize(
    ("family", "changes", "message"),
    [
        (
            "bert",
            {"num_hidden_layers": 3},
            f"{UNFIT}layers.2.attention.key.bias is missing instead of 16, … and 11 more.{NOT_ITS_CONFIG}",
        ),
        ("bert", {"num_hidden_layers": 1}, f"{UNFIT}layers.1.attention.key.bias is 16 instead of no weight, …"),
        ("roberta", {"pad_token_id": None}, "DIR/config.json: pad_token_id must be a whole number, not None."),
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
