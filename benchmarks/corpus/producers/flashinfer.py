"""CUDA sources in the wheel of flashinfer-python, with the headers of CUTLASS beside them, through nvcc from PyPI.

The wheel holds hundreds of kernels, each in a file of its own that needs nothing but the toolkit; a few from each
folder are taken, and some larger files of templates. Its attention comes as templates alone: drivers of our own
(``benchmarks/kernels/flashinfer``) instantiate some. flashinfer itself is never imported.
"""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Iterator
from itertools import groupby, islice
from pathlib import Path

from benchmarks.corpus.producers.nvcc import TOOLKIT, job, obstacle
from benchmarks.corpus.protocol import Job

__all__ = ["PACKAGES", "jobs", "obstacle"]

PACKAGES = (
    "flashinfer-python==0.7.2.post1",
    "apache-tvm-ffi==0.1.15.post2",
    "nvidia-curand==10.4.5.25",
    *TOOLKIT,
)
FROM_A_FOLDER = 4
UNSPECIALISED = "is a downstream specialization of this program"
"""In a source that wants macros for which flashinfer computes values at run time; DevKernel.h wants headers that
flashinfer downloads."""

_LARGE = {
    "quantization.cu": "sm_80",
    "vllm_custom_all_reduce.cu": "sm_80",
    "eagle_verify_fp8kv_sm90.cu": "sm_90a",
    "seq_chunk_cumsum.cu": "sm_90a",
    "ulysses_all_to_all.cu": "sm_90a",
    "cake_blackwell_softmax.cu": "sm_100a sm_103a",
    "cake_blackwell_softmax_cached_cluster.cu": "sm_100a",
    "msa_prefill_nvfp4_specialized.cu": "sm_100a",
}
DRIVERS = Path(__file__).resolve().parents[2] / "kernels" / "flashinfer"
_DRIVERS = (
    ("decode", "bf16-d128", "sm_80 sm_90a sm_100a", ("-DELEMENT=nv_bfloat16", "-DHEAD=128")),
    ("decode", "f16-d64", "sm_90a sm_120a", ("-DELEMENT=half", "-DHEAD=64")),
    ("prefill", "bf16-d128-r128", "sm_80 sm_90a", ("-DELEMENT=nv_bfloat16", "-DHEAD=128", "-DROWS=128")),
    ("prefill", "f16-d256-r64", "sm_100a sm_120a", ("-DELEMENT=half", "-DHEAD=256", "-DROWS=64")),
)
_PATH_TARGET = re.compile(r"sm_?(90a|100a|103a|120a)")


def jobs() -> Iterator[Job]:
    """The attention, the large files, then the first few of each folder, by name."""
    site = Path(sysconfig.get_paths()["purelib"])
    data = site / "flashinfer" / "data"
    include = (data / "include", data / "csrc", data / "csrc" / "nv_internal", data / "csrc" / "nv_internal" / "include",
               data / "cutlass" / "include",
               data / "cutlass" / "tools" / "util" / "include", site / "tvm_ffi" / "include")  # fmt: skip
    options = [f"-I{folder}" for folder in include]
    for driver, shape, targets, macros in _DRIVERS:
        for target in targets.split():
            source = DRIVERS / f"{driver}.cu"
            yield job(
                f"{driver}-{shape}.{target}", target, source, ["--expt-relaxed-constexpr", *options, *macros]
            )
    for name, targets in _LARGE.items():
        for target in targets.split():
            source = data / "csrc" / name
            yield job(f"{source.stem}.{target}", target, source, options)
    sources = sorted((data / "csrc").rglob("*_kernel.cu"))
    for _, folder in groupby(sources, lambda path: path.parent):
        texts = ((source, source.read_text(encoding="utf-8", errors="replace")) for source in folder)
        whole = (
            (source, text)
            for source, text in texts
            if UNSPECIALISED not in text and "DevKernel.h" not in text
        )
        for source, text in islice(whole, FROM_A_FOLDER):
            target = _target(str(source.relative_to(data / "csrc")), text)
            yield job(f"{source.stem}.{target}", target, source, options)


def _target(where: str, text: str) -> str:
    """The target that the path names, or one that has what the source uses."""
    if named := _PATH_TARGET.search(where):
        return f"sm_{named[1]}"
    return "sm_90a" if "wgmma" in text else "sm_100a"
