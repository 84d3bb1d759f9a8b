"""The rules of tcgen05 on small kernels; the pages of the rules hold the plain cases."""

from __future__ import annotations

import pytest

from tclint.findings.scales import Confidence, Severity
from tclint.findings.selection import Selected
from tests.tools.support import agrees, by_rule, kernel, lint, module
from tests.tools.tcgen05 import (
    COMMIT,
    FAR,
    LD_DONE,
    LOAD,
    MMA,
    OVERWRITES,
    ST_DONE,
    STORE,
    USE,
    ZEROS,
    other_role,
    text,
    wait,
)


def rings(waiting: str, want: str = "") -> str:
    """A loop over two rings of two mbarriers, one that it waits for and one that it commits to."""
    return f"""
    .shared .align 8 .b64 rings[4];
    mov.u32 %r12, rings;
    mov.u32 %r13, 0;
    mov.u32 %r15, 0;
loop:
    shl.b32 %r14, %r13, 3;
    add.u32 %r14, %r14, %r12;
    {wait(1).replace("[done]", "[%r14]")}
    {MMA}
    {COMMIT.replace("[done]", "[%r14+16]")}
    {waiting}
    bar.sync 0;
    {LOAD}{want}
    {LD_DONE}
    bar.sync 0;
    add.u32 %r13, %r13, 1;
    setp.eq.u32 %p4, %r13, 2;
    selp.b32 %r13, 0, %r13, %p4;
    add.u32 %r15, %r15, 1;
    setp.lt.u32 %p5, %r15, %r8;
    @%p5 bra loop;
    """


def roles(waiting: str, want: str = "") -> str:
    """A warp that multiplies when the accumulator is free, and others that say so when they have read it."""
    return f"""
    mov.u32 %r13, 0;
    mov.u32 %r14, 0;
    setp.ge.u32 %p4, %r0, 32;
    @%p4 bra reads;
multiplies:
    xor.b32 %r15, %r14, 1;
    {wait(1).replace("[done], 0", "[other], %r15")}
    {ZEROS}{want}
    {ST_DONE}
    {MMA}
    {COMMIT}
    xor.b32 %r14, %r14, 1;
    add.u32 %r13, %r13, 1;
    setp.lt.u32 %p5, %r13, %r8;
    @%p5 bra multiplies;
    bra over;
reads:
    {waiting}
    mbarrier.arrive.shared::cta.b64 _, [other];
    xor.b32 %r14, %r14, 1;
    add.u32 %r13, %r13, 1;
    setp.lt.u32 %p5, %r13, %r8;
    @%p5 bra reads;
over:
    bar.sync 0;
    """


def columns(before: str, want: str = "", begin: int = 0) -> str:
    """A loop that loads the columns from *begin* on, eight at a time."""
    return f"""
    {before}
    mov.u32 %r13, {begin};
chunk:
    add.u32 %r14, %r9, %r13;
    {LOAD.replace("%r9", "%r14")}{want}
    {LD_DONE}
    {USE}
    add.u32 %r13, %r13, 8;
    setp.lt.u32 %p5, %r13, 64;
    @%p5 bra chunk;
    """


