"""Loops whose counters select stages, distances and threads, made at random: none that is proved has a race in a simulation."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tclint.findings.verdicts import HazardClass, Status
from tclint.verdicts import verdicts
from tests.tools.support import kernel, last_kernel

SIZE = 64
"""The threads of the CTA."""
TRIPS = (1, 2, 3, 4, 5, 8)
SHARED = ".shared .align 16 .b8 smem[16384];"
START = """ld.param.u32 %r9, [number];
mov.u32 %r1, %tid.x;
mov.u32 %r3, smem;
shl.b32 %r2, %r1, 2;
mov.b32 %r10, 0;"""
State = dict[str, int]
"""Register -> its number in one thread."""


@dataclass(frozen=True)
class Step:
    """Instructions, with what they do in one thread: a barrier is its scope, an access an address and whether it writes."""

    text: str
    execute: Callable[[State], Any]


def _set(register: str, compute: Callable[[State], int]) -> Callable[[State], list[object]]:
    def execute(state: State) -> list[object]:
        state[register] = compute(state)
        return []

    return execute


def _counter(rng: random.Random) -> tuple[str, int, Step]:
    """A counter beside that of the iterations: what it begins with, and what makes its next number."""
    kind = rng.choice(("flip", "wrap", "halve", "double", "add"))
    by = rng.choice((1, 2, 3))
    if kind == "flip":
        first = rng.choice((0, 1, 2))
        return (
            f"mov.b32 %r11, {first};",
            first,
            Step(f"xor.b32 %r11, %r11, {by};", _set("c", lambda s: s["c"] ^ by)),
        )
    if kind == "wrap":
        text = f"add.s32 %r12, %r11, 1;\nsetp.ge.s32 %p2, %r12, {by};\nselp.b32 %r11, 0, %r12, %p2;"
        return "mov.b32 %r11, 0;", 0, Step(text, _set("c", lambda s: 0 if s["c"] + 1 >= by else s["c"] + 1))
    if kind == "halve":
        first = rng.choice((16, 32, 32, 48, 64))
        return (
            f"mov.b32 %r11, {first};",
            first,
            Step("shr.u32 %r11, %r11, 1;", _set("c", lambda s: s["c"] >> 1)),
        )
    if kind == "double":
        return "mov.b32 %r11, 1;", 1, Step("shl.b32 %r11, %r11, 1;", _set("c", lambda s: s["c"] << 1))
    return "mov.b32 %r11, 0;", 0, Step(f"add.s32 %r11, %r11, {by};", _set("c", lambda s: s["c"] + by))


def _offset(rng: random.Random) -> tuple[str, Callable[[State], int]]:
    """The part of an address that the counters decide, in %r20."""
    kind, scale = rng.choice(("none", "parity", "low", "counter", "kept")), rng.choice((2, 8, 8, 9))
    if kind == "parity":
        return f"and.b32 %r20, %r10, 1;\nshl.b32 %r20, %r20, {scale};", lambda s: (s["i"] & 1) << scale
    if kind == "low":
        return (
            f"shl.b32 %r20, %r10, {scale};\nand.b32 %r20, %r20, {3 << scale};",
            lambda s: (s["i"] << scale) & (3 << scale),
        )
    if kind == "counter":
        return f"shl.b32 %r20, %r11, {scale};", lambda s: s["c"] << scale
    if kind == "kept":
        return f"shl.b32 %r20, %r13, {scale};", lambda s: s["k"] << scale
    return "mov.b32 %r20, 0;", lambda s: 0


def _access(rng: random.Random) -> Step:
    text, offset = _offset(rng)
    other = rng.choice((0, 0, 0, 1, 16, 32, 63))
    shift = rng.choice((0, 0, 0, 0, 4, 256))
    writes = rng.random() < 0.5
    guard, holds = rng.choice(_GUARDS)
    opcode = "st.shared.b32 [%r21], %r9;" if writes else "ld.shared.b32 %r50, [%r21];"
    text += f"\nxor.b32 %r21, %r1, {other};\nshl.b32 %r21, %r21, 2;\nadd.s32 %r21, %r21, %r20;\n"
    text += f"add.s32 %r21, %r21, %r3;\nadd.s32 %r21, %r21, {shift};\n"
    text += guard.replace("ACCESS", opcode)

    def execute(state: State) -> list[object]:
        at = ((state["t"] ^ other) << 2) + offset(state) + shift
        return [(at, writes)] if holds(state) else []

    return Step(text, execute)


_GUARDS: list[tuple[str, Callable[[State], bool]]] = [
    ("ACCESS", lambda s: True),
    ("ACCESS", lambda s: True),
    ("setp.lt.u32 %p1, %r1, %r11;\n@%p1 ACCESS", lambda s: s["t"] < s["c"]),
    ("setp.le.u32 %p1, %r1, %r11;\n@%p1 ACCESS", lambda s: s["t"] <= s["c"]),
    (
        "add.s32 %r22, %r11, -1;\nand.b32 %r22, %r22, %r1;\nsetp.eq.s32 %p1, %r22, 0;\n@%p1 ACCESS",
        lambda s: not s["t"] & (s["c"] - 1),
    ),
    ("setp.eq.s32 %p1, %r1, 0;\n@%p1 ACCESS", lambda s: s["t"] == 0),
    ("setp.lt.u32 %p1, %r1, 32;\n@%p1 ACCESS", lambda s: s["t"] < 32),
]


def _exchange(rng: random.Random) -> Step:
    """A step of a reduction: the threads below a distance read what is as far from their own words, which they write."""
    inclusive, less = rng.random() < 0.2, rng.choice((0, 0, 0, 4))
    text = f"""setp.{"gt" if inclusive else "ge"}.u32 %p1, %r1, %r11;
