"""Loops made at random: none that is shown to decide itself has an endless run, whatever the words are that it reads."""

from __future__ import annotations

import random
from collections import Counter

from tclint.verdicts.checker import Graph
from tclint.verdicts.own_loops import observing_loops
from tests.tools.support import kernel, last_kernel

BOUND = 2
"""The number at which a counter ends its loop."""
Step = tuple[str, int]
"""What is executed, and the counter or the label that it is about."""
State = tuple[int, tuple[int, ...], int]
"""The next step, the counters, and the bit that was read last."""


class Loops:
    """Nested loops, each with a counter of its own, that read bits; they leave when the counter or a bit says so.

    Each iteration reads one, so that a counter which a bit of another loop has stopped is none: such a loop decides itself.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.steps, self.labels, self.counters = rng, list[Step](), 0, 0
        self._loop(2)

    def _label(self) -> int:
        self.labels += 1
        return self.labels

    def _loop(self, depth: int) -> None:
        counter, top, done = self.counters, self._label(), self._label()
        self.counters += 1
        self.steps += [("zero", counter), ("label", top), ("read", 0)]
        parts = ["test", "count", *self.rng.choices(("read", "read", "leave", "loop", "loop"), k=2)]
        self.rng.shuffle(parts)
        for part in parts:
            skipped = self._label() if self.rng.random() < 0.25 else 0
            if skipped:
                self.steps.append(("skip", skipped))
            self._part(part, counter, done, depth)
            if skipped:
                self.steps.append(("label", skipped))
        self.steps += [("jump", top), ("label", done)]

    def _part(self, part: str, counter: int, done: int, depth: int) -> None:
        if part == "test":
            self.steps += [("compare", counter), ("leave", done)]
        elif part == "count":
            self.steps.append((self.rng.choice(("count", "count", "count", "add")), counter))
        elif part == "read":
            self.steps.append(("read", 0))
        elif part == "leave":
            self.steps.append(("found", done))
        elif part == "loop" and depth:
            self._loop(depth - 1)

    @property
    def text(self) -> str:
        """The PTX; ``%r8`` has the bit, ``%r20`` and up the counters."""
        made = {
            "zero": "mov.b32 %r{n}, 0;",
            "count": "add.s32 %r{n}, %r{n}, 1;",
            "add": "add.s32 %r{n}, %r{n}, %r8;",
            "compare": f"setp.ge.s32 %p{{n}}, %r{{n}}, {BOUND};",
            "leave": "@%p{own} bra l{at};",
            "read": "ld.global.b32 %r8, [%rd1];\nand.b32 %r8, %r8, 1;",
            "skip": "setp.eq.s32 %p2, %r8, 0;\n@%p2 bra l{at};",
            "found": "setp.ne.s32 %p2, %r8, 0;\n@%p2 bra l{at};",
            "jump": "bra l{at};",
            "label": "l{at}:",
        }
        before = [0, *(at for _, at in self.steps)]
        return "\n".join(
            made[what].format(n=at + 20, at=at, own=before[i] + 20) for i, (what, at) in enumerate(self.steps)
        )

    def endless(self) -> bool:
        """Whether some bits keep a thread in the loops: a state that can follow itself."""
        first: State = (0, (0,) * self.counters, 0)
        active, left, path = set[State](), set[State](), [(first, iter(self._next(first)))]
        active.add(first)
        while path:
            state, following = path[-1]
            for after in following:
                if after in active:
                    return True
                if after not in left:
                    active.add(after)
                    path.append((after, iter(self._next(after))))
                    break
            else:
                path.pop()
                active.discard(state)
                left.add(state)
        return False

    def _next(self, state: State) -> list[State]:
        at, counters, bit = state
        if at == len(self.steps):
            return []
        what, about = self.steps[at]
        on = at + 1
        if what == "read":
            return [(on, counters, 0), (on, counters, 1)]
        if what in ("zero", "count", "add"):
            number = (
                {"zero": 0, "count": counters[about] + 1, "add": counters[about] + bit}[what]
                if about >= 0
                else 0
            )
            return [(on, (*counters[:about], min(number, BOUND), *counters[about + 1 :]), bit)]
        taken = what == "jump" or (what == "skip" and not bit) or (what == "found" and bit)
        if what == "leave":
            taken = counters[self.steps[at - 1][1]] >= BOUND
        return [(self.steps.index(("label", about)) if taken else on, counters, bit)]


def test_no_loop_that_decides_itself_has_an_endless_run() -> None:
    rng, found = random.Random(5), Counter[tuple[bool, bool]]()
    for _ in range(600):
        loops = Loops(rng)
        model = last_kernel(kernel(f"ld.param.u64 %rd1, [pointer];\nmov.b32 %r8, 0;\n{loops.text}\nret;"))
        blocks = [range(block.start, block.end) for block in model.cfg.blocks]
        graph = Graph(blocks, model.cfg.successors, model.cfg.exits)
        own = all(loop.by is None for loop in observing_loops(model.function, graph))
        endless = loops.endless()
        assert not (own and endless), loops.text
        found[own, endless] += 1
    assert found[True, False] >= 40
    assert found[False, True] >= 40
