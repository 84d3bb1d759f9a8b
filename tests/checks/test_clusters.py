"""The rules of clusters, of work stealing between them, and of dependent grids; the pages hold the plain cases."""

from __future__ import annotations

import pytest

from tclint.findings.finding import Finding
from tclint.findings.rules import all_rules
from tclint.findings.scales import Confidence, Severity
from tests.tools.support import OWN_WORD, by_rule, kernel, lint, module

HEADER = ".version 8.6\n.target sm_100a\n.address_size 64\n"
START = f"""
    .shared .align 16 .b8 tile[512];
    .shared .align 16 .b8 response[16];
    .shared .align 8 .b64 full;
    .shared .align 8 .b64 other;
    .reg .b128 %q;
    mov.u32 %r0, %tid.x;
    setp.eq.u32 %p0, %r0, 0;
    setp.lt.u32 %p1, %r0, 64;
    {OWN_WORD}
    mov.u32 %r4, %cluster_ctarank;
    xor.b32 %r5, %r4, 1;
    mapa.shared::cluster.u32 %r6, %r3, %r5;
    mov.u32 %r7, full;
    mapa.shared::cluster.u32 %r8, %r7, %r5;
"""
ARRIVE = "barrier.cluster.arrive.aligned;"
RELAXED = "barrier.cluster.arrive.relaxed.aligned;"
WAIT = "barrier.cluster.wait.aligned;"
SYNC = f"{ARRIVE}\n{WAIT}"
PUT = "st.shared.u32 [%r3], %r4;"
GET = "ld.shared::cluster.u32 %r10, [%r6];"
RELEASE = "@%p0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r8];"
PAIR = ".reqntid 128\n.reqnctapercluster 2"


def passes(name: str, mbarrier: str = "full", parity: str = "0") -> str:
    return f"{name}:\nmbarrier.try_wait.parity.shared.b64 %p2, [{mbarrier}], {parity};\n@!%p2 bra {name};"


def hits(rule: str, body: str, directives: str = PAIR, *, low: bool = False) -> list[Finding]:
    report = lint(module(kernel(f"{START}\n{body}\nret;", directives=directives), header=HEADER))
    assert report.status == "analysed", report.problems
    return [f for f in by_rule(report, rule) if low or f.confidence > Confidence.LOW]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (SYNC, ""),
        (f"{ARRIVE}\n{SYNC}", "arrives at the cluster barrier again before"),
        (
            f"{SYNC}\n{WAIT}",
            "waits at the cluster barrier without having arrived there since the last",
        ),
        (WAIT, "waits at the cluster barrier without having arrived there: "),
        (
            f"{SYNC}\n{ARRIVE}",
            "arrives at the cluster barrier, but no later wait in the kernel matches this arrival",
        ),
        (ARRIVE, "arrives at the cluster barrier, but no later wait"),
        (f"again:\n{SYNC}\nadd.u32 %r9, %r9, -1;\nsetp.ne.u32 %p3, %r9, 0;\n@%p3 bra again;", ""),
        (
            f"again:\n{ARRIVE}\nadd.u32 %r9, %r9, -1;\nsetp.ne.u32 %p3, %r9, 0;\n@%p3 bra again;\n{WAIT}",
            "arrives at the cluster barrier again in the next iteration",
        ),
        (f"@%p1 {ARRIVE}\n@%p1 {WAIT}", ""),
        (f"@%p1 {ARRIVE}\n@!%p1 {ARRIVE}\n{WAIT}", ""),
        (f"@%p1 bra go;\n{ARRIVE}\n{WAIT}\nret;\ngo:\n{ARRIVE}", ""),
        (f"{ARRIVE}\n{{ .reg .b32 %t; call (%t), outside, (%r9); }}\n{ARRIVE}\n{WAIT}", ""),
    ],
)
def test_a_thread_arrives_and_waits_by_turns(body: str, says: str) -> None:
    outside = ".extern .func (.param .b32 d) outside (.param .b32 a);\n"
    text = module(outside, kernel(f"{START}\n{body}\nret;", directives=PAIR), header=HEADER)
    if "call" in body:
        text = text.replace(
            "{ .reg .b32 %t; call (%t), outside, (%r9); }",
            "{ .param .b32 a; .param .b32 d; st.param.b32 [a], %r9; call (d), outside, (a); }",
        )
    report = lint(text)
    found = by_rule(report, "CL001")
    assert len(found) == bool(says), [f.message for f in found]
    assert not found or says in found[0].message


