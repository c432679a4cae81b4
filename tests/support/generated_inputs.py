"""Hypothesis strategies for the network's inputs: pieces of words, graphs, and all settings for reading a graph."""

from dataclasses import replace
from itertools import product

import torch
from hypothesis import strategies as st

from treefine.config import RelationSettings
from treefine.model.batch import ARC, HEAD, LABEL, NOTHING, PieceInputs

CLS, SEP, PAD = 2, 3, 0
LABELS = ("det", "nsubj", "root")
N_IDS = 30  # piece ids; the first five are special pieces

WAYS_TO_READ = [
    RelationSettings(graph=graph, key_norm=key_norm, scaled=scaled, none=none, two_cycles=two_cycles)
    for graph, key_norm, scaled, none, two_cycles in product(
        ("labelled", "unlabelled"), (True, False), (True, False), ("learned", "zero"), ("kept", "erased")
    )
]
WAYS_TO_READ += [RelationSettings(graph=graph, decided=True) for graph in ("labelled", "unlabelled")]
# Each setting with two values of each other setting; the double loop of Eqs. 4 and 5 is compared with all ways.
SOME_WAYS_TO_READ = [
    RelationSettings(),
    RelationSettings(key_norm=False, scaled=False, none="zero"),
    RelationSettings(none="zero", two_cycles="erased"),
    RelationSettings(graph="unlabelled", scaled=False, two_cycles="erased"),
    RelationSettings(graph="unlabelled", key_norm=False),
    RelationSettings(graph="labelled", decided=True),
]


def name_of(settings):
    norm, scale = "normed" if settings.key_norm else "raw", "scaled" if settings.scaled else "whole"
    decided = ["decided"] if settings.decided else []
    return "-".join([settings.graph, norm, scale, settings.none, settings.two_cycles, *decided])


def inputs_of(sentences, n_positions=128, **options):
    """Return the inputs of sentences, which are given as the pieces of their words."""
    return PieceInputs.of(sentences, cls_id=CLS, sep_id=SEP, pad_id=PAD, n_positions=n_positions, **options)


def words_in_pieces(max_pieces=4):
    return st.lists(st.integers(5, N_IDS - 1), min_size=1, max_size=max_pieces)


def sentences_in_pieces(*, min_sentences=1, max_sentences=4, min_words=0, max_words=8):
    """Return a strategy for batches of sentences, with each word as its pieces."""
    sentence = st.lists(words_in_pieces(), min_size=min_words, max_size=max_words)
    return st.lists(sentence, min_size=min_sentences, max_size=max_sentences)


@st.composite
def arcs_over(draw, n_words, labels=(*LABELS, "nsubj:pass", "never-seen")):
    """Draw heads and labels, starting with word 1: trees, cycles, loops, and words without a head."""
    heads = st.one_of(st.none(), st.integers(0, n_words))
    if not draw(st.integers(0, 3)):
        heads = st.none()  # no graph at all
    found = draw(st.lists(heads, min_size=n_words, max_size=n_words))
    names = draw(st.lists(st.sampled_from(labels), min_size=n_words, max_size=n_words))
    return tuple(found), tuple(names)


@st.composite
def decisions_on(draw, graphs):
    """Draw what a person decided about the words of graphs; a decided label may lack a head."""
    numbers = st.sampled_from([NOTHING, NOTHING, ARC, HEAD, LABEL])
    shape = graphs.heads.shape
    decided = torch.tensor(draw(st.lists(numbers, min_size=shape.numel(), max_size=shape.numel()))).view(shape).clone()
    decided[:, 0] = NOTHING
    decided[(graphs.heads < 0) & (decided != LABEL)] = NOTHING  # a decided head exists
    names = draw(st.lists(st.integers(0, len(LABELS) - 1), min_size=shape.numel(), max_size=shape.numel()))
    labels = torch.where(decided == LABEL, torch.tensor(names).view(shape), graphs.labels)
    return replace(graphs, labels=labels, decided=decided)
