"""What ``tclint show`` shows of a kernel, and kernels for it."""

from __future__ import annotations

import json
from typing import Any

from tclint.findings.selection import Selected
from tclint.ir.frontend import analyse
from tclint.linting.check import check_source
from tclint.report.fold import fold
from tclint.report.summary import present
from tclint.show.kernel import kernel as describe
from tclint.syntax.source import Source

NASTY = '</script><img src="x" onerror="document.title=1">'


def page_data(text: str, entry: str | None = None, **options: Any) -> dict[str, Any]:
    """What is shown of the only kernel of a module, or of the one called *entry*; it must be what JSON can hold."""
    source = Source.from_bytes(text.encode(), "kernel.ptx")
    found, _ = analyse(source)
    (function,) = (f for f in found.functions if f.instructions and entry in (None, f.name))
    (report,), _ = fold(*present([check_source(source)], Selected()))
    data = describe(source, found, function, report, **options)
    assert json.loads(json.dumps(data)) == data
    return data


LOCATED = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k()
{
    .loc 1 2 3
    ret;
}
.file 1 "NAME"
"""
