"""Faults to plant in real kernels: one change each, where the ISA table says what an instruction means.

An operator looks at one function and yields every place at which its fault can be planted. It knows events, groups and
roles of the table, never opcodes, so a new instruction is covered by its form. Nothing here decides whether tclint
should find the fault: that a change is harmless after all is shown by :mod:`benchmarks.mutation`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tclint.finding import Edit, Span
from tclint.ir.nodes import Function, Immediate, Instruction, Module, Symbol, registers
from tclint.isa.table import Match

__all__ = ["OPERATORS", "Fault", "Kernel", "Operator", "apply"]


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
    """A finding of any other rule does not count as found. Empty: no rule of tclint is about it yet."""
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


def operator(name: str, family: str, rules: str) -> Callable[[Plant], Plant]:
    """Register a function as the operator *name*; *rules* are those that are about its fault."""

    def register(plant: Plant) -> Plant:
        assert name not in OPERATORS, name
        OPERATORS[name] = Operator(name, family, frozenset(rules.split()), plant)
        return plant

    return register


def _deletes(event: str, group: str | None = None) -> Plant:
    """Take one instruction of that event and group away."""

    def plant(kernel: Kernel) -> Iterator[Fault]:
        for site in kernel.sites(event, group):
            about = kernel.of_group(group) if group else kernel.of_events("tmem-")
            yield Fault((kernel.blank(site),), about | {site}, kernel.text(site))

    return plant


for _name, _family, _event, _group, _rules in (
    ("wgmma.wait_group deleted", "wgmma", "wait", "wgmma", "WG001 WG003 WG004 WG005 WG007 WG011"),
    ("wgmma.commit_group deleted", "wgmma", "commit", "wgmma", "WG001 WG003 WG004 WG005 WG007 WG011"),
    ("wgmma.fence deleted", "wgmma", "register-fence", "wgmma", "WG002 WG008"),
    ("tcgen05.wait::ld deleted", "tcgen05", "wait", "tcgen05.ld", "TC002 TC003 TC011 TM006"),
    ("tcgen05.wait::st deleted", "tcgen05", "wait", "tcgen05.st", "TC002 TC004 TM006"),
    ("tcgen05.commit deleted", "tcgen05", "commit", "tcgen05", "TC001 TC005 TC012 TM006"),
    ("tcgen05.alloc deleted", "tcgen05", "tmem-alloc", None, "TM001 TM003 TM008"),
    ("tcgen05.dealloc deleted", "tcgen05", "tmem-dealloc", None, "TM001"),
    ("cp.async.commit_group deleted", "cp.async", "commit", "cp.async", "CA001 CA002 CA003"),
    ("cp.async.wait deleted", "cp.async", "wait", "cp.async", "CA001 CA003"),
    ("bulk commit_group deleted", "bulk", "commit", "bulk", ""),
    ("bulk wait_group deleted", "bulk", "wait", "bulk", ""),
    ("proxy fence deleted", "proxy", "proxy-fence", None, ""),
    ("mbarrier.init deleted", "mbarrier", "mbarrier-init", None, ""),
    ("expect_tx deleted", "mbarrier", "mbarrier-expect", None, ""),
    ("mbarrier arrive deleted", "mbarrier", "mbarrier-arrive", None, ""),
    ("CTA barrier deleted", "barrier", "barrier-sync", None, "TM008 TM006"),
    ("griddepcontrol.wait deleted", "pdl", "pdl-wait", None, ""),
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


_WGMMA_WAITS = "WG001 WG003 WG004 WG005 WG007 WG011"
operator("wgmma.wait_group 0 to 1", "wgmma", _WGMMA_WAITS)(_deepens("wgmma", lambda n: n == 0))
operator("wgmma.wait_group N to N+1", "wgmma", _WGMMA_WAITS)(_deepens("wgmma", lambda n: n > 0))
operator("cp.async.wait_group N to N+1", "cp.async", "CA001 CA003")(_deepens("cp.async", lambda n: True))
operator("bulk wait_group N to N+1", "bulk", "")(_deepens("bulk", lambda n: True))


@operator("bulk wait_group to .read", "bulk", "")
def _weaker_bulk_wait(kernel: Kernel) -> Iterator[Fault]:
    for site in kernel.sites("wait", "bulk"):
        edit = kernel.rewrite(site, r"wait_group(?!\.read)", "wait_group.read")
        if edit:
            yield Fault((edit,), kernel.of_group("bulk"), kernel.text(site))


@operator("mbarrier wait loop dropped", "mbarrier", "TC001 TC012")
def _drop_wait_loop(kernel: Kernel) -> Iterator[Fault]:
    """A wait, and the branch that repeats it: what a compiler does to a loop without side effects."""
    for site in kernel.sites("mbarrier-wait"):
        derived = set(kernel.instructions[site].writes)
        edits = [kernel.blank(site)]
        back = False
        for i in range(site + 1, min(site + 9, len(kernel.instructions))):
            instruction = kernel.instructions[i]
            if instruction.flow == "branch":
                returns = any(0 <= t <= site for t in instruction.targets)
                if instruction.guard in derived or (back and instruction.guard < 0 and returns):
                    edits.append(kernel.blank(i))
                    back = True
                    if returns:
                        break
                else:
                    break
            elif derived.intersection(instruction.reads):
                derived |= set(instruction.writes)
            elif instruction.flow:
                break
        if back:
            places = kernel.of_group("tcgen05") | kernel.of_group("tcgen05.ld") | {site}
            yield Fault(tuple(edits), places, kernel.text(site))


@operator("tcgen05.wait::ld moved past the arrival", "tcgen05", "TC002 TC003 TM006")
def _late_wait(kernel: Kernel) -> Iterator[Fault]:
    """The wait comes, but after another thread was told that the tensor memory is free."""
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


@operator("cta_group flipped", "tcgen05", "TC006")
def _flip_cta_group(kernel: Kernel) -> Iterator[Fault]:
    pairs = sorted(kernel.where(lambda m: bool(m.binding.get("cta_group"))))
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


def _resizes(event: str) -> Plant:
    """Another number of columns for one of alloc and dealloc."""

    def plant(kernel: Kernel) -> Iterator[Fault]:
        for site in kernel.sites(event):
            columns = _number(kernel.instructions[site], "columns")
            if columns is None:
                continue
            other = columns // 2 if columns > 32 else columns * 2
            edit = kernel.rewrite(site, rf"\b{columns}(?=\s*;)", str(other))
            if edit:
                places = frozenset((*kernel.sites("tmem-alloc"), *kernel.sites("tmem-dealloc")))
                yield Fault((edit,), places, f"{kernel.text(site)} -> {other}")

    return plant


operator("tcgen05.alloc resized", "tcgen05", "TM002 TM003 TM005 TC017")(_resizes("tmem-alloc"))
operator("tcgen05.dealloc resized", "tcgen05", "TM002 TM003")(_resizes("tmem-dealloc"))

_LANE = (
    "{{ .reg .pred %tclint_p; .reg .b32 %tclint_r; mov.u32 %tclint_r, %tid.x; and.b32 %tclint_r, %tclint_r, 31; "
    "setp.eq.u32 %tclint_p, %tclint_r, 0; {} }}"
)
_ELECT = "{{ .reg .pred %tclint_p; elect.sync _|%tclint_p, 0xffffffff; {} }}"


def _guards(wrap: str, branch: bool) -> Plant:
    """Let one lane alone execute what the whole warp or warpgroup must."""

    def plant(kernel: Kernel) -> Iterator[Fault]:
        if wrap is _ELECT and not any(re.match(r"sm_(9|1\d)", target) for target in kernel.module.targets):
            return
        for use in kernel.function.uses:
            if use.match is None or use.match.scope not in ("warp", "warpgroup") or use.flow:
                continue
            if use.match.form.event in ("elect", "shuffle", "vote", "match", "redux"):
                continue  # these say themselves who takes part
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
    operator(f"aligned instruction behind a branch of one {_name}", "convergence", "CV001 CV002")(
        _guards(_wrap, True)
    )


@operator("election dropped", "convergence", "TC010 CV009 CV001 CV002")
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
    from tclint.isa.target import Target

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
            edit = Edit(Span(match.start(1), match.end(1)), f"{lower[0]}.{lower[1]}")
            yield Fault((edit,), frozenset(), f"{use.opcode} at .version {edit.text}")


@operator("target without its suffix", "arch", "AV001 AV005")
def _plain_target(kernel: Kernel) -> Iterator[Fault]:
    match = re.search(rb"^\s*\.target\s+(sm_\d+)([af])\b", kernel.data, re.MULTILINE)
    if match and kernel.where(lambda m: bool(m.form.scope and m.form.event)):
        yield Fault((Edit(Span(match.start(2), match.end(2)), ""),), frozenset(), match[0].decode().strip())


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
    ("barrier count beyond the CTA", "barrier", "barrier-sync", None, r",\s*\d+(?=\s*;)", ", 1024", "CV010"),
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
    """An offset into shared memory taken for a generic address."""
    for use in kernel.function.uses:
        if use.match is not None and use.match.form.memory and use.match.space.startswith(".shared"):
            for site in use.sites:
                edit = kernel.rewrite(site, r"\.shared(::cta)?\b", "")
                if edit and not use.match.form.event:
                    yield Fault((edit,), frozenset((site,)), kernel.text(site))


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
