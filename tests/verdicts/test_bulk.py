"""What is proved of copies in bulk groups: the thread waits before it overwrites their source, reads their result or exits."""

from __future__ import annotations

import pytest

from tclint.analyses.in_flight import Pending, State
from tclint.dataflow.may import May
from tclint.findings.verdicts import Assumption, Discharge, HazardClass, Status, Verdict
from tclint.ir.nodes import Instruction
from tclint.verdicts import verdicts
from tclint.verdicts.uses import events
from tests.tools.support import HOPPER, analysed, kernel, last_kernel, module

SHARED = ".extern .shared .align 128 .b8 smem[];"
PARAMETERS = ".param .u64 pointer, .param .u32 number, .param .align 64 .b8 map[128], .param .u64 other"
START = """ld.param.u64 %rd1, [pointer];
ld.param.u64 %rd2, [pointer];
ld.param.u32 %r9, [number];
mov.u32 %r1, %tid.x;
mov.u32 %r3, smem;
setp.eq.s32 %p0, %r1, 0;"""
COPY = "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r3], 1024;"
TENSOR = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r5, %r6}], [%r3];"
REDUCE = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd1], [%r3], 1024;"
LOAD = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 1024, [%r8];"
COMMIT = "cp.async.bulk.commit_group;"
OVERWRITE = "st.shared.b32 [%r3], %r9;"
READ = "ld.global.b32 %r10, [%rd1];"
PRIORITY = "applypriority.async.bulk.global.bulk_group.L2::evict_normal [%rd1], 64;"
CALLEE = ".func plain()\n{\nret;\n}"


def wait(depth: int = 0) -> str:
    return f"cp.async.bulk.wait_group {depth};"


def read(depth: int = 0) -> str:
    return f"cp.async.bulk.wait_group.read {depth};"


def bulk(body: str, assume: frozenset[Assumption] = frozenset(Assumption)) -> Verdict:
    model = last_kernel(SHARED, CALLEE, kernel(f"{START}\n{body}\nret;", parameters=PARAMETERS))
    (found,) = verdicts(model, assume=assume, only=[HazardClass.BULK])
    return found


def loop(first: str, last: str) -> str:
    """A loop that fills the source after *first* and copies it, with *last* after it."""
    return f"""top:
{first}
{OVERWRITE}
{COPY}
{COMMIT}
add.s32 %r10, %r10, 1;
setp.lt.s32 %p1, %r10, %r9;
@%p1 bra top;
{last}"""


def ring(stages: int, pending: int, stride: int = 1024) -> str:
    """A loop over *stages* that lets *pending* groups be pending before it fills and copies the next stage."""
    return f"""mov.b32 %r11, 0;
top:
{read(pending)}
mul.lo.s32 %r14, %r11, {stride};
add.s32 %r12, %r3, %r14;
{OVERWRITE.replace("%r3", "%r12")}
{COPY.replace("%r3", "%r12")}
{COMMIT}
add.s32 %r11, %r11, 1;
setp.ge.s32 %p2, %r11, {stages};
selp.b32 %r11, 0, %r11, %p2;
add.s32 %r10, %r10, 1;
setp.lt.s32 %p1, %r10, %r9;
@%p1 bra top;
{read()}"""


def conditions(first: str, then: str, negated: str = "") -> str:
    """A copy under the predicate %p2 that *first* computes, and a wait under %p3 that *then* computes."""
    return f"{first}\n@{negated}%p2 {COPY}\n@{negated}%p2 {COMMIT}\n{then}\n@%p3 {read()}"


