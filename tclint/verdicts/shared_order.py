"""Shared memory between threads, where CTA barriers alone order it: the prover of what :mod:`tclint.verdicts.epochs` checks.

What a thread may have passed in its epoch, what may be pending and which threads get to a block are least fixpoints of the
functions that the checker uses. A proof trusts, besides the checker, the ISA table, the control-flow graph, and for
addresses and predicates of the thread index :mod:`tclint.values`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import cached_property
from typing import ClassVar

from tclint.analyses.in_flight import State
from tclint.analyses.model import KernelModel
from tclint.analyses.provenance import origin
from tclint.findings.spans import span
from tclint.findings.verdicts import Assumption, Discharge, Obligation, Reason
from tclint.values import thread_masks as T
from tclint.verdicts.across_threads import AcrossThreads
from tclint.verdicts.checker import CompletionTransfer, Refused
from tclint.verdicts.convergence import Convergence
from tclint.verdicts.disjoint import AccessedBytes
from tclint.verdicts.epochs import (
    SHARED,
    AccessPair,
    Epoch,
    Levels,
    MemoryAccess,
    OrderCertificate,
    OrderQuestions,
    Space,
    View,
    Walk,
    check,
    entered,
    first_epoch,
    full_barriers,
    of_all_threads,
)
from tclint.verdicts.outcome import Outcome
from tclint.verdicts.rings import RingStates
from tclint.verdicts.uniform import Level

__all__ = ["SharedOrder", "barriers_of_all"]

MAX_PAIRS = 50_000
"""The pairs of accesses of one kernel that a proof may have."""
MAX_OPEN = 32
"""The pairs that are not discharged after which no addresses are compared."""
MAX_PASSED = 256
"""What a thread may have passed in its epoch at one block: the alternatives that are distinguished."""


def barriers_of_all(of: Convergence) -> frozenset[int]:
    """The barriers that all threads of the CTA execute together."""
    found = (of_all_threads(of.of, each.site) for each in of.needed)
    candidates = [each for each in found if each is not None]
    return full_barriers(of.of, {c.site for c in candidates if not (of.why(c) or of.refused(c))})


class SharedOrder:
    """The pairs of accesses to shared memory in one kernel, and what proves them ordered or disjoint."""

    space: ClassVar[Space] = SHARED
    """The memory."""
    what: ClassVar[str] = "no other thread accesses the bytes before or after without an intervening barrier"
    """The obligation of a pair, in words."""

    def __init__(self, model: KernelModel, assume: Collection[Assumption]) -> None:
        self.model, self.assume = model, frozenset(assume)
        self.function, self.cfg, self.values = model.function, model.cfg, model.values
        self.assumed: set[Assumption] = set()
        self.order = sorted(self.cfg.order)
        blocks = [range(self.cfg.blocks[b].start, self.cfg.blocks[b].end) for b in self.order]
        self.sites = [i for block in blocks for i in block]
        self.transfer = CompletionTransfer(self.function, self.space.groups, self.sites)
        self.across = AcrossThreads(model, AccessedBytes(model, RingStates(model, self.transfer)))

    def outcome(self) -> Outcome:
        """The obligations, and whether the checker accepts what discharges them."""
        if alien := tuple(self._foreign()):
            return Outcome(reasons=alien)
        walk = self.walk()
        if walk is None:
            why = f"a thread may pass more than {MAX_PASSED} combinations of barriers and iterations"
            return Outcome(reasons=(Reason(None, why),))
        claims: dict[AccessPair, Discharge] = {}
        obligations, reasons = list[Obligation](), list[Reason]()
        for pair in walk.pairs():
            if len(obligations) == MAX_PAIRS:
                return Outcome(reasons=(Reason(None, f"it has more than {MAX_PAIRS} pairs of accesses"),))
            discharge, why = self._discharge(walk, pair, cheap=len(reasons) >= MAX_OPEN), ""
            first, then = (span(self.function, site) for site in pair)
            if discharge is None:
                why = self._why(walk, pair, cheap=len(reasons) >= MAX_OPEN)
                reasons.append(Reason(then, why))
            else:
                claims[pair] = discharge
            obligations.append(Obligation(first, then, self.what, discharge, why=why))
        if reasons:
            reasons = [*self._partial(), *reasons]
        else:
            try:
                claimed = replace(walk.certificate, claims=claims)
                check(self.function, self.uniform.of, claimed, self.questions, self.space)
            except Refused as refused:
                reasons.append(Reason(span(self.function, refused.site), refused.why))
        return Outcome(tuple(obligations), tuple(reasons), frozenset(self.assumed | self.uniform.assumed))

    def _partial(self) -> Iterator[Reason]:
        """The first CTA barrier that orders nothing, because not all threads are known to meet there."""
        of = self.uniform
        for each in of.needed:
            joins = self.function.instructions[each.site].effects.synchronises
            if each.level is Level.CTA and joins is not None and each.site not in self.barriers:
                why = of.why(each) or of.refused(each) or "threads may wait or arrive at it elsewhere"
                yield Reason(span(self.function, each.site), f"this barrier orders nothing: {why}")
                return

    def _foreign(self) -> Iterator[Reason]:
        for site in self.sites:
            if why := self.space.foreign(self.function.instructions[site]):
                yield Reason(span(self.function, site), why)

    # ------------------------------------------------------------ the certificate

    @cached_property
    def _accesses(self) -> list[MemoryAccess]:
        found = (self.space.access(site, self.function.instructions[site]) for site in self.sites)
        return [each for each in found if each is not None]

    def _together(self, of: MemoryAccess) -> bool:
        """Whether it matters that threads execute an access once in an epoch: lanes execute it together."""
        return of.writes and (
            of.rows or (not of.atomic and not of.later and self.across.shared_by_lanes(of.site))
        )

    @cached_property
    def _phis(self) -> dict[int, set[int]]:
        """The blocks with phis on which addresses depend, and the registers of these."""
        return self.across.phis([each.site for each in self._accesses])

    @cached_property
    def uniform(self) -> Convergence:
        """The levels of the registers on which branches, barriers and addresses depend."""
        registers = {register for found in self._phis.values() for register in found}
        return Convergence(self.model, self.assume, sorted(registers))

    @cached_property
    def _levels(self) -> Levels:
        return Levels(self.uniform.of, self.uniform.levels, self.uniform.of.outer(self.uniform.levels))

    @cached_property
    def barriers(self) -> frozenset[int]:
        """The barriers that all threads of the CTA execute together."""
        return barriers_of_all(self.uniform)

    def walk(self) -> Walk | None:
        """What may be passed, pending and executed at each block, without claims; None beyond :data:`MAX_PASSED`."""
        of = self.uniform.of
        once = {self.cfg.block_of[each.site] for each in self._accesses if self._together(each)}
        counted, count = frozenset(self._phis.keys() | once), len(self.cfg.blocks)
        entry: list[Epoch] = [frozenset()] * count
        pending: list[State] = [frozenset()] * count
        threads = [0] * count
        entry[0], threads[0] = first_epoch(counted), self.questions.everyone
        made = OrderCertificate(self.uniform.levels, self.barriers, counted, entry, pending, threads, {})
        walk, work = Walk(self.function, of.graph, made, self.questions, self.space), [0]
        while work:
            b = work.pop()
            epoch, state = walk.through(b)
            for target, taking in walk.leaving(b):
                known = entry[target], pending[target], threads[target]
                entry[target] |= entered(epoch, target, counted)
                pending[target] |= state
                threads[target] |= taking
                if len(entry[target]) > MAX_PASSED:
                    return None
                if known != (entry[target], pending[target], threads[target]):
                    work.append(target)
        return walk

    # ------------------------------------------------------------ discharges

    @cached_property
    def questions(self) -> OrderQuestions:
        """What the checker asks."""
        return OrderQuestions(self._disjoint, T.full(self.values.threads), self.uniform.holding)

    def _disjoint(self, a: MemoryAccess, b: MemoryAccess, view: View) -> bool:
        """Whether two accesses of different threads have no byte in common, if what that takes for granted may be."""
        if not (self.uniform.by_index and self.across.disjoint(a, b, view)):
            return False
        self.assumed |= self.uniform.of_index
        return True

    def _discharge(self, walk: Walk, pair: AccessPair, *, cheap: bool) -> Discharge | None:
        """What discharges an obligation; None if nothing is known to. With *cheap*, no addresses are compared."""
        self.model.pause()
        if walk.separated(pair):
            return Discharge.BARRIER
        if walk.both_atomic(pair):
            return Discharge.ATOMIC
        first, then = (walk.accesses[site] for site in pair)
        if not cheap and self._disjoint(first, then, walk.view(pair, self._levels)):
            return Discharge.DISJOINT
        return None

    # ------------------------------------------------------------ explanations

    def _why(self, walk: Walk, pair: AccessPair, *, cheap: bool) -> str:
        """Why it is not known whether two accesses are ordered or disjoint."""
        name = self.model.name(pair.first)
        if cheap:
            return f"beyond {MAX_OPEN} open obligations, no addresses are compared"
        view = walk.view(pair, self._levels)
        for site in pair:
            ranges = self.across.bytes.of(site)
            if ranges is None:
                return f"which bytes {self.model.name(site)} accesses is not known"
            for address, _ in ranges:
                if (part := self.across.unknown(address, view)) is not None:
                    return f"an address in {self.model.name(site)} depends on {origin(self.model, part)}"
        return f"another thread may access the same bytes with {name}, and no CTA barrier separates the two"
