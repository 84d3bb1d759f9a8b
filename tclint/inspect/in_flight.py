"""The operations that may be in flight at an instruction, from the states of the analyses that track them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tclint._named_tuple import NamedTuple
from tclint.analyses.bulk import KNOWN, BulkReads
from tclint.analyses.cp_async import TRACKED, CopyGroups
from tclint.analyses.groups import BulkGroups, Groups, WgmmaGroups
from tclint.analyses.model import KernelModel
from tclint.analyses.tcgen05 import ISSUED, Outstanding
from tclint.analyses.tmem_transfers import TmemTransfers, TransferStatus
from tclint.dataflow import Analysis
from tclint.inspect.mbarrier_use import MbarrierUse
from tclint.isa.effects import CP_ASYNC, TCGEN05, TENSOR_MEMORY, TRANSACTIONS, WGMMA, Effects, Engine
from tclint.sync.operations import OPEN, OVERDUE

__all__ = ["CHANNELS", "Channel", "Render", "operations"]

Render = Callable[[Any, Any, KernelModel], Iterable[tuple[int, str, int]]]
"""(analysis, state, kernel) -> ``(instruction, status in words, ring of mbarriers or -1)`` of each fact."""


class Channel(NamedTuple):
    """One kind of operation that is tracked, and the analysis that tracks it."""

    name: str
    analysis: type[Analysis[Any]]
    render: Render
    """Renders a state of the analysis."""
    groups: tuple[Engine, ...]
    """The completion mechanisms of the tracked operations; empty if the channel tracks signals."""


def _age(groups: Groups, age: int) -> str:
    if age == OPEN:
        return "not committed"
    if age == OVERDUE:
        return "not committed before a wait"
    if age == TRACKED:
        return "completion signalled by an mbarrier"
    if age == groups.deepest:
        return f"{age} or more groups before the newest"
    return "in the newest group" if age == 0 else f"{age} group{'s' * (age > 1)} before the newest"


def _groups(groups: Groups, state: Any, model: KernelModel) -> Iterator[tuple[int, str, int]]:
    return ((site, _age(groups, age), -1) for site, age in state[0])


def _reads(groups: Groups, state: Any, model: KernelModel) -> Iterator[tuple[int, str, int]]:
    """The states of bulk reads, without reads that have completed but that other threads have not observed."""
    return ((site, _age(groups, age), -1) for site, age in state[0] if age not in KNOWN)


def _transfers(transfers: TmemTransfers, state: Any, model: KernelModel) -> Iterator[tuple[int, str, int]]:
    words = {
        TransferStatus.ISSUED: "no wait since",
        TransferStatus.COPIED: "no wait since, registers moved",
        TransferStatus.USED: "no wait since, registers used",
    }
    return (
        (site, said, -1)
        for status, said in words.items()
        for site in transfers.members(transfers.having(state, status))
    )


def _operations(operations: Outstanding, state: Any, model: KernelModel) -> Iterator[tuple[int, str, int]]:
    for site, status in state:
        yield site, "not committed" if status == ISSUED else f"committed by #{status - 1}", -1


def _mbarriers(use: MbarrierUse, state: Any, model: KernelModel) -> Iterator[tuple[int, str, int]]:
    return ((site, _signalled(model.instruction(site).effects), ring) for site, ring in state)


def _signalled(effects: Effects) -> str:
    """What an operation on an mbarrier has done, or will do."""
    if effects.transacts:
        return "performs complete_tx when it completes"
    if effects.commits is not None:
        return "arrives when the preceding operations complete"
    if effects.expects or effects.completes:
        return "bytes expected" if effects.expects else "bytes completed"
    return "last wait" if effects.arrives is None else "arrived"


CHANNELS = (
    Channel(WGMMA, WgmmaGroups, _groups, (WgmmaGroups.group,)),
    Channel(CP_ASYNC, CopyGroups, _groups, (CopyGroups.group,)),
    Channel("bulk: source not read", BulkReads, _reads, (BulkReads.group,)),
    Channel("bulk: result not written", BulkGroups, _groups, (BulkGroups.group,)),
    Channel("tensor memory", TmemTransfers, _transfers, TENSOR_MEMORY),
    Channel(TCGEN05, Outstanding, _operations, (TCGEN05,)),
    Channel(TRANSACTIONS, MbarrierUse, _mbarriers, ()),
)
"""All channels."""


def operations(model: KernelModel, site: int, groups: Iterable[str] | None = None) -> set[int]:
    """The asynchronous operations that may be in flight before *site*: those of some *groups*, or all.

    Over-approximates: all paths are joined, even mutually exclusive ones. Raises LimitExceeded if an analysis does not
    reach its fixpoint.
    """
    found: set[int] = set()
    if model.cfg.block_of[site] not in model.cfg.rank:
        return found
    for channel in CHANNELS:
        wanted = channel.groups if groups is None else set(channel.groups) & set(groups)
        if any(model.begins(group) for group in wanted):
            analysis, results = model.solution(channel.analysis)
            found.update(at for at, _, _ in channel.render(analysis, results.before(site), model))
    return found
