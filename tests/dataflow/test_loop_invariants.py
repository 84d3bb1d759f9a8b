"""How two values that loops carry compare in every iteration."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tclint.analyses.model import KernelModel
from tclint.dataflow import views
from tclint.values import Values
from tclint.values.nodes import Compare, Constant, Phi, Sum
from tests.tools.support import label, model, register

_RELATIONS = {
    "lt": int.__lt__,
    "le": int.__le__,
    "gt": int.__gt__,
    "ge": int.__ge__,
    "eq": int.__eq__,
    "ne": int.__ne__,
}
_ROUNDS = 60
_ENDS_AT = {"outer": "eq", "inner": "eq", "again": "ne"}
"""For the branches that leave a loop, or repeat it, the relation with which it ends when two numbers are equal."""

FILL = """
    ld.param.u32 %r1, [number];
    mov.u32 %r2, 0;
    mov.u32 %r3, {first};
outer:
    setp.ge.s32 %p0, %r2, %r1;
    @%p0 bra end;
    {skips}
    add.s32 %r4, %r2, {ahead};
    min.s32 %r4, %r4, %r1;
    setp.ge.s32 %p1, %r3, %r4;
    @%p1 bra filled;
fill:
    add.s32 %r3, %r3, 2;
    setp.lt.s32 %p2, %r3, %r4;
    @%p2 bra fill;
filled:
    add.s32 %r2, %r2, {step};
    bra outer;
end:
    ret;
