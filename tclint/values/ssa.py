"""The value that a register holds at an instruction: SSA construction on demand.

Definitions are found from the use backwards, as in Braun et al., *Simple and Efficient Construction of SSA Form*
(2013). A guarded definition becomes a select over its guard, and a join of several definitions a phi. There is one only
where definitions meet (Cytron et al., *Efficiently Computing Static Single Assignment Form*, 1991), and one whose
arguments are a single value, or itself, is replaced by that value.

The graph is cyclic, so a definition in a loop may be asked for while it is being computed. An unmodelled value, the
*stand-in*, then represents it. If only copies and phis have used the stand-in, it becomes an alias of the value;
otherwise it stays opaque. To keep this independent of the order of questions, the phis that a definition in a loop
depends on are created first.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache

from tclint.ir.cfg import CFG
from tclint.ir.changes import Changes
from tclint.ir.nodes import (
    Immediate,
    Instruction,
    Memory,
    Not,
    Operand,
    OperandPair,
    Site,
    Special,
    Symbol,
    Vector,
    registers,
)
from tclint.isa.effects import Exchange, Resource
from tclint.isa.forms import Match, floating
from tclint.isa.modes import Modes
from tclint.isa.semantics import COMPUTE, RELATIONS, widen
from tclint.isa.special_registers import SPECIAL_REGISTERS
from tclint.values import thread_masks as T
from tclint.values.cta_shape import fixed
from tclint.values.integers import EVERY, SHORT, as_signed, type_width
from tclint.values.nodes import (
    COMPUTED,
    AddressOf,
    Allocated,
    Arithmetic,
    Broadcast,
    CollectiveResult,
    Constant,
    Elected,
    FloatConstant,
    Loaded,
    Masked,
    Opaque,
    ParameterRead,
    Phi,
    Undefined,
    Unmodelled,
    Value,
    VectorOf,
)
from tclint.values.thread_predicates import ThreadSets, UniformityScope
from tclint.values.value_table import ValueTable

__all__ = ["MAX_DEFINITION_DEPTH", "Registers"]

MAX_DEFINITION_DEPTH = 120
"""Definition chains longer than this stay opaque; real addresses are far shorter."""
_WORD = 4
"""The bytes of an argument that a model may be made for."""
_SHARED = frozenset((Constant, AddressOf, ParameterRead, Allocated))
"""Nodes that are the same in all threads of a CTA."""
_TRANSPARENT = frozenset(("cvta", "mov"))


@lru_cache(maxsize=1024)
def _first_type(modifiers: tuple[str, ...]) -> str:
    """The type that an instruction with these modifiers computes in."""
    types = [m for m in modifiers if m[1:2] in "busf" and m[2:].rstrip("x2").isdigit()]
    return types[0] if types else ".b32"


class Registers:
    """The values of registers, as instructions read them."""

    def __init__(self, table: ValueTable, thread_sets: ThreadSets, cfg: CFG) -> None:
        self.table, self.thread_sets, self.cfg, self.function = table, thread_sets, cfg, table.function
        self.defs = thread_sets.defs
        self._after: dict[tuple[int, int], int] = {}  # (register, definition) -> value after it
        self._only: dict[int, int] = {}  # register with a single definition -> its value
        self._entry: dict[tuple[int, int], int] = {}  # (register, block) -> value at its entry
        self._changes: dict[int, Changes] = {}  # register -> see _changes_of
        self._entries_at_start: dict[tuple[int, int], int] = {}
        """Definition -> the size of :attr:`_entry` when the phis that it depends on were last created."""
        self._depth = 0
        self._in_progress: set[int] = set()  # stand-ins of definitions that are being computed
        self._read_in_progress: set[int] = set()  # those of them that the current definition has read
        self.opaque: set[int] = set()
        """The stand-ins from which something was computed."""
        self._waiting: dict[int, list[int]] = {}  # stand-in or phi -> phis that it is an argument of
        self._equal_phis: dict[tuple[int, str, tuple[int, ...]], int] = {}
        """``(block, register type, arguments)`` -> the phi that represents all phis with these."""
        self._allocations: dict[int, list[int]] | None = None
        """Shared word -> see :meth:`_allocating`."""
        self._threads: dict[int, int] = {}
        """Block -> see :meth:`_executing`."""
        self._stores: dict[int, list[int]] = {}
        """Shared word -> see :meth:`_stores_to`."""

    # ------------------------------------------------------------ definitions

    def constant_operand(self, operand: Operand, site: Site) -> int | None:
        """The number that an operand is where an instruction reads it; None if it is not a constant."""
        return self.table.constant_of(self.operand(operand, site))

    def operand(self, operand: Operand | None, at: Site) -> Value:
        """The value of an operand as the instruction at *at* reads it."""
        if isinstance(operand, int):
            return self.before(operand, at)
        if isinstance(operand, Immediate):
            return (
                self.table.constant(operand.value)
                if isinstance(operand.value, int)
                else self.table.intern(FloatConstant, operand.value)
            )
        if isinstance(operand, Symbol):
            base = self.table.intern(AddressOf, operand.name)
            return self.table.total(((base, 1),), operand.offset) if operand.offset else base
        if isinstance(operand, Special):
            number = fixed(operand.name, self.thread_sets.shape, bool(self.function.threads))
            if number is not None:
                return self.table.constant(number)
            varies = SPECIAL_REGISTERS[operand.name].varies
            return self.table.intern(Unmodelled, at, -1) if varies else self.table.special(operand.name)
        if isinstance(operand, Not):
            return self.table.negate(self.before(operand.register, at))
        if isinstance(operand, Memory):
            return self.table.add(self.operand(operand.base, at), self.table.constant(operand.offset))
        if isinstance(operand, Vector):
            return self.table.intern(VectorOf, tuple([self.operand(item, at) for item in operand.items]))
        return self.table.intern(Unmodelled, at, -1)

    def before(self, register: int, at: Site) -> Value:
        """The value of *register* just before the instruction at *at*."""
        only = self._only.get(register)
        if only is not None and only not in self.table.alias and only not in self._in_progress:
            return only
        defs = self.defs.get(register)
        if not defs:
            return self.table.intern(Undefined, register)
        return self._read(register, self.cfg.block_of[at], at)

    def after(self, register: int, at: Site) -> Value:
        """The value of *register* just after the instruction at *at*."""
        block = self.cfg.block_of[at]
        last = at + 1 == self.cfg.blocks[block].end
        return self.after_block(register, block) if last else self.before(register, at + 1)

    def after_block(self, register: int, block: int) -> Value:
        """The value of *register* at the end of *block*."""
        if register not in self.defs:
            return self.table.intern(Undefined, register)
        return self._read(register, block, self.cfg.blocks[block].end)

    def _read(self, register: int, block: int, at: Site) -> Value:
        value = self.table.representative(self._reaching(register, block, at))
        if value in self._in_progress:
            self._read_in_progress.add(value)
        return value

    def _reaching(self, register: int, block: int, at: Site) -> Value:
        """The value of *register* that reaches instruction *at* of *block* (or its end)."""
        defs, blocks = self.defs[register], self.cfg.blocks
        if len(defs) == 1 and self.function.instructions[defs[0]].guard < 0:
            return self._defined(register, defs[0])
        asked = block
        while True:
            k = bisect_left(defs, at) - 1
            if k >= 0 and defs[k] >= blocks[block].start:
                value = self._defined(register, defs[k])
                break
            known = self._entry.get((register, block))
            if known is not None:
                value = known
                break
            changes = self._changes_of(register)
            if block in changes.joins and block:
                value = self._phi(register, block, self.cfg.sources[block])
                break
            above = changes.above(block)
            if above is None:
                value = self.table.intern(Undefined, register)
                break
            block, at = above, blocks[above].end
        if block != asked:
            self._entry[register, asked] = value
        return value

    def _changes_of(self, register: int) -> Changes:
        """The blocks that change what reaches the blocks that they dominate."""
        found = self._changes.get(register)
        if found is None:
            block_of = self.cfg.block_of
            found = self._changes[register] = Changes(self.cfg, {block_of[at] for at in self.defs[register]})
        return found

    def _phi(self, register: int, block: int, sources: tuple[int, ...]) -> Value:
        phi = self.table.intern(Phi, block, register)
        if self._depth > MAX_DEFINITION_DEPTH:
            return phi
        self._entry[register, block] = phi
        self._depth += 1
        arguments = tuple(self._reaching(register, p, self.cfg.blocks[p].end) for p in sources)
        self._depth -= 1
        self.table.phi_arguments[phi] = arguments
        self._simplify_phis([phi])
        return self.table.representative(phi)

    def _simplify_phis(self, phis: list[int]) -> None:
        """Replace each phi that joins a single value, apart from itself, and then the phis that depend on it.

        Arguments may turn out to be equal later: an inner loop is visited before the back edge of the loop around it. A
        phi with the same arguments as another phi of its block is replaced by that.
        """
        alias, nodes = self.table.alias, self.table.nodes
        while phis:
            phi = phis.pop()
            if phi in alias:
                continue
            arguments = self.table.arguments(phi)
            distinct = set(arguments) - {phi}
            if len(distinct) > 1:
                node = self.table.phi(phi)
                kind = self.function.registers[node.register].type
                equal_phi = self.table.representative(
                    self._equal_phis.setdefault((node.block, kind, arguments), phi)
                )
                distinct = {equal_phi} if equal_phi != phi else distinct
            if len(distinct) == 1:
                (alias[phi],) = distinct
                phis += self._waiting.pop(phi, ())
            else:
                for argument in distinct:
                    if type(nodes[argument]) is Phi or argument in self._in_progress:
                        self._waiting.setdefault(argument, []).append(phi)

    def _defined(self, register: int, at: Site) -> Value:
        """The value of *register* just after the instruction at *at*, which writes it."""
        key = (register, at)
        found = self._after.get(key)
        if found is not None:
            return self.table.representative(found)
        stand_in = self.table.intern(Unmodelled, at, register)
        if self._depth > MAX_DEFINITION_DEPTH:
            self.opaque.add(stand_in)
            return stand_in
        instruction = self.function.instructions[at]
        if (source := _copy_source(instruction)) in self.defs:
            # A copy is transparent, so a recurrence through it is one through its source.
            self._depth += 1
            value = self.table.representative(self._reaching(source, self.cfg.block_of[at], at))
            self._depth -= 1
            if value not in self._in_progress:
                self._after[key] = value
            return value
        if self._may_be_recurrent(instruction, at) and self._entries_at_start.get(key, -1) < len(self._entry):
            # An operand may depend on this result by a back edge, so its phis are created first.
            self._entries_at_start[key] = len(self._entry)
            self._depth += 1
            for read in (*instruction.reads, *((register,) if instruction.guard >= 0 else ())):
                self.before(read, at)
            self._depth -= 1
            if (found := self._after.get(key)) is not None:
                return self.table.representative(found)
        # A definition in terms of itself stays opaque, unless a phi breaks the cycle.
        self._after[key] = stand_in
        self._in_progress.add(stand_in)
        outer, self._read_in_progress = self._read_in_progress, set()
        self._depth += 1
        value = self._computed(instruction, at, register)
        if instruction.guard >= 0:
            previous = self.before(register, at)
            guard = self.before(instruction.guard, at)
            value = self.table.select(
                self.table.negate(guard) if instruction.negated else guard, value, previous
            )
        self._depth -= 1
        if self._read_in_progress:
            self.opaque |= self._read_in_progress - {value}  # unless it was copied only
        self._read_in_progress = outer
        self._in_progress.discard(stand_in)
        self._after[key] = value
        if instruction.guard < 0 and len(self.defs[register]) == 1:
            self._only[register] = value
        waiting = self._waiting.pop(stand_in, None)
        if waiting and value != stand_in and stand_in not in self.opaque:
            self.table.alias[stand_in] = value
            self._simplify_phis(waiting)
        return self.table.representative(value)

    def _may_be_recurrent(self, instruction: Instruction, at: Site) -> bool:
        """Whether an instruction in a loop computes something from its operands, possibly from its own previous result.

        A matrix product is not considered: it has many registers, and its results are opaque.
        """
        form = instruction.match.form if instruction.match is not None else None
        return (
            form is not None
            and self.cfg.block_of[at] in self.cfg.in_cycle
            and bool(form.compute or form.memory or form.effects.exchange is Exchange.SHUFFLE)
        )

    # ------------------------------------------------------------ what instructions compute

    def _computed(self, instruction: Instruction, at: Site, register: int) -> Value:
        match = instruction.match
        if match is None or match.problem:
            return self.table.intern(Unmodelled, at, register)
        form, operands = match.form, instruction.operands
        name = form.compute
        if form.event:
            value = self._collective(instruction, match, at, register)
            if value is not None:
                return value
        if form.memory and not name and "read" in form.memory[0][0]:
            return self._loaded(instruction, at, register)
        if form.name == "isspacep":
            return self._is_in_space(match, self.operand(operands[1], at))
        if not name:
            return self.table.intern(Unmodelled, at, register)
        if Vector in map(type, operands):
            return self._packed(instruction, at, register)
        type_name = _first_type(match.modifiers)
        arguments = [self.operand(o, at) for o in operands[1:]]
        if Immediate in map(type, operands):
            # The addend of a wide product is wider.
            typed = 2 if match.modes.widens else len(arguments)
            arguments[:typed] = [self._of_type(value, type_name) for value in arguments[:typed]]
        destination = operands[0]
        value = self._folded(name, match, arguments, register)
        if value is None:
            value = self._apply(name, type_name, match, arguments)
        if value is None:
            value = self.table.intern(Opaque, name, match.modifiers, tuple(arguments))
        if isinstance(destination, OperandPair) and destination.first != register:
            if name != "setp":
                return self.table.intern(Unmodelled, at, register)
            # The second result negates the comparison, not what it is combined with (9.7.6.2).
            compared = self._compared(match, type_name, arguments[:2])
            if "f" in type_name or compared is None:
                if arguments[2:]:
                    return self.table.intern(Unmodelled, at, register)
                return self.table.negate(value)
            negated = self.table.negate(compared)
            return self._combined(match, negated, arguments[2]) if arguments[2:] else negated
        return value

    def _of_type(self, value: Value, type_name: str) -> Value:
        """*value* as an operand of *type_name*: 0xffffffff is -1 in 32 bits, whatever the sign of the type."""
        number, width = self.table.constant_of(value), type_width(type_name)
        return value if number is None or width < 32 else self.table.constant(as_signed(number, width))

    def _is_in_space(self, match: Match, address: Value) -> Value:
        """Whether an address is in a state space (9.7.9.19).

        A constant if the address is that of a variable; otherwise one value per address, wherever it is tested.
        """
        space = match.binding["ss"].partition("::")[0]
        for term, factor in self.table.linear(address)[0]:
            variable = self.table.variable(term)
            if variable is not None and factor == 1:
                return self.table.constant(int(variable.space.partition("::")[0] == space))
        return self.table.intern(Opaque, "isspacep", match.modifiers, (address,))

    def _collective(self, instruction: Instruction, match: Match, at: Site, register: int) -> Value | None:
        """The result of an instruction that threads execute together; None for any other instruction."""
        form, operands = match.form, instruction.operands
        if form.effects.exchange is Exchange.ELECT:
            destination = operands[0]
            if isinstance(destination, OperandPair) and destination.second == register:
                # Elections of one warp with one mask elect the same lane (9.7.13.14).
                return self.table.intern(Elected, self.operand(operands[1], at))
            return self.table.intern(Unmodelled, at, register)
        if match.shuffle == "idx" and form.scope == "lanes":
            chosen, bounds = (
                self.operand(operands[2], at),
                self.constant_operand(operands[3], at),
            )
            # Segments (bits 8 to 12) and a lower bound (bits 0 to 4) make it less than a broadcast (9.7.9.6).
            whole = bounds is not None and bounds & 0x1F1F == 0x1F
            if whole and isinstance(operands[0], int | OperandPair) and register == registers(operands[0])[0]:
                source, lane = self.operand(operands[1], at), self.table.constant_of(chosen)
                if self._is_warp_uniform(source):
                    return source
                if lane is None:
                    return self.table.intern(CollectiveResult, at, register, (chosen,))
                return self.table.intern(Broadcast, source, lane & 31)
            return self.table.intern(Unmodelled, at, register)
        if form.scope == "active":  # threads that execute it apart may have different results
            return self.table.intern(Unmodelled, at, register)
        if (
            form.effects.exchange is Exchange.VOTE
            or form.effects.exchange is Exchange.REDUCTION
            or (form.effects.exchange is Exchange.MATCH and match.modes.unanimous)
        ):
            return self.table.intern(CollectiveResult, at, register, ())
        return None

    def _loaded(self, instruction: Instruction, at: Site, register: int) -> Value:
        match = instruction.match
        assert match is not None
        address = next((o for o in instruction.operands if isinstance(o, Memory)), None)
        destination = instruction.operands[0]
        which = destination.items.index(register) if isinstance(destination, Vector) else 0
        value = self.operand(address, at)
        space = match.space
        kind = match.element
        size = int(kind[2:]) // 8
        if space.startswith(".const") or (space.startswith(".param") and self._is_kernel_parameter(address)):
            # The same bytes are the same value whatever the load's type, unless the load extends them.
            word = self.table.add(value, self.table.constant(which * size))
            number = self._argument(word) if self.function.arguments and size == _WORD else None
            if number is not None:
                return self.table.constant(number)
            return self.table.intern(ParameterRead, word, size, kind if size < _WORD else "")
        if space.startswith(".param"):  # from the caller, or returned by a call
            return self.table.intern(Unmodelled, at, register)
        if space.startswith(".shared"):
            word = self.table.add(value, self.table.constant(which * size))
            if self._is_allocation(word, at):
                return self.table.intern(Allocated, word)
        if "read" in match.form.memory[0][0] and "write" in " ".join(m for m, _ in match.form.memory):
            return self.table.intern(Unmodelled, at, register)
        return self.table.intern(Loaded, at, space, value, which)

    def _argument(self, address: int) -> int | None:
        """What the launch passes in the word of a parameter at *address*; None if the model is not made for one."""
        terms, offset = self.table.linear(address)
        node = self.table.node(terms[0][0]) if len(terms) == 1 and terms[0][1] == 1 else None
        return self.function.arguments.get((node.name, offset)) if type(node) is AddressOf else None

    def _is_kernel_parameter(self, address: Operand | None) -> bool:
        """Whether *address* is that of a kernel parameter, whose value is constant and the same in all threads."""
        if not self.function.entry or not isinstance(address, Memory):
            return False
        base = address.base
        return isinstance(base, int) or (
            isinstance(base, Symbol) and any(p.name == base.name for p in self.function.parameters)
        )

    def _is_allocation(self, word: Value, at: Site) -> bool:
        """Whether a load at *at* finds in a shared word the address of the tensor memory that is allocated through it.

        Not if its thread may allocate through the word afterwards, or writes it again between the allocation and the
        load. A thread that does not allocate is taken to load it after the thread that does.
        """
        allocations = self._allocating(word)
        if not allocations or any(self._may_follow(at, i) for i in allocations):
            return False
        writes = (*allocations, *self._stores_to(word))
        last = [j for j in writes if self._may_follow(j, at)]
        return not any(i != j and self._may_follow(i, j) for i in allocations for j in last)

    def _may_follow(self, first: Site, then: Site) -> bool:
        """Whether a thread may execute the instruction *then* after *first*."""
        a, b = self.cfg.block_of[first], self.cfg.block_of[then]
        follows = (a == b and first < then) or self.cfg.reachable_from[a] >> b & 1
        return bool(follows and self._executing(a) & self._executing(b))

    def _executing(self, block: int) -> T.Threads:
        """The threads that the branches before a block admit, as far as the index of the thread alone decides these."""
        if block not in self._threads:
            threads, inner = T.full(self.thread_sets.threads), block
            self._threads[block] = threads  # the answer to a recursive question
            while inner:
                outer = self.cfg.idom.get(inner, 0)
                edges = [edge for edge in self.cfg.successors[outer] if edge.target == inner]
                if len(edges) == len(self.cfg.sources[inner]) == 1 and edges[0].predicate >= 0:
                    value = self.before(edges[0].predicate, self.cfg.blocks[outer].end - 1)
                    mask = self.thread_sets.mask(value)
                    if mask is not None:
                        threads &= mask if edges[0].value else ~mask
                inner = outer
            self._threads[block] = threads
        return self._threads[block]

    def _allocating(self, word: Value) -> list[Site]:
        """The instructions ``tcgen05.alloc`` that write the address of tensor memory to a shared word."""
        if self._allocations is not None:
            return self._allocations.get(word, [])
        found = self._allocations = dict[int, list[int]]()
        for use in self.function.uses:
            if use.match is not None and use.match.form.effects.resource is Resource.TMEM_ALLOC:
                for i in use.sites:
                    address = self.operand(self.function.instructions[i].role("destination"), i)
                    found.setdefault(self.table.representative(address), []).append(i)
        return found.get(word, [])

    def _stores_to(self, word: Value) -> list[Site]:
        """The instructions that store to the shared *word*, as far as their addresses are known."""
        if word not in self._stores:
            self._stores[word] = []  # the answer to a question about the address of a store
            terms, constant = self.table.linear(word)
            self._stores[word] = [
                i
                for use in self.function.uses
                if use.match is not None
                and use.match.form.name == "st"
                and use.match.space.startswith(".shared")
                for i in use.sites
                for found, start in [
                    self.table.linear(self.operand(self.function.instructions[i].operands[0], i))
                ]
                if found == terms and -16 < start - constant < 4
            ]
        return self._stores[word]

    def _is_warp_uniform(self, value: Value) -> bool:
        """Whether *value* is warp-uniform by its expression alone, without following control flow."""
        parts = self.table.subexpressions(value, until=self._is_warp_uniform_leaf)
        return all(self._is_warp_uniform_leaf(v) or type(self.table.nodes[v]) in COMPUTED for v in parts)

    def _is_warp_uniform_leaf(self, value: Value) -> bool:
        if type(self.table.node(value)) in _SHARED:
            return True
        planes = self.thread_sets.exact_slices(value)
        return planes is not None and self.thread_sets.plane_level(planes) <= UniformityScope.WARP

    def _packed(self, instruction: Instruction, at: Site, register: int) -> Value:
        """The result of a ``mov`` between a register and its parts."""
        operands, match = instruction.operands, instruction.match
        width = type_width(match.modifiers[-1]) if match is not None and match.modifiers else 32
        if len(operands) == 2 and isinstance(operands[0], Vector) and not isinstance(operands[1], Vector):
            items = operands[0].items
            if register in items:
                whole = self.operand(operands[1], at)
                node, index = self.table.node(whole), items.index(register)
                size, rest = divmod(node.size, len(items)) if type(node) is ParameterRead else (0, 0)
                if type(node) is ParameterRead and size >= 4 and not rest:
                    address = self.table.add(node.address, self.table.constant(index * size))
                    return self.table.intern(ParameterRead, address, size, "")
                return self.table.part(index, width // len(items), whole)
        if len(operands) == 2 and isinstance(operands[1], Vector):
            parts = [self.operand(item, at) for item in operands[1].items]
            return self.table.pack(width // len(parts), parts)
        return self.table.intern(Unmodelled, at, register)

    def _apply(self, name: str, type_name: str, match: Match, a: list[Value]) -> Value | None:
        """*name* applied to argument values, simplified; None if it stays an opaque operation."""
        if ("f" in type_name and name not in ("mov", "selp")) or match.modes.saturates:
            return None
        if type_name.endswith("x2"):  # two lanes, between which nothing is carried: no number of 32 bits
            return None
        table, root = self.table, name.partition(".")[0]
        if root in _TRANSPARENT and a:
            return a[0]
        if root == "cvt" and a:
            return self._converted(a[0], match.types)
        if root in ("mul", "mad") and len(a) >= 2:
            return self._product(type_name, match.modes, *a[: 3 if root == "mad" else 2])
        if root in ("and", "or", "xor", "not") and match.modes.of_predicates:
            return table.negate(a[0]) if root == "not" else table.logic(root, a[0], a[1])
        if root == "setp":
            return self._compared(match, type_name, a)
        if root == "selp" and len(a) == 3:
            return table.select(a[2], a[0], a[1])
        if root == "neg" and len(a) == 1:
            return table.times(a[0], -1, type_width(type_name))
        if root == "bfe" and len(a) == 3 and type_name[1] == "u":
            return self._field(type_name, a[0], *map(table.constant_of, a[1:]))
        if len(a) == 2 and not match.modes.rectifies:
            return self._apply_to_both(root, type_name, *a)
        return None

    def _apply_to_both(self, root: str, type_name: str, left: Value, right: Value) -> Value | None:
        """:meth:`_apply` for an instruction with two operands and a type that alone of its modifiers matters."""
        table, width = self.table, type_width(type_name)
        if root == "add":
            return table.add(left, right, width)
        if root == "sub":
            return table.add(left, table.times(right, -1, width), width)
        if root == "shl":
            by = table.constant_of(right)
            if by is None:
                return None
            by &= 0xFFFFFFFF
            return table.times(left, 1 << by, width) if by < width else table.constant(0)
        if root == "shr":
            return table.shifted(left, table.constant_of(right), right, type_name)
        if root == "mapa":  # mapped to the executing CTA itself
            return left if table.is_special(right, "%cluster_ctarank") else None
        if root in ("and", "or", "xor"):
            return self._bitwise(root, type_name, left, right)
        if root in ("min", "max"):
            return table.intern(Arithmetic, root, type_name, tuple(sorted((left, right))))
        return None

    def _converted(self, value: Value, types: tuple[str, ...]) -> Value | None:
        """An integer converted to another type; None unless both have 32 bits at least, and nothing is rounded."""
        if len(types) != 2 or any(t[1] == "f" for t in types):
            return None
        # Widening and narrowing preserve an address and a small index.
        if min(to := type_width(types[0]), source := type_width(types[1])) < 32:
            return None
        if to > source:
            return self._extended(value, types[1], types[0])
        if to == source:
            return value
        node = self.table.node(value)
        low = type(node) is Masked and node.mask & SHORT == SHORT
        return self.table.truncated(node.value if type(node) is Masked and low else value)

    def _product(
        self, type_name: str, modes: Modes, x: Value, y: Value, addend: Value | None = None
    ) -> Value | None:
        """The product of two integers, all of it or its lower half, plus an addend; None if neither is a constant."""
        width = type_width(type_name)
        if modes.upper_half:
            return None
        if modes.widens:
            width *= 2
            x, y = (self._extended(factor, type_name, f"{type_name[:2]}{width}") for factor in (x, y))
        product = self.table.multiply(x, y, width)
        return product if product is None or addend is None else self.table.add(product, addend, width)

    def _bitwise(self, root: str, type_name: str, left: Value, right: Value) -> Value:
        """``and``, ``or`` or ``xor`` of two numbers."""
        table, width = self.table, type_width(type_name)
        for value, other in ((left, right), (right, left)):
            mask = table.constant_of(other)
            if mask is not None and root == "and":
                return table.masked(value, mask, width)
            if mask == 0 and root != "and":
                return value
        for value, other in ((left, right), (right, left)) if root == "xor" else ():
            bits = table.max_bit_length(other)
            rest = table.without_aligned(value, bits) if bits else value
            if rest != value:  # a swizzle of an aligned address changes only the offset added to it
                swizzled = table.intern(Arithmetic, root, type_name, tuple(sorted((rest, other))))
                return table.add(swizzled, table.add(value, table.times(rest, -1, width), width), width)
        return table.intern(Arithmetic, root, type_name, tuple(sorted((left, right))))

    def _field(self, type_name: str, value: Value, start: int | None, length: int | None) -> Value | None:
        """The bits of an unsigned number that ``bfe`` extracts; None unless it is a constant which."""
        table, width = self.table, type_width(type_name)
        if start is None or length is None or (start & 255) + (length & 255) > width:
            return None
        shifted = table.shifted(value, start & 255, table.constant(start & 255), type_name)
        return table.masked(shifted, (1 << (length & 255)) - 1, width)

    def _extended(self, value: Value, source: str, to: str) -> Value:
        """*value* of the type *source* extended to the type *to*, as *source* is signed."""
        table, width, signed = self.table, type_width(source), source[1] == "s"
        number = table.constant_of(value)
        if number is not None:
            return table.constant(as_signed(number, width) if signed else number & (1 << width) - 1)
        if 0 < table.max_bit_length(value) < width:
            return value
        planes = self.thread_sets.exact_slices(value)
        if planes is not None:
            same = T.narrow(planes, width, signed) == planes
        elif width < 32:
            same = False
        elif signed:
            # Truncated from 64 bits, or wrapped: the extension differs from the untruncated value.
            same = not (table.is_wide(value) or table.may_wrap(value) or table.max_bit_length(value))
        else:
            return table.widened(value)
        return value if same else table.intern(Opaque, "cvt", (to, source), (value,))

    def _compared(self, match: Match, type_name: str, a: list[Value]) -> Value | None:
        if match.relation not in RELATIONS or len(a) < 2:
            return None
        canonical, swap, negated = RELATIONS[match.relation]
        x, y = (a[1], a[0]) if swap else (a[0], a[1])
        width = type_width(type_name)
        signed = type_name[1:2] == "s"
        result = self.table.compare(canonical, x, y, signed, width)
        if negated:
            result = self.table.negate(result)
        return self._combined(match, result, a[2]) if len(a) == 3 else result

    def _combined(self, match: Match, result: int, other: int) -> Value:
        return self.table.logic(match.binding["bool"][1:], result, other)

    def _folded(self, name: str, match: Match, arguments: list[Value], register: int) -> Value | None:
        """The constant that an integer instruction computes from constants, by the ISA table's semantics; else None."""
        numbers = [self.table.constant_of(a) for a in arguments]
        if None in numbers or name in ("setp", "selp") or floating(match.modifiers):
            return None
        compute = COMPUTE.get(name)
        if compute is None:
            return None
        width = type_width(self.function.registers[register].type)
        try:
            pattern = compute(match.binding, *(n & EVERY for n in numbers if n is not None))
        except ZeroDivisionError:  # unspecified by the ISA (9.7.1.8)
            return None
        if self.function.registers[register].type == ".pred":
            return self.table.constant(pattern & 1)
        return self.table.constant(as_signed(widen(match.binding, pattern, width), width))


def _copy_source(instruction: Instruction) -> int:
    """The register that an instruction copies, if it does nothing else; otherwise -1."""
    match, operands = instruction.match, instruction.operands
    if match is None or match.problem or match.form.compute != "mov" or instruction.guard >= 0:
        return -1
    return operands[1] if isinstance(operands[0], int) and isinstance(operands[1], int) else -1
