"""The shared memory of a protocol: ranges whose accesses may overlap, and the order of their uses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import islice

from tclint._named_tuple import NamedTuple
from tclint.inspect.protocol.parts import Region, RegionUse, UseOrdering, merged
from tclint.inspect.protocol.sites import Sites
from tclint.inspect.region_order import region_ordering
from tclint.values.nodes import Loaded, Masked
from tclint.values.shared_memory import SharedAccess

__all__ = ["Regions"]

_MAX_ADDRESS_VALUES = 64
"""Subexpressions of an address that are searched for the variable on which it is based."""


class Touch(NamedTuple):
    """An access to shared memory, and the range of offsets from a base that it may touch."""

    access: SharedAccess
    proxy: str
    base: str | None
    start: int | None
    end: int | None
    more: bool
    """Whether it may extend past the end."""
    hidden: int | None = None
    """The value that makes the offset unknown."""


class Regions:
    """The accesses to shared memory, grouped by the bytes that they may touch."""

    def __init__(self, sites: Sites) -> None:
        self.sites, self.model = sites, sites.model

    @cached_property
    def touches(self) -> list[Touch]:
        model, found = self.model, []
        for site, match in sorted(model.shared.sites.items()):
            if model.cfg.block_of[site] not in model.cfg.rank or not self.sites.threads(site):
                continue
            for access in model.shared.accesses(site):
                touch = self._touch(access, match.form.proxy or "generic")
                # A generic address without a known base may not be in shared memory.
                if touch.base is not None or access.later or match.space.startswith(".shared"):
                    found.append(touch)
        return found

    def _touch(self, access: SharedAccess, proxy: str) -> Touch:
        values = self.model.values
        terms, constant = values.linear(access.address)
        variable = next((t for t, factor in terms if factor == 1 and self._is_shared(t)), None)
        exact = variable is not None
        variable = self.variable(access.address) if variable is None else variable
        base = None if variable is None else self.sites.base(variable)
        if base is None or variable is None:
            return Touch(access, proxy, None, None, None, False, access.address)
        size = self.model.size(variable)
        offset = values.total(tuple(t for t in terms if t[0] != variable), constant)
        bounds = self._bounds(offset, access) if exact else None
        if bounds is None:
            if size:
                return Touch(access, proxy, base, 0, size, False)
            return Touch(access, proxy, base, None, None, False, self._unbounded(offset))
        start, end = bounds
        known = self.model.constant_of(access.site, "bytes") if access.later else None
        end += known or access.size
        if size and (start < 0 or end > size):  # assumes that accesses stay in bounds of their variable
            start, end = max(start, 0), min(end, size)
        return Touch(access, proxy, base, start, end, access.later and known is None and end != size)

    def _bounds(self, offset: int, access: SharedAccess) -> tuple[int, int] | None:
        """The least and greatest offset of the threads of an access; None if unbounded."""
        model = self.model
        form = model.values.addresses.form(offset)
        ends = model.values.addresses.extremes(form.index, self.sites.threads(access.site))
        bounded = model.values.constant_of(form.index) is not None or model.function.most_threads is not None
        if ends is None or not bounded:
            return model.values.interval(offset)
        interval = model.values.interval(form.base)
        if interval is None:
            return None
        return form.offset + ends[0] + interval[0], form.offset + ends[1] + interval[1]

    def _unbounded(self, offset: int) -> int:
        """The terms of an offset that have no known interval; the whole offset if all have one."""
        values = self.model.values
        terms = tuple(t for t in values.linear(offset)[0] if values.interval(t[0]) is None)
        return values.total(terms, 0) if terms else offset

    def variable(self, address: int) -> int | None:
        """The shared variable from which an address is computed; None if there is not exactly one."""
        values = self.model.values
        parts = values.subexpressions(
            address, until=lambda v: type(values.node(v)) is Loaded or self._is_shared(v)
        )
        followed = list(islice(parts, _MAX_ADDRESS_VALUES + 1))
        found = [v for v in followed if self._is_shared(v)]
        return found[0] if len(found) == 1 and len(followed) <= _MAX_ADDRESS_VALUES else None

    def _is_shared(self, value: int) -> bool:
        """Whether *value* is the address of a shared variable, possibly aligned."""
        values = self.model.values
        node = values.node(value)
        if type(node) is Masked:
            return any(self._is_shared(t) for t, factor in values.linear(node.value)[0] if factor == 1)
        return self.model.space(value).startswith(".shared")

    @cached_property
    def _areas(self) -> list[tuple[str | None, int | None, int | None]]:
        """(base, start, end) of the regions: overlapping ranges are merged.

        A read of unknown size is added to the range before it, which is the copy that fills it.
        """
        known: dict[str, list[tuple[int, int, bool]]] = {}
        unbounded: set[str | None] = set()
        for touch in self.touches:
            if touch.base is None or touch.start is None or touch.end is None:
                unbounded.add(touch.base)
            else:
                # A matrix has an address but no known end, so a read of one starts no range.
                starts = touch.access.writes or not touch.more
                known.setdefault(touch.base, []).append((touch.start, touch.end, starts))
        found: list[tuple[str | None, int | None, int | None]] = []
        for base in sorted(known):
            runs: list[tuple[int, int, bool]] = []
            for start, end, starts in sorted(known[base]):
                last = runs[-1] if runs else None
                if last is not None and (start < last[1] or not starts):
                    runs[-1] = (last[0], max(last[1], end), last[2] or starts)
                else:
                    runs.append((start, end, starts))
            found += [(base, start, end) for start, end, _ in runs]
        return found + [(base, None, None) for base in sorted(unbounded, key=lambda b: (b is None, b or ""))]

    @cached_property
    def _area(self) -> dict[tuple[str | None, int | None], int]:
        """(base, start) of an access -> the index of its area."""
        areas: dict[str | None, list[tuple[int, int, int]]] = {}
        found: dict[tuple[str | None, int | None], int] = {}
        for n, (base, start, end) in enumerate(self._areas):
            if start is None or end is None:
                found[base, None] = n
            else:
                areas.setdefault(base, []).append((start, end, n))
        for touch in self.touches:
            at = touch.start
            if at is not None:
                inside = (n for low, high, n in areas[touch.base] if low <= at < high)
                found[touch.base, at] = next(inside)
        return found

    @cached_property
    def touched(self) -> dict[int, list[int]]:
        """Site -> the indices of the regions that it accesses."""
        found: dict[int, list[int]] = {}
        for touch in self.touches:
            found.setdefault(touch.access.site, []).append(self._area[touch.base, touch.start])
        return found

    @cached_property
    def all(self) -> tuple[Region, ...]:
        uses: list[list[RegionUse]] = [[] for _ in self._areas]
        more = [False for _ in self._areas]
        for touch in self.touches:
            site, area = touch.access.site, self._area[touch.base, touch.start]
            verb = "write" if touch.access.writes else "read"
            part = self.sites.roles_of(site)
            uses[area].append(RegionUse(verb, touch.proxy, self.sites.who(site), part, (site,)))
            more[area] |= touch.more
        return tuple(
            Region(
                self.sites.objects.short(base or ""),
                base,
                start,
                end,
                more[n],
                self._with_orderings(
                    merged(sorted(uses[n], key=lambda use: (use.verb != "write", use.sites)))
                ),
            )
            for n, (base, start, end) in enumerate(self._areas)
        )

    def _with_orderings(self, uses: list[RegionUse]) -> tuple[RegionUse, ...]:
        """The uses of one region, each with its order after the others."""

        def orders(use: RegionUse) -> Iterator[UseOrdering]:
            for n, other in enumerate(uses):
                if other.verb != use.verb:
                    ordering = region_ordering(self.model, other.sites, use.sites, again=use.verb == "write")
                    if ordering is not None:
                        yield UseOrdering(n, *ordering)

        return tuple(replace(use, orderings=tuple(orders(use))) for use in uses)
