"""Triton kernels for attention over rows of pieces with a graph, and its gradients. `fused_attention` calls them."""

from __future__ import annotations

from typing import no_type_check  # in tests, jaxtyping would otherwise wrap functions that Triton has to read

import triton
import triton.language as tl

from treefine.model.attention import NONE

NO_RELATION: tl.constexpr = tl.constexpr(NONE)


@triton.jit
@no_type_check
def forward(
    query, key, value, out, log_sums, starts, lengths, above, up, down, has_graph, key_rows, value_rows, by_distance,
    seed, piece_stride, attn_stride, scale, reach, rate,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr, PRECISION: tl.constexpr,
    READS_GRAPH: tl.constexpr, READS_DISTANCE: tl.constexpr, DROPS: tl.constexpr, KEEPS_SUMS: tl.constexpr,
):  # fmt: skip
    """Compute the new values of a block of queries, with a running softmax over blocks of keys."""
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
    total = tl.zeros([QUERIES], tl.float32)  # the sum of the weights before dropout …
    kept_total = tl.zeros([QUERIES], tl.float32)  # … and after it
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
    """Load the vectors at some places; zeros if `is_there` is false."""
    mask = is_there[:, None] & (d < WIDTH)[None, :]
    return tl.load(start + places[:, None] * stride + d[None, :], mask=mask, other=0.0)


@triton.jit
@no_type_check
def related(above, ids, places, is_there):
    """Load the piece above each piece, or -1 if the relation is NONE, and the relation between the two."""
    relations = tl.load(ids + places, mask=is_there, other=NO_RELATION).to(tl.int32)
    pieces = tl.load(above + places, mask=is_there, other=-1).to(tl.int32)
    return tl.where(relations == NO_RELATION, -1, pieces), relations


@triton.jit
@no_type_check
def table_rows(table, relations, d, WIDTH: tl.constexpr):
    """Load the table rows of some relations."""
    return tl.load(table + relations[:, None] * WIDTH + d[None, :], mask=(d < WIDTH)[None, :], other=0.0)


@triton.jit
@no_type_check
def row_of_none(table, d, WIDTH: tl.constexpr):
    """Load the table row of NONE as float32."""
    return tl.load(table + NO_RELATION * WIDTH + d, mask=d < WIDTH, other=0.0).to(tl.float32)


@triton.jit
@no_type_check
def product(x, y):
    """Return the dot product of each vector of x with its vector of y."""
    return tl.sum(x.to(tl.float32) * y.to(tl.float32), 1)


@triton.jit
@no_type_check
def added_shares(x, with_up, with_none, downs, is_up, is_down, PRECISION: tl.constexpr):
    """Return each vector's product with the row of its relation to each key, minus the product with NONE's row.

    It is zero except for the key above the vector's piece and the keys below it.
    """
    with_down = tl.dot(x, tl.trans(downs), input_precision=PRECISION) - with_none[:, None]
    return tl.where(is_up, with_up[:, None], 0.0) + tl.where(is_down, with_down, 0.0)


@triton.jit
@no_type_check
def share_of_distance(table, i, j, attn, reach):
    """Load the bias for the distance from each query to each key; distances are clipped to `reach`."""
    distance = tl.minimum(tl.maximum(j[None, :] - i[:, None], -reach), reach)
    return tl.load(table + attn * (2 * reach + 1) + distance + reach).to(tl.float32)


@triton.jit
@no_type_check
def random_of_query(seed, start, i, attn, n_attn):
    """Return independent random bits for each query and attention head."""
    return tl.randint(tl.load(seed), ((start + i) * n_attn + attn).to(tl.int32)).to(tl.uint32, bitcast=True)


@triton.jit
@no_type_check
def dropout_factor(random_i, j, rate):
    """Return the dropout factor of each weight. Hashing the query's bits with the key is cheaper than new bits."""
    x = random_i[:, None] + j.to(tl.uint32)[None, :] * 0x9E3779B9
    x = (x ^ (x >> 16)) * 0x85EBCA6B
    x = (x ^ (x >> 13)) * 0xC2B2AE35
    x ^= x >> 16
    return tl.where((x >> 8).to(tl.float32) * 5.9604644775390625e-08 >= rate, 1 / (1 - rate), 0.0)  # 2**-24


