"""What ptxas makes of kernels, in figures, and what a budget says about them: data only.

A figure is a count that ptxas states exactly: of registers, of bytes, or of messages with one code, such as C7510. The
figures come from ``ptxas -v`` and the cubin (:mod:`tclint.driver.assembling`); :mod:`tclint.linting.budget` compares
them with limits and with earlier ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from fnmatch import fnmatchcase

from tclint._dataclass import dataclass
from tclint._named_tuple import NamedTuple
from tclint._pattern import pattern

__all__ = [
    "ANYWHERE",
    "CODES",
    "RULES",
    "WORDS",
    "Assembled",
    "Budget",
    "Figure",
    "Gate",
    "Judged",
    "KernelFigures",
    "Limit",
    "Recorded",
    "covers",
    "figures_line",
    "figures_words",
]

RULES = ("PB001", "PB002", "PB003")
"""The rules about figures. They are on if the settings have a budget, unless they select others."""
WORDS = {
    "registers": "registers",
    "barriers": "barriers",
    "stack": "bytes of stack",
    "spill-stores": "bytes of spill stores",
    "spill-loads": "bytes of spill loads",
    "shared": "bytes of shared memory",
}
"""Figure -> what it counts. Every other figure is the code of a message and counts these."""
CODES = pattern(r"C7[0-9x]{3}")
"""What a budget may limit besides: messages with one code, or with one of several, such as ``C75xx``."""
_SHOWN = ("registers",)
"""The figures that are shown even if they are zero."""


class Figure(NamedTuple):
    """One figure of a kernel."""

    name: str
    """One of ``WORDS``, or the code of a message."""
    amount: int | None
    """None: ptxas cannot determine it, such as the stack of a kernel that recurses."""


@dataclass(frozen=True, slots=True)
class KernelFigures:
    """The figures of a kernel, with those of the functions that it calls."""

    kernel: str
    """Empty for the messages about a module that name none of its kernels."""
    figures: tuple[Figure, ...]

    def amount(self, name: str) -> int | None:
        """The figure called *name*; of a code with ``x`` in it, the messages with any code that fits. Absent: 0."""
        found = [figure.amount for figure in self.figures if covers(name, figure.name)]
        known = [amount for amount in found if amount is not None]
        return sum(known) if len(known) == len(found) else None

    def beside(self, other: KernelFigures) -> Iterator[tuple[str, int | None, int | None]]:
        """Each figure of either, and what it is of this kernel and of the *other* one."""
        for name in dict.fromkeys(figure.name for figure in (*self.figures, *other.figures)):
            yield name, self.amount(name), other.amount(name)


@dataclass(frozen=True, slots=True)
class Assembled:
    """What ptxas made of a module."""

    ptxas: str
    """Its version, ``13.5.37``."""
    target: str = ""
    kernels: tuple[KernelFigures, ...] = ()


@dataclass(frozen=True, slots=True)
class Limit:
    """Limits on the figures of some kernels."""

    kernels: tuple[str, ...] = ()
    """Patterns for their names; empty: all."""
    targets: tuple[str, ...] = ()
    """Patterns for the targets for which they are compiled; empty: all."""
    most: tuple[tuple[str, int], ...] = ()
    """Figure, and the most that it may be."""

    def applies(self, kernel: str, target: str) -> bool:
        return _any(self.kernels, kernel) and _any(self.targets, target)


@dataclass(frozen=True, slots=True)
class Budget:
    """The setting ``ptxas-budget``."""

    limits: tuple[Limit, ...] = ()
    """Of several for one figure of a kernel, the last one counts."""
    allowance: tuple[tuple[str, int], ...] = ()
    """Figure, and by how much it may exceed what it was before; absent: not at all."""
    options: tuple[str, ...] = ()
    """Options of ptxas that change what it makes."""
    seconds: int = 300
    """How long ptxas may take for a module."""

    def limits_of(self, kernel: str, target: str) -> dict[str, int]:
        """The limits on the figures of a kernel."""
        applying = (limit for limit in self.limits if limit.applies(kernel, target))
        return {name: most for limit in applying for name, most in limit.most}

    def growth(self, old: KernelFigures, new: KernelFigures) -> Iterator[tuple[str, int]]:
        """The figures that have grown by more than the allowance, or are no longer known, with what they were."""
        for name, before, after in old.beside(new):
            if before is not None and (after is None or after > before + self._allowed(name)):
                yield name, before

    def _allowed(self, figure: str) -> int:
        return max((most for name, most in self.allowance if covers(name, figure)), default=0)


ANYWHERE: tuple[str, str | None] = ("", None)
"""In place of the path and the member of a module."""


class Recorded(NamedTuple):
    """The figures that a kernel had: in a baseline, or in the other build of ``tclint diff``."""

    path: str
    """Of its file; empty: the kernel of that name and target in any file is compared with it."""
    member: str | None
    ptxas: str
    target: str
    figures: KernelFigures


@dataclass(frozen=True, slots=True)
class Gate:
    """What decides the figures of a run, and what they are compared with, besides the settings."""

    path: str
    """Of the ptxas."""
    version: str
    banner: str
    """All that it prints about its version, which identifies it."""
    known: Mapping[tuple[str, str | None], tuple[Recorded, ...]] = field(default_factory=dict, compare=False)
    """Absolute path and member -> the figures with which those of that module are compared; :data:`ANYWHERE` has those of
    any module."""
    folder: str = field(default="", compare=False)
    """Where the processes of a run put temporary files, so that none is left if they are killed; empty, or absent on another
    machine: in the one of the system."""

    def of(self, path: str, member: str | None) -> tuple[Recorded, ...]:
        """What the figures of a module are compared with, the first of a kernel and target."""
        return (*self.known.get((os.path.abspath(path), member), ()), *self.known.get(ANYWHERE, ()))

    def only(self, path: str, member: str | None) -> Gate:
        """The gate for one module, which is all that its process has to know."""
        return replace(self, known={ANYWHERE: self.of(path, member)})


@dataclass(frozen=True, slots=True)
class Judged:
    """A module before the gate."""

    budget: Budget
    made: Assembled
    """Without kernels if there is a problem."""
    before: tuple[Recorded, ...] = ()
    accept: bool = False
    """Whether a ptxas other than that of ``before`` is accepted."""
    problem: str = ""
    line: int = 0
    """Of the problem; 0: none."""


def figures_words(name: str, amount: int | None) -> str:
    """``8 bytes of stack``, ``1 barrier``, ``2 C7510 messages``."""
    head, _, rest = WORDS.get(name, f"{name} messages").partition(" ")
    if name not in WORDS:
        head, rest = f"{head} {rest}", ""
    number = "an unknown number of" if amount is None else str(amount)
    return " ".join(filter(None, (number, head.removesuffix("s") if amount == 1 else head, rest)))


def figures_line(kernel: KernelFigures) -> str:
    """The figures of a kernel on one line, without those that are zero."""
    shown = (f for f in kernel.figures if f.amount != 0 or f.name in _SHOWN)
    return ", ".join(figures_words(*figure) for figure in shown)


def covers(name: str, figure: str) -> bool:
    """Whether *name*, in which ``x`` is any digit of a code, is that of a figure."""
    if name == figure or "x" not in name or name in WORDS:
        return name == figure
    return len(name) == len(figure) and all(a in ("x", b) for a, b in zip(name, figure, strict=True))


def _any(patterns: tuple[str, ...], name: str) -> bool:
    return not patterns or any(fnmatchcase(name, glob) for glob in patterns)
