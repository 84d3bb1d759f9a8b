"""From the syntax tree of a function to its instructions.

The tree is read at the level of statements only; the text of an instruction is split by :mod:`tclint.ir.operands`. The
names of registers and labels are resolved in their lexical scopes (PTX ISA 5.4.1, 6.4.4), because inline assembly opens
many brace scopes with the same names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import repeat
from sys import intern
from typing import TYPE_CHECKING, Any

from tclint._pattern import pattern
from tclint.ir.declarations import declared, misaligned, misspelt_directive, positions, size_of, targets_of
from tclint.ir.features import FEATURED, note
from tclint.ir.nodes import (
    NOTHING,
    BuildError,
    Directive,
    FeatureUse,
    FormUse,
    Function,
    Immediate,
    Instruction,
    Location,
    Memory,
    Module,
    Operand,
    Register,
    Special,
    Symbol,
    Variable,
    Vector,
    registers,
    renamed,
    symbols,
)
from tclint.ir.operands import (
    HEAD,
    abnormal,
    clean,
    integer,
    overflows,
    parse_operand,
    quoted,
    shape,
    split_operands,
)
from tclint.ir.scopes import BraceScope, containing, split_name
from tclint.isa.features import feature
from tclint.isa.forms import Match
from tclint.isa.special_registers import SPECIAL_REGISTERS
from tclint.isa.table import Table
from tclint.isa.target import Target, Version
from tclint.isa.widths import width_of

if TYPE_CHECKING:
    from tclint.syntax import Node

__all__ = ["FunctionBuilder", "make_function"]

_TABLE = pattern(r"\s*([\w$%]+)\s*:\s*\.branchtargets\s+(.*?);?\s*$", re.DOTALL)
_RANGED = pattern(r"([\w$%]+)(?:\s*<\s*(\d+)\s*>)?")
_NUMBER = pattern(r"[1-9]\d{0,17}")
_MOST_REGISTERS = (1 << 32) - 1
"""The size of the largest range of registers."""
_BLANKS_BEFORE_SELECTOR = re.compile(r"(?<=[\w$])\s+(?=\.[a-zA-Z])")
_SEVERAL_PARTS = re.compile(r"\[[^\]]*,")
"""The beginning of an address with several parts: ``[r0, d1]``."""
_ELEMENT = re.compile(r"([A-Za-z_$%][\w$]*)\s*\[([^\[\]]+)\]$")
"""An element of an array."""
_NO_FORMALS: tuple[tuple[Variable, ...], tuple[Variable, ...]] = (), ()


_FEW_REGISTERS = 64
"""The largest range of registers that is kept for the next function that declares it."""


class FunctionBuilder:
    """Builds one function."""

    __slots__ = (
        "base", "constants", "elements", "errors", "features", "function", "head", "inlines", "instructions", "isa", "labels", "located", "locations",
        "longest", "max_labels", "named", "names", "outer", "overflow", "own_errors", "plenty", "prototypes", "read_to", "scope",
        "scope_starts", "several", "statement", "tables", "targets", "text", "unlocated", "unreadable", "unresolved", "uses", "variables", "vectors",
    )  # fmt: skip

    def __init__(self, function: Function, text: str, isa: Table, outer: Mapping[str, Variable]) -> None:
        """*outer* are the variables that the module has declared so far."""
        self.function = function
        self.outer = outer
        self.instructions = function.instructions
        self.text = text
        self.base = function.start
        self.isa = isa
        self.scope = BraceScope(None)
        self.scope_starts = [(0, self.scope)]
        """``(offset in the function, scope that is current from there on)``, each after a brace, in order."""
        self.prototypes: list[Function] = []
        """The prototypes between its statements; their positions are relative to this function."""
        self.longest = 0  # size of the largest range of registers
        self.max_labels = 0
        """The largest number of labels that a list of targets can name; 0: not counted yet."""
        self.own_errors = 0
        """The number of the function's own errors; those of undefined labels and names follow them."""
        self.uses: dict[tuple[str, str], FormUse] = {}
        self.names: list[tuple[int, str, bool]] = []
        """``(instruction, name, whether it is the guard)`` for each name that is not a register; other names than guards may
        be declared in the module."""
        self.unresolved: list[tuple[int, str]] = []
        """``(instruction, label)`` for each target of a branch that no scope around it defines."""
        self.plenty = (function.end - function.start) // 8  # more registers than the instructions can use
        self.vectors: dict[int, Vector] = {}
        """The elements of each register that is declared with ``.v2`` or ``.v4`` (5.4.2), by its own number."""
        self.constants: dict[str, tuple[Operand, str]] = {}  # operands that do not depend on the scope
        self.named = False  # whether the current instruction names a symbol
        self.elements = False
        """Whether an operand is an element of an array, whose offset depends on the declaration of the array."""
        self.overflow = ""  # what is wrong with a constant of it
        self.unreadable = ""  # what of it is not supported
        self.targets: dict[int, list[int]] = {}
        self.tables: list[tuple[int, int]] = []
        """Where the lists of targets begin and end."""
        self.locations: dict[tuple[int, ...], Location] = {}
        # What the function has of these when it is finished; see there.
        self.errors: list[BuildError] = []
        self.features: list[FeatureUse] = []
        self.labels: dict[int, str] = {}
        self.located: list[tuple[int, Location]] = []
        self.head: tuple[int, int, int] | None = None
        """The position of the first ``.loc``, which is that of the head of the function."""
        self.inlines = False
        """Whether a ``.loc`` has an ``inlined_at``."""
        self.read_to = self.base
        """Up to where the text was searched for the begin and the end of inline assembly."""
        self.statement: Location | None = None
        """The location before the inline assembly that began last, if that has not ended."""
        self.unlocated: list[tuple[tuple[int, int, int], int, int]] = []
        self.variables: dict[str, Variable] = {}
        self.several = set[str]()
        """The names that several scopes declare for different variables."""

    def finish(self) -> Function:
        """The function, with all that was collected for it; what it has none of is shared with other functions."""
        function = self.function
        function.errors, self.own_errors = tuple(self.errors), len(self.errors)
        function.features = tuple(self.features)
        function.labels = self.labels or NOTHING
        function.locations = tuple(self.located)
        function.positions = self.locations.keys() or ()
        function.unlocated = tuple(self.unlocated)
        function.uses = list(self.uses.values())
        function.variables = self.variables or NOTHING
        return function

    # ------------------------------------------------------------ names

    def lookup(self, name: str) -> int | None:
        """The register called *name* in the current scope, or None."""
        register = self.scope.known.get(name)
        return register if register is not None else self._resolve(name)

    def _resolve(self, name: str) -> int | None:
        scope: BraceScope | None = self.scope
        prefix = name.rstrip("0123456789")
        digits = name[len(prefix) :]
        while scope is not None and name not in scope.absent:
            register = scope.known.get(name)
            if register is not None:
                break
            ranges = scope.ranges
            if ranges and digits:
                found = containing(ranges, prefix, digits) or split_name(ranges, name, len(prefix))
                if found is not None:
                    register = len(self.function.registers)
                    self.function.registers.append(Register(name, found[1]))
                    scope.known[name] = register
                    break
            scope = scope.parent
        else:
            register = self._unpadded(prefix, digits)
            if register is None:
                self.scope.absent.add(name)
                return None
        self.scope.known[name] = register
        return register

    def _unpadded(self, prefix: str, digits: str) -> int | None:
        """The register of a range whose number is written with zeros before it, which ptxas ignores; None if there is
        none."""
        scope: BraceScope | None = self.scope if digits[:1] == "0" and len(digits) > 1 else None
        while scope is not None and prefix not in scope.ranges:
            scope = scope.parent
        return None if scope is None else self.lookup(prefix + (digits.lstrip("0") or "0"))

    def declare(self, text: str, start: int, end: int) -> None:
        """Add the names of a variable declaration: registers to the scope, everything else to the function."""
        self.scope.last = end - self.base
        if message := misaligned(text):
            self.trouble("alignment", start, end, message)
        for space, kind, name, count, variable in declared(text):
            if space in ("reg", "sreg"):
                length = variable.size // (size_of(kind) or 1)
                if count >> 63:  # ptxas reads it as negative, and takes its lower half without a check
                    count &= _MOST_REGISTERS
                if count > _MOST_REGISTERS:
                    self.trouble("overflow", start, end, f"the size of {quoted(name)} has more than 32 bits")
                if count:
                    self.claim_range(name, count, start, end)
                    self.scope.ranges[name] = (count, kind)
                    self.scope.absent.clear()
                    self.longest = max(self.longest, count)
                    if count <= self.plenty and length > 1:
                        for number in range(count):
                            self.declare_register(f"{name}{number}", kind, length)
                    elif count <= self.plenty:
                        self.fill(name, count, kind)
                elif self.taken(name):
                    self.trouble(
                        "duplicate-register",
                        start,
                        end,
                        f"register {quoted(name)} is declared twice in one scope",
                    )
                else:
                    self.scope.variables.add(name)
                    self.scope.absent.discard(name)
                    self.declare_register(name, kind, length)
            else:
                variable = self.own(variable)
                if name != "_":
                    self.claim(name, start, end)
                if self.variables.setdefault(variable.name, variable) != variable:
                    self.function.redeclared |= {name}

    def own(self, variable: Variable) -> Variable:
        """*variable*, which the current scope declares, under a name of its own if another scope declares that name.

        Each declaration is a variable of its own (5.4.1), and ptxas gives each its own memory. Parameters of calls keep
        their name: those of each call are declared beside it.
        """
        name, known = variable.name, self.variables.get(variable.name)
        if known is None or name in self.scope.variables or known.space == variable.space == ".param":
            return variable
        number = 2
        while f"{name}#{number}" in self.variables:
            number += 1
        self.scope.apart[name] = f"{name}#{number}"
        self.several.add(name)
        return variable._replace(name=self.scope.apart[name])

    def visible(self, name: str) -> str:
        """The name that the function has for the variable called *name* in the current scope."""
        scope: BraceScope | None = self.scope if name in self.several else None
        while scope is not None and name not in scope.apart and name not in scope.variables:
            scope = scope.parent
        return name if scope is None else scope.apart.get(name, name)

    def declare_register(self, name: str, kind: str, length: int) -> None:
        """Add a register and, if it is a vector, its elements as registers of their own (5.4.2)."""
        register = len(self.function.registers)
        self.scope.known[name] = register
        self.function.registers.append(Register(name, kind))
        if length < 2:
            return
        elements = range(register + 1, register + 1 + length)
        self.vectors[register] = Vector(tuple(elements))
        for names in ("xyzw", "rgba"):
            self.scope.known.update(
                (f"{name}.{letter}", n) for letter, n in zip(names, elements, strict=False)
            )
        self.function.registers.extend(Register(f"{name}.{letter}", kind) for letter in "xyzw"[:length])

    def taken(self, name: str, scope: BraceScope | None = None) -> bool:
        """Whether *scope*, by default the current one, declares *name*, by itself or as an element of a range (5.4.1)."""
        scope, prefix = scope or self.scope, name.rstrip("0123456789")
        return name in scope.variables or bool(containing(scope.ranges, prefix, name[len(prefix) :]))

    def claim(self, name: str, start: int, end: int) -> None:
        """Record that the current scope declares *name*, which is an error the second time (5.4.1)."""
        if self.taken(name):
            self.trouble("duplicate-name", start, end, f"{quoted(name)} is declared twice in one scope")
        self.scope.variables.add(name)

    def claim_range(self, name: str, count: int, start: int, end: int) -> None:
        """Record that the current scope declares *count* registers, an error if one of them exists: it names the first of
        these. If element 0 exists, ptxas accepts the range, whatever else exists."""
        variables = self.scope.variables
        if f"{name}<" in variables:
            again = [name]
        elif f"{name}0" in variables:
            again = []
        elif count <= len(variables):
            again = [f"{name}{number}" for number in range(1, count) if f"{name}{number}" in variables]
        else:
            others = (other[len(name) :] for other in variables if other.startswith(name))
            numbers = sorted(int(digits) for digits in others if _NUMBER.fullmatch(digits))
            again = [f"{name}{number}" for number in numbers if number < count]
        if again:
            self.trouble("duplicate-name", start, end, f"{quoted(again[0])} is declared twice in one scope")
        variables.add(f"{name}<")

    def fill(self, prefix: str, count: int, kind: str) -> None:
        """Create all registers of a range, which is cheaper than on first use: compilers use all that they declare."""
        registers = self.function.registers
        known = self.scope.known
        make = _range if count <= _FEW_REGISTERS else _range.__wrapped__
        names, fresh = make(prefix, count, kind)
        if not known.keys().isdisjoint(names):
            fresh = tuple(register for register in fresh if register.name not in known)
            names = tuple(register.name for register in fresh)
        known.update(zip(names, range(len(registers), len(registers) + len(fresh)), strict=True))
        registers.extend(fresh)

    def trouble(self, kind: str, start: int, end: int, message: str) -> None:
        self.errors.append(BuildError(kind, start - self.base, end - self.base, message))

    # ------------------------------------------------------------ statements

    def block(self, node: Node) -> None:
        """Build the statements of a function body, nested scopes included, without recursion."""
        stack: list[tuple[Iterator[Node], int]] = [(iter(node.named_children), node.end_byte)]
        instructions = self.function.instructions
        while stack:
            child = next(stack[-1][0], None)
            if child is None:
                _, end = stack.pop()
                self.close()
                self.scope_starts.append((end - self.base, self.scope))
                continue
            kind = child.type
            if kind == "instruction":
                self.instruction(child.start_byte, child.end_byte)
            elif kind == "loc_directive":
                self.location(child)
            elif kind == "variable_declaration":
                self.declare(self.text[child.start_byte : child.end_byte], child.start_byte, child.end_byte)
                self.note("variable", child.start_byte, child.end_byte)
            elif kind == "label":
                name = self.text[child.start_byte : child.end_byte - 1].strip()
                self.label(name, child.start_byte, child.end_byte)
                self.scope.labels[name] = len(instructions)
                self.labels.setdefault(len(instructions), name)
            elif kind == "block":
                self.scope = BraceScope(self.scope)
                self.scope_starts.append((child.start_byte + 1 - self.base, self.scope))
                stack.append((iter(child.named_children), child.end_byte))
            elif kind == "branch_targets":
                self.branch_targets(child)
            elif kind in ("ERROR", "unclosed"):
                self.function.damaged = True
            elif kind == "directive":
                self.misspelt_directive(child)
            elif kind == "function":
                prototype = _head(
                    child, self.text, self.function.version, self.function.target, self.isa, self.outer
                )
                start, end = child.start_byte - self.base, child.end_byte - self.base
                self.prototypes.append(replace(prototype.finish(), start=start, end=end, declared_only=True))
            elif kind == "target_directive":
                self.target(child)
            elif kind in FEATURED:
                self.note(FEATURED[kind], child.start_byte, child.end_byte)
                if (label := child.child_by_field_name("label")) is not None:
                    name = self.text[label.start_byte : label.end_byte]
                    self.list_label(name, child.start_byte, child.end_byte)

    def branch_targets(self, node: Node) -> None:
        """Read a table of labels, of which a part may be a range: ``prefix<count>``."""
        match = _TABLE.match(clean(self.text[node.start_byte : node.end_byte]))
        if match is None:
            return
        self.list_label(match[1], node.start_byte, node.end_byte)
        names: list[str] = []
        for name, count in _RANGED.findall(match[2]):
            if count:
                # The function has at most as many labels as colons; one more name is enough for an error.
                self.max_labels = self.max_labels or self.text.count(":", self.base, self.function.end) + 1
                names += [f"{name}{i}" for i in range(min(integer(count), self.max_labels))]
            else:
                names.append(name)
        self.scope.tables[match[1]] = names
        self.tables.append((node.start_byte, node.end_byte))
        self.jump(self.scope, -len(self.tables), [name for name in names if name != match[1]])

    def target(self, node: Node) -> None:
        """Check a ``.target`` between statements, which ptxas accepts: it may name targets below that of the module."""
        if not any(map(Target.parse, targets_of(self.text[node.start_byte : node.end_byte]))):
            self.trouble("misplaced", node.start_byte, node.end_byte, ".target names no target")

    def label(self, name: str, start: int, end: int) -> None:
        """Check that the current scope declares no other thing called *name*.

        An element of a range of registers does not count unless a branch names it (:meth:`close`), as for ptxas.
        """
        if name in self.scope.labels or name in self.scope.variables:
            self.trouble("duplicate-label", start, end, f"label {quoted(name)} is defined twice in one scope")
        if name in SPECIAL_REGISTERS:
            self.constants.pop(name, None)

    def hides(self, name: str) -> bool:
        """Whether a label that precedes hides the special register *name*."""
        scope: BraceScope | None = self.scope
        while scope is not None and name not in scope.labels:
            scope = scope.parent
        return scope is not None

    def list_label(self, name: str, start: int, end: int) -> None:
        """Add the label of a list of targets or of a prototype, to which no branch goes, to the current scope."""
        self.label(name, start, end)
        self.scope.variables.add(name)

    def note(self, kind: str, start: int, end: int) -> None:
        """Record the features of a statement of *kind*."""
        note(self.features, kind, self.text, (start, end), self.function.version, self.base)

    def close(self) -> None:
        """Leave the current scope: resolve the branches to its labels, and pass the others to the enclosing scope."""
        scope, parent = self.scope, self.scope.parent
        for name, at in scope.labels.items():
            branches = scope.pending.pop(name, ())
            for index, slot in branches:
                self.targets[index][slot] = at
            if branches and scope.ranges and self.taken(name):
                self.report("duplicate-label", branches[0][0], f"label {quoted(name)} is a register too")
        if parent is not None:
            # The smaller collection is merged into the larger one, so that deep nesting stays linear.
            small, large = sorted((scope.pending, parent.pending), key=len)
            for name, waiting in small.items():
                few, many = sorted((waiting, large.get(name, [])), key=len)
                many += few
                large[name] = many
            parent.pending = large
            self.scope = parent
            return
        instructions = self.function.instructions
        for index, targets in self.targets.items():
            if index >= 0:
                instructions[index].targets = tuple(targets)
        missing = sorted((*where, name) for name, waiting in scope.pending.items() for where in waiting)
        self.unresolved = [(index, name) for index, _, name in missing if index >= 0]
        of_branches = {name for _, name in self.unresolved}
        for index, _, name in missing:
            if index < 0 and name not in of_branches:  # a list is reported where a branch uses it
                self.report("undefined-label", index, f"label {quoted(name)} is not defined")

    def misspelt_directive(self, node: Node) -> None:
        if message := misspelt_directive(self.text[node.start_byte : node.end_byte]):
            self.trouble("misplaced", node.start_byte, node.end_byte, message)

    def report(self, kind: str, index: int, message: str) -> None:
        """Report an error about what :meth:`jump` calls *index*."""
        if index < 0:
            self.trouble(kind, *self.tables[-index - 1], message)
            return
        instruction = self.function.instructions[index]
        self.errors.append(BuildError(kind, instruction.start, instruction.end, message))

    def jump(self, scope: BraceScope, index: int, names: list[str]) -> None:
        """Record that the targets of the branch at *index* are the labels *names*, to be resolved in *scope*; -1 and so
        on are the lists of targets, in order."""
        self.targets[index] = [-1] * len(names)
        for slot, name in enumerate(names):
            scope.pending.setdefault(name, []).append((index, slot))

    def location(self, node: Node) -> None:
        found = positions(self.text[node.start_byte : node.end_byte])
        if found is None:
            return
        # The position of the call is that of an earlier .loc, which may be inlined itself (11.5.4).
        position, call = found
        inlined = (
            (self.locations.get(call) or Location(*call)) if call is not None and call != position else None
        )
        self.head = self.head or position
        if call is not None and not self.inlines:
            self.inlines = True
            span = node.start_byte - self.base, node.end_byte - self.base
            self.features.append(FeatureUse(feature("inlined_at"), *span))
        if call is not None and self._is_head(call, position):
            inlined = None
        if call is not None and call not in self.locations:
            span = node.start_byte - self.base, node.end_byte - self.base
            self.unlocated.append((call, *span))
        self.locations[position] = location = Location(*position, inlined)
        location = self._of_statement(location, node.start_byte)
        at = len(self.function.instructions)
        if self.located and self.located[-1][0] == at:
            self.located[-1] = (at, location)
        else:
            self.located.append((at, location))

    def _is_head(self, call: tuple[int, int, int], position: tuple[int, int, int]) -> bool:
        """Whether the position after an ``inlined_at`` is that of the head of the function in the same file.

        Triton gives it to the partitions of a kernel that specialises its warps.
        """
        file, line, column = call
        return self.head is not None and (file, line) == self.head[:2] and column <= 1 and file == position[0]

    def _of_statement(self, location: Location, at: int) -> Location:
        """The *location* of the ``.loc`` at *at*, or if it is in the text of inline assembly, that of the ``asm`` statement.

        There, LLVM counts the lines of the assembly and adds them to the line of the statement, as if the source had them.
        """
        begin, end = (
            self.text.rfind(mark, self.read_to, at) for mark in ("// begin inline asm", "// end inline asm")
        )
        self.read_to = at
        if begin != end:
            self.statement = self.located[-1][1] if begin > end and self.located else None
        statement = self.statement
        if statement is None or location != statement._replace(line=location.line, below=0):
            return location
        below = location.line - statement.line
        return statement._replace(below=below) if below >= 0 else location

    def instruction(self, start: int, end: int) -> None:
        text = self.text[start:end]
        if ("/" in text and ("//" in text or "/*" in text)) or "#" in text:
            text = clean(text)
        if text[-1:] != ";":  # a missing semicolon is reported as a syntax error
            text += ";"
        found = self._split(text, start, end)
        if found is None:
            return
        guard_name, opcode, parts = found
        negated = False
        if guard_name and guard_name[0] == "!":
            guard_name, negated = guard_name[1:], True
        known = self.scope.known
        guard = -1
        if guard_name:
            register = known.get(guard_name)
            guard = self._guard(guard_name) if register is None else register
        operands: list[Any] = [*map(known.get, parts)]
        if None in operands:
            key = ""
            constants = self.constants
            for at, operand in enumerate(operands):
                if operand is None:
                    part = parts[at]
                    operands[at], kind = constants.get(part) or self.operand(part)
                    key += kind
                else:
                    key += "r,"
        else:
            key = "r," * len(parts)
        if self.vectors:
            key = self.with_vectors(key, operands)
        use = self.uses.get((opcode, key))
        if use is None:
            opcode = intern(opcode)  # one text for all instructions of a module
            use = self.uses[opcode, key] = FormUse(opcode, *_meaning(self.isa, opcode, key))
        if "e," in key and use.match is not None and not use.match.problem:
            operands = _addresses(operands, use.match)
        reads: tuple[Any, ...]  # registers, according to the kinds in the key
        writes: tuple[Any, ...]
        if use.scalar:
            reads = use.pick_reads(operands)
            writes = use.pick_writes(operands)
        else:
            reads = self._collect(operands, use.reads)
            writes = self._collect(operands, use.writes)
        index = len(self.instructions)
        use.sites.append(index)
        instruction = Instruction(
            use.opcode, use.match, guard, negated, tuple(operands), reads, writes, start - self.base, end - self.base
        )  # fmt: skip
        self.instructions.append(instruction)
        if use.flow:
            self.flow(index, instruction)
        if self.named:
            self.named = False
            self.symbols(instruction)
        if self.overflow or self.unreadable:
            self._report_operands(start, end)

    def _report_operands(self, start: int, end: int) -> None:
        """Report what is wrong with the operands of the instruction that was built last."""
        if self.overflow:
            self.trouble("overflow", start, end, self.overflow)
        if self.unreadable:
            self.trouble("unreadable", start, end, self.unreadable)
        self.overflow = self.unreadable = ""

    def _split(self, text: str, start: int, end: int) -> tuple[str, str, list[str]] | None:
        """The guard, opcode and operands of an instruction; None, with an error, if it is unreadable.

        Most instructions are words and commas, for which splitting is faster than any pattern. Others take the slow path.
        """
        guard_name = ""
        if "{" in text or "(" in text or "|" in text or text.find("!", 2) > 0:
            parts = []
        else:
            parts = text[:-1].replace(",", " ").split()
            if len(parts) > 1 and parts[0][0] == "@" and len(parts[0]) > 1:
                guard_name = parts[0][1:]
                del parts[0]
            # If the number of operands does not match the commas, an operand contained blanks, or followed the opcode with
            # none before it (`mov.u32%r1`). An address may contain commas, too.
            if (len(parts) > 1 and len(parts) - 2 != text.count(",")) or (
                "[" in text and _SEVERAL_PARTS.search(text)
            ):
                parts, guard_name = [], ""
        # A separate @ or !, and blanks before the dots of an opcode, need the pattern too.
        if parts and guard_name != "!" and parts[0][0] != "@" and (len(parts) < 2 or parts[1][0] not in ".:"):
            opcode = parts[0]
            del parts[0]
            return guard_name, opcode, parts
        return self._split_by_patterns(text, start, end)

    def _guard(self, name: str) -> int:
        """The register of a guard that no instruction in this scope has named so far; -1: it is not declared."""
        register = self.lookup(name)
        if register is None:
            register = self.predicate(name)
        if register is None:
            self.names.append((len(self.instructions), name, True))
            return -1
        return register

    def predicate(self, name: str) -> int | None:
        """A register without a definition for the special register *name*, which guards an instruction; None if it is not a
        predicate."""
        special = SPECIAL_REGISTERS.get(name)
        if special is None or special.type != ".pred":
            return None
        self.scope.known[name] = register = len(self.function.registers)
        self.function.registers.append(Register(name, special.type))
        return register

    def _split_by_patterns(self, text: str, start: int, end: int) -> tuple[str, str, list[str]] | None:
        """The guard, opcode and operands of an instruction of any form; None, with an error, if it is unreadable."""
        head = HEAD.match(text)
        if head is None:  # the name of a register in the position of an opcode
            self.function.damaged = True
            self.trouble("unreadable", start, end, f"no instruction in {quoted(text)}")
            return None
        bang, name, opcode = head.groups()
        rest = _BLANKS_BEFORE_SELECTOR.sub("", text[head.end() :]).rstrip().removesuffix(";").rstrip()
        return f"{bang}{name}" if name else "", "".join(opcode.split()), split_operands(rest)

    def operand(self, text: str) -> tuple[Operand, str]:
        """An operand whose spelling is not a known register, and its kind as :func:`_meaning` reads it."""
        first = text[:1]
        if first == "%":
            register = self._resolve(text)
            if register is not None:
                return register, "r,"
        elif first == "[":
            base, _, offset = text[1:-1].partition("+")
            register = self.scope.known.get(base)
            if register is not None and (
                not offset or (offset.isdigit() and offset[0] != "0" and len(offset) < 19)
            ):
                return Memory(register, int(offset) if offset else 0), "m,"
        elif first == "{" and text[-1] == "}":
            items: list[Any] = [self.scope.known.get(name.strip()) for name in text[1:-1].split(",")]
            if None not in items:
                return Vector(tuple(items)), f"v{len(items)},"
        elif text[-1:] == "]" and (match := _ELEMENT.match(text)):
            self.named = True
            return self._element(match[1], match[2]), "e,"
        operand = parse_operand(text, self.lookup)
        if isinstance(operand, int):
            return operand, "r,"
        if isinstance(operand, Special) and self.hides(operand.name):
            operand = Symbol(operand.name)
        if isinstance(operand, Immediate):
            self.overflow = _out_of_range(text, operand) or self.overflow
        if isinstance(operand, Special):
            vector = SPECIAL_REGISTERS[operand.name].type.startswith(".v4")
            made: tuple[Operand, str] = operand, "v4," if vector else "S,"
        else:
            made = operand, shape(operand) + ","
        if isinstance(operand, Immediate | Special):
            self.constants[text] = made
        else:
            self.named = self.named or next(symbols((operand,)), None) is not None
        return made

    def _element(self, array: str, index: str) -> Symbol:
        """The address of an element of an array. ptxas counts elements of its type: those of ``.v4 .u32`` have 4 bytes,
        and so have those of ``.u32`` in all dimensions but the first. An index that is no constant is not supported."""
        self.elements = True
        parameters = {parameter.name: parameter for parameter in self.function.parameters}
        variable = self.variables.get(self.visible(array)) or parameters.get(array) or self.outer.get(array)
        number = parse_operand(index, self.lookup)
        if isinstance(number, Immediate) and isinstance(number.value, int):
            return Symbol(array, number.value * (width_of(variable.type) // 8 if variable is not None else 1))
        self.function.damaged = True
        self.unreadable = f"{quoted(f'{array}[{index}]')}: an index that is not a constant is not supported"
        return Symbol(array)

    def with_vectors(self, key: str, operands: list[Any]) -> str:
        """*key* with the kind of registers declared as vectors replaced by a vector, as in *operands* themselves."""
        kinds = key.split(",")
        for at, operand in enumerate(operands):
            if isinstance(operand, int) and operand in self.vectors:
                operands[at] = vector = self.vectors[operand]
                kinds[at] = f"v{len(vector.items)}"
        return ",".join(kinds)

    @staticmethod
    def _collect(operands: list[Operand], indices: tuple[int, ...]) -> tuple[int, ...]:
        found: list[int] = []
        for index in indices:
            operand = operands[index]
            if isinstance(operand, int):
                found.append(operand)
            elif isinstance(operand, Memory) and not operand.extras and isinstance(operand.base, int):
                found.append(operand.base)
            elif isinstance(operand, Vector):
                for item in operand.items:
                    if isinstance(item, int):
                        found.append(item)
                    else:
                        found.extend(registers(item))
            elif not isinstance(operand, Immediate):
                found.extend(registers(operand))
        return tuple(found)

    def flow(self, index: int, instruction: Instruction) -> None:
        flow = instruction.flow
        operands = instruction.operands
        if flow == "branch" and operands and isinstance(operands[-1], Symbol):
            self.jump(self.scope, index, [operands[-1].name])
        elif flow == "branch-table" and operands and isinstance(operands[-1], Symbol):
            name = operands[-1].name
            scope: BraceScope | None = self.scope
            while scope is not None and name not in scope.tables:
                scope = scope.parent
            # The names in a table are resolved in the scope of the table.
            owner = scope or self.scope
            self.jump(owner, index, owner.tables.get(name, [name]))

    def symbols(self, instruction: Instruction) -> None:
        """Give variables their own names (:meth:`own`), and record the names that are not registers, to be resolved in the
        module; branch targets are resolved in ``close``."""
        if self.several and instruction.flow not in ("branch", "branch-table"):
            names = {name: self.visible(name) for name in symbols(instruction.operands)}
            instruction.operands = tuple(renamed(operand, names) for operand in instruction.operands)
        if instruction.flow == "call" and instruction.callee:
            self.names.append((len(self.instructions) - 1, instruction.callee, False))
        if instruction.flow in ("branch", "branch-table", "call"):
            return
        for name in symbols(instruction.operands):
            self.names.append((len(self.instructions) - 1, name, False))


def _addresses(operands: list[Any], match: Match) -> list[Any]:
    """*operands* with each element of an array, where the instruction has an address, as that address."""
    styles = [slot.style for slot in match.syntax.operands]
    return [
        Memory(o) if isinstance(o, Symbol) and style == "memory" else o
        for o, style in zip(operands, styles, strict=False)
    ]


def make_function(
    node: Node, text: str, module: Module, isa: Table
) -> tuple[Function, FunctionBuilder | None]:
    """The function of a syntax node, and its builder if it has a body. Names are not resolved in the module yet."""
    builder = _head(node, text, module.version or (0, 0), module.target, isa, module.variables)
    body = node.child_by_field_name("body")
    if body is None:
        builder.function.declared_only = True
        return builder.finish(), None
    builder.block(body)
    return builder.finish(), builder


def _head(
    node: Node, text: str, version: Version, target: Target | None, isa: Table, outer: Mapping[str, Variable]
) -> FunctionBuilder:
    """The builder of the function of a syntax node, which has read all that precedes the body."""
    name_node = node.child_by_field_name("name")
    kind_node = node.child_by_field_name("kind")
    function = Function(
        name=text[name_node.start_byte : name_node.end_byte] if name_node else "?",
        entry=bool(kind_node and kind_node.type == ".entry"),
        start=node.start_byte,
        end=node.end_byte,
        version=version,
        target=target,
        damaged=node.has_error,
    )
    builder = FunctionBuilder(function, text, isa, outer)
    role = "entry" if function.entry else "func"
    if kind_node is not None and kind_node.start_byte > node.start_byte:
        builder.note(role, node.start_byte, kind_node.start_byte)
    formals: list[tuple[Variable, ...]] = []
    parameters: list[Variable] = []
    open_ended = False
    for field_name in ("returns", "parameters"):
        some: list[Variable] = []
        listed = node.child_by_field_name(field_name)
        for child in listed.named_children if listed else ():
            if child.type == "parameter":
                declaration = text[child.start_byte : child.end_byte]
                open_ended |= declaration.endswith("]") and not declaration[:-1].rstrip()[-1:].isalnum()
                builder.declare(declaration, child.start_byte, child.end_byte)
                builder.note(f"{role}-parameter", child.start_byte, child.end_byte)
                found = [variable for *_, variable in declared(declaration)]
                some += found or [Variable("", "", 1, 0)]
                parameters += [variable for variable in found if variable.space == ".param"]
        formals.append(tuple(some))
    function.parameters = tuple(parameters)
    function.formals = None if open_ended else (formals[0], formals[1]) if any(formals) else _NO_FORMALS
    directives: dict[str, tuple[int, ...]] = {}
    stated: list[Directive] = []
    for child in node.named_children:
        if child.type == "performance_directive":
            name, *rest = ((c.type, text[c.start_byte : c.end_byte]) for c in child.named_children)
            numbers = tuple(integer(word) for kind, word in rest if kind == "integer")
            directives[name[1]] = numbers
            start, end = child.start_byte - node.start_byte, child.end_byte - node.start_byte
            stated.append(Directive(name[1], numbers, start, end))
            function.noreturn |= name[1] == ".noreturn"
        elif child.type == "pragma_directive":
            builder.note("head-pragma", child.start_byte, child.end_byte)
        elif child.type == "attribute":
            builder.note(role, child.start_byte, child.end_byte)
    function.directives, function.stated = directives or NOTHING, tuple(stated)
    return builder


@lru_cache(maxsize=1024)
def _range(prefix: str, count: int, kind: str) -> tuple[tuple[str, ...], tuple[Register, ...]]:
    """The names of a range, and its registers; many functions of a module declare the same ones."""
    names = tuple(f"{prefix}{number}" for number in range(count))
    return names, tuple(map(Register, names, repeat(kind)))


@lru_cache(maxsize=8192)
def _meaning(
    isa: Table, opcode: str, key: str
) -> tuple[Match | None, tuple[int, ...], tuple[int, ...], bool, bool]:
    """The fields of the :class:`FormUse` of an opcode over operands of the kinds in *key*."""
    shapes = key.replace("S", "r").split(",")[:-1]
    match = isa.match(opcode, tuple(shapes))
    every = tuple(range(len(shapes)))
    if match is None or match.problem:
        reads = writes = every  # an unknown instruction may read and write all its operands
    elif match.syntax.open:
        reads, writes = every, ()
    else:
        reads, writes = match.reads, match.writes
    kinds = key.split(",")[:-1]
    scalar = all(k in ("r", "S", "i", "f", "s", "_") for k in kinds)
    if scalar:
        reads = tuple(i for i in reads if kinds[i] == "r")
        writes = tuple(i for i in writes if kinds[i] == "r")
    return match, reads, writes, scalar, bool(match and match.form.flow)


def _out_of_range(text: str, operand: Immediate) -> str:
    """Why the assembler rejects the constant *text*, which is *operand*; empty if it accepts it."""
    if isinstance(operand.value, float):
        return "a constant is not a normal number of double precision" if abnormal(text) else ""
    digits = text.lstrip("-+~")  # of which there may be several, and no digit
    too_long = len(digits) > 18 and digits.isalnum() and overflows(digits)
    return "a constant has more than 64 bits" if too_long else ""
