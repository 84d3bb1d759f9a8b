"""Targets and versions: the features available under each ``.target``, and from which ``.version`` on.

PTX ISA 11.1.1 (``.version``) and 11.1.2 (``.target``). A plain target has the features of every plain target with a
smaller number; ``sm_XXf`` adds the features common to its family from XX upwards; ``sm_XXa`` adds those that only
architecture XX has.
"""

from __future__ import annotations

import re
from functools import lru_cache

from tclint._dataclass import dataclass

__all__ = [
    "FAMILIES",
    "INTRODUCED",
    "KNOWN",
    "MAX_REGISTERS_PER_THREAD",
    "NEWEST",
    "PARTITIONS_PER_SM",
    "REGISTERS_PER_SM",
    "RELEASED",
    "RENAMED",
    "TARGETS",
    "TOOLKITS",
    "Availability",
    "Target",
    "Version",
    "allocated_registers",
    "dotted",
    "exists",
    "parse_version",
    "tensor_columns",
    "toolkit_for",
]

Version = tuple[int, int]

RELEASED: tuple[Version, ...] = tuple(
    (major, minor)
    for major, last in ((1, 5), (2, 3), (3, 2), (4, 3), (5, 0), (6, 5), (7, 8), (8, 8), (9, 5))
    for minor in range(last + 1)
)
"""Every ``.version`` (section 13, release notes; the last ones as ptxas 13.5 takes them)."""

INTRODUCED: dict[str, Version] = {
    name: version
    for names, version in (
        ("sm_10 sm_11", (1, 0)), ("sm_12 sm_13", (1, 2)), ("sm_20", (2, 0)), ("sm_30", (3, 0)),
        ("sm_35", (3, 1)), ("sm_32 sm_50", (4, 0)), ("sm_37 sm_52", (4, 1)), ("sm_53", (4, 2)),
        ("sm_60 sm_61 sm_62", (5, 0)), ("sm_70", (6, 0)), ("sm_72", (6, 1)), ("sm_75", (6, 3)),
        ("sm_80", (7, 0)), ("sm_86", (7, 1)), ("sm_87", (7, 4)), ("sm_89 sm_90", (7, 8)),
        ("sm_90a", (8, 0)), ("sm_100 sm_100a sm_101 sm_101a", (8, 6)), ("sm_120 sm_120a", (8, 7)),
        ("sm_100f sm_101f sm_103 sm_103a sm_103f sm_120f sm_121 sm_121a sm_121f", (8, 8)),
        ("sm_88 sm_110 sm_110a sm_110f", (9, 0)), ("sm_107 sm_107a sm_107f", (9, 4)),
    )
    for name in names.split()
}  # fmt: skip
"""Target -> the ``.version`` that introduced it (11.1.2; for 9.4, as ptxas 13.5 behaves)."""

FAMILIES: tuple[frozenset[int], ...] = (
    frozenset((100, 103, 107)), frozenset((101, 110)), frozenset((120, 121)),
)  # fmt: skip
"""The target numbers of each family (11.1.2)."""

RENAMED = {101: 110}
"""Target number -> the number that PTX ISA 9.0 replaced it with (13.2)."""

REGISTERS_PER_SM = 65536
"""32-bit registers of an SM, on every target that has ``setmaxnreg``."""

PARTITIONS_PER_SM = 4
"""The parts of an SM among which its registers and the warps of a CTA are divided."""

MAX_REGISTERS_PER_THREAD = 255
"""32-bit registers that code can name in a thread, on every target since ``sm_35``."""

_REGISTERS_PER_ALLOCATION = 8
"""The hardware allots the registers of a thread in units of this (``setmaxnreg`` takes multiples of it, 9.7.19.5)."""

_TENSOR_COLUMNS, _MOST_TENSOR_COLUMNS = {107: 576}, 1 << 16
"""Target number -> the columns of its tensor memory, if they are not 512; the number that an address can name."""

