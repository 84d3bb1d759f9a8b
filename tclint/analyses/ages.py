"""Sets of pairs of an operation and an age, as bit sets: what a commit or a wait does takes a step for each age.

A kernel may have thousands of operations in flight, and each commit makes all of them older.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

__all__ = ["Ages", "Numbering"]


class Numbering:
    """Numbers for instructions, in their order, so that a set of them is a bit set."""

    __slots__ = ("_numbers", "sites")

    def __init__(self, sites: Iterable[int]) -> None:
        self.sites = tuple(sorted(sites))
        self._numbers = {site: number for number, site in enumerate(self.sites)}

    def bit(self, site: int) -> int:
        """The bit of *site*; 0 if it has no number."""
        number = self._numbers.get(site)
        return 0 if number is None else 1 << number

    def bits(self, sites: Iterable[int]) -> int:
        """The bit set of those of *sites* that have numbers."""
        numbers = self._numbers
        found = bytearray(len(self.sites) // 8 + 1)
        for site in sites:
            number = numbers.get(site)
            if number is not None:
                found[number >> 3] |= 1 << (number & 7)
        return int.from_bytes(found, "little")

    def members(self, bits: int) -> Iterator[int]:
        """The instructions in a bit set, in their order."""
        return (self.sites[number] for number in ones(bits))


def ones(bits: int) -> Iterator[int]:
    """The positions of the ones of *bits*, from the lowest."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


class Ages:
    """Pairs ``(operation, age)``: for each age, the bit set of the operations that may have it. Immutable."""

    __slots__ = ("_hash", "_masks", "_numbering")

    def __init__(self, numbering: Numbering, masks: Mapping[int, int]) -> None:
        """No bit set in *masks*, age -> operations, is empty."""
        self._numbering = numbering
        self._masks = masks
        self._hash: int | None = None

    def __bool__(self) -> bool:
        return bool(self._masks)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        for age, bits in self._masks.items():
            for site in self._numbering.members(bits):
                yield site, age

    def __contains__(self, pair: tuple[int, int]) -> bool:
        site, age = pair
        return bool(self._masks.get(age, 0) & self._numbering.bit(site))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Ages) and self._masks == other._masks)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._masks.items()))
        return self._hash

    def __repr__(self) -> str:
        return f"Ages({sorted(self)})"

    def __or__(self, other: Ages) -> Ages:
        if not other._masks or self is other:
            return self
        masks = dict(self._masks)
        for age, bits in other._masks.items():
            masks[age] = masks.get(age, 0) | bits
        return Ages(self._numbering, masks)

    @property
    def operations(self) -> int:
        """The bit set of the operations that have an age."""
        found = 0
        for bits in self._masks.values():
            found |= bits
        return found

    def having(self, age: int) -> int:
        """The bit set of the operations that have that age."""
        return self._masks.get(age, 0)

    def of(self, site: int) -> Iterator[int]:
        """The ages of the operation *site*."""
        bit = self._numbering.bit(site)
        return (age for age, bits in self._masks.items() if bits & bit)

    def issued(self, site: int, age: int) -> Ages:
        """This and the operation *site* with that age."""
        return Ages(
            self._numbering, {**self._masks, age: self._masks.get(age, 0) | self._numbering.bit(site)}
        )

    def moved(self, to: Callable[[int], int | None]) -> Ages:
        """Each age replaced by *to* of it; operations whose age becomes None are left out."""
        masks: dict[int, int] = {}
        for age, bits in self._masks.items():
            after = to(age)
            if after is not None:
                masks[after] = masks.get(after, 0) | bits
        return self if masks == self._masks else Ages(self._numbering, masks)

    def without(self, operations: int) -> Ages:
        """This without the *operations* of a bit set."""
        return Ages(
            self._numbering, {age: left for age, bits in self._masks.items() if (left := bits & ~operations)}
        )

    def differing(self, other: Ages) -> int:
        """The bit set of the operations whose ages differ in *other*."""
        mine, others = self._masks, other._masks
        found = 0
        for age in mine.keys() | others.keys():
            found |= mine.get(age, 0) ^ others.get(age, 0)
        return found

    def joined(self, after: Ages, certain: int, never: int) -> Ages:
        """The pairs after a guarded instruction, given these before it and those *after* it if it executes.

        The threads of the operations *certain* execute the instruction, and those of *never* do not.
        """
        before, executed = self._masks, after._masks
        masks: dict[int, int] = {}
        for age in before.keys() | executed.keys():
            kept, made = before.get(age, 0), executed.get(age, 0)
            bits = kept & (made | ~certain) | made & (kept | ~never)
            if bits:
                masks[age] = bits
        return Ages(self._numbering, masks)
