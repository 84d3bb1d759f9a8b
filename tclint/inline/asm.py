"""One inline assembly string: its operands, and the PTX in it.

A compiler replaces a placeholder by a register whose size the constraint determines. So the placeholder itself becomes the
name of a register: ``%0`` and ``$0`` are names in PTX (4.4), and messages show what the user wrote.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Literal

from tclint._dataclass import dataclass
from tclint.findings.finding import Edit, Fix
from tclint.findings.spans import Span
from tclint.inline.text import UNKNOWN, MappedText

__all__ = [
    "Asm",
    "AsmOperand",
    "Ptx",
    "braces",
    "exposed",
    "kind_of",
    "operands_of",
    "ptx_of",
    "together",
    "unused",
]

Dialect = Literal["gcc", "llvm", "module"]
"""The syntax of placeholders: ``%0`` (gcc), ``$0`` (llvm); a string that is a whole module has none."""

_TYPES = {"h": ".b16", "c": ".b16", "r": ".b32", "f": ".b32", "l": ".b64", "N": ".b64", "d": ".b64", "q": ".b128",
          "b": ".pred"}  # fmt: skip
"""Constraint of nvcc or LLVM -> type of the register. Compilers differ in whether ``f`` is a .f32 or a .b32."""
_IMMEDIATES = frozenset("ni")
_STRINGS = frozenset("C")


@dataclass(frozen=True, slots=True)
class AsmOperand:
    """One entry of an operand list."""

    constraint: str
    """``=r``; empty if it is not a plain string."""
    name: str = ""
    """The symbolic name, of ``[name]``; may be empty."""
    value: str = ""
    """The value of an immediate, if it is written as a number."""
    expression: str = ""
    """The expression of the host, without blanks; empty if it is unknown."""
    generic: bool = False
    """Whether the expression is an address in C++, which is generic: a pointer that the function declares, or ``&x``."""
    span: Span | None = None
    """The constraint between its quotes; None if it is not one literal."""

    @property
    def output(self) -> bool:
        """Whether the statement may assign it."""
        return self.constraint[:1] in ("=", "+")


@dataclass(slots=True)
class Asm:
    """A string of PTX and its context in the host source."""

    statement: Span
    """The whole statement or call."""
    template: MappedText
    """The string with its escapes resolved, and UNKNOWN for unknown pieces."""
    operands: tuple[AsmOperand, ...] | None
    """None if the operand lists could not be parsed."""
    dialect: Dialect
    entry: str | None = None
    """The host function that contains it; None if there is none."""
    scope: Span | None = None
    """The span of that function."""
    conditions: tuple[str, ...] = ()
    """The conditions under which it is compiled, innermost first; ``?`` for one that cannot be decided."""
    basic: bool = False
    """``asm("...")`` without a colon: it has no placeholders."""
    volatile: bool | None = None
    """Whether the compiler must execute it as often as the host source does; None if that is unknown."""
    memory: bool | None = None
    """Whether it has the clobber ``"memory"``; None if that is unknown."""
    qualifier: str = "asm volatile"
    """How the host spells that a statement is volatile."""
    qualify: Edit | None = None
    """The edit that makes it volatile."""
    clobber: Edit | None = None
    """The edit that adds the clobber ``"memory"``."""


@dataclass(slots=True)
class Ptx:
    """The PTX of a string, for the body of a function."""

    text: MappedText
    declarations: tuple[str, ...]
    """A ``.reg`` for each register operand."""
    missing: list[tuple[Span, str]] = field(default_factory=list)
    """The placeholders without an operand, each with a message."""
    values: list[tuple[int, int]] = field(default_factory=list)
    """The positions of immediates with unknown values."""
    whole: bool = True
    """Nothing in it is unknown."""
    unknown: bool = False
    """Some piece of it is unknown, not counting placeholders without an operand."""
    borrowed: tuple[str, ...] = ()
    """The declarations that it uses from other strings of the same function."""
    opened: int = 0
    """The number of scopes that it closes and another string opens."""
    closed: int = 0
    """The number of scopes that it opens and another string closes."""


def operands_of(constraints: str) -> tuple[AsmOperand, ...]:
    """The operands of an LLVM constraint list: ``=r,=r,r,n,~{memory}``."""
    words = [word.strip() for word in constraints.split(",")]
    return tuple(AsmOperand(word) for word in words if word and not word.startswith("~"))


def kind_of(operands: Sequence[AsmOperand], operand: AsmOperand, depth: int = 0) -> str:
    """The type of an operand's register, ``n`` for an immediate, ``C`` for a string; empty if unknown."""
    letters = operand.constraint.lstrip("=+&%")
    if letters.isdigit() and int(letters) < len(operands) and depth < 2:
        return kind_of(operands, operands[int(letters)], depth + 1)
    if len(letters) != 1:
        return ""
    if letters in _IMMEDIATES:
        return "n"
    return "C" if letters in _STRINGS else _TYPES.get(letters, "")


