"""From the syntax tree of a module to its functions and variables.

:mod:`tclint.ir.functions` builds each function; here the names that it does not declare are resolved in the module.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from tclint._pattern import pattern
from tclint.ir.declarations import declared, misaligned, misspelt_directive, targets_of
from tclint.ir.features import FEATURED, note
from tclint.ir.functions import FunctionBuilder, make_function
from tclint.ir.nodes import BuildError, FeatureUse, Function, Module, Symbol
from tclint.ir.operands import clean, integer, quoted
from tclint.ir.scopes import ranges_in, too_small
from tclint.isa.callees import needs_no_declaration
from tclint.isa.features import feature
from tclint.isa.special_registers import SPECIAL_REGISTERS
from tclint.isa.table import Table, table
from tclint.isa.target import parse_version

if TYPE_CHECKING:
    from tclint.syntax import Node, Tree

__all__ = ["build"]

_FILE = pattern(r'\.file\s+(\d{1,18})\s+"([^"]*)"')
_SECTION_LABEL = pattern(r"^[ \t]*([A-Za-z_$%][\w$]*)[ \t]*(:?)", re.MULTILINE)
_EXPECTS_NAME = pattern(r"(?:\.\w+|[,+-])\s*\Z")
"""What a name follows that is a value and no label."""
_NEAR = 200
"""How much text before a name is searched for it."""
_OF_MODULE = FEATURED | {
    "variable_declaration": "module-variable",
    "loc_directive": "module-loc",
    "pragma_directive": "module-pragma",
}
"""Node type -> the kind of statement whose features it has outside functions."""
Make = Callable[["Node", str, Module, Table], tuple[Function, FunctionBuilder | None]]
"""Builds the function of a syntax node from the text, the module header before it, and the ISA table."""


class _Header:
    """Checks the order of the directives at the start of a module (11.1), and that nothing is defined twice."""

    _EXTRAS = frozenset(("comment", "unterminated_comment", "preprocessor"))
    _ORDER = ("version_directive", "target_directive", "address_size_directive")
    _POSITIONS = ("at the start of the module", "right after .version", "right after .target")

    def __init__(self, module: Module) -> None:
        self.module = module
        self.items = 0
        self.begins = True
        """Whether nothing but these directives has come."""
        self.last = ""
        self.defined: set[str] = set()

    def take(self, kind: str, start: int, end: int) -> None:
        """Check the next item of the module."""
        if kind in self._EXTRAS or kind == self.last == "target_directive":  # ptxas uses the last of several
            return
        self.last = kind
        position = self._ORDER.index(kind) if kind in self._ORDER else -1
        if self.begins and position > self.items:
            self.items = position  # those before it are missing, which is reported once
        self.begins &= position >= 0
        if position >= 0 and position != self.items:
            name = kind.removesuffix("_directive")
            message = f".{name} must appear exactly once, {self._POSITIONS[position]}"
            self.module.errors.append(BuildError("misplaced", start, end, message))
        self.items += 1

    def define(self, name: str, start: int, end: int) -> None:
        """Check the next definition: a function with a body, or a variable that is not external."""
        if name in self.defined or name in SPECIAL_REGISTERS:
            message = f"{quoted(name)} is {'defined twice' if name in self.defined else 'a special register'}"
            self.module.errors.append(BuildError("duplicate-name", start, end, message))
        self.defined.add(name)


def _one_by_one(nodes: list[Node]) -> Iterator[Node]:
    """*nodes* in their order. Each keeps the descendants that were asked for, and is released before the next."""
    nodes.reverse()
    while nodes:
        yield nodes.pop()


def build(tree: Tree, data: bytes, isa: Table | None = None, make: Make | None = None) -> Module:
    """The module of a syntax tree over *data*.

    Never raises for a broken tree: functions with syntax errors are marked (:attr:`Function.damaged`), and undefined
    names and the like are listed (:attr:`Function.errors`). *make* builds the functions; :mod:`tclint.ir.rebuild` passes
    one that reuses those of an earlier state.
    """
    # One character per byte, so that byte offsets index the text; names are ASCII (4.4). SUB is a blank, as in the grammar.
    building = _Building(data.decode("latin-1").replace("\x1a", " "), isa or table(), make or make_function)
    for node in _one_by_one(tree.root_node.named_children):
        building.add(node)
    return building.finished()


class _Building:
    """The module that is built so far."""

    def __init__(self, text: str, isa: Table, make: Make) -> None:
        self.text, self.isa, self.make = text, isa, make
        self.module = Module()
        self.header = _Header(self.module)
        self.pending: list[tuple[FunctionBuilder, Function]] = []
        """The functions with undefined labels, with names that the module may declare, or with labels that it may declare
        too."""
        self.first: dict[str, int] = {}
        """Offset of the first declaration of each function and variable."""
        self.aliases: list[Node] = []
        self.labels: set[str] = set()
        """Those of the sections."""
        self.adrift = False
        """Whether a syntax error may have put the statements of a function at module scope."""

    def add(self, node: Node) -> None:
        """Build the next item."""
        kind, start, end = node.type, node.start_byte, node.end_byte
        module, text = self.module, self.text
        self.header.take(kind, start, end)
        self.adrift = kind != "function" and (self.adrift or node.has_error)
        if kind == "function":
            self._function(node)
        elif kind == "variable_declaration":
            self._variables(start, end)
        elif kind == "directive":
            module.sections |= text.startswith("@@", start)
            if message := misspelt_directive(text[start:end]):
                module.errors.append(BuildError("misplaced", start, end, message))
        elif kind == "version_directive":
            try:
                module.version = parse_version(clean(text[start:end]).split()[1])
            except (ValueError, IndexError):
                module.version = None
            module.version_span = (start, end)
        elif kind == "target_directive":
            module.targets += targets_of(text[start:end])
            module.target_span = (start, end)
        elif kind == "address_size_directive":
            digits = re.search(r"\d+", text[start:end])
            module.address_size = integer(digits[0]) if digits else 0
        elif kind == "file_directive":
            match = _FILE.match(text, start, end)
            if match:
                module.files[int(match[1])] = match[2]
        elif kind == "section_directive":
            module.sections = True
            self._section(start, end)
        elif kind == "alias_directive":
            self.aliases.append(node)
        if kind in _OF_MODULE and not self.adrift:
            note(module.features, _OF_MODULE[kind], text, (start, end), module.version)

    def _section(self, start: int, end: int) -> None:
        """Check the labels of a section (11.5.2), which are unique in all sections."""
        for label in _SECTION_LABEL.finditer(self.text, start, end):
            name, at = label[1], (label.start(1), label.end(1))
            if not label[2]:
                if not _EXPECTS_NAME.search(self.text, max(start, label.start() - _NEAR), label.start()):
                    message = f"expected `:` after label {quoted(name)}"
                    self.module.errors.append(BuildError("misplaced", *at, message))
            elif name in self.labels:
                message = f"label {quoted(name)} is defined twice in the sections"
                self.module.errors.append(BuildError("duplicate-label", *at, message))
            self.labels.add(name)

    def _function(self, node: Node) -> None:
        """Build a function, and the prototypes in its body."""
        start, module = node.start_byte, self.module
        function, builder = self.make(node, self.text, module, self.isa)
        if not function.declared_only:
            self.header.define(function.name, start, node.end_byte)
        self.first.setdefault(function.name, start)
        module.functions.append(function)
        if builder is not None:
            if builder.names or builder.unresolved or function.labels:
                self.pending.append((builder, function))
            for inner in builder.prototypes:
                module.prototypes.append(replace(inner, start=start + inner.start, end=start + inner.end))
                self.first.setdefault(inner.name, start + inner.start)

    def _variables(self, start: int, end: int) -> None:
        """Add the variables of a declaration."""
        module, declaration = self.module, self.text[start:end]
        if message := misaligned(declaration):
            module.errors.append(BuildError("alignment", start, end, message))
        external = ".extern" in declaration
        for _, _, name, _, variable in declared(declaration):
            if not external:
                self.header.define(name, start, end)
            self.first.setdefault(name, start)
            module.variables[name] = variable
            if variable.initial:
                from tclint.ir.initial_values import faults  # few modules have one

                for fault in faults(variable, module, self.first):
                    module.features.append(FeatureUse(feature(fault), start, end))

    def finished(self) -> Module:
        """The module, with the names resolved that its functions do not declare."""
        module = self.module
        names = {f.name for f in module.declared} | set(module.variables)
        for builder, function in self.pending:
            _report_undeclared(builder, function, names, self.first)
        for node in self.aliases:
            named = (_name(node, field, self.text) for field in ("name", "aliasee"))
            if message := _not_aliased(module, *named):
                module.errors.append(BuildError("misplaced", node.start_byte, node.end_byte, message))
        return module


def _name(node: Node, field: str, text: str) -> str:
    """The name in a field of *node*; empty if a syntax error took it away."""
    named = node.child_by_field_name(field)
    return text[named.start_byte : named.end_byte] if named is not None else ""


def _not_aliased(module: Module, alias: str, aliasee: str) -> str:
    """Why *alias*, a declared function, cannot stand for *aliasee*, a defined one (11.6.5); empty if it can."""
    functions = {function.name: function for function in module.declared}
    functions |= {function.name: function for function in module.functions if not function.declared_only}
    for name in (alias, aliasee):
        if name not in functions:
            return f".alias: function {quoted(name)} is not declared"
        if functions[name].entry:
            return f".alias: {quoted(name)} is a kernel, and only functions have an alias"
    if functions[aliasee].declared_only:
        return f".alias: {quoted(aliasee)} is only declared here, and an alias is of a defined function"
    if not functions[alias].declared_only:
        return f".alias: {quoted(alias)} is defined as a function"
    return ""


def _report_undeclared(
    builder: FunctionBuilder, function: Function, names: AbstractSet[str], first: Mapping[str, int]
) -> None:
    """Report the labels and names in a function that neither it nor the module declares, or that the module declares
    later.

    *names* are those of the module, and *first* has the offset of the first declaration of each.
    """
    errors: list[BuildError] = []
    for index, label in builder.unresolved:
        ins, known = function.instructions[index], function.labels.values()
        message = f"label {quoted(label)} is not defined{_similar(label, known)}"
        errors.append(BuildError("undefined-label", ins.start, ins.end, message))
    own = function.variables.keys() | {p.name for p in function.parameters}
    labels = set(function.labels.values())
    if clashing := labels & names:
        errors += _shadowed(function, clashing, first)
    uses: dict[str, dict[int, None]] = {}
    guards: set[str] = set()
    for index, name, guard in builder.names:
        if guard:
            guards.add(name)
        if guard or name not in own:
            uses.setdefault(name, {})[index] = None
    ranges: Mapping[str, list[re.Match[str]]] | None = None
    for name, sites in uses.items():
        ins = function.instructions[next(iter(sites))]
        count = None
        if name in guards or not (name in labels or name in names):
            if not name or (name == ins.callee and needs_no_declaration(name)):
                continue
            if name in guards or name[0].isalpha() or name[0] in "%_$":
                if ranges is None:
                    ranges = ranges_in(builder.text[function.start : function.end])
                count = too_small(ranges, name)
                message = _unended(builder.text[function.start + ins.start : function.start + ins.end], name)
                message = message or _undeclared(function, name, ranges, guard=name in guards)
            else:
                message = f"{quoted(name)} is neither a name nor a constant"
        elif name in labels:
            if ins.match is None:  # what it takes is not known
                continue
            message = f"label {quoted(name)} is not an operand of this instruction"
        elif first.get(name, 0) > function.start + ins.start:
            message = f"{quoted(name)} is declared only after its first use"
        else:
            continue
        kind = "undefined-guard" if name in guards else "undefined-register"
        errors.append(BuildError(kind, ins.start, ins.end, message, count, tuple(sites)))
    function.errors = (*function.errors, *errors)


_NAME = pattern(r"[\w$%]+(?:\.\w+)?")
_BASE = pattern(r"[\w$%]*")
_MINUS = pattern(r"(%[\w$]+)-(\d+)")
_DIGITS = pattern(r"\d+")
_MAX_DIGITS = 9
"""Digits of the number of a register."""
_TWICE = pattern(r"([a-z])\1+")


def _unended(statement: str, name: str) -> str:
    """That the *statement* lacks its semicolon, if its operand *name* is the instruction in the next line; else empty."""
    before, newline, last = statement.rpartition("\n")
    if not newline or last.strip("; \t\r") != name or name not in table().forms:
        return ""
    return f"expected ; after {quoted(clean(before.strip()))}"


def _undeclared(
    function: Function, name: str, ranges: Mapping[str, list[re.Match[str]]], *, guard: bool
) -> str:
    """What is wrong with *name*, which nothing declares: it may be misspelt, or an expression. *ranges* are those of
    registers, by their names."""
    if not guard and not _NAME.fullmatch(name):
        found = _BASE.match(name)
        base = found[0] if found else ""
        if minus := _MINUS.fullmatch(name):
            return f"{quoted(name)} is not an operand: a constant is added, as in {minus[1]}+-{minus[2]}"
        if all(register.name != base for register in function.registers):
            return f"{quoted(name)} is neither a name nor a constant"
        if name.endswith("]") and name[len(base)].isspace():
            return f"{quoted(name)} is not an operand: a comma is missing after {base}, which is not an array"
        if name.endswith("]"):
            return f"{quoted(name)} is not an operand: {base} is a register, not an array"
        return f"{quoted(name)} is not an operand: only constants can be computed with"
    word = "register" if guard or name.startswith("%") else "name"
    if meant := _declared_alike(function, name, ranges):
        return f"{word} {quoted(name)} is not declared; did you mean {meant}?"
    known = (*SPECIAL_REGISTERS, *function.variables, *(p.name for p in function.parameters))
    return f"{word} {quoted(name)} is not declared{_similar(name, known)}"


def _declared_alike(function: Function, name: str, ranges: Mapping[str, list[re.Match[str]]]) -> str:
    """A declared register that differs from *name* in what is easily missed (:func:`_plain`); empty if there is none."""
    digits = name[len(name.rstrip("0123456789")) :]
    number = int(digits) if 0 < len(digits) <= _MAX_DIGITS and digits == str(int(digits)) else None
    larger = (
        p for p, found in ranges.items() if any(number is not None and number < integer(m[2]) for m in found)
    )
    alike = chain(
        (register.name for register in function.registers), (f"{prefix}{digits}" for prefix in larger)
    )
    plain, end = _plain(name), name[-1:].lower()
    return next(
        (one for one in alike if one[-1:].lower() == end and one != name and _plain(one) == plain), ""
    )


def _plain(name: str) -> str:
    """*name* without what is easily missed: the sigil, the case of letters, a letter twice."""
    return _TWICE.sub(r"\1", name.lstrip("%$_").lower())


def _similar(name: str, known: Iterable[str]) -> str:
    """``; did you mean %tid.x?`` if a *known* name is close to *name*; else empty. Names that differ in numbers alone
    are different names."""
    from tclint.isa.refusals import nearest_words  # few modules need it

    if name[-1:].isdigit():  # a register or a parameter with a number, of which others are no misspelling
        return ""
    kind = _DIGITS.sub("0", name)
    near = nearest_words(name, (other for other in known if _DIGITS.sub("0", other) != kind))
    return f"; did you mean {near[0]}?" if near else ""


def _shadowed(function: Function, labels: AbstractSet[str], first: Mapping[str, int]) -> Iterator[BuildError]:
    """The errors of branches to one of *labels* that follows them, if the module declares the name before: ptxas then
    takes the name for the variable or the function."""
    for index, ins in enumerate(function.instructions):
        operand = ins.operands[-1] if ins.targets and ins.operands else None
        if not isinstance(operand, Symbol) or operand.name not in labels or ins.targets[0] <= index:
            continue
        if (
            function.labels.get(ins.targets[0]) == operand.name
            and first.get(operand.name, 0) < function.start
        ):
            message = f"{quoted(operand.name)} is not a label here: the module declares the name before"
            yield BuildError("undefined-label", ins.start, ins.end, message)
