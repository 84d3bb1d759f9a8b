"""The rules of mbarriers on small kernels; the pages of the rules hold the plain cases."""

from __future__ import annotations

import pytest

from benchmarks.grow import SHAPES
from tclint.analyses.model import KernelModel
from tclint.checks.mbarrier_objects import _Publication
from tclint.checks.mbarrier_release import _runs
from tclint.findings.finding import Finding
from tclint.findings.scales import Confidence, Severity
from tclint.findings.selection import Selected
from tclint.isa.effects import Resource
from tests.tools.pages import block
from tests.tools.support import built, by_rule, kernel, line_of, lint, module
from tests.tools.support import found as lines_of

HEADER = ".version 8.6\n.target sm_90a\n.address_size 64\n"
START = """
    .shared .align 128 .b8 tile[8192];
    .shared .align 8 .b64 ring[4];
    .shared .align 8 .b64 full;
    mov.u32 %r0, %tid.x;
    ld.param.u64 %rd0, [pointer];
    ld.param.u32 %r9, [number];
    mov.u32 %r1, ring;
    mov.u32 %r2, full;
    setp.ne.u32 %p0, %r0, 0;
"""
MAKE = "@!%p0 mbarrier.init.shared::cta.b64 [full], 128;"
SIGNAL = "bar.sync 0;"
ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [full];"
ASK = "mbarrier.try_wait.parity.shared::cta.b64 %p1, [full], 0;"
WAIT = f"wait: {ASK}\n@!%p1 bra wait;"
READ = "ld.shared.u32 %r3, [tile];\nst.global.u32 [%rd0], %r3;"
MAP = "xor.b32 %r4, %r5, 1;\nmapa.shared::cluster.u32 %r6, %r2, %r4;"
FIRST = "setp.ne.u32 %p3, %r5, 0;\n@%p3 bra on;\nmapa.shared::cluster.u32 %r6, %r2, 0;"
LANE_RANK = "setp.gt.u32 %p3, %r0, 1;\n@%p3 bra on;\nmapa.shared::cluster.u32 %r6, %r2, %r0;"
"""Each thread that continues maps the mbarrier to the CTA with its own index as the rank."""
LANES = """
    shl.b32 %r3, %r0, 3;
    add.u32 %r3, %r3, %r1;
    setp.lt.u32 %p2, %r0, 4;
    @%p2 mbarrier.init.shared::cta.b64 [%r3], 1;
"""
RANK = "mov.u32 %r5, %cluster_ctarank;"
LOOP = """
    @%p0 bra made;
    mov.u32 %r3, 0;
make:
    mbarrier.init.shared::cta.b64 [%r1], 128;
    add.u32 %r1, %r1, 8;
    add.u32 %r3, %r3, 1;
    setp.ne.u32 %p1, %r3, {};
    @%p1 bra make;
made:"""
JOIN = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;"


def found(body: str, rule: str, *, strict: bool = False, **options: str) -> list[Finding]:
    text = module(kernel(f"{START}\n{body}\nret;", **options), header=HEADER)
    report = lint(text, selected=Selected(strict=strict))
    assert report.status == "analysed", report.problems
    return by_rule(report, rule)


@pytest.mark.parametrize(
    ("after", "message"),
    {
        "dropped": (
            "",
            "mbarrier.try_wait may return before the phase is complete, and its result is unused",
        ),
        "both paths continue": (
            "@%p1 bra on;\nmov.u32 %r7, 1;\non:",
            "mbarrier.try_wait may return before the phase is complete, and the thread continues whatever its result is",
        ),
        "again": ("@!%p1 bra wait;", ""),
        "by way of a jump": ("@%p1 bra on;\nbra wait;\non:", ""),
        "inverted": (
            "@%p1 bra wait;",
            "mbarrier.try_wait is in an inverted loop: it exits while the result is false, and repeats once the phase is complete",
        ),
        "polled": ("@%p1 bra on;\nst.global.u32 [%rd0], %r0;\nbra wait;\non:", ""),
        "gives up": ("@%p1 bra on;\nst.global.u32 [%rd0], %r0;\ntrap;\non:", ""),
        "kept in memory": ("selp.u32 %r7, 1, 0, %p1;\nst.global.u32 [%rd0+8], %r7;", ""),
        "broadcast to the warp": ("vote.sync.all.pred %p2, %p1, -1;\n@!%p2 bra wait;", ""),
        "asked for again": (f"more: {ASK}\n@!%p1 bra more;", ""),
    }.values(),
)
def test_what_follows_a_wait(after: str, message: str) -> None:
    hits = found(f"{MAKE}\n{SIGNAL}\n{ARRIVE}\nwait: {ASK}\n{after}\n{READ}", "MB001")
    assert [hit.message for hit in hits] == ([message] if message else [])
    for hit in hits:
        assert hit.severity is Severity.ERROR
        assert "back to the wait" in hit.help or "until the result is true" in hit.help


@pytest.mark.parametrize(("counted", "confidence"), [("%r7", Confidence.LOW), ("%r8", Confidence.HIGH)])
def test_a_thread_that_looks_after_several_mbarriers(counted: str, confidence: Confidence) -> None:
    """A loader of ThunderKittens tests whether there is work, and continues until it has done all."""
    (hit,) = found(
        f"""{MAKE}\n{SIGNAL}
        mov.u32 %r7, 0;
        mov.u32 %r8, 0;
    round:
        {ASK.replace("try_wait", "test_wait")}
        @!%p1 bra none;
        ld.shared.u32 %r3, [tile];
        st.global.u32 [%rd0], %r3;
        add.u32 %r7, %r7, 1;
    none:
        add.u32 %r8, %r8, 1;
        setp.lt.u32 %p2, {counted}, 9;
        @%p2 bra round;
        {SIGNAL}
        {READ}""",
        "MB001",
    )
    assert hit.confidence is confidence


@pytest.mark.parametrize(("idle", "count"), [("nanosleep.u32 20;", 0), ("mov.u32 %r7, 1;", 1)])
def test_a_poll_of_two_mbarriers_is_followed_by_a_wait_for_the_incomplete_one(idle: str, count: int) -> None:
    """Whether the data of the second was read early is kept in a flag, which polling must not set."""
    body = f"""
    mov.u32 %r8, 0;
item:
    add.u32 %r8, %r8, 1;
    setp.ge.s32 %p2, %r8, %r9;
    selp.b32 %r7, 1, 0, %p2;
poll:
    mbarrier.test_wait.parity.shared::cta.b64 %p3, [ring], 0;
    @%p3 bra ready;
    and.b32 %r6, %r7, 255;
    setp.ne.u32 %p4, %r6, 0;
    @%p4 bra idle;
    mbarrier.test_wait.parity.shared::cta.b64 %p5, [full], 0;
    @!%p5 bra idle;
    {READ}
    mov.u32 %r7, 1;
    bra poll;
idle:
    {idle}
    bra poll;
ready:
    bar.warp.sync -1;
    and.b32 %r6, %r7, 255;
    setp.ne.u32 %p4, %r6, 0;
    @%p4 bra next;
    {WAIT}
    {READ}
next:
    @!%p2 bra item;"""
    assert len(found(f"{MAKE}\n{SIGNAL}\n{ARRIVE}\n{body}", "MB001")) == count


@pytest.mark.parametrize(("more", "count"), [("", 0), ("add.u32 %r8, %r8, %r7;", 1)])
def test_a_parity_in_shared_memory(more: str, count: int) -> None:
    """A tutorial of CuTe DSL keeps the parities of its ring there, and loads one each time that it asks."""
    body = f"""
    mov.u32 %r6, 0;
    mov.u32 %r8, 0;
next:
again:
    ld.shared.u32 %r7, [tile+4096];
    {more}
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [full], %r7;
    @!%p1 bra again;
    {READ}
    add.u32 %r6, %r6, 1;
    setp.lt.u32 %p2, %r6, %r9;
    @%p2 bra next;
    st.global.u32 [%rd0+8], %r8;"""
    assert len(found(f"{MAKE}\n{SIGNAL}\n{ARRIVE}\n{body}", "MB001")) == count


