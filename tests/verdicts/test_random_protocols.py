"""No protocol of mbarriers in which a thread deadlocks is proved: random rings, compared with all interleavings of two threads."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest

from tclint.findings.verdicts import Status
from tests.tools.protocols import phases

MOST = 12
"""The iterations that a thread executes at most: a loop that begins past its end has as many, and then more."""
Operation = tuple[str, int, int]
"""What it does, on which mbarrier, and a parity or bytes."""


class Mbarrier:
    """An mbarrier with a count of 1."""

    def __init__(self) -> None:
        self.phase, self.arrived, self.bytes = 0, False, 0

    def apply(self, kind: str, number: int) -> bool:
        """Whether an arrival or a copy, which is complete at once, is one that the phase lacks."""
        if kind == "arrive":
            if self.arrived:
                return False
            self.arrived = True
        self.bytes += number if kind == "arrive" else -number
        if self.arrived and self.bytes == 0:
            self.phase, self.arrived = self.phase + 1, False
        return True


@dataclass(frozen=True)
class Ring:
    """A loop over stages with a prologue, as Triton makes it, perhaps within another one, and with mistakes."""

    stages: int
    ahead: int
    """The copies before the loop."""
    distance: int
    """How far the copy of an iteration is ahead of its wait."""
    slack: int
    """What is added to the limit of that copy."""
    guarded: bool
    """Whether the copies before the loop are those of iterations that there are."""
    checked: bool
    """Whether the loop is skipped without iterations."""
    relation: str
    """How the loop ends: ``ne`` or ``lt``."""
    order: tuple[str, ...]
    """An iteration: ``bar``, ``fill`` and ``wait``."""
    late: int
    """What is added to the iteration whose parity a wait is for."""
    flipped: bool
    """Whether the first parity is 1."""
    expected: int
    copied: int
    wrapped: bool
    """Whether stages and parities are counters of their own, and not bits of one."""
    begun: bool
    """Whether a barrier follows the initialisation."""
    drained: bool
    """Whether the last copies are waited for, if they are more than iterations."""
    tiles: int
    """The iterations of an outer loop that initialises and ends the mbarriers."""
    closed: bool
    """Whether a barrier precedes the end."""

    @classmethod
    def drawn(cls, rng: random.Random) -> Ring:
        """A right ring, or one with a few mistakes."""
        stages = rng.choice((1, 2, 2, 3, 4))
        ahead = rng.randint(0 if stages == 1 else 1, stages if stages == 1 else stages - 1)
        right = cls(
            stages,
            ahead,
            distance=ahead,
            slack=0,
            guarded=True,
            checked=True,
            relation=rng.choice(("ne", "lt")),
            order=("wait", "bar", "fill") if rng.random() < 0.5 or ahead == 0 else ("bar", "fill", "wait"),
            late=0,
            flipped=False,
            expected=64,
            copied=64,
            wrapped=stages == 3 or rng.random() < 0.5,
            begun=True,
            drained=False,
            tiles=rng.choice((0, 0, 2)),
            closed=True,
        )
        if ahead == 0:
            right = replace(right, order=("bar", "fill", "wait"))
        elif ahead == stages:
            right = replace(right, order=("wait", "bar", "fill"))
        changes: tuple[Callable[[Ring], Ring], ...] = (
            lambda r: replace(r, distance=max(0, r.distance + rng.choice((-1, 1)))),
            lambda r: replace(r, ahead=max(0, r.ahead + rng.choice((-1, 1)))),
            lambda r: replace(r, slack=rng.choice((-1, 1))),
            lambda r: replace(r, guarded=False),
            lambda r: replace(r, checked=False),
            lambda r: replace(r, order=tuple(rng.sample(("bar", "fill", "wait"), 3))),
            lambda r: replace(r, order=tuple(rng.sample(("fill", "wait"), 2))),
            lambda r: replace(r, order=tuple(rng.sample(("bar", "bar", "fill", "wait"), 4))),
            lambda r: replace(r, late=rng.choice((-1, 1))),
            lambda r: replace(r, flipped=True),
            lambda r: replace(r, expected=rng.choice((32, 128))),
            lambda r: replace(r, begun=False),
            lambda r: replace(r, closed=False),
            lambda r: replace(r, drained=True),
            lambda r: replace(r, relation="lt" if r.relation == "ne" else "ne"),
        )
        for change in rng.sample(changes, rng.choice((0, 0, 1, 1, 2))):
            right = change(right)
        return right

    # ------------------------------------------------------------ as numbers

    def trace(self, n: int) -> Iterator[Operation]:
        """What a thread executes with *n* iterations, in order; ``bar`` is for all of them."""
        for _ in range(max(1, self.tiles)):
            yield from self._tile(n)

    def _tile(self, n: int) -> Iterator[Operation]:
        yield from (("init", stage, 0) for stage in range(self.stages))
        yield from [("bar", 0, 0)] * self.begun
        for k in range(self.ahead):
            if not self.guarded or k < n:
                yield from self._fill(k)
        if not self.checked or n > 0:
            i = 0
            while i < MOST:
                for step in self.order:
                    if step == "bar":
                        yield "bar", 0, 0
                    elif step == "fill":
                        yield from self._fill(i + self.distance) if i + self.distance < n + self.slack else ()
                    else:
                        parity = (i + self.late) // self.stages & 1 ^ self.flipped
                        yield "wait", i % self.stages, parity
                i += 1
                if not (i != n if self.relation == "ne" else i < n):
                    break
            else:
                yield "more", 0, 0
                return
        if self.tiles:
            yield from [("bar", 0, 0)] * self.closed
            yield from (("inval", stage, 0) for stage in range(self.stages))

    def _fill(self, k: int) -> Iterator[Operation]:
        yield "arrive", k % self.stages, self.expected
        yield "copy", k % self.stages, self.copied

    def fails(self, n: int) -> bool:
        """Whether one of two threads, of which the first issues all operations but waits, may deadlock with *n* iterations, or
        an operation meets an mbarrier that does not expect it."""
        first = list(self.trace(n))
        second = [each for each in first if each[0] in ("bar", "wait", "more")]
        seen, work = {(0, 0)}, [(0, 0)]
        objects = [*self._objects(first)]
        if len(objects) <= len(first):
            return True
        while work:
            here, there = work.pop()
            one = first[here] if here < len(first) else ("more", 0, 0)
            two = second[there] if there < len(second) else ("more", 0, 0)
            following = list[tuple[int, int]]()
            if one[0] == two[0] == "bar":
                following.append((here + 1, there + 1))
            elif one[0] not in ("bar", "more") and self._passes(one, objects[here]):
                following.append((here + 1, there))
            if two[0] == "wait" and self._passes(two, objects[here]):
                following.append((here, there + 1))
            if not following and not one[0] == two[0] == "more":
                return True
            work += set(following) - seen
            seen.update(following)
        return False

    def _objects(self, operations: list[Operation]) -> Iterator[dict[int, tuple[int, bool]]]:
        """The phase of each mbarrier, and whether something is underway, before each operation; it ends before one that is wrong."""
        objects = dict[int, Mbarrier]()
        yield {}
        for kind, on, number in operations:
            if kind == "init":
                if on in objects:
                    return
                objects[on] = Mbarrier()
            elif kind == "inval":
                if objects[on].arrived or objects[on].bytes:
                    return
                del objects[on]
            elif kind in ("arrive", "copy") and not objects[on].apply(kind, number):
                return
            yield {each: (known.phase, known.arrived) for each, known in objects.items()}

    @staticmethod
    def _passes(operation: Operation, objects: dict[int, tuple[int, bool]]) -> bool:
        """Whether a thread passes an operation."""
        kind, on, parity = operation
        return kind != "wait" or (on in objects and objects[on][0] & 1 != parity)

    # ------------------------------------------------------------ as PTX

    @property
    def text(self) -> str:
        """The body of a kernel."""
        tile = "\n".join(self._lines())
        if not self.tiles:
            return f"{tile}\nret;\n"
        return f"""mov.u32 %r30, 0;
