"""The lanes of a warp that hold one value in a register, so that to store it twice is to store it once.

A register is *invariant* under a bit of the lane number if the lanes that differ in that bit alone always hold the same
value. It is a fixpoint over all registers that a value depends on: an instruction that the whole warp executes together and
that computes from its operands alone keeps what all of them are invariant under. A commutative operation on x and the
value of x that ``shfl.bfly`` reads in the lane that differs in one bit adds this bit: both combine the same two. So the
result of a butterfly over all five bits is the same in all lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tclint.dataflow.kernel import Kernel
from tclint.ir.nodes import Immediate, Instruction, Vector, registers, specials
from tclint.isa.effects import Exchange, Resource
from tclint.isa.special_registers import SPECIAL_REGISTERS, WARP, Scope
from tclint.values import thread_masks as T
from tclint.values.nodes import CollectiveResult, Unmodelled
from tclint.verdicts.convergence import index_alone
from tclint.verdicts.uniform import MOVED, MOVES

__all__ = ["EVERY_BIT", "Lanes"]

EVERY_BIT = WARP - 1
"""All bits of a lane number."""
_ALL_LANES = 0xFFFFFFFF
_COMMUTATIVE = frozenset("add mul min max and or xor".split())
_OF_LANES = frozenset((Scope.WARP, Scope.CTA, Scope.CLUSTER, Scope.GRID))


class Lanes:
    """Which lanes hold one value, if *together* holds for the blocks that the threads of a warp execute together."""

    def __init__(self, model: Kernel, together: Callable[[int], bool]) -> None:
        self.model, self.values, self.together = model, model.values, together
        self.instructions, self.block_of = model.function.instructions, model.cfg.block_of
        self._indexed: dict[int, int] = {}

    def stored(self, site: int) -> int:
        """The bits of the lane number under which what a store writes is invariant, one bit for each."""
        instruction = self.instructions[site]
        match = instruction.match
        if match is None or not self.together(self.block_of[site]):
            return 0
        if instruction.effects.resource is Resource.TMEM_ALLOC:
            return EVERY_BIT  # the warp stores one address
        if match.form.name.split(".")[0] != "st":
            return 0
        source = instruction.named("b")
        if isinstance(source, Immediate):
            return EVERY_BIT
        if not isinstance(source, int | Vector):
            return 0
        known = self._solve(registers(source))
        return self._all(registers(source), site, known)

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
        known = dict.fromkeys(writers, EVERY_BIT)
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
        if match is None or match.problem or not self.together(self.block_of[at]):
            return 0
        guard = self._all([instruction.guard], at, known) if instruction.guard >= 0 else EVERY_BIT
        form = match.form
        if (
            form.effects.exchange is Exchange.SHUFFLE
            or form.effects.exchange is Exchange.VOTE
            or form.effects.exchange is Exchange.REDUCTION
        ):
            return guard & self._exchanged(register, instruction, at, known)
        if (
            form.event
            or form.flow
            or form.async_writes
            or (form.memory and not match.space.startswith((".const", ".param")))
        ):
            return 0
        if not form.memory and not form.from_operands and form.name.split(".")[0] not in MOVES:
            return 0
        if any(not self._same_in_warp(s.name) for s in specials(instruction.operands)):
            return guard & self._by_index(self.values.after(register, at))
        bits = self._all(instruction.reads, at, known)
        return guard & (bits | self._butterfly(instruction, at, known))

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
        step = self.values.constant_operand(lane, at)
        whole = self.values.constant_operand(width, at) == WARP - 1
        return step if whole and step is not None and 0 < step < WARP else None

    def _butterfly(self, instruction: Instruction, at: int, known: dict[int, int]) -> int:
        """The bits that a commutative operation on a register and its exchanged value adds to those of the register."""
        carries = instruction.match is not None and instruction.match.modes.sets_carry
        if instruction.root not in _COMMUTATIVE or carries or len(instruction.reads) != 2:
            return 0
        for own, other in (instruction.reads, instruction.reads[::-1]):
            node = self.values.node(self.values.before(other, at))
            if type(node) is not CollectiveResult and type(node) is not Unmodelled:
                continue
            site = node.site
            shuffle = self.instructions[site]
            source, step = (
                shuffle.named("a"),
                self._step(shuffle, site) if shuffle.effects.exchange is Exchange.SHUFFLE else None,
            )
            near = self.block_of[site] == self.block_of[at] and site < at and shuffle.guard < 0
            if step is None or step & (step - 1) or not near or not isinstance(source, int):
                continue
            mask = shuffle.role("mask")
            whole = (
                mask is not None
                and (self.values.constant_operand(mask, site) or 0) & _ALL_LANES == _ALL_LANES
            )
            if (
                whole
                and node.register == shuffle.writes[0]
                and self.values.before(source, site) == self.values.before(own, at)
            ):
                return self._all([own], at, known) | step
        return 0

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
