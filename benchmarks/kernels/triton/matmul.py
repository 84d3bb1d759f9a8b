"""Matrix products in Triton: from pointers, from tensor descriptors, persistent, grouped, quantised, block-scaled."""

import triton
import triton.language as tl


@triton.jit
def tile_of(tile, rows, columns, GROUP: tl.constexpr):
    """Row and column of a tile, so that GROUP rows of tiles share the columns in the L2 cache."""
    per_group = GROUP * columns
    first = (tile // per_group) * GROUP
    height = min(rows - first, GROUP)
    inside = tile % per_group
    return first + inside % height, inside // height


@triton.jit
def activate(x, KIND: tl.constexpr):
    if KIND == "relu":
        x = tl.maximum(x, 0.0)
    elif KIND == "silu":
        x = x * tl.sigmoid(x)
    return x


@triton.jit
def matmul(
    a,
    b,
    c,
    m,
    n,
    k,
    a_row,
    b_row,
    c_row,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    GROUP: tl.constexpr,
    TRANSPOSED: tl.constexpr,
    ACTIVATION: tl.constexpr,
    PRECISION: tl.constexpr,
):
    i, j = tile_of(tl.program_id(0), tl.cdiv(m, M), tl.cdiv(n, N), GROUP)
    rows = i * M + tl.arange(0, M)
    columns = j * N + tl.arange(0, N)
    depth = tl.arange(0, K)
    a_at = a + (rows % m)[:, None] * a_row + depth[None, :]
    if TRANSPOSED:
        b_at = b + (columns % n)[None, :] * b_row + depth[:, None]
    else:
        b_at = b + depth[:, None] * b_row + (columns % n)[None, :]
    kind: tl.constexpr = tl.int32 if a.dtype.element_ty == tl.int8 else tl.float32
    sums = tl.zeros((M, N), dtype=kind)
    for start in range(0, k, K):
        x = tl.load(a_at, mask=depth[None, :] < k - start, other=0.0)
        y = tl.load(b_at, mask=depth[:, None] < k - start, other=0.0)
        sums = tl.dot(x, y, sums, input_precision=PRECISION, out_dtype=kind)
        a_at += K
        b_at += K if TRANSPOSED else K * b_row
    sums = activate(sums, ACTIVATION)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * c_row + columns[None, :], sums.to(c.dtype.element_ty), mask=inside)


@triton.jit
def matmul_splitk(
    a,
    b,
    c,
    m,
    n,
    k,
    a_row,
    b_row,
    c_row,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    SPLITS: tl.constexpr,
):
    i, j = tile_of(tl.program_id(0), tl.cdiv(m, M), tl.cdiv(n, N), 8)
    part = tl.program_id(1)
    rows = i * M + tl.arange(0, M)
    columns = j * N + tl.arange(0, N)
    depth = part * K + tl.arange(0, K)
    a_at = a + rows[:, None] * a_row + depth[None, :]
    b_at = b + depth[:, None] * b_row + columns[None, :]
    sums = tl.zeros((M, N), dtype=tl.float32)
    for _ in range(tl.cdiv(k, K * SPLITS)):
        sums = tl.dot(tl.load(a_at), tl.load(b_at), sums)
        a_at += K * SPLITS
        b_at += K * SPLITS * b_row
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.atomic_add(c + rows[:, None] * c_row + columns[None, :], sums, mask=inside, sem="relaxed")


@triton.jit
def matmul_descriptors(a, b, c, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """Tensor descriptors that the host made: TMA where the target has it. B is given transposed."""
    i = tl.program_id(0)
    j = tl.program_id(1)
    sums = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, k, K):
        sums = tl.dot(a.load([i * M, start]), b.load([j * N, start]).T, sums)
    c.store([i * M, j * N], sums.to(c.dtype))


