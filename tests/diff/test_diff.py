"""``tclint diff``: what it says of kernels that changed, and that it says nothing of those that did not."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.differences import WANTED, measure
from tclint.config.config import Config
from tclint.diff.assembled import assembled
from tclint.diff.compare import OpChange, compare
from tclint.diff.pairs import Difference, differences, sides
from tclint.diff.show import render
from tclint.diff.skeleton import skeleton, synchronisation
from tclint.isa.effects import INERT
from tclint.isa.table import table
from tclint.syntax.source import Source, SourceError
from tests.tools.command import invoke
from tests.tools.project import ROOT
from tests.tools.ptxas import fake_ptxas, printed
from tests.tools.rewriting import comments_and_line_breaks, renamed_labels, renamed_registers
from tests.tools.support import HOPPER, WGMMA, built, kernel, module

needs_posix = pytest.mark.skipif(os.name != "posix", reason="the stand-ins for ptxas are shell scripts")
KERNELS = [
    ROOT / "fixtures" / "kernels" / name
    for name in (
        "gluon-tile-copy-f16-64x64-s3.sm_90.ptx",
        "nvcc-bulk_ring.sm_90.ptx",
        "nvcc-cluster.sm_90a.ptx",
        "nvcc-mma_gemm.sm_80.ptx",
        "nvcc-tcgen05_gemm.sm_100a.ptx",
        "nvcc-wgmma_gemm.sm_90a.ptx",
        "triton-descriptors-f16-128x128x64.sm_90.ptx",
        "triton-softmax.sm_90.ptx",
    )
]
PAIR = [
    str(Path("fixtures", "diff", version, "add-into.sm_90.ptx"))
    for version in ("triton-3.5.1", "triton-3.9.0")
]


def changes(old: str, new: str) -> list[OpChange]:
    """What became of all kernels, which have the same names."""
    found = []
    for name in (f.name for f in built(old).functions if f.entry):
        made = []
        for text in (old, new):
            read = built(text)
            function = read.function(name)
            assert function is not None
            made.append(skeleton(Source.from_bytes(text.encode(), "t.ptx"), read, function))
        found += compare(*made).changes
    return found


def said(old: str, new: str) -> list[tuple[str, str, str]]:
    """Status, class and message of each change of a kernel's body."""
    texts = [module(kernel(f"{body}\n    ret;"), header=HOPPER) for body in (old, new)]
    return [(change.status, change.what, change.message) for change in changes(*texts)]


# ---------------------------------------------------------------- silence


def arithmetic(code: str) -> str:
    """A computation after every third statement that a compiler might have put there."""
    lines = []
    for number, line in enumerate(code.splitlines()):
        lines.append(line)
        if number % 3 == 0 and re.match(r"\s+[a-z][\w.:]*\s.*;\s*(//.*)?$", line):
            lines.append("{ .reg .b32 %tmp; mov.u32 %tmp, 7; add.u32 %tmp, %tmp, 1; }")
    return "\n".join(lines) + "\n"


def addresses(code: str) -> str:
    """Every mbarrier and buffer 1024 bytes further, where an address says so itself."""
    return re.sub(
        r"(\.(?:shared|global)\S*\s+\[[%$\w]+\+)(\d+)\]", lambda m: f"{m[1]}{int(m[2]) + 1024}]", code
    )


def shifted_lines(code: str) -> str:
    """The source has three lines more at its top."""
    return re.sub(r"(\.loc\s+\d+\s+)(\d+)", lambda m: f"{m[1]}{int(m[2]) + 3}", code)


REWRITERS: list[Callable[[str], str]] = [
    renamed_registers,
    renamed_labels,
    comments_and_line_breaks,
    arithmetic,
    shifted_lines,
]


@pytest.mark.parametrize("rewrite", REWRITERS)
@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.name)
def test_what_changes_no_synchronisation_is_silent(path: Path, rewrite: Callable[[str], str]) -> None:
    text = path.read_text()
    assert changes(text, rewrite(text)) == []


