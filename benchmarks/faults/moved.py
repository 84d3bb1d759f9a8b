"""Instructions in the wrong order: synchronisation that comes too early, too late, or twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from benchmarks.faults.kernel import (
    OPERATORS,
    WGMMA_WAITS,
    Fault,
    Kernel,
    Plant,
    Test,
    operator,
    touches_shared,
)
from tclint.findings.finding import Edit
from tclint.findings.spans import Span
from tclint.ir.nodes import (
    Instruction,
    Memory,
    Operand,
    registers,
    specials,
)

__all__: list[str] = []


@operator("tcgen05.wait::ld moved past the arrival", "tcgen05", "TC002 TC003 TC007 TM006")
def _late_wait(kernel: Kernel) -> Iterator[Fault]:
    """The wait comes, but after another thread was notified that the tensor memory is free."""
    for site in kernel.sites("wait", "tcgen05.ld"):
        for i in range(site + 1, min(site + 400, len(kernel.instructions))):
            instruction = kernel.instructions[i]
            if instruction.event == "wait" and instruction.group == "tcgen05.ld":
                break
            if instruction.event == "mbarrier-arrive":
                end = kernel.span(i).end
                moved = Edit(Span(end, end), " " + " ".join(kernel.text(site).split()))
                yield Fault((kernel.blank(site), moved), kernel.of_group("tcgen05.ld") | {i}, kernel.text(i))
                break


def _swaps(group: str, use: Callable[[Kernel], Test], places: Callable[[Kernel], frozenset[int]]) -> Plant:
    """The wait follows the first use of what it waits for, instead of preceding it."""

    def plant(kernel: Kernel) -> Iterator[Fault]:
        uses = use(kernel)
        for site in kernel.sites("wait", group):
            for i in range(site + 1, len(kernel.instructions)):
                instruction = kernel.instructions[i]
                if instruction.flow or (instruction.event == "wait" and instruction.group == group):
                    break
                if uses(instruction):
                    if edits := kernel.move(site, after=i):
                        yield Fault(
                            edits, places(kernel) | {i}, f"{kernel.flat(site)} after {kernel.text(i)[:60]}"
                        )
                    break

    return plant


def _reads_results(group: str) -> Callable[[Kernel], Test]:
    """Reading a register that an operation of the group writes."""

    def use(kernel: Kernel) -> Test:
        results: set[int] = set()
        for site in kernel.sites("issue", group):
            instruction = kernel.instructions[site]
            assert instruction.match is not None
            for name in instruction.match.form.async_writes:
                operand = None if name.startswith("*") else instruction.named(name)
                results.update(registers(operand) if operand is not None else ())
        return lambda i: not results.isdisjoint(i.reads) and i.group != group

    return use


def _signals_others(kernel: Kernel) -> Test:
    """Using tensor memory, or signalling to other threads that they may."""
    events = ("issue", "barrier-sync", "barrier-arrive", "mbarrier-arrive", "tcgen05-fence-before")
    groups = ("", "none", "cluster", "mbarrier", "tcgen05", "tcgen05.ld")
    return lambda i: i.event in events and i.group in groups


def _members(*names: str) -> Callable[[Kernel], frozenset[int]]:
    return lambda kernel: frozenset().union(*(kernel.of_group(name) for name in names))


for _name, _family, _group_name, _use, _rules in (
    ("wgmma.wait_group", "wgmma", "wgmma", _reads_results("wgmma"), WGMMA_WAITS),
    ("cp.async.wait", "cp.async", "cp.async", touches_shared("read"), "CA001 CA003"),
    ("bulk wait_group", "bulk", "bulk", touches_shared("write"), "BK002 BK003 MB016"),
    ("tcgen05.wait::ld", "tcgen05", "tcgen05.ld", _reads_results("tcgen05.ld"), "TC002 TC007 TC011"),
    ("tcgen05.wait::st", "tcgen05", "tcgen05.st", _signals_others, "TC002 TC004"),
):
    operator(f"{_name} after the use", _family, _rules)(_swaps(_group_name, _use, _members(_group_name)))


@operator("mbarrier wait after the use", "mbarrier", "BK001 TC001 MB001 MB016")
def _use_before_wait(kernel: Kernel) -> Iterator[Fault]:
    """What the wait is for is read in front of it; what has been read before anyway is not what it is for."""
    reads_shared = touches_shared("read")(kernel)
    first: dict[Operand, int] = {}
    for i, instruction in enumerate(kernel.instructions):
        if reads_shared(instruction):
            for operand in instruction.operands:
                first.setdefault(operand, i)
    for site in kernel.sites("mbarrier-wait"):
        written: set[int] = set()
        for i in range(site, min(site + 60, len(kernel.instructions))):
            instruction = kernel.instructions[i]
            if i > site and instruction.event in ("mbarrier-wait", "barrier-sync"):
                break
            if instruction.group == "tcgen05.ld" or reads_shared(instruction):
                again = any(isinstance(o, Memory) and first.get(o, i) < site for o in instruction.operands)
                edits = () if again else kernel.move_up(i, before=site)
                if edits and written.isdisjoint((*instruction.reads, instruction.guard)):
                    places = kernel.of_group("tcgen05") | kernel.of_group("tcgen05.ld") | {site, i}
                    yield Fault(edits, places, f"{kernel.text(i)[:60]} before {kernel.text(site)[:60]}")
                break
            written.update(instruction.writes)


@operator("mbarrier arrive before the last read", "mbarrier", "TC002 TC007 BK011 WG011 MB014 MB015 MB016")
def _arrival_before_read(kernel: Kernel) -> Iterator[Fault]:
    """A stage is given back before the last of it is read: by a load, or by a wgmma that is still to be waited for.

    Where a branch leads around the arrival, the read is moved to where the branch goes.
    """
    instructions = kernel.instructions
    reads_shared = touches_shared("read")(kernel)
    for site in kernel.sites("mbarrier-arrive"):
        arrival, follower = instructions[site], site + 1
        if arrival.role("tx") is not None:
            continue
        for i in range(site - 1, max(site - 200, -1), -1):
            instruction, between = instructions[i], instructions[i + 1 : follower]
            if instruction.flow == "branch" and instruction.guard >= 0 and follower == site + 1:
                follower = instruction.targets[0]
                if site < follower <= site + 8 and not any(x.flow for x in instructions[i + 1 : follower]):
                    continue
            if instruction.flow or instruction.event.startswith(("mbarrier", "issue")):
                break
            waits = instruction.event == "wait" and instruction.group == "wgmma"
            if waits or (instruction.event == "" and reads_shared(instruction)):
                text, end = kernel.flat(i), kernel.span(follower).start
                edits: tuple[Edit, ...] | None = None
                if _apart(instruction, between) and text:
                    edits = kernel.blank(i), Edit(Span(end, end), f"{text} ")
                elif _apart(arrival, instructions[i:site]):
                    edits = kernel.move_up(site, before=i)
                if edits:
                    places = kernel.of_group("bulk") | kernel.of_group("wgmma") | kernel.of_events("mbarrier")
                    note = f"{kernel.text(site)[:60]} before {kernel.text(i)[:60]}"
                    yield Fault(edits, places | {i, site}, note)
                break


def _apart(instruction: Instruction, others: Sequence[Instruction]) -> bool:
    """Whether an instruction has no register in common with others that one of the two writes."""
    reads, writes = {*instruction.reads, instruction.guard}, {*instruction.writes}
    return all(
        reads.isdisjoint(x.writes) and writes.isdisjoint((*x.reads, *x.writes, x.guard)) for x in others
    )


def _commits_late(group: str) -> Plant:
    """The commit follows the wait, which therefore waits for the groups before."""

    def plant(kernel: Kernel) -> Iterator[Fault]:
        for site in kernel.sites("commit", group):
            for i in range(site + 1, len(kernel.instructions)):
                instruction = kernel.instructions[i]
                if instruction.flow or (
                    instruction.event in ("issue", "commit") and instruction.group == group
                ):
                    break
                if instruction.event == "wait" and instruction.group == group:
                    if edits := kernel.move(site, after=i):
                        yield Fault(edits, kernel.of_group(group), kernel.text(i))
                    break

    return plant


operator("wgmma.commit_group after the wait", "wgmma", WGMMA_WAITS)(_commits_late("wgmma"))
operator("cp.async.commit_group after the wait", "cp.async", "CA001 CA002 CA003")(_commits_late("cp.async"))
operator("bulk commit_group after the wait", "bulk", "BK002 BK004 BK005 MB016")(_commits_late("bulk"))


def _comes_late(event: str, group: str | None, use: Test) -> Plant:
    """A fence after the operation that it should precede."""

    def plant(kernel: Kernel) -> Iterator[Fault]:
        for site in kernel.sites(event, group):
            for i in range(site + 1, len(kernel.instructions)):
                instruction = kernel.instructions[i]
                if instruction.flow or instruction.event == event:
                    break
                if use(instruction):
                    if edits := kernel.move(site, after=i):
                        yield Fault(edits, frozenset((site, i)), f"{kernel.text(site)} {kernel.text(i)[:60]}")
                    break

    return plant


def _issues(group: str) -> Test:
    return lambda i: i.event == "issue" and i.group == group


def _async_proxy(instruction: Instruction) -> bool:
    match = instruction.match
    return match is not None and match.form.event == "issue" and match.form.proxy == "async"


operator("wgmma.fence after the wgmma", "wgmma", "WG002 WG008")(
    _comes_late("register-fence", "wgmma", _issues("wgmma"))
)
operator("proxy fence after the operation", "proxy", "PR001 PR002 PR003 PR004")(
    _comes_late("proxy-fence", None, _async_proxy)
)


@operator("tcgen05.commit before the operation", "tcgen05", "TC001 TC005 TC012 TM006 MB016")
def _early_commit(kernel: Kernel) -> Iterator[Fault]:
    """The commit does not cover the last operation."""
    for site in kernel.sites("commit", "tcgen05"):
        for i in range(site - 1, -1, -1):
            instruction = kernel.instructions[i]
            if instruction.flow or (instruction.event == "commit" and instruction.group == "tcgen05"):
                break
            if _issues("tcgen05")(instruction):
                between = kernel.instructions[i:site]
                needed = {*kernel.instructions[site].reads, kernel.instructions[site].guard}
                edits = kernel.move_up(site, before=i)
                if edits and all(needed.isdisjoint(b.writes) for b in between):
                    about = kernel.of_group("tcgen05") | kernel.where(lambda m: "mbarrier" in m.form.roles)
                    yield Fault(edits, about, kernel.text(i)[:90])
                break


for _name, _other in (("ld", "st"), ("st", "ld")):

    @operator(
        f"tcgen05.wait::{_name} to ::{_other}", "tcgen05", OPERATORS[f"tcgen05.wait::{_name} deleted"].rules
    )
    def _other_wait(kernel: Kernel, name: str = _name, other: str = _other) -> Iterator[Fault]:
        for site in kernel.sites("wait", f"tcgen05.{name}"):
            edit = kernel.rewrite(site, rf"wait::{name}\b", f"wait::{other}")
            if edit:
                yield Fault((edit,), kernel.of_group(f"tcgen05.{name}") | {site}, kernel.text(site))


@operator("CTA barrier moved into a branch", "convergence", "CV001 CV002 CV014")
def _barrier_in_branch(kernel: Kernel) -> Iterator[Fault]:
    """The barrier that follows a conditional block becomes the end of that block, whose condition is not the same for all threads."""
    by_thread = _by_thread(kernel)
    for site in kernel.sites("barrier-sync"):
        barrier, text = kernel.instructions[site], kernel.flat(site)
        if not text or barrier.guard >= 0 or barrier.reads or barrier.writes or ".warp." in barrier.opcode:
            continue
        for i in range(site - 1, -1, -1):
            branch = kernel.instructions[i]
            join = branch.targets[0] if branch.targets else -1
            if branch.event == "barrier-sync" or (
                branch.flow and (branch.guard < 0 or not i + 1 < join <= site)
            ):
                break
            if branch.flow:
                last = kernel.span(join - 1)
                at = last.start if kernel.instructions[join - 1].flow else last.end
                if branch.guard in by_thread:
                    edits = (kernel.blank(site), Edit(Span(at, at), f" {text} "))
                    yield Fault(edits, kernel.of_events("barrier-") | {i, join - 1}, kernel.text(i))
                break


def _by_thread(kernel: Kernel) -> frozenset[int]:
    """The registers that may depend on which thread computes them: on its index, or on data at an address of its own."""
    found: set[int] = set()
    before = -1
    while len(found) > before:
        before = len(found)
        for instruction in kernel.instructions:
            named = {special.name.partition(".")[0] for special in specials(instruction.operands)}
            if not found.isdisjoint((*instruction.reads, instruction.guard)) or named & {"%tid", "%laneid"}:
                found.update(instruction.writes)
    return frozenset(found)
