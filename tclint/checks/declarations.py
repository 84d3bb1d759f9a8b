"""Checks of declarations, pragmas and other statements that ptxas rejects (PTX ISA 5, 11, 12)."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.checks import Hit, RuleId, grouped, module_check
from tclint.ir.feature_uses import feature_uses
from tclint.ir.nodes import Module
from tclint.isa.features import FeatureSpec
from tclint.isa.target import Version, dotted

PX009 = RuleId("PX009")

_NO_TYPE, _UNKNOWN_WORD = "no type", "unknown word in a declaration"
"""Features that a misspelt type shows, of which the second says more."""


@module_check(PX009)
def refused(module: Module, toolkit: Version | None) -> Iterator[Hit]:
    """Statements that are no instructions and that ptxas rejects."""
    uses = [*feature_uses(module, module.target)]
    worded = {use.span for use in uses if use.word and use.spec.name == _UNKNOWN_WORD}
    found = (
        ((use.function and use.function.name, use.spec.name, use.spec.refused), use)
        for use in uses
        if not (use.spec.name == _NO_TYPE and use.span in worded)
        if _refusal(use.spec, use.word, module.version)
    )
    for same in grouped(found).values():
        first, *_ = same
        message = _refusal(first.spec, first.word, module.version)
        yield PX009.hit(function=first.function, span=first.span, count=len(same), message=message)


def _refusal(spec: FeatureSpec, word: str, version: Version | None) -> str:
    """Why ptxas rejects a feature, which *word* shows, in a module of *version*; empty if it does not."""
    if spec.until is not None and version is not None and version >= spec.until:
        return f"{spec.name} was removed in .version {dotted(spec.until)}: use {spec.instead}"
    named = f"{spec.name}, {word}" if word and word not in spec.name else spec.name
    return f"{named}: {spec.refused}" if spec.refused else ""
