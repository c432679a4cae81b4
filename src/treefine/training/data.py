"""The training data: checked sentences, their initial graphs, and the settings that a recipe leaves to the treebank."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TypeVar

import numpy as np

from treefine.config import COLUMNS, Column
from treefine.errors import ConfigError, TreefineError, count
from treefine.evaluation.scores import rule_of
from treefine.model.vocabulary import language_of
from treefine.training.recipe import (
    CardSettings,
    Recipe,
    TagTraining,
    TeacherSettings,
    TreebankSettings,
    expand,
)
from treefine.treebank.align import transferred
from treefine.treebank.conllu import read_treebank, tree_faults
from treefine.treebank.files import COMPRESSED, open_input, utf8_lines
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import BLANK, Sentence

_Member = TypeVar("_Member")

MOST_XPOS = 200  # a tagger for more tags than this learns little from most of them
_CODE = r"[a-z]{2,3}_[a-z0-9]+"  # of a treebank, such as en_ewt
FEWEST = 10  # fewest sentences to train on


@dataclass(frozen=True)
class Data:
    """The training sentences, the dev sentences that choose the best epoch, and the test sentences."""

    train: tuple[Sentence, ...]
    dev: tuple[Sentence, ...]
    checksums: dict[str, str]  # SHA-256 of each file, by its path in the recipe
    warnings: tuple[str, ...] = ()
    test: tuple[Sentence, ...] = ()  # none if the recipe names no test set


def load_data(settings: TreebankSettings) -> Data:
    """Read the treebanks; raise one error with a line for each fault."""
    faults: list[str] = []
    sets = (settings.train, settings.dev, settings.test)
    read = {path: _read(path, settings, faults) for path in dict.fromkeys(chain(*sets))}
    train, dev, test = (tuple(sentence for path in paths for sentence in read[path] or ()) for paths in sets)
    if None not in map(read.get, settings.train):
        files, wanted = ", ".join(settings.train), settings.sentences
        if wanted > len(train):
            faults.append(f"{files}: {len(train):,} sentences, fewer than sentences = {wanted:,}.")
        train = spaced_sample(train, wanted or len(train))
        if len(train) < FEWEST:
            faults.append(f"{files}: {count(len(train), 'sentence')} to train on, but at least {FEWEST} are needed.")
    dev = spaced_sample(dev, settings.dev_sentences or len(dev))
    codes = {treebank_code(path) for path in settings.train} if settings.by_treebank else set()
    faults += [f"[treebank] main names {code}, which is not in train." for code in settings.main if code not in codes]
    if faults:
        raise ConfigError("\n".join(faults))
    return Data(train, dev, checksums_of(read), tuple(_unseen_labels(train, dev, settings)), test)


def load_texts(settings: TeacherSettings) -> tuple[str | Sentence, ...]:
    """Return the unlabelled sentences: lines of text that are not blank, and the words of treebanks."""
    texts: list[str | Sentence] = []
    for path in map(expand, settings.texts):
        if is_plain_text(path):
            with open_input(path) as stream:
                texts += [line for line in utf8_lines(stream, path) if not line.isspace()]
        else:
            texts += [Sentence.of_words(sentence.forms) for sentence in read_treebank(path)]
    if settings.texts and not texts:
        raise ConfigError(f"{', '.join(settings.texts)}: There is no sentence.")
    return spaced_sample(texts, settings.sentences or len(texts))


def is_plain_text(path: str) -> bool:
    """Return whether a file holds text and not a treebank, by its name.

    >>> is_plain_text("en.txt.xz"), is_plain_text("en.conllu")
    (True, False)
    """
    name = Path(path.lower())
    return (name.with_suffix("") if name.suffix in COMPRESSED else name).suffix == ".txt"


def spaced_sample(sentences: Sequence[_Member], n_sentences: int) -> tuple[_Member, ...]:
    """Return an evenly spaced sample of this size, the same every time.

    >>> spaced_sample("abcdefgh", 3)
    ('a', 'c', 'f')
    """
    n_all, n_kept = len(sentences), min(n_sentences, len(sentences))
    return tuple(sentences[number * n_all // n_kept] for number in range(n_kept))


def checksums_of(paths: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of each file, by its path in the recipe."""
    return {path: hashlib.sha256(Path(expand(path)).read_bytes()).hexdigest() for path in paths}


