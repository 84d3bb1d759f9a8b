"""Faults to plant in real kernels: one change each, where the ISA table says what an instruction means.

An operator looks at one function and yields every place at which its fault can be planted. It knows events, groups and
roles of the table, never opcodes, so a new instruction is covered by its form. Nothing here decides whether tclint
should find the fault: that a change is harmless after all is shown by :mod:`benchmarks.mutation`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from tclint.findings.finding import Edit
from tclint.findings.spans import Span
from tclint.ir.cfg import CFG
from tclint.ir.nodes import (
    Function,
    Immediate,
    Instruction,
    Memory,
    Module,
    Operand,
    Symbol,
    Vector,
    registers,
)
from tclint.isa.forms import Match
from tclint.isa.target import FAMILIES, INTRODUCED, Target, dotted

__all__ = ["OPERATORS", "Fault", "Kernel", "Operator", "Plant", "apply"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One change: the text edits, and the instructions at which a finding about it is in the right place."""

    edits: tuple[Edit, ...]
    places: frozenset[int]
    """Instruction indices of the function; empty: anywhere in the module's header."""
    note: str


@dataclass(frozen=True, slots=True)
class Operator:
    """A kind of fault, and the rules that are about it."""

    name: str
    family: str
    rules: frozenset[str]
    """A finding of any other rule does not count as found. Empty: no rule of tclint is about it yet. MB016 stands for
    all that a replay shows, whatever the hazard."""
    plant: Callable[[Kernel], Iterator[Fault]]


class Kernel:
    """One function of a module, with what the operators ask of it."""

    def __init__(self, data: bytes, module: Module, function: Function) -> None:
        self.data = data
        self.module = module
        self.function = function
        self.instructions = function.instructions

    def where(self, test: Callable[[Match], bool]) -> frozenset[int]:
        """Every instruction whose entry in the ISA table passes *test*."""
        uses = (use for use in self.function.uses if use.match is not None and test(use.match))
        return frozenset(i for use in uses for i in use.sites)

    def sites(self, event: str, group: str | None = None) -> list[int]:
        """The instructions of that event (and group), in the order of the text."""
        return sorted(self.where(lambda m: m.form.event == event and group in (None, m.form.group)))

    def of_group(self, group: str) -> frozenset[int]:
        """Every instruction of a completion group."""
        return self.where(lambda m: m.form.group == group)

    def of_events(self, prefix: str) -> frozenset[int]:
        """Every instruction whose event begins with *prefix*."""
        return self.where(lambda m: m.form.event.startswith(prefix))

    def span(self, site: int) -> Span:
        instruction = self.instructions[site]
        return Span(self.function.start + instruction.start, self.function.start + instruction.end)

    @cached_property
    def digest(self) -> str:
        """What distinguishes the file from another version of it: the beginning of its SHA-256."""
        return sha256(self.data).hexdigest()[:16]

    @cached_property
    def _breaks(self) -> list[int]:
        return [match.start() for match in re.finditer(rb"\n", self.data)]

    def line(self, offset: int) -> int:
        """The line of a byte of the file, from 1."""
        return bisect_left(self._breaks, offset) + 1

    def text(self, site: int) -> str:
        span = self.span(site)
        return self.data[span.start : span.end].decode()

    def blank(self, site: int) -> Edit:
        """Take the instruction away and leave every other one on its line."""
        return Edit(self.span(site), re.sub(r"[^\n]", " ", self.text(site)))

    def rewrite(self, site: int, pattern: str, replacement: str) -> Edit | None:
        """Replace the first match of *pattern* in an instruction; None when there is none."""
        text = self.text(site)
        changed = re.sub(pattern, replacement, text, count=1)
        return Edit(self.span(site), changed) if changed != text else None

    def flat(self, site: int) -> str | None:
        """The text of an instruction on one line; None when it has a comment, which would swallow what follows."""
        text = self.text(site)
        return None if "//" in text or "/*" in text else " ".join(text.split())

    def move(self, site: int, after: int) -> tuple[Edit, ...] | None:
        """Take an instruction away and put it after another one."""
        text, end = self.flat(site), self.span(after).end
        return (self.blank(site), Edit(Span(end, end), f" {text}")) if text else None

    def move_up(self, site: int, before: int) -> tuple[Edit, ...] | None:
        """Take an instruction away and put it in front of another one; not out of the scope of its own registers."""
        text, start = self.flat(site), self.span(before).start
        depth = least = 0
        for brace in re.findall(rb"[{}]", self.data[start : self.span(site).start]):
            depth += 1 if brace == b"{" else -1
            least = min(least, depth)
        if depth > least:
            return None
        return (self.blank(site), Edit(Span(start, start), f"{text} ")) if text else None

    def operand(self, site: int, role: str, new: str, prologue: str = "") -> Edit | None:
        """Put *new* in place of the operand that plays *role*; ``{}`` in both texts is what was there.

        *prologue* is executed before. None when nothing plays the role, or when the instruction is not on one line.
        """
        instruction, text = self.instructions[site], self.text(site)
        match = instruction.match
        at = match.named.get(match.form.roles.get(role, "")) if match else None
        head = re.match(r"(@!?[\w%$]+\s+)?[\w.:]+\s+", text)
        if at is None or head is None or self.flat(site) is None or "\n" in text:
            return None
        operands = re.findall(r"(?:\{[^}]*\}|\[[^\]]*\]|[^,{\[])+", text[head.end() :].rstrip("; \t"))
        if at >= len(operands):
            return None
        old = operands[at].strip()
        operands[at] = new.format(old)
        changed = f"{head[0]}{', '.join(o.strip() for o in operands)};"
        return Edit(self.span(site), f"{{ {prologue.format(old)} {changed} }}" if prologue else changed)


def apply(data: bytes, edits: tuple[Edit, ...]) -> bytes:
    """*data* with the edits made. Line numbers stay: an edit that changes them is an AssertionError."""
    for edit in sorted(edits, key=lambda e: e.span.start, reverse=True):
        old, new = data[edit.span.start : edit.span.end], edit.text.encode()
        assert old.count(b"\n") == new.count(b"\n"), (old, new)
        data = data[: edit.span.start] + new + data[edit.span.end :]
    return data


# ---------------------------------------------------------------- operators