def test_the_rewriters_rewrite() -> None:
    text = KERNELS[6].read_text()
    assert all(rewrite(text) != text for rewrite in REWRITERS)


def test_moved_addresses_are_not_a_change() -> None:
    text = KERNELS[5].read_text()
    moved = addresses(text)
    assert moved != text
    assert changes(text, moved) == []


def test_all_that_has_effects_has_a_class_or_is_an_operation() -> None:
    for form in table():
        effects = form.effects
        other = effects.begins is not None or effects.exchanges or effects.query is not None
        assert bool(synchronisation(effects)) is (effects != INERT and not other), form.name


# ---------------------------------------------------------------- what is said

ROUND = f"""
    wgmma.fence.sync.aligned;
    {WGMMA}
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;"""
READ = "ld.param.u64 %rd2, [pointer]; st.global.f32 [%rd2], %f0;"
TILE = """
    cp.async.cg.shared.global [%r1], [%rd1], 16;
    cp.async.commit_group;
    cp.async.wait_group 0;
    bar.sync 0;
    ld.shared.f32 %f1, [%r1];"""


@pytest.mark.parametrize(
    ("old", "new", "status", "what", "message"),
    [
        ("wgmma.wait_group.sync.aligned 0;", "wgmma.wait_group.sync.aligned 1;", "weakened", "wait", "leaves 1 group pending instead of 0"),
        ("cp.async.wait_group 2;", "cp.async.wait_group 0;", "strengthened", "wait", "leaves 0 groups pending instead of 2"),
        ("cp.async.bulk.wait_group 0;", "cp.async.bulk.wait_group.read 0;", "weakened", "wait", "waits until the sources are read, not until the writes complete"),
        ("fence.acq_rel.gpu;", "fence.acq_rel.cta;", "weakened", "fence", ".cta instead of .gpu"),
        ("membar.gl;", "fence.acq_rel.gpu;", "weakened", "fence", ".acq_rel instead of .sc"),
        ("fence.proxy.async;", "fence.proxy.async.shared::cta;", "weakened", "fence", "only for .shared::cta"),
        ("fence.proxy.async.global;", "fence.proxy.async.shared::cta;", "changed", "fence", ".shared::cta instead of .global"),
        ("bar.sync 0;", "bar.warp.sync -1;", "weakened", "barrier", "synchronises the lanes of a warp instead of all warps"),
        ("bar.sync 1, 128;", "bar.sync 1, 96;", "weakened", "barrier", "for 96 threads instead of 128"),
        ("bar.sync 0;", "barrier.sync 0;", "changed", "barrier", "without .aligned"),
        ("bar.warp.sync -1;", "bar.warp.sync 0xffff;", "weakened", "barrier", "mask 0xffff instead of 0xffffffff"),
        ("shfl.sync.idx.b32 %r1, %r2, 0, 31, 0xff;", "shfl.sync.idx.b32 %r1, %r2, 0, 31, -1;", "strengthened", "exchange", "mask 0xffffffff instead of 0xff"),
        ("ld.acquire.gpu.global.u32 %r1, [%rd1];", "ld.relaxed.gpu.global.u32 %r1, [%rd1];", "weakened", "ordered access", ".relaxed instead of .acquire"),
        ("atom.acq_rel.gpu.global.add.u32 %r1, [%rd1], 1;", "atom.global.add.u32 %r1, [%rd1], 1;", "weakened", "ordered access", ".relaxed instead of .acq_rel"),
        ("mbarrier.init.shared.b64 [%r1], 2;", "mbarrier.init.shared.b64 [%r1], 1;", "weakened", "mbarrier", "expects 1 arrival per phase instead of 2"),
        ("mbarrier.arrive.shared.b64 _, [%r1];", "mbarrier.arrive.relaxed.cta.shared.b64 _, [%r1];", "weakened", "arrival", ".relaxed instead of .release"),
        ("mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 64;", "mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 32;", "changed", "arrival", "bytes 32 instead of 64"),
        ("setmaxnreg.dec.sync.aligned.u32 40;", "setmaxnreg.dec.sync.aligned.u32 24;", "changed", "registers", "count 24 instead of 40"),
        ("setp.eq.u32 %p1, %r1, 0;\n@%p1 bar.arrive 1, 64;", "setp.eq.u32 %p1, %r1, 0;\nbar.arrive 1, 64;", "changed", "barrier", "no longer conditional"),
        ("bar.sync 0;", "", "lost", "barrier", ""),
        ("", "griddepcontrol.wait;", "added", "wait", ""),
        ("elect.sync %r1|%p1, -1;", "", "lost", "election", ""),
    ],
)  # fmt: skip
def test_one_change(old: str, new: str, status: str, what: str, message: str) -> None:
    assert said(TILE + old + ROUND, TILE + new + ROUND) == [(status, what, message)]
    assert said(TILE + old + ROUND, TILE + old + ROUND) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("bar.sync 0;", "barrier.sync.aligned 0;"),
        ("membar.gl;", "fence.sc.gpu;"),
        ("mbarrier.arrive.shared.b64 _, [%r1];", "mbarrier.arrive.release.cta.shared::cta.b64 _, [%r1];"),
        ("atom.global.add.u32 %r1, [%rd1], 1;", "atom.relaxed.gpu.global.add.u32 %r1, [%rd1], 1;"),
        ("bar.warp.sync -1;", "bar.warp.sync 0xffffffff;"),
    ],
)
def test_other_spellings_are_no_change(old: str, new: str) -> None:
    assert said(TILE + old, TILE + new) == []


