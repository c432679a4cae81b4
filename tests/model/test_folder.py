"""Model folders: saving, moving and loading them, and errors in damaged ones."""

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from tests.support.messages import assert_message
from tests.support.tiny import ALL_TAGS, sample, tiny_model, tiny_syntr
from treefine.config import DecodeSettings, RelationSettings, TagSettings
from treefine.errors import ModelError, TreefineError
from treefine.model import folder as pretrained
from treefine.model.folder import restored, rounded
from treefine.parsing.parser import Parser

KINDS = {
    "rngtr": lambda: tiny_model(),
    "syntr": lambda: tiny_model(relations=RelationSettings(graph="none"), tags=TagSettings("none")),
    "tagger": lambda: tiny_model(tags=TagSettings("predicted", ("upos", "xpos"))),
    "unlabelled": lambda: tiny_model(relations=RelationSettings("unlabelled", key_norm=False, none="zero")),
    "released": lambda: tiny_model(decode=DecodeSettings("root", "none", "tree", "probabilities")),
    "mpnet": lambda: tiny_model(family="mpnet"),
    "stages": lambda: tiny_model(
        n_layers=3,
        stages=(1, 2, 3),
        relations=RelationSettings(first_layer=1),
        tags=TagSettings("predicted", ("upos",)),
    ),
    "all tags": lambda: tiny_model(tags=ALL_TAGS, sentence_layers=1),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Save a model in the working folder."""
    monkeypatch.chdir(tmp_path)
    Parser(tiny_model(), device="cpu").save("model")
    return Path("model")


def load_error(folder="model"):
    with pytest.raises(TreefineError) as error:
        Parser.from_pretrained(folder, device="cpu")
    return str(error.value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_moved_folder_gives_the_same_trees(kind, tmp_path):
    parser = Parser(KINDS[kind](), device="cpu")
    parser.save(tmp_path / "here" / "model")
    shutil.move(tmp_path / "here", tmp_path / "there")

    loaded = Parser.from_pretrained(tmp_path / "there" / "model", device="cpu")

    assert loaded.model.settings == parser.model.settings
    assert loaded.model.vocabulary == parser.model.vocabulary
    ours, theirs = loaded.parse(sample(10)), parser.parse(sample(10))
    assert [each.sentence for each in ours] == [each.sentence for each in theirs]
    assert [each.confidence for each in ours] == pytest.approx([each.confidence for each in theirs], abs=1e-4)


@pytest.mark.parametrize(
    ("dtype", "dtypes", "within"),
    [(torch.float16, {torch.float16}, 1e-3), (torch.int8, {torch.int8, torch.float16, torch.float32}, 1e-2)],
    ids=["float16", "int8"],
)
def test_fewer_bits_make_the_files_smaller_and_hardly_change_the_weights(tmp_path, dtype, dtypes, within):
    parser = Parser(tiny_model(), device="cpu")
    parser.save(tmp_path / "whole")

    parser.save(tmp_path / "rounded", dtype=dtype)

    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("rounded", "whole")]
    assert sizes[0] < 0.6 * sizes[1]  # int8 takes a quarter if rows are longer than in this model
    loaded = Parser.from_pretrained(tmp_path / "rounded", device="cpu").model.state_dict()
    for name, weight in parser.model.state_dict().items():
        assert loaded[name].dtype == torch.float32
        torch.testing.assert_close(loaded[name], weight, rtol=within, atol=within)
    weights = load_file(tmp_path / "rounded" / "model.safetensors").values()
    assert {each.dtype for each in weights} == dtypes


def test_an_int8_weight_without_its_scale_is_an_error_that_names_it(tmp_path):
    Parser(tiny_model(), device="cpu").save(tmp_path / "model", dtype=torch.int8)
    path = tmp_path / "model" / "model.safetensors"
    weights = load_file(path)
    name = next(each for each in weights if each.endswith(".scale"))
    save_file({each: weight for each, weight in weights.items() if each != name}, path)

    with pytest.raises(ModelError, match=rf"{name.removesuffix('.scale')} has numbers that are not finite"):
        Parser.from_pretrained(tmp_path / "model", device="cpu")


def test_weights_must_be_finite_in_the_saved_dtype(tmp_path):
    parser = Parser(tiny_model(), device="cpu")
    parser.model.encoder.root.data[3] = 1e6

    with pytest.raises(ModelError, match="The weight encoder.root has a value that is not finite in torch.float16"):
        parser.save(tmp_path / "model", dtype=torch.float16)

    assert not list(tmp_path.iterdir())


def test_an_initial_parser_is_saved_inside_the_folder(tmp_path):
    parser = Parser(tiny_model(), initial=Parser(tiny_syntr(), device="cpu"), device="cpu")
    parser.save(tmp_path / "model")
    parser.save(tmp_path / "half", dtype=torch.float16)

    loaded = Parser.from_pretrained(tmp_path / "model", device="cpu")

    halves = load_file(tmp_path / "half" / "initial" / "model.safetensors")
    assert {each.dtype for each in halves.values()} == {torch.float16}
    assert isinstance(loaded.initial, Parser)
    assert loaded.max_steps == 3
    assert loaded.parse(sample(5)) == parser.parse(sample(5))
    alone = Parser.from_pretrained(tmp_path / "model", initial="empty", device="cpu")
    assert alone.max_steps == 4
    assert alone.parse(sample(5)) == Parser(tiny_model(), device="cpu").parse(sample(5))


def test_a_saved_model_replaces_an_older_one(folder):
    Parser(tiny_syntr(), device="cpu").save(folder)

    assert not Parser.from_pretrained(folder, device="cpu").model.settings.reads_graph
    assert [path.name for path in Path.cwd().iterdir()] == ["model"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("config.json", '{"name": "app"}', "The folder contains files that do not belong to a model. Choose another"),
        ("config.json", "torn", "The file is damaged: it is not a JSON object."),
        ("notes.txt", "mine", "The folder contains files that do not belong to a model. Choose another folder."),
    ],
)
def test_a_folder_with_other_files_is_not_replaced(folder, name, text, message):
    (folder / name).write_text(text)
    before = {path: path.read_bytes() for path in folder.iterdir()}

    with pytest.raises(ModelError, match=message):
        Parser(tiny_syntr(), device="cpu").save(folder)

    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_saving_to_a_link_replaces_the_folder_it_points_to(folder):
    Path("link").symlink_to("model")

    Parser(tiny_syntr(), device="cpu").save("link")

    assert Path("link").is_symlink()
    assert not Parser.from_pretrained("model", device="cpu").model.settings.reads_graph


def test_a_failed_save_keeps_the_older_model(folder, monkeypatch):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    monkeypatch.setattr(pretrained, "model_card", lambda *_, **__: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        Parser(tiny_syntr(), device="cpu").save(folder)

    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert [path.name for path in Path.cwd().iterdir()] == ["model"]


NO_NUMBERS = "The weights do not fit the model: encoder.root has numbers that are not finite. The file is damaged."


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda weights: weights.pop("scorer.arc_weight"),
            "The weights do not fit the model: scorer.arc_weight is missing instead of 13 × 12. "
            "The weights do not belong to the config.json in this folder.",
        ),
        (
            lambda weights: weights.update(extra=torch.zeros(1)),
            "The weights do not fit the model: extra is 1 instead of no weight.…",
        ),
        (
            lambda weights: weights.update({"scorer.arc_weight": torch.zeros(3, 2)}),
            "The weights do not fit the model: scorer.arc_weight is 3 × 2 instead of 13 × 12.…",
        ),
        (lambda weights: weights["encoder.root"].__setitem__(2, torch.nan), NO_NUMBERS),
        (lambda weights: weights.update({"encoder.root": weights["encoder.root"].to(torch.int64)}), NO_NUMBERS),
    ],
)
def test_weights_that_do_not_fit_are_an_error_that_names_them(folder, change, message):
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors")

    assert_message(load_error(), f"model/model.safetensors: {message}")


@pytest.mark.parametrize("name", ["config.json", "vocabulary.json", "model.safetensors", "tokenizer.json"])
@pytest.mark.parametrize("damage", ["cut", "empty", "binary", "list"])
def test_a_damaged_file_is_named(folder, name, damage):
    whole = (folder / name).read_bytes()
    damaged = {"cut": whole[: len(whole) // 2], "empty": b"", "binary": bytes(range(256)), "list": b"[1, 2]"}
    (folder / name).write_bytes(damaged[damage])

    message = load_error()

    assert message.startswith(f"model/{name}:")
    assert "\n" not in message


def change_json(path, **values):
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        (
            "config.json",
            {"relations": {"graf": "labelled", "key_norm": "yes"}, "speed": 3},
            "model/config.json: The settings have 3 faults: speed is unknown; [relations] graf is unknown; did you "
            'mean graph?; [relations] key_norm = "yes"; it must be true or false',
        ),
        (
            "config.json",
            {"decode": {"root_label": "nope"}},
            "The root label 'nope' is not one of the model's labels. Choose one of them, or set…",
        ),
        (
            "config.json",
            {"format": 2, "treefine": "9.0"},
            "model/config.json: The folder has format 2, not 1. It was saved by treefine 9.0;…",
        ),
        (
            "vocabulary.json",
            {"labels": ["root", "root"]},
            "model/vocabulary.json: The vocabulary is damaged: a name occurs twice in labels.",
        ),
    ],
)
def test_invalid_settings_and_names_are_errors(folder, name, changes, message):
    change_json(folder / name, **changes)

    assert_message(load_error(), message)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"n_layers": 10**6}, "n_layers = 1000000; it must be at most 1000"),
        ({"width": 0}, "width = 0; it must be at least 1"),
        ({"n_pieces": 2**70}, "it must be at most 10,000,000"),
        ({"inner_width": 10**7}, "inner.bias is 24 instead of 10000000"),
        ({"n_pieces": 10}, "model: The tokenizer has 205 pieces, but the model has 10."),
    ],
)
def test_impossible_sizes_are_errors_before_memory_is_allocated(folder, change, fault):
    config = json.loads((folder / "config.json").read_text())
    change_json(folder / "config.json", encoder=config["encoder"] | change)

    assert fault in load_error()


@pytest.mark.parametrize("name", ["./nowhere", "/nowhere/at/all", "a/b/c", ""])
def test_a_missing_path_is_an_error_without_asking_the_hub(name, monkeypatch):
    monkeypatch.setattr(socket, "socket", None)

    assert "There is no such model folder." in load_error(name)


def test_an_unreachable_hub_is_a_one_line_error(tmp_path):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
    environment = os.environ | {"HF_ENDPOINT": address, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0"}
    command = [sys.executable, "-m", "treefine", "parse", "--model", "some/model", "-"]

    done = subprocess.run(command, env=environment, capture_output=True, text=True, input="x\n")

    assert done.returncode == 1
    assert done.stderr.startswith("treefine: There is no folder 'some/model' here, and the hub cannot be reached")
    assert done.stderr.endswith("Give the path of a folder, or try again with a network connection.\n")
    assert done.stderr.count("\n") == 1


def test_a_model_is_pushed_to_the_hub_as_a_folder(monkeypatch, tmp_path):
    import huggingface_hub

    class Api:
        def create_repo(self, name, *, private, exist_ok):
            assert (name, private, exist_ok) == ("owner/model", True, True)
            return "https://hub/owner/model"

        def upload_folder(self, *, repo_id, folder_path, commit_message):
            shutil.copytree(folder_path, tmp_path / "uploaded")

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    parser = Parser(tiny_model(), initial=Parser(tiny_syntr(), device="cpu"), device="cpu")

    address = parser.push_to_hub("owner/model", private=True)

    assert address == "https://hub/owner/model"
    assert Parser.from_pretrained(tmp_path / "uploaded", device="cpu").parse(sample(3)) == parser.parse(sample(3))


# Weights stored as int8, and modules without memory


@given(st.integers(0, 2**31), st.floats(1e-6, 1e3), st.sampled_from([(5, 32), (3, 40), (2, 3, 33)]))
def test_int8_rounds_each_number_by_at_most_half_a_step(seed, size, shape):
    weight = size * torch.randn(shape, generator=torch.Generator().manual_seed(seed))

    stored = rounded({"w": weight})
    back = restored(stored)["w"]

    assert stored["w"].dtype == torch.int8
    step = weight.abs().amax(-1, keepdim=True) / 127
    assert ((back - weight).abs() <= step * 0.5001).all()
