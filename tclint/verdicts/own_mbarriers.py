"""The mbarriers of one kernel whose phases follow from what is known of their arrivals: a count of 1, initialised once.

What may arrive at one of them, the caller says: commits of one thread (:mod:`tclint.verdicts.mma`), or arrivals of one thread
that expect bytes, too (:mod:`tclint.verdicts.tracked`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from tclint.analyses.mbarrier_addresses import SIZE, MbarrierAddresses, MbarrierLocation, may_leave, same
from tclint.analyses.mbarriers import Mbarriers
from tclint.ir.cfg import Edge
from tclint.ir.nodes import MAX_SHARED_BYTES
from tclint.isa.effects import Resource
from tclint.values.nodes import Literal, Logic, Negation

__all__ = ["Location", "OwnMbarriers"]

Location = tuple[str, int]
"""A variable, and an offset from it in bytes."""


class OwnMbarriers:
    """The mbarriers of one kernel."""

    def __init__(self, mbarriers: Mbarriers) -> None:
        self.mbarriers, self.model = mbarriers, mbarriers.model
        self.values, self.cfg = self.model.values, self.model.cfg

    def found(
        self, arrives: Callable[[int], bool], bounds: Callable[[int], bool] | None = None
    ) -> dict[MbarrierLocation, Location]:
        """The mbarriers whose phases nothing changes but instructions that *arrives* admits, and which are no others under
        another name.

        With *bounds*, they may be initialised more often than once, by instructions that it admits and that end them.
        """
        mbarriers, found = self.mbarriers, dict[MbarrierLocation, Location]()
        for object_ in mbarriers.objects.values() if not mbarriers.has_unseen_arrivals else ():
            at = MbarrierLocation(object_.base, object_.offset)
            location = self.location(at.base, at.offset)
            once = self.once(at) or (bounds is not None and all(map(bounds, self.bounding(at))))
            if location is not None and not self.is_inside(location):
                return {}  # it may be in the bytes of any other one
            if (
                location is not None
                and once
                and object_.inits
                and object_.count == 1
                and self._only(at, arrives)
            ):
                found[at] = location
        others = [MbarrierLocation(o.base, o.offset) for o in mbarriers.objects.values()]
        return {
            at: location
            for at, location in found.items()
            if all(at == other or same(self.model, at, other) is False for other in others)
        }

    def once(self, at: MbarrierLocation) -> bool:
        """Whether an mbarrier is initialised once, before all other operations on it."""
        inits = self.inits(at)
        return len(inits) == 1 and self._is_first(inits[0], at)

    def inits(self, at: MbarrierLocation) -> Sequence[int]:
        """The initialisations of an mbarrier."""
        object_ = self.mbarriers.objects.get(at)
        return () if object_ is None else object_.inits

    def naming(self, at: MbarrierLocation) -> list[int]:
        """The instructions that may name an mbarrier."""
        return [site for site in self.mbarriers.sites if self.may_name(site, at)]

    def bounding(self, at: MbarrierLocation) -> list[int]:
        """What may initialise or end an mbarrier."""
        return [site for site in self.naming(at) if self.mbarriers.sites[site].bounds_mbarrier]

    def renewed(self, at: MbarrierLocation) -> bool:
        """Whether an ``mbarrier.inval`` is executed on every path from one initialisation to the next."""
        bounding = self.bounding(at)
        begins = {i for i in bounding if self.mbarriers.sites[i].resource is Resource.MBARRIER_INIT}
        ends = {i for i in bounding if i not in begins and self.always(i)}
        seen = set[int]()
        work = [(self.cfg.block_of[i], i + 1) for i in begins]
        while work:
            block, start = work.pop()
            sites = range(start, self.cfg.blocks[block].end)
            first = next((i for i in sites if i in begins or i in ends), None)
            if first in begins:
                return False
            if first is None:
                fresh = {edge.target for edge in self.cfg.successors[block]} - seen
                seen |= fresh
                work += [(target, self.cfg.blocks[target].start) for target in fresh]
        return True

    def always(self, init: int) -> bool:
        """Whether the one thread that may execute an instruction does so whenever it gets there."""
        threads, instruction = self.model.views.context_of(init).threads, self.model.instruction(init)
        if not threads or threads & (threads - 1):
            return False
        if instruction.guard < 0:
            return True
        guard = self.values.before(instruction.guard, init)
        mask = self.values.mask(self.values.negate(guard) if instruction.negated else guard)
        return mask is not None and bool(mask & threads)

    def _only(self, at: MbarrierLocation, arrives: Callable[[int], bool]) -> bool:
        """Whether all that may change the phase of an mbarrier is admitted."""
        return all(
            arrives(site)
            for site, effects in self.mbarriers.sites.items()
            if (effects.changes_phase or effects.transacts) and self.may_name(site, at)
        )

    def _is_first(self, init: int, at: MbarrierLocation) -> bool:
        """Whether one thread executes an initialisation once, none of the operations on the mbarrier before it or without
        it, and none after an ``mbarrier.inval``."""
        named = {i: self.mbarriers.sites[i] for i in self.naming(at)}
        ends = [i for i, effects in named.items() if effects.resource is Resource.MBARRIER_INVAL]
        used = [i for i, effects in named.items() if not effects.bounds_mbarrier]
        return (
            self.cfg.block_of[init] not in self.cfg.in_cycle
            and all(self.is_executed(init, i) for i in used)
            and not any(self.model.reaches(i, init) for i in (*used, *ends))
            and not any(self.model.reaches(end, i) for end in ends for i in used)
            and all(self.model.reaches(i, end) for end in ends for i in used)
        )

    def is_executed(self, site: int, use: int) -> bool:
        """Whether one thread certainly executes *site* where *use* is executed, as :meth:`are_executed` says it."""
        threads = self.model.views.context_of(site).threads
        return threads & (threads - 1) == 0 and self.are_executed(site, use)

    def are_executed(self, site: int, use: int) -> bool:
        """Whether all threads that may execute *site* certainly do where *use* is executed: in one launch, or in one iteration of the
        loop that has both.

        Their numbers alone decide that, or what decides the use as well: the same branches and predicates, if all threads take them
        alike, and if one thread executes both, any.
        """
        context = self.model.views.context_of
        threads = context(site).threads
        if not threads:
            return False
        alone = threads & (threads - 1) == 0 and context(use).threads == threads
        here, there = self.cfg.block_of[site], self.cfg.block_of[use]
        common, shared = self.cfg.control_dependences(there), self.values.addresses.is_shared
        literals = self._literals(use, filter(self._passed_to(there), common))
        given = {(p, truth) for p, truth in literals if alone or shared(p)}
        if not alone:
            common = [edge for edge in common if self._is_taken_alike(edge)]
        deciding = frozenset(self.cfg.control_dependences(here)) - {*common}
        if any(edge.predicate < 0 for edge in deciding):
            return False
        for p, truth in self._literals(site, deciding):
            mask = self.values.mask(p if truth else self.values.negate(p))
            if (p, truth) not in given and (mask is None or threads & ~mask):
                return False
        return True

    def _passed_to(self, block: int) -> Callable[[Edge], bool]:
        """Whether every path to *block* takes an edge."""
        return lambda e: len(self.cfg.predecessors[e.target]) == 1 and self.cfg.dominates(e.target, block)

    def _is_taken_alike(self, edge: Edge) -> bool:
        """Whether all threads of the CTA that are at an edge take it, or none."""
        last = self.cfg.blocks[edge.source].end - 1
        shared = self.values.addresses.is_shared
        return edge.predicate >= 0 and shared(self.values.before(edge.predicate, last))

    def _literals(self, site: int, edges: Iterable[Edge]) -> Iterator[Literal]:
        """What holds where an instruction executes, by its guard and the *edges* that lead there."""
        instruction, blocks, before = self.model.instruction(site), self.cfg.blocks, self.values.before
        work = [(before(e.predicate, blocks[e.source].end - 1), e.value) for e in edges if e.predicate >= 0]
        if instruction.guard >= 0:
            work.append((before(instruction.guard, site), not instruction.negated))
        while work:
            p, truth = work.pop()
            node = self.values.node(p)
            if type(node) is Negation:
                work.append((node.operand, not truth))
            elif type(node) is Logic and node.name == ("and" if truth else "or"):
                work += ((operand, truth) for operand in node.operands)
            else:
                yield self.values.representative(p), truth

    def may_name(self, site: int, at: MbarrierLocation) -> bool:
        """Whether an instruction may name the mbarrier at a location."""
        locations = self.model.fact(MbarrierAddresses).locations(site)
        return locations is None or any(same(self.model, at, location) is not False for location in locations)

    def location(self, base: int, offset: int = 0) -> Location | None:
        """The variable and the offset of an address; None if its base is not a variable."""
        terms, constant = self.values.linear(base)
        variable = self.values.variable(terms[0][0]) if len(terms) == 1 and terms[0][1] == 1 else None
        return None if variable is None else (variable.name, constant + offset)

    def is_inside(self, location: Location) -> bool:
        """Whether an mbarrier at *location* is aligned and lies in the variable there; one of unstated size ends where shared
        memory does."""
        name, offset = location
        variable = self.model.variable(name)
        size = (variable.size if variable is not None else 0) or MAX_SHARED_BYTES
        aligned = offset % SIZE == 0 and (variable is None or variable.align % SIZE == 0)
        return aligned and 0 <= offset <= size - SIZE

    def stays(self, site: int) -> bool:
        """Whether an instruction names an mbarrier of its own CTA."""
        address = self.model.mbarrier(site)
        return address is not None and not may_leave(self.values, address)

    def commits(self, site: int, thread: int) -> bool:
        """Whether an instruction is a commit of *thread* alone that arrives at an mbarrier of its own CTA and no other."""
        match = self.model.instruction(site).match
        return (
            match is not None
            and match.form.effects.arrives_later
            and not match.form.effects.sources
            and match.binding.get("cta_group") == ".cta_group::1"
            and "mask" not in match.parts
            and self.stays(site)
            and self.model.views.context_of(site).threads == 1 << thread
        )
