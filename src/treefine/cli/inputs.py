"""Find the inputs of a command (texts, files, folders or standard input) and read their sentences one by one."""

from __future__ import annotations

import codecs
import glob
import io
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, NamedTuple, cast

from treefine.errors import EmptyError, TreefineError
from treefine.parsing.annotate import newdoc
from treefine.treebank.conllu import read_treebank, read_words
from treefine.treebank.files import Rejoined, name_of, nearest_file, not_utf8, open_input, utf8_lines
from treefine.treebank.formats import FORMATS, TREEBANK_SUFFIXES, format_by_name, suffix_of
from treefine.treebank.raw_text import own_text, spans_in

if TYPE_CHECKING:
    from treefine.cli.text_check import TextCheck
    from treefine.parsing.parser import Parser
    from treefine.segmenter.cut import Segmented
    from treefine.treebank.sentence import Sentence


TreebankKind = Literal["conllu", "conllx", "conll09", "conll09-predicted"]
InputKind = Literal["text", "lines", "words", TreebankKind]

TEXT_CHUNK = 1 << 16  # bytes of a text that are read at a time
_FIRST_WORD = re.compile(rb"(?:1|1-[0-9]+|0\.1)\t")  # a word, multiword token or empty node
_FILE_LIKE = re.compile(r"[^./\\\s]\.[A-Za-z][A-Za-z0-9]{0,9}\Z")
_MARKUP = {  # files of characters that are not plain text, by suffix
    ".json": "JSON",
    ".jsonl": "JSON",
    ".csv": "a table",
    ".tsv": "a table",
    ".html": "HTML",
    ".htm": "HTML",
    ".svg": "an SVG picture",
}
_BINARY = {  # files whose text must be extracted, by suffix
    ".parquet": "a Parquet table",
    ".pdf": "PDF",
    ".doc": "a Word document",
    ".docx": "a Word document",
    ".odt": "an OpenDocument text",
    ".xlsx": "an Excel table",
    ".png": "a picture",
    ".jpg": "a picture",
    ".zip": "a zip archive",
}
_PATH = re.compile(r"/|\.[A-Za-z0-9]+\Z")
_MAGIC = re.compile(r"[*?]|\[[^/]+\]")
_N_LOOKED = 1 << 10  # first bytes of a file in which a null byte shows that it is not a text


class Section(NamedTuple):
    """A byte range of an uncompressed file; it contains complete sentences only."""

    start: int
    stop: int
    n_before: int = 0  # number of sentences before it, for input that treefine numbers


@dataclass(frozen=True, slots=True)
class Input:
    """A text, file or stream to parse."""

    name: str  # the path of a file; - for standard input; empty for a text
    text: str | None = None  # a text from the command line
    kind: InputKind | None = None  # None to detect it from the first lines
    section: Section | None = None  # None for the whole file
    subfolder: str = ""  # of an output folder, for its output

    @property
    def is_file(self) -> bool:
        """Whether the input is a named file."""
        return self.text is None and self.name != "-"

    @property
    def is_treebank(self) -> bool:
        """Whether the input is a file or stream in a known treebank format."""
        return self.text is None and self.kind in FORMATS


class NamedFile(NamedTuple):
    """A file, and its folder relative to the one that the user named."""

    path: str
    subfolder: str = ""


def find_inputs(
    arguments: Sequence[str],
    *,
    kind: InputKind | None = None,
    is_text: bool = False,
    may_be_text: bool = True,
    output: str = "",
) -> list[Input]:
    """Return the inputs that the arguments name; raise a single error that lists all invalid arguments.

    An argument is a file, a folder, or a pattern that matches files. Otherwise it is a text, unless it looks like a
    file name. `output` is not read if it is in one of the folders. Without arguments, the input is standard input.
    """
    if not arguments and sys.stdin is not None and sys.stdin.isatty():
        hint = "Give a text in quotes or a file name; or use - to type a text, and end it with Ctrl-D."
        raise TreefineError("There is no input.", hint=hint if may_be_text else "Give the name of a file.")
    if not is_text and list(arguments).count("-") > 1:
        raise TreefineError("Standard input can be used only once.", hint="Write - once.")
    may_be_text = may_be_text and kind in (None, "text", "lines", "words")
    texts = (".txt",) if may_be_text else ()
    suffixes = texts if kind is not None and may_be_text else (*texts, *TREEBANK_SUFFIXES)
    found: list[Input] = []
    faults = []
    for argument in arguments or ["-"]:
        try:
            if is_text:
                found.append(_text(argument, kind))
                continue
            named = files_named(argument, suffixes, may_be_any=kind is not None, output=output)
            for path, place in named:
                found.append(_file(path, kind, may_be_text=may_be_text, subfolder=place))
            if not named:
                found.append(_input(argument, kind, may_be_text=may_be_text))
        except TreefineError as error:
            faults.append(error)
    if faults:
        raise faults[0] if len(faults) == 1 else TreefineError("\n".join(map(str, faults)))
    return found


