"""The steps of a replay: instructions, each with what it does in a replay and which registers it reads."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from enum import Enum
from functools import cache

from tclint._named_tuple import NamedTuple
from tclint.analyses.model import KernelModel
from tclint.ir.nodes import Immediate, Instruction, Memory, Operand, OperandPair, Vector, registers
from tclint.isa.accesses import Via
from tclint.isa.effects import BULK, Barrier, Effects, Exchange, Fence, Query, Resource
from tclint.isa.forms import Match, floating
from tclint.isa.semantics import COMPUTE, bind
from tclint.isa.widths import width_of
from tclint.replay.launch import in_space

__all__ = [
    "DEFINING",
    "EXCHANGES",
    "FOLLOWED",
    "ReplayStep",
    "Sync",
    "bits_of",
    "defining_step",
    "of_shared",
    "registers_needed",
    "sync_of",
]


class Sync(str, Enum):
    """What a step does to operations, phases and barriers."""

    BEGIN = "begins an operation"
    COMMIT = "commits operations"
    WAIT = "waits for groups"
    ARRIVE = "arrives at an mbarrier"
    EXPECT = "expects bytes"
    COMPLETE = "completes bytes"
    TEST = "tests a phase"
    JOIN = "joins a CTA barrier"
    ARRIVE_AT_CTA = "arrives at a CTA barrier"
    ARRIVE_AT_CLUSTER = "arrives at the cluster barrier"
    AWAIT_CLUSTER = "waits for the cluster barrier"


EXCHANGES = frozenset(Exchange) - {Exchange.ELECT}
"""What lanes of a warp exchange values by."""
FOLLOWED = frozenset(
    (*Sync, Fence.MEMORY, Resource.MBARRIER_INIT, Resource.TMEM_ALLOC, Query.CANCEL),
)
"""What threads synchronise by, or what starts or releases something."""
DEFINING = frozenset((*Exchange, Sync.TEST, Sync.ARRIVE, Query.CANCELLED))
"""What is in the slice where something depends on its result."""
_AT_BARRIERS = {
    (Barrier.MBARRIER, None): Sync.ARRIVE, (None, Barrier.MBARRIER): Sync.TEST,
    (Barrier.CTA, Barrier.CTA): Sync.JOIN, (Barrier.CTA, None): Sync.ARRIVE_AT_CTA,
    (Barrier.CLUSTER, None): Sync.ARRIVE_AT_CLUSTER, (None, Barrier.CLUSTER): Sync.AWAIT_CLUSTER,
}  # fmt: skip
"""That of an arrival at one barrier and a wait for another."""
_ROLES = (
    "count", "tx", "parity", "state", "id", "mask", "destination", "bytes", "depth", "columns", "tensormap", "d", "a", "enable",
)  # fmt: skip
_ORDERED = ("eq", "ne", "lt", "le", "gt", "ge")


class ReplayStep(NamedTuple):
    """An instruction to execute.

    *what* is one of :data:`FOLLOWED` or :data:`DEFINING`, ``activemask``, or what is done to data: ``compute``,
    ``constant``, ``unknown``, ``load``, ``element`` (a load of global memory at a known address), ``store``, and for accesses that are only compared with others ``read``, ``write``,
    ``fill`` (a non-bulk copy) and ``tensor`` (tensor memory).
    """

    site: int
    what: Hashable
    instruction: Instruction
    compute: Callable[..., int] | None = None


def sync_of(effects: Effects) -> Sync | Resource | Fence | Query | Exchange | None:
    """What a step with these effects does; a replay may have no use for it."""
    if effects.barrier is not None:
        return _AT_BARRIERS.get((effects.arrives, effects.awaits))
    if effects.begins is not None:
        return Sync.BEGIN
    if effects.commits is not None or effects.waits is not None:
        return Sync.COMMIT if effects.waits is None else Sync.WAIT
    if effects.expects or effects.completes:
        return Sync.EXPECT if effects.expects else Sync.COMPLETE
    return effects.resource or effects.fence or effects.query or effects.exchange


def registers_needed(step: ReplayStep) -> Sequence[int]:
    """The registers that a step reads."""
    instruction, found = step.instruction, list[int]()
    if step.what == "compute":
        guard, reads = instruction.guard, instruction.reads
        return reads if guard < 0 else (guard, *reads, *instruction.writes)
    if instruction.guard >= 0:
        found.append(instruction.guard)
    if step.what in ("unknown", "constant") or (step.what == "load" and not of_shared(instruction)):
        return found
    for operand in _operands(step):
        found += registers(operand._replace(extras=())) if isinstance(operand, Memory) else registers(operand)
    return found


def _operands(step: ReplayStep) -> list[Operand]:
    instruction, match = step.instruction, step.instruction.match
    if step.what in ("read", "load", "element", "tensor", "write"):
        return [o for o in instruction.operands if isinstance(o, Memory)]
    if step.what == "fill":
        return [instruction.operands[0]]
    if step.what == "store":
        return [o for o in instruction.operands if isinstance(o, Memory | Vector | int)]
    assert match is not None
    if instruction.group == BULK:
        return [o for o in map(instruction.role, ("source", "bytes", "depth")) if o is not None]
    if step.what is Query.CANCELLED:
        return [o for o in (instruction.role("source"),) if o is not None]
    if step.what in EXCHANGES:
        return [o for o in instruction.operands[1:] if not isinstance(o, Vector)]
    # The source of a barrier is the predicate that it reduces.
    roles = (*_ROLES, "source") if step.what is Sync.JOIN else _ROLES
    found = [instruction.mbarrier, *(instruction.role(name) for name in roles if name in match.form.roles)]
    found += [instruction.named(a.operand) for a in match.accesses if a.via is Via.DESCRIPTOR]
    written = {r for o in (match.writes or ()) for r in registers(instruction.operands[o])}
    return [
        o
        for o in found
        if o is not None and not isinstance(o, Vector) and not (isinstance(o, int) and o in written)
    ]


def defining_step(model: KernelModel, site: int) -> ReplayStep:
    """The step that defines the destinations of an instruction."""
    instruction = model.instruction(site)
    match = instruction.match
    if match is None or match.problem:
        return ReplayStep(site, "unknown", instruction)
    form = match.form
    if match.syntax.root == "setp" and floating(match.modifiers):
        unordered = match.relation == "nan" or match.relation.endswith("u")
        return ReplayStep(site, "constant", instruction, lambda: int(unordered))
    if form.compute == "mov" and floating(match.modifiers):
        # An integer computation may take a floating-point constant apart.
        source = instruction.operands[1]
        if not isinstance(source, Immediate):
            return ReplayStep(site, "unknown", instruction)
        pattern = source.pattern(int(match.element[2:]) // 8)
        return ReplayStep(site, "constant", instruction, lambda: pattern)
    if form.compute and not floating(match.modifiers):
        if form.compute in ("cvta", "cvta.to", "mapa", "unpack"):
            return ReplayStep(site, "compute", instruction, _SPECIAL[form.compute])
        if form.compute in COMPUTE:
            return ReplayStep(site, "compute", instruction, _evaluator(model, instruction, match))
    sync = sync_of(form.effects)
    if sync in DEFINING or form.name == "activemask":
        return ReplayStep(site, sync or form.name, instruction)
    if form.name == "isspacep":
        return ReplayStep(site, "compute", instruction, in_space(model, match.modifiers[0]))
    verbs = [verb for verb, _ in form.memory]
    return ReplayStep(site, "load" if verbs and verbs[0] == "read" else "unknown", instruction)


def _evaluator(model: KernelModel, instruction: Instruction, match: Match) -> Callable[..., int]:
    """The function that computes the first destination, truncated to the width of its register."""
    destination = instruction.operands[0]
    register = destination.first if isinstance(destination, OperandPair) else destination
    bits = bits_of(model, register) if isinstance(register, int) else 64
    return _bound(match.form.compute, tuple(match.binding.items()), bits)


@cache
def _bound(name: str, binding: tuple[tuple[str, str], ...], bits: int) -> Callable[..., int]:
    """The function of all instructions with this operation, so that they share its results (``plans``)."""
    return bind(name, dict(binding), bits)


def bits_of(model: KernelModel, register: int) -> int:
    """The width of a register; 64 if its type is unknown."""
    return width_of(model.function.registers[register].type) or 64


def of_shared(instruction: Instruction) -> bool:
    """Whether an instruction names shared memory as its state space."""
    return instruction.match is not None and instruction.match.space.startswith(".shared")


def _mapa(address: int, rank: int) -> int:
    return address & 0xFFFFFF | rank << 24


_SPECIAL: dict[str, Callable[..., int]] = {
    "cvta": lambda a: a,
    "cvta.to": lambda a: a,
    "mapa": _mapa,
    "unpack": lambda a: a,
}
