"""Which edits leave a kernel right: the proofs that a check leaves to be made on the edited text.

Whether an operation is needless follows from the analyses of the check. The edit that removes it is offered only if the
provers and checkers of :mod:`tclint.verdicts` accept the edited text, with no assumption that they did not need before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from tclint.analyses.model import KernelModel
from tclint.checks import Hit
from tclint.findings.edits import Repair, joined, resolve
from tclint.findings.requirements import ALL_ASSUMPTIONS
from tclint.findings.verdicts import Assumption, HazardClass, Status
from tclint.ir.frontend import analyse
from tclint.ir.inline import inlinable, inline
from tclint.ir.nodes import Function, Module
from tclint.syntax.source import Source
from tclint.verdicts import verdicts

__all__ = ["proved_hits"]


def proved_hits(
    source: Source, module: Module, function: Function, hits: Iterable[Hit], pause: Callable[[], None]
) -> Iterator[Hit]:
    """The *hits* in *function*, whose calls are inlined, without the repairs that prove nothing and without the hits that
    depend on a proof which fails.

    *pause* is called before each analysis; if it raises, nothing is yielded any more.
    """
    proofs = _Proofs(source, module, function, pause)
    for hit in hits:
        if hit.provided is None or proofs.hold(hit.provided):
            yield replace(hit, fixes=tuple(fix for fix in hit.fixes if not fix.proves or proofs.hold(fix)))


class _Proofs:
    def __init__(self, source: Source, module: Module, function: Function, pause: Callable[[], None]) -> None:
        self._source, self._module, self._function, self._pause = source, module, function, pause
        self._before: dict[HazardClass, frozenset[Assumption] | None] = {}

    def hold(self, repair: Repair) -> bool:
        """Whether the classes that *repair* names are proved before and after it, under the same assumptions."""
        classes = [HazardClass(each) for each in repair.proves]
        assumed = [self._assumed(each) for each in classes]
        fixes = resolve(self._source, self._function, (repair,))
        if None in assumed or not fixes:
            return False
        text = joined(self._source.data, fixes[0].edits)
        edited, problems = analyse(Source(text, self._source.path))
        function = edited.function(self._function.name)
        if problems or function is None:
            return False
        whole = inline(function, inlinable(edited))
        return all(
            self._proof(edited, whole, each, allowed) is not None
            for each, allowed in zip(classes, assumed, strict=True)
            if allowed is not None
        )

    def _assumed(self, hazard: HazardClass) -> frozenset[Assumption] | None:
        """What the proof of a class rests on before any edit; None if there is none."""
        if hazard not in self._before:
            self._before[hazard] = self._proof(self._module, self._function, hazard, ALL_ASSUMPTIONS)
        return self._before[hazard]

    def _proof(
        self, module: Module, function: Function, hazard: HazardClass, allowed: frozenset[Assumption]
    ) -> frozenset[Assumption] | None:
        """Those of the *allowed* assumptions that the proof of a class rests on; None if there is none.

        A class that the kernel does not use needs no proof.
        """
        model = KernelModel(function, module, None, self._pause)
        found = verdicts(model, assume=allowed, only=(hazard,))
        model.release()
        if any(verdict.status is not Status.PROVED for verdict in found):
            return None
        return frozenset[Assumption]().union(*(verdict.assumptions for verdict in found))
