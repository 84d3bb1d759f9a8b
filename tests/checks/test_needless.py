"""The notes about synchronisation that is not needed, and above all where there is none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tclint.findings.moved import subjects
from tclint.findings.rules import all_rules
from tclint.findings.selection import Selected
from tests.tools.ptxas import find_ptxas
from tests.tools.support import HOPPER, WGMMA, by_rule, found, kernel, lint, module

FAMILY = frozenset(id for id in all_rules() if id.startswith("CO"))
COPY = "cp.async.ca.shared.global [tile], [%rd0], 16;\n"
COMMIT = "cp.async.commit_group;\n"
WAIT = "cp.async.wait_group 0; // want CO001\n"
BULK = "cp.async.bulk.global.shared::cta.bulk_group [%rd0], [tile], 16;\ncp.async.bulk.commit_group;\n"
MULTIPLY = f"wgmma.fence.sync.aligned;\n{WGMMA}\nwgmma.commit_group.sync.aligned;\n"
FENCE = "fence.proxy.async.shared::cta;\n"
PRELUDE = """\
    .shared .align 128 .b8 tile[128];
    .shared .align 8 .b64 full;
    ld.param.u64 %rd0, [pointer];
    ld.param.u32 %r9, [number];
    mov.u32 %r0, %tid.x;
    setp.eq.u32 %p0, %r0, 0;
    setp.eq.u32 %p1, %r9, 0;
"""


def noted_at(
    body: str, *, wanted: int | None = None, header: str = HOPPER, before: str = "", **options: str
) -> None:
    """The notes of the family on a kernel with *body* are where ``// want RULE`` states it; *wanted* is their number."""
    text = module(before, kernel(f"{PRELUDE}{body}\nret;", **options), header=header)
    report = lint(text, selected=Selected(rules=subjects(FAMILY)))
    assert report.status == "analysed", report.problems
    expected = [
        (rule, n)
        for n, line in enumerate(text.splitlines(), 1)
        for rule in line.partition("// want ")[2].split()
    ]
    assert sorted(found(report)) == sorted(expected), [f.message for f in report.findings]
    assert wanted is None or len(expected) == wanted


def test_the_rules_are_off_by_default() -> None:
    text = module(kernel(f"{PRELUDE}{WAIT}ret;"), header=HOPPER)
    assert not [f for f in lint(text).findings if f.rule.id in FAMILY]
    assert by_rule(lint(text, selected=Selected(rules=subjects(FAMILY))), "CO001")


# ---------------------------------------------------------------- waits


@pytest.mark.parametrize(
    "body",
    [
        WAIT,
        "cp.async.wait_all; // want CO001",
        "cp.async.bulk.wait_group.read 0; // want CO001",
        "wgmma.wait_group.sync.aligned 0; // want CO001",
        f"{COPY}{COMMIT}cp.async.wait_group 0;\n{WAIT}",
        f"{COPY}{COMMIT}cp.async.wait_all;\n{WAIT}",
        f"{COPY}{COMMIT}cp.async.wait_group 1; // want CO001\ncp.async.wait_group 0;",
        f"{COPY}{COMMIT}cp.async.wait_group 64; // want CO001\ncp.async.wait_group 0;",
        f"{BULK}cp.async.bulk.wait_group 0;\ncp.async.bulk.wait_group.read 0; // want CO001",
        f"{MULTIPLY}wgmma.wait_group.sync.aligned 0;\nbar.sync 0;\nwgmma.wait_group.sync.aligned 0; // want CO001",
        # Under one guard, by the thread that has issued.
        f"@%p0 {COPY}@%p0 {COMMIT}@%p0 cp.async.wait_group 0;\n@%p0 {WAIT}",
        # On both paths.
        f"{COPY}{COMMIT}@%p1 bra other;\ncp.async.wait_group 0;\nbra join;\nother:\ncp.async.wait_all;\njoin:\n{WAIT}",
    ],
)
def test_a_wait_that_completes_nothing_is_noted(body: str) -> None:
    noted_at(body, wanted=1)