READ = "add.f32 %f9, %f0, %f1;"
LOADED = """
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r3}}, [%r1];
    {}
    tcgen05.wait::ld.sync.aligned;
    {}"""


def test_a_wait_after_a_read_of_what_it_waits_for_has_moved() -> None:
    """Also of a load, for which the hardware waits at its use."""
    wait = "wgmma.wait_group.sync.aligned 0;"
    late = ROUND.replace(wait, f"{READ}\n{wait}")
    early = f"{ROUND}\n{READ}"
    moved = ("moved", "wait", "after a read of a register that it waits for")
    assert said(early, late) == [moved]
    assert said(late, early) == [("moved", "wait", "no longer after a read of a register that it waits for")]
    assert said(late, late) == []
    use = "st.local.b32 [%r1], %r3;"
    assert said(LOADED.format("", use), LOADED.format(use, "")) == [moved]


def test_a_wait_that_passed_other_instructions_and_its_use_says_so() -> None:
    """Both places follow a commit: only that distinguishes them."""
    old, new = ((ROOT / "fixtures" / f"wgmma_{name}.ptx").read_text() for name in ("waited", "unwaited"))
    (moved,) = changes(old, new.replace("gemm_unwaited_bad", "gemm_waited_ok"))
    assert (moved.status, moved.message) == ("moved", "after a read of a register that it waits for")
    computed = "add.u32 %r4, %r3, %r3;"
    assert said(LOADED.format("", computed), LOADED.format(computed, "")) == []


def test_a_wait_is_not_late_where_a_group_before_was_waited_for() -> None:
    other = WGMMA.replace("{%f0, %f1, %f2, %f3}", "{%f4, %f5, %f6, %f7}")
    pipelined = f"""
    wgmma.fence.sync.aligned;
    {WGMMA}
    wgmma.commit_group.sync.aligned;
    {other}
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 1;
    BETWEEN
    wgmma.wait_group.sync.aligned 0;
    """
    between, later = pipelined.replace("BETWEEN", READ), pipelined.replace("BETWEEN", "") + READ
    assert said(between, later) == []
    assert said(between.replace("aligned 1", "aligned 2"), between) == [
        ("strengthened", "wait", "leaves 1 group pending instead of 2")
    ]


