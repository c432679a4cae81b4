"""The graphs that the page steps through: from G⁰ to the tree, each with its drawing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from treefine.drawing.picture import Picture
from treefine.drawing.svg import draw_frames
from treefine.parsing.parse import Parse
from treefine.treebank.graph import Arcs, Graph, changed_words


def graphs_of(parse: Parse) -> list[dict[str, Any]]:
    """Return as JSON values G⁰, the graph of each step, and the tree if the last step has another graph.

    All drawings have their words in the same places. In G⁰ some words, or all, may have no head.
    """
    pictures = _pictures(parse)
    drawn = zip(pictures, draw_frames(pictures), strict=True)
    return [_graph_json(t, picture, svg) for t, (picture, svg) in enumerate(drawn)]


def _graph_json(t: int, picture: Picture, svg: str) -> dict[str, Any]:
    graph = picture.graph or Graph.of_words([], [])
    heads = [None if word in picture.unattached else head for word, head in enumerate(graph.arcs.heads, start=1)]
    return {
        "t": t,
        "title": picture.title,
        "heads": heads,
        "labels": list(graph.arcs.labels),
        "changed": sorted(picture.changed),
        "confidence": [round(each, 4) for each in picture.confidence] or None,
        "svg": svg,
    }


def _pictures(parse: Parse) -> list[Picture]:
    steps = parse.pictures(steps=True)
    if None in parse.initial.heads:  # `pictures` leaves out an incomplete initial graph
        steps = [_initial_picture(parse, steps[0]), _first_picture(parse, steps[0]), *steps[1:]]
    of_steps = parse.step_confidences or ((),) * len(parse.steps)
    confidences = ((), *of_steps, parse.word_confidences)  # G⁰, each step, and the tree if it has its own picture
    return [
        replace(picture, confidence=picture.confidence or tuple(each.both for each in words), shows_confidence=True)
        for picture, words in zip(steps, confidences, strict=False)
    ]


def _initial_picture(parse: Parse, like: Picture) -> Picture:
    """Return the picture of a G⁰ in which some words, or all, have no arc."""
    heads, labels = parse.initial
    bare = frozenset(word for word, head in enumerate(heads, start=1) if head is None)
    n_arcs = len(heads) - len(bare)
    title = f"initial graph: {n_arcs} of {len(heads)} words have a head" if n_arcs else "initial graph: empty"
    graph = Graph.of_words([head or 0 for head in heads], labels)
    return replace(like, graph=graph, before=None, unattached=bare, title=title, confidence=())


def _first_picture(parse: Parse, first: Picture) -> Picture:
    """Return the picture of G¹ after such a G⁰: a word that had no arc counts as unchanged."""
    assert first.graph is not None
    if set(parse.initial.heads) == {None}:
        return replace(first, title=f"{first.title}: the first arcs")
    before = _completed(parse.initial, first.graph)
    n_changed = len(changed_words(before, first.graph))
    title = f"{first.title}: {n_changed or 'no'} arc{'s' * (n_changed > 1)} changed"
    return replace(first, before=before, title=title)


def _completed(arcs: Arcs, graph: Graph) -> Graph:
    """Return these arcs as a graph; a word without one gets its arc in `graph`."""
    pairs = zip(*arcs, graph.heads[1:], graph.labels[1:], strict=True)
    filled = [(new, new_label) if old is None else (old, label) for old, label, new, new_label in pairs]
    return Graph.of_words([head for head, _ in filled], [label for _, label in filled])