TOOLKITS: dict[Version, Version] = {
    (9, 0): (6, 0), (9, 1): (6, 1), (9, 2): (6, 2), (10, 0): (6, 3), (10, 1): (6, 4), (10, 2): (6, 5),
    (11, 0): (7, 0), (11, 1): (7, 1), (11, 2): (7, 2), (11, 3): (7, 3), (11, 4): (7, 4), (11, 5): (7, 5),
    (11, 6): (7, 6), (11, 7): (7, 7), (11, 8): (7, 8), (12, 0): (8, 0), (12, 1): (8, 1), (12, 2): (8, 2),
    (12, 3): (8, 3), (12, 4): (8, 4), (12, 5): (8, 5), (12, 6): (8, 5), (12, 7): (8, 6), (12, 8): (8, 7),
    (12, 9): (8, 8), (13, 0): (9, 0), (13, 1): (9, 1), (13, 2): (9, 2), (13, 3): (9, 3), (13, 4): (9, 4),
    (13, 5): (9, 5),
}  # fmt: skip
"""CUDA toolkit -> the newest ``.version`` that its ptxas accepts.

According to the release history in section 13; from 12.0 on according to the error message of ptxas for a version that
is too new, except for 12.7, for which no package exists.
"""

_TARGET = re.compile(r"(?:sm|compute)_(\d{1,9})([af]?)$")


