"""Tensor memory between the warps of a CTA, where CTA barriers and what mbarriers track order it: the prover for :mod:`.epochs`.

Two loads or stores of different warps are of different lanes in a CTA of one warpgroup; otherwise the columns are
compared of warps that share lanes. Those of a multiplication, a copy or a shift are compared with what it may meet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import ClassVar

from tclint.analyses.mbarrier_addresses import MbarrierLocation
from tclint.findings.spans import span
from tclint.findings.verdicts import Assumption, Reason
from tclint.isa.accesses import StateSpace
from tclint.isa.effects import TCGEN05, Resource
from tclint.isa.special_registers import WARP
from tclint.values import thread_masks as T
from tclint.values.addresses import EVER, MemoryRange, Pairs
from tclint.verdicts.disjoint import column_ranges_disjoint
from tclint.verdicts.epochs import AccessPair, Counters, MemoryAccess, Numbers, Space, View, Walk
from tclint.verdicts.outcome import Outcome
from tclint.verdicts.paths import path_assumptions
from tclint.verdicts.phases import Event, Kind, PhaseQuestions
from tclint.verdicts.shared_order import SharedOrder, barriers_of_all, converged
from tclint.verdicts.tensor_space import IMPLIED, TENSOR_MEMORY, WARPGROUP, misses
from tclint.verdicts.tracked import Tracked

__all__ = ["TensorOrder", "TensorOrderByLetter"]

_NO_COUNTERS: Counters = {}


class TrackedColumns(Tracked):
    """The ``tcgen05`` operations of one kernel that mbarriers track, and their commits."""

    @cached_property
    def questions(self) -> PhaseQuestions:
        """What the checker asks; nothing accesses tensor memory through another proxy."""
        anew = frozenset(on for at, on in self._own.items() if not self.mbarriers.once(at))
        return super().questions._replace(fences=frozenset(), proxies=False, anew=anew)

    @cached_property
    def events(self) -> Mapping[int, Event]:
        """The operations and their commits, and what initialises and ends those mbarriers that are initialised more often than once."""
        found = dict(super().events)
        commits = [site for site, event in found.items() if event.arrives]
        for each in self.mbarriers.mbarriers.objects.values():
            at = MbarrierLocation(each.base, each.offset)
            named = any(self.mbarriers.may_name(site, at) for site in commits)
            if named and not self.mbarriers.once(at) and self.mbarriers.renewed(at):
                found |= {site: event for site in self.mbarriers.bounding(at) if (event := self._bound(site))}
        return found

    def _bound(self, site: int) -> Event | None:
        """What initialises or ends an mbarrier; None if that is not known."""
        threads = self.model.views.context_of(site).threads
        if threads == 0 or threads & (threads - 1):
            return None
        if self.model.instruction(site).effects.resource is not Resource.MBARRIER_INIT:
            return Event(Kind.END, threads.bit_length() - 1)
        return Event(Kind.BEGIN, threads.bit_length() - 1) if self.mbarriers.always(site) else None

    def _event(self, site: int) -> Event | None:
        effects = self.model.instruction(site).effects
        return super()._event(site) if effects.arrives_later or effects.begins == TCGEN05 else None

    def _known(self, site: int) -> bool:
        return True  # columns that are not known may be any

    def _kept(self, at: MbarrierLocation) -> bool:
        uniform, _ = self.model.fact(converged, self.assume)
        self.assumed |= uniform.assumed
        return self.kept(at, barriers_of_all(uniform))

    def addresses(self) -> Iterator[int]:
        """The values on which it depends which phase tracks an operation, which one a wait is for, and which columns are meant."""
        for site in (*self.events, *self._waits):
            values = self.model.mbarrier(site), self.model.value(site, "parity")
            yield from (value for value in values if value is not None)
            yield from (columns[0] for _, columns in self._columns(site) if columns is not None)

    def _columns(self, site: int) -> Iterator[tuple[bool, MemoryRange | None]]:
        """For each operand that addresses tensor memory, whether it is written, and its columns; None if they are not known."""
        for access in self.model.instruction(site).accesses:
            if access.space is StateSpace.TENSOR:
                yield access.writes, self.across.bytes.columns(site, access.operand)

    def _disjoint(self, first: int, here: Numbers, then: int, there: Numbers, counters: Counters) -> bool:
        """Whether one thread executes two operations, or they access no common column, where counters have these numbers."""
        key = first, here, then, there, tuple(counters.items())
        if key not in self._apart:
            one, two = self.events.get(first), self.events.get(then)
            alone = one is not None and two is not None and one.thread == two.thread
            self._apart[key] = alone or self.apart(
                first, then, self.across.bytes.everyone, here, there, counters
            )
        return self._apart[key]

    def apart(
        self,
        first: int,
        then: int,
        pairs: Pairs,
        here: Numbers = (),
        there: Numbers = (),
        counters: Counters = _NO_COUNTERS,
    ) -> bool:
        """Whether two of these threads access no common column by two instructions, each where counters have such numbers."""
        both = [(list(self._columns(site)), numbers) for site, numbers in ((first, here), (then, there))]
        if not all(found for found, _ in both):
            return False  # it allocates or frees some
        ((one, _), (two, _)) = both
        if any(None in each for found, _ in both for each in found):
            return not any(a or b for a, _ in one for b, _ in two)
        return all(
            self._ranges_apart(self._at(x, here, counters), self._at(y, there, counters), pairs)
            for a, x in one
            for b, y in two
            if (a or b) and x is not None and y is not None
        )

    def _at(self, columns: MemoryRange, numbers: Numbers, counters: Counters) -> MemoryRange:
        """Columns where counters have these numbers."""
        start, width = columns
        return (self.across.counting.at(start, numbers, counters) if numbers else start), width

    def _ranges_apart(self, a: MemoryRange, b: MemoryRange, pairs: Pairs) -> bool:
        bytes = self.across.bytes
        alike = bytes.unknown(a[0]) is None and bytes.unknown(b[0]) is None
        return alike and column_ranges_disjoint(self.model, a, b, EVER, pairs)


class TensorOrder(SharedOrder):
    """The pairs of accesses to tensor memory in one kernel, and what proves them ordered or disjoint."""

    space: ClassVar[Space] = IMPLIED
    what: ClassVar[str] = (
        "no other warp accesses the columns before or after without an intervening barrier or wait"
    )
    implied: ClassVar[frozenset[Assumption]] = frozenset((Assumption.IMPLIED_FENCES,))
    """What is assumed of barriers and waits."""

    def outcome(self) -> Outcome:
        """The obligations, and whether the checker accepts what discharges them."""
        self.assumed |= self.implied
        return super().outcome()

    @cached_property
    def _warps(self) -> dict[tuple[int, int, T.Threads], bool]:
        return {}

    def _tracks(self) -> Tracked:
        return self.columns

    @cached_property
    def columns(self) -> TrackedColumns:
        """What accesses columns of tensor memory."""
        return TrackedColumns(self.across, self.assume)

    @cached_property
    def _phis(self) -> dict[int, set[int]]:
        found: dict[int, set[int]] = {}
        for counter in self._tracking:
            block, register = self._defined(counter)
            found.setdefault(block, set()).add(register)
        return found

    def _together(self, of: MemoryAccess) -> bool:
        return False

    def _refined(self, pair: AccessPair) -> None:
        return None

    def _disjoint(self, a: MemoryAccess, b: MemoryAccess, view: View) -> bool:
        """Whether one warp executes both accesses, or two warps access different lanes."""
        threads = view.first | view.then
        if self.uniform.by_index and (not view.first or not view.then or T.one_warp(threads)):
            self.assumed |= self.uniform.of_index
            return True
        if not (a.later and b.later):
            return False
        return self._one_warpgroup or (self.uniform.by_index and self._of_warps(a.site, b.site, threads))

    def _of_warps(self, first: int, then: int, threads: T.Threads) -> bool:
        """Whether no two of these warps that may access the same lanes access a common column with two loads or stores."""
        needed = self.model.fact(path_assumptions)
        if needed is None or not needed <= self.assume:
            return False
        key = min(first, then), max(first, then), threads
        if key not in self._warps:
            self._warps[key] = all(self.columns.apart(first, then, pair) for pair in _of_one_rank(threads))
        if self._warps[key]:
            self.assumed |= self.uniform.of_index | needed
        return self._warps[key]

    @cached_property
    def _one_warpgroup(self) -> bool:
        most = self.function.most_threads
        if most is None or most > WARPGROUP or Assumption.THREADS not in self.assume:
            return False
        self.assumed.add(Assumption.THREADS)
        return True

    # ------------------------------------------------------------ explanations

    def _partial(self) -> Iterator[Reason]:
        yield from super()._partial()
        for site in sorted(self.barriers):
            block = self.cfg.blocks[self.cfg.block_of[site]]
            fence = misses(self.function.instructions, range(block.start, block.end), site, site)
            if fence:
                yield Reason(
                    span(self.function, site),
                    f"this barrier does not order loads and stores of tensor memory: {fence}",
                    "execute both fences beside the barrier",
                )
                return

    def _why(self, walk: Walk, pair: AccessPair, *, cheap: bool) -> str:
        name = self.model.name(pair.first)
        return f"another warp may access the same columns with {name}, and no CTA barrier separates the two"


def _of_one_rank(threads: T.Threads) -> Iterator[Pairs]:
    """Any two different warps of *threads* that may access the same lanes (9.7.16.8.1), each by its threads."""
    warps = dict[int, T.Threads]()
    while threads:
        warp = T.one_warp(threads & -threads)
        number = (warp.bit_length() - 1) // WARP
        warps[number] = warp & threads
        threads &= ~warp
    for a, here in warps.items():
        yield from (
            (here, there) for b, there in warps.items() if a != b and (a - b) % (WARPGROUP // WARP) == 0
        )


class TensorOrderByLetter(TensorOrder):
    """The same by the letter: barriers have fences beside them."""

    space: ClassVar[Space] = TENSOR_MEMORY
    implied: ClassVar[frozenset[Assumption]] = frozenset()
