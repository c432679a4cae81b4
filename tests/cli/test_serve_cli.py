"""treefine serve, as far as it goes before it listens; tests/serving has the rest."""

import socket
import sys

import pytest
from typer.testing import CliRunner

from treefine.cli.app import app


@pytest.fixture(autouse=True)
def _no_server(monkeypatch):
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: pytest.fail("it listens"))


def run(*arguments):
    return CliRunner().invoke(app, ["serve", *map(str, arguments)])


@pytest.mark.parametrize("name", ["uvicorn", "fastapi", "prometheus_client", "python_multipart"])
def test_a_missing_package_is_answered_with_the_command_that_installs_it(monkeypatch, name):
    for module in [each for each in sys.modules if each.startswith("treefine.serving")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, name, None)
    result = run()

    assert result.exit_code == 1
    assert "pip install 'treefine[serve]'" in result.output
    assert len(result.output.splitlines()) == 1


def test_a_port_that_is_taken_is_told_before_any_model_is_read(monkeypatch):
    monkeypatch.setattr("treefine.parsing.parser.Parser.from_pretrained", lambda *_, **__: pytest.fail("read"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = run("--port", port)

    assert result.exit_code == 1
    assert result.output.startswith(f"treefine: Nothing can listen at 127.0.0.1:{port}: ")
    assert result.output.endswith("Choose another with --port or --host.\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", "nope"], "There is no model 'nope'."),
        (["--model", "en", "--model", "old/en"], "Two models are called 'en'. Give each a name of its own"),
        (["--model", "=en"], "'=en' has no name."),
        (["--host", "256.0.0.1"], "Nothing can listen at 256.0.0.1:8080: "),
    ],
)
def test_what_cannot_be_served_is_told_in_one_line(arguments, said):
    result = run(*arguments)

    assert result.exit_code == 1
    assert said in result.output
    assert len(result.output.splitlines()) == 1
