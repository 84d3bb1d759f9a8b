"""Execution of recorded launches: the same memory at the same addresses, and the results of the GPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from tclint.commands._cli import cli
from tclint.executor.memory import Fault, Global
from tclint.executor.recorded import read
from tests.tools.recordings import DOUBLE, write_recording
from tests.tools.support import HOPPER, module

LOW, NEAR_SHARED, HIGH = 0x302000000, 0x71AA00000100, 0x7F4400000000
"""Addresses that drivers give: of a memory pool, in a window that shared memory of other kernels has, and usual ones."""
NUMBERS = np.arange(64, dtype=np.float32)


def pointer(address: int) -> bytes:
    return address.to_bytes(8, "little")


def doubled(
    tmp_path: Path, to: int = LOW, source: int = NEAR_SHARED, after: Any = 2 * NUMBERS, **changes: Any
) -> Path:
    buffers = {to: (bytes(256), after.tobytes()), source: (NUMBERS.tobytes(), None)}
    values = [pointer(to), pointer(source), (64).to_bytes(4, "little")]
    return write_recording(tmp_path / "folder", DOUBLE, "double", values, buffers, **changes)


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["run", *arguments], standalone_mode=False)
    if result.exception is not None:
        return 2, str(result.exception)
    return int(result.return_value), result.output


@pytest.mark.parametrize("to", [LOW, HIGH])
def test_a_recorded_launch_runs_to_the_results_of_the_gpu(tmp_path: Path, to: int) -> None:
    code, output = invoke(str(doubled(tmp_path, to)))
    assert (code, "1 of 2 allocations change, as on the GPU, byte for byte (lazy)" in output) == (0, True)


def test_what_differs_from_the_gpu_is_reported_with_its_place(tmp_path: Path) -> None:
    after = 2 * NUMBERS
    after[[3, 5]] = 7
    code, output = invoke(str(doubled(tmp_path, after=after)))
    assert code == 1
    assert (
        "buffer_0 at 0x302000000: 2 of 64 values (f32, 3.1 %) differ from those of the GPU, the first at byte 12:"
        " 6 instead of 7; the largest difference is 3, from 7 (lazy)"
    ) in output
    assert "as on the GPU" not in output


def test_values_within_the_tolerance_are_equal(tmp_path: Path) -> None:
    folder = str(doubled(tmp_path, after=2.001 * NUMBERS))
    assert invoke(folder, "--type", "f32", "--tolerance", "1e-2")[0] == 0
    code, output = invoke(folder, "--type", "f32", "--tolerance", "1e-4")
    assert code == 1
    assert (
        "63 of 64 values (f32, 98 %) differ from those of the GPU, the first at byte 4: 2 instead of 2.001; the largest "
        "difference is 0.063, from 126.063" in output
    )
    (tmp_path / "other").mkdir()
    rounded = str(doubled(tmp_path / "other", after=((2 + 2.0**-18) * NUMBERS).astype(np.float32)))
    assert invoke(rounded, "--type", "f32")[0] == 0
    assert invoke(rounded, "--type", "f32", "--tolerance", "0")[0] == 1
    assert invoke(folder, "--type", "f32")[0] == 1
    code, output = invoke(folder, "--tolerance", "1e-2")
    assert (code, "as on the GPU, within 0.01 as f32 (lazy)" in output) == (0, True)


@pytest.mark.filterwarnings("error")
def test_bytes_that_are_signalling_nans_of_the_type_are_compared_without_a_warning(tmp_path: Path) -> None:
    after = 2 * NUMBERS
    after.view(np.uint16)[6] = 0x7F81
    code, output = invoke(str(doubled(tmp_path, after=after)), "--type", "bf16", "--tolerance", "1")
    assert (code, "1 of 128 values (bf16, 0.78 %) differ" in output) == (1, True), output


def test_memory_that_elements_do_not_fill_is_compared_as_bytes(tmp_path: Path) -> None:
    values = [pointer(LOW), pointer(HIGH), (1).to_bytes(4, "little")]
    memory = {LOW: (bytes(4), np.float32(3).tobytes()), HIGH: (np.float32(1).tobytes(), None)}
    folder = write_recording(tmp_path / "folder", DOUBLE, "double", values, memory)
    code, output = invoke(str(folder), "--type", "f64")
    assert (code, "1 of 1 values (4-byte word, 100 %) differ" in output) == (1, True)


def test_a_kernel_that_did_not_end_on_the_gpu_has_no_results_to_compare(tmp_path: Path) -> None:
    code, output = invoke(str(doubled(tmp_path, after=NUMBERS, end="unfinished")))
    assert code == 0
    assert "on the GPU, the launch did not end: there are no results to compare" in output


def test_an_address_outside_the_recorded_memory_is_a_fault(tmp_path: Path) -> None:
    buffers = {LOW: (bytes(128), None), HIGH: (NUMBERS.tobytes(), None)}
    values = [pointer(LOW), pointer(HIGH), (64).to_bytes(4, "little")]
    code, output = invoke(str(write_recording(tmp_path / "folder", DOUBLE, "double", values, buffers)))
    assert code == 2
    assert "address 0x302000080 is not in a buffer (0 bytes past the end of buffer_0)" in output


def test_memory_above_the_limit_is_named(tmp_path: Path) -> None:
    buffers = [{"address": LOW, "size": 8, "problem": "4 of at most 4 bytes are left"}]
    folder = doubled(tmp_path, buffers=buffers)
    assert invoke(str(folder)) == (
        2, f"{folder}: the 8 bytes at {LOW:#x} are not recorded: 4 of at most 4 bytes are left",
    )  # fmt: skip


def test_the_ptx_of_another_kernel_is_named(tmp_path: Path) -> None:
    folder = doubled(tmp_path)
    other = tmp_path / "other.ptx"
    other.write_text(DOUBLE.replace("double", "triple"))
    code, output = invoke(str(other), "--launch", str(folder))
    assert (code, output) == (2, f"{folder}: no entry 'double'; available: triple")
    other.write_text(
        DOUBLE.replace(".param .u32 count", ".param .u64 count").replace("u32 %r1, [c", "u32 %r1, [c")
    )
    code, output = invoke(str(other), "--launch", str(folder))
    assert (code, output) == (2, "double: 4 bytes for count, which has 8: arguments[2]")


def test_a_recording_without_ptx_asks_for_it(tmp_path: Path) -> None:
    folder = doubled(tmp_path)
    path = folder / "launch.json"
    path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != "ptx"}))
    assert invoke(str(folder)) == (
        2, f"{folder}: contains no PTX of double: tclint run KERNEL.ptx --launch {folder}",
    )  # fmt: skip
    assert invoke(str(folder / "kernel.ptx"), "--launch", str(folder))[0] == 0


def test_a_variable_that_the_program_may_have_written_is_named(tmp_path: Path) -> None:
    folder = doubled(tmp_path)
    text = TABLE.replace("ADDED", "")
    (folder / "kernel.ptx").write_text(text)
    assert "not recorded" not in invoke(str(folder))[1]  # nothing accesses it
    (folder / "kernel.ptx").write_text(TABLE.replace("ADDED", "ld.const.f32 %f2, [table+4];"))
    assert "the contents of variables are not recorded: table begin as" in invoke(str(folder))[1]


def test_a_recorded_variable_has_the_contents_that_the_program_wrote(tmp_path: Path) -> None:
    values = [pointer(LOW), pointer(HIGH), (64).to_bytes(4, "little")]
    buffers = {
        LOW: (bytes(256), (2 * NUMBERS + 7).tobytes()),
        HIGH: (NUMBERS.tobytes(), None),
        NEAR_SHARED: (np.array([1, 7], np.float32).tobytes(), None),
    }
    text = TABLE.replace("ADDED", "ld.const.f32 %f1, [table+4];\n    add.f32 %f2, %f2, %f1;")
    folder = write_recording(tmp_path / "folder", text, "double", values, buffers)
    path = folder / "launch.json"
    found = json.loads(path.read_text())
    found["buffers"][2]["variable"] = "table"
    path.write_text(json.dumps(found))
    code, output = invoke(str(folder))
    assert (code, "not recorded" in output) == (0, False)


TABLE = DOUBLE.replace(
    ".visible .entry", ".const .align 4 .f32 table[2] = {0f3F800000, 0f3F800000};\n.visible .entry"
)
TABLE = TABLE.replace("    st.global", "    ADDED\n    st.global")
"""The kernel with a variable that it may access."""

TILES = module(
    """
