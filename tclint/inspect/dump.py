"""The result of each stage of the analysis as text or as a graph, for developers of tclint.

Each stage is a function ``stage(source, *, dot, entry) -> str``: ``tree``, ``ir``, ``cfg``, ``states``. *entry* names
the only function to show; the functions raise SourceError if there is none of that name. With *dot*, the result is one
graph in the language of Graphviz. Invalid input is shown as far as possible, after lines with the errors. Positions are
``line:column``, 1-based.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import singledispatch
from importlib import import_module
from typing import Any

from tclint import analyses
from tclint.analyses.groups import Depth, Groups, Waited, groups_of
from tclint.analyses.model import KernelModel
from tclint.analyses.tcgen05 import ISSUED, Tcgen05Operations
from tclint.analyses.tcgen05_collector import Collector
from tclint.analyses.tcgen05_sync import ThreadSync
from tclint.analyses.tmem_transfers import Transfers, TransferStatus
from tclint.analyses.wgmma_fences import WgmmaFences
from tclint.dataflow import Analysis, LimitExceeded, Results
from tclint.ir.cfg import Edge, call_graph
from tclint.ir.inline import inlinable, inline
from tclint.ir.nodes import (
    Function,
    Immediate,
    Instruction,
    Memory,
    Module,
    Negated,
    Not,
    Operand,
    OperandPair,
    Special,
    Symbol,
    Vector,
)
from tclint.isa.effects import GROUPED
from tclint.sync.operations import OPEN, OVERDUE
from tclint.syntax import Node, TreeCursor, parse, problems
from tclint.syntax.source import Source, SourceError

__all__ = ["analyses_of", "cfg", "describe", "ir", "states", "tree"]

TREE_NODES = 400
"""Nodes of a syntax tree in a graph, limited because Graphviz takes minutes for thousands."""
DEEPEST = 60
"""Levels of a syntax tree that are indented, limited so that the text stays linear in the size of the tree."""
ITEMS = 24
"""Members of a set that are listed in a state; the remaining ones are counted."""
QUOTE = 50
"""Characters of a leaf's text that are shown."""

Show = Callable[[Any], str]


# ---------------------------------------------------------------- tree


def tree(source: Source, *, dot: bool = False, entry: str | None = None) -> str:
    """The syntax tree: named nodes, their fields and positions, and the text of the leaves."""
    parsed = parse(source.data)
    root = parsed.root_node if entry is None else _function_node(source, parsed.root_node, entry)
    notes = [f"line {source.position(p.start_byte).line}: {p.message}" for p in problems(parsed)]
    return _tree_dot(source, root, notes) if dot else _lines(_notes(notes), _tree_text(source, root))


def _function_node(source: Source, root: Node, entry: str) -> Node:
    found: dict[str, Node] = {}
    for node in root.named_children:
        name = node.child_by_field_name("name") if node.type == "function" else None
        if name is not None:
            text = _text(source, name)
            if text not in found or node.child_by_field_name("body") is not None:
                found[text] = node
    if entry not in found:
        raise _unknown(entry, found)
    return found[entry]


def _visible(cursor: TreeCursor) -> Iterator[tuple[Node, str, int]]:
    """``(node, field, depth)`` of named nodes and missing tokens, parents first."""
    depth = 0
    while True:
        node = cursor.node
        assert node is not None
        if node.is_named or node.is_missing:
            yield node, cursor.field_name or "", depth
        if cursor.goto_first_child():
            depth += 1
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent() or depth == 1:
                return
            depth -= 1


def _tree_text(source: Source, root: Node) -> Iterator[str]:
    line, deepest = "", -1
    for node, field, depth in _visible(root.walk()):
        if line:
            yield line + ")" * (deepest - depth + 1)
        line = "  " * min(depth, DEEPEST) + (f"{field}: " if field else "") + _node(source, node)
        deepest = depth
    yield line + ")" * (deepest + 1)


def _node(source: Source, node: Node) -> str:
    """A node as text without its closing parenthesis."""
    start, end = source.position(node.start_byte), source.position(node.end_byte)
    span = f"[{start.line}:{start.column} - {end.line}:{end.column}]"
    if node.is_missing:
        return f"(MISSING {node.type} {span}"
    return f"({node.type} {span}" + ("" if node.named_child_count else f" {_quoted(_text(source, node))}")


