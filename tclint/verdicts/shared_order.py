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
from tclint.analyses.pointers import Pointers
from tclint.analyses.provenance import origin
from tclint.findings.spans import span
from tclint.findings.verdicts import Assumption, Discharge, Obligation, Reason
from tclint.isa.accesses import StateSpace
from tclint.values import thread_masks as T
from tclint.values.nodes import Logic, Negation
from tclint.verdicts.across_threads import AcrossThreads
from tclint.verdicts.admitted_threads import AdmittedThreads
from tclint.verdicts.checker import CompletionTransfer, Refused
from tclint.verdicts.convergence import Convergence
from tclint.verdicts.disjoint import AccessedBytes
from tclint.verdicts.epochs import (
    SHARED,
    AccessPair,
    Between,
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
    check_loads,
    first_epoch,
    full_barriers,
    of_all_threads,
    of_cluster,
    uniform_if_stable,
    untracked,
)
from tclint.verdicts.outcome import Outcome
from tclint.verdicts.phases import Kind, Location, PhaseQuestions
from tclint.verdicts.rings import RingStates
from tclint.verdicts.tracked import Tracked
from tclint.verdicts.uniform import Collective, Level

__all__ = ["SharedOrder", "barriers_of_all", "converged", "ordered_in_shared"]

MAX_PAIRS = 50_000
"""The pairs of accesses of one kernel that a proof may have."""
MAX_OPEN = 32
"""The pairs that are not discharged after which no addresses are compared."""
MAX_PASSED = 256
"""What a thread may have passed in its epoch at one block: the alternatives that are distinguished."""
MAX_STEPS = 20_000
"""The visits of a block, each for one alternative, of one walk."""
MAX_UNDERWAY = 256
"""What may be underway on mbarriers at one block."""
MAX_WALKS = 16
"""The walks of one kernel, each of which follows other counters, or is about other threads."""

MAX_LOADS = 16
"""The loads on which branches depend that are looked at."""


def barriers_of_all(of: Convergence, between: Between = Between.THREADS) -> frozenset[int]:
    """The barriers at which all threads of the CTA meet, or all lanes of each warp; of the cluster barrier, the waits."""

    def refused(each: Collective) -> bool:
        return bool(of.why(each) or of.refused(each))

    found = [of_all_threads(of.of, each.site, between) for each in of.needed]
    candidates = [each for each in found if each is not None]
    in_cluster = [each for each in candidates if each.level is Level.CLUSTER]
    if in_cluster and (any(of.of.phases()) or any(map(refused, of_cluster(of.of)))):
        candidates = [each for each in candidates if each not in in_cluster]
    return full_barriers(of.of, {each.site for each in candidates if not refused(each)})


