"""Call treefine as a user does, in this process."""

import io

from typer.testing import CliRunner

from treefine import read_treebank
from treefine.cli.app import app


def invoke(*arguments, command=None, code=0, input=None):
    """Run a command, check its exit code, and return its result."""
    words = [*([command] if command else []), *map(str, arguments)]
    result = CliRunner().invoke(app, words, input=input)
    assert result.exit_code == code, result.stderr
    return result


def failed(run, *arguments, **options):
    """Return the one line of a command that fails without printing anything else."""
    result = run(*arguments, code=1, **options)
    assert result.stdout == ""
    assert result.stderr.startswith("treefine: ")
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("treefine: ").rstrip("\n")


def read(text):
    """Return the sentences of a printed treebank."""
    return list(read_treebank(io.BytesIO(text.encode())))
