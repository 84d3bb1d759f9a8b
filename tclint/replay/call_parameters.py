"""Parameters of inlined calls as registers: a store to a parameter and the load of it are moves (PTX ISA 5.1.6,
9.7.13.5).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tclint.ir.nodes import Function, Memory, Operand, Symbol, Vector
from tclint.isa.widths import width_of

__all__ = ["CallParameters"]

_SIZES = (4, 8)
"""Sizes in bytes of the accesses that are modelled."""


class _Access(NamedTuple):
    """A store to a part of a parameter, or a load of one."""

    site: int
    name: str
    start: int
    size: int
    stores: bool
    item: Operand
    """The register that is loaded, or the operand that is stored."""

    def overlaps(self, start: int, size: int) -> bool:
        """Whether it accesses some of *size* bytes from *start* on."""
        return start < self.start + self.size and self.start < start + size

    def is_exact(self, function: Function) -> bool:
        """Whether the register is as wide as the access, so that nothing is extended or truncated."""
        known = (
            not isinstance(self.item, int) or width_of(function.registers[self.item].type) == self.size * 8
        )
        return known and self.size in _SIZES


class CallParameters:
    """The moves of each load and store of a parameter.

    The parts of parameters have register numbers after those of the function.
    """

    def __init__(self, function: Function) -> None:
        self.moves: dict[int, list[tuple[int, Operand | None]]] = {}
        """The destinations and sources of each instruction; a source of None: the part becomes unknown."""
        self.defs: dict[int, list[int]] = {}
        """The instructions that write each part."""
        left = _called(function) | {p.name for p in function.parameters}
        accesses = [access for access in _accesses(function) if access.name not in left]
        parts: dict[str, dict[tuple[int, int], int]] = {}
        slots = dict.fromkeys((a.name, a.start, a.size) for a in accesses)
        for number, (name, start, size) in enumerate(slots, len(function.registers)):
            parts.setdefault(name, {})[start, size] = number
        for access in accesses:
            moves = self.moves.setdefault(access.site, [])
            own = parts[access.name][access.start, access.size]
            if access.stores:
                # Parameters of several calls may have one name and overlapping parts.
                others = parts[access.name].items()
                moves[:0] = [(part, None) for slot, part in others if part != own and access.overlaps(*slot)]
                moves.append((own, access.item if access.is_exact(function) else None))
                for part, _ in moves:
                    self.defs.setdefault(part, []).append(access.site)
            elif isinstance(access.item, int):
                moves.append((access.item, own if access.is_exact(function) else None))


def _accesses(function: Function) -> Iterator[_Access]:
    for use in function.uses:
        match = use.match
        if match is None or match.problem or match.form.name not in ("ld", "st"):
            continue
        if not match.space.startswith(".param"):
            continue
        size = int(match.element[2:]) // 8
        for site in use.sites:
            first, second = function.instructions[site].operands[:2]
            stores = isinstance(first, Memory)
            slot, value = (first, second) if stores else (second, first)
            if isinstance(slot, Memory) and isinstance(slot.base, Symbol):
                for i, item in enumerate(value.items if isinstance(value, Vector) else (value,)):
                    yield _Access(
                        site, slot.base.name, slot.base.offset + slot.offset + i * size, size, stores, item
                    )


def _called(function: Function) -> set[str]:
    """The parameters of calls that were not inlined: the callee writes some of them."""
    sites = (i for use in function.uses if use.flow for i in use.sites)
    vectors = (o for i in sites for o in function.instructions[i].operands if isinstance(o, Vector))
    return {item.name for vector in vectors for item in vector.items if isinstance(item, Symbol)}
