"""Operands of tcgen05 and metadata of sparse matrices on small kernels; the pages of the rules hold the plain cases."""

from __future__ import annotations

import pytest

from tclint.analyses.tensor_memory import TensorMemory
from tclint.findings.finding import Finding
from tclint.findings.scales import Severity
from tclint.findings.selection import Selected
from tclint.isa.effects import TCGEN05
from tclint.isa.target import Target
from tclint.values.descriptors import INSTRUCTION, SHARED, DescriptorForm, instruction_fields, shape
from tests.tools.support import by_rule, found, kernel, lint, model, module

BITS = (1 << 64) - 1
F16 = 0x0820_0490  # bf16 * bf16 -> f32, M = 128, N = 128

SETUP = """
    .shared .align 4 .b32 slot;
    .shared .align 1024 .b8 tile[4096];
    mov.u32 %r0, %tid.x;
    and.b32 %r1, %r0, 31;
    shr.u32 %r2, %r0, 5;
    setp.eq.u32 %p1, %r0, 0;
    setp.ne.u32 %p0, %r0, %r0;
    ld.param.u32 %r8, [number];
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 64;
    bar.sync 0;
    ld.shared.b32 %r9, [slot];
"""
GOOD = "mov.b64 %rd0, 0x4000404000010000; mov.b64 %rd1, 0x4000404000010000;"


def text(body: str, threads: int = 128, header: str = "") -> str:
    made = module(kernel(f"{SETUP}{body}\nret;", directives=f".reqntid {threads}"))
    return made.replace("sm_100a", header) if header else made


def of(rule: str, body: str, threads: int = 128, header: str = "") -> list[Finding]:
    report = lint(text(body, threads, header))
    assert report.status == "analysed", report.problems
    return by_rule(report, rule)


def _of_descriptors(body: str) -> list[Finding]:
    """The findings about descriptors of shared memory, with those that are off by default."""
    return list(lint(text(body), selected=Selected(frozenset(("TC015", "TC026")))).findings)


def exact(number: int) -> tuple[int, int]:
    """Known bits of a number."""
    return ~number & BITS, number & BITS


def wrong(number: int, **form: object) -> set[str]:
    """The fields of an instruction descriptor that do not fit."""
    made = DescriptorForm(**{"kind": ".kind::f16", **form})  # type: ignore[arg-type]
    return {f.name for f in instruction_fields(made, exact(number)) if f.wrong(exact(number))}


# ---------------------------------------------------------------- the tables


@pytest.mark.parametrize("kind", [kind for kind, fields in INSTRUCTION.items() if fields])
def test_the_fields_of_a_kind_fill_32_bits_once(kind: str) -> None:
    bits = [bit for field in INSTRUCTION[kind].values() for bit in range(field.low, field.low + field.size)]
    assert len(bits) == len(set(bits)), kind
    # The maximum shift of .ws is free in the kinds that have no scale factors.
    assert set(range(32)) - set(bits) <= {30, 31} if "mx" not in kind else set(bits) == set(range(32)), kind


def test_the_fields_of_a_shared_memory_descriptor_do_not_overlap() -> None:
    bits = [bit for field in SHARED.values() for bit in range(field.low, field.low + field.size)]
    assert set(range(64)) - set(bits) == {14, 15, 30, 31}
    assert len(bits) == len(set(bits))


MX = {"kind": ".kind::mxf8f6f4"}
NV = {"kind": ".kind::mxf4nvf4", "vector": ".scale_vec::4X"}


