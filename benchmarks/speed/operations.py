"""Compare two operations with alternatives: finding the best tree with one root, and attention over a graph."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib.metadata import files, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the customary name
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.markdown import Lines, table
from benchmarks.rows import last_row, origin_of_newest, save_row
from benchmarks.timing import in_turn, median_ratio, seconds
from treefine import Graph
from treefine.config import RelationSettings
from treefine.model.attention import RelationTables, attend
from treefine.model.batch import Graphs, PieceInputs
from treefine.model.relations import Relations, n_relations, relate
from treefine.parsing.trees import maximum_tree, projective_tree

Decoder = Callable[[NDArray[np.float64]], NDArray[np.int64]]
LENGTHS = {10: 50, 25: 50, 60: 20, 200: 5, 2000: 1}  # words: matrices
LONGEST_FOR_NETWORKX = 25  # words; networkx needs a search per root


def by_ufal(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the tree of ufal.chu_liu_edmonds; arcs from ROOT get a penalty, so that it uses only one."""
    from ufal.chu_liu_edmonds import chu_liu_edmonds

    work = scores.copy()
    work[0] = 0
    np.fill_diagonal(work, 0)
    work[1:, 0] -= len(work) * (work.max() - work.min()) + 1
    np.fill_diagonal(work, -np.inf)  # the diagonal does not change the tree, but a high one takes far longer
    heads, _ = chu_liu_edmonds(work)
    return np.array([0, *heads[1:]])


