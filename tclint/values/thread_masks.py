"""Sets of threads, and functions of the thread index evaluated for all threads at once.

A thread set is an int (:data:`Threads`). A value that depends on the thread index alone is held
bit-sliced: :class:`BitSlices` has one such int for each bit of its two's complement, so one big-int operation works on
every thread. These are numbers and not registers: they never wrap, and :func:`narrow` is what an instruction reads of
them. Whether a predicate splits a warp, or which warps take a branch, is then exact and costs microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TypeAlias

__all__ = [
    "LIMIT",
    "BitSlices",
    "Threads",
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

Threads: TypeAlias = int
"""A set of threads of a CTA, one bit for each. What is only called ``int`` is a number of threads, or the index of one.

It is an alias: with a ``NewType``, each ``&``, ``|`` and shift would be an ``int`` again until it is converted, and a call
takes longer than the operation.
"""
BitSlices = tuple[Threads, ...]
"""A number in each thread: the threads that have each bit of it, from the lowest one on. The last bit is the sign."""


@lru_cache(maxsize=64)
def full(threads: int) -> Threads:
    """The set of all *threads* threads."""
    return (1 << threads) - 1


@lru_cache(maxsize=64)
def lane_zero(threads: int) -> Threads:
    """The first thread of every warp."""
    return sum(1 << t for t in range(0, threads, 32))


@lru_cache(maxsize=512)
def digit(threads: int, weight: int, base: int) -> BitSlices:
    """In each thread, the digit with weight *weight* and base *base* in the mixed-radix notation of its index."""
    planes = []
    for bit in range((base - 1).bit_length()):
        # The bit is clear in *run* threads and set in the next *run*, alternately, until the digit wraps.
        run = weight << bit
        cycle = _repeated(full(run) << run, 2 * run, weight * base)
        planes.append(_repeated(cycle, weight * base, threads))
    return number((*planes, 0))


def _repeated(pattern: int, period: int, length: int) -> int:
    """The first *length* bits of *pattern* repeated with *period*."""
    while period < length:
        pattern |= pattern << period
        period *= 2
    return pattern & full(length)


def constant(value: int, threads: int) -> BitSlices:
    """The same value in every thread."""
    every = full(threads)
    return tuple(every if value >> bit & 1 else 0 for bit in range(max(value, ~value).bit_length() + 1))


def bits(a: BitSlices, width: int) -> BitSlices:
    """The low *width* bits of *a*."""
    return a[:width] + a[-1:] * (width - len(a))


def number(planes: Sequence[int]) -> BitSlices:
    """The numbers with these bits, the last of which is the sign, without the planes that only repeat it."""
    end = len(planes)
    while end > 1 and planes[end - 2] == planes[end - 1]:
        end -= 1
    return tuple(planes[:end])


def bitwise(operation: Callable[[Threads, Threads], Threads], a: BitSlices, b: BitSlices) -> BitSlices:
    """A bitwise *operation* on the numbers of two values."""
    width = max(len(a), len(b))
    return number(tuple(map(operation, bits(a, width), bits(b, width))))


def add(a: BitSlices, b: BitSlices) -> BitSlices:
    width = max(len(a), len(b)) + 1
    carry = 0
    out = []
    for x, y in zip(bits(a, width), bits(b, width), strict=True):
        half = x ^ y
        out.append(half ^ carry)
        carry = (x & y) | (half & carry)
    return number(out)


def negate(a: BitSlices, threads: int) -> BitSlices:
    every = full(threads)
    return add(tuple(every ^ x for x in a), constant(1, threads))


def scale(a: BitSlices, factor: int, threads: int) -> BitSlices:
    """*a* times the constant *factor*."""
    total = constant(0, threads)
    magnitude = abs(factor)
    bit = 0
    while magnitude >> bit:
        if magnitude >> bit & 1:
            total = add(total, shift_left(a, bit))
        bit += 1
    return negate(total, threads) if factor < 0 else total


def shift_left(a: BitSlices, by: int) -> BitSlices:
    return number((0,) * by + a)


def shift_right(a: BitSlices, by: int) -> BitSlices:
    """*a* divided by a power of two, rounded down."""
    return a[by:] or a[-1:]


def divide(a: BitSlices, by: int, threads: int) -> tuple[BitSlices, BitSlices]:
    """The quotient and the remainder of *a* and a positive constant, rounded towards zero."""
    negative = a[-1]
    a = choose(negative, negate(a, threads), a)
    rest, quotient, minus = constant(0, threads), [0] * len(a), constant(-by, threads)
    for bit in reversed(range(len(a))):
        rest = number((a[bit], *rest))
        less = add(rest, minus)
        quotient[bit] = full(threads) ^ less[-1]
        rest = choose(less[-1], rest, less)
    first, second = (choose(negative, negate(x, threads), x) for x in (number(quotient), rest))
    return first, second


def choose(taken: Threads, a: BitSlices, b: BitSlices) -> BitSlices:
    """*a* in the threads *taken*, *b* in all others."""
    return bitwise(lambda x, y: x & taken | y & ~taken, a, b)


def narrow(a: BitSlices, width: int, signed: bool) -> BitSlices:
    """The low *width* bits of *a* as a signed or an unsigned number."""
    low = bits(a, width)
    return number(low if signed else (*low, 0))


def compare(relation: str, a: BitSlices, b: BitSlices, threads: int) -> Threads:
    """The threads in which ``a relation b`` holds; *relation* is ``eq`` or ``lt``."""
    every = full(threads)
    width = max(len(a), len(b))
    a, b = bits(a, width), bits(b, width)
    if relation == "eq":
        differ = 0
        for x, y in zip(a, b, strict=True):
            differ |= x ^ y
        return every ^ differ
    less = 0
    for x, y in zip((*a[:-1], b[-1]), (*b[:-1], a[-1]), strict=True):  # a negative number is less
        less = (~x & y & every) | (~(x ^ y) & less & every)
    return less


def broadcast(a: BitSlices, lane: int, threads: int) -> BitSlices:
    """In every warp, the value of its lane *lane*."""
    first = lane_zero(threads)
    spread = (1 << 32) - 1
    return number([(plane >> lane & first) * spread for plane in a])


def extreme(planes: BitSlices, threads: Threads, *, least: bool) -> int:
    """The least or the greatest value of *planes* in *threads*, which must not be empty."""
    found, sign = 0, len(planes) - 1
    for bit in reversed(range(len(planes))):
        # A number with its sign bit is less than one without.
        wanted = ~planes[bit] if least is (bit != sign) else planes[bit]
        threads = threads & wanted or threads
        if planes[bit] & threads:
            found += -1 << bit if bit == sign else 1 << bit
    return found


def numbers(planes: BitSlices, threads: Threads) -> Iterator[tuple[int, Threads]]:
    """The distinct values of *planes*, each with those of *threads* that have it."""
    while threads:
        first = (threads & -threads).bit_length() - 1
        found, same = 0, threads
        for bit, plane in enumerate(planes):
            one = plane >> first & 1
            found |= one << bit
            same &= plane if one else ~plane
        yield found - ((planes[-1] >> first & 1) << len(planes)), same
        threads &= ~same


def gathered(parts: Iterable[tuple[int, Threads]]) -> BitSlices:
    """The planes of *parts*: numbers, each with the threads that have it."""
    found = list(parts)
    width = max(value.bit_length() for value, _ in found) + 1
    planes = [0] * width
    for value, threads in found:
        for bit in range(width):
            if value >> bit & 1:
                planes[bit] |= threads
    return number(planes)


def partial_groups(taken: Threads, active: Threads, size: int) -> bool:
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


def whole(taken: Threads, size: int) -> Threads:
    """*taken* extended to all of every aligned group of *size* threads that it intersects."""
    group = (1 << size) - 1
    found, at = 0, 0
    while taken >> at:
        if taken >> at & group:
            found |= group << at
        at += size
    return found


def by_warp(taken: Threads) -> Iterator[tuple[int, Threads]]:
    """``(first thread of the warp, threads)`` for each warp that *taken* intersects."""
    for first in range(0, taken.bit_length(), 32):
        if mine := taken & 0xFFFFFFFF << first:
            yield first, mine


def by_warpgroup(taken: Threads) -> Iterator[Threads]:
    """All threads of each warpgroup that *taken* intersects."""
    for first in range(0, taken.bit_length(), 128):
        if taken >> first & full(128):
            yield full(128) << first


def one_warp(taken: Threads) -> Threads:
    """All threads of the warp that contains *taken*; 0 if *taken* is empty or spans several warps."""
    first = ((taken & -taken).bit_length() - 1) // 32 * 32
    warp = 0xFFFFFFFF << max(first, 0)
    return warp if taken and not taken & ~warp else 0


def describe(taken: Threads, threads: int) -> str:
    """A thread set in words: ``all threads``, ``warps 4-7``, ``thread 0``, ``lanes 0-15 of warp 1``, ``threads 0-99``."""
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
    runs = _ranges([thread for thread in range(taken.bit_length()) if taken >> thread & 1])
    return f"threads {runs}" if runs.count(",") < 2 else f"some lanes of {where}"


def _ranges(numbers: list[int]) -> str:
    runs: list[list[int]] = []
    for n in numbers:
        if runs and runs[-1][1] == n - 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def at_most_one_lane(taken: Threads) -> bool:
    """Whether *taken* has at most one thread of each warp."""
    while taken:
        warp = taken & 0xFFFFFFFF
        if warp & (warp - 1):
            return False
        taken >>= 32
    return True
