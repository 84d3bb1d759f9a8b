"""Which observations of an execution confirm a finding, by rule.

A rule claims something about an instruction, a pair of instructions or an mbarrier, and only an observation of that
kind, about these, demonstrates it: its page lists them as ``confirmed_by``, and docs/executor.md shows them all. A rule
without them can never be confirmed. An assumed launch demonstrates nothing that its assumptions may have caused
(:data:`CAUSED_BY`), and no fault.

The observations are keys of :data:`~tclint.executor.observations.KINDS`, or ``deadlock-`` with the kind of a wait, or
``fault-`` with the kind of a fault. ``unordered`` and ``tensor-memory`` also say which access came first
(:func:`ordered_kind`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from tclint._dataclass import dataclass
from tclint.executor.observations import Observation
from tclint.executor.run import Execution
from tclint.findings.rules import all_rules, declared
from tclint.findings.verdicts import UNEXECUTED, HazardClass
from tclint.ir.nodes import Function, Instruction
from tclint.isa.effects import BULK, TCGEN05, TENSOR_MEMORY, WGMMA

__all__ = [
    "CAUSED_BY",
    "READERS",
    "Basis",
    "Claim",
    "Where",
    "bounded_classes",
    "demonstrations",
    "due_to",
    "evidence",
    "ordered_kind",
    "seen",
]

Where = Literal["pair", "instruction", "operation", "mbarrier", "wait"]
"""What the finding and the observation must have in common.

``pair``: the instruction and the conflicting access or operation, if there is one, are instructions of the finding.
``instruction``: the instruction is the first one of the finding, where it is reported. ``operation``: the pending operation, or the allocation, is one
of the finding. ``mbarrier``: the first instruction of the finding initialised or used the mbarrier; of a deadlock, every
mbarrier that threads wait for. ``wait``: a thread waits at the first instruction of the finding, or for an mbarrier at
a step of one about an arrival that is skipped.
"""


READERS = frozenset((BULK, TCGEN05, WGMMA))
"""Groups of the operations that read shared memory."""

CAUSED_BY: Mapping[str, frozenset[str]] = {
    "threads": frozenset((
        "warpgroup", "barrier-count", "left-in-flight", "exited-cta", "tensor-memory-leak", "tensor-memory-lanes",
        "mbarrier-absent", "mbarrier-overrun", "deadlock-arrivals", "deadlock-bytes", "deadlock-barrier",
        "deadlock-registers", "fault-barrier", "fault-tensor-memory", "fault-bounds",
    )),
    "cluster": frozenset((
        "exited-cta", "unstarted-cta", "cta-mask", "mbarrier-absent", "mbarrier-overrun", "deadlock-arrivals", "deadlock-bytes",
        "deadlock-barrier", "fault-cluster",
    )),
    "addresses": frozenset((
        "read-too-early", "source-overwritten", "filled-twice", "unordered", "proxy", "left-in-flight",
        "mbarrier-absent", "mbarrier-init", "mbarrier-unordered", "box-bytes", "fault-address", "fault-misaligned",
        "fault-bounds",
    )),
    "integers": frozenset((
        "mbarrier-overrun", "deadlock-arrivals", "deadlock-bytes", "deadlock-barrier", "fault-barrier",
        "fault-tensor-memory", "fault-bounds", "uncommitted",
    )),
    "contents": frozenset((
        "left-in-flight", "uncommitted", "exited-cta", "tensor-memory-leak", "mbarrier-overrun", "deadlock-arrivals",
        "deadlock-bytes", "deadlock-barrier", "fault-bounds",
    )),
}  # fmt: skip
"""What an assumed launch may cause by an assumption, although the kernel is correct in a launch that it is made for.

