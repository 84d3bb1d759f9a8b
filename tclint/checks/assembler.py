"""Checks of what an assembler rejects: unknown instructions, wrong operands, undefined names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tclint.checks import Hit, Mark, RuleId, grouped, module_check
from tclint.checks._operand_types import OperandTypes
from tclint.checks._wording import in_words
from tclint.findings.edits import Repair
from tclint.findings.edits import opcode as opcode_at
from tclint.findings.finding import Edit
from tclint.findings.scales import Severity
from tclint.findings.spans import Span
from tclint.ir.kept_answers import KeptAnswers
from tclint.ir.nodes import BuildError, FormUse, Function, Immediate, Module
from tclint.ir.operands import shape
from tclint.isa.directives import directives
from tclint.isa.newer import beyond_table
from tclint.isa.table import table
from tclint.isa.target import KNOWN, NEWEST, Version, dotted

if TYPE_CHECKING:
    from tclint.isa.refusals import Refusal, Usage

PX001 = RuleId("PX001")
PX002 = RuleId("PX002")
PX003 = RuleId("PX003")
PX004 = RuleId("PX004")
PX005 = RuleId("PX005")
PX006 = RuleId("PX006")
PX007 = RuleId("PX007")
PX008 = RuleId("PX008")

_RULES_OF_BUILD_ERRORS = {
    "undefined-register": PX005,
    "undefined-guard": PX005,
    "undefined-label": PX006,
    "duplicate-register": PX007,
    "duplicate-name": PX007,
    "duplicate-label": PX007,
    "overflow": PX004,
}


_OLDEST = "the table does not have all spellings that PTX allows for sm_1x"
_NEWER = "the module has a newer version than tclint knows completely"


@module_check(PX001, PX002, PX003, PX004, PX005, PX006, PX007)
def refused(module: Module, toolkit: Version | None) -> Iterator[Hit]:
    """Instructions and names that every assembler rejects."""
    isa = table()
    newer = module.version is not None and module.version > NEWEST
    oldest = module.target is not None and module.target.number < 20
    for function in module.functions:
        if function.damaged:  # no finding about it is shown
            continue
        for opcode, sites in () if beyond_table(module.version) else grouped(_unmatched(function)).items():
            from tclint.isa.refusals import refusal_of  # few kernels need it

            usage = _usage(sites, function, module)
            refused = refusal_of(isa, opcode, usage)
            hint, fixes = _meant(refused, opcode, sites, function, usage)
            yield (PX001 if refused.unknown_instruction else PX002).hit(
                function=function, site=min(sites), count=len(sites), message=refused.message, help=hint, fixes=fixes,
            ).doubted(_OLDEST if oldest else "")  # fmt: skip
        for (opcode, problem), sites in grouped(_wrong(function, module)).items():
            yield PX003.hit(
                function=function, site=min(sites), count=len(sites), message=f"{opcode}: {problem}",
            ).doubted(_NEWER if newer else "")  # fmt: skip
        for (opcode, problem, passed), sites in grouped(_out_of_range(function)).items():
            yield PX004.hit(
                function=function, site=min(sites), count=len(sites), message=f"{opcode}: {problem}",
                severity=Severity.WARNING if passed else None, help="ptxas accepts it" if passed else "",
            )  # fmt: skip
        for error in function.errors:
            refusal = _RULES_OF_BUILD_ERRORS.get(error.kind)
            if refusal is not None:
                span = (function.start + error.start, function.start + error.end)
                uses = (
                    [Mark(site, "used") for site in error.sites] if 1 < len(error.sites) <= _MOST_USES else []
                )
                yield refusal.hit(
                    function=function, span=span, message=error.message, steps=tuple(uses),
                    count=1 if uses else max(len(error.sites), 1), fixes=_declared(function, error),
                )  # fmt: skip


def _declared(function: Function, error: BuildError) -> tuple[Repair, ...]:
    """The repair that raises the count in the declaration of a range of registers, so that it contains one more."""
    if error.declared is None:
        return ()
    start, end, count = error.declared
    change = Edit(Span(function.start + start, function.start + end), str(count))
    return (Repair(f"declare {count} registers", (change,)),)


@module_check(PX008)
def unknown(module: Module, toolkit: Version | None) -> Iterator[Hit]:
    """Report once what a module of a newer version than the ISA table contains and the table does not."""
    if not beyond_table(module.version):
        return
    assert module.version is not None
    found = [(opcode, f, i) for f in module.functions for opcode, i in _unmatched(f)]
    stated = [
        (d.name, f, (f.start + d.start, f.start + d.end))
        for f in module.functions
        for d in f.stated
        if d.name not in directives()
    ]
    names = list(dict.fromkeys([opcode for opcode, _, _ in found] + [name for name, _, _ in stated]))
    if not names:
        message = (
            f"PTX ISA {dotted(module.version)} is newer than what tclint knows completely ({dotted(KNOWN)}), "
            "but everything in this module is known"
        )
        yield PX008.hit(span=module.version_span, message=message)
        return
    message = (
        f"not checked, because PTX ISA {dotted(module.version)} is newer than what tclint knows completely "
        f"({dotted(KNOWN)}): {', '.join(names[:_MOST_NAMES])}"
        + (f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else "")
    )
    if found:
        _, function, site = found[0]
        yield PX008.hit(function=function, site=site, count=len(found) + len(stated), message=message)
    else:
        _, function, span = stated[0]
        yield PX008.hit(function=function, span=span, count=len(stated), message=message)


_MOST_USES = 5
"""Uses of an undeclared name up to which all are shown; beyond that, the first is, and they are counted."""
_MOST_NAMES = 5
"""Names of unknown instructions and directives that a message lists."""


def _unmatched(function: Function) -> Iterator[tuple[str, int]]:
    """The opcode and the instruction, for each instruction without a form."""
    return ((use.opcode, i) for use in function.uses if use.match is None for i in use.sites)


def _wrong(function: Function, module: Module) -> Iterator[tuple[tuple[str, str], int]]:
    """(opcode, what is wrong with its operands) and the instruction, for each known opcode with wrong operands."""
    undeclared = {error.start for error in function.errors}
    types = OperandTypes(function, module)
    answers: KeptAnswers[str] = KeptAnswers(function, "misfits", types.facts)
    for i, problem in types.guards():
        yield (function.instructions[i].opcode, problem), i
    for use in function.uses:
        match = use.match
        if match is not None and match.problem:
            for i in use.sites:
                # An undeclared name is not a register either, but PX005 to PX007 report it.
                if function.instructions[i].start not in undeclared:
                    yield (use.opcode, match.problem), i
        elif match is not None:
            called = match.form.flow == "call"  # what it may pass depends on other functions
            misfits = types.misfits
            for i, problem in misfits(use, match) if called else answers.about(use, misfits, use, match):
                yield (use.opcode, problem), i


def _out_of_range(function: Function) -> Iterator[tuple[tuple[str, str, bool], int]]:
    """(opcode, what is wrong, whether ptxas accepts it) and the instruction, for each immediate outside the range of its
    operand."""
    for use in function.uses:
        match = use.match
        for at, name, spec in () if match is None or match.problem else match.limited:
            for i in use.sites:
                operand = function.instructions[i].operands[at]
                if not isinstance(operand, Immediate) or not isinstance(operand.value, int):
                    break  # at all sites of a use this operand has the same kind
                if match is not None and spec.immediates is not None and not spec.allows(operand.value):
                    words = match.form.operand_words(name, at)
                    problem = f"{words} is {operand.value}, but must be {in_words(spec.immediates)}"
                    yield (use.opcode, problem, any(operand.value in r for r in spec.passed)), i


def _usage(sites: list[int], function: Function, module: Module) -> Usage:
    """What the target of the *module* has, and what takes the operands of the instructions at *sites*."""
    from tclint.isa.refusals import Usage  # few kernels need it

    types = OperandTypes(function, module)
    alike = grouped((tuple(map(shape, function.instructions[site].operands)), site) for site in sites)
    target, version = module.target, module.version

    def has(opcode: str) -> bool:
        found = table().candidates(opcode)
        if target is None or version is None:
            return bool(found)
        return any(
            not any(each.lacking(target, version) for _, each in form.availability(binding.values()))
            for form, _, binding in found
        )

    def takes(opcode: str) -> bool:
        for shapes, same in alike.items():
            match = table().match(opcode, shapes)
            if match is None or match.problem:
                return False
            use = FormUse(opcode, match, (), (), False, False)
            use.sites = same
            if any(types.misfits(use, match)):
                return False
        return has(opcode)

    return Usage(has, takes)


def _meant(
    refused: Refusal, opcode: str, sites: list[int], function: Function, usage: Usage
) -> tuple[str, tuple[Repair, ...]]:
    """The help for an opcode, and the repair that writes what was meant: its modifiers in order, or the only word a letter
    away that accepts such operands.

    If there are several, or the nearest word is further away, it may compute something else.
    """
    words = opcode.split(".")
    at = words.index(refused.wrong.removeprefix(".")) if refused.similar else 0
    spelled = {
        word: ".".join((*words[:at], word.removeprefix("."), *words[at + 1 :])) for word in refused.similar
    }
    fitting = [word for word, new in spelled.items() if usage.takes(new)]
    if len(fitting) == 1 and refused.near:
        hint, new = f"did you mean {fitting[0]}?", spelled[fitting[0]]
    elif refused.reordered and usage.takes(refused.reordered):
        hint, new = refused.help, refused.reordered
    else:
        return refused.help, ()
    return hint, (Repair(f"write {new}", tuple(opcode_at(site, new, function) for site in sites)),)
