"""Attention over rows of pieces, and over a graph, as Triton kernels. `fused` calls them and says what they compute.

A program computes one block of one row and one attention head, and reads nothing of other rows. Blocks have one size
for a model, so no result depends on what else is in the batch; and no two programs add to one number, so all is the
same in every run. Names: i counts queries, j keys, each from the start of its row; d counts along the width.
"""

from __future__ import annotations

from typing import no_type_check  # else jaxtyping wraps, in tests, what Triton has to read

import triton
import triton.language as tl

from treefine.network.relations import NONE

NO_RELATION: tl.constexpr = tl.constexpr(NONE)


@triton.jit
@no_type_check
def forward(
    query, key, value, out, log_sums, starts, lengths, above, up, down, has_graph, key_rows, value_rows, by_distance,
    seed, piece_stride, attn_stride, scale, reach, rate,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr, PRECISION: tl.constexpr,
    READS_GRAPH: tl.constexpr, READS_DISTANCE: tl.constexpr, DROPS: tl.constexpr, KEEPS_SUMS: tl.constexpr,
):  # fmt: skip
    """The values that each query of a block attends to, with a running softmax over blocks of keys."""
    attn, n_attn, row = tl.program_id(1), tl.num_programs(1), tl.program_id(2)
    length = tl.load(lengths + row).to(tl.int32)
    first = tl.program_id(0) * QUERIES
    if first >= length:
        return
    start = tl.load(starts + row).to(tl.int64)
    i, d = first + tl.arange(0, QUERIES), tl.arange(0, PADDED)
    is_query = i < length
    at = start * piece_stride + attn * attn_stride
    q = vectors_at(query + at, i, is_query, d, piece_stride, WIDTH)
    if READS_GRAPH:
        above_i, up_i = related(above + start, up + start, i, is_query)
        none_product = product(q, row_of_none(key_rows, d, WIDTH)[None, :])
        up_product = product(q, table_rows(key_rows, up_i, d, WIDTH)) - none_product
    if DROPS:
        random_i = random_of_query(seed, start, i, attn, n_attn)

    highest = tl.full([QUERIES], float("-inf"), tl.float32)
    total = tl.zeros([QUERIES], tl.float32)  # of the weights before dropout
    kept_total = tl.zeros([QUERIES], tl.float32)  # and after it
    up_weight, down_weight = tl.zeros([QUERIES], tl.float32), tl.zeros([QUERIES], tl.float32)
    attended = tl.zeros([QUERIES, PADDED], tl.float32)
    for before in range(0, length, KEYS):
        j = before + tl.arange(0, KEYS)
        is_key = j < length
        k = vectors_at(key + at, j, is_key, d, piece_stride, WIDTH)
        v = vectors_at(value + at, j, is_key, d, piece_stride, WIDTH)
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
        if READS_GRAPH:
            above_j, down_j = related(above + start, down + start, j, is_key)
            is_up, is_down = above_i[:, None] == j[None, :], above_j[None, :] == i[:, None]
            key_down = table_rows(key_rows, down_j, d, WIDTH).to(q.dtype)
            scores += added_shares(q, up_product, none_product, key_down, is_up, is_down, PRECISION)
        if READS_DISTANCE:
            scores += share_of_distance(by_distance, i, j, attn, reach)
        scores = tl.where(is_key[None, :], scores, float("-inf"))
        new_highest = tl.maximum(highest, tl.max(scores, 1))
        fade = tl.exp(highest - new_highest)
        weights = tl.exp(scores - new_highest[:, None])
        highest = new_highest
        total = total * fade + tl.sum(weights, 1)
        if DROPS:
            weights *= dropout_factor(random_i, j, rate)
        attended = attended * fade[:, None] + tl.dot(weights.to(v.dtype), v, input_precision=PRECISION)
        if READS_GRAPH:
            down_weights = tl.where(is_down, weights, 0.0)
            value_down = table_rows(value_rows, down_j, d, WIDTH).to(v.dtype)
            attended += tl.dot(down_weights.to(v.dtype), value_down, input_precision=PRECISION)
            up_weight = up_weight * fade + tl.sum(tl.where(is_up, weights, 0.0), 1)
            down_weight = down_weight * fade + tl.sum(down_weights, 1)
            kept_total = kept_total * fade + tl.sum(weights, 1)

    if READS_GRAPH:
        attended += up_weight[:, None] * table_rows(value_rows, up_i, d, WIDTH)
        none_weight = (kept_total - up_weight - down_weight) * tl.load(has_graph + row).to(tl.float32)
        attended += none_weight[:, None] * row_of_none(value_rows, d, WIDTH)[None, :]
    attended /= total[:, None]
    to = out + (start + i[:, None]) * n_attn * WIDTH + attn * WIDTH + d[None, :]
    tl.store(to, attended.to(out.dtype.element_ty), mask=is_query[:, None] & (d < WIDTH)[None, :])
    if KEEPS_SUMS:
        tl.store(log_sums + (start + i) * n_attn + attn, highest + tl.log(total), mask=is_query)


