"""The state of replays: no answer depends on what was replayed before."""

from __future__ import annotations

from itertools import permutations

import pytest

from tclint.replay import hypotheses
from tclint.replay.hypotheses import LaunchHypothesis, LaunchWord
from tclint.replay.interface import Faulty, Verdict
from tclint.replay.launch_search import LaunchSearch
from tclint.replay.launches import ReplayRun
from tclint.replay.program import Program
from tclint.replay.verdict import Replay
from tests.tools.replay import ELECTING, GIVE, MULTICAST, PAIR, RING, WAIT, WALK, changed
from tests.tools.support import analysed

KERNELS = {
    "right": RING,
    "deadlock": changed(GIVE, ""),
    "race": changed(WAIT, ""),
    "many tiles": WALK,
    "elections": ELECTING,
    "pair": PAIR.replace(".reqnctapercluster 2\n", ""),
    "cluster not stated": MULTICAST,
}


def shown(run: ReplayRun | None) -> object:
    """What a run shows, without the identity of its objects."""
    if run is None:
        return None
    stuck = sorted((s.site, s.threads) for s in run.deadlocks)
    return run.finished, stuck, [race.key for race in run.races], run.entered, run.repeated


def answer(verdict: Verdict) -> object:
    return (shown(verdict.run), verdict.assumed_cluster) if isinstance(verdict, Faulty) else verdict


ALONE = {name: answer(Replay(analysed(code)).verdict) for name, code in KERNELS.items()}


@pytest.mark.parametrize("order", [tuple(KERNELS), tuple(reversed(KERNELS))], ids=["forwards", "backwards"])
def test_answers_do_not_depend_on_the_order_of_kernels(order: tuple[str, ...]) -> None:
    models = {name: analysed(KERNELS[name]) for name in KERNELS}
    assert {name: answer(Replay(models[name]).verdict) for name in order} == ALONE


@pytest.mark.parametrize("name", KERNELS)
def test_a_second_replay_of_a_model_gives_the_same_answer(name: str) -> None:
    """The caches of the model, such as the overlaps of warps, survive the first replay."""
    model = analysed(KERNELS[name])
    assert [answer(Replay(model).verdict) for _ in range(2)] == [ALONE[name]] * 2


def searched(code: str, order: tuple[LaunchHypothesis, ...], shared: bool) -> dict[LaunchHypothesis, object]:
    """The runs of some launches in an *order*, with *shared* caches of the program or with new ones for each."""
    program = Program(analysed(code))
    found = {}
    for hypothesis in order:
        program = program if shared else Program(analysed(code))
        search = LaunchSearch(program, (1,), hypotheses.MAX_STEPS.value)
        found[hypothesis] = shown(search.replay(hypothesis, (160,)))
    return found


@pytest.mark.parametrize("name", ["right", "deadlock", "race", "many tiles"])
def test_the_caches_of_a_program_do_not_change_a_run(name: str) -> None:
    code, sizes = KERNELS[name], hypotheses.SIZES.value
    alone = searched(code, sizes, shared=False)
    assert all(searched(code, order, shared=True) == alone for order in permutations(sizes))


MANY_ITERATIONS_ONLY = changed("_, [%r29], 2048;", "_, [%r29], %r1;").replace(
    "ld.param.u32 %r20, [rounds];",
    "ld.param.u32 %r20, [rounds];\n    setp.lt.u32 %p1, %r20, 16;\n    selp.u32 %r1, 4096, 2048, %p1;",
)
"""The expected bytes are right for launches of 16 iterations or more, and the kernel may have no others."""


@pytest.mark.parametrize("code", [RING, MANY_ITERATIONS_ONLY, KERNELS["deadlock"], KERNELS["race"]])
def test_reductions_of_earlier_launches_may_hide_a_fault_but_add_none(code: str) -> None:
    """Original values replace them before a fault counts; too few iterations may show none."""
    program = Program(analysed(code))
    words = frozenset[LaunchWord]().union(*program.loops.bounds.values())
    faults = []
    for reductions in ([], [words], [words] * 5):
        search = LaunchSearch(program, (1,), hypotheses.MAX_STEPS.value, [*reductions])
        run = search.replay(hypotheses.SIZES.value[0], (160,))
        assert run is not None
        faults.append({s.site for s in run.deadlocks} | {race.key for race in run.races})
    assert all(reduced in (faults[0], set()) for reduced in faults[1:])


def test_each_search_has_extended_replays_of_its_own() -> None:
    """What one cluster shape uses up is not missing to the next."""
    program = Program(analysed(changed("ld.param.u32 %r20, [rounds];", "mov.u32 %r20, 300;")))
    used, fresh = (LaunchSearch(program, (1,), hypotheses.MAX_STEPS.value) for _ in range(2))
    runs = [used.replay(hypothesis, (160,)) for hypothesis in hypotheses.SIZES.value]
    assert all(run is not None and run.finished for run in runs)
    more = LaunchHypothesis(640, 7)
    assert used.replay(more, (160,)) is None
    assert used.truncated
    assert fresh.replay(more, (160,)) is not None
