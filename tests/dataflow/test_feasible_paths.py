"""Witness paths: every one found can be taken, and none that can be taken is missed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tclint.analyses.model import FactQuery, KernelModel
from tclint.dataflow import EXIT, Found, GaveUp, Infeasible, Path, feasible_paths, next_answer
from tclint.dataflow.path_search_cache import Retention
from tclint.dataflow.views import ThreadContext
from tclint.ir import Immediate, Instruction
from tclint.ir.cfg import CFG
from tclint.isa.effects import Barrier
from tclint.values import thread_masks as T
from tests.tools.paths import START, STEP, STOP, USE, Markers, search
from tests.tools.support import REGISTERS, label, model, register, value

# ---------------------------------------------------------------- by hand


def reaches(body: str, **options: str) -> bool:
    m = model(body, **options)
    return search(m, label(m.function, "start"), label(m.function, "use")) is not None


@pytest.mark.parametrize(
    ("start", "end", "avoiding", "found"),
    [
        ("", "first", "", True),
        ("first", "last", "", True),
        ("last", "first", "", False),
        ("first", "last", "inner", False),
        ("first", "last", "first", True),
        ("inner", "inner", "", True),
        ("inner", "inner", "first last", True),
        ("inner", "inner", "back", False),
    ],
)
def test_some_path_avoids_instructions(start: str, end: str, avoiding: str, found: bool) -> None:
    m = model(f"first: {START}\ninner: {STEP}\nback: @%p1 bra inner;\nlast: {USE}\nret;")
    at = {"": -1, **{name: label(m.function, name) for name in ("first", "inner", "back", "last")}}
    assert m.reaches(at[start], at[end], [at[name] for name in avoiding.split()]) is found


def test_the_fact_survives_what_does_not_concern_it() -> None:
    assert reaches(f"start: {START}\nmov.u32 %r1, 2;\nuse: {USE}\nret;")
    assert not reaches(f"start: {START}\n{STOP}\nuse: {USE}\nret;")


def test_a_guarded_end_may_be_skipped() -> None:
    assert reaches(f"start: {START}\n@%p1 {STOP}\nuse: {USE}\nret;")


def test_a_guard_that_must_hold() -> None:
    assert not reaches(f"start: @%p1 {START}\n@%p1 {STOP}\nuse: {USE}\nret;")
    assert reaches(f"start: @%p1 {START}\n@!%p1 {STOP}\nuse: {USE}\nret;")
    assert not reaches(f"start: @%p1 {START}\nuse: @!%p1 {USE}\nret;")


def test_a_branch_and_a_guard_agree() -> None:
    for guard, expected in (("@%p1", False), ("@!%p1", True)):
        body = f"start: {START}\n@%p1 bra on;\nret;\non: {guard} {STOP}\nuse: {USE}\nret;"
        assert reaches(body) is expected, guard


def test_one_predicate_in_a_loop_has_one_value() -> None:
    body = f"""
    ld.param.u32 %r1, [number];
    setp.eq.s32 %p1, %r1, 0;
    mov.u32 %r2, 0;
loop:
    @!%p1 bra use;
start: {START}
    bra next;
use: {USE}
next:
    add.s32 %r2, %r2, 1;
    setp.lt.s32 %p2, %r2, 9;
    @%p2 bra loop;
    ret;
    """
    assert not reaches(body)
    assert reaches(
        body.replace("ld.param.u32 %r1, [number];", "").replace(
            "loop:", "loop:\nld.shared.u32 %r1, [%r3]; setp.eq.s32 %p1, %r1, 0;", 1
        )
    )


def test_threads_that_made_the_fact_take_the_path() -> None:
    body = f"""
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p1, %r1, 32;
    setp.gt.u32 %p2, %r1, {{}};
start: @%p1 {START}
use: @%p2 {USE}
    ret;
    """
    assert not reaches(body.format(31))
    assert reaches(body.format(30))


def test_the_threads_of_a_path() -> None:
    m = model(
        f"mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 48;\nstart: {START}\n@!%p1 bra end;\nuse: {USE}\nend: ret;"
    )
    path = search(m, label(m.function, "start"), label(m.function, "use"))
    assert path is not None
    assert path.threads == (1 << 48) - 1
    assert [e.value for e in path.edges] == [False] or [e.value for e in path.edges] == [True]


def test_the_end_of_the_kernel_is_a_goal() -> None:
    for end, expected in (
        ("ret;", True),
        ("@%p1 ret;\nL: bra L;", True),
        ("L: bra L;", False),
        ("trap;", False),
    ):
        m = model(f"start: {START}\nmov.u32 %r1, 2;\n{end}")
        path = search(m, label(m.function, "start"), EXIT)
        assert (path is not None) is expected, end
        assert path is None or path.end == EXIT


def test_facts_about_what_is_loaded_end_with_the_next_load() -> None:
    body = f"""
start: {START}
again:
    ld.shared.u32 %r1, [%r2];
    setp.eq.s32 %p1, %r1, 0;
    @%p1 bra again;
use: {USE}
    ret;
    """
    assert reaches(body)


def test_comparisons_with_constants_exclude_each_other() -> None:
    body = f"""
    ld.param.u32 %r1, [number];
    setp.gt.s32 %p1, %r1, 0;
    setp.lt.s32 %p2, %r1, {{}};
start: {START}
    @!%p1 bra end;
    @!%p2 bra end;
use: {USE}
end: ret;
    """
    assert not reaches(body.format(1))
    assert reaches(body.format(2))


# ---------------------------------------------------------------- by chance, against every valuation


@dataclass(frozen=True)
class Machine:
    """One thread of a random kernel: parameters decide the predicates %p0 to %p2, %p3 counts rounds of loops."""

    of: KernelModel
    flags: tuple[bool, ...]

    def runs(self, start: int, to: int, age: int, begin: int = 0, limit: int = 60) -> bool:
        """Whether the fact of *start*, made at some time after *begin*, is alive and *age* old when *to* is executed."""
        markers = Markers(self.of)
        alive = -1
        function = self.of.function
        numbers = {register(function, f"%p{n}"): n for n in range(3) if self._declared(f"%p{n}")}
        at = begin
        while 0 <= at < len(function.instructions) and limit:
            limit -= 1
            ins = function.instructions[at]
            executes = ins.guard < 0 or self.flags[numbers[ins.guard]] is not ins.negated
            if executes:
                if at == to and alive >= age:
                    return True
                if at == start:
                    alive = 0
                elif markers.kind.get(at) == 51:
                    alive = -1
                elif markers.kind.get(at) == 52 and alive >= 0:
                    alive = min(alive + 1, 2)
                if ins.flow == "branch":
                    at = ins.targets[0]
                    continue
                if ins.flow in ("return", "exit"):
                    return to == EXIT and alive >= age
            at += 1
        return to == EXIT and alive >= age and limit > 0

    def _declared(self, name: str) -> bool:
        return any(r.name == name for r in self.of.function.registers)


GUARDS = ["", "", "@%p0 ", "@!%p0 ", "@%p1 ", "@!%p1 ", "@%p2 ", "@!%p2 "]
PARAMETERS = """
    ld.param.u32 %r0, [a]; setp.ne.s32 %p0, %r0, 0;
    ld.param.u32 %r1, [b]; setp.ne.s32 %p1, %r1, 0;
    ld.param.u32 %r2, [c]; setp.ne.s32 %p2, %r2, 0;
