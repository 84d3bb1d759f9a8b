"""What ptxas makes of each kernel: in words, one line for each, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tclint.findings.figures import Assembled, figures_line
from tclint.findings.finding import FileReport
from tclint.findings.places import displayed_name
from tclint.report.formats._style import shortened

__all__ = ["as_object", "lines", "names"]


def lines(report: FileReport, made: Assembled) -> Iterator[str]:
    """``kernel gemm in gemm.ptx: 168 registers, 1 barrier (ptxas 13.5.37, sm_90a)``."""
    for kernel in made.kernels:
        where = f"kernel {shortened(kernel.kernel)} in" if kernel.kernel else "module"
        yield f"{where} {displayed_name(report)}: {figures_line(kernel)} (ptxas {made.ptxas}, {made.target})"


def names(made: Assembled) -> Iterator[tuple[str, str]]:
    """``gemm.registers`` and the number, for each figure."""
    for kernel in made.kernels:
        for name, amount in kernel.figures:
            yield f"{kernel.kernel or 'module'}.{name}", "unknown" if amount is None else str(amount)


def as_object(made: Assembled) -> dict[str, Any]:
    """The version of ptxas, the target, and the figures of each kernel."""
    kernels = [{"entry": kernel.kernel or None, "figures": dict(kernel.figures)} for kernel in made.kernels]
    return {"version": made.ptxas, "target": made.target or None, "kernels": kernels}
