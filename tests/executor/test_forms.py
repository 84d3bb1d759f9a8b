"""Which forms of the ISA table the executor does not execute, and why; and how an execution ends that meets one."""

from __future__ import annotations

import tclint.executor.instructions  # noqa: F401  registers the factories
from tclint.executor.decode import FORMS
from tclint.isa.table import table
from tests.tools.execution import run

OPAQUE = "textures and surfaces are objects of the driver"
LAYOUT = "the manual leaves open which register holds which element"
MULTICAST = "a multicast object spans several devices"
VIDEO = "no compiler of today emits video instructions"
STACK = "no compiler of today emits it, and what it allocates has no bound"
FABRIC = "the memory of an endpoint is that of another device"
NEW = "newer than every kernel at hand, and nothing to compare with"

MISSING = {
    **dict.fromkeys("tex tex.depth tex.cube tex.multisample tld4 tld4.cube txq istypep".split(), OPAQUE),
    **dict.fromkeys("suld sust sust.formatted sured suq".split(), OPAQUE),
    **dict.fromkeys("wmma.load wmma.store wmma.mma.f16 wmma.mma.f32 wmma.mma.f64".split(), LAYOUT),
    **dict.fromkeys("wmma.mma.s8 wmma.mma.s4 wmma.mma.b1".split(), LAYOUT),
    **dict.fromkeys("multimem.ld_reduce multimem.st multimem.red".split(), MULTICAST),
    **dict.fromkeys("multimem.cp.async.bulk multimem.cp.reduce.async.bulk".split(), MULTICAST),
    **dict.fromkeys("video.scalar video.shift vmad vset video.simd2 video.simd4 vset.simd".split(), VIDEO),
    **dict.fromkeys("stacksave stackrestore alloca".split(), STACK),
    **dict.fromkeys("cvt.rs cvt.ue5m3x2 spcompress spdecompress tcgen05.ld.spcompress".split(), NEW),
    **dict.fromkeys("tcgen05.alloc.exclusive tcgen05.dealloc.exclusive tcgen05.commit.reads".split(), NEW),
    **dict.fromkeys(
        "mbarrier.arrive.multicast mbarrier.expect_tx.multicast mbarrier.complete_tx.multicast".split(), NEW
    ),
    **dict.fromkeys("applypriority.async.bulk applypriority.async.bulk.tensor".split(), NEW),
    **dict.fromkeys(
        "set.packed cvt.pzo cvt.scaled.n1 add.f8x4 fma.f8x4 ldmatrix.s4 tensormap.query".split(), NEW
    ),
    **dict.fromkeys("multimem.st.async multimem.red.async".split(), MULTICAST),
    **dict.fromkeys(
        "fabric.try_get fabric.try_put fabric.try_red fabric.try_pullred fabric.try_atom".split(), FABRIC
    ),
    **dict.fromkeys(
        "fabric.try_get.tensor fabric.try_put.tensor fabric.submit fabric.submit.commit_group".split(), FABRIC
    ),
    **dict.fromkeys("fabric.wait.reads fabric.wait.read fence.proxy.fabric".split(), FABRIC),
}
"""Form -> why there is no factory for it."""


def test_the_forms_that_are_not_executed() -> None:
    assert set(table().forms) - set(FORMS) == set(MISSING)


def test_every_factory_is_for_a_form() -> None:
    assert set(FORMS) <= set(table().forms)


def test_an_execution_ends_at_what_cannot_be_executed_and_not_before() -> None:
    branch = "setp.gt.u32 %p0, %r199, {};\n@%p0 vadd.u32.u32.u32 %r0, %r199, %r199;\nst.global.u32 [%rd62], 1;\nret;"
    found = run(branch.format(30))
    assert found.execution.end == "unsupported"
    assert found.execution.reason == (
        "instruction 7: vadd.u32.u32.u32: the executor does not implement the form video.scalar"
    )
    assert found.lines[found.execution.site].startswith("@%p0 vadd")
    assert run(branch.format(31)).execution.end == "done"


def test_a_variant_that_cannot_be_executed_says_so() -> None:
    found = run("tcgen05.cp.cta_group::1.128x256b.b8x16.b4x16_p64 [%r0], %rd0;\nret;")
    assert found.execution.end == "unsupported"
    assert found.execution.reason.endswith(": tcgen05.cp.b8x16.b4x16_p64")


def test_an_opcode_that_no_form_has() -> None:
    found = run("frobnicate.u32 %r0, %r1;\nret;")
    assert found.execution.end == "unsupported"
    assert found.execution.reason == "instruction 6: frobnicate.u32: not in the ISA table"
