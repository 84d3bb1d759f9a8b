"""tcgen05 and tensor memory in Gluon."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    fence_async_shared,
    mbarrier,
    tcgen05_commit,
    tcgen05_mma,
    tma,
)


@gluon.jit
def round_trip(x, y, M: gl.constexpr, N: gl.constexpr):
    """Registers, tensor memory, registers."""
    layout: gl.constexpr = TensorMemoryLayout([M, N], col_stride=1)
    place = allocate_tensor_memory(gl.float32, [M, N], layout)
    blocked: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [gl.num_warps(), 1], [1, 0])
    rows = gl.arange(0, M, gl.SliceLayout(1, blocked))
    columns = gl.arange(0, N, gl.SliceLayout(0, blocked))
    at = rows[:, None] * N + columns[None, :]
    held: gl.constexpr = place.get_reg_layout()
    place.store(gl.convert_layout(gl.load(x + at), held))
    gl.store(y + at, gl.convert_layout(place.load(held) * 2.0, blocked))


@gluon.jit
def matmul(a, b, c, k):
    """One tile of each operand: load, multiply, wait, again."""
    M: gl.constexpr = a.block_type.shape[0]
    K: gl.constexpr = a.block_type.shape[1]
    N: gl.constexpr = b.block_type.shape[0]
    x = gl.allocate_shared_memory(a.dtype, [M, K], a.layout)
    y = gl.allocate_shared_memory(b.dtype, [N, K], b.layout)
    loaded = mbarrier.allocate_mbarrier()
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(loaded, count=1)
    mbarrier.init(done, count=1)
    fence_async_shared()
    sums = allocate_tensor_memory(gl.float32, [M, N], TensorMemoryLayout([M, N], col_stride=1))
    row = gl.program_id(0) * M
    column = gl.program_id(1) * N
    phase = 0
    for step in range(gl.cdiv(k, K)):
        mbarrier.expect(loaded, a.block_type.nbytes + b.block_type.nbytes)
        tma.async_load(a, [row, step * K], loaded, x)
        tma.async_load(b, [column, step * K], loaded, y)
        mbarrier.wait(loaded, phase)
        tcgen05_mma(x, y.permute([1, 0]), sums, use_acc=step != 0)
        tcgen05_commit(done)
        mbarrier.wait(done, phase)
        phase ^= 1
    mbarrier.invalidate(loaded)
    mbarrier.invalidate(done)
    out = gl.allocate_shared_memory(c.dtype, [M, N], c.layout)
    out.store(sums.load().to(c.dtype))
    fence_async_shared()
    tma.async_store(c, [row, column], out)
    tma.store_wait(0)


@gluon.jit
def load_role(a, b, a_ring, b_ring, full, empty, row, column, steps, STAGES: gl.constexpr):
    K: gl.constexpr = a.block_type.shape[1]
    for step in range(steps):
        slot = step % STAGES
        mbarrier.wait(empty.index(slot), ((step // STAGES) & 1) ^ 1)
        mbarrier.expect(full.index(slot), a.block_type.nbytes + b.block_type.nbytes)
        tma.async_load(a, [row, step * K], full.index(slot), a_ring.index(slot))
        tma.async_load(b, [column, step * K], full.index(slot), b_ring.index(slot))


@gluon.jit
def multiply_role(a_ring, b_ring, sums, full, empty, done, steps, STAGES: gl.constexpr):
    for step in range(steps):
        slot = step % STAGES
        mbarrier.wait(full.index(slot), (step // STAGES) & 1)
        tcgen05_mma(a_ring.index(slot), b_ring.index(slot).permute([1, 0]), sums, use_acc=step != 0)
        tcgen05_commit(empty.index(slot))
    tcgen05_commit(done)


@gluon.jit
def store_role(c, sums, done, row, column):
    mbarrier.wait(done, 0)
    out = gl.allocate_shared_memory(c.dtype, [sums.shape[0], sums.shape[1]], c.layout)
    out.store(sums.load().to(c.dtype))
    fence_async_shared()
    tma.async_store(c, [row, column], out)
    tma.store_wait(0)


@gluon.jit
def matmul_roles(a, b, c, k, STAGES: gl.constexpr):
    """A warp that loads, one that multiplies, and the others read the result from tensor memory."""
    M: gl.constexpr = a.block_type.shape[0]
    K: gl.constexpr = a.block_type.shape[1]
    N: gl.constexpr = b.block_type.shape[0]
    a_ring = gl.allocate_shared_memory(a.dtype, [STAGES, M, K], a.layout)
    b_ring = gl.allocate_shared_memory(b.dtype, [STAGES, N, K], b.layout)
    full = mbarrier.allocate_mbarrier(batch=STAGES)
    empty = mbarrier.allocate_mbarrier(batch=STAGES)
    done = mbarrier.allocate_mbarrier()
    for stage in gl.static_range(STAGES):
        mbarrier.init(full.index(stage), count=1)
        mbarrier.init(empty.index(stage), count=1)
    mbarrier.init(done, count=1)
    fence_async_shared()
    sums = allocate_tensor_memory(gl.float32, [M, N], TensorMemoryLayout([M, N], col_stride=1))
    row = gl.program_id(0) * M
    column = gl.program_id(1) * N
    steps = gl.cdiv(k, K)
    gl.warp_specialize(
        [
            (store_role, (c, sums, done, row, column)),
            (load_role, (a, b, a_ring, b_ring, full, empty, row, column, steps, STAGES)),
            (multiply_role, (a_ring, b_ring, sums, full, empty, done, steps, STAGES)),
        ],
        [1, 1],
        [24, 24],
    )
