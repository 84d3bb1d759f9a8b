"""What completes a phase of an mbarrier, on small kernels; the pages of the rules hold the plain cases."""

from __future__ import annotations

import re

import pytest

from tclint.findings.finding import FileReport
from tclint.findings.rules import all_rules
from tclint.findings.scales import Confidence, Severity
from tests.tools.support import by_rule, found, kernel, line_of, lint, module

HEADER = ".version 8.6\n.target sm_90a\n.address_size 64\n"
START = """
    .shared .align 128 .b8 tile[8192];
    .shared .align 8 .b64 ring[4];
    .shared .align 8 .b64 full;
    mov.u32 %r0, %tid.x;
    ld.param.u64 %rd0, [pointer];
    ld.param.u32 %r9, [number];
    mov.u32 %r1, ring;
    setp.ne.u32 %p0, %r0, 0;
    and.b32 %r8, %r0, 31;
    setp.ne.u32 %p8, %r8, 0;
    setp.ge.u32 %p9, %r0, 32;
"""
ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [full];"
COPY = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd0], 512, [full];"
CHOICE = "setp.eq.u32 %p3, %r9, 7;"
WAIT = "wait: mbarrier.try_wait.parity.shared::cta.b64 %p1, [full], 0;\n@!%p1 bra wait;"
THEN = WAIT.replace("wait:", "then:").replace("bra wait", "bra then")


def made(count: int | str, at: str = "full") -> str:
    return f"@!%p0 mbarrier.init.shared::cta.b64 [{at}], {count};"


def expect(size: int | str, at: str = "full") -> str:
    return f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [{at}], {size};"


def report(body: str, **options: str) -> FileReport:
    text = module(kernel(f"{START}\n{body}\nret;", **options), header=HEADER)
    result = lint(text)
    assert result.status == "analysed", result.problems
    return result


def messages_of(body: str, **options: str) -> list[str]:
    """The rules about phases that have a finding, and its message."""
    rules = ("MB004", "MB005", "MB006", "MB008")
    return [f"{f.rule.id} {f.message}" for f in report(body, **options).findings if f.rule.id in rules]


def phase(count: int, *arrivals: str) -> str:
    return "\n".join((made(count), "bar.sync 0;", *arrivals, WAIT))


@pytest.mark.parametrize(
    ("count", "arrivals", "message"),
    [
        (128, [ARRIVE], ""),
        (4, [f"@!%p8 {ARRIVE}"], ""),
        (1, [f"@!%p0 {ARRIVE}"], ""),
        # The lanes of a warp, and one thread of it once more.
        (33, [f"@!%p9 {ARRIVE}", f"@!%p0 {ARRIVE}"], ""),
        (8, ["@!%p8 mbarrier.arrive.shared::cta.b64 _, [full], 2;"], ""),
        (128, [f"@!%p8 {ARRIVE}"], "MB006 mbarrier.try_wait waits for a phase that never completes: the mbarrier expects 128 arrivals, but a phase receives 4"),
        (2, [f"@!%p0 {ARRIVE}"], "MB006 mbarrier.try_wait waits for a phase that never completes: the mbarrier expects 2 arrivals, but a phase receives 1"),
        (1, [], "MB006 mbarrier.try_wait waits for a phase that never completes: the mbarrier expects 1 arrival, but a phase receives none"),
        (3, [f"@!%p8 {ARRIVE}"], "MB006 the mbarrier expects 3 arrivals, but a phase receives 4: it completes too early, and the excess counts towards the next phase"),
        (2, [f"@!%p8 {ARRIVE}"], "MB008 the arrivals of one path complete 2 phases of the mbarrier with no intervening wait, so a wait may miss its phase"),
        (1, [f"@!%p0 {ARRIVE}"] * 2, "MB008 the arrivals of one path complete 2 phases of the mbarrier with no intervening wait, so a wait may miss its phase"),
        # A barrier lets other threads wait for the first phase in time.
        (1, [f"@!%p0 {ARRIVE}", "bar.sync 0;", f"@!%p0 {ARRIVE}"], ""),
        # Or it lets them do something else, and both belong to one phase.
        (256, [ARRIVE, "bar.sync 1, 128;", ARRIVE], ""),
        (384, [ARRIVE, "bar.sync 1, 128;", "mbarrier.arrive.shared::cta.b64 _, [full], 2;"], ""),
        (384, ["mbarrier.arrive.shared::cta.b64 _, [full], 2;", "bar.sync 1, 128;", ARRIVE], ""),
        (384, [ARRIVE, "bar.sync 1, 128;", ARRIVE], "MB006 mbarrier.try_wait waits for a phase that never completes: the mbarrier expects 384 arrivals, but a phase receives 256"),
        (512, ["again:", ARRIVE, "bar.sync 1, 128;\nadd.u32 %r7, %r7, 1;\nsetp.lt.u32 %p4, %r7, 4;\n@%p4 bra again;"], ""),
        # One of the two is executed.
        (1, [CHOICE, "@%p0 bra wait;", f"@%p3 {ARRIVE}", f"@!%p3 {ARRIVE}"], ""),
        # A launch decides which of the threads are there.
        (64, ["setp.lt.u32 %p5, %r0, %r9;", f"@%p5 {ARRIVE}"], ""),
    ],
)  # fmt: skip
def test_arrivals(count: int, arrivals: list[str], message: str) -> None:
    assert messages_of(phase(count, *arrivals)) == ([message] if message else [])


