"""The solver and every analysis: lattice laws, monotonicity, path enumeration, and work that grows with the input."""

from __future__ import annotations

import itertools
import pkgutil
import sys
from collections.abc import Callable, Iterator
from functools import reduce
from importlib import import_module
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tclint.analyses
import tclint.analyses.model
from tclint.analyses.bulk import KNOWN_TO_WARP, BulkReads
from tclint.analyses.cluster_barrier import ClusterBarrier
from tclint.analyses.cp_async import TRACKED, CopyGroups, LaneWaitedCopies, WaitedCopies
from tclint.analyses.cp_async import WAITED as DONE
from tclint.analyses.data_indices import DataReadsSince, DataWritesSince
from tclint.analyses.fabric_submission import FabricSubmission
from tclint.analyses.global_races import GlobalReadsSince, GlobalWritesSince
from tclint.analyses.groups import BulkGroups, Depth, Groups, Waited, WgmmaGroups
from tclint.analyses.in_flight import InFlight, Pending, SourcesInFlight
from tclint.analyses.model import KernelModel
from tclint.analyses.outside_shared import OutsideAfter, OutsideBefore
from tclint.analyses.proxies import (
    COMPLETED,
    WAITED,
    WIDE,
    CompletedCopies,
    Unfenced,
    UnfencedReads,
    UnfencedWaits,
)
from tclint.analyses.repeated import Repeated
from tclint.analyses.setmaxnreg import RegisterCounts
from tclint.analyses.since_barrier import (
    THREADS_MAY_HAVE_DIVERGED,
    GlobalLaneReadsSince,
    GlobalLaneWritesSince,
    LaneReadsSince,
    LaneWritesSince,
    ReadsSince,
    SinceBarrier,
    WritesSince,
)
from tclint.analyses.tcgen05 import Outstanding, Tcgen05Operations
from tclint.analyses.tcgen05_collector import ENTRY, Collector
from tclint.analyses.tcgen05_sync import ThreadSync
from tclint.analyses.tensor_maps import RELEASED, WRITTEN, TensorMaps
from tclint.analyses.tmem_allocation import TensorAllocation
from tclint.analyses.tmem_by_warps import TmemReadsSince, TmemWritesSince
from tclint.analyses.tmem_transfers import TmemTransfers, Transfers, TransfersByLetter
from tclint.analyses.undefined import CertainlyUndefined, MayBeUndefined
from tclint.analyses.wgmma_accumulators import UnwrittenAccumulators
from tclint.analyses.wgmma_fences import WgmmaFences
from tclint.dataflow import Analysis, Path, PathQuery, PathSearchCache, Search, solve
from tclint.dataflow import find_paths as find_paths_of_the_engine
from tclint.dataflow.solver import LimitExceeded
from tclint.inspect.mbarrier_use import MbarrierUse
from tclint.ir import Instruction
from tclint.ir.cfg import CFG, Edge
from tclint.sync.operations import OPEN, OVERDUE
from tests.tools.support import built, kernel, label, lint, model, module, register

# ---------------------------------------------------------------- every analysis

