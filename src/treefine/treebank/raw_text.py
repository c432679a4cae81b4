"""Rebuild the running text of a treebank from its sentences, and find the words in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from treefine.treebank.sentence import BLANK, Sentence

Span: TypeAlias = tuple[int, int]  # [start, end) in a text
PARAGRAPH = "\n\n"  # between paragraphs and between documents, unless MISC says otherwise
_ESCAPES = {" ": r"\s", "\t": r"\t", "\r": r"\r", "\n": r"\n", "|": r"\p", "\\": r"\\"}
_MEANINGS = {escape: character for character, escape in _ESCAPES.items()}
_ESCAPE = re.compile(r"\\u[0-9a-fA-F]{4}|\\.", re.DOTALL)
_START = re.compile(r"#\s*new(doc|par)\b")


class RawToken(NamedTuple):
    """A token as written in the text, and the gap after it."""

    form: str
    words: tuple[str, ...]  # just the form, unless it is a multiword token
    gap: str


class GapToken(NamedTuple):
    """A token of running text, with the white space on both sides of it."""

    form: str
    before: str
    after: str


_GAP_KINDS = 4  # nothing, spaces, a line break, a blank line
N_GAPS = _GAP_KINDS**2


def gap_kinds(token: GapToken) -> int:
    r"""Return a number from 1 to N_GAPS for the kinds of white space before and after a token.

    >>> gap_kinds(GapToken("a", "", "")), gap_kinds(GapToken("a", " ", "\n")), gap_kinds(GapToken("a", "\n\n", "\n \n"))
    (1, 7, 16)
    """
    before, after = (
        min(gap.count("\n") or gap.count("\r"), 2) + 1 if gap.strip(" \t\xa0") else int(bool(gap))
        for gap in (token.before, token.after)
    )
    return before * _GAP_KINDS + after + 1


@dataclass(frozen=True, slots=True)
class RawText:
    """A text and its segmentation; `spans`, `words` and `ends_sentence` have one entry per token."""

    text: str
    spans: tuple[Span, ...]
    words: tuple[tuple[str, ...], ...]
    ends_sentence: tuple[bool, ...]


def raw_text(sentences: Iterable[Sentence]) -> RawText:
    """Return the text of these sentences and its segmentation."""
    before, cut = raw_sentences(sentences)
    return joined(cut, before=before)


def text_of(sentences: Iterable[Sentence]) -> str:
    r"""Return the text of these sentences. For the output of a segmenter, this is exactly its input.

    >>> text_of([Sentence.of_words(["Dogs", "bark"]), Sentence.of_words(["Cats", "do", "not"])])
    'Dogs bark Cats do not'
    """
    return raw_text(sentences).text


def raw_sentences(sentences: Iterable[Sentence]) -> tuple[str, list[list[RawToken]]]:
    """Return the gap before the first token, and the tokens of each sentence with the gaps after them."""
    before, cut = "", list[list[RawToken]]()
    is_explicit = True  # whether the gap before the sentence is known, from MISC or because the text starts here
    for sentence in sentences:
        if not is_explicit and any(map(_START.match, sentence.comments)):
            cut[-1][-1] = cut[-1][-1]._replace(gap=PARAGRAPH)
        tokens, forms = list[RawToken](), sentence.forms
        for token in sentence.tokens():
            if not cut and not tokens:
                before = _note(token.misc, "SpacesBefore") or ""
            several = len(token.words) > 1
            words = tuple(forms[number - 1] for number in token.words) if several else (token.form,)
            tokens.append(RawToken(token.form, words, gap_of(token.misc)))
        is_explicit = _note(token.misc, "SpacesAfter") is not None
        cut.append(tokens)
    if cut and not is_explicit:
        cut[-1][-1] = cut[-1][-1]._replace(gap="")  # nothing follows the last token unless MISC says so
    return before, cut


def joined(cut: Iterable[Sequence[RawToken]], *, before: str = "") -> RawText:
    """Join the tokens of sentences into a text."""
    parts, position = [before], len(before)
    spans, words, ends = list[Span](), list[tuple[str, ...]](), list[bool]()
    for sentence in cut:
        for token in sentence:
            parts += (token.form, token.gap)
            spans.append((position, position + len(token.form)))
            words.append(token.words)
            position += len(token.form) + len(token.gap)
        ends += [False] * (len(sentence) - 1) + [True]
    return RawText("".join(parts), tuple(spans), tuple(words), tuple(ends))


def gap_of(misc: str) -> str:
    r"""Return the gap after a token with this MISC.

    >>> gap_of("_"), gap_of("SpaceAfter=No"), gap_of(r"Gloss=and|SpacesAfter=\s\n")
    (' ', '', ' \n')
    """
    if "SpaceAfter=No" in misc.split("|"):
        return ""
    after = _note(misc, "SpacesAfter")
    return " " if after is None else after


def misc_of(gap: str, *, before: str = "", is_last: bool = False) -> str:
    r"""Return the MISC value of a token with these gaps; the last token of a text records even a single space.

    >>> misc_of(" "), misc_of(""), misc_of("\n", before="\t")
    ('_', 'SpaceAfter=No', 'SpacesBefore=\\t|SpacesAfter=\\n')
    """
    notes = [f"SpacesBefore={escaped(before)}"] if before else []
    if not gap:
        notes.append("SpaceAfter=No")
    elif gap != " " or is_last:
        notes.append(f"SpacesAfter={escaped(gap)}")
    return "|".join(notes) or BLANK


def escaped(gap: str) -> str:
    r"""Escape whitespace for a cell: \s \t \r \n \p \\ as UDPipe does, other characters as \uXXXX.

    >>> escaped(" \n\x00\u3000")
    '\\s\\n\\u0000\\u3000'
    """
    return "".join([_ESCAPES.get(each) or f"\\u{ord(each):04x}" for each in gap])


def unescaped(cell: str) -> str:
    """Return the whitespace that `escaped` wrote; leave everything else as it is."""

    def meant(found: re.Match[str]) -> str:
        escape = found[0]
        return chr(int(escape[2:], 16)) if len(escape) > 2 else _MEANINGS.get(escape, escape)

    return _ESCAPE.sub(meant, cell)


def _note(misc: str, key: str) -> str | None:
    """Return the gap that MISC stores under this key, or None."""
    for note in misc.split("|"):
        name, equals, value = note.partition("=")
        if name == key and equals:
            return unescaped(value)
    return None


def documents(sentences: Sequence[Sentence]) -> Iterator[range]:
    """Yield the sentences of each paragraph, as a range of their indices in the list."""
    starts = [place for place, each in enumerate(sentences) if any(map(_START.match, each.comments))]
    marks = sorted({0, *starts, len(sentences)})
    for first, stop in zip(marks, marks[1:], strict=False):
        yield range(first, stop)


def own_text(sentence: Sentence) -> str:
    """Return the text of a sentence: the comment `# text` if it has one, or its tokens joined by spaces."""
    return sentence.text if sentence.text is not None else " ".join(token.form for token in sentence.tokens())


def spans_in(text: str, sentence: Sentence) -> tuple[Span, ...]:
    """Return the span of each word in the text of its sentence; the span of a form that is not found is empty.

    >>> spans_in("Don't  go", Sentence.of_words(["Do", "n't", "x", "go"]))
    ((0, 2), (2, 5), (7, 7), (7, 9))
    """
    spans: list[Span] = []
    place = 0
    for token in sentence.tokens():
        while place < len(text) and text[place].isspace():
            place += 1
        end = place + len(token.form) * text.startswith(token.form, place)
        spans += [(place, end)] * len(token.words)
        place = end
    return tuple(spans)
