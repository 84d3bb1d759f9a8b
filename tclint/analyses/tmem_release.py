"""Which operations of other threads a signal lets start while a load or store of tensor memory is pending (PTX ISA
9.7.16.6.4).

A pending ``tcgen05.ld`` and an operation of another thread that overwrites its columns are a pair, and so are a
``tcgen05.st`` and an operation that accesses what it stores. The pair is in order if the thread waits for its load or
store before a signal that the other thread waits for. It is not if the only signal that orders the two comes before
that wait, whatever its mbarrier is for: the stage that it releases may be refilled, and the next multiplication may
wait for that. The same holds for ``tcgen05.fence::before_thread_sync`` in place of the wait (9.7.16.6.3).

:class:`TmemRelease` follows a signal through other threads alone. What reaches the other thread through threads that
execute the load or store themselves is ordered after their own wait.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property

from tclint.analyses.happens_before import HappensBefore, OrderScope
from tclint.analyses.model import KernelModel
from tclint.analyses.role_paths import follow
from tclint.analyses.tcgen05_sync import ThreadSync
from tclint.analyses.tensor_memory import TensorMemory
from tclint.analyses.tmem_transfers import TmemTransfers, Transfers, TransfersByLetter
from tclint.dataflow import Infeasible
from tclint.isa.effects import TCGEN05, Barrier, Resource
from tclint.values import thread_masks as T

__all__ = ["ReleaseByLetter", "TmemRelease"]

_OPERAND_COLUMNS = 16
"""No operand of a multiplication but D has more columns: A has 8, scale factors and metadata have fewer."""
_LANE_GROUPS = 4
"""A warp loads and stores the lanes of tensor memory that the rank of the warp in its warpgroup selects (9.7.16.8)."""


_Place = tuple[int, int, bool]
"""See :meth:`KernelModel.guarded_block`."""


class TmemRelease:
    """The operations that may start too early, by pending load or store and signal."""

    transfers: type[Transfers] = TmemTransfers
    """What is pending."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self.order = model.fact(HappensBefore)
        self.tmem = model.fact(TensorMemory)
        self._users = [
            *sorted(self.tmem.operations | self.tmem.loads | self.tmem.stores),
            *model.sites(Resource.TMEM_DEALLOC),
        ]
        self._conflicting: dict[int, dict[int, int]] = {}
        self._reached: dict[tuple[_Place, frozenset[int]], tuple[frozenset[int], list[int]]] = {}
        """Place and waits -> the signals there for one of these waits, and those that are reached before them."""
        self._admitted: dict[tuple[frozenset[int], frozenset[int]], frozenset[int]] = {}
        """Waits, and later waits -> the operations that are reached from the first and pass none of the second."""
        self._preceding: dict[tuple[int, frozenset[int]], bool] = {}
        """Answers of :meth:`_may_precede`."""
        self._own: dict[_Place, dict[int, frozenset[int]]] = {}
        self._elsewhere: dict[_Place, dict[int, int]] = {}
        self._first_waits: dict[int, frozenset[int]] = {}

    def started_early(self, site: int, signal: int) -> int | None:
        """An operation of another thread on the columns of the load or store *site* that only *signal* orders after it.

        The thread signals while *site* is pending. None if every such operation may be ordered after a later signal.
        """
        return self._started(site, signal, self._pending)

    def arrivals_for_others(self, site: int, barrier: int) -> list[int]:
        """The arrivals after *barrier* by some of the warps that execute the load or store *site*, for all of them.

        *site* is pending at the barrier and complete at the arrival: the arriving threads have waited for their own
        load or store, but nothing orders them after the waits of the other warps, which may follow.
        """
        order, views = self.order, self.model.views
        if not order.points.releases_together(barrier):
            return []
        threads, waits = views.context_of(site).threads, order.points.acquire_points(OrderScope.WARPS)
        arrivals = self.model.reached_from((barrier,), self.model.arrives(Barrier.MBARRIER), {*waits, site})
        return [
            i
            for i in sorted(arrivals)
            if site not in self._pending.get(i, ())
            and (arriving := views.context_of(i).threads) & threads
            and threads & ~T.whole(arriving, 32)
        ]

    def started_unfenced(self, site: int, signal: int, but: Collection[int] = ()) -> int | None:
        """:meth:`started_early`, where *site* is outstanding until ``tcgen05.fence::before_thread_sync``; none of *but*."""
        return self._started(site, signal, self._unfenced, but)

    def released(self) -> Iterator[tuple[int, frozenset[int]]]:
        """The operations of other threads on the columns of a load or store, each with the waits of its threads for what the
        thread of the load or store signals afterwards. Each pair is yielded once."""
        found = set[tuple[int, frozenset[int]]]()
        for site in sorted(self.tmem.loads | self.tmem.stores):
            users, own = self._conflicting_users(site), self._own_signals(site)
            after = self.model.reached_from((site,), own, (site,)) if users else ()
            waits = frozenset[int]().union(*(own[i] for i in after))
            for user, threads in users.items():
                theirs = frozenset(i for i in waits if self.order.may.threads_elsewhere(i, site) & threads)
                if theirs and (user, theirs) not in found:
                    found.add((user, theirs))
                    yield user, theirs

    def _started(
        self, site: int, signal: int, outstanding: dict[int, frozenset[int]], but: Collection[int] = ()
    ) -> int | None:
        may = self.order.may
        early = self._waits({signal}, site, True)
        users = self._conflicting_users(site) if early else {}
        if not users:
            return None
        own, direct = self._own_signals(site), self._waits({signal}, site, False)
        done = self._done(site, signal, outstanding)
        complete = frozenset[int]().union(*(own[i] for i in done)) - direct
        in_turn = complete if direct.isdisjoint(early) else complete - self._ahead(complete, direct, site)
        complete |= self._waits(done, site, True) - early
        by_threads: dict[tuple[int, frozenset[int]], list[int]] = {}
        for wait in sorted(early):
            key = may.threads_elsewhere(wait, site), in_turn if wait in direct else complete
            by_threads.setdefault(key, []).append(wait)
        admitted = [
            (threads, later, self._admits(frozenset(waits), later))
            for (threads, later), waits in by_threads.items()
        ]
        for user, theirs in users.items():
            if user not in but and any(
                threads & theirs and user in reached and self._unordered(site, user, later)
                for threads, later, reached in admitted
            ):
                return user
        return None

    def _done(self, site: int, signal: int, outstanding: dict[int, frozenset[int]]) -> list[int]:
        """The signals after *signal* of threads that execute *site*, which is not outstanding there."""
        own = self._own_signals(site)
        after = self.model.reached_from((signal,), own, (site,))
        return [i for i in own if i in after and site not in outstanding[i]]

    def _admits(self, waits: frozenset[int], later: frozenset[int]) -> frozenset[int]:
        """The operations on tensor memory that a path reaches from one of *waits* and that passes none of *later*."""
        if (waits, later) not in self._admitted:
            self._admitted[waits, later] = self.model.reached_from(waits, self._users, later)
        return self._admitted[waits, later]

    def _unordered(self, site: int, user: int, waits: frozenset[int]) -> bool:
        """Whether a path to *user* passes none of *waits*: from the entry, or from an execution that precedes *site*.

        If a thread reaches *site* only after the first execution of *user*, that execution is not the one that *site*
        must precede. The path then begins at *user*.
        """
        block = self.model.cfg.block_of[user]
        # Without a wait in its block, the first user stands for all of them.
        first = user if block in self._waiting_blocks else self._first_users[block]
        path = self.order.unsynchronised_path
        return path(first, waits) is not None and (
            path(first, waits, start=first) is not None or not self._runs_first(first, site)
        )

    def _runs_first(self, user: int, site: int) -> bool:
        """Whether *site* is executed only after the first execution of *user*, an MMA, copy or shift, is complete."""
        if user not in self._first_waits:
            self._first_waits[user] = (
                self._waits_for_first(user) if user in self.tmem.operations else frozenset()
            )
        waits = self._first_waits[user]
        return bool(waits) and self.order.unsynchronised_path(site, waits) is None

    def _waits_for_first(self, user: int) -> frozenset[int]:
        """The waits for mbarriers of which no phase completes before the first execution of *user* is complete.

        An earlier commit of operations on other columns is taken to be for another stage of the results.
        """
        order, reached_from = self.order, self.model.reached_from
        commits = order.completion_signals((user,), TCGEN05)
        waits = {i for commit in commits for i in order.waits_completed_by(commit)}
        signals = [i for i in order.points.signals if not waits.isdisjoint(order.waits_completed_by(i))]
        others = self.tmem.operations - {user}
        alike = [i for i in others if not self.tmem.disjoint(i, "d", user, "d")]
        earlier = reached_from((-1,), alike, (user,))
        committed = [i for i in signals if self.model.instruction(i).group == TCGEN05]
        before = reached_from(earlier, committed, (user,)) | (
            reached_from((-1,), signals, (user,)).difference(committed)
        )
        waits.difference_update(*(order.waits_completed_by(i) for i in before))
        return frozenset(i for i in waits if not order.returns_at_once(user, i))

    @cached_property
    def _waiting_blocks(self) -> frozenset[int]:
        return frozenset(self.model.cfg.block_of[i] for i in self.order.points.waits)

    @cached_property
    def _first_users(self) -> dict[int, int]:
        """Block -> its first operation on tensor memory."""
        return {self.model.cfg.block_of[user]: user for user in sorted(self._users, reverse=True)}

    def _waits(self, signals: Collection[int], site: int, through: bool) -> frozenset[int]:
        return self.order.may.signalled_elsewhere(frozenset(signals), site, through=through)

    def _users_elsewhere(self, site: int) -> dict[int, T.Threads]:
        """The operations on tensor memory of threads that do not execute *site*, each with these threads."""
        place = self.model.guarded_block(site)
        if place not in self._elsewhere:
            threads = {user: self.order.may.threads_elsewhere(user, site) for user in self._users}
            self._elsewhere[place] = {user: those for user, those in threads.items() if those}
        return self._elsewhere[place]

    def _own_signals(self, site: int) -> dict[int, frozenset[int]]:
        """The signals of threads that execute *site*, each with the waits of other threads that it may complete."""
        key = self.model.guarded_block(site)
        if key not in self._own:
            exclusive = self.model.views.mutually_exclusive
            self._own[key] = {
                i: self._waits({i}, site, False) for i in self._signals if not exclusive(site, i)
            }
        return self._own[key]

    def _ahead(self, waits: frozenset[int], direct: frozenset[int], site: int) -> frozenset[int]:
        """Those of *waits* that a thread that executes *site* may signal before its first signal for one of the waits
        *direct*.

        Threads take turns: the phases of two mbarriers that one role signals in turn are waited for in turn. A wait
        that is signalled first is for what the thread did before the other signal, and orders nothing after that.
        """
        place, own, ahead = self.model.guarded_block(site), self._own_signals(site), frozenset[int]()
        if (place, direct) not in self._reached:
            alike = frozenset(i for i, waits in own.items() if not direct.isdisjoint(waits))
            reached = self.model.reached_from((-1,), own.keys() - alike, alike)
            self._reached[place, direct] = alike, sorted(reached)
        alike, first = self._reached[place, direct]
        for i in first:
            if own[i] & waits <= ahead:
                continue
            if self._may_precede(i, alike):
                ahead |= own[i]
        return ahead

    def _may_precede(self, signal: int, others: frozenset[int]) -> bool:
        """Whether a thread may give *signal* first and one of *others* later.

        A path on which it gives *signal* alone may be that of other lanes, or of a launch in which it gives none of them.
        """
        key, model = (signal, others), self.model
        if key not in self._preceding:
            view = model.views.context_of(signal)
            self._preceding[key] = bool(model.reaching((signal,), others)) and not isinstance(
                follow(model, -1, view, (signal,), others), Infeasible
            )
        return self._preceding[key]

    @cached_property
    def _signals(self) -> list[int]:
        rank, block_of = self.model.cfg.rank, self.model.cfg.block_of
        return [i for i in sorted(self.order.points.release_points) if block_of[i] in rank]

    @cached_property
    def _pending(self) -> dict[int, frozenset[int]]:
        """Signal -> the loads and stores that may be pending there."""
        transfers, results = self.model.solution(self.transfers)
        states = ((i, transfers.in_flight(results.before(i))) for i in self._signals)
        return {i: frozenset(transfers.members(pending)) for i, pending in states}

    @cached_property
    def _unfenced(self) -> dict[int, frozenset[int]]:
        """Signal -> the loads and stores that no fence may have ordered before it."""
        sync, results = self.model.solution(ThreadSync)
        accesses = {sync.bits[site]: site for site in self.tmem.loads | self.tmem.stores}
        return {
            i: frozenset(site for bit, site in accesses.items() if state & bit)
            for i in self._signals
            for state in (results.before(i),)
        }

    def _conflicting_users(self, site: int) -> dict[int, int]:
        """Those of :meth:`_users_elsewhere` that may overwrite the columns of *site*, or access what it stores."""
        if site not in self._conflicting:
            self._conflicting[site] = {
                user: threads
                for user, threads in self._users_elsewhere(site).items()
                if self._conflict(site, user)
            }
        return self._conflicting[site]

    def _conflict(self, site: int, user: int) -> bool:
        """Whether *user* may overwrite or free the columns of *site*, or access what it stores."""
        operates = user in self.tmem.operations
        return self._in_multiplication(site, user) if operates else self._in_access(site, user)

    def _in_multiplication(self, site: int, user: int) -> bool:
        """Whether the MMA, copy or shift *user* conflicts with *site*."""
        tmem = self.tmem
        if not tmem.disjoint(site, "taddr", user, "d"):
            return True
        here = tmem.range(site, "taddr")
        return site in tmem.stores and any(
            here is None
            or not self.model.values.addresses.disjoint((here.start, here.columns), (start, _OPERAND_COLUMNS))
            for start in tmem.columns_read(user)
        )

    def _in_access(self, site: int, user: int) -> bool:
        """Whether the load, store or deallocation *user* conflicts with *site*."""
        tmem = self.tmem
        if user in tmem.loads and site in tmem.loads:
            return False
        if user in tmem.loads | tmem.stores and not self._lane_groups(site) & self._lane_groups(user):
            return False
        return not tmem.disjoint(site, "taddr", user, "taddr")

    def _lane_groups(self, site: int) -> int:
        """The ranks in their warpgroups of the warps that execute *site*, one bit each."""
        threads, found, warp = self.model.views.context_of(site).threads, 0, 0
        while threads:
            found |= bool(threads & 0xFFFFFFFF) << warp % _LANE_GROUPS
            threads, warp = threads >> 32, warp + 1
        return found


