"""treefine info as a user calls it."""

import json
import sys
from pathlib import Path

import torch

from tests.support.commands import invoke
from treefine.cli import info

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]


def test_info_prints_what_a_bug_report_needs():
    lines = invoke("info").stdout.splitlines()
    found = json.loads(invoke("info", "--json").stdout)

    sections = ["treefine", "location", "python", "platform", "encoding", "cpu", "torch", "devices"]
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == [*found]
    assert [*found] == [*sections, "packages", "optional", "models", "environment"]
    assert f"  version            {torch.__version__}" in lines
    assert found["devices"]["cpu"]["int8_instructions"] in (True, False)
    assert len(found["models"]["en"]["weights_sha256"]) == 64
    assert found["cpu"]["usable_cores"] >= 1


def test_a_torch_that_cannot_be_imported_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)

    result = invoke("info")

    assert "cannot be imported: ModuleNotFoundError: import of torch halted" in result.stdout
    assert "\nmodels\n" in result.stdout
    assert "error" in json.loads(invoke("info", "--json").stdout)["torch"]


def test_a_model_without_weights_is_reported(monkeypatch, tmp_path):
    monkeypatch.setattr(info, "bundled_models", lambda: {"en": tmp_path})

    assert info.gather()["models"] == {"en": {"bytes": 0, "weights_sha256": None}}


def test_every_dependency_is_listed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    def names(requirements):
        return {each.partition(">")[0].partition("[")[0] for each in requirements}

    assert names(project["dependencies"]) - {"torch", "tomli"} == set(info.REQUIRED)
    inner = ("dev", "oracles", "docs", "slow")  # which users need not install
    extras = {name: names(each) for name, each in project["optional-dependencies"].items() if name not in inner}
    assert set().union(*extras.values()) == set(info.EXTRAS)


def test_neither_secrets_nor_paths_are_printed(monkeypatch, tmp_path):
    monkeypatch.setenv("TREEFINE_TOKEN", "sesame")
    monkeypatch.setenv("TREEFINE_CACHE", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setattr(Path, "home", lambda: ROOT)

    out = invoke("info").stdout

    assert "sesame" not in out
    assert str(tmp_path) not in out
    assert "  OMP_NUM_THREADS    3\n" in out
    assert "  TREEFINE_CACHE     (a path)\n" in out
    assert str(ROOT) not in out
    assert out.splitlines()[1].split() == ["location", "~/src/treefine"]