def test_a_phase_that_gets_too_few_arrivals() -> None:
    (finding,) = by_rule(report(phase(128, f"@!%p8 {ARRIVE}")), "MB006")
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.HIGH)
    assert [(step.message, step.role) for step in finding.steps] == [
        ("expects 128 arrivals in each phase", "thread 0"),
        ("arrives", "lane 0 of warps 0-3"),
        ("waits for 128 arrivals", "all threads"),
    ]
    assert finding.help == "set the count of mbarrier.init to the number of arrivals in a phase"


def test_the_branch_at_which_the_missing_threads_skip_the_arrival() -> None:
    body = phase(128, f"setp.ge.u32 %p5, %r0, 64;\n@%p5 bra wait;\n{ARRIVE}")
    (finding,) = by_rule(report(body), "MB006")
    (skipped,) = [step for step in finding.steps if step.aside]
    assert (skipped.message, skipped.role) == ("skip the arrival", "warps 2-3")
    assert finding.help.endswith(", or let the threads that skip the arrival arrive, too")
    # Here, 64 threads skip it, and 192 arrivals are missing.
    (finding,) = by_rule(report(body.replace("128;", "256;")), "MB006")
    assert not any(step.aside for step in finding.steps)


@pytest.mark.parametrize(
    ("count", "other", "fewer"),
    [(128, "ring+8", 0), (128, "ring", 0), (256, "ring+8", 0), (256, "ring", 128), (384, "ring+8", 256)],
)
def test_a_phase_outlasts_waits_for_several_buffers(count: int, other: str, fewer: int) -> None:
    """The producers wait for one of two buffers before each arrival, which one phase fills; or for the same one again."""
    free = "{0}: mbarrier.try_wait.parity.shared::cta.b64 %p1, [{1}], %r8;\n@!%p1 bra {0};"
    next_ = "add.u32 %r7, %r7, 1;\nsetp.lt.u32 %p4, %r7, %r9;"
    lines = (
        made(count),
        made(128, "ring"),
        made(128, "ring+8"),
        "bar.sync 0;\nmov.u32 %r7, 0;\nsetp.ge.u32 %p2, %r0, 128;\n@%p2 bra use;",
        "fill: not.b32 %r8, %r7;\nand.b32 %r8, %r8, 1;",
        free.format("first", "ring"),
        ARRIVE,
        free.format("second", other),
        ARRIVE,
        f"{next_}\n@%p4 bra fill;\nbra done;\nuse:",
        WAIT.replace("[full], 0", "[full], %r7"),
        "mbarrier.arrive.shared::cta.b64 _, [ring];\nmbarrier.arrive.shared::cta.b64 _, [ring+8];",
        f"{next_}\n@%p4 bra use;\ndone:",
    )
    found = [m for m in messages_of("\n".join(lines), directives=".reqntid 256") if m.startswith("MB006")]
    assert [m.rpartition(" ")[2] for m in found] == ([str(fewer)] if fewer else [])


def test_a_phase_without_arrivals_is_shown_with_a_copy_that_completes_on_its_mbarrier() -> None:
    bytes_ = "@!%p0 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [full], 512;"
    (finding,) = by_rule(report(phase(1, bytes_, f"@!%p0 {COPY}")), "MB006")
    assert [step.message for step in finding.steps] == [
        "expects 1 arrival in each phase",
        "completes its bytes on the mbarrier, but does not arrive",
        "waits for 1 arrival",
    ]


def test_the_launch_may_decide_the_number_of_threads() -> None:
    (finding,) = by_rule(report(phase(128, f"@!%p8 {ARRIVE}"), directives=".maxntid 128"), "MB006")
    assert finding.confidence is Confidence.MEDIUM


