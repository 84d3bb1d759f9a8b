"""The checks of words in global memory by which threads of several CTAs synchronise (PTX ISA 8.4 to 8.9.5).

A thread polls a flag in global memory until another CTA, or another GPU, sets it, takes a lock, or counts its CTA as
finished and asks whether it was the last. A relaxed read of the word orders no other access: an acquire, or a fence
after the read, must precede the reads of the data. Nor does a relaxed write of it: a release, or a fence before it, must
follow the writes of the data. A CTA barrier replaces neither, because it orders the threads of one CTA only, but where
one thread signals for its CTA, only a barrier orders the writes of the other warps before that.
"""

from __future__ import annotations

from collections.abc import Iterator

from tclint.analyses.global_signals import GlobalObservation, GlobalSignals
from tclint.analyses.model import KernelModel
from tclint.checks import Hit, Mark, RuleId, check
from tclint.checks._repairs import with_opcode
from tclint.dataflow import Path
from tclint.findings.scales import Severity
from tclint.ir.nodes import Site
from tclint.isa.effects import Barrier, Order, spelled_order
from tclint.isa.special_registers import WARP

MO003 = RuleId("MO003")
MO005 = RuleId("MO005")
MO007 = RuleId("MO007")

_NEXT_ITERATION = "the read is in the next iteration of a loop around the poll, and may be of other data"
_PREVIOUS_ITERATION = (
    "the write is in the previous iteration of a loop around the flag, and may be of other data"
)
_NEVER_WRITTEN = "the kernel sets the flag itself, and writes nothing through the pointer that is read"


@check(MO003, analyses=(GlobalSignals,))
def observed_without_acquire(model: KernelModel) -> Iterator[Hit]:
    """Report observations of words in global memory after which data is read with no intervening acquire."""
    signals = model.fact(GlobalSignals)
    for seen in signals.observations:
        if model.instruction(seen.site).order.acquires and model.instruction(seen.site).wide:
            continue
        written, others = _data(signals, seen)
        ends = [each.site for each in signals.observations] if not seen.stated else []
        found = signals.early_read(seen, written, ends) or signals.early_read(seen, others, ends)
        if found is None:
            continue
        barriers, path = found
        doubt = _NEVER_WRITTEN if path.end in others else ""
        if _iterates(model, path, seen.site, innermost=not seen.waits):
            doubt = _NEXT_ITERATION
        yield _unacquired(model, seen, barriers, path).doubted(doubt)


def _data(signals: GlobalSignals, seen: GlobalObservation) -> tuple[frozenset[Site], frozenset[Site]]:
    """The reads of what an observation may announce, and those of what the kernel writes through no pointer of theirs.

    If the kernel does not write the word of a relaxed load, all reads are of the first kind. If it does, the word announces what
    this kernel writes to global memory before that, and nothing if it writes nothing before. Other loads and atomic
    operations, which many programs use for a word that announces nothing, count for what is known to be announced.
    """
    model, none = signals.model, frozenset[Site]()
    sets = [i for i in signals.signals(seen) if not signals.within_cta(i, seen)]
    if not (seen.stated and model.instruction(seen.site).wide):
        told = {read for i in sets for _, read in signals.announced(i, seen)}
        return signals.reads.intersection(told), none
    if not sets:
        return signals.reads, none
    published = {i for i in signals.writes.difference(sets) if any(model.reaches(i, flag) for flag in sets)}
    if not published:
        return none, none
    buffers = [signals.origins(i, "write") for i in published]
    if not all(buffers):
        return signals.reads, none
    written = none.union(*buffers)
    others = frozenset(
        i for i in signals.reads if (read := signals.origins(i, "read")) and read.isdisjoint(written)
    )
    return signals.reads - others, others


def _unacquired(model: KernelModel, seen: GlobalObservation, barriers: tuple[Site, ...], path: Path) -> Hit:
    site, instruction = seen.site, model.instruction(seen.site)
    narrow = not instruction.wide
    what = "polls a flag" if seen.waits else "tests a word"
    how = "a relaxed load" if not _combines(model, site) else "a relaxed atomic operation"
    if instruction.order is Order.VOLATILE:
        how = "a volatile load"
    message = f"{what} with {how}, and data in global memory is then read without an acquire"
    if narrow:
        message = f"{what} with a read of scope .cta, and then reads data that another CTA may have written"
    hit = MO003.hit(
        site=site,
        message=message,
        steps=(
            Mark(
                site,
                "orders the threads of this CTA only" if narrow else "orders no other access after the flag",
            ),
            *(Mark(i, "orders the threads of this CTA only") for i in barriers),
            Mark(path.end, "may read the data from before the flag was set"),
        ),
        help="poll with .acquire of the scope that includes the writing thread, or add fence.acq_rel of that scope "
        f"after {'the loop' if seen.waits else 'it'}",
        fixes=with_opcode(
            site, instruction.opcode.replace(".relaxed", ".acquire"), "acquire with the load of the flag"
        )
        if seen.stated
        else (),
        about=frozenset((site,)),
    )
    return hit if seen.stated or narrow else hit.unshown(Severity.WARNING)


