"""Kernels of CUTLASS (its headers and examples are in the nvidia-cutlass wheel), through nvcc from PyPI.

Drivers of our own (``benchmarks/kernels/cutlass``) compose products from its templates; the examples are whole programs.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from pathlib import Path

from benchmarks.corpus.producers.nvcc import TOOLKIT, job, obstacle
from benchmarks.corpus.protocol import Job

__all__ = ["PACKAGES", "jobs", "obstacle"]

PACKAGES = ("nvidia-cutlass==4.2.0.0", "nvidia-curand==10.4.5.25", *TOOLKIT)
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

_EXAMPLES = {
    "sm_80": """
        cute/tutorial/sgemm_sm80 13_two_tensor_op_fusion/fused_two_gemms_f16_sm80_shmem
        47_ampere_gemm_universal_streamk/ampere_gemm_universal_streamk""",
    "sm_90a": """
        cute/tutorial/hopper/wgmma_sm90 cute/tutorial/hopper/wgmma_tma_sm90
        48_hopper_warp_specialized_gemm/48_hopper_warp_specialized_gemm
        54_hopper_fp8_warp_specialized_gemm/54_hopper_fp8_warp_specialized_gemm
        55_hopper_mixed_dtype_gemm/55_hopper_mixed_dtype_gemm 57_hopper_grouped_gemm/57_hopper_grouped_gemm
        62_hopper_sparse_gemm/62_hopper_sparse_gemm 88_hopper_fmha/88_hopper_fmha""",
    "sm_100a": """
        cute/tutorial/blackwell/01_mma_sm100 cute/tutorial/blackwell/02_mma_tma_sm100
        cute/tutorial/blackwell/03_mma_tma_multicast_sm100 cute/tutorial/blackwell/04_mma_tma_2sm_sm100
        cute/tutorial/blackwell/05_mma_tma_epi_sm100 70_blackwell_gemm/70_blackwell_fp16_gemm
        72_blackwell_narrow_precision_gemm/72a_blackwell_nvfp4_bf16_gemm 75_blackwell_grouped_gemm/75_blackwell_grouped_gemm
        77_blackwell_fmha/77_blackwell_fmha
        81_blackwell_gemm_blockwise/81_blackwell_gemm_blockwise 83_blackwell_sparse_gemm/83_blackwell_sparse_gemm
        86_blackwell_mixed_dtype_gemm/86_blackwell_mixed_dtype 91_fp4_gemv/91_fp4_gemv""",
    "sm_103a": "89_sm103_fp4_ultra_gemm/89_sm103_fp4_ultra_gemm",
    "sm_120a": "79_blackwell_geforce_gemm/79a_blackwell_geforce_nvfp4_bf16_gemm",
}


def jobs() -> Iterator[Job]:
    """Each driver with each set of macros, then the examples."""
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
    examples = source / "examples"
    for target, names in _EXAMPLES.items():
        for name in names.split():
            path = examples / f"{name}.cu"
            folders = [f"-I{path.parent}", f"-I{examples / 'common'}"]
            yield job(f"example-{path.stem}.{target}", target, path, [*include, *folders])


def _macros(**values: object) -> list[str]:
    return [f"-D{name}={value}" for name, value in values.items()]
