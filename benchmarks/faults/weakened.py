"""Synchronisation that is kept and weakened: waits, counts, phases, semantics, scopes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from benchmarks.faults.kernel import (
    WGMMA_WAITS,
    Fault,
    Kernel,
    Plant,
    constant_of,
    operator,
    reads_shared,
    through_async,
    without_loop,
)
from tclint.findings.finding import Edit
from tclint.findings.spans import Span
from tclint.ir.cfg import CFG
from tclint.ir.nodes import (
    Immediate,
)

__all__: list[str] = []


def _deepens(group: str, fits: Callable[[int], bool]) -> Plant:
    """Let a wait leave one group more in flight."""

    def plant(kernel: Kernel) -> Iterator[Fault]:
        for site in kernel.sites("wait", group):
            depth = constant_of(kernel.instructions[site], "depth")
            if depth is None or not fits(depth):
                continue
            edit = kernel.rewrite(site, rf"\b{depth}(?=\s*;)", str(depth + 1))
            if edit:
                yield Fault((edit,), kernel.of_group(group), f"{kernel.text(site)} -> {depth + 1}")

    return plant


operator("wgmma.wait_group 0 to 1", "wgmma", WGMMA_WAITS)(_deepens("wgmma", lambda n: n == 0))
operator("wgmma.wait_group N to N+1", "wgmma", WGMMA_WAITS)(_deepens("wgmma", lambda n: n > 0))
operator("cp.async.wait_group N to N+1", "cp.async", "CA001 CA003")(_deepens("cp.async", lambda n: True))
operator("bulk wait_group N to N+1", "bulk", "BK002 BK004 MB016")(_deepens("bulk", lambda n: True))


@operator("bulk wait_group to .read", "bulk", "BK004")
def _weaker_bulk_wait(kernel: Kernel) -> Iterator[Fault]:
    for site in kernel.sites("wait", "bulk"):
        edit = kernel.rewrite(site, r"wait_group(?!\.read)", "wait_group.read")
        if edit:
            yield Fault((edit,), kernel.of_group("bulk"), kernel.text(site))


def _waits_once(keep: bool) -> Plant:
    """A wait on an mbarrier that is not repeated: it may come back before the phase is complete (9.7.13.15.16)."""

    def plant(kernel: Kernel) -> Iterator[Fault]:
        for site in kernel.sites("mbarrier-wait"):
            if edits := without_loop(kernel, site):
                places = (
                    reads_shared(kernel)
                    | kernel.of_events("mbarrier")
                    | kernel.of_group("tcgen05")
                    | kernel.of_group("tcgen05.ld")
                )
                yield Fault((*(() if keep else (kernel.blank(site),)), *edits), places, kernel.text(site))

    return plant


# The first is what a compiler does to a loop without side effects: a question asked ahead of it may be all that is left.
operator("mbarrier wait loop dropped", "mbarrier", "BK001 MB001 TC001 TC012 BK011 WG011 MB016 CA001")(
    _waits_once(keep=False)
)
operator("mbarrier wait asked once", "mbarrier", "MB001 MB016")(_waits_once(keep=True))


@operator("mbarrier.init count of zero", "mbarrier", "MB003")
def _no_arrivals(kernel: Kernel) -> Iterator[Fault]:
    """A count in a register, which no assembler checks."""
    for site in kernel.sites("mbarrier-init"):
        zero = ".reg .b32 %tclint_r; mov.u32 %tclint_r, 0;"
        if edit := kernel.operand(site, "count", "%tclint_r", zero):
            yield Fault((edit,), frozenset((site,)), kernel.text(site))


@operator("mbarrier.init done twice", "mbarrier", "MB009")
def _made_twice(kernel: Kernel) -> Iterator[Fault]:
    for site in kernel.sites("mbarrier-init"):
        if text := kernel.flat(site):
            end = kernel.span(site).end
            yield Fault((Edit(Span(end, end), f" {text}"),), frozenset((site, site + 1)), text)


@operator("mbarrier invalidated at once", "mbarrier", "MB009")
def _ended_at_once(kernel: Kernel) -> Iterator[Fault]:
    for site in kernel.sites("mbarrier-init"):
        edit = kernel.rewrite(site, r"\binit\b", "inval")
        text = kernel.flat(site)
        if edit and text:
            ended = re.sub(r",[^,]*$", ";", edit.text)
            places = kernel.where(lambda m: "mbarrier" in m.form.roles)
            end = kernel.span(site).end
            yield Fault((Edit(Span(end, end), f" {' '.join(ended.split())}"),), places, text)


@operator("barrier after mbarrier.init deleted", "mbarrier", "MB002 CL001 MB016")
def _unpublished(kernel: Kernel) -> Iterator[Fault]:
    """No barrier orders the initialisation of the mbarriers before other threads, on any path to the first wait."""
    inits, waits = kernel.sites("mbarrier-init"), frozenset(kernel.sites("mbarrier-wait"))
    about = kernel.where(lambda m: "mbarrier" in m.form.roles)
    barriers = kernel.where(
        lambda m: m.form.event in ("barrier-sync", "barrier-wait") and m.form.scope != "lanes"
    )
    passed = _until(kernel, inits[-1], waits) if inits else set()
    # Without a wait after it, the initialising thread may do all that follows.
    edits = tuple(kernel.blank(i) for i in sorted(barriers & passed))
    if edits and not waits.isdisjoint(passed):
        yield Fault(edits, about, kernel.text(inits[-1]))


def _until(kernel: Kernel, start: int, ends: frozenset[int]) -> set[int]:
    """The instructions that may be executed after *start*, up to and including the first of *ends* on each path."""
    cfg = CFG(kernel.function)
    found, seen = set[int](), set[int]()
    work = [(cfg.block_of[start], start + 1)]
    while work:
        block, begin = work.pop()
        for i in range(begin, cfg.blocks[block].end):
            found.add(i)
            if i in ends:
                break
        else:
            following = {e.target for e in cfg.successors[block]} - seen
            seen |= following
            work += [(target, cfg.blocks[target].start) for target in following]
    return found


@operator("fence after mbarrier.init deleted", "mbarrier", "MB002")
def _unordered(kernel: Kernel) -> Iterator[Fault]:
    """A relaxed arrival at the cluster barrier publishes nothing by itself; one that releases before it would."""
    inits = kernel.sites("mbarrier-init")
    relaxed = kernel.where(lambda m: m.form.event == "barrier-arrive" and ".relaxed" in m.modifiers)
    fences = kernel.sites("memory-fence") + kernel.sites("proxy-fence")
    arrivals = kernel.sites("barrier-arrive", "cluster")
    first = min((i for i in arrivals if inits and i > inits[-1]), default=-1)
    if first not in relaxed:
        return
    edits = tuple(kernel.blank(i) for i in fences if inits and inits[0] < i < first)
    if edits:
        about = kernel.where(lambda m: "mbarrier" in m.form.roles)
        yield Fault(edits, about, kernel.text(first))


@operator("mbarrier wait loop inverted", "mbarrier", "MB001")
def _inverted(kernel: Kernel) -> Iterator[Fault]:
    """The loop exits while the phase is not complete, and repeats when it is."""
    for site in kernel.sites("mbarrier-wait"):
        derived = set(kernel.instructions[site].writes)
        for i in range(site + 1, min(site + 4, len(kernel.instructions))):
            branch = kernel.instructions[i]
            if branch.flow == "branch" and branch.guard in derived and without_loop(kernel, site):
                edit = kernel.inverted(i)
                if edit:
                    yield Fault((edit,), frozenset((site, i)), kernel.text(i))
                break


def _alters(event: str, role: str, delta: int) -> Plant:
    """Another number of bytes or arrivals: *delta* more, in a register too. A count stays positive."""

    def plant(kernel: Kernel) -> Iterator[Fault]:
        for site in kernel.sites(event):
            operand = kernel.instructions[site].role(role)
            edit = None
            if isinstance(operand, Immediate) and isinstance(operand.value, int):
                if operand.value + min(delta, 0) > 0:
                    edit = kernel.operand(site, role, str(operand.value + delta))
            elif isinstance(operand, int):
                add = f".reg .b32 %tclint_r; add.s32 %tclint_r, {{}}, {delta};"
                edit = kernel.operand(site, role, "%tclint_r", add)
            if edit:
                places = kernel.of_events("mbarrier") | kernel.of_group("mbarrier") | {site}
                yield Fault((edit,), places, f"{kernel.text(site)[:90]} {role} {delta:+}")

    return plant


for _event, _how in (("mbarrier-expect", "expect_tx"), ("mbarrier-arrive", "arrive.expect_tx")):
    operator(f"{_how} too few bytes", "mbarrier", "MB004 MB016")(_alters(_event, "tx", -16))
    operator(f"{_how} too many bytes", "mbarrier", "MB004 MB016")(_alters(_event, "tx", 16))
operator("mbarrier.init count raised", "mbarrier", "MB006 MB008 MB016")(_alters("mbarrier-init", "count", 1))
operator("mbarrier.init count lowered", "mbarrier", "MB003 MB006 MB008 MB016")(
    _alters("mbarrier-init", "count", -1)
)
operator("mbarrier arrive count raised", "mbarrier", "MB003 MB006 MB008 MB016")(
    _alters("mbarrier-arrive", "count", 1)
)


@operator("mbarrier wait parity flipped", "mbarrier", "BK001 TC001 MB006 MB007 MB016")
def _flip_parity(kernel: Kernel) -> Iterator[Fault]:
    """The wait is for the previous phase, which is complete, or for the next one."""
    for site in kernel.sites("mbarrier-wait"):
        operand = kernel.instructions[site].role("parity")
        if isinstance(operand, Immediate) and isinstance(operand.value, int):
            edit = kernel.operand(site, "parity", str(1 - (operand.value & 1)))
        else:
            flip = ".reg .b32 %tclint_r; xor.b32 %tclint_r, {}, 1;"
            edit = kernel.operand(site, "parity", "%tclint_r", flip)
        if edit:
            places = kernel.of_events("mbarrier") | kernel.of_group("tcgen05") | kernel.of_group("tcgen05.ld")
            yield Fault((edit,), places | reads_shared(kernel), kernel.text(site)[:90])


def _relaxes(event: str) -> Plant:
    """An mbarrier operation without the ordering of memory that it has by default (9.7.13.15.13, .16)."""

    def plant(kernel: Kernel) -> Iterator[Fault]:
        target, version = kernel.function.target, kernel.function.version
        for site in kernel.sites(event):
            match = kernel.instructions[site].match
            assert match is not None
            relaxed = [r.available for r in match.form.requires if r.when == {".relaxed"}]
            if target is None or not relaxed or ".relaxed" in match.modifiers:
                continue
            if not all(a.on(target) and a.version_for(target) <= version for a in relaxed):
                continue
            edit = kernel.rewrite(site, r"\.(acquire|release)\b", ".relaxed") or kernel.rewrite(
                site, r"(?=(\.shared(::\w+)?)?\.b64)", ".relaxed.cta"
            )
            if edit:
                yield Fault((edit,), kernel.of_events("mbarrier"), kernel.text(site)[:90])

    return plant


operator("mbarrier wait relaxed", "mbarrier", "MB013 MB016")(_relaxes("mbarrier-wait"))
operator("mbarrier arrive relaxed", "mbarrier", "MB013 MB016")(_relaxes("mbarrier-arrive"))


def _doubles(event: str, about: str, group: str | None = None) -> Plant:
    """The same instruction a second time."""

    def plant(kernel: Kernel) -> Iterator[Fault]:
        for site in kernel.sites(event, group):
            end, text = kernel.span(site).end, kernel.flat(site)
            if text:
                yield Fault((Edit(Span(end, end), f" {text}"),), kernel.of_events(about), text[:90])

    return plant


operator("mbarrier arrive doubled", "mbarrier", "MB004 MB006 MB008 MB016")(
    _doubles("mbarrier-arrive", "mbarrier")
)
operator("cluster arrival doubled", "barrier", "CL001")(_doubles("barrier-arrive", "barrier-", "cluster"))
operator("tcgen05.dealloc doubled", "tcgen05", "TM003")(_doubles("tmem-dealloc", "tmem-"))


@operator("proxy fence narrowed", "proxy", "PR001 PR002 PR004")
def _narrow_fence(kernel: Kernel) -> Iterator[Fault]:
    """To a state space that is another one than the fence was about."""
    for site in kernel.sites("proxy-fence"):
        match = kernel.instructions[site].match
        assert match is not None
        other = ".shared::cta" if match.space == ".global" else ".global"
        if ".async" in match.modifiers and match.form.space:
            edit = kernel.rewrite(site, r"(fence\.proxy\.async)(\.[\w:]+)?(?=\s*;)", rf"\1{other}")
            if edit:
                yield Fault((edit,), through_async(kernel) | {site}, f"{kernel.text(site)} -> {other}")


def _narrows(fences: bool) -> Plant:
    """A scope that includes only the threads of one CTA, of fences or of accesses to global memory."""

    def plant(kernel: Kernel) -> Iterator[Fault]:
        fence = frozenset(kernel.sites("memory-fence"))
        about = fence | kernel.where(lambda m: bool(m.form.memory) and not m.space.startswith(".shared"))
        for site in sorted(fence if fences else about - fence):
            edit = kernel.rewrite(site, r"\.(gpu|gl|sys)\b", ".cta")
            if edit:
                yield Fault((edit,), about, f"{kernel.text(site)[:90]} -> {edit.text[:90]}")

    return plant


operator("fence scope narrowed", "memory", "MO003 MO005")(_narrows(fences=True))
operator("access scope narrowed", "memory", "MO003 MO005 MO010")(_narrows(fences=False))
