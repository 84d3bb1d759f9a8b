"""TMA, mbarriers and wgmma in Gluon."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)


@gluon.jit
def tile_copy(x, y, STAGES: gl.constexpr):
    """Tiles of one row through a ring in shared memory and back."""
    ring = gl.allocate_shared_memory(x.dtype, [STAGES] + x.block_type.shape, x.layout)  # noqa: RUF005  # no unpacking in Gluon
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(STAGES):
        mbarrier.init(full.index(stage), count=1)
    fence_async_shared()
    row = gl.program_id(0) * x.block_type.shape[0]
    width: gl.constexpr = x.block_type.shape[1]
    for stage in gl.static_range(STAGES - 1):
        mbarrier.expect(full.index(stage), x.block_type.nbytes)
        tma.async_load(x, [row, stage * width], full.index(stage), ring.index(stage))
    for step in range(x.shape[1] // width):
        slot = step % STAGES
        mbarrier.wait(full.index(slot), (step // STAGES) & 1)
        tma.async_store(y, [row, step * width], ring.index(slot))
        tma.store_wait(0)
        ahead = step + STAGES - 1
        more = ahead * width < x.shape[1]
        mbarrier.expect(full.index(ahead % STAGES), x.block_type.nbytes, pred=more)
        tma.async_load(
            x, [row, ahead * width], full.index(ahead % STAGES), ring.index(ahead % STAGES), pred=more
        )
    for stage in gl.static_range(STAGES):
        mbarrier.invalidate(full.index(stage))


@gluon.jit
def matmul(a, b, c, k, STAGES: gl.constexpr):
    """One product of tiles in flight; a tile is released after the next product has been started."""
    M: gl.constexpr = a.block_type.shape[0]
    K: gl.constexpr = a.block_type.shape[1]
    N: gl.constexpr = b.block_type.shape[0]
    mma: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [gl.num_warps(), 1], [16, N, 16])
    a_ring = gl.allocate_shared_memory(a.dtype, [STAGES, M, K], a.layout)
    b_ring = gl.allocate_shared_memory(b.dtype, [STAGES, N, K], b.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(STAGES):
        mbarrier.init(full.index(stage), count=1)
    fence_async_shared()
    row = gl.program_id(0) * M
    column = gl.program_id(1) * N
    for stage in gl.static_range(STAGES - 2):
        mbarrier.expect(full.index(stage), a.block_type.nbytes + b.block_type.nbytes)
        tma.async_load(a, [row, stage * K], full.index(stage), a_ring.index(stage))
        tma.async_load(b, [column, stage * K], full.index(stage), b_ring.index(stage))
    sums = gl.zeros([M, N], gl.float32, mma)
    steps = gl.cdiv(k, K)
    for step in range(steps):
        ahead = step + STAGES - 2
        more = ahead < steps
        slot = ahead % STAGES
        mbarrier.expect(full.index(slot), a.block_type.nbytes + b.block_type.nbytes, pred=more)
        tma.async_load(a, [row, ahead * K], full.index(slot), a_ring.index(slot), pred=more)
        tma.async_load(b, [column, ahead * K], full.index(slot), b_ring.index(slot), pred=more)
        mbarrier.wait(full.index(step % STAGES), (step // STAGES) & 1)
        x = a_ring.index(step % STAGES)
        y = b_ring.index(step % STAGES)
        sums = warpgroup_mma(x, y.permute([1, 0]), sums, is_async=True)
        sums, x, y = warpgroup_mma_wait(1, deps=[sums, x, y])
    sums = warpgroup_mma_wait(0, deps=[sums])
    for stage in gl.static_range(STAGES):
        mbarrier.invalidate(full.index(stage))
    out = gl.allocate_shared_memory(c.dtype, [M, N], c.layout)
    out.store(sums.to(c.dtype))
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
def multiply_role(c, a_ring, b_ring, full, empty, row, column, steps, STAGES: gl.constexpr):
    M: gl.constexpr = a_ring.shape[1]
    N: gl.constexpr = b_ring.shape[1]
    mma: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [gl.num_warps(), 1], [16, N, 16])
    sums = gl.zeros([M, N], gl.float32, mma)
    for step in range(steps):
        slot = step % STAGES
        mbarrier.wait(full.index(slot), (step // STAGES) & 1)
        x = a_ring.index(slot)
        y = b_ring.index(slot)
        sums = warpgroup_mma(x, y.permute([1, 0]), sums, is_async=True)
        sums, x, y = warpgroup_mma_wait(0, deps=[sums, x, y])
        mbarrier.arrive(empty.index(slot), count=1)
    out = gl.allocate_shared_memory(c.dtype, [M, N], c.layout)
    out.store(sums.to(c.dtype))
    fence_async_shared()
    tma.async_store(c, [row, column], out)
    tma.store_wait(0)


@gluon.jit
def matmul_roles(a, b, c, k, STAGES: gl.constexpr):
    """A warp that loads and warps that multiply, with a ring of full and empty barriers between them."""
    M: gl.constexpr = a.block_type.shape[0]
    K: gl.constexpr = a.block_type.shape[1]
    N: gl.constexpr = b.block_type.shape[0]
    a_ring = gl.allocate_shared_memory(a.dtype, [STAGES, M, K], a.layout)
    b_ring = gl.allocate_shared_memory(b.dtype, [STAGES, N, K], b.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(STAGES):
        mbarrier.init(full.index(stage), count=1)
        mbarrier.init(empty.index(stage), count=1)
    fence_async_shared()
    row = gl.program_id(0) * M
    column = gl.program_id(1) * N
    steps = gl.cdiv(k, K)
    gl.warp_specialize(
        [
            (multiply_role, (c, a_ring, b_ring, full, empty, row, column, steps, STAGES)),
            (load_role, (a, b, a_ring, b_ring, full, empty, row, column, steps, STAGES)),
        ],
        [1],
        [24],
    )
