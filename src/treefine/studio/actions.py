"""Actions of a person: each is a function from a sentence to the sentence that replaces it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import count
from typing import Any

from treefine.errors import TreebankError, TreefineError, shortened
from treefine.serving.limits import ServingError
from treefine.studio.document import STATUS_COMMENT, Document, newline_of
from treefine.treebank import edits
from treefine.treebank.conllu import Stretch, Unreadable, read_stretch
from treefine.treebank.constraints import FREE, Constraints, marks_of
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import BLANK, CONLLU, Sentence

_STATUSES = ("open", "done", "doubtful")


@dataclass(frozen=True)
class Action:
    """One action on a sentence, as the page sends it. `do` says which; the other fields are those that it needs."""

    do: str
    word: int | None = None
    last: int | None = None  # of a range of words
    head: int | None = None
    label: str | None = None
    column: str | None = None
    value: str | None = None
    forms: tuple[str, ...] | None = None
    lines: tuple[str, ...] | None = None
    arcs: tuple[tuple[int, int | None, str], ...] | None = None  # word, head and label; None: no head
    tags: tuple[tuple[int, str, str], ...] | None = None  # word, column and value: cells to change as well
    words: tuple[int, ...] | None = None
    is_new: bool = False  # the label is meant as it is, although the treebank does not have it

    def need(self, name: str) -> Any:
        """Return a field; raise an error if it is missing."""
        value = getattr(self, name)
        if value is None:
            raise TreefineError(f"The action {self.do!r} needs {name}.")
        return value


def act(
    document: Document, key: int, action: Action, *, labels: Collection[str] = ()
) -> tuple[list[int], list[Sentence]]:
    """Return the keys to replace and the sentences to replace them by. `labels` are those that the treebank knows."""
    if action.do == "source":  # also for lines that are not a valid sentence
        return [key], [_read_lines(action.need("lines"), newline_of(document.text(key)))]
    sentence = document.valid_sentence(key)
    if action.do == "join_sentences":
        following = next(iter(document.keys[document.place(key) + 1 :]), None)
        if following is None:
            raise sentence.error("This is the last sentence.", hint="There is nothing to join it with.")
        return [key, following], [_joined(document, key, following)]
    if action.do == "split_sentence":
        return [key], list(_split(document, sentence, action.need("word")))
    if action.do not in _ACTIONS:
        known = ", ".join([*_ACTIONS, "split_sentence", "join_sentences", "source"])
        raise TreefineError(f"There is no action {action.do!r}.", hint=f"There are {known}.")
    if action.word is not None and not 1 <= action.word <= len(sentence):
        raise sentence.error(f"There is no word {action.word}.", hint=f"The sentence has {len(sentence)} words.")
    if action.label is not None and labels and action.label not in labels and not action.is_new:
        nearest = next(iter(get_close_matches(action.label, sorted(labels), 1)), None)
        hint = f"Did you mean {nearest}?" if nearest else ""
        message = f"No word of this treebank has the label {shortened(action.label)!r}."
        raise ServingError(message, hint=hint, status=422)  # the person can insist on it
    changed = _ACTIONS[action.do](sentence, action)
    for word, column, value in action.tags or ():
        changed = edits.set_cell(changed, word, column, value)
    return [key], [changed]


# Decisions


def decisions_of(sentence: Sentence) -> Constraints:
    """Return the decisions marked in a sentence; none if its marks are not valid."""
    try:
        return marks_of(sentence)
    except TreefineError:
        return FREE


def confirmed(sentence: Sentence, words: Iterable[int], *, with_labels: bool = True) -> Sentence:
    """Decide the arcs of some words as they are; a blank head or label is not decided. What was forbidden is allowed.

    Without labels, only the heads are decided, and the labels are not any more.
    """
    decided, arcs = decisions_of(sentence), sentence.arcs
    heads, labels = dict(decided.heads), dict(decided.labels)
    for word in words:
        head = arcs.heads[word - 1] if 1 <= word <= len(sentence) else None
        if head is not None:
            heads[word] = head
            labels.pop(word, None)
            if with_labels and arcs.labels[word - 1] != BLANK:
                labels[word] = arcs.labels[word - 1]
    not_heads = _without_values(decided.not_heads, heads)
    not_labels = _without_values(decided.not_labels, labels)
    return Constraints(heads, labels, not_heads, not_labels).mark(sentence)


def _without_values(forbidden: Mapping[int, Collection[Any]], chosen: Mapping[int, Any]) -> dict[int, Any]:
    """Return the values that are forbidden at each word, without those that are chosen now."""
    left = {word: [value for value in values if value != chosen.get(word)] for word, values in forbidden.items()}
    return {word: values for word, values in left.items() if values}


def _freed(sentence: Sentence, words: Collection[int]) -> Sentence:
    decided = decisions_of(sentence)
    columns = (decided.heads, decided.labels, decided.not_heads, decided.not_labels)
    return Constraints(*(_without(each, words) for each in columns)).mark(sentence) if decided else sentence


def forbidding(decided: Constraints, word: int, *, head: int | None = None, label: str | None = None) -> Constraints:
    """Return the decisions with one more, against a head or a label of a word."""
    not_heads, not_labels = dict(decided.not_heads), dict(decided.not_labels)
    if head is not None:
        not_heads[word] = [*dict.fromkeys([*not_heads.get(word, ()), head])]
    if label is not None:
        not_labels[word] = [*dict.fromkeys([*not_labels.get(word, ()), label])]
    return replace(decided, not_heads=not_heads, not_labels=not_labels)


def _without(by_word: Mapping[int, Any], words: Collection[int]) -> dict[int, Any]:
    return {word: value for word, value in by_word.items() if word not in words}


def _moved(before: Arcs, after: Arcs, *, by: int = 0) -> list[int]:
    """Return the words whose arcs differ, with the numbers after the change. `by` is what is added to old numbers."""
    old = [(head + by if head else head, label) for head, label in zip(*before, strict=True)]
    new = list(zip(*after, strict=True))
    return [word for word, (one, two) in enumerate(zip(old, new, strict=True), start=1) if one != two]


# Arcs


def _set_arc(sentence: Sentence, action: Action) -> Sentence:
    """Attach a word. A label that the person did not name is the parser's to choose."""
    word = action.need("word")
    changed = edits.set_arc(sentence, word, action.need("head"), action.label)
    others = {*_moved(sentence.arcs, changed.arcs)} - {word}  # had to move, so that the tree stays a tree
    return confirmed(_freed(changed, others), [word], with_labels=action.label is not None)


