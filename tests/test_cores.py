"""Environment variables that commands set before torch is imported."""

import os
import subprocess
import sys

import pytest

CHOSEN = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
TORCH = f"import os; raise OSError({{name: os.environ[name] for name in {CHOSEN} if name in os.environ}})"


def run(*command, paths=(), **variables):
    inherited = {name: value for name, value in os.environ.items() if name not in CHOSEN}
    search = os.pathsep.join([*map(str, paths), *filter(None, sys.path)])
    env = {**inherited, "PYTHONPATH": search, **variables}
    return subprocess.run([sys.executable, *command], env=env, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ({}, {"GOMP_SPINCOUNT": "2000"}),
        ({"OMP_NUM_THREADS": "2"}, {"GOMP_SPINCOUNT": "2000"}),
        ({"GOMP_SPINCOUNT": "7"}, {"GOMP_SPINCOUNT": "7"}),
        ({"OMP_WAIT_POLICY": "active"}, {"OMP_WAIT_POLICY": "active"}),
        ({"KMP_BLOCKTIME": "0"}, {"KMP_BLOCKTIME": "0"}),
    ],
)
def test_a_command_limits_spinning_before_it_imports_torch_unless_the_user_has_chosen(tmp_path, given, seen):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(TORCH)

    out = run("-m", "treefine", "info", paths=[tmp_path], **given)

    assert f"cannot be imported: OSError: {seen}\n" in out


def test_importing_treefine_changes_no_environment_variable():
    code = "import os; before = dict(os.environ); import treefine, treefine.cli.app; print(before == dict(os.environ))"

    assert run("-c", code) == "True\n"


def test_an_application_that_has_loaded_torch_keeps_its_environment(monkeypatch):
    from treefine.cores import limit_spinning

    variables = {}
    monkeypatch.setitem(sys.modules, "torch", object())
    limit_spinning(variables)
    assert variables == {}

    monkeypatch.delitem(sys.modules, "torch")
    limit_spinning(variables)
    assert variables == {"GOMP_SPINCOUNT": "2000"}
