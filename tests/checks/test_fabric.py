"""FB001 and FB002: the mbarrier of a fabric operation, and its submission."""

from __future__ import annotations

import pytest

from tests.tools.support import kernel, lint, module

HEADER = ".version 9.5\n.target sm_100a\n.address_size 64\n"
FABRIC = "async.shared::cta.mbarrier::complete_tx::{}.mbarrier::report::fabric.relaxed.sys.b128"
GET = f"fabric.try_get.{FABRIC.format('bytes')} [tile], [%r9, %rd0], 1024, [full];"
PUT = f"fabric.try_put.{FABRIC.format('16B')} [%r9, %rd0], [tile], 1024, [full];"
START = """
    .shared .align 128 .b8 tile[1024];
    .shared .align 8 .b64 full;
    .shared .align 8 .b64 other;
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra finish;"""
INIT = "mbarrier.init.layout::v1.shared::cta.b64 [full], 1;"
EXPECT = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], {};"
WAIT = "wait: mbarrier.try_wait.parity.shared::cta.b64 %p1, [full], 0;\n@!%p1 bra wait;"
SUBMIT = "fabric.submit;"
FETCHING = "fabric.submit.op_restrict::fetching;"


def found(*statements: str, extra: str = "") -> list[str]:
    """The rule of each finding of the family."""
    body = "\n".join((START, *statements, "finish: ret;"))
    report = lint(module(extra, kernel(body), header=HEADER))
    assert report.problems == ()
    return [f.rule.id for f in report.findings if f.rule.family == "fabric"]


@pytest.mark.parametrize(
    ("statements", "rules"),
    [
        ((GET, SUBMIT, WAIT), []),
        ((GET, WAIT), ["FB002"]),
        ((GET, WAIT, SUBMIT), ["FB002"]),
        ((GET,), ["FB002"]),
        ((GET, SUBMIT), []),
        ((SUBMIT, GET, WAIT), ["FB002"]),
        ((GET, "fabric.submit.commit_group;", WAIT), []),
        ((GET, FETCHING, WAIT), []),
        ((PUT, FETCHING, WAIT), ["FB002"]),
        ((PUT, GET, FETCHING, SUBMIT, WAIT), []),
        ((GET, "call helper;", WAIT), []),
        ((GET, "setp.eq.u32 %p3, %r8, 1;", f"@%p3 {SUBMIT}", WAIT), ["FB002"]),
        (("setp.eq.u32 %p3, %r8, 1;", f"@%p3 {GET}", f"@%p3 {SUBMIT}", WAIT), []),
    ],
)
def test_an_operation_is_submitted_before_its_thread_waits_or_ends(
    statements: tuple[str, ...], rules: list[str]
) -> None:
    assert found(INIT, EXPECT.format(1024), *statements, extra=".extern .func helper;") == rules


def test_an_operation_of_a_whole_warp_is_not_reported() -> None:
    pull = (
        "fabric.try_pullred.async.multimem.shared::cta.mbarrier::complete_tx::bytes.mbarrier::report::fabric.relaxed.sys"
        ".add.u32.sync [tile], [%r9, %rd0], 1024, [full], 0xFFFFFFFF;"
    )
    assert found(INIT, EXPECT.format(1024), pull, WAIT) == []


def test_an_operation_in_a_loop_may_be_submitted_after_the_loop() -> None:
    loop = f"again: {GET}\nadd.u32 %r7, %r7, 1;\nsetp.lt.u32 %p2, %r7, 4;\n@%p2 bra again;"
    assert found(INIT, EXPECT.format(4096), loop, SUBMIT, WAIT) == []


@pytest.mark.parametrize(
    ("init", "rules"),
    [
        ("mbarrier.init.layout::v1.shared::cta.b64 [full], 1;", []),
        ("mbarrier.init.layout::v0.shared::cta.b64 [full], 1;", ["FB001"]),
        ("mbarrier.init.shared::cta.b64 [full], 1;", ["FB001"]),
        ("mbarrier.init.shared::cta.b64 [other], 1;", []),
        ("mbarrier.init.shared::cta.b64 [full], 1;\nmbarrier.init.layout::v1.shared::cta.b64 [%r8], 1;", []),
        ("mbarrier.init.shared::cta.b64 [full], 1;\nmbarrier.init.layout::v1.shared::cta.b64 [other], 1;", ["FB001"]),
    ],
)  # fmt: skip
def test_the_mbarrier_of_an_operation_has_layout_v1(init: str, rules: list[str]) -> None:
    assert found(init, EXPECT.format(1024), GET, SUBMIT, WAIT) == rules


@pytest.mark.parametrize(
    ("offset", "wanted"),
    [(8, ["fabric.try_get: offset is 8 past a multiple of 16, but must be a multiple of 16"]), (32, [])],
)
def test_an_offset_in_the_memory_of_an_endpoint_is_a_multiple_of_16(offset: int, wanted: list[str]) -> None:
    code = f"""
.version 9.3
.target sm_100
.address_size 64
.visible .entry k()
{{
    .reg .b32 %r<2>;
    .reg .b64 %rd<3>;
    .shared .align 128 .b8 tile[64];
    .shared .align 8 .b64 full;
    mov.u64 %rd1, {offset};
    mov.u32 %r1, 0;
    fabric.try_get.async.shared::cta.mbarrier::complete_tx::bytes.mbarrier::report::fabric.relaxed.sys.b128 [tile], [%r1, %rd1], 64, [full];
    fabric.submit;
    ret;
}}
"""
    assert [f.message for f in lint(code).findings if f.rule.id == "CA004"] == wanted