EVERYTHING = """
    .shared .align 8 .b64 bar;
    .shared .align 4 .b32 slot;
    setp.ne.b32 %p0, 0, 0;
    elect.sync _|%p1, -1;
    mbarrier.init.shared::cta.b64 [bar], 1;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 128;
    ld.shared.b32 %r9, [slot];
    mov.u32 %r8, 0;
loop:
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd0, %rd1, %p0, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f4, %f5, %f6, %f7}, {%r0, %r1, %r2, %r3}, %rd1, %p0, 1, 1, 0;
    @%p1 wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 1;
    mov.f32 %f8, %f0;
    mov.f32 %f9, %f8;
    add.f32 %f1, %f1, %f9;
    mov.f32 %f0, %f8;
    wgmma.wait_group.sync.aligned 0;
    tcgen05.fence::before_thread_sync;
    @%p1 tcgen05.mma.cta_group::1.kind::f16.collector::a::fill [%r9], %rd0, %rd1, %r7, %p0;
    @%p1 tcgen05.mma.cta_group::1.kind::f16.collector::a::lastuse [%r9], %rd0, %rd1, %r7, %p0;
    cp.async.ca.shared.global [slot], [%rd2], 4;
    @%p1 cp.async.mbarrier.arrive.noinc.shared.b64 [bar];
    cp.async.commit_group;
    cp.async.ca.shared.global [slot], [%rd2], 4;
    cp.async.wait_group 0;
    @%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [slot], 16;
    @%p1 cp.async.bulk.commit_group;
    fabric.try_get.async.shared::cta.mbarrier::complete_tx::bytes.mbarrier::report::fabric.relaxed.sys.b128
        [slot], [%r9, %rd0], 16, [bar];
    @%p1 fabric.submit;
    cp.async.bulk.wait_group.read 1;
    @%p1 cp.async.bulk.wait_group 0;
    @%p1 tcgen05.cp.cta_group::1.128x256b [%r9], %rd0;
    @%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;
    @!%p2 bra wait;
    @%p0 tcgen05.fence::after_thread_sync;
    tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r4, %r5}, [%r9];
    add.s32 %r6, %r4, %r5;
    tcgen05.wait::ld.sync.aligned;
    tcgen05.st.sync.aligned.32x32b.x2.b32 [%r9], {%r4, %r5};
    tcgen05.wait::st.sync.aligned;
    bar.sync 0;
    mbarrier.arrive.shared::cta.b64 _, [bar];
    st.shared.b32 [slot], %r6;
    @%p1 fence.proxy.async.shared::cta;
    tensormap.replace.tile.rank.global.b1024.b32 [%rd4], 1;
    fence.proxy.tensormap::generic.release.gpu;
    @%p0 fence.proxy.tensormap::generic.acquire.gpu [%rd4], 128;
    @%p1 cp.async.bulk.prefetch.tensor.1d.L2.global [%rd4, {%r8}];
    add.s32 %r8, %r8, 1;
    setp.lt.s32 %p3, %r8, 10;
    @%p3 bra loop;
    @%p0 setmaxnreg.inc.sync.aligned.u32 232;
    @%p0 barrier.cluster.arrive;
    barrier.cluster.wait;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r9, 128;
    ret;
"""
MODEL = model(EVERYTHING)


def discovered() -> list[type[Analysis[Any]]]:
    """Every analysis of ``tclint.analyses``. What a proof derives from one, its checker verifies."""
    for found in pkgutil.iter_modules(tclint.analyses.__path__):
        import_module(f"tclint.analyses.{found.name}")

    def below(base: type[Analysis[Any]]) -> Iterator[type[Analysis[Any]]]:
        for cls in base.__subclasses__():
            yield cls
            yield from below(cls)

    return sorted(
        {
            c
            for c in below(Analysis)
            if c.__module__.startswith("tclint.analyses.") and c.transfer is not Analysis.transfer
        },
        key=lambda c: c.__name__,
    )


def _groups(analysis: Groups) -> st.SearchStrategy[Any]:
    """Copies are of operations that are outstanding: the analysis makes no others."""
    sites = sorted(analysis.results)
    if not sites:  # of the base class
        return st.just(analysis.bottom())
    oldest = {
        CopyGroups: TRACKED,
        WaitedCopies: DONE,
        CompletedCopies: COMPLETED,
        BulkReads: KNOWN_TO_WARP,
    }.get(type(analysis), OVERDUE)
    ages = st.integers(oldest, analysis.deepest)
    copies = st.frozensets(
        st.tuples(st.integers(0, 12), st.sampled_from(sites), st.integers(0, 12), ages).filter(
            lambda c: c[0] != c[2]
        )
    )
    facts = st.frozensets(st.tuples(st.sampled_from(sites), ages))

    def valid(pair: tuple[Any, Any]) -> tuple[Any, Any]:
        ages = reduce(lambda ages, fact: ages.issued(*fact), pair[0], analysis.bottom()[0])
        return ages, frozenset(c for c in pair[1] if (c[1], c[3]) in ages)

    return st.tuples(facts, copies).map(valid)


