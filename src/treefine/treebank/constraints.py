"""A person's decisions about a sentence: heads and labels that a parse must keep or must not use."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Literal, NamedTuple

from treefine.errors import TreebankError, TreefineError, described, is_whole_number, shortened
from treefine.treebank.graph import Arcs
from treefine.treebank.schemes import read_as
from treefine.treebank.sentence import BLANK, HasSentence, Sentence

Keep = Literal["marked", "given", "nothing"]
_KEEP, _NOT_HEAD, _NOT_LABEL = "Keep", "NotHead", "NotLabel"  # marks in MISC
_MARKS = (_KEEP, _NOT_HEAD, _NOT_LABEL)
_NUMBERS = re.compile("[0-9]{1,9}(,[0-9]{1,9})*")
_KEPT = {"Arc": (True, True), "Head": (True, False), "Label": (False, True)}  # head, label
_LOWER = tuple(map(str.lower, _MARKS))
_HINT = (
    "Write Keep=Arc, Keep=Head, Keep=Label, NotHead=2,5 or NotLabel=obj,iobj; "
    "if it is not meant as a mark, use --keep nothing."
)
_EXAMPLES = {  # of each field of Constraints
    "heads": "{4: 0}",
    "labels": '{2: "obj"}',
    "not_heads": "{4: [0, 3]}",
    "not_labels": '{2: ["obj", "iobj"]}',
}


@dataclass(frozen=True)
class Constraints:
    """Heads and labels that a parse must or must not have, by word number; `heads={4: 0}` makes word 4 a root.

    Raises TreefineError if a field is not a dictionary from word numbers to heads, labels, or lists of them.
    """

    heads: Mapping[int, int] = field(default_factory=dict)  # the head of a word
    labels: Mapping[int, str] = field(default_factory=dict)  # the label of a word
    not_heads: Mapping[int, Collection[int]] = field(default_factory=dict)  # heads that a word must not have
    not_labels: Mapping[int, Collection[str]] = field(default_factory=dict)  # labels that a word must not have

    def __post_init__(self) -> None:
        for name, example in _EXAMPLES.items():
            by_word = getattr(self, name)
            hint = f"Write {name}={example}, with words numbered from 1."
            if not isinstance(by_word, Mapping):
                raise TreefineError(f"{name} must be a dictionary, not {described(by_word)}.", hint=hint)
            is_value = is_whole_number if "heads" in name else _is_label
            for word, value in by_word.items():
                is_list = isinstance(value, Collection) and not isinstance(value, str)
                is_valid = is_whole_number(word) and is_list == name.startswith("not_")
                if not is_valid or not all(map(is_value, value if is_list else (value,))):
                    raise TreefineError(f"{name} cannot contain {described({word: value})}.", hint=hint)

    @classmethod
    def of(cls, given: object) -> Constraints:
        """Return constraints as they are, or create them from a dictionary with the names of the fields, or None."""
        if isinstance(given, Constraints):
            return given
        if given is None:
            return FREE
        hint = 'Write Constraints(heads={4: 0}) or {"heads": {4: 0}}.'
        if not isinstance(given, Mapping):
            message = f"The constraints of a sentence must be a Constraints or a dictionary, not {described(given)}."
            raise TreefineError(message, hint=hint)
        for name in given:
            if name not in _EXAMPLES:
                close = get_close_matches(name, _EXAMPLES, 1) if isinstance(name, str) else []
                known = f"Did you mean {close[0]}?" if close else f"The keys are {', '.join(_EXAMPLES)}. {hint}"
                raise TreefineError(f"Constraints have no key {name!r}.", hint=known)
        return cls(**given)

    def __bool__(self) -> bool:
        return bool(self.heads or self.labels or self.not_heads or self.not_labels)

    def put_into(self, arcs: Arcs) -> Arcs:
        """Return the arcs with the decisions applied, so that the first step already reads them."""
        heads, labels = list(arcs.heads), list(arcs.labels)
        for word, head in self.heads.items():
            if heads[word - 1] != head:
                heads[word - 1], labels[word - 1] = head, BLANK
        for word, label in self.labels.items():
            labels[word - 1] = label
        for word, forbidden in self.not_heads.items():
            if heads[word - 1] in forbidden:
                heads[word - 1] = None
        for word, names in self.not_labels.items():
            if labels[word - 1] in names:
                labels[word - 1] = BLANK
        return Arcs(tuple(heads), tuple(labels))

    def mark(self, given: Sentence | HasSentence) -> Sentence:
        """Write these decisions to HEAD, DEPREL and MISC of a sentence, as `marked` reads them; drop older marks."""
        sentence = given if isinstance(given, Sentence) else given.sentence
        heads = tuple([self.heads.get(word, head) for word, head in enumerate(sentence.heads, start=1)])
        labels = tuple([self.labels.get(word, label) for word, label in enumerate(sentence.labels, start=1)])
        notes = []
        for word, note in enumerate(sentence.column(sentence.format.misc), start=1):
            kept = [each for each in note.split("|") if each.partition("=")[0] not in (*_MARKS, BLANK)]
            notes.append("|".join([*kept, *self._marks(word)]) or BLANK)
        return sentence.with_arcs(Arcs(heads, labels)).with_misc(notes)

    def _marks(self, word: int) -> Iterator[str]:
        decided = (word in self.heads, word in self.labels)
        yield from (f"{_KEEP}={value}" for value, which in _KEPT.items() if which == decided)
        for label in self.not_labels.get(word, ()):
            if "," in label or "|" in label:
                raise TreefineError(f"The label {label!r} cannot be written in a mark: it contains a comma or a bar.")
        for name, forbidden in ((_NOT_HEAD, self.not_heads), (_NOT_LABEL, self.not_labels)):
            if forbidden.get(word):
                yield f"{name}={','.join(map(str, forbidden[word]))}"


class UnknownLabel(NamedTuple):
    """A label in a constraint that the model does not know, and the known label that may be meant."""

    word: int
    label: str
    nearest: str | None

    @property
    def message(self) -> str:
        """The error message."""
        return f"The model has no label {shortened(self.label)!r}."

    @property
    def warning(self) -> str:
        """The hint of a warning."""
        return f"Did you mean {self.nearest}?" if self.nearest else "Check its spelling."


def unknown_labels(constraints: Constraints, known: Collection[str]) -> Iterator[UnknownLabel]:
    """Yield the labels in constraints that the model does not know; they are often typing mistakes.

    A required label may also be a subtype of a known label, or a name from another scheme (see `read_as`). A forbidden
    label must be known, because forbidding any other label has no effect.
    """
    required = [(word, label) for word, label in constraints.labels.items() if read_as(label, known) not in known]
    forbidden = [(word, label) for word, labels in constraints.not_labels.items() for label in labels]
    for word, label in required + [each for each in forbidden if each[1] not in known]:
        same = read_as(label.lower(), known)
        nearest = same if same in known else next(iter(get_close_matches(same, sorted(known), 1)), None)
        yield UnknownLabel(word, label, nearest)


def label_warning(sentence: Sentence, constraints: Constraints, known: Collection[str]) -> TreebankError | None:
    """Return a warning about the first label in the constraints that the model does not know, if there is one."""
    found = next(unknown_labels(constraints, known), None)
    return found and sentence.error(found.message, word=found.word, hint=found.warning)


def _is_label(value: object) -> bool:
    return isinstance(value, str) and value != ""


FREE = Constraints()


def decisions_in(sentence: Sentence, keep: Keep) -> Constraints:
    """Return the decisions in a sentence that a parser keeps.

    "marked" are those marked in MISC: Keep=Arc, Keep=Head or Keep=Label, NotHead=2,5, NotLabel=obj,iobj. "given" are
    all heads and labels that are not blank, and what marks forbid. "nothing" ignores the sentence.
    """
    if keep == "nothing":
        return FREE
    marked = marks_of(sentence)
    if keep == "marked":
        return marked
    heads = {word: head for word, head in enumerate(sentence.arcs.heads, start=1) if head is not None}
    labels = {word: label for word, label in enumerate(sentence.labels, start=1) if label != BLANK}
    return Constraints(heads, labels, marked.not_heads, marked.not_labels)


def marks_of(sentence: Sentence) -> Constraints:
    """Return the decisions marked in one sentence."""
    misc = sentence.format.misc
    together = "" if misc is None else "|".join(set(sentence.columns[misc])).lower()
    if misc is None or not any(name in together for name in _LOWER):
        return FREE
    heads, labels = dict[int, int](), dict[int, str]()
    not_heads, not_labels = dict[int, tuple[int, ...]](), dict[int, tuple[str, ...]]()
    words, arcs = {line: word for word, line in enumerate(sentence.word_lines, start=1)}, sentence.arcs
    marks = [(line, mark) for line, note in enumerate(sentence.columns[misc]) for mark in note.split("|")]
    for line, mark in marks:
        name, _, value = mark.partition("=")
        if name.lower() not in _LOWER:
            continue
        if line not in words:
            hint = "Mark the words themselves."
            raise sentence.error(f"{mark} is on the line of a multiword token or empty node.", line=line, hint=hint)
        word = words[line]
        head, label = arcs.heads[word - 1], arcs.labels[word - 1]
        if name == _KEEP and value in _KEPT:
            keeps_head, keeps_label = _KEPT[value]
            if (keeps_head and head is None) or (keeps_label and label == BLANK):
                what = "head, but HEAD" if keeps_head and head is None else "label, but DEPREL"
                raise sentence.error(f"The mark keeps the {what} is blank.", line=line, hint="Fill it in.")
            if keeps_head and head is not None:
                heads[word] = head
            if keeps_label:
                labels[word] = label
        elif name == _NOT_HEAD and _NUMBERS.fullmatch(value):
            not_heads[word] = tuple(map(int, value.split(",")))
        elif name == _NOT_LABEL and all(value.split(",")):
            not_labels[word] = tuple(value.split(","))
        else:
            raise sentence.error(f"{mark} is not a valid mark.", line=line, hint=_HINT)
    return Constraints(heads, labels, not_heads, not_labels)
