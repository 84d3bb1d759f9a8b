"""The check of flags that are set before the results of a bulk copy are written (PTX ISA 8.8, 9.7.9.27.2.2).

A thread that has copied data to global memory sets a flag for the threads that read it. A release makes known what the
thread has observed, and a wait for the source alone does not make it observe the writes of the copy.
"""

from __future__ import annotations

from collections.abc import Iterator

from tclint._named_tuple import NamedTuple
from tclint.analyses.groups import BulkGroups
from tclint.analyses.model import FactQuery, KernelModel
from tclint.analyses.plausibility import (
    NO_DOUBT,
    Doubt,
    most_plausible_path,
    skips_for_launch,
    tests_launch,
)
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.checks._repairs import with_opcode
from tclint.dataflow import Path
from tclint.findings.edits import Repair
from tclint.findings.scales import Confidence, Severity
from tclint.ir.cfg import Edge
from tclint.ir.nodes import Instruction, Memory
from tclint.isa.effects import BULK, Fence
from tclint.isa.forms import Match
from tclint.sync.operations import OPEN
from tclint.values import UniformityScope
from tclint.values.nodes import Unmodelled

BK004 = RuleId("BK004")

_SAME_CONDITION = "the launch determines whether the thread waits for the result, and may also determine whether it sets this flag"
"""The doubt about a path that skips a wait for the result."""


class _Copied(NamedTuple):
    """What a thread has done since it issued a copy whose result it has not waited for."""

    age: int
    wait: int = -1
    """The wait after which the source of the copy has been read; -1 before such a wait."""
    fenced: bool = False
    """A fence has followed that wait, so that every strong write is part of a release pattern (8.8)."""


class _Signalled(NamedTuple):
    """A flag that is set while the result of *copy* is in flight."""

    copy: int
    flag: int
    wait: int
    path: Path
    doubt: Doubt


@check(also=(BK004,), analyses=(BulkGroups,))
def flag_before_result(model: KernelModel) -> Iterator[Hit]:
    """Report flags that a thread sets when it has waited only until the source of its bulk copy was read."""
    reads = [i for i in model.waits(BULK) if model.instruction(i).effects.sources]
    flags = frozenset(_flags(model) if reads else ())
    found = (
        ((each.flag, each.wait), each)
        for copy in (model.begins(BULK) if flags else ())
        for each in _signalled(model, copy, flags, reads)
    )
    for equivalent in grouped(found).values():
        yield _hit(model, min(equivalent, key=lambda each: bool(each.doubt)), len(equivalent))


def _flags(model: KernelModel) -> Iterator[int]:
    """The strong writes to global memory by which threads of other CTAs may be notified."""
    for use in model.function.uses:
        match = use.match
        if match is None or match.form.event or match.space not in ("", ".global"):
            continue
        if _writes(match) and match.wide:
            reached = (i for i in use.sites if model.cfg.block_of[i] in model.cfg.rank)
            releases = match.order.releases
            yield from (i for i in reached if releases or not _reserves(model, i))


def _writes(match: Match) -> bool:
    return any(verb == "write" for verb, _ in match.form.memory)


def _reserves(model: KernelModel, site: int) -> bool:
    """Whether a later write goes where the result of the atomic operation *site* determines.

    The operation then reserves a slot, such as one of a ring buffer, and what fills the slot is still to be written.
    """
    values = model.values
    for user, _ in model.transitive_users(site):
        instruction = model.instruction(user)
        if instruction.match is None or not _writes(instruction.match):
            continue
        bases = (values.operand(o.base, user) for o in instruction.operands if isinstance(o, Memory))
        if any(
            type(node) is Unmodelled and node.site == site
            for node in map(values.node, values.subexpressions(*bases))
        ):
            return True
    return False


def _signalled(
    model: KernelModel, copy: int, flags: frozenset[int], reads: list[int]
) -> Iterator[_Signalled]:
    """The first flag on a path from *copy*, after a wait for its source and before one for its result."""
    groups, results = model.solution(BulkGroups)
    # A flag after a wait that leaves the newest groups pending may be for the groups that it waits for.
    older = frozenset(model.waits(BULK)).difference(reads)

    def step(state: _Copied, at: int, instruction: Instruction) -> _Copied | None:
        age = groups.follow(copy, state.age, at, instruction)
        if age is None or at in older:
            return None
        wait = at if at in reads and age >= groups.left[at] else state.wait
        return _Copied(age, wait, wait >= 0 and (state.fenced or instruction.fence_order().releases))

    def goal(state: _Copied, at: int) -> bool:
        if at not in flags or state.wait < 0:
            return False
        match = model.instruction(at).match
        assert match is not None
        return state.fenced or match.order.releases

    def skips_full_wait(start: int, path: Path) -> Doubt:
        doubt = skips_for_launch(model, path, older, _SAME_CONDITION, scope=UniformityScope.WARP)
        return doubt if isinstance(doubt.edge, Edge) and tests_launch(model, path, doubt.edge) else NO_DOUBT

    fences = (i for i in model.sites(Fence.MEMORY) if model.instruction(i).fence_order().releases)
    query = FactQuery(copy, _Copied(OPEN), results, step, goal, (*flags, *reads, *fences))
    found = most_plausible_path(model, query, skips_full_wait).witness
    if found is not None:
        path, doubt = found
        yield _Signalled(copy, path.end, path.state.wait, path, doubt)


def _hit(model: KernelModel, found: _Signalled, count: int) -> Hit:
    """The finding about the flag of *found*; *count* is the number of copies before it."""
    copy = model.name(found.copy)
    return BK004.hit(
        site=found.flag,
        message=f"{model.name(found.flag)} sets a flag in global memory when {copy} may still be writing: cp.async.bulk.wait_group.read waits "
        "until its source has been read, not until its result is written",
        steps=(
            Mark(found.copy, f"{copy} starts to write global memory"),
            Mark(found.wait, "waits only until the sources have been read"),
            Mark(found.flag, "notifies threads that read the result"),
        ),
        count=count,
        help="if the flag is for the data of the copy, execute cp.async.bulk.wait_group (without .read) before it",
        fixes=_waited_fully(model, found.wait),
        severity=Severity.WARNING,
        confidence=Confidence.MEDIUM,
        about=frozenset((found.copy,)),
    ).doubted(found.doubt.why)


def _waited_fully(model: KernelModel, wait: int) -> tuple[Repair, ...]:
    opcode = model.instruction(wait).opcode.replace(".read", "")
    return with_opcode(wait, opcode, "wait for the results, without .read")
