"""The file names and words that identify sources with possible inline assembly."""

from __future__ import annotations

from tclint._pattern import pattern

__all__ = ["CPP", "HEADERS", "PYTHON", "SUFFIXES", "is_host", "is_python", "may_have_ptx"]

CPP = (".cu", ".cuh", ".h", ".hh", ".hpp", ".hxx", ".cc", ".cpp", ".cxx", ".c++", ".h++", ".inl")
PYTHON = (".py", ".pyi")
SUFFIXES = (*CPP, *PYTHON)
"""The suffixes of files that are searched for inline assembly."""

HEADERS = (".cuh", ".h", ".hh", ".hpp", ".hxx", ".h++", ".inl")
"""Those of ``CPP`` that a compiler reads only as a part of another file."""

_ASM = pattern(rb"\b(?:asm|__asm__|__asm)\b")
_PTX = pattern(
    rb"\b(?:inline_asm_elementwise|inline_asm|InlineAsm)\b|tclint:\s*ptx\b|\.version[\s\"'\\nt]*[\d{]"
    rb"|\b(?:RawKernel|RawModule|SourceModule|load_inline)\b|[\"']c\+\+[\"']"
)


def is_host(path: str, member: str | None = None) -> bool:
    """Whether a file with this name is searched for inline assembly; a *member* is PTX that was made of it."""
    return member is None and path.lower().endswith(SUFFIXES)


def is_python(path: str) -> bool:
    """Whether a source with this name is Python, and else C++."""
    return path.lower().endswith(PYTHON)


def may_have_ptx(path: str, data: bytes) -> bool:
    """Whether the source *path* has a word without which there is no PTX in its strings; others need not be parsed."""
    return (_PTX if is_python(path) else _ASM).search(data) is not None
