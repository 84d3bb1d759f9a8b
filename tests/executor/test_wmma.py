"""``wmma``: products of small integers, which every type represents exactly, and what its loads and stores conflict with."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.tools.execution import Run, done, run

Array = Any

ONE_SHAPE = {"tf32": (16, 16, 8), "f64": (8, 8, 4), "s4": (8, 8, 32), "u4": (8, 8, 32), "b1": (8, 8, 128)}
SHAPES = [(16, 16, 16), (8, 32, 16), (32, 8, 16)]
WIDTHS = {
    "f16": 16,
    "bf16": 16,
    "tf32": 32,
    "f32": 32,
    "s32": 32,
    "f64": 64,
    "s8": 8,
    "u8": 8,
    "s4": 4,
    "u4": 4,
    "b1": 1,
}
TYPES = [
    ("f16", "f16", "f16"), ("f16", "f32", "f16"), ("f16", "f16", "f32"), ("f16", "f32", "f32"), ("bf16", "f32", "f32"),
    ("s8", "s32", "s32"), ("u8", "s32", "s32"), ("tf32", "f32", "f32"), ("f64", "f64", "f64"), ("s4", "s32", "s32"),
    ("u4", "s32", "s32"), ("b1", "s32", "s32"),
]  # fmt: skip
"""The types of A and B, of D, and of C."""
PAD = 8
"""Bytes between the lines of a matrix in memory, in units of 16."""


def cases() -> list[Any]:
    found = []
    for name, to, of in TYPES:
        for shape in [ONE_SHAPE[name]] if name in ONE_SHAPE else SHAPES:
            layouts = [("row", "col")] if WIDTHS[name] < 8 else list(product(("row", "col"), repeat=2))
            found += [pytest.param(name, to, of, shape, *pair) for pair in layouts]
    return found


def encoded(name: str, numbers: Array) -> Array:
    """The bytes of each line of a matrix."""
    if name == "bf16":
        codes = np.ascontiguousarray(numbers.astype(np.float32)).view(np.uint32)
        return (codes >> 16).astype(np.uint16).view(np.uint8)
    if name in ("s4", "u4"):
        codes = (numbers & 15).astype(np.uint8)
        return codes[:, 0::2] | codes[:, 1::2] << 4
    if name == "b1":
        return np.packbits(numbers.astype(np.uint8), axis=1, bitorder="little")
    kinds = {"f16": np.float16, "f32": np.float32, "tf32": np.float32, "f64": np.float64, "s32": np.int32}
    kind = kinds.get(name, np.int8 if name == "s8" else np.uint8)
    return np.ascontiguousarray(numbers.astype(kind)).view(np.uint8)


def decoded(name: str, data: Array) -> Array:
    kinds = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "s32": np.int32}
    return np.ascontiguousarray(data).view(kinds[name]).astype(np.int64)


def placed(name: str, matrix: Array, layout: str) -> tuple[Array, int]:
    """A matrix in memory, its lines 128 bytes apart from the end of one to the start of the next; and the stride."""
    lines = encoded(name, matrix if layout == "row" else matrix.T)
    memory = np.full((lines.shape[0], lines.shape[1] + 16 * PAD), 0xEE, np.uint8)
    memory[:, : lines.shape[1]] = lines
    return memory, memory.shape[1] * 8 // WIDTHS[name]


def registers(prefix: str, name: str, role: str, shape: tuple[int, int, int]) -> str:
    m, n, k = shape
    elements = {"a": m * k, "b": k * n}.get(role, m * n)
    count = 8 if name == "f16" and role in "ab" else max(1, elements * min(32, WIDTHS[name]) // 1024)
    return "{" + ", ".join(f"%{prefix}{i}" for i in range(count)) + "}"


def opcode(name: str, to: str, of: str, shape: tuple[int, int, int], a: str, b: str, more: str = "") -> str:
    given = f".{to}.{of}" if name == "f16" else f".{to}.{name}.{name}.{of}"
    bits = ".xor.popc" if name == "b1" else ""
    return f"wmma.mma{bits}.sync.aligned.{a}.{b}.m{shape[0]}n{shape[1]}k{shape[2]}{given}{more}"


def multiplied(
    name: str, to: str, of: str, shape: tuple[int, int, int], a: str, b: str, matrices: Any, more: str = ""
) -> tuple[Run, Array]:
    """Loads the three matrices, multiplies, and stores D by columns: the run, and D."""
    m, n, k = shape
    sides = {"a": (name, a), "b": (name, b), "c": (of, "row")}
    buffers, loads = {}, []
    size = f"m{m}n{n}k{k}"
    wide = "rd" if name == "f64" else "r"
    names = {
        role: registers(wide, kind, role, shape).replace(f"%{wide}", f"%{wide}{'abc'.index(role) + 1}")
        for role, (kind, _) in sides.items()
    }
    for (role, (kind, layout)), matrix in zip(sides.items(), matrices, strict=True):
        buffers[role], stride = placed(kind, matrix, layout)
        loads.append(
            f"ld.param.u64 %rd60, [{role}];\n"
            f"wmma.load.{role}.sync.aligned.{layout}.{size}.global.{kind} {names[role]}, [%rd60], {stride};"
        )
    buffers["d"] = np.full((n, m * WIDTHS[to] // 8 + 16 * PAD), 0xDD, np.uint8)
    stride = buffers["d"].shape[1] * 8 // WIDTHS[to]
    result = registers(wide, to, "d", shape).replace(f"%{wide}", f"%{wide}4")
    body = (
        "\n".join(loads)
        + f"""
    {opcode(name, to, of, shape, a, b, more)} {result}, {names["a"]}, {names["b"]}, {names["c"]};
    ld.param.u64 %rd60, [d];
    wmma.store.d.sync.aligned.col.{size}.global.{to} [%rd60], {result}, {stride};
    ret;
    """
    )
    found = done(body, buffers=buffers, header=".version 8.3\n.target sm_90a\n.address_size 64\n")
    lines = found.buffers["d"][:, : m * WIDTHS[to] // 8]
    assert (found.buffers["d"][:, m * WIDTHS[to] // 8 :] == 0xDD).all()
    assert not found.execution.observations
    return found, decoded(to, lines).T


@pytest.mark.parametrize(("name", "to", "of", "shape", "a", "b"), cases())
def test_a_product_of_loaded_matrices_is_stored(
    name: str, to: str, of: str, shape: tuple[int, int, int], a: str, b: str
) -> None:
    rng = np.random.default_rng(1)
    m, n, k = shape
    low, high = {"b1": (0, 2), "u4": (0, 16), "s4": (-8, 8), "u8": (0, 256)}.get(name, (-4, 5))
    left, right = rng.integers(low, high, (m, k)), rng.integers(low, high, (k, n))
    third = rng.integers(-4, 5, (m, n))
    found, got = multiplied(name, to, of, shape, a, b, (left, right, third))
    bits = (left[:, :, None] != right).sum(1) if name == "b1" else left @ right
    assert np.array_equal(got, bits + third)
    assert not found.execution.notes


@pytest.mark.parametrize(("more", "want"), [("", -(2**31)), (".satfinite", 2**31 - 1)])
def test_a_sum_of_integers_wraps_or_saturates(more: str, want: int) -> None:
    left, right = np.ones((16, 16), int), np.zeros((16, 16), int)
    right[0] = 1
    third = np.full((16, 16), 2**31 - 1)
    _, got = multiplied("s8", "s32", "s32", (16, 16, 16), "row", "col", (left, right, third), more)
    assert (got == want).all()


LOADED = """
    mov.u32 %r0, smem;
    mad.lo.u32 %r1, %r199, 16, %r0;
    add.u32 %r2, %r199, 1;
    st.shared.v4.b32 [%r1], {%r199, %r2, %r199, %r2};
    st.shared.v4.b32 [%r1+512], {%r2, %r2, %r199, %r2};
    bar.warp.sync 0xffffffff;
    wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}, [%r0];
    wmma.load.b.sync.aligned.col.m16n16k16.shared.f16 {%r20, %r21, %r22, %r23, %r24, %r25, %r26, %r27}, [%r0+512];
