"""Loops that write stages and store them in bulk, made at random: none that is proved goes wrong in any order in which two threads
and the stores may proceed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache

import pytest

from tclint.findings.verdicts import HazardClass, Status
from tclint.verdicts import verdicts
from tests.tools.rings import Selector
from tests.tools.support import kernel, last_kernel

HEADER = ".version 8.6\n.target sm_90a\n.address_size 64\n.shared .align 128 .b8 data[1024];\n"
TRIPS = (1, 2, 3, 4)
START = """ld.param.u64 %rd0, [pointer];
ld.param.u32 %r9, [number];
mov.u32 %r0, %tid.x;
mov.u32 %r1, data;
shl.b32 %r3, %r0, 2;
add.u32 %r3, %r1, %r3;
setp.ne.s32 %p0, %r0, 0;
mov.b32 %r10, 0;
"""


@dataclass(frozen=True)
class Step:
    """``write`` and ``store`` are of the stage of a selector; ``wait`` leaves *left* stores pending."""

    what: str
    stage: Selector
    left: int = 0

    def text(self, label: str, numbers: dict[Selector, int]) -> str:
        there = f"shl.b32 %r53, {self.stage.registers(numbers[self.stage])[0]}, 8;\n"
        return {
            "write": f"{there}add.u32 %r53, %r3, %r53;\nst.shared.b32 [%r53], %r9;\n",
            "store": f"@%p0 bra {label};\n{there}add.u32 %r53, %r1, %r53;\n"
            f"cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r53], 256;\ncp.async.bulk.commit_group;\n{label}:\n",
            "wait": f"cp.async.bulk.wait_group.read {self.left};\n",
            "fence": "fence.proxy.async.shared::cta;\n",
            "bar": "bar.sync 0;\n",
        }[self.what]


Steps = tuple[Step, ...]


def drawn(rng: random.Random) -> Steps:
    """A loop that is right, with up to two changes."""
    stages = rng.choice((1, 2, 3))
    now = Selector(0, stages, False)
    left = rng.randint(0, stages - 1)
    late = rng.random() < 0.4
    fence, bar = Step("fence", now), Step("bar", now)
    steps = [
        Step("wait", now, left),
        bar,
        Step("write", now),
        *((bar, fence) if late else (fence, bar)),
        Step("store", now),
    ]
    for _ in range(rng.choice((0, 1, 1, 2))):
        at, how = rng.randrange(len(steps)), rng.randrange(4)
        each, rest = steps[at], steps[:at] + steps[at + 1 :]
        if how == 0:
            steps = rest
        elif how == 1:
            to = rng.randrange(len(steps))
            steps = [*rest[:to], each, *rest[to:]]
        elif how == 2:
            other = Selector(rng.randint(0, 2), rng.choice((stages, max(1, stages - 1))), False)
            steps = [*steps[:at], Step(each.what, other, each.left), *steps[at + 1 :]]
        else:
            steps = [*steps[:at], Step(each.what, each.stage, rng.randint(0, 2)), *steps[at + 1 :]]
    return tuple(steps)


def text(steps: Steps) -> str:
    """The kernel."""
    selectors = sorted({each.stage for each in steps}, key=lambda s: (s.ahead, s.stages))
    numbers = {selector: n for n, selector in enumerate(selectors)}
    body = "".join(each.text(f"L{n}", numbers) for n, each in enumerate(steps))
    starts = "".join(selector.start(n) for selector, n in numbers.items())
    turns = "".join(selector.step(n) for selector, n in numbers.items())
    return kernel(
        f"{START}{starts}top:\n{body}{turns}add.s32 %r10, %r10, 1;\nsetp.lt.s32 %p2, %r10, %r9;\n@%p2 bra top;\n"
        "cp.async.bulk.wait_group.read 0;\nret;",
        directives=".reqntid 64",
    )


Op = tuple[str, int, int]
_World = tuple[tuple[tuple[int, frozenset[int]], ...], tuple[tuple[int, bool], ...]]
"""Where each thread is and what is unfenced for it; the stores of the first one, in order, each with whether it is pending."""


def goes_wrong(steps: Steps) -> bool:
    """Whether a write meets a store, or no fence separates the two, in some order."""
    return any(
        _goes_wrong(
            tuple((each.what, each.stage.at(k)[0], each.left) for k in range(trips) for each in steps)
        )
        for trips in TRIPS
    )


@lru_cache(maxsize=4096)
def _goes_wrong(ops: tuple[Op, ...]) -> bool:
    start: _World = ((0, frozenset()), (0, frozenset())), ()
    seen, work = {start}, [start]
    while work:
        places, stores = work.pop()
        pending = {stage for stage, is_pending in stores if is_pending}
        following: list[_World] = [
            (places, (*stores[:n], (stage, False), *stores[n + 1 :]))
            for n, (stage, is_pending) in enumerate(stores)
            if is_pending
        ]
        here = [ops[at] if at < len(ops) else ("end", 0, 0) for at, _ in places]
        if here[0][0] == here[1][0] == "bar":
            both = places[0][1] | places[1][1]
            following.append((tuple((at + 1, both) for at, _ in places), stores))
        for t, (what, stage, left) in enumerate(here):
            at, unfenced = places[t]
            after = stores
            if what in ("end", "bar"):
                continue
            if what == "write":
                if stage in pending:
                    return True
                unfenced |= {stage}
            elif what == "fence":
                unfenced = frozenset()
            elif what == "store" and t == 0:
                if stage in unfenced:
                    return True
                after = (*stores, (stage, True))
            elif what == "wait" and t == 0:
                kept = len(stores) - left
                if any(is_pending for _, is_pending in stores[: max(0, kept)]):
                    continue
                after = stores[max(0, kept) :]
            following.append(
                (tuple((at + 1, unfenced) if u == t else p for u, p in enumerate(places)), after)
            )
        for each in following:
            if each not in seen:
                seen.add(each)
                work.append(each)
    return False


@pytest.mark.parametrize("seed", range(3))
def test_no_loop_that_goes_wrong_in_some_order_is_proved(seed: int) -> None:
    rng = random.Random(seed)
    proved = []
    for _ in range(20):
        steps = drawn(rng)
        found = verdicts(last_kernel(text(steps), header=HEADER), only=[HazardClass.SHARED_MEMORY])
        if any(each.status is Status.PROVED for each in found):
            proved.append(steps)
    assert proved
    assert not [steps for steps in proved if goes_wrong(steps)]
