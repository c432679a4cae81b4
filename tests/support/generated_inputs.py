"""Strategies for what the network reads: pieces of words, graphs over them, and all ways to read a graph."""

from itertools import product

from hypothesis import strategies as st

from treefine.config import RelationSettings
from treefine.model.batch import PieceInputs

CLS, SEP, PAD = 2, 3, 0
LABELS = ("det", "nsubj", "root")
N_IDS = 30  # of pieces; the first five stand for no word

WAYS_TO_READ = [
    RelationSettings(graph=graph, key_norm=key_norm, scaled=scaled, none=none, two_cycles=two_cycles)
    for graph, key_norm, scaled, none, two_cycles in product(
        ("labelled", "unlabelled"), (True, False), (True, False), ("learned", "zero"), ("kept", "erased")
    )
]


def name_of(settings):
    norm, scale = "normed" if settings.key_norm else "raw", "scaled" if settings.scaled else "whole"
    return "-".join([settings.graph, norm, scale, settings.none, settings.two_cycles])


def inputs_of(sentences, n_positions=128):
    """The inputs for sentences given as the pieces of their words."""
    return PieceInputs.of(sentences, cls_id=CLS, sep_id=SEP, pad_id=PAD, n_positions=n_positions)


def words_in_pieces(max_pieces=4):
    return st.lists(st.integers(5, N_IDS - 1), min_size=1, max_size=max_pieces)


def sentences_in_pieces(*, min_sentences=1, max_sentences=4, min_words=0, max_words=8):
    """Batches of sentences, each word as its pieces."""
    sentence = st.lists(words_in_pieces(), min_size=min_words, max_size=max_words)
    return st.lists(sentence, min_size=min_sentences, max_size=max_sentences)


@st.composite
def arcs_over(draw, n_words, labels=(*LABELS, "nsubj:pass", "never-seen")):
    """Heads and labels of word 1, word 2, …: trees, cycles, loops, and words without a head."""
    heads = st.one_of(st.none(), st.integers(0, n_words))
    if not draw(st.integers(0, 3)):
        heads = st.none()  # no graph at all
    found = draw(st.lists(heads, min_size=n_words, max_size=n_words))
    names = draw(st.lists(st.sampled_from(labels), min_size=n_words, max_size=n_words))
    return tuple(found), tuple(names)
