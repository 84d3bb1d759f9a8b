"""Executions, replays, checks and proofs agree with the reference on random programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest

import tclint.replay.verdict  # noqa: F401  registers what a replay executes
from tclint.findings.requirements import ALL_ASSUMPTIONS
from tclint.findings.selection import Request
from tclint.findings.verdicts import Status
from tclint.linting.check import check_source
from tclint.replay.launch import LaunchValues, ReplayLaunch
from tclint.replay.machine import ReplayMachine
from tclint.replay.operations import IssuedOperations
from tclint.replay.program import ReplaySlice
from tclint.replay.scheduler import Limits
from tclint.replay.steps import ReplayStep
from tclint.replay.thread_groups import ThreadGroup
from tclint.replay.vector_clocks import Agent, Clock, happens_before
from tclint.syntax.source import Source
from tests.reference.engines import DONE, Place, State
from tests.reference.programs import ENGINES, LENGTH, Kernel, groups, phases
from tests.tools.execution import OUT, REGISTERS, run
from tests.tools.support import analysed, found, kernel, lint, module

DATA = np.arange(1, 257, dtype=np.uint64)
PARAMETERS = ".param .u64 out, .param .u64 data"
NOT_COMMITTED = {"CA002", "WG003", "BK005"}
"""A wait or the end of the kernel comes before the commit: reported instead of each look after it."""
Results = dict[Place, int]


def text(made: Kernel, only: Place | None = None) -> str:
    body = kernel(
        OUT + made.body(only),
        parameters=PARAMETERS,
        directives=f".reqntid {made.threads}",
        registers=REGISTERS,
    )
    return module(body, header=made.header)


def places(made: Kernel) -> dict[int, Place]:
    """The places of a program by the numbers of the instructions of the kernel."""
    labels = analysed(text(made)).function.labels
    return {at: (int(name[1:2]), int(name[3:])) for at, name in labels.items() if name[0] == "P"}


def begun_at(made: Kernel, look: Place) -> Place:
    at: Place = made.program[look[0]][look[1]][2]
    return at


def too_early(made: Kernel) -> set[Place]:
    """The looks at operations that may not be as far as they need."""
    sure = made.behaviour().sure
    stage = {look: ENGINES[made.program[look[0]][look[1]][1]].stage for look in made.named("look")}
    return {look for look in stage if sure.get(look, {}).get(begun_at(made, look), -1) < stage[look]}


# ---------------------------------------------------------------- what tclint does and says


def executed(made: Kernel, how: str) -> tuple[bool, Results, set[tuple[str, Place]]]:
    """Whether an execution comes to its end, the results of its tests, and what it observes where."""
    found_by, at = run(
        made.body(), block=made.threads, buffers={"out": np.zeros(1024, np.uint64), "data": DATA}, header=made.header,
        how=how,
    ), places(made)  # fmt: skip
    results = {divmod(slot, LENGTH): kept - 1 for slot, kept in enumerate(found_by.out) if kept}
    observed = {(o.kind, at[o.site]) for o in found_by.execution.observations if o.site in at}
    return found_by.execution.end == "done", results, observed


class NotedOperations(IssuedOperations):
    """Operations of a replay that are known by the instructions that begin them."""

    def __init__(self, machine: Replayed) -> None:
        super().__init__(machine.epochs)
        self.machine = machine
        self.numbers: dict[int, tuple[Agent, int]] = {}

    def begin(self, *arguments: Any) -> tuple[Agent, int, Clock]:
        begun = super().begin(*arguments)
        self.numbers[self.machine.site] = begun[:2]
        return begun

    def begin_copy(self, agent: Agent, clock: Clock) -> int:
        number = super().begin_copy(agent, clock)
        self.numbers[self.machine.site] = agent, number
        return number


class Replayed(ReplayMachine):
    """A replay of a kernel, which notes what each instruction has established."""

    operations: NotedOperations

    def __init__(self, made: Kernel) -> None:
        model = analysed(text(made))
        super().__init__(
            ReplaySlice(model), ReplayLaunch(model, LaunchValues(8, 8), (made.threads,)), Limits(50_000)
        )
        self.operations = NotedOperations(self)
        self.site = -1
        self.at = places(made)
        self.clocks: dict[Place, Any] = {}
        self.results: Results = {}
        self.stuck = {self.at[stuck.site] for stuck in self.run()}

    def _execute(self, group: ThreadGroup, step: ReplayStep) -> bool:
        self.site = step.site
        done = super()._execute(group, step)
        if done and step.site in self.at:
            self.clocks[self.at[step.site]] = group.clock
        return done

    def assign(self, group: ThreadGroup, register: int, value: Any, where: Any) -> None:
        if self.site in self.at:
            self.results[self.at[self.site]] = value
        super().assign(group, register, value, where)

    @property
    def followed(self) -> set[Place]:
        return {self.at[site] for site in self.operations.numbers}

    def complete(self, place: Place) -> set[Place]:
        """The operations that are complete when a thread has executed an instruction."""
        clock, numbers = self.clocks[place], self.operations.numbers
        return {self.at[site] for site, (agent, n) in numbers.items() if happens_before(clock, agent, n)}


# ---------------------------------------------------------------- comparisons


def in_executions(made: Kernel, engine: str) -> bool:
    """Whether a lazy execution observes exactly the looks that come too early, and others only such ones."""
    kind, wrong = ENGINES[engine].observed, too_early(made)
    early = {how: {at for what, at in executed(made, how)[2] if what == kind} for how in ("lazy", "random:1")}
    return early["lazy"] == wrong and early["random:1"] <= wrong


def in_replays(made: Kernel, engine: str) -> bool:
    """Whether a replay takes exactly those operations to be complete after each wait which are."""
    replay, sure = Replayed(made), made.behaviour().sure
    return not replay.stuck and all(
        replay.complete((thread, at))
        == {op for op, stage in sure[thread, at + 1].items() if stage >= ENGINES[engine].stage}
        & replay.followed
        for thread, at in made.named("wait")
    )


def in_checks(made: Kernel, engine: str) -> bool:
    """Whether a kernel with one of the looks has a finding there exactly if it comes too early."""
    wrong = too_early(made)
    for look in made.named("look"):
        source = text(made, look)
        line = source[: source.index(f"P{look[0]}_{look[1]}:")].count("\n") + 1
        rules = found(lint(source))
        reported = (ENGINES[engine].rule, line) in rules
        if reported != (look in wrong) and (reported or NOT_COMMITTED.isdisjoint(rule for rule, _ in rules)):
            return False
    return True


def in_proofs(made: Kernel, engine: str) -> bool:
    """Whether nothing is proved of a kernel with one of the looks that comes too early."""
    for look in too_early(made):
        source = Source.from_bytes(text(made, look).encode(), "k.ptx")
        verdicts = check_source(source, Request(assume=ALL_ASSUMPTIONS)).verdicts
        if any(v.hazard.value == ENGINES[engine].hazard and v.status is Status.PROVED for v in verdicts):
            return False
    return True


def of_phases(made: Kernel) -> bool:
    """Whether executions and a replay end in a way that the program can, and observe what may be and take for sure what is."""
    behaviour, at, early = made.behaviour(), places(made), too_early(made)
    tests = made.named("test")
    ends = [
        (finished, {t: results[t] for t in tests if t in results}) for finished, results in behaviour.ends
    ]
    for how in ("eager", "lazy", "random:1", "random:2"):
        finished, results, observed = executed(made, how)
        premature = {place for kind, place in observed if kind == "read-too-early"}
        if (finished, results) not in ends or any(kind == "mbarrier-overrun" for kind, _ in observed):
            return False
        if not premature <= early:
            return False
    replay = Replayed(made)
    blocks = {t for t in tests if made.program[t[0]][t[1]][4]}
    results = {t: value for t, value in replay.results.items() if t in tests and (value or t not in blocks)}
    passed = [p for p in replay.clocks if p in at.values() and p not in replay.stuck and p[1] + 1 < LENGTH]
    for thread, number in passed:
        complete = {op for op, stage in behaviour.sure[thread, number + 1].items() if stage == DONE}
        if not replay.complete((thread, number)) <= complete:
            return False
    return (not replay.stuck, results) in ends


def disagreements(compare: Callable[..., bool], made: Iterable[Kernel], *arguments: object) -> Iterator[str]:
    """The kernels on which tclint and the reference do not agree."""
    return (text(each) for each in made if not compare(each, *arguments))


def defined(threads: int, seeds: range) -> Iterator[Kernel]:
    """Programs of phases that do nothing undefined."""
    return (made for seed in seeds if not (made := phases(threads, seed)).behaviour().undefined)


# ---------------------------------------------------------------- tests


def of_groups(engine: str, count: int) -> Iterator[Kernel]:
    return (groups(engine, seed) for seed in range(count))


@pytest.mark.parametrize("engine", [name for name, each in ENGINES.items() if each.observed])
def test_executions_agree(engine: str) -> None:
    assert not list(disagreements(in_executions, of_groups(engine, 25), engine))


@pytest.mark.parametrize("engine", [name for name, each in ENGINES.items() if each.followed])
def test_replays_agree(engine: str) -> None:
    assert not list(disagreements(in_replays, of_groups(engine, 50), engine))


@pytest.mark.parametrize("engine", ENGINES)
def test_checks_agree(engine: str) -> None:
    assert not list(disagreements(in_checks, of_groups(engine, 12), engine))


@pytest.mark.parametrize("engine", [name for name, each in ENGINES.items() if each.hazard])
def test_proofs_agree(engine: str) -> None:
    assert not list(disagreements(in_proofs, of_groups(engine, 6), engine))


@pytest.mark.parametrize(("threads", "seeds"), [(1, 60), (2, 50), (3, 40)])
def test_phases_agree(threads: int, seeds: int) -> None:
    kernels = list(defined(threads, range(seeds)))
    assert len(kernels) >= seeds // 4
    assert not list(disagreements(of_phases, kernels))


WAIT, CHANGE, TEST, BARRIER = State.wait, State.change, State.test, State.barrier
GROUPS: dict[str, tuple[str, Callable[..., bool]]] = {
    "a wait leaves one group more": (
        "cp.async",
        lambda s, at, e, n, to=DONE: WAIT(s, at, e, n if n is None else n + 1, to),
    ),
    "a wait leaves one group less": ("wgmma", lambda s, at, e, n, to=DONE: WAIT(s, at, e, n and n - 1, to)),
    "a wait for sources waits for results": ("bulk results", lambda s, at, e, n, to=DONE: WAIT(s, at, e, n)),
}
PHASES: dict[str, tuple[str, Callable[..., object]]] = {
    "the tx-count does not matter": (
        "change",
        lambda s, m, arrivals, size, drop=0: CHANGE(s, m, arrivals, 0, drop),
    ),
    "a drop lasts for one phase": (
        "change",
        lambda s, m, arrivals, size, drop=0: CHANGE(s, m, arrivals, size),
    ),
    "an arrival counts twice": (
        "change",
        lambda s, m, arrivals, size, drop=0: CHANGE(s, m, 2 * arrivals, size, drop),
    ),
    "the parity is that of the next phase": (
        "test",
        lambda s, at, m, parity, *rest: TEST(s, at, m, 1 - parity, *rest),
    ),
    "a barrier waits for one warp more": (
        "barrier",
        lambda s, at, b, warps, waits: BARRIER(s, at, b, warps + 1, waits),
    ),
}


@pytest.mark.parametrize("mistake", GROUPS)
def test_a_mistake_about_groups_is_found(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every comparison fails if the reference is wrong."""
    engine, wrong = GROUPS[mistake]
    monkeypatch.setattr(State, "wait", wrong)
    assert any(disagreements(in_checks, of_groups(engine, 12), engine))
    assert engine != "cp.async" or any(disagreements(in_proofs, of_groups(engine, 12), engine))
    assert not ENGINES[engine].observed or any(disagreements(in_executions, of_groups(engine, 25), engine))
    assert not ENGINES[engine].followed or any(disagreements(in_replays, of_groups(engine, 50), engine))


@pytest.mark.parametrize("mistake", PHASES)
def test_a_mistake_about_phases_is_found(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(State, *PHASES[mistake])
    assert any(any(disagreements(of_phases, defined(threads, range(70)))) for threads in (1, 2))
