"""What is proved where the lanes of a warp store one value to one address."""

from __future__ import annotations

import pytest

from tclint.findings.verdicts import HazardClass, Status, Verdict
from tclint.verdicts import verdicts
from tclint.verdicts.lanes import Lanes
from tests.tools.support import kernel, last_kernel, loop

SHARED = ".shared .align 16 .b8 one[4096];"
START = """ld.param.u64 %rd1, [pointer];
ld.param.u32 %r9, [number];
mov.u32 %r1, %tid.x;
shr.u32 %r2, %r1, 5;
shl.b32 %r3, %r2, 2;
mov.u32 %r4, one;
add.s32 %r5, %r4, %r3;
and.b32 %r6, %r1, 31;
setp.eq.s32 %p1, %r6, 0;
setp.eq.s32 %p2, %r9, 0;
ld.volatile.global.b32 %r20, [%rd1];
mov.b32 %f1, %r20;"""


def steps(*distances: int, operation: str = "add.f32", mask: str = "-1", width: int = 31) -> str:
    """%f1 combined with what lanes at these *distances* hold, one after the other; the result is in %f30."""
    lines = list[str]()
    for n, distance in enumerate(distances, 1):
        last = 30 if n == len(distances) else n + 1
        lines += [
            f"mov.b32 %r{60 + n}, %f{n};",
            f"shfl.sync.bfly.b32 %r{70 + n}, %r{60 + n}, {distance}, {width}, {mask};",
            f"mov.b32 %f{40 + n}, %r{70 + n};",
            f"{operation} %f{last}, %f{n}, %f{40 + n};",
        ]
    return "\n".join(lines)


def halves(
    *distances: int, pack: str = "cvt.u32.u16 %r{0}, {1};", take: str = "cvt.u16.u32 {0}, %r{1};"
) -> str:
    """The same of 16 bits: %h1 combined with what other lanes hold, which are packed into a register and taken out of it; the
    result is in %h30."""
    lines = ["cvt.u16.u32 %h1, %r20;", "cvt.u16.u32 %h10, %r9;"]
    for n, distance in enumerate(distances, 1):
        last = 30 if n == len(distances) else n + 1
        lines += [
            pack.format(60 + n, f"%h{n}"),
            f"shfl.sync.bfly.b32 %r{70 + n}, %r{60 + n}, {distance}, 31, -1;",
            take.format(f"%h{20 + n}", 70 + n),
            f"add.bf16 %h{last}, %h{n}, %h{20 + n};",
        ]
    return "\n".join(lines)


def pairs(*distances: int, second: int = 0) -> str:
    """The same of two values side by side in a register of 64 bits; the last exchange of the second one may be over another
    distance. The sums are in %f30 and %f31."""
    lines = ["mov.b32 %f2, %r9;", "mov.b64 %rd10, {%f1, %f2};"]
    for n, distance in enumerate(distances):
        over = second if second and n == len(distances) - 1 else distance
        lines += [
            f"mov.b64 {{%r61, %r62}}, %rd{10 + n};",
            f"shfl.sync.bfly.b32 %r71, %r61, {distance}, 31, -1;",
            f"shfl.sync.bfly.b32 %r72, %r62, {over}, 31, -1;",
            "mov.b64 %rd30, {%r71, %r72};",
            f"add.f32x2 %rd{11 + n}, %rd{10 + n}, %rd30;",
        ]
    return "\n".join((*lines, f"mov.b64 {{%f30, %f31}}, %rd{10 + len(distances)};"))


BUTTERFLY = steps(1, 2, 4, 8, 16)
MAXIMUM = steps(1, 2, 4, 8, 16, operation="max.f32").replace("%f30, %f5, %f45", "%f30, %f50, %f45, %f5")
HALF_STORE = "st.shared.b16 [%r5], %h30;"
PAIRED = {"pack": "mov.b32 %r{0}, {{{1}, %h10}};", "take": "mov.b32 {{{0}, %h11}}, %r{1};"}
POSITIVE = "setp.gt.f32 %p6, %f30, 0f00000000;"
BRANCH = f"{POSITIVE}\n@%p6 bra over;\nadd.f32 %f30, %f30, 0f3F800000;\nover:"
STORE = "st.shared.f32 [%r5], %f30;"
LATER = f"{POSITIVE}\n@%p6 bra over;\n{STORE}\nover:"
UP_TO_ITS_VALUE = loop("add.f32 %f30, %f30, %f30;", "%r80")


