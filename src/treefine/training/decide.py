"""Decide the settings that a recipe leaves to the treebank: tags, segmenter, and the facts for the model card."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from treefine.config import Column
from treefine.errors import ConfigError
from treefine.training.data import Data, filled_columns
from treefine.training.recipe import CardSettings, Recipe, SegmenterTraining, TagTraining
from treefine.treebank.sentence import Sentence

MOST_XPOS = 200  # a tagger for more tags than this learns little from most of them
_SHORT_NAME = re.compile(r"([a-z]{2,3})_[a-z0-9]+(?=-ud-)")  # en_ewt-ud-train.conllu; a folder my_data says nothing
_UD_FOLDER = "UD_"  # of UD_English-EWT


def decided(recipe: Recipe, data: Data, *, is_main: bool = True) -> Recipe:
    """Return the recipe with all settings decided. Only the main model of a training has a segmenter."""
    tags = decided_tags(recipe.tags, data.train)
    if recipe.training.given_tags and tags.source == "none":
        raise ConfigError("[training] given_tags is set, but no training word has a tag.", hint="Remove given_tags.")
    return replace(
        recipe,
        tags=tags,
        segmenter=_segmenter(recipe.segmenter, data, is_main=is_main),
        card=_card(recipe.card, recipe.treebank.train),
    )


def columns_to_predict(train: Sequence[Sentence]) -> list[Column]:
    """Return the columns that have tags, without XPOS if UPOS has tags and XPOS has too many different ones."""
    filled = filled_columns(train)
    if "upos" in filled and len({tag for each in train for tag in each.xpos}) > MOST_XPOS:
        filled.discard("xpos")
    return sorted(filled)


def decided_tags(tags: TagTraining, train: Sequence[Sentence]) -> TagTraining:
    """Return the tags to predict or read; the treebank may lack those that the recipe names."""
    columns = tags.columns or tuple(columns_to_predict(train) if tags.source in ("auto", "predicted") else ("upos",))
    if tags.source != "auto":
        return replace(tags, columns=columns or ("upos",))
    return replace(tags, source="predicted" if columns else "none", columns=columns)


def no_text(data: Data) -> str:
    """Return why a segmenter cannot learn from these treebanks, or an empty string if it can."""
    for title in sorted({each.format.title for each in (*data.train, *data.dev) if not each.format.is_ud}):
        return f"{title} does not mark words that follow without a space"
    if any(each.text is not None or _marks_spaces(each) for each in data.train):
        return ""
    return "the treebank has no text (# text or SpaceAfter=No)"


def _marks_spaces(sentence: Sentence) -> bool:
    return any("SpaceAfter=No" in each.misc for each in sentence.tokens())


def _segmenter(settings: SegmenterTraining, data: Data, *, is_main: bool) -> SegmenterTraining:
    is_trained = is_main and (settings.train == "always" or (settings.train == "auto" and not no_text(data)))
    return replace(settings, train="always" if is_trained else "never")


def _card(card: CardSettings, paths: Sequence[str]) -> CardSettings:
    """Fill in the languages and the name of the treebank from the names of its files."""
    found = [_named(Path(path)) for path in paths]
    languages = card.language or tuple(dict.fromkeys(language for language, _ in found if language))
    treebank = card.treebank or ", ".join(dict.fromkeys(name for _, name in found if name))
    return replace(card, language=languages, treebank=treebank)


def _named(path: Path) -> tuple[str, str]:
    """Return the language and the treebank that a file name of UD says; empty for other names.

    >>> _named(Path("UD_English-EWT/en_ewt-ud-train.conllu"))
    ('en', 'UD English EWT')
    >>> _named(Path("my_data/train.conllu"))
    ('', '')
    """
    folder = path.parent.name
    short = _SHORT_NAME.match(path.name)
    language, name = (short[1], short[0]) if short else ("", "")
    if folder.startswith(_UD_FOLDER):
        name = re.sub("[_-]", " ", folder)
    return language, name