"""


@st.composite
def kernels(draw: st.DrawFn) -> str:
    """One start, one use, some ends, under guards, with branches forwards and backwards."""
    count = draw(st.integers(1, 5))
    places = [draw(st.integers(0, count - 1)) for _ in range(2)]
    lines = []
    for b in range(count):
        inner = [
            f"{draw(st.sampled_from(GUARDS))}{draw(st.sampled_from([STOP, STEP, 'mov.u32 %r9, 1;']))}"
            for _ in range(draw(st.integers(0, 2)))
        ]
        for place, name, text in zip(places, ("start", "use"), (START, USE), strict=True):
            if place == b:
                inner.insert(
                    draw(st.integers(0, len(inner))), f"{name}: {draw(st.sampled_from(GUARDS))}{text}"
                )
        end = draw(st.sampled_from(["", "bra", "bra", "ret"]))
        guard = draw(st.sampled_from(GUARDS))
        target = draw(st.integers(0, count - 1))
        lines += [f"L{b}:", *inner, {"": "", "bra": f"{guard}bra L{target};", "ret": f"{guard}ret;"}[end]]
    return PARAMETERS + "\n".join([*lines, "ret;"])


@settings(max_examples=300, deadline=None)
@given(kernels(), st.booleans(), st.integers(0, 2))
def test_a_path_is_found_exactly_when_some_parameters_take_it(body: str, leaves: bool, age: int) -> None:
    m = model(body, parameters=".param .u32 a, .param .u32 b, .param .u32 c")
    start, use = label_of(m, "%r50"), label_of(m, "%r53")
    assume(m.cfg.block_of[start] in m.cfg.rank)
    to = EXIT if leaves else use
    path = search(m, start, to, age)
    flags = [Machine(m, f) for f in product((False, True), repeat=3)]
    if any(f.runs(start, to, age) for f in flags):
        assert path is not None
    if not any(f.runs(start, to, age, start) for f in flags):
        assert path is None
    if path is not None:
        follows(m, path, start, to)


def label_of(m: KernelModel, name: str) -> int:
    """The instruction that writes the register."""
    (at,) = [i for i, ins in enumerate(m.function.instructions) if register(m.function, name) in ins.writes]
    return at


def follows(m: KernelModel, path: Path, start: int, to: int) -> None:
    """The edges of the path hang together, from the start to the goal."""
    at = m.cfg.block_of[start]
    for edge in path.edges:
        assert edge.source == at
        assert edge in m.cfg.successors[at]
        at = edge.target
    assert path.end == to
    if to == EXIT:
        assert at in m.cfg.exits
    else:
        assert m.cfg.block_of[to] == at
    assert path.threads
    visited = set(path.sites(m.cfg, start))
    assert set(path.marks) <= visited | {start}


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["lt", "gt", "eq", "ne", "ge", "le"]), st.integers(0, 4), st.booleans()),
        min_size=1,
        max_size=4,
    )
)
def test_branches_on_one_number_agree_with_some_number(tests: list[tuple[str, int, bool]]) -> None:
    """A row of branches on comparisons of one parameter is passed exactly when a number passes all of them."""
    lines = ["ld.param.u32 %r1, [number];", f"start: {START}"]
    for n, (relation, bound, taken) in enumerate(tests):
        lines.append(f"setp.{relation}.s32 %p{n}, %r1, {bound};\n@{'!' * taken}%p{n} bra end;")
    m = model("\n".join([*lines, f"use: {USE}", "end: ret;"]))
    path = search(m, label(m.function, "start"), label(m.function, "use"))
    check = {
        "lt": int.__lt__, "gt": int.__gt__, "eq": int.__eq__, "ne": int.__ne__, "ge": int.__ge__, "le": int.__le__,
    }  # fmt: skip
    possible = any(all(check[r](x, b) is t for r, b, t in tests) for x in range(-2, 8))
    if possible:
        assert path is not None
    elif all(r not in ("eq", "ne") for r, _, _ in tests):
        assert path is None  # holes left by eq and ne are not followed


@pytest.mark.parametrize(("second", "comes"), [("gt.s32 %p1, %r0, 9", False), ("gt.s32 %p1, %r0, 3", True)])
def test_branches_that_contradict_each_other_close_a_path(second: str, comes: bool) -> None:
    """cuSOLVER unrolls, four rounds at a time, a loop of two rounds at most."""
    m = model(f"""
        mov.u32 %r0, %ctaid.x;
        setp.lt.s32 %p0, %r0, 5;
        @!%p0 bra out;
        setp.{second};
        @!%p1 bra out;
    four:
        add.s32 %r1, %r1, 1;
        setp.lt.s32 %p2, %r1, 7;
        @%p2 bra four;
    out:
    """)
    assert bool(m.views.context_of(label(m.function, "four")).threads) is comes


LANE_ZERO = "mov.u32 %r0, %tid.x;\nsetp.ne.u32 %p0, %r0, 0;"


@pytest.mark.parametrize(
    ("body", "always"),
    [
        (f"{LANE_ZERO}\n@%p0 bra on;\ntrap;\non:", True),
        (f"{LANE_ZERO}\n@!%p0 brkpt;", True),
        (f"{LANE_ZERO}\n@%p0 bra on;\nround: @%p9 bra round;\ntrap;\non:", True),
        (f"{LANE_ZERO}\n@%p0 bra on;\n@%p9 bra on;\ntrap;\non:", False),
        (f"{LANE_ZERO}\n@%p0 bra on;\n@%p9 exit;\ntrap;\non:", False),
        (f"{LANE_ZERO}\n@%p9 trap;", False),
        ("T: .branchtargets one, two;\nbrx.idx %r9, T;\none: trap;\ntwo:", False),
        ("setp.ge.u32 %p0, %r0, 0;\n@%p0 bra on;\ntrap;\non:", False),
    ],
)
def test_a_thread_that_aborts_the_kernel_whatever_the_launch_is(body: str, always: bool) -> None:
    """cuBLASMp's kernels are built for targets that lack their instructions, and stop at once."""
    assert model(f"{body}\nret;").views.reachability.aborted is always


