"""PTX where people write it: the strings of inline assembly in CUDA C++ and Python.

:func:`check` makes a module of all the strings of a file, each one the body of a function, and has the same parser, IR
and checks look at it as at any other; the findings come back with spans in the file. Only what an instruction says by
itself is checked (``RULES``): the code around a string, and with it control flow, is not known.

The grammars of the hosts come with ``tclint-ptx[inline]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tclint.config import Config
    from tclint.finding import FileReport
    from tclint.source import Source

__all__ = ["CPP", "MISSING", "PYTHON", "SUFFIXES", "check", "is_host"]

CPP = (".cu", ".cuh", ".h", ".hh", ".hpp", ".hxx", ".cc", ".cpp", ".cxx", ".c++", ".h++", ".inl")
PYTHON = (".py", ".pyi")
SUFFIXES = (*CPP, *PYTHON)
"""The names of files that are looked into for inline assembly."""

MISSING = "looking into CUDA C++ and Python for inline assembly needs tree-sitter grammars: pip install 'tclint-ptx[inline]'"


def is_host(path: str) -> bool:
    """Whether a file of this name is looked into for inline assembly."""
    return path.lower().endswith(SUFFIXES)


def check(source: Source, config: Config | None = None) -> FileReport:
    """Lint the PTX in the strings of a CUDA C++ or Python source, going by its name.

    Spans of findings are those of *source*. ``report.asm`` says how many strings there are, how many of them have
    pieces that only the preprocessor or Python knows (the statements without one are checked), and for how many it is
    not known whether they are compiled for ``config.arch``. A Python string that is a whole module is checked as such,
    by all rules. Raises SourceError where the grammars are not installed and the source may have inline assembly.
    """
    from tclint.inline.module import check

    return check(source, config)
