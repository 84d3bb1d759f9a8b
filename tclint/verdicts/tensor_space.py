"""Tensor memory as a memory that CTA barriers may order, for the checker :mod:`tclint.verdicts.epochs`.

Warps load and store it, allocate and free it. A load or store happens until the warp has waited for it. A barrier orders it
with those of other warps if a ``tcgen05.fence::before_thread_sync`` precedes the barrier and a
``tcgen05.fence::after_thread_sync`` follows it (PTX ISA 9.7.16.6.3). Both are wanted in the block of the barrier, with no
load, store or wait for one in between; a barrier without them orders nothing here, although allocation needs no fence. If
fences may be taken for implied, any barrier orders them (:data:`IMPLIED`).

What one thread issues for the whole CTA signals its completion through an mbarrier: multiplications, copies and shifts, which
are followed as :mod:`tclint.verdicts.phases` says. Its waits are not looked at for fences, so without that assumption, they end the
proof. So does ``.cta_group::2``, by which two CTAs access tensor memory of each other. Nothing accesses it through another
proxy, so that no access needs a proxy fence (:attr:`.MemoryAccess.fenced`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tclint.ir.nodes import Instruction
from tclint.isa.effects import TCGEN05, TCGEN05_ST, Fence, Resource
from tclint.verdicts.checker import TENSOR
from tclint.verdicts.epochs import MemoryAccess, Space

__all__ = ["IMPLIED", "TENSOR_MEMORY", "WARPGROUP", "misses"]

WARPGROUP = 128
"""Threads of a warpgroup. Each of its warps loads and stores lanes that no other one of it can access (9.7.16.8.1)."""
_ALLOCATIONS = (Resource.TMEM_ALLOC, Resource.TMEM_DEALLOC)


def _foreign(instruction: Instruction) -> str:
    match = instruction.match
    if instruction.flow == "call":
        return "the callee may access tensor memory" if instruction.calls_program else ""
    if match is None:
        return f"{instruction.opcode} is not an instruction that is known"
    if not match.form.of_tcgen05:
        return ""
    effects = match.form.effects
    if match.of_pair:
        return "it may access tensor memory of the peer CTA"
    known = (
        effects.begins or effects.commits or effects.waits or effects.fence or effects.manages_tensor_memory
    )
    return "" if known else "what it accesses in tensor memory is not known"


def _foreign_by_letter(instruction: Instruction) -> str:
    if _tracks(instruction):
        return "an mbarrier signals its completion, and no tcgen05.fence is looked for after a wait for it"
    return _foreign(instruction)


def _access(site: int, instruction: Instruction) -> MemoryAccess | None:
    if instruction.effects.resource in _ALLOCATIONS:
        return MemoryAccess(site, True, fenced=True)
    if instruction.effects.begins is not None and instruction.group in TENSOR:
        return MemoryAccess(site, instruction.group == TCGEN05_ST, later=True, fenced=True)
    return MemoryAccess(site, True, tracked=True, fenced=True) if _tracks(instruction) else None


def _tracks(instruction: Instruction) -> bool:
    return instruction.effects.begins == TCGEN05


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


IMPLIED = Space(
    tuple(sorted(TENSOR)), _foreign, _access, lambda instructions, block, arrival, wait: True, _tracks
)
"""Where barriers, and waits that acquire, need no ``tcgen05.fence``."""
TENSOR_MEMORY = IMPLIED._replace(foreign=_foreign_by_letter, separates=_separates)
"""By the letter."""
