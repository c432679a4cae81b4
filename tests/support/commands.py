"""Call treefine as a user does, in this process; damaged trees to refine."""

import io
import random
import re
from pathlib import Path

from typer.testing import CliRunner

from treefine import Graph, read_treebank
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


def damaged(sentences, seed=1):
    dice = random.Random(seed)
    for sentence in sentences:
        heads = [dice.choice([head, head, dice.randrange(len(sentence) + 1)]) for head in sentence.heads]
        labels = [dice.choice([label, label, "obl"]) for label in sentence.labels]
        yield sentence.with_graph(Graph.of_words(heads, labels))


def summary(result):
    """Return the lines on standard error by their names."""
    return dict(re.split(r"  +", line, maxsplit=1) for line in result.stderr.splitlines())


def rows_of(path):
    header, *rows = [line.split("\t") for line in Path(path).read_text().splitlines()]
    return [dict(zip(header, row, strict=True)) for row in rows]
