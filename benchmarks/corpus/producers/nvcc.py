"""CUDA C++ of our own (``benchmarks/kernels/cuda``), much of it inline PTX, through NVIDIA's nvcc from PyPI."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks.corpus.protocol import Job, Refused

__all__ = ["PACKAGES", "TOOLKIT", "first_error", "job", "jobs", "obstacle"]

TOOLKIT = (
    "nvidia-cuda-nvcc==13.5.37",
    "nvidia-cuda-crt==13.5.37",
    "nvidia-nvvm==13.5.37",
    "nvidia-cuda-runtime==13.5.37",
    "nvidia-cuda-cccl==13.3.5.0.6",
)
"""A compiler with the headers that it needs; all of them put their files into one folder."""
PACKAGES = TOOLKIT
KERNELS = Path(__file__).resolve().parents[2] / "kernels" / "cuda"
SECONDS = 800

_ALL = "sm_80 sm_90a sm_100a sm_103a sm_120a"
_CLUSTERS = "sm_90 sm_90a sm_100a sm_103a sm_120a"
_SOURCES = {
    "stream": _ALL,
    "mma_gemm": _ALL,
    "bulk_ring": _CLUSTERS,
    "wgmma_gemm": "sm_90a",
    "hopper": "sm_90a",
    "twice": "sm_90a",
    "bulk_warp": "sm_90a",
    "tcgen05_gemm": "sm_100a sm_103a",
    "cluster": _CLUSTERS,
    "grids": _CLUSTERS,
    "plain": _ALL + " sm_75 sm_90",
    "pipeline": _ALL,
}
_VARIANTS = (("", ()), ("-lineinfo", ("-lineinfo",)), ("-debug", ("-G",)))


def obstacle() -> str:
    """Why nvcc cannot work here, or ""."""
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        return "nvcc needs a host compiler: install g++ or clang++"
    if not _nvcc().is_file():
        return f"the nvidia-cuda-nvcc package has no {_nvcc()}"
    return ""


def jobs() -> Iterator[Job]:
    """Each source for each target, optimised, with lines, and for the debugger."""
    for name, targets in _SOURCES.items():
        for target in targets.split():
            for suffix, options in _VARIANTS:
                sources = (KERNELS / f"{name}.cu", KERNELS / "ptx.cuh")
                yield job(f"{name}{suffix}.{target}", target, sources[0], options, sources=sources)


def job(
    name: str,
    target: str,
    source: Path,
    options: Sequence[str] = (),
    *,
    sources: tuple[Path, ...] = (),
) -> Job:
    """The compilation of one file, with its own line as the command in the manifest."""
    shown = " ".join(["nvcc", "--ptx", f"-arch={target}", *_short(options), source.name])
    return Job(name, target, shown, sources or (source,), partial(_compile, source, target, tuple(options)))


def _short(options: Sequence[str]) -> list[str]:
    """Without the places of this machine."""
    site = sysconfig.get_paths()["purelib"]
    return [option.replace(site, "SITE") for option in options]


def _nvcc() -> Path:
    return toolkit() / "bin" / "nvcc"


def toolkit() -> Path:
    """The folder into which the packages of the toolkit went."""
    return Path(sysconfig.get_paths()["purelib"]) / "nvidia" / "cu13"


def _compile(source: Path, target: str, options: tuple[str, ...]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.ptx"
        command = [
            str(_nvcc()),
            "--ptx",
            f"-arch={target}",
            "-std=c++17",
            f"-I{toolkit() / 'include' / 'cccl'}",
        ]
        if shutil.which("g++") is None:
            command.append("-ccbin=clang++")
        command += [*options, str(source), "-o", str(out)]
        try:
            run = subprocess.run(
                command, check=False, capture_output=True, text=True, timeout=SECONDS, cwd=toolkit()
            )
        except subprocess.TimeoutExpired as expired:
            raise Refused(f"nvcc took more than {SECONDS} s") from expired
        if run.returncode:
            raise Refused(first_error(run.stderr + run.stdout) or f"nvcc: exit status {run.returncode}")
        return out.read_text(encoding="utf-8")


def first_error(said: str) -> str:
    """The first line in which a compiler reports an error, or ""."""
    lines = [line for line in said.splitlines() if re.search(r"\b(fatal )?error\b|command not found", line)]
    return lines[0].strip()[:500] if lines else ""
