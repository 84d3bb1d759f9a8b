"""Inline assembly: the strings of PTX in CUDA C++ and Python.

:func:`check` builds one module from all strings of a file, each as the body of a function, and passes it through the same
parser, IR and checks as any other module; the spans of findings refer to the file. Only rules about single instructions
are checked (``inline`` on their pages), because the code around a string, and so the control flow, is unknown. A file is
parsed only if it has a word that such strings come with. Imports ``linting`` and the layers below it.

Change this package to find strings in another host language, or to understand more of a statement around them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tclint.findings.finding import FileReport
    from tclint.findings.selection import Selected
    from tclint.findings.spans import Span
    from tclint.isa.target import Version
    from tclint.syntax.source import Source

__all__ = ["check", "string_at"]


def check(
    source: Source,
    selected: Selected | None = None,
    toolkit: Version | None = None,
    arch: str | None = None,
) -> FileReport:
    """The report of linting the PTX strings in a CUDA C++ or Python source; the language follows from its name.

    The spans of findings refer to *source*. ``report.asm`` counts the strings, those with pieces that only the
    preprocessor or Python can determine (statements without such a piece are checked), and those of which it is unknown
    whether they are compiled for *arch* (``sm_90a``; without it, availability is not checked). *toolkit* is the CUDA toolkit
    that will compile them. A Python string that is a whole module is checked as such, by all rules.
    """
    from tclint.inline.module import check

    return check(source, selected, toolkit, arch)


def string_at(data: bytes, path: str, offset: int) -> Span | None:
    """The piece of a PTX string in a CUDA C++ or Python source that *offset* is in; None if it is in none.

    A piece ends where its string does, or at an escape.
    """
    from tclint.inline.module import string_at

    return string_at(data, path, offset)
