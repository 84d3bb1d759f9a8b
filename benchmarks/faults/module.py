"""What a module declares: its version and target, registers and labels."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from benchmarks.faults.kernel import (
    Fault,
    Kernel,
    Plant,
    operator,
)
from tclint.findings.finding import Edit
from tclint.findings.spans import Span
from tclint.ir.nodes import (
    Symbol,
)
from tclint.isa.target import FAMILIES, INTRODUCED, Target, dotted

__all__: list[str] = []


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