def _tree_dot(source: Source, root: Node, notes: list[str]) -> str:
    graph = _Dot("tree", notes)
    parents: list[int] = []
    shown = total = 0
    for node, field, depth in _visible(root.walk()):
        total += 1
        if shown == TREE_NODES:
            continue
        del parents[depth:]
        graph.node(f"n{shown}", _node(source, node)[1:])
        if parents:
            graph.edge(f"n{parents[-1]}", f"n{shown}", field)
        parents += [shown] * (depth + 1 - len(parents))  # anonymous nodes are not in the graph
        shown += 1
    if total > shown:
        graph.node(
            "more", f"the first {shown} of {total} nodes; --entry shows one function", shape="plaintext"
        )
    return graph.text()


# ---------------------------------------------------------------- ir


def ir(source: Source, *, dot: bool = False, entry: str | None = None) -> str:
    """The instructions of every function as the later stages see them; with *dot*, the call graph."""
    module, functions, notes = _load(source, entry)
    if not dot:
        parts = [
            _lines([_header(source, function)], _ir_lines(source, module, function)) for function in functions
        ]
        return _lines(_notes(notes), ["\n".join(parts)])
    graph = _Dot("calls", notes)
    # The call graph of the whole module, even for one function, since its callers appear nowhere else.
    calls = call_graph(module.functions)
    bodies = {function.name for function in module.functions if not function.declared_only}
    entries = {function.name for function in module.functions if function.entry}
    names = list(calls) if entry is None else [n for n in calls if n == entry or _adjacent(calls, n, entry)]
    for name in names:
        style = "bold" if name in entries else "solid" if name in bodies else "dashed"
        graph.node(_name(name), "unknown function" if name == "?" else name, style=style)
    for caller, callee in calls.edges:
        if caller in names and callee in names:
            graph.edge(_name(caller), _name(callee))
    return graph.text()


def _adjacent(calls: Any, a: str, b: str) -> bool:
    return bool(calls.has_edge(a, b) or calls.has_edge(b, a))


def _ir_lines(source: Source, module: Module, function: Function) -> Iterator[str]:
    for space, variables in (("param", function.parameters), ("variable", function.variables.values())):
        for variable in variables:
            if space == "param" or variable.space != ".param":
                size = f"{variable.size} bytes" if variable.size else "size unspecified"
                yield f"  {variable.space} {variable.name}: {size}, aligned to {variable.align}"
    for trouble in function.errors:
        yield f"  line {source.position(function.start + trouble.start).line}: {trouble.message}"
    for i, instruction in enumerate(function.instructions):
        if i in function.labels:
            yield f"{function.labels[i]}:"
        yield f"{i:6}  {_instruction(function, instruction)}  ; " + " ; ".join(
            _facts(source, module, function, i, instruction)
        )


def _facts(
    source: Source, module: Module, function: Function, i: int, instruction: Instruction
) -> Iterator[str]:
    """The facts about one instruction: its form, registers, event, control flow and positions."""
    match = instruction.match
    if match is None:
        yield "NO FORM"
    elif match.problem:
        yield f"{match.form.name}: {match.problem}"
    else:
        yield match.form.name
    if instruction.reads:
        yield f"reads {_registers(function, instruction.reads)}"
    if instruction.writes:
        yield f"writes {_registers(function, instruction.writes)}"
    if instruction.event or instruction.group:
        yield " ".join(filter(None, (instruction.event, instruction.group)))
    if instruction.flow:
        targets = " ".join("?" if t < 0 else str(t) for t in instruction.targets)
        yield instruction.flow + (f" to {targets}" if targets else "")
    yield f"line {source.position(function.start + instruction.start).line}"
    location = function.location(i)
    if location is not None:
        while location.inlined_at is not None:
            location = location.inlined_at
        if (name := module.files.get(location.file)) is not None:
            yield f"{name.rpartition('/')[2]}:{location.line}"


