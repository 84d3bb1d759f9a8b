"""Regular expressions that are cheap to define: :func:`pattern` is ``re.compile``, which happens on first use.

For patterns that many runs do not use: compiling one takes as long as linting some statements.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

__all__ = ["pattern"]

if TYPE_CHECKING:
    from re import compile as pattern
else:

    class pattern:
        """As ``re.compile``, but an error in the pattern is raised on first use."""

        def __init__(self, text, flags=0):
            self._given = text, flags

        def __getattr__(self, name):
            """The attribute of the compiled pattern, kept for the next time."""
            value = getattr(re.compile(*self._given), name)
            setattr(self, name, value)
            return value
