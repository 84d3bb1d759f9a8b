"""What is proved of shared memory that ``tcgen05.mma`` reads and all threads store to again once it is complete."""

from __future__ import annotations

import pytest

from tclint.findings.verdicts import Assumption, HazardClass, Status, Verdict
from tclint.verdicts import verdicts
from tests.tools.matrices import LINES_128, descriptor
from tests.tools.support import HEADER, kernel, last_kernel, loop

ALL = frozenset(Assumption)
LETTER = ALL - {Assumption.COMPLETED_READS}
SHARED = ".shared .align 8 .b64 done[2];\n.shared .align 1024 .b8 tile[32768];\n"
BARRIER = "bar.sync 0;"
FENCE = "fence.proxy.async.shared::cta;"
STORE = "st.shared.b32 [%r4], %r9;"
COPY = "cp.async.ca.shared.global [%r4], [%rd1], 4;\ncp.async.commit_group;\ncp.async.wait_group 0;"
MMA = "@%p0 tcgen05.mma.cta_group::1.kind::f16 [%r2], %rd5, %rd6, %r6, %p4;"
COMMIT = "@%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r8];"
FLIP = "xor.b32 %r20, %r20, 1;"
BEFORE = f"""mov.u32 %r1, %tid.x;
ld.param.u64 %rd1, [pointer];
ld.param.u32 %r9, [number];
mov.u32 %r8, done;
mov.u32 %r2, 0;
mov.u32 %r6, 136314896;
mov.u32 %r20, 0;
mov.u32 %r3, tile;
shl.b32 %r5, %r1, 2;
add.u32 %r4, %r3, %r5;
setp.eq.u32 %p0, %r1, 0;
setp.lt.u32 %p1, %r1, 32;
{descriptor("%rd5", "%r3", LINES_128)}
add.u32 %r61, %r3, 16384;
{descriptor("%rd6", "%r61", LINES_128)}
setp.ne.b32 %p4, 0, 0;
@%p0 mbarrier.init.shared::cta.b64 [%r8], 1;
{BARRIER}"""


def wait(parity: str = "%r20", order: str = "") -> str:
    return f"w:\nmbarrier.try_wait.parity{order}.shared::cta.b64 %p2, [%r8], {parity};\n@!%p2 bra w;"


STEPS = {
    "store": STORE,
    "fence": FENCE,
    "stored": BARRIER,
    "product": f"{MMA}\n{MMA}",
    "commit": COMMIT,
    "wait": wait(),
    "flip": FLIP,
}


def shared(steps: dict[str, str], assume: frozenset[Assumption] = ALL) -> Verdict:
    body = "\n".join((BEFORE, loop("\n".join(steps.values())), "ret;"))
    made = last_kernel(SHARED, kernel(body, directives=".reqntid 128"), header=HEADER)
    (found,) = verdicts(made, assume=assume, only=[HazardClass.SHARED_MEMORY])
    return found


def without(*names: str) -> dict[str, str]:
    return {name: step for name, step in STEPS.items() if name not in names}


@pytest.mark.parametrize("step", [STORE, COPY])
def test_what_a_product_has_read_is_stored_to_again_under_an_assumption(step: str) -> None:
    found = shared({**STEPS, "store": step})
    assert found.status is Status.PROVED, found.reasons
    assert Assumption.COMPLETED_READS in found.assumptions
    assert shared({**STEPS, "store": step}, LETTER).status is Status.UNKNOWN


def test_a_proxy_fence_after_the_wait_needs_no_assumption() -> None:
    found = shared({**STEPS, "wait": f"{wait()}\n{FENCE}"}, LETTER)
    assert found.status is Status.PROVED, found.reasons
    assert Assumption.COMPLETED_READS not in shared({**STEPS, "wait": f"{wait()}\n{FENCE}"}).assumptions


WRONG = {
    "no wait": without("wait", "flip"),
    "a parity that stays": without("flip"),
    "the other parity": {**STEPS, "wait": f"xor.b32 %r21, %r20, 1;\n{wait('%r21')}"},
    "a relaxed wait": {**STEPS, "wait": wait(order=".relaxed.cluster")},
    "a wait of one warp": {**STEPS, "wait": f"@!%p1 bra d;\n{wait()}\nd:"},
    "a wait that gives up": {**STEPS, "wait": wait().replace("bra w;", "bra d;\nd:")},
    "no commit": without("commit"),
    "a product after the commit": {**STEPS, "commit": f"{COMMIT}\n{MMA}"},
    "a commit on another mbarrier": {**STEPS, "commit": COMMIT.replace("[%r8]", "[%r8+8]")},
    "no fence before the product": without("fence"),
    "a fence after the barrier alone": {**without("fence"), "stored": f"{BARRIER}\n@%p1 {FENCE}"},
    "no barrier before the product": without("stored"),
    "a store between the product and the wait": {**STEPS, "commit": f"{COMMIT}\n{STORE}"},
    "a copy that is pending": {**STEPS, "store": COPY.replace("wait_group 0", "wait_group 1")},
}


@pytest.mark.parametrize("name", WRONG)
def test_what_may_still_be_read_is_unknown(name: str) -> None:
    assert shared(WRONG[name]).status is Status.UNKNOWN