@pytest.mark.parametrize(("least", "comes"), [(1, False), (0, True)])
def test_a_branch_on_a_loop_invariant_contradicts_others(least: int, comes: bool) -> None:
    """CUTLASS's FMHA asks whether neither rounds nor tiles are left: never in a loop for the tiles that there are."""
    m = model(f"""
        mov.u32 %r0, %ctaid.x;
        setp.lt.s32 %p0, %r0, {least};
        @%p0 bra out;
        mov.u32 %r1, 9;
    round:
        or.b32 %r2, %r0, %r1;
        setp.ne.s32 %p1, %r2, 0;
        @%p1 bra more;
    last:
        mov.u32 %r3, 1;
    more:
        add.s32 %r1, %r1, -1;
        setp.gt.s32 %p2, %r1, -2;
        @%p2 bra round;
    out:
    """)
    assert bool(m.views.context_of(label(m.function, "last")).threads) is comes


@pytest.mark.parametrize(("limit", "found"), [(4, False), (3, True)])
def test_a_comparison_is_remembered_for_that_of_a_sum(limit: int, found: bool) -> None:
    """Nothing says that x + 1 below 4 is about x, but for the range of x."""
    m = model(f"""
        ld.param.u32 %r1, [number];
        start: {START}
        setp.eq.s32 %p0, %r1, 2;
        @!%p0 bra end;
        add.u32 %r2, %r1, 1;
        setp.lt.u32 %p1, %r2, {limit};
        @%p1 bra end;
        use: {USE}
        end: ret;
    """)
    path = search(m, label(m.function, "start"), label(m.function, "use"))
    assert (path is not None) is found


def test_views_know_what_dominates() -> None:
    m = model(
        "ld.param.u32 %r1, [number]; setp.eq.s32 %p1, %r1, 3;\n@!%p1 bra end;\nmine: mov.u32 %r2, 1;\nend: ret;"
    )
    view = m.views.context_of(label(m.function, "mine"))
    assert isinstance(view, ThreadContext)
    p = value(m, "%p1", "mine")
    assert m.values.entails(p, view.facts) is True
    assert view.threads == T.full(128)
    everywhere = m.views.context_of(label(m.function, "end"))
    assert m.values.entails(p, everywhere.facts) is None


def test_the_budget_ends_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many unrelated branches: the search gives up, or finds its way, but never runs away."""
    rows = "\n".join(
        f"ld.param.u32 %r{n}, [number+{4 * n}]; setp.eq.s32 %p{n}, %r{n}, 0;\n@%p{n} {STEP}\n@%p{n} bra M{n};\nmov.u32 %r60, 1;\nM{n}:"
        for n in range(14)
    )
    m = model(
        f"start: {START}\n{rows}\n{rows.replace('M', 'N')}\nmov.u32 %r60, 2;\nuse: {USE}\nret;",
        parameters=".param .b8 number[128]",
    )
    steps = 0
    markers: Any = Markers(m)

    def step(state: int, i: int, instruction: Instruction) -> int:
        nonlocal steps
        steps += 1
        return state * 2 + 1 if markers.kind.get(i) == 52 else state * 2

    to = label(m.function, "use")
    query = FactQuery(label(m.function, "start"), 0, markers, step, lambda state, i: False, (to,))
    monkeypatch.setattr(feasible_paths, "MAX_POSITIONS_AHEAD", 100)
    assert m.path(query) == GaveUp("more than 500 states", label(m.function, "start"))
    assert steps < 20_000
    assert isinstance(m.function.instructions[to].operands[1], Immediate)


@pytest.mark.parametrize(("most", "kind"), [(10_000, Infeasible), (10, GaveUp)])
def test_a_search_looks_ahead_for_a_goal_before_it_has_followed_every_path(
    most: int, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fact ends at the last instruction before the goal, where the solver, which is asked of another one, has it."""
    monkeypatch.setattr(feasible_paths, "MAX_POSITIONS_AHEAD", most)
    m = model(diamonds(14, STEP))
    start, to = label(m.function, "start"), label(m.function, "use")
    markers: Any = Markers(m)

    def step(state: bool, i: int, instruction: Instruction) -> bool | None:
        return None if markers.kind.get(i) == 52 else state

    query = FactQuery(start, True, markers, step, lambda state, i: i == to, (to,))
    monkeypatch.setattr(feasible_paths, "STATES_BEFORE_REQUIREMENTS", 1000)
    assert isinstance(m.path(query), kind)


def test_what_is_ahead_is_every_position_that_leads_to_a_goal() -> None:
    """One outcome of a guard ends the fact, and so does one of two branches."""
    m = model(diamonds(8, f"@%p9 {STEP}\n@%p10 bra use;\n{STEP}"))
    start, to = label(m.function, "start"), label(m.function, "use")
    markers: Any = Markers(m)

    def step(state: bool, i: int, instruction: Instruction) -> bool | None:
        return None if markers.kind.get(i) == 52 else state

    found = m.path(FactQuery(start, True, markers, step, lambda state, i: i == to, (to,))).witness
    assert found is not None
    assert [guard.executes for _, guard in found.guards] == [False]
    assert found.edges[-1].value is True


def diamonds(count: int, last: str) -> str:
    """Independent branches, each of which is tested again on the path to the end; *last* are more tests there."""
    loads = "\n".join(
        f"ld.global.u32 %r{n}, [%rd0+{4 * n}]; setp.eq.s32 %p{n}, %r{n}, 0;" for n in range(count)
    )
    rows = "\n".join(f"@%p{n} bra M{n};\nmov.u32 %r60, {n};\nM{n}:" for n in range(count))
    tests = "\n".join(f"@%p{n} bra out;" for n in range(count))
    return f"{loads}\nstart: {START}\n{rows}\n{tests}\n{last}\nuse: {USE}\nret;\nout: {STOP}\nret;"


def test_independent_branches_that_are_tested_again_do_not_exhaust_the_search() -> None:
    """Each branch doubles the states, but the tests at the end admit one outcome of each."""
    m = model(diamonds(14, ""))
    path = search(m, label(m.function, "start"), label(m.function, "use"))
    assert path is not None
    assert [e.value for e in path.edges if e.predicate >= 0] == [False] * 28


