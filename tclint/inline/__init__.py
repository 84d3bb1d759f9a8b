"""PTX where people write it: the strings of inline assembly in CUDA C++ and Python.

:func:`check` makes one module of all strings of a file, each the body of a function, and passes it through the same
parser, IR and checks as any other module; spans of the findings are those of the file. Only what an instruction says
by itself is checked (``RULES``), because the code around a string, and so control flow, is unknown. The grammars of
the host languages come with ``tclint-ptx[inline]``. Imports ``linting`` and what is below.

Change this package to find strings in another host language, or to understand more of a statement around them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tclint.config.config import Config
    from tclint.findings.finding import FileReport
    from tclint.syntax.source import Source

__all__ = ["check"]


def check(source: Source, config: Config | None = None) -> FileReport:
    """Lint the PTX in the strings of a CUDA C++ or Python source, going by its name.

    Spans of findings are those of *source*. ``report.asm`` says how many strings there are, how many of them have
    pieces that only the preprocessor or Python knows (the statements without one are checked), and for how many it is
    not known whether they are compiled for ``config.arch``. A Python string that is a whole module is checked as such,
    by all rules. Raises SourceError where the grammars are not installed and the source may have inline assembly.
    """
    from tclint.inline.module import check

    return check(source, config)
