"""Checks of the order between two wgmma that share registers (PTX ISA 9.7.15.7)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from tclint.analyses.groups import State, WgmmaGroups
from tclint.analyses.model import KernelModel
from tclint.checks import Hit, Mark, RuleId, check
from tclint.checks._repairs import drained, fence_before, together
from tclint.dataflow import Path, Results
from tclint.findings.edits import Repair, before
from tclint.ir.nodes import Instruction, Vector, registers

WG008 = RuleId("WG008")


@dataclass(frozen=True)
class _Layout:
    """How a wgmma lays out its registers."""

    shape: str
    """With the type of the accumulator: ``.m64n8k16.f32``."""
    accumulator: tuple[int, ...]
    fragment: frozenset[int]

    @cached_property
    def written(self) -> frozenset[int]:
        return frozenset(self.accumulator)

    @property
    def sound(self) -> bool:
        """Whether every register stands in one place; otherwise that is the fault (WG006)."""
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
    """What a second wgmma does to the registers of a first one in flight."""

    registers: frozenset[int]
    what: str
    remedy: str
    fenced: bool
    """A wgmma.fence is enough."""


_WAIT = (
    "commit and wait for the first one (wgmma.wait_group) and put wgmma.fence.sync.aligned between the two"
)


def _conflict(first: _Layout, second: _Layout) -> _Conflict | None:
    if forwarded := first.written & second.fragment:
        return _Conflict(forwarded, "takes {}, which an earlier wgmma still writes, as A", _WAIT, False)
    if refilled := first.fragment & second.written:
        return _Conflict(refilled, "writes {}, which an earlier wgmma still reads as A", _WAIT, False)
    shared = first.written & second.written
    if not shared or (first.shape, first.accumulator) == (second.shape, second.accumulator):
        return None
    difference = (
        f"{second.shape} after {first.shape}"
        if first.shape != second.shape
        else "in another order of registers"
    )
    what = f"accumulates into {{}} of an earlier wgmma in another way ({difference}) without a wgmma.fence"
    return _Conflict(shared, what, "add wgmma.fence.sync.aligned between the two", True)


def _copied(model: KernelModel, site: int, first: _Layout, second: _Layout) -> bool:
    """Whether the second one takes the accumulators of the first as they are, some of them as copies.

    ptxas takes a ``mov`` there for another name of the register.
    """
    held = [[model.values.before(r, site) for r in layout.accumulator] for layout in (first, second)]
    return first.shape == second.shape and held[0] == held[1]


@check(WG008, needs="wgmma", analyses=(WgmmaGroups,))
def shape_change_without_fence(model: KernelModel) -> Iterator[Hit]:
    """Registers that pass from one wgmma to another outside the one case that is ordered by itself."""
    layouts = {site: _Layout.of(model.instruction(site)) for site in model.sites("issue", "wgmma")}
    layouts = {site: layout for site, layout in layouts.items() if layout.sound}
    kinds = {layout: n for n, layout in enumerate(dict.fromkeys(layouts.values()))}
    if len(kinds) < 2:
        return
    kind = {site: kinds[layout] for site, layout in layouts.items()}
    groups, results = model.solution(WgmmaGroups)
    known: dict[tuple[int, int], _Conflict | None] = {}
    for site, layout in layouts.items():
        for earlier in sorted({s for s, _ in results.before(site)[0] if s in layouts}, reverse=True):
            pair = kind[earlier], kind[site]
            if pair not in known:
                known[pair] = _conflict(layouts[earlier], layout)
            conflict = known[pair]
            if not conflict or (conflict.fenced and _copied(model, site, layouts[earlier], layout)):
                continue
            path = _unordered(model, groups, results, earlier, site, conflict.fenced)
            if not path:
                continue
            known[pair] = None  # once is enough
            name = model.function.registers[min(conflict.registers)].name
            yield WG008.hit(
                site=site,
                message=conflict.what.format(name),
                steps=(Mark(earlier, "the earlier wgmma starts here"), Mark(site, f"uses {name}")),
                count=len(conflict.registers),
                help=conflict.remedy,
                fixes=_ordered(model, groups, site, conflict.fenced),
                confidence=model.confidence(path, earlier),
            )


def _ordered(model: KernelModel, groups: WgmmaGroups, site: int, fenced: bool) -> tuple[Repair, ...]:
    """What orders the wgmma at *site* behind all earlier ones, where all its threads come."""
    if not together(model, site, "warpgroup", (site,)):
        return ()
    fence = "wgmma.fence.sync.aligned;"
    if fenced:
        return fence_before((site,), fence)
    statements = ("wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;", fence)
    return (
        Repair(
            "complete the first one before this one",
            (before(site, *statements),),
            drained(model, groups.group),
        ),
    )


def _unordered(
    model: KernelModel, groups: WgmmaGroups, results: Results[State], first: int, second: int, fenced: bool
) -> Path | None:
    """A path between the two on which the first stays in flight and nothing orders its registers."""

    follow = groups.following(first)

    def step(state: State, at: int, instruction: Instruction) -> State | None:
        fence = fenced and instruction.event == "register-fence"
        return None if fence else follow(state, at, instruction)

    return model.path(
        first, groups.start(first), results, step, lambda state, at: at == second, (second,)
    ).witness
