"""The training data: checked sentences, their initial graphs, and the settings that a recipe leaves to the treebank."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import TypeVar

import numpy as np

from treefine.config import COLUMNS, Column
from treefine.errors import ConfigError, TreefineError
from treefine.evaluation.scores import rule_of
from treefine.model.vocabulary import language_of
from treefine.training.recipe import (
    CardSettings,
    InitialSettings,
    Recipe,
    SegmenterTraining,
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
_SHORT_NAME = re.compile(r"([a-z]{2,3})_[a-z0-9]+(?=-ud-)")  # en_ewt-ud-train.conllu; a folder my_data says nothing
_SHORT_FOLDER = re.compile(r"([a-z]{2,3}_[a-z0-9]+)(?:-[0-9.]+)?")  # en_ewt or en_ewt-2.16
_UD_FOLDER = "UD_"  # of UD_English-EWT
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
    paths = (*settings.train, *settings.dev, *settings.test)
    read = {path: _read(path, settings, faults) for path in dict.fromkeys(paths)}
    train, dev, test = (
        tuple(sentence for path in each for sentence in read[path] or ())
        for each in (settings.train, settings.dev, settings.test)
    )
    if None not in map(read.get, settings.train):
        if settings.sentences > len(train):
            files = ", ".join(settings.train)
            faults.append(f"{files}: {len(train):,} sentences, fewer than sentences = {settings.sentences:,}.")
        train = spaced_sample(train, settings.sentences or len(train))
    if None not in map(read.get, settings.train) and len(train) < FEWEST:
        count = f"{len(train)} sentence{'s' if len(train) > 1 else ''}"
        faults.append(f"{', '.join(settings.train)}: {count} to train on, but at least {FEWEST} are needed.")
    dev = spaced_sample(dev, settings.dev_sentences or len(dev)) if dev else dev
    codes = {treebank_code(path) for path in settings.train} if settings.by_treebank else set()
    faults += [f"[treebank] main names {code}, which is not in train." for code in settings.main if code not in codes]
    if faults:
        raise ConfigError("\n".join(faults))
    return Data(train, dev, checksums_of(read), tuple(_unseen_labels(train, dev, settings)), test)


def load_texts(settings: TeacherSettings) -> tuple[str | Sentence, ...]:
    """Return the unlabelled sentences: lines of text that are not blank, and the words of treebanks."""
    found: list[str | Sentence] = []
    for path in map(expand, settings.texts):
        if is_plain_text(path):
            with open_input(path) as stream:
                found += [line for line in utf8_lines(stream, path) if not line.isspace()]
        else:
            found += [Sentence.of_words(each.forms) for each in read_treebank(path)]
    if settings.texts and not found:
        raise ConfigError(f"{', '.join(settings.texts)}: There is no sentence.")
    return spaced_sample(found, settings.sentences or len(found))


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
    parses = (each for path in expanded for each in read_treebank(path, format=form))
    return list(transferred(sentences, parses, ", ".join(expanded)))


def filled_columns(sentences: Iterable[Sentence]) -> set[Column]:
    """Return the columns in which at least one word has a tag."""
    return {name for each in sentences for name in COLUMNS if any(tag != BLANK for tag in getattr(each, name))}


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
        sentences = [replace(each, treebank=code) for each in sentences]
    needs_one_root = rule_of(settings.rule).is_ud
    wrong = [fault for each in sentences for fault in tree_faults(each, needs_one_root=needs_one_root)]
    wrong += [each.error("A word has no label.") for each in sentences if BLANK in each.labels]
    if wrong:
        more = f" {len(wrong) - 1} more errors: list them with treefine validate." if len(wrong) > 1 else ""
        faults.append(f"{wrong[0]}{more}")
    return sentences


def _unseen_labels(train: Iterable[Sentence], dev: Iterable[Sentence], settings: TreebankSettings) -> Iterable[str]:
    """Yield a warning about labels that occur only in dev; subtypes of UD labels are ignored, as in scoring."""
    is_ud = rule_of(settings.rule).is_ud

    def labels(sentences: Iterable[Sentence]) -> Iterator[str]:
        for sentence in sentences:
            yield from (label.partition(":")[0] if is_ud else label for label in sentence.labels)

    known = set(labels(train))
    unseen = Counter(label for label in labels(dev) if label not in known)
    if unseen:
        listed = ", ".join(f"{label} ({count})" for label, count in unseen.most_common(5))
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


class TrainingGraphs:
    """The initial graphs G⁰ of the training sentences, drawn again for each epoch.

    `parses` are from the initial parser, or None if it is "empty"; `mixed` are from the sources in the mix.
    """

    def __init__(
        self,
        sentences: Sequence[Sentence],
        parses: Sequence[Arcs] | None,
        settings: InitialSettings,
        mixed: Mapping[str, Sequence[Arcs]] | None = None,
    ) -> None:
        self.settings = settings
        self.gold = [sentence.arcs for sentence in sentences]
        self.blank = [Arcs((None,) * len(each), (BLANK,) * len(each)) for each in sentences]
        self.parses = self.blank if parses is None else list(parses)
        self.mixed = [list((mixed or {})[name]) for name in settings.mix]
        self.labels = np.array([label for each in self.gold for label in each.labels])

    def draw(self, rng: np.random.Generator) -> list[Arcs]:
        """Return one graph per sentence: a parse from one of the sources, empty, or the gold tree with errors."""
        settings = self.settings
        shares = (settings.empty_share, settings.noised_share, *(each.share for each in settings.mix.values()))
        kinds = np.searchsorted(list(accumulate(shares)), rng.random(len(self.parses)), side="right").tolist()
        sources = [self.blank, self.gold, *self.mixed, self.parses]
        graphs = [sources[kind][number] for number, kind in enumerate(kinds)]
        for number, kind in enumerate(kinds):
            if sources[kind] is self.gold:
                graphs[number] = noised(graphs[number], settings.noise, self.labels, rng)
        return graphs


def noised(gold: Arcs, rate: float, labels: np.ndarray, rng: np.random.Generator) -> Arcs:
    """Give about this share of the words a wrong head, a label drawn from `labels`, or both."""
    heads, names = list(gold.heads), list(gold.labels)
    for word in np.flatnonzero(rng.random(len(heads)) < rate).tolist():
        kind = rng.integers(3)  # head, label, both
        if kind != 1:
            others = [head for head in range(len(heads) + 1) if head not in (word + 1, gold.heads[word])]
            if others:
                heads[word] = int(rng.choice(others))
        if kind != 0:
            names[word] = str(rng.choice(labels))
    return Arcs(tuple(heads), tuple(names))


def completed(recipe: Recipe, data: Data, *, is_main: bool = True) -> Recipe:
    """Return the recipe with the settings that it leaves to the treebank. Only the main model has a segmenter."""
    tags = completed_tags(recipe.tags, data.train)
    if recipe.training.given_tags and tags.source == "none":
        raise ConfigError("[training] given_tags is set, but no training word has a tag.", hint="Remove given_tags.")
    return replace(
        recipe,
        tags=tags,
        segmenter=_segmenter(recipe.segmenter, data, is_main=is_main),
        card=_card(recipe.card, recipe.treebank),
    )


def columns_to_predict(train: Sequence[Sentence]) -> list[Column]:
    """Return the columns that have values, without XPOS if UPOS has tags and XPOS has too many different ones."""
    filled = filled_columns(train)
    if "upos" in filled and len({tag for each in train for tag in each.xpos}) > MOST_XPOS:
        filled.discard("xpos")
    return [column for column in COLUMNS if column in filled]


def completed_tags(tags: TagTraining, train: Sequence[Sentence]) -> TagTraining:
    """Return the tags to predict or read; the treebank may lack those that the recipe names."""
    columns = tags.columns
    if not columns:
        found = columns_to_predict(train) if tags.source in ("auto", "predicted") else ["upos"]
        columns = tuple(column for column in COLUMNS if column in (*found, *tags.given))
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
    encoder_layers = settings.encoder_layers if is_trained else 0
    return replace(settings, train="always" if is_trained else "never", encoder_layers=encoder_layers)


def _card(card: CardSettings, treebank: TreebankSettings) -> CardSettings:
    """Fill in the languages and the name of the treebank from the names of its files."""
    found = [_named(Path(path)) for path in treebank.train]
    if treebank.by_treebank:
        codes = map(treebank_code, treebank.train)
        found = [(language_of(code), name or code) for code, (_, name) in zip(codes, found, strict=True)]
    languages = card.language or tuple(dict.fromkeys(language for language, _ in found if language))
    named = card.treebank or ", ".join(dict.fromkeys(name for _, name in found if name))
    return replace(card, language=languages, treebank=named)


def treebank_code(path: str) -> str:
    """Return the code of a treebank, from the name of its file or folder; empty if neither has the form of a code.

    >>> treebank_code("UD_Swedish-Talbanken/sv_talbanken-ud-dev.conllu"), treebank_code("ja_gsd-2.9/dev.conllu.xz")
    ('sv_talbanken', 'ja_gsd')
    >>> treebank_code("train.conllu")
    ''
    """
    name = _SHORT_NAME.match(Path(path).name)
    folder = _SHORT_FOLDER.fullmatch(Path(path).parent.name)
    return name[0] if name else folder[1] if folder else ""


def by_treebank(sentences: Iterable[Sentence]) -> dict[str, list[Sentence]]:
    """Return the sentences of each treebank; without codes of treebanks, all of them are one treebank."""
    found: dict[str, list[Sentence]] = {}
    for each in sentences:
        found.setdefault(each.treebank, []).append(each)
    return found


def balanced_shares(n_words: Sequence[int], balance: float) -> list[float]:
    """Return how often a sentence of each treebank is drawn per epoch, on average; the sum of words stays the same.

    >>> balanced_shares([100, 900], 0.5)
    [2.5, 0.8333333333333334]
    """
    wanted = [number**balance for number in n_words]
    scale = sum(n_words) / sum(wanted)
    return [scale * each / number for each, number in zip(wanted, n_words, strict=True)]


def drawn_order(treebanks: Sequence[str], sizes: Sequence[int], balance: float, rng: np.random.Generator) -> list[int]:
    """Return the numbers of the sentences of an epoch in random order; with a balance below 1, some occur repeatedly.

    `treebanks` and `sizes` are the treebank and the number of words of each sentence.
    """
    if balance == 1:
        return rng.permutation(len(treebanks)).tolist()  # type: ignore[no-any-return]
    members: dict[str, list[int]] = {}
    for number, code in enumerate(treebanks):
        members.setdefault(code, []).append(number)
    n_words = [sum(sizes[each] for each in some) for some in members.values()]
    drawn: list[int] = []
    for share, some in zip(balanced_shares(n_words, balance), members.values(), strict=True):
        whole = int(share)
        n_rest = round((share - whole) * len(some))
        drawn += whole * some
        drawn += [some[each] for each in rng.permutation(len(some))[:n_rest].tolist()]
    return [drawn[each] for each in rng.permutation(len(drawn)).tolist()]


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
