"""The protocol of a kernel as data: roles, rings, what follows what, regions, and words for values."""

from __future__ import annotations

import pytest

from tclint.analyses.model import KernelModel
from tclint.analyses.pretty import ValuePrinter
from tclint.inspect import region_order
from tclint.inspect.protocol import protocol
from tclint.inspect.protocol.parts import MbarrierRing, Multicast, Protocol
from tclint.ir.frontend import analyse
from tclint.ir.inline import inlinable, inline
from tclint.syntax.source import Source
from tests.tools.support import HOPPER, model, module, register

SHARED = """\
.shared .align 8 .b64 full[4];
.shared .align 8 .b64 empty[4];
.shared .align 128 .b8 tile[16384];
"""
INITS = (
    """\
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra made;
"""
    + "".join(
        f"    mbarrier.init.shared::cta.b64 [full+{8 * k}], 1;\n    mbarrier.init.shared::cta.b64 [empty+{8 * k}], 128;\n"
        for k in range(4)
    )
    + "made:\n    bar.sync 0;\n"
)
PRODUCER = """\
    setp.lt.u32 %p1, %r0, 128;
    @%p1 bra consumer;
    setp.ne.u32 %p2, %r0, 128;
    @%p2 bra done;
    mov.u32 %r10, 0;
fill:
    and.b32 %r11, %r10, 3;
    shl.b32 %r12, %r11, 3;
    shr.u32 %r13, %r10, 2;
    xor.b32 %r14, %r13, 1;
    and.b32 %r14, %r14, 1;
    mov.u32 %r15, empty;
    add.u32 %r15, %r15, %r12;
    mov.u32 %r16, full;
    add.u32 %r16, %r16, %r12;
again:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r15], %r14;
    @!%p3 bra again;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r16], 4096;
    shl.b32 %r17, %r11, 12;
    mov.u32 %r18, tile;
    add.u32 %r18, %r18, %r17;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r18], [%rd0], 4096, [%r16];
    add.u32 %r10, %r10, 1;
    setp.lt.u32 %p4, %r10, %r1;
    @%p4 bra fill;
    bra done;
"""
CONSUMER = """\
consumer:
    mov.u32 %r20, 0;
    mov.u32 %r21, 0;
drain:
    shl.b32 %r22, %r20, 3;
    mov.u32 %r23, full;
    add.u32 %r23, %r23, %r22;
    mov.u32 %r24, empty;
    add.u32 %r24, %r24, %r22;
more:
    mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r23], %r21;
    @!%p5 bra more;
    shl.b32 %r25, %r20, 12;
    shl.b32 %r26, %r0, 2;
    add.u32 %r25, %r25, %r26;
    mov.u32 %r27, tile;
    add.u32 %r27, %r27, %r25;
    ld.shared.b32 %r28, [%r27];
    mbarrier.arrive.shared::cta.b64 _, [%r24];
    add.u32 %r20, %r20, 1;
    setp.eq.u32 %p6, %r20, 4;
    selp.b32 %r29, 1, 0, %p6;
    xor.b32 %r21, %r21, %r29;
    selp.b32 %r20, 0, %r20, %p6;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p7, %r2, %r1;
    @%p7 bra drain;
done:
    ret;
"""
RING = f"    ld.param.u32 %r1, [number];\n    ld.param.u64 %rd0, [pointer];\n    mov.u32 %r2, 0;\n{INITS}{PRODUCER}{CONSUMER}"


def read(body: str, directives: str = ".reqntid 160") -> Protocol:
    return protocol(model(body, before=f"{SHARED}.extern .func stranger;\n", directives=directives))


@pytest.fixture(scope="module")
def pipeline() -> Protocol:
    return read(RING)


def ring(of: Protocol, name: str) -> MbarrierRing:
    (found,) = [r for r in of.mbarriers if r.name == name]
    return found


