"""Kernels of our own in TileLang (``benchmarks/kernels/tilelang_kernels.py``): it writes CUDA C++, and nvcc PTX."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.corpus.producers.nvcc import TOOLKIT, job, obstacle
from benchmarks.corpus.protocol import Job, Refused

__all__ = ["PACKAGES", "jobs", "obstacle"]

PACKAGES = (
    "tilelang==0.1.15",
    "apache-tvm-ffi==0.1.12",
    "cloudpickle==3.1.2",
    "ml_dtypes==0.6.0",
    "numpy==2.4.6",
    "psutil==7.2.2",
    "tqdm==4.70.1",
    "typing_extensions==4.16.0",
    "z3-solver==4.15.4.0",
    *TOOLKIT,
)
SOURCE = Path(__file__).resolve().parents[2] / "kernels" / "tilelang_kernels.py"
KERNELS = ("matmul-f16-128x128x32-s3", "matmul-bf16-64x64x64-s2", "matmul-f16-128x128x64-s4", "row-sums")


def jobs() -> Iterator[Job]:
    """Each kernel for each target; for sm_100 TileLang wants products written in another way."""
    for name in KERNELS:
        for target in ("sm_80", "sm_90a", "sm_120a"):
            command = f"tilelang.lower({name}), then nvcc --ptx -arch={target}"
            yield Job(f"{name}.{target}", target, command, (SOURCE,), partial(_compile, name, target))


def _compile(name: str, target: str) -> str:
    site = Path(sysconfig.get_paths()["purelib"]) / "tilelang"
    command = [sys.executable, "-m", "benchmarks.kernels.tilelang_kernels", name, target]
    # Otherwise it would compile an extension of the PyTorch that is not there.
    settings = {**os.environ, "TVM_FFI_DISABLE_TORCH_C_DLPACK": "1"}
    run = subprocess.run(command, check=False, capture_output=True, text=True, env=settings, timeout=600)
    if run.returncode:
        raise Refused((run.stderr.strip() or f"exit status {run.returncode}").splitlines()[-1])
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.cu"
        source.write_text(run.stdout, encoding="utf-8")
        include = [f"-I{site / 'src'}", f"-I{site / '3rdparty' / 'cutlass' / 'include'}"]
        return job(name, target, source, [*include, "--expt-relaxed-constexpr"]).make()