@pytest.mark.parametrize(
    ("count", "confidence"), [(64, Confidence.LOW), (128, Confidence.LOW), (100, Confidence.MEDIUM)]
)
def test_a_count_may_be_the_number_of_threads(count: int, confidence: Confidence) -> None:
    """A bound is not a size: a CTA of as many threads as the mbarrier counts is right."""
    findings = [
        f
        for f in report(phase(count, ARRIVE), directives=".maxntid 1024").findings
        if f.rule.id in ("MB006", "MB008")
    ]
    assert [f.confidence for f in findings] == [confidence]


@pytest.mark.parametrize(("count", "right"), [(96, True), (1024, True), (1025, False)])
def test_a_bound_is_not_the_number_of_threads(count: int, right: bool) -> None:
    """A kernel of torchao makes its mbarriers for 1024 threads: the host launches so many, and the text has no bound."""
    arrivals = f"@!%p0 {expect(0)}", f"@%p0 {ARRIVE}"
    assert bool(messages_of(phase(count, *arrivals), directives="")) is not right


@pytest.mark.parametrize(
    ("count", "directives", "right"),
    [(1, ".maxntid 1, 1, 1", True), (48, ".reqntid 48", True), (64, ".reqntid 48", False)],
)
def test_a_warp_that_a_cta_has_in_part(count: int, directives: str, right: bool) -> None:
    assert bool(messages_of(phase(count, ARRIVE), directives=directives)) is not right


def test_a_kernel_that_breaks_off_where_threads_would_arrive() -> None:
    """The kernels of cuBLASMp whose target has no tcgen05 print an error in its place, and stop."""
    (finding,) = by_rule(report(phase(1, "@%p0 brkpt;")), "MB006")
    assert (finding.confidence, finding.doubt.partition(" ")[0]) == (Confidence.LOW, "some")
    (finding,) = by_rule(report(phase(1, CHOICE, "@%p3 brkpt;")), "MB006")
    assert (finding.confidence, finding.doubt) == (Confidence.HIGH, "")


@pytest.mark.parametrize("parity", ["1", "%r9"])
def test_a_wait_that_may_return_at_once(parity: str) -> None:
    body = phase(128, f"@!%p0 {ARRIVE}").replace("[full], 0", f"[full], {parity}")
    assert messages_of(body) == []


@pytest.mark.parametrize(
    "other",
    [
        "mapa.shared::cluster.u32 %r5, %r2, 1;\nmbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r5];",
        "ld.shared.u32 %r5, [tile];\nmbarrier.arrive.shared::cta.b64 _, [%r5];",
        f"more: {ARRIVE}\nsub.u32 %r9, %r9, 1;\nsetp.ne.u32 %p2, %r9, 0;\n@%p2 bra more;",
        "call elsewhere;",
    ],
    ids=["another CTA", "an address from memory", "a loop", "another function"],
)
def test_arrivals_that_cannot_be_counted(other: str) -> None:
    assert messages_of(phase(300, f"@!%p0 {ARRIVE}"))
    body = f"mov.u32 %r2, full;\n{phase(300, f'@!%p0 {ARRIVE}', other)}"
    text = module(".extern .func elsewhere;", kernel(f"{START}\n{body}\nret;"), header=HEADER)
    assert not by_rule(lint(text), "MB006")


SKIPPED_LOOP = f"""{made(1, "ring")}
{made(1, "ring+8")}
bar.sync 0;
@!%p0 mbarrier.arrive.shared::cta.b64 _, [ring];
min.s32 %r2, %r9, 1;
add.s32 %r2, %r2, -1;
mov.u32 %r3, ring;
mov.u32 %r4, 0;
setp.lt.s32 %p2, %r2, 1;
@%p2 bra done;
again:
xor.b32 %r4, %r4, 1;
shl.b32 %r5, %r4, 3;
add.u32 %r3, %r1, %r5;
@!%p0 mbarrier.arrive.shared::cta.b64 _, [%r3];
add.s32 %r2, %r2, -1;
setp.gt.s32 %p3, %r2, 0;
@%p3 bra again;
done:
{WAIT.replace("[full]", "[%r3]")}"""


def test_a_wait_names_no_stage_that_only_a_loop_which_is_never_entered_selects() -> None:
    """n is at most 1 there, so the loop has no iteration, and nothing arrives at the second stage."""
    assert messages_of(SKIPPED_LOOP) == []
    (message,) = messages_of(SKIPPED_LOOP.replace("mov.u32 %r3, ring;", "add.u32 %r3, %r1, 8;"))
    assert message.startswith("MB006 mbarrier.try_wait waits for a phase that never completes")


