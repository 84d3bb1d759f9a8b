"""Collective instructions of a warp: shuffles, votes, matches, reductions, elections (PTX ISA 9.7.9.6, 9.7.13)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, reduce

import numpy as np

from tclint.executor.code import Op
from tclint.executor.decode import Decoder, executes, pair
from tclint.executor.memory import Array
from tclint.executor.signals import AGAIN, ENDED
from tclint.executor.state import LANES, LaneArrival, Warp, membermask
from tclint.ir.nodes import Instruction, Operand
from tclint.isa.forms import Match

__all__ = ["together"]

_NUMBERS = np.arange(LANES)
_NAN = np.uint32(0x7FFFFFFF)

Compute = Callable[..., tuple[Array, ...]]
"""Computes the results of a collective instruction from the warp, its participating lanes and their source values."""


@cache
def lanes_of(mask: int) -> Array:
    """The lanes in a membermask."""
    named: Array = (mask >> _NUMBERS & 1).astype(bool)
    named.flags.writeable = False
    return named


def together(
    d: Decoder, i: Instruction, sources: Sequence[Operand], size: int,
    puts: Sequence[Callable[[Warp, Array], None]], compute: Compute,
) -> Op:  # fmt: skip
    """An op that executes *compute* once all lanes in the membermask have arrived, except those that have exited.

    Diverged lanes may arrive one after another, and at different instructions with the same qualifiers: the first ones
    wait. Lanes with different masks form different groups. A lane that is not in its own mask is an observation.
    Immediate *sources* have *size* bytes. Without a membermask, the active lanes participate.
    """
    mask = i.named("membermask")
    site, member = d.site, d.fetch(mask) if mask is not None else None
    name, opcode = i.name, i.opcode
    fetches = [d.fetch(o, size) for o in sources]

    def execute(w: Warp, lanes: Array) -> None:
        for put, value in zip(puts, compute(w, lanes, *[f(w) for f in fetches]), strict=True):
            put(w, value)

    def op(w: Warp) -> int | None:
        if member is None:
            execute(w, w.mask)
            return None
        masks = member(w)
        first = int(masks[int(w.mask.argmax())])
        if (masks[w.mask] != first).any():
            return _split_by_mask(w, masks, site)
        named = lanes_of(first)
        if (w.mask & ~named).any():
            lane = int((w.mask & ~named).argmax())
            w.machine.observe(
                "membermask", w, f"lane {lane} executes {name} with a membermask that excludes it"
            )
        missing = named & w.alive & ~w.mask
        if not missing.any():
            execute(w, w.mask)
            return None
        return _rendezvous(
            w,
            (opcode, first),
            missing,
            LaneArrival(w.split, w.mask, site, [f(w) for f in fetches], puts),
            compute,
        )

    return op


def _split_by_mask(w: Warp, masks: Array, site: int) -> int:
    """Divide lanes with different masks into groups, which execute the instruction one after another."""
    paths = [(site, w.mask & (masks == value)) for value in np.unique(masks[w.mask])]
    rest = w.split.mask & ~w.mask
    w.machine.fork(w.split, [*paths, (site + 1, rest)] if rest.any() else paths, site + 1)
    return ENDED


def _rendezvous(
    w: Warp, key: tuple[str, int], missing: Array, mine: LaneArrival, compute: Compute
) -> int | None:
    """Wait for the *missing* lanes; the last group to arrive computes the results, also for those that wait."""
    others = [a for a in w.collectives.get(key, ()) if a.split is not w.split]
    union = reduce(np.logical_or, [a.mask for a in others], w.mask)
    if (missing & ~union).any():
        w.collectives[key] = [*others, mine]
        w.machine.park(w.split, f"lanes {np.flatnonzero(missing & ~union).tolist()} of its warp")
        return AGAIN
    w.collectives.pop(key, None)
    sources = list(mine.sources)
    for other in others:
        sources = [np.where(other.mask, a, b) for a, b in zip(other.sources, sources, strict=True)]
    results = compute(w, union, *sources)
    mask, full = w.mask, w.full
    for arrival in (*others, mine):
        w.mask, w.full = arrival.mask, False
        for put, value in zip(arrival.puts, results, strict=True):
            put(w, value)
    w.mask, w.full = mask, full
    for other in others:
        other.split.pc = other.site + 1
        w.machine.resume(other.split)
    return None


# ---------------------------------------------------------------- shuffles


@executes("shfl.sync", "shfl")
def _shfl(d: Decoder, i: Instruction) -> Op:
    assert i.match is not None
    direction = i.match.shuffle
    puts = [d.put(o) for o in pair(i.operands[0])]

    def shuffle(w: Warp, mask: Array, source: Array, b: Array, c: Array) -> tuple[Array, ...]:
        lane, control = b.astype(np.int64) & 31, c.astype(np.int64)
        clamp, segment = control & 31, control >> 8 & 31
        low = _NUMBERS & segment
        last = low | (clamp & ~segment)
        if direction == "up":
            at = _NUMBERS - lane
            inside = at >= last
        else:
            at = {"down": _NUMBERS + lane, "bfly": _NUMBERS ^ lane, "idx": low | (lane & ~segment)}[direction]
            inside = at <= last
        at = np.where(inside, at, _NUMBERS)
        invalid = mask & ~mask[at]
        if invalid.any():
            reader = int(invalid.argmax())
            w.machine.observe(
                "shuffle", w, f"lane {reader} reads from lane {int(at[reader])}, which does not participate"
            )
        return source[at], inside

    return together(d, i, i.operands[1:4], 4, puts, shuffle)


# ---------------------------------------------------------------- votes and matches


@executes("vote.sync", "vote")
def _vote(d: Decoder, i: Instruction) -> Op:
    assert i.match is not None
    modes = i.match.modes

    def vote(w: Warp, mask: Array, source: Array) -> tuple[Array, ...]:
        if modes.ballot:
            return (np.full(LANES, int(membermask(source & mask)), np.uint32),)
        votes = source[mask]
        every, some = bool(votes.all()), bool(votes.any())
        result = every if modes.unanimous else some if modes.existential else every or not some
        return (np.full(LANES, result),)

    return together(d, i, i.operands[1:2], 0, [d.put(i.operands[0])], vote)


@executes("match.any", "match.all")
def _match(d: Decoder, i: Instruction) -> Op:
    assert i.match is not None
    size = 8 if i.match.element.endswith("64") else 4

    def match_any(w: Warp, mask: Array, values: Array) -> tuple[Array, ...]:
        same = (values[:, None] == values) & mask
        return (membermask(same),)

    def match_all(w: Warp, mask: Array, values: Array) -> tuple[Array, ...]:
        equal = bool((values[mask] == values[mask][0]).all())
        return np.full(LANES, int(membermask(mask)) if equal else 0, np.uint32), np.full(LANES, equal)

    every = i.match.form.name == "match.all"
    puts = [d.put(o) for o in (pair(i.operands[0]) if every else i.operands[:1])]
    return together(d, i, i.operands[1:2], size, puts, match_all if every else match_any)


@executes("activemask")
def _activemask(d: Decoder, i: Instruction) -> Op:
    put = d.put(i.operands[0])
    return lambda w: put(w, np.full(LANES, int(membermask(w.mask)), np.uint32))


# ---------------------------------------------------------------- reductions and elections

_INTEGERS = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}  # fmt: skip


@executes("redux.sync", "redux.sync.f32")
def _redux(d: Decoder, i: Instruction) -> Op:
    assert i.match is not None
    combine = (_floats if i.match.form.name == "redux.sync.f32" else _integers)(i.match)

    def redux(w: Warp, mask: Array, values: Array) -> tuple[Array, ...]:
        return (np.full(LANES, combine(values[mask])),)

    return together(d, i, i.operands[1:2], 4, [d.put(i.operands[0])], redux)


def _integers(match: Match) -> Callable[[Array], np.uint32]:
    kind = np.int32 if match.element == ".s32" else np.uint32
    function = _INTEGERS[match.reduction]
    return lambda values: np.uint32(int(function.reduce(values.view(kind), dtype=kind)) & 0xFFFFFFFF)


def _floats(match: Match) -> Callable[[Array], np.uint32]:
    """The minimum or maximum; -0 is less than +0, and a NaN result is the canonical one."""
    absolute, strict = match.modes.absolute, match.modes.propagates_nan
    largest = match.binding["op"] == ".max"

    def extreme(values: Array) -> np.uint32:
        numbers = values & np.uint32(0x7FFFFFFF) if absolute else values
        nan = numbers & np.uint32(0x7FFFFFFF) > 0x7F800000
        if nan.all() or (strict and nan.any()):
            return _NAN
        numbers = numbers[~nan].view(np.int32)
        ordered = numbers ^ (numbers >> 31 & 0x7FFFFFFF)  # integers that compare as the numbers do
        found: np.uint32 = numbers[int(ordered.argmax() if largest else ordered.argmin())].view(np.uint32)
        return found

    return extreme


@executes("elect.sync")
def _elect(d: Decoder, i: Instruction) -> Op:
    """Elects the lowest lane; the election is deterministic for a given set of lanes (9.7.13.14)."""

    def elect(w: Warp, mask: Array) -> tuple[Array, ...]:
        leader = int(mask.argmax())
        return np.full(LANES, leader, np.uint32), np.asarray(leader == _NUMBERS)

    return together(d, i, (), 4, [d.put(o) for o in pair(i.operands[0])], elect)
