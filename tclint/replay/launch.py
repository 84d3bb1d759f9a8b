"""The launch that a replay assumes: threads, cluster, grid, and parameters."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from tclint.analyses.model import KernelModel
from tclint.ir.nodes import Memory, Symbol
from tclint.isa.special_registers import SPECIAL_REGISTERS, LaunchShape, Scope
from tclint.replay.abstract_lanes import Lanes, collapse

__all__ = ["CANCELLED", "GRID", "MEMORY", "Launch", "Numbers", "Word"]

_SHARED = 1024
"""Where shared memory begins: variables of it are aligned to no more."""
_PARAMETER = 1 << 50
_RISES = 7
"""How many words of memory one behind the other rise."""
_TICKETS = 8
"""How often in a row a CTA gets the next ticket of all: rings of a few stages come round."""
_WIDEST = 1 << 10
"""CTAs or clusters of a grid that is made wider so that each has less to do."""
_WIDER, _LESS = 16, 4
"""How many times as wide it is made each time, and how many times as small the other words are."""


class Word(NamedTuple):
    """32 bits that come with the launch."""

    base: Hashable
    """The parameter."""
    number: int = 0
    """Which word of it."""
    high: bool = False
    """It is the upper half of a longer number."""


MEMORY = Word("memory")
"""All words of global and constant memory."""
GRID = Word("grid")
"""How many CTAs or clusters there are."""
CANCELLED = Word("cancelled")
"""How many clusters are cancelled for one that asks to do their work (9.7.13.17)."""


class Numbers(NamedTuple):
    """What the words of a launch are: *size*, but for the *others*; and how many clusters are *cancelled*."""

    size: int
    grid: int
    cta: int = 0
    """Which CTA or cluster of the grid is replayed."""
    rising: bool = False
    """Each word of global memory is more than the one before it, as where lengths are differences of offsets."""
    cancelled: int = 2
    others: Mapping[Word, int] = {}

    def word(self, word: Word) -> int:
        return self.others.get(word, self.size)

    def fewer(self, words: Iterable[Word]) -> Numbers:
        """Other numbers, for which loops that *words* bound go round less often; the same where there are none."""
        words = set(words)
        if GRID in words and self.grid < _WIDEST:
            return self._replace(grid=self.grid * _WIDER)
        if CANCELLED in words:
            return self._replace(cancelled=self.cancelled // 2)
        high = {w._replace(high=False): 0 for w in words if w.high}
        lower = {w: max(1, self.word(w) // _LESS) for w in words if w != GRID and not w.high}
        return self._replace(others={**self.others, **lower, **high})

    def weight(self, words: Collection[Word]) -> int:
        """How many times as few rounds that may be: where there are several words, each may be a side of what is gone over."""
        if GRID in words and self.grid < _WIDEST:
            return _WIDER
        return _LESS if sum(not w.high for w in words) < 2 else _LESS * _LESS


class Launch:
    """Numbers for what the text of a kernel leaves to its launch; the same question has the same answer everywhere."""

    def __init__(
        self,
        model: KernelModel,
        numbers: Numbers,
        shape: tuple[int, ...],
        cluster: tuple[int, ...] = (1,),
    ) -> None:
        function = model.function
        self.numbers = numbers
        x, y, z = (*shape, 1, 1)[:3]
        width, height, depth = (*cluster, 1, 1)[:3]
        self.shape = LaunchShape((width * numbers.grid, height, depth), (x, y, z), (width, height, depth))
        self._offsets: dict[str, int] = {}
        self._parameters = [p.name for p in function.parameters]
        at = _SHARED
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
        others = [v.name for v in variables if not v.space.startswith(".shared")]
        self._others = {name: (1 << 46) + (i << 32) for i, name in enumerate(others)}

    def address(self, name: str, cta: int) -> int:
        """Where a variable is; shared memory of the CTA *cta* of the cluster begins at its rank times 2**24."""
        offset = self._offsets.get(name)
        if offset is not None:
            return offset | cta << 24
        if name in self._parameters:
            return _PARAMETER + (self._parameters.index(name) << 20)
        return self._others.get(name, 1 << 48)

    def gives(self, space: str, address: Memory) -> bool:
        """Whether what is loaded there comes with the launch, and not from the kernel itself."""
        if space.startswith(".param"):
            base = address.base
            return isinstance(base, int) or (isinstance(base, Symbol) and base.name in self._parameters)
        return space.startswith((".global", ".const"))

    def data(self, base: Hashable, address: int, size: int) -> int:
        """What is in parameters and in global memory, *address* bytes behind *base*: each aligned word of 32 bits is a number.

        So a number that is loaded as a part of a longer one, or with its neighbour, is what it is when loaded alone. Where
        memory is *rising*, each element is more than the one before it instead.
        """
        if self.numbers.rising and base is MEMORY:
            steps = min(max(address // size, -1), _RISES) + 1
            return self.numbers.word(MEMORY) * steps & (1 << size * 8) - 1
        found = 0
        for k in range(size):
            byte = address + k
            word = self.numbers.word(MEMORY if base is MEMORY else Word(base, byte >> 2))
            found |= (word >> (byte & 3) * 8 & 255) << k * 8
        return found

    def ticket(self, taken: int, number: int, size: int) -> int:
        """The next number of a counter in memory of which one thread has *taken* some: after a few, others have taken the most.

        Then the counter is at the *number* that is in memory, and soon past whatever there is to do.
        """
        return taken if taken < _TICKETS else min(number << taken - _TICKETS, (1 << size * 8 - 1) - 1)

    def special(self, name: str, cta: int, threads: Sequence[int]) -> Lanes:
        """A special register in *threads* of the CTA of rank *cta*; None where the shape of the launch does not determine it."""
        register = SPECIAL_REGISTERS[name]
        width, height, _ = self.shape.cluster
        position = (cta % width + self.numbers.cta * width, cta // width % height, cta // (width * height))
        read_by = threads if register.scope < Scope.CTA else threads[:1]
        return collapse([register.value(self.shape, position, thread) for thread in read_by])
