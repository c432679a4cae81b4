"""Find every fault of a treebank: those of the file and its lines (see `conllu`), of trees, of cells and of text."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from treefine.errors import TreebankError
from treefine.treebank.conllu import read_blocks
from treefine.treebank.files import Source, name_of
from treefine.treebank.graph import find_cycles
from treefine.treebank.sentence import Sentence


def validate(
    source: Source, *, format: str | None = None, on_bytes: Callable[[int], None] | None = None
) -> Iterator[TreebankError]:
    """Yield all faults of a file in order: columns, IDs, heads, cycles, roots, repeated sent_id, text against forms."""
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
    except TreebankError as error:  # the rest of the file cannot be read
        yield error


def sentence_faults(sentence: Sentence) -> Iterator[TreebankError]:
    """Yield every fault of a sentence whose lines could be read."""
    yield from cell_faults(sentence)
    yield from tree_faults(sentence, needs_one_root=sentence.format.is_ud)
    yield from text_faults(sentence)


def tree_faults(sentence: Sentence, *, needs_one_root: bool) -> Iterator[TreebankError]:
    """Yield the faults that keep the heads from being a tree: blanks, cycles, no root, or too many roots."""
    heads = sentence.heads
    blank = [number for number, head in enumerate(heads, start=1) if head is None]
    if blank:
        for number in blank:
            yield sentence.error("HEAD is blank.", word=number)
        return
    for cycle in find_cycles((0, *[head or 0 for head in heads])):
        loop = " -> ".join(map(str, (*cycle, cycle[0])))
        yield sentence.error(f"The heads form a cycle: {loop}.", word=cycle[0], hint="Correct one of them.")
    roots = [number for number, head in enumerate(heads, start=1) if head == 0]
    if not roots:
        yield sentence.error("No word is the root: none has HEAD 0.")
    elif len(roots) > 1 and needs_one_root:
        yield sentence.error(f"The sentence has {len(roots)} roots: words {', '.join(map(str, roots))}.", word=roots[1])


def cell_faults(sentence: Sentence) -> Iterator[TreebankError]:
    """Yield a fault for each empty cell, which no format allows."""
    for index, column in enumerate(sentence.columns):
        if "" in column:
            for line in [line for line, cell in enumerate(column) if not cell]:
                yield sentence.error(f"Column {index + 1} is empty.", line=line, hint="Write _ for nothing.")


def text_faults(sentence: Sentence) -> Iterator[TreebankError]:
    """Yield the faults where `# text` differs from the forms and SpaceAfter=No."""
    text = sentence.text
    if text is None or not sentence.format.is_ud:
        return
    position = 0
    for form, (number, *_), misc in sentence.tokens():
        if not text.startswith(form, position):
            found = text[position : position + max(len(form), 1)]
            message = f"The form {form!r} is not what # text has at character {position + 1}: {found!r}."
            yield sentence.error(message, word=number)
            return
        position += len(form)
        gap = len(text) - len(text[position:].lstrip()) - position
        is_joined = "SpaceAfter=No" in misc.split("|")
        if gap and is_joined:
            yield sentence.error(f"# text has a space after {form!r}, but MISC says SpaceAfter=No.", word=number)
        elif not gap and not is_joined and position < len(text):
            message = f"# text has no space after {form!r}, but SpaceAfter=No is missing."
            yield sentence.error(message, word=number)
        position += gap
    if position < len(text):
        yield sentence.error(f"# text goes on after the last word: {text[position : position + 20]!r}.")