_GCC = re.compile(
    rb"%(?:(?P<literal>[%{|}])|(?P<unique>=)|(?P<number>\d+)|\[(?P<name>\w+)\]|(?P<modified>[a-z]\d+)\b)"
)
_LLVM = re.compile(
    rb"\$(?:(?P<literal>\$)|(?P<number>\d+)|\{(?P<braced>\d+)(?P<modifier>:\w*)?\}|(?P<unique>\{:uid\})"
    rb"|(?P<variant>[(|)]))"
)
_GLUE = re.compile(rb"[\w$.:]")
"""A placeholder next to one of these is a part of a word, not an operand."""


def ptx_of(asm: Asm) -> Ptx:
    """The PTX of *asm*: placeholders become registers, and statements with unknown pieces become blanks."""
    operands = asm.operands or ()
    named = {operand.name.encode(): number for number, operand in enumerate(operands) if operand.name}
    kinds = [kind_of(operands, operand) for operand in operands]
    out = Ptx(MappedText(), ())
    source = asm.template
    data = bytes(source.data)
    used: dict[str, str] = {}
    at = 0
    # In a basic asm there are no placeholders, although some compilers substitute them as in any other asm.
    pattern = _LLVM if asm.dialect == "llvm" else _GCC
    for match in pattern.finditer(data):
        start, end = match.span()
        host = source.host(start, end)
        out.text.add_part(source, at, start)
        at = end
        groups = match.groupdict()
        if groups["literal"] is not None:
            out.text.add(groups["literal"], host)
        elif groups["unique"] is not None:
            out.text.add(b"0", host)
        elif asm.basic:
            out.text.add_part(source, start, end)
        elif (number := _number(groups, named)) is None or asm.operands is None:
            # Either a register name, which nvcc does not change, or a placeholder with a modifier of another compiler.
            if groups.get("modified") is not None and _declares(data, match[0]):
                out.text.add_part(source, start, end)
            elif groups.get("name") is not None and asm.operands is not None:
                out.missing.append((host, f"there is no operand called {_word(match['name'])}"))
                out.text.add_unknown(host)
            else:
                out.text.add_unknown(host)
        elif number >= len(operands):
            count = len(operands)
            have = "there is none" if count == 0 else f"there {'is' if count == 1 else 'are'} {count}"
            out.missing.append((host, f"there is no operand {_word(match[0])}: {have}, counted from 0"))
            out.text.add_unknown(host)
        else:
            _substitute(out, used, asm, kinds[number], number, match)
    out.text.add_part(source, at, len(data))
    out.declarations = tuple(f".reg {kind} {name};" for name, kind in used.items())
    out.unknown = out.text.data.count(UNKNOWN) > len(out.missing)
    out.whole = not _without_unknown(out.text.data)
    return out


