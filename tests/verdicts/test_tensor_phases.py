"""What is proved of tensor memory that multiplications write: one thread issues and commits them, and all threads wait."""

from __future__ import annotations

import pytest

from tclint.findings.verdicts import Assumption, HazardClass, Status, Verdict
from tclint.verdicts import verdicts
from tclint.verdicts.own_mbarriers import OwnMbarriers
from tclint.verdicts.tensor_order import TrackedColumns
from tests.tools.support import HEADER, kernel, last_kernel, loop

ALL = frozenset(Assumption)
SHARED = ".shared .align 4 .b32 slot;\n.shared .align 8 .b64 done[4];\n.shared .align 1024 .b8 tile[8192];\n"
MMA = "@%p0 tcgen05.mma.cta_group::1.kind::f16 [%r2], %rd5, %rd6, %r6, %p4;"
COMMIT = "@%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r8];"
LD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r15}, [%r2];"
ST = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {%r9};"
LOADED, STORED = "tcgen05.wait::ld.sync.aligned;", "tcgen05.wait::st.sync.aligned;"
BARRIER = "bar.sync 0;"
DEALLOC = "@%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 256;"


def wait(parity: str = "%r20", at: str = "%r8", label: str = "w", order: str = "") -> str:
    return f"{label}:\nmbarrier.try_wait.parity{order}.shared::cta.b64 %p2, [{at}], {parity};\n@!%p2 bra {label};"


BEFORE = {
    "indices": """mov.u32 %r1, %tid.x;
ld.param.u64 %rd1, [pointer];
ld.param.u32 %r9, [number];
mov.u32 %r8, done;
mov.u32 %r6, 136314896;
mov.u32 %r20, 0;
mov.u32 %r11, 0;
setp.eq.u32 %p0, %r1, 0;
setp.lt.u32 %p1, %r1, 32;
setp.gt.s32 %p9, %r9, 3;""",
    "alloc": "@%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 256;",
    "init": "@%p0 mbarrier.init.shared::cta.b64 [%r8], 1;",
    "second": "@%p0 mbarrier.init.shared::cta.b64 [%r8+8], 1;",
    "begun": BARRIER,
    "address": "ld.shared.b32 %r2, [slot];",
}
STEPS = {
    "product": f"{MMA}\n{MMA}",
    "commit": COMMIT,
    "wait": wait(),
    "load": LD,
    "loaded": LOADED,
    "read": BARRIER,
    "flip": "xor.b32 %r20, %r20, 1;",
}
"""What a thread does in an iteration, by name."""


def tensor(
    steps: dict[str, str],
    before: dict[str, str] = BEFORE,
    after: str = f"{BARRIER}\n{DEALLOC}",
    assume: frozenset[Assumption] = ALL,
    size: str = ".reqntid 128",
) -> Verdict:
    body = "\n".join((*before.values(), loop("\n".join(steps.values())), after, "ret;"))
    made = last_kernel(SHARED, kernel(body, directives=size), header=HEADER)
    (found,) = verdicts(made, assume=assume, only=[HazardClass.TENSOR_MEMORY])
    return found


def without(of: dict[str, str], *names: str) -> dict[str, str]:
    return {name: step for name, step in of.items() if name not in names}


def before(steps: dict[str, str], *, step: str, other: str) -> dict[str, str]:
    """The steps with one of them moved before another one."""
    moved = {name: each for name, each in steps.items() if name != step}
    at = list(moved).index(other)
    items = list(moved.items())
    return dict([*items[:at], (step, steps[step]), *items[at:]])


