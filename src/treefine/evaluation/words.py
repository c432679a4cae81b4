"""The words of a whole file in columns, and where each stands in the text."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TypeAlias, cast

from treefine.errors import TreebankError
from treefine.treebank.conllu import read_treebank
from treefine.treebank.faults import tree_faults
from treefine.treebank.files import Source
from treefine.treebank.sentence import BLANK, Sentence

Span: TypeAlias = tuple[int, int]
Treebank: TypeAlias = "Source | Iterable[Sentence]"
AT_ROOT = -1


@dataclass(frozen=True, slots=True)
class Words:
    """All words of a file, numbered from 0 through all its sentences. Spans count characters without spaces."""

    name: str = ""
    characters: str = ""
    tokens: list[Span] = field(default_factory=list)
    sentences: list[Span] = field(default_factory=list)
    first_words: list[int] = field(default_factory=list)  # of each sentence
    places: list[tuple[str, int]] = field(default_factory=list)  # sent_id and line of each sentence
    spans: list[Span] = field(default_factory=list)  # of each word: that of its token
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

    def sentence_words(self) -> Iterator[range]:
        """The words of each sentence."""
        for first, stop in zip(self.first_words, [*self.first_words, len(self)][1:], strict=True):
            yield range(first, stop)


def load_words(
    treebank: Treebank,
    *,
    needs_trees: bool = True,
    format: str | None = None,
    on_bytes: Callable[[int], None] | None = None,
) -> Words:
    """The words of a file or of sentences at hand.

    With `needs_trees`, what the official CoNLL 2018 scorer refuses is refused: cycles, several roots, a byte order
    mark, blank lines too many, a last sentence that no blank line ends.
    """
    is_file = isinstance(treebank, str | os.PathLike) or hasattr(treebank, "read")
    if is_file:
        treebank = read_treebank(cast(Source, treebank), format=format, on_bytes=on_bytes)
    words, texts, name = Words(), [], ""
    for sentence in cast("Iterable[Sentence]", treebank):
        name = sentence.path
        if needs_trees:
            _refuse_like_official(sentence, is_file)
        texts.append(_add_sentence(words, sentence))
    return replace(words, name=name, characters="".join(texts))


def _refuse_like_official(sentence: Sentence, is_file: bool) -> None:
    for fault in tree_faults(sentence):
        raise fault
    layout = sentence.layout
    if not is_file:
        return
    if layout.start.startswith("\ufeff"):
        raise sentence.error(
            "The file starts with a byte order mark, which the official scorer refuses.", hint="Remove it."
        )
    if layout.start or layout.end.count("\n") > 2:
        message = "There are two blank lines in a row, which the official scorer reads as a sentence without words."
        raise sentence.error(message, hint="Remove one.")
    if layout.end.count("\n") < 2:
        raise sentence.error(
            "No blank line ends the last sentence, which the official scorer refuses.", hint="Add one."
        )


def _add_sentence(words: Words, sentence: Sentence) -> str:
    """Add one sentence to the columns; return its characters."""
    columns = sentence.format
    first, start = len(words), words.tokens[-1][1] if words.tokens else 0
    text = "".join(sentence.forms)
    is_plain = len(sentence) == len(sentence.columns[0]) and all(sentence.forms)
    if is_plain and text.isprintable() and " " not in text:  # of all spaces, " " alone is printable
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
    words.places.append((sentence.sent_id or f"sentence {sentence.number}", sentence.line))
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


def _add_tokens(words: Words, sentence: Sentence, position: int) -> str:
    """Add the tokens of a sentence with multiword tokens, empty nodes or spaces in forms; return its characters."""
    texts: list[str] = []
    covered = 0  # the last word of the multiword token under way
    for identifier, form in zip(sentence.columns[0], sentence.columns[sentence.format.form], strict=True):
        if "." in identifier:
            continue
        is_multiword = "-" in identifier
        is_inside = not is_multiword and int(identifier) <= covered
        if not is_inside:
            form = _without_spaces(form)
            if not form:
                raise _empty_form(sentence, identifier)
            texts.append(form)
            words.tokens.append((position, position + len(form)))
            position += len(form)
        if is_multiword:
            covered = int(identifier.partition("-")[2])
        else:
            words.forms.append(form)
            words.spans.append(words.tokens[-1])
            words.in_multiword.append(is_inside)
    return "".join(texts)


def _without_spaces(form: str) -> str:
    return form if form.isalnum() else "".join([each for each in form if unicodedata.category(each) != "Zs"])


def _empty_form(sentence: Sentence, identifier: str) -> TreebankError:
    word = int(identifier.partition("-")[0])
    return sentence.error("FORM is empty or all spaces.", word=word, hint=f"Write {BLANK} for an unknown form.")
