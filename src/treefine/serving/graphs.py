"""The graphs of a parse as JSON values, each with its drawing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from treefine.drawing.picture import Picture
from treefine.drawing.svg import draw_frames
from treefine.parsing.parse import Parse
from treefine.treebank.graph import Graph, changed_words


def graphs_of(parse: Parse) -> list[dict[str, Any]]:
    """Return G⁰, the graph of each step, and the tree if it differs from the last step.

    The words have the same positions in all drawings. In G⁰, some or all words may have no head.
    """
    pictures = _pictures(parse)
    return [
        _graph_json(t, picture, svg)
        for t, (picture, svg) in enumerate(zip(pictures, draw_frames(pictures), strict=True))
    ]


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
    pictures = parse.pictures(steps=True)
    if None in parse.initial.heads:  # `pictures` leaves out an incomplete initial graph
        pictures[:1] = _incomplete_and_first(parse, pictures[0])
    of_steps = parse.step_confidences or ((),) * len(parse.steps)
    confidences = ((), *of_steps, parse.word_confidences)  # G⁰, each step, and the tree if it has its own picture
    return [
        replace(picture, confidence=picture.confidence or tuple(each.both for each in words), shows_confidence=True)
        for picture, words in zip(pictures, confidences, strict=False)
    ]


def _incomplete_and_first(parse: Parse, first: Picture) -> list[Picture]:
    """Return pictures of an incomplete G⁰ and of G¹, in which a word without an arc in G⁰ counts as unchanged."""
    assert first.graph is not None
    heads, labels = parse.initial
    bare = frozenset(word for word, head in enumerate(heads, start=1) if head is None)
    n_arcs = len(heads) - len(bare)
    graph = Graph.of_words([head or 0 for head in heads], labels)
    title = f"initial graph: {n_arcs} of {len(heads)} words have a head" if n_arcs else "initial graph: empty"
    initial = replace(first, graph=graph, before=None, unattached=bare, title=title, confidence=())
    if not n_arcs:
        return [initial, replace(first, title=f"{first.title}: the first arcs")]
    arcs = zip(heads, labels, *first.graph.arcs, strict=True)
    pairs = [(new or 0, new_label) if old is None else (old, label) for old, label, new, new_label in arcs]
    completed = Graph.of_words([head for head, _ in pairs], [label for _, label in pairs])
    n_changed = len(changed_words(completed, first.graph))
    title = f"{first.title}: {n_changed or 'no'} arc{'s' * (n_changed > 1)} changed"
    return [initial, replace(first, before=completed, title=title)]