NEEDED_WAITS = [
    f"{COPY}{COMMIT}cp.async.wait_group 0;",
    # Something is in flight on one path.
    f"@%p1 bra join;\n{COPY}{COMMIT}join:\ncp.async.wait_group 0;",
    f"{COPY}{COMMIT}@%p1 bra join;\ncp.async.wait_group 0;\njoin:\ncp.async.wait_group 0;",
    f"@%p0 {COPY}@%p0 {COMMIT}cp.async.wait_group 0;",
    # The earlier wait is under another guard, or its guard has changed.
    f"{COPY}{COMMIT}@%p0 cp.async.wait_group 0;\n@%p1 cp.async.wait_group 0;",
    f"{COPY}{COMMIT}@%p0 cp.async.wait_group 0;\n@!%p0 cp.async.wait_group 0;",
    f"{COPY}{COMMIT}@%p0 cp.async.wait_group 0;\nsetp.eq.u32 %p0, %r9, 7;\n@%p0 cp.async.wait_group 0;",
    # The earlier wait left a group pending.
    f"{COPY}{COMMIT}{COPY}{COMMIT}cp.async.wait_group 1;\ncp.async.wait_group 0;",
    # The previous iteration has issued.
    f"again:\ncp.async.wait_group 0;\n{COPY}{COMMIT}@%p1 bra again;\ncp.async.wait_group 0;",
    f"again:\n{COPY}{COMMIT}cp.async.wait_group 1;\n@%p1 bra again;\ncp.async.wait_group 0;",
    # Uncommitted copies are left to other rules.
    f"{COPY}cp.async.wait_group 0;\n{COMMIT}cp.async.wait_all;",
    f"{COPY}{COMMIT}cp.async.wait_group 0;\n{COPY}cp.async.wait_all;",
    # The source has been read, but the result is not written.
    f"{BULK}cp.async.bulk.wait_group.read 0;\ncp.async.bulk.wait_group 0;",
    # A group that is empty by the ISA: ptxas waits for one of wgmma, and tensor maps are changed after one of bulk copies.
    "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;",
    f"{MULTIPLY}wgmma.wait_group.sync.aligned 0;\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;",
    # A number that is not PTX, and that targets read differently.
    f"{COPY}{COMMIT}cp.async.wait_group -64;\ncp.async.wait_group 0;",
]


@pytest.mark.parametrize("body", NEEDED_WAITS)
def test_a_wait_that_completes_something_on_some_path_is_not_noted(body: str) -> None:
    noted_at(body)


def test_a_wait_for_loads_of_tensor_memory_is_noted_only_if_none_is_pending() -> None:
    load = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%r9];\n"
    wait = "tcgen05.wait::ld.sync.aligned;"
    new = {"header": HOPPER.replace("8.0", "8.6").replace("sm_90a", "sm_100a")}
    noted_at(f"{load}{wait}\n{wait} // want CO001", wanted=1, **new)
    noted_at(f"tcgen05.wait::st.sync.aligned; // want CO001\n{load}{wait}", wanted=1, **new)


@pytest.mark.parametrize(
    ("body", "before"),
    [
        ("call.uni other;\n", ".extern .func other();\n"),
        (
            "mov.u64 %rd1, other;\nproto: .callprototype _ ();\ncall %rd1, (), proto;\n",
            ".func other() { ret; }\n",
        ),
        ("strange.instruction %r1;\n", ""),
    ],
)
def test_nothing_is_noted_in_a_kernel_of_which_something_is_unknown(body: str, before: str) -> None:
    text = module(before, kernel(f"{PRELUDE}{body}cp.async.wait_group 0;\n{FENCE}{FENCE}ret;"), header=HOPPER)
    report = lint(text, selected=Selected(rules=subjects(FAMILY)))
    assert not report.findings


def test_nothing_is_noted_in_a_function_whose_callers_may_have_issued() -> None:
    callee = ".func waits()\n{\ncp.async.wait_group 0;\nret;\n}\n"
    text = module(
        callee, kernel(f"{PRELUDE}{COPY}{COMMIT}call.uni waits;\ncall.uni waits;\nret;"), header=HOPPER
    )
    assert not lint(text, selected=Selected(rules=subjects(FAMILY))).findings


# ---------------------------------------------------------------- fences


@pytest.mark.parametrize(
    "body",
    [
        f"st.shared.u32 [tile], %r0;\n{FENCE}fence.proxy.async.shared::cta; // want CO003",
        f"st.shared.u32 [tile], %r0;\n{FENCE}add.u32 %r1, %r0, 1;\nfence.proxy.async.shared::cta; // want CO003",
        f"st.shared.u32 [tile], %r0;\n@%p0 {FENCE}@%p0 fence.proxy.async.shared::cta; // want CO003",
    ],
)
def test_a_proxy_fence_with_nothing_since_the_last_one_is_noted(body: str) -> None:
    noted_at(body, wanted=1)


