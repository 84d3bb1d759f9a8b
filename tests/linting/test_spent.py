"""The budget of the proofs for one file: what it ends is unknown, with that reason."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tclint.analyses import budget
from tclint.analyses.budget import Budget, Spent
from tclint.findings.requirements import ALL_ASSUMPTIONS
from tclint.findings.selection import Request
from tclint.findings.verdicts import HazardClass, Status
from tclint.linting.check import check_source
from tclint.syntax.source import Source
from tclint.verdicts import verdicts
from tests.tools.support import HOPPER, analysed, before_the_wait, kernel, module

TEXT = module(
    before_the_wait("    mov.b32 %r9, 0;"), kernel("    bar.sync 0;\n    ret;", "other"), header=HOPPER
)


RACE = TEXT.replace("mov.b32 %r9, 0;", "st.global.f32 [%rd0], %f0;")


def nothing() -> None: ...


def after(calls: int) -> Callable[[], None]:
    """A hook that raises at each call but the first ones."""
    made = iter(range(calls))

    def hook() -> None:
        if next(made, None) is None:
            raise Spent("3 s of patience")

    return hook


def test_a_proof_that_the_budget_ends_is_unknown_at_whatever_point_it_ends() -> None:
    whole = {v.hazard: v.status for v in verdicts(analysed(TEXT))}
    proofs = frozenset(hazard for hazard, status in whole.items() if status is Status.PROVED)
    assert len(proofs) > 2
    seen = set()
    for calls in range(200):
        found = verdicts(analysed(TEXT), pause=after(calls))
        assert {v.hazard for v in found} >= whole.keys()
        for verdict in found:
            if verdict.status is Status.PROVED:
                assert verdict.hazard in proofs
            elif verdict.hazard in proofs:
                assert [r.what for r in verdict.reasons] == ["the budget was spent: 3 s of patience"]
        seen.add(frozenset(v.hazard for v in found if v.status is Status.PROVED))
        if proofs in seen:
            break
    assert len(seen) > 2
    assert {frozenset(), proofs} <= seen
    assert HazardClass.SHARED_MEMORY in proofs
    assert all(HazardClass.AVAILABILITY in some for some in seen if HazardClass.SHARED_MEMORY in some)


@pytest.mark.parametrize("bounded", [False, True])
def test_what_comes_after_the_budget_is_unknown(monkeypatch: pytest.MonkeyPatch, bounded: bool) -> None:
    monkeypatch.setattr(budget, "MAX_SECONDS", -1)
    report = check_source(Source(RACE.encode(), "k.ptx"), Request(assume=ALL_ASSUMPTIONS, bounded=bounded))
    assert {v.kernel for v in report.verdicts} == {"k", "other"}
    open_ = [v for v in report.verdicts if v.status is not Status.VIOLATED]
    for verdict in open_:
        assert verdict.status is Status.UNKNOWN
        assert any("the budget was spent: -1 s of CPU" in reason.what for reason in verdict.reasons)
    if bounded:
        assert {v.hazard for v in open_ if v.kernel == "k"} == set(HazardClass)
    else:  # its rules are checked
        assert {f.rule.id for f in report.findings} == {"WG001"}


def test_time_and_memory_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(budget, "process_time", lambda: clock[0])
    used = [0]
    spend = Budget(nothing, lambda: used[0])
    clock[0] = budget.MAX_SECONDS - 1
    used[0] = budget.MAX_BYTES
    spend()
    used[0] += 1
    spend()  # the memory was looked at just before
    clock[0] += 0.5
    with pytest.raises(Spent, match="1024 MiB of memory"):
        spend()
    used[0] = 0
    clock[0] = budget.MAX_SECONDS + 0.1
    with pytest.raises(Spent, match="25 s of CPU"):
        spend()


def test_the_hook_of_the_run_is_called_too() -> None:
    class Cancelled(Exception): ...

    def cancel() -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        Budget(cancel)()
    assert Budget(nothing)._memory() >= 0
