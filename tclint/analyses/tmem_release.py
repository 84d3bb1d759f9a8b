"""Which operations of other threads a signal lets start while a load or store of tensor memory is pending (PTX ISA
9.7.16.6.4).

A pending ``tcgen05.ld`` and an operation of another thread that overwrites its columns are a pair, and so are a
``tcgen05.st`` and an operation that accesses what it stores. The pair is in order if the thread waits for its load or
store before a signal that the other thread waits for. It is not if the only signal that orders the two comes before
that wait, whatever its mbarrier is for: the stage that it releases may be refilled, and the next multiplication may
wait for that.

:class:`TmemRelease` follows a signal through other threads alone. What reaches the other thread through threads that
execute the load or store themselves is ordered after their own wait.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property

from tclint.analyses.happens_before import HappensBefore
from tclint.analyses.model import KernelModel
from tclint.analyses.tcgen05 import TensorMemory

__all__ = ["TmemRelease"]

_OPERAND_COLUMNS = 16
"""No operand of a multiplication but D has more columns: A has 8, scale factors and metadata have fewer."""
_LANE_GROUPS = 4
"""A warp loads and stores the lanes of tensor memory that the rank of the warp in its warpgroup selects (9.7.16.8)."""


class TmemRelease:
    """The operations that may start too early, by pending load or store and signal."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self.order = model.fact(HappensBefore)
        self.tmem, self._results = model.solution(TensorMemory)
        self._users = [
            *sorted(self.tmem.operations | self.tmem.loads | self.tmem.stores),
            *model.sites("tmem-dealloc"),
        ]
        self._conflicting: dict[tuple[int, int], bool] = {}

    def started_early(self, site: int, signal: int) -> int | None:
        """An operation of another thread on the columns of the load or store *site* that only *signal* orders after it.

        The thread signals while *site* is pending. None if every such operation may be ordered after a later signal.
        """
        order, model = self.order, self.model
        direct, early = (self._waits({signal}, site, through) for through in (False, True))
        users = [u for u in self._users if early and self._conflict(site, u)]
        if not users:
            return None
        done = self._signals_when_complete(site, signal)
        complete = self._waits(done, site, False) - direct
        in_turn = frozenset(w for w in complete if not self._precedes(w, signal, site))
        complete |= self._waits(done, site, True) - early
        for user in users:
            threads = order.may.threads_elsewhere(user, site)
            for wait in early:
                later = in_turn if wait in direct else complete
                if (
                    order.may.threads_elsewhere(wait, site) & threads
                    and model.reaches(wait, user, later)
                    and order.unsynchronised_path(user, later) is not None
                ):
                    return user
        return None

    def _waits(self, signals: Collection[int], site: int, through: bool) -> frozenset[int]:
        return self.order.may.signalled_elsewhere(frozenset(signals), site, through=through)

    def _signals_when_complete(self, site: int, signal: int) -> frozenset[int]:
        """The signals of the same thread after *signal*, before *site* is executed again, at which it is complete."""
        return frozenset(
            i
            for i in self._own_signals(site)
            if site not in self._pending[i] and self.model.reaches(signal, i, (site,))
        )

    def _own_signals(self, site: int) -> list[int]:
        return [i for i in self._pending if not self.model.views.mutually_exclusive(site, i)]

    def _precedes(self, wait: int, signal: int, site: int) -> bool:
        """Whether the thread of *site* may signal the other wait *wait* before the first of all signals like *signal*.

        Threads take turns: the phases of two mbarriers that one role signals in turn are waited for in turn. If *wait*
        is signalled first, it is for what the thread did before *signal*, and orders nothing after it.
        """
        direct = self._waits({signal}, site, False)
        own = self._own_signals(site)
        alike = [i for i in own if not direct.isdisjoint(self._waits({i}, site, False))]
        return any(
            wait in self._waits({i}, site, False) and self.model.reaches(-1, i, alike)
            for i in own
            if i not in alike
        )

    @cached_property
    def _pending(self) -> dict[int, frozenset[int]]:
        """Signal -> the loads and stores that may be pending there."""
        accesses = self.tmem.loads | self.tmem.stores
        rank, block_of = self.model.cfg.rank, self.model.cfg.block_of
        return {
            i: accesses.intersection(s for s, _ in self._results.before(i))
            for i in sorted(self.order.points.release_points)
            if block_of[i] in rank
        }

    def _conflict(self, site: int, user: int) -> bool:
        """Whether *user*, in another thread than *site*, may overwrite its columns, or access what it stores."""
        if (site, user) not in self._conflicting:
            self._conflicting[site, user] = bool(self.order.may.threads_elsewhere(user, site)) and (
                self._in_multiplication(site, user)
                if user in self.tmem.operations
                else self._in_access(site, user)
            )
        return self._conflicting[site, user]

    def _in_multiplication(self, site: int, user: int) -> bool:
        """Whether the MMA, copy or shift *user* conflicts with *site*."""
        tmem = self.tmem
        if not tmem.apart(site, "taddr", user, "d"):
            return True
        here = tmem.range(site, "taddr")
        return site in tmem.stores and any(
            here is None
            or self.model.values.disjoint(here.start, here.columns, start, _OPERAND_COLUMNS) is not True
            for start in tmem.columns_read(user)
        )

    def _in_access(self, site: int, user: int) -> bool:
        """Whether the load, store or deallocation *user* conflicts with *site*."""
        tmem = self.tmem
        if user in tmem.loads and site in tmem.loads:
            return False
        if user in tmem.loads | tmem.stores and not self._lane_groups(site) & self._lane_groups(user):
            return False
        return not tmem.apart(site, "taddr", user, "taddr")

    def _lane_groups(self, site: int) -> int:
        """The ranks in their warpgroups of the warps that execute *site*, one bit each."""
        threads, found, warp = self.model.views.context_of(site).threads, 0, 0
        while threads:
            found |= bool(threads & 0xFFFFFFFF) << warp % _LANE_GROUPS
            threads, warp = threads >> 32, warp + 1
        return found
