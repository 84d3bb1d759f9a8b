"""Where the instructions of a function are: lines of the PTX, and of the source that ``.loc`` names."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from tclint.findings.places import source_location
from tclint.inspect.tables import few
from tclint.ir.nodes import Function, Module
from tclint.syntax.source import Source

__all__ = ["Locations"]


class Locations:
    """The locations of the instructions of one function."""

    def __init__(self, source: Source, module: Module, function: Function) -> None:
        self._source, self._module, self._function = source, module, function

    def line(self, site: int) -> int:
        function = self._function
        return self._source.position(function.start + function.instructions[site].start).line

    def lines(self, sites: Iterable[int]) -> list[int]:
        return list(dict.fromkeys(self.line(i) for i in sites))

    def source(self, site: int) -> tuple[str, int] | None:
        found = source_location(self._module, self._function.location(site))
        return (found.file, found.line) if found is not None else None

    def words(self, sites: Sequence[int]) -> str:
        """``line 12, 15 (ring.cu:7)``; if that is inlined, the outermost call comes first: ``(ring.cu:40, wait.cuh:7)``."""
        text = few(list(map(str, self.lines(sites))))
        function = self._function
        found = next(filter(None, (source_location(self._module, function.location(i)) for i in sites)), None)
        places = (
            () if found is None else dict.fromkeys((*found.inlined_at[-1:], replace(found, inlined_at=())))
        )
        shown = ", ".join(f"{os.path.basename(place.file)}:{place.line}" for place in places)
        return f"line {text}" + (f" ({shown})" if shown else "")

    def json(self, sites: Iterable[int]) -> list[dict[str, Any]]:
        found = []
        for site in sites:
            source = self.source(site)
            location: dict[str, Any] = {"line": self.line(site), "source": None}
            if source is not None:
                location["source"] = {"file": source[0], "line": source[1]}
            if location not in found:
                found.append(location)
        return found
