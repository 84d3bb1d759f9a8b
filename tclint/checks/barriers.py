"""Barriers of a CTA: which one, and how many threads it waits for (PTX ISA 9.7.13.1)."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.checks import Hit, check
from tclint.checks.assembler import in_words
from tclint.ir.nodes import Immediate
from tclint.isa.table import Match
from tclint.model import KernelModel


@check("CV010")
def barrier_operands(model: KernelModel) -> Iterator[tuple[str, Hit]]:
    """Barriers that do not exist, and thread counts that the CTA can never reach."""
    found: dict[str, tuple[str, list[int]]] = {}
    for use in model.function.uses:
        if use.match is not None and "id" in use.match.form.roles and not use.match.problem:
            for i in use.sites:
                wrong = _wrong(model, use.match, i)
                if wrong is not None and model.views.at(i).threads:
                    found.setdefault(wrong[0], (wrong[1], []))[1].append(i)
    for message, (remedy, sites) in found.items():
        yield "CV010", Hit(site=min(sites), message=message, help=remedy, count=len(sites))


def _wrong(model: KernelModel, match: Match, site: int) -> tuple[str, str] | None:
    """What is wrong with the operands of the barrier at *site*, and the remedy."""
    for role, name in (("id", "barrier"), ("count", "thread count")):
        known = model.known(site, role)
        if known is None:
            continue
        allowed = match.form.operands[match.form.roles[role]].immediates or ()
        if not any(known in r for r in allowed):
            # A literal out of range is told as any other literal (PX004).
            return (
                None
                if isinstance(model.instruction(site).role(role), Immediate)
                else (f"its {name} is {known}, which is not {in_words(allowed)}", f"use another {name}")
            )
        most = model.function.most_threads
        if role == "count" and most is not None and known > -(-most // 32) * 32:
            bound = "" if model.function.threads else "at most "
            return (
                f"waits for {known} threads, but the CTA has {bound}{most}: the barrier never completes",
                f"count {most} threads at most, or raise the bound of the kernel",
            )
    return None
