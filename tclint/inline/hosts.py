"""The file names that identify sources with possible inline assembly."""

from __future__ import annotations

__all__ = ["CPP", "MISSING", "PYTHON", "SUFFIXES", "is_host"]

CPP = (".cu", ".cuh", ".h", ".hh", ".hpp", ".hxx", ".cc", ".cpp", ".cxx", ".c++", ".h++", ".inl")
PYTHON = (".py", ".pyi")
SUFFIXES = (*CPP, *PYTHON)
"""The suffixes of files that are searched for inline assembly."""

MISSING = "checking inline assembly in CUDA C++ and Python requires tree-sitter grammars: pip install 'tclint-ptx[inline]'"


def is_host(path: str, member: str | None = None) -> bool:
    """Whether a file with this name is searched for inline assembly; a *member* is PTX that was made of it."""
    return member is None and path.lower().endswith(SUFFIXES)
