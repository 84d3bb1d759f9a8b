"""``tclint run``: what it says, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from tclint.commands._cli import cli
from tclint.executor.launch import Launch, LaunchError
from tclint.executor.run import call
from tclint.executor.tensor_maps import TensorMap
from tests.tools.support import HOPPER, before_the_wait, kernel, module

COPY = """
    ld.param.u64 %rd0, [pointer];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd1, %r0, 4;
    add.s64 %rd2, %rd0, %rd1;
    ld.global.u32 %r1, [%rd2];
    ld.param.u32 %r2, [number];
    add.u32 %r1, %r1, %r2;
    st.global.u32 [%rd2], %r1;
    ret;"""
EARLY = module(
    before_the_wait("    add.f32 %f8, %f0, %f1;").replace(
        "    wgmma.fence", "    mov.b64 %rd0, 64;\n    mov.b64 %rd1, 64;\n    wgmma.fence"
    ),
    header=HOPPER,
)
LAUNCH = """
[buffers]
data = {{ type = "u32", shape = [128], values = 5, output = "out.npy" }}
[[launches]]
entry = "k"
grid = [1]
block = [128]
arguments = [{arguments}]
"""


def write(folder: Path, body: str, arguments: str = '"data", { u32 = 7 }') -> str:
    path = folder / "add.ptx"
    path.write_text(module(kernel(body), header=HOPPER))
    if arguments:
        (folder / "add.launch.toml").write_text(LAUNCH.format(arguments=arguments))
    return str(path)


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["run", *arguments], standalone_mode=False)
    if result.exception is not None:
        return 2, str(result.exception)
    return int(result.return_value), result.output


def test_the_launch_file_beside_the_kernel_is_used(tmp_path: Path) -> None:
    code, output = invoke(write(tmp_path, COPY), "--outputs", str(tmp_path / "results"))
    assert code == 0
    assert "k: done after 36 instructions" in output
    assert "no violation observed" in output
    assert (np.load(tmp_path / "results" / "out.npy") == 12).all()


def test_outputs_are_written_only_if_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "out.npy").write_text("mine")
    path = write(tmp_path, COPY)
    launch = tmp_path / "add.launch.toml"
    launch.write_text(launch.read_text() + "[expected]\ndata = 13\n")
    code, output = invoke(path)
    assert code == 1  # the expected values are compared
    assert "note: outputs are written only with --outputs FOLDER; not written: out.npy" in output
    assert json.loads(invoke(path, "--output-format", "json")[1])["notes"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["add.launch.toml", "add.ptx", "out.npy"]
    assert (tmp_path / "out.npy").read_text() == "mine"


def test_without_a_launch_file_a_launch_is_assumed_and_reported(tmp_path: Path) -> None:
    code, output = invoke(write(tmp_path, COPY, arguments=""))
    assert code == 0
    assert "no launch file: assuming 128 threads" in output


def test_an_observation_is_reported_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "early.ptx"
    path.write_text(EARLY)
    line = EARLY[: EARLY.index("add.f32")].count("\n") + 1
    code, output = invoke(str(path))
    assert code == 1
    assert f"early.ptx:{line}: register-in-flight: reads %f0" in output


def test_json(tmp_path: Path) -> None:
    code, output = invoke(write(tmp_path, COPY), "--output-format", "json")
    assert code == 0
    (launch,) = json.loads(output)["launches"]
    assert launch["end"] == "done"
    assert launch["observations"] == []
    assert launch["instructions"] == 36


FENCED = """
    mov.u32 %r0, tile;
    setp.ne.u32 %p0, %r1, 0;
    {write}
    {fence}
    ld.param.u64 %rd0, [pointer];
    cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r0], 32;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    ret;
    .shared .align 128 .b8 tile[128];
