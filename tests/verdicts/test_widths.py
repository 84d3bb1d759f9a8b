"""Proofs and findings that depend on the upper half of a 64-bit number."""

from __future__ import annotations

import pytest

from tclint.findings.verdicts import HazardClass, Status
from tclint.verdicts import verdicts
from tests.tools.support import analysed, found, kernel, lint, module

INDEX = "mov.u32 %r1, %tid.x;\nmov.u32 %r2, tile;\nshl.b32 %r3, %r1, 2;\nadd.u32 %r3, %r3, %r2;\n"
EXTENDED = "cvt.u64.u32 %rd1, %r1;\nshl.b64 %rd2, %rd1, 32;\nshr.s64 %rd3, %rd2, 32;\n"
THIRD = "mul.wide.u32 %rd1, %r1, -1431655765;\nshr.u64 %rd2, %rd1, 33;\ncvt.u32.u64 %r4, %rd2;\n"
LOADED_AND_STORED = "ld.shared.u32 %r8, [{at}];\nst.shared.u32 [%r3+4], %r8;\n"
SOURCE_IS_READ = """@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd9], [%r2], 128;
@%p1 cp.async.bulk.commit_group;
@%p2 cp.async.bulk.wait_group 0;
"""
PARAMETERS = "ld.param.u64 %rd9, [out];\nld.param.u32 %r5, [n];\nld.param.u32 %r6, [m];\n"
VARIABLES = """.shared .align 1024 .b32 tile[256];
.shared .align 8 .b64 signal;
.shared .align 4 .b32 slot;
"""


def text(body: str) -> str:
    entry = kernel(
        f"{INDEX}{PARAMETERS}{body}\nret;", parameters=".param .u64 out, .param .u32 n, .param .u32 m"
    )
    return module(VARIABLES, entry)


@pytest.mark.parametrize(
    ("hazard", "body"),
    [
        (HazardClass.CONVERGENCE, f"{EXTENDED}setp.ge.s64 %p1, %rd3, 40;\n@%p1 bra past;\nbar.sync 0;\npast:"),
        (HazardClass.CONVERGENCE, f"{THIRD}setp.ne.u32 %p1, %r4, 0;\n@%p1 bra past;\nbar.sync 0;\npast:"),
        (HazardClass.CONVERGENCE, "cvt.u64.u32 %rd1, %r1;\nshl.b64 %rd2, %rd1, 32;\nsetp.ne.u64 %p1, %rd2, 0;\n@%p1 bra past;\nbar.sync 0;\npast:"),
        (HazardClass.CONVERGENCE, "mul.wide.u32 %rd1, %r1, 1073741824;\nbfe.u64 %rd2, %rd1, 32, 8;\nsetp.ne.u64 %p1, %rd2, 0;\n@%p1 bra past;\nbar.sync 0;\npast:"),
        (HazardClass.SHARED_MEMORY, f"{EXTENDED}shl.b64 %rd3, %rd3, 2;\ncvt.u64.u32 %rd4, %r2;\nadd.s64 %rd5, %rd4, %rd3;\n{LOADED_AND_STORED.format(at='%rd5')}"),
        (HazardClass.SHARED_MEMORY, f"{THIRD}shl.b32 %r4, %r4, 2;\nadd.u32 %r4, %r4, %r2;\n{LOADED_AND_STORED.format(at='%r4')}"),
        (HazardClass.BULK, f"sub.s32 %r4, %r5, %r6;\nsetp.eq.s32 %p1, %r4, -1;\ncvt.u64.u32 %rd1, %r4;\nadd.s64 %rd2, %rd1, 1;\nsetp.eq.s64 %p2, %rd2, 0;\n{SOURCE_IS_READ}"),
        (HazardClass.BULK, f"add.s32 %r4, %r5, -1;\ncvt.u64.u32 %rd1, %r4;\ncvt.u64.u32 %rd2, %r6;\nadd.s64 %rd3, %rd2, -1;\nsetp.eq.s64 %p2, %rd1, %rd3;\nsetp.eq.s32 %p1, %r5, %r6;\n{SOURCE_IS_READ}"),
        (HazardClass.BULK, f"ld.shared.u32 %r4, [slot];\ntcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;\nld.shared.u32 %r7, [slot];\nsetp.eq.u32 %p1, %r4, 5;\nsetp.eq.u32 %p2, %r7, 5;\n{SOURCE_IS_READ}"),
    ],
)  # fmt: skip
def test_what_only_the_low_half_proves_is_not_proved(hazard: HazardClass, body: str) -> None:
    (verdict,) = verdicts(analysed(text(body)), only=[hazard])
    assert verdict.status is Status.UNKNOWN


@pytest.mark.parametrize(
    "body",
    [
        f"{EXTENDED}setp.lt.s64 %p1, %rd3, 128;\n@!%p1 bra past;\nbar.sync 0;\npast:",
        f"{THIRD}setp.lt.u32 %p1, %r4, 43;\n@!%p1 bra past;\nbar.sync 0;\npast:",
    ],
)
def test_what_the_whole_number_proves_is_proved(body: str) -> None:
    (verdict,) = verdicts(analysed(text(body)), only=[HazardClass.CONVERGENCE])
    assert verdict.status is Status.PROVED


ALLOCATED = """@!%p1 bra a;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
a: bar.sync 0;
ld.shared.b32 %r9, [slot];
bar.sync 0;
@!%p1 bra b;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r9, 32;
b:
"""
SIGNALLED = """mov.u32 %r9, signal;
setp.eq.u32 %p2, %r1, 0;
@%p2 mbarrier.init.shared.b64 [%r9], {count};
bar.sync 0;
@%p1 mbarrier.arrive.shared.b64 %rd9, [%r9];
w: mbarrier.try_wait.parity.shared.b64 %p3, [%r9], 0;
@!%p3 bra w;
"""


@pytest.mark.parametrize(
    "body",
    [
        f"{EXTENDED}setp.lt.s64 %p1, %rd3, 32;\n{ALLOCATED}",
        f"{EXTENDED}setp.eq.s64 %p1, %rd3, 0;\n{SIGNALLED.format(count=1)}",
        f"{THIRD}setp.eq.u32 %p1, %r4, 0;\n{SIGNALLED.format(count=3)}",
        f"{EXTENDED}setp.lt.s64 %p1, %rd3, 32;\nshl.b32 %r4, %r1, 5;\nadd.u32 %r4, %r4, %r2;\n@%p1 st.shared.u32 [%r4], 1;",
    ],
)
def test_working_kernels_that_extend_or_divide_the_index(body: str) -> None:
    """All threads would allocate, arrive, and store far past the end if the predicate held in all of them."""
    assert found(lint(text(body))) == []
