"""Kernels in CuTe DSL: CUTLASS in Python."""

import sys

import cutlass
from cutlass import cute, memory, pipeline
from cutlass.cute.nvgpu import cpasync, tcgen05, warpgroup
from cutlass.cute.runtime import make_ptr
from cutlass.tensor_utils import LayoutEnum
from cutlass.utils import blackwell_helpers as sm100
from cutlass.utils import hopper_helpers as sm90


@cute.kernel
def add(x: cute.Pointer, y: cute.Pointer, n: cutlass.Int32):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    at = block * 128 + thread
    left = cute.make_tensor(x, cute.make_layout(n))
    right = cute.make_tensor(y, cute.make_layout(n))
    if at < n:
        right[at] = left[at] + right[at]


@cute.jit
def add_host(x: cute.Pointer, y: cute.Pointer, n: cutlass.Int32):
    add(x, y, n).launch(grid=(n // 128, 1, 1), block=(128, 1, 1))


@cute.kernel
def reverse(x: cute.Pointer, y: cute.Pointer, n: cutlass.Int32):
    """Each block turns its part around in shared memory."""
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    part = cutlass.utils.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(256), 16)
    given = cute.make_tensor(x, cute.make_layout(n))
    made = cute.make_tensor(y, cute.make_layout(n))
    part[thread] = given[block * 256 + thread]
    cute.arch.sync_threads()
    made[block * 256 + thread] = part[255 - thread]


@cute.jit
def reverse_host(x: cute.Pointer, y: cute.Pointer, n: cutlass.Int32):
    reverse(x, y, n).launch(grid=(n // 256, 1, 1), block=(256, 1, 1))


@cute.kernel
def row_sums(x: cute.Pointer, y: cute.Pointer, n: cutlass.Int32):
    """A warp for each row."""
    lane, _, _ = cute.arch.thread_idx()
    row, _, _ = cute.arch.block_idx()
    given = cute.make_tensor(x, cute.make_layout((1024, n), stride=(n, 1)))
    made = cute.make_tensor(y, cute.make_layout(1024))
    total = cutlass.Float32(0.0)
    for column in cutlass.range(lane, n, 32):
        total = total + given[row, column]
    for step in cutlass.range_constexpr(5):
        total = total + cute.arch.shuffle_sync_bfly(total, offset=16 >> step)
    if lane == 0:
        made[row] = total


@cute.jit
def row_sums_host(x: cute.Pointer, y: cute.Pointer, n: cutlass.Int32):
    row_sums(x, y, n).launch(grid=(1024, 1, 1), block=(32, 1, 1))


ROWS, COLUMNS, DEPTH, STAGES, THREADS = 128, 256, 64, 4, 128
TILE = (ROWS, COLUMNS, DEPTH)
WARPGROUP_TILE = (64, 128, 64)


@cute.struct
class TensorCoreBarriers:
    loads: cute.struct.MemRange[cutlass.Int64, 2 * STAGES]
    results: cute.struct.MemRange[cutlass.Int64, 2]
    columns: cutlass.Int32


@cute.kernel
def tensor_core_product(
    mma: cute.TiledMma,
    load_a: cute.CopyAtom,
    a: cute.Tensor,
    load_b: cute.CopyAtom,
    b: cute.Tensor,
    c: cute.Tensor,
    a_layout: cute.ComposedLayout,
    b_layout: cute.ComposedLayout,
):
    """C = A B with tcgen05: one warp loads through TMA and multiplies, all four read the sums from tensor memory."""
    thread, _, _ = cute.arch.thread_idx()
    row, column, _ = cute.arch.block_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    place = (row, column, None)
    shared = memory.SmemAllocator()
    barriers = shared.allocate(TensorCoreBarriers)
    a_tile = shared.allocate_tensor(cutlass.Float16, a_layout.outer, 128, a_layout.inner)
    b_tile = shared.allocate_tensor(cutlass.Float16, b_layout.outer, 128, b_layout.inner)
    tensor_memory = memory.TmemAllocator(
        barriers.columns.ptr, barrier_for_retrieve=pipeline.NamedBarrier(barrier_id=1, num_threads=THREADS)
    )
    tensor_memory.allocate(COLUMNS)
    if warp == 0:
        cpasync.prefetch_descriptor(load_a)
        cpasync.prefetch_descriptor(load_b)
    size = cute.size_in_bytes(cutlass.Float16, cute.select(a_layout, mode=[0, 1, 2])) + cute.size_in_bytes(
        cutlass.Float16, cute.select(b_layout, mode=[0, 1, 2])
    )
    one = pipeline.CooperativeGroup(pipeline.Agent.Thread)
    everyone = pipeline.CooperativeGroup(pipeline.Agent.Thread, THREADS)
    producer, consumer = pipeline.PipelineTmaUmma.create(
        num_stages=STAGES,
        producer_group=one,
        consumer_group=one,
        tx_count=size,
        barrier_storage=barriers.loads.data_ptr(),
    ).make_participants()
    giver, taker = pipeline.PipelineUmmaAsync.create(
        num_stages=1,
        producer_group=one,
        consumer_group=everyone,
        barrier_storage=barriers.results.data_ptr(),
    ).make_participants()

    part = mma.get_slice(0)
    a_here = part.partition_A(cute.local_tile(a, TILE, place, proj=(1, None, 1)))
    b_here = part.partition_B(cute.local_tile(b, TILE, place, proj=(None, 1, 1)))
    c_here = part.partition_C(cute.local_tile(c, TILE, place, proj=(1, 1, None)))
    a_parts, b_parts = mma.make_fragment_A(a_tile), mma.make_fragment_B(b_tile)
    sums = mma.make_fragment_C(mma.partition_shape_C(TILE[:2]))
    to_a, from_a = cpasync.tma_partition(
        load_a, 0, cute.make_layout(1), cute.group_modes(a_tile, 0, 3), cute.group_modes(a_here, 0, 3)
    )
    to_b, from_b = cpasync.tma_partition(
        load_b, 0, cute.make_layout(1), cute.group_modes(b_tile, 0, 3), cute.group_modes(b_here, 0, 3)
    )
    tensor_memory.wait_for_alloc()
    base = tensor_memory.retrieve_ptr(cutlass.Float32)
    sums = cute.make_tensor(base, sums.layout)

    steps = cute.size(from_a, mode=[1])
    if warp == 0:
        result = giver.acquire_and_advance()
        for _ in cutlass.range(steps, prefetch_stages=STAGES - 2):
            empty = producer.acquire_and_advance()
            cute.copy(
                load_a, from_a[(None, empty.count)], to_a[(None, empty.index)], tma_bar_ptr=empty.barrier
            )
            cute.copy(
                load_b, from_b[(None, empty.count)], to_b[(None, empty.index)], tma_bar_ptr=empty.barrier
            )
            full = consumer.wait_and_advance()
            for block in cutlass.range_constexpr(cute.size(a_parts, mode=[2])):
                at = (None, None, block, full.index)
                cute.gemm(mma, sums, a_parts[at], b_parts[at], sums)
                mma.set(tcgen05.Field.ACCUMULATE, True)
            full.release()
        result.commit()
    tensor_memory.relinquish_alloc_permit()
    done = taker.wait_and_advance()
    atom = cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition.x64), cutlass.Float32)
    pieces = ((cute.size(sums, mode=[0, 0]), cute.size(sums, mode=[0, 1]) // 4),)
    sums_cut = cute.zipped_divide(sums, pieces)
    c_cut = cute.zipped_divide(c_here, pieces)
    copy = tcgen05.make_tmem_copy(atom, sums_cut[None, 0])
    mine = copy.get_slice(thread)
    source, target = mine.partition_S(sums_cut), mine.partition_D(c_cut)
    values = cute.make_rmem_tensor(target[None, None, 0].shape, cutlass.Float32)
    halves = cute.make_rmem_tensor(target[None, None, 0].shape, cutlass.Float16)
    for piece in cutlass.range(cute.size(source, mode=[2])):
        cute.copy(copy, source[None, None, piece], values)
        halves.store(values.load().to(cutlass.Float16))
        cute.autovec_copy(halves, target[None, None, piece])
    done.release()
    pipeline.sync(barrier_id=1)
    tensor_memory.free(base)


@cute.jit
def tensor_core_product_host(
    x: cute.Pointer, y: cute.Pointer, z: cute.Pointer, m: cutlass.Int32, n: cutlass.Int32, k: cutlass.Int32
):
    a = cute.make_tensor(x, cute.make_layout((m, k), stride=(k, 1)))
    b = cute.make_tensor(y, cute.make_layout((n, k), stride=(k, 1)))
    c = cute.make_tensor(z, cute.make_layout((m, n), stride=(n, 1)))
    op = tcgen05.MmaF16BF16Op(
        cutlass.Float16,
        cutlass.Float32,
        (ROWS, COLUMNS, 16),
        tcgen05.CtaGroup.ONE,
        tcgen05.OperandSource.SMEM,
        cute.nvgpu.OperandMajorMode.K,
        cute.nvgpu.OperandMajorMode.K,
    )
    mma = cute.make_tiled_mma(op)
    a_layout = sm100.make_smem_layout_a(mma, TILE, cutlass.Float16, STAGES)
    b_layout = sm100.make_smem_layout_b(mma, TILE, cutlass.Float16, STAGES)
    tma = cpasync.CopyBulkTensorTileG2SOp(tcgen05.CtaGroup.ONE)
    load_a, a_map = cute.nvgpu.make_tiled_tma_atom_A(tma, a, cute.select(a_layout, mode=[0, 1, 2]), TILE, mma)
    load_b, b_map = cute.nvgpu.make_tiled_tma_atom_B(tma, b, cute.select(b_layout, mode=[0, 1, 2]), TILE, mma)
    tensor_core_product(mma, load_a, a_map, load_b, b_map, c, a_layout, b_layout).launch(
        grid=(m // ROWS, n // COLUMNS, 1), block=(THREADS, 1, 1)
    )


@cute.struct
class WarpgroupBarriers:
    loads: cute.struct.MemRange[cutlass.Int64, 2 * STAGES]


@cute.kernel
def warpgroup_product(
    mma: cute.TiledMma,
    load_a: cute.CopyAtom,
    a: cute.Tensor,
    load_b: cute.CopyAtom,
    b: cute.Tensor,
    c: cute.Tensor,
    a_layout: cute.ComposedLayout,
    b_layout: cute.ComposedLayout,
):
    """C = A B with wgmma: the first warp of a second warpgroup loads through TMA, the first warpgroup multiplies."""
    thread, _, _ = cute.arch.thread_idx()
    row, column, _ = cute.arch.block_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    place = (row, column, None)
    shared = memory.SmemAllocator()
    barriers = shared.allocate(WarpgroupBarriers)
    a_tile = shared.allocate_tensor(cutlass.Float16, a_layout.outer, 1024, a_layout.inner)
    b_tile = shared.allocate_tensor(cutlass.Float16, b_layout.outer, 1024, b_layout.inner)
    size = cute.size_in_bytes(cutlass.Float16, cute.slice_(a_layout, (None, None, 0))) + cute.size_in_bytes(
        cutlass.Float16, cute.slice_(b_layout, (None, None, 0))
    )
    producer, consumer = pipeline.PipelineTmaAsync.create(
        num_stages=STAGES,
        producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
        consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, THREADS // 32),
        tx_count=size,
        barrier_storage=barriers.loads.data_ptr(),
        cta_layout_vmnk=cute.make_layout((1, 1, 1, 1)),
    ).make_participants()
    a_here = cute.local_tile(a, WARPGROUP_TILE, place, proj=(1, None, 1))
    b_here = cute.local_tile(b, WARPGROUP_TILE, place, proj=(None, 1, 1))
    c_here = cute.local_tile(c, WARPGROUP_TILE, place, proj=(1, 1, None))
    to_a, from_a = cpasync.tma_partition(
        load_a, 0, cute.make_layout(1), cute.group_modes(a_tile, 0, 2), cute.group_modes(a_here, 0, 2)
    )
    to_b, from_b = cpasync.tma_partition(
        load_b, 0, cute.make_layout(1), cute.group_modes(b_tile, 0, 2), cute.group_modes(b_here, 0, 2)
    )
    steps = cute.size(from_a, mode=[1])
    if warp == THREADS // 32:
        for _ in cutlass.range(steps):
            empty = producer.acquire_and_advance()
            cute.copy(
                load_a, from_a[(None, empty.count)], to_a[(None, empty.index)], tma_bar_ptr=empty.barrier
            )
            cute.copy(
                load_b, from_b[(None, empty.count)], to_b[(None, empty.index)], tma_bar_ptr=empty.barrier
            )
        producer.tail()
    if warp < THREADS // 32:
        part = mma.get_slice(thread)
        a_parts = mma.make_fragment_A(part.partition_A(a_tile))
        b_parts = mma.make_fragment_B(part.partition_B(b_tile))
        target = part.partition_C(c_here)
        sums = cute.make_rmem_tensor(target.shape, cutlass.Float32)
        mma.set(warpgroup.Field.ACCUMULATE, False)
        for _ in cutlass.range(steps):
            full = consumer.wait_and_advance()
            warpgroup.fence()
            for block in cutlass.range_constexpr(cute.size(a_parts, mode=[2])):
                at = (None, None, block, full.index)
                cute.gemm(mma, sums, a_parts[at], b_parts[at], sums)
                mma.set(warpgroup.Field.ACCUMULATE, True)
            warpgroup.commit_group()
            warpgroup.wait_group(0)
            full.release()
        halves = cute.make_rmem_tensor(target.shape, cutlass.Float16)
        halves.store(sums.load().to(cutlass.Float16))
        cute.autovec_copy(halves, target)


@cute.jit
def warpgroup_product_host(
    x: cute.Pointer, y: cute.Pointer, z: cute.Pointer, m: cutlass.Int32, n: cutlass.Int32, k: cutlass.Int32
):
    a = cute.make_tensor(x, cute.make_layout((m, k), stride=(k, 1)))
    b = cute.make_tensor(y, cute.make_layout((n, k), stride=(k, 1)))
    c = cute.make_tensor(z, cute.make_layout((m, n), stride=(n, 1)))
    rows, columns, depth = WARPGROUP_TILE
    k_major, order = cute.nvgpu.OperandMajorMode.K, LayoutEnum.ROW_MAJOR
    mma = sm90.make_trivial_tiled_mma(
        cutlass.Float16, cutlass.Float16, k_major, k_major, cutlass.Float32, (1, 1, 1), (rows, columns)
    )
    a_layout = sm90.make_smem_layout_a(order, WARPGROUP_TILE, cutlass.Float16, STAGES)
    b_layout = sm90.make_smem_layout_b(order, WARPGROUP_TILE, cutlass.Float16, STAGES)
    tma = cpasync.CopyBulkTensorTileG2SOp()
    load_a, a_map = cpasync.make_tiled_tma_atom(tma, a, cute.slice_(a_layout, (None, None, 0)), (rows, depth))
    load_b, b_map = cpasync.make_tiled_tma_atom(
        tma, b, cute.slice_(b_layout, (None, None, 0)), (columns, depth)
    )
    warpgroup_product(mma, load_a, a_map, load_b, b_map, c, a_layout, b_layout).launch(
        grid=(m // rows, n // columns, 1), block=(2 * THREADS, 1, 1)
    )


def ptx(name: str) -> str:
    """The PTX of a kernel, for the target in CUTE_DSL_ARCH."""
    host = globals()[f"{name}_host"]
    if name.endswith("product"):
        pointer = make_ptr(cutlass.Float16, 1024, cute.AddressSpace.gmem, assumed_align=128)
        return str(cute.compile(host, pointer, pointer, pointer, 1024, 1024, 1024).__ptx__)
    pointer = make_ptr(cutlass.Float32, 16, cute.AddressSpace.gmem, assumed_align=16)
    return str(cute.compile(host, pointer, pointer, 4096).__ptx__)


if __name__ == "__main__":
    print(ptx(sys.argv[1]))