CP = "@%p0 tcgen05.cp.cta_group::1.128x256b [%r2], %rd5;"
OTHER_COLUMNS = LD.replace("[%r2]", "[%r2+128]")
PROVED = {
    "a product that all threads wait for": STEPS,
    "a barrier before the columns are read": {**STEPS, "wait": f"{wait()}\n{BARRIER}"},
    "a copy and a product": {**STEPS, "product": f"{CP}\n{MMA}"},
    "columns of another tile during the product": {**STEPS, "commit": f"{COMMIT}\n{OTHER_COLUMNS}\n{LOADED}"},
    "stored before the product": {**STEPS, "product": f"{ST}\n{STORED}\n{BARRIER}\n{MMA}"},
    "two products, each waited for": {
        **STEPS,
        "loaded": f"{LOADED}\n{BARRIER}\n{MMA}\n{COMMIT.replace('[%r8]', '[%r8+8]')}\n{wait(at='%r8+8', label='v')}\n{LD}\n{LOADED}",
    },
}
WRONG = {
    "no wait": without(STEPS, "wait"),
    "a parity that stays": without(STEPS, "flip"),
    "a parity that alternates twice": {**STEPS, "flip": f"{STEPS['flip']}\n{STEPS['flip']}"},
    "the other parity": {**STEPS, "wait": f"xor.b32 %r21, %r20, 1;\n{wait('%r21')}"},
    "no commit": without(STEPS, "commit"),
    "a commit before the product": before(STEPS, step="commit", other="product"),
    "a product after the commit": {**STEPS, "commit": f"{COMMIT}\n{MMA}"},
    "two commits": {**STEPS, "commit": f"{COMMIT}\n{COMMIT}"},
    "no barrier after the load": without(STEPS, "read"),
    "a barrier of a warp after the load": {**STEPS, "read": "bar.warp.sync -1;"},
    "a barrier of half the CTA": {**STEPS, "read": "setp.lt.u32 %p6, %r1, 64;\n@%p6 bar.sync 1, 64;"},
    "a load that is pending": without(STEPS, "loaded"),
    "a load that is waited for after the barrier": before(STEPS, step="read", other="loaded"),
    "a store that is waited for as a load": {**STEPS, "load": ST},
    "a load before the wait": before(STEPS, step="load", other="wait"),
    "a load of the last column before the wait": {
        **STEPS,
        "commit": f"{COMMIT}\n{LD.replace('[%r2]', '[%r2+127]')}\n{LOADED}",
    },
    "a load whose columns a loop moves": {
        **STEPS,
        "commit": f"{COMMIT}\nadd.s32 %r21, %r2, %r10;\n{LD.replace('[%r2]', '[%r21+128]')}\n{LOADED}",
    },
    "freed before the wait": {**STEPS, "commit": f"{COMMIT}\n{DEALLOC}"},
    "a relaxed wait": {**STEPS, "wait": wait(order=".relaxed.cluster")},
    "a wait that gives up": {**STEPS, "wait": wait().replace("bra w;", "bra d;\nd:")},
    "a wait for another mbarrier": {**STEPS, "wait": wait(at="%r8+8")},
    "a commit on another mbarrier": {**STEPS, "commit": COMMIT.replace("[%r8]", "[%r8+8]")},
    "a wait of one warp": {**STEPS, "wait": f"@%p1 bra w;\nbra d;\n{wait()}\nd:"},
    "a product by two threads": {**STEPS, "product": f"setp.lt.u32 %p6, %r1, 2;\n{MMA.replace('%p0', '%p6')}"},
    "a product by another thread than the commit": {
        **STEPS,
        "product": f"setp.eq.u32 %p6, %r1, 64;\n{MMA.replace('%p0', '%p6')}",
    },
    "an arrival of another thread": {
        **STEPS,
        "flip": f"{STEPS['flip']}\nsetp.eq.u32 %p6, %r1, 64;\n@%p6 mbarrier.arrive.shared::cta.b64 _, [%r8];\n{BARRIER}",
    },
    "an unknown mbarrier signalled": {
        **STEPS,
        "flip": f"{STEPS['flip']}\nld.shared.b32 %r22, [tile];\n{COMMIT.replace('%r8', '%r22')}\n{BARRIER}",
    },
    "a store over the mbarrier": {**STEPS, "read": f"st.shared.b32 [%r8], %r9;\n{BARRIER}"},
    "a store that may be over the mbarrier": {**STEPS, "read": f"st.shared.b32 [%r9], %r9;\n{BARRIER}"},
    "a pair of CTAs": {name: step.replace("::1", "::2") for name, step in STEPS.items()},
    "a product of a pair of CTAs": {**STEPS, "product": MMA.replace("::1", "::2")},
    "a commit for several CTAs": {
        **STEPS,
        "commit": COMMIT.replace(".b64 [%r8]", ".multicast::cluster.b64 [%r8], %h1"),
    },
    "initialised again": {**STEPS, "read": f"{BARRIER}\n@%p0 mbarrier.init.shared::cta.b64 [%r8], 1;\n{BARRIER}"},
}  # fmt: skip


