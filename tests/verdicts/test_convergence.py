"""What is proved of collective instructions: the threads that they need execute them together."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tclint.findings.verdicts import Assumption, HazardClass, Status
from tclint.verdicts import verdicts
from tclint.verdicts.checker import Refused
from tclint.verdicts.convergence import Convergence
from tclint.verdicts.uniform import Level, Uniform, check_uniform, collectives
from tests.tools.collectives import (
    ALL,
    ARRIVE,
    BARRIER,
    BLOCK,
    CALLED,
    DATA,
    ELECTED,
    FENCE,
    INPUT,
    LANE,
    LOADED,
    MMA,
    PARAMETER,
    SHUFFLED,
    SPIN,
    TABLE,
    VOTE,
    VOTED,
    WAIT,
    WARP,
    WARPGROUP,
    branch,
    convergence,
    loop,
    model_of,
)
from tests.tools.support import WGMMA, analysed, kernel, module

PROVED = {
    "straight": f"{MMA}\n{BARRIER}\n{VOTE}",
    "a parameter": branch(PARAMETER, BARRIER),
    "one warp": branch(WARP, MMA),
    "one warpgroup": branch(WARPGROUP, f"{FENCE}\n{MMA}"),
    "one CTA of the grid": branch(BLOCK, BARRIER),
    "an address in shared memory, for the CTA": branch(
        "{\n.shared .b32 slot;\nmov.u32 %r13, slot;\nsetp.lt.u32 %p1, %r13, 0x1000000;\n}", BARRIER
    ),
    "a parameter at an address, for the cluster": (
        "mov.b64 %rd5, number;\nld.param.b32 %r13, [%rd5];\n"
        + branch("setp.eq.s32 %p1, %r13, 0;", f"{ARRIVE}\n{WAIT}")
    ),
    "a vote": branch(VOTED, MMA),
    "a shuffle": branch(SHUFFLED, MMA),
    "a guard": f"{WARP}\n@%p1 {MMA}",
    "a loop of a parameter": loop("%r9", BARRIER),
    "after a loop of data": f"{DATA}\n{loop('%r11', 'add.s32 %r13, %r13, 1;')}\n{BARRIER}",
    "after a divergent branch": branch(LANE, "add.s32 %r13, %r13, 1;") + f"\n{MMA}",
    "after a spin": f"{SPIN}\n{MMA}",
    "within a loop with a spin": loop("%r9", f"{SPIN}\n{MMA}"),
    "a whole warp exits": f"{WARP}\n@%p1 exit;\n{MMA}",
    "some lanes abort": f"{LANE}\n@%p1 trap;\n{MMA}",
    "a divergent branch to an abort": f"{LANE}\n@!%p1 bra on;\nst.global.b32 [%rd1], %r1;\ntrap;\non:\n{BARRIER}",
    "the whole CTA is counted": "bar.sync 1, 256;",
    "a cluster": f"{ARRIVE}\n{WAIT}\n{ARRIVE}\n{WAIT}",
    "memory that is read only": branch(LOADED.replace("volatile.global", "global.nc"), BARRIER),
    "a constant in memory": "ld.const.b32 %r11, [constants];\n"
    + branch("setp.eq.s32 %p1, %r11, 0;", BARRIER),
}
OTHER = "ld.param.b64 %rd2, [other];\n"
BUFFER = ".shared .align 16 .b8 buffer[64];\n"
READ = f"{INPUT}\nsetp.eq.s32 %p1, %r11, 0;"
WROTE = {
    "its first word": "st.global.b32 [%rd1], %r1;",
    "a word that the lane chooses": "mad.wide.u32 %rd5, %r4, 4, %rd1;\nst.global.b32 [%rd5], %r1;",
    "by an atomic operation": "atom.global.add.u32 %r13, [%rd1+64], 1;",
    "by a reduction": "red.global.add.u32 [%rd1], 1;",
    "by a generic address": "mov.b64 %rd5, %rd1;\nst.b32 [%rd5+4], %r1;",
    "by a pointer from memory": f"{OTHER}ld.global.b64 %rd5, [%rd2];\nst.global.b32 [%rd5], %r1;",
    "by a distance of pointers": f"{OTHER}sub.s64 %rd5, %rd1, %rd2;\nadd.s64 %rd5, %rd5, %rd2;\nst.global.b32 [%rd5], %r1;",
    "by a bulk copy": f"{BUFFER}cp.async.bulk.global.shared::cta.bulk_group [%rd1], [buffer], 16;",
    "in a function": "call leaves;",
    "by a hidden pointer and a number": (
        f"{OTHER}ld.global.b64 %rd5, [%rd2];\nand.b64 %rd5, %rd5, -16;\nld.param.b64 %rd6, [pair];\n"
        "add.s64 %rd5, %rd5, %rd6;\nst.global.b32 [%rd5], %r1;"
    ),
    "by halves that another lane holds": (
        "mov.b64 {%r40, %r41}, %rd1;\nshfl.sync.bfly.b32 %r40, %r40, 1, 31, -1;\nmov.b64 %rd5, {%r40, %r41};\n"
        "ld.param.b64 %rd6, [pair];\nadd.s64 %rd5, %rd5, %rd6;\nst.global.b32 [%rd5], %r1;"
    ),
    "by a tensor map in memory": (
        f"{BUFFER}{OTHER}cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd2, {{%r1}}], [buffer];"
    ),
    "by a distance from shared memory": (
        f"{BUFFER}mov.b64 %rd5, buffer;\ncvta.shared.u64 %rd5, %rd5;\nxor.b64 %rd6, %rd5, %rd1;\n"
        "add.s64 %rd5, %rd5, %rd6;\nst.b32 [%rd5], %r1;"
    ),
}
"""What may write the memory of an input, after it has been read or before."""
GUARD = "setp.gt.s32 %p2, %r9, 5;\n"
"""A predicate of a parameter, under which a register is written."""
WRITTEN = {
    "read under the guard": f"{GUARD}@%p2 mov.b32 %r50, %r9;\nmov.b32 %r51, 0;\n@%p2 mov.b32 %r51, %r50;",
    "written under both": f"{GUARD}@%p2 mov.b32 %r51, 1;\n@!%p2 mov.b32 %r51, %r9;",
    "read where a branch on the guard leads": (
        f"{GUARD}@%p2 mov.b32 %r50, %r9;\nmov.b32 %r51, 0;\n@!%p2 bra none;\nmov.b32 %r51, %r50;\nnone:"
    ),
}
UNWRITTEN = {
    "read in any case": f"{GUARD}@%p2 mov.b32 %r51, 1;",
    "read under the opposite": f"{GUARD}@%p2 mov.b32 %r50, 1;\nmov.b32 %r51, 0;\n@!%p2 mov.b32 %r51, %r50;",
    "read under another guard": (
        f"{GUARD}setp.gt.s32 %p3, %r9, 4;\n@%p2 mov.b32 %r50, 1;\nmov.b32 %r51, 0;\n@%p3 mov.b32 %r51, %r50;"
    ),
    "read when the guard has changed": (
        f"{GUARD}@%p2 mov.b32 %r50, 1;\nsetp.gt.s32 %p2, %r9, 4;\nmov.b32 %r51, 0;\n@%p2 mov.b32 %r51, %r50;"
    ),
    "read where the other edge leads": (
        f"{GUARD}@%p2 mov.b32 %r50, %r9;\nmov.b32 %r51, 0;\n@%p2 bra none;\nmov.b32 %r51, %r50;\nnone:"
    ),
}
UNKNOWN = {
    "a register that nothing writes": branch("setp.lt.s32 %p1, %r50, %r9;", BARRIER),
    "a register that is written later": branch("setp.lt.s32 %p1, %r50, %r9;\nmov.b32 %r50, 0;", BARRIER),
    "a register that one path writes": (
        "setp.lt.s32 %p2, %r9, 3;\n@%p2 bra join;\nmov.b32 %r50, 0;\njoin:\n"
        + branch("setp.lt.s32 %p1, %r50, %r9;", BARRIER)
    ),
    "one lane": branch(LANE, MMA),
    "one warp, for the warpgroup": branch(WARP, FENCE),
    "one warp, for the CTA": branch(WARP, BARRIER),
    "one warpgroup, for the CTA": branch(WARPGROUP, BARRIER),
    "loaded from one address": branch(LOADED, MMA),
    "loaded from an address of the lane": (
        "mad.wide.u32 %rd1, %r4, 4, %rd1;\n" + branch(LOADED.replace("volatile.global", "global.nc"), MMA)
    ),
    "a vote, for the CTA": branch(VOTED, BARRIER),
    "a vote of some lanes": branch(VOTED.replace("-1", "0xffff"), MMA),
    "a shuffle within half a warp": branch(SHUFFLED.replace("31, -1", "0x100f, -1"), MMA),
    "a shuffle from a lane of its own": branch(SHUFFLED.replace("%r11, 0,", "%r11, %r4,"), MMA),
    "a shuffle up": branch(SHUFFLED.replace("idx", "up"), MMA),
    "an elected lane": branch(ELECTED, MMA),
    "an elected lane, twice negated": branch(f"{ELECTED}\nnot.pred %p1, %p1;", MMA),
    "a guard": f"{LANE}\n@%p1 {MMA}",
    "a loop of data": f"{DATA}\n{loop('%r11', MMA)}",
    "a loop of lanes": loop("%r4", MMA),
    "a counter after a loop of data": (
        f"{DATA}\n{loop('%r11', '')}\nsetp.eq.s32 %p2, %r10, 5;\n@%p2 bra end;\n{MMA}\nend:"
    ),
    "a value that a divergent branch selects": (
        "mov.b32 %r13, 0;\n" + branch(LANE, "mov.b32 %r13, 1;") + f"\nsetp.eq.s32 %p2, %r13, 0;\n@%p2 {MMA}"
    ),
    "a value that a divergent guard selects": (
        f"mov.b32 %r13, 0;\n{LANE}\n@%p1 mov.b32 %r13, 1;\nsetp.eq.s32 %p2, %r13, 0;\n@%p2 {MMA}"
    ),
    "some lanes exit": f"{LANE}\n@%p1 exit;\n{MMA}",
    "some lanes return from a loop": loop("%r9", LANE.replace("p1", "p2") + "\n@%p2 ret;") + f"\n{MMA}",
    "a whole warp exits before a barrier": f"{WARP}\n@%p1 exit;\n{BARRIER}",
    "the result of a call": branch(CALLED, MMA),
    "some lanes exit in a function": f"call leaves;\n{MMA}",
    "a spin with a collective in it": SPIN.replace("spin:", f"spin:\n{MMA}"),
    "one CTA of a cluster": branch(BLOCK, f"{ARRIVE}\n{WAIT}"),
    "one CTA of a cluster, by an address in shared memory": branch(
        "{\n.shared .b32 slot;\nmov.u32 %r13, slot;\nsetp.lt.u32 %p1, %r13, 0x1000000;\n}",
        f"{ARRIVE}\n{WAIT}",
    ),
    "a cluster barrier arrived at twice": f"{ARRIVE}\n{ARRIVE}\n{WAIT}",
    "a cluster barrier waited for first": f"{WAIT}\n{ARRIVE}",
    "a cluster barrier arrived at in a loop": loop("%r9", ARRIVE),
    "a narrow membermask": VOTE.replace("-1", "0x1f"),
    "an unknown membermask": VOTE.replace("-1", "%r9"),
    "half the CTA is counted, and all threads reach it": "bar.sync 1, 128;",
    "a barrier that is arrived at": "bar.arrive 1, 256;",
    "a barrier that does not exist": "bar.sync 16;",
    "a barrier of an unknown number": "bar.sync %r9;",
    "an unaligned barrier": branch(WARP, "barrier.sync 0;") + f"\n{MMA}",
    "a carry": (
        f"{LANE}\nadd.cc.u32 %r13, %r1, -1;\naddc.u32 %r14, %r9, 0;\nsetp.eq.s32 %p2, %r14, 0;\n@%p2 {MMA}"
    ),
    "a clock": "mov.u32 %r13, %clock;\n" + branch("setp.eq.s32 %p1, %r13, 0;", MMA),
    "a register that changes when a warp moves": (
        "mov.u32 %r13, %warpid;\n" + branch("setp.eq.s32 %p1, %r13, 0;", MMA)
    ),
    "the SM, for the CTA": "mov.u32 %r13, %smid;\n" + branch("setp.eq.s32 %p1, %r13, 0;", BARRIER),
    "the active lanes": branch("activemask.b32 %r13;\nsetp.eq.s32 %p1, %r13, -1;", MMA),
    "lanes that match": branch("match.any.sync.b32 %r13, %r9, -1;\nsetp.eq.s32 %p1, %r13, -1;", MMA),
    "the number of an elected lane": branch("elect.sync %r13|%p2, -1;\nsetp.eq.s32 %p1, %r13, 0;", BARRIER),
    "a rank in the cluster": branch(
        "mov.u32 %r13, %cluster_ctarank;\nsetp.eq.s32 %p1, %r13, 0;", f"{ARRIVE}\n{WAIT}"
    ),
    "some lanes loop indefinitely": f"{LANE}\n@!%p1 bra on;\nspin:\nbra spin;\non:\n{BARRIER}",
    "some lanes leave a loop": loop("%r9", f"setp.eq.s32 %p2, %r4, %r10;\n@%p2 bra done;\n{MMA}"),
    "a vote under a divergent branch": (
        f"{LANE}\nsetp.eq.s32 %p2, %r9, 0;\n@%p1 bra over;\nvote.sync.any.pred %p2, %p8, -1;\nover:\n@%p2 {MMA}"
    ),
    "a float of the lane": branch(
        "cvt.rn.f32.u32 %f1, %r4;\nadd.f32 %f1, %f1, 0f4B800000;\nsetp.eq.f32 %p1, %f1, 0f4B800000;", MMA
    ),
    "wide": "cvt.u64.u32 %rd3, %r1;\n" + branch("setp.eq.s64 %p1, %rd3, 3;", MMA),
}


@pytest.mark.parametrize("name", PROVED)
def test_collective_instructions_under_uniform_conditions_are_proved(name: str) -> None:
    found = convergence(PROVED[name])
    assert found.status is Status.PROVED, found.reasons
    assert found.obligations


def test_what_the_kernel_does_not_write_is_the_same_in_all_threads() -> None:
    needed = {Assumption.READ_ONLY, Assumption.NO_ALIAS}
    for elsewhere in ("", f"\n{OTHER}st.global.b32 [%rd2], %r1;", f"\n{BUFFER}st.shared.b32 [buffer], %r1;"):
        body = branch(READ, BARRIER) + elsewhere
        found = convergence(body)
        assert found.status is Status.PROVED, (elsewhere, found.reasons)
        assert needed <= set(found.assumptions)
        for each in needed:
            assert convergence(body, ALL - {each}).status is Status.UNKNOWN


@pytest.mark.parametrize("name", WROTE)
def test_what_the_kernel_may_write_may_differ_between_threads(name: str) -> None:
    for body in (f"{branch(READ, BARRIER)}\n{WROTE[name]}", f"{WROTE[name]}\n{branch(READ, BARRIER)}"):
        assert any("depends on memory" in reason.what for reason in convergence(body).reasons)


def test_what_a_grid_before_this_one_may_still_write_may_differ_between_threads() -> None:
    wait = "griddepcontrol.wait;"
    assert convergence(f"{wait}\n{branch(READ, BARRIER)}").status is Status.PROVED
    assert convergence(f"{branch(READ, BARRIER)}\n{wait}").status is Status.UNKNOWN
    guarded = f"setp.eq.s32 %p6, %r9, 0;\n@%p6 {wait}\n{branch(READ, BARRIER)}"
    assert convergence(guarded).status is Status.UNKNOWN


def test_pointers_of_one_parameter_are_distinguished_by_their_offset() -> None:
    at = "ld.param.b64 %rd5, [pair+{}];\n"
    for offset, status in ((0, Status.UNKNOWN), (8, Status.PROVED)):
        body = at.format(0) + branch(READ.replace("%rd1", "%rd5"), BARRIER)
        body += "\n" + at.format(offset) + "st.global.b32 [%rd5], %r1;"
        assert convergence(body).status is status


@pytest.mark.parametrize(
    "exchange",
    [
        "shfl.sync.idx.b32 %r12, %r9, %r4, 31, -1;",
        "shfl.sync.up.b32 %r12, %r9, 1, 0, -1;",
        "vote.sync.ballot.b32 %r12, %p8, -1;",
        "redux.sync.add.u32 %r12, %r9, -1;",
    ],
)
def test_what_lanes_exchange_that_all_threads_share_is_shared(exchange: str) -> None:
    body = "setp.eq.s32 %p8, %r9, 0;\n" + branch(exchange + "\nsetp.eq.s32 %p1, %r12, 0;", BARRIER)
    assert convergence(body).status is Status.PROVED
    assert convergence(body.replace("%r9", "%r4")).status is Status.UNKNOWN
    assert convergence(body.replace("-1;", "0xffff;")).status is Status.UNKNOWN


@pytest.mark.parametrize("name", WRITTEN)
def test_a_register_is_written_wherever_it_is_read(name: str) -> None:
    assert convergence(WRITTEN[name] + branch("\nsetp.eq.s32 %p1, %r51, 1;", BARRIER)).status is Status.PROVED


@pytest.mark.parametrize("name", UNWRITTEN)
def test_a_register_may_be_read_that_a_guard_leaves_unwritten(name: str) -> None:
    found = convergence(UNWRITTEN[name] + branch("\nsetp.eq.s32 %p1, %r51, 1;", BARRIER))
    assert found.status is Status.UNKNOWN


@pytest.mark.parametrize("name", UNKNOWN)
def test_collective_instructions_that_some_threads_may_not_execute_are_unknown(name: str) -> None:
    assert convergence(UNKNOWN[name]).status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("name", "condition"),
    [("one lane", "the thread index"), ("loaded from one address", "memory"), ("a guard", "")],
)
def test_the_reason_names_the_branch_that_decides(name: str, condition: str) -> None:
    function = model_of(UNKNOWN[name]).function
    first, *_ = convergence(UNKNOWN[name]).reasons
    assert first.at is not None
    (found,) = (i for i in function.instructions if function.start + i.start == first.at.start)
    if condition:
        assert found.flow.startswith("branch")
        assert f"depends on {condition}" in first.what
        assert first.what.startswith("the threads of the warp may part at this branch")
    else:
        assert found.opcode.startswith("mma.sync")
        assert first.what.startswith("its guard may differ")


def test_a_branch_table_of_a_parameter_is_uniform() -> None:
    body = "{}\n{}\nbrx.idx {}, t;\na:\n{}\nb:\n{}"
    assert convergence(body.format("", TABLE, "%r9", BARRIER, MMA)).status is Status.PROVED
    assert convergence(body.format("", TABLE, "%r2", BARRIER, MMA)).status is Status.UNKNOWN
    assert convergence(body.format(DATA, TABLE, "%r11", MMA, MMA)).status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("name", "needed"),
    [
        ("straight", set()),
        ("a parameter", set()),
        ("one warp", {Assumption.NO_OVERFLOW, Assumption.THREADS}),
        ("after a divergent branch", {Assumption.RECONVERGENCE}),
        ("after a spin", {Assumption.RECONVERGENCE}),
        ("memory that is read only", {Assumption.READ_ONLY}),
    ],
)
def test_what_a_proof_assumes_is_named_and_can_be_refused(name: str, needed: set[Assumption]) -> None:
    found = convergence(PROVED[name])
    assert set(found.assumptions) == needed
    for each in needed:
        assert convergence(PROVED[name], ALL - {each}).status is Status.UNKNOWN
    assert convergence(PROVED[name], frozenset(needed)).status is Status.PROVED


def test_instructions_with_a_membermask_need_no_reconvergence() -> None:
    body = branch(LANE, "add.s32 %r13, %r13, 1;") + f"\n{VOTE}"
    assert Assumption.RECONVERGENCE not in convergence(body).assumptions


def test_without_a_size_a_proof_assumes_whole_warps_and_one_dimension() -> None:
    assert convergence(PROVED["one warp"], size="").assumptions == (
        Assumption.NO_OVERFLOW,
        Assumption.THREADS,
        Assumption.SHAPE,
    )
    assert convergence(FENCE, size="").status is Status.UNKNOWN
    assert convergence(FENCE, size=".maxntid 256").assumptions == (Assumption.SHAPE,)


def test_bounds_in_several_dimensions_say_nothing_of_the_index_of_a_thread() -> None:
    assert convergence(PROVED["one warp"], size=".maxntid 256").status is Status.PROVED
    assert convergence(PROVED["one warp"], size=".maxntid 64, 4").status is Status.UNKNOWN


def test_incomplete_groups_are_unknown() -> None:
    assert convergence(FENCE, size=".reqntid 192").status is Status.UNKNOWN
    for warp in (
        VOTE,
        MMA,
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r20}, [%r9];",
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r9], 32;",
    ):
        unknown = convergence(warp, size=".reqntid 40")
        assert unknown.reasons[0].what == "the CTA has an incomplete warp"
        assert convergence(warp, size=".reqntid 8, 4").assumptions == ()


def test_a_cta_barrier_counts_incomplete_warps() -> None:
    assert convergence(BARRIER, size=".reqntid 40").assumptions == ()


@pytest.mark.parametrize("size", ["", ".maxntid 256", ".maxntid 40"])
def test_whole_warps_are_assumed_with_and_without_a_membermask(size: str) -> None:
    for warp in (MMA, VOTE, branch(VOTED, MMA)):
        proof = convergence(warp, size=size)
        assert proof.status is Status.PROVED
        assert Assumption.SHAPE in proof.assumptions
        assert convergence(warp, ALL - {Assumption.SHAPE}, size).status is Status.UNKNOWN


@pytest.mark.parametrize("size", ["", ".maxntid 256"])
@pytest.mark.parametrize(
    "condition",
    [
        "mov.u32 %r13, %tid.y;\nsetp.ne.u32 %p1, %r13, 0;",
        "mov.u32 %r13, %tid.z;\nsetp.ne.u32 %p1, %r13, 0;",
        "mov.u32 %r13, %tid.y;\nmov.u32 %r14, %tid.z;\nor.b32 %r15, %r13, %r14;\nsetp.ne.u32 %p1, %r15, 0;",
        "mov.u32 %r13, %tid.x;\nmov.u32 %r14, %ntid.y;\nmul.lo.u32 %r15, %r13, %r14;\nsetp.ge.u32 %p1, %r15, 4096;",
    ],
)
def test_one_of_several_rows_is_not_the_whole_cta(condition: str, size: str) -> None:
    assert convergence(branch(condition, BARRIER), size=size).status is Status.UNKNOWN


def test_wgmma_needs_whole_warpgroups() -> None:
    assert convergence(branch(WARPGROUP, f"{FENCE}\n{WGMMA}")).status is Status.PROVED
    assert convergence(branch(WARP, f"{FENCE}\n{WGMMA}")).status is Status.UNKNOWN


# ---------------------------------------------------------------- the checker


def prover(body: str) -> Convergence:
    return Convergence(model_of(body), ALL)


def check(of: Convergence, levels: Mapping[int, Level]) -> None:
    check_uniform(of.of, levels, collectives(of.function, sorted(of.of.block_of)))


@pytest.mark.parametrize("name", UNKNOWN)
def test_no_claim_makes_a_condition_uniform(name: str) -> None:
    of = prover(UNKNOWN[name])
    claims = [dict.fromkeys(of.levels, level) for level in (Level.CLUSTER, Level.WARP)]
    for levels in claims:
        if name != "some lanes exit in a function":  # not a matter of levels
            with pytest.raises(Refused):
                check(of, levels)


def test_a_level_that_is_too_good_is_refused() -> None:
    of = prover(PROVED["within a loop with a spin"])
    check(of, of.levels)
    for register, level in of.levels.items():
        if level > Level.CLUSTER:
            with pytest.raises(Refused, match="too large a group"):
                check(of, {**of.levels, register: Level(level - 1)})


def test_a_collective_instruction_that_is_not_listed_is_refused() -> None:
    of = prover(PROVED["straight"])
    with pytest.raises(Refused, match="does not list"):
        check_uniform(of.of, of.levels, ())


def test_levels_that_are_too_cautious_prove_less_and_nothing_wrong() -> None:
    of = prover(PROVED["straight"])
    check(of, {})
    with pytest.raises(Refused):
        check(prover(PROVED["a parameter"]), {})


def test_a_prover_that_takes_everything_for_uniform_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Convergence, "levels", property(lambda self: dict.fromkeys(range(999), Level.CLUSTER))
    )
    for name in ("one lane", "loaded from one address", "a loop of data", "a counter after a loop of data"):
        assert convergence(UNKNOWN[name]).status is Status.UNKNOWN


def test_what_a_call_returns_is_not_a_parameter_of_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checker and the prover share this rule, so a kernel must show that it is wrong."""
    monkeypatch.setattr(Uniform, "_parameter", lambda *arguments: True)
    assert convergence(UNKNOWN["the result of a call"]).status is Status.PROVED


def test_a_kernel_without_collective_instructions_does_not_use_the_class() -> None:
    found = verdicts(analysed(module(kernel("ret;"))), only=[HazardClass.CONVERGENCE])
    assert not found
