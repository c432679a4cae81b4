"""Warn about a text that has one sentence per line, or that is not in the model's language."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from treefine.errors import TreefineError
from treefine.segmenter.language import SAMPLE, LanguageCheck

if TYPE_CHECKING:
    from treefine.segmenter.cut import Segmented
    from treefine.treebank.sentence import Sentence

_FEWEST_LINES, _MOST_LINES = 10, 200  # that are counted
_MOST_CHARS = 150  # mean length of the lines of a list
_LEAST_ENDS = 0.6  # share of the line ends that are boundaries
_MOST_INSIDE = 0.05  # share of the sentences that end within a line
_MOST_UNFINISHED = 0.1  # share of the lines that end with a comma, as verse does
_UNFINISHED = frozenset(",;:-–—，、；：")


class TextCheck:
    """Watches the sentences of texts, and gives each of two warnings at most once."""

    def __init__(self, language: LanguageCheck, on_warning: Callable[[TreefineError], None]) -> None:
        self._on_warning, self._language, self._is_advised = on_warning, language, False

    def watched(self, found: Iterable[Segmented], path: str, *, is_lines: bool) -> Iterator[Segmented]:
        """Yield these sentences; warn when enough of them were seen, or after the last."""
        lines, texts, n_chars = None if is_lines or self._is_advised else _LineCounts(), list[str](), 0
        for each in found:
            if n_chars < SAMPLE:
                texts.append(each.sentence.text or "")
                n_chars += len(texts[-1])
                if n_chars >= SAMPLE:
                    self._check_language(texts, path)
            if lines is not None:
                lines.count(each.sentence)
                if lines.n_lines >= _MOST_LINES:
                    self._advise(lines, path)
                    lines = None
            yield each
        if n_chars < SAMPLE:
            self._check_language(texts, path)
        if lines is not None:
            self._advise(lines, path)

    def _check_language(self, texts: Sequence[str], path: str) -> None:
        warning = self._language.warning(" ".join(texts))
        if warning is not None:
            self._on_warning(TreefineError(warning, path=path))

    def _advise(self, lines: _LineCounts, path: str) -> None:
        if lines.are_sentences:
            self._is_advised = True
            message = "The text looks like one sentence per line."
            self._on_warning(TreefineError(message, hint="If it is, use --from lines.", path=path))


@dataclass
class _LineCounts:
    """Counts of lines and of the sentences in them."""

    n_lines: int = 0
    n_chars: int = 0
    n_ends: int = 0  # sentences that end with their line
    n_inside: int = 0  # sentences that end within a line
    n_unfinished: int = 0  # lines that end with a comma

    def count(self, sentence: Sentence) -> None:
        """Count the lines of a sentence; MISC has the line ends."""
        for token in sentence.tokens():
            ends_line = r"\n" in token.misc
            self.n_lines += ends_line
            self.n_unfinished += ends_line and token.form[-1] in _UNFINISHED
        self.n_ends += ends_line
        self.n_inside += not ends_line
        self.n_chars += len(sentence.text or "")

    @property
    def are_sentences(self) -> bool:
        """Whether most lines are sentences, and the lines are short."""
        return (
            self.n_lines >= _FEWEST_LINES
            and self.n_chars <= _MOST_CHARS * self.n_lines
            and self.n_ends >= _LEAST_ENDS * self.n_lines
            and self.n_inside <= 1 + _MOST_INSIDE * self.n_ends  # the last line may have no line end
            and self.n_unfinished <= _MOST_UNFINISHED * self.n_lines
        )
