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
    Counters,
    Levels,
    MemoryAccess,
    Numbers,
    OrderCertificate,
    OrderQuestions,
    Reached,
    Since,
    Space,
    View,
    Walk,
    check,
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
MAX_STEPS = 20_000
"""The visits of a block, each for one alternative, of one walk."""
MAX_FOLLOWED = 8
"""The sets of counters that are followed for one kernel."""


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
        self._followed: dict[tuple[tuple[int, int], ...], Walk | None] = {}
        self.across = AcrossThreads(model, AccessedBytes(model, RingStates(model, self.transfer)))

    def outcome(self) -> Outcome:
        """The obligations, and whether the checker accepts what discharges them."""
        if alien := tuple(self._foreign()):
            return Outcome(reasons=alien)
        walk = self.walk()
        if walk is None:
            why = f"a thread may pass more than {MAX_PASSED} combinations of barriers and iterations"
            return Outcome(reasons=(Reason(None, why),))
        claims: dict[Walk, dict[AccessPair, Discharge]] = {walk: {}}
        obligations, reasons = list[Obligation](), list[Reason]()
        for pair in walk.pairs():
            if len(obligations) == MAX_PAIRS:
                return Outcome(reasons=(Reason(None, f"it has more than {MAX_PAIRS} pairs of accesses"),))
            cheap = len(reasons) >= MAX_OPEN
            discharge, by, why = self._discharge(walk, pair, cheap=cheap), walk, ""
            if discharge is None and not cheap and (found := self._counted(pair)) is not None:
                discharge, by = found
            first, then = (span(self.function, site) for site in pair)
            if discharge is None:
                why = self._why(walk, pair, cheap=cheap)
                reasons.append(Reason(then, why, self._help))
            else:
                claims.setdefault(by, {})[pair] = discharge
            obligations.append(Obligation(first, then, self.what, discharge, why=why))
        if reasons:
            reasons = [*self._partial(), *reasons]
        else:
            try:
                claimed = [replace(by.certificate, claims=each) for by, each in claims.items()]
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
                yield Reason(
                    span(self.function, each.site), f"this barrier orders nothing: {why}", self._help
                )
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

    def walk(self, counters: Counters | None = None) -> Walk | None:
        """What may be passed and executed at each block, where *counters* are followed, without claims.

        None beyond :data:`MAX_PASSED` and :data:`MAX_STEPS`, or if the number of a counter is not known.
        """
        of = self.uniform.of
        once = {self.cfg.block_of[each.site] for each in self._accesses if self._together(each)}
        counted, count = frozenset(self._phis.keys() | once), len(self.cfg.blocks)
        entry: list[dict[Since, Reached]] = [{} for _ in range(count)]
        entry[0].update(first_epoch(counted, self.questions.everyone))
        made = OrderCertificate(self.uniform.levels, self.barriers, counted, counters or {}, entry, {})
        walk = Walk(self.function, of.graph, made, self.questions, self.space)
        work: dict[int, set[Since]] = {0: set(entry[0])}
        steps = 0
        while work:
            b = min(work)
            epoch = {since: entry[b][since] for since in work.pop(b)}
            steps += len(epoch)
            for target, since, reached in walk.leaving(b, walk.through(b, epoch)):
                known = entry[target].get(since)
                entry[target][since] = reached.joined(known)
                if len(entry[target]) > MAX_PASSED or steps > MAX_STEPS:
                    return None
                if known != entry[target][since]:
                    work.setdefault(target, set()).add(since)
        return walk

    # ------------------------------------------------------------ counters

    def _counted(self, pair: AccessPair) -> tuple[Discharge, Walk] | None:
        """What discharges a pair if the counters are followed on which its addresses depend; None if nothing does."""
        ranges = [self.across.bytes.of(site) or () for site in pair]
        addresses = [address for each in ranges for address, _ in each]
        counters = self.across.counting.counters(addresses)
        key = tuple(sorted(counters.items()))
        if not key:
            return None
        if key not in self._followed and len(self._followed) < MAX_FOLLOWED:
            self._followed[key] = self._follow(counters)
        walk = self._followed.get(key)
        discharge = None if walk is None else self._discharge(walk, pair, cheap=False)
        return None if walk is None or discharge is None else (discharge, walk)

    def _follow(self, counters: Counters) -> Walk | None:
        """The walk that follows *counters*; None if there is none, or not all threads have one number of each."""
        defined = map(self.questions.defined, counters)
        if not all(self._levels.uniform(block, register) for block, register in defined):
            return None
        try:
            return self.walk(counters)
        except Refused:
            return None

    # ------------------------------------------------------------ discharges

    @cached_property
    def questions(self) -> OrderQuestions:
        """What the checker asks."""
        return OrderQuestions(
            self._disjoint,
            T.full(self.values.threads),
            self._holding,
            self.across.counting.after,
            self._defined,
        )

    def _defined(self, counter: int) -> tuple[int, int]:
        """The block and the register of a counter."""
        phi = self.values.phi(counter)
        return phi.block, phi.register

    def _holding(self, register: int, at: int, numbers: Numbers, counters: Counters) -> T.Threads | None:
        """The threads in which a predicate is true just before an instruction, where counters have these *numbers*."""
        predicate = self.values.before(register, at)
        if not numbers or not self.across.bytes.definitions.dominate(register, at):
            return self.uniform.threads_where(predicate)
        return self.uniform.threads_where(self.across.counting.at(predicate, numbers, counters))

    def _disjoint(self, a: MemoryAccess, b: MemoryAccess, view: View) -> bool:
        """Whether two accesses of different threads have no byte in common, if what that takes for granted may be."""
        if not (self.uniform.by_index and self.across.disjoint(a, b, view)):
            return False
        self.assumed |= self.uniform.of_index
        return True

    def _discharge(self, walk: Walk, pair: AccessPair, *, cheap: bool) -> Discharge | None:
        """What discharges an obligation; None if nothing is known to. With *cheap*, no addresses are compared."""
        if walk.separated(pair):
            return Discharge.BARRIER
        if walk.both_atomic(pair):
            return Discharge.ATOMIC
        first, then = (walk.accesses[site] for site in pair)
        if not cheap and all(self._disjoint(first, then, view) for view in walk.views(pair, self._levels)):
            return Discharge.DISJOINT
        return None

    # ------------------------------------------------------------ explanations

    def _why(self, walk: Walk, pair: AccessPair, *, cheap: bool) -> str:
        """Why it is not known whether two accesses are ordered or disjoint."""
        name = self.model.name(pair.first)
        if cheap:
            return f"beyond {MAX_OPEN} open obligations, no addresses are compared"
        view = next(walk.views(pair, self._levels))
        for site in pair:
            ranges = self.across.bytes.of(site)
            if ranges is None:
                return f"which bytes {self.model.name(site)} accesses is not known"
            for address, _ in ranges:
                if (part := self.across.unknown(address, view)) is not None:
                    return f"an address in {self.model.name(site)} depends on {origin(self.model, part)}"
        return f"another thread may access the same bytes with {name}, and no CTA barrier separates the two"

    @cached_property
    def _help(self) -> str:
        return "" if self.function.threads is not None else "state the shape of the CTA with .reqntid"
