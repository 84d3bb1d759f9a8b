"""Where a missing wait, fence or commit can be inserted, and which instruction it must be.

A collective instruction is inserted only where all its threads provably arrive: in a block that is control-dependent on
no other branch than a block that already contains such an instruction, or whose conditions are uniform for all of them.
No repair moves an instruction, widens a scope or changes control flow.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from tclint._dataclass import dataclass
from tclint.analyses.execution import branches
from tclint.analyses.groups import Groups
from tclint.analyses.model import KernelModel
from tclint.dataflow import Guard, Path
from tclint.findings.edits import InstructionEdit, Repair, after, before, opcode, operand
from tclint.ir.nodes import Instruction, registers
from tclint.isa.effects import TCGEN05_ST, WGMMA, Barrier, Engine, Fence, Resource
from tclint.sync.operations import NO_GROUPS, OPEN, OVERDUE, UNCLEAR
from tclint.values import UniformityScope
from tclint.values import thread_masks as T

__all__ = [
    "PendingInGroup",
    "arrive_together",
    "barrier_after",
    "barrier_between",
    "fence_before",
    "fence_between",
    "first_of_blocks",
    "group_repairs",
    "insertion_site",
    "wait_in_block",
    "wait_with_depth",
    "waits_before",
    "waits_for_all_groups",
    "with_opcode",
]

_FENCES = (Fence.MEMORY, Fence.PROXY, Fence.TCGEN05_BEFORE)
"""What a thread executes for the accesses that a barrier then orders."""

Test = Callable[[int], bool]

_SCOPES = {
    "warp": (32, UniformityScope.WARP),
    "warpgroup": (128, UniformityScope.WARPGROUP),
    "cta": (1024, UniformityScope.CTA),
}
"""Scope -> the threads that must arrive together, and the least uniform level that a condition may have for that."""


def arrive_together(model: KernelModel, site: int, scope: str, like: Collection[int] = ()) -> bool:
    """Whether all threads of a group of that scope arrive at *site* if one does; the guard of *site* is ignored.

    *like* are existing instructions of that scope: the kernel is already wrong if not all threads arrive at them.
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


def insertion_site(
    model: KernelModel,
    firsts: Collection[int],
    use: int,
    scope: str,
    fits: Test = lambda site: True,
    like: Collection[int] = (),
) -> int | None:
    """The nearest instruction to *use* before which an instruction of that scope can be inserted.

    Every path from *firsts* to *use* passes it, *fits* accepts it, and all threads of the scope arrive there
    (:func:`arrive_together`). None if there is no such instruction.
    """
    for site in _candidates(model, use):
        every = _on_every_path(model, firsts, use, site)
        if every and fits(site) and arrive_together(model, site, scope, like):
            return site
    return None


def _first_insertion_site(model: KernelModel, firsts: Collection[int], use: int, scope: str) -> int | None:
    """As :func:`insertion_site`, but the farthest instruction from *use*."""
    for site in [max(firsts) + 1, *reversed([*_candidates(model, use)])]:
        if _on_every_path(model, firsts, use, site) and arrive_together(model, site, scope):
            return site
    return None


def _on_every_path(model: KernelModel, firsts: Iterable[int], use: int, site: int) -> bool:
    """Whether every path from *firsts* to *use* passes *site*."""
    return site == use or not any(
        site == first or model.reaches(first, use, (site,)) or not model.reaches(first, site)
        for first in firsts
    )


def _candidates(model: KernelModel, use: int) -> Iterator[int]:
    """*use*, the start of its block, and the last and the first instruction of each block that dominates it."""
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


def waits_for_all_groups(model: KernelModel, group: Engine) -> bool:
    """Whether every wait of *group* has N = 0, so that one more committed group does not change what it waits for."""
    return all(model.instruction(i).leaves(UNCLEAR) <= NO_GROUPS for i in model.waits(group))


@dataclass(frozen=True, slots=True)
class PendingInGroup:
    """An operation of a completion group that is in flight at the end of a path, and what the path passes."""

    path: Path
    site: int
    age: int
    """Its age at the end of the path."""
    waits: list[int]
    commits: list[int]
    later: int
    """The number of commits after the last wait."""

    @classmethod
    def of(cls, groups: Groups, path: Path, site: int, age: int) -> PendingInGroup:
        """The operation at *site*, with which *path* begins."""
        waits, commits, later = list[int](), list[int](), 0
        outcomes = {guard for _, guard in path.guards}
        for i in path.sites(groups.model.cfg, site):
            if Guard(i, False) in outcomes and Guard(i, True) not in outcomes:
                continue
            effects = groups.model.instruction(i).effects
            if effects.waits == groups.group:
                waits.append(i)
                later = 0
            elif effects.commits == groups.group:
                commits.append(i)
                later += 1
        return cls(path, site, age, waits, commits, later)


