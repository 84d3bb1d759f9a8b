"""The steps of a finding that are in a later iteration of a loop."""

from __future__ import annotations

import pytest

from tclint.findings.finding import LATER
from tests.tools.support import HEADER, OWN_WORD, by_rule, kernel, lint, loop, module

READ_THEN_OVERWRITTEN = ["one warp reads it", f"{LATER}another warp overwrites the same bytes"]
STORE, BARRIER = ".loc 1 5 1\nst.shared.f32 [%r3], %f0;", ".loc 1 6 1\nbar.sync 0;"
LOAD = ".loc 1 7 1\nld.shared.f32 %f1, [%r5];\nadd.f32 %f2, %f2, %f1;"


def said(body: str) -> list[list[str]]:
    """The messages of the steps of each finding about the reuse of ``tile`` in *body*."""
    before = (
        f".shared .align 16 .b8 tile[512];\nmov.u32 %r0, %tid.x;\n{OWN_WORD}\n"
        "xor.b32 %r4, %r2, 508;\nadd.u32 %r5, %r1, %r4;\nld.global.f32 %f0, [%rd1];\nmov.f32 %f2, 0f00000000;\n"
    )
    after = "\nst.global.f32 [%rd1], %f2;\nret;"
    report = lint(module(kernel(f"{before}{body}{after}"), header=f'{HEADER}.file 1 "k.cu"\n'))
    return [[step.message for step in finding.steps] for finding in by_rule(report, "SM001")]


@pytest.mark.parametrize(
    ("iteration", "expected"),
    [
        ([STORE, BARRIER, LOAD], READ_THEN_OVERWRITTEN),
        ([BARRIER, STORE, LOAD], ["one warp writes it", "another warp reads the same bytes"]),
    ],
)
def test_a_step_that_a_back_edge_leads_to_says_so(iteration: list[str], expected: list[str]) -> None:
    assert said(loop("\n".join(iteration))) == [expected]


def test_so_does_one_in_a_copy_of_the_body() -> None:
    copy = f"{STORE}\n{BARRIER}\n{LOAD}"
    assert said("\n".join([copy] * 2)) == [READ_THEN_OVERWRITTEN]


def test_a_statement_of_an_earlier_line_alone_is_not_a_copy() -> None:
    moved = f"{LOAD}\n{STORE}\n{BARRIER}"
    assert said(moved) == [[message.removeprefix(LATER) for message in READ_THEN_OVERWRITTEN]]