@pytest.mark.parametrize(
    ("others", "unheeded"), [(f"{WAIT}", False), ("", True), (f"{SIGNAL}\n{WAIT}\nbra done;", True)]
)
def test_a_barrier_releases_what_others_waited_for(others: str, unheeded: bool) -> None:
    """Three warps only look, and meet the one that waits before they read."""
    hits = found(
        f"""{MAKE}\n{SIGNAL}\n{ARRIVE}
        setp.lt.u32 %p2, %r0, 32;
        @%p2 bra others;
        {ASK.replace("try_wait", "test_wait")}
        @%p1 bra meet;
        mov.u32 %r7, 1;
        bra meet;
    others:
        {others}
    meet:
        {SIGNAL}
        {READ}
    done:""",
        "MB001",
    )
    assert len(hits) == unheeded


def test_a_test_does_not_block() -> None:
    ask = ASK.replace("try_wait", "test_wait")
    (hit,) = found(f"{MAKE}\n{SIGNAL}\n{ARRIVE}\n{ask}\n{READ}", "MB001")
    assert hit.message == "mbarrier.test_wait does not block, and its result is unused"
    assert [step.message for step in hit.steps] == [
        "the result may be false",
        "executed although the phase may not be complete",
    ]


@pytest.mark.parametrize("first", [ASK, f"again: {ASK}\n@!%p1 bra again;"])
def test_a_register_that_several_waits_answer_in(first: str) -> None:
    """What the second wait decides says nothing of the first."""
    second = f"{ARRIVE}\nwait: {ASK.replace('], 0', '], 1')}\n@!%p1 bra wait;"
    hits = found(f"{MAKE}\n{SIGNAL}\n{ARRIVE}\n{first}\n{READ}\n{second}", "MB001")
    assert len(hits) == ("again" not in first)


@pytest.mark.parametrize(
    ("between", "observed"),
    [
        ("", False),
        (SIGNAL, True),
        ("bar.sync 3, 128;", True),
        ("bar.warp.sync -1;", False),
        ("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;", True),
        ("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;", False),
        (
            "fence.mbarrier_init.release.cluster;\nbarrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;",
            True,
        ),
    ],
)
def test_the_initialisation_of_an_mbarrier_must_be_observed(between: str, observed: bool) -> None:
    body = f"{SIGNAL}\n{MAKE}\n{between}\n{ARRIVE}\n{WAIT}\n{READ}"
    hits = found(body, "MB002")
    assert len(hits) == (not observed)
    for hit in hits:
        assert hit.severity is (Severity.INFO if "relaxed" in between else Severity.ERROR)
        (strict,) = found(body, "MB002", strict=True)
        assert strict.severity is (Severity.WARNING if "relaxed" in between else Severity.ERROR)
        assert (hit.steps[0].message, hit.steps[0].role) == ("initialises it", "thread 0")


SMALL = "mov.u32 %r8, %cluster_nctaid.x;\nsetp.eq.u32 %p4, %r8, 1;\n@%p4 bra alone;"


@pytest.mark.parametrize(
    ("between", "parity", "observed"),
    [
        pytest.param("", 1, False, id="a wait that is over at once"),
        pytest.param(
            "first: mbarrier.try_wait.parity.shared::cta.b64 %p1, [ring], 1;\n@!%p1 bra first;",
            1,
            False,
            id="two waits that are over at once",
        ),
        pytest.param("", 0, True, id="a wait with an arrival"),
        pytest.param(JOIN, 1, True, id="the cluster"),
        pytest.param(f"{SMALL}\n{JOIN}\nalone:", 1, True, id="the cluster, if it has several CTAs"),
    ],
)
def test_the_initialisation_of_an_mbarrier_of_another_cta_must_be_observed(
    between: str, parity: int, observed: bool
) -> None:
    """The first wait for the previous stage, of a fresh mbarrier, observes nothing."""
    hits = found(
        f"mov.u32 %r2, ring;\n{RANK}\n{MAP}\n{MAKE}\n@!%p0 mbarrier.init.shared::cta.b64 [ring], 1;\n{SIGNAL}\n{between}\n"
        f"mov.u32 %r10, {parity};\nagain: mbarrier.try_wait.parity.shared::cta.b64 %p1, [ring], %r10;\n@!%p1 bra again;\n"
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];\nxor.b32 %r10, %r10, 1;\n"
        "sub.u32 %r9, %r9, 1;\nsetp.ne.u32 %p5, %r9, 0;\n@%p5 bra again;\n" + JOIN,
        "MB002",
    )
    assert len(hits) == (not observed)
    for hit in hits:
        assert hit.message.endswith("no cluster barrier orders the two")


ROLES = """
    setp.ne.u32 %p4, %r0, {maker};
    @%p4 bra made;
    mbarrier.init.shared::cta.b64 [ring], 1;
    mbarrier.init.shared::cta.b64 [ring+8], 1;
made:
    bar.sync 0;
    shr.u32 %r10, %r0, 7;
    setp.eq.u32 %p5, %r10, 2;
    @%p5 bra done;
    shl.b32 %r10, %r10, 3;
    mov.u32 %r11, ring;
    add.u32 %r11, %r11, %r10;
    mbarrier.arrive.shared::cta.b64 _, [%r11];
done:
"""


@pytest.mark.parametrize(
    ("maker", "directives", "count"),
    [(256, "", 0), (0, "", 0), (384, "", 1), (256, ".reqntid 512", 1), (256, ".maxntid 512", 1), (256, ".reqntid 288", 0)],
)  # fmt: skip
def test_threads_that_a_launch_may_not_have_name_no_mbarrier(maker: int, directives: str, count: int) -> None:
    """Two roles of 128 threads, each with its mbarrier, and one after them: there need not be a fourth."""
    assert len(found(ROLES.format(maker=maker), "MB009", directives=directives)) == count


@pytest.mark.parametrize(
    ("directives", "count"), [(".reqntid 16", 0), (".maxntid 16", 0), (".reqntid 17", 1), (".reqntid 32", 1)]
)
def test_lanes_that_the_last_warp_does_not_have_touch_nothing(directives: str, count: int) -> None:
    """An example of CuTe DSL has CTAs of 16 threads, and an mbarrier right after a word of each."""
    body = f"@!%p0 mbarrier.init.shared::cta.b64 [tile+64], 1;\n{SIGNAL}\nshl.b32 %r3, %r0, 2;\nmov.u32 %r4, tile;"
    body += "\nadd.u32 %r3, %r3, %r4;\nld.shared.u32 %r5, [%r3];\nst.global.u32 [%rd0], %r5;"
    assert len(found(body, "MB009", directives=directives)) == count


ALONE = """
    {first}
    @%p0 bra done;
    mov.u32 %r3, %ntid.x;
    mbarrier.init.shared::cta.b64 [full], %r3;
    mov.u32 %r4, 0;
next:
    mbarrier.arrive.expect_tx.shared::cta.b64 %rd1, [full], 1024;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd0], 1024, [full];
wait:
    mbarrier.try_wait.shared::cta.b64 %p1, [full], %rd1;
    @!%p1 bra wait;
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p2, %r4, {rounds};
    @%p2 bra next;
done:"""
EACH = f"""
    {{first}}
    mbarrier.init.shared::cta.b64 [full], 7;
    mbarrier.arrive.shared::cta.b64 _, [full], 1;
    mbarrier.test_wait.parity.shared::cta.b64 %p4, [full], 0;
    selp.b32 %r5, 1, 0, %p4;
    st.global.u32 [%rd0], %r5;
    mbarrier.arrive.shared::cta.b64 _, [full], 6;
    {WAIT}
"""


@pytest.mark.parametrize(
    ("first", "directives", "count"),
    [
        ("", "", 0),
        ("", ".reqntid 1", 0),
        ("", ".maxntid 64", 1),
        (SIGNAL, "", 1),
        ("elect.sync _|%p3, -1;", "", 1),
    ],
)
@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (ALONE.replace("{rounds}", "3"), "MB016"),
        (ALONE.replace("{rounds}", "100000"), "MB016"),
        (EACH, "MB006"),
    ],
)
def test_a_kernel_may_be_made_for_ctas_of_one_thread(
    body: str, rule: str, first: str, directives: str, count: int
) -> None:
    """Benchmarks of copies are launched as ``<<<blocks, 1>>>``, with a count of blockDim.x."""
    assert len(found(body.replace("{first}", first), rule, directives=directives)) == count