def parses_in_files(paths: Sequence[str], sentences: Sequence[Sentence], form: str | None) -> list[Arcs]:
    """Read another parser's trees of these sentences from files of this format, which together have the same text."""
    expanded = [expand(path) for path in paths]
    parses = (sentence for path in expanded for sentence in read_treebank(path, format=form))
    return list(transferred(sentences, parses, ", ".join(expanded)))


def filled_columns(sentences: Iterable[Sentence]) -> set[Column]:
    """Return the columns in which at least one word has a tag."""
    return {name for one in sentences for name in COLUMNS if any(tag != BLANK for tag in getattr(one, name))}


def _read(path: str, settings: TreebankSettings, faults: list[str]) -> list[Sentence] | None:
    """Return the sentences of a file, or None if it cannot be read; add its faults to the list."""
    try:
        sentences = list(read_treebank(expand(path), format=settings.format or None))
    except (TreefineError, OSError) as error:
        faults.append(f"{path}: {error.strerror or error}" if isinstance(error, OSError) else str(error))
        return None
    if settings.by_treebank:
        code = treebank_code(path)
        if not code:
            faults.append(
                f"{path}: by_treebank needs the code of the treebank in the name, as in sv_talbanken/train.conllu."
            )
        sentences = [replace(sentence, treebank=code) for sentence in sentences]
    needs_one_root = rule_of(settings.rule).is_ud
    wrong = [fault for sentence in sentences for fault in tree_faults(sentence, needs_one_root=needs_one_root)]
    wrong += [sentence.error("A word has no label.") for sentence in sentences if BLANK in sentence.labels]
    if wrong:
        more = f" {len(wrong) - 1} more errors: list them with treefine validate." if len(wrong) > 1 else ""
        faults.append(f"{wrong[0]}{more}")
    return sentences


def _unseen_labels(train: Iterable[Sentence], dev: Iterable[Sentence], settings: TreebankSettings) -> Iterable[str]:
    """Yield a warning about labels that occur only in dev; subtypes of UD labels are ignored, as in scoring."""
    end = ":" if rule_of(settings.rule).is_ud else "\n"  # no label has a line break
    known, of_dev = (
        Counter(label.partition(end)[0] for sentence in sentences for label in sentence.labels)
        for sentences in (train, dev)
    )
    unseen = Counter({label: number for label, number in of_dev.items() if label not in known})
    if unseen:
        listed = ", ".join(f"{label} ({number})" for label, number in unseen.most_common(5))
        more = f" and {len(unseen) - 5} more" if len(unseen) > 5 else ""
        place = ", ".join(settings.dev)
        yield f"{place}: These labels are not in the training set, so they cannot be predicted: {listed}{more}."


