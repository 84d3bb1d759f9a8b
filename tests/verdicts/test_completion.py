"""What is proved of the completion of wgmma, tcgen05.ld and tcgen05.st."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tclint.dataflow import find_paths
from tclint.findings.verdicts import Assumption, Discharge, HazardClass, Status, Verdict
from tclint.verdicts import completion, verdicts
from tests.tools.support import HEADER, HOPPER, WGMMA, analysed, kernel, module

FENCE = "wgmma.fence.sync.aligned;"
COMMIT = "wgmma.commit_group.sync.aligned;"
OTHER = WGMMA.replace("%f0, %f1, %f2, %f3", "%f4, %f5, %f6, %f7")
WIDE = WGMMA.replace("n8k16", "n16k16").replace("%f3", "%f3, %f4, %f5, %f6, %f7")
FRAGMENT = WGMMA.replace("%rd0", "{%r10, %r11, %r12, %r13}").replace("0, 0;", "0;")
CHAINED = FRAGMENT.replace("{%r10, %r11, %r12, %r13}", "{%f4, %f5, %f6, %f7}")
USE = "add.f32 %f9, %f0, %f1;"
START = "setp.ne.b32 %p0, 0, 0;\nld.param.u32 %r9, [number];\nld.param.u64 %rd9, [pointer];\n"
LOAD = "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r20, %r21}, [%r9];"
STORE = "tcgen05.st.sync.aligned.32x32b.x2.b32 [%r9], {%r20, %r21};"
READ = "add.s32 %r30, %r20, %r21;"
WAIT_LOAD = "tcgen05.wait::ld.sync.aligned;"
WAIT_STORE = "tcgen05.wait::st.sync.aligned;"
ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [%r8];"


def wait(depth: int = 0) -> str:
    return f"wgmma.wait_group.sync.aligned {depth};"


def verdict(
    hazard: HazardClass, body: str, header: str, assume: frozenset[Assumption] = frozenset(Assumption)
) -> Verdict:
    model = analysed(module(kernel(f"{START}{body}\nret;"), header=header))
    (found,) = verdicts(model, assume=assume, only=[hazard])
    return found


def wgmma(body: str, assume: frozenset[Assumption] = frozenset(Assumption)) -> Verdict:
    return verdict(HazardClass.WGMMA, body, HOPPER, assume)


def tensor(body: str, assume: frozenset[Assumption] = frozenset(Assumption)) -> Verdict:
    return verdict(HazardClass.TMEM_ACCESS, body, HEADER, assume)


def loop(first: str, last: str) -> str:
    """A loop of wgmma on one accumulator, with *first* in it and *last* after it."""
    return f"""{FENCE}
top:
{WGMMA}
{COMMIT}
{first}
add.s32 %r1, %r1, 1;
setp.lt.s32 %p1, %r1, %r9;
@%p1 bra top;
{last}
{USE}"""


PROVED = {
    "a wait for more groups than hardware counts": (
        "\n".join([FENCE, WGMMA, *[COMMIT] * 8, wait(64), USE, wait()])
    ),
    "waited": f"{FENCE}\n{WGMMA}\n{COMMIT}\n{wait()}\n{USE}",
    "the older group is read": f"{FENCE}\n{WGMMA}\n{COMMIT}\n{OTHER}\n{COMMIT}\n{wait(1)}\n{USE}\n{wait()}",
    "one accumulator in a loop": loop("", wait()),
    "a pipelined loop": loop(wait(1), wait()),
    "a copy read after the wait": f"{FENCE}\n{WGMMA}\n{COMMIT}\nmov.f32 %f8, %f0;\n{wait()}\nadd.f32 %f9, %f8, %f8;",
    "a fragment shared by two": f"{FENCE}\n{FRAGMENT}\n{FRAGMENT.replace('%f0, %f1, %f2, %f3', '%f4, %f5, %f6, %f7')}\n{COMMIT}\n{wait()}",
    "a wait on both paths": f"{FENCE}\n{WGMMA}\n{COMMIT}\n@%p2 bra a;\n{wait()}\nbra b;\na:\n{wait()}\nb:\n{USE}",
    "an accumulator zeroed before the fence": f"mov.f32 %f0, 0f00000000;\n{FENCE}\n{WGMMA}\n{COMMIT}\n{wait()}",
    "an accumulator restored": f"{FENCE}\n{WGMMA}\n{COMMIT}\nmov.f32 %f8, %f0;\nmov.f32 %f9, %f8;\nmov.f32 %f0, %f9;\n{wait()}",
    "a loop with a huge wait": loop(wait(4294967295), wait()),
    "an accumulator renamed in a loop": f"""top:
