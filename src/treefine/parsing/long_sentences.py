"""Parse a long sentence in parts and join their trees, so that memory grows linearly with its length.

The root of the first part is the root of the sentence. The roots of the other parts attach to it. See docs/design.md,
'Long sentences'.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from treefine.config import COLUMNS
from treefine.errors import LongSentenceWarning
from treefine.parsing.annotate import with_parse
from treefine.parsing.confidence import Confidence, sentence_confidence
from treefine.parsing.parse import Parse, tags_of
from treefine.parsing.plan import ParseInput, Plan
from treefine.treebank.constraints import FREE
from treefine.treebank.graph import ROOT, Arcs, Graph
from treefine.treebank.schemes import read_as
from treefine.treebank.sentence import BLANK, Sentence, Token

_ENDS, _BREAKS = frozenset(".!?…。！？؟।"), frozenset(";:,")  # punctuation after which a sentence can be cut
_JOINING = ("parataxis", "dep")  # labels of the arcs between parts, best first
_Result = TypeVar("_Result")


def in_parts(plan: Plan, whole: ParseInput, work: Callable[[Plan, Sequence[ParseInput]], list[_Result]]) -> _Result:
    """Return the result of `work` for a long sentence: a sentence with its tree, or a Parse without steps."""
    words = word_ranges(whole.sentence, plan.most_words)
    message = f"The sentence has {len(whole.sentence):,} words and is parsed in {len(words)} parts."
    place = whole.sentence.error(message, hint="Only the roots of the parts are connected.")
    warnings.warn(LongSentenceWarning(place), stacklevel=2)
    if plan.k > 1:
        raise _unsupported(plan, whole.sentence, "k must be 1 (--k 1)")
    results = [work(plan, [_part(whole, each)])[0] for each in words]
    joined: object
    if all(isinstance(each, Parse) for each in results):
        joined = _joined_parse(plan, whole, results)  # type: ignore[arg-type]
    elif all(isinstance(each, Sentence) for each in results):
        joined = _joined_sentence(plan, whole, results)  # type: ignore[arg-type]
    else:
        raise _unsupported(plan, whole.sentence, "its refinement steps cannot be shown (--show-steps)")
    return joined  # type: ignore[return-value]


def _unsupported(plan: Plan, sentence: Sentence, need: str) -> Exception:
    return sentence.error(f"The sentence has more than {plan.most_words:,} words, so {need}.")


def word_ranges(sentence: Sentence, most_words: int) -> list[range]:
    """Return the words, from 1, of each part of a sentence. The parts have similar lengths.

    A part ends after final punctuation or at a line end if there is one at a suitable place, else after a comma or a
    similar sign, else after any token.

    >>> word_ranges(Sentence.of_words("one two . three four five".split()), 4)
    [range(1, 4), range(4, 7)]
    """
    strengths = {token.words[-1]: _strength(token) for token in sentence.tokens()}
    ranges, start = list[range](), 1
    while (n_left := len(sentence) - start + 1) > most_words:
        size = -(-n_left // -(-n_left // most_words))  # of equal parts
        best = start + size - 1
        ends = [word for word in range(start + size // 2, start + most_words) if word in strengths] or [best]
        last = max(ends, key=lambda word, best=best: (strengths.get(word, 0), -abs(word - best)))  # type: ignore[misc]
        ranges.append(range(start, last + 1))
        start = last + 1
    return [*ranges, range(start, len(sentence) + 1)]


def _strength(token: Token) -> int:
    """Return how well a sentence can be cut after a token: 2 is best."""
    ends_line = any(note.startswith("SpacesAfter=") and "\\n" in note for note in token.misc.split("|"))
    return 2 if ends_line or _ENDS.issuperset(token.form) else int(token.form in _BREAKS)


def _part(whole: ParseInput, words: range) -> ParseInput:
    """Return one part as a sentence, without the initial arcs that leave it."""
    sentence, part = whole.sentence, slice(words.start - 1, words.stop - 1)
    tags = {column: getattr(sentence, column)[part] for column in COLUMNS}
    own = replace(Sentence.of_words(sentence.forms[part]).with_tags(**tags), treebank=sentence.treebank)
    own = replace(own, path=sentence.path, line=sentence.line, number=sentence.number)
    pieces = None if whole.pieces is None else whole.pieces[part]
    evidence = tuple(each._replace(arcs=_arcs_within(each.arcs, words)) for each in whole.evidence)
    return ParseInput(own, _arcs_within(whole.initial, words), FREE, pieces, evidence)


def _arcs_within(arcs: Arcs, words: range) -> Arcs:
    """Return the arcs of one part, whose words are counted from 1, without those that leave it."""
    before, part = words.start - 1, slice(words.start - 1, words.stop - 1)
    pairs = [
        (head and head - before, label) if head == ROOT or head in words else (None, BLANK)
        for head, label in zip(arcs.heads[part], arcs.labels[part], strict=True)
    ]
    return Arcs(*zip(*pairs, strict=True))


def _joined_sentence(plan: Plan, whole: ParseInput, parts: Sequence[Sentence]) -> Sentence:
    """Return the whole sentence with the joined tree and the predicted tags of its parts."""
    heads, labels, root, known = list[int](), list[str](), parts[0].graph.roots[0], plan.model.vocabulary.labels
    joining = next((label for label in (read_as(each, known) for each in _JOINING) if label in known), known[0])
    for part in parts:
        before, is_first = len(heads), part is parts[0]
        for head, label in zip(part.graph.heads[1:], part.graph.labels[1:], strict=True):
            is_join = head == ROOT and not is_first
            heads.append(root if is_join else head and head + before)
            labels.append(joining if is_join else label)
    columns = plan.model.settings.tags.columns if plan.predicts_tags else ()
    tags = [[tag for part in parts for tag in getattr(part, column)] for column in columns]
    arcs = Graph.of_words(heads, labels).arcs
    return with_parse(whole.sentence, arcs, columns, tags, replaces_tags=plan.replaces_tags)


def _joined_parse(plan: Plan, whole: ParseInput, parts: Sequence[Parse]) -> Parse:
    """Return the Parse of the whole sentence. The arcs that join two parts have confidence 0."""
    words = [
        Confidence(0.0, 0.0) if head == ROOT and part is not parts[0] else confidence
        for part in parts
        for head, confidence in zip(part.heads, part.word_confidences, strict=True)
    ]
    return Parse(
        sentence=_joined_sentence(plan, whole, [each.sentence for each in parts]),
        spans=(),
        word_confidences=tuple(words),
        confidence=sentence_confidence(words, plan.confidence_of(whole.sentence)),
        steps=(),
        initial=whole.initial,
        initial_confidences=tuple(chain.from_iterable(each.initial_confidences for each in parts)),
        trust=parts[0].trust,
        converged=all(each.converged for each in parts),
        was_sure=any(each.was_sure for each in parts),
        given_tags=tags_of(whole.sentence),
        tag_confidences={
            column: tuple(chain.from_iterable(each.tag_confidences[column] for each in parts))
            for column in parts[0].tag_confidences
        },
    )