"""
COPIED = """ld.param.u64 %rd1, [pointer];
    cp.async.ca.shared.global [%r0], [%rd1+64], 16;
    cp.async.ca.shared.global [%r0+16], [%rd1+80], 16;
    cp.async.wait_all;"""
STORED = "st.shared.u32 [%r0], 5;"
ONE_THREAD = "mov.u32 %r1, %tid.x;\n    setp.ne.u32 %p1, %r1, 0;\n    @%p1 exit;"


def sent(folder: Path, write: str, fence: str = "") -> str:
    """A kernel whose first thread writes a tile and copies it to ``data``, which begins with numbers from 0 on."""
    path = folder / "add.ptx"
    path.write_text(module(kernel(ONE_THREAD + FENCED.format(write=write, fence=fence)), header=HOPPER))
    np.save(folder / "in.npy", np.arange(128, dtype=np.uint32))
    np.save(folder / "want.npy", np.concatenate([np.arange(16, 24), np.arange(8, 128)]).astype(np.uint32))
    launch = LAUNCH.format(arguments='"data", { u32 = 7 }').replace(
        'values = 5, output = "out.npy"', "file = 'in.npy'"
    )
    (folder / "add.launch.toml").write_text(launch + "[expected]\ndata = 'want.npy'\n")
    return str(path)


def test_what_check_reports_as_a_note_is_not_a_violation_and_hides_no_data(tmp_path: Path) -> None:
    path = sent(tmp_path, COPIED)
    code, output = invoke(path)
    assert code == 0, output
    assert "note: proxy: the cp.async.bulk reads" in output
    assert "note: 1 more like this with line" in output
    assert "no violation observed, 2 notes" in output
    (seen,) = json.loads(invoke(path, "--output-format", "json")[1])["launches"][0]["observations"]
    assert seen["note"] is True
    assert [other["line"] for other in seen["more"]] == [seen["line"]]
    assert [other["other_line"] for other in seen["more"]] == [seen["other_line"] + 1]


def test_with_strict_a_note_is_a_violation_and_hides_data(tmp_path: Path) -> None:
    code, output = invoke(sent(tmp_path, COPIED), "--strict")
    assert code == 1
    assert "note: proxy" not in output
    assert "; 2 observations" in output
    assert "8 of 128 values" in output


def test_a_store_without_a_proxy_fence_is_a_violation_by_default(tmp_path: Path) -> None:
    code, output = invoke(sent(tmp_path, STORED))
    assert code == 1
    assert ": proxy: the cp.async.bulk reads" in output
    assert "note: proxy" not in output
    fenced, output = invoke(sent(tmp_path, COPIED, "fence.proxy.async;"))
    assert (fenced, "no violation observed\n" in output) == (0, True), output


def test_a_dependent_grid_that_does_not_wait_is_a_violation(tmp_path: Path) -> None:
    path = write(tmp_path, "griddepcontrol.launch_dependents;" + COPY)
    launch = tmp_path / "add.launch.toml"
    step = LAUNCH.format(arguments='"data", { u32 = 7 }').partition("[[launches]]")[2]
    launch.write_text(f"{launch.read_text()}[[launches]]{step}dependent = true\n")
    code, output = invoke(path)
    assert (code, ": grid-dependency: reads data" in output) == (1, True), output


@pytest.mark.parametrize(
    "name",
    [
        "add.ptx",
        "./add.ptx",
        "hard",
        "link",
        "add.launch.toml",
        "add.json",
        "in.npy",
        "want.npy",
        "out/out.npy",
    ],
)
def test_a_trace_overwrites_no_input_and_no_output(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, COPY)
    launch = tmp_path / "add.launch.toml"
    text = launch.read_text().replace("values = 5", "file = 'in.npy'") + "[expected]\ndata = 'want.npy'\n"
    launch.write_text(text)
    np.save(tmp_path / "in.npy", np.full(128, 5, np.uint32))
    np.save(tmp_path / "want.npy", np.full(128, 12, np.uint32))
    (tmp_path / "add.json").write_text("{}")
    (tmp_path / "hard").hardlink_to(path)
    (tmp_path / "link").symlink_to(path)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    code, said = invoke(path, "--outputs", str(tmp_path / "out"), "--trace", str(tmp_path / name))
    assert (code, "would be overwritten" in said or "two outputs" in said) == (2, True), said
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()} == before


STRIDED = """
    .shared .align 4 .b8 tile[8192];
    ld.param.u64 %rd0, [pointer];
    mov.u32 %r0, %tid.x;
    and.b32 %r0, %r0, 31;
    mov.u32 %r1, tile;
    shl.b32 %r2, %r0, 3;
    add.u32 %r1, %r1, %r2;
    .loc 1 7 3
    ld.shared.u32 %r3, [%r1];
    ld.shared.u32 %r4, [%r1+4];
    mul.wide.u32 %rd1, %r0, 8;
    add.s64 %rd2, %rd0, %rd1;
    st.global.u32 [%rd2], %r0;
    ret;
    """


def test_what_lines_cost_is_counted_on_request(tmp_path: Path) -> None:
    path = write(tmp_path, STRIDED, '"data", { u32 = 7 }')
    text = Path(path).read_text(encoding="utf-8") + '.file 1 "strided.cu"\n'
    Path(path).write_text(text, encoding="utf-8")
    assert "conflicts" not in invoke(path)[1]
    said = invoke("--count", path)[1]
    table = said[said.index("  line ") :].splitlines()[:4]
    assert [line.split() for line in table] == [
        ["line", "instruction", "executions", "wavefronts", "ideal", "conflicts", "sectors", "ideal"],
        ["strided.cu:7", "ld.shared.u32", "8", "16", "8", "8", "-", "-"],
        ["strided.cu:7", "st.global.u32", "4", "-", "-", "-", "32", "16"],
        ["all", "12", "16", "8", "8", "32", "16"],
    ]
    (launch,) = json.loads(invoke("--count", "--output-format", "json", path)[1])["launches"]
    first, second, third = launch["counts"]
    assert first | {"line": 0} == second | {"line": 0}
    assert (first["wavefronts"], first["ideal_wavefronts"], first["executions"]) == (8, 4, 4)
    assert first["source"] == {"file": "strided.cu", "line": 7}
    assert (third["sectors"], third["ideal_sectors"]) == (32, 16)
    assert json.loads(invoke("--output-format", "json", path)[1])["launches"][0]["counts"] is None


def test_a_kernel_without_accesses_has_no_table(tmp_path: Path) -> None:
    said = invoke("--count", write(tmp_path, "ret;"))[1]
    assert "no access to shared or global memory was counted" in said


def test_a_trace_opens_in_perfetto(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    path = tmp_path / "early.ptx"
    path.write_text(EARLY)
    invoke(str(path), "--trace", str(trace))
    events = json.loads(trace.read_text())["traceEvents"]
    assert {e["ph"] for e in events} >= {"M", "X", "b", "e"}
    begun = {e["id"]: e["ts"] for e in events if e["ph"] == "b"}
    ended = {e["id"]: e["ts"] for e in events if e["ph"] == "e"}
    assert begun.keys() == ended.keys()
    assert all(ended[number] > began for number, began in begun.items())
    assert {e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"} == {
        f"warp {n}" for n in range(4)
    }


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ("    trap;", 2, "fault: trap at line "),
        (
            "    mov.u32 %r1, %envreg1;\n    ret;",
            2,
            "mov.u32: the special register %envreg1, whose value the driver defines",
        ),
        (
            "    ld.param.u64 %rd0, [pointer];\n    ld.global.u32 %r1, [%rd0+4096];\n    ret;",
            2,
            "is not in a buffer",
        ),
        ("    ld.param.u64 %rd0, [pointer];\n    ld.global.u32 %r1, [%rd0+2];\n    ret;", 2, "misaligned"),
        (
            "    barrier.sync 0, 256;\n    ret;",
            1,
            "deadlock: no thread can make progress: warp 0 waits at line ",
        ),
        ("LOOP:\n    bra LOOP;", 2, "budget: the kernel did not terminate"),
        ("    tex.1d.v4.f32.s32 {%f4, %f5, %f6, %f7}, [pointer, {%r1}];", 2, "unsupported: line "),
    ],
)
def test_how_kernels_end(tmp_path: Path, body: str, code: int, message: str) -> None:
    found, output = invoke(write(tmp_path, body), "--seconds", "0.5")
    assert (found, message in output) == (code, True), output
    assert "no violation observed in" not in output
    if "fault" in message or "deadlock" in message:
        assert "no violation" not in output


def test_several_schedules_are_executed_one_after_another(tmp_path: Path) -> None:
    path = tmp_path / "early.ptx"
    path.write_text(EARLY)
    code, output = invoke(str(path), "--schedule", "eager,lazy")
    assert code == 1
    first, second = [line for line in output.splitlines() if line.startswith("k: done")]
    assert first.endswith("(eager); 1 observation")
    assert second.endswith("(lazy); 1 observation")


def test_results_are_compared_with_those_that_the_launch_file_expects(tmp_path: Path) -> None:
    path = write(tmp_path, COPY)
    launch = tmp_path / "add.launch.toml"
    given = launch.read_text()
    launch.write_text("expected = { data = 12 }\n" + given)
    assert invoke(path)[0] == 0
    launch.write_text("expected = { data = 13 }\n" + given)
    code, output = invoke(path)
    assert code == 1
    assert "add.ptx: expected: data: 128 of 128 values (100 %) are not as expected" in output
    code, output = invoke(path, "--output-format", "json")
    assert len(json.loads(output)["differences"]) == 1
    launch.write_text("expected = { data = 'data + 7' }\n" + given)
    code, output = invoke(path)
    assert code == 0
    assert "note: expected.data is an expression, which is not evaluated" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ('"data"', "argument"),
        ('"data", { u64 = 7 }', "bytes"),
        ('"absent", { u32 = 7 }', "no buffer or map 'absent'"),
    ],
)
def test_a_launch_that_does_not_fit_is_refused(tmp_path: Path, arguments: str, message: str) -> None:
    code, output = invoke(write(tmp_path, COPY, arguments))
    assert code == 2
    assert message in output


def test_other_mistakes(tmp_path: Path) -> None:
    path = write(tmp_path, COPY)
    assert invoke(path, "--schedule", "late") == (
        2,
        "unknown schedule 'late'; available: eager, lazy, random:SEED",
    )
    assert invoke(str(tmp_path / "absent.ptx"))[0] == 2
    two = tmp_path / "two.ptx"
    two.write_text(module(kernel("    ret;", "a"), kernel("    ret;", "b"), header=HOPPER))
    code, output = invoke(str(two))
    assert (code, "--entry takes one of a, b" in output) == (2, True)
    assert invoke(str(two), "--entry", "b")[0] == 0
    code, output = invoke(str(two), "--entry", "c")
    assert (code, "no entry 'c'; available: a, b" in output) == (2, True)
    broken = tmp_path / "broken.ptx"
    broken.write_text("not PTX")
    assert invoke(str(broken))[0] == 2


def test_from_python_a_kernel_is_called_on_arrays(tmp_path: Path) -> None:
    path = write(tmp_path, COPY, arguments="")
    data = np.arange(128, dtype=np.uint32)
    assert call(path, Launch("k", (1, 1, 1), (128, 1, 1)), [data, np.uint32(7)]).right
    assert data.tolist() == list(range(7, 135))
    with pytest.raises(LaunchError, match="argument"):
        call(path, Launch("k", (1, 1, 1), (128, 1, 1)), [data])


def test_from_python_a_tensor_map_is_made_of_an_array(tmp_path: Path) -> None:
    body = """
    .shared .align 128 .b8 tile[256];
    .shared .align 8 .b64 bar;
    mov.b64 %rd0, map;
    cvta.param.u64 %rd0, %rd0;
    mbarrier.init.shared.b64 [bar], 1;
    mbarrier.arrive.expect_tx.shared.b64 %rd1, [bar], 256;
    mov.u32 %r0, 4;
    mov.u32 %r1, 2;
    cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [tile], [%rd0, {%r0, %r1}], [bar];
