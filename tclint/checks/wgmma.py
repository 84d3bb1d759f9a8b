"""Checks of wgmma: registers of the tensor core touched too early (PTX ISA 9.7.15)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tclint.analyses.groups import OVERDUE, Depth, State, Waited, WgmmaGroups, is_move
from tclint.analyses.model import KernelModel
from tclint.analyses.wgmma_accumulators import ignores_accumulator
from tclint.analyses.wgmma_fences import State as FenceState
from tclint.analyses.wgmma_fences import WgmmaFences
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.checks._pending import PendingReason
from tclint.checks._repairs import fence_before, together
from tclint.dataflow import Path, Results
from tclint.findings.edits import Repair, before, operand, without
from tclint.findings.scales import Confidence, Severity
from tclint.ir.nodes import Immediate, Instruction

WG001 = RuleId("WG001")
WG002 = RuleId("WG002")
WG003 = RuleId("WG003")
WG004 = RuleId("WG004")
WG005 = RuleId("WG005")
WG007 = RuleId("WG007")
WG009 = RuleId("WG009")

_TRIES = 6


Uses = dict[int, list[tuple[int, int]]]
"""Operation in flight -> the instructions that touch its registers, each with the register."""


@dataclass
class _Touches:
    """What ordinary instructions do to the registers of operations in flight."""

    reads: Uses = field(default_factory=dict)
    """Accumulators, and copies of them, that are read."""
    overwrites: Uses = field(default_factory=dict)
    fragments: Uses = field(default_factory=dict)
    """A fragments that are read."""


@check(WG001, WG003, WG004, WG007, WG009, needs="wgmma", analyses=(WgmmaGroups,))
def registers_in_flight(model: KernelModel) -> Iterator[Hit]:
    """Registers touched, or the kernel left, while a wgmma may still use them."""
    groups, results = model.solution(WgmmaGroups)
    touches = _touches(model, groups, results)
    reported: set[int] = set()
    yield from _report(model, groups, results, touches, reported)
    yield from _fragment_reads(model, groups, results, touches.fragments, reported)
    yield from _pending_at_exit(model, groups, results, reported)


def _touches(model: KernelModel, groups: WgmmaGroups, results: Results[State]) -> _Touches:
    instructions = model.function.instructions
    touches = _Touches()
    for b in model.cfg.order:
        block = model.cfg.blocks[b]
        state = results.entry[b]
        changes = results.affecting[b]
        if not state[0] and not any(instructions[i].event == "issue" for i in changes):
            continue
        pending = iter(changes)
        change = next(pending, -1)
        held: dict[int, tuple[set[int], set[int]]] | None = None
        for i in range(block.start, block.end):
            instruction = instructions[i]
            if state[0] and instruction.group != "wgmma":
                held = _held(groups, state) if held is None else held
                _touch(groups, held, state, i, instruction, touches)
            if i == change:
                after = groups.transfer(state, i, instruction)
                state = groups.join(state, after) if instruction.guard >= 0 else after
                held = None
                change = next(pending, -1)
    return touches


def _held(groups: WgmmaGroups, state: State) -> dict[int, tuple[set[int], set[int]]]:
    """Register -> the operations in flight that write it, and those that only read it."""
    held: dict[int, tuple[set[int], set[int]]] = {}
    for site in {s for s, _ in state[0]}:
        for register in groups.results[site]:
            held.setdefault(register, (set(), set()))[0].add(site)
        for register in groups.sources[site]:
            held.setdefault(register, (set(), set()))[1].add(site)
    for register, site, *_ in state[1]:
        held.setdefault(register, (set(), set()))[0].add(site)
    return held


def _touch(
    groups: WgmmaGroups,
    held: dict[int, tuple[set[int], set[int]]],
    state: State,
    i: int,
    instruction: Instruction,
    touches: _Touches,
) -> None:
    move = is_move(instruction)
    if not move:
        for register in (*instruction.reads, instruction.guard):
            entry = held.get(register)
            if entry:
                for site in entry[0]:
                    touches.reads.setdefault(site, []).append((i, register))
                for site in entry[1]:
                    touches.fragments.setdefault(site, []).append((i, register))
    for register in instruction.writes:
        entry = held.get(register)
        if not entry:
            continue
        for site in entry[0] | entry[1]:
            if register not in groups.results[site] and register not in groups.sources[site]:
                continue  # a copy: overwriting it harms nothing
            if move:
                # Moving a copy back where it came from changes nothing.
                source = instruction.reads[0]
                if any(c[0] == source and c[1] == site and c[2] == register for c in state[1]):
                    continue
            touches.overwrites.setdefault(site, []).append((i, register))


def _report(
    model: KernelModel,
    groups: WgmmaGroups,
    results: Results[State],
    touches: _Touches,
    reported: set[int],
) -> Iterator[Hit]:
    """One finding for each register tuple: chained wgmmas accumulate into one and are waited for together.

    The operations that a finding is about are added to *reported*.
    """
    told: dict[
        frozenset[int], int
    ] = {}  # accumulators -> first read reported: later writes have the same cause
    for writing, touched in ((False, touches.reads), (True, touches.overwrites)):
        for accumulators, sites in grouped((groups.results[i], i) for i in sorted(touched)).items():
            uses = sorted(
                {
                    (use, register)
                    for site in sites
                    for use, register in touched[site]
                    if register not in accumulators or use < told.get(accumulators, use + 1)
                }
            )
            for use, register in uses[:_TRIES]:
                nearest = sorted(
                    (s for s in sites if (use, register) in touched[s]), key=lambda s: (s > use, -s)
                )
                found = next(
                    filter(None, (_witness(model, groups, results, s, use, register) for s in nearest)), None
                )
                if found is not None:
                    told.setdefault(accumulators, use)
                    alike = [s for s, d in groups.results.items() if d == accumulators]
                    reported.update(alike)
                    count = len({u for u, _ in uses})
                    yield _finding(model, groups, results, found, use, register, writing, count, alike)
                    break


def _finding(
    model: KernelModel,
    groups: WgmmaGroups,
    results: Results[State],
    found: tuple[int, Path],
    use: int,
    register: int,
    writing: bool,
    count: int,
    alike: list[int],
) -> Hit:
    """The hit; its rule is decided by which synchronisation is missing.

    *alike* are the operations on the same accumulators.
    """
    site, path = found
    age = max(a for _, a in path.state[0])
    name = model.function.registers[register].name
    flight = PendingReason.of(model, groups, path, site, age)
    uncommitted = [
        site,
        *(s for s, a in results.before(use)[0] if a < 0),
    ]  # one commit behind them does for all
    why, remedy = flight.why, flight.remedy
    unwaited = age >= 0 and flight.wait is None
    if unwaited and _waited_elsewhere(model, groups, site, use):
        why, remedy = (
            "it is waited for on some paths only",
            "move wgmma.wait_group before this instruction on every path",
        )
    rule = WG004 if writing else WG003 if age == OVERDUE else WG001
    doubt = _copied(model)
    verb = "overwrites" if writing else "reads"
    if register in groups.results[site]:
        what = f"accumulator {name}"
    else:
        what = f"{name}, an A fragment," if writing else f"{name}, a copy of an accumulator,"
    return rule.hit(
        site=use,
        message=f"{verb} {what} while the wgmma may still {'use' if writing else 'write'} it: {why}",
        steps=(
            Mark(
                site, "the wgmma starts here" if writing else "the wgmma starts to write its accumulator here"
            ),
            *flight.steps,
            Mark(use, f"{verb} {name}"),
        ),
        count=count,
        help=remedy,
        fixes=flight.fixes,
        confidence=model.confidence(path, site),
        about=frozenset(
            (*alike, flight.wait) if flight.wait is not None else alike if age >= 0 else uncommitted
        ),
        before_it=unwaited,
    ).doubted(doubt)


def _copied(model: KernelModel) -> str:
    """Why nobody is at fault where registers are touched too early in a debug build; "" elsewhere.

    nvcc -G copies accumulators from and to memory around each asm statement, and ptxas orders the copies (C7517, C7519):
    such kernels came out right on an H200.
    """
    return (
        "nvcc -G copies the registers, and ptxas puts in what orders the copies" if model.module.debug else ""
    )


def _fragment_reads(
    model: KernelModel, groups: WgmmaGroups, results: Results[State], reads: Uses, reported: set[int]
) -> Iterator[Hit]:
    """One finding for a kernel: reading what is only read harms nothing that was ever seen."""
    uses = sorted((use, r, s) for s, touched in reads.items() if s not in reported for use, r in touched)
    for use, register, site in uses[:_TRIES]:
        found = _witness(model, groups, results, site, use, register)
        if found is None:
            continue
        name = model.function.registers[register].name
        yield WG009.hit(
            site=use,
            message=f"reads {name}, an A fragment of a wgmma that was not waited for",
            steps=(Mark(site, "the wgmma starts here"), Mark(use, f"reads {name}")),
            count=len({u for u, _, _ in uses}),
            help="read it before the wgmma, or after wgmma.wait_group",
            fixes=PendingReason.of(model, groups, found[1], site, max(a for _, a in found[1].state[0])).fixes,
        )
        return


def _pending_at_exit(
    model: KernelModel, groups: WgmmaGroups, results: Results[State], reported: set[int]
) -> Iterator[Hit]:
    """One finding for a kernel that may end before its multiplications do."""
    cfg = model.cfg
    ends = [cfg.blocks[b].end - 1 for b in cfg.order if b in cfg.exits]
    ends = [i for i in ends if model.instruction(i).flow in ("return", "exit")]
    if not model.function.entry:
        return  # the caller may wait
    completing = set(model.sites("wait", "wgmma"))
    pending = {s for end in ends for s, _ in results.before(end)[0]} - reported
    doubtful: Hit | None = None
    for site in sorted(pending, reverse=True)[:_TRIES]:
        found = model.most_plausible_path(
            site,
            groups.start(site),
            results,
            groups.following(site),
            lambda state, i: i in ends,
            ends,
        ).witness
        if found is None:
            continue
        path, doubt = found
        age = max(age for _, age in path.state[0])
        why, remedy = _unfinished(age)
        waits = [i for i in path.sites(model.cfg, site) if i in completing] if age >= 0 else []
        hit = WG007.hit(
            site=site,
            message=f"the kernel may end while this wgmma is in flight: {why}",
            steps=(Mark(site, "the wgmma starts here"), Mark(path.end, "the kernel ends here")),
            count=len(pending),
            help=f"{remedy} before the kernel ends",
            fixes=_waited_at_ends(model, groups, results, ends, pending, age),
            confidence=model.confidence(path, site),
            about=frozenset(waits[-1:] or (site,)),
        ).doubted(doubt)
        if not doubt:
            yield hit
            return
        doubtful = doubtful or hit
    if doubtful is not None:
        yield doubtful


def _waited_at_ends(
    model: KernelModel,
    groups: WgmmaGroups,
    results: Results[State],
    ends: list[int],
    pending: set[int],
    age: int,
) -> tuple[Repair, ...]:
    """A wait for all of it before each end of the kernel that something is in flight at."""
    there = [end for end in ends if any(s in pending for s, _ in results.before(end)[0])]
    if not all(together(model, end, "warpgroup", sorted(pending)) for end in there):
        return ()
    statements = ("wgmma.commit_group.sync.aligned;",) * (age < 0) + ("wgmma.wait_group.sync.aligned 0;",)
    said = " and ".join(s.rstrip(";") for s in statements)
    return (
        Repair(f"add {said} before the kernel ends", tuple(before(end, *statements) for end in there), True),
    )


def _unfinished(age: int) -> tuple[str, str]:
    """Why an operation of that age is in flight, and what would complete it."""
    if age >= 0:
        return "no wgmma.wait_group completes its group", "add wgmma.wait_group.sync.aligned 0"
    return "it was never committed", "add wgmma.commit_group.sync.aligned and wgmma.wait_group.sync.aligned 0"


def _waited_elsewhere(model: KernelModel, groups: WgmmaGroups, site: int, use: int) -> bool:
    """Whether a wait on another way to *use* completes the operation."""
    _, results = model.solution(WgmmaGroups)
    return any(
        s == site and age >= groups.depth(model.instruction(wait)) and model.reaches(wait, use, (site,))
        for wait in model.sites("wait", "wgmma")
        for s, age in results.before(wait)[0]
    )


def _witness(
    model: KernelModel, groups: WgmmaGroups, results: Results[State], site: int, use: int, register: int
) -> tuple[int, Path] | None:
    direct = register in groups.results[site] or register in groups.sources[site]

    def goal(state: State, i: int) -> bool:
        return i == use and (direct or any(c[0] == register for c in state[1]))

    path = model.path(site, groups.start(site), results, groups.following(site), goal, (use,)).witness
    return None if path is None else (site, path)


@check(WG002, needs="wgmma", analyses=(WgmmaFences,))
def missing_fence(model: KernelModel) -> Iterator[Hit]:
    """Registers handed to a wgmma without a wgmma.fence after their last ordinary access (9.7.15.7.1)."""
    fences, results = model.solution(WgmmaFences)
    names, doubt = model.function.registers, _copied(model)
    seen: set[tuple[int, int]] = set()
    entered = False
    for b in model.cfg.order:
        told = -1  # the last wgmma of this block that lacks a fence: one there serves those behind it
        for i, (unfenced, dirty) in results.walk(b):
            instruction = model.instruction(i)
            if i not in fences.uses:
                continue
            wanted = fences.uses[i]
            if unfenced and model.function.entry:

                def arrives(state: FenceState, at: int, i: int = i) -> bool:
                    return at == i and state[0]

                if not entered and model.path(-1, (True, 0), results, fences.alive, arrives, (i,)).witness:
                    entered = True
                    yield WG002.hit(
                        site=i,
                        message="the first wgmma on a path from the kernel's entry has no wgmma.fence before it",
                        help="add wgmma.fence.sync.aligned before the first wgmma.mma_async",
                        fixes=_fenced(model, i),
                    )
                continue
            bad = dirty & wanted
            if not bad:
                continue
            origin = _dirtied(model, fences, results, i, bad)
            if origin is None:
                continue
            access, register = origin
            key = (access, instruction.writes[0] if instruction.writes else i)
            if key in seen or (told >= 0 and not told < access < i):
                continue
            seen.add(key)
            told = i
            ignored = ignores_accumulator(model, i) and not (fences.bit(register) & fences.sources[i])
            name = names[register].name
            direct = fences.touches(model.instruction(access)) & fences.bit(register)
            yield WG002.hit(
                site=i,
                message=f"{name} is handed to the wgmma without a wgmma.fence after its last ordinary access",
                steps=(
                    Mark(access, f"accesses {name}" if direct else f"writes what is moved to {name}"),
                    Mark(i, f"uses {name} with no wgmma.fence in between"),
                ),
                help="add wgmma.fence.sync.aligned between the two",
                fixes=_fenced(model, i),
                severity=Severity.INFO if ignored else None,
                confidence=None if model.function.entry else Confidence.LOW,
            ).doubted(doubt)


def _fenced(model: KernelModel, site: int) -> tuple[Repair, ...]:
    """A fence right before a wgmma, where all its threads come by what it requires itself."""
    if not together(model, site, "warpgroup", (site,)):
        return ()
    return fence_before((site,), "wgmma.fence.sync.aligned;")


def _dirtied(
    model: KernelModel, fences: WgmmaFences, results: Results[State], site: int, bad: int
) -> tuple[int, int] | None:
    """The nearest access from which one of the *bad* registers arrives unfenced, on a feasible path."""
    tries = 0
    feeding = fences.feeding(bad)
    for access in fences.accesses_before(site):
        touched = fences.touches(model.instruction(access)) & feeding
        if not touched:
            continue
        bit = touched & bad or touched
        bit &= -bit
        path = model.path(
            access,
            (False, bit),
            results,
            fences.alive,
            lambda s, at: at == site and bool(s[1] & bad),
            (site,),
        ).witness
        if path:
            arrived = path.state[1] & bad
            return access, fences.register(arrived & -arrived)
        tries += 1
        if tries >= _TRIES:
            break
    return None


@check(WG005, needs="wgmma", analyses=(Depth, Waited, WgmmaGroups))
def wait_depth(model: KernelModel) -> Iterator[Hit]:
    """``wait_group N`` where never more than N groups are outstanding (9.7.15.7.3)."""
    waits = [
        i for i in model.sites("wait", "wgmma") if isinstance(model.instruction(i).role("depth"), Immediate)
    ]
    if not any(WgmmaGroups.depth(model.instruction(i)) for i in waits):
        return
    _, depths = model.solution(Depth)
    _, groups = model.solution(WgmmaGroups)
    for i in waits:
        depth = WgmmaGroups.depth(model.instruction(i))
        most = depths.before(i)
        state: State = groups.before(i)
        # What was never committed is told where it is used; then this wait may well be as deep as it should be.
        if depth and most <= depth and state[0] and all(age >= 0 for _, age in state[0]):
            first = min(s for s, age in state[0] if age >= 0)
            again = model.solution(Waited)[1].before(i) <= depth
            # Nothing relies on it where the next instruction waits for more.
            idle = again or (i + 1 in waits and WgmmaGroups.depth(model.instruction(i + 1)) < depth)
            why = "an earlier wait has left no more" if again else f"never more than {most} are"
            yield WG005.hit(
                site=i,
                message=f"waits until at most {depth} groups are outstanding, but {why}: it completes nothing",
                severity=Severity.INFO if idle else None,
                steps=(
                    Mark(first, "committed to a group that this wait does not complete"),
                    Mark(i, "completes nothing"),
                ),
                help=f"use wgmma.wait_group {most - 1} or less" if most else "remove the wait",
                fixes=(_as_deep_as(i, most - 1) if most else Repair("remove the wait", (without(i),)),),
                about=frozenset((i,)),
            )


def _as_deep_as(site: int, depth: int) -> Repair:
    """A wait that leaves fewer groups in flight."""
    return Repair(
        f"wait for all but {depth} groups: wgmma.wait_group {depth}",
        (operand(site, "depth", str(depth)),),
        True,
    )
