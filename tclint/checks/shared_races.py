"""The check of shared memory that several warps access with no intervening barrier (PTX ISA 8.5, 9.7.13.1).

Two accesses race if one of them writes, a path leads from one to the other without a barrier, and two warps provably
access the same bytes. An index that is loaded may be that of the first element. What the lanes of a warp do to each
other is left to :mod:`.lane_races`. If the kernel does not fix the shape of its CTAs, a race is reported only if it
exists in every shape for which the shared arrays have room.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, product

from tclint.analyses.data_indices import DataReadsSince, DataWritesSince, SharedByData
from tclint.analyses.execution import ExecutionGuarantee
from tclint.analyses.extents import Extents
from tclint.analyses.lookups import Lookup, lookups
from tclint.analyses.model import KernelModel
from tclint.analyses.overlaps import OVERLAP, Conflict, OverlapSearch, Route
from tclint.analyses.plausibility import (
    NO_DOUBT,
    Doubt,
    differ_by_data,
    has_unused_result,
    runs_past_array,
    synchronises_lanes,
)
from tclint.analyses.since_barrier import (
    ReadsSince,
    SharedByBound,
    SinceBarrier,
    WritesSince,
    atomic,
    unordered_threads,
)
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.checks._repairs import barrier_between
from tclint.checks._wording import if_repeated
from tclint.findings.scales import Confidence, Severity
from tclint.ir.nodes import Memory, Operand, Special, Vector
from tclint.values import UniformityScope
from tclint.values import thread_masks as T
from tclint.values.cta_shape import AXES
from tclint.values.nodes import Later, Loaded
from tclint.values.shared_memory import Access

SM001 = RuleId("SM001")


@check(
    SM001,
    analyses=(
        DataReadsSince,
        DataWritesSince,
        ExecutionGuarantee,
        Extents,
        ReadsSince,
        SharedByBound,
        SharedByData,
        WritesSince,
    ),
)
def reused_without_barrier(model: KernelModel) -> Iterator[Hit]:
    """Report shared memory that two warps access, at least one of them writing, with no intervening barrier."""
    if model.values.threads <= 32 or not model.function.entry or not model.shared.writers:
        return
    found = [(model, meeting) for meeting in _meetings(model)] if model.values.shape is not None else []
    if model.values.shape is None or _decided_by_size(model):
        found += _in_every_shape(model)
    block_of = model.cfg.block_of
    for alike in grouped((block_of[each[1].use.site], each) for each in found).values():
        doubts = ((*each, _doubt(*each)) for each in alike)
        first = next(doubts)
        shaped, meeting, doubt = next((each for each in chain((first,), doubts) if not each[2]), first)
        hit = _hit(model, shaped, meeting, len({m.use.site for _, m in alike})).doubted(doubt.why)
        yield replace(hit, pairs=tuple(each.sites for _, each in alike))


def _decided_by_size(model: KernelModel) -> bool:
    """Whether the number of threads, which the launch chooses, decides which of them access shared memory, or where.

    Also if it decides which way all of them take, as where a compiler unrolls a loop over the warps of the CTA.
    """
    values, reachability = model.values, model.reachability
    if model.function.threads is not None:
        return False
    if any(map(model.fact(ExecutionGuarantee).by_size, model.shared.sites)):
        return True
    branches = {reachability.edge_predicate(edge) for edges in model.cfg.successors for edge in edges}
    addresses = {a.address for i in model.shared.sites for a in model.shared.accesses(i)}
    return any(values.depends_on_unmodelled_position(p) for p in branches if p is not None) or any(
        values.is_special(v, "%ntid.x") for v in values.subexpressions(*addresses, until=values.is_phi)
    )


_USUAL = ((16, 16), (32, 8), (32, 4), (32, 32), (8, 8), (64, 4), (32, 16), (128, 2), (8, 16), (32, 2))
"""Common two-dimensional CTA shapes, which are tried first."""
_ODD = (
    (32, 3), (32, 5), (32, 6), (32, 7), (64, 3), (96, 1), (96, 2), (192, 1), (192, 2), (384, 1), (24, 4), (24, 5), (24, 8),
    (12, 8), (48, 4), (10, 10), (18, 18),
)  # fmt: skip
"""Shapes with a side that is not a power of two, such as a tile of 16 by 16 with its halo."""
_SIZES = (256, 128, 512, 1024, 64)
"""Common sizes of one-dimensional CTAs."""
MAX_MODELLED_INSTRUCTIONS = 50_000
"""Instructions in the models of one kernel for all shapes together. A kernel that exceeds this is not checked."""


def _in_every_shape(model: KernelModel) -> Iterator[tuple[KernelModel, Conflict]]:
    """The conflicts that exist in CTAs of every shape for which shared memory has room, for a kernel of unknown shape.

    For a kernel whose threads are in one dimension, only the size of the CTA is unknown. If shared memory has room for
    one-dimensional shapes alone although the threads are in several dimensions, the intended shape was not understood,
    and there are no conflicts. For a correct kernel, the search ends at the first shape, or soon.
    """
    shapes = _shapes(model)
    if len(shapes) * len(model.function.instructions) > MAX_MODELLED_INSTRUCTIONS:
        why = f"more than {MAX_MODELLED_INSTRUCTIONS} instructions in the models for all shapes"
        model.ledger.give_up(OVERLAP, -1, why)
        return
    left: list[tuple[KernelModel, Conflict]] | None = None
    rows = model.values.one_dimensional
    for shaped in map(model.shaped, shapes):
        if shaped.fact(SharedByBound).fits:
            met = set[tuple[bool, int]]()
            found: list[tuple[KernelModel, Conflict]] = []
            for meeting in _meetings(shaped):
                if not _doubt(shaped, meeting):
                    met |= _blocks(model, meeting)
                    found.append((shaped, meeting))
                    if left and not any(met.isdisjoint(_blocks(model, each)) for _, each in left):
                        break
            left = (
                found
                if left is None
                else [each for each in left if not met.isdisjoint(_blocks(model, each[1]))]
            )
            rows = rows or not shaped.values.one_dimensional
            if not left:
                return
    if left and rows:
        yield from left


def _blocks(model: KernelModel, meeting: Conflict) -> set[tuple[bool, int]]:
    """The blocks of the two accesses: in CTAs of another size, one of them may conflict with another access."""
    block_of = model.cfg.block_of
    return {(False, block_of[meeting.operation.site]), (True, block_of[meeting.use.site])}


def _shapes(model: KernelModel) -> list[tuple[int, ...]]:
    """The shapes of more than one warp that CTAs of the kernel may have, the common ones first.

    Where shared memory has a row for each index along an axis, there is more than one thread along it.
    """
    most = model.function.most_threads or T.LIMIT
    if model.values.one_dimensional:
        return [(x,) for x in _SIZES if x <= most]
    sides = [1 << k for k in range(11)]
    flat = dict.fromkeys((*_USUAL, *product(sides, sides), *_ODD))
    deep = any(Special("%tid.z") in i.operands for i in model.function.instructions)
    shapes = [(x, y, z) for z in ((1, 2, 4) if deep else (1,)) for x, y in flat if 32 < x * y * z <= most]
    values = model.values
    terms = {
        t
        for i in model.shared.sites
        for a in model.shared.accesses(i)
        for t, _ in values.linear(a.address)[0]
    }
    rows = [axis for axis, name in enumerate(AXES) if values.special(name) in terms]
    return [shape for shape in shapes if all(shape[axis] > 1 for axis in rows)]


def _doubt(model: KernelModel, meeting: Conflict) -> Doubt:
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
    apart = values.constant_of(values.add(second.address, values.times(first.address, -1)))
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


def _meetings(model: KernelModel) -> Iterator[Conflict]:
    """The conflicts of *model*: accesses after writes, then writes after reads.

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
            met = list(_meetings_of(model, since, starts, passed))
            yield from met
            met = [each for each in met if atomic(model, each.operation.site)]
            passed |= {component[block_of[each.use.site]] for each in met}
            starts &= {each.operation.site for each in met}
    yield from lookups(model)


