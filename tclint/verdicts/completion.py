"""Completion of operations before what they write is used: wgmma, ``tcgen05.ld`` and ``tcgen05.st``, ``cp.async``, and
copies in bulk groups.

What may be pending is the fixpoint of the transfer functions of the checker: no fact ends at an edge, and a guarded
instruction may or may not execute, whatever is known of the threads. The obligations, with what discharges each, are a
certificate that :mod:`tclint.verdicts.checker` accepts or refuses.

What a proof trusts besides the checker: the ISA table (events, groups, operands), the control-flow graph, and, for
obligations that an infeasible path discharges, :func:`~tclint.dataflow.feasible_paths.find_paths`, whose answer holds
under the assumptions of :mod:`tclint.values`. That search is given the transfer functions of the checker. It is not asked
in a kernel that dispatches roles by a table in memory or reads %warpid or %smid, because what :mod:`tclint.values` assumes of
these is not among the assumptions that a proof may name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property

from tclint.analyses.in_flight import Pending, State
from tclint.analyses.model import KernelModel
from tclint.analyses.pointers import Pointers
from tclint.analyses.provenance import origin
from tclint.dataflow import GaveUp, Infeasible, PathQuery, find_paths, next_answer, solve
from tclint.dataflow.may import May
from tclint.findings.spans import span
from tclint.findings.verdicts import Assumption, Discharge, Obligation, Reason
from tclint.ir.nodes import Instruction
from tclint.isa.effects import BULK, GENERIC_COPIES, TCGEN05_ALL, TCGEN05_LD, WGMMA, Engine, Order
from tclint.sync.operations import OPEN
from tclint.verdicts.checker import (
    TENSOR,
    CompletionCertificate,
    CompletionQuestions,
    CompletionTransfer,
    Graph,
    ProofObligation,
    Refused,
    WgmmaFenced,
    check,
    copies_of,
    origins,
    reads_result,
    releases,
    touches_shared,
    writes_shared,
)
from tclint.verdicts.disjoint import AccessedBytes, columns_disjoint
from tclint.verdicts.outcome import Outcome
from tclint.verdicts.paths import PATH_ASSUMPTIONS, RelevantSites, path_assumptions, value_assumptions
from tclint.verdicts.rings import RingStates

__all__ = [
    "BULK_GROUPS",
    "COPY_GROUPS",
    "TENSOR_GROUPS",
    "WGMMA_GROUPS",
    "Completion",
    "bulk_completion",
]

BULK_GROUPS = frozenset((BULK,))
COPY_GROUPS = frozenset(GENERIC_COPIES)
WGMMA_GROUPS = frozenset((WGMMA,))
TENSOR_GROUPS = TENSOR
MAX_OBLIGATIONS = 50_000
"""The obligations of one class in one kernel that a proof may have."""
MAX_OPEN = 32
"""The obligations that are not discharged after which no addresses are compared and no paths are searched for."""

_WHAT = {
    "registers": "it has completed before its registers are used",
    "columns": "it has completed before an operation that must not be reordered with it",
    "bytes": "it has completed before the thread accesses the bytes that it writes",
    "source": "its source has been read before the thread overwrites it",
    "result": "its result has been written before the thread reads it",
    "release": "it has completed before the thread signals others or calls a function",
    "exit": "it has completed before the kernel exits",
    "fence": "a wgmma.fence follows the last access of its registers",
}


def bulk_completion(model: KernelModel, assume: Collection[Assumption]) -> Outcome:
    """The obligations about the sources of bulk copies, then those about their results."""
    parts = [Completion(model, BULK_GROUPS, assume, sources=each).outcome() for each in (True, False)]
    return Outcome(
        tuple(obligation for part in parts for obligation in part.obligations),
        tuple(reason for part in parts for reason in part.reasons),
        frozenset[Assumption]().union(*(part.assumptions for part in parts)),
        tuple(query for part in parts for query in part.closed),
    )


class Completion:
    """The obligations of the operations of *groups* in one kernel, and what discharges them.

    With *sources*, bulk copies are complete when their sources have been read.
    """

    def __init__(
        self,
        model: KernelModel,
        groups: frozenset[Engine],
        assume: Collection[Assumption],
        *,
        sources: bool = False,
    ) -> None:
        self.model, self.groups, self.assume, self.sources = model, groups, frozenset(assume), sources
        self.cfg, self.instructions = model.cfg, model.function.instructions
        self.transfer = CompletionTransfer(
            model.function,
            groups,
            (i for b in self.cfg.order for i in range(self.cfg.blocks[b].start, self.cfg.blocks[b].end)),
            sources=sources,
        )
        self.relevant = RelevantSites(self.cfg)
        self.pending = solve(May(self.transfer.affecting, self.transfer.executed), self.cfg)
        self.fences = WgmmaFenced(self.transfer)
        affecting = [i for i, each in enumerate(self.instructions) if self.fences.affects(i, each)]
        self.unfenced = solve(May(affecting, self.fences.after, self.fences.used), self.cfg)
        self.assumed: set[Assumption] = set()
        self._last: tuple[int, State] = -1, frozenset()
        self._answers: dict[ProofObligation, bool] = {}
        self._closed: dict[ProofObligation, PathQuery] = {}
        """The searches that found no path."""
        self._limits: dict[ProofObligation, str] = {}
        """Obligation -> the limit that ended the search for what discharges it, in words."""

    def outcome(self) -> Outcome:
        """The obligations, and whether the checker accepts what discharges them."""
        needs = set[ProofObligation]()
        for need in self.needs():  # there may be one for each pair of instructions
            needs.add(need)
            if len(needs) > MAX_OBLIGATIONS:
                return Outcome(reasons=(Reason(None, f"it has more than {MAX_OBLIGATIONS} obligations"),))
        claims: dict[ProofObligation, Discharge] = {}
        obligations, reasons = list[Obligation](), list[Reason]()
        waits = self._waits()
        for need in sorted(needs, key=lambda n: (n.use, n.operation, n.what)):
            discharge = self._discharge(need, cheap=len(reasons) >= MAX_OPEN)
            if discharge is None:
                why = self._why(need)
                reasons.append(Reason(span(self.model.function, need.use), why, self._help(need)))
            else:
                claims[need], why = discharge, ""
            by = waits.get(need.operation, ()) if discharge is Discharge.WAIT and need.what != "fence" else ()
            obligations.append(
                Obligation(
                    span(self.model.function, need.operation),
                    None if need.what == "fence" else span(self.model.function, need.use),
                    _WHAT[need.what],
                    discharge,
                    tuple(span(self.model.function, wait) for wait in by),
                    why,
                )
            )
        if not reasons:
            try:
                check(self.model.function, self.graph, self.certificate(claims), self._questions())
            except Refused as refused:
                reasons.append(Reason(span(self.model.function, refused.site), refused.why))
        return Outcome(
            tuple(obligations), tuple(reasons), frozenset(self.assumed), tuple(self._closed.values())
        )

    @cached_property
    def graph(self) -> Graph:
        """The control flow for the checker."""
        blocks = [range(block.start, block.end) for block in self.cfg.blocks]
        return Graph(blocks, self.cfg.successors, self.cfg.exits)

    def certificate(self, claims: Mapping[ProofObligation, Discharge]) -> CompletionCertificate:
        """The *claims* with what may be pending at each block."""
        return CompletionCertificate(
            self.groups, self.pending.entry, self.unfenced.entry, claims, self.sources
        )

    def before(self, at: int) -> State:
        """What may be pending before an instruction."""
        if self._last[0] != at:
            self._last = at, self.pending.before(at)
        return self._last[1]

    # ------------------------------------------------------------ obligations

    def needs(self) -> Iterator[ProofObligation]:
        """The obligations of the kernel, in no particular order and possibly repeatedly."""
        model, instructions = self.model, self.instructions
        reachable = [
            i for b in self.cfg.order for i in range(self.cfg.blocks[b].start, self.cfg.blocks[b].end)
        ]
        calls = {i for i in reachable if instructions[i].flow == "call"}
        loud = calls | {i for i in reachable if releases(instructions[i])}
        ends = [self.cfg.blocks[b].end - 1 for b in self.cfg.order if b in self.cfg.exits]
        columns = [i for i in reachable if instructions[i].effects.begins in TCGEN05_ALL]
        shared = [i for i in reachable if touches_shared(instructions[i])]
        overwriting = [i for i in reachable if writes_shared(instructions[i])]
        for site, operation in self.transfer.operations.items():
            group = operation.group
            wgmma, tensor = group == WGMMA, group in TENSOR
            if wgmma:
                yield ProofObligation(site, site, "fence")
            for use in self._accesses(site, wgmma):
                if self.cfg.block_of[use] in self.cfg.rank and model.reaches(site, use):
                    yield ProofObligation(site, use, "registers")
            ends_first = operation.results or operation.sources or (operation.takes and self.sources)
            if model.function.entry and ends_first:
                yield from (
                    ProofObligation(site, end, "exit")
                    for end in ends
                    if site == end or model.reaches(site, end)
                )
            yield from (
                ProofObligation(site, i, "release")
                for i in (loud if tensor else calls)
                if model.reaches(site, i)
            )
            for use in columns if tensor else ():
                if not group == instructions[use].group == TCGEN05_LD and model.reaches(site, use):
                    yield ProofObligation(site, use, "columns")
            if operation.fills:
                yield from (ProofObligation(site, i, "bytes") for i in shared if model.reaches(site, i))
            if operation.takes and self.sources:
                yield from (ProofObligation(site, i, "source") for i in overwriting if model.reaches(site, i))
            elif operation.takes:
                read = (i for i in reachable if reads_result(instructions[site], instructions[i]))
                yield from (ProofObligation(site, i, "result") for i in read if model.reaches(site, i))
        yield from self._uses_of_copies()

    def _accesses(self, site: int, wgmma: bool) -> Iterator[int]:
        """The instructions that read results of the operation *site*, or overwrite its registers."""
        instructions, operation = self.instructions, self.transfer.operations[site]
        for register in operation.results:
            for use in self.model.readers.get(register, ()):
                if not (wgmma and instructions[use].renames):
                    yield use
        for register in operation.sources if wgmma else ():
            for use in self.model.readers.get(register, ()):
                if instructions[use].group != WGMMA and not instructions[use].renames:
                    yield use
        for register in operation.results | operation.sources:
            for use in self.model.values.defs.get(register, ()):
                if not (wgmma and instructions[use].renames and self._restores(site, use, register)):
                    yield use

    def _restores(self, site: int, move: int, register: int) -> bool:
        """Whether a *move* to *register* restores what it holds: a copy of it and of nothing else."""
        source = self.instructions[move].reads[0]
        return source == register or origins(self.before(move), site, source) == {register}

    def _uses_of_copies(self) -> Iterator[ProofObligation]:
        """The obligations about copies of results, which exist only while the operation is pending."""
        for register in self.transfer.copies:
            for use in self.model.readers.get(register, ()):
                if self.cfg.block_of[use] in self.cfg.rank and not self.instructions[use].renames:
                    state = self.before(use)
                    yield from (
                        ProofObligation(p.site, use, "registers")
                        for p in state
                        if p.copy == register and p.origin >= 0
                    )

    # ------------------------------------------------------------ discharges

    def _discharge(self, need: ProofObligation, *, cheap: bool = False) -> Discharge | None:
        """What discharges an obligation; None if nothing is known to. With *cheap*, only the strict state is asked."""
        self.model.pause()
        if need.what == "fence":
            return Discharge.WAIT if self._fenced_at(need.use) else None
        if self._waited(need):
            return Discharge.WAIT
        if need.what == "registers" and self._in_order(need):
            return Discharge.ORDERED
        if cheap:
            self._limits[need] = f"beyond {MAX_OPEN} open obligations, no paths are searched for"
            return None
        if need.what in ("columns", "bytes", "source", "result") and self._disjoint(need, self.pending.entry):
            return Discharge.DISJOINT
        return Discharge.INFEASIBLE if self._infeasible(need, self.transfer) else None

    def _fenced_at(self, site: int) -> bool:
        """Whether a fence follows the last access of each register of a wgmma on every path."""
        operation = self.transfer.operations[site]
        return self.unfenced.before(site).isdisjoint(operation.results | operation.sources)

    def _waited(self, need: ProofObligation) -> bool:
        """Whether the operation is not pending at its use, on any path."""
        state = self.before(need.use)
        if need.what == "exit":
            state = self.transfer.after(state, need.use)
        return all(p.site != need.operation for p in state)

    def _in_order(self, need: ProofObligation) -> bool:
        """Whether the use reads what a load fills, or is a wgmma with the same accumulators and the same shape."""
        if self.transfer.operations[need.operation].feeds(self.instructions[need.use]):
            return True
        first, second = self.transfer.operations[need.operation], self.transfer.operations.get(need.use)
        if second is None:
            return False
        return first.precedes(second, copies_of(self.before(need.use), need.operation))

    def _disjoint(self, need: ProofObligation, pending: Sequence[State]) -> bool:
        """Whether an operation and an access have no columns or bytes in common while the operation is pending."""

        def passes(kind: str, at: int) -> bool:
            """Whether the thread may enter the block, or execute the instruction *at*, while it is pending."""
            block = at if kind == "block" else self.cfg.block_of[at]
            inside = kind != "block" and block == self.cfg.block_of[need.operation] and need.operation < at
            return inside or any(p.site == need.operation for p in pending[block])

        if need.what == "result":
            return self._is_read_only(need.use) or self._is_elsewhere(need)
        needed = PATH_ASSUMPTIONS if need.what in ("bytes", "source") else {Assumption.NO_OVERFLOW}
        if need.what != "columns":
            needed = needed.union(*map(self.bytes.assumptions, (need.operation, need.use)))
        if not (self.assume >= needed and self._follows_values):
            return False
        if need.what == "columns":
            disjoint = columns_disjoint(self.model, need.operation, need.use, passes)
        else:
            disjoint = self.bytes.disjoint(need.operation, need.use, passes)
            if limit := self.bytes.rings.limits.get((need.operation, need.use)):
                self._limits[need] = limit
        if not disjoint:
            return False
        self.assumed |= needed | (self._of_values or frozenset())
        return True

    @cached_property
    def bytes(self) -> AccessedBytes:
        """The bytes of shared memory that the kernel accesses."""
        return AccessedBytes(self.model, RingStates(self.model, self.transfer))

    def _is_read_only(self, load: int) -> bool:
        """Whether an instruction loads memory that no thread writes while the kernel runs, if that may be assumed."""
        match = self.instructions[load].match
        if match is None or not match.modes.read_only or Assumption.READ_ONLY not in self.assume:
            return False
        self.assumed.add(Assumption.READ_ONLY)
        return True

    def _is_elsewhere(self, need: ProofObligation) -> bool:
        """Whether an instruction does nothing but read global memory, by other pointers than the operation writes to."""
        use = self.instructions[need.use]
        if use.order is not Order.WEAK or any(access.writes for access in use.accesses):
            return False  # another thread may take it for a sign that the result is there
        if Assumption.NO_ALIAS not in self.assume:
            return False
        apart = self.model.fact(Pointers).sites_apart(need.operation, need.use)
        self.assumed |= {Assumption.NO_ALIAS} if apart else set()
        return apart

    @cached_property
    def _of_values(self) -> frozenset[Assumption] | None:
        return value_assumptions(self.model)

    @cached_property
    def _follows_values(self) -> bool:
        """Whether a proof may rely on what values know of elected lanes and allocated addresses."""
        return self._of_values is not None and self.assume >= self._of_values

    @cached_property
    def _searchable(self) -> bool:
        """Whether a proof may rely on infeasible paths: see the docstring of this module."""
        return (
            self.model.fact(path_assumptions) is not None
            and self.assume >= PATH_ASSUMPTIONS
            and self._follows_values
        )

    def _infeasible(self, need: ProofObligation, transfer: CompletionTransfer) -> bool:
        """Whether no feasible path leads from the operation to the use on which it is pending."""
        if not self._searchable or need.what in ("fence", "bytes"):
            return False  # a path is one of the issuing threads alone, and others access the bytes
        if need not in self._answers:
            self._answers[need] = self._search(need, transfer)
        if self._answers[need]:
            self.assumed |= PATH_ASSUMPTIONS | (self._of_values or frozenset())
        return self._answers[need]

    def _search(self, need: ProofObligation, transfer: CompletionTransfer) -> bool:
        site, use = need.operation, need.use
        block_of = self.cfg.block_of
        if need.what == "exit" and not self.instructions[use].exits:
            return False

        def step(state: State, at: int, instruction: Instruction) -> State | None:
            after = transfer.executed(state, at, instruction)
            return frozenset(p for p in after if p.site == site) or None

        def goal(state: State, at: int) -> bool:
            return at == use

        query = PathQuery(
            start=site,
            context=self.model.views.context_in_iteration(site),
            fact=frozenset((Pending(site, OPEN),)),
            relevant=self.relevant.of(transfer.affecting, use),
            step=step,
            goal=goal,
            goals=(block_of[use],),
        )
        answer = next_answer(find_paths(self.model.search_cache, query))
        if isinstance(answer, GaveUp):
            self._limits[need] = f"the search for one ended: {answer.why}"
        if isinstance(answer, Infeasible):
            self._closed[need] = query
        return isinstance(answer, Infeasible)

    def _questions(self) -> CompletionQuestions:
        """What the checker asks, with answers of its own transfer functions."""
        self._answers = {}
        return CompletionQuestions(self._infeasible, self._disjoint)

    # ------------------------------------------------------------ explanations

    def _waits(self) -> dict[int, list[int]]:
        """Operation -> the waits that complete it on some path."""
        found: dict[int, list[int]] = {}
        for group in self.groups:
            for wait in self.model.waits(group):
                before = self.before(wait)
                after = self.transfer.executed(before, wait, self.instructions[wait])
                for site in {p.site for p in before} - {p.site for p in after}:
                    found.setdefault(site, []).append(wait)
        return found

    def _why(self, need: ProofObligation) -> str:
        """Why it is not known whether an obligation holds."""
        operation = "bulk copy" if self.groups == BULK_GROUPS else self.model.name(need.operation)
        if need.what == "fence":
            return "a register of the wgmma may have been accessed since the last wgmma.fence"
        at = {
            "registers": "uses a register of",
            "columns": "may access the columns of",
            "bytes": "may access the bytes of",
            "source": "may overwrite the source of",
            "result": "may read the result of",
        }.get(need.what)
        if at is None:
            at = "signals other threads after" if need.what == "release" else "ends the kernel after"
        limit = f"; {self._limits[need]}" if need in self._limits else self._unknown_bytes(need)
        return f"it {at} a {operation} that may be pending on some path{limit}"

    def _unknown_bytes(self, need: ProofObligation) -> str:
        """What is not known of the bytes that an operation and an access have in common; "" if nothing, or no bytes are."""
        for site in (need.operation, need.use) if need.what in ("bytes", "source") else ():
            ranges = self.bytes.of(site)
            if ranges is None:
                return f"; which bytes {self.model.name(site)} accesses is not known"
            for address, _ in ranges:
                if (part := self.bytes.unknown(address)) is not None:
                    return f"; an address in {self.model.name(site)} depends on {origin(self.model, part)}"
        return ""

    def _help(self, need: ProofObligation) -> str:
        """What would make it known."""
        if need.what == "fence":
            return "execute a wgmma.fence after the last access on every path"
        return f"execute {self.instructions[need.operation].group.words.wait} before it on every path"
