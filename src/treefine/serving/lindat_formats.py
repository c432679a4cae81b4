"""The formats that UDPipe reads and writes, beside CoNLL-U: words a line or sentences a line, and plain text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from treefine.errors import TreebankError, TreefineError
from treefine.serving.schema import sentences_of
from treefine.treebank.raw_text import gap_of, raw_text, text_of
from treefine.treebank.sentence import BLANK, PLAIN, Sentence
from treefine.version import __version__

INPUTS = ("conllu", "generic_tokenizer", "horizontal", "vertical")
OUTPUTS = ("conllu", "horizontal", "plaintext", "vertical")
_START = re.compile(r"#\s*new(doc|par)\b")
_NO_BREAK_SPACE = "\u00a0"  # stands for a space in a word where a space parts two words


def read_sentences(data: str, format: str) -> tuple[Sentence, ...]:
    """The sentences of what a client sent in one of the formats that are cut into words."""
    data = with_line_feeds(data.removeprefix("\ufeff"))
    if format == "horizontal":
        return tuple(_sentences(_horizontal(data)))
    if format == "vertical":
        return tuple(_sentences(_vertical(data)))
    return tuple([replace(each, layout=PLAIN) for each in sentences_of(data)]) if data.strip() else ()


def with_line_feeds(data: str) -> str:
    """The text with a line feed for each end of a line: libraries that send forms make CRLF of it."""
    return data.replace("\r\n", "\n").replace("\r", "\n")


def write_sentences(sentences: Sequence[Sentence], format: str, options: Iterable[str], *, model: str) -> str:
    """The sentences in the format that was asked for. CoNLL-U begins with who made it, as UDPipe's does."""
    if format == "plaintext" and "normalized_spaces" not in options:
        return text_of(sentences)
    if format == "conllu":
        first = (f"# generator = treefine {__version__}", f"# udpipe_model = {model}")
        made = [replace(each, comments=(*first, *each.comments)) for each in sentences[:1]]
        return "".join([each.to_text() for each in (*made, *sentences[1:])])
    shows_paragraphs = format == "plaintext" or "paragraphs" in options
    return "".join(
        [
            ("\n" if number and shows_paragraphs and _starts_paragraph(each) else "") + _written(each, format)
            for number, each in enumerate(sentences)
        ]
    )


def as_new_document(sentences: Sequence[Sentence]) -> tuple[Sentence, ...]:
    """Sentences that were cut from a text, the first with the comments that start a document."""
    return tuple(
        [replace(each, comments=("# newdoc", "# newpar", *each.comments)) for each in sentences[:1]]
        + list(sentences[1:])
    )


def with_ranges(sentences: Sequence[Sentence]) -> tuple[Sentence, ...]:
    """Sentences that were cut from a text, with the characters of each token in MISC as TokenRange=0:4."""
    spans = iter(raw_text(sentences).spans)
    return tuple(
        [_with_token_notes(each, [f"TokenRange={a}:{b}" for a, b in _next(spans, each)]) for each in sentences]
    )


def with_normal_spaces(sentence: Sentence) -> Sentence:
    """The sentence without notes on white space but SpaceAfter=No."""
    misc = ["|".join([note for note in cell.split("|") if not _is_on_spaces(note)]) for cell in sentence.columns[-1]]
    return replace(sentence, columns=(*sentence.columns[:-1], tuple([cell or BLANK for cell in misc])))


def _horizontal(data: str) -> Iterator[tuple[int, bool, list[str]]]:
    """The line, whether a paragraph starts there, and the words of each sentence."""
    starts = True
    for number, line in enumerate(data.split("\n"), start=1):
        words = [word.replace(_NO_BREAK_SPACE, " ") for word in re.split("[ \t]+", line) if word]
        if words:
            yield number, starts, words
        starts = not words


def _vertical(data: str) -> Iterator[tuple[int, bool, list[str]]]:
    """The same where each word has a line, of which the first column counts, and each sentence a blank line."""
    starts, first, n_blank, words = True, 1, 0, list[str]()
    for number, line in enumerate((*data.split("\n"), ""), start=1):
        word = line.lstrip("\t").partition("\t")[0].strip(" ")
        if word and not words:
            first, starts, n_blank = number, starts or n_blank > 1, 0
        if word:
            words.append(word)
            continue
        n_blank += 1
        if words:
            yield first, starts, words
            starts, words = False, []


def _sentences(found: Iterable[tuple[int, bool, list[str]]]) -> Iterator[Sentence]:
    for number, (line, starts_paragraph, words) in enumerate(found, start=1):
        try:
            sentence = Sentence.of_words(words)
        except TreebankError as error:
            raise TreebankError(error.message, line=line, sentence=number) from error
        start = ["# newdoc"] * (number == 1) + ["# newpar"] * starts_paragraph
        yield replace(sentence, comments=(*start, f"# sent_id = {number}"), line=line, number=number)


def _written(sentence: Sentence, format: str) -> str:
    if format == "horizontal":
        return " ".join([form.replace(" ", _NO_BREAK_SPACE) for form in sentence.forms]) + "\n"
    if format == "vertical":
        return "\n".join(sentence.forms) + "\n\n"
    return "".join([token.form + " " * bool(gap_of(token.misc)) for token in sentence.tokens()]).rstrip(" ") + "\n"


def _starts_paragraph(sentence: Sentence) -> bool:
    return any(map(_START.match, sentence.comments))


def _next(spans: Iterator[tuple[int, int]], sentence: Sentence) -> list[tuple[int, int]]:
    return [next(spans) for _ in sentence.tokens()]


def _with_token_notes(sentence: Sentence, notes: Sequence[str]) -> Sentence:
    """The sentence with one more note for each token; that of a multiword token stands in its own line."""
    misc, waiting, covered = list(sentence.columns[-1]), iter(notes), 0
    for line, identifier in enumerate(sentence.columns[0]):
        first, _, last = identifier.partition("-")
        if int(first) > covered:
            covered = int(last or first)
            misc[line] = "|".join([note for note in (misc[line], next(waiting)) if note != BLANK])
    return replace(sentence, columns=(*sentence.columns[:-1], tuple(misc)))


def _is_on_spaces(note: str) -> bool:
    return note.startswith(("SpacesBefore=", "SpacesAfter="))


def checked_format(asked: str, known: Sequence[str], name: str) -> tuple[str, tuple[str, ...]]:
    """The format in a parameter such as `horizontal=paragraphs`, and its options; UDPipe heeds none it does not know.

    >>> checked_format("plaintext=normalized_spaces", OUTPUTS, "output")
    ('plaintext', ('normalized_spaces',))
    """
    format, _, options = asked.partition("=")
    if format not in known:
        raise TreefineError(f"There is no {name} format {format[:40]!r} here.", hint=f"Choose {', '.join(known)}.")
    return format, options_in(options)


def options_in(asked: str) -> tuple[str, ...]:
    """The options of a parameter, such as `ranges;presegmented`."""
    return tuple(option.strip() for option in asked.split(";"))
