"""One layer's attention over a graph: ours, and two other ways to write Eqs. 4 and 5."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the customary name

from benchmarks.rows import save_row, seconds
from benchmarks.sizes import Sizes
from treefine.config import RelationSettings
from treefine.model.attention import RelationTables, attend
from treefine.model.batch import Graphs, PieceInputs
from treefine.model.relations import Relations, n_relations, relate

ROWS, WORDS, PIECES_A_WORD, LABELS, ATTENTION_HEADS, WIDTH = 32, 30, 1.3, 50, 12, 32
Attention = Callable[..., Tensor]


def measure_attention(rounds: int = 25) -> None:
    """Forward alone, and with gradients; no time is told unless all give the same."""
    relations, tables, inputs = _setting()
    plain = {"relations": None, "tables": tables}
    contenders: dict[str, tuple[Attention, dict[str, Any]]] = {
        "no graph": (attend, plain),
        "treefine": (attend, {"relations": relations, "tables": tables}),
        "table": (by_table, {"relations": relations, "tables": tables}),
        "pairs": (by_pairs, {"relations": relations, "tables": tables}),
    }
    outputs = {name: function(**inputs, **rest) for name, (function, rest) in contenders.items()}
    for name in ("table", "pairs"):
        if not torch.allclose(outputs[name], outputs["treefine"], atol=1e-5):
            sys.exit(f"{name} gives something else: no time is printed")
    result: dict[str, float] = {}
    for kind in ("parsing", "training"):
        times: dict[str, list[float]] = {name: [] for name in contenders}
        for _ in range(rounds):
            for name, (function, rest) in contenders.items():
                times[name].append(seconds(partial(_once, kind, partial(function, **inputs, **rest))))
        for name in contenders:
            result[f"{name}, {kind}_milliseconds"] = round(1000 * statistics.median(times[name]), 2)
            ratios = (a / b for a, b in zip(times[name], times["treefine"], strict=True))
            result[f"{name}/treefine, {kind}"] = round(statistics.median(ratios), 2)
    for name, (function, rest) in contenders.items():
        with Sizes() as sizes:
            function(**inputs, **rest)
        result[f"{name}_largest"] = sizes.largest
    config = {
        "rows": ROWS,
        "pieces": inputs["query"].shape[2],
        "labels": LABELS,
        "attention_heads": ATTENTION_HEADS,
        "width": WIDTH,
        "rounds": rounds,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    save_row("attention", config, result)


def _once(kind: str, attention: Callable[[], Tensor]) -> None:
    if kind == "training":
        attention().sum().backward()  # type: ignore[no-untyped-call]
        return
    with torch.no_grad():
        attention()


def _setting() -> tuple[Relations, RelationTables, dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(1)
    settings = RelationSettings()
    n_pieces = [[(5,) * (2 if word % 3 == 0 else 1) for word in range(WORDS)] for _ in range(ROWS)]
    pieces = PieceInputs.of(n_pieces, cls_id=1, sep_id=2, pad_id=0, n_positions=512)
    heads = torch.randint(0, WORDS + 1, (ROWS, WORDS + 1), generator=generator)
    labels = torch.randint(0, LABELS, (ROWS, WORDS + 1), generator=generator)
    heads[:, 0] = -1
    relations = relate(pieces, Graphs(heads, labels), LABELS, settings)
    tables = RelationTables(n_relations(LABELS, settings), WIDTH, settings)
    shape = (ROWS, ATTENTION_HEADS, pieces.pieces.shape[1], WIDTH)
    inputs = {name: torch.randn(shape, generator=generator, requires_grad=True) for name in ("query", "key", "value")}
    return relations, tables, inputs | {"bias": torch.zeros(ROWS, 1, 1, shape[2])}


def by_table(
    *, query: Tensor, key: Tensor, value: Tensor, bias: Tensor, relations: Relations, tables: RelationTables
) -> Tensor:
    """Each query scored against the whole table, then gathered; weights summed by relation for the values."""
    ids = _matrix(relations).expand(-1, query.shape[1], -1, -1)  # [row, attn, piece, piece]
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    scores = scores + (query @ tables.key_rows().T).gather(-1, ids) + bias
    weights = scores.softmax(-1)
    by_relation = torch.zeros(*ids.shape[:-1], len(tables.keys)).scatter_add(-1, ids, weights)
    return weights @ value + by_relation @ tables.value_rows()


def by_pairs(
    *, query: Tensor, key: Tensor, value: Tensor, bias: Tensor, relations: Relations, tables: RelationTables
) -> Tensor:
    """A vector for each pair of pieces, as the equations are written and as the authors' code has it."""
    ids = _matrix(relations)[:, 0]  # [row, piece, piece]
    keys, values = F.embedding(ids, tables.key_rows()), F.embedding(ids, tables.value_rows())
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    scores = scores + torch.einsum("raqw,rqkw->raqk", query, keys) + bias
    weights = scores.softmax(-1)
    return weights @ value + torch.einsum("raqk,rqkw->raqw", weights, values)


def _matrix(relations: Relations) -> Tensor:
    """The relation of each query to each key."""
    is_above = relations.above[:, None, :, None] == torch.arange(relations.above.shape[1])  # [row, 1, query, key]
    return is_above * relations.up[:, None, :, None] + is_above.mT * relations.down[:, None, None, :]
