"""Kernels without a matrix product in Triton: norms, softmax, scans, sorts, gathers, atomics."""

import triton
import triton.language as tl


@triton.jit
def layernorm(x, y, weight, bias, means, scales, n, eps, B: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((B,), dtype=tl.float32)
    squares = tl.zeros((B,), dtype=tl.float32)
    for start in range(0, n, B):
        at = start + tl.arange(0, B)
        value = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
        total += value
        squares += value * value
    mean = tl.sum(total) / n
    scale = tl.rsqrt(tl.sum(squares) / n - mean * mean + eps)
    tl.store(means + row, mean)
    tl.store(scales + row, scale)
    for start in range(0, n, B):
        at = start + tl.arange(0, B)
        value = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
        w = tl.load(weight + at, mask=at < n, other=0.0).to(tl.float32)
        b = tl.load(bias + at, mask=at < n, other=0.0).to(tl.float32)
        tl.store(y + row * n + at, ((value - mean) * scale * w + b).to(y.dtype.element_ty), mask=at < n)


@triton.jit
def layernorm_backward(
    dx, dy, dw, db, x, weight, means, scales, locks, n, GROUPS: tl.constexpr, B: tl.constexpr
):
    """The sums over the rows are gathered in GROUPS buffers, each guarded by a lock."""
    row = tl.program_id(0)
    at = tl.arange(0, B)
    inside = at < n
    value = tl.load(x + row * n + at, mask=inside, other=0.0).to(tl.float32)
    above = tl.load(dy + row * n + at, mask=inside, other=0.0).to(tl.float32)
    w = tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
    scale = tl.load(scales + row)
    unit = tl.where(inside, (value - tl.load(means + row)) * scale, 0.0)
    scaled = tl.where(inside, w * above, 0.0)
    along = tl.sum(unit * scaled) / n
    tl.store(
        dx + row * n + at,
        ((scaled - unit * along - tl.sum(scaled) / n) * scale).to(dx.dtype.element_ty),
        mask=inside,
    )
    group = row % GROUPS
    while tl.atomic_cas(locks + group, 0, 1) == 1:
        pass
    filled = tl.load(locks + GROUPS + group)
    part_w = above * unit
    part_b = above
    if filled == 0:
        tl.atomic_xchg(locks + GROUPS + group, 1)
    else:
        part_w += tl.load(dw + group * n + at, mask=inside)
        part_b += tl.load(db + group * n + at, mask=inside)
    tl.store(dw + group * n + at, part_w, mask=inside)
    tl.store(db + group * n + at, part_b, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(locks + group, 0)


@triton.jit
def rmsnorm_residual(x, residual, y, weight, n, eps, B: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, B)
    value = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
    value += tl.load(residual + row * n + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(residual + row * n + at, value.to(residual.dtype.element_ty), mask=at < n)
    value *= tl.rsqrt(tl.sum(value * value) / n + eps)
    tl.store(
        y + row * n + at, (value * tl.load(weight + at, mask=at < n)).to(y.dtype.element_ty), mask=at < n
    )


@triton.jit
def softmax(x, y, rows, n, B: tl.constexpr):
    at = tl.arange(0, B)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0)):
        value = tl.load(x + row * n + at, mask=at < n, other=float("-inf")).to(tl.float32)
        value = tl.exp(value - tl.max(value, 0))
        tl.store(y + row * n + at, (value / tl.sum(value, 0)).to(y.dtype.element_ty), mask=at < n)


@triton.jit
def quantise(x, y, scales, n, B: tl.constexpr):
    """One fp8 scale for each B elements."""
    at = tl.program_id(0) * B + tl.arange(0, B)
    value = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(value)), 1e-10) / 448.0
    tl.store(y + at, (value / scale).to(y.dtype.element_ty), mask=at < n)
    tl.store(scales + tl.program_id(0), scale)


@triton.jit
def histogram(x, counts, n, B: tl.constexpr, BINS: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    found = tl.histogram(tl.load(x + at, mask=at < n, other=0), BINS)
    tl.atomic_add(counts + tl.arange(0, BINS), found, sem="relaxed")


@triton.jit
def cumsum(x, y, n, B: tl.constexpr):
    row = tl.program_id(0)
    carry = 0.0
    for start in range(0, n, B):
        at = start + tl.arange(0, B)
        value = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
        tl.store(y + row * n + at, tl.cumsum(value) + carry, mask=at < n)
        carry += tl.sum(value)


@triton.jit
def sort(x, y, n, B: tl.constexpr):
    at = tl.arange(0, B)
    row = tl.program_id(0)
    tl.store(y + row * n + at, tl.sort(tl.load(x + row * n + at, mask=at < n, other=1e30)), mask=at < n)


@triton.jit
def best(x, values, places, n, B: tl.constexpr):
    at = tl.arange(0, B)
    row = tl.program_id(0)
    value, place = tl.max(tl.load(x + row * n + at, mask=at < n, other=-1e30), 0, return_indices=True)
    tl.store(values + row, value)
    tl.store(places + row, place)


@triton.jit
def transpose(x, y, m, n, M: tl.constexpr, N: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tile = tl.load(x + rows[:, None] * n + columns[None, :], mask=inside)
    tl.store(y + columns[:, None] * m + rows[None, :], tile.T, mask=inside.T)


@triton.jit
def rotary(x, cosines, sines, positions, heads, D: tl.constexpr):
    token = tl.program_id(0)
    half = tl.arange(0, D // 2)
    place = tl.load(positions + token)
    c = tl.load(cosines + place * (D // 2) + half)
    s = tl.load(sines + place * (D // 2) + half)
    for head in range(heads):
        base = x + (token * heads + head) * D
        left = tl.load(base + half).to(tl.float32)
        right = tl.load(base + D // 2 + half).to(tl.float32)
        tl.store(base + half, (left * c - right * s).to(x.dtype.element_ty))
        tl.store(base + D // 2 + half, (right * c + left * s).to(x.dtype.element_ty))


@triton.jit
def dropout(x, y, n, seed, rate, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    kept = tl.rand(seed, at) > rate
    value = tl.load(x + at, mask=at < n, other=0.0)
    tl.store(y + at, tl.where(kept, value / (1 - rate), 0.0).to(y.dtype.element_ty), mask=at < n)


@triton.jit
def gather_rows(x, places, y, columns, M: tl.constexpr, N: tl.constexpr):
    """Rows picked by a list: TMA's gather and scatter where the target has them."""
    at = tl.load(places + tl.program_id(0) * M + tl.arange(0, M))
    for start in range(0, columns, N):
        y.scatter(x.gather(at, start), at, start)


@triton.jit
def add_into(x, y, M: tl.constexpr, N: tl.constexpr):
    """A reduction into global memory through descriptors."""
    i = tl.program_id(0) * M
    j = tl.program_id(1) * N
    y.atomic_add([i, j], x.load([i, j]))


@triton.jit
def vector_add(x, y, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)