mov.f32 %f0, %f8;
{FENCE}
{WGMMA}
{COMMIT}
mov.f32 %f8, %f0;
add.s32 %r1, %r1, 1;
setp.lt.s32 %p1, %r1, %r9;
@%p1 bra top;
{wait()}""",
}
UNKNOWN = {
    "a fragment read meanwhile": f"{FENCE}\n{FRAGMENT}\n{COMMIT}\nadd.s32 %r8, %r11, 1;\n{wait()}",
    "not waited": f"{FENCE}\n{WGMMA}\n{COMMIT}\n{USE}\n{wait()}",
    "not committed": f"{FENCE}\n{WGMMA}\n{wait()}\n{USE}",
    "waited too early": f"{FENCE}\n{WGMMA}\n{wait()}\n{COMMIT}\n{USE}\n{wait()}",
    "the newer group is read": f"{FENCE}\n{OTHER}\n{COMMIT}\n{WGMMA}\n{COMMIT}\n{wait(1)}\n{USE}\n{wait()}",
    "pending at the exit": f"{FENCE}\n{WGMMA}\n{COMMIT}",
    "the exit after a wait for all but one": loop("", wait(1)),
    "a copy read before the wait": f"{FENCE}\n{WGMMA}\n{COMMIT}\nmov.f32 %f8, %f0;\nadd.f32 %f9, %f8, %f8;\n{wait()}",
    "an accumulator overwritten": f"{FENCE}\n{WGMMA}\n{COMMIT}\nmov.f32 %f1, 0f00000000;\n{wait()}",
    "an accumulator overwritten by a move": f"{FENCE}\n{WGMMA}\n{COMMIT}\nmov.f32 %f1, %f8;\n{wait()}",
    "a fragment overwritten": f"{FENCE}\n{FRAGMENT}\n{COMMIT}\nmov.b32 %r12, 0;\n{wait()}",
    "a pending accumulator as a fragment": f"{FENCE}\n{OTHER}\n{CHAINED}\n{COMMIT}\n{wait()}",
    "a pending accumulator as a fragment after a fence": (
        f"{FENCE}\n{OTHER}\n{COMMIT}\n{FENCE}\n{CHAINED}\n{COMMIT}\n{wait()}"
    ),
    "pending accumulators in another order": (
        f"{FENCE}\n{WGMMA}\n{COMMIT}\n{FENCE}\n{WGMMA.replace('%f0, %f1', '%f1, %f0')}\n{COMMIT}\n{wait()}"
    ),
    "pending accumulators in another shape": (
        f"{FENCE}\n{WGMMA}\n{COMMIT}\n{FENCE}\n{WIDE}\n{COMMIT}\n{wait()}"
    ),
    "a guarded wait": f"{FENCE}\n{WGMMA}\n{COMMIT}\nsetp.eq.s32 %p1, %r9, 0;\n@%p1 {wait()}\n{USE}\n{wait()}",
    "a wait on one of two paths": (
        f"{FENCE}\n{WGMMA}\n{COMMIT}\nsetp.eq.s32 %p1, %r9, 0;\n@%p1 bra a;\n{wait()}\na:\n{USE}\n{wait()}"
    ),
    "no fence at the beginning": f"{WGMMA}\n{COMMIT}\n{wait()}",
    "no fence after an access": f"{FENCE}\n{WGMMA}\n{COMMIT}\n{wait()}\n{USE}\n{WGMMA}\n{COMMIT}\n{wait()}",
    "no fence after an overwritten fragment": f"{FENCE}\nadd.s32 %r12, %r9, 1;\n{FRAGMENT}\n{COMMIT}\n{wait()}",
    "no fence after an accumulator was zeroed": f"{FENCE}\nmov.f32 %f0, 0f00000000;\n{WGMMA}\n{COMMIT}\n{wait()}",
    "no fence after an accumulator was zeroed while another wgmma is pending": (
        f"{FENCE}\n{WGMMA}\nmov.f32 %f4, 0f00000000;\n{OTHER}\n{COMMIT}\n{wait()}"
    ),
    "no fence after an accumulator was copied": (
        f"{FENCE}\n{WGMMA}\n{COMMIT}\nmov.f32 %f8, %f0;\n{WGMMA}\n{COMMIT}\n{wait()}"
    ),
    "no fence after an accumulator was moved": f"{FENCE}\nmov.f32 %f0, %f8;\n{WGMMA}\n{COMMIT}\n{wait()}",
    "no fence after a move in a loop": f"""{FENCE}
