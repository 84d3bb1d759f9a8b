"""Answers of values that a proof rests on are tried by an interpreter of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.random_kernels import ROOTS, with_root
from tclint.findings.verdicts import HazardClass, Status, Verdict
from tclint.verdicts import verdicts
from tests.tools.support import analysed, kernel, module

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "wrong_proofs"
BARRIER = "@%p1 bar.sync 0;"
SIGNED = """mov.u32 %r1, %tid.x;
cvt.u64.u32 %rd1, %r1;
shl.b64 %rd2, %rd1, 32;
shr.s64 %rd3, %rd2, 30;
setp.lt.s64 %p1, %rd3, 128;
@%p1 bar.sync 0;"""
"""The first 32 of 128 threads wait, by four times the sign-extended index of each."""
EXTENDED = """ld.param.u32 %r9, [number];
ld.param.u64 %rd1, [pointer];
mov.u32 %r3, smem;
sub.s32 %r1, %r9, 1;
setp.eq.s32 %p1, %r1, -1;
cvt.u64.u32 %rd2, %r1;
add.s64 %rd3, %rd2, 1;
setp.eq.s64 %p2, %rd3, 0;
@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r3], 128;
@%p1 cp.async.bulk.commit_group;
@%p2 cp.async.bulk.wait_group 0;"""
"""A copy is issued if number - 1 is -1, and waited for if its zero extension plus 1 is 0, which it never is."""
ALLOCATED = """ld.param.u64 %rd1, [pointer];
mov.u32 %r3, smem;
ld.shared.b32 %r1, [%r3+512];
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r3+512], 32;
ld.shared.b32 %r2, [%r3+512];
setp.eq.u32 %p1, %r1, 5;
setp.eq.u32 %p2, %r2, 5;
@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r3], 128;
@%p1 cp.async.bulk.commit_group;
@%p2 cp.async.bulk.wait_group 0;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 32;"""
ROWS = """mov.u32 %r1, %tid.y;
setp.eq.u32 %p1, %r1, 0;
@!%p1 bra over;
bar.sync 0;
over:"""
WRONG = {
    "W1": (SIGNED, ".reqntid 128", HazardClass.CONVERGENCE),
    "W2": (EXTENDED, ".reqntid 128", HazardClass.BULK),
    "W3": (ALLOCATED, ".reqntid 32", HazardClass.BULK),
    "W4": (ROWS, ".maxntid 256", HazardClass.CONVERGENCE),
}
"""A mistake of values -> a kernel that violates a class, and that is proved with the mistake."""


def verdict(body: str, directives: str, hazard: HazardClass) -> Verdict:
    shared = ".shared .align 128 .b8 smem[1024];"
    text = module(shared, kernel(f"{body}\nret;", directives=directives))
    (found,) = verdicts(analysed(text), only=[hazard])
    return found


@pytest.mark.parametrize("root", WRONG)
def test_a_mistake_of_values_makes_no_proof(root: str) -> None:
    with with_root(root, trusting=True):
        assert verdict(*WRONG[root]).status is Status.PROVED
    with with_root(root):
        found = verdict(*WRONG[root])
    assert found.status is Status.UNKNOWN
    assert any("exact" in reason.what for reason in found.reasons)


def test_without_the_mistakes_nothing_is_contradicted() -> None:
    assert {"W5"} == ROOTS.keys() - WRONG.keys()
    right = SIGNED.replace("@%p1 ", "")
    assert verdict(right, ".reqntid 128", HazardClass.CONVERGENCE).status is Status.PROVED


INFEASIBLE = """ld.param.u32 %r9, [number];
ld.param.u64 %rd1, [pointer];
mov.u32 %r3, smem;
mov.u32 %r2, 0;
loop:
add.u32 %r2, %r2, 1;
setp.lt.u32 %p3, %r2, TRIPS;
@%p3 bra loop;
setp.eq.s32 %p1, %r9, 7;
setp.lt.s32 %p2, %r9, 8;
@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r3], 128;
@%p1 cp.async.bulk.commit_group;
@%p2 cp.async.bulk.wait_group 0;"""
"""A copy whose wait no thread skips, after a loop."""


@pytest.mark.parametrize(("trips", "status"), [("100", Status.PROVED), ("5000", Status.UNKNOWN)])
def test_no_proof_rests_on_a_path_that_fewer_than_fifty_runs_tried(trips: str, status: Status) -> None:
    found = verdict(INFEASIBLE.replace("TRIPS", trips), ".reqntid 128", HazardClass.BULK)
    assert found.status is status
    assert status is Status.PROVED or "only 0 of the 50 launches" in found.reasons[0].what


@pytest.mark.parametrize("name", sorted(p.name for p in CASES.glob("w[1-4]*.ptx")) or ["-"])
def test_no_wrong_proof_of_the_cases_is_shown(name: str) -> None:
    if name == "-":
        pytest.skip("../shared is not beside the checkout")
    text = (CASES / name).read_text()
    hazard = HazardClass(text.split("class ", 1)[1].split(":", 1)[0])
    found = {v.hazard: v.status for v in verdicts(analysed(text))}
    assert found[hazard] is not Status.PROVED
