"""Find the inputs of a run (texts, files, folders, standard input) and read their sentences."""

from __future__ import annotations

import codecs
import glob
import io
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, cast

from treefine.errors import EmptyError, TreebankError, TreefineError
from treefine.treebank.conllu import (
    FORMATS,
    TREEBANK_SUFFIXES,
    format_by_name,
    newdoc,
    read_treebank,
    read_words,
    suffix_of,
)
from treefine.treebank.files import name_of, nearest_file, not_utf8, open_input, utf8_lines
from treefine.treebank.raw_text import spans_in
from treefine.treebank.sentence import own_text

if TYPE_CHECKING:
    from treefine.parsing.parser import Parser
    from treefine.segmenter.cut import Segmented

TreebankKind = Literal["conllu", "conllx", "conll09", "conll09-predicted"]
InputKind = Literal["text", "lines", "words", TreebankKind]

TEXT_CHUNK = 1 << 16  # bytes of a text that are read at a time
_FIRST_WORD = re.compile(rb"(?:1|1-[0-9]+|0\.1)\t")  # a word, multiword token or empty node
_FILE_LIKE = re.compile(r"[^./\\\s]\.[A-Za-z][A-Za-z0-9]{0,9}\Z")
_NOT_TEXT = re.compile(rb'%PDF-|PK\x03\x04|PAR1|<!DOCTYPE html|<svg|\{"(file|sent_id)": ')  # also our own output
_MAGIC = re.compile(r"[*?[]")


@dataclass(frozen=True, slots=True)
class Input:
    """A text, file or stream to parse."""

    name: str  # the path of a file; - for standard input; empty for a text
    text: str | None = None  # a text from the command line
    kind: InputKind | None = None  # None to detect it from the first lines
    subfolder: str = ""  # of an output folder, for its output

    @property
    def is_file(self) -> bool:
        """Whether the input is a named file."""
        return self.text is None and self.name != "-"

    @property
    def is_treebank(self) -> bool:
        """Whether the input is a file or stream in a known treebank format."""
        return self.text is None and self.kind in FORMATS


