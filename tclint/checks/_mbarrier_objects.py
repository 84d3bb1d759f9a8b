"""The mbarriers of a kernel as objects: where each is initialised, used and invalidated (PTX ISA 9.7.13.15.3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from tclint._dataclass import dataclass
from tclint.analyses.mbarrier_addresses import SIZE, MbarrierAddresses, MbarrierLocation, same
from tclint.analyses.model import KernelModel
from tclint.analyses.objects import ObjectNames
from tclint.checks import Mark, grouped
from tclint.isa.effects import Resource
from tclint.values.nodes import AddressOf

__all__ = ["MbarrierObjects"]


class _Index:
    """Instructions by the mbarriers that they may name: kernels may have thousands of both."""

    def __init__(self, model: KernelModel, sites: Mapping[int, frozenset[MbarrierLocation] | None]) -> None:
        self._model = model
        self._sites = sites
        self._unknown = frozenset(i for i, named in sites.items() if named is None)
        self._found: dict[MbarrierLocation, frozenset[int]] = {}
        self._near: dict[int, dict[int, set[int]]] = {}
        """Base -> offset in sizes of an mbarrier, rounded down -> the instructions that may name a location there."""
        for i, named in sites.items():
            for location in named or ():
                slots = self._near.setdefault(location.base, {})
                slots.setdefault(location.offset // SIZE, set()).add(i)

    def naming(self, location: MbarrierLocation) -> frozenset[int]:
        """The instructions that may name *location*."""
        if location not in self._found:
            self._found[location] = frozenset(self._naming(location))
        return self._found[location]

    def _naming(self, location: MbarrierLocation) -> set[int]:
        slot = location.offset // SIZE
        found = set(self._unknown)
        for base, slots in self._near.items():
            if base != location.base:
                if not self._model.values.separate(location.base, base):
                    found = found.union(*slots.values())
                continue
            near = (i for k in (slot - 1, slot, slot + 1) for i in slots.get(k, ()))
            found.update(i for i in near if self._names(i, location))
        return found

    def _names(self, site: int, location: MbarrierLocation) -> bool:
        return any(same(self._model, location, other) is not False for other in self._sites[site] or ())


@dataclass
class MbarrierObjects:
    """The mbarriers of a kernel: where they are initialised, used and invalidated."""

    model: KernelModel

    @cached_property
    def addresses(self) -> MbarrierAddresses:
        return self.model.fact(MbarrierAddresses)

    @cached_property
    def inits(self) -> dict[int, frozenset[MbarrierLocation] | None]:
        return {i: self.addresses.locations(i) for i in self.model.sites(Resource.MBARRIER_INIT)}

    @cached_property
    def repeated(self) -> bool:
        """True if more than one instruction initialises the same mbarrier."""
        return len(self.inits) > len({location for named in self.inits.values() for location in named or ()})

    @cached_property
    def invals(self) -> dict[int, frozenset[MbarrierLocation] | None]:
        return {i: self.addresses.locations(i) for i in self.model.sites(Resource.MBARRIER_INVAL)}

    @cached_property
    def uses(self) -> list[int]:
        """The reachable operations that require an initialised mbarrier, in order."""
        return self.model.matching(
            lambda match: bool(match.form.mbarrier) and not match.form.effects.bounds_mbarrier
        )

    @cached_property
    def named(self) -> dict[int, frozenset[MbarrierLocation] | None]:
        """The mbarriers that each use may name; None if unknown."""
        return {i: self.addresses.locations(i) for i in self.uses}

    @cached_property
    def _by_inits(self) -> _Index:
        return _Index(self.model, self.inits)

    @cached_property
    def _by_invals(self) -> _Index:
        return _Index(self.model, self.invals)

    def makers(self, location: MbarrierLocation) -> frozenset[int]:
        """The inits that may initialise the mbarrier at *location*."""
        return self._by_inits.naming(location)

    def enders(self, location: MbarrierLocation) -> frozenset[int]:
        """The invals that may end the mbarrier at *location*."""
        return self._by_invals.naming(location)

    def neighbours(self, location: MbarrierLocation | None) -> list[int]:
        """The inits, nearest to *location* in memory first: neighbouring mbarriers are usually initialised together."""
        if location is None:
            return sorted(self.inits)

        def distance(init: int) -> tuple[int, int]:
            near = (p.offset for p in self.inits[init] or () if p.base == location.base)
            return min((abs(offset - location.offset) for offset in near), default=2**32), init

        return sorted(self.inits, key=distance)

    def addressed(self, location: MbarrierLocation | None, use: int) -> Iterator[Mark]:
        """The step of the first instruction before *use* that computes the address of the mbarrier at *location*.

        Code that initialises an mbarrier usually computes its address for that. Nothing if no register has it.
        """
        model = self.model
        values = model.values
        if location is None:
            return
        wanted = values.linear(values.add(location.base, values.constant(location.offset)))
        for i, instruction in enumerate(model.function.instructions):
            if len(instruction.writes) != 1 or instruction.event or not model.reaches(i, use):
                continue
            if values.linear(values.after(instruction.writes[0], i)) == wanted:
                yield Mark(
                    i,
                    "computes the address of the mbarrier that is not initialised",
                    object=self.words(location),
                )
                return

    def unambiguous(
        self, sites: dict[int, frozenset[MbarrierLocation] | None]
    ) -> dict[MbarrierLocation, list[int]]:
        """Those of *sites* that name exactly one mbarrier, by that mbarrier."""
        return grouped((min(named), i) for i, named in sites.items() if named is not None and len(named) == 1)

    def words(self, location: MbarrierLocation) -> str:
        """The mbarrier at *location* in words: its variable and offset, or its offset from an unnamed base."""
        node = self.model.values.node(location.base)
        offset = f"{location.offset:+d}" if location.offset else ""
        if type(node) is not AddressOf:
            return f"at offset {location.offset}"
        return f"[{self.model.fact(ObjectNames).short(node.name)}{offset}]"
