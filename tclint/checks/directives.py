"""Directives of kernels and functions that contradict each other or cannot stand (PTX ISA 11.4, 11.7, 11.8)."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from tclint.checks import Hit, module_check
from tclint.checks.assembler import NEWEST
from tclint.config import Config
from tclint.finding import Confidence, Severity
from tclint.ir.nodes import Directive, Function, Module
from tclint.isa.directives import DirectiveSpec, directives
from tclint.isa.target import Target, dotted

_KINDS = {"entry": ".entry", "func": ".func"}


@module_check("AV005")
def conflicts(module: Module, config: Config) -> Iterator[tuple[str, Hit]]:
    """What the directives of each function say that no launch, or no assembler, can fulfil."""
    target = next((t for t in map(Target.parse, module.targets) if t), None)
    for function in module.functions:
        seen: dict[str, Directive] = {}
        for directive in function.stated:
            for message, remedy, severity in _wrong(directive, function, module, target, seen):
                newer = directive.name not in directives() and (module.version or (0, 0)) > NEWEST
                yield (
                    "AV005",
                    Hit(
                        function=function,
                        span=(function.start + directive.start, function.start + directive.end),
                        message=message,
                        help=remedy,
                        severity=severity,
                        confidence=Confidence.LOW if newer else None,
                    ),
                )
            seen[directive.name] = directive


Problem = tuple[str, str, Severity]
"""Message, help, severity: an error is refused by ptxas or can never be launched."""


def _wrong(
    directive: Directive,
    function: Function,
    module: Module,
    target: Target | None,
    seen: dict[str, Directive],
) -> Iterator[Problem]:
    name = directive.name
    spec = directives().get(name)
    if spec is None:
        from difflib import get_close_matches

        near = get_close_matches(name, directives(), n=1)
        yield (
            f"there is no directive {name}",
            f"did you mean {near[0]}?" if near else "remove it",
            Severity.ERROR,
        )
        return
    kind = "entry" if function.entry else "func"
    if kind not in spec.on:
        (allowed,) = spec.on
        yield f"{name} belongs to a {_KINDS[allowed]}, not to a {_KINDS[kind]}", "remove it", Severity.ERROR
        return
    yield from _unavailable(spec, module, target)
    yield from _values(spec, directive)
    earlier = seen.get(name)
    if earlier is not None and spec.once:
        yield f"{name} is stated twice", "remove one of them", Severity.ERROR
    elif earlier is not None and earlier.numbers != directive.numbers:
        yield (
            f"{_spelled(directive)} replaces the {_spelled(earlier)} before it: the last one counts",
            "remove the one that is not meant",
            Severity.WARNING,
        )
    for other in spec.excludes & seen.keys():
        yield f"{name} cannot be used together with {other}", f"remove {other} or {name}", Severity.ERROR
    missing = [need for need in spec.needs if need not in function.directives]
    if missing:
        yield f"{name} needs {' and '.join(missing)}", f"add {' and '.join(missing)}", Severity.ERROR
    if spec.idle and not any(other in function.directives for other in spec.idle):
        wanted = " or ".join(spec.idle)
        yield f"{name} is ignored without {wanted}", f"add {wanted}", Severity.WARNING


def _unavailable(spec: DirectiveSpec, module: Module, target: Target | None) -> Iterator[Problem]:
    version = module.version
    if target is not None and not spec.available.on(target):
        needed = spec.available.describe()
        yield (
            f"{spec.name} is not available on {target}: it needs {needed}",
            f"compile for {needed}, or remove it",
            Severity.ERROR,
        )
    elif version is not None and version < spec.available.since:
        needed = dotted(spec.available.since)
        yield (
            f"{spec.name} needs .version {needed}; this module has {dotted(version)}",
            f"raise .version to {needed}",
            Severity.ERROR,
        )
    elif version is not None and spec.until is not None and version >= spec.until:
        yield (
            f"{spec.name} is gone since .version {dotted(spec.until)}",
            f"use {spec.instead}",
            Severity.ERROR,
        )


def _values(spec: DirectiveSpec, directive: Directive) -> Iterator[Problem]:
    name, numbers = directive.name, directive.numbers
    if len(numbers) not in spec.numbers:
        least, most = spec.numbers[0], spec.numbers[-1]
        wanted = f"{least} to {most} numbers" if least < most else "no number" if not most else "one number"
        yield f"{name} takes {wanted}, not {len(numbers)}", f"give it {wanted}", Severity.ERROR
    elif any(n in spec.refused for n in numbers):
        yield f"{_spelled(directive)}: its numbers must be greater than 0", "give it a number", Severity.ERROR
    elif spec.most is not None and not 0 < prod(numbers) <= spec.most:
        yield (
            f"{_spelled(directive)} cannot be launched: the product is {prod(numbers)}, not 1 to {spec.most}",
            "make the product smaller",
            Severity.WARNING,
        )


def _spelled(directive: Directive) -> str:
    return f"{directive.name} {', '.join(map(str, directive.numbers))}".rstrip()