def test_a_wait_that_is_asked_once() -> None:
    loop = """
    mbarrier.init.shared.b64 [%r1], 1;
again:
    mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0;
    {}
    bar.sync 0;"""
    assert said(loop.format("@!%p1 bra again;"), loop.format("")) == [
        ("weakened", "wait", "no longer repeated until the phase completes")
    ]


def test_a_wait_that_backs_off_is_still_repeated() -> None:
    plain = """
again:
    mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0;
    @!%p1 bra again;"""
    backing_off = """
    mov.u32 %r9, 0;
again:
    mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0;
    @%p1 bra done;
    add.u32 %r9, %r9, 1;
    setp.lt.u32 %p2, %r9, 16;
    @%p2 bra again;
    setp.lt.u32 %p3, %r9, 64;
    @%p3 bra short;
    nanosleep.u32 1000;
    bra again;
short:
    nanosleep.u32 10;
    bra again;
done:"""
    assert said(plain + TILE, backing_off + TILE) == []


def test_a_barrier_that_moves_out_of_a_loop() -> None:
    loop = """
    mov.u32 %r9, 0;
again:
    cp.async.cg.shared.global [%r1], [%rd1], 16;
    cp.async.commit_group;
    {}
    add.u32 %r9, %r9, 1;
    setp.lt.u32 %p1, %r9, %r8;
    @%p1 bra again;
    {}
    cp.async.wait_group 0;"""
    found = said(loop.format("bar.sync 0;", ""), loop.format("", "bar.sync 0;"))
    assert found == [("moved", "barrier", "in no loop instead of a loop")]


def test_another_unrolling_is_one_change() -> None:
    loop = "again:" + TILE * 4 + "\n    @%p1 bra again;"
    less = "again:" + TILE * 2 + "\n    @%p1 bra again;"
    (found,) = said(loop, less)
    assert found[0] == "repeated"
    assert found[2] == "a block of 4 instructions appears 2 times instead of 4 times"
    (found,) = said(less, loop)
    assert found[2] == "a block of 4 instructions appears 4 times instead of 2 times"


def test_barriers_alone_are_never_an_unrolling() -> None:
    assert said("bar.sync 0;\n" * 4, "bar.sync 0;\n" * 2) == [("lost", "barrier", "")]


def test_another_mbarrier() -> None:
    body = """
    mov.u32 %r1, buffer;
    mbarrier.init.shared.b64 [%r1], 1;
    mbarrier.init.shared.b64 [%r1+8], 2;
    bar.sync 0;
    mbarrier.arrive.shared.b64 _, [%r1];
    mbarrier.arrive.shared.b64 _, [%r1+8];
    mbarrier.arrive.shared.b64 _, [%r1{}];"""
    variable = ".shared .align 8 .b8 buffer[64];"
    texts = [module(variable, kernel(body.format(at) + "\n    ret;"), header=HOPPER) for at in ("", "+8")]
    assert [(c.status, c.what, c.message) for c in changes(*texts)] == [
        ("changed", "arrival", "another mbarrier")
    ]


@pytest.mark.parametrize("path", KERNELS[:6:2], ids=lambda path: path.name)
def test_planted_faults_are_reported_as_what_they_are(path: Path) -> None:
    """Nothing that is lost or weaker goes unsaid; what is alike on both sides of it may be taken for it."""
    verdicts = [(operator, verdict) for operator, verdict, _ in measure(path.read_bytes(), 1)]
    sure = [
        v for operator, v in verdicts if WANTED[operator] in ("lost", "weakened") and ".init" not in operator
    ]
    assert sure
    assert "silent" not in sure
    assert sure.count("exact") >= 0.9 * len(sure)


# ---------------------------------------------------------------- pairs