def _unfenced(analysis: Unfenced) -> st.SearchStrategy[Any]:
    return st.frozensets(st.tuples(st.sampled_from(sorted(analysis.classes)), st.integers(0, WIDE | WAITED)))


def _since(analysis: SinceBarrier) -> st.SearchStrategy[Any]:
    accesses = st.tuples(st.sampled_from(sorted(analysis.firsts)), st.booleans()) if analysis.firsts else None
    loose = st.just((THREADS_MAY_HAVE_DIVERGED, False))
    return st.frozensets(loose if accesses is None else loose | accesses)


def _operations(analysis: Tcgen05Operations) -> st.SearchStrategy[Any]:
    sites = sorted(analysis.memory.operations)
    return st.frozensets(st.tuples(st.sampled_from(sites), st.integers(0, 1)))


def _tensor_allocation(analysis: TensorAllocation) -> st.SearchStrategy[Any]:
    statuses = st.sampled_from([0, *(d + 1 for d in analysis.deallocations)])
    return st.frozensets(st.tuples(st.sampled_from(analysis.allocations), statuses))


def _in_flight(analysis: InFlight) -> st.SearchStrategy[Any]:
    ages = st.integers(OPEN, analysis.strict.oldest)
    return st.frozensets(st.builds(Pending, st.sampled_from(sorted(analysis.strict.begun)), ages))


def _repeated(analysis: Repeated) -> st.SearchStrategy[Any]:
    guards = st.tuples(st.integers(-1, 3), st.booleans())
    return st.none() | st.frozensets(st.tuples(st.sampled_from(list(analysis.kinds.values())), guards))


STATES: dict[type[Analysis[Any]], Callable[[Any], st.SearchStrategy[Any]]] = {
    Groups: _groups,
    WgmmaGroups: _groups,
    CopyGroups: _groups,
    BulkReads: _groups,
    BulkGroups: _groups,
    WaitedCopies: _groups,
    LaneWaitedCopies: _groups,
    SinceBarrier: _since,
    ReadsSince: _since,
    WritesSince: _since,
    LaneReadsSince: _since,
    LaneWritesSince: _since,
    GlobalLaneReadsSince: _since,
    GlobalLaneWritesSince: _since,
    DataReadsSince: _since,
    DataWritesSince: _since,
    GlobalReadsSince: _since,
    GlobalWritesSince: _since,
    TmemReadsSince: _since,
    TmemWritesSince: _since,
    InFlight: _in_flight,
    SourcesInFlight: _in_flight,
    Repeated: _repeated,
    OutsideBefore: lambda analysis: st.booleans(),
    OutsideAfter: lambda analysis: st.booleans(),
    Depth: lambda analysis: st.integers(0, analysis.limit),
    Waited: lambda analysis: st.integers(0, analysis.limit),
    MayBeUndefined: lambda analysis: st.integers(0, analysis.every),
    CertainlyUndefined: lambda analysis: st.integers(0, analysis.every),
    UnwrittenAccumulators: lambda analysis: st.integers(0, analysis.boundary()),
    WgmmaFences: lambda analysis: st.tuples(
        st.booleans(), st.integers(0, (1 << len(analysis._registers)) - 1)
    ),
    TensorAllocation: _tensor_allocation,
    Tcgen05Operations: _operations,
    Outstanding: _operations,
    TmemTransfers: lambda analysis: st.integers(0, (1 << 3 * len(analysis.order)) - 1),
    Transfers: lambda analysis: st.integers(0, (1 << 3 * len(analysis.order)) - 1),
    TransfersByLetter: lambda analysis: st.integers(0, (1 << len(analysis.order)) - 1),
    ClusterBarrier: lambda analysis: st.frozensets(st.tuples(st.integers(-1, 30))),
    FabricSubmission: lambda analysis: st.frozensets(st.tuples(st.integers(0, 30))),
    RegisterCounts: lambda analysis: st.frozensets(st.tuples(st.integers(-1, 30), st.just(40))),
    Collector: lambda analysis: st.frozensets(
        st.tuples(
            st.integers(ENTRY, len(MODEL.function.instructions) - 1), st.sampled_from(sorted(analysis.used))
        )
    ),
    ThreadSync: lambda analysis: st.integers(0, analysis.waits | analysis.operations),
    Unfenced: _unfenced,
    UnfencedReads: _unfenced,
    UnfencedWaits: _unfenced,
    CompletedCopies: _groups,
    MbarrierUse: lambda analysis: st.frozensets(
        st.sampled_from([(site, ring) for site, rings in analysis.rings.items() for ring in rings])
    ),
    TensorMaps: lambda analysis: st.frozensets(
        st.tuples(st.sampled_from(sorted(analysis.writes)), st.sampled_from((WRITTEN, RELEASED)))
    ),
}
"""States of every analysis on ``MODEL``. A new analysis needs an entry."""


