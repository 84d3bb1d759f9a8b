"""The columns of tensor memory that a CTA holds (PTX ISA 9.7.16.7.1).

``tcgen05.alloc`` writes the address of the allocation to a word of shared memory. :class:`~tclint.values.Values`
represents a load of that word as the address of the allocation, so the operand of a ``tcgen05.dealloc`` determines
which allocations it can free, whatever thread executes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from tclint.analyses.fact_set import FactSet
from tclint.analyses.model import KernelModel
from tclint.ir.nodes import Instruction
from tclint.isa.effects import Resource
from tclint.values.nodes import Allocated

__all__ = ["HELD", "Ledger", "TensorAllocation", "paired"]

HELD = 0
"""Allocated and not freed; for the permit to allocate: relinquished."""
TmemAllocationState = frozenset[tuple[int, int]]
"""``(site, status)`` of allocations, and of relinquished permits. The status of a freed one is the deallocation plus
one."""
Ledger = tuple[int, ...]
"""The allocations that one path holds, in order: each site as often as it was executed, up to a limit."""

_MAX_REPETITIONS = 2
"""Executions of one allocation that a ledger counts, so that a path search around a loop ends."""


class TensorAllocation(FactSet[tuple[int, int]]):
    """Facts ``(site, status)`` of allocations and of relinquished permits."""

    by_opcode = True

    def __init__(self, model: KernelModel) -> None:
        super().__init__(model)
        # The assembler rejects instructions without the operands.
        self.allocations = [
            i for i in model.sites(Resource.TMEM_ALLOC) if model.value(i, "destination") is not None
        ]
        self.deallocations = [
            i for i in model.sites(Resource.TMEM_DEALLOC) if model.value(i, "taddr") is not None
        ]
        self._freed: dict[int, frozenset[int]] = {}

    # ------------------------------------------------------------ operands

    def columns(self, site: int) -> int | None:
        """The number of columns that the instruction at *site* requests; None if it is not a constant."""
        value = self.model.value(site, "columns")
        return None if value is None else self.model.values.constant_of(value)

    @staticmethod
    def allowed(instruction: Instruction) -> tuple[range, ...]:
        """The numbers of columns that an allocation or deallocation may state, according to the ISA table."""
        assert instruction.match is not None
        form = instruction.match.form
        return form.operands[form.roles["columns"]].immediates or ()

    @cached_property
    def words(self) -> dict[int, list[int]]:
        """Shared word -> the allocations whose addresses are written to it."""
        words: dict[int, list[int]] = {}
        for site in self.allocations:
            word = self.model.value(site, "destination")
            assert word is not None
            words.setdefault(self.model.values.representative(word), []).append(site)
        return words

    def address(self, site: int) -> tuple[int, int] | None:
        """``(word, distance)`` if *site* frees the address in that shared word plus a constant distance; else None."""
        values = self.model.values
        value = self.model.value(site, "taddr")
        terms, distance = values.linear(value) if value is not None else ((), 0)
        if len(terms) != 1 or terms[0][1] != 1:
            return None
        node = values.node(terms[0][0])
        if type(node) is not Allocated:
            return None
        word = values.representative(node.word)
        # In unreachable code, the word need not be that of an allocation.
        return (word, distance) if word in self.words else None

    def frees(self, site: int) -> frozenset[int]:
        """The allocations that the deallocation at *site* may free: all of them if its address is unknown."""
        if site not in self._freed:
            address = self.address(site)
            self._freed[site] = frozenset(self.allocations if address is None else self.words[address[0]])
        return self._freed[site]

    # ------------------------------------------------------------ dataflow

    def affecting(self, instruction: Instruction) -> bool:
        return instruction.effects.manages_tensor_memory

    def transfer(self, state: TmemAllocationState, at: int, instruction: Instruction) -> TmemAllocationState:
        if instruction.effects.resource is not Resource.TMEM_DEALLOC:
            return frozenset(f for f in state if f[0] != at) | {(at, HELD)}
        freed = self.frees(at)
        return frozenset((s, at + 1) if s in freed and status == HELD else (s, status) for s, status in state)

    def entered(self, ledger: Ledger, at: int, instruction: Instruction) -> Ledger:
        """*ledger* after one more instruction. A deallocation removes the newest allocation that it can free."""
        if instruction.effects.resource is Resource.TMEM_ALLOC:
            return (*ledger, at) if ledger.count(at) < _MAX_REPETITIONS else ledger
        if instruction.effects.resource is Resource.TMEM_DEALLOC:
            freed = self.frees(at)
            for k in range(len(ledger) - 1, -1, -1):
                if ledger[k] in freed:
                    return ledger[:k] + ledger[k + 1 :]
        return ledger


def paired(model: KernelModel, sites: Iterable[int]) -> list[int]:
    """Those of *sites* that operate on a CTA pair (``.cta_group::2``)."""
    return [i for i in sites if (match := model.instruction(i).match) is not None and match.of_pair]
