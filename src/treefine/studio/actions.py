"""Actions of a person: each is a function from a sentence to the sentence that replaces it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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


class UnknownLabelError(ServingError):
    """A label that nothing in the treebank has; the person can insist on it."""

    status = 422


@dataclass(frozen=True)
class Action:
    """One action on a sentence. `do` says which; the other fields are those that it needs."""

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
        place = document.keys.index(key)
        if place + 1 == len(document):
            raise sentence.error("This is the last sentence.", hint="There is nothing to join it with.")
        following = document.keys[place + 1]
        joined = _joined(sentence, document.valid_sentence(following))
        has_one_status = document.status(key) == document.status(following)
        return [key, following], [joined if has_one_status else edits.set_comment(joined, STATUS_COMMENT, None)]
    if action.do == "split_sentence":
        first, second = _split(sentence, action.need("word"))
        return [key], [first, _with_free_id(second, sentence.sent_id, document)]
    if action.do not in _ACTIONS:
        known = ", ".join([*_ACTIONS, "split_sentence", "join_sentences", "source"])
        raise TreefineError(f"There is no action {action.do!r}.", hint=f"There are {known}.")
    if action.word is not None and not 1 <= action.word <= len(sentence):
        raise sentence.error(f"There is no word {action.word}.", hint=f"The sentence has {len(sentence)} words.")
    if action.label is not None and not action.is_new:
        check_label(action.label, labels)
    changed = _ACTIONS[action.do](sentence, action)
    for word, column, value in action.tags or ():
        changed = edits.set_cell(changed, word, column, value)
    return [key], [changed]


def check_label(label: str, known: Collection[str]) -> None:
    """Raise an error if the treebank does not know a label, which is often a typing mistake."""
    if not known or label in known:
        return
    nearest = next(iter(get_close_matches(label, sorted(known), 1)), None)
    hint = f"Did you mean {nearest}?" if nearest else "Use it all the same if you mean it."
    raise UnknownLabelError(f"No word of this treebank has the label {shortened(label)!r}.", hint=hint)


def decisions_of(sentence: Sentence) -> Constraints:
    """Return the decisions marked in a sentence; none if its marks are not valid."""
    try:
        return marks_of(sentence)
    except TreefineError:
        return FREE


def _set_arc(sentence: Sentence, action: Action) -> Sentence:
    """Attach a word. A label that the person did not name is the parser's to choose."""
    word, head = action.need("word"), action.need("head")
    changed = edits.set_arc(sentence, word, head, action.label)
    decided = _still_true(changed, decisions_of(changed), sentence)
    heads, labels = {**decided.heads, word: head}, _without(decided.labels, [word])
    if action.label is not None and changed.labels[word - 1] != BLANK:
        labels[word] = changed.labels[word - 1]
    return _agreeing(replace(decided, heads=heads, labels=labels)).mark(changed)


def _set_label(sentence: Sentence, action: Action) -> Sentence:
    word, _ = action.need("word"), action.need("label")
    head = sentence.heads[word - 1]
    if head is None:
        raise sentence.error("This word has no head yet.", word=word, hint="Attach it first.")
    return _set_arc(sentence, replace(action, head=head))


def _still_true(sentence: Sentence, decided: Constraints, before: Sentence) -> Constraints:
    """Return the decisions without those on words whose arc had to change so that the tree stays a tree."""
    moved = [
        word
        for word, pair in enumerate(zip(sentence.heads, before.heads, sentence.labels, before.labels, strict=True), 1)
        if pair[0] != pair[1] or pair[2] != pair[3]
    ]
    return Constraints(
        _without(decided.heads, moved), _without(decided.labels, moved), decided.not_heads, decided.not_labels
    )


def set_arcs(sentence: Sentence, arcs: Iterable[tuple[int, int | None, str]]) -> Sentence:
    """Return the sentence with some arcs replaced, without deciding them."""
    heads, labels = list(sentence.heads), list(sentence.labels)
    for word, head, label in arcs:
        if not 1 <= word <= len(heads) or (head is not None and (not 0 <= head <= len(heads) or head == word)):
            raise sentence.error(f"There is no arc from {head} to {word}.", hint=f"The last word is {len(heads)}.")
        heads[word - 1], labels[word - 1] = head, label
    return sentence.with_arcs(sentence.arcs._replace(heads=tuple(heads), labels=tuple(labels)))


def _set_tree(sentence: Sentence, action: Action) -> Sentence:
    """Take several arcs at once, for instance another annotator's, and decide them."""
    arcs = action.need("arcs")
    words = [word for word, _, _ in arcs]
    return confirmed(set_arcs(_freed(sentence, words), arcs), words)


def confirmed(sentence: Sentence, words: Iterable[int]) -> Sentence:
    """Decide the arcs of some words as they are; a blank head or label is not decided."""
    decided, arcs = decisions_of(sentence), sentence.arcs
    heads, labels = dict(decided.heads), dict(decided.labels)
    for word in words:
        head = arcs.heads[word - 1] if 1 <= word <= len(sentence) else None
        if head is not None:
            heads[word] = head
            if arcs.labels[word - 1] != BLANK:
                labels[word] = arcs.labels[word - 1]
    return _agreeing(replace(decided, heads=heads, labels=labels)).mark(sentence)


def _agreeing(decided: Constraints) -> Constraints:
    """Return the decisions without prohibitions of what is decided."""
    not_heads = {
        word: [head for head in some if head != decided.heads.get(word)] for word, some in decided.not_heads.items()
    }
    not_labels = {
        word: [label for label in some if label != decided.labels.get(word)]
        for word, some in decided.not_labels.items()
    }
    return replace(decided, not_heads=_filled(not_heads), not_labels=_filled(not_labels))


