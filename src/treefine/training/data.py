"""The treebanks of a recipe, read and looked over before any work starts."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from treefine.config import Column
from treefine.errors import ConfigError, TreefineError
from treefine.evaluation.scores import rule_of
from treefine.training.recipe import TreebankSettings, expand
from treefine.treebank.conllu import read_treebank
from treefine.treebank.sentence import BLANK, Sentence
from treefine.treebank.validate import tree_faults

FEWEST = 10  # sentences to learn from


@dataclass(frozen=True)
class Data:
    """Sentences to learn from, and to choose the best epoch by."""

    train: tuple[Sentence, ...]
    dev: tuple[Sentence, ...]
    checksums: dict[str, str]  # SHA-256 of each file, by its path in the recipe
    warnings: tuple[str, ...] = ()


def load_data(settings: TreebankSettings) -> Data:
    """Read the treebanks. All that makes one of them unfit is told in one error, a line for each."""
    faults: list[str] = []
    read = [_read(path, settings, faults) for path in settings.train]
    train = [sentence for sentences in read for sentence in sentences or ()]
    dev = _read(settings.dev, settings, faults) or []
    if None not in read and len(train) < FEWEST:
        count = f"{len(train)} sentence{'s' if len(train) > 1 else ''}"
        faults.append(f"{', '.join(settings.train)}: {count} to learn from, but at least {FEWEST} are needed.")
    if faults:
        raise ConfigError("\n".join(faults))
    checksums = checksums_of((*settings.train, settings.dev))
    return Data(tuple(train), tuple(dev), checksums, tuple(_unseen_labels(train, dev, settings)))


def checksums_of(paths: Iterable[str]) -> dict[str, str]:
    """The SHA-256 of each file, by its path in the recipe."""
    return {path: hashlib.sha256(Path(expand(path)).read_bytes()).hexdigest() for path in paths}


def filled_columns(sentences: Iterable[Sentence]) -> set[Column]:
    """The columns in which a word has a tag."""
    found: set[Column] = set()
    for sentence in sentences:
        columns: dict[Column, tuple[str, ...]] = {"upos": sentence.upos, "xpos": sentence.xpos}
        found |= {name for name, tags in columns.items() if any(tag != BLANK for tag in tags)}
    return found


def _read(path: str, settings: TreebankSettings, faults: list[str]) -> list[Sentence] | None:
    """The sentences of a file, or None if it cannot be read; what is wrong with it is added to the faults."""
    try:
        sentences = list(read_treebank(expand(path), format=settings.format or None))
    except (TreefineError, OSError) as error:
        faults.append(f"{path}: {error.strerror or error}" if isinstance(error, OSError) else str(error))
        return None
    needs_one_root = rule_of(settings.rule).is_ud
    wrong = [fault for each in sentences for fault in tree_faults(each, needs_one_root=needs_one_root)]
    wrong += [each.error("A word has no label.") for each in sentences if BLANK in each.labels]
    if wrong:
        more = f" {len(wrong) - 1} more like it: see them with treefine validate." if len(wrong) > 1 else ""
        faults.append(f"{wrong[0]}{more}")
    return sentences


def _unseen_labels(train: Iterable[Sentence], dev: Iterable[Sentence], settings: TreebankSettings) -> Iterable[str]:
    """A warning of labels that only dev has, as its rule compares them: UD's without their subtypes."""
    is_ud = rule_of(settings.rule).is_ud

    def labels(sentences: Iterable[Sentence]) -> Iterator[str]:
        for sentence in sentences:
            yield from (label.partition(":")[0] if is_ud else label for label in sentence.labels)

    known = set(labels(train))
    unseen = Counter(label for label in labels(dev) if label not in known)
    if unseen:
        listed = ", ".join(f"{label} ({count})" for label, count in unseen.most_common(5))
        more = f" and {len(unseen) - 5} others" if len(unseen) > 5 else ""
        yield f"{settings.dev}: the training set has no such label, so these words cannot be right: {listed}{more}."
