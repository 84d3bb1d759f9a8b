"""Sets of threads, and functions of the thread index evaluated for all threads at once.

A thread set is an int with one bit for each thread of a CTA. A value that depends on the thread index alone is held
bit-sliced: :class:`BitSlices` has one such int for each of its 32 bits, so one big-int operation works on every thread.
Whether a predicate splits a warp, or which warps take a branch, is then exact and costs microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

__all__ = [
    "LIMIT",
    "BitSlices",
    "by_warp",
    "compare",
    "describe",
    "digit",
    "full",
    "lane_zero",
    "numbers",
    "partial_groups",
]

LIMIT = 1024
"""The maximum number of threads of a CTA, on every target."""
WIDTH = 32

BitSlices = tuple[int, ...]


@lru_cache(maxsize=64)
def full(threads: int) -> int:
    """The set of all *threads* threads."""
    return (1 << threads) - 1


@lru_cache(maxsize=64)
def lane_zero(threads: int) -> int:
    """The first thread of every warp."""
    return sum(1 << t for t in range(0, threads, 32))


@lru_cache(maxsize=512)
def digit(threads: int, weight: int, base: int) -> BitSlices:
    """In each thread, the digit with weight *weight* and base *base* in the mixed-radix notation of its index."""
    planes = [0] * WIDTH
    for bit in range((base - 1).bit_length()):
        # The bit is clear in *run* threads and set in the next *run*, alternately, until the digit wraps.
        run = weight << bit
        cycle = _repeated(full(run) << run, 2 * run, weight * base)
        planes[bit] = _repeated(cycle, weight * base, threads)
    return tuple(planes)


def _repeated(pattern: int, period: int, length: int) -> int:
    """The first *length* bits of *pattern* repeated with *period*."""
    while period < length:
        pattern |= pattern << period
        period *= 2
    return pattern & full(length)


def constant(value: int, threads: int) -> BitSlices:
    """The same value in every thread."""
    every = full(threads)
    return tuple(every if value >> bit & 1 else 0 for bit in range(WIDTH))


def add(a: BitSlices, b: BitSlices) -> BitSlices:
    carry = 0
    out = []
    for x, y in zip(a, b, strict=True):
        half = x ^ y
        out.append(half ^ carry)
        carry = (x & y) | (half & carry)
    return tuple(out)


def negate(a: BitSlices, threads: int) -> BitSlices:
    every = full(threads)
    return add(tuple(every ^ x for x in a), constant(1, threads))


def scale(a: BitSlices, factor: int, threads: int) -> BitSlices:
    """*a* times the constant *factor*."""
    total = constant(0, threads)
    magnitude = abs(factor) & 0xFFFFFFFF
    bit = 0
    while magnitude >> bit:
        if magnitude >> bit & 1:
            total = add(total, shift_left(a, bit))
        bit += 1
    return negate(total, threads) if factor < 0 else total


def shift_left(a: BitSlices, by: int) -> BitSlices:
    return ((0,) * by + a)[:WIDTH] if by < WIDTH else (0,) * WIDTH


def shifted(number: int, by: BitSlices, threads: int) -> BitSlices:
    """The constant *number* shifted left by an amount that differs between threads."""
    out = [0] * WIDTH
    for count in range(WIDTH):
        there = compare("eq", by, constant(count, threads), False, threads)
        if there:
            for bit in range(count, WIDTH):
                if number >> bit - count & 1:
                    out[bit] |= there
    return tuple(out)


def shift_right(a: BitSlices, by: int, arithmetic: bool) -> BitSlices:
    fill = a[-1] if arithmetic else 0
    return a[by:] + (fill,) * by if by < WIDTH else (fill,) * WIDTH


def narrow(a: BitSlices, width: int, signed: bool) -> BitSlices:
    """The low *width* bits of *a*, sign- or zero-extended."""
    return a[:width] + ((a[width - 1] if signed else 0),) * (WIDTH - width)


def compare(relation: str, a: BitSlices, b: BitSlices, signed: bool, threads: int) -> int:
    """The threads in which ``a relation b`` holds; *relation* is ``eq`` or ``lt``."""
    every = full(threads)
    if relation == "eq":
        differ = 0
        for x, y in zip(a, b, strict=True):
            differ |= x ^ y
        return every ^ differ
    less = 0
    for bit, (x, y) in enumerate(zip(a, b, strict=True)):
        if signed and bit == WIDTH - 1:
            x, y = y, x
        less = (~x & y & every) | (~(x ^ y) & less & every)
    return less


def broadcast(a: BitSlices, lane: int, threads: int) -> BitSlices:
    """In every warp, the value of its lane *lane*."""
    first = lane_zero(threads)
    spread = (1 << 32) - 1
    return tuple(((plane >> lane) & first) * spread for plane in a)


def extreme(planes: BitSlices, threads: int, *, least: bool) -> int:
    """The least or the greatest signed value of *planes* in *threads*, which must not be empty."""
    number = 0
    for bit in reversed(range(WIDTH)):
        # A number with its sign bit is less than one without.
        wanted = ~planes[bit] if least is (bit != WIDTH - 1) else planes[bit]
        threads = threads & wanted or threads
        if planes[bit] & threads:
            number += (1 << bit) - (1 << WIDTH if bit == WIDTH - 1 else 0)
    return number


def numbers(planes: BitSlices, threads: int) -> Iterator[tuple[int, int]]:
    """The distinct values of *planes*, as signed numbers, each with those of *threads* that have it."""
    while threads:
        first = (threads & -threads).bit_length() - 1
        number, same = 0, threads
        for bit, plane in enumerate(planes):
            one = plane >> first & 1
            number |= one << bit
            same &= plane if one else ~plane
        yield number - (number >> 31 << 32), same
        threads &= ~same


def partial_groups(taken: int, active: int, size: int) -> bool:
    """Whether *taken* contains some, but not all, of the *active* threads of an aligned group of *size*."""
    other = active & ~taken
    taken &= active
    if not taken or not other:
        return False
    group = (1 << size) - 1
    at = 0
    while taken >> at:
        if taken >> at & group and other >> at & group:
            return True
        at += size
    return False


def whole(taken: int, size: int) -> int:
    """*taken* extended to all of every aligned group of *size* threads that it intersects."""
    group = (1 << size) - 1
    found, at = 0, 0
    while taken >> at:
        if taken >> at & group:
            found |= group << at
        at += size
    return found


def by_warp(taken: int) -> Iterator[tuple[int, int]]:
    """``(first thread of the warp, threads)`` for each warp that *taken* intersects."""
    for first in range(0, taken.bit_length(), 32):
        if mine := taken & 0xFFFFFFFF << first:
            yield first, mine


def by_warpgroup(taken: int) -> Iterator[int]:
    """All threads of each warpgroup that *taken* intersects."""
    for first in range(0, taken.bit_length(), 128):
        if taken >> first & full(128):
            yield full(128) << first


def one_warp(taken: int) -> int:
    """All threads of the warp that contains *taken*; 0 if *taken* is empty or spans several warps."""
    first = ((taken & -taken).bit_length() - 1) // 32 * 32
    warp = 0xFFFFFFFF << max(first, 0)
    return warp if taken and not taken & ~warp else 0


def describe(taken: int, threads: int) -> str:
    """A thread set in words: ``all threads``, ``warps 4-7``, ``thread 0``, ``lanes 0-15 of warp 1``."""
    every = full(threads)
    taken &= every
    if taken == every:
        return "all threads"
    if not taken:
        return "no thread"
    if taken & (taken - 1) == 0:
        thread = taken.bit_length() - 1
        return f"thread {thread}" if thread % 32 or thread == 0 else f"lane 0 of warp {thread // 32}"
    warps = [w for w in range((threads + 31) // 32) if taken >> 32 * w & 0xFFFFFFFF]
    lanes = {taken >> 32 * w & 0xFFFFFFFF for w in warps}
    names = _ranges(warps)
    where = f"warp {names}" if len(warps) == 1 else f"warps {names}"
    if lanes == {0xFFFFFFFF}:
        return where
    if len(lanes) == 1:
        bits = lanes.pop()
        some = [lane for lane in range(32) if bits >> lane & 1]
        return f"{'lane' if len(some) == 1 else 'lanes'} {_ranges(some)} of {where}"
    return f"some lanes of {where}"


def _ranges(numbers: list[int]) -> str:
    runs: list[list[int]] = []
    for n in numbers:
        if runs and runs[-1][1] == n - 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def at_most_one_lane(taken: int) -> bool:
    """Whether *taken* has at most one thread of each warp."""
    while taken:
        warp = taken & 0xFFFFFFFF
        if warp & (warp - 1):
            return False
        taken >>= 32
    return True