def test_what_changes_no_fact_is_passed_at_once_by_all_states_with_that_fact() -> None:
    """Every path condition meets the same instructions, of which one makes the fact older and another one is the goal."""
    m = model(diamonds(6, "").replace("@%p0 bra out;", f"{USE * 20} {STEP} {USE * 20}\n@%p0 bra out;", 1))
    start, to = label(m.function, "start"), label(m.function, "use")
    markers: Any = Markers(m)
    asked, met = Counter[tuple[int, int]](), list[int]()

    def step(state: int, i: int, instruction: Instruction) -> int | None:
        asked[state, i] += 1
        return {51: None, 52: min(state + 1, 2)}.get(markers.kind[i], state)

    def goal(state: int, i: int) -> bool:
        return (i == to or i == to - 10) and state == 1 and i not in met

    for path in m.paths(FactQuery(start, 0, markers, step, goal, (to - 10, to))):
        met.append(path.end)
    assert met == [to - 10, to]
    assert set(asked.values()) == {1}


def test_a_branch_from_an_equal_path_condition_is_decided_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches that remember the same predicates share what each branch makes of a path condition."""
    m, decided, taken = model(diamonds(6, "")), list[object](), Retention._taken

    def counted(self: Retention, *branch: Any) -> Any:
        decided.append(branch)
        return taken(self, *branch)

    monkeypatch.setattr(Retention, "_taken", counted)
    start, to = label(m.function, "start"), label(m.function, "use")
    first, once = search(m, start, to), len(decided)
    assert search(m, start, to) == first
    assert len(decided) == once > 0


def test_facts_that_contradict_each_other_jointly_close_a_branch_only_where_that_is_asked() -> None:
    """Whichever is asked first: two numbers above 3 whose sum is below 8."""
    m = model(
        f"""
    ld.param.u64 %rd0, [pointer];
    ld.global.b32 %r1, [%rd0];
    ld.global.b32 %r2, [%rd0+4];
    add.s32 %r3, %r1, %r2;
    setp.gt.s32 %p1, %r1, 3;
    setp.gt.s32 %p2, %r2, 3;
    setp.lt.s32 %p3, %r3, 8;
start: {START}
    @!%p1 bra out;
    @!%p2 bra out;
    @!%p3 bra out;
use: {USE}
out: ret;
    """
    )
    start, to = label(m.function, "start"), label(m.function, "use")
    markers: Any = Markers(m)
    query = FactQuery(start, 0, markers, lambda state, *_: state, lambda state, i: i == to, (to,))
    for together in (False, True, False, True):
        found = next_answer(m.paths(query, together=together))
        assert isinstance(found, Infeasible if together else Found)


def test_contradicting_tests_after_independent_branches_are_infeasible() -> None:
    m = model(diamonds(14, "@!%p0 bra out;"))
    start, to = label(m.function, "start"), label(m.function, "use")
    markers: Any = Markers(m)

    def step(state: bool, i: int, instruction: Instruction) -> bool | None:
        return None if markers.kind.get(i) == 51 else state

    query = FactQuery(start, True, markers, step, lambda state, i: i == to, (to,))
    assert isinstance(m.path(query), Infeasible)


def test_a_branch_that_a_loop_changes_is_not_required_before_the_loop() -> None:
    """The loop ends when its condition is false, which says nothing about the first iteration."""
    rows = "\n".join(f"@%p{n} bra M{n};\nmov.u32 %r60, {n};\nM{n}:" for n in range(1, 12))
    tests = "\n".join(f"@%p{n} bra out;" for n in range(1, 12))
    loads = "\n".join(
        f"ld.global.u32 %r{n}, [%rd0+{4 * n}]; setp.eq.s32 %p{n}, %r{n}, 0;" for n in range(1, 12)
    )
    loop = "again: ld.global.u32 %r20, [%rd0]; setp.ne.s32 %p20, %r20, 0;\n@%p20 bra again;"
    first = "ld.global.u32 %r20, [%rd0]; setp.ne.s32 %p20, %r20, 0;\n@!%p20 bra out;"
    assert reaches(
        f"{loads}\n{first}\nstart: {START}\n{rows}\n{loop}\n{tests}\nuse: {USE}\nret;\nout: {STOP}\nret;"
    )


def test_a_loop_invariant_branch_is_the_same_in_every_iteration() -> None:
    m = model(
        f"""
    ld.param.u32 %r1, [number];
    setp.eq.s32 %p1, %r1, 0;
start: {START}
    mov.u32 %r2, 0;
loop:
    @%p1 bra use;
    {STEP}
    bra next;
use: {USE}
next:
    add.s32 %r2, %r2, 1;
    setp.lt.s32 %p2, %r2, 9;
    @%p2 bra loop;
    ret;
    """
    )
    start, use = label(m.function, "start"), label(m.function, "use")
    assert search(m, start, use) is not None
    assert search(m, start, use, age=1) is None, "the branch goes to the use in every iteration, or in none"


def test_two_guards_agree() -> None:
    for guard, expected in (("@%p1", False), ("@!%p1", True)):
        m = model(f"start: {START}\n@%p1 {STEP}\n{guard} {STOP}\nuse: {USE}\nret;")
        path = search(m, label(m.function, "start"), label(m.function, "use"), age=1)
        assert (path is not None) is expected, guard


def test_what_holds_before_a_wait_loop_holds_after_it() -> None:
    """The header of a loop has an entry edge and a back edge; only the entry edge decides which threads arrive."""
    m = model(
        """
        mov.u32 %r1, %cluster_ctarank;
        setp.eq.s32 %p1, %r1, 0;
        @!%p1 bra end;
    wait:
        mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
        @!%p2 bra wait;
        @!%p1 bra end;
    use: add.u32 %r3, %r3, 1;
    end: ret;
        """
    )
    use = label(m.function, "use")
    leader = m.values.before(register(m.function, "%p1"), use)
    assert m.views.context_of(use).facts[leader] is True
    (wait,) = m.awaits(Barrier.MBARRIER)
    assert m.views.context_of(wait).facts[leader] is True
    skipped = [
        e for b in m.cfg.order for e in m.cfg.successors[b] if e.predicate == register(m.function, "%p1")
    ]
    assert [m.views.unreachable_after(e, {wait}) for e in skipped if not e.value] == [{wait}, {wait}]


def test_many_wait_loops_in_a_row_are_walked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What holds at each of n consecutive sites is found in n steps, not in n for each."""
    asked = 0
    dominates = CFG.dominates

    def counted(self: CFG, a: int, b: int) -> bool:
        nonlocal asked
        asked += 1
        return dominates(self, a, b)

    loops = (
        f"wait{n}: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], {n % 2};\n@!%p2 bra wait{n};"
        for n in range(200)
    )
    m = model("\n".join(loops) + "\nret;")
    sites = m.awaits(Barrier.MBARRIER)
    m.views.reachability.threads_at  # noqa: B018
    monkeypatch.setattr(CFG, "dominates", counted)
    assert {m.views.context_of(site).threads for site in sites} == {m.views.reachability.threads_at[0]}
    assert len(sites) == 200
    assert asked < 5 * len(m.cfg.blocks)


