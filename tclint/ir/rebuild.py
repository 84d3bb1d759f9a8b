"""Incremental building: the module of an edited text reuses what the edit left unchanged.

A function whose text is the same is reused as a whole. In an edited function, only the statements around each change are
rebuilt if nothing else depends on them; if a change involves labels, tables of branches, calls, declarations or blocks,
the whole function is rebuilt. The result always equals the module that :func:`tclint.ir.build.build` builds from scratch;
only the instructions may be older objects with moved spans.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING

from tclint._named_tuple import NamedTuple
from tclint.ir.build import build
from tclint.ir.declarations import positions
from tclint.ir.functions import FunctionBuilder, make_function
from tclint.ir.nodes import NOTHING, FormUse, Function, Instruction, Module, Operand, Symbol
from tclint.ir.scopes import BraceScope
from tclint.isa.table import Table
from tclint.syntax import TextChange, Tree, parse, reparse

if TYPE_CHECKING:
    from tclint.syntax import Node

__all__ = ["Builds", "same_program"]

MAX_WINDOW_EXTENSIONS = 4
"""Attempts to extend the edited part to whole statements; if it still grows, the function is rebuilt."""
FEW_INSTRUCTIONS = 32
"""A function with fewer is rebuilt after any edit, and keeps no builder, which takes more memory than it does."""
_ONE_WORD = frozenset(("label", "loc_directive", "comment"))
"""Statements that no word precedes."""
_ENDS = frozenset(" \t\r\n;{}:")
"""The last characters of what may precede a statement."""
_ELSEWHERE = frozenset(("branch-table", "call"))
"""Control flow that other statements and other functions describe; if it is edited, the function is rebuilt."""


class Builds:
    """Builds the modules of successive states of one text.

    Without *edited*, another state is not expected to follow: the syntax tree, of twenty times the memory of the text, and
    what small functions were built with are not kept. They are made again if one does, and kept from then on.
    """

    def __init__(self, *, edited: bool = True) -> None:
        self._edited = edited
        self._data = b""
        self._built: tuple[Tree | None, Module] | None = None
        self._made: dict[int, tuple[Function, FunctionBuilder, bool]] = {}
        """Start of a function with a body -> the function, its builder, and whether it has syntax errors."""
        self._left: dict[int, tuple[Function, FunctionBuilder, bool]] = {}
        """The functions that an edit last took away, or had built anew, as they were before, for when it is undone."""
        self._sound: tuple[Tree, bytes] | None = None
        """The last state without syntax errors, if the current one has some."""

    def build(self, data: bytes) -> tuple[Tree, Module]:
        """The syntax tree and the module of the next state of the text."""
        if self._built is not None and data == self._data:
            tree, module = self._built
            return tree or parse(data), module
        before, self._made = self._made, {}
        built, self._built = (
            self._built,
            None,
        )  # reparse modifies the old tree, so it is lost if anything raises
        if built is None:
            tree = parse(data)
            module = build(tree, data, make=self._fresh)
        else:
            self._edited = True  # more states may follow this one
            changes = TextChange.all_between(self._data, data)
            old = built[0] or parse(self._data)
            if not old.root_node.has_error:
                self._sound = old.copy(), self._data
            tree, ranges = reparse(old, self._data, data, changes, self._sound)
            if not tree.root_node.has_error:
                self._sound = None
            step = _Step(before, self._left, old, tree, _windows(changes, ranges), self._fresh)
            module = build(tree, data, make=lambda *about: self._note(about[0], *step.make(*about)))
            step.end()
        self._data, self._built = data, (tree if self._edited else None, module)
        return tree, module

    def _fresh(
        self, node: Node, text: str, module: Module, isa: Table
    ) -> tuple[Function, FunctionBuilder | None]:
        function, builder = make_function(node, text, module, isa)
        if builder is not None and len(function.instructions) < FEW_INSTRUCTIONS:
            _release(builder)
            if not self._edited:
                return function, builder
        return self._note(node, function, builder)

    def _note(
        self, node: Node, function: Function, builder: FunctionBuilder | None
    ) -> tuple[Function, FunctionBuilder | None]:
        if builder is not None:
            self._made[function.start] = function, builder, node.has_error
            if self._edited and function.answers is None:
                function.answers = {}
        return function, builder


class _Window(NamedTuple):
    """A part of the text outside of which the edit changes nothing but positions."""

    low: int
    high: int
    before: int
    """The number of bytes by which the text before it moved."""
    changes: list[TextChange]

    @property
    def delta(self) -> int:
        """The number of bytes by which the text after it moved in addition."""
        return sum(change.delta for change in self.changes)


def _windows(changes: list[TextChange], ranges: list[tuple[int, int]]) -> list[_Window]:
    """The windows at *ranges* of the new text, each of which contains at least one of *changes*, which they share."""
    found, before = [], 0
    for low, high in ranges:
        window = _Window(low, high, before, [c for c in changes if low <= c.start <= high])
        before += window.delta
        found.append(window)
    return found


class _Step:
    """The transition from one state of the text to the next."""

    def __init__(
        self,
        before: dict[int, tuple[Function, FunctionBuilder, bool]],
        left: dict[int, tuple[Function, FunctionBuilder, bool]],
        old: Tree,
        new: Tree,
        windows: list[_Window],
        fresh: Callable[[Node, str, Module, Table], tuple[Function, FunctionBuilder | None]],
    ) -> None:
        self.before = before
        self.left = left
        self.old = old
        self.new = new
        self.windows = windows
        self.fresh = fresh

    def make(
        self, node: Node, text: str, module: Module, isa: Table
    ) -> tuple[Function, FunctionBuilder | None]:
        """The function of *node*, reused from the earlier state if possible."""
        start, end = node.start_byte, node.end_byte
        passed = [w for w in self.windows if w.high < start]
        edited = [w for w in self.windows[len(passed) :] if w.low <= end]
        moved, delta = sum(w.delta for w in passed), sum(w.delta for w in edited)
        header = module.version or (0, 0), module.target
        made = self.before.get(start - moved)
        # The declaration of an array of the module decides where its elements are.
        if made is not None and ((made[0].version, made[0].target) != header or made[1].elements):
            made = None
        if made is not None and not edited:
            function, builder, broken = made
            if end - start == function.end - function.start and not broken and not node.has_error:
                del self.before[start - moved]
                return _again(function, builder, text, node)
            return self.fresh(node, text, module, isa)
        if (known := self.left.get(start)) is not None and not node.has_error:
            function, builder, _ = known
            same = builder.text[start : function.end] == text[start:end]
            if same and (function.version, function.target) == header and not builder.elements:
                del self.left[start]
                return _again(function, builder, text, node)
        if made is None:
            return self.fresh(node, text, module, isa)
        function, builder, broken = made
        if (
            start < edited[0].low
            and edited[-1].high < end
            and end - start == function.end - function.start + delta
            and function.damaged == broken
            and len(function.instructions) >= FEW_INSTRUCTIONS
            and (parts := self._parts(edited, function, builder)) is not None
        ):
            saved = _Saved.of(builder)
            new = _edited(function, builder, text, start, parts)
            if new is not None and not builder.elements:
                new.damaged = node.has_error
                del self.before[start - moved]
                return new, builder
            saved.restore(builder)
        return self.fresh(node, text, module, isa)

    def end(self) -> None:
        """Note the functions of the earlier state that none of this one was made of, and that have no errors."""
        left = {start: made for start, made in self.before.items() if not made[2]}
        if left:
            self.left.clear()
            self.left.update(left)

    def _cut(self, child: Node, window: _Window, function: Function, text: str) -> bool:
        """Whether the edit may have deleted the beginning of a node of the old tree: what is left has the same extent as a
        node that begins after the edit. *text* is the old one."""
        before = window.before
        for change in window.changes:
            old_end = change.old_end - before
            before += change.delta
            if not (child.start_byte == change.start == change.new_end < change.old_end):
                continue
            if child.type == "instruction":
                old, at = function.instructions, old_end - function.start
                index = bisect_left(old, at, key=lambda i: i.start)
                return index == len(old) or old[index].start != at
            if child.type == "}":  # nothing is left of one that was deleted
                return False
            return child.type not in _ONE_WORD or text[old_end - 1] not in _ENDS
        return False

    def _parts(
        self, windows: list[_Window], function: Function, builder: FunctionBuilder
    ) -> list[_Part] | None:
        """What *windows* change in a *function*; None if one contains anything but instructions and comments, before or
        after the edit, or if no instruction is between two."""
        parts: list[_Part] = []
        instructions = function.instructions
        for window in windows:
            found = self._statements(window, function, builder)
            if found is None:
                return None
            low, high, nodes = found
            before = function.start + window.before
            low, high = low - before, high - before - window.delta
            first = bisect_left(instructions, low, key=lambda i: i.start)
            end = bisect_left(instructions, high, lo=first, key=lambda i: i.start)
            if parts and (low <= parts[-1].high or first <= parts[-1].end):
                return None
            parts.append(_Part(low, high, window.delta, first, end, nodes))
        return parts

    def _statements(
        self, window: _Window, function: Function, builder: FunctionBuilder
    ) -> tuple[int, int, list[Node]] | None:
        """The byte range of the whole statements around *window*, and the instructions in it after the edit.

        None if the range contains anything but instructions and comments, before or after the edit.
        """
        low, high = window.low, window.high
        for _ in range(MAX_WINDOW_EXTENSIONS):
            around: list[list[Node]] = []
            blocks = [_block(tree.root_node, low, high) for tree in (self.old, self.new)]
            for block in blocks:
                if block is None or (block.start_byte, block.end_byte) != (
                    blocks[0] and (blocks[0].start_byte, blocks[0].end_byte)
                ):
                    return None
                around.append(list(_touched(block, low, high)))
            # A node that only touches the edit, both before and after it, has the same text.
            whole = (c for c in around[0] if not self._cut(c, window, function, builder.text))
            beside = {_extent(c) for c in whole} & {_extent(c) for c in around[1]}
            beside = {extent for extent in beside if extent[2] <= low or extent[1] >= high}
            around = [[child for child in found if _extent(child) not in beside] for found in around]
            every = [child for found in around for child in found]
            if any(child.type not in ("instruction", "comment", "ERROR") for child in every):
                return None
            if any(child.type == "comment" and b"inline asm" in (child.text or b"") for child in every):
                return None  # it decides the locations of what follows
            grown = min([low, *(c.start_byte for c in every)]), max([high, *(c.end_byte for c in every)])
            if grown == (low, high):
                return low, high, [c for c in around[1] if c.type == "instruction"]
            low, high = grown
        return None


class _Saved(NamedTuple):
    """What the instructions of an edit change in a builder, for where the function is then built anew."""

    function: Function
    text: str
    base: int
    registers: int
    """The number of registers."""
    names: list[tuple[int, str, bool]]
    unresolved: list[tuple[int, str]]
    uses: dict[tuple[str, str], tuple[FormUse, list[int]]]
    labels: list[tuple[BraceScope, dict[str, int]]]

    @classmethod
    def of(cls, builder: FunctionBuilder) -> _Saved:
        function = builder.function
        uses = {key: (use, use.sites[:]) for key, use in builder.uses.items()}
        labels = [(scope, scope.labels) for scope in _scopes(builder)]
        registers, names, unresolved = len(function.registers), builder.names[:], builder.unresolved[:]
        return cls(function, builder.text, builder.base, registers, names, unresolved, uses, labels)

    def restore(self, builder: FunctionBuilder) -> None:
        function = builder.function = self.function
        builder.text, builder.base, builder.instructions = self.text, self.base, function.instructions
        builder.names, builder.unresolved = self.names, self.unresolved
        builder.uses = {key: use for key, (use, _) in self.uses.items()}
        for use, sites in self.uses.values():
            use.sites = sites
        fresh = {register.name for register in function.registers[self.registers :]}
        del function.registers[self.registers :]
        for scope, labels in self.labels:
            scope.labels = labels
            for name in fresh:
                if scope.known.get(name, -1) >= self.registers:
                    del scope.known[name]
        builder.named, builder.overflow = False, ""


def _release(builder: FunctionBuilder) -> None:
    """Drop all but what a module asks of a function that is reused as a whole: its names, prototypes and errors."""
    del builder.scope, builder.scope_starts, builder.uses, builder.vectors, builder.constants
    del builder.targets, builder.tables


def _scopes(builder: FunctionBuilder) -> list[BraceScope]:
    """All scopes of a function, in the order of the text."""
    return list(dict.fromkeys(scope for _, scope in builder.scope_starts))


def _again(
    function: Function, builder: FunctionBuilder, text: str, node: Node
) -> tuple[Function, FunctionBuilder]:
    """The *function* with its *builder* where its *text* is now."""
    builder.text, builder.base = text, node.start_byte
    errors = function.errors[: builder.own_errors]
    return replace(function, start=node.start_byte, end=node.end_byte, errors=errors), builder


def _block(root: Node, low: int, high: int) -> Node | None:
    """The innermost block that starts before *low* and ends after *high*; None if there is none."""
    node = root.descendant_for_byte_range(max(low - 1, 0), high + 1)
    while node is not None and not (node.type == "block" and node.start_byte < low and high < node.end_byte):
        node = node.parent
    return node


def _extent(node: Node) -> tuple[str, int, int]:
    return node.type, node.start_byte, node.end_byte


def _touched(block: Node, low: int, high: int) -> Iterator[Node]:
    """The children of a block that overlap or touch the bytes from *low* to *high*."""
    cursor = block.walk()
    if cursor.goto_first_child_for_byte(max(low - 1, 0)) is None:
        return
    while True:
        node = cursor.node
        assert node is not None
        if node.start_byte > high:
            return
        if node.end_byte >= low:
            yield node
        if not cursor.goto_next_sibling():
            return


class _Part(NamedTuple):
    """The statements of a function that an edit replaces in one place, whose offsets and numbers are those before it."""

    low: int
    high: int
    delta: int
    """The number of bytes by which the text after it moves in addition."""
    first: int
    end: int
    nodes: list[Node]
    """The instructions after the edit that take the place of those from *first* to *end*."""

    @property
    def shift(self) -> int:
        """The number by which the numbers of the instructions after it grow."""
        return len(self.nodes) - (self.end - self.first)


def _edited(
    function: Function, builder: FunctionBuilder, text: str, start: int, parts: list[_Part]
) -> Function | None:
    """The function at *start* with the statements of *parts* rebuilt; None if more than these may change."""
    if builder.own_errors or builder.prototypes or (builder.unresolved and builder.tables):
        return None
    instructions = function.instructions
    innermost: list[BraceScope] = []
    for part in parts:
        if any(i.flow in _ELSEWHERE for i in instructions[part.first : part.end]):
            return None
        at = bisect_right(builder.scope_starts, part.low, key=lambda pair: pair[0]) - 1
        scope: BraceScope | None = builder.scope_starts[at][1]
        innermost.append(builder.scope_starts[at][1])
        while scope is not None:
            if scope.last > part.low:
                return None
            scope = scope.parent
    length = function.end - function.start + sum(part.delta for part in parts)
    if builder.longest > min(builder.plenty, length // 8):
        return None

    # From here on the builder is modified. If this returns None, the caller restores it.
    moves = _Moves(parts)
    new = _moved(function, start, length, moves)
    kept = instructions[:]
    if any(part.shift for part in parts) and not _renumber(new, builder, text, kept, moves):
        return None
    for use in builder.uses.values():
        use.sites[:] = moves.sites(use.sites)
    builder.names = [(at, name, guard) for i, name, guard in builder.names if (at := moves.site(i)) >= 0]
    builder.unresolved = [(at, name) for i, name in builder.unresolved if (at := moves.site(i)) >= 0]
    builder.function, builder.instructions, builder.text, builder.base = new, new.instructions, text, start
    builder.plenty, builder.errors = length // 8, []
    known, done = len(new.registers), 0
    for part, scope in zip(parts, innermost, strict=True):
        new.instructions += kept[done : part.first]
        done, begin = part.end, len(new.instructions)
        builder.scope = scope
        for node in part.nodes:
            builder.instruction(node.start_byte, node.end_byte)
        fresh = new.instructions[begin:]
        if builder.errors or new.damaged or len(new.registers) != known or len(fresh) != len(part.nodes):
            return None
        for at, instruction in enumerate(fresh, begin):
            flow = instruction.flow
            if flow in _ELSEWHERE or (flow and not _branched(builder, at, instruction)):
                return None
    new.instructions += kept[done:]
    builder.names.sort(key=lambda found: found[0])
    builder.unresolved.sort(key=lambda found: found[0])
    for use in builder.uses.values():
        use.sites.sort()
    new.uses = sorted((use for use in builder.uses.values() if use.sites), key=lambda use: use.sites[0])
    _move_rest(builder, kept, moves)
    return new


class _Moves:
    """Where *parts* move what is at an offset, or at the number of an instruction, of a function."""

    def __init__(self, parts: list[_Part]) -> None:
        self.parts = parts
        self.firsts = [part.first for part in parts]
        self.ends = [part.end for part in parts]
        self.highs = [part.high for part in parts]
        self.deltas = [0, *accumulate(part.delta for part in parts)]
        self.shifts = [0, *accumulate(part.shift for part in parts)]

    def by(self, offset: int) -> int:
        """The number of bytes by which what begins at *offset*, outside of the parts, moves."""
        return self.deltas[bisect_right(self.highs, offset)]

    def site(self, site: int) -> int:
        """The new number of an instruction; -1 if it is replaced."""
        passed = bisect_right(self.ends, site)
        replaced = passed < len(self.parts) and self.firsts[passed] <= site
        return -1 if replaced else site + self.shifts[passed]

    def sites(self, sites: list[int]) -> list[int]:
        """The new numbers of those of *sites* that are kept."""
        found: list[int] = []
        begin = 0
        for part, shift in zip(self.parts, self.shifts, strict=False):
            if begin == len(sites):
                break
            end = bisect_left(sites, part.first, lo=begin)
            found += [site + shift for site in sites[begin:end]]
            begin = bisect_left(sites, part.end, lo=end)
        shift = self.shifts[-1]
        return found + [site + shift for site in sites[begin:]]

    def number(self, number: int, follows: bool) -> int:
        """The new number of what precedes an instruction, and *follows* what is inserted before that."""
        passed = bisect_left(self.firsts, number)
        if follows and passed < len(self.parts) and self.firsts[passed] == number == self.ends[passed]:
            passed += 1
        return number + self.shifts[passed]


def _moved(function: Function, start: int, length: int, moves: _Moves) -> Function:
    """A copy of a function, without instructions, at *start* and of a new *length*."""
    by = moves.by
    return replace(
        function,
        start=start,
        end=start + length,
        instructions=[],
        features=tuple(
            use._replace(start=use.start + by(use.start), end=use.end + by(use.start))
            for use in function.features
        ),
        unlocated=tuple((call, at + by(at), end + by(at)) for call, at, end in function.unlocated),
        errors=(),
        damaged=False,
    )


def _move_rest(builder: FunctionBuilder, kept: list[Instruction], moves: _Moves) -> None:
    """Moves the instructions *kept* between and after the parts of an edit, and the scopes."""
    for part, following, delta in zip(
        moves.parts, [*(part.first for part in moves.parts[1:]), len(kept)], moves.deltas[1:], strict=True
    ):
        for instruction in kept[part.end : following] if delta else ():
            instruction.start += delta
            instruction.end += delta
    for scope in _scopes(builder):
        scope.last += moves.by(scope.last)
    builder.scope_starts = [(offset + moves.by(offset - 1), scope) for offset, scope in builder.scope_starts]


def _branched(builder: FunctionBuilder, site: int, instruction: Instruction) -> bool:
    """Resolve the target of a new *instruction* of the current scope, all of which are complete; False if no label is
    certain to be it."""
    builder.targets.clear()
    builder.scope.pending.clear()
    if instruction.flow != "branch":
        return True
    operand = instruction.operands[-1] if instruction.operands else None
    if not isinstance(operand, Symbol):
        return False
    scope: BraceScope | None = builder.scope
    while scope is not None:
        if (at := scope.labels.get(operand.name)) is not None:
            instruction.targets = (at,)
            return not scope.ranges or not builder.taken(operand.name, scope)
        scope = scope.parent
    instruction.targets = (-1,)
    builder.unresolved.append((site, operand.name))
    return True


def _renumber(
    new: Function, builder: FunctionBuilder, text: str, kept: list[Instruction], moves: _Moves
) -> bool:
    """Change the numbers of what precedes instructions, and of the targets of branches among those *kept*, where
    instructions are inserted or deleted; False if a number is not known.

    A label or location between two instructions is recorded by the number of the second one. If statements are only
    inserted between the two, what surrounds them in *text* decides where it is.
    """
    marked = {number for number, _ in new.locations}.union(*(s.labels.values() for s in _scopes(builder)))
    betweens: dict[int, _Between] = {}
    """Number of the instruction before which others are inserted -> what is there already."""
    for part in moves.parts:
        if part.shift and part.first == part.end and part.first in marked:
            found = _Between.around(part.nodes, text)
            if found is None:
                return False
            betweens[part.first] = found
    nothing = _Between([], [], False)

    labels: dict[int, str] = {}
    for number, name in new.labels.items():
        at, between = moves.number(number, False), betweens.get(number)
        if between is None:
            labels.setdefault(at, name)
        else:
            labels |= {at: name} if between.labels else {}
            labels |= {moves.number(number, True): between.following[0]} if between.following else {}
    new.labels = labels or NOTHING
    new.locations = tuple(
        (moves.number(number, betweens.get(number, nothing).located), location)
        for number, location in new.locations
    )
    for scope in _scopes(builder):
        scope.labels = {
            name: moves.number(number, name in betweens.get(number, nothing).following)
            for name, number in scope.labels.items()
        }
    for use in builder.uses.values():
        # A branch is copied, because an earlier state may still be compared with this one.
        for site in use.sites if use.flow else ():
            branch, targets = kept[site], []
            for target in branch.targets:
                between = betweens.get(target, nothing)
                follows = bool(between.following)
                if follows and between.labels:
                    if use.match is None or use.match.form.flow != "branch":
                        return False
                    operand = branch.operands[-1]
                    follows = isinstance(operand, Symbol) and operand.name in between.following
                targets.append(moves.number(target, follows))
            if tuple(targets) != branch.targets:
                kept[site] = _with_targets(branch, tuple(targets))
    return True


class _Between(NamedTuple):
    """What is between two instructions, before and after the statements that are inserted there."""

    labels: list[str]
    following: list[str]
    """The labels after the insertion."""
    located: bool
    """Whether there is a location after them."""

    @classmethod
    def around(cls, nodes: list[Node], text: str) -> _Between | None:
        """What is around *nodes*, the inserted statements of *text*; None if that is not certain."""
        before, after = _statements_to(nodes[0], forward=False), _statements_to(nodes[-1], forward=True)
        if before is None or after is None:
            return None
        labels, following = (
            [text[n.start_byte : n.end_byte - 1].strip() for n in found if n.type == "label"]
            for found in (before, after)
        )
        if not set(labels).isdisjoint(following):
            return None  # labels of two scopes
        located = [
            any(n.type == "loc_directive" and positions(text[n.start_byte : n.end_byte]) for n in statements)
            for statements in (before, after)
        ]
        if all(located):
            return None  # what the first one was inlined into depends on the locations before it
        return cls(labels, following, located[1])


def _statements_to(node: Node, forward: bool) -> list[Node] | None:
    """The statements between *node* and the next instruction of the function, *forward* or backward, in the order of the
    text, whatever blocks begin or end there; None if there is a syntax error."""
    found: list[Node] = []
    here: Node | None = node
    while here is not None:
        beside = here.next_named_sibling if forward else here.prev_named_sibling
        while beside is not None and beside.type == "block" and beside.named_child_count:
            beside = beside.named_children[0 if forward else -1]
        if beside is None:
            here = here.parent
            if here is None or here.type != "block":
                break
        elif beside.type == "instruction":
            break
        elif beside.type in ("ERROR", "unclosed"):
            return None
        else:
            here = beside
            found.append(here)
    return found if forward else found[::-1]


def _with_targets(branch: Instruction, targets: tuple[int, ...]) -> Instruction:
    copy = Instruction(
        branch.opcode, branch.match, branch.guard, branch.negated, branch.operands, branch.reads, branch.writes,
        branch.start, branch.end,
    )  # fmt: skip
    copy.targets = targets
    return copy


_FIELDS = (
    "name",
    "entry",
    "target",
    "version",
    "registers",
    "variables",
    "parameters",
    "directives",
    "noreturn",
)


def same_program(one: Function, other: Function) -> bool:
    """Whether two functions are equal except for positions in the text and ``.loc`` locations."""
    if len(one.instructions) != len(other.instructions) or one.labels != other.labels:
        return False
    if any(getattr(one, name) != getattr(other, name) for name in _FIELDS):
        return False
    if [t.kind for t in one.errors] != [t.kind for t in other.errors] or one.damaged != other.damaged:
        return False
    pairs = zip(one.instructions, other.instructions, strict=True)
    return all(a is b or _same_instruction(a, b) for a, b in pairs)


def _same_instruction(a: Instruction, b: Instruction) -> bool:
    return (
        a.match is b.match
        and a.opcode == b.opcode
        and (a.guard, a.negated) == (b.guard, b.negated)
        and _identical(a.operands, b.operands)
        and (a.reads, a.writes, a.targets) == (b.reads, b.writes, b.targets)
    )


def _identical(a: tuple[Operand, ...], b: tuple[Operand, ...]) -> bool:
    """Equality that also distinguishes operands that compare equal as tuples: their kinds, 1 and 1.0, 0.0 and -0.0."""
    return a == b and (all(type(item) is int for item in a) or repr(a) == repr(b))
