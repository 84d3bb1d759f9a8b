"""Operands that are wrong: registers that repeat, masks, alignment, state spaces."""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchmarks.faults.kernel import (
    Fault,
    Kernel,
    Plant,
    operator,
)
from tclint.findings.finding import Edit
from tclint.ir.nodes import (
    Immediate,
    Memory,
    Symbol,
    registers,
)

__all__: list[str] = []


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


def _masks(event: str, mask: str) -> Plant:
    """Name fewer lanes where all are named, by a constant or by a register that is only ever set to it."""

    def plant(kernel: Kernel) -> Iterator[Fault]:
        for site in kernel.sites(event):
            edit = kernel.operand(site, "mask", mask) if _full(kernel, site) else None
            if edit:
                yield Fault((edit,), frozenset((site,)), f"{kernel.text(site)[:90]} -> {edit.text[:90]}")

    return plant


def _full(kernel: Kernel, site: int) -> bool:
    """Whether the mask of an instruction names all lanes of the warp."""
    mask = kernel.instructions[site].role("mask")
    if isinstance(mask, int):
        writers = [i for i in kernel.instructions if mask in i.writes]
        mask = writers[0].operands[-1] if len(writers) == 1 and writers[0].moves else mask
    return (
        isinstance(mask, Immediate) and isinstance(mask.value, int) and mask.value & 0xFFFFFFFF == 0xFFFFFFFF
    )


for _name, _event, _mask, _rules in (
    ("shuffle mask narrowed", "shuffle", "0x1f", "CV005 CV006"),
    ("vote mask narrowed", "vote", "0xffff", "CV005 CV006"),
    ("elect mask narrowed", "elect", "0xffff", "CV005 CV006"),
):
    operator(_name, "convergence", _rules)(_masks(_event, _mask))
for _name, _family, _event, _group, _pattern, _replacement, _rules in (
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