def test_every_analysis_has_states_to_test_it_with() -> None:
    assert [c.__name__ for c in discovered() if c not in STATES] == []
    assert {Groups, WgmmaGroups, Depth, WgmmaFences, TmemTransfers} <= set(discovered())


@pytest.mark.parametrize("cls", discovered(), ids=lambda c: c.__name__)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_lattice_laws_and_monotonicity(cls: type[Analysis[Any]], data: st.DataObject) -> None:
    analysis: Analysis[Any] = cls(MODEL)  # type: ignore[call-arg]
    states = STATES[cls](analysis)
    a, b, c = (data.draw(states) for _ in "abc")
    join = analysis.join
    assert join(a, join(b, c)) == join(join(a, b), c)
    assert join(a, b) == join(b, a)
    assert join(a, a) == a
    assert join(a, analysis.bottom()) == a
    assert join(analysis.bottom(), a) == a
    above = join(a, b)
    hash(above)
    changed = 0
    for at, instruction in enumerate(MODEL.function.instructions):
        if analysis.affecting(instruction):
            changed += 1
            low, high = (analysis.transfer(s, at, instruction) for s in (a, above))
            assert join(low, high) == high, (at, instruction)
            low, high = (stepped(analysis, s, at, instruction) for s in (a, above))
            assert join(low, high) == high, (at, instruction, "guarded")
    assert changed or cls is Groups, "the kernel has nothing for this analysis"
    for out in MODEL.cfg.successors:
        for edge in out:
            low, high = analysis.edge(a, edge), analysis.edge(above, edge)
            assert join(low, high) == high, edge


@pytest.mark.parametrize("cls", discovered(), ids=lambda c: c.__name__)
def test_every_analysis_settles(cls: type[Analysis[Any]]) -> None:
    analysis, results = MODEL.solution(cls)
    backward = analysis.direction == "backward"
    for b in MODEL.cfg.order:
        for edge in MODEL.cfg.predecessors[b] if backward else MODEL.cfg.successors[b]:
            target = edge.source if backward else edge.target
            arriving = analysis.edge(results.leave(b), edge)
            assert analysis.join(results.entry[target], arriving) == results.entry[target]


# ---------------------------------------------------------------- the solver against every path


class Reaching(Analysis[frozenset[int]]):
    """Which definitions of registers arrive."""

    def boundary(self) -> frozenset[int]:
        return frozenset((-1,))

    def bottom(self) -> frozenset[int]:
        return frozenset()

    def join(self, a: frozenset[int], b: frozenset[int]) -> frozenset[int]:
        return a | b

    def affecting(self, instruction: Instruction) -> bool:
        return bool(instruction.writes)

    def __init__(self, of: KernelModel) -> None:
        self.writes = [set(i.writes) for i in of.function.instructions]

    def transfer(self, state: frozenset[int], at: int, instruction: Instruction) -> frozenset[int]:
        return frozenset(d for d in state if d < 0 or not self.writes[d] & self.writes[at]) | {at}

    def edge(self, state: frozenset[int], edge: Edge) -> frozenset[int]:
        return state - {0} if edge.predicate >= 0 and edge.value else state