@pytest.mark.parametrize("name", PROVED)
def test_products_that_all_threads_wait_for_are_ordered(name: str) -> None:
    found = tensor(PROVED[name])
    assert (found.status, found.reasons) == (Status.PROVED, ())
    assert Assumption.IMPLIED_FENCES in found.assumptions


@pytest.mark.parametrize("name", WRONG)
def test_a_kernel_that_lacks_one_premise_is_unknown(name: str) -> None:
    assert tensor(WRONG[name]).status is Status.UNKNOWN


@pytest.mark.parametrize(
    "changed",
    [
        without(BEFORE, "init"),
        without(BEFORE, "begun"),
        {**BEFORE, "init": BEFORE["init"].replace("], 1", "], 2")},
        {**BEFORE, "init": BEFORE["init"].replace("@%p0 ", "")},
        {**BEFORE, "init": f"and.pred %p6, %p0, %p9;\n{BEFORE['init'].replace('%p0', '%p6')}"},
        {**BEFORE, "indices": BEFORE["indices"].replace("%r20, 0", "%r20, 1")},
        {**BEFORE, "indices": BEFORE["indices"].replace("%r20, 0", "%r20, %r1")},
        {**BEFORE, "indices": BEFORE["indices"].replace("%p0, %r1, 0", "%p0, %r9, 0")},
    ],
)
def test_an_mbarrier_that_does_not_begin_as_it_should_orders_nothing(changed: dict[str, str]) -> None:
    assert tensor(STEPS, changed).status is Status.UNKNOWN


@pytest.mark.parametrize(("between", "status"), [(BARRIER, Status.PROVED), ("", Status.UNKNOWN)])
def test_a_barrier_is_between_the_initialisation_and_what_other_threads_wait_for(
    between: str, status: Status
) -> None:
    late = {**without(BEFORE, "init", "second"), "init": BEFORE["init"], "between": between}
    assert tensor(STEPS, late).status is status


CLOBBERED = "st.shared.b32 [%r8], %r9;"


@pytest.mark.parametrize(
    ("init", "status"),
    [
        (f"{CLOBBERED}\n{BARRIER}\n{BEFORE['init']}", Status.PROVED),
        (f"{CLOBBERED}\n{BEFORE['init']}", Status.UNKNOWN),
        (f"@%p0 bra i;\n{CLOBBERED}\nbra j;\ni:\n{BEFORE['init'].removeprefix('@%p0 ')}\nj:", Status.UNKNOWN),
    ],
)  # fmt: skip
def test_what_other_threads_write_before_the_initialisation_is_before_a_barrier(
    init: str, status: Status
) -> None:
    assert tensor(STEPS, {**BEFORE, "init": init}).status is status


def test_a_product_is_waited_for_before_tensor_memory_is_freed() -> None:
    late = f"{BARRIER}\n{MMA}\n{COMMIT}\n"
    freed = f"{BARRIER}\n{DEALLOC}"
    assert tensor(STEPS, after=f"{late}{wait(label='v')}\n{freed}").status is Status.PROVED
    assert tensor(STEPS, after=f"{late}{freed}").status is Status.UNKNOWN
    assert tensor(STEPS, after=f"{late}{wait('1', label='v')}\n{freed}").status is Status.UNKNOWN


