"""Checks of results in tensor memory that another role reads (PTX ISA 9.7.16.6.4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tclint.analyses.extents import Extent, Extents
from tclint.analyses.happens_before import HappensBefore
from tclint.analyses.model import KernelModel
from tclint.analyses.role_paths import whole_program
from tclint.analyses.tcgen05 import TensorMemory
from tclint.checks import Hit, Mark, RuleId, check, grouped

TC001 = RuleId("TC001")


@check(also=(TC001,), needs="tcgen05", analyses=(Extents, HappensBefore, TensorMemory))
def read_by_another_role(model: KernelModel) -> Iterator[Hit]:
    """A role that loads what the MMA of another role adds up, on a way that hears nothing of a commit behind it."""
    loads, mmas = model.sites("issue", "tcgen05.ld"), model.sites("issue", "tcgen05")
    if not loads or not mmas or not whole_program(model) or model.reachability.unresolved_dispatchers:
        return
    for load, operations in grouped(_unheard(model, loads, mmas)).items():
        mma = operations[0]
        role = model.describe_threads(model.views.context_of(load).threads)
        yield TC001.hit(
            site=load,
            message=f"reads the result of {model.name(mma)} in another role, "
            "on a way on which nothing tells it that the operation is complete",
            steps=(
                Mark(
                    mma,
                    f"{model.name(mma)} starts",
                    role=model.describe_threads(model.views.context_of(mma).threads),
                ),
                Mark(load, f"{model.name(load)} on the same columns", role=role),
            ),
            count=len(operations),
            help="commit the operation to an mbarrier (tcgen05.commit) and wait for it in this role before the load",
            about=frozenset((mma,)),
        )


def _unheard(model: KernelModel, loads: Sequence[int], mmas: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The first load of another role that may read what an MMA writes before its completion is observed, and the MMA."""
    tmem, order = model.solution(TensorMemory)[0], model.fact(HappensBefore)
    stores = frozenset(model.sites("issue", "tcgen05.st"))
    written = stores | order.observers_of(stores)
    commits = model.sites("commit", "tcgen05")
    extents = model.fact(Extents)
    reads = [(i, read) for i in loads if (read := _reach(model, tmem, extents, i, "taddr")) is not None]
    for mma in mmas if reads else ():
        result = _reach(model, tmem, extents, mma, "d")
        if result is None:
            continue
        theirs = [i for i, read in reads if read.inside(result) and model.views.mutually_exclusive(mma, i)]
        if not theirs:
            continue
        # Whoever issued other operations on these columns may have handed them over before.
        heard = order.observers_of([c for c in commits if model.reaches(mma, c)]) | written
        for load in theirs:
            if order.unsynchronised_path(load, heard) is not None:
                yield load, mma
                break


def _reach(model: KernelModel, tmem: TensorMemory, extents: Extents, site: int, role: str) -> Extent | None:
    """The columns that *role* of the instruction covers, in all rounds of all loops."""
    columns = tmem.range(site, role)
    if columns is None:
        return None
    return extents.reach(columns.start, columns.columns, model.views.context_of(site).threads)
