"""The columns of tensor memory that the operands of ``tcgen05`` instructions select (PTX ISA 9.7.16.1)."""

from __future__ import annotations

from functools import cached_property

from tclint._named_tuple import NamedTuple
from tclint.analyses.model import KernelModel
from tclint.ir.nodes import Memory, Operand
from tclint.isa.accesses import StateSpace
from tclint.isa.effects import TCGEN05, TCGEN05_ALL, TCGEN05_LD, TCGEN05_ST, Barrier, Resource
from tclint.isa.forms import Match
from tclint.isa.target import tensor_columns
from tclint.values import thread_masks as T
from tclint.values.addresses import EVER
from tclint.values.descriptors import INSTRUCTION, DescriptorForm, shape
from tclint.values.nodes import Allocated

__all__ = ["LANES", "ColumnRange", "TensorMemory", "TmemLocation", "concerns"]

_A_COLUMNS = 8
"""Columns of A in tensor memory: K elements are 32 bytes (9.7.16.2.1)."""

LANES = 128
"""Lanes of tensor memory (9.7.16.1)."""
_SIGN = 1 << 15
"""The sign bit of an offset in columns: the lower half of an address selects the column (9.7.16.1.1)."""

_COLUMNS = {
    ".32x32b": 1, ".16x64b": 2, ".16x128b": 4, ".16x256b": 8, ".16x32bx2": 1,
    ".128x256b": 8, ".4x256b": 8, ".128x128b": 4, ".64x128b": 4, ".32x128b": 4,
}  # fmt: skip
"""Columns that a shape covers; for ld and st, those of one unit of .num (9.7.16.2.3)."""


def concerns(match: Match | None) -> bool:
    """Whether an instruction accesses or frees tensor memory, orders its operations, or synchronises threads."""
    if match is None or not match.form.event:
        return False
    effects = match.form.effects
    return (
        match.form.group in TCGEN05_ALL
        or effects.resource is Resource.TMEM_DEALLOC
        or effects.awaits_threads
        or effects.at_barrier
        or effects.arrives is Barrier.MBARRIER
    )


class ColumnRange:
    """Columns of tensor memory: the address of the first one, without lanes, and how many there are at least."""

    __slots__ = ("columns", "lanes", "start")

    def __init__(self, start: int, columns: int, lanes: int) -> None:
        self.start = start
        self.columns = columns
        self.lanes = lanes


class _Reach(NamedTuple):
    """All that decides whether the columns of an operand and those of another one differ."""

    start: int
    columns: int
    first: int
    """The address of the first column when the instruction first executes; :attr:`start` if that is unknown."""
    threads: T.Threads


class TmemLocation(NamedTuple):
    """An address of tensor memory, relative to an allocation."""

    base: int | None
    """The shared word that holds the address of the allocation; None for a constant address."""
    distance: int
    size: int
    """Columns of the allocation, or of all of tensor memory."""
    column: int
    """A lower bound on the column, relative to the base."""
    lane: int
    """A lower bound on the lane."""