def _instruction(function: Function, instruction: Instruction) -> str:
    operands = ", ".join(_operand(function, operand) for operand in instruction.operands)
    return f"{_guard(function, instruction)}{instruction.opcode} {operands}".rstrip()


def _guard(function: Function, instruction: Instruction) -> str:
    if instruction.guard < 0:
        return ""
    return f"@{'!' if instruction.negated else ''}{function.registers[instruction.guard].name} "


def _operand(function: Function, operand: Operand) -> str:
    if isinstance(operand, int):
        return function.registers[operand].name
    if isinstance(operand, Immediate):
        return str(operand.value)
    if isinstance(operand, Symbol):
        return operand.name + (f"{operand.offset:+}" if operand.offset else "")
    if isinstance(operand, Special):
        return operand.name
    if isinstance(operand, Not):
        return "!" + function.registers[operand.register].name
    if isinstance(operand, Negated):
        return "-" + function.registers[operand.register].name
    if isinstance(operand, Memory):
        base = _operand(function, operand.base) + (f"{operand.offset:+}" if operand.offset else "")
        return f"[{', '.join([base, *(_operand(function, extra) for extra in operand.extras)])}]"
    if isinstance(operand, Vector):
        return "{" + ", ".join(_operand(function, item) for item in operand.items) + "}"
    if isinstance(operand, OperandPair):
        return f"{_operand(function, operand.first)}|{_operand(function, operand.second)}"
    return "_"


# ---------------------------------------------------------------- cfg


def cfg(source: Source, *, dot: bool = False, entry: str | None = None) -> str:
    """The control-flow graph: blocks with the threads that reach them, edges with conditions, dominators and loops."""
    module, functions, notes = _load(source, entry)
    models = _models(module, functions)
    if dot:
        return _cfg_dot("cfg", source, models, notes, lambda model: lambda block: ())
    parts = [_lines([_header(source, f, model)], _cfg_lines(source, model)) for f, model in models]
    return _lines(_notes(notes), ["\n".join(parts)])


def _cfg_lines(source: Source, model: KernelModel) -> Iterator[str]:
    graph = model.cfg
    for b in range(len(graph.blocks)):
        facts = [_block(source, model, b), _reach(model, b)]
        if b in graph.rank:
            facts.append(f"dominated by B{graph.idom[b]}" if b else "the entry")
            after = graph.ipdom.get(b, -1)
            facts.append("post-dominated by " + (f"B{after}" if after >= 0 else "the end"))
        if b in model.reachability.dispatchers:
            facts.append("dispatches roles")
        yield "  " + "; ".join(facts)
        for edge in graph.successors[b]:
            condition = _condition(model.function, edge)
            yield f"      -> B{edge.target}" + (f" if {condition}" if condition else "")
        if b in graph.exits:
            yield "      -> leaves the function"
    for header, body in sorted(graph.loops.items()):
        yield f"  loop at B{header}: {_runs(body, 'B')}"


def _block(source: Source, model: KernelModel, b: int) -> str:
    function, block = model.function, model.cfg.blocks[b]
    first, last = function.instructions[block.start], function.instructions[block.end - 1]
    lines = (source.position(function.start + i.start).line for i in (first, last))
    label = function.labels.get(block.start, "")
    return f"B{b}{f' {label}' if label else ''}: {_span(block.start, block.end - 1)}, line {_span(*lines)}"


def _reach(model: KernelModel, b: int) -> str:
    if b not in model.cfg.rank:
        return "unreachable"
    return model.describe_threads(model.reachability.threads_at.get(b, 0))


def _condition(function: Function, edge: Edge) -> str:
    """The condition under which *edge* is taken; empty if there is none."""
    parts = [f"case {edge.case}"] if edge.case >= 0 else []
    if edge.predicate >= 0:
        parts.append(("" if edge.value else "!") + function.registers[edge.predicate].name)
    return ", ".join(parts)


