"""Deadlock freedom: no thread waits indefinitely for other threads of the kernel.

A thread can wait in three ways, which are enumerated from the effects of instructions and the edges of the graph alone: at an
instruction that other threads must execute too (:func:`~tclint.verdicts.uniform.collectives`), at one that waits for something
to end or to become free, and in a loop that leaves only once it has observed something
(:mod:`tclint.verdicts.own_loops`). Each is an obligation.

**Groups.** Let every collective instruction be one that all threads of its group execute together, as the class of convergence
claims, and let two groups have no thread in common unless one contains the other: lanes, warps, warpgroups, the CTA, the
cluster, and the parties of barriers that count some of the threads. No threads wait for each other in a circle. Assume they do,
and take a widest group G of those at whose instructions they wait and, of the executions of these instructions by G, the
earliest. All threads of a group pass the executions of all instructions whose groups contain it in one order, since the branches
that decide these are uniform in it. The thread waits for one of G that is before this execution, and that one waits, too: not at
an instruction of G or of a wider group, since that execution would be an earlier one. So it waits in a group within G, for
threads that are before the same execution, and none of these waits for the first thread again.

**Signals.** At some barriers, some threads only arrive, each of them once (:mod:`tclint.verdicts.parties`). Relate the wait
for such a barrier to all that a thread executes after it and, where that includes an instruction by which it arrives at another
one, to all that other threads execute after a wait for that. A circle through the barrier would relate it to an arrival there.
If it is not, it is in no circle, and what is left are circles of groups.

**Registers.** What the class of the register pool claims holds whatever becomes of waits after a ``setmaxnreg``.

**Phases.** The class of mbarriers claims that a wait ends unless something else holds up the thread that arrives or copies. Order
what threads wait for by the blocks that all of them execute together, and by instructions within these. Assume that threads wait
in a circle, and take what is first. If it is a wait for an mbarrier, what its phase needs has an earlier position, from which only
branches lead to the instructions that do it, so no thread that should do it waits for an mbarrier or at a barrier on the way, and
what the threads of a warp execute together there, all of them reach. If it is a collective instruction, the threads that do not
get there wait in the same branch, for an mbarrier whose phase is complete for the same reason. This is said only of kernels
without barriers that count some of the threads.

**Loops.** A loop that decides itself, an asynchronous operation and a grid before this one are taken to end. Any other loop that
observes others may wait for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tclint.findings.spans import Span, span
from tclint.findings.verdicts import Discharge, Obligation, Reason
from tclint.ir.cfg import Edge
from tclint.isa.effects import Barrier, Resource
from tclint.verdicts.checker import Graph
from tclint.verdicts.convergence import Convergence
from tclint.verdicts.mbarrier_checker import repeats
from tclint.verdicts.outcome import Outcome
from tclint.verdicts.own_loops import ObservingLoop, observing_loops
from tclint.verdicts.register_pool import GRANTED

__all__ = ["Waits"]


class Waits:
    """The obligations of each instruction and each loop of one kernel that may wait, and what discharges them.

    *converged* is what is proved of its collective instructions from the levels of *uniform*, *pool* of its register pool, and
    *phases* of its mbarriers, with the edges that threads take once the waits before them have succeeded.
    """

    def __init__(
        self,
        uniform: Convergence,
        converged: Outcome,
        pool: Outcome | None,
        phases: Callable[[], tuple[Outcome, Mapping[Edge, int]]],
    ) -> None:
        self.uniform, self.pool, self.phases = uniform, pool, phases
        self.model, self.function = uniform.model, uniform.function
        self.needed, self.reasons = list(converged.obligations), list(converged.reasons)
        self.assumptions = converged.assumptions

    def outcome(self) -> Outcome:
        """The obligations, and why they are not all discharged."""
        for site in sorted(self.uniform.of.block_of):
            effects = self.function.instructions[site].effects
            if effects.awaits is Barrier.GRIDS:
                self._need(site, "the grids before this one end")
            elif effects.resource is Resource.TMEM_ALLOC:
                self._need(
                    site, "tensor memory becomes free", why="other warps or CTAs may keep it allocated"
                )
        if self.pool is not None:
            self._of_pool(self.pool)
        if self.uniform.parties is not None:
            parties, of = self.uniform.parties, self.uniform
            for site, why in (*parties.crossed(of.needed, of.certificate), *parties.circular()):
                self._open(span(self.function, site), why)
        graph, ask = self.uniform.of.graph, self.uniform.of.ask
        for loop in observing_loops(self.function, graph, self.uniform.is_read_only, ask.constant):
            why = "" if loop.by is None or self._completes(loop, graph) else self._observed(loop)
            if not loop.assumed <= self.uniform.assume:
                why = "the counter of this loop may wrap"
            self.assumptions |= loop.assumed
            self._need(loop.site, "the loop ends whatever other threads do", why=why)
        assumed = frozenset(self.uniform.assumed)
        return Outcome(tuple(self.needed), tuple(self.reasons), self.assumptions | assumed)

    def _need(self, site: int, what: str, why: str = "") -> None:
        at = span(self.function, site)
        self.needed.append(Obligation(at, None, what, None if why else Discharge.ENDS, why=why))
        if why:
            self._open(at, why)

    def _open(self, at: Span | None, why: str, help: str = "") -> None:
        self.reasons.append(Reason(at, why, help))

    def _of_pool(self, pool: Outcome) -> None:
        """The registers that a ``setmaxnreg`` requests become available, as that class proves."""
        self.needed += (each for each in pool.obligations if each.what == GRANTED)
        self.reasons += pool.reasons
        self.assumptions |= pool.assumptions

    def _completes(self, loop: ObservingLoop, graph: Graph) -> bool:
        """Whether a loop does nothing but wait for a phase of an mbarrier which is proved to complete."""
        wait = -1 if loop.by is None else loop.by
        if wait < 0 or self.model.instruction(wait).effects.awaits is not Barrier.MBARRIER:
            return False
        outcome, awaited = self.phases()
        if outcome.reasons or self.uniform.parties is not None:
            return False
        here = self.uniform.of.block_of[loop.site]
        if not repeats(graph, awaited, here, wait) or len(graph.successors[here]) != 2:
            return False
        self.assumptions |= outcome.assumptions
        return True

    def _observed(self, loop: ObservingLoop) -> str:
        """Why a loop may wait for others."""
        if loop.by is None or loop.by < 0:
            return "no branch leaves this loop"
        name = self.model.name(loop.by)
        if self.model.instruction(loop.by).effects.awaits is Barrier.MBARRIER:
            return f"that the phase for which {name} waits completes is not proved"
        return f"what {name} reads decides whether this loop ends, and other threads may write it"
