"""Gluon kernels of our own (``benchmarks/kernels/gluon``): Triton's language in which barriers and copies are written
out by hand, so that what reaches PTX is what an author wrote and not what a scheduler placed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.corpus.producers.triton import ELEMENTS, PACKAGES, POINTERS, Spec, jobs_of, obstacle
from benchmarks.corpus.protocol import Job

__all__ = ["PACKAGES", "jobs", "obstacle"]


def jobs() -> Iterator[Job]:
    """Every kernel in every shape for every target."""
    return jobs_of("gluon", _specs())


def _tile(kind: str, rows: int, columns: int) -> str:
    """The type of a descriptor with the widest swizzle that a row allows."""
    bits = {"f32": 32, "e4m3": 8, "e5m2": 8}.get(kind, 16)
    swizzle = min(128, columns * bits // 8)
    layout = (
        f"NVMMASharedLayout(swizzle_byte_width={swizzle}, element_bitwidth={bits}, rank=2, transposed=False, "
    )
    return f"tensordesc<{ELEMENTS[kind]}[{rows}, {columns}],{layout}fp4_padded=False, cga_layout=[])>"


def _specs() -> Iterator[Spec]:
    f32 = {"x": "*fp32", "y": "*fp32", "n": "i32", "factor": "fp32"}
    for size, stages in ((1024, 2), (512, 3), (2048, 4)):
        constants: dict[str, Any] = {"B": size, "STAGES": stages}
        where = "ampere.scaled_copy"
        yield (
            f"scaled-copy-{size}-s{stages}",
            where,
            f32,
            constants,
            {"num_warps": 4},
            (80, 90, 100, 103, 120),
        )
    f16 = {"a": "*fp16", "b": "*fp16", "c": "*fp16", "k": "i32", "n": "i32"}
    for m, n, k, stages in ((128, 128, 32, 3), (64, 64, 64, 3), (128, 64, 32, 4)):
        constants = {"M": m, "N": n, "K": k, "STAGES": stages}
        name = f"mma-{m}x{n}x{k}-s{stages}"
        yield name, "ampere.matmul", f16, constants, {"num_warps": 4}, (80, 120)
    for kind, m, n, stages in (("f16", 64, 64, 3), ("f32", 128, 32, 2), ("bf16", 128, 64, 4)):
        tiles = {"x": _tile(kind, m, n), "y": _tile(kind, m, n)}
        name = f"tile-copy-{kind}-{m}x{n}-s{stages}"
        yield name, "hopper.tile_copy", tiles, {"STAGES": stages}, {"num_warps": 4}, (90, 100, 103, 120)
    shapes = (("f16", 128, 128, 64, 4, 4), ("bf16", 128, 256, 64, 4, 8), ("f16", 64, 64, 64, 3, 4),
              ("e4m3", 128, 128, 128, 4, 4))  # fmt: skip
    for kind, m, n, k, stages, warps in shapes:
        out = "f16" if kind == "e4m3" else kind
        tiles = {"a": _tile(kind, m, k), "b": _tile(kind, n, k), "c": _tile(out, m, n), "k": "i32"}
        shape = f"{kind}-{m}x{n}x{k}-s{stages}"
        options = {"num_warps": warps}
        constants = {"STAGES": stages}
        if kind != "e4m3":  # a wgmma of 8 bits needs another shape of instruction
            yield f"wgmma-{shape}", "hopper.matmul", tiles, constants, options, (90,)
            yield f"wgmma-roles-{shape}", "hopper.matmul_roles", tiles, constants, options, (90,)
        yield f"tcgen05-{shape}", "blackwell.matmul", tiles, {}, {"num_warps": 4}, (100, 103)
        yield (
            f"tcgen05-roles-{shape}",
            "blackwell.matmul_roles",
            tiles,
            constants,
            {"num_warps": 4},
            (100, 103),
        )
    pointers = {"x": POINTERS["f32"], "y": POINTERS["f32"]}
    for n in (32, 128):
        yield (
            f"round-trip-{n}",
            "blackwell.round_trip",
            pointers,
            {"M": 128, "N": n},
            {"num_warps": 4},
            (100, 103),
        )
