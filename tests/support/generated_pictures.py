"""Hypothesis strategies for pictures: any words and graphs, with and without the optional values."""

from hypothesis import strategies as st

from tests.support.generated import LABELS, random_heads
from treefine import Graph
from treefine.drawing.picture import Picture
from treefine.treebank.sentence import Token

ANY_TEXT = st.text(st.characters(), max_size=5)  # includes control characters and lone surrogates
PLAIN_LABELS = st.sampled_from(LABELS)


@st.composite
def graphs(draw, n_words: int, labels=PLAIN_LABELS) -> Graph:
    """Draw any graph, also with cycles, words that are their own head, many roots or no root."""
    heads = draw(st.lists(st.integers(0, n_words), min_size=n_words, max_size=n_words))
    return Graph.of_words(heads, draw(st.lists(labels, min_size=n_words, max_size=n_words)))


@st.composite
def tree_pictures(draw, max_words: int = 9) -> Picture:
    """Draw plain words and a tree over them."""
    heads = draw(st.integers(1, max_words).flatmap(random_heads))
    labels = draw(st.lists(st.sampled_from(LABELS), min_size=len(heads), max_size=len(heads)))
    return Picture(tuple(f"word{number}" for number in range(1, len(heads) + 1)), graph=Graph.of_words(heads, labels))


@st.composite
def any_pictures(draw) -> Picture:
    """Draw any picture."""
    n_words = draw(st.integers(1, 6))

    def perhaps(values):
        return draw(st.one_of(st.just(()), st.lists(values, min_size=n_words, max_size=n_words).map(tuple)))

    graph = draw(st.none() | graphs(n_words, ANY_TEXT))
    before = draw(st.none() | graphs(n_words, ANY_TEXT))
    first = draw(st.integers(1, n_words))
    token = Token(draw(ANY_TEXT), range(first, draw(st.integers(first, n_words)) + 1), "_")
    return Picture(
        tuple(draw(st.lists(ANY_TEXT, min_size=n_words, max_size=n_words))),
        perhaps(ANY_TEXT),
        graph,
        before,
        perhaps(st.floats(0, 1)),
        draw(st.sampled_from([(), (token,)])),
        draw(ANY_TEXT),
    )
