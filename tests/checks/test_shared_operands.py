"""The rules about shared memory that descriptors address; the pages of the rules hold the plain cases."""

from __future__ import annotations

import pytest

from tests.tools.support import HOPPER, agrees, by_rule, kernel, lint, module

BLACKWELL = ".version 8.6\n.target sm_100a\n.address_size 64\n"
START = """
    .shared .align 1024 .b8 tile[65536];
    .shared .align 8 .b64 done;
    mov.u32 %r0, %tid.x;
    ld.param.u32 %r9, [number];
    ld.param.u64 %rd8, [pointer];
    setp.ne.b32 %p0, 0, 0;
    mov.u32 %r1, tile;
    shl.b32 %r2, %r0, 4;
    add.u32 %r3, %r1, %r2;
"""
DESCRIPTORS = {
    "and, or": "shr.u32 %r4, %r1, 4;\nand.b32 %r4, %r4, 16383;\ncvt.u64.u32 %rd0, %r4;\nor.b64 %rd0, %rd0, 4611686293305294848;",
    "and, shr, or": "and.b32 %r4, %r1, 262128;\nshr.u32 %r4, %r4, 4;\ncvt.u64.u32 %rd0, %r4;\nor.b64 %rd0, %rd0, 4611686293305294848;",
    "bfe, or": "bfe.u32 %r4, %r1, 4, 14;\ncvt.u64.u32 %rd0, %r4;\nor.b64 %rd0, %rd0, 4611686293305294848;",
    "pair": "shr.u32 %r4, %r1, 4;\nand.b32 %r4, %r4, 16383;\nor.b32 %r4, %r4, 65536;\nmov.b64 %rd0, {%r4, %r9};",
    "bfi": "shr.u32 %r4, %r1, 4;\ncvt.u64.u32 %rd9, %r4;\nbfi.b64 %rd0, %rd9, 4611686293305294848, 0, 14;",
    "added": "shr.u32 %r4, %r1, 4;\nand.b32 %r4, %r4, 16383;\ncvt.u64.u32 %rd0, %r4;\nadd.s64 %rd0, %rd0, 4611686293305294848;",
}
FENCE = "wgmma.fence.sync.aligned;"
ISSUE = "add.s64 %rd1, %rd0, 512;\nwgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd0, %rd1, %p0, 1, 1, 0, 0;"
COMMIT = "wgmma.commit_group.sync.aligned;"
STORE = "st.shared.v4.b32 [%r3], {%r0, %r0, %r0, %r0};"


def wait(depth: int = 0) -> str:
    return f"wgmma.wait_group.sync.aligned {depth};"


def hopper(body: str, descriptor: str = "and, or") -> str:
    return module(kernel(f"{START}\n{DESCRIPTORS[descriptor]}\n{body}\nret;"), header=HOPPER)


@pytest.mark.parametrize("descriptor", DESCRIPTORS)
def test_the_start_address_of_a_descriptor(descriptor: str) -> None:
    agrees(hopper(f"{FENCE}\n{ISSUE}\n{COMMIT}\n{STORE} // want WG011\n{wait()}", descriptor), "WG011")
    beside = STORE.replace("[%r3]", "[%r3+16]")
    agrees(hopper(f"{FENCE}\n{ISSUE}\n{COMMIT}\n{beside}\n{wait()}", descriptor), "WG011")


def ring(waiting: str, want: str = "") -> str:
    """A round multiplies one stage of three and fills the one before it."""
    return f"""
    mov.u32 %r5, 0;
    mov.u32 %r6, 0;
    mov.u32 %r7, 2;
loop:
    mad.lo.u32 %r10, %r6, 16384, %r1;
    bfe.u32 %r10, %r10, 4, 14;
    cvt.u64.u32 %rd0, %r10;
    {FENCE}
    {ISSUE}
    {COMMIT}
    {waiting}
    mad.lo.u32 %r11, %r7, 16384, %r3;
    cp.async.cg.shared.global [%r11], [%rd8], 16;{want}
    add.u32 %r6, %r6, 1;
    setp.eq.u32 %p1, %r6, 3;
    selp.b32 %r6, 0, %r6, %p1;
    add.u32 %r7, %r7, 1;
    setp.eq.u32 %p2, %r7, 3;
    selp.b32 %r7, 0, %r7, %p2;
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p3, %r5, %r9;
    @%p3 bra loop;
    {wait()}
    cp.async.wait_all;
"""


