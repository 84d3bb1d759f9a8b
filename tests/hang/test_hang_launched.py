"""What ``tclint hang`` makes of a launch without positions: it is executed until it deadlocks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import hangs
from benchmarks.hangs.plants import PLANTS
from tclint.hang import launched
from tests.tools.command import invoke
from tests.tools.project import ROOT
from tests.tools.recordings import write_recording
from tests.tools.schema import strict
from tests.tools.support import HOPPER, kernel, module

jsonschema = pytest.importorskip("jsonschema")
pytest.importorskip("numpy", reason="the executor computes with numpy")

DATA = 0x7F4400000000
PLANTED = {plant.job: plant for plant in PLANTS}


def recorded(folder: Path, text: str, name: str, **changes: Any) -> str:
    """The folder of a launch of one of the kernels with deadlocks; *text* is its text."""
    values = [DATA.to_bytes(8, "little"), hangs.ITERATIONS.to_bytes(4, "little")]
    shape = {"block": [hangs.threads_of(text), 1, 1], "end": "unfinished"}
    return str(
        write_recording(folder, text, name, values, {DATA: (bytes(hangs.DATA), None)}, **(shape | changes))
    )


@pytest.fixture
def ring(tmp_path: Path) -> str:
    return recorded(tmp_path / "hang.capture", hangs.planted(PLANTED["ring-release-missing"]), "ring")


def test_a_captured_launch_that_deadlocks_is_explained_without_positions(ring: str) -> None:
    code, out = invoke("hang", ring)
    assert code == 0, out
    assert f"kernel ring  {ring}/kernel.ptx:6" in out
    assert f"{ring} deadlocks after " in out
    assert "(lazy); on the GPU, it did not end" in out
    assert "warps 0-3         mbarrier.try_wait  line 72" in out
    assert "for mbarrier empty[4], parity (j / 4 + 1) & 1, in the launch phase 0: 0 of 128 arrivals" in out
    assert "for mbarrier full[4], parity (i / 4) & 1, in the launch phase 1: 0 of 1 arrivals" in out
    assert "no thread arrives at mbarrier empty[4]" in out


def test_its_json_follows_the_schema(ring: str) -> None:
    code, out = invoke("hang", ring, "--output-format", "json")
    assert code == 0, out
    found = json.loads(out)
    schema = json.loads((ROOT / "docs" / "hang.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(strict(schema)).validate(found)
    assert found["execution"]["launch"] == ring
    assert (found["execution"]["schedule"], found["execution"]["recorded_end"]) == ("lazy", "unfinished")
    assert found["waits"][0]["executed"] == [{"phase": 0, "arrived": 0, "count": 128, "bytes": 0}]
    assert found["waits"][0]["replayed"] is None


def test_the_ptx_of_a_launch_may_be_elsewhere(ring: str, tmp_path: Path) -> None:
    path = tmp_path / "other.ptx"
    path.write_text((Path(ring) / "kernel.ptx").read_text(), encoding="utf-8")
    code, out = invoke("hang", str(path), "--launch", ring)
    assert code == 0, out
    assert "in the launch phase 1: 0 of 1 arrivals" in out


def test_given_positions_come_first(ring: str) -> None:
    code, out = invoke("hang", ring, "--at", "0:4=54")
    assert (code, "deadlocks after" in out, "in the launch" in out) == (0, False, False), out
    assert "lane 0 of warp 4  mbarrier.try_wait  line 54" in out


def test_a_barrier_shows_the_threads_that_have_arrived(tmp_path: Path) -> None:
    text = hangs.planted(PLANTED["pairs-upper-skipped"])
    code, out = invoke("hang", recorded(tmp_path / "c", text, "pairs"))
    assert code == 0, out
    assert "wait of warp 3 at line 28 for barrier 2, in the launch 32 of 64 threads have arrived" in out


STEPS = module(
    kernel(
        """
    .shared .align 8 .b64 never;
    .shared .align 8 .b64 full;
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, full;
    mov.u32 %r3, 0;
    setp.ne.u32 %p0, %r0, 0;
    @!%p0 mbarrier.init.shared::cta.b64 [%r2], 1;
    bar.sync 0;