class ReleaseByLetter(TmemRelease):
    """:class:`TmemRelease`, with loads that are pending until ``tcgen05.wait::ld`` alone.

    A signal is followed to the threads that wait for it, and no further: that a later one reaches them in time through
    others is a matter of phases. If they wait for both themselves, the order of the waits decides.
    """

    transfers = TransfersByLetter

    def started_early(self, site: int, signal: int) -> int | None:
        user = super().started_early(site, signal)
        return self._started_at_barrier(site, signal) if user is None else user

    def _started_at_barrier(self, site: int, barrier: int) -> int | None:
        """An operation or deallocation that follows right after *barrier*, with *site* pending in other warps of its own role."""
        points, views = self.order.points, self.model.views
        if not points.releases_together(barrier):
            return None
        stops = points.acquire_points(OrderScope.WARPS) - {barrier}
        accessing = views.context_of(site).threads
        for user in (*sorted(self.tmem.operations), *self.model.sites(Resource.TMEM_DEALLOC)):
            issuing = T.whole(views.context_of(user).threads, 32)
            others = accessing & ~issuing if accessing & issuing else 0
            if not others or not self._conflict(site, user):
                continue
            if self.order.unsynchronised_path(user, stops, start=barrier) is not None:
                return user
        return None

    def _started(
        self, site: int, signal: int, outstanding: dict[int, frozenset[int]], but: Collection[int] = ()
    ) -> int | None:
        own, direct = self._own_signals(site), self._waits({signal}, site, False)
        users = self._conflicting_users(site) if direct else {}
        if not users:
            return None
        done = self._done(site, signal, outstanding)
        later = frozenset[int]().union(*(own[i] for i in done)) - direct
        for wait in sorted(direct):
            threads = self.order.may.threads_elsewhere(wait, site)
            reached = self._admits(frozenset((wait,)), later)
            for user, theirs in users.items():
                if user in but or not threads & theirs or user not in reached:
                    continue
                if self._unordered_in_turn(wait, user, later):
                    return user
        return None

    def _unordered_in_turn(self, wait: int, user: int, later: frozenset[int]) -> bool:
        """Whether *user* follows *wait* and none of the waits *later* that the same iteration, or the one before, makes
        for the signals of the same turn.

        The phase that *wait* is for has its *later* one in the same iteration. If that follows *user*, it orders the *user*
        of the next iteration, unless it returns at once in the first: then it is for the turn before.
        """
        cfg, path = self.model.cfg, self.order.unsynchronised_path
        if path(user, later, start=wait) is None:
            return False
        loops = (cfg.loops[header] for header in cfg.nest.around(cfg.block_of[user]))
        inside = min((loop for loop in loops if cfg.block_of[wait] in loop), key=len, default=None)
        if inside is None:
            return path(user, later) is not None
        around = frozenset(i for i in later if cfg.block_of[i] in inside)
        in_time = frozenset(i for i in around if not self.order.returns_at_once(user, i))
        return path(wait, around) is not None and (not in_time or path(user, in_time, start=user) is not None)
