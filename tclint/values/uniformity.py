"""The threads in which a predicate may hold, and the scope in which a value is the same for all threads.

Both over-approximate where they are not exact: too many threads, and :attr:`UniformityScope.UNKNOWN`, which is never a reason for
a finding. A phi starts at the best level and is raised until nothing changes. One assumption is unsound: a load is as
uniform as its address, although another thread may store between the loads of two threads.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from tclint.isa.special_registers import SPECIAL_REGISTERS, Scope
from tclint.values import thread_masks as T
from tclint.values.integers import as_signed
from tclint.values.nodes import (
    COMPUTED,
    PREDICATES,
    AddressOf,
    Allocated,
    Arithmetic,
    Broadcast,
    CollectiveResult,
    Compare,
    Constant,
    Elected,
    FloatConstant,
    Loaded,
    Logic,
    Masked,
    Negation,
    Node,
    Opaque,
    ParameterRead,
    Phi,
    Select,
    SpecialRead,
    Sum,
    Unmodelled,
    Value,
    VectorOf,
)
from tclint.values.role_tables import RoleTables
from tclint.values.ssa import MAX_DEFINITION_DEPTH, Registers
from tclint.values.substitution import Lifetimes
from tclint.values.thread_predicates import UniformityScope

__all__ = ["Uniformity"]

_SIZES = ("%ntid", "%nwarpid")
"""Registers that hold sizes, with which a kernel computes positions in its CTA."""
_LEVELS = {
    Scope.LANE: UniformityScope.DIVERGENT,
    Scope.THREAD: UniformityScope.UNKNOWN,
    Scope.WARP: UniformityScope.WARP,
}
"""Uniformity of the special registers that are not CTA-uniform."""
_SHARED = frozenset((Constant, AddressOf, ParameterRead, FloatConstant, Allocated))
"""Nodes that are the same in all threads of a CTA."""
_COMPUTED = COMPUTED | {VectorOf}
"""Nodes that a thread computes from its own values."""
_OPERATIONS = frozenset((Masked, Arithmetic, Opaque))
_OF_POSITIONS = COMPUTED | {Constant}
"""What a predicate about positions in a CTA is made of, besides these."""
_BY_THREAD = _COMPUTED - PREDICATES | {SpecialRead, Broadcast}
"""Nodes that may be numbers which depend on the index of the thread alone."""
_LARGE_CTA_SIZES = (256, 512, 1024)
"""Sizes of a CTA with many warps. A kernel need not be correct for every number of threads."""
MAX_BRANCHES_BEFORE_JOIN = 4
"""Branches before a join that narrow the threads that arrive by one of its edges."""


class Uniformity:
    """The threads in which predicates may hold, and the scopes in which values are the same."""

    def __init__(self, registers: Registers, lifetimes: Lifetimes, roles: RoleTables) -> None:
        self.registers, self.lifetimes, self.roles = registers, lifetimes, roles
        self.table, self.thread_sets = registers.table, registers.thread_sets
        self.cfg, self.function = registers.cfg, registers.function
        self._phi_threads: dict[tuple[int, bool], int] = {}
        self._open = 0
        """The questions about phis that are being answered."""
        self._logic_threads: dict[tuple[int, bool], int] = {}
        """Conjunction or disjunction, truth -> the threads in which it may hold."""
        self._provisional: dict[tuple[int, bool], int] = {}
        """The same while a phi is open, whose threads are taken to be all."""
        self._levels: dict[int, UniformityScope] = {}

    def feasible_threads(self, p: Value, truth: bool) -> T.Threads:
        """The threads in which *p* may be *truth*: exact if the thread index alone decides it, else a superset."""
        p = self.table.representative(p)
        exact = self.thread_sets.mask(p)
        every = T.full(self.thread_sets.threads)
        if exact is not None:
            return exact if truth else every ^ exact
        node = self.table.nodes[p]
        if type(node) is Negation:
            return self.feasible_threads(node.operand, not truth)
        if type(node) is Logic and node.name != "xor":
            # Exponentially many paths lead to operands that conjunctions and disjunctions share.
            known, key = self._provisional if self._open else self._logic_threads, (p, truth)
            if key not in known:
                left, right = (self.feasible_threads(q, truth) for q in node.operands)
                known[key] = left & right if (node.name == "and") == truth else left | right
            return known[key]
        if type(node) is Phi:
            return self._may_join(p, truth, p)
        if type(node) is not Compare:
            return every
        limit = self.table.constant_of(node.right)
        # A byte zero- or sign-extended compares alike with a limit that is not negative.
        if limit is not None and limit >= 0 and self.roles.looked_up(node.left):
            relation = operator.eq if node.relation == "eq" else operator.lt
            return self._may_look_up(node.left, lambda number: relation(number, limit) is truth)
        return self._may_join(p, truth, self.table.representative(node.left))

    def threads_where_equal(self, value: Value, number: int) -> T.Threads:
        """The threads in which *value* may equal *number*."""
        planes = self.thread_sets.bit_slices(value)
        if planes is not None:
            n = self.thread_sets.threads
            return T.compare("eq", planes, T.constant(as_signed(number, 32), n), n)
        return self._may_look_up(value, number.__eq__)

    def _may_look_up(self, value: Value, wanted: Callable[[int], bool]) -> T.Threads:
        """The threads in which *value* may be a *wanted* number. One without a known table entry may have any."""
        threads, known = 0, 0
        for number, those in self.roles.looked_up(value):
            known |= those
            threads |= those if wanted(number) else 0
        return threads | T.full(self.thread_sets.threads) & ~known

    def _may_join(self, p: Value, truth: bool, phi: Value) -> T.Threads:
        """The threads in which *phi* of predicates may be *truth*: by argument, those that may arrive by its edge.

        Also for the comparison *p* of *phi* with a constant.
        """
        key = p, truth
        if key not in self._phi_threads:
            every = T.full(self.thread_sets.threads)
            self._phi_threads[key] = every  # the answer to a recursive question around a loop
            node = self.table.nodes[phi]
            arguments = self.table.arguments(phi) if type(node) is Phi else ()
            if type(node) is not Phi or not arguments:
                return every
            threads, compared = 0, self.table.nodes[p]
            self._open += 1
            for argument, source in zip(arguments, self.cfg.sources[node.block], strict=False):
                chosen = self._same_comparison(compared, argument) if type(compared) is Compare else argument
                arriving = self._may_enter(source, node.block)
                threads |= arriving if chosen is None else self.feasible_threads(chosen, truth) & arriving
            self._phi_threads[key] = threads
            self._open -= 1
            if not self._open:
                self._provisional.clear()
        return self._phi_threads[key]

    def _same_comparison(self, compared: Compare, value: Value) -> Value | None:
        """A comparison applied to *value* instead, if each thread has a known number or one of two; else None."""
        right, node = compared.right, self.table.nodes[value]
        numbers = node.arms if type(node) is Select else (value,)
        if None in map(self.table.constant_of, (right, *numbers)) and (
            self.thread_sets.bit_slices(value) is None or self.table.constant_of(right) is None
        ):
            return None
        return self.table.compare(compared.relation, value, right, compared.signed, compared.width)

    def _may_enter(self, source: int, block: int) -> T.Threads:
        """The threads that may take the edge from *source* to *block*, narrowed by the branches before it."""
        cfg, threads = self.cfg, T.full(self.thread_sets.threads)
        for _ in range(MAX_BRANCHES_BEFORE_JOIN):
            edges = [e for e in cfg.successors[source] if e.target == block]
            if len(edges) == 1 and edges[0].predicate >= 0:
                threads &= self.feasible_threads(
                    self.registers.before(edges[0].predicate, cfg.blocks[source].end - 1), edges[0].value
                )
            if len(cfg.sources[source]) != 1 or not source:
                break
            source, block = cfg.sources[source][0], source
        return threads

    def depends_on_unmodelled_position(self, p: Value) -> bool:
        """Whether *p* depends on the position of a thread in its CTA by a computation that is not modelled here.

        Some launch decides such a predicate, and none may decide it as a path requires.
        """
        if self.thread_sets.mask(p) is not None:
            return False
        computed = False
        for value in self.table.subexpressions(p):
            node = self.table.nodes[value]
            if type(node) is SpecialRead:
                register = SPECIAL_REGISTERS[node.name]
                if not register.distinguishes_threads and (register.vector or register.name) not in _SIZES:
                    return False
            elif type(node) not in _OF_POSITIONS:
                return False
            computed |= type(node) in _OPERATIONS
        return computed

    def holds_in_large_ctas(self, p: Value, truth: bool) -> bool:
        """Whether *p* depends on the size of the CTA alone, and is *truth* in every CTA of many warps."""
        return self.thread_sets.one_dimensional and all(
            self.table.constant_of(self.lifetimes.at_size(n)(p)) == truth for n in _LARGE_CTA_SIZES
        )

    # ------------------------------------------------------------ uniformity

    def uniformity(self, value: Value) -> UniformityScope:
        """The scope in which *value* is uniform.

        A load from a uniform address counts as uniform; one from an address that differs between the threads of a warp
        counts as divergent.
        """
        value = self.table.representative(value)
        if value in self._levels:
            return self._levels[value]
        assumed: dict[int, UniformityScope] = {}
        while True:
            before = dict(assumed)
            memo: dict[int, UniformityScope] = {}
            result = self._level(value, memo, assumed, 0)
            if before == assumed:
                self._levels.update(memo)
                return result

    def _level(
        self, value: Value, memo: dict[int, UniformityScope], assumed: dict[int, UniformityScope], depth: int
    ) -> UniformityScope:
        value = self.table.representative(value)
        known = self._levels.get(value, memo.get(value))
        if known is not None:
            return known
        if depth > MAX_DEFINITION_DEPTH:
            return UniformityScope.UNKNOWN
        node = self.table.nodes[value]
        is_phi = type(node) is Phi
        if is_phi:
            if value in assumed and value in memo:
                return memo[value]
            memo[value] = assumed.setdefault(value, UniformityScope.CTA)
        result = self._level_of(value, node, memo, assumed, depth + 1)
        if is_phi and result > assumed[value]:
            assumed[value] = result
        memo[value] = result
        return result

    def _level_of(
        self,
        value: Value,
        node: Node,
        memo: dict[int, UniformityScope],
        assumed: dict[int, UniformityScope],
        depth: int,
    ) -> UniformityScope:
        level, scopes, kind = self._level, UniformityScope, type(node)
        planes: T.BitSlices | None
        if kind in PREDICATES:
            mask = self.thread_sets.mask(value)
            planes = None if mask is None else (mask,)
        else:
            planes = self.thread_sets.bit_slices(value) if kind in _BY_THREAD else None
        if planes is not None:
            return self.thread_sets.plane_level(planes)
        if kind in _COMPUTED:
            return self._level_joined(node, memo, assumed, depth)
        if kind in _SHARED:
            return scopes.CTA
        if type(node) is SpecialRead:
            return _LEVELS.get(SPECIAL_REGISTERS[node.name].scope, scopes.CTA)
        if kind is Elected:
            return scopes.DIVERGENT
        if type(node) is Broadcast:
            return min(scopes.WARP, level(node.source, memo, assumed, depth))
        if type(node) is CollectiveResult:
            by = max((level(a, memo, assumed, depth) for a in node.by), default=scopes.WARP)
            return scopes.WARP if by <= scopes.WARP else scopes.UNKNOWN
        if type(node) is Loaded:
            inner = level(node.address, memo, assumed, depth)
            return max(inner, scopes.UNKNOWN) if self.is_private(node) else inner
        if type(node) is Phi:
            return self._level_of_phi(value, node.block, memo, assumed, depth)
        if (
            type(node) is Unmodelled
            and node.register >= 0
            and value not in self.registers.opaque
            and depth < MAX_DEFINITION_DEPTH // 8
        ):
            # Its operands may not have been evaluated yet, which needs stack depth of its own.
            memo[value] = scopes.UNKNOWN  # in case it is computed from itself
            return self._level_computed(node.site, memo, assumed, depth)
        return scopes.UNKNOWN

    def _level_joined(
        self,
        node: Node,
        memo: dict[int, UniformityScope],
        assumed: dict[int, UniformityScope],
        depth: int,
    ) -> UniformityScope:
        """The scope in which what each thread computes from its own operands is uniform."""
        levels = sorted([self._level(a, memo, assumed, depth) for a in node.operands])
        worst = levels[-1] if levels else UniformityScope.CTA
        if worst < UniformityScope.DIVERGENT:
            return worst
        # A sum of one divergent term and uniform ones is divergent; other operations may mask a difference out.
        kept = type(node) is Sum or type(node) is Negation or (type(node) is Masked and node.is_widened)
        alone = len(levels) == 1 or levels[-2] <= UniformityScope.WARP
        return UniformityScope.DIVERGENT if kept and alone else UniformityScope.UNKNOWN

    def _level_of_phi(
        self,
        phi: Value,
        block: int,
        memo: dict[int, UniformityScope],
        assumed: dict[int, UniformityScope],
        depth: int,
    ) -> UniformityScope:
        """The scope in which a phi of *block* is uniform."""
        chosen = self.table.phi_arguments.get(phi, ())
        if not chosen:
            return UniformityScope.UNKNOWN
        worst = max(self._level(a, memo, assumed, depth) for a in chosen)
        # Which argument is selected depends on the branches that control the incoming edges.
        for register, at in self._controlling_predicates(block):
            control = self._level(self.registers.before(register, at), memo, assumed, depth)
            if control > UniformityScope.CTA:
                worst = max(worst, min(control, UniformityScope.UNKNOWN))
        return UniformityScope.UNKNOWN if worst == UniformityScope.DIVERGENT else worst

    def _level_computed(
        self, at: int, memo: dict[int, UniformityScope], assumed: dict[int, UniformityScope], depth: int
    ) -> UniformityScope:
        """The scope in which the result of the instruction at *at* is uniform, if it depends on its operands alone."""
        instruction = self.function.instructions[at]
        match = instruction.match
        if match is None or match.problem or match.form.event or not match.form.from_operands:
            return UniformityScope.UNKNOWN
        worst = UniformityScope.CTA
        for operand in instruction.operands[1:]:
            worst = max(worst, self._level(self.registers.operand(operand, at), memo, assumed, depth))
            if worst > UniformityScope.WARP:
                return UniformityScope.UNKNOWN
        return worst

    def is_private(self, load: Loaded) -> bool:
        """Whether each thread loads from its own memory; nvcc -G takes generic addresses of its stack."""
        if load.space:
            return load.space.startswith(".local")
        variables = (self.table.variable(term) for term, _ in self.table.linear(load.address)[0])
        return any(v is not None and v.space == ".local" for v in variables)

    def _controlling_predicates(self, block: int) -> list[tuple[int, int]]:
        """``(register, instruction)`` of the branches that decide by which edge *block* is entered."""
        cfg = self.cfg
        edges = (edge for edge in cfg.selecting(block) if edge.predicate >= 0)
        return list(dict.fromkeys((edge.predicate, cfg.blocks[edge.source].end - 1) for edge in edges))
