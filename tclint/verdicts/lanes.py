"""The lanes of a warp that hold one value in a register, so that to store it twice is to store it once.

A register is *invariant* under a bit of the lane number if the lanes that differ in that bit alone always hold the same
value. It is a fixpoint over all registers that a value depends on: an instruction that the whole warp executes together and
that computes from its operands alone keeps what all of them are invariant under. A commutative operation on x and the
value of x that ``shfl.bfly`` reads in the lane that differs in one bit adds this bit: both combine the same two. So the
result of a butterfly over all five bits is the same in all lanes.

What a warp does not execute together, two lanes do if what decides the branches to it is invariant under the bit in which they
differ: both take the same path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import permutations

from tclint._named_tuple import NamedTuple
from tclint.dataflow.kernel import Kernel
from tclint.ir.nodes import Immediate, Instruction, Vector, registers, specials
from tclint.isa.effects import Exchange, Resource
from tclint.isa.special_registers import SPECIAL_REGISTERS, WARP, Scope
from tclint.values import thread_masks as T
from tclint.values.integers import type_width
from tclint.values.nodes import CollectiveResult, Opaque, Packed, PartOf, Unmodelled
from tclint.verdicts.convergence import index_alone
from tclint.verdicts.uniform import MOVED, MOVES

__all__ = ["EVERY_BIT", "Lanes"]

EVERY_BIT = WARP - 1
"""All bits of a lane number."""
_ALL_LANES = 0xFFFFFFFF
_INTEGERS = frozenset(f".{sign}{width}" for sign in "us" for width in (8, 16, 32, 64))
_WIDTH = 32
"""The bits of a value that ``shfl`` exchanges."""
_COMMUTATIVE = frozenset("add mul min max and or xor".split())
_OF_LANES = frozenset((Scope.WARP, Scope.CTA, Scope.CLUSTER, Scope.GRID))


class _Part(NamedTuple):
    """Some bits of a value."""

    at: int
    width: int


def _converted(node: Opaque) -> tuple[int, int] | None:
    """The widths of the result and of the operand of a conversion between integers; None for anything else."""
    if node.name != "cvt" or len(node.modifiers) != 2 or not _INTEGERS.issuperset(node.modifiers):
        return None
    return type_width(node.modifiers[0]), type_width(node.modifiers[1])


class Lanes:
    """Which lanes hold one value, if *together* holds for the blocks that the threads of a warp execute together, *deciding* names
    the blocks whose branches decide another one, as far as they may differ in a warp, and *unchanging* holds for the loads from
    memory that no thread writes while the kernel runs."""

    def __init__(
        self,
        model: Kernel,
        together: Callable[[int], bool],
        deciding: Callable[[int], Sequence[int]],
        unchanging: Callable[[int], bool],
    ) -> None:
        self.model, self.values, self.together, self.deciding = model, model.values, together, deciding
        self.unchanging = unchanging
        self.instructions, self.block_of = model.function.instructions, model.cfg.block_of
        self._indexed: dict[int, int] = {}

    def stored(self, site: int) -> int:
        """The bits of the lane number under which what a store writes is invariant, one bit for each."""
        instruction = self.instructions[site]
        match = instruction.match
        if match is None:
            return 0
        if instruction.effects.resource is Resource.TMEM_ALLOC:
            # The warp stores one address.
            return EVERY_BIT if self.together(self.block_of[site]) else 0
        source = instruction.named("b")
        if match.form.name.split(".")[0] != "st" or not isinstance(source, Immediate | int | Vector):
            return 0
        read = () if isinstance(source, Immediate) else tuple(registers(source))
        known = self._solve((*read, *self._guards(self.block_of[site])))
        return self._all(read, site, known) & self._in_step(self.block_of[site], known)

    def _guards(self, block: int) -> Iterator[int]:
        """The predicates of the branches that decide *block* and may differ in a warp."""
        ends = (self.model.cfg.blocks[b].end - 1 for b in self.deciding(block))
        return (self.instructions[i].guard for i in ends if self.instructions[i].guard >= 0)

    def _in_step(self, block: int, known: dict[int, int]) -> int:
        """The bits in which lanes may differ that execute *block* equally often, by the same paths."""
        bits = EVERY_BIT
        for b in self.deciding(block):
            last = self.model.cfg.blocks[b].end - 1
            end = self.instructions[last]
            bits &= (
                self._all([end.guard], last, known) if end.guard >= 0 and end.flow != "branch-table" else 0
            )
        return bits

    def _solve(self, wanted: Iterable[int]) -> dict[int, int]:
        """The greatest solution for the registers on which *wanted* depend."""
        writers: dict[int, list[int]] = {}
        work = list(wanted)
        while work:
            register = work.pop()
            if register not in writers:
                writers[register] = [
                    i for i in self.values.defs.get(register, ()) if self.block_of[i] in self.model.cfg.rank
                ]
                for i in writers[register]:
                    instruction = self.instructions[i]
                    work += [r for r in (*instruction.reads, instruction.guard) if r >= 0]
                    work += self._guards(self.block_of[i])
        known = {register: EVERY_BIT if sites else 0 for register, sites in writers.items()}
        changed = True
        while changed:
            changed = False
            for register, sites in writers.items():
                for i in sites:
                    bits = known[register] & self._written(register, i, known)
                    if bits != known[register]:
                        known[register], changed = bits, True
        return known

    def _all(self, read: Iterable[int], at: int, known: dict[int, int]) -> int:
        bits = EVERY_BIT
        for register in read:
            bits &= known.get(register, 0) | self._by_index(self.values.before(register, at))
        return bits

    def _written(self, register: int, at: int, known: dict[int, int]) -> int:
        """The bits under which what an instruction writes is invariant."""
        instruction = self.instructions[at]
        match = instruction.match
        if match is None or match.problem:
            return 0
        together = self.together(self.block_of[at])
        guard = EVERY_BIT if together else self._in_step(self.block_of[at], known)
        if instruction.guard >= 0:
            guard &= self._all([instruction.guard], at, known)
        form = match.form
        if (
            form.effects.exchange is Exchange.SHUFFLE
            or form.effects.exchange is Exchange.VOTE
            or form.effects.exchange is Exchange.REDUCTION
        ):
            return guard & self._exchanged(register, instruction, at, known) if together else 0
        if form.event or form.flow or form.async_writes:
            return 0
        if form.memory and not self.unchanging(at):
            return 0
        if not form.memory and not form.from_operands and form.name.split(".")[0] not in MOVES:
            return 0
        if any(not self._same_in_warp(s.name) for s in specials(instruction.operands)):
            return guard & self._by_index(self.values.after(register, at))
        bits = self._all(instruction.reads, at, known)
        return guard & (bits | (self._butterfly(instruction, at, known) if together else 0))

    @staticmethod
    def _same_in_warp(name: str) -> bool:
        register = SPECIAL_REGISTERS.get(name)
        return (
            register is not None and not register.varies and name not in MOVED and register.scope in _OF_LANES
        )

    def _exchanged(self, register: int, instruction: Instruction, at: int, known: dict[int, int]) -> int:
        """The bits of a result that lanes exchange, if all of the warp take part."""
        match, mask = instruction.match, instruction.role("mask")
        number = None if mask is None else self.values.constant_operand(mask, at)
        if (
            match is None
            or number is None
            or number & _ALL_LANES != _ALL_LANES
            or register != instruction.writes[0]
        ):
            return 0
        if match.form.effects.exchange is not Exchange.SHUFFLE:
            return EVERY_BIT
        lane = self._step(instruction, at)
        source = instruction.named("a")
        return self._all([source], at, known) if lane is not None and isinstance(source, int) else 0

    def _step(self, shuffle: Instruction, at: int) -> int | None:
        """The bits in which the lanes differ that a ``shfl.bfly`` of the whole warp connects; None for another one."""
        match, lane, width = shuffle.match, shuffle.named("b"), shuffle.named("c")
        if match is None or match.shuffle != "bfly" or lane is None or width is None:
            return None
        if (self.model.function.threads or WARP) % WARP:
            return None  # a lane that does not exist has no value (9.7.9.6)
        step = self.values.constant_operand(lane, at)
        whole = self.values.constant_operand(width, at) == WARP - 1
        return step if whole and step is not None and 0 < step < WARP else None

    def _butterfly(self, instruction: Instruction, at: int, known: dict[int, int]) -> int:
        """The bits under which the result of a commutative operation is invariant because its operands include a register and
        its exchanged value; 0 if they do not."""
        carries = instruction.match is not None and instruction.match.modes.sets_carry
        if instruction.root not in _COMMUTATIVE or carries or len(instruction.reads) < 2:
            return 0
        for own, other, *rest in permutations(instruction.reads):  # the maximum of three is one, too
            widths = {self._register_width(own), self._register_width(other)}
            step = self._between(self.values.before(own, at), self.values.before(other, at), widths, at)
            if step:
                return (self._all([own], at, known) | step) & self._all(rest, at, known)
        return 0

    def _between(self, own: int, other: int, widths: set[int], at: int) -> int:
        """The bit in which two lanes differ if *other*, as read by an instruction *at*, is *own* in the other one of them; else 0.

        *widths* are the bits of the two values.
        """
        packed = self.values.node(other)
        if type(packed) is Packed:
            if {packed.width * len(packed.operands)} != widths:
                return 0
            parts = ((self.values.part(i, packed.width, own), o) for i, o in enumerate(packed.operands))
            steps = {self._between(*each, {packed.width}, at) for each in parts}
            return steps.pop() if len(steps) == 1 else 0
        part, whole = self._part(other)
        node = self.values.node(whole)
        if part is not None and {part.width} != widths:
            return 0  # a register has bits beyond the part
        if type(node) is not CollectiveResult and type(node) is not Unmodelled:
            return 0
        site = node.site
        shuffle = self.instructions[site]
        step = self._step(shuffle, site) if shuffle.effects.exchange is Exchange.SHUFFLE else None
        source, mask = shuffle.named("a"), shuffle.role("mask")
        near = self.block_of[site] == self.block_of[at] and site < at and shuffle.guard < 0
        if step is None or step & (step - 1) or not near or not isinstance(source, int) or mask is None:
            return 0
        full = (self.values.constant_operand(mask, site) or 0) & _ALL_LANES == _ALL_LANES
        same = self._is_part(own, part, self.values.before(source, site))
        return step if full and same and node.register == shuffle.writes[0] else 0

    def _part(self, value: int) -> tuple[_Part | None, int]:
        """The part of another value that *value* is, and that one; None and itself if it is not known to be one."""
        node = self.values.node(value)
        if type(node) is PartOf:
            return _Part(node.index, node.width), node.whole
        if type(node) is Opaque and (widths := _converted(node)) is not None and widths[0] <= widths[1]:
            return _Part(0, widths[0]), node.operands[0]
        return None, value

    def _is_part(self, value: int, part: _Part | None, whole: int) -> bool:
        """Whether *value* is this *part* of *whole*, which packs it or extends it; without a part, all of it."""
        if part is None:
            return value == whole
        node = self.values.node(whole)
        if type(node) is Packed:
            return node.width == part.width and node.operands[part.at] == value
        return (
            type(node) is Opaque
            and _converted(node) == (_WIDTH, part.width)
            and not part.at
            and node.operands[0] == value
        )

    def _register_width(self, register: int) -> int:
        """The bits of a register."""
        return type_width(self.model.function.registers[register].type)

    def _by_index(self, value: int) -> int:
        """The bits under which a value that the index of the thread alone decides is invariant; 0 for another one."""
        if value not in self._indexed:
            planes = self.values.bit_slices(value) if index_alone(self.values, value) else None
            bits, every = 0, T.full(self.values.threads)
            for step in (1, 2, 4, 8, 16) if planes is not None else ():
                low = sum(1 << lane for lane in range(self.values.threads) if not lane & step)
                if all((p >> step ^ p) & low & every == 0 for p in planes or ()):
                    bits |= step
            self._indexed[value] = bits
        return self._indexed[value]
