"""The checks of races in global memory (PTX ISA 8.7.1): of warps of a CTA, and of CTAs that add to what one has cleared.

A tile of global memory that a CTA reads and overwrites needs the barriers that shared memory needs (MO009).

The threads of a grid start in any order. What one of them clears before it adds is cleared at any time for a thread of
another CTA, and what that one has added is lost. Only a barrier of the grid, or the end of an earlier one, orders the two.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from itertools import pairwise

from tclint.analyses import role_paths
from tclint.analyses.cta_shapes import SIZES, ShapedConflict, more_than
from tclint.analyses.global_memory import GlobalRanges, Source, depends_on, global_operands, origins
from tclint.analyses.global_races import GlobalByWarps, GlobalReadsSince, GlobalWritesSince, global_races
from tclint.analyses.global_signals import SWAPS, GlobalSignals
from tclint.analyses.happens_before import HappensBefore, OrderScope
from tclint.analyses.model import KernelModel
from tclint.analyses.overlaps import Conflict
from tclint.analyses.plausibility import NO_DOUBT, Doubt
from tclint.analyses.warp_races import race_doubt
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.checks._repairs import barrier_between
from tclint.checks._wording import only_if, several_warps
from tclint.dataflow import Path
from tclint.findings.scales import Confidence
from tclint.ir.nodes import Instruction, Site
from tclint.isa.effects import Barrier
from tclint.isa.special_registers import WARP
from tclint.values import thread_masks as T

MO008 = RuleId("MO008")
MO009 = RuleId("MO009")

_GRID = "the grid has more than one CTA"


@check(MO008, analyses=(GlobalSignals, HappensBefore))
def cleared_while_others_add(model: KernelModel) -> Iterator[Hit]:
    """Report stores of a constant to a counter that threads of other CTAs, or other warps, add to with nothing in between."""
    if model.function.entry:
        counters = _Counters(model)
        yield from (_hit(model, clear, found) for clear, found in grouped(counters.unordered()).items())


def _hit(model: KernelModel, clear: Site, found: list[tuple[Site, bool]]) -> Hit:
    add, in_cta = found[0]
    who = "other warps" if in_cta else "other CTAs"
    condition = several_warps(model) if in_cta else _GRID
    lacking = "no barrier" if in_cta else "no barrier of the grid"
    return MO008.hit(
        site=clear,
        message=f"{model.name(clear)} clears a counter to which {who} may have added already{only_if(condition)}: {lacking} "
        "orders the two",
        steps=(
            Mark(clear, "clears it, at any time for the others"),
            Mark(add, f"adds to it, in {who} too"),
        ),
        count=len(found),
        help="clear it in an earlier kernel or with cudaMemsetAsync(), or wait for the whole grid (grid.sync()) in between",
        about=frozenset((clear,)),
        condition=condition,
    )


@check(MO009, analyses=(GlobalByWarps, GlobalReadsSince, GlobalWritesSince))
def exchanged_without_barrier(model: KernelModel) -> Iterator[Hit]:
    """Report global memory that one warp writes and another one reads, with no intervening barrier."""
    few = model.values.threads <= WARP or model.values.is_alone
    if few or not model.function.entry:
        return
    alone = NO_DOUBT
    if model.function.threads is None and not model.fact(GlobalByWarps).by_position:
        alone = Doubt("no access goes by the index of the thread, so a CTA may have one thread")
    found = [ShapedConflict(model, each, several_warps(model)) for each in _exchanges(model)]
    found = found or _in_larger_ctas(model)
    for alike in grouped((model.cfg.block_of[each.conflict.use.site], each) for each in found).values():
        doubts = [(each, alone or race_doubt(each.model, each.conflict)) for each in alike]
        shown, doubt = next((pair for pair in doubts if not pair[1]), doubts[0])
        count = len({each.conflict.use.site for each in alike})
        yield _exchange_hit(shown, count).doubted(doubt.why)


def _exchanges(model: KernelModel) -> list[Conflict]:
    """The conflicts of plain accesses to global memory in *model*: reads after writes, then writes after reads."""
    found = list[Conflict]()
    if not model.fact(GlobalByWarps).contended:
        return found
    for kind in (GlobalWritesSince, GlobalReadsSince):
        since, results = model.solution(kind)
        found += global_races(since, since.together(results))
    return found


def _in_larger_ctas(model: KernelModel) -> list[ShapedConflict]:
    """The conflicts that two warps do not have, in the smallest CTAs of a usual size that have any.

    For a kernel that does not state the size of its CTAs, and leaves accesses to the first threads of more than two warps, as a
    sum by halves does: its CTAs are made for more.
    """
    if model.function.most_threads is not None or not model.values.one_dimensional:
        return []
    if not any(map(partial(_of_first_threads, model), model.fact(GlobalByWarps).sites)):
        return []
    for smaller, size in pairwise(sorted(SIZES)):  # two warps have been tried
        shaped = model.shaped((size,))
        if found := _exchanges(shaped):
            return [ShapedConflict(shaped, each, more_than(smaller)) for each in found]
    return []


def _of_first_threads(model: KernelModel, site: int) -> bool:
    """Whether *site* is executed by the first threads of a CTA, by a constant number of them, and by two warps at least."""
    threads = model.views.context_of(site).threads if model.cfg.block_of[site] in model.cfg.rank else 0
    count = threads.bit_length()
    return min(SIZES) <= count < model.values.threads and threads == T.full(count)


def _exchange_hit(found: ShapedConflict, count: int) -> Hit:
    model, meeting, condition = found
    first, second = meeting.operation, meeting.use
    verbs = ("reads", "may still be writing") if first.writes else ("overwrites", "may still be reading")
    steps = (
        Mark(access.site, text, role=model.describe_threads(model.views.context_of(access.site).threads))
        for access, text in (
            (first, f"one warp {'writes' if first.writes else 'reads'} it"),
            (second, f"another warp {verbs[0]} the same bytes"),
        )
    )
    return MO009.hit(
        site=second.site,
        message=f"{model.name(second.site)} {verbs[0]} global memory that another warp of the CTA {verbs[1]}{only_if(condition)}: "
        "no barrier orders the two",
        steps=tuple(steps),
        count=count,
        help="add a barrier that both warps execute (bar.sync, __syncthreads()) between the two",
        fixes=barrier_between(model, first.site, second.site),
        condition=condition,
        confidence=Confidence.MEDIUM if condition else None,
    )


class _Counters:
    """The words of global memory that a kernel clears and adds to."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model

    def unordered(self) -> Iterator[tuple[Site, tuple[Site, bool]]]:
        """The stores of constants, each with an addition that nothing orders after it, and whether no CTA barrier
        does."""
        adds = [i for i in self._global_writes if self._adds(self.model.instruction(i))]
        if not adds:
            return
        for clear in (i for i in self._global_writes if self._clears(i)):
            for add in adds:
                if self._same(clear, add) and (in_cta := self._race(clear, add)) is not None:
                    yield clear, (add, in_cta)

    @cached_property
    def _global_writes(self) -> list[Site]:
        return self.model.matching(
            lambda match: not match.form.event and bool(global_operands(match, "write"))
        )

    @staticmethod
    def _adds(instruction: Instruction) -> bool:
        """Whether an atomic operation or a reduction combines what is there with an operand."""
        match = instruction.match
        return match is not None and bool(match.combination) and match.combination not in SWAPS

    def _clears(self, site: Site) -> bool:
        """Whether a store writes a constant, and none that depends on a lock or a count."""
        model, instruction = self.model, self.model.instruction(site)
        stored = instruction.named("b")
        if instruction.match is None or instruction.match.combination or stored is None:
            return False
        if model.values.constant_operand(stored, site) is None:
            return False
        block = model.cfg.block_of[site]
        tests = model.fact(GlobalSignals).observations
        return not any(model.cfg.dominates(edge.target, block) for seen in tests for edge in seen.passes)

    def _same(self, clear: Site, add: Site) -> bool:
        """Whether threads may clear what other threads add to, and whichever CTA they belong to.

        An index that comes from the CTA may give each one counters of its own. One that is loaded selects any element.
        """
        model = self.model
        here, there = origins(model, clear, "write"), origins(model, add, "write")
        if not here or here != there or GlobalRanges(model).disjoint(clear, "write", add, "write"):
            return False
        cleared, added = (model.named_value(site, "a") for site in (clear, add))
        if cleared is None or added is None:
            return False
        own, other = depends_on(self.model.values, cleared), depends_on(self.model.values, added)
        if own <= {Source.THREAD}:
            return other <= {Source.DATA, Source.THREAD} and (Source.DATA in other or not (own or other))
        return own == {Source.CTA, Source.THREAD} and other == {Source.DATA}

    def _race(self, clear: Site, add: Site) -> bool | None:
        """Whether no CTA barrier orders an addition after *clear* (True) or none of the grid (False); None if one
        does, or may."""
        model = self.model
        if self._path(clear, add, self._grid_waits) is None or self._path(-1, add, self._grid_waits) is None:
            return None
        signals = model.fact(GlobalSignals)
        if signals.several_ctas and not signals.of_one_cta(add):
            return False
        if self._path(clear, add, self._grid_waits | self._cta_waits) is None:
            return None
        here, there = (T.whole(model.views.context_of(i).threads, WARP) for i in (clear, add))
        return True if there & ~here else None

    def _path(self, start: Site, end: Site, ends: frozenset[Site]) -> Path | None:
        model = self.model
        if start >= 0 and not model.reaches(start, end, ends):
            return None
        return role_paths.follow_first(model, start, model.views.context_of(start), (end,), ends).witness

    @cached_property
    def _grid_waits(self) -> frozenset[Site]:
        """Where threads may wait for other CTAs, for themselves or for their CTA, which a barrier joins."""
        model, points = self.model, self.model.fact(HappensBefore).points
        barriers = points.barrier_sites(OrderScope.WARPS)
        joined = (
            model.reached_from(points.spin_loads, barriers, barriers)
            if points.spin_loads
            else frozenset[Site]()
        )
        return frozenset((
            *points.spin_loads, *joined, *points.barrier_sites(OrderScope.CTAS), *model.awaits(Barrier.GRIDS),
            *role_paths.calls(model),
        ))  # fmt: skip

    @cached_property
    def _cta_waits(self) -> frozenset[Site]:
        return self.model.fact(HappensBefore).points.acquire_points(OrderScope.WARPS)
