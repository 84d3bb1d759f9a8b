"""Checks of declarations, pragmas and other statements that ptxas rejects (PTX ISA 5, 11, 12)."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.checks import Hit, RuleId, grouped, module_check
from tclint.ir.feature_uses import feature_uses
from tclint.ir.nodes import Module
from tclint.isa.features import FeatureSpec
from tclint.isa.target import Version, dotted

PX009 = RuleId("PX009")


@module_check(PX009)
def refused(module: Module, toolkit: Version | None) -> Iterator[Hit]:
    """Statements that are no instructions and that ptxas rejects."""
    found = (
        ((use.function and use.function.name, use.spec.name, use.spec.refused), use)
        for use in feature_uses(module, module.target)
        if _refusal(use.spec, use.word, module.version)
    )
    for uses in grouped(found).values():
        first, *_ = uses
        message = _refusal(first.spec, first.word, module.version)
        yield PX009.hit(function=first.function, span=first.span, count=len(uses), message=message)


def _refusal(spec: FeatureSpec, word: str, version: Version | None) -> str:
    """Why ptxas rejects a feature, which *word* shows, in a module of *version*; empty if it does not."""
    if spec.until is not None and version is not None and version >= spec.until:
        return f"{spec.name} was removed in .version {dotted(spec.until)}: use {spec.instead}"
    named = f"{spec.name}, {word}" if word and word not in spec.name else spec.name
    return f"{named}: {spec.refused}" if spec.refused else ""
