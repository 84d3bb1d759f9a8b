"""Instructions that too many threads execute, or too few, and allocations of the wrong size."""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchmarks.faults.kernel import (
    OPERATORS,
    Fault,
    Kernel,
    Plant,
    about_barriers,
    constant_of,
    operator,
    ordered_by_barriers,
)
from tclint.findings.finding import Edit
from tclint.findings.spans import Span

__all__: list[str] = []


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
            columns = constant_of(kernel.instructions[site], "columns")
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


@operator("CTA barrier to warp barrier", "barrier", OPERATORS["CTA barrier deleted"].rules)
def _narrow_barrier(kernel: Kernel) -> Iterator[Fault]:
    """A CTA barrier that becomes one barrier per warp."""
    for site in kernel.sites("barrier-sync"):
        match = kernel.instructions[site].match
        if match is not None and match.form.scope == "cta" and "destination" not in match.form.roles:
            edit = kernel.rewrite(site, r"\bbar(rier)?\b[^;]*;", "bar.warp.sync -1;")
            if edit:
                yield Fault((edit,), about_barriers(kernel) | {site}, f"{kernel.text(site)} -> {edit.text}")


@operator("CTA barrier before the cp.async.wait", "barrier", "CA005 SM001 SM002 PR005")
def _early_barrier(kernel: Kernel) -> Iterator[Fault]:
    """A barrier that followed a wait for copies, and so released them to the other threads."""
    waits = set(kernel.sites("wait", "cp.async"))
    for site in kernel.sites("barrier-sync"):
        edits = kernel.move_up(site, site - 1) if site - 1 in waits else None
        if edits:
            yield Fault(
                edits,
                ordered_by_barriers(kernel) | {site},
                f"{kernel.text(site)} before {kernel.text(site - 1)}",
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