@check(MO005, MO007, analyses=(GlobalSignals,))
def signalled_too_early(model: KernelModel) -> Iterator[Hit]:
    """Report writes of an observed word that nothing orders after the data that they announce."""
    signals = model.fact(GlobalSignals)
    reported = set[tuple[RuleId, Site]]()
    for seen in signals.observations:
        for signal in signals.signals(seen):
            if signals.within_cta(signal, seen):
                continue
            pairs = signals.announced(signal, seen)
            if not pairs:
                continue
            for hit in (
                _unreleased(signals, signal, seen, pairs),
                _before_others(signals, signal, seen, pairs),
                _without_others(signals, signal, seen, pairs),
            ):
                if hit is not None and (hit.rule, hit.site) not in reported:
                    reported.add((hit.rule, hit.site))
                    yield hit


def _unreleased(
    signals: GlobalSignals, signal: Site, seen: GlobalObservation, pairs: list[tuple[Site, Site]]
) -> Hit | None:
    """The hit for a *signal* with no release between the writes of the data and it; None if there is one."""
    model = signals.model
    instruction = model.instruction(signal)
    if instruction.order.releases and instruction.wide:
        return None
    found = signals.unreleased(signal, (write for write, _ in pairs))
    if found is None:
        return None
    write, barriers, path = found
    read = next(read for each, read in pairs if each == write)
    narrow = signals.narrow(signal)
    kind = "weak" if instruction.order is Order.WEAK else "relaxed"
    message = f"sets a flag with a {kind} write, and nothing releases the data that was written before it"
    if narrow:
        message = "sets a flag with a write of scope .cta, and another CTA may read the data that was written before it"
    hit = MO005.hit(
        site=signal,
        message=message,
        steps=(
            Mark(write, "writes the data"),
            *(Mark(i, "orders the threads of this CTA only") for i in barriers),
            Mark(
                signal,
                "orders the threads of this CTA only" if narrow else "orders no other access before the flag",
            ),
            *((Mark(seen.site, "observes the flag in another CTA"),) if seen.site != signal else ()),
            Mark(read, "reads the data in another CTA"),
        ),
        help="set the flag with .release of the scope that includes the polling thread, or add fence.acq_rel of that "
        "scope in the thread that sets it, between the CTA barrier and the flag",
        about=frozenset((signal,)),
    ).doubted(_PREVIOUS_ITERATION if _iterates(model, path, signal) else "")
    match = instruction.match
    stated = match is not None and spelled_order(match.modifiers) is Order.RELAXED
    return hit if stated or narrow else hit.unshown(Severity.WARNING)


def _before_others(
    signals: GlobalSignals, signal: Site, seen: GlobalObservation, pairs: list[tuple[Site, Site]]
) -> Hit | None:
    """The hit for a *signal* of one warp that nothing orders after what other warps write; None if something does."""
    model = signals.model
    found = signals.beside(signal, (write for write, _ in pairs))
    if found is None:
        return None
    write, others, path = found
    read = next(read for each, read in pairs if each == write)
    condition = _if_several_warps(model)
    return MO007.hit(
        site=signal,
        message="signals for the CTA while other warps may still write the data"
        f"{', if ' * bool(condition)}{condition}: no CTA barrier precedes it",
        steps=(
            Mark(write, "these write the data, too", role=model.describe_threads(others)),
            Mark(signal, "lets threads of another CTA continue"),
            Mark(read, "may read the data before those warps have written it"),
        ),
        help="add a CTA barrier (bar.sync, __syncthreads()) between the writes and the signal",
        about=frozenset((signal,)),
        condition=condition,
        missing_before=True,
    ).doubted(_PREVIOUS_ITERATION if _iterates(model, path, signal) else "")


def _without_others(
    signals: GlobalSignals, signal: Site, seen: GlobalObservation, pairs: list[tuple[Site, Site]]
) -> Hit | None:
    """The hit for a poll of one warp that nothing orders before what other warps read; None if something does."""
    model = signals.model
    found = signals.beside(seen.site, (read for _, read in pairs)) if seen.waits else None
    if found is None:
        return None
    read, others, path = found
    write = next(write for write, each in pairs if each == read)
    condition = _if_several_warps(model)
    return MO007.hit(
        site=seen.site,
        message="waits for the CTA, but other warps may read the data meanwhile"
        f"{', if ' * bool(condition)}{condition}: no CTA barrier follows",
        steps=(
            Mark(write, "writes the data in another CTA"),
            Mark(signal, "is the signal"),
            Mark(seen.site, "waits for it"),
            Mark(read, "these read the data, too, and wait for nothing", role=model.describe_threads(others)),
        ),
        help="add a CTA barrier (bar.sync, __syncthreads()) between the poll and the reads",
        about=frozenset((seen.site,)),
        condition=condition,
    ).doubted(_NEXT_ITERATION if _iterates(model, path, seen.site, innermost=False) else "")


def _if_several_warps(model: KernelModel) -> str:
    """The condition that the CTA has several warps; empty if the kernel states so many threads, or has a barrier for them."""
    stated = (model.function.threads or 0) > WARP
    return "" if stated or model.awaits(Barrier.CTA) else "the CTA has more than 32 threads"


def _combines(model: KernelModel, site: Site) -> bool:
    """Whether *site* is an atomic operation."""
    match = model.instruction(site).match
    return match is not None and bool(match.combination)


def _iterates(model: KernelModel, path: Path, site: Site, *, innermost: bool = True) -> bool:
    """Whether *path* takes the back edge of a loop around *site*; of the *innermost* one only if that counts."""
    around = list(model.cfg.nest.around(model.cfg.block_of[site]))
    loops = {head: model.cfg.loops[head] for head in (around if innermost else around[1:])}
    return any(edge.source in loops.get(edge.target, ()) for edge in path.edges)