def _cfg_dot(
    name: str,
    source: Source,
    models: Iterable[tuple[Function, KernelModel]],
    notes: list[str],
    extra: Callable[[KernelModel], Callable[[int], Iterable[str]]],
) -> str:
    """The control-flow graphs of all functions side by side. *extra* adds lines to the blocks of a function."""
    graph = _Dot(name, notes)
    for number, (function, model) in enumerate(models):
        more = extra(model)
        graph.begin(f"cluster_{number}", _header(source, function, model))
        for b in range(len(model.cfg.blocks)):
            text = [_block(source, model, b), _reach(model, b), *more(b)]
            graph.node(f"f{number}b{b}", *text, style="solid" if b in model.cfg.rank else "dashed")
        for b, edges in enumerate(model.cfg.successors):
            for edge in edges:
                label = _condition(model.function, edge)
                graph.edge(f"f{number}b{b}", f"f{number}b{edge.target}", label)
        graph.end()
    return graph.text()


# ---------------------------------------------------------------- states


def states(source: Source, *, dot: bool = False, entry: str | None = None) -> str:
    """The solutions of the dataflow analyses: the state before and after every instruction that can change it.

    An analysis is left out if its state is the initial one everywhere.
    """
    module, functions, notes = _load(source, entry)
    models = _models(module, functions)
    if dot:
        return _cfg_dot("states", source, models, notes, _entry_states)
    parts = [_lines([_header(source, f, model)], _states_lines(source, model)) for f, model in models]
    return _lines(_notes(notes), ["\n".join(parts)])


def analyses_of() -> list[type[Analysis[Any]]]:
    """All dataflow analyses: the subclasses of Analysis in ``tclint.analyses`` without subclasses there.

    Each is constructed from a KernelModel.
    """
    found = []
    for info in pkgutil.iter_modules(analyses.__path__):
        module = import_module(f"{analyses.__name__}.{info.name}")
        for value in vars(module).values():
            if (
                isinstance(value, type)
                and issubclass(value, Analysis)
                and value.__module__ == module.__name__
            ):
                found.append(value)
    bases = {base for one in found for base in one.__mro__[1:]}
    followed = {one.group for one in found if issubclass(one, Groups)}
    found += [groups_of(engine) for engine in GROUPED if engine not in followed]
    return [one for one in found if one not in bases]


def _solutions(model: KernelModel) -> Iterator[tuple[str, Results[Any] | None]]:
    """(name, results) of the analyses with states that differ from the initial one; None without a fixpoint."""
    for one in analyses_of():
        try:
            analysis, results = model.solution(one)
        except LimitExceeded:
            yield one.__name__, None
            continue
        initial = analysis.boundary()
        if any(
            results.entry[b] != initial or results.leave(b) != initial or _changes_in(results, b)
            for b in model.cfg.order
        ):
            yield one.__name__, results


def _changes_in(results: Results[Any], b: int) -> bool:
    """Whether the state changes within block *b*."""
    states = [state for _, state in results.walk(b)]
    return any(state != states[0] for state in states)


def _states_lines(source: Source, model: KernelModel) -> Iterator[str]:
    function = model.function
    solutions = list(_solutions(model))
    if not solutions:
        yield "  no analysis tracks anything in this function"
    for name, results in solutions:
        yield f"  {name}"
        if results is None:
            yield "    no fixpoint within the limit of visits"
            continue
        for b in model.cfg.order:
            yield f"    B{b}: {describe(results.analysis, results.entry[b], model)}"
            walk = list(results.walk(b))
            states = [state for _, state in walk] + [results.leave(b)]
            for (i, before), after in zip(walk, states[1:], strict=True):
                instruction = function.instructions[i]
                line = source.position(function.start + instruction.start).line
                words = f"{i} {_guard(function, instruction)}{instruction.opcode}, line {line}"
                if before == after:
                    yield f"      {words}: unchanged"
                else:
                    yield f"      {words}"
                    yield f"        before {describe(results.analysis, before, model)}"
                    yield f"        after  {describe(results.analysis, after, model)}"


def _entry_states(model: KernelModel) -> Callable[[int], Iterable[str]]:
    solved = list(_solutions(model))

    def lines(b: int) -> Iterator[str]:
        for name, results in solved:
            if b in model.cfg.rank:
                yield f"{name}: {describe(results.analysis, results.entry[b], model) if results else 'no fixpoint'}"

    return lines


