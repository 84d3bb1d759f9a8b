"""Which forms of the ISA table the executor does not execute, and why; and how an execution ends that meets one."""

from __future__ import annotations

import tclint.executor.instructions  # noqa: F401  registers the factories
from tclint.executor.decode import _NOT_EXECUTED, FORMS
from tclint.executor.missing import MISSING
from tclint.isa.table import table
from tclint.isa.target import TARGETS
from tests.tools.execution import run
from tests.tools.project import ROOT


def test_the_forms_that_are_not_executed() -> None:
    assert set(table().forms) - set(FORMS) == set(MISSING)


def test_a_form_that_is_said_to_need_sm_107_is_available_on_no_other_target() -> None:
    said = [table().forms[form] for form, reason in MISSING.items() if reason.startswith("only sm_107")]
    assert said
    for form in said:
        assert {target.number for target in TARGETS if form.available.on(target)} == {107}, form.name


def test_the_page_lists_the_modifiers_that_are_not_executed() -> None:
    page = (ROOT / "docs" / "executor.md").read_text(encoding="utf-8")
    assert [beginning for beginning in _NOT_EXECUTED if f"`{beginning}" not in page] == []


def test_every_factory_is_for_a_form() -> None:
    assert set(FORMS) <= set(table().forms)


def test_an_execution_ends_at_what_cannot_be_executed_and_not_before() -> None:
    branch = "setp.gt.u32 %p0, %r199, {};\n@%p0 vadd.u32.u32.u32 %r0, %r199, %r199;\nst.global.u32 [%rd62], 1;\nret;"
    found = run(branch.format(30))
    assert found.execution.end == "unsupported"
    assert found.execution.reason == (
        "instruction 7: vadd.u32.u32.u32: the executor does not implement the form video.scalar: "
        "no compiler of today emits video instructions"
    )
    assert found.lines[found.execution.site].startswith("@%p0 vadd")
    assert run(branch.format(31)).execution.end == "done"


def test_a_variant_that_cannot_be_executed_says_so() -> None:
    found = run("tcgen05.cp.cta_group::1.128x256b.b8x16.b4x16_p64 [%r0], %rd0;\nret;")
    assert found.execution.end == "unsupported"
    assert found.execution.reason.endswith(": tcgen05.cp.b8x16.b4x16_p64")


def test_an_opcode_that_no_form_has() -> None:
    found = run("frobnicate.u32 %r0, %r1;\nret;")
    assert found.execution.end == "unsupported"
    assert found.execution.reason == "instruction 6: frobnicate.u32: not in the ISA table"
