"""All faults of a treebank in one run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from treefine.errors import TreebankError
from treefine.treebank.conllu import read_blocks
from treefine.treebank.faults import cell_faults, text_faults, tree_faults
from treefine.treebank.files import Source, name_of
from treefine.treebank.sentence import Sentence


def validate(
    source: Source, *, format: str | None = None, on_bytes: Callable[[int], None] | None = None
) -> Iterator[TreebankError]:
    """Every fault of a file in its order: columns, IDs, heads, cycles, roots, repeated sent_id, text against forms."""
    first_lines: dict[str, int] = {}  # where each sent_id was first seen
    try:
        for read in read_blocks(source, format=format, on_bytes=on_bytes):
            is_sentence = isinstance(read, Sentence) or read.has_words
            first = first_lines.setdefault(read.sent_id, read.line) if read.sent_id and is_sentence else read.line
            if first != read.line:
                message = f"The sent_id is already that of the sentence at line {first}."
                yield TreebankError(
                    message, path=name_of(source), line=read.line, sent_id=read.sent_id, sentence=read.number
                )
            yield from sentence_faults(read) if isinstance(read, Sentence) else read.faults
    except TreebankError as error:  # the file itself cannot be read any further
        yield error


def sentence_faults(sentence: Sentence) -> Iterator[TreebankError]:
    """Every fault of a sentence that could be read."""
    yield from cell_faults(sentence)
    yield from tree_faults(sentence, needs_one_root=sentence.format.is_ud)
    yield from text_faults(sentence)
