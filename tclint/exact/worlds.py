"""The launches in which answers are tried: shapes of a CTA, and the numbers that parameters and memory have.

A world answers every question about a launch, and always the same. Its numbers are edge values: zero, powers of two and
their neighbours, the limits of signed and unsigned numbers, and the constants of the kernel with their neighbours. In the
first worlds all words of memory are equal, in most of the others about half of them differ by no more than two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from math import prod
from zlib import crc32

from tclint.ir.nodes import Function, Immediate, Variable, specials
from tclint.isa.special_registers import SPECIAL_REGISTERS, WARP, LaunchShape, Triple

__all__ = ["MAX_THREADS", "World", "shapes", "worlds"]

MAX_THREADS = 1024
"""The threads that a CTA may have on every target."""
_WORD = (1 << 32) - 1
_SAME = (0, 1, 2, 3, _WORD, 4, 8, 32, 128, 1 << 31)
"""The numbers of the worlds in which all words are equal."""
_EDGES = (
    0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 255, 256, 257, 1000, 4095, 4096,
    65535, 65536, (1 << 31) - 1, 1 << 31, _WORD, _WORD - 1, _WORD - 31,
)  # fmt: skip
_BEGIN = 1024
"""Where the first variable of shared memory is; what is below belongs to the system."""
_GLOBAL = 1 << 33
"""Variables of other state spaces are beyond this address."""
_SECOND = frozenset(("%tid", "%ntid", "%tid.y", "%ntid.y", "%tid.z", "%ntid.z"))
"""A kernel that reads one of them may be launched with CTAs of several dimensions (``threads`` in docs/assumptions.md)."""
_GRIDS = ((1, 1, 1), (3, 2, 1), (1000, 1, 1), (7, 5, 3))


def shapes(function: Function) -> list[Triple]:
    """Shapes of a CTA that a launch of the kernel may have, the one with the most threads along x first.

    CTAs consist of whole warps unless the kernel states another shape (``shape`` in docs/assumptions.md).
    """
    stated = function.directives.get(".reqntid")
    if stated:
        x, y, z = (*stated, 1, 1)[:3]
        return [(x, y, z)]
    most = min(function.most_threads or MAX_THREADS, MAX_THREADS) // WARP * WARP
    if most <= WARP:
        return [(function.most_threads or WARP, 1, 1)]
    found = [(most, 1, 1), (WARP, 1, 1), (most // 2 // WARP * WARP or WARP, 1, 1)]
    read = {s.name for instruction in function.instructions for s in specials(instruction.operands)}
    if not read.isdisjoint(_SECOND):
        found += [(x, most // x, 1) for x in (WARP, 8, 16, most // 2) if most % x == 0]
        found += [(8, 4, most // WARP), (1, WARP, most // WARP)]
    return list(dict.fromkeys(found))


def _constants(function: Function) -> tuple[int, ...]:
    """The integers with which the kernel compares, and their neighbours."""
    found = {
        o.value + step & _WORD
        for i in function.instructions
        if i.match is not None and i.match.relation
        for o in i.operands
        if isinstance(o, Immediate) and isinstance(o.value, int)
        for step in (-1, 0, 1)
    }
    return tuple(sorted(found))[:64]


def worlds(function: Function, variables: Mapping[str, Variable], count: int) -> Iterator[World]:
    """*count* worlds with different numbers; the shapes of a CTA take turns."""
    constants = _constants(function)
    numbers = (*_EDGES, *constants * (len(_EDGES) // len(constants) + 1)) if constants else _EDGES
    symbols = _layout(function, variables)
    for number, shape in zip(range(count), cycle(shapes(function))):
        yield World(function, symbols, numbers, number, shape)


def _layout(function: Function, variables: Mapping[str, Variable]) -> dict[str, int]:
    """The address of each variable in its state space."""
    found: dict[str, int] = {}
    parameters = {p.name for p in function.parameters}
    at = {".param": 0, ".shared": _BEGIN}
    open_ended = list[Variable]()
    for variable in (*function.parameters, *variables.values(), *function.variables.values()):
        space = ".param" if variable.name in parameters else variable.space.partition("::")[0]
        if variable.name in found:
            continue
        if space == ".shared" and not variable.size:
            open_ended.append(variable)
            continue
        begin = -(-at.get(space, _GLOBAL) // max(variable.align, 1)) * max(variable.align, 1)
        found[variable.name], at[space] = begin, begin + variable.size
    for variable in open_ended:  # dynamic shared memory follows static one (5.1.7)
        found[variable.name] = -(-at[".shared"] // WARP**2) * WARP**2
    return found


class World:
    """One launch of *function*: the numbers that it finds in special registers, parameters and memory."""

    def __init__(
        self,
        function: Function,
        symbols: Mapping[str, int],
        numbers: Sequence[int],
        number: int,
        shape: Triple,
    ) -> None:
        self.symbols, self.numbers, self.number, self.shape = symbols, numbers, number, shape
        self.threads = prod(shape)
        x, y, z = (*(function.cluster or ()), 1, 1, 1)[:3]
        grid = _GRIDS[number % len(_GRIDS)]
        self.launch = LaunchShape((grid[0] * x, grid[1] * y, grid[2] * z), shape, (x, y, z))
        last = number // 2 % 2
        self.cta = (
            (self.launch.grid[0] - 1) * last,
            (self.launch.grid[1] - 1) * last,
            (self.launch.grid[2] - 1) * last,
        )
        self._given = {
            (symbols[name] + offset) // 4: value
            for (name, offset), value in function.arguments.items()
            if (symbols[name] + offset) % 4 == 0
        }
        """The words of parameters that the launch is known to pass."""
        self._base = self.numbers[self.hash("base") % len(self.numbers)]

    def hash(self, *key: object) -> int:
        """A number of this world and a *key*, always the same."""
        return crc32(repr((self.number, key)).encode())

    def special(self, name: str, thread: int) -> int | None:
        """What *thread* reads from a special register; None if the launch does not decide it."""
        register = SPECIAL_REGISTERS[name]
        if register.varies:
            return None
        found = register.value(self.launch, self.cta, thread)
        return self.hash(name) & 0xFFFF if found is None and not register.distinguishes_threads else found

    def memory(self, space: str, address: int, size: int) -> int:
        """The *size* bytes at an address of memory that nothing has written."""
        first, last = address // 4, (address + size - 1) // 4
        found = sum(self._word(space, word) << 32 * at for at, word in enumerate(range(first, last + 1)))
        return found >> 8 * (address % 4) & (1 << 8 * size) - 1

    def _word(self, space: str, word: int) -> int:
        if space == ".param" and word in self._given:
            return self._given[word]
        if word % 2:  # the upper half of a number of 64 bits is often its sign
            kind = self.hash("upper", space, word) % 4 if self.number >= len(_SAME) else 1
            if kind < 2:
                return 0 if kind == 0 or self._word(space, word - 1) >> 31 == 0 else _WORD
        if self.number < len(_SAME):
            return _SAME[self.number]
        drawn = self.hash(space, word)
        return self._base + drawn // 2 % 3 - 1 & _WORD if drawn % 2 else self.arbitrary(drawn // 2)

    def arbitrary(self, drawn: int) -> int:
        """An edge value; half of them are sign-extended to 64 bits where they are used as such."""
        return self.numbers[drawn % len(self.numbers)]

    def wide(self, drawn: int) -> int:
        """An edge value of 64 bits."""
        number = self.arbitrary(drawn)
        return number | (_WORD << 32 if drawn & 1 << 20 and number >> 31 else 0)

    def described(self, function: Function) -> str:
        """The first parameters with their numbers, in words; "" if the kernel has none that are numbers."""
        scalars = [p for p in function.parameters if 0 < p.size <= 8][:4]
        numbers = (self.memory(".param", self.symbols[p.name], p.size) for p in scalars)
        return ", ".join(f"{p.name} = {number:#x}" for p, number in zip(scalars, numbers, strict=True))
