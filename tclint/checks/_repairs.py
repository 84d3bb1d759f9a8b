"""Where a missing wait, fence or commit may stand, and what it has to be.

A collective instruction is put only where it is shown that all its threads come: in a block under no more conditions
than one that has such an instruction already, or under conditions that are the same for all of them. Nothing is moved,
no scope gets wider, and no thread is sent elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from tclint.analyses.execution import branches
from tclint.analyses.groups import OPEN, OVERDUE, Groups
from tclint.analyses.model import KernelModel
from tclint.dataflow import Path
from tclint.findings.edits import Repair, after, before, opcode, operand
from tclint.ir.nodes import Immediate, Instruction, registers
from tclint.values import UniformityScope
from tclint.values import thread_masks as T

__all__ = [
    "barrier_between",
    "drained",
    "fence_before",
    "fenced_between",
    "first_of_blocks",
    "group_repairs",
    "place",
    "respelled",
    "together",
    "waited_in_block",
    "waits_before",
]

_SIGNALS = ("barrier-sync", "barrier-arrive", "mbarrier-arrive")

Test = Callable[[int], bool]

_SCOPES = {
    "warp": (32, UniformityScope.WARP),
    "warpgroup": (128, UniformityScope.WARPGROUP),
    "cta": (1024, UniformityScope.CTA),
}
"""Scope -> the threads that have to come together, and the widest level of a condition that keeps them so."""

_SPELLED = {
    "wgmma": ("warpgroup", "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"),
    "cp.async": ("", "", "cp.async.wait_all;"),  # which commits, too
    "bulk": ("", "cp.async.bulk.commit_group;", "cp.async.bulk.wait_group.read 0;"),
}
"""Group -> the scope of its instructions, its commit, and the wait for all of it."""
BULK_RESULTS = "cp.async.bulk.wait_group 0;"


def together(model: KernelModel, site: int, scope: str, like: Collection[int] = ()) -> bool:
    """Whether all threads of a group of that scope come to *site* if one does; its own guard does not count.

    *like* are instructions of that scope: the kernel is wrong already if not all threads come there.
    """
    if not scope:
        return True
    cfg, values = model.cfg, model.values
    block = cfg.block_of[site]
    deciding = set(cfg.control_dependences(block))
    for other in like:
        if model.instruction(other).guard < 0 and deciding.issubset(
            cfg.control_dependences(cfg.block_of[other])
        ):
            return True
    size, widest = _SCOPES[scope]
    if any(edge.predicate < 0 for edge in deciding):
        return False
    threads = model.cta
    for condition in branches(model, block):
        p = values.before(condition.register, condition.at)
        mask = values.mask(p)
        if mask is not None:
            threads &= mask if condition.value else ~mask
        elif values.uniformity(p) > widest:
            return False
    return bool(threads) and not T.partial_groups(threads, model.cta, size)


def place(
    model: KernelModel,
    firsts: Collection[int],
    use: int,
    scope: str,
    fits: Test = lambda site: True,
    like: Collection[int] = (),
    prefer: Iterable[int] = (),
) -> int | None:
    """The nearest instruction before which something can be put so that every way from *firsts* to *use* passes it.

    Those to *prefer* are tried before the others.
    """
    for site in (*prefer, *_candidates(model, use)):
        if site != use and any(
            site == first or model.reaches(first, use, (site,)) or not model.reaches(first, site)
            for first in firsts
        ):
            continue
        if fits(site) and together(model, site, scope, like):
            return site
    return None


def _candidates(model: KernelModel, use: int) -> Iterator[int]:
    """*use*, and the last and the first instruction of each block that lies on every way to it."""
    yield use
    cfg = model.cfg
    b = cfg.block_of[use]
    if cfg.blocks[b].start != use:
        yield cfg.blocks[b].start
    while b in cfg.idom and cfg.idom[b] != b:
        b = cfg.idom[b]
        yield cfg.blocks[b].end - 1
        yield cfg.blocks[b].start


# ---------------------------------------------------------------- groups


def drained(model: KernelModel, group: str) -> bool:
    """Whether every wait for that group waits for all of it, so that one more group changes nothing for it."""
    return all(_depth(model.instruction(i)) == 0 for i in model.sites("wait", group))


def _depth(instruction: Instruction) -> int | None:
    """The N of a wait; 0 for one without; None where it is no number."""
    n = instruction.role("depth")
    return 0 if n is None else n.value if isinstance(n, Immediate) and isinstance(n.value, int) else None


def group_repairs(
    model: KernelModel,
    groups: Groups,
    path: Path,
    site: int,
    age: int,
    waits: list[int],
    later: int,
    alike: Collection[int],
) -> tuple[Repair, ...]:
    """What completes the operation at *site* before the end of *path*, on which it has come to *age*.

    *waits* are those on the path, and *later* is the number of commits behind the last of them. *alike* are operations
    that the same wait has to complete.
    """
    if groups.group not in _SPELLED or path.end < 0:
        return ()
    sites = {site, *alike}
    if age == OVERDUE:
        late = _committed(model, groups, path, site, waits, _SPELLED[groups.group][1])
        return late or waits_before(model, groups, sites, path.end, True)
    if age < OVERDUE:
        return ()
    if waits and 0 <= age < later:  # what has committed it came behind the wait
        late = _committed(model, groups, path, site, waits[-1:], _SPELLED[groups.group][1])
        return late or waits_before(model, groups, sites, path.end, False)
    shallower = _shallower(model, groups, site, age - later, waits[-1]) if age >= 0 and waits else ()
    # Other threads may touch the bytes behind a barrier: what is waited for before it is complete for all of them. The
    # proxy fence for these bytes, where one comes before the barrier, has to come behind the wait.
    handing: list[int] = []
    for i in path.sites(model.cfg, site):
        event = model.instruction(i).event
        fenced = bool(handing) and model.instruction(handing[-1]).event == "proxy-fence"
        if (event == "barrier-sync" and not fenced) or event == "proxy-fence":
            handing.append(i)
    if shallower:
        return shallower
    if groups.group == "wgmma":
        # What a wgmma reads may be given free by the first arrival behind it.
        arrival = next(
            (i for i in path.sites(model.cfg, site) if model.instruction(i).event == "mbarrier-arrive"), -1
        )
        if arrival >= 0 and (early := waits_before(model, groups, sites, arrival, age == OPEN)):
            return early
    return waits_before(model, groups, sites, path.end, age == OPEN, prefer=handing[::-1])


def waits_before(
    model: KernelModel,
    groups: Groups,
    sites: Collection[int],
    use: int,
    uncommitted: bool,
    wait: str = "",
    prefer: Iterable[int] = (),
) -> tuple[Repair, ...]:
    """A wait (and a commit, where that is missing) on all ways from *sites* to *use*."""
    scope, commit, usual = _SPELLED[groups.group]
    wait = wait or usual
    _, results = model.solution(type(groups))

    def committed(at: int) -> bool:
        ages = [a for s, a in results.before(at)[0] if s in sites and a >= OVERDUE]
        return bool(ages) and all(a >= 0 for a in ages)

    needed = uncommitted and bool(commit)
    fits: Test = committed if commit and not uncommitted else lambda at: True
    at = place(model, sites, use, scope, fits, sites, prefer)
    if at is None:
        return ()
    statements = (commit, wait) if needed else (wait,)
    said = " and ".join(s.rstrip(";") for s in statements)
    return (Repair(f"add {said}", (before(at, *statements),), not needed or drained(model, groups.group)),)


def _committed(
    model: KernelModel, groups: Groups, path: Path, site: int, waits: list[int], commit: str
) -> tuple[Repair, ...]:
    """A commit before the first wait that should have covered the operation, or behind the last operation of its block."""
    wait = waits[0] if waits else -1
    covered = wait >= 0 and not model.reaches(site, path.end, (wait,))
    depth = _depth(model.instruction(wait)) if covered else None
    if groups.group == "cp.async":
        if not covered:
            return ()
        message = (
            "add cp.async.wait_all before this wait"
            if depth == 0
            else "wait for all copies with cp.async.wait_all"
        )
        return (Repair(message, (before(wait, "cp.async.wait_all;"),), True),)
    message, safe = f"add {commit.rstrip(';')}", drained(model, groups.group)
    found = []
    if depth == 0 and together(model, wait, _SPELLED[groups.group][0], (site,)):
        found.append(Repair(message, (before(wait, commit),), safe))
    block = model.cfg.block_of[site]
    last = max(i for i in model.sites("issue", groups.group) if model.cfg.block_of[i] == block)
    if model.instruction(last).guard < 0:
        found.append(Repair(f"{message} behind the operation", (after(last, commit),), safe))
    return tuple(found)


def _shallower(model: KernelModel, groups: Groups, site: int, age: int, wait: int) -> tuple[Repair, ...]:
    """The last wait on the path, for as many groups as it takes to reach the operation, which has *age* there."""
    instruction = model.instruction(wait)
    depth = _depth(instruction)
    if not depth or instruction.role("depth") is None:
        return ()
    here = [a for s, a in model.solution(type(groups))[1].before(wait)[0] if s == site and a >= 0]
    fitting = [a for a in here if a < depth]
    number = age if age in fitting else min(fitting, default=-1)
    if number < 0:
        return ()
    name = instruction.name if groups.group == "wgmma" else ".".join(instruction.opcode.split(".")[:4])
    return (
        Repair(
            f"wait for all but {number} groups: {name} {number}", (operand(wait, "depth", str(number)),), True
        ),
    )


def waited_in_block(model: KernelModel, kind: str, sites: Iterable[int]) -> tuple[Repair, ...]:
    """``tcgen05.wait`` for each ``tcgen05.ld`` or ``st`` of *sites*: in its own block, where all lanes come that come to it.

    It stands before the first use of what is loaded, before other accesses to tensor memory, and before any signal.
    """
    statement, changes = f"tcgen05.wait::{kind}.sync.aligned;", []
    for site in sorted(sites):
        instruction, block = model.instruction(site), model.cfg.blocks[model.cfg.block_of[site]]
        if instruction.guard >= 0 and not together(model, site, "warp"):
            return ()
        destination = instruction.role("destination") if kind == "ld" else None
        mine = frozenset(registers(destination)) if destination is not None else frozenset()
        later = range(site + 1, block.end)
        at = next((i for i in later if _needs_it(model.instruction(i), kind, mine)), None)
        changes.append((at if at is not None else block.end - 1, at is None))
    found = [after(i, statement) if behind else before(i, statement) for i, behind in dict.fromkeys(changes)]
    return (Repair(f"add {statement.rstrip(';')}", tuple(found), True),) if found else ()


def _needs_it(instruction: Instruction, kind: str, mine: frozenset[int]) -> bool:
    """Whether an access to tensor memory, which fills *mine*, has to be complete before an instruction."""
    other = (
        instruction.event in ("issue", "commit", "tmem-dealloc") and instruction.group != f"tcgen05.{kind}"
    )
    return (
        bool(instruction.flow)
        or instruction.event in (*_SIGNALS, "tcgen05-fence-before", "barrier-wait")
        or (other and instruction.name.startswith("tcgen05."))
        or not mine.isdisjoint((*instruction.reads, *instruction.writes, instruction.guard))
    )


# ---------------------------------------------------------------- fences


def barrier_between(model: KernelModel, first: int, use: int) -> tuple[Repair, ...]:
    """A barrier of the CTA where all of its threads come between the two; unsafe, as it makes all of them wait."""
    at = place(model, (first,), use, "cta")
    return (
        ()
        if at is None
        else (Repair("add bar.sync 0, which all threads reach there", (before(at, "bar.sync 0;"),)),)
    )


def fence_before(sites: Iterable[int], statement: str) -> tuple[Repair, ...]:
    """A fence in front of each of *sites*: it concerns the thread that executes it, and only orders."""
    changes = tuple(before(site, statement) for site in sites)
    return (Repair(f"add {statement.rstrip(';')}", changes, True),) if changes else ()


def first_of_blocks(model: KernelModel, sites: Iterable[int]) -> list[int]:
    """The first of *sites* in each block."""
    first: dict[int, int] = {}
    for site in sorted(sites):
        first.setdefault(model.cfg.block_of[site], site)
    return list(first.values())


def fenced_between(
    model: KernelModel, first: int, passed: Collection[int], statement: str, begins: int | None = None
) -> tuple[Repair, ...]:
    """A fence behind the access at *first*, or behind the wait *begins*.

    It stands before the signal that hands the bytes over, where one comes on the way and in all threads that access them;
    otherwise right behind the access. The fence of an elected thread says nothing about what the others have done.
    """
    cfg = model.cfg
    deciding = cfg.control_dependences(cfg.block_of[first])
    start, seen = first if begins is None else begins, begins is None
    for i in passed:
        if seen and model.instruction(i).event in _SIGNALS:
            if set(cfg.control_dependences(cfg.block_of[i])).issubset(deciding):
                return fence_before((i,), statement)
            break
        seen |= i == start
    return (Repair(f"add {statement.rstrip(';')}", (after(start, statement),), True),)


def respelled(site: int, new: str, message: str, safe: bool = False) -> tuple[Repair, ...]:
    """Another opcode."""
    return (Repair(message, (opcode(site, new),), safe),)