TWO_MAKERS = """
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %ctaid.x;
    setp.eq.u32 %p1, %r1, 0;
    setp.ne.u32 %p2, %r0, 0;
    setp.ne.u32 %p3, %r0, 32;
    @%p1 bra other;
    @%p2 bra made;
    mbarrier.init.shared::cta.b64 [full], 1;
    bra.uni made;
other:
    @%p3 bra made;
    mbarrier.init.shared::cta.b64 [full], 1;
made:
    {between}
    setp.{skips}.u32 %p4, %r0, 64;
    @%p4 bra done;
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p5, [full], 0;
    @!%p5 bra wait;
done:
    ret;
"""


@pytest.mark.parametrize(
    ("between", "skips", "early"),
    [
        ("bar.warp.sync -1;", "lt", True),
        ("bar.sync 0;", "lt", False),
        # the warps that may initialise it are not compared with each other
        ("bar.warp.sync -1;", "ge", False),
    ],
)
def test_an_mbarrier_that_alternative_threads_initialise(between: str, skips: str, early: bool) -> None:
    text = module(
        kernel(
            ".shared .align 8 .b64 full;" + TWO_MAKERS.format(between=between, skips=skips),
            directives=".reqntid 128",
        ),
        header=HEADER,
    )
    assert bool(by_rule(lint(text), "MB002")) is early


def test_mbarriers_that_the_same_points_observe_share_one_set_of_them() -> None:
    """A set of all waits for each of thousands of mbarriers would take memory quadratic in their number."""
    text = SHAPES["mbarriers"][0](8)
    made = built(text)
    publication = _Publication(KernelModel(made.functions[0], made))
    inits = publication.model.sites(Resource.MBARRIER_INIT)
    assert len(inits) == 8
    assert len({id(publication.after(frozenset((init,)))) for init in inits}) == 1


def test_the_accesses_after_an_instruction_are_those_that_a_path_leads_to() -> None:
    body = f"""
    st.shared.u32 [tile], %r0;
    {ASK}
    @%p1 st.shared.u32 [tile+4], %r0;
    st.shared.u32 [tile+8], %r0;
    again: st.shared.u32 [tile+12], %r0;
    {ASK}
    st.shared.u32 [tile+16], %r0;
    @!%p1 bra again;
    st.shared.u32 [tile+20], %r0;
    """
    made = built(module(kernel(f"{START}\n{body}\nret;"), header=HEADER))
    model = KernelModel(made.functions[0], made)
    accesses = [(i, a) for i in sorted(model.shared.sites) for a in model.shared.accesses(i)]
    runs = _runs(model, accesses, True)
    assert len(runs) < len([a for _, a in accesses if a.writes])
    for site in range(len(model.function.instructions)):
        after = [a for run in runs for a in run.after(model, site).accesses]
        assert after == [a for i, a in accesses if a.writes and model.reaches(site, i)]


def test_the_initialising_thread_may_use_it_at_once() -> None:
    body = f"@%p0 bra on;\nmbarrier.init.shared::cta.b64 [full], 1;\n{ARRIVE}\n{WAIT}\non: ret;"
    assert not found(body, "MB002")


@pytest.mark.parametrize(
    ("between", "user", "early"),
    [
        ("bar.warp.sync -1;", "mov.u32 %r8, %r7;", ""),
        ("bar.sync 0;", "mov.u32 %r8, ring;", ""),
        ("", "mov.u32 %r8, %r7;", "lanes 1-31 of warps 0-3"),
    ],
)
def test_each_warp_has_an_mbarrier_of_its_own(between: str, user: str, early: str) -> None:
    """A warp publishes by bar.warp.sync what no other warp uses."""
    body = f"""
    shr.u32 %r6, %r0, 5;
    mov.u32 %r7, ring;
    mad.lo.u32 %r7, %r6, 8, %r7;
    and.b32 %r5, %r0, 31;
    setp.eq.u32 %p5, %r5, 0;
    @%p5 mbarrier.init.shared::cta.b64 [%r7], 1;
    {between}
    @%p5 mbarrier.arrive.shared::cta.b64 _, [%r7];
    {user}
    wait: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r8], 0;
    @!%p1 bra wait;
    """
    hits = found(body, "MB002")
    assert [hit.message.partition(" may use")[0].partition(" of ")[2] for hit in hits] == (
        [early] if early else []
    )


@pytest.mark.parametrize(
    ("mask", "user", "confidence"),
    [(-1, 0, Confidence.LOW), (-1, 1, Confidence.HIGH), (12, 2, Confidence.LOW), (12, 0, Confidence.HIGH), ("%r9", 0, Confidence.HIGH)],
)  # fmt: skip
def test_an_elected_lane_initialises(mask: int | str, user: int, confidence: Confidence) -> None:
    """Triton 3.7 lets thread 0 use it, which hardware elects; the manual promises nothing of that (9.7.13.14)."""
    (hit,) = found(
        f"setp.lt.u32 %p4, %r0, 32;\nelect.sync %r3|%p5, {mask};\nand.pred %p6, %p4, %p5;\n"
        f"@%p6 mbarrier.init.shared::cta.b64 [full], 1;\nsetp.eq.u32 %p7, %r0, {user};\n@%p7 {ARRIVE}\n{SIGNAL}\n{WAIT}",
        "MB002",
    )
    assert hit.confidence is confidence
    assert bool(hit.doubt) is (confidence is Confidence.LOW)


def test_an_inval_counts_for_the_mbarrier_that_it_names_alone() -> None:
    """The inits of all three are in the same two blocks."""
    makes = "\n".join(f"mbarrier.init.shared::cta.b64 [ring+{offset}], 1;" for offset in (0, 8, 16))
    body = f"@%p0 bra on;\n{makes}\nmbarrier.inval.shared::cta.b64 [ring+8];\nbra next;\nnext:\n{makes}\nmbarrier.inval.shared::cta.b64 [ring+16];\non:"
    (hit,) = [hit for hit in found(body, "MB009") if "re-initialises" in hit.message]
    assert hit.count == 2
    assert "[ring]" in hit.message
    severities = {h.severity for h in found(body, "MB009", strict=True) if "re-initialises" in h.message}
    assert (hit.severity, severities) == (Severity.INFO, {Severity.WARNING})


def test_an_mbarrier_without_an_init_is_shown_with_the_inits_of_its_neighbours() -> None:
    inits = [f"@!%p0 mbarrier.init.shared::cta.b64 [ring+{8 * k}], 1;" for k in (0, 2, 1)]
    body = "\n".join((*inits, SIGNAL, "mbarrier.arrive.shared::cta.b64 _, [ring+24];"))
    text = module(kernel(f"{START}\n{body}\nret;"), header=HEADER)
    (finding,) = by_rule(lint(text), "MB009")
    *neighbours, use = (text[step.span.start : step.span.end] for step in finding.steps)
    assert neighbours == inits[1:]
    assert use.startswith("mbarrier.arrive")


