"""The figures of ptxas: what is read of its output, and how each of its failures is named."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest

from tclint.config.config import Config
from tclint.driver.assembling import Program, compiled, figures, gated, judged, sections, understood
from tclint.driver.pool import check
from tclint.findings.figures import Budget, Figure
from tclint.findings.rules import all_rules
from tclint.findings.selection import SettingsError, meant
from tclint.syntax.source import Source, SourceError
from tests.tools.ptxas import cubin, fake_ptxas, find_ptxas, printed

needs_posix = pytest.mark.skipif(os.name != "posix", reason="the stand-ins for ptxas are shell scripts")
TEXT = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() { ret; }\n"
CONFIG = Config(ptxas_budget=Budget(seconds=2), rules=meant("ALL")[0])


def of(text: str, **shared: int) -> dict[str, dict[str, int | None]]:
    """The figures that are not zero."""
    sizes = {f".text.{name}": 0 for name in shared} | {f".nv.shared.{name}": n for name, n in shared.items()}
    return {
        kernel.kernel: {name: amount for name, amount in kernel.figures if amount != 0}
        for kernel in understood(text, sizes)
    }


def source(text: str = TEXT) -> Source:
    return Source.from_bytes(text.encode(), "k.ptx")


# ---------------------------------------------------------------- what is printed


def test_a_kernel_has_what_is_printed_of_it_and_the_shared_memory_of_the_cubin() -> None:
    text = printed("a", registers=32, stores=8, loads=4, stack=16, barriers=3) + printed(
        "b", registers=8, barriers=0
    )
    assert of(text, a=1040, b=0) == {
        "a": {
            "registers": 32, "barriers": 3, "stack": 16, "spill-stores": 8, "spill-loads": 4, "shared": 1040
        },
        "b": {"registers": 8},
    }  # fmt: skip


FUNCTION = """\
ptxas info    : Function properties for helper
    416 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads
