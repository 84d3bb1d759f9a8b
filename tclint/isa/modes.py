"""What modifiers make of what an instruction computes, moves or accesses: flags, each with its spelling here alone.

A modifier that chooses among several of one kind (a type, a shape, a rounding, a comparison) is a slot of the syntax line, and
its spelling is in :attr:`~tclint.isa.forms.Match.binding`. Memory order and scope are in :mod:`tclint.isa.effects`.
"""

from __future__ import annotations

from typing import final

__all__ = ["Modes"]


@final
class _Flag:
    """An attribute that is True where an opcode has a modifier."""

    def __init__(self, spelling: str) -> None:
        self.spelling = spelling

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, modes: Modes, owner: type | None = None) -> bool:
        found: bool = modes.__dict__.setdefault(self.name, self.spelling in modes.modifiers)
        return found


@final
class Modes:
    """The flags among the modifiers of an opcode."""

    def __init__(self, modifiers: tuple[str, ...]) -> None:
        self.modifiers = modifiers

    saturates = _Flag(".sat")
    """A result outside its range becomes the nearest end; of a floating-point result, that of [0, 1]."""
    saturates_finite = _Flag(".satfinite")
    """A result that is too large becomes the largest finite one (9.7.9.22), in a sum of integers
    too (9.7.14.5)."""
    flushes = _Flag(".ftz")
    """Subnormal operands and results are zero, with their sign (9.7.3)."""
    keeps_subnormals = _Flag(".noftz")
    """Subnormal operands and results of an atomic operation stay what they are (9.7.13.5)."""
    rectifies = _Flag(".relu")
    """A negative result becomes 0, and a NaN the canonical one."""
    absolute = _Flag(".abs")
    """Operands count by their magnitude."""
    propagates_nan = _Flag(".NaN")
    """The result is a NaN if an operand is one."""
    multiplies_signs = _Flag(".xorsign")
    """The sign is that of the product of the operands."""
    approximate = _Flag(".approx")
    """The result need not be rounded correctly."""
    zero_out_of_bounds = _Flag(".oob")
    """An operand that is the NaN of an access out of bounds makes the result 0 (9.7.4.4)."""
    in_turns = _Flag(".2pi")
    """The angle counts turns, not radians."""
    widens = _Flag(".wide")
    """The whole product, twice as wide as its factors (9.7.1.3)."""
    upper_half = _Flag(".hi")
    """The upper half of the product."""
    packs_halves = _Flag(".pack::16b")
    """Two columns of tensor memory become one register (9.7.16.8.1)."""
    unpacks_halves = _Flag(".unpack::16b")
    """One register becomes two columns (9.7.16.8.2)."""
    wraps = _Flag(".wrap")
    """An amount counts modulo the width (9.7.8.9)."""
    leftward = _Flag(".l")
    """A funnel shift to the left."""
    counts_shift = _Flag(".shiftamt")
    """The result is not a position, but the amount by which to shift (9.7.1.18)."""
    sets_carry = _Flag(".cc")
    """It writes the carry flag (9.7.2)."""
    of_predicates = _Flag(".pred")
    """Operands are Booleans, not the bits of integers (9.7.8)."""
    asserted_uniform = _Flag(".uni")
    """Of a branch: the program asserts that the active threads of a warp all take it, or none does (9.7.12.3)."""
    unanimous = _Flag(".all")
    """Whether every lane agrees."""
    existential = _Flag(".any")
    """Whether some lane does, or which lanes agree with this one."""
    ballot = _Flag(".ballot")
    """The lanes for which it holds."""
    population = _Flag(".popc")
    """For how many it holds."""
    transposes = _Flag(".trans")
    """Rows of a matrix are its columns."""
    by_columns = _Flag(".col")
    """A matrix is stored column by column."""
    counts_differences = _Flag(".xor")
    """A product of single bits counts those that differ, not those that are common (9.7.14.5.14)."""
    of_tf32 = _Flag(".tf32")
    """The elements of A and B have 32 bits, of which 19 count (5.2.3)."""
    sparse = _Flag(".sp")
    """Half of the elements of A are stored."""
    ordered_metadata = _Flag(".sp::ordered_metadata")
    """The indices of the stored elements rise (9.7.14.6.1)."""
    compresses = _Flag(".spcompress")
    """Two of every four loaded values are kept, with their indices (9.7.16.8.1)."""
    decompresses = _Flag(".decompress::lut::b")
    """The elements of B are indices into a table (9.7.16.10)."""
    gathers = _Flag(".tile::gather4")
    """A box of four rows that need not be neighbours (5.5.6)."""
    weight_stationary = _Flag(".ws")
    """The matrix B stays in a collector buffer, and A streams (9.7.16.10)."""
    shifts_a = _Flag(".ashift")
    """The rows of A move by one (9.7.16.10.9.1)."""
    read_only = _Flag(".nc")
    """Through the cache for data that nothing writes (9.7.9.9)."""
    of_fetches = _Flag(".op_restrict::fetching")
    """It submits the fabric operations that fetch, no others."""
    aligned = _Flag(".aligned")
    """All threads of the warp execute it together."""
    ignores_out_of_bounds = _Flag(".ignore_oob")
    """Bytes at both ends need not exist (9.7.9.25.4.1)."""
    tests_cancellation = _Flag(".is_canceled")
    """Whether the request to cancel a cluster succeeded (9.7.13.17.2)."""