def _freed(sentence: Sentence, words: Collection[int]) -> Sentence:
    """Remove the decisions on some words."""
    decided = decisions_of(sentence)
    columns = (decided.heads, decided.labels, decided.not_heads, decided.not_labels)
    return Constraints(*(_without(each, words) for each in columns)).mark(sentence)


def _split(sentence: Sentence, word: int) -> list[Sentence]:
    """Split a sentence in two. Words whose arcs had to change are not decided any more."""
    first, second = edits.split_sentence(sentence, word)
    old = sentence.arcs
    return [
        _freed_if_moved(first, _shifted(old, 0)[: len(first)]),
        _freed_if_moved(second, _shifted(old, -len(first))[len(first) :]),
    ]


def _with_free_id(sentence: Sentence, start: str, document: Document) -> Sentence:
    """Return the second half of a sentence with a sent_id that no other sentence has."""
    taken = {line for key in document.keys for line in document.text(key).splitlines() if line.startswith("# sent_id")}
    numbers = (f"{start}-{number}" for number in count(2))
    free = next(each for each in numbers if f"# sent_id = {each}" not in taken)
    return edits.set_comment(sentence, "sent_id", free) if start else sentence


def _joined(first: Sentence, second: Sentence) -> Sentence:
    """Join two sentences. Words whose arcs had to change are not decided any more."""
    joined = edits.join_sentences(first, second)
    return _freed_if_moved(joined, [*_shifted(first.arcs, 0), *_shifted(second.arcs, len(first))])


def _shifted(arcs: Arcs, by: int) -> list[tuple[int | None, str]]:
    """Return the heads and labels of words whose numbers change by this much."""
    return [(head + by if head else head, label) for head, label in zip(*arcs, strict=True)]


def _freed_if_moved(sentence: Sentence, old: Sequence[tuple[int | None, str]]) -> Sentence:
    if not decisions_of(sentence):
        return sentence
    pairs = zip(old, _shifted(sentence.arcs, 0), strict=True)
    return _freed(sentence, [word for word, (before, after) in enumerate(pairs, start=1) if before != after])


def _forbid(sentence: Sentence, action: Action) -> Sentence:
    """Forbid the head or the label of a word; the parser then chooses another."""
    word, column = action.need("word"), action.need("column")
    decided = decisions_of(sentence)
    if column == "head":
        head = sentence.heads[word - 1]
        forbidden = [*decided.not_heads.get(word, ()), head]
        return Constraints(
            _without(decided.heads, [word]),
            _without(decided.labels, [word]),
            {**decided.not_heads, word: [each for each in dict.fromkeys(forbidden) if each is not None]},
            decided.not_labels,
        ).mark(sentence)
    if column == "label":
        names = dict.fromkeys([*decided.not_labels.get(word, ()), sentence.labels[word - 1]])
        return Constraints(
            decided.heads, _without(decided.labels, [word]), decided.not_heads, {**decided.not_labels, word: [*names]}
        ).mark(sentence)
    raise TreefineError(f"The {column} of a word cannot be forbidden.", hint="Forbid its head or its label.")


def _set_cell(sentence: Sentence, action: Action) -> Sentence:
    return edits.set_cell(sentence, action.need("word"), action.need("column"), action.value or "")


def _set_status(sentence: Sentence, action: Action) -> Sentence:
    status = action.need("value")
    if status not in _STATUSES:
        raise TreefineError(f"There is no status {status!r}.", hint=f"There are {', '.join(_STATUSES)}.")
    return edits.set_comment(sentence, STATUS_COMMENT, None if status == "open" else status)


def _read_lines(lines: Iterable[str], newline: str) -> Sentence:
    """Return the sentence with these lines of CoNLL-U; an error names the line. Blank lines are dropped."""
    single = "\n".join(lines).replace("\r", "\n").split("\n")
    text = newline.join(line for line in single if line.strip()) + 2 * newline
    for found in read_stretch(Stretch(text.encode(errors="surrogatepass"), 1), CONLLU, ""):
        if isinstance(found, Unreadable):
            first = found.faults[0]
            raise TreebankError(first.message, hint=first.hint, line=first.line, word=first.word)
        return found
    raise TreebankError("There are no lines.", hint="Join the sentence with another one instead.")


def _without(by_word: Mapping[int, Any], words: Collection[int]) -> dict[int, Any]:
    return {word: value for word, value in by_word.items() if word not in words}


def _filled(by_word: Mapping[int, Any]) -> dict[int, Any]:
    return {word: values for word, values in by_word.items() if values}


_ACTIONS: Mapping[str, Callable[[Sentence, Action], Sentence]] = {
    "arc": _set_arc,
    "label": _set_label,
    "tree": _set_tree,
    "keep": lambda sentence, action: confirmed(sentence, action.need("words")),
    "free": lambda sentence, action: _freed(sentence, action.need("words")),
    "forbid": _forbid,
    "cell": _set_cell,
    "split_word": lambda sentence, action: edits.split_word(sentence, action.need("word"), action.need("forms")),
    "join_words": lambda sentence, action: edits.join_words(sentence, action.need("word"), action.need("last")),
    "make_multiword": lambda sentence, action: edits.make_multiword(
        sentence, action.need("word"), action.need("last"), action.value or None
    ),
    "split_into_multiword": lambda sentence, action: edits.split_into_multiword(
        sentence, action.need("word"), action.need("forms")
    ),
    "remove_multiword": lambda sentence, action: edits.remove_multiword(sentence, action.need("word")),
    "comments": lambda sentence, action: edits.set_comments(sentence, action.need("lines")),
    "status": _set_status,
}
