"""The control-flow graph: edges, exits, dominators, loops, control dependence, the call graph."""

from __future__ import annotations

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tclint.ir.cfg import CFG, call_graph
from tests.tools.support import built, function, kernel, label, model, module, register


def graph(body: str) -> CFG:
    return CFG(function(module(kernel(body))))


def edges(cfg: CFG) -> list[tuple[int, int]]:
    return [(e.source, e.target) for out in cfg.successors for e in out]


# ---------------------------------------------------------------- edges


def test_guards_decide_edges() -> None:
    cfg = graph("@%p1 bra L;\nmov.u32 %r1, 0;\nL: @!%p2 bra M;\nmov.u32 %r1, 1;\nM: ret;")
    p1, p2 = register(cfg.function, "%p1"), register(cfg.function, "%p2")
    assert [[(e.target, e.predicate, e.value) for e in out] for out in cfg.successors] == [
        [(2, p1, True), (1, p1, False)],
        [(2, -1, True)],
        [(4, p2, False), (3, p2, True)],
        [(4, -1, True)],
        [],
    ]
    assert cfg.exits == {4}


def test_a_guarded_instruction_stays_in_its_block() -> None:
    cfg = graph("@%p1 mov.u32 %r1, 0;\nmov.u32 %r2, 0;\nret;")
    assert len(cfg.blocks) == 1


def test_predicated_ends_fall_through() -> None:
    cfg = graph("@%p1 ret;\n@%p2 exit;\n@%p3 trap;\nmov.u32 %r1, 0;")
    assert edges(cfg) == [(0, 1), (1, 2), (2, 3)]
    assert cfg.exits == {0, 1, 3}, "the end of the body is one, trap is none"
    assert [out[0].value for out in cfg.successors[:3]] == [False, False, False]


def test_unpredicated_ends_do_not_fall_through() -> None:
    cfg = graph("ret;\nmov.u32 %r1, 0;\nexit;\ntrap;\nmov.u32 %r2, 0;")
    assert edges(cfg) == []
    assert cfg.order == [0]
    assert cfg.exits == {0, 1, 3}


def test_a_branch_to_the_very_end_leaves() -> None:
    cfg = graph("@%p1 bra end;\nmov.u32 %r1, 0;\nend:")
    assert edges(cfg) == [(0, 1)]
    assert cfg.exits == {0, 1}


def test_a_guarded_ret_at_the_very_end() -> None:
    cfg = graph("mov.u32 %r1, 0;\n@%p1 ret;")
    assert cfg.exits == {0}
    assert edges(cfg) == []


def test_a_branch_to_itself() -> None:
    cfg = graph("L: bra L;")
    assert edges(cfg) == [(0, 0)]
    assert cfg.exits == set()
    assert cfg.loops == {0: frozenset((0,))}
    assert cfg.in_cycle == {0}
    assert 0 not in cfg.ipdom


@pytest.mark.parametrize("opcode", ["trap", "brkpt"])
def test_an_aborting_instruction_is_not_a_path_past_a_block(opcode: str) -> None:
    """Without a debugger brkpt aborts the kernel as trap does: in SASS they are one instruction."""
    cfg = graph(f"@%p1 bra OK;\n{opcode};\nOK: mov.u32 %r1, 0;\n@%p2 bra END;\nbra OK;\nEND: ret;")
    assert [cfg.aborts(b) for b in cfg.order].count(True) == 1
    assert cfg.ipdom[0] == cfg.index[2]
    assert {e.source for e in cfg.control_dependences(cfg.index[2])} == {cfg.index[2]}


def test_the_innermost_loop_around_blocks() -> None:
    cfg = graph("A: mov.u32 %r1, 0;\nB: add.u32 %r1, %r1, 1;\n@%p1 bra B;\n@%p2 bra A;\nret;")
    a, b, after, end = range(4)
    assert cfg.innermost(b) == {b}
    assert cfg.innermost(a) == cfg.innermost(a, b) == {a, b, after}
    assert cfg.innermost(b, end) == frozenset()


@pytest.mark.parametrize(
    ("first", "second", "later"),
    [
        pytest.param("a", "b", False, id="in the same iteration"),
        pytest.param("b", "a", True, id="by the back edge"),
        pytest.param("c", "b", True, id="in another block"),
        pytest.param("c", "e", False, id="past the other branch"),
        pytest.param("d", "c", True, id="in the other branch"),
        pytest.param("z", "a", False, id="after the loop"),
        pytest.param("a", "a", False, id="the instruction itself"),
        pytest.param("y", "x", False, id="before the loop"),
    ],
)
def test_what_follows_only_in_a_later_iteration(first: str, second: str, later: bool) -> None:
    cfg = graph(
        "x: mov.u32 %r1, 0;\ny: mov.u32 %r2, 0;\n"
        "a: add.u32 %r1, %r1, 1;\nb: add.u32 %r2, %r1, 1;\n@%p1 bra d;\n"
        "c: mov.u32 %r3, 0;\nbra e;\n"
        "d: mov.u32 %r3, 1;\n"
        "e: mov.u32 %r4, 0;\n@%p2 bra a;\n"
        "z: ret;"
    )
    sites = [label(cfg.function, name) for name in (first, second)]
    assert cfg.in_later_iteration(*sites) is later


