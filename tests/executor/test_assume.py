"""Assumed launches: the CTA and cluster shapes that follow from a kernel."""

from __future__ import annotations

import pytest

from tclint.executor.assume import Assumed, ParameterUses
from tclint.executor.run import prepared
from tests.tools.support import HOPPER, built, kernel, module

BLACKWELL = ".version 8.8\n.target sm_100a\n.address_size 64\n"
COPY = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes{} [%r1], [%rd1], 16, [%r2]{};"
MULTICAST = COPY.format(".multicast::cluster", ", %h1")
COMMIT = "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [%r2];"


def launches(body: str, header: str = HOPPER, directives: str = ".reqntid 128") -> list[Assumed]:
    text = module(kernel(f".reg .b16 %h1;\n{body}\nret;", directives=directives), header=header)
    made = built(text)
    return list(ParameterUses(prepared(made, "k")).launches(made))


def clusters(body: str, header: str = HOPPER, directives: str = ".reqntid 128") -> list[tuple[int, ...]]:
    found = launches(body, header, directives)
    return list(dict.fromkeys(launch.geometry.cluster for launch in found))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (COPY.format("", ""), [(1, 1, 1)]),
        ("barrier.cluster.arrive;\nbarrier.cluster.wait;", [(1, 1, 1), (2, 1, 1), (4, 1, 1), (8, 1, 1)]),
        ("mapa.shared::cluster.u32 %r1, %r2, %r3;", [(2, 1, 1), (4, 1, 1), (8, 1, 1)]),
        (f"mov.b16 %h1, 3;\n{MULTICAST}", [(2, 1, 1), (4, 1, 1), (8, 1, 1)]),
        (f"mov.b16 %h1, 15;\n{MULTICAST}", [(4, 1, 1), (8, 1, 1)]),
        (f"mov.b16 %h1, 5;\n{MULTICAST}", [(2, 2, 1), (4, 1, 1), (8, 1, 1)]),
        (f"mov.b16 %h1, 5;\nshl.b16 %h1, %h1, %r1;\n{MULTICAST}", [(2, 2, 1), (4, 1, 1), (8, 1, 1)]),
        (f"mov.b16 %h1, -1;\n{MULTICAST}", [(2, 1, 1), (4, 1, 1), (8, 1, 1)]),
    ],
)
def test_the_shape_of_the_cluster_follows_from_what_the_kernel_uses(
    body: str, expected: list[tuple[int, int, int]]
) -> None:
    assert clusters(body) == expected


def test_a_cta_pair_needs_a_cluster_of_two() -> None:
    assert clusters(COMMIT, BLACKWELL) == [(2, 1, 1), (4, 1, 1), (8, 1, 1)]


def test_directives_of_the_cluster_are_kept_to() -> None:
    assert clusters(COMMIT, BLACKWELL, ".reqntid 128\n.reqnctapercluster 4") == [(4, 1, 1)]
    assert clusters(COMMIT, BLACKWELL, ".reqntid 128\n.maxclusterrank 2") == [(2, 1, 1)]


def test_named_barriers_say_how_many_threads_there_are_at_least() -> None:
    assert launches("bar.sync 1;", directives="")[0].geometry.block == (128, 1, 1)
    assert launches("bar.sync 1, 288;", directives="")[0].geometry.block == (384, 1, 1)


@pytest.mark.parametrize(
    ("body", "directives", "expected"),
    [
        ("ret;", ".reqntid 128", set()),
        ("ret;", ".maxntid 128", set()),
        ("mov.u32 %r1, %ntid.x;", ".maxntid 128", {"threads"}),
        ("mov.u32 %r1, %ntid.x;", ".reqntid 128", set()),
        ("ret;", "", {"threads"}),
        ("barrier.cluster.arrive;", ".reqntid 128", {"cluster"}),
        ("barrier.cluster.arrive;", ".reqntid 128\n.reqnctapercluster 2", set()),
        ("ld.param.u32 %r1, [number];", ".reqntid 128", {"integers"}),
    ],
)
def test_what_the_kernel_does_not_determine_is_assumed(
    body: str, directives: str, expected: set[str]
) -> None:
    assert launches(body, directives=directives)[0].assumes == expected