Plant = Callable[[Kernel], Iterator[Fault]]
OPERATORS: dict[str, Operator] = {}


def operator(name: str, family: str, rules: str | frozenset[str]) -> Callable[[Plant], Plant]:
    """Register a function as the operator *name*; *rules* are those that are about its fault."""

    def register(plant: Plant) -> Plant:
        assert name not in OPERATORS, name
        about = frozenset(rules.split()) if isinstance(rules, str) else rules
        OPERATORS[name] = Operator(name, family, about, plant)
        return plant

    return register


def _of_peers(kernel: Kernel) -> frozenset[int]:
    """What may touch the shared memory of another CTA."""
    return kernel.where(lambda match: match.space == ".shared::cluster" or "mask" in match.form.roles)


def _ordered(kernel: Kernel) -> frozenset[int]:
    """What a barrier may order: accesses to shared memory, copies there, and arrivals that speak for other threads."""
    return kernel.where(
        lambda m: (
            bool(m.form.memory and m.space.startswith(".shared"))
            or m.form.group == "cp.async"
            or m.form.event == "mbarrier-arrive"
        )
    )


def _through_async(kernel: Kernel) -> frozenset[int]:
    """What a proxy fence may order: operations through the async proxy, and accesses by tensor maps."""
    return kernel.where(lambda m: m.form.proxy == "async" or "tensormap" in m.form.roles)


def _deletes(event: str, group: str | None = None) -> Plant:
    """Take one instruction of that event and group away; the group ``lanes`` is that of barriers of a warp."""

    def plant(kernel: Kernel) -> Iterator[Fault]:
        lanes = kernel.where(lambda m: m.form.event == "barrier-sync" and m.form.scope == "lanes")
        sites = sorted(lanes) if group == "lanes" else kernel.sites(event, group)
        if event == "pdl-wait" and len(sites) == 1:
            return  # whether a kernel without any is launched as a dependent is not in its text (9.7.13.13)
        for site in sites:
            if group != "lanes" and site in lanes:
                continue
            if event.startswith("tcgen05-fence"):
                about = kernel.where(lambda m: m.form.family in ("tcgen05", "mbarrier", "barrier"))
            elif event.startswith("barrier"):
                about = kernel.of_events("barrier-") | kernel.of_events("tmem-")
                about |= (
                    _of_peers(kernel) | _ordered(kernel) | kernel.where(lambda m: "mbarrier" in m.form.roles)
                )
            elif event == "pdl-wait":
                about = kernel.of_events("pdl-") | kernel.where(
                    lambda m: bool(m.form.memory) or "tensormap" in m.form.roles
                )
            elif event == "proxy-fence":
                about = _through_async(kernel)
            elif event.startswith("mbarrier"):
                about = kernel.where(lambda m: "mbarrier" in m.form.roles)
            else:
                about = kernel.of_group(group) if group else kernel.of_events("tmem-")
                if group == "tcgen05":  # a commit arrives on an mbarrier
                    about |= kernel.where(lambda m: "mbarrier" in m.form.roles)
            yield Fault((kernel.blank(site),), about | {site}, kernel.text(site))

    return plant


for _name, _family, _event, _group, _rules in (
    ("wgmma.wait_group deleted", "wgmma", "wait", "wgmma", "WG001 WG003 WG004 WG005 WG007 WG011 MB016"),
    ("wgmma.commit_group deleted", "wgmma", "commit", "wgmma", "WG001 WG003 WG004 WG005 WG007 WG011 MB016"),
    ("wgmma.fence deleted", "wgmma", "register-fence", "wgmma", "WG002 WG008"),
    ("tcgen05.wait::ld deleted", "tcgen05", "wait", "tcgen05.ld", "TC002 TC003 TC007 TC011 TM006"),
    ("tcgen05.wait::st deleted", "tcgen05", "wait", "tcgen05.st", "TC002 TC004 TM006"),
    ("tcgen05.commit deleted", "tcgen05", "commit", "tcgen05", "TC001 TC005 TC012 TM006 MB006 MB016"),
    ("tcgen05.alloc deleted", "tcgen05", "tmem-alloc", None, "TM001 TM003 TM008"),
    ("tcgen05.dealloc deleted", "tcgen05", "tmem-dealloc", None, "TM001"),
    ("cp.async.commit_group deleted", "cp.async", "commit", "cp.async", "CA001 CA002 CA003"),
    ("cp.async.wait deleted", "cp.async", "wait", "cp.async", "CA001 CA003"),
    ("bulk commit_group deleted", "bulk", "commit", "bulk", "BK002 BK004 BK005 MB016"),
    ("bulk wait_group deleted", "bulk", "wait", "bulk", "BK002 BK004 MB016"),
    ("proxy fence deleted", "proxy", "proxy-fence", None, "PR001 PR002 PR003 PR004"),
    ("mbarrier.init deleted", "mbarrier", "mbarrier-init", None, "MB009 MB002"),
    ("expect_tx deleted", "mbarrier", "mbarrier-expect", None, "MB004 MB005 MB006 MB016"),
    (
        "mbarrier arrive deleted",
        "mbarrier",
        "mbarrier-arrive",
        None,
        "MB004 MB005 MB006 MB016 BK011 WG011 TC012",
    ),
    (
        "CTA barrier deleted",
        "barrier",
        "barrier-sync",
        None,
        "TM008 TM006 BK003 SM001 SM002 CA005 PR005 MB014 MB015 MB002 MB016",
    ),
    ("warp barrier deleted", "barrier", "barrier-sync", "lanes", "SM002 MB014 MB015 MB002 TM008 BK003 PR005"),
    ("griddepcontrol.wait deleted", "pdl", "pdl-wait", None, "GD001 GD002"),
    ("tcgen05.fence::before deleted", "tcgen05", "tcgen05-fence-before", None, "TC014"),
    ("tcgen05.fence::after deleted", "tcgen05", "tcgen05-fence-after", None, "TC013"),
    ("memory fence deleted", "memory", "memory-fence", None, ""),
    (
        "cluster barrier deleted",
        "barrier",
        "barrier-wait",
        None,
        "TM008 TM006 TM011 CL001 CL002 SM001 PR005 MB002",
    ),
    ("cluster arrival deleted", "barrier", "barrier-arrive", "cluster", "CL001"),
):
    operator(_name, _family, _rules)(_deletes(_event, _group))


