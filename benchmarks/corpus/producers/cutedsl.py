"""Kernels of our own in CuTe DSL (``benchmarks/kernels/cutedsl_kernels.py``), which includes NVIDIA's compiler."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.corpus.protocol import Job, Refused

__all__ = ["PACKAGES", "jobs", "obstacle"]

PACKAGES = (
    "nvidia-cutlass-dsl==4.8.1",
    "nvidia-cutlass-dsl-libs-base==4.8.1",
    "nvidia-cutlass-dsl-libs-core==4.8.1",
    "nvidia-cutlass-dsl-libs-cu12==4.8.1",
    "cuda-bindings==13.5.0",
    "cuda-pathfinder==1.9.0",
    "protobuf==7.36.2",
    "typing_extensions==4.16.0",
)
SOURCE = Path(__file__).resolve().parents[2] / "kernels" / "cutedsl_kernels.py"

_ALL = "sm_80 sm_90a sm_100a sm_120a"
_KERNELS = {
    "add": _ALL,
    "reverse": _ALL,
    "row_sums": _ALL,
    "warpgroup_product": "sm_90a",
    "tensor_core_product": "sm_100a sm_103a",
}


def obstacle() -> str:
    """No driver is needed to compile."""
    return ""


def jobs() -> Iterator[Job]:
    """Each kernel for each target that has what it uses."""
    for name, targets in _KERNELS.items():
        for target in targets.split():
            command = f"CUTE_DSL_ARCH={target} cute.compile({name})"
            yield Job(f"{name}.{target}", target, command, (SOURCE,), partial(_compile, name, target))


def _compile(name: str, target: str) -> str:
    # In a process of its own: the settings are read once.
    with tempfile.TemporaryDirectory() as folder:
        settings = {"CUTE_DSL_ARCH": target, "CUTE_DSL_KEEP_PTX": "1", "CUTE_DSL_DUMP_DIR": folder}
        command = [sys.executable, "-m", "benchmarks.kernels.cutedsl_kernels", name]
        run = subprocess.run(
            command, check=False, capture_output=True, text=True, env={**os.environ, **settings}, timeout=600
        )
    if run.returncode:
        raise Refused((run.stderr.strip() or f"exit status {run.returncode}").splitlines()[-1])
    return run.stdout.rstrip("\0\n") + "\n"