CASES: dict[str, str] = {
    "load and wait": f"{LOAD}\n{LD_DONE}\n{USE}\n{STORE}\n{ST_DONE}",
    "a store over columns that are being loaded": f"{LOAD}\n{ZEROS} // want TC003\n{LD_DONE}\n{ST_DONE}\n{USE}",
    "a store of what was loaded": f"{LOAD}\n{STORE}\n{ST_DONE}",
    "a store to other columns": f"{LOAD}\n{STORE.replace('[%r9]', FAR)}\n{LD_DONE}\n{ST_DONE}",
    "a store to overlapping columns": f"{LOAD}\n{ZEROS.replace('[%r9]', '[%r11]')} // want TC003\n{LD_DONE}\n{ST_DONE}\n{USE}",
    "a load of what is being stored": f"{STORE}\n{LOAD.replace('%r2', '%r3')} // want TC004\n{LD_DONE}\n{ST_DONE}",
    "a load of other columns": f"{STORE}\n{LOAD.replace('[%r9]', FAR).replace('%r2', '%r3')}\n{LD_DONE}\n{ST_DONE}",
    "a load after the store is done": f"{STORE}\n{ST_DONE}\n{LOAD}\n{LD_DONE}",
    "an mma whose result is waited for": f"{MMA}\n{COMMIT}\n{wait()}\n{LOAD}\n{LD_DONE}",
    "an mma that is waited for too late": f"{MMA}\n{COMMIT}\nbar.sync 0;\n{LOAD} // want TC001\n{LD_DONE}\n{wait()}",
    "a wait for the phase before": f"{MMA}\n{COMMIT}\n{wait()}\nbar.sync 0;\n{MMA}\n{COMMIT}\nbar.sync 0;\n{LOAD} // want TC001\n{LD_DONE}",
    "a wait by another warp": f"{MMA}\n{COMMIT}\nsetp.lt.u32 %p4, %r0, 64;\n@%p4 bra on;\n{wait()}\non: bar.sync 0;\n{LOAD}\n{LD_DONE}",
    "a store when those that waited say so": roles(wait(2).replace("], 0", "], %r14")),
    "a store without a wait": roles("", " // want TC001"),
    "a ring of mbarriers": rings(wait().replace("[done]", "[%r14+16]")),
    "columns in a loop": columns(f"{MMA}\n{COMMIT}\n{wait()}\nbar.sync 0;"),
    "columns in a loop, without a wait": columns(f"{MMA}\n{COMMIT}\nbar.sync 0;", " // want TC001"),
    "other columns in a loop": columns(f"{MMA}\n{COMMIT}\nbar.sync 0;", begin=16) + wait(),
    "columns in a loop before": f"{columns('')}\nbar.sync 0;\n{MMA}\n{COMMIT}\n{wait()}",
    "a wait for the mbarriers of another ring only": rings("", " // want TC001"),
    "a copy that is followed by an arrival only": (
        "@%p1 tcgen05.cp.cta_group::1.128x256b [%r1], %rd0; // want TC005\n"
        "@%p1 mbarrier.arrive.shared::cta.b64 _, [done];"
    ),
    "an uncommitted mma": f"{MMA} // want TC005",
    "an mma committed on one path": f"{MMA} // want TC005\n@!%p3 bra on;\n{COMMIT}\non: mov.u32 %r1, 0;",
    "an mma committed on both paths": f"{MMA}\n@!%p3 bra on;\n{COMMIT}\nret;\non: {COMMIT}",
    "a commit under the same condition": f"@!%p1 bra on;\n{MMA}\non: mov.u32 %r1, 0;\n{COMMIT}",
    "a commit of another thread": f"{MMA}\nsetp.eq.u32 %p4, %r0, 1;\n{COMMIT.replace('%p1', '%p4')} // want TC008",
    "mma and commit in a loop": f"""
    mov.u32 %r1, 0;
loop:
    {MMA}
    add.s32 %r1, %r1, 1;
    setp.lt.s32 %p4, %r1, 4;
    @%p4 bra loop;
    {COMMIT}
    """,
    "an elected mma and an elected commit": (
        f"elect.sync _|%p1, -1;\n{MMA}\nelect.sync _|%p5, -1;\n{COMMIT.replace('%p1', '%p5')}"
    ),
    "an elected mma and the commit of one thread": (
        f"elect.sync _|%p5, -1;\n{MMA.replace('%p1', '%p5')} // want TC005\n{COMMIT}"
    ),
}  # fmt: skip


NEXT = "add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p6, %r1, 4;\n@%p6 bra loop;"