def _number(instruction: Instruction, role: str) -> int | None:
    operand = instruction.role(role)
    return operand.value if isinstance(operand, Immediate) and isinstance(operand.value, int) else None


def _deepens(group: str, fits: Callable[[int], bool]) -> Plant:
    """Let a wait leave one group more in flight."""

    def plant(kernel: Kernel) -> Iterator[Fault]:
        for site in kernel.sites("wait", group):
            depth = _number(kernel.instructions[site], "depth")
            if depth is None or not fits(depth):
                continue
            edit = kernel.rewrite(site, rf"\b{depth}(?=\s*;)", str(depth + 1))
            if edit:
                yield Fault((edit,), kernel.of_group(group), f"{kernel.text(site)} -> {depth + 1}")

    return plant


_WGMMA_WAITS = "WG001 WG003 WG004 WG005 WG007 WG011 MB016"
operator("wgmma.wait_group 0 to 1", "wgmma", _WGMMA_WAITS)(_deepens("wgmma", lambda n: n == 0))
operator("wgmma.wait_group N to N+1", "wgmma", _WGMMA_WAITS)(_deepens("wgmma", lambda n: n > 0))
operator("cp.async.wait_group N to N+1", "cp.async", "CA001 CA003")(_deepens("cp.async", lambda n: True))
operator("bulk wait_group N to N+1", "bulk", "BK002 BK004 MB016")(_deepens("bulk", lambda n: True))


@operator("bulk wait_group to .read", "bulk", "BK004")
def _weaker_bulk_wait(kernel: Kernel) -> Iterator[Fault]:
    for site in kernel.sites("wait", "bulk"):
        edit = kernel.rewrite(site, r"wait_group(?!\.read)", "wait_group.read")
        if edit:
            yield Fault((edit,), kernel.of_group("bulk"), kernel.text(site))


def _loop(kernel: Kernel, site: int) -> list[Edit]:
    """What takes away the branches that repeat the wait at *site*; empty when there is no loop."""
    derived = set(kernel.instructions[site].writes)
    edits: list[Edit] = []
    loops = False
    for i in range(site + 1, min(site + 9, len(kernel.instructions))):
        instruction = kernel.instructions[i]
        if instruction.flow == "branch":
            returns = any(0 <= t <= site for t in instruction.targets)
            if instruction.guard in derived or (edits and instruction.guard < 0 and returns):
                edits.append(kernel.blank(i))
                loops = returns
                if returns:
                    break
            else:
                break
        elif derived.intersection(instruction.reads):
            derived |= set(instruction.writes)
        elif instruction.flow:
            break
    return edits if loops else []  # a look ahead may leave a loop out, and repeats nothing


