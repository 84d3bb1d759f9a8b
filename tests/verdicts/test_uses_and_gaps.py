"""Which classes a kernel uses, and what is not known of it."""

from __future__ import annotations

import pytest

from tclint.analyses.gaps import gaps
from tclint.findings.verdicts import HazardClass, Status
from tclint.verdicts import verdicts
from tclint.verdicts.uses import events
from tests.tools.support import HOPPER, WGMMA, analysed, kernel, last_kernel, module


def used(body: str, *functions: str) -> set[str]:
    return {hazard.value for hazard in events(last_kernel(*functions, kernel(body)))}


def test_a_kernel_uses_the_classes_of_its_events() -> None:
    assert used("ret;") == set()
    assert {"cp-async", "shared-memory"} <= used("cp.async.ca.shared.global [%r1], [%rd1], 4;\nret;")
    assert "convergence" in used("bar.sync 0;\nret;")
    assert "mbarrier" in used("mbarrier.init.shared.b64 [%r1], 1;\nret;")
    assert "register-pool" in used("setmaxnreg.inc.sync.aligned.u32 120;\nret;")
    assert "tcgen05-ldst" in used("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%r2];\nret;")


def test_a_generic_address_may_be_one_of_shared_memory_where_there_is_any() -> None:
    load = "ld.b32 %r1, [%rd1];\nret;"
    assert used(load) == set()
    for source in (
        ".shared .b8 tile[16];",
        "cvta.shared.u64 %rd1, 0;",
        "cvta.to.shared.u64 %rd2, %rd1;",
        "mapa.u64 %rd1, %rd2, 1;",
        "ld.shared.b32 %r1, [%r2];",
    ):
        assert used(f"{source}\n{load}") == {"shared-memory"}


@pytest.mark.parametrize(
    "barrier",
    [
        "barrier.sync 0;",
        "barrier.arrive 0, 64;",
        "barrier.red.popc.u32 %r1, 0, %p1;",
        "barrier.cluster.arrive;",
        "barrier.cluster.wait;",
        "bar.warp.sync -1;",
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%fd1, %fd2}, {%fd3}, {%fd4}, {%fd1, %fd2};",
    ],
)
def test_whatever_needs_other_threads_uses_convergence(barrier: str) -> None:
    assert used(f".reg .f64 %fd<5>;\n{barrier}\nret;") == {"convergence", "deadlock"}


@pytest.mark.parametrize(
    "access",
    ["tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1}];", "suld.b.1d.b32.trap %r1, [%rd1, {%r1}];"],
)
def test_textures_and_surfaces_are_accessed_through_another_proxy(access: str) -> None:
    assert used(f".reg .f32 %f<5>;\n{access}\nret;") == {"proxies"}


def test_a_copy_that_reports_to_an_mbarrier_uses_it() -> None:
    copy = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 16, [%r2];"
    assert {"mbarrier", "proxies", "shared-memory"} <= used(f"{copy}\nret;")


EVERY = {hazard.value for hazard in HazardClass} - {"availability"}


def test_an_event_that_is_unreachable_is_not_used() -> None:
    assert used("ret;\nbar.sync 0;\nret;") == set()


def reasons(body: str, *before: str) -> list[str]:
    return [reason.what for reason in gaps(analysed(module(*before, kernel(body), header=HOPPER)))]


PLAIN = ".func plain()\n{\n.reg .b32 %r<2>;\nadd.s32 %r1, %r1, 1;\nret;\n}"
WAITS = ".func waits()\n{\nwgmma.wait_group.sync.aligned 0;\nret;\n}"
CALLS = ".func calls()\n{\ncall waits;\nret;\n}"
EXTERN = ".extern .func elsewhere();"


@pytest.mark.parametrize(
    ("callee", "functions", "known"),
    [
        ("plain", (PLAIN,), True),
        ("waits", (WAITS,), False),
        ("calls", (WAITS, CALLS), False),
        ("elsewhere", (EXTERN,), False),
    ],
)
def test_a_call_is_known_if_no_callee_has_an_event(
    callee: str, functions: tuple[str, ...], known: bool
) -> None:
    of = last_kernel(*functions, kernel(f"call {callee};\nret;"))
    assert (not list(gaps(of))) is known


RECURSIVE = ".func again()\n{\nbar.sync 0;\ncall again;\nret;\n}"
NO_RETURN = ".extern .func gone() .noreturn;"