def find_treebank_inputs(
    arguments: Sequence[str], *, kind: TreebankKind | None = None, output: str = ""
) -> list[Input]:
    """Return the treebanks that the arguments name, as `find_inputs` does; the format is CoNLL-U if it is unknown."""
    found = find_inputs(arguments, kind=kind, may_be_text=False, output=output)
    return [each if each.kind in FORMATS else replace(each, kind="conllu") for each in found]


def _input(argument: str, kind: InputKind | None, *, may_be_text: bool) -> Input:
    if argument == "-":
        return Input("-", kind=kind)
    if os.path.exists(argument):  # noqa: PTH110 - Path.exists raises if the name is too long
        if not os.access(argument, os.R_OK):
            raise TreefineError("Permission denied.", path=argument)
        return _file(argument, kind, may_be_text=may_be_text)
    looks_like_file = _FILE_LIKE.search(argument[-20:]) or ("*" in argument and "/" in argument)
    if may_be_text and (any(map(str.isspace, argument)) or not looks_like_file):
        return _text(argument, kind)
    hints = (nearest_file(argument), "To parse this as text, add --text." * may_be_text)
    message = "No file matches this pattern." if is_pattern(argument) else "There is no such file."
    raise TreefineError(message, hint=" ".join(filter(None, hints)), path=argument)


def _text(argument: str, kind: InputKind | None) -> Input:
    for letter in argument:
        if "\ud800" <= letter <= "\udfff":  # how Python represents a byte that is not UTF-8
            what = f"Byte 0x{ord(letter) - 0xDC00:02x}" if "\udc80" <= letter <= "\udcff" else ascii(letter)
            raise TreefineError(f"{what} in the text is not UTF-8.", hint="Set the terminal to UTF-8, or use a file.")
    return Input("", argument, kind or "text")


def files_named(
    argument: str, suffixes: Sequence[str], *, may_be_any: bool = False, output: str = ""
) -> list[NamedFile]:
    """Return the files in a folder, or those that match a pattern; else none. See `files_in` for the parameters."""
    if "\0" in argument:
        return []
    if os.path.isdir(argument):  # noqa: PTH112 - Path.is_dir raises if the name is too long
        return files_in(argument, suffixes, may_be_any=may_be_any, output=output)
    if not is_pattern(argument) or os.path.lexists(argument):  # a file may have such a name
        return []
    start = Path(_MAGIC.split(argument, maxsplit=1)[0] + "x").parent  # the folder before the first * ? or [
    is_recursive = not any(map(str.isspace, argument))  # a text such as /**/ must not search the whole disk
    paths = sorted(map(Path, glob.glob(argument, recursive=is_recursive)))  # noqa: PTH207 - it may be an absolute path
    return [_named_file(each, start) for each in paths if _is_input(each, output)]


def is_pattern(argument: str) -> bool:
    """Return whether the argument may be a pattern: it has a *, or it has ? or [ ] and looks like a path.

    >>> [is_pattern(each) for each in ("*.txt", "a/[ab].txt", "day?.txt", "Why?", "[sic]")]
    [True, True, True, False, False]
    """
    return "*" in argument or bool(_MAGIC.search(argument) and _PATH.search(argument))


def files_in(folder: str, suffixes: Sequence[str], *, may_be_any: bool = False, output: str = "") -> list[NamedFile]:
    """Return the files with these suffixes in a folder and its subfolders, sorted. It is an error if no file is found.

    With `may_be_any`, return all files if none has such a suffix. Hidden files, part files and the output are left out.
    """
    if output and _is_same(folder, output):
        raise TreefineError("The output folder is the input folder.", hint="Choose another one.", path=folder)
    found = sorted(_walk(folder, output))
    known = [each for each in found if suffix_of(each.name) in suffixes]
    if not known and not (may_be_any and found):
        hint = f"File names must end in {', '.join(suffixes)}; for other names, choose the format."
        what = "text or treebank" if ".txt" in suffixes else "treebank"
        raise TreefineError(f"There is no {what} in this folder.", hint=hint, path=folder)
    return [_named_file(each, Path(folder)) for each in known or found]


def _walk(folder: str, output: str) -> Iterator[Path]:
    def fail(error: OSError) -> None:
        raise TreefineError(f"{error.strerror}.", path=str(error.filename)) from error

    for place, folders, names in os.walk(folder, onerror=fail):
        folders[:] = [each for each in folders if not each.startswith(".") and not _is_same(Path(place, each), output)]
        yield from (Path(place, name) for name in names if _is_input(Path(place, name), output))