JOINED = """
    {start}
    ld.param.u32 %r1, [number];
    setp.eq.s32 %p1, %r1, 0;
    mov.pred %p2, {before};
    @%p1 bra join;
    mov.pred %p2, {after};
    {stop}
join:
    @%p2 bra end;
    {use}
end:
    ret;
"""


@pytest.mark.parametrize(("before", "after", "feasible"), [(1, 0, False), (0, 1, True), (0, 0, True)])
def test_the_edge_into_a_join_decides_its_phi(before: int, after: int, feasible: bool) -> None:
    of = model(JOINED.format(start=START, stop=STOP, use=USE, before=-before, after=-after))
    start, use = (of.function.instructions.index(i) for i in _marked(of, 50, 53))
    assert (search(of, start, use) is not None) == feasible


def _marked(of: KernelModel, *numbers: int) -> list[Instruction]:
    return [
        of.function.instructions[i] for n in numbers for i in of.values.defs[register(of.function, f"%r{n}")]
    ]


def test_what_is_loaded_once_is_known_after_a_loop() -> None:
    """The branch on it lies before the fact begins; a loop that does not touch it lies between."""
    of = model(
        f"""
    ld.shared.u32 %r1, [a];
    setp.eq.s32 %p2, %r1, 0;
    @%p2 bra join;
    {START}
loop:
    add.s32 %r2, %r2, 1;
    setp.lt.s32 %p3, %r2, 8;
    @%p3 bra loop;
join:
    @!%p2 bra end;
    {USE}
end:
    ret;
""",
        registers=".shared .align 4 .b32 a;\n" + REGISTERS,
    )
    start, use = (of.function.instructions.index(i) for i in _marked(of, 50, 53))
    assert search(of, start, use) is None


@pytest.mark.parametrize(
    ("last", "ended"),
    [
        ("add.s32 %r5, %r2, 1; setp.eq.s32 %p1, %r5, %r1;", True),  # i + 1 == n
        ("add.s32 %r5, %r1, -1; setp.eq.s32 %p1, %r2, %r5;", True),  # i == n - 1
        ("setp.eq.s32 %p1, %r3, -1;", True),  # i - n == -1, which is counted as well
        ("add.s32 %r5, %r1, -2; setp.eq.s32 %p1, %r2, %r5;", False),
        ("min.s32 %r5, %r1, 4; add.s32 %r5, %r5, -1; setp.eq.s32 %p1, %r2, %r5;", False),
        ("add.s32 %r5, %r4, -1; setp.eq.s32 %p1, %r2, %r5;", False),
    ],
)
@pytest.mark.parametrize("next_iteration", ["setp.lt.s32 %p2, %r2, %r1;", "setp.ne.s32 %p2, %r2, %r1;"])
def test_a_loop_ends_after_its_last_iteration(last: str, ended: bool, next_iteration: str) -> None:
    """``for (i < n) { start; if (i == n - 1) stop; }``, in the forms that compilers give to the two tests."""
    assert (
        reaches(f"""
        ld.param.u32 %r1, [number];
        mov.u32 %r4, %ctaid.x;
        setp.lt.s32 %p0, %r1, 1;
        @%p0 bra end;
        mov.u32 %r2, 0;
        neg.s32 %r3, %r1;
    round:
        {last}
        start: {START}
        @!%p1 bra more;
        {STOP}
    more:
        add.s32 %r3, %r3, 1;
        add.s32 %r2, %r2, 1;
        {next_iteration}
        @%p2 bra round;
        use: {USE}
    end:
        ret;
    """)
        is not ended
    )


@pytest.mark.parametrize(("most", "ended"), [(4, True), (5, False)])
def test_a_loop_whose_trip_count_is_a_minimum_ends(most: int, ended: bool) -> None:
    """``n = min(number, 4)``, of which nvcc makes min(number - 1, 3) at the end of a round."""
    body = f"""
        ld.param.u32 %r1, [number];
        setp.lt.s32 %p0, %r1, 1;
        @%p0 bra end;
        add.s32 %r3, %r1, -1;
        min.u32 %r3, %r3, 3;
        min.u32 %r4, %r1, {most};
        add.s32 %r4, %r4, -1;
        mov.u32 %r2, 0;
    round:
        mov.u32 %r6, 0;
        start: {START}
        setp.ne.s32 %p1, %r2, %r4;
        @%p1 bra more;
        {STOP}
    more:
        setp.ne.s32 %p2, %r2, %r3;
        add.s32 %r2, %r2, 1;
        @%p2 bra round;
        use: {USE}
    end:
        ret;
    """
    assert reaches(body) is not ended


@pytest.mark.parametrize(("guard", "found"), [("", False), ("!", True)])
def test_a_path_continues_from_the_iteration_that_it_starts_in(guard: str, found: bool) -> None:
    """What starts only where another iteration follows is ended in that iteration."""
    assert (
        reaches(f"""
        ld.param.u32 %r1, [number];
        mov.u32 %r2, 0;
    round:
        {STOP}
        add.s32 %r2, %r2, 1;
        setp.lt.s32 %p1, %r2, %r1;
        @{guard}%p1 bra last;
        bra more;
    last:
        mov.u32 %r6, 0;
        start: {START}
    more:
        @%p1 bra round;
        use: {USE}
        ret;
    """)
        is found
    )


FLAG = """
    ld.param.u32 %r1, [number];
    mov.u32 %r2, 0;
    mov.u32 %r3, {before};
round:
    ld.shared.u32 %r4, [%r5];
    setp.eq.s32 %p1, %r4, 0;
    @%p1 bra more;
    start: {start}
    mov.u32 %r3, {pending};
more:
    add.s32 %r2, %r2, 1;
    setp.lt.s32 %p2, %r2, %r1;
    @%p2 bra round;
    setp.eq.s32 %p3, %r3, 0;
    @%p3 bra over;
    {stop}
over:
    mov.u32 %r6, 0;
    use: {use}
    ret;
"""