def group_repairs(
    model: KernelModel, groups: Groups, pending: PendingInGroup, equivalent: Collection[int]
) -> tuple[Repair, ...]:
    """The repairs that complete an operation before the end of its path.

    *equivalent* are operations that the same wait must complete.
    """
    path, site, age, waits, later = pending.path, pending.site, pending.age, pending.waits, pending.later
    if not groups.group.words.commit or path.end < 0:
        return ()
    sites = {site, *equivalent}
    if age == OVERDUE:
        return _with_commit(model, groups, pending, waits) or waits_before(
            model, groups, sites, path.end, True
        )
    if age < OVERDUE:
        return ()
    if waits and 0 <= age < later:  # it was committed after the wait
        return _with_commit(model, groups, pending, waits[-1:]) or waits_before(
            model, groups, sites, path.end, False
        )
    shallower = _with_smaller_depth(model, groups, site, age - later, waits[-1]) if age >= 0 and waits else ()
    stalls = bool(shallower) and _leaves_loop(model, waits[-1], path.end)
    if shallower and not later and not stalls:
        return shallower
    another = _another_wait(model, groups, pending, sites)
    return (*another, *shallower) if stalls else (*shallower, *another)


def _another_wait(
    model: KernelModel, groups: Groups, pending: PendingInGroup, sites: Collection[int]
) -> tuple[Repair, ...]:
    """A wait for *sites* after the last wait on the path: before what may release memory to other threads, and, if some
    of *sites* reach the end of the path otherwise, before that end."""
    path, uncommitted = pending.path, pending.age == OPEN
    last = pending.waits[-1] if pending.waits else None
    passed = list(path.sites(model.cfg, pending.site))
    if last is not None:
        passed = passed[len(passed) - passed[::-1].index(last) :]
    if groups.group == WGMMA:
        # The first signal after a wgmma may release the shared memory that it reads. A barrier after a wait may release
        # what earlier ones read.
        acts = ((i, model.instruction(i).effects) for i in passed)
        arrives = (i for i, e in acts if e.arrives is Barrier.MBARRIER or (last is None and e.at_barrier))
        signal = next(arrives, -1)
        if signal >= 0 and (early := waits_before(model, groups, sites, signal, uncommitted)):
            return early
    before_release = {at: _wait_at(model, groups, sites, at, uncommitted) for at in _releases(model, passed)}
    fitting = [at for at in reversed(before_release) if before_release[at]]
    surest = [at for at in fitting if _on_every_path(model, sites, path.end, at)]
    released = before_release[(surest or fitting)[0]] if fitting else ()
    return (*released, *(() if surest else waits_before(model, groups, sites, path.end, uncommitted)))


def _leaves_loop(model: KernelModel, wait: int, end: int) -> bool:
    """Whether *wait* is in a loop that does not contain *end*: a smaller N would stall every iteration."""
    block_of = model.cfg.block_of
    return any(block_of[wait] in loop and block_of[end] not in loop for loop in model.cfg.loops.values())


def _releases(model: KernelModel, passed: Iterable[int]) -> list[int]:
    """Those of the *passed* instructions after which other threads may access what the thread has written, the last one
    at the end.

    These are barriers or, if a proxy fence precedes one, the fence: a wait for asynchronous writes goes before both. A
    fence that no signal follows releases nothing, and comes first.
    """
    found: list[int] = []
    fences: list[int] = []
    for i in passed:
        effects = model.instruction(i).effects
        if effects.fence is Fence.PROXY:
            fences.append(i)
        elif effects.arrives_for_threads:
            found += fences or ([i] if effects.synchronises is not None else [])
            fences = []
    return [*fences, *found]


def waits_before(
    model: KernelModel,
    groups: Groups,
    sites: Collection[int],
    use: int,
    uncommitted: bool,
    wait: str = "",
) -> tuple[Repair, ...]:
    """A wait, and a commit if *uncommitted*, on all paths from *sites* to *use*; empty if no location is safe for it.

    *wait* defaults to the wait for all operations of the group.
    """
    fits = _covers(model, groups, sites, uncommitted)
    at = insertion_site(model, sites, use, groups.group.words.scope, fits, sites)
    return () if at is None else _inserted(model, groups, at, uncommitted, wait)


