"""Python kernels of our own (``benchmarks/kernels/numba_kernels.py``) through numba-cuda and NVIDIA's libNVVM."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.corpus.protocol import Job

__all__ = ["PACKAGES", "jobs", "obstacle"]

PACKAGES = (
    "numba-cuda==0.30.4",
    "numba==0.68.1",
    "llvmlite==0.50.0",
    "numpy==2.4.6",
    "packaging==26.3",
    "cuda-core==1.2.2",
    "cuda-bindings==13.5.0",
    "cuda-pathfinder==1.9.0",
    "nvidia-cuda-runtime==13.5.37",
    "nvidia-cuda-nvrtc==13.5.37",
    "nvidia-nvvm==13.5.37",
    "nvidia-nvjitlink==13.5.37",
)
SOURCE = Path(__file__).resolve().parents[2] / "kernels" / "numba_kernels.py"
TARGETS = ((7, 5), (8, 0), (9, 0), (10, 0), (12, 0))
KERNELS = {
    "saxpy": "void(float32, float32[:], float32[:])",
    "matmul": "void(float32[:, :], float32[:, :], float32[:, :])",
    "row_sums": "void(float32[:, :], float32[:])",
    "histogram": "void(uint8[:], int32[:])",
    "votes": "void(int32[:], int32, int32[:])",
    "transpose": "void(float32[:, :], float32[:, :])",
    "bodies": "void(float64[:, :], float64[:], float64[:, :])",
    "black_scholes": "void(float64[:], float64[:], float64[:], float64[:], float64, float64)",
}


def obstacle() -> str:
    """Its libraries are found in the environment; no driver is needed to compile."""
    return ""


def jobs() -> Iterator[Job]:
    """Each kernel for each target, optimised and with lines."""
    for name, signature in KERNELS.items():
        for major, minor in TARGETS:
            for lines in (False, True):
                target = f"sm_{major}{minor}"
                command = f"cuda.compile_ptx({name}, {signature!r}, cc={major, minor}, lineinfo={lines})"
                make = partial(_compile, name, signature, (major, minor), lines)
                yield Job(f"{name}{'-lineinfo' * lines}.{target}", target, command, (SOURCE,), make)


def _compile(name: str, signature: str, capability: tuple[int, int], lines: bool) -> str:
    from numba import cuda, types

    kernel = getattr(importlib.import_module("benchmarks.kernels.numba_kernels"), name)
    parsed = eval(signature, vars(types))
    return str(cuda.compile_ptx(kernel, parsed, cc=capability, lineinfo=lines)[0])
