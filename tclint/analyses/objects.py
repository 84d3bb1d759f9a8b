"""The names of the objects that instructions operate on, in the terms of the kernel.

An mbarrier is called by its variable and stage (``full[1]``, ``smem+163840, stage 1 of 4``), memory by its variable and
range of bytes (``tile+0..2048``, the end exclusive; ``tile+0..`` if the end is unknown). Reports and ``tclint
barriers`` use the same names. What has no certain name has none: an address from memory or from a caller, bytes whose
offset is unbounded.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property

from tclint._pattern import pattern
from tclint.analyses.bulk_rings import filled_extent
from tclint.analyses.extents import Extents
from tclint.analyses.mbarrier_addresses import SIZE
from tclint.analyses.mbarriers import MbarrierObject, Mbarriers, Ring
from tclint.analyses.model import KernelModel
from tclint.analyses.pretty import ValuePrinter
from tclint.analyses.tensor_memory import TensorMemory
from tclint.isa.effects import TCGEN05_ALL, TCGEN05_LD
from tclint.values import thread_masks as T
from tclint.values.shared_memory import SharedAccess

__all__ = ["ObjectNames"]

_MAX_NAME = 1000
"""Characters of the name of a variable."""
_MAX_SHOWN = 60
"""Characters of a name in the description of an instruction. A longer one explains nothing."""
_LOCAL = pattern(r"_ZZ.+E(\d+)([A-Za-z_]\w*?)(?:_\d+)?$")
"""The C++ name of a variable local to a function (Itanium ABI, 5.1.6); in a namespace, it begins with ``_ZN``."""
_NAME = pattern(r"[A-Za-z_$%][\w$.]*")
_FULL, _EMPTY = "full", "empty"
"""The two mbarriers of a stage of a ring buffer: it is filled, or it is released to be filled again."""


class ObjectNames:
    """The names of the objects of one function."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self._words = ValuePrinter(model.values)
        self._about: dict[int, str | None] = {}

    def about(self, site: int) -> str | None:
        """What the instruction at *site* operates on; None if nothing of it has a name."""
        if site not in self._about:
            self._about[site] = "; ".join(self._parts(site)) or None
        return self._about[site]

    def accessed(self, site: int, writes: bool, tensor: bool = False) -> str | None:
        """The bytes of shared memory, or columns of *tensor* memory, that an instruction reads or *writes*; None if
        unknown."""
        found = self._tensor_memory(site) if tensor else self._shared_memory(site)
        return " and ".join(dict.fromkeys(name for written, name in found if written == writes)) or None

    def _parts(self, site: int) -> Iterator[str]:
        instruction = self.model.instruction(site)
        if instruction.match is None or instruction.match.problem:
            return
        memory: dict[str, list[str]] = {}
        for writes, name in (*self._shared_memory(site), *self._tensor_memory(site)):
            memory.setdefault("writes" if writes else "reads", []).append(name)
        for verb, names in memory.items():
            words = " and ".join(dict.fromkeys(names))
            yield words if len(memory) == len(names) == 1 else f"{verb} {words}"
        if instruction.mbarrier is not None and (mbarrier := self._mbarrier_at(site)):
            yield mbarrier
        number = self.model.constant_of(site, "id")
        if number is not None:
            yield f"barrier {number}"

    def _shared_memory(self, site: int) -> Iterator[tuple[bool, str]]:
        """Whether it writes, and the name, of each range of shared memory that an instruction accesses."""
        for access in self.model.shared.accesses(site):
            if name := self._bytes(access):
                yield access.writes, name

    def _tensor_memory(self, site: int) -> Iterator[tuple[bool, str]]:
        """Whether it writes, and the name, of each range of tensor memory that an instruction accesses."""
        instruction = self.model.instruction(site)
        if instruction.effects.begins in TCGEN05_ALL:
            for role in ("d", "a", "taddr"):
                if name := self._columns(site, role):
                    yield role != "a" and instruction.group != TCGEN05_LD, name

    # ------------------------------------------------------------ variables

    @cached_property
    def _short(self) -> dict[str, str]:
        """Name of a variable -> its unmangled last part if that is unique in the kernel, else the name itself."""
        variables = {**self.model.module.variables, **self.model.function.variables}
        short = {name: _unmangled(name) for name in variables}
        often = Counter(short.values())
        return {name: last if often[last] == 1 else name for name, last in short.items()}

    def short(self, text: str) -> str:
        """*text*, the name of a variable or an expression of it, with mangled names shortened."""
        return _NAME.sub(lambda found: self._short.get(found[0], found[0]), text)

    def base(self, value: int) -> str | None:
        """The name of the variable, or the aligned variable, whose address *value* is; None if it has none."""
        text = self._words.text(value, _MAX_NAME)
        return None if text is None else self.short(text)

    # ------------------------------------------------------------ mbarriers

    def ring(self, ring: Ring) -> str:
        """The label of a ring: its first mbarrier, and how many stages it has: ``full[3]``."""
        first = ring.stages[0]
        many = f"[{len(ring.stages)}]" if len(ring.stages) > 1 else ""
        return f"{_at(self.base(first.base) or '?', first.offset)}{many}"

    def mbarrier(self, ring: Ring, stage: MbarrierObject | None) -> str | None:
        """An mbarrier of *ring* in words; if its *stage* is None, any of them. None if its variable has no name."""
        base = self.base(ring.stages[0].base)
        if base is None or len(base) > _MAX_SHOWN:
            return None
        use = self._uses.get(ring, "")
        kind = f"{use} mbarrier" if use and not re.search(f"{_FULL}|{_EMPTY}", base) else "mbarrier"
        many = len(ring.stages)
        index = None if stage is None else ring.stages.index(stage)
        if many > 1 and [m.offset for m in ring.stages] == [SIZE * n for n in range(many)]:
            return f"{kind} {base}[{f'0..{many}' if index is None else index}]"
        place = _at(base, ring.stages[index or 0].offset)
        if many == 1:
            return f"{kind} {place}"
        return f"{kind} {place}, " + (f"{many} stages" if index is None else f"stage {index} of {many}")

    def initialised_at(self, init: int) -> str | None:
        """The mbarrier that *init* initialises; if it initialises several stages of a ring, any of them."""
        mbarriers = self.model.fact(Mbarriers)
        for ring in mbarriers.rings:
            stages = [stage for stage in ring.stages if init in stage.inits]
            if stages:
                return self.mbarrier(ring, stages[0] if len(stages) == 1 else None)
        return None

    def _mbarrier_at(self, site: int) -> str | None:
        mbarriers = self.model.fact(Mbarriers)
        rings = mbarriers.rings_at(site)
        if len(rings) != 1:
            return None
        named = list(mbarriers.named(site))
        return self.mbarrier(next(iter(rings)), named[0] if len(named) == 1 else None)

    def releases_stages(self, ring: Ring) -> bool:
        """Whether bulk loads wait for *ring* before they refill a stage."""
        return self._uses.get(ring) == _EMPTY

    @cached_property
    def _uses(self) -> dict[Ring, str]:
        """The rings that report that bulk loads have filled a stage, and those that allow the loads to refill it.

        A ring of the second kind is waited for in the loop of such a load, before it. No copy completes on it, and no
        thread that waits for it arrives at it: that would be one that waits for its own operations.
        """
        mbarriers, cfg = self.model.fact(Mbarriers), self.model.cfg
        found = {ring: _FULL for ring in mbarriers.rings if mbarriers.copies(ring)}
        loads = [i for ring in found for i in mbarriers.copies(ring)]
        for ring in mbarriers.rings:
            arrivals = [i for i in mbarriers.arriving if ring in mbarriers.rings_at(i)]
            waiting, arriving = self._threads(ring.waits), self._threads(arrivals)
            if ring in found or not arriving or waiting & arriving:
                continue
            if any(
                cfg.dominates(cfg.block_of[wait], cfg.block_of[i]) and self._repeats(wait, i)
                for wait in ring.waits
                for i in loads
                if i > wait
            ):
                found[ring] = _EMPTY
        return found

    def _threads(self, sites: Iterable[int]) -> T.Threads:
        """The threads that may execute one of *sites*."""
        threads = 0
        for site in sites:
            threads |= self.model.present(site)
        return threads

    def _repeats(self, wait: int, load: int) -> bool:
        """Whether the innermost loop of *load* also executes *wait*."""
        cfg = self.model.cfg
        loop = cfg.innermost(cfg.block_of[load])
        return loop is not None and cfg.block_of[wait] in loop

    # ------------------------------------------------------------ memory

    def _bytes(self, access: SharedAccess) -> str | None:
        """The bytes of shared memory that an access may touch, over all threads and iterations; None if unknown.

        Of a matrix, and of a tensor copy whose size is unknown, the end is left open.
        """
        extent, ends = self.model.fact(Extents).of(access), not access.later
        if access.later and self.model.constant_of(access.site, "bytes") is not None:
            ends = True
        elif (
            access.later
            and access.writes
            and len(rings := self.model.fact(Mbarriers).rings_at(access.site)) == 1
        ):
            place = filled_extent(self.model, next(iter(rings)), access)
            extent, ends = place or extent, place is not None
        base = None if extent is None else self.base(extent.base)
        if extent is None or base is None or len(base) > _MAX_SHOWN:
            return None
        if ends and (extent.low, extent.high) == (0, self.model.size(extent.base)):
            return base
        return f"{base}+{extent.low}..{extent.high if ends else ''}"

    def _columns(self, site: int, role: str) -> str | None:
        """The columns of tensor memory that *role* of an instruction covers, relative to the allocation; None if unknown."""
        memory = self.model.fact(TensorMemory)
        covered, address = memory.range(site, role), self.model.value(site, role)
        relative = None if covered is None or address is None else memory.relative(address)
        first = None if relative is None else self.model.values.constant_of(relative.distance)
        if covered is None or first is None:
            return None
        return f"tensor memory columns {first & 0xFFFF}..{(first & 0xFFFF) + covered.columns}"


def _at(base: str, offset: int) -> str:
    return f"{base}{offset:+d}" if offset else base


def _unmangled(symbol: str) -> str:
    """The last part of the C++ name of a variable."""
    found = _LOCAL.match(symbol)
    if found is not None and int(found[1]) == len(found[2]):
        return found[2]
    rest, last = symbol.removeprefix("_ZN"), ""
    while rest != symbol and (size := re.match(r"\d+", rest)):
        end = size.end() + int(size[0])
        last, rest = rest[size.end() : end], rest[end:]
    return last if last and rest == "E" else symbol