@pytest.mark.parametrize(
    "between",
    [
        "st.shared.u32 [tile], %r1;",
        "ld.shared.u32 %r1, [tile];",
        "st.global.u32 [%rd0], %r1;",
        "bar.sync 0;",  # writes of other threads are ordered before the second fence
        "bar.warp.sync -1;",
        "mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 0;",
        "ld.acquire.gpu.global.u32 %r1, [%rd0];",
        "atom.global.add.u32 %r1, [%rd0], 1;",
        "cp.async.wait_all;",
        "@%p1 st.shared.u32 [tile], %r1;",
    ],
)
def test_a_proxy_fence_after_an_access_or_a_synchronisation_is_not_noted(between: str) -> None:
    noted_at(f"{COPY}st.shared.u32 [tile], %r0;\n{FENCE}{between}\n{FENCE}")


def test_a_proxy_fence_after_a_narrower_or_a_guarded_one_is_not_noted() -> None:
    noted_at(f"st.shared.u32 [tile], %r0;\nst.global.u32 [%rd0], %r0;\n{FENCE}fence.proxy.async;")
    noted_at(f"st.shared.u32 [tile], %r0;\n@%p0 {FENCE}{FENCE}")
    noted_at(f"st.shared.u32 [tile], %r0;\n@%p1 bra join;\n{FENCE}join:\n{FENCE}")


WIDE = "fence.proxy.async;"


@pytest.mark.parametrize(
    ("body", "noted"),
    [
        ("{f}", True),
        ("{f}\nst.global.u32 [%rd0], %r0;", True),
        ("st.global.u32 [%rd0], %r0;\n{f}", False),
        ("st.u32 [%rd0], %r0;\n{f}", False),
        ("atom.global.add.u32 %r1, [%rd0], 1;\n{f}", False),
        # Another thread writes, and a barrier orders the fence after it.
        ("@%p0 bra write;\nbar.sync 0;\n{f}\nret;\nwrite:\nst.global.u32 [%rd0], %r0;\nbar.sync 0;", False),
        ("again:\n{f}\nst.global.u32 [%rd0], %r0;\n@%p1 bra again;", False),
        # Another CTA or grid may have written.
        ("griddepcontrol.wait;\n{f}", False),
        ("ld.acquire.gpu.global.u32 %r1, [%rd0];\n{f}", False),
        ("barrier.cluster.arrive;\nbarrier.cluster.wait;\n{f}", False),
        # The bulk copy may overwrite what was read.
        ("ld.global.u32 %r1, [%rd0];\n{f}\n" + BULK + "cp.async.bulk.wait_group 0;", False),
        ("ld.global.u32 %r1, [%rd0];\n{f}", True),
    ],
)
def test_a_proxy_fence_for_all_spaces_is_noted_where_no_write_to_global_memory_precedes(
    body: str, noted: bool
) -> None:
    fence = f"{WIDE} // want CO004" if noted else WIDE
    noted_at("st.shared.u32 [tile], %r0;\n" + body.format(f=fence))


@pytest.mark.parametrize(
    ("body", "noted"),
    [
        ("st.shared.u32 [tile], %r0;\n{f}\nst.relaxed.cta.shared.u32 [tile+4], %r0;", True),
        ("st.global.u32 [%rd0], %r0;\n{f}\nst.relaxed.cta.shared.u32 [tile+4], %r0;", False),
        ("st.shared.u32 [tile], %r0;\n{f}\nst.relaxed.gpu.global.u32 [%rd0], %r0;", False),
        ("st.shared.u32 [tile], %r0;\n{f}\nld.u32 %r1, [%rd0];", False),
        # The fence of a wider scope in between orders the store to global memory.
        (
            "st.global.u32 [%rd0], %r0;\nfence.acq_rel.sys;\nst.shared.u32 [tile], %r0;\n{f}\nst.shared.u32 [tile], %r1;",
            True,
        ),
        # Other CTAs, or the async proxy, access shared memory.
        ("st.shared.u32 [tile], %r0;\n{f}\nmapa.shared::cluster.u32 %r1, tile, 1;", False),
        ("st.shared.u32 [tile], %r0;\n{f}\nbar.sync 0;\n" + BULK + "cp.async.bulk.wait_group 0;", False),
        ("st.shared.u32 [tile], %r0;\n{f}\n" + COPY + COMMIT + "cp.async.wait_group 0;", False),
    ],
)
def test_a_memory_fence_is_noted_where_all_that_it_orders_is_in_shared_memory(body: str, noted: bool) -> None:
    fence = "fence.acq_rel.gpu;" + (" // want CO005" if noted else "")
    noted_at(body.format(f=fence))


# ---------------------------------------------------------------- calls, polls, and waits that are early


