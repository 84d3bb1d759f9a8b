"""The rules of proxies on small kernels; the pages of the rules hold the plain cases."""

from __future__ import annotations

import pytest

from tclint.analyses import overlaps
from tclint.findings.rules import all_rules
from tclint.findings.scales import Confidence, Severity
from tclint.findings.selection import Selected
from tests.tools import pages
from tests.tools.support import agrees, by_rule, found, kernel, lint, module

HEADER = ".version 8.6\n.target sm_90a\n.address_size 64\n"
START = """
    .shared .align 1024 .b8 tile[8192];
    .shared .align 8 .b64 full;
    mov.u32 %r0, %tid.x;
    ld.param.u64 %rd4, [pointer];
    ld.param.u32 %r9, [number];
    cvta.to.global.u64 %rd5, %rd4;
    mad.wide.u32 %rd6, %r0, 16, %rd5;
    mov.u32 %r1, tile;
    shl.b32 %r2, %r0, 4;
    add.u32 %r3, %r1, %r2;
    shr.u32 %r4, %r1, 4;
    and.b32 %r4, %r4, 16383;
    cvt.u64.u32 %rd0, %r4;
    or.b64 %rd0, %rd0, 68720001024;
    add.s64 %rd1, %rd0, 128;
    setp.eq.u32 %p1, %r0, 0;
    setp.lt.u32 %p2, %r0, 32;
"""
STORE = "st.shared.v4.b32 [%r3], {%r5, %r5, %r5, %r5};"
ELSEWHERE = "st.shared.v4.b32 [%r3+4096], {%r5, %r5, %r5, %r5};"
MATRIX = "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r3], {%r5};"
ATOM = "atom.shared.add.u32 %r5, [%r3], 1;"
COPY = "cp.async.cg.shared.global [%r3], [%rd6], 16;"
DONE = "cp.async.commit_group;\ncp.async.wait_group 0;"
FENCE = "fence.proxy.async.shared::cta;"
SYNC = "bar.sync 0;"
MMA = """
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd0, %rd1, 0, 1, 1, 0, 0;"""
DRAIN = """
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;"""
OUT = "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd5], [%r1], 2048;"
OTHER = "setp.eq.u32 %p4, %r0, 32;"
SENT = "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;"
IN = "@%p1 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd5], 2048, [full];"
PASS = "wait: mbarrier.try_wait.parity.shared.b64 %p3, [full], 0;\n@!%p3 bra wait;"
READ = "ld.shared.u32 %r6, [%r3];\nst.global.u32 [%rd6], %r6;"


def text(body: str, **options: str) -> str:
    return module(
        kernel(f"{START}\n{body}\n{DRAIN}\n{SENT}\ncp.async.wait_all;\nret;", **options), header=HEADER
    )


