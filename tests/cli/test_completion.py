"""Shell completion: the scripts, and what the program answers to them."""

import pytest
import shellingham
from typer.testing import CliRunner

from tests.support.commands import invoke
from treefine.cli.app import app


def completed(*words: str) -> list[str]:
    """Return the completions that bash is offered for these words; the last one may be incomplete."""
    protocol = {"_TREEFINE_COMPLETE": "complete_bash", "COMP_WORDS": "\n".join(["treefine", *words])}
    done = CliRunner().invoke(app, env={**protocol, "COMP_CWORD": str(len(words))}, prog_name="treefine")
    assert done.exit_code == 0, done.stderr
    return done.stdout.split()


@pytest.fixture(params=["bash", "zsh", "fish", "pwsh"])
def shell(request, monkeypatch):
    """Run the test as if the user worked in this shell."""
    monkeypatch.setattr(shellingham, "detect_shell", lambda: (request.param, f"/bin/{request.param}"))
    return request.param


def test_the_script_of_each_shell_is_printed(shell):
    script = invoke("--show-completion").stdout

    assert "_COMPLETE" in script
    assert "complete" in script


def test_commands_and_options_are_completed():
    assert completed("ref") == ["refine"]
    assert completed("parse", "--confi") == ["--confidence"]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["parse", "--precision", "b"], ["bfloat16"]),
        (["parse", "--format", "par"], ["parquet"]),
        (["parse", "--model", ""], ["en"]),
        (["serve", "--model", "e"], ["en"]),
        (["train", "en-teach"], ["en-teacher"]),
        (["validate", "--format", "conll09"], ["conll09", "conll09-predicted"]),
        (["evaluate", "--rule", "p"], ["ptb"]),
        (["new-recipe", "my.toml", "--kind", "s"], ["syntr"]),
    ],
)
@pytest.mark.usefixtures("only_own_models")
def test_choices_and_names_are_completed(words, offered):
    assert completed(*words) == offered


def test_a_file_name_is_left_to_the_shell():
    assert completed("train", "my-reci") == []