class SharedOrder:
    """The pairs of accesses to shared memory in one kernel, and what proves them ordered or disjoint."""

    space: ClassVar[Space] = SHARED
    """The memory."""
    what: ClassVar[str] = "no other thread accesses the bytes before or after without an intervening barrier"
    """The obligation of a pair, in words."""

    def __init__(
        self,
        model: KernelModel,
        assume: Collection[Assumption],
        stable: frozenset[int] = frozenset(),
        *,
        fenced: bool = False,
        most: int | None = None,
    ) -> None:
        """*stable* are the loads that are taken for uniform; with *fenced*, a proxy fence is taken to follow the completion of
        what mbarriers track, and a CTA to have no more than *most* threads."""
        self.model, self.assume, self.stable, self.fenced = model, frozenset(assume), stable, fenced
        self.everyone = T.full(min(model.values.threads, most or model.values.threads))
        self.function, self.cfg, self.values = model.function, model.cfg, model.values
        self.assumed: set[Assumption] = set()
        self.order = sorted(self.cfg.order)
        blocks = [range(self.cfg.blocks[b].start, self.cfg.blocks[b].end) for b in self.order]
        self.sites = [i for block in blocks for i in block]
        self.transfer = CompletionTransfer(self.function, self.space.groups, self.sites)
        self._walks: dict[tuple[tuple[tuple[int, int], ...], Between], Walk | None] = {}
        self._possible: dict[tuple[int, bool], T.Threads] = {}
        self.across = AcrossThreads(model, AccessedBytes(model, RingStates(model, self.transfer)))
        self.tracked = self._tracks()
        self._limit = ""
        """The limit that the last walk exceeded, in words."""

    def _tracks(self) -> Tracked:
        """What is known of operations that mbarriers track."""
        return Tracked(self.across, self.assume)

    def outcome(self) -> Outcome:
        """The obligations, and whether the checker accepts what discharges them."""
        if alien := tuple(self._foreign()):
            return Outcome(reasons=alien)
        walk = self._first_walk()
        if walk is None:
            return Outcome(reasons=(Reason(None, self._limit),))
        claims: dict[Walk, dict[AccessPair, Discharge]] = {walk: {}}
        obligations, reasons = list[Obligation](), list[Reason]()
        for pair in walk.pairs():
            if len(obligations) == MAX_PAIRS:
                return Outcome(reasons=(Reason(None, f"it has more than {MAX_PAIRS} pairs of accesses"),))
            cheap, why = len(reasons) >= MAX_OPEN, ""
            proofs = self._proofs(walk, pair, cheap=cheap)
            first, then = (span(self.function, site) for site in pair)
            if proofs is None:
                why = self._why(walk, pair, cheap=cheap)
                reasons.append(Reason(then, why))
            for by, claimed in proofs or ():
                claims.setdefault(by, {})[pair] = claimed
            discharge = proofs[-1][1] if proofs else None
            obligations.append(Obligation(first, then, self.what, discharge, why=why))
        if reasons:
            reasons = [*self._partial(), *reasons]
        else:
            try:
                certificates = [replace(by.certificate, claims=each) for by, each in claims.items()]
                check(self.function, self.uniform.of, certificates, self.questions, self.space)
            except Refused as refused:
                reasons.append(Reason(span(self.function, refused.site), refused.why))
        assumed = self.assumed | self.uniform.assumed | self.tracked.assumed
        return Outcome(tuple(obligations), tuple(reasons), frozenset(assumed))

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
        if self._phases.events:
            if not self.uniform.by_index:
                yield Reason(None, "the index of a thread does not say which threads mbarriers track")
            self.assumed |= self.uniform.of_index
        for site in self.sites:
            instruction = self.function.instructions[site]
            why = "" if site in self.outside else self.space.foreign(instruction)
            if not why and (why := untracked(self.space, site, instruction, self._phases.events)):
                limit = self.tracked.limit(site)
                why += limit and f"; {limit}"
            if why:
                yield Reason(span(self.function, site), why)

    # ------------------------------------------------------------ what mbarriers track

    @cached_property
    def _phases(self) -> PhaseQuestions:
        """What is asked about operations that mbarriers track."""
        found = self.tracked.questions
        return found._replace(proxies=False) if self.fenced else found

    @cached_property
    def admitted(self) -> int | None:
        """The threads that variables admit, if that may be assumed and are fewer than the directives admit."""
        may = Assumption.IN_BOUNDS in self.assume and self.uniform.by_index and self.across.in_one_row
        if not may or self.function.threads is not None:
            return None
        of, levels = self.uniform.of, self.uniform.levels
        admitted = AdmittedThreads(self.model, of, levels, self.uniform.holding, self.across.is_index)
        return admitted.most_threads(
            (each.site, self.across.bytes.of(each.site) or ())
            for each in self._accesses
            if not each.rows  # of some lanes, the address does not count
        )

    @property
    def completes_reads(self) -> bool:
        """Whether it matters if the completion of an operation that mbarriers track implies a proxy fence, and may be assumed."""
        may = Assumption.COMPLETED_READS in self.assume
        return may and any(each.kind is Kind.OPERATION for each in self._phases.events.values())

    @cached_property
    def _tracking(self) -> Counters:
        """The counters on which it depends what is tracked, and by which phase."""
        if not self._phases.own:
            return {}
        return self.across.counting.counters(self.tracked.addresses())

    # ------------------------------------------------------------ the certificate

    @cached_property
    def _accesses(self) -> list[MemoryAccess]:
        sites = (site for site in self.sites if site not in self.outside)
        found = (self.space.access(site, self.function.instructions[site]) for site in sites)
        return [each for each in found if each is not None]

    def _together(self, of: MemoryAccess) -> bool:
        """Whether it matters that threads execute an access once in an epoch: lanes execute it together."""
        return of.writes and (
            of.rows > 0 or (not of.atomic and not of.later and self.across.shared_by_lanes(of.site))
        )

    @cached_property
    def _phis(self) -> dict[int, set[int]]:
        """The blocks with phis on which addresses depend, and the registers of these."""
        found = self.across.phis([each.site for each in self._accesses])
        for counter in self._tracking:
            block, register = self._defined(counter)
            found.setdefault(block, set()).add(register)
        return found

    @cached_property
    def uniform(self) -> Convergence:
        """The levels of the registers on which branches, barriers and addresses depend."""
        registers = {register for found in self._phis.values() for register in found}
        registers |= {phi.register for phi in self.tracked.skipped.phis} if self._phases.events else set()
        return Convergence(self.model, self.assume, sorted(registers), self.stable)

    @cached_property
    def _levels(self) -> dict[Between, Levels]:
        levels = self.uniform.levels
        outer = self.uniform.of.outer(levels)
        return {between: Levels(self.uniform.of, levels, outer, between) for between in Between}

    @cached_property
    def barriers(self) -> frozenset[int]:
        """The barriers at which all threads of the CTA meet."""
        return barriers_of_all(self.uniform)

    @cached_property
    def _lanes_meet(self) -> frozenset[int]:
        """The barriers at which all lanes of each warp meet."""
        return barriers_of_all(self.uniform, Between.LANES)

    def _first_walk(self) -> Walk | None:
        """The walk that follows the counters on which phases depend, or else none."""
        found = self._walk_of(self._tracking, Between.THREADS) if self._tracking else None
        return found or self.walk()

    def walk(self, counters: Counters | None = None, between: Between = Between.THREADS) -> Walk | None:
        """What may be passed and executed at each block, where *counters* are followed, without claims.

        None beyond :data:`MAX_PASSED`, :data:`MAX_STEPS` and :data:`MAX_UNDERWAY`, or if the number of a counter is not known.
        """
        own = self._phases.own if between is Between.THREADS else frozenset()
        while (walk := self._walked(counters or {}, between, own)) is not None:
            unfit = walk.unfit() & own
            if not unfit:
                break
            own -= unfit
        return walk

    def _walked(self, counters: Counters, between: Between, own: frozenset[Location]) -> Walk | None:
        """The walk in which the phases of the mbarriers *own* are followed, without claims."""
        of = self.uniform.of
        once = {self.cfg.block_of[each.site] for each in self._accesses if self._together(each)}
        counted, count = frozenset(self._phis.keys() | once), len(self.cfg.blocks)
        entry: list[dict[Since, Reached]] = [{} for _ in range(count)]
        barriers = self._lanes_meet if between is Between.LANES else self.barriers
        made = OrderCertificate(self.uniform.levels, barriers, counted, counters, entry, {}, between, own)
        walk = Walk(self.function, of.graph, made, self.questions, self._levels[between], self.space)
        entry[0].update(first_epoch(counted, self.questions.everyone, walk.phases.first))
        work: dict[int, set[Since]] = {0: set(entry[0])}
        steps = 0
        while work:
            b = min(work)
            epoch = {since: entry[b][since] for since in work.pop(b)}
            steps += len(epoch)
            for target, since, reached in walk.leaving(b, walk.through(b, epoch)):
                known = entry[target].get(since)
                entry[target][since] = reached.joined(known)
                underway = len(reached.known.underway)
                if self._is_beyond(len(entry[target]), steps, underway):
                    return None
                if known != entry[target][since]:
                    work.setdefault(target, set()).add(since)
        return walk

    def _is_beyond(self, passed: int, steps: int, underway: int) -> bool:
        """Whether a walk exceeds a limit, which is noted in words."""
        if passed > MAX_PASSED:
            self._limit = f"a thread may pass more than {MAX_PASSED} combinations of barriers and iterations"
        elif steps > MAX_STEPS:
            self._limit = f"what a thread may pass takes more than {MAX_STEPS} steps"
        elif underway > MAX_UNDERWAY:
            self._limit = f"more than {MAX_UNDERWAY} operations may be underway on mbarriers at one block"
        else:
            return False
        return True

    def _proofs(self, walk: Walk, pair: AccessPair, *, cheap: bool) -> list[tuple[Walk, Discharge]] | None:
        """What discharges a pair, by *walk* or by others; None if nothing is known to."""
        discharge = self._discharge(walk, pair, cheap=cheap)
        if discharge is not None:
            return [(walk, discharge)]
        return None if cheap else self._refined(pair)

    # ------------------------------------------------------------ uniform loads

    def unstable(self) -> frozenset[int]:
        """Those of the loads that are taken for uniform of which it is not proved that no other thread writes meanwhile."""
        walk = self.walk()
        if walk is None or any(self._foreign()):
            return self.stable
        claims: dict[Walk, dict[AccessPair, Discharge]] = {walk: {}}
        failed = set[int]()
        for pair in walk.pairs():
            if self.stable.isdisjoint(pair):
                continue
            proofs = self._proofs(walk, pair, cheap=False)
            if proofs is None or len(proofs) > 1:
                failed.update(self.stable.intersection(pair))
                continue
            for by, discharge in proofs:
                claims.setdefault(by, {})[pair] = discharge
        if not failed:
            claimed = [replace(by.certificate, claims=each) for by, each in claims.items()]
            check_loads(self.function, self.uniform.of, claimed, self.questions)
        return frozenset(failed)

    # ------------------------------------------------------------ other walks

    def _refined(self, pair: AccessPair) -> list[tuple[Walk, Discharge]] | None:
        """What discharges a pair if the counters are followed on which its addresses depend, or if two threads of one warp
        and two of different warps are distinguished; None if nothing does."""
        for each in ((Between.THREADS,), (Between.WARPS, Between.LANES)):
            if Between.LANES in each and self._lanes_meet == self.barriers:
                break
            found = [self._of_walks(pair, between) for between in each]
            proofs = [proof for proof in found if proof is not None]
            if len(proofs) == len(found):
                return proofs
        return None

    def _of_walks(self, pair: AccessPair, between: Between) -> tuple[Walk, Discharge] | None:
        """The first walk about such threads that discharges a pair, without counters or with them."""
        ranges = [self.across.bytes.of(site) or () for site in pair]
        counters = self.across.counting.counters(address for each in ranges for address, _ in each)
        first = self._tracking if between is Between.THREADS else {}
        for followed in (first, {**first, **counters}) if counters else (first,):
            walk = self._walk_of(followed, between)
            discharge = None if walk is None else self._discharge(walk, pair, cheap=False)
            if walk is not None and discharge is not None:
                return walk, discharge
        return None

    def _walk_of(self, counters: Counters, between: Between) -> Walk | None:
        """The walk that follows *counters*; None if there is none, or not all threads have one number of each."""
        key = tuple(sorted(counters.items())), between
        if key not in self._walks and len(self._walks) < MAX_WALKS:
            if between is Between.WARPS:
                whole = self._walk_of(counters, Between.THREADS)
                self._walks[key] = None if whole is None else whole.about(between)
            else:
                self._walks[key] = self._follow(counters, between)
        return self._walks.get(key)

    def _follow(self, counters: Counters, between: Between) -> Walk | None:
        defined = map(self.questions.defined, counters)
        if not all(self._levels[between].uniform(block, register) for block, register in defined):
            return None
        try:
            return self.walk(counters, between)
        except Refused:
            return None

    # ------------------------------------------------------------ discharges

    @cached_property
    def questions(self) -> OrderQuestions:
        """What the checker asks."""
        return OrderQuestions(
            self._disjoint,
            self.everyone,
            self._admitting,
            self.across.counting.after,
            self._defined,
            self._phases,
            self.outside,
        )

    @cached_property
    def outside(self) -> frozenset[int]:
        """The instructions whose generic addresses are not in shared memory, if that may be assumed."""
        needed = {Assumption.NO_ALIAS, Assumption.READ_ONLY}
        if not needed <= self.assume:
            return frozenset()
        pointers, generic = self.model.fact(Pointers), StateSpace.GENERIC
        sites = (
            i for i in self.sites if any(a.space is generic for a in self.function.instructions[i].accesses)
        )
        found = frozenset(filter(pointers.outside_shared, sites))
        self.assumed |= needed if found else set()
        return found

    def _defined(self, counter: int) -> tuple[int, int]:
        """The block and the register of a counter."""
        phi = self.values.phi(counter)
        return phi.block, phi.register

    def _admitting(
        self, register: int, at: int, value: bool, numbers: Numbers, counters: Counters
    ) -> T.Threads:
        """The threads in which a predicate may have a *value* just before an instruction, where counters have these *numbers*."""
        predicate = self.values.before(register, at)
        if numbers and self.across.bytes.definitions.dominate(register, at):
            predicate = self.across.counting.at(predicate, numbers, counters)
        return self._may_be(predicate, value)

    def _may_be(self, predicate: int, value: bool) -> T.Threads:
        """The threads in which a *predicate* may have a *value*, by what their index decides of it: ``tid == 0 && flag``."""
        key = predicate, value
        if key not in self._possible:
            self._possible[key] = self._of_operands(predicate, value)
        return self._possible[key]

    def _of_operands(self, predicate: int, value: bool) -> T.Threads:
        threads = self.uniform.threads_where(predicate)
        if threads is not None:
            return threads if value else ~threads
        node = self.values.node(predicate)
        if type(node) is Negation:
            return self._may_be(node.operand, not value)
        if type(node) is Logic and node.name in ("and", "or"):
            left, right = (self._may_be(each, value) for each in node.operands)
            return left & right if (node.name == "and") is value else left | right
        return self.everyone

    def _disjoint(self, a: MemoryAccess, b: MemoryAccess, view: View) -> bool:
        """Whether two accesses of different threads have no byte in common, if what that takes for granted may be."""
        needed = self.across.bytes.assumptions(a.site) | self.across.bytes.assumptions(b.site)
        if not (self.uniform.by_index and needed <= self.assume and self.across.disjoint(a, b, view)):
            return False
        self.assumed |= self.uniform.of_index | needed
        return True

    def _discharge(self, walk: Walk, pair: AccessPair, *, cheap: bool) -> Discharge | None:
        """What discharges an obligation; None if nothing is known to. With *cheap*, no addresses are compared."""
        self.model.pause()
        if walk.tracks(pair):
            return self._tracked(walk, pair, cheap=cheap)
        if walk.meetings.of(*pair) and (cheap or not walk.apart(pair)):
            return None
        if walk.separated(pair):
            return Discharge.BARRIER
        if walk.both_atomic(pair):
            return Discharge.ATOMIC
        first, then = (walk.accesses[site] for site in pair)
        if not cheap and all(
            self._disjoint(first, then, view)
            for view in walk.views(pair, self._levels[walk.certificate.between])
        ):
            return Discharge.DISJOINT
        return None

    def _tracked(self, walk: Walk, pair: AccessPair, *, cheap: bool) -> Discharge | None:
        """What discharges an obligation about an operation that a phase tracks."""
        if walk.certificate.between is not Between.THREADS:
            return None
        if not walk.meetings.of(*pair):
            return Discharge.WAIT
        return Discharge.DISJOINT if not cheap and walk.apart(pair) else None

    # ------------------------------------------------------------ explanations

    def _why(self, walk: Walk, pair: AccessPair, *, cheap: bool) -> str:
        """Why it is not known whether two accesses are ordered or disjoint."""
        name = self.model.name(pair.first)
        if cheap:
            return f"beyond {MAX_OPEN} open obligations, no addresses are compared"
        if walk.tracks(pair) or walk.meetings.of(*pair):
            limits = (walk.phases.limits.get(site) or self.tracked.limit(site) for site in pair)
            beyond = next((f"; {limit}" for limit in limits if limit), "")
            return f"it may meet a {name} that is underway, or no proxy fence separates the two{beyond}"
        view = next(walk.views(pair, self._levels[walk.certificate.between]))
        for site in pair:
            ranges = self.across.bytes.of(site)
            if ranges is None:
                return f"which bytes {self.model.name(site)} accesses is not known"
            for address, _ in ranges:
                if (part := self.across.unknown(address, view)) is not None:
                    return f"an address in {self.model.name(site)} depends on {origin(self.model, part)}"
        return f"another thread may access the same bytes with {name}, and no CTA barrier separates the two"