def _is_input(path: Path, output: str) -> bool:
    is_ours = path.suffix == ".part" or _is_same(path, output)
    return path.is_file() and not path.name.startswith(".") and not is_ours


def _is_same(path: str | Path, output: str) -> bool:
    return bool(output) and Path(path).exists() and Path(output).exists() and Path(path).samefile(output)


def _named_file(path: Path, start: Path) -> NamedFile:
    return NamedFile(str(path), "" if path.parent == start else str(path.parent.relative_to(start)))


@contextmanager
def open_source(source: Input, *, on_bytes: Callable[[int], None] | None = None) -> Iterator[BinaryIO]:
    """Open the input as bytes; a text or a section of a file is read into memory."""
    if source.text is not None:
        yield io.BytesIO(source.text.encode())
    elif source.section is None:
        with open_input(source.name, on_bytes=on_bytes) as stream:
            yield stream
    else:
        with open_input(source.name) as stream:
            stream.seek(source.section.start)
            data = stream.read(source.section.stop - source.section.start)
        yield io.BytesIO(data)


def kind_by_name(path: str) -> InputKind | None:
    """Return the input format that the file name implies, or None.

    >>> kind_by_name("notes.TXT.gz"), kind_by_name("wsj.conllx"), kind_by_name("corpus.data")
    ('text', 'conllx', None)
    """
    if suffix_of(path) == ".txt":
        return "text"
    form = format_by_name(path)
    return None if form is None else cast(InputKind, form.name)


def _file(path: str, kind: InputKind | None, *, may_be_text: bool, subfolder: str = "") -> Input:
    """Return a file as input. Look into one that is called .txt, because it may contain a treebank.

    A file such as .json or .pdf is an error, unless it contains a treebank or the user has chosen a format.
    """
    source = Input(path, kind=kind or kind_by_name(path), subfolder=subfolder)
    what = _MARKUP.get(suffix_of(path)) or _BINARY.get(suffix_of(path))
    looks_inside = source.kind == "text" or (source.kind is None and what)
    if kind is not None or not looks_inside or not Path(path).is_file():  # looking into a pipe would empty it
        return source
    with suppress(TreefineError), open_input(source.name) as stream:  # the reader will report what is wrong
        source = replace(source, kind=_look(stream)[0])
    if what is None or source.is_treebank:
        return source
    if suffix_of(path) in _BINARY:
        hint = "Give its text in a .txt file." if may_be_text else "Give a treebank."
    else:
        hint = "To parse it as text, add --from text." if may_be_text else "To read it as one, add --from conllu."
    raise TreefineError(f"This is {what}, not {'text' if may_be_text else 'a treebank'}.", hint=hint, path=path)


def treebank_note(inputs: Sequence[Input]) -> str:
    """Return a line about the files called .txt that contain treebanks; empty if there are no such files."""
    found = [each.name for each in inputs if each.is_treebank and kind_by_name(each.name) == "text"]
    if not found:
        return ""
    names = found[0] if len(found) == 1 else f"{found[0]} and {len(found) - 1:,} more"
    return f"treefine: {names}: read as a treebank, not as text; to read it as text, add --from text"


def bytes_in(inputs: Sequence[Input]) -> int | None:
    """Return the total size of the input files, for a progress bar; None if it is unknown or there are only texts."""
    total = 0
    for each in inputs:
        if each.text is not None:
            continue
        if not (each.is_file and Path(each.name).is_file()):
            return None
        total += Path(each.name).stat().st_size
    return total or None


@dataclass
class Reading:
    """The position in an input: the bytes read so far, and the end of the last sentence found in them.

    `is_treebank` says whether the input has turned out to be a treebank.
    """

    n_bytes: int = 0
    end: int = 0
    is_treebank: bool = False

    def add(self, n_bytes: int) -> None:
        """Count bytes that have been read."""
        self.n_bytes += n_bytes

    def find(self, share: float) -> None:
        """Note a sentence that ends after this share of what has been read; the bytes may be compressed."""
        self.end = max(self.end, round(min(share, 1.0) * self.n_bytes))