def _substitute(
    out: Ptx, used: dict[str, str], asm: Asm, kind: str, number: int, match: re.Match[bytes]
) -> None:
    """Append the text that replaces a placeholder."""
    data, host = match.string, asm.template.host(*match.span())
    glued = _GLUE.match(data, match.end()) is not None or (
        match.start() > 0 and _GLUE.match(data, match.start() - 1) is not None
    )
    groups = match.groupdict()
    selected = re.compile(rb"\.(?:[xyzw]|[bh]\d)\b").match(data, match.end())
    if kind in ("", "C") or groups.get("modifier") or (glued and not selected and kind == "n"):
        out.text.add_unknown(host)
        return
    if kind == "n":
        value = asm.operands[number].value if asm.operands else ""
        if not value:
            out.values.append((len(out.text.data), len(out.text.data) + 1))
        out.text.add((value or "1").encode(), host)  # 1 is valid for most immediate operands
        return
    name = f"{'$' if asm.dialect == 'llvm' else '%'}{number}"
    used[name] = kind
    out.text.add(name.encode(), host)


def _number(groups: Mapping[str, bytes | None], named: dict[bytes, int]) -> int | None:
    digits = groups["number"] or groups.get("braced")
    if digits is not None:
        return int(digits[:6])
    name = groups.get("name")
    return named.get(name) if name is not None else None


def _declares(data: bytes, name: bytes) -> bool:
    """Whether a template declares a register *name*, directly or in a range."""
    prefix = name.rstrip(b"0123456789")
    return (
        re.search(rb"\.reg\b[^;]*(?:" + re.escape(name) + rb"\b|" + re.escape(prefix) + rb"<)", data)
        is not None
    )


def _word(text: bytes) -> str:
    return text.decode(errors="replace")


