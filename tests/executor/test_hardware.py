"""The executor held to what an H200 did with the same kernels and inputs: what is right stays right, what is wrong is
seen."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

np = pytest.importorskip("numpy", reason="the executor computes with numpy")

from benchmarks import executor, hardware, launch
from benchmarks.executor_page import tables

DATA = json.loads(executor.PATH.read_text(encoding="utf-8"))["data"]
TWINS = DATA["twins"]
LAUNCHES = hardware.launches()
QUICK = (
    "bulk_add", "bulk_warp", "cluster_slow", "copy_twice", "grids", "lanes", "tile_copy", "triton_attention_100",
    "triton_bf16", "triton_layernorm", "triton_matmul", "triton_matmul_100",
)  # fmt: skip
"""Launches that are run under every schedule."""
PARTS = {
    "alone": (16, 1, 1), "bulk_flood": (8, 1, 1), "bulk_out": (16, 1, 1),
    "cluster_ring": (16, 1, 1), "gluon_matmul": (1, 2, 1), "handed_over": (16, 1, 1), "mma_gemm": (2, 2, 1),
    "row_sums": (16, 1, 1), "scale_2": (16, 1, 1), "scale_4": (16, 1, 1), "staged": (16, 1, 1),
    "transpose": (4, 4, 1), "wgmma_cleared": (4, 1, 1), "wgmma_cp_async": (2, 1, 1), "wgmma_pipelined": (2, 1, 1),
    "wgmma_roles": (2, 1, 1), "wgmma_twice": (8, 1, 1),
}  # fmt: skip
"""CTAs of which only so many are executed here, as all of them take long; each writes a part of the result."""


def digest(name: str, result: str, value: Any) -> str:
    """Of a result as the kernel writes it."""
    kind = launch.TYPES[LAUNCHES[name]["buffers"][result]["type"]]
    return hashlib.sha256(np.asarray(value).astype(kind).tobytes()).hexdigest()


def is_right_in_part(name: str, grid: tuple[int, int, int]) -> None:
    """The bytes on the GPU are those of the result that is computed here, so what the CTAs wrote is held against it."""
    spec = LAUNCHES[name]
    outcome = executor.run(name, grid=grid)
    assert outcome.end == "done", outcome.executions[-1].reason
    assert not outcome.observations
    given = launch.inputs(spec, 0)
    for result, value in launch.expected(spec, given).items():
        assert digest(name, result, value) == DATA["kernels"][name]["digests"][result][0]
        found = outcome.found[result]
        written = np.isfinite(found) if found.dtype.kind == "f" else found != given[result]
        assert (found[written] == np.asarray(value).reshape(found.shape)[written]).all()
        share = np.prod(grid) / np.prod(spec["launches"][0]["grid"])
        assert written.mean() == pytest.approx(share, rel=0.1)


def is_right(name: str, how: str) -> None:
    spec = LAUNCHES[name]
    outcome = executor.run(name, how)
    assert outcome.end == "done", outcome.executions[-1].reason
    assert not outcome.observations
    assert not outcome.wrong
    if "tolerance" not in spec and name in DATA["kernels"]:
        on_gpu = {result: found[0] for result, found in DATA["kernels"][name]["digests"].items()}
        assert launch.digests(spec, outcome.found) == on_gpu


@pytest.mark.slow
@pytest.mark.parametrize("name", LAUNCHES)
def test_a_right_kernel_gives_the_bytes_that_the_gpu_gave(name: str) -> None:
    if name in PARTS:
        is_right_in_part(name, PARTS[name])
    else:
        is_right(name, "lazy")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["eager", "random:1"])
@pytest.mark.parametrize("name", QUICK)
def test_it_does_so_whenever_its_copies_complete(name: str, how: str) -> None:
    is_right(name, how)


@pytest.mark.parametrize(
    "twin", TWINS, ids=lambda twin: f"{twin['launch']}-{twin['line']}-{twin['operator']}"
)
def test_a_wrong_twin_is_seen(twin: Any) -> None:
    assert any(executor.judged(twin, how).seen for how in ("lazy", "eager"))


def test_a_digest_distinguishes_right_from_wrong() -> None:
    wrong = [t for t in TWINS if t["outcome"] == "wrong" and "tolerance" not in LAUNCHES[t["launch"]]]
    assert len(wrong) >= 10
    for twin in wrong:
        spec = LAUNCHES[twin["launch"]]
        assert all(len(found) == DATA["launches"] for found in twin["digests"].values())
        number = twin["mistaken"][0]
        right = launch.expected(spec, launch.inputs(spec, launch.FIRST_MUTANT + number))
        digests = {name: digest(twin["launch"], name, value) for name, value in right.items()}
        assert digests != {name: found[number] for name, found in twin["digests"].items()}


def test_the_record_has_every_kernel_and_operator() -> None:
    assert DATA["kernels"].keys() == hardware.for_hopper().keys()
    assert all(said["outcome"] == "right" and said["launches"] == 50 for said in DATA["kernels"].values())
    for name, said in DATA["kernels"].items():
        assert said["digests"].keys() == LAUNCHES[name]["expected"].keys()
        assert all(len(found) == 50 for found in said["digests"].values())
    assert len(TWINS) >= 30
    assert len({twin["operator"] for twin in TWINS}) == len(TWINS)


def test_what_was_executed_is_on_the_page() -> None:
    ran = DATA["runs"]
    assert [said["launch"] for said in ran["kernels"]] == list(LAUNCHES)
    assert all(set(said["ends"].values()) == {"done"} for said in ran["kernels"])
    assert {said["sha256"] for said in ran["convicted"]} == {m["sha256"] for m in executor.convicted()}
    assert {said["sha256"] for said in ran["lucky"]} == {m["sha256"] for m in executor.lucky()}
    page = "\n".join(tables(DATA))
    assert "not read" not in page
    for said in ran["kernels"]:
        if said["launch"] in DATA["kernels"] and "tolerance" not in LAUNCHES[said["launch"]]:
            on_gpu = DATA["kernels"][said["launch"]]["digests"]
            assert said["digests"] == {result: found[0] for result, found in on_gpu.items()}