@pytest.mark.parametrize(
    ("body", "messages"),
    [
        (f"@!%p3 bra on;\n{MMA}\nmov.u32 %r2, 0;\non: mov.u32 %r1, 0;", ["mov.u32 %r2, 0;"]),
        (f"{MMA}\nmov.u32 %r2, 0;", []),
        (f"mov.u32 %r1, 0;\nloop: {MMA}\n{NEXT}\nmov.u32 %r2, 0;", []),
        (f"mov.u32 %r1, 0;\nloop: @!%p3 bra on;\n{MMA}\nmov.u32 %r2, 0;\non: {NEXT}", ["mov.u32 %r2, 0;"]),
    ],
)
def test_an_uncommitted_mma_is_shown_with_the_end_of_its_branch(body: str, messages: list[str]) -> None:
    source = text(body)
    (finding,) = by_rule(lint(source), "TC005")
    ends = [step.span for step in finding.steps if "no longer under the condition" in step.message]
    assert [source[span.start : span.end] for span in ends] == messages


@pytest.mark.parametrize(
    ("arrival", "objects"),
    [("", ["mbarrier done"]), ("mbarrier.arrive.shared::cta.b64 _, [done];", [])],
)
def test_an_uncommitted_mma_is_shown_with_the_mbarrier_that_nothing_else_signals(
    arrival: str, objects: list[str]
) -> None:
    made = "@%p1 mbarrier.init.shared::cta.b64 [done], 1;\nbar.sync 0;"
    (finding,) = by_rule(lint(text(f"{made}\n{MMA}\n{arrival}\n{wait()}")), "TC005")
    assert [step.object for step in finding.steps if "a commit has to signal" in step.message] == objects


@pytest.mark.parametrize("case", CASES)
def test_tcgen05(case: str) -> None:
    agrees(text(CASES[case]), "TC001", "TC002", "TC003", "TC004", "TC005", "TC006", "TC008")


def test_a_result_read_before_it_is_waited_for() -> None:
    for between in ("", f"{COMMIT}\n"):
        report = lint(text(f"{MMA}\n{between}{LOAD}\n{LD_DONE}\n{COMMIT}", 32))
        hits = by_rule(report, "TC001")
        assert len(hits) == 1, between
        assert hits[0].confidence.label != "low"


def test_a_use_before_the_wait_is_one_note() -> None:
    (finding,) = by_rule(lint(text(f"{LOAD}\n{USE}\n{LOAD}\n{USE}\n{LD_DONE}")), "TC007")
    assert "uses %r20 of tcgen05.ld" in finding.message
    assert finding.severity.label == "info"
    assert finding.count == 2
    assert by_rule(lint(text(f"{LOAD}\n{LD_DONE}\n{USE}")), "TC007") == []


def test_a_use_of_a_copy_names_the_copy() -> None:
    body = f"AGAIN:\nadd.u32 %r10, %r9, 1;\n{LOAD}\n@%p1 bra AGAIN;\nmov.b32 %r9, %r20;\n{LD_DONE}\n@%p2 bra AGAIN;"
    (finding,) = by_rule(lint(text(body)), "TC007")
    assert "add.u32 uses %r9 of tcgen05.ld" in finding.message


def mixed(*bodies: str) -> list[tuple[str | None, list[str | None]]]:
    report = lint(module(*bodies))
    return [(f.entry, [s.entry for s in f.steps]) for f in by_rule(report, "TC006")]


ONE = "@%p1 tcgen05.mma.cta_group::1.kind::f16 [%r9], %rd0, %rd1, %r7, %p0;"
TWO = ONE.replace("group::1", "group::2")
REGISTERS = ".reg .pred %p<4>; .reg .b32 %r<10>; .reg .b64 %rd<4>;"


def test_one_kernel_with_two_groups() -> None:
    assert mixed(kernel(f"{ONE}\n{TWO}\nret;")) == [("k", ["k", "k"])]
    assert mixed(kernel(f"{ONE}\n{ONE}\nret;"), kernel(f"{TWO}\nret;", "other")) == []


def test_two_groups_over_calls() -> None:
    callee = f".func low () {{ {REGISTERS} {TWO} ret; }}\n.func middle () {{ call.uni low; ret; }}\n"
    assert mixed(callee, kernel(f"{ONE}\ncall.uni middle;\nret;")) != []
    assert mixed(callee, kernel(f"{TWO}\ncall.uni middle;\nret;")) == []
    assert mixed(callee, kernel(f"{ONE}\nret;")) == []