def run(*arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tclint", "diff", *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def text(*names: str, body: str = TILE) -> str:
    return module(*(kernel(f"{body}\n    ret;", name) for name in names), header=HOPPER)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    return old, new


def compared(old: Path, new: Path, **options: Any) -> list[Difference]:
    return list(differences(sides(str(old), str(new)), Config(), **options))


def test_kernels_are_paired_by_name_and_then_by_likeness(folders: tuple[Path, Path]) -> None:
    old, new = (folder / "k.ptx" for folder in folders)
    old.write_text(text("same", "matmul_kernel_0d1d2d", "gone"))
    new.write_text(
        text("same", "matmul_kernel_0d1d2d3d", "other_thing_altogether", body=TILE + "\n    bar.sync 0;")
    )
    (found,) = compared(old, new)
    assert [(k.comparison.old.name, k.comparison.new.name, k.how) for k in found.kernels] == [
        ("same", "same", "name"),
        ("matmul_kernel_0d1d2d", "matmul_kernel_0d1d2d3d", "likeness"),
    ]
    assert (found.only_old, found.only_new) == (["gone"], ["other_thing_altogether"])


def test_the_only_kernels_are_a_pair(folders: tuple[Path, Path]) -> None:
    old, new = (folder / "k.ptx" for folder in folders)
    old.write_text(text("a"))
    new.write_text(text("zzz"))
    (found,) = compared(old, new)
    assert [kernel.how for kernel in found.kernels] == ["only one"]
    assert not found.changed


def test_files_are_paired_by_name_and_then_by_base_name(folders: tuple[Path, Path]) -> None:
    old, new = folders
    for folder, names in ((old, ("a.ptx", "x/b.ptx", "c.ptx")), (new, ("a.ptx", "y/b.ptx", "d.ptx"))):
        for name in names:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text("k", body=TILE + (";" if folder == new else "")))
    found = {(d.old and Path(d.old).name, d.new and Path(d.new).name): d.how for d in compared(old, new)}
    assert found == {
        ("a.ptx", "a.ptx"): "name",
        ("b.ptx", "b.ptx"): "base name",
        ("c.ptx", None): "name",
        (None, "d.ptx"): "name",
    }
    with pytest.raises(SourceError, match="is a folder"):
        sides(str(old), str(new / "a.ptx"))


def test_findings_are_new_or_resolved_under_another_name_too(folders: tuple[Path, Path]) -> None:
    wrong = ROUND.replace("wgmma.wait_group", f"{READ}\n    wgmma.wait_group")
    old, new = (folder / "k.ptx" for folder in folders)
    old.write_text(text("gemm_0d1d", body=ROUND))
    new.write_text(text("gemm_0d1d", body=wrong))
    (found,) = compared(old, new)
    assert ([f.finding.rule.id for f in found.came], found.went) == (["WG001"], [])
    (found,) = compared(new, old)
    assert ([f.finding.rule.id for f in found.went], found.came) == (["WG001"], [])
    assert compared(new, old, findings=False)[0].went == []
    old.write_text(text("gemm_0d1d2d", body=wrong))
    (found,) = compared(old, new)
    assert (found.came, found.went, found.changed) == ([], [], False)


def test_copies_of_a_line_that_became_wrong_are_one_new_finding(folders: tuple[Path, Path]) -> None:
    copy = "st.shared.u32 [%r3], %r5;\nbar.sync 0;\nld.shared.u32 %r5, [%r4];\nbar.sync 0;\n"
    right = (
        ".shared .align 4 .b32 x[128];\nmov.u32 %r1, %tid.x;\nshl.b32 %r1, %r1, 2;\nmov.u32 %r2, x;\n"
        f"add.u32 %r3, %r2, %r1;\nxor.b32 %r1, %r1, 508;\nadd.u32 %r4, %r2, %r1;\n{copy * 3}"
        "st.shared.u32 [%r3], %r5;\nret;"
    )
    wrong = right.replace("%r5;\nbar.sync 0;\nld", "%r5;\nld")
    old, new = (folder / "k.ptx" for folder in folders)
    for path, body in ((old, right), (new, wrong)):
        path.write_text(module(kernel(body), header=HOPPER))
    ((one,),) = (each.came for each in compared(old, new))
    assert (one.finding.rule.id, len(one.finding.variants)) == ("SM001", 2)
    shown = run(str(old), str(new)).stdout
    assert "1 new finding:" in shown
    assert "(and 2 duplicates)" in shown
    document = json.loads(run("--output-format", "json", str(old), str(new)).stdout)
    follows_its_schema(document)
    lines = [n for n, line in enumerate(new.read_text().splitlines(), 1) if line.startswith("ld.shared")]
    (in_json,) = document["files"][0]["came"]
    assert [in_json["line"], *(each["line"] for each in in_json["variants"])] == lines