def test_a_call_of_the_driver_is_noted_only_beside_wgmma() -> None:
    declared = ".extern .func (.param .b64 result) malloc(.param .b64 size);\n"
    call = "{ .param .b64 p0; .param .b64 p1; st.param.b64 [p0], %rd0; call.uni (p1), malloc, (p0); }"
    noted_at(f"{call} // want CO002\n{MULTIPLY}wgmma.wait_group.sync.aligned 0;", before=declared, wanted=1)
    noted_at(call, before=declared)
    noted_at(
        f"call.uni other;\n{MULTIPLY}wgmma.wait_group.sync.aligned 0;", before=".func other() { ret; }\n"
    )


def test_a_wait_for_tensor_memory_is_noted_only_if_no_copy_of_a_register_is_used_soon() -> None:
    new = HOPPER.replace("8.0", "8.6").replace("sm_90a", "sm_100a")
    load = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%r9];\n"
    other = "add.u32 %r3, %r0, %r3;\n" * 33
    wait = "tcgen05.wait::ld.sync.aligned;"
    use = "st.global.u32 [%rd0], %r1;"
    noted_at(f"{load}{wait} // want CO009\n{other}{use}", header=new, wanted=1)
    noted_at(f"{load}{wait}\nadd.u32 %r2, %r1, 1;\n{other}{use}", header=new)
    noted_at(f"{load}mov.b32 %r2, %r1;\n{wait}\nadd.u32 %r4, %r2, 1;\n{other}{use}", header=new)
    noted_at(f"{load}{wait}\nbar.sync 0;\n{other}{use}", header=new)
    noted_at(f"{load}{wait}\nst.shared.u32 [tile], %r0;\n{other}{use}", header=new)


def test_ptxas_serialises_because_of_the_call_alone(tmp_path: Path) -> None:
    ptxas, rule, said = find_ptxas(), all_rules()["CO002"], []
    for block in (*rule.examples, *rule.corrections):
        (tmp_path / "k.ptx").write_text(block.code)
        command = [ptxas, "-arch", "sm_90a", tmp_path / "k.ptx", "-o", tmp_path / "k.cubin"]
        run = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
        said.append("serialized" in run.stdout + run.stderr)
    assert said == [True, False]


@pytest.mark.parametrize(
    ("loop", "noted"),
    [
        ("again:\n{t}\n@!%p2 bra again;", True),
        (
            "again:\nadd.u32 %r1, %r9, 8;\n{t}\nselp.u32 %r2, 1, 0, %p2;\nsetp.eq.u32 %p3, %r2, 0;\n@%p3 bra again;",
            True,
        ),
        ("again:\n{t}\nnanosleep.u32 20;\n@!%p2 bra again;", False),
        (
            "again:\n{t}\n@%p2 bra done;\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p3, %r1, %r9;\n@%p3 bra again;\ndone:",
            False,
        ),
        ("again:\n{t}\nmov.u32 %r1, %clock;\n@!%p2 bra again;", False),
        ("again:\n{t}\nld.shared.u32 %r1, [tile];\n@!%p2 bra again;", False),
        ("{t}", False),
    ],
)
def test_a_poll_is_noted_where_its_loop_does_nothing_else(loop: str, noted: bool) -> None:
    test = "mbarrier.test_wait.parity.shared::cta.b64 %p2, [full], 0;"
    noted_at(loop.format(t=test + " // want CO007" if noted else test))


def test_a_poll_is_not_noted_where_there_is_no_try_wait() -> None:
    poll = "again:\nmbarrier.test_wait.shared.b64 %p2, [full], %rd0;\n@!%p2 bra again;"
    noted_at(poll, header=HOPPER.replace("sm_90a", "sm_80"))


@pytest.mark.parametrize(
    ("body", "noted"),
    [
        ("{w}\n@%p0 mbarrier.init.shared::cta.b64 [full], 1;\nbar.sync 0;", True),
        ("{w}\nld.global.u32 %r1, [%rd0];\nbar.sync 0;", False),
        ("{w}\n@%p1 bra join;\nld.global.u32 %r1, [%rd0];\njoin:\nbar.sync 0;", False),
        ("{w}\nst.u32 [%rd0], %r1;\nbar.sync 0;", False),
        ("bar.sync 0;\n{w}\nadd.u32 %r1, %r0, 1;", False),
        # Not every thread waits.
        ("@%p0 {w}\nbar.sync 0;", False),
        ("@%p0 bra join;\n{w}\njoin:\nbar.sync 0;", False),
    ],
)
def test_an_early_wait_for_earlier_grids_is_noted_where_all_threads_wait_before_a_set_up(
    body: str, noted: bool
) -> None:
    wait = "griddepcontrol.wait;"
    noted_at(body.format(w=wait + " // want CO006" if noted else wait))
