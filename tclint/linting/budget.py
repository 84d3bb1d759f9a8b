"""The gate on what ptxas makes of kernels: limits on figures, and what they were before.

It decides the rules of the family ``ptxas-budget``, as ``suppress`` decides those about comments: the figures are no property
of the text that an analysis could know. A figure that ptxas cannot determine fails no run; it is a note.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tclint.checks import Hit, RuleId
from tclint.findings.figures import (
    WORDS,
    Judged,
    KernelFigures,
    Recorded,
    covers,
    figures_words,
)
from tclint.findings.scales import Severity
from tclint.findings.selection import Selected
from tclint.ir.nodes import Function, Module
from tclint.syntax.source import Problem, Source

__all__ = ["hits", "problems"]

PB001 = RuleId("PB001")
PB002 = RuleId("PB002")
PB003 = RuleId("PB003")

Found = tuple[Function | None, Hit]
_MAX_HEAD = 1000
"""Bytes of a function in which its name is looked for."""
_MOST_KERNELS = 3
"""Kernels whose changes are listed if ptxas has changed."""


def hits(source: Source, module: Module, judged: Judged, selected: Selected) -> list[Found]:
    """The hits about the kernels of a *module*, the one of *source*, that are *selected*."""
    on = selected.on
    found = list(_changed(module, judged))
    for kernel in judged.made.kernels:
        function = module.function(kernel.kernel) if kernel.kernel else None
        if function is None or (selected.wants(function.name) and not function.damaged):
            span = _head(source, function) if function is not None else module.target_span
            found += (replace(hit, function=function, span=span) for hit in _of_kernel(judged, kernel, on))
    return [(hit.function, hit) for hit in found if hit.subject in on]


def _head(source: Source, function: Function) -> tuple[int, int]:
    """Where a function states its name, before its parameters."""
    end = min(function.start + _MAX_HEAD, function.end)
    head = source.data[function.start : end].partition(b"\n")[0].partition(b"(")[0]
    return function.start, function.start + max(len(head.rstrip()), 1)


def problems(module: Module, judged: Judged) -> Iterator[Problem]:
    """Why there are no figures of the module, or none of some of its kernels."""
    if judged.problem:
        if module.targets:  # else that is a problem of the text, and ptxas was not asked
            yield Problem(judged.line, judged.problem)
        return
    known = {kernel.kernel for kernel in judged.made.kernels}
    for function in module.bodies:
        if function.entry and function.name not in known:
            yield Problem(0, f"ptxas {judged.made.ptxas} printed no figures of {function.name}")


def _of_kernel(judged: Judged, kernel: KernelFigures, on: frozenset[str]) -> Iterator[Hit]:
    """Limits that are exceeded, and figures that have grown; of what has grown beyond its limit only the former."""
    made, before = judged.made, _before(judged, kernel.kernel)
    old = before.figures if before is not None and before.ptxas == made.ptxas else None
    said = set()
    for name, most in judged.budget.limits_of(kernel.kernel, made.target).items():
        amount, was = kernel.amount(name), old.amount(name) if old is not None else None
        if amount is None or amount > most:
            yield _hit(PB001, kernel, name, f"the limit is {most}")
            if was is not None and was <= most and PB001 in on:
                said.add(name)
    for name, was in judged.budget.growth(old, kernel) if old is not None else ():
        if not any(covers(each, name) for each in said):
            yield _hit(PB002, kernel, name, f"it {'needed' if name in WORDS else 'printed'} {was} before")


def _hit(rule: RuleId, kernel: KernelFigures, name: str, against: str) -> Hit:
    """The hit about the figure called *name*, and what it is compared with."""
    counted = [figures_words(*figure) for figure in kernel.figures if covers(name, figure.name)]
    known = kernel.amount(name) is not None
    if name not in WORDS:
        what = f"prints {' and '.join(counted)}"
    else:
        what = f"needs {counted[0]}" if known else f"cannot determine the {WORDS[name]}"
    return rule.hit(
        message=f"ptxas {what}, and {against}",
        help=_HELP.get(name, _HELP_OF_MESSAGES),
        severity=None if known else Severity.INFO,
        figure=name,
    )


_HELP = {
    "registers": "let fewer values live at once, or raise the limit",
    "barriers": "use fewer barrier numbers; a number in a register counts as all 16",
    "stack": "index local arrays by constants only, so that they fit into registers, and keep registers from being spilled",
    "spill-stores": "let fewer values live at once, or allow more registers (.maxnreg, .minnctapersm, --maxrregcount)",
    "spill-loads": "let fewer values live at once, or allow more registers (.maxnreg, .minnctapersm, --maxrregcount)",
    "shared": "declare less shared memory, or raise the limit",
}
_HELP_OF_MESSAGES = "ptxas prints the message, with the reason, when it compiles the module"


def _before(judged: Judged, kernel: str) -> Recorded | None:
    """The figures that a kernel had; None if they are not known."""
    return next(
        (
            each
            for each in judged.before
            if (each.figures.kernel, each.target) == (kernel, judged.made.target)
        ),
        None,
    )


def _changed(module: Module, judged: Judged) -> Iterator[Hit]:
    """A ptxas that is not the one of the figures before, once for the module, with what it makes differently."""
    made = judged.made
    pairs = [
        (before, kernel) for kernel in made.kernels if (before := _before(judged, kernel.kernel)) is not None
    ]
    others = [(before, kernel) for before, kernel in pairs if before.ptxas != made.ptxas]
    differing = [words for before, kernel in others if (words := _differences(before.figures, kernel))]
    if not others or (judged.accept and not differing):
        return
    listed = "; ".join(differing[:_MOST_KERNELS])
    more = f"; and in {len(differing) - _MOST_KERNELS} more" if len(differing) > _MOST_KERNELS else ""
    effect = f"; the figures differ: {listed}{more}" if differing else ""
    yield PB003.hit(
        span=module.target_span,
        message=f"ptxas is {made.ptxas}, and the baseline was recorded with {others[0][0].ptxas}{effect}",
        help="use that ptxas, or record the baseline with this one; --accept-ptxas-change accepts it until then",
        severity=Severity.INFO if judged.accept else None,
        figure="ptxas",
    )


def _differences(old: KernelFigures, new: KernelFigures) -> str:
    """``gemm: registers 168 -> 176``; empty if no figure differs."""
    words = ", ".join(
        f"{WORDS.get(name, name)} {_number(a)} -> {_number(b)}" for name, a, b in old.beside(new) if a != b
    )
    return f"{new.kernel or 'the module'}: {words}" if words else ""


def _number(amount: int | None) -> str:
    return "unknown" if amount is None else str(amount)