def _meetings_of(
    model: KernelModel, since: SinceBarrier, starts: frozenset[int], passed: frozenset[int]
) -> OverlapSearch:
    """The search for conflicts with the accesses *starts*, in other components of the CFG than *passed*."""
    component, block_of = model.cfg.component, model.cfg.block_of

    def wanted(access: Access) -> bool:
        instruction = model.instruction(access.site)
        if component[block_of[access.site]] in passed:
            return False
        if access.later and instruction.group != "cp.async":
            # Asynchronous reads are left to PR005.
            return access.writes and not since.writes and instruction.event == "issue"
        return access.writes or since.writes

    return since.conflicts(
        starts, wanted, lambda first, second, route: _meet(model, since, first, second, route)
    )


def _meet(model: KernelModel, since: SinceBarrier, first: Access, second: Access, route: Route) -> bool:
    """True if two warps provably access the same bytes, and one of them takes the path."""
    memory = since.memory
    views, full = model.views, T.full(model.values.threads)
    if isinstance(memory, SharedByData) and (first.site in memory.indexed) is (second.site in memory.indexed):
        return False
    here, there = (
        views.context_of(access.site).threads
        & (full if access.writes else memory.executed.takers(access.site))
        for access in (first, second)
    )
    if not (here and there) or (atomic(model, first.site) and atomic(model, second.site)):
        return False
    if second.later and not _holds_data(model, first):
        return False
    if second.writes and not atomic(model, second.site):
        there &= ~(_same_value if first.writes else _written_back)(model, first, second, route)
    path = since.by_warps(first.site, second.site, route.path)
    return any(memory.across(first, second, *pair) for pair in unordered_threads(here, there, path))


