"""Where a thread may have observed what another one has done, and paths on which it has not."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tclint.analyses.happens_before import HappensBefore, Ordered, OrderScope, Unknown, Unordered
from tclint.analyses.happens_before.points import ANY
from tclint.analyses.mbarriers import Mbarriers
from tclint.analyses.model import KernelModel
from tclint.isa.effects import TRANSACTIONS, Fence
from tclint.replay.verdict import Replay
from tclint.values import thread_masks as T
from tests.tools.support import analysed, kernel, model, module

START = """
    .shared .align 128 .b8 tile[512];
    .shared .align 8 .b64 full;
    .shared .align 8 .b64 empty;
    mov.u32 %r0, %tid.x;
    ld.param.u64 %rd0, [pointer];
    ld.param.u32 %r9, [number];
    setp.ne.u32 %p0, %r0, 0;
    setp.eq.u32 %p3, %r9, 0;
    @!%p0 mbarrier.init.shared::cta.b64 [full], 1;
    @!%p0 mbarrier.init.shared::cta.b64 [empty], 1;
"""
COPY = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd0], 512, [full];"
READ = "ld.shared.u32 %r3, [tile];"


def wait(name: str, at: str) -> str:
    return f"{name}: mbarrier.try_wait.parity.shared::cta.b64 %p1, [{at}], 0;\n@!%p1 bra {name};"


def arrive(at: str) -> str:
    return f"mbarrier.arrive.shared::cta.b64 _, [{at}];"


def ordered(lines: str) -> tuple[KernelModel, HappensBefore, dict[str, int]]:
    kernel = model(f"{START}\n{lines}\nret;")
    return kernel, kernel.fact(HappensBefore), {name: at for at, name in kernel.function.labels.items()}


@pytest.mark.parametrize(
    ("lines", "observes"),
    [
        (f"here: {READ}\n{wait('w', 'full')}", ""),
        (f"here: {READ}\n{arrive('full')}\n{wait('w', 'full')}\n{wait('v', 'empty')}", "w"),
        (f"{arrive('full')}\nhere: {READ}\n{wait('w', 'full')}", ""),
        # From one wait to another.
        (f"here: {READ}\n{arrive('full')}\n{wait('w', 'full')}\n{arrive('empty')}\n{wait('v', 'empty')}", "wv"),
        (f"here: {READ}\nw: bar.sync 1, 128;\nv: bar.sync 2, 128;", "wv"),
        (f"w: bar.sync 1, 128;\nhere: {READ}\nv: bar.sync 2, 128;", "v"),
        # A thread that arrives passes a later wait, and has then observed what others did before they arrived.
        (f"here: {READ}\nbarrier.cluster.arrive;\nw: barrier.cluster.wait;\nv: bar.sync 2, 128;", "wv"),
        (f"barrier.cluster.arrive;\nhere: {READ}\nw: barrier.cluster.wait;", ""),
        (f"here: {READ}\nbar.arrive 1, 128;\nw: bar.sync 1, 128;\nv: bar.sync 1, 128;", "wv"),
        # Nothing is released, but a fence may precede it, and another thread polls.
        (f"here: {READ}\nst.relaxed.cta.shared.u32 [tile], 1;\nw: ld.relaxed.cta.shared.u32 %r4, [tile];\nsetp.ne.u32 %p5, %r4, 1;\n@%p5 bra w;", "w"),
        (f"here: {READ}\nred.shared.add.u32 [tile], 1;\nw: atom.shared.add.u32 %r4, [tile], 0;\nsetp.ne.u32 %p5, %r4, 1;\n@%p5 bra w;", "w"),
        (f"here: {READ}\nred.shared.add.u32 [tile], 1;\nw: atom.shared.add.u32 %r4, [tile], 0;\n@%p0 bra w;", ""),
        (f"here: {READ}\nw: red.shared.add.u32 [tile], 1;\n@%p0 bra w;", ""),
        # A write ends no wait for an mbarrier, and an arrival at an unknown mbarrier may end any.
        (f"here: {READ}\nred.shared.add.u32 [tile], 1;\nw: atom.shared.add.u32 %r4, [tile], 0;\nsetp.ne.u32 %p5, %r4, 1;\n@%p5 bra w;\n{wait('v', 'full')}", "w"),
        (f"here: {READ}\n{arrive('empty')}\n{wait('v', 'full')}", ""),
        (f"here: {READ}\n{arrive('empty')}\n{arrive('%r9')}\n{wait('v', 'full')}", "v"),
        (f"here: {READ}\n{arrive('empty')}\n{COPY.replace('[full]', '[%r9]')}\n{wait('v', 'full')}", "v"),
        # A copy that is complete was issued.
        (f"here: {READ}\n{COPY}\n{wait('w', 'full')}\n{wait('v', 'empty')}", "w"),
    ],
)  # fmt: skip
def test_waits_ordered_after_a_read_observe_it(lines: str, observes: str) -> None:
    _, order, at = ordered(lines)
    found = order.observers_of([at["here"]])
    assert {name for name in "wv" if at.get(name) in found} == set(observes)


def test_a_copy_is_complete_after_a_wait_for_its_mbarrier() -> None:
    lines = f"here: {COPY}\n{arrive('empty')}\n{wait('v', 'empty')}\n{wait('w', 'full')}\nx: bar.sync 0;"
    _, order, at = ordered(lines)
    assert order.completed([at["here"]]) == {at["w"], at["x"]}
    assert order.completed([at["here"]], idle={at["w"]}) == set()


@pytest.mark.parametrize(
    ("lines", "unsynchronised"),
    [
        (f"{COPY}\n{wait('w', 'full')}\nuse: {READ}", False),
        (f"{COPY}\n@%p0 bra use;\n{wait('w', 'full')}\nuse: {READ}", True),
        (f"@%p3 bra on;\nhere: {COPY}\non: @%p3 bra use;\n{wait('w', 'full')}\nuse: {READ}", False),
        (f"@%p0 bra on;\nhere: {COPY}\non: @%p3 bra use;\n{wait('w', 'full')}\nuse: {READ}", True),
    ],
)
def test_a_path_on_which_nothing_is_observed_is_found(lines: str, unsynchronised: bool) -> None:
    kernel, order, at = ordered(lines)
    copies = [i for ring in kernel.fact(Mbarriers).rings for i in kernel.fact(Mbarriers).copies(ring)]
    path = order.unsynchronised_path(at["use"], order.completed(copies), given=order.common_facts(copies))
    assert (path is not None) is unsynchronised
    if path is not None:
        assert path.end == at["use"]


DISPATCHED = f"""
    .shared .align 8 .b8 global_smem[64];
    shr.u32 %r1, %r0, 5;
    mov.u32 %r2, global_smem;
    add.s32 %r2, %r2, %r1;
    st.shared.b32 [global_smem+16], 0x02020100;
