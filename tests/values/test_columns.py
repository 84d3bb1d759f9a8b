"""Roles that warps take by their number in CTAs of unknown shape, whichever operations compute the number."""

from __future__ import annotations

from itertools import permutations

import pytest

from tclint.ir.cfg import CFG
from tclint.values import PathCondition, Values
from tests.tools.support import HOPPER, by_rule, function, kernel, lint, module

POSITION = "mov.u32 %r0, %tid.x;\nmov.u32 %r1, %tid.y;\nst.shared.u32 [%r1], %r1;\n"
"""The kernel asks for %tid.y, so the shape of its CTAs is unknown."""
TESTS = {
    "shuffle": "shr.u32 %r2, %r0, 5;\nshfl.sync.idx.b32 %r3, %r2, 0, 31, -1;\nsetp.eq.s32 {p}, %r3, {n};\n",
    "shuffled index": "shfl.sync.idx.b32 %r4, %r0, 0, 31, -1;\nshr.u32 %r5, %r4, 5;\nsetp.eq.s32 {p}, %r5, {n};\n",
    "shift": "shr.u32 %r6, %r0, 5;\nsetp.eq.s32 {p}, %r6, {n};\n",
    "mask": "and.b32 %r7, %r0, -32;\nsetp.eq.s32 {p}, %r7, {first};\n",
    "some bits": "and.b32 %r8, %r0, 224;\nsetp.eq.s32 {p}, %r8, {first};\n",
    "bit field": "bfe.u32 %r9, %r0, 5, 5;\nsetp.eq.s32 {p}, %r9, {n};\n",
    "range": "sub.u32 %r10, %r0, {first};\nsetp.lt.u32 {p}, %r10, 32;\n",
    "last lane": "or.b32 %r11, %r0, 31;\nsetp.eq.s32 {p}, %r11, {last};\n",
    "scaled": "shl.b32 %r12, %r0, 2;\nand.b32 %r13, %r12, 896;\nsetp.eq.s32 {p}, %r13, {scaled};\n",
    "quotient": "div.u32 %r14, %r0, 32;\nsetp.eq.u32 {p}, %r14, {n};\n",
}


def spelled(name: str, predicate: str, warp: int) -> str:
    first = 32 * warp
    return TESTS[name].format(p=predicate, n=warp, first=first, last=first + 31, scaled=4 * first)


def decided(body: str, strict: bool = False) -> bool | None:
    """Whether %p2 holds where %p1 does."""
    found = function(module(kernel(body, directives=".maxntid 384")))
    values = Values(found, CFG(found), {}, strict=strict)
    end = len(found.instructions) - 1
    registers = {register.name: number for number, register in enumerate(found.registers)}
    p, q = (values.before(registers[name], end) for name in ("%p1", "%p2"))
    return values.entails(q, PathCondition({p: True}))


@pytest.mark.parametrize(("one", "other"), [*permutations(TESTS, 2)])
def test_no_thread_is_in_two_warps(one: str, other: str) -> None:
    body = POSITION + spelled(one, "%p1", 4) + spelled(other, "%p2", 1) + "ret;"
    assert decided(body) is False
    assert decided(POSITION + spelled(one, "%p1", 4) + spelled(other, "%p2", 4) + "ret;") is not False


def test_another_position_says_nothing_about_the_warp() -> None:
    rows = "shr.u32 %r20, %r1, 5;\nsetp.eq.s32 %p2, %r20, 1;\n"
    assert decided(POSITION + spelled("shift", "%p1", 4) + rows + "ret;") is None


def test_a_proof_does_not_assume_rows_of_whole_warps() -> None:
    body = POSITION + spelled("shuffle", "%p1", 4) + spelled("mask", "%p2", 1) + "ret;"
    assert decided(body, strict=True) is None


@pytest.mark.parametrize(("warp", "reported"), [(1, False), (4, True)])
def test_roles_by_two_spellings(warp: int, reported: bool) -> None:
    """A warp that takes both roles would request fewer registers than it owns."""
    request = "@!{p} bra {end};\nsetmaxnreg.inc.sync.aligned.u32 {n};\n{end}:\n"
    body = (
        POSITION
        + spelled("shuffle", "%p1", 4)
        + request.format(p="%p1", end="skip", n=240)
        + spelled("mask", "%p2", warp)
        + request.format(p="%p2", end="done", n=168)
        + "ret;"
    )
    text = module(kernel(body, directives=".maxntid 384\n.maxnreg 160"), header=HOPPER)
    assert bool(by_rule(lint(text), "CV008")) is reported
