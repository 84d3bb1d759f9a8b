"""Convergence: the threads that a collective instruction needs execute it together.

The levels of registers are the least solution of the equations that :mod:`tclint.verdicts.uniform` checks, for all threads
and for those that a barrier counts (:mod:`tclint.verdicts.parties`). A proof trusts, besides the checkers, the ISA table (families, scopes, special registers), the control-flow graph, and for predicates of the
thread index :mod:`tclint.values`.

Findings ask the opposite question, with which numbers lanes part (:mod:`tclint.values.divergence`), and trust expressions
that no checker knows. Both take from :mod:`tclint.values` which threads a predicate of the index holds for; nothing else
is common to them, and where neither has an answer, the verdict is unknown.

The ISA does not guarantee that the threads of a warp which have diverged execute an instruction together after the paths
have joined (3.2). Where they may have diverged before an instruction with ``.aligned``, a proof assumes it; instructions
with a membermask, and barriers without ``.aligned``, wait for the others and do not need it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import cached_property, partial

from tclint.analyses.model import KernelModel
from tclint.analyses.pointers import Pointers
from tclint.analyses.provenance import origin
from tclint.findings.spans import span
from tclint.findings.verdicts import Assumption, Discharge, Obligation, Reason
from tclint.ir.inline import reached
from tclint.isa.special_registers import WARP
from tclint.values import Values
from tclint.values import thread_masks as T
from tclint.values.nodes import COMPUTED, Broadcast, Constant, SpecialRead
from tclint.verdicts.checker import Graph, Refused
from tclint.verdicts.outcome import Outcome
from tclint.verdicts.parties import Parties, PartiesCertificate, check_parties
from tclint.verdicts.uniform import (
    MOVED,
    Collective,
    Level,
    Uniform,
    UniformQuestions,
    check_uniform,
    collectives,
)

__all__ = ["Convergence", "index_alone"]

_BY_INDEX = frozenset((Assumption.NO_OVERFLOW, Assumption.THREADS))
"""What the values of predicates of the thread index take for granted; and the shape of the CTA, unless it is stated."""
_INDEX_NODES = COMPUTED | {Constant, SpecialRead, Broadcast}
"""The kinds of expressions that depend on the index of a thread alone; an elected lane and a table are not among them."""
_GROUP = {
    Level.CLUSTER: "the cluster",
    Level.CTA: "the CTA",
    Level.WARPGROUP: "the warpgroup",
    Level.WARP: "the warp",
}

_HELP = {
    "its membermask is not known to be that of a whole warp": "name all lanes of the warp by a constant",
    "the CTA has an incomplete warp": "state whole warps with .reqntid",
    "the CTA is not known to consist of whole warpgroups": "state a multiple of 128 threads with .reqntid",
    "the number of its barrier is unknown": "name the barrier by a constant",
}
"""What would make it known that threads execute an instruction together."""


def index_alone(values: Values, value: int) -> bool:
    """Whether *value* is an expression of the index of its thread alone, or a constant."""
    nodes = [values.node(v) for v in values.subexpressions(value)]
    return all(type(n) in _INDEX_NODES and not (type(n) is SpecialRead and n.name in MOVED) for n in nodes)


class Convergence:
    """The obligations of the collective instructions of one kernel, and what discharges them.

    The levels of *registers* are found besides those that these instructions depend on. The loads *stable* of shared memory
    are taken to be uniform, which is proved elsewhere.
    """

    def __init__(
        self,
        model: KernelModel,
        assume: Collection[Assumption],
        registers: Iterable[int] = (),
        stable: frozenset[int] = frozenset(),
    ) -> None:
        self.model, self.assume, self.registers = model, frozenset(assume), tuple(registers)
        self.function, self.values = model.function, model.values
        self.assumed: set[Assumption] = set()
        self.of_index = _BY_INDEX if self.function.threads is not None else _BY_INDEX | {Assumption.SHAPE}
        """What a value that the index of the thread decides takes for granted."""
        stated = self.function.threads is not None or not self.function.bounds_several_dimensions
        self.by_index = stated and self.of_index <= self.assume
        """Whether the index of a thread may decide anything: not in a CTA of several dimensions of which only bounds are
        known."""
        self._holding: dict[int, int | None] = {}
        self.everyone = T.full(self.values.threads)
        self._indexed: dict[tuple[int, int, int, bool], Level] = {}
        blocks = [range(block.start, block.end) for block in model.cfg.blocks]
        graph = Graph(blocks, model.cfg.successors, model.cfg.exits)
        by_index = partial(self._by_index, self.everyone)
        self.of = Uniform(
            self.function,
            graph,
            UniformQuestions(
                by_index, self.values.constant_operand, self._unchanging, self._threads, self._partial_warp
            ),
            stable,
        )

    def outcome(self) -> Outcome:
        """The obligations, and whether the checker accepts the levels that discharge them."""
        obligations, reasons = list[Obligation](), list[Reason]()
        missing = dict(self._missing())
        for each in self.needed:
            why = missing.get(each.site, "") or self.refused(each)
            at = span(self.function, each.site)
            if why:
                reasons.append(self._reason(each, why))
            obligations.append(
                Obligation(
                    at,
                    None,
                    f"all threads of {_GROUP[each.level]} execute it together",
                    None if why else Discharge.UNIFORM,
                    why=why,
                )
            )
        reasons += self._leaving_calls()
        if not reasons:
            try:
                check_uniform(self.of, self.levels, self.needed, self._in_party)
                if self.parties is not None:
                    check_parties(self.parties, self.needed, self.certificate)
            except Refused as refused:
                reasons.append(Reason(span(self.function, refused.site), refused.why))
        return Outcome(tuple(obligations), tuple(reasons), frozenset(self.assumed))

    def _reason(self, of: Collective, why: str) -> Reason:
        """Why a collective instruction may not be executed together: the branch that decides it, if it is one."""
        at = self.of.decider(of, self.levels) if why == self.why(of) else of.site
        if at == of.site:
            return Reason(span(self.function, at), why, _HELP.get(why, ""))
        guard = self.function.instructions[at].guard
        condition = origin(self.model, self.values.before(guard, at)) if guard >= 0 else "an index in a table"
        what = f"the threads of {_GROUP[of.level]} may part at this branch, since it depends on {condition}"
        return Reason(span(self.function, at), what)

    def _missing(self) -> Iterator[tuple[int, str]]:
        """The collective instructions that some of the threads may not execute, or not at the same time, and why."""
        for each in self.needed:
            if self.parties is not None and self._in_party(each):
                why = self.parties.divergence(each, self.certificate)
            else:
                why = self.why(each)
            if why:
                yield each.site, why
        yield from self.of.phases()
        if self.parties is not None:
            yield from self.parties.mixed(self.needed, self.certificate.reaching)

    def _in_party(self, of: Collective) -> bool:
        """Whether an instruction is a barrier that counts some of the threads."""
        return self.parties is not None and self.parties.counted(of) is not None

    @cached_property
    def parties(self) -> Parties | None:
        """The barriers that count some of the threads; None if there are none, or the size of the CTA is unknown."""
        counts = [each for each in self.needed if self.model.instruction(each.site).role("count") is not None]
        size = self._threads() if counts else None
        if size is None or size != self.values.threads:
            return None
        return Parties(self.of, size, self.holding, self._by_index)

    @cached_property
    def certificate(self) -> PartiesCertificate:
        """The threads that may reach each block, and the levels of registers in each party."""
        parties, order = self.parties, self.of.order
        assert parties is not None
        reaching, work = {0: self.everyone}, [0]
        while work:
            block = work.pop()
            for edge in self.of.graph.successors[block]:
                known = reaching.get(edge.target, 0)
                reaching[edge.target] = known | parties.along(edge, reaching[block])
                if reaching[edge.target] != known:
                    work.append(edge.target)
        levels: dict[int, dict[int, Level]] = {}
        for each in self.needed:
            party = parties.party(each.site, reaching)
            if parties.counted(each) is not None and party not in levels:
                levels[party] = self._solved(parties.within(party))
        return PartiesCertificate({b: reaching.get(b, 0) for b in order}, levels, self.levels)

    @cached_property
    def needed(self) -> tuple[Collective, ...]:
        """The reachable collective instructions."""
        return tuple(collectives(self.function, sorted(self.of.block_of)))

    @property
    def deciding(self) -> Iterator[int]:
        """The instructions from which what decides branches and collective instructions is computed."""
        return (site for sites in self._slice.values() for site in sites)

    @cached_property
    def _outer(self) -> dict[int, Level]:
        return self.of.outer(self.levels)

    @cached_property
    def _diverged(self) -> frozenset[int]:
        return self.of.diverged(self.levels)

    def why(self, of: Collective) -> str:
        """Why the threads of a group may not execute a collective instruction together; "" if they do."""
        return self.of.divergence(of, self.levels, self._outer)

    def refused(self, of: Collective) -> str:
        """Why it may not be assumed that threads which have diverged execute a collective instruction together; "" if it may
        and is noted, or need not be."""
        if not of.together or self.of.block_of[of.site] not in self._diverged:
            return ""
        return self._unless(Assumption.RECONVERGENCE)

    def _unless(self, needed: Assumption) -> str:
        """Why something may not be assumed; "" if it may, and is noted."""
        if needed not in self.assume:
            return f"it may not be assumed: {needed.value}"
        self.assumed.add(needed)
        return ""

    def _leaving_calls(self) -> Iterable[Reason]:
        """The calls in which some of the threads may exit."""
        for site, instruction in enumerate(self.function.instructions):
            body = self.model.module.function(instruction.callee) if instruction.flow == "call" else None
            if body is not None and any(
                each.flow == "exit"
                for f in (body, *reached(body, self.model.module))
                for each in f.instructions
            ):
                yield Reason(span(self.function, site), f"some threads may exit in {body.name}")

    # ------------------------------------------------------------ levels

    @cached_property
    def levels(self) -> dict[int, Level]:
        """The level of each register on which a branch or a collective instruction depends."""
        return self._solved(self.of)

    def _solved(self, of: Uniform) -> dict[int, Level]:
        """The levels among the threads that *of* is about."""
        levels = dict.fromkeys(self._slice, Level.CLUSTER)
        changed = True
        while changed:
            changed = False
            outer = of.outer(levels)
            for register, sites in self._slice.items():
                for at in sites:
                    if levels[register] is Level.NONE:
                        break
                    level = max(outer[of.block_of[at]], of.written(register, at, levels))
                    if level > levels[register]:
                        levels[register], changed = level, True
        return levels

    @cached_property
    def _slice(self) -> dict[int, list[int]]:
        """The registers from which predicates are computed, each with the instructions that write it."""
        instructions, block_of = self.function.instructions, self.of.block_of
        ends = [self.of.graph.blocks[b][-1] for b in self.of.regions]
        work = [r for i in ends for r in instructions[i].reads]
        work += [instructions[i].guard for i in ends]
        work += [instructions[each.site].guard for each in self.needed]
        work += self.registers
        found: dict[int, list[int]] = {}
        while work:
            register = work.pop()
            if register not in found:
                sites = [i for i in self.values.defs.get(register, ()) if i in block_of]
                if sites:
                    found[register] = sites
                work += [r for i in sites for r in (*instructions[i].reads, instructions[i].guard) if r >= 0]
        return found

    # ------------------------------------------------------------ values

    def is_read_only(self, at: int) -> bool:
        """Whether a load is said to be from memory that no thread writes, if that may be assumed."""
        match = self.model.instruction(at).match
        if match is None or not match.modes.read_only or Assumption.READ_ONLY not in self.assume:
            return False
        self.assumed.add(Assumption.READ_ONLY)
        return True

    def _unchanging(self, at: int) -> bool:
        """Whether a load is from memory that no thread writes, by what it says or by what the kernel does, if that may be assumed."""
        if self.is_read_only(at):
            return True
        needed = frozenset((Assumption.READ_ONLY, Assumption.NO_ALIAS))
        if not needed <= self.assume or not self.model.fact(Pointers).unwritten(at):
            return False
        self.assumed |= needed
        return True

    def _threads(self) -> int | None:
        """The number of threads of the CTA, if it is stated or may be assumed."""
        if self.function.threads is None and self.function.most_threads is not None:
            if Assumption.FULL_CTA not in self.assume:
                return None
            self.assumed.add(Assumption.FULL_CTA)
        return self.function.most_threads

    def _partial_warp(self) -> str:
        """Why a warp may not have all its threads: the stated size of the CTA, or that whole warps may not be assumed."""
        if self.function.threads is None:
            return self._unless(Assumption.SHAPE)
        return "the CTA has an incomplete warp" if self.function.threads % WARP else ""

    def _by_index(self, threads: T.Threads, register: int, at: int, after: bool) -> Level:
        """The level of a register among *threads*, if its value depends on their index alone; ``NONE`` if not."""
        key = threads, register, at, after
        if key not in self._indexed:
            level = self._index_level(*key) if self.by_index else Level.NONE
            if level < Level.NONE:
                self.assumed |= self.of_index
            self._indexed[key] = level
        return self._indexed[key]

    def holding(self, register: int, at: int) -> T.Threads | None:
        """The threads in which a predicate is true just before an instruction; None unless their index alone decides."""
        return self.threads_where(self.values.before(register, at))

    def threads_where(self, predicate: int) -> T.Threads | None:
        """The threads in which a *predicate* is true; None unless their index alone decides."""
        if predicate not in self._holding:
            decided = self.by_index and index_alone(self.values, predicate)
            self._holding[predicate] = self.values.mask(predicate) if decided else None
            if self._holding[predicate] is not None:
                self.assumed |= self.of_index
        return self._holding[predicate]

    def _index_level(self, threads: T.Threads, register: int, at: int, after: bool) -> Level:
        values, kind = self.values, self.function.registers[register].type
        value = (values.after if after else values.before)(register, at)
        if not index_alone(values, value):
            return Level.NONE
        planes: tuple[int, ...] | None
        if kind == ".pred":
            mask = values.mask(value)
            planes = None if mask is None else (mask,)
        else:
            planes = values.exact_slices(value)
        if planes is None:
            return Level.NONE
        if all(plane & threads in (0, threads) for plane in planes):
            return Level.CLUSTER
        for level, size in ((Level.WARPGROUP, 128), (Level.WARP, 32)):
            if not any(T.partial_groups(plane, threads, size) for plane in planes):
                return level
        return Level.NONE
