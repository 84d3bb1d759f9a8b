"""Reads of shared memory at an index that no warp has for itself: a table, a result, a sorted list (PTX ISA 8.7.1).

Where such a read goes is not in the text. But what decides where it goes, and whether it is executed, is the same in all
warps if they load the same data: no part of it distinguishes warps, only lanes. A launch may have such data, and then
every warp reads what one warp has stored, provided that each store to the variable is by a single warp, or by each warp
to bytes of its own. Without a barrier between the two, that is a race, wherever in the variable the index points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import combinations
from operator import or_

from tclint.analyses.data_indices import from_outside
from tclint.analyses.execution import ExecutionGuarantee
from tclint.analyses.model import KernelModel
from tclint.analyses.overlaps import OVERLAP, Conflict
from tclint.analyses.plausibility import synchronises_lanes
from tclint.analyses.role_paths import dominated_by, follow_first
from tclint.analyses.same_in_warps import SameInWarps
from tclint.analyses.since_barrier import WritesSince
from tclint.analyses.warp_memory import may_be_one_warp, plain
from tclint.ir.cfg import Edge
from tclint.ir.nodes import Variable
from tclint.values import UniformityScope
from tclint.values import thread_masks as T
from tclint.values.nodes import Broadcast, CollectiveResult
from tclint.values.shared_memory import SharedAccess

__all__ = ["AlikeInWarps", "Lookup", "lookups"]

_TWO_WARPS = 64
MAX_STARTS = 8
"""Starts of an address that are compared: a loop that a compiler unrolls starts where its remainder loop ends."""


class AlikeInWarps(SameInWarps):
    """:class:`SameInWarps`, in a launch in which all warps load the same data, and have work."""

    def __init__(self, model: KernelModel) -> None:
        super().__init__(model)
        self._executed = model.fact(ExecutionGuarantee)
        self._same = model.fact(SameInWarps)

    def operands(self, value: int) -> Sequence[int] | None:
        """What lanes exchange, such as the part that a warp has for itself, is not assumed to be the same in all warps."""
        if isinstance(self.model.values.node(value), Broadcast | CollectiveResult):
            return [] if self._same.holds(value) else None
        return super().operands(value)

    def loaded(self, space: str, address: int) -> list[int] | None:
        """Nor is what a warp loads from an address of its own."""
        values = self.model.values
        if values.uniformity(address) is UniformityScope.WARP:
            return [address]
        if from_outside(values, space, address):
            return []
        return super().loaded(space, address)

    def decides(self, block: int, edge: Edge) -> bool:
        p = self.model.reachability.edge_predicate(edge)
        threads = self.model.reachability.threads_at.get(block, 0)
        return p is not None and not self._executed.accepts(threads, p, edge.value)


class Lookup(Conflict):
    """A conflict of such a read, wherever in its variable the index points."""


def lookups(model: KernelModel) -> Iterator[Lookup]:
    """The reads at such an index that no barrier orders with the stores to their variable, each with one of these.

    Of several reads of one variable, those that another one dominates are left out.
    """
    if may_be_one_warp(model):
        return
    search, cfg = _Search(model), model.cfg
    found: dict[Variable, list[int]] = {}
    for read in search.reads():
        variable, block = search.variable(read.address), cfg.block_of[read.site]
        before = found.setdefault(variable, []) if variable is not None else []
        if variable is None or any(cfg.dominates(other, block) for other in before):
            continue
        conflict = search.conflict(read, variable)
        if conflict is not None:
            before.append(block)
            yield conflict


class _Search:
    """The stores of a kernel by variable, and what is known of each."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self._since, results = model.solution(WritesSince)
        self._alike = model.fact(AlikeInWarps)
        self._stores: dict[Variable | None, list[SharedAccess]] = {}
        """Variable of shared memory -> the stores to it. With one to an unknown variable, None, no read is judged."""
        for site in model.shared.writers:
            for access in model.shared.accesses(site) if model.cfg.block_of[site] in model.cfg.rank else ():
                # A generic address without a variable of shared memory is one of other memory.
                variable = self.variable(access.address) if access.writes else None
                if access.writes and (variable is not None or model.shared.sites[site].space):
                    self._stores.setdefault(variable, []).append(access)
        every = {store.site for own in self._stores.values() for store in own}
        self._together = {
            i for i in sorted(every) if plain(model, i) and not self._since.loose(results.before(i))
        }
        """The plain stores that the threads execute together."""
        self._by_one_warp: dict[SharedAccess, bool] = {}

    def reads(self) -> Iterator[SharedAccess]:
        """The plain reads that a path without synchronisation leads to from a store, or from which one leads to a store."""
        if None in self._stores:
            return
        model, cfg = self.model, self.model.cfg
        sites = [i for i in model.shared.sites if cfg.block_of[i] in cfg.rank and plain(model, i)]
        after = model.reached_from(self._together, sites, self._since.ends)
        for site in sorted(sites):
            accesses = [a for a in model.shared.accesses(site) if not (a.writes or a.later)]
            if accesses and (
                site in after
                or (
                    cfg.block_of[site] in cfg.in_cycle
                    and model.reached_from([site], self._together, self._since.ends)
                )
            ):
                yield from accesses

    def variable(self, address: int) -> Variable | None:
        """The variable of which *address* is an offset; None if there is none, or more than one."""
        variable, origins = self.model.values.variable, self.model.shared.origins(address)
        found = {v for o in origins if (v := variable(o)) is not None}
        return found.pop() if len(found) == 1 else None

    def conflict(self, read: SharedAccess, variable: Variable) -> Lookup | None:
        """The conflict of *read* with one of the stores to its *variable*, if there is one."""
        stores, searches = self._stores.get(variable), self.model.search_cache
        if searches.spent:
            self.model.ledger.give_up(OVERLAP, read.site, searches.spent)
            return None
        if not stores:
            return None
        before = [store for store in stores if self.model.reaches(store.site, read.site)]
        if not (self._by_all_warps(read) or self._by_others(read, before)):
            return None
        searches.count(len(stores))
        if not all(map(self._of_one_warp, before)):
            return None
        early = True
        for store in before:
            if searches.spent:
                self.model.ledger.give_up(OVERLAP, read.site, searches.spent)
                return None
            if not self._unordered(store, read):
                early = False
                break
        if not early and not all(self._repeated(store, read) for store in before):
            return None
        for store in before:
            if not self._may_meet(store, read) or (early and store.site not in self._together):
                continue
            first, second = (store, read) if early else (read, store)
            view = self.model.views.context_in_iteration(first.site)
            answer = follow_first(self.model, first.site, view, (second.site,), self._since.ends)
            if answer.witness is not None:
                doubt = self._since.synchronised_elsewhere(first.site, answer.witness)
                doubt = doubt or synchronises_lanes(self.model, answer.witness, first.site)
                return Lookup(first, second, answer.witness, doubt)
        return None

    def _may_meet(self, store: SharedAccess, read: SharedAccess) -> bool:
        """Whether the least address that *read* may have is not after all that *store* writes."""
        values, memory = self.model.values, self._since.memory
        terms, least = values.linear(read.address)
        if any(factor < 0 for _, factor in terms) or any(
            values.is_phi(term) for term, _ in values.linear(store.address)[0]
        ):
            return True
        least += sum(
            factor * values.known_bits(term)[1] for term, factor in terms if values.variable(term) is None
        )
        threads = self.model.views.context_of(store.site).threads
        touched = memory.footprint(store, threads)
        return touched is None or least < touched.low + touched.bytes.bit_length()

    def _by_all_warps(self, read: SharedAccess) -> bool:
        """Whether several warps execute *read* alike, and use its result."""
        model, alike, deciding = self.model, self._alike.holds, self._since.executed.deciding
        if not alike(read.address) or not all(map(alike, deciding(read.site))):
            return False
        takers = 0
        for user, _ in model.transitive_users(read.site):
            if all(map(alike, deciding(user))):
                takers |= model.views.context_of(user).threads
        threads = model.views.context_of(read.site).threads & T.whole(takers, 32)
        return threads != 0 and not T.one_warp(threads)

    def _by_others(self, read: SharedAccess, before: Sequence[SharedAccess]) -> bool:
        """Whether another warp than the one that makes all stores *before* is certain to execute *read*, and uses its result.

        Not if it is known where *read* goes: then its bytes are compared.
        """
        context_of, executed = self.model.views.context_of, self._since.executed
        storing = reduce(or_, (context_of(store.site).threads for store in before), 0)
        threads = context_of(read.site).threads
        if not T.one_warp(storing) or not executed.certainly(read.site):
            return False
        unknown = self._since.memory.footprint(read, threads) is None
        return unknown and bool(threads & executed.takers(read.site) & ~T.whole(storing, 32))

    def _unordered(self, store: SharedAccess, read: SharedAccess) -> bool:
        """Whether no barrier orders *store* before *read*, at least when *read* executes for the first time."""
        if dominated_by(self.model, read.site, store.site):
            return True
        ordered = self.model.reached_from([store.site], self._since.ends, [read.site])
        return not any(self.model.reaches(wait, read.site) for wait in ordered)

    def _repeated(self, store: SharedAccess, read: SharedAccess) -> bool:
        """Whether *store* writes to the same bytes again in a loop around both, and no barrier orders that after *read*."""
        model, cfg, values = self.model, self.model.cfg, self.model.values
        around = cfg.enclosing_loops(cfg.block_of[store.site], cfg.block_of[read.site])
        if not around or not model.reached_from([read.site], [store.site], self._since.ends):
            return False
        loop = max(map(cfg.loops.__getitem__, around), key=len)
        starts = self._starts(store.site, store.address)
        blocks = (
            at if kind == "block" else cfg.block_of[at]
            for start in starts
            for kind, at in values.varying_at(start)
        )
        return bool(starts) and loop.isdisjoint(blocks)

    def _of_one_warp(self, store: SharedAccess) -> bool:
        """Whether one warp alone executes *store*, or each warp stores to bytes of its own."""
        if store not in self._by_one_warp:
            threads = self.model.views.context_of(store.site).threads
            self._by_one_warp[store] = not store.later and (
                not threads or T.one_warp(threads) != 0 or self._apart(store, threads)
            )
        return self._by_one_warp[store]

    def _apart(self, store: SharedAccess, threads: int) -> bool:
        """Whether the *threads* of each warp store to other bytes than those of the others, in all iterations alike."""
        memory, values = self._since.memory, self.model.values
        starts = self._starts(store.site, store.address)
        for start in starts:
            if values.uniformity(values.addresses.form(start).base) is not UniformityScope.CTA:
                return False
            touched = memory.warps(store._replace(address=start), threads)
            if len(touched) < 2 or any(a.overlaps(b) for (_, a), (_, b) in combinations(touched, 2)):
                return False
        return bool(starts)

    def _starts(self, site: int, address: int, within: frozenset[int] = frozenset()) -> list[int]:
        """The values of *address* with each counter at its start, if it advances alike in all warps; none if it may not.

        Counters *within* which this one is are at their starts elsewhere. None either if there are more than
        ``MAX_STARTS``: then it is open what the store at *site* conflicts with.
        """
        values = self.model.values
        terms, constant = values.linear(address)
        found = [values.constant(constant)]
        for term, factor in terms:
            own = self._starts_of(site, term, within) if values.is_phi(term) else [term]
            found = [values.add(total, values.times(start, factor)) for total in found for start in own]
            if len(found) > MAX_STARTS:
                self.model.ledger.drop(OVERLAP, site, f"more than {MAX_STARTS} starts of an address")
                return []
        return found

    def _starts_of(self, site: int, phi: int, within: frozenset[int]) -> list[int]:
        """Where a counter starts; none if it may advance differently in different warps."""
        values, found, own = self.model.values, list[int](), within | {phi}
        if values.uniformity(phi) is UniformityScope.CTA:
            return [phi]
        for argument in values.arguments(phi):
            terms, constant = values.linear(argument)
            steps = [term for term, factor in terms if term not in own or factor != 1]
            if len(steps) == len(terms):
                starts = self._starts(site, argument, own)
                if not starts:
                    return []
                found += starts
            elif any(values.uniformity(step) is not UniformityScope.CTA for step in steps) or (
                not steps and 0 < abs(constant) < _TWO_WARPS
            ):
                return []
        return found