def test_memory_that_becomes_an_mbarrier_again() -> None:
    again = f"{phase(1, f'@!%p0 {ARRIVE}')}\nbar.sync 0;\n@!%p0 mbarrier.inval.shared::cta.b64 [full];\nbar.sync 0;\n"
    second = phase(128, ARRIVE).replace("wait", "then")
    assert messages_of(again + second.replace("try_then", "try_wait")) == []


TURN = """
    mov.u32 %r2, 0;
turn:
    and.b32 %r3, %r2, 3;
    shl.b32 %r3, %r3, 3;
    add.u32 %r3, %r1, %r3;
    mbarrier.arrive.shared::cta.b64 _, [%r3];
    shr.u32 %r4, %r2, 2;
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r3], %r4;
    @!%p1 bra wait;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p2, %r2, %r9;
    @%p2 bra turn;
"""


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([128] * 4, ""),
        ([128, 128, 64, 128], "MB006 mbarrier.init expects 64 arrivals, but other stages of the same ring expect 128: the same threads arrive at each in turn"),
        # MB003 reports a count of 0.
        ([128, 128, 0, 128], ""),
    ],
)  # fmt: skip
def test_stages_of_a_ring(counts: list[int], message: str) -> None:
    inits = [f"mov.u32 %r7, {n};\n{made('%r7', f'ring+{8 * k}')}" for k, n in enumerate(counts)]
    assert messages_of("\n".join((*inits, "bar.sync 0;", TURN))) == ([message] if message else [])


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([expect(512), COPY], ""),
        ([COPY, expect(512)], ""),
        (["mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [full], 512;", COPY, ARRIVE], ""),
        ([expect(1024), COPY, COPY.replace("tile", "tile+512")], ""),
        ([expect(1024), COPY], "MB004 mbarrier.arrive.expect_tx expects 1024 bytes, but the copies of the phase transfer 512: the phase never completes"),
        ([expect(496), COPY], "MB004 mbarrier.arrive.expect_tx expects 496 bytes, but the copies of the phase transfer 512: the phase may complete before the copies have, or never complete"),
        (["mul.lo.u32 %r7, %r9, 16;", "add.u32 %r6, %r7, 16;", expect("%r6"), COPY.replace("512", "%r7")],
         "MB004 mbarrier.arrive.expect_tx expects 16 bytes more than the copies of the phase transfer: the phase never completes"),
        (["mul.lo.u32 %r7, %r9, 16;", expect("%r7"), COPY.replace("512", "%r7")], ""),
        ([expect("%r9"), COPY], ""),
        ([COPY, ARRIVE], "MB005 cp.async.bulk completes its bytes on an mbarrier that expects none: the phase completes on arrivals alone, so a wait may return before the bytes have arrived"),
        # The arrival that is missing with the bytes is not reported a second time.
        ([COPY], "MB005 cp.async.bulk completes its bytes on an mbarrier that expects none: the phase completes on arrivals alone, so a wait may return before the bytes have arrived"),
        # Twice the same instruction: that it arrives twice says it all.
        ([expect(512), expect(512), COPY], "MB008 the arrivals of one path complete 2 phases of the mbarrier with no intervening wait, so a wait may miss its phase"),
        # What is executed together is compared.
        ([CHOICE, expect(512), f"@%p3 {COPY}", f"@!%p3 {COPY}"], ""),
        ([CHOICE, f"@%p3 {expect(512)}", f"@!%p3 {expect(512)}", COPY], ""),
        ([CHOICE, f"@%p3 {expect(512)}", f"@%p3 {COPY}", f"@!%p3 {expect(496)}", f"@!%p3 {COPY}"],
         "MB004 mbarrier.arrive.expect_tx expects 496 bytes, but the copies of the phase transfer 512: the phase may complete before the copies have, or never complete"),
        # It is not known for which mbarrier these are expected.
        (["ld.shared.u32 %r7, [tile+4096];", expect(512, "%r7"), COPY, ARRIVE], ""),
    ],
)  # fmt: skip
def test_bytes(lines: list[str], message: str) -> None:
    body = "\n".join((made(1), "bar.sync 0;", "@%p0 bra wait;", *lines, WAIT, "ld.shared.u32 %r3, [tile];"))
    assert messages_of(body) == ([message] if message else [])


def test_steps_of_bytes() -> None:
    body = "\n".join((made(1), "bar.sync 0;", "@%p0 bra wait;", expect(1024), COPY, WAIT))
    (finding,) = by_rule(report(body), "MB004")
    assert [(step.message, step.role) for step in finding.steps] == [
        ("expects 1024 bytes", "thread 0"),
        ("transfers 512 bytes", "thread 0"),
    ]
    assert finding.help.startswith("expect the sum of the bytes of all copies")


