"""Signals through words of global memory: what threads wait for or test, which writes they may wait for, and which data lie
around the two (PTX ISA 8.4 to 8.9.5).

An *observation* is a strong read whose value decides where its thread goes, and nothing else. It *waits* if it is the
poll of a loop: for a flag, a status, a ticket, a grid barrier, a lock. Otherwise it is an atomic operation with a
*test*: it takes a lock if that is free, or counts an arrival and asks whether it was the last one. A value that is also
computed with, or selects an element, may be the data itself: a work queue, a status packed with its sum, a maximum by
compare-and-swap.

A *signal* is a write of the same word whose value lets an observation pass. A thread that sets a flag which nothing
resets claims something: its write lets no other thread pass. What the kernel writes before a signal and reads after the
observation is the data that the signal *announces*; a word around which there is none protects nothing.

The two are ordered if the writes are followed by a release pattern, the reads preceded by an acquire pattern (8.8), and
both have a scope that includes the other thread (8.7). A reduction reads nothing, so no fence makes an acquire of it
(8.11.1). Which synchronisation is missing is asked by path: every answer that is not certain is that nothing is missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from enum import Enum
from functools import cache, cached_property, partial

from tclint._named_tuple import NamedTuple
from tclint.analyses import role_paths
from tclint.analyses.global_memory import GlobalRanges, Source, depends_on, global_operands, origins
from tclint.analyses.happens_before import HappensBefore, OrderScope
from tclint.analyses.model import KernelModel
from tclint.dataflow import Path
from tclint.ir.cfg import Edge
from tclint.ir.nodes import Site, specials
from tclint.isa.accesses import Proxy, StateSpace
from tclint.isa.effects import Barrier, Fence, Order, spelled_order
from tclint.isa.forms import Match
from tclint.values import PathCondition
from tclint.values.nodes import Compare, Negation, Select, SpecialRead

__all__ = ["SWAPS", "GlobalObservation", "GlobalSignals", "Word", "ordering"]

_COUNTING = (".add", ".inc")
SWAPS = (".exch", ".cas")
"""The atomic operations that replace the word by an operand, not by what they compute of both."""
_TESTED = (*_COUNTING, ".dec", *SWAPS)
"""The atomic operations by which threads count arrivals or take a lock; those of bits, minima and maxima claim something."""
_CTA_INDEX = ("%ctaid.x", "%ctaid.y", "%ctaid.z")


class Word(Enum):
    """What a word is for by which threads synchronise."""

    LOCK = "lock"
    """An exchange or a compare-and-swap takes it, and the holder gives it back."""
    COUNTER = "counter"
    """Threads add to it."""
    FLAG = "flag"
    """Threads store to it, a status or the turn of the next one."""


class GlobalObservation(NamedTuple):
    """A strong read whose value decides where its thread goes."""

    site: Site
    waits: bool
    """Whether it is the poll of a loop, which all that follows waits for."""
    passes: tuple[Edge, ...]
    """The edges that a thread may take, as the value decides, when it does not wait any longer."""
    stated: bool
    """Whether it is a load that states that it is relaxed, which an author does for a word that announces something."""


class GlobalSignals:
    """The observations of a kernel, their signals, and what is not ordered around them."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self.origins = cache(partial(origins, model))
        self._disjoint = GlobalRanges(model).disjoint
        self._closures: dict[int, tuple[list[Edge], dict[int, int]] | None] = {}

    # ------------------------------------------------------------ observations

    @cached_property
    def observations(self) -> list[GlobalObservation]:
        """The observations, in the order of the text."""
        found = (self._observation(i) for i in self.model.matching(_may_observe))
        return [each for each in found if each is not None]

    def _observation(self, site: Site) -> GlobalObservation | None:
        match, cfg = self.model.instruction(site).match, self.model.cfg
        assert match is not None
        waiting = cfg.block_of[site] in cfg.in_cycle and self._polls(site, match)
        if not waiting and (match.combination not in _TESTED or self.changes_nothing(site)):
            return None
        decided = self._decided(site)
        if decided is None or not decided[0]:
            return None
        if waiting:
            header = next(cfg.nest.around(cfg.block_of[site]))
            deciding = {edge.source for edge in decided[0]}
            passes = tuple(e for e in cfg.leaving[header] if e.source in deciding)
        else:
            passes = tuple(e for e in decided[0] if self._bounds_region(e))
        return GlobalObservation(site, waiting, passes, _stated(match))

    def _polls(self, site: Site, match: Match) -> bool:
        """Whether the innermost loop of *site* waits for what it reads from one address.

        What some iterations load is not what the loop waits for: a word that ends the wait early announces no data. A
        loop that also acquires waits for the word that it acquires. One with other accesses does its work, and looks
        at the word meanwhile; only a load that states ``.relaxed`` is taken for a poll then.
        """
        model, cfg = self.model, self.model.cfg
        instruction, block = model.instruction(site), cfg.block_of[site]
        header = next(cfg.nest.around(block), -1)
        address = model.named_value(site, "a")
        if header < 0 or address is None:
            return False
        loop = cfg.loops[header]
        deciding = [address]
        if instruction.guard >= 0:
            deciding.append(model.values.before(instruction.guard, site))
        if not cfg.in_every_iteration(
            block, header
        ):  # one thread may poll for all, which meet at a barrier in the loop
            edges = (e for e in cfg.control_dependences(block) if e.source in loop)
            inner = {e for e in edges if all(s.target in loop for s in cfg.successors[e.source])}
            if any(e.predicate < 0 for e in inner):
                return False
            deciding += (model.values.before(e.predicate, cfg.blocks[e.source].end - 1) for e in inner)
        varying = {at for value in deciding for kind, at in model.values.varying_at(value) if kind == "block"}
        if not varying.isdisjoint(loop):
            return False
        if (
            match.combination
            and match.combination not in (".cas", ".exch")
            and not self.changes_nothing(site)
        ):
            return False
        if any(i != site and cfg.block_of[i] in loop for i in self.acquiring_polls):
            return False
        return _stated(match) or not any(i != site and cfg.block_of[i] in loop for i in self._accesses)

    def changes_nothing(self, site: Site) -> bool:
        """Whether an atomic operation leaves the word as it is: it adds 0, or swaps a number for itself."""
        instruction, values = self.model.instruction(site), self.model.values
        match, operands = instruction.match, [instruction.named(name) for name in ("b", "c")]
        if match is None or operands[0] is None:
            return False
        if match.combination == ".cas":
            return operands[1] is not None and values.operand(operands[0], site) == values.operand(
                operands[1], site
            )
        return (
            match.combination in (".add", ".or", ".xor") and values.constant_operand(operands[0], site) == 0
        )

    def _decided(self, site: Site) -> tuple[list[Edge], dict[int, int]] | None:
        """The edges that the value of *site* decides, and the values by which other threads of the CTA learn it.

        These are loads from the word of shared memory to which it, or what is computed from it, is stored: the value of
        each, and the value stored. None if the value is used for anything else.
        """
        if site not in self._closures:
            self._closures[site] = None
            self._closures[site] = self._follow(site)
        return self._closures[site]

    def _follow(self, site: Site) -> tuple[list[Edge], dict[int, int]] | None:
        model, values, cfg = self.model, self.model.values, self.model.cfg
        edges, learned = list[Edge](), dict[int, int]()
        work, seen = [site], {site}
        while work:
            for user, guarded in model.transitive_users(work.pop()):
                instruction = model.instruction(user)
                if instruction.flow:
                    edges += cfg.successors[cfg.block_of[user]]
                    continue
                match = instruction.match
                if guarded or match is None or not match.form.memory:  # an event; its results are followed
                    continue
                stored = instruction.named("b")
                slot = self._slot(user, "write")
                slots = [] if slot is None else self._loads_of.get(slot, [])
                if not slots or stored is None or match.strong:
                    return None
                for load in slots:
                    learned[values.after(model.instruction(load).writes[0], load)] = values.operand(
                        stored, user
                    )
                    if load not in seen:
                        seen.add(load)
                        work.append(load)
        return [edge for edge in dict.fromkeys(edges) if edge.predicate >= 0], learned

    def _slot(self, site: Site, verb: str) -> int | None:
        """The address of the word of shared memory that *site* reads or writes (*verb*); None if it is of another kind."""
        accesses = self.model.shared.accesses(site)
        own = [a.address for a in accesses if a.writes is (verb == "write")]
        return self.model.values.representative(own[0]) if len(own) == len(accesses) == 1 else None

    @cached_property
    def _loads_of(self) -> dict[int, list[Site]]:
        """Address of a word of shared memory -> the loads of it that write one register."""
        found: dict[int, list[Site]] = {}
        for i in self.model.shared.sites:
            match = self.model.instruction(i).match
            if match is None or {verb for verb, _ in match.form.memory} != {"read"}:
                continue
            if len(self.model.instruction(i).writes) == 1 and (slot := self._slot(i, "read")) is not None:
                found.setdefault(slot, []).append(i)
        return found

    def _bounds_region(self, edge: Edge) -> bool:
        """Whether the target of *edge* is reached by it alone, so that what it dominates is executed by those who took it."""
        cfg = self.model.cfg
        return all(e == edge or cfg.dominates(edge.target, e.source) for e in cfg.predecessors[edge.target])

    @cached_property
    def acquiring_polls(self) -> list[Site]:
        """The loads in loops that acquire, and whose result decides a branch."""
        polls = self.model.fact(HappensBefore).points.spin_loads
        return [i for i in self.model.matching(lambda match: ordering(match).acquires) if i in polls]

    # ------------------------------------------------------------ signals

    def word(self, seen: GlobalObservation, *signals: Site) -> Word:
        """What the word of an observation is, as it and *signals*, writes of it, show."""
        own, *others = (
            "" if match is None or self.changes_nothing(i) else match.combination
            for i in (seen.site, *signals)
            for match in (self.model.instruction(i).match,)
        )
        if own in SWAPS and not (others and all(each in _COUNTING for each in others)):
            return Word.LOCK
        return Word.COUNTER if any(each in _COUNTING for each in (own, *others)) else Word.FLAG

    def signals(self, seen: GlobalObservation) -> list[Site]:
        """The writes that may let an observation pass, as far as this kernel writes the word.

        CTAs that wait for each other write the word, then poll it, and may write it again after their work. What only
        follows the poll is then for a later wait. Without a write before the poll, CTAs wait for what others write
        after their own poll.
        """
        reaches, site = self.model.reaches, seen.site
        sets = [i for i in self._strong_writes if self._lets_pass(i, seen)]
        match = self.model.instruction(seen.site).match
        if (
            not sets and match is not None and match.combination in SWAPS
        ):  # many give a lock back with a plain store
            sets = [i for i in self._plain_stores if self._in_passed(i, seen) and self._lets_pass(i, seen)]
        if not seen.waits:
            return sets
        before = {i for i in sets if reaches(i, site)}
        return [i for i in sets if i in before or not reaches(site, i)] if before else sets

    def _lets_pass(self, signal: Site, seen: GlobalObservation) -> bool:
        """Whether *signal* writes the word of an observation, and a value with which a thread passes it."""
        site = seen.site
        if signal in self._polling:  # it waits itself, and takes what it waits for
            return False
        if signal != site and (
            self.origins(signal, "write").isdisjoint(self.origins(site, "read"))
            or self._disjoint(signal, "write", site, "read")
        ):
            return False
        if self.changes_nothing(signal):
            return False
        return not seen.passes or bool(self._let_pass(signal, seen))

    def _let_pass(self, signal: Site, seen: GlobalObservation) -> list[Edge]:
        """The edges that threads may take after *signal*."""
        written = self._written(signal, seen.site)
        return [edge for edge in seen.passes if self._passes(edge, written, seen)]

    def _written(self, signal: Site, site: Site) -> tuple[int, bool] | None:
        """A fact about the value that is read at *site* after *signal*, as a predicate and its truth; None: unknown."""
        instruction, values = self.model.instruction(signal), self.model.values
        match = instruction.match
        assert match is not None
        read = values.after(self.model.instruction(site).writes[0], site)
        new = instruction.named("c" if match.combination == ".cas" else "b")
        number = None if new is None else values.constant_operand(new, signal)
        if number is None:
            return None
        width = int(match.element[2:])
        if match.combination in ("", ".exch", ".cas"):
            return values.compare("eq", read, values.constant(number), True, width), True
        if match.combination in _COUNTING and number % (1 << width) < 1 << (width - 1):
            return values.compare(
                "eq", read, values.constant(0), True, width
            ), False  # it has been counted up
        return None

    def _passes(self, edge: Edge, written: tuple[int, bool] | None, seen: GlobalObservation) -> bool:
        """Whether threads may take *edge* if the word has been *written* so; only certain answers are negative."""
        model, values = self.model, self.model.values
        if written is None or (p := model.reachability.edge_predicate(edge)) is None:
            return True
        if not written[1] and self._passes_if_less(p, edge.value, seen.site):
            return False
        facts = PathCondition((written,))
        decided = self._decided(seen.site)
        for loaded, stored in decided[1].items() if decided is not None else ():
            learned = self._learned(loaded, stored, facts, written, seen.site)
            if learned is not None:
                facts = PathCondition((*facts.items(), learned))
        truth = values.entails(p, facts)
        return truth is None or truth is edge.value

    def _passes_if_less(self, p: int, truth: bool, site: Site) -> bool:
        """Whether *p* is *truth* where the count that is read at *site* is less than a limit: the first few pass."""
        values = self.model.values
        node, read = values.node(p), values.after(self.model.instruction(site).writes[0], site)
        if type(node) is Negation:
            return self._passes_if_less(node.operand, not truth, site)
        if type(node) is not Compare or node.relation != "lt":
            return False
        left, right = (any(read == term for term, _ in values.linear(each)[0]) for each in node.operands)
        return left is truth and right is not truth

    def _learned(
        self, loaded: int, stored: int, facts: PathCondition, written: tuple[int, bool], site: Site
    ) -> tuple[int, bool] | None:
        """What a thread that loads a word of shared memory knows, if *stored* was computed under *facts*; None: nothing."""
        values = self.model.values
        node = values.node(stored)
        if type(node) is Select:
            truth = values.entails(node.condition, facts)
            number = None if truth is None else values.constant_of(node.arms[0 if truth else 1])
            if number is not None:
                return values.compare("eq", loaded, values.constant(number), True), True
        if stored == values.after(self.model.instruction(site).writes[0], site):
            test = values.node(written[0])
            if type(test) is Compare:
                return values.compare("eq", loaded, test.operands[1], True), written[1]
        return None

    @cached_property
    def _polling(self) -> frozenset[Site]:
        return frozenset(seen.site for seen in self.observations if seen.waits)

    @cached_property
    def _strong_writes(self) -> list[Site]:
        return self.model.matching(_may_set)

    def _in_passed(self, site: Site, seen: GlobalObservation) -> bool:
        """Whether *site* is executed only by threads that have passed an observation, as what gives back a lock is."""
        cfg = self.model.cfg
        block = cfg.block_of[site]
        if seen.waits:
            return role_paths.dominated_by(self.model, seen.site, site)
        return any(cfg.dominates(edge.target, block) for edge in seen.passes)

    @cached_property
    def _plain_stores(self) -> list[Site]:
        """The weak stores of one integer to global memory."""
        return self.model.matching(lambda match: not match.strong and _sets(match))

    def narrow(self, site: Site) -> bool:
        """Whether a strong access has a scope that includes no thread of another CTA."""
        instruction = self.model.instruction(site)
        return instruction.order is not Order.WEAK and not instruction.wide

    def within_cta(self, signal: Site, seen: GlobalObservation) -> bool:
        """Whether only threads of one CTA share the word: its address has the index of the CTA, in all dimensions used.

        It is taken for a word of the CTA, too, if neither side has a wider scope than that, unless the code shows another
        CTA to take part.
        """
        model, values = self.model, self.model.values
        if not any(model.instruction(i).wide for i in (signal, seen.site)):
            return not self._across_ctas(signal, seen)
        here, there = (model.named_value(i, "a") for i in (signal, seen.site))
        if here is None or here != there:
            return False
        nodes = (values.node(term) for term, _ in values.linear(here)[0])
        own = {node.name for node in nodes if type(node) is SpecialRead and node.name in _CTA_INDEX}
        return bool(own) and own.issuperset(self._grid_registers.intersection(_CTA_INDEX))

    def _across_ctas(self, signal: Site, seen: GlobalObservation) -> bool:
        """Whether a condition on the CTA separates the two sides, or a test is against the number of CTAs."""
        model, values = self.model, self.model.values
        if model.views.exclusive(signal, seen.site):
            return True
        decided = self._decided(seen.site)
        tested = [p for edge in seen.passes if (p := model.reachability.edge_predicate(edge)) is not None]
        tested += decided[1].values() if decided is not None else ()
        nodes = map(values.node, values.subexpressions(*tested))
        return any(type(n) is SpecialRead and n.name.startswith("%nctaid") for n in nodes)

    @cached_property
    def _grid_registers(self) -> frozenset[str]:
        """The indices of the CTA that the kernel reads, and the numbers of CTAs."""
        read = (s.name for each in self.model.function.instructions for s in specials(each.operands))
        return frozenset(name for name in read if "ctaid" in name)

    @property
    def several_ctas(self) -> bool:
        """Whether the kernel asks which CTA it is, or how many there are."""
        return bool(self._grid_registers)

    def of_one_cta(self, site: Site) -> bool:
        """Whether *site* is executed by one CTA alone: its index is tested, or the number of CTAs."""
        values, facts = self.model.values, self.model.views.context_of(site).facts
        alone = (
            values.compare("eq", values.special(name), values.constant(int(name.startswith("%nctaid"))), True)
            for name in self._grid_registers
            if not name.startswith("%cluster")
        )
        return any(values.entails(p, facts) for p in alone) or any(
            type(node := values.node(p)) is Compare
            and node.relation == "eq"
            and truth
            and any(Source.CTA in depends_on(values, operand) for operand in node.operands)
            for p, truth in facts.items()
        )

    # ------------------------------------------------------------ announced data

    @cached_property
    def reads(self) -> frozenset[Site]:
        """The weak reads of global memory that the kernel does not declare to be read-only."""
        return frozenset(self.model.matching(_is_weak_read))

    @cached_property
    def _strong_reads(self) -> frozenset[Site]:
        """The strong loads, which may read data as well: in old programs, all shared data are volatile."""
        return frozenset(
            self.model.matching(lambda match: match.strong and not match.combination and _reads(match))
        )

    @cached_property
    def writes(self) -> frozenset[Site]:
        """What may write data to global memory: writes, asynchronous ones as well, and calls."""
        written = self.model.matching(lambda match: bool(global_operands(match, "write")))
        return frozenset((*written, *role_paths.calls(self.model)))

    @cached_property
    def _accesses(self) -> frozenset[Site]:
        """What may access global memory or call a function."""
        accessed = self.model.matching(
            lambda match: bool(global_operands(match, "write") or global_operands(match, "read"))
        )
        return frozenset((*accessed, *role_paths.calls(self.model)))

    def announced(
        self, signal: Site, seen: GlobalObservation, *, before: bool = True
    ) -> list[tuple[Site, Site]]:
        """The writes before *signal* with the reads after an observation of it, through one pointer: ``(write, read)``.

        Not *before*: the writes by threads that do not reach the signal.

        Of words by which threads synchronise, neither is data, nor is the signal. A word that is written and read with
        strong operations alone is one of those if the value that is read decides branches and nothing else.
        """
        model = self.model
        reads = [(i, self.origins(i, "read")) for i in sorted(self._follows(seen, signal))]
        writes = (
            [
                (i, self.origins(i, "write"))
                for i in sorted(self.writes)
                if i != signal
                and not model.instruction(i).event
                and model.reaches(i, signal) is before
                and not self._same_word(i, signal)
            ]
            if reads
            else []
        )
        return [
            (write, read)
            for write, to in writes
            for read, from_ in reads
            if not to.isdisjoint(from_)
            and not (self.only_strong(write, read) and self._synchronises(read))
            and not self._disjoint(write, "write", read, "read")
        ]

    def passed_on_without_fence(self, seen: GlobalObservation, read: Site) -> bool:
        """Whether each holder of a lock reads with *read* what the last one has written, and no fence is around either.

        What a multiprocessor has cached for one holder is then what the next one there reads.
        """
        model, match = self.model, self.model.instruction(read).match
        signals = self.signals(seen)
        if self.word(seen, *signals) is not Word.LOCK or match is None or not match.from_nearest_cache:
            return False
        if any(model.reaches(i, seen.site) for i in self.acquires | self.releases):
            return False
        place = model.named_value(read, "a")
        for signal in signals:
            writes = [
                w for w, r in self.announced(signal, seen) if r == read and model.named_value(w, "a") == place
            ]
            if self.unreleased(signal, writes) is not None:
                return True
        return False

    def only_strong(self, write: Site, read: Site) -> bool:
        """Whether both accesses to data are strong, as those through a pointer to ``volatile`` are."""
        return read in self._strong_reads and self.model.instruction(write).order is not Order.WEAK

    def _synchronises(self, read: Site) -> bool:
        """Whether the value of a strong load decides branches, and nothing else."""
        decided = self._decided(read)
        return decided is not None and bool(decided[0])

    def _same_word(self, write: Site, signal: Site) -> bool:
        """Whether *write* may be of the word of a *signal*, which is an integer: sums and their counter may share a buffer."""
        match, own = self.model.instruction(write).match, self.origins(signal, "write")
        if match is not None and not _is_integer(match):
            return False
        return not own.isdisjoint(self.origins(write, "write")) and not self._disjoint(
            write, "write", signal, "write"
        )

    def _follows(self, seen: GlobalObservation, signal: Site) -> Iterator[Site]:
        """The reads that a thread executes after it observes *signal*: all that a poll reaches, or those that a test decides."""
        cfg, edges = self.model.cfg, self._let_pass(signal, seen)
        for i in self.reads | self._strong_reads:
            if i == seen.site:
                continue
            if seen.waits:
                if self.model.reaches(seen.site, i):
                    yield i
            elif any(cfg.dominates(edge.target, cfg.block_of[i]) for edge in edges):
                yield i

    # ------------------------------------------------------------ what is missing

    def early_read(
        self, seen: GlobalObservation, reads: Collection[Site], others: Iterable[Site] = ()
    ) -> tuple[tuple[Site, ...], Path] | None:
        """A path with no acquire from an observation, or from a CTA barrier after it, to one of *reads*.

        With it, the CTA barrier after the observation, if there is one. *others* are further observations, which end
        the path.
        """
        model, site = self.model, seen.site
        if not reads:
            return None
        ends = {*(self._unknown if self.narrow(site) else self.acquires), site, *others}
        closed = self._without_passing(site)
        context = model.views.context_of(site)
        own = role_paths.follow_first(model, site, context, reads, ends, closed).witness
        if own is not None:
            passed = own.passed(model.cfg, site)
            return tuple(i for i in sorted(self.barriers) if i in passed)[:1], own
        for barrier in sorted(self.barriers):
            start = role_paths.follow_first(model, site, context, (barrier,), ends, closed)
            if start.witness is None:
                continue
            joined = role_paths.follow_first(
                model, barrier, model.views.context_of(barrier), reads, ends
            ).witness
            if joined is not None:
                return (barrier,), joined
        return None

    def _without_passing(self, site: Site) -> list[Edge]:
        """The edges of threads that do not pass the observation at *site*, where those that do pass an acquire.

        One thread of the last CTA fences, and the others learn from it that they belong to that CTA.
        """
        cfg, decided = self.model.cfg, self._decided(site)
        blocks = {cfg.block_of[i] for i in self.acquires}
        return [
            other
            for edge in (decided[0] if decided is not None else ())
            if self._bounds_region(edge) and any(cfg.dominates(edge.target, b) for b in blocks)
            for other in cfg.successors[edge.source]
            if other != edge
        ]

    def unreleased(self, signal: Site, writes: Iterable[Site]) -> tuple[Site, tuple[Site, ...], Path] | None:
        """A path with no release from one of *writes* to *signal*, or to a CTA barrier before it.

        With it, the write, and the CTA barrier if another thread than the one that has written passes it.
        """
        model = self.model
        releases = self._unknown if self.narrow(signal) else self.releases
        for write in sorted(set(writes)):
            # Without regard to the conditions of branches first, which costs far less than a search for a path.
            if not model.reaches(write, signal, releases):
                continue
            ends, context = releases | {write}, model.views.context_of(write)
            own = role_paths.follow_first(model, write, context, (signal,), ends).witness
            if own is not None:
                return write, (), own
            for barrier in sorted(self.barriers):
                to = role_paths.follow_first(model, write, context, (barrier,), ends).witness
                if to is None:
                    continue
                joined = model.views.context_of(barrier)
                if role_paths.follow_first(model, barrier, joined, (signal,), releases).witness is not None:
                    return write, (barrier,), to
        return None

    # ------------------------------------------------------------ what orders

    @cached_property
    def acquires(self) -> frozenset[Site]:
        """What may order later reads after an observation, or ends what is known: fences, acquires, calls."""
        model = self.model
        ordered = self.model.matching(lambda match: match.wide and ordering(match).acquires)
        return frozenset((*ordered, *model.awaits(Barrier.GRIDS), *role_paths.calls(model)))

    @cached_property
    def _unknown(self) -> frozenset[Site]:
        """Calls, which may do anything. Around an access whose scope lacks the other thread, no fence makes a pattern (8.8)."""
        return frozenset(role_paths.calls(self.model))

    @cached_property
    def releases(self) -> frozenset[Site]:
        """What may order earlier writes before a signal, or ends what is known: fences, releases, calls."""
        released = self.model.matching(lambda match: match.wide and ordering(match).releases)
        return frozenset((*released, *role_paths.calls(self.model)))

    @cached_property
    def barriers(self) -> frozenset[Site]:
        """The CTA barriers that all their threads leave together."""
        points = self.model.fact(HappensBefore).points
        return frozenset(i for i in points.barrier_sites(OrderScope.WARPS) if points.releases_together(i))


