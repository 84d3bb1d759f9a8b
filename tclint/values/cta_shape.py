"""The shape of the CTA, as far as the text of a kernel determines it (PTX ISA 10.1, 10.2)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod

from tclint.ir.nodes import Function, Immediate, Instruction, Operand, Special
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
_VECTORS = ("%tid", "%ntid")
"""The special registers that have all dimensions."""
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
    return (
        function.most_threads
        if function.threads is not None or not _readers(function, (*_SIZES, "%ntid"))
        else None
    )


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

    The launch is one-dimensional, or no thread asks for its position or the size of the CTA in another dimension, except to
    compute its index in a CTA of any shape, or to learn whether it is the first thread. ``.maxntid`` bounds the product of
    the dimensions and does not fix the shape (11.4.3), but one that has several is of a launch that may have them.
    """
    shape = function.directives.get(".reqntid")
    if shape:
        return all(n == 1 for n in shape[1:])
    if function.bounds_several_dimensions:
        return False
    others = _readers(function, (*_SHAPE_REGISTERS, *_VECTORS))
    return not others or _only_linearised(function, defs, others)


def _only_linearised(
    function: Function, defs: Definitions, specials: Mapping[str, list[Instruction]]
) -> bool:
    """Whether %tid.y, %tid.z, %ntid.y and %ntid.z are used only in (z * ntid.y + y) * ntid.x, to which x is added or whose
    equality with -x is tested, in the number of threads, ntid.x * ntid.y * ntid.z, or to elect the first thread.

    The kernel may then be launched in any shape, and so in one dimension.
    """
    if not specials.keys() <= {*AXES[1:], *_SIZES[1:]}:
        return False
    held = _held(function, defs, (*AXES, *_SIZES))
    copies = sum(len(found) for found in specials.values())
    if copies != sum(name in specials for name in held.values()):
        return False  # one is copied to a register that holds something else, too
    electing = _electing(function, defs, {r: n for r, n in held.items() if n in AXES})
    rows, offsets, negated = set[int](), set[int](), set[int]()
    layers: dict[int, frozenset[str]] = {}
    """A product of two sizes -> these."""
    for i in function.instructions:
        names = [held.get(o, "") if isinstance(o, int) else "" for o in i.operands]
        if i.computes == "neg" and names[1] == "%tid.x" and len(defs[i.writes[0]]) == 1:
            negated.update(i.writes)
        if id(i) in electing or not (
            {*names[1:]} & specials.keys() or not (rows | offsets | layers.keys()).isdisjoint(i.reads)
        ):
            continue
        operands = i.operands[1:]
        single = len(i.writes) == 1 and len(defs[i.writes[0]]) == 1
        if i.name == "mad.lo" and {*names[1:3]} == {"%tid.z", "%ntid.y"} and names[3] == "%tid.y":
            rows.update(i.writes)
        elif i.name == "mul.lo" and (sizes := _product(operands, names[1:], layers)):
            if len(sizes) < len(_SIZES):
                layers[i.writes[0]] = sizes
        elif i.name == "mul.lo" and "%ntid.x" in names[1:] and not rows.isdisjoint(operands):
            offsets.update(i.writes)
        elif i.name == "mad.lo" and "%ntid.x" in names[1:3] and not rows.isdisjoint(operands[:2]):
            single = single and names[3] == "%tid.x"
        elif _tests_equality(i) and len(operands) == 2:
            single = not offsets.isdisjoint(operands) and not negated.isdisjoint(operands)
        else:
            plus = i.computes in ("add", "or")
            single = single and plus and "%tid.x" in names[1:] and not offsets.isdisjoint(operands)
        if not single:
            return False
    return True


def _tests_equality(instruction: Instruction) -> bool:
    return (
        instruction.computes == "setp"
        and instruction.match is not None
        and instruction.match.relation in ("eq", "ne")
    )


def _product(
    operands: Sequence[Operand], names: Sequence[str], layers: Mapping[int, frozenset[str]]
) -> frozenset[str]:
    """The sizes of a CTA that two factors have, if each is one or a product of some and none occurs twice; else none."""
    one, two = (
        layers.get(o, frozenset((name,) if name in _SIZES else ()))
        if isinstance(o, int)
        else frozenset[str]()
        for o, name in zip(operands, names, strict=True)
    )
    return one | two if one and two and not one & two else frozenset()


def _held(function: Function, defs: Definitions, names: Collection[str]) -> dict[int, str]:
    """Register -> the special register, one of *names*, of which it is a copy and that nothing else overwrites."""
    return {
        r: name
        for name, found in _readers(function, names).items()
        for i in found
        for r in i.writes
        if len(defs[r]) == 1
    }


def _electing(function: Function, defs: Definitions, position: Mapping[int, str]) -> set[int]:
    """The instructions that compare sums of the *position* of a thread, x included, with 0: in the first thread, all are 0.

    They are named by their identity; none if such a sum is used for anything else, or for nothing. A sum without x, or a
    register that is compared by itself, may select the first of several rows.
    """
    found, compared = set[int](), set[int]()
    sums: dict[int, set[str]] = {}
    for i in function.instructions:
        terms = [sums.get(r) or {position[r]} for r in i.reads if r in sums or r in position]
        axes = set[str]().union(*terms)
        if not axes & {*AXES[1:]}:
            continue
        written = i.writes[0] if len(i.writes) == 1 else -1
        adds = i.computes == "or" or (i.computes == "add" and len(terms) == 2)
        if adds and len(i.operands) == 3 and len(defs[written]) == 1 and not _immediates(i):
            sums[written] = axes
        elif not (_tests_equality(i) and Immediate(0) in i.operands):
            if not sums.keys().isdisjoint(i.reads):
                return set()
            continue
        elif AXES[0] not in axes:
            return set()
        compared.update(i.reads)
        found.add(id(i))
    return found if sums.keys() <= compared else set()


def _immediates(instruction: Instruction) -> bool:
    return any(isinstance(o, Immediate) for o in instruction.operands)