@pytest.mark.parametrize(
    ("events", "sure", "doubtful"),
    [
        ("AAWW", [], ["arrives again with no intervening wait"]),
        ("AWAAWW", [], ["arrives again with no intervening wait"]),
        ("AAAWWW", [], ["arrives again with no intervening wait", "arrives again with no intervening wait"]),
        ("AAW", ["arrives again with no intervening wait"], []),
        ("AAAWW", ["arrives again with no intervening wait", "arrives again with no intervening wait"], []),
        ("AAWWW", ["waits"], ["arrives again with no intervening wait"]),
        ("AWAWW", ["waits"], []),
    ],
)
def test_arrivals_that_are_made_up_for(events: str, sure: list[str], doubtful: list[str]) -> None:
    """FlashAttention has two arrivals in a row, and two waits; on an H200 that comes out right."""
    body = "\n".join(ARRIVE if event == "A" else WAIT for event in events)
    found: dict[bool, list[str]] = {True: [], False: []}
    for finding in hits("CL001", body, low=True):
        deed = finding.steps[-1].message.partition(",")[0].partition(" for")[0]
        found[finding.confidence is Confidence.LOW].append(deed)
    assert found == {False: sure, True: doubtful}


def test_a_system_call_leaves_the_cluster_barrier_alone() -> None:
    call = (
        "{ .param .b64 a; .param .b64 b; .param .b32 d; st.param.b64 [a], %rd0; st.param.b64 [b], %rd0;"
        " call (d), vprintf, (a, b); }"
    )
    print_ = ".extern .func (.param .b32 d) vprintf (.param .b64 a, .param .b64 b);\n"
    body = f"{START}\n{ARRIVE}\n{call}\n{ARRIVE}\n{WAIT}\nret;"
    (finding,) = by_rule(lint(module(print_, kernel(body, directives=PAIR), header=HEADER)), "CL001")
    assert "arrives at the cluster barrier again" in finding.message


def test_a_helper_may_wait_for_its_caller() -> None:
    helper = ".func half()\n{\nbarrier.cluster.wait;\nret;\n}\n"
    assert not by_rule(lint(module(helper, header=HEADER)), "CL001")


@pytest.mark.parametrize(
    ("body", "directives", "says"),
    [
        (f"{SYNC}\n{GET}\n{SYNC}", PAIR, []),
        (
            f"{SYNC}\n{GET}",
            PAIR,
            ["accesses shared memory of another CTA of the cluster, which may have exited"],
        ),
        (
            f"{GET}\n{SYNC}",
            PAIR,
            ["accesses shared memory of another CTA of the cluster, which may not have"],
        ),
        (
            f"bar.sync 0;\n{GET}\n{SYNC}",
            PAIR,
            ["accesses shared memory of another CTA of the cluster, which may not"],
        ),
        (f"{SYNC}\n{GET}", ".reqntid 128\n.reqnctapercluster 1", []),
        (f"{SYNC}\n{GET}", ".reqntid 128\n.maxclusterrank 1", []),
        (f"{SYNC}\n{GET}", ".reqntid 128", ["accesses shared memory"]),
        (f"{SYNC}\n{GET}\n{passes('released')}", PAIR, []),
        (
            f"{SYNC}\n{RELEASE}",
            PAIR,
            ["arrives at an mbarrier of another CTA of the cluster, which may have exited"],
        ),
        (f"{SYNC}\n{RELEASE}", ".reqntid 128", []),
        (f"{SYNC}\n@%p1 bra released;\n{RELEASE}\nret;\n{passes('released')}", PAIR, []),
        (f"{SYNC}\n{RELEASE}\n{SYNC}", PAIR, []),
        ("mov.u32 %r11, tile; st.shared::cluster.u32 [%r11], %r0;", PAIR, []),
    ],
)
def test_a_peer_must_be_alive(body: str, directives: str, says: list[str]) -> None:
    found = hits("CL002", body, directives)
    assert all(any(part in f.message for part in says) for f in found)
    assert len(found) == len(says)


