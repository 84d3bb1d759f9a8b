"""Kernels in TileLang, which places barriers and roles by itself. ``python -m`` prints the CUDA C++ of one."""

import sys
from unittest.mock import MagicMock


def without_torch() -> None:
    """PyTorch is imported only to run what was compiled: this replaces its two gigabytes."""
    torch = MagicMock(__spec__=None, __version__="2.9.0")
    for name in ("Tensor", "dtype", "device", "Generator", "Stream"):
        setattr(torch, name, type(name, (), {}))
    torch.nn.Module = type("Module", (), {})
    torch.cuda.is_available = lambda: False
    torch.version.hip = None
    sys.modules["torch"] = torch
    for name in ("utils", "utils.cpp_extension", "nn", "cuda", "version", "distributed", "library"):
        sys.modules[f"torch.{name}"] = MagicMock(__spec__=None)


without_torch()

import tilelang.language as T
from tilelang.engine.lower import lower
from tvm.target import Target


def matmul(m, n, k, rows, columns, depth, stages, kind):
    @T.prim_func
    def main(a: T.Tensor((m, k), kind), b: T.Tensor((k, n), kind), c: T.Tensor((m, n), "float32")):
        with T.Kernel(n // columns, m // rows, threads=128) as (bx, by):
            left = T.alloc_shared((rows, depth), kind)
            right = T.alloc_shared((depth, columns), kind)
            sums = T.alloc_fragment((rows, columns), "float32")
            T.clear(sums)
            for step in T.Pipelined(k // depth, num_stages=stages):
                T.copy(a[by * rows, step * depth], left)
                T.copy(b[step * depth, bx * columns], right)
                T.gemm(left, right, sums)
            T.copy(sums, c[by * rows, bx * columns])

    return main


def row_sums(m, n, rows):
    @T.prim_func
    def main(x: T.Tensor((m, n), "float32"), y: T.Tensor((m,), "float32")):
        with T.Kernel(m // rows, threads=128) as block:
            part = T.alloc_fragment((rows, n), "float32")
            sums = T.alloc_fragment((rows,), "float32")
            T.copy(x[block * rows, 0], part)
            T.reduce_sum(part, sums, dim=1)
            T.copy(sums, y[block * rows])

    return main


KERNELS = {
    "matmul-f16-128x128x32-s3": lambda: matmul(1024, 1024, 1024, 128, 128, 32, 3, "float16"),
    "matmul-bf16-64x64x64-s2": lambda: matmul(1024, 1024, 1024, 64, 64, 64, 2, "bfloat16"),
    "matmul-f16-128x128x64-s4": lambda: matmul(1024, 1024, 1024, 128, 128, 64, 4, "float16"),
    "row-sums": lambda: row_sums(1024, 512, 16),
}


if __name__ == "__main__":
    target = Target({"kind": "cuda", "arch": sys.argv[2]})
    with target:
        print(lower(KERNELS[sys.argv[1]](), target=target).kernel_source)
