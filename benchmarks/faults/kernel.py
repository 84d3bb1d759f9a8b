"""A kernel as the operators see it, their registry, and what several of them ask."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from tclint.findings.finding import Edit
from tclint.findings.spans import Span
from tclint.ir.nodes import (
    Function,
    Immediate,
    Instruction,
    Module,
)
from tclint.isa.forms import Match

__all__ = [
    "OPERATORS", "WGMMA_WAITS", "Fault", "Kernel", "Operator", "Plant", "Test", "about_barriers", "apply", "constant_of", "of_peers",
    "operator", "ordered_by_barriers", "reads_shared", "through_async", "touches_shared", "without_loop",
]  # fmt: skip


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

    def inverted(self, site: int) -> Edit | None:
        """Execute a guarded instruction in the other threads; None without a guard."""
        instruction = self.instructions[site]
        if instruction.guard < 0:
            return None
        return self.rewrite(site, r"@\s*!?", "@" if instruction.negated else "@!")

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


WGMMA_WAITS = "WG001 WG003 WG004 WG005 WG007 WG011 MB016"
"""The rules about a wait for matrix operations that is missing or weaker."""

Test = Callable[[Instruction], bool]


def of_peers(kernel: Kernel) -> frozenset[int]:
    """What may touch the shared memory of another CTA."""
    return kernel.where(lambda match: match.space == ".shared::cluster" or "mask" in match.form.roles)


def ordered_by_barriers(kernel: Kernel) -> frozenset[int]:
    """What a barrier may order: accesses to shared memory, copies there, and arrivals that speak for other threads."""
    return kernel.where(
        lambda m: (
            bool(m.form.memory and m.space.startswith(".shared"))
            or m.form.group == "cp.async"
            or m.form.event == "mbarrier-arrive"
        )
    )


def about_barriers(kernel: Kernel) -> frozenset[int]:
    """What a finding about a CTA barrier or a cluster barrier may name."""
    return (
        ordered_by_barriers(kernel)
        | of_peers(kernel)
        | kernel.of_events("barrier-")
        | kernel.of_events("tmem-")
        | kernel.where(lambda m: "mbarrier" in m.form.roles)
        # What other CTAs signal is passed on to the CTA.
        | kernel.where(lambda m: bool(m.form.memory) and m.space in ("", ".global"))
    )


def through_async(kernel: Kernel) -> frozenset[int]:
    """What a proxy fence may order: operations through the async proxy, and accesses by tensor maps."""
    return kernel.where(lambda m: m.form.proxy == "async" or "tensormap" in m.form.roles)


def constant_of(instruction: Instruction, role: str) -> int | None:
    """The constant that is the operand in a role; None: it is not one."""
    operand = instruction.role(role)
    return operand.value if isinstance(operand, Immediate) and isinstance(operand.value, int) else None


def without_loop(kernel: Kernel, site: int) -> list[Edit]:
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


def touches_shared(how: str) -> Callable[[Kernel], Test]:
    """Reading or writing shared memory, now or by an asynchronous operation."""

    def test(instruction: Instruction) -> bool:
        match = instruction.match
        if match is None or instruction.event.startswith("mbarrier"):
            return False
        if match.form.group in ("wgmma", "tcgen05") and match.form.event == "issue":
            return how == "read" and any(name.endswith("-desc") for name in match.named)
        return match.space.startswith(".shared") and any(what == how for what, _ in match.form.memory)

    return lambda kernel: test


def reads_shared(kernel: Kernel) -> frozenset[int]:
    """Every instruction that reads shared memory, copies from there included."""
    reads = touches_shared("read")(kernel)
    return frozenset(i for i, x in enumerate(kernel.instructions) if reads(x)) | kernel.of_group("bulk")
