"""Lint what Triton compiles, for a GPU that need not be there.

python lint_triton.py [COMPUTE CAPABILITY, such as 90]
"""

import sys

import triton
from triton import language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import tclint


@triton.jit
def product(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, columns, depth = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, K)
    left = tl.load(a + rows * K + depth[None, :])
    right = tl.load(b + depth[:, None] * N + columns)
    tl.store(c + rows * N + columns, tl.dot(left, right).to(tl.float16))


def compiled(capability: int) -> str:
    """The PTX. A kernel that has been launched has it as well: ``product[grid](...).asm["ptx"]``."""
    types = {**dict.fromkeys("abc", "*fp16"), **dict.fromkeys("MNK", "constexpr")}
    source = ASTSource(product, types, {"M": 64, "N": 64, "K": 64})
    return triton.compile(source, target=GPUTarget("cuda", capability, 32)).asm["ptx"]


if __name__ == "__main__":
    capability = int(sys.argv[1]) if len(sys.argv) > 1 else 90
    report = tclint.check(compiled(capability), name=f"product.sm_{capability}.ptx")
    print(report, end="")
    sys.exit(report.exit_code)
