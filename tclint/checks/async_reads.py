"""The check of asynchronous reads that are not ordered after writes of other threads (PTX ISA 8.6, 8.9.4, 9.7.13.4).

Several threads write shared memory, and one of them issues an operation that reads it through the async proxy. A
conflict is a path from the write to the operation on which the issuing thread synchronises with none of the others. The
writes of another warp, or of another lane of the issuing warp, must provably be among the bytes that are read. If the
size of the read is not in the text (a tensor map, the shape of a matrix), only its start is compared; such a finding is
not *proven* and has a lower confidence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property, reduce
from operator import and_
from typing import Any

from tclint._named_tuple import NamedTuple
from tclint.analyses.ages import Numbering
from tclint.analyses.cp_async import WaitedCopies
from tclint.analyses.happens_before import HappensBefore
from tclint.analyses.model import KernelModel
from tclint.analyses.overlaps import Conflict, OverlapSearch, Route
from tclint.analyses.plausibility import NO_DOUBT, Doubt, skips, synchronises_lanes
from tclint.analyses.proxies import fences, through_async
from tclint.analyses.since_barrier import THREADS_MAY_HAVE_DIVERGED, Since, WritesSince
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.checks._repairs import barrier_between
from tclint.checks._wording import called
from tclint.dataflow import Path, Results
from tclint.findings.scales import Confidence, Severity
from tclint.ir.nodes import Instruction
from tclint.isa.accesses import Proxy
from tclint.isa.effects import WGMMA, Fence
from tclint.values import thread_masks as T
from tclint.values.shared_memory import SharedAccess

PR005 = RuleId("PR005")


@check(PR005, analyses=(HappensBefore, WaitedCopies, WritesSince))
def read_before_others_wrote(model: KernelModel) -> Iterator[Hit]:
    """Report asynchronous reads by a thread that is not ordered after the writes of other threads to the same bytes."""
    if model.values.threads == 1 or not model.function.entry or not through_async(model, writes=False):
        return
    block_of = model.cfg.block_of
    found = (
        (block_of[meeting.use.site], (meeting, writes.early[meeting.operation.site, meeting.use.site]))
        for writes in (_Stores(model), _Copies(model))
        for meeting in writes.meetings()
    )
    for equivalent in grouped(found).values():
        first = next((each for each in equivalent if each[1].proven), equivalent[0])
        hit = _hit(model, *first, len({meeting.use.site for meeting, _ in equivalent}))
        yield replace(hit, pairs=tuple(meeting.sites for meeting, _ in equivalent))


def _is_async_read(access: SharedAccess) -> bool:
    """True if *access* is a read through the async proxy."""
    return not access.writes and access.proxy is Proxy.ASYNC


class _Early(NamedTuple):
    """How an asynchronous read may precede the writes of other threads."""

    proven: bool
    """The read provably covers bytes that the other threads write."""
    lanes: bool = False
    """The other threads are lanes of the issuing warp."""
    in_step: bool = False
    """The other threads are warps of the issuing warpgroup, which in practice wait for each other at a ``wgmma``,
    although nothing guarantees it."""


class _Writes:
    """The writes after which the writing threads have not synchronised."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self.since, self.loose = model.solution(WritesSince)
        self.early: dict[tuple[int, int], _Early] = {}
        """By write and read."""

    results: Results[Any]

    numbering: Numbering

    def pending(self, state: Any) -> int:
        """The writes in *state*, as a bit set."""
        raise NotImplementedError

    def meetings(self) -> OverlapSearch:
        """The search for conflicts of these writes with asynchronous reads."""
        raise NotImplementedError

    def doubt(self, start: int, path: Path) -> Doubt:
        return skips(self.model, path, self.since.ends, "on other paths between the two, the thread waits")

    def overlap(self, write: SharedAccess, read: SharedAccess, route: Route) -> bool:
        """True if threads other than the one that takes the path write bytes that are read. Fills :attr:`early`."""
        if not self.since.executed.certainly(write.site):
            return False
        found = self._by_warps(write, read, route) or self._by_lanes(write, read, route)
        if found is not None:
            self.early[write.site, read.site] = found
        return found is not None

    def _by_warps(self, write: SharedAccess, read: SharedAccess, route: Route) -> _Early | None:
        """A conflict with the writes of another warp; None if there is none.

        Either the read provably covers bytes of the other warp, and the warps have not diverged. Or the size of the
        read is unknown, the other warp executes the same write, and only the warp of this thread issues an operation.
        """
        since, memory = self.since, self.since.memory
        here, taking = self._threads(write, read, route)
        warpgroups = self.model.instruction(read.site).group == WGMMA
        size = 128 if warpgroups else 32
        own = here & T.whole(taking & -taking, 32)
        comparable = (
            since.executed.certainly(read.site)
            and not since.loose(self.loose.before(write.site))
            and self._more(write, own, here & ~own)
        )
        # Each warpgroup reads for itself, and waits for none of the others.
        groups = [*T.by_warpgroup(taking)] if warpgroups else [T.whole(taking, size)]
        if comparable and any(memory.across(write, read, here & ~g, taking & g) for g in groups):
            return _Early(proven=True)
        others = memory.certain_threads(here) & here & ~T.whole(self._issuing(write), size)
        if others and self._alike(write, read, here, taking, others & self._fencing(write, route)):
            return _Early(proven=False)
        if warpgroups and comparable and memory.across(write, read, here, taking):
            return _Early(proven=True, in_step=True)
        return None

    def _by_lanes(self, write: SharedAccess, read: SharedAccess, route: Route) -> _Early | None:
        """A conflict with another lane of the issuing warp, if the lanes do not synchronise on the path; or None."""
        here, taking = self._threads(write, read, route)
        others = here & T.whole(taking, 32) & ~self._issuing(write)
        if not others or self._passed(self._meets, write, route):
            return None
        others &= self._fencing(write, route)
        proven = self._more(write, here & taking, others) and self.since.memory.overlap(
            write, read, others, taking
        )
        if not proven and not self._alike(write, read, here, taking, others):
            return None
        return _Early(proven, lanes=True)

    def _threads(self, write: SharedAccess, read: SharedAccess, route: Route) -> tuple[T.Threads, T.Threads]:
        """The threads that write, and those that take the path to the read."""
        views = self.model.views
        return views.context_of(write.site).threads, views.context_of(read.site).threads & route.path.threads

    def _alike(
        self, write: SharedAccess, read: SharedAccess, here: int, taking: int, others: T.Threads
    ) -> bool:
        """True if *others* of the threads *here* write bytes of their own that the operation may read as well.

        A tensor map or the shape of a matrix determines the size of the read, so only its start is compared.
        """
        return (
            not self._bounded(read)
            and self._more(write, here & ~others, others)
            and self.since.memory.overlap(write, read, here, taking)
        )

    def _bounded(self, read: SharedAccess) -> bool:
        """True if the size of the read has known bounds, so that only a proven overlap counts."""
        size = self.model.value(read.site, "bytes")
        return size is not None and self.model.values.interval(size) is not None

    def _more(self, write: SharedAccess, own: int, others: T.Threads) -> bool:
        """True if *others* write bytes that *own* do not: threads that all store to the same bytes need no order."""
        mine, theirs = (self.since.memory.footprint(write, threads) for threads in (own, others))
        return mine is not None and theirs is not None and theirs.union(mine) != mine

    @cached_property
    def _meets(self) -> list[int]:
        return sorted(self.model.fact(HappensBefore).points.collectives)

    @cached_property
    def _fences(self) -> list[int]:
        return [i for i in self.model.sites(Fence.PROXY) if fences(self.model.instruction(i))]

    def _passed(self, sites: list[int], write: SharedAccess, route: Route) -> list[int]:
        """Those of *sites* that are on the path between the two."""
        passed = route.path.passed(self.model.cfg, write.site)
        return [i for i in sites if i in passed]

    def _fencing(self, write: SharedAccess, route: Route) -> T.Threads:
        """The threads that execute every proxy fence on the path; all if there is none."""
        passed = self._passed(self._fences, write, route)
        return reduce(and_, (self.model.views.context_of(i).threads for i in passed), -1)

    def _issuing(self, write: SharedAccess) -> T.Threads:
        """The threads that issue an operation after a write in the block of *write*."""
        return self._issuers.get(self.model.cfg.block_of[write.site], 0)

    @cached_property
    def _issuers(self) -> dict[int, T.Threads]:
        """The issuing threads, by the block of a preceding write."""
        model, found = self.model, dict[int, int]()
        for read in sorted(through_async(model, writes=False)):
            for site in self.numbering.members(self.pending(self.results.before(read))):
                block = model.cfg.block_of[site]
                found[block] = found.get(block, 0) | model.views.context_of(read).threads
        return found


