"""Where instructions are, in words."""

from __future__ import annotations

from tclint.inspect.locations import Locations
from tclint.ir.frontend import analyse
from tclint.syntax.source import Source

TEXT = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k()
{
    .loc 1 5 3
    bar.sync 0;
    .loc 2 17 5, function_name $name, inlined_at 1 6 9
    bar.sync 1;
    .loc 1 7 3
    ret;
}
.file 1 "/src/k.cu"
.file 2 "/src/wait.cuh"
"""


def test_an_inlined_line_follows_that_of_the_outermost_call() -> None:
    source = Source.from_bytes(TEXT.encode(), "k.ptx")
    module, _ = analyse(source)
    (function,) = module.functions
    words = Locations(source, module, function).words
    assert words((0,)) == "line 7 (k.cu:5)"
    assert words((1, 2)) == "line 9, 11 (k.cu:6, wait.cuh:17)"
