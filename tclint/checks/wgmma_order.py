"""The order of two wgmma that share registers (PTX ISA 9.7.15.7).

Two wgmma of the same shape and type that accumulate into the same registers in the same order are implicitly ordered.
Every other use of registers of an earlier wgmma needs a fence, and some need a wait as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from tclint._dataclass import dataclass
from tclint.analyses.groups import Groups, GroupsState, WgmmaGroups
from tclint.analyses.model import FactQuery, KernelModel
from tclint.checks import Hit, Mark, RuleId, check
from tclint.checks._repairs import arrive_together, fence_before, waits_for_all_groups
from tclint.dataflow import Path, Results
from tclint.findings.edits import Repair, before
from tclint.ir.nodes import Instruction, Vector, registers
from tclint.isa.effects import WGMMA, Fence

WG008 = RuleId("WG008")


@dataclass(frozen=True)
class _Layout:
    """The registers of a wgmma, and how it maps the matrices to them."""

    shape: str
    """The shape and the type of the accumulator: ``.m64n8k16.f32``."""
    accumulator: tuple[int, ...]
    fragment: frozenset[int]

    @cached_property
    def written(self) -> frozenset[int]:
        return frozenset(self.accumulator)

    @property
    def distinct(self) -> bool:
        """Whether every register appears once; WG006 reports the others."""
        return len(self.written) == len(self.accumulator) and self.written.isdisjoint(self.fragment)

    @classmethod
    def of(cls, instruction: Instruction) -> _Layout:
        assert instruction.match is not None
        binding = instruction.match.binding
        d, a = instruction.role("d"), instruction.role("a")
        return cls(
            str(binding.get("shape", "")) + str(binding.get("dtype", "")),
            registers(d) if d is not None else (),
            frozenset(registers(a)) if isinstance(a, Vector) else frozenset(),
        )


@dataclass(frozen=True)
class _Conflict:
    """What a second wgmma does to registers of a first one in flight."""

    registers: frozenset[int]
    message: str
    """With a pair of braces for the name of a register."""
    remedy: str
    fence_suffices: bool
    """Whether a wgmma.fence is enough; otherwise the first one must also complete."""


_WAIT = "commit the earlier one, wait for it with wgmma.wait_group, and add wgmma.fence.sync.aligned between the two"


def _conflict(first: _Layout, second: _Layout) -> _Conflict | None:
    """How the registers of *second* conflict with those of *first* in flight; None if they are disjoint or ordered."""
    if forwarded := first.written & second.fragment:
        return _Conflict(
            forwarded, "reads {} as A while an earlier wgmma.mma_async may still write it", _WAIT, False
        )
    if refilled := first.fragment & second.written:
        return _Conflict(
            refilled, "writes {} while an earlier wgmma.mma_async may still read it as A", _WAIT, False
        )
    shared = first.written & second.written
    if not shared or (first.shape, first.accumulator) == (second.shape, second.accumulator):
        return None
    difference = (
        f"another shape or type ({second.shape} after {first.shape})"
        if first.shape != second.shape
        else "another register order"
    )
    message = f"accumulates into {{}} of an earlier wgmma.mma_async with {difference} and no intervening wgmma.fence"
    return _Conflict(shared, message, "add wgmma.fence.sync.aligned between the two", True)


def _copied(model: KernelModel, site: int, first: _Layout, second: _Layout) -> bool:
    """Whether both accumulate into the same values at *site* in the same order, some of them copied by ``mov``.

    ptxas treats a ``mov`` as a renaming of the register, so the two are implicitly ordered.
    """
    held = [[model.values.before(r, site) for r in layout.accumulator] for layout in (first, second)]
    return first.shape == second.shape and held[0] == held[1]


@check(WG008, analyses=(WgmmaGroups,))
def shape_change_without_fence(model: KernelModel) -> Iterator[Hit]:
    """Registers shared by two wgmma that are not implicitly ordered."""
    layouts = {site: _Layout.of(model.instruction(site)) for site in model.begins(WGMMA)}
    layouts = {site: layout for site, layout in layouts.items() if layout.distinct}
    kinds = {layout: n for n, layout in enumerate(dict.fromkeys(layouts.values()))}
    if len(kinds) < 2:
        return
    kind = {site: kinds[layout] for site, layout in layouts.items()}
    groups, results = model.solution(WgmmaGroups)
    conflicts: dict[tuple[int, int], _Conflict | None] = {}
    for site, layout in layouts.items():
        for earlier in sorted({s for s, _ in results.before(site)[0] if s in layouts}, reverse=True):
            pair = kind[earlier], kind[site]
            if pair not in conflicts:
                conflicts[pair] = _conflict(layouts[earlier], layout)
            conflict = conflicts[pair]
            if not conflict or (conflict.fence_suffices and _copied(model, site, layouts[earlier], layout)):
                continue
            path = _unordered(model, groups, results, earlier, site, conflict.fence_suffices)
            if not path:
                continue
            conflicts[pair] = None  # each pair of layouts is reported once
            name = model.function.registers[min(conflict.registers)].name
            yield WG008.hit(
                site=site,
                message=f"{model.name(site)} {conflict.message.format(name)}",
                steps=(Mark(earlier, "the earlier wgmma.mma_async starts here"), Mark(site, f"uses {name}")),
                count=len(conflict.registers),
                help=conflict.remedy,
                fixes=_ordered(model, groups, site, conflict.fence_suffices),
                confidence=model.confidence(path, earlier),
            )


def _ordered(model: KernelModel, groups: Groups, site: int, fence_suffices: bool) -> tuple[Repair, ...]:
    """What orders the wgmma at *site* after all earlier ones; empty if its warpgroup may be divergent there."""
    if not arrive_together(model, site, "warpgroup", (site,)):
        return ()
    fence = "wgmma.fence.sync.aligned;"
    if fence_suffices:
        return fence_before((site,), fence)
    statements = ("wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;", fence)
    return (
        Repair(
            "complete the earlier wgmma.mma_async before this one",
            (before(site, *statements),),
            waits_for_all_groups(model, groups.group),
        ),
    )


def _unordered(
    model: KernelModel,
    groups: Groups,
    results: Results[GroupsState],
    first: int,
    second: int,
    fence_suffices: bool,
) -> Path | None:
    """A path from *first* to *second* on which the first stays in flight, with no fence if one suffices; or None."""

    follow = groups.following(first)

    def step(state: GroupsState, at: int, instruction: Instruction) -> GroupsState | None:
        ordered = fence_suffices and instruction.effects.fence is Fence.REGISTERS
        return None if ordered else follow(state, at, instruction)

    return model.path(
        FactQuery(first, groups.start(first), results, step, lambda state, at: at == second, (second,))
    ).witness