def test_the_proof_rests_on_fences_that_barriers_and_waits_imply() -> None:
    fenced = {**STEPS, "wait": f"{wait()}\ntcgen05.fence::after_thread_sync;"}
    for steps in (STEPS, fenced):
        assert tensor(steps, assume=ALL - {Assumption.IMPLIED_FENCES}).status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("loop_from", "wait_from", "status"),
    [(2, 1, Status.PROVED), (3, 1, Status.PROVED), (2, 2, Status.UNKNOWN), (0, 1, Status.UNKNOWN)],
)
def test_a_condition_before_a_loop_says_what_is_skipped_in_it(
    loop_from: int, wait_from: int, status: Status
) -> None:
    """The loop after the first product is passed with so many iterations at least, and so is the wait after the loop."""
    product = f"{MMA}\n{COMMIT.replace('[%r8]', '[%r8+8]')}"
    after = "\n".join(
        (
            "setp.lt.s32 %p10, %r9, 1;\nsetp.ne.u32 %p11, %r1, 0;\nor.pred %p12, %p10, %p11;\n@%p12 bra first;",
            product.replace("@%p0 ", ""),
            f"first:\nsetp.lt.s32 %p9, %r9, {loop_from};\n@%p9 bra rest;\nmov.u32 %r23, 0;",
            f"again:\n{BARRIER}\n{wait('%r20', '%r8+8', 'u')}\nxor.b32 %r20, %r20, 1;\n{product}",
            "add.s32 %r11, %r11, 1;\nsetp.lt.s32 %p7, %r11, %r9;\n@%p7 bra again;",
            f"rest:\nsetp.lt.s32 %p8, %r9, {wait_from};\n@%p8 bra freed;",
            wait("%r20", "%r8+8", "v"),
            f"freed:\n{BARRIER}\n{DEALLOC}",
        )
    )
    found = tensor({"nothing": "mov.u32 %r22, 0;"}, after=after)
    assert found.status is status, found.reasons


ELEMENT = "shr.u32 %r21, %r1, {bits};\nshl.b32 %r21, %r21, 4;\nadd.s32 %r2, %r2, %r21;"


@pytest.mark.parametrize(
    ("element", "columns", "size", "status"),
    [
        (ELEMENT.format(bits=7), 16, 256, Status.PROVED),
        (ELEMENT.format(bits=7), 16, 512, Status.PROVED),
        (ELEMENT.format(bits=5), 16, 256, Status.PROVED),
        (ELEMENT.format(bits=7), 32, 256, Status.UNKNOWN),
        (ELEMENT.format(bits=8), 16, 512, Status.UNKNOWN),
        (ELEMENT.format(bits=7).replace("%r21, 4", "%r21, 3"), 16, 256, Status.UNKNOWN),
        (ELEMENT.format(bits=7).replace("%r21, 4", "%r21, 16"), 16, 256, Status.UNKNOWN),
        (f"{ELEMENT.format(bits=7)}\nand.b32 %r21, %r1, 32;\nadd.s32 %r2, %r2, %r21;", 16, 256, Status.PROVED),
        (f"{ELEMENT.format(bits=7)}\nshr.u32 %r21, %r1, 3;\nand.b32 %r21, %r21, 16;\nsub.s32 %r2, %r2, %r21;", 16, 256, Status.UNKNOWN),
        ("add.s32 %r2, %r2, %r9;", 16, 256, Status.UNKNOWN),
        ("", 16, 256, Status.UNKNOWN),
    ],
)  # fmt: skip
def test_warps_that_share_lanes_access_columns_of_their_own(
    element: str, columns: int, size: int, status: Status
) -> None:
    registers = ", ".join("%r9" for _ in range(columns))
    store = f"tcgen05.st.sync.aligned.32x32b.x{columns}.b32 [%r2], {{{registers}}};\n{STORED}"
    before = {**BEFORE, "element": element}
    found = tensor({"store": store}, before, size=f".reqntid {size}")
    assert found.status is status, found.reasons
    for each in (Assumption.NO_OVERFLOW, Assumption.ALLOCATED):
        assert status is Status.UNKNOWN or each in found.assumptions
        refused = tensor({"store": store}, before, assume=ALL - {each}, size=f".reqntid {size}")
        assert refused.status is Status.UNKNOWN


