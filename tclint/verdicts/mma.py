"""Completion of ``tcgen05.mma``, ``cp`` and ``shift`` as the threads that issue them observe it.

Each thread that may issue an operation is followed through the control-flow graph, state by state, as
:mod:`tclint.verdicts.mma_checker` describes it; that module accepts or refuses the certificate. A proof trusts, besides the
checker, the ISA table, the control-flow graph, and :mod:`tclint.values` and :mod:`tclint.analyses` for the threads that
execute an instruction, the mbarriers that it may name, predicates and columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from tclint.analyses.mbarrier_addresses import MbarrierAddresses, MbarrierLocation
from tclint.analyses.mbarriers import Mbarriers
from tclint.analyses.model import KernelModel
from tclint.analyses.tensor_memory import TensorMemory
from tclint.findings.spans import span
from tclint.findings.verdicts import Assumption, Discharge, Obligation, Reason
from tclint.ir.nodes import Instruction
from tclint.isa.accesses import StateSpace
from tclint.isa.effects import Barrier
from tclint.values.integers import type_width
from tclint.values.nodes import Logic
from tclint.values.path_condition import PathCondition
from tclint.verdicts.across_threads import AcrossThreads
from tclint.verdicts.checker import CompletionTransfer, Graph, ProofObligation, Refused, writes_shared
from tclint.verdicts.disjoint import COLUMNS, AccessedBytes, column_ranges_disjoint
from tclint.verdicts.matrices import Matrices
from tclint.verdicts.mma_checker import (
    WORD,
    Counters,
    Key,
    Location,
    MmaCertificate,
    MmaQuestions,
    PendingMma,
    Progress,
    ThreadQuestions,
    check_mma,
    in_order,
    needs_at,
    operations,
)
from tclint.verdicts.outcome import Outcome
from tclint.verdicts.own_mbarriers import OwnMbarriers
from tclint.verdicts.paths import thread_assumptions
from tclint.verdicts.rings import RingStates
from tclint.verdicts.shared_order import barriers_of_all, converged
from tclint.verdicts.tracked import Tracked

__all__ = ["Multiplications"]

MAX_OBLIGATIONS = 50_000
"""The obligations of one kernel that a proof may have."""
MAX_THREADS = 4
"""The threads that may issue operations in a kernel that is followed."""
MAX_STATES = 5000
"""The states of one thread at the entries of all blocks."""
MAX_KNOWN = 6
"""The predicates whose truth is remembered along a path."""

_WHAT = {
    "columns": "it has completed before an operation on tensor memory that the ISA does not order after it",
    "source": "it has completed before the thread may overwrite the shared memory that it reads",
    "release": "it has completed before the thread calls a function",
    "exit": "it has completed before the thread exits, or an mbarrier tracks it for which others wait",
}

_EVERY = (1 << 64) - 1

Counting = Mapping[int, Sequence[tuple[int, int]]]
"""Block -> the counters that begin there, each with its register."""
States = list[dict[Key, frozenset[PendingMma]]]


class Multiplications:
    """The obligations of the operations that complete on mbarriers in one kernel, and what discharges them."""

    def __init__(self, model: KernelModel, assume: Collection[Assumption]) -> None:
        self.model, self.assume, self.cfg = model, frozenset(assume), model.cfg
        self.instructions, self.values = model.function.instructions, model.values
        blocks = [range(block.start, block.end) for block in self.cfg.blocks]
        self.graph = Graph(blocks, self.cfg.successors, self.cfg.exits)
        self.reachable = [i for b in self.cfg.order for i in blocks[b]]
        self.operations = operations(model.function, self.reachable)
        self.assumed: set[Assumption] = set()
        self._invariant: dict[int, frozenset[int]] = {}
        self.counting: Counting = {}
        self._cleared: dict[tuple[int, int, Counters, Counters], bool] = {}
        self._decided: dict[tuple[int, Counters], frozenset[tuple[int, int]]] = {}
        self._conditions: dict[frozenset[tuple[int, bool]], PathCondition] = {}

    def outcome(self) -> Outcome:
        """The obligations, and whether the checker accepts what discharges them."""
        assumed = self.model.fact(thread_assumptions)
        if assumed is None or not assumed <= self.assume:
            missing = "by registers that change" if assumed is None else "without assumptions"
            return Outcome(
                reasons=(Reason(None, f"which threads issue operations is not decided {missing}"),)
            )
        self.assumed |= assumed
        if len(self.issuers) > MAX_THREADS:
            why = f"more than {MAX_THREADS} threads may issue its operations"
            return Outcome(reasons=(Reason(span(self.model.function, min(self.operations)), why),))
        needed = set[ProofObligation]()
        for need in self._needs():
            needed.add(need)
            if len(needed) > MAX_OBLIGATIONS:
                return Outcome(reasons=(Reason(None, f"it has more than {MAX_OBLIGATIONS} obligations"),))
        needs = sorted(needed, key=lambda n: (n.use, n.operation, n.what))
        found = self._followed(needs, {})
        if found is None or any(each.discharge is None for each in found.obligations):
            counted = self._followed(needs, self._counters) if self._counters else None
            found = counted or found  # to distinguish iterations takes more states
        why = f"an issuing thread has more than {MAX_STATES} states"
        return found or Outcome(reasons=(Reason(None, why),))

    def _followed(self, needs: Sequence[ProofObligation], counters: Counting) -> Outcome | None:
        """The outcome if the issuing threads are followed with these counters; None if one has too many states."""
        self.counting = counters
        threads: dict[int, States] = {}
        for thread in self.issuers:
            found = self._explore(Progress(self.model.function, self.graph, self._thread(thread)))
            if found is None:
                return None
            threads[thread] = found
        return self._judged(needs, threads)

    def _judged(self, needs: Sequence[ProofObligation], threads: dict[int, States]) -> Outcome:
        pending, held, reached = self._pending(threads, {need.use for need in needs})
        claims: dict[ProofObligation, Discharge] = {}
        obligations, reasons = list[Obligation](), list[Reason]()
        function = self.model.function
        for need in needs:
            discharge = self._discharge(need, pending, held, reached)
            why = "" if discharge is not None else self._why(need)
            if discharge is None:
                reasons.append(Reason(span(function, need.use), why, self._help))
            else:
                claims[need] = discharge
            at, use = span(function, need.operation), span(function, need.use)
            obligations.append(Obligation(at, use, _WHAT[need.what], discharge, why=why))
        if not reasons:
            questions = MmaQuestions(
                self._threads, self._thread, self._accumulates, self._disjoint, self._clear
            )
            try:
                check_mma(function, self.graph, MmaCertificate(threads, claims), questions)
            except Refused as refused:
                reasons.append(Reason(span(function, refused.site), refused.why))
        return Outcome(tuple(obligations), tuple(reasons), frozenset(self.assumed))

    # ------------------------------------------------------------ obligations

    def _needs(self) -> Iterator[ProofObligation]:
        """The obligations of the kernel, possibly repeatedly."""
        model, ends = self.model, [self.cfg.blocks[b].end - 1 for b in self.cfg.order if b in self.cfg.exits]
        for operation in self.operations:
            for use in self.reachable:
                what = list(needs_at(self.instructions[operation], self.instructions[use]))
                if what and model.reaches(operation, use):
                    yield from (ProofObligation(operation, use, each) for each in what)
            for end in ends:
                if model.reaches(operation, end) or operation == end:
                    yield ProofObligation(operation, end, "exit")

    # ------------------------------------------------------------ threads

    @cached_property
    def issuers(self) -> tuple[int, ...]:
        """The threads that may issue an operation; of too many, the first ones."""
        every = 0
        for operation in self.operations:
            every |= self.model.views.context_of(operation).threads
        return tuple(_bits(every, MAX_THREADS + 1))

    def _threads(self, operation: int) -> Collection[int]:
        return tuple(_bits(self.model.views.context_of(operation).threads, MAX_THREADS + 1))

    def _thread(self, thread: int) -> ThreadQuestions:
        """What is asked about one thread."""

        def decided(register: int, at: int, known: frozenset[tuple[int, bool]]) -> bool | None:
            p = self._of_thread(self.values.before(register, at), thread)
            mask = self.values.mask(p)
            if mask is not None:
                return bool(mask >> thread & 1)
            for truth in (True, False):
                if not self.values.feasible_threads(p, truth) >> thread & 1:
                    return not truth
            return self.values.entails(p, self._condition(known))

        def invariant(register: int, at: int) -> int | None:
            p = self._of_thread(self.values.before(register, at), thread)
            return p if p in self._worthwhile(thread) else None

        def below(register: int, at: int, bits: int, known: frozenset[tuple[int, bool]]) -> bool:
            if type_width(self.model.function.registers[register].type) != WORD or bits >= WORD - 1:
                return False
            value, condition = self.values.after(register, at), self._condition(known)
            limits = ((0, False), (1 << bits, True))
            return all(
                self.values.entails(
                    self.values.compare("lt", value, self.values.constant(n), True), condition
                )
                is truth
                for n, truth in limits
            )

        def enters(block: int) -> bool:
            return bool(self.model.reachability.threads_at.get(block, 0) >> thread & 1)

        own = self._own(thread)
        renewed = {at: on for at, on in own.items() if not self._mbarriers.once(at)}
        locations, others = frozenset(own.values()), self._elsewhere(own, renewed)
        asked = ThreadQuestions(decided, invariant, locations, enters, below, others, self.counting)
        asked = asked._replace(renewed=frozenset(renewed.values()))
        waits = Progress(self.model.function, self.graph, asked).waits
        return asked._replace(observed=self._observed(thread, waits))

    def _condition(self, known: frozenset[tuple[int, bool]]) -> PathCondition:
        """The path condition that predicates with known truths are."""
        if known not in self._conditions:
            condition = PathCondition()
            for p, truth in sorted(known):
                condition = self.values.refine(p, truth, condition)
            self._conditions[known] = self.values.interned(condition)
        return self._conditions[known]

    def _of_thread(self, p: int, thread: int) -> int:
        """What decides a predicate in *thread*: an operand of it, if the index of the thread decides the other one."""
        p = self.values.representative(p)
        node = self.values.node(p)
        if type(node) is not Logic or node.name == "xor":
            return p
        for one, other in (node.operands, node.operands[::-1]):
            mask = self.values.mask(one)
            if mask is not None and bool(mask >> thread & 1) is (node.name == "and"):
                return self._of_thread(other, thread)
        return p

    def _worthwhile(self, thread: int) -> frozenset[int]:
        """The predicates that never change, and that decide the most branches and guards."""
        if thread not in self._invariant:
            counts = Counter[int]()
            for i in self.reachable:
                instruction = self.instructions[i]
                if instruction.guard >= 0 and (instruction.flow or instruction.event):
                    p = self._of_thread(self.values.before(instruction.guard, i), thread)
                    if self.values.mask(p) is None and not self._change(p):
                        counts[p] += 1
            self._invariant[thread] = frozenset(p for p, _ in counts.most_common(MAX_KNOWN))
        return self._invariant[thread]

    @cached_property
    def _counters(self) -> dict[int, list[tuple[int, int]]]:
        """Block -> the phis there on which the addresses of operands and of writes to shared memory depend."""
        writing = (i for i in self.reachable if writes_shared(self.instructions[i]))
        found: dict[int, list[tuple[int, int]]] = {}
        for phi in sorted(self._addressing(*self.operations, *writing)):
            node = self.values.phi(phi)
            found.setdefault(node.block, []).append((phi, node.register))
        return found

    def _addressing(self, *sites: int) -> frozenset[int]:
        """The phis on which the addresses of operations and of writes depend."""
        found = set[int]()
        for site in sites:
            for address in self._addresses(site):
                found |= self._bytes.rings.counters(address)
        return frozenset(found)

    @property
    def matrices(self) -> Matrices:
        """The bytes of shared memory that the operations read, and that the kernel writes."""
        return self._bytes.matrices

    @cached_property
    def _bytes(self) -> AccessedBytes:
        return AccessedBytes(
            self.model, RingStates(self.model, CompletionTransfer(self.model.function, frozenset(), ()))
        )

    def _clear(self, operation: int, use: int, first: Counters, then: Counters) -> bool:
        """Whether an instruction writes no byte that an operation reads, given the counters at each of them."""
        key = operation, use, self._deciding(operation, first), self._deciding(use, then)
        if key not in self._cleared:
            self._cleared[key] = self._is_clear(operation, use, dict(key[2]), dict(key[3]))
        return self._cleared[key]

    def _is_clear(self, operation: int, use: int, first: dict[int, int], then: dict[int, int]) -> bool:
        read, written = self.matrices.read(operation), self._tracked.written(use)
        if read is None or written is None or self._bytes.of(operation) is None:
            return False  # an address may be that of an earlier iteration
        needed = read[1] | written[1]
        disjoint = needed <= self.assume and all(
            self._bytes.disjoint_when(a, first, b, then, self._repeats) for a in read[0] for b in written[0]
        )
        if disjoint:
            self.assumed |= needed
        return disjoint

    def _deciding(self, site: int, counters: Counters) -> frozenset[tuple[int, int]]:
        """The numbers of the counters that decide the bytes of an instruction, or as many low bits of them as do."""
        key = site, counters
        if key not in self._decided:
            self._decided[key] = frozenset(self._numbers(site, counters))
        return self._decided[key]

    def _numbers(self, site: int, counters: Counters) -> Iterator[tuple[int, int]]:
        for counter, number in counters:
            bits = self._decisive(site, counter)
            if bits is None and isinstance(number, int):
                yield counter, number
            elif bits is not None and (isinstance(number, int) or bits <= number.known):
                yield counter, (number if isinstance(number, int) else number.bits) & ((1 << bits) - 1)

    def _decisive(self, site: int, counter: int) -> int | None:
        """How many low bits of a counter decide the addresses of an instruction; None if all may."""
        bits = [self._bytes.rings.decisive(a, counter, None) for a in self._addresses(site)]
        known = [each for each in bits if each is not None]
        return max(known, default=0) if len(known) == len(bits) else None

    def _addresses(self, site: int) -> list[int]:
        """The addresses of what an operation reads, or another instruction writes."""
        known = self.matrices.read(site) if site in self.operations else self._tracked.written(site)
        return [address for address, _ in known[0]] if known is not None else []

    def _explore(self, progress: Progress) -> States | None:
        """All states of a thread at the entry of each block; None if there are too many."""
        states: States = [{} for _ in self.cfg.blocks]
        states[0][Key()] = frozenset()
        work, count = [(0, Key())], 1
        while work:
            self.model.pause()
            block, key = work.pop()
            now = [(key, states[block][key])]
            for i in self.graph.blocks[block]:
                if i in progress.affecting:
                    now = [later for state, facts in now for later in progress.after(state, facts, i)]
            for state, facts in now:
                for edge, then in progress.followed(state, block):
                    entry = states[edge.target]
                    known = entry.get(then)
                    if known is None or not facts <= known:
                        count += known is None
                        entry[then] = facts | (known or frozenset())
                        work.append((edge.target, then))
            if count > MAX_STATES:
                return None
        return states

    def _pending(
        self, threads: dict[int, States], uses: Collection[int]
    ) -> tuple[set[ProofObligation], set[ProofObligation], set[int]]:
        """The obligations at which the operation may be pending, those that hold although it is, since the bytes are others or an
        mbarrier tracks it, and the *uses* that issuing threads reach."""
        found, held, reached = set[ProofObligation](), set[ProofObligation](), set[int]()
        for thread, states in threads.items():
            progress = Progress(self.model.function, self.graph, self._thread(thread))
            for b, entry in enumerate(states):
                self.model.pause()
                now, sites = list(entry.items()), self.graph.blocks[b]
                for i in sites if now else ():
                    for state, facts in now if i in uses else ():
                        if progress.executes(state, i) is not False:
                            reached.add(i)
                            for need, clear in self._open(i, state, facts, found):
                                (held if clear else found).add(need)
                    if i in progress.affecting:
                        now = [later for state, facts in now for later in progress.after(state, facts, i)]
                if b in self.cfg.exits:
                    for state, facts in now:
                        if progress.executes(state, sites[-1]) is not False:
                            for fact in facts:
                                need = ProofObligation(fact.site, sites[-1], "exit")
                                (held if fact.handed else found).add(need)
        return found, held, reached

    def _open(
        self, at: int, state: Key, facts: Iterable[PendingMma], known: Collection[ProofObligation]
    ) -> Iterator[tuple[ProofObligation, bool]]:
        """The obligations at an instruction in one state, but those that are *known* to be open, and whether the bytes are others
        than those that are read."""
        for fact in facts:
            for what in needs_at(self.instructions[fact.site], self.instructions[at]):
                need = ProofObligation(fact.site, at, what)
                if need not in known:
                    clear = what == "source" and self._clear(fact.site, at, fact.counters, state.counters)
                    yield need, clear

    # ------------------------------------------------------------ mbarriers

    @cached_property
    def _mbarriers(self) -> OwnMbarriers:
        return OwnMbarriers(self.model.fact(Mbarriers))

    @cached_property
    def _tracked(self) -> Tracked:
        return Tracked(AcrossThreads(self.model, self._bytes), self.assume)

    def _own(self, thread: int) -> dict[MbarrierLocation, Location]:
        """The mbarriers at which nothing arrives but commits of *thread* alone, one for each phase, and whose bytes nothing else
        writes. They are initialised once, or by this thread alone, which ends them as well."""
        context = self.model.views.context_of
        found = self._mbarriers.found(
            lambda site: self._mbarriers.commits(site, thread),
            lambda site: context(site).threads == 1 << thread,
        )
        tracked = self._tracked
        uniform, _ = self.model.fact(converged, frozenset(self.assume))
        barriers = barriers_of_all(uniform)
        found = {
            at: on
            for at, on in found.items()
            if tracked.lives(at, thread, barriers) and tracked.kept(at, barriers)
        }
        self.assumed |= tracked.assumed | uniform.assumed
        return found

    def _elsewhere(
        self, own: Collection[MbarrierLocation], renewed: Collection[MbarrierLocation]
    ) -> frozenset[int]:
        """The commits and waits that name none of the mbarriers *own*, and what initialises or ends none of the *renewed* ones."""
        may_name, found = self._mbarriers.may_name, set[int]()
        for site, effects in self.model.fact(Mbarriers).sites.items():
            bounds = effects.bounds_mbarrier
            if bounds or effects.commits is not None or effects.awaits is Barrier.MBARRIER:
                named = renewed if bounds else own
                found |= set() if any(may_name(site, at) for at in named) else {site}
        return frozenset(found)

    def _observed(self, thread: int, waits: Iterable[int]) -> frozenset[int]:
        """The commits on an mbarrier of this CTA for which a thread other than *thread* has one of these *waits*, or on a ring of
        mbarriers such that a wait is for the same ring."""
        sites, addresses = self._mbarriers.mbarriers.sites, self.model.fact(MbarrierAddresses)
        stays, context = self._mbarriers.stays, self.model.views.context_of
        others = [i for i in waits if stays(i) and context(i).threads & ~(1 << thread)]
        awaited = frozenset[MbarrierLocation]().union(*(addresses.each(wait) for wait in others))
        rings = {addresses.locations(wait) for wait in others}
        commits = (i for i, e in sites.items() if e.commits is not None and stays(i))
        found = ((commit, addresses.locations(commit)) for commit in commits)
        return frozenset(
            commit for commit, at in found if at and (at <= awaited or (len(at) > 1 and at in rings))
        )

    # ------------------------------------------------------------ discharges

    def _discharge(
        self,
        need: ProofObligation,
        pending: set[ProofObligation],
        held: set[ProofObligation],
        reached: set[int],
    ) -> Discharge | None:
        """What discharges an obligation; None if nothing is known to."""
        if need not in pending and need in held:
            return Discharge.TRACKED if need.what == "exit" else Discharge.DISJOINT
        if need not in pending:
            return Discharge.WAIT if need.use in reached else Discharge.INFEASIBLE
        if need.what != "columns" or self.instructions[need.use].effects.begins is None:
            return None
        ordered = in_order(self.instructions[need.operation], self.instructions[need.use])
        if ordered is None:
            ordered = self._accumulates(need.operation, need.use) and self._disjoint(
                need.operation, need.use, True
            )
        if ordered:
            return Discharge.ORDERED
        return Discharge.DISJOINT if self._disjoint(need.operation, need.use, False) else None

    def _accumulates(self, first: int, then: int) -> bool:
        """Whether two multiplications always have the same shape, and the same accumulator or two without a common column."""
        same = self._same(first, then, "d") or self._same_or_apart(first, then)
        return same and self._same(first, then, "idesc")

    def _same_or_apart(self, first: int, then: int) -> bool:
        """Whether the accumulators of two multiplications are the same or have no column in common, whatever the iterations.

        Where what changes in both addresses is a multiple of a power of two below 65536, their distance is such a multiple,
        too, and less than all columns that an address distinguishes. So they are the same, or as far apart.
        """
        width, parts = self.model.fact(TensorMemory).exact_width(first, "d"), []
        for site in (first, then):
            value = self.model.value(site, "d")
            if value is None:
                return False
            terms, constant = self.values.linear(value)
            fixed = tuple(term for term in terms if not self._change(term[0]))
            parts.append((fixed, tuple(term for term in terms if term not in fixed), constant))
        (fixed, moving, constant), (others, following, offset) = parts
        if width is None or sorted(fixed) != sorted(others):
            return False
        least, unknown = min(constant, offset), 0
        for changing, number in ((moving, constant), (following, offset)):
            zeros, _ = self.values.known_bits(self.values.total(changing, number - least))
            unknown |= ~zeros & _EVERY
        return unknown < COLUMNS and (unknown == 0 or unknown & -unknown >= width)

    def _same(self, first: int, then: int, role: str) -> bool:
        a, b = self.model.value(first, role), self.model.value(then, role)
        if a is None or b is None or self._change(a) or self._change(b):
            return False
        return self.values.representative(a) == self.values.representative(b)

    def _change(self, value: int) -> bool:
        """Whether a value may change after it is known."""
        return any(self._repeats(kind, at) for kind, at in self.values.varying_at(value))

    def _repeats(self, kind: str, at: int) -> bool:
        """Whether a thread may enter a block, or execute an instruction, more than once."""
        return (at if kind == "block" else self.cfg.block_of[at]) in self.cfg.in_cycle

    def _disjoint(self, first: int, then: int, but_accumulators: bool) -> bool:
        """Whether what two operations access of tensor memory is disjoint; perhaps but for their accumulators."""
        for a, writes in _operands(self.instructions[first]):
            for b, overwrites in _operands(self.instructions[then]):
                if not (writes or overwrites) or (but_accumulators and writes and overwrites):
                    continue
                one, two = self._bytes.columns(first, a), self._bytes.columns(then, b)
                if (
                    one is None
                    or two is None
                    or not column_ranges_disjoint(self.model, one, two, self._repeats)
                ):
                    return False
        return True

    def _why(self, need: ProofObligation) -> str:
        """Why it is not known whether an obligation holds."""
        name = self.model.name(need.operation)
        at = {
            "columns": "may access the columns of",
            "source": "may overwrite the shared memory that is read by",
            "release": "calls a function after",
            "exit": "ends the thread after",
        }[need.what]
        return f"it {at} a {name} that may be pending on some path of the issuing thread"

    @cached_property
    def _help(self) -> str:
        """What would make it known."""
        if not any(self._own(thread) for thread in self.issuers):
            return "no mbarrier of the kernel is known to be signalled by commits of the issuing thread alone"
        return "wait in the issuing thread for the mbarrier of a commit that follows"


def _operands(instruction: Instruction) -> Iterator[tuple[str, bool]]:
    """The operands of an operation that address tensor memory, and whether it writes there."""
    yield from ((a.operand, a.writes) for a in instruction.accesses if a.space is StateSpace.TENSOR)


def _bits(threads: int, most: int) -> Iterable[int]:
    """The first threads of a set."""
    found = list[int]()
    while threads and len(found) < most:
        found.append((threads & -threads).bit_length() - 1)
        threads &= threads - 1
    return found
