"""Kernels that CUTLASS composes from its templates (the headers in the nvidia-cutlass wheel), through nvcc from PyPI."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from pathlib import Path

from benchmarks.corpus.producers.nvcc import TOOLKIT, job, obstacle
from benchmarks.corpus.protocol import Job

__all__ = ["PACKAGES", "jobs", "obstacle"]

PACKAGES = ("nvidia-cutlass==4.2.0.0", *TOOLKIT)
KERNELS = Path(__file__).resolve().parents[2] / "kernels" / "cutlass"

_F16, _BF16, _E4M3 = "cutlass::half_t", "cutlass::bfloat16_t", "cutlass::float_e4m3_t"
_WS, _COOP, _PING = (
    "KernelTmaWarpSpecialized",
    "KernelTmaWarpSpecializedCooperative",
    "KernelTmaWarpSpecializedPingpong",
)
_ONE, _TWO = "KernelTmaWarpSpecialized1SmSm100", "KernelTmaWarpSpecialized2SmSm100"

_AMPERE = (
    ("f16-128x128x32-s4", _F16, 128, 128, 32, 4),
    ("bf16-128x256x32-s3", _BF16, 128, 256, 32, 3),
    ("f16-64x64x64-s2", _F16, 64, 64, 64, 2),
)
_TMA = (
    ("Sm90", "ws-f16-64x128x64", _F16, 64, 128, 64, 1, _WS, "TmaWarpSpecialized"),
    ("Sm90", "coop-f16-128x128x64-c2", _F16, 128, 128, 64, 2, _COOP, "TmaWarpSpecializedCooperative"),
    ("Sm90", "ping-bf16-64x128x64", _BF16, 64, 128, 64, 1, _PING, "TmaWarpSpecialized"),
    ("Sm90", "coop-e4m3-128x128x128", _E4M3, 128, 128, 128, 1, _COOP, "TmaWarpSpecializedCooperative"),
    ("Sm100", "one-f16-128x128x64", _F16, 128, 128, 64, 1, _ONE, "TmaWarpSpecialized1Sm"),
    ("Sm100", "two-f16-256x128x64-c2", _F16, 256, 128, 64, 2, _TWO, "TmaWarpSpecialized2Sm"),
    ("Sm100", "one-e4m3-128x256x128", _E4M3, 128, 256, 128, 1, _ONE, "TmaWarpSpecialized1Sm"),
)


def jobs() -> Iterator[Job]:
    """Each driver with each set of macros."""
    source = Path(sysconfig.get_paths()["purelib"]) / "cutlass_library" / "source"
    include = [
        f"-I{source / 'include'}",
        f"-I{source / 'tools' / 'util' / 'include'}",
        "--expt-relaxed-constexpr",
    ]
    for name, element, rows, columns, depth, stages in _AMPERE:
        macros = _macros(ELEMENT=element, ROWS=rows, COLUMNS=columns, DEPTH=depth, STAGES=stages)
        for target in ("sm_80", "sm_120a"):
            yield job(f"gemm-{name}.{target}", target, KERNELS / "gemm_sm80.cu", [*include, *macros])
    for arch, name, element, rows, columns, depth, cluster, mainloop, epilogue in _TMA:
        macros = _macros(ARCH=arch, ELEMENT=element, ROWS=rows, COLUMNS=columns, DEPTH=depth, CLUSTER=cluster)
        macros += _macros(MAINLOOP=mainloop, EPILOGUE=epilogue)
        for target in ("sm_90a",) if arch == "Sm90" else ("sm_100a", "sm_103a"):
            yield job(f"gemm-{name}.{target}", target, KERNELS / "gemm_tma.cu", [*include, *macros])


def _macros(**values: object) -> list[str]:
    return [f"-D{name}={value}" for name, value in values.items()]
