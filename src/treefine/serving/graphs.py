"""What the page steps through: the graphs of a sentence from G⁰ to the tree, each with its drawing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from treefine.drawing.picture import Picture
from treefine.drawing.svg import draw_frames
from treefine.parsing.parse import Parse
from treefine.treebank.graph import Arcs, Graph, changed_words


def graphs_of(parse: Parse) -> list[dict[str, Any]]:
    """G⁰, the graph of each step, and the tree where it is not that of the last step, as values that JSON knows.

    The drawings have their words in the same places. In G⁰ a word may have no head, or none of them has one.
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
    if None in parse.initial.heads:  # such a graph is not among them
        steps = [_initial_picture(parse, steps[0]), _first_picture(parse, steps[0]), *steps[1:]]
    of_steps = parse.step_confidences or ((),) * len(parse.steps)
    sure = ((), *of_steps, parse.word_confidences)  # G⁰, each step, and the tree where it is not that of the last
    return [
        replace(picture, confidence=picture.confidence or tuple(each.both for each in said), shows_confidence=True)
        for picture, said in zip(steps, sure, strict=False)
    ]


def _initial_picture(parse: Parse, like: Picture) -> Picture:
    """G⁰ where some words, or all, have no arc."""
    heads, labels = parse.initial
    bare = frozenset(word for word, head in enumerate(heads, start=1) if head is None)
    n_arcs = len(heads) - len(bare)
    title = f"initial graph: {n_arcs} of {len(heads)} words have a head" if n_arcs else "initial graph: empty"
    graph = Graph.of_words([head or 0 for head in heads], labels)
    return replace(like, graph=graph, before=None, unattached=bare, title=title, confidence=())


def _first_picture(parse: Parse, first: Picture) -> Picture:
    """G¹ after such a graph: a word that had no arc has not changed it."""
    assert first.graph is not None
    if set(parse.initial.heads) == {None}:
        return replace(first, title=f"{first.title}: the first arcs")
    before = _completed(parse.initial, first.graph)
    n_changed = len(changed_words(before, first.graph))
    title = f"{first.title}: {n_changed or 'no'} arc{'s' * (n_changed > 1)} changed"
    return replace(first, before=before, title=title)


def _completed(arcs: Arcs, graph: Graph) -> Graph:
    """These arcs, and those of the graph where a word has none."""
    pairs = zip(*arcs, graph.heads[1:], graph.labels[1:], strict=True)
    filled = [(new, new_label) if old is None else (old, label) for old, label, new, new_label in pairs]
    return Graph.of_words([head for head, _ in filled], [label for _, label in filled])
