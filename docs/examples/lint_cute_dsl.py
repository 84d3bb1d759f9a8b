"""Lint what CuTe DSL compiles. It keeps its PTX in files if the environment says so before it is imported.

python lint_cute_dsl.py [TARGET, such as sm_90a]
"""

import os
import sys
from tempfile import TemporaryDirectory

import tclint

folder = TemporaryDirectory()
os.environ["CUTE_DSL_KEEP_PTX"] = "1"
os.environ["CUTE_DSL_DUMP_DIR"] = folder.name  # without it, the working folder
os.environ["CUTE_DSL_ARCH"] = sys.argv[1] if len(sys.argv) > 1 else "sm_90a"  # without it, that of the GPU

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
def launch(x: cute.Pointer, y: cute.Pointer, n: cutlass.Int32):
    add(x, y, n).launch(grid=(n // 128, 1, 1), block=(128, 1, 1))


if __name__ == "__main__":
    pointer = make_ptr(cutlass.Float32, 16, cute.AddressSpace.gmem, assumed_align=16)
    cute.compile(launch, pointer, pointer, 4096)
    report = tclint.check(folder.name)
    print(report, end="")
    sys.exit(report.exit_code)
