"""Which planted faults are none: proofs that a changed kernel does what the original does.

    equivalent(kernel, fault) -> Proof | None

A proof argues from the PTX ISA alone, over every path of the control-flow graph, whatever its predicates are. It asks
the ISA table what an instruction is and nothing of the analyses and rules of tclint, so that a score that leaves out
what is proven is not a score of tclint against itself. None means not proven.

"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from benchmarks.barrier_proofs import EXCHANGES, in_other_intervals, in_turn, ordered_by_others
from benchmarks.copy_proofs import only_the_end_follows
from benchmarks.faults import Fault, Kernel, apply
from tclint.ir.cfg import CFG
from tclint.ir.frontend import analyse
from tclint.ir.nodes import Immediate, Instruction, Operand, Vector, registers
from tclint.isa.effects import Order
from tclint.syntax.source import Source

__all__ = [
    "PROOFS",
    "Change",
    "Proof",
    "change",
    "equivalent",
    "observers",
    "orders_reads_alone",
]


class Proof(NamedTuple):
    """Why a change makes no difference."""

    reason: str
    manual: str
    """The section of the PTX ISA that the argument rests on."""


@dataclass
class Change:
    """What a fault executes in place of which instruction."""

    kernel: Kernel
    steps: dict[int, list[Instruction]]
    """Instruction of the original -> what the mutant has in its place; all others are unchanged."""

    @cached_property
    def cfg(self) -> CFG:
        return CFG(self.kernel.function)

    @property
    def instructions(self) -> list[Instruction]:
        return self.kernel.instructions

    @property
    def deleted(self) -> int | None:
        """The one instruction that is gone, if that is all, or if it only moved to where fences may be."""
        gone = [site for site, now in self.steps.items() if self.instructions[site] not in now]
        if len(gone) != 1 or any("fence" not in i.event for i in self.added):
            return None
        return gone[0]

    @property
    def taken(self) -> list[Instruction]:
        """What the mutant does not execute where the original does."""
        return [
            self.instructions[site] for site, now in self.steps.items() if self.instructions[site] not in now
        ]

    @property
    def added(self) -> list[Instruction]:
        """What the mutant executes and the original does not execute there."""
        return [i for site, now in self.steps.items() for i in now if i is not self.instructions[site]]

    @cached_property
    def group(self) -> str | None:
        """The completion group, when all that changed are its waits and commits, unguarded and with constant depths.

        Waits of other groups may come in: they only wait for more.
        """
        groups = {i.group for i in self.taken} or {i.group for i in self.added}
        if len(groups) != 1 or not {i.event for i in (*self.taken, *self.added)} <= {"wait", "commit"}:
            return None
        (group,) = groups
        waits = [i for i in (*self.instructions, *self.added) if i.event == "wait" and i.group == group]
        strange = any(i.group != group and i.event != "wait" for i in self.added)
        guarded = any(i.guard >= 0 for i in (*self.taken, *self.added))
        if group not in _SECTIONS or strange or guarded or any(_depth(i) is None for i in waits):
            return None
        return group

    def accessed_by(self, site: int) -> frozenset[int]:
        """The registers that the operation issued at *site* reads or writes while it is pending."""
        i = self.instructions[site]
        assert i.match is not None
        names = (*i.match.form.async_reads, *i.match.form.async_writes)
        operands = (i.named(name) for name in names)
        return frozenset(r for operand in operands if operand is not None for r in registers(operand))

    def before(self, site: int) -> Iterator[int]:
        """The instructions in front of *site*, nearest first, as far as nothing else can lead there."""
        return iter(range(site - 1, self.cfg.blocks[self.cfg.block_of[site]].start - 1, -1))

    def after(self, site: int) -> Iterator[int]:
        """The instructions after *site*, nearest first, as long as they all follow."""
        return iter(range(site + 1, self.cfg.blocks[self.cfg.block_of[site]].end))


def change(kernel: Kernel, fault: Fault) -> Change | None:
    """*fault* as instructions; None where it changes directives, declarations or the flow of control."""
    function = kernel.function
    spans = {kernel.span(i).start: i for i in range(len(kernel.instructions))}
    touched = {spans[e.span.start] for e in fault.edits if e.span.start in spans}
    if not any(kernel.instructions[i].event in _ABOUT for i in touched):
        return None  # no proof is about it: spare the parser
    if any(not function.start <= e.span.start <= e.span.end <= function.end for e in fault.edits):
        return None
    module, problems = analyse(Source(apply(kernel.data, fault.edits), "mutant.ptx"))
    twin = next((f for f in module.functions if f.name == function.name and not f.declared_only), None)
    if problems or twin is None:
        return None
    if any(i.match is None or _astray(i) for i in function.instructions):
        return None
    starts = {kernel.span(i).start: i for i in range(len(kernel.instructions))}
    ends = {kernel.span(i).end: i for i in range(len(kernel.instructions))}
    steps: dict[int, list[Instruction]] = {}
    shift = 0
    for edit in sorted(fault.edits, key=lambda e: e.span.start):
        start, end = edit.span.start, edit.span.end
        length = len(edit.text.encode())
        inside = [i for i in twin.instructions if 0 <= twin.start + i.start - start - shift < length]
        shift += length - (end - start)
        if start < end:
            site = starts.get(start)
            if site is None or kernel.span(site).end != end:
                return None
            steps[site] = inside
        elif start in ends:
            site = ends[start]
            steps[site] = [*steps.get(site, [kernel.instructions[site]]), *inside]
        elif start in starts:
            site = starts[start]
            steps[site] = [*inside, *steps.get(site, [kernel.instructions[site]])]
        else:
            return None
    if any(i.flow for site, now in steps.items() for i in (kernel.instructions[site], *now)):
        return None
    return Change(kernel, steps)


def _astray(instruction: Instruction) -> bool:
    """Whether it may lead to where the graph does not say."""
    targets = instruction.targets
    return instruction.flow in ("branch", "branch-table") and (not targets or min(targets) < 0)


_ABOUT = frozenset(
    """commit wait register-fence proxy-fence memory-fence tcgen05-fence-before tcgen05-fence-after barrier-sync barrier-wait
    pdl-wait mbarrier-expect mbarrier-arrive mbarrier-wait issue""".split()
)
"""Events of which some proof speaks; ``unreachable`` is asked about these only."""

PROOFS: list[Callable[[Change], Proof | None]] = []


def proof(argue: Callable[[Change], Proof | None]) -> Callable[[Change], Proof | None]:
    """Register a function that proves some changes harmless."""
    PROOFS.append(argue)
    return argue


def equivalent(kernel: Kernel, fault: Fault) -> Proof | None:
    """A proof that the mutant does what *kernel* does, by the PTX ISA; None when there is none."""
    changed = change(kernel, fault)
    if changed is None:
        return None
    return next((found for argue in PROOFS if (found := argue(changed)) is not None), None)


# ---------------------------------------------------------------- proofs


@proof
def unreachable(change: Change) -> Proof | None:
    """No path leads from the entry of the function to the change (9.7.13: control flow; 11.2: entry).

    An instruction that no thread executes has no effect. Both branches of a condition count as ways.
    """
    if all(change.cfg.block_of[site] not in change.cfg.rank for site in change.steps):
        return Proof("no path from the entry leads to it", "9.7.12")
    return None


Pending = tuple[int, int | None, int]
Ages = frozenset[Pending]
"""Operations that may be pending: where each was issued, and how many groups are newer in the original and the mutant.

