"""Read, write, convert and validate treebanks as a stream, in constant memory.

The formats are CoNLL-U, CoNLL-X and CoNLL-2009. Valid files are written back byte for byte.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
from itertools import pairwise
from pathlib import PurePath
from typing import BinaryIO, Literal, NamedTuple

from treefine.errors import EmptyError, TreebankError, shortened, visible
from treefine.treebank.files import (
    COMPRESSED,
    COMPRESSED_NAMES,
    Source,
    name_of,
    not_utf8,
    open_input,
    open_output,
    utf8_lines,
)
from treefine.treebank.graph import find_cycles
from treefine.treebank.sentence import BLANK, CONLLU, PLAIN, Format, HasSentence, Layout, Sentence, sentences_in

_NAMES = tuple("ID FORM LEMMA CPOSTAG POSTAG FEATS HEAD DEPREL PHEAD PDEPREL".split())
_NAMES_2009 = tuple("ID FORM LEMMA PLEMMA POS PPOS FEAT PFEAT HEAD PHEAD DEPREL PDEPREL FILLPRED PRED".split())
CONLLX = Format("conllx", "CoNLL-X", (".conllx", ".conll"), _NAMES)
CONLL09 = Format(
    "conll09", "CoNLL-2009", (".conll09", ".conll2009"), _NAMES_2009, "APRED", upos=None, feats=6, head=8, deprel=10
)
# The same file, with the columns of an automatic tagger (PLEMMA, PPOS, PFEAT) instead of the gold ones.
CONLL09_PREDICTED = replace(CONLL09, name="conll09-predicted", suffixes=(), lemma=3, xpos=5, feats=7)
FORMATS = {each.name: each for each in (CONLLU, CONLLX, CONLL09, CONLL09_PREDICTED)}
TREEBANK_SUFFIXES = tuple(suffix for each in FORMATS.values() for suffix in each.suffixes)

_CHUNK = 1 << 16  # bytes read at a time
_STRETCH = 1 << 18  # bytes of a part of a file that is read separately
_LONGEST = 1 << 24  # bytes of a sentence with the blank lines around it, about 200,000 words; more is not plausible
_WIDEST = 1 << 16  # blank lines in a row; more are not plausible either
_FILE_START = re.compile(rb"(?:\xef\xbb\xbf)?(?:\r?\n)*")  # a byte order mark, blank lines
_BETWEEN_SENTENCES = re.compile(rb"(\n(?:\r?\n)+)")
_NO_SENTENCE, _EMPTY_HINT = "The file contains no sentences.", "Is it the right file?"
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
_RANGE = re.compile(r"([1-9][0-9]{0,8})-([1-9][0-9]{0,8})")
_EMPTY_NODE = re.compile(r"(0|[1-9][0-9]{0,8})\.([1-9][0-9]{0,8})")
_NUMBERS = tuple(map(str, range(1, 1001)))


def format_of(path: str, name: str | None = None) -> Format:
    """Return the format called `name`. Without a name, the file's suffix decides; unknown suffixes mean CoNLL-U."""
    if name is not None:
        if not isinstance(name, str) or name not in FORMATS:
            raise TreebankError(f"There is no format {name!r}.", hint=f"Choose one of {', '.join(FORMATS)}.")
        return FORMATS[name]
    return format_by_name(path) or CONLLU


def format_by_name(path: str) -> Format | None:
    """Return the format of a file's suffix, or None if the suffix is unknown."""
    return next((each for each in FORMATS.values() if suffix_of(path) in each.suffixes), None)


def suffix_of(path: str) -> str:
    """Return the last suffix of a file's name in lower case: ".txt" for "Notes.TXT.gz", "" for a name without one."""
    suffixes = [suffix for suffix in PurePath(path.lower()).suffixes if suffix not in COMPRESSED]
    return suffixes[-1] if suffixes else ""


