"""Branches on words of shared memory, made at random: none that is proved diverges or has a race in a simulation."""

from __future__ import annotations

import random
from collections.abc import Generator
from dataclasses import dataclass

import pytest

from tclint.findings.verdicts import HazardClass, Status
from tclint.verdicts import verdicts
from tests.tools.support import kernel, last_kernel

SIZE, TRIPS = 64, 4
"""The threads of the CTA, and the iterations of the loop."""
FLAGS = 2
SHARED = ".shared .align 16 .b8 flags[16];\n.shared .align 16 .b8 smem[256];"
START = """mov.u32 %r1, %tid.x;
mov.u32 %r3, smem;
shl.b32 %r2, %r1, 2;
add.s32 %r4, %r3, %r2;
xor.b32 %r5, %r2, 128;
add.s32 %r5, %r5, %r3;
setp.eq.s32 %p1, %r1, 0;
mov.b32 %r10, 0;
top:"""
END = f"add.s32 %r10, %r10, 1;\nsetp.lt.s32 %p5, %r10, {TRIPS};\n@%p5 bra top;\ndone:"
Running = Generator[tuple[str, int, int], int, None]
"""One thread: it yields a store with a word and a value, a load with a word, or a barrier, and is sent what it loads."""


@dataclass(frozen=True)
class Statement:
    """One statement, and those that a branch skips."""

    kind: str
    word: int = 0
    value: int = 0
    inside: tuple[Statement, ...] = ()

    def text(self, name: str) -> str:
        """The instructions; *name* is that of their labels."""
        flag = f"[flags+{4 * self.word}]"
        inside = "\n".join(each.text(f"{name}_{n}") for n, each in enumerate(self.inside))
        return {
            "store": f"@%p1 st.shared.b32 {flag}, %r10;",
            "all store": f"st.shared.b32 {flag}, %r1;",
            "barrier": "bar.sync 0;",
            "own": "st.shared.b32 [%r4], %r10;",
            "other": "ld.shared.b32 %r50, [%r5];",
            "skip": f"ld.shared.b32 %r30, {flag};\nsetp.eq.s32 %p6, %r30, {self.value};\n@%p6 bra {name};\n{inside}\n{name}:",
            "leave": f"ld.shared.b32 %r30, {flag};\nsetp.eq.s32 %p6, %r30, {self.value};\n@%p6 bra done;",
        }[self.kind]

    def run(self, thread: int, trip: int) -> Generator[tuple[str, int, int], int, bool]:
        """What one thread does; whether it leaves the loop."""
        if self.kind == "barrier":
            yield "barrier", 0, 0
        elif self.kind in ("store", "all store"):
            if thread == 0 or self.kind == "all store":
                yield "store", self.word, trip if self.kind == "store" else thread
        elif self.kind == "own":
            yield "store", FLAGS + thread, 0
        elif self.kind == "other":
            yield "load", FLAGS + (thread ^ 32), 0
        else:
            found = yield "load", self.word, 0
            if self.kind == "leave":
                return found == self.value
            if found != self.value:
                for each in self.inside:
                    if (yield from each.run(thread, trip)):
                        return True
        return False


def _drawn(rng: random.Random, depth: int = 0) -> Statement:
    kinds = ("store", "all store", "barrier", "own", "other", "skip", "leave")
    kind = rng.choices(kinds, (6, 1, 12, 3, 3, 0 if depth else 6, 2))[0]
    inside = tuple(_drawn(rng, depth + 1) for _ in range(rng.randint(1, 3))) if kind == "skip" else ()
    return Statement(kind, rng.randrange(FLAGS), rng.choice((0, 1, 2)), inside)


class Program:
    """A loop of statements, with a seed."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.body = [_drawn(rng) for _ in range(rng.randint(3, 7))]
        if rng.random() < 0.6:  # thread 0 says which way to go, as it should
            word = rng.randrange(FLAGS)
            asked = Statement(
                rng.choice(("skip", "leave")), word, rng.choice((0, 1, 2)), (Statement("barrier"),)
            )
            self.body += [Statement("store", word), Statement("barrier"), asked, Statement("barrier")]

    @property
    def text(self) -> str:
        return "\n".join((START, *(each.text(f"label{n}") for n, each in enumerate(self.body)), END))

    def running(self, thread: int) -> Running:
        for trip in range(TRIPS):
            for each in self.body:
                if (yield from each.run(thread, trip)):
                    return

    def fails(self) -> bool:
        """Whether threads race between two barriers, or some wait at a barrier that others do not reach."""
        memory = dict.fromkeys(range(FLAGS + SIZE), 0)
        threads = {thread: self.running(thread) for thread in range(SIZE)}
        while threads:
            touched: dict[int, tuple[set[int], set[int]]] = {}
            written = dict[int, int]()
            waiting = {
                each
                for each, running in threads.items()
                if _to_barrier(each, running, memory, touched, written)
            }
            if any(stores and len(loads | stores) > 1 for loads, stores in touched.values()):
                return True
            if waiting and waiting != threads.keys():
                return True
            memory |= written
            threads = {each: threads[each] for each in waiting}
        return False


def _to_barrier(
    thread: int,
    running: Running,
    memory: dict[int, int],
    touched: dict[int, tuple[set[int], set[int]]],
    written: dict[int, int],
) -> bool:
    """Runs one thread up to its next barrier; whether it has reached one."""
    own, loaded = dict[int, int](), 0
    try:
        event, word, value = next(running)
        while event != "barrier":
            touched.setdefault(word, (set(), set()))[event == "store"].add(thread)
            if event == "store":
                own[word] = written[word] = value
            else:
                loaded = own.get(word, memory[word])
            event, word, value = running.send(loaded)
    except StopIteration:
        return False
    return True


def proved(program: Program) -> set[HazardClass]:
    """The classes that are proved of a program."""
    model = last_kernel(SHARED, kernel(f"{program.text}\nret;", directives=f".reqntid {SIZE}"))
    classes = (HazardClass.CONVERGENCE, HazardClass.SHARED_MEMORY)
    return {v.hazard for v in verdicts(model, only=classes) if v.status is Status.PROVED}


@pytest.mark.parametrize("first", range(0, 120, 40))
def test_no_program_that_fails_is_proved(first: int) -> None:
    programs = [Program(seed) for seed in range(first, first + 40)]
    found = {n: proved(each) for n, each in enumerate(programs)}
    branching = [n for n, each in enumerate(programs) if any(s.kind in ("skip", "leave") for s in each.body)]
    assert any(len(found[n]) == 2 for n in branching)
    both = [each for n, each in enumerate(programs) if len(found[n]) == 2]
    assert not [each.text for each in both if each.fails()]
