"""All faults of a treebank in one run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby

from treefine.errors import TreebankError
from treefine.treebank.conllu import read_treebank
from treefine.treebank.faults import cell_faults, text_faults, tree_faults
from treefine.treebank.files import Source


def validate(
    source: Source, *, format: str | None = None, on_bytes: Callable[[int], None] | None = None
) -> Iterator[TreebankError]:
    """Every fault of a file in its order: columns, IDs, heads, cycles, roots, repeated sent_id, text against forms."""
    skipped: list[TreebankError] = []
    first_lines: dict[str, int | None] = {}  # where each sent_id was first seen
    sentences = read_treebank(source, format=format, on_error="skip", on_skip=skipped.append, on_bytes=on_bytes)
    try:
        for sentence in sentences:
            yield from _skipped_faults(skipped, first_lines)
            yield from _repeated_id(sentence.error(""), first_lines)
            yield from cell_faults(sentence)
            yield from tree_faults(sentence, needs_one_root=sentence.format.is_ud)
            yield from text_faults(sentence)
    except TreebankError as error:  # the file itself cannot be read any further
        skipped.append(error)
    yield from _skipped_faults(skipped, first_lines)


def _skipped_faults(skipped: list[TreebankError], first_lines: dict[str, int | None]) -> Iterator[TreebankError]:
    """The faults of the sentences that the reader has left out since the last time."""
    for _, faults in groupby(skipped, key=lambda fault: fault.sentence):
        first, *others = faults
        yield from _repeated_id(first, first_lines)
        yield from (first, *others)
    skipped.clear()


def _repeated_id(place: TreebankError, first_lines: dict[str, int | None]) -> Iterator[TreebankError]:
    """A fault if the sentence at this place has the sent_id of an earlier one."""
    if place.sent_id and place.sent_id in first_lines:
        message = f"The sent_id is already that of the sentence at line {first_lines[place.sent_id]}."
        yield TreebankError(message, path=place.path, line=place.line, sent_id=place.sent_id, sentence=place.sentence)
    first_lines.setdefault(place.sent_id, place.line)
