"""Which accesses race in all launches that a kernel may be made for, where it states neither their shape nor their arguments.

What is known of values is known for one launch, so each that is tried has a model of the kernel of its own
(:meth:`~tclint.analyses.model.KernelModel.shaped`). ``if (tid < n)``, ``y = x + n``, ``i % n``: which threads access which
bytes is known for one number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, product
from math import prod

from tclint._named_tuple import NamedTuple
from tclint.analyses.execution import ExecutionGuarantee
from tclint.analyses.happens_before import HappensBefore
from tclint.analyses.model import KernelModel
from tclint.analyses.overlaps import OVERLAP, Conflict
from tclint.analyses.plausibility import synchronises_lanes
from tclint.analyses.since_barrier import WritesSince
from tclint.analyses.warp_memory import SharedByBound, atomic, has_warps
from tclint.analyses.warp_races import Pairs, race_doubt, warp_races
from tclint.ir.nodes import Special, Variable
from tclint.isa.special_registers import WARP
from tclint.values import UniformityScope, Values
from tclint.values import thread_masks as T
from tclint.values.cta_shape import AXES
from tclint.values.nodes import AddressOf, Arithmetic, Loaded, Masked, Opaque, ParameterRead

__all__ = ["SIZES", "Search", "ShapedConflict", "in_all_launches", "more_than", "undoubted_races"]

Search = Callable[[KernelModel, Pairs | None], Iterable[Conflict]]
"""What finds the conflicts of a kernel in CTAs of one shape, at least those of some pairs, if these are given."""

_USUAL = (
    (16, 16),
    (64, 1),
    (32, 8),
    (32, 4),
    (32, 32),
    (8, 8),
    (64, 4),
    (32, 16),
    (128, 2),
    (8, 16),
    (32, 2),
)
"""Common shapes of CTAs, which are tried first: one of a single row among the first, which often lacks the conflicts of others."""
_ODD = (
    (32, 3), (32, 5), (32, 6), (32, 7), (64, 3), (96, 1), (96, 2), (192, 1), (192, 2), (384, 1), (24, 4), (24, 5), (24, 8),
    (12, 8), (48, 4), (10, 10), (18, 18),
)  # fmt: skip
"""Shapes with a side that is not a power of two, such as a tile of 16 by 16 with its halo."""
SIZES = (256, 128, 512, 1024, 64)
"""Common sizes of one-dimensional CTAs."""
_TWO_WARPS = 2 * WARP
MAX_MODELLED_INSTRUCTIONS = 50_000
"""Instructions in the models of one kernel for all shapes together. A kernel that exceeds this is not checked."""


_LEAST_SHAPES = 16
"""Shapes that count at least for a kernel in several dimensions: tiles in registers make thousands of accesses to compare."""
MAX_INTERVALS = 16
"""Barriers, and blocks of loops that store, of a kernel in which it is looked for accesses without a barrier in between."""
_WORD = 4
_ARGUMENTS = (4096, 100, 32, 16, 5, 2, 1)
"""Numbers that a launch may pass, besides those that follow from the size of a CTA: a large one, one that is not a
multiple of a warp, and widths of parts of a warp and their logarithms."""
MAX_WORDS = 6
"""Words of parameters that are taken to have one number together. A kernel with more is not tried."""
Word = tuple[str, int]
"""32 bits of a parameter: its name, and an offset in bytes."""


class ShapedConflict(NamedTuple):
    """A conflict in CTAs of one shape."""

    model: KernelModel
    """The model for that shape."""
    conflict: Conflict
    condition: str = ""
    """What a launch must have for the conflict, in words that follow *if*; empty if all that the kernel is made for do."""


def undoubted_races(model: KernelModel, pairs: Pairs | None) -> Iterator[Conflict]:
    """The races of :func:`~tclint.analyses.warp_races.warp_races` that nothing about the kernel makes doubtful."""
    return (each for each in warp_races(model, pairs) if not race_doubt(model, each))


def in_all_launches(model: KernelModel, direct: Iterable[Conflict], search: Search) -> list[ShapedConflict]:
    """The conflicts of a kernel in all launches that it may be made for, in words of the launches that have them.

    *direct* are those that are known whatever the launch; *search* finds those of CTAs of one shape, without any in doubt.
    """
    found = [ShapedConflict(model, each) for each in direct]
    if _may_conflict(model):
        if model.values.shape is None or _decided_by_size(model):
            found += _in_every_shape(model, search)
        elif not found and model.function.most_threads is None:
            found += _in_larger_ctas(model, search)
        found = found or _for_all_arguments(model, search)
    if has_warps(model):
        return found
    return [each if each.condition else each._replace(condition=more_than(WARP)) for each in found]


def _may_conflict(model: KernelModel) -> bool:
    """Whether a store and another access to its variable may be in one barrier interval, whatever the launch.

    The barriers that count are those that all threads pass in every launch. Shared memory whose size the launch decides
    is one variable.
    """
    cfg, values, shared = model.cfg, model.values, model.shared

    def for_all(site: int) -> bool:
        edges = cfg.control_dependences(cfg.block_of[site])
        predicates = (model.reachability.edge_predicate(edge) for edge in edges)
        return all(p is None or values.uniformity(p) <= UniformityScope.CTA for p in predicates)

    sites = [i for i in shared.sites if cfg.block_of[i] in cfg.rank]
    writers = frozenset(shared.writers).intersection(sites)
    barriers = frozenset(filter(for_all, model.fact(HappensBefore).partial_barriers.full))
    repeated = {cfg.block_of[i]: i for i in writers if cfg.block_of[i] in cfg.in_cycle}
    if len(repeated) + len(barriers) > MAX_INTERVALS:
        return True
    if any(a.shared and a.later for i in sites for a in model.instruction(i).accesses):
        return True  # what is asynchronous does not end at a barrier
    if any(model.reached_from((i,), (i,), barriers) for i in repeated.values()):
        return True
    variables = {i: set(_variables(model, i)) for i in sites}
    for start in (-1, *barriers):
        interval = model.reached_from((start,), sites, barriers)
        touched = Counter(variable for i in interval for variable in variables[i])
        stored = {variable for i in writers & interval for variable in variables[i]}
        if stored and len(interval) > 1 and (None in touched or any(touched[v] > 1 for v in stored)):
            return True
    return False


def _variables(model: KernelModel, site: int) -> Iterator[Variable | None]:
    """The variables that an instruction may access; None for an unknown one, and for those without a size."""
    for access in model.shared.accesses(site):
        origins = model.shared.origins(access.address)
        known = [v for origin in origins if (v := model.values.variable(origin)) is not None]
        yield from (v if v.size else None for v in known)
        if not known:
            yield None


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


def more_than(threads: int) -> str:
    """The condition that a CTA has more than so many *threads*, in words that follow *if*."""
    return f"the CTA has more than {threads} threads"


def _in_every_shape(model: KernelModel, search: Search) -> list[ShapedConflict]:
    """The conflicts that exist in CTAs of every shape for which shared memory has room, for a kernel of unknown shape.

    For a kernel whose threads are in one dimension, only the size of the CTA is unknown. Two warps may have none of the
    conflicts of more, as in a sum by halves, whose later steps are those of one warp, and neither may CTAs for which some
    code is not meant. If shared memory has room for
    one-dimensional shapes alone although the threads are in several dimensions, the intended shape was not understood,
    and there are no conflicts. For a correct kernel, the search ends at the first shape, or soon.
    """
    shapes = _shapes(model)
    if not shapes:
        model.ledger.give_up(OVERLAP, -1, "the kernel is made for CTAs of no shape that is tried")
    counted = len(shapes) if model.values.one_dimensional else max(len(shapes), _LEAST_SHAPES)
    if counted * len(model.function.instructions) > MAX_MODELLED_INSTRUCTIONS:
        why = f"more than {MAX_MODELLED_INSTRUCTIONS} instructions in the models for all shapes"
        model.ledger.give_up(OVERLAP, -1, why)
        return []
    left: list[ShapedConflict] | None = None
    understood = bool(shapes) and len(shapes[0]) == 1
    idle, tried = list[tuple[int, ...]](), list[tuple[int, ...]]()
    for at, shape in enumerate(shapes):
        shaped = model.shaped(shape)
        if not shaped.fact(SharedByBound).fits:
            continue
        if not model.values.one_dimensional and not _stores(shaped):
            idle.append(shape)
            continue
        tried.append(shape)
        understood = understood or any(
            map(_fits_in_rows, chain((shaped,), map(model.shaped, shapes[at + 1 :])))
        )
        if not understood:
            return []
        common = _common(model, shaped, search, left)
        if not common and left and shape == (_TWO_WARPS,):
            return [_for_more(each, _TWO_WARPS) for each in left]
        left = common + [
            _for_more(each, prod(shape))
            for each in left or ()
            if each not in common and _is_for_more(shaped, each)
        ]
        if not left:
            return []
    return [each if each.condition else each._replace(condition=_unlike(idle, tried)) for each in left or ()]


def _stores(shaped: KernelModel) -> bool:
    """Whether a thread of the CTA stores to shared memory: a kernel may do without it in small CTAs."""
    rank, block_of, context_of = shaped.cfg.rank, shaped.cfg.block_of, shaped.views.context_of
    return any(context_of(i).threads & shaped.cta for i in shaped.shared.writers if block_of[i] in rank)


def _unlike(idle: list[tuple[int, ...]], tried: list[tuple[int, ...]]) -> str:
    """What distinguishes the shapes that were *tried* from those that are *idle*, in words that follow *if*."""
    if not idle:
        return ""
    for axis, name in enumerate("xyz"):
        most = max(shape[axis] for shape in idle)
        if all(shape[axis] > most for shape in tried):
            return f"the CTA has more than {most} threads along {name}"
    most = max(map(prod, idle))
    if all(prod(shape) > most for shape in tried):
        return more_than(most)
    return f"the CTA has {' by '.join(map(str, tried[0]))} threads"


def _for_more(found: ShapedConflict, threads: int) -> ShapedConflict:
    """A conflict that CTAs of so many *threads* do not have; the common sizes below that of its model are tried downwards."""
    return found if found.condition else found._replace(condition=more_than(threads))


def _is_for_more(shaped: KernelModel, found: ShapedConflict) -> bool:
    """Whether a conflict *found* in a larger CTA is about what no thread of this one executes.

    Such code, as in ``if (tid < 128 && tid + 128 < ntid)``, shows that the kernel is made for more threads.
    """
    executed = (shaped.views.context_of(site).threads & shaped.cta for site in found.conflict.sites)
    return shaped.values.one_dimensional and shaped.cta < found.model.cta and not all(executed)


def _fits_in_rows(shaped: KernelModel) -> bool:
    """Whether the threads have more than one row, and shared memory has room for them."""
    return not shaped.values.one_dimensional and shaped.fact(SharedByBound).fits


def _common(
    model: KernelModel, shaped: KernelModel, search: Search, left: list[ShapedConflict] | None
) -> list[ShapedConflict]:
    """The conflicts *left* of those in other shapes that *shaped* has as well; all that it has if there is no other."""
    met = set[tuple[bool, int]]()
    found: list[ShapedConflict] = []
    for meeting in search(shaped, None if left is None else _in_blocks_of(model, left)):
        met |= _blocks(model, meeting)
        found.append(ShapedConflict(shaped, meeting))
        if left and not any(met.isdisjoint(_blocks(model, each.conflict)) for each in left):
            break
    if left is None:
        return found
    return [each for each in left if not met.isdisjoint(_blocks(model, each.conflict))]


def _in_blocks_of(model: KernelModel, left: list[ShapedConflict]) -> Pairs:
    """Whether a conflict of two accesses keeps one of those that are *left* (:func:`_blocks`)."""
    block_of, kept = model.cfg.block_of, set[tuple[bool, int]]()
    for each in left:
        kept |= _blocks(model, each.conflict)
    return lambda a, b: (False, block_of[a.site]) in kept or (True, block_of[b.site]) in kept


def _in_larger_ctas(model: KernelModel, search: Search) -> list[ShapedConflict]:
    """The conflicts of CTAs of the least usual size that the kernel may be made for, if that is more than two warps.

    For a kernel of which two warps have no conflict, and in which the number of threads decides no access: larger CTAs
    have all conflicts of smaller ones. What smaller ones read although no thread stores it is all that may be new, if that
    is why they are too small.
    """
    smaller, new, known = 0, frozenset[int](), True
    for size in sorted(SIZES):
        bounded = model.bounded(size)
        memory = bounded.fact(SharedByBound)
        if memory.fits:
            met = search(bounded, _with_one_of(new) if known else None) if smaller else ()
            return [ShapedConflict(bounded, each, more_than(smaller)) for each in met]
        smaller, new, known = size, new | memory.unstored, known and bool(memory.unstored)
    return []


def _with_one_of(sites: frozenset[int]) -> Pairs:
    """Whether one of two accesses is at one of *sites*."""
    return lambda a, b: a.site in sites or b.site in sites


def _blocks(model: KernelModel, meeting: Conflict) -> set[tuple[bool, int]]:
    """The blocks of the two accesses: in CTAs of another size, one of them may conflict with another access."""
    block_of = model.cfg.block_of
    return {(False, block_of[meeting.operation.site]), (True, block_of[meeting.use.site])}


def _shapes(model: KernelModel) -> list[tuple[int, ...]]:
    """The shapes of more than one warp that CTAs of the kernel may have, the common ones first.

    Where shared memory has a row for each index along an axis, there is more than one thread along it.
    """
    values, most = model.values, model.function.most_threads or T.LIMIT
    deciding = [] if values.one_dimensional else list(values.subexpressions(*_deciding(model)))
    if values.one_dimensional or _by_number(values, deciding):
        return [(x,) for x in SIZES if x <= most]
    powers = [1 << k for k in range(11)]
    flat = dict.fromkeys((*_USUAL, *product(powers, powers), *_ODD))
    deep, high = (_reads(model, axis) for axis in ("%tid.z", "%tid.y"))
    shapes = [(x, y, z) for z in ((1, 2, 4) if deep and high else (1,)) for x, y in flat]
    if deep and not high:
        shapes = [(x, 1, z) for x, z in flat]
    shapes = [shape for shape in shapes if WARP < prod(shape) <= most]
    terms = {
        t
        for i in model.shared.sites
        for a in model.shared.accesses(i)
        for t, _ in values.linear(a.address)[0]
    }
    rows = [axis for axis, name in enumerate(AXES) if values.special(name) in terms]
    sides, unit = _stated_sides(values, deciding)
    return [
        shape
        for shape in shapes
        if all(shape[axis] > 1 for axis in rows)
        and shape[0] % unit == 0
        and all(shape[axis] == side for axis, side in sides.items())
    ]


def _stated_sides(values: Values, deciding: Iterable[int]) -> tuple[dict[int, int], int]:
    """Axis -> the threads along it, where a kernel states them to compute lanes and warps, and what divides those along x.

    ``(y * 32 + x) / 32`` and ``(y * 32 + x) % 32`` are a warp and a lane only in rows of 32 threads, ``(y * 32 + x) / 16`` is
    one half of a row after the other, and ``ntid.x / 32`` leaves out threads of rows that are no multiple of that.
    """
    stated, unit = dict[int, set[int]](), 1
    x, y, z, width = (values.special(name) for name in (*AXES, "%ntid.x"))
    for part, by_warp in _divided(values, deciding):
        terms = dict(values.linear(part)[0])
        row, plane = terms.get(y, 0), terms.get(z, 0)
        if by_warp and terms == {width: 1}:
            unit = WARP
        elif terms.get(x) == 1 and row > 1:
            stated.setdefault(0, set()).add(row)
            if plane and plane % row == 0:
                stated.setdefault(1, set()).add(plane // row)
    return {axis: found.pop() for axis, found in stated.items() if len(found) == 1}, unit


def _by_number(values: Values, deciding: Iterable[int]) -> bool:
    """Whether only the number of a thread, ``y * ntid.x + x``, is a part of what is *deciding*: no shape changes that."""
    x, y, z, width = (values.special(name) for name in (*AXES, "%ntid.x"))
    numbered = False
    for value in deciding:
        operands = values.node(value).operands
        if y in operands or z in operands or x in operands:
            node = values.node(value)
            if (
                type(node) is not Opaque
                or node.name != "mad"
                or {*node.operands[:2]} != {y, width}
                or node.operands[2] != x
            ):
                return False
            numbered = True
    return numbered


def _divided(values: Values, deciding: Iterable[int]) -> Iterator[tuple[int, bool]]:
    """What is divided, by any power of two, or has a remainder by the size of a warp, in what is *deciding*; whether it is by the
    size of a warp."""
    for value in deciding:
        node = values.node(value)
        if type(node) is Masked and node.mask == WARP - 1:
            yield node.value, True
        elif type(node) is Arithmetic and node.name == "shr":
            shifted, by = node.operands
            bits = values.constant_of(by)
            if bits:
                yield shifted, bits == WARP.bit_length() - 1


def _deciding(model: KernelModel) -> set[int]:
    """The addresses in shared memory, and what decides which threads access it."""
    executed, made = model.fact(ExecutionGuarantee), set[int]()
    for site in model.shared.sites:
        if model.cfg.block_of[site] in model.cfg.rank:
            made.update(access.address for access in model.shared.accesses(site))
            made.update(executed.deciding(site))
    return made


def _reads(model: KernelModel, axis: str) -> bool:
    """Whether the kernel asks for the position of a thread along *axis*."""
    return any(Special(axis) in i.operands for i in model.function.instructions)


def _for_all_arguments(model: KernelModel, search: Search) -> list[ShapedConflict]:
    """The conflicts that launches with all arguments have in which several warps access what the conflict is about.

    For a kernel of which parameters decide which threads access shared memory, or where: ``if (tid < n)``, ``y = x + n``. Any of
    the numbers that are tried may be a width for which each warp has bytes of its own, so for a correct kernel the search
    ends soon.
    """
    bounds, words = _deciding_words(model)
    if not words or not _unsynchronised(model):
        return []
    if len(words) > MAX_WORDS:
        model.ledger.give_up(OVERLAP, -1, f"more than {MAX_WORDS} words of parameters that decide accesses")
        return []
    shapes = _shapes_for_arguments(model)
    if len(shapes) * len(_ARGUMENTS) * len(model.function.instructions) > MAX_MODELLED_INSTRUCTIONS:
        why = f"more than {MAX_MODELLED_INSTRUCTIONS} instructions in the models for all arguments"
        model.ledger.give_up(OVERLAP, -1, why)
        return []
    left: list[ShapedConflict] | None = None
    idle = 0
    for shape in shapes:
        size = prod(shape)
        # No thread does the work beyond a bound on the thread index that is more than the threads.
        launches = dict.fromkeys(
            tuple((word, min(number, size) if word in bounds else number) for word in words)
            for number in (size, size // 2, *_ARGUMENTS)
        )
        for arguments in map(dict, launches):
            shaped = model.shaped(shape, arguments)
            if left and not all(_several_warps(shaped, each.conflict) for each in left):
                idle = max(idle, *arguments.values())
                continue
            if not shaped.fact(SharedByBound).fits:
                continue
            met = [each for each in _common(model, shaped, search, left) if not _of_two_arrays(each)]
            left = met
            if not left:
                return []
    names = list(dict.fromkeys(name for name, _ in sorted(bounds)))
    condition = f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} more than {idle}" if idle else ""
    return [each._replace(condition=condition) for each in left or () if not _by_lanes(each)]


def _of_two_arrays(found: ShapedConflict) -> bool:
    """Whether the accesses may be of two arrays, which overlap only for an argument that no launch passes.

    Plain stores are, and so may be accesses at a constant distance in memory whose size the launch decides.
    """
    shaped, first, second = found.model, found.conflict.operation, found.conflict.use
    if all(access.writes and not atomic(shaped, access.site) for access in (first, second)):
        return True
    values = shaped.values
    distance = values.constant_of(values.minus(first.address, second.address))
    return bool(distance) and not any(shaped.size(term) for term, _ in values.linear(first.address)[0])


def _deciding_words(model: KernelModel) -> tuple[set[Word], list[Word]]:
    """The words of parameters that decide which threads access shared memory, and those that decide that or where."""
    executed, bounds, places = model.fact(ExecutionGuarantee), set[int](), set[int]()
    for site in model.shared.sites:
        if model.cfg.block_of[site] in model.cfg.rank:
            bounds.update(executed.deciding(site))
            places.update(access.address for access in model.shared.accesses(site))
    within = set(_words(model, bounds))
    return within, sorted(within.union(_words(model, places)))


def _words(model: KernelModel, made: Iterable[int]) -> Iterator[Word]:
    """The words of parameters that values are computed from, not counting what is loaded."""
    values = model.values
    for value in values.subexpressions(*made, until=lambda v: type(values.node(v)) is Loaded):
        node = values.node(value)
        if type(node) is ParameterRead and node.size == _WORD:
            terms, offset = values.linear(node.address)
            base = values.node(terms[0][0]) if len(terms) == 1 else None
            if type(base) is AddressOf:
                yield base.name, offset


def _unsynchronised(model: KernelModel) -> bool:
    """Whether a store and another access may be unordered, of which the launch decides which threads make one, or where.

    The two have different addresses: what a thread does with its own element needs no order.
    """
    since = model.solution(WritesSince)[0]
    executed, rank, block_of = since.executed, model.cfg.rank, model.cfg.block_of
    sites = [i for i in model.shared.sites if block_of[i] in rank]
    writers = frozenset(model.shared.writers).intersection(sites)
    places = {i: {access.address for access in model.shared.accesses(i)} for i in sites}
    open_sites = {
        i
        for i in sites
        if next(_words(model, places[i]), None) or next(_words(model, executed.deciding(i)), None)
    }
    for i in sorted(open_sites):
        others = [j for j in sites if (i in writers or j in writers) and places[i] != places[j]]
        if others and (
            model.reached_from((i,), others, since.ends) or i in model.reached_from(others, (i,), since.ends)
        ):
            return True
    return False


def _shapes_for_arguments(model: KernelModel) -> list[tuple[int, ...]]:
    """Some of the shapes that CTAs may have, for launches with different arguments."""
    if model.function.threads is not None:
        return [model.function.directives[".reqntid"]]
    if _reads(model, "%tid.z"):
        return []
    if model.values.cta_size is not None and model.values.one_dimensional:
        return [(model.values.cta_size,)]
    most = model.function.most_threads or T.LIMIT
    if not model.values.one_dimensional:
        return [shape for shape in _USUAL[:4] if prod(shape) <= most]
    room = model.fact(SharedByBound).room.bit_length()
    sizes = [size for size in SIZES[:3] if size <= room] or [size for size in SIZES if size <= room]
    return [(size,) for size in sizes if size <= most]


def _several_warps(shaped: KernelModel, meeting: Conflict) -> bool:
    """Whether both accesses are made by threads, and not all of these are in one warp."""
    here, there = (shaped.views.context_of(site).threads for site in meeting.sites)
    return bool(here and there and not T.one_warp(here | there))


def _by_lanes(found: ShapedConflict) -> bool:
    """Whether lanes synchronise between the two: a bound that the launch passes may leave one warp."""
    return bool(synchronises_lanes(found.model, found.conflict.path, found.conflict.operation.site))
