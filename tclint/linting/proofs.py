"""Which edits leave a kernel right: the proofs that a check leaves to be made on the edited text.

Whether an operation is needless follows from the analyses of the check. The edit that removes it is offered only if the
provers and checkers of :mod:`tclint.verdicts` accept the edited text, with no assumption that they did not need before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from tclint.analyses.model import KernelModel
from tclint.checks import Hit
from tclint.findings.edits import Repair, joined, resolve
from tclint.findings.requirements import ALL_ASSUMPTIONS
from tclint.findings.verdicts import Assumption, HazardClass, Status, Verdict
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
            _assumptions(self._prove(edited, whole, (each,), allowed)) is not None
            for each, allowed in zip(classes, assumed, strict=True)
            if allowed is not None
        )

    def _assumed(self, hazard: HazardClass) -> frozenset[Assumption] | None:
        """What the proof of a class rests on before any edit; None if there is none."""
        if hazard not in self._before:
            self._before[hazard] = _assumptions(
                self._prove(self._module, self._function, (hazard,), ALL_ASSUMPTIONS)
            )
        return self._before[hazard]

    def _prove(
        self,
        module: Module,
        function: Function,
        only: Sequence[HazardClass],
        assume: frozenset[Assumption],
    ) -> tuple[Verdict, ...]:
        model = KernelModel(function, module, None, self._pause)
        found = verdicts(model, assume=assume, only=only)
        model.release()
        return found


def _assumptions(found: Iterable[Verdict]) -> frozenset[Assumption] | None:
    """What the proofs of all classes that are *found* rest on; None if one of them is not proved.

    A class that the kernel does not use needs no proof.
    """
    assumed = frozenset[Assumption]()
    for verdict in found:
        if verdict.status is not Status.PROVED:
            return None
        assumed = assumed.union(verdict.assumptions)
    return assumed
