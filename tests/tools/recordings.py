"""Folders of recorded launches, as ``tclint capture`` writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.tools.support import HOPPER, module

DOUBLE = module(
    """
.visible .entry double(.param .u64 to, .param .u64 from, .param .u32 count)
{
    .reg .pred %p;
    .reg .b32 %r<4>;
    .reg .b64 %rd<6>;
    .reg .f32 %f<3>;
    ld.param.u64 %rd1, [to];
    ld.param.u64 %rd2, [from];
    ld.param.u32 %r1, [count];
    mov.u32 %r2, %tid.x;
    setp.ge.u32 %p, %r2, %r1;
    @%p bra END;
    mul.wide.u32 %rd3, %r2, 4;
    add.s64 %rd4, %rd2, %rd3;
    add.s64 %rd5, %rd1, %rd3;
    ld.global.f32 %f1, [%rd4];
    add.f32 %f2, %f1, %f1;
    st.global.f32 [%rd5], %f2;
END:
    ret;
}
""",
    header=HOPPER,
)
"""A kernel that writes twice each number."""


def write_recording(
    folder: Path,
    ptx: str,
    kernel: str,
    values: list[bytes],
    memory: dict[int, tuple[bytes, bytes | None]],
    **changes: Any,
) -> Path:
    """A folder with a launch of one CTA of 64 threads.

    *values* are the parameters, each at its natural alignment; *memory* has the contents of memory before and after the
    launch by address, with None for unchanged; *changes* replace keys of the description.
    """
    folder.mkdir()
    layout, data = [], b""
    for value in values:
        data += bytes(-len(data) % min(len(value), 8))
        layout.append([len(data), len(value)])
        data += value
    described = []
    for number, (address, (before, after)) in enumerate(memory.items()):
        entry = {"address": address, "size": len(before), "before": f"buffer_{number}.before"}
        (folder / entry["before"]).write_bytes(before)  # type: ignore[operator]
        if after is not None:
            entry["after"] = f"buffer_{number}.after"
            (folder / f"buffer_{number}.after").write_bytes(after)
        described.append(entry)
    (folder / "kernel.ptx").write_text(ptx)
    description = {
        "version": 1, "kernel": kernel, "grid": [1, 1, 1], "block": [64, 1, 1], "shared": 0,
        "parameters": {"bytes": data.hex(), "layout": layout}, "maps": [], "buffers": described, "end": "done",
        "ptx": "kernel.ptx",
    }  # fmt: skip
    (folder / "launch.json").write_text(json.dumps(description | changes))
    return folder
