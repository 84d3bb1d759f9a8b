"""A reference for asynchronous operations and barriers: all that the threads of a small program may do and see.

It is written from the manual (PTX ISA 9.7.9.25, 9.7.9.27, 9.7.13.1, 9.7.13.15, 9.7.15.7, 9.7.16.8), knows no PTX and nothing
of tclint. It visits the states that any order of threads and of completions reaches: what holds in each of those in which a
thread has come to some place is sure there.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any, NamedTuple

ISSUED, READ, DONE = range(3)
"""How far an operation is: it has begun, has read its sources, has written its results."""
Place = tuple[int, int]
"""A thread, and the number of one of its instructions."""
Program = tuple[tuple[tuple[Any, ...], ...], ...]
"""The instructions of each thread: the name of a method of :class:`State`, and its arguments after the place."""


class Mbarrier(NamedTuple):
    expected: int
    pending: int
    bytes: int = 0
    phase: int = 0


class State:
    """What threads have done so far. Each method that is an instruction returns False if its thread has to wait."""

    def __init__(self, threads: int, counts: tuple[int, ...]) -> None:
        self.at: tuple[int, ...] = (0,) * threads
        self.mbarriers = {number: Mbarrier(count, count) for number, count in enumerate(counts)}
        self.operations: dict[Place, tuple[str, int, int, int, int]] = {}
        """By where they began: the engine, the group that they join, their stage, and an mbarrier with the bytes for it."""
        self.commits: dict[tuple[int, str], int] = {}
        self.arrivals: dict[Place, tuple[int, frozenset[Place]]] = {}
        """Those to come, by where they were requested: the mbarrier, and the operations that must be complete before."""
        self.barriers: dict[int, tuple[int, int]] = {}
        """The phase of each CTA barrier, and the warps that have arrived in it."""
        self.arrived: dict[int, int] = {}
        """The phase that the arrival of a thread belongs to, while the thread waits for it."""
        self.results: dict[Place, int] = {}
        self.undefined = False
        """Whether the manual leaves open what it did."""

    @property
    def key(self) -> object:
        return self.at, *(frozenset(part.items()) for part in vars(self).values() if isinstance(part, dict))

    def issue(self, place: Place, engine: str, mbarrier: int = -1, size: int = 0) -> None:
        group = self.commits.get((place[0], engine), 0)
        self.operations = {**self.operations, place: (engine, group, ISSUED, mbarrier, size)}

    def commit(self, place: Place, engine: str) -> None:
        key = place[0], engine
        self.commits = {**self.commits, key: self.commits.get(key, 0) + 1}

    def wait(self, place: Place, engine: str, left: int | None, stage: int = DONE) -> bool:
        """Until all groups but the newest *left* are at *stage*; None: until all that has begun is."""
        closed = self.commits.get((place[0], engine), 0) - (left or 0)
        mine = [o for (thread, _), o in self.operations.items() if thread == place[0] and o[0] == engine]
        return all(o[2] >= stage for o in mine if left is None or o[1] < closed)

    def track(self, place: Place, engine: str, mbarrier: int, raises: bool) -> None:
        """Requests an arrival when what the thread has begun is complete; *raises* the pending count now."""
        mine = frozenset(p for p, o in self.operations.items() if p[0] == place[0] and o[0] == engine)
        if raises:
            found = self.mbarriers[mbarrier]
            self.mbarriers = {**self.mbarriers, mbarrier: found._replace(pending=found.pending + 1)}
        self.arrivals = {**self.arrivals, place: (mbarrier, mine)}

    def arrive(
        self, place: Place, mbarrier: int, count: int = 1, expects: int = 0, drops: bool = False
    ) -> None:
        self.results = {**self.results, place: self.mbarriers[mbarrier].phase}
        self.change(mbarrier, count, expects, count if drops else 0)

    def transact(self, place: Place, mbarrier: int, size: int) -> None:
        """expect_tx of *size* bytes; complete_tx if it is negative."""
        found = self.mbarriers[mbarrier]
        self.undefined |= size > 0 and not found.pending and found.bytes == -size  # is the phase complete?
        self.change(mbarrier, 0, size)

    def change(self, mbarrier: int, arrivals: int, size: int, drop: int = 0) -> None:
        old = self.mbarriers[mbarrier]
        new = Mbarrier(old.expected - drop, old.pending - arrivals, old.bytes + size, old.phase)
        self.undefined |= new.pending < 0 or new.expected < 1
        if not new.pending and not new.bytes:
            new = Mbarrier(new.expected, new.expected, 0, new.phase + 1)
        self.mbarriers = {**self.mbarriers, mbarrier: new}

    def test(self, place: Place, mbarrier: int, parity: int, token: int = -1, blocks: bool = False) -> bool:
        """Whether the phase of a parity is complete, or that of the *token* of an earlier arrival of the thread."""
        phase = self.mbarriers[mbarrier].phase
        of = phase - (phase % 2 != parity) if token < 0 else self.results[place[0], token]
        self.undefined |= phase - of > 1
        if of == phase and blocks:
            return False
        self.results = {**self.results, place: int(of < phase)}
        return True

    def barrier(self, place: Place, number: int, warps: int, waits: bool = True) -> bool:
        """A CTA barrier that so many *warps* open; a thread stands for a warp."""
        phase, count = self.barriers.get(number, (0, 0))
        mine = self.arrived.get(place[0])
        if mine is None:
            opens = count + 1 == warps
            self.barriers = {**self.barriers, number: (phase + 1, 0) if opens else (phase, count + 1)}
            self.arrived = {**self.arrived, place[0]: phase}
            return self.barrier(place, number, warps, waits)
        if waits and phase == mine:
            return False
        self.arrived = {thread: at for thread, at in self.arrived.items() if thread != place[0]}
        return True

    def look(self, place: Place, *at: object) -> None:
        """Nothing: here what is sure of an operation may be asked for."""

    def completions(self) -> Iterator[State]:
        """Each state after an operation has come further, or what an arrival waits for is complete."""
        for place, (engine, group, stage, mbarrier, size) in self.operations.items():
            earlier = [
                o for p, o in self.operations.items() if p[0] == place[0] and o[0] == engine and o[1] < group
            ]
            if stage < DONE and (stage < READ or all(o[2] == DONE for o in earlier)):
                after = copy(self)
                after.operations = {**self.operations, place: (engine, group, stage + 1, mbarrier, size)}
                if stage + 1 == DONE and mbarrier >= 0:
                    after.change(mbarrier, 0, -size)
                yield after
        for place, (mbarrier, needs) in self.arrivals.items():
            if all(self.operations[p][2] == DONE for p in needs):
                after = copy(self)
                after.arrivals = {p: a for p, a in self.arrivals.items() if p != place}
                after.change(mbarrier, 1, 0)
                yield after


class Behaviour:
    """What a program may do, with mbarriers of these counts."""

    def __init__(self, program: Program, counts: tuple[int, ...] = ()) -> None:
        self.ends: list[tuple[bool, dict[Place, int]]] = []
        """Whether all threads come to their end, with the results of arrivals and tests."""
        self.undefined = False
        """Whether it may do what is not defined; then the rest is incomplete."""
        self.sure: dict[Place, dict[Place, int]] = {}
        """Before each instruction: the operations that have begun in any case, with the stage that they have reached."""
        work, seen = [State(len(program), counts)], set[object]()
        while work and not self.undefined:
            state = work.pop()
            if state.key not in seen:
                seen.add(state.key)
                stages = {place: operation[2] for place, operation in state.operations.items()}
                for before in enumerate(state.at):
                    least = self.sure.setdefault(before, stages)
                    self.sure[before] = {p: min(s, stages[p]) for p, s in least.items() if p in stages}
                after = [*self._instructions(program, state), *state.completions()]
                if not after:
                    self.ends.append((state.at == tuple(map(len, program)), state.results))
                work += after
                self.undefined = any(each.undefined for each in after)

    def _instructions(self, program: Program, state: State) -> Iterator[State]:
        """Each state after a thread has executed its next instruction, or has begun to wait in it."""
        for thread, at in enumerate(state.at):
            if at < len(program[thread]):
                after, (name, *arguments) = copy(state), program[thread][at]
                if getattr(after, name)((thread, at), *arguments) is not False:
                    after.at = (*state.at[:thread], at + 1, *state.at[thread + 1 :])
                if vars(after) != vars(state):
                    yield after
