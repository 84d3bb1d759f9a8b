"""Which files are looked into for inline assembly, by their names."""

from __future__ import annotations

__all__ = ["CPP", "MISSING", "PYTHON", "SUFFIXES", "is_host"]

CPP = (".cu", ".cuh", ".h", ".hh", ".hpp", ".hxx", ".cc", ".cpp", ".cxx", ".c++", ".h++", ".inl")
PYTHON = (".py", ".pyi")
SUFFIXES = (*CPP, *PYTHON)
"""The names of files that are looked into for inline assembly."""

MISSING = "looking into CUDA C++ and Python for inline assembly needs tree-sitter grammars: pip install 'tclint-ptx[inline]'"


def is_host(path: str) -> bool:
    """Whether a file of this name is looked into for inline assembly."""
    return path.lower().endswith(SUFFIXES)