@triton.jit
def matmul_device_descriptors(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """The same with descriptors that the kernel makes itself, in global memory."""
    a_tiles = tl.make_tensor_descriptor(a, [m, k], [k, 1], [M, K])
    b_tiles = tl.make_tensor_descriptor(b, [n, k], [k, 1], [N, K])
    c_tiles = tl.make_tensor_descriptor(c, [m, n], [n, 1], [M, N])
    i, j = tile_of(tl.program_id(0), tl.cdiv(m, M), tl.cdiv(n, N), 8)
    sums = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, k, K):
        sums = tl.dot(a_tiles.load([i * M, start]), b_tiles.load([j * N, start]).T, sums)
    c_tiles.store([i * M, j * N], sums.to(c.dtype.element_ty))


@triton.jit
def matmul_persistent(
    a,
    b,
    c,
    m,
    n,
    k,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    GROUP: tl.constexpr,
    SPECIALISED: tl.constexpr,
    FLAT: tl.constexpr,
    HALVES: tl.constexpr,
):
    """As many programs as the GPU has multiprocessors, each doing every so many tiles."""
    tall = tl.cdiv(m, M)
    wide = tl.cdiv(n, N)
    for tile in tl.range(
        tl.program_id(0), tall * wide, tl.num_programs(0), flatten=FLAT, warp_specialize=SPECIALISED
    ):
        i, j = tile_of(tile, tall, wide, GROUP)
        sums = tl.zeros((M, N), dtype=tl.float32)
        for start in range(0, k, K):
            sums = tl.dot(a.load([i * M, start]), b.load([j * N, start]).T, sums)
        if HALVES:
            left, right = tl.split(tl.permute(tl.reshape(sums, (M, 2, N // 2)), (0, 2, 1)))
            c.store([i * M, j * N], left.to(c.dtype))
            c.store([i * M, j * N + N // 2], right.to(c.dtype))
        else:
            c.store([i * M, j * N], sums.to(c.dtype))


@triton.jit
def matmul_persistent_pointers(
    a,
    b,
    c,
    m,
    n,
    k,
    a_row,
    b_row,
    c_row,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    GROUP: tl.constexpr,
):
    tall = tl.cdiv(m, M)
    wide = tl.cdiv(n, N)
    depth = tl.arange(0, K)
    for tile in tl.range(tl.program_id(0), tall * wide, tl.num_programs(0)):
        i, j = tile_of(tile, tall, wide, GROUP)
        rows = tl.max_contiguous(tl.multiple_of((i * M + tl.arange(0, M)) % m, M), M)
        columns = tl.max_contiguous(tl.multiple_of((j * N + tl.arange(0, N)) % n, N), N)
        sums = tl.zeros((M, N), dtype=tl.float32)
        for start in range(tl.cdiv(k, K)):
            at = start * K + depth
            x = tl.load(a + rows[:, None] * a_row + at[None, :], mask=at[None, :] < k, other=0.0)
            y = tl.load(b + at[:, None] * b_row + columns[None, :], mask=at[:, None] < k, other=0.0)
            sums = tl.dot(x, y, sums)
        rows = i * M + tl.arange(0, M)
        columns = j * N + tl.arange(0, N)
        inside = (rows[:, None] < m) & (columns[None, :] < n)
        tl.store(c + rows[:, None] * c_row + columns[None, :], sums.to(c.dtype.element_ty), mask=inside)


@triton.jit
def grouped(pointers, sizes, rows_of, groups, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """Problems of different sizes: three addresses, three sizes and three row lengths for each."""
    tile = tl.program_id(0)
    done = 0
    for group in range(groups):
        m = tl.load(sizes + 3 * group)
        n = tl.load(sizes + 3 * group + 1)
        k = tl.load(sizes + 3 * group + 2)
        wide = tl.cdiv(n, N)
        tiles = tl.cdiv(m, M) * wide
        while tile >= done and tile < done + tiles:
            a_row = tl.load(rows_of + 3 * group)
            b_row = tl.load(rows_of + 3 * group + 1)
            c_row = tl.load(rows_of + 3 * group + 2)
            a = tl.load(pointers + 3 * group).to(tl.pointer_type(tl.float16))
            b = tl.load(pointers + 3 * group + 1).to(tl.pointer_type(tl.float16))
            c = tl.load(pointers + 3 * group + 2).to(tl.pointer_type(tl.float16))
            rows = (tile - done) // wide * M + tl.arange(0, M)
            columns = (tile - done) % wide * N + tl.arange(0, N)
            depth = tl.arange(0, K)
            a_at = a + rows[:, None] * a_row + depth[None, :]
            b_at = b + depth[:, None] * b_row + columns[None, :]
            sums = tl.zeros((M, N), dtype=tl.float32)
            for _ in range(tl.cdiv(k, K)):
                tl.multiple_of(a_at, [16, 16])
                tl.multiple_of(b_at, [16, 16])
                sums = tl.dot(tl.load(a_at), tl.load(b_at), sums)
                a_at += K
                b_at += K * b_row
            inside = (rows[:, None] < m) & (columns[None, :] < n)
            tl.store(c + rows[:, None] * c_row + columns[None, :], sums.to(tl.float16), mask=inside)
            tile += tl.num_programs(0)
        done += tiles


@triton.jit
def grouped_descriptors(pointers, sizes, groups, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """The same for packed matrices, with a descriptor made for each problem."""
    tile = tl.program_id(0)
    done = 0
    for group in range(groups):
        m = tl.load(sizes + 3 * group)
        n = tl.load(sizes + 3 * group + 1)
        k = tl.load(sizes + 3 * group + 2)
        wide = tl.cdiv(n, N)
        tiles = tl.cdiv(m, M) * wide
        if tile >= done and tile < done + tiles:
            a = tl.make_tensor_descriptor(
                tl.load(pointers + 3 * group).to(tl.pointer_type(tl.float16)), [m, k], [k, 1], [M, K]
            )
            b = tl.make_tensor_descriptor(
                tl.load(pointers + 3 * group + 1).to(tl.pointer_type(tl.float16)), [n, k], [k, 1], [N, K]
            )
            c = tl.make_tensor_descriptor(
                tl.load(pointers + 3 * group + 2).to(tl.pointer_type(tl.float16)), [m, n], [n, 1], [M, N]
            )
            while tile >= done and tile < done + tiles:
                i = (tile - done) // wide
                j = (tile - done) % wide
                sums = tl.zeros((M, N), dtype=tl.float32)
                for step in range(tl.cdiv(k, K)):
                    sums = tl.dot(a.load([i * M, step * K]), b.load([j * N, step * K]).T, sums)
                c.store([i * M, j * N], sums.to(tl.float16))
                tile += tl.num_programs(0)
        done += tiles


@triton.jit
def block_scaled(
    a,
    a_scales,
    b,
    b_scales,
    c,
    m,
    n,
    k,
    c_row,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    VECTOR: tl.constexpr,
    A_PACK: tl.constexpr,
    B_PACK: tl.constexpr,
    A_KIND: tl.constexpr,
    B_KIND: tl.constexpr,
):
    """Operands of 8, 6 or 4 bits with a scale for each VECTOR elements along K; fp4 is packed by two."""
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    a_depth = tl.arange(0, K // A_PACK)
    b_depth = tl.arange(0, K // B_PACK)
    s_depth = tl.arange(0, K // VECTOR)
    a_at = a + rows[:, None] * (k // A_PACK) + a_depth[None, :]
    b_at = b + columns[None, :] * (k // B_PACK) + b_depth[:, None]
    a_scale = a_scales + rows[:, None] * (k // VECTOR) + s_depth[None, :]
    b_scale = b_scales + columns[:, None] * (k // VECTOR) + s_depth[None, :]
    sums = tl.zeros((M, N), dtype=tl.float32)
    for _ in range(0, k, K):
        sums = tl.dot_scaled(
            tl.load(a_at), tl.load(a_scale), A_KIND, tl.load(b_at), tl.load(b_scale), B_KIND, sums
        )
        a_at += K // A_PACK
        b_at += K // B_PACK
        a_scale += K // VECTOR
        b_scale += K // VECTOR
    tl.store(c + rows[:, None] * c_row + columns[None, :], sums.to(c.dtype.element_ty))


@triton.jit
def block_scaled_descriptors(
    a,
    a_scales,
    b,
    b_scales,
    c,
    k,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    VECTOR: tl.constexpr,
    A_PACK: tl.constexpr,
    B_PACK: tl.constexpr,
    A_KIND: tl.constexpr,
    B_KIND: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Scales laid out as the tensor core wants them: blocks of 128 rows by 4 scales, read by TMA."""
    i = tl.program_id(0)
    j = tl.program_id(1)
    sums = tl.zeros((M, N), dtype=tl.float32)
    for step in tl.range(0, tl.cdiv(k, K), num_stages=STAGES):
        x = a.load([i * M, step * (K // A_PACK)])
        y = b.load([j * N, step * (K // B_PACK)])
        x_scale = a_scales.load([0, i * (M // 128), step * (K // VECTOR // 4), 0, 0])
        y_scale = b_scales.load([0, j * (N // 128), step * (K // VECTOR // 4), 0, 0])
        x_scale = (
            x_scale.reshape(M // 128, K // VECTOR // 4, 32, 4, 4).trans(0, 3, 2, 1, 4).reshape(M, K // VECTOR)
        )
        y_scale = (
            y_scale.reshape(N // 128, K // VECTOR // 4, 32, 4, 4).trans(0, 3, 2, 1, 4).reshape(N, K // VECTOR)
        )
        sums = tl.dot_scaled(x, x_scale, A_KIND, y.T, y_scale, B_KIND, sums)
    c.store([i * M, j * N], sums.to(c.dtype))


@triton.jit
def matmul_int4(a, b, scales, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """Weights of four bits, two in a byte along K, with a scale for each column and 128 of K."""
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    half = tl.arange(0, K // 2)
    depth = tl.arange(0, K)
    sums = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, k, K):
        x = tl.load(a + rows[:, None] * k + (start + depth)[None, :], mask=rows[:, None] < m, other=0.0)
        packed = tl.load(b + (start // 2 + half)[:, None] * n + columns[None, :])
        low = (packed & 0xF).to(tl.int8) - 8
        high = (packed >> 4).to(tl.int8) - 8
        y = tl.join(low, high).permute(0, 2, 1).reshape(K, N)
        scale = tl.load(scales + (start // 128) * n + columns)
        sums = tl.dot(x, (y.to(tl.float16) * scale[None, :]).to(a.dtype.element_ty), sums)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * n + columns[None, :], sums.to(c.dtype.element_ty), mask=inside)


@triton.jit
def two_layers(x, w1, w2, y, m, k, H: tl.constexpr, D: tl.constexpr, M: tl.constexpr, K: tl.constexpr):
    """Two products in a row, the result of the first kept on the chip."""
    rows = tl.program_id(0) * M + tl.arange(0, M)
    hidden = tl.arange(0, H)
    depth = tl.arange(0, K)
    inner = tl.zeros((M, H), dtype=tl.float32)
    for start in range(0, k, K):
        left = tl.load(x + rows[:, None] * k + (start + depth)[None, :])
        inner = tl.dot(left, tl.load(w1 + (start + depth)[:, None] * H + hidden[None, :]), inner)
    inner = activate(inner, "silu").to(x.dtype.element_ty)
    out = tl.arange(0, D)
    result = tl.dot(inner, tl.load(w2 + hidden[:, None] * D + out[None, :]))
    tl.store(y + rows[:, None] * D + out[None, :], result.to(y.dtype.element_ty), mask=rows[:, None] < m)
