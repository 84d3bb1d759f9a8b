"""The names of the objects that instructions operate on."""

from __future__ import annotations

import pytest

from tclint.analyses.model import KernelModel
from tclint.analyses.objects import ObjectNames
from tests.tools.replay import changed
from tests.tools.support import analysed, kernel, lint, model, module

SHARED = """\
    .shared .align 8 .b64 bars[4];
    .shared .align 1024 .b8 _ZZ4gemmE6smem_a[8192];
    .shared .align 4 .b32 word;
"""
COPY = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [{}], [%rd0], {}, [{}];"


def names(of: KernelModel, opcode: str) -> list[str | None]:
    """The objects of the instructions whose opcode begins with these words, in program order."""
    sites = [i for i, ins in enumerate(of.function.instructions) if ins.opcode.startswith(opcode)]
    return [of.fact(ObjectNames).about(i) for i in sites]


def of_each(of: KernelModel, opcode: str) -> str | None:
    found = set(names(of, opcode))
    assert len(found) == 1
    return found.pop()


@pytest.mark.parametrize(
    ("instruction", "name"),
    [
        ("st.shared.b32 [word], %r1;", "word"),
        ("ld.shared.b32 %r1, [_ZZ4gemmE6smem_a+1024];", "smem_a+1024..1028"),
        ("st.shared.b32 [%r9], %r1;", "smem_a+0..512"),
        ("ld.shared.b32 %r1, [%r8];", None),  # an address from memory
        ("st.global.b32 [%rd0], %r1;", None),
        ("mbarrier.init.shared::cta.b64 [bars+16], 1;", "mbarrier bars+16"),
        ("bar.sync 3, 64;", "barrier 3"),
        (COPY.format("_ZZ4gemmE6smem_a+1024", 1024, "bars+16"), "smem_a+1024..2048; full mbarrier bars+16"),
        ("mov.u32 %r1, 0;", None),
    ],
)
def test_an_object_is_named_by_its_variable(instruction: str, name: str | None) -> None:
    of = model(
        f"""
    ld.param.u64 %rd0, [pointer];
    ld.global.u32 %r8, [%rd0];
    mov.u32 %r0, %tid.x;
    mov.u32 %r9, _ZZ4gemmE6smem_a;
    mad.lo.u32 %r9, %r0, 4, %r9;
    mbarrier.init.shared::cta.b64 [bars+16], 1;
end:
    {instruction}
    ret;
""",
        before=SHARED,
    )
    assert of.fact(ObjectNames).about(len(of.function.instructions) - 2) == name


def test_a_mangled_name_that_two_variables_share_is_not_shortened() -> None:
    twice = SHARED + "    .shared .align 16 .b8 _ZZ5otherE6smem_a[64];\n"
    of = model("    ld.shared.b32 %r1, [_ZZ4gemmE6smem_a];\n    ret;", before=twice)
    assert of_each(of, "ld.shared") == "_ZZ4gemmE6smem_a+0..4"


def test_a_stage_of_a_ring_is_named_by_its_index_where_the_instruction_names_one() -> None:
    ring = analysed(changed("", ""))
    assert names(ring, "mbarrier.init") == [
        f"mbarrier {name}[{n}]" for name in ("full", "empty") for n in range(3)
    ]
    assert sorted(set(names(ring, "mbarrier.try_wait")), key=str) == [
        "mbarrier empty[0..3]",
        "mbarrier full[0..3]",
    ]


def test_a_ring_inside_a_variable_is_named_by_offset_and_stage() -> None:
    text = changed(
        "    .shared .align 8 .b64 full[3];\n    .shared .align 8 .b64 empty[3];\n",
        "    .shared .align 8 .b64 bars[7];\n",
    )
    for name, offset in (("full", 8), ("empty", 32)):
        for stage in (16, 8):
            text = text.replace(f"[{name}+{stage}]", f"[bars+{offset + stage}]")
        text = text.replace(f"[{name}]", f"[bars+{offset}]").replace(f", {name};", f", bars+{offset};")
    of = analysed(text)
    assert names(of, "mbarrier.init") == [
        *(f"full mbarrier bars+{8 + 8 * n}, stage {n} of 3" for n in range(3)),
        *(f"empty mbarrier bars+{32 + 8 * n}, stage {n} of 3" for n in range(3)),
    ]
    assert set(names(of, "mbarrier.try_wait")) == {
        "full mbarrier bars+8, 3 stages",
        "empty mbarrier bars+32, 3 stages",
    }


def test_an_mbarrier_that_its_waiters_arrive_at_is_not_called_empty() -> None:
    """All threads issue a multiplication and wait for it before the next copy: the mbarrier reports the multiplication."""
    of = model(
        f"""
    ld.param.u64 %rd0, [pointer];
    mov.u32 %r0, %tid.x;
    setp.eq.u32 %p0, %r0, 0;
    @%p0 mbarrier.init.shared::cta.b64 [bars], 1;
    @%p0 mbarrier.init.shared::cta.b64 [bars+16], 128;
    bar.sync 0;
    mov.u32 %r5, 0;
again:
    mbarrier.arrive.shared::cta.b64 _, [bars+16];
spin:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [bars+16], 0;
    @!%p1 bra spin;
    @%p0 {COPY.format("_ZZ4gemmE6smem_a", 1024, "bars")}
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p2, %r5, 9;
    @%p2 bra again;
    ret;
""",
        before=SHARED,
    )
    assert of_each(of, "mbarrier.try_wait") == "mbarrier bars+16"
    assert of_each(of, "cp.async.bulk") == "smem_a+0..1024; full mbarrier bars"


def test_reads_and_writes_of_one_instruction_are_distinguished() -> None:
    of = model(
        """
    mov.u32 %r1, _ZZ4gemmE6smem_a;
    cvt.u64.u32 %rd1, %r1;
    shr.u64 %rd1, %rd1, 4;
    add.u64 %rd2, %rd1, 128;
    mov.u32 %r2, 16;
    tcgen05.mma.cta_group::1.kind::f16 [%r2], %rd1, %rd2, 69206032, %p1;
    ret;
""",
        before=SHARED,
    )
    site = next(i for i, ins in enumerate(of.function.instructions) if ins.name == "tcgen05.mma")
    found = of.fact(ObjectNames)
    assert found.about(site) == "reads smem_a+0.. and smem_a+2048..; writes tensor memory columns 16..144"
    assert found.accessed(site, writes=False) == "smem_a+0.. and smem_a+2048.."
    assert found.accessed(site, writes=True) is None
    assert found.accessed(site, writes=True, tensor=True) == "tensor memory columns 16..144"


def test_every_step_of_a_finding_has_its_object() -> None:
    body = """
    .shared .align 4 .b8 tile[1024];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, tile;
    mad.lo.u32 %r2, %r0, 4, %r1;
    st.shared.b32 [%r2], %r0;
    xor.b32 %r3, %r0, 127;
    mad.lo.u32 %r3, %r3, 4, %r1;
    ld.shared.b32 %r4, [%r3];
    ld.param.u64 %rd0, [pointer];
    st.global.b32 [%rd0], %r4;
    ret;
"""
    (finding,) = (f for f in lint(module(kernel(body))).findings if f.rule.id == "SM001")
    assert [(s.role, s.object) for s in finding.steps] == [(None, "tile+0..512")] * 2
