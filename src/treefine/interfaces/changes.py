"""What a refinement changed, counted and told in a few lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from treefine.drawing.characters import visible
from treefine.interfaces.tables import count
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import BLANK

if TYPE_CHECKING:
    from treefine.parsing.parse import Parse

MOST = 8  # labels told of each kind; the file of changes has all of them


class Changes:
    """Counts, sentence by sentence; `known` are the labels that the model has.

    A word that had no arc, or no label, has none to change: what it got is counted apart.
    """

    def __init__(self, known: Collection[str]) -> None:
        self._known = known
        self.n_sentences = self.n_words = 0
        self.n_changed = 0  # sentences
        self.n_heads = 0  # words with another head
        self.n_added = 0  # arcs of words that had none
        self.n_named = 0  # labels of arcs that had none
        self.moved: Counter[str] = Counter()  # by label: another head, the same label
        self.relabelled: Counter[tuple[str, str]] = Counter()  # old and new label, the same head
        self.replaced: Counter[tuple[str, str]] = Counter()  # old and new label, another head
        self.converged: Counter[int] = Counter()  # sentences, by the step that repeated its input
        self.sure: Counter[int] = Counter()  # those that stopped sooner, by the step that was sure enough
        self.unfinished: Counter[int] = Counter()  # those that did neither, by the steps they had
        self.read_as: Counter[tuple[str, str]] = Counter()  # labels of the input that the model has other names for

    def add(self, parse: Parse, given: Arcs) -> Parse:
        """Count one more sentence, of which the file has these arcs; give it back with them for G⁰.

        A label that was read by another name has that one, unless it came back as it was. One that was not read has its
        own name.
        """
        parse = replace(parse, initial=Arcs(given.heads, self._told(parse, given)))
        self.n_sentences += 1
        self.n_words += len(parse)
        ended = self.converged if parse.converged else self.sure if parse.was_sure else self.unfinished
        ended[len(parse.steps)] += 1
        changes = parse.changes
        self.n_changed += bool(changes)
        for each in changes:
            labels = (each.old_label, each.label)
            if each.old_head is None:
                self.n_added += 1
                continue
            self.n_heads += each.old_head != each.head
            if each.old_label == BLANK:
                self.n_named += 1
            elif each.old_head == each.head:
                self.relabelled[labels] += 1
            elif each.old_label == each.label:
                self.moved[each.label] += 1
            else:
                self.replaced[labels] += 1
        return parse

    def _told(self, parse: Parse, given: Arcs) -> tuple[str, ...]:
        """The old labels, as they are told; those that have another name here, or none, are counted."""
        told = []
        for head, own, read, label in zip(*given, parse.initial.labels, parse.labels, strict=True):
            is_read = read in self._known
            is_decided = own == label and own not in self._known  # a person's own label, which no model gives
            if head is not None and own != BLANK and not is_decided and (not is_read or read != own):
                self.read_as[own, read if is_read else BLANK] += 1
            told.append(read if is_read and own != label else own)
        return tuple(told)

    def rows(self, most: int = MOST) -> list[tuple[str, str]]:
        """What is told: a name and what there is to say under it; of labels the `most` frequent."""
        found = [
            ("sentences", f"{self.n_sentences:,}, {self.n_changed:,} of them changed"),
            ("words", f"{self.n_words:,}"),
            ("heads changed", f"{self.n_heads:,}"),
            ("labels changed", f"{self.relabelled.total():,}, of words with the same head"),
        ]
        if self.n_added:
            found.append(("new arcs", f"{self.n_added:,}, of words that had none"))
        if self.n_named:
            found.append(("new labels", f"{self.n_named:,}, of words that had a head alone"))
        labels = {f"{old} → {new}": n for (old, new), n in (self.relabelled + self.replaced).items()}
        other = {f"{old} → {new}": n for (old, new), n in self.read_as.items() if new != BLANK}
        unread = {old: n for (old, new), n in self.read_as.items() if new == BLANK}
        for name, counted in (
            ("old and new label", labels),
            ("head alone", self.moved),
            ("labels renamed", other),
            ("labels not read", unread),
        ):
            if counted:
                found.append((name, _most_frequent(Counter(counted), most)))
        shares = [f"{self._share(n)} at step {t}" for t, n in sorted(self.converged.items())]
        shares += [f"{self._share(n)} sure enough at step {t}" for t, n in sorted(self.sure.items())]
        shares += [f"{self._share(n)} not within {count(t, 'step')}" for t, n in sorted(self.unfinished.items())]
        if shares:
            found.append(("converged", ", ".join(shares)))
        return found

    def lines(self) -> list[str]:
        """The same as lines for a terminal."""
        rows = self.rows()
        width = max(len(name) for name, _ in rows)
        return [f"{name:{width}}  {visible(said)}" for name, said in rows]

    def values(self) -> dict[str, Any]:
        """All counts, for JSON."""

        def pairs(counted: Counter[tuple[str, str]]) -> list[dict[str, Any]]:
            return [{"old": old, "new": new, "times": n} for (old, new), n in counted.most_common()]

        return {
            "sentences": self.n_sentences,
            "changed_sentences": self.n_changed,
            "words": self.n_words,
            "heads": self.n_heads,
            "labels": self.relabelled.total(),
            "new_arcs": self.n_added,
            "new_labels": self.n_named,
            "same_label": dict(self.moved.most_common()),
            "same_head": pairs(self.relabelled),
            "other_head_and_label": pairs(self.replaced),
            "converged": {str(t): n for t, n in sorted(self.converged.items())},
            "sure_enough": {str(t): n for t, n in sorted(self.sure.items())},
            "not_converged": {str(t): n for t, n in sorted(self.unfinished.items())},
            "read_as": {old: None if new == BLANK else new for old, new in sorted(self.read_as)},
        }

    def _share(self, number: int) -> str:
        return f"{100 * number / self.n_sentences:.1f} %"


def _most_frequent(counted: Counter[str], most: int) -> str:
    told = [f"{name} {n:,}" for name, n in counted.most_common(most)]
    rest = len(counted) - len(told)
    return ", ".join([*told, *([f"and {rest:,} more" if rest > 1 else "and one more"] if rest else [])])