def test_roles_are_warps_that_do_the_same(pipeline: Protocol) -> None:
    assert [(role.name, role.warps) for role in pipeline.roles] == [
        ("warps 0-3", (0, 1, 2, 3)),
        ("warp 4", (4,)),
    ]
    assert {event.roles for event in pipeline.events if event.kind == "barrier sync"} == {(0, 1)}
    assert [(e.kind, e.who) for e in pipeline.events if 1 in e.roles and e.loops] == [
        ("wait", "lane 0 of warp 4"),
        ("arrive", "lane 0 of warp 4"),
        ("copy", "lane 0 of warp 4"),
    ]


def test_a_ring(pipeline: Protocol) -> None:
    full, empty = pipeline.mbarriers
    assert (full.name, full.base, full.offsets, full.stride, full.count) == (
        "full[4]",
        "full",
        (0, 8, 16, 24),
        8,
        1,
    )
    assert (empty.name, empty.count) == ("empty[4]", 128)
    assert [(a.who, a.threads, a.count, a.scope) for a in empty.arrives] == [("warps 0-3", 128, 1, "cta")]
    assert [(len(i.sites), i.who) for i in full.inits] == [(4, "thread 0")]
    assert full.arrivals is not None
    assert (full.arrivals.least, full.arrivals.most) == (1, 1)
    assert full.delivered is not None
    assert [(d.expected, d.copied) for d in full.delivered] == [(4096, 4096)]


def test_parities_in_words(pipeline: Protocol) -> None:
    (producer,), (consumer,) = ring(pipeline, "empty[4]").waits, ring(pipeline, "full[4]").waits
    assert (producer.parity, producer.first) == ("(i / 4 + 1) & 1", 1)
    assert (consumer.parity, consumer.first) == ("phase", 0)
    assert {(n.name, n.meaning) for n in pipeline.names} == {
        ("i", "0, then +1 each iteration"),
        ("stage", "0, then +1 each iteration, wraps to 0 at 4"),
        ("phase", "0, flips when stage == 3"),
    }


def test_what_frees_what(pipeline: Protocol) -> None:
    full, empty = pipeline.mbarriers
    assert [(pipeline.mbarriers[n.ring].name, n.who, n.same_stage) for n in full.then] == [
        ("empty[4]", "warps 0-3", True)
    ]
    assert [(pipeline.mbarriers[n.ring].name, n.who, n.same_stage) for n in empty.then] == [
        ("full[4]", "lane 0 of warp 4", True)
    ]


def test_a_later_signal_follows_the_wait_before_it() -> None:
    """A signal after another wait does not answer the first one."""
    wait = "w{0}:\n    mbarrier.try_wait.parity.shared::cta.b64 %p{0}, [{1}], 0;\n    @!%p{0} bra w{0};\n"
    arrive = "    mbarrier.arrive.shared::cta.b64 _, [{0}];\n"
    found = read(
        INITS
        + wait.format(10, "full")
        + arrive.format("empty")
        + wait.format(11, "full+8")
        + wait.format(12, "full+16")
        + arrive.format("empty+8")
        + arrive.format("empty+16")
        + "    ret;"
    )
    then = {r.name: [found.mbarriers[n.ring].name for n in r.then] for r in found.mbarriers if r.then}
    assert then == {"full": ["empty"], "full+8": ["empty+8", "empty+16"], "full+16": ["empty+8", "empty+16"]}


def test_regions(pipeline: Protocol) -> None:
    (tile,) = [region for region in pipeline.regions if region.name == "tile"]
    assert (tile.start, tile.end, tile.more) == (0, 16384, False)
    assert [(u.verb, u.proxy, u.who) for u in tile.uses] == [
        ("write", "async", "lane 0 of warp 4"),
        ("read", "generic", "warps 0-3"),
    ]


def heard(body: str, directives: str = ".reqntid 160") -> dict[str, list[tuple[bool | None, int]]]:
    """For each use of the tiles: whether it is ordered after the others, and at how many waits."""
    regions = read(body, directives).regions
    uses = [use for region in regions if region.name == "tile" for use in region.uses]
    return {use.verb: [(h.ordered, len(h.at)) for h in use.orderings] for use in uses}


WAIT = "again:\n    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r15], %r14;\n"