@pytest.mark.parametrize(
    ("before", "pending", "found"),
    [
        ("0", "1", False),
        ("0", "2", False),
        ("1", "1", False),
        ("0", "0", True),
        ("1", "0", True),
        ("%ctaid.x", "1", False),  # whatever it is where nothing has started
        ("0", "%ctaid.x", True),
    ],
)
def test_a_flag_that_the_start_sets_is_tested_after_the_loop(before: str, pending: str, found: bool) -> None:
    assert reaches(FLAG.format(start=START, stop=STOP, use=USE, before=before, pending=pending)) is found


def test_a_value_chosen_among_many_is_not_a_flag() -> None:
    """A search that distinguished all states of a large machine would not end soon."""
    ways = "\n".join(f"setp.eq.s32 %p{4 + n}, %r4, {n};\n@%p{4 + n} bra set{n};" for n in range(1, 8))
    sets = "\n".join(f"set{n}: mov.u32 %r3, {n};\nbra more;" for n in range(1, 8))
    body = FLAG.format(start=START, stop=STOP, use=USE, before="0", pending="9")
    m = model(body.replace("more:", f"{ways}\nbra more;\n{sets}\nmore:", 1))
    (phi,) = {
        v
        for v in m.search_cache.leaves.of_branch(m.cfg.block_of[label(m.function, "over")] - 2)
        if m.values.is_phi(v)
    }
    assert not m.search_cache.flag(phi).phis


HEAD = """
    ld.param.u32 %r1, [number];
    mov.u32 %r2, {start};
round:
    setp.{leave} %p1, %r2, {end};
    @%p1 bra out;
    mov.u32 %r6, 0;
    start: {START}
    {count}
    @%p2 bra next;
    {STOP}
next:
    {step}
    bra round;
out:
    mov.u32 %r6, 0;
    use: {USE}
    ret;
"""


@pytest.mark.parametrize(
    ("leave", "count", "step", "found"),
    [
        ("ge.s32", "add.s32 %r2, %r2, 1; setp.ne.s32 %p2, %r2, %r1;", "", False),
        ("ge.u32", "add.s32 %r2, %r2, 1; setp.ne.s32 %p2, %r2, %r1;", "", False),
        ("eq.s32", "add.s32 %r2, %r2, 1; setp.ne.s32 %p2, %r2, %r1;", "", False),
        ("ge.s32", "add.s32 %r2, %r2, 1; setp.lt.s32 %p2, %r2, %r1;", "", False),
        ("ge.s32", "sub.s32 %r7, %r1, 1; setp.ne.s32 %p2, %r2, %r7;", "add.s32 %r2, %r2, 1;", False),
        ("ge.s32", "add.s32 %r2, %r2, 2; setp.lt.s32 %p2, %r2, %r1;", "", False),
        # Skips an odd number, or has one more iteration.
        ("ge.s32", "add.s32 %r2, %r2, 2; setp.ne.s32 %p2, %r2, %r1;", "", True),
        ("gt.s32", "add.s32 %r2, %r2, 1; setp.ne.s32 %p2, %r2, %r1;", "", True),
        ("ge.s32", "setp.ne.s32 %p2, %r2, %r1;", "add.s32 %r2, %r2, 1;", True),
        # A number that something else changes as well.
        ("ge.s32", "add.s32 %r2, %r2, 1; setp.ne.s32 %p2, %r2, %r1;", "ld.shared.u32 %r2, [%r5];", True),
    ],
)
def test_what_an_iteration_implies_holds_for_the_next_one(
    leave: str, count: str, step: str, found: bool
) -> None:
    """A loop that tests in its header: what starts in the last iteration is ended in it."""
    body = HEAD.format(
        start="0", end="%r1", leave=leave, count=count, step=step, START=START, STOP=STOP, USE=USE
    )
    assert reaches(body) is found


@pytest.mark.parametrize(
    ("step", "ahead", "within", "found"),
    [
        (2, 1, "", False),
        (2, 2, "", True),
        (3, 2, "", False),
        (3, 3, "", True),
        # Something else ends it as well, or the end is another one in each iteration.
        (2, 1, "setp.eq.s32 %p4, %r5, 7; @%p4 bra end;", True),
        (2, 1, "ld.shared.u32 %r1, [%r5];", True),
    ],
)
def test_an_unrolled_loop_ends_at_its_bound(step: int, ahead: int, within: str, found: bool) -> None:
    """``do { start; if (i + 1 >= n) use; i += 2; } while (i != n)`` never gets past n."""
    body = f"""
        ld.param.u32 %r1, [number];
        mov.u32 %r4, %ctaid.x;
        mov.u32 %r5, 0;
        mov.u32 %r2, 0;
        setp.eq.s32 %p0, %r4, 0;
        @%p0 bra end;
    round:
        {within}
        mov.u32 %r6, 0;
        start: {START}
        add.s32 %r3, %r2, {ahead};
        setp.lt.s32 %p1, %r3, %r1;
        @%p1 bra more;
        mov.u32 %r6, 0;
        use: {USE}
    more:
        {STOP}
        add.s32 %r2, %r2, {step};
        setp.ne.s32 %p2, %r2, %r1;
        @%p2 bra round;
    end:
        ret;
    """
    assert reaches(body) is found


UNROLLED = f"""
    ld.param.u32 %r1, [number];
    mov.u32 %r3, %nctaid.x;
    setp.lt.s32 %p0, %r1, 4;
    @%p0 bra end;
    {{end}}
    mov.u32 %r2, 0;
round:
    mov.u32 %r5, 0;
    start: {START}
    add.s32 %r6, %r2, {{ahead}};
    setp.lt.s32 %p1, %r6, %r1;
    @%p1 bra more;
    mov.u32 %r5, 0;
    use: {USE}
more:
    {STOP}
    add.s32 %r2, %r2, 4;
    {{count}}
    setp.ne.s32 %p2, %r7, 0;
    @%p2 bra round;
end:
    ret;
"""


@pytest.mark.parametrize(("ahead", "found"), [(1, False), (3, False), (4, True)])
@pytest.mark.parametrize(
    ("end", "count"),
    [
        ("and.b32 %r4, %r1, 3; sub.s32 %r4, %r4, %r1;", "add.s32 %r7, %r4, %r2;"),
        ("and.b32 %r4, %r1, -4;", "sub.s32 %r7, %r4, %r2;"),
        ("and.b32 %r4, %r1, 2147483644; neg.s32 %r7, %r4;", "add.s32 %r7, %r7, 4;"),
    ],
)
def test_a_loop_that_leaves_a_rest(end: str, count: str, ahead: int, found: bool) -> None:
    """``for (i = 0; i != n - (n & 3); i += 4)``, as compilers write it, is nowhere near n before its last number."""
    assert reaches(UNROLLED.format(end=end, count=count, ahead=ahead)) is found