.visible .entry tiles(.param .align 64 .b8 map[128], .param .u64 table)
{
    .reg .pred %p<2>;
    .reg .b32 %r<9>;
    .reg .b64 %rd<6>;
    .shared .align 128 .b8 tile[4096];
    .shared .align 8 .b64 full;
    mov.b64 %rd0, map;
    cvta.param.u64 %rd0, %rd0;
    ld.param.u64 %rd1, [table];
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    mov.u32 %r2, tile;
    mov.u32 %r3, full;
    @%p0 bra WAIT;
    mbarrier.init.shared::cta.b64 [%r3], 1;
    fence.proxy.async.shared::cta;
    mbarrier.arrive.expect_tx.shared::cta.b64 %rd2, [%r3], 256;
    mov.u32 %r5, 0;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%rd0, {%r5, %r5}], [%r3];
WAIT:
    bar.sync 0;
POLL:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r3], 0;
    @!%p1 bra POLL;
    shl.b32 %r6, %r0, 2;
    add.u32 %r7, %r2, %r6;
    ld.shared.u32 %r8, [%r7];
    ld.global.u64 %rd3, [%rd1];
    mul.wide.u32 %rd4, %r0, 4;
    add.s64 %rd3, %rd3, %rd4;
    st.global.u32 [%rd3], %r8;
    ret;
}
""",
    header=HOPPER,
)
"""A kernel with a tensor map, and a pointer to a table of pointers."""
MADE = bytes(range(128))
MAP: dict[str, Any] = {
    "bytes": MADE.hex(), "mode": "tile", "address": HIGH, "type": 7, "dimensions": [8, 7], "strides": [32],
    "element_strides": [1, 1], "box": [8, 8], "interleave": 0, "swizzle": 0, "fill": 0,
}  # fmt: skip


def tiles(tmp_path: Path, ptx: str = TILES, **changes: Any) -> Path:
    after = np.concatenate([NUMBERS[:56], np.zeros(8, np.float32)])  # the last row is out of bounds
    buffers = {
        HIGH: (NUMBERS[:56].tobytes(), None),
        LOW: (bytes(256), after.tobytes()),
        NEAR_SHARED: (pointer(LOW), None),
    }
    values = [MADE, pointer(NEAR_SHARED)]
    return write_recording(tmp_path / "folder", ptx, "tiles", values, buffers, maps=[MAP | changes])


def test_a_tensor_map_is_known_by_the_bytes_that_the_driver_made(tmp_path: Path) -> None:
    code, output = invoke(str(tiles(tmp_path)))
    assert (code, "1 of 3 allocations change, as on the GPU" in output) == (0, True)


def test_a_tensor_map_that_the_program_made_itself_is_executed(tmp_path: Path) -> None:
    folder = tiles(tmp_path)
    description = json.loads((folder / "launch.json").read_text())
    parameters = description["parameters"]
    parameters["bytes"] = OWN.hex() + parameters["bytes"][256:]
    for capability, code in (([9, 0], 0), ([10, 0], 2)):
        changes = {"maps": [], "capability": capability, "parameters": parameters}
        (folder / "launch.json").write_text(json.dumps(description | changes))
        found, output = invoke(str(folder))
        assert found == code, output
        assert ("fault: the tensor map" in output) == bool(code)


HELD = 0x7F4400001000
"""The address of a structure that holds a tensor map, 64 bytes from its beginning."""


@pytest.mark.parametrize("place", ["memory", "structure", "constant"])
@pytest.mark.parametrize("by_driver", [True, False])
def test_a_tensor_map_outside_parameters_is_known_by_its_bytes(
    tmp_path: Path, place: str, by_driver: bool
) -> None:
    map_ = MADE if by_driver else OWN
    text = TILES.replace("    mov.b64 %rd0, map;\n    cvta.param.u64 %rd0, %rd0;", WHERE[place])
    if place == "constant":
        text = text.replace(".visible .entry", ".const .align 64 .b8 fixed[192];\n.visible .entry")
    given = {"memory": HELD + 64, "structure": HELD + 256, "constant": 0}[place]
    after = np.concatenate([NUMBERS[:56], np.zeros(8, np.float32)])
    held = bytes(64) + map_ + bytes(64) + pointer(HELD)
    buffers: dict[int, tuple[bytes, bytes | None]] = {
        HIGH: (NUMBERS[:56].tobytes(), None),
        LOW: (bytes(256), after.tobytes()),
        NEAR_SHARED: (pointer(LOW), None),
        HELD: (held[:192] if place == "constant" else held, None),
    }
    values = [pointer(given) + bytes(120), pointer(NEAR_SHARED)]
    maps = [MAP] if by_driver else []
    folder = write_recording(
        tmp_path / "folder", text, "tiles", values, buffers, maps=maps, capability=[9, 0]
    )
    if place == "constant":
        description = json.loads((folder / "launch.json").read_text())
        description["buffers"][3]["variable"] = "fixed"
        (folder / "launch.json").write_text(json.dumps(description))
    code, output = invoke(str(folder))
    assert (code, "1 of 4 allocations change, as on the GPU" in output) == (0, True), output


OWN = (HIGH | 7 << 71 | 1 << 68 | 2 << 96 | 7 << 256 | 6 << 288 | 7 << 440 | 7 << 448).to_bytes(128, "little")
"""The map as a program makes it without the driver."""
WHERE = {
    "memory": "    ld.param.u64 %rd0, [map];",
    "structure": "    ld.param.u64 %rd0, [map];\n    ld.global.u64 %rd0, [%rd0];\n    add.s64 %rd0, %rd0, 64;",
    "constant": "    mov.b64 %rd0, fixed;\n    cvta.const.u64 %rd0, %rd0;\n    add.s64 %rd0, %rd0, 64;",
}
"""How the kernel gets the address of a map that is not a parameter."""


@pytest.mark.parametrize(("number", "name"), [(8, "f64"), (9, "bf16"), (10, "f32.ftz"), (12, "tf32.ftz")])
def test_the_types_of_recorded_maps_have_the_order_of_the_driver(
    tmp_path: Path, number: int, name: str
) -> None:
    file = read(tiles(tmp_path, type=number, box=[8, 8], dimensions=[8, 7], strides=[64]))
    assert file.recorded_map is not None
    found = file.recorded_map(MADE)
    assert found is not None
    assert found.type == name


def test_a_tensor_map_that_cannot_be_executed_is_named(tmp_path: Path) -> None:
    code, output = invoke(str(tiles(tmp_path, mode="im2col-wide")))
    assert (code, "a tensor map that cannot be executed: mode im2col-wide" in output) == (2, True)


def test_the_address_of_a_parameter_is_not_a_generic_address(tmp_path: Path) -> None:
    code, output = invoke(str(tiles(tmp_path, TILES.replace("    cvta.param.u64 %rd0, %rd0;", ""))))
    assert (code, "not a generic address, cvta.param is missing" in output) == (2, True)


def test_a_tensor_map_that_the_kernel_makes_is_not_compared(tmp_path: Path) -> None:
    # The kernel copies the map into memory and changes it there, where the GPU has the bytes of the driver's format.
    body = "".join(
        f"    ld.param.u64 %rd1, [map+{n}];\n    st.global.u64 [%rd0+{n}], %rd1;\n" for n in range(0, 128, 8)
    )
    text = module(
        ".visible .entry made(.param .align 64 .b8 map[128], .param .u64 to)\n{\n    .reg .b64 %rd<2>;\n"
        f"    ld.param.u64 %rd0, [to];\n{body}"
        "    tensormap.replace.tile.global_address.global.b1024.b64 [%rd0], %rd0;\n    ret;\n}\n",
        header=HOPPER,
    )
    after = bytes(range(100, 228)) + bytes(128)  # as if tensormap.replace had changed the map
    buffers = {LOW: (bytes(256), after), HIGH: (bytes(256), None)}
    folder = write_recording(tmp_path / "folder", text, "made", [MADE, pointer(LOW)], buffers, maps=[MAP])
    code, output = invoke(str(folder))
    assert (code, "1 tensor map that the kernel made is not compared" in output) == (0, True)


@pytest.mark.parametrize("mode", [".tile", ""], ids=["stated", "by default"])
def test_replays_of_a_recorded_launch_know_the_box_of_a_tensor_map(tmp_path: Path, mode: str) -> None:
    text = TILES.replace(".global.tile.", f".global{mode}.")

    def check(expected: int) -> str:
        folder = tmp_path / str(expected)
        folder.mkdir()
        made = tiles(folder, text.replace("[%r3], 256", f"[%r3], {expected}"))
        path = str(made / "kernel.ptx")
        assumed = CliRunner().invoke(cli, ["check", "--no-cache", path])
        assert "No findings" in assumed.output  # the box is not in the text
        return CliRunner().invoke(cli, ["check", "--launch", str(made), path]).output

    assert "No findings" in check(256)
    wrong = check(512)
    assert "phase 0 of mbarrier full expects 256 more bytes than the copies transfer" in " ".join(
        wrong.split()
    )
    assert "CTA 0 of 1 with 64 threads; 512 in memory, the parameters as recorded" in " ".join(wrong.split())


@pytest.mark.parametrize("place", ["memory", "constant", "changed"])
def test_replays_of_a_recorded_launch_know_the_box_of_a_tensor_map_in_memory(
    tmp_path: Path, place: str
) -> None:
    """Unless the kernel may have changed it."""
    text = TILES.replace(
        "    mov.b64 %rd0, map;\n    cvta.param.u64 %rd0, %rd0;", WHERE[place.replace("changed", "memory")]
    )
    text = text.replace("[%r3], 256", "[%r3], 512")
    if place == "constant":
        text = text.replace(".visible .entry", ".const .align 64 .b8 fixed[192];\n.visible .entry")
    if place == "changed":
        text = text.replace("WAIT:", "    fence.proxy.tensormap::generic.acquire.gpu [%rd0], 128;\nWAIT:")
    buffers: dict[int, tuple[bytes, bytes | None]] = {
        HIGH: (NUMBERS[:56].tobytes(), None),
        LOW: (bytes(256), None),
        NEAR_SHARED: (pointer(LOW), None),
        HELD: (bytes(64) + MADE, None),
    }
    values = [pointer(HELD + 64) + bytes(120), pointer(NEAR_SHARED)]
    folder = write_recording(tmp_path / "folder", text, "tiles", values, buffers, maps=[MAP])
    description = json.loads((folder / "launch.json").read_text())
    if place == "constant":
        description["buffers"][3]["variable"] = "fixed"
        (folder / "launch.json").write_text(json.dumps(description))
    checked = CliRunner().invoke(cli, ["check", "--launch", str(folder), str(folder / "kernel.ptx")])
    found = "phase 0 of mbarrier full expects 256 more bytes" in " ".join(checked.output.split())
    assert found == (place != "changed"), checked.output


def test_replays_refuse_the_launch_of_another_kernel(tmp_path: Path) -> None:
    folder = doubled(tmp_path)
    other = tmp_path / "other.ptx"
    other.write_text(TILES)
    result = CliRunner().invoke(cli, ["check", "--launch", str(folder), str(other)], standalone_mode=False)
    assert result.return_value == 2
    assert f"a launch of double, which {other} does not contain" in " ".join(result.output.split())


def test_an_address_is_in_no_buffer_if_there_are_none() -> None:
    memory = Global({})
    with pytest.raises(Fault, match=r"is not in a buffer$"):
        memory.check(np.array([64]), 4)


def test_offsets_of_fixed_allocations_keep_the_alignment_of_their_addresses() -> None:
    memory = Global({"a": 64, "b": 64, "c": 64}, {"b": HIGH + 16, "a": LOW + 256})
    assert [memory.address(name) for name in "ab"] == [LOW + 256, HIGH + 16]
    assert memory.offsets["b"] % 512 == 16
    assert memory.address("c") >> 40 not in (LOW >> 40, HIGH >> 40)
    at = np.array([LOW + 260, HIGH + 79, memory.address("c")])
    assert memory.located(at).tolist() == [
        memory.offsets["a"] + 4,
        memory.offsets["b"] + 63,
        memory.offsets["c"],
    ]
    with pytest.raises(
        Fault, match=rf"address {HIGH + 80:#x} is not in a buffer \(0 bytes past the end of b\)"
    ):
        memory.check(memory.located(np.array([HIGH + 80])), 1)


def test_a_cooperative_launch_is_not_executed(tmp_path: Path) -> None:
    code, output = invoke(str(doubled(tmp_path, cooperative=True)))
    assert (code, "unsupported: a cooperative launch" in output, "fault" in output) == (2, True, False), (
        output
    )


def test_a_trace_overwrites_no_file_of_a_recorded_launch(tmp_path: Path) -> None:
    folder = doubled(tmp_path)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    for path in before:
        code, output = invoke(str(folder), "--trace", str(path))
        assert (code, "would be overwritten" in output) == (2, True), output
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