"""


def test_a_fragment_is_that_of_mma_and_its_registers_are_repeated() -> None:
    """As the code of ptxas for sm_80 and later has it: two mma of eight columns, with the same A."""
    zero = "{%f40, %f41, %f42, %f43}"
    body = (
        LOADED
        + f"""
    mov.b32 %f40, 0;
    mov.b32 %f41, 0;
    mov.b32 %f42, 0;
    mov.b32 %f43, 0;
    wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {{%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}},
        {{%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}}, {{%r20, %r21, %r22, %r23, %r24, %r25, %r26, %r27}},
        {{%f40, %f41, %f42, %f43, %f40, %f41, %f42, %f43}};
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%f10, %f11, %f12, %f13}}, {{%r14, %r15, %r16, %r17}},
        {{%r24, %r25}}, {zero};
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%f14, %f15, %f16, %f17}}, {{%r10, %r11, %r12, %r13}},
        {{%r22, %r23}}, {zero};
    mov.u32 %r30, 0;
    """
    )
    for i in range(8):
        body += f"setp.neu.f32 %p0, %f{i}, %f{10 + i};\n@%p0 add.u32 %r30, %r30, 1;\n"
    body += (
        "setp.eq.f32 %p1, %f0, 0f00000000;\n@%p1 add.u32 %r30, %r30, 100;\nst.global.u32 [%rd62], %r30;\nret;"
    )
    assert done(body).out == [0] * 32


def test_a_load_of_what_a_copy_has_yet_to_write_is_observed() -> None:
    body = """
    mov.u32 %r0, smem;
    mad.lo.u32 %r1, %r199, 16, %r0;
    ld.param.u64 %rd0, [more];
    cp.async.ca.shared.global [%r1], [%rd0], 16;
    {wait}
    wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {{%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}}, [%r0];
    cp.async.wait_all;
    ret;
    """
    buffers = {"more": np.zeros(64, np.uint64)}
    assert run(body.format(wait=""), buffers=buffers).kinds == ["read-too-early"]
    assert run(body.format(wait="cp.async.wait_all;\nbar.warp.sync 0xffffffff;"), buffers=buffers).kinds == []


STORED = """
    mov.u32 %r0, smem;
    mov.b32 %f0, 0;
    setp.ge.u32 %p0, %r199, 32;
    @%p0 bra READ;
    wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%r0], {{%f0, %f0, %f0, %f0, %f0, %f0, %f0, %f0}};
