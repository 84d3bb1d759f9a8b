"""Checks of the operations on mbarriers: waits, arrivals, counts and states (PTX ISA 9.7.13.15)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property

from tclint.analyses.mbarrier_addresses import MbarrierAddresses, home, mapped_by
from tclint.analyses.model import KernelModel
from tclint.checks import Hit, Mark, RuleId, check
from tclint.dataflow import EXIT, Found, Path, find_paths, next_answer
from tclint.dataflow.feasible_paths import FEASIBLE_PATH
from tclint.dataflow.views import ThreadContext
from tclint.findings.edits import Repair, inverted
from tclint.ir.cfg import Edge
from tclint.ir.nodes import Instruction
from tclint.values import PathCondition

MB001 = RuleId("MB001")
MB003 = RuleId("MB003")
MB010 = RuleId("MB010")
MB011 = RuleId("MB011")

MAX_PATHS_PER_WAIT = 12
"""Paths behind one wait that are looked at."""
_SHORT = 4
"""Blocks that lead back to a wait at most, in the loop that a compiler makes of one."""
_PRIVATE = (".local", ".param", ".const")
"""Memory that no mbarrier hands over."""
_OPEN, _ASKED, _USED = range(3)
"""Behind a wait: nothing has asked for its result; a branch has; and what it may protect has been done."""


@check(MB001, needs="mbarrier", analyses=(MbarrierAddresses,))
def unheeded_waits(model: KernelModel) -> Iterator[Hit]:
    """Waits for an mbarrier behind which a thread goes on although the phase is not complete."""
    waits = model.sites("mbarrier-wait")
    if not waits:
        return
    kernel = _Waits(model)
    for site in waits:
        if hit := kernel.judge(site):
            yield hit


@dataclass
class _Waits:
    """What happens behind the waits of a kernel."""

    model: KernelModel

    @cached_property
    def waits(self) -> frozenset[int]:
        return frozenset(self.model.sites("mbarrier-wait"))

    @cached_property
    def guarded(self) -> frozenset[int]:
        """Instructions that something may have to be waited for before, the first of a block behind each wait."""
        model, block_of = self.model, self.model.cfg.block_of
        found: dict[tuple[int, int], int] = {}
        waits = sorted(self.waits)
        for use in model.function.uses:
            match = use.match
            if match is None or match.form.event == "mbarrier-wait":
                continue
            memory = match.form.memory and not match.space.startswith(_PRIVATE)
            if memory or match.form.event in _PROTECTED:
                for i in use.sites:
                    if self._asks(i):
                        continue
                    key = block_of[i], bisect_left(waits, i)
                    found[key] = min(found.get(key, i), i)
        return frozenset(i for i in found.values() if block_of[i] in model.cfg.rank)

    def _asks(self, site: int) -> bool:
        """Whether it loads what nothing but a wait needs: its parity, or where its mbarrier is."""
        takers = [i for r in self.model.instruction(site).writes for i in self.model.readers.get(r, ())]
        return bool(takers) and self.waits.issuperset(takers)

    @cached_property
    def relevant(self) -> list[list[int]]:
        model = self.model
        relevant: list[list[int]] = [[] for _ in model.cfg.blocks]
        for i in sorted(self.waits | self.guarded):
            relevant[model.cfg.block_of[i]].append(i)
        return relevant

    def judge(self, site: int) -> Hit | None:
        result = self.model.instruction(site).role("destination")
        if not isinstance(result, int) or self._spins(site, result, False):
            return None
        if self._spins(site, result, True):
            return self._inverted(site)
        answer, needing = self.model.values.after(result, site), self.guarded
        branches = self._decided(result, answer)
        if branches is None:
            return None
        # CuTe DSL drops the last look ahead of a loop, and what read its result with it.
        if not branches and any(not self.model.views.mutually_exclusive(site, w) for w in self.same(site)):
            needing = self._of_the_stage(site)
        path = self._goes_on(site, answer, branches, needing)
        if path is None:
            return None
        use = next((i for i in path.marks if i in needing), path.end)
        if branches and not self._reached(site, answer, use):
            return None  # what is done meanwhile, and not what the wait is for
        taken = [last for e in path.edges if (last := self.model.cfg.blocks[e.source].end - 1) in branches]
        counted = self._loop_counts(site, path, taken)
        doubt = (
            "the loop around it counts what has been waited for, and may not end before" if counted else ""
        )
        return self._hit(site, use, taken).doubted(doubt)

    def _loop_counts(self, site: int, path: Path, taken: list[int]) -> bool:
        """Whether *path* leaves a loop around *site* by a number that is another one where the result is true.

        A thread that looks after several mbarriers in turn does what there is to do, and counts it.
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
                return any(node[0] == "phi" and node[1] in joins for node in made)
        return False

    def _of_the_stage(self, site: int) -> frozenset[int]:
        """What may need the wait at *site*, when others wait for the same mbarrier.

        A look ahead is dropped where a loop ends, and another wait is there for whoever needs it. What is done to
        another mbarrier of the same stage, such as to give it back, is not meant to be done ahead.
        """
        stage = self._stage(site)
        return frozenset(i for i in self.operations if self._stage(i) == stage) if stage else self.guarded

    def _stage(self, site: int) -> tuple[tuple[int, int], ...]:
        """What changes in the address of the mbarrier of an instruction."""
        values = self.model.values
        address = self.model.value(site, "mbarrier")
        terms = () if address is None else values.linear(home(values, address).address)[0]
        return tuple(t for t in terms if values.varying_at(t[0]))

    @cached_property
    def operations(self) -> frozenset[int]:
        """Instructions about an mbarrier that are no wait for it."""
        uses = self.model.function.uses
        found = (u.sites for u in uses if u.match is not None and "mbarrier" in u.match.form.roles)
        return frozenset(i for sites in found for i in sites) - self.waits

    def _spins(self, site: int, result: int, answer: bool) -> bool:
        """Whether the thread comes straight back to the wait as long as that is its answer."""
        model, cfg = self.model, self.model.cfg
        facts = model.values.refine(model.values.after(result, site), answer, PathCondition())
        block, begin = cfg.block_of[site], site + 1
        for _ in range(_SHORT):
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

    def _decided(self, result: int, answer: int) -> frozenset[int] | None:
        """The branches that the *answer* in the register *result* decides.

        None when it goes where it cannot be followed: into memory, to another thread, into a call.
        """
        instructions, values = self.model.function.instructions, self.model.values

        def other(at: int) -> bool:
            """Whether the register holds something else there, such as what another wait has answered."""
            made = values.subexpressions(
                values.before(result, at), until=lambda v: values.node(v)[0] != "phi"
            )
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
        view = self.model.views.context_of(site)
        return ThreadContext(view.threads, self.model.values.refine(answer, truth, view.facts))

    def _goes_on(
        self, site: int, answer: int, branches: frozenset[int], needing: frozenset[int]
    ) -> Path | None:
        """A path on which the phase is not complete, to what needs it.

        Where branches ask for the result, what is done before does not count: that may be done meanwhile. Nor does
        what comes before another wait for the same mbarrier, so such a path leads to the next round or the end. Behind a
        barrier at which other threads come that wait for it, the phase is complete as well.
        """
        model, values, cfg = self.model, self.model.values, self.model.cfg
        view = self._view(site, answer, False)
        ends = self.same(site) if branches or self._stage(site) else self.waits
        ends |= self._told(site)
        relevant = list(self.relevant)
        asked = self._behind_branches(branches)
        for i in asked | (needing | ends) - self.guarded - self.waits:
            block = cfg.block_of[i]
            relevant[block] = sorted({*relevant[block], i})

        def step(state: Hashable, i: int, instruction: Instruction) -> Hashable:
            if i in ends or i == site:
                return None
            if i in asked and state == _OPEN:
                state = _ASKED
            return _USED if state == _ASKED and i in needing else state

        def goal(state: Hashable, i: int) -> bool:
            return i in needing if not branches else state == _USED and i in (site, EXIT)

        closed: set[Edge] = set()
        goals = {cfg.block_of[i] for i in needing}
        if branches:
            goals = {cfg.block_of[site], *cfg.exits, *model.reachability.dispatchers}
        for _ in range(MAX_PATHS_PER_WAIT):
            state = _OPEN if branches else _ASKED
            found = find_paths(model.survey, site, view, state, relevant, step, goal, goals, closed=closed)
            path = next_answer(found).witness
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
                    return None  # by the result, but nobody knows how
                if decided is not edge.value:
                    closed.add(edge)
                    break
            else:
                return path
        model.ledger.give_up(FEASIBLE_PATH, site, f"more than {MAX_PATHS_PER_WAIT} paths")
        return None

    @cached_property
    def parities(self) -> dict[int, int | None]:
        """The parity of each wait; None: unknown, or a wait by a state."""
        return {w: self.model.constant_of(w, "parity") for w in self.waits}

    def same(self, site: int) -> frozenset[int]:
        """The other waits that may be for a phase of the same mbarrier that the wait at *site* is for."""
        addresses, parity = self.model.fact(MbarrierAddresses), self.parities[site]
        return frozenset(
            other
            for other, theirs in self.parities.items()
            if other != site
            and (parity is None or theirs is None or parity == theirs)
            and addresses.same(site, other) is not False
        )

    def _told(self, site: int) -> frozenset[int]:
        """The barriers at which threads that wait at *site* meet others that wait for the same mbarrier before."""
        model = self.model
        others = [w for w in self.same(site) if model.views.mutually_exclusive(site, w)]
        barriers = model.sites("barrier-sync") if others else ()
        return frozenset(b for b in barriers if any(model.reaches(w, b) for w in others))

    def _behind_branches(self, branches: frozenset[int]) -> frozenset[int]:
        """The first instruction behind each branch, either way, that no guard leaves out."""
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
        """Whether a thread for which the phase is complete comes to instruction *to* before it waits here again."""
        model, cfg = self.model, self.model.cfg

        def step(state: Hashable, i: int, instruction: Instruction) -> Hashable:
            return None if i == site else state

        def goal(state: Hashable, i: int) -> bool:
            return i == to

        goals = {cfg.block_of[to]} if to != EXIT else cfg.exits | model.reachability.dispatchers
        view = self._view(site, answer, True)
        found = find_paths(model.survey, site, view, True, self.relevant, step, goal, goals)
        return isinstance(next_answer(found), Found)

    def _inverted(self, site: int) -> Hit:
        name = self.model.name(site)
        return MB001.hit(
            site=site,
            message=f"goes on while {name} says that the phase is not complete, and waits again when it is",
            steps=(Mark(site, "comes back here when the result is true"),),
            help="invert the condition of the branch: back to the wait when the result is false",
            fixes=self._turned(site),
            about=frozenset((site,)),
        )

    def _turned(self, site: int) -> tuple[Repair, ...]:
        """The branch on the result, the other way."""
        model, made = self.model, set(self.model.instruction(site).writes)
        last = model.cfg.blocks[model.cfg.block_of[site]].end - 1
        if model.instruction(last).guard not in made or model.instruction(last).flow != "branch":
            return ()
        return (Repair("branch back when the result is false", (inverted(last),)),)

    def _hit(self, site: int, use: int, branches: list[int]) -> Hit:
        instruction, name = self.model.instruction(site), self.model.name(site)
        early = (
            "may return before the phase is complete"
            if ".try_wait" in instruction.opcode
            else "does not block"
        )
        why = "the thread goes on whatever its result is" if branches else "nothing uses its result"
        return MB001.hit(
            site=site,
            message=f"{name} {early}, and {why}",
            steps=(
                Mark(site, "the result may be false"),
                *(Mark(i, "goes on with false") for i in branches[:1]),
                Mark(use, "done although the phase may not be complete"),
            ),
            help="branch back to the wait as long as its result is false",
            about=frozenset((site,)),
        )


