"""A register in every thread of a CTA, as the instructions on one path of the control-flow graph compute it.

The path is that of a world: at a join, the same edge for all registers; in a loop, as many back edges as the world has
iterations, whatever the branches decide. So a claim about a register that is to hold on all paths is tried on some that no
thread takes as well, and a value that only one of several paths defines is tried on each of a few.

What does not follow from the operands (a load from memory that threads may write, a vote, a call, an instruction that is not
modelled) is another edge value in each thread, so nothing that depends on it can pass for known.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from tclint.exact.scalar import (
    ScalarOperation,
    elected_lane,
    is_of_call,
    is_shuffle,
    operation,
    read_lane,
)
from tclint.exact.worlds import World
from tclint.ir.cfg import CFG
from tclint.ir.changes import Changes
from tclint.ir.nodes import (
    Immediate,
    Instruction,
    Memory,
    Not,
    Operand,
    OperandPair,
    Special,
    Symbol,
    Vector,
    registers,
)
from tclint.isa.effects import Exchange
from tclint.isa.special_registers import SPECIAL_REGISTERS, WARP, Scope
from tclint.isa.widths import width_of

__all__ = ["MAX_DEPTH", "Load", "Numbers", "TooDeep", "Vectors"]

MAX_DEPTH = 150
"""The longest chain of definitions that is followed."""
_EVERY = (1 << 64) - 1
Numbers = int | list[int]
"""One number of all threads, or that of each."""


class TooDeep(Exception):
    """A chain of more than ``MAX_DEPTH`` definitions."""


class Vectors:
    """The registers of one function in the threads of the CTA of one *world*."""

    def __init__(self, cfg: CFG, defs: dict[int, list[int]], world: World) -> None:
        self.cfg, self.defs, self.world, self.function = cfg, defs, world, cfg.function
        self.iterations, self.edge = world.number % 4, world.number // 4
        self.varies = False
        """Whether what was evaluated last may be different in another world."""
        self.open: set[int] = set()
        """The instructions whose results are not modelled, and that something was computed from."""
        self._known: dict[tuple[int, int, int], tuple[Numbers, bool]] = {}
        self._entries: dict[tuple[int, int, int], tuple[tuple[int, int] | None, bool]] = {}
        self._changes: dict[int, Changes] = {}
        self._operations: dict[tuple[int, int], ScalarOperation | None] = {}
        self._depth = 0

    def before(self, register: int, at: int) -> Numbers:
        """The register just before an instruction. Raises :class:`TooDeep`."""
        return self._read(register, at, self.iterations)

    # ------------------------------------------------------------ definitions

    def _read(self, register: int, at: int, iteration: int) -> Numbers:
        found = self._reaching(register, at, iteration)
        return self._arbitrary(("undefined", register)) if found is None else self._defined(register, *found)

    def _reaching(self, register: int, at: int, iteration: int) -> tuple[int, int] | None:
        """The definition that reaches *at* on the path of this world, and its iteration; None at the entry."""
        defs = self.defs.get(register)
        if not defs:
            return None
        if len(defs) == 1 and self.function.instructions[defs[0]].guard < 0:
            return defs[0], iteration
        block = self.cfg.block_of[at]
        last = bisect_left(defs, at) - 1
        if last >= 0 and defs[last] >= self.cfg.blocks[block].start:
            return defs[last], iteration
        return self._entry(register, block, iteration)

    def _entry(self, register: int, block: int, iteration: int) -> tuple[int, int] | None:
        """The definition that reaches the entry of a block."""
        key, cfg, defs = (register, block, iteration), self.cfg, self.defs[register]
        if key in self._entries:
            found, joined = self._entries[key]
            self.varies = self.varies or joined
            return found
        if register not in self._changes:
            self._changes[register] = Changes(cfg, {cfg.block_of[at] for at in defs})
        changes = self._changes[register]
        found, joined = None, False
        while True:
            if block in changes.joins:
                joined, sources = True, cfg.sources[block]
                before = [b for b in sources if cfg.rank[b] < cfg.rank[block]]
                back = [b for b in sources if b not in before]
                if back and (iteration or not before):
                    before, iteration = back, iteration - 1
                if not before or iteration < 0:
                    break
                block = before[self.edge % len(before)]
            else:
                above = changes.above(block)
                if above is None:
                    break
                block = above
            last = bisect_left(defs, cfg.blocks[block].end) - 1
            if last >= 0 and defs[last] >= cfg.blocks[block].start:
                found = defs[last], iteration
                break
        self._entries[key] = found, joined
        self.varies = self.varies or joined
        return found

    def _defined(self, register: int, at: int, iteration: int) -> Numbers:
        """The register just after the instruction *at*, which writes it."""
        key = register, at, iteration
        if key in self._known:
            found, varies = self._known[key]
            self.varies = self.varies or varies
            return found
        if self._depth >= MAX_DEPTH:
            raise TooDeep
        self._depth += 1
        outer, self.varies = self.varies, False
        try:
            instruction = self.function.instructions[at]
            found = self._result(instruction, register, at, iteration)
            if instruction.guard >= 0:
                guard = self._read(instruction.guard, at, iteration)
                found = self._selected(
                    guard, instruction.negated, found, self._previous(register, at, iteration)
                )
        finally:
            self._depth -= 1
        self._known[key] = found, self.varies
        self.varies = self.varies or outer
        return found

    def _previous(self, register: int, at: int, iteration: int) -> Numbers:
        """What a guarded definition leaves."""
        block, defs = self.cfg.block_of[at], self.defs[register]
        last = bisect_left(defs, at) - 1
        if last >= 0 and defs[last] >= self.cfg.blocks[block].start:
            return self._defined(register, defs[last], iteration)
        found = self._entry(register, block, iteration)
        return self._arbitrary(("undefined", register)) if found is None else self._defined(register, *found)

    def _selected(self, guard: Numbers, negated: bool, new: Numbers, old: Numbers) -> Numbers:
        if isinstance(guard, int):
            return new if bool(guard) is not negated else old
        news, olds = self._all(new), self._all(old)
        return [n if bool(g) is not negated else o for g, n, o in zip(guard, news, olds, strict=True)]

    def _all(self, numbers: Numbers) -> list[int]:
        return [numbers] * self.world.threads if isinstance(numbers, int) else numbers

    # ------------------------------------------------------------ results

    def _result(self, instruction: Instruction, register: int, at: int, iteration: int) -> Numbers:
        key = register, at
        if key not in self._operations:
            self._operations[key] = operation(self.function, instruction, register)
        found = self._operations[key]
        if found is not None:
            sources = [self._operand(o, at, iteration) for o in found.sources]
            try:
                return self._applied(found, sources)
            except ZeroDivisionError:  # unspecified (9.7.1.8)
                return self._arbitrary((register, at, iteration))
        match = instruction.match
        if match is None:
            self.open.add(at)
            return self._arbitrary((register, at, iteration))
        form = match.form
        if form.effects.exchange is Exchange.ELECT:
            return self._elected(instruction, register, at, iteration)
        if is_shuffle(match) and registers(instruction.operands[0])[0] == register:
            return self._shuffled(instruction, at, iteration)
        if form.memory and (match.space.startswith((".const", ".param"))) and self.function.entry:
            return self._loaded(instruction, register, at, iteration)
        self.open.add(at)
        return self._arbitrary((register, at, iteration))

    def _applied(self, found: ScalarOperation, sources: Sequence[Numbers]) -> Numbers:
        if all(isinstance(s, int) for s in sources):
            return found.compute(*sources)
        return list(map(found.compute, *map(self._all, sources)))

    def _operand(self, operand: Operand, at: int, iteration: int) -> Numbers:
        if isinstance(operand, int):
            return self._read(operand, at, iteration)
        if isinstance(operand, Immediate) and isinstance(operand.value, int):
            return operand.value & _EVERY
        if isinstance(operand, Special):
            return self._special(operand.name, at, iteration)
        if isinstance(operand, Symbol):
            self.varies = True
            return self.world.symbols.get(operand.name, 0) + operand.offset & _EVERY
        if isinstance(operand, Not):
            value = self._read(operand.register, at, iteration)
            return 1 - value if isinstance(value, int) else [1 - v for v in value]
        if isinstance(operand, Memory):
            base = self._operand(operand.base, at, iteration)
            if isinstance(base, int):
                return base + operand.offset & _EVERY
            return [b + operand.offset & _EVERY for b in base]
        self.open.add(at)
        return self._arbitrary((str(operand), at, iteration))

    def _special(self, name: str, at: int, iteration: int) -> Numbers:
        world, register = self.world, SPECIAL_REGISTERS[name]
        first = world.special(name, 0)
        if first is None:
            return self._arbitrary((name, at if register.varies else 0, iteration))
        if register.scope >= Scope.CTA:
            self.varies = True
            return first
        return [world.special(name, t) or 0 for t in range(world.threads)]

    def _elected(self, instruction: Instruction, register: int, at: int, iteration: int) -> Numbers:
        destination, mask = instruction.operands[0], self._operand(instruction.operands[1], at, iteration)
        if not isinstance(mask, int) or not mask & 0xFFFFFFFF:
            return self._arbitrary((register, at, iteration))
        lane = elected_lane(mask & 0xFFFFFFFF)
        if isinstance(destination, OperandPair) and destination.second == register:
            return [int(t % WARP == lane) for t in range(self.world.threads)]
        return lane

    def _shuffled(self, instruction: Instruction, at: int, iteration: int) -> Numbers:
        """What each lane reads of the lane that its index names (9.7.9.6)."""
        source, lane, bounds = (self._operand(o, at, iteration) for o in instruction.operands[1:4])
        if isinstance(source, int):
            return source
        found = list[int]()
        for t, (b, c) in enumerate(zip(self._all(lane), self._all(bounds), strict=True)):
            other = t // WARP * WARP + read_lane(t % WARP, b, c)
            found.append(source[other] if other < self.world.threads else 0)
        return found

    def _loaded(self, instruction: Instruction, register: int, at: int, iteration: int) -> Numbers:
        """A word of parameters or of constants."""
        match = instruction.match
        assert match is not None
        address = next((o for o in instruction.operands if isinstance(o, Memory)), None)
        if address is None or is_of_call(self.function, address, match.space):
            return self._arbitrary((register, at, iteration))
        place = self._operand(address, at, iteration)
        load = Load(self.world, instruction, register, width_of(self.function.registers[register].type))
        self.varies = True
        return load(place) if isinstance(place, int) else list(map(load, place))

    def _arbitrary(self, key: tuple[object, ...]) -> list[int]:
        """Another edge value in each thread."""
        self.varies = True
        drawn, wide = self.world.hash(*key), self.world.wide
        return [wide(drawn + t * 2654435761 >> 3) for t in range(self.world.threads)]


class Load:
    """Loads the element of a vector that *register* receives from memory that nothing writes."""

    def __init__(self, world: World, instruction: Instruction, register: int, width: int) -> None:
        match, destination = instruction.match, instruction.operands[0]
        assert match is not None
        kind = match.element
        self.world, self.space = world, match.space.partition("::")[0]
        self.bits, self.mask = width_of(kind), (1 << width) - 1
        self.signed = kind[1] == "s"
        items = destination.items if isinstance(destination, Vector) else (register,)
        self.offset = items.index(register) * self.bits // 8

    def __call__(self, address: int) -> int:
        found = self.world.memory(self.space, address + self.offset, self.bits // 8)
        if self.signed and found >> self.bits - 1:
            found |= -1 << self.bits
        return found & self.mask
