"""Waits and proxy fences that the same thread has executed before, with nothing since that they could concern.

A must analysis: what it holds has been executed on every path, whatever the values of predicates. A proxy fence orders
accesses of other threads, too, that its thread is ordered after (PTX ISA 8.9), so any instruction that may synchronise
ends what is known of a fence, as any access to memory does.
"""

from __future__ import annotations

from collections.abc import Iterable

from tclint._named_tuple import NamedTuple
from tclint.analyses.in_flight import depth
from tclint.dataflow.kernel import Kernel
from tclint.dataflow.solver import Analysis
from tclint.ir.nodes import Instruction
from tclint.isa.effects import SELF_AWAITED, Fence, Resource
from tclint.sync.operations import UNCLEAR

__all__ = ["Done", "Repeated", "what"]

FENCE = "fence"
_NO_GUARD = (-1, False)
_ELSEWHERE = (".local", ".param", ".const")
"""Private or constant memory, which no other proxy accesses."""


class Done(NamedTuple):
    """A wait or a proxy fence."""

    kind: str
    """The group of a wait, or :data:`FENCE`."""
    depth: int
    """The groups that a wait may leave pending."""
    detail: str
    """``read`` if a wait is for sources alone; the state space of a fence."""

    def covers(self, later: Done) -> bool:
        """Whether *later* has nothing to do after this one."""
        if self.kind != later.kind or self.depth > later.depth:
            return False
        return self.detail in ("", later.detail)


Fact = tuple[Done, tuple[int, bool]]
"""What was executed, and the guard under which it was: a register, and whether it is negated."""
State = frozenset[Fact] | None


def what(instruction: Instruction) -> Done | None:
    """What *instruction* is, if it is a wait for operations of its own thread or an async proxy fence; else None."""
    match = instruction.match
    if match is None or match.problem:
        return None
    if match.form.effects.fence is Fence.PROXY and match.form.proxy == "async":
        return None if match.restricted else Done(FENCE, 0, match.space)
    if match.form.effects.waits not in SELF_AWAITED or depth(instruction) == UNCLEAR:
        return None
    return Done(match.form.group, depth(instruction), "read" if instruction.effects.sources else "")


class Repeated(Analysis[State]):
    """What has been executed on every path, with nothing since that it could concern; None for unreachable code."""

    def __init__(self, model: Kernel) -> None:
        self.instructions = model.function.instructions
        self.kinds = {i: found for i, each in enumerate(self.instructions) if (found := what(each))}
        guards = {self.instructions[i].guard for i in self.kinds}
        self._affecting = [
            i
            for i, each in enumerate(self.instructions)
            if i in self.kinds or not _inert(each) or each.event or not guards.isdisjoint(each.writes)
        ]

    def boundary(self) -> State:
        return frozenset()

    def bottom(self) -> State:
        return None

    def join(self, a: State, b: State) -> State:
        if a is None or b is None:
            return b if a is None else a
        return a & b

    def affecting_sites(self) -> Iterable[int]:
        return self._affecting

    def transfer(self, state: State, at: int, instruction: Instruction) -> State:
        if state is None:
            return None
        kept = frozenset(f for f in state if not _ends(f, instruction, at in self.kinds))
        return kept | {(self.kinds[at], _NO_GUARD)} if at in self.kinds else kept

    def guarded(self, state: State, after: State, at: int) -> State:
        if state is None or after is None or at not in self.kinds:
            return self.join(state, after)
        instruction = self.instructions[at]
        return (state & after) | {(self.kinds[at], (instruction.guard, instruction.negated))}

    def before(self, state: State, at: int) -> bool:
        """Whether instruction *at*, a wait or a fence, has nothing to do in *state*, the state before it."""
        instruction, kind = self.instructions[at], self.kinds[at]
        guards = (_NO_GUARD, (instruction.guard, instruction.negated))
        return state is not None and any(done.covers(kind) and guard in guards for done, guard in state)


def _ends(fact: Fact, instruction: Instruction, repeats: bool) -> bool:
    """Whether an instruction may give a repetition of *fact* something to do, or changes the guard under which it held.

    *repeats*: it is a wait or a fence itself. A wait lets the thread observe what the operations wrote.
    """
    done, (guard, _) = fact
    if instruction.flow == "call" or guard in instruction.writes:
        return True
    if done.kind != FENCE:
        return instruction.group == done.kind and (
            instruction.effects.begins is not None or instruction.effects.commits is not None
        )
    fences = repeats and instruction.effects.fence is Fence.PROXY
    return not fences and not _inert(instruction)


def _inert(instruction: Instruction) -> bool:
    """Whether *instruction* neither accesses memory that other threads or proxies access, nor synchronises."""
    match = instruction.match
    if match is None or match.problem:
        return False
    form = match.form
    if form.event:
        effects = form.effects
        closes = effects.commits is not None and effects.arrival is None
        return closes or effects.fence is Fence.REGISTERS or effects.resource is Resource.REGISTERS
    if form.async_reads or form.async_writes or form.handled:
        return False
    return form.flow != "call" and (not form.memory or match.space.startswith(_ELSEWHERE))
