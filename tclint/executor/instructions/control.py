"""Control flow (PTX ISA 9.7.12), ``setmaxnreg``, and instructions with no effect on results."""

from __future__ import annotations

import numpy as np

from tclint.analyses.setmaxnreg import launched, raises, requested
from tclint.executor.code import Op
from tclint.executor.decode import Decoder, executes
from tclint.executor.errors import Unsupported
from tclint.executor.memory import Array, Fault
from tclint.executor.signals import AGAIN, ENDED
from tclint.executor.state import LANES, Warp
from tclint.ir.nodes import Immediate, Instruction
from tclint.isa.callees import ASSERTION
from tclint.isa.effects import Barrier, Resource

__all__: list[str] = []


def _reconvergence(d: Decoder) -> int:
    """The first instruction of the immediate post-dominator of the current branch.

    -1 if it has none, or exits there: no lane waits for others before it exits.
    """
    block = d.cfg.block_of[d.site]
    follower = d.cfg.ipdom.get(block, -1)
    meet = d.cfg.blocks[follower].start if follower >= 0 else -1
    return -1 if meet in d.leaving else meet


@executes("bra")
def _bra(d: Decoder, i: Instruction) -> Op:
    target, site, guard, negated = i.targets[0], d.site, i.guard, i.negated
    if target < 0:
        target = len(d.function.instructions)
    if guard < 0:
        return lambda w: target
    meet = _reconvergence(d)

    def op(w: Warp) -> int | None:
        taken = w.regs[guard]
        if negated:
            taken = ~taken
        if not w.full:
            taken = taken & w.mask
        count = np.count_nonzero(taken)
        if not count:
            return None
        if count == (LANES if w.full else np.count_nonzero(w.mask)):
            return target
        w.machine.fork(w.split, [(target, taken), (site + 1, w.mask & ~taken)], meet)
        return ENDED

    return op


@executes("brx.idx")
def _brx(d: Decoder, i: Instruction) -> Op:
    index, meet, targets = d.fetch(i.operands[0]), _reconvergence(d), i.targets
    site, guard, negated = d.site, i.guard, i.negated

    def op(w: Warp) -> int | None:
        values = index(w)
        active = w.mask
        if guard >= 0:
            active = active & (~w.regs[guard] if negated else w.regs[guard])
            if not active.any():
                return None
        paths: dict[int, Array] = {}
        rest = w.mask & ~active
        if rest.any():
            paths[site + 1] = rest
        for value in sorted(set(values[active].tolist())):
            if not 0 <= value < len(targets) or targets[value] < 0:
                raise Fault(f"brx.idx: index {value} is out of range for {len(targets)} targets")
            lanes = active & (values == value)
            at = targets[value]
            paths[at] = paths[at] | lanes if at in paths else lanes
        if len(paths) == 1:
            return next(iter(paths))
        w.machine.fork(w.split, list(paths.items()), meet)
        return ENDED

    return op


@executes("ret", "exit")
def _leave(d: Decoder, i: Instruction) -> Op:
    return lambda w: w.machine.leave(w.split, w.mask)


@executes("trap", "brkpt")
def _trap(d: Decoder, i: Instruction) -> Op:
    place = d.code.place(d.site)

    def op(w: Warp) -> None:
        raise Fault(f"{i.opcode} at {place}")

    return op


@executes("call")
def _call(d: Decoder, i: Instruction) -> Op:
    callee = i.callee or "a function of unknown name"
    if callee == ASSERTION:
        place = d.code.place(d.site)

        def fail(w: Warp) -> None:
            raise Fault(f"an assertion failed at {place}")

        return fail
    if callee == "vprintf":
        return _printf(d, i)
    raise Unsupported(f"call of {callee}")


def _printf(d: Decoder, i: Instruction) -> Op:
    site = d.site

    def op(w: Warp) -> None:
        w.machine.note("the output of printf is not shown", site)

    return op


@executes(
    "nanosleep", "pmevent", "pmevent.mask", "trace.mark", "prefetch", "prefetch.tensormap", "prefetchu",
    "applypriority", "discard", "cp.async.bulk.prefetch", "cp.async.bulk.prefetch.tensor", "cp.async.bulk.prefetch.tensor.im2col",
)  # fmt: skip
def _nothing(d: Decoder, i: Instruction) -> Op:
    return lambda w: None


@executes("griddepcontrol.wait", "griddepcontrol.launch_dependents")
def _grid(d: Decoder, i: Instruction) -> Op:
    """Records that the warp has waited, so that earlier reads of the previous grid's data are detected (9.7.13.16).

    Grids run one after another, so the wait itself never blocks.
    """
    site, text = d.site, f"{i.opcode} has no effect: no other grid is running"
    waits = i.effects.awaits is Barrier.GRIDS

    def op(w: Warp) -> None:
        if waits:
            w.waited_for_grid = True
        if w.machine.memory.earlier is None:
            w.machine.note(text, site)

    return op


@executes("setmaxnreg")
def _setmaxnreg(d: Decoder, i: Instruction) -> Op:
    """Reports a register count that changes against the qualifier, and waits for registers (9.7.19.5).

    ``.inc`` takes registers from the pool of the CTA, which holds those that ``.dec`` has released; warps that exit
    release none (docs/isa-notes.md). Where ``ptxas`` cannot determine the count at launch, the pool is unlimited.
    """
    increases = [o for o in d.function.instructions if o.effects.resource is Resource.REGISTERS and raises(o)]
    start = launched(d.function)
    largest = max(map(requested, increases), default=None)
    if start is not None and largest is not None:
        start = min(start, largest)  # ptxas starts the kernel with no more than that
    count, up = requested(i), raises(i)

    def op(w: Warp) -> int | None:
        owned = w.owned or start
        if owned is not None and (count < owned if up else count > owned):
            w.machine.observe(
                "registers", w, f"requests to {'raise' if up else 'lower'} its {owned} registers to {count}"
            )
        if start is not None and owned is not None:
            released = _allocated(owned) - _allocated(count)
            if w.cta.register_pool + released < 0:
                w.machine.park(
                    w.split, f"registers: {-released} per thread, {w.cta.register_pool} are in the pool"
                )
                return AGAIN
            w.cta.register_pool += released
            if released > 0:
                _wake_for_registers(w)
        w.owned = count
        return None

    return op


def _allocated(count: int) -> int:
    """The registers that a thread with *count* registers occupies: they are allocated in eights."""
    return -(-count // 8) * 8


def _wake_for_registers(w: Warp) -> None:
    """Let the warps of the CTA of *w* that wait for registers try again."""
    machine = w.machine
    for split in [
        s for s in machine.parked if s.warp.cta is w.cta and str(s.waits).startswith("registers: ")
    ]:
        machine.resume(split)
    machine.progress()


@executes("createpolicy.range", "createpolicy.fractional", "createpolicy.cvt")
def _policy(d: Decoder, i: Instruction) -> Op:
    put = d.put(i.operands[0])
    value = d.source(Immediate(0), 8)
    return lambda w: put(w, w.regs[value])
