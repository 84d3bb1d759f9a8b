"""Which steps of a path are in a later iteration of a loop than the steps before them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tclint.checks import Hit, Mark
from tclint.dataflow.kernel import Kernel
from tclint.findings.finding import LATER
from tclint.ir.cfg import CFG
from tclint.ir.nodes import Function, Location

__all__ = ["in_order"]


def in_order(model: Kernel, hit: Hit, steps: Iterable[Mark]) -> Iterator[Mark]:
    """The *steps* of *hit*; one that follows the step before it only by way of a back edge says so, and so does one in a copy
    that a compiler made of the body of a loop."""
    one_path = hit.one_path and not hit.deadlock
    before: Mark | None = None
    for mark in steps:
        if one_path and not mark.aside and mark.function in (None, model.function):
            again = before is not None and (
                model.cfg.in_later_iteration(before.site, mark.site)
                or _in_later_copy(model.function, model.cfg, before.site, mark.site)
            )
            before = mark
            if again and "iterat" not in mark.message:
                yield replace(mark, message=f"{LATER}{mark.message}")
                continue
        yield mark


def _in_later_copy(function: Function, cfg: CFG, first: int, second: int) -> bool:
    """Whether *second* is a copy of an instruction that was executed before *first*, which is from a later source line."""
    here, since = function.location(second), _outermost(function.location(first))
    own = _outermost(here)
    if own is None or since is None or own.file != since.file or own.line >= since.line:
        return False
    match, block = function.instructions[second].match, cfg.block_of[first]
    return any(
        function.instructions[i].match == match
        and function.location(i) == here
        and cfg.dominates(cfg.block_of[i], block)
        for i in range(min(first, second))
    )


def _outermost(location: Location | None) -> Location | None:
    """The line of the kernel from which a *location* was inlined."""
    while location is not None and location.inlined_at is not None:
        location = location.inlined_at
    return location
