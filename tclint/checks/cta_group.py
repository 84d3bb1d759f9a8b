"""Check that all tcgen05 instructions of a kernel have the same .cta_group (PTX ISA 9.7.16.7.1 and 13.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from tclint.checks import Hit, Mark, RuleId, module_check
from tclint.findings.edits import Repair, opcode
from tclint.findings.scales import Confidence, Severity
from tclint.ir.inline import callees
from tclint.ir.nodes import Function, Module
from tclint.isa.target import Version

TC006 = RuleId("TC006")


def _first_uses(function: Function) -> dict[str, int]:
    """Spelling of ``.cta_group`` -> the first tcgen05 instruction that has it."""
    found: dict[str, int] = {}
    for use in function.uses:
        if use.match is not None and use.match.form.of_tcgen05:
            group = use.match.binding.get("cta_group")
            if group:
                found[group] = min(found.get(group, use.sites[0]), use.sites[0])
    return found


@module_check(TC006)
def mixed_cta_group(module: Module, toolkit: Version | None) -> Iterator[Hit]:
    """A kernel that uses both ``.cta_group::1`` and ``::2``, itself or in the functions that it calls."""
    bodies = {f.name: f for f in module.functions if not f.declared_only}
    uses = {name: _first_uses(function) for name, function in bodies.items()}
    if not any(uses.values()):
        return
    reached: set[str] = set()
    for kernel in (f for f in bodies.values() if f.entry):
        seen: set[str] = set()
        work = [kernel.name]
        first: dict[str, tuple[Function, int]] = {}
        while work:
            name = work.pop(0)
            if name in seen or name not in bodies:
                continue
            seen.add(name)
            for group, site in uses[name].items():
                first.setdefault(group, (bodies[name], site))
            work.extend(sorted(callees(bodies[name])))
        reached |= seen
        if len(first) > 1:
            fixes = _agreeing([bodies[name] for name in bodies if name in seen])
            yield replace(_hit(kernel, first), fixes=fixes)
    for name, function in bodies.items():
        # A device function that no kernel here calls may be linked with any kernel; mixing them is wrong in each.
        if name not in reached and len(uses[name]) > 1:
            yield _hit(
                function,
                {g: (function, i) for g, i in uses[name].items()},
                Severity.WARNING,
                Confidence.MEDIUM,
            )


def _agreeing(functions: list[Function]) -> tuple[Repair, ...]:
    """Repairs that give all tcgen05 instructions one group; the most frequent group is first."""
    uses = [
        (function, use, group)
        for function in functions
        for use in function.uses
        if use.match is not None and use.match.form.of_tcgen05
        if (group := use.match.binding.get("cta_group"))
    ]
    numbers = Counter(group for _, use, group in uses for _ in use.sites)
    return tuple(
        Repair(
            f"use {wanted} in the kernel and in everything it calls",
            tuple(
                opcode(site, use.opcode.replace(group, wanted), function)
                for function, use, group in uses
                if group != wanted
                for site in use.sites
            ),
        )
        for wanted, _ in numbers.most_common()
    )


def _hit(
    kernel: Function,
    first: dict[str, tuple[Function, int]],
    severity: Severity | None = None,
    confidence: Confidence | None = None,
) -> Hit:
    order = sorted(first.items(), key=lambda item: (item[1][0].start, item[1][1]))
    (group_a, (function_a, a)), (group_b, (function_b, b)) = order[0], order[1]
    opcode_a = function_a.instructions[a].name
    opcode_b = function_b.instructions[b].name
    where = "" if function_a is function_b else f" (in {function_a.name})"
    return TC006.hit(
        function=function_b,
        site=b,
        message=f"{opcode_b} has {group_b} in kernel {kernel.name}, whose {opcode_a}{where} has {group_a}: "
        "all tcgen05 instructions of a kernel must have the same .cta_group",
        steps=(
            Mark(a, f"{opcode_a} with {group_a}", function_a),
            Mark(b, f"{opcode_b} with {group_b}", function_b),
        ),
        help="use one .cta_group in the kernel and in everything it calls",
        severity=severity,
        confidence=confidence,
    )
