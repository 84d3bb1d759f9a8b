"""Check of directives of kernels and functions that conflict, are invalid or have no effect (PTX ISA 11.4, 11.7,
11.8)."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from tclint._named_tuple import NamedTuple
from tclint.checks import Hit, RuleId, module_check
from tclint.findings.edits import Repair, removed
from tclint.findings.finding import Edit
from tclint.findings.scales import Severity
from tclint.findings.spans import Span
from tclint.ir.nodes import Directive, Function, Module
from tclint.isa.directives import DirectiveSpec, directives
from tclint.isa.newer import beyond_table
from tclint.isa.target import Version, dotted

AV005 = RuleId("AV005")

_KINDS = {"entry": ".entry", "func": ".func"}


@module_check(AV005)
def conflicts(module: Module, toolkit: Version | None) -> Iterator[Hit]:
    """Directives of functions that ptxas rejects, that no launch can satisfy, or that have no effect."""
    for function in module.functions:
        seen: dict[str, Directive] = {}
        for directive in function.stated:
            if directive.name not in directives() and beyond_table(module.version):
                continue  # PX008
            for message, remedy, severity, fixes in _wrong(directive, function, module, seen):
                yield AV005.hit(
                    function=function,
                    span=(function.start + directive.start, function.start + directive.end),
                    message=message,
                    help=remedy,
                    fixes=fixes,
                    severity=severity,
                )
            seen[directive.name] = directive


class DirectiveProblem(NamedTuple):
    """What is wrong with a directive, and how to fix it."""

    message: str
    remedy: str
    severity: Severity
    """ERROR if ptxas rejects the directive, else WARNING."""
    fixes: tuple[Repair, ...] = ()


def _wrong(
    directive: Directive,
    function: Function,
    module: Module,
    seen: dict[str, Directive],
) -> Iterator[DirectiveProblem]:
    name = directive.name
    spec = directives().get(name)
    if spec is None:
        from difflib import get_close_matches

        near = get_close_matches(name, directives(), n=1)
        span = _span(function, directive)
        name_span = Span(span.start, span.start + len(name))
        fixes = (
            (Repair(f"write {near[0]}", (Edit(name_span, near[0]),)),) if near else _gone(function, directive)
        )
        remedy = f"did you mean {near[0]}?" if near else "remove it"
        yield DirectiveProblem(f"unknown directive {name}", remedy, Severity.ERROR, fixes)
        return
    kind = "entry" if function.entry else "func"
    if kind not in spec.on:
        (allowed,) = spec.on
        message = f"{name} is a directive of {_KINDS[allowed]}, not of {_KINDS[kind]}"
        yield DirectiveProblem(message, "remove it", Severity.ERROR, _gone(function, directive))
        return
    if module.version is not None and spec.until is not None and module.version >= spec.until:
        message = f"{name} was removed in .version {dotted(spec.until)}"
        yield DirectiveProblem(message, f"use {spec.instead}", Severity.ERROR)
    yield from _values(spec, directive)
    earlier = seen.get(name)
    if earlier is not None and spec.once:
        same = earlier.numbers == directive.numbers
        fixes = _gone(function, directive, safe=True) if same else ()
        yield DirectiveProblem(f"{name} appears twice", "remove one of them", Severity.ERROR, fixes)
    elif earlier is not None and earlier.numbers != directive.numbers:
        yield DirectiveProblem(
            f"{_spelled(directive)} overrides the earlier {_spelled(earlier)}: only the last one is used",
            "remove the one that is not intended",
            Severity.WARNING,
            _gone(function, earlier, safe=True),
        )
    for other in spec.excludes & seen.keys():
        yield DirectiveProblem(
            f"{name} cannot be used together with {other}",
            f"remove {other} or {name}",
            Severity.ERROR,
            (*_gone(function, seen[other]), *_gone(function, directive)),
        )
    missing = [need for need in spec.needs if need not in function.directives]
    if missing:
        yield DirectiveProblem(
            f"{name} requires {' and '.join(missing)}", f"add {' and '.join(missing)}", Severity.ERROR
        )
    if spec.idle and not any(other in function.directives for other in spec.idle):
        wanted = " or ".join(spec.idle)
        yield DirectiveProblem(f"{name} is ignored without {wanted}", f"add {wanted}", Severity.WARNING)


def _span(function: Function, directive: Directive) -> Span:
    return Span(function.start + directive.start, function.start + directive.end)


def _gone(function: Function, directive: Directive, safe: bool = False) -> tuple[Repair, ...]:
    return (Repair(f"remove {_spelled(directive)}", (removed(_span(function, directive)),), safe),)


def _values(spec: DirectiveSpec, directive: Directive) -> Iterator[DirectiveProblem]:
    name, numbers = directive.name, directive.numbers
    if len(numbers) not in spec.numbers:
        least, most = spec.numbers[0], spec.numbers[-1]
        wanted = f"{least} to {most} values" if least < most else "no value" if not most else "one value"
        yield DirectiveProblem(
            f"{name} takes {wanted}, not {len(numbers)}", f"give it {wanted}", Severity.ERROR
        )
    elif any(n in spec.refused for n in numbers):
        message = f"{_spelled(directive)}: the values must be greater than 0"
        yield DirectiveProblem(message, "give it a positive value", Severity.ERROR)
    elif spec.most is not None and not 0 < prod(numbers) <= spec.most:
        yield DirectiveProblem(
            f"{_spelled(directive)} cannot be launched: the product is {prod(numbers)}, but must be 1 to {spec.most}",
            "reduce the product",
            Severity.WARNING,
        )


def _spelled(directive: Directive) -> str:
    return f"{directive.name} {', '.join(map(str, directive.numbers))}".rstrip()
