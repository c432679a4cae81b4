"""`Picture`: the words of one sentence and a graph over them, with its changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from treefine.treebank.graph import ROOT, Graph, changed_words
from treefine.treebank.sentence import BLANK, Sentence, Token


@dataclass(frozen=True, slots=True)
class Picture:
    """Words and a graph over them. Everything except the words is optional.

    >>> before, after = Graph.of_words([2, 0], ["det", "root"]), Graph.of_words([2, 0], ["nsubj", "root"])
    >>> Picture(("Dogs", "bark"), graph=after, before=before).changed
    frozenset({1})
    """

    forms: tuple[str, ...]  # starting with word 1
    tags: tuple[str, ...] = ()
    graph: Graph | None = None  # may have cycles and several roots, as graphs between two steps do
    before: Graph | None = None  # the previous graph: arcs that differ from it are marked, with their old value
    confidence: tuple[float, ...] = ()  # of each word's arc, 0 to 1
    tokens: tuple[Token, ...] = ()  # from `Sentence.tokens`; only multiword tokens are drawn
    title: str = ""
    caption: str = ""  # above the title, on several lines if it is long; usually the text of the sentence
    before_name: str = ""  # the name of `before` if it is not the previous step, such as "gold"
    shows_confidence: bool = False  # next to each label in an SVG, not only in a tooltip
    unattached: frozenset[int] = frozenset()  # words drawn without an arc, whatever the graph says
    lemmas: tuple[str, ...] = ()  # in a drawing as text and in a table, not in an SVG
    feats: tuple[str, ...] = ()  # the features, as the lemmas

    def __post_init__(self) -> None:
        of_words = ("tags", "graph", "before", "confidence", "lemmas", "feats")
        for name, values in ((name, getattr(self, name)) for name in of_words):
            if values and len(values) != len(self.forms):
                raise ValueError(f"{name}: {len(values)} values for {len(self.forms)} words")
        if any(token.words.start < 1 or token.words.stop > len(self.forms) + 1 for token in self.tokens):
            raise ValueError(f"tokens: words must be in 1..{len(self.forms)}")

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
        said = dict(enumerate(self.forms, start=1))
        for token in self.multiword_tokens:
            said = {word: form for word, form in said.items() if word not in token.words}
            said[token.words.start] = token.form
        return " ".join(said[word] for word in sorted(said))


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


def step_pictures(
    forms: Sequence[str],
    tags: Sequence[str],
    graphs: Sequence[Graph],
    initial: Graph | None = None,
    *,
    tokens: Sequence[Token] = (),
) -> list[Picture]:
    """Return the pictures of G¹ … Gᵀ, each with its changes; the initial graph comes first if there is one.

    >>> first, last = Graph.of_words([0, 0], ["root", "root"]), Graph.of_words([2, 0], ["nsubj", "root"])
    >>> for picture in step_pictures(["Dogs", "bark"], [], [last, last], initial=first):
    ...     print(picture.title)
    initial graph
    step 1: 1 arc changed
    step 2: no arc changed
    """
    first = 1 if initial is None else 0
    drawn = [*graphs] if initial is None else [initial, *graphs]
    pictures = []
    for t, (before, graph) in enumerate(zip([None, *drawn], drawn, strict=False), start=first):
        title = f"step {t}" if t else "initial graph"
        if before is not None:
            n_changed = len(changed_words(before, graph))
            title += f": {n_changed or 'no'} arc{'s' * (n_changed > 1)} changed"
        pictures.append(Picture(tuple(forms), tuple(tags), graph, before, tokens=tuple(tokens), title=title))
    return pictures
