"""The launch that a replay assumes: shape of the CTA and the cluster, grid, parameters and memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence

from tclint._named_tuple import NamedTuple
from tclint.analyses.model import KernelModel
from tclint.ir.nodes import Memory, Symbol
from tclint.isa.forms import Match
from tclint.isa.special_registers import SPECIAL_REGISTERS, LaunchShape, Scope
from tclint.replay import hypotheses
from tclint.replay.abstract_lanes import Lanes, collapse
from tclint.replay.hypotheses import CANCELLED, GRID, MEMORY, LaunchWord

__all__ = ["LaunchValues", "ReplayLaunch", "in_space"]

_PARAMETER = 1 << 50
_PARAMETER_RANGE = 1 << 20
"""From the address of a parameter to that of the next."""
_OTHERS = 1 << 46
"""The address of the first variable that is not in shared memory. Each has a range of its own."""
_RANGE = 32
"""The logarithm of the size of such a range, and of the window of shared memory at address 0."""


def _changes_maps(match: Match) -> bool:
    """Whether it changes or reads a tensor map as data, or makes a change visible (9.7.9.28, 9.7.13.4)."""
    return match.form.proxy == "tensormap" or match.syntax.root == "tensormap"


class LaunchValues(NamedTuple):
    """The values of one launch: *size* for all words but the *others*."""

    size: int
    grid: int
    cta: int = 0
    """The CTA or cluster of the grid that is replayed."""
    increasing: bool = False
    """Each element of global memory is larger than the one before it, for lengths that are differences of offsets."""
    distinct: bool = False
    """No two words of global memory are equal."""
    cancelled: int = 0
    others: Mapping[LaunchWord, int] = {}
    roles_vary: bool = False
    """Threads may take different branches where the launch decides which of them do."""
    recorded: Mapping[LaunchWord, int] = {}
    """Those of the *others* that a recorded launch has."""

    def word(self, word: LaunchWord) -> int:
        return self.others.get(word, self.size)

    def reduced(self, words: Iterable[LaunchWord]) -> LaunchValues:
        """Values with which loops whose trip count *words* bound have fewer iterations; the same values if there are
        none.
        """
        words = set(words)
        if GRID in words and self.grid < hypotheses.MAX_GRID.value:
            return self._replace(grid=self.grid * hypotheses.GRID_FACTOR.value)
        if CANCELLED in words:
            return self._replace(cancelled=self.cancelled // 2)
        if high := self._high(words):
            return self._replace(others={**self.others, **dict.fromkeys(high, 0)})
        divisor = hypotheses.VALUE_DIVISOR.value
        lower = {w: max(1, self.word(w) // divisor) for w in words if w != GRID and not w.high}
        return self._replace(others={**self.others, **lower})

    def _high(self, words: Iterable[LaunchWord]) -> list[LaunchWord]:
        """The upper halves of 64-bit values among *words* that are not 0: such a value is too large for any trip count."""
        high = (w._replace(high=False) for w in words if w.high)
        return [w for w in high if self.word(w)]

    def capped(self, words: Iterable[LaunchWord], greatest: int) -> LaunchValues:
        """Values in which none of *words* exceeds *greatest*."""
        return self._replace(others={**self.others, **{w: min(self.word(w), greatest) for w in words}})

    def reduction_factor(self, words: Collection[LaunchWord]) -> int:
        """By how much that divides the trip count. Several words may be sides of an area that is iterated over."""
        if GRID in words and self.grid < hypotheses.MAX_GRID.value:
            return hypotheses.GRID_FACTOR.value
        if self._high(words):
            return 1 << 32
        divisor = hypotheses.VALUE_DIVISOR.value
        return divisor if sum(not w.high for w in words) < 2 else divisor * divisor


def _other_variables(model: KernelModel) -> list[tuple[str, str]]:
    """The variables that are not in shared memory, each with its state space."""
    variables = [*model.function.variables.values(), *model.module.variables.values()]
    return [(v.name, v.space) for v in variables if not v.space.startswith(".shared")]


def in_space(model: KernelModel, space: str) -> Callable[[int], int]:
    """A test of whether a generic address is in a state space (9.7.9.19): that of a variable, or what the launch passes,
    which is global memory.
    """
    spaces, wanted = [space for _, space in _other_variables(model)], space.partition("::")[0]

    def test(address: int) -> int:
        if address >> _RANGE == 0:
            return int(wanted == ".shared")
        if address >= _PARAMETER:
            return int(wanted == ".param")
        number = address - _OTHERS >> _RANGE
        return int(wanted == (spaces[number] if 0 <= number < len(spaces) else ".global"))

    return test


class ReplayLaunch:
    """The values of one launch, by name or address. Equal questions have equal answers in all threads."""

    def __init__(
        self,
        model: KernelModel,
        values: LaunchValues,
        shape: tuple[int, ...],
        cluster: tuple[int, ...] = (1,),
    ) -> None:
        function = model.function
        self.values = values
        x, y, z = (*shape, 1, 1)[:3]
        width, height, depth = (*cluster, 1, 1)[:3]
        self._recorded = model.recorded
        rows = (height, depth) if model.recorded is None else model.recorded.grid[1:]
        self.shape = LaunchShape((width * values.grid, *rows), (x, y, z), (width, height, depth))
        self._offsets: dict[str, int] = {}
        self._parameters = [p.name for p in function.parameters]
        at = 0
        variables = [*function.variables.values(), *model.module.variables.values()]
        fixed = [v for v in variables if v.space.startswith(".shared") and v.size]
        open_ = [v for v in variables if v.space.startswith(".shared") and not v.size]
        for variable in fixed:
            align = max(variable.align, 1)
            at = (at + align - 1) // align * align
            self._offsets[variable.name] = at
            at += variable.size
        at = (at + 1023) // 1024 * 1024
        for variable in open_:
            self._offsets[variable.name] = at
        self._changes_maps = self._recorded is not None and any(
            _changes_maps(use.match) for use in function.uses if use.match is not None
        )
        self._others = {name: _OTHERS + (i << _RANGE) for i, (name, _) in enumerate(_other_variables(model))}
        self._loaded: dict[tuple[Hashable, int, int, int], int] = {}
        """What was loaded, by the arguments of :meth:`load`."""
        self._maps: dict[tuple[Hashable, int, int, int], int] = {}
        """The same for addresses of tensor maps."""
        self._elements: dict[tuple[int, int], int] = {}
        """The elements of global memory that were read at their addresses, numbered in that order."""
        self._positions: dict[tuple[str, int], int | None] = {}
        """The special registers that were read and depend on the grid or the CTA, by name and rank."""

    def __str__(self) -> str:
        """What is assumed, in words: ``CTA 0 of 8 with 128 threads; 512 in parameters and memory``."""
        values, shape = self.values, self.shape
        unit = (
            f"cluster {values.cta} of {values.grid} with {_sides(shape.cluster)} CTAs"
            if shape.ranks > 1
            else ""
        )
        changed = {w: n for w, n in values.others.items() if values.recorded.get(w) != n and not w.high}
        words, lower = len(changed), sorted(set(changed.values()))
        where = "memory, the parameters as recorded" if self._recorded else "parameters and memory"
        return (
            f"{unit or f'CTA {values.cta} of {values.grid}'} with {_sides(shape.block)} threads{' each' if unit else ''}; "
            f"{values.size} in {where}"
            + (f", but {' or '.join(map(str, lower))} in {words} of their words" if lower else "")
            + (", growing from word to word" if values.increasing else "")
        )

    def address(self, name: str, cta: int) -> int:
        """The address of a variable. The shared memory of CTA *cta* of the cluster begins at *cta* times 2**24."""
        offset = self._offsets.get(name)
        if offset is not None:
            return offset | cta << 24
        if name in self._parameters:
            return _PARAMETER + self._parameters.index(name) * _PARAMETER_RANGE
        return self._others.get(name, 1 << 48)

    def copied_bytes(self, tensor_map: Lanes) -> int | None:
        """The bytes that a copy through the tensor map at this address completes; None if they are unknown.

        They are known in a recorded launch, in memory only if the kernel changes no map.
        """
        if self._recorded is None or not isinstance(tensor_map, int):
            return None
        recorded = self._recorded
        if tensor_map >= _PARAMETER:
            found = recorded.map_at(*divmod(tensor_map - _PARAMETER, _PARAMETER_RANGE))
        elif self._changes_maps:
            return None
        else:
            number, offset = divmod(tensor_map - _OTHERS, 1 << _RANGE)
            names = list(self._others)
            known = 0 <= number < len(names)
            found = recorded.map_in(recorded.variable(names[number]) + offset if known else tensor_map)
        return None if found is None else found.box_bytes

    def provides(self, space: str, address: Memory) -> bool:
        """Whether a load from this address reads what comes with the launch, and not what the kernel has written."""
        if space.startswith(".param"):
            base = address.base
            return isinstance(base, int) or (isinstance(base, Symbol) and base.name in self._parameters)
        return space.startswith((".global", ".const"))

    def agrees(self, earlier: ReplayLaunch) -> bool:
        """Whether a replay that asked *earlier* would get the same answers here, so that it would do the same.

        Of the addresses of tensor maps only those count that are equal.
        """
        return (
            (self.shape.block, self.shape.cluster) == (earlier.shape.block, earlier.shape.cluster)
            and self.values.cancelled == earlier.values.cancelled
            and self.values.roles_vary == earlier.values.roles_vary
            and all(self._read(*asked) == answer for asked, answer in earlier._loaded.items())
            and all(self._of_cta(*asked) == answer for asked, answer in earlier._positions.items())
            and _equalities(self._read(*asked) for asked in earlier._maps)
            == _equalities(earlier._maps.values())
        )

    def load(
        self, base: Hashable, address: int, size: int, buffer: int = 0, *, names_map: bool = False
    ) -> int:
        """The *size* bytes of a parameter or of global memory at *address* after *base*: each aligned 32-bit word has
        one value. The words of each *buffer* are of their own where memory is *distinct*.

        A word is thus the same whether it is loaded alone, as half of a 64-bit value, or in a vector. Where memory is
        *increasing*, each element is larger than the one before it instead. What is loaded may do no more than name a
        tensor map.
        """
        known, asked = self._maps if names_map else self._loaded, (base, address, size, buffer)
        if asked not in known:
            known[asked] = self._read(*asked)
        return known[asked]

    def element(self, address: int, size: int) -> int:
        """The *size* bytes at an address in global memory: of the elements that are read, every second one is 0."""
        number = self._elements.setdefault((address, size), len(self._elements))
        return 0 if number % 2 else self._read(MEMORY, 0, size, 0)

    def _read(self, base: Hashable, address: int, size: int, buffer: int) -> int:
        if self.values.distinct and base is MEMORY:
            element, other = hypotheses.DISTINCT_ELEMENTS.value, hypotheses.DISTINCT_BUFFERS.value
            return self.values.word(MEMORY) + address // size * element + buffer * other & (1 << size * 8) - 1
        if self.values.increasing and base is MEMORY:
            steps = min(max(address // size, -1), hypotheses.ELEMENTS_THAT_INCREASE.value) + 1
            return self.values.word(MEMORY) * steps & (1 << size * 8) - 1
        found = 0
        for k in range(size):
            byte = address + k
            word = self.values.word(MEMORY if base is MEMORY else LaunchWord(base, byte >> 2))
            found |= (word >> (byte & 3) * 8 & 255) << k * 8
        return found

    def counter_value(self, taken: int, number: int, size: int) -> int:
        """The value of an atomic counter in memory of which one thread has read *taken* values before.

        The first few are consecutive. Then the counter is at the *number* that memory holds, and grows fast: other
        CTAs take the rest, and the work ends.
        """
        alone = hypotheses.COUNTER_READS.value
        return taken if taken < alone else min(number << taken - alone, (1 << size * 8 - 1) - 1)

    def special(self, name: str, cta: int, threads: Sequence[int]) -> Lanes:
        """A special register in *threads* of the CTA of rank *cta*; None where the shape of the launch does not determine it."""
        register = SPECIAL_REGISTERS[name]
        if register.of_cta is not None:
            if (name, cta) not in self._positions:
                self._positions[name, cta] = self._of_cta(name, cta)
            return self._positions[name, cta]
        read_by = threads if register.scope < Scope.CTA else threads[:1]
        return collapse([register.value(self.shape, (0, 0, 0), thread) for thread in read_by])

    def _of_cta(self, name: str, cta: int) -> int | None:
        """A special register that is the same in all threads of the CTA of rank *cta*."""
        width, height, _ = self.shape.cluster
        position = (cta % width + self.values.cta * width, cta // width % height, cta // (width * height))
        return SPECIAL_REGISTERS[name].value(self.shape, position, 0)


def _equalities(values: Iterable[int]) -> list[int]:
    """For each value the position of the first one that is equal."""
    first: dict[int, int] = {}
    return [first.setdefault(value, at) for at, value in enumerate(values)]


def _sides(shape: Iterable[int]) -> str:
    """``128``, ``2x4``: the sides of a shape, without those of length 1 at its end."""
    sides = list(shape)
    while len(sides) > 1 and sides[-1] == 1:
        sides.pop()
    return "x".join(map(str, sides))
