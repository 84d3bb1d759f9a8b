"""Checks of the .target of a module and the devices on which it runs (PTX ISA 11.1.2)."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.checks import Hit, RuleId, module_check
from tclint.findings.edits import retarget
from tclint.ir.needs import needs
from tclint.ir.nodes import Module
from tclint.isa.target import INTRODUCED, RENAMED, Target, Version

AV003 = RuleId("AV003")
AV004 = RuleId("AV004")

_RUNS_ON = {"": "every later device", "f": "all devices of its family"}


def _target(module: Module) -> Target | None:
    """The architecture of *module*; None if its .target names none, or several."""
    named = [t for t in map(Target.parse, module.targets) if t]
    return named[0] if len(named) == 1 else None


@module_check(AV003)
def overspecified(module: Module, toolkit: Version | None) -> Iterator[Hit]:
    """A suffix of .target that no instruction of the module requires."""
    target, version = _target(module), module.version
    if target is None or not target.suffix or version is None:
        return
    uses = [use for function in module.functions for use in function.uses]
    matches = {id(use.match): use.match for use in uses if use.match is not None}
    if not uses or any(use.match is None for use in uses) or any(f.damaged for f in module.functions):
        return
    wanted = {need.available for need in needs(module, target)}
    for suffix in ("", "f")[: 1 + (target.suffix == "a")]:
        wider = Target(target.number, suffix)
        if (
            str(wider) in INTRODUCED
            and version >= wider.introduced
            and not any(available.lacking(wider, version) for available in wanted)
            and not any(match.slower(wider) for match in matches.values())
        ):
            yield AV003.hit(
                span=module.target_span,
                message=f"nothing in this module requires {target}: with .target {wider} it would run on "
                f"{_RUNS_ON[suffix]}",
                help=f"use .target {wider}",
                fixes=retarget(module, wider),
            )
            return


@module_check(AV004)
def renamed(module: Module, toolkit: Version | None) -> Iterator[Hit]:
    """A target that PTX ISA 9.0 renamed."""
    target = _target(module)
    if target is None or target.number not in RENAMED or (toolkit or (13, 0)) < (13, 0):
        return
    new = Target(RENAMED[target.number], target.suffix)
    yield AV004.hit(
        span=module.target_span,
        message=f"{target} was renamed {new} in .version 9.0; ptxas of CUDA 13 does not accept -arch {target}",
        help=f"write .version 9.0 and .target {new}; to assemble this module unchanged, use -arch {new}",
        fixes=retarget(module, new, (9, 0)),
    )