@pytest.mark.parametrize(
    ("number", "form", "fields"),
    [
        (F16, {}, set()),
        (F16 & ~(1 << 7), {}, set()),
        (F16 | 1 << 8, {}, {"type of A"}),
        (F16 & ~(1 << 4), {}, {"type of A, with D of f16,", "type of B, with D of f16,"}),
        (F16 & ~0x490, {}, set()),
        (F16 | 1 << 2, {}, {"sparsity"}),
        (F16 | 1 << 2, {"sparse": True}, set()),
        (F16, {"sparse": True}, {"sparsity"}),
        (F16 | 1 << 3, {}, {"saturation"}),
        (F16 | 1 << 6, {}, {"reserved bit"}),
        (F16 | 1 << 23 | 1 << 29, {}, {"reserved bit 23", "reserved bit 29"}),
        (F16 | 0xF << 13, {}, set()),
        (F16 & ~(0x3F << 17) | 1 << 17, {}, set()),  # N = 8
        (F16 & ~(0x3F << 17) | 1 << 17, {"pair": True}, {"N"}),
        (F16 & ~(0x3F << 17), {}, {"N"}),
        (F16 & ~(0x3F << 17) | 33 << 17, {}, {"N"}),
        (F16 & ~(0x1F << 24) | 4 << 24, {}, set()),  # M = 64
        (F16 & ~(0x1F << 24) | 4 << 24, {"pair": True}, {"M"}),
        (F16 & ~(0x1F << 24) | 4 << 24, {"shifted": True}, {"M"}),
        (F16 & ~(0x1F << 24) | 16 << 24, {}, {"M"}),
        (F16 & ~(0x1F << 24) | 16 << 24, {"pair": True}, set()),
        (F16 & ~(0x1F << 24) | 2 << 24, {"weights": True}, set()),  # M = 32
        (F16 & ~(0x3F << 17) | 12 << 17, {"weights": True}, {"N"}),
        (F16 & ~(0x3F << 17) | 32 << 17 | 4, {"weights": True, "sparse": True}, {"N"}),
        (0x0820_0910, {"kind": ".kind::tf32"}, set()),
        (F16, {"kind": ".kind::tf32"}, {"type of A", "type of B"}),
        (0x0820_04A0, {"kind": ".kind::i8"}, set()),
        (0x0820_04A8, {"kind": ".kind::i8"}, set()),
        (0x0820_04A0 | 1 << 13, {"kind": ".kind::i8"}, {"negation of A"}),
        (0x0820_04A0 & ~(0x3F << 17) | 5 << 17, {"kind": ".kind::i8"}, {"N"}),  # 40
        (0x0820_04A0 & ~(0x3F << 17) | 3 << 17, {"kind": ".kind::i8"}, set()),  # 24
        (0x0820_04A0 & ~(0x3F << 17) | 3 << 17 | 1 << 16, {"kind": ".kind::i8"}, {"N"}),
        (0x0820_0010 | 2 << 7, {"kind": ".kind::f8f6f4"}, {"type of A"}),
        (0x0820_0010 | 5 << 7, {"kind": ".kind::f8f6f4"}, set()),
        (0x0820_0010 & ~(0x3F << 17) | 1 << 17 | 1 << 16, {"kind": ".kind::f8f6f4"}, {"N"}),
        (0x0820_0015, {"kind": ".kind::f8f6f4", "sparse": True}, {"sparsity selector"}),
        (0x08A0_0000, MX, set()),
        (0x0820_0000, MX, {"scale type"}),
        (0x08A0_0000 | 3 << 29 | 3 << 4, MX, set()),
        (0x04A0_0000, MX, {"M", "reserved bits 24-26"}),
        (0x10A0_0004, {**MX, "pair": True, "sparse": True}, set()),
        (0x08A0_0004, {**MX, "pair": True, "sparse": True}, {"M"}),
        (0x0820_0480, NV, set()),
        (0x0820_04A0, NV, {"scale factor id of B"}),
        (0x0820_0480, {**NV, "vector": ".block32"}, {"scale type"}),
        (0x08A0_04A0, {**NV, "vector": ".scale_vec::2X"}, set()),
        (0x08A0_0490, {**NV, "vector": ".scale_vec::2X"}, {"scale factor id of B"}),
        (0x8820_0490, NV, set()),  # K = 96
        (0x0820_8480, NV, {"transposition of A"}),
        (0x0820_0080, {"kind": ".kind::mxf4"}, {"type of B", "scale type"}),
    ],
)
def test_which_instruction_descriptors_fit(number: int, form: dict[str, object], fields: set[str]) -> None:
    assert wrong(number, **form) == fields


