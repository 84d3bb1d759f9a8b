"""Correct code that a literal reading of the manual would report. Each of these kernels is silent.

Most traps are blocks under *Correct* on the page of a rule, which tests/checks/test_rule_pages.py keeps silent; they are named here.
"""

from __future__ import annotations

import re

import pytest

from tclint.findings.rules import all_rules
from tests.tools.support import found, kernel, lint, module

BLOCKS = {
    "guards that say the same are written twice": "TC005 same_test_again",
    "one warp elects the same lane each time": "TC005 elected_twice",
    "a thread commits what it has issued under another election": "TC008 commits_its_own",
    "roles of one warpgroup with a setmaxnreg each": "CV004 roles_of_one_warpgroup",
    "words that all threads load from one address": "CV001 uniform_conditions",
    "a named barrier in the branch of a role": "CV001 named_barrier",
    "a barrier whose count exceeds the threads of its branch": "CV010 producer_and_consumer",
    "the warp that waits is not the one that commits": "TC001 other_warp_waits",
    "a barrier passes on that the multiplication is complete": "TC001 relayed",
    "two accumulators in turn": "TC001 other_columns",
    "copies of accumulators in flight": "WG001 chain_and_copies",
    "zeroes between the fence and the multiplication": "WG002 zeroed_behind_the_fence",
    "the first iteration of a pipeline waits for nothing": "WG005 pipelined_loop",
    "the address of an allocation is loaded twice": "TM003 loaded_again",
    "a copy that another thread's multiplication follows": "TC005 handed_over",
    "a barrier that does not hand over tensor memory": "TC002 barrier_for_something_else",
    "a handshake of two CTAs by mbarriers": "TM011 handshake",
}


@pytest.mark.parametrize("trap", BLOCKS)
def test_the_trap_is_on_a_page(trap: str) -> None:
    rule, name = BLOCKS[trap].split()
    codes = [block.code for block in all_rules()[rule].corrections]
    assert any(re.search(rf"\.entry {name}\b", code) for code in codes)


ALLOCATED = """
    .shared .align 8 .b64 done; .shared .align 4 .b32 slot; .shared .align 4 .b8 roles[16];
    mov.u32 %r0, %tid.x;
    shr.u32 %r1, %r0, 5;
    setp.eq.u32 %p1, %r0, 0;
    setp.lt.u32 %p2, %r0, 32;
    setp.ne.u32 %p0, %r0, %r0;
    @%p1 mbarrier.init.shared::cta.b64 [done], 1;
    @%p2 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 128;
    bar.sync 0;
    ld.shared.b32 %r9, [slot];
    ld.param.u64 %rd0, [pointer];
    mov.b32 %r7, 0x08200490;
"""
MMA = "tcgen05.mma.cta_group::1.kind::f16 [%r9], %rd0, %rd0, %r7, %p0;"
COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [done];"
READ = """
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p9, [done], 0;
    @!%p9 bra wait;
    tcgen05.fence::after_thread_sync;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r20}, [%r9];
    tcgen05.wait::ld.sync.aligned;
    st.shared.b32 [roles], %r20;
"""
FREED = """
    bar.sync 0;
    @%p2 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r9, 128;
    ret;
"""

KERNELS = {
    # One role issues, the other one reads; both return to the table, and no fact goes from one to the other.
    "roles from a table in shared memory": f"""
    {ALLOCATED}
    mov.u32 %r3, roles;
    add.s32 %r4, %r3, %r1;
next:
    ld.shared.s8 %r5, [%r4];
    ts: .branchtargets issue, read, done_with_it;
    brx.idx %r5, ts;
issue:
    elect.sync _|%p3, -1;
    @%p3 {MMA}
    @%p3 {COMMIT}
    bra next;
read:
    {READ}
    bra next;
done_with_it:
    {FREED}""",
    # Two roles of one warpgroup, each with a setmaxnreg, which no warp executes one after the other.
    "setmaxnreg in roles from a table": """
    .shared .align 4 .b8 roles[16];
    mov.u32 %r0, %tid.x;
    shr.u32 %r1, %r0, 5;
    mov.u32 %r3, roles;
    add.s32 %r4, %r3, %r1;
    ld.param.u32 %r2, [number];
    st.shared.b8 [%r4], %r2;
    setmaxnreg.dec.sync.aligned.u32 24;
next:
    ld.shared.s8 %r5, [%r4];
    ts: .branchtargets one, two, over;
    brx.idx %r5, ts;
one:
    setmaxnreg.inc.sync.aligned.u32 120;
    bra next;
two:
    setmaxnreg.dec.sync.aligned.u32 24;
    bra next;
over:
    ret;""",
    # The role is a range of warps, and each test of it is written in another way.
    "one role by two comparisons": f"""
    {ALLOCATED}
    setp.gt.s32 %p4, %r1, 0;
    @%p4 bra reads;
    elect.sync _|%p3, -1;
    @%p3 {MMA}
    setp.lt.s32 %p5, %r1, 1;
    and.pred %p6, %p5, %p3;
    @%p6 {COMMIT}
reads:
    {READ}
    {FREED}""",
    # Every thread writes the same number to one word.
    "equal words from all threads": """
    .shared .align 4 .b8 roles[16];
    mov.u32 %r1, 33554689;
    st.shared.b32 [roles], %r1;
    barrier.sync 1, 128;
    ld.shared.b8 %r2, [roles];
    ret;""",
    # A bulk store whose group is committed and never waited for, as some kernels end.
    "a bulk store without a wait": """
    .shared .align 128 .b8 tile[1024];
    mov.u32 %r0, %tid.x;
    setp.eq.u32 %p1, %r0, 0;
    ld.param.u64 %rd0, [pointer];
    mul.lo.u32 %r1, %r0, 8;
    mov.u32 %r2, tile;
    add.u32 %r1, %r2, %r1;
    st.shared.v2.b32 [%r1], {%r0, %r0};
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd0], [tile], 1024;
    @%p1 cp.async.bulk.commit_group;
    ret;""",
}


@pytest.mark.parametrize("trap", KERNELS)
def test_the_kernel_is_silent(trap: str) -> None:
    directives = ".reqntid 128\n.maxnreg 128" if "setmaxnreg" in KERNELS[trap] else ".reqntid 128"
    report = lint(module(kernel(KERNELS[trap], directives=directives)))
    assert report.status == "analysed", report.problems
    assert found(report, low=False) == [], [finding.message for finding in report.findings]