def _wait_at(
    model: KernelModel, groups: Groups, sites: Collection[int], at: int, uncommitted: bool
) -> tuple[Repair, ...]:
    """A wait for *sites*, and a commit if *uncommitted*, before the instruction *at* on a path from one of them."""
    fits = _covers(model, groups, sites, uncommitted)(at)
    together = fits and arrive_together(model, at, groups.group.words.scope, sites)
    return _inserted(model, groups, at, uncommitted) if together else ()


def _covers(model: KernelModel, groups: Groups, sites: Collection[int], uncommitted: bool) -> Test:
    """Whether all of *sites* that may be in flight at an instruction are committed there, if a wait needs that."""
    _, results = model.solution(type(groups))

    def committed(at: int) -> bool:
        ages = [a for s, a in results.before(at)[0] if s in sites and a >= OVERDUE]
        return bool(ages) and all(a >= 0 for a in ages)

    return committed if groups.group.words.commit_statement and not uncommitted else lambda at: True


def _inserted(
    model: KernelModel, groups: Groups, at: int, uncommitted: bool, wait: str = ""
) -> tuple[Repair, ...]:
    """The repair that inserts a wait before *at*, with a commit if *uncommitted*."""
    words = groups.group.words
    commit, wait = words.commit_statement, wait or words.wait_statement
    needed = uncommitted and bool(commit)
    statements = (commit, wait) if needed else (wait,)
    names = " and ".join(s.rstrip(";") for s in statements)
    return (
        Repair(
            f"add {names}",
            (before(at, *statements),),
            not needed or waits_for_all_groups(model, groups.group),
        ),
    )


def _with_commit(
    model: KernelModel, groups: Groups, pending: PendingInGroup, waits: Sequence[int]
) -> tuple[Repair, ...]:
    """A commit before the first of *waits* that should cover the operation, or after the last operation of its block."""
    site, words = pending.site, groups.group.words
    commit = words.commit_statement
    wait = waits[0] if waits else -1
    covered = wait >= 0 and not model.reaches(site, pending.path.end, (wait,))
    depth = model.instruction(wait).groups_left if covered else None
    block = model.cfg.block_of[site]
    last = max(i for i in model.begins(groups.group) if model.cfg.block_of[i] == block)
    if words.whole:
        if not covered:
            return ()
        wait_for = (
            f"add {words.whole} before this wait" if depth == 0 else f"wait for all copies with {words.whole}"
        )
        missing = Repair(f"add {words.commit}", (after(last, f"{words.commit};"),))
        return (Repair(wait_for, (before(wait, words.wait_statement),), True), missing)
    message, safe = f"add {commit.rstrip(';')}", waits_for_all_groups(model, groups.group)
    found = []
    if depth == 0 and arrive_together(model, wait, groups.group.words.scope, (site,)):
        found.append(Repair(message, (before(wait, commit),), safe))
    if model.instruction(last).guard < 0:
        found.append(Repair(f"{message} after the operation", (after(last, commit),), safe))
    return tuple(found)


def _with_smaller_depth(
    model: KernelModel, groups: Groups, site: int, age: int, wait: int
) -> tuple[Repair, ...]:
    """The last wait on the path with the largest N that still covers the operation, which has *age* there."""
    instruction = model.instruction(wait)
    depth = instruction.groups_left
    if not depth or instruction.role("depth") is None:
        return ()
    here = [a for s, a in model.solution(type(groups))[1].before(wait)[0] if s == site and a >= 0]
    fitting = [a for a in here if a < depth]
    pending = age if age in fitting else min(fitting, default=-1)
    if pending < 0:
        return ()
    return (wait_with_depth(wait, groups.group.words.wait, pending),)


def wait_with_depth(wait: int, name: str, pending: int) -> Repair:
    """The wait *name* at *wait* with N = *pending*, for a smaller number of pending groups than now."""
    covered = {0: "all groups", 1: "all but the newest group"}.get(
        pending, f"all but the newest {pending} groups"
    )
    return Repair(f"wait for {covered}: {name} {pending}", (operand(wait, "depth", str(pending)),), True)


def wait_in_block(model: KernelModel, kind: str, sites: Iterable[int]) -> tuple[Repair, ...]:
    """``tcgen05.wait`` for each ``tcgen05.ld`` or ``st`` of *sites*, in its own block, where the same lanes arrive.

    After loads it is inserted before the first use of the loaded registers, before other accesses to tensor memory, and
    before any signal; after stores, after the last store before these. Empty if one of *sites* has a guard that may be
    divergent.
    """
    statement = f"tcgen05.wait::{kind}.sync.aligned;"
    changes: dict[int, InstructionEdit] = {}
    for site in sorted(sites):
        instruction, block = model.instruction(site), model.cfg.blocks[model.cfg.block_of[site]]
        if instruction.guard >= 0 and not arrive_together(model, site, "warp"):
            return ()
        destination = instruction.role("destination") if kind == "ld" else None
        loaded = frozenset(registers(destination)) if destination is not None else frozenset()
        later = range(site + 1, block.end)
        end = next((i for i in later if _requires_completion(model.instruction(i), kind, loaded)), block.end)
        if kind == "st":
            changes[end] = after(max(i for i in model.begins(TCGEN05_ST) if i < end), statement)
        else:
            changes[end] = before(end, statement) if end < block.end else after(end - 1, statement)
    return (Repair(f"add {statement.rstrip(';')}", tuple(changes.values()), True),) if changes else ()


