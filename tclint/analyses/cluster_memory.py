"""The instructions that access the shared memory of another CTA of the cluster (PTX ISA 2.2.2, 9.7.9.23)."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Literal

from tclint._named_tuple import NamedTuple
from tclint.analyses.mbarrier_addresses import may_leave
from tclint.dataflow.kernel import Kernel
from tclint.ir.nodes import Instruction
from tclint.isa.forms import Match
from tclint.values import Values
from tclint.values.nodes import Opaque

__all__ = ["Kind", "Remote", "names_peers", "remote_accesses", "single_cta_cluster", "uses_peers"]

Kind = Literal["access", "arrival", "copy", "multicast"]
"""``access``: a load, store or atomic; ``arrival``: an operation on a remote mbarrier; ``copy``: a copy out of the
CTA's own shared memory; ``multicast``: a copy from elsewhere, which the receiving CTAs wait for."""


class Remote(NamedTuple):
    """An instruction that may access the shared memory of a peer CTA."""

    site: int
    kind: Kind


def single_cta_cluster(model: Kernel) -> bool:
    """Whether the directives of the kernel fix the cluster size to one CTA."""
    directives = model.function.directives
    if ".reqnctapercluster" in directives:
        return prod(directives[".reqnctapercluster"]) == 1
    return directives.get(".maxclusterrank") == (1,)


def uses_peers(model: Kernel, found: list[Remote]) -> bool:
    """Whether the kernel is meant for clusters of several CTAs, judging by the remote accesses *found* in it.

    Arrivals alone prove nothing, since templates map the address of an mbarrier in a cluster of one CTA too.
    Multicasts, operations of CTA pairs and accesses to the memory of a peer do.
    """
    if ".reqnctapercluster" in model.function.directives:
        return not single_cta_cluster(model)
    return any(r.kind != "arrival" for r in found) or any(map(_in_pairs, _matches(model)))


def names_peers(model: Kernel, site: int) -> bool:
    """Whether the CTA mask of *site* may name another CTA of the cluster; False if the instruction has none.

    A mask names the executing CTA alone if it is 1 shifted left by the rank of that CTA, or the bit of the only rank that
    reaches the instruction.
    """
    mask = model.value(site, "mask")
    if mask is None:
        return model.instruction(site).role("mask") is not None
    values = model.values
    while type(node := values.node(mask)) is Opaque and node.name == "cvt":
        (mask,) = node.operands
    rank, bits = values.special("%cluster_ctarank"), values.constant_of(mask)
    if bits is None:
        if type(node) is not Opaque or node.name != "shl":
            return True
        shifted, by = node.operands
        return values.constant_of(shifted) != 1 or by != rank
    only = values.compare("eq", rank, values.constant(bits.bit_length() - 1), False)
    return bits & (bits - 1) != 0 or values.entails(only, model.views.context_of(site).facts) is not True


def remote_accesses(model: Kernel) -> list[Remote]:
    """The reachable instructions that may access the shared memory of a peer CTA, in program order."""
    maps = any(match.form.compute == "mapa" or _in_pairs(match) for match in _matches(model))
    found = [
        Remote(site, kind)
        for use in model.function.uses
        if use.match is not None and (maps or "mask" in use.match.form.roles)
        for site in use.sites
        if (kind := _kind(model, site, use.match)) is not None
    ]
    return sorted(r for r in found if model.cfg.block_of[r.site] in model.cfg.rank)


def _matches(model: Kernel) -> Iterator[Match]:
    return (use.match for use in model.function.uses if use.match is not None)


def _in_pairs(match: Match) -> bool:
    return match.of_pair


def _kind(model: Kernel, site: int, match: Match) -> Kind | None:
    """The kind of remote access that *site* performs; None if it accesses the CTA's own memory only."""
    form, instruction = match.form, model.instruction(site)
    if form.mbarrier and names_peers(model, site):
        return "multicast" if form.effects.begins is not None else "arrival"
    if not any(_mapped(model.values, instruction, name, site) for name in _addresses(match)):
        return None
    if form.effects.changes_phase:
        return "arrival"
    if form.effects.begins is not None:
        return "copy" if "bytes" in form.roles and form.space == ".shared::cluster" else "multicast"
    return "access" if form.memory else None


def _addresses(match: Match) -> list[str]:
    """The names of the operands that address shared memory, or the mbarrier that an instruction arrives at."""
    if match.space not in ("", ".shared", ".shared::cluster"):
        return []
    return [a.operand for a in match.accesses if a.shared]


def _mapped(values: Values, instruction: Instruction, name: str, site: int) -> bool:
    """Whether the operand called *name* is an address that may be in a peer CTA."""
    operand = instruction.named(name)
    return operand is not None and may_leave(values, values.operand(operand, site))
