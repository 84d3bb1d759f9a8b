"""The types of the intermediate representation.

A register operand is a plain ``int``, the register's number in its function: four of five operands are registers, and
an int costs nothing. Every other kind of operand is one of the small classes below. Spans are byte offsets relative to
the function, so that an edit elsewhere in a file leaves a function's instructions valid.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cache, cached_property, lru_cache
from itertools import takewhile
from math import copysign, inf, prod
from operator import itemgetter
from struct import pack
from types import MappingProxyType
from typing import Any, TypeAlias

from tclint._dataclass import dataclass
from tclint._named_tuple import NamedTuple
from tclint.isa.accesses import Access
from tclint.isa.callees import SYSTEM_CALLS
from tclint.isa.effects import INERT, NO_ENGINE, Effects, Engine, Order, groups_left
from tclint.isa.features import FeatureSpec
from tclint.isa.forms import Match
from tclint.isa.target import Target, Version
from tclint.sync.operations import OPEN

__all__ = [
    "DECIMAL",
    "LARGEST",
    "NOTHING",
    "SINK",
    "BuildError",
    "Directive",
    "FeatureUse",
    "FormUse",
    "Function",
    "Immediate",
    "Instruction",
    "Location",
    "Memory",
    "Module",
    "Negated",
    "Not",
    "Operand",
    "OperandPair",
    "Register",
    "Single",
    "Site",
    "Special",
    "Symbol",
    "Variable",
    "Vector",
]


DECIMAL = r"\d+\.\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+"
"""A floating-point constant in decimal (4.5.2), as alternatives of a pattern."""
LARGEST = (1 << 64) - 1
"""The largest integer constant: they have 64 bits (4.5.1)."""


class Single(float):
    """The value of a constant of single precision: ``0f3F800000``; all others have double precision (4.5.2)."""


class Immediate(NamedTuple):
    """An integer, or a floating-point constant (PTX ISA 4.5)."""

    value: int | float

    @property
    def kind(self) -> str:
        """``integer``, or the precision of a floating-point constant: ``single`` or ``double``."""
        if isinstance(self.value, float):
            return "single" if isinstance(self.value, Single) else "double"
        return "integer"

    def pattern(self, size: int) -> int:
        """The contents of a register of *size* bytes: the integer itself, or the bits of a floating-point number (4 or
        8 bytes)."""
        if isinstance(self.value, int):
            return self.value
        try:
            return int.from_bytes(pack("<d" if size == 8 else "<f", self.value), "little")
        except OverflowError:  # too large for single precision: infinity
            return int.from_bytes(pack("<f", copysign(inf, self.value)), "little")


class Symbol(NamedTuple):
    """A variable, parameter, function or label, plus a byte offset (4.5.4)."""

    name: str
    offset: int = 0


class Special(NamedTuple):
    """A special register such as ``%tid.x`` (section 10)."""

    name: str


class Not(NamedTuple):
    """A negated predicate operand ``!p``."""

    register: int


class Negated(NamedTuple):
    """A register with a minus, ``-r``: a source of ``vmad`` (9.7.18.1.3)."""

    register: int


class Memory(NamedTuple):
    """An address ``[base+offset]``; ``extras`` are its other parts, as in ``[tensorMap, {x, y}]``."""

    base: Operand
    offset: int = 0
    extras: tuple[Operand, ...] = ()


class Vector(NamedTuple):
    """``{a, b, ...}``."""

    items: tuple[Operand, ...]


class OperandPair(NamedTuple):
    """``d|p``."""

    first: Operand
    second: Operand


class _Sink:
    """The operand ``_``: a discarded result."""

    def __repr__(self) -> str:
        return "SINK"


SINK = _Sink()

Site: TypeAlias = int
"""An instruction: its index in :attr:`Function.instructions`. An alias, as one counts with it; -1 is none, or the entry."""
Operand = int | Immediate | Symbol | Special | Not | Negated | Memory | Vector | OperandPair | _Sink


class Register(NamedTuple):
    """A declared register: its spelling and type (``.b32``, ``.pred``)."""

    name: str
    type: str


class Variable(NamedTuple):
    """A declared variable or parameter."""

    name: str
    space: str
    """``.shared``, ``.global``, ``.param``, ..."""
    align: int
    size: int
    """In bytes; 0 if the declaration does not specify it (``[]``)."""
    type: str = ""
    """The type of an element: ``.b8``, ``.f32``."""
    initial: str = ""
    """The initialiser as written, without ``=`` (5.4.4)."""
    pointee: int = 1
    """Of a parameter that is a pointer, the alignment of what it points to, as ``.ptr .align`` promises (5.4.2)."""


class Location(NamedTuple):
    """A source position from ``.loc``: file index, line, column, and the position of the call through which it was
    inlined."""

    file: int
    line: int
    column: int
    inlined_at: Location | None = None
    below: int = 0
    """In the text of inline assembly, the number of lines by which the ``.loc`` is below *line*, that of the statement."""


@dataclass(eq=False, slots=True)
class Instruction:
    """One instruction."""

    opcode: str
    match: Match | None
    """None for an opcode that is not in the ISA table."""
    guard: int
    """The guarding predicate's register, or -1."""
    negated: bool
    operands: tuple[Operand, ...]
    reads: tuple[int, ...]
    """Register numbers in operand order, without the guard."""
    writes: tuple[int, ...]
    start: int
    end: int
    targets: tuple[int, ...] = ()
    """The indices of the instructions to which a branch may jump, -1 for an undefined label."""

    @property
    def name(self) -> str:
        """The first two words of the opcode: ``tcgen05.mma``."""
        return ".".join(self._words[:2])

    @property
    def _words(self) -> list[str]:
        return self.opcode.split(".")

    @property
    def full_name(self) -> str:
        """The words of the opcode that name the operation: ``tcgen05.mma``, ``cp.async.wait_group``, ``cp.async.bulk.tensor``."""
        words, named = self._words, self.match.form.name.split(".") if self.match else []
        shared = takewhile(lambda pair: pair[0] == pair[1], zip(words, named, strict=False))
        return ".".join(words[: max(2, len(list(shared)))])

    @property
    def root(self) -> str:
        """The first word of the opcode: ``tcgen05``."""
        return self.opcode.partition(".")[0]

    @property
    def effects(self) -> Effects:
        """What it does beside its accesses; nothing for an unknown opcode."""
        return self.match.form.effects if self.match else INERT

    @property
    def accesses(self) -> tuple[Access, ...]:
        """Its accesses (:attr:`~tclint.isa.forms.Match.accesses`); none for an unknown opcode."""
        return self.match.accesses if self.match else ()

    @property
    def order(self) -> Order:
        """Its memory order; weak for an unknown opcode."""
        return self.match.order if self.match else Order.WEAK

    @property
    def wide(self) -> bool:
        """Whether the scope of its memory order includes threads of other CTAs."""
        return self.match is not None and self.match.wide

    def fence_order(self, *, shared: bool = False) -> Order:
        """The memory order of a fence: :meth:`~tclint.isa.forms.Match.fence_order`."""
        return self.match.fence_order(shared=shared) if self.match else Order.WEAK

    @property
    def event(self) -> str:
        return self.match.form.event if self.match else ""

    @property
    def group(self) -> Engine:
        """The engine of the operation that it begins, or that it commits or waits for; empty if none."""
        return self.match.form.group if self.match else NO_ENGINE

    @property
    def computes(self) -> str:
        """The integer operation that it is, by its name in :mod:`tclint.isa.semantics`; empty if it is none."""
        return self.match.form.compute if self.match else ""

    @property
    def results(self) -> frozenset[int]:
        """The registers that its asynchronous operation writes."""
        return self._later(self.match.form.async_writes) if self.match else frozenset()

    @property
    def fragments(self) -> frozenset[int]:
        """The registers that its asynchronous operation reads and does not write."""
        return self._later(self.match.form.async_reads) - self.results if self.match else frozenset()

    def _later(self, names: Iterable[str]) -> frozenset[int]:
        """The registers in the operands *names*, but for those that hold an address."""
        operands = (self.named(name) for name in names if not name.startswith("*"))
        return frozenset(r for operand in operands if operand is not None for r in registers(operand))

    @property
    def moves(self) -> bool:
        """Whether it is a ``mov``, of whatever to a register or several."""
        return self.match is not None and self.match.syntax.root == "mov"

    @property
    def renames(self) -> bool:
        """Whether it is a ``mov`` of one whole register to another: renaming, not a use."""
        return (
            len(self.operands) == 2
            and isinstance(self.operands[0], int)
            and isinstance(self.operands[1], int)
            and len(self.writes) == len(self.reads) == 1
            and self.moves
        )

    @property
    def flow(self) -> str:
        return self.match.form.flow if self.match else ""

    @property
    def callee(self) -> str:
        """The name of the function that a direct call calls (9.7.13.5); empty for any other instruction."""
        if self.flow != "call":
            return ""
        # `call f;`, `call f, (a);` or `call (r), f, (a);`: the callee is the first operand that is not a list. In an
        # indirect call that is a register, and the name after it is a prototype.
        callee = next((o for o in self.operands if not isinstance(o, Vector)), None)
        return callee.name if isinstance(callee, Symbol) else ""

    @property
    def exits(self) -> bool:
        """Whether a thread that executes it leaves the function, which ends it in a kernel (9.7.12.6, 9.7.12.7)."""
        return self.flow in ("return", "exit")

    @property
    def calls_program(self) -> bool:
        """Whether it calls a function that the driver does not provide: one of the program, or one that is not known."""
        return self.flow == "call" and self.callee not in SYSTEM_CALLS

    @property
    def groups_left(self) -> int | None:
        """The groups that a wait leaves pending; ``OPEN`` if it names no number and leaves nothing, None if it is unknown."""
        if self.match is None or "depth" not in self.match.form.roles:
            return OPEN
        operand = self.role("depth")
        if isinstance(operand, Immediate) and isinstance(operand.value, int):
            return groups_left(self.group, operand.value)
        return None

    def leaves(self, unknown: int) -> int:
        """The groups that a wait leaves pending; *unknown*, ``NO_GROUPS`` or ``UNCLEAR``, if that is unknown."""
        left = self.groups_left
        return unknown if left is None else left

    @property
    def mbarrier(self) -> Operand | None:
        """The address of the mbarrier that it names; None if it names none."""
        return self.role("mbarrier")

    def role(self, name: str) -> Operand | None:
        """The operand with the role *name* (``mbarrier``, ``taddr``, ...); None if the instruction has none."""
        match = self.match
        part = match.parts.get(name) if match is not None else None
        if part is None:
            return None
        at, which = part
        operand = self.operands[at]
        return operand[which] if isinstance(operand, OperandPair) else operand

    def named(self, name: str) -> Operand | None:
        """The operand that the syntax line calls *name*; None if there is none."""
        at = self.match.named.get(name) if self.match else None
        return self.operands[at] if at is not None else None

    def part(self, name: str) -> Operand | None:
        """As :meth:`named`, but of an address the part that the syntax line calls *name*: its base, or one of the
        others."""
        operand = self.named(name)
        if self.match is None or not isinstance(operand, Memory):
            return operand
        names = next(o.names for o in self.match.syntax.operands if name in o.names)
        return (operand.base, *operand.extras)[names.index(name)]

    def __repr__(self) -> str:
        return f"<{self.opcode} {self.operands}>"