def ordering(match: Match) -> Order:
    """The memory order of an access or a fence: a barrier orders the threads that meet there, and not those of a flag.

    A reduction, whose result nothing gets, forms no acquire pattern (8.11.1).
    """
    effects = match.form.effects
    if effects.arrives is not None or effects.awaits is not None:
        return Order.WEAK
    if effects.fence is Fence.MEMORY:
        return match.fence_order()
    if match.order.acquires and match.combination and not match.writes:
        return Order.RELEASE if match.order.releases else Order.RELAXED
    return match.order


def _stated(match: Match) -> bool:
    """Whether an access states that it is relaxed, and is a load."""
    return spelled_order(match.modifiers) is Order.RELAXED and not match.combination


def _may_observe(match: Match) -> bool:
    """Whether an instruction is a strong read of one integer in global memory."""
    return (
        match.strong and bool(match.writes) and not match.form.event and _is_integer(match) and _reads(match)
    )


def _may_set(match: Match) -> bool:
    """Whether an instruction is a strong write of one integer to global memory."""
    return match.strong and _sets(match)


def _sets(match: Match) -> bool:
    """Whether an instruction writes one integer to global memory."""
    return bool(global_operands(match, "write")) and _is_integer(match) and match.form.event == ""


def _is_integer(match: Match) -> bool:
    return match.element[:2] in (".b", ".u", ".s")


def _reads(match: Match) -> bool:
    """Whether an instruction reads global memory that other threads may write."""
    if match.form.unchanging:
        return False
    return any(
        not a.writes and a.space in (StateSpace.GLOBAL, StateSpace.GENERIC) and a.proxy is Proxy.GENERIC
        for a in match.accesses
    )


def _is_weak_read(match: Match) -> bool:
    """Whether an instruction reads global memory that other threads may write, and is not strong."""
    if match.strong or match.form.unchanging:
        return False
    return any(
        not a.writes and a.space is StateSpace.GLOBAL and a.proxy is Proxy.GENERIC for a in match.accesses
    )