@pytest.mark.parametrize(
    ("body", "message"),
    {
        "none": (f"{SIGNAL}\n{ARRIVE}\n{WAIT}", "never initialised: the kernel contains no mbarrier.init"),
        "another": (
            f"{MAKE}\n{SIGNAL}\nmbarrier.arrive.shared::cta.b64 _, [ring+8];",
            "the mbarrier [ring+8], which is never initialised: no mbarrier.init initialises it",
        ),
        "after those that a loop initialises": (
            LOOP.format(2) + f"\n{SIGNAL}\nmbarrier.arrive.shared::cta.b64 _, [ring+16];",
            "the mbarrier [ring+16], which is never initialised: no mbarrier.init initialises it",
        ),
        "one of those that a loop makes": (
            LOOP.format(3) + f"\n{SIGNAL}\nmbarrier.arrive.shared::cta.b64 _, [ring+16];",
            "",
        ),
        "another ended": (
            f"{MAKE}\n{SIGNAL}\n{ARRIVE}\n{SIGNAL}\n@!%p0 mbarrier.inval.shared::cta.b64 [ring+8];",
            "the mbarrier [ring+8], which is never initialised: no mbarrier.init initialises it",
        ),
        "twice": (f"{MAKE}\n{MAKE}\n{SIGNAL}\n{ARRIVE}", "it must be invalidated first"),
        "in a loop": (
            f"next: {MAKE}\n{SIGNAL}\n{ARRIVE}\n{SIGNAL}\nsub.u32 %r9, %r9, 1;\nsetp.ne.u32 %p2, %r9, 0;\n@%p2 bra next;",
            "it must be invalidated first",
        ),
        "ended": (
            f"{MAKE}\n{SIGNAL}\n@!%p0 mbarrier.inval.shared::cta.b64 [full];\n{ARRIVE}",
            "after it was invalidated by mbarrier.inval",
        ),
        "ended and made again": (
            f"{MAKE}\n{SIGNAL}\n@!%p0 mbarrier.inval.shared::cta.b64 [full];\n{SIGNAL}\n{MAKE}\n{SIGNAL}\n{ARRIVE}",
            "",
        ),
        "overwritten": (
            f"{MAKE}\n{SIGNAL}\nst.shared.u32 [full+4], %r0;",
            "writes memory of the mbarrier [full]",
        ),
        "read": (f"{MAKE}\n{SIGNAL}\nld.shared.u64 %rd1, [full];", "reads memory of the mbarrier [full]"),
        "cleared before": (f"st.shared.u64 [full], 0;\n{SIGNAL}\n{MAKE}\n{SIGNAL}\n{ARRIVE}", ""),
        "its neighbour": (f"{MAKE}\n{SIGNAL}\nst.shared.u32 [ring+24], %r0;\n{ARRIVE}", ""),
        "each lane one": (
            f"{LANES}\n{SIGNAL}\nmbarrier.arrive.shared::cta.b64 _, [ring+24];",
            "",
        ),
    }.values(),
)
def test_the_life_of_an_mbarrier(body: str, message: str) -> None:
    hits = found(body, "MB009")
    assert len(hits) == bool(message), [hit.message for hit in hits]
    assert all(message in hit.message for hit in hits)


OF_A_WARP = """
    .shared .align 128 .b8 stages[16384];
    mov.u32 %r0, %tid.x;
    shr.u32 %r1, %r0, 5;
    and.b32 %r2, %r0, 31;
    shl.b32 %r3, %r1, 12;
    mov.u32 %r4, stages;
    add.u32 %r4, %r4, %r3;
    setp.eq.u32 %p0, %r2, 0;
    @%p0 mbarrier.init.shared::cta.b64 [%r4+3584], 1;
    bar.warp.sync -1;
"""
INTO = "@%p0 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r4], [%rd0], {}, [%r4+3584];"


@pytest.mark.parametrize(
    ("access", "wrong"),
    [
        (INTO.format(3696), True),
        (INTO.format(3584), False),
        ("@%p0 mbarrier.inval.shared::cta.b64 [%r4+3584];\n" + INTO.format(3696), False),
        ("st.shared.u32 [%r4+3588], %r0;", True),
        ("add.u32 %r4, %r4, 4096;\n@%p0 st.shared.u32 [%r4+3588], %r0;", False),
        ("add.u32 %r4, %r4, %r9;\n@%p0 st.shared.u32 [%r4+3588], %r0;", False),
    ],
)
def test_an_access_to_the_mbarrier_of_its_own_warp(access: str, wrong: bool) -> None:
    """The mbarrier of each warp follows its stage, at an address that depends on the thread index."""
    text = module(kernel(f"{OF_A_WARP}{access}\nret;"))
    hits = [f for f in by_rule(lint(text), "MB009") if "memory of the mbarrier" in f.message]
    assert len(hits) == wrong


TWO = "@!%p0 mbarrier.init.shared::cta.b64 [ring], 128;\n@!%p0 mbarrier.init.shared::cta.b64 [ring+8], 128;"
THIRD = "@!%p0 mbarrier.init.shared::cta.b64 [ring+16], 128;"
STAGE = "rem.u32 %r11, %r10, 3;"


def rounds(made: str, stage: str = STAGE, later: str = "") -> str:
    """All threads meet at the mbarriers of a ring in turn."""
    return f"""{made}
    {SIGNAL}
    mov.u32 %r10, 0;
next:
    {stage}
    shl.b32 %r12, %r11, 3;
    add.u32 %r13, %r1, %r12;
    mbarrier.arrive.shared::cta.b64 _, [%r13];
    div.u32 %r14, %r10, 3;
    and.b32 %r14, %r14, 1;
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r13], %r14;
    @!%p1 bra wait;
    add.u32 %r10, %r10, 1;
    setp.lt.u32 %p4, %r10, %r9;
    @%p4 bra next;
    {later}"""


@pytest.mark.parametrize(("guard", "made"), [("@%p5 bra on;", TWO), ("", f"{TWO}\n{THIRD}")])
def test_the_first_iteration_has_no_previous_stage(guard: str, made: str) -> None:
    """Where the first iteration releases nothing, or all stages are made, the address that it would use does not matter."""
    stage = f"""
    setp.eq.u32 %p5, %r10, 0;
    {guard}
    add.u32 %r11, %r10, -1;
    mul.wide.u32 %rd2, %r11, -1431655765;
    shr.u64 %rd2, %rd2, 33;
    cvt.u32.u64 %r12, %rd2;
    mul.lo.u32 %r12, %r12, 3;
    sub.u32 %r11, %r11, %r12;
    shl.b32 %r12, %r11, 3;
    add.u32 %r13, %r1, %r12;
    mbarrier.arrive.shared::cta.b64 _, [%r13];
on:
    add.u32 %r10, %r10, 1;
    setp.lt.u32 %p4, %r10, %r9;
    @%p4 bra next;
    """
    assert found(f"{made}\n{SIGNAL}\nmov.u32 %r10, 0;\nnext:\n{stage}", "MB009") == []


@pytest.mark.parametrize(
    ("body", "message"),
    {
        "all are made": (rounds(f"{TWO}\n{THIRD}"), ""),
        "the last turn": (
            rounds(TWO),
            "the mbarrier [ring+16], which is never initialised: no mbarrier.init initialises it",
        ),
        "by a division": (
            rounds(TWO, "div.u32 %r11, %r10, 3;\nmul.lo.u32 %r11, %r11, 3;\nsub.u32 %r11, %r10, %r11;"),
            "the mbarrier [ring+16], which is never initialised: no mbarrier.init initialises it",
        ),
        "made when it is over": (
            rounds(TWO, later=f"{SIGNAL}\n{THIRD}\n{SIGNAL}\nmbarrier.arrive.shared::cta.b64 _, [ring+16];"),
            "the mbarrier [ring+16], which is not initialised yet: its mbarrier.init follows the use",
        ),
        # A stage and a phase in one number, which skips the last stage: 0, 1, 4, 5, 0.
        "packed with a phase": (
            rounds(TWO, "and.b32 %r11, %r15, 3;", later="")
            .replace(
                "add.u32 %r10, %r10, 1;",
                "not.b32 %r16, %r15;\nand.b32 %r16, %r16, 4;\nadd.u32 %r17, %r15, 1;\nsetp.eq.u32 %p5, %r11, 1;\n"
                "selp.b32 %r15, %r16, %r17, %p5;\nadd.u32 %r10, %r10, 1;",
            )
            .replace("mov.u32 %r10, 0;", "mov.u32 %r10, 0;\nmov.u32 %r15, 0;"),
            "",
        ),
        # The same in a debug build, which has a branch for a number that may be chosen.
        "packed, and chosen by a branch": (
            rounds(
                TWO,
                "and.b32 %r11, %r15, 3;\nsetp.eq.u32 %p6, %r11, 0;\n@%p6 bra same;\nbra chosen;\nsame:",
                later="",
            )
            .replace("same:", "same:\nmov.u32 %r11, 0;\nchosen:")
            .replace(
                "add.u32 %r10, %r10, 1;",
                "and.b32 %r18, %r15, 3;\nnot.b32 %r16, %r15;\nand.b32 %r16, %r16, 4;\nadd.u32 %r17, %r15, 1;\n"
                "setp.eq.u32 %p5, %r18, 1;\nselp.b32 %r15, %r16, %r17, %p5;\nadd.u32 %r10, %r10, 1;",
            )
            .replace("mov.u32 %r10, 0;", "mov.u32 %r10, 0;\nmov.u32 %r15, 0;"),
            "",
        ),
        # A launch of two rounds may be the only one.
        "as many as there are rounds": (rounds(TWO, "mov.u32 %r11, %r10;"), ""),
        "chosen by the launch": (rounds(TWO, "rem.u32 %r11, %r9, 3;"), ""),
        # MB002 asks whether the others have observed it.
        "made by others meanwhile": (
            (
                f"{TWO}\n{SIGNAL}\nsetp.lt.u32 %p5, %r0, 64;\n@%p5 bra on;\nsetp.eq.u32 %p7, %r0, 64;\n{THIRD.replace('@!%p0', '@%p7')}\nbra later;\non:\n"
                f"{rounds('')}\nlater:"
            ),
            "",
        ),
    }.values(),
)
def test_an_mbarrier_whose_turn_comes_too_early(body: str, message: str) -> None:
    hits = found(body, "MB009")
    assert len(hits) == bool(message), [hit.message for hit in hits]
    for hit in hits:
        assert hit.message.endswith(message)
        assert hit.confidence is Confidence.HIGH


