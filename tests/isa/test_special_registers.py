"""The table of special registers: positions and sizes of every thread of a launch, bounds, uniformity."""

import itertools
from collections import defaultdict

import pytest

from tclint.isa.special_registers import SPECIAL_REGISTERS, WARP, LaunchShape, Scope
from tclint.isa.target import Target

SHAPES = [
    LaunchShape((6, 4, 2), (5, 4, 3), (3, 2, 1)),
    LaunchShape((2, 1, 1), (96, 1, 1), (2, 1, 1)),
    LaunchShape((1, 2, 3), (8, 8, 2)),
]


def read(name: str, shape: LaunchShape, cta: tuple[int, int, int], thread: int = 0) -> int:
    value = SPECIAL_REGISTERS[name].value(shape, cta, thread)
    assert value is not None
    return value


def triple(name: str, shape: LaunchShape, cta: tuple[int, int, int], thread: int = 0) -> tuple[int, ...]:
    return tuple(read(f"{name}.{axis}", shape, cta, thread) for axis in "xyz")


def ctas(shape: LaunchShape) -> list[tuple[int, int, int]]:
    return [*itertools.product(*map(range, shape.grid))]  # type: ignore[list-item]


@pytest.mark.parametrize("shape", SHAPES)
def test_every_thread_of_a_cta_has_its_own_position(shape: LaunchShape) -> None:
    positions = [triple("%tid", shape, (0, 0, 0), thread) for thread in range(shape.threads)]
    assert positions == sorted(itertools.product(*map(range, shape.block)), key=lambda p: p[::-1])
    warps = [
        (read("%warpid", shape, (0, 0, 0), thread), read("%laneid", shape, (0, 0, 0), thread))
        for thread in range(shape.threads)
    ]
    assert warps == [divmod(thread, WARP) for thread in range(shape.threads)]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_cta_is_at_its_cluster_plus_its_position_in_the_cluster(shape: LaunchShape) -> None:
    ranks = defaultdict(list)
    for cta in ctas(shape):
        cluster, inside = triple("%clusterid", shape, cta), triple("%cluster_ctaid", shape, cta)
        sizes = triple("%cluster_nctaid", shape, cta)
        assert triple("%ctaid", shape, cta) == cta
        assert cta == tuple(c * n + i for c, n, i in zip(cluster, sizes, inside, strict=True))
        assert all(c < n for c, n in zip(cluster, triple("%nclusterid", shape, cta), strict=True))
        ranks[cluster].append(read("%cluster_ctarank", shape, cta))
    count = read("%cluster_nctarank", shape, (0, 0, 0))
    assert all(sorted(found) == list(range(count)) for found in ranks.values())


@pytest.mark.parametrize("shape", SHAPES)
def test_values_are_within_their_bounds_and_uniform_in_their_scope(shape: LaunchShape) -> None:
    for register in SPECIAL_REGISTERS.values():
        seen: dict[object, set[int | None]] = defaultdict(set)
        for cta in ctas(shape):
            group = {
                Scope.GRID: 0,
                Scope.CLUSTER: triple("%clusterid", shape, cta),
            }.get(register.scope, cta)
            for thread in range(shape.threads):
                where = {Scope.WARP: thread // WARP, Scope.THREAD: thread, Scope.LANE: thread}
                value = register.value(shape, cta, thread)
                seen[group, where.get(register.scope)].add(value)
                low, high = register.bounds or (value, value)
                assert value is None or low <= value <= high, register.name  # type: ignore[operator]
        assert all(len(values) == 1 for values in seen.values()), register.name


def test_a_register_of_lane_scope_differs_between_any_two_lanes() -> None:
    for register in SPECIAL_REGISTERS.values():
        values = {register.value(SHAPES[1], (0, 0, 0), lane) for lane in range(WARP)}
        assert (len(values) == WARP) == (register.scope is Scope.LANE or register.name == "%tid.x"), (
            register.name
        )


@pytest.mark.parametrize(
    ("name", "value"),
    [("eq", 1 << 5), ("lt", 0x1F), ("le", 0x3F), ("gt", 0xFFFFFFC0), ("ge", 0xFFFFFFE0)],
)
def test_masks_of_lane_five(name: str, value: int) -> None:
    assert read(f"%lanemask_{name}", SHAPES[1], (0, 0, 0), WARP + 5) == value


def test_the_fourth_component_is_zero() -> None:
    assert read("%ctaid.w", SHAPES[0], (5, 3, 1)) == 0
    assert SPECIAL_REGISTERS["%tid.w"].bounds == (0, 0)


def test_cluster_registers_need_hopper() -> None:
    available = SPECIAL_REGISTERS["%cluster_ctarank"].available
    hopper, ampere = Target.parse("sm_90"), Target.parse("sm_80")
    assert hopper is not None
    assert ampere is not None
    assert available.on(hopper)
    assert not available.on(ampere)
    assert available.since == (7, 8)


def test_components_are_of_a_vector_of_the_table() -> None:
    for register in SPECIAL_REGISTERS.values():
        if register.vector:
            assert register.name == f"{register.vector}.{'xyzw'[register.axis]}"
            assert SPECIAL_REGISTERS[register.vector].type == ".v4.u32"