@singledispatch
def describe(analysis: Analysis[Any], state: Any, model: KernelModel) -> str:
    """A state in words, with sites as instruction numbers. For an analysis without its own overload, its ``repr``."""
    return f"{{{_few(sorted(map(repr, state)))}}}" if isinstance(state, frozenset) else repr(state)


@describe.register
def _(analysis: Groups, state: Any, model: KernelModel) -> str:
    facts, copies = state
    words = {OPEN: "not committed", OVERDUE: "not committed before a wait"}
    text = _by_status(facts, lambda _, age: words.get(age, f"in a group of age {age}"))
    names = model.function.registers
    held = [f"{names[r].name} = {names[o].name} of {site}" for r, site, o in sorted({c[:3] for c in copies})]
    return text + (f"; copies: {_few(held)}" if held else "")


@describe.register
def _(analysis: Depth, state: int, model: KernelModel) -> str:
    more = " or more" if state == analysis.limit else ""
    return f"at most {state}{more} group{'s' * (state != 1)} pending"


@describe.register
def _(analysis: Waited, state: int, model: KernelModel) -> str:
    if state == analysis.limit:
        return "a commit since the last wait, or no wait yet"
    return f"at most {state} group{'s' * (state != 1)} pending since the last wait"


@describe.register
def _(analysis: WgmmaFences, state: Any, model: KernelModel) -> str:
    unfenced, accessed = state
    registers = []
    while accessed:
        bit = accessed & -accessed
        registers.append(analysis.register(bit))
        accessed ^= bit
    since = "no fence since entry on some path; " if unfenced else ""
    return f"{since}accessed since the last fence: {_registers(model.function, registers) or 'nothing'}"


@describe.register
def _(analysis: Transfers, state: Any, model: KernelModel) -> str:
    words = ("in flight", "in flight, registers moved", "in flight, registers used")
    facts = (
        (site, status)
        for status in TransferStatus
        for site in analysis.members(analysis.having(state, status))
    )
    return _by_status(facts, lambda site, status: words[status])


@describe.register
def _(analysis: Tcgen05Operations, state: Any, model: KernelModel) -> str:
    return _by_status(
        state, lambda site, status: "in flight" if status == ISSUED else f"committed by {status - 1}"
    )


@describe.register
def _(analysis: ThreadSync, state: Any, model: KernelModel) -> str:
    def word(site: int, wait: int) -> str:
        return "waited at" if wait else "accessed at"

    facts = ((i, bool(analysis.bits[i] & analysis.waits)) for i in analysis.originating_sites(state))
    return _by_status(facts, word, "nothing without an accompanying fence")


@describe.register
def _(analysis: Collector, state: Any, model: KernelModel) -> str:
    return ", ".join(f"{buffer} since {'entry' if site < 0 else site}" for site, buffer in sorted(state))


def _by_status(
    facts: Iterable[tuple[int, int]],
    word: Callable[[int, int], str],
    nothing: str = "nothing in flight",
) -> str:
    """Facts ``(site, status)`` as "status: sites; status: sites"."""
    groups: dict[str, list[int]] = {}
    for site, status in sorted(facts, key=lambda fact: (fact[1], fact[0])):
        groups.setdefault(word(site, status), []).append(site)
    return "; ".join(f"{name}: {_few(list(map(str, sites)))}" for name, sites in groups.items()) or nothing


# ---------------------------------------------------------------- shared


def _load(source: Source, entry: str | None) -> tuple[Module, list[Function], list[str]]:
    """The module, the functions to show (only *entry* if given), and the errors of the file. Raises SourceError."""
    from tclint.ir.frontend import analyse

    module, found = analyse(source)
    notes = [f"line {problem.line}: {problem.message}" for problem in found]
    if entry is None:
        return module, module.functions, notes
    function = module.function(entry)
    if function is None:
        raise _unknown(entry, [f.name for f in module.functions])
    return module, [function], notes


def _unknown(entry: str, names: Iterable[str]) -> SourceError:
    from difflib import get_close_matches

    known = list(dict.fromkeys(names))
    near = get_close_matches(entry, known, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]}?" if near else f"; available: {_few(known, 5)}" if known else ""
    return SourceError(f"no function '{entry}' in this file{hint}")