top:
mov.f32 %f0, %f8;
{WGMMA}
{COMMIT}
mov.f32 %f8, %f0;
add.s32 %r1, %r1, 1;
setp.lt.s32 %p1, %r1, %r9;
@%p1 bra top;
{wait()}""",
    "no fence on one of two paths": (
        f"setp.eq.s32 %p1, %r9, 0;\n@%p1 bra a;\n{FENCE}\na:\n{WGMMA}\n{COMMIT}\n{wait()}"
    ),
    "no fence after a special register was moved to a fragment": (
        f"{FENCE}\nmov.u32 %r12, %tid.x;\n{FRAGMENT}\n{COMMIT}\n{wait()}"
    ),
    "an accumulator restored from what is a copy on one path only": (
        f"setp.eq.s32 %p1, %r9, 0;\n{FENCE}\n{WGMMA}\n{COMMIT}\n@%p1 bra a;\nmov.f32 %f8, %f0;\na:\nmov.f32 %f0, %f8;\n{wait()}"
    ),
    "an accumulator restored from a copy under a guard": (
        f"setp.eq.s32 %p1, %r9, 0;\n{FENCE}\n{WGMMA}\n{COMMIT}\n@%p1 mov.f32 %f8, %f0;\nmov.f32 %f0, %f8;\n{wait()}"
    ),
    "an accumulator restored from a copy of a copy that was overwritten": (
        f"{FENCE}\n{WGMMA}\n{COMMIT}\nmov.f32 %f8, %f0;\n@%p1 mov.f32 %f8, %f20;\nmov.f32 %f9, %f8;\nmov.f32 %f0, %f9;\n{wait()}"
    ),
    "an accumulator restored from a copy of the previous iteration": f"""{FENCE}
top:
{WGMMA}
{COMMIT}
setp.eq.s32 %p2, %r1, 0;
@!%p2 bra kept;
mov.f32 %f8, %f0;
kept:
@%p2 bra next;
mov.f32 %f0, %f8;
next:
add.s32 %r1, %r1, 1;
setp.lt.s32 %p1, %r1, %r9;
@%p1 bra top;
{wait()}""",
    "a wait that leaves all groups that hardware counts": (
        "\n".join([FENCE, WGMMA, *[COMMIT] * 7, wait(64), USE, wait()])
    ),
    "an unknown instruction": f"{FENCE}\n{WGMMA}\n{COMMIT}\nfrobnicate.b32 %r1, %r2;\n{wait()}\n{USE}",
}


@pytest.mark.parametrize("name", PROVED)
def test_wgmma_that_is_waited_for_is_proved(name: str) -> None:
    found = wgmma(PROVED[name])
    assert found.status is Status.PROVED, found.reasons
    assert found.obligations
    assert all(o.discharge is not None for o in found.obligations)


@pytest.mark.parametrize("name", UNKNOWN)
def test_wgmma_that_may_be_pending_is_unknown(name: str) -> None:
    found = wgmma(UNKNOWN[name])
    assert found.status is Status.UNKNOWN
    assert found.reasons


CORRELATED = f"""setp.eq.s32 %p1, %r9, 0;
{FENCE}
@%p1 bra a;
{WGMMA}
{COMMIT}
a:
@%p1 bra b;
{wait()}
b:
{USE}"""


def test_correlated_branches_discharge_under_assumptions_that_are_named() -> None:
    found = wgmma(CORRELATED)
    assert found.status is Status.PROVED, found.reasons
    assert Discharge.INFEASIBLE in {o.discharge for o in found.obligations}
    assert Assumption.NO_OVERFLOW in found.assumptions


def waiting_last(guard: str) -> str:
    """A loop of wgmma that waits in the iteration in which the counter is one less than its limit, after *guard*."""
    return f"""{guard}
