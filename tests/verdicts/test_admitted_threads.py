"""What is proved of kernels without ``.reqntid`` whose variables of shared memory admit no more than so many threads."""

from __future__ import annotations

import pytest

from tclint.findings.verdicts import Assumption, HazardClass, Status, Verdict
from tclint.verdicts import verdicts
from tclint.verdicts.admitted_threads import AdmittedThreads
from tests.tools.support import kernel, last_kernel, loop

ALL = frozenset(Assumption)
OTHERS = ALL - {Assumption.IN_BOUNDS}
SHARED = """.shared .align 4 .b32 first[128];
.shared .align 4 .b32 second[128];
.shared .align 4 .b32 more[129];
.shared .align 4 .b32 few[16];
.shared .align 4 .b32 single[32];
.shared .align 4 .b32 warps[4];
.shared .align 4 .b32 last;
.shared .align 16 .b8 rows[1664];
.extern .shared .align 16 .b8 dynamic[];"""
START = """ld.param.u64 %rd1, [pointer];
ld.param.u32 %r9, [number];
mov.u32 %r1, %tid.x;
shl.b32 %r2, %r1, 2;
mov.u32 %r3, first;
add.s32 %r4, %r3, %r2;
mov.u32 %r5, second;
add.s32 %r6, %r5, %r2;
mov.u32 %r7, more;
add.s32 %r8, %r7, %r2;
mov.u32 %r10, dynamic;
add.s32 %r11, %r10, %r2;
mov.u32 %r12, few;
add.s32 %r13, %r12, %r2;
shr.u32 %r14, %r1, 5;
shl.b32 %r14, %r14, 2;
mov.u32 %r15, warps;
add.s32 %r15, %r15, %r14;
and.b32 %r16, %r1, 31;
setp.ne.s32 %p1, %r1, 0;
setp.ne.s32 %p2, %r16, 0;
setp.ge.s32 %p3, %r1, %r9;
setp.eq.s32 %p4, %r9, 0;
setp.ge.s32 %p7, %r1, 64;"""


def skipped(condition: str, body: str) -> str:
    return f"@{condition} bra over;\n{body}\nover:"


def shared(body: str, assume: frozenset[Assumption] = ALL, size: str = "") -> Verdict:
    model = last_kernel(SHARED, kernel(f"{START}\n{body}\nret;", directives=size))
    (found,) = verdicts(model, assume=assume, only=[HazardClass.SHARED_MEMORY])
    return found