def registers(operand: Operand) -> tuple[int, ...]:
    """All registers in *operand*, in order."""
    if isinstance(operand, int):
        return (operand,)
    if isinstance(operand, Vector):
        return tuple(r for item in operand.items for r in registers(item))
    if isinstance(operand, Memory):
        inner = registers(operand.base)
        for extra in operand.extras:
            inner += registers(extra)
        return inner
    if isinstance(operand, Not | Negated):
        return (operand.register,)
    if isinstance(operand, OperandPair):
        return registers(operand.first) + registers(operand.second)
    return ()


def specials(operands: Iterable[Operand]) -> Iterator[Special]:
    """The special registers among *operands*, in vectors, pairs and addresses too."""
    return (operand for operand in _leaves(operands) if isinstance(operand, Special))


def symbols(operands: Iterable[Operand]) -> Iterator[str]:
    """The names among *operands*, in vectors, pairs and addresses too."""
    return (operand.name for operand in _leaves(operands) if isinstance(operand, Symbol))


def renamed(operand: Operand, names: Mapping[str, str], shift: int = 0) -> Operand:
    """*operand* with its symbols renamed by *names*, and its registers renumbered by *shift*."""
    if isinstance(operand, int):
        return operand + shift
    if isinstance(operand, Symbol):
        return operand._replace(name=names[operand.name]) if operand.name in names else operand
    if isinstance(operand, Vector):
        return Vector(tuple(renamed(o, names, shift) for o in operand.items))
    if isinstance(operand, Memory):
        extras = tuple(renamed(o, names, shift) for o in operand.extras)
        return Memory(renamed(operand.base, names, shift), operand.offset, extras)
    if isinstance(operand, OperandPair):
        return OperandPair(renamed(operand.first, names, shift), renamed(operand.second, names, shift))
    if isinstance(operand, Not):
        return Not(operand.register + shift)
    if isinstance(operand, Negated):
        return Negated(operand.register + shift)
    return operand


