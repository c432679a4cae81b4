"""What the snippets of parsing.md use without making it: a folder `models`, here of untrained parsers."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def models(request, tmp_path, monkeypatch):
    """The working folder of parsing.md: models, and this folder as docs."""
    if request.node.path.name != "parsing.md":
        return
    from tests.tiny import tiny_biaffine, tiny_model
    from treefine import Parser
    from treefine.config import TagSettings

    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").symlink_to(Path(__file__).parent)
    Parser(tiny_model(), device="cpu").save("models/en")
    Parser(tiny_model(tags=TagSettings("predicted", ("upos", "xpos"))), device="cpu").save("models/en-tagger")
    Parser(tiny_biaffine(), device="cpu").save("models/en-biaffine")
