"""Values in every lane of one warp, for a launch, words of memory and parameters that are made up.

A :class:`Trial` computes expressions with the semantics of the ISA table. What threads share and the text does not
determine has a made-up number: a parameter, a word at an address. A word of memory depends on its address alone, so
that lanes which load from one address have one number, and those which load from different addresses may not. What no
expression models is unknown in every lane, and so is all that is computed from it, unless it does not matter. Floating-point
arithmetic is an unknown symmetric function of its operands, which sums up the lanes of a warp alike in any order.

Every loop is in its first iteration: a phi of its header is what enters the loop. A trial is thus the beginning of an
execution, as far as the numbers that are made up can occur. One loop may be in a later iteration, in which only its
counters are known.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import isnan
from operator import mul
from typing import Any
from zlib import crc32

from tclint._dataclass import dataclass
from tclint.ir.cfg import CFG, Edge
from tclint.isa.effects import Exchange
from tclint.isa.forms import Match, floating
from tclint.isa.lane_exchange import match_result, reduced, shuffled, vote_result
from tclint.isa.special_registers import SPECIAL_REGISTERS, WARP, LaunchShape, Triple
from tclint.values import Values
from tclint.values import thread_masks as T
from tclint.values.addresses import numbers
from tclint.values.integers import EVERY, applied, as_signed, type_width
from tclint.values.nodes import (
    PREDICATES,
    AddressOf,
    Allocated,
    Applied,
    Broadcast,
    CollectiveResult,
    Compare,
    Constant,
    Elected,
    FloatConstant,
    Loaded,
    Logic,
    Masked,
    Negation,
    Node,
    Packed,
    ParameterRead,
    PartOf,
    Phi,
    Select,
    SpecialRead,
    Sum,
    Unmodelled,
    UnsignedReading,
)

__all__ = ["FRACTION", "TYPICAL", "UNKNOWN", "Lanes", "Made", "Trial"]

Lanes = tuple["int | None", ...]
"""A number in each lane of the warp; None: unknown. Truths are 0 and 1."""
UNKNOWN: Lanes = (None,) * WARP
"""Unknown in every lane."""
_ALL: Lanes = (1,) * WARP
_NONE: Lanes = (0,) * WARP
_GRID = (64, 8, 4)
"""CTAs along each dimension."""
FRACTION = 1 << 10
"""What a floating-point number is multiplied with to become a number of a trial, which has its order."""
_AMPLE = 1 << 12
"""A parameter of which nothing is known: a bound that no index of the first CTAs reaches."""
_LARGE = 1 << 23
"""Beyond most numbers that a kernel compares with, as a floating-point number too."""
TYPICAL = (0, 1, 2, 5, 1000, -1, _LARGE, -_LARGE)
"""Words of memory, besides the numbers that the kernel compares with."""
MAX_DEPTH = 120
"""Operands of operands that are followed."""


@dataclass(frozen=True, slots=True)
class Made:
    """What is made up."""

    shape: Triple
    """The threads of the CTA along each dimension."""
    warp: int
    own: bool = False
    """Whether words that each thread loads for itself are made up, too; otherwise they are unknown."""
    seed: int = 0
    """Chooses other words."""
    typical: tuple[int, ...] = TYPICAL
    """The numbers from which words are chosen."""
    given: tuple[tuple[int, int], ...] = ()
    """Values that all threads share, with their numbers."""
    stored: tuple[tuple[int, int], ...] = ()
    """Addresses, with the words there."""
    header: int = -1
    """The header of a loop that is not in its first iteration; -1: there is none."""
    iterations: int = 0
    """How many iterations of that loop are over."""

    def with_value(self, value: int, number: int) -> Made:
        """The same with a number for *value*."""
        return replace(self, given=(*(g for g in self.given if g[0] != value), (value, number)))

    def in_iteration(self, header: int, iterations: int) -> Made:
        """The same with the loop of *header* after so many *iterations*."""
        return replace(self, header=header, iterations=iterations)

    def with_word(self, address: int, number: int) -> Made:
        """The same with a word at *address*."""
        return replace(self, stored=(*(s for s in self.stored if s[0] != address), (address, number)))


class Trial:
    """Expressions, and the lanes that reach blocks, for what is *made* up."""

    def __init__(self, values: Values, cfg: CFG, made: Made) -> None:
        self.values, self.cfg, self.made = values, cfg, made
        self.shape = LaunchShape(_GRID, made.shape)
        self.first = made.warp * WARP
        """The first thread of the warp."""
        self.by_own_words = False
        """Whether a value was unknown, or is made up, that each thread has for itself."""
        self._given, self._stored = dict(made.given), dict(made.stored)
        self._lanes: dict[int, Lanes] = {}
        self._own: set[int] = set()
        """The values that depend on words which each thread loads for itself."""
        self._reaching: dict[int, Lanes] = {}
        self._depth = 0

    # ------------------------------------------------------------ expressions

    def lanes(self, value: int) -> Lanes:
        """The number that *value* is in each lane."""
        value = self.values.representative(value)
        found = self._lanes.get(value)
        if found is not None:
            return found
        if self._depth > MAX_DEPTH:
            return UNKNOWN
        self._lanes[value] = UNKNOWN  # the answer to a recursive question
        self._depth += 1
        node = self.values.nodes[value]
        found = self._by_index(value, node)
        if found is None:
            found = self._computed(value, node)
            if not self._own.isdisjoint(map(self.values.representative, node.operands)):
                self._own.add(value)
        self._depth -= 1
        self._lanes[value] = found
        return found

    def _by_index(self, value: int, node: Node) -> Lanes | None:
        """The number of each thread if the index of the thread alone decides it in a CTA of known shape."""
        if type(node) in PREDICATES or type(node) is Elected:
            mask = self.values.mask(value)
            return None if mask is None else tuple(mask >> self.first + lane & 1 for lane in range(WARP))
        if self.values.shape is None or type(node) in (Loaded, Phi, ParameterRead):
            return None
        planes = self.values.exact_slices(value)
        if planes is None:
            return None
        planes = tuple([plane >> self.first for plane in planes])
        return tuple(numbers(planes, T.full(WARP)))

    def _computed(self, value: int, node: Node) -> Lanes:
        evaluate = _EVALUATE.get(type(node))
        if evaluate is not None:
            return evaluate(self, node)
        if isinstance(node, Applied):
            return self._applied(node)
        if type(node) is Phi:
            return self._merged(value, node)
        if type(node) is ParameterRead or type(node) is AddressOf or type(node) is Allocated:
            return (self._shared(value, node),) * WARP
        if type(node) is SpecialRead:
            return self._special(value, node.name)
        if type(node) is Loaded:
            return self._loaded(value, node)
        if type(node) is CollectiveResult or (type(node) is Unmodelled and node.register >= 0):
            return self._result(value, node.site, node.register)
        return UNKNOWN

    def _each(self, compute: Callable[..., int | None], *operands: Lanes) -> Lanes:
        """What *compute* makes of the numbers of each lane; unknown where one of them is."""
        if all(lanes.count(lanes[0]) == WARP for lanes in operands):  # most values are the same in all lanes
            same = [lanes[0] for lanes in operands]
            return UNKNOWN if None in same else (compute(*same),) * WARP
        results: dict[tuple[int | None, ...], int | None] = {}
        found = []
        for row in zip(*operands, strict=True):
            if row not in results:
                results[row] = None if None in row else compute(*row)
            found.append(results[row])
        return tuple(found)

    def _sum(self, node: Sum) -> Lanes:
        factors = [factor for _, factor in node.terms]
        return self._each(
            lambda *row: sum(map(mul, row, factors), node.constant),
            *(self.lanes(term) for term, _ in node.terms),
        )

    def _compared(self, node: Compare) -> Lanes:
        width, every = node.width, (1 << node.width) - 1

        def holds(left: int, right: int) -> int:
            if node.signed:
                left, right = as_signed(left, width), as_signed(right, width)
            else:
                left, right = left & every, right & every
            return int(left == right if node.relation == "eq" else left < right)

        return self._each(holds, self.lanes(node.left), self.lanes(node.right))

    def _logic(self, node: Logic) -> Lanes:
        rows = zip(self.lanes(node.left), self.lanes(node.right), strict=True)
        if node.name == "xor":
            return tuple(None if None in (a, b) else int(a != b) for a, b in rows)
        decisive = int(node.name == "or")
        return tuple(decisive if decisive in row else None if None in row else 1 - decisive for row in rows)

    def _selected(self, node: Select) -> Lanes:
        rows = zip(*map(self.lanes, node.operands), strict=True)
        return tuple(yes if truth or yes == no else None if truth is None else no for truth, yes, no in rows)

    def _applied(self, node: Applied) -> Lanes:
        own = not self._own.isdisjoint(map(self.values.representative, node.operands))
        return self._operation(node.name, node.modifiers, [self.lanes(v) for v in node.operands], own)

    def _operation(
        self, name: str, modifiers: tuple[str, ...], operands: Sequence[Lanes], own: bool
    ) -> Lanes:
        """What an instruction computes; *own*: of words that each thread loads for itself."""
        if not floating(modifiers):
            return self._each(lambda *row: applied(name, modifiers, row), *operands)
        if name == "setp":
            ordered = tuple(_ORDERED.get(m, m) for m in modifiers)
            known = any(m in _ORDERED for m in modifiers) and ".nan" not in ordered and ".num" not in ordered
            return self._each(lambda *row: applied("setp", ordered, row), *operands) if known else UNKNOWN
        if not own and any(len(set(lanes)) > 1 for lanes in operands):
            return UNKNOWN  # of the index of the thread: the function matters
        return self._each(lambda *row: _mixed(name, *sorted(row)) % (2 * _LARGE) - _LARGE, *operands)

    # ------------------------------------------------------------ what is made up

    def _shared(self, value: int, node: Node) -> int:
        """The number of a value that all threads share."""
        if value in self._given:
            return self._given[value]
        if type(node) is not ParameterRead or node.size == 8:
            return (_mixed("address", value) & 0xFFFF) + 1 << 32
        return _AMPLE if not self.made.seed else self._typical(value)

    def _typical(self, *key: int) -> int:
        numbers = self.made.typical
        return numbers[_mixed("word", self.made.seed, *key) % len(numbers)]

    def _special(self, value: int, name: str) -> Lanes:
        register = SPECIAL_REGISTERS[name]
        if value in self._given:
            return (self._given[value],) * WARP
        if register.varies:
            return UNKNOWN
        return tuple(register.value(self.shape, (0, 0, 0), self.first + lane) for lane in range(WARP))

    def _loaded(self, value: int, node: Loaded) -> Lanes:
        addresses = self.lanes(node.address)
        kind = self._match(node.site).element
        if self.values.is_private(node):
            self.by_own_words = True
            return UNKNOWN
        if len(set(addresses)) > 1:
            self.by_own_words = True
            if not self.made.own:
                return UNKNOWN
            self._own.add(value)
        return self._each(lambda address: self._word(address + node.index * self.size(node), kind), addresses)

    def size(self, node: Loaded) -> int:
        """The size of what is loaded, in bytes."""
        return type_width(self._match(node.site).element) // 8

    def _word(self, address: int, kind: str) -> int:
        width, number = type_width(kind), self._stored.get(address)
        if number is None:
            number = self._typical(address)
        return as_signed(number, width) if kind[1] in "sf" or width >= 32 else number & (1 << width) - 1

    def _match(self, site: int) -> Match:
        match = self.values.function.instructions[site].match
        assert match is not None
        return match

    # ------------------------------------------------------------ what lanes exchange

    def _result(self, value: int, site: int, register: int) -> Lanes:
        """The result of an instruction without an expression: what lanes exchange, or what a thread finds in memory."""
        instruction = self.values.function.instructions[site]
        match = instruction.match
        if match is None or match.problem:
            return UNKNOWN
        form = match.form
        exchanged = self._exchanged(site, register, match)
        if exchanged is not None:
            return exchanged
        if form.name == "activemask":
            return self._active(site)
        if form.updates:
            self.by_own_words = True
            if not self.made.own or form.event:
                return UNKNOWN
            self._own.add(value)
            return tuple(self._word(_mixed("atomic", site, lane), match.element) for lane in range(WARP))
        if form.event or not form.from_operands or register != instruction.writes[0]:
            return UNKNOWN
        operands = [self.lanes(self.values.operand(o, site)) for o in instruction.operands[1:]]
        own = self._sources_own(site)
        if own:
            self._own.add(value)
        return self._operation(form.name.partition(".")[0], match.modifiers, operands, own)

    def _active(self, site: int) -> Lanes:
        """The lanes that execute an instruction together, as those that execute it see them."""
        executing = self.executing(site)
        if None in executing:
            return UNKNOWN
        return (as_signed(sum(bool(e) << lane for lane, e in enumerate(executing)), 32),) * WARP

    def _exchanged(self, site: int, register: int, match: Match) -> Lanes | None:
        """The result of a shuffle, a vote, a match or a reduction; None of any other instruction."""
        instruction, kind = self.values.function.instructions[site], match.form.effects.exchange
        if kind is None or kind is Exchange.ELECT:
            return None
        operands = [self.lanes(self.values.operand(o, site)) for o in instruction.operands[1:]]
        second = instruction.writes and instruction.writes[0] != register
        if self._sources_own(site):
            self._own.add(self.values.representative(self.values.after(register, site)))
        if kind is Exchange.SHUFFLE:
            source, by, bounds = operands[:3]
            return self._each(
                lambda lane, b, c: (
                    shuffled(match, lane, b, c)[1] if second else source[shuffled(match, lane, b, c)[0]]
                ),
                tuple(range(WARP)),
                by,
                bounds,
            )
        executing, members = self.executing(site), operands[-1][0] if len(set(operands[-1])) == 1 else None
        held = {lane: operands[0][lane] for lane in range(WARP) if executing[lane]}
        if members is None or None in executing:
            return UNKNOWN
        return self._combined(match, kind, held, members & 0xFFFFFFFF, bool(second))

    def _combined(
        self, match: Match, kind: Exchange, held: Mapping[int, int | None], members: int, second: bool
    ) -> Lanes:
        """What lanes compute together of the values that those which execute the instruction hold."""
        among = sum(1 << lane for lane in held) & members
        if kind is Exchange.MATCH:
            found = match_result(match, dict(held), among)
            if found is None:
                return UNKNOWN
            return tuple(found[lane][second] if lane in found else None for lane in range(WARP))
        if kind is Exchange.VOTE:
            cast = {lane: held.get(lane, None) if among >> lane & 1 else 0 for lane in range(WARP)}
            if match.modes.unanimous:
                cast = {lane: 1 if not among >> lane & 1 else p for lane, p in cast.items()}
            result = vote_result(match, cast)
        else:
            result = reduced(match, dict(held), among)
        return (None if result is None else as_signed(result, 32) if result > 1 else result,) * WARP

    def _sources_own(self, site: int) -> bool:
        """Whether what the instruction at *site* exchanges depends on words that each thread loads for itself."""
        instruction = self.values.function.instructions[site]
        reads = (self.values.representative(self.values.before(r, site)) for r in instruction.reads)
        return not self._own.isdisjoint(reads)

    # ------------------------------------------------------------ control flow

    def taken(self, edge: Edge) -> Lanes:
        """The lanes that leave the source of *edge* by it once they are there."""
        if edge.predicate < 0:
            return _ALL if edge.case < 0 else self._case(edge)
        truths = self.lanes(self.values.before(edge.predicate, self.cfg.blocks[edge.source].end - 1))
        value = edge.value
        if truths.count(truths[0]) == WARP:
            return UNKNOWN if truths[0] is None else _ALL if bool(truths[0]) is value else _NONE
        return tuple([None if truth is None else int(bool(truth) is value) for truth in truths])

    def _case(self, edge: Edge) -> Lanes:
        """The lanes that choose an entry of a branch table."""
        last = self.cfg.blocks[edge.source].end - 1
        chosen = self.lanes(self.values.operand(self.values.function.instructions[last].operands[0], last))
        return tuple(None if index is None else int(index == edge.case) for index in chosen)

    def reaching(self, block: int) -> Lanes:
        """The lanes that reach *block* in the first iterations of all loops around it."""
        chain = []
        while block not in self._reaching:
            if not block:
                self._reaching[block] = _ALL
                break
            chain.append(block)
            block = self.cfg.idom[block]
        for b in reversed(chain):
            self._reaching[b] = UNKNOWN  # the answer to a recursive question
            self._reaching[b] = self._entered(b)
        return self._reaching[chain[0] if chain else block]

    def _entered(self, block: int) -> Lanes:
        cfg = self.cfg
        outer = cfg.idom[block]
        if self._follows(outer, block):
            return self._reaching[outer]
        found = _NONE
        for edge in cfg.predecessors[block]:
            if cfg.rank.get(edge.source, len(cfg.blocks)) < cfg.rank[block]:
                found = _either(found, _both(self.reaching(edge.source), self.taken(edge)))
        return found

    def _follows(self, outer: int, block: int) -> bool:
        """Whether a thread that is in *outer* reaches *block* after all, unless it exits."""
        while outer >= 0 and outer != block:
            outer = self.cfg.ipdom.get(outer, -1)
        return outer == block

    def executing(self, site: int) -> Lanes:
        """The lanes that execute the instruction at *site* in the first iterations."""
        instruction = self.values.function.instructions[site]
        found = self.reaching(self.cfg.block_of[site])
        if instruction.guard < 0:
            return found
        truths = self.lanes(self.values.before(instruction.guard, site))
        return _both(
            found, tuple(None if t is None else int(bool(t) is not instruction.negated) for t in truths)
        )

    def _merged(self, phi: int, node: Phi) -> Lanes:
        cfg, body = self.cfg, self.cfg.loops.get(node.block, ())
        if node.block == self.made.header:
            counter = self.values.induction(phi)
            if counter is None or counter[2] is not None:
                return UNKNOWN
            start, stride, _ = counter
            return self._each(lambda n: n + stride * self.made.iterations, self.lanes(start))
        arriving = [
            (source, argument)
            for source, argument in zip(cfg.sources[node.block], self.values.arguments(phi), strict=False)
            if source not in body
        ]
        if len(arriving) == 1:
            return self._carried(phi, arriving[0][1])
        ways = [(self.arriving(source, node.block), argument) for source, argument in arriving]
        found: list[int | None] = []
        for lane in range(WARP):
            sure = [argument for way, argument in ways if way[lane]]
            able = sure or [argument for way, argument in ways if way[lane] is None]
            its = {self.lanes(argument)[lane] for argument in able}
            found.append(its.pop() if len(its) == 1 else None)
        if any(self.values.representative(argument) in self._own for _, argument in ways):
            self._own.add(phi)
        return tuple(found)

    def _carried(self, phi: int, argument: int) -> Lanes:
        found = self.lanes(argument)
        if self.values.representative(argument) in self._own:
            self._own.add(phi)
        return found

    def arriving(self, source: int, block: int) -> Lanes:
        """The lanes that go from *source* to *block*."""
        ways = _NONE
        for edge in self.cfg.successors[source]:
            if edge.target == block:
                ways = _either(ways, self.taken(edge))
        return _both(self.reaching(source), ways)


def _both(left: Lanes, right: Lanes) -> Lanes:
    if left in (_ALL, right) or right == _NONE:
        return right
    if right == _ALL or left == _NONE:
        return left
    rows = zip(left, right, strict=True)
    return tuple([0 if 0 in row else None if None in row else 1 for row in rows])


def _either(left: Lanes, right: Lanes) -> Lanes:
    if left in (_NONE, right) or right == _ALL:
        return right
    if right == _NONE or left == _ALL:
        return left
    rows = zip(left, right, strict=True)
    return tuple([1 if 1 in row else None if None in row else 0 for row in rows])


def _mixed(name: str, *numbers: int) -> int:
    """A number that *name* and *numbers* determine, and that differs in most cases where they do."""
    return crc32(struct.pack(f"<{len(numbers)}Q", *(n & EVERY for n in numbers)), crc32(name.encode()))


def _constant(number: float) -> int:
    return 0 if isnan(number) else int(max(min(number, _AMPLE), -_AMPLE) * FRACTION)


_ORDERED = {
    ".equ": ".eq",
    ".neu": ".ne",
    ".ltu": ".lt",
    ".leu": ".le",
    ".gtu": ".gt",
    ".geu": ".ge",
} | dict.fromkeys((".f16", ".bf16", ".f32", ".f64"), ".s64")
"""Comparisons of floating-point numbers as those of numbers of a trial, none of which is a NaN."""
_EVALUATE: dict[type[Node], Callable[[Trial, Any], Lanes]] = {
    Constant: lambda trial, node: (node.number,) * WARP,
    FloatConstant: lambda trial, node: (_constant(node.number),) * WARP,
    Sum: Trial._sum,
    Masked: lambda trial, node: trial._each(lambda n: n & node.mask, trial.lanes(node.value)),
    UnsignedReading: lambda trial, node: trial._each(
        lambda n: n & (1 << node.width) - 1, trial.lanes(node.value)
    ),
    PartOf: lambda trial, node: trial._each(
        lambda n: as_signed(n >> node.index * node.width, node.width), trial.lanes(node.whole)
    ),
    Packed: lambda trial, node: trial._each(
        lambda *row: sum((n & (1 << node.width) - 1) << at * node.width for at, n in enumerate(row)),
        *map(trial.lanes, node.operands),
    ),
    Compare: Trial._compared,
    Logic: Trial._logic,
    Negation: lambda trial, node: trial._each(lambda n: 1 - n, trial.lanes(node.operand)),
    Select: Trial._selected,
    Broadcast: lambda trial, node: (trial.lanes(node.source)[node.lane],) * WARP,
}
"""What the number of an expression is in each lane, by its kind."""