def _requires_completion(instruction: Instruction, kind: str, loaded: frozenset[int]) -> bool:
    """Whether an access to tensor memory of that *kind*, which writes *loaded*, must complete before *instruction*."""
    other = (
        instruction.effects.begins is not None
        or instruction.effects.commits is not None
        or instruction.effects.resource is Resource.TMEM_DEALLOC
    ) and instruction.group != f"tcgen05.{kind}"
    return (
        bool(instruction.flow)
        or instruction.effects.arrives_for_threads
        or instruction.effects.fence is Fence.TCGEN05_BEFORE
        or instruction.effects.awaits is Barrier.CLUSTER
        or (other and instruction.name.startswith("tcgen05."))
        or not loaded.isdisjoint((*instruction.reads, *instruction.writes, instruction.guard))
    )


# ---------------------------------------------------------------- fences


def barrier_between(model: KernelModel, first: int, use: int) -> tuple[Repair, ...]:
    """A CTA barrier between the two where all threads of the CTA arrive; unsafe, since it makes all of them wait."""
    return _barrier(insertion_site(model, (first,), use, "cta"))


def barrier_after(model: KernelModel, firsts: Collection[int], use: int) -> tuple[Repair, ...]:
    """A CTA barrier as in :func:`barrier_between`, at the first such instruction after all of *firsts*, which come
    before any loop that repeats *use*.

    It follows the fences there, which order accesses of their own thread before it, and ``bar.warp.sync``.
    """
    at, block_of = _first_insertion_site(model, firsts, use, "cta"), model.cfg.block_of
    while (
        at is not None and at < use and block_of[at + 1] == block_of[at] and _prepares(model.instruction(at))
    ):
        at += 1
    return _barrier(at)


def _prepares(instruction: Instruction) -> bool:
    """Whether it is a fence or ``bar.warp.sync``, as before a CTA barrier."""
    match = instruction.match
    lanes = instruction.effects.synchronises is not None and match is not None and match.scope == "lanes"
    return lanes or instruction.effects.fence in _FENCES


def _barrier(at: int | None) -> tuple[Repair, ...]:
    return (
        ()
        if at is None
        else (Repair("add bar.sync 0, which all threads reach", (before(at, "bar.sync 0;"),)),)
    )


def fence_before(sites: Iterable[int], statement: str) -> tuple[Repair, ...]:
    """A fence before each of *sites*; safe, since it only orders accesses of the executing thread."""
    changes = tuple(before(site, statement) for site in sites)
    return (Repair(f"add {statement.rstrip(';')}", changes, True),) if changes else ()


def first_of_blocks(model: KernelModel, sites: Iterable[int]) -> list[int]:
    """The first of *sites* in each block."""
    first: dict[int, int] = {}
    for site in sorted(sites):
        first.setdefault(model.cfg.block_of[site], site)
    return list(first.values())


def fence_between(
    model: KernelModel, first: int, passed: Collection[int], statement: str, begins: int | None = None
) -> tuple[Repair, ...]:
    """A fence after the access at *first*, or after the wait *begins*.

    It is inserted before the first signal among the *passed* instructions, which releases the bytes, if all threads
    that access them execute that signal; otherwise immediately after the access. A fence of an elected thread does not
    cover the accesses of the others.
    """
    cfg = model.cfg
    deciding = cfg.control_dependences(cfg.block_of[first])
    start, seen = first if begins is None else begins, begins is None
    for i in passed:
        if seen and model.instruction(i).effects.arrives_for_threads:
            if set(cfg.control_dependences(cfg.block_of[i])).issubset(deciding):
                return fence_before((i,), statement)
            break
        seen |= i == start
    return (Repair(f"add {statement.rstrip(';')}", (after(start, statement),), True),)


def with_opcode(site: int, new: str, message: str, safe: bool = False) -> tuple[Repair, ...]:
    """The opcode *new* for the instruction at *site*."""
    return (Repair(message, (opcode(site, new),), safe),)