PROVED = {
    "sources waited for at the exit": f"{COPY}\n{COMMIT}\n{read()}",
    "results waited for at the exit": f"{COPY}\n{COMMIT}\n{wait()}",
    "a tensor copy": f"{TENSOR}\n{COMMIT}\n{read()}\n{OVERWRITE}",
    "the source is read meanwhile": f"{COPY}\n{COMMIT}\nld.shared.b32 %r10, [%r3];\n{read()}",
    "an mbarrier is used meanwhile": (
        f"{COPY}\n{COMMIT}\nmbarrier.arrive.shared::cta.b64 _, [%r8];\n{read()}"
    ),
    "overwritten after the wait": f"{COPY}\n{COMMIT}\n{read()}\n{OVERWRITE}",
    "read after the wait": f"{COPY}\n{COMMIT}\n{wait()}\n{READ}",
    "the source of the older copy": (
        f"{COPY}\n{COMMIT}\n{COPY.replace('[%r3]', '[%r4]')}\n{COMMIT}\n{read(1)}\n{OVERWRITE.replace('%r3', '%r3+4096')}\n{read()}".replace(
            "[%r4]", "[%r3+1024]"
        )
    ),
    "other bytes meanwhile": f"{COPY}\n{COMMIT}\nst.shared.b32 [%r3+1024], %r9;\n{read()}",
    "a loop that waits first": loop(read(), read()),
    "equal reductions": f"{REDUCE}\n{COMMIT}\n{REDUCE}\n{COMMIT}\n{read()}",
    "a ring of two stages": ring(2, 1),
    "a ring of three stages": ring(3, 2),
    "a weaker condition": conditions("setp.lt.s32 %p2, %r9, 5;", "setp.lt.s32 %p3, %r9, 6;"),
    "guarded alike": f"@%p0 {COPY}\n@%p0 {COMMIT}\n@%p0 {read()}\n@%p0 {OVERWRITE}",
    "a guarded copy, and a wait of all threads": f"@%p0 {COPY}\n{COMMIT}\n{read()}\n{OVERWRITE}",
}
UNKNOWN = {
    "never committed": f"{COPY}\n{read()}",
    "never waited for": f"{COPY}\n{COMMIT}",
    "waited for before the commit": f"{COPY}\n{read()}\n{COMMIT}",
    "overwritten before the wait": f"{COPY}\n{COMMIT}\n{OVERWRITE}\n{read()}",
    "the last byte is overwritten": f"{COPY}\n{COMMIT}\nst.shared.b32 [%r3+1020], %r9;\n{read()}",
    "a tensor copy of unknown size": f"{TENSOR}\n{COMMIT}\nst.shared.b32 [%r3+65536], %r9;\n{read()}",
    "a generic store": f"{COPY}\n{COMMIT}\nst.b32 [%rd5], %r9;\n{read()}",
    "a load into the source": f"{COPY}\n{COMMIT}\n{LOAD}\n{read()}",
    "an mbarrier is initialised in the source": (
        f"{COPY}\n{COMMIT}\nmbarrier.init.shared::cta.b64 [%r3], 1;\n{read()}"
    ),
    "one group too many is pending": f"{COPY}\n{COMMIT}\n{read(1)}\n{OVERWRITE}\n{read()}",
    "the result is read after a wait for the source": f"{COPY}\n{COMMIT}\n{read()}\n{READ}",
    "the result is read through a generic address": f"{COPY}\n{COMMIT}\n{read()}\nld.b32 %r10, [%rd5];",
    "the result is copied": f"{COPY}\n{COMMIT}\n{read()}\ncp.async.cg.shared.global [%r4], [%rd1], 16;",
    "the result is loaded in bulk": f"{COPY}\n{COMMIT}\n{read()}\n{LOAD}",
    "the result is reduced": f"{COPY}\n{COMMIT}\n{read()}\n{REDUCE}\n{COMMIT}\n{read()}",
    "the result is changed by an atomic": (
        f"{COPY}\n{COMMIT}\n{read()}\natom.global.add.u32 %r10, [%rd1], 1;"
    ),
    "a call": f"{COPY}\n{COMMIT}\ncall plain;\n{read()}",
    "a loop that waits for all but one": loop(read(1), read()),
    "a loop that waits only after it": loop("", read()),
    "a wait on one of two paths": (
        f"{COPY}\n{COMMIT}\nsetp.eq.s32 %p1, %r9, 0;\n@%p1 bra a;\n{read()}\na:\n{OVERWRITE}\n{read()}"
    ),
    "another thread waits": f"@%p0 {COPY}\n@%p0 {COMMIT}\n@!%p0 {read()}",
    "overwritten by a matrix": f"{COPY}\n{COMMIT}\nstmatrix.sync.aligned.m8n8.x1.shared.b16 [%r3], {{%r10}};\n{read()}",
    "overwritten by an atomic operation": f"{COPY}\n{COMMIT}\natom.shared.add.u32 %r10, [%r3], 1;\n{read()}",
    "overwritten by an asynchronous store": f"{COPY}\n{COMMIT}\nst.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r3], %r9, [%r8];\n{read()}",
    "overwritten by a copy of its thread": f"{COPY}\n{COMMIT}\ncp.async.ca.shared.global [%r3], [%rd2], 4;\n{read()}",
    "overwritten by a copy in the cluster": f"{COPY}\n{COMMIT}\ncp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r3], [%r4], 16, [%r8];\n{read()}",
    "overwritten by a change of a tensor map": f"{COPY}\n{COMMIT}\ntensormap.replace.tile.rank.shared::cta.b1024.b32 [%rd5], 1;\n{read()}",
    "a ring with one group too many": ring(2, 2),
    "a ring of stages that overlap": ring(2, 1, 1020),
    "committed by another thread": f"@%p0 {COPY}\nsetp.eq.s32 %p2, %r1, 1;\n@%p2 {COMMIT}\n{read()}",
    "waited for by another elected lane": (
        f"elect.sync _|%p2, -1;\n@%p2 {COPY}\n@%p2 {COMMIT}\nelect.sync _|%p3, 0xfffffffe;\n@%p3 {read()}"
    ),
    "a stronger condition": conditions("setp.lt.s32 %p2, %r9, 6;", "setp.lt.s32 %p3, %r9, 5;"),
    "a condition of no sign": conditions("setp.lt.s32 %p2, %r9, 5;", "setp.lt.u32 %p3, %r9, 5;"),
    "a condition that NaN fails twice": conditions(
        "mov.b32 %f1, %r9;\nsetp.lt.f32 %p2, %f1, 0f00000000;", "setp.ge.f32 %p3, %f1, 0f00000000;", "!"
    ),
    "a condition that wraps": conditions(
        "setp.ge.u32 %p2, %r9, 0;", "add.u32 %r11, %r9, 1;\nsetp.gt.u32 %p3, %r11, %r9;"
    ),
    "a condition loaded again after a barrier": conditions(
        "ld.global.b32 %r11, [%rd2];\nsetp.eq.s32 %p2, %r11, 0;",
        "bar.sync 0;\nld.global.b32 %r11, [%rd2];\nsetp.eq.s32 %p3, %r11, 0;",
    ),
    "a condition of the register where a warp is": conditions(
        "mov.u32 %r11, %warpid;\nsetp.lt.u32 %p2, %r11, 1;", "mov.u32 %r11, %warpid;\nsetp.lt.u32 %p3, %r11, 1;"
    ),
    "a loop that may not wait": (
        f"{COPY}\n{COMMIT}\ntop:\nsetp.ge.s32 %p1, %r10, %r9;\n@%p1 bra out;\n{read()}\nadd.s32 %r10, %r10, 1;\nbra top;\nout:"
    ),
    "a negative number of groups": f"{COPY}\n{COMMIT}\ncp.async.bulk.wait_group.read -64;",
    "groups of cp.async": f"{COPY}\n{COMMIT}\ncp.async.wait_all;",
}  # fmt: skip