@pytest.mark.parametrize(
    ("number", "form", "columns"),
    [
        (F16, {}, 128),
        (F16, {"pair": True}, 64),
        (F16 | 4, {"pair": True, "sparse": True}, 128),
        (F16 & ~(0x1F << 24) | 16 << 24, {"pair": True}, 128),
        (F16 & ~(0x1F << 24) | 4 << 24, {}, 128),
        (F16 & ~(0x1F << 24) | 4 << 24, {"weights": True}, 64),
        (F16 & ~(0x1F << 24) | 2 << 24, {"weights": True}, 32),
        (0x08A0_0000, MX, 128),
    ],
)
def test_the_columns_of_d(number: int, form: dict[str, object], columns: int) -> None:
    made = DescriptorForm(**{"kind": ".kind::f16", **form})  # type: ignore[arg-type]
    found_shape = shape(made, exact(number))
    assert found_shape is not None
    assert found_shape.columns(made) == columns
    assert shape(made, (0, 0)) is None


# ---------------------------------------------------------------- TC015, TC016, TC019

MMA = "@%p1 tcgen05.mma.cta_group::1.kind::{kind} [%r9], %rd0, %rd1, %r7, %p0{more};"


def mma(kind: str = "f16", more: str = "") -> str:
    return MMA.format(kind=kind, more=more)


def test_a_wrong_descriptor_is_reported_with_its_fields_once_for_all_uses() -> None:
    (finding,) = of("TC016", f"{GOOD} mov.b32 %r7, 0x0c2004a0;\n{mma()}\n{mma()}")
    assert finding.message == (
        "the instruction descriptor does not fit tcgen05.mma.cta_group::1.kind::f16: "
        "M (bits 24-28) is 192, not 64 or 128; type of D (bits 4-5) is 2, not 0 or 1"
    )
    assert finding.count == 2
    assert [step.message for step in finding.steps] == ["the operand is defined here", "tcgen05.mma uses it"]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ("mov.b32 %r7, %r8;", False),
        ("or.b32 %r7, %r8, 0x40;", True),
        ("and.b32 %r7, %r8, 0xffffff;", True),  # no M is left
        ("and.b32 %r6, %r8, 0x1f000000; or.b32 %r7, %r6, 0x00200490;", False),
        ("setp.eq.u32 %p5, %r8, 0; selp.b32 %r7, 0x08200490, 0x08400490, %p5;", False),
        ("setp.eq.u32 %p5, %r8, 0; selp.b32 %r7, 0x082004a0, 0x084004a0, %p5;", True),
    ],
)
def test_only_known_bits_are_judged(made: str, said: bool) -> None:
    assert bool(of("TC016", f"{GOOD} {made}\n{mma()}")) is said


def test_unknown_bits_without_a_valid_value_are_reported_as_such() -> None:
    (finding,) = of("TC016", f"{GOOD} and.b32 %r6, %r8, 0x10; or.b32 %r7, %r6, 0x082004a0;\n{mma()}")
    assert "type of D (bits 4-5) cannot be 0 or 1" in finding.message


