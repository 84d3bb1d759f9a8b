"""The accesses of an instruction to memory, and those to registers that happen later: where, how, when and how many bytes.

:attr:`~tclint.isa.forms.Match.accesses` makes them of what the table says; everything else asks there.
"""

from __future__ import annotations

from enum import Enum

from tclint._dataclass import dataclass

__all__ = ["MBARRIER_BYTES", "Access", "Proxy", "StateSpace", "Via"]

MBARRIER_BYTES = 8
"""The size and the alignment of an mbarrier object (9.7.13.15.1)."""


class StateSpace(Enum):
    """Where an access is (5.1)."""

    SHARED = "shared"
    GLOBAL = "global"
    GENERIC = ""
    """Wherever a generic address points: shared, global or local memory, or a parameter (9.7.9.1)."""
    LOCAL = "local"
    PARAM = "param"
    CONST = "const"
    TENSOR = "tensor"
    """Tensor memory (9.7.16.1)."""
    REGISTERS = "reg"


class Via(Enum):
    """How an operand says where an access is."""

    ADDRESS = "address"
    DESCRIPTOR = "descriptor"
    """A matrix descriptor (9.7.15.5.1.2.2, 9.7.16.4.1)."""
    MAP = "tensor map"
    """A tensor map with coordinates (5.5)."""
    HANDLE = "handle"
    """A texture, a surface or an endpoint of the fabric."""
    REGISTERS = "registers"
    """They are the operand."""


class Proxy(Enum):
    """The method by which memory is accessed (8.6)."""

    GENERIC = "generic"
    ASYNC = "async"
    MAP = "tensormap"
    TCGEN05 = "tcgen05"
    OTHER = "other"
    """Those of textures, surfaces and the fabric."""


@dataclass(frozen=True, slots=True)
class Access:
    """One access. What reads and writes the same bytes has two, the one that reads first."""

    operand: str
    """The operand that says where it is, as the syntax line names it; empty for what no operand of this CTA addresses."""
    via: Via
    space: StateSpace
    writes: bool
    later: bool = False
    """Whether it happens at some time after the instruction, when the operation that this begins is executed."""
    proxy: Proxy = Proxy.GENERIC
    extent: int | str = ""
    """Its bytes, of which a thread accesses as many from the address on; or the operand that states their number. Empty if
    a descriptor, a tensor map, the layout of a matrix or the number of registers decides it."""
    part: str = ""
    """The operand by which the instruction may read only a part of these bytes, or none: of the others, nothing is needed."""
    own: bool = False
    """Whether it is certainly in shared memory of the CTA that executes the instruction."""
    rows: bool = False
    """Whether the lanes of a warp access rows of a matrix at addresses of each other's."""
    object: bool = False
    """Whether it is of an mbarrier, which the instruction makes, changes, tests or ends, and not of data."""

    @property
    def shared(self) -> bool:
        """Whether it is in shared memory, or may be by its generic address."""
        return self.space in (StateSpace.SHARED, StateSpace.GENERIC)

    @property
    def outside(self) -> bool:
        """Whether it is in global memory, or may be by its generic address."""
        return self.space in (StateSpace.GLOBAL, StateSpace.GENERIC)
