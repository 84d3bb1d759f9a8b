"""Accepts or refuses a certificate that registers and columns are used only when the operations on them have completed.

A certificate claims which operations may be pending at the entry of each block, and why each obligation of the kernel
holds. The checker trusts neither it nor the solver and the analyses that made it. From the instructions and the edges of
the control-flow graph alone, it verifies that

- nothing is missing at an entry: what is pending at the end of a block is among what the certificate has for each of its
  successors, so by induction no path has more pending than the certificate says;
- each obligation, which the checker enumerates itself, is claimed, and its operation is not pending there; or the claim
  is one that the checker decides again: that the ISA orders the two, that their columns are disjoint, or that no
  feasible path keeps the operation pending (:class:`CompletionQuestions`).

**Transfer** (PTX ISA 9.7.15.7, 9.7.16.6.2). An operation is pending from its issue. A commit makes each group one older,
and the open operations a group of age 0; a wait for N completes the groups of age N or more; a wait without a number
completes all operations of its group. Nothing else completes an operation: not a branch, a barrier, a call, or what is
known of the threads. A guarded instruction may or may not execute. A ``mov`` of a register that a ``wgmma`` may still
write makes a copy that is as pending as the original, since ``ptxas`` renames; to move a copy back is not an access if the
register cannot hold anything else; any other ``mov`` is one.

**Obligations.** An operation has completed before an instruction reads its results, overwrites its registers, calls a
function or leaves the kernel; nothing but another ``wgmma`` reads the A fragment of one. The ISA itself
makes a read wait for a ``tcgen05.ld`` (9.7.16.6.4.5), and orders ``wgmma`` on the same accumulators (9.7.15.7.1). A
``wgmma.fence`` follows the last access of each register that a ``wgmma`` uses, by a ``mov`` too; accesses of accumulators
by ``wgmma`` of one shape need none.
Operations on tensor memory have completed before the thread signals other threads, and before it issues
another operation on their columns, unless both read. A ``cp.async`` has completed before the thread accesses bytes that it, or
another thread in step with it, copies there.

A bulk copy of a group completes in two steps (9.7.9.27.2), of which a certificate is about one. Its *sources* have been
read before the thread may overwrite shared memory, and before it leaves the kernel; a wait with ``.read`` is enough. Its
results have been written before the thread may read global memory, which needs a wait without ``.read``. A copy that
completes on an mbarrier is in no group: any thread may wait for it, and that is another class.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from tclint._dataclass import dataclass
from tclint._named_tuple import NamedTuple
from tclint.analyses.in_flight import Pending, State, Strict
from tclint.findings.verdicts import Discharge
from tclint.ir.cfg import Edge
from tclint.ir.nodes import Function, Instruction, Vector, registers
from tclint.isa.accesses import Proxy, StateSpace, Via
from tclint.isa.effects import BULK, TCGEN05_ALL, TCGEN05_LD, TENSOR_MEMORY, WGMMA, Fence, Resource
from tclint.sync.operations import OPEN

__all__ = [
    "CompletionCertificate",
    "CompletionQuestions",
    "CompletionTransfer",
    "Graph",
    "ProofObligation",
    "Refused",
    "WgmmaFenced",
    "check",
    "copies_of",
    "names_shared",
    "origins",
    "reads_result",
    "releases",
    "touches_shared",
    "writes_shared",
]

OTHER = -2
"""What a register may hold that is not a copy."""
TENSOR = frozenset(TENSOR_MEMORY)
"""The groups of operations on tensor memory that a thread waits for itself."""


def origins(state: State, site: int, register: int) -> set[int]:
    """The registers of the operation *site* that *register* may be a copy of; OTHER if it may hold something else."""
    return {p.origin for p in state if p.site == site and p.copy == register}


def copies_of(state: State, site: int) -> dict[int, set[int]]:
    """The registers that may hold copies of results of the operation *site*, each with what they may be copies of."""
    copies: dict[int, set[int]] = {}
    for p in state:
        if p.site == site and p.origin >= 0:
            copies.setdefault(p.copy, set()).add(p.origin)
    return copies


class ProofObligation(NamedTuple):
    """An obligation about *operation* at the instruction *use*."""

    operation: int
    use: int
    what: str
    """``registers``, ``columns``, ``bytes``, ``source``, ``result``, ``release``, ``exit``; or ``fence``, where both are the
    same instruction."""


@dataclass(frozen=True)
class CompletionCertificate:
    """The claims of a proof about the operations of *groups* in one function."""

    groups: frozenset[str]
    pending: Sequence[State]
    """What may be pending at the entry of each block."""
    unfenced: Sequence[frozenset[int]]
    """The registers that may have been accessed since the last ``wgmma.fence``, at the entry of each block."""
    claims: Mapping[ProofObligation, Discharge]
    sources: bool = False
    """Whether it is about bulk copies until their sources have been read, and not until their results are written."""


class Graph(NamedTuple):
    """The control flow of a function."""

    blocks: Sequence[range]
    """The instructions of each block; the first one is the entry."""
    successors: Sequence[Sequence[Edge]]
    exits: Collection[int]
    """The blocks that leave the function."""

    def reached(self, starts: Iterable[int]) -> frozenset[int]:
        """The blocks *starts*, and all that can follow them."""
        found, work = set[int](), list(starts)
        while work:
            block = work.pop()
            if block not in found:
                found.add(block)
                work += [edge.target for edge in self.successors[block]]
        return frozenset(found)


class CompletionQuestions(NamedTuple):
    """What the checker asks others, since it knows no values; True is a proof."""

    infeasible: Callable[[ProofObligation, CompletionTransfer], bool]
    """Whether no feasible path leads from the operation to the use on which it is pending."""
    disjoint: Callable[[ProofObligation, Sequence[State]], bool]
    """Whether two operations on tensor memory, or a copy and an access of memory, have nothing in common while the first
    is pending, given what may be pending at the entry of each block."""


class Refused(Exception):
    """The certificate does not prove what it claims; *site* is the instruction where it fails."""

    def __init__(self, site: int, why: str, need: ProofObligation | None = None) -> None:
        super().__init__(why)
        self.site, self.why, self.need = site, why, need


class _Operation:
    """An asynchronous operation with the registers that it uses after its issue."""

    def __init__(self, instruction: Instruction) -> None:
        match = instruction.match
        assert match is not None
        self.instruction, self.group = instruction, match.form.group
        self.results, self.sources = instruction.results, instruction.fragments
        accumulators = instruction.named("d")
        self.accumulators = registers(accumulators) if isinstance(accumulators, Vector) else ()
        self.kind = match.binding.get("shape"), match.binding.get("dtype")
        own = [a for a in match.accesses if a.later and a.via is Via.ADDRESS and a.space is StateSpace.SHARED]
        self.fills = any(a.writes for a in own)
        """Whether it copies to shared memory."""
        self.takes = any(not a.writes for a in own)
        """Whether it copies or reduces from shared memory."""

    def feeds(self, instruction: Instruction) -> bool:
        """Whether it is a load whose registers *instruction* reads, which makes it wait (9.7.16.6.4.5).

        It may overwrite those alone that it also reads.
        """
        overwritten = self.results.intersection(instruction.writes)
        return self.group == TCGEN05_LD and overwritten.issubset((*instruction.reads, instruction.guard))

    def precedes(self, later: _Operation, copies: Mapping[int, Collection[int]]) -> bool:
        """Whether the ISA orders the two as accesses of the same accumulators in the same shape (9.7.15.7.1).

        *copies* are the registers that hold copies of its results, each with the registers that they may be copies of.
        """
        if not self.group == later.group == WGMMA or self.kind != later.kind:
            return False
        own, its = self.accumulators, later.accumulators
        aligned = len(own) == len(its) and all(
            copies.get(b, ()) in ((), {a}) and (a == b or b not in self.results)
            for a, b in zip(own, its, strict=True)
        )
        fragments = later.sources.isdisjoint(self.results) and later.sources.isdisjoint(copies)
        return aligned and fragments and later.results.isdisjoint(self.sources)


def releases(instruction: Instruction) -> bool:
    """Whether other threads may continue because of *instruction*."""
    effects = instruction.effects
    if effects.begins is not None:
        return instruction.order.releases or any(a.object for a in instruction.accesses)
    return instruction.order.releases or effects.publishes


def names_shared(instruction: Instruction) -> bool:
    """Whether *instruction* may access shared memory, now or later, whatever its generic addresses are."""
    return instruction.match is None or any(a.space is StateSpace.SHARED for a in instruction.accesses)


def touches_shared(instruction: Instruction) -> bool:
    """Whether *instruction* may access shared memory, now or later; calls are not considered."""
    return instruction.match is None or any(a.shared for a in instruction.accesses)


def writes_shared(instruction: Instruction) -> bool:
    """Whether *instruction* may overwrite data in shared memory, now or later; calls are not considered.

    Of the operations on an mbarrier, only its initialisation does: the others need an mbarrier there, which is not data.
    """
    if instruction.match is None or instruction.effects.resource is Resource.MBARRIER_INIT:
        return True
    return any(a.writes and a.shared and not a.object for a in instruction.accesses)


def reads_result(operation: Instruction, instruction: Instruction) -> bool:
    """Whether *instruction* may read what the bulk copy *operation* writes, in global memory; calls are not considered.

    Two equal reductions may be performed in any order (9.7.9.25.4.2). A tensor map is none of the copied bytes.
    """
    match, copy = instruction.match, operation.match
    if match is None or copy is None:
        return True
    if "redOp" in copy.binding and match.form is copy.form and match.binding == copy.binding:
        return False
    return any(
        a.outside and a.proxy is not Proxy.MAP and (a.via is Via.HANDLE or not a.writes)
        for a in match.accesses
    )


class CompletionTransfer(Strict):
    """The operations that may be pending, and the copies of registers that they may still write."""

    def __init__(
        self, function: Function, groups: Collection[str], sites: Iterable[int], *, sources: bool = False
    ) -> None:
        super().__init__(function, groups, sites, sources=sources)
        self.operations = {i: _Operation(self.instructions[i]) for i in sorted(self.begun)}
        wgmma = (o.results for o in self.operations.values() if o.group == WGMMA)
        self.renamed = frozenset[int]().union(*wgmma)
        """The registers that a ``mov`` makes a copy of."""
        self.copies = function.copies(self.renamed)
        """The registers that may hold copies."""
        self.restoring = self.copies & function.copies(self.renamed, back=True)
        """Those of them that a ``mov`` may move back to where they are from."""
        self.affecting |= {
            i for i, each in enumerate(self.instructions) if not self.copies.isdisjoint(each.writes)
        }

    def executed(self, state: State, at: int, instruction: Instruction) -> State:
        after = super().executed(state, at, instruction)
        if at in self.begun:
            others = self.restoring - self.operations[at].results
            return after.union(Pending(at, OPEN, register, OTHER) for register in others)
        return after if self.copies.isdisjoint(instruction.writes) else self._written(after, instruction)

    def _written(self, state: State, instruction: Instruction) -> State:
        """The state after an instruction that writes registers which may hold copies."""
        kept = {p for p in state if p.copy < 0 or p.copy not in instruction.writes}
        source = instruction.reads[0] if instruction.renames else -1
        held: dict[int, set[int]] = {}
        for p in state if source >= 0 else ():
            if p.copy == source:
                held.setdefault(p.site, set()).add(p.origin)
            elif p.copy < 0 and source in self.operations[p.site].results:
                held.setdefault(p.site, set()).add(source)
        for p in state:
            for target in instruction.writes if p.copy < 0 else ():
                unknown = (OTHER,) if target in self.restoring else ()
                found = held.get(p.site, unknown)
                kept |= {Pending(p.site, p.age, target, origin) for origin in found if origin != target}
        return state if kept == state else frozenset(kept)


class WgmmaFenced:
    """The registers of wgmma operations that were accessed since the last ``wgmma.fence`` (9.7.15.7.1).

    Every read and write is an access, that of a ``mov`` too; only wgmma of one shape need no fence for the accumulators
    that they share.
    """

    def __init__(self, transfer: CompletionTransfer) -> None:
        self.operations = {i: o for i, o in transfer.operations.items() if o.group == WGMMA}
        self.used = frozenset(r for o in self.operations.values() for r in o.results | o.sources)
        kinds: dict[int, set[object]] = {}
        for operation in self.operations.values():
            for register in operation.sources:
                kinds.setdefault(register, set()).add("A")
            for register in operation.results:
                kinds.setdefault(register, set()).add((operation.accumulators, operation.kind))
        self.mixed = frozenset(r for r, used_as in kinds.items() if len(used_as) > 1)
        """Registers that are accumulators of several shapes, or both accumulators and fragments."""

    def affects(self, at: int, instruction: Instruction) -> bool:
        """Whether instruction *at* can change what is unfenced."""
        touched = (*instruction.reads, *instruction.writes, instruction.guard)
        return at in self.operations or bool(instruction.event) or not self.used.isdisjoint(touched)

    def after(self, unfenced: frozenset[int], at: int, instruction: Instruction) -> frozenset[int]:
        """The registers that are unfenced after an instruction, whose guard may be true or false."""
        if at in self.operations:
            return unfenced | (self.operations[at].results & self.mixed)
        if instruction.effects.fence is Fence.REGISTERS and instruction.group == WGMMA:
            return unfenced if instruction.guard >= 0 else frozenset()
        touched = self.used.intersection((*instruction.reads, *instruction.writes, instruction.guard))
        return unfenced if touched <= unfenced else unfenced | touched


def check(
    function: Function, graph: Graph, certificate: CompletionCertificate, questions: CompletionQuestions
) -> frozenset[ProofObligation]:
    """The obligations of *function*, all of which *certificate* proves. Raises :class:`Refused` if it does not."""
    return _Checker(function, graph, certificate, questions).run()


class _Checker:
    def __init__(
        self,
        function: Function,
        graph: Graph,
        certificate: CompletionCertificate,
        questions: CompletionQuestions,
    ) -> None:
        self.function, self.graph = function, graph
        self.certificate, self.questions = certificate, questions
        self.order = sorted(graph.reached((0,)))
        reachable = [i for b in self.order for i in graph.blocks[b]]
        self.transfer = CompletionTransfer(
            function, certificate.groups, reachable, sources=certificate.sources
        )
        self.fences = WgmmaFenced(self.transfer)
        self.users: dict[int, set[int]] = {}
        """Register -> the operations that use it."""
        self.before: dict[int, set[int]] = {b: set() for b in self.order}
        """Block -> the operations that may have been issued before it."""
        for b in self.order:
            issued = [i for i in graph.blocks[b] if i in self.transfer.operations]
            following = graph.reached(edge.target for edge in graph.successors[b]) if issued else ()
            for after in following:
                self.before[after].update(issued)
            for i in issued:
                operation = self.transfer.operations[i]
                for register in operation.results | operation.sources:
                    self.users.setdefault(register, set()).add(i)
        self.needed: set[ProofObligation] = set()

    def run(self) -> frozenset[ProofObligation]:
        graph, certificate = self.graph, self.certificate
        if not self.fences.used <= certificate.unfenced[0]:
            raise Refused(0, "the certificate assumes a wgmma.fence before the entry")
        for b in self.order:
            state, unfenced, before = certificate.pending[b], certificate.unfenced[b], self.before[b]
            for i in graph.blocks[b]:
                instruction = self.function.instructions[i]
                if i in self.fences.operations:
                    self._fenced(i, unfenced)
                if before:
                    self._accesses(i, instruction, state, before)
                if i in self.transfer.operations:
                    before = before | {i}
                state = self.transfer.after(state, i)
                unfenced = self.fences.after(unfenced, i, instruction)
            last = graph.blocks[b][-1]
            if b in graph.exits and self.function.entry:
                for site in before:
                    if self._ends_before_exit(self.transfer.operations[site]):
                        self._require(ProofObligation(site, last, "exit"), state)
            for edge in graph.successors[b]:
                if not state <= certificate.pending[edge.target]:
                    raise Refused(last, "the certificate omits an operation that is pending after this block")
                if not unfenced <= certificate.unfenced[edge.target]:
                    raise Refused(last, "the certificate omits an access that no wgmma.fence follows")
        if extra := certificate.claims.keys() - self.needed:
            need = min(extra)
            raise Refused(
                need.use, "the certificate claims an obligation that the kernel does not have", need
            )
        return frozenset(self.needed)

    def _ends_before_exit(self, operation: _Operation) -> bool:
        """Whether the kernel may not exit while *operation* is pending."""
        return bool(operation.results or operation.sources) or (operation.takes and self.certificate.sources)

    def _fenced(self, i: int, unfenced: frozenset[int]) -> None:
        need, operation = ProofObligation(i, i, "fence"), self.fences.operations[i]
        self.needed.add(need)
        clean = unfenced.isdisjoint(operation.results | operation.sources)
        if not clean or self.certificate.claims.get(need) is not Discharge.WAIT:
            raise Refused(i, "no wgmma.fence follows the last access of its registers on every path", need)

    def _accesses(self, i: int, instruction: Instruction, state: State, before: Collection[int]) -> None:
        """The obligations at instruction *i*; *before* are the operations that may have been issued."""
        touched = set(instruction.reads).union(instruction.writes, (instruction.guard,))
        sites = {site for register in touched for site in self.users.get(register, ()) if site in before}
        sites |= {p.site for p in state if p.origin >= 0 and p.copy in touched}
        for site in sites:
            copies = copies_of(state, site)
            if self._conflict(site, instruction, state, copies):
                operation, later = self.transfer.operations[site], self.transfer.operations.get(i)
                ordered = operation.feeds(instruction) or (
                    later is not None and operation.precedes(later, copies)
                )
                self._require(ProofObligation(site, i, "registers"), state, ordered)
        calls, signals = instruction.flow == "call", releases(instruction)
        tensor = instruction.effects.begins in TCGEN05_ALL
        shared = touches_shared(instruction)
        written = self.certificate.sources and writes_shared(instruction)
        results = BULK in self.certificate.groups and not self.certificate.sources
        for site in before if calls or signals or tensor or shared or written or results else ():
            operation = self.transfer.operations[site]
            group = operation.group
            if calls or (signals and group in TENSOR):
                self._require(ProofObligation(site, i, "release"), state)
            if tensor and group in TENSOR and not group == instruction.group == TCGEN05_LD:
                self._require(ProofObligation(site, i, "columns"), state)
            if shared and operation.fills:
                self._require(ProofObligation(site, i, "bytes"), state)
            if operation.takes:
                if written:
                    self._require(ProofObligation(site, i, "source"), state)
                if results and reads_result(operation.instruction, instruction):
                    self._require(ProofObligation(site, i, "result"), state)

    def _conflict(
        self, site: int, instruction: Instruction, state: State, copies: Mapping[int, Collection[int]]
    ) -> bool:
        """Whether *instruction* reads a result of the operation *site* or a copy, or overwrites one of its registers."""
        operation = self.transfer.operations[site]
        renames = operation.group == WGMMA and instruction.renames
        read = {*instruction.reads, instruction.guard}
        ordinary = operation.group == WGMMA != instruction.group and not renames
        if ordinary and not operation.sources.isdisjoint(read):
            return True  # the ISA forbids it, although both read
        if not renames and not (operation.results.isdisjoint(read) and read.isdisjoint(copies)):
            return True
        written = (operation.results | operation.sources).intersection(instruction.writes)
        if renames and written:  # to move a copy back to its origin changes nothing
            source = instruction.reads[0]
            return origins(state, site, source) != written and source not in written
        return bool(written)

    def _require(self, need: ProofObligation, state: State, ordered: bool = False) -> None:
        self.needed.add(need)
        claimed = self.certificate.claims.get(need)
        if claimed is Discharge.WAIT:
            holds = all(p.site != need.operation for p in state)
        elif claimed is Discharge.ORDERED:
            holds = ordered
        elif claimed is Discharge.DISJOINT:
            compared = need.what in ("columns", "bytes", "source", "result")
            holds = compared and self.questions.disjoint(need, self.certificate.pending)
        else:  # the bytes of a cp.async are accessed by other threads too, whose paths are not those of the issuing one
            searched = claimed is Discharge.INFEASIBLE and need.what != "bytes"
            holds = searched and self.questions.infeasible(need, self.transfer)
        if not holds:
            raise Refused(need.use, "nothing proves that the operation has completed", need)