@pytest.mark.parametrize(
    ("second", "bar", "lines"),
    [(2048, "map", ["expect_tx.shared::cta.b64 _, [full], 2048"]), (4096, "map", []), (2048, "other", [])],
)
def test_a_tensor_map_always_loads_the_same_number_of_bytes(second: int, bar: str, lines: list[str]) -> None:
    copy = "cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd{n}, {{0}}], [full];"
    body = "\n".join(
        (
            "mov.b64 %rd1, map;\ncvta.param.u64 %rd1, %rd1;",
            f"mov.b64 %rd2, {bar};\ncvta.param.u64 %rd2, %rd2;",
            made(1),
            "bar.sync 0;\n@%p0 bra wait;",
            expect(4096),
            copy.format(n=1),
            WAIT,
            "ld.shared.u32 %r3, [tile];\nbar.sync 0;\n@%p0 bra then;",
            expect(second),
            copy.format(n=2),
            WAIT.replace("[full], 0", "[full], 1").replace("wait:", "then:").replace("bra wait", "bra then"),
            "ld.shared.u32 %r4, [tile];",
        )
    )
    parameters = ".param .align 64 .b8 map[128], .param .align 64 .b8 other[128], .param .u64 pointer, .param .u32 number"
    text = module(kernel(f"{START}\n{body}\nret;", parameters=parameters), header=HEADER)
    shown = [line for rule, line in found(lint(text), low=False) if rule == "MB004"]
    assert shown == [line_of(text, words) for words in lines]


MAPPED = "mov.b64 %rd1, map;\ncvta.param.u64 %rd1, %rd1;\nmov.b64 %rd2, other;\ncvta.param.u64 %rd2, %rd2;"
MAPS = (
    ".param .align 64 .b8 map[128], .param .align 64 .b8 other[128], .param .u64 pointer, .param .u32 number"
)


def tile(at: int, of: int = 1, bar: str = "full") -> str:
    """A tensor copy to a place in the tile."""
    return (
        "cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes "
        f"[tile+{at}], [%rd{of}, {{0}}], [{bar}];"
    )


def filled(*lines: str, first: str = "ring", second: str = "ring+8") -> list[str]:
    """What is reported about tensor copies that one thread starts, and two mbarriers that others wait for."""
    inits = (MAPPED, made(1, first), made(1, second), "bar.sync 0;\n@%p0 bra wait;")
    wait = WAIT.replace("[full]", f"[{first}]")
    then = WAIT.replace("[full]", f"[{second}]").replace("wait:", "then:").replace("bra wait", "bra then")
    reads = "ld.shared.u32 %r3, [tile];\nld.shared.u32 %r4, [tile+4096];"
    return messages_of("\n".join((*inits, *lines, wait, then, reads)), parameters=MAPS)


BOX = "a copy through a tensor map always transfers its whole box"


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ([expect(2048, "ring"), tile(0, 1, "ring")], [expect(2048, "ring+8"), tile(4096, 1, "ring+8")], ""),
        ([expect(2048, "ring"), tile(0, 1, "ring")], [expect(2032, "ring+8"), tile(4096, 1, "ring+8")],
         f"MB004 mbarrier.arrive.expect_tx expects 2032 bytes for copies for which 2048 are expected elsewhere: {BOX}"),
        # Another tensor map may have another box.
        ([expect(2048, "ring"), tile(0, 1, "ring")], [expect(2032, "ring+8"), tile(4096, 2, "ring+8")], ""),
        # What is expected may be more than one number.
        (["add.u32 %r6, %r9, 16;", expect("%r6", "ring"), tile(0, 1, "ring")], [expect("%r9", "ring+8"), tile(4096, 1, "ring+8")],
         f"MB004 mbarrier.arrive.expect_tx expects 16 bytes fewer than is expected elsewhere for the same copies: {BOX}"),
        (["mul.lo.u32 %r6, %r9, 16;", expect("%r6", "ring"), tile(0, 1, "ring")], [expect("%r9", "ring+8"), tile(4096, 1, "ring+8")], ""),
    ],
)  # fmt: skip
def test_the_same_copies_at_two_mbarriers(first: list[str], second: list[str], message: str) -> None:
    assert filled(*first, *second) == ([message] if message else [])