IDESC = "mov.b32 %r7, 0x08200490;"
ADDRESS = "mov.u32 %r5, tile; bfe.u32 %r5, %r5, 4, 14; cvt.u64.u32 %rd5, %r5;"


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (f"{ADDRESS} or.b64 %rd0, %rd5, 0x4000404000010000;", ""),
        (f"{ADDRESS} or.b64 %rd0, %rd5, 0x4000004000010000;", "fixed constant (bits 46-48) is 0, not 1"),
        (f"{ADDRESS} or.b64 %rd0, %rd5, 0x4001404000010000;", "fixed constant (bits 46-48) is 5, not 1"),
        (f"{ADDRESS} or.b64 %rd0, %rd5, 0x4020404000010000;", "fixed zero (bits 53-60) is 1, not 0"),
        (f"{ADDRESS} or.b64 %rd0, %rd5, 0xe000404000010000;", "swizzling mode (bits 61-63) is 7"),
        ("mov.b64 %rd0, {%r8, 0x40004040};", ""),
        ("mov.b64 %rd0, {%r8, 0x40000040};", "fixed constant"),
        ("ld.param.u64 %rd0, [pointer];", ""),
        ("mov.b64 %rd0, 0x4010404000010000;", "which sm_100 does not support"),
    ],
)
def test_shared_memory_descriptors(made: str, reason: str) -> None:
    body = f"mov.b64 %rd1, 0x4000404000010000; {IDESC} {made}\n{mma()}"
    copied = f"{made}\n@%p1 tcgen05.cp.cta_group::1.128x256b [%r9], %rd0;"
    for code in (body, copied):
        assert [reason in f.message for f in _of_descriptors(code)] == ([True] if reason else [])


@pytest.mark.parametrize(
    ("bits", "rule"),
    [
        (0x4000004000010000, "TC026"),
        (0x4001404000010000, "TC015"),
        (0x4020004000010000, "TC015"),
    ],
)
def test_a_descriptor_of_wgmma_works(bits: int, rule: str) -> None:
    """Triton 3.5 takes those of wgmma as they are; a wrong constant, or another fault beside it, is another thing."""
    body = f"mov.b64 %rd1, 0x4000404000010000; {IDESC} {ADDRESS} or.b64 %rd0, %rd5, {bits};\n{mma()}"
    found = _of_descriptors(body)
    assert [(f.rule.id, f.severity) for f in found] == [
        (rule, Severity.INFO if rule == "TC026" else Severity.ERROR)
    ]


@pytest.mark.parametrize(
    ("kind", "idesc", "mode", "said"),
    [
        ("tf32", 0x0820_0910 | 1 << 15, 1, False),
        ("tf32", 0x0820_0910 | 1 << 15, 2, True),
        ("tf32", 0x0820_0910, 2, False),
        ("tf32", 0x0820_0910 | 1 << 16, 2, False),  # B is the transposed one
        ("f16", F16 | 1 << 15, 1, True),
        ("f16", F16 | 1 << 15, 2, False),
        ("f16", F16, 1, False),
    ],
)
def test_transposition_and_swizzling_of_a(kind: str, idesc: int, mode: int, said: bool) -> None:
    a, b = (
        0x4040_0001_0000 | mode << 61,
        0x4040_0001_0000 | 1 << 61 if kind == "tf32" else 0x4000_4040_0001_0000,
    )
    body = f"mov.b64 %rd0, {a}; mov.b64 %rd1, {b}; mov.b32 %r7, {idesc};\n{mma(kind)}"
    assert bool(of("TC015", body)) is said


def test_the_absolute_leading_dimension_is_for_sm_103a_and_one_mode() -> None:
    body = f"mov.b64 %rd1, 0x4000404000010000; {IDESC} mov.b64 %rd0, {{}};\n{mma()}"
    assert not of("TC015", body.format("0x4010404000010000"), header="sm_103a")
    assert of("TC015", body.format("0x8010404000010000"), header="sm_103a")


def test_scale_input_d() -> None:
    assert not of("TC019", f"{GOOD} {IDESC}\n{mma('f16', ', 3')}")
    (finding,) = of("TC019", f"{GOOD} mov.b32 %r7, 0x082004a0;\n{mma('i8', ', 3')}\n{mma('i8', ', 3')}")
    assert finding.count == 2


# ---------------------------------------------------------------- TC017, TC018, TC020