mov.b32 %r1, 0;
{FENCE}
top:
{WGMMA}
{COMMIT}
add.s32 %r5, %r9, -1;
setp.ne.s32 %p2, %r1, %r5;
@%p2 bra next;
{wait()}
next:
add.s32 %r1, %r1, 1;
setp.lt.s32 %p1, %r1, %r9;
@%p1 bra top;
{USE}
{wait()}"""


def test_a_loop_that_may_start_past_its_end_may_have_no_last_iteration() -> None:
    assert wgmma(waiting_last("")).status is Status.UNKNOWN
    guarded = wgmma(waiting_last("setp.lt.s32 %p3, %r9, 1;\n@%p3 ret;"))
    assert guarded.status is Status.PROVED, guarded.reasons


def counting_down(early: str) -> str:
    """A loop of wgmma that counts down to 0, where it waits, and that has the exit *early* too."""
    return f"""mov.b32 %r1, %r9;
top:
{FENCE}
{WGMMA}
{COMMIT}
sub.s32 %r1, %r1, 1;
setp.eq.s32 %p1, %r1, 0;
@%p1 bra done;
setp.lt.s32 %p2, %r1, 0;
{early}
bra top;
done:
{wait()}
out:
{USE}"""


def test_a_loop_with_another_exit_may_start_past_the_number_at_which_it_ends() -> None:
    assert wgmma(counting_down("@%p2 bra out;")).status is Status.UNKNOWN
    alone = wgmma(counting_down(f"@%p2 {USE}"))
    assert alone.status is Status.PROVED, alone.reasons


def test_refused_assumptions_leave_correlated_branches_unknown() -> None:
    assert wgmma(CORRELATED, frozenset()).status is Status.UNKNOWN


def test_a_wait_alone_needs_no_assumption() -> None:
    assert wgmma(PROVED["a pipelined loop"], frozenset()).assumptions == ()
    assert wgmma(PROVED["a pipelined loop"], frozenset()).status is Status.PROVED


@pytest.mark.parametrize("place", ["%r13", "slot"])
def test_that_nothing_else_writes_an_allocated_address_is_an_assumption(place: str) -> None:
    """The slot holds another address when it is loaded again, and both name the same columns.

    It is not assumed of a store to the slot by its name.
    """
    body = f"""tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 64;
