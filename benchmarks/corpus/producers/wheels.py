"""Kernels that packages on PyPI carry as PTX for devices to come: cuobjdump takes the modules out of their libraries.

Each file is a module with one of its kernels: cuDNN's attention (in cuEquivariance), cuSPARSELt, cuML, and Marlin,
hadacore and FlashAttention-2 in vLLM. The first ones are kernels in which tclint once saw errors that there were not, and
those that do have one; the others are drawn.
"""

from __future__ import annotations

import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.corpus.protocol import Job, Refused

__all__ = ["PACKAGES", "jobs", "obstacle"]

PACKAGES = (
    "nvidia-cuda-cuobjdump==13.5.37",
    "cuequivariance-ops-cu12==0.13.0",
    "nvidia-cusparselt-cu13==0.10.0",
    "libcuml-cu13==26.10.0",
    "vllm==0.33.0",
)
SECONDS = 600

_CUE = "cuequivariance_ops/lib/libcue_ops.so"
_SPARSE = "nvidia/cu13/lib/libcusparseLt.so.0"
_CUML = "libcuml/lib64/libcuml.so"
_VLLM = "vllm/_C_stable_libtorch.abi3.so"
_EXPERTS = "vllm/_moe_C_stable_libtorch.abi3.so"
_FLASH = "vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so"
REPORTED = (
    (_CUE, "libcue_ops.31.sm_100f", (1, 7, 12, 31, 36)),
    (_CUE, "libcue_ops.32.sm_120f", (0, 2, 7, 61)),
    (_CUE, "libcue_ops.33.sm_100f", (0,)),
    (_SPARSE, "libcusparseLt.so.27.sm_80", (0, 6)),
    (_SPARSE, "libcusparseLt.so.30.sm_80", (0, 8)),
    (_SPARSE, "libcusparseLt.so.39.sm_80", (0, 6)),
    (_SPARSE, "libcusparseLt.so.54.sm_80", (4, 6)),
    (_CUML, "libcuml.58.sm_120", (162,)),
    (_CUML, "libcuml.63.sm_120", (24, 36)),
    (_VLLM, "_C_stable_libtorch.abi3.12.sm_80", (0,)),
    (_VLLM, "_C_stable_libtorch.abi3.24.sm_80", (0,)),
    (_VLLM, "_C_stable_libtorch.abi3.27.sm_80", (8,)),
    (_EXPERTS, "_moe_C_stable_libtorch.abi3.3.sm_80", (2,)),
    (_FLASH, "_vllm_fa2_C.abi3.25.sm_80", (0, 4)),
    (_FLASH, "_vllm_fa2_C.abi3.26.sm_80", (4,)),
)
"""Library, module as cuobjdump calls it, and kernels by their position in it: tclint reported or reports something about these."""
DRAWN = (
    (_CUE, "libcue_ops.11.sm_100", (10,)),
    (_CUE, "libcue_ops.14.sm_120", (82,)),
    (_CUE, "libcue_ops.17.sm_100", (82,)),
    (_CUE, "libcue_ops.20.sm_120", (2,)),
    (_CUE, "libcue_ops.23.sm_100", (6,)),
    (_CUE, "libcue_ops.26.sm_120", (4,)),
    (_CUE, "libcue_ops.32.sm_120f", (63,)),
    (_SPARSE, "libcusparseLt.so.4.sm_90", (18,)),
    (_SPARSE, "libcusparseLt.so.22.sm_80", (13,)),
    (_SPARSE, "libcusparseLt.so.28.sm_80", (4,)),
    (_SPARSE, "libcusparseLt.so.34.sm_80", (4,)),
    (_SPARSE, "libcusparseLt.so.40.sm_80", (5,)),
    (_SPARSE, "libcusparseLt.so.46.sm_80", (4,)),
    (_SPARSE, "libcusparseLt.so.52.sm_80", (4,)),
    (_CUML, "libcuml.5.sm_120", (10,)),
    (_CUML, "libcuml.14.sm_120", (3,)),
    (_CUML, "libcuml.32.sm_120", (26,)),
    (_CUML, "libcuml.41.sm_120", (1,)),
    (_CUML, "libcuml.50.sm_120", (20,)),
    (_CUML, "libcuml.59.sm_120", (126,)),
    (_CUML, "libcuml.68.sm_120", (18,)),
    (_CUML, "libcuml.77.sm_120", (3,)),
    (_CUML, "libcuml.86.sm_120", (1,)),
    (_VLLM, "_C_stable_libtorch.abi3.5.sm_80", (30,)),
    (_VLLM, "_C_stable_libtorch.abi3.14.sm_80", (30,)),
    (_VLLM, "_C_stable_libtorch.abi3.25.sm_80", (2,)),
    (_EXPERTS, "_moe_C_stable_libtorch.abi3.5.sm_80", (30,)),
    (_EXPERTS, "_moe_C_stable_libtorch.abi3.14.sm_80", (24,)),
)
"""The kernel in the middle of every third module of cuEquivariance, every sixth of cuSPARSELt, every ninth of the others."""


def obstacle() -> str:
    """Why cuobjdump cannot work here, or ""."""
    return "" if _tool().is_file() else f"the nvidia-cuda-cuobjdump package has no {_tool()}"


def jobs() -> Iterator[Job]:
    """Each kernel above."""
    for library, module, kernels in (*REPORTED, *DRAWN):
        name, _, target = module.rpartition(".")
        for index in kernels:
            command = f"cuobjdump -xptx {module}.ptx {library}, kernel {index}"
            name_here = f"{name.lstrip('_').replace('.', '-')}-{index}.{target}"
            yield Job(name_here, target, command, (), partial(_extract, library, module, index))


def _site() -> Path:
    return Path(sysconfig.get_paths()["purelib"])


def _tool() -> Path:
    return _site() / "nvidia" / "cu13" / "bin" / "cuobjdump"


def _extract(library: str, module: str, index: int) -> str:
    with tempfile.TemporaryDirectory() as folder:
        command = [str(_tool()), "-xptx", f"{module}.ptx", str(_site() / library)]
        run = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=SECONDS, cwd=folder
        )
        out = Path(folder) / f"{module}.ptx"
        if run.returncode or not out.is_file():
            raise Refused((run.stderr + run.stdout).strip()[:500] or f"cuobjdump: no {module}")
        return alone(out.read_text(encoding="utf-8"), index)


def alone(text: str, index: int) -> str:
    """A module with one of its kernels, and all that is not a kernel. Raises Refused if it has not so many.

    By lines, since tclint is not where this runs: a kernel ends with the brace that closes its first one.
    """
    kept: list[str] = []
    kernel = -1
    depth = 0
    inside = False
    for line in text.splitlines(keepends=True):
        code = line.partition("//")[0]
        if not depth and not inside and ".entry" in code:
            inside = True
            kernel += 1
        if not inside or kernel == index:
            kept.append(line)
        depth += code.count("{") - code.count("}")
        if inside and not depth and "}" in code:
            inside = False
    if index > kernel:
        raise Refused(f"it has {kernel + 1} kernels")
    return "".join(kept)