@pytest.mark.parametrize(
    ("shape_and_count", "registers", "columns"),
    [
        ("32x32b.x2", 2, 2),
        ("16x64b.x2", 2, 4),
        ("16x128b.x1", 2, 4),
        ("16x256b.x1", 4, 8),
        ("32x32b.x2.pack::16b", 2, 4),
    ],
)
def test_the_columns_of_a_load(shape_and_count: str, registers: int, columns: int) -> None:
    names = ", ".join(f"%r{20 + i}" for i in range(registers))
    load = f"tcgen05.ld.sync.aligned.{shape_and_count}.b32 {{{names}}}, [%r9+"
    assert not of("TC017", f"{load}{64 - columns}];")
    (finding,) = of("TC017", f"{load}{65 - columns}];")
    assert finding.message == (
        f"tcgen05.ld accesses columns {65 - columns} to 64 of the allocation, which has 64 columns"
    )


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ("mov.b32 %r10, 510;", False),
        ("mov.b32 %r10, 511;", True),
        ("mov.b32 %r10, 0x007f0000;", False),
        ("mov.b32 %r10, 0x00800000;", True),
        ("add.u32 %r10, %r9, %r8;", False),
        ("and.b32 %r11, %r8, 32; add.u32 %r10, %r9, %r11; add.u32 %r10, %r10, 62;", False),
        ("and.b32 %r11, %r8, 32; add.u32 %r10, %r9, %r11; add.u32 %r10, %r10, 64;", True),
        ("shl.b32 %r11, %r2, 21; add.u32 %r10, %r9, %r11; add.u32 %r10, %r10, 64;", True),
        ("sub.u32 %r10, %r9, 2;", True),
        ("ld.shared.b32 %r10, [tile]; add.u32 %r10, %r10, 600;", False),
    ],
)
def test_addresses_past_the_end(made: str, said: bool) -> None:
    body = f"{made}\ntcgen05.ld.sync.aligned.32x32b.x2.b32 {{%r20, %r21}}, [%r10];"
    assert bool(of("TC017", body)) is said


def test_a_stage_that_a_loop_counts_has_bounds() -> None:
    loop = """
    mov.b32 %r10, 0;
    again: shl.b32 %r11, %r10, 5;
    add.u32 %r12, %r11, %r9;
    tcgen05.ld.sync.aligned.32x32b.x2.b32 {{%r20, %r21}}, [%r12+{}];
    add.u32 %r13, %r10, 1;
    setp.eq.u32 %p3, %r13, 2;
    selp.b32 %r10, 0, %r13, %p3;
    setp.ne.u32 %p4, %r8, %r20;
    @%p4 bra again;
    """
    assert not of("TC017", loop.format(30))
    assert of("TC017", loop.format(64))


def test_an_accumulator_takes_its_columns() -> None:
    assert of("TC017", f"{GOOD} {IDESC}\n{mma()}")
    narrow = "mov.b32 %r7, 0x08100490;"
    assert not of("TC017", f"{GOOD} {narrow}\n{mma()}")
    assert of("TC017", f"{GOOD} {narrow}\n{mma().replace('[%r9]', '[%r9+8]')}")
    half = f"{GOOD} {IDESC}\n{mma()}".replace("cta_group::1", "cta_group::2")
    report = lint(text(half).replace("cta_group::1", "cta_group::2"))
    assert not by_rule(report, "TC017")  # M = 128 over two CTAs: half of N in each


def test_the_result_of_an_mma_is_as_wide_as_its_descriptor_says() -> None:
    m = model(f"{SETUP}{GOOD} {IDESC}\n{mma()}\nret;")
    tmem = TensorMemory(m)
    (site,) = m.begins(TCGEN05)
    columns = tmem.range(site, "d")
    assert columns is not None
    assert columns.columns == 128
    body = f"{GOOD} {IDESC} mov.b32 %r10, 96;\n{mma()}\n"
    load = "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r20, %r21}, [%r9+96];\ntcgen05.wait::ld.sync.aligned;"
    commit = "@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [tile];\n"
    assert of("TC001", body + load + "\n" + commit)


