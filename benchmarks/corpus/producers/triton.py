"""Triton kernels of our own (``benchmarks/kernels/triton``), each in several shapes for several targets.

Triton includes its own LLVM and compiles for a target that it is given, so neither CUDA nor a GPU is needed.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.corpus.protocol import Job

__all__ = ["PACKAGES", "Spec", "jobs", "jobs_of", "obstacle"]

PACKAGES = ("triton==3.9.0",)
KERNELS = Path(__file__).resolve().parents[2] / "kernels"

Spec = tuple[str, str, dict[str, str], dict[str, Any], dict[str, Any], tuple[int, ...]]
"""Name, function, types of the arguments, constants, options of the compiler, targets."""

ALL = (80, 90, 100, 103, 120)
TMA = (90, 100, 103, 120)
BLACKWELL = (100, 103)
SCALED = (100, 103, 120)
POINTERS = {
    "f16": "*fp16",
    "bf16": "*bf16",
    "f32": "*fp32",
    "e4m3": "*fp8e4nv",
    "e5m2": "*fp8e5",
    "i8": "*i8",
}
ELEMENTS = {"f16": "fp16", "bf16": "bf16", "f32": "fp32", "e4m3": "fp8e4nv", "e5m2": "fp8e5"}


def obstacle() -> str:
    """Triton's wheels are for Linux; where pip has installed one, it works."""
    return ""


def jobs() -> Iterator[Job]:
    """Every kernel in every shape for every target."""
    return jobs_of("triton", _specs())


def jobs_of(folder: str, specs: Iterable[Spec]) -> Iterator[Job]:
    """The kernels of ``benchmarks/kernels/<folder>`` as *specs* have them, one job for each target."""
    # The compiler would otherwise keep its results below the user's home.
    os.environ["TRITON_CACHE_DIR"] = os.path.join(
        os.environ["TCLINT_CORPUS"], "environments", folder, "cache"
    )
    for name, where, types, constants, options, targets in specs:
        module, _, function = where.partition(".")
        source = KERNELS / folder / f"{module}.py"
        for target in targets:
            make = partial(compiled, folder, where, types, constants, options, target)
            settings = " ".join(f"{k}={v}" for k, v in {**types, **constants, **options}.items())
            command = f"triton.compile({source.name}:{function}, cuda:{target}, {settings})"
            yield Job(f"{name}.sm_{target}", f"sm_{target}", command, (source,), make)


def compiled(
    folder: str,
    where: str,
    types: dict[str, str],
    constants: dict[str, Any],
    options: dict[str, Any],
    target: int,
) -> str:
    """The PTX of one kernel for one target."""
    os.environ["TRITON_DEFAULT_FP_FUSION"] = "1"  # as it is by default, without the warning
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    module, _, function = where.partition(".")
    functions = vars(importlib.import_module(f"benchmarks.kernels.{folder}.{module}"))
    kernel = functions[function]
    for jitted in functions.values():
        if isinstance(
            jitted, triton.JITFunction
        ):  # its file goes into the debug information: the same everywhere
            jitted.file_name = f"benchmarks/kernels/{folder}/{module}.py"
    if folder == "gluon":
        from triton.experimental.gluon._runtime import GluonASTSource as ASTSource
    signature = {name: types.get(name, "constexpr") for name in kernel.arg_names}
    # Addresses and sizes are multiples of 16, as PyTorch makes them; without this Triton emits no wide accesses.
    attributes = {
        (i,): [["tt.divisibility", 16]]
        for i, name in enumerate(kernel.arg_names)
        if signature[name].startswith("*") or signature[name] in ("i32", "i64")
    }
    source = ASTSource(kernel, signature, constants, attributes)
    return str(triton.compile(source, target=GPUTarget("cuda", target, 32), options=options).asm["ptx"])


def _specs() -> Iterator[Spec]:
    yield from _products()
    yield from _descriptor_products()
    yield from _scaled_products()
    yield from _attention()
    yield from _rows()


def _options(warps: int, stages: int) -> dict[str, Any]:
    return {"num_warps": warps, "num_stages": stages}


def _ints(names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), "i32")


def _tile(kind: str, *shape: int) -> str:
    return f"tensordesc<{ELEMENTS.get(kind, kind)}[{', '.join(map(str, shape))}]>"


