"""A graph as relations between pieces (Fig. 2, Sec. 5.3)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from treefine.config import RelationSettings
from treefine.model.batch import ARC, HEAD, LABEL, Graphs, PieceInputs

NONE = 0


@dataclass(frozen=True)
class Relations:
    """The graph as attention reads it. A piece has at most one piece above it, so two ids per piece are enough."""

    above: Int[Tensor, "*row piece"]  # the index in its row of the piece above each piece, or its own index
    up: Int[Tensor, "*row piece"]  # the relation of a piece, as query, to the piece above it, or NONE
    down: Int[Tensor, "*row piece"]  # the relation of the piece above it, as query, to the piece
    has_graph: Bool[Tensor, " rows"]  # a row without a graph is encoded as in the plain encoder

    def __getitem__(self, rows: slice) -> Relations:
        """Return the relations of some rows."""
        return Relations(self.above[rows], self.up[rows], self.down[rows], self.has_graph[rows])


def n_relations(n_labels: int, settings: RelationSettings) -> int:
    """Return the number of rows in a relation table: NONE, then each kind of arc downwards, then each kind upwards."""
    return 2 * n_kinds_of(n_labels, settings) + 1


def n_kinds_of(n_labels: int, settings: RelationSettings) -> int:
    """Count the kinds of arcs: one per label (or one for all), and one from a word's first piece to its others.

    If the model distinguishes decided arcs, there are more (see `decided_kinds`).
    """
    if settings.graph != "labelled":
        return 3 if settings.decided else 2
    return (3 * n_labels + 1 if settings.decided else n_labels) + 1


def relate(inputs: PieceInputs, graphs: Graphs, n_labels: int, settings: RelationSettings) -> Relations:
    """Return the relations between the pieces of each row, from the graphs of the sentences (Fig. 2).

    An arc joins the first pieces of two words, if both are in the row. Each other piece is attached to the first piece
    of its word. A model that reads labels ignores an arc with an unknown label, unless its head is decided. A word
    whose label is decided but that has no head is related to itself.
    """
    n_kinds = n_kinds_of(n_labels, settings)
    n_rows, n_pieces = inputs.pieces.shape
    device = inputs.pieces.device
    places = torch.arange(n_pieces, device=device).expand(n_rows, n_pieces)
    words = inputs.words.clamp(min=0)  # [row, piece]
    n_words = graphs.heads.shape[1]
    first_piece = torch.full((n_rows, n_words + 1), -1, device=device)  # of each word; -1: in another window
    # Other pieces are written to an extra column that is never read: boolean indexing would make the host wait.
    first_piece.scatter_(1, torch.where(inputs.is_first, inputs.words, n_words), places)

    heads = graphs.heads[inputs.sentences].gather(1, words)  # [row, piece]
    labels = graphs.labels[inputs.sentences].gather(1, words)
    has_graph = (graphs.heads >= 0).any(1)[inputs.sentences]  # [row]
    is_arc = inputs.is_first & (heads >= 0)
    kinds = torch.zeros_like(labels)
    if settings.graph == "labelled":
        is_arc = is_arc & (labels >= 0)
        kinds = labels
    is_self = torch.zeros_like(is_arc)
    if settings.decided and graphs.decided is not None:
        decided = graphs.decided[inputs.sentences].gather(1, words)
        has_graph = has_graph | (graphs.decided > 0).any(1)[inputs.sentences]
        kinds = decided_kinds(decided, labels, n_labels, settings)
        is_arc = is_arc | (inputs.is_first & (heads >= 0) & ((decided == ARC) | (decided == HEAD)))
        if settings.graph == "labelled":
            is_self = inputs.is_first & (decided == LABEL) & (heads < 0) & (labels >= 0)
    is_rest = (inputs.words > 0) & ~inputs.is_first & has_graph[:, None]
    kinds = torch.where(is_rest, n_kinds - 1, kinds)
    above = first_piece.gather(1, torch.where(is_arc, heads, words))  # [row, piece]
    is_related = ((is_arc | is_rest) & (above >= 0) & (above != places)) | is_self
    above = torch.where(is_related, above, places)
    is_mutual = is_related & (above.gather(1, above) == places)
    up, down = relation_ids(kinds, is_related, is_mutual, n_kinds, settings)
    up = torch.where(is_self, kinds + 1 + n_kinds, up)  # no cycle of two words, although it looks like one
    return Relations(above, up, down, has_graph)


def decided_kinds(
    decided: Int[Tensor, "*row piece"], labels: Int[Tensor, "*row piece"], n_labels: int, settings: RelationSettings
) -> Int[Tensor, "*row piece"]:
    """Return the kind of each arc, by its label and by what a person decided about it.

    The kinds are, for each label, a predicted arc, a decided arc, and a predicted arc whose label is decided; then one
    for a decided head, whatever its label. A model that reads no labels only distinguishes decided heads.
    """
    has_head = (decided == ARC) | (decided == HEAD)
    if settings.graph != "labelled":
        return has_head.long()
    kinds = torch.where(decided == ARC, n_labels + labels, labels)
    kinds = torch.where(decided == LABEL, 2 * n_labels + labels, kinds)
    return torch.where((decided == HEAD) | (has_head & (labels < 0)), 3 * n_labels, kinds)


def relation_ids(
    kinds: Int[Tensor, "*row piece"],
    is_related: Bool[Tensor, "*row piece"],
    is_mutual: Bool[Tensor, "*row piece"],
    n_kinds: int,
    settings: RelationSettings,
) -> tuple[Int[Tensor, "*row piece"], Int[Tensor, "*row piece"]]:
    """Return the relation of each piece to the piece above it, and of that piece to this one (Sec. 3.1.2).

    A relation is `kind + 1` if the query is the head and `kind + 1 + n_kinds` if it is the dependent. If two words are
    each other's head (`is_mutual`), each one sees only its own head, or neither does if the settings erase such arcs.
    """
    is_up = is_related & ~is_mutual if settings.two_cycles == "erased" else is_related
    up = torch.where(is_up, kinds + 1 + n_kinds, NONE)
    return up, torch.where(is_related & ~is_mutual, kinds + 1, NONE)
