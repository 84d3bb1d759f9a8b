"""Which threads execute an instruction: the conditions that it is control-dependent on, and whether they hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from tclint._dataclass import dataclass
from tclint.analyses.model import KernelModel
from tclint.analyses.same_in_warps import SameInWarps
from tclint.ir.cfg import CFG, Edge
from tclint.isa.effects import Barrier
from tclint.isa.forms import floating
from tclint.isa.special_registers import WARP
from tclint.values import UniformityScope
from tclint.values import thread_masks as T
from tclint.values.nodes import (
    COMPUTED,
    Arithmetic,
    Compare,
    Constant,
    Loaded,
    Logic,
    Negation,
    Node,
    Opaque,
    ParameterRead,
    Phi,
    SpecialRead,
    Unmodelled,
)

__all__ = ["Condition", "ExecutionGuarantee", "branches", "conditions", "executing", "guards", "others_exit"]


_POSITION_NODES = COMPUTED | {Constant, SpecialRead, ParameterRead}
"""The kinds of expressions that depend only on a thread's position and on the launch: none loads, none varies in a
loop."""
_SIZE_NODES = _POSITION_NODES - {ParameterRead}
"""Those of expressions that do not depend on a parameter of the kernel either."""
_INPUT = frozenset((".global", ".const"))
"""The memory that a launch fills."""
_TWO_WARPS = 64
Linear = tuple[tuple[tuple[int, int], ...], int]
"""A sum: terms with their factors, and a constant."""


class ExecutionGuarantee:
    """Whether the threads that execute an instruction are known, or are the whole CTA or none of it.

    A value that each thread loads for itself may select a single thread, and an unknown bound may leave only a few.
    These unknown conditions are nevertheless accepted: a bound on the position in the grid, or in what the CTA works on
    tile by tile, which all threads satisfy in every tile but the last; a bound up to which the threads of the CTA stride
    in a loop, which is there because the bound may exceed their number, and how many iterations that leaves; and the
    result of an mbarrier wait, which is repeated until it succeeds.
    How often a loop iterates does not matter.
    """

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self._same = model.fact(SameInWarps)
        self._blocks: dict[int, bool] = {}
        self._entered: dict[int, list[tuple[int, bool]]] = {}
        """The answers of :meth:`_entering`."""
        self._predicates: dict[tuple[int, int, bool], bool] = {}
        self._by_size: dict[tuple[int, int, bool], bool] = {}
        self._by_comparison: dict[int, bool] = {}
        self._varying: dict[int, bool] = {}
        self._users: dict[int, int] = {}
        self._positions: dict[tuple[int, str, bool], bool] = {}
        """The answers of :meth:`_of_position`."""
        self._strides: dict[int, frozenset[Linear]] = {}

    def certainly(self, site: int) -> bool:
        """Whether *site* is executed by known threads, or by all or none of the CTA."""
        block = self.model.cfg.block_of[site]
        if block not in self._blocks:
            threads = self.model.reachability.threads_at.get(block, 0)
            self._blocks[block] = all(self.accepts(threads, *required) for required in self._entering(block))
        threads = self.model.views.context_of(site).threads
        return self._blocks[block] and all(
            self.accepts(threads, *required) for required in self._guards(site)
        )

    def by_data(self, site: int) -> bool:
        """Whether, apart from conditions that :meth:`certainly` accepts, only loaded values select the threads."""
        threads = self.model.views.context_of(site).threads
        return all(self._loaded(p) or self.accepts(threads, p, truth) for p, truth in self._required(site))

    def by_input(self, site: int) -> bool:
        """Whether, apart from conditions that :meth:`certainly` accepts, only what is in global memory selects the threads.

        The input of a kernel may select any of them, whereas what is in shared memory may be a protocol.
        """
        deciding = set(self.deciding(site))
        return bool(deciding) and all(map(self._read_from_input, deciding))

    def by_comparison(self, site: int) -> bool:
        """Whether data that are compared with each other select the threads that execute *site*, as in ``if (a[i] < a[j])``.

        Beside conditions that :meth:`certainly` accepts or that the iteration of a loop decides. Any of the threads may be
        selected: no thread waits for the order of two numbers.
        """
        if site not in self._by_comparison:
            deciding = set(self.deciding(site))
            compared = set(filter(self._compares_data, deciding))
            self._by_comparison[site] = bool(compared) and all(
                map(self._known_by_iteration, deciding - compared)
            )
        return self._by_comparison[site]

    def _compares_data(self, p: int) -> bool:
        """Whether *p* is the order of two numbers that each thread loads: of floating-point numbers, or less than."""
        values, node = self.model.values, self.model.values.node(p)
        if type(node) is Negation:
            return self._compares_data(node.operand)
        sides: Iterable[int] = ()
        if type(node) is Compare and node.relation == "lt":
            sides = node.operands
        elif type(node) is Unmodelled and node.register >= 0:
            instruction = self.model.instruction(node.site)
            match = instruction.match
            if match is not None and match.relation and floating(match.modifiers):
                sides = [values.operand(each, node.site) for each in instruction.operands[1:3]]
        loads = [values.node(side) for side in sides]
        return bool(loads) and all(isinstance(each, Loaded) for each in loads)

    def _read_from_input(self, p: int) -> bool:
        """Whether *p* depends on what is loaded from global memory, and on nothing else that the text does not determine."""
        values = self.model.values
        nodes = [values.node(v) for v in values.subexpressions(p)]
        spaces = {node.space for node in nodes if isinstance(node, Loaded)}
        return bool(spaces) and spaces <= _INPUT and not any(isinstance(n, Unmodelled) for n in nodes)

    def deciding(self, site: int) -> Iterator[int]:
        """The predicates that decide which threads execute *site*, apart from those that :meth:`certainly` accepts."""
        return (p for p, _ in self._undecided(site))

    def _undecided(self, site: int) -> Iterator[tuple[int, bool]]:
        """The predicates of :meth:`deciding`, each with its value if *site* is executed; those of a conjunction one by one."""
        threads = self.model.views.context_of(site).threads
        work, seen = list(self._required(site))[::-1], set[tuple[int, bool]]()
        while work:
            p, truth = work.pop()
            if (p, truth) in seen or self.accepts(threads, p, truth):
                continue
            seen.add((p, truth))
            node = self.model.values.node(p)
            if type(node) is Negation:
                work.append((node.operand, not truth))
            elif type(node) is Logic and node.name == ("and" if truth else "or"):
                work += ((q, truth) for q in reversed(node.operands))
            else:
                yield p, truth

    def varies(self, site: int) -> bool:
        """Whether the iteration of a loop decides which threads execute *site*: ``if (tid < k)`` in ``for (; k; k /= 2)``.

        On a path these may be known (:meth:`along`), although :meth:`certainly` is false, apart from comparisons of data.
        """
        if site not in self._varying:
            rest = {p for p in self.deciding(site) if not self._compares_data(p)}
            self._varying[site] = bool(rest) and all(map(self._known_by_iteration, rest))
        return self._varying[site]

    def _known_by_iteration(self, p: int) -> bool:
        """Whether only the iteration of a loop keeps *p* from being a function of the thread index."""
        values = self.model.values
        if not values.loop_varying_at(p):
            return False
        for value in values.subexpressions(p):
            node = values.node(value)
            if type(node) is SpecialRead:
                if values.bit_slices(value) is None:
                    return False
            elif type(node) not in _SIZE_NODES and type(node) is not Phi:
                return False
        return True

    def along(self, site: int, resolve: Callable[[int], int]) -> int:
        """The threads that execute *site* where expressions are what they are on a path; 0 if that is not known.

        If :meth:`certainly` is true, all that may execute it, and any of those that a comparison of data selects.
        """
        threads, values = self.model.views.context_of(site).threads, self.model.values
        for p, truth in self._undecided(site) if self.varies(site) else ():
            if self._compares_data(p):
                continue
            mask = values.mask(resolve(p))
            threads &= 0 if mask is None else mask if truth else ~mask
        return threads

    def by_size(self, site: int) -> bool:
        """Whether the number of threads that a launch chooses may decide alone which threads execute *site*.

        Also with the iteration of a loop: ``if (tid < k)`` in ``for (k = ntid / 2; k; k /= 2)``.
        """
        key = self.model.guarded_block(site)
        if key not in self._by_size:
            self._by_size[key] = any(
                self._of_position(p, "%ntid.x", carried=True) for p in self.deciding(site)
            )
        return self._by_size[key]

    def takers(self, site: int) -> int:
        """The threads of the warps in which the value loaded at *site* reaches memory, a branch or an event.

        0 if a data-dependent predicate selects the threads of every such use: compilers hoist a load above its guard,
        so all threads load what only a few need. All threads if *site* writes no register.
        """
        if site not in self._users:
            model = self.model
            threads, needed = 0, not model.instruction(site).writes
            every = T.full(model.values.threads)
            for user, guard_depends in model.transitive_users(site):
                threads |= model.views.context_of(user).threads
                needed = needed or not self._data_dependent(user, guarded=not guard_depends)
                if needed and threads == every:
                    break  # the result of a load may reach thousands of uses around a loop
            used = T.whole(threads, 32) if model.instruction(site).writes else every
            self._users[site] = used if needed else 0
        return self._users[site]

    def takers_by_input(self, site: int) -> int:
        """The threads of the warps that use the value loaded at *site* if what is in global memory selects them.

        For a load of which :meth:`takers` are none; 0 if something else decides that, too.
        """
        found = 0
        for user, guard_depends in self.model.transitive_users(site):
            threads = self.model.views.context_of(user).threads
            if all(
                self.accepts(threads, p, truth) or self._read_from_input(p)
                for p, truth in self._selecting(user, guarded=not guard_depends)
            ):
                found |= threads
        return T.whole(found, 32)

    def _data_dependent(self, site: int, guarded: bool) -> bool:
        """Whether unknown data selects the threads that reach *site* or, if *guarded*, that execute it."""
        threads = self.model.views.context_of(site).threads
        return any(
            not self.accepts(threads, p, truth) and self._loaded(p)
            for p, truth in self._selecting(site, guarded)
        )

    def _selecting(self, site: int, guarded: bool) -> Iterable[tuple[int, bool]]:
        """The predicates that decide whether *site* is reached or, if *guarded*, executed."""
        return self._required(site) if guarded else self._entering(self.model.cfg.block_of[site])

    def _loaded(self, p: int) -> bool:
        """Whether *p* is computed from data that the text does not determine."""
        values = self.model.values
        return any(isinstance(values.node(v), Loaded | Unmodelled) for v in values.subexpressions(p))

    def _required(self, site: int) -> Iterator[tuple[int, bool]]:
        """The predicates that decide whether *site* executes for the first time, each with its value then."""
        yield from self._guards(site)
        yield from self._entering(self.model.cfg.block_of[site])

    def _guards(self, site: int) -> Iterator[tuple[int, bool]]:
        """The guard of *site*, if it has one, with the value under which *site* executes."""
        instruction = self.model.instruction(site)
        if instruction.guard >= 0:
            yield self.model.values.before(instruction.guard, site), not instruction.negated

    def _entering(self, block: int) -> list[tuple[int, bool]]:
        """The predicates that decide whether *block* is entered, not repeated, each with its value then."""
        if block not in self._entered:
            cfg, before = self.model.cfg, self.model.values.before
            self._entered[block] = [
                (before(edge.predicate, cfg.blocks[edge.source].end - 1), edge.value)
                for edge in dict.fromkeys(cfg.control_dependences(block))
                if not (cfg.dominates(edge.target, edge.source) and cfg.dominates(edge.target, block))
            ]
        return self._entered[block]

    def accepts(self, threads: int, p: int, truth: bool) -> bool:
        """Whether *p* is *truth* for all of *threads*, is CTA-uniform, or is one of the accepted unknown conditions."""
        key = threads, p, truth
        if key not in self._predicates:
            values = self.model.values
            self._predicates[key] = (
                not threads & values.feasible_threads(p, not truth)
                or self._uniform(p)
                or self._from_waits(p)
                or self.bounds_position(threads, p, truth)
                or self._bounds_stride(p, truth)
                or self._counts_iterations(p)
            )
        return self._predicates[key]

    def by_stride(self, site: int) -> bool:
        """Whether *site* is executed by known threads only if a bound that they stride to is not below their number."""
        threads = self.model.views.context_of(site).threads
        return self.certainly(site) and any(
            self._bounds_stride(p, truth)
            for p, truth in self._required(site)
            if threads & self.model.values.feasible_threads(p, not truth)
        )

    def _bounds_stride(self, p: int, truth: bool) -> bool:
        """Whether *p* being *truth* bounds a position from which, or at which, threads of the CTA stride through a loop.

        ``for (i = tid; i < n; i += ntid)``: a compiler tests ``tid < n`` before the loop, and in the loop its counter.
        """
        values, node = self.model.values, self.model.values.node(p)
        if type(node) is Negation:
            return self._bounds_stride(node.operand, not truth)
        if type(node) is not Compare or node.relation != "lt":
            return False
        position, bound = node.operands if truth else node.operands[::-1]
        if values.uniformity(bound) is not UniformityScope.CTA or values.constant_of(bound) is not None:
            return False
        return bool(self._stride_starts(position)) or values.linear(position) in (
            start for counter in self._counters_to(bound) for start in self._stride_starts(counter)
        )

    def _counters_to(self, bound: int) -> Iterator[int]:
        """The values that branches back to a loop header compare with *bound*."""
        cfg, values = self.model.cfg, self.model.values
        for edges in cfg.back_edges.values():
            for edge in edges:
                p = self.model.reachability.edge_predicate(edge)
                node = None if p is None else values.node(p)
                if type(node) is Compare and node.relation == "lt" and bound in node.operands:
                    yield node.left if node.right == bound else node.right

    def _stride_starts(self, value: int) -> frozenset[Linear]:
        """Where threads start that stride through a loop to *value*, their position in the loop; empty if it is not one.

        Each iteration advances all of them by a multiple of the size of the CTA: by a term with %ntid, or by a constant
        of at least two warps.
        """
        values = self.model.values
        for term, factor in values.linear(value)[0]:
            if factor == 1 and values.is_phi(term):
                if term not in self._strides:
                    self._strides[term] = frozenset()  # the answer to a recursive question around a loop
                    self._strides[term] = self._starts(term)
                if self._strides[term]:
                    return self._strides[term]
        return frozenset()

    def _starts(self, phi: int) -> frozenset[Linear]:
        """:meth:`_stride_starts` for the phi of a loop."""
        values, starts, strides = self.model.values, set[Linear](), False
        for argument in values.arguments(phi):
            terms, constant = values.linear(argument)
            if (phi, 1) in terms:
                strides = True
                if not self._is_stride([t for t, _ in terms if t != phi], constant):
                    return frozenset()
            elif self._of_position(argument, "%tid"):
                starts.add((terms, constant))
            elif before := self._stride_starts(argument):
                starts, strides = starts | before, True
            else:
                return frozenset()
        return frozenset(starts) if strides else frozenset()

    def _counts_iterations(self, p: int) -> bool:
        """Whether *p* depends on the thread only by the number of iterations that a loop up to an unknown bound leaves to it.

        All threads have as many if the bound is a multiple of the stride. Compilers that unroll such a loop compute the
        number, ``(n - 1 - tid) / ntid``, and test what remains of it.
        """
        values, loops = self.model.values, self.model.cfg.loops
        work, seen, counted = [p], set[int](), False
        while work:
            value = values.representative(work.pop())
            if value in seen or values.uniformity(value) is UniformityScope.CTA:
                continue
            seen.add(value)
            node = values.node(value)
            if type(node) is Phi and node.block not in loops and values.arguments(value):
                work += values.arguments(value)
            elif type(node) not in _POSITION_NODES or (
                type(node) is SpecialRead and not node.name.startswith("%tid.")
            ):
                return False
            else:
                counted = counted or self._is_quotient(node)
                work += node.operands
        return counted

    def _is_quotient(self, node: Node) -> bool:
        """Whether a value that the launch determines is divided by, or compared with, what may be the size of a CTA."""
        values = self.model.values
        if type(node) is Opaque and node.name == "div":
            divisor = node.operands[-1]
            size = values.constant_of(divisor)
            large = self._is_stride([divisor], 0) if size is None else size >= _TWO_WARPS
        elif type(node) is Arithmetic and node.name == "shr":
            large = (values.constant_of(node.operands[1]) or 0) >= _TWO_WARPS.bit_length() - 1
        else:
            large = (
                type(node) is Compare
                and node.relation == "lt"
                and (values.constant_of(node.right) or 0) >= _TWO_WARPS
            )
        return large and any(
            isinstance(values.node(v), ParameterRead | Loaded)
            for v in values.subexpressions(*node.operands[:1])
        )

    def _is_stride(self, terms: Sequence[int], constant: int) -> bool:
        """Whether the sum of *terms* and a *constant* may be the size of a CTA of several warps, or a multiple of it."""
        values = self.model.values
        nodes = [values.node(v) for v in values.subexpressions(*terms)]
        sized = any(type(node) is SpecialRead and node.name.startswith("%ntid") for node in nodes)
        return all(values.uniformity(t) is UniformityScope.CTA for t in terms) and (
            sized or (not terms and constant >= _TWO_WARPS)
        )

    def _of_position(self, value: int, register: str, *, carried: bool = False) -> bool:
        """Whether *value* depends only on positions and sizes, among them a special register that begins with
        *register*; with *carried*, on the iteration of a loop too."""
        key = value, register, carried
        if key not in self._positions:
            nodes = [self.model.values.node(v) for v in self.model.values.subexpressions(value)]
            kinds = _SIZE_NODES | {Phi} if carried else _SIZE_NODES
            self._positions[key] = all(type(node) in kinds for node in nodes) and any(
                type(node) is SpecialRead and node.name.startswith(register) for node in nodes
            )
        return self._positions[key]

    def bounds_position(self, threads: int, p: int, truth: bool) -> bool:
        """Whether *p* is *truth* for those of *threads* whose position is below a bound from the launch, or beyond a margin.

        It is a position in the grid, or in what the CTA works on in turn: all threads are below in all but the last tile.
        All are beyond the margin of a grid, of less than a warp, in all but the first CTAs: ``x > 0 && x < n - 1``. That is not
        said of a number that was made up for a parameter: what is beyond the work of a launch has no CTAs of its own.
        """
        values = self.model.values
        node = values.node(p)
        if type(node) is Negation:
            return self.bounds_position(threads, node.operand, not truth)
        if type(node) is Logic:
            return (node.name == "and") is truth and all(
                self.accepts(threads, q, truth) for q in node.operands
            )
        if type(node) is not Compare or node.relation != "lt":
            return False
        position, bound = node.operands if truth else node.operands[::-1]
        margin = values.constant_of(position)
        least = margin is not None and -1 <= margin < WARP and not self.model.function.arguments
        if least:
            position, bound = bound, position
        if not self._uniform(bound):
            return False
        limits = [values.node(v) for v in values.subexpressions(bound)]
        parts = list(values.subexpressions(position, until=self._uniform))
        uniform = list(filter(self._uniform, parts))
        if any(type(values.node(v)) not in _POSITION_NODES for v in set(parts).difference(uniform)):
            return False
        if least:
            return any(_is_cta_index(values.node(v)) for v in values.subexpressions(*uniform))
        return self._may_exceed(limits, uniform)

    def _may_exceed(self, limits: list[Node], uniform: list[int]) -> bool:
        """Whether a bound, which *limits* make up, is above the positions of all threads that have the *uniform* part.

        The launch determines it, and it is that of a grid, or what a grid has left from the tile of the CTA on.
        """
        return any(isinstance(limit, ParameterRead | Loaded) for limit in limits) and (
            any(map(self._is_origin, uniform)) or any(map(_is_cta_index, limits))
        )

    def _uniform(self, value: int) -> bool:
        """Whether *value* is the same in all threads: in those of a warp, and in all warps."""
        scope = self.model.values.uniformity(value)
        return scope is UniformityScope.CTA or (scope is UniformityScope.WARP and self._same.holds(value))

    def _is_origin(self, value: int) -> bool:
        """Whether a CTA-uniform part of a position may be that of the first thread: a tile that the CTA has to do."""
        values = self.model.values
        nodes = (values.node(v) for v in values.subexpressions(value))
        return any(isinstance(node, Phi | Loaded) or _is_cta_index(node) for node in nodes)

    def _from_waits(self, value: int) -> bool:
        """Whether *value* is computed from the results of mbarrier waits, and otherwise from constants alone."""
        values = self.model.values
        seen, work = {value}, [value]
        while work:
            node = values.node(work.pop())
            parts = node.operands
            if type(node) is Unmodelled:
                if self.model.instruction(node.site).effects.awaits is not Barrier.MBARRIER:
                    return False
            elif not parts and type(node) is not Constant:
                return False
            fresh = set(parts) - seen
            seen |= fresh
            work += fresh
        return True


def _is_cta_index(node: Node) -> bool:
    return type(node) is SpecialRead and node.name.startswith("%ctaid")


@dataclass(frozen=True, slots=True)
class Condition:
    """A predicate that decides whether an instruction executes: read at ``at``, it must be ``value``."""

    at: int
    register: int
    value: bool
    edge: Edge | None
    """The branch; None for the instruction's own guard."""


