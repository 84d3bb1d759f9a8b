"""What the CTAs of a cluster do to the shared memory of each other (PTX ISA 2.2.2, 9.7.9.23)."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Literal, NamedTuple

from tclint.analyses.mbarrier_addresses import may_leave
from tclint.analyses.model import KernelModel
from tclint.ir.nodes import Instruction
from tclint.isa.table import Match
from tclint.values import Values

__all__ = ["Kind", "Remote", "alone", "peers", "remote"]

Kind = Literal["access", "arrival", "copy", "multicast"]
"""A load, store or atomic; an arrival on an mbarrier; a copy out of the own shared memory; one from elsewhere, which the
receivers wait for."""


class Remote(NamedTuple):
    """One instruction that may touch the shared memory of another CTA."""

    site: int
    kind: Kind


def alone(model: KernelModel) -> bool:
    """Whether the kernel says that a cluster is one CTA."""
    directives = model.function.directives
    if ".reqnctapercluster" in directives:
        return prod(directives[".reqnctapercluster"]) == 1
    return directives.get(".maxclusterrank") == (1,)


def peers(model: KernelModel, found: list[Remote]) -> bool:
    """Whether the kernel is meant for clusters of several CTAs.

    Templates map an address into a cluster of one CTA too; who multicasts, works in pairs, or reads and writes
    elsewhere does not.
    """
    if ".reqnctapercluster" in model.function.directives:
        return not alone(model)
    return any(r.kind != "arrival" for r in found) or any(map(_in_pairs, _matches(model)))


def remote(model: KernelModel) -> list[Remote]:
    """The instructions that may touch the shared memory of another CTA, in program order."""
    maps = any(match.form.compute == "mapa" or _in_pairs(match) for match in _matches(model))
    found = [
        Remote(site, kind)
        for use in model.function.uses
        if use.match is not None and (maps or "mask" in use.match.form.roles)
        for site in use.sites
        if (kind := _kind(model, site, use.match)) is not None
    ]
    return sorted(r for r in found if model.cfg.block_of[r.site] in model.cfg.rank)


def _matches(model: KernelModel) -> Iterator[Match]:
    return (use.match for use in model.function.uses if use.match is not None)


def _in_pairs(match: Match) -> bool:
    return match.binding.get("cta_group") == ".cta_group::2"


def _kind(model: KernelModel, site: int, match: Match) -> Kind | None:
    form, instruction = match.form, model.instruction(site)
    if "mbarrier" in form.roles and instruction.role("mask") is not None:
        return "multicast" if form.event == "issue" else "arrival"
    if not any(_mapped(model.values, instruction, name, site) for name in _addresses(match)):
        return None
    if form.event in ("mbarrier-arrive", "commit", "mbarrier-expect", "mbarrier-complete"):
        return "arrival"
    if form.event == "issue":
        return "copy" if "bytes" in form.roles and form.space == ".shared::cluster" else "multicast"
    return "access" if form.memory else None


def _addresses(match: Match) -> list[str]:
    """The operands that say where an instruction accesses shared memory, or arrives."""
    form = match.form
    if match.space not in ("", ".shared", ".shared::cluster"):
        return []
    names = [name for _, name in form.memory]
    names += [name[1:] for name in (*form.async_reads, *form.async_writes) if name.startswith("*")]
    return [*names, form.roles["mbarrier"]] if "mbarrier" in form.roles else names


def _mapped(values: Values, instruction: Instruction, name: str, site: int) -> bool:
    """Whether the operand called *name* is an address that may lie in another CTA."""
    operand = instruction.named(name)
    return operand is not None and may_leave(values, values.operand(operand, site))