def test_what_others_expect_for_a_copy_is_not_compared() -> None:
    """One thread expects the bytes of two at the first mbarrier, and of one at the second."""
    other = f"setp.ne.u32 %p4, %r0, 32;\n@%p4 bra wait;\n{tile(2048, 1, 'ring')}\nbra wait;"
    both = (expect(4096, "ring"), tile(0, 1, "ring"), expect(2048, "ring+8"), tile(4096, 1, "ring+8"))
    body = "\n".join(
        (MAPPED, made(1, "ring"), made(1, "ring+8"), f"bar.sync 0;\n@!%p0 bra mine;\n{other}\nmine:", *both)
    )
    waits = WAIT.replace("[full]", "[ring]"), WAIT.replace("[full]", "[ring+8]").replace("wait", "then", 1)
    text = "\n".join((body, waits[0], waits[1].replace("bra wait", "bra then"), "ld.shared.u32 %r3, [tile];"))
    assert messages_of(text, parameters=MAPS) == []


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([expect(8192), tile(0)], ""),
        ([expect(8208), tile(0)], "8208 bytes, but only 8192"),
        ([expect(8192), tile(0), tile(4096, 2)], ""),
        ([expect(6144), tile(0), tile(4096, 2)], ""),
        ([expect(8320), tile(0), tile(4096, 2)], "8320 bytes, but only 8192"),
        # One copy may load more than another.
        ([expect(8192), tile(0), tile(6144, 2)], ""),
        # In another phase the stage is filled by one copy.
        ([expect(8192), tile(0), tile(4096, 2), THEN, expect(8192), tile(0)], ""),
        ([expect(8192), tile(0), tile(4096, 2), THEN, expect(8320), tile(0)], "8320 bytes, but only 8192"),
        # Where the copy goes is not known.
        (["mul.lo.u32 %r6, %r9, 16;", expect(8208), tile(0).replace("[tile+0]", "[%r6]")], ""),
        # Two threads may issue it.
        ([CHOICE, expect(8208), tile(0), f"@%p3 {tile(4096, 2)}"], ""),
    ],
)  # fmt: skip
def test_more_than_fits(lines: list[str], message: str) -> None:
    end = ": the phase never completes, or the copies overwrite other data"
    between = f"MB004 mbarrier.arrive.expect_tx expects {message} fit between the destinations of the copies and the data that follows{end}"
    body = "\n".join(
        (MAPPED, made(1), "bar.sync 0;\n@%p0 bra wait;", *lines, WAIT, "ld.shared.u32 %r3, [tile];")
    )
    assert messages_of(body, parameters=MAPS) == ([between] if message else [])


@pytest.mark.parametrize(
    ("mode", "amount", "row"),
    [(1, 4080, 128), (1, 4096, 0), (2, 4080, 64), (2, 4032, 0), (3, 4080, 32), (3, 4064, 0), (0, 4080, 0)],
)
def test_a_part_of_a_row(mode: int, amount: int, row: int) -> None:
    """The mode of a descriptor of wgmma says how many bytes a row has."""
    message = (
        f"MB004 mbarrier.arrive.expect_tx expects {amount} bytes for copies that each transfer whole rows of {row} bytes: "
        "the phase may complete before the copies have, or never complete"
    )
    assert rows_of(mode, 1, "@%p0 bra wait;", expect(amount), tile(0)) == ([message] if row else [])


def rows_of(mode: int, count: int, *fill: str) -> list[str]:
    """The findings about *fill*, which completes a phase of *count* arrivals before matrices of a swizzle mode are read."""
    matrix = f"shr.u32 %r4, %r5, 4;\nand.b32 %r4, %r4, 16383;\ncvt.u64.u32 %rd3, %r4;\nor.b64 %rd3, %rd3, {mode << 62};"
    product = (
        "wgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, "
        "%rd3, %rd3, 0, 1, 1, 0, 0;\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;"
    )
    start = f"mov.u32 %r5, tile;\n{matrix}\n{MAPPED}"
    return messages_of("\n".join((start, made(count), "bar.sync 0;", *fill, WAIT, product)), parameters=MAPS)


ODD = "expects {} for copies that each transfer whole rows of 128 bytes"


@pytest.mark.parametrize(
    ("count", "fill", "message"),
    [
        # All threads expect a share: 128 * 64 bytes, as Mosaic GPU does.
        (128, (expect(64), f"@!%p0 {tile(0)}"), ""),
        (128, (expect(64), "bar.sync 1, 128;", f"@!%p0 {tile(0)}"), ""),
        # 32 threads expect 32 * 64 bytes, which is a multiple, and 32 * 66, which is none.
        (32, (f"@!%p9 {expect(64)}", f"@!%p0 {tile(0)}"), ""),
        (32, (f"@!%p9 {expect(66)}", f"@!%p0 {tile(0)}"), ODD.format("66 bytes in each of 32 threads")),
        # Which of the threads take part is unknown, and so is the sum.
        (64, ("setp.lt.u32 %p5, %r0, %r9;", f"@%p5 {expect(64)}", f"@!%p0 {tile(0)}"), ""),
        # Two instructions expect one half of a row each, or different parts of the last one.
        (2, ("@%p0 bra wait;", expect(4032), expect(64), tile(0)), ""),
        (2, ("@%p0 bra wait;", expect(4032), expect(48), tile(0)), ODD.format("4032 bytes")),
    ],
)  # fmt: skip
def test_rows_that_several_threads_expect(count: int, fill: tuple[str, ...], message: str) -> None:
    found = [m.split(": ")[0] for m in rows_of(1, count, *fill)]
    assert found[:1] == ([f"MB004 mbarrier.arrive.expect_tx {message}"] if message else [])


