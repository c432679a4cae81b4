"""Split English EWT by genre, to train on one genre and measure on another."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.options import TREEBANKS_ENV, command, option
from benchmarks.rows import english_path
from treefine import Sentence, TreefineError, read_treebank, write_treebank

GENRES = {"news": ("newsgroup", "weblog"), "reviews": ("reviews",)}  # the name of a part: its genres
FILES = (("news", "train"), ("news", "dev"), ("reviews", "dev"))
NEW_DOCUMENT = "# newdoc id = "


@command(option("--output", type=Path, required=True, help="folder for the parts"), TREEBANKS_ENV)
def measure_genres(options: argparse.Namespace) -> None:
    """Split en_ewt by genre: write en_ewt-news/train.conllu and dev.conllu, and en_ewt-reviews/dev.conllu.

    python -m benchmarks genres --output genres
    """
    for part, split in FILES:
        path = english_path(options.treebanks, split)
        sentences = list(of_genres(read_treebank(path), GENRES[part]))
        if not sentences:
            raise TreefineError(f"No document is of the genre {' or '.join(GENRES[part])}.", path=str(path))
        out = options.output / f"en_ewt-{part}" / f"{split}.conllu"
        out.parent.mkdir(parents=True, exist_ok=True)
        write_treebank(sentences, out)
        print(f"{out}: {len(sentences):,} sentences")


def of_genres(sentences: Iterable[Sentence], genres: Iterable[str]) -> Iterator[Sentence]:
    """Yield the sentences of some genres. The id of a document starts with its genre, such as `weblog-`."""
    wanted, genre = set(genres), ""
    for sentence in sentences:
        for comment in sentence.comments:
            if comment.startswith(NEW_DOCUMENT):
                genre = comment.removeprefix(NEW_DOCUMENT).partition("-")[0]
        if genre in wanted:
            yield sentence