def test_recursion_ends() -> None:
    loop = f".func again () {{ {REGISTERS} {TWO} call.uni again; ret; }}\n"
    assert mixed(loop, kernel(f"{ONE}\ncall.uni again;\nret;")) != []


ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [{}];"


def releases(then: str, body: str, strict: bool = False) -> list[str]:
    """The confidence of the findings of TC002 in warps 0 to 3, which execute *body*, while warp 4 executes *then*."""
    report = lint(
        text(f"{other_role(then)}\n{body}\ndone_here: mov.u32 %r1, 0;", 160), selected=Selected(strict=strict)
    )
    return [f.confidence.label for f in by_rule(report, "TC002")]


def phase(name: str, n: int) -> str:
    """A wait for phase 0 of the mbarrier *name*."""
    return wait(n).replace("[done]", f"[{name}]")


@pytest.mark.parametrize(
    ("column", "relation", "confidence"),
    [
        ("mad.lo.u32 %r14, %r13, 8, %r9;", "eq", "low"),
        ("mad.lo.u32 %r14, %r13, 8, %r9;", "ne", "high"),  # the signal of each iteration is for its columns
        ("mov.u32 %r14, %r9;", "eq", "high"),  # the columns are those of all iterations
    ],
)
def test_a_signal_of_one_iteration_may_not_be_for_the_columns_of_another(
    column: str, relation: str, confidence: str
) -> None:
    """The last block is read when the columns of the first ones are released."""
    body = f"""
    mov.u32 %r13, 0;
next:
    {column}
    {LOAD.replace("[%r9]", "[%r14]")}
    setp.{relation}.u32 %p6, %r13, 3;
    @!%p6 bra held;
    {ARRIVE.format("other")}
held:
    {LD_DONE}
    {USE}
    add.u32 %r13, %r13, 1;
    setp.lt.u32 %p5, %r13, 4;
    @%p5 bra next;
    """
    assert releases(f"{phase('other', 1)}\n{OVERWRITES}", body) == [confidence]


@pytest.mark.parametrize(
    ("between", "confidence"),
    [
        ("", "high"),
        ("mov.b64 %rd2, {%r20, %r21};", "high"),
        ("mov.b64 %rd2, {%r20, %r21};\ntcgen05.fence::before_thread_sync;", "high"),
        ("mov.b64 %rd2, {%r20, %r21};\nst.shared.b32 [slot], %r0;", "low"),
        ("mov.b64 %rd2, {%r20, %r21};\nbra.uni next;\nnext: mov.u32 %r13, 0;", "low"),
        ("mov.b64 %rd2, {%r20, %r21};\nadd.s64 %rd3, %rd2, 1;", "high"),
        ("add.s32 %r12, %r20, 1;", "high"),
        ("add.s32 %r12, %r20, 1;\nst.shared.b32 [slot], %r12;", None),
        ("add.s32 %r12, %r20, 1;\nmul.lo.s32 %r13, %r12, 3;\nst.shared.b32 [slot], %r13;", None),
        ("setp.eq.s32 %p6, %r20, 1;\nvote.sync.any.pred %p7, %p6, -1;", None),
        ("add.s32 %r12, %r20, 1;\nshfl.sync.down.b32 %r13, %r12, 1, 31, -1;", None),
        ("setp.eq.s32 %p6, %r20, 1;\n@%p6 bra taken;\ntaken: mov.u32 %r13, 0;", None),
        ("setp.eq.s32 %p6, %r20, 1;\n@%p6 st.shared.b32 [slot], %r0;", None),
        ("add.s32 %r12, %r20, 1;\nst.shared.b32 [slot], %r0;", "high"),
        ("add.s32 %r12, %r20, 1;\nbra.uni next;\nnext: mov.u32 %r13, 0;", None),
        (LD_DONE, None),
    ],
)
def test_a_load_that_was_used_before_the_signal(between: str, confidence: str | None) -> None:
    """ptxas may make nothing of a move, and do arithmetic later; what it stores or decides by must have been loaded."""
    body = f"{LOAD}\n{between}\n{ARRIVE.format('other')}\n{USE}\n{LD_DONE}"
    then = f"{phase('other', 1)}\n{OVERWRITES}"
    assert releases(then, body) == ([confidence] if confidence else [])
    # By the letter, only the wait completes it.
    assert releases(then, body, strict=True) == ([] if between == LD_DONE else ["high"])


