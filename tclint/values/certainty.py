"""Values in every lane of one warp of the first CTA that hold in every launch: nothing is made up.

A :class:`Certainty` is a trial (:mod:`tclint.values.trials`) in which all is unknown that a launch, memory or another warp
decides: parameters, the size of the grid, what is loaded. What remains is what a thread computes from its own index, the
shape of the CTA and constants. A lane of which it says that it executes an instruction does so in every launch with CTAs of
that shape, as far as the launch is an ordinary one, of which the caller states what it assumes.

An instruction is in given iterations of the loops around it, and that these occur is a question of its own
(:meth:`Certainty.last_iterations`). Of a loop that does not contain it, nothing is known. Variables are at made-up addresses,
of which they have the declared alignment: a caller asks for two layouts, since only what both agree on is certain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tclint._named_tuple import NamedTuple
from tclint.ir.cfg import CFG, Edge
from tclint.ir.nodes import Variable
from tclint.isa.callees import ASSERTION, SYSTEM_CALLS
from tclint.isa.forms import floating
from tclint.isa.special_registers import SPECIAL_REGISTERS, WARP, Triple
from tclint.values import Values
from tclint.values.nodes import (
    AddressOf,
    Allocated,
    Compare,
    FloatConstant,
    Loaded,
    Node,
    ParameterRead,
    Phi,
)
from tclint.values.trials import UNKNOWN, Lanes, Made, Trial

__all__ = ["Certainty", "Place", "ending"]

_SPACING = 1 << 21
"""Bytes from one variable to the next one: more than shared memory has."""
_KNOWN = ("%tid", "%ntid", "%ctaid", "%laneid", "%lanemask")
"""How the special registers begin that the index of a thread in the first CTA decides, with the shape of that CTA."""
_OPEN = frozenset((ParameterRead, Loaded, Allocated, FloatConstant))
"""The nodes of which nothing is known."""


class Place(NamedTuple):
    """Where lanes are."""

    shape: Triple
    """The threads of the CTA along each dimension."""
    warp: int
    loops: tuple[tuple[int, int], ...]
    """The headers of the loops around an instruction, the outer ones first, each with the iterations of it that are over."""
    layout: int = 0
    """Which of the two layouts of variables it is, 0 or 1."""

    def after(self, header: int, iterations: int) -> Place:
        """The same after so many *iterations* of the loop of *header*."""
        return self._replace(loops=tuple((h, iterations if h == header else n) for h, n in self.loops))


class Certainty(Trial):
    """Expressions, and the lanes that reach blocks, at a *place*.

    *assumed* states whether a comparison holds that the launch decides, in ordinary launches; None: some do either.
    """

    def __init__(
        self,
        values: Values,
        cfg: CFG,
        place: Place,
        assumed: Callable[[int], bool | None],
        ends: frozenset[int],
    ) -> None:
        """*ends*: the blocks in which a thread may end otherwise than by an exit (:func:`ending`)."""
        x, y, z = place.shape
        super().__init__(values, cfg, Made(place.shape, place.warp))
        self.place, self.assumed, self._ends = place, assumed, ends
        self.existing: Lanes = tuple(int(self.first + lane < x * y * z) for lane in range(WARP))
        self._iterations = dict(place.loops)
        self._around = frozenset(self._iterations)
        self.decided = dict[int, bool]()
        """The comparisons that are assumed to hold, or not to."""

    # ------------------------------------------------------------ expressions

    def _computed(self, value: int, node: Node) -> Lanes:
        if type(node) in _OPEN:
            return UNKNOWN
        if type(node) is AddressOf:
            return (self.address_of(value),) * WARP
        found = super()._computed(value, node)
        if type(node) is Compare and None in found and (truth := self.assumed(value)) is not None:
            found = tuple(int(truth) if held is None else held for held in found)
            self.decided[value] = truth
        return found

    def address_of(self, value: int) -> int | None:
        """The made-up address of the variable whose address *value* is; None if it is of something else."""
        variable: Variable | None = self.values.variable(value)
        if variable is None:
            return None
        return (value % 500 + 1) * _SPACING + max(variable.align, 1) * self.place.layout

    def _special(self, value: int, name: str) -> Lanes:
        if not name.startswith(_KNOWN) or SPECIAL_REGISTERS[name].varies:
            return UNKNOWN
        return super()._special(value, name)

    def _operation(
        self, name: str, modifiers: tuple[str, ...], operands: Sequence[Lanes], own: bool
    ) -> Lanes:
        return UNKNOWN if floating(modifiers) else super()._operation(name, modifiers, operands, own)

    def _result(self, value: int, site: int, register: int) -> Lanes:
        """Lanes may be elsewhere when a thread exchanges something with them."""
        match = self.values.function.instructions[site].match
        pure = match is not None and not match.problem and match.form.from_operands
        return super()._result(value, site, register) if pure else UNKNOWN

    # ------------------------------------------------------------ loops

    def _is_around(self, block: int) -> bool:
        """Whether all loops around *block* are around the instruction."""
        return self._around.issuperset(self.cfg.nest.around(block))

    def _merged(self, phi: int, node: Phi) -> Lanes:
        if not self._is_around(node.block):
            return UNKNOWN
        over = self._iterations.get(node.block)
        if not over:
            return super()._merged(phi, node)
        start, step = self._counter(phi, node)
        return (
            UNKNOWN if start < 0 else self._each(lambda n, by: n + by * over, *map(self.lanes, (start, step)))
        )

    def _counter(self, phi: int, node: Phi) -> tuple[int, int]:
        """What the phi of a header begins with, and what each iteration adds to it; -1 for both if iterations differ."""
        body, values = self.cfg.loops[node.block], self.values
        entered, steps = set[int](), set[int]()
        for source, argument in zip(self.cfg.sources[node.block], values.arguments(phi), strict=False):
            if source in body:
                steps.add(values.minus(argument, phi))
            else:
                entered.add(argument)
        if len(entered) != 1 or len(steps) != 1 or not self._is_fixed(min(steps), node.block):
            return -1, -1
        return entered.pop(), steps.pop()

    def unrolled(self, value: int) -> int:
        """*value* without the counters of loops around the instruction: what they begin with, and all that was added."""
        values = self.values
        total, work = value, list(values.linear(value)[0])
        while work:
            term, factor = work.pop()
            node = values.node(term)
            if type(node) is not Phi or (over := self._iterations.get(node.block)) is None:
                continue
            start, step = self._counter(term, node)
            if start >= 0:
                now = values.add(start, values.times(step, over))
                total = values.add(total, values.times(values.minus(now, term), factor))
                work += ((t, f * factor) for t, f in values.linear(now)[0])
        return total

    def _is_fixed(self, value: int, header: int) -> bool:
        """Whether no iteration of the loop of *header* changes *value*."""
        body, block_of = self.cfg.loops[header], self.cfg.block_of
        return not any(
            (at if kind == "block" else block_of[at]) in body for kind, at in self.values.varying_at(value)
        )

    def last_iterations(self, header: int) -> Lanes:
        """How many iterations of the loop of *header* are over in the last one of each lane that enters it."""
        cfg, leaving = self.cfg, self.cfg.leaving[header]
        if (
            len(leaving) != 1
            or leaving[0].predicate < 0
            or not cfg.loops[header].isdisjoint(cfg.exits | self._ends)
        ):
            return UNKNOWN
        (edge,) = leaving
        p = self.values.before(edge.predicate, cfg.blocks[edge.source].end - 1)
        node, truth = self.values.comparison(p, edge.value)
        if node is None:
            return UNKNOWN
        sides = [self._advancing(side, header) for side in node.operands]
        (left, ahead), (right, behind) = sides
        limits = _limits(node)

        def last(a: int, by: int, b: int, its: int) -> int | None:
            over = _first(node.relation, truth, a - b, by - its)
            ends = (a, b) if over is None else (a, b, a + by * over, b + its * over)
            return over if all(end in limits for end in ends) else None

        return self._each(last, left, ahead, right, behind)

    def _advancing(self, value: int, header: int) -> tuple[Lanes, Lanes]:
        """A value in the first iteration of the loop of *header*, and what each iteration adds to it."""
        values, total = self.values, self.values.constant(0)
        for term, factor in values.linear(value)[0]:
            node = values.node(term)
            if type(node) is Phi and node.block == header:
                start, step = self._counter(term, node)
                if start < 0:
                    return UNKNOWN, UNKNOWN
                total = values.add(total, values.times(step, factor))
            elif not self._is_fixed(term, header):
                return UNKNOWN, UNKNOWN
        return self.lanes(value), self.lanes(total)

    # ------------------------------------------------------------ control flow

    def taken(self, edge: Edge) -> Lanes:
        """See :meth:`Trial.taken`; unknown for a loop that does not contain the instruction."""
        if edge.source in self._ends or not self._is_around(edge.source):
            return UNKNOWN
        return super().taken(edge)

    def _follows(self, outer: int, block: int) -> bool:
        """See :meth:`Trial._follows`; False if a thread may end between the two."""
        cfg = self.cfg
        ending = any(cfg.dominates(outer, b) and not cfg.dominates(block, b) for b in self._ends)
        return not ending and super()._follows(outer, block)


def ending(cfg: CFG) -> frozenset[int]:
    """The blocks in which a thread may end otherwise than by an exit: by a trap, or in a function that it calls."""
    return failing(cfg) | _calling(cfg, lambda callee: callee not in SYSTEM_CALLS)


def failing(cfg: CFG) -> frozenset[int]:
    """The blocks in which a thread ends the launch: by a trap, or by an assertion that fails."""
    return _calling(cfg, ASSERTION.__eq__).union(filter(cfg.aborts, cfg.order))


def _calling(cfg: CFG, counts: Callable[[str], bool]) -> frozenset[int]:
    """The blocks that call one of the functions whose names count; an unknown one has the name ""."""
    instructions = cfg.function.instructions
    calls = (i for use in cfg.function.uses if use.flow for i in use.sites if instructions[i].flow == "call")
    return frozenset(cfg.block_of[i] for i in calls if counts(instructions[i].callee or ""))


def _limits(node: Compare) -> range:
    """The numbers that a comparison reads as they are."""
    half = 1 << node.width - 1
    return range(-half, half) if node.signed else range(2 * half)


def _first(relation: str, truth: bool, difference: int, by: int) -> int | None:
    """The first k from 0 on for which ``difference + k * by`` is zero (*relation* ``eq``), or negative; with *truth* false,
    for which it is not. None if there is none."""
    if relation == "eq":
        if (difference == 0) is truth:
            return 0
        if not by:
            return None
        over, rest = divmod(-difference, by)
        return 1 if not truth else over if not rest and over > 0 else None
    if (difference < 0) is truth:
        return 0
    if truth:
        return difference // -by + 1 if by < 0 else None
    return -(difference // by) if by > 0 else None