def _leaves(operands: Iterable[Operand]) -> Iterator[Operand]:
    """What *operands* consist of, apart from registers."""
    for operand in operands:
        if isinstance(operand, int):
            continue
        if isinstance(operand, Vector):
            yield from _leaves(operand.items)
        elif isinstance(operand, Memory):
            yield from _leaves((operand.base, *operand.extras))
        elif isinstance(operand, OperandPair):
            yield from _leaves((operand.first, operand.second))
        else:
            yield operand


@cache
def _picker(indices: tuple[int, ...]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """A function that returns the elements of a sequence at *indices*, as a tuple."""
    if not indices:
        return lambda items: ()
    if len(indices) == 1:
        (only,) = indices
        return lambda items: (items[only],)
    return itemgetter(*indices)


class FormUse:
    """One opcode with one combination of operand kinds, and all instructions of a function that have it.

    A function has at most a few hundred of them, so questions about an opcode are answered per use and not per
    instruction. ``reads`` and ``writes`` are operand indices; ``scalar`` means that each of these operands is a register.
    """

    __slots__ = (
        "flow", "match", "opcode", "pick_reads", "pick_writes", "reads", "scalar", "sites", "writes",
    )  # fmt: skip

    def __init__(
        self,
        opcode: str,
        match: Match | None,
        reads: tuple[int, ...],
        writes: tuple[int, ...],
        scalar: bool,
        flow: bool,
    ) -> None:
        self.opcode = opcode
        self.match = match
        self.reads = reads
        self.writes = writes
        self.scalar = scalar
        self.flow = flow
        self.sites: list[int] = []
        self.pick_reads = _picker(reads)
        self.pick_writes = _picker(writes)


class Directive(NamedTuple):
    """A directive between the head of a function and its body (11.4, 11.7, 11.8)."""

    name: str
    numbers: tuple[int, ...]
    start: int
    end: int


class FeatureUse(NamedTuple):
    """A statement that is no instruction, or a part of one, with a feature of the table."""

    spec: FeatureSpec
    start: int
    end: int
    word: str = ""
    """The word of the statement for which it is refused, if it is one."""


MAX_CTA_THREADS = 1024
"""The maximum number of threads in a CTA, on every target (11.4.2)."""
MAX_CLUSTER_CTAS = 16
"""The maximum number of CTAs in a cluster, if a launch permits sizes that are not portable."""
MAX_GRID = (2**31 - 1, 65535, 65535)
"""The maximum number of CTAs of a grid in each dimension; :data:`MAX_BLOCK` has that of the threads of a CTA."""
MAX_BLOCK = (1024, 1024, 64)
MAX_SHARED_BYTES = 232448
"""The shared memory that a CTA can have, static and dynamic, on any target (227 KiB); ptxas 13.5 refuses larger variables."""


class RegisterCount(NamedTuple):
    """The N of ``.reg .b32 %r<N>`` (5.4.1): the bytes of its digits, and the value that it should have."""

    start: int
    end: int
    needed: int


class BuildError(NamedTuple):
    """Something in a function or module that the assembler rejects, found while building the IR."""

    kind: str
    """``undefined-register``, ``undefined-guard``, ``undefined-label``, ``duplicate-label``, ``duplicate-register``,
    ``duplicate-name``, ``unreadable``, ``misplaced``, ``alignment``, ``overflow``"""
    start: int
    end: int
    message: str
    declared: RegisterCount | None = None
    """For an undeclared register, the count that is too small, if that is all that is wrong."""
    sites: tuple[int, ...] = ()
    """For an undeclared name, the instructions that use it."""


_FLOW_ERRORS = frozenset(("undefined-guard", "undefined-label", "duplicate-label"))


NOTHING: Mapping[Any, Any] = MappingProxyType({})
"""The empty mapping that all functions share: a module may have tens of thousands of small ones."""
_target = lru_cache(maxsize=64)(Target.parse)


@dataclass
class Function:
    """A ``.entry`` or ``.func``; one without a body has no instructions and ``declared_only`` set."""

    name: str
    entry: bool
    start: int
    """Byte offset of the function in its source; every span inside is relative to it."""
    end: int
    target: Target | None = None
    version: Version = (0, 0)
    instructions: list[Instruction] = field(default_factory=list)
    uses: list[FormUse] = field(default_factory=list)
    """The opcodes and operand kinds that occur, in order of first occurrence."""
    registers: list[Register] = field(default_factory=list)
    variables: Mapping[str, Variable] = field(default_factory=lambda: NOTHING)
    """Those of all scopes. Of several with one name, the second one is called ``name#2`` here and in operands."""
    redeclared: frozenset[str] = frozenset()
    """The parameters of calls that several scopes declare differently; ``variables`` has the first declaration of each."""
    parameters: Sequence[Variable] = ()
    formals: tuple[Sequence[Variable], Sequence[Variable]] | None = None
    """Its results and its parameters as declared; None if the last parameter is an array without a size."""
    directives: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: NOTHING)
    """Name of a directive such as ``.reqntid`` -> its values; of several with one name the last is used, as by
    ptxas."""
    stated: Sequence[Directive] = ()
    """All directives, in the order of the text."""
    features: Sequence[FeatureUse] = ()
    """The features of its head, parameters, declarations and pragmas, in the order of the text."""
    labels: Mapping[int, str] = field(default_factory=lambda: NOTHING)
    """Instruction index -> one label in front of it."""
    locations: Sequence[tuple[int, Location]] = ()
    """``(first instruction, location)`` for each ``.loc``, in order."""
    positions: Collection[tuple[int, ...]] = ()
    """File, line and column of each ``.loc``."""
    unlocated: Sequence[tuple[tuple[int, int, int], int, int]] = ()
    """The position after each ``inlined_at`` that is not one of an earlier ``.loc`` of the function, and the span of
    the directive."""
    errors: Sequence[BuildError] = ()
    declared_only: bool = False
    damaged: bool = False
    """It contains a syntax error, so no finding about it can be trusted."""
    noreturn: bool = False
    arguments: Mapping[tuple[str, int], int] = field(default_factory=lambda: NOTHING)
    """Parameter and offset in bytes -> the number of 32 bits there, in the launches that a model is made for. The text of a
    module states none."""
    answers: dict[str, tuple[Any, Any]] | None = field(default=None, repr=False, compare=False)
    """What :class:`~tclint.ir.kept_answers.KeptAnswers` keeps for the next state of an edited text; None if none is expected."""

    @property
    def flow_errors(self) -> list[BuildError]:
        """The errors that leave its control flow unknown."""
        return [error for error in self.errors if error.kind in _FLOW_ERRORS]

    @property
    def threads(self) -> int | None:
        """The number of threads in a CTA if ``.reqntid`` fixes it (11.4.4); None if not, or if no CTA can have so
        many."""
        return self._product(".reqntid")

    @property
    def most_threads(self) -> int | None:
        """The maximum number of threads in a CTA by ``.reqntid`` or ``.maxntid`` (11.4.2, 11.4.3); None as for
        ``threads``."""
        return self._product(".reqntid" if self.directives.get(".reqntid") else ".maxntid")

    @property
    def bounds_several_dimensions(self) -> bool:
        """Whether ``.maxntid`` bounds several dimensions of the CTA (11.4.3), which then may have them."""
        return any(size != 1 for size in self.directives.get(".maxntid", ())[1:])

    @property
    def cluster(self) -> tuple[int, ...] | None:
        """The shape of a cluster by ``.reqnctapercluster`` (11.7.1); None if the kernel does not state it, or if no
        cluster can have it."""
        shape = self.directives.get(".reqnctapercluster")
        return shape if shape and 0 < prod(shape) <= MAX_CLUSTER_CTAS else None

    def copies(self, of: Collection[int], back: bool = False) -> frozenset[int]:
        """The registers that a chain of ``mov`` may fill from those of *of*; with *back*, those that may fill these."""
        moves: dict[int, list[int]] = {}
        for each in self.instructions if of else ():
            if each.renames:
                source, target = (each.writes[0], each.reads[0]) if back else (each.reads[0], each.writes[0])
                moves.setdefault(source, []).append(target)
        found, work = set[int](), [register for register in of if register in moves]
        while work:
            fresh = [register for register in moves.get(work.pop(), ()) if register not in found]
            found.update(fresh)
            work += fresh
        return frozenset(found)

    def _product(self, directive: str) -> int | None:
        numbers = self.directives.get(directive)
        if not numbers or min(numbers) < 0:
            return None
        product = prod(numbers)
        return product if product <= MAX_CTA_THREADS else None

    def location(self, index: int) -> Location | None:
        """The source position of the instruction at *index*; None if no ``.loc`` precedes it."""
        import bisect

        at = bisect.bisect_right(self.locations, index, key=lambda pair: pair[0]) - 1
        return self.locations[at][1] if at >= 0 else None