@pytest.mark.parametrize(
    ("column", "found"),
    [
        # In the warp of the multiplying thread, the store is to the columns of the accumulator.
        ("and.b32 %r13, %r13, 4;", ["TC004"]),
        ("and.b32 %r13, %r13, 4;\nxor.b32 %r13, %r13, 4;\nshl.b32 %r13, %r13, 5;", []),
        ("add.s32 %r13, %r13, %r8;", []),
    ],
)
def test_columns_that_depend_on_the_warp_are_compared_in_the_thread_that_uses_them(
    column: str, found: list[str]
) -> None:
    body = f"""
    shr.u32 %r13, %r0, 5;
    {column}
    shl.b32 %r14, %r13, 4;
    add.s32 %r14, %r9, %r14;
    {STORE.replace("[%r9]", "[%r14]")}
    bar.sync 0;
    {MMA}
    {COMMIT}
    {ST_DONE}
"""
    report = lint(text(body, 256))
    assert [f.rule.id for f in report.findings if f.rule.id in ("TC002", "TC004")] == found


BOTH = ".shared .align 8 .b64 third;"
CHAIN = f"{ARRIVE.format('other')}\n{LD_DONE}\n{USE}\n{ARRIVE.format('done')}"
"""A signal while the load is pending, and one after it is complete."""


@pytest.mark.parametrize(
    ("then", "found"),
    [
        (f"{phase('other', 1)}\n{OVERWRITES}", ["high"]),
        (f"{phase('done', 1)}\n{OVERWRITES}", []),
        (f"{phase('other', 1)}\n{phase('done', 2)}\n{OVERWRITES}", []),
        (f"{phase('done', 1)}\n{phase('other', 2)}\n{OVERWRITES}", []),
        # The thread may skip the wait for the second signal.
        (f"{phase('other', 1)}\n@%p3 bra skip;\n{phase('done', 2)}\nskip: {OVERWRITES}", ["high"]),
        # What is done before the wait for the signal is not let start by it.
        (f"{OVERWRITES}\n{phase('other', 1)}", []),
        # Other columns, and a load, conflict with no load.
        (f"{phase('other', 1)}\n{OVERWRITES.replace('[%r9]', FAR)}", []),
        (f"{phase('other', 1)}\n{LOAD}\n{LD_DONE}", []),
    ],
)
def test_a_load_conflicts_with_what_only_the_early_signal_lets_start(then: str, found: list[str]) -> None:
    assert releases(then, f"{LOAD}\n{CHAIN}") == found


@pytest.mark.parametrize(("offset", "found"), [(-192, []), (-256, ["high"]), (-252, ["high"]), (-248, [])])
def test_columns_of_a_role_that_depend_on_its_warp_are_compared_with_those_of_another(
    offset: int, found: list[str]
) -> None:
    """Warp 4 reaches them by four strides and a negative offset, which has the highest bit of the lower half set."""
    overwrites = OVERWRITES.replace("[%r9]", "[%r14]")
    then = f"""
    {phase("other", 1)}
    shr.u32 %r13, %r0, 5;
    mad.lo.u32 %r14, %r13, 64, %r9;
    add.s32 %r14, %r14, {offset};
    {overwrites}
    """
    assert releases(then, f"{LOAD}\n{CHAIN}") == found


@pytest.mark.parametrize("second", ["%p6", "%p7"])
def test_of_signals_of_elected_lanes_the_later_one_orders_the_load(second: str) -> None:
    """A lane that skips the first signal gives the second one no earlier: after the load of its warp."""
    body = f"""
    and.b32 %r13, %r0, 31;
    setp.ne.u32 %p6, %r13, 0;
    setp.ne.u32 %p7, %r13, 1;
    {LOAD}
    @%p6 bra first;
    {ARRIVE.format("other")}
first:
    {LD_DONE}
    {USE}
    @{second} bra second;
    {ARRIVE.format("done")}
second:
    """
    assert releases(f"{phase('other', 1)}\n{phase('done', 2)}\n{OVERWRITES}", body) == []


