"""Fixes: changes in terms of instructions, turned into edits of bytes.

A check describes a fix as a :class:`Repair`: statements before or after an instruction, another opcode or operand. Only
this module looks at the text: a new statement gets its own line with the indentation and the line end of its neighbour,
and an operand is located among comments and line breaks. If a location cannot be found, there is no fix.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from tclint._dataclass import dataclass
from tclint._named_tuple import NamedTuple
from tclint.findings.finding import Edit, Fix, overlapping
from tclint.findings.spans import Span
from tclint.ir.nodes import Function, Instruction, Module
from tclint.ir.operands import HEAD
from tclint.isa.target import INTRODUCED, RENAMED, TOOLKITS, Target, Version, dotted
from tclint.syntax.source import Source

__all__ = [
    "DirectiveEdit", "InstructionEdit", "Repair", "after", "before", "inverted", "joined", "opcode", "operand",
    "removed", "resolve", "retarget", "reversion", "without", "without_word",
]  # fmt: skip

# Patterns are kept as text, to be compiled for the first fix: a run without findings needs none.
_COMMENT = r"(?s)//[^\n]*|/\*.*?(?:\*/|\Z)"
_END_OF_LINE = rb"[ \t]*(?://[^\r\n]*)?(?=\r?\n|\Z)"
_END_OF_ASM = rb"(?:\r?\n[ \t]*\}?[ \t]*){1,3}// end inline asm(?=\r?\n|\Z)"
"""The rest of a block of inline assembly after its last statement: blank lines, a closing brace, the comment of nvcc and
Triton."""
_SINCE_13, _OLDEST = (9, 0), 75
"""The ``.version`` of CUDA 13, and the oldest target that its ptxas accepts; it also rejects the former names of
targets."""


class InstructionText(NamedTuple):
    """An instruction in its text."""

    data: bytes
    start: int
    end: int
    instruction: Instruction

    @property
    def text(self) -> str:
        """The text of the instruction, with each byte of a comment replaced by a blank."""
        text = self.data[self.start : self.end].decode("latin-1")
        return re.sub(_COMMENT, lambda match: re.sub(r"[^\n]", " ", match[0]), text)


Make = Callable[[InstructionText], Edit | None]
"""A function of a module, or a ``partial`` of one, so that a process can send a repair to another one."""


class InstructionEdit(NamedTuple):
    """One edit at the instruction ``site`` of ``function``, or of the hit's function if that is None."""

    site: int
    make: Make
    function: Function | None = None