@pytest.mark.parametrize(
    ("change", "to", "write", "read_"),
    [
        ("", "", True, True),
        # Some threads that drain do not wait.
        ("drain:\n", "drain:\n    setp.eq.u32 %p8, %r1, 3;\n    @%p8 bra skip;\n", True, False),
        # The thread that fills does not wait for the other ring.
        ("[%r15], %r14", "[%r16], %r14", False, True),
        ("    @!%p3 bra again;\n", "    @!%p3 bra again;\n    call stranger;\n", True, True),
        (f"{WAIT}    @!%p3 bra again;\n", "    call stranger;\n", None, True),
    ],
)
def test_uses_of_a_stage_are_ordered_where_their_threads_wait(
    change: str, to: str, write: bool | None, read_: bool | None
) -> None:
    """A ring of stages: the thread that refills one waits for the one that drains it, and vice versa."""
    body = RING.replace(change, to).replace(
        "    shl.b32 %r25, %r20, 12;", "skip:\n    shl.b32 %r25, %r20, 12;"
    )
    found = heard(body)
    assert [(ordered, bool(at)) for ordered, at in found["write"]] == [(write, write is not False)]
    assert [(ordered, bool(at)) for ordered, at in found["read"]] == [(read_, read_ is not False)]


def test_the_order_of_more_accesses_than_are_compared_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    found = heard(RING)
    assert [ordered for verb in ("write", "read") for ordered, _ in found[verb]] == [True, True]
    monkeypatch.setattr(region_order, "_MAX_CLASSES", 0)
    found = heard(RING)
    assert [ordered for verb in ("write", "read") for ordered, _ in found[verb]] == [None, None]


@pytest.mark.parametrize(
    ("between", "known"), [("bar.sync 0;", True), ("bar.warp.sync -1;", True), ("", None)]
)
def test_bytes_of_one_thread_need_no_order_with_others(between: str, known: bool | None) -> None:
    body = (
        "mov.u32 %r0, %tid.x;\nshl.b32 %r1, %r0, 2;\nmov.u32 %r2, tile;\nadd.u32 %r2, %r2, %r1;\n"
        f"st.shared.b32 [%r2], %r0;\n{between}\nld.shared.b32 %r3, [%r2];\nret;"
    )
    assert heard(body, ".reqntid 128")["read"] == [(known, int(known is True))]


def test_accesses_apart_are_regions_of_their_own() -> None:
    found = read(
        "    mov.u32 %r0, %tid.x;\n    shl.b32 %r1, %r0, 2;\n    mov.u32 %r2, tile;\n    add.u32 %r2, %r2, %r1;\n"
        "    st.shared.b32 [%r2], %r0;\n    ld.shared.b32 %r3, [%r2+1024];\n    ld.shared.b32 %r4, [full];\n    ret;",
        ".reqntid 128",
    )
    assert [(r.name, r.start, r.end) for r in found.regions] == [
        ("full", 0, 4),
        ("tile", 0, 512),
        ("tile", 1024, 1536),
    ]


def test_loops_that_only_wait_are_part_of_the_wait(pipeline: Protocol) -> None:
    assert {len(event.loops) for event in pipeline.events if event.kind == "wait"} == {1}


def test_named_barriers_and_that_of_the_cluster() -> None:
    found = read(
        "    mov.u32 %r0, %tid.x;\n    setp.lt.u32 %p0, %r0, 64;\n    @%p0 bra other;\n    bar.arrive 2, 128;\n"
        "    bra met;\nother:\n    bar.sync 2, 128;\nmet:\n    barrier.cluster.arrive.aligned;\n"
        "    barrier.cluster.wait.aligned;\n    ret;",
        ".reqntid 128",
    )
    (barrier,) = found.barriers
    assert barrier.number == 2
    assert [(u.kind, u.who, u.threads, u.count) for u in barrier.uses] == [
        ("arrive", "warps 2-3", 64, 128),
        ("sync", "warps 0-1", 64, 128),
    ]
    assert found.cluster is not None
    assert [u.kind for u in found.cluster.uses] == ["arrive", "wait"]