ld.shared.b32 %r10, [slot];
add.s32 %r11, %r10, 32;
ld.shared.b32 %r13, [pointer];
st.shared.b32 [{place}], %r11;
ld.shared.b32 %r12, [slot];
tcgen05.st.sync.aligned.32x32b.x1.b32 [%r11], {{%r20}};
tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r21}}, [%r12];
tcgen05.wait::ld.sync.aligned;
tcgen05.wait::st.sync.aligned;"""
    assumed = Status.UNKNOWN if place == "slot" else Status.PROVED
    for refused, status in ((set(), assumed), ({Assumption.ALLOCATED}, Status.UNKNOWN)):
        text = module(".shared .align 4 .b32 slot;\n.shared .align 4 .b32 pointer;", kernel(f"{body}\nret;"))
        assume = frozenset(Assumption) - refused
        (found,) = verdicts(analysed(text), assume=assume, only=[HazardClass.TMEM_ACCESS])
        assert found.status is status
        assert (Assumption.ALLOCATED in found.assumptions) is (status is Status.PROVED)


def test_the_elected_lane_is_an_assumption() -> None:
    found = wgmma("elect.sync _|%p5, 0xffffffff;\n" + CORRELATED)
    assert found.status is Status.PROVED, found.reasons
    assert Assumption.ELECT in found.assumptions
    refused = frozenset(Assumption) - {Assumption.ELECT}
    assert wgmma("elect.sync _|%p5, 0xffffffff;\n" + CORRELATED, refused).status is Status.UNKNOWN


def test_an_elected_lane_of_an_unknown_mask_closes_no_path() -> None:
    assert wgmma("elect.sync _|%p5, %r9;\n" + CORRELATED).status is Status.UNKNOWN


@pytest.mark.parametrize("name", ["warpid", "smid"])
def test_a_special_register_that_may_change_closes_no_path(name: str) -> None:
    read = f"mov.u32 %r5, %{name};\nsetp.eq.u32 %p1, %r5, 1;"
    twice = CORRELATED.replace("a:\n", f"a:\n{read}\n").removeprefix("setp.eq.s32 %p1, %r9, 0;\n")
    assert wgmma(f"{read}\n{twice}").status is Status.UNKNOWN
    assert wgmma(f"{read}\n{twice}".replace(name, "ctaid.x")).status is Status.PROVED
    loaded = f"{read}\n{twice}".replace(f"mov.u32 %r5, %{name};", f"ld.const.b32 %r5, [%{name}];")
    assert wgmma(loaded).status is Status.UNKNOWN


def test_an_obligation_names_the_wait_that_discharges_it() -> None:
    found = wgmma(PROVED["waited"])
    text = module(kernel(f"{START}{PROVED['waited']}\nret;"), header=HOPPER)
    (read,) = [o for o in found.obligations if o.use and text[o.use.start : o.use.end].startswith("add.f32")]
    assert text[read.operation.start :].startswith("wgmma.mma_async")
    assert [text[by.start : by.end] for by in read.by] == [wait()]


TENSOR_PROVED = {
    "a load waited for": f"{LOAD}\n{WAIT_LOAD}\n{READ}\n{ARRIVE}",
    "a register read without a wait": f"{LOAD}\n{READ}\n{WAIT_LOAD}",
    "a store waited for": f"{STORE}\n{WAIT_STORE}\n{ARRIVE}\n{LOAD}\n{WAIT_LOAD}",
    "two loads of the same columns": f"{LOAD}\n{LOAD.replace('%r20, %r21', '%r22, %r23')}\n{WAIT_LOAD}",
}
TENSOR_UNKNOWN = {
    "a load and an arrival": f"{LOAD}\n{ARRIVE}\n{WAIT_LOAD}",
    "a register read and an arrival": f"{LOAD}\n{READ}\n{ARRIVE}\n{WAIT_LOAD}",
    "a store and an arrival": f"{STORE}\n{ARRIVE}\n{WAIT_STORE}",
    "a wait for the other kind": f"{LOAD}\n{WAIT_STORE}\n{ARRIVE}\n{WAIT_LOAD}",
    "a store and a barrier": f"{STORE}\nbar.sync 0;\n{WAIT_STORE}",
    "a store and a release": f"{STORE}\nst.release.gpu.global.u32 [%rd9], %r9;\n{WAIT_STORE}",
    "a load pending at the exit": LOAD,
    "a result overwritten": f"{LOAD}\nmov.b32 %r20, 0;\n{WAIT_LOAD}",
    "a source overwritten": f"{STORE}\nmov.b32 %r20, 0;\n{WAIT_STORE}",
    "a load of stored columns": f"{STORE}\n{LOAD}\n{WAIT_LOAD}\n{WAIT_STORE}",
    "a store to loaded columns": f"{LOAD}\n{STORE}\n{WAIT_LOAD}\n{WAIT_STORE}",
    "a store to columns that overlap": f"{STORE}\nadd.s32 %r7, %r9, 1;\n{STORE.replace('%r9', '%r7')}\n{WAIT_STORE}",
    "a store to columns that overlap from below": f"{STORE}\nadd.s32 %r7, %r9, -1;\n{STORE.replace('%r9', '%r7')}\n{WAIT_STORE}",
    "a store to other lanes of the columns": (
        f"{STORE}\nadd.s32 %r7, %r9, 0x100000;\n{STORE.replace('%r9', '%r7')}\n{WAIT_STORE}"
    ),
    "a wait in one of two branches": f"{STORE}\nsetp.eq.s32 %p1, %r9, 3;\n@%p1 bra a;\n{WAIT_STORE}\na:\n{ARRIVE}\n{WAIT_STORE}",
    "a wait under a volatile load of the word that guarded the load": (
        f"ld.volatile.global.u32 %r10, [%rd9];\nsetp.eq.s32 %p1, %r10, 0;\n@%p1 {LOAD}\n"
        f"ld.volatile.global.u32 %r11, [%rd9];\nsetp.eq.s32 %p2, %r11, 0;\n@%p2 {WAIT_LOAD}\n{ARRIVE}"
    ),
    "a wait under a test of a phase that is asked again": (
        f"mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r8], 0;\n@%p1 {LOAD}\n"
        f"mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r8], 0;\n@%p2 {WAIT_LOAD}\n{ARRIVE}"
    ),
    "a wait by the elected lane of other lanes": (
        f"elect.sync _|%p1, 0xffffffff;\n@%p1 {LOAD}\nelect.sync _|%p2, 0xfffffffe;\n@%p2 {WAIT_LOAD}\n{ARRIVE}"
    ),
    "a wait in one target of a branch table": (
        f"{LOAD}\nts: .branchtargets a, b;\nbrx.idx %r9, ts;\na:\n{WAIT_LOAD}\nb:\n{ARRIVE}\n{WAIT_LOAD}"
    ),
    "a wait under the predicate that the next iteration has": f"""setp.eq.s32 %p1, %r9, 0;
