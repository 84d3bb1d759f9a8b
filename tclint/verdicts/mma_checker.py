"""Accepts or refuses a certificate that the issuing threads wait for their ``tcgen05.mma``, ``cp`` and ``shift``.

A certificate claims, for each thread that may issue such an operation, all states in which it may enter each block. The
checker follows every state through its block, and verifies that the states of the successors are claimed; by induction, no
execution of that thread has another one. A state has what decides which phase of an mbarrier a wait is for:

- the numbers of the registers from which addresses of mbarriers and parities are computed, as far as they follow from
  constants, so that the stages of a ring are distinguished; where a branch is taken only if two registers are equal, the number of
  one is that of the other: the trip count is what the counter of the loop has become;
- for each mbarrier whose phases only commits of this thread complete, whether the number of these commits is odd, and how
  many of the newest may not have completed (:class:`CommitPhase`). One that this thread initialises and ends by itself, as in each
  iteration of a loop, has no phases before the one and after the other, which follows the last commit;
- predicates that never change, with the truth that the thread has found them to have.

**Completion** (PTX ISA 9.7.16.6.2.1.1, 9.7.16.12.1). A commit makes an mbarrier track the operations that its thread has
issued with the same ``.cta_group``. Each commit on such an mbarrier completes one phase, since its count is 1, so phase *n*
is complete only if the first *n* + 1 commits are. A wait for a parity ends if the number of completed phases is odd or even;
with at most two commits that may not have completed, this decides what has. The wait must be repeated until it succeeds,
and acquire. Nothing else completes an operation: no barrier, no arrival of another thread, no wait for another mbarrier.

**Obligations.** Until an operation has completed, its thread does not access its columns of tensor memory with an
operation that the ISA does not execute in order after it (9.7.16.6.2), frees no tensor memory, does not overwrite shared
memory if the operation reads any, and calls no function. It exits only when the operation has completed, or when a commit has
handed it over: an mbarrier tracks it for which another thread waits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeGuard

from tclint._dataclass import dataclass
from tclint._named_tuple import NamedTuple
from tclint.findings.verdicts import Discharge
from tclint.ir.cfg import Edge
from tclint.ir.nodes import Function, Immediate, Instruction, Memory, Operand, Symbol, registers
from tclint.isa.accesses import Via
from tclint.isa.effects import TCGEN05, Barrier, Resource
from tclint.isa.forms import Match, floating
from tclint.isa.semantics import COMPUTE, widen
from tclint.values.integers import type_width
from tclint.verdicts.checker import TENSOR, Graph, ProofObligation, Refused, writes_shared

__all__ = [
    "MMA_GROUPS",
    "Counters",
    "Key",
    "Location",
    "MmaCertificate",
    "MmaQuestions",
    "PendingMma",
    "Progress",
    "State",
    "ThreadQuestions",
    "check_mma",
    "in_order",
    "needs_at",
    "operations",
]

MMA_GROUPS = frozenset((TCGEN05,))
LOST = 3
"""A number of commits that may not have completed which is too large for a wait to decide anything."""
_SYMBOLIC = frozenset(("mov", "add", "sub"))
"""What is computed of an address that is not a number."""

WORD = 32
"""The bits of a register that counts."""
MANY = 32
"""The number from which on a counter is known modulo this power of two only, so that it has finitely many states."""

Location = tuple[str, int]
"""A variable, and an offset from it in bytes."""


class Low(NamedTuple):
    """The low bits of a number, and how many of them are known."""

    bits: int
    known: int


Value = int | Low | Location


Counters = frozenset[tuple[int, int | Low]]
"""Counter -> its number, or the low bits of it."""


class CommitPhase(NamedTuple):
    """What is known of the phases of an mbarrier that commits of one thread complete, one each."""

    odd: bool = False
    """Whether the number of commits is odd."""
    behind: int = 0
    """How many of the newest commits may not have completed; ``LOST`` if too many."""


class Key(NamedTuple):
    """What decides how a thread continues."""

    numbers: frozenset[tuple[int, Value]] = frozenset()
    """Register -> what it holds, for those on which waits and commits still depend."""
    counters: Counters = frozenset()
    """What :attr:`ThreadQuestions.counters` identify -> its number."""
    phases: frozenset[tuple[Location, CommitPhase]] = frozenset()
    known: frozenset[tuple[int, bool]] = frozenset()
    """Predicates that never change -> their truth."""


class PendingMma(NamedTuple):
    """An operation that may not have completed."""

    site: int
    tracked: frozenset[tuple[Location, int]] = frozenset()
    """The mbarriers that track it, each with 1 if a later commit on it has followed, else 0."""
    counters: Counters = frozenset()
    """The counters when it was issued."""
    handed: bool = False
    """Whether a commit that others wait for (:attr:`ThreadQuestions.observed`) has followed."""


State = Mapping[Key, frozenset[PendingMma]]
"""What may be pending in each state of the thread; a state that is missing is never entered."""


@dataclass(frozen=True)
class MmaCertificate:
    """The claims of a proof."""

    threads: Mapping[int, Sequence[State]]
    """Thread that may issue an operation -> its states at the entry of each block."""
    claims: Mapping[ProofObligation, Discharge]


class ThreadQuestions(NamedTuple):
    """What is asked about one thread; each answer is a proof."""

    decided: Callable[[int, int, frozenset[tuple[int, bool]]], bool | None]
    """The truth of a predicate register before an instruction, given predicates that are known; None: unknown."""
    invariant: Callable[[int, int], int | None]
    """What identifies the predicate in a register before an instruction, if it never changes and is worth knowing."""
    own: frozenset[Location]
    """The mbarriers with a count of 1, initialised once, at which nothing arrives but commits of this thread alone."""
    enters: Callable[[int], bool]
    """Whether the thread may enter a block."""
    below: Callable[[int, int, int, frozenset[tuple[int, bool]]], bool]
    """Whether a register holds after an instruction no negative number, and less than a power of two, by its exponent, given
    predicates that are known."""
    elsewhere: frozenset[int]
    """Commits and waits for other mbarriers, and what initialises or ends others than those that are renewed."""
    counters: Mapping[int, Sequence[tuple[int, int]]]
    """Block -> counters that addresses depend on, each with the register that holds it when the block is entered."""
    observed: frozenset[int] = frozenset()
    """The commits on an mbarrier of the CTA that a wait of another thread names, which acquires and is repeated until it
    succeeds."""
    renewed: frozenset[Location] = frozenset()
    """Those of the mbarriers :attr:`own` that this thread alone initialises and ends, perhaps repeatedly."""


class MmaQuestions(NamedTuple):
    """What the checker asks others, since it knows no values; True is a proof."""

    threads: Callable[[int], Collection[int]]
    """The threads that may execute an operation."""
    thread: Callable[[int], ThreadQuestions]
    accumulates: Callable[[int, int], bool]
    """Whether two multiplications always have the same shape, and the same accumulator or two without a common column."""
    disjoint: Callable[[int, int, bool], bool]
    """Whether what two operations access of tensor memory is disjoint; with True, but for their accumulators."""
    clear: Callable[[int, int, Counters, Counters], bool]
    """Whether an instruction writes no byte that an operation reads, given the counters at each of them."""


# ---------------------------------------------------------------- obligations


def operations(function: Function, reachable: Iterable[int]) -> frozenset[int]:
    """The instructions among *reachable* that issue an operation."""
    return frozenset(i for i in reachable if function.instructions[i].effects.begins in MMA_GROUPS)


def needs_at(operation: Instruction, use: Instruction) -> Iterator[str]:
    """What must not happen at *use* while *operation* is pending."""
    if use.flow == "call":
        yield "release"
    on_columns = use.effects.begins is not None and (use.group == TCGEN05 or use.group in TENSOR)
    if on_columns or use.effects.resource is Resource.TMEM_DEALLOC:
        yield "columns"
    described = any(a.via is Via.DESCRIPTOR for a in operation.accesses)
    if (operation.match is None or described) and writes_shared(use):
        yield "source"


def in_order(first: Instruction, then: Instruction) -> bool | None:
    """Whether two operations are executed in order (9.7.16.6.2); None: if their accumulators and shapes are the same."""
    a, b = first.match, then.match
    if a is None or b is None or a.binding.get("cta_group") != b.binding.get("cta_group"):
        return False
    if "cta_group" not in a.binding or then.effects.begins is None:
        return False
    one, two = (m.form.name.split(".")[1] for m in (a, b))
    if (one, two) in (("cp", "mma"), ("shift", "mma"), ("mma", "shift")):
        return True
    if (one, two) == ("shift", "cp"):
        return b.binding.get("shape") == ".4x256b"
    if (one, two) != ("mma", "mma") or a.form is not b.form:
        return False
    return None if _kind(a) == _kind(b) else False


def _kind(multiplication: Match) -> list[str]:
    """The modifiers that may decide the shape of what it computes."""
    return [m for m in multiplication.modifiers if "collector" not in m]


# ---------------------------------------------------------------- transfer


class Progress:
    """How one thread proceeds from state to state."""

    def __init__(self, function: Function, graph: Graph, ask: ThreadQuestions) -> None:
        self.function, self.graph, self.ask = function, graph, ask
        self.instructions = function.instructions
        reachable = [i for b in sorted(graph.reached((0,))) for i in graph.blocks[b]]
        self.operations = operations(function, reachable)
        self.block_of = {i: b for b in graph.reached((0,)) for i in graph.blocks[b]}
        self.relevant = self._slice(reachable)
        """The registers on which addresses and parities depend."""
        self.affecting = frozenset(
            i
            for i in reachable
            if i in self.operations
            or self._follows(i)
            or i in ask.observed
            or not self.relevant.isdisjoint(self.instructions[i].writes)
        )
        """The instructions that can change a state."""
        self.waits = frozenset(i for i in reachable if self._succeeds(i))
        self.live = self._live()
        """Block -> the relevant registers that are read after its entry before they are written."""
        self.equated = dict(self._equating())
        """The edges that are taken only if two registers are equal, each with these."""

    @staticmethod
    def _commits(instruction: Instruction) -> bool:
        return instruction.effects.commits == TCGEN05

    def _follows(self, at: int) -> bool:
        """Whether an instruction is a commit, or a wait, and perhaps for one of the mbarriers that are followed, or perhaps
        initialises or ends one that is renewed."""
        effects = self.instructions[at].effects
        return at not in self.ask.elsewhere and (
            effects.commits == TCGEN05
            or effects.awaits is Barrier.MBARRIER
            or (effects.bounds_mbarrier and bool(self.ask.renewed))
        )

    def _slice(self, reachable: Iterable[int]) -> frozenset[int]:
        """The registers from which the mbarriers and the parities of commits and waits are computed."""
        writers: dict[int, list[Instruction]] = {}
        work = [register for counters in self.ask.counters.values() for _, register in counters]
        for i in reachable:
            instruction = self.instructions[i]
            for register in instruction.writes:
                writers.setdefault(register, []).append(instruction)
            if self._follows(i):
                for operand in (instruction.mbarrier, instruction.role("parity")):
                    work += registers(operand) if operand is not None else ()
        found = set[int]()
        while work:
            register = work.pop()
            if register not in found:
                found.add(register)
                for writer in writers.get(register, ()):
                    work += writer.reads if _computes(writer) else ()
        return frozenset(found)

    def _live(self) -> dict[int, frozenset[int]]:
        order = sorted(self.graph.reached((0,)))
        live = {b: frozenset[int]() for b in order}
        changed = True
        while changed:
            changed = False
            for b in reversed(order):
                targets = [edge.target for edge in self.graph.successors[b]]
                found = set[int]().union(*(live[target] for target in targets))
                found |= {r for target in targets for _, r in self.ask.counters.get(target, ())}
                for i in reversed(self.graph.blocks[b]):
                    instruction = self.instructions[i]
                    if instruction.guard < 0:
                        found.difference_update(instruction.writes)
                    reads = instruction.reads if i in self.affecting else ()
                    found |= self.relevant.intersection((*reads, instruction.guard))
                if found != live[b]:
                    live[b], changed = frozenset(found), True
        return live

    def _succeeds(self, at: int) -> bool:
        """Whether a wait for a parity acquires, and is repeated until it succeeds, before anything else happens."""
        wait = self.instructions[at]
        ready = wait.role("destination")
        if (
            wait.effects.awaits is not Barrier.MBARRIER
            or wait.guard >= 0
            or not wait.order.acquires
            or wait.role("parity") is None
        ):
            return False
        block = self.block_of[at]
        before = range(self.graph.blocks[block].start, at)
        later = range(at + 1, self.graph.blocks[block].stop)
        if any(ready in self.instructions[i].writes for i in later):
            return False
        if not self._idle(before) or not self._idle(later):
            return False
        edges = self.graph.successors[block]
        failed = [edge for edge in edges if edge.predicate == ready and not edge.value]
        return len(edges) == 2 and len(failed) == 1 and self._returns(failed[0].target, block)

    def _returns(self, block: int, to: int) -> bool:
        """Whether *block* is *to*, or only jumps there."""
        edges = self.graph.successors[block]
        jumps = len(edges) == 1 and edges[0].target == to and self._idle(self.graph.blocks[block])
        return block == to or jumps

    def _idle(self, sites: Iterable[int]) -> bool:
        """Whether instructions do nothing but compute what no wait or commit depends on."""
        return all(
            i not in self.affecting
            and not _acts(self.instructions[i])
            and self.instructions[i].flow in ("", "branch")
            for i in sites
        )

    # ------------------------------------------------------------ instructions

    def executes(self, key: Key, at: int) -> bool | None:
        """Whether the thread executes an instruction whose guard it reads in this state; None if that is unknown."""
        instruction = self.instructions[at]
        if instruction.guard < 0:
            return True
        truth = self._truth(key, instruction.guard, at)
        return None if truth is None else truth is not instruction.negated

    def _truth(self, key: Key, register: int, at: int) -> bool | None:
        number = dict(key.numbers).get(register)
        if isinstance(number, int):
            return bool(number & 1)
        return self.ask.decided(register, at, key.known)

    def after(
        self, key: Key, facts: frozenset[PendingMma], at: int
    ) -> Iterator[tuple[Key, frozenset[PendingMma]]]:
        """The states after an instruction."""
        if at not in self.affecting:
            yield key, facts
            return
        instruction = self.instructions[at]
        executes = self.executes(key, at)
        if executes is None:
            executed = self._knowing(key, instruction.guard, at, not instruction.negated)
            yield self._executed(executed, facts, at)
            yield self._knowing(key, instruction.guard, at, instruction.negated), facts
        elif executes:
            yield self._executed(key, facts, at)
        else:
            yield key, facts

    def _knowing(self, key: Key, register: int, at: int, truth: bool) -> Key:
        identity = self.ask.invariant(register, at)
        return key if identity is None else key._replace(known=key.known | {(identity, truth)})

    def _executed(self, key: Key, facts: frozenset[PendingMma], at: int) -> tuple[Key, frozenset[PendingMma]]:
        instruction = self.instructions[at]
        if at in self.waits:
            return self._waited(key, facts, instruction)
        if at in self.operations:
            facts |= {PendingMma(at, counters=key.counters)}
        elif at in self.ask.observed:
            handed = {fact for fact in facts if not fact.handed and self._tracks(instruction, fact)}
            if handed:
                facts = (facts - handed).union(fact._replace(handed=True) for fact in handed)
        if self._follows(at) and self._commits(instruction):
            key, facts = self._committed(key, facts, instruction)
        elif self._follows(at) and instruction.effects.bounds_mbarrier:
            key = self._bounded(key, instruction)
        for register in self.relevant.intersection(instruction.writes):
            number = self._evaluated(key, at, register)
            kept = frozenset(pair for pair in key.numbers if pair[0] != register)
            key = key._replace(numbers=kept if number is None else kept | {(register, number)})
        return key, facts

    def _committed(
        self, key: Key, facts: frozenset[PendingMma], commit: Instruction
    ) -> tuple[Key, frozenset[PendingMma]]:
        location = self._location(key, commit)
        phases = dict(key.phases)
        if location is None or location not in self.ask.own:  # it may be any of them
            return self._losing(key, self.ask.own), facts
        odd, behind = self._phase(key, location)
        phases[location] = CommitPhase(not odd, min(behind + 1, LOST))
        found = set[PendingMma]()
        for fact in facts:
            tracked = {(at, 1 if at == location else later) for at, later in fact.tracked}
            if self._tracks(commit, fact) and (location, 1) not in tracked:
                tracked.add((location, 0))
            found.add(fact._replace(tracked=frozenset(tracked)))
        return key._replace(phases=frozenset(phases.items())), frozenset(found)

    def _phase(self, key: Key, location: Location) -> CommitPhase:
        """What is known of the phases of an mbarrier."""
        none = CommitPhase(behind=LOST if location in self.ask.renewed else 0)
        return dict(key.phases).get(location, none)

    def _losing(self, key: Key, locations: Iterable[Location]) -> Key:
        """The state in which the phases of these mbarriers are not known any more."""
        lost = {each: self._phase(key, each)._replace(behind=LOST) for each in locations}
        return key._replace(phases=frozenset({**dict(key.phases), **lost}.items()))

    def _bounded(self, key: Key, bound: Instruction) -> Key:
        """The state after what initialises or ends an mbarrier: it has no phases before, and none after, when nothing may arrive."""
        location, phases = self._location(key, bound), dict(key.phases)
        if location is None or location not in self.ask.own:  # it may be any of them
            return self._losing(key, self.ask.renewed)
        if location not in self.ask.renewed:
            return key
        begins = bound.effects.resource is Resource.MBARRIER_INIT
        if begins is (location in phases) or (not begins and phases[location].behind):
            return self._losing(key, (location,))
        if begins:
            phases[location] = CommitPhase()
        else:
            del phases[location]
        return key._replace(phases=frozenset(phases.items()))

    def _tracks(self, commit: Instruction, fact: PendingMma) -> bool:
        """Whether an mbarrier tracks an operation that was issued before a commit."""
        same = _group(self.instructions[fact.site]) == _group(commit)
        return same and not commit.effects.sources

    def _waited(
        self, key: Key, facts: frozenset[PendingMma], wait: Instruction
    ) -> tuple[Key, frozenset[PendingMma]]:
        location, parity = self._location(key, wait), self._operand(key, wait.role("parity"))
        if location is None or location not in self.ask.own or parity not in (0, 1):
            return key, facts
        odd, behind = self._phase(key, location)
        completed_odd = parity == 0
        if behind == 1 and completed_odd is odd:
            left, done = 0, {(location, 0), (location, 1)}
        elif behind == 2 and completed_odd is not odd:
            left, done = 1, {(location, 1)}
        else:
            return key, facts
        phases = {**dict(key.phases), location: CommitPhase(odd, left)}
        facts = frozenset(fact for fact in facts if fact.tracked.isdisjoint(done))
        return key._replace(phases=frozenset(phases.items())), facts

    # ------------------------------------------------------------ numbers

    def _location(self, key: Key, instruction: Instruction) -> Location | None:
        operand = instruction.mbarrier
        if not isinstance(operand, Memory) or operand.extras:
            return None
        value = self._operand(key, operand.base)
        return (value[0], value[1] + operand.offset) if _is_address(value) else None

    @staticmethod
    def _operand(key: Key, operand: Operand | None) -> Value | None:
        if isinstance(operand, Immediate):
            return operand.value if isinstance(operand.value, int) else None
        if isinstance(operand, Symbol):
            return operand.name, operand.offset
        return dict(key.numbers).get(operand) if isinstance(operand, int) else None

    def _evaluated(self, key: Key, at: int, register: int) -> Value | None:
        """What an instruction writes to a register; None if that does not follow from numbers."""
        instruction = self.instructions[at]
        if not _computes(instruction):
            return None
        values = [self._operand(key, operand) for operand in instruction.operands[1:]]
        found = self._computed(instruction, register, values)
        if any(isinstance(value, Low) for value in values) and (found is None or isinstance(found, Low)):
            low = found or Low(0, 0)
            if self.ask.below(register, at, low.known, key.known):
                return low.bits
        return found

    def _computed(
        self, instruction: Instruction, register: int, values: Sequence[Value | None]
    ) -> Value | None:
        """What an instruction makes of such operands; None if it is not known."""
        match = instruction.match
        if match is None:
            return None
        name = match.form.compute
        if any(value is None for value in values):
            return None
        if any(map(_is_address, values)):
            return _symbolic(name, values) if name in _SYMBOLIC else None
        kind = self.function.registers[register].type
        numbers = [
            value.bits if isinstance(value, Low) else value
            for value in values
            if isinstance(value, (int, Low))
        ]
        try:
            pattern = COMPUTE[name](match.binding, *(n & (1 << 64) - 1 for n in numbers))
        except ZeroDivisionError:
            return None
        pattern = pattern & 1 if kind == ".pred" else widen(match.binding, pattern, type_width(kind))
        if not all(isinstance(value, int) for value in values):
            return _partial(name, values, pattern)
        counts = name == "add" and any(0 < n < MANY for n in numbers[1:]) and MANY <= pattern < 2 * MANY
        return Low(pattern % MANY, MANY.bit_length() - 1) if counts else pattern

    # ------------------------------------------------------------ edges

    def followed(self, key: Key, block: int) -> Iterator[tuple[Edge, Key]]:
        """The edges by which the thread may leave a block, each with its state then."""
        last = self.graph.blocks[block][-1]
        for edge in filter(lambda e: self.ask.enters(e.target), self.graph.successors[block]):
            truth = edge.value if edge.predicate < 0 else self._truth(key, edge.predicate, last)
            if truth is None:
                then = self._knowing(key, edge.predicate, last, edge.value)
            elif truth is edge.value:
                then = key
            else:
                continue
            yield edge, self._entering(self._equated(then, edge), edge.target)

    def _equated(self, key: Key, edge: Edge) -> Key:
        """The state after an edge that is taken only if two registers are equal: the number of one is that of the other."""
        equal = self.equated.get(edge)
        numbers = dict(key.numbers)
        if equal is None or numbers.keys().isdisjoint(equal) or all(each in numbers for each in equal):
            return key
        known, other = equal if equal[0] in numbers else equal[::-1]
        if other not in self.relevant:
            return key
        return key._replace(numbers=key.numbers | {(other, numbers[known])})

    def _equating(self) -> Iterator[tuple[Edge, tuple[int, int]]]:
        """The edges that are taken only if two registers of one width are equal, each with the registers."""
        for block in self.live:
            for edge in self.graph.successors[block]:
                writers = [
                    i for i in self.graph.blocks[block] if edge.predicate in self.instructions[i].writes
                ]
                pair = self._compared(writers[-1], edge.value) if edge.predicate >= 0 and writers else None
                later = range(writers[-1] + 1, self.graph.blocks[block].stop) if pair else ()
                if pair and not any(each in self.instructions[i].writes for i in later for each in pair):
                    yield edge, pair

    def _compared(self, at: int, truth: bool) -> tuple[int, int] | None:
        """The two registers that are equal if the predicate that an instruction writes has a value; None if it says no such thing."""
        instruction = self.instructions[at]
        match, operands = instruction.match, instruction.operands
        if match is None or instruction.guard >= 0 or match.form.compute != "setp" or "bool" in match.binding:
            return None
        if match.relation != ("eq" if truth else "ne") or not isinstance(operands[0], int):
            return None
        widths = [type_width(self.function.registers[r].type) for r in operands[1:] if isinstance(r, int)]
        if widths != [WORD, WORD] or type_width(match.element) != WORD:
            return None
        _, a, b = operands
        return (a, b) if isinstance(a, int) and isinstance(b, int) else None

    def _entering(self, key: Key, block: int) -> Key:
        """The state at the entry of a block: without what is not read any more, and with the counters that begin there."""
        live, numbers = self.live[block], dict(key.numbers)
        counters = dict(key.counters)
        for counter, register in self.ask.counters.get(block, ()):
            number = numbers.get(register)
            counters.pop(counter, None)
            if isinstance(number, (int, Low)):
                counters[counter] = number
        kept = frozenset(pair for pair in key.numbers if pair[0] in live)
        return key._replace(numbers=kept, counters=frozenset(counters.items()))


def _group(instruction: Instruction) -> str:
    return "" if instruction.match is None else instruction.match.binding.get("cta_group", "")


def _acts(instruction: Instruction) -> bool:
    """Whether an instruction does more than compute registers."""
    match = instruction.match
    return match is None or bool(match.form.event or match.form.memory or match.form.flow == "call")


def _computes(instruction: Instruction) -> bool:
    """Whether an instruction computes one register from its other operands, as integers."""
    match = instruction.match
    return (
        match is not None
        and not match.problem
        and match.form.compute in COMPUTE
        and len(instruction.writes) == 1
        and isinstance(instruction.operands[0], int)
        and not floating(match.modifiers)
    )


def _is_address(value: Value | None) -> TypeGuard[Location]:
    return isinstance(value, tuple) and not isinstance(value, Low)


def _partial(name: str, values: Sequence[Value | None], pattern: int) -> Value | None:
    """What is known of the result *pattern* of an operation on numbers of which only low bits are known."""
    known = min(value.known for value in values if isinstance(value, Low))
    first, last = values[0], values[-1]
    if name == "and" and isinstance(last, int) and 0 <= last < 1 << known:
        return pattern
    if name == "shr" and isinstance(last, int):
        known -= last
    elif name not in ("mov", "add", "sub", "xor", "or", "and") and not (
        name == "shl" and isinstance(last, int)
    ):
        return None
    return Low(pattern & (1 << known) - 1, known) if known > 0 and isinstance(first, (int, Low)) else None


def _symbolic(name: str, values: Sequence[Value | None]) -> Value | None:
    """The sum of an address and numbers, or a copy of an address; None for anything else."""
    bases = [value for value in values if _is_address(value)]
    numbers = [_signed(value) for value in values if isinstance(value, int)]
    if len(bases) != 1 or len(bases) + len(numbers) < len(values):
        return None
    if name == "sub" and (len(values) != 2 or values[0] != bases[0]):
        return None
    (base, offset) = bases[0]
    return base, offset + (-sum(numbers) if name == "sub" else sum(numbers))


def _signed(number: int) -> int:
    number &= (1 << 32) - 1
    return number - (1 << 32) if number >> 31 else number


# ---------------------------------------------------------------- the checker


def check_mma(
    function: Function, graph: Graph, certificate: MmaCertificate, questions: MmaQuestions
) -> frozenset[ProofObligation]:
    """The obligations of *function*, all of which *certificate* proves.

    Raises :class:`~tclint.verdicts.checker.Refused` if it does not.
    """
    return _Checker(function, graph, certificate, questions).run()


class _Checker:
    def __init__(
        self, function: Function, graph: Graph, certificate: MmaCertificate, questions: MmaQuestions
    ) -> None:
        self.function, self.graph = function, graph
        self.certificate, self.questions = certificate, questions
        self.instructions = function.instructions
        self.order = sorted(graph.reached((0,)))
        self.operations = operations(function, (i for b in self.order for i in graph.blocks[b]))
        self.needed = frozenset(self._needs())
        self.uses = {need.use for need in self.needed}

    def _needs(self) -> Iterator[ProofObligation]:
        """The obligations: what may follow an operation by the graph alone."""
        for b in self.order:
            issued = [i for i in self.graph.blocks[b] if i in self.operations]
            following = self.graph.reached(e.target for e in self.graph.successors[b]) if issued else ()
            for operation in issued:
                later = range(operation + 1, self.graph.blocks[b].stop)
                for use in (*later, *(i for after in following for i in self.graph.blocks[after])):
                    what = needs_at(self.instructions[operation], self.instructions[use])
                    yield from (ProofObligation(operation, use, each) for each in what)
                for end in {*following, b} & set(self.graph.exits):
                    yield ProofObligation(operation, self.graph.blocks[end][-1], "exit")

    def run(self) -> frozenset[ProofObligation]:
        claims = self.certificate.claims
        if set(claims) != self.needed:
            need = min(set(claims) ^ self.needed)
            raise Refused(need.use, "the certificate does not list the obligations of the kernel", need)
        for need, discharge in claims.items():
            by_state = (need.what, discharge) in (
                ("source", Discharge.DISJOINT),
                ("exit", Discharge.TRACKED),
            )
            decided = by_state or discharge in (Discharge.WAIT, Discharge.INFEASIBLE)
            if not decided and not self._decided(need, discharge):
                raise Refused(
                    need.use, "the operations are neither executed in order nor of other columns", need
                )
        for operation in self.operations:
            if not set(self.questions.threads(operation)) <= self.certificate.threads.keys():
                raise Refused(operation, "the certificate omits a thread that may issue the operation")
        for thread, states in self.certificate.threads.items():
            self._thread(Progress(self.function, self.graph, self.questions.thread(thread)), states)
        return self.needed

    def _decided(self, need: ProofObligation, discharge: Discharge) -> bool:
        """Whether an obligation holds although the operation may be pending."""
        first, then = self.instructions[need.operation], self.instructions[need.use]
        if need.what != "columns" or then.effects.begins is None:
            return False
        if discharge is Discharge.DISJOINT:
            return self.questions.disjoint(need.operation, need.use, False)
        ordered = in_order(first, then)
        if ordered is None:
            ordered = self.questions.accumulates(need.operation, need.use) and self.questions.disjoint(
                need.operation, need.use, True
            )
        return discharge is Discharge.ORDERED and ordered

    def _thread(self, progress: Progress, states: Sequence[State]) -> None:
        if Key() not in states[0]:
            raise Refused(0, "the certificate omits the entry of the kernel")
        for b in self.order:
            for key, facts in states[b].items():
                self._block(progress, b, key, facts, states)

    def _block(
        self, progress: Progress, block: int, key: Key, facts: frozenset[PendingMma], states: Sequence[State]
    ) -> None:
        """Verifies what follows from one state at the entry of a block."""
        now = [(key, facts)]
        sites = self.graph.blocks[block]
        for i in sites:
            for state, pending in now if i in self.uses else ():
                if pending and progress.executes(state, i) is not False:
                    self._use(i, pending, state)
            if i in progress.affecting:
                now = [later for state, pending in now for later in progress.after(state, pending, i)]
        for state, pending in now:
            if block in self.graph.exits and progress.executes(state, sites[-1]) is not False:
                for fact in pending:
                    need = ProofObligation(fact.site, sites[-1], "exit")
                    tracked = self.certificate.claims.get(need) is Discharge.TRACKED
                    self._require(() if tracked and fact.handed else (need,))
            for edge, then in progress.followed(state, block):
                claimed = states[edge.target].get(then)
                if claimed is None or not pending <= claimed:
                    raise Refused(
                        sites[-1], "the certificate omits a state in which a thread leaves this block"
                    )

    def _use(self, at: int, pending: Iterable[PendingMma], key: Key) -> None:
        use = self.instructions[at]
        for fact in pending:
            for what in needs_at(self.instructions[fact.site], use):
                need = ProofObligation(fact.site, at, what)
                disjoint = what == "source" and self.certificate.claims.get(need) is Discharge.DISJOINT
                if not disjoint or not self.questions.clear(fact.site, at, fact.counters, key.counters):
                    self._require((need,), ordered=what == "columns")

    def _require(self, needs: Iterable[ProofObligation], *, ordered: bool = False) -> None:
        """Refuses obligations of a pending operation, but those that hold although it is pending (:meth:`_decided`)."""
        for need in needs:
            if not ordered or self.certificate.claims.get(need) in (
                None,
                Discharge.WAIT,
                Discharge.INFEASIBLE,
            ):
                raise Refused(need.use, "nothing proves that the operation has completed", need)
