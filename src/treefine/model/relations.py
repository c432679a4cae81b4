"""A graph as relations between pieces (Fig. 2, Sec. 5.3)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from treefine.config import RelationSettings
from treefine.model.batch import Graphs, PieceInputs

NONE = 0


@dataclass(frozen=True)
class Relations:
    """What attention reads of a graph. Each piece has at most one piece above it, so two ids a piece say it all."""

    above: Int[Tensor, "row piece"]  # the piece above each piece, or the piece itself without one
    up: Int[Tensor, "row piece"]  # the relation of a piece, as query, to the piece above it; NONE without one
    down: Int[Tensor, "row piece"]  # the relation of the piece above it, as query, to the piece
    has_graph: Bool[Tensor, " row"]  # a row without a graph is encoded as by the plain encoder

    def __getitem__(self, rows: slice) -> Relations:
        """Some of the rows."""
        return Relations(self.above[rows], self.up[rows], self.down[rows], self.has_graph[rows])


def n_relations(n_labels: int, settings: RelationSettings) -> int:
    """Rows of a relation table: NONE, then each kind of arc downwards, then each kind upwards."""
    return 2 * n_kinds_of(n_labels, settings) + 1


def n_kinds_of(n_labels: int, settings: RelationSettings) -> int:
    """The labels (or one kind for all of them), and the arc from a word's first piece to its other pieces."""
    return (n_labels if settings.graph == "labelled" else 1) + 1


def relate(inputs: PieceInputs, graphs: Graphs, n_labels: int, settings: RelationSettings) -> Relations:
    """The relations between the pieces of each row, as the sentences' graphs have them.

    Arcs join the first pieces of two words, if both stand in the row; each other piece hangs on the first piece of its
    word. As in Sec. 3.1.2, a relation is `kind + 1` where the query is the head and `kind + 1 + n_kinds` where it is
    the dependent. An arc whose label the model has never seen is not read by a model of labelled graphs.
    """
    n_kinds = n_kinds_of(n_labels, settings)
    n_rows, n_pieces = inputs.pieces.shape
    device = inputs.pieces.device
    places = torch.arange(n_pieces, device=device).expand(n_rows, n_pieces)
    words = inputs.words.clamp(min=0)  # [row, piece]
    n_words = graphs.heads.shape[1]
    first_piece = torch.full((n_rows, n_words + 1), -1, device=device)  # of each word; -1: in another window
    # The other pieces are written to one place more, which is not read; leaving them out would make the host wait.
    first_piece.scatter_(1, torch.where(inputs.is_first, inputs.words, n_words), places)

    heads = graphs.heads[inputs.sentences].gather(1, words)  # [row, piece]
    labels = graphs.labels[inputs.sentences].gather(1, words)
    has_graph = (graphs.heads >= 0).any(1)[inputs.sentences]  # [row]
    is_arc = inputs.is_first & (heads >= 0)
    kinds = torch.zeros_like(labels)
    if settings.graph == "labelled":
        is_arc = is_arc & (labels >= 0)
        kinds = labels
    is_rest = (inputs.words > 0) & ~inputs.is_first & has_graph[:, None]
    kinds = torch.where(is_rest, n_kinds - 1, kinds)
    above = first_piece.gather(1, torch.where(is_arc, heads, words))  # [row, piece]
    is_related = (is_arc | is_rest) & (above >= 0) & (above != places)
    above = torch.where(is_related, above, places)
    # Of two words that are each other's head, each sees its own head; or none does, if such arcs are erased.
    is_mutual = is_related & (above.gather(1, above) == places)
    is_up = is_related & ~is_mutual if settings.two_cycles == "erased" else is_related
    return Relations(
        above,
        torch.where(is_up, kinds + 1 + n_kinds, NONE),
        torch.where(is_related & ~is_mutual, kinds + 1, NONE),
        has_graph,
    )