class Live(Analysis[frozenset[int]]):
    """Which registers may still be read."""

    direction = "backward"

    def __init__(self, of: KernelModel) -> None:
        pass

    def boundary(self) -> frozenset[int]:
        return frozenset((-1,))

    def bottom(self) -> frozenset[int]:
        return frozenset()

    def join(self, a: frozenset[int], b: frozenset[int]) -> frozenset[int]:
        return a | b

    def transfer(self, state: frozenset[int], at: int, instruction: Instruction) -> frozenset[int]:
        return state - set(instruction.writes) | set(instruction.reads)


SCALAR = [
    "mov.u32 %r{a}, {b};",
    "add.s32 %r{a}, %r{b}, %r{a};",
    "@%p{a} mov.u32 %r{b}, %r{a};",
    "@!%p{b} mov.u32 %r{a}, 1;",
]
WGMMA = [
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f0, %f1, %f2, %f3}}, %rd0, %rd1, %p0, 1, 1, 0, 0;",
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f4, %f5, %f6, %f7}}, %rd0, %rd1, %p0, 1, 1, 0, 0;",
    "wgmma.commit_group.sync.aligned;",
    "@%p{a} wgmma.commit_group.sync.aligned;",
    "wgmma.wait_group.sync.aligned {a};",
    "@!%p{b} wgmma.wait_group.sync.aligned {b};",
    "mov.f32 %f{a}, %f{b};",
    "mov.f32 %f8, %f{b};",
    "wgmma.fence.sync.aligned;",
    "add.f32 %f{a}, %f{b}, %f8;",
]


def bodies(statements: list[str], most: int = 6) -> st.SearchStrategy[str]:
    """Blocks in a row with branches between them."""
    small = st.integers(0, 3)
    statement = st.builds(lambda s, a, b: s.format(a=a, b=b), st.sampled_from(statements), small, small)
    end = st.sampled_from(
        ["", "@%p{b} bra L{t};", "@!%p{b} bra L{t};", "@%p{b} bra L{t};", "bra L{t};", "@%p{b} ret;", "ret;"]
    )

    def text(blocks: list[tuple[list[str], str, int, int]]) -> str:
        lines = []
        for n, (inner, last, t, b) in enumerate(blocks):
            lines += [f"L{n}:", *inner, last.format(t=t % len(blocks), b=b)]
        return "\n".join([*lines, "ret;"])

    block = st.tuples(st.lists(statement, max_size=3), end, st.integers(0, 9), small)
    return st.lists(block, min_size=1, max_size=most).map(text)


def stepped(analysis: Analysis[Any], state: Any, at: int, instruction: Instruction) -> Any:
    """The state after an instruction that executes, or may."""
    after = analysis.transfer(state, at, instruction)
    return analysis.guarded(state, after, at) if instruction.guard >= 0 else after


def enumerated(analysis: Analysis[Any], cfg: CFG) -> dict[int, Any]:
    """For every instruction the join, over all paths, of the state that the path alone has before it."""
    backward = analysis.direction == "backward"
    instructions = cfg.function.instructions
    before: dict[int, Any] = {}
    reachable = set(cfg.order)
    if backward:
        ends = [b for b in reachable if b in cfg.exits or not cfg.successors[b]]
        # A path may also iterate indefinitely: each of its prefixes counts.
        work = [(b, analysis.boundary()) for b in ends] + [(b, analysis.bottom()) for b in reachable]
    else:
        work = [(b, analysis.boundary()) for b in cfg.order[:1]]
    seen = set(work)
    while work:
        block, entry = work.pop()
        span = range(cfg.blocks[block].start, cfg.blocks[block].end)
        states = {entry}
        for i in reversed(span) if backward else span:
            for state in states:
                before[i] = analysis.join(before[i], state) if i in before else state
            if analysis.affecting(instructions[i]):
                states = {stepped(analysis, state, i, instructions[i]) for state in states}
        for edge in cfg.predecessors[block] if backward else cfg.successors[block]:
            target = edge.source if backward else edge.target
            if target in reachable:
                for state in states:
                    item = (target, analysis.edge(state, edge))
                    if item not in seen:
                        seen.add(item)
                        work.append(item)
    return before