CASES = {
    "fenced by the writers": f"{STORE}\n{FENCE}\n{SYNC}\n{MMA}",
    "fenced by the issuer": f"{STORE}\n{SYNC}\n{FENCE}\n{MMA}",
    "fenced by the thread that issues alone": f"{STORE}\n{SYNC}\n@%p1 {FENCE}\n{OUT}",
    "fenced for all spaces": f"{STORE}\nfence.proxy.async;\n{SYNC}\n{MMA}",
    "not fenced": f"{STORE}\n{SYNC}\n{MMA} // want PR001",
    "not fenced, bulk store": f"{STORE}\n{SYNC}\n{OUT} // want PR001",
    "not even synchronised": f"{STORE}\n{OUT} // want PR001 PR005",
    "a fence for global memory": f"{STORE}\nfence.proxy.async.global;\n{SYNC}\n{MMA} // want PR001",
    "a fence between aliases": f"{STORE}\nfence.proxy.alias;\n{SYNC}\n{MMA} // want PR001",
    "a fence in front of the stores": f"{FENCE}\n{STORE}\n{SYNC}\n{MMA} // want PR001",
    "a fence on one way": f"{STORE}\nsetp.eq.u32 %p4, %r9, 0;\n@%p4 bra on;\n{FENCE}\non: {SYNC}\n{MMA} // want PR001",
    "a fence of other threads after the barrier": f"{STORE}\n{SYNC}\n{OTHER}\n@%p4 {FENCE}\n{OUT} // want PR001",
    "a fence of other threads before the barrier of the one that issues": f"{STORE}\n@%p1 {FENCE}\n{SYNC}\n{OTHER}\n{OUT.replace('%p1', '%p4')} // want PR001",
    "a fence of the issuing thread alone before the barrier": f"{STORE}\n@%p1 {FENCE}\n{SYNC}\n{OUT} // want PR001",
    "a fence of all writers in different branches": f"{STORE}\n@%p2 bra zero;\n{FENCE}\nbra on;\nzero: {FENCE}\non: {SYNC}\n{OUT}",
    "a fence of one thread, and of another one between two barriers": f"{STORE}\n@%p1 {FENCE}\n{SYNC}\n{OTHER}\n@%p4 {FENCE}\n{SYNC}\n{OUT}",
    "a fence of the issuing thread on both sides of the barrier": f"{STORE}\n@%p1 {FENCE}\n{SYNC}\n@%p1 {FENCE}\n{OUT}",
    "a fence of those that write what is read": f"@%p2 {STORE}\n@%p2 {FENCE}\n{SYNC}\n{OUT.replace('2048', '512')}",
    "a later fence": f"{STORE}\n{SYNC}\n{MMA} // want PR001\n{FENCE}",
    "matrix stores": f"{MATRIX}\n{SYNC}\n{MMA} // want PR001",
    "atomics": f"{ATOM}\n{SYNC}\n{MMA} // want PR001",
    "other bytes": f"{ELSEWHERE}\n{SYNC}\n{MMA}",
    "a generic address": f"cvt.u64.u32 %rd7, %r3;\ncvta.shared.u64 %rd8, %rd7;\nst.u32 [%rd8], %r5;\n{SYNC}\n{MMA} // want PR001",
    "an address that is not known": f"add.u32 %r7, %r3, %r9;\nst.shared.u32 [%r7], %r5;\n{SYNC}\n{MMA}",
    "a scratch that is read in the ordinary way": f"{STORE}\n{SYNC}\nld.shared.u32 %r6, [%r1];\nst.global.u32 [%rd6], %r6;",
    "an mbarrier": f"@%p1 mbarrier.init.shared.b64 [full], 1;\n{SYNC}\n{IN}\n{PASS}\n{FENCE}\n{MMA}",
    "overwritten by a bulk copy": f"{STORE}\n@%p1 mbarrier.init.shared.b64 [full], 1;\n{SYNC}\n{IN}\n@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [full], 2048;\n{PASS}\n{MMA}",
    "a bulk copy elsewhere": f"{ELSEWHERE}\n{STORE}\n@%p1 mbarrier.init.shared.b64 [full], 1;\n{SYNC}\n{IN.replace('[%r1]', '[tile+4096]')}\n@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [full], 2048;\n{PASS}\n{MMA} // want PR001",
    "written by threads that issue nothing": f"setp.ge.u32 %p4, %r0, 64;\n@%p4 {STORE}\n{SYNC}\n{OUT} // want PR001",
    "a copy, fenced": f"{COPY}\n{DONE}\n{FENCE}\n{SYNC}\n{MMA}",
    "a copy": f"{COPY}\n{DONE}\n{SYNC}\n{MMA} // want PR002",
    "a copy to a bulk store": f"{COPY}\n{DONE}\n{SYNC}\n{OUT} // want PR002",
    "a copy, fenced before it is complete": f"{COPY}\n{FENCE}\n{DONE}\n{SYNC}\n{MMA} // want PR002",
    "a copy to other bytes": f"{COPY.replace('%r3', '%r3+4096')}\n{DONE}\n{SYNC}\n{MMA}",
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_proxies(case: str) -> None:
    agrees(text(CASES[case]), "PR")


ROLES = """
    setp.eq.u32 %p1, %r0, 0;
    @%p1 mbarrier.init.shared.b64 [full], 32;
    bar.sync 0;
    setp.ge.u32 %p4, %r0, 32;
    @%p4 bra other;
    {writes}
    bra done;
other:
    {reads}
done:
"""
ISSUE = "setp.eq.u32 %p5, %r0, 32;\n@%p5 cp.async.bulk.global.shared::cta.bulk_group [%rd5], [%r1], 512;"
SIGNAL = "mbarrier.arrive.shared.b64 _, [full];"


def roles(writes: str, reads: str) -> str:
    body = ROLES.format(writes=writes, reads=reads)
    return text(body, directives=".reqntid 64").replace(DRAIN, "")


BETWEEN = {
    "an mbarrier": (f"{STORE}\n{SIGNAL}", f"{PASS}\n{ISSUE} // want PR001"),
    "a fence in the role that writes": (f"{STORE}\n{FENCE}\n{SIGNAL}", f"{PASS}\n{ISSUE}"),
    "a fence in the role that issues": (f"{STORE}\n{SIGNAL}", f"{PASS}\n{FENCE}\n{ISSUE}"),
    "a fence after the arrival": (f"{STORE}\n{SIGNAL}\n{FENCE}", f"{PASS}\n{ISSUE} // want PR001"),
    "other bytes": (f"{ELSEWHERE}\n{SIGNAL}", f"{PASS}\n{ISSUE}"),
    "no arrival": (STORE, f"{PASS}\n{ISSUE}"),
    "stores after the arrival": (f"{SIGNAL}\n{STORE}", f"{PASS}\n{ISSUE} // want PR005"),
    "another mbarrier": (
        f"{STORE}\nmbarrier.arrive.shared.b64 _, [tile+8000];",
        f"{PASS}\n{ISSUE}",
    ),
    "a named barrier": (f"{STORE}\nbar.arrive 1, 64;", f"bar.sync 1, 64;\n{ISSUE} // want PR001"),
    "a barrier of each role": (f"{STORE}\nbar.sync 1, 32;", f"bar.sync 1, 32;\n{ISSUE}"),
    "a named barrier that is used twice": (
        f"{STORE}\nbar.sync 1, 64;\n{FENCE}\nbar.sync 1, 64;",
        f"bar.sync 1, 64;\nbar.sync 1, 64;\n{ISSUE}",
    ),
}


@pytest.mark.parametrize("case", BETWEEN)
def test_between_roles(case: str) -> None:
    agrees(roles(*BETWEEN[case]), "PR")


FILLED = PASS.replace("[full]", "[loaded]").replace("wait:", "come:").replace("bra wait", "bra come")
LOADED = """
    .shared .align 8 .b64 loaded;
    @%p1 mbarrier.init.shared.b64 [tile+8000], 32;
    @%p1 mbarrier.init.shared.b64 [loaded], 1;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [loaded], 512;
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd5], 512, [loaded];"""
IN_PLACE = {
    "waited for, and changed": (f"{FILLED}\n{STORE}\n{SIGNAL}", f"{PASS}\n{ISSUE} // want PR001"),
    "a fence": (f"{FILLED}\n{STORE}\n{FENCE}\n{SIGNAL}", f"{PASS}\n{ISSUE}"),
    # The copy may follow the stores.
    "changed, and waited for": (f"{STORE}\n{FILLED}\n{SIGNAL}", f"{PASS}\n{ISSUE}"),
    # What is signalled on another mbarrier, after the fence, is waited for as well.
    "signalled twice": (
        f"{FILLED}\n{STORE}\n{SIGNAL}\n{FENCE}\n{SIGNAL.replace('full', 'tile+8000')}",
        f"{PASS}\n{PASS.replace('full', 'tile+8000').replace('wait:', 'then:').replace('bra wait', 'bra then')}\n{ISSUE}",
    ),
    "not waited for": (f"{STORE}\n{SIGNAL}", f"{PASS}\n{ISSUE}"),
    "waited for by both": (
        f"{FILLED}\n{STORE}\n{SIGNAL}",
        f"{FILLED.replace('come', 'too')}\n{PASS}\n{ISSUE}",
    ),
}


@pytest.mark.parametrize("case", IN_PLACE)
def test_a_copy_into_bytes_that_another_copy_loaded(case: str) -> None:
    agrees(roles(*IN_PLACE[case]).replace("bar.sync 0;", f"{LOADED}\nbar.sync 0;", 1), "PR001")


def passing(name: str, place: str, parity: int = 0) -> str:
    return f"{name}: mbarrier.try_wait.parity.shared.b64 %p3, [{place}], {parity};\n@!%p3 bra {name};"


@pytest.mark.parametrize(
    ("issue", "wrong"), [(ISSUE, True), (f"{FILLED.replace('come', 'too')}\n{ISSUE}", False), (MMA, False)]
)
def test_a_stage_that_is_taken_when_others_have_read_it(issue: str, wrong: bool) -> None:
    """The thread that waits for the copy releases those that store, and the one that sends the results waits for these alone."""
    free = SIGNAL.replace("full", "tile+8000")
    reads = f"setp.ge.u32 %p6, %r0, 64;\n@%p6 bra third;\n{PASS}\n{issue}\nbra done;\nthird: {FILLED}\n{free}"
    body = roles(f"{passing('go', 'tile+8000')}\n{STORE}\n{SIGNAL}", reads).replace(
        ".reqntid 64", ".reqntid 96"
    )
    assert bool(by_rule(lint(body.replace("bar.sync 0;", f"{LOADED}\nbar.sync 0;", 1)), "PR001")) == wrong


@pytest.mark.parametrize(
    ("third", "awaits", "wrong"),
    [
        (f"{FENCE}\n{SIGNAL}", PASS, False),
        (f"{SIGNAL}", PASS, True),
        (f"{SIGNAL}\n{FENCE}", PASS, True),
        (f"{FENCE}\n{SIGNAL}", "", True),
        (f"{FENCE}\n{SIGNAL}", f"@%p5 bra sent;\n{PASS}\nsent: mov.u32 %r6, 0;", True),
        (f"{FENCE}\n{SIGNAL}", PASS.replace("], 0", "], 1"), True),
    ],
)
def test_a_fence_of_a_third_role_counts_if_the_issuing_role_waits_for_what_follows_it(
    third: str, awaits: str, wrong: bool
) -> None:
    """All threads store; warp 1 executes the fence after the barrier, and warp 0 issues the operation (8.9.5)."""
    body = f"""
    @%p1 mbarrier.init.shared.b64 [full], 32;
    setp.eq.u32 %p5, %r9, 0;
    {STORE}
    bar.sync 0;
    setp.ge.u32 %p4, %r0, 32;
    @%p4 bra other;
    {awaits}
    {OUT}
    bra done;
other:
    {third}
done:
"""
    found = by_rule(lint(text(body, directives=".reqntid 64").replace(DRAIN, "")), "PR001")
    assert bool(found) == wrong


def test_an_arrival_of_the_previous_part_does_not_cover_the_fence() -> None:
    """One role stores in two parts, each with an arrival; the fence between the first two is for the first part."""
    second = SIGNAL.replace("full", "tile+8000")
    writes = (
        f"round: {ELSEWHERE}\n{FENCE}\n{SIGNAL}\n{STORE}\n{second}\n{passing('go', 'tile+7000')}\nbra round;"
    )
    reads = f"again: {passing('one', 'full')}\n{passing('two', 'tile+8000')}\n{ISSUE}\nbra again;"
    begin = "@%p1 mbarrier.init.shared.b64 [tile+8000], 32;\n@%p1 mbarrier.init.shared.b64 [tile+7000], 1;"
    found = lint(roles(writes, reads).replace("bar.sync 0;", f"{begin}\nbar.sync 0;", 1))
    assert by_rule(found, "PR001")
    fenced = writes.replace(second, f"{FENCE}\n{second}")
    assert not by_rule(lint(roles(fenced, reads).replace("bar.sync 0;", f"{begin}\nbar.sync 0;", 1)), "PR001")


@pytest.mark.parametrize(
    ("first", "second", "wrong"), [("full", "tile+8000", False), ("tile+8000", "full", True)]
)
def test_a_second_arrival_after_a_fence_covers_it(first: str, second: str, wrong: bool) -> None:
    """A wait after the first arrival is of the same iteration; one before it may be of an earlier iteration."""
    writes = (
        f"{STORE}\n{SIGNAL}\n{passing('go', 'tile+7000')}\n{FENCE}\n{SIGNAL.replace('full', 'tile+8000')}"
    )
    reads = f"{passing('one', first)}\n{passing('two', second)}\n{ISSUE}"
    begin = "@%p1 mbarrier.init.shared.b64 [tile+8000], 32;\n@%p1 mbarrier.init.shared.b64 [tile+7000], 1;"
    text = roles(writes, reads).replace("bar.sync 0;", f"{begin}\nbar.sync 0;", 1)
    assert bool(by_rule(lint(text), "PR001")) == wrong


@pytest.mark.parametrize(
    ("before", "waited", "wrong"), [("", "", True), ("reported", "", False), ("", "waited", False)]
)
def test_a_wait_for_the_previous_iteration_does_not_cover_the_fence(
    before: str, waited: str, wrong: bool
) -> None:
    """With parity 1 the first one returns at once, unless a phase is complete by then or was waited for before."""
    again = SIGNAL.replace("full", "tile+8000")
    writes = f"{again if before else ''}\n{STORE}\n{SIGNAL}\n{FENCE}\n{again}"
    earlier = passing("zero", "tile+8000") if waited else ""
    reads = f"{passing('one', 'full')}\n{earlier}\n{passing('two', 'tile+8000', 1)}\n{ISSUE}"
    begin = "@%p1 mbarrier.init.shared.b64 [tile+8000], 32;"
    text = roles(writes, reads).replace("bar.sync 0;", f"{begin}\nbar.sync 0;", 1)
    assert bool(by_rule(lint(text), "PR001")) == wrong


@pytest.mark.parametrize(
    ("variable", "offset", "wrong"),
    [("tile", 4096, True), ("tile", 0, False), ("beside", 0, True), ("dynamic", 0, True)],
)
def test_a_ring_of_copies_beside_the_stores(variable: str, offset: int, wrong: bool) -> None:
    """Whether the copies of other iterations may load the bytes depends on all that the ring fills."""
    ring = f"""
    .shared .align 128 .b8 beside[2048];
    mov.u32 %r10, 0;
    mov.u32 %r13, {variable};
next:
    and.b32 %r11, %r10, 1;
    mad.lo.u32 %r12, %r11, 1024, %r13;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [tile+8000], 512;
    @%p1 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r12+{offset}], [%rd5], 512, [tile+8000];
    add.u32 %r10, %r10, 1;
    setp.lt.u32 %p6, %r10, %r9;
    @%p6 bra next;
    """
    text = roles(f"{ring}\n{STORE}\n{SIGNAL}", f"{PASS}\n{ISSUE}")
    outside = ".extern .shared .align 128 .b8 dynamic[];\n.visible"
    assert bool(by_rule(lint(text.replace(".visible", outside, 1)), "PR001")) == wrong


@pytest.mark.parametrize(
    ("fence", "arrives", "wrong"), [("", "", True), (FENCE, "", False), ("", "@!%p4", False)]
)
def test_roles_that_meet_at_the_cluster_barrier(fence: str, arrives: str, wrong: bool) -> None:
    """All threads of the CTA reach it; where some do not, it is unknown for which threads the wait is."""
    text = roles(f"{STORE}\n{fence}", "").replace(
        "done:", f"done:\n{arrives} barrier.cluster.arrive;\nbarrier.cluster.wait;\n{ISSUE}"
    )
    assert [f.severity for f in by_rule(lint(text), "PR001")] == [Severity.INFO] * wrong


@pytest.mark.parametrize(
    ("body", "severity"),
    [
        (f"{STORE}\n{SYNC}\n{MMA}", Severity.ERROR),
        (f"{MATRIX}\n{SYNC}\n{MMA}", Severity.ERROR),
        (f"{STORE}\n{MATRIX}\n{SYNC}\n{MMA}", Severity.ERROR),
        (f"{STORE}\nmembar.cta;\n{SYNC}\n{MMA}", Severity.ERROR),
        (f"{STORE}\nmembar.gl;\n{SYNC}\n{MMA}", Severity.WARNING),
        (f"{STORE}\nfence.acq_rel.cluster;\n{SYNC}\n{MMA}", Severity.WARNING),
        (f"{STORE}\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n{MMA}", Severity.WARNING),
        (f"{STORE}\n@%p1 {FENCE}\n{SYNC}\n{OUT}", Severity.ERROR),
        (f"{STORE}\n@!%p2 bra skip;\n{FENCE}\nskip: {SYNC}\n{OUT}", Severity.ERROR),
        (f"{STORE}\n{SYNC}\n{OUT}", Severity.ERROR),
    ],
)
def test_what_hardware_never_did_wrong_is_a_note_unless_strict(body: str, severity: Severity) -> None:
    for strict, note in ((True, Severity.WARNING), (False, Severity.INFO)):
        (finding,) = by_rule(lint(text(body), selected=Selected(strict=strict)), "PR001")
        assert finding.severity is (note if severity is Severity.WARNING else severity)


def test_the_steps_say_what_orders_the_threads_alone() -> None:
    (finding,) = by_rule(lint(text(f"{STORE}\nfence.proxy.async.global;\n{SYNC}\n{MMA}")), "PR001")
    assert [s.message for s in finding.steps] == [
        "st.shared writes it",
        "this fence does not cover shared memory",
        "this orders the threads, but not the proxies",
        "wgmma.mma_async reads it",
    ]
    assert "fence.proxy.async.shared::cta" in finding.help


@pytest.mark.parametrize("rounds", [1, 3, 8, 16, 32])
def test_stores_in_a_loop_of_constant_trip_count_need_a_fence(rounds: int) -> None:
    """No path leaves in the first iteration, and the bytes that are read are stored in it."""
    loop = (
        "mov.u32 %r7, %r0;\nmov.u32 %r8, %r3;\nnext: st.shared.v4.b32 [%r8], {%r5, %r5, %r5, %r5};\n"
        f"add.u32 %r7, %r7, 128;\nadd.u32 %r8, %r8, 2048;\nsetp.lt.u32 %p3, %r7, {128 * rounds};\n@%p3 bra next;"
    )
    assert by_rule(lint(text(f"{loop}\n{SYNC}\n{OUT}")), "PR001")
    assert not by_rule(lint(text(f"{loop}\n{FENCE}\n{SYNC}\n{OUT}")), "PR001")


@pytest.mark.parametrize(("failed", "count"), [(overlaps.MAX_FAILED_ENTRY_PATHS_PER_OPERATION, 1), (0, 0)])
def test_a_flag_that_is_set_on_one_path(failed: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shortest path from the entry leaves the flag unchanged, and no thread on it issues the copy.

    Longer paths are searched for while the budget of failed searches lasts.
    """
    monkeypatch.setattr(overlaps, "MAX_FAILED_ENTRY_PATHS_PER_OPERATION", failed)
    flag = (
        "mov.pred %p4, 0;\nsetp.ne.s32 %p5, %r9, 0;\n@%p5 bra on;\nld.global.u32 %r10, [%rd6];\n"
        "setp.eq.s32 %p4, %r10, 0;\non: mov.u32 %r7, %r0;"
    )
    loop = (
        "next: setp.ge.s32 %p3, %r7, 512;\n@%p3 bra out;\nshl.b32 %r8, %r7, 4;\nadd.u32 %r8, %r1, %r8;\n"
        "st.shared.v4.b32 [%r8], {%r5, %r5, %r5, %r5};\nadd.s32 %r7, %r7, 128;\nbra next;\nout:"
    )
    issue = OUT.replace("@%p1", "@!%p4 bra done;\n") + "\ndone:"
    assert len(by_rule(lint(text(f"{flag}\n{loop}\n{SYNC}\n{issue}")), "PR001")) == count
    assert not by_rule(lint(text(f"{flag}\n{loop}\n{FENCE}\n{SYNC}\n{issue}")), "PR001")


@pytest.mark.parametrize("first", [True, False])
def test_failed_searches_for_one_operation_leave_those_for_another_their_budget(first: bool) -> None:
    """No thread issues the first copy: the flag wants one value of a number, and the branch after the barrier another."""

    def stored(name: str, skip: str) -> str:
        return (
            f"mov.pred %p4, 0;\nsetp.ne.s32 %p5, %r9, 0;\n@%p5 bra on{name};\nld.global.u32 %r10, [%rd6];\n"
            f"setp.eq.s32 %p4, %r10, 0;\non{name}: mov.u32 %r7, %r0;\n"
            f"next{name}: setp.ge.s32 %p3, %r7, 512;\n@%p3 bra out{name};\nshl.b32 %r8, %r7, 4;\n"
            "add.u32 %r8, %r1, %r8;\nst.shared.v4.b32 [%r8], {%r5, %r5, %r5, %r5};\nadd.s32 %r7, %r7, 128;\n"
            f"bra next{name};\nout{name}:\n{SYNC}\n{skip}@!%p4 bra done{name};\n{OUT.removeprefix('@%p1')}\n"
            f"done{name}:"
        )

    skipped = "setp.eq.s32 %p6, %r9, 0;\n@%p6 bra donenever;\n"
    never = f"{stored('never', skipped)}\n{FENCE}\n{SYNC}"
    sometimes = stored("sometimes", "")
    one, other = (never, sometimes) if first else (sometimes, never)
    code = text(
        f"ld.global.u32 %r15, [%rd5+64];\nsetp.eq.s32 %p7, %r15, 77;\n@%p7 bra second;\n{one}\nbra all;\n"
        f"second:\n{other}\nall:"
    )
    (finding,) = by_rule(lint(code), "PR001")
    assert code.index("outsometimes:") < finding.span.start < code.index("donesometimes:")


def test_one_fence_that_lacks_is_one_finding() -> None:
    second = MMA.replace("%rd0, %rd1", "%rd1, %rd0").replace("wgmma.fence.sync.aligned;", "")
    (finding,) = by_rule(lint(text(f"{STORE}\n{SYNC}\n{MMA}\n{second}")), "PR001")
    assert finding.count >= 1


@pytest.mark.parametrize(
    ("before", "confidence"), [(f"{IN}\n{SYNC}", Confidence.MEDIUM), ("", Confidence.LOW)]
)
def test_a_read_before_a_bulk_copy_is_a_note_that_is_shown(before: str, confidence: Confidence) -> None:
    """Where a copy has filled what is read; the first copy into the memory was not measured."""
    (finding,) = by_rule(lint(text(f"{before}\n{READ}\n{SYNC}\n{IN}")), "PR004")
    assert (finding.severity, finding.confidence) == (Severity.INFO, confidence)
    measured = (
        "wrong in up to 3.4 % of launches on an H200 that other processes used, and in none with the fence"
    )
    assert finding.message.endswith(measured) == bool(before)


@pytest.mark.parametrize("fence", ["", FENCE])
@pytest.mark.parametrize("first", [READ, STORE])
def test_by_the_letter_a_copy_follows_reads_and_writes_of_the_bytes_through_a_fence(
    first: str, fence: str
) -> None:
    """Two proxies access the same bytes: neither which access comes first matters, nor what was measured."""
    findings = by_rule(lint(text(f"{first}\n{fence}\n{SYNC}\n{IN}"), selected=Selected(strict=True)), "PR004")
    expected = [] if fence else [(Severity.WARNING, Confidence.MEDIUM)]
    assert [(f.severity, f.confidence) for f in findings] == expected
    assert all(("read" if first is READ else "wrote") in f.message for f in findings)


@pytest.mark.parametrize("fence", [f"{FENCE}\n{SYNC}", f"{SYNC}\n{FENCE}", f"{SYNC}\n@%p1 {FENCE}"])
def test_a_fence_of_the_readers_or_of_the_issuer_orders_a_bulk_copy(fence: str) -> None:
    assert not by_rule(lint(text(f"{READ}\n{fence}\n{IN}")), "PR004")


RING_EXAMPLE = all_rules()["PR004"].examples[1].code


def test_a_ring_that_several_instructions_fill_lacks_one_fence() -> None:
    """A compiler peels the first iteration of the producer, and reads each stage twice."""
    begin, end = RING_EXAMPLE.index("produce:"), RING_EXAMPLE.index("    @%p4 bra produce;")
    peeled = RING_EXAMPLE[begin:end].replace("produce:", "").replace("free", "first")
    code = RING_EXAMPLE.replace("produce:", f"{peeled}produce:", 1)
    code = code.replace("    add.u32 %r15, %r15, %r12;\n", "    add.u32 %r15, %r15, %r12;\n    bra more;\nmore:\n    ld.shared.u32 %r13, [%r11];\n", 1)  # fmt: skip
    (finding,) = by_rule(lint(code), "PR004")
    assert len(finding.steps) >= 3


def test_the_next_stage_of_a_ring_is_not_the_one_that_was_read() -> None:
    """Only the stage after the one that is read is refilled, and two copies of the ring are apart."""
    assert by_rule(lint(RING_EXAMPLE), "PR004")
    apart = RING_EXAMPLE.replace("tile[2048]", "tile[4096]").replace(
        "[%r11], [%in], 1024", "[%r11+2048], [%in], 1024"
    )
    assert not by_rule(lint(apart), "PR004")


@pytest.mark.parametrize(
    ("between", "confidence"),
    [("", Confidence.MEDIUM), ("setp.eq.u32 %p4, %r7, 0;\n@%p4 bra done;", Confidence.LOW)],
)
def test_what_decides_a_branch_has_been_read(between: str, confidence: Confidence) -> None:
    """cuDNN's attention kernels for sm_100 take the response apart, and ask for the next one without a fence."""
    example = all_rules()["PR004"].examples[2].code
    read = "ld.shared.b128 %q, [response];\n    mbarrier.arrive.shared.b64 _, [empty];"
    words = f"ld.shared.v4.u32 {{%r4, %r5, %r6, %r7}}, [response];\n{between}\nmbarrier.arrive.shared.b64 _, [empty];\nbra work;"
    assert example.count(read) == 1
    (finding,) = by_rule(lint(example.replace(read, words)), "PR004")
    assert finding.confidence is confidence


def test_a_swizzle_of_the_whole_address_is_one_of_the_offset() -> None:
    swizzled = "shr.u32 %r7, %r3, 3;\nand.b32 %r7, %r7, 112;\nxor.b32 %r7, %r7, %r3;"
    store = STORE.replace("%r3", "%r7")
    agrees(text(f"{swizzled}\n{store}\n{SYNC}\n{MMA} // want PR001"), "PR")
    agrees(text(f"{swizzled}\n{store.replace('%r7', '%r7+4096')}\n{SYNC}\n{MMA}"), "PR")


REPLACE = "tensormap.replace.tile.rank.global.b1024.b32 [%rd5], 1;"
RELEASE = "fence.proxy.tensormap::generic.release.gpu;"
ACQUIRE = "fence.proxy.tensormap::generic.acquire.gpu [%rd4], 128;"
USE = "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd4, {%r0}], [%r1];"
MAPS = {
    "both": f"{REPLACE}\n{RELEASE}\n{ACQUIRE}\n{USE}",
    "neither": f"{REPLACE}\n{USE} // want PR003",
    "released": f"{REPLACE}\n{RELEASE}\n{USE} // want PR003",
    "acquired": f"{REPLACE}\n{ACQUIRE}\n{USE} // want PR003",
    "another map acquired": f"{REPLACE}\n{RELEASE}\nadd.s64 %rd9, %rd4, 128;\n{ACQUIRE.replace('%rd4', '%rd9')}\n{USE} // want PR003",
    "another map used": f"{REPLACE}\n{USE.replace('[%rd4,', '[%rd4+128,')}",
    "stored": f"st.global.u64 [%rd5+64], %rd6;\n{RELEASE}\n{USE} // want PR003",
    "copied with the release": f"tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd5], [%r1], 128;\n{USE} // want PR003",
    "copied and acquired": f"tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd5], [%r1], 128;\n{ACQUIRE}\n{USE}",
    "acquired when it has changed": f"setp.eq.u32 %p4, %r9, 0;\nsetp.eq.u32 %p5, %r9, 1;\n@%p4 bra on;\n{REPLACE}\n{RELEASE}\non: @%p5 bra use;\n{ACQUIRE}\nuse: {USE}",
    "released where it is not used": f"setp.eq.u32 %p4, %r9, 0;\n{REPLACE}\n@%p4 bra over;\n{USE} // want PR003\nbra done;\nover: {RELEASE}\ndone:",
}  # fmt: skip


@pytest.mark.parametrize("case", MAPS)
def test_tensor_maps(case: str) -> None:
    agrees(text(MAPS[case]), "PR003")


def test_a_kernel_that_only_changes_maps_is_checked_too() -> None:
    example = pages.block("PR003", "kept_to_itself")
    use = "    cp.async.bulk.prefetch.tensor.1d.L2.global.tile [%map, {%r1}];\n"
    assert use in example
    for code in (example, example.replace(use, "")):
        assert [rule for rule, _ in found(lint(code))] == ["PR003"]


@pytest.mark.parametrize(
    "line",
    [
        "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [tile];",
        "fence.proxy.tensormap::generic.acquire.gpu;",
        "fence.proxy.tensormap::generic.acquire.gpu %rd1;",
    ],
)
def test_a_missing_operand_is_reported_without_a_crash(line: str) -> None:
    body = f"""{START}
    tensormap.replace.tile.rank.global.b1024.b32 [%rd6], 1;
    {line}
    cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [tile], [%rd6, {{%r0, %r0}}], [full];
    ret;"""
    assert by_rule(lint(module(kernel(body), header=HEADER)), "PX003")


STAGED = """
    setp.lt.u32 %p4, %r0, 128;
    @%p4 bra leave;
    and.b32 %r10, %r2, 4080;
    add.u32 %r11, %r1, %r10;
    st.shared.v4.b32 [%r11], {{%r5, %r5, %r5, %r5}};
    bar.sync 1, 256;
    setp.ne.u32 %p5, %r0, {issuer};
    @%p5 bra leave;
    cp.async.bulk.global.shared::cta.bulk_group [%rd5], [%r1], 16;
leave:
"""


@pytest.mark.parametrize(
    ("directives", "size", "issuer", "found"),
    [
        (".reqntid 384", "", 128, [Confidence.HIGH]),
        (".maxntid 384", "", 256, [Confidence.HIGH]),
        (".maxntid 384", "", 128, [Confidence.MEDIUM]),
        (".maxntid 384", "mov.u32 %r9, %ntid.x;", 128, []),
        (".maxntid 256", "", 128, []),
    ],
)
def test_threads_that_there_are_beside_the_one_that_issues(
    directives: str, size: str, issuer: int, found: list[Confidence]
) -> None:
    """Thread 256 writes the bytes that are sent: where it sends them itself there is one, whatever the launch."""
    hits = by_rule(lint(text(size + STAGED.format(issuer=issuer), directives=directives)), "PR001")
    assert [hit.confidence for hit in hits] == found


def ways(count: int) -> str:
    """Consecutive branches, each of which tests what a launch decides."""
    return "".join(
        f"setp.eq.u32 %p{8 + k % 8}, %r9, {k};\n@%p{8 + k % 8} bra far{k};\nadd.u32 %r5, %r5, 1;\nfar{k}:\n"
        for k in range(count)
    )


ROUNDS = "mov.u32 %r10, 0;\nround: add.u32 %r10, %r10, 1;\nsetp.lt.u32 %p7, %r10, 4;\n@%p7 bra round;"


@pytest.mark.parametrize("count", [4, 70])
def test_a_fault_far_from_the_entry(count: int) -> None:
    """No path from the entry to it is searched for where all are long, which does not prove that there is none."""
    found = by_rule(lint(text(f"{ROUNDS}\n{ways(count)}\n{STORE}\n{SYNC}\n{OUT}")), "PR001")
    assert len(found) == 1


@pytest.mark.parametrize("count", [4, 70])
def test_a_loop_far_from_the_entry(count: int) -> None:
    """What is sent in one iteration and written in the next: the thread that sends waits in each iteration."""
    issues = "@%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd5], [%r1], 2048;\n@%p0 cp.async.bulk.commit_group;"
    loop = f"""
    mov.u32 %r11, 0;
again:
    mov.b16 %h1, 0;
    setp.gt.u32 %p4, %r0, 62;
    @%p4 bra others;
    elect.sync _|%p0, -1;
    selp.b16 %h1, 1, 0, %p0;
others:
    setp.ne.b16 %p0, %h1, 0;
    @%p0 cp.async.bulk.wait_group 0;
    {SYNC}
    {STORE}
    {FENCE}
    {SYNC}
    {issues}
    add.u32 %r11, %r11, 1;
    setp.lt.u32 %p5, %r11, %r9;
    @%p5 bra again;
    """
    found = by_rule(lint(text(f"{ROUNDS}\n{ways(count)}\n{loop}")), "BK002")
    assert not found


def test_a_store_that_many_branches_lead_to() -> None:
    """Where both addresses are compared in the first iteration, and the path there has some eighty edges."""
    branches = "".join(
        f"setp.eq.u32 %p4, %r9, {i};\n@%p4 bra on{i};\nst.global.u32 [%rd6], %r9;\non{i}:\n"
        for i in range(38)
    )
    ring = "mov.u32 %r7, 0;\nround: shl.b32 %r8, %r7, 11;\nor.b32 %r3, %r8, %r2;\nadd.u32 %r3, %r3, %r1;\nadd.u32 %r8, %r8, %r1;"
    tile = (
        f"{STORE}\n{SYNC}\n{OUT.replace('%r1]', '%r8]')} // want PR001\ncp.async.bulk.commit_group;\n{SYNC}"
    )
    turn = "add.u32 %r7, %r7, 1;\nsetp.eq.u32 %p4, %r7, 3;\nselp.b32 %r7, 0, %r7, %p4;\nsetp.lt.u32 %p5, %r9, 99;\n@%p5 bra round;"
    rounds = "mov.u32 %r7, 0;\nagain: add.u32 %r7, %r7, 1;\nsetp.lt.u32 %p4, %r7, 3;\n@%p4 bra again;"
    agrees(text(f"{rounds}\n{branches}\n{ring}\n{tile}\n{turn}"), "PR001")


@pytest.mark.parametrize(("wrote", "reported"), [(STORE, True), ("", False)])
def test_the_address_of_tensor_memory_is_not_an_operand(wrote: str, reported: bool) -> None:
    """Triton 3.5 has the address that tcgen05.alloc writes where tiles lie later, which are copied over it."""
    body = f"@%p2 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;\n{SYNC}\nld.shared.u32 %r9, [%r1];\n{SYNC}"
    mma = f"@%p1 tcgen05.mma.cta_group::1.kind::f16 [%r9], %rd0, %rd1, %r7, %p1;\n{SYNC}"
    found = lint(text(f"{body}\n{wrote}\n{SYNC}\n{mma}").replace("sm_90a", "sm_100a"))
    assert bool(by_rule(found, "PR001")) is reported


@pytest.mark.parametrize(("at", "reported"), [("%r3", False), ("%r3+4096", True)])
def test_what_is_copied_over_is_not_read(at: str, reported: bool) -> None:
    """Triton 3.6 stages the results of a tile where it copies the next one to, with no fence for the copies (PR002)."""
    copy = COPY.replace("[%r3]", f"[{at}]")
    found = lint(text(f"{STORE}\n{SYNC}\n{copy}\n{DONE}\n{SYNC}\n{MMA}"))
    assert bool(by_rule(found, "PR001")) is reported
    assert bool(by_rule(found, "PR002")) is not reported


def test_steps_are_in_the_order_of_execution() -> None:
    """A fence between the copy and the wait for it is about shared memory, and too early."""
    (hit,) = by_rule(
        lint(text(f"{COPY}\ncp.async.commit_group;\n{FENCE}\ncp.async.wait_group 0;\n{SYNC}\n{MMA}")), "PR002"
    )
    assert [step.message for step in hit.steps] == [
        "cp.async starts to write it",
        "this fence is too early",
        "completes the copy, for the copying thread",
        "this orders the threads, but not the proxies",
        "wgmma.mma_async reads it",
    ]