def test_a_barrier_after_the_last_signal_orders_what_follows_it() -> None:
    """A launch without iterations reaches the barrier first, but then gives no signal."""
    body = f"""
    mov.u32 %r13, 0;
    @%p3 bra ends;
next:
    {LOAD}
    {ARRIVE.format("other")}
    {LD_DONE}
    {USE}
    add.u32 %r13, %r13, 1;
    setp.lt.u32 %p6, %r13, %r8;
    @%p6 bra next;
ends:
    bar.sync 0;
    """
    assert releases(f"{phase('other', 1)}\nbar.sync 0;\n{OVERWRITES}", body) == []
    assert releases(f"{phase('other', 1)}\n{OVERWRITES}\nbar.sync 0;", body) == ["high"]


def test_a_signal_reaches_the_overwriting_thread_through_another_role() -> None:
    """The stage that the signal releases is refilled, and the next multiplication waits for that."""

    def confidences(waiting: str) -> list[str]:
        roles = f"""
    setp.ge.u32 %p6, %r0, 160;
    @%p6 bra relays;
    {waiting}
    {OVERWRITES}
    bra done_here;
relays:
    {phase("other", 1)}
    {ARRIVE.format("third")}
"""
        body = f"{BOTH}\n{other_role(roles)}\n{LOAD}\n{CHAIN}\ndone_here: mov.u32 %r1, 0;"
        return [f.confidence.label for f in by_rule(lint(text(body, 192)), "TC002")]

    assert confidences(phase("third", 2)) == ["high"]
    assert confidences(f"{phase('third', 2)}\n{phase('done', 3)}") == []
    assert confidences(f"{phase('done', 3)}\n{phase('third', 2)}") == []


@pytest.mark.parametrize(
    ("awaited", "after", "found"),
    [
        (phase("done", 4), phase("third", 2), []),
        (phase("done", 4), "", ["high"]),
        (phase("done", 4), f"@%p3 bra skip;\n{phase('third', 2)}\nskip:", ["high"]),
        # The loading threads observe no multiplication, so even the first one may follow the load.
        ("", phase("third", 2), ["high"]),
    ],
)
def test_the_multiplication_that_a_load_waits_for_is_not_let_start_by_its_signal(
    awaited: str, after: str, found: list[str]
) -> None:
    """The first multiplication precedes the load, and the next one follows a later signal."""
    multiplies = f"tile: {phase('other', 1)}\n{MMA}\n{COMMIT}\n{after}\n@%p4 bra tile;"
    loads = f"load_tile: {awaited}\n{LOAD}\n{ARRIVE.format('other')}\n{LD_DONE}\n{USE}\n{ARRIVE.format('third')}\n"
    # The thread that multiplies is in warp 4.
    lead = f"{BOTH}\nsetp.eq.u32 %p1, %r0, 128;\nsetp.gt.s32 %p4, %r8, -1;"
    assert releases(f"{lead}\n{multiplies}", f"{loads}@%p4 bra load_tile;") == found


def turn(name: str, n: int) -> str:
    """A wait for the phase of *name* that the iteration is for; the first one returns at once, if the parity begins as 1."""
    return phase(name, n).replace(", 0;", ", %r12;")


@pytest.mark.parametrize(
    ("parity", "multiplies", "found"),
    [
        # The second wait of the iteration before is for the turn before.
        (1, f"{turn('other', 1)}\n{MMA}\n{turn('third', 2)}", ["high"]),
        (1, f"{turn('third', 2)}\n{turn('other', 1)}\n{MMA}", []),
        (1, f"{turn('other', 1)}\n{turn('third', 2)}\n{MMA}", []),
        (0, f"{turn('other', 1)}\n{MMA}\n{turn('third', 2)}", []),
    ],
)
def test_by_the_letter_a_later_signal_orders_the_multiplication_of_its_turn(
    parity: int, multiplies: str, found: list[str]
) -> None:
    lead = f"{BOTH}\nsetp.eq.u32 %p1, %r0, 128;\nsetp.gt.s32 %p4, %r8, -1;\nmov.u32 %r12, {parity};"
    tiles = f"{lead}\ntile: {multiplies}\n{COMMIT}\nxor.b32 %r12, %r12, 1;\n@%p4 bra tile;"
    loads = f"{LOAD}\n{USE}\n{ARRIVE.format('other')}\n{LD_DONE}\n{ARRIVE.format('third')}"
    body = f"load_tile: {phase('done', 4)}\n{loads}\n@%p4 bra load_tile;"
    assert releases(tiles, body) == []
    assert releases(tiles, body, strict=True) == found