@triton.jit(do_not_specialize=["n_shares", "longest"])
@no_type_check
def backward_of_queries(
    query, key, value, out, log_sums, starts, lengths, above, up, down, has_graph, key_rows, value_rows, by_distance,
    seed, piece_stride, attn_stride, scale, reach, rate, grad, grad_query, deltas, shares, n_shares,
    grad_by_distance, longest,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr, PRECISION: tl.constexpr,
    READS_GRAPH: tl.constexpr, READS_DISTANCE: tl.constexpr, DROPS: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of a block of queries, and the coefficients of the table rows of their `up` relations."""
    attn, n_attn, row = tl.program_id(1), tl.num_programs(1), tl.program_id(2)
    length = tl.load(lengths + row).to(tl.int32)
    first = tl.program_id(0) * QUERIES
    if first >= length:
        return
    start = tl.load(starts + row).to(tl.int64)
    i, d = first + tl.arange(0, QUERIES), tl.arange(0, PADDED)
    is_query = i < length
    at, at_out = start * piece_stride + attn * attn_stride, (start * n_attn + attn) * WIDTH
    q = vectors_at(query + at, i, is_query, d, piece_stride, WIDTH)
    given = vectors_at(grad + at_out, i, is_query, d, n_attn * WIDTH, WIDTH)
    made = vectors_at(out + at_out, i, is_query, d, n_attn * WIDTH, WIDTH)
    delta = tl.sum(given.to(tl.float32) * made.to(tl.float32), 1)  # each query's mean gradient of its weights
    at_sums = (start + i) * n_attn + attn
    tl.store(deltas + at_sums, delta, mask=is_query)
    log_sum = tl.load(log_sums + at_sums, mask=is_query, other=0.0)
    if READS_GRAPH:
        above_i, up_i = related(above + start, up + start, i, is_query)
        is_read = tl.load(has_graph + row).to(tl.float32)
        key_none = product(q, row_of_none(key_rows, d, WIDTH)[None, :])
        key_up = product(q, table_rows(key_rows, up_i, d, WIDTH)) - key_none
        value_none = product(given, row_of_none(value_rows, d, WIDTH)[None, :])
        value_up = product(given, table_rows(value_rows, up_i, d, WIDTH)) - value_none
    if DROPS:
        random_i = random_of_query(seed, start, i, attn, n_attn)

    up_score, down_score = tl.zeros([QUERIES], tl.float32), tl.zeros([QUERIES], tl.float32)
    up_weight, kept_total = tl.zeros([QUERIES], tl.float32), tl.zeros([QUERIES], tl.float32)
    result = tl.zeros([QUERIES, PADDED], tl.float32)
    for before in range(0, length, KEYS):
        j = before + tl.arange(0, KEYS)
        is_key = j < length
        k = vectors_at(key + at, j, is_key, d, piece_stride, WIDTH)
        v = vectors_at(value + at, j, is_key, d, piece_stride, WIDTH)
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
        grad_weights = tl.dot(given, tl.trans(v), input_precision=PRECISION)
        if READS_GRAPH:
            above_j, down_j = related(above + start, down + start, j, is_key)
            is_up, is_down = above_i[:, None] == j[None, :], above_j[None, :] == i[:, None]
            key_down = table_rows(key_rows, down_j, d, WIDTH).to(q.dtype)
            value_down = table_rows(value_rows, down_j, d, WIDTH).to(q.dtype)
            scores += added_shares(q, key_up, key_none, key_down, is_up, is_down, PRECISION)
            grad_weights += added_shares(given, value_up, value_none, value_down, is_up, is_down, PRECISION)
            grad_weights += (value_none * is_read)[:, None]
        if READS_DISTANCE:
            scores += share_of_distance(by_distance, i, j, attn, reach)
        is_cell = is_query[:, None] & is_key[None, :]
        weights = tl.where(is_cell, tl.exp(scores - log_sum[:, None]), 0.0)
        kept = weights
        if DROPS:
            factor = dropout_factor(random_i, j, rate)
            kept, grad_weights = weights * factor, grad_weights * factor
        grad_scores = weights * (grad_weights - delta[:, None])
        result += tl.dot((grad_scores * scale).to(k.dtype), k, input_precision=PRECISION)
        if READS_GRAPH:
            down_scores = tl.where(is_down, grad_scores, 0.0)
            result += tl.dot(down_scores.to(k.dtype), key_down, input_precision=PRECISION)
            down_score += tl.sum(down_scores, 1)
            up_score += tl.sum(tl.where(is_up, grad_scores, 0.0), 1)
            up_weight += tl.sum(tl.where(is_up, kept, 0.0), 1)
            kept_total += tl.sum(kept, 1)
        if READS_DISTANCE:
            # Stored per query and summed later, because many cells of a block have the same distance.
            slot = at_sums[:, None] * (2 * longest - 1) + (j[None, :] - i[:, None] + longest - 1)
            tl.store(grad_by_distance + slot, grad_scores, mask=is_cell)

    if READS_GRAPH:
        result += up_score[:, None] * table_rows(key_rows, up_i, d, WIDTH)
        result -= (up_score + down_score)[:, None] * row_of_none(key_rows, d, WIDTH)[None, :]
        tl.store(shares + at_sums, up_score, mask=is_query)
        tl.store(shares + n_shares + at_sums, up_weight, mask=is_query)
        tl.store(shares + 2 * n_shares + at_sums, kept_total * is_read, mask=is_query)
    to = grad_query + (start + i[:, None]) * n_attn * WIDTH + attn * WIDTH + d[None, :]
    tl.store(to, result.to(grad_query.dtype.element_ty), mask=is_query[:, None] & (d < WIDTH)[None, :])


@triton.jit(do_not_specialize=["n_shares"])
@no_type_check
def backward_of_keys(
    query, key, value, log_sums, starts, lengths, above, up, down, has_graph, key_rows, value_rows, by_distance,
    seed, piece_stride, attn_stride, scale, reach, rate, grad, grad_key, grad_value, deltas, shares, n_shares, above_at,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr, PRECISION: tl.constexpr,
    READS_GRAPH: tl.constexpr, READS_DISTANCE: tl.constexpr, DROPS: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of a block of keys and values, and the coefficients of their `down` relations' rows."""
    attn, n_attn, row = tl.program_id(1), tl.num_programs(1), tl.program_id(2)
    length = tl.load(lengths + row).to(tl.int32)
    first = tl.program_id(0) * KEYS
    if first >= length:
        return
    start = tl.load(starts + row).to(tl.int64)
    j, d = first + tl.arange(0, KEYS), tl.arange(0, PADDED)
    is_key = j < length
    at, at_out = start * piece_stride + attn * attn_stride, (start * n_attn + attn) * WIDTH
    k = vectors_at(key + at, j, is_key, d, piece_stride, WIDTH)
    v = vectors_at(value + at, j, is_key, d, piece_stride, WIDTH)
    if READS_GRAPH:
        above_j, down_j = related(above + start, down + start, j, is_key)
        key_down = table_rows(key_rows, down_j, d, WIDTH).to(k.dtype)
        value_down = table_rows(value_rows, down_j, d, WIDTH).to(k.dtype)
        is_read = tl.load(has_graph + row).to(tl.float32)

    down_weight, down_score = tl.zeros([KEYS], tl.float32), tl.zeros([KEYS], tl.float32)
    of_key = tl.zeros([KEYS, PADDED], tl.float32)
    of_value = tl.zeros([KEYS, PADDED], tl.float32)
    for before in range(0, length, QUERIES):
        i = before + tl.arange(0, QUERIES)
        is_query = i < length
        q = vectors_at(query + at, i, is_query, d, piece_stride, WIDTH)
        given = vectors_at(grad + at_out, i, is_query, d, n_attn * WIDTH, WIDTH)
        at_sums = (start + i) * n_attn + attn
        log_sum = tl.load(log_sums + at_sums, mask=is_query, other=0.0)
        delta = tl.load(deltas + at_sums, mask=is_query, other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
        grad_weights = tl.dot(given, tl.trans(v), input_precision=PRECISION)
        if READS_GRAPH:
            above_i, up_i = related(above + start, up + start, i, is_query)
            is_up, is_down = above_i[:, None] == j[None, :], above_j[None, :] == i[:, None]
            key_none = product(q, row_of_none(key_rows, d, WIDTH)[None, :])
            key_up = product(q, table_rows(key_rows, up_i, d, WIDTH)) - key_none
            value_none = product(given, row_of_none(value_rows, d, WIDTH)[None, :])
            value_up = product(given, table_rows(value_rows, up_i, d, WIDTH)) - value_none
            scores += added_shares(q, key_up, key_none, key_down, is_up, is_down, PRECISION)
            grad_weights += added_shares(given, value_up, value_none, value_down, is_up, is_down, PRECISION)
            grad_weights += (value_none * is_read)[:, None]
        if READS_DISTANCE:
            scores += share_of_distance(by_distance, i, j, attn, reach)
        is_cell = is_query[:, None] & is_key[None, :]
        weights = tl.where(is_cell, tl.exp(scores - log_sum[:, None]), 0.0)
        kept = weights
        if DROPS:
            factor = dropout_factor(random_of_query(seed, start, i, attn, n_attn), j, rate)
            kept, grad_weights = weights * factor, grad_weights * factor
        grad_scores = weights * (grad_weights - delta[:, None])
        of_value += tl.dot(tl.trans(kept.to(given.dtype)), given, input_precision=PRECISION)
        of_key += tl.dot(tl.trans((grad_scores * scale).to(q.dtype)), q, input_precision=PRECISION)
        if READS_GRAPH:
            down_score += tl.sum(tl.where(is_down, grad_scores, 0.0), 0)
            down_weight += tl.sum(tl.where(is_down, kept, 0.0), 0)

    if READS_GRAPH:
        at_shares = (start + j) * n_attn + attn
        tl.store(shares + 3 * n_shares + at_shares, down_score, mask=is_key)
        tl.store(shares + 4 * n_shares + at_shares, down_weight, mask=is_key)
        tl.store(above_at + start + j, start + tl.maximum(above_j, 0), mask=is_key & (attn == 0))
    to = (start + j[:, None]) * n_attn * WIDTH + attn * WIDTH + d[None, :]
    is_stored = is_key[:, None] & (d < WIDTH)[None, :]
    tl.store(grad_key + to, of_key.to(grad_key.dtype.element_ty), mask=is_stored)
    tl.store(grad_value + to, of_value.to(grad_value.dtype.element_ty), mask=is_stored)


@triton.jit(do_not_specialize=["n_shares", "n_pieces"])
@no_type_check
def backward_of_tables(
    query, piece_stride, attn_stride, grad, up, down, above_at, shares, n_shares, n_attn, n_pieces, n_relations,
    grad_key_rows, grad_value_rows,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, PIECES: tl.constexpr, RELATIONS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute what one block of pieces adds to the gradients of a block of table rows, from the coefficients."""
    p, d = tl.program_id(0) * PIECES + tl.arange(0, PIECES), tl.arange(0, PADDED)
    above_p = tl.load(above_at + p, mask=p < n_pieces, other=-1)
    is_piece = above_p >= 0  # the others are not in any row
    relations = tl.program_id(1) * RELATIONS + tl.arange(0, RELATIONS)
    up_p = tl.load(up + p, mask=is_piece, other=NO_RELATION)
    down_p = tl.load(down + p, mask=is_piece, other=NO_RELATION)
    is_up, is_down = relations[:, None] == up_p[None, :], relations[:, None] == down_p[None, :]
    is_none = (relations == NO_RELATION)[:, None]
    of_keys = tl.zeros([RELATIONS, PADDED], tl.float32)
    of_values = tl.zeros([RELATIONS, PADDED], tl.float32)
    for attn in range(0, n_attn):
        at_query, at_grad = query + attn * attn_stride, grad + attn * WIDTH
        q = vectors_at(at_query, p, is_piece, d, piece_stride, WIDTH)
        given = vectors_at(at_grad, p, is_piece, d, n_attn * WIDTH, WIDTH)
        above_q = vectors_at(at_query, above_p, is_piece, d, piece_stride, WIDTH)
        above_given = vectors_at(at_grad, above_p, is_piece, d, n_attn * WIDTH, WIDTH)
        at = shares + p * n_attn + attn
        up_score = tl.load(at, mask=is_piece, other=0.0)
        up_weight = tl.load(at + n_shares, mask=is_piece, other=0.0)
        kept_total = tl.load(at + 2 * n_shares, mask=is_piece, other=0.0)
        down_score = tl.load(at + 3 * n_shares, mask=is_piece, other=0.0)
        down_weight = tl.load(at + 4 * n_shares, mask=is_piece, other=0.0)
        up_scores = tl.where(is_up, up_score[None, :], 0.0).to(q.dtype)
        down_scores = tl.where(is_down, down_score[None, :], 0.0).to(q.dtype)
        of_keys += tl.dot(up_scores, q, input_precision=PRECISION)
        of_keys += tl.dot(down_scores, above_q, input_precision=PRECISION)
        up_weights = tl.where(is_up, up_weight[None, :], 0.0) + tl.where(is_none, kept_total[None, :], 0.0)
        down_weights = tl.where(is_down, down_weight[None, :], 0.0).to(q.dtype)
        of_values += tl.dot(up_weights.to(q.dtype), given, input_precision=PRECISION)
        of_values += tl.dot(down_weights, above_given, input_precision=PRECISION)
    to = (tl.program_id(0) * n_relations + relations[:, None]) * WIDTH + d[None, :]
    is_stored = (relations < n_relations)[:, None] & (d < WIDTH)[None, :]
    tl.store(grad_key_rows + to, of_keys, mask=is_stored)
    tl.store(grad_value_rows + to, of_values, mask=is_stored)
