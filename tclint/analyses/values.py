"""What registers hold: one sparse, demand-driven analysis of values.

A value is a number: an index into a hash-consed list of expression nodes, so
equal numbers mean equal values. Nothing is computed for a register nobody asks
about. Definitions are found as in Braun et al., *Simple and Efficient
Construction of SSA Form* (2013), from the use backwards, and a guarded
definition becomes a select over its guard.

Four questions are answered over the same nodes because they need each other:
base plus constant (:meth:`Values.linear`), the threads for which a predicate
holds (:meth:`Values.may`), its truth under assumptions
(:meth:`Values.decide`), and uniformity (:meth:`Values.level`).
"""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import cached_property, lru_cache
from math import gcd
from typing import Any

from tclint.analyses import threads as T
from tclint.analyses.ranges import Range, Ranges
from tclint.cfg import CFG, Edge
from tclint.ir.nodes import (
    Function,
    Immediate,
    Instruction,
    Memory,
    Not,
    Operand,
    Pair,
    Special,
    Symbol,
    Variable,
    Vector,
    registers,
)
from tclint.isa.semantics import COMPUTE, widen
from tclint.isa.table import Match, floating

__all__ = ["Along", "Facts", "Level", "Values"]

Node = tuple[Any, ...]
Bits = tuple[int, int]
"""Bits known to be 0 and bits known to be 1; a bit in both is of a number that is not computed yet."""
_COMPUTED = frozenset(("sum", "op", "select", "pack", "part", "compare", "logic", "not"))
"""Nodes that are made of others in the thread itself."""
_BITWISE = frozenset(("op", "sum", "select", "pack", "part", "broadcast"))
Interval = tuple[int, int]
_CARRIED = 24
"""Phis that a value may be carried through for its bounds to be looked for."""
_ROUNDS = 4
"""Rounds after which bits that still change in a loop count as unknown."""
_DEEP = 120
"""Definition chains longer than this stay opaque; real addresses are far shorter."""


_PEER = 0x3FF
"""Bits of an address that are the same in every CTA of a cluster: the widest swizzle, too, fits to all of them."""
_NEAR = 4
"""Branches before a join that are looked at for who may come that way."""
_LONG = 4000
"""Expressions that are followed along one path."""


class Facts(dict[int, bool]):
    """Predicate values known to hold or not; immutable once made, so what follows from it is kept with it."""

    __slots__ = ("bounds", "decided", "known", "lasting", "ranges")

    def __init__(self, known: Mapping[int, bool] | Iterable[tuple[int, bool]] = ()) -> None:
        super().__init__(known)
        self.decided: dict[int, bool | None] = {}
        self.bounds: dict[int, tuple[tuple[Node, bool], ...]] | None = None
        """The comparisons with constants, by what is compared; None: not collected yet."""
        self.ranges: dict[int, Range] | None = None
        """What the comparisons say of sums; None: not collected yet."""
        self.known: frozenset[tuple[int, bool]] | None = None
        self.lasting: Facts | None = None

    def pairs(self) -> frozenset[tuple[int, bool]]:
        """The same as a set, to compare with another one."""
        if self.known is None:
            self.known = frozenset(self.items())
        return self.known


class Level(IntEnum):
    """At which scope a value is the same in all threads (smaller: wider)."""

    CTA = 0
    WARPGROUP = 1
    WARP = 2
    UNKNOWN = 3
    """Nothing is shown either way; never a reason for a finding."""
    DIVERGENT = 4
    """Shown to differ between threads of one warp."""


_CTA_SPECIALS = (
    "ntid nctaid ctaid cluster_ctaid cluster_nctaid clusterid nclusterid nwarpid gridid is_explicit_cluster "
    "cluster_ctarank cluster_nctarank total_smem_size aggr_smem_size dynamic_smem_size smid nsmid"
).split()
_FROM_OPERANDS = frozenset(("integer", "logic", "float", "half", "convert", "compare"))
"""Families of instructions that compute from their operands alone; the others may take a carry, or memory."""
_POSITIONS = ("%tid", "%ntid", "%laneid", "%warpid", "%nwarpid")
_ACROSS = ("%tid.y", "%tid.z", "%ntid.y", "%ntid.z")
"""What tells the shape of a CTA from its size."""
_LARGE = (256, 512, 1024)
"""Threads of a CTA that has many. A kernel need not be right for every number of them."""
_CLOCK = re.compile(r"%(?:clock|globaltimer|pm\d)")
"""Special registers that differ from one reading to the next (10.25 to 10.31)."""
_RELATIONS = {
    # relation -> (canonical relation, swap operands, negate)
    ".eq": ("eq", False, False), ".ne": ("eq", False, True),
    ".lt": ("lt", False, False), ".ge": ("lt", False, True), ".gt": ("lt", True, False), ".le": ("lt", True, True),
    ".lo": ("lt", False, False), ".hs": ("lt", False, True), ".hi": ("lt", True, False), ".ls": ("lt", True, True),
}  # fmt: skip
_EVERY = (1 << 64) - 1
_SHORT = (1 << 32) - 1
_LEAST = -1 << 31
_TRANSPARENT = frozenset(("cvta", "mov"))
_WIDTHS = {"8": 8, "16": 16, "32": 32, "64": 64, "128": 128}


def _width(type_name: str) -> int:
    return _WIDTHS.get(type_name.lstrip(".busf"), 32)


@lru_cache(maxsize=1024)
def _first_type(modifiers: tuple[str, ...]) -> str:
    """What an instruction with these modifiers computes in."""
    types = [m for m in modifiers if m[1:2] in "busf" and m[2:].rstrip("x2").isdigit()]
    return types[0] if types else ".b32"


def _signed(value: int, width: int) -> int:
    every = (1 << width) - 1
    value &= every
    return value - every - 1 if value >> (width - 1) else value


def _trailing(number: int) -> int:
    """Zero bits below the lowest one bit of *number*, at most 64."""
    return min((number & -number).bit_length() - 1, 64) if number else 64


def _low(zeros: int, ones: int) -> Bits:
    """Without the upper half."""
    return zeros & 0xFFFFFFFF, ones & 0xFFFFFFFF


def _narrow(zeros: int, ones: int, wide: bool) -> Bits:
    """What is known of a number that may have 32 bits only, and may have been widened with its sign."""
    return (zeros, ones) if wide or zeros >> 31 & 1 else _low(zeros, ones)


def _added(z: int, o: int, y: int, u: int) -> Bits:
    """The known bits of a sum: those of both, where the carry is known too."""
    most, least = (~z & _EVERY) + (~y & _EVERY), o + u
    carry = ~(most ^ z ^ y) | (least ^ o ^ u)
    known = (z | o) & (y | u) & carry
    return ~most & known & _EVERY, least & known & _EVERY


def _shifted_bits(zeros: int, ones: int, by: int, type_name: str) -> Bits:
    """The known bits of a number of *type_name* shifted to the right."""
    width = _width(type_name)
    low = (1 << width) - 1
    zeros, ones, by = zeros & low, ones & low, min(by, width)
    if type_name[1] == "s" and not zeros >> (width - 1):
        return zeros >> by, (ones & low >> 1) >> by  # what is shifted in is unknown
    return (zeros >> by | -1 << (width - by)) & _EVERY, ones >> by


class Along:
    """What expressions stand for at the end of a path (:meth:`Values.along`).

    No closure: one that calls itself would keep the whole function alive until the garbage collector comes.
    """

    __slots__ = ("_before", "_memo", "_values", "edges", "passed")

    def __init__(
        self, values: Values, edges: Sequence[Edge], passed: Container[int], before: Along | None = None
    ) -> None:
        self._values = values
        self._before = before
        self._memo: dict[tuple[int, int], int] = {}
        self.edges = edges
        self.passed = passed

    def __call__(self, value: int) -> int:
        return self.walk(value, len(self.edges))

    def onward(self, edge: Edge) -> Along:
        """The same for the path that *edge* makes longer by one, and nothing else is executed on."""
        return Along(self._values, (*self.edges, edge), self.passed, self)

    def walk(self, value: int, end: int) -> int:
        """*value* after the first *end* edges."""
        values, memo = self._values, self._memo
        value = values.find(value)
        if not values.volatile(value):
            return value
        before = self._before
        if before is not None and end <= len(before.edges):
            return before.walk(value, end)
        found = memo.get((value, end))
        if found is None:
            memo[value, end] = value  # too deep, or in terms of itself: opaque
            if len(memo) < _LONG:
                memo[value, end] = values._walked(value, self, end)
            found = memo[value, end]
        return found


class _AtSize(Along):
    """What expressions stand for in a CTA of so many threads."""

    __slots__ = ()

    def __init__(self, values: Values, threads: int) -> None:
        super().__init__(values, (), frozenset())
        self._memo[values.special("%ntid.x"), 0] = values.constant(threads)

    def walk(self, value: int, end: int) -> int:
        values, memo = self._values, self._memo
        value = values.find(value)
        if (value, end) not in memo:
            memo[value, end] = value
            if len(memo) < _LONG and values.node(value)[0] in (
                "sum",
                "op",
                "select",
                "compare",
                "logic",
                "not",
                "part",
            ):
                memo[value, end] = values._walked(value, self, end)
        return memo[value, end]


