"""Abstract values of registers: one sparse, demand-driven analysis.

A value is a number: an index into a hash-consed table of expressions, so equal numbers mean equal values. A register is
evaluated only when a question about it is asked. :class:`Values` is the interface: all questions about one function,
with the part that answers each. A part is given those before it in this list, and no part knows of a later one:

    value_table        expressions, sums and predicates (nodes), simplified on construction
    thread_predicates  their values in every thread of a CTA
    columns            predicates about %tid.x in CTAs of unknown shape
    ssa                the expression that a register holds at an instruction
    substitution       where values change, and what they become along a path
    role_tables        tables of warp roles in shared memory
    uniformity         the scope in which a value is the same for all threads
    induction          loop counters, quotients, remainders
    intervals          ranges and known bits
    addresses          what of an address threads share, and whether ranges of memory are disjoint
    path_forms         what loops add to addresses on whatever path, and which are never a known distance apart
    loop_facts         what the exits and counters of loops imply
    bit_tests          what tests of bits imply about other bits, also of quotients (divisions)
    entailment         what comparisons imply about sums
    conditions         whether a predicate follows from a path condition

Four assumptions are unsound in general and hold for what compilers emit: signed sums, and sums used as addresses, do
not wrap (``value_table``, ``entailment``); ``elect.sync`` elects the lowest member (``thread_predicates``); a load from
a uniform address is uniform (``uniformity``); tables of warp roles are laid out as Triton does it (``role_tables``).

``shared_memory``, ``divergence`` and ``descriptors`` combine several of these; ``trials`` computes values for numbers that
are made up, and ``steering`` chooses these for ``divergence``. Imports ``ir``, ``isa`` and ``syntax``.

Change this package when tclint does not see that two addresses differ, that a branch is infeasible, or that a value is
uniform.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tclint.ir.cfg import CFG
from tclint.ir.nodes import Function, Variable
from tclint.values.addresses import Addresses
from tclint.values.columns import Columns
from tclint.values.conditions import Conditions
from tclint.values.entailment import ConditionalIntervals
from tclint.values.induction import Induction
from tclint.values.intervals import Bits, Bounds
from tclint.values.loop_facts import LoopFacts
from tclint.values.path_condition import PathCondition
from tclint.values.path_forms import PathForms
from tclint.values.role_tables import RoleTables
from tclint.values.ssa import Registers
from tclint.values.substitution import Lifetimes, PathSubstitution
from tclint.values.thread_predicates import ThreadSets, UniformityScope
from tclint.values.uniformity import Uniformity
from tclint.values.value_table import ValueTable

__all__ = ["Bits", "PathCondition", "PathSubstitution", "UniformityScope", "Values"]


class Values:
    """The questions about the values of one function. Only the index of definitions is built in advance.

    Every answer holds in all executions, and there are three kinds of questions by what "unknown" means:

    - A value is always known as an expression (:mod:`~tclint.values.nodes`). What is not modelled (``Unmodelled``,
      ``Loaded``, ``CollectiveResult``) is equal to itself and comparable with nothing. The same happens where a budget is
      exhausted: a chain of more than ``MAX_DEFINITION_DEPTH`` definitions, a sum of more than ``MAX_TERMS_PER_SUM`` terms.
    - Questions with a truth or a number for an answer return None if it does not follow: ``constant_of``,
      ``bit_slices``, ``mask``, ``interval``, ``trip_count``, ``induction``, ``addresses.disjoint``, ``entails``. The reasons are
      an opaque operand, a form that is not recognised, a depth limit (``MAX_INTERVAL_DEPTH``,
      ``MAX_EXPRESSION_DEPTH`` and the others of :mod:`~tclint.values.entailment`), or a question about itself around a
      loop. ``uniformity`` has a level for that, ``UNKNOWN``. A caller must never report because of it.
    - Questions for a set over-approximate: ``feasible_threads`` returns all threads, ``varying_at`` the locations where
      the value may change, ``known_bits`` no bits.

    Answers are cached and do not depend on the order of questions, apart from value numbers. Only ``along`` has a
    budget for each question, ``MAX_EXPRESSIONS_PER_QUESTION``; *gave_up* is called with the reason when one exceeds it.
    With *strict*, a loop is not taken to start before its end (:mod:`~tclint.values.entailment`).
    """

    def __init__(
        self,
        function: Function,
        cfg: CFG,
        variables: Mapping[str, Variable],
        gave_up: Callable[[str], object] = len,
        strict: bool = False,
    ) -> None:
        self.function = function
        table = ValueTable(function, variables)
        thread_sets = ThreadSets(table)
        registers = Registers(table, thread_sets, cfg)
        lifetimes = Lifetimes(table, cfg, gave_up)
        roles = RoleTables(table, thread_sets, registers)
        uniformity = Uniformity(registers, lifetimes, roles)
        counters = Induction(table)
        bounds = Bounds(registers, lifetimes, counters)
        loops = LoopFacts(registers, lifetimes, counters, strict)
        columns = None if strict or thread_sets.shape is not None else Columns(table)
        conditions = Conditions(ConditionalIntervals(bounds, loops), columns)
        # Attributes and not methods: the calls of the parts are the most frequent ones of an analysis. No part refers to
        # this object, so that there is no reference cycle.
        self.addresses = Addresses(bounds, uniformity)
        """The forms of addresses, and whether ranges of memory are disjoint."""
        self.path_forms = PathForms(self.addresses)
        """The forms of addresses on whatever path."""
        self._ask_expressions(registers, table)
        self._ask_threads(thread_sets, roles, uniformity)
        self._ask_numbers(counters, bounds)
        self._ask_paths(lifetimes, loops, conditions)

    def _ask_expressions(self, registers: Registers, table: ValueTable) -> None:
        """What registers hold, and what these expressions are."""
        self.defs = registers.defs
        """Register -> the instructions that write it, in program order."""
        self.operand = registers.operand
        """The value of an operand as an instruction reads it."""
        self.constant_operand = registers.constant_operand
        """The same as a number; None if it is not a constant."""
        self.before = registers.before
        """The value of a register just before an instruction."""
        self.after = registers.after
        """The value of a register just after an instruction."""
        self.after_block = registers.after_block
        """The value of a register at the end of a block."""
        self.nodes = table.nodes
        """Representative value -> its expression."""
        self.node = table.node
        """The expression of a value."""
        self.comparison = table.comparison
        """The comparison that a predicate is, negated or not, with its truth."""
        self.representative = table.representative
        """The value that stands for all that turned out to equal a value."""

        self.phi, self.is_phi = table.phi, table.is_phi
        """The phi that a value is known to be, and whether it is one."""
        self.is_special = table.is_special
        """Whether a value is that of a special register with this name."""
        self.phis_of = table.phis_of
        """The phis on which values depend, by whatever other phis."""
        self.arguments = table.arguments
        """The incoming values of a phi, by source of its block; empty if they were not followed."""
        self.subexpressions = table.subexpressions
        """Values and all their subexpressions, each once."""
        self.constant_of = table.constant_of
        """The integer that a value is; None: not a constant."""
        self.linear = table.linear
        """A value as terms with factors, plus a constant: values with equal terms are a known distance apart."""
        self.variable, self.based_on = table.variable, table.based_on
        """The variable whose address a value is; None: no such address."""
        self.separate = table.separate
        """Whether two values are the addresses of variables that do not overlap."""
        self.without_aligned = table.without_aligned
        """A value without the terms on which so many of its lowest bits do not depend."""
        self.constant, self.special, self.total = table.constant, table.special, table.total
        """Values of an integer, of a special register, and of terms with factors plus a constant."""
        self.add, self.minus, self.times = table.add, table.minus, table.times
        self.masked, self.part = table.masked, table.part
        """The sum and the difference of two values, the product with a constant, the bits of a mask, and a part of a value."""
        self.compare, self.negate = table.compare, table.negate
        """The predicates ``a eq b`` or ``a lt b``, and ``not p``."""

    def _ask_threads(self, thread_sets: ThreadSets, roles: RoleTables, uniformity: Uniformity) -> None:
        """How values differ between threads."""
        self._thread_sets = thread_sets
        self.threads, self.shape = thread_sets.threads, thread_sets.shape
        """The threads of a CTA that are modelled, and their extents by dimension; None: the shape is unknown."""
        self.cta_size = thread_sets.cta_size
        """The number of threads of a CTA that a rule may take for granted; None: launches have different ones."""
        self.one_dimensional = thread_sets.one_dimensional
        """Whether the kernel is meant for CTAs of one dimension."""
        self.bit_slices = thread_sets.bit_slices
        """A value in every thread; None: it does not depend on the thread index alone, or is not a signed number of 32 bits."""
        self.exact_slices = thread_sets.exact_slices
        """The same for a value of any width, of which a register holds as many low bits as it has."""
        self.mask = thread_sets.mask
        """The threads in which a predicate holds; None: it does not depend on the thread index alone."""
        self.feasible_threads = uniformity.feasible_threads
        """The threads in which a predicate may have a truth."""
        self.threads_where_equal = uniformity.threads_where_equal
        """The threads in which a value may equal a number."""
        self.looked_up = roles.looked_up
        """What threads may load from a table of roles; empty: not from such a table."""
        self.uniformity = uniformity.uniformity
        """The scope in which a value is the same for all threads."""
        self.is_private = uniformity.is_private
        """Whether a load is from memory of the thread itself."""
        self.depends_on_unmodelled_position = uniformity.depends_on_unmodelled_position
        """Whether some launch decides a predicate about the position of a thread that is not modelled."""
        self.holds_in_large_ctas = uniformity.holds_in_large_ctas
        """Whether a predicate about the size of the CTA alone has a truth in all CTAs of many warps."""

    def _ask_numbers(self, counters: Induction, bounds: Bounds) -> None:
        """Which numbers values may be."""
        self.induction, self.steps = counters.induction, counters.steps
        """The start, stride and modulus of a loop counter (None: not a counter), and the constants added by a loop."""
        self.quotient, self.remainder = counters.quotient, counters.remainder
        """The dividend and divisor of an unsigned division by a constant; None: not in a form that is recognised."""
        self.interval = bounds.interval
        """The least and the greatest value as a signed number; None: unknown."""
        self.known_bits = bounds.known_bits
        """The bits known to be 0, and those known to be 1."""
        self.trip_count, self.exact_trip_count = bounds.trip_count, bounds.exact_trip_count
        """An upper bound of the trip count of a loop; None: unknown."""

    def _ask_paths(self, lifetimes: Lifetimes, loops: LoopFacts, conditions: Conditions) -> None:
        """Where values change, and what holds on a path."""
        self.varying_at = lifetimes.varying_at
        """Where a value may change; empty: never during the life of a thread."""
        self.loop_varying_at = lifetimes.loop_varying_at
        """Those of these locations that are in a loop."""
        self.replacing = lifetimes.replacing
        """Expressions in which some values are others."""
        self.along = lifetimes.along
        """Expressions at the end of a path in terms of values at its start."""
        self.entails = conditions.entails
        """Whether a predicate holds under a path condition; None: neither answer follows."""
        self.refine = conditions.refine
        """A path condition extended by the truth of a predicate, and by what follows structurally."""
        self.unsatisfiable, self.satisfiable = conditions.unsatisfiable, conditions.satisfiable
        self.contradicted = conditions.contradicted
        self.contradictions = conditions.contradictions
        """Whether facts, or a predicate and facts, are certain to exclude each other."""
        self.compared, self.differences = conditions.compared, conditions.differences
        """The values, and the differences of values, on which comparisons depend."""
        self.equals_constant, self.choice_among = conditions.equals_constant, conditions.choice_among
        """The predicate that a phi equals a number, and the number that a path condition equates it with."""
        self.is_remainder_loop = loops.is_remainder_loop
        """Whether a loop runs the remainder of an unrolled one, and a predicate is not its exit condition."""
        self.surviving_sites, self.crossing = conditions.surviving_sites, conditions.crossing
        """What remains of a path condition after instructions, and after an edge."""
        self.invariant, self.interned = conditions.invariant, conditions.interned
        """The facts that hold for the whole life of a thread, and the one object for equal path conditions."""

    @property
    def may_be_alone(self) -> bool:
        """Whether the kernel may be launched with CTAs of one thread."""
        return self._thread_sets.may_be_alone

    @property
    def is_alone(self) -> bool:
        """Whether it is meant for such CTAs only: it never asks which thread it is."""
        return self._thread_sets.is_alone