tiles:
{tile}
add.s32 %r30, %r30, 1;
setp.ne.s32 %p9, %r30, {self.tiles};
@%p9 bra tiles;
ret;
"""

    def _lines(self) -> Iterator[str]:
        yield from (
            f"@%p1 mbarrier.init.shared.b64 [%r3+{4096 + 8 * stage}], 1;" for stage in range(self.stages)
        )
        yield from ["bar.sync 0;"] * self.begun
        for k in range(self.ahead):
            yield f"setp.gt.s32 %p2, %r1, {k if self.guarded else -1000000};"
            if self.guarded:
                yield "and.pred %p3, %p1, %p2;"
            yield from self._filling(f"{k % self.stages * 8}", "%p3" if self.guarded else "%p1")
        yield from ["@%p6 bra over;"] * self.checked
        yield "mov.u32 %r4, 0;\nmov.u32 %r5, 0;\nmov.u32 %r7, 0;"
        late = self.late % (2 * self.stages)
        yield f"mov.u32 %r14, {late % self.stages};\nmov.u32 %r15, {late // self.stages};"
        yield f"mov.u32 %r9, {self.distance % self.stages};\nloop:"
        if not self.wrapped:
            bits = self.stages.bit_length() - 1
            yield f"and.b32 %r5, %r4, {self.stages - 1};\nadd.s32 %r12, %r4, {late};\nbfe.u32 %r15, %r12, {bits}, 1;"
            yield f"add.s32 %r13, %r4, {self.distance};\nand.b32 %r9, %r13, {self.stages - 1};"
        for at, step in enumerate(self.order):
            if step == "bar":
                yield "bar.sync 0;"
            elif step == "fill":
                yield f"add.s32 %r16, %r4, {self.distance - self.slack};"
                yield "setp.lt.s32 %p2, %r16, %r1;\nand.pred %p3, %p1, %p2;\nshl.b32 %r17, %r9, 3;\nadd.s32 %r17, %r17, %r3;"
                yield from self._filling("%r17", "%p3")
            else:
                yield f"shl.b32 %r18, %r5, 3;\nadd.s32 %r18, %r18, %r3;\nxor.b32 %r19, %r15, {int(self.flipped)};"
                yield f"wait{at}:\nmbarrier.try_wait.parity.shared.b64 %p4, [%r18+4096], %r19;\n@!%p4 bra wait{at};"
        yield "add.s32 %r4, %r4, 1;"
        if self.wrapped:
            yield from self._next("%r5")
            yield from self._next("%r9")
            yield from self._next("%r14", "%r15")
        yield f"setp.{self.relation}.s32 %p5, %r4, %r1;\n@%p5 bra loop;\nover:"
        if self.tiles:
            yield from ["bar.sync 0;"] * self.closed
            yield from (
                f"@%p1 mbarrier.inval.shared.b64 [%r3+{4096 + 8 * stage}];" for stage in range(self.stages)
            )

    def _next(self, stage: str, parity: str = "") -> Iterator[str]:
        yield f"add.s32 {stage}, {stage}, 1;\nsetp.eq.s32 %p7, {stage}, {self.stages};\nselp.b32 {stage}, 0, {stage}, %p7;"
        if parity:
            yield f"selp.b32 %r20, 1, 0, %p7;\nxor.b32 {parity}, {parity}, %r20;"

    def _filling(self, stage: str, guard: str) -> Iterator[str]:
        at = f"[{stage}+4096]" if stage.startswith("%") else f"[%r3+{4096 + int(stage)}]"
        yield f"@{guard} mbarrier.arrive.expect_tx.shared.b64 _, {at}, {self.expected};"
        yield f"@{guard} cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], {self.copied}, {at};"


def wrong(seeds: range) -> tuple[list[int], int]:
    """The seeds of rings that are proved and may fail, and how many are proved."""
    found, proved = list[int](), 0
    for seed in seeds:
        ring = Ring.drawn(random.Random(seed))
        if phases(ring.text).status is Status.PROVED:
            proved += 1
            if any(ring.fails(n) for n in range(-1, 8)):
                found.append(seed)
    return found, proved


@pytest.mark.parametrize("block", range(4))
def test_no_ring_that_may_deadlock_is_proved(block: int) -> None:
    found, proved = wrong(range(block * 20, block * 20 + 20))
    assert not found
    assert proved


def test_the_simulation_finds_mistakes() -> None:
    rings = [Ring.drawn(random.Random(seed)) for seed in range(200)]
    failing = [ring for ring in rings if any(ring.fails(n) for n in range(-1, 8))]
    assert 20 < len(failing) < 180
