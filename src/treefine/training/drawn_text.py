"""The text of a treebank as a segmenter learns from it: each epoch in another order, and in part written otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from treefine.training.segmenter_settings import SegmenterTraining
from treefine.treebank.raw_text import PARAGRAPH, RawText, RawToken, documents, joined, raw_sentences
from treefine.treebank.sentence import Sentence

Cut: TypeAlias = "list[RawToken]"  # a sentence
BLOCK = 20  # sentences that stay together in a treebank that names no documents
NARROWEST, WIDEST = 30, 100  # characters of a wrapped line


@dataclass(frozen=True)
class Documents:
    """Sentences that belong together, cut into tokens."""

    texts: tuple[tuple[Cut, ...], ...]
    are_named: bool  # by the treebank; else they are blocks of its sentences, with no blank line between them

    @classmethod
    def of(cls, sentences: Sequence[Sentence]) -> Documents:
        """The documents of a treebank."""
        _, cut = raw_sentences(sentences)
        ranges = list(documents(sentences))
        are_named = len(ranges) > 1
        if not are_named:
            ranges = [range(first, min(first + BLOCK, len(cut))) for first in range(0, len(cut), BLOCK)]
        for each in ranges:  # what follows a document is drawn later, and its last sentence may come to stand within it
            cut[each.stop - 1] = _followed_by(cut[each.stop - 1], " ")
        return cls(tuple(tuple(cut[each.start : each.stop]) for each in ranges), are_named)

    def draw(self, settings: SegmenterTraining, rng: np.random.Generator) -> RawText:
        """All documents in a new order, some of them written otherwise."""
        text: list[Cut] = []
        for number in rng.permutation(len(self.texts)).tolist():
            document = [_changed(sentence, settings, rng) for sentence in self.texts[number]]
            if rng.random() < settings.shuffled:  # else the neighbours of each sentence would be learned by heart
                document = [document[place] for place in rng.permutation(len(document)).tolist()]
            text += _with_lines(document, settings, rng)
            is_apart = self.are_named and rng.random() >= settings.joined
            text[-1] = _followed_by(text[-1], PARAGRAPH if is_apart else " ")
        return joined(text)


def _changed(sentence: Cut, settings: SegmenterTraining, rng: np.random.Generator) -> Cut:
    """The sentence, or it in small letters, or it without its last full stop."""
    if rng.random() < settings.lowered:
        sentence = [RawToken(form.lower(), words, gap) for form, words, gap in sentence]
    if rng.random() < settings.unpointed and len(sentence) > 1 and sentence[-1].form in (".", "!", "?"):
        sentence = _followed_by(sentence[:-1], sentence[-1].gap)
    return sentence


def _with_lines(document: list[Cut], settings: SegmenterTraining, rng: np.random.Generator) -> list[Cut]:
    """The document in one line, or in lines of some width, or with a sentence a line."""
    choice = rng.random()
    if choice < settings.wrapped:
        return _wrapped(document, int(rng.integers(NARROWEST, WIDEST)))
    if choice < settings.wrapped + settings.lines:
        return [_followed_by(sentence, "\n") for sentence in document]
    return document


def _wrapped(document: list[Cut], width: int) -> list[Cut]:
    wrapped, column = [], 0
    for sentence in document:
        wrapped.append(list[RawToken]())
        for token in sentence:
            column += len(token.form) + len(token.gap)
            if token.gap == " " and column > width:
                token, column = token._replace(gap="\n"), 0
            wrapped[-1].append(token)
    return wrapped


def _followed_by(sentence: Cut, gap: str) -> Cut:
    return [*sentence[:-1], sentence[-1]._replace(gap=gap)]