def test_a_copy_is_of_the_age_that_was_copied() -> None:
    """After the wait, the operation of the inner loop is still pending: nothing was copied of that one."""
    mma = WGMMA[0].format()
    m = model(
        f"L0: wgmma.wait_group.sync.aligned 0;\n{mma}\n@%p0 bra L0;\nwgmma.commit_group.sync.aligned;\n"
        "mov.f32 %f0, %f1;\n@%p1 bra L0;\nret;"
    )
    analysis = WgmmaGroups(m)
    results = solve(analysis, m.cfg)
    facts, copies = results.before(1)
    assert set(facts) == {(1, OVERDUE)}
    assert copies == frozenset()
    assert results.before(5)[1] == {(register(m.function, "%f0"), 1, register(m.function, "%f1"), 0)}


@pytest.mark.parametrize(
    ("cls", "statements"),
    [(Reaching, SCALAR), (Live, SCALAR), (WgmmaGroups, WGMMA), (Depth, WGMMA), (WgmmaFences, WGMMA)],
    ids=lambda c: getattr(c, "__name__", ""),
)
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_solution_is_the_join_over_all_paths(
    cls: Any, statements: list[str], data: st.DataObject
) -> None:
    # Few blocks for the groups: their states on single paths are many.
    m = model(data.draw(bodies(statements, 6 if statements is SCALAR else 4)))
    analysis = cls(m)
    if isinstance(analysis, Depth):
        analysis.limit = 5
    results = solve(analysis, m.cfg)
    truth = enumerated(analysis, m.cfg)
    for i in range(len(m.function.instructions)):
        if m.cfg.block_of[i] not in m.cfg.rank:
            assert i not in truth
        elif i in truth:
            assert results.before(i) == truth[i], (i, m.function.instructions[i])
        else:
            assert results.before(i) == analysis.bottom()
    for b in m.cfg.order:
        for i, state in results.walk(b):
            assert state == results.before(i)


# ---------------------------------------------------------------- the engine by itself


def test_a_guarded_operation_joins_both_outcomes() -> None:
    m = model("mov.u32 %r1, 1;\n@%p1 mov.u32 %r1, 2;\nmov.u32 %r2, 3;\nret;")
    results = solve(Reaching(m), m.cfg)
    assert results.before(2) == {-1, 0, 1}
    assert results.after(2) == {-1, 0, 1, 2}


class Endless(Reaching):
    """Not over a finite domain."""

    def transfer(self, state: frozenset[int], at: int, instruction: Instruction) -> frozenset[int]:
        return state | {max(state, default=0) + 1}


def test_an_analysis_that_does_not_settle_is_stopped() -> None:
    m = model("L: mov.u32 %r1, 1;\nbra L;")
    with pytest.raises(LimitExceeded, match="the analysis 'endless' reached no fixpoint in k"):
        solve(Endless(m), m.cfg)


def test_the_limit_of_a_check_is_a_problem_of_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        WgmmaGroups,
        "transfer",
        lambda self, state, at, ins: (state[0].issued(1, len(set(state[0]))), state[1]),
    )
    bad = f"wgmma.commit_group.sync.aligned;\n{FOUR}"
    report = lint(module(kernel(f"L:\n{bad}\nbra L;", "slow"), kernel("ret;", "quick")))
    assert report.status == "partial"
    assert {("reached no fixpoint in slow" in p.message, p.line) for p in report.problems} == {(True, 4)}


FOUR = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd0, %rd1, %p0, 1, 1, 0, 0;"


def test_ages_in_a_pipelined_loop_are_exact() -> None:
    """``wait_group 1`` leaves the group of this iteration and completes that of the last."""
    m = model(
        f"""
    mov.u32 %r1, 0;
loop:
    {FOUR}
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 1;
after:
    add.s32 %r1, %r1, 1;
    setp.lt.s32 %p1, %r1, 9;
    @%p1 bra loop;
    ret;
    """
    )
    _, results = m.solution(WgmmaGroups)
    (site,) = m.begins()
    assert set(results.before(site)[0]) == {(site, 0)}
    (wait,) = m.waits()
    assert set(results.before(wait)[0]) == {(site, 0), (site, 1)}
    assert set(results.before(label(m.function, "after"))[0]) == {(site, 0)}


# ---------------------------------------------------------------- work


