"""What all checks share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tclint.analyses.groups import WgmmaGroups
from tclint.analyses.model import KernelModel
from tclint.checks import (
    Hit,
    KernelCheck,
    RuleId,
    _discover,
    check,
    grouped,
    kernel_checks,
    module_check,
    registered,
)
from tclint.findings.rules import all_rules
from tclint.findings.scales import Method
from tclint.ir import Module
from tclint.ir.frontend import analyse
from tclint.isa.target import Version
from tclint.linting.check import check_source
from tclint.syntax.source import Source
from tests.tools.project import ROOT
from tests.tools.support import recording


def test_groups_and_their_members_keep_the_order_in_which_they_were_found() -> None:
    found = [("b", 3), ("a", 1), ("b", 2), ("a", 1), ("c", 0)]
    assert list(grouped(found).items()) == [("b", [3, 2]), ("a", [1, 1]), ("c", [0])]


def test_no_hits_make_no_group() -> None:
    assert grouped(iter(())) == {}


def test_each_check_asks_for_the_analyses_that_it_declares_and_for_no_others() -> None:
    with recording() as asked:
        for rule in all_rules().values():
            for block in (*rule.examples, *rule.corrections):
                check_source(Source(block.code.encode(), "block.ptx"), toolkit=rule.toolkit)
        for path in sorted((ROOT / "fixtures").rglob("*.ptx")):
            check_source(Source(path.read_bytes(), path.name))
    declared = {each.run: set(each.analyses) for each in kernel_checks()}
    assert {run: asked[run] for run in asked if asked[run] != declared[run]} == {}, (
        "asked for, not as declared"
    )


def test_a_check_yields_no_hits_but_of_its_subjects() -> None:
    """So a check of which no subject is selected need not run."""
    found: dict[KernelCheck, set[str]] = {}
    texts = [
        *(block.code.encode() for rule in all_rules().values() for block in rule.examples),
        *(path.read_bytes() for path in sorted((ROOT / "fixtures").rglob("*.ptx"))),
    ]
    for text in texts:
        module, _ = analyse(Source(text, "block.ptx"))
        for function in module.functions:
            model = KernelModel(function, module)
            for each in kernel_checks() if function.instructions and not function.errors else ():
                found.setdefault(each.run, set()).update(hit.subject for hit in each.run(model))
            model.release()
    assert [each.run for each in kernel_checks() if not found[each.run] <= each.subjects] == []
    (replayed,) = (each for each in kernel_checks() if each.method is Method.REPLAY)
    assert found[replayed.run] > {"MB016"}
    assert not {"BK001", "SM001"} & replayed.subjects


def nothing(model: KernelModel) -> Iterator[Hit]:
    """A check that finds nothing."""
    yield from ()


def nothing_in_a_module(module: Module, toolkit: Version | None) -> Iterator[Hit]:
    """A check over modules that finds nothing."""
    yield from ()


@pytest.mark.parametrize("malformed", ["", "WG1", "wg001", "WG001 ", "WGMMA001"])
def test_a_malformed_id_is_refused(malformed: str) -> None:
    with pytest.raises(ValueError, match="is not a rule id"):
        RuleId(malformed)


def test_a_rule_has_one_check() -> None:
    known = dict(registered())
    for register in (
        lambda: check(RuleId("WG001"))(nothing),
        lambda: module_check(RuleId("WG001"))(nothing_in_a_module),
    ):
        with pytest.raises(
            ValueError, match=r"WG001 is already decided by tclint\.checks\.wgmma\.registers_in_flight"
        ):
            register()
    assert registered() == known


def test_only_classes_of_analyses_and_replay_can_be_declared() -> None:
    with pytest.raises(ValueError, match=r"tclint\.ir\.nodes\.Module is not an analysis"):
        check(RuleId("ZZ001"), analyses=(WgmmaGroups, Module))


def test_a_rule_that_only_shares_a_check_is_refused_when_the_checks_are_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry = list(kernel_checks())
    monkeypatch.setattr("tclint.checks._kernel", registry)
    check(also=(RuleId("ZZ001"),))(nothing)
    with pytest.raises(ValueError, match=r"nothing declares ZZ001 in also=, which no check decides"):
        _discover.__wrapped__()