def by_networkx(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the best tree, searched for each root in turn."""
    import networkx

    words = range(1, len(scores))
    found = []
    for root in words:
        graph = networkx.DiGraph([(0, root, {"weight": scores[root, 0]})])
        arcs = ((head, word) for word in words for head in words if word not in (head, root))
        graph.add_weighted_edges_from((head, word, scores[word, head]) for head, word in arcs)
        tree = networkx.maximum_spanning_arborescence(graph)
        found.append((tree.size("weight"), root, {word: head for head, word in tree.edges}))
    return np.array([0, *(head for _, head in sorted(max(found)[2].items()))])


@cache
def compiled() -> Decoder:
    """Return `by_loops`, compiled by numba."""
    from numba import njit

    decoder: Decoder = njit(by_loops)
    return decoder


def by_loops(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Do the same as `maximum_tree`, element by element."""
    n = len(scores) - 1
    work = scores.copy()
    ends_at = np.empty((n + 1, n + 1), np.int32)
    for word in range(n + 1):
        ends_at[word] = word
    best_head, best_word = np.zeros(2 * n + 1, np.int64), np.zeros(2 * n + 1, np.int64)
    best, row_of, part_of = np.zeros(2 * n + 1), np.arange(2 * n + 1), np.zeros(2 * n + 1, np.int64)
    node_of, size, place = np.arange(n + 1), np.ones(2 * n + 1, np.int64), np.full(2 * n + 1, -1)
    path, length, last = np.zeros(2 * n + 1, np.int64), 1, n
    path[0], place[1], node = 1, 0, 1
    while True:
        row = row_of[node]
        if best_head[node] == 0:
            if size[node] == n:
                break
            best[node] = -np.inf
            for head in range(1, n + 1):
                if node_of[head] != node and work[row, head] > best[node]:
                    best[node], best_head[node] = work[row, head], head
            best_word[node] = ends_at[row, best_head[node]]
        above = node_of[best_head[node]]
        if place[above] < 0:
            place[above], path[length] = length, above
            length, node = length + 1, above
            continue
        last += 1
        row_of[last], size[last], start = row_of[above], 0, place[above]
        for step in range(start, length):
            part = path[step]
            part_of[part] = last
            size[last] += size[part]
            for head in range(n + 1):
                gain = work[row_of[part], head] - best[part]
                if step == start or gain > work[row_of[above], head]:
                    work[row_of[above], head] = gain
                    ends_at[row_of[above], head] = ends_at[row_of[part], head]
        for word in range(1, n + 1):
            if part_of[node_of[word]] == last:
                node_of[word] = last
        place[last], path[start], length, node = start, last, start + 1, last
    best_word[node] = ends_at[row_of[node], 0]
    heads, entered = np.zeros(n + 1, np.int64), np.zeros(2 * n + 1, np.bool_)
    for node in range(last, 0, -1):
        if not entered[node]:
            part = best_word[node]
            heads[part] = best_head[node]
            while part != node:
                entered[part] = True
                part = part_of[part]
    return heads


def measure_decoding(rounds: int = 7) -> None:
    """Measure decoders on random scores of several lengths; they must find trees with the same total score."""
    rng = np.random.default_rng(1)
    result: dict[str, Any] = {}
    result["numba, first call_seconds"] = round(seconds(lambda: compiled()(random_scores(rng, 5))), 2)
    for n_words, n_matrices in LENGTHS.items():
        decoders = {"treefine": maximum_tree, "numba": compiled(), "ufal": by_ufal}
        if n_words <= LONGEST_FOR_NETWORKX:
            decoders["networkx"] = by_networkx
        matrices = [random_scores(rng, n_words) for _ in range(n_matrices)]
        totals = [[total(scores, decode(scores)) for scores in matrices] for decode in decoders.values()]
        if not np.allclose(totals, totals[0], rtol=1e-9, atol=0):
            sys.exit("the decoders do not agree: no time is printed")
        numbers = {name: min(2, n_matrices) if name == "networkx" else n_matrices for name in decoders}
        works = {name: partial(decode_all, decode, matrices[: numbers[name]]) for name, decode in decoders.items()}
        times = in_turn(works, rounds if n_words < 1000 else 1)
        for name, each in times.items():
            result[f"{name}, {n_words}_microseconds"] = round(1e6 * statistics.median(each) / numbers[name], 1)
            if name != "treefine":
                ratio = median_ratio(times, name, "treefine") * n_matrices / numbers[name]
                result[f"{name}/treefine, {n_words}"] = round(ratio, 3)
        few = matrices[:3]
        elapsed = seconds(partial(decode_all, projective_tree, few))
        result[f"projective, {n_words}_microseconds"] = round(1e6 * elapsed / len(few), 1)
    sentences = [random_scores(rng, n_words) for n_words in rng.integers(12, 26, size=2000)]
    result["treefine, 2000 sentences_seconds"] = round(seconds(partial(decode_all, maximum_tree, sentences)), 2)
    result["numba, installed_megabytes"] = round(sum(map(installed_bytes, ("numba", "llvmlite"))) / 1e6)
    config: dict[str, Any] = {"lengths": list(LENGTHS), "matrices": list(LENGTHS.values()), "rounds": rounds, "seed": 1}
    config |= {name: version(name) for name in ("numpy", "numba", "ufal.chu_liu_edmonds", "networkx")}
    save_row("decoding", config, result)


def decode_all(decode: Decoder, matrices: Sequence[NDArray[np.float64]]) -> None:
    for scores in matrices:
        decode(scores)


def installed_bytes(package: str) -> int:
    """Return the size of an installed package in bytes."""
    paths = (each.locate() for each in files(package) or ())
    return sum(Path(str(path)).stat().st_size for path in paths if Path(str(path)).is_file())


def random_scores(rng: np.random.Generator, n_words: int) -> NDArray[np.float64]:
    """Return log-probabilities from normal numbers, as an untrained network gives them."""
    logits = rng.normal(size=(n_words + 1, n_words + 1))
    scores: NDArray[np.float64] = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return scores


def total(scores: NDArray[np.float64], heads: NDArray[np.int64]) -> float:
    """Return the score of a tree; NaN, which equals nothing, if it has several roots or a cycle."""
    if not Graph.of_words(heads[1:].tolist(), ["_"] * (len(heads) - 1)).is_tree:
        return np.nan
    return float(scores[np.arange(1, len(heads)), heads[1:]].sum())


class Sizes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that records the size of the largest tensor that an operation returns, forward and backward."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.largest = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        sizes = [each.numel() for each in tree_leaves(result) if isinstance(each, Tensor)]
        self.largest = max([self.largest, *sizes])
        return result


ROWS, WORDS, PIECES_A_WORD, LABELS, ATTENTION_HEADS, WIDTH = 32, 30, 1.3, 50, 12, 32


def measure_attention(rounds: int = 25) -> None:
    """Measure attention over a graph, forward and with gradients; all implementations must agree."""
    relations, tables, inputs = _setting()
    given: dict[str, Any] = {**inputs, "tables": tables}
    contenders: dict[str, Callable[[], Tensor]] = {
        "no graph": partial(attend, **given, relations=None),
        "treefine": partial(attend, **given, relations=relations),
        "table": partial(by_table, **given, relations=relations),
        "pairs": partial(by_pairs, **given, relations=relations),
    }
    outputs = {name: attention() for name, attention in contenders.items()}
    for name in ("table", "pairs"):
        if not torch.allclose(outputs[name], outputs["treefine"], atol=1e-5):
            sys.exit(f"{name} gives a different result: no time is printed")
    result: dict[str, float] = {}
    for kind in ("parsing", "training"):
        times = in_turn({name: partial(_once, kind, each) for name, each in contenders.items()}, rounds)
        for name in contenders:
            result[f"{name}, {kind}_milliseconds"] = round(1000 * statistics.median(times[name]), 2)
            result[f"{name}/treefine, {kind}"] = round(median_ratio(times, name, "treefine"), 2)
    for name, each in contenders.items():
        with Sizes() as sizes:
            each()
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
    """Score each query against the whole relation table, then gather; sum weights by relation for the values."""
    ids = _matrix(relations).expand(-1, query.shape[1], -1, -1)  # [row, attn, piece, piece]
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    scores = scores + (query @ tables.key_rows().T).gather(-1, ids) + bias
    weights = scores.softmax(-1)
    by_relation = torch.zeros(*ids.shape[:-1], len(tables.keys)).scatter_add(-1, ids, weights)
    return weights @ value + by_relation @ tables.value_rows()


def by_pairs(
    *, query: Tensor, key: Tensor, value: Tensor, bias: Tensor, relations: Relations, tables: RelationTables
) -> Tensor:
    """Use a vector for each pair of pieces, as in the equations and in the authors' code."""
    ids = _matrix(relations)[:, 0]  # [row, piece, piece]
    keys, values = F.embedding(ids, tables.key_rows()), F.embedding(ids, tables.value_rows())
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    scores = scores + torch.einsum("raqw,rqkw->raqk", query, keys) + bias
    weights = scores.softmax(-1)
    return weights @ value + torch.einsum("raqk,rqkw->raqw", weights, values)


def _matrix(relations: Relations) -> Tensor:
    """Return the relation of each query to each key."""
    is_above = relations.above[:, None, :, None] == torch.arange(relations.above.shape[1])  # [row, 1, query, key]
    return is_above * relations.up[:, None, :, None] + is_above.mT * relations.down[:, None, None, :]


def decoding() -> str:
    """Return the time of finding the best tree, compared with other decoders."""
    row = last_row("decoding")
    result, config = row["result"], row["config"]
    peers = {
        "numba": f"the same algorithm compiled by numba {config['numba']}",
        "ufal": f"ufal.chu_liu_edmonds {config['ufal.chu_liu_edmonds']}",
        "networkx": f"networkx {config['networkx']}",
    }
    rows: Lines = [("words", "treefine", *peers.values(), "treefine, projective")]
    for n_words in config["lengths"]:
        cells = [f"{result[f'treefine, {n_words}_microseconds']:,.0f} µs"]
        for peer in peers:
            if f"{peer}, {n_words}_microseconds" in result:
                ratio = result[f"{peer}/treefine, {n_words}"]
                times = f"{ratio:.2f}" if ratio < 10 else f"{ratio:,.0f}"
                cells.append(f"{result[f'{peer}, {n_words}_microseconds']:,.0f} µs: {times} times as long")
            else:
                cells.append("not measured")
        projective = result[f"projective, {n_words}_microseconds"]
        rows.append((f"{n_words:,}", *cells, f"{projective:,.0f} µs"))
    also = (
        f"treefine decodes 2,000 sentences of 12 to 25 words in {result['treefine, 2000 sentences_seconds']:.2f} s. "
        f"The first call of the compiled version takes {result['numba, first call_seconds']:.1f} s; numba needs "
        f"{result['numba, installed_megabytes']} MB on disk."
    )
    return f"{table(*rows)}\n\n{also}\n\n{origin_of_newest('decoding')}"


def attention() -> str:
    """Return the time of attention over a graph, compared with other implementations."""
    row = last_row("attention")
    result, config = row["result"], row["config"]
    ways = {
        "no graph": "no graph (torch's fused attention)",
        "treefine": "treefine: corrections for pairs with an arc",
        "table": "each query scored against the whole relation table",
        "pairs": "a vector for each pair of pieces, as in the authors' code",
    }
    rows: Lines = [("one layer", "parsing", "training (with gradients)", "largest tensor")]
    for name, title in ways.items():
        cells = [title]
        for kind in ("parsing", "training"):
            ratio = f": {result[f'{name}/treefine, {kind}']:.2f} times treefine's" if name != "treefine" else ""
            cells.append(f"{result[f'{name}, {kind}_milliseconds']:.1f} ms{ratio}")
        rows.append((*cells, f"{result[f'{name}_largest'] / 1e6:.2f} million numbers"))
    shape = (
        f"{config['rows']} sentences of {config['pieces']} pieces, {config['labels']} labels, "
        f"{config['attention_heads']} attention heads of width {config['width']}, torch {config['torch']}."
    )
    return f"{table(*rows)}\n\n{shape}\n\n{origin_of_newest('attention')}"
