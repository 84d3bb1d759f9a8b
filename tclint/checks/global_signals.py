"""The checks of words in global memory by which threads of several CTAs synchronise (PTX ISA 8.4 to 8.9.5).

A thread polls a flag in global memory until another CTA, or another GPU, sets it, takes a lock, or counts its CTA as
finished and asks whether it was the last. A relaxed read of the word orders no other access: an acquire, or a fence
after the read, must precede the reads of the data. Nor does a relaxed write of it: a release, or a fence before it, must
follow the writes of the data. A CTA barrier replaces neither, because it orders the threads of one CTA only, but where
one thread signals for its CTA, only a barrier orders the writes of the other warps before that. An access of scope ``.cta``
orders nothing with another CTA, and is not atomic for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tclint.analyses.global_scopes import GlobalScopes, NarrowAccess
from tclint.analyses.global_signals import GlobalObservation, GlobalSignals, Word
from tclint.analyses.model import KernelModel
from tclint.analyses.signal_leaders import Beside, Leaders
from tclint.analyses.warp_memory import made_for_one_warp
from tclint.checks import Hit, Mark, RuleId, check
from tclint.checks._repairs import with_opcode
from tclint.checks._wording import only_if, several_warps
from tclint.dataflow import Path
from tclint.findings.scales import Severity
from tclint.ir.nodes import Site
from tclint.isa.effects import Barrier, Order, spelled_order

MO003 = RuleId("MO003")
MO005 = RuleId("MO005")
MO007 = RuleId("MO007")
MO010 = RuleId("MO010")

_STALE = {
    Word.LOCK: "may read the data from before the last holder gave the lock back",
    Word.COUNTER: "may read the data from before the threads that were counted have written it",
    Word.FLAG: "may read the data from before the flag was set",
}
_OWN_CTA = "orders the threads of this CTA only"
_NEXT_ITERATION = "the read is in the next iteration of a loop around the poll, and may be of other data"
_PREVIOUS_ITERATION = (
    "the write is in the previous iteration of a loop around the flag, and may be of other data"
)
_ONE_WARP = "an index of the kernel has room for 32 threads in each CTA"
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
        yield _unacquired(signals, seen, barriers, path).doubted(doubt)


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


def _unacquired(
    signals: GlobalSignals, seen: GlobalObservation, barriers: tuple[Site, ...], path: Path
) -> Hit:
    model, site, instruction = signals.model, seen.site, signals.model.instruction(seen.site)
    narrow = not instruction.wide
    word = signals.word(seen, *signals.signals(seen))
    verb = "takes" if word is Word.LOCK else "polls" if seen.waits else "tests"
    how = "a relaxed load" if not _combines(model, site) else "a relaxed atomic operation"
    if instruction.order is Order.VOLATILE:
        how = "a volatile load"
    what = f"{verb} a {word.value}"
    lacking = f"with {how}, and data in global memory is then read without an acquire"
    if narrow:
        lacking = "with a read of scope .cta, and then reads data that another CTA may have written"
    counted = [write for write, _ in signals.announced(site, seen)] if site in signals.signals(seen) else []
    alone = bool(counted) and _unordered(signals, site, counted) is not None
    # One scope, that of the word, is then what both sides lack.
    set_narrowly = {i for i in signals.signals(seen) if signals.narrow(i) and not signals.within_cta(i, seen)}
    hit = MO003.hit(
        site=site,
        message=f"{model.name(site)} {what} {lacking}",
        one_path=False,
        steps=(
            *_other_side(signals, seen, path.end, word),
            Mark(
                site,
                _OWN_CTA
                if narrow
                else f"orders no other access {'before or ' if alone else ''}after the {word.value}",
            ),
            *(Mark(i, _OWN_CTA) for i in barriers),
            Mark(path.end, _STALE[word]),
        ),
        help="use a scope that includes both threads, on both sides"
        if narrow and set_narrowly
        else f"{verb[:-1]} it with .acquire of the scope that includes the writing thread"
        + (
            f", or add fence.acq_rel of that scope {'before and ' if alone else ''}after {'the loop' if seen.waits else 'it'}"
            if not narrow
            else ""
        ),
        fixes=with_opcode(
            site, instruction.opcode.replace(".relaxed", ".acquire"), "acquire with the load of the flag"
        )
        if seen.stated
        else (),
        about=frozenset((site, *(set_narrowly if narrow else ()))),
    )
    shown = seen.stated or narrow or signals.passed_on_without_fence(seen, path.end)
    return hit if shown else hit.unshown(Severity.WARNING)


def _other_side(signals: GlobalSignals, seen: GlobalObservation, read: Site, word: Word) -> Iterator[Mark]:
    """The write, in another CTA, of what *read* reads, and the signal that announces it; nothing if the kernel has none."""
    for signal in signals.signals(seen):
        if signals.within_cta(signal, seen):
            continue
        write = next((write for write, each in signals.announced(signal, seen) if each == read), None)
        if write is None:
            continue
        yield Mark(write, "writes the data, in another CTA", aside=True)
        if signal != seen.site:
            verb = "adds to" if _combines(signals.model, signal) else "sets"
            verb = "gives back" if word is Word.LOCK else verb
            lacks = "" if _unordered(signals, signal, (write,)) is None else ", and releases nothing either"
            lacks = ", in the scope of its own CTA, too" if lacks and signals.narrow(signal) else lacks
            yield Mark(signal, f"{verb} the {word.value} there{lacks}", aside=True)
        return


@check(MO005, MO007, analyses=(GlobalSignals,))
def signalled_too_early(model: KernelModel) -> Iterator[Hit]:
    """Report writes of an observed word that nothing orders after the data that they announce."""
    signals = model.fact(GlobalSignals)
    leaders = Leaders(signals)
    reported = set[tuple[RuleId, Site]]()
    for seen in signals.observations:
        for signal in signals.signals(seen):
            if signals.within_cta(signal, seen):
                continue
            pairs = signals.announced(signal, seen)
            for hit in (
                _unreleased(signals, signal, seen, pairs),
                _before_others(leaders, signal, seen, pairs),
                _without_others(leaders, signal, seen, pairs),
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
    plain = [write for write, read in pairs if not signals.only_strong(write, read)]
    found = _unordered(signals, signal, plain) or _unordered(signals, signal, [write for write, _ in pairs])
    if found is None:
        return None
    write, barriers, path = found
    read = next(read for each, read in pairs if each == write)
    narrow, word = signals.narrow(signal), signals.word(seen, signal)
    # The last CTA knows of the others by the operation with which it signals, which then lacks both sides.
    both = seen.site == signal and not (instruction.order.acquires and instruction.wide)
    hit = MO005.hit(
        site=signal,
        message=f"{model.name(signal)} " + _set_without_release(model, signal, word, narrow),
        one_path=False,
        steps=(
            Mark(write, "writes the data"),
            *(Mark(i, _OWN_CTA) for i in barriers),
            Mark(signal, _OWN_CTA if narrow else f"orders no other access before the {word.value}"),
            *((Mark(seen.site, f"observes the {word.value} in another CTA"),) if seen.site != signal else ()),
            Mark(read, "reads the data in another CTA"),
        ),
        help=f"write the {word.value} with .{'acq_rel' if both else 'release'} of the scope that includes the thread that "
        "reads it"
        + (
            ", or add fence.acq_rel of that scope in the thread that writes it, between the CTA barrier and the "
            f"{word.value}{', and another one after it' if both else ''}"
            if not narrow
            else ""
        ),
        about=frozenset((signal,)),
    ).doubted(_PREVIOUS_ITERATION if _iterates(model, path, signal) else "")
    match = instruction.match
    stated = match is not None and spelled_order(match.modifiers) is Order.RELAXED
    return hit if narrow or (stated and write in plain) else hit.unshown(Severity.WARNING)


def _unordered(
    signals: GlobalSignals, signal: Site, writes: Collection[Site]
) -> tuple[Site, tuple[Site, ...], Path] | None:
    """:meth:`GlobalSignals.unreleased`, or None if the *signal* itself releases to other CTAs."""
    instruction = signals.model.instruction(signal)
    return None if instruction.order.releases and instruction.wide else signals.unreleased(signal, writes)


def _set_without_release(model: KernelModel, signal: Site, word: Word, narrow: bool) -> str:
    """The message about a *signal* that does not release, or only to the threads of its CTA (*narrow*)."""
    combines = _combines(model, signal)
    what = "sets a flag"
    if word is Word.LOCK:
        what = "gives a lock back"
    elif word is Word.COUNTER:
        what = "adds to a counter" if combines else "sets a counter"
    by = "atomic operation" if combines else "write"
    if narrow:
        return f"{what} with {'an' if combines else 'a'} {by} of scope .cta, and another CTA may read the data that was written before it"
    kind = "weak" if model.instruction(signal).order is Order.WEAK else "relaxed"
    return f"{what} with a {kind} {by}, and nothing releases the data that was written before it"


def _before_others(
    leaders: Leaders, signal: Site, seen: GlobalObservation, pairs: list[tuple[Site, Site]]
) -> Hit | None:
    """The hit for a *signal* that nothing orders after what threads write for which it is given; None if something does."""
    model = leaders.model
    found = leaders.beside(signal, (write for write, _ in pairs))
    if found is None:
        pairs = leaders.signals.announced(signal, seen, before=False) if leaders.for_lanes(signal) else []
        found = leaders.apart(signal, (write for write, _ in pairs))
    if found is None:
        return None
    read = next(read for each, read in pairs if each == found.access)
    condition, group, barrier = _terms(model, found)
    others = "other lanes" if found.lanes else "those warps"
    return (
        MO007.hit(
            site=signal,
            message=f"{model.name(signal)} signals for the {group[0]} while other {group[1]} may still write the data"
            f"{only_if(condition)}: no {barrier[0]} precedes it",
            one_path=False,
            steps=(
                Mark(found.access, "these write the data, too", role=model.describe_threads(found.others)),
                Mark(signal, "lets threads of another CTA continue"),
                Mark(read, f"may read the data before {others} have written it"),
            ),
            help=f"add a {barrier[0]} ({barrier[1]}) between the writes and the signal",
            about=frozenset((signal,)),
            condition=condition,
            missing_before=not found.lanes,
        )
        .doubted(
            _PREVIOUS_ITERATION if found.path is not None and _iterates(model, found.path, signal) else ""
        )
        .doubted(_ONE_WARP if condition and made_for_one_warp(model) else "")
        .unshown(Severity.WARNING if found.lanes and found.path is not None else None)
    )


def _without_others(
    leaders: Leaders, signal: Site, seen: GlobalObservation, pairs: list[tuple[Site, Site]]
) -> Hit | None:
    """The hit for a poll that nothing orders before what threads read for which it waits; None if something does."""
    model = leaders.model
    found = leaders.beside(seen.site, (read for _, read in pairs)) if seen.waits else None
    if found is None or found.path is None:
        return None
    write = next(write for write, each in pairs if each == found.access)
    condition, group, barrier = _terms(model, found)
    return (
        MO007.hit(
            site=seen.site,
            message=f"{model.name(seen.site)} waits for the {group[0]}, but other {group[1]} may read the data meanwhile"
            f"{only_if(condition)}: no {barrier[0]} follows",
            one_path=False,
            steps=(
                Mark(write, "writes the data in another CTA"),
                Mark(signal, "is the signal"),
                Mark(seen.site, "waits for it"),
                Mark(
                    found.access,
                    "these read the data, too, and wait for nothing",
                    role=model.describe_threads(found.others),
                ),
            ),
            help=f"add a {barrier[0]} ({barrier[1]}) between the poll and the reads",
            about=frozenset((seen.site,)),
            condition=condition,
        )
        .doubted(_NEXT_ITERATION if _iterates(model, found.path, seen.site, innermost=False) else "")
        .doubted(_ONE_WARP if condition and made_for_one_warp(model) else "")
        .unshown(Severity.WARNING if found.lanes else None)
    )


def _terms(model: KernelModel, found: Beside) -> tuple[str, tuple[str, str], tuple[str, str]]:
    """The condition of a finding, the names of the group and of its parts, and those of the barrier of the group."""
    if found.lanes:
        return "", ("warp", "lanes"), ("bar.warp.sync", "__syncwarp()")
    condition = "" if model.awaits(Barrier.CTA) else several_warps(model)
    return condition, ("CTA", "warps"), ("CTA barrier", "bar.sync, __syncthreads()")


@check(MO010, analyses=(GlobalSignals,))
def narrower_than_its_observers(model: KernelModel) -> Iterator[Hit]:
    """Report accesses of scope ``.cta`` to words that threads of other CTAs access."""
    if model.function.entry:
        yield from (_narrow(model, found) for found in GlobalScopes(model.fact(GlobalSignals)).too_narrow())


def _narrow(model: KernelModel, found: NarrowAccess) -> Hit:
    condition = "the grid has more than one CTA"
    how = "reads" if model.instruction(found.site).writes else "writes"
    how = "updates" if _combines(model, found.site) else how
    message = f"{how} a word with scope .cta that other CTAs access, too, if {condition}"
    if found.waits:
        message = f"waits with a load of scope .cta for a word that other CTAs write, if {condition}"
    hit = MO010.hit(
        site=found.site,
        message=f"{model.name(found.site)} {message}",
        one_path=False,
        steps=(
            Mark(found.site, "includes the threads of its own CTA only"),
            *((Mark(found.other, "accesses the word in another CTA"),) if found.other != found.site else ()),
        ),
        help="state .gpu, or .sys if another GPU or the host takes part: the scope of atomicAdd() and of "
        "cuda::thread_scope_device is .gpu, that of atomicAdd_block() and of cuda::thread_scope_block is .cta",
        about=frozenset((found.site,)),
        condition=condition,
    )
    return hit if found.waits else hit.unshown(Severity.WARNING)


def _combines(model: KernelModel, site: Site) -> bool:
    """Whether *site* is an atomic operation."""
    match = model.instruction(site).match
    return match is not None and bool(match.combination)


def _iterates(model: KernelModel, path: Path, site: Site, *, innermost: bool = True) -> bool:
    """Whether *path* takes the back edge of a loop around *site*; of the *innermost* one only if that counts."""
    around = list(model.cfg.nest.around(model.cfg.block_of[site]))
    loops = {head: model.cfg.loops[head] for head in (around if innermost else around[1:])}
    return any(edge.source in loops.get(edge.target, ()) for edge in path.edges)