def _products() -> Iterator[Spec]:
    sizes = _ints("m n k a_row b_row c_row")
    shapes: Iterable[tuple[str, str, int, int, int, int, int, str, str, tuple[int, ...]]] = (
        ("f16", "f16", 128, 128, 64, 8, 3, "", "tf32", ALL),
        ("f16", "f16", 64, 64, 32, 4, 4, "relu", "tf32", ALL),
        ("bf16", "bf16", 128, 256, 64, 8, 3, "", "tf32", TMA),
        ("bf16", "bf16", 128, 128, 64, 4, 3, "", "tf32", (90, 100)),
        ("bf16", "f32", 64, 128, 64, 4, 2, "silu", "tf32", ALL),
        ("f16", "f16", 16, 32, 64, 4, 3, "", "tf32", ALL),
        ("f16", "f16", 128, 128, 64, 4, 1, "", "tf32", ALL),
        ("f32", "f32", 64, 64, 32, 4, 3, "", "tf32", ALL),
        ("f32", "f32", 64, 64, 32, 4, 3, "", "tf32x3", ALL),
        ("f32", "f32", 32, 32, 32, 4, 3, "", "ieee", (80, 90, 100, 120)),
        ("e4m3", "f16", 128, 128, 128, 8, 3, "", "tf32", TMA),
        ("e5m2", "f16", 64, 128, 128, 4, 4, "", "tf32", TMA),
        ("i8", "*i32", 128, 128, 64, 4, 3, "", "tf32", (80, 90, 120)),
    )
    for kind, out, m, n, k, warps, stages, act, precision, targets in shapes:
        types = {"a": POINTERS[kind], "b": POINTERS[kind], "c": POINTERS.get(out, out), **sizes}
        for transposed in (False, True):
            if transposed and (act or stages == 1 or m == 16):
                continue
            constants: dict[str, Any] = {"M": m, "N": n, "K": k, "GROUP": 8, "TRANSPOSED": transposed}
            constants.update(ACTIVATION=act, PRECISION=precision)
            name = "-".join(["matmul", kind, f"{m}x{n}x{k}", f"w{warps}s{stages}"])
            name += f"-{precision}" * (kind == "f32") + f"-{act}" * bool(act) + "-t" * transposed
            yield name, "matmul.matmul", types, constants, _options(warps, stages), targets
    f16 = {"a": "*fp16", "b": "*fp16", "c": "*fp16"}
    constants = {"M": 128, "N": 128, "K": 32, "SPLITS": 4}
    yield "splitk", "matmul.matmul_splitk", {**f16, "c": "*fp32", **sizes}, constants, _options(4, 4), ALL
    constants = {"M": 128, "N": 128, "K": 64, "GROUP": 8}
    where = "matmul.matmul_persistent_pointers"
    yield "persistent-pointers", where, {**f16, **sizes}, constants, _options(8, 3), ALL
    types = {"pointers": "*i64", "sizes": "*i32", "rows_of": "*i32", "groups": "i32"}
    yield "grouped", "matmul.grouped", types, {"M": 128, "N": 128, "K": 32}, _options(4, 3), ALL
    types = {"a": "*fp16", "b": "*u8", "scales": "*fp16", "c": "*fp16", **_ints("m n k")}
    yield "int4", "matmul.matmul_int4", types, {"M": 64, "N": 128, "K": 64}, _options(4, 3), ALL
    types = {"x": "*bf16", "w1": "*bf16", "w2": "*bf16", "y": "*bf16", **_ints("m k")}
    yield "two-layers", "matmul.two_layers", types, {"H": 128, "D": 64, "M": 64, "K": 32}, _options(4, 2), ALL