def read_input(
    source: Input,
    parser: Parser,
    reading: Reading,
    numbers: Iterator[int],
    check: TextCheck | None = None,
    *,
    generator: str = "",
) -> Iterator[Segmented]:
    """Yield the sentences of an input; split text with the parser's segmenter and number its sentences.

    `check` watches the sentences of a text. Text that is not a treebank starts with the comments `# generator`, if one
    is given, and `# newdoc`.
    """
    path, kind, head = "", source.kind or "text", b""
    with open_source(source, on_bytes=reading.add) as stream:
        if source.text is None:
            path = name_of(source.name)
            kind, head = (source.kind, b"") if source.kind is not None else _look(stream)
        rejoined = Rejoined(head, stream, path)
        stream = cast(BinaryIO, io.BufferedReader(rejoined))
        if kind in ("text", "lines"):
            start = _first_comments(source, generator)
            if kind == "text":
                start.append("# newpar")
                found = _segmented(parser.segment, _decoded(stream, path), path, reading, numbers)
            else:
                found = _segmented(parser.segment_lines, utf8_lines(stream, path), path, reading, numbers)
            found = _started(found, start)
            yield from found if check is None else check.watched(found, path, is_lines=kind == "lines")
        elif kind == "words":
            split = (_numbered(sentence, next(numbers)) for sentence in read_words(stream, path))
            yield from _started(_placed(split, reading, rejoined), _first_comments(source, generator))
        else:
            reading.is_treebank = True
            yield from _placed(read_treebank(stream, format=kind), reading, rejoined)


def _placed(sentences: Iterator[Sentence], reading: Reading, stream: Rejoined) -> Iterator[Segmented]:
    """Yield the sentences with the offsets of their words, and note how much of the stream has been read."""
    from treefine.segmenter.cut import Segmented  # loads torch

    for sentence in sentences:
        n_lines = sentence.line + len(sentence.comments) + len(sentence.columns[0])
        reading.find(n_lines / max(1, stream.n_lines))
        yield Segmented(sentence, spans_in(own_text(sentence), sentence))


def _first_comments(source: Input, generator: str) -> list[str]:
    """Return the comments that start a text in CoNLL-U; none for a section that is not the first of its file."""
    if source.section is not None and source.section.start:
        return []
    return [*([f"# generator = {generator}"] if generator else []), newdoc(source.name if source.is_file else "")]


def _started(found: Iterator[Segmented], comments: Sequence[str]) -> Iterator[Segmented]:
    """Yield the sentences; the first one starts with these comments."""
    for first in islice(found, 1):
        yield replace(first, sentence=replace(first.sentence, comments=(*comments, *first.sentence.comments)))
    yield from found


def _segmented(
    segment: Callable[[Iterable[str]], Iterator[Segmented]],
    chunks: Iterable[str],
    path: str,
    reading: Reading,
    numbers: Iterator[int],
) -> Iterator[Segmented]:
    """Yield the sentences of a text, each with its number and the line on which it starts."""
    newlines: deque[int] = deque()  # offsets of the newlines after the start of the last sentence
    length = 0  # of the chunks so far, in characters

    def noted() -> Iterator[str]:
        nonlocal length
        for chunk in chunks:
            newlines.extend(length + each.start() for each in re.finditer("\n", chunk))
            length += len(chunk)
            yield chunk

    line, is_empty = 1, True
    for found in segment(noted()):
        is_empty = False
        while newlines and newlines[0] < found.spans[0][0]:
            newlines.popleft()
            line += 1
        reading.find(found.spans[-1][1] / length)
        yield replace(found, sentence=replace(_numbered(found.sentence, next(numbers)), path=path, line=line))
    if is_empty:
        raise EmptyError("The text contains no words.", path=path)


def _numbered(sentence: Sentence, number: int) -> Sentence:
    """Return the sentence with this number as its sent_id."""
    own, comments = "# sent_id = ", sentence.comments
    return replace(sentence, comments=tuple(f"{own}{number}" if each.startswith(own) else each for each in comments))


def _decoded(stream: BinaryIO, path: str) -> Iterator[str]:
    """Yield the text in chunks, without a byte order mark and otherwise unchanged."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    line, is_end, head = 1, False, b""
    while not is_end:
        chunk = stream.read(TEXT_CHUNK)
        head = head or chunk[:_N_LOOKED]
        is_end = not chunk
        try:
            text = decoder.decode(chunk, final=is_end)
        except UnicodeDecodeError as error:
            if b"\0" in head:
                hint = "Save it as plain text in UTF-8."
                raise TreefineError("This is not a text: it contains null bytes.", hint=hint, path=path) from error
            line += error.object.count(b"\n", 0, error.start)
            raise not_utf8(error, path=path, line=line) from error
        line += text.count("\n")
        yield text


def _look(stream: BinaryIO) -> tuple[InputKind, bytes]:
    """Return the input format that the first non-comment line suggests, and the bytes read so far."""
    head = b""
    while len(head) < TEXT_CHUNK:
        line = stream.readline(TEXT_CHUNK)
        head += line
        if not line:
            break
        words = line.removeprefix(codecs.BOM_UTF8)
        if not words.startswith(b"#") and words.strip():
            n_columns = words.count(b"\t") + 1
            if _FIRST_WORD.match(words) and (n_columns == 10 or n_columns >= 14):
                return ("conllu" if n_columns == 10 else "conll09"), head
            break
    return "text", head
