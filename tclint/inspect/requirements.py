"""What the kernels of a module require: the least targets and versions, what decides each, and what is not implemented.

All of it follows from the table of the ISA (:mod:`tclint.ir.needs`), as the checks of availability do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from tclint._dataclass import dataclass
from tclint.ir.feature_uses import operands_of
from tclint.ir.needs import Need, first_version, name_of, needs
from tclint.ir.nodes import Function, Module, Symbol
from tclint.isa.target import TARGETS, Availability, Target, Version

__all__ = ["FirstUse", "Lowered", "Minimum", "Requirements", "required"]

_OLDEST, _FIRST = 20, (2, 0)
"""The number of the oldest target, and the oldest version, for which the table is known to be right."""
_TARGETS = tuple(target for target in TARGETS if target.number >= _OLDEST)

Line = Callable[[int], int]
"""The line of a byte of the module."""


@dataclass(frozen=True, slots=True)
class FirstUse:
    """A feature, and the line of its first use."""

    what: str
    line: int


@dataclass(frozen=True, slots=True)
class Minimum:
    """A target such that no other one with fewer features needs as low a version."""

    target: Target
    version: Version
    target_because: tuple[FirstUse, ...]
    """What the targets with fewer features lack."""
    version_because: tuple[FirstUse, ...]
    """What an older version lacks on this target; empty if that is the target itself."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """An instruction that some targets accept and execute differently."""

    what: str
    line: int
    to: str
    """One of ``LOWERINGS``, or ``slow``: available and slow, as the manual states."""
    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class Requirements:
    """What a kernel, a function or a whole module requires."""

    versions: Mapping[Target, Version]
    """Each target that has everything -> the first ``.version`` that does."""
    minimal: tuple[Minimum, ...]
    conflicts: tuple[FirstUse, ...]
    """What excludes every target, if no target has everything."""
    lowered: tuple[Lowered, ...]
    unknown: tuple[FirstUse, ...]
    """Instructions that the table does not know, which may require more."""


def required(module: Module, function: Function | None, line: Line) -> Requirements:
    """What *function* and all that it may call require of *module*; with None, what the whole module requires.

    *module* must have been built for an old version, since what all modules of its version have is left out of it.
    """
    bodies = module.functions if function is None else _reached(module, function)
    chosen = {id(body) for body in bodies}
    every = [need for need in needs(module, None) if need.function is None or id(need.function) in chosen]
    wanted = list({(n.kind, n.what, n.available, n.until, n.refused): n for n in reversed(every)}.values())
    wanted.sort(key=lambda need: need.span)
    found = {target: first_version(wanted, target, _FIRST) for target in _TARGETS}
    versions = {target: version for target, version in found.items() if version is not None}

    def uses(some: Iterable[Need]) -> tuple[FirstUse, ...]:
        return tuple(dict.fromkeys(FirstUse(_named(need), line(need.span[0])) for need in some))

    return Requirements(
        versions,
        tuple(
            Minimum(
                target,
                versions[target],
                uses(_restricting(wanted, target)),
                uses(n for n in wanted if n.available.version_for(target) == versions[target]),
            )
            for target in _least(versions)
        ),
        () if versions else uses(_conflicting(wanted)),
        tuple(_lowered(bodies, versions, line)),
        tuple(_unknown(bodies, line)),
    )


def _named(need: Need) -> str:
    if need.kind != "instruction" or need.function is None:
        return need.what
    return name_of(need.function.instructions[need.sites[0]], need.what)


def _reached(module: Module, function: Function) -> list[Function]:
    """*function* and all functions that it names, or those name in turn.

    A call through a register may also reach the functions whose addresses are in initial values of variables.
    """
    by_name: dict[str, list[Function]] = {}
    for other in module.functions:
        by_name.setdefault(other.name, []).append(other)
    stored = [name for name in by_name if any(name in v.initial for v in module.variables.values())]
    reached = {id(function): function}
    work = [function]
    while work:
        body = work.pop()
        names = {symbol.name for _, symbol in operands_of(body, Symbol)}
        if any(body.instructions[use.sites[0]].flow == "call" for use in body.uses if use.sites):
            names.update(stored)
        for other in (other for name in names for other in by_name.get(name, ())):
            if id(other) not in reached:
                reached[id(other)] = other
                work.append(other)
    return list(reached.values())


def _least(versions: Mapping[Target, Version]) -> list[Target]:
    """The targets without another one that has fewer features and needs no later version."""
    return [
        target
        for target, version in versions.items()
        if not any(
            other != target and target.extends(other) and lower <= version
            for other, lower in versions.items()
        )
    ]


@lru_cache(maxsize=4096)
def _least_with(available: Availability) -> frozenset[Target]:
    """The least targets for code that uses this one feature."""
    versions = {
        target: max(_FIRST, target.introduced, available.version_for(target))
        for target in _TARGETS
        if available.on(target)
    }
    return frozenset(_least(versions))


def _restricting(wanted: Sequence[Need], target: Target) -> list[Need]:
    """Why no target with fewer features than *target* will do: what alone requires it, or else what does together."""
    if target == _TARGETS[0]:
        return []
    alone = [need for need in wanted if target in _least_with(need.available)]
    return alone or [need for need in wanted if not _needed_without(wanted, need, target)]


def _needed_without(wanted: Sequence[Need], left_out: Need, target: Target) -> bool:
    """Whether *target* is still one of the least if nothing with the availability of *left_out* is used."""
    rest = [need for need in wanted if need.available != left_out.available]
    found = {other: first_version(rest, other, _FIRST) for other in _TARGETS}
    return target in _least({other: version for other, version in found.items() if version is not None})


def _conflicting(wanted: Sequence[Need]) -> list[Need]:
    """What some other feature excludes, or every version; all if no two suffice."""
    alone = [need for need in wanted if all(first_version([need], target) is None for target in _TARGETS)]
    if alone:
        return alone
    pairs = [need for need in wanted if any(_excluded(need, other) for other in wanted)]
    return pairs or [need for need in wanted if need.available.patterns or need.until]


def _excluded(need: Need, other: Need) -> bool:
    return all(first_version((need, other), target) is None for target in _TARGETS)


def _lowered(bodies: Iterable[Function], allowed: Collection[Target], line: Line) -> Iterator[Lowered]:
    """What the *allowed* targets accept and do not implement, each with the first line."""
    found: dict[tuple[str, str, tuple[Target, ...]], int] = {}
    for body in bodies:
        for use in body.uses:
            if use.match is None or not (use.match.form.lowered or use.match.form.optimized):
                continue
            first = body.instructions[use.sites[0]]
            kinds: dict[tuple[str, str], list[Target]] = {}
            for target in allowed:
                to, what = use.match.lowered(target) or ("slow" if use.match.slower(target) else "", "")
                if to:
                    kinds.setdefault((name_of(first, what), to), []).append(target)
            for (what, to), targets in kinds.items():
                found.setdefault((what, to, tuple(targets)), line(body.start + first.start))
    return (Lowered(what, at, to, targets) for (what, to, targets), at in found.items())


def _unknown(bodies: Iterable[Function], line: Line) -> Iterator[FirstUse]:
    for body in bodies:
        for use in body.uses:
            if use.match is None and use.sites:
                yield FirstUse(use.opcode, line(body.start + body.instructions[use.sites[0]].start))