READ:
    {barrier}
    ld.shared.u32 %r1, [%r0+512];
    st.global.u32 [%rd62], %r1;
    ret;
"""


@pytest.mark.parametrize(("barrier", "kinds"), [("", ["unordered"]), ("bar.sync 0;", [])])
def test_a_read_that_nothing_orders_after_the_store_is_observed(barrier: str, kinds: list[str]) -> None:
    assert run(STORED.format(barrier=barrier), block=64).kinds == kinds


def stored(address: str, stride: int) -> str:
    return f"""
    mov.u32 %r0, smem;
    mad.lo.u32 %r1, %r199, 4, %r0;
    mov.b32 %f0, 0;
    wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [{address}], {{%f0, %f0, %f0, %f0, %f0, %f0, %f0, %f0}}, {stride};
    ret;
    """


def test_an_address_that_differs_by_lane_is_observed() -> None:
    assert run(stored("%r1", 16)).messages == ["lanes of the warp pass different addresses of a matrix"]
    assert run(stored("%r0", 16)).messages == []


def test_lines_that_are_aligned_to_their_elements_only_are_noted() -> None:
    found = done(stored("%r0+4", 20))
    assert list(found.execution.notes) == [
        "a line of a matrix is not aligned to 32 bytes, as the ISA requires"
    ]
    assert not done(stored("%r0+32", 24)).execution.notes


@pytest.mark.parametrize(
    ("address", "stride", "kind"), [("%r0+2", 16, "misaligned"), ("%r0", 1 << 12, "bounds")]
)
def test_a_line_outside_memory_or_across_elements_is_a_fault(address: str, stride: int, kind: str) -> None:
    found = run(stored(address, stride))
    assert (found.execution.end, found.execution.fault) == ("fault", kind)