@pytest.mark.parametrize("name", PROVED)
def test_bulk_copies_that_are_waited_for_are_proved(name: str) -> None:
    found = bulk(PROVED[name])
    assert found.status is Status.PROVED, found.reasons
    assert found.obligations


@pytest.mark.parametrize("name", UNKNOWN)
def test_bulk_copies_that_may_be_pending_are_unknown(name: str) -> None:
    assert bulk(UNKNOWN[name]).status is Status.UNKNOWN


def test_a_wait_alone_needs_no_assumption() -> None:
    assert bulk(PROVED["overwritten after the wait"], frozenset()).assumptions == ()


def test_other_bytes_and_guards_need_assumptions() -> None:
    for name, discharge in (
        ("other bytes meanwhile", Discharge.DISJOINT),
        ("guarded alike", Discharge.INFEASIBLE),
    ):
        found = bulk(PROVED[name])
        assert discharge in {o.discharge for o in found.obligations}
        assert Assumption.NO_OVERFLOW in found.assumptions
        assert bulk(PROVED[name], frozenset()).status is Status.UNKNOWN


def test_a_kernel_whose_copies_complete_on_mbarriers_does_not_use_the_class() -> None:
    found = events(analysed(module(SHARED, kernel(f"{START}\n{LOAD}\nret;"), header=HOPPER)))
    assert HazardClass.BULK not in found
    assert HazardClass.MBARRIER in found or HazardClass.SHARED_MEMORY in found


def test_priorities_of_a_cache_have_no_source_and_no_result() -> None:
    header = HOPPER.replace("8.0", "9.4").replace("sm_90a", "sm_107a")
    text = module(SHARED, kernel(f"{START}\n{PRIORITY}\n{COMMIT}\n{READ}\n{OVERWRITE}\nret;"), header=header)
    (found,) = verdicts(analysed(text), only=[HazardClass.BULK])
    assert found.status is Status.PROVED, found.reasons