def test_threads_that_a_value_chooses_are_some() -> None:
    found = read(
        INITS
        + "    ld.param.u64 %rd0, [pointer];\n    ld.global.u32 %r5, [%rd0];\n    add.u32 %r5, %r5, %r0;\n"
        "    setp.eq.u32 %p5, %r5, 7;\n    @%p5 mbarrier.arrive.shared::cta.b64 _, [full];\n    ret;"
    )
    (arrive,) = ring(found, "full").arrives
    assert (arrive.who, arrive.threads) == ("some threads", None)


def test_a_cta_of_unknown_size() -> None:
    found = read(INITS + "    mbarrier.arrive.shared::cta.b64 _, [full];\n    ret;", "")
    (arrive,) = ring(found, "full").arrives
    assert (arrive.who, arrive.threads) == ("all threads", None)


def test_another_cta_may_arrive() -> None:
    found = read(
        INITS + "    mov.u32 %r5, full;\n    mapa.shared::cluster.u32 %r6, %r5, 1;\n"
        "    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];\n    ret;"
    )
    (arrive,) = ring(found, "full").arrives
    assert (arrive.remote, arrive.scope) == (True, "cluster")
    assert ring(found, "full").arrivals is None


MULTICAST = (
    INITS + "    {mask}\n    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 4096;\n"
    "    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
    "[tile], [%rd0], 4096, [full], %h1;\n"
    "    tcgen05.commit.cta_group::1.mbarrier::arrive::one.multicast::cluster.b64 [empty], %h1;\n    ret;"
)


@pytest.mark.parametrize(
    ("mask", "multicast"),
    [
        ("mov.b16 %h1, 5;", Multicast("CTAs 0, 2", (0, 2))),
        ("mov.b16 %h1, 0x8000;", Multicast("CTA 15", (15,))),
        ("mov.b16 %h1, 0;", Multicast("no CTA", ())),
        (
            "mov.u32 %r5, %cluster_ctarank; shl.b32 %r5, 3, %r5; cvt.u16.u32 %h1, %r5;",
            Multicast("CTAs of mask 3 << %cluster_ctarank", None),
        ),
        ("ld.global.b16 %h1, [%rd0];", Multicast("unknown CTAs", None)),
    ],
)
def test_a_multicast_names_its_ctas(mask: str, multicast: Multicast) -> None:
    found = read(MULTICAST.format(mask=mask))
    assert {e.kind: e.multicast for e in found.events if e.multicast} == {
        "copy": multicast,
        "commit": multicast,
    }
    (copy,), (arrive,) = ring(found, "full").copies, ring(found, "empty").arrives
    assert (copy.multicast, arrive.multicast, arrive.remote) == (multicast, multicast, True)
    assert [b.multicast for b in ring(found, "full").expects] == [None]


@pytest.mark.parametrize(
    ("directives", "ctas"), [("", None), (".explicitcluster\n.reqnctapercluster 2, 1, 1", (0, 1))]
)
def test_a_multicast_to_all_ctas(directives: str, ctas: tuple[int, ...] | None) -> None:
    found = read(
        INITS + "    clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes"
        ".multicast::cluster::all.b128 [tile], [full];\n    ret;",
        f".reqntid 160\n{directives}",
    )
    assert [b.multicast for b in ring(found, "full").copies] == [Multicast("all CTAs", ctas)]


COPY = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd0], 4096, [full];"


@pytest.mark.parametrize(
    ("copy", "why"),
    [
        (
            COPY.replace("bytes ", "bytes.multicast::cluster ").replace(";", ", 3;"),
            "peer CTAs may also expect or transfer bytes",
        ),
        ("mbarrier.complete_tx.shared::cta.b64 [full], 4096;", "it performs complete_tx without a copy"),
        (
            f"ld.shared.u32 %r5, [tile]; setp.eq.u32 %p5, %r5, %r0; @%p5 {COPY}",
            "which threads take part depends on memory",
        ),
        (
            f"ld.param.u32 %r1, [number]; again: {COPY} setp.ne.u32 %p5, %r1, 0; @%p5 bra again;",
            "a loop may execute it several times in one phase",
        ),
    ],
)
def test_why_the_bytes_of_a_phase_are_not_known(copy: str, why: str) -> None:
    found = read(f"{INITS}{copy}\n    ret;")
    assert ring(found, "full").delivered is None
    (reason,) = found.unresolved
    assert reason.why == f"the bytes of a phase are unknown: {why}"
    (site,) = reason.sites
    assert model(f"{INITS}{copy}\n    ret;", before=SHARED).instruction(site).role("mbarrier") is not None


ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [full];"
LOADED = "ld.param.u64 %rd0, [pointer]; ld.global.u32 %r5, [%rd0];"