def test_a_cluster_of_one_has_no_peer() -> None:
    """A template that synchronises a cluster of one CTA in another way."""
    single = "mov.u32 %r11, %cluster_nctarank;\nsetp.eq.u32 %p3, %r11, 1;\n"
    body = f"{{}}{SYNC}\n{GET}\n@%p3 bra single;\n{SYNC}\nsingle:"
    assert not hits("CL002", body.format(single), ".reqntid 128")
    assert len(hits("CL002", body.format("setp.eq.u32 %p3, %r9, 1;\n"), ".reqntid 128")) == 1


@pytest.mark.parametrize(
    ("leaves", "shown"),
    [
        ("setp.ne.u32 %p3, %r4, 0;", False),  # all but the first CTA, into which they all wrote
        ("setp.ne.u32 %p3, %r0, 0;", False),  # a thread of each CTA waits, and is enough for it to stay
        ("setp.ne.u32 %p3, %r9, 0;", True),  # in such a launch, everybody
    ],
)
def test_a_cta_that_arrives_last_may_exit_where_others_wait(leaves: str, shown: bool) -> None:
    put = "mapa.shared::cluster.u32 %r11, %r3, 0; st.shared::cluster.u32 [%r11], %r4;"
    wait = WAIT.replace(".aligned", "")
    for leave in ("bra over", "ret"):
        body = f"{SYNC}\n{put}\n{ARRIVE}\n{leaves}\n@%p3 {leave};\n{wait}\nover:"
        assert bool(hits("CL002", body)) is shown, leave
    assert hits("CL002", f"{SYNC}\n{put}\n{leaves}\n@%p3 bra over;\nbar.sync 0;\nover:")


@pytest.mark.parametrize(
    ("polled", "flag", "shown"),
    [
        ("ld.acquire.cluster.shared::cta.u32 %r12, [tile];", "st.release.cluster.shared::cluster.u32", False),
        (
            "ld.acquire.cluster.shared::cta.u32 %r12, [tile+4];",
            "st.release.cluster.shared::cluster.u32",
            True,
        ),
        ("ld.acquire.cta.shared::cta.u32 %r12, [tile];", "st.release.cluster.shared::cluster.u32", True),
        ("ld.shared::cta.u32 %r12, [tile];", "st.release.cluster.shared::cluster.u32", True),
        ("ld.acquire.cluster.shared::cta.u32 %r12, [tile];", "st.shared::cluster.u32", True),
    ],
)
def test_a_cta_does_not_exit_before_the_flag_that_it_polls_is_written(
    polled: str, flag: str, shown: bool
) -> None:
    body = f"""
    st.shared.u32 [tile], 0;
    {SYNC}
    setp.eq.u32 %p3, %r4, 0;
    @%p3 bra first;
poll:
    {polled}
    setp.eq.u32 %p4, %r12, 0;
    @%p4 bra poll;
    bra over;
first:
    mapa.shared::cluster.u32 %r11, %r1, 1;
    st.shared::cluster.u32 [%r11+8], %r0;
    {flag} [%r11], 1;
over:"""
    assert bool(hits("CL002", body)) is shown


@pytest.mark.parametrize(
    ("first", "last", "shown"),
    [
        ("setp.lt.s32 %p3, %r9, 2;", "setp.lt.s32 %p4, %r9, 2;", False),
        ("setp.lt.s32 %p3, %r9, 2;", "setp.le.s32 %p4, %r9, 1;", False),
        ("setp.lt.s32 %p3, %r9, 2;", "setp.le.s32 %p4, %r9, 2;", True),  # two CTAs synchronise at first only
        ("setp.lt.s32 %p3, %r9, 2;", "setp.lt.s32 %p4, %r4, 2;", True),
    ],
)
def test_a_number_of_the_launch_may_be_the_size_of_the_cluster(first: str, last: str, shown: bool) -> None:
    body = f"{first}\n@%p3 bra one;\n{SYNC}\none:\n{GET}\n{last}\n@%p4 bra over;\n{SYNC}\nover:"
    assert bool(hits("CL002", body, ".reqntid 128")) is shown


@pytest.mark.parametrize(("first", "shown"), [("0", False), ("%r9", True)])
def test_a_wait_in_the_first_iteration_alone(first: str, shown: bool) -> None:
    """The arrival before a loop is waited for in its first iteration, which is unknown if the launch decides the trip count."""
    body = f"""
    {ARRIVE}
    mov.u32 %r11, {first};
passes:
    mov.u32 %r12, %r11;
    setp.gt.u32 %p3, %r12, 2;
    @%p3 bra over;
    setp.ne.s32 %p4, %r12, 0;
    @%p4 bra later;
    {WAIT}
later:
    {SYNC}
    add.s32 %r11, %r12, 1;
    bra passes;
over:
    {SYNC}
    """
    assert bool(hits("CL001", body)) is shown


