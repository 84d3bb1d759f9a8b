"""Check of results in tensor memory that another role reads (PTX ISA 9.7.16.6.4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tclint.analyses.extents import Extent, Extents
from tclint.analyses.happens_before import HappensBefore
from tclint.analyses.model import KernelModel
from tclint.analyses.role_paths import whole_program
from tclint.analyses.tensor_memory import TensorMemory
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.isa.effects import TCGEN05, TCGEN05_LD, TCGEN05_ST

TC001 = RuleId("TC001")


@check(also=(TC001,), analyses=(Extents, HappensBefore, TensorMemory))
def read_by_another_role(model: KernelModel) -> Iterator[Hit]:
    """A role that loads an accumulator of another role's MMA, on a path without a wait that may observe its
    completion."""
    loads, mmas = model.begins(TCGEN05_LD), model.begins(TCGEN05)
    if not loads or not mmas or not whole_program(model) or model.reachability.unresolved_dispatchers:
        return
    for load, operations in grouped(_unsynchronised(model, loads, mmas)).items():
        mma = operations[0]
        role = model.describe_threads(model.views.context_of(load).threads)
        yield TC001.hit(
            site=load,
            message=f"{model.name(load)} reads the result of {model.name(mma)} of another role, "
            "on a path with no wait that guarantees its completion",
            steps=(
                Mark(
                    mma,
                    f"{model.name(mma)} starts",
                    role=model.describe_threads(model.views.context_of(mma).threads),
                ),
                Mark(load, f"{model.name(load)} reads the same columns", role=role),
            ),
            count=len(operations),
            help="commit the operation to an mbarrier (tcgen05.commit), and wait on it in this role before the load",
            about=frozenset((mma,)),
        )


def _unsynchronised(
    model: KernelModel, loads: Sequence[int], mmas: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """For each MMA, the first load of another role that may read its result before observing its completion, and the
    MMA."""
    tmem, order = model.fact(TensorMemory), model.fact(HappensBefore)
    stores = frozenset(model.begins(TCGEN05_ST))
    written = stores | order.observers_of(stores)
    commits = model.commits(TCGEN05)
    extents = model.fact(Extents)
    reads = [(i, read) for i in loads if (read := _reach(model, tmem, extents, i, "taddr")) is not None]
    for mma in mmas if reads else ():
        result = _reach(model, tmem, extents, mma, "d")
        if result is None:
            continue
        theirs = [i for i, read in reads if read.inside(result) and model.views.mutually_exclusive(mma, i)]
        if not theirs:
            continue
        # A load that is ordered after a store to tensor memory may read the stored values, not the result.
        observers = order.observers_of([c for c in commits if model.reaches(mma, c)]) | written
        for load in theirs:
            if order.unsynchronised_path(load, observers) is not None:
                yield load, mma
                break


def _reach(model: KernelModel, tmem: TensorMemory, extents: Extents, site: int, role: str) -> Extent | None:
    """The columns that operand *role* of the instruction covers in all iterations of all loops; None if unknown."""
    columns = tmem.range(site, role)
    if columns is None:
        return None
    return extents.reach(columns.start, columns.columns, model.views.context_of(site).threads)