@pytest.mark.parametrize("number", ["%r1", "%r3"])
def test_a_loop_that_leaves_no_rest(number: str) -> None:
    """That continues to the next multiple of four, or to a value unrelated to n."""
    end = f"add.s32 %r6, {number}, 3; and.b32 %r4, %r6, 2147483644; neg.s32 %r7, %r4;"
    assert reaches(UNROLLED.format(end=end, count="add.s32 %r7, %r7, 4;", ahead=1))


@pytest.mark.parametrize(
    ("least", "compare", "mask", "found"),
    [
        (2, "lt.s32", 0x3FFFFFFF, False),
        (1, "lt.s32", 0x3FFFFFFF, True),
        (2, "lt.u32", 0x3FFFFFFF, True),  # it may be 1 << 31
        (2, "lt.s32", 0x1FFFFFFF, True),
    ],
)
def test_half_of_a_number_that_is_not_negative(least: int, compare: str, mask: int, found: bool) -> None:
    """A number above 1 has a half that is not 0 and has no more than 30 bits: compilers know that it has its sign."""
    body = f"""
        ld.param.u32 %r1, [number];
        setp.{compare} %p0, %r1, {least};
        @%p0 bra end;
        shr.u32 %r2, %r1, 1;
        and.b32 %r2, %r2, {mask};
        shl.b32 %r2, %r2, 1;
        start: {START}
        setp.ne.s32 %p1, %r2, 0;
        @!%p1 bra more;
        {STOP}
    more:
        mov.u32 %r6, 0;
        use: {USE}
    end:
        ret;
    """
    assert reaches(body) is found


@pytest.mark.parametrize(
    ("ahead", "step", "found"),
    [(1, 1, False), (2, 1, True), (0, 1, False), (2, 2, False), (1, 2, False), (3, 2, True)],
)
def test_two_counters_of_a_loop_are_equivalent(ahead: int, step: int, found: bool) -> None:
    """One counts the iterations that are done, and one those that remain: the last one has i + 1 >= n and r - 1 == 0."""
    body = f"""
        ld.param.u32 %r1, [number];
        mov.u32 %r2, 0;
        mov.u32 %r3, %r1;
        setp.lt.s32 %p0, %r1, 1;
        @%p0 bra end;
    round:
        mov.u32 %r6, 0;
        start: {START}
        add.s32 %r4, %r2, {ahead};
        setp.lt.s32 %p1, %r4, %r1;
        @!%p1 bra more;
        {STOP}
    more:
        add.s32 %r2, %r2, {step};
        sub.s32 %r3, %r3, {step};
        setp.ne.s32 %p2, %r3, 0;
        @!%p2 bra end;
        mov.u32 %r6, 0;
        use: {USE}
        bra round;
    end:
        ret;
    """
    assert reaches(body) is found


def test_a_loop_that_counts_down_to_its_head() -> None:
    count = "add.s32 %r2, %r2, -1; setp.ne.s32 %p2, %r2, 0;"
    body = HEAD.format(
        start="%r1", end="0", leave="le.s32", count=count, step="", START=START, STOP=STOP, USE=USE
    )
    assert not reaches(body)


@pytest.mark.parametrize(
    ("first", "limit", "found"),
    [("0", "0", False), ("0", "-1", True), ("1", "0", True), ("1", "1", False), ("%ctaid.x", "0", True)],
)
def test_a_loop_without_an_iteration_bounds_its_count(first: str, limit: str, found: bool) -> None:
    """Where a way comes into the head of a loop from before, what it asks is asked of the number that it begins with."""
    body = f"""
        ld.param.u32 %r1, [number];
        mov.u32 %r2, {first};
        mov.u32 %r6, 0;
        start: {START}
    head:
        setp.ge.s32 %p1, %r2, %r1;
        @%p1 bra out;
        {STOP}
        add.s32 %r2, %r2, 1;
        bra head;
    out:
        setp.gt.s32 %p2, %r1, {limit};
        @!%p2 bra end;
        mov.u32 %r6, 0;
        use: {USE}
    end:
        ret;
    """
    assert reaches(body) is found


