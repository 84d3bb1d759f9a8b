"""The launch that a replay assumes: threads, cluster, grid, and parameters."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from math import prod
from typing import NamedTuple

from tclint.analyses.model import KernelModel
from tclint.ir.nodes import Memory, Symbol
from tclint.replay.abstract_lanes import Lanes, collapse

__all__ = ["CANCELLED", "GRID", "MEMORY", "Launch", "LaunchValues", "LaunchWord"]

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


class LaunchWord(NamedTuple):
    """32 bits that come with the launch."""

    base: Hashable
    """The parameter."""
    number: int = 0
    """Which word of it."""
    high: bool = False
    """It is the upper half of a longer number."""


MEMORY = LaunchWord("memory")
"""All words of global and constant memory."""
GRID = LaunchWord("grid")
"""How many CTAs or clusters there are."""
CANCELLED = LaunchWord("cancelled")
"""How many clusters are cancelled for one that asks to do their work (9.7.13.17)."""


class LaunchValues(NamedTuple):
    """What the words of a launch are: *size*, but for the *others*; and how many clusters are *cancelled*."""

    size: int
    grid: int
    cta: int = 0
    """Which CTA or cluster of the grid is replayed."""
    increasing: bool = False
    """Each word of global memory is more than the one before it, as where lengths are differences of offsets."""
    cancelled: int = 2
    others: Mapping[LaunchWord, int] = {}

    def word(self, word: LaunchWord) -> int:
        return self.others.get(word, self.size)

    def reduced(self, words: Iterable[LaunchWord]) -> LaunchValues:
        """Other numbers, for which loops that *words* bound go round less often; the same where there are none."""
        words = set(words)
        if GRID in words and self.grid < _WIDEST:
            return self._replace(grid=self.grid * _WIDER)
        if CANCELLED in words:
            return self._replace(cancelled=self.cancelled // 2)
        high = {w._replace(high=False): 0 for w in words if w.high}
        lower = {w: max(1, self.word(w) // _LESS) for w in words if w != GRID and not w.high}
        return self._replace(others={**self.others, **lower, **high})

    def reduction_factor(self, words: Collection[LaunchWord]) -> int:
        """How many times as few rounds that may be: where there are several words, each may be a side of what is gone over."""
        if GRID in words and self.grid < _WIDEST:
            return _WIDER
        return _LESS if sum(not w.high for w in words) < 2 else _LESS * _LESS


class Launch:
    """Numbers for what the text of a kernel leaves to its launch; the same question has the same answer everywhere."""

    def __init__(
        self,
        model: KernelModel,
        values: LaunchValues,
        shape: tuple[int, ...],
        cluster: tuple[int, ...] = (1,),
    ) -> None:
        function = model.function
        self.values = values
        self.grid = values.grid
        self.shape = (*shape, 1, 1)[:3]
        self.threads = prod(self.shape)
        self.cluster = (*cluster, 1, 1)[:3]
        self.ctas = prod(self.cluster)
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

    def provides(self, space: str, address: Memory) -> bool:
        """Whether what is loaded there comes with the launch, and not from the kernel itself."""
        if space.startswith(".param"):
            base = address.base
            return isinstance(base, int) or (isinstance(base, Symbol) and base.name in self._parameters)
        return space.startswith((".global", ".const"))

    def load(self, base: Hashable, address: int, size: int) -> int:
        """What is in parameters and in global memory, *address* bytes behind *base*: each aligned word of 32 bits is a number.

        So a number that is loaded as a part of a longer one, or with its neighbour, is what it is when loaded alone. Where
        memory is *rising*, each element is more than the one before it instead.
        """
        if self.values.increasing and base is MEMORY:
            steps = min(max(address // size, -1), _RISES) + 1
            return self.values.word(MEMORY) * steps & (1 << size * 8) - 1
        found = 0
        for k in range(size):
            byte = address + k
            word = self.values.word(MEMORY if base is MEMORY else LaunchWord(base, byte >> 2))
            found |= (word >> (byte & 3) * 8 & 255) << k * 8
        return found

    def counter_value(self, taken: int, number: int, size: int) -> int:
        """The next number of a counter in memory of which one thread has *taken* some: after a few, others have taken the most.

        Then the counter is at the *number* that is in memory, and soon past whatever there is to do.
        """
        return taken if taken < _TICKETS else min(number << taken - _TICKETS, (1 << size * 8 - 1) - 1)

    def special(self, name: str, cta: int, threads: Sequence[int]) -> Lanes:
        x, y, _ = self.shape
        if name == "%tid.x":
            return collapse([t % x for t in threads])
        if name == "%tid.y":
            return collapse([t // x % y for t in threads])
        if name == "%tid.z":
            return collapse([t // (x * y) for t in threads])
        if name == "%laneid":
            return collapse([t & 31 for t in threads])
        if name == "%warpid":
            return collapse([t >> 5 for t in threads])
        word, _, axis = name.lstrip("%").partition(".")
        k = "xyz".index(axis) if axis in ("x", "y", "z") else 0
        cx, cy, _ = self.cluster
        place = (cta % cx, cta // cx % cy, cta // (cx * cy))
        if word == "ntid":
            return self.shape[k]
        if word == "nctaid":
            return self.cluster[k] * self.grid if k == 0 else self.cluster[k]
        if word == "ctaid":
            return place[k] + (self.values.cta * cx if k == 0 else 0)
        if word == "cluster_ctaid":
            return place[k]
        if word == "cluster_nctaid":
            return self.cluster[k]
        if word == "nclusterid":
            return self.grid if k == 0 else 1
        if word == "clusterid":
            return self.values.cta if k == 0 else 0
        return {
            "cluster_ctarank": cta,
            "cluster_nctarank": self.ctas,
            "nwarpid": 64,
            "smid": 0,
            "nsmid": 132,
        }.get(word)
