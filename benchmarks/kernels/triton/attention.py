"""Attention in Triton: forward from pointers and from descriptors, backward, and decoding over a paged cache."""

import triton
import triton.language as tl


@triton.jit
def forward(
    q,
    k,
    v,
    out,
    lse,
    length,
    scale,
    row,
    head_row,
    M: tl.constexpr,
    N: tl.constexpr,
    D: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    block = tl.program_id(0)
    base = tl.program_id(1).to(tl.int64) * head_row
    rows = block * M + tl.arange(0, M)
    columns = tl.arange(0, N)
    lanes = tl.arange(0, D)
    queries = tl.load(q + base + rows[:, None] * row + lanes[None, :], mask=rows[:, None] < length, other=0.0)
    top = tl.full((M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((M,), dtype=tl.float32)
    sums = tl.zeros((M, D), dtype=tl.float32)
    last = tl.minimum(length, (block + 1) * M) if CAUSAL else length
    for start in range(0, last, N):
        at = start + columns
        keys = tl.load(k + base + at[None, :] * row + lanes[:, None], mask=at[None, :] < length, other=0.0)
        scores = tl.dot(queries, keys) * (scale * 1.44269504)
        seen = at[None, :] < length
        if CAUSAL:
            seen = seen & (rows[:, None] >= at[None, :])
        scores = tl.where(seen, scores, -1.0e30)
        higher = tl.maximum(top, tl.max(scores, 1))
        weights = tl.math.exp2(scores - higher[:, None])
        shrink = tl.math.exp2(top - higher)
        total = total * shrink + tl.sum(weights, 1)
        values = tl.load(v + base + at[:, None] * row + lanes[None, :], mask=at[:, None] < length, other=0.0)
        sums = tl.dot(weights.to(values.dtype), values, sums * shrink[:, None])
        top = higher
    sums = sums / total[:, None]
    tl.store(lse + tl.program_id(1) * length + rows, top + tl.math.log2(total), mask=rows < length)
    tl.store(
        out + base + rows[:, None] * row + lanes[None, :],
        sums.to(out.dtype.element_ty),
        mask=rows[:, None] < length,
    )


@triton.jit
def forward_descriptors(
    q,
    k,
    v,
    out,
    lse,
    length,
    scale,
    M: tl.constexpr,
    N: tl.constexpr,
    D: tl.constexpr,
    CAUSAL: tl.constexpr,
    SPECIALISED: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Heads lie one after the other, so that a row of the descriptors is a head times the length."""
    block = tl.program_id(0)
    base = tl.program_id(1) * length
    rows = block * M + tl.arange(0, M)
    queries = q.load([base + block * M, 0])
    top = tl.full((M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((M,), dtype=tl.float32)
    sums = tl.zeros((M, D), dtype=tl.float32)
    last = (block + 1) * M if CAUSAL else length
    for start in tl.range(0, last, N, warp_specialize=SPECIALISED, num_stages=STAGES):
        keys = k.load([base + start, 0])
        scores = tl.dot(queries, keys.T) * (scale * 1.44269504)
        if CAUSAL:
            scores = tl.where(rows[:, None] >= (start + tl.arange(0, N))[None, :], scores, -1.0e30)
        higher = tl.maximum(top, tl.max(scores, 1))
        weights = tl.math.exp2(scores - higher[:, None])
        shrink = tl.math.exp2(top - higher)
        total = total * shrink + tl.sum(weights, 1)
        values = v.load([base + start, 0])
        sums = tl.dot(weights.to(values.dtype), values, sums * shrink[:, None])
        top = higher
    tl.store(lse + base + rows, top + tl.math.log2(total))
    out.store([base + block * M, 0], (sums / total[:, None]).to(out.dtype))


@triton.jit
def backward_delta(out, d_out, delta, length, row, D: tl.constexpr, M: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    at = rows[:, None] * row + tl.arange(0, D)[None, :]
    inside = rows[:, None] < length
    x = tl.load(out + at, mask=inside, other=0.0).to(tl.float32)
    y = tl.load(d_out + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(delta + rows, tl.sum(x * y, 1), mask=rows < length)


@triton.jit
def backward_keys(
    q,
    k,
    v,
    d_out,
    lse,
    delta,
    d_k,
    d_v,
    length,
    scale,
    row,
    head_row,
    M: tl.constexpr,
    N: tl.constexpr,
    D: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    base = tl.program_id(1).to(tl.int64) * head_row
    stats = tl.program_id(1) * length
    start = tl.program_id(0) * N
    columns = start + tl.arange(0, N)
    lanes = tl.arange(0, D)
    keys = tl.load(k + base + columns[:, None] * row + lanes[None, :])
    values = tl.load(v + base + columns[:, None] * row + lanes[None, :])
    keys_sum = tl.zeros((N, D), dtype=tl.float32)
    values_sum = tl.zeros((N, D), dtype=tl.float32)
    for first in range(start // M * M if CAUSAL else 0, length, M):
        rows = first + tl.arange(0, M)
        queries = tl.load(q + base + rows[:, None] * row + lanes[None, :])
        above = tl.load(d_out + base + rows[:, None] * row + lanes[None, :])
        scores = tl.dot(keys, tl.trans(queries)) * (scale * 1.44269504)
        weights = tl.math.exp2(scores - tl.load(lse + stats + rows)[None, :])
        if CAUSAL:
            weights = tl.where(rows[None, :] >= columns[:, None], weights, 0.0)
        values_sum = tl.dot(weights.to(above.dtype), above, values_sum)
        d_weights = tl.dot(values, tl.trans(above)) - tl.load(delta + stats + rows)[None, :]
        keys_sum = tl.dot((weights * d_weights).to(queries.dtype), queries, keys_sum)
    at = base + columns[:, None] * row + lanes[None, :]
    tl.store(d_v + at, values_sum.to(d_v.dtype.element_ty))
    tl.store(d_k + at, (keys_sum * scale).to(d_k.dtype.element_ty))


@triton.jit
def backward_queries(
    q,
    k,
    v,
    d_out,
    lse,
    delta,
    d_q,
    length,
    scale,
    row,
    head_row,
    M: tl.constexpr,
    N: tl.constexpr,
    D: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    base = tl.program_id(1).to(tl.int64) * head_row
    stats = tl.program_id(1) * length
    block = tl.program_id(0)
    rows = block * M + tl.arange(0, M)
    lanes = tl.arange(0, D)
    queries = tl.load(q + base + rows[:, None] * row + lanes[None, :])
    above = tl.load(d_out + base + rows[:, None] * row + lanes[None, :])
    level = tl.load(lse + stats + rows)
    shift = tl.load(delta + stats + rows)
    sums = tl.zeros((M, D), dtype=tl.float32)
    for start in range(0, (block + 1) * M if CAUSAL else length, N):
        columns = start + tl.arange(0, N)
        keys = tl.load(k + base + columns[:, None] * row + lanes[None, :])
        values = tl.load(v + base + columns[:, None] * row + lanes[None, :])
        weights = tl.math.exp2(tl.dot(queries, tl.trans(keys)) * (scale * 1.44269504) - level[:, None])
        if CAUSAL:
            weights = tl.where(rows[:, None] >= columns[None, :], weights, 0.0)
        d_scores = weights * (tl.dot(above, tl.trans(values)) - shift[:, None])
        sums = tl.dot(d_scores.to(keys.dtype), keys, sums)
    tl.store(d_q + base + rows[:, None] * row + lanes[None, :], (sums * scale).to(d_q.dtype.element_ty))


@triton.jit
def decode(
    q,
    k_pages,
    v_pages,
    table,
    lengths,
    partial,
    stats,
    scale,
    pages,
    H: tl.constexpr,
    D: tl.constexpr,
    PAGE: tl.constexpr,
    SPLITS: tl.constexpr,
):
    """H query heads that share their keys against a cache in pages; each program does a part of the pages."""
    sequence = tl.program_id(0)
    part = tl.program_id(1)
    heads = tl.arange(0, H)
    lanes = tl.arange(0, D)
    queries = tl.load(q + (sequence * H + heads)[:, None] * D + lanes[None, :])
    length = tl.load(lengths + sequence)
    top = tl.full((H,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((H,), dtype=tl.float32)
    sums = tl.zeros((H, D), dtype=tl.float32)
    per_part = tl.cdiv(tl.cdiv(length, PAGE), SPLITS)
    for index in range(part * per_part, tl.minimum((part + 1) * per_part, tl.cdiv(length, PAGE))):
        page = tl.load(table + sequence * pages + index).to(tl.int64)
        slots = tl.arange(0, PAGE)
        inside = index * PAGE + slots < length
        at = (page * PAGE + slots)[:, None] * D + lanes[None, :]
        keys = tl.load(k_pages + at, mask=inside[:, None], other=0.0)
        values = tl.load(v_pages + at, mask=inside[:, None], other=0.0)
        scores = tl.where(inside[None, :], tl.dot(queries, tl.trans(keys)) * scale, float("-inf"))
        higher = tl.maximum(top, tl.max(scores, 1))
        weights = tl.exp(scores - higher[:, None])
        shrink = tl.exp(top - higher)
        total = total * shrink + tl.sum(weights, 1)
        sums = tl.dot(weights.to(values.dtype), values, sums * shrink[:, None])
        top = higher
    at = (sequence * SPLITS + part) * H + heads
    tl.store(partial + at[:, None] * D + lanes[None, :], sums)
    tl.store(stats + at * 2, top)
    tl.store(stats + at * 2 + 1, total)
