"""The normal form, in which ``diff`` shows what two compilations do differently.

Registers and labels are numbered in the order of their text, each function for itself, and registers are declared where the
body begins. What only a debugger or a reader needs is left out: comments, line information and DWARF. ptxas makes the same code
of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

from tclint.findings.edits import joined
from tclint.findings.finding import Edit
from tclint.findings.spans import Span
from tclint.syntax import Node, Tree
from tclint.text.layout import checked, formatted
from tclint.text.names import Declaration, Use, nodes, resolved, span_of

__all__ = ["normal", "without_comments", "without_debug_data"]

_DEBUG = frozenset(
    "comment preprocessor loc_directive loc_intermediate_directive file_directive section_directive"
    " source_section_directive directive".split()
)
_PREFIXES = {
    b".pred": "%p",
    b".b8": "%rc",
    b".b16": "%rs",
    b".b32": "%r",
    b".b64": "%rd",
    b".b128": "%rq",
    b".f32": "%f",
    b".f64": "%fd",
}
"""The names that NVIDIA's compilers give to registers of a type; one of another type has the type in its name."""
_NAMES = {"label": "$L", "argument": "%a"}
_UNUSED = "$U"


def normal(data: bytes) -> bytes:
    """The normal form of a module, in the layout of :mod:`tclint.text.layout`. Raises SourceError for a syntax error."""
    data = without_debug_data(data)
    tree = checked(data)
    declarations, uses, others = resolved(tree, data)
    used = {use.declaration for use in uses}
    others |= {d.name for d in declarations if not _renamed(d)}
    registers = _Registers(uses, others)
    named = dict(_named(declarations, used, others))
    edits = [Edit(Span(d.start, d.end), name) for d, name in named.items()]
    edits += [Edit(Span(u.start, u.end), named[u.declaration]) for u in uses if u.declaration in named]
    edits += registers.edits(tree, uses)
    return formatted(joined(data, edits), blank_lines=False)


def without_debug_data(data: bytes) -> bytes:
    """*data* without comments, line information and DWARF. Raises SourceError for a syntax error."""
    tree = checked(data)
    edits = [Edit(span_of(node), " ") for node in _debug_data(tree)]
    for target in nodes(tree.root_node, ("target_directive",)):
        # ptxas refuses the option where there is no DWARF.
        words = [child for child in target.children if child.type in (",", "identifier")]
        for comma, word in zip(words[1::2], words[2::2], strict=True):
            if word.text == b"debug":
                edits += [Edit(span_of(comma), ""), Edit(span_of(word), "")]
    return joined(data, edits)


def without_comments(data: bytes) -> bytes:
    """*data* without comments. Raises SourceError for a syntax error."""
    comments = nodes(checked(data).root_node, ("comment", "preprocessor"))
    return joined(data, (Edit(span_of(node), " ") for node in comments))


def _debug_data(tree: Tree) -> Iterator[Node]:
    for node in nodes(tree.root_node, _DEBUG):
        # A directive that the grammar does not know may mean anything, except for DWARF before PTX 2.0.
        if node.type != "directive" or (node.text or b"").startswith(b"@@"):
            yield node


def _renamed(declared: Declaration) -> bool:
    """Whether the normal form has another name for it: not if it is visible outside of its function."""
    return declared.kind in _NAMES or (declared.kind == "register" and declared.function >= 0)


def _named(
    declarations: Iterable[Declaration], used: Collection[Declaration], others: set[str]
) -> Iterator[tuple[Declaration, str]]:
    """The labels and arguments with their new names.

    Labels that nothing refers to, those of DWARF, are counted for themselves. ptxas begins a basic block at each, so without
    them it may make other code.
    """
    free = {prefix: _free(prefix, others) for prefix in (*_NAMES.values(), _UNUSED)}
    count: defaultdict[tuple[int, str], int] = defaultdict(int)
    for declared in declarations:
        if prefix := _NAMES.get(declared.kind):
            if declared.kind == "label" and declared not in used:
                prefix = _UNUSED
            count[declared.function, prefix] += 1
            yield declared, f"{free[prefix]}{count[declared.function, prefix]}"


class _Registers:
    """The registers of all functions, with their new names."""

    def __init__(self, uses: Iterable[Use], others: set[str]) -> None:
        self.others = others
        self.prefixes: dict[bytes, str] = {}
        """Type -> how the names of its registers begin."""
        self.counts: defaultdict[int, dict[bytes, int]] = defaultdict(dict)
        """Function -> type -> how many registers of the type it uses."""
        self.names: dict[tuple[Declaration, int | None], str] = {}
        for use in uses:
            declared = use.declaration
            register = (declared, use.element)
            if declared.kind == "register" and _renamed(declared) and register not in self.names:
                self.names[register] = self._new(declared)

    def _new(self, declared: Declaration) -> str:
        type = declared.type
        if type not in self.prefixes:
            word = type.replace(b" ", b"").replace(b".", b"").decode()
            self.prefixes[type] = _free(_PREFIXES.get(type, f"%{word}_"), self.others)
        counts = self.counts[declared.function]
        counts[type] = counts.get(type, 0) + 1
        return f"{self.prefixes[type]}{counts[type]}"

    def edits(self, tree: Tree, uses: Iterable[Use]) -> Iterator[Edit]:
        """The edits that rename the registers, and declare them at the beginning of the bodies instead."""
        for use in uses:
            if (name := self.names.get((use.declaration, use.element))) is not None:
                yield Edit(Span(use.start, use.end), name)
        for function in tree.root_node.named_children:
            body = function.child_by_field_name("body") if function.type == "function" else None
            for node in nodes(body, ("variable_declaration",)) if body is not None else ():
                first = node.child(0)
                if first is not None and first.type == ".reg":
                    yield Edit(span_of(node), "")
            if body is not None:
                at = body.start_byte + 1
                yield Edit(Span(at, at), self._declared(self.counts[function.start_byte]))

    def _declared(self, counts: Mapping[bytes, int]) -> str:
        order = list(_PREFIXES)
        types = sorted(counts, key=lambda type: (order.index(type) if type in order else len(order), type))
        return "".join(f"\n.reg {t.decode()} {self.prefixes[t]}<{counts[t] + 1}>;" for t in types)


def _free(prefix: str, others: set[str]) -> str:
    """*prefix*, made longer until none of the *others* is called so with a number after it."""
    while any(name.startswith(prefix) and name[len(prefix) :].isdecimal() for name in others):
        prefix += "_"
    return prefix