FIRST, SECOND = "st.shared.b32 [%r4], %r9;", "ld.shared.b32 %r50, [%r6];"
OF_WARPS = skipped("%p2", "st.shared.b32 [%r15], %r9;")
LAST = "ld.shared.b32 %r51, [last];"
AFTER = skipped("%p1", "st.shared.b32 [more+512], %r9;")
MORE = "st.shared.b32 [%r8], %r9;"
PROVED = {
    "a word of each thread in two variables": f"{FIRST}\n{SECOND}",
    "a word of each thread, and one after them": f"{MORE}\n{AFTER}",
    "a word of each warp, and another variable": f"{OF_WARPS}\n{LAST}",
    "under a condition that all threads share": f"{skipped('%p4', FIRST)}\n{SECOND}",
    "the next word of each thread": f"{FIRST.replace(']', '+4]')}\n{SECOND}",
    "in a loop": loop(f"{FIRST}\n{SECOND}", first="%r9").replace("%r10", "%r30"),
}
UNKNOWN = {
    "under a condition that may choose another code for large CTAs": f"mov.u32 %r60, %ntid.x;\nsetp.gt.u32 %p8, %r60, 128;\n"
    f"@%p8 bra big;\n{FIRST}\nbra over;\nbig:\nand.b32 %r61, %r1, 127;\nshl.b32 %r61, %r61, 2;\nadd.s32 %r62, %r3, %r61;\n"
    "st.shared.b32 [%r62], %r1;\nover:",
    "in a loop that may have no iteration": f"mov.u32 %r60, 0;\ntop:\nsetp.ge.s32 %p8, %r60, %r9;\n@%p8 bra none;\n{MORE}\n"
    f"add.s32 %r60, %r60, 1;\nbra top;\nnone:\n{AFTER}",
    "rows of ldmatrix, whose addresses count in some lanes": "shl.b32 %r60, %r1, 4;\nadd.s32 %r61, %r10, %r60;\n"
    "mov.u32 %r62, rows;\nadd.s32 %r62, %r62, %r60;\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r63}, [%r62];\n"
    "and.b32 %r64, %r1, 95;\nsetp.lt.u32 %p8, %r1, 96;\nselp.b32 %r65, %r1, %r64, %p8;\nshl.b32 %r65, %r65, 2;\n"
    "add.s32 %r66, %r7, %r65;\nst.shared.b32 [%r66], %r1;",
    "the neighbour's word": f"{FIRST}\nld.shared.b32 %r50, [%r4+4];\n{SECOND}",
    "a word of each thread, and the last one of them": f"{MORE}\n{AFTER.replace('512', '508')}",
    "the second words of each thread, and one after them": f"{MORE.replace(']', '+4]')}\n{AFTER}",
    "under a condition of each thread": f"{skipped('%p3', FIRST)}\n{LAST}",
    "under a condition of each thread, guarded": f"@!%p3 {FIRST}\n{LAST}",
    "of some threads": f"{skipped('%p7', FIRST)}\n{FIRST.replace('%r4', '%r8')}\n{AFTER.replace('512', '256')}",
    "under a condition that is loaded": (
        f"ld.global.b32 %r40, [%rd1];\nsetp.eq.s32 %p6, %r40, 0;\n{skipped('%p6', FIRST)}\n{LAST}"
    ),
    "fewer than a warp": f"st.shared.b32 [%r13], %r9;\n{LAST}",
    "one warp": f"mov.u32 %r20, single;\nadd.s32 %r20, %r20, %r2;\nst.shared.b32 [%r20], %r9;\n{LAST}",
    "what precedes the variable, of later threads": (
        f"{FIRST}\n{LAST}\nsetp.lt.s32 %p6, %r1, 64;\n" + skipped("%p6", "ld.shared.b32 %r50, [%r4+-600];")
    ),
    "a variable without a size": "st.shared.b32 [%r11], %r9;\nld.shared.b32 %r50, [%r10+512];",
    "a word before the variable": f"{FIRST.replace(']', '+-4]')}\n{LAST}",
    "a place that memory decides": (
        f"ld.global.b32 %r40, [%rd1];\nadd.s32 %r40, %r40, %r4;\nst.shared.b32 [%r40], %r9;\n{SECOND}"
    ),
}


@pytest.mark.parametrize("name", PROVED)
def test_variables_bound_the_threads_under_an_assumption(name: str) -> None:
    found = shared(PROVED[name])
    assert found.status is Status.PROVED, found.reasons
    assert Assumption.IN_BOUNDS in found.assumptions
    assert shared(PROVED[name], OTHERS).status is Status.UNKNOWN
    assert shared(PROVED[name], ALL - {Assumption.SHAPE}).status is Status.UNKNOWN
    assert shared(PROVED[name], size=".maxntid 32, 8").status is Status.UNKNOWN


@pytest.mark.parametrize("name", PROVED)
def test_a_size_that_is_stated_is_not_bounded(name: str) -> None:
    assert Assumption.IN_BOUNDS not in shared(PROVED[name], size=".reqntid 96").assumptions
    assert shared(PROVED[name], size=".reqntid 256").status is Status.UNKNOWN


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_bounds_no_threads_is_unknown(name: str) -> None:
    assert shared(UNKNOWN[name]).status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("rule", "always", "name"),
    [
        ("_certainly", (1 << 1024) - 1, "under a condition of each thread"),
        ("_outside", (1 << 1024) - (1 << 64), "a variable without a size"),
        ("most_threads", 128, "under a condition of each thread"),
    ],
)
def test_a_rule_that_always_holds_is_noticed(
    rule: str, always: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AdmittedThreads, rule, lambda *_: always)
    assert shared(UNKNOWN[name]).status is Status.PROVED
