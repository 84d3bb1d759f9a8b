"""No kernel on a page of a rule is proved for a class that the rule finds violated in it."""

from __future__ import annotations

import re

import pytest

from tclint.analyses.model import KernelModel
from tclint.findings.rules import all_rules
from tclint.findings.verdicts import HazardClass, Status
from tclint.ir.frontend import analyse
from tclint.ir.inline import inlinable, inline
from tclint.linting.check import check_source
from tclint.syntax.source import Source
from tclint.verdicts import verdicts
from tests.tools.project import ROOT

BETWEEN_THREADS = {
    "TC002": "the thread signals before it issues the load, so that the load is not pending at the signal",
}
"""Rules whose findings may be about threads that do not wait for each other, which is another class."""
OF_TENSOR_MAPS = {
    "a_part_of_a_row": "a proof assumes that the box of the tensor map is as large as what is expected",
}
"""Kernels in which a finding denies what a proof of mbarriers assumes of tensor maps."""
OF_OTHER_THREADS = {
    "told_by_mbarrier": "another thread copies what is stored",
    "changed_in_place": "another thread copies what is stored",
    "asked_again": "another thread requests what is overwritten",
    "kept_to_itself": "the map that is changed is not the one that is used",
    "stage_freed_before_it_is_read": "another thread refills what the multiplication reads",
    "ring_without_a_fence": "another thread issues the copy over what is read",
}
"""Kernels whose findings are not about what their threads do one after the other."""
_EXAMPLE = re.compile(r"```ptx[^\n]*\n(\.version.*?)```", re.DOTALL)


@pytest.mark.parametrize("rule", [r.id for r in all_rules().values() if r.hazards])
def test_what_a_rule_finds_is_not_proved(rule: str) -> None:
    page = (ROOT / "rules" / f"{rule}.md").read_text()
    for text in _EXAMPLE.findall(page):
        source = Source.from_bytes(text.encode(), "example.ptx")
        broken = {
            (f.entry, hazard)
            for f in check_source(source).findings
            for hazard in f.rule.hazards
            if f.rule.id not in BETWEEN_THREADS
        }
        module, _ = analyse(source)
        callees = inlinable(module)
        for function in (f for f in module.functions if f.entry and f.instructions and not f.damaged):
            mine = {HazardClass(hazard) for entry, hazard in broken if entry in (function.name, None)}
            if function.name in OF_TENSOR_MAPS:
                mine -= {HazardClass.MBARRIER, HazardClass.DEADLOCK}
            if function.name in OF_OTHER_THREADS:
                mine -= {HazardClass.PROXIES, HazardClass.TCGEN05_MMA}
            model = KernelModel(inline(function, callees), module)
            for verdict in verdicts(model, only=mine) if mine else ():
                assert verdict.status is not Status.PROVED, verdict


def test_a_load_is_not_pending_at_a_signal_before_it() -> None:
    page = (ROOT / "rules" / "TC002.md").read_text()
    (text,) = [t for t in _EXAMPLE.findall(page) if "released_before_the_load" in t]
    module, _ = analyse(Source.from_bytes(text.encode(), "example.ptx"))
    (found,) = verdicts(KernelModel(module.functions[0], module), only=[HazardClass.TMEM_ACCESS])
    assert found.status is Status.PROVED
    (kept,) = verdicts(
        KernelModel(module.functions[0], module), [HazardClass.TMEM_ACCESS], only=[HazardClass.TMEM_ACCESS]
    )
    assert kept.status is Status.VIOLATED
