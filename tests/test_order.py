"""Where a thread may have heard of what another one has done, and paths on which it has not."""

from __future__ import annotations

import pytest
from support import model

from tclint.analyses.mbarriers import Mbarriers
from tclint.analyses.order import Order
from tclint.model import KernelModel

START = """
    .shared .align 128 .b8 tile[512];
    .shared .align 8 .b64 full;
    .shared .align 8 .b64 empty;
    mov.u32 %r0, %tid.x;
    ld.param.u64 %rd0, [pointer];
    ld.param.u32 %r9, [number];
    setp.ne.u32 %p0, %r0, 0;
    setp.eq.u32 %p3, %r9, 0;
    @!%p0 mbarrier.init.shared::cta.b64 [full], 1;
    @!%p0 mbarrier.init.shared::cta.b64 [empty], 1;
"""
COPY = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd0], 512, [full];"
READ = "ld.shared.u32 %r3, [tile];"


def wait(name: str, at: str) -> str:
    return f"{name}: mbarrier.try_wait.parity.shared::cta.b64 %p1, [{at}], 0;\n@!%p1 bra {name};"


def arrive(at: str) -> str:
    return f"mbarrier.arrive.shared::cta.b64 _, [{at}];"


def ordered(lines: str) -> tuple[KernelModel, Order, dict[str, int]]:
    kernel = model(f"{START}\n{lines}\nret;")
    return kernel, kernel.made(Order), {name: at for at, name in kernel.function.labels.items()}


@pytest.mark.parametrize(
    ("lines", "heard"),
    [
        (f"here: {READ}\n{wait('w', 'full')}", ""),
        (f"here: {READ}\n{arrive('full')}\n{wait('w', 'full')}\n{wait('v', 'empty')}", "w"),
        (f"{arrive('full')}\nhere: {READ}\n{wait('w', 'full')}", ""),
        # From one wait to another.
        (f"here: {READ}\n{arrive('full')}\n{wait('w', 'full')}\n{arrive('empty')}\n{wait('v', 'empty')}", "wv"),
        (f"here: {READ}\nw: bar.sync 1, 128;\nv: bar.sync 2, 128;", "wv"),
        (f"w: bar.sync 1, 128;\nhere: {READ}\nv: bar.sync 2, 128;", "v"),
    ],
)  # fmt: skip
def test_who_hears_of_a_read(lines: str, heard: str) -> None:
    _, order, at = ordered(lines)
    found = order.heard([at["here"]])
    assert {name for name in "wv" if at.get(name) in found} == set(heard)


def test_a_copy_is_complete_behind_a_wait_for_its_mbarrier() -> None:
    lines = f"here: {COPY}\n{arrive('empty')}\n{wait('v', 'empty')}\n{wait('w', 'full')}\nx: bar.sync 0;"
    _, order, at = ordered(lines)
    assert order.completed([at["here"]]) == {at["w"], at["x"]}
    assert order.completed([at["here"]], idle={at["w"]}) == set()


@pytest.mark.parametrize(
    ("lines", "unheard"),
    [
        (f"{COPY}\n{wait('w', 'full')}\nuse: {READ}", False),
        (f"{COPY}\n@%p0 bra use;\n{wait('w', 'full')}\nuse: {READ}", True),
        (f"@%p3 bra on;\nhere: {COPY}\non: @%p3 bra use;\n{wait('w', 'full')}\nuse: {READ}", False),
        (f"@%p0 bra on;\nhere: {COPY}\non: @%p3 bra use;\n{wait('w', 'full')}\nuse: {READ}", True),
    ],
)
def test_a_path_on_which_nothing_is_heard(lines: str, unheard: bool) -> None:
    kernel, order, at = ordered(lines)
    copies = [i for ring in kernel.made(Mbarriers).rings for i in kernel.made(Mbarriers).copies(ring)]
    path = order.unheard(at["use"], order.completed(copies), given=order.certain(copies))
    assert (path is not None) is unheard
    if path is not None:
        assert path.end == at["use"]