Observations that concern two warps depend on the number of threads and the size of the cluster as well. Those that may depend on ``integers`` count
if two launches with different integers have them; ``addresses`` are computed from an assumption in the kernel itself.
``contents`` are those of global memory, on which the path of a thread depends.
"""


@dataclass(frozen=True)
class Claim:
    """What a finding is about."""

    rule: str
    site: int
    """Its first instruction; -1 if it is about none."""
    sites: frozenset[int]
    """The instructions of its span and its steps."""
    accesses: frozenset[int]
    """Those of them that access memory or issue an operation."""
    initialisations: frozenset[int] = frozenset()
    """Those of them that initialise an mbarrier."""
    waits: bool = False
    """Whether its first instruction waits for an mbarrier."""
    copies: frozenset[int] = frozenset()
    """The moves between registers from which its first instruction has what it reads."""


@dataclass(frozen=True)
class Basis:
    """What the executions of a launch rest on."""

    name: str
    """The launch file, or a description of what is assumed."""
    assumes: frozenset[str] | None = None
    """Of ``threads``, ``cluster`` and ``integers``, what is assumed; None for a launch file."""
    guessed: Callable[[int], bool] = lambda site: False
    """Whether an address in shared memory, a size or a descriptor of an instruction depends on an assumption."""
    guessed_anywhere: Callable[[int], bool] = lambda site: False
    """The same, with its addresses in global memory if they depend on more than pointers."""
    branches_on_memory: bool = False
    """Whether the path of a thread depends on the contents of global memory, which are assumed."""


def seen(execution: Execution) -> Iterator[Observation]:
    """The observations of an execution, and what ended it, as observations ``deadlock-...`` and ``fault-...``."""
    yield from execution.observations
    for wait in execution.waits:
        text = f"waits{wait.what}"
        yield Observation(f"deadlock-{wait.kind}", wait.site, text, wait.thread, users=wait.users)
    if execution.fault:
        yield Observation(f"fault-{execution.fault}", execution.site, execution.reason, "")


def demonstrations(
    claim: Claim, execution: Execution, basis: Basis
) -> Iterator[tuple[Observation, frozenset[str]]]:
    """The observations of *execution* that demonstrate *claim*, each with what it may be :func:`due_to` instead."""
    for where, kinds in declared("confirmed_by").get(claim.rule, {}).items():
        for observation in seen(execution):
            kind = _ordered_kind(observation, execution.function)
            if kind in kinds and _about(claim, where, observation, execution):
                yield observation, due_to(observation, basis)


_OF_THREADS = frozenset((
    HazardClass.WGMMA, HazardClass.TMEM_ACCESS, HazardClass.CP_ASYNC, HazardClass.CONVERGENCE,
))  # fmt: skip
"""Classes that do not depend on what a bulk copy moves."""


def bounded_classes(function: Function, basis: Basis) -> frozenset[HazardClass]:
    """The classes that an execution of *function* bounds if nothing is observed: those of rules with evidence.

    A tensor map of an assumed launch is unknown, and copies through it move nothing.
    """
    rules = all_rules()
    observed = {
        HazardClass(name) for rule in declared("confirmed_by") for name in rules[rule].hazards
    } - UNEXECUTED
    maps = any(i.match is not None and "tensormap" in i.match.form.roles for i in function.instructions)
    return frozenset(observed & _OF_THREADS if maps and basis.assumes is not None else observed)


def due_to(observation: Observation, basis: Basis) -> frozenset[str]:
    """The assumptions that an observation of an assumed launch may be due to, keys of :data:`CAUSED_BY`.

    An observation of a launch file is due to none. One that may be due to ``integers`` counts if launches with other
    integers have it too, and one that may be due to ``cluster`` if launches with all other sizes do.
    """
    if basis.assumes is None:
        return frozenset()
    kind, shape = observation.kind, frozenset(("threads", "cluster"))
    found = {what for what in basis.assumes if kind in CAUSED_BY[what]}
    if observation.crosses:
        found |= basis.assumes & shape
    if basis.branches_on_memory and kind in CAUSED_BY["contents"]:
        found.add("contents")
    sites = (site for site in (observation.site, observation.other) if site >= 0)
    guessed = basis.guessed_anywhere if kind.startswith("fault-") else basis.guessed
    if kind in CAUSED_BY["addresses"] and any(map(guessed, sites)):
        found.add("addresses")
    return frozenset(found)


def evidence(observation: Observation) -> Iterator[tuple[int, str, str | None]]:
    """The steps of an observation: instruction, message, threads."""
    if observation.other >= 0:
        yield observation.other, observation.cause, None
    yield observation.site, observation.message, observation.thread or None


def _ordered_kind(observation: Observation, function: Function) -> str:
    """The kind of an observation; of a conflict, with which of the two accesses came first."""
    if observation.other < 0:
        return observation.kind
    earlier, later = function.instructions[observation.other], function.instructions[observation.site]
    return ordered_kind(observation.kind, earlier, later)


def ordered_kind(kind: str, earlier: Instruction, later: Instruction) -> str:
    """The *kind* of an observation about two instructions, with which of the two accesses of a conflict came first.

    A missing wait and a stage that is released too early are conflicts of the same two instructions in opposite orders.
    Of two ``unordered`` accesses, the first one is a copy (``-result``) or an operation that reads what the second one
    overwrites (``-source``), or else the second one is an operation that reads (``-operand``) or a copy (``-refill``).
    The operation that still uses ``tensor-memory`` is ``-ld``, ``-st`` or another one.
    """
    if kind == "tensor-memory":
        return f"{kind}-{earlier.group[-2:]}" if earlier.group in TENSOR_MEMORY else kind
    if kind != "unordered":
        return kind
    if earlier.effects.begins is not None:
        return f"{kind}-source" if earlier.group in READERS else f"{kind}-result"
    if later.effects.begins is not None:
        return f"{kind}-operand" if later.group in READERS else f"{kind}-refill"
    return kind


def _about(claim: Claim, where: Where, observation: Observation, execution: Execution) -> bool:
    """Whether an observation concerns what the finding names."""
    site, other = observation.site, observation.other
    if where == "pair":
        if site == other:  # two executions of one instruction are the pair of a finding about that one only
            return claim.accesses == {site}
        return site in claim.sites | claim.copies and (other < 0 or other in claim.sites)
    if where == "instruction":
        # A finding about a CTA that may not have started names the access only, one about its exit also the exit.
        ends = {"exited-cta": True, "unstarted-cta": False}.get(observation.kind)
        return site == claim.site and ends in (None, claim.sites != {site})
    if where == "operation":
        return other in claim.sites
    if claim.initialisations and observation.users.isdisjoint(claim.initialisations) and observation.users:
        return False  # another mbarrier, which the same instructions use
    if where == "mbarrier":
        if observation.kind == "mbarrier-overrun" and claim.waits:
            return False  # a wait for too few arrivals is not shown by too many
        # Where the copies of the finding have been issued, threads that lack arrivals wait for those that lack their bytes.
        issued = observation.kind == "deadlock-bytes" and claim.sites <= execution.reached
        waits = [w for w in execution.waits if w.kind in (("bytes",) if issued else ("arrivals", "bytes"))]
        if observation.kind.startswith("deadlock-") and not all(claim.site in w.users for w in waits):
            return False
        # What the finding shows may precede the first use of the mbarrier by the instruction that it is about.
        used = observation.users | ({other} if site not in claim.sites else {other, *observation.later})
        return bool(observation.users) and claim.site in used
    if observation.kind == "deadlock-barrier" and any(w.kind != "barrier" for w in execution.waits):
        return False  # some threads may be missing at the barrier because they wait for something else
    if observation.kind in ("deadlock-arrivals", "deadlock-bytes") and not claim.waits:
        return site in claim.sites  # an arrival is skipped, and one of the steps is the wait for it
    return site == claim.site
