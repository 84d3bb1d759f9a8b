"""Copies of a faulty line in one kernel are one finding, and two faults in one loop are two."""

from __future__ import annotations

import json
from itertools import combinations

import pytest

from tclint.config.config import Config
from tclint.driver.fixing import apply_fixes
from tclint.findings.finding import FileReport, Finding, SourceLocation
from tclint.findings.selection import Selected
from tclint.linting.check import check_source
from tclint.report.fold import fold
from tclint.report.formats import renderer
from tclint.report.locate import Locator
from tclint.report.summary import FormatContext, Summary, present
from tclint.syntax.source import Source
from tests.tools.findings import finding, report, step

COPIES = 3
HEAD = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 from, .param .u64 to, .param .u32 number)
.reqntid 128
{
.reg .pred %p<8>; .reg .b32 %r<40>; .reg .b64 %rd<16>; .reg .f32 %f<16>;
.shared .align 128 .b8 x[512], y[512], z[512], w[512], c[2048], d[2048], g[2048];
ld.param.u64 %rd1, [from]; ld.param.u64 %rd5, [to]; ld.param.u32 %r9, [number];
mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 2; xor.b32 %r2, %r1, 508; shl.b32 %r3, %r0, 4;
mul.wide.u32 %rd2, %r0, 16; add.s64 %rd2, %rd1, %rd2;
mov.u32 %r4, x; add.u32 %r11, %r4, %r1; add.u32 %r12, %r4, %r2;
mov.u32 %r4, y; add.u32 %r13, %r4, %r1; add.u32 %r14, %r4, %r2;
mov.u32 %r4, z; add.u32 %r15, %r4, %r1; add.u32 %r16, %r4, %r2;
mov.u32 %r4, w; add.u32 %r17, %r4, %r1; add.u32 %r18, %r4, %r2;
mov.u32 %r4, c; add.u32 %r19, %r4, %r3;
mov.u32 %r4, d; add.u32 %r20, %r4, %r3;
mov.u32 %r21, g;
setp.eq.u32 %p1, %r0, 0;
mov.f32 %f1, 0f00000000;
"""


def _read_too_early(own: str, other: str) -> tuple[str, ...]:
    return (
        f"st.shared.f32 [{own}], %f1;",
        f"ld.shared.f32 %f2, [{other}];\nadd.f32 %f1, %f1, %f2;",
        "bar.sync 0;",
    )


def _overwritten_too_early(own: str, other: str) -> tuple[str, ...]:
    return (
        "bar.sync 0;",
        f"ld.shared.f32 %f2, [{other}];\nadd.f32 %f1, %f1, %f2;",
        f"st.shared.f32 [{own}], %f1;",
    )


def _not_waited_for(own: str) -> tuple[str, ...]:
    return (
        f"cp.async.ca.shared.global [{own}], [%rd2], 16;\ncp.async.commit_group;",
        f"ld.shared.f32 %f2, [{own}];\nadd.f32 %f1, %f1, %f2;",
        "cp.async.wait_group 0;",
    )


FAULTS = {
    "x is read too early": ("SM001", _read_too_early("%r11", "%r12")),
    "y is read too early": ("SM001", _read_too_early("%r13", "%r14")),
    "z is overwritten too early": ("SM001", _overwritten_too_early("%r15", "%r16")),
    "w is overwritten too early": ("SM001", _overwritten_too_early("%r17", "%r18")),
    "c is not waited for": ("CA001", _not_waited_for("%r19")),
    "d is not waited for": ("CA001", _not_waited_for("%r20")),
    "g has no proxy fence": (
        "PR001",
        (
            "st.shared.f32 [%r21], %f1;",
            "bar.sync 0;",
            "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd5], [%r21], 2048;",
            "@%p1 cp.async.bulk.commit_group;\n@%p1 cp.async.bulk.wait_group.read 0;\nbar.sync 0;",
        ),
    ),
}
"""What is wrong -> the rule that reports it, and the lines of the source, each in PTX."""


def unrolled(faults: tuple[str, ...], lines: bool) -> str:
    """A kernel with a loop that has all *faults*, unrolled; with line information for *lines*."""
    source = [line for name in faults for line in FAULTS[name][1]]
    loc = ".loc 1 {} 5\n" if lines else ""
    body = "\n".join(
        f"{loc.format(number)}{line}" for _ in range(COPIES) for number, line in enumerate(source, 1)
    )
    return (
        f"{HEAD}{loc.format(90)}mov.u32 %r10, 0;\ntop:\n{body}\n{loc.format(91)}add.u32 %r10, %r10, 1;\n"
        "setp.lt.u32 %p5, %r10, %r9;\n@%p5 bra top;\nst.global.f32 [%rd2], %f1;\nret;\n}\n"
        + ('.file 1 "/src/k.cu"\n' if lines else "")
    )


def shown(*made: FileReport) -> tuple[list[Finding], Summary]:
    """The findings of the first report as they are shown, and the counts."""
    reports, summary = fold(*present(made, Selected()))
    return list(reports[0].findings), summary


@pytest.mark.parametrize("lines", [True, False], ids=["lines", "no lines"])
@pytest.mark.parametrize("pair", [*combinations(FAULTS, 2)], ids=" and ".join)
def test_two_faults_of_an_unrolled_loop_are_two_findings(pair: tuple[str, ...], lines: bool) -> None:
    made = check_source(Source.from_bytes(unrolled(pair, lines).encode(), "k.ptx"))
    findings, summary = shown(made)
    assert sorted(f.rule.id for f in findings) == sorted(FAULTS[name][0] for name in pair)
    assert [f.count for f in findings] == [COPIES, COPIES]
    assert summary.folded == len(made.findings) - 2
    places = [f.fingerprint for f in findings] + [v.fingerprint for f in findings for v in f.variants]
    assert sorted(places) == sorted(f.fingerprint for f in made.findings)


@pytest.mark.parametrize("fault", [name for name, (rule, _) in FAULTS.items() if rule != "PR001"])
def test_a_fault_of_an_unrolled_loop_is_one_finding_whose_fix_changes_each_copy(fault: str) -> None:
    source = Source.from_bytes(unrolled((fault,), True).encode(), "k.ptx")
    made = check_source(source)
    (one,), _ = shown(made)
    assert one.rule.id == FAULTS[fault][0]
    edits = {edit for each in made.findings for edit in each.fixes[0].edits}
    assert set(one.fixes[0].edits) == edits
    assert len(edits) == len(made.findings)
    fixed = apply_fixes(source, Config(), unsafe=True)
    assert not fixed.report.findings
    assert len(fixed.fixed) >= len(made.findings)


TEXT = b"ld.a %r1, [x]; @%p1 st.b [x], 1; ld.a %r2, [x+8]; @!%p2 st.b [x+8], 2; ld.c; st.d"
FIRST, SECOND, THIRD = (SourceLocation("/src/k.cu", line, 9) for line in (5, 6, 7))


def copied(
    of: Source, *words: str, objects: tuple[str | None, ...] = ("x", "x"), **changes: object
) -> Finding:
    """A finding whose steps are on *words*, at two lines of the source unless *changes* say otherwise."""
    lines = changes.pop("lines", (FIRST, SECOND))
    roles = changes.pop("roles", ("all threads", "all threads"))
    steps = tuple(
        step(of, at, f"step {number}", object=object_, source_location=line, role=role)
        for number, (at, object_, line, role) in enumerate(zip(words, objects, lines, roles, strict=True))  # type: ignore[call-overload]
    )
    return finding(of, words[-1], steps=steps, source_location=lines[-1], **changes)  # type: ignore[index]


PLACES = (("ld.a %r1", "@%p1 st.b"), ("ld.a %r2", "@!%p2 st.b"))
NONE = (None, None)
ELSEWHERE = SourceLocation("/src/k.cu", 5, 9, (SourceLocation("/src/k.cu", 70),))


@pytest.mark.parametrize(
    ("first", "second", "merged"),
    [
        ({}, {}, True),
        ({"objects": ("full[0]", "s+0..64")}, {"objects": ("full[2]", "s+64..")}, True),
        (
            {"objects": ("full mbarrier m+8, stage 1 of 4", "x")},
            {"objects": ("full mbarrier m, 4 stages", "x")},
            True,
        ),
        (
            {"objects": ("tensor memory columns 0..64", "x")},
            {"objects": ("tensor memory columns 64..128", "x")},
            True,
        ),
        ({"objects": ("x", "x")}, {"objects": ("x", "y")}, False),
        ({"objects": ("s0", "x")}, {"objects": ("s1", "x")}, False),
        ({"objects": NONE}, {"objects": NONE}, True),
        ({"roles": ("warps 0-3", None)}, {"roles": ("warps 4-7", None)}, True),
        ({"message": "reads, if the loop runs twice"}, {"message": "reads"}, True),
        ({"help": "wait in line 4"}, {"help": "wait in line 8"}, True),
        ({"help": "wait"}, {"help": "commit"}, False),
        ({"lines": (FIRST, SECOND)}, {"lines": (SECOND, SECOND)}, False),
        ({"lines": (FIRST, SECOND)}, {"lines": (ELSEWHERE, SECOND)}, False),
        ({"suppressed": "known"}, {}, False),
        ({"lines": NONE}, {"lines": NONE}, True),
        ({"lines": NONE}, {}, False),
        ({"lines": NONE, "objects": (None, "x")}, {"lines": NONE, "objects": (None, "x")}, True),
        ({"lines": NONE, "objects": ("x+0..8", "x")}, {"lines": NONE, "objects": ("x+8..16", "x")}, False),
        ({"lines": NONE, "objects": NONE}, {"lines": NONE, "objects": NONE}, False),
        (
            {"lines": NONE, "objects": (None, "barrier 0")},
            {"lines": NONE, "objects": (None, "barrier 0")},
            False,
        ),
        ({"lines": NONE}, {"lines": NONE, "roles": ("all threads", "thread 0")}, False),
    ],
)
def test_what_is_the_same_in_copies(
    first: dict[str, object], second: dict[str, object], merged: bool
) -> None:
    of = Source.from_bytes(TEXT, "k.ptx")
    findings, summary = shown(report(of, copied(of, *PLACES[0], **first), copied(of, *PLACES[1], **second)))
    assert summary.folded == merged
    assert [len(f.variants) for f in findings] == ([1] if merged else [0, 0])


@pytest.mark.parametrize(("line", "merged"), [(SECOND, True), (FIRST, False)])
def test_what_precedes_the_wait_need_not_be_the_same_in_copies(line: SourceLocation, merged: bool) -> None:
    """A wait that is too weak is one cause, whether the copy is of the loop or of the code before it."""
    of = Source.from_bytes(b"".join(b"cp.%d; wait.%d; ld.%d; " % (n, n, n) for n in (1, 2)), "k.ptx")
    made = [
        copied(
            of,
            *(f"{word}.{number}" for word in ("cp", "wait", "ld")),
            objects=("x", "x", "x"),
            roles=(None, None, None),
            lines=(copy, wait, THIRD),
        )
        for number, (copy, wait) in enumerate(((FIRST, SECOND), (ELSEWHERE, line)), 1)
    ]
    assert len(shown(report(of, *made))[0]) == (1 if merged else 2)


def test_without_lines_other_opcodes_are_another_fault() -> None:
    of = Source.from_bytes(TEXT, "k.ptx")
    made = [copied(of, *places, lines=NONE) for places in (PLACES[0], ("ld.c", "st.d"))]
    assert len(shown(report(of, *made))[0]) == 2


def test_every_format_has_the_places_of_copies() -> None:
    made = check_source(Source.from_bytes(unrolled(("x is read too early",), True).encode(), "k.ptx"))
    reports, summary = fold(*present([made], Selected()))
    context = FormatContext(summary, locate=Locator("ptx", "/"))
    assert made.source is not None
    first, *others = (made.source.position(f.span.start).line for f in made.findings)
    listed = f"{len(made.findings)} places have this cause, among them lines {others[0]}, {others[1]}"
    for name in ("text", "github", "junit"):
        written = renderer(name)(reports, context)
        assert listed in written
        assert written.count("no barrier orders the two") == renderer(name)(reports[:1], context).count(
            "no barrier orders the two"
        )
    assert "(and 2 duplicates)" in renderer("concise")(reports, context)
    (in_json,) = json.loads(renderer("json")(reports, context))["files"][0]["findings"]
    assert [in_json["line"], *(v["line"] for v in in_json["variants"])] == [first, *others]
    (result,) = json.loads(renderer("sarif")(reports, context))["runs"][0]["results"]
    related = [r["physicalLocation"]["region"]["startLine"] for r in result["relatedLocations"]]
    assert set(others) <= set(related)
    (entry,) = json.loads(renderer("gitlab")(reports, context))
    assert f"also reported at lines {others[0]}, {others[1]}" in entry["description"]
