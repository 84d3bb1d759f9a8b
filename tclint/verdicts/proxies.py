"""Proxies within a thread: a fence separates the accesses of one location through two proxies.

What may not be fenced is the fixpoint of the transfer functions of :mod:`tclint.verdicts.proxy_checker`, which accepts or
refuses the certificate. A proof trusts, besides the checker, the ISA table (memory, proxies, state spaces), the
control-flow graph, and for disjoint bytes and infeasible paths :mod:`tclint.values`. One location has one address: what
several virtual addresses name is not considered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property

from tclint.analyses.mbarriers import largest_expected
from tclint.analyses.model import KernelModel
from tclint.analyses.pointers import Pointers
from tclint.dataflow import Infeasible, PathQuery, find_paths, next_answer, solve
from tclint.dataflow.may import May
from tclint.findings.spans import span
from tclint.findings.verdicts import Assumption, Discharge, Obligation, Reason
from tclint.ir.nodes import Instruction
from tclint.isa.accesses import Proxy, StateSpace
from tclint.values import thread_masks as T
from tclint.values.addresses import EVER
from tclint.verdicts.checker import Graph, Refused
from tclint.verdicts.outcome import Outcome
from tclint.verdicts.paths import RelevantSites, path_assumptions
from tclint.verdicts.proxy_checker import (
    FENCED,
    NEVER,
    PUBLISHED,
    READY,
    OperandAccess,
    ProxyCertificate,
    ProxyFenced,
    ProxyPair,
    ProxyQuestions,
    State,
    check_proxies,
    conflicts,
    published,
)

__all__ = ["Proxies"]

MAX_OBLIGATIONS = 50_000
"""The pairs of accesses in one kernel that a proof may have."""
MAX_OPEN = 32
"""The pairs that are not discharged after which no addresses are compared and no paths are searched for."""
_CONSTANT = (".param", ".const")
_ADDRESSES = frozenset((Assumption.NO_OVERFLOW, Assumption.THREADS))
"""What the comparison of two addresses takes for granted."""

_WHAT = {
    FENCED: "a proxy fence separates it from an access through another proxy",
    PUBLISHED: "it is released to the tensormap proxy, and the map acquired, before the map is used",
    NEVER: "no access through another proxy follows it that no fence orders after it",
}
_HELP = {
    FENCED: "execute a fence.proxy.async between the two, in this thread",
    PUBLISHED: "release and acquire the map on every path to its use",
}


class Proxies:
    """The pairs of accesses in one kernel that go through different proxies, and what separates them."""

    def __init__(self, model: KernelModel, assume: Collection[Assumption]) -> None:
        self.model, self.assume, self.cfg = model, frozenset(assume), model.cfg
        self.instructions, self.values = model.function.instructions, model.values
        blocks = [range(block.start, block.end) for block in self.cfg.blocks]
        self.graph = Graph(blocks, self.cfg.successors, self.cfg.exits)
        self.fences = ProxyFenced(model.function, [blocks[b] for b in self.cfg.order])
        self.unfenced = solve(
            May(self.fences.affecting, lambda state, at, _: self.fences.executed(state, at)), self.cfg
        )
        self.relevant = RelevantSites(self.cfg)
        self.assumed: set[Assumption] = set()
        self._found: dict[ProxyPair, bool] = {}
        self._closed: dict[ProxyPair, PathQuery] = {}
        """The searches that found no path."""
        self._last: tuple[int, State] = -1, frozenset()

    def outcome(self) -> Outcome:
        """The obligations, and whether the checker accepts what discharges them."""
        needed = set[ProxyPair]()
        for pair in self.pairs():
            needed.add(pair)
            if len(needed) > MAX_OBLIGATIONS:
                return Outcome(reasons=(Reason(None, f"it has more than {MAX_OBLIGATIONS} obligations"),))
        claims: dict[ProxyPair, Discharge] = {}
        obligations, reasons = list[Obligation](), list[Reason]()
        function = self.model.function
        for pair in sorted(needed, key=lambda p: (p.use, p.operation, p.memory.value, p.what)):
            discharge = self._discharge(pair, cheap=len(reasons) >= MAX_OPEN)
            why = ""
            if discharge is None:
                why = self._why(pair)
                reasons.append(Reason(span(function, pair.use), why, _HELP.get(pair.what, "")))
            else:
                claims[pair] = discharge
            at, use = span(function, pair.operation), span(function, pair.use)
            obligations.append(Obligation(at, use, _WHAT[pair.what], discharge, why=why))
        if not reasons:
            certificate = ProxyCertificate(self.unfenced.entry, claims)
            questions = ProxyQuestions(self._infeasible, self._disjoint, self._acquires)
            self._found = {}
            try:
                check_proxies(function, self.graph, certificate, questions)
            except Refused as refused:
                reasons.append(Reason(span(function, refused.site), refused.why))
        return Outcome(
            tuple(obligations), tuple(reasons), frozenset(self.assumed), tuple(self._closed.values())
        )

    # ------------------------------------------------------------ obligations

    def pairs(self) -> Iterator[ProxyPair]:
        """The obligations of the kernel, in no particular order and possibly repeatedly."""
        for memory, what, firsts, uses in self.fences.kinds():
            for use in uses:
                reaching = (first for first in firsts if self.model.reaches(first, use))
                yield from (ProxyPair(first, use, memory, what) for first in reaching)

    # ------------------------------------------------------------ discharges

    def _discharge(self, pair: ProxyPair, *, cheap: bool) -> Discharge | None:
        """What discharges an obligation; None if nothing is known to. With *cheap*, only the strict state is asked."""
        self.model.pause()
        if self._separated(pair):
            return Discharge.FENCED
        if cheap:
            return None
        if self._disjoint(pair, self.unfenced.entry):
            return Discharge.DISJOINT
        return Discharge.INFEASIBLE if self._infeasible(pair, self.fences) else None

    def _separated(self, pair: ProxyPair) -> bool:
        if pair.what == FENCED:
            return self.fences.separated(pair, self._before(pair.use))
        return pair.what == PUBLISHED and published(pair, self.graph, self.fences, self._acquires)

    def _before(self, at: int) -> State:
        if self._last[0] != at:
            self._last = at, self.unfenced.before(at)
        return self._last[1]

    def _acquires(self, fence: int, use: int) -> bool:
        """Whether a fence acquires the tensor map that an instruction uses, whatever the iteration."""
        acquired, used = self.model.value(fence, "tensormap"), self.model.value(use, "tensormap")
        if acquired is None or used is None or self.values.varying_at(used):
            return False
        return self.values.representative(acquired) == self.values.representative(used)

    def _infeasible(self, pair: ProxyPair, fences: ProxyFenced) -> bool:
        """Whether no feasible path leads from the one access to the other on which no fence separates them."""
        needed = self.model.fact(path_assumptions)
        if needed is None or not needed <= self.assume:
            return False
        if pair not in self._found:
            self._found[pair] = self._search(pair, fences)
        if self._found[pair]:
            self.assumed |= needed
        return self._found[pair]

    def _search(self, pair: ProxyPair, fences: ProxyFenced) -> bool:
        begun = frozenset(f for f in fences.begun[pair.operation] if f.memory is pair.memory)
        fact = begun if pair.what == FENCED else frozenset[object]()

        def step(state: State, at: int, instruction: Instruction) -> State | None:
            if pair.what != FENCED:
                return state
            return frozenset(f for f in fences.executed(state, at) if f.site == pair.operation) or None

        def goal(state: State, at: int) -> bool:
            return at == pair.use and (pair.what != FENCED or not fences.separated(pair, state))

        query = PathQuery(
            start=pair.operation,
            context=self.model.views.context_in_iteration(pair.operation),
            fact=fact,
            relevant=self.relevant.of(fences.affecting, pair.use),
            step=step,
            goal=goal,
            goals=(self.cfg.block_of[pair.use],),
        )
        closed = isinstance(next_answer(find_paths(self.model.search_cache, query)), Infeasible)
        if closed:
            self._closed[pair] = query
        return closed

    # ------------------------------------------------------------ disjoint bytes

    def _disjoint(self, pair: ProxyPair, unfenced: Sequence[State]) -> bool:
        """Whether all accesses that must be separated have no byte in common."""
        first, then = self.fences.accesses[pair.operation], self.fences.accesses[pair.use]
        needed = set[Assumption]()
        for memory, what, a, b in conflicts(first, then):
            if (memory, what) != (pair.memory, pair.what):
                continue
            if self._is_constant(pair.operation, a) or self._is_constant(pair.use, b):
                continue
            if memory is StateSpace.GLOBAL and (
                self._of_map_and_tensor(pair, a, b) or self._of_different_parameters(pair, a, b)
            ):
                needed.add(Assumption.NO_ALIAS)
            elif self._ranges_disjoint(pair, a, b, unfenced):
                needed |= _ADDRESSES | self._sized_by(pair)
            else:
                return False
        if not needed <= self.assume:
            return False
        self.assumed |= needed
        return True

    def _sized_by(self, pair: ProxyPair) -> set[Assumption]:
        """The assumption about the size of a tensor copy, if one of the accesses is made by one."""
        copies = (self.instructions[site].match for site in (pair.operation, pair.use))
        boxes = any(
            m is not None and m.form.effects.begins is not None and "bytes" not in m.form.roles
            for m in copies
        )
        return {Assumption.EXPECTED} if boxes else set()

    def _is_constant(self, site: int, access: OperandAccess) -> bool:
        """Whether it is a tensor map that nothing writes while the kernel runs: a parameter, or in ``.const``."""
        if access.proxy is not Proxy.MAP:
            return False
        base = self.values.addresses.form(self._address(site, access.operand)).base
        return self.model.space(base).startswith(_CONSTANT)

    def _address(self, site: int, operand: str) -> int:
        instruction = self.instructions[site]
        named = instruction.named(operand)
        assert named is not None
        return self.values.operand(named, site)

    def _of_map_and_tensor(self, pair: ProxyPair, a: OperandAccess, b: OperandAccess) -> bool:
        """Whether one access writes a tensor map by an instruction for these, and the other one is of a tensor."""
        return any(
            described.proxy is Proxy.ASYNC and not described.operand and self._is_map(site, written)
            for site, written, described in ((pair.operation, a, b), (pair.use, b, a))
        )

    def _is_map(self, site: int, access: OperandAccess) -> bool:
        match = self.instructions[site].match
        return (
            match is not None
            and bool(match.form.memory)
            and match.form.roles.get("tensormap") == access.operand != ""
        )

    def _of_different_parameters(self, pair: ProxyPair, a: OperandAccess, b: OperandAccess) -> bool:
        """Whether the addresses of two accesses to global memory derive from different pointers or tensor maps, and nothing leads
        from one to the other."""
        here, there = self._located(pair.operation, a), self._located(pair.use, b)
        return here is not None and there is not None and self.model.fact(Pointers).apart(here, there)

    def _located(self, site: int, access: OperandAccess) -> int | None:
        """The address of an access, or that of its tensor map."""
        pointers = self.model.fact(Pointers)
        return self._address(site, access.operand) if access.operand else pointers.map_of(site)

    def _ranges_disjoint(
        self, pair: ProxyPair, a: OperandAccess, b: OperandAccess, unfenced: Sequence[State]
    ) -> bool:
        """Whether two accesses of one thread are of different bytes, whatever the iteration of each."""
        first, then = self._range(pair.operation, a), self._range(pair.use, b)
        if first is None or then is None:
            return False

        def passes(kind: str, at: int) -> bool:
            """Whether the thread may enter the block, or execute the instruction, before the two are separated."""
            block = at if kind == "block" else self.cfg.block_of[at]
            inside = kind != "block" and block == self.cfg.block_of[pair.operation] and pair.operation < at
            return pair.what != FENCED or inside or any(f.site == pair.operation for f in unfenced[block])

        between, _ = self.values.linear(self.values.add(first[0], self.values.times(then[0], -1)))
        of_variables = any(self.values.variable(term) is not None for term, _ in between)
        disjoint, everyone = self.values.addresses.disjoint, T.full(self.values.threads)
        if not of_variables and disjoint(first, then, passes):
            return True  # what is past the end of a variable may be in another one
        return disjoint(first, then, EVER, (everyone, everyone)) is True

    def _range(self, site: int, access: OperandAccess) -> tuple[int, int] | None:
        """The address of an access, and the number of bytes from there on; None if that is not known exactly."""
        if not access.operand or (access.memory is StateSpace.GLOBAL and not access.later):
            return None
        size = self.model.shared.extent(site, access.extent) if access.extent else self._box(access)
        return None if size is None else (self._address(site, access.operand), size)

    def _box(self, access: OperandAccess) -> int | None:
        """The bytes that a tensor copy writes at most: as many as an operation on an mbarrier expects; None if that is unknown."""
        if not (access.writes and access.later) or Assumption.EXPECTED not in self.assume:
            return None
        return self._expected

    @cached_property
    def _expected(self) -> int | None:
        return largest_expected(self.model)

    def _why(self, pair: ProxyPair) -> str:
        """Why it is not known whether an obligation holds."""
        name = self.model.name(pair.operation)
        if pair.what == PUBLISHED:
            return f"it uses a tensor map that an earlier {name} may have written, on some path without both fences"
        if pair.what == NEVER:
            return f"it may access what an earlier {name} accesses through another proxy, and no fence orders the two"
        later = any(access.start != READY for access in self.fences.accesses[pair.operation])
        done = "issued" if later else "executed"
        return (
            f"it may access the bytes in {pair.memory.value} memory of a {name} that was {done} before, with no proxy"
            " fence in between on some path"
        )
