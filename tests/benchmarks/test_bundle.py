"""A bundled model is small and described, and describing it again does not change its weights."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from benchmarks.accuracy.model_rows import MEASURES
from benchmarks.pages import bundle
from benchmarks.pages.bundle import measure_bundle
from benchmarks.rows import read_rows, save_row, weights_checksum
from tests.support.tiny import tiny_model
from tests.support.tiny_segmenter import tiny_segmenter
from treefine import Parser, TreefineError
from treefine.config import ConfidenceSettings, TagSettings
from treefine.model.bundled import about
from treefine.training.new_recipe import recipe_toml
from treefine.training.recipe import read_recipe


def notes(*changes):
    return f"## Training\n\nTrained by hand.\n\n```toml\n{recipe_toml(read_recipe('en', changes))}```"


@pytest.fixture
def trained(tmp_path):
    """Return the folder of a training, with its model."""
    model = tiny_model(tags=TagSettings("predicted", ("upos", "xpos")))
    parser = Parser(model, device="cpu", segmenter=tiny_segmenter())
    parser.save(tmp_path / "run" / "model", notes=notes())
    return tmp_path / "run"


def run(place, *arguments):
    options = ["--name", "en", "--models", place / "models", "--rows", place / "rows.jsonl"]
    measure_bundle([str(each) for each in (*arguments, *options)])
    return place / "models" / "en"


def score(place, folder, split, *, las=0.9123):
    """Write a row as the pipeline does."""
    names = ("Tokens", "Sentences", "Words", "UPOS", "XPOS", "UAS", "LAS", "CLAS", "UEM", "LEM")
    result = {kind: {**dict.fromkeys(names, las), "LAS_by_step": [None, las, las]} for kind in MEASURES}
    config = {"model": "en", "weights": weights_checksum(folder), "treebank": "en_ewt", "split": split, "T": 2}
    save_row("pipeline", config, result, path=place / "rows.jsonl")


def test_the_bundled_model_parses_text_as_the_trained_one_does_in_eight_bits(trained, tmp_path):
    folder = run(tmp_path, trained)

    Parser.from_pretrained(trained / "model", device="cpu").save(tmp_path / "small", dtype=torch.int8)
    text = "Dogs bark. Cats do not."
    parses = [Parser.from_pretrained(each, device="cpu")(text) for each in (folder, tmp_path / "small")]
    assert [[each.to_conllu() for each in found] for found in parses][0] == [each.to_conllu() for each in parses[1]]
    for name in ("model.safetensors", "segmenter/segmenter.safetensors"):
        assert torch.int8 in {each.dtype for each in load_file(folder / name).values()}


def test_it_is_described_and_has_no_scores_before_the_test(trained, tmp_path):
    folder = run(tmp_path, trained)
    score(tmp_path, folder, "dev")
    run(tmp_path)

    known = about(folder)
    assert (known.language, known.treebank) == ("English", "UD English EWT 2.16")
    assert (known.licence, known.encoder) == ("CC BY-SA 4.0", "thenlper/gte-small")
    assert known.scores == {}


def test_scores_come_from_the_rows_of_its_weights_and_do_not_change_the_weights(trained, tmp_path):
    folder = run(tmp_path, trained)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.suffix in (".safetensors", ".json")}
    assert "91.23" not in (folder / "README.md").read_text()

    score(tmp_path, folder, "dev", las=0.8888)
    score(tmp_path, folder, "test")
    run(tmp_path)

    assert about(folder).scores["LAS"] == 91.23
    assert about(folder).scores["LAS (gold words and tags)"] == 91.23
    card = (folder / "README.md").read_text()
    assert "| test | raw text | 91.23 |" in card
    assert "| dev | raw text | 88.88 |" in card
    changed = {path.name for path, content in before.items() if path.read_bytes() != content}
    assert changed == {"about.json"}


def test_rows_of_other_weights_are_ignored(trained, tmp_path):
    folder = run(tmp_path, trained)
    score(tmp_path, trained / "model", "test")

    run(tmp_path)

    assert about(folder).scores == {}
    assert "Not measured yet." in (folder / "README.md").read_text()


def test_making_it_again_from_the_training_or_from_itself_gives_the_same_bytes(trained, tmp_path):
    folder = run(tmp_path, trained)
    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    for source in (trained, trained / "model", folder):
        run(tmp_path, source)
        assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == files

    assert len(read_rows("bundle", path=tmp_path / "rows.jsonl")) == 1


def test_weights_in_eight_bits_are_not_rounded_again(trained, tmp_path, monkeypatch):
    Parser.from_pretrained(trained / "model", device="cpu").save(tmp_path / "small", dtype=torch.int8)
    before = weights_checksum(tmp_path / "small")
    monkeypatch.setattr("treefine.model.folder.LARGEST", 100)  # would round differently

    assert weights_checksum(run(tmp_path, tmp_path / "small")) == before


def test_the_row_has_the_size_and_the_original_weights(trained, tmp_path):
    folder = run(tmp_path, trained)

    [row] = read_rows("bundle", path=tmp_path / "rows.jsonl")
    assert row["config"] == {
        "model": "en",
        "weights": weights_checksum(folder),
        "made_of": weights_checksum(trained / "model"),
    }
    assert row["result"]["bytes"] == sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert next(iter(row["result"]["files"])) in ("model.safetensors", "segmenter/segmenter.safetensors")


def test_the_card_attributes_treebank_and_encoder_and_names_the_licence(trained, tmp_path):
    card = " ".join((run(tmp_path, trained) / "README.md").read_text().split())

    assert "license: cc-by-sa-4.0" in card
    for said in (
        "UD English EWT, release 2.16",
        "https://creativecommons.org/licenses/by-sa/4.0/",
        "https://universaldependencies.org",
        "Natalia Silveira, Timothy Dozat, Marie-Catherine de Marneffe, Samuel Bowman, Miriam Connor, John Bauer and",
        "thenlper/gte-small",
        "MIT licence",
        "The code of treefine is under Apache-2.0",
        "the end of a sentence without punctuation",
    ):
        assert said in card


def test_the_card_explains_how_confidence_was_fitted(tmp_path):
    model = tiny_model(tags=TagSettings("predicted", ("upos", "xpos")))
    model.settings = replace(model.settings, confidence=ConfidenceSettings(1.4567, 1.6, 0.9, 1.4))
    Parser(model, device="cpu", segmenter=tiny_segmenter()).save(tmp_path / "model")

    card = (run(tmp_path, tmp_path / "model") / "README.md").read_text()

    assert "(1.457 for heads, 1.600 for labels; " in card


@pytest.mark.parametrize(
    ("notes", "said"),
    [
        (notes(), "`treefine train en --output DIR` trains this model, with the settings below."),
        (notes("training.epochs=3"), "The bundled recipe `en` has changed since."),
        ("", "The training left no notes. This is the recipe `en`:"),
    ],
)
def test_the_card_names_the_recipe_and_its_settings(tmp_path, notes, said):
    model = tiny_model(tags=TagSettings("predicted", ("upos", "xpos")))
    Parser(model, device="cpu", segmenter=tiny_segmenter()).save(tmp_path / "model", notes=notes)

    card = (run(tmp_path, tmp_path / "model") / "README.md").read_text()

    assert said in card
    assert card.count("max_steps = 3") == 1
    assert (run(tmp_path) / "README.md").read_text() == card


def test_a_model_that_is_too_large_is_rejected_and_the_older_one_stays(trained, tmp_path, monkeypatch):
    folder = run(tmp_path, trained)
    before = (folder / "about.json").read_text()
    monkeypatch.setattr(bundle, "MOST_BYTES", {"en": 1000})

    with pytest.raises(TreefineError, match=r"The model has \d\.\d MB, but a bundled model may have at most 0 MB\."):
        run(tmp_path, trained)

    assert (folder / "about.json").read_text() == before
    assert [path.name for path in folder.parent.iterdir()] == ["en"]


def test_a_folder_of_something_else_is_neither_bundled_nor_overwritten(trained, tmp_path):
    with pytest.raises(TreefineError, match="This folder has no model"):
        run(tmp_path, tmp_path)
    with pytest.raises(TreefineError, match="This folder has no bundled model"):
        run(tmp_path)
    (tmp_path / "models" / "en").mkdir(parents=True)
    (tmp_path / "models" / "en" / "thesis.txt").write_text("years of work")
    with pytest.raises(TreefineError, match="The folder contains files that do not belong to a model"):
        run(tmp_path, trained)


def test_a_bundled_model_has_its_scores_as_json(trained, tmp_path):
    folder = run(tmp_path, trained)
    score(tmp_path, folder, "test")

    written = json.loads((run(tmp_path) / "about.json").read_text())

    assert list(written["scores"])[:3] == ["Tokens", "Sentences", "UPOS"]
    assert all(isinstance(each, float) for each in written["scores"].values())
