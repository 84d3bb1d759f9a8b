"""Positions in what cuda-gdb prints: ``info cuda warps``, ``info cuda threads`` and ``x/i $pc``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain

from tclint.hang.positions import CodePosition, PositionError, listed

__all__ = ["read"]

_BASE = re.compile(r"(0x[0-9a-f]+) <([A-Za-z_$%][\w$.]*)(?:\(.*?\))?\+(\d+)>")
_SYMBOL = re.compile(r'Symbol "([^"(]+)(?:\(.*\))?" is a function at address (0x[0-9a-f]+)')
_TRIPLE = r"\((\d+),(\d+),(\d+)\)"
_WARP = re.compile(
    rf"\*?\s*(\d+)\s+0x([0-9a-f]+)\s+0x([0-9a-f]+)\s+(0x[0-9a-f]+)\s+\d+\s+{_TRIPLE}\s+{_TRIPLE}"
)
"""A row of ``info cuda warps``: warp, active lanes, divergent lanes, program counter, kernel, block, first thread."""
_THREADS = re.compile(
    rf"\*?\s*{_TRIPLE}\s+{_TRIPLE}\s+{_TRIPLE}\s+{_TRIPLE}\s+(\d+)\s+(0x[0-9a-f]+)(?:\s+(\S+)\s+(\d+))?"
)
"""A row of ``info cuda threads``: the first and the last thread, how many, the program counter, and maybe the line."""
_KERNEL = re.compile(rf"{_TRIPLE}\s+{_TRIPLE}\s+[A-Za-z_$%][\w$.]*\(")
"""A row of ``info cuda kernels``: the shapes of the grid and of a CTA, and the name."""
_MAX_WARPS = 1 << 17
"""More warps than a device holds at a time: 64 for each of its multiprocessors."""
_PTX = (".ptx", ".nv_debug_ptx_txt")


def read(text: str) -> list[CodePosition]:
    """The positions in *text*: tables of cuda-gdb, or else a list as :func:`listed` reads it. Raises PositionError."""
    if not any(_WARP.match(line) or _THREADS.match(line) for line in text.splitlines()):
        return listed(text)
    return list(_rows(text))


class _Launch:
    """The shape of the grid and the CTAs, by ``info cuda kernels``; None if that is not in the text."""

    def __init__(self, text: str) -> None:
        found = _KERNEL.search(text)
        numbers = list(map(int, found.groups())) if found else []
        self._grid, self._block = tuple(numbers[:3]), tuple(numbers[3:])

    @property
    def threads(self) -> int:
        """The threads of a CTA. Raises PositionError if they are unknown."""
        if not self._block:
            raise PositionError("the shape of the CTAs is unknown: add what 'info cuda kernels' prints")
        return self._block[0] * self._block[1] * self._block[2]

    def cta(self, index: tuple[int, ...]) -> int:
        return self._linear(index, self._grid)

    def thread(self, index: tuple[int, ...]) -> int:
        return self._linear(index, self._block)

    @staticmethod
    def _linear(index: tuple[int, ...], shape: tuple[int, ...]) -> int:
        x, y, z = index
        if not shape:
            if y or z:
                raise PositionError("a grid of several dimensions: add what 'info cuda kernels' prints")
            return x
        return x + shape[0] * (y + shape[1] * z)


def _rows(text: str) -> Iterator[CodePosition]:
    """The positions in tables of cuda-gdb. Those of threads are preferred: a row of a warp leaves out some lanes."""
    launch = _Launch(text)
    bases = {found[1]: int(found[2], 16) for found in _SYMBOL.finditer(text)}
    bases |= {found[2]: int(found[1], 16) - int(found[3]) for found in _BASE.finditer(text)}
    lines = [line.strip() for line in text.splitlines()]
    threads = [found for line in lines if (found := _THREADS.match(line))]
    for number, warp in enumerate(chain.from_iterable(_threads(found, launch, bases) for found in threads)):
        if number == _MAX_WARPS:
            raise PositionError("more threads than a device holds: is a number in the tables wrong?")
        yield warp
    for line in lines if not threads else ():
        found_warp = _WARP.match(line)
        if found_warp is not None and int(found_warp[2], 16):
            numbers = tuple(map(int, found_warp.groups()[4:]))
            yield _counter(int(found_warp[4], 16), bases)._replace(
                cta=launch.cta(numbers[:3]),
                warp=launch.thread(numbers[3:]) // 32,
                lanes=int(found_warp[2], 16),
            )


def _threads(found: re.Match[str], launch: _Launch, bases: Mapping[str, int]) -> Iterator[CodePosition]:
    """The warps of a row of ``info cuda threads``, which is about consecutive threads.

    The program counter names one instruction; its line, that of the innermost inlined function, may name several waits.
    """
    numbers = tuple(map(int, found.groups()[:12]))
    if found[15] is not None and not bases:
        name, line = found[15], int(found[16])
        where = CodePosition(line, "" if name.endswith(_PTX) else name)
    else:
        where = _counter(int(found[14], 16), bases)
    first, last = launch.cta(numbers[:3]), launch.cta(numbers[6:9])
    start, end = launch.thread(numbers[3:6]), launch.thread(numbers[9:])
    for cta in range(first, last + 1):
        low = start if cta == first else 0
        high = end if cta == last else launch.threads - 1
        for warp in range(low // 32, high // 32 + 1):
            lanes = [lane for lane in range(32) if low <= 32 * warp + lane <= high]
            yield where._replace(cta=cta, warp=warp, lanes=sum(1 << lane for lane in lanes))


def _counter(pc: int, bases: Mapping[str, int]) -> CodePosition:
    """The position of a program counter, by the addresses of functions. Raises PositionError."""
    below = [(base, name) for name, base in bases.items() if base <= pc]
    if not below:
        raise PositionError(
            f"the program counter {pc:#x} is not relative to a kernel: add what 'x/i $pc' prints for one thread"
        )
    base, name = max(below)
    return CodePosition(offset=pc - base, kernel=name)
