"""cp.async and mma in Gluon."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy, mma_v2


@gluon.jit
def scaled_copy(x, y, n, factor, B: gl.constexpr, STAGES: gl.constexpr):
    """A stream through shared memory, STAGES copies in flight."""
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [gl.num_warps()], [0])
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    ring = gl.allocate_shared_memory(gl.float32, [STAGES, B], shared)
    lanes = gl.arange(0, B, layout)
    base = gl.program_id(0) * n
    for stage in gl.static_range(STAGES - 1):
        at = stage * B + lanes
        async_copy.async_load(ring.index(stage), x + base + at, mask=at < n)
        async_copy.commit_group()
    for step in range(gl.cdiv(n, B)):
        ahead = (step + STAGES - 1) * B + lanes
        async_copy.wait_group(STAGES - 2)
        value = ring.index(step % STAGES).load(layout)
        async_copy.async_load(ring.index((step + STAGES - 1) % STAGES), x + base + ahead, mask=ahead < n)
        async_copy.commit_group()
        at = step * B + lanes
        gl.store(y + base + at, value * factor, mask=at < n)
    async_copy.wait_group(0)


@gluon.jit
def matmul(a, b, c, k, n, M: gl.constexpr, N: gl.constexpr, K: gl.constexpr, STAGES: gl.constexpr):
    """The fragments come from a ring of tiles that cp.async fills."""
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [2, gl.num_warps() // 2], [16, 8])
    a_part: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    b_part: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    rows_first: gl.constexpr = gl.BlockedLayout([1, 8], [8, 4], [gl.num_warps(), 1], [1, 0])
    swizzled: gl.constexpr = gl.SwizzledSharedLayout(8, 2, 4, [1, 0])
    a_ring = gl.allocate_shared_memory(gl.float16, [STAGES, M, K], swizzled)
    b_ring = gl.allocate_shared_memory(gl.float16, [STAGES, K, N], swizzled)
    a_rows = gl.program_id(0) * M + gl.arange(0, M, gl.SliceLayout(1, rows_first))
    a_columns = gl.arange(0, K, gl.SliceLayout(0, rows_first))
    b_rows = gl.arange(0, K, gl.SliceLayout(1, rows_first))
    b_columns = gl.program_id(1) * N + gl.arange(0, N, gl.SliceLayout(0, rows_first))
    a_at = a + a_rows[:, None] * k + a_columns[None, :]
    b_at = b + b_rows[:, None] * n + b_columns[None, :]
    for stage in gl.static_range(STAGES - 1):
        async_copy.async_load(a_ring.index(stage), a_at)
        async_copy.async_load(b_ring.index(stage), b_at)
        async_copy.commit_group()
        a_at += K
        b_at += K * n
    sums = gl.zeros([M, N], gl.float32, mma)
    steps = gl.cdiv(k, K)
    for step in range(steps):
        async_copy.wait_group(STAGES - 2)
        x = a_ring.index(step % STAGES).load(a_part)
        y = b_ring.index(step % STAGES).load(b_part)
        more = step + STAGES - 1 < steps
        async_copy.async_load(a_ring.index((step + STAGES - 1) % STAGES), a_at, mask=more)
        async_copy.async_load(b_ring.index((step + STAGES - 1) % STAGES), b_at, mask=more)
        async_copy.commit_group()
        sums = mma_v2(x, y, sums)
        a_at += K
        b_at += K * n
    async_copy.wait_group(0)
    out_rows = gl.program_id(0) * M + gl.arange(0, M, gl.SliceLayout(1, mma))
    out_columns = gl.program_id(1) * N + gl.arange(0, N, gl.SliceLayout(0, mma))
    gl.store(c + out_rows[:, None] * n + out_columns[None, :], sums.to(gl.float16))
