"""Every limit of a check that leaves a question open is in the ledger of the model, so that --timings counts it."""

from __future__ import annotations

from importlib import import_module

import pytest

from tclint.checks import kernel_checks
from tclint.findings.rules import all_rules
from tests.tools.support import analysed

SHAPELESS = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 pointer)
{
.reg .b32 %r<4>;
.shared .b32 row[1024];
mov.u32 %r1, %tid.x;
mov.u32 %r2, %tid.y;
st.shared.b32 [row], %r2;
ld.shared.b32 %r3, [row];
ret;
}
"""


@pytest.mark.parametrize(
    ("rule", "module", "limit", "what"),
    [
        ("WG001", "wgmma", "MAX_TRIES", "accesses or operations"),
        ("WG002", "wgmma", "MAX_TRIES", "accesses or operations"),
        ("WG007", "wgmma", "MAX_TRIES", "accesses or operations"),
        ("WG009", "wgmma", "MAX_TRIES", "accesses or operations"),
        ("TC003", "tcgen05", "MAX_CONFLICTS_PER_OPERATION", "conflicts of an operation"),
        ("TC014", "tcgen05_fence", "MAX_PAIRS", "pairs"),
        ("MB014", "mbarrier_release", "MAX_OPERATIONS_PER_MBARRIER", "arrivals"),
    ],
)
def test_a_question_left_open_is_in_the_ledger(
    rule: str, module: str, limit: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (check,) = (c for c in kernel_checks() if rule in c.rules and c.run.__module__.endswith(f".{module}"))
    code = all_rules()[rule].examples[-1].code
    assert rule in {hit.rule for hit in check.run(analysed(code))}
    monkeypatch.setattr(import_module(f"tclint.checks.{module}"), limit, 0)
    model = analysed(code)
    assert rule not in {hit.rule for hit in check.run(model)}
    assert f"more than 0 {what}" in {open_.why for open_ in model.ledger.unanswered}


def test_loads_without_any_fence_that_are_not_tried_are_in_the_ledger(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (check,) = (c for c in kernel_checks() if "TC013" in c.rules)
    code = all_rules()["TC013"].examples[0].code.replace("tcgen05.fence::after_thread_sync;", "")
    assert [*check.run(analysed(code))]
    monkeypatch.setattr(import_module("tclint.checks.tcgen05_fence"), "MAX_PAIRS", 0)
    model = analysed(code)
    assert not [*check.run(model)]
    assert "more than 0 loads" in {open_.why for open_ in model.ledger.unanswered}


def test_shapes_that_are_not_modelled_are_in_the_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    (check,) = (c for c in kernel_checks() if c.rules[0] == "SM001")
    monkeypatch.setattr(import_module("tclint.analyses.cta_shapes"), "MAX_MODELLED_INSTRUCTIONS", 0)
    model = analysed(SHAPELESS)
    assert not [*check.run(model)]
    (open_,) = model.ledger.unanswered
    assert open_.why == "more than 0 instructions in the models for all shapes"
