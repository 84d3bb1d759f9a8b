"""Checks of the operations on mbarriers: waits, arrivals, counts and states (PTX ISA 9.7.13.15)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator
from functools import cached_property

from tclint._dataclass import dataclass
from tclint.analyses.mbarrier_addresses import MbarrierAddresses, home, mapped_by
from tclint.analyses.model import KernelModel
from tclint.checks import Hit, Mark, RuleId, check
from tclint.checks._wording import times
from tclint.dataflow import EXIT, Found, Path, PathQuery, find_paths, next_answer
from tclint.dataflow.feasible_paths import FEASIBLE_PATH
from tclint.dataflow.views import ThreadContext
from tclint.findings.edits import Repair, inverted
from tclint.ir.cfg import Edge
from tclint.ir.nodes import SINK, Instruction
from tclint.isa.effects import Barrier, Effects, Query, Resource
from tclint.sync.mbarriers import MAX_COUNT
from tclint.values import PathCondition
from tclint.values.nodes import Arithmetic, Constant, Phi, SpecialRead, Undefined, Unmodelled

MB001 = RuleId("MB001")
MB003 = RuleId("MB003")
MB010 = RuleId("MB010")
MB011 = RuleId("MB011")

MAX_PATHS_PER_WAIT = 12
"""Paths that are examined after one wait. Each is rejected because a branch on the result cannot be taken that way."""
MAX_BLOCKS_IN_SPIN_LOOP = 4
"""Blocks from a wait back to itself. Compilers generate spin loops that are no longer than this."""
_PRIVATE = (".local", ".param", ".const")
"""State spaces that threads do not share, so that no mbarrier protects them."""
_UNTESTED, _TESTED, _USED = range(3)
"""State of a path after a wait: its result is untested; a branch has tested it; then a protected operation followed."""


@check(MB001, analyses=(MbarrierAddresses,))
def unheeded_waits(model: KernelModel) -> Iterator[Hit]:
    """Report waits for an mbarrier after which a thread continues although the phase is not complete."""
    waits = model.awaits(Barrier.MBARRIER)
    if not waits:
        return
    kernel = _Waits(model)
    for site in waits:
        if hit := kernel.judge(site):
            yield hit


@dataclass
class _Waits:
    """The waits of a kernel, and what follows them."""

    model: KernelModel

    @cached_property
    def waits(self) -> frozenset[int]:
        return frozenset(self.model.awaits(Barrier.MBARRIER))

    @cached_property
    def protected(self) -> frozenset[int]:
        """Instructions that a wait may protect: the first one of each block, and the first one after each wait."""
        model, block_of = self.model, self.model.cfg.block_of
        found: dict[tuple[int, int], int] = {}
        waits = sorted(self.waits)
        for use in model.function.uses:
            match = use.match
            if match is None or match.form.effects.awaits is Barrier.MBARRIER:
                continue
            memory = match.form.memory and not match.space.startswith(_PRIVATE)
            if memory or _is_protected(match.form.effects):
                for i in use.sites:
                    if self._feeds_waits_only(i):
                        continue
                    key = block_of[i], bisect_left(waits, i)
                    found[key] = min(found.get(key, i), i)
        return frozenset(i for i in found.values() if block_of[i] in model.cfg.rank)

    def _feeds_waits_only(self, site: int) -> bool:
        """True if only waits read what *site* loads, such as their parity or the address of their mbarrier."""
        takers = [i for r in self.model.instruction(site).writes for i in self.model.readers.get(r, ())]
        return bool(takers) and self.waits.issuperset(takers)

    @cached_property
    def relevant(self) -> list[list[int]]:
        model = self.model
        relevant: list[list[int]] = [[] for _ in model.cfg.blocks]
        for i in sorted(self.waits | self.protected):
            relevant[model.cfg.block_of[i]].append(i)
        return relevant

    def judge(self, site: int) -> Hit | None:
        """The finding about the wait at *site*; None if its result is honoured or cannot be followed."""
        result = self.model.instruction(site).role("destination")
        if not isinstance(result, int) or self._spins(site, result, False):
            return None
        if self._spins(site, result, True):
            return self._inverted(site)
        answer, needing = self.model.values.after(result, site), self.protected
        branches = self._branches_on(result, answer)
        if branches is None:
            return None
        # CuTe DSL drops the code that uses the last early test of a loop, but not the test itself.
        if not branches and any(not self.model.views.mutually_exclusive(site, w) for w in self.same(site)):
            needing = self._of_the_stage(site)
        path = self._unprotected_path(site, answer, branches, needing)
        if path is None:
            return None
        use = next((i for i in path.marks if i in needing), path.end)
        if branches and not self._reached(site, answer, use):
            return None  # other work while the phase is incomplete, and not what the wait protects
        taken = [last for e in path.edges if (last := self.model.cfg.blocks[e.source].end - 1) in branches]
        counted = self._loop_counts(site, path, taken)
        doubt = (
            "the enclosing loop counts completed waits, and may not exit before all have completed"
            if counted
            else ""
        )
        return self._hit(site, use, taken).doubted(doubt)

    def _loop_counts(self, site: int, path: Path, taken: list[int]) -> bool:
        """True if *path* exits a loop around *site* by a predicate that depends on whether the result was true.

        A thread that polls several mbarriers in turn handles those that are complete, and counts them.
        """
        cfg, values = self.model.cfg, self.model.values
        loop = cfg.innermost(cfg.block_of[site])
        joins = {cfg.ipdom.get(cfg.block_of[branch]) for branch in taken}
        for edge in path.edges:
            p = (
                self.model.reachability.edge_predicate(edge)
                if edge.source in loop and edge.target not in loop
                else None
            )
            if p is not None:
                made = map(values.node, values.subexpressions(p))
                return any(type(node) is Phi and node.block in joins for node in made)
        return False

    def _of_the_stage(self, site: int) -> frozenset[int]:
        """Operations that may need the wait at *site* although other threads wait for the same mbarrier.

        The result of an early test is dropped where a loop ends, and another wait protects the data. An operation on
        another mbarrier of the same stage, such as the arrival that releases it, must still not precede the phase.
        All protected instructions if the stage is unknown.
        """
        stage = self._stage(site)
        return frozenset(i for i in self.operations if self._stage(i) == stage) if stage else self.protected

    def _stage(self, site: int) -> tuple[tuple[int, int], ...]:
        """The terms of the mbarrier address at *site* that vary; empty if none does, or the address is unknown."""
        values = self.model.values
        address = self.model.mbarrier(site)
        terms = () if address is None else values.linear(home(values, address).address)[0]
        return tuple(t for t in terms if values.varying_at(t[0]))

    @cached_property
    def operations(self) -> frozenset[int]:
        """Operations on an mbarrier other than waits."""
        uses = self.model.function.uses
        found = (u.sites for u in uses if u.match is not None and u.match.form.mbarrier)
        return frozenset(i for sites in found for i in sites) - self.waits

    def _spins(self, site: int, result: int, answer: bool) -> bool:
        """True if the thread branches straight back to the wait at *site* whenever its result is *answer*."""
        model, cfg = self.model, self.model.cfg
        facts = model.values.refine(model.values.after(result, site), answer, PathCondition())
        block, begin = cfg.block_of[site], site + 1
        for _ in range(MAX_BLOCKS_IN_SPIN_LOOP):
            if any(i >= begin for i in self.relevant[block]):
                return False
            onward = [
                edge
                for edge in cfg.successors[block]
                if (p := model.reachability.edge_predicate(edge)) is None
                or model.values.entails(p, facts) is not (not edge.value)
            ]
            if len(onward) != 1:
                return False
            block = onward[0].target
            begin = cfg.blocks[block].start
            first = next(iter(self.relevant[block]), -1)
            if first == site:
                return True
        return False

    def _branches_on(self, result: int, answer: int) -> frozenset[int] | None:
        """The branches that depend on *answer*, the value of the register *result*.

        None if the value escapes to memory, another thread or a call.
        """
        instructions, values = self.model.function.instructions, self.model.values

        def other(at: int) -> bool:
            """True if the register holds another value there, such as the result of another wait."""
            made = values.subexpressions(values.before(result, at), until=lambda v: not values.is_phi(v))
            return values.representative(answer) not in made

        made, work, branches = {result}, [result], set()
        while work:
            register = work.pop()
            for i in self.model.readers.get(register, ()):
                instruction = instructions[i]
                match = instruction.match
                if register == result and other(i):
                    continue
                if instruction.flow == "branch":
                    branches.add(i)
                elif match is None or match.form.event or match.form.memory or instruction.flow:
                    return None
                else:
                    work += set(instruction.writes) - made
                    made.update(instruction.writes)
        return frozenset(branches)

    def _view(self, site: int, answer: int, truth: bool) -> ThreadContext:
        view = self.model.views.context_in_iteration(site)
        return ThreadContext(view.threads, self.model.values.refine(answer, truth, view.facts))

    def _unprotected_path(
        self, site: int, answer: int, branches: frozenset[int], needing: frozenset[int]
    ) -> Path | None:
        """A path on which the phase is incomplete, to an instruction that needs it; None if none is found.

        If branches test the result, operations before the test do not count: they may overlap with the phase. Nor do
        operations before another wait for the same mbarrier, so such a path leads to the next iteration or to the
        exit. A barrier ends the path if other threads wait for the same mbarrier before it: the phase is then complete.
        """
        model, values, cfg = self.model, self.model.values, self.model.cfg
        view = self._view(site, answer, False)
        ends = self.same(site) if branches or self._stage(site) else self.waits
        ends |= self._barriers_after_other_waits(site)
        relevant = list(self.relevant)
        tested = self._after_branches(branches)
        for i in tested | (needing | ends) - self.protected - self.waits:
            block = cfg.block_of[i]
            relevant[block] = sorted({*relevant[block], i})

        def step(state: Hashable, i: int, instruction: Instruction) -> Hashable:
            if i in ends or i == site:
                return None
            if i in tested and state == _UNTESTED:
                state = _TESTED
            return _USED if state == _TESTED and i in needing else state

        def goal(state: Hashable, i: int) -> bool:
            return i in needing if not branches else state == _USED and i in (site, EXIT)

        closed: set[Edge] = set()
        goals = {cfg.block_of[i] for i in needing}
        if branches:
            goals = {cfg.block_of[site], *cfg.exits, *model.reachability.dispatchers}
        for _ in range(MAX_PATHS_PER_WAIT):
            state = _UNTESTED if branches else _TESTED
            query = PathQuery(site, view, state, relevant, step, goal, goals, closed=closed)
            path = next_answer(find_paths(model.search_cache, query)).witness
            if path is None:
                return None
            if branches and not any(cfg.blocks[e.source].end - 1 in branches for e in path.edges):
                return None
            along = model.along(path, site)
            for k, edge in enumerate(path.edges):
                if cfg.blocks[edge.source].end - 1 not in branches:
                    continue
                p = model.reachability.edge_predicate(edge)
                decided = None if p is None else values.entails(along.walk(p, k), view.facts)
                if decided is None:
                    return None  # it depends on the result in an unknown way
                if decided is not edge.value:
                    closed.add(edge)
                    break
            else:
                return path
        model.ledger.give_up(FEASIBLE_PATH, site, f"more than {MAX_PATHS_PER_WAIT} paths")
        return None

    @cached_property
    def parities(self) -> dict[int, int | None]:
        """The parity of each wait; None if it is unknown, or if the wait takes a state."""
        return {w: self.model.constant_of(w, "parity") for w in self.waits}

    def same(self, site: int) -> frozenset[int]:
        """The other waits that may wait for the same phase of the same mbarrier as the one at *site*."""
        addresses, parity = self.model.fact(MbarrierAddresses), self.parities[site]
        return frozenset(
            other
            for other, theirs in self.parities.items()
            if other != site
            and (parity is None or theirs is None or parity == theirs)
            and addresses.same(site, other) is not False
        )

    def _barriers_after_other_waits(self, site: int) -> frozenset[int]:
        """The barriers that other threads reach after a wait for the same mbarrier as the one at *site*."""
        model = self.model
        others = [w for w in self.same(site) if model.views.mutually_exclusive(site, w)]
        barriers = model.where(lambda effects: effects.synchronises is not None) if others else ()
        return frozenset(b for b in barriers if any(model.reaches(w, b) for w in others))

    def _after_branches(self, branches: frozenset[int]) -> frozenset[int]:
        """The first unguarded instruction of each successor of *branches*, or its first one if all are guarded."""
        cfg, instructions = self.model.cfg, self.model.function.instructions
        found = set()
        for branch in branches:
            for edge in cfg.successors[cfg.block_of[branch]]:
                block = cfg.blocks[edge.target]
                found.add(
                    next((i for i in range(block.start, block.end) if instructions[i].guard < 0), block.start)
                )
        return frozenset(found)

    def _reached(self, site: int, answer: int, to: int) -> bool:
        """True if a thread whose result is true reaches instruction *to* before it waits at *site* again."""
        model, cfg = self.model, self.model.cfg

        def step(state: Hashable, i: int, instruction: Instruction) -> Hashable:
            return None if i == site else state

        def goal(state: Hashable, i: int) -> bool:
            return i == to

        goals = {cfg.block_of[to]} if to != EXIT else cfg.exits | model.reachability.dispatchers
        view = self._view(site, answer, True)
        query = PathQuery(site, view, True, self.relevant, step, goal, goals)
        return isinstance(next_answer(find_paths(model.search_cache, query)), Found)

    def _inverted(self, site: int) -> Hit:
        name = self.model.name(site)
        return MB001.hit(
            site=site,
            message=f"{name} is in an inverted loop: it exits while the result is false, and repeats once the phase is complete",
            steps=(Mark(site, "repeated when the result is true"),),
            help="invert the condition of the branch: back to the wait when the result is false",
            fixes=self._inverted_branch(site),
            about=frozenset((site,)),
        )

    def _inverted_branch(self, site: int) -> tuple[Repair, ...]:
        """The fix that inverts the branch on the result; empty if the block does not end in one."""
        model, made = self.model, set(self.model.instruction(site).writes)
        last = model.cfg.blocks[model.cfg.block_of[site]].end - 1
        if model.instruction(last).guard not in made or model.instruction(last).flow != "branch":
            return ()
        return (Repair("branch back when the result is false", (inverted(last),)),)

    def _hit(self, site: int, use: int, branches: list[int]) -> Hit:
        instruction, name = self.model.instruction(site), self.model.name(site)
        early = (
            "may return before the phase is complete"
            if instruction.match is not None and instruction.match.suspends
            else "does not block"
        )
        why = "the thread continues whatever its result is" if branches else "its result is unused"
        return MB001.hit(
            site=site,
            message=f"{name} {early}, and {why}",
            steps=(
                Mark(site, "the result may be false"),
                *(Mark(i, "continues with false") for i in branches[:1]),
                Mark(use, "executed although the phase may not be complete"),
            ),
            help="wait in a loop until the result is true",
            about=frozenset((site,)),
        )


# ---------------------------------------------------------------- MB003


@check(MB003, analyses=(MbarrierAddresses,))
def counts(model: KernelModel) -> Iterator[Hit]:
    """Report arrival and byte counts that an mbarrier cannot hold. Literals are left to PX004."""
    for use in model.function.uses:
        match = use.match
        if match is None or match.problem or not match.form.mbarrier:
            continue
        for role, what, least in (("count", "arrivals", 1), ("tx", "bytes", 0)):
            if role not in match.form.roles:
                continue
            for site in use.sites:
                number = _number(model, site, role)
                if number is not None and not least <= number <= MAX_COUNT:
                    yield _out_of_range(model, site, number, what, least)
    yield from _too_many(model)


def _number(model: KernelModel, site: int, role: str) -> int | None:
    """The unsigned constant in the register operand of this role; None if it is not a register or is unknown."""
    if (
        not isinstance(model.instruction(site).role(role), int)
        or model.cfg.block_of[site] not in model.cfg.rank
    ):
        return None
    number = model.constant_of(site, role)
    return None if number is None else number & 0xFFFFFFFF


def _out_of_range(model: KernelModel, site: int, number: int, what: str, least: int) -> Hit:
    return MB003.hit(
        site=site,
        message=f"{model.name(site)} with a count of {number} {what} is out of range: an mbarrier counts {least} "
        f"to {MAX_COUNT}",
        help=f"use a count from {least} to {MAX_COUNT}",
        about=frozenset((site,)),
    )


def _too_many(model: KernelModel) -> Iterator[Hit]:
    """Report an arrival whose count exceeds what the mbarrier expects in a whole phase."""
    addresses = model.fact(MbarrierAddresses)
    inits = {i: model.constant_of(i, "count") for i in model.sites(Resource.MBARRIER_INIT)}
    for site in model.arrives(Barrier.MBARRIER):
        count = model.constant_of(site, "count")
        if count is None or count < 2 or not inits:
            continue
        made = [(expected, i) for i, expected in inits.items() if addresses.same(site, i) is not False]
        most = max(
            (expected if expected is not None else MAX_COUNT for expected, _ in made), default=MAX_COUNT
        )
        if 0 < most < count:
            yield MB003.hit(
                site=site,
                message=f"{model.name(site)} arrives {count} times at an mbarrier that expects {times(most)}: its pending count "
                "cannot become negative",
                steps=(
                    Mark(made[0][1], f"initialised for {times(most)}"),
                    Mark(site, f"arrives {count} times"),
                ),
                help="initialise the mbarrier with the number of arrivals that all threads perform in a phase",
                about=frozenset((site,)),
            )


# ---------------------------------------------------------------- MB010


@check(MB010)
def remote(model: KernelModel) -> Iterator[Hit]:
    """Report operations on an mbarrier of another CTA that only the CTA that owns it may perform."""
    for use in model.function.uses:
        match = use.match
        if match is None or match.problem or not match.form.mbarrier:
            continue
        effects = match.form.effects
        local = effects.awaits or effects.resource  # init, inval and waits: 9.7.13.15.8
        if not local and effects.arrives is not Barrier.MBARRIER:
            continue
        for site in use.sites:
            if model.cfg.block_of[site] not in model.cfg.rank or _may_be_remote(model.instruction(site)):
                continue
            if _in_peer(model, site):
                yield _only_local(model, site)


def _may_be_remote(instruction: Instruction) -> bool:
    """True for an arrival that may name an mbarrier of another CTA (9.7.13.15.13).

    Its address is one of ``.shared::cluster`` or generic, and it returns no state. ``.noComplete`` has no such form.
    """
    match = instruction.match
    if match is None or match.form.effects.arrives is not Barrier.MBARRIER or not match.may_complete:
        return False
    return match.space == ".shared::cluster" or (not match.space and instruction.role("state") is SINK)


def _in_peer(model: KernelModel, site: int) -> bool:
    """True if ``mapa`` provably makes the mbarrier at *site* one of another CTA, in at least one CTA of the cluster."""
    values = model.values
    address = model.mbarrier(site)
    found = None if address is None else mapped_by(values, address)
    if found is None or _depends_on_rank(model, site):
        return False
    _, rank = found
    threads = model.views.context_of(site).threads
    if any(plane & threads not in (0, threads) for plane in values.bit_slices(rank) or ()):
        return True  # threads of one CTA map to different CTAs
    terms, constant = values.linear(rank)
    if not terms or (constant and len(terms) == 1 and values.is_special(terms[0][0], "%cluster_ctarank")):
        return True
    node = values.node(rank)
    return (
        type(node) is Arithmetic and node.name == "xor" and any(values.constant_of(a) for a in node.operands)
    )


def _depends_on_rank(model: KernelModel, site: int) -> bool:
    """True if *site* is control-dependent on the position of the CTA in the cluster or grid."""
    values = model.values
    made_of = map(values.node, values.subexpressions(*model.views.context_of(site).facts))
    return any(type(node) is SpecialRead and "cta" in node.name for node in made_of)


def _only_local(model: KernelModel, site: int) -> Hit:
    name = model.name(site)
    arrives = model.instruction(site).effects.arrives is Barrier.MBARRIER
    return MB010.hit(
        site=site,
        message=f"{name} on an mbarrier of another CTA: "
        + (
            "in this form it can only address one of the executing CTA"
            if arrives
            else "only the CTA that owns it may execute this"
        ),
        help="specify .shared::cluster, with the sink _ in place of the state"
        if arrives
        else "have the other CTA arrive here, or let each CTA wait for its own mbarrier",
        about=frozenset((site,)),
    )


# ---------------------------------------------------------------- MB011


@check(MB011, analyses=(MbarrierAddresses,))
def states(model: KernelModel) -> Iterator[Hit]:
    """Report uses of a state that no arrival at the same mbarrier has returned."""
    for site in (*model.awaits(Barrier.MBARRIER), *model.sites(Query.PENDING_COUNT)):
        value = model.value(site, "state")
        if value is None:
            continue
        node = model.values.node(value)
        if type(node) is Constant:
            yield _bad_state(model, site, "is a constant, which no arrival has returned", ())
        elif type(node) is Undefined:
            yield _bad_state(model, site, "is in an uninitialised register", ())
        elif type(node) is Unmodelled and (hit := _from(model, site, node.site)):
            yield hit


def _from(model: KernelModel, site: int, made: int) -> Hit | None:
    """The finding about a state that the instruction *made* wrote; None if it is valid or of unknown origin."""
    arrival = model.instruction(made)
    if arrival.effects.arrives is not Barrier.MBARRIER:
        return None
    step = (Mark(made, "the state is returned here"),)
    if model.instruction(site).effects.query is Query.PENDING_COUNT:
        if arrival.match is not None and not arrival.match.may_complete:
            return None
        return _bad_state(model, site, "comes from an arrival without .noComplete", step)
    if model.fact(MbarrierAddresses).same(made, site) is False:
        return _bad_state(model, site, "comes from an arrival at another mbarrier", step)
    return None


def _bad_state(model: KernelModel, site: int, why: str, steps: tuple[Mark, ...]) -> Hit:
    name = model.name(site)
    return MB011.hit(
        site=site,
        message=f"the state operand of {name} {why}",
        steps=(*steps, Mark(site, "used here")),
        help="use the state that the arrival at this mbarrier returned"
        if name != "mbarrier.pending_count"
        else "use the state that mbarrier.arrive.noComplete returned",
        about=frozenset((site,)),
    )


def _is_protected(effects: Effects) -> bool:
    """Whether a wait may protect an instruction, apart from its accesses."""
    return (
        effects.begins is not None
        or effects.commits is not None
        or effects.expects
        or effects.arrives_for_threads
        or effects.resource in (Resource.TMEM_ALLOC, Resource.TMEM_DEALLOC)
        or effects.query is Query.CANCELLED
    )
