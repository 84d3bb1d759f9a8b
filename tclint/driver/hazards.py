"""Which rule describes what an execution observed.

:mod:`tclint.driver.evidence` answers the opposite question, which observations demonstrate a finding that exists. Here
only the rule whose page claims exactly what was observed is chosen (``observed_as``); an observation that no page claims has
none. These are a second ``mbarrier.init``, a ``setmaxnreg`` of some warps, a copy that is pending at the exit of its CTA, and
an address that names the tensor memory of another warp: all of these work in practice. No rule describes a ``shuffle``
from an absent lane.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tclint.checks import Hit, RuleId
from tclint.driver.evidence import ordered_kind
from tclint.executor.observations import Observation
from tclint.findings.rules import all_rules, claims
from tclint.findings.scales import Severity
from tclint.ir.nodes import Function, Instruction, registers
from tclint.isa.effects import CP_ASYNC, NO_ENGINE, TRANSACTIONS, WGMMA, Engine, Fence

__all__ = ["hazard", "is_note"]


def hazard(observation: Observation, function: Function) -> Hit | None:
    """The hit that an observation becomes, without steps; None if no rule claims what was observed.

    *function* is the entry that was executed; the sites of the observation are indices of its instructions.
    """
    at = function.instructions[observation.site]
    other = function.instructions[observation.other] if observation.other >= 0 else at
    rule = next((claims()[name] for name in _names(observation, at, other) if name in claims()), None)
    if rule is None:
        return None
    message = f"{at.name}: {observation.message}"
    hit = RuleId(rule).hit(site=observation.site, message=message, function=function)
    if observation.kind == "grid-dependency":  # the launch file states that the grid may begin early
        return replace(hit, severity=Severity.ERROR)
    return hit.unshown(Severity.WARNING if _may_be_harmless(rule, at, other, function) else None)


def is_note(observation: Observation, function: Function) -> bool:
    """Whether the rule that describes an observation is one of notes: hardware was never seen to get it wrong.

    A single case that is a note of another rule does not count, as an observation distinguishes it less well than a check does.
    """
    hit = hazard(observation, function)
    if hit is None:
        return False
    rule = all_rules()[hit.rule]
    return max(rule.severity, hit.severity_if(rule, False)) is Severity.INFO


def _may_be_harmless(rule: str, at: Instruction, other: Instruction, function: Function) -> bool:
    """Whether what was observed may be a case of the *rule* that working kernels have, which the checks report as notes.

    An observation distinguishes these cases less well than a check does.
    """
    if rule == "PR001":  # a matrix store, or a memory fence wider than the CTA in place of the proxy fence
        return (other.match is not None and other.match.scope == "warp") or any(
            map(_wide, function.instructions)
        )
    if rule == "PR005":  # warps of the issuing warpgroup
        return at.group == WGMMA
    if rule == "WG002":  # an accumulator that is not added to
        fragment = at.named("a")
        read = registers(fragment) if fragment is not None else ()
        return other is not at and not set(other.writes).intersection(read)
    return rule == "TC022"  # bits of the address that select a lane within the warp


def _wide(instruction: Instruction) -> bool:
    """Whether it is a memory fence of a scope wider than the CTA."""
    match = instruction.match
    return match is not None and match.form.effects.fence is Fence.MEMORY and match.wide


def _names(o: Observation, at: Instruction, other: Instruction) -> Iterator[str]:
    """What a page may call an observation (:func:`~tclint.findings.rules.claims`), the most precise name first."""
    kind = _kind(o, at, other)
    yield f"{kind} of {_engine(other)}"
    yield f"{kind} at {at.name}"
    yield f"{kind} at {at.group}"
    yield kind


def _engine(operation: Instruction) -> Engine:
    """That of a pending operation; none of a store that completes on an mbarrier, which no rule is about."""
    return operation.group if operation.group != TRANSACTIONS or _bulk_copy(operation) else NO_ENGINE


def _bulk_copy(instruction: Instruction) -> bool:
    sized = instruction.role("bytes") is not None or instruction.role("tensormap") is not None
    return sized and instruction.group == TRANSACTIONS


_OF_ONE_WARP = ("filled-twice", "tensor-memory-ld", "tensor-memory-st")
"""Kinds that are other ones if two warps are involved."""


def _kind(o: Observation, at: Instruction, other: Instruction) -> str:
    """The kind of an observation, more precisely where rules differ in it; empty if no rule is about it.

    Of unordered accesses as in the table of ``rules/MB016.md``; *other* is the access that precedes in this execution.
    """
    kind = ordered_kind(o.kind, other, at)
    if kind == "register-in-flight":
        return f"{kind}-read" if set(at.reads) & set(other.writes) else kind
    if kind == "filled-twice" and not at.group == other.group == CP_ASYNC:
        return "read-too-early"
    if o.crosses and kind in _OF_ONE_WARP:
        return f"{o.kind}-across-warps"
    if o.kind != "unordered":
        return kind
    if at.mbarrier is not None or other.mbarrier is not None:
        return ""
    if other.effects.begins is None and (other.group or other.event):
        return ""
    if kind == "unordered-refill" and not (_bulk_copy(at) and not any(a.writes for a in other.accesses)):
        return "unordered"
    return kind
