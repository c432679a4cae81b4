"""The words of a whole file in columns, with their places in the text."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias, cast

from treefine.treebank.conllu import read_treebank, tree_faults
from treefine.treebank.files import Source
from treefine.treebank.sentence import BLANK, HasSentence, Sentence, sentences_in

_Span: TypeAlias = tuple[int, int]
Treebank: TypeAlias = "Source | Iterable[Sentence | HasSentence]"
AT_ROOT = -1


class SentencePlace(NamedTuple):
    """The place of a sentence and its words in their file."""

    line: int
    sent_id: str
    sentence: int
    first_line: int  # the first line after the comments
    word_lines: Sequence[int]  # the line of each word, counted from there

    def of_word(self, number: int) -> dict[str, Any]:
        """Return the place of a word, numbered from 1, as the fields of an error."""
        line = self.first_line + self.word_lines[number - 1]
        return {"line": line, "sent_id": self.sent_id, "sentence": self.sentence, "word": str(number)}


@dataclass(frozen=True, slots=True)
class WordColumns:
    """All words of a file, numbered from 0 across sentences. Spans count characters without spaces."""

    name: str = ""
    characters: str = ""
    tokens: list[_Span] = field(default_factory=list)
    sentences: list[_Span] = field(default_factory=list)
    first_words: list[int] = field(default_factory=list)  # of each sentence
    places: list[SentencePlace] = field(default_factory=list)  # of each sentence
    spans: list[_Span] = field(default_factory=list)  # of each word: the span of its token
    in_multiword: list[bool] = field(default_factory=list)
    forms: list[str] = field(default_factory=list)
    lemmas: list[str] = field(default_factory=list)
    upos: list[str] = field(default_factory=list)
    xpos: list[str] = field(default_factory=list)
    feats: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    heads: list[int] = field(default_factory=list)  # a word of this file, or AT_ROOT
    n_before: int = 0  # sentences of the file before these

    def __len__(self) -> int:
        """Return the number of words."""
        return len(self.forms)

    def tags(self) -> list[str]:
        """Return UPOS of each word, or XPOS if UPOS is blank."""
        return [u if u != BLANK else x for u, x in zip(self.upos, self.xpos, strict=True)]

    def sentence_words(self) -> Iterator[range]:
        """Yield the words of each sentence."""
        for first, stop in zip(self.first_words, [*self.first_words, len(self)][1:], strict=True):
            yield range(first, stop)


def load_words(
    treebank: Treebank,
    *,
    is_ud: bool = True,
    needs_trees: bool = True,
    format: str | None = None,
    on_bytes: Callable[[int], None] | None = None,
) -> WordColumns:
    """Read the words of a file, or of sentences already in memory.

    With `is_ud`, files that the official CoNLL 2018 scorer rejects raise an error: cycles, no root or several roots, a
    byte order mark, extra blank lines, no blank line after the last sentence, a carriage return within a line. Without
    `needs_trees`, cycles and any number of roots are accepted. The scorers of the other corpora ignore multiword
    tokens, keep spaces in forms, and do not check the trees.
    """
    reader = WordReader(treebank, is_ud=is_ud, needs_trees=needs_trees, format=format, on_bytes=on_bytes)
    while reader.read_sentence():
        pass
    return reader.take()


class WordReader:
    """Reads the words of a file sentence by sentence, and returns those read so far as columns."""

    def __init__(
        self,
        treebank: Treebank,
        *,
        is_ud: bool = True,
        needs_trees: bool = True,
        format: str | None = None,
        on_bytes: Callable[[int], None] | None = None,
    ) -> None:
        self._is_file = isinstance(treebank, str | os.PathLike) or hasattr(treebank, "read")
        if self._is_file:
            treebank = read_treebank(cast(Source, treebank), format=format, on_bytes=on_bytes)
        self._sentences = sentences_in(treebank, "The treebank")
        self._is_ud, self._needs_trees = is_ud, needs_trees
        self._name = ""
        self._words, self._texts = WordColumns(), list[str]()
        self.n_sentences = self.n_characters = 0  # read since the start of the file

    def __len__(self) -> int:
        """Return the number of words that have not been taken."""
        return len(self._words)

    @property
    def characters(self) -> str:
        """The characters of these words."""
        return "".join(self._texts)

    def read_sentence(self) -> bool:
        """Read the next sentence; return False at the end of the file."""
        sentence = next(self._sentences, None)
        if sentence is None:
            return False
        self._name = sentence.path
        if self._is_ud and self._needs_trees:
            for fault in tree_faults(sentence, needs_one_root=True):
                raise fault
        if self._is_ud and self._is_file:
            _check_like_official_scorer(sentence)
        text = _add_sentence(self._words, sentence, self._is_ud)
        self._texts.append(text)
        self.n_sentences += 1
        self.n_characters += len(text)
        return True

    def take(self) -> WordColumns:
        """Return the words read since the last call, numbered from 0."""
        words = replace(self._words, name=self._name, characters=self.characters)
        self._words, self._texts = WordColumns(n_before=self.n_sentences), []
        return words


def _check_like_official_scorer(sentence: Sentence) -> None:
    start, _, end = sentence.layout
    rejected = "which the official scorer rejects"
    if start.startswith("\ufeff"):
        raise sentence.error(f"The file starts with a byte order mark, {rejected}.", hint="Remove it.")
    if start:
        raise sentence.error(f"The file starts with a blank line, {rejected}.", hint="Remove it.")
    if end.count("\n") > 2:
        message = "There are two blank lines in a row, which the official scorer reads as a sentence without words."
        raise sentence.error(message, hint="Remove one.")
    if end.count("\n") < 2:
        raise sentence.error(f"There is no blank line after the last sentence, {rejected}.", hint="Add one.")
    if any("\r" in cell for column in (sentence.comments, *sentence.columns) for cell in column):
        message = "There is a carriage return within a line, which the official scorer reads as a line end."
        raise sentence.error(message, hint="Remove it.")


def _add_sentence(words: WordColumns, sentence: Sentence, is_ud: bool) -> str:
    """Add one sentence to the columns; return its characters."""
    columns = sentence.format
    first, start = len(words), words.tokens[-1][1] if words.tokens else 0
    text = "".join(sentence.forms)
    is_plain = len(sentence) == len(sentence.columns[0]) and all(sentence.forms)
    # isprintable() is False for all other kinds of spaces.
    if not is_ud or (is_plain and text.isprintable() and " " not in text):
        ends = list(accumulate(map(len, sentence.forms), initial=start))
        spans = list(zip(ends[:-1], ends[1:], strict=True))
        words.tokens.extend(spans)
        words.spans.extend(spans)
        words.forms.extend(sentence.forms)
        words.in_multiword.extend([False] * len(spans))
    else:
        text = _add_tokens(words, sentence, start)
    words.sentences.append((start, start + len(text)))
    words.first_words.append(first)
    first_line = sentence.line + len(sentence.comments)
    words.places.append(
        SentencePlace(sentence.line, sentence.sent_id, sentence.number, first_line, sentence.word_lines)
    )
    words.lemmas.extend(sentence.column(columns.lemma))
    words.upos.extend(sentence.upos)
    words.xpos.extend(sentence.xpos)
    words.feats.extend(sentence.column(columns.feats))
    words.labels.extend(sentence.labels)
    heads = sentence.heads
    if None in heads:
        heads = sentence.graph.heads  # raises an error with the place
    words.heads.extend([first + head - 1 if head else AT_ROOT for head in heads])
    return text


def _add_tokens(words: WordColumns, sentence: Sentence, position: int) -> str:
    """Add the tokens of a sentence with multiword tokens, empty nodes or spaces in forms; return its characters."""
    texts: list[str] = []
    forms = sentence.forms
    for token in sentence.tokens():
        text = token.form
        if not text.isalnum():
            text = "".join([each for each in text if unicodedata.category(each) != "Zs"])
        if not text:
            raise sentence.error("FORM is empty or contains only spaces.", word=token.words[0])
        texts.append(text)
        span = (position, position + len(text))
        position += len(text)
        words.tokens.append(span)
        is_multiword = len(token.words) > 1
        words.forms.extend([forms[number - 1] for number in token.words] if is_multiword else [text])
        words.spans.extend([span] * len(token.words))
        words.in_multiword.extend([is_multiword] * len(token.words))
    return "".join(texts)
