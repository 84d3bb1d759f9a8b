"""One thread at a time, executed from the entry along the path that its predicates select.

Only what decides branches and guards is executed: the instructions on which a predicate depends. A run counts if it ends,
and if no assumption of proofs ceases to hold before that: signed arithmetic does not wrap, and a truncated number fits in 32
bits (``no-overflow``). So one of more than ``MAX_BLOCKS`` blocks does not: a counter that starts past the end of its loop
wraps at last.

Memory that the kernel never writes has the numbers of the world, and so has what loads assume to be read-only; other memory
has another edge value at each load, apart from a word that ``tcgen05.alloc`` has written, which keeps it (``allocated``). A
lane reads of another one by ``shfl.sync.idx`` what that lane holds when it executes the instruction as often.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

from tclint._named_tuple import NamedTuple
from tclint.exact.scalar import elected_lane, is_of_call, is_shuffle, operation, read_lane
from tclint.exact.threads import Load
from tclint.exact.worlds import World
from tclint.ir.cfg import CFG
from tclint.ir.nodes import (
    Function,
    Immediate,
    Instruction,
    Memory,
    Not,
    Operand,
    OperandPair,
    Special,
    Symbol,
    registers,
)
from tclint.isa.accesses import StateSpace, Via
from tclint.isa.effects import Exchange, Resource
from tclint.isa.special_registers import SPECIAL_REGISTERS, WARP
from tclint.isa.widths import width_of

__all__ = ["MAX_BLOCKS", "PathClaim", "Runs"]

MAX_BLOCKS = 600
"""The blocks that a run executes."""
MAX_EXECUTED = 250_000
"""The instructions after which no further run is begun."""
MAX_STEPS, MIN_STEPS = 300_000, 50
"""The steps that all runs of one kernel compute for all queries, shared equally, and at least for each. A step is computed
once for a fact and an instruction."""
_EVERY = (1 << 64) - 1
_WRAPPING: Mapping[str, Callable[..., int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "mad": lambda a, b, c: a * b + c,
    "neg": lambda a: -a,
    "shl": lambda a, n: a << n,
}
"""Arithmetic that is assumed not to wrap."""
_FIELD = 32
"""A shift of a 64-bit number by this or more moves its lower half, as compilers do to extend its sign."""


class PathClaim(NamedTuple):
    """A claim that no path of any thread meets a goal: the same question as that of a search, whatever answered it."""

    start: int
    """The fact begins where a thread executes this instruction."""
    fact: Hashable
    step: Callable[[Any, int, Instruction], Hashable]
    """The fact after a relevant instruction that is executed; None if it ends there."""
    goal: Callable[[Any, int], bool]
    """Whether the fact and the instruction, which is executed next, meet the goal."""
    relevant: frozenset[int]
    """The instructions that may change the fact or meet the goal."""


class _Try:
    """A query, and what is known of it."""

    def __init__(self, query: PathClaim, left: int) -> None:
        self.query = query
        self.left = left
        """How many steps may still be computed."""
        self.runs = 0
        """The runs that counted and followed the query to their end."""
        self.known = dict[tuple[Any, int], Any]()
        """A fact and a relevant instruction -> the fact after it, None if it ends there, the query if the goal is met."""


class Stopped(Exception):
    """The run does not count: an assumption does not hold, or the other lane never gets there."""


class _Step(NamedTuple):
    """An instruction of the slice, or one that a query names."""

    site: int
    guard: int
    negated: bool
    execute: Callable[[_Thread], None] | None
    marked: bool


class Runs:
    """The threads of launches of one kernel, as far as the instructions *marked* and the branches to them depend on them."""

    def __init__(self, cfg: CFG, defs: Mapping[int, Sequence[int]], marked: Collection[int]) -> None:
        self.cfg, self.function, self.defs, self.marked = cfg, cfg.function, defs, frozenset(marked)
        self.executed = 0
        """The instructions of all runs so far."""
        self.fewest: tuple[PathClaim, int] | None = None
        """The query that the fewest runs tried when it was last asked, and their number."""
        self.written = self._written()
        self.sliced = self._slice()
        self.steps = {b: self._compiled(b) for b in cfg.order}
        self.edges = {b: cfg.successors[b] for b in cfg.order}

    def refuted(
        self, queries: Sequence[PathClaim], worlds: Iterable[World], wanted: int
    ) -> tuple[PathClaim, World, int] | None:
        """The first of *queries* whose goal a thread meets, with the world and the thread; None if none does.

        One thread of each of *worlds* is executed until *wanted* runs have counted.
        """
        tries = [_Try(query, max(MAX_STEPS // len(queries), MIN_STEPS)) for query in queries]
        by_start: dict[int, list[_Try]] = {}
        for each in tries:
            by_start.setdefault(each.query.start, []).append(each)
        ended = 0
        for world in worlds:
            thread = self._chosen(world)
            trace = _Thread(self, world, thread, {}).trace()
            if trace is not None:
                met = self._met(trace, by_start)
                if met is not None:
                    return met, world, thread
                ended += 1
                for each in tries:
                    each.runs += each.left > 0
            if ended == wanted or self.executed > MAX_EXECUTED:
                break
        least = min(tries, key=lambda each: each.runs)
        self.fewest = least.query, least.runs
        return None

    def _met(self, trace: list[int], by_start: Mapping[int, list[_Try]]) -> PathClaim | None:
        """The first query whose goal is met on a path."""
        instructions = self.function.instructions
        following = dict[int, tuple[_Try, Any]]()
        for site in trace:
            for key, (each, fact) in list(following.items()):
                query = each.query
                if site not in query.relevant:
                    continue
                if (fact, site) not in each.known:
                    met = query.goal(fact, site)
                    each.known[fact, site] = query if met else query.step(fact, site, instructions[site])
                    each.left -= 1
                after = each.known[fact, site]
                if after is query:
                    return each.query
                if after is None or each.left <= 0:
                    del following[key]
                elif after is not fact:
                    following[key] = each, after
            for each in by_start.get(site, ()):
                if each.left > 0:
                    following[id(each)] = each, each.query.fact
        return None

    @staticmethod
    def _chosen(world: World) -> int:
        """The thread of a world: the first lane of a warp in most of them, so that each warp has its turn."""
        warps = max(world.threads // WARP, 1)
        lane = (0, 0, 0, 1, WARP - 1)[world.number % 5]
        return min(world.number * 7 % warps * WARP + lane, world.threads - 1)

    # ------------------------------------------------------------ the slice

    def _slice(self) -> frozenset[int]:
        """The instructions on which a branch or the guard of a marked instruction depends."""
        instructions, cfg = self.function.instructions, self.cfg
        work = [instructions[i].guard for i in self.marked]
        for b in cfg.order:
            last = instructions[cfg.blocks[b].end - 1]
            if len(cfg.successors[b]) + (b in cfg.exits) > 1:
                work += [last.guard, *(last.reads if last.flow == "branch-table" else ())]
        found, seen = set[int](), set[int]()
        while work:
            register = work.pop()
            if register < 0 or register in seen:
                continue
            seen.add(register)
            for at in self.defs.get(register, ()):
                if at not in found and cfg.block_of[at] in cfg.rank:
                    found.add(at)
                    work += [*instructions[at].reads, instructions[at].guard]
        allocations = (
            i for i in range(len(instructions)) if instructions[i].effects.resource is Resource.TMEM_ALLOC
        )
        return frozenset(found.union(allocations))

    def _written(self) -> frozenset[str]:
        """The state spaces that the kernel may write, "" among them if an address is generic; but not by an allocation."""
        found = set[str]()
        for use in self.function.uses:
            match = use.match
            if match is None or match.form.effects.resource is Resource.TMEM_ALLOC:
                continue
            if match.form.flow == "call":
                found.add("")
            data = (a for a in match.accesses if a.writes and not a.object and a.via is not Via.HANDLE)
            spaces = {a.space for a in data} - {StateSpace.REGISTERS, StateSpace.TENSOR}
            found.update(space.value and f".{space.value}" for space in spaces)
        return frozenset(found)

    def _compiled(self, block: int) -> list[_Step]:
        instructions, found = self.function.instructions, []
        for i in range(self.cfg.blocks[block].start, self.cfg.blocks[block].end):
            if i in self.sliced or i in self.marked:
                instruction = instructions[i]
                execute = self._execution(instruction, i) if i in self.sliced else None
                found.append(_Step(i, instruction.guard, instruction.negated, execute, i in self.marked))
        return found

    def _execution(self, instruction: Instruction, at: int) -> Callable[[_Thread], None]:
        if instruction.effects.resource is Resource.TMEM_ALLOC:
            return lambda thread: thread.allocate(instruction, at)
        parts = [self._part(instruction, register, at) for register in instruction.writes]

        def execute(thread: _Thread) -> None:
            found = [part(thread) for part in parts]
            for register, number in zip(instruction.writes, found, strict=True):
                thread.registers[register] = number

        return execute

    def _part(self, instruction: Instruction, register: int, at: int) -> Callable[[_Thread], int]:
        """What computes one of the registers that an instruction writes."""
        function = self.function
        width = width_of(function.registers[register].type)
        found, match = operation(function, instruction, register), instruction.match
        if found is not None:
            sources = [self._reader(o) for o in found.sources]
            may_wrap = _wrapping(instruction, width)

            def compute(thread: _Thread) -> int:
                numbers = [read(thread) for read in sources]
                if may_wrap(*numbers):
                    raise Stopped
                try:
                    return found.compute(*numbers)
                except ZeroDivisionError:  # unspecified (9.7.1.8)
                    return thread.arbitrary(at, register, width)

            return compute
        if match is None:
            return lambda thread: thread.arbitrary(at, register, width)
        if match.form.effects.exchange is Exchange.ELECT:
            return self._elected(instruction, register)
        first = registers(instruction.operands[0])[:1] if instruction.operands else ()
        if is_shuffle(match) and first == (register,):
            return self._shuffled(instruction, at)
        address = next((o for o in instruction.operands if isinstance(o, Memory)), None)
        reads = match.form.memory and all(verb == "read" for verb, _ in match.form.memory)
        if reads and address is not None and not is_of_call(function, address, match.space):
            space, place = match.space.partition("::")[0], self._reader(address)
            fixed = space in (".param", ".const") or match.modes.read_only
            kept = fixed or not (self.written & {space, ""} or (not space and self.written))

            def load(thread: _Thread) -> int:
                loading, number = Load(thread.world, instruction, register, width), place(thread)
                word = thread.allocated.get(number + loading.offset)
                if word is not None and space in (".shared", ""):
                    return word & (1 << width) - 1
                return loading(number) if kept else thread.arbitrary(at, register, width)

            return load
        return lambda thread: thread.arbitrary(at, register, width)

    def _reader(self, operand: Operand) -> Callable[[_Thread], int]:
        """What reads an operand; what it is cannot be known of some, which are arbitrary."""
        if isinstance(operand, int):
            register: int = operand
            return lambda thread: thread.registers[register]
        if isinstance(operand, Immediate) and isinstance(operand.value, int):
            number = operand.value & _EVERY
            return lambda thread: number
        if isinstance(operand, Special):
            name = operand.name
            return lambda thread: thread.special(name)
        if isinstance(operand, Symbol):
            symbol = operand
            return lambda thread: thread.world.symbols.get(symbol.name, 0) + symbol.offset & _EVERY
        if isinstance(operand, Not):
            negated = operand.register
            return lambda thread: 1 - thread.registers[negated]
        if isinstance(operand, Memory):
            base, offset = self._reader(operand.base), operand.offset
            return lambda thread: base(thread) + offset & _EVERY
        return lambda thread: thread.arbitrary(-1, -1, 64)

    def _elected(self, instruction: Instruction, register: int) -> Callable[[_Thread], int]:
        destination, mask = instruction.operands[0], self._reader(instruction.operands[1])
        elects = isinstance(destination, OperandPair) and destination.second == register

        def elect(thread: _Thread) -> int:
            members = mask(thread) & 0xFFFFFFFF or 1
            lane = elected_lane(members)
            return int(thread.number % WARP == lane) if elects else lane

        return elect

    def _shuffled(self, instruction: Instruction, at: int) -> Callable[[_Thread], int]:
        """What a lane reads of the lane that its index names, among lanes without segments (9.7.9.6)."""
        source, lane, bounds = (self._reader(o) for o in instruction.operands[1:4])

        def shuffle(thread: _Thread) -> int:
            own = thread.number % WARP
            other = read_lane(own, lane(thread), bounds(thread))
            return thread.received(at, source(thread), thread.number - own + other)

        return shuffle


def _wrapping(instruction: Instruction, width: int) -> Callable[..., bool]:
    """Whether an instruction computes a number that no-overflow excludes, of its operands."""
    match = instruction.match
    assert match is not None
    types = match.types
    name = match.form.compute
    bits = width_of(types[0]) if types else width
    if name == "cvt" and len(types) == 2 and width_of(types[0]) == 32 and width_of(types[1]) == 64:
        return lambda a, *_: not -1 << 31 <= _signed(a, 64) < 1 << 32
    plain = not match.modes.widens and not match.modes.upper_half and not match.modes.saturates
    exact = _WRAPPING.get(name)
    if exact is None or not plain or bits < 32:
        return lambda *_: False
    low, high = -1 << bits - 1, 1 << bits - 1
    if name == "shl":
        return lambda a, n: n < (_FIELD if bits == 64 else bits) and not low <= _signed(a, bits) << n < high
    return lambda *numbers: not low <= exact(*(_signed(n, bits) for n in numbers)) < high


def _signed(number: int, bits: int) -> int:
    number &= (1 << bits) - 1
    return number - (number >> bits - 1 << bits)


class _Registers(dict[int, int]):
    """The registers of a thread; one that nothing has written holds an edge value."""

    def __init__(self, function: Function, world: World) -> None:
        super().__init__()
        self.function, self.world = function, world

    def __missing__(self, register: int) -> int:
        width = width_of(self.function.registers[register].type)
        found = self[register] = self.world.wide(self.world.hash("undefined", register)) & (1 << width) - 1
        return found


class _Thread:
    """One thread of one launch, with the other lanes of its warp as far as it asks for what they hold."""

    def __init__(self, runs: Runs, world: World, number: int, lanes: dict[int, _Thread]) -> None:
        self.runs, self.world, self.number, self.lanes = runs, world, number, lanes
        lanes[number] = self
        self.registers = _Registers(runs.function, world)
        self.allocated = dict[int, int]()
        """The address of a word in shared memory -> the address of tensor memory that an allocation has written there."""
        self.sent = dict[int, list[int]]()
        """Exchange -> what the thread held at each execution."""
        self.visits = 0
        self._trace = list[int]()
        self._block, self._next, self._blocks = 0, 0, 0
        self._ended = self._stopped = False
        self._specials = dict[str, int]()

    def trace(self) -> list[int] | None:
        """The marked instructions that the thread executes, in their order; None if the run does not count."""
        while not self._ended:
            self._advance()
        return None if self._stopped else self._trace

    def received(self, at: int, own: int, other: int) -> int:
        """What the thread *other* holds where it executes an exchange as often as this one, which now holds *own*."""
        mine = self.sent.setdefault(at, [])
        mine.append(own)
        if other == self.number or other >= self.world.threads:
            return own
        lane = self.lanes.get(other) or _Thread(self.runs, self.world, other, self.lanes)
        while len(lane.sent.get(at, ())) < len(mine):
            if lane._ended:
                raise Stopped  # the lane has another path, so the result is undefined (9.7.9.6)
            lane._advance()
        return lane.sent[at][len(mine) - 1]

    def _advance(self) -> None:
        """Execute the next step, or leave the block."""
        steps = self.runs.steps[self._block]
        try:
            if self._next < len(steps):
                step = steps[self._next]
                self._next += 1
                if step.guard < 0 or bool(self.registers[step.guard]) is not step.negated:
                    if step.marked:
                        self._trace.append(step.site)
                    if step.execute is not None:
                        self.visits += 1
                        self.runs.executed += 1
                        step.execute(self)
                return
            self._leave()
        except Stopped:
            self._ended = self._stopped = True

    def _leave(self) -> None:
        runs, block = self.runs, self._block
        last = runs.function.instructions[runs.cfg.blocks[block].end - 1]
        taken = last.guard < 0 or bool(self.registers[last.guard]) is not last.negated
        self._next, self._blocks = 0, self._blocks + 1
        case = -1
        if self._blocks == MAX_BLOCKS:
            raise Stopped
        if last.flow == "branch-table" and taken:
            index = next((o for o in last.operands if isinstance(o, int)), -1)
            case = self.registers[index] if index >= 0 else -1
        for edge in runs.edges[block]:
            holds = edge.predicate < 0 or bool(self.registers[edge.predicate]) is edge.value
            if holds and edge.case in (-1, case):
                self._block = edge.target
                return
        self._ended = True

    def special(self, name: str) -> int:
        """What the thread reads from a special register."""
        if name not in self._specials:
            found = self.world.special(name, self.number)
            if found is None:
                return self.arbitrary(-2, self.visits, 64) if SPECIAL_REGISTERS[name].varies else self.number
            self._specials[name] = found
        return self._specials[name]

    def arbitrary(self, at: int, register: int, width: int) -> int:
        """Another edge value at each execution."""
        drawn = self.world.hash(at, register, self.visits, self.number // WARP)
        return self.world.wide(drawn) & (1 << width) - 1 if width > 1 else drawn >> 5 & 1

    def allocate(self, instruction: Instruction, at: int) -> None:
        """``tcgen05.alloc`` writes an address to a word of shared memory."""
        destination = instruction.role("destination")
        if destination is not None:
            place = self.runs._reader(destination)(self)
            self.allocated[place] = self.world.hash("allocated", at, self.visits) % 16 * 32
