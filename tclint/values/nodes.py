"""The expressions of values: one class for each kind.

A node is interned by :class:`~tclint.values.value_table.ValueTable`, so that two equal ones of a table are one object, and
is never changed. An operand is a value, a number in that table, unless its type says otherwise. A node has no width but
where its attributes state one: a sum is a number of which a register holds as many low bits as it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias, final

from tclint._dataclass import dataclass
from tclint.ir.nodes import Site
from tclint.values.integers import SHORT

__all__ = [
    "COMPUTED",
    "PREDICATES",
    "AddressOf",
    "Allocated",
    "Applied",
    "Arithmetic",
    "Broadcast",
    "CollectiveResult",
    "Compare",
    "Constant",
    "Elected",
    "FloatConstant",
    "Later",
    "Leaf",
    "Literal",
    "Loaded",
    "Logic",
    "Masked",
    "Negation",
    "Node",
    "Opaque",
    "Packed",
    "ParameterRead",
    "PartOf",
    "Phi",
    "Select",
    "SpecialRead",
    "Sum",
    "Terms",
    "Undefined",
    "Unmodelled",
    "UnsignedReading",
    "Value",
    "VectorOf",
    "extremum_type",
    "is_choice",
]

Value: TypeAlias = int
"""A value, which may be a predicate: its index in the :class:`~tclint.values.value_table.ValueTable` of its function.

