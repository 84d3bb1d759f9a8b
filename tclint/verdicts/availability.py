"""Availability: the version and the target of the module have all that a kernel and the functions that it calls use."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tclint.analyses.gaps import damage
from tclint.analyses.model import KernelModel
from tclint.checks import module_checks
from tclint.findings.rules import all_rules
from tclint.findings.spans import Span, span
from tclint.findings.verdicts import Assumption, Discharge, HazardClass, Obligation, Reason
from tclint.ir.inline import reached
from tclint.ir.needs import needs
from tclint.ir.nodes import Function, Module, specials
from tclint.isa.directives import directives
from tclint.isa.special_registers import SPECIAL_REGISTERS
from tclint.isa.target import NEWEST, RELEASED, Availability, Target, Version, dotted
from tclint.verdicts.outcome import Outcome

__all__ = ["available"]


def available(model: KernelModel, assume: frozenset[Assumption]) -> Outcome:
    """Each feature that the kernel uses is one obligation, which the tables of the ISA decide."""
    module, version, target = model.module, model.module.version, model.module.target
    if version is None or target is None:
        return Outcome(reasons=(Reason(None, "the module names no version or no target that is known"),))
    if version not in RELEASED:
        unknown = f".version {dotted(version)} is not among those that are known, of which {dotted(NEWEST)} is the newest"
        return Outcome(reasons=(Reason(None, unknown),))
    functions = _functions(model)
    obligations = [_introduced(module, version, target)]
    listed: set[tuple[str, str, Availability]] = set()
    for need in needs(module, target):
        if need.function is None or need.function.name in functions:
            discharge = Discharge.TABLE if need.allows(target, version) else None
            why = "" if discharge else f"{need.what or 'the instruction'} is not available"
            what = f"{need.kind} {need.what}".strip() + " is available"
            obligations.append(Obligation(Span(*need.span), None, what, discharge, why=why))
            if discharge:
                listed.add((need.kind, need.what, need.available))
    reasons = [Reason(o.operation, o.why) for o in obligations if o.discharge is None]
    for function in functions.values():
        reasons += _unlisted(function, version, target, listed)
    reasons += (Reason(Span(e.start, e.end), e.message) for e in module.errors)
    reasons += _rejected(model, functions)
    return Outcome(tuple(obligations), tuple(reasons))


def _functions(model: KernelModel) -> dict[str, Function]:
    """The kernel and the functions of the module that it may call, by name, as they are written."""
    written = model.module.function(model.function.name) or model.function
    functions = (written, *reached(written, model.module))
    return {function.name: function for function in functions}


def _rejected(model: KernelModel, functions: Collection[str]) -> Iterator[Reason]:
    """What the rules about availability find in the kernel besides: operands and directives that do not fit."""
    rules = all_rules()
    for check in module_checks():
        about = [rule for rule in check.rules if HazardClass.AVAILABILITY.value in rules[rule].hazards]
        for hit in check.run(model.module, model.toolkit) if about else ():
            where = hit.function
            if hit.rule in about and (where is None or where.name in functions):
                at = span(where, hit.site) if where is not None and hit.site >= 0 else None
                yield Reason(at, hit.message)


def _introduced(module: Module, version: Version, target: Target) -> Obligation:
    discharge = Discharge.TABLE if version >= target.introduced else None
    why = "" if discharge else f".target {target} requires .version {dotted(target.introduced)}"
    return Obligation(Span(*module.target_span), None, f"the version has {target}", discharge, why=why)


# ---------------------------------------------------------------- the checker


def _unlisted(
    function: Function, version: Version, target: Target, listed: set[tuple[str, str, Availability]]
) -> Iterator[Reason]:
    """What *function* uses and the list of what is available lacks: unknown instructions, registers, directives.

    This is the checker of the list. It walks over all instructions and asks the table about each, and does not use
    what made the list.
    """
    yield from damage(function)
    for site, instruction in enumerate(function.instructions):
        match = instruction.match
        if match is None or match.problem:
            yield Reason(span(function, site), f"{instruction.opcode} with these operands is not known")
            continue
        used = [("instruction", what, available) for what, available in match.needs]
        for name in [each.name for each in specials(instruction.operands)]:
            register = SPECIAL_REGISTERS.get(name)
            if register is None:
                yield Reason(span(function, site), f"the special register {name} is not known")
            else:
                used.append(("register", register.vector or name, register.available))
        for each in used:
            if each not in listed or each[2].lacking(target, version):
                yield Reason(
                    span(function, site), f"nothing shows that {each[1] or instruction.opcode} is available"
                )
    for directive in function.stated:
        if directive.name not in directives():
            at = Span(function.start + directive.start, function.start + directive.end)
            yield Reason(at, f"the directive {directive.name} is not known")
