"""treefine new-recipe as a user calls it; tests/training/test_new_recipe.py checks the recipes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import failed, invoke
from tests.support.tiny import sample, write_encoder
from treefine.treebank.conllu import write_treebank

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_treebank(sample(20), "train.conllu")
    write_treebank(sample(26)[20:], "dev.conllu")
    write_encoder(Path("encoder"), "bert")


TREEBANK = ("--train", "train.conllu", "--dev", "dev.conllu", "--encoder", "./encoder")


def test_a_new_recipe_passes_a_dry_run_which_needs_no_output_folder(files):
    result = invoke("new-recipe", "my.toml", *TREEBANK)

    assert result.stdout == "Wrote my.toml. Check with: treefine train my.toml --dry-run\n"
    shown = json.loads(invoke("train", "my.toml", "--dry-run").stdout)
    assert shown["recipe"]["treebank"]["train"] == ["train.conllu"]
    assert "Invalid value for --output" in invoke("train", "my.toml", code=2).stderr


def test_a_recipe_with_an_initial_parser_is_two_files(files):
    result = invoke("new-recipe", "my.toml", *TREEBANK, "--initial", "syntr")

    assert result.stdout.startswith("Wrote my.toml and my-syntr.toml. Check with: ")
    assert json.loads(invoke("train", "my.toml", "--dry-run").stdout)["initial parser"] is not None


def test_a_dash_writes_to_standard_output(files):
    result = invoke("new-recipe", "-", *TREEBANK)

    assert tomllib.loads(result.stdout)["treebank"]["dev"] == "dev.conllu"
    assert result.stderr == ""


def test_an_existing_recipe_is_overwritten_only_with_force(files):
    Path("my.toml").write_text("mine")

    message = failed(invoke, "new-recipe", "my.toml", *TREEBANK)

    assert message == "my.toml: The file exists. Overwrite it with --force, or choose another name."
    assert Path("my.toml").read_text() == "mine"
    invoke("new-recipe", "my.toml", *TREEBANK, "--force")
    assert Path("my.toml").read_text() != "mine"


def test_warnings_go_to_standard_error(files):
    Path("train.conllu").write_text(Path("train.conllu").read_text().replace("SpaceAfter=No", "_"))

    result = invoke("new-recipe", "my.toml", *TREEBANK, "--segmenter")

    assert result.stderr.startswith("treefine: warning: No word is marked SpaceAfter=No")


def test_writing_a_recipe_loads_no_torch(files):
    code = f"from treefine.cli.app import app; app(['new-recipe', 'my.toml', *{TREEBANK}], standalone_mode=False)\n"
    done = subprocess.run(
        [sys.executable, "-c", code + "import sys; print(*sys.modules)"], capture_output=True, check=True, text=True
    )

    assert "torch" not in done.stdout.split()


def test_commands_in_a_recipe_quote_its_name_and_stay_in_the_comment(files):
    invoke("new-recipe", "my\nfirst recipe.toml", *TREEBANK)

    lines = Path("my\nfirst recipe.toml").read_text().splitlines()
    assert lines[1].endswith(r"treefine train 'my\nfirst recipe.toml' --dry-run")
    assert lines[2].endswith(r"treefine train 'my\nfirst recipe.toml' --output 'runs/my\nfirst recipe'")
    invoke("train", "my\nfirst recipe.toml", "--dry-run")


def test_a_file_name_that_is_not_utf_8_is_an_error(files):
    name = b"\xff.conllu".decode(errors="surrogateescape")
    Path("train.conllu").rename(name)

    message = failed(invoke, "new-recipe", "my.toml", "--train", name, "--dev", "dev.conllu", "--encoder", "./encoder")

    assert message == r"'\udcff.conllu' is not valid UTF-8, so a recipe cannot contain it."
    assert not Path("my.toml").exists()