# ---------------------------------------------------------------- MB003


@check(MB003, needs="mbarrier", analyses=(MbarrierAddresses,))
def counts(model: KernelModel) -> Iterator[Hit]:
    """Numbers of arrivals and of bytes that an mbarrier cannot hold; literals are told as any other (PX004)."""
    for use in model.function.uses:
        match = use.match
        if match is None or match.problem or not match.form.event.startswith("mbarrier-"):
            continue
        for role, what, least in (("count", "arrivals", 1), ("tx", "bytes", 0)):
            if role not in match.form.roles:
                continue
            for site in use.sites:
                number = _number(model, site, role)
                if number is not None and not least <= number <= _MOST:
                    yield _out_of_range(model, site, number, what, least)
    yield from _too_many(model)


def _number(model: KernelModel, site: int, role: str) -> int | None:
    """The number that a register of this role is known to hold, unsigned."""
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
        message=f"{model.name(site)} counts {number} {what}, but an mbarrier counts {least} to {_MOST}",
        help=f"use a number from {least} to {_MOST}",
        about=frozenset((site,)),
    )


def _too_many(model: KernelModel) -> Iterator[Hit]:
    """One arrival that counts for more than a whole phase."""
    addresses = model.fact(MbarrierAddresses)
    inits = {i: model.constant_of(i, "count") for i in model.sites("mbarrier-init")}
    for site in model.sites("mbarrier-arrive"):
        count = model.constant_of(site, "count")
        if count is None or count < 2 or not inits:
            continue
        made = [(expected, i) for i, expected in inits.items() if addresses.same(site, i) is not False]
        most = max((expected if expected is not None else _MOST for expected, _ in made), default=_MOST)
        if 0 < most < count:
            yield MB003.hit(
                site=site,
                message=f"arrives {count} times at an mbarrier that expects {most}: its count of pending arrivals cannot go below 0",
                steps=(Mark(made[0][1], f"initialised for {most} here"), Mark(site, f"counts {count}")),
                help="initialise the mbarrier for as many arrivals as all threads of a phase make",
                about=frozenset((site,)),
            )


