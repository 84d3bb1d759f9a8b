"""The types of what a kernel stores through each pointer, and the comparison of recorded results as those."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from tclint.commands._cli import cli
from tclint.executor.run import prepared
from tclint.executor.stored_types import Piece, pieces
from tclint.ir.frontend import analyse
from tclint.recording import read_recording
from tclint.syntax.source import Source
from tests.tools.recordings import write_recording
from tests.tools.support import HOPPER, kernel, module

POOL = 0x302000000
"""One allocation, in which ``pointer`` is at the beginning and ``other`` at byte 256, as of a pool of memory."""
START = """
    .shared .align 16 .b8 tile[1024];
    .shared .align 16 .b8 sums[1024];
    .reg .pred %half;
    ld.param.u64 %rd0, [pointer];
    ld.param.u64 %rd9, [other];
    mov.u32 %r0, %tid.x;
    setp.ge.u32 %half, %r0, 64;
    @%half exit;
    mul.wide.u32 %rd1, %r0, 4;
    add.u64 %rd2, %rd0, %rd1;
    add.u64 %rd3, %rd9, %rd1;
    mov.u32 %r5, tile;
    mov.u32 %r6, sums;
    shl.b32 %r7, %r0, 2;
    add.u32 %r8, %r5, %r7;
    add.u32 %r9, %r6, %r7;
    ld.global.b32 %r1, [%rd3];
