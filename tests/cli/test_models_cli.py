"""The list of bundled models as a user calls it."""

import json
import subprocess
import sys

import pytest

from tests.support.commands import failed, invoke

ABOUT = {
    "language": "English",
    "treebank": "UD_English-EWT 2.3",
    "licence": "CC BY-SA 4.0",
    "encoder": "small",
    "scores": {"UAS": 88.5, "LAS": 86.25},
}


@pytest.fixture
def bundled(tmp_path, monkeypatch):
    folder = tmp_path / "models"
    (folder / "en" / "segmenter").mkdir(parents=True)
    (folder / "en" / "config.json").write_text("{}")
    (folder / "en" / "segmenter" / "weights").write_bytes(b"0" * 1_999_998)
    (folder / "en" / "about.json").write_text(json.dumps(ABOUT))
    monkeypatch.setattr("treefine.model.bundled.BUNDLED", folder)
    return folder


def test_each_model_has_a_row_with_all_that_is_known_of_it(bundled):
    header, _, row = invoke("models").stdout.splitlines()

    assert header.split() == ["name", "language", "treebank", "licence", "encoder", "size", "scores"]
    assert row == "en    English   UD_English-EWT 2.3  CC BY-SA 4.0  small    2.0 MB  UAS 88.50, LAS 86.25"


def test_the_same_is_given_as_json(bundled):
    (found,) = json.loads(invoke("models", "--json").stdout)

    size = sum(path.stat().st_size for path in bundled.rglob("*") if path.is_file())
    assert found == {"name": "en", "bytes": size, **ABOUT}


def test_where_none_is_bundled_that_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr("treefine.model.bundled.BUNDLED", tmp_path)

    assert invoke("models").stdout == "No model is bundled.\n"
    assert invoke("models", "--json").stdout == "[]\n"


def test_a_damaged_description_is_told(bundled):
    (bundled / "en" / "about.json").write_text("{")

    assert "about.json:1: The file is damaged: it is no JSON." in failed(invoke, "models")


def test_listing_models_loads_no_torch():
    code = "from treefine.cli.app import app; app(['models'], standalone_mode=False)\nimport sys\n"
    done = subprocess.run(
        [sys.executable, "-c", code + "print(*sys.modules)"], capture_output=True, check=True, text=True
    )

    assert not {"torch", "numpy", "rich"} & {name.partition(".")[0] for name in done.stdout.split()}
