"""No ring buffer in which a pending copy and an access meet is proved: random rings, executed as numbers."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from tclint.findings.verdicts import Status
from tests.tools.copies import COMMIT, copies, copy, read, wait

SIZE = 2048
"""The bytes that all threads of a CTA copy together: two offsets meet if they are closer."""
ITERATIONS = 40


@dataclass(frozen=True)
class Ring:
    """A loop that selects stages by bits of a counter, by a counter that wraps, and by an address that it keeps."""

    depth: int
    """The groups that the wait of an iteration leaves pending."""
    ahead: int
    start: int
    step: int
    mask: int
    wrap: int
    first: int
    target: str
    source: str
    kept: str
    copies_first: bool

    @classmethod
    def drawn(cls, rng: random.Random) -> Ring:
        return cls(
            depth=rng.choice((0, 0, 1, 2)),
            ahead=rng.randint(0, 2),
            start=rng.choice((0, 1024, 2048, 4096)),
            step=rng.choice((1024, 2048, 4096)),
            mask=rng.choice((2048, 4096, 6144)),
            wrap=rng.choice((2, 3, 4)),
            first=rng.choice((0, 2048, 4096)),
            target=rng.choice(("masked", "wrapped")),
            source=rng.choice(("this", "kept", "wrapped")),
            kept=rng.choice(("this", "masked", "wrapped")),
            copies_first=rng.random() < 0.5,
        )

    @property
    def text(self) -> str:
        name = {"this": "%r14", "masked": "%r17", "wrapped": "%r19", "kept": "%r18"}
        ahead = "\n".join(f"{copy(f'%r4+{k * SIZE}')}\n{COMMIT}" for k in range(self.ahead))
        both = [f"{copy(name[self.target])}\n{COMMIT}", read(name[self.source])]
        body = "\n".join(both if self.copies_first else both[::-1])
        return f"""{ahead}
mov.b32 %r10, {self.start};
mov.b32 %r11, 0;
mov.b32 %r12, -1;
add.s32 %r18, %r4, {self.first};
top:
{wait(self.depth)}
bar.sync 0;
and.b32 %r13, %r10, {self.mask};
add.s32 %r14, %r4, %r13;
add.s32 %r10, %r10, {self.step};
and.b32 %r16, %r10, {self.mask};
add.s32 %r17, %r4, %r16;
add.s32 %r21, %r12, 1;
setp.ge.s32 %p2, %r21, {self.wrap};
selp.b32 %r12, 0, %r21, %p2;
mul.lo.s32 %r22, %r12, {SIZE};
add.s32 %r19, %r4, %r22;
{body}
bar.sync 0;
mov.b32 %r18, {name[self.kept]};
add.s32 %r11, %r11, 1;
setp.lt.s32 %p1, %r11, %r9;
@%p1 bra top;
{wait()}"""

    def meets(self) -> bool:
        """Whether a copy is pending at an access of its bytes in one of the first iterations."""
        pending = [k * SIZE for k in range(self.ahead)]
        counter, stage, kept = self.start, -1, self.first
        for _ in range(ITERATIONS):
            pending = pending[-self.depth :] if self.depth else []
            this, counter, stage = counter & self.mask, counter + self.step, (stage + 1) % self.wrap
            at = {"this": this, "masked": counter & self.mask, "wrapped": stage * SIZE, "kept": kept}
            for use in ("target", "source") if self.copies_first else ("source", "target"):
                offset = at[getattr(self, use)]
                if any(abs(offset - each) < SIZE for each in pending):
                    return True
                pending += [offset] if use == "target" else []
            kept = at[self.kept]
        return False


@pytest.mark.parametrize("seed", range(4))
def test_no_ring_in_which_a_copy_and_an_access_meet_is_proved(seed: int) -> None:
    rng = random.Random(seed)
    drawn = [Ring.drawn(rng) for _ in range(12)]
    proved = [ring for ring in drawn if copies(ring.text).status is Status.PROVED]
    assert proved
    assert not [ring for ring in proved if ring.meets()]