@pytest.mark.parametrize(
    ("body", "whys"),
    [
        (
            f"{LOADED} again: mbarrier.try_wait.parity.shared::cta.b64 %p1, [full], %r5; @!%p1 bra again;",
            ["the parity depends on memory"],
        ),
        (
            f"{LOADED} mbarrier.arrive.shared::cta.b64 _, [full], %r5;",
            ["the number of arrivals depends on memory"],
        ),
        (
            f"{LOADED} add.u32 %r5, %r5, %r0; setp.eq.u32 %p1, %r5, 7; @%p1 {ARRIVE}",
            ["the arrivals of a phase are unknown: which threads arrive depends on memory"],
        ),
        (
            f"ld.param.u32 %r5, [number]; again: {ARRIVE} setp.ne.u32 %p1, %r5, 0; @%p1 bra again;",
            ["the arrivals of a phase are unknown: a loop may execute it several times in one phase"],
        ),
        (
            f"mapa.shared::cluster.u32 %r6, full, 1; {ARRIVE.replace('full', '%r6').replace('::cta', '::cluster')}",
            ["the arrivals of a phase are unknown: peer CTAs may also arrive"],
        ),
        (
            "ld.param.u32 %r5, [number]; bar.sync 1, %r5;",
            ["the number of threads of the barrier depends on the launch"],
        ),
        (
            "mov.u32 %r5, %tid.x; mbarrier.init.shared::cta.b64 [full], %r5;",
            ["the number of arrivals depends on the thread index"],
        ),
        ("mbarrier.init.shared::cta.b64 [full], 2;", ["these initialise it with different arrival counts"]),
        (
            f"{LOADED} mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [full], %r5;",
            ["the number of bytes depends on memory"],
        ),
    ],
)
def test_what_is_not_known_has_a_reason(body: str, whys: list[str]) -> None:
    assert [u.why for u in read(f"{INITS}{body}\n    ret;").unresolved] == whys


def test_a_mask_of_ctas_that_is_not_known_has_a_reason() -> None:
    found = read(MULTICAST.format(mask="ld.global.b16 %h1, [%rd0];"))
    (reason,) = [u for u in found.unresolved if u.why.startswith("the CTA mask")]
    assert (reason.why, len(reason.sites)) == ("the CTA mask depends on memory", 2)


def test_arrivals_with_a_wait_between_may_be_in_one_phase() -> None:
    wait = "again: mbarrier.try_wait.parity.shared::cta.b64 %p1, [empty], 0; @!%p1 bra again;"
    found = read(f"{INITS}{ARRIVE} {wait} {ARRIVE}\n    ret;".replace("[full], 1;", "[full], 200;"))
    arrivals = ring(found, "full").arrivals
    assert arrivals is not None
    assert (arrivals.least, arrivals.most) == (160, 320)
    (reason,) = found.unresolved
    assert (
        reason.why
        == "the arrivals of a phase are unknown: it is unknown which of these are in the same phase"
    )
    assert len(reason.sites) == 2


def test_arrivals_of_a_cta_of_unknown_size() -> None:
    found = read(f"{INITS}{ARRIVE}\n    ret;", "")
    assert [(u.sites, u.why) for u in found.unresolved] == [
        ((), "the arrivals of a phase are unknown: the launch determines the CTA size")
    ]