def test_one_defect_of_the_barrier_is_reported_once() -> None:
    """That no thread waits is a warning; that a CTA which is accessed may exit for that reason is an error."""
    assert len(hits("CL001", f"{SYNC}\n{ARRIVE}")) == 1
    body = f"{SYNC}\n{GET}\n{ARRIVE}"
    assert [f.severity for f in hits("CL002", body)] == [Severity.ERROR]
    assert not hits("CL001", body)


@pytest.mark.parametrize(
    ("rank", "shown"), [("%cluster_ctarank", False), ("%r4", False), ("0", True), ("%r5", True)]
)
def test_a_cta_that_maps_its_own_rank_accesses_no_peer(rank: str, shown: bool) -> None:
    get = f"mov.u32 %r12, {rank};\nmapa.shared::cluster.u32 %r6, %r3, %r12;\n{GET}"
    assert bool(hits("CL002", f"{SYNC}\n{get}")) is shown


@pytest.mark.parametrize(
    ("sizes", "shown"), [("x", False), ("xy", False), ("xyz", False), ("", True), ("x*", True)]
)
def test_a_cluster_whose_dimensions_are_one_has_no_peer(sizes: str, shown: bool) -> None:
    """Of ``x*`` the kernel reads two dimensions and tests only one."""
    tested = "".join(
        f"mov.u32 %r11, %cluster_nctaid.{d};\nsetp.ne.u32 %p3, %r11, 1;\n@%p3 bra several;\n"
        for d in sizes.strip("*")
    )
    tested += "mov.u32 %r12, %cluster_nctaid.y;\n" * sizes.endswith("*")
    body = f"{SYNC}\n{GET}\n{tested}bra over;\nseveral:\n{SYNC}\nover:"
    assert bool(hits("CL002", body, ".reqntid 128")) is shown


REST = "and.b32 %r11, %r9, 3;"
COMPILED = {
    "by the rest": (
        f"{REST} sub.s32 %r12, %r11, %r9;",
        "add.s32 %r13, %r12, %r20; setp.ne.s32 %p4, %r13, 0;",
        "add.s32 %r11, %r11, -1; setp.ne.s32 %p5, %r11, 0;",
    ),
    "by the others": (
        f"{REST} and.b32 %r12, %r9, 2147483644; neg.s32 %r13, %r12; neg.s32 %r11, %r11;",
        "add.s32 %r13, %r13, 4; setp.ne.s32 %p4, %r13, 0;",
        "add.s32 %r11, %r11, 1; setp.ne.s32 %p5, %r11, 0;",
    ),
}
"""What two compilers make of ``n - (n & 3)``: before the loops, and at the end of each."""


def unrolled(before: str, four: str, one: str, ahead: int = 1) -> str:
    """``do { arrive; if (++i < n) wait; } while (i < n); wait;``, four rounds at a time; the fourth looks further *ahead*."""

    def turn(name: str, end: int) -> str:
        return f"""
{SYNC}
{GET}
{ARRIVE}
add.s32 %r14, %r20, {end};
setp.ge.s32 %p3, %r14, %r9;
@%p3 bra {name};
{WAIT}
{name}:"""

    turns = "\n".join(turn(f"turn{k}", k if k < 4 else 3 + ahead) for k in (1, 2, 3, 4))
    return f"""
setp.lt.s32 %p1, %r9, 1;
@%p1 bra done;
{before}
mov.u32 %r20, 0;
setp.lt.u32 %p2, %r9, 4;
@%p2 bra rest;
four:
{turns}
add.s32 %r20, %r20, 4;
{four}
@%p4 bra four;
and.b32 %r15, %r9, 3;
setp.eq.s32 %p6, %r15, 0;
@%p6 bra last;
rest:
{turn("turn5", 1)}
add.s32 %r20, %r20, 1;
{one}
@%p5 bra rest;
last:
{WAIT}
done:"""