@pytest.mark.parametrize(
    ("address", "operand", "steps"),
    [("add.u32 %r20, %r1, 16;", "%r20", 1), ("add.u32 %r20, %r1, 24;", "ring+16", 0)],
)
def test_the_computed_address_of_an_mbarrier_that_is_never_initialised_is_shown(
    address: str, operand: str, steps: int
) -> None:
    body = f"{TWO}\n{address}\n{SIGNAL}\nmbarrier.arrive.shared::cta.b64 _, [{operand}];"
    (finding,) = found(body, "MB009")
    shown = [step for step in finding.steps if "computes the address" in step.message]
    assert [step.object for step in shown] == ["[ring+16]"] * steps


@pytest.mark.parametrize(
    ("index", "other", "count"),
    [("%ctaid.x", "", 1), ("%ctaid.x", MAKE, 0), ("%tid.x", "", 0)],
    ids=["only another CTA makes it", "every CTA makes it", "another thread may make it"],
)
def test_an_mbarrier_that_only_other_ctas_initialise(index: str, other: str, count: int) -> None:
    """What one CTA initialises is in its own shared memory."""
    body = f"""mov.u32 %r5, {index};
    setp.ne.u32 %p3, %r5, 0;
    @%p3 bra other;
    {MAKE}
    bra made;
other:
    {other}
    @!%p0 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [full], 16;
    @!%p0 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [full], 16;
made:
    {SIGNAL}
    {ARRIVE}
    {WAIT}"""
    hits = [h for h in found(body, "MB009", directives=".reqntid 128") if "only other CTAs" in h.message]
    assert len(hits) == count


def test_a_guarded_initialisation_before_a_branch_of_the_cta_is_not_one_of_other_ctas() -> None:
    """The guard alone decides whether the CTA initialises it, and another launch may make it true."""
    body = f"""ld.param.u32 %r6, [number];
    mov.u32 %r5, %ctaid.x;
    setp.ne.u32 %p3, %r5, 0;
    setp.eq.u32 %p2, %r6, 12345;
    @%p2 mbarrier.init.shared::cta.b64 [full], 128;
    @%p3 bra other;
    {SIGNAL}
    {ARRIVE}
    {WAIT}
other:"""
    assert not found(body, "MB009", directives=".reqntid 128")


END = "@!%p0 mbarrier.inval.shared::cta.b64 [full];"
ENDED = f"{MAKE}\n{END}"
UNKNOWN = "ld.shared.u32 %r20, [tile];\nmbarrier.arrive.shared::cta.b64 _, [%r20];"


@pytest.mark.parametrize(
    ("body", "count"),
    {
        "a use may name it": (f"{ENDED}\n{SIGNAL}\n{UNKNOWN}", 1),
        "made again": (f"{ENDED}\n{MAKE}\n{SIGNAL}\n{UNKNOWN}", 0),
        "another made later": (
            f"{ENDED}\n@!%p0 mbarrier.init.shared::cta.b64 [ring], 1;\n{SIGNAL}\n{UNKNOWN}",
            1,
        ),
        "one that is unknown made later": (
            f"{ENDED}\nld.shared.u32 %r21, [tile+4];\n@!%p0 mbarrier.init.shared::cta.b64 [%r21], 1;\n{SIGNAL}\n{UNKNOWN}",
            0,
        ),
        "not at once": (f"{MAKE}\n{SIGNAL}\n{UNKNOWN}\n{SIGNAL}\n{END}", 0),
        "by another thread": (f"{MAKE}\n{END.replace('@!%p0', '@%p0')}\n{SIGNAL}\n{UNKNOWN}", 0),
        "only another is used": (f"{TWO}\n{ENDED}\n{SIGNAL}\nmbarrier.arrive.shared::cta.b64 _, [ring];", 0),
    }.values(),
)
def test_an_mbarrier_that_is_invalidated_at_once_is_reported_where_a_use_may_name_it(
    body: str, count: int
) -> None:
    hits = [hit for hit in found(body, "MB009") if "no thread can have used" in hit.message]
    assert len(hits) == count
    for hit in hits:
        assert hit.confidence is Confidence.MEDIUM
        assert [step.message[:11] for step in hit.steps] == ["initialised", "invalidated", "uses an mba"]


def test_an_invalidated_mbarrier_whose_use_is_known_is_reported_once() -> None:
    (hit,) = found(f"{ENDED}\n{SIGNAL}\n{ARRIVE}", "MB009")
    assert hit.message.endswith("after it was invalidated by mbarrier.inval")


PUBLISH = "fence.mbarrier_init.release.cluster;"


@pytest.mark.parametrize(
    ("body", "confidence"),
    {
        "ends them": (f"{SIGNAL}\n{ARRIVE}\n{WAIT}\n{END}", Confidence.HIGH),
        "publishes them": (f"{PUBLISH}\n{SIGNAL}\n{ARRIVE}\n{WAIT}", Confidence.HIGH),
        "neither": (f"{SIGNAL}\n{ARRIVE}\n{WAIT}", Confidence.LOW),
        "no thread waits": (f"{SIGNAL}\n{ARRIVE}\n{SIGNAL}\n{END}", Confidence.LOW),
        "no thread signals": (f"{SIGNAL}\n{WAIT}\n{END}", Confidence.LOW),
        "in memory of the caller": (
            f"cvt.u32.u64 %r2, %rd0;\n{SIGNAL}\n{ARRIVE}\n{WAIT}\n{END}".replace("[full]", "[%r2]"),
            Confidence.LOW,
        ),
    }.values(),
)
def test_a_kernel_without_any_initialisation(body: str, confidence: Confidence) -> None:
    """It may be an extract, unless all else is there that mbarriers of its own need."""
    (hit,) = found(body, "MB009")
    assert hit.confidence is confidence
    assert bool(hit.doubt) == (confidence is Confidence.LOW)


def test_a_function_that_may_initialise_it() -> None:
    other = """
.func make()
{
    .reg .b64 %rd<2>;
    ld.local.u64 %rd1, [%rd0];
    mbarrier.init.b64 [%rd1], 1;
    ret;
}
"""
    body = f"{START}\n@!%p0 mbarrier.init.shared::cta.b64 [ring], 1;\ncall make;\n{SIGNAL}\n{ARRIVE}\n{WAIT}\nret;"
    assert not by_rule(lint(module(other, kernel(body), header=HEADER)), "MB009")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("mov.u32 %r3, 0;\n@!%p0 mbarrier.init.shared::cta.b64 [full], %r3;", "a count of 0 arrivals"),
        (
            "mov.u32 %r3, 1048576;\nmbarrier.expect_tx.shared::cta.b64 [full], %r3;",
            "a count of 1048576 bytes",
        ),
        ("mov.u32 %r3, 0;\nmbarrier.expect_tx.shared::cta.b64 [full], %r3;", ""),
        ("@!%p0 mbarrier.init.shared::cta.b64 [full], %r9;", ""),
        (f"{MAKE}\n{SIGNAL}\nmbarrier.arrive.shared::cta.b64 _, [full], 129;", "arrives 129 times"),
        (f"{MAKE}\n{SIGNAL}\nmbarrier.arrive.shared::cta.b64 _, [full], 128;", ""),
    ],
)
def test_counts(body: str, message: str) -> None:
    hits = found(body, "MB003")
    assert len(hits) == bool(message)
    assert all(message in hit.message for hit in hits)


