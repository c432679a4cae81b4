"""A scripted annotator, who knows the right trees and corrects the sentences of a file one after another."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from benchmarks.annotation.screen import Screen
from treefine import Sentence, TreefineError

MOST_TURNS = 100  # of the wheel, to find a sentence in the list
MOST_ACTIONS = 8  # per word of a sentence; whoever needs more does not come to an end
Arc = tuple[int | None, str]
Kind = Literal["refuse", "label", "take", "drag", "arc", "digit", "done"]


class Move(NamedTuple):
    """The next action of the annotator."""

    kind: Kind
    word: int = 0
    head: int = 0
    label: str = ""
    place: int = 0  # of a suggestion in the list


@dataclass(frozen=True)
class View:
    """The parts of the page that the annotator reads."""

    arcs: Sequence[Arc]
    suggestions: Sequence[Arc | None] = ()  # the arc that each suggestion takes
    suggested: Sequence[int] = ()  # the words of the suggestions
    selected: int = 0
    is_in_label: bool = False  # the cursor is in the field for the label
    before_follow_up: Sequence[Arc] | None = None  # the arcs before the parser followed the last correction
    frequent: Sequence[str] = ()  # the labels that have a key of their own


def wrong(arcs: Sequence[Arc], gold: Sequence[Arc]) -> list[int]:
    """Return the words whose head or label is wrong."""
    return [word for word, (arc, right) in enumerate(zip(arcs, gold, strict=True), start=1) if arc != right]


def next_move(view: View, gold: Sequence[Arc]) -> Move:
    """Return what a careful person does with the least effort.

    A follow-up of the parser that broke more than it repaired is refused. Then the label of the word that was just
    attached is entered, if it is wrong. Then the leftmost wrong word is corrected: with a suggestion if it is right,
    else by dragging it onto its head, or, if only the label is wrong, by a click on its arc.
    """
    left = wrong(view.arcs, gold)
    if view.before_follow_up is not None and len(wrong(view.before_follow_up, gold)) < len(left):
        return Move("refuse")
    if not left:
        return Move("done")
    own = view.selected
    if view.is_in_label and own in left and view.arcs[own - 1][0] == gold[own - 1][0]:
        return Move("label", own, label=gold[own - 1][1])
    word = left[0]
    head, label = gold[word - 1]
    assert head is not None
    for place, (suggested, arc) in enumerate(zip(view.suggested, view.suggestions, strict=True)):
        if suggested == word and arc == (head, label):
            return Move("take", word, head, label, place)
    if view.arcs[word - 1][0] != head:
        return Move("drag", word, head)
    if word == own and label in view.frequent and not view.is_in_label:
        return Move("digit", word, label=label)
    return Move("arc", word, label=label)


@dataclass
class Tally:
    """Counts of what happened while sentences were corrected."""

    sentences: int = 0
    labels_chosen_right: int = 0  # by the parser, for words that were attached by dragging
    repaired: int = 0  # other arcs that the parser corrected by itself, in follow-ups that were not refused
    broken: int = 0  # other arcs that it broke, in all follow-ups
    refused: int = 0  # follow-ups
    moved: int = 0  # right arcs that attaching another word changed, so that the tree stays a tree
    not_applied: list[str] = field(default_factory=list)  # corrections that had no effect, with the message shown
    jumps: int = 0  # clicks into the list, because "next" did not lead to an open sentence
    seconds: float = 0.0
    drags_ms: list[float] = field(default_factory=list)  # from the release of the mouse to the shown follow-up
    labels_ms: list[float] = field(default_factory=list)  # from the last key of a label to the shown follow-up
    answers_ms: dict[str, list[float]] = field(default_factory=dict)  # by path
    actions_by_sentence: dict[int, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the counts for a row."""
        return {
            "seconds": round(self.seconds, 1),
            "labels_chosen_right": self.labels_chosen_right,
            "repaired": self.repaired,
            "broken": self.broken,
            "refused": self.refused,
            "moved": self.moved,
            "not_applied": self.not_applied,
            "jumps": self.jumps,
            "drag_to_follow_up_ms": spread(self.drags_ms),
            "label_to_follow_up_ms": spread(self.labels_ms),
            "answers_ms": {path: spread(each) for path, each in self.answers_ms.items()},
        }


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return how many values there are, their median, their 90th percentile and the greatest.

    >>> spread([3, 1, 2])
    {'n': 3, 'median': 2, 'p90': 3, 'max': 3}
    """
    if not values:
        return {"n": 0}
    ordered = sorted(values)
    high = ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))]
    found = {"median": statistics.median(ordered), "p90": high, "max": ordered[-1]}
    return {"n": len(ordered), **{name: round(value, 1) for name, value in found.items()}}


class Annotator:
    """Corrects sentences on a screen until they have their gold trees."""

    def __init__(
        self,
        screen: Screen,
        gold: Mapping[int, Sentence],
        *,
        before_input: Callable[[], None] = lambda: None,
        after_move: Callable[[], None] = lambda: None,
        after_sentence: Callable[[int], None] = lambda n_done: None,
    ) -> None:
        self.screen, self.tally = screen, Tally()
        self._gold = {key: _arcs_of(each) for key, each in gold.items()}  # of the sentences to correct
        self._before_input, self._after_move, self._after_sentence = before_input, after_move, after_sentence
        self._before_follow_up: list[Arc] | None = None
        self._done: set[int] = set()

    def correct_all(self) -> None:
        """Correct all sentences, the one that is shown first."""
        started = time.perf_counter()
        while len(self._done) < len(self._gold):
            if self.screen.key not in self._gold or self.screen.key in self._done:
                self._jump()
            self.correct()
            self._after_sentence(len(self._done))
        self.tally.seconds += time.perf_counter() - started

    def correct(self) -> None:
        """Correct the sentence that is shown, and end with "done, next"."""
        key, before = self.screen.key, self.screen.counts.actions
        self._before_follow_up = None
        most = MOST_ACTIONS * len(self._gold[key])
        while True:
            move = next_move(self._view(), self._gold[key])
            self._make(move, key)
            spent = self.screen.counts.actions - before
            if move.kind == "done" and self.screen.versions[key][-1]["status"] == "done":
                break
            if spent > most:
                hint = "; ".join([str(move), *self.tally.not_applied[-1:], *self.screen.errors[-1:]])
                raise TreefineError(f"Sentence {key} is not right after {spent} actions.", hint=hint)
        self.tally.actions_by_sentence[key] = spent
        self._done.add(key)

    def correct_first(self) -> bool:
        """Attach the leftmost word with a wrong head; return whether there is one."""
        key = self.screen.key
        shown = _shown_arcs(self.screen.sentence())
        pairs = zip(shown, self._gold[key], strict=True)
        found = next(((word, right[0]) for word, (arc, right) in enumerate(pairs, start=1) if arc[0] != right[0]), None)
        if found is None:
            return False
        assert found[1] is not None
        self._make(Move("drag", found[0], found[1]), key)
        return True

    def _view(self) -> View:
        screen, shown = self.screen, self.screen.sentence()
        offered = screen.suggestions(shown)
        return View(
            _shown_arcs(shown),
            [(each["head"], each["label"]) for each in offered],
            [each["word"] for each in offered],
            screen.selected,
            screen.is_in_label,
            self._before_follow_up,
            screen.frequent_labels,
        )

    def _make(self, move: Move, key: int) -> None:
        """Make a move, wait for what follows, and count it."""
        screen = self.screen
        before = _shown_arcs(screen.sentence())
        self._before_input()
        if move.kind == "drag":
            screen.drag(move.word, move.head)
        elif move.kind == "take":
            screen.click(f"#suggestions li:nth-child({move.place + 1}) .take", "take")
        elif move.kind == "arc":
            screen.click_arc(move.word)
            if not screen.is_in_label and not screen.digit_of(move.label):
                screen.press("l", "label field")
        elif move.kind in ("label", "digit"):
            screen.enter_label(move.label)
        else:
            screen.press("Enter" if move.kind == "done" else "Backspace", move.kind)
        screen.settle()
        self._insist(move)
        if move.kind == "done":
            self._before_follow_up = None
        else:
            self._count(move, before, key)
        self._after_move()

    def _insist(self, move: Move) -> None:
        """Press Enter again if the page asks whether a label is meant."""
        if move.kind == "label" and any(path == "edit" and status == 422 for path, status, *_ in self.screen.answers):
            self.screen.press("Enter", "label again")
            self.screen.settle()

    def _count(self, move: Move, before: Sequence[Arc], key: int) -> None:
        gold, tally = self._gold[key], self.tally
        after = _shown_arcs(self.screen.sentence())
        self._time(move)
        if move.kind == "arc":
            return
        if move.kind == "refuse":
            self._before_follow_up = None
            return
        states = {path: found for path, status, _, found in self.screen.answers if status == 200}
        own = _of_key(states.get("edit"), key)
        arc = after[move.word - 1]
        is_right = arc[0] == move.head if move.kind == "drag" else arc == gold[move.word - 1]
        if not is_right:
            what = [f"{path} {status}" for path, status, *_ in self.screen.answers]
            tally.not_applied.append(f"{move.kind}: {', '.join(what)}; {self.screen.problem}")
        self._before_follow_up = None
        if own is None:
            return
        edited = _shown_arcs(own)
        others = [word for word in range(1, len(gold) + 1) if word != move.word]
        tally.moved += sum(before[word - 1] == gold[word - 1] != edited[word - 1] for word in others)
        if move.kind == "drag" and arc == gold[move.word - 1]:
            tally.labels_chosen_right += 1
        if states.get("follow", {}).get("is_changed") and after != edited:
            self._before_follow_up = edited
            tally.broken += sum(edited[word - 1] == gold[word - 1] != after[word - 1] for word in others)
            if len(wrong(edited, gold)) >= len(wrong(after, gold)):  # else it is refused
                tally.repaired += sum(edited[word - 1] != gold[word - 1] == after[word - 1] for word in others)
            else:
                tally.refused += 1

    def _time(self, move: Move) -> None:
        times = self.screen.times_since_input()
        for path in ("edit", "follow", "advice"):
            if path in times:
                self.tally.answers_ms.setdefault(path, []).append(times[path])
        if "shown" in times and move.kind in ("drag", "take", "label", "digit"):
            found = self.tally.drags_ms if move.kind in ("drag", "take") else self.tally.labels_ms
            found.append(times["shown"])

    def _jump(self) -> None:
        """Click on the first sentence of the list that is not done; look through the list if it is not in view."""
        screen, rows = (
            self.screen,
            """() => [...document.querySelectorAll("#rows .row")].map((row) => +row.dataset.key)""",
        )
        for number in range(MOST_TURNS):
            keys = screen.page.evaluate(rows)
            found = next((key for key in keys if key in self._gold and key not in self._done), None)
            if found is not None:
                break
            screen.turn_wheel("#rows", 600 if number else -100_000)
        else:
            raise TreefineError("No open sentence is in the list.")
        self._before_input()
        screen.click(f'#rows .row[data-key="{found}"]', "jump")
        self.tally.jumps += 1
        screen.settle()


def _of_key(answer: Any, key: int) -> Any:
    return next((each for each in answer["sentences"] if each["key"] == key), None) if answer else None


def _arcs_of(sentence: Sentence) -> list[Arc]:
    return list(zip(sentence.heads, sentence.labels, strict=True))


def _shown_arcs(sentence: Any) -> list[Arc]:
    return [(word["head"], word["label"]) for word in sentence["words"]]