@%p1 bra SKIP;
shl.b32 %r20, %r11, 2;
add.s32 %r21, %r2, %r3;
add.s32 %r20, %r20, %r21;
ld.shared.b32 %r50, [%r20+-{less}];
st.shared.b32 [%r21], %r50;
SKIP:"""

    def execute(state: State) -> list[object]:
        own, distance = state["t"] * 4, state["c"]
        active = state["t"] <= distance if inclusive else state["t"] < distance
        return [(own + 4 * distance - less, False), (own, True)] if active else []

    return Step(text, execute)


BARRIER = Step("bar.sync 0;", lambda state: ["cta"])
OF_WARP = Step("bar.warp.sync -1;", lambda state: ["warp"])
KEEP = Step("mov.b32 %r13, %r11;", _set("k", lambda s: s["c"]))


class Program:
    """One loop between a store and a load of each thread, with a seed."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        begin, self.first, step = _counter(rng)
        self.size = rng.choice((f".reqntid {SIZE}", f".reqntid {SIZE}", ".maxntid 128"))
        self.step = rng.choice((1, 1, 1, 2))
        middle = [_exchange(rng)] if rng.random() < 0.4 else [_access(rng) for _ in range(rng.randint(1, 3))]
        barrier = rng.choice((BARRIER, BARRIER, OF_WARP))
        middle += [barrier] * rng.choice((0, 1, 1, 1, 2)) + [KEEP] * rng.choice((0, 1))
        if rng.random() < 0.7:
            rng.shuffle(middle)
        middle.insert(rng.choice((0, len(middle), len(middle), len(middle))), step)
        self.body = middle
        self.prologue = [Step("st.shared.b32 [%r4], %r9;", lambda s: [(s["t"] * 4, True)]), BARRIER]
        self.begin = f"{START}\nadd.s32 %r4, %r2, %r3;\n{begin}\nmov.b32 %r13, {self.first};"

    @property
    def text(self) -> str:
        body = "\n".join(each.text.replace("SKIP", f"skip{n}") for n, each in enumerate(self.body))
        first = "\n".join(each.text for each in self.prologue)
        return (
            f"{self.begin}\n{first}\ntop:\n{body}\nadd.s32 %r10, %r10, {self.step};\n"
            "setp.lt.s32 %p5, %r10, %r9;\n@%p5 bra top;"
        )

    def events(self, thread: int, trips: int) -> Iterator[object]:
        """What one thread does: the scope of each barrier, and its accesses."""
        state = {"t": thread, "i": 0, "c": self.first, "k": self.first}
        for each in self.prologue:
            yield from each.execute(state)
        for _ in range(trips):
            for each in self.body:
                yield from each.execute(state)
            state["i"] += self.step

    def races(self) -> bool:
        """Whether two threads access one word between two barriers, and one of them writes."""
        return any(self._races(trips) for trips in TRIPS)

    def _races(self, trips: int) -> bool:
        """Whether two threads that no barrier separates access one word: two warps, or two lanes of one."""
        warps: dict[tuple[int, ...], tuple[set[int], set[int]]] = {}
        lanes: dict[tuple[int, ...], tuple[set[int], set[int]]] = {}
        for thread in range(SIZE):
            epoch = of_warp = 0
            for event in self.events(thread, trips):
                if isinstance(event, str):
                    epoch += event == "cta"
                    of_warp += 1
                else:
                    at, writes = event  # type: ignore[misc]
                    warps.setdefault((epoch, at), (set(), set()))[writes].add(thread // 32)
                    within = lanes.setdefault((of_warp, thread // 32, at), (set(), set()))
                    within[writes].add(thread)
        touched = (*warps.values(), *lanes.values())
        return any(writers and len(readers | writers) > 1 for readers, writers in touched)


def proved(program: Program) -> bool:
    model = last_kernel(SHARED, kernel(f"{program.text}\nret;", directives=program.size))
    (found,) = verdicts(model, only=[HazardClass.SHARED_MEMORY])
    return found.status is Status.PROVED


@pytest.mark.parametrize("first", range(0, 120, 30))
def test_no_loop_with_a_race_is_proved(first: int) -> None:
    programs = [Program(seed) for seed in range(first, first + 30)]
    found = [each for each in programs if proved(each)]
    assert found
    assert not [each.text for each in found if each.races()]
