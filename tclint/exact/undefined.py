"""Which bits of a result are undefined if some bits of the operands are.

A bit counts only if it depends on undefined bits whatever the other operands are, which is tried: with two complementary
patterns for what is not known, numbers take the place of the undefined bits, and the bit must differ in both. So a lane that
is masked, shifted out or may not be selected is defined, and an answer may miss a bit but adds none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tclint.exact.scalar import ScalarOperation, operation
from tclint.ir.nodes import Function, Instruction, Not, Operand, registers
from tclint.isa.widths import width_of

__all__ = ["undefined_results"]

_EVERY = (1 << 128) - 1
_PATTERNS = (int("5" * 32, 16), int("A" * 32, 16))
"""What stands for a number that is not known; their bits differ, as do the lowest ones, which decide a predicate."""
_NUMBERS = tuple(pow(0x9E3779B97F4A7C15F39CC0605CEDC835, k, (1 << 127) - 1) for k in range(1, 25))
"""What stands for undefined bits, besides the extremes and the other operands: enough that every bit of a sum differs."""


def undefined_results(
    function: Function,
    instruction: Instruction,
    undefined: Mapping[int, int],
    number: Callable[[Operand], int | None],
) -> dict[int, int]:
    """Register that *instruction* computes from its operands alone -> its undefined bits, given those of the registers that
    it reads; without those that are defined, or of which this cannot be said.

    *number* is the number that an operand is known to be, None if it is not.
    """
    match = instruction.match
    if match is None or match.problem or match.form.memory:
        return {}
    found: dict[int, int] = {}
    for register in instruction.writes:
        scalar = operation(function, instruction, register)
        every = (1 << width_of(function.registers[register].type)) - 1
        if scalar is not None:
            bits = _tried(scalar, undefined, number, every)
        elif match.form.from_operands or match.modes.sets_carry:
            bits = _of_floats(function, instruction, register, undefined)
        else:
            bits = 0
        bits &= every
        if bits:
            found[register] = bits
    return found


def _tried(
    scalar: ScalarOperation,
    undefined: Mapping[int, int],
    number: Callable[[Operand], int | None],
    every: int,
) -> int:
    """The bits of the result that differ with undefined bits of one register, or of all, under both patterns.

    *every*: all bits that the result has.
    """
    names = [_name(source) for source in scalar.sources]
    masks = [undefined.get(name, 0) if isinstance(name, int) else 0 for name in names]
    known = [None if mask else number(source) for mask, source in zip(masks, scalar.sources, strict=True)]
    of = list(dict.fromkeys(name for name, mask in zip(names, masks, strict=True) if mask))
    negated = [isinstance(source, Not) for source in scalar.sources]

    def compute(*numbers: int) -> int:
        return scalar.compute(*(n ^ 1 if flip else n for n, flip in zip(numbers, negated, strict=True)))

    found = every
    for pattern in _PATTERNS:
        base = [
            value & _EVERY if value is not None else (pattern ^ -(names.index(name) & 1)) & _EVERY
            for name, value in zip(names, known, strict=True)
        ]
        differing = 0
        for varied in (*([name] for name in of), of):
            if found & ~differing:
                turns = [varied.index(name) if name in varied else None for name in names]
                differing |= _differing(compute, base, masks, turns, found & ~differing)
        found &= differing
    return found


def _name(operand: Operand) -> Operand:
    """What is the same for operands with the same bits: their register; a negated predicate has those of the predicate."""
    return operand.register if isinstance(operand, Not) else operand


def _differing(
    compute: Callable[..., int],
    base: Sequence[int],
    masks: Sequence[int],
    turns: Sequence[int | None],
    asked: int,
) -> int:
    """The bits of the result that differ if the undefined bits of the operands with a turn do, each with numbers of its
    own; of those *asked* for, all, and maybe others."""
    numbers = (0, _EVERY, *_NUMBERS, *base, *(b + 1 for b in base))
    first: int | None = None
    found = 0
    for at in range(len(numbers)):
        operands = [
            b if turn is None else (b & ~mask) | (numbers[(at + turn) % len(numbers)] & mask)
            for b, mask, turn in zip(base, masks, turns, strict=True)
        ]
        try:
            result = compute(*operands)
        except ZeroDivisionError:  # unspecified by the ISA (9.7.1.8)
            continue
        first = result if first is None else first
        found |= result ^ first
        if not asked & ~found:
            break
    return found


def _of_floats(
    function: Function, instruction: Instruction, register: int, undefined: Mapping[int, int]
) -> int:
    """The undefined bits of the result of a floating-point operation, or of one with a carry: all of it, or of a half of a
    pair, if all of an operand is, or of what that half is computed from."""
    match = instruction.match
    assert match is not None
    if match.form.family == "compare" and (not match.relation or "c" in match.named):
        return 0  # another operand may select, or decide alone
    width = width_of(function.registers[register].type)
    parts = 2 if any(m.endswith("x2") for m in match.modifiers) else 1
    narrowed = (
        parts == 2 and match.form.family == "convert" and "b" in match.named
    )  # a is the upper half, b the lower
    found = 0
    for part in range(parts):
        named = {"ba"[part]: match.named["ba"[part]]} if narrowed else match.named
        for name, at in named.items():
            for source in registers(instruction.operands[at]) if name != "d" else ():
                size = width_of(function.registers[source].type) // (1 if narrowed else parts)
                lane = (1 << size) - 1 << (0 if narrowed else part * size)
                if undefined.get(source, 0) & lane == lane:
                    found |= (1 << width // parts) - 1 << part * (width // parts)
    return found
