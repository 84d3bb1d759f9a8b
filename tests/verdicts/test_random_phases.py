"""Rings of copies that mbarriers track, made at random: none that is proved goes wrong in any order in which two threads and the
copies may proceed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import pytest

from tclint.findings.verdicts import HazardClass, Status
from tclint.verdicts import verdicts
from tests.tools.rings import Selector
from tests.tools.support import kernel, last_kernel

BYTES = 256
"""Of a stage, which 64 threads read."""
TRIPS = (0, 1, 2, 3, 5)
HOPPER = ".version 8.6\n.target sm_90a\n.address_size 64\n.shared .align 128 .b8 data[1024];\n.shared .align 8 .b64 full[4];\n"
START = """ld.param.u64 %rd0, [pointer];
ld.param.u32 %r9, [number];
mov.u32 %r0, %tid.x;
mov.u32 %r1, data;
mov.u32 %r2, full;
shl.b32 %r3, %r0, 2;
add.u32 %r3, %r1, %r3;
setp.ne.s32 %p0, %r0, 0;
setp.ne.s32 %p1, %r0, 32;
"""


@dataclass(frozen=True)
class Step:
    """What all threads do in an iteration, or one thread does for all."""

    what: str
    """``wait``, ``read``, ``fence``, ``bar``, ``issue``."""
    stage: Selector
    data: Selector
    expected: int = BYTES
    thread: int = 0
    before: int | None = None
    """How many iterations before the last one the step is executed for the last time; None: in each."""

    def text(self, label: str, numbers: dict[Selector, int]) -> str:
        stage, parity = self.stage.registers(numbers[self.stage])
        data, _ = self.data.registers(numbers[self.data])
        address = f"shl.b32 %r52, {stage}, 3;\nadd.u32 %r52, %r2, %r52;\n"
        there = f"shl.b32 %r53, {data}, 8;\n"
        if self.what == "wait":
            return f"{address}{label}: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r52], {parity};\n@!%p4 bra {label};\n"
        if self.what == "read":
            return f"{there}add.u32 %r53, %r3, %r53;\nld.shared.b32 %r54, [%r53];\n"
        if self.what == "issue":
            most = "" if self.before is None else _unless(f"add.s32 %r56, %r10, {self.before};", label)
            return (
                f"@%p{self.thread} bra {label};\n{most}{address}{there}add.u32 %r53, %r1, %r53;\n"
                + _issued("%r52", "%r53", self.expected)
                + f"{label}:\n"
            )
        return {"fence": "fence.proxy.async.shared::cta;\n", "bar": "bar.sync 0;\n"}[self.what]


def _unless(number: str, label: str) -> str:
    """A branch to *label* where the *number* of an iteration is not one of the loop."""
    return f"{number}\nsetp.ge.s32 %p5, %r56, %r9;\n@%p5 bra {label};\n"


def _issued(mbarrier: str, data: str, expected: int) -> str:
    return f"""mbarrier.arrive.expect_tx.shared::cta.b64 _, [{mbarrier}], {expected};
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [{data}], [%rd0], {BYTES}, [{mbarrier}];
"""


Phase = tuple[int, bool, int]
_World = tuple[tuple[tuple[int, frozenset[int]], ...], tuple[Phase, ...], tuple[tuple[int, int], ...]]
Op = tuple[str, int, int, int]
"""What a thread does, with the mbarrier, the data or the parity, and the bytes."""


@dataclass(frozen=True)
class Program:
    """The issues before the loop, and the steps of an iteration."""

    prologue: tuple[int, ...]
    steps: tuple[Step, ...]
    limits: tuple[int | None, ...] = ()
    """Of each issue before the loop the iteration that it is for; None: it is executed in any launch."""
    ends: bool = False
    """Whether threads write to all stages after the loop and a barrier."""

    @classmethod
    def drawn(cls, rng: random.Random) -> Program:
        """A ring that is right, with up to two changes."""
        stages = rng.choice((1, 2, 2, 3))
        depth = rng.randint(0, stages - 1) if rng.random() < 0.7 else stages
        now, later = Selector(0, stages, False), Selector(depth, stages, False)
        read = [Step("wait", now, now), Step("read", now, now)]
        issue = [Step("issue", later, later)]
        fenced = [Step("fence", now, now), Step("bar", now, now)]
        steps = [*fenced, *issue, *read] if depth < stages else [*read, *fenced, *issue]
        for _ in range(rng.choice((0, 1, 1, 2))):
            steps = list(_changed(rng, steps, stages))
        return cls(tuple(range(min(depth, stages))), tuple(steps))

    @classmethod
    def ending(cls, rng: random.Random) -> Program:
        """A ring whose last refills are skipped and whose bytes are written after the loop, with up to two changes."""
        stages = rng.choice((2, 3, 3))
        depth = rng.randint(1, stages - 1)
        now, later = Selector(0, stages, False), Selector(depth, stages, False)
        issue = Step("issue", later, later, before=depth)
        steps = [Step(what, now, now) for what in ("wait", "read", "fence", "bar")] + [issue]
        limits: list[int | None] = list(range(depth))
        for _ in range(rng.choice((0, 1, 1, 2))):
            how = rng.randrange(4)
            if how == 0:
                limits[rng.randrange(depth)] = rng.choice((None, 0, 1, 2))
            elif how == 1:
                changed = rng.choice((None, depth - 1, depth + 1))
                steps = [replace(s, before=changed) if s.what == "issue" else s for s in steps]
            else:
                steps = list(_changed(rng, steps, stages))
        return cls(tuple(range(depth)), tuple(steps), tuple(limits), True)

    @property
    def text(self) -> str:
        selectors = sorted(
            {s for each in self.steps for s in (each.stage, each.data)},
            key=lambda s: (s.ahead, s.stages, s.flipped),
        )
        numbers = {selector: n for n, selector in enumerate(selectors)}
        inits = "".join(f"mbarrier.init.shared::cta.b64 [%r2+{8 * i}], 1;\n" for i in range(4))
        first = "".join(
            ("" if limit is None else _unless(f"mov.b32 %r56, {limit};", f"F{i}"))
            + _issued(f"%r2+{8 * i}", f"%r1+{BYTES * i}", BYTES)
            + f"F{i}:\n"
            for i, limit in self._first
        )
        body = "".join(each.text(f"L{n}", numbers) for n, each in enumerate(self.steps))
        starts = "".join(selector.start(n) for selector, n in numbers.items())
        steps = "".join(selector.step(n) for selector, n in numbers.items())
        last = "".join(f"st.shared.b32 [%r3+{BYTES * i}], 0;\n" for i in range(4))
        end = f"bar.sync 0;\n{last}" if self.ends else ""
        return kernel(
            f"{START}@%p0 bra begun;\n{inits}begun:\nbar.sync 0;\n@%p0 bra loaded;\n{first}loaded:\n{starts}"
            f"mov.b32 %r10, 0;\nsetp.le.s32 %p2, %r9, 0;\n@%p2 bra done;\n"
            f"top:\n{body}{steps}add.s32 %r10, %r10, 1;\nsetp.lt.s32 %p2, %r10, %r9;\n@%p2 bra top;\ndone:\n{end}ret;",
            directives=".reqntid 64",
        )

    def thread(self, index: int, trips: int) -> tuple[Op, ...]:
        """What a thread does: thread 0 of the CTA or thread 32."""
        found: list[Op] = []
        if index == 0:
            found += [("issue", i, i, BYTES) for i, limit in self._first if limit is None or limit < trips]
        for k in range(trips):
            for each in self.steps:
                (stage, parity), (data, _) = each.stage.at(k), each.data.at(k)
                if each.what == "wait":
                    found.append(("wait", stage, parity, 0))
                elif each.what == "issue":
                    if each.thread == index and (each.before is None or k + each.before < trips):
                        found.append(("issue", stage, data, each.expected))
                elif each.what in ("read", "fence", "bar"):
                    found.append((each.what, data, 0, 0))
        if self.ends:
            found += [("bar", 0, 0, 0), *(("read", i, 0, 0) for i in range(4))]
        return tuple(found)

    @property
    def _first(self) -> list[tuple[int, int | None]]:
        """The issues before the loop, with their limits."""
        return list(zip(self.prologue, self.limits or [None] * len(self.prologue), strict=True))

    def goes_wrong(self) -> bool:
        """Whether an access meets a copy, or a phase gets two arrivals, in some order."""
        return any(_goes_wrong(self.thread(0, n), self.thread(1, n)) for n in TRIPS)


def _changed(rng: random.Random, steps: list[Step], stages: int) -> Iterator[Step]:
    """The steps with one change."""
    at, how = rng.randrange(len(steps)), rng.randrange(7)
    each = steps[at]
    other = Selector(rng.randint(0, 3), rng.choice((stages, stages, max(1, stages - 1))), rng.random() < 0.3)
    if how == 0:
        yield from steps[:at] + steps[at + 1 :]
    elif how == 1:
        to = rng.randrange(len(steps))
        rest = steps[:at] + steps[at + 1 :]
        yield from [*rest[:to], each, *rest[to:]]
    elif how == 2:
        yield from [*steps, each]
    else:
        changes = {
            3: replace(each, stage=other),
            4: replace(each, data=other),
            5: replace(each, stage=other, data=other),
            6: replace(each, expected=rng.choice((128, 512)), thread=rng.choice((0, 1))),
        }
        yield from [*steps[:at], changes[how], *steps[at + 1 :]]


@lru_cache(maxsize=4096)
def _goes_wrong(first: tuple[Op, ...], second: tuple[Op, ...]) -> bool:
    """Explores every order of two threads and of the completion of copies."""
    threads = first, second
    following: list[_World]
    # Of each thread where it is and what it or, before a barrier, the other one has read with no fence since; of each mbarrier the complete phases modulo 2, whether
    # one has arrived, and the bytes that are missing; the copies underway.
    start: _World = ((0, frozenset()), (0, frozenset())), ((0, False, 0),) * 4, ()
    seen, work = {start}, [start]
    while work:
        places, phases, copies = work.pop()
        following = []
        for n, copy in enumerate(copies):
            after = _settled(phases, copy[0], tx=-BYTES)
            following.append((places, after, copies[:n] + copies[n + 1 :]))
        here = [
            threads[t][places[t][0]] if places[t][0] < len(threads[t]) else ("end", 0, 0, 0) for t in (0, 1)
        ]
        if here[0][0] == here[1][0] == "bar":
            both = places[0][1] | places[1][1]  # a fence of either thread is on the path from here
            moved = tuple((at + 1, both) for at, _ in places)
            following.append((moved, phases, copies))
        for t in (0, 1):
            (at, unfenced), (what, stage, data, expected) = places[t], here[t]
            after, begun = phases, copies
            if what in ("end", "bar") or (what == "wait" and phases[stage][0] == data):
                continue
            if what == "read":
                if any(target == stage for _, target in copies):
                    return True
                unfenced |= {stage}
            elif what == "fence":
                unfenced = frozenset()
            elif what == "issue":
                if phases[stage][1] or data in unfenced or any(data == other for _, other in copies):
                    return True
                after = _settled(phases, stage, tx=expected, arrives=True)
                begun = tuple(sorted((*copies, (stage, data))))
                if after[stage][0] != phases[stage][0]:
                    return True  # the phase is complete at once
            moved = tuple((at + 1, unfenced) if u == t else places[u] for u in (0, 1))
            following.append((moved, after, begun))
        for each in following:
            if each not in seen:
                seen.add(each)
                work.append(each)
    return False


def _settled(phases: tuple[Phase, ...], at: int, *, tx: int, arrives: bool = False) -> tuple[Phase, ...]:
    """The phases after an arrival, or when bytes are complete."""
    complete, arrived, missing = phases[at]
    arrived, missing = arrived or arrives, missing + tx
    if arrived and not missing:
        complete, arrived = complete ^ 1, False
    return (*phases[:at], (complete, arrived, missing), *phases[at + 1 :])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("draw", [Program.drawn, Program.ending], ids=["endless", "ending"])
def test_no_ring_that_goes_wrong_in_some_order_is_proved(
    draw: Callable[[random.Random], Program], seed: int
) -> None:
    rng = random.Random(seed)
    drawn = [draw(rng) for _ in range(12)]
    proved = []
    for program in drawn:
        (found,) = verdicts(last_kernel(program.text, header=HOPPER), only=[HazardClass.SHARED_MEMORY])
        if found.status is Status.PROVED:
            proved.append(program)
    assert proved
    assert not [program for program in proved if program.goes_wrong()]