"""


@pytest.mark.parametrize(
    ("first", "ahead", "skips", "step", "kept"),
    [
        ("0", 2, "", "1", True),
        ("3", 2, "", "1", True),
        ("0", 1, "", "1", True),
        ("0", 3, "", "2", False),  # it may continue from one below the value to one above it
        # What is used is ahead at first, or advances by more than has been filled for certain.
        ("-1", 2, "", "1", False),
        ("0", 1, "", "3", False),
        # A round may fill nothing, or the number is another one.
        ("0", 2, "ld.shared.u32 %r7, [%r5]; setp.ne.s32 %p4, %r7, 0; @%p4 bra filled;", "1", False),
        ("0", 2, "ld.shared.u32 %r3, [%r5];", "1", False),
    ],
)
def test_the_filled_counter_is_never_below_the_used_one(
    first: str, ahead: int, skips: str, step: str, kept: bool
) -> None:
    m = model(FILL.format(first=first, ahead=ahead, skips=skips, step=step), parameters=".param .u32 number")
    outer = label(m.function, "outer")
    used, filled = (m.values.before(register(m.function, r), outer) for r in ("%r2", "%r3"))
    after = m.values.representative(m.values.compare("lt", filled, used, True, 32))
    assert (after in m.views.never_true(m.cfg.block_of[outer])) is kept


@pytest.mark.parametrize("ahead", [2, 1])
def test_what_holds_in_all_launches_is_not_proved_again_for_one(
    ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = FILL.format(first="0", ahead=ahead, skips="", step="1")
    m = model(text, parameters=".param .u32 number", directives="")
    block = m.cfg.block_of[label(m.function, "outer")]

    def claims(of: KernelModel) -> list[tuple[str, str]]:
        comparisons = map(of.values.node, of.views.never_true(block))
        return [(repr(of.values.node(c.left)), repr(of.values.linear(c.right))) for c in comparisons]

    general = claims(m)
    assert general
    monkeypatch.setattr(views, "loop_invariants", None)
    assert len(claims(m.shaped((64,), {("number", 0): 5}))) == len(general)
    with pytest.raises(TypeError):
        claims(model(text, parameters=".param .u32 number", directives=""))


def _block(draw: Any, most: int) -> list[tuple[Any, ...]]:
    number = st.integers(1, 4)
    step = st.one_of(
        st.tuples(st.just("add"), number, number, st.integers(-1, 3)),
        st.tuples(st.sampled_from(("mov", "load")), number, number),
        st.tuples(st.sampled_from(("min", "max")), number, number, number),
    )
    same = st.tuples(st.just("add"), st.integers(1, 3), st.integers(0, 3)).map(
        lambda s: (s[0], s[1], s[1], s[2])
    )
    found: list[tuple[Any, ...]] = draw(st.lists(st.one_of(same, same, same, step), max_size=most))
    return found


def _test(draw: Any) -> tuple[str, int, int, int]:
    sides = st.sampled_from(((1, 2), (2, 1), (1, 2), (1, 0), (2, 0), (3, 4), (1, 3), (2, 3)))
    found: tuple[str, int, int, int] = draw(
        st.tuples(st.sampled_from(sorted(_RELATIONS)), sides, st.integers(-1, 3)).map(
            lambda t: (t[0], *t[1], t[2])
        )
    )
    return found


@st.composite
def loops(draw: Any) -> list[tuple[str, list[tuple[Any, ...]], tuple[str, int, int, int] | None, str]]:
    """Two loops within each other: label, steps, the test of a branch, and where it leads."""
    return [
        ("first", [("set", r, draw(st.integers(-1, 2))) for r in (1, 2, 3)], None, ""),
        ("outer", [], _test(draw), "end"),
        ("ask", _block(draw, 2), _test(draw), "skipped"),
        ("inner", _block(draw, 2), _test(draw), "left"),
        ("again", _block(draw, 2), _test(draw), "inner"),
        ("left", _block(draw, 1), _test(draw), "skipped"),
        ("more", _block(draw, 1), None, ""),
        ("skipped", _block(draw, 2), None, "outer"),
        ("end", [], None, ""),
    ]


def _written(program: list[Any]) -> str:
    lines = ["ld.param.u32 %r0, [number];", "ld.param.u32 %r4, [other];"]
    for name, steps, test, target in program:
        lines.append(f"{name}: mov.u32 %r8, 0;")
        for name, to, *of in steps:
            if name == "set":
                lines.append(f"mov.u32 %r{to}, {of[0]};")
            elif name == "mov":
                lines.append(f"mov.u32 %r{to}, %r{of[0]};")
            elif name == "load":
                lines.append(f"ld.global.u32 %r{to}, [%rd1];")
            elif name == "add":
                lines.append(f"add.s32 %r{to}, %r{of[0]}, {of[1]};")
            else:
                lines.append(f"{name}.s32 %r{to}, %r{of[0]}, %r{of[1]};")
        if test is not None:
            relation, a, b, more = test
            lines += [f"add.s32 %r9, %r{b}, {more};", f"setp.{relation}.s32 %p1, %r{a}, %r9;"]
        lines += [f"@%p1 bra {target};" if test is not None else f"bra {target};"] if target else []
    return "\n".join([*lines, "ret;"])


def _value(values: Values, value: int, at: dict[int, dict[int, int]]) -> int:
    """An expression, where the registers were so when a thread came to each block last."""
    node = values.node(value)
    if type(node) is Constant:
        return node.number
    if type(node) is Phi:
        return at[node.block][node.register]
    if type(node) is Sum:
        return node.constant + sum(_value(values, t, at) * f for t, f in node.terms)
    assert type(node) is Compare
    left, right = (_value(values, side, at) for side in node.operands)
    return int(left < right if node.relation == "lt" else left == right)


@settings(max_examples=80, deadline=None)
@given(loops(), st.integers(0, 1 << 30))
def test_what_holds_in_every_iteration_holds_in_all_that_are_executed(program: list[Any], seed: int) -> None:
    """Whatever was asked before. A loop that ends when two numbers are equal is taken to start on the right side, so runs
    with such a loop count if they end.
    """
    body = _written(program)
    may_wrap = any(test is not None and test[0] == _ENDS_AT.get(name) for name, _, test, _ in program)
    m = model(body, parameters=".param .u32 number, .param .u32 other")
    values, cfg = m.values, m.cfg
    shuffled = random.Random(seed)
    asked = [(r, i) for i, ins in enumerate(m.function.instructions) for r in ins.reads]
    for r, i in shuffled.sample(asked, shuffled.randint(0, len(asked))):
        values.before(r, i)
    for block in shuffled.sample(sorted(cfg.rank), shuffled.randint(0, len(cfg.rank))):
        m.views.context_in_iteration(cfg.blocks[block].start)
    never = {head: m.views.never_true(head) for head in cfg.loops}
    if not any(never.values()):
        return
    named = {r: register(m.function, f"%r{r}") for r in range(5)}
    start = {row[0]: m.cfg.block_of[label(m.function, row[0])] for row in program}
    for _ in range(12):
        regs = dict.fromkeys(range(5), 0) | {0: shuffled.randint(-2, 7), 4: shuffled.randint(-2, 7)}
        at: dict[int, dict[int, int]] = {}
        here, wrong = 0, list[tuple[object, ...]]()
        for _ in range(_ROUNDS):
            place, steps, test, target = program[here]
            at[start[place]] = {named[r]: x for r, x in regs.items()}
            for p in never.get(start[place], ()):
                if _value(values, p, at):
                    wrong.append((place, values.node(p), regs[0], regs[4]))
            assert not wrong or (may_wrap and place != "end"), (body, wrong[0])
            for name, to, *of in steps:
                if name == "add":
                    regs[to] = regs[of[0]] + of[1]
                elif name == "set":
                    regs[to] = of[0]
                elif name == "mov":
                    regs[to] = regs[of[0]]
                elif name == "load":
                    regs[to] = shuffled.randint(-3, 9)
                else:
                    regs[to] = (min if name == "min" else max)(regs[of[0]], regs[of[1]])
            if place == "end":
                break
            taken = test is None or _RELATIONS[test[0]](regs[test[1]], regs[test[2]] + test[3])
            names = [row[0] for row in program]
            here = names.index(target) if target and taken else here + 1