def repeated(times: int) -> str:
    """One kernel that does the same *times* times over, with registers and labels of its own each time."""
    parts, declared = [], []
    for n in range(times):
        declared.append(
            f".reg .pred %p{n}_<4>; .reg .b32 %r{n}_<10>; .reg .f32 %f{n}_<8>; .reg .b64 %rd{n}_<4>;"
        )
        parts.append(
            f"""
    setp.ne.b32 %p{n}_0, 0, 0;
    mov.u32 %r{n}_8, 0;
    mov.u32 %r{n}_7, %tid.x;
    setp.gt.u32 %p{n}_1, %r{n}_7, 63;
    ld.param.u32 %r{n}_9, [number];
    setp.eq.s32 %p{n}_2, %r{n}_9, {n};
    @%p{n}_2 bra skip{n};
loop{n}:
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f{n}_0, %f{n}_1, %f{n}_2, %f{n}_3}}, %rd{n}_0, %rd{n}_1, %p{n}_0, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    @%p{n}_1 bra odd{n};
    add.f32 %f{n}_4, %f{n}_1, %f{n}_2;
odd{n}:
    wgmma.wait_group.sync.aligned 0;
    add.s32 %r{n}_8, %r{n}_8, 1;
    setp.lt.s32 %p{n}_3, %r{n}_8, 10;
    @%p{n}_3 bra loop{n};
    tcgen05.ld.sync.aligned.32x32b.x2.b32 {{%r{n}_4, %r{n}_5}}, [%r{n}_6];
    add.s32 %r{n}_1, %r{n}_4, %r{n}_5;
    tcgen05.wait::ld.sync.aligned;
    bar.sync 0;
skip{n}:
"""
        )
    return module(kernel("".join(parts) + "    ret;", registers="\n".join(declared) + "\n"))


def calls(text: str) -> int:
    """The Python functions that are called while *text* is checked."""
    count = 0

    def watch(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    old = sys.getprofile()
    sys.setprofile(watch)
    try:
        report = lint(text)
    finally:
        sys.setprofile(old)
    assert report.findings
    return count


def test_work_grows_with_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    transfers = searched = 0
    real = find_paths_of_the_engine

    def counted(cls: type[Groups | TmemTransfers]) -> None:
        transfer = cls.transfer

        def count(self: Any, state: Any, at: int, instruction: Instruction) -> Any:
            nonlocal transfers
            transfers += 1
            return transfer(self, state, at, instruction)

        monkeypatch.setattr(cls, "transfer", count)

    def find_paths(cache: PathSearchCache, query: PathQuery) -> Search[Path]:
        def asked(here: Any, i: int) -> bool:
            nonlocal searched
            searched += 1
            return query.goal(here, i)

        return real(cache, query._replace(goal=asked))

    counted(Groups)
    counted(TmemTransfers)
    monkeypatch.setattr(tclint.analyses.model, "find_paths", find_paths)
    lint(repeated(1))  # fills the caches
    work = []
    for times in (1, 2, 4, 8):
        transfers = searched = 0
        total = calls(repeated(times))
        work.append((transfers, searched, total))
    for small, large in itertools.pairwise(work):
        for a, b in zip(small[:2], large[:2], strict=True):
            assert 1.5 * a < b <= 2.4 * a, work
    totals = [total for *_, total in work]  # with what a module costs, however small it is
    grown = [large - small for small, large in itertools.pairwise(totals)]
    for a, b in itertools.pairwise(grown):
        assert 1.5 * a < b <= 2.4 * a, work


def test_a_module_of_more_functions_takes_that_much_more_work() -> None:
    lint(repeated(1))
    one = kernel("ret;")
    first, second = (
        calls(repeated(1) + "".join(one.replace(" k(", f" k{n}(") for n in range(times)))
        for times in (50, 100)
    )
    assert second < 2.2 * first


def test_states_are_kept_at_block_entries_only() -> None:
    m = KernelModel(built(repeated(3)).functions[0], built(repeated(3)))
    _, results = m.solution(WgmmaGroups)
    assert len(results.entry) == len(m.cfg.blocks)