-1 for an age: in no group yet; None: complete in the original, and not yet in the mutant. -1 for a place: in a function
that is called, or that calls this one.
"""

_SECTIONS = {
    "wgmma": "9.7.15.7.3",
    "cp.async": "9.7.9.25.3.3",
    "bulk": "9.7.9.27.2.2",
    "tcgen05.ld": "9.7.16.8.5",
    "tcgen05.st": "9.7.16.8.5",
}

_READERS = ("wgmma", "tcgen05.ld")
"""Groups whose operations read memory and write registers: in which order two of them read makes no difference."""


@proof
def same_operations_awaited(change: Change) -> Proof | None:
    """Whatever is complete in the original is complete in the mutant, before anything can observe a difference.

    A commit puts the operations that are in no group yet into a new one, and an empty group is complete;
    ``wait_group N`` waits for all groups but the N newest (sections of ``_SECTIONS``). So both programs run in step
    over the same path, and each pending operation has a pair of ages. A commit that one of them lacks makes its ages
    differ. An operation that a wait completes in the original alone must be complete in the mutant before the next
    instruction that could observe it: until then only branches, waits and commits of the group may come, and arithmetic
    on registers that the operation does not access; and, where the operations of the group only read memory
    (``_READERS``), further ones that do not access its registers. Waiting for more than the original does is not a fault.

    An instruction that reads a register which a ``tcgen05.ld`` loads comes after the load, with or without a wait
    (9.7.16.6.4.5). So one that writes none of its registers distinguishes nothing, if it is arithmetic, or a weak access to
    memory other than tensor memory: no other thread can know by that what this one has done.

    What a call does is unknown but the same in both: it proves nothing as long as the ages are the same. An operation
    that only one of them has committed when the function ends counts as a difference.
    """
    group = change.group
    if group is None or observers(change):
        return None
    return Proof(
        "the same operations are complete in both before anything can observe a difference", _SECTIONS[group]
    )


def observers(change: Change) -> frozenset[int] | None:
    """The instructions that may distinguish the mutant from the original: an operation is not complete there that should be.

    -1 stands for the end of the function. None when the change is another one than of unguarded waits and commits.
    :func:`same_operations_awaited` has the argument.
    """
    if change.group is None:
        return None
    return _late(change, change.group, to_the_end=False) | _late(change, change.group, to_the_end=True)


def _late(change: Change, group: str, to_the_end: bool) -> frozenset[int]:
    """The instructions at which operations of *group* may be complete in the original alone.

    Not *to_the_end*, an operation that has read its sources counts as complete; else ``.read`` waits for nothing
    (9.7.9.27.2.2).
    """
    everyone = [*change.instructions, *change.added]
    oldest = 1 + max((_depth(i) or 0 for i in everyone if i.event == "wait" and i.group == group), default=0)
    accessed = {site: change.accessed_by(site) for site in change.kernel.sites("issue", group)}
    accessed[-1] = frozenset().union(*accessed.values())
    found: set[int] = set()

    def after(instructions: Sequence[Instruction], age: int | None) -> int | None:
        """The age of an operation after some instructions; None when it is complete."""
        for i in instructions:
            assert i.match is not None
            if i.group != group or age is None:
                continue
            # cp.async.wait_all commits what is in no group first (9.7.9.25.3.3).
            if i.event == "commit" or (i.event == "wait" and "depth" not in i.match.form.roles):
                age = min(age + 1, oldest)
            waits = i.event == "wait" and not (to_the_end and ".read" in i.match.modifiers)
            if waits and age >= (_depth(i) or 0):
                return None
        return age

    def both(state: Ages, old: Sequence[Instruction], new: Sequence[Instruction]) -> Ages:
        pairs = ((at, after(old, a), after(new, b)) for at, a, b in state)
        return frozenset((at, a, b) for at, a, b in pairs if b is not None)

    def common(state: Ages, site: int) -> Ages:
        """The pairs after an instruction of both programs."""
        i = change.instructions[site]
        if i.flow == "call":
            if any(a != b for _, a, b in state):
                found.add(site)
            return state | unknown
        if i.group == group and i.event in ("commit", "wait"):
            # The guard is the same in both.
            return both(state, (i,), (i,)) | (state if i.guard >= 0 else frozenset())
        late = [at for at, a, _ in state if a is None]
        if late and i.flow != "branch":
            registers = {*i.writes} if group == "tcgen05.ld" else {*i.reads, *i.writes}
            reads = i.event == "issue" and i.group == group and group in _READERS
            reads |= group == "tcgen05.ld" and _ordinary(i)
            if not (_inner(i) or reads) or any(not accessed[at].isdisjoint(registers) for at in late):
                found.add(site)
        return state | {(site, *fresh)} if i.group == group and i.event == "issue" else state

    def step(state: Ages, site: int) -> Ages:
        i, now = change.instructions[site], change.steps.get(site)
        if now is None:
            return common(state, site)
        if i not in now:
            return both(state, (i,), now)
        at = now.index(i)
        return both(common(both(state, (), now[:at]), site), (), now[at + 1 :])

    fresh = (0, 0) if group.startswith("tcgen05.") else (-1, -1)
    unknown = frozenset[Pending]((-1, age, age) for age in range(-1, oldest + 1))
    entry = change.kernel.function.entry
    ends = _everywhere(change.cfg, frozenset() if entry else unknown, step)
    at_exit = (pending for block in change.cfg.exits & ends.keys() for pending in ends[block])
    if any(a != b and (not entry or a is None or min(a, b) < 0) for _, a, b in at_exit):
        found.add(-1)
    return frozenset(found)


def _depth(instruction: Instruction) -> int | None:
    """How many of the newest groups a wait leaves pending; None when that cannot be read."""
    operand = instruction.role("depth")
    if operand is None:
        return 0
    return operand.value if isinstance(operand, Immediate) and isinstance(operand.value, int) else None


def _everywhere(cfg: CFG, entry: Ages, step: Callable[[Ages, int], Ages]) -> dict[int, Ages]:
    """The state at the end of every reachable block, joined over all paths."""
    begins: dict[int, Ages] = {0: entry}
    ends: dict[int, Ages] = {}
    work = [0]
    while work:
        block = work.pop()
        state = begins[block]
        for site in range(cfg.blocks[block].start, cfg.blocks[block].end):
            state = step(state, site)
        ends[block] = state
        for edge in cfg.successors[block]:
            known = begins.get(edge.target)
            joined = state if known is None else known | state
            if joined != known:
                begins[edge.target] = joined
                work.append(edge.target)
    return ends


@proof
def nothing_issued_before(change: Change) -> Proof | None:
    """Waits and commits of a group of which no path from the entry comes past an operation.

    They complete and commit nothing, whatever guards they have (sections of ``_SECTIONS``). A call might issue one.
    """
    groups = {i.group for i in (*change.taken, *change.added)}
    events = {i.event for i in (*change.taken, *change.added)}
    if len(groups) != 1 or not events <= {"wait", "commit"} or not change.kernel.function.entry:
        return None
    (group,) = groups
    if group not in _SECTIONS:
        return None

    def issues(i: Instruction) -> bool:
        return i.flow == "call" or (i.event == "issue" and i.group == group)

    if any(i is not None and issues(i) for site in change.steps for i in _before(change, site)):
        return None
    return Proof("no operation of the group is issued on any path to it", _SECTIONS[group])


@proof
def copies_in_flight_at_the_end(change: Change) -> Proof | None:
    """A wait for bulk copies, or a commit of them, that only the end of the kernel follows.

    What becomes of a copy when its CTA ends is not specified (9.7.9.25.1.1). Nothing can observe earlier that it is not
    complete: no access to memory follows, and no other thread is let on to one.
    """
    if change.group != "bulk":
        return None
    function, cfg = change.kernel.function, change.cfg
    if not all(only_the_end_follows(function, cfg, site, in_turn) for site in change.steps):
        return None
    return Proof(
        "only the end of the kernel follows it, which may leave bulk copies in flight", "9.7.9.25.1.1"
    )


@proof
def results_that_nothing_reads(change: Change) -> Proof | None:
    """A wait for bulk copies that becomes one for their sources, after which nothing can observe their results.

    ``.read`` leaves out that the writes become visible to the executing thread (9.7.9.27.2.2). Nothing after it accesses
    memory outside the CTA, or lets another thread do so.
    """
    alike = all(
        len(now) == 1 and _depth(now[0]) == _depth(change.instructions[site]) and ".read" in now[0].opcode
        for site, now in change.steps.items()
    )
    if change.group != "bulk" or not alike:
        return None
    function, cfg = change.kernel.function, change.cfg
    if not all(only_the_end_follows(function, cfg, site, in_turn, read=True) for site in change.steps):
        return None
    return Proof("nothing after it accesses memory outside the CTA", "9.7.9.27.2.2")


@proof
def fence_before_each_wgmma(change: Change) -> Proof | None:
    """Another ``wgmma.fence`` follows on every path before the next ``wgmma.mma_async``.

    The fence orders earlier accesses to registers before those of later ``wgmma.mma_async`` (9.7.15.7.1). Where a
    second one comes before any of these, it orders all that the first one did: every access before the first is before
    the second too. A call may issue one, so it must not intervene.
    """
    site = change.deleted
    if site is None or change.instructions[site].event != "register-fence":
        return None
    cfg = change.cfg
    work, seen = [(cfg.block_of[site], site + 1)], set()
    while work:
        block, begin = work.pop()
        for i in range(begin, cfg.blocks[block].end):
            instruction = change.instructions[i]
            if instruction.event == "register-fence" and instruction.guard < 0 and i != site:
                break
            if (instruction.event == "issue" and instruction.group == "wgmma") or instruction.flow == "call":
                return None
        else:
            for edge in cfg.successors[block]:
                if edge.target not in seen:
                    seen.add(edge.target)
                    work.append((edge.target, cfg.blocks[edge.target].start))
    return Proof("every path has another wgmma.fence before the next wgmma.mma_async", "9.7.15.7.1")


@proof
def nothing_accessed_since_the_fence(change: Change) -> Proof | None:
    """Every path comes from another ``wgmma.fence``, and no register of a ``wgmma`` was accessed since.

    A fence is needed before the first ``wgmma.mma_async`` and between an access to a register and a
    ``wgmma.mma_async`` that uses it as accumulator or fragment of A, but not between accesses to an accumulator by
    ``wgmma.mma_async`` of the same shape (9.7.15.7.1). So those may come in between, if all of the function are the
    same instruction and none has A in registers. The registers of all of them count.
    """
    site = change.deleted
    if site is None or change.instructions[site].event != "register-fence":
        return None
    products = [i for i in change.instructions if i.event == "issue" and i.group == "wgmma"]
    alike = len({i.opcode for i in products}) == 1 and not any(
        isinstance(i.role("a"), Vector) for i in products
    )
    used = {r for at in change.kernel.sites("issue", "wgmma") for r in change.accessed_by(at)}
    for i in _before(change, site, lambda i: i.event == "register-fence" and i.guard < 0):
        product = i is not None and i.event == "issue" and i.group == "wgmma"
        if i is None or i.flow == "call" or (product and not alike):
            return None
        if not product and not used.isdisjoint((*i.reads, *i.writes)):
            return None
    return Proof("a wgmma.fence precedes it, and no register of a wgmma is accessed in between", "9.7.15.7.1")


_INNER = frozenset(("integer", "logic", "float", "half", "convert", "compare", "extended", "video"))
"""Families of instructions that read and write registers and do nothing else."""


def _inner(instruction: Instruction) -> bool:
    match = instruction.match
    if match is None or match.form.event or match.form.flow or match.form.memory:
        return False
    return match.form.family in _INNER or (
        match.form.name in ("mov", "mov.pack", "mov.unpack") and not match.problem
    )


def _ordinary(instruction: Instruction) -> bool:
    """Whether it is a weak access to memory, which is not tensor memory, and does nothing else."""
    match = instruction.match
    if match is None or match.problem or match.form.event or match.form.flow or not match.form.memory:
        return False
    return match.form.name in ("ld", "st", "ldmatrix", "stmatrix") and match.order is Order.WEAK


def _neighbour(change: Change, site: int, same: Callable[[Instruction], bool]) -> int | None:
    """An unguarded instruction that is the *same* in the block of *site*, with arithmetic at most in between."""
    for direction in (change.before(site), change.after(site)):
        for i in direction:
            instruction = change.instructions[i]
            if instruction.guard < 0 and same(instruction):
                return i
            if not _inner(instruction):
                break
    return None


@proof
def second_fence_beside_it(change: Change) -> Proof | None:
    """An equal fence is beside it, and nothing between them accesses memory or synchronises.

    A fence orders what comes before it and what follows it (9.7.13.4, 9.7.16.11.1, 8.7). With only arithmetic
    between two equal ones, the same accesses are before and after both.
    """
    site = change.deleted
    if site is None:
        return None
    fence = change.instructions[site]
    kinds = ("proxy-fence", "memory-fence", "tcgen05-fence-before", "tcgen05-fence-after")
    if fence.event not in kinds or fence.operands:
        return None
    if _neighbour(change, site, lambda i: i.opcode == fence.opcode and not i.operands) is None:
        return None
    return Proof("an equal fence is beside it, with no access to memory in between", "9.7.13.4")


@proof
def mbarriers_alone_before_the_proxy_fence(change: Change) -> Proof | None:
    """No shared memory is accessed before a ``fence.proxy.async`` about it, but for the mbarriers that are made there.

    It orders accesses through the generic and the async proxy (9.7.13.4). Asynchronous operations access their mbarrier
    through the generic proxy, as ``mbarrier.init`` does (9.7.9.25.4.1), so these are accesses through one proxy. Threads
    observe the accesses of others where they synchronise, so no such instruction may come before either.
    """
    site = change.deleted
    if site is None or not _about_shared_memory(change.instructions[site]):
        return None
    if not all(i is None or _leaves_shared_memory(i) for i in _before(change, site)):
        return None
    return Proof("nothing but mbarriers is accessed in shared memory before it", "9.7.9.25.4.1")


@proof
def nothing_accessed_since_the_proxy_fence(change: Change) -> Proof | None:
    """Every path comes from a ``fence.proxy.async`` that orders as much, or from the entry, and since then only through
    the async proxy.

    The fence orders what the thread has accessed through the generic proxy, or has observed, with what is done through
    the async proxy after it (9.7.13.4). Without any such access since the one before, that one has ordered all.

    What the thread may have observed precedes what may have released it: the arrivals at mbarriers, and the barriers that
    others reach; operations that complete a phase make no accesses through the generic proxy. At a barrier to which all
    threads of the CTA come as to the same one (9.7.13.1), that is what lies before this barrier.

    Where no operation writes shared memory through the async proxy, an ordinary load does not matter: two reads are in no
    order.
    """
    if not _ordered_by_the_fence_before(change):
        return None
    return Proof(
        "nothing is accessed through the generic proxy between the beginning, or a proxy fence, and it",
        "9.7.13.4",
    )


def _ordered_by_the_fence_before(change: Change) -> bool:
    """Whether that holds if all threads reach the barriers that they reach in turn."""
    site = change.deleted
    if site is None or not _about_shared_memory(change.instructions[site]):
        return False
    kinds = (change.instructions[site].opcode, "fence.proxy.async")
    # A function that calls, or is called, may do anything.
    entry = change.kernel.function.entry
    alone = entry and not any(i.flow == "call" for i in change.instructions)
    reads_alone = entry and _async_reads_alone(change)
    observed = _Observations(change, site) if alone else None
    releases_before = observed.releases_before if observed else None
    for at in _sites_before(change, site, lambda i: i.opcode in kinds and i.guard < 0, releases_before):
        if at is None:
            if not entry:
                return False
            continue
        i = change.instructions[at]
        if _leaves_shared_memory(i) or _of_the_async_proxy(i) or (reads_alone and _loads(i)):
            continue
        if observed is None or not observed.acquires_at(at):
            return False
    return True


class _Observations:
    """What a thread may have observed before the fence at *site*, if all reach the barriers that they reach in turn."""

    def __init__(self, change: Change, site: int) -> None:
        self.change = change
        self.site = site

    def acquires_at(self, at: int) -> bool:
        """Whether a thread observes others at an instruction, and it is known which ones."""
        return self.change.instructions[at].event in ("mbarrier-wait", "barrier-sync")

    def releases_before(self, at: int) -> Iterable[int]:
        """The last instructions by which others may have released what they did before."""
        if self.change.instructions[at].event == "mbarrier-wait":
            return self._arrivals
        if self.change.instructions[at].event != "barrier-sync" or at in self._meetings:
            return ()
        return self._barriers

    @cached_property
    def _meetings(self) -> frozenset[int]:
        """The barriers that all threads of the CTA come to as the same one."""
        function, cfg = self.change.kernel.function, self.change.cfg
        every = (i for i, x in enumerate(self.change.instructions) if x.event == "barrier-sync")
        return frozenset(i for i in every if in_turn(function, cfg, i))

    @cached_property
    def _arrivals(self) -> list[int]:
        return self._of(("mbarrier-arrive", "mbarrier-complete"))

    @cached_property
    def _barriers(self) -> list[int]:
        return self._of(("barrier-sync", "barrier-arrive"))

    def _of(self, events: Collection[str]) -> list[int]:
        """Instructions of some *events* that another thread may have executed when one reaches the fence.

        A thread after a barrier for all threads knows that all have reached it, except where a path leads from there to
        the fence.
        """
        cfg, instructions = self.change.cfg, self.change.instructions
        fence = cfg.block_of[self.site]

        def over(barrier: int) -> bool:
            block = cfg.block_of[barrier]
            return not cfg.reachable_from[block] >> fence & 1 and (block != fence or self.site < barrier)

        over_at = [i for i in self._meetings if over(i)]
        return [
            at
            for at, i in enumerate(instructions)
            if i.event in events
            and cfg.block_of[at] in cfg.rank
            and not any(self._always_after(b, at) for b in over_at)
        ]

    def _always_after(self, barrier: int, at: int) -> bool:
        """Whether every path to an instruction passes the barrier before."""
        first, own = self.change.cfg.block_of[barrier], self.change.cfg.block_of[at]
        return barrier < at if first == own else self.change.cfg.dominates(first, own)


def _async_reads_alone(change: Change) -> bool:
    """Whether the operations of the kernel through the async proxy only read shared memory.

    Those of a tensor core write registers and tensor memory, and those of a bulk group global memory (9.7.9.25.4.1).
    """
    return not any(
        i.match is None
        or i.match.problem
        or i.flow == "call"
        or (
            i.match.form.proxy == "async"
            and i.event == "issue"
            and i.group not in ("wgmma", "tcgen05", "bulk")
        )
        or (i.match.form.proxy == "async" and i.event not in ("issue", "proxy-fence"))
        for i in change.instructions
    )


def orders_reads_alone(change: Change) -> bool:
    """Whether it is about a ``fence.proxy.async`` before which the thread has read shared memory at most.

    Then it separates these reads from what overwrites the bytes through the async proxy.
    """
    site = change.deleted
    if site is None or not _about_shared_memory(change.instructions[site]):
        return False
    opcode = change.instructions[site].opcode
    return not any(
        i is not None and _writes_shared_memory(i)
        for i in _before(change, site, lambda i: i.opcode == opcode)
    )


def _writes_shared_memory(instruction: Instruction) -> bool:
    """Whether it may write data to shared memory through the generic proxy."""
    match = instruction.match
    if match is None or match.problem or instruction.flow == "call":
        return True
    if (
        match.form.event in ("tmem-alloc", "mbarrier-init", "mbarrier-inval")
        or "mbarrier" in match.form.roles
    ):
        return False  # an address in tensor memory, and mbarriers
    wrote = any(verb == "write" for verb, _ in match.form.memory) or match.form.group == "cp.async"
    return wrote and match.space in ("", ".shared", ".shared::cta", ".shared::cluster")


def _of_the_async_proxy(instruction: Instruction) -> bool:
    """Whether it is about operations that access shared memory through the async proxy alone, and releases nothing to others."""
    match = instruction.match
    if match is None or match.problem or instruction.event == "tmem-alloc":
        return False
    return (
        match.form.proxy == "async"
        or instruction.group in ("wgmma", "bulk")
        or match.form.name.startswith("tcgen05")
    )


@proof
def no_operation_through_the_async_proxy(change: Change) -> Proof | None:
    """A ``fence.proxy.async`` in a kernel without an operation through the async proxy.

    It orders accesses through the generic and the async proxy (9.7.13.4). Shared memory is gone with its CTA (5.1.3), so
    none of another kernel accesses what was written there; what is in other memory must not have been written before.
    What it has read is not overwritten before the kernel signals that, which orders the two.
    """
    site = change.deleted
    if site is None or not change.kernel.function.entry:
        return None
    match = change.instructions[site].match
    if match is None or match.form.event != "proxy-fence" or match.form.proxy != "async":
        return None
    others = (i.match for i in change.instructions if i.event != "proxy-fence")
    if any(m is None or m.problem or m.form.proxy == "async" or m.form.flow == "call" for m in others):
        return None
    if any(i is not None and _writes_elsewhere(i) for i in _before(change, site)):
        return None
    return Proof("no operation of the kernel is made through the async proxy", "9.7.13.4")


def _writes_elsewhere(instruction: Instruction) -> bool:
    """Whether it may write other memory than that of its CTA."""
    match = instruction.match
    assert match is not None
    own = match.space in (".shared", ".shared::cta", ".local", ".param")
    return not own and any(verb == "write" for verb, _ in match.form.memory)


def _before(
    change: Change, site: int, ends: Callable[[Instruction], bool] = lambda instruction: False
) -> Iterator[Instruction | None]:
    """What may be executed before *site*, nearest first, up to what *ends* a path; None: the entry of the function."""
    for at in _sites_before(change, site, ends):
        yield None if at is None else change.instructions[at]


def _sites_before(
    change: Change,
    site: int,
    ends: Callable[[Instruction], bool],
    releases_before: Callable[[int], Iterable[int]] | None = None,
) -> Iterator[int | None]:
    """The sites where it ends; and those before the releases that each acquire point may observe."""
    cfg = change.cfg
    work, seen, known = [(cfg.block_of[site], site)], set[int](), set[int]()
    while work:
        block, end = work.pop()
        for at in range(end - 1, cfg.blocks[block].start - 1, -1):
            if at != site and ends(change.instructions[at]):
                break
            yield at
            fresh = {*releases_before(at)} - known if releases_before else set[int]()
            known |= fresh
            work += [(cfg.block_of[i], i) for i in fresh]
        else:
            if block == 0:
                yield None
            fresh = set(cfg.sources[block]) - seen
            seen |= fresh
            work += [(source, cfg.blocks[source].end) for source in fresh]


def _about_shared_memory(instruction: Instruction) -> bool:
    match = instruction.match
    if match is None or match.form.event != "proxy-fence" or match.form.proxy != "async":
        return False
    return match.space.startswith(".shared")


def _leaves_shared_memory(instruction: Instruction) -> bool:
    """Whether it accesses no shared memory but an mbarrier, and observes no other thread."""
    match = instruction.match
    if match is None or match.problem or instruction.flow == "call":
        return False
    if match.form.event in (
        "mbarrier-init",
        "mbarrier-inval",
        "mbarrier-arrive",
        "mbarrier-expect",
        "proxy-fence",
        "memory-fence",
        "elect",
        "setmaxnreg",
    ):
        return True
    if match.form.family == "warp" and match.form.scope == "lanes":
        return match.form.event != "barrier-sync"  # the others exchange registers, and order no memory
    if match.form.event or not match.form.memory:
        return not match.form.event
    return match.space.startswith((".global", ".param", ".const", ".local")) and not _exchanges(instruction)


def _exchanges(instruction: Instruction) -> bool:
    """Whether a thread may observe by it what others have done: a strong access, or an atomic operation (8.7)."""
    match = instruction.match
    if match is None or not EXCHANGES.isdisjoint(match.modifiers):
        return True
    return len({verb for verb, _ in match.form.memory}) > 1


def _loads(instruction: Instruction) -> bool:
    """Whether it reads memory and observes no other thread."""
    match = instruction.match
    if match is None or match.problem or instruction.flow == "call" or match.form.event:
        return False
    return all(verb == "read" for verb, _ in match.form.memory) and not _exchanges(instruction)


@proof
def single_thread(change: Change) -> Proof | None:
    """A CTA barrier in a CTA that has one thread by ``.reqntid`` (11.4.4).

    It waits for no other thread, and a thread observes its own accesses in program order (8.9.5, 9.7.13.1). Not so in a CTA of
    one warp: its lanes need not run in step.
    """
    site = change.deleted
    if site is None or change.kernel.function.threads != 1:
        return None
    barrier = change.instructions[site]
    if barrier.event != "barrier-sync" or barrier.writes or barrier.role("id") is None:
        return None
    return Proof("the CTA has one thread", "9.7.13.1")


def _relaxed_arrival(change: Change) -> int | None:
    """The arrival on an mbarrier that becomes relaxed, if that is all that changes in an entry."""
    if len(change.steps) != 1 or len(change.taken) != 1 or len(change.added) != 1:
        return None
    (site,), (old,), (new,) = change.steps, change.taken, change.added
    relaxed = new.match is not None and ".relaxed" in new.match.modifiers
    if (
        (old.event, new.event) != ("mbarrier-arrive", "mbarrier-arrive")
        or not relaxed
        or new.operands != old.operands
        or not change.kernel.function.entry
    ):
        return None
    return site


@proof
def observed_after_a_barrier(change: Change) -> Proof | None:
    """An arrival on an mbarrier of the CTA becomes relaxed, and each wait that may observe it follows a CTA barrier.

    A thread that observes the arrival is not in an earlier interval between such barriers than it. So it is in a later one,
    and the barrier between the two orders what the release would (8.9.4, 9.7.13.1). A call may wait.
    """
    site = _relaxed_arrival(change)
    instructions = change.instructions
    if site is None or any(i.match is None or i.flow == "call" for i in instructions):
        return None
    match = instructions[site].match
    if match is None or not match.own_shared:
        return None
    waits = [at for at, i in enumerate(instructions) if i.event == "mbarrier-wait"]
    if not in_other_intervals(change.kernel.function, change.cfg, site, waits):
        return None
    return Proof("each wait that may observe it follows a barrier for all threads", "9.7.13.1")


@proof
def ordered_by_the_barriers_around(change: Change) -> Proof | None:
    """Nothing that is done between the barriers around it needs this one between.

    A barrier orders what the threads did before it and what they do after it (8.9.4, 9.7.13.1, 9.7.13.3). Where another
    one that waits for at least these threads separates two accesses, they stay ordered; so its absence is harmless where
    the accesses that no other one separates are never of the same bytes, one of them a write. A barrier of each warp
    in its place, or the same barrier elsewhere, orders more rather than less. One of another count may never complete.
    """
    gone = [site for site, now in change.steps.items() if change.instructions[site] not in now]
    same = {_spelt(change.instructions[site]) for site in gone}
    if not gone or any(i.guard >= 0 or not (_of_lanes(i) or _spelt(i) in same) for i in change.added):
        return None
    if not ordered_by_others(change.kernel.function, change.cfg, sorted(gone)):
        return None
    return Proof("the barriers around it order all that it orders", "9.7.13.1")


def _spelt(instruction: Instruction) -> tuple[str, Sequence[Operand]]:
    return instruction.opcode, instruction.operands


def _of_lanes(instruction: Instruction) -> bool:
    """Whether it is a barrier of the lanes of a warp."""
    match = instruction.match
    return instruction.event == "barrier-sync" and match is not None and match.form.scope == "lanes"


@proof
def grid_awaited_before(change: Change) -> Proof | None:
    """Another ``griddepcontrol.wait`` is on every path before it.

    It waits until all prerequisite grids have completed and their memory operations are visible to this grid
    (9.7.13.13). That stays so: a second one has nothing to wait for.
    """
    site = change.deleted
    if site is None or change.instructions[site].event != "pdl-wait" or not change.kernel.function.entry:
        return None
    cfg = change.cfg
    for i, instruction in enumerate(change.instructions):
        if instruction.event == "pdl-wait" and instruction.guard < 0 and i != site:
            first, own = cfg.block_of[i], cfg.block_of[site]
            if (first == own and i < site) or (first != own and cfg.dominates(first, own)):
                return Proof("griddepcontrol.wait was executed before on every path", "9.7.13.13")
    return None


@proof
def no_bytes(change: Change) -> Proof | None:
    """An ``expect_tx`` of no bytes: it raises the pending count of bytes by its operand (9.7.13.15.11).

    That is a zero, or a register to which nothing but zero is moved.
    """
    site = change.deleted
    if site is None or change.instructions[site].event != "mbarrier-expect":
        return None
    operand = change.instructions[site].role("tx")
    amounts = [operand]
    if operand is not None and registers(operand):
        made = [i for i in change.instructions if not set(registers(operand)).isdisjoint(i.writes)]
        copied = [i.operands[-1] for i in made if i.match is not None and i.match.form.name == "mov"]
        amounts = [*copied] if made and len(copied) == len(made) else []
    if amounts and all(isinstance(amount, Immediate) and amount.value == 0 for amount in amounts):
        return Proof("it expects no bytes", "9.7.13.15.11")
    return None