def test_a_place_in_shared_memory_that_is_not_known_has_a_reason() -> None:
    body = (
        "ld.param.u64 %rd0, [pointer]; ld.global.u32 %r5, [%rd0]; mov.u32 %r6, dynamic; add.u32 %r7, %r6, %r5;\n"
        "st.shared.b32 [%r7], %r0; st.shared.b32 [%r5], %r0; st.shared.b32 [%r7+64], %r0;\n    ret;"
    )
    found = protocol(model(body, before=".extern .shared .align 16 .b8 dynamic[];"))
    assert {region.name for region in found.regions if region.start is None} == {"dynamic", ""}
    assert [(len(u.sites), u.why) for u in found.unresolved] == [
        (2, "the offset from dynamic depends on memory"),
        (1, "an address in shared memory depends on memory"),
    ]


@pytest.mark.parametrize(
    ("copy", "size"),
    [
        (
            "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [tile], [full];",
            16,
        ),
        ("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b64 [%r5], {%rd0, %rd1}, [full];", 16),
        ("st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%r5], %f0, [full];", 4),
    ],
)
def test_copies_whose_size_is_in_the_form(copy: str, size: int) -> None:
    found = read(f"{INITS}mov.u32 %r5, tile; {copy}\n    ret;")
    assert [b.bytes for b in ring(found, "full").copies] == [size]
    assert [e.bytes for e in found.events if e.kind == "copy"] == [size]


def test_the_name_of_a_local_variable_is_short() -> None:
    before = (
        ".shared .align 8 .b64 _ZZ1kE4full;\n.shared .align 8 .b64 _ZN3lib4smemE;\n"
        ".shared .align 8 .b64 _ZZ1kE4same;\n.shared .align 8 .b64 _ZN1k4sameE;\n"
    )
    names = ("_ZZ1kE4full", "_ZN3lib4smemE", "_ZZ1kE4same", "_ZN1k4sameE")
    body = "".join(f"    mbarrier.init.shared::cta.b64 [{name}], 1;\n" for name in names)
    found = protocol(model(body + "    ret;", before=before))
    assert [r.name for r in found.mbarriers] == ["full", "smem", "_ZZ1kE4same", "_ZN1k4sameE"]
    assert [r.base for r in found.mbarriers] == list(names)


def test_roles_from_a_table_are_unknown() -> None:
    found = read(
        "again:\n    mov.u32 %r0, tile;\n    ld.shared.u32 %r1, [%r0];\n    table: .branchtargets one, two;\n"
        "    brx.idx %r1, table;\none:\n    bar.sync 1, 32;\n    bra again;\ntwo:\n    ret;"
    )
    (barrier,) = found.barriers
    assert [(u.who, [found.roles[r].name for r in u.roles]) for u in barrier.uses] == [
        ("partition 0", ["partition 0"])
    ]
    assert [u.why for u in found.unresolved] == [
        "roles are dispatched by a value from memory: which warps form which partition is unknown"
    ]


def test_an_mbarrier_that_is_passed_to_a_function() -> None:
    text = module(
        SHARED,
        ".func arrive(.reg .b32 %where)\n{\n    mbarrier.arrive.shared::cta.b64 _, [%where];\n    ret;\n}\n",
        ".visible .entry k()\n.reqntid 160\n{\n.reg .pred %p<2>;\n.reg .b32 %r<9>;\n"
        f"{INITS}    mov.u32 %r5, full;\n    call arrive, (%r5);\n    ret;\n}}\n",
        header=HOPPER,
    )
    parsed, problems = analyse(Source.from_bytes(text.encode(), "k.ptx"))
    assert not problems
    function = parsed.function("k")
    assert function is not None
    found = protocol(KernelModel(inline(function, inlinable(parsed)), parsed))
    assert not ring(found, "full").arrives
    assert [u.why for u in found.unresolved] == [
        "the address of the mbarrier comes from a caller or an uninitialised register"
    ]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("mov.u32 %r9, tile;", "tile"),
        ("mov.u32 %r8, tile; add.u32 %r8, %r8, 1023; and.b32 %r9, %r8, -1024;", "align(tile, 1024)"),
        ("ld.param.u32 %r8, [number]; shr.u32 %r9, %r8, 3;", "number / 8"),
        ("ld.param.u32 %r8, [number]; and.b32 %r9, %r8, 3;", "number & 3"),
        ("ld.param.u32 %r8, [number]; mad.lo.u32 %r9, %r8, 3, 5;", "3 * number + 5"),
        ("ld.param.u32 %r8, [number]; not.b32 %r8, %r8; and.b32 %r9, %r8, 1;", "(number + 1) & 1"),
        ("mov.u32 %r9, %tid.x;", "%tid.x"),
        ("ld.global.u32 %r9, [%rd0];", None),
    ],
)
def test_words_for_values(body: str, words: str | None) -> None:
    of = model(
        f"    ld.param.u64 %rd0, [pointer];\n    {body}\nend:\n    st.global.u32 [%rd0], %r9;\n    ret;",
        before=SHARED,
    )
    site = next(i for i, ins in enumerate(of.function.instructions) if ins.name == "st.global")
    assert ValuePrinter(of.values).text(of.values.operand(of.instruction(site).operands[1], site)) == words


