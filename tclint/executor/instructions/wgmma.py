"""``wgmma.mma_async``: the four warps of a warpgroup issue one multiplication together (PTX ISA 9.7.15).

The first warp that arrives creates the operation, and each warp adds its part (:class:`_Part`): its accumulators, its
rows of A if A is in registers, and its metadata. The operation can complete once all four parts are there. Registers
are read when the operation captures its sources, not when it is issued, so overwriting one in between changes the
result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tclint._named_tuple import NamedTuple
from tclint.executor.code import Op
from tclint.executor.decode import Decoder, executes, parts
from tclint.executor.errors import Unsupported
from tclint.executor.memory import Array
from tclint.executor.state import LANES, AsyncOperation, Shared, Warp, stretches
from tclint.executor.tiles import check_matrices
from tclint.executor.warpgroup import INSTRUCTIONS, Immediates, Wgmma
from tclint.ir.nodes import Immediate, Instruction, Operand
from tclint.isa.effects import WGMMA

__all__: list[str] = []

_WARPS = 4
_POISON: Array = np.full(LANES, 0xFBFBFBFB, np.uint32)
_POISON.flags.writeable = False


class _Part(NamedTuple):
    """The part of one warp: the instruction, the registers of D and A (or the descriptor of A), and the operands that
    must be equal in all four warps."""

    site: int
    d: tuple[int, ...]
    a: tuple[int, ...] | int
    b: int
    scale_d: bool
    metadata: Array | None


def reader(memory: Shared) -> Callable[[Array], Array]:
    """A function that returns the bytes at addresses in the shared window of a CTA."""

    def read(addresses: Array) -> Array:
        memory.check(addresses, 1)
        return memory.data[addresses]

    return read


def _number(operand: Operand | None, default: int) -> int:
    return int(operand.value) if isinstance(operand, Immediate) else default


def _registers(operand: Operand) -> tuple[int, ...]:
    """The registers of a vector. Raises :class:`Unsupported` for anything else in it."""
    found = tuple(r for r in parts(operand) if isinstance(r, int))
    if len(found) != len(parts(operand)):
        raise Unsupported(f"the operand {operand}")
    return found


def _immediates(i: Instruction) -> Immediates:
    """The immediate operands of a wgmma."""
    names = ("imm-scale-a", "imm-scale-b", "imm-trans-a", "imm-trans-b", "sp-sel")
    return Immediates(*(_number(i.named(n), absent) for n, absent in zip(names, Immediates(), strict=True)))


@executes(*INSTRUCTIONS)
def _mma_async(d: Decoder, i: Instruction) -> Op:
    match = i.match
    assert match is not None
    run = INSTRUCTIONS[match.form.name](match)
    accumulators = _registers(d.needed(i, "d"))
    given = i.named("a")
    registers = _registers(given) if given is not None else None
    left = d.fetch(d.needed(i, "a-desc"), 8) if registers is None else None
    right = d.fetch(d.needed(i, "b-desc"), 8)
    scale = d.fetch(d.needed(i, "scale-d"), 0)
    meta = i.named("sp-meta")
    metadata = d.fetch(meta) if meta is not None else None
    immediates = _immediates(i)
    site = d.site
    operands = frozenset(accumulators) | frozenset(registers or ())

    duplicate = next((r for r in accumulators if accumulators.count(r) > 1), None)

    def uniform(w: Warp, value: Callable[[Warp], Array]) -> int:
        """The value of a descriptor, which must be warp-uniform (9.7.15.5.1.2)."""
        found = value(w)[w.mask]
        if (found != found[0]).any():
            w.machine.observe("nonuniform", w, "lanes of the warp pass different descriptors to wgmma")
        return int(found[0])

    def op(w: Warp) -> None:
        if not w.fenced:
            w.machine.observe(
                "wgmma-fence", w, "is the first wgmma of its warp, with no preceding wgmma.fence"
            )
        if duplicate is not None:
            name = d.function.registers[duplicate].name
            text = f"{name} appears twice in the accumulator, so it is written twice"
            w.machine.observe("register-twice", w, text)
        stale = operands.intersection(w.unfenced)
        if stale:
            register = min(stale)
            w.machine.observe(
                "wgmma-fence", w,
                f"uses {d.function.registers[register].name}, which was accessed with no wgmma.fence since",
                w.unfenced[register],
            )  # fmt: skip
        for register in registers or ():
            operation = w.filling.get(register)
            if operation is not None:
                w.machine.observe(
                    "register-in-flight", w,
                    f"reads {d.function.registers[register].name} before the {operation.what} that writes it completes",
                    operation,
                )  # fmt: skip
        a: Any = registers if left is None else uniform(w, left)
        part = _Part(
            site, accumulators, a, uniform(w, right), bool(scale(w)[int(w.mask.argmax())]),
            metadata(w) if metadata is not None else None,
        )  # fmt: skip
        _join(w, part, run, immediates, registers or ())

    return op


def _join(w: Warp, part: _Part, run: Wgmma, immediates: Immediates, sources: tuple[int, ...]) -> None:
    """Add the part of a warp to the multiplication, which the first of the four warps issues.

    *sources* are the registers of A.
    """
    cta, machine = w.cta, w.machine
    group = w.index // _WARPS
    operations = cta.warpgroups.setdefault(group, [])
    number = w.issued
    w.issued += 1
    memory = cta.shared
    left, right = run.reads(part.a if isinstance(part.a, int) else np.zeros(0), part.b, immediates)
    reads = [stretches(memory, (*left, *right))]
    if number == len(operations):
        operation = AsyncOperation(
            part.site, w, WGMMA, reads=reads, before=[f for f in operations[-1:] if not f.done],
            stamp=len(operations) + 1 << 10 | w.warpgroup, note={"parts": {}, "saved": {}},
        )  # fmt: skip
        operation.ready = lambda: len(operation.note["parts"]) == _WARPS
        operation.finish = lambda: _multiply(operation, run, immediates)
        operation.capture = lambda: _capture(operation)
        operations.append(operation)
        machine.issue(operation)
    else:
        operation = operations[number]
        first = next(iter(operation.note["parts"].values()))
        if first.site != part.site or (first.b, first.scale_d) != (part.b, part.scale_d):
            machine.observe(
                "nonuniform", w, "the warps of the warpgroup do not issue the same wgmma with the same descriptors",
                first.site,
            )  # fmt: skip
        machine.check_drain(w, reads, operation)
    operation.note["parts"][w] = part
    w.join_group(WGMMA, operation)
    saved = operation.note["saved"]
    for register in part.d:
        if register not in w.filling and w.regs[register] is not _POISON:
            saved[w, register] = w.regs[register]
            w.regs[register] = _POISON
        w.filling[register] = operation
    for register in sources:
        w.draining[register] = operation
    if len(operation.note["parts"]) == _WARPS:
        if machine.schedule.at_once(operation.site) and machine.can_complete(operation):
            machine.complete(operation)
            for other in operation.note["parts"]:
                machine.unlock(other, operation)
        machine.wake(operation)


def _capture(operation: AsyncOperation) -> None:
    """Read the operands that are in registers, with the values that they have now and not those at the issue."""
    parts = sorted(operation.note["parts"].items(), key=lambda item: item[0].index)
    saved = operation.note["saved"]

    def held(w: Warp, register: int) -> Array:
        value = w.regs[register]
        return saved[w, register] if value is _POISON and (w, register) in saved else value

    first = parts[0][1]
    operation.note["d"] = np.concatenate([np.stack([held(w, r) for r in p.d]) for w, p in parts], axis=1)
    if isinstance(first.a, int):
        operation.note["a"] = first.a
    else:
        operation.note["a"] = np.concatenate([np.stack([w.regs[r] for r in p.a]) for w, p in parts], axis=1)
    operation.note["m"] = None if first.metadata is None else np.concatenate([p.metadata for _, p in parts])
    operation.note["parts"] = dict(parts)


def _multiply(operation: AsyncOperation, run: Wgmma, immediates: Immediates) -> None:
    """Compute D and write the accumulators of all four warps."""
    parts = operation.note["parts"]
    first = next(iter(parts.values()))
    memory, w = operation.warp.cta.shared, operation.warp
    check_matrices(w, first.site, memory, run.matrices(operation.note["a"], first.b, immediates))
    result = run.execute(
        reader(memory), operation.note["a"], first.b, operation.note["d"] if first.scale_d else None,
        immediates, operation.note["m"],
    )  # fmt: skip
    for n, (w, part) in enumerate(parts.items()):
        block = result[:, n * LANES : (n + 1) * LANES]
        for row, register in enumerate(part.d):
            w.regs[register] = block[row]
    operation.note = {"parts": parts}