@dataclass
class Module:
    """One PTX module."""

    version: Version | None = None
    version_span: tuple[int, int] = (0, 0)
    targets: tuple[str, ...] = ()
    target_span: tuple[int, int] = (0, 0)
    address_size: int = 0
    functions: list[Function] = field(default_factory=list)
    prototypes: list[Function] = field(default_factory=list)
    """The functions that are declared between the statements of others, which declares them for the whole module."""
    variables: dict[str, Variable] = field(default_factory=dict)
    files: dict[int, str] = field(default_factory=dict)
    features: list[FeatureUse] = field(default_factory=list)
    """The features of the statements outside its functions, in the order of the text."""
    sections: bool = False
    """Whether it has data for a debugger: ``.section`` or ``@@DWARF`` (11.5.1, 11.5.2)."""
    errors: list[BuildError] = field(default_factory=list)
    """The errors outside its functions."""

    @property
    def target(self) -> Target | None:
        """The last architecture that ``.target`` names, as ptxas takes it; None if it names none that exists."""
        return next((t for t in map(_target, reversed(self.targets)) if t), None)

    @property
    def debug(self) -> bool:
        """Whether the module is a debug build (11.1.2)."""
        return "debug" in self.targets

    @cached_property
    def by_name(self) -> dict[str, list[Function]]:
        """Name -> the functions of that name in the order of the text. Ask only once the module is built."""
        found: dict[str, list[Function]] = {}
        for function in self.functions:
            found.setdefault(function.name, []).append(function)
        return found

    @property
    def declared(self) -> list[Function]:
        """The functions that the module declares or defines, wherever it does."""
        return [*self.prototypes, *self.functions] if self.prototypes else self.functions

    @property
    def bodies(self) -> list[Function]:
        """The functions that the module defines, in the order of the text."""
        return [f for f in self.functions if f.instructions and not f.declared_only]

    def function(self, name: str) -> Function | None:
        """The function called *name*, preferably its definition; None if there is none."""
        found = None
        for function in self.functions:
            if function.name == name and (found is None or found.declared_only):
                found = function
        return found