def test_a_register_filled_twice() -> None:
    load = "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r20, %r20}, [%r9];"
    (unused,) = of("TC018", load)
    assert unused.severity.label == "info"
    (used,) = of("TC018", f"{load}\ntcgen05.wait::ld.sync.aligned; st.shared.b32 [tile], %r20;")
    assert used.severity.label == "error"
    assert "%r20" in used.message


@pytest.mark.parametrize(
    ("address", "said"),
    [("%r9", False), ("%r9+0x200000", False), ("%r9+0x100000", True), ("%r9+0x010000", True), ("%r8", False)],
)
def test_lanes_of_a_shift(address: str, said: bool) -> None:
    assert bool(of("TC020", f"@%p1 tcgen05.shift.cta_group::1.down [{address}];")) is said


@pytest.mark.parametrize(
    ("kind", "number", "target", "severity"),
    [
        ("f8f6f4", 0x28200010, "sm_107a", ""),  # K = 64
        ("f8f6f4", 0x28200010, "sm_100a", "error"),
        ("f8f6f4", 0x08200050, "sm_107a", "info"),  # bit 6
        ("f8f6f4", 0x08200050, "sm_103a", "error"),
        ("f8f6f4", 0x0C200010, "sm_107a", "error"),  # M = 192
        ("f16", 0x28200010, "sm_107a", "info"),  # bit 29
    ],
)
def test_bits_that_a_newer_target_may_define_are_unknown(
    kind: str, number: int, target: str, severity: str
) -> None:
    issue = f"@%p1 tcgen05.mma.cta_group::1.kind::{kind} [%r9], %rd0, %rd1, %r7, %p0;"
    code = (
        text(f"{GOOD}\nmov.b32 %r7, {number:#x};\n{issue}").replace("sm_100a", target).replace("8.6", "9.5")
    )
    assert [f.severity.label for f in by_rule(lint(code), "TC016")] == ([severity] if severity else [])


@pytest.mark.parametrize("kind", ["f8f6f4", "mxf8f6f4", "mxf4nvf4"])
def test_the_fields_that_sm_107_changes_do_not_overlap(kind: str) -> None:
    fields = list(instruction_fields(DescriptorForm(f".kind::{kind}"), (0, 0), Target.parse("sm_107a")))
    bits = [bit for field in fields for bit in range(field.low, field.low + field.size)]
    assert len(bits) == len(set(bits))
    assert len([f for f in fields if f.name == "K"]) == (2 if kind == "mxf4nvf4" else 1)


@pytest.mark.parametrize(
    ("target", "collector", "rules"),
    [
        ("sm_107a", ".collector::b::fill", []),
        ("sm_107f", ".collector::a::use.collector::b::lastuse", []),
        ("sm_100a", ".collector::b::fill", ["AV001"]),
    ],
)
def test_the_collector_of_b_is_of_sm_107(target: str, collector: str, rules: list[str]) -> None:
    issue = f"@%p1 tcgen05.mma.cta_group::1.kind::f16{collector} [%r9], %rd0, %rd1, %r7, %p0;"
    code = text(f"{GOOD}\nmov.b32 %r7, 0x08200010;\n{issue}").replace("sm_100a", target).replace("8.6", "9.5")
    assert [f.rule.id for f in lint(code).findings if f.rule.id.startswith(("PX", "AV001", "AV002"))] == rules


def test_the_columns_of_tensor_memory_are_those_of_the_target() -> None:
    for target, number in (("sm_107a", 0), ("sm_100a", 1)):
        code = text("tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r20, %r21}, [560];")
        code = code.replace("sm_100a", target).replace("8.6", "9.5")
        assert len(by_rule(lint(code), "TC017")) == number


