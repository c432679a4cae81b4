"""Turn a user's constraints into masks for the decoder, and check that some tree satisfies them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from treefine.model.batch import ARC, HEAD, LABEL, Allowed, Graphs
from treefine.model.vocabulary import UNSEEN, Vocabulary
from treefine.parsing.decode import Decoder
from treefine.treebank.constraints import Constraints
from treefine.treebank.graph import ROOT, Arcs, find_cycles
from treefine.treebank.label_schemes import read_as
from treefine.treebank.sentence import Sentence

Mask = NDArray[np.bool_]
MOST_LISTED = 8  # constraints listed in an error message
MOST_WORK = 50_000_000  # arcs and constraints visited to find a contradiction: about ten seconds


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
    return replace(graphs, labels=labels, has_any=True, decided=decided)


def allowed_of(
    constraints: Sequence[Constraints], lengths: Sequence[int], decoder: Decoder, vocabulary: Vocabulary
) -> Allowed | None:
    """Return the allowed heads and labels of each sentence in a batch, or None if no sentence has constraints."""
    if not any(constraints):
        return None
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


def check_constraints(
    sentence: Sentence, constraints: Constraints, decoder: Decoder, vocabulary: Vocabulary, *, in_parts: bool = False
) -> None:
    """Raise an error if no tree satisfies the constraints. The error lists those that contradict each other.

    If the sentence is parsed `in_parts`, check only what is quick to find; each part is checked later.
    """
    _check_words(sentence, constraints)
    atoms = [*_atoms(constraints)]
    for atom in atoms:
        _check_head(sentence, atom)

    def is_possible(some: Sequence[_Atom]) -> bool:
        heads, _ = _masks(_joined(some), len(sentence), decoder, vocabulary)
        return decoder.has_tree(heads)

    if not in_parts and is_possible(atoms):
        return
    found, are_all_needed = _obvious(constraints, len(sentence)), True
    if in_parts and not found:
        return
    if not found:
        found, are_all_needed = _smallest(atoms, is_possible, MOST_WORK // _work(len(sentence), len(atoms), decoder))
    wrong = sorted(found, key=lambda atom: (atom.word, atom.is_forbidden, atom.head is None))
    listed = "; ".join(_described(sentence, atom) for atom in wrong[:MOST_LISTED])
    if len(wrong) > MOST_LISTED:
        listed += f"; and {len(wrong) - MOST_LISTED} more"
    kind = "projective tree" if decoder.is_projective else "tree with one root"
    if len(wrong) == 1:
        message, hint = f"No {kind} satisfies this constraint: {listed}.", "Change or remove it."
    elif are_all_needed:
        message, hint = f"No {kind} satisfies all of these constraints: {listed}.", "Change one of them."
    else:
        message = f"No {kind} satisfies all of these {len(wrong)} constraints: {listed}."
        hint = "Some of them contradict each other; remove some."
    raise sentence.error(message, word=wrong[0].word, hint=hint)


class _Atom(NamedTuple):
    """One constraint on one word."""

    word: int
    head: int | None = None
    label: str | None = None
    is_forbidden: bool = False


def _atoms(constraints: Constraints) -> Iterator[_Atom]:
    yield from (_Atom(word, label=label) for word, label in constraints.labels.items())
    yield from (_Atom(word, head=head) for word, head in constraints.heads.items())
    for word, heads in constraints.not_heads.items():
        yield from (_Atom(word, head=head, is_forbidden=True) for head in heads)
    for word, labels in constraints.not_labels.items():
        yield from (_Atom(word, label=label, is_forbidden=True) for label in labels)


def _joined(atoms: Sequence[_Atom]) -> Constraints:
    heads: dict[int, int] = {}
    labels: dict[int, str] = {}
    not_heads: dict[int, list[int]] = {}
    not_labels: dict[int, list[str]] = {}
    for word, head, label, is_forbidden in atoms:
        if head is not None and is_forbidden:
            not_heads.setdefault(word, []).append(head)
        elif head is not None:
            heads[word] = head
        elif label is not None and is_forbidden:
            not_labels.setdefault(word, []).append(label)
        elif label is not None:
            labels[word] = label
    return Constraints(heads, labels, not_heads, not_labels)


def _obvious(constraints: Constraints, n_words: int) -> list[_Atom]:
    """Return required heads that form a cycle or two roots, which are quick to find, or else an empty list."""
    for cycle in find_cycles([constraints.heads.get(word, ROOT) for word in range(n_words + 1)]):
        return [_Atom(word, head=constraints.heads[word]) for word in cycle]
    roots = [word for word, head in constraints.heads.items() if head == ROOT]
    return [_Atom(word, head=ROOT) for word in roots[:2]] if len(roots) > 1 else []


def _work(n_words: int, n_atoms: int, decoder: Decoder) -> int:
    """Estimate the work of one check: all arcs and constraints, and much more for a long projective tree."""
    n_arcs = (n_words + 1) ** 2
    return n_atoms + (n_arcs * (1 + n_words // 100) if decoder.is_projective else n_arcs)


def _smallest(
    atoms: list[_Atom], is_possible: Callable[[Sequence[_Atom]], bool], n_trials: int
) -> tuple[list[_Atom], bool]:
    """Return a contradictory subset of the constraints, and whether it is minimal.

    Leave out runs of constraints, labels first, as long as the rest stays contradictory. Shorten the runs until they
    are single constraints or no trials are left.
    """
    size = len(atoms) // 2
    while size:
        start = 0
        while start < len(atoms):
            if not n_trials:
                return atoms, len(atoms) == 1
            n_trials -= 1
            rest = atoms[:start] + atoms[start + size :]
            if is_possible(rest):
                start += size
            else:
                atoms = rest
        size //= 2
    return atoms, True


def _check_words(sentence: Sentence, constraints: Constraints) -> None:
    decided = (constraints.heads, constraints.labels, constraints.not_heads, constraints.not_labels)
    for word in {word for each in decided for word in each}:
        if not 1 <= word <= len(sentence):
            raise sentence.error(f"There is a constraint on word {word}, but the sentence has {len(sentence)} words.")


def _check_head(sentence: Sentence, atom: _Atom) -> None:
    if atom.head is not None and not 0 <= atom.head <= len(sentence):
        message = f"A constraint names the head {atom.head}, but the sentence has {len(sentence)} words."
        raise sentence.error(message, word=atom.word)
    if atom.head == atom.word and not atom.is_forbidden:
        raise sentence.error("A constraint attaches this word to itself.", word=atom.word)


def _described(sentence: Sentence, atom: _Atom) -> str:
    must = "must not" if atom.is_forbidden else "must"
    word = f"word {atom.word} {sentence.forms[atom.word - 1]!r} {must}"
    if atom.head is None:
        return f"{word} have the label {atom.label}"
    return f"{word} " + (f"attach to {atom.head} {sentence.forms[atom.head - 1]!r}" if atom.head else "be the root")
