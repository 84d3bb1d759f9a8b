"""From the bytes of a module to its IR and its problems."""

from __future__ import annotations

from tclint.ir.nodes import Module
from tclint.ir.rebuild import Builds
from tclint.isa.target import INTRODUCED, NEWEST, Target, dotted, exists
from tclint.syntax.source import Problem, Source

__all__ = ["analyse"]


def analyse(source: Source, builds: Builds | None = None) -> tuple[Module, list[Problem]]:
    """The module in *source*, and its problems: syntax errors, a missing header, and everything the assembler rejects.

    *builds* keeps the earlier states of an edited text, so that only the edited part is rebuilt.
    """
    from tclint.syntax import problems

    tree, module = (builds or Builds()).build(source.data)
    found = [
        Problem(source.position(p.start_byte).line, p.message + _without_end(source, p.function))
        for p in problems(tree)
    ]
    if not found and not module.functions and module.version is None and not module.variables:
        found.append(Problem(1, "contains no PTX (no .version directive, no function)"))
        return module, found
    if module.version is None:
        found.append(Problem(1, ".version is missing"))
    elif not exists(module.version):
        message = f"unknown .version {dotted(module.version)}; the newest known one is {dotted(NEWEST)}"
        found.append(Problem(source.position(module.version_span[0]).line, message))
    if not module.targets:
        found.append(Problem(1, ".target is missing"))
    for name in module.targets:
        if Target.parse(name) is None and name not in _TARGET_OPTIONS:
            message = f"unknown target {name}; the newest known ones are {', '.join(_newest_targets())}"
            found.append(Problem(source.position(module.target_span[0]).line, message))
    found += [Problem(source.position(t.start).line, t.message) for t in module.errors]
    for function in module.functions:
        for error in function.errors:
            line = source.position(function.start + error.start).line
            found.append(Problem(line, f"{function.name}: {error.message}"))
    return module, found


def _without_end(source: Source, function: int) -> str:
    """A note for an error at the end of the text: where the unclosed *function* begins; empty if it is -1 (none)."""
    if function < 0:
        return ""
    end = len(source.data.rstrip(b"\0").rstrip())
    first, last = source.position(function).line, source.position(end).line
    return f" (the function begins at line {first}, the file ends at line {last})"


def _newest_targets() -> list[str]:
    """The targets that the newest of all ``.version``s with a new target introduced."""
    newest = max(INTRODUCED.values())
    return [name for name, version in INTRODUCED.items() if version == newest]


_TARGET_OPTIONS = frozenset(("texmode_unified", "texmode_independent", "debug", "map_f64_to_f32"))
