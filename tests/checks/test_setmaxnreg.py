"""setmaxnreg: whether it has an effect, and whether it changes in the direction of its name."""

from __future__ import annotations

import pytest

from tests.tools.support import HEADER, by_rule, kernel, lint, module

HOPPER = HEADER.replace("sm_100a", "sm_90a")


def text(body: str, directives: str) -> str:
    """*body*, where ``inc 40;`` stands for a setmaxnreg."""
    for action in ("inc", "dec"):
        body = body.replace(f"{action} ", f"setmaxnreg.{action}.sync.aligned.u32 ")
    return module(kernel(f"{body}\nret;", directives=directives), header=HOPPER)


@pytest.mark.parametrize(
    ("directives", "severity"),
    [
        ("", "warning"),
        (".minnctapersm 1", "warning"),
        (".reqntid 384", "info"),
        (".maxntid 384", "info"),
        (".reqntid 384 .minnctapersm 1", ""),
        (".maxntid 384 .minnctapersm 1", ""),
        (".maxnreg 168", ""),
        (".reqntid 256 .maxnreg 256", ""),
    ],
)
def test_whether_ptxas_knows_the_registers_at_launch(directives: str, severity: str) -> None:
    found = by_rule(lint(text("inc 232; bar.sync 0; dec 40;", directives)), "CV007")
    assert [(f.severity.label, f.count) for f in found] == ([(severity, 2)] if severity else [])


def wide(registers: int, columns: bool = False) -> str:
    """An instruction with a vector of that many registers: a wgmma, or a load of tensor memory."""
    vector = ", ".join(f"%wide{i}" for i in range(registers))
    if columns:
        return f".reg .b32 %wide<{registers}>; tcgen05.ld.sync.aligned.32x32b.x{registers}.b32 {{{vector}}}, [%r1];"
    shape = f"m64n{2 * registers}k16.f32.bf16.bf16"
    return (
        f".reg .f32 %wide<{registers}>; "
        f"wgmma.mma_async.sync.aligned.{shape} {{{vector}}}, %rd1, %rd1, 1, 1, 1, 0, 0;"
    )


@pytest.mark.parametrize(
    ("threads", "dropped", "kept"),
    [
        (224, 100, 104),
        (256, 100, 104),
        (288, 68, 72),
        (320, 68, 72),
        (384, 52, 56),
        (416, 44, 48),
        (640, 20, 24),
    ],
)
def test_an_instruction_so_wide_that_only_one_cta_fits_makes_ptxas_keep_it(
    threads: int, dropped: int, kept: int
) -> None:
    """The accumulators of a wgmma with which ptxas 13.5 drops setmaxnreg, and with which its SASS has it."""
    for registers, found in ((dropped, 1), (kept, 0)):
        body = f"inc 232; {wide(registers)} bar.sync 0; dec 40;"
        assert len(by_rule(lint(text(body, f".maxntid {threads}")), "CV007")) == found


@pytest.mark.parametrize(
    ("threads", "registers", "found"),
    [(288, 64, 1), (384, 32, 1), (384, 64, 0), (576, 32, 1), (640, 16, 1), (640, 32, 0), (896, 16, 0)],
)
def test_a_load_of_tensor_memory_needs_fewer_registers(threads: int, registers: int, found: int) -> None:
    body = text(f"inc 232; {wide(registers, True)} bar.sync 0; dec 40;", f".reqntid {threads}")
    report = lint(body.replace("sm_90a", "sm_100a"))
    assert len(by_rule(report, "CV007")) == found


DISPATCHED = """
    .shared .align 4 .b8 table[16];
    .reg .b32 %role;
    inc 168;
dispatch:
    bar.sync 1;
    ld.shared.u8 %role, [table];
    roles: .branchtargets load, work, done;
    brx.idx %role, roles;
load:
    {};
    bar.sync 2;
    inc 168;
    bra dispatch;
work:
    {};
    bar.sync 3;
    dec 168;
    bra dispatch;
done:
"""
ROLES = "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 128; @%p1 bra L;"


