"""Prepare what the snippets of the pages need: untrained models and a small recipe."""

from pathlib import Path

import pytest

# tests/test_tutorials.py runs the tutorials, with their consoles and in their own folder.
collect_ignore = ["tutorials", "_hooks"]


@pytest.fixture(autouse=True)
def models(request, tmp_path, monkeypatch):
    """Prepare a working folder for parsing.md, with models and with this folder as docs."""
    if request.node.path.name != "parsing.md":
        return
    from tests.support.tiny import tiny_model, tiny_syntr
    from treefine import Parser
    from treefine.config import TagSettings

    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").symlink_to(Path(__file__).parent)
    Parser(tiny_model(), device="cpu").save("models/en")
    Parser(tiny_model(tags=TagSettings("predicted", ("upos", "xpos"))), device="cpu").save("models/en-tagger")
    Parser(tiny_syntr(), device="cpu").save("models/en-syntr")


@pytest.fixture(autouse=True)
def recipe(request, tmp_path, monkeypatch):
    """Prepare a working folder for training.md, with the recipe of a SynTr, its encoder and its treebanks."""
    if request.node.path.name != "training.md":
        return
    from tests.support.tiny import sample, write_encoder
    from treefine import write_treebank

    monkeypatch.chdir(tmp_path)
    write_treebank(sample(20), "train.conllu")
    write_treebank(sample(26)[20:], "dev.conllu")
    write_encoder(tmp_path / "encoder", "bert")
    Path("syntr.toml").write_text(
        '[treebank]\ntrain = "train.conllu"\ndev = "dev.conllu"\n[encoder]\npretrained = "./encoder"\n'
        '[relations]\ngraph = "none"\n[segmenter]\ntrain = "never"\n'
    )


@pytest.fixture(autouse=True)
def working_folder(request, tmp_path, monkeypatch):
    """Give pages that write files a working folder."""
    if request.node.path.name in ("spacy.md", "coming-from.md"):
        monkeypatch.chdir(tmp_path)
