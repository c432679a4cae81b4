"""The words of a whole file in columns, and where each stands in the text."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias, cast

from treefine.treebank.conllu import read_treebank, tree_faults
from treefine.treebank.files import Source
from treefine.treebank.sentence import BLANK, Sentence

_Span: TypeAlias = tuple[int, int]
Treebank: TypeAlias = "Source | Iterable[Sentence]"
AT_ROOT = -1


class SentencePlace(NamedTuple):
    """Where a sentence and its words stand in their file."""

    line: int
    sent_id: str
    sentence: int
    first_line: int  # after the comments
    word_lines: Sequence[int]  # of each word, from there

    def of_word(self, number: int) -> dict[str, Any]:
        """Return the place of one of its words, from 1, as the fields of an error."""
        line = self.first_line + self.word_lines[number - 1]
        return {"line": line, "sent_id": self.sent_id, "sentence": self.sentence, "word": str(number)}


@dataclass(frozen=True, slots=True)
class WordColumns:
    """All words of a file, numbered from 0 through all its sentences. Spans count characters without spaces."""

    name: str = ""
    characters: str = ""
    tokens: list[_Span] = field(default_factory=list)
    sentences: list[_Span] = field(default_factory=list)
    first_words: list[int] = field(default_factory=list)  # of each sentence
    places: list[SentencePlace] = field(default_factory=list)  # of each sentence
    spans: list[_Span] = field(default_factory=list)  # of each word: that of its token
    in_multiword: list[bool] = field(default_factory=list)
    forms: list[str] = field(default_factory=list)
    lemmas: list[str] = field(default_factory=list)
    upos: list[str] = field(default_factory=list)
    xpos: list[str] = field(default_factory=list)
    feats: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    heads: list[int] = field(default_factory=list)  # a word of this file, or AT_ROOT

    def __len__(self) -> int:
        """Return the number of words."""
        return len(self.forms)

    def tags(self) -> list[str]:
        """Return UPOS of each word, or XPOS where that is blank."""
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
    """Read the words of a file, or of sentences that were read before.

    Universal Dependencies are refused as the official CoNLL 2018 scorer refuses them: cycles, no root or several, a
    byte order mark, surplus blank lines, no blank line after the last sentence, a carriage return within a line.
    Without `needs_trees`, cycles and any number of roots are accepted. The scorers of the other corpora
    know no multiword tokens and no spaces in forms, and do not look at the trees.
    """
    is_file = isinstance(treebank, str | os.PathLike) or hasattr(treebank, "read")
    if is_file:
        treebank = read_treebank(cast(Source, treebank), format=format, on_bytes=on_bytes)
    words, texts, name = WordColumns(), [], ""
    for sentence in cast("Iterable[Sentence]", treebank):
        name = sentence.path
        if is_ud and needs_trees:
            for fault in tree_faults(sentence, needs_one_root=True):
                raise fault
        if is_ud and is_file:
            _refuse_like_official(sentence)
        texts.append(_add_sentence(words, sentence, is_ud))
    return replace(words, name=name, characters="".join(texts))


def _refuse_like_official(sentence: Sentence) -> None:
    start, _, end = sentence.layout
    refused = "which the official scorer refuses"
    if start.startswith("\ufeff"):
        raise sentence.error(f"The file starts with a byte order mark, {refused}.", hint="Remove it.")
    if start:
        raise sentence.error(f"The file starts with a blank line, {refused}.", hint="Remove it.")
    if end.count("\n") > 2:
        message = "There are two blank lines in a row, which the official scorer reads as a sentence without words."
        raise sentence.error(message, hint="Remove one.")
    if end.count("\n") < 2:
        raise sentence.error(f"No blank line ends the last sentence, {refused}.", hint="Add one.")
    if any("\r" in cell for column in (sentence.comments, *sentence.columns) for cell in column):
        raise sentence.error("A carriage return stands within a line, which the official scorer takes for its end.")


def _add_sentence(words: WordColumns, sentence: Sentence, is_ud: bool) -> str:
    """Add one sentence to the columns; return its characters."""
    columns = sentence.format
    first, start = len(words), words.tokens[-1][1] if words.tokens else 0
    text = "".join(sentence.forms)
    is_plain = len(sentence) == len(sentence.columns[0]) and all(sentence.forms)
    # Of all spaces, " " alone is printable.
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
        heads = sentence.graph.heads  # which raises
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
            raise sentence.error("FORM is empty or all spaces.", word=token.words[0])
        texts.append(text)
        span = (position, position + len(text))
        position += len(text)
        words.tokens.append(span)
        is_multiword = len(token.words) > 1
        words.forms.extend([forms[number - 1] for number in token.words] if is_multiword else [text])
        words.spans.extend([span] * len(token.words))
        words.in_multiword.extend([is_multiword] * len(token.words))
    return "".join(texts)
