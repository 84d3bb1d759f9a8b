"""What ``tclint run --count`` prints: what accesses to memory cost, by line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tclint._named_tuple import NamedTuple
from tclint.executor.costs import Count
from tclint.executor.run import Execution
from tclint.inspect.locations import Locations
from tclint.inspect.tables import Cells, columns, short_name
from tclint.ir.nodes import Module
from tclint.syntax.source import Source

__all__ = ["count_lines", "counts_json"]

_HEAD: Cells = ("line", "instruction", "executions", "wavefronts", "ideal", "conflicts", "sectors", "ideal")


class _Line(NamedTuple):
    """What is counted together: an instruction of a line."""

    where: str
    opcode: str


def count_lines(source: Source, module: Module, execution: Execution) -> Iterator[str]:
    """A table of what was executed, by line of the source if ``.loc`` names one, else of the PTX, in order of the PTX."""
    at = Locations(source, module, execution.function)
    found: dict[_Line, Count] = {}
    total = Count()
    for site, count in _executed(execution):
        named = at.source(site)
        where = f"{short_name(named[0])}:{named[1]}" if named is not None else str(at.line(site))
        line = _Line(where, execution.function.instructions[site].opcode)
        found.setdefault(line, Count()).add(count)
        total.add(count)
    if not found:
        yield "  no access to shared or global memory was counted"
        return
    rows = [_HEAD, *(_cells(*line, count) for line, count in found.items())]
    if len(found) > 1:
        rows.append(_cells("all", "", total))
    yield from (f"  {line}" for line in columns(rows))


def _cells(where: str, opcode: str, count: Count) -> Cells:
    shared, outside = count.wavefronts > 0, count.sectors > 0
    conflicts = count.wavefronts - count.ideal_wavefronts
    return (
        where, opcode, f"{count.executions:,}",
        *(f"{n:,}" if shared else "-" for n in (count.wavefronts, count.ideal_wavefronts, conflicts)),
        *(f"{n:,}" if outside else "-" for n in (count.sectors, count.ideal_sectors)),
    )  # fmt: skip


def counts_json(source: Source, module: Module, execution: Execution) -> list[dict[str, Any]]:
    """The same for each instruction of the PTX."""
    at = Locations(source, module, execution.function)
    return [
        {
            **at.json([site])[0],
            "instruction": execution.function.instructions[site].opcode,
            "executions": count.executions,
            "wavefronts": count.wavefronts,
            "ideal_wavefronts": count.ideal_wavefronts,
            "sectors": count.sectors,
            "ideal_sectors": count.ideal_sectors,
        }
        for site, count in _executed(execution)
    ]


def _executed(execution: Execution) -> Iterator[tuple[int, Count]]:
    """The instructions that were executed with an access that is counted."""
    return ((site, count) for site, count in sorted(execution.counts.items()) if count.executions)
