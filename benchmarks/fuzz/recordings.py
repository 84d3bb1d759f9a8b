"""Recorded launches as a surface to fuzz: the folder that ``tclint run FOLDER`` and ``check --launch FOLDER`` read.

An input is the ``launch.json`` of the folder. The kernel and the memory beside it are not changed: other runs change
kernels, and the contents of memory decide nothing in a reader but their size.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path

__all__ = ["read", "seeds"]

_SECONDS = 0.2
"""How long a launch may be executed."""
_KERNEL = """\
.version 8.6
.target sm_90a
.address_size 64
.visible .entry copied(.param .align 64 .b8 map[128], .param .u64 to, .param .u32 count)
{
    .reg .pred %p<4>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<8>;
    .shared .align 128 .b8 tile[256];
    .shared .align 8 .b64 full;
    mov.b64 %rd0, map;
    cvta.param.u64 %rd0, %rd0;
    ld.param.u64 %rd1, [to];
    ld.param.u32 %r1, [count];
    mov.u32 %r0, %tid.x;
    mov.u32 %r2, 0;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra READY;
    mbarrier.init.shared::cta.b64 [full], 1;
    fence.mbarrier_init.release.cluster;
READY:
    bar.sync 0;
    @%p0 bra WAIT;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 256;
    cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [tile], [%rd0, {%r2}], [full];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [full], 0;
    @!%p1 bra WAIT;
    setp.ge.u32 %p2, %r0, %r1;
    @%p2 bra END;
    mov.u32 %r3, tile;
    mad.lo.u32 %r3, %r0, 4, %r3;
    ld.shared.u32 %r4, [%r3];
    mad.wide.u32 %rd2, %r0, 4, %rd1;
    st.global.u32 [%rd2], %r4;
END:
    ret;
}
"""
_CONTENTS = struct.pack("<64I", *range(64))
_FILES = {
    "kernel.ptx": _KERNEL.encode(), "0.before": bytes(256), "0.after": _CONTENTS, "1.before": _CONTENTS,
}  # fmt: skip


def seeds() -> list[bytes]:
    """Launches with and without results, a cluster, and what could not be recorded."""
    encoded = bytes(range(128))
    parameters = encoded + struct.pack("<QI", 0x302000000, 64)
    tensor_map = {
        "bytes": encoded.hex(), "mode": "tile", "address": 0x7F4400000000, "type": 2, "dimensions": [64], "strides": [],
        "element_strides": [1], "box": [64], "interleave": 0, "swizzle": 0, "fill": 0,
    }  # fmt: skip
    launch = {
        "version": 1, "kernel": "copied", "grid": [1, 1, 1], "block": [64, 1, 1], "shared": 0,
        "parameters": {"bytes": parameters.hex(), "layout": [[0, 128], [128, 8], [136, 4]]}, "maps": [tensor_map],
        "buffers": [
            {"address": 0x302000000, "size": 256, "before": "0.before", "after": "0.after"},
            {"address": 0x7F4400000000, "size": 256, "before": "1.before"},
        ],
        "end": "done", "ptx": "kernel.ptx",
    }  # fmt: skip
    images = {**tensor_map, "mode": "im2col", "lower": [0], "upper": [0], "channels": 8, "pixels": 8}
    missing = [{"address": 0x302000000, "size": 256, "problem": "out of memory", "variable": "to"}]
    launches = (
        launch,
        {**launch, "cluster": [1, 1, 1], "grid": [2, 1, 1], "end": "unfinished"},
        {**launch, "maps": [images]},
        {**launch, "buffers": missing},
    )
    return [json.dumps(changed).encode() for changed in launches]


def read(data: bytes, folder: Path) -> str:
    """Executes the launch of a folder with *data*, and checks the kernel with it, if it is not refused."""
    import click

    from tclint.commands._common import source_of
    from tclint.commands._run import RunError, RunOptions, render_json, render_text, run
    from tclint.findings.selection import Request
    from tclint.linting.check import check_source
    from tclint.recording import read_recording
    from tclint.syntax.source import Source, SourceError

    _write(data, folder)
    ends = []
    try:
        ptx, _ = source_of(str(folder), "run")
        result = run(Source.read(ptx), RunOptions(folder, seconds=_SECONDS))
        json.loads(render_json(result).encode())
        render_text(result)
        ends.append("executed")
    except (click.ClickException, RunError, SourceError) as error:
        str(error)
        ends.append("not executed")
    try:
        check_source(Source.from_bytes(_KERNEL.encode(), "k.ptx"), Request(recorded=read_recording(folder)))
        ends.append("checked")
    except SourceError as error:
        str(error)
        ends.append("refused")
    return " and ".join(ends)


def _write(data: bytes, folder: Path) -> None:
    for name, content in _FILES.items():
        (folder / name).write_bytes(content)
    (folder / "launch.json").write_bytes(data)