def shared(body: str, size: str = ".reqntid 128") -> Verdict:
    model = last_kernel(SHARED, kernel(f"{START}\n{body}\nret;", directives=size))
    (found,) = verdicts(model, only=[HazardClass.SHARED_MEMORY])
    return found


PROVED = {
    "a butterfly": f"{BUTTERFLY}\n{STORE}",
    "a butterfly in a loop with barriers": loop(f"{BUTTERFLY}\n{STORE}\nbar.sync 0;"),
    "a maximum": f"{BUTTERFLY.replace('add', 'max')}\n{STORE}",
    "a maximum of three": f"mov.b32 %f50, %r9;\n{MAXIMUM}\n{STORE}",
    "a butterfly of pairs": f"{pairs(1, 2, 4, 8, 16)}\n{STORE}",
    "a constant": "st.shared.b32 [%r5], 0;",
    "a parameter": "st.shared.b32 [%r5], %r9;",
    "the number of the CTA": "mov.u32 %r21, %ctaid.x;\nst.shared.b32 [%r5], %r21;",
    "a vote": "vote.sync.ballot.b32 %r21, %p1, -1;\nst.shared.b32 [%r5], %r21;",
    "a reduction": "redux.sync.add.s32 %r21, %r20, -1;\nst.shared.b32 [%r5], %r21;",
    "the number of the warp": "st.shared.b32 [%r5], %r2;",
    "what two lanes have in common": (
        f"{steps(1)}\nshr.u32 %r21, %r1, 1;\nshl.b32 %r21, %r21, 2;\nadd.s32 %r22, %r4, %r21;\nst.shared.f32 [%r22], %f30;"
    ),
    "a vector": f"{BUTTERFLY}\nshl.b32 %r21, %r2, 3;\nadd.s32 %r22, %r4, %r21;\nst.shared.v2.f32 [%r22], {{%f30, %f30}};",
    "a butterfly of halves": f"{halves(1, 2, 4, 8, 16)}\n{HALF_STORE}",
    "a butterfly of halves that are packed": f"{halves(1, 2, 4, 8, 16, **PAIRED)}\n{HALF_STORE}",
    "a branch on the result": f"{BUTTERFLY}\n{BRANCH}\n{STORE}",
    "a store under the result": f"{BUTTERFLY}\n{LATER}",
    "as many iterations as the result says": (
        f"{BUTTERFLY}\ncvt.rzi.s32.f32 %r80, %f30;\n{UP_TO_ITS_VALUE}\n{STORE}"
    ),
    "a choice of a parameter": f"{BUTTERFLY}\n@%p2 mov.f32 %f30, 0f00000000;\n{STORE}",
}
UNKNOWN = {
    "a butterfly one step short": f"{steps(1, 2, 4, 8)}\n{STORE}",
    "a butterfly with one step twice": f"{steps(1, 2, 4, 8, 8)}\n{STORE}",
    "a step of two bits": f"{steps(3, 2, 4, 8, 16)}\n{STORE}",
    "a maximum of three, one of which may differ": f"cvt.rn.f32.u32 %f50, %r6;\n{MAXIMUM}\n{STORE}",
    "a butterfly of pairs one step short": f"{pairs(1, 2, 4, 8)}\n{STORE}",
    "a butterfly of pairs whose halves are exchanged over two distances": f"{pairs(1, 2, 4, 8, 16, second=8)}\n{STORE}",
    "an order of the operands that matters": f"{steps(1, 2, 4, 8, 16, operation='sub.f32')}\n{STORE}",
    "half a warp": f"{steps(1, 2, 4, 8, 16, mask='0xffff')}\n{STORE}",
    "a vote of half a warp": "vote.sync.ballot.b32 %r21, %p1, 0xffff;\nst.shared.b32 [%r5], %r21;",
    "a narrow width": f"{steps(1, 2, 4, 8, 16, width=0x101F)}\n{STORE}",
    "a step that combines another value": f"{BUTTERFLY.replace('%f5, %f45', '%f6, %f45')}\n{STORE}",
    "a value changed by one lane afterwards": f"{BUTTERFLY}\n@%p1 add.f32 %f30, %f30, 0f3F800000;\n{STORE}",
    "a value changed in a divergent branch": (
        f"{BUTTERFLY}\n@%p1 bra over;\nadd.f32 %f30, %f30, 0f3F800000;\nover:\n{STORE}"
    ),
    "a butterfly in a divergent branch": f"@%p1 bra over;\n{BUTTERFLY}\n{STORE}\nover:",
    "a loaded value": "st.shared.b32 [%r5], %r20;",
    "the number of the lane": "st.shared.b32 [%r5], %r6;",
    "a loop without a barrier": loop(f"{BUTTERFLY}\n{STORE}"),
    "all warps store a constant": "st.shared.b32 [one], 0;",
    "one warp stores beside another": f"{BUTTERFLY}\nst.shared.f64 [%r5], %rd1;",
    "two stores of one value": f"{BUTTERFLY}\n{STORE}\n{STORE}",
    "an address that differs by bytes": "shl.b32 %r21, %r1, 1;\nadd.s32 %r22, %r4, %r21;\nst.shared.b32 [%r22], %r9;",
    "a butterfly of halves one step short": f"{halves(1, 2, 4, 8)}\n{HALF_STORE}",
    "a butterfly of halves and their packed neighbours": (
        f"{halves(1, 2, 4, 8, 16, pack=PAIRED['pack'], take='mov.b32 {{%h11, {0}}}, %r{1};')}\n{HALF_STORE}"
    ),
    "a butterfly of bytes of wider registers": (
        f"{halves(1, 2, 4, 8, 16, pack='cvt.u32.u8 %r{0}, {1};', take='cvt.u8.u32 {0}, %r{1};')}\n{HALF_STORE}"
    ),
    "a butterfly of halves of another value": f"{halves(1, 2, 4, 8, 16).replace('%r63, %h3', '%r63, %h2')}\n{HALF_STORE}",
    "a branch on a result one step short": f"{BUTTERFLY}\n{BRANCH}\n{STORE}".replace("%p6, %f30", "%p6, %f5"),
    "a store of another value under the result": f"{BUTTERFLY}\n{LATER.replace('], %f30', '], %f5')}",
    "as many iterations as a result one step short says": (
        f"{BUTTERFLY}\ncvt.rzi.s32.f32 %r80, %f5;\n{UP_TO_ITS_VALUE}\n{STORE}"
    ),
    "a butterfly under its result": f"{BUTTERFLY}\n{POSITIVE}\n@%p6 bra over;\n{BUTTERFLY}\n{STORE}\nover:",
    "a register that nothing writes": "st.shared.f32 [%r5], %f59;",
    "an exit of some lanes before": f"{BUTTERFLY}\n@%p1 exit;\n{BUTTERFLY}\n{STORE}",
    "an atomic operation": "atom.shared.add.u32 %r21, [%r5], 1;\nst.shared.b32 [%r5], 0;",
}


