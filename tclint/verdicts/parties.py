"""CTA barriers that count some of the threads: those threads, and no others, execute them together.

The *party* of such a barrier are the threads that may reach it, as far as the index of the thread decides the branches on
the way. If they are as many as the barrier counts, and all that decides whether it executes is uniform among them, they
arrive together; what differs between them and other threads does not matter. That is the argument of
:mod:`tclint.verdicts.uniform` for another group of threads, and a certificate has the levels of registers for each party.

Two parties that use one barrier could complete each other's phases (9.7.13.1). So all instructions that name a barrier have
one party, or the smaller party is within the larger one and no path leads from its instruction to the other: all phases of
the larger one are over when it arrives.

A barrier at which some threads only arrive is a *signal*. It is proved if it has one phase: the parties of all instructions that
name it have no thread in common and are together as many threads as each of them counts, and no thread executes one twice. And
all of them arrive if one does: there is a block that dominates all these instructions, that all threads of the CTA execute or
none, and from which each thread of a party passes the instruction of that party on every path that the index of the thread
leaves it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from tclint.ir.cfg import Edge
from tclint.isa.effects import Barrier
from tclint.isa.special_registers import WARP
from tclint.values import thread_masks as T
from tclint.verdicts.checker import Refused
from tclint.verdicts.uniform import Collective, Level, Uniform, check_levels

__all__ = ["Parties", "PartiesCertificate", "check_parties"]

_GROUP_OF_WARPS = 4
"""The warps of a warpgroup."""


@dataclass(frozen=True)
class PartiesCertificate:
    """The claims of a proof about parties."""

    reaching: Mapping[int, T.Threads]
    """The threads that may reach each block, one bit for each."""
    levels: Mapping[T.Threads, Mapping[int, Level]]
    """The levels of registers among the threads of each party."""
    whole: Mapping[int, Level]
    """The levels among all threads of the CTA."""


class Parties:
    """The barriers of one function that count fewer threads than the CTA has."""

    def __init__(
        self,
        of: Uniform,
        threads: int,
        mask: Callable[[int, int], int | None],
        by_index: Callable[[int, int, int, bool], Level],
    ) -> None:
        self.whole, self.threads, self.everyone = of, threads, T.full(threads)
        self.mask = mask
        """The threads in which a predicate holds just before an instruction; None if not the index alone decides it."""
        self.by_index = by_index
        """What :attr:`~tclint.verdicts.uniform.UniformQuestions.by_index` is for the threads of a party."""
        self._within: dict[int, Uniform] = {}
        self.signals = self._signals()
        """The numbers of barriers at which some threads only arrive, each with the instructions that name it."""

    def _signals(self) -> dict[int, tuple[int, ...]]:
        named: dict[int | None, list[int]] = {}
        for site in self.whole.block_of:
            instruction = self.whole.instructions[site]
            if instruction.effects.arrives is Barrier.CTA:
                named.setdefault(self._number(site), []).append(site)
        arriving = {n for n, sites in named.items() if any(self._only_arrives(site) for site in sites)}
        return {n: tuple(named[n]) for n in arriving if n is not None and None not in named}

    def _number(self, site: int) -> int | None:
        """The number of the CTA barrier that an instruction names, if it is a constant."""
        barrier = self.whole.instructions[site].role("id")
        return None if barrier is None else self.whole.ask.constant(barrier, site)

    def _only_arrives(self, site: int) -> bool:
        return self.whole.instructions[site].effects.synchronises is None

    def counted(self, of: Collective) -> int | None:
        """The number of threads that a barrier counts, if it is a constant and, unless the barrier is a signal, not all of the
        CTA."""
        count = self.whole.instructions[of.site].role("count")
        if of.level is not Level.CTA or count is None:
            return None
        number = self.whole.ask.constant(count, of.site)
        if self._is_signal(of.site):
            return number
        return None if self._only_arrives(of.site) or number == self.threads else number

    def _is_signal(self, site: int) -> bool:
        return any(site in sites for sites in self.signals.values())

    def along(self, edge: Edge, threads: T.Threads) -> T.Threads:
        """Those of *threads* that may take *edge*."""
        last = self.whole.graph.blocks[edge.source][-1]
        return self._where(edge.predicate, last, threads, edge.value)

    def party(self, site: int, reaching: Mapping[int, T.Threads]) -> T.Threads:
        """The threads that may execute the instruction *site*."""
        instruction = self.whole.instructions[site]
        there = reaching.get(self.whole.block_of[site], 0)
        return self._where(instruction.guard, site, there, truth=not instruction.negated)

    def _where(self, predicate: int, at: int, threads: T.Threads, truth: bool) -> T.Threads:
        there = self.mask(predicate, at) if predicate >= 0 else None
        if there is None:
            return threads
        return threads & there if truth else threads & ~there

    def within(self, party: T.Threads) -> Uniform:
        """What is uniform among the threads of a *party*."""
        if party not in self._within:

            def by_index(register: int, at: int, after: bool) -> Level:
                return self.by_index(party, register, at, after)

            self._within[party] = self.whole.asking(by_index)
        return self._within[party]

    def divergence(self, of: Collective, certificate: PartiesCertificate) -> str:
        """Why the threads that a barrier counts may not execute it together; "" if they do."""
        number, party = self.counted(of), self.party(of.site, certificate.reaching)
        if self._is_signal(of.site):
            if why := self._incomplete(of.site, certificate):
                return why
        elif number != party.bit_count():
            return f"it counts {number} threads, and {party.bit_count()} may reach it"
        if party.bit_count() % WARP or T.partial_groups(party, self.everyone, WARP):
            return "a part of a warp may reach it"
        levels, uniform = certificate.levels.get(party, {}), self.within(party)
        if why := uniform.number_of_barrier(of.site):
            return why
        guard = uniform.instructions[of.site].guard
        if guard >= 0 and uniform.read(guard, of.site, levels) > Level.CTA:
            return "its guard may differ between the threads that it counts"
        if uniform.outer(levels)[uniform.block_of[of.site]] > Level.CTA:
            return "a branch that decides whether it executes may differ between the threads that it counts"
        return ""

    def mixed(self, barriers: Iterable[Collective], reaching: Mapping[int, int]) -> Iterator[tuple[int, str]]:
        """The barriers whose threads another party might join."""
        by_number: dict[int | None, list[tuple[int, int]]] = {}
        for each in barriers:
            if each.level is Level.CTA and not self._is_signal(each.site):
                number = self._number(each.site)
                party = self.everyone if self.counted(each) is None else self.party(each.site, reaching)
                by_number.setdefault(number, []).append((each.site, party))
        for found in by_number.values():
            for first in found:
                if not all(self._in_turn(first, second) for second in found):
                    yield first[0], "other threads than it counts may use the same barrier"

    # ------------------------------------------------------------ signals

    def _incomplete(self, site: int, certificate: PartiesCertificate) -> str:
        """Why the one phase of a signal that *site* names may not be complete, or not be the only one; "" if it is."""
        sites = next(sites for sites in self.signals.values() if site in sites)
        if all(self._only_arrives(each) for each in sites):
            return "threads arrive at a barrier at which none waits"
        parties = [self.party(each, certificate.reaching) for each in sites]
        counts = [self.whole.instructions[each].role("count") for each in sites]
        together = sum(party.bit_count() for party in parties)
        for each, count in zip(sites, counts, strict=True):
            number = None if count is None else self.whole.ask.constant(count, each)
            if number != together:
                return (
                    f"it counts {number} threads, and {together} may arrive or wait"
                    if number
                    else "it counts no threads"
                )
        reached = 0
        for each, party in zip(sites, parties, strict=True):
            if party & reached or self._repeats(self.whole.block_of[each]):
                return "a thread may arrive twice at a barrier at which others only arrive"
            reached |= party
        if not any(self._decides(block, sites, parties) for block in self._of_all(certificate)):
            return "some threads may wait at it although others do not arrive"
        return ""

    def _repeats(self, block: int) -> bool:
        """Whether a block may be executed twice."""
        return block in self.whole.graph.reached(edge.target for edge in self.whole.graph.successors[block])

    def _of_all(self, certificate: PartiesCertificate) -> Iterator[int]:
        """The blocks that all threads of the CTA execute, or none, and once."""
        outer = self.whole.outer(certificate.whole)
        return (b for b in self.whole.order if outer[b] <= Level.CTA and not self._repeats(b))

    def _decides(self, block: int, sites: Iterable[int], parties: Iterable[T.Threads]) -> bool:
        """Whether nothing executes *sites* but after *block*, and each of *parties* executes its own whenever it executes
        *block*."""
        without = self._passing(0, block, self.everyone)
        if not without.isdisjoint(self.whole.block_of[site] for site in sites):
            return False
        return all(self._executes(block, site, party) for site, party in zip(sites, parties, strict=True))

    def _executes(self, block: int, site: int, party: T.Threads) -> bool:
        """Whether each thread of *party* that executes *block* executes *site*, unless the kernel is aborted."""
        instruction, there = self.whole.instructions[site], self.whole.block_of[site]
        if self._where(instruction.guard, site, party, not instruction.negated) != party:
            return False
        if instruction.guard >= 0 and self.mask(instruction.guard, site) is None:
            return False
        return self._passing(block, there, party).isdisjoint(self.whole.graph.exits)

    def _passing(self, start: int, avoided: int, threads: T.Threads) -> set[int]:
        """The blocks that *threads* may execute from *start* on before they have executed *avoided*."""
        found, work = set[int](), [start]
        while work:
            block = work.pop()
            if block not in found and block != avoided:
                found.add(block)
                work += (e.target for e in self.whole.graph.successors[block] if self.along(e, threads))
        return found

    def circular(self) -> Iterator[tuple[int, str]]:
        """The signals for which a thread may have to wait before it arrives there, or lets others arrive."""
        for number, sites in sorted(self.signals.items()):
            found = self._after(number)
            for site in sites:
                if site in found:
                    yield (
                        site,
                        "a thread that waits for it may be one for which others wait before they arrive",
                    )

    def _after(self, number: int) -> set[int]:
        """The instructions that are executed after a thread has waited for a signal, and after others have waited for these."""
        found, work = set[int](), [number]
        seen = {number}
        while work:
            for site in self.signals[work.pop()]:
                if self._only_arrives(site):
                    continue
                block = self.whole.graph.blocks[self.whole.block_of[site]]
                following = (e.target for e in self.whole.graph.successors[self.whole.block_of[site]])
                found.update(range(site + 1, block.stop))
                found.update(
                    i for b in self.whole.graph.reached(following) for i in self.whole.graph.blocks[b]
                )
            more = {n for n, sites in self.signals.items() if not found.isdisjoint(sites)} - seen
            work += more
            seen |= more
        return found

    def crossed(
        self, barriers: Iterable[Collective], certificate: PartiesCertificate
    ) -> Iterator[tuple[int, str]]:
        """The barriers whose threads are some of a group of another collective instruction, but neither contain it nor are
        all within it: such groups may wait for each other in a circle."""
        needed = list(barriers)
        counted = [
            each for each in needed if self.counted(each) is not None and not self._is_signal(each.site)
        ]
        groups = {self.party(each.site, certificate.reaching) for each in counted}
        if any(each.level is Level.WARPGROUP for each in needed):
            size = _GROUP_OF_WARPS * WARP
            groups.update(T.full(size) << first for first in range(0, self.threads, size))
        for each in counted:
            mine = self.party(each.site, certificate.reaching)
            if any(mine & other not in (0, mine, other) for other in groups):
                yield (
                    each.site,
                    "its threads are some of another group, and others of that one are not among them",
                )

    def _in_turn(self, first: tuple[int, int], second: tuple[int, int]) -> bool:
        """Whether two instructions have one party, or the phases of the larger one are over when the smaller one arrives."""
        if first[1] == second[1]:
            return True
        (later, smaller), (site, party) = sorted((first, second), key=lambda each: each[1].bit_count())
        if smaller & ~party:
            return False
        graph, here, there = self.whole.graph, self.whole.block_of[later], self.whole.block_of[site]
        following = graph.reached(edge.target for edge in graph.successors[here])
        return there not in following and not (here == there and later < site)


def check_parties(parties: Parties, needed: Iterable[Collective], certificate: PartiesCertificate) -> None:
    """Whether *certificate* proves that the threads which barriers count execute them together.

    Raises :class:`~tclint.verdicts.checker.Refused` if it does not.
    """
    of, reaching = parties.whole, certificate.reaching
    if reaching.get(0, 0) != parties.everyone:
        raise Refused(0, "the certificate omits threads at the entry")
    for block in of.order:
        for edge in of.graph.successors[block]:
            if parties.along(edge, reaching.get(block, 0)) & ~reaching.get(edge.target, 0):
                raise Refused(
                    of.graph.blocks[block][-1], "the certificate omits threads that take this branch"
                )
    check_levels(of, certificate.whole)
    for party, levels in certificate.levels.items():
        check_levels(parties.within(party), levels)
    for each in needed:
        if parties.counted(each) is not None and (why := parties.divergence(each, certificate)):
            raise Refused(each.site, why)
    for site, why in parties.mixed(needed, reaching):
        raise Refused(site, why)