def test_a_loop_that_never_has_one_iteration_alone() -> None:
    """That no thread exits in its first iteration implies nothing about the second one."""
    assert reaches(f"""
        mov.u32 %r2, 0;
        mov.u32 %r6, 0;
        start: {START}
    round:
        st.shared.u32 [%r5], %r2;
        add.s32 %r2, %r2, 128;
        setp.lt.s32 %p1, %r2, 1024;
        @%p1 bra round;
        mov.u32 %r6, 0;
        use: {USE}
        ret;
    """)


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        # No 0 is above an unsigned number, and 0 is what is below 1.
        ("setp.lt.u32 %p1, %ctaid.x, %r1;", "setp.eq.u32 %p2, %r1, 0;", False),
        ("setp.lt.u32 %p1, %ctaid.x, %r1;", "setp.eq.u32 %p2, %r1, 1;", True),
        ("setp.lt.s32 %p1, %ctaid.x, %r1;", "setp.eq.u32 %p2, %r1, -1;", True),
        ("setp.ne.u32 %p1, %r1, 0;", "setp.lt.u32 %p2, %r1, 1;", False),
        ("setp.ne.u32 %p1, %r1, 0;", "setp.le.u32 %p2, %r1, 0;", False),
        ("setp.ne.u32 %p1, %r1, 1;", "setp.lt.u32 %p2, %r1, 1;", True),
        ("setp.ge.u32 %p1, %r1, 5;", "setp.eq.u32 %p2, %r1, 0;", False),
        # Low bits that are left out.
        ("and.b32 %r2, %r1, -2; setp.eq.s32 %p1, %r2, 2;", "setp.eq.s32 %p2, %r1, 3;", True),
        ("and.b32 %r2, %r1, -2; setp.eq.s32 %p1, %r2, 2;", "setp.eq.s32 %p2, %r1, 4;", False),
        ("and.b32 %r2, %r1, -4; setp.eq.s32 %p1, %r2, 8;", "setp.lt.s32 %p2, %r1, 8;", False),
        ("and.b32 %r2, %r1, -3; setp.eq.s32 %p1, %r2, 8;", "setp.eq.s32 %p2, %r1, 10;", True),
        (
            "cvt.u64.u32 %rd1, %r1; shl.b64 %rd1, %rd1, 8; and.b64 %rd2, %rd1, -1099511627776; setp.eq.s64 %p1, %rd2, 0;",
            "setp.gt.s64 %p2, %rd1, 68719476736;", True,
        ),
        ("shr.s32 %r2, %r1, 2; setp.gt.s32 %p1, %r2, 2;", "setp.lt.s32 %p2, %r1, 12;", False),
        ("shr.s32 %r2, %r1, 2; setp.gt.s32 %p1, %r2, 2;", "setp.lt.s32 %p2, %r1, 13;", True),
        ("shr.u32 %r2, %r1, 1; setp.eq.s32 %p1, %r2, 1;", "setp.eq.s32 %p2, %r1, 4;", False),
        ("shr.u32 %r2, %r1, 1; setp.eq.s32 %p1, %r2, 1;", "setp.eq.s32 %p2, %r1, 3;", True),
        # Quotients, of numbers that are read with a sign or without one.
        ("div.s32 %r2, %r1, 4; setp.gt.s32 %p1, %r2, 2;", "setp.lt.s32 %p2, %r1, 12;", False),
        ("div.s32 %r2, %r1, 4; setp.gt.s32 %p1, %r2, 2;", "setp.lt.s32 %p2, %r1, 13;", True),
        ("div.s32 %r2, %r1, 4; setp.eq.s32 %p1, %r2, 0;", "setp.lt.s32 %p2, %r1, -3;", False),
        ("div.s32 %r2, %r1, 4; setp.eq.s32 %p1, %r2, 0;", "setp.lt.s32 %p2, %r1, -2;", True),
        ("div.u32 %r2, %r1, 3; setp.gt.u32 %p1, %r2, 2;", "shr.u32 %r3, %r1, 3; setp.eq.u32 %p2, %r3, 0;", False),
        ("div.u32 %r2, %r1, 3; setp.gt.u32 %p1, %r2, 2;", "setp.lt.s32 %p2, %r1, 0;", True),
        ("setp.ge.u32 %p1, %r1, 2;", "shr.u32 %r2, %r1, 1; shl.b32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 1;", False),
        ("setp.ge.u32 %p1, %r1, 2;", "shr.u32 %r2, %r1, 1; shl.b32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 3;", True),
        ("setp.ge.u32 %p1, %r1, 2;", "shr.s32 %r2, %r1, 1; setp.lt.s32 %p2, %r2, 1;", True),
        # Where it wraps.
        ("setp.ge.u32 %p1, %r1, 2;", "shr.u32 %r2, %r1, 1; shl.b32 %r2, %r2, 2; setp.eq.u32 %p2, %r2, 0;", True),
        ("setp.ge.u32 %p1, %r1, 2;", "shr.u32 %r2, %r1, 1; shl.b32 %r2, %r2, 1; setp.lt.s32 %p2, %r2, 0;", True),
        # What is taken from a number that is no less leaves less, unless it is 0.
        (
            "setp.lt.u32 %p1, %ctaid.x, %r1;",
            "min.u32 %r2, %r1, 2; sub.u32 %r2, %r1, %r2; setp.ge.u32 %p2, %r2, %r1;", False,
        ),
        (
            "setp.le.u32 %p1, %ctaid.x, %r1;",
            "min.u32 %r2, %r1, 2; sub.u32 %r2, %r1, %r2; setp.ge.u32 %p2, %r2, %r1;", True,
        ),
        ("setp.ge.u32 %p1, %r1, 3;", "sub.u32 %r2, %r1, 3; setp.ge.u32 %p2, %r2, %r1;", False),
        ("setp.ge.u32 %p1, %r1, 2;", "sub.u32 %r2, %r1, 3; setp.ge.u32 %p2, %r2, %r1;", True),
        ("setp.ne.u32 %p1, %r1, 0;", "min.u32 %r2, %r1, 7; setp.eq.u32 %p2, %r2, 0;", False),
        ("setp.ne.u32 %p1, %r1, 0;", "min.s32 %r2, %r1, 7; setp.lt.s32 %p2, %r2, 0;", True),
        # Bits of one number.
        ("and.b32 %r2, %r1, 1; setp.ne.s32 %p1, %r2, 0;", "and.b32 %r3, %r1, 3; setp.eq.s32 %p2, %r3, 2;", False),
        ("and.b32 %r2, %r1, 1; setp.ne.s32 %p1, %r2, 0;", "and.b32 %r3, %r1, 3; setp.eq.s32 %p2, %r3, 3;", True),
        ("and.b32 %r2, %r1, 6; setp.eq.s32 %p1, %r2, 2;", "and.b32 %r3, %r1, 4; setp.ne.s32 %p2, %r3, 0;", False),
        ("and.b32 %r2, %r1, 6; setp.ne.s32 %p1, %r2, 0;", "and.b32 %r3, %r1, 4; setp.eq.s32 %p2, %r3, 0;", True),
        ("shr.s32 %r2, %r1, 31; and.b32 %r2, %r2, 1; setp.ne.s32 %p1, %r2, 0;", "and.b32 %r3, %r1, 0x80000000; setp.eq.s32 %p2, %r3, 0;", False),
        (
            "shr.u32 %r2, %r1, 4; and.b32 %r2, %r2, 1; setp.ne.s32 %p1, %r2, 0;",
            "and.b32 %r3, %r1, 48; setp.eq.s32 %p2, %r3, 32;", False,
        ),
        # Of two predicates.
        (
            "setp.eq.s32 %p3, %r1, 1; setp.eq.s32 %p4, %ctaid.x, 0; and.pred %p5, %p3, %p4; not.pred %p1, %p5;",
            "setp.eq.s32 %p2, %r1, 1;", True,
        ),
        # Numbers of 16 bits.
        ("cvt.u16.u32 %h1, %r1; and.b16 %h2, %h1, 255; setp.eq.s16 %p1, %h2, 0;", "setp.eq.s16 %p2, %h2, 1;", False),
        ("cvt.u16.u32 %h1, %r1; and.b16 %h2, %h1, 255; setp.eq.s16 %p1, %h2, 0;", "setp.ne.s16 %p2, %h2, 1;", True),
    ],
)  # fmt: skip
def test_one_comparison_implies_another(first: str, second: str, both: bool) -> None:
    found = reaches(f"""
        ld.param.u32 %r1, [number];
        mov.u32 %r6, 0;
        start: {START}
        {first}
        @!%p1 bra end;
        {second}
        @!%p2 bra end;
        mov.u32 %r6, 0;
        use: {USE}
    end:
        ret;
    """)
    assert found is both
