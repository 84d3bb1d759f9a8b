"""The special registers (PTX ISA 10): type, availability, bounds, the scope in which each is uniform, and its value in a launch.

The table is Python and not TOML: every parse needs the names, and the value in a launch is a function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from math import prod

from tclint._dataclass import dataclass
from tclint._named_tuple import NamedTuple
from tclint.isa.target import Availability

__all__ = ["ALL_LANES", "SPECIAL_REGISTERS", "WARP", "LaunchShape", "Scope", "SpecialRegister", "Triple"]

WARP = 32
"""Lanes of a warp (``WARP_SZ``, 4.5.1)."""
ALL_LANES = (1 << WARP) - 1
"""The mask of all of them."""
Triple = tuple[int, int, int]
"""A size or a position along x, y and z."""
_WARPS, _SMS = 64, 132
"""The warps per SM and the SMs of an H100: one permitted value each of ``%nwarpid`` and ``%nsmid`` (10.5, 10.9)."""


class Scope(IntEnum):
    """The largest group of threads in which a register always has one value."""

    LANE = 0
    """No group: the value differs between any two lanes of a warp."""
    THREAD = 1
    """No group, although some threads of a warp may share a value."""
    WARP = 2
    CTA = 3
    CLUSTER = 4
    GRID = 5


@dataclass(frozen=True)
class LaunchShape:
    """The CTAs of the grid, threads of a CTA and CTAs of a cluster, each along x, y and z. Clusters divide the grid."""

    grid: Triple
    block: Triple
    cluster: Triple = (1, 1, 1)

    @property
    def threads(self) -> int:
        """The number of threads in a CTA."""
        return prod(self.block)

    @property
    def warps(self) -> int:
        """The number of warps in a CTA; the last one may be partial."""
        return -(-self.threads // WARP)

    @property
    def ranks(self) -> int:
        """The number of CTAs in a cluster."""
        return prod(self.cluster)


class SpecialRegister(NamedTuple):
    """One special register, or one component of a vector register.

    At most one of ``digit``, ``of_lane`` and ``of_cta`` is set. If none is, a launch alone does not determine the value.
    """

    name: str
    type: str
    scope: Scope
    manual: str
    """The section that defines it."""
    available: Availability
    bounds: tuple[int, int] | None = None
    """The smallest and the largest value on any target; None if the manual gives no limit."""
    varies: bool = False
    """Two reads by one thread may differ. Preemption that moves a warp (10.4, 10.8) does not count."""
    vector: str = ""
    """The vector register of which it is a component."""
    axis: int = -1
    """Which component: 0 to 3 for x, y, z and w."""
    digit: Callable[[Triple], tuple[int, int]] | None = None
    """``(weight, base)`` for the shape of a CTA: the value in thread *n* is ``n // weight % base``.

    Threads are numbered along x first, then y, then z; warps take them in that order (10.1, 10.3, 10.4).
    """
    of_lane: Callable[[int], int] | None = None
    """The value in a lane of a warp."""
    of_cta: Callable[[LaunchShape, Triple], int] | None = None
    """The value in all threads of the CTA at a position in the grid."""

    @property
    def meaning(self) -> str:
        """What it holds, in a few words."""
        words = _MEANINGS.get(self.vector or self.name) or _MEANINGS[self.name.rstrip("0123456789")]
        return f"{words}, along {'xyz'[self.axis]}" if 0 <= self.axis < 3 else words

    @property
    def distinguishes_threads(self) -> bool:
        """Whether it indicates which thread of its CTA reads it, or which warp does."""
        return self.scope < Scope.CTA and not self.varies

    def value(self, shape: LaunchShape, cta: Triple, thread: int) -> int | None:
        """The value that *thread* of the CTA at *cta* reads; None if a launch of this *shape* does not determine it."""
        if self.digit is not None:
            weight, base = self.digit(shape.block)
            return thread // weight % base
        if self.of_lane is not None:
            return self.of_lane(thread % WARP)
        return None if self.of_cta is None else self.of_cta(shape, cta)


_MEANINGS = {
    "%tid": "the index of the thread in its CTA",
    "%ntid": "the number of threads of a CTA",
    "%laneid": "the lane of the thread in its warp",
    "%warpid": "where the warp is in its CTA at present; may change",
    "%nwarpid": "the number of warps that an SM can hold",
    "%ctaid": "the index of the CTA in the grid",
    "%nctaid": "the number of CTAs of the grid",
    "%smid": "the SM that executes the thread at present; may change",
    "%nsmid": "an upper bound of the numbers of SMs",
    "%gridid": "the number of the launch",
    "%is_explicit_cluster": "whether the launch states the size of a cluster",
    "%clusterid": "the index of the cluster in the grid",
    "%nclusterid": "the number of clusters of the grid",
    "%cluster_ctaid": "the index of the CTA in its cluster",
    "%cluster_nctaid": "the number of CTAs of a cluster",
    "%cluster_ctarank": "the rank of the CTA in its cluster",
    "%cluster_nctarank": "the number of CTAs of a cluster, of all dimensions",
    "%lanemask_eq": "a mask with the bit of this lane",
    "%lanemask_le": "a mask of the lanes up to this one",
    "%lanemask_lt": "a mask of the lanes below this one",
    "%lanemask_ge": "a mask of this lane and those above it",
    "%lanemask_gt": "a mask of the lanes above this one",
    "%clock": "the cycles of the SM, modulo 2^32",
    "%clock_hi": "the upper half of the cycles of the SM",
    "%clock64": "the cycles of the SM",
    "%pm": "a performance counter",
    **{f"%pm{n}_64": "a performance counter of 64 bits" for n in range(8)},
    "%globaltimer": "a clock of the whole GPU, in nanoseconds",
    "%globaltimer_lo": "the lower half of the clock of the GPU",
    "%globaltimer_hi": "the upper half of the clock of the GPU",
    "%envreg": "a value that the driver defines",
    **{
        f"%reserved_smem_offset_{name}": "shared memory that the system reserves"
        for name in ("begin", "end", "cap", "0", "1")
    },
    "%total_smem_size": "the bytes of shared memory of a CTA, without those of the system",
    "%aggr_smem_size": "the bytes of shared memory of a CTA, with those of the system",
    "%dynamic_smem_size": "the bytes of shared memory that the launch adds",
    "%current_graph_exec": "the CUDA graph that is executed; 0 if there is none",
    "%perctamemoryoffset": "the offset of the memory of the CTA; in no manual",
    "%perctamemorysize": "the size of the memory of the CTA; in no manual",
    "%locality_domain_id": "the locality domain of the CTA; in no manual",
    "%locality_domain_supplemental_sm": "whether the SM is supplemental to its locality domain; in no manual",
}
"""Name without digits, or of the vector -> what it holds."""
_available = Availability.parse
_OfCta = Callable[[LaunchShape, Triple], int]
_Digit = Callable[[Triple], tuple[int, int]]
_MAX_GRID_X = (1 << 31) - 1
"""The largest number of CTAs of a grid along x (10.7)."""


def _vector(
    whole: SpecialRegister,
    of_cta: Callable[[LaunchShape, Triple], Triple] | None = None,
    *,
    digits: tuple[_Digit, ...] = (),
    least: int = 0,
    most: Triple | None = None,
) -> Iterator[SpecialRegister]:
    """A vector register for a size or a position, and its components.

    The fourth component is 0 (10.1 and following).
    """
    yield whole
    name, scope, manual, available = whole.name, whole.scope, whole.manual, whole.available

    def component(axis: int) -> _OfCta | None:
        return None if of_cta is None else lambda shape, cta: of_cta(shape, cta)[axis]

    for axis, letter in enumerate("xyz"):
        bounds = (least, most[axis]) if most else None
        digit = digits[axis] if digits else None
        yield SpecialRegister(
            f"{name}.{letter}", ".u32", scope, manual, available, bounds,
            vector=name, axis=axis, digit=digit, of_cta=component(axis),
        )  # fmt: skip
    yield SpecialRegister(
        f"{name}.w", ".u32", Scope.GRID, manual, available, (0, 0), vector=name, axis=3, of_cta=lambda shape, cta: 0
    )  # fmt: skip


def _positions() -> Iterator[SpecialRegister]:
    """The positions of threads in the CTA and of CTAs in the grid, and the corresponding sizes."""
    first = _available("1.0")
    digits: tuple[_Digit, ...] = (
        lambda block: (1, block[0]),
        lambda block: (block[0], block[1]),
        lambda block: (block[0] * block[1], block[2]),
    )
    yield from _vector(
        SpecialRegister("%tid", ".v4.u32", Scope.THREAD, "10.1", first), digits=digits, most=(1023, 1023, 63)
    )
    yield from _vector(
        SpecialRegister("%ntid", ".v4.u32", Scope.GRID, "10.2", first),
        lambda s, _: s.block,
        least=1,
        most=(1024, 1024, 64),
    )
    yield SpecialRegister(
        "%laneid", ".u32", Scope.LANE, "10.3", _available("1.3"), (0, 31), digit=lambda block: (1, WARP)
    )
    # A CTA has at most 32 warps (10.2), and 32 * base exceeds every thread index.
    yield SpecialRegister(
        "%warpid",
        ".u32",
        Scope.WARP,
        "10.4",
        _available("1.3"),
        (0, 31),
        digit=lambda block: (WARP, prod(block)),
    )
    yield SpecialRegister(
        "%nwarpid", ".u32", Scope.GRID, "10.5", _available("2.0", "sm_20+"), of_cta=lambda s, cta: _WARPS
    )
    yield from _vector(
        SpecialRegister("%ctaid", ".v4.u32", Scope.CTA, "10.6", first),
        lambda s, cta: cta,
        most=(_MAX_GRID_X - 1, 65534, 65534),
    )
    yield from _vector(
        SpecialRegister("%nctaid", ".v4.u32", Scope.GRID, "10.7", first),
        lambda s, _: s.grid,
        least=1,
        most=(_MAX_GRID_X, 65535, 65535),
    )
    yield SpecialRegister(
        "%smid", ".u32", Scope.CTA, "10.8", _available("1.3"), of_cta=lambda s, cta: _rank(cta, s.grid) % _SMS
    )
    yield SpecialRegister(
        "%nsmid", ".u32", Scope.GRID, "10.9", _available("2.0", "sm_20+"), of_cta=lambda s, cta: _SMS
    )
    yield SpecialRegister("%gridid", ".u64", Scope.GRID, "10.10", first)


def _cluster_positions() -> Iterator[SpecialRegister]:
    """The positions of clusters in the grid and of CTAs in the cluster, and the corresponding sizes."""
    cluster = _available("7.8", "sm_90+")
    yield SpecialRegister("%is_explicit_cluster", ".pred", Scope.GRID, "10.11", cluster)
    yield from _vector(SpecialRegister("%clusterid", ".v4.u32", Scope.CLUSTER, "10.12", cluster), _cluster)
    yield from _vector(
        SpecialRegister("%nclusterid", ".v4.u32", Scope.GRID, "10.13", cluster),
        lambda s, _: _divided(s.grid, s.cluster),
    )
    yield from _vector(SpecialRegister("%cluster_ctaid", ".v4.u32", Scope.CTA, "10.14", cluster), _in_cluster)
    yield from _vector(
        SpecialRegister("%cluster_nctaid", ".v4.u32", Scope.GRID, "10.15", cluster), lambda s, _: s.cluster
    )
    yield SpecialRegister(
        "%cluster_ctarank", ".u32", Scope.CTA, "10.16", cluster,
        of_cta=lambda s, cta: _rank(_in_cluster(s, cta), s.cluster),
    )  # fmt: skip
    yield SpecialRegister(
        "%cluster_nctarank", ".u32", Scope.GRID, "10.17", cluster, of_cta=lambda s, _: s.ranks
    )


def _divided(a: Triple, b: Triple) -> Triple:
    return a[0] // b[0], a[1] // b[1], a[2] // b[2]


def _cluster(shape: LaunchShape, cta: Triple) -> Triple:
    return _divided(cta, shape.cluster)


def _in_cluster(shape: LaunchShape, cta: Triple) -> Triple:
    (x, y, z), (width, height, depth) = cta, shape.cluster
    return x % width, y % height, z % depth


def _rank(position: Triple, shape: Triple) -> int:
    """The linear index of a position in a *shape*, along x first."""
    return position[0] + shape[0] * (position[1] + shape[1] * position[2])


def _masks() -> Iterator[SpecialRegister]:
    """Masks of the lanes whose index compares in a given way with that of the executing lane."""
    every = (1 << WARP) - 1
    for name, manual, of_lane in (
        ("eq", "10.18", lambda lane: 1 << lane),
        ("le", "10.19", lambda lane: (2 << lane) - 1),
        ("lt", "10.20", lambda lane: (1 << lane) - 1),
        ("ge", "10.21", lambda lane: every & -1 << lane),
        ("gt", "10.22", lambda lane: every & -2 << lane),
    ):
        available = _available("2.0", "sm_20+")
        yield SpecialRegister(f"%lanemask_{name}", ".u32", Scope.LANE, manual, available, of_lane=of_lane)


def _counters() -> Iterator[SpecialRegister]:
    """Clocks, timers and performance counters."""

    def counter(name: str, type_: str, manual: str, *available: str) -> SpecialRegister:
        return SpecialRegister(name, type_, Scope.THREAD, manual, _available(*available), varies=True)

    yield counter("%clock", ".u32", "10.23", "1.0")
    yield counter("%clock_hi", ".u32", "10.23", "5.0", "sm_20+")
    yield counter("%clock64", ".u64", "10.24", "2.0", "sm_20+")
    for n in range(8):
        yield counter(f"%pm{n}", ".u32", "10.25", *(("1.3",) if n < 4 else ("3.0", "sm_20+")))
        yield counter(f"%pm{n}_64", ".u64", "10.26", "4.0", "sm_50+")
    for suffix, type_ in (("", ".u64"), ("_lo", ".u32"), ("_hi", ".u32")):
        yield counter(f"%globaltimer{suffix}", type_, "10.28", "3.1", "sm_30+")


def _environment() -> Iterator[SpecialRegister]:
    """Registers that the driver and the launch define, apart from the shape."""
    for n in range(32):  # uniform in a CTA or in a grid, as the driver defines
        yield SpecialRegister(f"%envreg{n}", ".b32", Scope.CTA, "10.27", _available("2.0"))
    for name in ("begin", "end", "cap", "0", "1"):
        yield SpecialRegister(
            f"%reserved_smem_offset_{name}", ".b32", Scope.GRID, "10.29", _available("7.6", "sm_80+")
        )
    yield SpecialRegister("%total_smem_size", ".u32", Scope.GRID, "10.30", _available("4.1", "sm_20+"))
    yield SpecialRegister("%aggr_smem_size", ".u32", Scope.GRID, "10.31", _available("8.1", "sm_90+"))
    yield SpecialRegister("%dynamic_smem_size", ".u32", Scope.GRID, "10.32", _available("4.1", "sm_20+"))
    yield SpecialRegister("%current_graph_exec", ".u64", Scope.GRID, "10.33", _available("8.0", "sm_50+"))
    # In no manual; as ptxas 13.5 takes them.
    yield SpecialRegister("%perctamemoryoffset", ".u64", Scope.CTA, "", _available("9.4", "sm_80+"))
    yield SpecialRegister("%perctamemorysize", ".u32", Scope.GRID, "", _available("9.4", "sm_80+"))
    for name in ("id", "supplemental_sm"):
        yield SpecialRegister(f"%locality_domain_{name}", ".u32", Scope.CTA, "", _available("9.5", "sm_100+"))


SPECIAL_REGISTERS: Mapping[str, SpecialRegister] = {
    register.name: register
    for family in (_positions(), _cluster_positions(), _masks(), _counters(), _environment())
    for register in family
}
"""Name as PTX spells it (``%tid``, ``%tid.x``, ``%laneid``) -> the special register or component."""