EACH_ISSUES = "issue the copy from one thread"
SUM = "expect the sum of the bytes"


@pytest.mark.parametrize(
    ("count", "fill", "help", "fix"),
    [
        # One thread expects a tile that each thread copies: expecting 128 tiles would be the wrong cure.
        (1, (f"@!%p0 {expect(512)}", COPY), EACH_ISSUES, ""),
        (1, (f"@!%p0 {expect(384)}", f"@!%p0 {COPY}"), SUM, "expect 512 bytes"),
        # The bytes of one thread are those of the phase divided by the threads.
        (128, (expect(512), f"@!%p0 {COPY}"), SUM, "expect 4 bytes in each thread"),
        (96, (f"@%p9 {expect(512)}", f"@!%p0 {COPY}"), SUM, ""),
    ],
)  # fmt: skip
def test_what_corrects_the_expected_bytes(count: int, fill: tuple[str, ...], help: str, fix: str) -> None:
    (finding,) = [f for f in report(phase(count, *fill)).findings if f.rule.id == "MB004"]
    assert finding.help.startswith(help)
    assert [f.message for f in finding.fixes] == ([fix] if fix else [])
    assert len({(step.span, step.message) for step in finding.steps}) == len(finding.steps)


def test_a_response_fills_no_matrix() -> None:
    """The request for another launch answers with 16 bytes, wherever the descriptors of an MMA may point to."""
    matrix = "shr.u32 %r4, %r5, 4;\nand.b32 %r4, %r4, 16383;\ncvt.u64.u32 %rd3, %r4;\nor.b64 %rd3, %rd3, 4611686018427387904;"
    product = (
        "wgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, "
        "%rd3, %rd3, 0, 1, 1, 0, 0;\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;"
    )
    request = (
        "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [tile], [full];"
    )
    start = f"mov.u32 %r5, tile;\n{matrix}\n{MAPPED}"
    for copy, count in ((request, 0), (tile(0), 1)):
        lines = (start, made(1), "bar.sync 0;\n@%p0 bra wait;", expect(16), copy, WAIT, product)
        found = [m for m in messages_of("\n".join(lines), parameters=MAPS) if "whole rows" in m]
        assert len(found) == count


@pytest.mark.parametrize(("lacks", "rules"), [(False, []), (True, ["MB005"])])
def test_copies_in_a_loop_without_an_expectation(lacks: bool, rules: list[str]) -> None:
    again = "setp.lt.u32 %p6, %r7, %r9;"
    free = "{}: mbarrier.try_wait.parity.shared::cta.b64 %p1, [ring+8], %r7;\n@!%p1 bra {};"
    body = "\n".join(
        (
            f"{made(1)}\n{made(1, 'ring+8')}\nbar.sync 0;\nmov.u32 %r7, 0;\n@%p0 bra take;",
            f"give:\n{free.format('free', 'free')}\n{expect(512)}\n{COPY}\nadd.u32 %r7, %r7, 1;\n{again}\n@%p6 bra give;",
            f"more:\n{free.format('next', 'next')}\n{ARRIVE if lacks else expect(512)}\n{COPY}\nadd.u32 %r7, %r7, 1;\n{again}",
            "@%p6 bra more;\nbra done;",
            "take: mbarrier.try_wait.parity.shared::cta.b64 %p1, [full], %r7;\n@!%p1 bra take;\nld.shared.u32 %r3, [tile];",
            f"setp.ne.u32 %p4, %r0, 32;\n@%p4 bra past;\n{ARRIVE.replace('full', 'ring+8')}\npast: add.u32 %r7, %r7, 1;",
            f"{again}\n@%p6 bra take;\ndone:",
        )
    )
    assert [line.split()[0] for line in messages_of(body)] == rules


