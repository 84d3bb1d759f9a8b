"""Checks of what the .target or the .version of a module does not have: instructions and their modifiers, special
registers, directives and all other features (PTX ISA 11.1.1, 11.1.2, the notes of each)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple

from tclint.checks import Hit, RuleId, grouped, module_check
from tclint.checks._features import feature_uses, special_registers
from tclint.findings.edits import Repair, removed, retarget, reversion
from tclint.findings.finding import Span
from tclint.ir.nodes import Function, Instruction, Module
from tclint.isa.directives import directives
from tclint.isa.special_registers import SPECIAL_REGISTERS
from tclint.isa.table import Match
from tclint.isa.target import INTRODUCED, RENAMED, Availability, Target, Version, dotted

AV001 = RuleId("AV001")
AV002 = RuleId("AV002")


class _Lack(NamedTuple):
    """What a target or a version does not have."""

    kind: str
    """``target`` or ``version``."""
    what: str
    """The feature; empty for the instruction itself."""
    available: Availability


@module_check(AV001, AV002)
def availability(module: Module, toolkit: Version | None) -> Iterator[Hit]:
    """What .target or .version does not have."""
    version, target = module.version, module.target
    if version is None or target is None:
        return
    if version < target.introduced:
        have, need = dotted(version), dotted(target.introduced)
        yield AV002.hit(
            span=module.version_span,
            message=f".version {have} does not have .target {target}, which requires .version {need}",
            help=f"raise .version to {need}", fixes=reversion(module, target.introduced),
        )  # fmt: skip
    moved = cache(partial(_moved, module))
    lacking: dict[int, list[_Lack]] = {}
    for function in module.functions:
        for use in function.uses:
            if use.match is not None and id(use.match) not in lacking:
                lacking[id(use.match)] = _lacking(use.match, target, version)
        yield from _instructions(module, function, target, lacking, moved)
        yield from _special_registers(module, function, target, version)
        yield from _directives(module, function, target, version)
    yield from _features(module, target, version)


def _instructions(
    module: Module,
    function: Function,
    target: Target,
    lacking: dict[int, list[_Lack]],
    moved: Callable[[], tuple[Repair, ...]],
) -> Iterator[Hit]:
    unavailable = (
        (lack, i) for use in function.uses for lack in lacking.get(id(use.match), ()) for i in use.sites
    )
    for lack, sites in grouped(unavailable).items():
        instruction = function.instructions[min(sites)]
        yield _hit(
            module, target, lack, _subject(instruction, lack.what),
            f"use another instruction on {target}", _suffixed(module, target, instruction) or moved(),
            function=function, site=min(sites), count=len(sites),
        )  # fmt: skip


def _special_registers(module: Module, function: Function, target: Target, version: Version) -> Iterator[Hit]:
    absent = _absent(target, version)
    read = ((absent[name], site) for site, _, name in special_registers(function) if name in absent)
    for lack, sites in grouped(read).items():
        yield _hit(
            module, target, lack, lack.what, "do not read it",
            function=function, site=min(sites), count=len(sites),
        )  # fmt: skip


def _directives(module: Module, function: Function, target: Target, version: Version) -> Iterator[Hit]:
    for directive in function.stated:
        spec = directives().get(directive.name)
        if spec is None or ("entry" if function.entry else "func") not in spec.on:
            continue
        lack = _lack(spec.name, spec.available, target, version)
        if lack is not None:
            span = function.start + directive.start, function.start + directive.end
            gone = (Repair(f"remove {directive.name}", (removed(Span(*span)),)),)
            yield _hit(module, target, lack, lack.what, "remove it", gone, function=function, span=span)


def _features(module: Module, target: Target, version: Version) -> Iterator[Hit]:
    unavailable = (
        ((use.function and use.function.name, lack), use)
        for use in feature_uses(module, target)
        if (lack := _lack(use.spec.name, use.spec.available, target, version)) is not None
    )
    for (_, lack), uses in grouped(unavailable).items():
        first, *_ = uses
        yield _hit(
            module, target, lack, lack.what, "do without it",
            function=first.function, span=first.span, count=len(uses),
        )  # fmt: skip


def _hit(
    module: Module,
    target: Target,
    lack: _Lack,
    what: str,
    other: str,
    fixes: tuple[Repair, ...] = (),
    **where: Any,
) -> Hit:
    """The hit for a feature called *what*; *fixes* and *other*, in words, avoid it where the target lacks it."""
    if lack.kind == "target":
        need = lack.available.describe()
        return AV001.hit(
            message=f"{what} is not available on {target}: it requires {need}",
            help=f"compile for {need}, or {other}", fixes=fixes, **where,
        )  # fmt: skip
    assert module.version is not None
    needed = lack.available.version_for(target)
    return AV002.hit(
        message=f"{what} requires .version {dotted(needed)} on {target}; this module has {dotted(module.version)}",
        help=f"raise .version to {dotted(needed)}", fixes=reversion(module, needed), **where,
    )  # fmt: skip


def _lacking(match: Match, target: Target, version: Version) -> list[_Lack]:
    return [_Lack(*lack) for lack in match.missing(target, version)]


def _lack(what: str, available: Availability, target: Target, version: Version) -> _Lack | None:
    """That *target*, or *version* on it, does not have what is *available* elsewhere; None if they do."""
    if not available.on(target, version):
        return _Lack("target", what, available)
    return _Lack("version", what, available) if version < available.version_for(target) else None


@lru_cache(maxsize=64)
def _absent(target: Target, version: Version) -> dict[str, _Lack]:
    """Name -> what is lacking, for each special register that is not available; a component lacks its vector."""
    lacks = (
        (name, _lack(register.vector or name, register.available, target, version))
        for name, register in SPECIAL_REGISTERS.items()
    )
    return {name: lack for name, lack in lacks if lack is not None}


def _suffixed(module: Module, target: Target, instruction: Instruction) -> tuple[Repair, ...]:
    """Repairs that add a suffix to the target, where that provides what is missing; the more portable suffix is
    first."""
    assert instruction.match is not None
    assert module.version is not None
    found: list[Repair] = []
    for suffix in "fa":
        other = Target(target.number, suffix)
        if target.suffix == suffix or str(other) not in INTRODUCED:
            continue
        version = max(module.version, other.introduced)
        lacking = instruction.match.missing(other, version)
        if all(kind == "version" for kind, _, _ in lacking):
            needed = max((a.version_for(other) for _, _, a in lacking), default=version)
            found += retarget(module, other, needed)
    return tuple(found)


def _moved(module: Module) -> tuple[Repair, ...]:
    """The repair that names the oldest target with all instructions of the module; empty if no target has them all."""
    assert module.version is not None
    matches = {id(u.match): u.match for f in module.functions for u in f.uses if u.match is not None}.values()
    targets = (Target.parse(name) for name in INTRODUCED)
    for target in sorted((t for t in targets if t), key=lambda t: (t.number, " fa".index(t.suffix or " "))):
        if target.number in RENAMED:
            continue
        needed = max(module.version, target.introduced)
        for kind, _, available in (lack for match in matches for lack in match.missing(target, needed)):
            if kind == "target":
                break
            needed = max(needed, available.version_for(target))
        else:
            return retarget(module, target, needed)
    return ()


def _subject(instruction: Instruction, what: str) -> str:
    """The name of the instruction, or of its modifier or operand *what*, as a message shows it."""
    root = instruction.opcode.split(".")
    name = ".".join(root[:2]) if len(root) > 1 and not root[1][:1].isdigit() else root[0]
    return f"{what} of {name}" if what else name
