"""The state of replays: no answer depends on what was replayed before."""

from __future__ import annotations

from functools import cache
from itertools import permutations

import pytest

from tclint.analyses.model import KernelModel
from tclint.replay import hypotheses
from tclint.replay.hypotheses import LaunchHypothesis, LaunchWord
from tclint.replay.interface import Faulty, Verdict
from tclint.replay.launch import LaunchValues, ReplayLaunch
from tclint.replay.launch_search import LaunchSearch
from tclint.replay.launches import ReplayRun
from tclint.replay.machine import ReplayMachine
from tclint.replay.program import ReplaySlice
from tclint.replay.thread_groups import Stuck
from tclint.replay.verdict import Replay
from tests.tools.replay import ELECTING, GIVE, MULTICAST, PAIR, RING, WAIT, WALK, changed
from tests.tools.support import analysed, model

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


@cache
def alone(name: str) -> object:
    """The answer for a kernel before any other is replayed with its model."""
    return answer(Replay(analysed(KERNELS[name])).verdict)


@pytest.mark.parametrize("order", [tuple(KERNELS), tuple(reversed(KERNELS))], ids=["forwards", "backwards"])
def test_answers_do_not_depend_on_the_order_of_kernels(order: tuple[str, ...]) -> None:
    models = {name: analysed(KERNELS[name]) for name in KERNELS}
    assert {name: answer(Replay(models[name]).verdict) for name in order} == {
        name: alone(name) for name in KERNELS
    }


@pytest.mark.parametrize("name", KERNELS)
def test_a_second_replay_of_a_model_gives_the_same_answer(name: str) -> None:
    """The caches of the model, such as the overlaps of warps, survive the first replay."""
    model = analysed(KERNELS[name])
    assert [answer(Replay(model).verdict) for _ in range(2)] == [alone(name)] * 2


def searched(code: str, order: tuple[LaunchHypothesis, ...], shared: bool) -> dict[LaunchHypothesis, object]:
    """The runs of some launches in an *order*, with *shared* caches of the program or with new ones for each."""
    program = ReplaySlice(analysed(code))
    found = {}
    for hypothesis in order:
        program = program if shared else ReplaySlice(analysed(code))
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
    program = ReplaySlice(analysed(code))
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
    program = ReplaySlice(analysed(changed("ld.param.u32 %r20, [rounds];", "mov.u32 %r20, 300;")))
    used, fresh = (LaunchSearch(program, (1,), hypotheses.MAX_STEPS.value) for _ in range(2))
    runs = [used.replay(hypothesis, (160,)) for hypothesis in hypotheses.SIZES.value]
    assert all(run is not None and run.finished for run in runs)
    more = LaunchHypothesis(640, 7)
    assert used.replay(more, (160,)) is None
    assert used.truncated
    assert fresh.replay(more, (160,)) is not None


def machines(monkeypatch: pytest.MonkeyPatch) -> list[ReplayLaunch]:
    """The launches that are executed from now on."""
    executed = list[ReplayLaunch]()
    run = ReplayMachine.run

    def noted(self: ReplayMachine) -> list[Stuck]:
        executed.append(self.launch)
        return run(self)

    monkeypatch.setattr(ReplayMachine, "run", noted)
    return executed


NINE = changed("ld.param.u32 %r20, [rounds];", "mov.u32 %r20, 9;")


@pytest.mark.parametrize(
    ("code", "often"),
    [
        (NINE, 1),
        (NINE.replace("mov.u32 %r20, 9;", "mov.u32 %r20, %nctaid.y;\n    add.u32 %r20, %r20, 8;"), 1),
        (NINE.replace("mov.u32 %r20, 9;", "mov.u32 %r20, %nctaid.x;"), 3),
        (
            RING.replace(
                "ld.param.u32 %r20, [rounds];", "ld.param.u32 %r20, [rounds];\n    min.u32 %r20, %r20, 9;"
            ),
            3,
        ),
    ],
    ids=["asks nothing", "asks what is equal", "asks for the grid", "asks for a parameter"],
)
def test_launches_that_answer_the_same_are_executed_once(
    monkeypatch: pytest.MonkeyPatch, code: str, often: int
) -> None:
    executed = machines(monkeypatch)
    search = LaunchSearch(ReplaySlice(analysed(code)), (1,), hypotheses.MAX_STEPS.value)
    runs, steps = list[ReplayRun](), list[int]()
    for hypothesis in hypotheses.SIZES.value:
        run = search.replay(hypothesis, (160,))
        assert run is not None
        assert run.launch is not None
        assert run.launch.values.size == hypothesis.size
        runs.append(run)
        steps.append(search.steps)
    assert len(executed) == often
    if often == 1:
        assert [shown(run) for run in runs] == [shown(runs[0])] * 3
        assert steps == [steps[0], 2 * steps[0], 3 * steps[0]]  # they count against budgets as before