def fold_ranges(n_sentences: int, folds: int) -> list[range]:
    """Split the training set into contiguous ranges of nearly equal length, because neighbours share documents.

    >>> fold_ranges(7, 3)
    [range(0, 2), range(2, 4), range(4, 7)]
    """
    bounds = [n_sentences * fold // folds for fold in range(folds + 1)]
    return [range(first, end) for first, end in zip(bounds, bounds[1:], strict=False)]


def completed(recipe: Recipe, data: Data, *, is_main: bool = True) -> Recipe:
    """Return the recipe with the settings that it leaves to the treebank. Only the main model has a segmenter."""
    tags, segmenter = completed_tags(recipe.tags, data.train), recipe.segmenter
    has_segmenter = is_main and segmenter.train != "never" and (segmenter.train == "always" or not no_text(data))
    never = replace(segmenter, train="never", encoder_layers=0)
    segmenter = replace(segmenter, train="always") if has_segmenter else never
    training = replace(recipe.training, given_tags=0.0) if tags.source == "none" else recipe.training
    card = _card(recipe.card, recipe.treebank)
    return replace(recipe, tags=tags, training=training, segmenter=segmenter, card=card)


def completed_tags(tags: TagTraining, train: Sequence[Sentence]) -> TagTraining:
    """Return the tags to predict or read; by default those that the treebank has, without too many different XPOS."""
    columns = tags.columns
    if not columns:
        known: set[Column] = {"upos"}
        if tags.source in ("auto", "predicted"):
            known = filled_columns(train)
            if "upos" in known and len({tag for sentence in train for tag in sentence.xpos}) > MOST_XPOS:
                known.discard("xpos")
        columns = tuple(column for column in COLUMNS if column in (*known, *tags.given))
    if tags.source != "auto":
        return replace(tags, columns=columns or ("upos",))
    return replace(tags, source="predicted" if columns else "none", columns=columns)


def no_text(data: Data) -> str:
    """Return why a segmenter cannot learn from these treebanks, or an empty string if it can."""
    titles = sorted({sentence.format.title for sentence in (*data.train, *data.dev) if not sentence.format.is_ud})
    if titles:
        return f"{titles[0]} does not mark words that follow without a space"
    for sentence in data.train:
        if sentence.text is not None or any("SpaceAfter=No" in token.misc for token in sentence.tokens()):
            return ""
    return "the treebank has no text (# text or SpaceAfter=No)"


def _card(card: CardSettings, treebank: TreebankSettings) -> CardSettings:
    """Fill in the languages and the name of the treebank from the names of its files."""
    codes = [treebank_code(path, of_folder=treebank.by_treebank) for path in treebank.train]
    folders = [Path(path).parent.name for path in treebank.train]
    named = [re.sub("[_-]", " ", each) if each.startswith("UD_") else "" for each in folders]  # of UD_English-EWT
    names = [name or code for name, code in zip(named, codes, strict=True)]
    languages, treebanks = (tuple(dict.fromkeys(filter(None, some))) for some in (map(language_of, codes), names))
    return replace(card, language=card.language or languages, treebank=card.treebank or ", ".join(treebanks))


def treebank_code(path: str, *, of_folder: bool = True) -> str:
    """Return the code of a treebank, from the name of its file or folder; empty if neither has the form of a code.

    >>> treebank_code("UD_Swedish-Talbanken/sv_talbanken-ud-dev.conllu"), treebank_code("ja_gsd-2.9/dev.conllu.xz")
    ('sv_talbanken', 'ja_gsd')
    >>> treebank_code("my_data/train.conllu", of_folder=False)
    ''
    """
    name = re.match(f"{_CODE}(?=-ud-)", Path(path).name)
    folder = re.fullmatch(rf"({_CODE})(?:-[0-9.]+)?", Path(path).parent.name) if of_folder else None
    return name[0] if name else folder[1] if folder else ""


def by_treebank(sentences: Iterable[Sentence]) -> dict[str, list[Sentence]]:
    """Return the sentences of each treebank; without codes of treebanks, all of them are one treebank."""
    treebanks: dict[str, list[Sentence]] = {}
    for sentence in sentences:
        treebanks.setdefault(sentence.treebank, []).append(sentence)
    return treebanks


def words_by_treebank(sentences: Iterable[Sentence]) -> dict[str, int]:
    """Return the number of words of each treebank, in the order of the sentences."""
    return {code: sum(map(len, some)) for code, some in by_treebank(sentences).items()}


def balanced_shares(n_words: Sequence[int], balance: float) -> list[float]:
    """Return how often a sentence of each treebank is drawn per epoch, on average; the sum of words stays the same.

    >>> balanced_shares([100, 900], 0.5)
    [2.5, 0.8333333333333334]
    """
    wanted = [number**balance for number in n_words]
    scale = sum(n_words) / sum(wanted)
    return [scale * share / number for share, number in zip(wanted, n_words, strict=True)]


def drawn_order(treebanks: Sequence[str], sizes: Sequence[int], balance: float, rng: np.random.Generator) -> list[int]:
    """Return the numbers of the sentences of an epoch in random order; with a balance below 1, some occur repeatedly.

    `treebanks` and `sizes` are the treebank and the number of words of each sentence.
    """
    if balance == 1:
        return rng.permutation(len(treebanks)).tolist()  # type: ignore[no-any-return]
    members: dict[str, list[int]] = {}
    for number, code in enumerate(treebanks):
        members.setdefault(code, []).append(number)
    n_words = [sum(sizes[number] for number in numbers) for numbers in members.values()]
    drawn: list[int] = []
    for share, numbers in zip(balanced_shares(n_words, balance), members.values(), strict=True):
        whole = int(share)
        n_rest = round((share - whole) * len(numbers))
        drawn += whole * numbers
        drawn += [numbers[place] for place in rng.permutation(len(numbers))[:n_rest].tolist()]
    return [drawn[place] for place in rng.permutation(len(drawn)).tolist()]
