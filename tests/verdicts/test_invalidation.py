"""An mbarrier.inval leaves the protocol of mbarriers bounded if it follows all that is done with its mbarrier."""

from __future__ import annotations

import pytest

from tclint.findings.selection import Request
from tclint.findings.verdicts import Assumption, HazardClass, Status, Verdict
from tclint.linting.check import check_source
from tclint.replay.sync import ReplayMbarrier
from tclint.syntax.source import Source
from tclint.verdicts import invalidation
from tclint.verdicts.invalidation import Invalidations
from tests.tools.support import HOPPER, kernel, loop, module

ALL = frozenset(Assumption)
INIT = "@%p1 mbarrier.init.shared::cta.b64 [m], 128;"
BARRIER = "bar.sync 0;"
PHASE = """mbarrier.arrive.shared::cta.b64 _, [m];
wait{0}:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [m], 0;
@!%p2 bra wait{0};"""
USE = PHASE.format("")
INVAL = "@%p1 mbarrier.inval.shared::cta.b64 [m];"
BEGIN = f"{INIT}\n{BARRIER}\n{USE}"
COPY = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1], 256, [m];"
EXPECT = "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [m], 256;"


def bounded(body: str, assume: frozenset[Assumption] = ALL) -> Verdict:
    start = "mov.u32 %r1, %tid.x;\nsetp.eq.u32 %p1, %r1, 0;\nld.param.u64 %rd1, [pointer];"
    text = module(
        ".shared .align 8 .b64 m;",
        ".shared .align 8 .b64 other;",
        ".shared .align 128 .b8 tile[256];",
        kernel(f"{start}\n{body}\nret;"),
        header=HOPPER,
    )
    verdicts = check_source(Source(text.encode(), "k.ptx"), Request(assume=assume)).verdicts
    (found,) = [v for v in verdicts if v.hazard is HazardClass.MBARRIER]
    return found


BOUNDED = {
    "after the last use": f"{BEGIN}\n{BARRIER}\n{INVAL}",
    "after a copy that is waited for": f"{INIT}\n{BARRIER}\n@%p1 {EXPECT}\n@%p1 {COPY}\n{USE}\n{BARRIER}\n{INVAL}",
    "before another lifetime": f"{BEGIN}\n{BARRIER}\n{INVAL}\n{INIT}\n{BARRIER}\n{PHASE.format(2)}\n{BARRIER}\n{INVAL}",
    "in a loop that initialises": loop(f"{BARRIER}\n{BEGIN}\n{BARRIER}\n{INVAL}", "3"),
    "before a use of another mbarrier": (
        f"{BEGIN}\n{BARRIER}\n{INVAL}\n{INIT.replace('[m]', '[other]')}\n{BARRIER}\n"
        + PHASE.format(2).replace("[m]", "[other]")
    ),
}
UNKNOWN = {
    "without a barrier": f"{BEGIN}\n{INVAL}",
    "with a barrier after it alone": f"{BEGIN}\n{INVAL}\n{BARRIER}",
    "before the last use": f"{INIT}\n{BARRIER}\n{BARRIER}\n{INVAL}\n{USE}",
    "by another thread after a barrier of some": f"{BEGIN}\nsetp.lt.u32 %p4, %r1, 64;\n@%p4 bar.sync 1, 64;\n{INVAL}",
    "by all threads": f"{BEGIN}\n{BARRIER}\nmbarrier.inval.shared::cta.b64 [m];",
    "twice": f"{BEGIN}\n{BARRIER}\n{INVAL}\n{INVAL}",
    "in each iteration": f"{BEGIN}\n{loop(f'{BARRIER}{chr(10)}{INVAL}', '3')}",
    "by a thread that did not initialise": f"{BEGIN}\n{BARRIER}\n{INVAL.replace('%p1', '%p4')}".replace(
        "bar.sync 0;", "bar.sync 0;\nsetp.eq.u32 %p4, %r1, 1;"
    ),
    "of what is not initialised": f"{BEGIN}\n{BARRIER}\n{INVAL.replace('[m]', '[other]')}",
    "a use on some path after it": f"{BEGIN}\n{BARRIER}\n{INVAL}\nld.param.u32 %r9, [number];\n"
    "setp.eq.s32 %p4, %r9, 5;\n@!%p4 bra end;\nmbarrier.arrive.shared::cta.b64 _, [m];\nend:",
    "after a copy that is not waited for": f"{BEGIN}\n@%p1 {EXPECT}\n@%p1 {COPY}\n{BARRIER}\n{INVAL}",
    "a lifetime that ends with a pending copy": f"{BEGIN}\n@%p1 {EXPECT}\n@%p1 {COPY}\n{BARRIER}\n{INVAL}\n{INIT}\n{BARRIER}",
}


@pytest.mark.parametrize("name", BOUNDED)
def test_an_invalidation_after_all_uses_leaves_the_class_bounded(name: str) -> None:
    verdict = bounded(BOUNDED[name])
    assert verdict.status is Status.BOUNDED, verdict.reasons
    assert verdict.launches


@pytest.mark.parametrize("name", UNKNOWN)
def test_an_invalidation_that_may_be_too_early_leaves_the_class_open(name: str) -> None:
    verdict = bounded(UNKNOWN[name])
    assert verdict.status is not Status.BOUNDED


def test_what_the_order_of_an_invalidation_rests_on_is_named_and_can_be_refused() -> None:
    name = "after the last use"
    diverged = BOUNDED[name].replace(BARRIER, f"@%p1 bra a;\nmov.b32 %r5, 0;\na:\n{BARRIER}", 1)
    assert Assumption.RECONVERGENCE in bounded(diverged).assumptions
    assert bounded(diverged, frozenset()).status is Status.UNKNOWN


def test_a_reason_names_the_copy_that_may_signal_later() -> None:
    verdict = bounded(UNKNOWN["a lifetime that ends with a pending copy"])
    assert verdict.status is Status.UNKNOWN
    assert "may signal this mbarrier after mbarrier.inval" in verdict.reasons[0].what


RULES = {
    "_alone": (Invalidations, True, "by all threads"),
    "dominated_by": (invalidation, True, "with a barrier after it alone"),
    "_named_again": (Invalidations, False, "in each iteration"),
    "settled": (ReplayMbarrier, True, "a lifetime that ends with a pending copy"),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_always_holds_is_noticed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, always, name = RULES[rule]
    assert bounded(UNKNOWN[name]).status is Status.UNKNOWN
    value = property(lambda self: always) if rule == "settled" else lambda *arguments: always
    monkeypatch.setattr(owner, rule, value)
    assert bounded(UNKNOWN[name]).status is Status.BOUNDED
