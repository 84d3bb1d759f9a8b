"""Completion and signature help, from the ISA table and the names in the text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from lsprotocol import types

from tclint.findings.rules import manual_reference
from tclint.findings.spans import Span
from tclint.inspect.explain import facts, isa
from tclint.isa.directives import directives
from tclint.isa.forms import Form
from tclint.isa.notation import Syntax
from tclint.isa.special_registers import SPECIAL_REGISTERS
from tclint.isa.table import table
from tclint.isa.target import Target, Version, dotted, parse_version
from tclint.lsp.statement import Statement, names, statement
from tclint.lsp.text import DocumentText

__all__ = ["TRIGGERS", "complete", "describe", "signatures"]

TRIGGERS = (".", "%")
"""The characters after which an editor asks for completions, as after a letter."""
_MAX_ITEMS = 250
_MAX_USED = 60
"""The names that precede the special registers."""
_MAX_SIGNATURES = 8
_TARGET = re.compile(rb"^\s*\.target\s+(\w+)", re.MULTILINE)
_VERSION = re.compile(rb"^\s*\.version\s+(\d+\.\d+)", re.MULTILINE)
_DECLARING = tuple(
    ".reg .shared .global .const .local .param .visible .extern .weak .entry .func .version .target .address_size .pragma"
    " .loc .file .section .branchtargets .calltargets".split()
)
"""The directives that declare something, or are about the module; the table has those of kernels."""
_KINDS = {"label": types.CompletionItemKind.Reference}
_TYPED = re.compile(r"\.(?:reg|shared|global|const|local|param)\b")
_TYPES = tuple(
    ".pred .b8 .b16 .b32 .b64 .b128 .u8 .u16 .u32 .u64 .s8 .s16 .s32 .s64 .f16 .f16x2 .bf16 .bf16x2 .f32 .f64"
    " .align .v2 .v4".split()
)
"""What may follow the state space in a declaration."""


def complete(
    text: DocumentText, offset: int, begin: int = 0, *, inline: bool = False
) -> types.CompletionList | None:
    """What may follow at *offset*; None where nothing can be said, such as in a comment.

    *begin* is where the PTX begins; *inline* says that it is a string in a host language, whose registers are unknown.
    """
    found = statement(text.analysed, offset, begin)
    if found is None:
        return None
    offered: Iterator[types.CompletionItem]
    if found.opcode.startswith("."):
        offered = _of_directive(found)
    elif found.operands is None:
        offered = _of_opcode(found.opcode, text.analysed)
    else:
        before = offset - len(found.word.encode())
        offered = _of_operand(found, *(({}, {}) if inline else names(text.analysed, before)))
    items = list(islice(offered, _MAX_ITEMS + 1))
    start = found.word.rfind(".") if found.operands is None and "." in found.word else 0
    place = text.range(Span(offset - len(found.word[start:].encode()), offset))
    for number, item in enumerate(items):
        item.text_edit = types.TextEdit(place, item.insert_text or item.label)
        item.filter_text = item.insert_text = item.insert_text or item.label
        item.sort_text = f"{number:04}"
    return types.CompletionList(is_incomplete=len(items) > _MAX_ITEMS, items=items[:_MAX_ITEMS])


def describe(item: types.CompletionItem, *, markdown: bool) -> types.CompletionItem:
    """*item* with its documentation, which an editor asks for when it shows the item."""
    if isinstance(item.data, str) and item.data in table().forms:
        described = isa(table(), item.data)
        item.documentation = (
            types.MarkupContent(types.MarkupKind.Markdown, f"```text\n{described}```")
            if markdown
            else described
        )
    return item


def _of_directive(found: Statement) -> Iterator[types.CompletionItem]:
    if found.operands is None:
        for name in sorted({*_DECLARING, *directives()}):
            if name.startswith(found.opcode):
                yield types.CompletionItem(name, kind=types.CompletionItemKind.Keyword)
    elif _TYPED.fullmatch(found.opcode) and found.word.startswith("."):
        for name in _TYPES:
            if name.startswith(found.word):
                yield types.CompletionItem(name, kind=types.CompletionItemKind.TypeParameter)


def _of_opcode(typed: str, data: bytes) -> Iterator[types.CompletionItem]:
    target, version = _module(data)
    settled, dot, _ = typed.rpartition(".")
    partial = typed[len(settled) :]
    if dot:
        offered = {
            spelling: forms
            for spelling, forms in table().continuations(settled).items()
            if spelling.startswith(partial)
        }
    else:
        offered = {}
        for root, lines in table().roots.items():
            if root.startswith(typed):
                for form, syntax in lines:
                    offered.setdefault(root + _literals(syntax), []).append(form)
    lacking = []
    for spelling, forms in offered.items():
        item = types.CompletionItem(
            spelling,
            kind=types.CompletionItemKind.EnumMember if dot else types.CompletionItemKind.Function,
            detail=forms[0].summary or forms[0].name,
            data=forms[0].name,
        )
        missing = _missing(forms, target, version)
        if missing:
            item.detail = missing
            lacking.append(item)
        else:
            yield item
    yield from lacking


def _literals(syntax: Syntax) -> str:
    """The modifiers at the front of a syntax line that every spelling of it has."""
    words: list[str] = []
    for slot in syntax.slots:
        if slot.optional or len(slot.spellings) > 1:
            break
        words.extend(slot.spellings)
    return "".join(words)


def _missing(forms: Iterable[Form], target: Target | None, version: Version | None) -> str:
    """What the module does not have for any of *forms*; empty if it has it, or if that is unknown."""
    if target is None or version is None:
        return ""
    for form in forms:
        lacking = form.available.lacking(target, version)
        if not lacking:
            return ""
    if lacking == "target":
        return f"requires {form.available.describe()}"
    return f"requires PTX ISA {dotted(form.available.version_for(target))}"


def _module(data: bytes) -> tuple[Target | None, Version | None]:
    """Target and version of the module; None for what it does not state."""
    target, version = _TARGET.search(data, 0, 1 << 14), _VERSION.search(data, 0, 1 << 14)
    try:
        parsed = Target.parse(target[1].decode()) if target else None
    except ValueError:
        parsed = None
    return parsed, parse_version(version[1].decode()) if version else None


def _of_operand(
    found: Statement, used: dict[str, str], others: dict[str, str]
) -> Iterator[types.CompletionItem]:
    """Names that were used before, special registers, and the other names."""
    word = found.word
    jumps = found.opcode.startswith(("bra", "brx"))

    def declared(names: dict[str, str]) -> Iterator[types.CompletionItem]:
        for name, kind in names.items():
            if name.startswith(word) and (kind == "label") == jumps:
                kinds = _KINDS.get(kind, types.CompletionItemKind.Variable)
                yield types.CompletionItem(name, kind=kinds, detail=kind)

    yield from islice(declared(used), _MAX_USED)
    if word.startswith("%"):
        for name, register in SPECIAL_REGISTERS.items():
            if name.startswith(word):
                where = f"; {manual_reference([register.manual])}" if register.manual else ""
                yield types.CompletionItem(
                    name,
                    kind=types.CompletionItemKind.Constant,
                    detail=f"{register.type}, {register.meaning}",
                    documentation=f"{register.meaning[0].upper()}{register.meaning[1:]}{where}.",
                )
    yield from islice(declared(used), _MAX_USED, None)
    yield from declared(others)


# ---------------------------------------------------------------- signatures


def signatures(text: DocumentText, offset: int, begin: int = 0) -> types.SignatureHelp | None:
    """The syntax of the instruction at *offset*, with the operand there; None outside the operands of one."""
    found = statement(text.analysed, offset, begin)
    if found is None or found.operands is None or not found.opcode or found.opcode.startswith("."):
        return None
    lines = {(form.name, syntax.text): (form, syntax) for form, syntax, _ in table().candidates(found.opcode)}
    offered = [_signature(form, syntax) for form, syntax in lines.values()][:_MAX_SIGNATURES]
    if not offered:
        return None
    fitting = (n for n, each in enumerate(offered) if len(each.parameters or ()) > found.operand)
    return types.SignatureHelp(offered, active_signature=next(fitting, 0), active_parameter=found.operand)


def _signature(form: Form, syntax: Syntax) -> types.SignatureInformation:
    described = dict(line.split(": ", 1) for line in dict(facts(form))["operands"] if ": " in line)
    at = len(syntax.text.strip().partition(" ")[0])
    parameters = []
    for slot in syntax.operands:
        place = re.compile(rf"(?<![\w-]){re.escape(slot.name)}(?![\w-])").search(syntax.text.strip(), at)
        if place is None:
            break
        at = place.end()
        label = place.span() if slot.style != "memory" else (place.start() - 1, place.end())
        parameters.append(types.ParameterInformation(label, described.get("|".join(slot.names))))
    summary = f"{form.summary} ({manual_reference([form.manual])})" if form.manual else form.summary
    return types.SignatureInformation(syntax.text.strip(), summary, parameters)
