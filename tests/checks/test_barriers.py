"""The operands of barriers."""

from __future__ import annotations

import pytest

from tests.tools.support import by_rule, kernel, lint, module


def text(body: str, directives: str) -> str:
    return module(kernel(f"{body}\nret;", directives=directives))


@pytest.mark.parametrize(
    ("body", "directives", "says"),
    [
        ("bar.sync 1, 256;", ".reqntid 128", "expects 256 threads, but the CTA has only 128:"),
        ("bar.sync 1, 256;", ".maxntid 64, 2", "expects 256 threads, but the CTA has at most 128:"),
        ("bar.arrive 1, 256;", ".reqntid 128", "expects 256 threads"),
        ("barrier.red.popc.u32 %r1, 1, 256, %p1;", ".reqntid 128", "expects 256 threads"),
        ("bar.sync 1, 256;", ".reqntid 16, 16", ""),
        ("bar.sync 1, 1024;", "", ""),
        ("bar.sync 1, 128;", ".reqntid 97", ""),
        ("bar.sync 1, 0;", ".reqntid 128", ""),
        ("mov.b32 %r1, 192; bar.sync 1, %r1;", ".reqntid 128", "expects 192 threads"),
        (
            "mov.b32 %r1, 48; bar.sync 1, %r1;",
            ".reqntid 128",
            "bar.sync: the thread count is 48, but must be a multiple of 32 from 0 to 1024",
        ),
        ("mov.b32 %r1, -32; bar.sync 1, %r1;", ".reqntid 128", "bar.sync: the thread count is"),
        (
            "mov.b32 %r1, 16; bar.sync %r1;",
            ".reqntid 128",
            "bar.sync: the barrier index is 16, but must be 0 to 15",
        ),
        ("bar.sync 16;", ".reqntid 128", ""),
        ("ld.param.u32 %r1, [number]; bar.sync %r1, %r1;", ".reqntid 128", ""),
        ("mov.u32 %r1, %tid.x; setp.gt.u32 %p1, %r1, 200; @%p1 bar.sync 1, 256;", ".reqntid 128", ""),
        (
            "ld.param.u32 %r1, [number]; rem.u32 %r2, %r1, 7; setp.gt.u32 %p1, %r2, 8; @%p1 bar.sync 1, 256;",
            ".reqntid 128",
            "",
        ),
        ("barrier.cluster.arrive; bar.warp.sync -1;", ".reqntid 32", ""),
        ("bar.warp.sync -1; bar.arrive 1, 256; bar.warp.sync -1;", ".reqntid 128", "expects 256 threads"),
    ],
)
def test_operands_of_a_barrier(body: str, directives: str, says: str) -> None:
    found = by_rule(lint(text(body, directives)), "CV010")
    assert len(found) == bool(says)
    assert not found or says in found[0].message


def test_equal_mistakes_are_one_finding() -> None:
    (finding,) = by_rule(lint(text("bar.sync 1, 256;\nbar.sync 2, 256;", ".reqntid 128")), "CV010")
    assert finding.count == 2


HALF = "mov.u32 %r0, %tid.x;\nsetp.lt.u32 %p0, %r0, 64;\n"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("@%p0 bra half;\nbar.arrive 1, 128;\nret;\nhalf:\nbar.sync 1, 128;", ""),
        ("@%p0 bra half;\nbar.arrive 1, 128;\nret;\nhalf:\nbar.sync 1, 96;", "waits for 96 threads at barrier 1, but at most 64"),
        ("@%p0 bra half;\nbar.arrive 2, 128;\nret;\nhalf:\nbar.sync 1, 64;", "arrives at barrier 2, at which no thread"),
        ("@%p0 bar.sync 1, 64;\n@!%p0 bar.sync 1, 64;", ""),
        ("@%p0 bar.sync 1, 128;", "waits for 128 threads at barrier 1, but at most 64"),
        ("@%p0 bar.sync 1, 64;\nbar.sync 1, 128;", ""),
        ("bar.sync 1, 96;\nbar.sync 1, 128;", "waits for 128 threads at barrier 1, but at most 96"),
        ("@%p0 bra half;\nagain:\nbar.arrive 1, 256;\nld.param.u32 %r1, [number];\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra again;\nret;\nhalf:\nbar.sync 1, 256;", ""),
        ("ld.param.u32 %r1, [number];\n@%p0 bar.sync %r1, 128;\n@!%p0 bar.arrive 1, 128;", ""),
        ("ld.param.u32 %r1, [number];\n@%p0 bar.sync 1, 128;\n@!%p0 bar.arrive 1, %r1;", ""),
    ],
)  # fmt: skip
def test_a_barrier_that_as_many_threads_reach_as_it_counts(body: str, says: str) -> None:
    found = by_rule(lint(text(HALF + body, ".reqntid 256" if "256" in body else ".reqntid 128")), "CV011")
    assert len(found) == bool(says), [f.message for f in found]
    assert not found or says in found[0].message