top:
@%p1 {WAIT_LOAD}
@%p1 {LOAD}
add.s32 %r30, %r30, 1;
setp.eq.s32 %p1, %r30, %r9;
setp.lt.s32 %p2, %r30, 5;
@%p2 bra top;
@%p1 {WAIT_LOAD}
{ARRIVE}""",
    "columns that two registers exchange in a loop": f"""mov.b32 %r10, %r9;
add.s32 %r11, %r9, 8;
top:
tcgen05.st.sync.aligned.32x32b.x1.b32 [%r10], {{%r24}};
tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r25}}, [%r11];
mov.b32 %r12, %r11;
mov.b32 %r11, %r10;
mov.b32 %r10, %r12;
add.s32 %r30, %r30, 1;
setp.lt.s32 %p2, %r30, 5;
@%p2 bra top;
{WAIT_LOAD}
{WAIT_STORE}""",
    "columns that a load in matrix shape reaches": (
        "tcgen05.ld.sync.aligned.16x256b.x1.b32 {%r20, %r21, %r22, %r23}, [%r9];\n"
        f"tcgen05.st.sync.aligned.32x32b.x1.b32 [%r9+7], {{%r24}};\n{WAIT_LOAD}\n{WAIT_STORE}"
    ),
    "an asynchronous store with a signal": (
        f"{STORE}\nst.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r6], %r7, [%r8];\n{WAIT_STORE}"
    ),
}


@pytest.mark.parametrize("name", TENSOR_PROVED)
def test_tensor_memory_accesses_that_are_waited_for_are_proved(name: str) -> None:
    found = tensor(TENSOR_PROVED[name])
    assert found.status is Status.PROVED, found.reasons


@pytest.mark.parametrize("name", TENSOR_UNKNOWN)
def test_tensor_memory_accesses_that_may_be_pending_are_unknown(name: str) -> None:
    assert tensor(TENSOR_UNKNOWN[name]).status is Status.UNKNOWN


APART = f"{STORE}\nadd.s32 %r7, %r9, 2;\n{STORE.replace('%r9', '%r7')}\n{WAIT_STORE}"


def test_stores_to_different_columns_need_that_sums_do_not_wrap() -> None:
    found = tensor(APART)
    assert found.status is Status.PROVED, found.reasons
    assert found.assumptions == (Assumption.NO_OVERFLOW,)
    assert tensor(APART, frozenset()).status is Status.UNKNOWN


def in_loop(body: str, last: str) -> str:
    """*body* in a loop that advances the columns by two."""
    step = "add.s32 %r9, %r9, 2;\nadd.s32 %r1, %r1, 1;\nsetp.lt.s32 %p1, %r1, 4;\n@%p1 bra top;"
    return f"mov.b32 %r1, 0;\ntop:\n{body}\n{step}\n{last}"


def test_columns_of_one_iteration_are_compared_if_the_loop_waits() -> None:
    pair = APART.removesuffix(WAIT_STORE)
    assert tensor(in_loop(pair + WAIT_STORE, "")).status is Status.PROVED
    assert tensor(in_loop(pair, WAIT_STORE)).status is Status.UNKNOWN


def test_columns_that_the_next_iteration_loads_are_not_compared_with_those_of_its_own() -> None:
    ahead = f"add.s32 %r7, %r9, 2;\n{STORE.replace('%r9', '%r7')}\n"
    load = LOAD.replace("%r20, %r21", "%r22, %r23")
    body = f"{load}\n{WAIT_LOAD}\n{WAIT_STORE}\n{ahead}"
    assert tensor(in_loop(body + WAIT_STORE, "")).status is Status.PROVED
    assert tensor(in_loop(body, WAIT_STORE)).status is Status.UNKNOWN


def test_obligations_are_not_enumerated_past_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = 0

    def needs(self: completion.Completion) -> Iterator[completion.ProofObligation]:
        nonlocal listed
        for listed in range(1, 1000):
            yield completion.ProofObligation(listed, listed, "columns")

    monkeypatch.setattr(completion.Completion, "needs", needs)
    monkeypatch.setattr(completion, "MAX_OBLIGATIONS", 10)
    found = tensor(TENSOR_PROVED["a load waited for"])
    assert found.status is Status.UNKNOWN
    assert "more than 10 obligations" in found.reasons[0].what
    assert listed == 11


def test_a_reason_names_the_limit_that_ended_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    assert wgmma(CORRELATED).status is Status.PROVED
    monkeypatch.setattr(completion, "find_paths", lambda cache, query: find_paths(cache, query, 0))
    assert "the search for one ended: more than 0 edges away" in wgmma(CORRELATED).reasons[0].what


def test_a_reason_says_after_how_many_open_obligations_no_path_is_searched_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "no paths" not in wgmma(UNKNOWN["not waited"]).reasons[-1].what
    monkeypatch.setattr(completion, "MAX_OPEN", 1)
    first, *others = wgmma(UNKNOWN["not waited"] + f"\n{USE}").reasons
    assert "no paths" not in first.what
    assert all("beyond 1 open obligations, no paths are searched for" in each.what for each in others)


def test_a_function_that_is_not_a_kernel_is_unknown() -> None:
    text = module(f".func f()\n{{\n.reg .f32 %f<9>;\n.reg .b64 %rd<2>;\n.reg .pred %p<1>;\n{FENCE}\n{WGMMA}\n{COMMIT}\n{wait()}\nret;\n}}", header=HOPPER)  # fmt: skip
    assert {v.status for v in verdicts(analysed(text))} == {Status.UNKNOWN}


def test_verdicts_do_not_depend_on_what_the_model_was_asked() -> None:
    model = analysed(module(kernel(f"{START}{CORRELATED}\nret;"), header=HOPPER))
    first = verdicts(model)
    model.values.entails(model.values.constant(1), model.views.context_of(3).facts)
    assert verdicts(model) == first


def test_a_finding_of_the_class_prevents_a_proof() -> None:
    model = analysed(module(kernel(f"{START}{PROVED['waited']}\nret;"), header=HOPPER))
    found = {v.hazard: v.status for v in verdicts(model, [HazardClass.WGMMA])}
    assert found[HazardClass.WGMMA] is Status.VIOLATED
