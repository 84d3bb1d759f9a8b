"""The doubts about feasible paths, and the path that is preferred because it has none."""

from __future__ import annotations

from tclint.analyses.cluster_barrier import ClusterBarrier
from tclint.analyses.model import FactQuery, KernelModel
from tclint.analyses.plausibility import NO_DOUBT, Doubt, most_plausible_path, skips, skips_for_launch
from tclint.dataflow import Path
from tclint.ir.nodes import Instruction
from tclint.isa.effects import Barrier
from tests.tools.support import label, model

LOOP = """
    ld.param.u32 %r2, [number];
    mov.u32 %r3, 0;
    setp.eq.u32 %p1, %r2, 0;
    @%p1 bra use;
loop:
    bar.sync 0;
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p2, %r3, %r2;
    @%p2 bra loop;
use:
    mov.u32 %r4, 1;
    ret;
"""
"""A path around a loop with a barrier, whose trip count is a kernel parameter."""


def looping() -> tuple[KernelModel, Path]:
    m = model(LOOP)
    path = m.entry_path(label(m.function, "use")).witness
    assert path is not None
    return m, path


def test_the_first_doubt_counts_and_no_doubt_is_false() -> None:
    assert not NO_DOUBT
    assert (NO_DOUBT or Doubt("one") or Doubt("two")) == Doubt("one")


def test_a_path_that_skips_a_loop_is_in_doubt_for_the_edge_that_skips_it() -> None:
    m, path = looping()
    doubt = skips(m, path, m.awaits(Barrier.CTA), "the loop waits")
    assert doubt == Doubt("the loop waits", path.edges[0])
    assert skips(m, path, m.arrives(Barrier.CLUSTER), "the loop waits") == NO_DOUBT


def test_a_branch_on_a_launch_value_is_in_doubt_and_one_on_a_constant_is_not() -> None:
    m, path = looping()
    start = 0
    assert skips_for_launch(m, path, m.awaits(Barrier.CTA), "why", start) == Doubt("why", path.edges[0])
    fixed = model(LOOP.replace("ld.param.u32 %r2, [number]", "mov.u32 %r2, 0"))
    there = Path(path.edges, path.marks, path.end, path.threads)
    assert skips_for_launch(fixed, there, fixed.awaits(Barrier.CTA), "why", start) == NO_DOUBT


def test_a_path_without_a_doubt_is_preferred_to_a_nearer_one() -> None:
    """The nearest path leaves the loop in its first iteration by a branch that only the second one takes."""
    m = model(
        """
    ld.global.u32 %r2, [%rd1];
    mov.u32 %r3, 0;
loop:
    barrier.cluster.arrive;
    setp.eq.u32 %p1, %r3, 1;
    @%p1 bra out;
    setp.eq.u32 %p2, %r2, %r3;
    @%p2 bra out;
    add.u32 %r3, %r3, 1;
    bra.uni loop;
out:
    barrier.cluster.arrive;
    ret;
"""
    )
    first, second = m.arrives(Barrier.CLUSTER)
    _, results = m.solution(ClusterBarrier)

    def step(state: object, i: int, instruction: Instruction) -> object:
        return state

    query = FactQuery(first, True, results, step, lambda state, i: i == second, (second,))
    nearest, found = m.path(query).witness, most_plausible_path(m, query).witness
    assert nearest is not None
    assert found is not None
    path, doubt = found
    assert (len(nearest.edges), len(path.edges)) == (1, 2)
    assert doubt == NO_DOUBT


def test_a_path_in_doubt_is_found_where_every_path_is() -> None:
    m = model(
        """
    mov.u32 %r3, 0;
loop:
    barrier.cluster.arrive;
    setp.eq.u32 %p1, %r3, 2;
    @%p1 bra out;
    add.u32 %r3, %r3, 1;
    barrier.cluster.wait;
    bra.uni loop;
out:
    barrier.cluster.arrive;
    ret;
"""
    )
    first, second = m.arrives(Barrier.CLUSTER)
    _, results = m.solution(ClusterBarrier)

    def step(state: object, i: int, instruction: Instruction) -> object:
        return None if instruction.group == "cluster" else state

    found = most_plausible_path(
        m, FactQuery(first, True, results, step, lambda state, i: i == second, (second,))
    ).witness
    assert found is not None
    path, doubt = found
    assert doubt.why.startswith("given how often the loops on this path have iterated")
    assert doubt.edge in path.edges
