"""What is wrong with the objects of a chain of waits: the candidates for the cause of a hang."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import reduce
from math import prod
from operator import or_

from tclint._dataclass import dataclass
from tclint.analyses.mbarriers import Mbarriers, Ring
from tclint.analyses.role_paths import dominated_by
from tclint.checks._wording import agreeing, times
from tclint.hang.cycle import Chain, End, gone
from tclint.hang.phases import Phases
from tclint.hang.stops import CLUSTER, CTA_BARRIER, MBARRIER, REGISTERS, Stop
from tclint.hang.waits import CompletionStatus, Object, Waiter, Waits
from tclint.inspect.protocol.parts import MbarrierRing

__all__ = ["Cause", "causes"]


@dataclass(frozen=True, slots=True)
class Cause:
    """A reason why a wait of the chain does not complete."""

    kind: str
    """``no-operation``, ``count``, ``bytes``, ``skipped``, ``gone`` or ``first-phase``."""
    what: str
    """In words."""
    objects: tuple[str, ...]
    sites: tuple[int, ...]


def causes(
    waits: Waits,
    rings: Sequence[MbarrierRing],
    waiters: Sequence[Waiter],
    chain: Chain,
    phases: Phases,
) -> list[Cause]:
    """The causes that the code of the kernel shows, the most specific ones first.

    *phases* are those at the end of the execution or replay that ends as the hang does.
    """
    found: dict[tuple[str, str, tuple[str, ...]], list[int]] = {}
    for cause in _Causes(waits, rings, waiters, chain, phases).all():
        found.setdefault((cause.kind, cause.what, cause.objects), []).extend(cause.sites)
    return [Cause(*cause, tuple(dict.fromkeys(sites))) for cause, sites in found.items()]


class _Causes:
    def __init__(
        self,
        waits: Waits,
        rings: Sequence[MbarrierRing],
        waiters: Sequence[Waiter],
        chain: Chain,
        phases: Phases,
    ) -> None:
        self.waits, self.model = waits, waits.model
        self._chain = chain
        self._members = [waiters[n] for n in chain.waiters]
        self._phases = [phases.get(n, ()) for n in chain.waiters]
        self._mbarriers = self.model.fact(Mbarriers)
        described = zip(self._mbarriers.rings_by_init, rings, strict=True)
        self._described: dict[Ring, MbarrierRing] = dict(described)
        self._firsts = {site: wait.first for ring in rings for wait in ring.waits for site in wait.sites}

    def all(self) -> Iterator[Cause]:
        for waiter in self._members:
            yield from self._nothing(waiter)
        for waiter in self._members:
            if waiter.object.ring is not None:
                yield from self._counts(waiter.object, waiter.object.ring)
                yield from self._bytes(waiter.object, waiter.object.ring)
                yield from self._multicast(waiter)
            elif waiter.object.kind == CTA_BARRIER:
                yield from self._barrier(waiter)
            elif waiter.object.kind == CLUSTER:
                yield from self._skipped(waiter)
        yield from self._skipped_arrivals()
        yield from self._short_phases()
        for waiter in self._members:
            yield from self._gone(waiter)
        yield from self._first_phases()

    def _site(self, waiter: Waiter) -> int:
        return self._stop(waiter).site

    def _stop(self, waiter: Waiter) -> Stop:
        return self.waits.stops[waiter.stop]

    def _nothing(self, waiter: Waiter) -> Iterator[Cause]:
        """No instruction would complete the wait."""
        object_ = waiter.object
        if not object_.known:
            return
        if not any(operation.shares for operation in waiter.operations):
            inits = tuple(object_.ring.inits) if object_.ring is not None else ()
            sites = (*inits, *(operation.site for operation in waiter.operations))
            verb = "gives up" if object_.kind == REGISTERS else "arrives at"
            yield Cause("no-operation", f"no thread {verb} {object_.name}", (object_.name,), sites)

    def _counts(self, object_: Object, ring: Ring) -> Iterator[Cause]:
        """The count of an mbarrier differs from the arrivals that a phase may receive."""
        for stage in ring.stages:
            count, arrivals = stage.count, self._mbarriers.arrivals(stage)
            sites = (*stage.inits, *self._mbarriers.arriving_at(stage))
            if count is None or arrivals is None or not self._mbarriers.arriving_at(stage):
                continue
            most = arrivals.most
            if count < arrivals.least or (most is not None and count > most):
                got = str(arrivals.least) if most == arrivals.least else f"{arrivals.least} to {most}"
                what = f"a phase of {object_.name} needs {times(count)} and receives {got}"
                yield Cause("count", what, (object_.name,), sites)
                return
        counts = {stage.count for stage in ring.stages}
        if len(counts) > 1:
            words = ", ".join(sorted("unknown" if count is None else str(count) for count in counts))
            what = f"the stages of {object_.name} have different counts: {words}"
            yield Cause("count", what, (object_.name,), tuple(ring.inits))

    def _bytes(self, object_: Object, ring: Ring) -> Iterator[Cause]:
        """The bytes that a phase expects differ from those that copies complete.

        Some threads may expect bytes that others copy: then only a phase without any copy, or without any
        expectation, is known to be wrong, and only if no operation is on an unresolved mbarrier.
        """
        found = self._described[ring].delivered or ()
        whole = not self._mbarriers.unresolved
        for delivered in found:
            expected, copied = delivered.expected, delivered.copied
            none = whole and not (any(d.copies for d in found) and any(d.expects for d in found))
            comparable = none or (delivered.expects and delivered.copies)
            if comparable and None not in (expected, copied) and expected != copied:
                what = f"a phase of {object_.name} expects {expected} bytes, and copies complete {copied}"
                yield Cause("bytes", what, (object_.name,), (*delivered.expects, *delivered.copies))

    def _multicast(self, waiter: Waiter) -> Iterator[Cause]:
        """CTAs of a cluster wait for bytes that no copy sends to them."""
        size = prod(self.model.function.cluster or (0,))
        ranks = {cta % size for cta in self._stop(waiter).ctas} if size else set[int]()
        copies = [operation.site for operation in waiter.operations if operation.deed == "copy"]
        sent = [self.waits.sites.multicast(site) for site in copies]
        reached = [None if each is None or each.ctas is None else set(each.ctas) for each in sent]
        known = [ranks_ for ranks_ in reached if ranks_ is not None]
        if copies and len(known) == len(copies) and (missing := sorted(ranks.difference(*known))):
            words = ", ".join(map(str, missing))
            what = f"no copy to {waiter.object.name} reaches CTA {words} of the cluster"
            yield Cause("bytes", what, (waiter.object.name,), (self._site(waiter), *copies))

    def _barrier(self, waiter: Waiter) -> Iterator[Cause]:
        """The operations on a CTA barrier count different threads, or more than execute them."""
        object_ = waiter.object
        sites = tuple(operation.site for operation in waiter.operations)
        counted = {site: self.waits.count(site) for site in sites}
        counts = sorted({count for count in counted.values() if count is not None})
        if len(counts) > 1:
            words = " and ".join(map(str, counts))
            yield Cause(
                "count", f"the operations on {object_.name} count {words} threads", (object_.name,), sites
            )
        users = waiter.users.bit_count()
        if self.waits.closed and counts and counts[-1] > users and None not in counted.values():
            what = f"{object_.name} counts {counts[-1]} threads, and {users} threads use it"
            yield Cause("count", what, (object_.name,), sites)

    def _skipped(self, waiter: Waiter) -> Iterator[Cause]:
        """Threads may wait for the cluster barrier without having arrived."""
        wait = self._site(waiter)
        sites = [operation.site for operation in waiter.operations]
        if sites and not any(self.waits.arrived(site, wait) for site in sites):
            what = f"threads may reach this wait for {waiter.object.name} without having arrived"
            yield Cause("skipped", what, (waiter.object.name,), (*sites, wait))

    def _short_phases(self) -> Iterator[Cause]:
        """A phase that all its threads have arrived at and that still needs arrivals."""
        for waiter, phases in zip(self._members, self._phases, strict=True):
            blocked = any(share.status is CompletionStatus.BLOCKED for share in waiter.shares)
            phase = next((p for p in phases if p.bytes is not None and 0 < p.arrived < p.count), None)
            if blocked or phase is None:
                continue
            what = (
                f"phase {phase.number} of {waiter.object.name} needs {times(phase.count)} and receives"
                f" {phase.arrived}: all threads that arrive wait for it"
            )
            inits = (phase.init,) if phase.init >= 0 else ()
            sites = (*inits, *(operation.site for operation in waiter.operations))
            yield Cause("count", what, (waiter.object.name,), sites)

    def _gone(self, waiter: Waiter) -> Iterator[Cause]:
        """Threads that would complete the wait do not execute the operation any more."""
        object_, threads = waiter.object, gone(waiter, self.waits.stops)
        blocked = any(share.status is CompletionStatus.BLOCKED for share in waiter.shares)
        if not threads or (blocked and object_.kind == MBARRIER and not self._needs_all(object_.ring)):
            return
        sites, past = list[int](), list[int]()
        for operation in waiter.operations:
            late = [
                s for s in operation.shares if s.status in (CompletionStatus.PASSED, CompletionStatus.ABSENT)
            ]
            sites += [operation.site] if late else []
            past += [self.waits.stops[s.at].site for s in late if s.at >= 0]
        verbs = ("gives up", "give up") if object_.kind == REGISTERS else ("arrives at", "arrive at")
        who = agreeing(self.model.describe_threads(threads), *(f"no longer {verb}" for verb in verbs))
        absent = any(
            share.status is CompletionStatus.ABSENT and share.threads & threads for share in waiter.shares
        )
        what = f"{who} {object_.name}{': exited, or not listed' if absent else ''}"
        decide = self._deciding(sites)
        yield Cause("gone", what, (object_.name,), tuple(dict.fromkeys((*sites, *past, *decide))))

    def _needs_all(self, ring: Ring | None) -> bool:
        """Whether each arrival that a phase of an mbarrier may receive is needed."""
        return ring is not None and self.waits.skipped.needs_all(ring)

    def _skipped_arrivals(self) -> Iterator[Cause]:
        """A branch on data skips an arrival that each phase needs."""
        for waiter, phases in zip(self._members, self._phases, strict=True):
            name, ring = waiter.object.name, waiter.object.ring
            skipped = [operation for operation in waiter.operations if operation.skipping]
            complete = phases and all(p.bytes is None or p.arrived >= p.count for p in phases)
            if ring is None or not skipped or complete:
                continue
            branches = tuple(sorted({i for operation in skipped for i in operation.skipping}))
            threads = reduce(or_, (share.threads for operation in skipped for share in operation.shares))
            decided = " or ".join(dict.fromkeys(self.waits.skipped.origins(branches)))
            what = (
                f"{self.model.describe_threads(threads)} may skip the arrival at {name}, by a branch that depends on"
                f" {decided}, and a phase needs {times(ring.count)}"
            )
            yield Cause("skipped", what, (name,), (*branches, *(operation.site for operation in skipped)))

    def _deciding(self, sites: Sequence[int]) -> Iterator[int]:
        """The branches that decide whether a thread reaches one of *sites*, each after what it compares."""
        cfg = self.model.cfg
        for site in sites:
            for edge in cfg.control_dependences(cfg.block_of[site]):
                block = cfg.blocks[edge.source]
                branch = block.end - 1
                guard = self.model.instruction(branch).guard
                for i in range(block.start, branch):
                    if guard >= 0 and guard in self.model.instruction(i).writes:
                        yield i
                yield branch

    def _first_phases(self) -> Iterator[Cause]:
        """How many waits of a cycle are passed at first: exactly one of two keeps the threads in step.

        A wait for parity 1 is passed before any phase completes, and so is one whose operations precede the wait that
        they follow in later iterations.
        """
        if self._chain.end is not End.CYCLE:
            return
        sites = [self._site(waiter) for waiter in self._members]
        firsts = [
            0 if w.object.number is not None else self._firsts.get(self._site(w)) for w in self._members
        ]
        names = tuple(dict.fromkeys(waiter.object.name for waiter in self._members))
        closed = not any(self._early(waiter, sites) for waiter in self._members)
        always = closed and firsts.count(0) == len(firsts)
        once = self._once()
        if always or once or self._untouched():
            if once and not always:
                which, cure = "is executed once", "one arrival"
            elif any(waiter.object.ring is not None for waiter in self._members):
                which, cure = "is for phase 0 at first", "one wait must begin with parity 1, or one arrival"
            else:
                which, cure = "is for a barrier", "one arrival"
            what = (
                f"each wait of the cycle {which}, and each arrival follows one of them"
                f"{'' if always or once else ' in a replay'}: {cure} must precede the waits"
            )
            operations = [operation.site for waiter in self._members for operation in waiter.operations]
            yield Cause("first-phase", what, names, tuple(dict.fromkeys((*sites, *operations))))
            return
        if None in firsts or any(waiter.object.ring is None for waiter in self._members):
            return
        before = [self._leading(w, s) for w, s in zip(self._members, (*sites[1:], sites[0]), strict=True)]
        passes = sum(map(bool, firsts)) + sum(map(bool, before))
        if len(sites) == 2 and passes > 1 and not self._others(sites):
            what = (
                "both waits of the cycle are passed at first, so threads may be two phases apart and miss one"
            )
            passed = [site for site, first in zip(sites, firsts, strict=True) if first]
            operations = [site for found in before for site in found]
            yield Cause("first-phase", what, names, tuple(dict.fromkeys((*passed, *operations))))

    def _once(self) -> bool:
        """Whether no loop repeats a wait of the cycle or an arrival that follows one, and no phase completes before."""
        sites = [self._site(waiter) for waiter in self._members]
        if any(w.object.kind != CLUSTER and self._early(w, sites) for w in self._members):
            return False
        for waiter in self._members:
            sites += [
                operation.site
                for operation in waiter.operations
                if any(share.status is CompletionStatus.BLOCKED for share in operation.shares)
            ]
        loops, block_of = self.waits.sites.loops, self.model.cfg.block_of
        return not any(block_of[site] in body for site in sites for body in loops.values())

    def _untouched(self) -> bool:
        """Whether the cycle is reached before any other thread has arrived at its objects."""
        return all(
            (waiter.object.kind == MBARRIER or waiter.object.number is not None)
            and phases
            and all(phase.is_first_for(waiter) for phase in phases)
            for waiter, phases in zip(self._members, self._phases, strict=True)
        )

    def _others(self, waits: Sequence[int]) -> bool:
        """Whether the loops of *waits* have other waits, which may keep the threads in step."""
        cfg, loops = self.model.cfg, self.waits.sites.loops
        for wait in waits:
            around = [body for body in loops.values() if cfg.block_of[wait] in body]
            body: Collection[int] = min(around, key=len, default=())
            others = self.model.where(lambda e: e.awaits_threads)
            if any(cfg.block_of[i] in body for i in others if i not in waits):
                return True
        return False

    def _early(self, waiter: Waiter, waits: Sequence[int]) -> list[int]:
        """The operations that complete the first phase before any of *waits* is passed; empty if some follow these."""
        others = [op for op in waiter.operations if op.site not in waits]
        copies = [op.site for op in others if op.deed == "copy"]
        arrivals = [op.site for op in others if op.deed != "copy"]
        found: list[int] = []
        for group in filter(None, (copies, arrivals)):
            reached = [site for site in group if self.model.reaches(-1, site, waits)]
            if not reached:
                return []
            found += reached
        return found

    def _leading(self, waiter: Waiter, wait: int) -> list[int]:
        """The operations of *waiter* if they precede *wait*, that of the threads that execute them, on every path."""
        model, found = self.model, list[int]()
        for copies in (True, False):
            group = [op.site for op in waiter.operations if (op.deed == "copy") is copies]
            before = [
                site
                for site in group
                if model.instruction(site).guard < 0 and dominated_by(model, site, wait)
            ]
            if group and not before:
                return []
            found += before
        return found
