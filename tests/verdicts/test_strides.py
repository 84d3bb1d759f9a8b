"""What is proved of elements of shared memory that threads take as many apart as the CTA has threads, whatever their number."""

from __future__ import annotations

import pytest

from tclint.findings.verdicts import Assumption, HazardClass, Status, Verdict
from tclint.verdicts import verdicts
from tclint.verdicts.across_threads import AcrossThreads
from tests.tools.support import kernel, last_kernel, loop

ALL = frozenset(Assumption)
SHARED = ".shared .align 16 .b8 one[4096];"
START = """ld.param.u32 %r9, [number];
mov.u32 %r1, %tid.x;
mov.u32 %r2, %ntid.x;
mov.u32 %r3, one;
shl.b32 %r4, %r1, 2;
add.s32 %r4, %r3, %r4;
shl.b32 %r5, %r2, 2;"""
ELEMENT = "shl.b32 %r11, %r10, 2;\nadd.s32 %r12, %r3, %r11;\n"
STORE, LOAD = "st.shared.b32 [%r12], %r9;", "ld.shared.b32 %r50, [%r12];"


def shared(body: str, size: str = "", assume: frozenset[Assumption] = ALL) -> Verdict:
    model = last_kernel(SHARED, kernel(f"{START}\n{body}\nret;", directives=size))
    (found,) = verdicts(model, assume=assume, only=[HazardClass.SHARED_MEMORY])
    return found


def filled(access: str = STORE, step: str = "%r2", first: str = "%r1", element: str = ELEMENT) -> str:
    return loop(f"{element}{access}", first=first, step=step)


def again(body: str) -> str:
    """The same in another loop."""
    return (
        body.replace("top", "second").replace("%r10", "%r30").replace("%r11", "%r31").replace("%r12", "%r32")
    )


POINTER = f"mov.b32 %r12, %r4;\n{loop(f'{STORE} add.s32 %r12, %r12, %r5;')}"
SLABS = "st.shared.b32 [%r4], %r9;\nadd.s32 %r12, %r4, %r5;\nst.shared.b32 [%r12], %r9;"
UNROLLED = (
    f"shl.b32 %r14, %r2, 1;\n{filled(f'{STORE} add.s32 %r13, %r12, %r5; st.shared.b32 [%r13], %r9;', '%r14')}"
)
PROVED = {
    "a loop that fills": filled(),
    "a loop that fills, and one that reads": f"{filled()}\n{again(filled(LOAD))}",
    "a loop that fills, and its first element": f"{filled()}\nld.shared.b32 %r50, [%r4];",
    "a pointer": POINTER,
    "the next elements": SLABS,
    "two elements in an iteration": UNROLLED,
    "a loop from the next element": f"add.s32 %r13, %r1, %r2;\n{filled(first='%r13')}\n{again(filled(LOAD))}",
    "elements of eight bytes": filled(
        "st.shared.b64 [%r12], %rd1;", element=ELEMENT.replace("%r10, 2", "%r10, 3")
    ),
    "elements that descend": filled(element=ELEMENT.replace("add.s32 %r12", "sub.s32 %r12")),
    "what follows all elements": "st.shared.b32 [%r4], %r9;\nadd.s32 %r12, %r3, %r5;\nld.shared.b32 %r50, [%r12];",
}
UNKNOWN = {
    "elements of which several threads have one in 32 bits": "cvt.u64.u32 %rd20, %r1;\nshl.b64 %rd20, %rd20, 34;\nmov.u64 %rd21, one;\n"
    "add.s64 %rd21, %rd21, %rd20;\nst.shared.b32 [%rd21], %r1;",
    "half as many apart": f"shr.u32 %r13, %r2, 1;\n{filled(step='%r13')}",
    "one more apart": f"add.s32 %r13, %r2, 1;\n{filled(step='%r13')}",
    "a parameter apart": filled(step="%r9"),
    "as many bytes apart": f"mov.b32 %r12, %r4;\n{loop(f'{STORE} add.s32 %r12, %r12, %r2;')}",
    "from half an index on": f"shr.u32 %r13, %r1, 1;\n{filled(first='%r13')}",
    "from twice an index on": f"shl.b32 %r13, %r1, 1;\n{filled(first='%r13')}",
    "from the lane on": f"and.b32 %r13, %r1, 31;\n{filled(first='%r13')}",
    "from a parameter on": filled(first="%r9"),
    "from one of two indices on": (
        "mov.b32 %r13, %r1;\nsetp.eq.s32 %p1, %r9, 0;\n@%p1 bra other;\nadd.s32 %r13, %r13, 1;\nother:\n"
        f"{filled(first='%r13')}"
    ),
    "wider than an element": filled("st.shared.b64 [%r12], %rd1;"),
    "the neighbour's element": f"{filled()}\n{again(filled(LOAD.replace(']', '+4]')))}",
    "half of the neighbour's element": filled("st.shared.b32 [%r12], %r9; ld.shared.b16 %h1, [%r12+4];"),
    "elements in the other order": f"{filled()}\n{again(filled(LOAD, element=ELEMENT.replace('add.s32 %r12', 'sub.s32 %r12')))}",
    "elements of another size": f"{filled()}\n{again(filled(LOAD, element=ELEMENT.replace('%r10, 2', '%r10, 3')))}",
    "elements from a loaded place on": (f"ld.shared.b32 %r40, [%r3];\nadd.s32 %r3, %r3, %r40;\n{filled()}"),
    "elements from a place of the thread on": f"and.b32 %r40, %r1, 64;\nadd.s32 %r3, %r3, %r40;\n{filled()}",
    "elements from a place that a loop moves": (
        f"{filled().replace(STORE, f'{STORE} add.s32 %r3, %r3, 4;')}"
    ),
    "the last of the first elements": SLABS.replace("[%r12]", "[%r12+-4]"),
    "half of the next elements": SLABS.replace("%r4, %r5", "%r4, %r2"),
    "the word before what follows": "st.shared.b32 [%r4], %r9;\nadd.s32 %r12, %r3, %r5;\nld.shared.b32 %r50, [%r12+-4];",
    "a parameter further": (
        "st.shared.b32 [one], %r9;\nshl.b32 %r13, %r9, 2;\nadd.s32 %r12, %r3, %r13;\nld.shared.b32 %r50, [%r12+4];"
    ),
    "a second dimension": f"mov.u32 %r40, %tid.y;\nadd.s32 %r9, %r9, %r40;\n{filled()}",
}


@pytest.mark.parametrize("name", PROVED)
def test_elements_of_each_thread_are_proved_for_any_number_of_threads(name: str) -> None:
    found = shared(PROVED[name])
    assert found.status is Status.PROVED, found.reasons
    assert {Assumption.NO_OVERFLOW, Assumption.SHAPE, Assumption.THREADS} <= set(found.assumptions)
    assert shared(PROVED[name], ".maxntid 32, 4").status is Status.UNKNOWN


@pytest.mark.parametrize("name", UNKNOWN)
def test_elements_that_two_threads_may_have_are_unknown(name: str) -> None:
    assert shared(UNKNOWN[name]).status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("of", "rule", "name"),
    [
        (AcrossThreads, "in_one_row", "a second dimension"),
        (AcrossThreads, "_positive", "a parameter further"),
        (AcrossThreads, "is_shared", "elements from a place of the thread on"),
    ],
)
def test_a_rule_that_always_holds_is_noticed(
    of: type, rule: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of, rule, True if rule == "in_one_row" else lambda *_: True)
    assert shared(UNKNOWN[name]).status is Status.PROVED
