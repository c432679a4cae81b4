"""All faults of a treebank in one run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from treefine.errors import TreebankError
from treefine.treebank.conllu import read_treebank
from treefine.treebank.faults import cell_faults, text_faults, tree_faults
from treefine.treebank.files import Source


def validate(
    source: Source, *, format: str | None = None, on_bytes: Callable[[int], None] | None = None
) -> Iterator[TreebankError]:
    """Every fault of a file in its order: columns, IDs, heads, cycles, roots, repeated sent_id, text against forms."""
    unreadable: list[TreebankError] = []
    first_line: dict[str, int] = {}
    sentences = read_treebank(source, format=format, on_error="skip", on_skip=unreadable.append, on_bytes=on_bytes)
    try:
        for sentence in sentences:
            yield from unreadable
            unreadable.clear()
            if sentence.sent_id in first_line:
                yield sentence.error(
                    f"The sent_id is already that of the sentence at line {first_line[sentence.sent_id]}."
                )
            elif sentence.sent_id:
                first_line[sentence.sent_id] = sentence.line
            yield from cell_faults(sentence)
            yield from tree_faults(sentence)
            yield from text_faults(sentence)
    except TreebankError as error:  # the file itself cannot be read any further
        unreadable.append(error)
    yield from unreadable
