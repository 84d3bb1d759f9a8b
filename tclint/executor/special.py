"""Special registers (PTX ISA 10), and addresses that differ from CTA to CTA."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from tclint.executor.errors import Unsupported
from tclint.executor.memory import RANK, Array

if TYPE_CHECKING:
    from tclint.executor.state import Warp

__all__ = ["TIMERS", "special"]

TIMERS = ("%clock", "%globaltimer")
"""What the names of the special registers that change while a kernel runs begin with."""

_AXES = {"x": 0, "y": 1, "z": 2}
_NUMBERS = np.arange(32, dtype=np.uint32)
_WIDE = ("%clock64", "%globaltimer", "%gridid", "%current_graph_exec")
_OPEN = re.compile(r"%pm\d(_64)?|%envreg\d+|%reserved_smem_offset_\d")
"""Performance counters, and what the driver defines: nobody can count on a value."""
_MASKS = {
    "%lanemask_eq": lambda n: 1 << n,
    "%lanemask_lt": lambda n: (1 << n) - 1,
    "%lanemask_le": lambda n: (2 << n) - 1,
    "%lanemask_gt": lambda n: 0xFFFFFFFF & ~((2 << n) - 1),
    "%lanemask_ge": lambda n: 0xFFFFFFFF & ~((1 << n) - 1),
}


def special(warp: Warp, name: str) -> Array:
    """The value of a special register in each lane. Raises :class:`Unsupported` for one that is not known."""
    cta, machine = warp.cta, warp.machine
    geometry = machine.geometry
    base, _, axis = name.partition(".")
    if base == "%tid" and axis in _AXES:
        return _threads(warp, geometry.block)[_AXES[axis]]
    if base in _MASKS:
        return np.array([_MASKS[base](n) for n in range(32)], np.uint32)
    if name == "%laneid":
        return _NUMBERS
    if name.startswith("shared+"):
        return np.full(32, int(name[7:]) + (cta.rank << RANK), np.uint32)
    value = 0 if _OPEN.fullmatch(name) else _scalar(warp, base, axis)
    if value is None:
        raise Unsupported(f"the special register {name}")
    wide = base in _WIDE or base.endswith("_64")
    return np.full(32, value & (0xFFFFFFFFFFFFFFFF if wide else 0xFFFFFFFF), np.uint64 if wide else np.uint32)


def _threads(warp: Warp, block: tuple[int, int, int]) -> list[Array]:
    linear = warp.index * 32 + _NUMBERS
    return [
        (linear % block[0]).astype(np.uint32),
        (linear // block[0] % block[1]).astype(np.uint32),
        (linear // (block[0] * block[1])).astype(np.uint32),
    ]


def _scalar(warp: Warp, base: str, axis: str) -> int | None:
    cta, machine = warp.cta, warp.machine
    g = machine.geometry
    clusters = tuple(a // b for a, b in zip(g.grid, g.cluster, strict=True))
    triples = {
        "%ntid": g.block,
        "%ctaid": cta.ctaid,
        "%nctaid": g.grid,
        "%cluster_ctaid": tuple(a % b for a, b in zip(cta.ctaid, g.cluster, strict=True)),
        "%cluster_nctaid": g.cluster,
        "%clusterid": cta.cluster.place,
        "%nclusterid": clusters,
    }
    if base in triples:
        return triples[base][_AXES[axis]] if axis in _AXES else None
    static = machine.code.shared_size
    scalars = {
        "%warpid": warp.index,
        "%nwarpid": 64,
        "%cluster_ctarank": cta.rank,
        "%cluster_nctarank": g.ranks,
        "%is_explicit_cluster": int(g.explicit),
        "%smid": cta.number % 132,
        "%nsmid": 132,
        "%gridid": 1,
        "%clock": machine.steps,
        "%clock_hi": machine.steps >> 32,
        "%clock64": machine.steps,
        "%globaltimer": machine.steps,
        "%globaltimer_lo": machine.steps,
        "%globaltimer_hi": machine.steps >> 32,
        "%dynamic_smem_size": g.dynamic,
        "%total_smem_size": static + g.dynamic,
        "%aggr_smem_size": static + g.dynamic + 1024,
        "%reserved_smem_offset_begin": 0,
        "%reserved_smem_offset_end": 1024,
        "%reserved_smem_offset_cap": 1024,
        "%current_graph_exec": 0,
    }
    return scalars.get(base)
