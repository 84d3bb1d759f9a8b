"""Accesses of two warps to the same bytes of shared memory, at least one of them a write, that nothing orders (8.7.1).

Although nothing in the text orders them, they may not race (:func:`race_doubt`): the launch may exclude the path, the CTA
may have fewer threads, or the value that is read too early may be unused.

Which accesses no synchronisation has followed is the solution of :mod:`.since_barrier`, which bytes two warps have in
common is :mod:`.warp_memory`, and what a store leaves as it was is :mod:`.unchanging_stores`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from tclint.analyses.data_indices import DataReadsSince, DataWritesSince, SharedByData
from tclint.analyses.extents import Extents
from tclint.analyses.lookups import lookups
from tclint.analyses.model import KernelModel
from tclint.analyses.overlaps import Conflict, OverlapSearch, Resolve, Route
from tclint.analyses.parted_threads import parted_accesses
from tclint.analyses.plausibility import (
    NO_DOUBT,
    Doubt,
    differ_by_data,
    has_unused_result,
    runs_past_array,
    synchronises_lanes,
)
from tclint.analyses.since_barrier import ReadsSince, SinceBarrier, WritesSince, unordered_threads
from tclint.analyses.unchanging_stores import same_value, stored_by_all, written_back
from tclint.analyses.warp_memory import Swept, atomic, may_be_one_warp, plain, volatile
from tclint.dataflow import Path
from tclint.isa.accesses import Proxy
from tclint.isa.effects import Barrier
from tclint.values import thread_masks as T
from tclint.values.nodes import Phi
from tclint.values.shared_memory import SharedAccess

__all__ = ["Pairs", "race_doubt", "warp_races"]

Pairs = Callable[[SharedAccess, SharedAccess], bool]
"""Whether a conflict of two accesses is searched for."""


def warp_races(model: KernelModel, of_interest: Pairs | None = None) -> Iterator[Conflict]:
    """The conflicts of *model*: accesses after writes, then writes after reads; with *of_interest*, of these pairs only.

    A loop may test a counter, as a hint, while other warps still add to it. That does not excuse an access after the
    loop, so the search for conflicts with atomic operations continues without the loops in which it has found one.
    """
    kinds: tuple[type[SinceBarrier], ...] = (WritesSince, ReadsSince)
    if model.fact(SharedByData).indexed:
        kinds += DataWritesSince, DataReadsSince
    component, block_of = model.cfg.component, model.cfg.block_of
    for kind in kinds:
        since, results = model.solution(kind)
        starts, passed = since.together(results), frozenset[int]()
        while starts:
            met = list(_races_of(model, since, starts, passed, of_interest))
            yield from met
            met = [each for each in met if atomic(model, each.operation.site)]
            passed |= {component[block_of[each.use.site]] for each in met}
            starts &= {each.operation.site for each in met}
    yield from _of_parted_threads(model, of_interest)
    yield from lookups(model)


def _of_parted_threads(model: KernelModel, of_interest: Pairs | None) -> Iterator[Conflict]:
    """The conflicts of accesses that no thread makes both of: of a write with what other threads access."""
    since = model.solution(WritesSince)[0]
    for first, second in parted_accesses(since):
        if of_interest is not None and not of_interest(first, second):
            continue
        path = Path((), (), second.site, model.views.context_of(second.site).threads, False)
        if _races(model, since, first, second, Route(path, _as_it_is, _as_it_is)):
            yield Conflict(first, second, path)


def _as_it_is(value: int) -> int:
    return value


def _races_of(
    model: KernelModel,
    since: SinceBarrier,
    starts: frozenset[int],
    passed: frozenset[int],
    of_interest: Pairs | None,
) -> OverlapSearch:
    """The search for conflicts with the accesses *starts*, in other components of the CFG than *passed*."""
    component, block_of = model.cfg.component, model.cfg.block_of

    def wanted(access: SharedAccess) -> bool:
        instruction = model.instruction(access.site)
        if component[block_of[access.site]] in passed:
            return False
        if access.proxy is not Proxy.GENERIC:
            # Asynchronous reads are left to PR005.
            return access.writes and not since.writes and instruction.effects.begins is not None
        return access.writes or since.writes

    return since.conflicts(
        starts,
        wanted,
        lambda first, second, route: _races(model, since, first, second, route),
        of_interest=of_interest,
    )


def _races(
    model: KernelModel, since: SinceBarrier, first: SharedAccess, second: SharedAccess, route: Route
) -> bool:
    """True if two warps provably access the same bytes, and one of them takes the path."""
    memory = since.memory
    executed = memory.executed
    if isinstance(memory, SharedByData) and (first.site in memory.indexed) is (second.site in memory.indexed):
        return False
    here, there = (
        executed.along(access.site, resolve) & memory.users(access)
        for access, resolve in ((first, route.before), (second, route.after))
    )
    if not (here and there) or _by_atomics(model, first.site, second.site):
        return False
    for read, write in ((first, second), (second, first)):
        if _paces_loop(since, read, write) or _is_compared(model, read, write):
            return False
    if second.later and not _holds_data(model, first):
        return False
    if memory.selected(first) and memory.selected(second):
        return False  # any of the threads that the data select may be the last
    if first.writes and not second.writes and stored_by_all(memory, first):
        return False
    if second.writes and not atomic(model, second.site):
        there &= ~(same_value if first.writes else written_back)(memory, first, second, route)
    path = since.by_warps(first.site, second.site, route.path)
    pairs = unordered_threads(here, there, path)
    if any(memory.across(first, second, *pair) for pair in pairs):
        return True
    if first.writes and second.writes:
        return False  # which values are stored is known for one iteration
    one, two = (
        _in_all_iterations(since, access, resolve)
        for access, resolve in ((first, route.before), (second, route.after))
    )
    return bool(one[1] or two[1]) and any(memory.across_iterations(one, two, *pair) for pair in pairs)


def _by_atomics(model: KernelModel, first: int, second: int) -> bool:
    """Whether one of two accesses is atomic, and the other one is, or is volatile."""
    one, two = atomic(model, first), atomic(model, second)
    return (one or two) and all(atom or volatile(model, i) for atom, i in ((one, first), (two, second)))


def _paces_loop(since: SinceBarrier, read: SharedAccess, count: SharedAccess) -> bool:
    """Whether a plain *read* of a counter decides nothing but how often a loop iterates in which threads *count* atomically.

    A thread that reads too early does one iteration more or less, which no other thread waits for: the loop has no
    synchronisation. The test before the first iteration is of the same kind.
    """
    model, cfg = since.model, since.model.cfg
    if read.writes or not atomic(model, count.site) or not plain(model, read.site):
        return False
    tests = _tests(model, read.site)
    loops = [cfg.loops[head] for head in cfg.enclosing_loops(cfg.block_of[count.site])]
    paced = next((loop for loop in loops if any(_leaves(model, loop, read.address))), None)
    if not tests or paced is None:
        return False
    waits = {cfg.block_of[site] for site in since.ends if cfg.block_of[site] in cfg.rank}
    return all(test in paced or _is_deciding(model, test, paced) for test in tests) and not any(
        _is_deciding(model, test, waits) for test in tests
    )


def _is_compared(model: KernelModel, read: SharedAccess, swap: SharedAccess) -> bool:
    """Whether a plain *read* is of what a compare-and-swap of the same word expects, and of nothing else.

    Where another thread has written meanwhile, memory does not hold what was read, and the swap stores nothing: the loop around
    it tries again with what it returns.
    """
    if read.writes or read.address != swap.address or not plain(model, read.site):
        return False
    values, expected = model.values, model.value(swap.site, "compared")
    if expected is None:
        return False
    held = {values.representative(values.after(r, read.site)) for r in model.instruction(read.site).writes}
    work, seen = [values.representative(expected)], set[int]()
    while work and not seen & held:
        seen.add(value := work.pop())
        if type(values.node(value)) is Phi:
            work += {*map(values.representative, values.arguments(value))} - seen
    return bool(seen & held) and all(
        user == swap.site or (guarded and model.instruction(user).flow)
        for user, guarded in model.transitive_users(read.site)
    )


def _tests(model: KernelModel, read: int) -> set[int]:
    """The blocks of the branches that the result of *read* decides; none if it is used in another way, or not at all."""
    users = list(model.transitive_users(read))
    deciding = all(guarded and model.instruction(user).flow for user, guarded in users)
    return {model.cfg.block_of[user] for user, _ in users} if deciding else set()


def _leaves(model: KernelModel, loop: Collection[int], address: int) -> Iterator[bool]:
    """For each read in *loop* from *address*, whether its result decides only whether *loop* iterates again."""
    cfg = model.cfg
    for site in model.shared.sites:
        if cfg.block_of[site] in loop and any(
            not a.writes and a.address == address for a in model.shared.accesses(site)
        ):
            tests = _tests(model, site)
            yield bool(tests) and all(
                any(edge.target not in loop for edge in cfg.successors[test]) for test in tests
            )


def _is_deciding(model: KernelModel, test: int, blocks: Collection[int]) -> bool:
    """Whether the branch of block *test* decides, by itself or by what it leads to, whether one of *blocks* is executed."""
    work, seen = list(blocks), set(blocks)
    for block in work:
        for edge in model.cfg.control_dependences(block):
            if edge.source == test:
                return True
            if edge.source not in seen:
                seen.add(edge.source)
                work.append(edge.source)
    return False


def _in_all_iterations(since: SinceBarrier, access: SharedAccess, resolve: Resolve) -> Swept:
    """*access*, of a path, in all iterations of the loops without synchronisation that advance its address."""
    memory = since.memory
    for own in memory.accesses(access.site) if memory.executed.certainly(access.site) else ():
        if own._replace(address=access.address) == access:
            first, steps = memory.sweep(own, since.ends)
            return (memory.along(first, resolve), steps) if steps else (access, ())
    return access, ()


def _holds_data(model: KernelModel, read: SharedAccess) -> bool:
    """Whether something may have been written before to what *read* reads: else no launch needs the value."""
    extents = model.fact(Extents)
    place = extents.of(read)
    for write in extents.writes:
        if model.reaches(write.site, read.site):
            other = extents.of(write)
            if place is None or other is None or extents.may_overlap(place, other):
                return True
    return False


def race_doubt(model: KernelModel, meeting: Conflict) -> Doubt:
    """The doubt about a conflict: about its path, about the shape of the CTA, or about its two accesses."""
    if meeting.doubt:
        return meeting.doubt
    first, second = meeting.operation.site, meeting.use.site
    few = model.values.is_alone or not all(
        model.views.context_of(site).threads & T.full(32) for site in (first, second)
    )
    if few and model.function.most_threads is None:
        return Doubt("the launch determines whether the CTA has this many threads")
    if _strides_by_cta(model, meeting):
        return Doubt("the two are the stores of one loop whose stride is the size of a smaller CTA")
    if may_be_one_warp(model) and model.where(lambda effects: effects.arrives is Barrier.WARP):
        return Doubt("nothing shows that a CTA has more than one warp")
    return (
        (NO_DOUBT if meeting.operation.writes else has_unused_result(model, meeting.path, first, second))
        or (
            synchronises_lanes(model, meeting.path, first)
            if differ_by_data(model, first, second)
            else NO_DOUBT
        )
        or runs_past_array(model, meeting.path, first, second)
    )


def _strides_by_cta(model: KernelModel, meeting: Conflict) -> bool:
    """Whether two stores are a constant number of elements apart, and do not meet in a CTA of as many threads.

    A loop over an array by the size of the CTA, unrolled, has such stores. ``.maxntid`` may then be larger than the
    CTAs that are launched. A store that only the first threads execute shows that there are more, unless the array ends
    for the others, as it does that many elements later for the earlier store.
    """
    first, second = meeting.operation, meeting.use
    values = model.values
    if (
        model.function.threads is not None
        or not (first.writes and second.writes)
        or first.size != second.size
    ):
        return False
    apart = values.constant_of(values.minus(second.address, first.address))
    size = abs(apart or 0) // first.size
    if not size or size % 32 or apart is None or apart % first.size or size >= values.threads:
        return False
    here, there = (model.views.context_of(access.site).threads for access in (first, second))
    few, count = T.full(size), here.bit_length()
    of_loop = here == T.full(count) and count < values.threads and there == T.full(max(count - size, 0))
    if not of_loop and not (here & ~few and there & ~few):
        return False
    memory = model.solution(WritesSince)[0].memory
    return bool(here & few and there & few) and not memory.across(first, second, here & few, there & few)
