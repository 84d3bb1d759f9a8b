"""Where threads access memory in every launch: which byte of a variable, in which thread and iteration.

An interval bounds where an access may be, and so shows that it stays inside its variable. That it leaves the variable is shown
only by a thread that certainly executes the access, and whose address is known: :meth:`CertainAccesses.first` looks for one
in the first CTA (:mod:`tclint.values.certainty`). Where ``.reqntid`` does not state the size of the CTA, it must exist in
CTAs of every size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice, pairwise
from math import prod

from tclint._named_tuple import NamedTuple
from tclint.analyses.execution import Condition, ExecutionGuarantee, conditions
from tclint.analyses.gaps import ambiguous
from tclint.analyses.model import KernelModel
from tclint.ir.nodes import Immediate, Variable
from tclint.isa.accesses import Access, StateSpace, Via
from tclint.isa.forms import Match
from tclint.isa.special_registers import ALL_LANES, SPECIAL_REGISTERS, WARP, Triple
from tclint.values import UniformityScope
from tclint.values import thread_masks as T
from tclint.values.certainty import Certainty, Place, ending
from tclint.values.nodes import (
    AddressOf,
    Arithmetic,
    CollectiveResult,
    Compare,
    Constant,
    Loaded,
    Opaque,
    ParameterRead,
    SpecialRead,
    Sum,
    Unmodelled,
)
from tclint.values.shared_memory import SharedAccess, SharedMemory
from tclint.values.trials import Lanes

__all__ = ["CertainAccesses", "Memory", "Witness", "launched"]

_SIZES: tuple[Triple, ...] = ((1, 1, 1), (2, 1, 1), (32, 1, 1), (256, 1, 1), (1024, 1, 1))
"""CTAs of one dimension of which a launch decides the size."""
_SHAPES: tuple[Triple, ...] = ((16, 16, 1), (32, 8, 1))
"""CTAs of more dimensions."""
_WARPS = 4
"""Warps at either end of a CTA that are looked at."""
_LOOPS = 2
"""The innermost loops around an access of which iterations other than the first are looked at."""
MAX_QUESTIONS = 1000
"""Accesses of one function for which a witness is looked for."""
MAX_PARTS = 200
"""Subexpressions of an address that are looked at in advance."""
_OPEN = frozenset((CollectiveResult, Loaded, ParameterRead, Unmodelled))
"""What an address may be computed from that is not the same in every launch."""
_WORD = 4
"""The bytes of an access up to which its alignment is not asked for, where nothing else is known of the address."""
_FAR = 1 << 31
"""An offset from which on it is more likely that a number has wrapped."""
_POINTERS = frozenset((AddressOf, Loaded, ParameterRead))
"""What an address is an offset of."""
_POSITIVE = frozenset((ParameterRead, Constant, Arithmetic, Opaque))
_MONOTONE = frozenset(("shr", "div", "mul", "mad"))


class Memory(SharedMemory):
    """The accesses of a function to memory of any state space, mbarriers included, at an address that it computes."""

    greatest = (1 << 64) - 1

    @staticmethod
    def within(access: Access) -> bool:
        """Whether an access is in memory, at the address of an operand."""
        return access.via in (Via.ADDRESS, Via.DESCRIPTOR) and access.space not in (
            StateSpace.TENSOR,
            StateSpace.REGISTERS,
        )

    def accesses(self, site: int) -> tuple[SharedAccess, ...]:
        """The accesses of the instruction at *site* of which a byte is certainly accessed.

        None of an instruction with an immediate that its operand does not take: it has no meaning. They are not kept: they
        are as many as the text has instructions.
        """
        match = self.sites.get(site)
        if match is None or not self._is_legal(site, match):
            return ()
        return tuple(a for a in self._find(site, match) if a.size)

    def _is_legal(self, site: int, match: Match) -> bool:
        """Whether the immediates of an instruction are such as its operands take."""
        operands = self.function.instructions[site].operands
        return all(
            spec.allows(operand.value)
            for at, _, spec in match.limited
            if isinstance(operand := operands[at], Immediate) and isinstance(operand.value, int)
        )

    def _least(self, site: int, match: Match, access: Access) -> int:
        size = super()._least(site, match, access)
        return size if not access.part or self.extent(site, access.part) == size else 0


class Witness(NamedTuple):
    """A thread of the first CTA that certainly executes an access, and where."""

    thread: int
    loops: tuple[tuple[int, int], ...]
    """The headers of the loops around the access, the outer ones first, each with the iterations of it that are over."""
    offset: int
    decided: tuple[int, ...] = ()
    """The comparisons of what the launch states with zero that are taken to hold, such as that there is something to do."""
    repeated: bool = False
    """Whether a loop around it is taken to have a second iteration."""
    size: int | None = None
    """The threads that the CTA must have; None: it is so in CTAs of any size."""


def launched(model: KernelModel) -> KernelModel:
    """The model of the launch that was recorded, with its arguments of 32 bits; *model* itself if none was."""
    recorded = model.recorded
    if recorded is None:
        return model
    arguments = {
        (parameter.name, 0): int.from_bytes(recorded.parameters[at : at + size], "little")
        for parameter, (at, size) in zip(model.function.parameters, recorded.layout, strict=False)
        if size == _WORD
    }
    made = model.shaped(recorded.block, arguments)
    made.recorded = recorded
    return made


class CertainAccesses:
    """The accesses of one function, as far as they are the same in every launch."""

    def __init__(self, model: KernelModel) -> None:
        self.model, self.values, self.cfg = model, model.values, model.cfg
        self.memory = Memory(model.function, model.values)
        self._guarantee = model.fact(ExecutionGuarantee)
        self._trials: dict[tuple[Place, bool], Certainty] = {}
        self._last: dict[tuple[Place, int, bool], Lanes] = {}
        self._left = MAX_QUESTIONS
        self._bases: dict[int, int] = {}
        self._assumed: dict[int, bool | None] = {}
        self._wanted: dict[int, bool | None] = {}

    # ------------------------------------------------------------ questions

    def all(self) -> list[SharedAccess]:
        """The accesses of instructions that threads may reach, in program order.

        Without those of at most four bytes through a pointer, in a kernel without variables that it may point to, and those to
        one of several variables of one name.
        """
        rank, block_of, context_of = self.cfg.rank, self.cfg.block_of, self.model.views.context_of
        matches = self.memory.sites
        worth = {id(match): self._is_worth_asking(match) for match in matches.values()}
        sites = (i for i in sorted(matches) if worth[id(matches[i])] and block_of[i] in rank)
        found = [a for i in sites for a in self.memory.accesses(i) if context_of(i).threads]
        return [a for a in found if not self._is_ambiguous(a)]

    def _is_ambiguous(self, access: SharedAccess) -> bool:
        """Whether an access is to a variable whose name another one has, too."""
        found = self.variable(access)
        return found is not None and found[1].space != ".param" and found[1].name in self._ambiguous

    @cached_property
    def _ambiguous(self) -> set[str]:
        return ambiguous(self.model)

    def _is_worth_asking(self, match: Match) -> bool:
        """Whether the accesses of an instruction may be to a variable, or are so large that alignment matters."""
        accesses = list(filter(self.memory.within, match.accesses))
        return self._has_variables or any(
            not a.outside or not isinstance(a.extent, int) or a.extent > _WORD for a in accesses
        )

    def size(self, variable: Variable) -> int:
        """The bytes of *variable*; 0 if they are unknown, or of a parameter of a call, which may be another one elsewhere.

        A recorded launch states the size of dynamic shared memory.
        """
        if variable.space == ".param":
            return variable.size if variable in self.model.function.parameters else 0
        if not variable.size and variable.space == ".shared" and self.model.recorded is not None:
            return self.model.recorded.shared
        return variable.size

    def inside(self, access: SharedAccess, base: int, variable: Variable) -> bool:
        """Whether intervals show that *access* stays inside the *variable* at *base*."""
        span = self._span(access, base)
        return span is not None and span[0] >= 0 and span[1] <= self.size(variable)

    def always_outside(self, access: SharedAccess, base: int, variable: Variable) -> int | None:
        """The offset of *access* that is nearest to the *variable* at *base*, if all of them are outside; else None.

        Compilers unroll loops up to a bound that they do not know, and then access elements that do not exist where the bound
        excludes it. So nothing is said of an access that continues a sequence of others which begins inside the variable, nor
        of one that all threads of the CTA, or launches, may be without (:meth:`_is_chosen`).
        """
        span = self._span(access, base)
        if span is None or not (span[0] > self.size(variable) - access.size or span[1] < access.size):
            return None
        if any(map(self._is_chosen, conditions(self.model, access.site))):
            return None
        terms, constant = self.values.linear(access.address)
        forms = ((other, *self.values.linear(other.address)) for other in self.all())
        alike = [(offset, other) for other, rest, offset in forms if rest == terms and offset != constant]
        within = sorted({offset for offset, other in alike if self.inside(other, base, variable)})
        gaps = [b - a for a, b in pairwise(within)] or [self.size(variable) - 1] * len(within)
        if gaps and min(abs(offset - constant) for offset, _ in alike) <= max(gaps):
            return None
        return span[0] if span[0] >= 0 else span[1] - access.size

    def _is_chosen(self, condition: Condition) -> bool:
        """Whether a launch, or data that all threads have in common, decides whether a *condition* holds."""
        values = self.values
        p = values.before(condition.register, condition.at)
        if values.uniformity(p) is UniformityScope.CTA:
            return True
        parts = values.subexpressions(p, until=lambda value: type(values.node(value)) is Loaded)
        return self._ordinary(p) is None and any(
            type(node) is ParameterRead
            or (type(node) is SpecialRead and not SPECIAL_REGISTERS[node.name].distinguishes_threads)
            for node in map(values.node, parts)
        )

    def _span(self, access: SharedAccess, base: int) -> tuple[int, int] | None:
        """Where the bytes begin and end that *access* may touch, relative to *base*; None if that is not bounded."""
        addresses, threads = self.values.addresses, self.model.views.context_of(access.site).threads
        form = addresses.over_iterations(access.address)
        return addresses.span(form, access.size, threads) if form.base == base else None

    def variable(self, access: SharedAccess) -> tuple[int, Variable] | None:
        """The variable in which *access* is meant to be, with its address as a value; None if it is not known to be one."""
        values = self.values
        base = values.based_on(access.address)
        if base is None and any(f == 1 and values.is_phi(t) for t, f in values.linear(access.address)[0]):
            base = values.based_on(self.base(access))  # a loop may have advanced it
        variable = None if base is None else values.variable(base)
        return None if base is None or variable is None else (base, variable)

    @cached_property
    def _has_variables(self) -> bool:
        """Whether there is a variable with a size."""
        variables = (*self.model.function.variables.values(), *self.model.module.variables.values())
        return any(v.size and v.space in (".global", ".const", ".local") for v in variables)

    def is_multiple(self, address: int, multiple: int) -> bool:
        """Whether all that is added to a pointer in *address* is a *multiple* of a power of two: a quick test."""
        values = self.values
        terms, constant = values.linear(address)
        rest = (values.times(t, f) for t, f in terms if f != 1 or type(values.node(t)) not in _POINTERS)
        return not constant % multiple and all(
            values.known_bits(v)[0] & multiple - 1 == multiple - 1 for v in rest
        )

    def base(self, access: SharedAccess) -> int:
        """The part of the address that all threads of the CTA share and that never changes."""
        if access.address not in self._bases:
            addresses = self.values.addresses
            form = addresses.decomposed(access.address, addresses.is_index, addresses.is_invariant, _always)
            self._bases[access.address] = form.base
        return self._bases[access.address]

    def first(
        self,
        access: SharedAccess,
        base: int,
        wrong: Callable[[int], bool],
        least: int = 1,
        again: bool = False,
    ) -> Witness | None:
        """A thread that executes *access* at an offset from *base* that is *wrong*; None if none is known.

        It does so in every launch with CTAs of at least so many threads as *least*, but for what the witness states. *base* is
        the address of a variable, or a value that all threads share and of which the address is a sum. With *again*, loops
        of which nothing is known are taken to have a second iteration.
        """
        if self._is_open(access, base):
            return None
        if self._left <= 0:
            self.model.ledger.give_up(
                "accesses outside their variable", access.site, "there are too many of them"
            )
            return None
        self._left -= 1
        ask = _Question(access, base, wrong, again)
        for size in (None, *dict.fromkeys(self._expected(access, base))):
            shapes = [s for s in (self.shapes if size is None else ((size, 1, 1),)) if prod(s) >= least]
            found = self._in_all(shapes, ask) if self._may_be_wrong(shapes, ask) else None
            if found is not None:
                return found._replace(size=size)
        return None

    def _may_be_wrong(self, shapes: Sequence[Triple], ask: _Question) -> bool:
        """Whether an offset that the index of the thread alone decides is wrong in a CTA of the first shape: a quick test."""
        offset = self.values.minus(ask.access.address, ask.base)
        threads = self.model.views.context_of(ask.access.site).threads
        if not shapes or not self.values.addresses.is_index(offset):
            return bool(shapes)
        found = self.values.addresses.offsets(offset, threads & T.full(prod(shapes[0])))
        return any(map(ask.wrong, found or ()))

    def somewhere(self, access: SharedAccess, base: int) -> Witness | None:
        """A thread of a CTA of at least two that executes *access* at a known offset from *base*; None if none is known."""
        if self._is_open(access, base):
            return None
        shapes = (shape for shape in self.shapes if prod(shape) >= 2)
        return self._in_all([*islice(shapes, 1)], _Question(access, base, _always))

    def _is_open(self, access: SharedAccess, base: int) -> bool:
        """Whether the offset of *access* is computed from what no launch has in common: a quick test.

        Which threads call a function is not known either.
        """
        values = self.values
        if not self.model.function.entry:
            return True
        parts = islice(values.subexpressions(values.minus(access.address, base)), MAX_PARTS)
        known = set(values.subexpressions(base))
        return any(type(values.node(v)) in _OPEN for v in parts if v not in known)

    @cached_property
    def shapes(self) -> tuple[Triple, ...]:
        """Shapes of the CTA, which have to stand for all that a launch may have."""
        function, values = self.model.function, self.values
        if function.threads is not None and values.shape is not None:
            return (values.shape,)
        most = function.most_threads or T.LIMIT
        shapes = _SIZES if values.one_dimensional else (*_SIZES, *_SHAPES)
        return tuple(s for s in shapes if s[0] * s[1] <= most) or ((1, 1, 1),)

    # ------------------------------------------------------------ sizes that are not stated

    def _expected(self, access: SharedAccess, base: int) -> Iterator[int]:
        """Numbers of threads that the kernel is evidently made for, of which the launch decides the number.

        That which ``.maxntid`` states, if the kernel never asks for it; as many as a guard of *access* admits; those of a
        warp, if the address is the same in each; and those for which all other accesses have room (:meth:`_room`).
        """
        function, values = self.model.function, self.values
        if function.threads is not None or not values.one_dimensional:
            return
        if values.cta_size is not None:
            yield values.cta_size
            return
        threads = self.model.views.context_of(access.site).threads
        if threads and not threads & threads + 1 and threads.bit_length() < values.threads:
            yield threads.bit_length()
        planes = self._planes(access, base)
        if planes is None:
            return
        first, every = T.full(WARP), T.full(values.threads)
        if all((plane & first) * T.lane_zero(values.threads) & every == plane & every for plane in planes):
            yield WARP
        room = self._room(access)
        if room is not None:
            yield room

    def _planes(self, access: SharedAccess, base: int) -> T.BitSlices | None:
        """The offset of *access* from *base* in every thread, if the index of the thread alone decides it."""
        return self.values.exact_slices(self.values.minus(access.address, base))

    def _room(self, access: SharedAccess) -> int | None:
        """A usual size of CTAs for which all accesses but *access* have room, which has room for a part of the last warp.

        None if there is no such size. Whole warps that are outside show that the kernel is made for fewer threads, of which
        each has room.
        """
        own = self._capacities.get((access.site, access.address))
        others = [n for key, n in self._capacities.items() if key != (access.site, access.address)]
        least = min(others, default=0)
        usual = least >= 2 * WARP and least.bit_count() == 1
        return least if own is not None and least - WARP < own < least and usual else None

    @cached_property
    def _capacities(self) -> dict[tuple[int, int], int]:
        """How many threads each access to a variable has room for, if all threads make it and their index decides where."""
        found = dict[tuple[int, int], int]()
        for access in self.all():
            of = self.variable(access) if access.lanes == ALL_LANES else None
            if of is None or not self.size(of[1]):
                continue
            threads, planes = self.model.views.context_of(access.site).threads, self._planes(access, of[0])
            every = self.values.threads
            if planes is None or threads != T.full(every):
                continue
            last = T.constant(self.size(of[1]) - access.size, every)
            outside = T.compare("lt", last, planes, every) | planes[-1] & threads
            if outside:
                found[access.site, access.address] = (outside & -outside).bit_length() - 1
        return found

    # ------------------------------------------------------------ executions

    def _in_all(self, shapes: Sequence[Triple], ask: _Question) -> Witness | None:
        """A witness in each of *shapes*, of which the last one is the answer; with positive numbers only if need be."""
        for asked in (ask, ask._replace(positive=True)):
            found = None
            for shape in shapes:
                found = self._in(shape, asked)
                if found is None:
                    break
            if found is not None:
                return found
        return None

    def _in(self, shape: Triple, ask: _Question) -> Witness | None:
        around = self.cfg.enclosing_loops(self.cfg.block_of[ask.access.site])
        around.sort(key=lambda h: -len(self.cfg.loops[h]))
        for warp in self._warps(shape, ask.access.site):
            begin = Place(shape, warp, tuple((h, 0) for h in around))
            for place, lanes in self._iterations(begin, around[-_LOOPS:], ask):
                found = self._at(place, lanes, ask)
                if found is not None:
                    return found
        return None

    def _warps(self, shape: Triple, site: int) -> Iterable[int]:
        """The warps at either end of a CTA of which threads may execute *site*."""
        x, y, z = shape
        threads = self.model.views.context_of(site).threads & T.full(x * y * z)
        warps = [first // WARP for first, _ in T.by_warp(threads)]
        return dict.fromkeys((*warps[:_WARPS], *warps[-_WARPS:]))

    def _iterations(
        self, place: Place, headers: Sequence[int], ask: _Question, lanes: int = ALL_LANES
    ) -> Iterator[tuple[Place, int]]:
        """The first two and the last iterations of loops, with the lanes for which they exist, as far as that is known."""
        if not headers:
            yield place, lanes
            return
        header, *inner = headers
        yield from self._iterations(place, inner, ask, lanes)
        last = self._last_iterations(place, header, ask.positive)
        known = [n for lane, n in enumerate(last) if n and lanes >> lane & 1]
        for over in {max(known, default=0), 1}:
            there = sum(
                1 << lane
                for lane, n in enumerate(last)
                if (ask.again and over == 1 if n is None else n >= over)
            )
            if over and there & lanes:
                yield from self._iterations(place.after(header, over), inner, ask, there & lanes)

    def _last_iterations(self, place: Place, header: int, positive: bool) -> Lanes:
        place = place.after(header, 0)
        key = place, header, positive
        if key not in self._last:
            self._last[key] = self._trial(place, positive).last_iterations(header)
        return self._last[key]

    def _at(self, place: Place, lanes: int, ask: _Question) -> Witness | None:
        """A lane of *lanes* that executes the access at a wrong offset, in these iterations."""
        trial, other = (self._trial(place._replace(layout=layout), ask.positive) for layout in (0, 1))
        offsets, lanes = self._offsets(trial, ask), lanes & ask.access.lanes
        wrong = [
            (lane, offset)
            for lane, offset in enumerate(offsets)
            if offset is not None and lanes >> lane & 1 and abs(offset) < _FAR and ask.wrong(offset)
        ]
        if not wrong:
            return None
        executing, there = (each.executing(ask.access.site) for each in (trial, other))
        elsewhere = self._offsets(other, ask)
        for lane, offset in wrong:
            if executing[lane] == there[lane] == 1 and trial.existing[lane] and elsewhere[lane] == offset:
                counts = tuple(p for p in trial.decided if self._ordinary(p) is None)
                repeated = any(
                    over and self._last_iterations(place, header, ask.positive)[lane] is None
                    for header, over in place.loops
                )
                return Witness(trial.first + lane, place.loops, offset, counts, repeated)
        return None

    def _offsets(self, trial: Certainty, ask: _Question) -> Lanes:
        """How far the access of each lane is from the base."""
        return trial.lanes(self.values.minus(trial.unrolled(ask.access.address), ask.base))

    def _trial(self, place: Place, positive: bool) -> Certainty:
        key = place, positive
        if key not in self._trials:
            assumed = self._positive if positive else self._ordinary
            self._trials[key] = Certainty(self.values, self.cfg, place, assumed, self._ends)
        return self._trials[key]

    @cached_property
    def _ends(self) -> frozenset[int]:
        return ending(self.cfg)

    # ------------------------------------------------------------ ordinary launches

    def _ordinary(self, p: int) -> bool | None:
        """Whether the comparison *p* holds wherever the grid has more work than the first CTA; None if that leaves it open."""
        if p not in self._assumed:
            every = self.model.cta
            holds = [t for t in (True, False) if self._guarantee.bounds_position(every, p, t)]
            self._assumed[p] = holds[0] if len(holds) == 1 else None
        return self._assumed[p]

    def _positive(self, p: int) -> bool | None:
        """:meth:`_ordinary`, and where the numbers that the launch states are positive."""
        if (truth := self._ordinary(p)) is not None:
            return truth
        if p not in self._wanted:
            self._wanted[p] = self._of_count(p)
        return self._wanted[p]

    def _of_count(self, p: int) -> bool | None:
        """Whether *p*, which compares a number that the launch states with 0 or 1, holds if that is positive."""
        values, node = self.values, self.values.node(p)
        if type(node) is not Compare:
            return None
        left, right = map(values.constant_of, node.operands)
        count, number = (node.left, right) if left is None else (node.right, left)
        least = -1 if node.relation == "lt" and left is None and number is not None and number <= 0 else 0
        if number is None or not self._counts(count, least):
            return None
        if node.relation == "eq":
            return False if number == 0 else None
        if left is None:
            return False if number <= 1 else None
        return True if number <= 0 else None

    def _counts(self, value: int, least: int) -> bool:
        """Whether the launch states *value*, or a product or quotient of sums that are as large: the tiles of so many elements.

        A sum may have a constant of at least *least*: a count less one is not negative.
        """
        values, read = self.values, False
        for part in values.subexpressions(value, until=lambda v: type(values.node(v)) is ParameterRead):
            node = values.node(part)
            if type(node) is Sum:
                if node.constant < least or any(f < 0 for _, f in node.terms):
                    return False
            elif type(node) not in _POSITIVE or (
                isinstance(node, Arithmetic | Opaque) and node.name not in _MONOTONE
            ):
                return False
            read = read or type(node) is ParameterRead
        return read


def _always(value: int) -> bool:
    return True


class _Question(NamedTuple):
    """What :meth:`CertainAccesses.first` looks for."""

    access: SharedAccess
    base: int
    wrong: Callable[[int], bool]
    again: bool = False
    positive: bool = False
    """Whether the numbers that the launch states are taken to be positive."""