"""


def test_the_spills_of_called_functions_are_those_of_the_kernel_before_them() -> None:
    text = printed("a", stores=4, stack=8) + FUNCTION + printed("b") + FUNCTION + FUNCTION
    found = of(text, a=0, b=0)
    assert (found["a"]["spill-stores"], found["a"]["spill-loads"], found["a"]["stack"]) == (16, 20, 8)
    assert (found["b"]["spill-stores"], found["b"]["spill-loads"]) == (24, 40)


def test_a_stack_that_ptxas_does_not_state_is_unknown() -> None:
    warned = "ptxas warning : Stack size for entry function 'a' cannot be statically determined\n"
    assert of(warned + printed("a"), a=0)["a"]["stack"] is None
    assert of(printed("a") + FUNCTION, a=0)["a"]["stack"] is None  # before CUDA 13 without the warning
    assert "stack" not in of(printed("a") + FUNCTION.replace("416", "0"), a=0)["a"]
    assert of(printed("a").replace("0 bytes stack", "24 bytes stack"), a=0)["a"]["stack"] == 24


MESSAGES = """\
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized in the function 'a' in line 28
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized in function 'a'
ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.
"""


def test_messages_belong_to_the_kernel_that_they_name_or_to_the_only_one() -> None:
    found = of(MESSAGES + printed("a") + printed("b"), a=0, b=0)
    assert (found["a"]["C7510"], found[""]) == (2, {"C7508": 1})
    assert "C7508" not in found["b"]
    assert of(MESSAGES + printed("a"), a=0)["a"]["C7508"] == 1


def test_a_file_that_is_no_cubin_has_no_sections() -> None:
    assert sections(BytesIO(cubin({"k": 1040})))[".nv.shared.k"] == 1040
    whole = cubin({"k": 1040})
    for data in (
        b"",
        b"\x7fELF",
        b"MZ" + whole[2:],
        whole[:-40],
        whole[:64],
        whole[:0x3E] + b"\xff\xff" + whole[0x40:],
    ):
        with pytest.raises(ValueError, match="cubin"):
            sections(BytesIO(data))


# ---------------------------------------------------------------- failures


@needs_posix
@pytest.mark.parametrize(
    ("text", "end", "message"),
    [
        (
            "ptxas k.ptx, line 4; error   : Illegal thing\n",
            "exit 255",
            "rejects it (exit status 255): Illegal thing",
        ),
        (
            "ptxas k.ptx, line 1; fatal   : Unsupported .version 9.9; current version is '8.5'\n",
            "exit 255",
            "rejects it (exit status 255): Unsupported .version 9.9; current version is '8.5'",
        ),
        (
            "ptxas fatal   : Value 'sm_90a' is not defined for option 'gpu-name'\n",
            "exit 255",
            "failed with exit status 255: ptxas fatal : Value 'sm_90a' is not defined for option 'gpu-name'",
        ),
        ("", "kill -SEGV $$", "was ended by signal 11 (SIGSEGV): exit code -11"),
        (printed("k"), "exit 139", "failed with exit status 139"),
        (printed("k"), "exec sleep 60", "took longer than 2 s and was stopped"),
        ("???\n", "", "printed no figures of k"),
        (printed("other"), "", "ended with exit status 0, but its cubin has no code of other"),
        (
            printed("k").replace("Used", "Uses"),
            "",
            "ended with exit status 0, but it printed no figures of k",
        ),
    ],
)
def test_a_failure_is_named_with_version_and_status_and_makes_no_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, end: str, message: str
) -> None:
    monkeypatch.setenv("TCLINT_PTXAS", fake_ptxas(tmp_path / "ptxas", text, end=end))
    report = check(("k.ptx", source()), gated(CONFIG))
    problems = [problem.message for problem in report.report.problems]
    assert report.report.status == "partial"
    assert not report.reproducible or "printed no figures" in message
    assert len(problems) == 1
    assert problems[0].startswith("ptxas 13.5.37 ")
    assert message in problems[0]


@needs_posix
@pytest.mark.parametrize("made", [None, b"", b"\x7fELF garbage"])
def test_a_cubin_that_is_missing_or_none_is_named(tmp_path: Path, made: bytes | None) -> None:
    ptxas = fake_ptxas(tmp_path / "ptxas", printed("k"))
    if made is None:
        (tmp_path / "ptxas.made").unlink()
    else:
        (tmp_path / "ptxas.made").write_bytes(made)
    (tmp_path / "folder").mkdir()
    with pytest.raises(SourceError, match=r"^ptxas 1\.2 ended with exit status 0, but .*cubin"):
        figures(compiled(source(), Program(ptxas, "ptxas 1.2"), str(tmp_path / "folder")))


@needs_posix
@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("#!/bin/sh\nexit 3\n", "--version failed with exit status 3"),
        ("#!/bin/sh\nkill -ABRT $$\n", "--version was ended by signal 6 (SIGABRT)"),
        ("#!/bin/sh\necho hello\n", "needs the version of ptxas"),
        ("#!/bin/sh\nexec sleep 60\n", "--version took longer than 0.5 s"),
        ("#!/absent/program\n", "ptxas-budget needs ptxas"),
        (None, "ptxas-budget needs ptxas"),
    ],
)
def test_without_a_ptxas_that_states_its_version_there_is_no_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, message: str
) -> None:
    monkeypatch.setattr("tclint.driver.assembling._VERSION_SECONDS", 0.5)
    path = tmp_path / "ptxas"
    if script is not None:
        path.write_text(script)
        path.chmod(0o755)
    monkeypatch.setenv("TCLINT_PTXAS", str(path))
    with pytest.raises(SettingsError, match=re.escape(message)):
        gated(CONFIG)


def test_no_ptxas_at_all_is_said_with_where_it_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tclint.driver.assembling.candidates", lambda name: iter(()))
    with pytest.raises(SettingsError, match="was not found: put it on PATH"):
        gated(CONFIG)


def test_no_ptxas_is_looked_for_without_a_budget_or_its_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tclint.driver.assembling.candidates", lambda name: pytest.fail("looked for"))
    assert gated(Config()).gate is None
    assert gated(replace(CONFIG, rules=meant("WG")[0])).gate is None


@needs_posix
def test_a_text_is_compiled_once_for_each_version_and_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: Path
) -> None:
    monkeypatch.setenv("TCLINT_PTXAS", fake_ptxas(tmp_path / "ptxas", printed("k")))
    config = gated(CONFIG)

    def calls(changed: Config, text: str = TEXT) -> int:
        found = judged(source(text), changed)
        assert found is not None
        (kernel,) = found.made.kernels
        assert (kernel.kernel, Figure("registers", 40) in kernel.figures) == ("k", True)
        return len((tmp_path / "ptxas.calls").read_text().splitlines())

    assert [calls(config), calls(config)] == [1, 1]
    assert calls(config, TEXT + "// another text\n") == 2
    other = replace(config, ptxas_budget=Budget(options=("--maxrregcount=32",)))
    assert [calls(other), calls(other)] == [3, 3]
    assert "--maxrregcount=32 -arch=sm_90a -o" in (tmp_path / "ptxas.calls").read_text()
    fake_ptxas(tmp_path / "ptxas", printed("k"), version="13.6.1")
    assert calls(gated(CONFIG)) == 4
    assert calls(replace(config, cache=False)) == 5


@needs_posix
def test_a_failure_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> None:
    monkeypatch.setenv("TCLINT_PTXAS", fake_ptxas(tmp_path / "ptxas", "", end="exit 1"))
    for _ in range(2):
        found = judged(source(), gated(CONFIG))
        assert found is not None
        assert "exit status 1" in found.problem
    assert len((tmp_path / "ptxas.calls").read_text().splitlines()) == 2


@pytest.mark.parametrize("id", ["PB001", "PB002", "PB003"])
def test_ptxas_makes_what_the_page_says(id: str, tmp_path: Path) -> None:
    from tests.tools.budgets import judged as on_page

    ptxas, rule = find_ptxas(), all_rules()[id]
    for block in (*rule.examples, *rule.corrections):
        said = on_page(rule, block)
        assert said is not None
        folder = tmp_path / block.code.partition(".entry ")[2].partition("(")[0]
        folder.mkdir()
        assert (
            figures(compiled(source(block.code), Program(str(ptxas), "ptxas"), str(folder)))
            == said.made.kernels
        )


def test_the_figures_of_a_real_ptxas_are_those_of_cuobjdump(tmp_path: Path) -> None:
    from tclint.driver.cuda_tools import candidates
    from tests.tools.project import ROOT

    ptxas, cuobjdump = find_ptxas(), next(candidates("cuobjdump"), None)
    if cuobjdump is None or sys.platform == "win32":
        pytest.skip("no cuobjdump was found")
    kernels = ROOT / "fixtures" / "kernels"
    for name in ("nvcc-wgmma_gemm.sm_90a.ptx", "nvcc-tcgen05_gemm.sm_100a.ptx", "nvcc-mma_gemm.sm_80.ptx"):
        (folder := tmp_path / name).mkdir()
        built = compiled(Source.read(str(kernels / name)), Program(str(ptxas), "ptxas"), str(folder))
        shown = subprocess.run(
            [cuobjdump, "-res-usage", built.cubin], capture_output=True, text=True, check=True
        ).stdout
        wanted = re.findall(r"Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+)", shown)
        assert wanted
        made = {kernel.kernel: dict(kernel.figures) for kernel in figures(built)}
        assert made.keys() == {kernel for kernel, *_ in wanted}
        for kernel, *numbers in wanted:
            assert [made[kernel][figure] for figure in ("registers", "stack", "shared")] == list(
                map(int, numbers)
            )
