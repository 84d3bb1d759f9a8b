"""Accepts or refuses a certificate that every ``setmaxnreg.inc`` gets the registers that it requests (PTX ISA 9.7.19.5).

The certificate claims which threads may enter each block before they have executed a ``setmaxnreg``, and which after it.
From the instructions and the edges of the control-flow graph, the levels of registers and the predicates that the index of
a thread decides, the checker verifies that nothing is missing, and then that

- all threads of a warpgroup execute each ``setmaxnreg`` together, and none of them executes another one before;
- the count is one that the ISA admits; a ``.dec`` requests no more than a warp owns at launch, an ``.inc`` no less;
- what the warpgroups own at most, after their ``setmaxnreg`` or if they never execute one, is not more than what they own
  together at launch;
- no thread waits for another one before its ``setmaxnreg``, except at barriers that every thread passes once before its
  own, and at which no thread arrives before without waiting for all. So each ``.dec`` is executed whatever becomes of the
  ``.inc`` of other warps, and once all are, all ``.inc`` can be satisfied at once.

A wait for an mbarrier, a call, and a loop that reads memory of any kind may wait for other threads; so may an allocation of
tensor memory, until another warp frees what it has allocated (9.7.16.7.1). That other waits end is the class of the
mbarriers, and not claimed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from tclint._dataclass import dataclass
from tclint._named_tuple import NamedTuple
from tclint.analyses.setmaxnreg import raises, requested
from tclint.ir.nodes import Function, Instruction
from tclint.isa.accesses import StateSpace
from tclint.isa.effects import Barrier, Resource
from tclint.values import thread_masks as T
from tclint.verdicts.checker import Refused
from tclint.verdicts.uniform import Collective, Holding, Level, Uniform, check_levels, narrowed

__all__ = ["Pool", "PoolCertificate", "PoolQuestions", "check"]

LEAST, MOST, STEP = 24, 256, 8
"""The counts that a ``setmaxnreg`` may request are multiples of 8 in this range."""
_LARGEST = 255
"""The registers that a thread may have. At launch a warp owns a multiple of 8, but it has released nothing before."""
WARPGROUP = 128


class PoolQuestions(NamedTuple):
    """What the checker asks of the values of registers; each answer is a proof."""

    everyone: T.Threads
    """All threads that a CTA may have, one bit for each."""
    size: int | None
    """The number of threads that every CTA has; None if that is unknown."""
    holding: Holding


@dataclass(frozen=True)
class PoolCertificate:
    """The claims of a proof about the register pool of one function."""

    levels: Mapping[int, Level]
    before: Sequence[T.Threads]
    """The threads that may enter each block without having executed a ``setmaxnreg``."""
    after: Sequence[T.Threads]
    """The threads that may enter each block and have executed one."""


class Pool:
    """What the ``setmaxnreg`` of one function request, given the threads that may execute each."""

    def __init__(
        self, function: Function, of: Uniform, certificate: PoolCertificate, ask: PoolQuestions
    ) -> None:
        self.function, self.of, self.certificate, self.ask = function, of, certificate, ask
        self.graph, self.instructions = of.graph, function.instructions
        self.sites = [
            i
            for b in of.order
            for i in self.graph.blocks[b]
            if self.instructions[i].effects.resource is Resource.REGISTERS
        ]
        self.first = dict.fromkeys(self.sites, 0)
        """``setmaxnreg`` -> the threads for which it may be the first one."""
        self.again = dict.fromkeys(self.sites, 0)
        """``setmaxnreg`` -> the threads that may have executed one before."""
        self.kept: dict[int, int] = {}
        """Block that leaves the kernel -> the threads that may leave there without having executed one."""

    def through(self, b: int) -> Iterator[tuple[int, T.Threads, T.Threads]]:
        """For each edge out of a block, its target and the threads before and after a ``setmaxnreg`` that may take it."""
        before, after = self.certificate.before[b], self.certificate.after[b]
        for i in self.graph.blocks[b]:
            instruction = self.instructions[i]
            if instruction.effects.resource is Resource.REGISTERS:
                guard = instruction.guard, not instruction.negated
                self.first[i] = narrowed(before, self.ask.holding, i, *guard)
                self.again[i] = narrowed(after, self.ask.holding, i, *guard)
                after |= self.first[i]
                known = instruction.guard < 0 or self.ask.holding(instruction.guard, i) is not None
                before = before & ~self.first[i] if known else before
        if b in self.graph.exits:
            self.kept[b] = before
        last = self.graph.blocks[b][-1]
        for edge in self.graph.successors[b]:
            taken = edge.predicate, edge.value
            yield (
                edge.target,
                narrowed(before, self.ask.holding, last, *taken),
                narrowed(after, self.ask.holding, last, *taken),
            )

    # ------------------------------------------------------------ what is requested

    def wrong(self, site: int, launch: int) -> str:
        """Why one ``setmaxnreg`` may not do what it requests, of warps that own *launch* registers per thread; "" if it does."""
        instruction = self.instructions[site]
        count = requested(instruction)
        if not LEAST <= count <= MOST or count % STEP:
            return "the ISA does not admit its count"
        if self.again[site]:
            return "a thread may execute it after another setmaxnreg"
        if count < launch if raises(instruction) else count > min(launch, _LARGEST):
            return f"a warp that owns {launch} registers at launch may not request {count} with it"
        return ""

    def excess(self, launch: int) -> str:
        """Why the warps may own more than *launch* registers per thread together; "" if they never do."""
        most = self.ask.size or self.function.most_threads or 0
        if not most or most % WARPGROUP:
            return "the CTA is not known to consist of whole warpgroups"
        owned = [self._owned(first, launch) for first in range(0, most, WARPGROUP)]
        exact = self.ask.size is not None
        for groups in (len(owned),) if exact else range(1, len(owned) + 1):
            if sum(owned[:groups]) > groups * launch:
                size = "" if exact else f" of {groups * WARPGROUP} threads"
                total = sum(owned[:groups]) * WARPGROUP
                return f"the warps of a CTA{size} may own {total} registers, and have {groups * launch * WARPGROUP} at launch"
        return ""

    def _owned(self, first: int, launch: int) -> int:
        """The registers per thread that the warpgroup with the thread *first* owns at most, once it has released any."""
        group = T.full(WARPGROUP) << first
        counts = [requested(self.instructions[i]) for i in self.sites if self.first[i] & group]
        never = (self.certificate.before[b] for b in self.of.order if b not in self.leading)
        keeps = any(threads & group for threads in (*never, *self.kept.values()))
        return max([*counts, launch] if keeps or not counts else counts)

    @cached_property
    def leading(self) -> frozenset[int]:
        """The blocks with a ``setmaxnreg``, and those from which a path leads to one."""
        sources: dict[int, list[int]] = {b: [] for b in self.of.order}
        for b in self.of.order:
            for edge in self.graph.successors[b]:
                sources[edge.target].append(b)
        found, work = set[int](), [self.of.block_of[i] for i in self.sites]
        while work:
            b = work.pop()
            if b not in found:
                found.add(b)
                work += sources[b]
        return frozenset(found)

    # ------------------------------------------------------------ what may wait before

    def waiting(self) -> Iterator[tuple[int, str]]:
        """The instructions at which a thread may wait for the ``setmaxnreg`` of another one before it executes its own."""
        graph = self.graph
        for b in sorted(self.leading):
            if not self.certificate.before[b]:
                continue
            looping = b in graph.reached(edge.target for edge in graph.successors[b])
            for i in graph.blocks[b]:
                instruction = self.instructions[i]
                if instruction.effects.resource is Resource.REGISTERS and instruction.guard < 0:
                    break
                if why := self._waits(i, instruction, looping):
                    yield i, why

    def _waits(self, site: int, instruction: Instruction, looping: bool) -> str:
        match = instruction.match
        if instruction.calls_program:
            return "the callee may wait for other threads before a setmaxnreg"
        if instruction.effects.synchronises is not None or instruction.effects.awaits is Barrier.CLUSTER:
            if match is not None and match.form.scope == "lanes":
                return ""
            return (
                ""
                if self._by_all(site, instruction, looping)
                else "some threads may wait here for a setmaxnreg of others"
            )
        if instruction.effects.resource is Resource.TMEM_ALLOC:
            return (
                "" if self._alone(site, looping) else "it may wait for tensor memory that another warp frees"
            )
        if instruction.effects.awaits_threads:
            return "a thread may wait here for others before a setmaxnreg"
        if looping and _observes(instruction):
            return "a loop before a setmaxnreg may wait for what other threads write"
        return ""

    def _alone(self, site: int, looping: bool) -> bool:
        """Whether one warp executes an allocation of tensor memory once, and the kernel has no other one."""
        block, guard = self.of.block_of[site], self.instructions[site].guard
        threads = self.certificate.before[block] | self.certificate.after[block]
        threads = narrowed(threads, self.ask.holding, site, guard, not self.instructions[site].negated)
        only = all(
            i == site or self.instructions[i].effects.resource is not Resource.TMEM_ALLOC
            for i in self.of.block_of
        )
        return only and not looping and T.one_warp(threads) != 0

    def _by_all(self, site: int, instruction: Instruction, looping: bool) -> bool:
        """Whether a barrier is one of all threads, which each thread passes once before its own ``setmaxnreg``.

        Either all threads pass it or none, so nothing before it arrives there without waiting for all.
        """
        if looping or instruction.guard >= 0 or not self._of_all(site, instruction):
            return False
        block = self.of.block_of[site]
        around = self._without(block)
        before = [i for i, b in self.of.block_of.items() if b in around or (b == block and i < site)]
        if not set(self.sites).isdisjoint(before):
            return False
        if instruction.effects.barrier is Barrier.CLUSTER:
            return self._in_turn
        return not any(self._joins(i, self.instructions[i], site) for i in before)

    @cached_property
    def _in_turn(self) -> bool:
        """Whether each thread arrives at the cluster barrier and waits there in turn."""
        return next(self.of.phases(), None) is None

    def _of_all(self, site: int, instruction: Instruction) -> bool:
        """Whether a thread waits at a barrier for all threads of the CTA or cluster."""
        count = instruction.role("count")
        number = None if count is None else self.of.ask.constant(count, site)
        waits = instruction.effects.synchronises is not None or instruction.effects.awaits is Barrier.CLUSTER
        return waits and (count is None or (number is not None and number == self.ask.size))

    def _joins(self, site: int, instruction: Instruction, barrier: int) -> bool:
        """Whether an instruction may arrive at the CTA barrier of *barrier* without waiting for all threads."""
        operand, its = instruction.role("id"), self.instructions[barrier].role("id")
        if instruction.effects.arrives is not Barrier.CTA or operand is None or its is None:
            return False
        numbers = {self.of.ask.constant(operand, site), self.of.ask.constant(its, barrier)}
        return (len(numbers) == 1 or None in numbers) and not self._of_all(site, instruction)

    def _without(self, block: int) -> frozenset[int]:
        """The blocks to which a path leads from the entry that does not pass *block*."""
        found, work = set[int](), [0] if block else []
        while work:
            b = work.pop()
            if b not in found and b != block:
                found.add(b)
                work += [edge.target for edge in self.graph.successors[b]]
        return frozenset(found)


def _observes(instruction: Instruction) -> bool:
    """Whether a thread may find out by *instruction* what another one has written, in whatever memory.

    An asynchronous operation observes it if its results are registers; other results must be read.
    """
    match = instruction.match
    if match is None or match.form.handled:
        return True
    form = match.form
    if any(a.writes and a.space is StateSpace.REGISTERS for a in match.accesses):
        return True
    reads = any(verb == "read" for verb, _ in form.memory)
    return reads and not match.space.startswith((".param", ".const", ".local"))


def check(pool: Pool, launch: int) -> tuple[int, ...]:
    """The ``setmaxnreg`` of a function that is launched with *launch* registers per thread: each gets what it requests.

    Raises ``Refused`` if that is not proved.
    """
    of, certificate = pool.of, pool.certificate
    outer = check_levels(of, certificate.levels)
    if pool.ask.everyone & ~certificate.before[0]:
        raise Refused(0, "the certificate omits threads at the entry")
    for b in of.order:
        for target, before, after in pool.through(b):
            if before & ~certificate.before[target] or after & ~certificate.after[target]:
                raise Refused(
                    pool.graph.blocks[b][-1], "the certificate omits threads that may take this branch"
                )
    for site in pool.sites:
        if why := of.divergence(Collective(site, Level.WARPGROUP, True), certificate.levels, outer):
            raise Refused(site, why)
    for site in pool.sites:
        if why := pool.wrong(site, launch):
            raise Refused(site, why)
    if why := pool.excess(launch):
        raise Refused(pool.sites[0], why)
    for site, why in pool.waiting():
        raise Refused(site, why)
    return tuple(pool.sites)
