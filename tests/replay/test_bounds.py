"""Which launches bound the use of mbarriers, and what leaves it open."""

from __future__ import annotations

import pytest

from tclint.findings.spans import Span
from tclint.replay.bounds import mbarriers
from tests.tools.replay import ALL_ARRIVE
from tests.tools.support import model

LAUNCH = "CTA 0 of 8 with 128 threads; 512 in parameters and memory"


def test_a_protocol_that_every_replayed_launch_follows_is_bounded_by_these_launches() -> None:
    assert mbarriers(model(ALL_ARRIVE)) == ((LAUNCH,), ())


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("[m], 128;", "[m], 129;", "a replayed launch goes wrong here"),
        (
            "    ret;",
            "    mbarrier.inval.shared::cta.b64 [m];\n    ret;",
            "the mbarrier that it ends may be used later",
        ),
        (
            "bar.sync 0;",
            "setp.ne.u32 %p3, %r3, 77; @%p3 bra later; mbarrier.arrive.shared::cta.b64 _, [m]; later: bar.sync 0;",
            "no replayed launch executes it",
        ),
        ("[m], 0;", "[m], %r5;", "not replayed: an operand is unknown"),
        (
            "    ret;",
            "    setp.eq.u32 %p3, %r3, 77;\n    @%p3 mbarrier.arrive.shared::cta.b64 _, [m];\n    ret;",
            "no replayed launch executes it",
        ),
        (
            "[m], 128;",
            "[m], 128;\n    mbarrier.init.shared::cta.b64 [n], 0;",
            "an mbarrier cannot count 0 arrivals",
        ),
        (
            "[m], 128;",
            "[m], 128;\n    mbarrier.init.shared::cta.b64 [n+4], 1;",
            "the mbarrier is not aligned to 8 bytes",
        ),
        (
            "bar.sync 0;",
            "bar.sync 0;\n    @%p0 bra on;\n    mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [m], 1048576;\n    mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [m], 1048576;\non:",
            "the tx-count of an mbarrier cannot be 1048576",
        ),
        (
            "mbarrier.arrive.shared::cta.b64 _, [m];",
            "mbarrier.arrive.noComplete.shared::cta.b64 %rd9, [m], 1;",
            "it completes a phase although it is .noComplete",
        ),
        (
            "_, [m];\nwait:\n    mbarrier.try_wait.parity.shared::cta.b64 %p2, [m], 0;",
            "%rd9, [m];\nwait:\n    mbarrier.try_wait.shared::cta.b64 %p2, [m], %rd9;",
            "a replay does not follow how late a wait for a state may be",
        ),
        (
            "[m], 0;",
            "[m], %r3;",
            "not replayed: a parity that is waited for depends on the launch",
        ),
    ],
)
def test_what_leaves_the_protocol_open(old: str, new: str, why: str) -> None:
    assert old in ALL_ARRIVE
    body = "    ld.param.u32 %r3, [number];\n" + ALL_ARRIVE.replace(old, new)
    launches, (reason, *_) = mbarriers(model(body))
    assert launches == ()
    assert reason.what.startswith(why)


def test_the_first_instruction_that_no_launch_reaches_is_named() -> None:
    unreached = "setp.ne.u32 %p3, %r3, 77;\n    @%p3 bra later;\n    mbarrier.arrive.shared::cta.b64 %rd9, [m];\nlater:"
    kernel = model(
        "    ld.param.u32 %r3, [number];\n" + ALL_ARRIVE.replace("    ret;", f"{unreached}\n    ret;")
    )
    _, (reason, *_) = mbarriers(kernel)
    (site,) = [
        n for n, i in enumerate(kernel.function.instructions) if i.writes and i.event == "mbarrier-arrive"
    ]
    instruction = kernel.function.instructions[site]
    start = kernel.function.start
    assert reason.at == Span(start + instruction.start, start + instruction.end)


def test_a_kernel_without_a_shape_names_what_would_let_it_be_replayed() -> None:
    body = "    mov.u32 %r7, %tid.y;\n    setp.eq.u32 %p5, %r7, 1;\n    @%p5 bra ready;\n" + ALL_ARRIVE
    launches, (reason, *_) = mbarriers(model(body, directives=""))
    assert launches == ()
    assert ".reqntid" in reason.help


def test_a_launch_names_its_cluster() -> None:
    body = "    mapa.shared::cluster.u32 %r9, m, 0;\n" + ALL_ARRIVE
    (launch, *_), reasons = mbarriers(model(body, directives=".reqntid 128\n.reqnctapercluster 2"))
    assert reasons == ()
    assert launch == "cluster 0 of 8 with 2 CTAs with 128 threads each; 512 in parameters and memory"