# ---------------------------------------------------------------- TC022, TC023


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ("add.u32 %r10, %r9, %r1;", True),
        ("shl.b32 %r11, %r1, 16; add.u32 %r10, %r9, %r11;", True),
        ("add.u32 %r10, %r9, %r2;", False),
        ("shfl.sync.idx.b32 %r11, %r1, 0, 31, -1; add.u32 %r10, %r9, %r11;", False),
        ("setp.lt.u32 %p5, %r0, 16; selp.b32 %r11, 4, 0, %p5; add.u32 %r10, %r9, %r11;", True),
        ("setp.lt.u32 %p5, %r0, 32; selp.b32 %r11, 4, 0, %p5; add.u32 %r10, %r9, %r11;", False),
        ("ld.shared.b32 %r11, [tile]; add.u32 %r10, %r9, %r11;", False),
    ],
)
def test_addresses_that_differ_in_a_warp(made: str, said: bool) -> None:
    for instruction in (
        "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r20, %r21}, [%r10];",
        "tcgen05.st.sync.aligned.32x32b.x2.b32 [%r10], {%r20, %r21};",
        "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r10, 64;",
    ):
        assert bool(of("TC022", f"{made}\n{instruction}")) is said, instruction


def test_only_the_warps_that_reach_it_must_agree() -> None:
    made = "setp.lt.u32 %p5, %r0, 16; selp.b32 %r10, 0, %r9, %p5;"
    load = "setp.lt.u32 %p6, %r0, 32;\n@%p6 bra out;\ntcgen05.ld.sync.aligned.32x32b.x2.b32 {%r20, %r21}, [%r10];\nout: ret;"
    assert not of("TC022", f"{made}\n{load}")


@pytest.mark.parametrize(
    ("made", "confidence"),
    [
        ("shl.b32 %r11, %r2, 21; add.u32 %r10, %r9, %r11;", ""),
        ("and.b32 %r11, %r0, 96; shl.b32 %r11, %r11, 16; add.u32 %r10, %r9, %r11;", ""),
        ("shl.b32 %r11, %r2, 21; add.u32 %r10, %r9, %r11; add.u32 %r10, %r10, 0x100010;", ""),
        ("shl.b32 %r11, %r2, 22; add.u32 %r10, %r9, %r11;", "high"),
        ("add.u32 %r10, %r9, 0x400000;", "high"),
        ("mov.b32 %r10, %r9;", "low"),
        ("add.u32 %r10, %r9, 0x100000;", "low"),
        ("add.u32 %r10, %r9, %r8;", ""),
        # A column that is 32 at least, so that taking 32 away borrows nothing from the lanes; and one that may be all of them.
        ("and.b32 %r10, %r8, 96; add.u32 %r10, %r10, -32; shl.b32 %r11, %r2, 21; add.u32 %r10, %r10, %r11; add.u32 %r10, %r10, %r9;", ""),
        ("and.b32 %r10, %r8, 96; add.u32 %r10, %r10, 32; add.u32 %r10, %r10, %r9;", "low"),
    ],
)  # fmt: skip
def test_lanes_of_other_warps(made: str, confidence: str) -> None:
    findings = of("TC023", f"{made}\ntcgen05.ld.sync.aligned.32x32b.x2.b32 {{%r20, %r21}}, [%r10];")
    assert [f.confidence.label for f in findings] == ([confidence] if confidence else [])


@pytest.mark.parametrize(
    ("offset", "rule"), [("-1", "TC017"), ("0x800000", "TC017"), ("0x400000", "TC023"), ("0x7f0000", "TC023")]
)
def test_a_wrong_lane_is_reported_by_one_rule(offset: str, rule: str) -> None:
    code = f"add.u32 %r10, %r9, {offset};\ntcgen05.ld.sync.aligned.32x32b.x2.b32 {{%r20, %r21}}, [%r10];"
    report = lint(text(code))
    assert {f.rule.id for f in report.findings} & {"TC017", "TC023"} == {rule}


def test_the_second_warpgroup_has_the_same_windows() -> None:
    load = "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r20, %r21}, [%r10];"
    own = f"and.b32 %r11, %r2, 3; shl.b32 %r11, %r11, 21; add.u32 %r10, %r9, %r11;\n{load}"
    assert not of("TC023", own, threads=256)
    plain = f"shl.b32 %r11, %r2, 21; add.u32 %r10, %r9, %r11;\n{load}"
    (finding,) = of("TC023", plain, threads=256)
    assert finding.message == "tcgen05.ld of warp 4 at lane 128: this warp can access lanes 0 to 31 only"


