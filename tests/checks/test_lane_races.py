"""SM002 on small kernels; its page holds the plain cases."""

from __future__ import annotations

import pytest

from tclint.findings.scales import Severity
from tclint.findings.selection import Selected
from tests.tools.support import by_rule, kernel, lint, module

START = """
    .shared .align 128 .b8 tile[8192];
    mov.u32 %r0, %tid.x;
    ld.param.u64 %rd0, [pointer];
    and.b32 %r1, %r0, 31;
    shr.u32 %r2, %r0, 5;
    shl.b32 %r2, %r2, 10;
    mov.u32 %r3, tile;
    add.u32 %r3, %r3, %r2;
    shl.b32 %r4, %r1, 2;
    add.u32 %r5, %r3, %r4;
    xor.b32 %r6, %r4, 124;
    add.u32 %r6, %r6, %r3;
    setp.eq.u32 %p0, %r1, 0;
"""
WRITE = "st.shared.u32 [%r5], %r0;"
READ = "ld.shared.u32 %r7, [%r6];"
MATRIX = (
    "wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%r3], {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, %r9;"
)
STRIDE = "mov.u32 %r9, {};\n"


def exchanged(body: str, target: str = "sm_80") -> bool:
    text = module(
        kernel(f"{START}\n{body}\nst.global.u32 [%rd0], %r7;\nret;"),
        header=f".version 7.1\n.target {target}\n.address_size 64\n",
    )
    findings = by_rule(lint(text), "SM002")
    assert all(f.confidence.label == "low" for f in findings)
    return bool(findings)


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        (f"{WRITE}\n{READ}", True),
        (f"@%p0 {WRITE}\nld.shared.u32 %r7, [%r3];", True),
        (f"@%p0 {WRITE}\n@!%p0 ld.shared.u32 %r7, [%r3];", False),
        ("red.shared.add.u32 [%r3], 1;\nld.shared.u32 %r7, [%r3];", True),
        (f"{WRITE}\nbar.warp.sync -1;\n{READ}", False),
        (f"{WRITE}\nbar.sync 0;\n{READ}", False),
        (f"{WRITE}\nshfl.sync.idx.b32 %r8, %r0, 0, 31, -1;\n{READ}", False),
        (f"{WRITE}\nld.shared.u32 %r7, [%r5];", False),
        (f"@%p0 {WRITE}\n@%p0 ld.shared.u32 %r7, [%r3];", False),
        (f"{WRITE}\nld.shared.u32 %r7, [%r5+4096];", False),
        (f"{WRITE}\nld.volatile.shared.u32 %r7, [%r6];", False),
        (f"{READ}\n{WRITE}", False),
    ],
)
def test_a_lane_reads_what_another_lane_wrote(body: str, wrong: bool) -> None:
    assert exchanged(body) is wrong


def test_lanes_of_old_targets_run_in_step() -> None:
    assert exchanged(f"{WRITE}\n{READ}", "sm_70")
    assert not exchanged(f"{WRITE}\n{READ}", "sm_60")


@pytest.mark.parametrize(
    ("stride", "offset", "wrong"), [(16, 512, True), (32, 32, True), (32, 512, False), (16, 1024, False)]
)
def test_the_bytes_of_a_matrix_depend_on_its_stride(stride: int, offset: int, wrong: bool) -> None:
    """Rows with gaps between them count with the first row only."""
    assert exchanged(f"{STRIDE.format(stride)}{MATRIX}\nld.shared.u32 %r7, [%r3+{offset}];") is wrong


COPY = "cp.async.ca.shared.global [%r5], [%rd0], 4;\ncp.async.commit_group;"
WAIT = "cp.async.wait_group 0;"


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        (f"{COPY}\n{WAIT}\n{READ}", True),
        (f"{COPY}\nbar.sync 0;\n{WAIT}\n{READ}", True),
        (f"{COPY}\ncp.async.wait_all;\n{READ}", True),
        (f"{COPY}\n{WAIT}\nbar.warp.sync -1;\n{READ}", False),
        (f"{COPY}\n{WAIT}\nbar.sync 0;\n{READ}", False),
        (f"{COPY}\n{WAIT}\nld.shared.u32 %r7, [%r5];", False),
        (f"{COPY}\n{WAIT}\nld.shared.u32 %r7, [%r5+4096];", False),
    ],
)
@pytest.mark.parametrize("strict", [False, True])
def test_a_lane_reads_what_another_lane_copied_and_waited_for(body: str, wrong: bool, strict: bool) -> None:
    """The manual demands a barrier of the lanes; hardware waits for the copies of the warp, so it is a note."""
    text = module(
        kernel(f"{START}\n{body}\nst.global.u32 [%rd0], %r7;\nret;", directives=".reqntid 32"),
        header=".version 7.1\n.target sm_80\n.address_size 64\n",
    )
    severity = Severity.WARNING if strict else Severity.INFO
    findings = by_rule(lint(text, selected=Selected(strict=strict)), "SM002")
    assert [f.severity for f in findings] == ([severity] if wrong else [])