def test_a_join_is_entered_as_the_branches_before_it_decide_and_not_those_that_decide_whether_it_is_reached() -> (
    None
):
    cfg = graph(
        "@%p1 bra END;\n@%p2 bra OTHER;\nmov.u32 %r1, 0;\nbra JOIN;\n"
        "OTHER: mov.u32 %r1, 1;\nJOIN: mov.u32 %r2, 0;\nEND: ret;"
    )
    outer, inner, one, other, join, end = range(6)
    assert {e.source for e in cfg.control_dependences(join)} == {outer}
    assert [(e.source, e.target) for e in cfg.selecting(join)] == [
        (inner, one),
        (one, join),
        (inner, other),
        (other, join),
    ]
    assert outer in {e.source for e in cfg.selecting(end)}


def test_a_branch_table_has_a_case_for_each_entry() -> None:
    cfg = graph("ts: .branchtargets A, B, A;\n@%p1 brx.idx %r1, ts;\nmov.u32 %r2, 0;\nA: ret;\nB: ret;")
    p1 = register(cfg.function, "%p1")
    assert [(e.target, e.case, e.predicate, e.value) for e in cfg.successors[0]] == [
        (2, 0, p1, True),
        (3, 1, p1, True),
        (2, 2, p1, True),
        (1, -1, p1, False),
    ]


def test_a_function_without_instructions() -> None:
    cfg = graph("")
    assert (cfg.blocks, cfg.order, cfg.idom, cfg.loops) == ([], [], {}, {})
    assert cfg.in_cycle == frozenset()


def test_a_label_without_a_jump_does_not_split_a_block() -> None:
    assert len(graph("mov.u32 %r1, 0;\nL: mov.u32 %r1, 1;\nret;").blocks) == 1


# ---------------------------------------------------------------- against networkx


@st.composite
def bodies(draw: st.DrawFn) -> str:
    """Blocks in a row, each with a random end."""
    count = draw(st.integers(1, 8))
    lines = []
    for b in range(count):
        end = draw(st.sampled_from(["", "bra", "@bra", "@bra", "@bra", "ret", "@ret", "trap", "@exit"]))
        target = f"L{draw(st.integers(0, count - 1))}"
        guard = f"@%p{b} "
        text = {
            "bra": f"bra {target};",
            "@bra": f"{guard}bra {target};",
            "@ret": f"{guard}ret;",
            "@exit": f"{guard}exit;",
        }
        lines.append(f"L{b}: mov.u32 %r{b}, {b};\n{text.get(end, f'{end};' if end else '')}")
    return "\n".join(lines)


@settings(max_examples=80, deadline=None)
@given(bodies())
def test_dominators_and_loops_are_those_of_networkx(body: str) -> None:
    cfg = graph(body)
    g = networkx.DiGraph()
    g.add_nodes_from(range(len(cfg.blocks)))
    g.add_edges_from(edges(cfg))
    reachable = {0, *networkx.descendants(g, 0)}
    assert set(cfg.order) == reachable
    g = g.subgraph(reachable)
    assert all(cfg.rank[a] < cfg.rank[b] or cfg.rank[a] >= cfg.rank[b] for a, b in g.edges)
    for b in reachable:
        paths_without = {a for a in reachable if b in _reached(g, 0, without=a)}
        for a in reachable:
            assert cfg.dominates(a, b) == (a not in paths_without), (a, b)
        if b:
            assert cfg.dominates(cfg.idom[b], b)
    cyclic = {n for part in networkx.strongly_connected_components(g) if len(part) > 1 for n in part}
    assert cfg.in_cycle == cyclic | set(networkx.nodes_with_selfloops(g))
    for header, loop in cfg.loops.items():
        assert all(cfg.dominates(header, b) for b in loop)
        assert networkx.is_strongly_connected(g.subgraph(loop))
    # Post-dominators: removing them cuts every path to an end.
    ends = {b for b in reachable if b in cfg.exits or not (g.out_degree(b) or cfg.aborts(b))}
    r = networkx.DiGraph(g.reverse())
    r.add_node(-1)
    r.add_edges_from((-1, e) for e in ends)
    for b in reachable & networkx.descendants(r, -1):
        assert b in cfg.ipdom
        up = cfg.ipdom[b]
        assert up == -1 or b not in _reached(r, -1, without=up)
        strict = {a for a in reachable - {b} if b not in _reached(r, -1, without=a)}
        assert (up == -1) == (not strict)
        if strict:
            assert up in strict


def _reached(g: networkx.DiGraph[int], start: int, without: int) -> set[int]:
    if start == without:
        return set()
    rest = g.subgraph(set(g) - {without})
    return {start, *networkx.descendants(rest, start)}