def _set_label(sentence: Sentence, action: Action) -> Sentence:
    word, _ = action.need("word"), action.need("label")
    head = sentence.heads[word - 1]
    if head is None:
        raise sentence.error("This word has no head yet.", word=word, hint="Attach it first.")
    return _set_arc(sentence, replace(action, head=head))


def set_arcs(sentence: Sentence, arcs: Iterable[tuple[int, int | None, str]]) -> Sentence:
    """Return the sentence with some arcs replaced, without deciding them."""
    heads, labels = list(sentence.heads), list(sentence.labels)
    for word, head, label in arcs:
        if not 1 <= word <= len(heads) or (head is not None and (not 0 <= head <= len(heads) or head == word)):
            raise sentence.error(f"There is no arc from {head} to {word}.", hint=f"The last word is {len(heads)}.")
        heads[word - 1], labels[word - 1] = head, label
    return sentence.with_arcs(sentence.arcs._replace(heads=tuple(heads), labels=tuple(labels)))


def _set_tree(sentence: Sentence, action: Action) -> Sentence:
    arcs = action.need("arcs")
    words = [word for word, _, _ in arcs]
    return confirmed(set_arcs(_freed(sentence, words), arcs), words)


def _forbid(sentence: Sentence, action: Action) -> Sentence:
    word, column = action.need("word"), action.need("column")
    if column not in ("head", "label"):
        raise TreefineError(f"The {column} of a word cannot be forbidden.", hint="Forbid its head or its label.")
    decided = decisions_of(sentence)
    decided = replace(decided, labels=_without(decided.labels, [word]))
    if column == "label":
        return forbidding(decided, word, label=sentence.labels[word - 1]).mark(sentence)
    decided = replace(decided, heads=_without(decided.heads, [word]))
    return forbidding(decided, word, head=sentence.heads[word - 1]).mark(sentence)