class DirectiveEdit(NamedTuple):
    """The insertion of ``text`` after the first directive ``name`` of the hit's function."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Repair:
    """A fix as a check describes it; see :class:`tclint.findings.finding.Fix`."""

    message: str
    changes: tuple[InstructionEdit | DirectiveEdit | Edit, ...]
    """Other text is changed by an :class:`Edit` of its bytes, which holds for one state of the text only."""
    safe: bool = False
    respelled: bool = False
    """Whether it only spells instructions in another form: what is executed stays the same."""
    proves: tuple[str, ...] = ()
    """The classes of hazards that must be proved of the kernel after it; it is not offered if one of them is not
    (:mod:`tclint.linting.proofs`)."""


# ---------------------------------------------------------------- kinds of changes


def before(site: int, *statements: str, function: Function | None = None) -> InstructionEdit:
    """Insert *statements* before the instruction at *site*, after its label."""
    return InstructionEdit(site, partial(_before, statements), function)


def _before(statements: Sequence[str], place: InstructionText) -> Edit:
    line = place.data.rfind(b"\n", 0, place.start) + 1
    lead = place.data[line : place.start]
    gap = " " if lead.strip() else _line_end(place) + lead.decode()
    return Edit(Span(place.start, place.start), "".join(s + gap for s in statements))


def after(site: int, *statements: str, function: Function | None = None) -> InstructionEdit:
    """Insert *statements* after the instruction at *site*, and after the inline assembly that ends with it.

    *statements* name no register, since the assembly may be a scope of its own.
    """
    return InstructionEdit(site, partial(_after, statements), function)


def _after(statements: Sequence[str], place: InstructionText) -> Edit:
    line = place.data.rfind(b"\n", 0, place.start) + 1
    rest = re.compile(_END_OF_LINE).match(place.data, place.end)
    rest = re.compile(_END_OF_ASM).match(place.data, rest.end() if rest else place.end) or rest
    lead = place.data[line : place.start]
    indent = lead[: len(lead) - len(lead.lstrip())].decode()
    gap, at = (_line_end(place) + indent, rest.end()) if rest else (" ", place.end)
    return Edit(Span(at, at), "".join(gap + s for s in statements))


def without(site: int) -> InstructionEdit:
    """Delete the instruction, and its line if nothing else is on it."""
    return InstructionEdit(site, _without)


def _without(place: InstructionText) -> Edit:
    return Edit(_alone(place.data, Span(place.start, place.end)), "")


def opcode(site: int, new: str, function: Function | None = None) -> InstructionEdit:
    """Replace the opcode by *new*."""
    return InstructionEdit(site, partial(_opcode, new), function)


def _opcode(new: str, place: InstructionText) -> Edit | None:
    head = HEAD.match(place.text)
    if head is None or "".join(head[3].split()) != place.instruction.opcode:
        return None
    return Edit(Span(place.start + head.start(3), place.start + head.end(3)), new)


def without_word(site: int, instruction: Instruction, word: str, instead: str = "") -> InstructionEdit:
    """Remove a modifier such as ``.relaxed`` from the opcode, or replace it by *instead*."""
    words = instruction.opcode.split(".")
    changed = [instead.lstrip(".") if w == word.lstrip(".") else w for w in words]
    return opcode(site, ".".join(w for w in changed if w))


def operand(site: int, role: str, new: str) -> InstructionEdit:
    """Replace the operand with the role *role*, or with that name in the syntax line, by *new*."""
    return InstructionEdit(site, partial(_operand, role, new))


def _operand(role: str, new: str, place: InstructionText) -> Edit | None:
    match = place.instruction.match
    at = match.named.get(match.form.roles.get(role, role)) if match is not None else None
    spans = _operands(place)
    if at is None or spans is None or at >= len(spans) or len(spans) != len(place.instruction.operands):
        return None
    return Edit(spans[at], new)


def inverted(site: int) -> InstructionEdit:
    """Invert the guard of the instruction."""
    return InstructionEdit(site, _inverted)


def _inverted(place: InstructionText) -> Edit | None:
    head = HEAD.match(place.text)
    if head is None or head[2] is None:
        return None
    at = place.start + head.start(1)
    return Edit(Span(at, place.start + head.end(1)), "" if head[1] else "!")


def removed(span: Span) -> Edit:
    """The deletion of text that is not an instruction, with its line if nothing else is on it (see :func:`resolve`)."""
    return Edit(span, "")


def _operands(place: InstructionText) -> list[Span] | None:
    """The spans of the operands, in order; None if the text cannot be split."""
    text = place.text
    head = HEAD.match(text)
    if head is None:
        return None
    found, depth, start = [], 0, head.end()
    end = text.rfind(";")
    end = end if end >= 0 else len(text)
    for at in range(start, end + 1):
        char = text[at] if at < end else ","
        depth += (char in "[{(") - (char in "]})")
        if char == "," and (depth == 0 or at == end):
            part = text[start:at]
            first = start + len(part) - len(part.lstrip())
            found.append(Span(place.start + first, place.start + start + len(part.rstrip())))
            start = at + 1
    return found


def _line_end(place: InstructionText) -> str:
    """The line end used around an instruction."""
    at = place.data.find(b"\n", place.end)
    at = at if at >= 0 else place.data.rfind(b"\n")
    return "\r\n" if at > 0 and place.data[at - 1 : at] == b"\r" else "\n"


def _alone(data: bytes, span: Span) -> Span:
    """*span* extended to its whole line if nothing else is on it; else, at the end of a line, by the blanks before
    it."""
    line = data.rfind(b"\n", 0, span.start) + 1
    end = data.find(b"\n", span.end)
    end = len(data) if end < 0 else end + 1
    lead, rest = data[line : span.start], data[span.end : end]
    if not lead.strip() and not rest.strip():
        return Span(line, end)
    return Span(span.start - (len(lead) - len(lead.rstrip())) if not rest.strip() else span.start, span.end)


# ---------------------------------------------------------------- the head of a module


def reversion(module: Module, needed: Version, safe: bool = True) -> tuple[Repair, ...]:
    """The repair that raises (or, unsafe, lowers) ``.version``; empty if the ptxas of that version rejects the
    target."""
    targets = [t for t in map(Target.parse, module.targets) if t]
    known = needed in TOOLKITS.values()
    if module.version is None or not known or any(_refuses(needed, t) for t in targets):
        return ()
    change = _header(module.version_span, f".version {dotted(needed)}")
    verb = "raise" if needed > module.version else "lower"
    return (Repair(f"{verb} .version to {dotted(needed)}", (change,), safe and needed > module.version),)


def _refuses(version: Version, target: Target) -> bool:
    """Whether every ptxas that accepts *version* rejects *target* with it."""
    gone = version >= _SINCE_13 and (target.number < _OLDEST or target.number in RENAMED)
    return gone or version < target.introduced


def retarget(module: Module, target: Target, least: Version | None = None) -> tuple[Repair, ...]:
    """The repair that changes the target, and raises ``.version`` if needed; empty if that is impossible.

    It is not safe, because the module then runs on other devices.
    """
    if str(target) not in INTRODUCED or module.version is None or len(module.targets) != 1:
        return ()
    changes = [_header(module.target_span, f".target {target}")]
    needed = max(target.introduced, least or (0, 0))
    if module.version < needed:
        raised = reversion(module, needed)
        if not raised and target.number not in RENAMED.values():
            return ()
        changes.append(_header(module.version_span, f".version {dotted(needed)}"))
    return (Repair(f"use .target {target}", tuple(changes)),)


def _header(span: tuple[int, int], text: str) -> Edit:
    return Edit(Span(*span), text)


# ---------------------------------------------------------------- into bytes


def resolve(
    source: Source, function: Function | None, repairs: Iterable[Repair], *, note: bool = False
) -> tuple[Fix, ...]:
    """The fixes for *repairs* in the text; a repair with an edit that cannot be made is omitted.

    The code of a *note* works, and synchronisation would only slow it down, so none of its fixes is safe unless it just
    respells instructions.
    """
    found = []
    for repair in repairs:
        made: list[Edit] = []
        safe = repair.safe and (repair.respelled or not note)
        for change in repair.changes:
            edit = _made(source, function, change)
            if edit is None:
                break
            if isinstance(change, InstructionEdit):
                owner = change.function or function
                # An edit in an inlined function also affects its other callers.
                safe &= owner is not None and owner.start <= edit.span.start <= owner.end
            if edit not in made:
                made.append(edit)
        else:
            edits = tuple(sorted(made, key=lambda e: (e.span.start, e.span.end)))
            if edits and not overlapping(edits):
                found.append(Fix(repair.message, edits, safe))
    return tuple(found)


def _made(
    source: Source, function: Function | None, change: InstructionEdit | DirectiveEdit | Edit
) -> Edit | None:
    if isinstance(change, Edit):
        return change if change.text else Edit(_alone(source.data, change.span), "")
    if isinstance(change, DirectiveEdit):
        stated = next((d for d in function.stated if d.name == change.name), None) if function else None
        if function is None or stated is None:
            return None
        at = function.start + stated.end
        return Edit(Span(at, at), change.text)
    owner = change.function or function
    if owner is None:
        return None
    instruction = owner.instructions[change.site]
    start, end = owner.start + instruction.start, owner.start + instruction.end
    return change.make(InstructionText(source.data, start, end, instruction))


def joined(data: bytes, edits: Iterable[Edit]) -> bytes:
    """*data* with *edits* applied, equal ones once. Raises ValueError if they overlap."""
    parts, at = [], 0
    for edit in sorted(set(edits), key=lambda e: (e.span.start, e.span.end)):
        if edit.span.start < at:
            raise ValueError(f"edits overlap at {edit.span.start}")
        parts += [data[at : edit.span.start], edit.text.encode()]
        at = edit.span.end
    return b"".join((*parts, data[at:]))