class TensorMemory:
    """The operations on tensor memory of one function, and the columns that they access."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self.loads = frozenset(model.begins(TCGEN05_LD))
        self.stores = frozenset(model.begins(TCGEN05_ST))
        self.operations = frozenset(model.begins(TCGEN05))
        """MMAs, copies and shifts."""
        self._ranges: dict[tuple[int, str], ColumnRange | None] = {}
        self._widths: dict[tuple[int, str], int | None] = {}
        self._reaches: dict[tuple[int, str], _Reach] = {}
        self._apart: dict[tuple[_Reach, _Reach], bool] = {}
        """Answers of :meth:`disjoint`: most loads of a loop, and most MMAs, access the same few columns."""

    def range(self, site: int, role: str) -> ColumnRange | None:
        """The columns that *role* of the instruction at *site* covers, at least; None if it has no such address."""
        key = (site, role)
        if key not in self._ranges:
            self._ranges[key] = self._range(site, role)
        return self._ranges[key]

    def at_first(self, site: int, role: str) -> ColumnRange | None:
        """:meth:`range` when the instruction first executes; None if that is unknown, or the address does not vary."""
        here = self.range(site, role)
        if here is None or not self.model.values.varying_at(here.start):
            return None
        resolve = self.model.at_first(site).witness
        if resolve is None:
            return None
        return ColumnRange(self._columns(resolve(here.start)), here.columns, here.lanes)

    def _range(self, site: int, role: str) -> ColumnRange | None:
        model = self.model
        instruction = model.instruction(site)
        operand: Operand | None = instruction.role(role)
        if operand is None or (role == "a" and not isinstance(operand, Memory)):
            return None
        address = model.values.operand(operand, site)
        _, constant = model.values.linear(address)
        return ColumnRange(self._columns(address), self._width(site, role), constant >> 16)

    def _width(self, site: int, role: str) -> int:
        """The minimum number of columns that *role* covers."""
        return self.exact_width(site, role) or 1

    def exact_width(self, site: int, role: str) -> int | None:
        """The number of columns that *role* covers; None if unknown."""
        key = (site, role)
        if key not in self._widths:
            self._widths[key] = self._exact_width(site, role)
        return self._widths[key]

    def _exact_width(self, site: int, role: str) -> int | None:
        instruction, values = self.model.instruction(site), self.model.values
        match, idesc = instruction.match, self.model.value(site, "idesc")
        if match is not None and idesc is not None:
            form = DescriptorForm.of(match)
            if role == "a":
                return 1 if form.weights or not INSTRUCTION[form.kind] else _A_COLUMNS
            found = shape(form, values.known_bits(idesc))
            return found.columns(form) if found is not None else None
        if match is not None and "shape" in match.binding and not match.modes.compresses:
            # Two 16-bit elements from adjacent columns share a register.
            packed = 1 + (match.modes.packs_halves or match.modes.unpacks_halves)
            return _COLUMNS[match.binding["shape"]] * (match.number("num") or 1) * packed
        count = instruction.role("columns") if instruction.effects.resource is Resource.TMEM_DEALLOC else None
        return values.constant_operand(count, site) if count is not None else None

    @cached_property
    def _all(self) -> int:
        """The columns of all of tensor memory."""
        return tensor_columns(self.model.function.target)

    @cached_property
    def _sizes(self) -> dict[int, int]:
        """Shared word -> the maximum number of columns allocated through it."""
        sizes: dict[int, int] = {}
        for site in self.model.sites(Resource.TMEM_ALLOC):
            word, columns = self.model.value(site, "destination"), self.model.value(site, "columns")
            constant = self.model.values.constant_of(columns) if columns is not None else None
            if word is not None:
                word = self.model.values.representative(word)
                sizes[word] = max(sizes.get(word, 0), constant or self._all)
        return sizes

    def relative(self, address: int) -> TmemLocation | None:
        """*address* relative to its allocation; None if its base is unknown."""
        values = self.model.values
        terms, constant = values.linear(address)
        bases = {t: node for t, f in terms if f == 1 and type(node := values.node(t)) is Allocated}
        if len(bases) > 1 or (terms and not bases):
            return None
        distance = values.total(tuple(term for term in terms if term[0] not in bases), constant)
        word = next((values.representative(node.word) for node in bases.values()), None)
        size = self._all if word is None else self._sizes.get(word, self._all)
        start = self._columns(distance)
        column, bounds = values.known_bits(start)[1] & 0xFFFF, values.interval(start)
        if bounds is not None and bounds[0] >= 0 and bounds[1] < 1 << 16:
            column = max(column, bounds[0])
        return TmemLocation(word, distance, size, column, values.known_bits(distance)[1] >> 16 & 0xFFFF)

    def _columns(self, address: int) -> int:
        """*address* without the terms that affect only its upper half, which selects the lane (9.7.16.1.1).

        A constant with the highest bit of the lower half set subtracts columns.
        """
        values = self.model.values
        terms, constant = values.linear(address)
        columns = tuple((t, f) for t, f in terms if ~values.known_bits(values.times(t, f))[0] & 0xFFFF)
        return values.total(columns, (constant + _SIGN & 0xFFFF) - _SIGN)

    def overlap(self, a: ColumnRange | None, b: ColumnRange | None, threads: T.Threads = 0) -> bool:
        """Whether two ranges provably share a column (and start in the same lane).

        Where the distance between the two depends on the thread index, they do if they share one in all of *threads*.
        """
        if a is None or b is None or a.lanes != b.lanes:
            return False
        addresses, here, there = self.model.values.addresses, (a.start, a.columns), (b.start, b.columns)
        disjoint = addresses.disjoint(here, there)
        if disjoint is not None or not threads:
            return disjoint is False
        found = addresses.overlapping(here, there)
        return found is not None and not threads & ~found

    def disjoint(self, a: int, role_a: str, b: int, role_b: str) -> bool:
        """Whether the columns of an operand of *a* and of one of *b* provably differ, whatever their lanes.

        It suffices that they differ where both instructions execute for the first time, or over all their threads and
        iterations.
        """
        sizes = self.exact_width(a, role_a), self.exact_width(b, role_b)
        here, there = self.range(a, role_a), self.range(b, role_b)
        if here is None or there is None or None in sizes:
            return False
        (low, high), (other_low, other_high) = self._bounds(here.start), self._bounds(there.start)
        if high + here.columns <= other_low or other_high + there.columns <= low:
            return True
        key = self._reach(a, role_a, here), self._reach(b, role_b, there)
        if key not in self._apart:
            self._apart[key] = self._reaches_apart(*key)
        return self._apart[key]

    def _reach(self, site: int, role: str, here: ColumnRange) -> _Reach:
        key = (site, role)
        if key not in self._reaches:
            first, threads = self.at_first(site, role) or here, self.model.views.context_of(site).threads
            self._reaches[key] = _Reach(here.start, here.columns, first.start, threads)
        return self._reaches[key]

    def _reaches_apart(self, a: _Reach, b: _Reach) -> bool:
        disjoint = self.model.values.addresses.disjoint
        here, there = (a.start, a.columns), (b.start, b.columns)
        return bool(
            disjoint(here, there)
            or disjoint((a.first, a.columns), (b.first, b.columns))
            or disjoint(here, there, EVER, (a.threads, b.threads))
        )

    def _bounds(self, address: int) -> tuple[int, int]:
        """The least and the greatest column that *address* may select, by its known bits (9.7.16.1.1)."""
        zeros, ones = self.model.values.known_bits(address)
        return ones & 0xFFFF, ~zeros & 0xFFFF

    def columns_read(self, site: int) -> list[int]:
        """The addresses of the operands of an MMA in tensor memory: A, its metadata, scale factors."""
        instruction = self.model.instruction(site)
        read = (a for a in instruction.accesses if a.space is StateSpace.TENSOR and not a.writes)
        operands = (instruction.named(a.operand) for a in read)
        return [self.model.values.operand(o, site) for o in operands if o is not None]