class Values:
    """The values of one function. Ask; nothing is computed beforehand but the index of definitions."""

    def __init__(self, function: Function, cfg: CFG, variables: Mapping[str, Variable]) -> None:
        self.function = function
        self.cfg = cfg
        self.variables = variables
        """Those of the module."""
        self.nodes: list[Node] = []
        self._ids: dict[Node, int] = {}
        self._alias: dict[int, int] = {}
        self._args: dict[int, tuple[int, ...]] = {}  # of phis
        self._after: dict[tuple[int, int], int] = {}
        self._only: dict[int, int] = {}  # register -> its value, where one instruction alone writes it
        self._entry: dict[tuple[int, int], int] = {}
        self._planes: dict[int, T.Planes | None] = {}
        self._brought: dict[tuple[int, bool], int] = {}
        self._masks: dict[int, int | None] = {}
        self._differences: dict[int, tuple[Node, bool] | None] = {}
        self._facts: dict[frozenset[tuple[int, bool]], Facts] = {}
        self._levels: dict[int, Level] = {}
        self._bits: dict[int, Bits] = {}
        self._intervals: dict[int, Interval | None] = {}
        self._guess: dict[int, Interval] = {}  # bounds that are being tried
        self._seen_bounds: dict[int, Interval | None] = {}  # what one question has asked already
        self._volatile: dict[int, frozenset[tuple[str, int]]] = {}
        self._renewed: dict[int, frozenset[tuple[str, int]]] = {}
        self._ending: dict[
            tuple[str, int], set[int]
        ] = {}  # place -> what is renewed there, of all that was asked for
        self._ending_sites: list[int] = []
        self._depth = 0
        self._open: set[int] = set()  # stand-ins for definitions that are being computed
        self._touched: set[int] = set()  # those of them that the present definition has read
        self._opaque: set[int] = set()  # those of them that something was computed from
        self._waiting: dict[int, list[int]] = {}  # stand-in or phi -> phis that it is an argument of
        self._words: frozenset[int] | None = None
        defs = defaultdict[int, list[int]](list)
        for i, instruction in enumerate(function.instructions):
            for register in instruction.writes:
                defs[register].append(i)
        self.defs: dict[int, list[int]] = dict(defs)
        self.threads = self._thread_count()
        self.one_dimensional = self._is_one_dimensional()

    # ------------------------------------------------------------ shape of the CTA

    def _thread_count(self) -> int:
        total = self.function.most_threads
        return T.LIMIT if total is None else min(max((total + 31) // 32 * 32, 32), T.LIMIT)

    def _is_one_dimensional(self) -> bool:
        """Whether %tid.x numbers the threads: the launch is one-dimensional, or the kernel never looks further."""
        shape = self.function.directives.get(".reqntid")
        if shape:
            return all(n == 1 for n in shape[1:])
        instructions = self.function.instructions
        others: dict[str, list[Instruction]] = {}
        for use in self.function.uses:
            if use.match is None or not use.sites or len(instructions[use.sites[0]].operands) != 2:
                continue
            for i in use.sites:
                source = instructions[i].operands[1]
                if isinstance(source, Special) and source.name in _ACROSS:
                    others.setdefault(source.name, []).append(instructions[i])
        return not others or self._only_numbered(others)

    def _only_numbered(self, specials: Mapping[str, list[Instruction]]) -> bool:
        """Whether %tid.y and %tid.z do nothing but number the threads: (z * ntid.y + y) * ntid.x, to which x comes.

        The CTA may have any shape then, and so one dimension.
        """
        named = {
            name: {r for i in found for r in i.writes if len(self.defs[r]) == 1}
            for name, found in specials.items()
        }
        own = named.get("%tid.y", set()) | named.get("%tid.z", set())
        if not own or any(
            len(i.writes) != 1 or not set(i.writes) <= own for n in _ACROSS[:2] for i in specials.get(n, ())
        ):
            return False
        rows: set[int] = set()
        for i in self.function.instructions:
            read = set(i.reads)
            if not read.isdisjoint(own):
                z, height, y = (
                    {operand for operand in i.operands[1:] if operand in named.get(name, ())}
                    for name in ("%tid.z", "%ntid.y", "%tid.y")
                )
                if i.name != "mad.lo" or {*i.operands[1:3]} != z | height or {i.operands[3]} != y:
                    return False
                if len(self.defs[i.writes[0]]) != 1:
                    return False
                rows.update(i.writes)
        width = {
            r
            for r, found in self.defs.items()
            for i in map(self.function.instructions.__getitem__, found)
            if len(i.operands) == 2 and i.operands[1] == Special("%ntid.x")
        }
        return all(
            i.name in ("mul.lo", "mad.lo") and not width.isdisjoint(i.reads)
            for i in self.function.instructions
            if not rows.isdisjoint(i.reads)
        )

    # ------------------------------------------------------------ nodes

    def _node(self, *parts: object) -> int:
        found = self._ids.get(parts)
        if found is None:
            found = self._ids[parts] = len(self.nodes)
            self.nodes.append(parts)
        return found

    @cached_property
    def _ranges(self) -> Ranges:
        return Ranges(self)

    def release(self) -> None:
        """Drop what knows these values: without that they go as soon as nobody holds them."""
        self.__dict__.pop("_ranges", None)

    def find(self, value: int) -> int:
        """*value*, or what it turned out to equal."""
        alias = self._alias
        while value in alias:
            value = alias[value]
        return value

    def node(self, value: int) -> Node:
        """The expression behind *value*: a kind and its parts."""
        alias = self._alias
        while value in alias:
            value = alias[value]
        return self.nodes[value]

    def special(self, name: str) -> int:
        """The value of a special register that does not change."""
        return self._node("special", name)

    def constant(self, number: int) -> int:
        """The value of an integer constant."""
        return self._node("const", number)

    def known(self, value: int) -> int | None:
        """The integer that *value* is known to be."""
        alias = self._alias
        while value in alias:
            value = alias[value]
        node = self.nodes[value]
        if node[0] != "const":
            return None
        number: int = node[1]
        return number

    # ------------------------------------------------------------ reading registers

    def operand(self, operand: Operand | None, at: int) -> int:
        """The value of an operand as the instruction at *at* reads it."""
        if isinstance(operand, int):
            return self.before(operand, at)
        if isinstance(operand, Immediate):
            return (
                self.constant(operand.value)
                if isinstance(operand.value, int)
                else self._node("float", operand.value)
            )
        if isinstance(operand, Symbol):
            base = self._node("symbol", operand.name)
            return self.total(((base, 1),), operand.offset) if operand.offset else base
        if isinstance(operand, Special):
            if self.one_dimensional and operand.name in _ACROSS:
                return self.constant(1 if operand.name.startswith("%n") else 0)
            return (
                self._node("unknown", at, -1)
                if _CLOCK.match(operand.name)
                else self._node("special", operand.name)
            )
        if isinstance(operand, Not):
            return self.negate(self.before(operand.register, at))
        if isinstance(operand, Memory):
            return self.add(self.operand(operand.base, at), self.constant(operand.offset))
        if isinstance(operand, Vector):
            return self._node("vector", *(self.operand(item, at) for item in operand.items))
        return self._node("unknown", at, -1)

    def before(self, register: int, at: int) -> int:
        """The value of *register* just before the instruction at *at*."""
        only = self._only.get(register)
        if only is not None and only not in self._alias and only not in self._open:
            return only
        defs = self.defs.get(register)
        if not defs:
            return self._node("undefined", register)
        return self._read(register, self.cfg.block_of[at], at)

    def after(self, register: int, at: int) -> int:
        """The value of *register* just behind the instruction at *at*."""
        block = self.cfg.block_of[at]
        last = at + 1 == self.cfg.blocks[block].end
        return self.after_block(register, block) if last else self.before(register, at + 1)

    def after_block(self, register: int, block: int) -> int:
        """The value of *register* at the end of *block*."""
        if register not in self.defs:
            return self._node("undefined", register)
        return self._read(register, block, self.cfg.blocks[block].end)

    def _read(self, register: int, block: int, at: int) -> int:
        value = self.find(self._reaching(register, block, at))
        if value in self._open:
            self._touched.add(value)
        return value

    def _reaching(self, register: int, block: int, at: int) -> int:
        """The value that reaches instruction *at* of *block* (or its end)."""
        defs = self.defs[register]
        blocks, entered = self.cfg.blocks, self.cfg.sources
        if len(defs) == 1 and self.function.instructions[defs[0]].guard < 0:
            return self._defined(register, defs[0])
        crossed: list[int] = []
        while True:
            k = bisect_left(defs, at) - 1
            if k >= 0 and defs[k] >= blocks[block].start:
                value = self._defined(register, defs[k])
                break
            known = self._entry.get((register, block))
            if known is not None:
                value = known
                break
            sources = entered[block]
            if len(sources) == 1 and block != 0:
                crossed.append(block)
                (block,) = sources
                at = blocks[block].end
                if len(crossed) > len(blocks):
                    value = self._node("undefined", register)
                    break
                continue
            if not sources or block == 0:
                value = self._node("undefined", register)
            else:
                value = self._phi(register, block, sources)
            break
        for passed in crossed:
            self._entry[register, passed] = value
        return value

    def _phi(self, register: int, block: int, sources: tuple[int, ...]) -> int:
        phi = self._node("phi", block, register)
        if self._depth > _DEEP:
            return phi
        self._entry[register, block] = phi
        self._depth += 1
        arguments = tuple(self._reaching(register, p, self.cfg.blocks[p].end) for p in sources)
        self._depth -= 1
        self._args[phi] = arguments
        self._settle([phi])
        return self.find(phi)

    def _settle(self, phis: list[int]) -> None:
        """Let each phi that brings one value only, or itself, be that value; and then those that bring this phi.

        What a phi brings may turn out to be one value only later: an inner
        loop is looked at before the loop around it has been gone round.
        """
        alias, nodes = self._alias, self.nodes
        while phis:
            phi = phis.pop()
            if phi in alias:
                continue
            distinct = {self.find(a) for a in self._args[phi]} - {phi}
            if len(distinct) == 1:
                (alias[phi],) = distinct
                phis += self._waiting.pop(phi, ())
            else:
                for argument in distinct:
                    if nodes[argument][0] == "phi" or argument in self._open:
                        self._waiting.setdefault(argument, []).append(phi)

    def arguments(self, phi: int) -> tuple[int, ...]:
        """What a phi chooses between; empty when that was not followed."""
        return tuple(self.find(a) for a in self._args.get(phi, ()))

    def _defined(self, register: int, at: int) -> int:
        """The value of *register* just after the instruction at *at*, which writes it."""
        key = (register, at)
        found = self._after.get(key)
        if found is not None:
            return self.find(found)
        stand_in = self._node("unknown", at, register)
        if self._depth > _DEEP:
            self._opaque.add(stand_in)
            return stand_in
        # A definition in terms of itself stays opaque, but round a loop a phi stands between.
        self._after[key] = stand_in
        self._open.add(stand_in)
        outer, self._touched = self._touched, set()
        self._depth += 1
        instruction = self.function.instructions[at]
        value = self._computed(instruction, at, register)
        if instruction.guard >= 0:
            previous = self.before(register, at)
            guard = self.before(instruction.guard, at)
            value = self.select(self.negate(guard) if instruction.negated else guard, value, previous)
        self._depth -= 1
        if self._touched:
            self._opaque |= self._touched - {value}  # a mere copy computes nothing
        self._touched = outer
        self._open.discard(stand_in)
        self._after[key] = value
        if instruction.guard < 0 and len(self.defs[register]) == 1:
            self._only[register] = value
        waiting = self._waiting.pop(stand_in, None)
        if waiting and value != stand_in and stand_in not in self._opaque:
            self._alias[stand_in] = value
            self._settle(waiting)
        return self.find(value)

    # ------------------------------------------------------------ what instructions compute

    def _computed(self, instruction: Instruction, at: int, register: int) -> int:
        match = instruction.match
        if match is None or match.problem:
            return self._node("unknown", at, register)
        form, operands = match.form, instruction.operands
        name = form.compute
        if form.event:
            value = self._collective(instruction, match, at, register)
            if value is not None:
                return value
        if form.memory and not name and "read" in form.memory[0][0]:
            return self._loaded(instruction, at, register)
        if not name:
            return self._node("unknown", at, register)
        if Vector in map(type, operands):
            return self._packed(instruction, at, register)
        arguments = [self.operand(o, at) for o in operands[1:]]
        destination = operands[0]
        type_name = _first_type(match.modifiers)
        value = self._folded(name, match, arguments, register)
        if value is None:
            value = self._apply(name, type_name, match.modifiers, arguments)
        if value is None:
            value = self._node("op", name, match.modifiers, *arguments)
        if isinstance(destination, Pair) and destination.first != register:
            unknown = ("unknown", at, register)
            if name != "setp":
                return self._node(*unknown)
            # The second result negates the comparison, not what it is combined with (9.7.6.2).
            compared = self._compared(match.modifiers, type_name, arguments[:2])
            if "f" in type_name or compared is None:
                return self._node(*unknown) if arguments[2:] else self.negate(value)
            negated = self.negate(compared)
            return self._combined(match.modifiers, negated, arguments[2]) if arguments[2:] else negated
        return value

    def _collective(self, instruction: Instruction, match: Match, at: int, register: int) -> int | None:
        """What an instruction that threads execute together gives; None for every other."""
        form, operands = match.form, instruction.operands
        unknown = ("unknown", at, register)
        if form.event == "elect":
            destination = operands[0]
            if isinstance(destination, Pair) and destination.second == register:
                # Elections of one warp with one mask elect the same lane (9.7.13.14).
                return self._node("elect", self.operand(operands[1], at))
            return self._node(*unknown)
        if form.event == "shuffle" and ".idx" in match.modifiers and ".sync" in match.modifiers:
            chosen, bounds = self.operand(operands[2], at), self.known(self.operand(operands[3], at))
            # Segments (bits 8 to 12) and a lower bound (bits 0 to 4) make it less than a broadcast (9.7.9.6).
            whole = bounds is not None and bounds & 0x1F1F == 0x1F
            if whole and isinstance(operands[0], int | Pair) and register == registers(operands[0])[0]:
                source, lane = self.operand(operands[1], at), self.known(chosen)
                if self._same_in_warp(source):
                    return source
                if lane is None:
                    return self._node("collective", at, register, chosen)
                return self._node("broadcast", source, lane & 31)
            return self._node(*unknown)
        if form.event in ("vote", "redux") or (form.event == "match" and ".all" in match.modifiers):
            return self._node("collective", at, register)
        return None

    def _loaded(self, instruction: Instruction, at: int, register: int) -> int:
        match = instruction.match
        assert match is not None
        address = next((o for o in instruction.operands if isinstance(o, Memory)), None)
        destination = instruction.operands[0]
        which = destination.items.index(register) if isinstance(destination, Vector) else 0
        value = self.operand(address, at)
        space = match.space
        kind = match.element
        size = int(kind[2:]) // 8
        if space.startswith(".const") or (space.startswith(".param") and self._is_kernel_parameter(address)):
            # The same bytes are the same value however they are loaded, unless the load extends them.
            return self._node(
                "parameter", self.add(value, self.constant(which * size)), size, kind if size < 4 else ""
            )
        if space.startswith(".param"):
            return self._node("unknown", at, register)  # what a caller gave or a call returned
        if space.startswith(".shared"):
            word = self.add(value, self.constant(which * size))
            if word in self._allocation_words():
                return self._node("allocated", word)
        if "read" in match.form.memory[0][0] and "write" in " ".join(m for m, _ in match.form.memory):
            return self._node("unknown", at, register)
        return self._node("load", at, space, value, which)

    def _is_kernel_parameter(self, address: Operand | None) -> bool:
        """Whether *address* names a parameter of the kernel: the same in every thread, for good."""
        if not self.function.entry or not isinstance(address, Memory):
            return False
        base = address.base
        return isinstance(base, int) or (
            isinstance(base, Symbol) and any(p.name == base.name for p in self.function.parameters)
        )

    def _allocation_words(self) -> frozenset[int]:
        """Addresses of the shared words to which ``tcgen05.alloc`` writes the addresses of tensor memory."""
        if self._words is None:
            self._words = frozenset()
            words = set()
            for use in self.function.uses:
                if use.match is not None and use.match.form.event == "tmem-alloc":
                    for i in use.sites:
                        instruction = self.function.instructions[i]
                        words.add(self.find(self.operand(instruction.role("destination"), i)))
            self._words = frozenset(words)
        return self._words

    def _same_in_warp(self, value: int) -> bool:
        """Whether *value* is uniform by its form alone, without following control flow."""
        parts = self.made_of(value, until=self._fixed_in_warp)
        return all(self._fixed_in_warp(v) or self.nodes[v][0] in _COMPUTED for v in parts)

    def _fixed_in_warp(self, value: int) -> bool:
        if self.node(value)[0] in ("const", "symbol", "parameter", "allocated"):
            return True
        planes = self.planes(value)
        return planes is not None and self._plane_level(planes) <= Level.WARP

    def _packed(self, instruction: Instruction, at: int, register: int) -> int:
        """``mov`` between a register and its parts."""
        operands, match = instruction.operands, instruction.match
        width = _width(match.modifiers[-1]) if match is not None and match.modifiers else 32
        if len(operands) == 2 and isinstance(operands[0], Vector) and not isinstance(operands[1], Vector):
            items = operands[0].items
            if register in items:
                whole = self.operand(operands[1], at)
                node, index = self.node(whole), items.index(register)
                if node[0] == "parameter" and node[2] % len(items) == 0 and node[2] // len(items) >= 4:
                    size = node[2] // len(items)
                    return self._node("parameter", self.add(node[1], self.constant(index * size)), size, "")
                return self._part(index, width // len(items), whole)
        if len(operands) == 2 and isinstance(operands[1], Vector):
            parts = [self.operand(item, at) for item in operands[1].items]
            return self._pack(width // len(parts), parts)
        return self._node("unknown", at, register)

    def _part(self, index: int, width: int, whole: int) -> int:
        """The bits of *whole* from *index* times *width* on."""
        node, number = self.node(whole), self.known(whole)
        if number is not None:
            return self.constant(_signed(number >> index * width, width))
        if node[0] == "pack" and node[1] == width:
            return self.find(node[2 + index])
        return self._node("part", index, width, self.find(whole))

    def _pack(self, width: int, parts: list[int]) -> int:
        """*parts* of *width* bits in one number, the first one lowest."""
        numbers = [self.known(part) for part in parts]
        if None not in numbers:
            mask = (1 << width) - 1
            whole = sum((n & mask) << i * width for i, n in enumerate(numbers) if n is not None)
            return self.constant(_signed(whole, width * len(parts)))
        if len(parts) == 2 and numbers[1] == 0:
            return self._widened(parts[0], width)
        nodes = [self.node(part) for part in parts]
        if all(n[:3] == ("part", i, width) and n[3] == nodes[0][3] for i, n in enumerate(nodes)):
            return self.find(nodes[0][3])  # what was taken apart
        return self._node("pack", width, *map(self.find, parts))

    def _widened(self, value: int, width: int) -> int:
        """*value* with zeros above its low *width* bits; :meth:`_terms` sees through that."""
        node = self.node(value)
        short = node[0] in ("special", "symbol") or (
            node[0] == "op" and node[1] == "mask" and node[3] <= _SHORT
        )
        return value if short else self._masked(value, (1 << width) - 1, 64)

    def _is_widened(self, node: Node) -> bool:
        """Whether *node* is nothing but a number of 32 bits with zeros above."""
        return node[:2] == ("op", "mask") and node[3] == _SHORT

    def _apply(self, name: str, type_name: str, modifiers: tuple[str, ...], a: list[int]) -> int | None:
        """*name* over argument values, simplified; None when it stays an opaque operation."""
        if ("f" in type_name and name not in ("mov", "selp")) or ".sat" in modifiers:
            return None
        width = _width(type_name)
        root = name.partition(".")[0]
        if root in _TRANSPARENT and a:
            return a[0]
        if root == "cvt" and a:
            types = [m for m in modifiers if m[1:2] in "busf" and m[2:].isdigit()]
            if len(types) != 2 or any(t[1] == "f" for t in types):
                return None
            # Widening and narrowing keep an address and a small index what they are.
            if min(to := _width(types[0]), source := _width(types[1])) < 32:
                return None
            return self._widened(a[0], source) if to > source and types[1][1] == "u" else a[0]
        if root == "add" and len(a) == 2:
            return self.add(a[0], a[1], width)
        if root == "sub" and len(a) == 2:
            return self.add(a[0], self.times(a[1], -1, width), width)
        if root == "neg" and len(a) == 1:
            return self.times(a[0], -1, width)
        if root in ("mul", "mul24", "mad") and len(a) >= 2:
            if ".hi" in modifiers:
                return None
            wide = ".wide" in modifiers
            product = self.multiply(a[0], a[1], type_name if wide else "", width * 2 if wide else width)
            if product is None or root != "mad":
                return product
            return self.add(product, a[2], width * 2 if wide else width)
        if root == "shl" and len(a) == 2:
            by = self.known(a[1])
            if by is None:
                return None
            by &= 0xFFFFFFFF
            return self.times(a[0], 1 << by, width) if by < width else self.constant(0)
        if root in ("and", "or", "xor", "not") and ".pred" in modifiers:
            if root == "not":
                return self.negate(a[0])
            return self.logic(root, a[0], a[1])
        if root == "setp":
            return self._compared(modifiers, type_name, a)
        if root == "mapa" and len(a) == 2 and self.node(a[1]) == ("special", "%cluster_ctarank"):
            return a[0]  # mapped to where it is
        if root == "selp" and len(a) == 3:
            return self.select(a[2], a[0], a[1])
        numbers = [self.known(x) for x in a]
        if root == "and" and len(a) == 2:
            for value, mask in ((a[0], numbers[1]), (a[1], numbers[0])):
                if mask is not None:
                    return self._masked(value, mask, width)
        if root in ("or", "xor") and len(a) == 2:
            for value, mask in ((a[0], numbers[1]), (a[1], numbers[0])):
                if mask == 0:
                    return value
        if root == "xor" and len(a) == 2:
            for value, other in (a, a[::-1]):
                bits = self._bits_at_most(other)
                rest = self._low(value, bits) if bits else value
                if rest != value:  # a swizzle of an aligned address changes what is added to it alone
                    swizzled = self._node("op", root, type_name, *sorted((rest, other)))
                    return self.add(swizzled, self.add(value, self.times(rest, -1, width), width), width)
        if root in ("or", "xor", "and", "min", "max") and len(a) == 2 and ".relu" not in modifiers:
            return self._node("op", root, type_name, *sorted(a))
        if root == "shr" and len(a) == 2:
            return self._shifted(a[0], numbers[1], a[1], type_name)
        if root == "bfe" and len(a) == 3 and type_name[1] == "u":
            start, length = numbers[1:]
            if start is not None and length is not None and (start & 255) + (length & 255) <= width:
                shifted = self._shifted(a[0], start & 255, self.constant(start & 255), type_name)
                return self._masked(shifted, (1 << (length & 255)) - 1, width)
        return None

    def _shifted(self, value: int, number: int | None, by: int, type_name: str) -> int:
        return value if number == 0 else self._node("op", "shr", type_name, value, by)

    def _folded(self, name: str, match: Match, arguments: list[int], register: int) -> int | None:
        """The constant that an integer instruction over constants gives, by the semantics of the ISA table."""
        numbers = [self.known(a) for a in arguments]
        if None in numbers or name in ("setp", "selp") or floating(match.modifiers):
            return None
        compute = COMPUTE.get(name)
        if compute is None:
            return None
        width = _width(self.function.registers[register].type)
        try:
            pattern = compute(match.binding, *(n & _EVERY for n in numbers if n is not None))
        except ZeroDivisionError:  # left open by the ISA (9.7.1.8)
            return None
        if self.function.registers[register].type == ".pred":
            return self.constant(pattern & 1)
        return self.constant(_signed(widen(match.binding, pattern, width), width))

    def _masked(self, value: int, mask: int, width: int) -> int:
        every = (1 << width) - 1
        mask &= every
        if mask == 0:
            return self.constant(0)
        if mask == every:
            return value
        node = self.node(value)
        if node[0] == "op" and node[1] == "mask":
            return self._masked(node[2], mask & node[3], width)
        if node[0] == "sum":
            common = gcd(node[2], *(factor for _, factor in node[1]))
            low = common & -common  # what is shifted to the left has zeros below
            if low > 1:
                terms = tuple((t, factor // low) for t, factor in node[1])
                return self.times(self._masked(self.total(terms, node[2] // low), mask // low, width), low)
        if node[0] == "op" and node[1] == "shr" and (by := self.known(node[4])) is not None:
            if 0 <= by <= width - mask.bit_length():
                value = self._shifted(self._low(node[3], mask.bit_length() + by), by, node[4], node[2])
        else:
            value = self._low(value, mask.bit_length())
        return self._node("op", "mask", self.find(value), mask)

    def _low(self, value: int, bits: int) -> int:
        """*value* without the variables that are aligned so well that its low *bits* do not depend on them."""
        terms, constant = self._terms(value)
        kept = tuple((t, f) for t, f in terms if not (align := self._alignment(t)) or align * f % (1 << bits))
        return self.total(kept, constant) if len(kept) < len(terms) else value

    def _alignment(self, value: int) -> int:
        """What the address of a variable is a multiple of; 0 when *value* is none."""
        node = self.node(value)
        if node[0] != "symbol":
            return 0
        variable = self.function.variables.get(node[1]) or self.variables.get(node[1])
        return variable.align if variable is not None else 0

    def _bits_at_most(self, value: int) -> int:
        """The low bits that *value* may have; 0 when that cannot be seen at once."""
        node = self.node(value)
        if node[:2] == ("op", "mask"):
            return int(node[3]).bit_length()
        return int(node[1]).bit_length() if node[0] == "const" and node[1] > 0 else 0

    # ------------------------------------------------------------ sums

    def _terms(self, value: int, exact: bool = False) -> tuple[tuple[tuple[int, int], ...], int]:
        alias = self._alias
        while value in alias:
            value = alias[value]
        node = self.nodes[value]
        if node[0] == "const":
            return (), node[1]
        if node[0] == "sum":
            terms: tuple[tuple[int, int], ...] = node[1]
            for changed, _ in terms:
                if changed in alias:
                    total: dict[int, int] = {}
                    for term, factor in terms:
                        total[self.find(term)] = total.get(self.find(term), 0) + factor
                    return tuple(sorted((t, f) for t, f in total.items() if f)), node[2]
            return terms, node[2]
        if not exact and self._is_widened(node):
            return self._terms(node[2])  # an address or a small index stays what it is when it is widened
        return ((value, 1),), 0

    def total(self, terms: tuple[tuple[int, int], ...], constant: int) -> int:
        """The sum of *terms* (values with their factors) and a constant."""
        if not terms:
            return self.constant(constant)
        if constant == 0 and len(terms) == 1 and terms[0][1] == 1:
            return terms[0][0]
        return self._node("sum", terms, constant)

    def add(self, a: int, b: int, width: int = 64) -> int:
        """a + b as a sum of terms."""
        if (number := self.known(b)) is None and (number := self.known(a)) is not None:
            a = b
        if number is not None:
            # A sum with a constant of 64 bits is no address: there the bits count.
            terms, constant = self._terms(a, not _LEAST <= number <= _SHORT)
            return self.total(terms, _signed(constant + number, width))
        ta, ca = self._terms(a)
        tb, cb = self._terms(b)
        if not tb:
            return self.total(ta, _signed(ca + cb, width))
        if not ta:
            return self.total(tb, _signed(ca + cb, width))
        total = dict(ta)
        for term, factor in tb:
            total[term] = total.get(term, 0) + factor
        if len(total) > 12:
            return self._node("op", "add", ".s64", *sorted((a, b)))
        terms = tuple(sorted((t, f) for t, f in total.items() if f))
        return self.total(terms, _signed(ca + cb, width))

    def times(self, a: int, factor: int, width: int = 64) -> int:
        """a times a constant."""
        if factor == 0:
            return self.constant(0)
        terms, constant = self._terms(a)
        if factor == 1 and width >= 32 and _LEAST <= constant < -_LEAST:
            return self.total(terms, constant)
        return self.total(
            tuple((t, _signed(f * factor, 64)) for t, f in terms), _signed(constant * factor, width)
        )

    def multiply(self, a: int, b: int, widened: str, width: int) -> int | None:
        """a times b when one is a constant, which counts as *widened* where the product is wider than that type."""
        for x, y in ((a, b), (b, a)):
            number = self.known(x)
            if number is not None:
                if widened.startswith(".u"):
                    number &= (1 << _width(widened)) - 1
                return self.times(self._extended(y, widened), number, width)
        return None

    def _extended(self, value: int, type_name: str) -> int:
        """*value* as a number of 32 bits, when *type_name* is shorter: a sum of 16 bits may have more."""
        if not type_name.endswith("16"):
            return value
        node = self.node(value)
        if node[:2] == ("op", "mask") and node[3] <= 0x7FFF:
            return value
        return self._node("op", "cvt", (f"{type_name[:2]}32", type_name), value)

    def linear(self, value: int) -> tuple[tuple[tuple[int, int], ...], int]:
        """*value* as terms with their factors, plus a constant; equal terms mean a known distance."""
        return self._terms(self.find(value))

    # ------------------------------------------------------------ predicates

    def negate(self, p: int) -> int:
        node = self.node(p)
        if node[0] == "not":
            inner: int = node[1]
            return inner
        number = self.known(p)
        if number is not None:
            return self.constant(int(not number))
        return self._node("not", self.find(p))

    def logic(self, root: str, p: int, q: int) -> int:
        p, q = self.find(p), self.find(q)
        for x, y in ((p, q), (q, p)):
            number = self.known(x)
            if number is not None:
                truth = bool(number)
                if root == "and":
                    return y if truth else self.constant(0)
                if root == "or":
                    return self.constant(1) if truth else y
                return self.negate(y) if truth else y
        if p == q:
            return p if root != "xor" else self.constant(0)
        if self.negate(p) == q:
            return self.constant(0 if root == "and" else 1)
        for x, y in ((p, q), (q, p)) if root != "xor" else ():
            # x < 1 and x < 2 is x < 1: what the one says of the other where it alone does not settle it.
            follows = self._follows(y, x, root == "and")
            if follows is not None:
                return x if follows is (root == "and") else self.constant(follows)
        return self._node("logic", root, *sorted((p, q)))

    def _follows(self, q: int, p: int, truth: bool) -> bool | None:
        """What a comparison *q* with a constant is where another one of the same value, *p*, is *truth*."""
        (one, first), (two, second) = self._positive(p), self._positive(q)
        if one[0] != "compare" or two[0] != "compare" or one[2] != two[2]:
            return None
        facts = Facts()
        facts.bounds = {one[2]: ((one, truth is first),)} if self.known(one[3]) is not None else {}
        found = self._ordered(two, facts)
        return None if found is None else found is second

    def _positive(self, p: int) -> tuple[Node, bool]:
        """A predicate without the negation, and whether it had none."""
        node = self.node(p)
        return (self.node(node[1]), False) if node[0] == "not" else (node, True)

    def select(self, p: int, a: int, b: int) -> int:
        """a where p holds, else b."""
        p, a, b = self.find(p), self.find(a), self.find(b)
        number = self.known(p)
        if number is not None:
            return a if number else b
        if a == b:
            return a
        node = self.node(p)
        if node[0] == "not":
            return self.select(node[1], b, a)
        return self._node("select", p, a, b)

    def _compared(self, modifiers: tuple[str, ...], type_name: str, a: list[int]) -> int | None:
        relation = next((m for m in modifiers if m in _RELATIONS), None)
        if relation is None or len(a) < 2:
            return None
        canonical, swap, negated = _RELATIONS[relation]
        x, y = (a[1], a[0]) if swap else (a[0], a[1])
        width = _width(type_name)
        signed = type_name[1:2] == "s"
        result = self.compare(canonical, x, y, signed, width)
        if negated:
            result = self.negate(result)
        return self._combined(modifiers, result, a[2]) if len(a) == 3 else result

    def _combined(self, modifiers: tuple[str, ...], result: int, other: int) -> int:
        return self.logic(next(m[1:] for m in modifiers if m in (".and", ".or", ".xor")), result, other)

    def compare(self, relation: str, a: int, b: int, signed: bool, width: int = 32) -> int:
        """``a eq b`` or ``a lt b`` as a predicate; constants are folded and moved to the right."""
        a, b = self.find(a), self.find(b)
        x, y = self.known(a), self.known(b)
        signed = signed or relation == "eq"  # one spelling of a constant for all comparisons for equality
        every = (1 << width) - 1
        if x is not None:
            x = _signed(x, width) if signed else x & every
            a = self.constant(x)
        if y is not None:
            y = _signed(y, width) if signed else y & every
            b = self.constant(y)
        if x is not None and y is not None:
            return self.constant(int(x == y if relation == "eq" else x < y))
        if a == b:
            return self.constant(int(relation == "eq"))
        if y is not None and 0 <= y <= _SHORT and self._is_widened(self.node(a)):
            return self.compare(relation, self.node(a)[2], b, signed and width == 32, 32)
        if relation == "eq":
            if x is not None:
                a, b, x, y = b, a, y, x
            # A predicate that was put into an integer comes out again: setp.ne (p ? 1 : 0), 0.
            node = self.node(a)
            if y is not None and node[0] == "select":
                p: int = node[1]
                u, v = self.known(node[2]), self.known(node[3])
                if u is not None and v is not None:
                    first, second = (_signed(n, width) == y for n in (u, v))
                    if first is not second:
                        return p if first else self.negate(p)
                    return self.constant(int(first))
            if y == 0 and node[:2] == ("op", "or"):
                return self.logic("and", *(self.compare("eq", part, b, signed, width) for part in node[3:5]))
            if y is not None and node[0] == "sum" and node[2]:
                # Equality survives moving the constant across; order does not (wrap-around).
                return self.compare("eq", self.total(node[1], 0), self.constant(y - node[2]), signed, width)
            if y is None:
                a, b = sorted((a, b))
            return self._node("compare", "eq", a, b, True, width)
        if x is not None and x < (every >> 1 if signed else every):
            # c < b is not b < c+1: one spelling for r > 0 and r < 1.
            return self.negate(self.compare("lt", b, self.constant(x + 1), signed, width))
        return self._node("compare", "lt", a, b, signed, width)

    def decide(self, p: int, facts: Facts) -> bool | None:
        """Whether predicate *p* holds, given what is known of others; None when that does not follow."""
        p = self.find(p)
        fact = facts.get(p)
        if fact is not None:
            return fact
        try:
            return facts.decided[p]
        except KeyError:
            facts.decided[p] = result = self._decide(p, facts)
            return result

    def _decide(self, p: int, facts: Facts) -> bool | None:
        node = self.nodes[p]
        kind = node[0]
        if kind == "const":
            return bool(node[1])
        if kind == "not":
            inner = self.decide(node[1], facts)
            return None if inner is None else not inner
        if kind == "logic":
            left = self.decide(node[2], facts)
            right = self.decide(node[3], facts)
            if node[1] == "and":
                if left is False or right is False:
                    return False
                return True if left and right else None
            if node[1] == "or":
                if left or right:
                    return True
                return False if left is False and right is False else None
            return None if left is None or right is None else left != right
        if kind == "compare" and facts:
            known = self._ordered(node, facts)
            if known is None and (moved := self.difference(p)) is not None:
                known = self._ordered(moved[0], facts)
                if known is None:
                    known = self._ranges.decide(p, moved[0], facts)
                known = None if known is None else known is not moved[1]
            return self._ranges.decide(p, node, facts) if known is None else known
        if kind == "phi":
            return self._joined(p, facts)
        return None

    def _joined(self, phi: int, facts: Facts) -> bool | None:
        """A predicate is what all that it is joined from are, if they stay what they are."""
        found: bool | None = None
        seen = {phi}
        work = list(self.arguments(phi))
        while work:
            value = work.pop()
            if value in seen:
                continue
            seen.add(value)
            truth = facts.get(value)
            node = self.nodes[value]
            if truth is None and node[0] == "const":
                truth = bool(node[1])
            if truth is None and node[0] == "phi" and (arguments := self.arguments(value)):
                work += arguments
                continue
            if truth is None or found is (not truth) or self.renewed(value):
                return None
            found = truth
        return found

    def _ordered(self, node: Node, facts: Facts) -> bool | None:
        """Comparisons of one value with several constants decide each other."""
        _, relation, value, right, signed, width = node
        bound = self.known(right)
        if bound is None:
            return None
        if facts.bounds is None:
            facts.bounds = {}
            for fact, truth in facts.items():
                self._bind(fact, truth, facts.bounds)
        every = (1 << width) - 1
        # What is left of the value, read as a signed and as an unsigned number.
        left = {True: (-1 - (every >> 1), every >> 1), False: (0, every)}
        for other, truth in facts.bounds.get(value, ()):
            limit = self.known(other[3])
            assert limit is not None
            if other[5] != width:
                continue
            if other[1] == "eq":
                if truth:
                    left = {True: (limit, limit), False: (limit & every, limit & every)}
                continue
            low, high = left[other[4]]
            left[other[4]] = (low, min(high, limit - 1)) if truth else (max(low, limit), high)
        if relation == "lt":
            low, high = left[signed]
            return True if high < bound else False if low >= bound else None
        for (low, high), number in ((left[True], bound), (left[False], bound & every)):
            if not low <= number <= high:
                return False
            if low == high:
                return True
        return None

    def _bind(self, fact: int, truth: bool, bounds: dict[int, tuple[tuple[Node, bool], ...]]) -> None:
        """Adds a fact to *bounds* where it compares with a constant, or what it says of a difference."""
        node = self.nodes[fact]
        if node[0] != "compare":
            return
        if self.known(node[3]) is not None:
            bounds[node[2]] = (*bounds.get(node[2], ()), (node, truth))
        if (moved := self.difference(fact)) is not None:
            node, negated = moved
            bounds[node[2]] = (*bounds.get(node[2], ()), (node, truth is not negated))

    def difference(self, p: int) -> tuple[Node, bool] | None:
        """A comparison as one of a difference with a constant, and whether that is negated; None where it is none already.

        i + 7 < n and i + 8 >= n are about n - i. Only signed numbers: compilers take it that these do not wrap.
        """
        if p not in self._differences:
            self._differences[p] = self._moved(self.nodes[p])
        return self._differences[p]

    def compared(self, p: int) -> frozenset[int]:
        """The values that a comparison says something of, and by which others decide it."""
        sides: tuple[int, ...] = self.nodes[p][2:4]
        if (moved := self.difference(p)) is not None:
            sides += moved[0][2:3]
        bases = (self._ranges.bases(side) for side in sides if self.known(side) is None)
        return frozenset((sides[0], *sides[2:])).union(*bases)

    def _moved(self, node: Node) -> tuple[Node, bool] | None:
        _, relation, a, b, signed, width = node
        if relation != "lt" or not signed:
            return None
        (ours, constant), (theirs, limit) = self._terms(a), self._terms(b)
        if not theirs and not constant:
            return None
        total = dict(ours)
        for term, factor in theirs:
            total[term] = total.get(term, 0) - factor
        terms = tuple(sorted((t, f) for t, f in total.items() if f))
        limit -= constant
        if not terms:
            return None
        if terms[0][1] < 0:
            # -d < limit is d > -limit, and so not d < 1 - limit.
            negative = tuple((t, -f) for t, f in terms)
            return ("compare", "lt", self.total(negative, 0), self.constant(1 - limit), True, width), True
        return ("compare", "lt", self.total(terms, 0), self.constant(limit), True, width), False

    def assume(self, p: int, truth: bool, facts: Facts) -> Facts:
        """*facts* with *p* and what follows from it structurally."""
        if facts.get(self.find(p)) is truth:
            return facts
        bounds = None if facts.bounds is None else dict(facts.bounds)
        ranges = facts.ranges
        facts = Facts(facts)
        work = [(self.find(p), truth)]
        while work:
            q, value = work.pop()
            node = self.nodes[q]
            if node[0] == "not":
                work.append((self.find(node[1]), not value))
                continue
            if node[0] == "const":
                continue
            if q in facts:
                bounds = ranges = None
            if bounds is not None:
                self._bind(q, value, bounds)
            if ranges is not None:
                ranges = self._ranges.learn(q, value, ranges)
            facts[q] = value
            self.renewed(q)  # so that it is known where the fact ends
            if node[0] == "logic" and ((node[1] == "and" and value) or (node[1] == "or" and not value)):
                work += [(self.find(node[2]), value), (self.find(node[3]), value)]
            elif node[0] == "compare" and (chosen := self._chosen(node, value)) is not None:
                work += chosen
        facts.bounds, facts.ranges = bounds, ranges
        return facts

    def _chosen(self, node: Node, truth: bool) -> list[tuple[int, bool]] | None:
        """What follows where a select compares with a constant as one of its arms, also a constant, cannot."""
        _, relation, left, right, signed, width = node
        select = self.node(left)
        if select[0] != "select" or self.known(right) is None:
            return None
        for arm, other, condition in ((select[2], select[3], False), (select[3], select[2], True)):
            if self.known(arm) is not None and self.known(
                self.compare(relation, arm, right, signed, width)
            ) == (not truth):
                rest = self.compare(relation, other, right, signed, width)
                return [(self.find(select[1]), condition), (self.find(rest), truth)]
        return None

    # ------------------------------------------------------------ thread sets

    def planes(self, value: int) -> T.Planes | None:
        """*value* in every thread, when it depends on the thread index alone."""
        value = self.find(value)
        if value not in self._planes:
            self._planes[value] = None  # while it is being computed
            self._planes[value] = self._compute_planes(value)
        return self._planes[value]

    def _compute_planes(self, value: int) -> T.Planes | None:
        node, n = self.nodes[value], self.threads
        kind = node[0]
        if kind == "const":
            return T.constant(node[1], n)
        if kind == "special":
            if not self.one_dimensional:
                return None
            if node[1] == "%tid.x":
                return T.index(n)
            if node[1] == "%laneid":
                return tuple(p if bit < 5 else 0 for bit, p in enumerate(T.index(n)))
            if node[1] == "%warpid":
                return T.shift_right(T.index(n), 5, False)
            return None
        if kind == "sum":
            total = T.constant(node[2], n)
            for term, factor in node[1]:
                planes = self.planes(term)
                if planes is None:
                    return None
                total = T.add(total, T.scale(planes, factor, n))
            return total
        if kind == "broadcast":
            planes = self.planes(node[1])
            return None if planes is None else T.broadcast(planes, node[2], n)
        if kind == "select":
            mask = self.mask(node[1])
            left, right = self.planes(node[2]), self.planes(node[3])
            if mask is None or left is None or right is None:
                return None
            every = T.full(n)
            return tuple((x & mask) | (y & (every ^ mask)) for x, y in zip(left, right, strict=True))
        if kind == "op":
            if node[1] == "mask":
                planes = self.planes(node[2])
                if planes is None:
                    return None
                return tuple(p if node[3] >> bit & 1 else 0 for bit, p in enumerate(planes))
            if node[1] == "shr":
                planes, by = self.planes(node[3]), self.known(node[4])
                if planes is None or by is None:
                    return None
                signed, width = str(node[2])[1] == "s", _width(str(node[2]))
                if width < T.WIDTH:
                    planes = T.narrow(planes, width, signed)
                return T.shift_right(planes, by & 0xFFFFFFFF, signed)
            if node[1] == "cvt":
                return self._converted(node)
            if node[1] == "not":
                planes = self.planes(node[3])
                return None if planes is None else tuple(T.full(n) & ~p for p in planes)
            if node[1] in ("min", "max") and node[2] in (".s32", ".u32"):
                left, right = self.planes(node[3]), self.planes(node[4])
                if left is None or right is None:
                    return None
                taken = T.compare("lt", left, right, node[2] == ".s32", n) ^ (T.full(n) * (node[1] == "max"))
                return tuple(x & taken | y & ~taken for x, y in zip(left, right, strict=True))
            if node[1] == "shl" and ".b16" not in node[2]:  # a set of roles: 1 << warp & mask
                number, planes = self.known(node[3]), self.planes(node[4])
                return None if number is None or planes is None else T.shifted(number, planes, n)
            if node[1] == "bfe" and str(node[2][-1]) != ".s64":
                planes, at, length = self.planes(node[3]), self.known(node[4]), self.known(node[5])
                if planes is None or at is None or length is None:
                    return None
                signed = str(node[2][-1]) == ".s32"
                field = T.shift_right(planes, at & 0xFF, signed)
                if signed and 0 < length & 0xFF < T.WIDTH:
                    return T.narrow(field, length & 0xFF, True)
                return tuple(p if bit < length & 0xFF else 0 for bit, p in enumerate(field))
            if node[1] == "bfi" and ".b32" in node[2]:
                new, old = self.planes(node[3]), self.planes(node[4])
                at, length = self.known(node[5]), self.known(node[6])
                if new is None or old is None or at is None or length is None:
                    return None
                begin, end = at & 0xFF, (at & 0xFF) + (length & 0xFF)
                return tuple(
                    new[bit - begin] if begin <= bit < end else plane for bit, plane in enumerate(old)
                )
            if node[1] in ("and", "or", "xor"):
                left, right = self.planes(node[3]), self.planes(node[4])
                if left is None or right is None:
                    return None
                if node[1] == "and":
                    return tuple(x & y for x, y in zip(left, right, strict=True))
                if node[1] == "or":
                    return tuple(x | y for x, y in zip(left, right, strict=True))
                return tuple(x ^ y for x, y in zip(left, right, strict=True))
        return None

    def _converted(self, node: Node) -> T.Planes | None:
        """The planes of a conversion between integers: what the source type reads, cut to the result."""
        types, planes = node[2], self.planes(node[3])
        if planes is None or len(types) != 2 or any(t[1] not in "usb" for t in types):
            return None
        for type_name in reversed(types):
            if _width(type_name) < T.WIDTH:
                planes = T.narrow(planes, _width(type_name), type_name[1] == "s")
        return planes

    def mask(self, p: int) -> int | None:
        """The threads for which predicate *p* holds, when that depends on the thread index alone."""
        p = self.find(p)
        if p not in self._masks:
            self._masks[p] = None
            self._masks[p] = self._compute_mask(p)
        return self._masks[p]

    def _compute_mask(self, p: int) -> int | None:
        node, n = self.nodes[p], self.threads
        kind = node[0]
        every = T.full(n)
        if kind == "const":
            return every if node[1] else 0
        if kind == "elect":
            # Some lane of the mask in each warp; in practice the lowest.
            members = (self.known(node[1]) or 0) & 0xFFFFFFFF or 1
            return T.lane_zero(n) << (members & -members).bit_length() - 1
        if kind == "not":
            inner = self.mask(node[1])
            return None if inner is None else every ^ inner
        if kind == "logic":
            left, right = self.mask(node[2]), self.mask(node[3])
            if left is None or right is None:
                return None
            return left & right if node[1] == "and" else left | right if node[1] == "or" else left ^ right
        if kind == "compare":
            a, b = self.planes(node[2]), self.planes(node[3])
            if a is None or b is None:
                return None
            width = int(node[5])
            if width < T.WIDTH:
                a, b = (T.narrow(x, width, bool(node[4])) for x in (a, b))
            elif width > T.WIDTH and (a[-1] or b[-1] or not all(map(self._short, node[2:4]))):
                return None  # the planes are of the low half
            return T.compare(str(node[1]), a, b, bool(node[4]), n)
        if kind == "select":
            condition, left, right = (self.mask(x) for x in node[1:4])
            if condition is None or left is None or right is None:
                return None
            return (condition & left) | (every ^ condition) & right
        return None

    def beyond(self, p: int) -> bool:
        """Whether *p* is decided by where a thread stands in its CTA, in a way that is not computed here.

        Then some launch decides it, and none may decide it as a path needs it.
        """
        if self.mask(p) is not None:
            return False
        computed = False
        for value in self.made_of(p):
            node = self.nodes[value]
            if node[0] == "special":
                if not str(node[1]).startswith(_POSITIONS):
                    return False
            elif node[0] not in ("const", "compare", "logic", "not", "sum", "op", "select", "part", "pack"):
                return False
            computed |= node[0] == "op"
        return computed

    def in_large(self, p: int, truth: bool) -> bool:
        """Whether *p* depends on how many threads there are alone, and is *truth* in every CTA of many warps."""
        return self.one_dimensional and all(self.known(_AtSize(self, n)(p)) == truth for n in _LARGE)

    def _short(self, value: int) -> bool:
        """Whether *value* is no constant outside 32 bits."""
        number = self.known(value)
        return number is None or 0 <= number < 1 << 31

    def may(self, p: int, truth: bool) -> int:
        """The threads for which *p* may be *truth*: exact where it can be, else too many."""
        p = self.find(p)
        exact = self.mask(p)
        every = T.full(self.threads)
        if exact is not None:
            return exact if truth else every ^ exact
        node = self.nodes[p]
        if node[0] == "not":
            return self.may(node[1], not truth)
        if node[0] == "logic" and node[1] in ("and", "or"):
            left, right = self.may(node[2], truth), self.may(node[3], truth)
            return left & right if (node[1] == "and") == truth else left | right
        return self._may_bring(p, truth) if node[0] in ("phi", "compare") else every

    def _may_bring(self, p: int, truth: bool) -> int:
        """The threads for which a joined predicate may be *truth*: of each argument, those that may come that way.

        The same of a number that is joined, and compared with a constant.
        """
        key = p, truth
        if key not in self._brought:
            every = T.full(self.threads)
            self._brought[key] = every  # as long as a loop asks for what it is part of
            phi = p if self.nodes[p][0] == "phi" else self.find(self.nodes[p][2])
            arguments = self.arguments(phi) if self.nodes[phi][0] == "phi" else ()
            block = self.nodes[phi][1] if arguments else 0
            threads = 0 if arguments else every
            for argument, source in zip(arguments, self.cfg.sources[block], strict=False):
                chosen = argument if p == phi else self._compared_alike(p, argument)
                came = self._may_come(source, block)
                threads |= came if chosen is None else self.may(chosen, truth) & came
            self._brought[key] = threads
        return self._brought[key]

    def _compared_alike(self, p: int, value: int) -> int | None:
        """The comparison *p* of *value* in place of what it compares, when that is a constant or one of two."""
        _, relation, _, right, signed, width = self.nodes[p]
        node = self.nodes[value]
        numbers = node[2:4] if node[0] == "select" else (value,)
        if None in map(self.known, (right, *numbers)):
            return None
        return self.compare(relation, value, right, signed, width)

    def _may_come(self, source: int, block: int) -> int:
        """The threads that may come from block *source* to *block*, as the branches before that decide alone."""
        cfg, threads = self.cfg, T.full(self.threads)
        for _ in range(_NEAR):
            edges = [e for e in cfg.successors[source] if e.target == block]
            if len(edges) == 1 and edges[0].predicate >= 0:
                threads &= self.may(
                    self.before(edges[0].predicate, cfg.blocks[source].end - 1), edges[0].value
                )
            if len(cfg.sources[source]) != 1 or not source:
                break
            source, block = cfg.sources[source][0], source
        return threads

    # ------------------------------------------------------------ uniformity

    def level(self, value: int) -> Level:
        """At which scope *value* is uniform.

        A load from a uniform address is taken as uniform; one from an address
        that differs between the threads of a warp counts as divergent.
        """
        value = self.find(value)
        if value in self._levels:
            return self._levels[value]
        assumed: dict[int, Level] = {}
        while True:
            before = dict(assumed)
            memo: dict[int, Level] = {}
            result = self._level(value, memo, assumed, 0)
            if before == assumed:
                self._levels.update(memo)
                return result

    def _level(self, value: int, memo: dict[int, Level], assumed: dict[int, Level], depth: int) -> Level:
        value = self.find(value)
        known = self._levels.get(value, memo.get(value))
        if known is not None:
            return known
        if depth > _DEEP:
            return Level.UNKNOWN
        node = self.nodes[value]
        kind = node[0]
        if kind == "phi":
            if value in assumed and value in memo:
                return memo[value]
            memo[value] = assumed.setdefault(value, Level.CTA)
        result = self._level_of(value, node, memo, assumed, depth + 1)
        if kind == "phi" and result > assumed[value]:
            assumed[value] = result
        memo[value] = result
        return result

    def _level_of(
        self, value: int, node: Node, memo: dict[int, Level], assumed: dict[int, Level], depth: int
    ) -> Level:
        kind = node[0]
        if kind in ("const", "symbol", "parameter", "float", "allocated"):
            return Level.CTA
        if kind == "special":
            name = str(node[1]).lstrip("%").partition(".")[0]
            if name in _CTA_SPECIALS:
                return Level.CTA
            planes = self.planes(value)
            if planes is not None:
                return self._plane_level(planes)
            if name == "laneid" or name.startswith("lanemask"):
                return Level.DIVERGENT
            return Level.WARP if name == "warpid" else Level.UNKNOWN
        if kind == "elect":
            return Level.DIVERGENT
        if kind == "broadcast":
            planes = self.planes(value)
            if planes is not None:
                return self._plane_level(planes)
            return min(Level.WARP, self._level(node[1], memo, assumed, depth))
        if kind == "collective":
            by = max((self._level(a, memo, assumed, depth) for a in node[3:]), default=Level.WARP)
            return Level.WARP if by <= Level.WARP else Level.UNKNOWN
        if kind in ("compare", "logic", "not", "select", "sum", "op", "part", "pack", "vector"):
            if kind in ("compare", "logic", "not"):
                mask = self.mask(value)
                if mask is not None:
                    return self._plane_level((mask,))
            else:
                planes = self.planes(value)
                if planes is not None:
                    return self._plane_level(planes)
            arguments = self.parts(node)
            levels = [self._level(a, memo, assumed, depth) for a in arguments]
            worst = max(levels, default=Level.CTA)
            if worst < Level.DIVERGENT:
                return worst
            # One divergent term in a sum of uniform ones stays divergent; elsewhere it may be masked out.
            if kind in ("sum", "not") or self._is_widened(node):
                return (
                    Level.DIVERGENT
                    if sorted(levels)[:-1] == [] or max(sorted(levels)[:-1]) <= Level.WARP
                    else Level.UNKNOWN
                )
            if (
                kind == "compare"
                and node[1] == "eq"
                and self._load_term(node[2])
                and self.known(node[3]) is not None
            ):
                return Level.DIVERGENT
            return Level.UNKNOWN
        if kind == "load":
            inner = self._level(node[3], memo, assumed, depth)
            return max(inner, Level.UNKNOWN) if node[2].startswith(".local") else inner
        if kind == "phi":
            block, chosen = node[1], self._args.get(value, ())
            if not chosen:
                return Level.UNKNOWN
            worst = max(self._level(a, memo, assumed, depth) for a in chosen)
            # Which argument arrives is decided by the branches that end before the join.
            deciding = self._deciding(block)
            for register, at in deciding:
                control = self._level(self.before(register, at), memo, assumed, depth)
                if control > Level.CTA:
                    worst = max(worst, min(control, Level.UNKNOWN))
            return Level.UNKNOWN if worst == Level.DIVERGENT else worst
        if kind == "unknown" and node[2] >= 0 and value not in self._opaque and depth < _DEEP // 8:
            # Its operands may not have been looked at yet, which takes a depth of its own.
            memo[value] = Level.UNKNOWN  # of what it is computed from itself
            return self._level_computed(node[1], memo, assumed, depth)
        return Level.UNKNOWN

    def _level_computed(
        self, at: int, memo: dict[int, Level], assumed: dict[int, Level], depth: int
    ) -> Level:
        """At which scope what the instruction at *at* computes is uniform, if it takes its operands and nothing else."""
        instruction = self.function.instructions[at]
        match = instruction.match
        if match is None or match.problem or match.form.event or match.form.family not in _FROM_OPERANDS:
            return Level.UNKNOWN
        worst = Level.CTA
        for operand in instruction.operands[1:]:
            worst = max(worst, self._level(self.operand(operand, at), memo, assumed, depth))
            if worst > Level.WARP:
                return Level.UNKNOWN
        return worst

    def _load_term(self, value: int) -> bool:
        return bool(self.node(value)[0] == "load")

    def _deciding(self, block: int) -> list[tuple[int, int]]:
        """Predicates (register, instruction) of the branches that decide which way *block* is entered."""
        cfg = self.cfg
        own = {(e.source, e.target) for e in cfg.controllers(block)}
        found: dict[tuple[int, int], None] = {}
        for edge in cfg.predecessors[block]:
            candidates = [*cfg.controllers(edge.source), edge]
            for c in candidates:
                if c.predicate >= 0 and ((c.source, c.target) not in own or c is edge):
                    found[c.predicate, cfg.blocks[c.source].end - 1] = None
        return list(found)

    def parts(self, node: Node) -> list[int]:
        """The values that an expression is made of."""
        kind = node[0]
        if kind == "sum":
            return [t for t, _ in node[1]]
        if kind == "op":
            if node[1] == "mask":
                return [node[2]]
            return [x for x in node[3:] if isinstance(x, int)]
        if kind == "compare":
            return [node[2], node[3]]
        if kind == "logic":
            return [node[2], node[3]]
        if kind == "not":
            return [node[1]]
        if kind == "part":
            return [node[3]]
        if kind == "broadcast":
            return [node[1]]
        if kind == "elect":
            return [node[1]]
        if kind == "parameter":
            return [node[1]]
        if kind == "load":
            return [node[3]]
        if kind == "pack":
            return list(node[2:])
        if kind in ("select", "vector"):
            return [x for x in node[1:] if isinstance(x, int)]
        return []

    def made_of(self, *values: int, until: Callable[[int], bool] = lambda value: False) -> Iterator[int]:
        """*values* and all that they are made of, on whatever way it is brought, each once; what *until* holds of is not taken apart."""
        work, seen = list(values), set[int]()
        while work:
            value = self.find(work.pop())
            if value in seen:
                continue
            seen.add(value)
            yield value
            if not until(value):
                node = self.nodes[value]
                work += self.arguments(value) if node[0] == "phi" else self.parts(node)

    def _plane_level(self, planes: T.Planes) -> Level:
        every = T.full(self.threads)
        for level, size in ((Level.CTA, self.threads), (Level.WARPGROUP, 128), (Level.WARP, 32)):
            if not any(T.partial_groups(plane, every, size) for plane in planes):
                return level
        return Level.DIVERGENT

    # ------------------------------------------------------------ how long a fact lasts

    def volatile(self, value: int) -> frozenset[tuple[str, int]]:
        """Where *value* may change: ``("block", b)`` for a phi, ``("site", i)`` for a load or unknown.

        An empty set means that the value is the same for the whole life of a thread.
        """
        alias = self._alias
        while value in alias:
            value = alias[value]
        found = self._volatile.get(value)
        if found is not None:
            return found
        self._volatile[value] = frozenset()
        node = self.nodes[value]
        kind = node[0]
        result: frozenset[tuple[str, int]]
        if kind == "phi":
            result = frozenset((("block", node[1]),))
        elif kind in ("unknown", "collective"):
            result = frozenset((("site", node[1]),))
        elif kind == "load":
            result = frozenset((("site", node[1]),)) | self.volatile(node[3])
        else:
            result = frozenset().union(*(self.volatile(p) for p in self.parts(node)))
        self._volatile[value] = result
        return result

    def renewed(self, value: int) -> frozenset[tuple[str, int]]:
        """Where *value* may change after it was computed: those places of :meth:`volatile` that lie in a loop."""
        found = self._renewed.get(value)
        if found is None:
            cfg = self.cfg
            found = self._renewed[value] = frozenset(
                (kind, at)
                for kind, at in self.volatile(value)
                if (at if kind == "block" else cfg.block_of[at]) in cfg.in_cycle
            )
            for place in found:
                if place not in self._ending and place[0] == "site":
                    insort(self._ending_sites, place[1])
                self._ending.setdefault(place, set()).add(value)
        return found

    def passing(self, facts: Facts, low: int, high: int) -> Facts:
        """*facts* without those about values that may change from instruction *low* on and before *high*."""
        sites = self._ending_sites
        begin = bisect_left(sites, low)
        if begin == len(sites) or sites[begin] >= high or not facts:
            return facts
        stale = {
            p for i in sites[begin : bisect_left(sites, high)] for p in self._ending["site", i] if p in facts
        }
        return Facts((p, v) for p, v in facts.items() if p not in stale) if stale else facts

    def entering(self, facts: Facts, block: int) -> Facts:
        """*facts* without those about values that may change on entry to *block*."""
        ending = self._ending.get(("block", block))
        if ending is None or ending.isdisjoint(facts):
            return facts
        return Facts((p, v) for p, v in facts.items() if p not in ending)

    def once(self, facts: Facts) -> Facts:
        """The same facts, and with them all that has been concluded from them."""
        return self._facts.setdefault(facts.pairs(), facts)

    def lasting(self, facts: Facts) -> Facts:
        """The facts that hold for the whole life of a thread."""
        if facts.lasting is None:
            facts.lasting = Facts((p, v) for p, v in facts.items() if not self.renewed(p))
        return facts.lasting

    def along(self, edges: Sequence[Edge], passed: Container[int]) -> Along:
        """What an expression stands for at the end of a path, in terms of values at its start.

        The path takes *edges* and executes the instructions *passed*: a phi is
        what the last edge into its block chose, and what is loaded anew is no
        longer what it was.
        """
        return Along(self, edges, passed)

    def _walked(self, value: int, path: Along, end: int) -> int:
        """One step of :meth:`along`: *value* after the first *end* edges of *path*."""
        edges, walk = path.edges, path.walk
        node = self.nodes[value]
        kind = node[0]
        if kind == "phi":
            block, arguments = node[1], self.arguments(value)
            for at in range(end - 1, -1, -1):
                if edges[at].target == block:
                    sources = self.cfg.sources[block]
                    if len(arguments) != len(sources):
                        return self._node("later", value, at)
                    return walk(arguments[sources.index(edges[at].source)], at)
            return value
        if kind in ("unknown", "collective", "load"):
            return self._node("later", value, end) if node[1] in path.passed else value
        if kind == "sum":
            total = self.constant(node[2])
            for term, factor in node[1]:
                total = self.add(total, self.times(walk(term, end), factor))
            return total
        if kind == "select":
            return self.select(*(walk(x, end) for x in node[1:4]))
        if kind == "not":
            return self.negate(walk(node[1], end))
        if kind == "logic":
            return self.logic(node[1], walk(node[2], end), walk(node[3], end))
        if kind == "compare":
            return self.compare(node[1], walk(node[2], end), walk(node[3], end), node[4], node[5])
        if kind == "op" and node[1] == "mask":
            inner = walk(node[2], end)
            number = self.known(inner)
            return self._masked(inner, node[3], 64) if number is None else self.constant(number & node[3])
        if kind == "op":
            return self._reapplied(node, [walk(x, end) for x in node[3:]])
        if kind == "part":
            return self._part(node[1], node[2], walk(node[3], end))
        if kind == "pack":
            return self._pack(node[1], [walk(x, end) for x in node[2:]])
        if kind == "vector":
            return self._node(kind, *(walk(x, end) for x in node[1:]))
        return self._node("later", value, end)

    def _reapplied(self, node: Node, arguments: list[int]) -> int:
        """The operation of *node* on other arguments, folded when these are constants."""
        name, modifiers = node[1], (node[2],) if isinstance(node[2], str) else node[2]
        numbers = [n for n in map(self.known, arguments) if n is not None]
        compute = COMPUTE.get(name)
        if compute is None or len(numbers) < len(arguments) or floating(modifiers):
            return self._node(*node[:3], *arguments)
        binding = {str(k): m for k, m in enumerate(modifiers)}
        try:
            pattern = compute(binding, *(n & _EVERY for n in numbers))
        except ZeroDivisionError:  # left open by the ISA (9.7.1.8)
            return self._node(*node[:3], *arguments)
        width = (
            64 if ".wide" in modifiers else _width(next((m for m in modifiers if m[1:2] in "bus"), ".b32"))
        )
        return self.constant(_signed(pattern, width))

    # ------------------------------------------------------------ induction

    def induction(self, value: int) -> tuple[int, int, int | None] | None:
        """``(start, stride, modulus)`` when *value* is a loop counter; the modulus is of one that wraps to 0.

        The wrapping counter of a ring is ``next = i + 1; i = next == N ? 0 : next``.
        """
        value = self.find(value)
        node = self.nodes[value]
        if node[0] != "phi":
            return None
        start: int | None = None
        stride: int | None = None
        modulus: int | None = None
        for argument in self.arguments(value):
            step, wraps = argument, None
            inner = self.nodes[argument]
            if inner[0] == "select":
                condition = self.nodes[self.find(inner[1])]
                tested = (
                    condition[0] == "compare" and condition[1] == "eq" and self.find(condition[2]) == value
                )
                if tested and self.known(inner[2]) == 0:
                    step = self.find(inner[3])
                    bound = self.known(condition[3])
                    terms, constant = self.linear(step)
                    wraps = bound + constant if bound is not None and terms == ((value, 1),) else None
            terms, constant = self.linear(step)
            if terms == ((value, 1),):
                if stride is not None and (stride, modulus) != (constant, wraps):
                    return None
                stride, modulus = constant, wraps
            elif value in (t for t, _ in terms):
                return None
            else:
                if start is not None and start != argument:
                    return None
                start = argument
        return (start, stride, modulus) if start is not None and stride is not None else None

    def steps(self, value: int) -> set[int]:
        """The numbers that rounds of a loop add to *value*, without 0; none where no loop carries it."""
        ends = map(self.linear, self.arguments(value) if self.node(value)[0] == "phi" else ())
        return {by for terms, by in ends if by and terms == ((value, 1),)}

    def quotient(self, value: int) -> tuple[int, int] | None:
        """``(x, n)`` when *value* is x divided by the constant n, rounded down, of an unsigned x of 32 bits.

        Compilers shift by a power of two, and multiply with the rounded reciprocal of any other n, whose upper half
        they shift (Granlund and Montgomery, *Division by Invariant Integers using Multiplication*, 1994). Where that has
        33 bits, t is the upper half of the product with its low 32, and ``(x - t) / 2 + t`` is shifted.
        """
        node, by = self.node(value), 0
        if node[:2] == ("op", "div") and ".u32" in node[2]:
            n = self.known(node[4])
            return (self.find(node[3]), n) if n else None
        if node[:2] == ("op", "shr") and node[2][1] in "ub":
            number = self.known(node[4])
            if number is None:
                return None
            inner = self.find(node[3])
            long = self._long_reciprocal(inner)
            if long is not None:
                return self._divided(long[0], (1 << 32) + long[1], number + 33)
            if number < 32:
                value, by = inner, number
        upper = self._upper_half(value)
        if upper is not None:
            return self._divided(upper[0], upper[1], by + 32)
        return (value, 1 << by) if 0 < by < 32 else None

    def _divided(self, x: int, factor: int, by: int) -> tuple[int, int] | None:
        """What ``x * factor >> by`` divides by, if *factor* is a reciprocal."""
        n = -(-(1 << by) // factor)
        return (self.find(x), n) if n > 1 and factor == -(-(1 << by) // n) else None

    def _upper_half(self, value: int) -> tuple[int, int] | None:
        """``(x, factor)`` when *value* is the upper half of x times a constant of 32 bits."""
        node = self.node(value)
        if node[:2] == ("op", "mul") and ".hi" in node[2]:
            numbers = [self.known(x) for x in node[3:5]]
            if (numbers[0] is None) is (numbers[1] is None):
                return None
            factor = next(n for n in numbers if n is not None) & _SHORT
            return node[3 if numbers[0] is None else 4], factor
        if (node[:2] == ("op", "shr") and self.known(node[4]) == 32) or (
            node[0] == "part" and node[1:3] == (1, 32)
        ):
            product = node[3]
        else:
            return None
        terms, constant = self.linear(product)
        factors = {factor for _, factor in terms}
        (factor,) = factors if len(factors) == 1 else (1,)
        if factor < 2 or constant % factor:
            return None
        return self.total(tuple((t, 1) for t, _ in terms), constant // factor), factor

    def _long_reciprocal(self, value: int) -> tuple[int, int] | None:
        """``(x, factor)`` when *value* is ``(x - t) / 2 + t`` of the upper half t of x times a constant."""
        terms, constant = self.linear(value)
        if len(terms) != 2 or constant or any(factor != 1 for _, factor in terms):
            return None
        for (t, _), (half, _) in (terms, terms[::-1]):
            node, upper = self.node(half), self._upper_half(t)
            if upper is not None and node[:2] == ("op", "shr") and self.known(node[4]) == 1:
                x = self.add(node[3], t)
                if self.find(x) == self.find(upper[0]) or self.linear(x) == self.linear(upper[0]):
                    return upper
        return None

    def remainder(self, terms: tuple[tuple[int, int], ...]) -> tuple[int, int, int] | None:
        """``(f, low, n)`` when a sum is low + f times the remainder of some x by a constant n, as compilers spell it.

        That is ``f * x - f * n * (x / n)``, and for a signed x and a power of two ``f * x - f * (x + s & -n)``, where s
        comes from the sign of x, which an index does not have.
        """
        whole = self.total(terms, 0)
        for term, factor in terms:
            if factor >= 0:
                continue
            node, divided = self.node(term), self.quotient(term)
            if divided is not None and factor % divided[1] == 0:
                x, n = divided
                each = -factor // n
            elif node[:2] == ("op", "mask") and (n := (-node[3] & _SHORT)) & (n - 1) == 0 and n > 1:
                x, each = node[2], -factor
            else:
                continue
            rest = self.add(self.add(whole, self.times(term, -factor)), self.times(x, -each))
            signs, low = self.linear(rest)
            if all(self.node(t)[:2] == ("op", "shr") and self.node(t) != node for t, _ in signs):
                return each, low, n
        return None

    # ------------------------------------------------------------ bits and ranges

    def interval(self, value: int, depth: int = 0) -> Interval | None:
        """Bounds of *value* as a signed number, when both are known."""
        value = self.find(value)
        if not depth:
            self._seen_bounds.clear()
        elif depth > 16:
            return None
        elif value in self._seen_bounds:
            return self._seen_bounds[value]
        found = self._seen_bounds[value] = self._interval_of(value, depth)
        return found

    def _interval_of(self, value: int, depth: int) -> Interval | None:
        node = self.nodes[value]
        kind = node[0]
        if kind == "const":
            return node[1], node[1]
        if kind == "special":
            name = str(node[1])
            if name.startswith("%tid."):
                return 0, self.threads - 1
            return (0, 31) if name == "%laneid" else (0, 31) if name == "%warpid" else None
        if kind == "op" and node[1] == "mask":
            inner = self.interval(node[2], depth + 1) if node[3] == _SHORT else None
            if inner is not None and inner[0] >= 0:
                return inner
            return (0, node[3]) if node[3] < 1 << 31 else None
        if kind == "op" and node[1] == "shr":
            inner, by = self.interval(node[3], depth + 1), self.known(node[4])
            if inner is None or by is None or inner[0] < 0:
                return None
            by = min(by & 0xFFFFFFFF, 64)
            return inner[0] >> by, inner[1] >> by
        if kind == "op" and node[1] in ("or", "xor"):
            terms = [t for part in node[3:] for t, _ in self.linear(part)[0]]
            zeros, ones = self.known_bits(value)
            # What a loop carries has more of such bounds than it has values.
            exact = ~zeros & _EVERY < 1 << 31 and all(self.node(t)[:2] == ("op", "mask") for t in terms)
            return (ones, ~zeros & _EVERY) if exact else None
        if kind == "broadcast":
            return self.interval(node[1], depth + 1)
        if kind == "select":
            chosen = [self._arm(node, truth, depth) for truth in (True, False)]
            if None in chosen:
                return None
            return min(b[0] for b in chosen if b), max(b[1] for b in chosen if b)
        if kind == "phi":
            return self._phi_interval(value)
        if kind == "sum":
            rest = self.remainder(node[1]) if len(node[1]) > 1 else None
            if rest is not None:
                each, least, n = rest
                return node[2] + least, node[2] + least + each * (n - 1)
            low = high = node[2]
            for term, factor in node[1]:
                bounds_of = self.interval(term, depth + 1)
                if bounds_of is None:
                    return None
                ends = (bounds_of[0] * factor, bounds_of[1] * factor)
                low, high = low + min(ends), high + max(ends)
            return low, high
        return None

    def _arm(self, node: Node, truth: bool, depth: int) -> Interval | None:
        """Bounds of what a select gives where its condition is *truth*."""
        arm = node[2] if truth else node[3]
        tested = self._bounded(node, truth)
        bounds = self.interval(tested[0], depth + 1) if tested is not None else None
        if tested is None or bounds is None:
            return self.interval(arm, depth + 1)
        _, relation, limit, factor, offset = tested
        low, high = bounds
        if relation == "eq":
            low, high = low + (low == limit), high - (high == limit)
        else:
            high = min(high, limit - 1) if low >= 0 else high
        ends = [x * factor + offset for x in ((low, high) if low <= high else bounds)]
        return min(ends), max(ends)

    def _bounded(self, node: Node, truth: bool) -> tuple[int, str, int, int, int] | None:
        """``(x, relation, limit, factor, offset)`` when an arm of a select is x * factor + offset, and x is tested there.

        The relation is ``eq``: x is not the limit, or ``lt``: x is less.
        """
        test, arm = self.node(node[1]), node[2] if truth else node[3]
        number = self.known(test[3]) if test[0] == "compare" else None
        if number is None or (test[1] == "eq") is truth:
            return None
        (tested, shift), (terms, offset) = self.linear(test[2]), self.linear(arm)
        if not tested or tested[0][1] != 1:
            return None
        factor = terms[0][1] if terms else 0
        if terms != tuple((t, f * factor) for t, f in tested):
            return None
        return self.total(tested, 0), test[1], number - shift, factor, offset

    def _phi_interval(self, value: int) -> Interval | None:
        """Bounds of what a loop carries: what its constants and tests suggest, if no way round it leads out of that."""
        if self._guess:
            return self._guess.get(value)
        if value not in self._intervals:
            self._intervals[value] = None
            phis, numbers = self._carried(value)
            if numbers:
                guess = min(numbers), max(numbers)
                self._guess = dict.fromkeys(phis, guess)
                known, self._seen_bounds = self._seen_bounds, {}
                brought = [self.interval(a, 1) for phi in phis for a in self.arguments(phi)]
                self._guess, self._seen_bounds = {}, known
                if all(b is not None and guess[0] <= b[0] and b[1] <= guess[1] for b in brought):
                    self._intervals.update(dict.fromkeys(phis, guess))
        return self._intervals[value]

    def _carried(self, value: int) -> tuple[set[int], set[int]]:
        """The phis that *value* is carried through, and the numbers that may bound it; no numbers: too many, or one unknown."""
        phis: set[int] = set()
        numbers: set[int] = set()
        work, seen = [value], {value}
        while work:
            v = work.pop()
            node = self.nodes[v]
            inner: tuple[int, ...] = ()
            if node[0] == "const":
                numbers.add(node[1])
            elif node[0] == "phi":
                phis.add(v)
                inner = self.arguments(v)
                if not inner or len(phis) > _CARRIED:
                    return set(), set()
            elif node[0] == "select":
                for truth, arm in ((True, node[2]), (False, node[3])):
                    tested = self._bounded(node, truth)
                    if tested is None or len(self.linear(tested[0])[0]) == 1:
                        inner += (arm,)
                    if tested is not None and tested[3] == 1:
                        _, relation, limit, _, offset = tested
                        # The last number on the side of the limit from which it is reached.
                        side = -1 if relation == "lt" else (offset < 0) - (offset > 0)
                        numbers.add(limit + offset + side)
            elif node[0] == "sum":
                inner = tuple(t for t, _ in node[1]) if len(node[1]) == 1 else ()
                rest = self.remainder(node[1]) if len(node[1]) > 1 else None
                if rest is not None:
                    numbers.update((node[2] + rest[1], node[2] + rest[1] + rest[0] * (rest[2] - 1)))
            elif node[0] == "op":
                numbers.update(self.interval(v, 1) or ())
            for x in map(self.find, inner):
                if x not in seen:
                    seen.add(x)
                    work.append(x)
        return phis, numbers

    def known_bits(self, value: int) -> Bits:
        """The bits of *value* known to be 0, and those known to be 1, of its low 64.

        A number of 32 bits may have been widened with or without its sign:
        where it may be negative, nothing is said of the upper half.
        """
        value = self.find(value)
        if value not in self._bits:
            assumed: dict[int, Bits] = {}
            settled, rounds = False, 0
            while not settled:
                before, memo = dict(assumed), dict[int, Bits]()
                self._bits_of(value, memo, assumed, rounds > _ROUNDS, 0)
                settled, rounds = before == assumed, rounds + 1
            self._bits.update(memo)
        zeros, ones = self._bits[value]
        return (0, 0) if zeros & ones else (zeros, ones)

    def _bits_of(
        self, value: int, memo: dict[int, Bits], assumed: dict[int, Bits], hurry: bool, depth: int
    ) -> Bits:
        value = self.find(value)
        found = self._bits.get(value, memo.get(value))
        if found is not None:
            return found
        if depth > _DEEP // 2:
            return 0, 0
        node = self.nodes[value]
        inner = [
            self._bits_of(p, memo, assumed, hurry, depth + 1)
            for p in (self.parts(node) if node[0] in _BITWISE else ())
        ]
        if node[0] == "phi":
            # What a loop brings back is at first taken to be any number that helps.
            memo[value] = assumed.setdefault(value, (_EVERY, _EVERY))
            zeros, ones = self._phi_bits(value, memo, assumed, hurry, depth)
            if (zeros, ones) != assumed[value]:
                zeros, ones = (0, 0) if hurry else (zeros & assumed[value][0], ones & assumed[value][1])
                assumed[value] = zeros, ones
            result = assumed[value]
        else:
            result = self._computed_bits(value, node, inner)
        memo[value] = result
        return result

    def _phi_bits(
        self, value: int, memo: dict[int, Bits], assumed: dict[int, Bits], hurry: bool, depth: int
    ) -> Bits:
        bounds = self.interval(value)
        if bounds is not None and bounds[0] >= 0:
            return _EVERY & -1 << bounds[1].bit_length(), 0
        zeros = ones = _EVERY if self.arguments(value) else 0
        for argument in self.arguments(value):
            z, o = self._bits_of(argument, memo, assumed, hurry, depth + 1)
            zeros, ones = zeros & z, ones & o
        return zeros, ones

    def _computed_bits(self, value: int, node: Node, inner: list[Bits]) -> Bits:
        kind = node[0]
        if kind == "const":
            return _narrow(~node[1] & _EVERY, node[1] & _EVERY, self._wide(value))
        if kind == "special":
            limit = {"%tid.x": T.LIMIT, "%tid.y": T.LIMIT, "%tid.z": T.LIMIT, "%laneid": 32}.get(node[1])
            return (_EVERY & -limit, 0) if limit else (0, 0)
        if kind == "symbol":
            return max(self._alignment(value) - 1, 0), 0
        if kind == "broadcast":
            return inner[0]
        if kind == "select":
            (z, o), (y, u) = inner[1:]
            return z & y, o & u
        if kind == "pack":
            low = (1 << node[1]) - 1
            zeros, ones = (
                sum((bits[k] & low) << i * node[1] for i, bits in enumerate(inner)) for k in (0, 1)
            )
            above = -1 << node[1] * len(inner)
            return _narrow((zeros | above) & _EVERY, ones & _EVERY, self._wide(value))
        if kind == "part":
            low = (1 << node[2]) - 1
            zeros, ones = (bits >> node[1] * node[2] & low for bits in inner[0])
            return _narrow((zeros | ~low) & _EVERY, ones, False)
        if kind == "sum":
            return self._sum_bits(value, node, inner)
        if kind != "op" or node[1] not in ("mask", "mapa", "shr", "and", "or", "xor"):
            return 0, 0
        zeros, ones = inner[0]
        if node[1] == "mapa":
            return zeros & _PEER, ones & _PEER
        if node[1] == "mask":
            return _narrow(zeros | (_EVERY & ~node[3]), ones & node[3], self._wide(value))
        if node[1] == "shr":
            by = self.known(node[4])
            return (0, 0) if by is None else _shifted_bits(zeros, ones, by & 0xFFFFFFFF, str(node[2]))
        y, u = inner[1]
        if node[1] == "and":
            return zeros | y, ones & u
        return (zeros & y, ones | u) if node[1] == "or" else (zeros & y | ones & u, zeros & u | ones & y)

    def _sum_bits(self, value: int, node: Node, inner: list[Bits]) -> Bits:
        if any(z & o for z, o in inner):
            return _EVERY, _EVERY
        zeros, ones, most = ~node[2] & _EVERY, node[2] & _EVERY, node[2]
        exact = node[2] >= 0
        for (_, factor), (z, o) in zip(node[1], inner, strict=True):
            by, largest = _trailing(factor), ~z & _EVERY
            exact &= factor > 0
            most += largest * factor
            if factor == 1 << by:
                z, o = (z << by | (1 << by) - 1) & _EVERY, o << by & _EVERY
            else:
                # A multiple ends in zeros, and is no larger than the largest one.
                unit = min(_trailing(~z & _EVERY) + by, 64)
                top = (largest * factor).bit_length() if factor > 0 else 64
                z, o = ((1 << unit) - 1 | -1 << min(top, 64)) & _EVERY, 0
            zeros, ones = _added(zeros, ones, z, o)
        exact &= most < 1 << 31
        return (zeros, ones) if exact or self._wide(value) else _low(zeros, ones)

    def _wide(self, value: int, depth: int = 0) -> bool:
        """Whether *value* is sure to have been computed in 64 bits."""
        node = self.node(value)
        kind = node[0]
        if kind == "const":
            return not -1 << 31 <= node[1] < 1 << 32
        if kind == "sum":
            return not -1 << 31 <= node[2] < 1 << 32 or (
                depth < 4 and any(self._wide(t, depth + 1) for t, _ in node[1])
            )
        if kind == "op":
            if node[1] == "mask":
                return bool(node[3] >= _SHORT)
            types = node[2] if isinstance(node[2], tuple) else (node[2],)
            return any(t in (".b64", ".u64", ".s64", ".wide") for t in types)
        if kind == "pack":
            return bool(node[1] * (len(node) - 2) >= 64)
        return bool(kind == "parameter" and node[2] == 8)

    def never_meet(self, a: int, size_a: int, b: int, size_b: int) -> bool:
        """Whether two ranges are apart in whatever rounds of the loops that change their addresses."""
        if not self.volatile(a) and not self.volatile(b):
            return self.apart(a, size_a, b, size_b) is True
        (base_a, bounds_a), (base_b, bounds_b) = self._swept(a), self._swept(b)
        if base_a != base_b or bounds_a is None or bounds_b is None:
            return False
        return bounds_a[1] + size_a <= bounds_b[0] or bounds_b[1] + size_b <= bounds_a[0]

    def _swept(self, value: int) -> tuple[int, Interval | None]:
        """What of a sum stays what it is, and the bounds of the rest."""
        terms, constant = self.linear(value)
        changing = tuple(t for t in terms if self.volatile(t[0]))
        lasting = tuple(t for t in terms if t not in changing)
        return self.total(lasting, 0), self.interval(self.total(changing, constant))

    def apart(self, a: int, size_a: int, b: int, size_b: int) -> bool | None:
        """Whether ``[a, a+size_a)`` and ``[b, b+size_b)`` are disjoint: True, False (they meet), None (not known)."""
        difference = self.add(a, self.times(b, -1))
        terms, constant = self.linear(difference)
        if not terms:
            return constant >= size_b or -constant >= size_a
        bounds = self.interval(difference)
        if bounds is not None and (bounds[0] >= size_b or -bounds[1] >= size_a):
            return True
        zeros, ones = self.known_bits(difference)
        modulus = 1 << _trailing(~(zeros | ones))
        remainder = ones & (modulus - 1)
        if modulus > 1 and remainder >= size_b and modulus - remainder >= size_a:
            return True
        symbols = [t for t, _ in terms if self.nodes[t][0] == "symbol"]
        if len(symbols) == 2 and len(terms) == 2 and {f for _, f in terms} == {1, -1}:
            return True  # two variables
        return None
