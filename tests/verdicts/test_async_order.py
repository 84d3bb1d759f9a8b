"""What is proved of shared memory that threads write and ``wgmma`` reads: a barrier, a proxy fence, and a wait for the ``wgmma``."""

from __future__ import annotations

import pytest

from tclint.findings.verdicts import Assumption, HazardClass, Status
from tclint.verdicts import verdicts
from tests.tools.matrices import wgmma
from tests.tools.support import kernel, last_kernel

HEADER = ".version 8.0\n.target sm_90a\n.address_size 64\n.shared .align 128 .b8 tile[32768];\n"
START = """ld.param.u32 %r9, [number];
mov.u32 %r0, %tid.x;
mov.u32 %r3, tile;
shl.b32 %r2, %r0, 7;
add.s32 %r4, %r3, %r2;
mov.b32 %r10, 0;"""
WAIT, BARRIER, FENCE = "wgmma.wait_group.sync.aligned 0;", "bar.sync 0;", "fence.proxy.async.shared::cta;"
PRODUCT = wgmma().removesuffix(WAIT)
STEPS = {
    "write": "st.shared.b32 [%r4], %r9;",
    "fence": FENCE,
    "filled": BARRIER,
    "product": PRODUCT,
    "wait": WAIT,
    "read": "bar.sync 0;",
}
"""What a thread does in an iteration, by name: two barriers, one when the bytes are written and one when they have been read."""
LATE = {
    "write": STEPS["write"],
    "filled": BARRIER,
    "fence": FENCE,
    "product": PRODUCT,
    "wait": WAIT,
    "read": BARRIER,
}


def status(steps: dict[str, str], assume: frozenset[Assumption] = frozenset(Assumption)) -> Status:
    body = "\n".join(steps.values())
    text = f"{START}\ntop:\n{body}\nadd.s32 %r10, %r10, 1;\nsetp.lt.s32 %p5, %r10, %r9;\n@%p5 bra top;\nret;"
    (found,) = verdicts(
        last_kernel(kernel(text), header=HEADER), assume=assume, only=[HazardClass.SHARED_MEMORY]
    )
    return found.status


@pytest.mark.parametrize(
    "steps", [STEPS, LATE], ids=["a fence of the writing threads", "of the reading threads"]
)
def test_bytes_that_are_written_before_a_fence_and_a_barrier_are_ordered(steps: dict[str, str]) -> None:
    assert status(steps) is Status.PROVED


@pytest.mark.parametrize("missing", ["fence", "filled", "wait", "read"])
@pytest.mark.parametrize("steps", [STEPS, LATE], ids=["before", "after"])
def test_without_one_of_them_nothing_is_proved(steps: dict[str, str], missing: str) -> None:
    assert status({name: step for name, step in steps.items() if name != missing}) is Status.UNKNOWN


def test_a_fence_that_some_threads_may_not_execute_orders_nothing() -> None:
    guarded = f"setp.lt.s32 %p3, %r0, 64;\n@%p3 {FENCE}"
    assert status({**STEPS, "fence": guarded}) is Status.UNKNOWN


def test_a_fence_for_global_memory_orders_nothing() -> None:
    assert status({**STEPS, "fence": "fence.proxy.async.global;"}) is Status.UNKNOWN


def test_a_wait_that_leaves_the_product_pending_is_none() -> None:
    assert status({**STEPS, "wait": "wgmma.wait_group.sync.aligned 1;"}) is Status.UNKNOWN


def test_matrices_with_swizzling_rest_on_the_alignment_of_their_variable() -> None:
    assert status({**STEPS, "write": f"{STEPS['write']}\nst.shared.b32 [%r3+16384], %r9;"}) is Status.UNKNOWN
    other = {
        **STEPS,
        "read": "add.s32 %r8, %r3, 16384;\nadd.s32 %r8, %r8, %r2;\nst.shared.b32 [%r8], %r9;\nbar.sync 0;",
    }
    assert status(other) is Status.PROVED
    assert status(other, frozenset(Assumption) - {Assumption.ALIGNED}) is Status.UNKNOWN
