"""Hover: a description of the word under the cursor, as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tclint.findings.rules import UnknownRule, find
from tclint.findings.spans import Span
from tclint.inspect.explain import UnknownOpcode, isa, rules_markdown
from tclint.inspect.in_flight import operations
from tclint.ir.nodes import Instruction, registers
from tclint.isa.table import table
from tclint.lsp.names import Cursor
from tclint.lsp.text import DocumentText
from tclint.report.summary import count

__all__ = ["hover"]

_MAX_INSTRUCTIONS = 6
"""Instructions that are listed; the remaining ones are counted."""
_WORD = re.compile(rb"[\w.-]+")


def hover(place: Cursor, text: DocumentText) -> tuple[str, Span] | None:
    """Markdown, and the bytes that it describes; None if there is nothing to show."""
    node = place.node
    if node is None:
        return None
    span = Span(node.start_byte, node.end_byte)
    if node.type == "comment":
        return _rule(place)
    if node.type == "opcode":
        try:
            return f"```text\n{isa(table(), ''.join(place.name.split()))}```", span
        except UnknownOpcode:
            return None
    lines = list(_register(place, text) if place.register is not None else _symbol(place, text))
    return ("\n".join(lines), span) if lines else None


def _rule(place: Cursor) -> tuple[str, Span] | None:
    """The page of the rule at the cursor in a suppression comment; None if there is none."""
    assert place.node is not None
    start, end = place.node.start_byte, place.node.end_byte
    if b"tclint:" not in place.data[start:end]:
        return None
    for match in _WORD.finditer(place.data, start, end):
        if match.start() <= place.offset <= match.end():
            try:
                return rules_markdown([find(match[0].decode())]), Span(*match.span())
            except (UnknownRule, UnicodeDecodeError):
                return None
    return None


def _register(place: Cursor, text: DocumentText) -> Iterator[str]:
    function, register = place.function, place.register
    assert function is not None
    assert register is not None
    yield f"`{place.name}` register `{function.registers[register].type}`\n"
    for span in place.declarations()[:1]:
        yield f"- declared on line {text.line_of(span.start) + 1}"
    instructions = function.instructions
    writers = [i for i, instruction in enumerate(instructions) if register in instruction.writes]
    readers = sum(register in i.reads or register == i.guard for i in instructions)
    yield f"- written by {_listed(place, text, writers)}" if writers else "- never written"
    yield f"- read by {count(readers, 'instruction')}"
    yield from _mbarriers(place, text)
    yield from _flight(place, text)


def _symbol(place: Cursor, text: DocumentText) -> Iterator[str]:
    function = place.function
    variable = function.variables.get(place.name) if function is not None else None
    variable = variable or place.module.variables.get(place.name)
    declared = [text.line_of(span.start) + 1 for span in place.declarations()]
    if variable is not None:
        size = count(variable.size, "byte") if variable.size else "of unknown size"
        yield f"`{place.name}` variable in `{variable.space}`, {size}, aligned to {variable.align}\n"
    elif declared:
        kind = "function" if place.module.function(place.name) is not None else "label"
        yield f"`{place.name}` {kind}\n"
    if declared:
        yield f"- declared on line {declared[0]}"
    yield from _mbarriers(place, text)
    yield from _verdicts(place)


def _verdicts(place: Cursor) -> Iterator[str]:
    """What is known of each class of hazards in the kernel with this name, if the settings ask for verdicts."""
    report = place.report
    if report is None:
        return
    for verdict in report.verdicts:
        if verdict.kernel == place.name:
            from tclint.report.formats._verdicts import details

            yield f"- {verdict.hazard.value}: **{verdict.status.value}**{details(report, verdict)}"


def _mbarriers(place: Cursor, text: DocumentText) -> Iterator[str]:
    for barrier in place.mbarriers[:_MAX_INSTRUCTIONS]:
        arrivals = "unknown" if barrier.count is None else str(barrier.count)
        yield f"- mbarrier, arrivals per phase: {arrivals}, initialised by {_listed(place, text, barrier.inits)}"


def _flight(place: Cursor, text: DocumentText) -> Iterator[str]:
    """The asynchronous operations that may be in flight before the instruction, those with the register first."""
    function, site, register = place.function, place.site, place.register
    assert function is not None
    assert site is not None
    assert register is not None
    model = place.model(function)
    if model.function is not function:
        yield "- operations in flight are not shown, because calls are inlined into this function"
        return
    sites = sorted(operations(model, site))
    mine = [i for i in sites if _uses(function.instructions[i], register)]
    others = [i for i in sites if i not in mine]
    if mine:
        yield f"- **in flight here, with this register**: {_listed(place, text, mine)}"
    if others:
        yield f"- in flight here: {_listed(place, text, others)}"
    if not sites:
        yield "- no asynchronous operation is in flight here"


def _uses(instruction: Instruction, register: int) -> bool:
    return any(register in registers(operand) for operand in instruction.operands)


def _listed(place: Cursor, text: DocumentText, sites: list[int]) -> str:
    """``line 12 `mov.b32` ``, and so on."""
    assert place.function is not None
    words = []
    for site in sites[:_MAX_INSTRUCTIONS]:
        instruction = place.function.instructions[site]
        words.append(
            f"line {text.line_of(place.function.start + instruction.start) + 1} `{instruction.opcode}`"
        )
    rest = len(sites) - _MAX_INSTRUCTIONS
    more = f" and {rest} more" if rest > 0 else ""
    return ", ".join(words) + more