def _waits_once(keep: bool) -> Plant:
    """A wait on an mbarrier that is not repeated: it may come back before the phase is complete (9.7.13.15.16)."""

    def plant(kernel: Kernel) -> Iterator[Fault]:
        for site in kernel.sites("mbarrier-wait"):
            if edits := _loop(kernel, site):
                places = (
                    _reads_shared(kernel)
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


@operator("barrier after mbarrier.init deleted", "mbarrier", "MB002 CL001")
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
    """A relaxed arrival at the cluster barrier publishes nothing by itself."""
    inits = kernel.sites("mbarrier-init")
    relaxed = kernel.where(lambda m: m.form.event == "barrier-arrive" and ".relaxed" in m.modifiers)
    fences = kernel.sites("memory-fence") + kernel.sites("proxy-fence")
    first = min((i for i in relaxed if inits and i > inits[-1]), default=-1)
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
            if branch.flow == "branch" and branch.guard in derived and _loop(kernel, site):
                edit = kernel.rewrite(i, r"@(!?)", "@" if branch.negated else "@!")
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
            yield Fault((edit,), places | _reads_shared(kernel), kernel.text(site)[:90])


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
                yield Fault((edit,), _through_async(kernel) | {site}, f"{kernel.text(site)} -> {other}")


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


Test = Callable[[Instruction], bool]


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


def _touches_shared(how: str) -> Callable[[Kernel], Test]:
    """Reading or writing shared memory, now or by an asynchronous operation."""

    def test(instruction: Instruction) -> bool:
        match = instruction.match
        if match is None or instruction.event.startswith("mbarrier"):
            return False
        if match.form.group in ("wgmma", "tcgen05") and match.form.event == "issue":
            return how == "read" and any(name.endswith("-desc") for name in match.named)
        return match.space.startswith(".shared") and any(what == how for what, _ in match.form.memory)

    return lambda kernel: test


def _reads_shared(kernel: Kernel) -> frozenset[int]:
    """Every instruction that reads shared memory, copies from there included."""
    reads = _touches_shared("read")(kernel)
    return frozenset(i for i, x in enumerate(kernel.instructions) if reads(x)) | kernel.of_group("bulk")


def _signals_others(kernel: Kernel) -> Test:
    """Using tensor memory, or signalling to other threads that they may."""
    events = ("issue", "barrier-sync", "barrier-arrive", "mbarrier-arrive", "tcgen05-fence-before")
    groups = ("", "none", "cluster", "mbarrier", "tcgen05", "tcgen05.ld")
    return lambda i: i.event in events and i.group in groups


def _members(*names: str) -> Callable[[Kernel], frozenset[int]]:
    return lambda kernel: frozenset().union(*(kernel.of_group(name) for name in names))


for _name, _family, _group_name, _use, _rules in (
    ("wgmma.wait_group", "wgmma", "wgmma", _reads_results("wgmma"), _WGMMA_WAITS),
    ("cp.async.wait", "cp.async", "cp.async", _touches_shared("read"), "CA001 CA003"),
    ("bulk wait_group", "bulk", "bulk", _touches_shared("write"), "BK002 BK003 MB016"),
    ("tcgen05.wait::ld", "tcgen05", "tcgen05.ld", _reads_results("tcgen05.ld"), "TC002 TC007 TC011"),
    ("tcgen05.wait::st", "tcgen05", "tcgen05.st", _signals_others, "TC002 TC004"),
):
    operator(f"{_name} after the use", _family, _rules)(_swaps(_group_name, _use, _members(_group_name)))


@operator("mbarrier wait after the use", "mbarrier", "BK001 TC001 MB001 MB016")
def _use_before_wait(kernel: Kernel) -> Iterator[Fault]:
    """What the wait is for is read in front of it; what has been read before anyway is not what it is for."""
    reads_shared = _touches_shared("read")(kernel)
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
    reads_shared = _touches_shared("read")(kernel)
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


operator("wgmma.commit_group after the wait", "wgmma", _WGMMA_WAITS)(_commits_late("wgmma"))
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


@operator("cta_group flipped", "tcgen05", "TC006")
def _flip_cta_group(kernel: Kernel) -> Iterator[Fault]:
    # A bulk copy with another group than the MMAs is none: it only says whose mbarriers may be signalled (9.7.9.27.1.2).
    pairs = sorted(kernel.where(lambda m: bool(m.binding.get("cta_group")) and m.form.family == "tcgen05"))
    for site in pairs if len(pairs) > 1 else ():
        text = kernel.text(site)
        other = "2" if "cta_group::1" in text else "1"
        edit = kernel.rewrite(site, r"cta_group::[12]", f"cta_group::{other}")
        if edit:
            yield Fault((edit,), frozenset(pairs), text)


@operator("tcgen05.alloc doubled", "tcgen05", "TM001 TM003 TM005")
def _twice_allocated(kernel: Kernel) -> Iterator[Fault]:
    for site in kernel.sites("tmem-alloc"):
        end = kernel.span(site).end
        again = Edit(Span(end, end), " " + " ".join(kernel.text(site).split()))
        yield Fault((again,), frozenset(kernel.sites("tmem-alloc")), kernel.text(site))


def _resizes(event: str, grow: bool = False) -> Plant:
    """Another number of columns for one of alloc and dealloc; twice as many if it is to *grow*."""

    def plant(kernel: Kernel) -> Iterator[Fault]:
        for site in kernel.sites(event):
            columns = _number(kernel.instructions[site], "columns")
            if columns is None:
                continue
            other = columns * 2 if grow or columns == 32 else columns // 2
            if other > 512:
                continue
            edit = kernel.rewrite(site, rf"\b{columns}(?=\s*;)", str(other))
            if edit:
                places = frozenset((*kernel.sites("tmem-alloc"), *kernel.sites("tmem-dealloc")))
                yield Fault((edit,), places, f"{kernel.text(site)} -> {other}")

    return plant


operator("tcgen05.alloc resized", "tcgen05", "TM002 TM003 TM005 TC017")(_resizes("tmem-alloc"))
operator("tcgen05.dealloc resized", "tcgen05", "TM002 TM003")(_resizes("tmem-dealloc"))
operator("tcgen05.alloc grown", "tcgen05", "TM002 TM003 TM005")(_resizes("tmem-alloc", grow=True))
operator("tcgen05.dealloc grown", "tcgen05", "TM002 TM003")(_resizes("tmem-dealloc", grow=True))

_LANE = (
    "{{ .reg .pred %tclint_p; .reg .b32 %tclint_r; mov.u32 %tclint_r, %tid.x; and.b32 %tclint_r, %tclint_r, 31; "
    "setp.eq.u32 %tclint_p, %tclint_r, 0; {} }}"
)
_ELECT = "{{ .reg .pred %tclint_p; elect.sync _|%tclint_p, 0xffffffff; {} }}"


@operator(
    "CTA barrier to warp barrier", "barrier", "TM008 TM006 BK003 SM001 CA005 PR005 MB014 MB015 MB002 MB016"
)
def _narrow_barrier(kernel: Kernel) -> Iterator[Fault]:
    """A CTA barrier that becomes one barrier per warp."""
    for site in kernel.sites("barrier-sync"):
        match = kernel.instructions[site].match
        if match is not None and match.form.scope == "cta" and "destination" not in match.form.roles:
            edit = kernel.rewrite(site, r"\bbar(rier)?\b[^;]*;", "bar.warp.sync -1;")
            about = (
                _ordered(kernel)
                | kernel.of_events("tmem-")
                | kernel.where(lambda m: "mbarrier" in m.form.roles)
            )
            if edit:
                yield Fault((edit,), about | {site}, f"{kernel.text(site)} -> {edit.text}")


@operator("CTA barrier before the cp.async.wait", "barrier", "CA005 SM001 PR005")
def _early_barrier(kernel: Kernel) -> Iterator[Fault]:
    """A barrier that followed a wait for copies, and so released them to the other threads."""
    waits = set(kernel.sites("wait", "cp.async"))
    for site in kernel.sites("barrier-sync"):
        edits = kernel.move_up(site, site - 1) if site - 1 in waits else None
        if edits:
            yield Fault(
                edits, _ordered(kernel) | {site}, f"{kernel.text(site)} before {kernel.text(site - 1)}"
            )


def _guards(wrap: str, branch: bool) -> Plant:
    """Let one lane alone execute what the whole warp or warpgroup must."""

    def plant(kernel: Kernel) -> Iterator[Fault]:
        if wrap is _ELECT and not any(re.match(r"sm_(9|1\d)", target) for target in kernel.module.targets):
            return
        for use in kernel.function.uses:
            if use.match is None or use.match.scope not in ("warp", "warpgroup") or use.flow:
                continue
            if use.match.form.event in ("elect", "shuffle", "vote", "match", "redux"):
                continue  # these state their participants themselves
            for site in use.sites:
                text = kernel.text(site)
                if kernel.instructions[site].guard >= 0 or "//" in text or "\n" in text:
                    continue
                inner = f"@!%tclint_p bra TCLINT_L; {text} TCLINT_L:" if branch else f"@%tclint_p {text}"
                yield Fault((Edit(kernel.span(site), wrap.format(inner)),), frozenset((site,)), text)

    return plant


for _name, _wrap in (("lane", _LANE), ("elected lane", _ELECT)):
    operator(f"aligned instruction guarded by one {_name}", "convergence", "CV001 CV002")(
        _guards(_wrap, False)
    )
    operator(f"aligned instruction in a branch of one {_name}", "convergence", "CV001 CV002")(
        _guards(_wrap, True)
    )


@operator("election dropped", "convergence", "TC010 CV009 CV001 CV002 MB016")
def _everybody(kernel: Kernel) -> Iterator[Fault]:
    """What one thread must issue loses its guard or the branch before it stays: only guards are dropped."""
    for use in kernel.function.uses:
        if use.match is None or use.match.form.issued_by != "thread":
            continue
        for site in use.sites:
            edit = kernel.rewrite(site, r"@!?[\w%$]+\s+", "")
            if kernel.instructions[site].guard >= 0 and edit:
                yield Fault((edit,), frozenset((site,)), kernel.text(site))


@operator("version lowered", "arch", "AV002 AV005")
def _lower_version(kernel: Kernel) -> Iterator[Fault]:
    """One step below what an instruction of the kernel needs on its target."""
    from benchmarks.ptxas import before

    target = next((t for t in map(Target.parse, kernel.module.targets) if t), None)
    match = re.search(rb"^\s*\.version\s+(\S+)", kernel.data, re.MULTILINE)
    if target is None or match is None:
        return
    seen = set()
    for use in kernel.function.uses:
        if use.match is None or use.match.form.name in seen:
            continue
        seen.add(use.match.form.name)
        needed = use.match.form.available.version_for(target)
        lower = before(needed)
        if lower < needed and lower >= target.introduced:
            edit = Edit(Span(match.start(1), match.end(1)), dotted(lower))
            yield Fault((edit,), frozenset(), f"{use.opcode} at .version {edit.text}")


@operator("target without its suffix", "arch", "AV001 AV005")
def _plain_target(kernel: Kernel) -> Iterator[Fault]:
    match = re.search(rb"^\s*\.target\s+(sm_\d+)([af])\b", kernel.data, re.MULTILINE)
    plain = Target.parse(match[1].decode()) if match else None
    if match is None or plain is None:
        return
    version = kernel.function.version
    if kernel.where(lambda m: any(kind == "target" for kind, *_ in m.missing(plain, version))):
        yield Fault((Edit(Span(match.start(2), match.end(2)), ""),), frozenset(), match[0].decode().strip())


def _retargets(others: Callable[[Target], Iterable[str]]) -> Plant:
    """Another ``.target``, on which an instruction of the kernel does not exist (11.1.2)."""

    def plant(kernel: Kernel) -> Iterator[Fault]:
        match = re.search(rb"^\s*\.target\s+(sm_\d+[af]?)", kernel.data, re.MULTILINE)
        old = Target.parse(match[1].decode()) if match else None
        if match is None or old is None:
            return
        for name in others(old):
            new = Target.parse(name)
            assert new is not None
            if new.introduced > kernel.function.version:
                continue
            if kernel.where(lambda m, new=new: not m.form.available.on(new)):  # type: ignore[misc]
                edit = Edit(Span(match.start(1), match.end(1)), name)
                yield Fault((edit,), frozenset(), f"{old} -> {name}")
                return

    return plant


def _older(target: Target) -> Iterable[str]:
    plain = {int(n[3:]) for n in INTRODUCED if n[3:].isdigit()}
    return (f"sm_{n}" for n in sorted((n for n in plain if 70 <= n < target.number), reverse=True))


def _foreign(target: Target) -> Iterable[str]:
    """The first of the other families that have something of their own."""
    heads = ("sm_90a", "sm_100a", "sm_120a")
    home = next((f for f in FAMILIES if target.number in f), frozenset((target.number,)))
    return (h for h in heads if int(h[3:-1]) not in home and int(h[3:-1]) >= 90)


operator("target older", "arch", "AV001 AV005")(_retargets(_older))
operator("target of another family", "arch", "AV001 AV005")(_retargets(_foreign))


@operator("register undeclared", "text", "PX005")
def _undeclare(kernel: Kernel) -> Iterator[Fault]:
    """A range of registers that is one too short."""
    start, end = kernel.function.start, kernel.function.end
    for match in re.finditer(rb"\.reg\s+\.\w+\s+(%\w+?)<(\d+)>", kernel.data[start:end]):
        prefix = match[1].decode()
        used = {
            int(r.name[len(prefix) :])
            for r in kernel.function.registers
            if r.name.startswith(prefix) and r.name[len(prefix) :].isdigit()
        }
        named = {
            int(n)
            for n in re.findall(re.escape(match[1]) + rb"(\d+)\b", kernel.data[start + match.end() : end])
        }
        if numbers := sorted(used & named):
            edit = Edit(Span(start + match.start(2), start + match.end(2)), str(numbers[-1]))
            yield Fault(
                (edit,), frozenset(range(len(kernel.instructions))), f"{match[0].decode()} -> <{edit.text}>"
            )


@operator("branch target renamed", "text", "PX006")
def _rename_target(kernel: Kernel) -> Iterator[Fault]:
    for i, instruction in enumerate(kernel.instructions):
        last = instruction.operands[-1] if instruction.flow == "branch" and instruction.operands else None
        if isinstance(last, Symbol):
            edit = kernel.rewrite(i, rf"{re.escape(last.name)}(?=\s*;)", f"{last.name}_x")
            if edit:
                yield Fault((edit,), frozenset((i,)), kernel.text(i))


def _repeats(group: str, role: str) -> Plant:
    """Name the first register of a vector a second time, in place of the second one."""

    def plant(kernel: Kernel) -> Iterator[Fault]:
        for site in kernel.sites("issue", group):
            operand = kernel.instructions[site].role(role)
            numbers = registers(operand) if operand is not None else ()
            if len(numbers) > 1:
                first, second = (kernel.function.registers[r].name for r in numbers[:2])
                edit = kernel.rewrite(site, rf"{re.escape(second)}\b", first)
                if edit:
                    yield Fault((edit,), frozenset((site,)), kernel.text(site)[:90])

    return plant


operator("wgmma accumulator named twice", "wgmma", "WG006 PX003")(_repeats("wgmma", "d"))
operator("tcgen05.ld destination named twice", "tcgen05", "TC018")(_repeats("tcgen05.ld", "destination"))


def _rewrites(event: str, group: str | None, pattern: str, replacement: str) -> Plant:
    """Replace the first match of *pattern* in every instruction of that event and group."""

    def plant(kernel: Kernel) -> Iterator[Fault]:
        for site in kernel.sites(event, group):
            edit = kernel.rewrite(site, pattern, replacement)
            if edit:
                yield Fault((edit,), frozenset((site,)), f"{kernel.text(site)[:90]} -> {edit.text[:90]}")

    return plant


_FULL = r"(0x[fF]{8}|-1|4294967295)(?=\s*;)"
for _name, _family, _event, _group, _pattern, _replacement, _rules in (
    ("shuffle mask narrowed", "convergence", "shuffle", None, _FULL, "0x1f", "CV006"),
    ("vote mask narrowed", "convergence", "vote", None, _FULL, "0xffff", "CV006"),
    ("elect mask narrowed", "convergence", "elect", None, _FULL, "0xffff", "CV005 CV006"),
    ("setmaxnreg.inc to .dec", "setmaxnreg", "setmaxnreg", None, r"\.inc\b", ".dec", "CV008"),
    ("setmaxnreg.dec to .inc", "setmaxnreg", "setmaxnreg", None, r"\.dec\b", ".inc", "CV008"),
    (
        "barrier count beyond the CTA",
        "barrier",
        "barrier-sync",
        None,
        r",\s*\d+(?=\s*;)",
        ", 1024",
        "CV010 MB016",
    ),
    (
        "tcgen05.ld beyond tensor memory",
        "tcgen05",
        "issue",
        "tcgen05.ld",
        r"(\[%\w+)(\+\d+)?\]",
        r"\1+512]",
        "TC017",
    ),
    (
        "tcgen05.st beyond tensor memory",
        "tcgen05",
        "issue",
        "tcgen05.st",
        r"(\[%\w+)(\+\d+)?\]",
        r"\1+512]",
        "TC017",
    ),
    ("cp.async misaligned", "cp.async", "issue", "cp.async", r"(\[[%\w]+)(\+\d+)?\]", r"\1+2]", "CA004"),
    ("bulk copy misaligned", "bulk", "issue", "mbarrier", r"(\[[%\w]+)(\+\d+)?\]", r"\1+4]", "CA004"),
):
    operator(_name, _family, _rules)(_rewrites(_event, _group, _pattern, _replacement))


@operator("state space .shared dropped", "memory", "MO001")
def _generic(kernel: Kernel) -> Iterator[Fault]:
    """An offset into shared memory taken for a generic address; ptxas knows where a variable is that the address names."""
    for use in kernel.function.uses:
        if use.match is not None and use.match.form.memory and use.match.space.startswith(".shared"):
            for site in use.sites:
                edit = kernel.rewrite(site, r"\.shared(::cta)?\b", "")
                addresses = (o.base for o in kernel.instructions[site].operands if isinstance(o, Memory))
                if edit and not use.match.form.event and not any(isinstance(a, Symbol) for a in addresses):
                    yield Fault((edit,), frozenset((site,)), kernel.text(site))


@operator("multicast to no CTA", "bulk", "BK007")
def _empty_mask(kernel: Kernel) -> Iterator[Fault]:
    """The mask of a multicast copy names no CTA."""
    for group in ("mbarrier", "tcgen05"):
        for site in (*kernel.sites("issue", group), *kernel.sites("commit", group)):
            mask, text = kernel.instructions[site].role("mask"), kernel.text(site)
            if isinstance(mask, int) and "\n" not in text:
                name = re.escape(kernel.function.registers[mask].name)
                edit = kernel.rewrite(site, rf"\]\s*,\s*{name}\b", "], %tclint_h")
                if edit:
                    wrapped = f"{{ .reg .b16 %tclint_h; mov.b16 %tclint_h, 0; {edit.text} }}"
                    yield Fault((Edit(edit.span, wrapped),), frozenset((site,)), text[:90])


@operator("bulk load by a whole warp", "bulk", "BK006")
def _loaded_by_all(kernel: Kernel) -> Iterator[Fault]:
    """A copy loses its guard, where that alone keeps the other lanes away."""
    for site in kernel.sites("issue", "mbarrier"):
        instruction = kernel.instructions[site]
        edit = kernel.rewrite(site, r"@!?[\w%$]+\s+", "")
        copies = instruction.role("bytes") or instruction.role("tensormap")
        if instruction.guard >= 0 and copies and edit:
            yield Fault((edit,), frozenset((site,)), kernel.text(site)[:90])


def _enters(prologue: str, rules_at: Callable[[Kernel], frozenset[int]]) -> Plant:
    """Text in front of the first instruction of a kernel."""

    def plant(kernel: Kernel) -> Iterator[Fault]:
        places = rules_at(kernel)
        if kernel.function.entry and places:
            start = kernel.span(0).start
            yield Fault((Edit(Span(start, start), prologue),), places | {0, 1, 2, 3}, prologue)

    return plant


def _aligned(kernel: Kernel) -> frozenset[int]:
    return kernel.where(lambda m: m.scope in ("warp", "warpgroup"))


def _warpgroup_wide(kernel: Kernel) -> frozenset[int]:
    wgmma = kernel.of_group("wgmma")
    return wgmma | kernel.of_events("setmaxnreg") if wgmma else wgmma


_TID = "{{ .reg .pred %tclint_p; .reg .b32 %tclint_r; mov.u32 %tclint_r, %tid.x; {} @%tclint_p exit; }} "
operator("some lanes leave at the entry", "convergence", "CV003 CV001 CV004")(
    _enters(_TID.format("and.b32 %tclint_r, %tclint_r, 31; setp.ge.u32 %tclint_p, %tclint_r, 30;"), _aligned)
)
operator("part of a warpgroup leaves at the entry", "convergence", "CV004 CV001")(
    _enters(_TID.format("setp.ge.u32 %tclint_p, %tclint_r, 96;"), _warpgroup_wide)
)


@operator("address of tensor memory differs by lane", "tcgen05", "TC022")
def _own_columns(kernel: Kernel) -> Iterator[Fault]:
    for group in ("tcgen05.ld", "tcgen05.st"):
        for site in kernel.sites("issue", group):
            operand = kernel.instructions[site].role("taddr")
            numbers = registers(operand) if operand is not None else ()
            text = kernel.text(site)
            if len(numbers) != 1 or "\n" in text or kernel.instructions[site].guard >= 0:
                continue
            name = kernel.function.registers[numbers[0]].name
            own = re.sub(rf"\[{re.escape(name)}\b", "[%tclint_r", text, count=1)
            wrapped = f"{{ .reg .b32 %tclint_r; mov.u32 %tclint_r, %laneid; add.u32 %tclint_r, %tclint_r, {name}; {own} }}"
            yield Fault((Edit(kernel.span(site), wrapped),), frozenset((site,)), text)


@operator("descriptor of wgmma differs by lane", "wgmma", "WG012")
def _own_descriptor(kernel: Kernel) -> Iterator[Fault]:
    for site in kernel.sites("issue", "wgmma"):
        operand, text = kernel.instructions[site].role("b"), kernel.text(site)
        if not isinstance(operand, int) or "\n" in text:
            continue
        name = kernel.function.registers[operand].name
        own = re.sub(rf"{re.escape(name)}\b", "%tclint_d", text, count=1)
        wrapped = (
            "{ .reg .b64 %tclint_d; .reg .b32 %tclint_r; mov.u32 %tclint_r, %laneid; cvt.u64.u32 %tclint_d, %tclint_r; "
            f"add.u64 %tclint_d, %tclint_d, {name}; {own} }}"
        )
        yield Fault((Edit(kernel.span(site), wrapped),), frozenset((site,)), text[:90])


def _memory(text: str) -> str:
    """*text* with a word of memory; accesses to it are volatile, so that no compiler takes them away."""
    return f"{{ .shared .align 4 .b8 tclint_m[4]; {text} }}"


_READ = _memory("st.volatile.shared.b32 [tclint_m], <d>;")
_WRITTEN = _memory("ld.volatile.shared.b32 <d>, [tclint_m];")
_CHANGED = _memory("st.volatile.shared.b32 [tclint_m], <d>; ld.volatile.shared.b32 <d>, [tclint_m];")
_COPIED = _memory(
    ".reg .b32 %tclint_r; mov.b32 %tclint_r, <d>; st.volatile.shared.b32 [tclint_m], %tclint_r;"
)


def _meddles(text: str, where: str, role: str = "d") -> Plant:
    """Let *text* touch the first register (``<d>``) that a wgmma has in that role.

    It is placed before the wgmma, after it, or after the first commit that follows (*where*: ``before``, ``issued``,
    ``committed``).
    """

    def plant(kernel: Kernel) -> Iterator[Fault]:
        commits = kernel.sites("commit", "wgmma")
        for site in kernel.sites("issue", "wgmma"):
            operand = kernel.instructions[site].role(role)
            numbers = registers(operand) if isinstance(operand, Vector) else ()
            at = next((c for c in commits if c > site), -1) if where == "committed" else site
            if not numbers or at < 0:
                continue
            register = kernel.function.registers[numbers[0]]
            if register.type not in (".b32", ".f32", ".u32", ".s32"):
                continue
            place = kernel.span(at).start if where == "before" else kernel.span(at).end
            line = f" {text.replace('<d>', register.name)} "
            yield Fault((Edit(Span(place, place), line),), kernel.of_group("wgmma") | {at}, line.strip())

    return plant


for _name, _text, _where, _role, _rules in (
    ("accumulator read before its commit", _READ, "issued", "d", "WG001"),
    ("accumulator read after its commit", _READ, "committed", "d", "WG001"),
    ("accumulator written before its commit", _WRITTEN, "issued", "d", "WG004"),
    ("accumulator written after its commit", _WRITTEN, "committed", "d", "WG004"),
    ("accumulator changed after the fence", _CHANGED, "before", "d", "WG001 WG002 WG003"),
    ("copy of an accumulator used in flight", _COPIED, "committed", "d", "WG001"),
    ("A fragment written in flight", _WRITTEN, "committed", "a", "WG004"),
):
    operator(_name, "wgmma", _rules)(_meddles(_text, _where, _role))


def _bypassed(value: str, event: str, group: str | None = "wgmma") -> Plant:
    """Let the threads whose *value* is 0 branch around an instruction of that event and *group*."""

    def plant(kernel: Kernel) -> Iterator[Fault]:
        for site in kernel.sites(event, group):
            text = kernel.text(site)
            if kernel.instructions[site].guard < 0 and "//" not in text and "\n" not in text:
                edit = Edit(kernel.span(site), _AROUND.format(value, text))
                about = kernel.of_group(group) if group else _through_async(kernel)
                yield Fault((edit,), about, text[:90])

    return plant


_AROUND = (
    "{{ .reg .pred %tclint_p; .reg .b32 %tclint_r; mov.u32 %tclint_r, {}; setp.eq.u32 %tclint_p, %tclint_r, 0; "
    "@%tclint_p bra TCLINT_L; {} TCLINT_L: }}"
)
operator("wgmma.wait_group on some paths", "wgmma", _WGMMA_WAITS)(_bypassed("%ctaid.x", "wait"))
operator("wgmma.fence on some paths", "wgmma", "WG002")(_bypassed("%ctaid.x", "register-fence"))


@operator("store right before the operation", "proxy", "PR001 PR002 PR003 PR004")
def _stores(kernel: Kernel) -> Iterator[Fault]:
    """A store through the generic proxy to what a copy is about to read or overwrite, with the guard of the copy."""
    for site in sorted(_through_async(kernel)):
        copy = kernel.instructions[site]
        for role in ("source", "destination"):
            operand = copy.role(role)
            if not isinstance(operand, Memory) or not isinstance(operand.base, int):
                continue
            base = kernel.function.registers[operand.base]
            guard = kernel.function.registers[copy.guard].name if copy.guard >= 0 else ""
            if base.type in (".b32", ".u32", ".s32") and "{" not in kernel.text(site)[:1]:
                prefix = f"@{'!' if copy.negated else ''}{guard} " if guard else ""
                text = f" {prefix}st.shared.b32 [{base.name}+{operand.offset}], 0; "
                place = kernel.span(site).start
                yield Fault((Edit(Span(place, place), text),), _through_async(kernel), text.strip())


operator("proxy fence on some paths", "proxy", "PR001 PR002 PR003 PR004")(
    _bypassed("%ctaid.x", "proxy-fence", None)
)
operator("tcgen05.commit on some paths", "tcgen05", "TC001 TC005 TC012 TM006")(
    _bypassed("%ctaid.x", "commit", "tcgen05")
)
operator("wgmma skipped by one lane", "wgmma", "CV001 CV002")(_bypassed("%laneid", "issue"))

_CALL = (
    "{ .param .b64 tclint_a; .param .b64 tclint_b; .param .b32 tclint_c; st.param.b64 [tclint_a], 0; "
    "st.param.b64 [tclint_b], 0; call (tclint_c), vprintf, (tclint_a, tclint_b); }"
)


@operator("call while a wgmma is in flight", "wgmma", "")
def _calls(kernel: Kernel) -> Iterator[Fault]:
    """A function of the system, which no compiler sees into."""
    head = re.search(rb"^\s*\.address_size\s+\d+", kernel.data, re.MULTILINE)
    if head is None:
        return
    known = re.search(rb"\.func[^;{]*\bvprintf\b", kernel.data)
    declared = " .extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);"
    edits = () if known else (Edit(Span(head.end(), head.end()), declared),)
    for site in kernel.sites("issue", "wgmma"):
        end = kernel.span(site).end
        yield Fault(
            (*edits, Edit(Span(end, end), f" {_CALL} ")), kernel.of_group("wgmma"), kernel.text(site)[:90]
        )


@operator("tcgen05.relinquish before the allocation", "tcgen05", "TM004")
def _early_relinquish(kernel: Kernel) -> Iterator[Fault]:
    for first in kernel.sites("tmem-alloc")[:1]:
        for site in kernel.sites("tmem-relinquish")[:1]:
            start = kernel.span(first).start
            moved = Edit(Span(start, start), " ".join(kernel.text(site).split()) + " ")
            places = frozenset((*kernel.sites("tmem-alloc"), *kernel.sites("tmem-relinquish")))
            yield Fault((kernel.blank(site), moved), places, kernel.text(site))


@operator("entry register count removed", "setmaxnreg", "CV007")
def _no_entry_count(kernel: Kernel) -> Iterator[Fault]:
    sites = kernel.sites("setmaxnreg")
    pattern = rb"\.(maxnreg|maxntid|reqntid|minnctapersm)\s+[\d, ]+"
    header = kernel.data[kernel.function.start : kernel.span(0).start] if sites else b""
    found = list(re.finditer(pattern, header))
    if found:
        at = kernel.function.start
        edits = tuple(Edit(Span(at + m.start(), at + m.end()), " " * len(m[0])) for m in found)
        yield Fault(edits, frozenset(sites), header[:60].decode(errors="replace"))


@operator("cluster of three CTAs", "tcgen05", "TM010")
def _odd_cluster(kernel: Kernel) -> Iterator[Fault]:
    """Pairs of CTAs need an even number of them."""
    pairs = kernel.where(lambda m: m.binding.get("cta_group", "").endswith("2"))
    header = kernel.data[kernel.function.start : kernel.span(0).start] if pairs else b""
    match = re.search(rb"\.reqnctapercluster\s+[\d, ]+", header)
    if match:
        start = kernel.function.start
        edit = Edit(Span(start + match.start(), start + match.end()), ".reqnctapercluster 3 ")
        yield Fault((edit,), pairs, match[0].decode().strip())


@operator("cluster barrier and its arrival deleted", "barrier", "CL002 TM008 TM006 TM011 SM001 PR005 MB002")
def _no_cluster_barrier(kernel: Kernel) -> Iterator[Fault]:
    """All threads continue without the other CTAs: the wait and the arrival before it are gone."""
    about = _of_peers(kernel) | kernel.of_events("tmem-") | kernel.where(lambda m: "mbarrier" in m.form.roles)
    arrivals = kernel.sites("barrier-arrive", "cluster")
    for site in kernel.sites("barrier-wait", "cluster"):
        before = [i for i in arrivals if i < site]
        if before:
            yield Fault((kernel.blank(before[-1]), kernel.blank(site)), about | {site}, kernel.text(site))


@operator("barrier thread count raised", "barrier", "CV010 CV011 MB016")
def _too_many_threads(kernel: Kernel) -> Iterator[Fault]:
    """A named barrier waits for one warp more than arrives, or receives one arrival more than it waits for."""
    for event in ("barrier-sync", "barrier-arrive"):
        for site in kernel.sites(event):
            number = _number(kernel.instructions[site], "count")
            edit = kernel.operand(site, "count", str(number + 32)) if number else None
            if edit:
                yield Fault((edit,), kernel.of_events("barrier-"), kernel.text(site))


@operator("setmaxnreg asks for more", "setmaxnreg", "CV012 CV008")
def _more_registers(kernel: Kernel) -> Iterator[Fault]:
    """A .inc to 16 registers more than the other warps leave."""
    for site in kernel.sites("setmaxnreg"):
        match, number = kernel.instructions[site].match, _number(kernel.instructions[site], "count")
        if match is None or number is None or match.binding.get("action") != ".inc" or number + 16 > 256:
            continue
        edit = kernel.operand(site, "count", str(number + 16))
        if edit:
            yield Fault((edit,), kernel.of_events("setmaxnreg"), kernel.text(site))


@operator("is_canceled not asked", "clc", "CL004")
def _unasked(kernel: Kernel) -> Iterator[Fault]:
    """Every request is taken as granted: no question, and what was guarded by its answer is executed."""
    asks = [i for i in kernel.sites("clc-query") if ".is_canceled" in kernel.instructions[i].opcode]
    if asks:
        yield Fault(tuple(map(kernel.blank, asks)), kernel.of_events("clc-"), kernel.text(asks[0]))


@operator("response not waited for", "clc", "CL004 BK001 MB016")
def _unanswered(kernel: Kernel) -> Iterator[Fault]:
    """The last wait before the response is decoded is asked once, whatever it says."""
    waits = kernel.sites("mbarrier-wait")
    for site in kernel.sites("clc-query"):
        before = [w for w in waits if w < site]
        loop = _loop(kernel, before[-1]) if before else []
        if loop:
            places = kernel.of_events("clc-") | kernel.where(lambda m: bool(m.form.memory))
            yield Fault((*loop, kernel.blank(before[-1])), places, kernel.text(before[-1]))