GENERIC_PEER = f"{RANK}\nxor.b32 %r4, %r5, 1;\nmov.u64 %rd7, full;\ncvta.shared.u64 %rd7, %rd7;\nmapa.u64 %rd9, %rd7, %r4;"
"""The generic address of an mbarrier in another CTA, in ``%rd9``."""


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (f"{RANK}\n{MAP}\nwait: {ASK.replace('[full]', '[%r6]')}\n@!%p1 bra wait;", 1),
        (f"{RANK}\nmapa.shared::cluster.u32 %r6, %r2, %r5;\nmbarrier.arrive.shared::cta.b64 _, [%r6];", 0),
        (f"{RANK}\n{MAP}\nmbarrier.arrive.shared::cta.b64 _, [%r6];", 1),
        (f"{RANK}\n{MAP}\nmbarrier.arrive.shared::cluster.b64 _, [%r6];", 0),
        (f"{LANE_RANK}\nmbarrier.arrive.shared::cta.b64 _, [%r6];\non:", 1),
        (f"{LANE_RANK}\nmbarrier.arrive.shared::cluster.b64 _, [%r6];\non:", 0),
        (
            f"{RANK}\n{LANE_RANK.replace('gt.u32 %p3, %r0, 1', 'ne.u32 %p3, %r0, %r5')}\nmbarrier.arrive.shared::cta.b64 _, [%r6];\non:",
            0,
        ),
        ("mapa.shared::cluster.u32 %r6, %r2, %r9;\nmbarrier.arrive.shared::cta.b64 _, [%r6];", 0),
        (f"{GENERIC_PEER}\nmbarrier.arrive.release.cluster.b64 _, [%rd9];", 0),
        (f"{GENERIC_PEER}\nmbarrier.arrive_drop.release.cluster.b64 _, [%rd9], 2;", 0),
        (f"{GENERIC_PEER}\nmbarrier.arrive.expect_tx.release.cluster.b64 _, [%rd9], 16;", 0),
        (f"{GENERIC_PEER}\nmbarrier.arrive.release.cluster.b64 %rd8, [%rd9];", 1),
        (f"{GENERIC_PEER}\nmbarrier.arrive.expect_tx.release.cluster.b64 %rd8, [%rd9], 16;", 1),
        (f"{GENERIC_PEER}\nmbarrier.arrive.noComplete.b64 _, [%rd9], 1;", 1),
        (f"{GENERIC_PEER}\nmbarrier.inval.b64 [%rd9];", 1),
        (
            f"{RANK}\n{FIRST}\nmbarrier.arrive.shared::cta.b64 _, [%r6];\non:",
            0,
        ),
    ],
)
def test_mbarriers_of_other_ctas(body: str, count: int) -> None:
    assert len(found(f"{MAKE}\n{JOIN}\n{body}\n{JOIN}", "MB010")) == count


@pytest.mark.parametrize(("state", "count"), [("%rd1", 0), ("%rd2", 1), ("%rd3", 0), ("%rd7", 1), ("7", 1)])
def test_states(state: str, count: int) -> None:
    body = f"""
    {MAKE}
    @!%p0 mbarrier.init.shared::cta.b64 [ring], 128;
    {SIGNAL}
    mbarrier.arrive.shared::cta.b64 %rd1, [full];
    mbarrier.arrive.shared::cta.b64 %rd2, [ring];
    ld.global.u64 %rd3, [%rd0];
    wait: mbarrier.try_wait.shared::cta.b64 %p1, [full], {state};
    @!%p1 bra wait;
    """
    assert len(found(body, "MB011")) == count


TO_PEER = "mov.u32 %r3, tile;\nmapa.shared::cluster.u32 %r7, %r3, %r4;\nst.shared::cluster.u32 [%r7+64], %r0;"
OTHERS = "ld.shared.u32 %r3, [tile+64];\nst.global.u32 [%rd0], %r3;"
HIDDEN, SHOWN = (Severity.INFO, Confidence.LOW), (Severity.ERROR, Confidence.HIGH)


@pytest.mark.parametrize(
    ("before", "after", "narrow", "relaxed"),
    [
        (TO_PEER, f"{WAIT}\n{OTHERS}", SHOWN, SHOWN),
        ("", f"{WAIT}\n{OTHERS}", HIDDEN, None),
        # What orders the store for the other CTA, and what does not.
        (f"{TO_PEER}\nfence.acq_rel.cluster;", f"{WAIT}\n{OTHERS}", HIDDEN, None),
        (f"{TO_PEER}\nfence.acq_rel.gpu;", f"{WAIT}\n{OTHERS}", HIDDEN, None),
        (f"{TO_PEER}\nmembar.gl;", f"{WAIT}\n{OTHERS}", HIDDEN, None),
        (f"{TO_PEER}\n{JOIN}", f"{WAIT}\n{OTHERS}", HIDDEN, None),
        (f"{TO_PEER}\nbar.sync 0;\nfence.acq_rel.cluster;", f"{WAIT}\n{OTHERS}", HIDDEN, None),
        (f"{TO_PEER}\nfence.acq_rel.cta;", f"{WAIT}\n{OTHERS}", SHOWN, SHOWN),
        (f"{TO_PEER}\nfence.mbarrier_init.release.cluster;", f"{WAIT}\n{OTHERS}", SHOWN, SHOWN),
        (f"{TO_PEER}\nfence.acquire.sync_restrict::shared::cluster.cluster;", f"{WAIT}\n{OTHERS}", SHOWN, SHOWN),
        (f"{TO_PEER}\nbarrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;", f"{WAIT}\n{OTHERS}", SHOWN, SHOWN),
        # Nothing that is stored there is read after the wait: the arrival returns a buffer, or counts.
        (TO_PEER, WAIT, HIDDEN, None),
        (TO_PEER, f"{WAIT}\n{READ}", HIDDEN, None),
        (TO_PEER, f"{WAIT}\n{JOIN}\n{OTHERS}", HIDDEN, None),
        (TO_PEER, f"{JOIN}\n{OTHERS}", HIDDEN, None),
        # Whether it is read is unknown.
        (TO_PEER, f"{WAIT}\nld.global.u32 %r3, [%rd0];\nand.b32 %r3, %r3, 1023;\nld.shared.u32 %r3, [%r3];", (Severity.ERROR, Confidence.LOW), (Severity.ERROR, Confidence.LOW)),
    ],
)  # fmt: skip
def test_what_an_arrival_in_another_cta_must_release(
    before: str,
    after: str,
    narrow: tuple[Severity, Confidence],
    relaxed: tuple[Severity, Confidence] | None,
) -> None:
    def hits(scope: str, rule: str, directives: str = ".reqntid 128") -> list[Finding]:
        arrive = f"mbarrier.arrive{scope}.shared::cluster.b64 _, [%r6];"
        body = f"{MAKE}\n{JOIN}\n{RANK}\n{MAP}\n{before}\n{arrive}\n{after}"
        return found(body, rule, directives=f"{directives}")

    assert [(hit.severity, hit.confidence) for hit in hits("", "MB012")] == [narrow]
    assert [(hit.severity, hit.confidence) for hit in hits(".relaxed.cluster", "MB013")] == (
        [relaxed] if relaxed else []
    )
    assert not hits(".release.cluster", "MB012")
    assert not hits(".release.cluster", "MB013")
    for one in (".reqnctapercluster 1", ".maxclusterrank 1"):
        assert not hits("", "MB012", f".reqntid 128\n{one}")
        assert not hits(".relaxed.cluster", "MB013", f".reqntid 128\n{one}")


def test_a_returned_buffer_beside_a_release_of_the_data() -> None:
    """Each CTA stores to the other and releases that with cluster scope; the arrival after its own read is relaxed."""
    steps = (MAKE, MAKE.replace("full", "ring"), JOIN, RANK, MAP)
    empty = "mov.u32 %r3, ring;\nmapa.shared::cluster.u32 %r8, %r3, %r4;"
    again = "again:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [ring], 1;\n@!%p2 bra again;"
    full = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];"
    give = "mbarrier.arrive{}.shared::cluster.b64 _, [%r8];\nadd.u32 %r9, %r9, 1;\nsetp.lt.u32 %p4, %r9, 7;\n@%p4 bra again;"
    for scope, rule in ((".relaxed.cluster", "MB013"), ("", "MB012")):
        body = "\n".join((*steps, empty, again, TO_PEER, full, WAIT, OTHERS, give.format(scope)))
        assert [hit for hit in found(body, rule) if hit.confidence is not Confidence.LOW] == []


