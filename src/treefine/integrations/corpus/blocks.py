"""A corpus in blocks that can be parsed apart: files, and sections of large ones, cut where sentences end for sure.

What the blocks of a file give, one after another, is what the file gives, byte for byte. So no running text is cut,
whose segmenter looks across any cut, and no packed file, which can only be read from its start.
"""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from treefine.cli.inputs import Input, Section
from treefine.cli.outputs import Job
from treefine.errors import TreefineError
from treefine.treebank.files import COMPRESSED, open_input
from treefine.treebank.formats import FORMATS

BLOCK = 1 << 24  # bytes of a block: minutes of work for a core, and what is lost if a worker is killed
_CHUNK = 1 << 16
_LINE_ENDS = (b"\n", b"\r\n")


def cut_jobs(jobs: Sequence[Job], *, trees_alone: bool, size: int = BLOCK) -> list[Job]:
    """The jobs, those of large files in several; `trees_alone` if nothing but treebanks of trees is asked for.

    All else is not cut: how sure a parser is differs in the last digits with what else is in a batch.
    """
    blocks = [block for job in jobs for block in _blocks_of(job, size if trees_alone else None)]
    for target, number in Counter(block.target for block in blocks).items():
        if number > 1:
            hint = "Rename one of the inputs, or parse them into different folders."
            raise TreefineError("Two blocks would be written here.", hint=hint, path=target)
    return blocks


def _blocks_of(job: Job, size: int | None) -> list[Job]:
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
    """A file in sections of about `size` bytes; none where it cannot be cut, or is not known to be of such a kind."""
    path = Path(source.name)
    is_plain = path.is_file() and path.suffix.lower() not in COMPRESSED
    if not is_plain or source.kind in (None, "text") or path.stat().st_size <= size:
        return []
    with open_input(source.name) as stream:
        if source.kind in FORMATS:
            starts = [(start, 0) for start in _starts_in_treebank(stream, size)]
        else:
            starts = list(_starts_in_lines(stream, size, is_cut_into_words=source.kind == "words"))
        ends = [*(start for start, _ in starts[1:]), stream.seek(0, 2)]
    return [Section(start, stop, n_before) for (start, n_before), stop in zip(starts, ends, strict=True)]


def _starts_in_treebank(stream: BinaryIO, size: int) -> Iterator[int]:
    """Where sections start: after blank lines. All but what is near a cut is left unread."""
    yield 0
    first, start = _next_sentence(stream, is_file_start=True), 0
    while first is not None:
        stream.seek(max(first, start + size))  # blank lines before the first sentence are that one's
        following = _next_sentence(stream)
        if following is None:
            return
        start = following
        yield start


def _next_sentence(stream: BinaryIO, *, is_file_start: bool = False) -> int | None:
    """Where the next line starts that follows a blank one and is none; None where there is no more."""
    position = stream.tell()
    follows_blank = is_whole = is_file_start  # elsewhere it may be in the middle of a line
    while line := stream.readline(_CHUNK):
        has_mark = line.startswith(codecs.BOM_UTF8)
        is_blank = is_whole and line.removeprefix(b"" if position else codecs.BOM_UTF8) in _LINE_ENDS
        if follows_blank and is_whole and not is_blank and not (has_mark and position):  # or it would be the section's
            return position
        follows_blank, is_whole = is_blank, line.endswith(b"\n")
        position += len(line)
    return None


def _starts_in_lines(stream: BinaryIO, size: int, *, is_cut_into_words: bool) -> Iterator[tuple[int, int]]:
    """Where sections start, and how many sentences are before them; each line that is not blank is a sentence."""
    from treefine.segmenter.cut import MOST_TOKENS  # which load torch
    from treefine.segmenter.segmenter import AT_ONCE

    yield 0, 0
    start = position = n_lines = n_sentences = 0
    ends_plainly = False  # whether the last line ended with a word
    for line in stream:
        text = line.removeprefix(b"" if position else codecs.BOM_UTF8).decode(errors="replace")
        if is_cut_into_words:
            has_words, may_start = bool(text.strip("\r\n").replace("\t", " ").strip(" ")), n_sentences > 0
        else:  # what surrounds a sentence is noted in its MISC; and a segmenter reads so many lines together
            has_words = not _is_gap(text)
            may_start = ends_plainly and n_lines % AT_ONCE == 0 and not _is_gap(text[:1])
            ends_plainly = not _is_gap(text.removesuffix("\n").removesuffix("\r")[-1:])
            if len(text) > MOST_TOKENS:  # it may be cut into several, which only a segmenter can count
                return
        if position - start >= size and has_words and may_start and not line.startswith(codecs.BOM_UTF8):
            start = position
            yield start, n_sentences
        position, n_lines, n_sentences = position + len(line), n_lines + 1, n_sentences + has_words


def _is_gap(text: str) -> bool:
    """Whether there is no character in it that can be part of a token."""
    return not text.replace("\0", "").strip()


def in_file(error: TreefineError, source: Input) -> TreefineError:
    """An error of a section, placed in its file. Sentences before it are counted only where that was done before."""
    section = source.section
    if section is None or section.start == 0 or error.path != source.name:
        return error
    if error.line is not None:
        with open_input(source.name) as stream:
            error.line += _newlines(stream, section.start)
    if error.sentence is not None:
        error.sentence = error.sentence + section.n_before if section.n_before else None
    return error


def _newlines(stream: BinaryIO, stop: int) -> int:
    count = position = 0
    while position < stop:
        data = stream.read(min(_CHUNK, stop - position))
        if not data:  # someone made the file shorter
            break
        count += data.count(b"\n")
        position += len(data)
    return count


def row_of(block: Job) -> dict[str, Any]:
    """A block as plain values, with which another machine can find it."""
    (source,) = block.inputs
    start, stop, n_before = source.section or (0, -1, 0)
    return {
        "name": source.name,
        "kind": source.kind or "",
        "start": start,
        "stop": stop,
        "n_before": n_before,
        "target": block.target,
        "shape": block.shape,
        "form": "" if block.form is None else block.form.name,
    }


def block_of(row: dict[str, Any]) -> Job:
    """The block of such values."""
    section = None if row["stop"] < 0 else Section(row["start"], row["stop"], row["n_before"])
    source = Input(row["name"], kind=row["kind"] or None, section=section)
    form = FORMATS[row["form"]] if row["form"] else None
    return Job((source,), row["target"], row["shape"], form, is_block=True)


def bytes_of(block: Job) -> int:
    """How much there is to read for a block, by which the largest come first."""
    (source,) = block.inputs
    if source.section is not None:
        return source.section.stop - source.section.start
    path = Path(source.name)
    return path.stat().st_size if path.is_file() else 0
