"""The rules of allocating tensor memory on small kernels; the pages of the rules hold the plain cases."""

from __future__ import annotations

import pytest

from tclint.findings.edits import joined
from tclint.findings.scales import Confidence, Severity
from tclint.findings.selection import Selected
from tests.tools.support import agrees, by_rule, kernel, lint, module

WARP = "setp.lt.u32 %p1, %r0, 32;"
OTHER = "setp.ge.u32 %p2, %r0, 96;"
SETUP = f"""
    .shared .align 8 .b32 slot[2]; .shared .align 4 .b32 second; .shared .align 8 .b64 done;
    mov.u32 %r0, %tid.x;
    {WARP}
    {OTHER}
    ld.param.u32 %r8, [number];
    setp.eq.s32 %p3, %r8, 0;
"""
ALLOC = "@%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 128;"
READ = "bar.sync 0;\nld.shared.b32 %r9, [slot];"
UNREAD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r20}, [%r9];\ntcgen05.wait::ld.sync.aligned;"
LOAD = f"{UNREAD}\nadd.u32 %r21, %r20, 1;"
FREE = "@%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r9, 128;"
BAR = "bar.sync 0;"
GIVE_UP = "@%p1 tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"
LOOP = "mov.u32 %r1, 0;\nloop:\n{}\nadd.s32 %r1, %r1, 1;\nsetp.lt.s32 %p4, %r1, 4;\n@%p4 bra loop;"


def text(body: str, threads: int = 128) -> str:
    directive = f".reqntid {threads}" if threads else ""
    return module(kernel(f"{SETUP}{body}\nret;", directives=directive))


RUBIN = ".version 9.5\n.target sm_107a\n.address_size 64\n"


@pytest.mark.parametrize(
    ("allocate", "free", "rules"),
    [
        ("alloc.exclusive", "dealloc.exclusive", set()),
        ("alloc.exclusive", "", {"TM001"}),
        ("alloc", "dealloc", {"TM002"}),
    ],
)
def test_exclusive_allocations_have_any_multiple_of_32_columns(
    allocate: str, free: str, rules: set[str]
) -> None:
    body = f"""
    mov.b32 %r7, 576;
    @%p1 tcgen05.{allocate}.cta_group::1.sync.aligned.shared::cta.b32 [slot], %r7;
    {READ}
    {BAR}
    """
    body += f"@%p1 tcgen05.{free}.cta_group::1.sync.aligned.b32 %r9, %r7;" if free else ""
    report = lint(module(kernel(f"{SETUP}{body}\nret;"), header=RUBIN))
    assert {f.rule.id for f in report.findings if f.rule.id.startswith(("TM", "PX"))} == rules


def test_an_exclusive_allocation_is_freed_as_a_whole() -> None:
    body = f"""
    @%p1 tcgen05.alloc.exclusive.cta_group::1.sync.aligned.shared::cta.b32 [slot], 96;
    {READ}
    @%p1 tcgen05.dealloc.exclusive.cta_group::1.sync.aligned.b32 %r9, 64;
    """
    report = lint(module(kernel(f"{SETUP}{body}\nret;"), header=RUBIN))
    (found,) = by_rule(report, "TM003")
    assert found.message == "tcgen05.dealloc.exclusive frees 64 columns of an allocation of 96"


@pytest.mark.parametrize(
    ("free", "allocates"),
    [
        (FREE, True),
        (FREE.replace("dealloc", "dealloc.exclusive"), True),
        (FREE.replace("@%p1 ", ""), False),
        (f"setp.lt.u32 %p1, %r8, 32;\n{FREE}", False),
    ],
)
def test_a_missing_allocation_is_inserted_before_the_barrier_that_publishes_its_address(
    free: str, allocates: bool
) -> None:
    """It has the guard of the deallocation, if that holds for the same threads there."""
    code = module(kernel(f"{SETUP}{READ}\n{LOAD}\n{free}\nret;"), header=RUBIN)
    (found,) = by_rule(lint(code), "TM003")
    assert ["loads the address" in step.message for step in found.steps] == [True, False]
    assert bool(found.fixes) == allocates
    for fix in found.fixes:
        opcode = "alloc.exclusive" if "exclusive" in free else "alloc"
        added = f"@%p1 tcgen05.{opcode}.cta_group::1.sync.aligned.shared::cta.b32 [slot+0], 128;\n{BAR}\n"
        fixed = joined(code.encode(), fix.edits).decode()
        assert added in fixed
        assert not by_rule(lint(fixed), "TM003")
        assert not fix.safe


