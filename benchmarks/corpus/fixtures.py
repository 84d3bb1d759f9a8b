"""Update the kernels of ``fixtures/kernels`` from the cache: ``python -m benchmarks.corpus.fixtures``.

Each is a file of the corpus that was made of a source of our own, and a link to the source is beside it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from benchmarks.arguments import command_line
from benchmarks.corpus.builder import default_cache

__all__ = ["FOLDER", "KERNELS", "SOURCES", "main"]

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "fixtures" / "kernels"
SOURCES = ROOT / "benchmarks" / "kernels"

KERNELS = {
    "nvcc": (
        "bulk_ring.sm_90", "bulk_ring.sm_100a", "bulk_warp.sm_90a", "cluster.sm_90a", "grids.sm_90", "hopper.sm_90a",
        "mma_gemm.sm_80", "mma_gemm.sm_90a", "mma_gemm.sm_120a", "pipeline.sm_90a", "plain.sm_75",
        "plain-lineinfo.sm_90", "stream.sm_80", "stream.sm_90a", "stream-lineinfo.sm_120a",
        "tcgen05_gemm.sm_100a", "tcgen05_gemm.sm_103a", "twice.sm_90a", "wgmma_gemm.sm_90a",
    ),
    "triton": (
        "attention-descriptors-f16-128x64x64.sm_90", "attention-descriptors-f16-128x64x64.sm_100",
        "descriptors-f16-128x128x64.sm_90", "descriptors-f16-128x128x64.sm_100", "histogram.sm_80", "layernorm.sm_90",
        "layernorm.sm_100", "matmul-bf16-128x128x64-w4s3.sm_90", "matmul-bf16-128x128x64-w4s3.sm_100", "softmax.sm_90",
        "vector-add.sm_120",
    ),
    "gluon": (
        "scaled-copy-1024-s2.sm_80", "tile-copy-f16-64x64-s3.sm_90", "wgmma-f16-64x64x64-s3.sm_90",
    ),
    "numba": ("matmul.sm_80", "row_sums.sm_90"),
}  # fmt: skip
"""By producer; together they should stay small."""

_COMMON = ("cuda/ptx.cuh",)
_FROM = {
    "nvcc": ("cuda/{stem}.cu",),
    "triton": ("triton/attention.py", "triton/matmul.py", "triton/rows.py"),
    "gluon": ("gluon/ampere.py", "gluon/hopper.py"),
    "numba": ("numba_kernels.py",),
}


def files() -> dict[str, Path]:
    """Name in ``fixtures/kernels`` and origin of each source."""
    found = {Path(name).name: SOURCES / name for name in _COMMON}
    for producer, names in KERNELS.items():
        for name in names:
            stem = name.partition(".")[0].partition("-")[0]
            for pattern in _FROM[producer]:
                source = SOURCES / pattern.format(stem=stem)
                found[source.name] = source
    return found


def main(arguments: list[str] | None = None) -> int:
    """Copy the kernels and link their sources; the exit status."""
    parser = command_line("benchmarks.corpus.fixtures", __doc__)
    parser.add_argument("--cache", type=Path, default=default_cache())
    cache = parser.parse_args(arguments).cache
    wanted = {f"{p}-{name}.ptx": cache / p / f"{name}.ptx" for p, names in KERNELS.items() for name in names}
    missing = [str(path) for path in wanted.values() if not path.is_file()]
    if missing:
        print(*missing, "build them first: python -m benchmarks.corpus", sep="\n", file=sys.stderr)
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, built in wanted.items():
        (FOLDER / name).write_bytes(built.read_bytes())
    for name, source in files().items():
        link = FOLDER / name
        link.unlink(missing_ok=True)
        link.symlink_to(os.path.relpath(source, FOLDER))
    print(f"{len(wanted)} kernels in {FOLDER}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
