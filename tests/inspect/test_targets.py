"""What `tclint targets` shows: the least targets, what decides them, what they do not implement, and its messages."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.ptxas import OLDEST, Ptxas, before
from tclint.inspect.targets import ShownTargets, read, render_json, render_text
from tclint.isa.target import Target, dotted
from tclint.syntax.source import Source
from tests.tools.project import ROOT
from tests.tools.ptxas import find_ptxas
from tests.tools.schema import strict
from tests.tools.support import HEADER, HOPPER, kernel, module

Process = Callable[..., subprocess.CompletedProcess[str]]
PAGE = (ROOT / "docs" / "targets.md").read_text(encoding="utf-8")


def shown(text: str, *entry: str) -> ShownTargets:
    return read(Source.from_bytes(text.encode(), "k.ptx"), entry)


def least(text: str) -> list[str]:
    """``sm_90a 8.0`` for each row of the only kernel."""
    (found,) = shown(text).kernels
    assert found.requires is not None
    return [f"{row.target} {dotted(row.version)}" for row in found.requires.minimal]


def lowered(text: str) -> list[tuple[str, str, list[str]]]:
    (found,) = shown(text).kernels
    assert found.requires is not None
    return [(one.what, one.to, [str(t) for t in one.targets]) for one in found.requires.lowered]


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("add.f32 %f1, %f2, %f3;", ["sm_20 2.3"]),
        ("cp.async.commit_group;", ["sm_80 7.0"]),
        ("wgmma.fence.sync.aligned;", ["sm_90a 8.0"]),
        ("tcgen05.wait::ld.sync.aligned;", ["sm_100f 8.8", "sm_100a 8.6", "sm_110f 9.0"]),
        ("shfl.up.b32 %r1, %r2, 1, 0;", ["sm_30 3.0"]),
        ("mov.u32 %r1, %cluster_ctarank;", ["sm_90 7.8"]),
        ('.pragma "enable_smem_spilling"; add.f32 %f1, %f2, %f3;', ["sm_75 8.7"]),
    ],
)
def test_the_least_targets_of_one_feature(instruction: str, expected: list[str]) -> None:
    assert least(module(kernel(f"{instruction} ret;"), header=HEADER)) == expected


def test_a_feature_that_later_versions_dropped_excludes_what_needs_them() -> None:
    """shfl without .sync is gone from sm_70 on in version 6.4, and sm_90 begins with 7.8."""
    text = module(kernel("shfl.up.b32 %r1, %r2, 1, 0; mov.u32 %r3, %cluster_ctarank; ret;"), header=HOPPER)
    (found,) = shown(text).kernels
    assert found.requires is not None
    assert not found.requires.versions
    assert [use.what for use in found.requires.conflicts] == ["shfl.up", "%cluster_ctarank"]


def test_both_of_two_features_decide_where_neither_does_alone() -> None:
    """tcgen05.ld.red is not in sm_100, and the family of sm_100 does not begin with sm_103."""
    text = module(
        kernel("tcgen05.ld.red.sync.aligned.32x32b.x2.min.u32 {%r1,%r2}, %r3, [%r5]; ret;"), header=HEADER
    )
    (found,) = shown(text).kernels
    assert found.requires is not None
    assert all(row.target_because for row in found.requires.minimal)


def test_a_callee_counts_for_the_kernels_that_call_it() -> None:
    text = module(
        ".func f() { wgmma.fence.sync.aligned; ret; }",
        kernel("call f; ret;", name="calls"),
        kernel("ret;", name="does_not"),
        header=HOPPER,
    )
    calls, other = shown(text).kernels
    assert calls.requires is not None
    assert other.requires is not None
    assert [str(row.target) for row in calls.requires.minimal] == ["sm_90a"]
    assert [str(row.target) for row in other.requires.minimal] == ["sm_20"]


def test_a_call_through_a_register_may_reach_what_a_variable_holds() -> None:
    text = module(
        ".func f() { wgmma.fence.sync.aligned; ret; }",
        ".global .u64 table = f;",
        kernel("prototype: .callprototype _ (); call %rd1, prototype; ret;"),
        header=HOPPER,
    )
    assert [row.split()[0] for row in least(text)] == ["sm_90a"]


def test_an_unknown_instruction_makes_the_result_a_lower_bound() -> None:
    text = render_text([shown(module(kernel("braid.u32 %r1; ret;"), header=HOPPER))])
    assert re.search(r"at least: the table of PTX ISA \d\.\d does not have braid\.u32 \(line \d+\)", text)


MMA = "mma.sync.aligned.m16n8k{}.row.col.s32.{}.{}.s32 {{%r1,%r2,%r3,%r4}}, {{%r5,%r6,%r7,%r8}}, {{%r9,%r10}}, {{%r1,%r2,%r3,%r4}};"


def test_what_is_emulated_is_listed_with_the_modifier_that_is() -> None:
    text = module(kernel(f"{MMA.format(64, 's4', 's4')} ret;"), header=HOPPER)
    ((what, to, targets),) = lowered(text)
    assert (what, to) == (".s4 of mma.sync", "emulation")
    assert targets[0] == "sm_90"
    assert "sm_89" not in targets
    assert lowered(module(kernel(f"{MMA.format(32, 's8', 's8')} ret;"), header=HOPPER)) == []


def test_where_an_instruction_is_emulated_may_depend_on_a_modifier() -> None:
    b1 = "mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.{}.popc {{%r1,%r2,%r3,%r4}}, {{%r5,%r6}}, {{%r7}}, {{%r1,%r2,%r3,%r4}};"
    first = {}
    for operation in ("xor", "and"):
        ((_, _, targets),) = lowered(module(kernel(f"{b1.format(operation)} ret;"), header=HOPPER))
        first[operation] = targets[0]
    assert first == {"xor": "sm_90", "and": "sm_100"}


def test_a_load_into_the_cluster_is_listed_where_it_calls_the_driver() -> None:
    load = "cp.async.bulk.{}.global.mbarrier::complete_tx::bytes [%r1], [%rd1], %r2, [%r3];"
    ((what, to, targets),) = lowered(module(kernel(f"{load.format('shared::cluster')} ret;"), header=HOPPER))
    assert (what, to) == (".shared::cluster of cp.async.bulk", "call")
    assert {target[:6] for target in targets} == {"sm_120", "sm_121"}
    assert lowered(module(kernel(f"{load.format('shared::cta')} ret;"), header=HOPPER)) == []


def test_a_suffix_is_shown_where_only_some_targets_of_a_number_are_meant() -> None:
    load = (
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%r1], [%rd1], %r2, [%r3], %h1;"
    )
    text = render_text([shown(module(kernel(f"{load} ret;"), header=HOPPER))])
    (slow,) = (line for line in text.splitlines() if "slower" in line)
    assert slow.startswith("  note: on sm_90, sm_100, ")


def test_a_damaged_kernel_is_not_shown_and_the_others_are() -> None:
    text = module(kernel("add.f32 %f1, , %f2; ret;", name="bad"), kernel("ret;", name="good"), header=HOPPER)
    one = shown(text)
    assert one.problems
    assert [found.requires is None for found in one.kernels] == [True, False]
    assert one.requires is None
    assert render_text([shown("// nothing")]).count("\n") == 1


def test_the_json_follows_its_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = strict(json.loads((ROOT / "docs" / "targets.schema.json").read_text(encoding="utf-8")))
    texts = [
        module(kernel(f"{MMA.format(64, 's4', 's4')} braid %r1; ret;"), header=HOPPER),
        module(kernel("wgmma.fence.sync.aligned; tcgen05.wait::ld.sync.aligned; ret;"), header=HOPPER),
        module(kernel("add.f32 %f1, , %f2; ret;"), header=HOPPER),
    ]
    found = json.loads(render_json([*map(shown, texts), ShownTargets("absent.ptx", None, ())]))
    jsonschema.Draft202012Validator(schema).validate(found)
    first, second, third, absent = found["files"]
    assert first["kernels"][0]["requires"]["unknown"] == [{"what": "braid", "line": 12}]
    assert second["kernels"][0]["requires"]["targets"] == []
    assert [file["status"] for file in (first, second, third, absent)] == [
        "analysed", "analysed", "partial", "failed",
    ]  # fmt: skip


def test_the_page_shows_what_the_command_prints(run_tclint: Process, tmp_path: Path) -> None:
    (put,) = re.findall(r"^```ptx file=put.ptx\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    (tmp_path / "put.ptx").write_text(put)
    first, second = re.findall(r"^```text.*?\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    (arguments,) = re.findall(r"^tclint (targets \S+ --entry \S+)$", PAGE, re.MULTILINE)
    assert run_tclint(*arguments.split(), cwd=ROOT).stdout == first
    assert run_tclint("targets", "put.ptx", cwd=tmp_path).stdout == second


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["absent.ptx"], 2, "error: absent.ptx: no such file or directory"),
        (["-", "--entry", "nothing"], 2, "no function matches 'nothing'"),
        (["-", "--stdin-filename", "a.ptx"], 0, "kernel k  a.ptx:"),
        (["absent.ptx", "--stdin-filename", "a.ptx"], 2, "--stdin-filename requires '-'"),
    ],
)
def test_exit_codes(run_tclint: Process, arguments: list[str], code: int, message: str) -> None:
    done = run_tclint("targets", *arguments, input=module(kernel("ret;"), header=HOPPER), stdin=None)
    assert done.returncode == code
    assert message in done.stdout + done.stderr


@pytest.fixture(scope="module")
def oracle() -> Ptxas:
    return Ptxas(find_ptxas())


FIXTURES = sorted((ROOT / "fixtures" / "kernels").glob("*.ptx"))[::6]


@pytest.mark.slow
@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_ptxas_takes_a_module_for_its_least_targets_and_refuses_one_version_less(
    oracle: Ptxas, path: Path
) -> None:
    one = read(Source.from_bytes(path.read_bytes(), path.name))
    assert one.requires is not None
    text = path.read_text()

    def accepted(version: tuple[int, int], target: Target) -> bool:
        headed = re.sub(r"(?m)^\.version .*", f".version {dotted(version)}", text, count=1)
        headed = re.sub(r"(?m)^\.target sm_\w+", f".target {target}", headed, count=1)
        return oracle.compile(headed.encode()).accepted

    for row in one.requires.minimal:
        if row.target.number < 75:
            continue
        assert accepted(row.version, row.target)
        lower = before(row.version)
        if lower >= max(row.target.introduced, OLDEST):
            assert not accepted(lower, row.target)