class _Stores(_Writes):
    """Ordinary stores."""

    def __init__(self, model: KernelModel) -> None:
        super().__init__(model)
        self.results = self.loose
        self.numbering = Numbering(self.since.operations)

    def pending(self, state: Any) -> int:
        return self.numbering.bits(
            site for site, since in state if site != THREADS_MAY_HAVE_DIVERGED and isinstance(since, bool)
        )

    def stays_pending(self, state: Any, site: int) -> bool:
        """Whether the thread has not waited since the store at *site*."""
        return bool(self.pending(state) & self.numbering.bit(site))

    def begun(self, site: int) -> Since:
        """What has followed a store at first."""
        return False

    def follow(self, site: int, since: Since, at: int, instruction: Instruction) -> Since | None:
        """What has followed the store at *site*, after one more instruction; None after a wait."""
        return self.since.follow_to_wait(site, since, at, instruction)

    def meetings(self) -> OverlapSearch:
        memory, context_of = self.since.memory, self.model.views.context_of
        return OverlapSearch(
            self.model,
            self.results,
            self,
            self.since.operations,
            lambda access: _is_async_read(access) and memory.placed(access, context_of(access.site).threads),
            self.overlap,
            begins=lambda access: access.writes and not access.later,
            memory=memory,
            doubt=self.doubt,
            whole_loops=True,
        )