def read_treebank(
    source: Source,
    *,
    format: str | None = None,
    on_error: Literal["raise", "skip"] = "raise",
    on_skip: Callable[[TreebankError], None] | None = None,
    on_bytes: Callable[[int], None] | None = None,
    name: str | None = None,
) -> Iterator[Sentence]:
    """Yield the sentences of a treebank.

    `source` is a path, `-` for standard input (both are decompressed), or an open binary file. `format` is conllu,
    conllx, conll09 or conll09-predicted; without it, the suffix of the file decides. A sentence that cannot be read
    raises TreebankError. With on_error="skip" it is skipped and its faults are reported, to `on_skip` or on standard
    error; the other sentences keep their numbers. `name` is that of an open file in messages.
    """
    if on_error not in ("raise", "skip"):
        raise TreebankError(f"on_error must be 'raise' or 'skip', not {on_error!r}.")
    for read in read_blocks(source, format=format, on_bytes=on_bytes, name=name):
        if isinstance(read, Sentence):
            yield read
        elif on_error == "raise":
            raise read.faults[0]
        else:
            for fault in read.faults:
                if on_skip is not None:
                    on_skip(fault)
                else:
                    sys.stderr.write(f"skipped: {fault}\n")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A block of lines that is not a valid sentence, with the reasons."""

    line: int
    number: int
    sent_id: str
    faults: tuple[TreebankError, ...]


def read_blocks(
    source: Source, *, format: str | None = None, on_bytes: Callable[[int], None] | None = None, name: str | None = None
) -> Iterator[Sentence | Unreadable]:
    """Yield the blocks between blank lines, in order: sentences, and blocks that are not valid sentences."""
    path, number = name or name_of(source), 1
    form = format_of(path, format)
    with open_input(source, on_bytes=on_bytes) as stream:
        for stretch in cut_treebank(stream, path, size=_CHUNK):
            for read in read_stretch(stretch, form, path, number=number):
                yield read
                number = read.number + 1


class Stretch(NamedTuple):
    """A part of a file that consists of whole sentences."""

    data: bytes
    line: int  # the number of its first line in the file, from 1


def cut_treebank(stream: BinaryIO, path: str, *, size: int = _STRETCH) -> Iterator[Stretch]:
    """Cut a file at blank lines into stretches of about `size` bytes, which can be read in parallel."""
    line, rest = 1, b""
    while chunk := stream.read(size):
        is_start = line == 1 and not rest
        rest += chunk
        if is_start and b"\0" in rest.partition(b"\n")[0]:
            hint = (
                f"If it is compressed, its name must end in {COMPRESSED_NAMES}; if it is UTF-16, convert it to UTF-8."
            )
            raise TreebankError("This is not a text file: it contains null bytes.", hint=hint, path=path)
        filled = len(rest.rstrip(b"\r\n"))  # the next chunk may continue the blank lines after it
        if rest.count(b"\n", filled) > _WIDEST:  # they would be read again with each chunk
            message = f"There are more than {_WIDEST:,} blank lines in a row."
            raise TreebankError(message, hint="Is this a treebank?", path=path, line=line)
        gaps = [(rest.rfind(gap, 0, filled), len(gap)) for gap in (b"\n\n", b"\n\r\n")]
        end = max(start + length if start >= 0 else 0 for start, length in gaps)
        if line == 1 and end <= len(_start_of(rest)):
            end = 0  # blank lines before the first sentence are part of it
        if end:
            yield Stretch(rest[:end], line)
            line += rest.count(b"\n", 0, end)
            rest = rest[end:]
        if len(rest) > _LONGEST:
            message = f"There is not one whole sentence in the next {_LONGEST >> 20} MiB."
            raise TreebankError(message, hint="Is this a treebank?", path=path, line=line)
    if line == 1 and len(rest) == len(_start_of(rest)):
        raise EmptyError(_NO_SENTENCE, hint=_EMPTY_HINT, path=path)
    if rest:
        yield Stretch(rest, line)


def cut_sentences(data: bytes, path: str) -> Iterator[Stretch]:
    """Cut the content of a file into single blocks; joined, they give back every byte."""
    for stretch in cut_treebank(BytesIO(data), path):
        yield from cut_stretch(stretch)


def read_stretch(stretch: Stretch, form: Format, path: str, *, number: int = 1) -> Iterator[Sentence | Unreadable]:
    """Yield the blocks of this part of a file, as `read_blocks` does; `number` is that of its first sentence."""
    for place, block in enumerate(cut_stretch(stretch), start=number):
        yield _sentence(block, form, path, place)


def write_treebank(sentences: Iterable[Sentence | HasSentence], target: str | os.PathLike[str]) -> int:
    """Write Sentences or Parses, each in its own format, to a path or `-`, and return their number.

    A path that ends in .gz, .xz, .bz2 or .zst is compressed. An existing file is replaced only when the new one is
    complete, so after an error the old file is still there.
    """
    count = 0
    with open_output(target) as stream:
        for text in texts_in_file(sentences_in(sentences, "The treebank")):
            stream.write(text.encode())
            count += 1
    return count


def convert(sentence: Sentence, to: Format) -> Sentence:
    """Return the sentence in another format; in its own format, return it unchanged.

    UPOS becomes the coarse tag of CoNLL-X and XPOS the fine one. CoNLL-2009 has one tag: XPOS, or UPOS if XPOS is
    blank. Its gold and its predicted columns get the same values.
    """
    source = sentence.format
    if source.title == to.title:
        return sentence
    columns = [(BLANK,) * len(sentence)] * len(to.names)
    columns[0], columns[to.form] = sentence.column(0), sentence.forms
    tags = sentence.xpos
    if to.upos is None:
        tags = tuple([x if x != BLANK else u for x, u in zip(sentence.xpos, sentence.upos, strict=True)])
    values = {
        to.lemma: sentence.lemma,
        to.xpos: tags,
        to.feats: sentence.feats,
        to.head: sentence.column(source.head),
        to.deprel: sentence.labels,
    }
    if to.upos is not None:
        values[to.upos] = sentence.upos
    for index, column in values.items():
        columns[index] = column
        if to.more_columns:
            columns[index ^ 1] = column  # the predicted column of a gold one is its neighbour, and the reverse
    comments, words = sentence.comments if to.is_ud else (), range(len(sentence))
    return replace(sentence, comments=comments, columns=tuple(columns), word_lines=words, format=to, layout=PLAIN)


def losses(sentence: Sentence, to: Format) -> Counter[str]:
    """Count the items of each kind that the other format cannot store."""
    if sentence.format.title == to.title:
        return Counter()
    back = convert(convert(sentence, to), sentence.format)
    lost = Counter({"comment": len(sentence.comments) - len(back.comments)})
    lost["multiword token"] = sum("-" in identifier for identifier in sentence.columns[0])
    lost["empty node"] = sum("." in identifier for identifier in sentence.columns[0])
    for index, name in enumerate(sentence.format.names):
        # One tag is left if the other format has no UPOS.
        kept = back.column(sentence.format.xpos if to.upos is None and index == sentence.format.upos else index)
        lost[name] = sum(old not in (BLANK, new) for old, new in zip(sentence.column(index), kept, strict=True))
    for index in range(len(back.columns), len(sentence.columns)):
        lost[sentence.format.more_columns] += sum(cell != BLANK for cell in sentence.column(index))
    return +lost


def texts_in_file(sentences: Iterable[Sentence], *, is_start: bool = True) -> Iterator[str]:
    """Yield the text of each sentence as in a file of these sentences; `is_start`: the file is empty so far."""
    last: Layout | None = None
    for sentence in sentences:
        text = sentence.to_conllu()
        # It may come from another file: drop the byte order mark and blank lines, which only a file's start may have.
        if last is not None or not is_start:
            text = text.removeprefix(sentence.layout.start)
        if last is not None:
            text = last.newline * (2 - min(last.end.count("\n"), 2)) + text  # the line ends that are missing
        last = sentence.layout
        yield text


def cut_stretch(stretch: Stretch) -> Iterator[Stretch]:
    """Cut a stretch after blank lines into single blocks; joined, they give back every byte."""
    data, line = stretch
    n_before = len(_start_of(data)) if line == 1 else 0
    ends = {gap.end() for gap in _BETWEEN_SENTENCES.finditer(data, n_before)}
    for start, end in pairwise(sorted({0, *ends, len(data)}) if n_before < len(data) else ()):
        yield Stretch(data[start:end], line)
        line += data.count(b"\n", start, end)


def _start_of(data: bytes) -> bytes:
    """Return what only the start of a file may have: a byte order mark and blank lines."""
    match = _FILE_START.match(data)
    return match[0] if match else b""


def _sentence(block: Stretch, form: Format, path: str, number: int) -> Sentence | Unreadable:
    """Return the sentence, or all faults of a block that is not a valid sentence."""
    fault = partial(TreebankError, path=path, sentence=number)
    faults: list[TreebankError] = []
    before = _start_of(block.data) if block.line == 1 else b""
    body = block.data[len(before) :].rstrip(b"\r\n")
    end, first_line = block.data[len(before) + len(body) :], block.line + before.count(b"\n")
    text = body.decode(errors="replace")
    for at, part in enumerate(body.split(b"\n") if "\ufffd" in text else (), start=first_line):
        try:
            part.decode()
        except UnicodeDecodeError as error:
            faults.append(not_utf8(error, path=path, line=at, sentence=number))
    if "\0" in text:
        line = first_line + text.count("\n", 0, text.index("\0"))
        faults.append(fault("The line contains a null byte.", line=line, hint="Remove it."))
    layout = PLAIN
    if before or end != b"\n\n" or "\r" in text:
        newlines = tuple(["\r\n" if line.endswith("\r") else "\n" for line in text.split("\n")[:-1]]) or ("\n",)
        is_mixed = len(set(newlines)) > 1
        layout = Layout(before.decode(), newlines if is_mixed else newlines[0], end.decode())
        text = text.replace("\r\n", "\n")
    lines = text.split("\n")
    start = 0
    while start < len(lines) and lines[start][:1] == "#":
        start += 1
    comments = tuple(lines[:start])
    rows = [line.split("\t") for line in lines[start:]]
    columns = tuple(zip(*rows))  # noqa: B905 - rows of unequal length are a fault, found below
    words: range | tuple[int, ...] = range(len(rows))
    if faults or len(set(map(len, rows))) != 1 or not _is_plain(columns, form):
        sent_id = Sentence(comments, (), ()).sent_id
        faults += line_faults(lines, first_line, form, partial(fault, sent_id=sent_id))
        if faults:
            return Unreadable(first_line, number, sent_id, tuple(faults))
        if not all(map(str.isdecimal, columns[0])):
            words = tuple([line for line, identifier in enumerate(columns[0]) if identifier.isdecimal()])
    return Sentence(comments, columns, words, form, layout, path, first_line, number)


def _is_plain(columns: tuple[tuple[str, ...], ...], form: Format) -> bool:
    """Check quickly whether the columns are valid, as nearly all are; if not, `line_faults` checks each line."""
    has_width = len(columns) == len(form.names) or (form.more_columns != "" and len(columns) > len(form.names))
    ids = columns[0]
    return has_width and ids == _NUMBERS[: len(ids)] and {"0", *ids}.issuperset(columns[form.head])


def read_words(stream: BinaryIO, path: str) -> Iterator[Sentence]:
    """Yield each line of words, separated by spaces and tabs, as a CoNLL-U sentence; `path` is for messages."""
    number = 0
    for line_number, line in enumerate(utf8_lines(stream, path), start=1):
        words = [word for word in line.strip("\r\n").replace("\t", " ").split(" ") if word]
        if not words:
            continue
        number += 1
        try:
            sentence = Sentence.of_words(words)
        except TreebankError as error:
            raise TreebankError(error.message, path=path, line=line_number, sentence=number) from error
        comments = (f"# sent_id = {number}", f"# text = {' '.join(words)}")
        yield replace(sentence, comments=comments, path=path, line=line_number, number=number)
    if not number:
        raise EmptyError(_NO_SENTENCE, hint=_EMPTY_HINT, path=path)


def line_faults(
    lines: Sequence[str], first_line: int, form: Format, fault: Callable[..., TreebankError]
) -> Iterator[TreebankError]:
    """Yield the faults of an invalid sentence; `fault` makes an error with the file and the sentence filled in."""
    start = next((index for index, line in enumerate(lines) if not line.startswith("#")), len(lines))
    if start == len(lines):
        hint = "Remove the comments, or the blank line after them."
        yield fault("There are no words after the comments.", line=first_line, hint=hint)
        return
    rows = [line.split("\t") for line in lines[start:]]
    width = max(len(form.names), len(rows[0])) if form.more_columns else len(form.names)
    numbered = []
    for number, row in enumerate(rows, start=first_line + start):
        if len(row) == width:
            numbered.append((number, row))
        elif row[0].startswith("#"):
            hint = "Move it before the first word."
            yield fault("There is a comment between words.", line=number, hint=hint)
        else:
            hint = "Columns are separated by tabs, not by spaces." if len(row) == 1 else ""
            if number == 1 and hint and not row[0][:1].isdecimal():
                hint = "If this is a text and not a treebank, parse it with treefine parse."
            yield fault(f"The line must have {width} columns, not {len(row)}.", line=number, hint=hint)
            numbered.append((number, row if len(row) > 1 else row[0].split(" ")))
    yield from _id_faults([(number, row[0]) for number, row in numbered], form, fault)
    words = sum(1 for _, row in numbered if not (_RANGE.fullmatch(row[0]) or _EMPTY_NODE.fullmatch(row[0])))
    hint_of_head = f"Write a number from 0 to {words}, or _ for no head."
    for number, row in numbered:
        if len(row) != width or not _NUMBER.fullmatch(row[0]) or row[form.head] == BLANK:
            continue
        head = row[form.head]
        if not _NUMBER.fullmatch(head) or int(head) > words:
            message = f"HEAD is {shortened(head) or 'empty'} but the sentence has {words} word{'s' * (words != 1)}."
            yield fault(message, line=number, word=row[0], hint=hint_of_head)


def _id_faults(
    ids: Sequence[tuple[int, str]], form: Format, fault: Callable[..., TreebankError]
) -> Iterator[TreebankError]:
    """Check the IDs: words are 1, 2, 3, …; 2-3 comes before word 2; 2.1 comes after word 2."""
    last_word, last_empty, span_end = 0, 0, 0
    hint = "" if form.is_ud else f"{form.title} has no multiword tokens or empty nodes."
    for line, identifier in ids:
        word, empty = str(last_word + 1), f"{last_word}.{last_empty + 1}"
        span = _RANGE.fullmatch(identifier)
        first, last = (int(span[1]), int(span[2])) if span else (0, 0)
        is_empty = _EMPTY_NODE.fullmatch(identifier) is not None
        fits_span = form.is_ud and span_end < first == last_word + 1 < last
        if identifier != word and not fits_span and not (form.is_ud and identifier == empty):
            expected = empty if is_empty and form.is_ud else word
            yield fault(f"ID is {shortened(identifier)!r}; {expected} is expected.", line=line, hint=hint)
        if is_empty:
            last_empty += 1
        elif span:
            span_end = max(span_end, last)
        else:
            number = int(identifier) if _NUMBER.fullmatch(identifier) else last_word + 1
            last_word, last_empty = max(last_word, number), 0
    if span_end > last_word:
        message = f"A multiword token ends at word {span_end}, but the last word is {last_word}."
        yield fault(message, line=ids[-1][0])


def validate(
    source: Source, *, format: str | None = None, on_bytes: Callable[[int], None] | None = None
) -> Iterator[TreebankError]:
    """Yield all faults of a file in order.

    These are wrong columns, IDs and heads; cycles and roots; repeated sent_id; and # text that differs from the forms.
    """
    first_lines: dict[str, int] = {}  # where each sent_id was first seen
    try:
        for read in read_blocks(source, format=format, on_bytes=on_bytes):
            if isinstance(read, Unreadable):
                yield from read.faults
                continue
            first = first_lines.setdefault(read.sent_id, read.line) if read.sent_id else read.line
            if first != read.line:
                message = f"The sentence at line {first} has the same sent_id."
                yield read.error(message, hint="Each sent_id must be unique.")
            yield from cell_faults(read)
            yield from tree_faults(read, needs_one_root=read.format.is_ud)
            yield from text_faults(read)
    except TreebankError as error:  # the rest of the file cannot be read
        yield error


def tree_faults(sentence: Sentence, *, needs_one_root: bool) -> Iterator[TreebankError]:
    """Yield the faults that make the heads an invalid tree: blanks, cycles, no root, or too many roots."""
    heads = sentence.heads
    if None in heads:
        for number in [number for number, head in enumerate(heads, start=1) if head is None]:
            yield sentence.error("HEAD is blank.", word=number, hint="Fill it in, or parse the file first.")
        return
    for cycle in find_cycles((0, *[head or 0 for head in heads])):
        loop = " -> ".join(map(str, (*cycle, cycle[0])))
        yield sentence.error(f"The heads form a cycle: {loop}.", word=cycle[0], hint="Change one of these heads.")
    roots = [number for number, head in enumerate(heads, start=1) if head == 0]
    if not roots:
        yield sentence.error("The sentence has no root: no word has HEAD 0.")
    elif len(roots) > 1 and needs_one_root:
        message = f"The sentence has {len(roots)} roots: words {', '.join(map(str, roots))}."
        yield sentence.error(message, word=roots[1], hint="Only one word may have HEAD 0.")


def cell_faults(sentence: Sentence) -> Iterator[TreebankError]:
    """Yield a fault for each empty cell, which no format allows."""
    for index, column in enumerate(sentence.columns):
        if "" in column:
            for line in [line for line, cell in enumerate(column) if not cell]:
                yield sentence.error(f"Column {index + 1} is empty.", line=line, hint="Write _ for an empty value.")


def text_faults(sentence: Sentence) -> Iterator[TreebankError]:
    """Yield a fault where `# text` differs from the forms and SpaceAfter=No."""
    text = sentence.text
    if text is None or not sentence.format.is_ud:
        return
    position = 0
    for token in sentence.tokens():
        form, number = token.form, token.words[0]
        if not text.startswith(form, position):
            found = text[position : position + max(len(form), 1)]
            message = f"# text has {found!r} at character {position + 1}, but the form is {form!r}."
            yield sentence.error(message, word=number)
            return
        position += len(form)
        gap = len(text) - len(text[position:].lstrip()) - position
        is_joined = "SpaceAfter=No" in token.misc.split("|")
        if gap and is_joined:
            yield sentence.error(f"# text has a space after {form!r}, but MISC says SpaceAfter=No.", word=number)
        elif not gap and not is_joined and position < len(text):
            message = f"# text has no space after {form!r}, but SpaceAfter=No is missing."
            yield sentence.error(message, word=number)
        position += gap
    if position < len(text):
        yield sentence.error(f"# text continues after the last word: {text[position : position + 20]!r}.")


def newdoc(path: str) -> str:
    """Return the comment that starts a document; `path` is empty if it is not a file.

    >>> newdoc("notes.txt"), newdoc("")
    ('# newdoc id = notes.txt', '# newdoc')
    """
    return f"# newdoc id = {visible(path)}" if path else "# newdoc"


def with_newdoc(sentence: Sentence) -> Sentence:
    """Return the first sentence of a CoNLL-U file with a comment `# newdoc`, if it has none; others as they are."""
    is_named = any(each.removeprefix("#").split()[:1] == ["newdoc"] for each in sentence.comments)
    if sentence.number != 1 or is_named or not sentence.format.is_ud:
        return sentence
    start, newlines, end = sentence.layout
    if not isinstance(newlines, str):
        newlines = (newlines[0], *newlines)
    path = "" if sentence.path.startswith("<") else sentence.path
    return replace(sentence, comments=(newdoc(path), *sentence.comments), layout=Layout(start, newlines, end))
