"""The kernels in the wheel of pyptx, a Python language for writing PTX by hand: nothing is compiled, only written out."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any
from unittest.mock import MagicMock

from benchmarks.corpus.protocol import Job, Refused

__all__ = ["PACKAGES", "jobs", "obstacle"]

PACKAGES = ("pyptx==0.1.1", "numpy==2.4.6")

SHAPES = (
    ("ampere.gemm", "build_gemm", (256, 256, 256)),
    ("ampere.gemm_pipelined", "build_gemm_pipelined", (256, 256, 256)),
    ("ampere.gemm_highperf_ampere", "build_gemm_highperf", (256, 256, 256)),
    ("ampere.rms_norm", "build_rms_norm", (64, 4096)),
    ("ampere.layer_norm", "build_layer_norm", (64, 4096)),
    ("ampere.softmax", "build_softmax", (64, 1024)),
    ("ampere.swiglu", "build_fused_silu_mul", (64, 4096)),
    ("hopper.rms_norm", "build_rms_norm", (64, 4096)),
    ("hopper.layer_norm", "build_layer_norm", (64, 4096)),
    ("hopper.softmax", "build_softmax", (64, 1024)),
    ("hopper.swiglu", "build_fused_silu_mul", (64, 4096)),
    ("hopper.grouped_gemm", "build_grouped_gemm", (4, 256, 256, 256)),
    ("hopper.experimental.flash_attention_hopper", "build_flash_attention_hopper", (128, 128)),
    ("hopper.experimental.flash_attention_parallel", "build_flash_attention_parallel", (128, 128)),
    ("hopper.experimental.flash_attention_wgmma_kloop", "build_flash_attention_kloop", (128,)),
    ("blackwell.rms_norm", "build_rms_norm", (64, 4096)),
    ("blackwell.layer_norm", "build_layer_norm", (64, 4096)),
    ("blackwell.swiglu", "build_fused_silu_mul", (64, 4096)),
    ("blackwell.grouped_gemm", "build_grouped_gemm", (4, 256, 256, 256)),
    ("blackwell.gemm_highperf_blackwell", "build_gemm", (1024, 1024, 1024)),
    ("blackwell.gemm_highperf_blackwell", "build_gemm_persistent", (1024, 1024, 1024)),
    ("blackwell.gemm_highperf_blackwell", "build_gemm_2sm", (1024, 1024, 1024)),
)
"""Module, function that builds the kernel, sizes."""
ARCHITECTURE = {"ampere": "sm_80", "hopper": "sm_90a", "blackwell": "sm_100a"}


def obstacle() -> str:
    """It is Python all through."""
    return ""


def jobs() -> Iterator[Job]:
    """Each example once, in the sizes above."""
    for module, function, sizes in SHAPES:
        target = ARCHITECTURE[module.partition(".")[0]]
        command = f"pyptx.examples.{module}.{function}{sizes}.ptx()"
        name = "-".join([*module.split("."), function.removeprefix("build_")])
        yield Job(f"{name}.{target}", target, command, (), partial(_write, module, function, sizes))


def _write(module: str, function: str, sizes: tuple[int, ...]) -> str:
    for framework in (
        "jax",
        "jax.numpy",
        "torch",
    ):  # the examples import them to run and compare, which we do not
        sys.modules.setdefault(framework, MagicMock(__spec__=None))
    built: Any = getattr(importlib.import_module(f"pyptx.examples.{module}"), function)(*sizes)
    candidates = built if isinstance(built, tuple) else (built,)
    for candidate in candidates:
        if hasattr(candidate, "ptx"):
            return str(candidate.ptx())
    raise Refused(f"{inspect.getmodule(built)} gave no kernel")