@pytest.mark.parametrize("name", [*KERNELS, "constant trip count", "constant trip count, deadlock"])
def test_a_launch_that_is_not_executed_again_shows_the_same(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    code = {**KERNELS, "constant trip count": NINE, "constant trip count, deadlock": NINE.replace(GIVE, "")}[
        name
    ]
    found = answer(Replay(analysed(code)).verdict)
    monkeypatch.setattr(LaunchSearch, "_same_replay", lambda self, launch, limits: None)
    assert answer(Replay(analysed(code)).verdict) == found


def test_another_shape_or_budget_is_another_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    executed = machines(monkeypatch)
    program, (one, two, _) = ReplaySlice(analysed(NINE)), hypotheses.SIZES.value
    search = LaunchSearch(program, (1,), hypotheses.MAX_STEPS.value)
    for hypothesis, shape in ((one, (160,)), (two, (192,))):
        search.replay(hypothesis, shape)
    assert len(executed) == 2
    search._budget -= 1
    search.replay(two, (160,))
    assert len(executed) == 3


COPIES = """
    .shared .align 8 .b64 m;
    .shared .align 128 .b8 tile[4096];
    .reg .b64 %d<4>;
    mov.u32 %r0, %tid.x;
    ld.param.u64 %d0, [one];
    ld.param.u64 %d1, [two];
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra ready;
    mbarrier.init.shared::cta.b64 [m], 1;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [m], 4096;
    cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%d0, {%r0}], [m];
    cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [tile+2048], [%d1, {%r0}], [m];
ready:
    bar.sync 0;
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [m], 0;
    @!%p2 bra wait;
    ret;
"""


def copies(old: str = "", new: str = "") -> KernelModel:
    assert old in COPIES
    return model(
        COPIES.replace(old, new, 1) if old else COPIES, parameters=".param .u64 one, .param .u64 two"
    )


@pytest.mark.parametrize(
    ("old", "new", "often"),
    [
        ("", "", 1),
        ("[%d1, {", "[%d1+64, {", 3),  # another map than the one at this address
        ("[%d1, {", "[two, {", 3),  # compared with an address of another origin
        ("%p0, %r0, 0;", "%p0, %r0, 0;\n    setp.eq.u64 %p1, %d1, 0;\n    @%p1 bra ready;", 3),
        ("ld.param.u64 %d1, [two];", "ld.global.u64 %d1, [%d0];", 3),
    ],
    ids=["alone", "offset", "symbol", "branch", "memory"],
)
def test_the_address_of_a_tensor_map_alone_distinguishes_no_launches(
    monkeypatch: pytest.MonkeyPatch, old: str, new: str, often: int
) -> None:
    executed = machines(monkeypatch)
    program = ReplaySlice(copies(old, new))
    assert bool(program.map_loads) == (often == 1)
    search = LaunchSearch(program, (1,), hypotheses.MAX_STEPS.value)
    for hypothesis in hypotheses.SIZES.value:
        search.replay(hypothesis, (32,))
    assert len(executed) == often


def test_maps_that_are_equal_in_one_launch_only_distinguish_it() -> None:
    kernel, word = copies(), LaunchWord("two")
    one, other, apart = (
        ReplayLaunch(kernel, values, (32,))
        for values in (LaunchValues(512, 8), LaunchValues(1280, 24), LaunchValues(512, 8, others={word: 7}))
    )
    for launch in (one, other, apart):
        for base in ("one", "two"):
            launch.load(base, 0, 8, names_map=True)
    assert other.agrees(one)
    assert not apart.agrees(one)
    assert not one.agrees(apart)
    assert not ReplayLaunch(kernel, LaunchValues(512, 8), (64,)).agrees(one)
    one.load("two", 0, 8)
    assert not other.agrees(one)