@pytest.mark.parametrize(
    ("body", "threads", "found"),
    [
        (f"{STORE}\nbar.sync 0;\n{ST_DONE}\n{MMA}\n{COMMIT}", 128, ["warning"]),
        (f"{STORE}\nbar.sync 0;\n{ST_DONE}\n{MMA}\n{COMMIT}", 32, []),
        (f"{STORE}\nbar.sync 0;\n{ST_DONE}\nbar.sync 0;\n{MMA}\n{COMMIT}", 128, []),
        (f"{STORE}\n{ST_DONE}\nbar.sync 0;\n{MMA}\n{COMMIT}", 128, []),
        (f"{LOAD}\nbar.sync 0;\n{LD_DONE}\n{USE}\n{MMA}\n{COMMIT}", 128, ["warning"]),
    ],
)
def test_by_the_letter_a_thread_of_the_same_role_knows_of_its_own_warp_alone(
    body: str, threads: int, found: list[str]
) -> None:
    """The stores of the other warps may be pending at the barrier after which one thread multiplies."""
    strict = Selected(strict=True, min_confidence=Confidence.LOW)
    assert by_rule(lint(text(body, threads)), "TC002") == []
    report = lint(text(body, threads), selected=strict)
    assert [f.severity.label for f in by_rule(report, "TC002")] == found


def test_by_the_letter_a_store_of_what_was_loaded_may_overwrite_it() -> None:
    body = f"{LOAD}\nadd.s32 %r20, %r20, 1;\n{STORE}\n{ST_DONE}\n{LD_DONE}"
    strict = lint(text(body), selected=Selected(strict=True))
    assert by_rule(lint(text(body)), "TC003") == []
    (finding,) = by_rule(strict, "TC003")
    assert finding.severity is Severity.WARNING
    assert "hardware waits for the load where its registers are used" in finding.message
    waited = body.replace(STORE, f"{LD_DONE}\n{STORE}")
    assert by_rule(lint(text(waited), selected=Selected(strict=True)), "TC003") == []


@pytest.mark.parametrize(
    ("after", "found"),
    [
        (f"{LD_DONE}\n@%p1 {ARRIVE.format('other')}", ["high"]),
        # Another barrier orders the arrival after the waits of the other warps.
        (f"{LD_DONE}\nbar.sync 1, 128;\n@%p1 {ARRIVE.format('other')}", []),
        # A lane of each warp arrives, after the wait of its own warp.
        (f"{LD_DONE}\nelect.sync _|%p6, -1;\n@%p6 {ARRIVE.format('other')}", []),
    ],
)
def test_one_thread_that_arrives_for_all_after_a_barrier_does_not_know_of_their_waits(
    after: str, found: list[str]
) -> None:
    body = f"{LOAD}\nbar.sync 1, 128;\n{after}\n{USE}"
    assert releases(f"{phase('other', 1)}\n{OVERWRITES}", body) == found


def test_a_signal_that_returns_to_the_loading_threads_lets_nothing_start() -> None:
    """Their own wait for the load precedes whatever they signal next."""
    back = f"{phase('other', 1)}\n{ARRIVE.format('third')}\n{phase('done', 2)}\n{OVERWRITES}"
    body = f"{LOAD}\n{ARRIVE.format('other')}\n{phase('third', 3)}\n{LD_DONE}\n{USE}\n{ARRIVE.format('done')}"
    assert releases(f"{BOTH}\n{back}", body) == []
    assert releases(f"{BOTH}\n{back.replace(phase('done', 2), '')}", body) == ["high"]