def _descriptor_products() -> Iterator[Spec]:
    for kind, m, n, k, warps, stages in (
        ("f16", 128, 128, 64, 4, 3),
        ("bf16", 128, 256, 64, 8, 3),
        ("e4m3", 128, 128, 128, 8, 3),
        ("f16", 64, 64, 64, 4, 4),
    ):
        out = "f16" if kind == "e4m3" else kind
        shape = f"{kind}-{m}x{n}x{k}"
        tiles = {"a": _tile(kind, m, k), "b": _tile(kind, n, k), "c": _tile(out, m, n)}
        constants: dict[str, Any] = {"M": m, "N": n, "K": k}
        options = _options(warps, stages)
        targets = tuple(t for t in TMA if t != 120 or m * k * stages < 30000)
        yield (
            f"descriptors-{shape}",
            "matmul.matmul_descriptors",
            {**tiles, "k": "i32"},
            constants,
            options,
            targets,
        )
        pointers = {"a": POINTERS[kind], "b": POINTERS[kind], "c": POINTERS[out], **_ints("m n k")}
        where = "matmul.matmul_device_descriptors"
        yield f"device-descriptors-{shape}", where, pointers, constants, options, targets
        for special, flat, halves in ((False, False, False), (True, False, False), (False, True, False),
                                      (True, True, True)):  # fmt: skip
            held = {**tiles, "c": _tile(out, m, n // 2 if halves else n)}
            name = f"persistent-{shape}" + "-ws" * special + "-flat" * flat + "-halves" * halves
            more = {**constants, "GROUP": 8, "SPECIALISED": special, "FLAT": flat, "HALVES": halves}
            # Triton 3.9 does not specialise these four warps for Hopper.
            allowed = tuple(
                t for t in targets if t != 90 or not (special and warps == 4 and m == 128 and not flat)
            )
            yield name, "matmul.matmul_persistent", {**held, **_ints("m n k")}, more, options, allowed
    types = {"pointers": "*i64", "sizes": "*i32", "groups": "i32"}
    constants = {"M": 128, "N": 128, "K": 64}
    yield (
        "grouped-descriptors",
        "matmul.grouped_descriptors",
        types,
        constants,
        _options(8, 3),
        (90, 100, 103),
    )


def _scaled_products() -> Iterator[Spec]:
    for a, b, vector, k in (
        ("e4m3", "e4m3", 32, 128), ("e5m2", "e4m3", 32, 128), ("e4m3", "e2m1", 32, 128), ("e2m1", "e2m1", 32, 128),
        ("e2m1", "e2m1", 16, 128),
    ):  # fmt: skip
        held = {"e2m1": "*u8"}
        packs = {"A_PACK": 2 if a == "e2m1" else 1, "B_PACK": 2 if b == "e2m1" else 1}
        scale = "*fp8e4nv" if vector == 16 else "*u8"
        types = {"a": held.get(a, POINTERS.get(a, "")), "b": held.get(b, POINTERS.get(b, "")), "c": "*fp16"}
        types.update(a_scales=scale, b_scales=scale, **_ints("m n k c_row"))
        constants: dict[str, Any] = {"M": 128, "N": 128, "K": k, "VECTOR": vector, **packs}
        constants.update(A_KIND=a, B_KIND=b)
        # fp8 needs sm_89
        targets: tuple[int, ...] = SCALED if vector == 16 else TMA if "e4m3" in (a, b) else ALL
        name = f"block-scaled-{a}-{b}-v{vector}"
        yield name, "matmul.block_scaled", types, constants, _options(4, 2), targets
        for n, depth in ((128, 128), (256, 256)):
            element = {"e4m3": "fp8e4nv", "e5m2": "fp8e5", "e2m1": "u8"}
            chunk = f"{'fp8e4nv' if vector == 16 else 'u8'}"
            tiles = {
                "a": _tile(element[a], 128, depth // packs["A_PACK"]),
                "b": _tile(element[b], n, depth // packs["B_PACK"]),
                "c": _tile("fp16", 128, n),
                "a_scales": _tile(chunk, 1, 1, depth // vector // 4, 2, 256),
                "b_scales": _tile(chunk, 1, n // 128, depth // vector // 4, 2, 256),
                "k": "i32",
            }
            more = {**constants, "N": n, "K": depth, "STAGES": 2}
            targets = SCALED if n == 128 else BLACKWELL
            where = "matmul.block_scaled_descriptors"
            yield f"{name}-descriptors-n{n}", where, tiles, more, _options(4, 2), targets


def _attention() -> Iterator[Spec]:
    sizes = {"length": "i32", "scale": "fp32", "row": "i32", "head_row": "i32"}
    for kind, m, n, d, warps, causal in (
        ("f16", 128, 64, 64, 4, False), ("f16", 128, 64, 128, 8, True), ("bf16", 64, 64, 64, 4, True),
    ):  # fmt: skip
        pointer = POINTERS[kind]
        types = {**dict.fromkeys(("q", "k", "v", "out"), pointer), "lse": "*fp32", **sizes}
        constants: dict[str, Any] = {"M": m, "N": n, "D": d, "CAUSAL": causal}
        name = f"attention-{kind}-{m}x{n}x{d}" + "-causal" * causal
        yield name, "attention.forward", types, constants, _options(warps, 2), ALL
    for kind, m, n, d, warps, causal, special in (
        ("f16", 128, 64, 64, 4, False, False), ("f16", 128, 64, 64, 4, False, True),
        ("bf16", 128, 128, 128, 8, True, False), ("f16", 128, 128, 128, 4, False, True),
        ("f16", 64, 64, 128, 4, True, False), ("e5m2", 128, 128, 64, 8, False, False),
    ):  # fmt: skip
        tiles = {"q": _tile(kind, m, d), "k": _tile(kind, n, d), "v": _tile(kind, n, d)}
        tiles.update(
            out=_tile("f16" if kind == "e5m2" else kind, m, d), lse="*fp32", length="i32", scale="fp32"
        )
        constants = {"M": m, "N": n, "D": d, "CAUSAL": causal, "SPECIALISED": special, "STAGES": 2}
        name = f"attention-descriptors-{kind}-{m}x{n}x{d}" + "-causal" * causal + "-ws" * special
        targets = tuple(t for t in TMA if (t != 120 or d == 64) and (t != 90 or not special))
        yield name, "attention.forward_descriptors", tiles, constants, _options(warps, 2), targets
    types = {"out": "*fp16", "d_out": "*fp16", "delta": "*fp32", "length": "i32", "row": "i32"}
    yield "attention-delta", "attention.backward_delta", types, {"D": 64, "M": 128}, _options(4, 2), ALL
    given = {**dict.fromkeys(("q", "k", "v", "d_out"), "*bf16"), "lse": "*fp32", "delta": "*fp32", **sizes}
    for m, n, d, causal in ((64, 64, 64, False), (64, 64, 64, True), (32, 64, 128, True)):
        constants = {"M": m, "N": n, "D": d, "CAUSAL": causal}
        suffix = f"{m}x{n}x{d}" + "-causal" * causal
        keys = {**given, "d_k": "*bf16", "d_v": "*bf16"}
        yield f"attention-keys-{suffix}", "attention.backward_keys", keys, constants, _options(4, 2), ALL
        queries = {**given, "d_q": "*bf16"}
        yield (
            f"attention-queries-{suffix}",
            "attention.backward_queries",
            queries,
            constants,
            _options(4, 2),
            ALL,
        )
    types = dict.fromkeys(("q", "k_pages", "v_pages"), "*fp16")
    types.update(table="*i32", lengths="*i32", partial="*fp32", stats="*fp32", scale="fp32", pages="i32")
    constants = {"H": 16, "D": 128, "PAGE": 64, "SPLITS": 4}
    yield "attention-decode", "attention.decode", types, constants, _options(4, 3), ALL


def _rows() -> Iterator[Spec]:
    h, f, i = "*fp16", "*fp32", "*i32"
    types = {"x": h, "y": h, "weight": h, "bias": h, "means": f, "scales": f, "n": "i32", "eps": "fp32"}
    yield "layernorm", "rows.layernorm", types, {"B": 1024}, _options(8, 2), ALL
    types = {
        "dx": h,
        "dy": h,
        "dw": f,
        "db": f,
        "x": h,
        "weight": h,
        "means": f,
        "scales": f,
        "locks": i,
        "n": "i32",
    }
    yield (
        "layernorm-backward",
        "rows.layernorm_backward",
        types,
        {"GROUPS": 64, "B": 1024},
        _options(4, 2),
        ALL,
    )
    types = {"x": h, "residual": h, "y": h, "weight": h, "n": "i32", "eps": "fp32"}
    yield "rmsnorm-residual", "rows.rmsnorm_residual", types, {"B": 4096}, _options(8, 2), ALL
    yield "softmax", "rows.softmax", {"x": f, "y": f, **_ints("rows n")}, {"B": 2048}, _options(8, 3), ALL
    types = {"x": h, "y": "*fp8e4nv", "scales": f, "n": "i32"}
    yield "quantise", "rows.quantise", types, {"B": 128}, _options(1, 1), TMA
    yield (
        "histogram",
        "rows.histogram",
        {"x": i, "counts": i, "n": "i32"},
        {"B": 1024, "BINS": 128},
        _options(4, 2),
        ALL,
    )
    yield "cumsum", "rows.cumsum", {"x": f, "y": f, "n": "i32"}, {"B": 1024}, _options(4, 2), ALL
    yield "sort", "rows.sort", {"x": f, "y": f, "n": "i32"}, {"B": 512}, _options(4, 2), ALL
    yield (
        "best",
        "rows.best",
        {"x": f, "values": f, "places": i, "n": "i32"},
        {"B": 1024},
        _options(4, 2),
        ALL,
    )
    yield (
        "transpose",
        "rows.transpose",
        {"x": h, "y": h, **_ints("m n")},
        {"M": 64, "N": 64},
        _options(4, 2),
        ALL,
    )
    types = {"x": h, "cosines": f, "sines": f, "positions": i, "heads": "i32"}
    yield "rotary", "rows.rotary", types, {"D": 128}, _options(2, 2), ALL
    types = {"x": h, "y": h, "n": "i32", "seed": "i32", "rate": "fp32"}
    yield "dropout", "rows.dropout", types, {"B": 1024}, _options(4, 2), ALL
    types = {"x": _tile("fp16", 1, 64), "places": i, "y": _tile("fp16", 1, 64), "columns": "i32"}
    yield "gather-rows", "rows.gather_rows", types, {"M": 32, "N": 64}, _options(4, 2), BLACKWELL
    types = {"x": _tile("f32", 64, 32), "y": _tile("f32", 64, 32)}
    yield "add-into", "rows.add_into", types, {"M": 64, "N": 32}, _options(4, 2), TMA
    yield (
        "vector-add",
        "rows.vector_add",
        {"x": f, "y": f, "out": f, "n": "i32"},
        {"B": 1024},
        _options(4, 2),
        ALL,
    )
