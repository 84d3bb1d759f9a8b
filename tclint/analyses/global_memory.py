"""The bytes of global memory that are read, and those that are written later."""

from __future__ import annotations

from tclint.isa.accesses import Access, Proxy, Via
from tclint.values.shared_memory import SharedMemory

__all__ = ["GlobalMemory"]


class GlobalMemory(SharedMemory):
    """Accesses to global memory, whose addresses are compared like those of shared memory."""

    @staticmethod
    def within(access: Access) -> bool:
        """Whether an access is one of data that may be in this memory, at the address of an operand."""
        data = access.outside and access.via is Via.ADDRESS and access.proxy is not Proxy.MAP
        return data and (access.later or not access.writes)
