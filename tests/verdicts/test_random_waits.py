"""Barriers made at random: none of the kernels that are proved deadlocks in any order of its warps."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

from tclint.findings.verdicts import HazardClass, Status
from tclint.verdicts import verdicts
from tests.tools.support import kernel, last_kernel

WARPS = 3
NUMBERS = (0, 1, 2, 3)
"""What the parameter is in the launches that are simulated."""
START = "ld.param.u32 %r9, [number];\nmov.u32 %r1, %tid.x;\nshr.u32 %r2, %r1, 5;"
Operation = tuple[bool, int, int]
"""Whether a warp waits, the number of the barrier, and how many warps it counts."""


class Program:
    """A kernel of barriers, branches and loops, and what each of its warps executes."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.labels = rng, 0
        self.code = self._block(2)
        self.text = "\n".join(self._text(self.code))

    def _block(self, depth: int) -> list[tuple[object, ...]]:
        return [self._statement(depth) for _ in range(self.rng.randint(1, 3))]

    def _statement(self, depth: int) -> tuple[object, ...]:
        kind = self.rng.choice(
            ("barrier", "barrier", "if", "loop", "pair", "pair") if depth else ("barrier", "pair")
        )
        if kind == "barrier":
            waits, number = self.rng.random() < 0.85, self.rng.choice((0, 0, 1, 2))
            return "barrier", waits, number, self.rng.choice((WARPS, WARPS, 1, 2)) if waits else 2
        subject, relation = self.rng.choice(("%r2", "%r2", "%r9")), self.rng.choice(("lt", "ge", "eq"))
        if kind == "pair":
            number, counts = self.rng.choice((1, 2, 3, 4, 5)), (WARPS, WARPS, WARPS, 2)
            parts = [("barrier", waits, number, self.rng.choice(counts)) for waits in (False, True)]
            self.rng.shuffle(parts)
            return "if", "%r2", relation, self.rng.randint(0, WARPS), parts[:1], parts[1:]
        if kind == "if":
            other = self._block(depth - 1) if self.rng.random() < 0.5 else []
            return "if", subject, relation, self.rng.randint(0, WARPS), self._block(depth - 1), other
        return "loop", self.rng.choice(("%r2", "%r9", "%r9", "2", "2")), self._block(depth - 1)

    def _text(self, code: list[tuple[object, ...]]) -> Iterator[str]:
        for statement in code:
            self.labels += 1
            n = self.labels
            match statement:
                case ("barrier", waits, number, count):
                    counted = "" if count == WARPS and n % 2 and waits else f", {int(str(count)) * 32}"
                    yield f"bar.{'sync' if waits else 'arrive'} {number}{counted};"
                case ("if", subject, relation, bound, then, other):
                    yield f"setp.{relation}.s32 %p1, {subject}, {bound};\n@!%p1 bra else{n};"
                    yield from self._text(then)  # type: ignore[arg-type]
                    yield f"bra over{n};\nelse{n}:"
                    yield from self._text(other)  # type: ignore[arg-type]
                    yield f"over{n}:"
                case ("loop", bound, body):
                    yield f"mov.b32 %r{n + 20}, 0;\ntop{n}:\nsetp.ge.s32 %p1, %r{n + 20}, {bound};\n@%p1 bra done{n};"
                    yield from self._text(body)  # type: ignore[arg-type]
                    yield f"add.s32 %r{n + 20}, %r{n + 20}, 1;\nbra top{n};\ndone{n}:"

    def executed(self, warp: int, number: int) -> list[Operation]:
        """What one warp executes if the parameter is *number*."""
        return list(self._executed(self.code, {"%r2": warp, "%r9": number, "2": 2}))

    def _executed(self, code: list[tuple[object, ...]], values: dict[str, int]) -> Iterator[Operation]:
        for statement in code:
            match statement:
                case ("barrier", waits, barrier, count):
                    yield waits, barrier, count  # type: ignore[misc]
                case ("if", subject, relation, bound, then, other):
                    value = values[subject]  # type: ignore[index]
                    holds = {"lt": value < bound, "ge": value >= bound, "eq": value == bound}  # type: ignore[operator]
                    yield from self._executed(then if holds[relation] else other, values)  # type: ignore[arg-type,index]
                case ("loop", bound, body):
                    for _ in range(values[bound]):  # type: ignore[index]
                        yield from self._executed(body, values)  # type: ignore[arg-type]


def blocks(programs: list[list[Operation]]) -> bool:
    """Whether some order of the warps deadlocks, or two disagree about a barrier."""
    first = (0,) * len(programs), ()
    seen, work = {first}, [first]
    while work:
        at, arrived = work.pop()
        waiting = {w for _, _, ws in arrived for w, waits in ws if waits}
        ready = [w for w in range(len(programs)) if w not in waiting and at[w] < len(programs[w])]
        if not ready and (waiting or arrived):
            return True
        for w in ready:
            waits, barrier, count = programs[w][at[w]]
            here = next(((b, c, ws) for b, c, ws in arrived if b == barrier), (barrier, count, ()))
            if here[1] != count or w in {other for other, _ in here[2]}:
                return True
            joined = (*here[2], (w, waits))
            others = tuple(each for each in arrived if each[0] != barrier)
            left = others if len(joined) == count else tuple(sorted((*others, (barrier, count, joined))))
            after = (*at[:w], at[w] + 1, *at[w + 1 :]), left
            if after not in seen:
                seen.add(after)
                work.append(after)
    return False


def test_no_kernel_that_is_proved_blocks_in_any_order_of_its_warps() -> None:
    rng, found, signals = random.Random(3), Counter[tuple[bool, bool]](), 0
    for _ in range(600):
        program = Program(rng)
        text = kernel(f"{START}\n{program.text}\nret;", directives=f".reqntid {32 * WARPS}")
        (verdict,) = verdicts(last_kernel(text), only=[HazardClass.DEADLOCK])
        launches = ([program.executed(warp, n) for warp in range(WARPS)] for n in NUMBERS)
        flawed, proved = any(map(blocks, launches)), verdict.status is Status.PROVED
        assert not (proved and flawed), program.text
        found[proved, flawed] += 1
        signals += proved and "arrive" in program.text
    assert found[True, False] >= 40
    assert signals >= 10
    assert found[False, True] >= 100