"""
ROUND = "cvt.rn.bf16x2.f32 %r2, %f1, %f2;"
TO_TILE, FROM_TILE = "st.shared.b32 [%r8], %r2;\nbar.sync 0;", "ld.shared.b32 %r3, [%r8];"
COPY = "cp.async.ca.shared.global [%r8], [%rd3], 4;\ncp.async.wait_all;\nbar.sync 0;"
STORE = "st.global.b32 [%rd2], {};"


def recorded(folder: Path, lines: str, after: Any = None, before: Any = None) -> Path:
    """A recorded launch of a kernel of *lines*, with the contents of the allocation before and *after* it."""
    memory = np.zeros(128, np.uint32) if before is None else before
    text = module(
        kernel(START + lines + "\nret;", parameters=".param .u64 other, .param .u64 pointer"), header=HOPPER
    )
    values = [(POOL + 256).to_bytes(8, "little"), POOL.to_bytes(8, "little")]
    contents = {POOL: (memory.tobytes(), memory.tobytes() if after is None else after.tobytes())}
    return write_recording(folder / "launch", text, "k", values, contents, block=[128, 1, 1])


def split(folder: Path, lines: str) -> tuple[Piece, ...]:
    recording = read_recording(recorded(folder, lines))
    assert recording.ptx is not None
    found, problems = analyse(Source.read(str(recording.ptx)))
    assert not problems
    return pieces(prepared(found, "k"), found, recording)[POOL]


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["run", *arguments], standalone_mode=False)
    assert result.exception is None, result.exception
    return int(result.return_value), result.output


@pytest.mark.parametrize(
    ("lines", "type"),
    [
        ("st.global.f32 [%rd2], %f1;", "f32"),
        (".reg .f64 %fd1;\nst.global.f64 [%rd0], %fd1;", "f64"),
        (f"add.f32 %f1, %f2, %f3;\nmov.b32 %r2, %f1;\n{STORE.format('%r2')}", "f32"),
        (f"{ROUND}\n{STORE.format('%r2')}", "bf16"),
        (f"cvt.rn.f16x2.f32 %r2, %f1, %f2;\n{STORE.format('%r2')}", "f16"),
        (f"cvt.rn.f16.f32 %h1, %f1;\nmov.b32 %r2, {{%h1, %h1}};\n{STORE.format('%r2')}", "f16"),
        ("cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2;\nst.global.b16 [%rd2], %h1;", "e4m3"),
        (
            f"{ROUND}\nshfl.sync.bfly.b32 %r4, %r2, 1, 31, -1;\nselp.b32 %r3, %r4, 0, %p1;\n{STORE.format('%r3')}",
            "bf16",
        ),
        (f"{ROUND}\nprmt.b32 %r3, %r2, 0, 0x5410;\n{STORE.format('%r3')}", "bf16"),
        ("red.global.add.noftz.bf16x2 [%rd2], %r1;", "bf16"),
        ("red.global.add.f32 [%rd2], %f1;", "f32"),
        # Through shared memory, which a copy of a tile has filled before.
        (f"{ROUND}\n{TO_TILE}\n{FROM_TILE}\n{STORE.format('%r3')}", "bf16"),
        (f"{COPY}\n{ROUND}\n{TO_TILE}\n{FROM_TILE}\n{STORE.format('%r3')}", "bf16"),
        (f"{ROUND}\n{TO_TILE}\ncp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r5], 128;", "bf16"),
        # What has been there before a barrier is overwritten, and what lies between two barriers is written together.
        (
            f"st.shared.b32 [%r8], %r1;\nbar.sync 0;\n{ROUND}\n{TO_TILE}\n{FROM_TILE}\n{STORE.format('%r3')}",
            "bf16",
        ),
        # A constant is of any type.
        (f"mov.b32 %r2, 0;\n{STORE.format('%r2')}\nst.global.f32 [%rd2+128], %f1;", "f32"),
    ],
)
def test_the_type_is_that_of_what_computes_the_value(tmp_path: Path, lines: str, type: str) -> None:
    assert split(tmp_path, lines) == (Piece(0, 256, type), Piece(256, 512, ""))


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (STORE.format("%r1"), "not known"),
        (f"add.u32 %r2, %r1, 1;\n{STORE.format('%r2')}", "not known"),
        (f"{ROUND}\nxor.b32 %r2, %r2, 1;\n{STORE.format('%r2')}", "not known"),
        ("atom.global.cas.b32 %r2, [%rd2], 0, %r1;", "not known"),
        ("cvt.rn.satfinite.e2m1x2.f32 %h1, %f1, %f2;\nst.global.b16 [%rd2], %h1;", "not known"),
        (f"{ROUND}\n{STORE.format('%r2')}\nst.global.f32 [%rd2+128], %f1;", "several types (bf16, f32)"),
        (
            f"selp.b32 %r2, %r1, %r3, %p1;\ncvt.rn.f16x2.f32 %r3, %f1, %f2;\n{STORE.format('%r2')}",
            "not known",
        ),
        # What is loaded is what was copied, and the store is to another variable, or not on every path.
        (
            f"{COPY}\n{ROUND}\nst.shared.b32 [%r9], %r2;\nbar.sync 0;\n{FROM_TILE}\n{STORE.format('%r3')}",
            "not known",
        ),
        (
            f"{COPY}\n{ROUND}\n@%p1 bra over;\n{TO_TILE}\nover:\n{FROM_TILE}\n{STORE.format('%r3')}",
            "not known",
        ),
        (f"{COPY}\n{FROM_TILE}\n{STORE.format('%r3')}", "not known"),
        (
            f"st.shared.b32 [%r8+256], %r1;\n{ROUND}\n{TO_TILE}\n{FROM_TILE}\n{STORE.format('%r3')}",
            "not known",
        ),
        (
            f"st.shared.b32 [%r8], %r1;\nbar.sync 0;\n{ROUND}\n@%p1 bra over;\n{TO_TILE}\nover:\n{FROM_TILE}\n{STORE.format('%r3')}",
            "not known",
        ),
        (
            f"{ROUND}\n{STORE.format('%r2')}\nld.global.u64 %rd5, [%rd3];\nst.global.b32 [%rd5], %r2;",
            "not a parameter",
        ),
    ],
)
def test_bytes_are_compared_where_the_type_is_in_doubt(tmp_path: Path, lines: str, why: str) -> None:
    first, _ = split(tmp_path, lines)
    assert (first.type, why in first.why) == ("", True), first


SCALED = """
    ld.global.f32 %f1, [%rd3];
    fma.rn.f32 %f2, %f1, 0f3F800000, %f1;
    mov.b32 %r2, %f2;
    st.global.b32 [%rd2], %r2;"""


def scaled(folder: Path, wrong: float) -> str:
    """A launch that doubles 64 numbers of the second tensor into the first one, and what a GPU made of that."""
    numbers = np.arange(1, 65, dtype=np.float32)
    before = np.concatenate([np.zeros(64, np.float32), numbers])
    after = np.concatenate([2 * numbers * np.float32(1 + wrong), numbers])
    return str(recorded(folder, SCALED, after, before))


def test_results_are_compared_as_the_type_that_is_stored(tmp_path: Path) -> None:
    folder = scaled(tmp_path, 2.0**-18)
    code, output = invoke(folder)
    assert (code, "1 of 1 allocations change, as on the GPU, within rounding as f32 (lazy)" in output) == (
        0,
        True,
    )
    assert invoke(folder, "--tolerance", "0")[0] == 1
    assert invoke(folder, "--type", "u32")[0] == 1


def test_a_difference_is_that_of_the_tensor_and_not_of_the_pool(tmp_path: Path) -> None:
    code, output = invoke(scaled(tmp_path, 2.0**-8))
    assert code == 1
    assert "buffer_0 at 0x302000000: 64 of 64 values (f32, 100 %) differ from those of the GPU" in output
    assert "the largest difference is 0.5, from 128.5" in output


def test_equal_bytes_need_no_type(tmp_path: Path) -> None:
    code, output = invoke(scaled(tmp_path, 0))
    assert (code, "as on the GPU, byte for byte (lazy)" in output) == (0, True)


def test_that_bytes_are_compared_is_said(tmp_path: Path) -> None:
    after = np.zeros(128, np.uint32)
    after[3] = 1
    code, output = invoke(str(recorded(tmp_path, STORE.format("%r1"), after)))
    assert code == 1
    assert (
        "1 of 64 values (4-byte word, 1.6 %) differ from those of the GPU, the first at byte 12: 0x0 instead of 0x1; the type "
        "of what is stored there is not known: name their --type to compare them as numbers" in output
    )
