"""The shape of the CTA, as far as the text of a kernel determines it (PTX ISA 10.1, 10.2)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from math import prod

from tclint.ir.nodes import Function, Immediate, Instruction, Special
from tclint.isa.special_registers import SPECIAL_REGISTERS, Triple
from tclint.values import thread_masks as T

__all__ = [
    "AXES",
    "Definitions",
    "cta_size",
    "fixed",
    "is_alone",
    "is_one_dimensional",
    "may_be_alone",
    "position",
    "shape_of",
    "thread_count",
]

AXES = ("%tid.x", "%tid.y", "%tid.z")
"""The position of a thread along each dimension of its CTA."""
_SHAPE_REGISTERS = (*AXES[1:], "%ntid.y", "%ntid.z")
"""The special registers whose values depend on the shape of a CTA and not only on its size."""
_SIZES = tuple(name.replace("%tid", "%ntid") for name in AXES)
Definitions = Mapping[int, list[int]]
"""Register -> the instructions that write it."""


def thread_count(function: Function) -> int:
    """The maximum number of threads of a CTA, rounded up to whole warps."""
    total = function.most_threads
    return T.LIMIT if total is None else min(max((total + 31) // 32 * 32, 32), T.LIMIT)


def cta_size(function: Function) -> int | None:
    """The number of threads of a CTA; None if a launch may have fewer than the kernel allows.

    ``.reqntid`` fixes it. ``.maxntid`` is a bound (11.4.3), but compilers write it for the size that the source states,
    and a kernel that never reads %ntid is made for one size: the bound.
    """
    return function.most_threads if function.threads is not None or not _readers(function, _SIZES) else None


def _readers(function: Function, names: Collection[str]) -> dict[str, list[Instruction]]:
    """Special register -> the instructions that copy it, for those of *names* that one does; nothing else reads them."""
    instructions = function.instructions
    found: dict[str, list[Instruction]] = {}
    for use in function.uses:
        if use.match is None or not use.sites or len(instructions[use.sites[0]].operands) != 2:
            continue
        for i in use.sites:
            source = instructions[i].operands[1]
            if isinstance(source, Special) and source.name in names:
                found.setdefault(source.name, []).append(instructions[i])
    return found


def may_be_alone(function: Function) -> bool:
    """Whether the kernel may be launched with CTAs of one thread.

    It may if it does not state their number, and no instruction involves other threads.
    """
    return function.most_threads is None and all(
        use.match is None or use.match.form.scope == "thread" for use in function.uses
    )


def is_alone(function: Function) -> bool:
    """Whether the kernel never asks which thread it is, so that several threads would all do the same."""
    return not any(
        isinstance(o, Special) and SPECIAL_REGISTERS[o.name].distinguishes_threads
        for i in function.instructions
        for o in i.operands
    )


def shape_of(function: Function, threads: int, one_dimensional: bool) -> Triple | None:
    """The threads of a CTA in each dimension, or None.

    Known if ``.reqntid`` fixes them (11.4.4), or if all *threads* are in one dimension.
    """
    if function.threads:
        x, y, z = (*function.directives[".reqntid"], 1, 1)[:3]
        return x, y, z
    return (threads, 1, 1) if one_dimensional else None


def fixed(name: str, shape: Triple | None, stated: bool) -> int | None:
    """The constant in a special register of a CTA of this *shape*; None if it is not constant, or not known.

    A size along x that is not *stated* is an upper bound only.
    """
    if shape is None:
        return None
    register = SPECIAL_REGISTERS[name]
    if name in AXES:
        return 0 if shape[register.axis] == 1 else None
    if register.vector == "%ntid" and register.axis < len(AXES) and (stated or register.axis):
        return shape[register.axis]
    return None


def position(name: str, shape: Triple, threads: int) -> T.BitSlices | None:
    """A special register in each thread of a CTA of this *shape*; None if the thread index does not determine it."""
    digit = SPECIAL_REGISTERS[name].digit
    if digit is None:
        return None
    weight, base = digit(shape)
    return T.digit(threads, weight, base if weight * base < prod(shape) else threads)


def is_one_dimensional(function: Function, defs: Definitions) -> bool:
    """Whether %tid.x numbers the threads.

    The launch is one-dimensional, or no thread asks for its position in another dimension, except to compute its index
    in a CTA of any shape, or to learn whether it is the first thread. ``.maxntid`` bounds the product of the dimensions
    and does not fix the shape (11.4.3).
    """
    shape = function.directives.get(".reqntid")
    if shape:
        return all(n == 1 for n in shape[1:])
    others = _readers(function, _SHAPE_REGISTERS)
    return others.keys().isdisjoint(AXES) or _only_linearised(function, defs, others)


def _only_linearised(
    function: Function, defs: Definitions, specials: Mapping[str, list[Instruction]]
) -> bool:
    """Whether %tid.y and %tid.z are used only in (z * ntid.y + y) * ntid.x, to which x is added, or to elect a thread.

    The kernel may then be launched in any shape, and so in one dimension.
    """
    electing = _electing(
        function, {r for n in _SHAPE_REGISTERS[:2] for i in specials.get(n, ()) for r in i.writes}
    )
    alone = {
        r
        for r, found in defs.items()
        if sum(id(function.instructions[i]) not in electing for i in found) == 1
    }
    named = {name: {r for i in found for r in i.writes} & alone for name, found in specials.items()}
    own = named.get("%tid.y", set()) | named.get("%tid.z", set())
    if not own or any(
        len(i.writes) != 1 or not set(i.writes) <= own
        for n in _SHAPE_REGISTERS[:2]
        for i in specials.get(n, ())
    ):
        return False
    rows: set[int] = set()
    for i in function.instructions:
        read = set(i.reads)
        if not read.isdisjoint(own) and id(i) not in electing:
            z, height, y = (
                {operand for operand in i.operands[1:] if operand in named.get(name, ())}
                for name in ("%tid.z", "%ntid.y", "%tid.y")
            )
            if i.name != "mad.lo" or {*i.operands[1:3]} != z | height or {i.operands[3]} != y:
                return False
            if len(defs[i.writes[0]]) != 1:
                return False
            rows.update(i.writes)
    width = {
        r
        for r, found in defs.items()
        for i in map(function.instructions.__getitem__, found)
        if len(i.operands) == 2 and i.operands[1] == Special("%ntid.x")
    }
    return all(
        i.name in ("mul.lo", "mad.lo") and not width.isdisjoint(i.reads)
        for i in function.instructions
        if not rows.isdisjoint(i.reads)
    )


def _electing(function: Function, own: AbstractSet[int]) -> set[int]:
    """The instructions that compare sums of *own* registers, and of others, with 0: in the first thread, all are 0.

    They are named by their identity; none if such a sum is used for anything else, or for nothing. Without a bound on
    the threads, a register that is compared by itself may select the first of several rows.
    """
    found, sums, compared = set[int](), set[int](), set[int]()
    bounded = ".maxntid" in function.directives
    for i in function.instructions:
        read = set(i.reads)
        if sums.isdisjoint(read) and own.isdisjoint(read):
            continue
        if i.opcode.startswith(("add.", "or.")) and not any(isinstance(o, Immediate) for o in i.operands):
            sums.update(i.writes)
        elif (sums.isdisjoint(read) and not bounded) or not (
            i.opcode.startswith(("setp.eq.", "setp.ne.")) and Immediate(0) in i.operands
        ):
            if not sums.isdisjoint(read):
                return set()
            continue
        compared.update(read)
        found.add(id(i))
    return found if sums <= compared else set()
