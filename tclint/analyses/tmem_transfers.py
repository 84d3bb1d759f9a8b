"""Loads and stores of tensor memory that one thread has in flight (PTX ISA 9.7.16.8).

Each is in flight until ``tcgen05.wait``. A load also ends when its registers are used, but for
:class:`TransfersByLetter`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum

from tclint._named_tuple import NamedTuple
from tclint.analyses.model import KernelModel
from tclint.analyses.tensor_memory import TensorMemory, concerns
from tclint.dataflow.solver import Analysis
from tclint.ir.cfg import Edge
from tclint.ir.nodes import Instruction, registers
from tclint.isa.effects import TCGEN05_LD, TENSOR_MEMORY
from tclint.isa.forms import Match
from tclint.sync.operations import OPEN, step

__all__ = ["TmemTransfers", "TransferStatus", "Transfers", "TransfersByLetter", "TransfersState", "computes"]

TransfersState = int
"""The loads and stores in flight, a set of them for each :class:`TransferStatus`, the first one in the lowest bits."""


class TransferStatus(IntEnum):
    """What has been done with the registers of a load; a store is always ``ISSUED``."""

    ISSUED = 0
    """Neither waited for, nor used."""
    COPIED = 1
    """They were moved or packed, and not used otherwise: ptxas may have eliminated the move."""
    USED = 2
    """A value was computed from them in the same block: ptxas may sink the computation below a signal."""


def computes(match: Match | None) -> bool:
    """Whether the instruction only computes registers from registers: ptxas may move it past stores and signals."""
    if match is None:
        return False
    form = match.form
    return not (form.event or form.flow or form.memory or form.async_reads or form.async_writes)


class _Effect(NamedTuple):
    """What an instruction does to the state."""

    ended: TransfersState
    made: TransfersState
    copied: int
    """The loads whose registers it moves or packs."""
    used: int
    """The loads from whose registers it computes a value."""


class Transfers(Analysis[TransfersState]):
    """Loads and stores as bit sets: in a kernel that loads an accumulator piece by piece, many are in flight."""

    uses_complete = True
    """Whether a load is complete when its registers are used, as on hardware."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        memory = model.fact(TensorMemory)
        self.loads, self.stores = memory.loads, memory.stores
        self.order = [*sorted(self.loads), *sorted(self.stores)]
        """The loads and stores, in the order of their bits."""
        self.bits = {site: 1 << at for at, site in enumerate(self.order)}
        """Load or store -> its bit in a set of them."""
        self.filled: dict[int, int] = {}
        """Register -> the set of loads that write it, or write a register that it is copied from."""
        for site in self.loads:
            operand = model.instruction(site).role("destination")
            for register in registers(operand) if operand is not None else ():
                self.filled[register] = self.filled.get(register, 0) | self.bits[site]
        self._copy()
        self.derived = self._computed() if self.uses_complete else {}
        """Register -> the set of loads that it is loaded or computed from, if a use completes them. One value may be
        computed from many."""
        self._effects: dict[int, _Effect] = {}
        self._barred: dict[Edge, tuple[int, int]] = {}
        """Edge -> the loads and stores that were tested, and those whose threads never take it."""

    def _copy(self) -> None:
        """Adds the copies of loaded registers. A ``mov``, packing included, renames: using the copy uses the load."""
        if not self.filled:
            return
        instructions = self.model.function.instructions
        uses = (use.sites for use in self.model.function.uses if use.sites)
        moves = [instructions[i] for sites in uses if instructions[sites[0]].moves for i in sites]
        filled, grown = self.filled, True
        while grown:
            grown = False
            for move in moves:
                loads = 0
                for register in move.reads:
                    loads |= filled.get(register, 0)
                for register in move.writes if loads else ():
                    known = filled.get(register, 0)
                    if loads & ~known:
                        filled[register] = known | loads
                        grown = True

    def _computed(self) -> dict[int, int]:
        """The registers computed from loads. One pass suffices, as values computed in an earlier block do not count."""
        derived = self.filled.copy()
        for instruction in self.model.function.instructions if derived else ():
            taken = derived.get(instruction.guard, 0)
            for register in instruction.reads:
                if register in derived:
                    taken |= derived[register]
            if taken and computes(instruction.match):
                for register in instruction.writes:
                    derived[register] = derived.get(register, 0) | taken
        return derived

    def takes(self, instruction: Instruction) -> int:
        """The set of loads whose results, or values computed from them, an instruction reads."""
        derived = self.derived
        taken = derived.get(instruction.guard, 0)
        for register in instruction.reads:
            if register in derived:
                taken |= derived[register]
        return taken

    # ------------------------------------------------------------ states

    def set_of(self, sites: Iterable[int]) -> int:
        return sum(map(self.bits.__getitem__, {*sites}))

    def members(self, some: int) -> Iterator[int]:
        """The loads and then the stores of a set, each in program order."""
        while some:
            yield self.order[(some & -some).bit_length() - 1]
            some &= some - 1

    def _every(self, some: int) -> TransfersState:
        """The state in which the members of a set have each status."""
        size = len(self.order)
        return some | some << size | some << 2 * size

    def having(self, state: TransfersState, status: TransferStatus) -> int:
        """The set of loads and stores that may have that *status*."""
        size = len(self.order)
        return state >> status * size & (1 << size) - 1

    def in_flight(self, state: TransfersState) -> int:
        """The set of loads and stores in flight, whatever their status."""
        size = len(self.order)
        return (state | state >> size | state >> 2 * size) & (1 << size) - 1

    def issued(self, site: int) -> TransfersState:
        """The state in which *site* alone is in flight, and nothing was done with its registers."""
        return self.bits[site]

    # ------------------------------------------------------------ dataflow

    def boundary(self) -> TransfersState:
        return 0

    def bottom(self) -> TransfersState:
        return 0

    def join(self, a: TransfersState, b: TransfersState) -> TransfersState:
        return a | b

    def affecting_sites(self) -> Iterable[int]:
        """The instructions that are :meth:`affecting`, found by the registers that they read."""
        readers, found = self.model.readers, set[int]()
        of_filled, of_derived = (
            {i for register in some for i in readers.get(register, ())}
            for some in (self.filled, self.derived)
        )
        for use in self.model.function.uses:
            if concerns(use.match):
                found.update(use.sites)
            elif of_derived:
                found.update((of_filled if computes(use.match) else of_derived).intersection(use.sites))
        return found

    def affecting(self, instruction: Instruction) -> bool:
        match = instruction.match
        if concerns(match):
            return True  # even if it ends nothing: a load or store in flight there may be wrong
        derived = self.derived
        if not derived:
            return False
        reads = instruction.reads
        if derived.keys().isdisjoint(reads) and instruction.guard not in derived:
            return False
        return not computes(match) or not self.filled.keys().isdisjoint(reads)

    def transfer(self, state: TransfersState, at: int, instruction: Instruction) -> TransfersState:
        effect = self._effects.get(at)
        if effect is None:
            effect = self._effects[at] = self._effect(at, instruction)
        if state and (renamed := effect.copied | effect.used):
            size, issued = len(self.order), state & renamed
            if effect.used:
                copied = state & effect.used << size
                state = state ^ issued ^ copied | issued << 2 * size | copied << size
            else:
                state = state ^ issued | issued << size
        return state & ~effect.ended | effect.made

    def _effect(self, at: int, instruction: Instruction) -> _Effect:
        group = instruction.group
        ended = made = copied = used = 0
        if group != TCGEN05_LD and (taken := self.takes(instruction)):
            # The hardware makes a use wait for the load; in the ISA only one note mentions it (9.7.16.6.4.5).
            if computes(instruction.match):
                direct = 0
                for register in instruction.reads:
                    direct |= self.filled.get(register, 0)
                copied, used = (direct, 0) if instruction.moves else (0, direct)
            else:
                ended = taken
        if at in self.bits:
            made = self.bits[at]
            ended |= made
        elif group in TENSOR_MEMORY and step(OPEN, instruction.effects, OPEN, OPEN) is None:
            ended |= self.set_of(self.loads if group == TCGEN05_LD else self.stores)
        return _Effect(self._every(ended), made, copied, used)

    def guarded(self, state: TransfersState, after: TransfersState, at: int) -> TransfersState:
        # The instruction uses its guard even if it does not execute.
        instruction = self.model.instruction(at)
        if not computes(instruction.match):
            state &= ~self._every(self.derived.get(instruction.guard, 0))
        executes, ended, made = self.model.views.executes, state & ~after, after & ~state
        kept = state & after
        for change, always in ((ended, True), (made, False)):
            for site in self.members(self.in_flight(change)):
                if (site == at and not always) or executes(site, at) is not always:
                    kept |= change & self._every(self.bits[site])
        return kept

    def edge(self, state: TransfersState, edge: Edge) -> TransfersState:
        # Values computed in a block are available at its end.
        state &= (1 << TransferStatus.USED * len(self.order)) - 1
        if not state:
            return state
        model = self.model
        if edge.source in model.reachability.dispatchers:
            model.drop_facts(self, model.cfg.blocks[edge.source].end - 1)
            return 0
        if edge.predicate < 0:
            return state
        tested, barred = self._barred.get(edge, (0, 0))
        new = self.in_flight(state) & ~tested
        if new:
            barred |= self.set_of(model.views.unreachable_after(edge, {*self.members(new)}))
            self._barred[edge] = tested | new, barred
        return state & ~self._every(barred)

    def originating_sites(self, state: TransfersState) -> Iterable[int]:
        return self.members(self.in_flight(state))

    def follow(
        self, site: int, state: TransfersState, at: int, instruction: Instruction
    ) -> TransfersState | None:
        """The facts about one load or store after one more instruction; None if it has ended or is issued again."""
        if at == site:
            return None
        return self.transfer(state, at, instruction) & self._every(self.bits[site]) or None


class TmemTransfers(Transfers):
    """Loads end when their registers are used, too."""


class TransfersByLetter(Transfers):
    """Only ``tcgen05.wait`` ends a load: a register dependency does not imply that the load accesses tensor memory before the
    dependent instruction accesses any (9.7.16.6.4.5)."""

    uses_complete = False