def test_warps_that_may_not_exist() -> None:
    load = "shl.b32 %r11, %r2, 21; add.u32 %r10, %r9, %r11;\ntcgen05.ld.sync.aligned.32x32b.x2.b32 {%r20, %r21}, [%r10];"
    open_ended = lint(text(load).replace(".reqntid 128", ""))
    assert [f.confidence.label for f in by_rule(open_ended, "TC023")] == ["low"]


# ---------------------------------------------------------------- MO002

SPARSE = {
    "f16": "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%f0, %f1, %f2, %f3}}, {{%r20, %r21}}, {{%r22, %r23}}, {{%f0, %f1, %f2, %f3}}, {}, 0;",
    "ordered": "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%f0, %f1, %f2, %f3}}, {{%r20, %r21}}, {{%r22, %r23}}, {{%f0, %f1, %f2, %f3}}, {}, 0;",
    "tf32": "mma.sp.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {{%f0, %f1, %f2, %f3}}, {{%r20, %r21}}, {{%r22, %r23}}, {{%f0, %f1, %f2, %f3}}, {}, 0;",
}


@pytest.mark.parametrize(
    ("form", "made", "reason"),
    [
        ("f16", "mov.b32 %r7, 0x44444444;", ""),
        ("f16", "mov.b32 %r7, 0x4e9d6141;", ""),
        ("f16", "mov.b32 %r7, 0;", "0000 in bits 0-3"),
        ("f16", "mov.b32 %r7, 0x4444f444;", "1111 in bits 12-15"),
        ("f16", "ld.param.u32 %r7, [number];", ""),
        ("f16", "and.b32 %r7, %r8, 0x0fffffff;", "0000 in bits 28-31"),
        ("ordered", "mov.b32 %r7, 0x4e9d8c44;", ""),
        ("ordered", "mov.b32 %r7, 0x44444446;", "0110 in bits 0-3"),
        ("tf32", "mov.b32 %r7, 0x4e4e4e4e;", ""),
        ("tf32", "mov.b32 %r7, 0x4e4e4e49;", "1001 in bits 0-3"),
        ("tf32", "and.b32 %r6, %r8, 0x1; or.b32 %r7, %r6, 0x4e4e4e4a;", "has no legal value in bits 0-3"),
    ],
)
def test_metadata(form: str, made: str, reason: str) -> None:
    report = lint(text(f"{made}\n{SPARSE[form].format('%r7')}"))
    messages = [f.message for f in by_rule(report, "MO002")]
    assert [reason in message for message in messages] == ([True] if reason else []), messages


@pytest.mark.parametrize(
    ("made", "severity"),
    [
        ("shl.b32 %r3, %r1, 16; add.u32 %r4, %r9, %r3;", Severity.INFO),
        ("and.b32 %r3, %r0, 127; shl.b32 %r3, %r3, 16; add.u32 %r4, %r9, %r3;", Severity.INFO),
        ("add.u32 %r4, %r9, %r1;", Severity.ERROR),
        ("shl.b32 %r3, %r1, 17; add.u32 %r4, %r9, %r3;", Severity.ERROR),
    ],
)
def test_a_lane_in_the_address_is_a_note_and_another_column_is_an_error(
    made: str, severity: Severity
) -> None:
    (finding,) = of("TC022", f"{made}\ntcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r5}}, [%r4];")
    assert finding.severity is severity


def test_kernels_without_such_operands_are_not_reported() -> None:
    rules = {rule for rule, _ in found(lint(text("")))}
    assert rules.isdisjoint(("TC015", "TC016", "TC017", "TC018", "TC019", "TC020", "TC022", "TC023", "MO002"))