def test_exit_codes(folders: tuple[Path, Path]) -> None:
    old, new = (folder / "k.ptx" for folder in folders)
    old.write_text(text("k"))
    new.write_text(text("k").replace("%r1]", "%r5]"))
    done = run(str(old), str(new))
    assert (done.returncode, done.stdout) == (0, "1 kernel compared: no change in synchronisation.\n")
    new.write_text(text("k", body=TILE.replace("bar.sync 0;", "")))
    assert run(str(old), str(new)).returncode == 1
    assert run("--exit-zero", str(old), str(new)).returncode == 0
    new.write_text(text("k") + "\n.visible .entry broken( {")
    done = run(str(old), str(new))
    assert (done.returncode, "error: " in done.stdout) == (2, True)
    old.write_text("no kernel at all")
    new.write_text("no kernel at all")
    done = run(str(old), str(new))
    assert (done.returncode, done.stdout.count("unexpected `no kernel at all`")) == (2, 1)
    for arguments in ((str(old), "absent.ptx"), (str(old), str(new.parent))):
        assert run(*arguments).returncode == 2


# ---------------------------------------------------------------- output


def follows_its_schema(document: object) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((ROOT / "docs" / "diff.schema.json").read_text())
    jsonschema.validate(document, schema)


def test_json_follows_its_schema() -> None:
    done = run("--output-format", "json", *PAIR)
    document = json.loads(done.stdout)
    follows_its_schema(document)
    assert document["summary"]["changes"] == {
        "lost": 1, "weakened": 0, "changed": 0, "moved": 0, "repeated": 0, "strengthened": 1, "added": 2,
    }  # fmt: skip
    changed = document["files"][0]["kernels"][0]["changes"][0]
    assert changed["class"] == "election"
    assert changed["instructions"][0]["old"] is None


def test_sarif_has_what_came_and_each_change_as_a_note(folders: tuple[Path, Path]) -> None:
    wrong = ROUND.replace("wgmma.wait_group", f"{READ}\n    wgmma.wait_group")
    old, new = (folder / "k.ptx" for folder in folders)
    old.write_text(text("k", body=TILE + ROUND))
    new.write_text(text("k", body=TILE.replace("bar.sync 0;", "") + wrong))
    (found,) = [compared(old, new)]
    run_ = json.loads(render(found, "sarif", Config()))["runs"][0]
    assert [(r["ruleId"], r["level"], r["baselineState"]) for r in run_["results"]] == [
        ("DIFF-LOST", "note", "new"),
        ("WG001", "error", "new"),
        ("DIFF-MOVED", "note", "new"),
    ]


def test_the_page_shows_what_the_command_says() -> None:
    page = (ROOT / "docs" / "diff.md").read_text(encoding="utf-8")
    ((command, shown),) = re.findall(
        r"^```console\n\$ tclint diff (.*?)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE
    )
    assert command.split() == PAIR
    done = run(*PAIR)
    assert done.stdout == shown
    assert done.returncode == 1


# ---------------------------------------------------------------- what two versions of ptxas make of it


LISTING = """\
.text.k:
        /*0010*/                   HGMMA.64x8x16.F32 R24, gdesc[UR4], RZ, !UPT, gsb0 ;
        /*0020*/              @!P1 HMMA.16816.F32 R4, R8, R12, R4 ;
        /*0030*/                   MOV R1, 0x1 ;
"""


