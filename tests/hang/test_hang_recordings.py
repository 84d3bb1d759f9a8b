"""Six programs that hang on an H200, each from what cuda-gdb printed of three builds and from its recorded launch."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tclint.hang.explain import Explanation, Hang, chosen, explain
from tclint.hang.positions import listed
from tclint.ir.frontend import analyse
from tclint.syntax.source import Source
from tests.tools.command import invoke
from tests.tools.project import ROOT
from tests.tools.recordings import write_recording

FOLDER = ROOT / "fixtures" / "hangs"
BUILDS = ("plain", "lineinfo", "G")
FIRST = "one wait must begin with parity 1, or one arrival must precede the waits"
SKIPPED = (
    "lane 0 of warp 2 may skip the arrival at mbarrier empty[3], by a branch that depends on other lanes of the warp,"
    " and a phase needs 2 arrivals"
)
PROGRAMS: dict[str, tuple[int, str, tuple[str, ...]]] = {
    "phase": (160, FIRST, ("mbarrier empty[3]", "mbarrier full[3]")),
    "missing_arrive": (96, SKIPPED, ("mbarrier empty[3]", "mbarrier full[3]")),
    "expect_bytes": (128, "a phase of mbarrier full expects 8192 bytes, and copies complete 6144", ("mbarrier full",)),
    "divergent_bar": (128, "warps 0-2 no longer arrive at barrier 0", ("barrier 1", "barrier 0")),
    "named_count": (128, "barrier 1 counts 128 threads, and 96 threads use it", ("mbarrier done", "barrier 1")),
    "cluster_barrier": (
        64,
        "each wait of the cycle is executed once, and each arrival follows one of them: one arrival must precede the waits",
        ("mbarrier ready", "the cluster barrier"),
    ),
}  # fmt: skip
"""Program -> the threads of a CTA, the cause, and the objects of the chain, as reading the source shows them."""


def judged(out: str, name: str) -> None:
    """Whether the answer is short, begins with the cause, has no other one, and names the waits of the chain."""
    _, cause, objects = PROGRAMS[name]
    lines = out.splitlines()
    assert len(lines) <= 40
    assert lines.index("causes") < 6
    shown = out.partition("causes\n")[2].partition("\n\n")[0].splitlines()
    assert len(shown) == 1
    assert cause in shown[0]
    chain = re.search(r"^(?:cycle|chain) of waits\n((?:  .*\n)+)", out, re.MULTILINE)
    assert chain is not None
    found = re.findall(r"  for (.*)$", chain[1], re.MULTILINE)
    assert sorted(found) == sorted(objects)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_cause_is_found_from_what_the_debugger_printed(name: str, build: str) -> None:
    program, printed = (str(FOLDER / f"{name}.{build}.{suffix}") for suffix in ("ptx", "txt"))
    code, out = invoke("hang", program, "--from", printed, "--sass", printed)
    assert code == 0, out
    judged(out, name)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_cause_is_found_from_a_recorded_launch(name: str, tmp_path: Path) -> None:
    pytest.importorskip("numpy", reason="the executor computes with numpy")
    read, written = 0x7F5BE0000000, 0x7F5BF0000000
    folder = write_recording(
        tmp_path / "hang.capture",
        (FOLDER / f"{name}.plain.ptx").read_text(encoding="utf-8"),
        "k",
        [read.to_bytes(8, "little"), written.to_bytes(8, "little"), (8).to_bytes(4, "little")],
        {read: (bytes(1 << 20), None), written: (bytes(1 << 16), None)},
        grid=[2, 1, 1],
        block=[PROGRAMS[name][0], 1, 1],
        end="unfinished",
    )
    code, out = invoke("hang", str(folder))
    assert code == 0, out
    judged(out, name)


@pytest.mark.parametrize(
    ("name", "build", "code"),
    [
        ("phase", "lineinfo", 1),
        ("missing_arrive", "lineinfo", 1),
        ("expect_bytes", "lineinfo", 1),
        ("named_count", "G", 1),
        ("named_count", "lineinfo", 0),  # whichever wait of the line it is, it is for barrier 1
        ("phase", "G", 0),  # the wait of each thread is alone in its line
    ],
)
def test_a_line_that_stands_for_several_waits_leaves_the_hang_undecided(
    name: str, build: str, code: int, tmp_path: Path
) -> None:
    listing = tmp_path / "hang.txt"
    printed = (FOLDER / f"{name}.{build}.txt").read_text(encoding="utf-8")
    listing.write_text(re.sub(r"^=> .*$", "", printed, flags=re.MULTILINE), encoding="utf-8")
    found, out = invoke("hang", str(FOLDER / f"{name}.{build}.ptx"), "--from", str(listing))
    assert found == code, out
    assert len(out.splitlines()) <= 40
    assert ("give program counters" in out) == bool(code)


def hang(text: str, at: str) -> Explanation:
    source = Source.from_bytes(text.encode(), "k.ptx")
    module, _ = analyse(source)
    positions = listed(at)
    return explain(source, module, chosen(source, module, "k", positions), Hang(positions))


def waits_in(text: str) -> list[int]:
    return [n for n, line in enumerate(text.splitlines(), 1) if "try_wait" in line]


MISSING = (FOLDER / "missing_arrive.G.ptx").read_text(encoding="utf-8")
DECIDING = "setp.ne.s32 \t%p13, %r47, 0;"
"""The condition under which the second consumer arrives: %r47 is the result of a vote."""


def test_an_arrival_that_data_decides_is_a_cause_only_if_every_arrival_is_needed() -> None:
    waits = ",".join(map(str, waits_in(MISSING)))
    assert [cause.kind for cause in hang(MISSING, waits).causes] == ["skipped"]
    counted = re.sub(r"(mov\.\w+\s+%r\d+), 2;", r"\1, 1;", MISSING)
    assert counted != MISSING
    assert all(cause.kind != "skipped" for cause in hang(counted, waits).causes)


@pytest.mark.parametrize(
    ("condition", "kinds"),
    [
        (
            "setp.ne.s32 %p13, %r22, 0;",
            [],
        ),  # the iteration: one that releases the previous stage has none at first
        ("setp.ne.s32 %p13, %r33, 7;", []),  # a parameter
        ("setp.ne.s32 %p13, %r2, 7;", []),  # the lane
        ("ld.shared.u32 %r47, [_ZZ1kE3buf]; setp.ne.s32 %p13, %r47, 0;", ["skipped"]),
    ],
)
def test_only_what_data_decide_may_skip_an_arrival(condition: str, kinds: list[str]) -> None:
    assert MISSING.count(DECIDING) == 1
    text = MISSING.replace(DECIDING, condition)
    found = hang(text, ",".join(map(str, waits_in(text))))
    assert [cause.kind for cause in found.causes] == kinds


def test_a_guard_may_skip_an_arrival_as_well() -> None:
    branch = "not.pred \t%p15, %p14;"
    assert MISSING.count(branch) == 1
    always = MISSING.replace(branch, "setp.eq.s32 %p15, %r2, %r2;")
    at = always.rindex("mbarrier.arrive.shared::cta.b64")
    guarded = f"{always[:at]}@%p13 {always[at:]}"
    waits = ",".join(map(str, waits_in(always)))
    assert hang(always, waits).causes == ()
    (cause,) = hang(guarded, waits).causes
    assert cause.kind == "skipped"
    assert len(set(cause.sites)) == 1


def test_the_recordings_name_no_other_program() -> None:
    """Each listing is beside the PTX and the source of its program."""
    listings = sorted(FOLDER.glob("*.txt"))
    assert [path.name for path in listings] == sorted(f"{n}.{b}.txt" for n in PROGRAMS for b in BUILDS)
    for path in listings:
        assert path.with_suffix(".ptx").is_file()
        assert (FOLDER / f"{path.name.partition('.')[0]}.cu").is_file()