@pytest.mark.parametrize(
    ("threads", "status"), [(33, Status.UNKNOWN), (48, Status.UNKNOWN), (64, Status.PROVED)]
)
def test_lanes_that_do_not_exist_have_no_value_to_exchange(threads: int, status: Status) -> None:
    assert shared(f"{BUTTERFLY}\n{STORE}", f".reqntid {threads}").status is status


@pytest.mark.parametrize("name", PROVED)
def test_lanes_that_store_one_value_together_are_proved(name: str) -> None:
    found = shared(PROVED[name])
    assert found.status is Status.PROVED, found.reasons


@pytest.mark.parametrize("name", UNKNOWN)
def test_lanes_that_may_store_different_values_are_unknown(name: str) -> None:
    assert shared(UNKNOWN[name]).status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("rule", "always", "name"),
    [
        ("_butterfly", 31, "a butterfly one step short"),
        ("_written", 31, "a loaded value"),
        ("_exchanged", 31, "a vote of half a warp"),
        ("_by_index", 31, "the number of the lane"),
        ("stored", 31, "a loaded value"),
        ("_in_step", 31, "as many iterations as a result one step short says"),
        ("_between", 31, "a butterfly one step short"),
        ("_is_part", True, "a butterfly of halves of another value"),
    ],
)
def test_a_rule_that_always_holds_is_noticed(
    rule: str, always: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shared(UNKNOWN[name]).status is Status.UNKNOWN
    monkeypatch.setattr(Lanes, rule, lambda *arguments: always)
    assert shared(UNKNOWN[name]).status is Status.PROVED