def find_inputs(
    arguments: Sequence[str],
    *,
    kind: InputKind | None = None,
    is_text: bool = False,
    may_be_text: bool = True,
    output: str = "",
) -> list[Input]:
    """Return the inputs that the arguments name.

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
    inputs: list[Input] = []
    for argument in arguments or ["-"]:
        if is_text:
            inputs.append(_text(argument, kind))
        elif files := files_named(argument, suffixes, may_be_any=kind is not None, output=output):
            inputs += [_file(path, kind, subfolder) for path, subfolder in files]
        elif argument == "-":
            inputs.append(Input("-", kind=kind))
        elif os.path.exists(argument):  # noqa: PTH110 - Path.exists raises if the name is too long
            inputs.append(_file(argument, kind))
        elif may_be_text and not _is_like_file(argument):
            inputs.append(_text(argument, kind))
        else:
            hints = (nearest_file(argument), "To parse this as text, add --text." * may_be_text)
            what = "No file matches this pattern." if "*" in argument else "There is no such file."
            raise TreefineError(what, hint=" ".join(filter(None, hints)), path=argument)
    return inputs


def find_treebank_inputs(
    arguments: Sequence[str], *, kind: TreebankKind | None = None, output: str = ""
) -> list[Input]:
    """Return the treebanks that the arguments name, as `find_inputs` does; the format is CoNLL-U if it is unknown."""
    inputs = find_inputs(arguments, kind=kind, may_be_text=False, output=output)
    return [source if source.kind in FORMATS else replace(source, kind="conllu") for source in inputs]


def _is_like_file(argument: str) -> bool:
    has_file_name = _FILE_LIKE.search(argument[-20:]) or ("*" in argument and "/" in argument)
    return bool(has_file_name) and not any(map(str.isspace, argument))


def _text(argument: str, kind: InputKind | None) -> Input:
    if any("\ud800" <= each <= "\udfff" for each in argument):  # how Python represents a byte that is not UTF-8
        raise TreefineError("The text is not UTF-8.", hint="Set the terminal to UTF-8, or use a file.")
    return Input("", argument, kind or "text")


def _file(path: str, kind: InputKind | None, subfolder: str = "") -> Input:
    """Return a file as input. Its first lines show whether it is a text, unless its name is that of a treebank."""
    form = format_by_name(path)
    return Input(path, kind=kind or (None if form is None else cast(InputKind, form.name)), subfolder=subfolder)


def _kind_of_content(stream: BinaryIO) -> InputKind:
    """Return the input format that the first non-comment line suggests, without reading beyond it."""
    for line in _start_of(stream).splitlines():
        if line.strip() and not line.startswith(b"#"):
            n_columns = line.count(b"\t") + 1
            if _FIRST_WORD.match(line) and (n_columns == 10 or n_columns >= 14):
                return "conllu" if n_columns == 10 else "conll09"
            break
    return "text"


def _start_of(stream: BinaryIO) -> bytes:
    """Return the first bytes of a stream, which stay in it."""
    return cast(io.BufferedReader, stream).peek(TEXT_CHUNK).removeprefix(codecs.BOM_UTF8)


def files_named(
    argument: str, suffixes: Sequence[str], *, may_be_any: bool = False, output: str = ""
) -> list[tuple[str, str]]:
    """Return the files in a folder, or those that match a pattern; else none. See `files_in` for the parameters."""
    if "\0" in argument:
        return []
    if os.path.isdir(argument):  # noqa: PTH112 - Path.is_dir raises if the name is too long
        return files_in(argument, suffixes, may_be_any=may_be_any, output=output)
    if "*" not in argument or os.path.lexists(argument):  # a file may have such a name
        return []
    start = Path(_MAGIC.split(argument, maxsplit=1)[0] + "x").parent  # the folder before the first * ? or [
    is_recursive = not any(map(str.isspace, argument))  # a text such as /**/ must not search the whole disk
    paths = sorted(map(Path, glob.glob(argument, recursive=is_recursive)))  # noqa: PTH207 - it may be an absolute path
    left_out = identity(output) if output else None
    return [(str(path), _subfolder(path, start)) for path in paths if _is_input(path, left_out)]


def files_in(
    folder: str, suffixes: Sequence[str], *, may_be_any: bool = False, output: str = ""
) -> list[tuple[str, str]]:
    """Return the files with these suffixes in a folder and its subfolders, sorted, each with its subfolder.

    It is an error if there is none. With `may_be_any`, return all files if none has such a suffix. Hidden files, part
    files and the output are left out.
    """
    left_out = identity(output) if output else None
    if identity(folder) == left_out:
        raise TreefineError("The output folder is the input folder.", hint="Choose another one.", path=folder)

    def fail(error: OSError) -> None:
        raise TreefineError(f"{error.strerror}.", path=str(error.filename)) from error

    paths = []
    for place, folders, names in os.walk(folder, onerror=fail):
        folders[:] = [each for each in folders if each[0] != "." and identity(f"{place}/{each}") != left_out]
        paths += [path for name in names if _is_input(path := Path(place, name), left_out)]
    known = [path for path in paths if suffix_of(path.name) in suffixes]
    if not known and not (may_be_any and paths):
        hint = f"File names must end in {', '.join(suffixes)}; for other names, choose the format."
        what = "text or treebank" if ".txt" in suffixes else "treebank"
        raise TreefineError(f"There is no {what} in this folder.", hint=hint, path=folder)
    return [(str(path), _subfolder(path, Path(folder))) for path in sorted(known or paths)]


def _is_input(path: Path, left_out: object) -> bool:
    return path.is_file() and path.name[0] != "." and path.suffix != ".part" and identity(str(path)) != left_out


def identity(path: str) -> object:
    """Return a value that is the same for all paths of a file, even if it does not exist yet."""
    with suppress(OSError):
        return (status := Path(path).stat()).st_dev, status.st_ino
    return os.path.realpath(path)


def _subfolder(path: Path, start: Path) -> str:
    return "" if path.parent == start else str(path.parent.relative_to(start))


def total_size(*paths: str) -> int | None:
    """Return the total size of the files, for a progress bar; None if there are none or one is a stream."""
    # The reader reports a path that does not exist.
    return sum(map(os.path.getsize, paths)) or None if all(map(os.path.isfile, paths)) else None


@contextmanager
def open_source(
    source: Input, *, on_bytes: Callable[[int], None] | None = None
) -> Iterator[tuple[BinaryIO, InputKind]]:
    """Open the input as bytes; return its format too, detected if it is not known."""
    if source.text is not None:
        yield cast(BinaryIO, io.BufferedReader(io.BytesIO(source.text.encode()))), source.kind or "text"
    else:
        with open_input(source.name, on_bytes=on_bytes) as stream:
            if source.kind is None and _NOT_TEXT.match(_start_of(stream)):
                hint = "Put its text into a .txt file, or name its format with --from."
                raise TreebankError("This is not plain text.", hint=hint, path=name_of(source.name))
            yield stream, source.kind or _kind_of_content(stream)


def read_input(
    stream: BinaryIO,
    kind: InputKind,
    source: Input,
    parser: Parser,
    numbers: Iterator[int],
    *,
    generator: str = "",
    check: Callable[[str, str], None] = lambda text, path: None,
) -> Iterator[Segmented]:
    """Yield the sentences of an open input; split text with the parser's segmenter and number its sentences.

    `check` gets the start of a text and its path. The sentences of a text start with the comments `# generator`, if one
    is given, and `# newdoc`.
    """
    from treefine.segmenter.cut import Segmented  # loads torch

    path = "" if source.text is not None else name_of(source.name)
    sentences: Iterator[Segmented]
    if kind in FORMATS or kind == "words":
        whole = read_words(stream, path) if kind == "words" else read_treebank(stream, format=kind, name=path)
        sentences = (Segmented(sentence, spans_in(own_text(sentence), sentence)) for sentence in whole)
    else:
        check(_start_of(stream).decode(errors="ignore"), path)
        sentences = _segmented(stream, path, parser, is_lines=kind == "lines")
    if kind in FORMATS:
        yield from sentences
        return
    comments = [f"# generator = {generator}"] if generator else []
    comments.append(newdoc(source.name if source.is_file else ""))
    comments += ["# newpar"] * (kind == "text")
    for segmented in sentences:
        sentence, number = segmented.sentence, f"# sent_id = {next(numbers)}"
        comments += [number if each.startswith("# sent_id = ") else each for each in sentence.comments]
        yield replace(segmented, sentence=replace(sentence, comments=tuple(comments)))
        comments = []


def _segmented(stream: BinaryIO, path: str, parser: Parser, *, is_lines: bool) -> Iterator[Segmented]:
    newlines: deque[int] = deque()  # offsets of the newlines after the start of the last sentence

    def chunks() -> Iterator[str]:
        length = 0
        for chunk in utf8_lines(stream, path) if is_lines else _decoded(stream, path):
            newlines.extend(length + found.start() for found in re.finditer("\n", chunk))
            length += len(chunk)
            yield chunk

    line, is_empty = 1, True
    segment = parser.segment_lines if is_lines else parser.segment
    for segmented in segment(chunks()):
        is_empty = False
        while newlines and newlines[0] < segmented.spans[0][0]:
            newlines.popleft()
            line += 1
        yield replace(segmented, sentence=replace(segmented.sentence, path=path, line=line))
    if is_empty:
        raise EmptyError("The text contains no words.", path=path)


def _decoded(stream: BinaryIO, path: str) -> Iterator[str]:
    """Yield the text in chunks, without a byte order mark and otherwise unchanged."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    line, is_end = 1, False
    while not is_end:
        chunk = stream.read(TEXT_CHUNK)
        is_end = not chunk
        try:
            text = decoder.decode(chunk, final=is_end)
        except UnicodeDecodeError as error:
            if b"\0" in error.object:
                hint = "Save it as plain text in UTF-8."
                raise TreefineError("This is not a text: it contains null bytes.", hint=hint, path=path) from error
            line += error.object.count(b"\n", 0, error.start)
            raise not_utf8(error, path=path, line=line) from error
        line += text.count("\n")
        yield text
