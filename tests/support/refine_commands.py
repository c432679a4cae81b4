"""Damaged trees to refine, and the summary that `treefine refine` prints."""

import random
import re
from pathlib import Path

from treefine import Graph


def damaged(sentences, seed=1):
    dice = random.Random(seed)
    for sentence in sentences:
        heads = [dice.choice([head, head, dice.randrange(len(sentence) + 1)]) for head in sentence.heads]
        labels = [dice.choice([label, label, "obl"]) for label in sentence.labels]
        yield sentence.with_graph(Graph.of_words(heads, labels))


def renamed_labels(sentences, names):
    for sentence in sentences:
        yield sentence.with_graph(Graph.of_words(sentence.heads, [names.get(each, each) for each in sentence.labels]))


def summary(result):
    """Return the lines on standard error by their names."""
    return dict(re.split(r"  +", line, maxsplit=1) for line in result.stderr.splitlines())


def rows_of(path):
    header, *rows = [line.split("\t") for line in Path(path).read_text().splitlines()]
    return [dict(zip(header, row, strict=True)) for row in rows]
