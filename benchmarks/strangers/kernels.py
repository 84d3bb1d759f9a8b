"""Modules with one kernel each, made of modules with many, and what identifies a kernel.

This reads text and does not use tclint's parser, so that a kernel that tclint cannot read is still in the set.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Kernel", "asynchronous", "digest", "family", "kernels", "skeleton"]

_TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"[^"\n]*"|[{};\n]', re.DOTALL)
_NAME = re.compile(r"[A-Za-z_$%][\w$]*")
_ENTRY = re.compile(r"\.entry\s+([\w$%]+)")
_HEADER = re.compile(r"\.(?:version|target|address_size|file|pragma|alias)\b")
_LABEL = re.compile(r"^\s*([A-Za-z_$%][\w$]*):", re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_OPCODE = re.compile(
    r"(?:^|[;{}:])\s*(?:@!?\s*[\w$%]+\s+)?([a-z]\w*(?:(?:::|\.)\w+)*)\b(?!\s*:)", re.MULTILINE
)
_ASYNCHRONOUS = re.compile(
    r"\b(?:mbarrier\.|wgmma\.|tcgen05\.|cp\.async\.bulk|cp\.reduce\.async\.bulk|st\.async\b)"
)
_TARGET = re.compile(r"^\s*\.target\s+(\w+)", re.MULTILINE)


class Kernel(NamedTuple):
    """A module with one kernel, as text."""

    name: str
    """The name of the entry, mangled as it is."""
    text: str

    @property
    def target(self) -> str:
        """The architecture in ``.target``, or ``?``."""
        found = _TARGET.search(_COMMENT.sub("", self.text[:20_000]))
        return found[1] if found else "?"


def kernels(text: str) -> Iterator[Kernel]:
    """Each kernel of a module, with the functions and variables that it refers to, directly or not.

    The lines of a module with one kernel are not changed. The others keep only those debug sections whose labels they use.
    """
    entries = _ENTRY.findall(_COMMENT.sub("", text))
    if len(entries) == 1:
        yield Kernel(entries[0], text)
    if len(entries) < 2:
        return
    chunks = list(_chunks(text))
    names = [frozenset(_NAME.findall(_COMMENT.sub("", chunk))) for chunk in chunks]
    owner: dict[str, list[int]] = {}
    heads, roots = set(), []
    for index, chunk in enumerate(chunks):
        head = _COMMENT.sub("", chunk).partition("{")[0]
        if entry := _ENTRY.search(head):
            roots.append((entry[1], index))
        elif ".section" in head:
            for label in _LABEL.findall(chunk):
                owner.setdefault(label, []).append(index)
        elif _HEADER.search(head):
            heads.add(index)
        else:
            declared = _declared(head)
            if declared:
                owner.setdefault(declared, []).append(index)
    for name, root in roots:
        kept, work = {root, *heads}, [root]
        while work:
            for word in names[work.pop()]:
                new = [i for i in owner.get(word, ()) if i not in kept]
                kept.update(new)
                work += new
        yield Kernel(name, "".join(chunks[i] for i in sorted(kept)))


def _declared(head: str) -> str:
    """The name that a declaration outside of kernels gives: a function's, or a variable's."""
    found = re.search(r"\.func\s*(?:\([^)]*\))?\s*([\w$%]+)", head)
    if found:
        return found[1]
    found = re.search(r"([A-Za-z_$%][\w$]*)\s*(?:\[[^\]]*\]\s*)*(?:=|;|$)", head.strip())
    return found[1] if found else ""


def _chunks(text: str) -> Iterator[str]:
    """The text in pieces that end with a declaration, a function or a line of the header."""
    start = depth = 0
    initialiser = False
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token == "{":
            initialiser |= not depth and "=" in text[start : match.start()]
            depth += 1
        elif token == "}":
            depth -= 1
        ends = not depth and (
            (token == "}" and not initialiser)
            or token == ";"
            or (token == "\n" and _HEADER.search(_COMMENT.sub("", text[start : match.start()])) is not None)
        )
        if ends:
            yield text[start : match.end()]
            start, initialiser = match.end(), False
    if text[start:].strip():
        yield text[start:]


def digest(text: str) -> str:
    """The first 16 digits of the SHA-256 of a kernel's text, which name it everywhere."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def skeleton(text: str) -> str:
    """A digest of the sequence of opcodes: the same for kernels that differ in registers, constants and names only."""
    opcodes = _OPCODE.findall(_COMMENT.sub("", text))
    return hashlib.sha256(" ".join(opcodes).encode()).hexdigest()[:16]


def asynchronous(text: str) -> bool:
    """Whether a kernel has mbarriers, wgmma, tcgen05 or bulk copies."""
    return _ASYNCHRONOUS.search(_COMMENT.sub("", text)) is not None


def family(name: str) -> str:
    """What instances of one template share: the identifiers of a mangled name before its template arguments."""
    found = re.match(r"_ZN?K?", name)
    if found is None:
        return re.sub(r"\d+", "#", name)
    at, parts = found.end(), []
    while number := re.match(r"(\d+)", name[at:]):
        begin = at + number.end()
        at = begin + int(number[1])
        parts.append(name[begin:at])
    return re.sub(r"\d+", "#", "::".join(parts)) or name