class _Copies(_Writes):
    """Copies by ``cp.async`` that the copying threads have waited for."""

    def __init__(self, model: KernelModel) -> None:
        super().__init__(model)
        self.groups, self.results = model.solution(WaitedCopies)
        self.numbering = self.groups.numbering

    def pending(self, state: Any) -> int:
        return self.groups.pending(state)

    def meetings(self) -> OverlapSearch:
        is_use = _is_async_read
        return self.groups.conflicts(is_use, self.overlap, self.since.memory, self.doubt, whole_loops=True)


def _hit(model: KernelModel, meeting: Conflict, early: _Early, count: int) -> Hit:
    write, read, path = meeting.operation.site, meeting.use.site, meeting.path
    operation, writer = called(model, read), called(model, write)
    who, barrier = ("lanes of its warp", _WARP) if early.lanes else ("warps", _CTA)
    fence = [i for i in path.sites(model.cfg, write) if fences(model.instruction(i))]
    begin = fence[-1] if fence else write
    lanes = NO_DOUBT if early.proven else synchronises_lanes(model, path, write)
    hit = PR005.hit(
        site=read,
        message=f"{operation} reads shared memory that other {who} may not have written yet: the issuing thread "
        "does not wait for them",
        steps=(
            Mark(
                write,
                f"{writer} writes it",
                role=model.describe_threads(model.views.context_of(write).threads),
            ),
            *(Mark(i, "this fence covers only the writes of the executing thread") for i in fence[-1:]),
            Mark(read, f"{operation} reads it", role=model.describe_threads(path.threads)),
        ),
        count=count,
        help=f"after the writes and the proxy fence of these threads, add {barrier} before the operation",
        fixes=() if early.lanes else barrier_between(model, begin, read),
        severity=Severity.WARNING if early.lanes else None,
        confidence=None if early.proven and model.function.threads else Confidence.MEDIUM,
    )
    return hit.unshown(Severity.WARNING if early.in_step else None).doubted((meeting.doubt or lanes).why)


_CTA = "a barrier of all these threads and the issuing one (bar.sync, __syncthreads())"
_WARP = "bar.warp.sync (__syncwarp())"
