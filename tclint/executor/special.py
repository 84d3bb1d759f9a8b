"""Values of special registers (PTX ISA 10), and addresses of shared memory, which differ between CTAs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tclint._pattern import pattern
from tclint.executor.errors import Unsupported
from tclint.executor.memory import RANK, Array
from tclint.isa.special_registers import SPECIAL_REGISTERS, WARP, Scope

if TYPE_CHECKING:
    from tclint.executor.state import Warp

__all__ = ["require_known", "special"]

_RESERVED = 1024
"""Bytes of shared memory that are reserved for the system (10.29)."""


def special(warp: Warp, name: str) -> Array:
    """The value of a special register in each lane; for ``shared+N``, the address of byte N of the CTA's shared memory.

    The register must be one that :func:`require_known` accepts.
    """
    cta = warp.cta
    if name.startswith("shared+"):
        return np.full(WARP, int(name[7:]) + (cta.rank << RANK), np.uint32)
    register = SPECIAL_REGISTERS[name]
    kind = np.uint64 if register.type == ".u64" else np.uint32
    shape, first = warp.machine.geometry, warp.index * WARP
    threads = range(first, first + (WARP if register.scope < Scope.CTA else 1))
    values = [register.value(shape, cta.ctaid, thread) for thread in threads]
    if None in values:
        values = [_of_machine(warp, name) & (1 << 8 * kind().itemsize) - 1]
    return np.array(values * (WARP // len(values)), kind)


_OF_THE_DRIVER = pattern(r"%(envreg\d+|perctamemory|locality_domain)")


def require_known(name: str) -> None:
    """Raises :class:`Unsupported` for a vector register as a whole, and for one whose value the driver defines."""
    register = SPECIAL_REGISTERS.get(name)
    if register is not None and register.type.startswith(".v"):
        raise Unsupported(f"the special register {name} as a whole")
    if _OF_THE_DRIVER.match(name):
        raise Unsupported(f"the special register {name}, whose value the driver defines")


def _of_machine(warp: Warp, name: str) -> int:
    """The value of a special register that the shape of the launch does not determine.

    Performance counters and the offsets of reserved memory that no toolkit documents have no value that a kernel may
    rely on (10.25, 10.29): they read as 0. Clocks and timers count executed instructions. What the driver defines is
    absent: a kernel may rely on it, as those of cooperative groups do on ``%envreg`` (10.27).
    """
    machine = warp.machine
    allocated = machine.code.shared_size + machine.geometry.dynamic
    values = {
        "%is_explicit_cluster": int(machine.geometry.explicit),
        "%gridid": 1,
        "%clock": machine.steps,
        "%clock_hi": machine.steps >> 32,
        "%clock64": machine.steps,
        "%globaltimer": machine.steps,
        "%globaltimer_lo": machine.steps,
        "%globaltimer_hi": machine.steps >> 32,
        "%dynamic_smem_size": machine.geometry.dynamic,
        "%total_smem_size": allocated,
        "%aggr_smem_size": allocated + _RESERVED,
        "%reserved_smem_offset_end": _RESERVED,
        "%reserved_smem_offset_cap": _RESERVED,
        "%reserved_smem_offset_begin": 0,
        "%reserved_smem_offset_0": 0,
        "%reserved_smem_offset_1": 0,
        "%current_graph_exec": 0,
    }
    return 0 if name.startswith("%pm") else values[name]