@settings(max_examples=100, deadline=None)
@given(bodies(), st.sets(st.integers(0, 9), max_size=3))
def test_only_at_joins_the_last_of_some_blocks_differs_from_that_at_the_dominator(
    body: str, numbers: set[int]
) -> None:
    cfg = graph(body)
    last: dict[int, set[int]] = {b: set() for b in cfg.order}
    work = [(0, -1)]
    while work:
        block, before = work.pop()
        if before not in last[block]:
            last[block].add(before)
            work += [(e.target, block if block in numbers else before) for e in cfg.successors[block]]
    joins = cfg.joins(numbers)
    for block in set(cfg.order) - joins - {0}:
        above = cfg.idom[block]
        assert last[block] == ({above} if above in numbers else last[above]), block
    for block in joins:
        assert len(cfg.sources[block]) > 1 or block == 0, "it joins no paths"


@settings(max_examples=80, deadline=None)
@given(bodies())
def test_what_controls_a_block_decides_whether_it_runs(body: str) -> None:
    """A branch controls a block when one way out of it must pass the block, and another can miss it, directly or not."""
    cfg = graph(body)
    ends = {b for b in cfg.order if b in cfg.exits or not (cfg.successors[b] or cfg.aborts(b))}
    for b in cfg.order:
        finish = ends if b in cfg.ipdom else ends | {a for a in cfg.order if cfg.aborts(a)}
        controllers = {(e.source, e.target) for e in cfg.control_dependences(b)}
        for edge in (e for s in cfg.order for e in cfg.successors[s]):
            others = [e.target for e in cfg.successors[edge.source] if e != edge]
            leaves = edge.source in cfg.exits
            if (
                _must(cfg, edge.target, b, finish)
                and edge.source != b
                and (leaves or any(_can_end_without(cfg, o, b, finish) for o in others))
                and _can_end_without(cfg, edge.target, -2, finish)
            ):
                assert (edge.source, edge.target) in controllers, (edge, b)
            if (
                edge.source in cfg.ipdom
                and b not in cfg.ipdom
                and _can_end_without(cfg, b, -2, finish)
                and not _can_end_without(cfg, edge.target, -2, ends)
            ):
                assert (edge.source, edge.target) in controllers or not cfg.reachable_from[
                    edge.target
                ] >> b & 1


def _can_end_without(cfg: CFG, start: int, avoid: int, ends: set[int]) -> bool:
    seen, work = {avoid}, [start]
    while work:
        b = work.pop()
        if b in seen:
            continue
        seen.add(b)
        if b in ends:
            return True
        work += [e.target for e in cfg.successors[b]]
    return False


def _must(cfg: CFG, start: int, b: int, ends: set[int]) -> bool:
    return not _can_end_without(cfg, start, b, ends)


# ---------------------------------------------------------------- calls and views


def test_the_call_graph() -> None:
    m = built(
        module(
            ".func low () { ret; }\n.func high () { call low; ret; }\n",
            kernel("call high;\ncall.uni low;\np: .callprototype _ ();\ncall %rd1, p;\nret;"),
        )
    )
    g = call_graph(m.functions)
    assert set(g.edges) == {("high", "low"), ("k", "high"), ("k", "low"), ("k", "?")}


def test_the_threads_that_reach_a_block() -> None:
    m = model(
        """
    mov.u32 %r1, %tid.x;
    shr.u32 %r2, %r1, 5;
    setp.eq.s32 %p1, %r2, 2;
    @%p1 bra second;
    setp.lt.u32 %p2, %r1, 32;
    @!%p2 bra rest;
first: bra.uni end;
second: bra.uni end;
rest: bra.uni end;
end: ret;
    """
    )
    reach = {
        name: m.views.reachability.threads_at[m.cfg.block_of[label(m.function, name)]]
        for name in ("first", "second", "rest", "end")
    }
    warp = (1 << 32) - 1
    assert reach == {
        "first": warp,
        "second": warp << 64,
        "rest": warp << 32 | warp << 96,
        "end": (1 << 128) - 1,
    }
    assert m.describe_threads(m.views.context_of(label(m.function, "second")).threads) == "warp 2"


def test_a_role_table_in_shared_memory_is_a_dispatcher() -> None:
    m = model(
        """
    .shared .align 4 .b8 roles[16];
    mov.u32 %r1, %tid.x;
    shr.u32 %r2, %r1, 5;
    mov.u32 %r3, roles;
    add.s32 %r4, %r3, %r2;
next:
    bar.sync 0;
    ld.shared.s8 %r5, [%r4];
    ts: .branchtargets one, two;
    brx.idx %r5, ts;
one: bra next;
two: ret;
    """
    )
    assert m.views.reachability.dispatchers == {m.cfg.block_of[label(m.function, "next")]}
    plain = model(
        "ld.param.u32 %r1, [number];\nts: .branchtargets one, two;\nbrx.idx %r1, ts;\none: ret;\ntwo: ret;"
    )
    assert plain.views.reachability.dispatchers == frozenset()
    loaded = model(
        "ld.global.u32 %r1, [%rd0];\nts: .branchtargets one, two;\nbrx.idx %r1, ts;\none: ret;\ntwo: ret;"
    )
    assert loaded.views.reachability.dispatchers == frozenset()