WGMMA = {
    "waited for": f"{FENCE}\n{ISSUE}\n{COMMIT}\n{wait()}\n{STORE}",
    "not committed": f"{FENCE}\n{ISSUE}\n{STORE} // want WG011\n{COMMIT}\n{wait()}",
    "the second matrix": f"{FENCE}\n{ISSUE}\n{COMMIT}\nst.shared.u32 [tile+8192], %r0; // want WG011\n{wait()}",
    "stmatrix": f"{FENCE}\n{ISSUE}\n{COMMIT}\nstmatrix.sync.aligned.m8n8.x4.shared.b16 [%r3], {{%r4, %r5, %r6, %r7}}; // want WG011\n{wait()}",
    "an atomic operation": f"{FENCE}\n{ISSUE}\n{COMMIT}\natom.shared.add.u32 %r5, [%r3], 1; // want WG011\n{wait()}",
    "a bulk copy": f"{FENCE}\n{ISSUE}\n{COMMIT}\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd8], 4096, [done]; // want WG011\n{wait()}",
    "a read": f"{FENCE}\n{ISSUE}\n{COMMIT}\nld.shared.u32 %r5, [%r3];\n{wait()}",
    "an unknown address": f"{FENCE}\n{ISSUE}\n{COMMIT}\nadd.u32 %r5, %r1, %r9;\nst.shared.u32 [%r5], %r0;\n{wait()}",
    "a ring, its stage two iterations late": ring(wait(1)),
    "a ring, nothing waited for": ring("", " // want WG011"),
    "a ring, one group too many": ring(wait(2), " // want WG011"),
}  # fmt: skip


@pytest.mark.parametrize("case", WGMMA)
def test_wgmma(case: str) -> None:
    agrees(hopper(WGMMA[case]), "WG011")


def test_writes_of_one_cause_are_counted() -> None:
    (finding,) = by_rule(
        lint(hopper(f"{FENCE}\n{ISSUE}\n{COMMIT}\n{wait(1)}\n{STORE}\n{STORE}\n{wait()}")), "WG011"
    )
    assert finding.count == 1
    assert "wait_group 1 leaves the newest group in flight" in finding.message
    assert [s.message for s in finding.steps][1:3] == ["committed here", "waits for all but the newest group"]


MMA = "setp.eq.u32 %p1, %r0, 0;\n@%p1 tcgen05.mma.cta_group::1.kind::f16 [%r9], %rd0, %rd1, 69206032, %p0;"
COMMIT5 = "@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [done];"
PASS = "wait: mbarrier.try_wait.parity.shared.b64 %p2, [done], 0;\n@!%p2 bra wait;"

TCGEN05 = {
    "waited for": f"{MMA}\n{COMMIT5}\n{PASS}\n{STORE}",
    "not waited for": f"{MMA}\n{COMMIT5}\n{STORE} // want TC012\n{PASS}",
    "not committed": f"{MMA}\n{STORE} // want TC012\n{COMMIT5}\n{PASS}",
    "copied to tensor memory": f"setp.eq.u32 %p1, %r0, 0;\n@%p1 tcgen05.cp.cta_group::1.128x256b [%r9], %rd0;\n{COMMIT5}\n{STORE} // want TC012\n{PASS}",
    "other bytes": f"{MMA}\n{COMMIT5}\nst.shared.u32 [%r3+16], %r0;\n{PASS}",
    "written by a thread that never comes from the mma": f"{MMA}\n{COMMIT5}\n@%p1 bra on;\n{STORE}\non:\n{PASS}",
    "another thread waited": f"{MMA}\n{COMMIT5}\nsetp.lt.u32 %p3, %r0, 64;\n@%p3 bra on;\n{PASS}\non: bar.sync 0;\n{STORE}",
}  # fmt: skip


@pytest.mark.parametrize("case", TCGEN05)
def test_tcgen05(case: str) -> None:
    agrees(
        module(kernel(f"{START}\n{DESCRIPTORS['and, or']}\n{TCGEN05[case]}\nret;"), header=BLACKWELL), "TC012"
    )


@pytest.mark.parametrize(("case", "commits"), [("not waited for", ["committed here"]), ("not committed", [])])
def test_the_commit_to_wait_for_is_shown(case: str, commits: list[str]) -> None:
    text = module(kernel(f"{START}\n{DESCRIPTORS['and, or']}\n{TCGEN05[case]}\nret;"), header=BLACKWELL)
    (finding,) = by_rule(lint(text), "TC012")
    assert [s.message for s in finding.steps][1:-1] == commits
    assert finding.help.startswith(
        "wait for the mbarrier of its commit" if commits else "commit it to an mbarrier"
    )
