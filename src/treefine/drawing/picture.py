"""`Picture`: the words of one sentence, and a graph over them with what has changed in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from treefine.treebank.graph import Graph, changed_words
from treefine.treebank.sentence import Token


@dataclass(frozen=True, slots=True)
class Picture:
    """Words and a graph over them; all that is not given is not drawn.

    >>> before, after = Graph.of_words([2, 0], ["det", "root"]), Graph.of_words([2, 0], ["nsubj", "root"])
    >>> Picture(("Dogs", "bark"), graph=after, before=before).changed
    frozenset({1})
    """

    forms: tuple[str, ...]  # word 1 first
    tags: tuple[str, ...] = ()
    graph: Graph | None = None  # it may have cycles and several roots, as between two steps
    before: Graph | None = None  # the step before: arcs that differ from it are marked, with what they were
    confidence: tuple[float, ...] = ()  # of each word's arc, 0 to 1
    tokens: tuple[Token, ...] = ()  # as of `Sentence.tokens`; the multiword ones are shown
    title: str = ""
    before_name: str = ""  # what `before` is if not the step before, such as "gold"
    shows_confidence: bool = False  # beside each label in an SVG, not on pointing alone
    unattached: frozenset[int] = frozenset()  # words that have no arc, whatever the graph says of them

    def __post_init__(self) -> None:
        given = {"tags": self.tags, "graph": self.graph, "before": self.before, "confidence": self.confidence}
        for name, values in given.items():
            if values and len(values) != len(self.forms):
                raise ValueError(f"{name}: {len(values)} given for {len(self.forms)} words")
        if any(token.words.start < 1 or token.words.stop > len(self.forms) + 1 for token in self.tokens):
            raise ValueError(f"tokens: words must lie in 1..{len(self.forms)}")

    @property
    def changed(self) -> frozenset[int]:
        """Return the words whose head or label is not that of the step before."""
        if self.graph is None or self.before is None:
            return frozenset()
        return frozenset(changed_words(self.before, self.graph))

    @property
    def multiword_tokens(self) -> tuple[Token, ...]:
        """Return the tokens of more than one word."""
        return tuple(token for token in self.tokens if len(token.words) > 1)

    @property
    def text(self) -> str:
        """Return the words with spaces between them, and each multiword token in place of its words."""
        said = dict(enumerate(self.forms, start=1))
        for token in self.multiword_tokens:
            said = {word: form for word, form in said.items() if word not in token.words}
            said[token.words.start] = token.form
        return " ".join(said[word] for word in sorted(said))


def step_pictures(
    forms: Sequence[str],
    tags: Sequence[str],
    graphs: Sequence[Graph],
    initial: Graph | None = None,
    *,
    tokens: Sequence[Token] = (),
) -> list[Picture]:
    """Return the pictures of G¹ … Gᵀ, each with what it changed; the initial graph comes first if there is one.

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