@pytest.mark.parametrize("compiled", COMPILED.values(), ids=COMPILED)
def test_an_unrolled_loop_that_does_not_wait_in_its_last_iteration_has_low_confidence(
    compiled: tuple[str, str, str],
) -> None:
    """How the loop for the rest goes together with the other is not known, so what is said of it is of low confidence."""
    before, four, one = compiled
    assert hits("CL001", unrolled(before, four, one)) == []
    found = hits("CL001", unrolled(before, four, one), low=True)
    assert {f.doubt for f in found} <= {
        "the path depends on the trip count of a remainder loop, which is not related to the unrolled loop"
    }
    assert hits("CL001", unrolled(before, four, one, ahead=2))


@pytest.mark.parametrize(
    ("before", "found"),
    [
        (f"{PUT}\n{RELAXED}", True),
        (f"{PUT}\nfence.mbarrier_init.release.cluster;\n{RELAXED}", True),
        (f"{PUT}\nfence.acq_rel.cta;\n{RELAXED}", True),
        (f"{PUT}\nfence.acq_rel.cluster;\n{RELAXED}", False),
        (f"{PUT}\nmembar.gl;\n{RELAXED}", False),
        (f"{PUT}\n{ARRIVE}", False),
        (f"{PUT}\n{SYNC}\n{RELAXED}", False),
        ("st.shared.u32 [full], %r4;\n" + RELAXED, False),
        (RELAXED, False),
    ],
)
def test_a_relaxed_arrival_publishes_nothing(before: str, found: bool) -> None:
    assert len(hits("CL003", f"{before}\n{WAIT}\n{GET}\n{SYNC}")) == found


@pytest.mark.parametrize(
    ("before", "found"),
    [
        (
            f"@%p1 {ARRIVE}\n@!%p1 bra go;\n{WAIT}\nbar.sync 0;\nbra on;\ngo:\n{ARRIVE}\nbar.sync 0;\non:",
            False,
        ),
        (
            f"@%p1 {ARRIVE}\n@!%p1 bra go;\nbar.sync 0;\n{WAIT}\nbra on;\ngo:\n{ARRIVE}\nbar.sync 0;\non:",
            True,
        ),
        (
            f"@%p1 {ARRIVE}\n@!%p1 bra go;\n{WAIT}\nbar.sync 1, 64;\nbra on;\ngo:\n{ARRIVE}\nbar.sync 2, 64;\non:",
            True,
        ),
    ],
)
def test_an_access_is_reported_unless_it_is_ordered_after_the_start_of_the_peers(
    before: str, found: bool
) -> None:
    """One role waits for the cluster, and releases the other one at a barrier of both afterwards."""
    assert [f.message for f in hits("CL002", f"{before}\n{GET}\n{SYNC}") if "may not have started" in f.message][:1] == (
        [("ld.shared::cluster accesses shared memory of another CTA of the cluster, which may not have started: "
         "no cluster barrier precedes it")] if found else []
    )  # fmt: skip


LOAD = """
    mov.u16 %h0, 3;
    mov.u32 %r12, 0;
again:
    @%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r1], [%rd1], 64, [%r7], %h0;
"""
ROUND = "add.u32 %r12, %r12, 1;\nsetp.lt.u32 %p3, %r12, %r9;\n@%p3 bra again;"


@pytest.mark.parametrize(
    ("mask", "peers"),
    [
        ("mov.b32 %r13, 1; shl.b32 %r13, %r13, %r4; cvt.u16.u32 %h0, %r13;", False),  # %r4 is the rank
        ("mov.b16 %h0, 1; shl.b16 %h0, %h0, %r4;", False),
        ("mov.b32 %r13, 1; shl.b32 %r13, %r13, %r5; cvt.u16.u32 %h0, %r13;", True),
        ("mov.b32 %r13, 3; shl.b32 %r13, %r13, %r4; cvt.u16.u32 %h0, %r13;", True),
        ("mov.b16 %h0, 1;", True),
        ("setp.ne.u32 %p5, %r4, 0; @%p5 bra none; mov.b16 %h0, 1;", False),
        ("setp.ne.u32 %p5, %r4, 0; @%p5 bra none; mov.b16 %h0, 2;", True),
    ],
)
def test_a_mask_of_the_executing_cta_needs_no_other_cta(mask: str, peers: bool) -> None:
    load = LOAD.replace("mov.u16 %h0, 3;", mask)
    body = f"{load}\n{passes('mine')}\n{ROUND}\nnone:"
    started = [f for f in hits("CL002", body) if "may not have started" in f.message]
    assert (bool(started), bool(hits("BK010", body))) == (peers, peers)


