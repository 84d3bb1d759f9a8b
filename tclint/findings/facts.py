"""Facts about the launches of a kernel that its text does not state, and that may decide a class of hazards."""

from __future__ import annotations

from collections.abc import Iterable

from tclint._dataclass import dataclass
from tclint._pattern import pattern
from tclint.findings.requirements import assumptions
from tclint.findings.verdicts import Assumption

__all__ = ["Fact", "fact"]

_SHAPE = pattern(r"\.?reqntid\s*=?\s*(\d+(?:\s*,\s*\d+){0,2})")
_NUMBER = pattern(r"([\w$%.]+)\s*=\s*(\d+)")
_EQUAL = pattern(r"([\w$%.]+)\s*=\s*([\w$%.]+)")
_MOST = 1 << 31
"""A number of a parameter is less: it is the same whether it is read as signed or as unsigned."""


@dataclass(frozen=True, slots=True)
class Fact:
    """What is true of each launch that is meant. Its string has the form that :func:`fact` reads."""

    assume: frozenset[Assumption] = frozenset()
    """What proofs may take for granted besides."""
    shape: tuple[int, ...] = ()
    """The threads of a CTA along x, y and z, as ``.reqntid`` states them; empty if nothing is said of them."""
    numbers: frozenset[tuple[str, int, int]] = frozenset()
    """Parameter, offset in bytes, and the number of 32 bits there."""
    equal: frozenset[tuple[str, str]] = frozenset()
    """Pairs of parameters of one size that have the same bytes."""

    def __str__(self) -> str:
        words = [assumption.value for assumption in Assumption if assumption in self.assume]
        x, y, z = (*self.shape, 1, 1, 1)[:3]
        sides = (x, y, z) if z > 1 else (x, y) if y > 1 else (x,)
        words += [f"reqntid={','.join(map(str, sides))}"] if self.shape else []
        words += [
            f"{name}{f'+{offset}' if offset else ''}={number}"
            for name, offset, number in sorted(self.numbers)
        ]
        return " ".join((*words, *(f"{a}={b}" for a, b in sorted(self.equal))))

    def __or__(self, other: Fact) -> Fact:
        """Both facts; the shape is that of *other* if both state one."""
        return Fact(
            self.assume | other.assume,
            other.shape or self.shape,
            self.numbers | other.numbers,
            self.equal | other.equal,
        )


def fact(words: Iterable[str]) -> Fact:
    """What *words* state together: ``full-cta``, ``reqntid=16,16``, ``PARAMETER=4``, ``PARAMETER=PARAMETER``.

    Raises ValueError for what is none of them, or a number of more than 31 bits.
    """
    found = Fact()
    for word in words:
        if match := _SHAPE.fullmatch(word):
            x, y, z = (*map(int, match[1].split(",")), 1, 1)[:3]
            found |= Fact(shape=(x, y, z))
        elif match := _NUMBER.fullmatch(word):
            if int(match[2]) >= _MOST:
                raise ValueError(f"{word}: a number is less than {_MOST}")
            found |= Fact(numbers=frozenset(((match[1], 0, int(match[2])),)))
        elif match := _EQUAL.fullmatch(word):
            found |= Fact(equal=frozenset(((match[1], match[2]),)))
        else:
            found |= Fact(assume=assumptions((word,)))
    return found