dispatch:
    bar.sync 0;
    ld.shared.b8 %r4, [%r2+16];
    roles: .branchtargets copies, reads, ends;
    brx.idx %r4, roles;
copies:
    {{copy}}
    bra dispatch;
reads:
    mov.u32 %r5, 0;
    {{waiting}}
use: {READ}
    bra dispatch;
ends:
"""


@pytest.mark.parametrize(
    ("waiting", "stops", "unsynchronised"),
    [
        (wait("w", "full"), "w", False),
        (f"@%p0 bra use;\n{wait('w', 'full')}", "w", True),
        # Every thread passes the barrier before it takes a role.
        (f"@%p0 bra use;\n{wait('w', 'full')}", "w dispatch", False),
    ],
)
def test_a_path_to_a_role_begins_at_its_dispatcher(waiting: str, stops: str, unsynchronised: bool) -> None:
    kernel, order, at = ordered(DISPATCHED.format(copy=COPY, waiting=waiting))
    assert kernel.reachability.dispatchers
    path = order.unsynchronised_path(at["use"], {at[name] for name in stops.split()})
    assert (path is not None) is unsynchronised


EXCHANGES = f"""
warp: bar.warp.sync -1;
cta: bar.sync 1, 64;
arrive: bar.arrive 2, 128;
come: barrier.cluster.arrive;
cluster: barrier.cluster.wait;
{wait("phase", "full")}
signal: {arrive("empty")}
store: st.release.cta.shared.u32 [tile], 1;
plain: st.shared.u32 [tile], 1;
poll: ld.acquire.cta.shared.u32 %r4, [tile];
setp.ne.u32 %p5, %r4, 1;
@%p5 bra poll;
once: ld.acquire.cta.shared.u32 %r5, [tile];
"""


def test_which_instructions_acquire_and_which_release_in_each_scope() -> None:
    _, order, at = ordered(EXCHANGES)

    def names(sites: frozenset[int]) -> str:
        return " ".join(name for name, site in at.items() if site in sites)

    assert [names(order.points.acquire_points(scope)) for scope in OrderScope] == [
        "warp cta cluster phase poll", "cta cluster phase poll", "cluster phase poll",
    ]  # fmt: skip
    assert [names(order.points.barrier_sites(scope)) for scope in OrderScope] == [
        "warp cta cluster",
        "cta cluster",
        "cluster",
    ]
    assert names(order.points.release_points) == "cta arrive come signal store"
    assert names(order.points.collectives) == "warp"


POLL = "poll: ld.{}.shared.u32 %r3, [tile];\nsetp.eq.u32 %p2, %r3, 0;\n@%p2 bra poll;"


@pytest.mark.parametrize(
    ("lines", "acquires"),
    [
        (POLL.format("acquire.cta"), False),
        (f"{POLL.format('acquire.cta')}\nbar.sync 1, 128;", False),
        (POLL.format("acquire.cluster"), True),
        (POLL.format("volatile"), True),
        # A thread that has waited for another CTA may set the flag.
        (f"{POLL.format('acquire.cta')}\nbarrier.cluster.arrive;\nbarrier.cluster.wait;", True),
    ],
)
def test_a_poll_in_the_scope_of_the_cta_acquires_from_other_ctas_only_through_third_threads(
    lines: str, acquires: bool
) -> None:
    _, order, at = ordered(lines)
    assert (at["poll"] in order.points.acquire_points(OrderScope.CTAS)) is acquires
    assert at["poll"] in order.points.acquire_points(OrderScope.WARPS)


@pytest.mark.parametrize(
    ("barrier", "joins"),
    [
        ("bar.sync 1;", True),
        ("bar.sync 1, 128;", True),
        ("bar.sync 1, 256;", True),
        ("bar.sync 1, 64;", False),
        ("bar.sync 1, %r9;", False),
        ("barrier.cluster.wait;", True),
        ("bar.warp.sync -1;", False),
        ("bar.arrive 1, 128;", False),
        ("@%p0 bar.sync 1, 1;", False),
        ("@!%p0 bar.sync 1, 1;", True),
    ],
)
def test_threads_that_pass_an_aligned_cta_barrier_release_together(barrier: str, joins: bool) -> None:
    kernel = model(f"{START}\n{barrier}\nret;", directives=".reqntid 128")
    site = next(i for i, e in enumerate(kernel.function.instructions) if e.opcode.startswith("bar"))
    assert kernel.fact(HappensBefore).points.releases_together(site) is joins


@pytest.mark.parametrize(
    ("between", "found"),
    [
        ("barrier.cluster.arrive.relaxed;", True),
        ("barrier.cluster.arrive;", False),
        ("fence.acq_rel.cluster;\nbarrier.cluster.arrive.relaxed;", False),
        ("barrier.cluster.arrive;\nbarrier.cluster.wait;\nbarrier.cluster.arrive.relaxed;", False),
        ("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;\nbarrier.cluster.arrive;", False),
    ],
)
def test_an_arrival_that_orders_no_memory(between: str, found: bool) -> None:
    kernel, order, at = ordered(f"here: st.shared.u32 [tile], 1;\n{between}\nw: barrier.cluster.wait;")
    unordered = order.relaxed_cluster_waits(at["here"], kernel.sites(Fence.MEMORY))
    assert (at["w"] in unordered) is found


@pytest.mark.parametrize(
    ("lines", "over"),
    [
        (f"here: {COPY}\n{wait('w', 'full')}\nv: bar.sync 1;", "wv"),
        (f"here: {READ}\n{wait('w', 'full')}\nv: bar.sync 1;", "v"),
        (("here: cp.async.bulk.global.shared::cta.bulk_group [%rd0], [tile], 512;\ncp.async.bulk.commit_group;\n"
         "w: bar.sync 1;\ncp.async.bulk.wait_group 0;\nv: bar.sync 2;"), "v"),
        ("here: cp.async.ca.shared.global [tile], [%rd0], 16;\nw: bar.sync 1;\ncp.async.wait_all;\nv: bar.sync 2;", "v"),
        (("here: cp.async.ca.shared.global [tile], [%rd0], 16;\n"
         f"cp.async.mbarrier.arrive.noinc.shared::cta.b64 [full];\n{wait('w', 'full')}\nv: bar.sync 2;"), "wv"),
    ],
)  # fmt: skip
def test_where_it_is_known_that_something_is_over(lines: str, over: str) -> None:
    _, order, at = ordered(lines)
    found = order.completion_points([at["here"]])
    assert {name for name in "wv" if at[name] in found} == set(over)


def test_waits_ordered_after_some_waits_are_transitive_observers() -> None:
    """What a thread that has passed a wait releases, and what is ordered after none: a wait that nothing before us ends, a call."""
    _, order, at = ordered(
        f"w: bar.sync 1;\n{arrive('full')}\n{wait('v', 'full')}\n{wait('u', 'empty')}\nbar.sync 2;\nt: bar.sync 3;"
    )
    assert {name for name in "wvut" if at[name] in order.transitive_observers([at["w"]])} == set("wvut")
    assert {name for name in "wvut" if at[name] in order.transitive_observers([at["v"]])} == set("vut")
    assert {name for name in "wvut" if at[name] in order.transitive_observers([at["t"]])} == set("ut")


@pytest.mark.parametrize(
    ("lines", "ordered_", "where"),
    [
        (f"{COPY}\n{wait('w', 'full')}\nuse: {READ}", True, "w"),
        (f"{COPY}\n{wait('w', 'full')}\nv: bar.sync 1;\nuse: {READ}", True, "v"),
        (f"{COPY}\n{wait('w', 'full')}\n@%p0 bra use;\nv: bar.sync 1;\nuse: {READ}", True, "wv"),
        (f"{COPY}\n{wait('w', 'full')}\n@%p0 bar.sync 1;\nuse: {READ}", True, "w"),
        (f"{COPY}\n@%p0 bra use;\n{wait('w', 'full')}\nuse: {READ}", False, ""),
        (f"{COPY}\nw: call stranger;\nuse: {READ}", None, "w"),
        (f"{COPY}\n{wait('w', 'full')}\nv: call stranger;\nuse: {READ}", True, "w"),
        (f"{COPY}\n@%p0 bra v;\n{wait('w', 'full')}\nbra use;\nv: call stranger;\nuse: {READ}", None, "wv"),
        (f"{COPY}\nw: mov.u32 %r5, 0;\nuse: {READ}", False, ""),
    ],
)
def test_a_verdict(lines: str, ordered_: bool | None, where: str) -> None:
    kernel = model(f"{START}\n{lines}\nret;", before=".extern .func stranger;")
    order, at = kernel.fact(HappensBefore), {name: i for i, name in kernel.function.labels.items()}
    copies = list(kernel.begins(TRANSACTIONS))
    found = order.order(copies, at["use"])
    assert isinstance(found, {True: Ordered, False: Unordered, None: Unknown}[ordered_])
    if isinstance(found, Unordered):
        assert found.path.end == at["use"]
    else:
        assert {name for name in "wv" if at.get(name) in found.at} == set(where)


STORE, USE = "here: st.shared.u32 [tile], %r0;", f"use: {READ}"
OWN_BARRIER = "shr.u32 %r5, %r0, 6;\nadd.u32 %r5, %r5, 1;"


@pytest.mark.parametrize(
    ("between", "certain"),
    [
        ("bar.sync 0;", True),
        ("bar.sync 1, 128;", True),
        ("@%p0 bar.sync 1, 128;", False),
        ("bar.sync 1, 64;", False),
        ("bar.sync 1, %r9;", False),
        ("bar.sync %r9;", False),
        ("bar.arrive 1, 128;", False),
        # Each half has a barrier of its own.
        (f"{OWN_BARRIER}\nbar.sync %r5, 64;", False),
        # Thread 0 meets the others once more, so it is one barrier ahead.
        ("@%p0 bra on;\nbar.sync 0;\non: bar.sync 0;", False),
        ("bar.sync 1;\nbar.sync 1;", True),
        ("barrier.cluster.arrive;\nbarrier.cluster.wait;", True),
        ("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;", False),
        ("barrier.cluster.wait;", False),
        ("bar.warp.sync -1;", False),
        (f"{arrive('full')}\n{wait('w', 'full')}", False),
        ("", False),
    ],
)
def test_an_order_is_certain_where_a_barrier_is_known_to_join_all_threads(
    between: str, certain: bool
) -> None:
    kernel = model(f"{START}\n{STORE}\n{between}\n{USE}\nret;", directives=".reqntid 128")
    order, at = kernel.fact(HappensBefore), {name: i for i, name in kernel.function.labels.items()}
    assert (order.must.ordering_barriers([at["here"]], at["use"]) is not None) is certain
    assert (order.order([at["here"]], at["use"]) == Ordered((at["use"] - 1,), ())) is certain


@pytest.mark.parametrize(("mask", "certain"), [("-1", True), ("0xffff", False), ("%r9", False)])
def test_lanes_of_a_warp_are_ordered_for_certain_by_a_barrier_of_their_mask(mask: str, certain: bool) -> None:
    kernel = model(f"{START}\n{STORE}\nbar.warp.sync {mask};\n{USE}\nret;", directives=".reqntid 32")
    order, at = kernel.fact(HappensBefore), {name: i for i, name in kernel.function.labels.items()}
    assert (order.must.ordering_barriers([at["here"]], at["use"]) is not None) is certain


CP_ASYNC = "here: cp.async.ca.shared.global [tile], [%rd0], 16;"
BULK = "here: cp.async.bulk.global.shared::cta.bulk_group [%rd0], [tile], 512;"


@pytest.mark.parametrize(
    ("lines", "certain"),
    [
        (CP_ASYNC, False),
        (f"{CP_ASYNC}\ncp.async.wait_all;", True),
        (f"{CP_ASYNC}\n@%p0 cp.async.wait_all;", False),
        (f"{CP_ASYNC}\ncp.async.wait_group 0;", False),
        (f"{CP_ASYNC}\ncp.async.commit_group;\ncp.async.wait_group 0;", True),
        (f"{CP_ASYNC}\ncp.async.commit_group;\ncp.async.wait_group 1;", False),
        (f"{CP_ASYNC}\ncp.async.commit_group;\ncp.async.wait_group -64;", False),
        (f"{BULK}\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;", True),
        (f"{BULK}\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;", False),
        (
            f"{BULK}\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group.sync_restrict::proxy::async 0;",
            False,
        ),
    ],
)
def test_an_asynchronous_operation_is_certainly_complete_after_a_wait_for_all_groups(
    lines: str, certain: bool
) -> None:
    kernel = model(f"{START}\n{lines}\nbar.sync 0;\n{USE}\nret;", directives=".reqntid 128")
    order, at = kernel.fact(HappensBefore), {name: i for i, name in kernel.function.labels.items()}
    assert (order.must.ordering_barriers([at["here"]], at["use"]) is not None) is certain


def test_a_barrier_whose_number_follows_from_the_thread_index_is_resolved() -> None:
    """It signals no other barrier, unlike one whose number is unknown, and certainly joins no pair of sites."""
    for number, observed in (("%r5", ""), ("%r9", "v")):
        _, order, at = ordered(f"{OWN_BARRIER}\nv: bar.sync 9, 64;\nhere: {READ}\nw: bar.sync {number}, 64;")
        assert {name for name in "v" if at[name] in order.observers_of([at["here"]])} == set(observed)
        assert not [*order.synchronised_pairs([at["w"]], frozenset((at["w"],)))]


@pytest.mark.parametrize(("other", "observed"), [("3", ""), ("%r9", "w")])
def test_a_barrier_has_one_of_the_numbers_that_paths_to_it_set(other: str, observed: str) -> None:
    """One whose number is unknown signals all barriers, but no mbarrier."""
    _, order, at = ordered(
        f"w: bar.sync 1, 64;\n{wait('v', 'full')}\nmov.u32 %r5, 2;\n@%p3 bra here;\nmov.u32 %r5, {other};\n"
        f"here: {READ}\nbar.sync %r5, 64;"
    )
    found = order.observers_of([at["here"]])
    assert {name for name in "wv" if at[name] in found} == set(observed)


OPERATIONS = (
    "bar.sync 0;",
    "bar.sync 1, 64;",
    "bar.warp.sync -1;",
    "bar.sync %r6, 32;",
    "barrier.cluster.arrive;\nbarrier.cluster.wait;",
    "barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;",
)
TWO_WARPS = """
    .shared .align 4 .b8 tile[4];
    .shared .align 8 .b64 full;
    mov.u32 %r0, %tid.x;
    shr.u32 %r6, %r0, 5;
    add.u32 %r6, %r6, 1;
    setp.eq.u32 %p0, %r0, 0;
    setp.eq.u32 %p1, %r0, 32;
    ld.param.u64 %rd0, [pointer];
    @%p0 mbarrier.init.shared::cta.b64 [full], 1;