def allocated_registers(used: int) -> int:
    """The registers that a thread holds which *used* of them are compiled for: 256 for 255 (seen on an H100)."""
    return -(-used // _REGISTERS_PER_ALLOCATION) * _REGISTERS_PER_ALLOCATION


def parse_version(text: str) -> Version:
    """``"8.6"`` as ``(8, 6)``. Raises ValueError for anything else."""
    major, dot, minor = text.partition(".")
    if not dot:
        raise ValueError(f"not a version: {text!r}")
    return int(major), int(minor)


def dotted(version: Version) -> str:
    """``(8, 6)`` as it is written: ``8.6``."""
    return f"{version[0]}.{version[1]}"


def exists(version: Version) -> bool:
    """Whether there is a ``.version`` *version*, or one may well follow: after the newest, of its major number or of the next.

    ptxas 13.5 counts the minor number in 32 bits, and takes some of two digits that no toolkit announced.
    """
    major, minor = version[0], version[1] & 0xFFFFFFFF
    if (major, minor) > NEWEST:
        return major <= NEWEST[0] + 1 and minor < _TWO_DIGITS
    return minor >= _TWO_DIGITS or (major, minor) in RELEASED


_TWO_DIGITS = 10
"""The first minor number that no announced ``.version`` has."""


def toolkit_for(version: Version) -> Version | None:
    """The first toolkit whose ptxas accepts ``.version`` *version*; None if none does."""
    return min((toolkit for toolkit, newest in TOOLKITS.items() if newest >= version), default=None)


@dataclass(frozen=True, slots=True)
class Target:
    """One target: ``sm_100a`` is number 100, suffix ``a``."""

    number: int
    suffix: str

    @classmethod
    def parse(cls, text: str) -> Target | None:
        """The target named *text* (``sm_90a``, ``compute_90a``); None if no such target exists."""
        match = _TARGET.match(text)
        if not match:
            return None
        target = cls(int(match[1]), match[2])
        return target if str(target) in INTRODUCED else None

    def __str__(self) -> str:
        return f"sm_{self.number}{self.suffix}"

    def extends(self, other: Target) -> bool:
        """Whether this target has every feature of *other* (11.1.2)."""
        if other.suffix == "":
            return self.number >= other.number
        if other.suffix == "a":
            return self == other
        family = next((f for f in FAMILIES if other.number in f), frozenset((other.number,)))
        return self.number in family and self.number >= other.number and self.suffix != ""

    @property
    def introduced(self) -> Version:
        return INTRODUCED[str(self)]

    @property
    def documented(self) -> bool:
        """Whether the manual documents every bit of a descriptor that the target defines."""
        return self.introduced <= _DOCUMENTED


TARGETS = tuple(
    sorted(
        (t for t in map(Target.parse, INTRODUCED) if t and t.number not in RENAMED),
        key=lambda t: (t.number, " fa".index(t.suffix or " ")),
    )
)
"""All targets that are not renamed; of those with one number, the more portable first."""


def tensor_columns(target: Target | None) -> int:
    """The columns of tensor memory (9.7.16.1); for a target that does not exist yet, all that an address can name."""
    if target is None:
        return _MOST_TENSOR_COLUMNS
    return _TENSOR_COLUMNS.get(target.number, 512)


@dataclass(frozen=True, slots=True)
class _Pattern:
    least: Target
    upwards: bool
    since: Version
    until: Version
    """The first version that no longer allows it on these targets."""

    def covers(self, target: Target) -> bool:
        return (
            target.extends(self.least) if self.upwards or self.least.suffix == "f" else target == self.least
        )


_PATTERN = re.compile(r"sm_(\d+)([af]?)(\+?)(?:@(\d+\.\d+))?(?:<(\d+\.\d+))?$")
_NEVER: Version = (1 << 31, 0)


@dataclass(frozen=True, slots=True)
class Availability:
    """The ``.version`` from which a feature may be used, and the targets under which it may.

    The text of ``targets`` is a list of ``sm_90+`` (this or any higher number), ``sm_100a`` (exactly this) and
    ``sm_100f+`` (its family from 100 up, suffix f or a), each with an optional ``@8.8``, the first version that allows
    it there, and ``<6.4``, the first that no longer does. Without patterns, every target is allowed.
    """

    since: Version
    patterns: tuple[_Pattern, ...] = ()

    @classmethod
    @lru_cache(maxsize=4096)
    def parse(cls, since: str, targets: str = "") -> Availability:
        """The availability that the two texts describe. Raises ValueError if either is malformed."""
        patterns = []
        for word in targets.replace(",", " ").split():
            match = _PATTERN.match(word)
            if not match:
                raise ValueError(f"not a target pattern: {word!r}")
            patterns.append(
                _Pattern(
                    Target(int(match[1]), match[2]),
                    bool(match[3]),
                    parse_version(match[4]) if match[4] else (0, 0),
                    parse_version(match[5]) if match[5] else _NEVER,
                )
            )
        return cls(parse_version(since), tuple(patterns))

    def on(self, target: Target, version: Version = (0, 0)) -> bool:
        """Whether *target* has the feature in *version* or a later one."""
        return not self.patterns or any(p.covers(target) and version < p.until for p in self.patterns)

    def version_for(self, target: Target) -> Version:
        """The first ``.version`` that allows the feature under *target*, which must have it."""
        first = min((p.since for p in self.patterns if p.covers(target)), default=(0, 0))
        return max(self.since, first)

    def removed(self, target: Target) -> Version | None:
        """The first ``.version`` that no longer allows the feature under *target*; None if every later one does."""
        until = max((p.until for p in self.patterns if p.covers(target)), default=_NEVER)
        return until if until < _NEVER else None

    def lacking(self, target: Target, version: Version) -> str:
        """What does not have the feature: ``target``, or the ``version`` on that target; empty if both have it."""
        if not self.on(target, version):
            return "target"
        return "version" if version < self.version_for(target) else ""

    def describe(self) -> str:
        """The targets as a message names them: ``sm_90 or higher``."""
        words, families = [], []
        for p in self.patterns:
            name = str(p.least)
            before = f" before PTX ISA {dotted(p.until)}" if p.until < _NEVER else ""
            if p.least.suffix == "f":
                families.append(name)
            else:
                words.append((f"{name} or higher" if p.upwards else name) + before)
        names = ", ".join(dict.fromkeys((*words, *families)))
        later = f" or a later target of {'its family' if len({*families}) == 1 else 'their families'}"
        return names + later * bool(families) or "any target"


NEWEST = RELEASED[-1]
"""The newest .version that the ISA table was checked against (ptxas 13.5)."""

KNOWN: Version = (9, 5)
"""The newest .version all of whose instructions, modifiers and directives are in the ISA table.

What it lacks in a module of a later version is unknown, and not wrong.
"""

_DOCUMENTED: Version = (9, 2)
"""The newest .version whose targets have descriptors that the manual describes."""
