"""Kernels made for a test, executed: PTX body lines in, buffers and observations out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tclint.executor.run import Execution, Memories, Policy, execute, layout, prepared
from tclint.executor.schedule import Schedule
from tclint.executor.state import Geometry
from tests.tools.support import HEADER, built, kernel, module

Array = Any
Three = tuple[int, int, int]

SCHEDULES = ("eager", "lazy", "random:1")
REGISTERS = """\
    .reg .pred %p<32>;
    .reg .b16 %h<32>;
    .reg .b32 %r<200>;
    .reg .f32 %f<64>;
    .reg .b64 %rd<64>;
    .reg .b128 %q<8>;
    .shared .align 1024 .b8 smem[65536];
    .shared .align 8 .b64 bars[16];
"""
OUT = """\
    mov.u32 %r199, %tid.x;
    mov.u32 %r198, %ctaid.x;
    mov.u32 %r197, %ntid.x;
    mad.lo.u32 %r196, %r198, %r197, %r199;
    ld.param.u64 %rd63, [out];
    mad.wide.u32 %rd62, %r196, 8, %rd63;
"""
"""Every thread has its thread number in ``%r199``, its own eight bytes of the buffer ``out`` at ``%rd62``, all of it at
``%rd63``, and the number of its CTA in ``%r198``."""


@dataclass
class Run:
    """What one execution left."""

    execution: Execution
    buffers: dict[str, Array]
    lines: list[str]
    """The instructions, as written."""

    @property
    def out(self) -> list[int]:
        """What each thread left in its eight bytes of ``out``."""
        found: list[int] = self.buffers["out"].tolist()
        return found

    @property
    def kinds(self) -> list[str]:
        """The kinds of the observations, each once."""
        return sorted({o.kind for o in self.execution.observations})

    @property
    def messages(self) -> list[str]:
        return [o.message for o in self.execution.observations]


def run(
    body: str,
    *,
    block: int | Three = 32,
    grid: int | Three = 1,
    cluster: int | Three | None = None,
    buffers: Mapping[str, Array] | None = None,
    how: str | Schedule = "lazy",
    before: str = "",
    header: str = HEADER,
    dynamic: int = 0,
    steps: int = 200_000,
    values: Iterable[bytes | Callable[[Memories], bytes]] = (),
    parameters: str = "",
    registers: str = REGISTERS,
    directives: str = "",
) -> Run:
    """Execute a kernel with *body*: its first parameter is ``out``, the others are the *buffers* and *parameters*.

    *before* are declarations of the module, *values* the bytes of the additional *parameters*, or what gives them.
    """
    three, many, wide = _three(block), _three(grid), _three(cluster or 1)
    threads = int(np.prod(three)) * int(np.prod(many))
    given = {"out": np.zeros(threads, np.uint64), **(buffers or {})}
    names = ", ".join(f".param .u64 {name}" for name in given) + parameters
    text = module(
        before,
        kernel(OUT + body, parameters=names, directives=directives, registers=registers),
        header=header,
    )
    made = built(text)
    assert not any(f.damaged for f in made.functions), text
    function = prepared(made, "k")
    memories = Memories(made, given)
    pointers = [memories.memory.address(name).to_bytes(8, "little") for name in given]
    more = [value if isinstance(value, bytes) else value(memories) for value in values]
    geometry = Geometry(many, three, wide, dynamic, cluster is not None)
    lines = [text[function.start + i.start : function.start + i.end] for i in function.instructions]
    execution = execute(
        made, function, geometry, memories, layout(function, [*pointers, *more]), Policy(how, steps),
    )  # fmt: skip
    return Run(execution, {n: memories.get(n, a) for n, a in given.items()}, lines)


def done(body: str, **options: Any) -> Run:
    """As :func:`run`, of a kernel that must come to its end."""
    found = run(body, **options)
    assert found.execution.end == "done", found.execution.reason
    return found


def right(body: str, **options: Any) -> Run:
    """As :func:`run`, of a kernel with nothing wrong."""
    found = done(body, **options)
    assert not found.execution.observations, found.messages
    return found


def _three(value: int | Three) -> Three:
    return (value, 1, 1) if isinstance(value, int) else value