@pytest.mark.parametrize(
    ("before", "between", "later", "count"),
    [
        ("", "", "", 1),
        ("bar.sync 0;", "", "", 1),
        ("fence.acq_rel.cta;", "", "", 0),
        ("", "bar.sync 0;", "", 0),
        ("", "", "bar.sync 0;", 0),
    ],
)
def test_relaxed_arrivals(before: str, between: str, later: str, count: int) -> None:
    """A barrier orders what an arrival does not, also where it follows that."""
    store = "st.shared.u32 [%r3], %r0;"
    body = f"""
    {MAKE}
    {SIGNAL}
    mov.u32 %r3, tile;
    mad.lo.u32 %r3, %r0, 4, %r3;
    {f"{before} {store}" if before.startswith("bar") else f"{store} {before}"}
    mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [full];
    {between}
    {WAIT}
    {later}
    ld.shared.u32 %r4, [tile+64];
    """
    assert len(found(body, "MB013")) == count


@pytest.mark.parametrize(
    ("arrive", "write", "read", "count"),
    [
        (".relaxed.cta", "%r0", "%r0, -64", 1),
        (".relaxed.cta", "%r6", "%r6, 0", 1),
        (".release.cta", "%r6", "%r6, 0", 0),
        (".relaxed.cta", "%r6", "%r6, 64", 0),
    ],
)
def test_relaxed_arrivals_of_one_role(arrive: str, write: str, read: str, count: int) -> None:
    """The index of a thread in its role is that of another thread in the other role."""
    body = f"""
    @!%p0 mbarrier.init.shared::cta.b64 [full], 64;
    {SIGNAL}
    and.b32 %r6, %r0, 63;
    mov.u32 %r3, tile;
    setp.lt.u32 %p5, %r0, 64;
    @!%p5 bra reads;
    mad.lo.u32 %r3, {write}, 4, %r3;
    st.shared.u32 [%r3], %r0;
    mbarrier.arrive{arrive}.shared::cta.b64 _, [full];
    ret;
    reads: {WAIT}
    add.u32 %r7, {read};
    mad.lo.u32 %r3, %r7, 4, %r3;
    ld.shared.u32 %r4, [%r3];
    """
    assert len(found(body, "MB013")) == count


@pytest.mark.parametrize(
    ("sem", "fence", "read", "count"),
    [
        (".relaxed.cta", "", "[tile+64]", 1),
        (".relaxed.cta", "fence.acq_rel.cta;", "[tile+64]", 0),
        (".relaxed.cta", "", "[%r3]", 0),
        (".relaxed.cta", "", "[tile+4096]", 0),
        (".acquire.cta", "", "[tile+64]", 0),
    ],
)
def test_relaxed_waits(sem: str, fence: str, read: str, count: int) -> None:
    body = f"""
    {MAKE}
    {SIGNAL}
    mov.u32 %r3, tile;
    mad.lo.u32 %r3, %r0, 4, %r3;
    st.shared.u32 [%r3], %r0;
    {ARRIVE}
    wait: mbarrier.try_wait.parity{sem}.shared::cta.b64 %p1, [full], 0;
    @!%p1 bra wait;
    {fence}
    ld.shared.u32 %r4, {read};
    """
    hits = found(body, "MB013")
    assert len(hits) == count
    for hit in hits:
        assert [step.message for step in hit.steps] == [
            "writes the bytes",
            "arrives",
            "waits",
            "reads the bytes",
        ]
        assert "fence.acquire.cluster" in hit.help


@pytest.mark.parametrize(
    ("sem", "between", "default", "strict"),
    [
        ("", "bar.sync 0;", [], []),
        (".relaxed.cta", "", [Severity.WARNING], [Severity.WARNING]),
        (".relaxed.cta", "bar.sync 0;", [], [Severity.WARNING]),
        (".relaxed.cta", "fence.acq_rel.cta;\nbar.sync 0;", [], []),
        (".relaxed.cta", "bar.sync 0;\nagain: " + ASK + "\n@!%p1 bra again;", [], []),
    ],
)
def test_by_the_letter_a_barrier_makes_no_acquire_pattern_of_a_relaxed_wait(
    sem: str, between: str, default: list[Severity], strict: list[Severity]
) -> None:
    """An acquire pattern is a strong read and a fence, or a read that acquires (8.8)."""
    body = f"""
    @!%p0 mbarrier.init.shared::cta.b64 [full], 1;
    {SIGNAL}
    @!%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 16;
    @!%p0 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd0], 16, [full];
    wait: mbarrier.try_wait.parity{sem}.shared::cta.b64 %p1, [full], 0;
    @!%p1 bra wait;
    {between}
    ld.shared.u32 %r4, [tile];
    st.global.u32 [%rd0], %r4;
    """
    assert [f.severity for f in found(body, "MB013")] == default
    assert [f.severity for f in found(body, "MB013", strict=True)] == strict


@pytest.mark.parametrize(
    ("guard", "several"),
    [
        ("and.b32 %r4, %r0, 31;\nsetp.eq.u32 %p1, %r4, 0;\n@%p1 ", True),
        ("", True),
        ("setp.eq.u32 %p1, %r0, 64;\n@%p1 ", False),
        ("setp.lt.u32 %p1, %r0, 32;\n@%p1 ", False),
        ("ld.global.u32 %r4, [%rd0];\nsetp.eq.u32 %p1, %r0, %r4;\n@%p1 ", False),
    ],
)
def test_one_mbarrier_that_several_warps_initialise(guard: str, several: bool) -> None:
    text = module(
        kernel(f"{START}{guard}mbarrier.init.shared::cta.b64 [full], 128;\n{SIGNAL}\n{ARRIVE}\nret;")
    )
    hits = [f for f in by_rule(lint(text), "MB009") if "several warps" in str(f.steps)]
    assert [f.severity for f in hits] == [Severity.INFO] * several


ELECT = "elect.sync %r5|%leader, 0xffffffff;"
LANE_0 = "setp.eq.u32 %leader, %r0, 0;"


@pytest.mark.parametrize(
    ("chosen", "severity"),
    [
        (ELECT, Severity.INFO),
        (LANE_0, Severity.WARNING),
        (f"shfl.sync.idx.b32 %r9, %r4, 0, 31, -1;\n{LANE_0}", Severity.INFO),
        (f"vote.sync.any.pred %p3, %p2, 1;\n{LANE_0}", Severity.WARNING),
    ],
)
def test_an_arrival_for_lanes_that_have_met_is_a_note_unless_strict(chosen: str, severity: Severity) -> None:
    """On an H100 such arrivals never preceded the stores of lanes that were late; those without a meeting did."""
    code = block("MB014", "one_lane_arrives")
    assert ELECT in code
    for strict, expected in ((False, severity), (True, Severity.WARNING)):
        report = lint(code.replace(ELECT, chosen), selected=Selected(strict=strict))
        assert [f.severity for f in by_rule(report, "MB014")] == [expected]


def test_a_note_about_one_store_hides_no_warning_about_another() -> None:
    store = "st.shared.u32 [%r3], %r4;"
    code = block("MB014", "one_lane_arrives").replace(ELECT, f"{ELECT}\n{store}")
    assert [f.severity for f in by_rule(lint(code), "MB014")] == [Severity.WARNING]


STORE = "st.shared.u32 [%r3], %r4;"
ARRIVE_LANE_0 = "@!%p0 mbarrier.arrive.shared::cta.b64 _, [full];"


