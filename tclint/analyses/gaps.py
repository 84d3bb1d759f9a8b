"""What is not known of a kernel, so that nothing can be proved of it and no operation of it is known to be needless."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tclint.dataflow.kernel import Kernel
from tclint.findings.spans import Span, span
from tclint.findings.verdicts import Reason
from tclint.ir.inline import callees, reached
from tclint.ir.nodes import FormUse, Function, Module
from tclint.isa.callees import SYSTEM_CALLS

__all__ = ["ambiguous", "damage", "gaps", "hidden"]


def damage(function: Function) -> Iterator[Reason]:
    """Why the instructions of *function* are not all known."""
    if function.damaged:
        yield Reason(None, "the function contains a syntax error", "correct it")
    for error in function.errors:
        if error.kind.startswith(("undefined", "duplicate", "unreadable")):
            yield Reason(None, f"the function does not assemble: {error.message}", "correct it")
            return


def gaps(model: Kernel) -> Iterator[Reason]:
    """The instructions of the kernel whose effect on any operation is unknown, in program order."""
    function = model.function
    yield from damage(function)
    for error in model.module.errors:
        yield Reason(
            Span(error.start, error.end), f"the module does not assemble: {error.message}", "correct it"
        )
    for name in sorted(ambiguous(model))[:1]:
        yield Reason(None, f"{name} is declared in several scopes", "give each variable a name of its own")
    found = list(hidden(model))
    for use in function.uses:
        if use.match is not None and use.match.problem:
            what = f"the operands of {use.opcode} do not fit: {use.match.problem}"
            found += ((site, what, "") for site in _reachable(model, use))
    yield from (Reason(span(function, site), what, help) for site, what, help in sorted(found))


def hidden(model: Kernel) -> Iterator[tuple[int, str, str]]:
    """The reachable instructions by which the kernel may execute others that are not known, so that it may do anything: each
    with why, and what would make them known."""
    instructions = model.function.instructions
    for use in model.function.uses:
        if use.match is None:
            what = f"{use.opcode} is not an instruction that is known"
            yield from ((site, what, "") for site in _reachable(model, use))
        elif use.match.form.flow == "call":
            for site in _reachable(model, use):
                if unknown := _unknown_call(model, instructions[site].callee):
                    yield site, unknown, "define the function in the module"
        elif use.match.form.flow.startswith("branch"):
            for site in _reachable(model, use):
                if not instructions[site].targets or -1 in instructions[site].targets:
                    yield site, "where this branch leads is unknown", ""


def _reachable(model: Kernel, use: FormUse) -> list[int]:
    return [site for site in use.sites if model.cfg.block_of[site] in model.cfg.rank]


def ambiguous(model: Kernel) -> set[str]:
    """The names that are those of several variables (5.4.1): an instruction is not known to use one of them.

    Variables without a size all name the same memory, and parameters of calls are renamed.
    """
    module = model.module
    kernel = module.function(model.function.name) or model.function
    functions = (kernel, *reached(kernel, module))
    scopes = [f.variables for f in functions]
    names = Counter(
        v.name
        for scope in (module.variables, *scopes)
        for v in scope.values()
        if v.space != ".param" and v.size
    )
    return {name for name, count in names.items() if count > 1}


def _unknown_call(model: Kernel, callee: str) -> str:
    """What is unknown of a call that is not inlined; empty if the callee has no events."""
    if callee in SYSTEM_CALLS:
        return ""
    if not callee:
        return "the callee of an indirect call is unknown"
    body = model.module.function(callee)
    if body is None or not body.instructions:
        return f"the body of {callee} is unknown"
    for function in (body, *reached(body, model.module)):
        if not _plain(function, model.module):
            return (
                f"{function.name} has instructions that are unknown or affect operations, and is not inlined"
            )
    return ""


def _plain(function: Function, module: Module) -> bool:
    """Whether *function* has a body without events, unknown instructions and unknown calls."""
    if any(damage(function)) or not function.instructions:
        return function.name in SYSTEM_CALLS
    known = {f.name for f in module.functions if f.instructions} | SYSTEM_CALLS
    indirect = any(not i.callee for i in function.instructions if i.flow == "call")
    events = any(use.match is None or use.match.form.event for use in function.uses)
    return not events and not indirect and callees(function) <= known
