"""Tensor memory as a memory that CTA barriers may order, for the checker :mod:`tclint.verdicts.epochs`.

Warps load and store it, allocate and free it. A load or store happens until the warp has waited for it. A barrier orders it
with those of other warps if a ``tcgen05.fence::before_thread_sync`` precedes the barrier and a
``tcgen05.fence::after_thread_sync`` follows it (PTX ISA 9.7.16.6.3). Both are wanted in the block of the barrier, with no
load, store or wait for one in between; a barrier without them orders nothing here, although allocation needs no fence.

What one thread issues for the whole CTA ends the proof: multiplications, copies and shifts signal their completion through
an mbarrier. So does ``.cta_group::2``, by which two CTAs access tensor memory of each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tclint.ir.nodes import Instruction
from tclint.isa.callees import SYSTEM_CALLS
from tclint.isa.effects import TCGEN05_ST, Fence, Resource
from tclint.verdicts.checker import TENSOR
from tclint.verdicts.epochs import MemoryAccess, Space

__all__ = ["TENSOR_MEMORY", "WARPGROUP", "misses"]

WARPGROUP = 128
"""Threads of a warpgroup. Each of its warps loads and stores lanes that no other one of it can access (9.7.16.8.1)."""
_ALLOCATIONS = (Resource.TMEM_ALLOC, Resource.TMEM_DEALLOC)


def _foreign(instruction: Instruction) -> str:
    match = instruction.match
    if instruction.flow == "call":
        return "" if instruction.callee in SYSTEM_CALLS else "the callee may access tensor memory"
    if match is None:
        return f"{instruction.opcode} is not an instruction that is known"
    if not match.form.of_tcgen05:
        return ""
    effects = match.form.effects
    if effects.begins is not None and effects.begins not in TENSOR:
        return "an mbarrier signals its completion, and CTA barriers alone do not order accesses then"
    if match.of_pair:
        return "it may access tensor memory of the peer CTA"
    known = (
        effects.begins or effects.commits or effects.waits or effects.fence or effects.manages_tensor_memory
    )
    return "" if known else "what it accesses in tensor memory is not known"


def _access(site: int, instruction: Instruction) -> MemoryAccess | None:
    if instruction.effects.resource in _ALLOCATIONS:
        return MemoryAccess(site, True)
    if instruction.effects.begins is not None and instruction.group in TENSOR:
        return MemoryAccess(site, instruction.group == TCGEN05_ST, later=True)
    return None


def _separates(instructions: Sequence[Instruction], block: range, arrival: int, wait: int) -> bool:
    return not misses(instructions, block, arrival, wait)


def misses(instructions: Sequence[Instruction], block: range, arrival: int, wait: int) -> str:
    """The fence that is missing beside a barrier in its block; "" if there are both."""
    if not _fenced(instructions, range(arrival - 1, block.start - 1, -1), Fence.TCGEN05_BEFORE):
        return "no tcgen05.fence::before_thread_sync precedes it"
    if not _fenced(instructions, range(wait + 1, block.stop), Fence.TCGEN05_AFTER):
        return "no tcgen05.fence::after_thread_sync follows it"
    return ""


def _fenced(instructions: Sequence[Instruction], sites: Iterable[int], fence: Fence) -> bool:
    """Whether a *fence* without a guard is among *sites*, before any load, store or wait for one of tensor memory."""
    for i in sites:
        if instructions[i].effects.fence is fence and instructions[i].guard < 0:
            return True
        if instructions[i].group in TENSOR:
            return False
    return False


TENSOR_MEMORY = Space(tuple(sorted(TENSOR)), _foreign, _access, _separates)