@pytest.mark.parametrize(
    ("store", "between", "severities"),
    [
        (f"@%p0 {STORE}", "", [Severity.WARNING]),
        (f"@!%p0 bra skip;\n{STORE}\nskip:", "", [Severity.WARNING]),
        (f"@!%p0 bra skip;\n{STORE}\nskip:", "vote.sync.any.pred %p3, %p2, -1;", [Severity.INFO]),
        (f"@%p0 {STORE}", "bar.warp.sync -1;", []),
        (f"@!%p0 bra skip;\n{STORE}\nskip:", "bar.warp.sync -1;", []),
        (f"@!%p0 bra skip;\n{STORE}\nbar.warp.sync -1;\nskip:", "", []),
        # The arriving lane may be ordered after the others by way of another warp.
        (
            f"@%p0 {STORE}",
            "relay: mbarrier.try_wait.parity.shared::cta.b64 %p2, [back], 0;\n@!%p2 bra relay;",
            [],
        ),
        (f"@!%p0 {STORE}", "", []),
    ],
)
def test_an_arrival_for_lanes_that_store_where_the_arriving_lane_does_not(
    store: str, between: str, severities: list[Severity]
) -> None:
    code = block("MB014", "one_lane_arrives").replace(STORE, store)
    code = code.replace(".shared .align 8 .b64 full;", ".shared .align 8 .b64 full, back;")
    arrive = "@%leader mbarrier.arrive.shared::cta.b64 _, [full];"
    code = code.replace(f"{ELECT}\n    {arrive}", f"{between}\n{ARRIVE_LANE_0}")
    assert arrive not in code
    assert [f.severity for f in by_rule(lint(code), "MB014")] == severities


LOAD = "ld.shared.u32 %r4, [%r3];"


@pytest.mark.parametrize(
    ("load", "release", "severities"),
    [
        (LOAD, ARRIVE_LANE_0, [Severity.WARNING]),
        (LOAD, f"vote.sync.any.pred %p3, %p2, -1;\n{ARRIVE_LANE_0}", [Severity.INFO]),
        (LOAD, f"bar.warp.sync -1;\n{ARRIVE_LANE_0}", []),
        (f"@%p0 {LOAD}", ARRIVE_LANE_0, [Severity.WARNING]),
        (f"@!%p0 {LOAD}", ARRIVE_LANE_0, []),
        ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r4}, [%r3];", ARRIVE_LANE_0, []),
        (f"@%p0 bra others;\n{ARRIVE_LANE_0}\nret;\nothers:\n{LOAD}", "", [Severity.WARNING]),
        (
            f"@%p0 bra others;\nbar.warp.sync -1;\n{ARRIVE_LANE_0}\nret;\nothers:\n{LOAD}\nbar.warp.sync -1;",
            "",
            [],
        ),
        (f"{LOAD}\n@%p0 mbarrier.arrive.shared::cta.b64 _, [full];", ARRIVE_LANE_0, []),
    ],
)
def test_an_arrival_for_lanes_that_may_still_read_what_is_overwritten(
    load: str, release: str, severities: list[Severity]
) -> None:
    code = block("MB014", "one_lane_arrives")
    arrive = "@%leader mbarrier.arrive.shared::cta.b64 _, [full];"
    code = code.replace(f"ld.global.u32 %r4, [%in];\n    {STORE}", load)
    code = code.replace(f"{ELECT}\n    {arrive}", f"{release}\nst.global.u32 [%out], %r4;")
    code = code.replace(
        "ld.shared.u32 %r8, [%r7];\n    st.global.u32 [%out], %r8;", "st.shared.u32 [%r7], %r6;"
    )
    assert "%leader mbarrier" not in code
    hits = by_rule(lint(code), "MB014")
    assert [f.severity for f in hits] == severities
    assert all("reads of the other lanes" in f.message for f in hits)


@pytest.mark.parametrize(
    ("between", "names"),
    [
        ("", ["first"]),
        ("st.shared.u32 [%r3], %r5;", ["first", "second"]),
        ("bar.warp.sync -1;", ["first"]),
    ],
)
def test_a_store_is_reported_at_the_arrival_that_publishes_it_first(between: str, names: list[str]) -> None:
    arrive = "@%leader mbarrier.arrive.shared::cta.b64 _, [{}]; // {}"
    code = block("MB014", "one_lane_arrives")
    code = code.replace(".shared .align 8 .b64 full;", ".shared .align 8 .b64 full, more;")
    code = code.replace("[full], 1;", "[full], 1;\nmbarrier.init.shared::cta.b64 [more], 1;")
    arrivals = f"{arrive.format('full', 'first')}\n{between}\n{arrive.format('more', 'second')}"
    code = code.replace("@%leader mbarrier.arrive.shared::cta.b64 _, [full];", arrivals)
    consume = "mbarrier.try_wait.parity.shared::cta.b64 %ready, [full], 0;\n    @!%ready bra consume;"
    again = f"{consume}\nagain: {consume.replace('[full]', '[more]').replace('bra consume', 'bra again')}"
    code = code.replace(consume, again)
    reported = [line for rule, line in lines_of(lint(code)) if rule == "MB014"]
    assert reported == [line_of(code, f"// {name}") for name in names]


COPY = "cp.async.ca.shared.global [%r3+4096], [%rd0], 4;"
COPIES_ARRIVE = "cp.async.mbarrier.arrive.noinc.shared.b64 [full];"


@pytest.mark.parametrize(
    ("stores", "reads", "severity"),
    [
        (f"st.shared.u32 [%r3], %r0;\n{COPY}\n{COPIES_ARRIVE}", "[%r3+-128]", Severity.INFO),
        (f"{COPY}\nst.shared.u32 [%r3], %r0;\n{COPIES_ARRIVE}", "[%r3+-128]", Severity.INFO),
        (f"{COPY}\nst.shared.u32 [%r3], %r0;\n{COPIES_ARRIVE}", "[%r3+3968]", None),
        (f"{COPY}\n{COPIES_ARRIVE}\nst.shared.u32 [%r3], %r0;", "[%r3+-128]", None),
        (f"st.shared.u32 [%r3], %r0;\n{COPY}\n{COPIES_ARRIVE}\n{{arrive}}", "[%r3+-128]", None),
        (f"st.shared.u32 [%r3], %r0;\n{COPY}\ncp.async.wait_all;\n{{arrive}}", "[%r3+-128]", None),
    ],
)
def test_a_store_that_only_the_arrival_of_copies_publishes(
    stores: str, reads: str, severity: Severity | None
) -> None:
    body = f"""
    @!%p0 mbarrier.init.shared::cta.b64 [full], 32;
    {SIGNAL}
    mov.u32 %r3, tile;
    mad.lo.u32 %r3, %r0, 4, %r3;
    setp.lt.u32 %p5, %r0, 32;
    @!%p5 bra reads;
    {stores.format(arrive="mbarrier.arrive.shared.b64 _, [full];")}
    bra done;
    reads: {WAIT}
    ld.shared.u32 %r4, {reads};
    done: mov.u32 %r5, 0;
    """
    assert [hit.severity for hit in found(body, "MB013")] == ([severity] if severity else [])


@pytest.mark.parametrize(
    ("fence", "reads", "severity"),
    [
        ("", "[%r3+-128]", Severity.INFO),
        ("fence.proxy.async.shared::cta;", "[%r3+-128]", Severity.INFO),
        ("fence.mbarrier_init.release.cluster;", "[%r3+-128]", Severity.INFO),
        ("fence.acq_rel.cta;", "[%r3+-128]", None),
        ("", "[%r3+3968]", None),
    ],
)
@pytest.mark.parametrize("order", ["", ".relaxed.cta"])
def test_a_store_that_only_complete_tx_publishes(
    order: str, fence: str, reads: str, severity: Severity | None
) -> None:
    """CUTLASS publishes a stored tile index so on sm_120."""
    body = f"""
    @!%p0 mbarrier.init.shared::cta.b64 [full], 1;
    @!%p0 mbarrier.arrive.expect_tx.shared.b64 _, [full], 128;
    {SIGNAL}
    mov.u32 %r3, tile;
    mad.lo.u32 %r3, %r0, 4, %r3;
    setp.lt.u32 %p5, %r0, 32;
    @!%p5 bra reads;
    st.shared.u32 [%r3], %r0;
    {fence}
    mbarrier.complete_tx{order}.shared::cta.b64 [full], 4;
    bra done;
    reads: {WAIT}
    ld.shared.u32 %r4, {reads};
    done: mov.u32 %r5, 0;
    """
    hits = found(body, "MB013")
    assert [hit.severity for hit in hits] == ([severity] if severity else [])
    assert all("complete_tx is relaxed" in hit.message for hit in hits)
