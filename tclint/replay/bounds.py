"""What the replays of a kernel show about its mbarriers: for which launches the protocol was followed to its end.

A bound is a statement about the launches that were replayed, and about nothing else. A replay observes of the class
*mbarrier* that a wait ends, that no phase gets more arrivals than it counts, that no wait may miss its phase, and that
an mbarrier is initialised when it is used, the last for one order of the threads only. A wait for a state instead of a
parity may come too late in another order, so no kernel with one is bounded. A replay does not execute
``mbarrier.inval``: the caller knows which of them follow all other operations. It does not observe any other class as a
whole: of the accesses between two events it follows only the outermost ones, and a strong load acquires everything
(:mod:`~tclint.replay.machine`), so it may miss a race.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tclint._named_tuple import NamedTuple
from tclint.analyses.model import KernelModel
from tclint.dataflow import GaveUp
from tclint.findings.spans import span
from tclint.findings.verdicts import Reason
from tclint.ir.nodes import Instruction
from tclint.isa.effects import Barrier, Resource
from tclint.replay import reasons
from tclint.replay.interface import Faulty
from tclint.replay.launches import ReplayRun
from tclint.replay.verdict import Replay

__all__ = ["BoundedLaunches", "mbarriers", "operates"]

_HELP = {
    reasons.NotReplayed.UNSEEN_CALL: "link the module with the body of the callee",
    reasons.NotReplayed.NO_CTA_SHAPE: "state the shape of the CTA with .reqntid",
    reasons.NotReplayed.NO_CLUSTER_SHAPE: "state the shape of the cluster with .reqnctapercluster, and of the CTA with .reqntid",
}
"""What would let the kernel be replayed."""
"""The event of the class that a replay does not execute."""


class BoundedLaunches(NamedTuple):
    """The launches in which the class holds, or why it is not bounded."""

    launches: tuple[str, ...]
    """In words, in the order in which they were replayed; empty if the class is not bounded."""
    reasons: tuple[Reason, ...]
    """Empty if it is bounded."""


def mbarriers(model: KernelModel, last: Collection[int] = ()) -> BoundedLaunches:
    """The launches in which the mbarriers of a kernel are used as they must be.

    All launches that were replayed ended without a fault, and together they executed each operation on an mbarrier. One
    that a budget, or an unknown value, kept from its end leaves the class unknown. *last* are the ``mbarrier.inval`` that
    follow all operations of threads on the mbarrier that they end.
    """
    why = tuple(_open(model, last))
    if why:
        return BoundedLaunches((), why)
    launches = [str(run.launch) for run in model.fact(Replay).runs if run.launch is not None]
    return BoundedLaunches(tuple(dict.fromkeys(launches)), ())


def _open(model: KernelModel, last: Collection[int]) -> Iterator[Reason]:
    """Why the replays do not bound the class, the first reason first."""
    replay = model.fact(Replay)
    verdict = replay.verdict
    if isinstance(verdict, GaveUp):
        yield _at(model, verdict.site, f"not replayed: {verdict.why}", _HELP.get(verdict.why, ""))
        return
    if replay.uninitialised is not None:
        yield _at(model, replay.uninitialised.site, "no mbarrier is initialised here in a replay")
        return
    wrong = [site for run in replay.runs if run.wrong for site in run.sites]
    if isinstance(verdict, Faulty) or wrong:
        what = "a replayed launch goes wrong here, for which the kernel may not be made"
        yield _at(model, min(wrong, default=-1), what, "state the shape of the CTA with .reqntid")
        return
    if not replay.runs:
        yield Reason(None, "no launch was replayed")
        return
    for site in model.sites(Resource.MBARRIER_INVAL):
        if site not in last:
            what = "the mbarrier that it ends may be used later, by this thread or another one"
            yield _at(model, site, what, "execute it in one thread, after a barrier of all threads")
            break
        if found := next(filter(None, map(_signalled_later, replay.runs)), None):
            yield _at(model, *found)
            break
    for run in replay.runs:
        for site, why in run.misused[:1]:
            yield _at(model, site, why)
    sites = _sites(model)
    for site in sites:
        instruction = model.function.instructions[site]
        if instruction.effects.awaits is Barrier.MBARRIER and instruction.role("state") is not None:
            yield _at(model, site, "a replay does not follow how late a wait for a state may be")
            break
    executed = frozenset[int]().union(*(run.executed for run in replay.runs))
    missed = [site for site in sites if site not in executed]
    if missed:
        yield _at(model, missed[0], "no replayed launch executes it")


def operates(instruction: Instruction) -> bool:
    """Whether *instruction* uses an mbarrier."""
    return instruction.mbarrier is not None


def _sites(model: KernelModel) -> list[int]:
    """The reachable instructions that use an mbarrier, but for those that invalidate one."""
    block_of, rank = model.cfg.block_of, model.cfg.rank
    return [
        site
        for site, instruction in enumerate(model.function.instructions)
        if operates(instruction)
        and instruction.effects.resource is not Resource.MBARRIER_INVAL
        and block_of[site] in rank
    ]


def _signalled_later(run: ReplayRun) -> tuple[int, str] | None:
    """Where and why an mbarrier may be signalled after all waits of a launch, if it may."""
    if run.launch is None or run.launch.shape.ranks > 1:
        return -1, "another CTA of the cluster may signal an mbarrier after mbarrier.inval"
    if run.unsettled:
        return min(run.unsettled), "an asynchronous operation may signal this mbarrier after mbarrier.inval"
    return None


def _at(model: KernelModel, site: int, what: str, help: str = "") -> Reason:
    if site < 0:
        return Reason(None, what, help)
    return Reason(span(model.function, site), what, help)