def test_a_prover_that_takes_a_wait_for_sources_for_one_for_results_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    follows = May.transfer

    def completes(self: May[Pending], state: State, at: int, instruction: Instruction) -> State:
        return frozenset() if instruction.event == "wait" else follows(self, state, at, instruction)

    monkeypatch.setattr(May, "transfer", completes)
    found = bulk(UNKNOWN["the result is read after a wait for the source"])
    assert found.status is Status.UNKNOWN
    assert all(
        o.discharge is not None for o in found.obligations
    )  # the prover claims it, the checker does not accept


def test_a_wait_for_the_async_proxy_alone_does_not_order_a_load() -> None:
    restricted = wait().replace("wait_group", "wait_group.sync_restrict::proxy::async")
    text = module(
        SHARED,
        kernel(f"{START}\n{COPY}\n{COMMIT}\n{restricted}\n{READ}\nret;"),
        header=HOPPER.replace("8.0", "9.5"),
    )
    (found,) = verdicts(analysed(text), only=[HazardClass.BULK])
    assert found.status is Status.UNKNOWN


@pytest.mark.parametrize("copy", [COPY, REDUCE, TENSOR.replace("[%rd1", "[map")])
def test_another_pointer_does_not_give_access_to_a_result(copy: str) -> None:
    pending = f"{copy}\n{COMMIT}\n{read()}\n"
    for use in (READ.replace("%rd1", "%rd7"), "ld.b32 %r10, [%rd7+4];"):
        body = f"ld.param.u64 %rd7, [other];\n{pending}{use}"
        found = bulk(body)
        assert found.status is Status.PROVED, found.reasons
        assert Assumption.NO_ALIAS in found.assumptions
        assert bulk(body, frozenset(Assumption) - {Assumption.NO_ALIAS}).status is Status.UNKNOWN
        assert (
            bulk(f"{pending}ld.param.u64 %rd6, [other];\nld.global.u64 %rd7, [%rd6];\n{use}").status
            is Status.UNKNOWN
        )
        again = body.replace("[other]", "[pointer]").replace("[map", "[%rd1")
        assert bulk(again).status is Status.UNKNOWN


def test_read_only_memory_does_not_hold_a_result() -> None:
    body = f"{COPY}\n{COMMIT}\n{read()}\n{READ.replace('ld.global', 'ld.global.nc')}"
    found = bulk(body)
    assert found.status is Status.PROVED, found.reasons
    assert found.assumptions == (Assumption.READ_ONLY,)
    assert bulk(body, frozenset(Assumption) - {Assumption.READ_ONLY}).status is Status.UNKNOWN


REMAINDER = """mov.b32 %r11, {first};
top:
shr.s32 %r12, %r11, 31;
shr.u32 %r12, %r12, 30;
add.s32 %r13, %r11, %r12;
and.b32 %r13, %r13, -4;
sub.s32 %r13, %r11, %r13;
shl.b32 %r13, %r13, 10;
add.s32 %r14, %r3, %r13;
{more}
cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r14+8192], 1024;
cp.async.bulk.commit_group;
add.s32 %r11, %r11, 1;
setp.lt.s32 %p1, %r11, %r9;
@%p1 bra top;
st.shared.b32 [smem+{at}], %r9;
cp.async.bulk.wait_group.read 0;"""


@pytest.mark.parametrize(
    ("first", "more", "at", "proved"),
    [
        (0, "", 8188, True),
        (0, "", 12288, True),
        (0, "", 12284, False),
        (-8, "", 8188, False),  # -3 % 4 is -3
        # The quotient counts as well as the remainder, which is what splits an index into a row and a column.
        (0, "shr.s32 %r15, %r11, 2;\nshl.b32 %r15, %r15, 12;\nadd.s32 %r14, %r14, %r15;", 12288, False),
        (0, "shr.u32 %r15, %r9, 31;\nshl.b32 %r15, %r15, 12;\nadd.s32 %r14, %r14, %r15;", 12288, False),
    ],
)
def test_what_a_stage_by_the_remainder_of_a_counter_may_be(
    first: int, more: str, at: int, proved: bool
) -> None:
    found = bulk(REMAINDER.format(first=first, more=more, at=at))
    assert (found.status is Status.PROVED) == proved