_DECLARATION = re.compile(rb"\.reg\s+(?:\.v[248]\s+)?\.\w+\s+([^;]*);")
_COMMENT = re.compile(rb"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_GROUP = re.compile(rb"\{[^{}]*\}")
_DEFINED = re.compile(
    rb"(?:^|[;}])\s*(?P<label>[\w$%]+)\s*:(?!:)|\.reg\s+\.\w+\s+(?P<register>[\w$%]+)(?=\s*[,;<])"
)
_NAME = re.compile(rb"[A-Za-z_$%][\w$]*")
_LABEL = re.compile(rb"([\w$%]+)\s*:(?!:)")


def together(strings: Sequence[Ptx]) -> frozenset[str]:
    """Give each of *strings*, those of one function in order, the declarations and scopes that it shares with others.

    A string may open a scope with registers that another one closes. Returns the shared names.
    """
    open_ends = [_open_ended(bytes(ptx.text.data)) for ptx in strings]
    declared: dict[bytes, bytes] = {}
    types: dict[bytes, set[bytes]] = {}
    names: set[str] = set()
    for text in filter(None, open_ends):
        for match in _DECLARATION.finditer(text):
            found = _NAME.findall(match[1])
            declared |= dict.fromkeys(found, match[0])
            for name in found:
                types.setdefault(name, set()).add(match[0].split()[1])
            names.update(name.decode() for name in found)
        names.update(match[1].decode() for match in _LABEL.finditer(text))
    # If registers of two types have one name, it is unknown which of them a string refers to.
    declared = {name: text for name, text in declared.items() if len(types[name]) == 1}
    lent = any(b"{" in text or b"}" in text for text in open_ends)
    for ptx, text in zip(strings, open_ends, strict=True):
        own = {
            name for match in _DECLARATION.finditer(bytes(ptx.text.data)) for name in _NAME.findall(match[1])
        }
        used = set(_NAME.findall(bytes(ptx.text.data))) - own if declared else set()
        used |= {name.rstrip(b"0123456789") for name in used} - own
        wanted = dict.fromkeys(declared[name] for name in sorted(used & declared.keys()))
        ptx.borrowed = tuple(one.decode("latin-1") for one in wanted)
        if lent and len(strings) > 1 and sum(bool(set(b"{}") & set(other)) for other in open_ends) > 1:
            ptx.opened, ptx.closed = text.count(b"}"), text.count(b"{")
    return frozenset(names)


def exposed(strings: Sequence[Ptx]) -> Iterator[tuple[Ptx, Span, str]]:
    """The labels and registers that *strings*, those of one function, define outside braces, each with a description.

    Excluded are names that are unique in each copy of the statement, all names if strings share a scope, and registers
    that two strings name.
    """
    texts = [_open_ended(bytes(ptx.text.data)) for ptx in strings]
    if any(b"{" in text or b"}" in text for text in texts):
        return
    named = Counter(name for ptx in strings for name in set(_NAME.findall(bytes(ptx.text.data))))
    for ptx, text in zip(strings, texts, strict=True):
        for match in _DEFINED.finditer(text):
            kind = "label" if match["label"] else "register"
            span = ptx.text.whole(*match.span(kind))
            if span is not None and (kind == "label" or named[match[kind]] == 1):
                yield ptx, span, f"{kind} {_word(match[kind])}"


def braces(asm: Asm, ptx: Ptx) -> tuple[Fix, ...]:
    """The fix that encloses the text of a statement in braces; empty if the host may read a brace as something else."""
    data = asm.template.data
    if asm.dialect != "gcc" or ptx.unknown or b"//" in data[data.rfind(b"\n") + 1 :]:
        return ()
    ends = asm.template.host(0, 1).start, asm.template.host(len(data) - 1, len(data)).end
    edits = (Edit(Span(at, at), brace) for at, brace in zip(ends, "{}", strict=True))
    return (Fix("enclose the text in braces", tuple(edits), safe=False),)


def unused(ptx: Ptx, shared: Collection[str]) -> Iterator[tuple[Span, str]]:
    """The registers that a string declares and does not use, in the host; *shared* are those that others may use."""
    text = _COMMENT.sub(_blank, bytes(ptx.text.data))
    declarations = list(_DECLARATION.finditer(text))
    if not declarations:
        return
    uses = Counter(_NAME.findall(text))
    for declaration in declarations:
        for match in _NAME.finditer(text, *declaration.span(1)):
            name = match[0]
            numbered = text[match.end() : match.end() + 1] == b"<" and any(
                other != name and other.rstrip(b"0123456789") == name for other in uses
            )
            if uses[name] == 1 and not numbered and _word(name) not in shared:
                yield ptx.text.host(*match.span()), _word(name)


def _open_ended(text: bytes) -> bytes:
    """A string with blanks for its comments and for balanced pairs of braces with their contents."""
    if b"/" in text:
        text = _COMMENT.sub(_blank, text)
    count = 1
    while count:
        text, count = _GROUP.subn(_blank, text)
    return text


def _blank(match: re.Match[bytes]) -> bytes:
    return b" " * len(match[0])


_STATEMENT = re.compile(rb"//[^\n]*|/\*.*?(?:\*/|\Z)|[;{}()\[\]]|[\w$%]+\s*:(?!:)|\s+|[\w$%.]+|.", re.DOTALL)


def _without_unknown(data: bytearray) -> bool:
    """Blank every statement that contains an unknown piece, and return whether there was one.

    The braces of scopes are kept, so that the rest is still well formed if the pieces are.
    """
    if UNKNOWN not in data:
        return False
    begin, depth, kept = 0, 0, list[int]()
    fresh, dirty = True, False

    def blank(stop: int) -> None:
        for at in range(begin, stop):
            if at not in kept and data[at] not in b"\n":
                data[at] = 0x20

    found = False
    for match in _STATEMENT.finditer(bytes(data)):
        token, end = match[0], match.end()
        if token[:2] in (b"//", b"/*"):
            data[match.start() : end] = token.replace(bytes((UNKNOWN,)), b" ")
            found = found or UNKNOWN in token
            continue
        if token.isspace():
            continue
        if token == bytes((UNKNOWN,)):
            dirty = found = True
            fresh = False
        elif fresh and token in (b"{", b"}"):
            begin, kept = end, []
        elif fresh and token.endswith(b":"):
            begin = end
        elif token == b";":
            if dirty:
                blank(end)
            begin, depth, kept, fresh, dirty = end, 0, [], True, False
        elif token == b"}" and depth == 0 and dirty:
            # The unknown piece may have contained the end of its statement.
            kept = [match.start()]
            blank(match.start())
            begin, kept, fresh, dirty = end, [], True, False
        else:
            depth += (token in (b"{",)) - (token in (b"}",))
            fresh = False
    if dirty:
        blank(len(data))
    return found