# ---------------------------------------------------------------- MB010


@check(MB010, needs="mbarrier")
def remote(model: KernelModel) -> Iterator[Hit]:
    """Operations on an mbarrier of another CTA that only its own CTA may do."""
    for use in model.function.uses:
        match = use.match
        if match is None or match.problem or "mbarrier" not in match.form.roles:
            continue
        event = match.form.event
        if event not in _LOCAL and (event != "mbarrier-arrive" or match.space == ".shared::cluster"):
            continue
        for site in use.sites:
            mapped = _foreign(model, site) if model.cfg.block_of[site] in model.cfg.rank else None
            if mapped is not None:
                yield _not_here(model, site, mapped)


_LOCAL = frozenset(("mbarrier-init", "mbarrier-inval", "mbarrier-wait"))
"""What is supported on mbarriers of the own CTA only (9.7.13.15.8)."""


def _foreign(model: KernelModel, site: int) -> int | None:
    """The ``mapa`` node by which the mbarrier at *site* is provably one of another CTA, in some CTA of the cluster."""
    values = model.values
    address = model.value(site, "mbarrier")
    found = None if address is None else mapped_by(values, address)
    if found is None or _about_rank(model, site):
        return None
    mapped, rank = found
    terms, constant = values.linear(rank)
    if not terms or (constant and [values.node(t) for t, _ in terms] == [("special", "%cluster_ctarank")]):
        return mapped
    node = values.node(rank)
    return mapped if node[:2] == ("op", "xor") and any(values.constant_of(a) for a in node[3:]) else None