def other(instruction: str) -> str:
    """*instruction* by the last warp."""
    return instruction.replace("@%p1", "@%p2")


def lines(*parts: str) -> str:
    return "\n".join(parts)


CASES: dict[str, str] = {
    "allocated, used, freed": lines(ALLOC, READ, LOAD, BAR, FREE),
    "never freed": lines(f"{ALLOC} // want TM001", READ),
    "freed by another warp": lines(ALLOC, READ, LOAD, BAR, other(FREE)),
    "freed on one path": lines(f"{ALLOC} // want TM001", READ, "@%p3 bra on;", FREE, "on: mov.u32 %r1, 0;"),
    "freed by another warp on one path": lines(
        f"{ALLOC} // want TM001", READ, "@%p3 bra on;", other(FREE), "on: mov.u32 %r1, 0;"
    ),
    "both under one condition": lines(
        "@%p3 bra none;", ALLOC, READ, "none:", BAR, "@%p3 bra on;", FREE, "on: mov.u32 %r1, 0;"
    ),
    "both under one condition, freed by another warp": lines(
        "@%p3 bra none;", ALLOC, READ, "none:", BAR, "@%p3 bra on;", other(FREE), "on: mov.u32 %r1, 0;"
    ),
    "left by a trap": lines(ALLOC, READ, "@%p3 trap;", BAR, FREE),
    "in a loop": LOOP.format(lines(ALLOC, READ, LOAD, BAR, FREE, BAR)),
    "in a loop, freed after it": lines(LOOP.format(lines(f"{ALLOC} // want TM001", READ, BAR)), FREE),
    "twice to one word": lines(f"{ALLOC} // want TM001", ALLOC, READ, FREE),
    "twice to one word, freed by another warp": lines(f"{ALLOC} // want TM001", ALLOC, READ, other(FREE)),
    "two words": lines(
        ALLOC, ALLOC.replace("slot", "second"), READ, "ld.shared.b32 %r10, [second];", FREE, FREE.replace("%r9", "%r10")
    ),
    "one of two words is not freed": lines(ALLOC, f"{ALLOC.replace('slot', 'second')} // want TM001", READ, FREE),
    "freed twice": lines(ALLOC, READ, FREE, f"{FREE} // want TM003"),
    "freed twice by another warp": lines(ALLOC, READ, other(FREE), f"{other(FREE)} // want TM003"),
    "freed in a loop": lines(ALLOC, READ, LOOP.format(f"{FREE} // want TM003")),
    "freed on two ways": lines(ALLOC, READ, "@%p3 bra on;", FREE, "ret;", f"on: mov.u32 %r1, 0;\n{FREE}"),
    "more is freed": lines(ALLOC, READ, f"{FREE.replace('128', '256')} // want TM003"),
    "a constant address, another number": lines(
        ALLOC.replace("128", "512"), READ, f"{FREE.replace('%r9', '0')} // want TM003"
    ),
    "a constant address beyond all columns": lines(
        ALLOC.replace("128", "512"), READ, f"{FREE.replace('%r9, 128', '32, 512')} // want TM003"
    ),
    "an unknown address": lines(ALLOC, READ, FREE.replace("%r9", "%r8")),
    "nothing is allocated": f"mov.u32 %r9, 0;\n{FREE} // want TM003",
    "a wrong number in a register": lines(
        "mov.u32 %r7, 48;", f"{ALLOC.replace('128', '%r7')} // want TM002", READ, FREE.replace("128", "%r7")
    ),
    "one of two wrong numbers": lines(
        "selp.u32 %r7, 48, 96, %p3;", f"{ALLOC.replace('128', '%r7')} // want TM002", READ, FREE.replace("128", "%r8")
    ),
    "a number that may be right": lines(
        "selp.u32 %r7, 48, 64, %p3;", ALLOC.replace("128", "%r7"), READ, FREE.replace("128", "%r7")
    ),
    "a number for each lane": lines(
        "and.b32 %r6, %r0, 1;", "shl.b32 %r7, %r6, 5;", "add.s32 %r7, %r7, 32;",
        f"{ALLOC.replace('128', '%r7')} // want TM002", READ, FREE.replace("128", "%r8"),
    ),
    "given up first": lines(GIVE_UP, f"{ALLOC} // want TM004", READ, FREE),
    "given up by another warp first": lines(other(GIVE_UP), BAR, f"{ALLOC} // want TM004", READ, FREE),
    "given up by another warp some time": lines(other(GIVE_UP), ALLOC, READ, FREE),
    "given up by CTAs that do not allocate": lines(
        "@!%p3 bra go;", other(GIVE_UP), "go:", BAR, "@%p3 bra on;", ALLOC, READ, FREE, "on: mov.u32 %r1, 0;"
    ),
    "growing over a barrier": lines(
        other(ALLOC).replace("128", "64").replace("slot", "second"), BAR, "ld.shared.b32 %r10, [second];",
        f"{ALLOC} // want TM005", READ, FREE, other(FREE).replace("128", "64").replace("%r9", "%r10"),
    ),
    "growing on two ways": lines(
        "@%p3 bra on;", ALLOC.replace("128", "64"), READ, FREE.replace("128", "64"), "ret;", "on: mov.u32 %r1, 0;",
        ALLOC, READ, FREE,
    ),
    "freed while the others load": lines(ALLOC, READ, LOAD, f"{FREE} // want TM006"),
    "freed while the others load values that are not read": lines(ALLOC, READ, UNREAD, FREE),
    "freed when the others have arrived": lines(
        ALLOC, READ, LOAD, "bar.warp.sync -1;", "elect.sync _|%p5, -1;",
        "@%p5 mbarrier.arrive.shared::cta.b64 _, [done];", "W: mbarrier.try_wait.parity.shared::cta.b64 %p6, [done], 0;",
        "@!%p6 bra W;", FREE,
    ),
    "freed when the others have ended": lines(ALLOC, READ, LOAD, "@!%p1 ret;", BAR, FREE),
    "two words in one load": lines(
        ALLOC, ALLOC.replace("slot", "slot+4").replace("128", "64"), BAR, "ld.shared.v2.b32 {%r9, %r10}, [slot];",
        FREE, FREE.replace("%r9, 128", "%r10, 64"),
    ),
    "two words in one load, mixed up": lines(
        ALLOC, ALLOC.replace("slot", "slot+4").replace("128", "64"), BAR, "ld.shared.v2.b32 {%r10, %r9}, [slot];",
        f"{FREE} // want TM003", f"{FREE.replace('%r9, 128', '%r10, 64')} // want TM003",
    ),
    "all warps allocate": lines(f"{ALLOC.replace('@%p1 ', '')} // want TM007", READ, BAR, FREE),
    "all CTAs of some launch": lines("@%p3 bra on;", ALLOC, READ, BAR, FREE, "on: mov.u32 %r1, 0;"),
    "the warp that arrived first allocates": lines(
        "vote.sync.any.pred %p7, %p2, -1;", ALLOC.replace("%p1", "%p7"), READ, BAR, FREE.replace("%p1", "%p7")
    ),
    "read by another warp at once": lines(ALLOC, "ld.shared.b32 %r9, [slot]; // want TM008", LOAD, BAR, FREE),
    "read at once by others that do nothing with it": lines(ALLOC, "ld.shared.b32 %r9, [slot];", BAR, FREE),
    "read at once and later": lines(
        ALLOC, "ld.shared.b32 %r10, [slot]; // want TM008", "add.u32 %r22, %r10, 32;", READ, BAR, FREE
    ),
    "the word held something else before": lines(
        "@%p2 st.shared.b32 [slot], %r0;", BAR, "ld.shared.b32 %r10, [slot];", BAR, ALLOC, READ, BAR, FREE
    ),
    "read where no barrier was passed": lines(
        ALLOC, "@%p3 bra on;", BAR, "on: ld.shared.b32 %r9, [slot]; // want TM008", LOAD, BAR, FREE
    ),
    "read after a loop on a flag": lines(
        ALLOC, "F: ld.acquire.cta.shared::cta.u32 %r5, [second];", "setp.eq.u32 %p6, %r5, 0;", "@%p6 bra F;",
        "ld.shared.b32 %r9, [slot];", BAR, FREE,
    ),
    "roles by a set of warps": lines(
        "shr.u32 %r3, %r0, 5;", "mov.b32 %r4, 1;", "shl.b32 %r5, %r4, %r3;", "and.b32 %r6, %r5, 1;",
        "setp.ne.s32 %p6, %r6, 0;", "@%p6 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 128;", READ,
        BAR, FREE,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_allocation(case: str) -> None:
    agrees(text(CASES[case]), "TM")


@pytest.mark.parametrize(
    ("case", "rule", "severity", "words", "steps"),
    [
        ("never freed", "TM001", "error", "never frees", ["allocated here", "ends here"]),
        ("freed on one path", "TM001", "warning", "128 columns",
         ["allocated here", "skips the deallocation", "the deallocation that is skipped", "ends here"]),
        ("freed twice", "TM003", "error", "already freed", ["allocated here", "freed here", "freed again"]),
        ("more is freed", "TM003", "error", "frees 256 columns of an allocation of 128", ["128 columns", "256 columns"]),
        ("given up first", "TM004", "error", "relinquished the permit", ["relinquishes", "after relinquishing"]),
        ("given up by another warp first", "TM004", "error", "relinquished", ["relinquishes", "wait", "after relinquishing"]),
        ("growing over a barrier", "TM005", "error", "128 columns of tensor memory after an allocation of 64", ["64", "wait", "128"]),
        ("freed while the others load", "TM006", "error", "warps 1-3 may still be using", ["last tcgen05.ld", "ends", "freed"]),
        ("all warps allocate", "TM007", "error", "executed by all threads", ["tcgen05.alloc"]),
        ("read by another warp at once", "TM008", "error", "no intervening barrier", ["tcgen05.alloc", "without waiting"]),
    ],
)  # fmt: skip
def test_what_a_finding_says(case: str, rule: str, severity: str, words: str, steps: list[str]) -> None:
    (finding,) = by_rule(lint(text(CASES[case])), rule)
    assert finding.severity.label == severity
    assert words in finding.message
    assert finding.help
    assert len(finding.steps) == len(steps)
    for step, part in zip(finding.steps, steps, strict=True):
        assert part in step.message


def test_an_address_that_is_read_at_once_is_one_finding() -> None:
    """The word is in shared memory, too, and one warp writes what another one reads."""
    report = lint(text(CASES["read by another warp at once"]))
    assert {f.rule.id for f in report.findings} & {"TM008", "SM001"} == {"TM008"}


@pytest.mark.parametrize(("threads", "confidence"), [(128, "high"), (0, "medium")])
def test_the_number_of_warps_must_be_known(threads: int, confidence: str) -> None:
    (finding,) = by_rule(lint(text(CASES["freed while the others load"], threads)), "TM006")
    assert finding.confidence.label == confidence


@pytest.mark.parametrize(
    ("directive", "found"),
    [(".reqntid 128", "high"), (".maxntid 128", "medium"), ("", "low"), (".reqntid 32", None)],
)
def test_all_warps_are_one_in_a_cta_of_one(directive: str, found: str | None) -> None:
    body = f"{SETUP}{CASES['all warps allocate']}\nret;"
    findings = by_rule(lint(module(kernel(body, directives=directive))), "TM007")
    assert [f.confidence.label for f in findings] == ([found] if found else [])


@pytest.mark.parametrize(("one_warp", "found"), [(ALLOC, "low"), (ALLOC.replace("@%p1 ", ""), "high")])
def test_all_warps_may_give_up_what_one_has_given_up(one_warp: str, found: str) -> None:
    body = lines(one_warp, READ, GIVE_UP.replace("@%p1 ", ""), BAR, FREE)
    findings = by_rule(lint(module(kernel(f"{SETUP}{body}\nret;"))), "TM007")
    assert [f.confidence.label for f in findings] == [found]


@pytest.mark.parametrize(
    ("callee", "found"), [("elsewhere", "low"), ("vprintf", "high"), ("__nv_ptx_builtin_ocg_fmax3", "high")]
)
def test_a_call_out_of_the_module_may_free(callee: str, found: str) -> None:
    body = lines(ALLOC, READ, f"call.uni {callee};")
    report = lint(module(f".extern .func {callee} ();\n", kernel(f"{SETUP}{body}\nret;")))
    assert [f.confidence.label for f in by_rule(report, "TM001")] == [found]


def test_a_device_function_frees_for_its_caller() -> None:
    helper = """.func release (.reg .b32 %address)
{
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %address, 128;
    ret;
}
"""
    body = lines(ALLOC, READ, BAR, "@!%p1 bra on;", "call.uni release, (%r9);", "on: mov.u32 %r1, 0;")
    report = lint(module(helper, kernel(f"{SETUP}{body}\nret;")))
    assert [f for f in report.findings if f.rule.id.startswith("TM")] == []


MMA = "@%p5 tcgen05.mma.cta_group::1.kind::f16 [%r9], %rd0, %rd1, %r7, %p0;"
COMMIT = "@%p5 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [done];"
WAIT = "W: mbarrier.try_wait.parity.shared::cta.b64 %p6, [done], 0;\n@!%p6 bra W;"


@pytest.mark.parametrize(
    ("between", "words"),
    [
        (lines(MMA, COMMIT), "no wait follows its commit"),
        (lines(MMA, COMMIT, WAIT), None),
        (lines(MMA, COMMIT, BAR), "no wait follows its commit"),
        (
            lines(MMA, COMMIT, MMA.replace("[%r9]", "[%r9+16]"), COMMIT.replace("done", "other"), WAIT),
            "no wait",
        ),
        (lines(MMA, COMMIT, MMA, COMMIT, WAIT), None),
    ],
)
def test_an_operation_of_the_freeing_thread(between: str, words: str | None) -> None:
    body = lines("setp.eq.u32 %p5, %r0, 0;", "setp.ne.u32 %p0, %r0, %r0;", ALLOC, READ, between, FREE)
    findings = by_rule(lint(text(body, 32)), "TM006")
    assert [words in f.message for f in findings if words] == ([True] if words else [])
    assert bool(findings) == bool(words)


def test_an_operation_that_is_committed_too_late() -> None:
    body = lines("setp.eq.u32 %p5, %r0, 0;", "setp.ne.u32 %p0, %r0, %r0;", ALLOC, READ, MMA, FREE, COMMIT)
    (finding,) = by_rule(lint(text(body, 32)), "TM006")
    assert "committed later" in finding.message
    assert by_rule(lint(text(body.replace(COMMIT, ""), 32)), "TM006") == []  # TC005


LOADER = """
    .shared .align 16 .b8 tile[16]; .shared .align 8 .b64 empty;
    @%p1 mbarrier.init.shared::cta.b64 [done], 1; @%p1 mbarrier.init.shared::cta.b64 [empty], 1;
"""
RING = """
    setp.eq.u32 %p5, %r0, 0;
    @!%p5 bra multiply;
refill:
    mbarrier.try_wait.parity.shared::cta.b64 %p6, [empty], %r1;
    @!%p6 bra refill;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [done], 16;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd2], 16, [done];
    xor.b32 %r1, %r1, 1;
    sub.s32 %r8, %r8, 1;
    setp.gt.s32 %p7, %r8, 0;
    @%p7 bra refill;
    {}
multiply:
    {}
    setp.ne.u32 %p5, %r0, 96;
    @%p5 bra free;
waiting:
    mbarrier.try_wait.parity.shared::cta.b64 %p6, [done], 0;
    @!%p6 bra waiting;
    tcgen05.mma.cta_group::1.kind::f16 [%r9], %rd0, %rd1, %r7, %p0;
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [empty];
free:
    {}
"""
LAST = "last: mbarrier.try_wait.parity.shared::cta.b64 %p6, [empty], %r1;\n@!%p6 bra last;"


@pytest.mark.parametrize(
    ("following", "others", "before", "found"),
    [
        ("", "", "", True),
        (LAST, "", "", False),
        ("", "", BAR, False),
        # Another lane of the warp that frees waits for the last one.
        ("", f"setp.ne.u32 %p5, %r0, 1;\n@%p5 bra mine;\n{LAST}\nmine:", "", False),
    ],
)
def test_a_warp_that_frees_what_its_last_copy_is_multiplied_into(
    following: str, others: str, before: str, found: bool
) -> None:
    """It has waited for the MMA of the round before, and nothing says that of the last one is done."""
    body = lines(LOADER, ALLOC, READ, RING.format(following, others, before), FREE)
    findings = by_rule(lint(text(body)), "TM006")
    assert ["since the copy that their tcgen05.mma waits for" in f.message for f in findings] == [
        True
    ] * found


RESULT = """
    @!%p1 bra reading;
    setp.ne.u32 %p5, %r0, 0;
    @%p5 bra idle;
multiply:
    mbarrier.try_wait.parity.shared::cta.b64 %p6, [empty], %r1;
    @!%p6 bra multiply;
    tcgen05.mma.cta_group::1.kind::f16 [%r9], %rd0, %rd1, %r7, %p0;
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [done];
    xor.b32 %r1, %r1, 1;
    sub.s32 %r8, %r8, 1;
    setp.gt.s32 %p7, %r8, 0;
    @%p7 bra multiply;
    {}
    bra.uni free;
idle:
    {}
    bra.uni free;
reading:
    mbarrier.try_wait.parity.shared::cta.b64 %p6, [done], %r1;
    @!%p6 bra reading;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r20}}, [%r9];
    tcgen05.wait::ld.sync.aligned;
    add.u32 %r21, %r20, 1;
    mbarrier.arrive.shared::cta.b64 _, [empty];
    xor.b32 %r1, %r1, 1;
    sub.s32 %r8, %r8, 1;
    setp.gt.s32 %p7, %r8, 0;
    @%p7 bra reading;
free:
    {}
"""


@pytest.mark.parametrize(
    ("following", "others", "before", "found"),
    [
        ("", "", "", True),
        (LAST, "", "", False),
        ("", "", BAR, False),
        # Another lane of the warp that frees waits for the last load.
        ("", LAST, "", False),
    ],
)
def test_a_warp_that_frees_what_its_last_commit_announces(
    following: str, others: str, before: str, found: bool
) -> None:
    """It has waited for the load of the previous result, and no wait covers that of the last one."""
    body = lines(LOADER, ALLOC, READ, RESULT.format(following, others, before), FREE)
    messages = [f.message for f in by_rule(lint(text(body)), "TM006")]
    assert any("since the commit that their tcgen05.ld waits for" in m for m in messages) == found


def pair(between: str) -> str:
    return lines(ALLOC, READ, LOAD, between, FREE).replace("cta_group::1", "cta_group::2")


CLUSTER = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;"
MADE = (
    "\n".join(f"@%p1 mbarrier.init.shared::cta.b64 [{name}], 1;" for name in ("done", "slot"))
    + "\nmov.u32 %r4, done;\nmapa.shared::cluster.u32 %r5, %r4, 1;"
)
REMOTE = "@%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r5];"
GENERIC = """
    mov.u64 %rd2, done;
    cvta.shared.u64 %rd2, %rd2;
    mapa.u64 %rd3, %rd2, 1;
    mbarrier.arrive.release.cluster.b64 _, [%rd3];"""
POLL = """
    atom.release.gpu.global.add.u32 %r4, [%rd0], 1;
poll:
    ld.acquire.gpu.global.u32 %r5, [%rd0];
    setp.lt.u32 %p2, %r5, %r8;
    @%p2 bra poll;"""


@pytest.mark.parametrize(
    ("between", "confidence"),
    [
        (BAR, "medium"),
        (CLUSTER, None),
        (lines(REMOTE, WAIT, BAR), None),
        (lines(REMOTE, BAR), "medium"),
        (lines(other(REMOTE), BAR), "medium"),
        (lines(other(REMOTE), WAIT, BAR), "low"),
        (lines(MADE, other(REMOTE), WAIT, BAR), "low"),
        (lines(MADE, other(REMOTE), WAIT.replace("[done]", "[slot]"), BAR), "medium"),
        (lines("@%p3 bra on;", CLUSTER, "on: mov.u32 %r1, 0;", BAR), "low"),
        (lines(GENERIC, WAIT, BAR), None),
        (lines(GENERIC.replace("[%rd3]", "[%rd2]"), WAIT, BAR), "medium"),
        (lines(POLL, BAR), None),
        (lines(POLL.replace("acquire.gpu", "volatile"), BAR), None),
        # Threads of another CTA are not in the scope.
        (lines(POLL.replace("acquire.gpu", "acquire.cta"), BAR), "medium"),
        (lines(POLL.replace("@%p2 bra poll;", ""), BAR), "medium"),
    ],
)
def test_a_pair_frees_together(between: str, confidence: str | None) -> None:
    findings = by_rule(lint(text(pair(between))), "TM011")
    assert [f.confidence.label for f in findings] == ([confidence] if confidence else [])


def test_a_wait_before_the_uses_of_other_threads_alone_has_low_confidence() -> None:
    """The epilogue follows the role that frees, and its threads do not come from there."""
    body = lines(
        ALLOC, READ, "@!%p1 bra past;", WAIT, FREE,
        "past: @%p1 bra out;", UNREAD, "mbarrier.arrive.shared::cta.b64 _, [done];", other(REMOTE), "out: mov.u32 %r1, 0;",
    ).replace("cta_group::1", "cta_group::2")  # fmt: skip
    (finding,) = by_rule(lint(text(body)), "TM011")
    assert finding.confidence.label == "low"


@pytest.mark.parametrize(
    ("following", "confidence"),
    [("", "medium"), ("mbarrier.arrive.shared::cta.b64 _, [done];", "low"), ("bra free;", "medium")],
)
def test_only_a_warp_that_passes_on_what_it_observes_of_the_peer_lowers_the_confidence(
    following: str, confidence: str
) -> None:
    """It waits for the last buffers that the peer gives back, and ends."""
    body = lines(
        ALLOC, READ, LOAD, BAR, other(REMOTE), "@!%p2 bra free;", WAIT, following, "bra out;", f"free: {FREE}", "out: mov.u32 %r1, 0;"
    ).replace("cta_group::1", "cta_group::2")  # fmt: skip
    (finding,) = by_rule(lint(text(body)), "TM011")
    assert finding.confidence.label == confidence


@pytest.mark.parametrize(("after", "severity"), [(CLUSTER, Severity.INFO), ("", Severity.WARNING)])
def test_a_pair_that_has_met_since_it_allocated_gets_a_note_unless_strict(
    after: str, severity: Severity
) -> None:
    """A deallocation before the allocation of the peer made every launch fail; later ones were never seen to."""
    body = lines(ALLOC, after, READ, LOAD, BAR, FREE).replace("cta_group::1", "cta_group::2")
    for strict, expected in ((False, severity), (True, Severity.WARNING)):
        (finding,) = by_rule(lint(text(body), selected=Selected(strict=strict)), "TM011")
        assert (finding.severity, finding.confidence) == (expected, Confidence.MEDIUM)


def test_a_cluster_barrier_before_the_allocation_does_not_count() -> None:
    assert by_rule(lint(text(lines(CLUSTER, pair(BAR)))), "TM011") != []


@pytest.mark.parametrize(
    ("directive", "severity"),
    [
        (".reqnctapercluster 2", None),
        (".reqnctapercluster 3", "warning"),
        (".reqnctapercluster 1, 2", None),
        (".reqnctapercluster 1", "error"),
        (".maxclusterrank 1", "error"),
        (".maxclusterrank 8", None),
        ("", None),
    ],
)
def test_a_pair_needs_a_cluster_of_pairs(directive: str, severity: str | None) -> None:
    body = f"{SETUP}{pair(CLUSTER)}\nret;"
    findings = by_rule(lint(module(kernel(body, directives=f".reqntid 128\n{directive}"))), "TM010")
    assert [f.severity.label for f in findings] == ([severity] if severity else [])


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("mov.u64 %rd5, slot;\ncvta.shared.u64 %rd5, %rd5;", None),
        ("mov.u64 %rd5, place;\ncvta.global.u64 %rd5, %rd5;", "high"),
        ("ld.param.u64 %rd5, [pointer];", "medium"),
        ("ld.param.u64 %rd6, [pointer];\nld.global.u64 %rd5, [%rd6];", None),
        ("ld.param.u64 %rd6, [pointer];\nmov.u64 %rd5, slot;\ncvta.shared.u64 %rd5, %rd5;\nadd.s64 %rd5, %rd5, %rd6;", None),
    ],
)  # fmt: skip
def test_where_the_address_goes(address: str, found: str | None) -> None:
    generic = ALLOC.replace(".shared::cta.b32 [slot]", ".b32 [%rd5]")
    body = lines(address, generic, READ.replace("slot", "second"), BAR, FREE)
    report = lint(module(".global .align 4 .b32 place;\n", kernel(f"{SETUP}{body}\nret;")))
    assert [f.confidence.label for f in by_rule(report, "TM009")] == ([found] if found else [])


def test_a_kernel_that_allocates_nothing_is_shown_with_the_permit_that_it_gives_up() -> None:
    code = text(f"{GIVE_UP}\n{READ}\n{LOAD}\n{BAR}\n{FREE}")
    (finding,) = by_rule(lint(code), "TM003")
    assert [step.message for step in finding.steps] == [
        "gives up the right to allocate; nothing is allocated before",
        "loads the address that is freed; no tcgen05.alloc stores it",
        "freed here",
    ]