@pytest.mark.parametrize(
    ("functions", "body"),
    [
        ((), "p: .callprototype _ ();\ncall %rd1, p;"),
        ((PLAIN,), "p: .calltargets plain;\nmov.u64 %rd1, plain;\ncall %rd1, p;"),
        ((EXTERN,), "call elsewhere;"),
        ((EXTERN,), "call.uni elsewhere;"),
        ((NO_RETURN,), "@%p1 call gone;"),
        ((RECURSIVE,), "call again;"),
        ((), "frobnicate.b32 %r1;"),
    ],
)
def test_what_is_hidden_may_be_of_every_class(functions: tuple[str, ...], body: str) -> None:
    model = last_kernel(*functions, kernel(f"{body}\nret;"))
    assert {hazard.value for hazard in events(model)} == EVERY
    found = {v.hazard.value: v.status for v in verdicts(model)}
    assert {found[hazard] for hazard in EVERY} == {Status.UNKNOWN}


def test_a_call_that_is_not_inlined_uses_what_the_callee_does() -> None:
    lines = "\n".join(["add.s32 %r1, %r1, 1;"] * 40)
    load = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r1];"
    long = f".func long()\n{{\n.reg .b32 %r<2>;\n{lines}\n{load}\nret;\n}}"
    quiet = long.replace(load, "")
    assert used("call long;\nret;", quiet) == set()
    model = last_kernel(long, kernel("call long;\nret;"))
    assert {hazard.value for hazard in events(model)} == {"convergence", "shared-memory", "deadlock"}
    for verdict in verdicts(model, only=(HazardClass.CONVERGENCE, HazardClass.SHARED_MEMORY)):
        assert verdict.status is Status.UNKNOWN
        assert "long, which is not inlined" in verdict.reasons[0].what


def test_an_indirect_call_is_unknown() -> None:
    assert reasons("p: .callprototype _ ();\ncall %rd1, p;\nret;")


def test_a_variable_that_is_defined_twice_is_a_gap() -> None:
    twice = ".shared .b8 a[16];\n.shared .b8 a[64];"
    (reason,) = gaps(last_kernel(twice, kernel("ret;")))
    assert "defined twice" in reason.what


INNER = "{\n.shared .align 8 .b64 a[2];\n.reg .b32 %r1;\nmov.u32 %r1, a;\n}"


@pytest.mark.parametrize(
    ("before", "body", "known"),
    [
        (".shared .align 8 .b64 a[2];", INNER, False),
        ("", f"{INNER}\n{INNER}", True),
        (".shared .align 8 .b64 b[2];", INNER, True),
        ("", "{\n.param .b32 a;\n}\n{\n.param .b32 a;\n}", True),
        (f".func callee()\n{{\n{INNER}\nret;\n}}", f"{INNER}\ncall callee;", False),
    ],
)
def test_a_name_of_several_variables_is_a_gap(before: str, body: str, known: bool) -> None:
    assert (not list(gaps(last_kernel(before, kernel(f"{body}\nret;"))))) is known


def test_an_unknown_instruction_makes_all_but_availability_unknown_at_once() -> None:
    body = f"wgmma.fence.sync.aligned;\n{WGMMA}\nfrobnicate.b32 %r1;\nret;"
    found = {v.hazard: v for v in verdicts(analysed(module(kernel(body), header=HOPPER)))}
    assert {v.status for v in found.values()} == {Status.UNKNOWN}
    assert "frobnicate" in found[HazardClass.WGMMA].reasons[0].what


@pytest.mark.parametrize(
    "body",
    [
        "mbarrier.init.shared.b64 [%r1], 1;\nret;",
        f"{WGMMA}\nwgmma.commit_group.sync.aligned;\nret;",
        "tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r3, %p1;\nret;",
        "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 16;\ncp.async.bulk.commit_group;\nret;",
        "cp.async.ca.shared.global [%r1], [%rd1], 4;\nld.shared.b32 %r2, [%r1];\nret;",
    ],
)
def test_every_reason_has_a_location(body: str) -> None:
    unknown = [v for v in verdicts(last_kernel(kernel(body))) if v.status is Status.UNKNOWN]
    assert unknown
    for verdict in unknown:
        for reason in verdict.reasons:
            assert reason.at is not None, reason