AGAIN = {
    "init": "@%p0 mbarrier.init.shared::cta.b64 [%r8], 1;",
    "begun": BARRIER,
    "product": STEPS["product"],
    "commit": COMMIT,
    "wait": wait("0"),
    "load": LD,
    "loaded": LOADED,
    "read": BARRIER,
    "inval": "@%p0 mbarrier.inval.shared::cta.b64 [%r8];",
}
"""An mbarrier that is initialised in each iteration, and so waited for with one parity."""
NOT_AGAIN = {
    "no initialisation": without(AGAIN, "init"),
    "an initialisation in some launches": {
        **AGAIN,
        "init": f"and.pred %p6, %p0, %p9;\n{AGAIN['init'].replace('%p0', '%p6')}",
    },
    "an initialisation in some iterations": {
        **AGAIN,
        "init": f"and.b32 %r21, %r10, 1;\nsetp.eq.u32 %p6, %r21, 0;\nand.pred %p6, %p0, %p6;\n{AGAIN['init'].replace('%p0', '%p6')}",
    },
    "an initialisation after a branch": {
        **AGAIN,
        "init": f"and.b32 %r21, %r10, 1;\nsetp.eq.u32 %p6, %r21, 0;\n@%p6 bra a;\n{AGAIN['init']}\na:",
    },
    "an initialisation by all threads": {**AGAIN, "init": AGAIN["init"].removeprefix("@%p0 ")},
    "no end": without(AGAIN, "inval"),
    "an end in some launches": {
        **AGAIN,
        "inval": f"and.pred %p6, %p0, %p9;\n{AGAIN['inval'].replace('%p0', '%p6')}",
    },
    "no barrier after the initialisation": without(AGAIN, "begun"),
    "no barrier before the end": without(AGAIN, "read"),
    "an end by another thread than the next initialisation": {
        **AGAIN,
        "inval": f"setp.eq.u32 %p6, %r1, 64;\n{AGAIN['inval'].replace('%p0', '%p6')}",
    },
    "the end before the wait": before(AGAIN, step="inval", other="wait"),
    "the end before the product": before(AGAIN, step="inval", other="product"),
    "the other parity": {**AGAIN, "wait": wait("1")},
    "a parity that alternates": {**AGAIN, "wait": wait(), "flip": STEPS["flip"]},
    "a count of two": {**AGAIN, "init": AGAIN["init"].replace("], 1", "], 2")},
    "no wait": without(AGAIN, "wait"),
    "no commit": without(AGAIN, "commit"),
    "a store to it after its initialisation": {**AGAIN, "begun": f"{BARRIER}\nst.shared.b32 [%r8], %r9;"},
}  # fmt: skip


def test_an_mbarrier_may_be_initialised_again_in_each_iteration() -> None:
    once = without(BEFORE, "init", "second")
    assert tensor(AGAIN, once).status is Status.PROVED
    other = {**AGAIN, "init": f"setp.eq.u32 %p6, %r1, 64;\n{AGAIN['init'].replace('%p0', '%p6')}"}
    assert tensor({**other, "ended": BARRIER}, once).status is Status.PROVED
    after = f"{BARRIER}\n{AGAIN['init']}\n{BARRIER}\n{MMA}\n{COMMIT}\n{wait('0', label='v')}\n{BARRIER}\n{DEALLOC}"
    assert tensor(AGAIN, once, after).status is Status.PROVED
    assert (
        tensor(AGAIN, once, after.replace(", 0;\n@!%p2 bra v", ", 1;\n@!%p2 bra v")).status is Status.UNKNOWN
    )


@pytest.mark.parametrize("name", NOT_AGAIN)
def test_an_mbarrier_that_is_not_initialised_again_as_it_should_be_orders_nothing(name: str) -> None:
    assert tensor(NOT_AGAIN[name], without(BEFORE, "init", "second")).status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("owner", "rule", "steps", "start"),
    [
        (TrackedColumns, "_kept", WRONG["a store over the mbarrier"], BEFORE),
        (TrackedColumns, "apart", WRONG["a load of the last column before the wait"], BEFORE),
        (TrackedColumns, "_ranges_apart", WRONG["a load of the last column before the wait"], BEFORE),
        (
            OwnMbarriers,
            "always",
            NOT_AGAIN["an initialisation in some launches"],
            without(BEFORE, "init", "second"),
        ),
    ],
)
def test_a_rule_that_always_holds_is_noticed(
    owner: type, rule: str, steps: dict[str, str], start: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checker and the prover share these rules, so a kernel must show that one is wrong."""
    assert tensor(steps, start).status is Status.UNKNOWN
    monkeypatch.setattr(owner, rule, lambda *arguments: True)
    assert tensor(steps, start).status is Status.PROVED
