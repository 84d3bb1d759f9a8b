"""The register pool: every ``setmaxnreg.inc`` gets what it requests. The prover of what :mod:`.warp_registers` checks.

How many registers a thread owns at launch is decided by the assembler, within the directives of the kernel; a proof assumes
what ``ptxas`` does (:mod:`tclint.analyses.setmaxnreg`).
"""

from __future__ import annotations

from collections.abc import Collection

from tclint.analyses.model import KernelModel
from tclint.analyses.setmaxnreg import RegisterCounts
from tclint.findings.spans import span
from tclint.findings.verdicts import Assumption, Discharge, Obligation, Reason
from tclint.values import thread_masks as T
from tclint.verdicts.checker import Refused
from tclint.verdicts.convergence import Convergence
from tclint.verdicts.outcome import Outcome
from tclint.verdicts.uniform import Collective
from tclint.verdicts.warp_registers import Pool, PoolCertificate, PoolQuestions, check

__all__ = ["GRANTED", "RegisterPool", "pooled"]

_TOGETHER = "all threads of the warpgroup execute it together"
GRANTED = "the registers that it requests become available"


class RegisterPool:
    """The obligations of each ``setmaxnreg`` of one kernel, and what discharges them."""

    def __init__(self, model: KernelModel, assume: Collection[Assumption]) -> None:
        self.model, self.assume = model, frozenset(assume)
        self.function, self.values = model.function, model.values
        self.assumed: set[Assumption] = set()
        self.uniform = Convergence(model, assume)

    def outcome(self) -> Outcome:
        """The obligations, and whether the checker accepts what discharges them."""
        launch = self.launch()
        if launch is None:
            what = "no directive states how many registers a thread owns at launch"
            return Outcome(reasons=(Reason(None, what, "add .maxnreg, or .minnctapersm with .reqntid"),))
        if Assumption.REGISTERS not in self.assume:
            return Outcome(reasons=(Reason(None, f"it may not be assumed: {Assumption.REGISTERS.value}"),))
        self.assumed.add(Assumption.REGISTERS)
        pool = self.pool()
        obligations, reasons = list[Obligation](), list[Reason]()
        for each in (c for c in self.uniform.needed if c.site in pool.sites):
            at = span(self.function, each.site)
            for what, discharge, why in (
                (_TOGETHER, Discharge.UNIFORM, self._divergence(each)),
                (GRANTED, Discharge.POOL, pool.wrong(each.site, launch)),
            ):
                obligations.append(Obligation(at, None, what, None if why else discharge, why=why))
                if why:
                    reasons.append(Reason(at, why))
        reasons += (Reason(span(self.function, site), why) for site, why in pool.waiting())
        if why := pool.excess(launch):
            reasons.append(Reason(None, why))
        if not reasons:
            try:
                check(pool, launch)
            except Refused as refused:
                reasons.append(Reason(span(self.function, refused.site), refused.why))
        return Outcome(tuple(obligations), tuple(reasons), frozenset(self.assumed | self.uniform.assumed))

    def launch(self) -> int | None:
        """The registers per thread that ``ptxas`` chooses for the launch; None if it cannot determine them.

        It chooses as many as the directives admit, but no more than the largest count that an ``.inc`` requests (seen with
        13.0 and 13.5).
        """
        return RegisterCounts(self.model).launch

    def _size(self) -> int | None:
        """The number of threads that every CTA has, which a kernel that never reads %ntid states by ``.maxntid``."""
        if self.function.threads is None and Assumption.FULL_CTA not in self.assume:
            return None
        if self.function.threads is None and self.values.cta_size is not None:
            self.assumed.add(Assumption.FULL_CTA)
        return self.values.cta_size

    def _divergence(self, of: Collective) -> str:
        """Why the threads of a warpgroup may not execute a ``setmaxnreg`` together; "" if they do."""
        return self.uniform.why(of) or self.uniform.refused(of)

    def pool(self) -> Pool:
        """The least solution of what the checker verifies of the threads at each block."""
        count = len(self.model.cfg.blocks)
        before, after = [0] * count, [0] * count
        ask = PoolQuestions(T.full(self.values.threads), self._size(), self.uniform.holding)
        before[0] = ask.everyone
        pool = Pool(self.function, self.uniform.of, PoolCertificate(self.uniform.levels, before, after), ask)
        work = [0]
        while work:
            for target, unchanged, changed in pool.through(work.pop()):
                known = before[target], after[target]
                before[target] |= unchanged
                after[target] |= changed
                if known != (before[target], after[target]):
                    work.append(target)
        return pool


def pooled(model: KernelModel, assume: frozenset[Assumption]) -> Outcome:
    """What is proved of the register pool."""
    return RegisterPool(model, assume).outcome()