def _holds_data(model: KernelModel, read: Access) -> bool:
    """Whether something may have been written before to what *read* reads: else no launch needs the value."""
    extents = model.fact(Extents)
    place = extents.of(read)
    for write in extents.writes:
        if model.reaches(write.site, read.site):
            other = extents.of(write)
            if place is None or other is None or extents.meet(place, other):
                return True
    return False


def _written_back(model: KernelModel, read: Access, write: Access, route: Route) -> int:
    """The threads that store what they have read from the same address before, so that later reads are unaffected."""
    values = model.values
    every = T.full(values.threads)
    load, store = (model.instruction(a.site).match for a in (read, write))
    items = _stored(model, write.site)
    if load is None or store is None or load.element != store.element or not items:
        return 0
    size = int(store.element[2:]) // 8
    kept = every
    for place, item in enumerate(items):
        node = values.node(route.after(values.operand(item, write.site)))
        if type(node) is Later:
            node = values.node(node.value)
        if type(node) is not Loaded or node.site != read.site:
            return 0
        apart = values.add(write.address, values.times(read.address, -1))
        planes = values.bit_slices(values.add(apart, values.constant((place - node.index) * size)))
        if planes is None:
            return 0
        kept &= T.compare("eq", planes, T.constant(0, values.threads), values.threads)
    return kept


def _same_value(model: KernelModel, first: Access, second: Access, route: Route) -> int:
    """All threads if both stores write the same values, so their order does not matter; otherwise 0.

    The values are CTA-uniform, or both stores copy from where the address that they write says.
    """
    values = model.values
    source = _source_of_copy(model, first)
    if source is not None and source == _source_of_copy(model, second):
        return T.full(values.threads)
    one, two = ([values.operand(item, a.site) for item in _stored(model, a.site)] for a in (first, second))
    before, after = map(route.before, one), map(route.after, two)
    same = (
        bool(one)
        and list(before) == list(after)
        and all(values.uniformity(v) is UniformityScope.CTA for v in one)
    )
    return T.full(values.threads) if same else 0


def _source_of_copy(model: KernelModel, store: Access) -> int | None:
    """The distance of what *store* copies from the address that it writes, the same in all threads; None if unknown.

    Two stores at one distance write the same values to the same address: loads of one address agree.
    """
    values, distances = model.values, set[int]()
    match = model.instruction(store.site).match
    for place, item in enumerate(_stored(model, store.site)):
        node = values.node(values.operand(item, store.site))
        if type(node) is not Loaded:
            return None
        load = model.instruction(node.site).match
        if match is None or load is None or load.element != match.element or load.space == ".shared":
            return None
        apart = values.add(node.address, values.times(store.address, -1))
        distance_here = (node.index - place) * int(match.element[2:]) // 8
        distances.add(values.add(apart, values.constant(distance_here)))
    distance = next(iter(distances)) if len(distances) == 1 else None
    if distance is None or values.varying_at(distance):
        return None
    return distance if values.uniformity(distance) is UniformityScope.CTA else None


def _stored(model: KernelModel, site: int) -> tuple[Operand, ...]:
    """The operands whose values a store writes."""
    operand = next((o for o in model.instruction(site).operands if not isinstance(o, Memory)), None)
    if operand is None:
        return ()
    return operand.items if isinstance(operand, Vector) else (operand,)


def _hit(model: KernelModel, shaped: KernelModel, meeting: Conflict, count: int) -> Hit:
    """The finding about a conflict in *model*. *shaped* is the model for the CTA shape in which it was found."""
    first, second = meeting.operation, meeting.use
    before = "writes" if first.writes else "reads"
    verb = "overwrites" if second.writes else "reads"
    only_some = (
        ""
        if isinstance(meeting.path.state, bool)
        else "; a barrier on the path is not for all of these warps"
    )
    why = "may still be writing" if first.writes else "may still be reading"
    sites = first.site, second.site
    contended = any(atomic(model, site) for site in sites)
    indexed = not shaped.fact(SharedByData).indexed.isdisjoint(sites)
    data = ", if the data select the same element" if indexed else ""
    repeated = if_repeated(model, meeting.path) if second.later else ""
    assumed = (
        contended
        or indexed
        or isinstance(meeting, Lookup)
        or any(map(model.fact(ExecutionGuarantee).by_stride, sites))
    )
    return SM001.hit(
        site=second.site,
        message=f"{verb} shared memory that another warp {why}{data}{', if ' * bool(repeated)}{repeated}: no barrier orders the two{only_some}",
        steps=(
            Mark(
                first.site,
                f"one warp {before} it",
                role=shaped.describe_threads(shaped.views.context_of(first.site).threads),
            ),
            Mark(
                second.site,
                f"another warp {verb} the same bytes",
                role=shaped.describe_threads(shaped.views.context_of(second.site).threads),
            ),
        ),
        count=count,
        help="add a barrier of both warps (bar.sync, __syncthreads()) between the two",
        fixes=barrier_between(model, first.site, second.site),
        severity=Severity.ERROR if second.later else None,
        condition=repeated,
        confidence=Confidence.MEDIUM if assumed or not model.function.threads else None,
    )