def _about_rank(model: KernelModel, site: int) -> bool:
    """Whether a branch that depends on the CTA's place in the cluster decides whether *site* is executed."""
    values = model.values
    made_of = map(values.node, values.subexpressions(*model.views.context_of(site).facts))
    return any(node[0] == "special" and "cta" in str(node[1]) for node in made_of)


def _not_here(model: KernelModel, site: int, mapped: int) -> Hit:
    name = model.name(site)
    arrives = model.instruction(site).event == "mbarrier-arrive"
    return MB010.hit(
        site=site,
        message=f"{name} on an mbarrier of another CTA: "
        + (
            "without .shared::cluster it is for one of its own CTA"
            if arrives
            else "only its own CTA may do that"
        ),
        help="name .shared::cluster, with the sink _ for the state"
        if arrives
        else "let the other CTA arrive here, or each CTA wait for its own mbarrier",
        about=frozenset((site,)),
    )


# ---------------------------------------------------------------- MB011


@check(MB011, needs="mbarrier", analyses=(MbarrierAddresses,))
def states(model: KernelModel) -> Iterator[Hit]:
    """A state that is not the one which an arrival at the same mbarrier has returned."""
    for site in (*model.sites("mbarrier-wait"), *model.sites("mbarrier-pending")):
        value = model.value(site, "state")
        if value is None:
            continue
        node = model.values.node(value)
        if node[0] == "const":
            yield _bad_state(model, site, "is a constant, and no arrival has returned it", ())
        elif node[0] == "undefined":
            yield _bad_state(model, site, "is in a register that nothing has written", ())
        elif node[0] == "unknown" and (hit := _from(model, site, node[1])):
            yield hit


def _from(model: KernelModel, site: int, made: int) -> Hit | None:
    """What is wrong with the state that the instruction *made* has written."""
    arrival = model.instruction(made)
    if arrival.event != "mbarrier-arrive":
        return None
    step = (Mark(made, "the state comes from here"),)
    if model.instruction(site).event == "mbarrier-pending":
        if arrival.match is not None and ".noComplete" in arrival.match.modifiers:
            return None
        return _bad_state(model, site, "comes from an arrival without .noComplete", step)
    if model.fact(MbarrierAddresses).same(made, site) is False:
        return _bad_state(model, site, "comes from an arrival at another mbarrier", step)
    return None


def _bad_state(model: KernelModel, site: int, why: str, steps: tuple[Mark, ...]) -> Hit:
    name = model.name(site)
    return MB011.hit(
        site=site,
        message=f"the state that {name} asks about {why}",
        steps=(*steps, Mark(site, "asked about here")),
        help="use the state that the arrival at this mbarrier has returned"
        if name != "mbarrier.pending_count"
        else "use the state that mbarrier.arrive.noComplete has returned",
        about=frozenset((site,)),
    )


_MOST = (1 << 20) - 1
"""Arrivals, and bytes, that an mbarrier can count (9.7.13.15.2)."""
_PROTECTED = frozenset(
    "issue commit mbarrier-arrive mbarrier-expect barrier-sync barrier-arrive tmem-alloc tmem-dealloc clc-query".split()
)
"""Events that a wait may have to come before."""