def converged(model: KernelModel, assume: frozenset[Assumption]) -> tuple[Convergence, Outcome]:
    """What is proved of collective instructions, with the levels of registers that it rests on.

    ``if (flag < n) return;`` with a shared flag is uniform if no thread may write the flag between the barriers around the
    loads, and that these barriers are full may rest on the branch. The two are proved together, where they are not proved
    without.
    """
    uniform = Convergence(model, assume)
    found = uniform.outcome()
    if not found.reasons or (order := _with_uniform_loads(model, assume)) is None:
        return uniform, found
    again = order.uniform.outcome()
    return order.uniform, replace(again, assumptions=again.assumptions | order.assumed)


def ordered_in_shared(model: KernelModel, assume: frozenset[Assumption]) -> Outcome:
    """What is proved of accesses of different threads to shared memory, if need be under assumptions about this class alone."""
    order = SharedOrder(model, assume)
    found = order.outcome()
    if found.reasons and (other := _with_uniform_loads(model, assume)) is not None:
        order, again = other, other.outcome()
        found = found if again.reasons else again
    needed = set[Assumption]()
    if found.reasons and order.completes_reads:
        needed.add(Assumption.COMPLETED_READS)
    if found.reasons and order.admitted is not None:
        needed.add(Assumption.IN_BOUNDS)
    if needed:
        fenced = Assumption.COMPLETED_READS in needed
        again = SharedOrder(model, assume, order.stable, fenced=fenced, most=order.admitted).outcome()
        found = found if again.reasons else replace(again, assumptions=again.assumptions | needed)
    return found


def _with_uniform_loads(model: KernelModel, assume: frozenset[Assumption]) -> SharedOrder | None:
    """The accesses of shared memory, with the loads that are uniform and decide branches; None if there are none."""
    candidates = [
        site for site in Convergence(model, assume).deciding if uniform_if_stable(model.instruction(site))
    ]
    stable = frozenset(candidates) if len(candidates) <= MAX_LOADS else frozenset[int]()
    while stable:
        order = SharedOrder(model, assume, stable)
        try:
            failed = order.unstable()
        except Refused:
            return None
        if not failed:
            return order
        stable -= failed
    return None
