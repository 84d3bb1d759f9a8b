"""Registers that a wgmma may still read or write: accesses in flight, missing fences and waits (PTX ISA 9.7.15).

A wgmma is *in flight* from its issue until a ``wgmma.wait_group`` completes the group that it was committed to
(``analyses/groups.py``). A register access is reported if a feasible path leads from the wgmma to the access on which
it is in flight. ``mov`` is a renaming, as in ptxas: a copy of an accumulator is followed to its use, and a move by
itself reads nothing. The searches are bounded (``MAX_TRIES``), so some hazards in large kernels are missed; the ledger
of the model records which questions are left open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from typing import TypeVar

from tclint._dataclass import dataclass
from tclint.analyses.groups import Depth, Groups, GroupsState, Waited, WgmmaGroups
from tclint.analyses.model import FactQuery, KernelModel
from tclint.analyses.plausibility import most_plausible_path
from tclint.analyses.wgmma_accumulators import ignores_accumulator
from tclint.analyses.wgmma_fences import WgmmaFences
from tclint.analyses.wgmma_fences import WgmmaFencesState as FenceState
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.checks._pending import PendingReason
from tclint.checks._repairs import arrive_together, fence_before, wait_with_depth
from tclint.dataflow import Path, Results
from tclint.dataflow.feasible_paths import FEASIBLE_PATH
from tclint.findings.edits import Repair, before, without
from tclint.findings.scales import Severity
from tclint.ir.nodes import Immediate, Instruction
from tclint.isa.effects import WGMMA, Barrier, Effects, Fence
from tclint.sync.operations import OVERDUE

WG001 = RuleId("WG001")
WG002 = RuleId("WG002")
WG003 = RuleId("WG003")
WG004 = RuleId("WG004")
WG005 = RuleId("WG005")
WG007 = RuleId("WG007")
WG009 = RuleId("WG009")

_MMA = "wgmma.mma_async"
MAX_TRIES = 6
"""Accesses, or operations, for which a feasible path is searched before a question is given up."""


T = TypeVar("T")
Uses = dict[int, list[tuple[int, int]]]
"""Operation in flight -> the instructions that access its registers, each with the register."""


@dataclass
class _Accesses:
    """The accesses of ordinary instructions to registers of operations in flight."""

    reads: Uses = field(default_factory=dict)
    """Reads of accumulators and of copies of them."""
    overwrites: Uses = field(default_factory=dict)
    """Writes of accumulators and A fragments."""
    fragments: Uses = field(default_factory=dict)
    """Reads of A fragments."""


@check(WG001, WG003, WG004, WG007, WG009, analyses=(WgmmaGroups,))
def registers_in_flight(model: KernelModel) -> Iterator[Hit]:
    """Registers accessed, or the kernel exited, while a wgmma may still use them."""
    groups, results = model.solution(WgmmaGroups)
    accesses = _accesses(model, groups, results)
    reported: set[int] = set()
    yield from _report(model, groups, results, accesses, reported)
    yield from _fragment_reads(model, groups, results, accesses.fragments, reported)
    yield from _pending_at_exit(model, groups, results, reported)


def _tried(model: KernelModel, candidates: Iterable[T], site: int = -1) -> Iterator[T]:
    """The first MAX_TRIES of *candidates* for an answer about *site*, or about the kernel."""
    return model.ledger.at_most(MAX_TRIES, candidates, FEASIBLE_PATH, site, "accesses or operations")


def _accesses(model: KernelModel, groups: Groups, results: Results[GroupsState]) -> _Accesses:
    """All accesses to registers of operations that may be in flight; whether a path is feasible is decided later."""
    instructions = model.function.instructions
    accesses = _Accesses()
    for b in model.cfg.order:
        start = model.cfg.blocks[b].start
        for change, state in results.walk_to_end(b):
            passed = range(start, min(change + 1, model.cfg.blocks[b].end)) if state[0] else ()
            ordinary = [i for i in passed if instructions[i].group != WGMMA]
            held = _held(groups, state) if ordinary else {}
            for i in ordinary:
                _record(groups, held, state, i, instructions[i], accesses)
            start = change + 1
    return accesses


def _held(groups: Groups, state: GroupsState) -> dict[int, tuple[set[int], set[int]]]:
    """Register -> the operations in flight that write it or whose result it copies, and those that only read it."""
    held: dict[int, tuple[set[int], set[int]]] = {}
    for site in {s for s, _ in state[0]}:
        for register in groups.results[site]:
            held.setdefault(register, (set(), set()))[0].add(site)
        for register in groups.sources[site]:
            held.setdefault(register, (set(), set()))[1].add(site)
    for register, site, *_ in state[1]:
        held.setdefault(register, (set(), set()))[0].add(site)
    return held


def _record(
    groups: Groups,
    held: dict[int, tuple[set[int], set[int]]],
    state: GroupsState,
    i: int,
    instruction: Instruction,
    accesses: _Accesses,
) -> None:
    """Add the accesses of *instruction* to the registers *held* by operations in flight."""
    move = instruction.renames
    if not move:
        for register in (*instruction.reads, instruction.guard):
            entry = held.get(register)
            if entry:
                for site in entry[0]:
                    accesses.reads.setdefault(site, []).append((i, register))
                for site in entry[1]:
                    accesses.fragments.setdefault(site, []).append((i, register))
    for register in instruction.writes:
        entry = held.get(register)
        if not entry:
            continue
        for site in entry[0] | entry[1]:
            if register not in groups.results[site] and register not in groups.sources[site]:
                continue  # overwriting a copy is harmless
            if move:
                # Moving a copy back to the original register does not change it.
                source = instruction.reads[0]
                if any(c[0] == source and c[1] == site and c[2] == register for c in state[1]):
                    continue
            accesses.overwrites.setdefault(site, []).append((i, register))


def _report(
    model: KernelModel,
    groups: Groups,
    results: Results[GroupsState],
    accesses: _Accesses,
    reported: set[int],
) -> Iterator[Hit]:
    """At most one hit for the reads and one for the writes of each accumulator tuple.

    A chain of wgmma accumulates into one tuple and is waited for as a whole. The operations of every hit are added to
    *reported*.
    """
    # Accumulators -> the read that was reported first: later writes have the same cause.
    first_read: dict[frozenset[int], int] = {}
    for writing, uses_of in ((False, accesses.reads), (True, accesses.overwrites)):
        for accumulators, sites in grouped((groups.results[i], i) for i in sorted(uses_of)).items():
            uses = sorted(
                {
                    (use, register)
                    for site in sites
                    for use, register in uses_of[site]
                    if register not in accumulators or use < first_read.get(accumulators, use + 1)
                }
            )
            for use, register in _tried(model, uses, min(sites)):
                nearest = sorted(
                    (s for s in sites if (use, register) in uses_of[s]), key=lambda s: (s > use, -s)
                )
                found = next(
                    filter(None, (_witness(model, groups, results, s, use, register) for s in nearest)), None
                )
                if found is not None:
                    first_read.setdefault(accumulators, use)
                    equivalent = [s for s, d in groups.results.items() if d == accumulators]
                    reported.update(equivalent)
                    hit = _finding(model, found, use, register, writing, equivalent)
                    pairs = tuple((s, u) for s in sites for u, _ in uses_of[s])
                    yield replace(hit, count=len({u for u, _ in uses}), pairs=pairs)
                    break


def _finding(
    model: KernelModel,
    found: tuple[int, Path],
    use: int,
    register: int,
    writing: bool,
    equivalent: list[int],
) -> Hit:
    """The hit for the access to *register* at *use*; the missing synchronisation decides its rule.

    *found* is the operation in flight and the path from it, and *equivalent* are the operations on the same accumulators.
    """
    groups, results = model.solution(WgmmaGroups)
    site, path = found
    age = max(a for _, a in path.state[0])
    name = model.function.registers[register].name
    reason = PendingReason.of(groups, path, site, age)
    # One commit after all of them would cover them all.
    uncommitted = [site, *(s for s, a in results.before(use)[0] if a < 0)]
    why, remedy = reason.why, reason.remedy
    unwaited = age >= 0 and reason.wait is None
    if unwaited and _waited_elsewhere(model, groups, site, use):
        why, remedy = (
            "wgmma.wait_group completes it on some paths only",
            "execute wgmma.wait_group on every path to this instruction",
        )
    rule = WG004 if writing else WG003 if age == OVERDUE else WG001
    doubt = _copied(model)
    verb = "overwrites" if writing else "reads"
    if register in groups.results[site]:
        what = f"accumulator {name} while {_MMA} may still {'use' if writing else 'write'} it"
        starts = "use" if writing else "write"
    elif writing:
        what, starts = f"A fragment {name} while {_MMA} may still read it", "read"
    else:
        what, starts = f"{name}, a copy of an accumulator that {_MMA} may still write", "write"
    operands = "A fragment" if starts == "read" else "accumulator"
    return rule.hit(
        site=use,
        message=f"{model.name(use)} {verb} {what}: {why}",
        steps=(
            Mark(site, f"starts to {starts} its {operands}"),
            *reason.steps,
            Mark(use, f"{verb} {name}"),
        ),
        help=remedy,
        fixes=reason.fixes,
        confidence=model.confidence(path, site),
        about=frozenset(
            (*equivalent, reason.wait) if reason.wait is not None else equivalent if age >= 0 else uncommitted
        ),
        missing_before=unwaited,
    ).doubted(doubt)


def _copied(model: KernelModel) -> str:
    """The doubt about register accesses in a debug build; "" in other builds.

    nvcc -G copies accumulators to and from memory around each asm statement, and ptxas injects the synchronisation for
    the copies (C7517, C7519): the results of such kernels were right on an H200.
    """
    return "nvcc -G copies the registers, and ptxas injects the synchronisation" if model.module.debug else ""


def _fragment_reads(
    model: KernelModel, groups: Groups, results: Results[GroupsState], reads: Uses, reported: set[int]
) -> Iterator[Hit]:
    """One hit for all reads of A fragments in a kernel: no harm from such a read has been observed."""
    uses = sorted((use, r, s) for s, of in reads.items() if s not in reported for use, r in of)
    for use, register, site in _tried(model, uses):
        found = _witness(model, groups, results, site, use, register)
        if found is None:
            continue
        name = model.function.registers[register].name
        yield WG009.hit(
            site=use,
            message=f"{model.name(use)} reads A fragment {name} while {_MMA} may still read it: it was not waited for",
            steps=(Mark(site, "starts to read its A fragment"), Mark(use, f"reads {name}")),
            count=len({u for u, _, _ in uses}),
            help="read it before the wgmma, or after wgmma.wait_group",
            fixes=PendingReason.of(groups, found[1], site, max(a for _, a in found[1].state[0])).fixes,
        )
        return


def _pending_at_exit(
    model: KernelModel, groups: Groups, results: Results[GroupsState], reported: set[int]
) -> Iterator[Hit]:
    """One hit for a kernel that may exit while a multiplication is in flight."""
    cfg = model.cfg
    ends = [cfg.blocks[b].end - 1 for b in cfg.order if b in cfg.exits]
    ends = [i for i in ends if model.instruction(i).exits]
    if not model.function.entry:
        return  # the caller may wait
    all_waits = set(model.waits(WGMMA))
    pending = {s for end in ends for s, _ in results.before(end)[0]} - reported
    doubtful: Hit | None = None
    for site in _tried(model, sorted(pending, reverse=True)):
        start, follow = groups.start(site), groups.following(site)
        query = FactQuery(site, start, results, follow, lambda state, i: i in ends, ends)
        found = most_plausible_path(model, query).witness
        if found is None:
            continue
        path, doubt = found
        age = max(age for _, age in path.state[0])
        why, remedy = _unfinished(age)
        waits = [i for i in path.sites(model.cfg, site) if i in all_waits] if age >= 0 else []
        hit = WG007.hit(
            site=site,
            message=f"the kernel may exit while this {_MMA} is in flight: {why}",
            steps=(Mark(site, f"{_MMA} starts here"), Mark(path.end, "the kernel exits here")),
            count=len(pending),
            help=f"{remedy} before the kernel exits",
            fixes=_waited_at_ends(model, groups, results, ends, pending, age),
            confidence=model.confidence(path, site),
            about=frozenset(waits[-1:] or (site,)),
        ).doubted(doubt.why)
        if not doubt:
            yield hit
            return
        doubtful = doubtful or hit
    if doubtful is not None:
        yield doubtful


def _waited_at_ends(
    model: KernelModel,
    groups: Groups,
    results: Results[GroupsState],
    ends: list[int],
    pending: set[int],
    age: int,
) -> tuple[Repair, ...]:
    """A wait for all groups, with a commit if *age* is that of an uncommitted one, before each exit with one in flight.

    Empty if a warpgroup may be divergent at one of these exits.
    """
    unfinished = [end for end in ends if any(s in pending for s, _ in results.before(end)[0])]
    if not all(arrive_together(model, end, "warpgroup", sorted(pending)) for end in unfinished):
        return ()
    statements = ("wgmma.commit_group.sync.aligned;",) * (age < 0) + ("wgmma.wait_group.sync.aligned 0;",)
    names = " and ".join(s.rstrip(";") for s in statements)
    changes = tuple(before(end, *statements) for end in unfinished)
    return (Repair(f"add {names} before the kernel exits", changes, True),)


def _unfinished(age: int) -> tuple[str, str]:
    """Why an operation of that *age* is in flight at an exit, and what would complete it."""
    if age >= 0:
        return "no wgmma.wait_group completes its group", "add wgmma.wait_group.sync.aligned 0"
    return "it was never committed", "add wgmma.commit_group.sync.aligned and wgmma.wait_group.sync.aligned 0"


def _waited_elsewhere(model: KernelModel, groups: Groups, site: int, use: int) -> bool:
    """Whether a wait on another path to *use* completes the operation at *site*."""
    _, results = model.solution(WgmmaGroups)
    return any(
        s == site and age >= groups.left[wait] and model.reaches(wait, use, (site,))
        for wait in model.waits(WGMMA)
        for s, age in results.before(wait)[0]
    )


def _witness(
    model: KernelModel, groups: Groups, results: Results[GroupsState], site: int, use: int, register: int
) -> tuple[int, Path] | None:
    """The operation *site* and a feasible path to *use* on which it is in flight; None if none is found.

    If *register* is not one of its own registers, it holds a copy of its result at the end of the path.
    """
    direct = register in groups.results[site] or register in groups.sources[site]

    def goal(state: GroupsState, i: int) -> bool:
        return i == use and (direct or any(c[0] == register for c in state[1]))

    path = model.path(
        FactQuery(site, groups.start(site), results, groups.following(site), goal, (use,))
    ).witness
    return None if path is None else (site, path)


def _orders(effects: Effects) -> bool:
    """Whether a thread orders or completes something, which often precedes a wgmma.fence."""
    completes = effects.commits is not None or effects.waits is not None
    fences = effects.fence in (Fence.MEMORY, Fence.PROXY)
    return completes or fences or effects.arrives_for_threads or effects.awaits_threads


def _last_ordering(model: KernelModel, path: Path) -> Iterator[Mark]:
    """The step of the last instruction on a *path* from the entry that orders something, if there is one.

    A wait for an mbarrier orders something when the branch that repeats it is not taken.
    """
    last, polling = -1, False
    for i in path.sites(model.cfg, -1):
        instruction = model.instruction(i)
        if _orders(instruction.effects) or (polling and instruction.flow):
            last, polling = i, instruction.effects.awaits is Barrier.MBARRIER
    if last >= 0:
        yield Mark(last, "no wgmma.fence between this and the wgmma.mma_async")


@check(WG002, analyses=(WgmmaFences,))
def missing_fence(model: KernelModel) -> Iterator[Hit]:
    """Registers that a wgmma uses with no wgmma.fence since their last ordinary access (9.7.15.7.1)."""
    fences, results = model.solution(WgmmaFences)
    doubt = _copied(model) or (
        "" if model.function.entry else "the callers of the function may order the access"
    )
    found: list[_Unfenced] = []
    seen: set[tuple[int, int]] = set()
    entered = False
    for b in model.cfg.order:
        reported = -1  # the last wgmma of this block reported: a fence before it also covers the later ones
        for i, (unfenced, dirty) in results.walk(b):
            instruction = model.instruction(i)
            if i not in fences.uses:
                continue
            wanted = fences.uses[i]
            if unfenced and model.function.entry:

                def arrives(state: FenceState, at: int, i: int = i) -> bool:
                    return at == i and state[0]

                path = (
                    None
                    if entered
                    else model.path(FactQuery(-1, (True, 0), results, fences.alive, arrives, (i,))).witness
                )
                if path is not None:
                    entered = True
                    yield WG002.hit(
                        site=i,
                        message=f"{model.name(i)} is the first on a path from the kernel's entry, and no wgmma.fence precedes it",
                        steps=(
                            *_last_ordering(model, path),
                            Mark(i, f"the first {_MMA} on the path"),
                        ),
                        help="add wgmma.fence.sync.aligned before the first wgmma.mma_async",
                        fixes=_fenced(model, (i,)),
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
            if key in seen or (reported >= 0 and not reported < access < i):
                continue
            seen.add(key)
            reported = i
            found.append(_Unfenced(access, i, register))
    yield from (
        _unfenced(model, fences, equivalent).doubted(doubt) for equivalent in _copies(model, fences, found)
    )


@dataclass(frozen=True, slots=True)
class _Unfenced:
    """A register that an instruction accesses and a wgmma uses, with no wgmma.fence between the two."""

    access: int
    site: int
    register: int


def _unfenced(model: KernelModel, fences: WgmmaFences, equivalent: Sequence[_Unfenced]) -> Hit:
    """The hit for the copies of one missing fence, which shows the first."""
    access, site, register = equivalent[0].access, equivalent[0].site, equivalent[0].register
    ignored = ignores_accumulator(model, site) and not (fences.bit(register) & fences.sources[site])
    name = model.function.registers[register].name
    direct = fences.touches(model.instruction(access)) & fences.bit(register)
    return WG002.hit(
        site=site,
        message=f"{_MMA} uses {name} with no wgmma.fence since its last ordinary access",
        steps=(
            Mark(access, f"accesses {name}" if direct else f"writes the value that is moved to {name}"),
            Mark(site, f"uses {name} with no intervening wgmma.fence"),
        ),
        count=len(equivalent),
        help="add wgmma.fence.sync.aligned between the two",
        fixes=_fenced(model, tuple(each.site for each in equivalent)),
        severity=Severity.INFO if ignored else None,
    )


def _copies(
    model: KernelModel, fences: WgmmaFences, found: Sequence[_Unfenced]
) -> Iterable[Sequence[_Unfenced]]:
    """*found* by the fence of the source that is missing: an unrolled loop has copies of it.

    Those of one accumulator are copies if the same instructions access it, in the same line of the source where it is
    known. It is one accumulator if moves and accesses lead from one register to the other: another one of the same loop is
    another fault.
    """
    if len(found) < 2:
        return [(each,) for each in found]
    same = fences.webs()

    def cause(each: _Unfenced) -> object:
        access, use = model.instruction(each.access), model.instruction(each.site)
        ignored = ignores_accumulator(model, each.site)
        places = model.function.location(each.access), model.function.location(each.site)
        return same(each.register), access.opcode, use.opcode, ignored, places

    return grouped((cause(each), each) for each in found).values()


def _fenced(model: KernelModel, sites: tuple[int, ...]) -> tuple[Repair, ...]:
    """A fence immediately before each wgmma of *sites*; empty if its warpgroup may be divergent at one of them."""
    if not all(arrive_together(model, site, "warpgroup", (site,)) for site in sites):
        return ()
    return fence_before(sites, "wgmma.fence.sync.aligned;")


def _dirtied(
    model: KernelModel, fences: WgmmaFences, results: Results[GroupsState], site: int, bad: int
) -> tuple[int, int] | None:
    """The nearest access, and the register of *bad* that it leaves unfenced at *site* on a feasible path; None if none.

    *bad* is a bit set. At most ``MAX_TRIES`` accesses are tried.
    """
    feeding = fences.feeding(bad)
    accesses = ((i, fences.touches(model.instruction(i)) & feeding) for i in fences.accesses_before(site))
    for access, accessed in _tried(model, (each for each in accesses if each[1]), site):
        bit = accessed & bad or accessed
        bit &= -bit
        path = model.path(
            FactQuery(
                access,
                (False, bit),
                results,
                fences.alive,
                lambda s, at: at == site and bool(s[1] & bad),
                (site,),
            ),
        ).witness
        if path:
            arrived = path.state[1] & bad
            return access, fences.register(arrived & -arrived)
    return None


@check(WG005, analyses=(Depth, Waited, WgmmaGroups))
def wait_depth(model: KernelModel) -> Iterator[Hit]:
    """``wait_group N`` where at most N groups can be pending (9.7.15.7.3)."""
    waits = [i for i in model.waits(WGMMA) if isinstance(model.instruction(i).role("depth"), Immediate)]
    analysis, groups = model.solution(WgmmaGroups)
    if not any(analysis.left[i] for i in waits):
        return
    _, depths = model.solution(Depth)
    for i in waits:
        depth = analysis.left[i]
        most = depths.before(i)
        state: GroupsState = groups.before(i)
        # WG003 reports an operation that was never committed; with that commit, this N may be right.
        if depth and most <= depth and state[0] and all(age >= 0 for _, age in state[0]):
            first = min(s for s, age in state[0] if age >= 0)
            again = model.solution(Waited)[1].before(i) <= depth
            # No code relies on a wait that is followed immediately by a stronger one.
            redundant = again or (i + 1 in waits and analysis.left[i + 1] < depth)
            bound = depth if again else most
            left = f"{bound} {'group' if bound == 1 else 'groups'}"
            why = f"an earlier wait leaves at most {left}" if again else f"at most {left} can be"
            lower = f"{most - 1} or less" if most > 1 else "0"
            yield WG005.hit(
                site=i,
                message=f"wgmma.wait_group {depth} is a no-op: {why} pending, and it allows {depth}",
                severity=Severity.INFO if redundant else None,
                steps=(
                    Mark(first, "is in a group that this wait leaves pending"),
                    Mark(i, "completes no group"),
                ),
                help=f"use wgmma.wait_group {lower}" if most else "remove the wait",
                fixes=(
                    wait_with_depth(i, "wgmma.wait_group", most - 1)
                    if most
                    else Repair("remove the wait", (without(i),)),
                ),
                about=frozenset((i,)),
            )
