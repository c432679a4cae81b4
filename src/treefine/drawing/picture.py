"""`Picture`: the words of one sentence and a graph over them. `Drawing`: the pictures of one sentence or parse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

from treefine.errors import TreefineError, described
from treefine.treebank.graph import ROOT, Graph, changed_words
from treefine.treebank.sentence import BLANK, HasSentence, Sentence, Token, is_list_like, own_text, sentence_in


@dataclass(frozen=True, slots=True)
class Picture:
    """Words and a graph over them. Everything except the words is optional."""

    forms: tuple[str, ...]  # starting with word 1
    tags: tuple[str, ...] = ()
    graph: Graph | None = None  # may have cycles and several roots, as graphs between two steps do
    before: Graph | None = None  # the previous graph: arcs that differ from it are marked, with their old value
    confidence: tuple[float, ...] = ()  # of each word's arc, 0 to 1
    tokens: tuple[Token, ...] = ()  # from `Sentence.tokens`; only multiword tokens are drawn
    title: str = ""
    caption: str = ""  # above the title, on several lines if it is long; usually the text of the sentence
    comparison_name: str = ""  # the name of `before` if it is not the previous step, such as "gold"
    shows_confidence: bool = False  # next to each label in an SVG, not only in a tooltip
    unattached: frozenset[int] = frozenset()  # words drawn without an arc, whatever the graph says
    lemmas: tuple[str, ...] = ()  # in a drawing as text and in a table, not in an SVG
    feats: tuple[str, ...] = ()  # the features, as the lemmas

    @property
    def changed(self) -> frozenset[int]:
        """The words whose head or label differs from `before`."""
        if self.graph is None or self.before is None:
            return frozenset()
        return frozenset(changed_words(self.before, self.graph))

    @property
    def multiword_tokens(self) -> tuple[Token, ...]:
        """The tokens of more than one word."""
        return tuple(token for token in self.tokens if len(token.words) > 1)

    @property
    def text(self) -> str:
        """The words joined by spaces, with each multiword token in place of its words."""
        forms = list(self.forms)
        for token in reversed(self.multiword_tokens):
            forms[token.words.start - 1 : token.words.stop - 1] = [token.form]
        return " ".join(forms)


def picture_of(sentence: Sentence) -> Picture:
    """Return the picture of a sentence of a treebank; a word whose head is blank has no arc."""
    heads, labels = sentence.arcs
    return Picture(
        sentence.forms,
        shown_tags(sentence.upos) or shown_tags(sentence.xpos),
        Graph.of_words([ROOT if head is None else head for head in heads], labels),
        tokens=tuple(sentence.tokens()),
        unattached=frozenset(word for word, head in enumerate(heads, start=1) if head is None),
        lemmas=shown_tags(sentence.lemma),
        feats=shown_tags(sentence.feats),
    )


def shown_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Return the tags, lemmas or features to draw: none if all are blank."""
    return () if set(tags) <= {BLANK} else tuple(tags)


def step_pictures(words: Picture, graphs: Sequence[Graph], initial: Graph | None = None) -> list[Picture]:
    """Return pictures of the initial graph, if there is one, and of G¹ … Gᵀ, each with its changes as title."""
    first = 1 if initial is None else 0
    drawn = [*graphs] if initial is None else [initial, *graphs]
    pictures = []
    for t, (before, graph) in enumerate(zip([None, *drawn], drawn, strict=False), start=first):
        title = f"step {t}" if t else "initial graph"
        if before is not None:
            n_changed = len(changed_words(before, graph))
            title += f": {n_changed or 'no'} arc{'s' * (n_changed > 1)} changed"
        pictures.append(replace(words, graph=graph, before=before, title=title))
    return pictures


class Drawing(NamedTuple):
    """One sentence to draw."""

    name: str  # its sent_id; empty if it has none
    text: str
    pictures: tuple[Picture, ...]
    confidence: float | None = None
    is_ranked: bool = False  # whether the pictures after the first are other trees, not steps


def drawing_of(source: Sentence | HasSentence, *, steps: bool = False, marks_changes: bool = False) -> Drawing:
    """Return the drawing of a sentence, or of a Parse: its tree, its k best trees, or its steps.

    With `marks_changes`, the single tree of a Parse shows how it differs from the initial one.
    """
    if isinstance(source, Sentence):
        return Drawing(source.sent_id, own_text(source), (picture_of(source),))
    parse = cast(Any, source)
    pictures = tuple(parse.pictures(steps=steps))
    if marks_changes and len(pictures) == 1:
        pictures = (parse.changed_picture(),)
    confidence = None if parse.trees else parse.confidence  # each of several trees shows its own
    return Drawing(parse.sentence.sent_id, parse.text, pictures, confidence, bool(parse.trees) and not steps)


def drawings_of(sources: object, *, steps: bool) -> Iterator[Drawing]:
    """Yield the drawings of one or several Sentences or Parses; raise an error for anything else."""
    hint = "Pass Sentences or Parses."
    if sentence_in(sources) is not None:
        sources = [sources]
    if not is_list_like(sources):
        raise TreefineError(f"There are no trees to draw in {described(sources)}.", hint=hint)
    for number, source in enumerate(sources, start=1):
        if sentence_in(source) is None or not hasattr(source, "to_svg"):
            raise TreefineError(f"Item {number} cannot be drawn: it is {described(source)}.", hint=hint)
        yield drawing_of(source, steps=steps)