"""


@pytest.mark.parametrize("count", [0, 1, 2])
def test_clocks_of_a_replay_agree_with_the_order(count: int) -> None:
    """What is ordered for certain is not a race in a replay, and what is unordered on its path is one."""
    decided = set[str]()
    for between in product(OPERATIONS, repeat=count):
        body = ["@%p0 st.shared.u32 [tile], %r0;", *between, "@%p1 ld.shared.u32 %r3, [tile];"]
        lines = "\n".join((TWO_WARPS, *body, "st.global.u32 [%rd0], %r3;", "ret;"))
        made = analysed(module(kernel(lines, directives=".reqntid 64")))
        store, load = (
            next(i for i in made.shared.sites if made.instruction(i).opcode == opcode)
            for opcode in ("st.shared.u32", "ld.shared.u32")
        )
        found, replay = made.fact(HappensBefore).order([store], load), Replay(made)
        assert replay.runs
        races = replay.run is not None and bool(replay.run.races)
        if isinstance(found, Unordered) or found == Ordered(found.at, ()):
            decided.add(type(found).__name__)
            assert races is isinstance(found, Unordered), between
    assert decided == {"Ordered" if count else "Unordered"}


def answers(order: HappensBefore, questions: list[tuple[int, int]]) -> dict[tuple[int, int], str]:
    """The kind of the answer to each question, asked in this order."""
    return {(a, b): type(order.order([a], b)).__name__ for a, b in questions}


def questions_about(kernel: KernelModel) -> list[tuple[int, int]]:
    return [(a, b) for a in kernel.shared.sites for b in kernel.shared.sites if a != b]


PAIRS = (
    f"{STORE}\n{COPY}\n{wait('w', 'full')}\n{READ}\n{arrive('empty')}\nst.shared.u32 [tile+4], 1;\n"
    f"@%p3 bar.sync 1, 128;\n{wait('v', 'empty')}\nld.shared.u32 %r4, [tile+4];\nbar.sync 0;\n{USE}"
)


@given(st.randoms(use_true_random=False))
@settings(max_examples=10, deadline=None)
def test_answers_do_not_depend_on_the_order_of_the_questions(random: Random) -> None:
    first, again = (model(f"{START}\n{PAIRS}\nret;", directives=".reqntid 128") for _ in range(2))
    questions = questions_about(first)
    shuffled = random.sample(questions, len(questions))
    assert answers(first.fact(HappensBefore), questions) == answers(again.fact(HappensBefore), shuffled)


def test_fewer_certain_barriers_add_no_order_and_more_channels_add_no_lack_of_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def kinds(change: Callable[[HappensBefore], None]) -> dict[tuple[int, int], str]:
        kernel = model(f"{START}\n{PAIRS}\nret;", directives=".reqntid 128")
        order = kernel.fact(HappensBefore)
        change(order)
        return answers(order, questions_about(kernel))

    def certain(order: HappensBefore) -> None:
        monkeypatch.setattr(order.must, "ordering_barriers", lambda first, then, scope: None)

    def opaque(order: HappensBefore) -> None:
        for signal in order.points.signals:
            order.points.signals[signal] = frozenset((ANY,))

    usual, uncertain, unresolved = (kinds(change) for change in (lambda order: None, certain, opaque))
    assert {q for q, kind in uncertain.items() if kind == "Ordered"} <= {
        q for q, kind in usual.items() if kind == "Ordered"
    }
    assert {q for q, kind in unresolved.items() if kind == "Unordered"} < {
        q for q, kind in usual.items() if kind == "Unordered"
    }


PUBLISHED = "@%p0 mbarrier.arrive.shared::cta.b64 _, [full];"
AWAITED = wait("w", "full")


@pytest.mark.parametrize(
    ("between", "count", "certain"),
    [
        (f"{PUBLISHED}\n{AWAITED}", 1, True),
        (f"{arrive('full')}\n{AWAITED}", 64, True),
        (f"{PUBLISHED}\n{PUBLISHED.replace('p0', 'p1')}\n{AWAITED}", 2, True),
        # One arrival of 64 completes the phase.
        (f"{arrive('full')}\n{AWAITED}", 1, False),
        (f"{PUBLISHED}\n{PUBLISHED}\n{AWAITED}", 1, False),
        # Other threads arrive.
        (f"{PUBLISHED.replace('p0', 'p1')}\n{AWAITED}", 1, False),
        (f"{PUBLISHED.replace('.shared', '.relaxed.cta.shared')}\n{AWAITED}", 1, False),
        (f"{PUBLISHED}\n{AWAITED.replace('.shared', '.relaxed.cta.shared')}", 1, False),
        (f"{PUBLISHED}\n{AWAITED.replace('], 0', '], 1')}", 1, False),
        # The thread continues whether or not the phase is complete.
        (f"{PUBLISHED}\n{AWAITED.splitlines()[0]}", 1, False),
        (f"{PUBLISHED}\n{AWAITED.replace('@!%p1 bra w', '@!%p1 bra on')}\non: mov.u32 %r5, 0;", 1, False),
        (f"mov.u32 %r5, 0;\nloop: {PUBLISHED}\n{AWAITED}\nadd.u32 %r5, %r5, 1;\nsetp.lt.u32 %p2, %r5, 2;\n@%p2 bra loop;", 1, False),
    ],
)  # fmt: skip
def test_a_wait_orders_for_certain_if_one_phase_needs_all_arrivals(
    between: str, count: int, certain: bool
) -> None:
    """What is ordered for certain is not a race in a replay."""
    setup = TWO_WARPS.replace("[full], 1", f"[full], {count}").replace("setp.eq.u32 %p1", "setp.eq.u32 %p3")
    between = between.replace("@%p1 mbarrier", "@%p3 mbarrier")
    body = f"bar.sync 0;\n@%p0 st.shared.u32 [tile], %r0;\n{between}\n@%p3 ld.shared.u32 %r3, [tile];"
    lines = f"{setup}\n{body}\nst.global.u32 [%rd0], %r3;\nret;"
    made = analysed(module(kernel(lines, directives=".reqntid 64")))
    store, load = (
        next(i for i in made.shared.sites if made.instruction(i).opcode == opcode)
        for opcode in ("st.shared.u32", "ld.shared.u32")
    )
    found = made.fact(HappensBefore).order([store], load)
    assert (found == Ordered(found.at, ()) if isinstance(found, Ordered) else False) is certain
    if certain:
        replay = Replay(made)
        assert replay.runs
        assert replay.run is None or not replay.run.races


def test_a_wait_orders_nothing_that_follows_the_arrival() -> None:
    lines = f"{START}\n{PUBLISHED}\nhere: @%p0 st.shared.u32 [tile], %r0;\n{AWAITED}\nuse: {READ}\nret;"
    made = model(lines, directives=".reqntid 64")
    at = {name: i for i, name in made.function.labels.items()}
    assert made.fact(HappensBefore).must.ordering_barriers([at["here"]], at["use"]) is None


def test_threads_elsewhere_are_those_of_the_two_instructions_whichever_pair_was_asked_first() -> None:
    roles = (
        f"@%p0 bra other;\na: {READ}\nb: {arrive('full')}\nbra end;\nother: setp.ne.u32 %p2, %r0, 40;\n@%p2 bra end;\n"
        f"c: {READ}\nd: {arrive('empty')}\nend: add.u32 %r4, %r3, 1;\ne: {arrive('full')}\n"
        f"@%p3 bra last;\nf: {arrive('empty')}\nbra out;\nlast: add.u32 %r5, %r3, 1;\ng: {READ}\nout:"
    )
    answers = []
    for backwards in (False, True):
        kernel, order, labels = ordered(roles)
        sites = sorted((labels[name] for name in "abcdefg"), reverse=backwards)
        views, full = kernel.views, T.full(kernel.values.threads)
        for site, own in product(sites, sites):
            here, there = (views.context_of(i).threads for i in (own, site))
            exclusive = there if views.mutually_exclusive(own, site) else 0
            expected = there & ~T.whole(here, 32) if full & ~here else exclusive
            assert order.may.threads_elsewhere(site, own) == expected
            answers.append(bool(expected))
    assert 0 < sum(answers) < len(answers)


def test_what_a_signal_lets_other_threads_continue_to_is_followed_through_their_signals() -> None:
    roles = (
        f"@%p0 bra other;\na: {arrive('full')}\nback: {wait('v', 'empty')}\n{arrive('full')}\n@%p4 bra back;\nbra end;\n"
        f"other: {arrive('empty')}\n{wait('w', 'full')}\n{arrive('empty')}\n@%p3 bra last;\n{arrive('full')}\nbra end;\n"
        f"last: bar.sync 1, 64;\n{wait('x', 'full')}\n{arrive('empty')}\nend: bar.sync 0;"
    )
    kernel, order, labels = ordered(roles)
    may, elsewhere, found = order.may, order.may.threads_elsewhere, set[bool]()
    for signal, own in product(order.points.signals, (labels["a"], labels["other"], labels["last"])):
        waits = set(may.signalled_elsewhere({signal}, own, through=False))
        work = list(waits)
        while work:
            at = work.pop()
            for then in order.points.signals:
                if elsewhere(at, own) & elsewhere(then, own) and (then == at or kernel.reaches(at, then)):
                    more = may.signalled_elsewhere({then}, own, through=False) - waits
                    waits |= more
                    work += more
        assert may.signalled_elsewhere({signal}, own, through=True) == waits
        found.add(waits > may.signalled_elsewhere({signal}, own, through=False))
    assert found == {False, True}