FABRIC = "async.shared::cta.mbarrier::complete_tx::{}.mbarrier::report::fabric.relaxed.sys"
GET = f"fabric.try_get.{FABRIC.format('bytes')}.b128 [tile], [%r9, %rd0], 1024, [full];"
PUT = f"fabric.try_put.{FABRIC.format('16B')}.b128 [%r9, %rd0], [tile], 1024, [full];"
ATOM = f"fabric.try_atom.{FABRIC.format('16B')}.cas.b32 [%r9, %rd0], [tile], [tile+64], [full];"
PULL = (
    "fabric.try_pullred.async.multimem.shared::cta.mbarrier::complete_tx::bytes.mbarrier::report::fabric.relaxed.sys"
    ".add.u32.sync [tile], [%r9, %rd0], 1024, [full], 0xFFFFFFFF;"
)


@pytest.mark.parametrize(
    ("expected", "operation", "message"),
    [
        (1024, GET, ""),
        (
            512,
            GET,
            "MB004 mbarrier.arrive.expect_tx expects 512 bytes, but the copies of the phase transfer 1024",
        ),
        (64, PUT, ""),
        (
            1024,
            PUT,
            "MB004 mbarrier.arrive.expect_tx expects 1024 bytes, but the copies of the phase transfer 64: the phase never completes",
        ),
        (1, ATOM, ""),  # what it transfers is not known
        (16, ATOM, ""),
    ],
)
def test_fabric_operations_complete_their_bytes_or_units_of_16(
    expected: int, operation: str, message: str
) -> None:
    issue = f"@!%p0 {expect(expected)}\n@!%p0 {operation}\n@!%p0 fabric.submit;"
    wait = "mbarrier.try_wait.parity.phase_type::primary.acquire.cta.shared::cta.b64 %p1|%p2, [full], 0;"
    body = f"{START}\n{made(1)}\nbar.sync 0;\n{issue}\nwait: {wait}\n@!%p1 bra wait;\nret;"
    result = lint(module(kernel(body), header=".version 9.5\n.target sm_100a\n.address_size 64\n"))
    found = [f"{f.rule.id} {f.message}" for f in result.findings if f.rule.family == "mbarrier"]
    assert [f.startswith(message) for f in found] == [True] * bool(message), found


def test_lanes_that_pull_a_reduction_together_issue_one_copy() -> None:
    issue = f"@!%p0 {expect(1024)}\n@!%p9 {PULL}\n@!%p0 fabric.submit;"
    body = f"{START}\n{made(1)}\nbar.sync 0;\n{issue}\n{WAIT}\nret;".replace(".init.", ".init.layout::v1.")
    result = lint(module(kernel(body), header=".version 9.5\n.target sm_100a\n.address_size 64\n"))
    assert [f for f in result.findings if f.severity > Severity.INFO] == []


def _newer(code: str, wait: str) -> str:
    """*code* with mbarriers of layout v1, and waits of the phase type *wait*; empty for those without one."""
    code = re.sub(r"\.version \d+\.\d+", ".version 9.5", code)
    if not wait:
        return code
    code = code.replace("mbarrier.init", "mbarrier.init.layout::v1")
    if wait == "conditional":
        return re.sub(r"(mbarrier\.(?:test|try)_wait\.parity)", r"\1.phase_type::conditional", code)
    reporting = r"\1.phase_type::primary\2 \3|%seen,"
    code, count = re.subn(r"(mbarrier\.(?:test|try)_wait(?:\.parity)?)(\S*)\s+([%\w]+),", reporting, code)
    return re.sub(r"(\.entry[^{]*\{)", r"\1 .reg .pred %seen;", code) if count else code


@pytest.mark.parametrize("wait", ["primary", "conditional"])
@pytest.mark.parametrize("id", [id for id, rule in all_rules().items() if rule.family == "mbarrier"])
def test_waits_of_a_phase_type_wait_as_others_do(id: str, wait: str) -> None:
    rule = all_rules()[id]
    for block in (*rule.examples, *rule.corrections):
        before, after = (lint(_newer(block.code, kind)) for kind in ("", wait))
        assert not after.problems
        assert [
            (f.rule.id, f.severity, f.confidence, f.message.replace(f".phase_type::{wait}", ""))
            for f in after.findings
        ] == [(f.rule.id, f.severity, f.confidence, f.message) for f in before.findings]


def test_the_mbarriers_of_all_warps_have_one_finding() -> None:
    own = "shr.u32 %r3, %r0, 5;\nmad.lo.u32 %r3, %r3, 8, %r1;"
    make = "@!%p8 mbarrier.init.shared::cta.b64 [%r3], 1;\nbar.warp.sync -1;"
    arrive = ARRIVE.replace("full", "%r3")
    body = f"{own}\n{make}\n@!%p8 {arrive}\n@!%p8 {arrive}\n{WAIT.replace('full', '%r3')}"
    (hit,) = by_rule(report(body, directives=".reqntid 128"), "MB008")
    assert hit.count == 4
