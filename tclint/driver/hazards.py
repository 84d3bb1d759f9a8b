"""Which rule describes what an execution observed.

:mod:`tclint.driver.evidence` answers the opposite question, which observations demonstrate a finding that exists. Here
only the rule whose page claims exactly what was observed is chosen; an observation that no rule describes has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tclint.checks import Hit, RuleId
from tclint.executor.observations import Observation
from tclint.findings.scales import Severity
from tclint.ir.nodes import Function, Instruction, registers
from tclint.isa.effects import (
    BULK,
    CP_ASYNC,
    TCGEN05,
    TCGEN05_LD,
    TCGEN05_ST,
    TENSOR_MEMORY,
    TRANSACTIONS,
    WGMMA,
    Fence,
)

__all__ = ["hazard"]

_UNFINISHED_READ = {BULK: "BK002", TCGEN05: "TC012", WGMMA: "WG011"}
"""The rules about shared memory that is written while an operation may still read it, by the group of that operation."""


def hazard(observation: Observation, function: Function) -> Hit | None:
    """The hit that an observation becomes, without steps; None if no rule claims what was observed.

    *function* is the entry that was executed; the sites of the observation are indices of its instructions.
    """
    describe = _RULES.get(observation.kind)
    at = function.instructions[observation.site]
    other = function.instructions[observation.other] if observation.other >= 0 else at
    rule = describe(observation, at, other) if callable(describe) else describe
    if not rule:
        return None
    hit = RuleId(rule).hit(site=observation.site, message=observation.message, function=function)
    return hit.unshown(Severity.WARNING if _may_be_harmless(rule, at, other, function) else None)


def _may_be_harmless(rule: str, at: Instruction, other: Instruction, function: Function) -> bool:
    """Whether what was observed may be a case of the *rule* that working kernels have, which the checks report as notes.

    An observation distinguishes these cases less well than a check does.
    """
    if rule == "PR001":  # a matrix store, or a memory fence wider than the CTA in place of the proxy fence
        return (other.match is not None and other.match.scope == "warp") or any(
            map(_wide, function.instructions)
        )
    if rule == "PR005":  # warps of the issuing warpgroup
        return at.group == WGMMA
    if rule == "WG002":  # an accumulator that is not added to
        fragment = at.named("a")
        read = registers(fragment) if fragment is not None else ()
        return other is not at and not set(other.writes).intersection(read)
    return rule == "TC022"  # bits of the address that select a lane within the warp


def _wide(instruction: Instruction) -> bool:
    """Whether it is a memory fence of a scope wider than the CTA."""
    match = instruction.match
    return match is not None and match.form.effects.fence is Fence.MEMORY and match.wide


def _bulk(instruction: Instruction) -> bool:
    return instruction.effects.begins is not None and instruction.opcode.startswith("cp.async.bulk")


def _into_shared(instruction: Instruction) -> bool:
    """Whether it is a bulk copy into shared memory."""
    return _bulk(instruction) and instruction.group == TRANSACTIONS


def _registers(o: Observation, at: Instruction, wgmma: Instruction) -> str:
    """Of a register of a pending ``wgmma``."""
    return "WG001" if set(at.reads) & set(wgmma.writes) else "WG004"


def _read_too_early(o: Observation, at: Instruction, copy: Instruction) -> str:
    return "CA001" if copy.group == CP_ASYNC else "BK001" if _into_shared(copy) else ""


def _filled_twice(o: Observation, at: Instruction, copy: Instruction) -> str:
    if copy.group == at.group == "cp.async":
        return "SM001" if o.crosses else "CA003"
    return _read_too_early(o, at, copy)


def _source_overwritten(o: Observation, at: Instruction, reader: Instruction) -> str:
    return _UNFINISHED_READ.get(reader.group, "")


def _unordered(o: Observation, at: Instruction, other: Instruction) -> str:
    """As in the table of ``rules/MB016.md``; *other* is the access that precedes in this execution."""
    if "mbarrier" in at.opcode or "mbarrier" in other.opcode:
        return ""
    if other.group in _UNFINISHED_READ:
        return _UNFINISHED_READ[other.group] if other.effects.begins is not None else ""
    if other.group == CP_ASYNC:
        return "CA005"
    if _into_shared(other):
        return "BK001"
    if other.group or other.event:
        return ""
    if _into_shared(at):
        return "BK011" if other.opcode.startswith("ld") else "SM001"
    return "PR005" if at.group in _UNFINISHED_READ else "SM001"


def _proxy(o: Observation, at: Instruction, write: Instruction) -> str:
    return "PR002" if write.group == CP_ASYNC else "PR001"


def _tensor_memory(o: Observation, at: Instruction, operation: Instruction) -> str:
    if operation.group in TENSOR_MEMORY:
        return "TC002" if o.crosses else "TC003" if operation.group == TCGEN05_LD else "TC004"
    return "TM006" if at.opcode.startswith("tcgen05.dealloc") else "TC001"


def _tensor_memory_fault(o: Observation, at: Instruction, other: Instruction) -> str:
    return {"tcgen05.alloc": "TM002", "tcgen05.shift": "TC020"}.get(at.name, "TC017")


def _nonuniform(o: Observation, at: Instruction, other: Instruction) -> str:
    return {WGMMA: "WG012", TCGEN05_LD: "TC022", TCGEN05_ST: "TC022"}.get(at.group, "")


_RULES: Mapping[str, str | Callable[[Observation, Instruction, Instruction], str]] = {
    "register-in-flight": _registers,
    "register-twice": "WG006",
    "wgmma-fence": "WG002",
    "read-too-early": _read_too_early,
    "source-overwritten": _source_overwritten,
    "filled-twice": _filled_twice,
    "unordered": _unordered,
    "proxy": _proxy,
    "tensor-memory": _tensor_memory,
    "tensor-memory-unallocated": "TC017",
    "tensor-memory-allocation": lambda o, at, other: "TM003" if "dealloc" in at.opcode else "TM004",
    "tensor-memory-leak": "TM001",
    "uncommitted": "TC005",
    "divergent": "CV001",
    "warpgroup": lambda o, at, other: "CV004" if at.group == WGMMA else "",
    "nonuniform": _nonuniform,
    "membermask": "CV006",
    "barrier-count": "CV011",
    "cluster-barrier": "CL001",
    "mbarrier-absent": "MB009",
    "mbarrier-unordered": "MB002",
    "mbarrier-overrun": "MB016",
    "mbarrier-count": "MB003",
    "mbarrier-inval": "MB009",
    "cta-mask": "BK007",
    "grid-dependency": "GD001",
    "registers": "CV008",
    "left-in-flight": lambda o, at, other: "WG007" if other.group == WGMMA else "",
    "exited-cta": "CL002",
    "deadlock-arrivals": "MB016",
    "deadlock-bytes": "MB016",
    "deadlock-barrier": "CV014",
    "fault-tensor-memory": _tensor_memory_fault,
    "fault-barrier": "CV010",
}
"""By the kind of the observation.

Missing are a second ``mbarrier.init``, a ``setmaxnreg`` of some warps, a copy that is pending at the exit of its CTA, and
an address that names the tensor memory of another warp: all of these work in practice. No rule describes a ``shuffle``
from an absent lane.
"""