def test_accesses_before_the_barrier_that_the_loading_threads_pass_are_not_let_start() -> None:
    stores = f"{OVERWRITES}\nbar.sync 1, 160;\n{phase('other', 1)}"
    assert releases(stores, f"bar.sync 1, 160;\n{LOAD}\n{ARRIVE.format('other')}\n{LD_DONE}\n{USE}") == []
    late = f"bar.sync 1, 160;\n{phase('other', 1)}\n{OVERWRITES}"
    assert releases(late, f"bar.sync 1, 160;\n{LOAD}\n{ARRIVE.format('other')}\n{LD_DONE}\n{USE}") == ["high"]


@pytest.mark.parametrize(
    ("body", "rules"),
    [
        (
            f"{ZEROS}\n@%p3 bra skip;\nbra.uni far;\nfar: {LOAD}\n{LD_DONE}\n{USE}\nskip: {ARRIVE.format('other')}",
            ["TC004"],
        ),
        (f"{ZEROS}\n{ARRIVE.format('other')}\n{LOAD}\n{LD_DONE}\n{USE}", ["TC002"]),
        (f"{ZEROS}\n@%p3 {ARRIVE.format('other')}\n{LOAD}\n{LD_DONE}\n{USE}", ["TC002"]),
    ],
)
def test_a_use_that_no_signal_precedes_is_reported_rather_than_a_signal_on_another_path(
    body: str, rules: list[str]
) -> None:
    other = other_role(f"{phase('other', 1)}\n{OVERWRITES}")
    report = lint(text(f"{other}\n{body}\ndone_here: mov.u32 %r1, 0;", 160))
    assert [f.rule.id for f in report.findings if f.rule.id in ("TC002", "TC003", "TC004")] == rules


def test_the_finding_shows_what_may_start_too_early() -> None:
    other = other_role(phase("other", 1) + OVERWRITES)
    body = f"{other}\n{LOAD}\n{CHAIN}\ndone_here: mov.u32 %r1, 0;"
    (finding,) = by_rule(lint(text(body, 160)), "TC002")
    assert [step.role for step in finding.steps] == ["warps 0-3", "warps 0-3", "warp 4"]


FREEING = """\
.version 8.6
.target sm_100a
.address_size 64
.visible .entry freeing(.param .u32 column, .param .u64 out)
.reqntid {threads}
{{
    .reg .b32 %r<6>;
    .reg .b64 %out;
    .reg .pred %p;
    .shared .align 4 .b32 slot;
    ld.param.u64 %out, [out];
    mov.u32 %r0, %tid.x;
    setp.lt.u32 %p, %r0, 32;
    @%p tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], {columns};
    bar.sync 0;
    ld.shared.b32 %r1, [slot];
    ld.param.u32 %r2, [column];
    add.u32 %r2, %r2, %r1;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r4}}, [%r2];
    st.global.u32 [%out], %r4;
    {wait}
    {meet}
    @%p tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, {columns};
    ret;
}}
"""


@pytest.mark.parametrize(
    ("threads", "meet", "wait", "rules"),
    [
        (32, "", "", {"TC003"}),
        (32, "", LD_DONE, set()),
        (128, "bar.sync 0;", "", {"TC002", "TC003"}),
        (128, "bar.sync 0;", LD_DONE, set()),
    ],
)
def test_by_the_letter_all_columns_are_loaded_before_the_allocation_is_freed(
    threads: int, meet: str, wait: str, rules: set[str]
) -> None:
    """Which column a parameter names does not matter, as the kernel allocates no others."""
    source = FREEING.format(threads=threads, meet=meet, wait=wait, columns=64)
    found = [
        f for f in lint(source, selected=Selected(strict=True)).findings if f.rule.id in ("TC002", "TC003")
    ]
    assert {f.rule.id for f in found} <= rules
    assert bool(found) == bool(rules)
    assert all((f.severity, f.confidence) == (Severity.WARNING, Confidence.HIGH) for f in found)
    assert not {"TC002", "TC003"} & {f.rule.id for f in lint(source).findings}