@pytest.mark.parametrize(
    ("between", "found"),
    [
        (passes("mine"), True),
        (f"{passes('mine')}\nbar.sync 0;", True),
        (passes("theirs", "other"), False),
        (SYNC, False),
        ("add.u32 %r1, %r1, 64;", False),
        # Another warp observes them, and meets the one that copies; or it does not.
        (f"@%p1 bra met;\n{passes('theirs', 'other')}\nmet: bar.sync 0;", False),
        (f"@%p1 bra met;\n{passes('theirs', 'other')}\nmet:", True),
    ],
)
def test_the_readers_of_other_ctas_are_waited_for(between: str, found: bool) -> None:
    assert len(hits("BK010", f"{SYNC}\n{LOAD}\n{between}\n{ROUND}\n{SYNC}")) == found
    assert not hits("BK010", f"{SYNC}\n{LOAD}\n{between}\n{ROUND}", ".reqntid 128\n.reqnctapercluster 1")


REQUEST = """
again:
    @%p0 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [response], [full];
"""
READ = "ld.shared.b128 %q, [response];"
ASK = "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p4, %q;"
ID = "clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r13, %q;"
NEXT = "@%p4 bra again;"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (f"{passes('answer')}\n{READ}\n{ASK}\n@%p4 {ID}\n{NEXT}", ""),
        (f"{passes('answer')}\n{READ}\n{ID}\n{ASK}\n{NEXT}", ""),
        (
            f"{passes('answer')}\n{READ}\n{ID}",
            "decodes the CTA id from a response without checking",
        ),
        # No thread reads the answer.
        (
            f"{passes('answer')}\n{READ}\n{ASK}\n{ID}",
            "decodes the CTA id from a response without checking",
        ),
        # What is taken beside the question may never be used.
        (f"{passes('answer')}\n{READ}\n{ASK}\n@%p4 bra done;\n{ID}\ndone:", ""),
        (f"{READ}\n{ASK}\n@%p4 {ID}\n{NEXT}", "reads the response of clusterlaunchcontrol.try_cancel before"),
        (f"{passes('wrong', 'other')}\nbar.sync 0;\n{READ}\n{ASK}\n@%p4 {ID}\n{NEXT}", "reads the response"),
        (
            f"{passes('answer')}\n{READ}\n{ASK}\n@%p4 {ID}\n@!%p4 bra again;",
            "requests another cluster although",
        ),
        (f"{passes('answer')}\n{READ}\n{ASK}\n@!%p4 bra done;\n{ID}\nbra again;\ndone:", ""),
    ],
)
def test_a_response_is_waited_for_and_asked(body: str, says: str) -> None:
    found = hits("CL004", f"{REQUEST}\n{body}", ".reqntid 128")
    assert len(found) == bool(says), [f.message for f in found]
    assert not found or says in found[0].message


@pytest.mark.parametrize(("ahead", "shown"), [("%r10", False), ("0", True)])
def test_an_arrival_before_the_last_iteration_ends_is_not_repeated(ahead: str, shown: bool) -> None:
    """A tile and the next one, at a stride that the launch decides: there is no next iteration after the last tile."""
    body = f"""
    mov.u32 %r10, %nctaid.x;
    mov.u32 %r11, %ctaid.x;
    add.s32 %r12, %r11, {ahead};
    {ARRIVE}
    {WAIT}
tiles:
    add.s32 %r11, %r11, %r10;
    setp.lt.s32 %p3, %r12, %r9;
    @%p3 bra more;
    {ARRIVE}
more:
    add.s32 %r12, %r12, %r10;
    setp.lt.s32 %p4, %r11, %r9;
    @%p4 bra tiles;
    {WAIT}
    """
    assert bool(hits("CL001", body)) is shown


def test_a_query_may_be_the_last_instruction_of_a_function() -> None:
    pieces = all_rules()["CL004"].body.split("```ptx\n")[1:]
    example = next(code for piece in pieces if "is_canceled" in (code := piece.partition("```")[0]))
    end = example.index(";", example.index("is_canceled"))
    assert lint(f"{example[: end + 1]}\n}}\n").status == "analysed"