What is only called ``int`` is a number, or the index of something else. It is an alias, as
:data:`~tclint.values.thread_masks.Threads` is.
"""
Literal: TypeAlias = tuple[Value, bool]
"""A predicate and its truth."""
Terms: TypeAlias = tuple[tuple[Value, int], ...]
"""The terms of a sum: values, each with its factor."""


class Node:
    """What a value is: one of the classes below."""

    __slots__ = ()

    if TYPE_CHECKING:  # some classes have attributes of these names, of which a property would be the default

        @property
        def operands(self) -> tuple[int, ...]:
            """The values that it is computed from."""


class Leaf(Node):
    """A node that is computed from no other values."""

    __slots__ = ()

    @property
    def operands(self) -> tuple[Value, ...]:
        """See :attr:`Node.operands`."""
        return ()


# ------------------------------------------------------------ without operands


@final
@dataclass(slots=True, eq=False)
class Constant(Leaf):
    """An integer; of a predicate, 0 or 1."""

    number: int


@final
@dataclass(slots=True, eq=False)
class FloatConstant(Leaf):
    """A floating-point immediate."""

    number: float


@final
@dataclass(slots=True, eq=False)
class SpecialRead(Leaf):
    """What a special register holds that never changes."""

    name: str


@final
@dataclass(slots=True, eq=False)
class AddressOf(Leaf):
    """The address of a variable or function."""

    name: str


@final
@dataclass(slots=True, eq=False)
class Undefined(Leaf):
    """A register that nothing has written."""

    register: int


@final
@dataclass(slots=True, eq=False)
class Unmodelled(Leaf):
    """What an instruction writes to a register, of which nothing else is known; register -1: what an operand of it is."""

    site: Site
    register: int


@final
@dataclass(slots=True, eq=False)
class Phi(Leaf):
    """What a register holds at the beginning of a block where definitions of it meet. The table has its arguments."""

    block: int
    register: int


@final
@dataclass(slots=True, eq=False)
class Later(Leaf):
    """What a value has become on a path, after so many of its edges, where nothing else is known of it."""

    value: Value
    edges: int


# ------------------------------------------------------------ memory and other threads


@final
@dataclass(slots=True, eq=False)
class Loaded(Node):
    """What a load reads: the element with this index of the vector at an address."""

    site: Site
    space: str
    """As the instruction states it; empty for a generic address."""
    address: Value
    index: int

    @property
    def operands(self) -> tuple[Value, ...]:
        """See :attr:`Node.operands`."""
        return (self.address,)


@final
@dataclass(slots=True, eq=False)
class ParameterRead(Node):
    """Bytes of a parameter of the kernel, or of constant memory: the same in all threads, whatever reads them."""

    address: Value
    size: int
    """In bytes."""
    extended: str
    """The type from which the load extends them if they are fewer than four; otherwise empty."""

    @property
    def operands(self) -> tuple[Value, ...]:
        """See :attr:`Node.operands`."""
        return (self.address,)


@final
@dataclass(slots=True, eq=False)
class Allocated(Leaf):
    """The address of tensor memory, allocated through a word of shared memory, which is not among the operands."""

    word: Value


@final
@dataclass(slots=True, eq=False)
class Elected(Node):
    """Whether ``elect.sync`` elects the lane, among these members."""

    members: Value

    @property
    def operands(self) -> tuple[Value, ...]:
        """See :attr:`Node.operands`."""
        return (self.members,)


@final
@dataclass(slots=True, eq=False)
class Broadcast(Node):
    """What one lane of the warp has."""

    source: Value
    lane: int
    """Its number."""

    @property
    def operands(self) -> tuple[Value, ...]:
        """See :attr:`Node.operands`."""
        return (self.source,)


@final
@dataclass(slots=True, eq=False)
class CollectiveResult(Leaf):
    """What the lanes of a warp compute together, the same in all of them as far as *by* is."""

    site: Site
    register: int
    by: tuple[Value, ...]
    """The value that chooses the lane of a shuffle; empty for any other instruction. It is not among the operands."""


# ------------------------------------------------------------ numbers


@final
@dataclass(slots=True, eq=False)
class Sum(Node):
    """A sum of terms and a constant."""

    terms: Terms
    """In the order of the values."""
    constant: int

    @property
    def operands(self) -> tuple[Value, ...]:
        """See :attr:`Node.operands`."""
        return tuple([term for term, _ in self.terms])


@final
@dataclass(slots=True, eq=False)
class Masked(Node):
    """Some bits of a value: ``value & mask``."""

    value: Value
    mask: int
    """The bits, as a number."""

    @property
    def operands(self) -> tuple[Value, ...]:
        """See :attr:`Node.operands`."""
        return (self.value,)

    @property
    def is_widened(self) -> bool:
        """Whether it is just a zero-extended 32-bit number."""
        return self.mask == SHORT


class Applied(Node):
    """An instruction applied to values, as the ISA table names what it computes."""

    __slots__ = ()
    name: str

    if TYPE_CHECKING:

        @property
        def modifiers(self) -> tuple[str, ...]:
            """Those of its modifiers that matter."""

        @property
        def type(self) -> str:
            """The type in which it computes, or from which it converts: the last modifier."""


@final
@dataclass(slots=True, eq=False)
class Arithmetic(Applied):
    """An operation on integers of one type, which alone of its modifiers matters.

    One of ``add`` (of too many terms for a sum), ``and``, ``or``, ``xor``, ``shr``, ``max`` and ``min``.
    """

    name: str
    type: str
    operands: tuple[Value, ...]

    @property
    def modifiers(self) -> tuple[str, ...]:
        """See :attr:`Applied.modifiers`."""
        return (self.type,)


@final
@dataclass(slots=True, eq=False)
class Opaque(Applied):
    """Any other instruction, as it is written: nothing about it is simplified."""

    name: str
    modifiers: tuple[str, ...]
    operands: tuple[Value, ...]

    @property
    def type(self) -> str:
        """See :attr:`Applied.type`."""
        return self.modifiers[-1] if self.modifiers else ""


def extremum_type(node: Node) -> str:
    """The type of the maximum or minimum of two integers that *node* is; empty for any other value.

    One with ``.relu``, one of two lanes and one of floating-point numbers are opaque.
    """
    return node.type if type(node) is Arithmetic and node.name in ("max", "min") else ""


def is_choice(node: Node) -> bool:
    """Whether *node* is a maximum or minimum of two integers, or some bits of a value."""
    return type(node) is Masked or bool(extremum_type(node))


@final
@dataclass(slots=True, eq=False)
class PartOf(Node):
    """The bits of a value from ``index * width`` on."""

    index: int
    width: int
    """In bits."""
    whole: Value

    @property
    def operands(self) -> tuple[Value, ...]:
        """See :attr:`Node.operands`."""
        return (self.whole,)


@final
@dataclass(slots=True, eq=False)
class Packed(Node):
    """The concatenation of values, the first one lowest."""

    width: int
    """Of each, in bits."""
    operands: tuple[Value, ...]


@final
@dataclass(slots=True, eq=False)
class UnsignedReading(Node):
    """The low bits of a value, read as an unsigned number."""

    value: Value
    width: int
    """The number of bits."""

    @property
    def operands(self) -> tuple[Value, ...]:
        """See :attr:`Node.operands`."""
        return (self.value,)


@final
@dataclass(slots=True, eq=False)
class VectorOf(Node):
    """The values of a vector operand."""

    operands: tuple[Value, ...]


# ------------------------------------------------------------ predicates, and what they choose


@final
@dataclass(slots=True, eq=False)
class Compare(Node):
    """Whether ``left`` equals ``right`` (``eq``), or is less (``lt``)."""

    relation: str
    left: Value
    right: Value
    signed: bool
    """How both are read; equality is of signed numbers."""
    width: int
    """In bits."""

    @property
    def operands(self) -> tuple[Value, Value]:
        """See :attr:`Node.operands`."""
        return self.left, self.right


@final
@dataclass(slots=True, eq=False)
class Logic(Node):
    """``and``, ``or`` or ``xor`` of two predicates."""

    name: str
    left: Value
    right: Value

    @property
    def operands(self) -> tuple[Value, Value]:
        """See :attr:`Node.operands`."""
        return self.left, self.right


@final
@dataclass(slots=True, eq=False)
class Negation(Node):
    """The opposite of a predicate."""

    operand: Value

    @property
    def operands(self) -> tuple[Value, ...]:
        """See :attr:`Node.operands`."""
        return (self.operand,)


@final
@dataclass(slots=True, eq=False)
class Select(Node):
    """``yes`` where the condition holds, else ``no``."""

    condition: Value
    yes: Value
    no: Value

    @property
    def operands(self) -> tuple[Value, ...]:
        """See :attr:`Node.operands`."""
        return self.condition, self.yes, self.no

    @property
    def arms(self) -> tuple[Value, Value]:
        """The values that it chooses between."""
        return self.yes, self.no


PREDICATES: Final = frozenset((Compare, Logic, Negation))
"""Nodes that are truths computed from others."""
COMPUTED: Final = PREDICATES | {Sum, Masked, Arithmetic, Opaque, PartOf, Packed, Select}
"""Nodes that a thread computes from the values of its operands, and from nothing else."""