def conditions(model: KernelModel, site: int) -> list[Condition]:
    """The conditions under which *site* executes: its guard, then the branches that it is control-dependent on."""
    return [*guards(model, site), *branches(model, model.cfg.block_of[site])]


def guards(model: KernelModel, site: int) -> list[Condition]:
    """The guard of *site*, if it has one."""
    instruction = model.instruction(site)
    return (
        [] if instruction.guard < 0 else [Condition(site, instruction.guard, not instruction.negated, None)]
    )


def branches(model: KernelModel, block: int) -> list[Condition]:
    """The branches that *block* is control-dependent on, without branch tables."""
    return [
        Condition(model.cfg.blocks[e.source].end - 1, e.predicate, e.value, e)
        for e in model.cfg.control_dependences(block)
        if e.predicate >= 0
    ]


def executing(model: KernelModel, site: int, *, inner: bool = False) -> tuple[int, bool] | None:
    """The threads that may execute *site*, as the thread index decides, and whether nothing else decides.

    If the flag is False, warp-uniform conditions decide too, so each warp of these threads executes *site* as a whole
    or not. None if an unknown condition may diverge within a warp, or if *site* is unreachable. With *inner*, a bound of the
    grid does not: threads that are not at its border are asked for.
    """
    values, cfg = model.values, model.cfg
    block, by_index_alone, threads = cfg.block_of[site], True, model.cta
    if block not in cfg.rank:
        return None
    for table in cfg.control_dependences(block):
        if table.predicate < 0:
            last = cfg.blocks[table.source].end - 1
            if (
                values.uniformity(values.operand(model.instruction(last).operands[0], last))
                > UniformityScope.WARP
            ):
                return None
            by_index_alone = False
    for condition in conditions(model, site):
        edge = condition.edge
        if edge is not None and (
            cfg.dominates(block, edge.source) or cfg.dominates(edge.target, edge.source)
        ):
            continue  # decides only whether it executes again
        p = values.before(condition.register, condition.at)
        mask = values.mask(p)
        if mask is not None:
            threads &= mask if condition.value else ~mask
        elif values.uniformity(p) <= UniformityScope.WARP or (
            inner and model.fact(ExecutionGuarantee).bounds_position(threads, p, condition.value)
        ):
            by_index_alone = False
        else:
            return None
    return threads, by_index_alone


def others_exit(cfg: CFG, edge: Edge) -> bool:
    """Whether the threads that do not take *edge* leave the function by the next instruction."""
    others = [e for e in cfg.successors[edge.source] if e != edge]
    return all(
        e.target in cfg.exits
        and not cfg.successors[e.target]
        and cfg.blocks[e.target].end - cfg.blocks[e.target].start == 1
        for e in others
    )
