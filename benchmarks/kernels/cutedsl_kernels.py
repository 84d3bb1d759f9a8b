"""Kernels in CuTe DSL: CUTLASS in Python."""

import sys

import cutlass
from cutlass import cute
from cutlass.cute.runtime import make_ptr


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


def ptx(name: str) -> str:
    """The PTX of a kernel, for the target in CUTE_DSL_ARCH."""
    pointer = make_ptr(cutlass.Float32, 16, cute.AddressSpace.gmem, assumed_align=16)
    return str(cute.compile(globals()[f"{name}_host"], pointer, pointer, 4096).__ptx__)


if __name__ == "__main__":
    print(ptx(sys.argv[1]))