@pytest.mark.parametrize(
    ("body", "directives", "says"),
    [
        (
            "dec 40; bar.sync 0; dec 96;",
            "",
            "setmaxnreg.dec requests 96 registers, more than the 40 that the warp owns after the previous",
        ),
        (
            "inc 232; bar.sync 0; inc 96;",
            "",
            "setmaxnreg.inc requests 96 registers, fewer than the 232 that the warp owns after the previous",
        ),
        ("inc 232; bar.sync 0; dec 96; bar.sync 0; dec 96; bar.sync 0; inc 96;", "", ""),
        ("inc 40;", ".maxnreg 168", ""),
        (
            f"{ROLES} inc 232; bra J; L: inc 40; J: bar.sync 0;",
            ".maxnreg 168",
            "fewer than the 168 that the warp owns at launch",
        ),
        (
            f"{ROLES} inc 232; bra J; L: dec 200; J: bar.sync 0;",
            ".maxnreg 168",
            "setmaxnreg.dec requests 200 registers, more than the 168",
        ),
        (f"{ROLES} inc 232; bra J; L: dec 40; J: bar.sync 0;", ".maxnreg 168", ""),
        (f"{ROLES} inc 160; bra J; L: dec 40; J: bar.sync 0;", ".reqntid 384 .minnctapersm 1", ""),
        (
            f"{ROLES} inc 240; bra J; L: dec 96; J: bar.sync 0;",
            ".reqntid 384 .minnctapersm 2",
            "the 80 that the warp owns at launch",
        ),
        (
            f"{ROLES} dec 232; {wide(64)} bra J; L: dec 40; J: bar.sync 0;",
            ".maxntid 384",
            "the 168 that the warp owns at launch",
        ),
        (
            f"{ROLES} inc 232; {wide(64)} bra J; L: inc 40; J: bar.sync 0;",
            ".maxntid 384",
            "the 168 that the warp owns at launch",
        ),
        (f"{ROLES} inc 232; {wide(64)} bra J; L: dec 40; J: bar.sync 0;", ".maxntid 384", ""),
        (f"{ROLES} inc 232; bra J; L: inc 40; J: bar.sync 0;", ".maxntid 384", ""),
        (
            f"{ROLES} inc 232; bra J; L: inc 40; J: bar.sync 0;",
            ".reqntid 288 .minnctapersm 1",
            "the 168 that the warp owns at launch",
        ),
        (f"{ROLES} inc 232; bra J; L: inc 40; J: bar.sync 0;", "", ""),
        (DISPATCHED.format("dec 24", "inc 240"), ".maxnreg 168", ""),
        (DISPATCHED.format("inc 24", "inc 240"), ".maxnreg 168", "requests 24 registers, fewer than the 168"),
        (
            DISPATCHED.format("dec 24", "dec 240"),
            ".maxnreg 168",
            "requests 240 registers, more than the 168",
        ),
        (DISPATCHED.format("dec 24", "inc 120").replace("68;\n    bra", "20;\n    bra"), ".maxnreg 168", ""),
        (
            f"{ROLES} inc 232; bra J; L: dec 40; J: bar.sync 0; @%p1 dec 232; ",
            "",
            "more than the 40 that the warp owns",
        ),
        (f"{ROLES} inc 232; bra J; L: dec 40; J: bar.sync 0; @!%p1 dec 200; ", "", ""),
    ],
)
def test_the_direction(body: str, directives: str, says: str) -> None:
    found = by_rule(lint(text(body, directives)), "CV008")
    assert len(found) == bool(says)
    assert not found or says in found[0].message


def test_a_path_shows_both() -> None:
    code = text("dec 40;\nbar.sync 0;\ndec 96;", ".maxnreg 168")
    (finding,) = by_rule(lint(code), "CV008")
    assert [s.message for s in finding.steps] == ["sets the count to 40", "requests 96 with .dec"]
    assert finding.help == "use setmaxnreg.inc, or another count"


DOWN_OR_UP = (
    "mov.u32 %r0, %tid.x;\nsetp.lt.u32 %p0, %r0, 128;\n@%p0 bra low;\ninc {};\nret;\nlow:\ndec {};\nret;"
)


@pytest.mark.parametrize(
    ("inc", "dec", "directives", "found"),
    [
        (232, 40, ".reqntid 384\n.maxnreg 168", []),
        (240, 40, ".reqntid 384\n.maxnreg 168", ["high"]),
        (240, 40, ".reqntid 384\n.minnctapersm 1", ["high"]),
        (240, 40, ".maxntid 384\n.minnctapersm 1", ["medium"]),
        (240, 24, ".reqntid 384\n.minnctapersm 1", []),
        (240, 40, ".maxnreg 168", []),
    ],
)
def test_the_pool_of_the_cta(inc: int, dec: int, directives: str, found: list[str]) -> None:
    hits = by_rule(lint(text(DOWN_OR_UP.format(inc, dec), directives)), "CV012")
    assert [f.confidence.label for f in hits] == found


@pytest.mark.parametrize(
    ("directives", "inc", "found"),
    [
        (".reqntid 512\n.minnctapersm 1", 168, 1),
        (".reqntid 512\n.maxnreg 96", 104, 1),
        (".reqntid 512\n.maxnreg 96", 96, 0),
        # A kernel is launched with at most the count that it requests.
        (".reqntid 512\n.maxnreg 128", 120, 0),
        # ptxas drops the setmaxnreg.
        (".reqntid 512", 168, 0),
    ],
)
def test_warps_without_a_setmaxnreg_keep_their_registers(directives: str, inc: int, found: int) -> None:
    body = f"mov.u32 %r0, %tid.x;\nsetp.lt.u32 %p0, %r0, 256;\n@%p0 bra low;\ninc {inc};\nlow:\nret;"
    hits = by_rule(lint(text(body, directives)), "CV012")
    assert len(hits) == found
    assert not found or "hold or request" in hits[0].message


@pytest.mark.parametrize(
    ("directives", "found"),
    [
        (".maxntid 128\n.minnctapersm 2", 0),  # a bound of 255, of which each thread holds 256
        (".reqntid 128\n.maxnreg 249", 0),
        (".reqntid 128\n.maxnreg 248", 1),
        (".maxntid 160\n.minnctapersm 2", 1),
    ],
)
def test_registers_at_launch_are_rounded_up_to_eights(directives: str, found: int) -> None:
    report = lint(text("inc 256; st.global.u32 [%rd0], %r0;", directives))
    assert len(by_rule(report, "CV012")) == found, report.findings


@pytest.mark.parametrize(("bound", "contradicts"), [(100, False), (96, True)])
def test_a_dec_to_the_registers_that_a_thread_holds_does_not_contradict(
    bound: int, contradicts: bool
) -> None:
    body = f"{ROLES} inc 232; bra J; L: dec 104; J: bar.sync 0;"
    assert bool(by_rule(lint(text(body, f".reqntid 384\n.maxnreg {bound}")), "CV008")) == contradicts


@pytest.mark.parametrize(("between", "found"), [("", 1), ("bar.sync 1, 128;", 0), ("bar.warp.sync -1;", 1)])
def test_a_warpgroup_meets_between_two_changes(between: str, found: int) -> None:
    body = f"dec 40;\n{between}\ninc 168;\nret;"
    hits = by_rule(lint(text(body, ".reqntid 128\n.maxnreg 168")), "CV013")
    assert [f.confidence.label for f in hits] == ["low"] * found