# Sentences


def _split(document: Document, sentence: Sentence, word: int) -> Iterator[Sentence]:
    """Yield the two halves. Words whose arcs had to change are not decided any more. The second gets a free sent_id."""
    first, second = edits.split_sentence(sentence, word)
    heads, labels = sentence.arcs
    n = len(first)
    yield _freed(first, _moved(Arcs(heads[:n], labels[:n]), first.arcs))
    second = _freed(second, _moved(Arcs(heads[n:], labels[n:]), second.arcs, by=-n))
    if sentence.sent_id:
        lines = {line for key in document.keys for line in document.text(key).splitlines() if line[:6] == "# sent"}
        names = (f"{sentence.sent_id}-{number}" for number in count(2))
        free = next(name for name in names if f"# sent_id = {name}" not in lines)
        second = edits.set_comment(second, "sent_id", free)
    yield second


def _joined(document: Document, key: int, following: int) -> Sentence:
    """Join two sentences. Words whose arcs had to change are not decided any more, nor is a status that one lacked."""
    first, second = document.valid_sentence(key), document.valid_sentence(following)
    joined = edits.join_sentences(first, second)
    heads, labels = joined.arcs
    n = len(first)
    moved = _moved(first.arcs, Arcs(heads[:n], labels[:n]))
    moved += [n + word for word in _moved(second.arcs, Arcs(heads[n:], labels[n:]), by=n)]
    has_one_status = document.status(key) == document.status(following)
    return _freed(joined if has_one_status else edits.set_comment(joined, STATUS_COMMENT, None), moved)


def _read_lines(lines: Iterable[str], newline: str) -> Sentence:
    """Return the sentence with these lines of CoNLL-U; an error names the line. Blank lines are dropped."""
    single = "\n".join(lines).replace("\r", "\n").split("\n")
    text = newline.join(line for line in single if line.strip()) + 2 * newline
    sentence = next(read_stretch(Stretch(text.encode(errors="surrogatepass"), 1), CONLLU, ""), None)
    if sentence is None:
        raise TreebankError("There are no lines.", hint="Join the sentence with another one instead.")
    if isinstance(sentence, Unreadable):
        first = sentence.faults[0]
        raise TreebankError(first.message, hint=first.hint, line=first.line, word=first.word)
    return sentence


def _set_status(sentence: Sentence, action: Action) -> Sentence:
    status = action.need("value")
    if status not in _STATUSES:
        raise TreefineError(f"There is no status {status!r}.", hint=f"There are {', '.join(_STATUSES)}.")
    return edits.set_comment(sentence, STATUS_COMMENT, None if status == "open" else status)


def _edit(function: Callable[..., Sentence], *fields: str) -> Callable[[Sentence, Action], Sentence]:
    return lambda sentence, action: function(sentence, *map(action.need, fields))


_ACTIONS: Mapping[str, Callable[[Sentence, Action], Sentence]] = {
    "arc": _set_arc,
    "label": _set_label,
    "tree": _set_tree,
    "keep": _edit(confirmed, "words"),
    "free": _edit(_freed, "words"),
    "forbid": _forbid,
    "status": _set_status,
    "cell": _edit(edits.set_cell, "word", "column", "value"),
    "split_word": _edit(edits.split_word, "word", "forms"),
    "join_words": _edit(edits.join_words, "word", "last"),
    "make_multiword": _edit(edits.make_multiword, "word", "last"),
    "split_into_multiword": _edit(edits.split_into_multiword, "word", "forms"),
    "remove_multiword": _edit(edits.remove_multiword, "word"),
    "comments": _edit(edits.set_comments, "lines"),
}
