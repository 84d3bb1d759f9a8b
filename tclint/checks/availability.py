"""Checks of what the .target or the .version of a module does not have: instructions and their modifiers, special
registers, directives and all other features (PTX ISA 11.1.1, 11.1.2, the notes of each)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cache, partial
from typing import Any

from tclint.checks import Hit, RuleId, grouped, module_check
from tclint.findings.edits import Repair, removed, retarget, reversion
from tclint.findings.spans import Span
from tclint.ir.needs import Need, first_version, instruction_needs, name_of, needs
from tclint.ir.nodes import Instruction, Module
from tclint.isa.table import table
from tclint.isa.target import INTRODUCED, TARGETS, Availability, Target, Version, dotted

AV001 = RuleId("AV001")
AV002 = RuleId("AV002")


@module_check(AV001, AV002)
def availability(module: Module, toolkit: Version | None) -> Iterator[Hit]:
    """What .target or .version does not have."""
    version, target = module.version, module.target
    if version is None or target is None:
        return
    if version < target.introduced and (module.functions or module.variables):  # ptxas takes an empty module
        have, need = dotted(version), dotted(target.introduced)
        wanted = [need for need in needs(module, target) if need.available.on(target)]
        enough = first_version(wanted, target) or target.introduced
        more = ", which has everything that this module uses" if enough > target.introduced else ""
        yield AV002.hit(
            span=module.version_span,
            message=f".version {have} does not have .target {target}, which requires .version {need}",
            help=f"raise .version to {dotted(enough)}{more}", fixes=reversion(module, enough),
        )  # fmt: skip
    moved = cache(partial(_moved, module))
    for lacking in grouped(_lacking(module, target, version)).values():
        yield _reported(module, target, lacking, moved)


def _lacking(module: Module, target: Target, version: Version) -> Iterator[tuple[Hashable, Need]]:
    """Each feature that *target* or *version* does not have, with what one hit is about. Of an instruction that *target*
    does not have at all, no part is reported: what the most demanding part requires is what the instruction requires."""
    missed = [need for need in needs(module, target) if need.available.lacking(target, version)]
    whole: dict[tuple[int, int], Availability] = {}
    for need in missed:
        if need.kind == "instruction" and not need.what and not need.available.on(target):
            whole |= {(id(need.function), site): need.available for site in need.sites}
    for need in missed if whole else ():
        for key in {(id(need.function), site) for site in need.sites} & whole.keys():
            whole[key] = max(whole[key], need.available, key=_oldest)
    for need in missed:
        wanted = whole.get((id(need.function), need.sites[0])) if need.sites else None
        if wanted is not None and not need.available.on(target):
            if need.what:
                continue
            need = need._replace(available=wanted)
        apart = need.span if need.kind == "directive" else None
        yield (need.function and id(need.function), need.kind, need.what, need.available, apart), need


def _oldest(available: Availability) -> int:
    """The place of the oldest target that has a feature among all targets."""
    return next((i for i, target in enumerate(TARGETS) if available.on(target)), len(TARGETS))


def _reported(
    module: Module,
    target: Target,
    lacking: Sequence[Need],
    moved: Callable[[], tuple[Repair, ...]],
) -> Hit:
    """The hit for all uses of a feature in a function."""
    first, function = lacking[0], lacking[0].function
    sites = [site for need in lacking for site in need.sites]
    fixes: tuple[Repair, ...] = ()
    if function is None or not sites:
        if first.kind == "directive":
            fixes = (Repair(f"remove {first.what}", (removed(Span(*first.span)),)),)
        other = "remove it" if fixes else "do without it"
        where: dict[str, Any] = {"span": first.span, "count": len(lacking)}
        return _hit(module, target, first, first.what, other, fixes, function=function, **where)
    where = {"site": min(sites), "count": len(sites)}
    if first.kind == "register":
        return _hit(module, target, first, first.what, "do not read it", function=function, **where)
    instruction = function.instructions[min(sites)]
    what, other = (
        _named(instruction, first.what, target, module.version),
        _instead(instruction, first.what, target),
    )
    wanted = instruction_needs(function, instruction)
    fixes = _suffixed(module, target, wanted) or moved()
    return _hit(module, target, first, what, other, fixes, function=function, **where)


def _named(instruction: Instruction, what: str, target: Target, version: Version | None) -> str:
    """The name of an instruction that *target* or *version* lacks, or of *what* it lacks of it. It has as many words of the
    opcode as no other instruction has that they have."""
    name, match = name_of(instruction, what), instruction.match
    if what or match is None or version is None:
        return name
    available = [
        syntax.accepts
        for form, syntax in table().roots[match.syntax.root]
        if form is not match.form and not form.available.lacking(target, version)
    ]
    for end in range(name.count("."), len(match.modifiers)):
        named = match.modifiers[:end]
        if not any(accepts.issuperset(named) for accepts in available):
            return "".join((match.syntax.root, *named))
    forms = (form for form, *_ in table().candidates(instruction.opcode))
    if any(form is not match.form and not form.available.lacking(target, version) for form in forms):
        return f"{instruction.opcode} with {len(instruction.operands)} operands"
    return instruction.opcode


def _instead(instruction: Instruction, what: str, target: Target) -> str:
    """What to do on *target* instead of an instruction, of which it lacks *what*, or all if that is empty; empty if the
    table has no advice."""
    match = instruction.match
    advice = match.form.replacement(match.modifiers, what.split(), target) if match is not None else ""
    return f"on {target} {advice}" if advice else ""


def _hit(
    module: Module,
    target: Target,
    lacking: Need,
    what: str,
    other: str,
    fixes: tuple[Repair, ...] = (),
    **where: Any,
) -> Hit:
    """The hit for a feature called *what*; *fixes* and *other*, in words, avoid it where the target lacks it."""
    assert module.version is not None
    if lacking.available.lacking(target, module.version) == "target":
        if (removed := lacking.available.removed(target)) is not None:
            message = f"{what} is not available on {target}: .version {dotted(removed)} removed it"
            return AV001.hit(message=message, help=other, **where)
        need = lacking.available.describe()
        return AV001.hit(
            message=f"{what} is not available on {target}: it requires {need}",
            help=f"compile for {'one of these' if ',' in need else need}" + (f", or {other}" if other else ""),
            fixes=fixes, **where,
        )  # fmt: skip
    needed = lacking.available.version_for(target)
    return AV002.hit(
        message=f"{what} requires .version {dotted(needed)} on {target}; this module has {dotted(module.version)}",
        help=f"raise .version to {dotted(needed)}", fixes=reversion(module, needed), **where,
    )  # fmt: skip


def _suffixed(
    module: Module, target: Target, wanted: Sequence[tuple[str, Availability]]
) -> tuple[Repair, ...]:
    """Repairs that add a suffix to the target, where that provides all that an instruction uses; the more portable suffix
    is first."""
    assert module.version is not None
    found: list[Repair] = []
    for suffix in "fa":
        other = Target(target.number, suffix)
        if target.suffix == suffix or str(other) not in INTRODUCED:
            continue
        version = max(module.version, other.introduced)
        lacking = [available for _, available in wanted if available.lacking(other, version)]
        if all(available.on(other, version) for available in lacking):
            needed = max((available.version_for(other) for available in lacking), default=version)
            found += retarget(module, other, needed)
    return tuple(found)


def _moved(module: Module) -> tuple[Repair, ...]:
    """The repair that names the oldest target with all that the module uses; empty if no target has it all."""
    assert module.version is not None
    wanted = list({(need.what, need.available): need for need in needs(module, module.target)}.values())
    for target in TARGETS:
        version = first_version(wanted, target, module.version)
        if version is not None:
            return retarget(module, target, version)
    return ()
