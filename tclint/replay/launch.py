"""The launch that a replay assumes: threads, cluster, grid, and parameters."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tclint.ir.nodes import Memory, Symbol
from tclint.model import KernelModel
from tclint.replay.lanes import Lanes, collapse

__all__ = ["Launch"]

_SHARED = 1024
"""Where shared memory begins: variables of it are aligned to no more."""
_PARAMETER = 1 << 50


class Launch:
    """Numbers for what the text of a kernel leaves to its launch; the same question has the same answer everywhere."""

    def __init__(
        self,
        model: KernelModel,
        size: int,
        grid: int,
        shape: tuple[int, ...],
        cluster: tuple[int, ...] = (1,),
    ) -> None:
        function = model.function
        self.size = size
        self.grid = grid
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

    def gives(self, space: str, address: Memory) -> bool:
        """Whether what is loaded there comes with the launch, and not from the kernel itself."""
        if space.startswith(".param"):
            base = address.base
            return isinstance(base, int) or (isinstance(base, Symbol) and base.name in self._parameters)
        return space.startswith((".global", ".const"))

    def data(self, address: int, size: int) -> int:
        """What is in parameters and in global memory: each aligned word of 32 bits is the same number.

        So a number that is loaded as a part of a longer one, or with its neighbour, is what it is when loaded alone.
        """
        word = self.size.to_bytes(4, "little")
        return int.from_bytes(bytes(word[(address + k) & 3] for k in range(size)), "little")

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
        if word in ("ctaid", "cluster_ctaid"):
            return place[k]
        if word == "cluster_nctaid":
            return self.cluster[k]
        if word == "nclusterid":
            return self.grid if k == 0 else 1
        if word == "clusterid":
            return 0
        return {
            "cluster_ctarank": cta,
            "cluster_nctarank": self.ctas,
            "nwarpid": 64,
            "smid": 0,
            "nsmid": 132,
        }.get(word)