@triton.jit
@no_type_check
def vectors_at(start, places, is_there, d, stride, WIDTH: tl.constexpr):
    """The vectors at some places, zeros where there are none."""
    mask = is_there[:, None] & (d < WIDTH)[None, :]
    return tl.load(start + places[:, None] * stride + d[None, :], mask=mask, other=0.0)


@triton.jit
@no_type_check
def related(above, ids, places, is_there):
    """The piece above each piece, and the relation between the two; -1 where that is NONE."""
    relations = tl.load(ids + places, mask=is_there, other=NO_RELATION).to(tl.int32)
    pieces = tl.load(above + places, mask=is_there, other=-1).to(tl.int32)
    return tl.where(relations == NO_RELATION, -1, pieces), relations


@triton.jit
@no_type_check
def table_rows(table, relations, d, WIDTH: tl.constexpr):
    """The rows of some relations in a table."""
    return tl.load(table + relations[:, None] * WIDTH + d[None, :], mask=(d < WIDTH)[None, :], other=0.0)


@triton.jit
@no_type_check
def row_of_none(table, d, WIDTH: tl.constexpr):
    """The row of NONE, as float32."""
    return tl.load(table + NO_RELATION * WIDTH + d, mask=d < WIDTH, other=0.0).to(tl.float32)


@triton.jit
@no_type_check
def product(x, y):
    """Each vector times one other."""
    return tl.sum(x.to(tl.float32) * y.to(tl.float32), 1)


@triton.jit
@no_type_check
def added_shares(x, with_up, with_none, downs, is_up, is_down, PRECISION: tl.constexpr):
    """Each vector times the row of its relation to each key, less NONE's; one key is above it, others are below it."""
    with_down = tl.dot(x, tl.trans(downs), input_precision=PRECISION) - with_none[:, None]
    return tl.where(is_up, with_up[:, None], 0.0) + tl.where(is_down, with_down, 0.0)


@triton.jit
@no_type_check
def share_of_distance(table, i, j, attn, reach):
    """What the distance from each query to each key adds to the score; all beyond `reach` count as there."""
    distance = tl.minimum(tl.maximum(j[None, :] - i[:, None], -reach), reach)
    return tl.load(table + attn * (2 * reach + 1) + distance + reach).to(tl.float32)


@triton.jit
@no_type_check
def random_of_query(seed, start, i, attn, n_attn):
    """Bits of its own for each query and attention head."""
    return tl.randint(tl.load(seed), ((start + i) * n_attn + attn).to(tl.int32)).to(tl.uint32, bitcast=True)


@triton.jit
@no_type_check
def dropout_factor(random_i, j, rate):
    """What dropout multiplies each weight by. A hash of the query's bits and the key is cheaper than bits for each."""
    x = random_i[:, None] + j.to(tl.uint32)[None, :] * 0x9E3779B9
    x = (x ^ (x >> 16)) * 0x85EBCA6B
    x = (x ^ (x >> 13)) * 0xC2B2AE35
    x ^= x >> 16
    return tl.where((x >> 8).to(tl.float32) * 5.9604644775390625e-08 >= rate, 1 / (1 - rate), 0.0)  # 2**-24
