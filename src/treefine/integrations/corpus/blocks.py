"""Divide a corpus into blocks that can be parsed separately: files, and sections of large files.

The joined outputs of the sections equal the output of the whole file, byte for byte, so a file is cut only where a
sentence is certain to end. Running text is not cut, because the segmenter needs the text on both sides of a cut; a
compressed file is not cut, because it can only be read from its start.
"""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from treefine.cli.inputs import Input, Section
from treefine.cli.outputs import Job
from treefine.errors import TreefineError
from treefine.treebank.files import COMPRESSED, open_input
from treefine.treebank.formats import FORMATS

BLOCK_BYTES = 1 << 24  # takes a core minutes to parse; this work is lost if a worker is killed
_CHUNK = 1 << 16
_LINE_ENDS = (b"\n", b"\r\n")


def cut_jobs(jobs: Sequence[Job], *, trees_alone: bool, size: int = BLOCK_BYTES) -> list[Job]:
    """Return one job per block. Files are cut only with `trees_alone`: the output is treebanks without confidences.

    The last digits of a confidence depend on the other sentences of its batch, so they would depend on the cuts.
    """
    blocks = [block for job in jobs for block in _cut(job, size if trees_alone else None)]
    for target, number in Counter(block.target for block in blocks).items():
        if number > 1:
            hint = "Rename one of the inputs, or parse them into different folders."
            raise TreefineError("Two blocks would be written to this file.", hint=hint, path=target)
    return blocks


def _cut(job: Job, size: int | None) -> list[Job]:
    (source,) = job.inputs
    sections = [] if size is None else sections_of(source, size)
    if len(sections) < 2:
        return [replace(job, is_block=True)]
    target, width = Path(job.target), max(5, len(str(len(sections))))
    return [
        replace(
            job,
            inputs=(replace(source, section=section),),
            target=str(target.with_name(f"{target.stem}-{number:0{width}}{target.suffix}")),
            is_block=True,
        )
        for number, section in enumerate(sections, start=1)
    ]


def sections_of(source: Input, size: int) -> list[Section]:
    """Cut a file into sections of about `size` bytes; return none for a file that cannot be cut."""
    path = Path(source.name)
    is_plain = path.is_file() and path.suffix.lower() not in COMPRESSED
    if not is_plain or source.kind in (None, "text") or path.stat().st_size <= size:
        return []
    with open_input(source.path) as stream:
        if not stream.seekable():  # it is converted to UTF-8
            return []
        if source.kind in FORMATS:
            starts = [(start, 0) for start in _starts_in_treebank(stream, size)]
        else:
            starts = list(_starts_in_lines(stream, size, is_cut_into_words=source.kind == "words"))
        ends = [*(start for start, _ in starts[1:]), stream.seek(0, 2)]
    return [Section(start, stop, n_before) for (start, n_before), stop in zip(starts, ends, strict=True)]


def _starts_in_treebank(stream: BinaryIO, size: int) -> Iterator[int]:
    """Yield where sections start, each after a blank line; read only what is near a cut."""
    yield 0
    first, start = _next_sentence(stream, is_file_start=True), 0
    while first is not None:
        stream.seek(max(first, start + size))  # blank lines before the first sentence belong to it
        following = _next_sentence(stream)
        if following is None:
            return
        start = following
        yield start


def _next_sentence(stream: BinaryIO, *, is_file_start: bool = False) -> int | None:
    """Return the offset of the first non-blank line after the next blank line, or None at the end of the file."""
    position = stream.tell()
    follows_blank = is_whole = is_file_start  # elsewhere the stream may be in the middle of a line
    while line := stream.readline(_CHUNK):
        has_mark = position > 0 and line.startswith(codecs.BOM_UTF8)  # which would get lost at the start of a section
        is_blank = is_whole and line.removeprefix(b"" if position else codecs.BOM_UTF8) in _LINE_ENDS
        if follows_blank and is_whole and not is_blank and not has_mark:
            return position
        follows_blank, is_whole = is_blank, line.endswith(b"\n")
        position += len(line)
    return None


def _starts_in_lines(stream: BinaryIO, size: int, *, is_cut_into_words: bool) -> Iterator[tuple[int, int]]:
    """Yield where sections start, and how many sentences are before them; each non-blank line is a sentence."""
    from treefine.segmenter.cut import MOST_TOKENS  # which load torch
    from treefine.segmenter.segmenter import AT_ONCE

    yield 0, 0
    start = position = n_lines = n_sentences = 0
    ends_plainly = False  # whether the last line ended with a word
    for line in stream:
        text = line.removeprefix(b"" if position else codecs.BOM_UTF8).decode(errors="replace")
        if is_cut_into_words:
            has_words, may_start = bool(text.strip("\r\n").replace("\t", " ").strip(" ")), n_sentences > 0
        else:  # MISC records the gaps around a sentence, and a segmenter reads AT_ONCE lines together
            has_words = not _is_gap(text)
            may_start = ends_plainly and n_lines % AT_ONCE == 0 and not _is_gap(text[:1])
            ends_plainly = not _is_gap(text.removesuffix("\n").removesuffix("\r")[-1:])
            if len(text) > MOST_TOKENS:  # the segmenter may cut it into several sentences, which cannot be counted here
                return
        if position - start >= size and has_words and may_start and not line.startswith(codecs.BOM_UTF8):
            start = position
            yield start, n_sentences
        position, n_lines, n_sentences = position + len(line), n_lines + 1, n_sentences + has_words


def _is_gap(text: str) -> bool:
    """Return whether no character of the text can be part of a token."""
    return not text.replace("\0", "").strip()


def place_in_file(error: TreefineError, source: Input) -> TreefineError:
    """Change the line and sentence of an error in a section to those in the whole file, and return the error.

    The number of the sentence is dropped where the sentences before the section were not counted.
    """
    section = source.section
    if section is None or section.start == 0 or error.path != source.name:
        return error
    if error.line is not None:
        with open_input(source.name) as stream:
            sizes = [*[_CHUNK] * (section.start // _CHUNK), section.start % _CHUNK]
            error.line += sum(stream.read(size).count(b"\n") for size in sizes)
    if error.sentence is not None:
        error.sentence = error.sentence + section.n_before if section.n_before else None
    return error


def bytes_of(block: Job) -> int:
    """Return how many bytes of input a block has."""
    (source,) = block.inputs
    if source.section is not None:
        return source.section.stop - source.section.start
    path = Path(source.name)
    return path.stat().st_size if path.is_file() else 0