STEP:
    setp.eq.u32 %p1, %r3, %r1;
    @%p1 bra WAIT;
    @!%p0 mbarrier.arrive.shared::cta.b64 _, [%r2];
WAIT:
    and.b32 %r4, %r3, 1;
POLL:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], %r4;
    @!%p2 bra POLL;
    bar.sync 0;
    add.u32 %r3, %r3, 1;
    bra.uni STEP;
""",
        name="steps",
        parameters=".param .u64 to, .param .u32 count",
        directives=".maxntid 64",
    ),
    header=HOPPER,
)
"""CTA number n waits for phase n, which does not complete."""


def test_each_phase_that_threads_wait_for_is_shown(tmp_path: Path) -> None:
    path = recorded(tmp_path / "c", STEPS, "steps", grid=[2, 1, 1], block=[64, 1, 1])
    code, out = invoke("hang", path)
    assert code == 0, out
    assert "in the launch phase 0: 0 of 1 arrivals, phase 1: 0 of 1 arrivals" in out


def test_a_launch_that_completes_asks_for_positions(tmp_path: Path) -> None:
    path = recorded(tmp_path / "c", hangs.text_of("ring"), "ring")
    wanted = f"{path}: ring completes when it is executed (lazy, eager): give the positions of a hang with --at or --from"
    assert invoke("hang", path) == (2, wanted)


@pytest.mark.parametrize(
    ("instructions", "wanted"),
    [
        (
            "LOOP:\n    add.u32 %r0, %r0, 1;\n    bra.uni LOOP;",
            "no deadlock was executed: the kernel did not terminate within its budget of seconds",
        ),
        ("vadd.u32.u32.u32 %r0, %r0, %r0;", "no deadlock was executed: line 14: vadd.u32.u32.u32"),
        (
            "st.global.u32 [%rd0], %r0;",
            "no deadlock was executed: global memory: address 0x0 is not in a buffer",
        ),
    ],
)
def test_a_launch_that_ends_otherwise_says_why(tmp_path: Path, instructions: str, wanted: str) -> None:
    text = module(
        kernel(
            f"    mov.u32 %r0, 0;\n    mov.u64 %rd0, 0;\n    {instructions}\n    bar.sync 0;\n    ret;",
            name="odd",
            parameters=".param .u64 to, .param .u32 count",
        ),
        header=HOPPER,
    )
    path = recorded(tmp_path / "c", text + "// maxntid 64\n", "odd")
    code, out = invoke("hang", path, "--seconds", "1")
    assert code == 2
    assert out.startswith(f"{path}: {wanted}"), out


def test_a_folder_that_is_not_a_launch_is_an_error(tmp_path: Path, ring: str) -> None:
    assert invoke("hang", str(tmp_path)) == (2, f"{tmp_path}: an incomplete capture")
    (Path(ring) / "buffer_0.before").unlink()
    code, out = invoke("hang", ring)
    assert (code, out) == (2, f"{ring}: an incomplete capture: buffer_0.before is missing")


def test_a_launch_without_ptx_asks_for_it(ring: str) -> None:
    path = Path(ring) / "launch.json"
    found = json.loads(path.read_text())
    del found["ptx"]
    path.write_text(json.dumps(found))
    assert invoke("hang", ring) == (
        2, f"{ring}: contains no PTX of ring: tclint hang KERNEL.ptx --launch {ring}",
    )  # fmt: skip


def test_a_launch_of_another_kernel_is_an_error(ring: str, tmp_path: Path) -> None:
    path = tmp_path / "pairs.ptx"
    path.write_text(hangs.text_of("pairs"), encoding="utf-8")
    code, out = invoke("hang", str(path), "--launch", ring)
    assert (code, "no entry 'ring'" in out) == (2, True)


def test_without_positions_and_launch_the_command_says_what_it_needs(tmp_path: Path) -> None:
    path = tmp_path / "pairs.ptx"
    path.write_text(hangs.text_of("pairs"), encoding="utf-8")
    code, out = invoke("hang", str(path))
    assert (code, out.startswith("no position is given: use --at or --from, or --launch")) == (2, True)


def test_the_eager_schedule_is_tried_as_well(ring: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launched, "SCHEDULES", ("eager",))
    code, out = invoke("hang", ring)
    assert (code, "(eager); on the GPU, it did not end" in out) == (0, True)
