"""Turn a user's constraints into masks for the decoder, and check that some tree satisfies them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from treefine.model.batch import ARC, HEAD, LABEL, Allowed, Graphs
from treefine.model.vocabulary import UNSEEN, Vocabulary
from treefine.parsing.decode import Decoder
from treefine.treebank.constraints import Constraints
from treefine.treebank.graph import ROOT, Arcs
from treefine.treebank.schemes import read_as
from treefine.treebank.sentence import Sentence

Mask = NDArray[np.bool_]
MOST_LISTED = 8  # constraints listed in an error message
MOST_WORK = 50_000_000  # arcs visited to find a contradiction: about ten seconds


def named_as_given(arcs: Arcs, constraints: Constraints, vocabulary: Vocabulary) -> Arcs:
    """Return the initial arcs with constrained labels spelled as the user gave them, not as the model reads them.

    A kept label of another label scheme is then not reported as a change.
    """
    labels = list(arcs.labels)
    for word, label in constraints.labels.items():
        if labels[word - 1] == read_as(label, vocabulary.labels):
            labels[word - 1] = label
    return arcs._replace(labels=tuple(labels))


def with_decisions(graphs: Graphs, constraints: Sequence[Constraints], vocabulary: Vocabulary) -> Graphs:
    """Return initial graphs in which the heads and labels that a person decided are marked as such.

    A word whose label is decided has that label even if it has no head. What is forbidden is not marked, and neither is
    a label that the model does not know: later steps read another label in its place.
    """
    if not any(each.heads or each.labels for each in constraints):
        return graphs
    decided, labels = torch.zeros_like(graphs.heads), graphs.labels.clone()
    for row, each in enumerate(constraints):
        for word in each.heads:
            decided[row, word] = HEAD
        for word, label in zip(each.labels, vocabulary.label_ids(list(each.labels.values())), strict=True):
            labels[row, word] = label
            if label != UNSEEN:
                decided[row, word] = ARC if word in each.heads else LABEL
    return replace(graphs, labels=labels, decided=decided)


def allowed_of(
    constraints: Sequence[Constraints], lengths: Sequence[int], decoder: Decoder, vocabulary: Vocabulary
) -> Allowed:
    """Return the allowed heads and labels of each sentence in a batch."""
    n_words = max(lengths) + 1
    heads = np.ones((len(lengths), n_words, n_words), dtype=bool)
    labels = np.ones((len(lengths), n_words, len(vocabulary.labels)), dtype=bool)
    for row, (each, length) in enumerate(zip(constraints, lengths, strict=True)):
        if each:
            part = slice(length + 1)
            heads[row, part, part], labels[row, part] = _masks(each, length, decoder, vocabulary)
    return Allowed(torch.from_numpy(heads), torch.from_numpy(labels))


def _masks(constraints: Constraints, n_words: int, decoder: Decoder, vocabulary: Vocabulary) -> tuple[Mask, Mask]:
    """Return the masks of allowed heads [dep, head] and labels [dep, label].

    Because of the root label rule, a constraint on a word's label can determine whether the word is the root.
    """
    n_labels = len(vocabulary.labels)
    root_label = decoder.root_label if n_labels > 1 else None
    heads, labels = np.ones((n_words + 1, n_words + 1), bool), np.ones((n_words + 1, n_labels), bool)
    np.fill_diagonal(heads[1:, 1:], False)
    for word, head in constraints.heads.items():
        heads[word] &= np.arange(n_words + 1) == head
    for word, forbidden in constraints.not_heads.items():
        heads[word, list(forbidden)] = False
    for word, names in constraints.not_labels.items():
        labels[word, [label for label in map(vocabulary.label_id, names) if label is not None]] = False
    for word, name in constraints.labels.items():
        (label,) = vocabulary.label_ids([name])  # the network has no scores for an unknown label
        labels[word] = np.arange(n_labels) == label if label != UNSEEN else True
        if name in constraints.not_labels.get(word, ()):
            labels[word] = False
    is_root_label = np.arange(n_labels) == root_label
    for word in {*constraints.labels, *constraints.not_labels}:
        heads[word, ROOT] &= labels[word, is_root_label if root_label is not None else slice(None)].any()
        heads[word, 1:] &= labels[word, ~is_root_label].any()
    return heads, labels


class _Decision(NamedTuple):
    """One constraint on one word."""

    field: str  # of Constraints
    word: int
    value: Any  # a head or a label

    def described(self, sentence: Sentence) -> str:
        must = "must not" if self.field.startswith("not_") else "must"
        word = f"word {self.word} {sentence.forms[self.word - 1]!r} {must}"
        if self.field.endswith("labels"):
            return f"{word} have the label {self.value}"
        place = f"attach to {self.value} {sentence.forms[self.value - 1]!r}" if self.value else "be the root"
        return f"{word} {place}"


def check_constraints(sentence: Sentence, constraints: Constraints, decoder: Decoder, vocabulary: Vocabulary) -> None:
    """Raise an error if no tree satisfies the constraints. The error lists those that contradict each other."""
    decisions, n_words = list[_Decision](), len(sentence)
    for name in ("labels", "heads", "not_heads", "not_labels"):
        for word, value in getattr(constraints, name).items():
            if not 1 <= word <= n_words:
                raise sentence.error(f"There is a constraint on word {word}, but the sentence has {n_words} words.")
            decisions += [_Decision(name, word, each) for each in (value if name.startswith("not_") else [value])]
    for name, word, value in decisions:
        if name.endswith("heads") and not 0 <= value <= n_words:
            message = f"A constraint names the head {value}, but the sentence has {n_words} words."
            raise sentence.error(message, word=word)
        if name == "heads" and value == word:
            raise sentence.error("A constraint attaches this word to itself.", word=word)

    def is_possible(some: Sequence[_Decision]) -> bool:
        allowed, _ = _masks(_joined(some), n_words, decoder, vocabulary)
        heads = decoder.search(np.where(allowed, 0.0, -np.inf))
        return bool(allowed[np.arange(1, n_words + 1), heads[1:]].all())

    if is_possible(decisions):
        return
    wrong = decisions
    for each in decisions[: max(MOST_WORK // (n_words + 1) ** 2, 20)]:  # leave out what is not needed, labels first
        rest = [other for other in wrong if other is not each]
        if not is_possible(rest):
            wrong = rest
    wrong.sort(key=lambda each: (each.word, each.field.startswith("not_"), each.field.endswith("labels")))
    listed = "; ".join(each.described(sentence) for each in wrong[:MOST_LISTED])
    if len(wrong) > MOST_LISTED:
        listed += f"; and {len(wrong) - MOST_LISTED} more"
    kind = "projective tree" if decoder.is_projective else "tree with one root"
    which, hint = "this constraint", "Change or remove it."
    if len(wrong) > 1:
        which, hint = "all of these constraints", "Change one of them."
    raise sentence.error(f"No {kind} satisfies {which}: {listed}.", word=wrong[0].word, hint=hint)


def _joined(decisions: Sequence[_Decision]) -> Constraints:
    fields: dict[str, dict[int, Any]] = {name: {} for name in ("heads", "labels", "not_heads", "not_labels")}
    for name, word, value in decisions:
        if name.startswith("not_"):
            fields[name].setdefault(word, []).append(value)
        else:
            fields[name][word] = value
    return Constraints(**fields)
