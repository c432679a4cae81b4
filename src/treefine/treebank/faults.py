"""Everything that can be wrong with a sentence, with its place: the reader raises the first, validate lists all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from treefine.errors import TreebankError
from treefine.treebank.formats import Format
from treefine.treebank.graph import find_cycles
from treefine.treebank.sentence import BLANK, Sentence

NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
RANGE = re.compile(r"([1-9][0-9]{0,8})-([1-9][0-9]{0,8})")
EMPTY_NODE = re.compile(r"(0|[1-9][0-9]{0,8})\.([1-9][0-9]{0,8})")


def line_faults(
    lines: Sequence[str], first_line: int, form: Format, fault: Callable[..., TreebankError]
) -> Iterator[TreebankError]:
    """What keeps these lines from being a sentence: columns, IDs, heads out of range.

    `fault` makes an error that knows the file and the sentence.
    """
    start = next((index for index, line in enumerate(lines) if not line.startswith("#")), len(lines))
    if start == len(lines):
        hint = "Remove the blank line after them."
        yield fault("The comments are followed by no words.", line=first_line, hint=hint)
        return
    rows = [line.split("\t") for line in lines[start:]]
    width = max(form.width, len(rows[0])) if form.has_more_columns else form.width
    numbered = []
    for number, row in enumerate(rows, start=first_line + start):
        if len(row) == width:
            numbered.append((number, row))
        elif row[0].startswith("#"):
            hint = "Comments belong before the first word."
            yield fault("A comment stands between words.", line=number, hint=hint)
        else:
            hint = "Columns are separated by tabs, not by spaces." if len(row) == 1 else ""
            columns = f"{len(row)} column{'s' * (len(row) != 1)}"
            yield fault(f"The line has {columns}, not {width}.", line=number, hint=hint)
            numbered.append((number, row if len(row) > 1 else row[0].split(" ")))
    yield from _id_faults([(number, row[0]) for number, row in numbered], form, fault)
    words = sum(1 for _, row in numbered if not (RANGE.fullmatch(row[0]) or EMPTY_NODE.fullmatch(row[0])))
    hint_of_head = f"Write a number from 0 to {words}, or _ for none."
    for number, row in numbered:
        if len(row) != width or not NUMBER.fullmatch(row[0]) or row[form.head] == BLANK:
            continue
        head = row[form.head]
        if not NUMBER.fullmatch(head):
            message = f"HEAD is {shortened(head)!r}, not a number."
            yield fault(message, line=number, word=row[0], hint=hint_of_head)
        elif int(head) > words:
            message = f"HEAD is {head} but the sentence has {words} word{'s' * (words != 1)}."
            yield fault(message, line=number, word=row[0], hint=hint_of_head)


def shortened(cell: str) -> str:
    """The first characters of what stands in a file, to tell it by."""
    return cell if len(cell) <= 20 else cell[:20] + "…"


def _id_faults(
    ids: Sequence[tuple[int, str]], form: Format, fault: Callable[..., TreebankError]
) -> Iterator[TreebankError]:
    """IDs are 1, 2, 3, … ; 2-3 stands before word 2; 2.1 stands after word 2."""
    last_word, last_empty, span_end = 0, 0, 0
    for line, identifier in ids:
        span, empty = RANGE.fullmatch(identifier), EMPTY_NODE.fullmatch(identifier)
        if identifier == str(last_word + 1):
            last_word, last_empty = last_word + 1, 0
        elif (span or empty) and not form.is_ud:
            yield fault(f"ID is {identifier}, but {form.title} has words alone.", line=line)
        elif span:
            first, last = int(span[1]), int(span[2])
            if first != last_word + 1 or first <= span_end or last <= first:
                message = f"The multiword token {identifier} does not fit here, before word {last_word + 1}."
                yield fault(message, line=line)
            span_end = max(span_end, last)
        elif empty:
            expected = f"{last_word}.{last_empty + 1}"
            if identifier != expected:
                yield fault(f"The empty node {identifier} does not fit here, where {expected} is expected.", line=line)
            last_empty += 1
        elif NUMBER.fullmatch(identifier):
            is_twice = 0 < int(identifier) <= last_word
            reason = "is used twice" if is_twice else "does not fit here"
            yield fault(f"ID {identifier} {reason}; {last_word + 1} is expected.", line=line)
            last_word = max(last_word, int(identifier))
        else:
            yield fault(f"ID is {shortened(identifier)!r}; {last_word + 1} is expected.", line=line)
            last_word += 1
    if span_end > last_word:
        message = f"A multiword token ends at word {span_end}, but the last word is {last_word}."
        yield fault(message, line=ids[-1][0])


def tree_faults(sentence: Sentence, *, needs_one_root: bool) -> Iterator[TreebankError]:
    """What keeps the heads from being a tree: blanks, cycles, no root, or more than one where that is needed."""
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
    """Empty cells, which no format allows."""
    for index, column in enumerate(sentence.columns):
        if "" in column:
            for line in [line for line, cell in enumerate(column) if not cell]:
                yield sentence.error(f"Column {index + 1} is empty.", line=line, hint="Write _ for nothing.")


def text_faults(sentence: Sentence) -> Iterator[TreebankError]:
    """Where `# text` does not say what the forms and SpaceAfter=No say."""
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