WAIT:
    mbarrier.try_wait.shared.b64 %p0, [bar], %rd1;
    @!%p0 bra WAIT;
    ld.shared.u32 %r2, [tile+16];
    ld.param.u64 %rd2, [out];
    st.global.u32 [%rd2], %r2;
    ret;"""
    path = tmp_path / "tile.ptx"
    parameters = ".param .align 64 .b8 map[128], .param .u64 out"
    path.write_text(
        module(
            kernel(body, parameters=parameters, directives=".reqntid 1"), header=HOPPER.replace("8.0", "8.6")
        )
    )
    tensor, out = np.arange(64 * 32, dtype=np.uint32).reshape(32, 64), np.zeros(1, np.uint32)

    tiles = TensorMap(0, "u32", (64, 32), (256,), (4, 16))
    execution = call(str(path), Launch("k", (1, 1, 1), (1, 1, 1)), [(tensor, tiles), out])
    assert execution.right, execution
    assert out[0] == tensor[3, 4]


def test_the_cluster_that_has_all_ctas_of_a_mask_is_found_and_named(tmp_path: Path) -> None:
    """The mask is computed, so the first cluster that is tried is too small."""
    body = """
    .shared .align 16 .b8 tile[16];
    .shared .align 8 .b64 bar;
    mov.u32 %r0, %tid.x;
    setp.eq.u32 %p0, %r0, 0;
    ld.param.u64 %rd1, [pointer];
    @%p0 mbarrier.init.shared.b64 [bar], 1;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
    mov.u32 %r2, %cluster_ctarank;
    setp.eq.and.u32 %p0, %r2, 0, %p0;
    mov.b16 %h2, 16;
    sub.u16 %h1, %h2, 1;
    @%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [tile], [%rd1], 16, [bar], %h1;
WAIT:
    mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0;
    @!%p1 bra WAIT;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    ret;"""
    code, output = invoke(write(tmp_path, body, ""))
    assert "assuming 128 threads, clusters of 4 CTAs" in output
    assert (code, "no violation observed" in output) == (0, True)