def _models(module: Module, functions: Iterable[Function]) -> list[tuple[Function, KernelModel]]:
    """Each function with its model as the checks see it: with callees inlined."""
    callees = inlinable(module)
    return [(function, KernelModel(inline(function, callees), module)) for function in functions]


def _header(source: Source, function: Function, model: KernelModel | None = None) -> str:
    kind = ".entry" if function.entry else ".func"
    state = "declared only" if function.declared_only else f"{len(function.instructions)} instructions"
    if model is not None and model.function is not function:
        state += f" ({len(model.function.instructions)} with callees inlined)"
    broken = ", damaged by a syntax error" if function.damaged else ""
    directives = "".join(
        f" {name} {', '.join(map(str, numbers))}".rstrip() for name, numbers in function.directives.items()
    )
    return f"{kind} {function.name}{directives}: line {source.position(function.start).line}, {state}{broken}"


def _registers(function: Function, numbers: Iterable[int]) -> str:
    """Register names, with runs of numbered ones abbreviated: ``%f0..%f63 %p1``."""
    names = [function.registers[number].name for number in dict.fromkeys(numbers)]
    found: list[tuple[str, str]] = []
    for name in names:
        if found and name == _next(found[-1][1]):
            found[-1] = (found[-1][0], name)
        else:
            found.append((name, name))
    shown = [a if a == b else f"{a} {b}" if b == _next(a) else f"{a}..{b}" for a, b in found]
    return " ".join(shown)


_NUMBERED = re.compile(r"(.*?)(0|[1-9]\d*)", re.DOTALL)


def _next(name: str) -> str | None:
    """The name that follows *name* in a numbered range."""
    match = _NUMBERED.fullmatch(name)
    return f"{match[1]}{int(match[2]) + 1}" if match else None


def _runs(numbers: Iterable[int], prefix: str) -> str:
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return " ".join(f"{prefix}{a}" if a == b else f"{prefix}{a}-{prefix}{b}" for a, b in runs)


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _few(items: Sequence[str], limit: int = ITEMS) -> str:
    rest = len(items) - limit
    return ", ".join(items[:limit]) + (f" and {rest} more" if rest > 0 else "")


def _notes(notes: Iterable[str]) -> Iterator[str]:
    return (f"// {note}" for note in notes)


def _lines(*parts: Iterable[str]) -> str:
    return "".join(f"{line}\n" for part in parts for line in part).rstrip("\n") + "\n"


def _text(source: Source, node: Node) -> str:
    return source.data[node.start_byte : node.end_byte].decode(errors="replace")


def _quoted(text: str) -> str:
    words = " ".join(text[: 4 * QUOTE].split())
    return '"' + (words if len(words) <= QUOTE else words[:QUOTE] + "…") + '"'


def _name(text: str) -> str:
    """*text* as a quoted name in the language of Graphviz."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") + '"'


class _Dot:
    """A directed graph in the language of Graphviz."""

    def __init__(self, name: str, notes: Iterable[str]) -> None:
        self._lines = [*_notes(notes), f"digraph {name} {{", '  node [shape=box, fontname="monospace"];']

    def begin(self, name: str, label: str) -> None:
        """Starts a box of nodes, which :meth:`end` closes."""
        self._lines += [f"  subgraph {name} {{", f"  label={_name(label)};"]

    def end(self) -> None:
        self._lines.append("  }")

    def node(self, name: str, *lines: str, **attributes: str) -> None:
        # \l ends a left-aligned line, and must not be escaped itself.
        text = "\\l".join(_name(line)[1:-1] for line in lines) + ("\\l" if len(lines) > 1 else "")
        more = "".join(f", {key}={value}" for key, value in attributes.items())
        self._lines.append(f'  {name} [label="{text}"{more}];')

    def edge(self, source: str, target: str, label: str = "") -> None:
        self._lines.append(f"  {source} -> {target}" + (f" [label={_name(label)}];" if label else ";"))

    def text(self) -> str:
        return "\n".join([*self._lines, "}"]) + "\n"
