"""Values of special registers (PTX ISA 10), and addresses of shared memory, which differ between CTAs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tclint.executor.errors import Unsupported
from tclint.executor.memory import RANK, Array
from tclint.isa.special_registers import SPECIAL_REGISTERS, WARP, Scope

if TYPE_CHECKING:
    from tclint.executor.state import Warp

__all__ = ["special"]

_RESERVED = 1024
"""Bytes of shared memory that are reserved for the system (10.29)."""


def special(warp: Warp, name: str) -> Array:
    """The value of a special register in each lane; for ``shared+N``, the address of byte N of the CTA's shared memory.

    Raises :class:`Unsupported` for a vector register as a whole.
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


def _of_machine(warp: Warp, name: str) -> int:
    """The value of a special register that the shape of the launch does not determine.

    Performance counters, driver-defined registers and offsets in reserved memory have no value that a kernel may rely
    on (10.25 to 10.29): they read as 0. Clocks and timers count executed instructions.
    """
    machine = warp.machine
    allocated = machine.code.shared_size + machine.geometry.dynamic
    if SPECIAL_REGISTERS[name].type.startswith(".v"):
        raise Unsupported(f"the special register {name}")
    return {
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
    }.get(name, 0)