FLIPS = {
    "each iteration": "xor.b32 %r9, %r9, 1;",
    "each iteration, as a difference": "sub.u32 %r9, 1, %r9;",
    "when stage == 3": "add.u32 %r8, %r8, 1;\nsetp.eq.u32 %p1, %r8, 4;\nselp.b32 %r8, 0, %r8, %p1;\n"
    "selp.b32 %r7, 1, 0, %p1;\nxor.b32 %r9, %r9, %r7;",
    "when stage == 3, as a choice": "add.u32 %r8, %r8, 1;\nsetp.eq.u32 %p1, %r8, 4;\nselp.b32 %r8, 0, %r8, %p1;\n"
    "xor.b32 %r7, %r9, 1;\nselp.b32 %r9, %r7, %r9, %p1;",
    "in some iterations": "ld.global.u32 %r7, [%rd0];\nsetp.eq.u32 %p1, %r7, 0;\n@%p1 bra kept;\nxor.b32 %r9, %r9, 1;\nkept:",
    "in some iterations, twice": "ld.global.u32 %r7, [%rd0];\nand.b32 %r7, %r7, 1;\nxor.b32 %r9, %r9, 1;\n"
    "xor.b32 %r9, %r9, %r7;",
}


@pytest.mark.parametrize("flip", FLIPS)
def test_when_a_phase_flips(flip: str) -> None:
    of = model(
        "    ld.param.u64 %rd0, [pointer];\n    mov.u32 %r9, 1;\n    mov.u32 %r8, 0;\n    mov.u32 %r6, 0;\nagain:\n"
        f"    st.global.u32 [%rd0], %r9;\n{FLIPS[flip]}\n    add.u32 %r6, %r6, 1;\n    setp.lt.u32 %p2, %r6, 9;\n"
        "    @%p2 bra again;\n    ret;"
    )
    site = next(i for i, ins in enumerate(of.function.instructions) if ins.name == "st.global")
    of.values.before(register(of.function, "%r8"), site)  # a counter is known once it has been asked for
    words = ValuePrinter(of.values)
    assert words.text(of.values.operand(of.instruction(site).operands[1], site)) == "phase"
    meanings = {name.name: name.meaning for name in words.names.values()}
    assert meanings["phase"] == f"1, flips {flip.partition(',')[0]}"


@pytest.mark.parametrize(
    ("before", "first"),
    [
        ("", 1),
        ("    setp.eq.u32 %p3, %r10, 0;\n    @%p3 bra next;\n", None),  # not in the first iteration
    ],
)
def test_the_parity_of_the_first_wait(before: str, first: int | None) -> None:
    found = read(
        f"    ld.param.u32 %r1, [number];\n{INITS}    mov.u32 %r10, 0;\nround:\n{before}    add.u32 %r11, %r10, 1;\n"
        "    and.b32 %r11, %r11, 1;\nagain:\n    mbarrier.try_wait.parity.shared::cta.b64 %p4, [full], %r11;\n"
        "    @!%p4 bra again;\nnext:\n    add.u32 %r10, %r10, 1;\n    setp.lt.u32 %p5, %r10, %r1;\n    @%p5 bra round;\n    ret;"
    )
    (wait,) = ring(found, "full").waits
    assert (wait.parity, wait.first) == ("(i + 1) & 1", first)