def stand_in(path: Path, text: str, code: int = 0) -> str:
    """A program that prints *text*."""
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\nexit {code}\n")
    path.chmod(0o755)
    return str(path)


def ptxas(path: Path, registers: int, stores: int, advice: str = "") -> str:
    return fake_ptxas(path, advice + printed("k", registers=registers, stores=stores), shared={"k": 16})


@pytest.fixture
def one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A kernel, and an nvdisasm that prints LISTING."""
    monkeypatch.setenv("TCLINT_NVDISASM", stand_in(tmp_path / "nvdisasm", LISTING))
    path = tmp_path / "k.ptx"
    path.write_text(".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() { ret; }\n")
    return str(path)


@needs_posix
def test_the_same_ptx_is_compared_as_two_ptxas_assemble_it(tmp_path: Path, one: str) -> None:
    old = ptxas(tmp_path / "old", 30, 0)
    new = ptxas(
        tmp_path / "new", 32, 16, "ptxas info : (C7510) Potential loss: serialized in the function 'k'\n"
    )
    assert invoke("diff", "--ptxas", f"{old},{old}", one)[0] == 0
    code, out = invoke("diff", "--ptxas", f"{old},{new}", one)
    assert code == 1
    assert {line.strip() for line in out.splitlines()} >= {
        "bytes of spill stores: 0 -> 16",
        "registers: 30 -> 32",
        "C7510: 0 -> 1",
    }
    assert "1 kernel assembled differently" in out
    code, out = invoke("diff", "--ptxas", f"{old},{new}", one, "--output-format", "json")
    document = json.loads(out)
    follows_its_schema(document)
    changes = document["files"][0]["assembled"][0]["changes"]
    assert {"what": "bytes of spill stores", "old": 0, "new": 16} in changes


@needs_posix
def test_matrix_instructions_are_counted_in_the_machine_code(tmp_path: Path, one: str) -> None:
    made = assembled(Source.read(one), ptxas(tmp_path / "ptxas", 8, 0))
    assert (made["k"]["HGMMA"], made["k"]["HMMA"], made["k"]["registers"]) == (1, 1, 8)
    assert "MOV" not in made["k"]


@needs_posix
def test_machine_code_that_nvdisasm_refuses_is_an_error(
    tmp_path: Path, one: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assembler = ptxas(tmp_path / "ptxas", 8, 0)
    monkeypatch.setenv(
        "TCLINT_NVDISASM", stand_in(tmp_path / "old", "nvdisasm fatal: error: no such SM", 255)
    )
    code, out = invoke("diff", "--ptxas", f"{assembler},{assembler}", one)
    assert (code, f"{tmp_path / 'old'} failed: nvdisasm fatal: error: no such SM" in out) == (2, True)


@needs_posix
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("diff", "{one}"), "Missing argument 'NEW'"),
        (("diff", "--ptxas", "a", "{one}"), "must name two programs"),
        (("diff", "--ptxas", "{ptxas},/absent/b", "{one}"), "/absent/b is not a program"),
        (("diff", "--ptxas", "{ptxas},{ptxas}", "{one}", "--output-format", "sarif"), "text or json"),
        (
            ("diff", "--ptxas", "{ptxas},{bad}", "{one}"),
            ":9: {bad} rejects it (exit status 255): Unsupported .version",
        ),
    ],
)
def test_what_cannot_be_assembled_is_an_error(
    tmp_path: Path, one: str, arguments: tuple[str, ...], message: str
) -> None:
    named = {
        "one": one,
        "ptxas": ptxas(tmp_path / "ptxas", 8, 0),
        "bad": stand_in(tmp_path / "bad", "ptxas k.ptx, line 9; fatal   : Unsupported .version 9.9", 255),
    }
    code, out = invoke(*(argument.format(**named) for argument in arguments))
    assert code == 2
    assert message.format(**named) in out
