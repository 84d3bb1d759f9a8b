"""``check``, ``baseline`` and ``diff`` with a budget for ptxas, from the configuration to every report."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import tclint
from tclint.report.formats import formats
from tests.tools.command import invoke
from tests.tools.project import ROOT
from tests.tools.ptxas import fake_ptxas, printed

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the stand-ins for ptxas are shell scripts")
TEXT = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() { ret; }\n"
CHECK = ("check", "--baseline", "tclint-baseline.json", "--output-format", "concise", "k.ptx")
LIMIT = "[[ptxas-budget.limits]]\nspill-stores = 0\nregisters = 40\n"
Ptxas = Callable[..., str]


@pytest.fixture
def ptxas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ptxas:
    """Makes the stand-in print other figures. The working folder has a kernel and a budget."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TCLINT_PTXAS", str(tmp_path / "bin" / "ptxas"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "k.ptx").write_text(TEXT)
    (tmp_path / "tclint-ptx.toml").write_text(LIMIT)

    def make(version: str = "13.5.37", end: str = "", **amounts: int) -> str:
        return fake_ptxas(
            tmp_path / "bin" / "ptxas", printed("k", **amounts), shared={"k": 1024}, version=version, end=end
        )

    make()
    return make


def ids(text: str) -> list[str]:
    return re.findall(r"\b(PB\d{3})\b", text)


def test_a_kernel_within_its_limits_is_clean_and_has_a_line_of_figures(ptxas: Ptxas) -> None:
    assert invoke("check", "k.ptx") == (
        0,
        "kernel k in k.ptx: 40 registers, 1 barrier, 1024 bytes of shared memory (ptxas 13.5.37, sm_90a)\n"
        + "\nNo findings in 1 file.\n",
    )
    assert invoke("check", "-q", "k.ptx") == (0, "")
    assert "registers" not in invoke("check", "--isolated", "k.ptx")[1]
    assert "registers" not in invoke("check", "--select", "WG", "k.ptx")[1]


def test_a_kernel_above_its_limits_fails_in_every_format(ptxas: Ptxas) -> None:
    ptxas(stores=8, loads=8, stack=8)
    for name in formats():
        code, text = invoke("check", "--output-format", name, "k.ptx")
        assert code == 1
        assert "8 bytes of spill stores" in text, name
    assert invoke("check", "--ignore", "PB001", "k.ptx")[0] == 0


def test_the_figures_are_in_json_sarif_and_junit(ptxas: Ptxas) -> None:
    figures = {
        "registers": 40,
        "barriers": 1,
        "stack": 0,
        "spill-stores": 0,
        "spill-loads": 0,
        "shared": 1024,
    }
    made = {"version": "13.5.37", "target": "sm_90a", "kernels": [{"entry": "k", "figures": figures}]}
    document = json.loads(invoke("check", "--output-format", "json", "k.ptx")[1])
    assert document["files"][0]["ptxas"] == made
    (run,) = json.loads(invoke("check", "--output-format", "sarif", "k.ptx")[1])["runs"]
    assert run["properties"]["tclint/ptxas"] == [{"uri": "k.ptx", "member": None, **made}]
    suite = ET.fromstring(invoke("check", "--output-format", "junit", "k.ptx")[1])[0]
    properties = {one.get("name"): one.get("value") for one in suite.iter("property")}
    assert properties == {"ptxas": "13.5.37", **{f"k.{name}": str(n) for name, n in figures.items()}}


def test_without_a_working_ptxas_nothing_looks_clean(ptxas: Ptxas) -> None:
    ptxas(end="kill -SEGV $$")
    code, text = invoke("check", "k.ptx")
    assert code == 2
    assert "error: k.ptx: ptxas 13.5.37 was ended by signal 11 (SIGSEGV)" in text
    os.unlink("bin/ptxas")
    code, text = invoke("check", "k.ptx")
    assert code == 2
    assert len(text.splitlines()) == 1
    assert "ptxas-budget needs ptxas" in text
    for arguments in (("baseline",), ("diff", "k.ptx", "k.ptx")):
        assert invoke(*arguments) == (2, text)
    with pytest.raises(tclint.SettingsError, match="ptxas-budget needs ptxas"):
        tclint.check(TEXT, ptxas_budget={})


def test_the_function_of_the_package_takes_a_budget(ptxas: Ptxas) -> None:
    report = tclint.check(TEXT, ptxas_budget={"limits": [{"registers": 8}]})
    assert [f.rule.id for f in report] == ["PB001"]
    assert tclint.check(TEXT, ptxas_budget={}).exit_code == 0


# ---------------------------------------------------------------- the baseline


def test_growth_is_compared_with_the_baseline_and_recording_it_again_accepts_it(ptxas: Ptxas) -> None:
    assert invoke("baseline", "k.ptx") == (
        0, "tclint-baseline.json: 0 findings (0 new, 0 gone), figures of 1 kernel\n",
    )  # fmt: skip
    assert invoke(*CHECK)[0] == 0
    ptxas(loads=4)
    code, text = invoke(*CHECK)
    assert (code, ids(text)) == (1, ["PB002"])
    assert "needs 4 bytes of spill loads, and it needed 0 before" in text
    invoke("baseline", "--prune", "k.ptx")
    assert invoke(*CHECK)[0] == 1
    invoke("baseline", "k.ptx")
    assert invoke(*CHECK)[0] == 0


def test_what_exceeded_a_limit_when_it_was_recorded_is_hidden_until_it_grows(ptxas: Ptxas) -> None:
    ptxas(registers=48)
    assert "1 finding (1 new" in invoke("baseline", "k.ptx")[1]
    assert invoke(*CHECK)[0] == 0
    ptxas(registers=49)
    code, text = invoke(*CHECK)
    assert (code, ids(text)) == (1, ["PB002"])
    ptxas(registers=48, stores=4)
    assert ids(invoke(*CHECK)[1]) == ["PB001"]


def test_a_new_ptxas_fails_until_it_is_accepted_or_recorded(ptxas: Ptxas) -> None:
    invoke("baseline", "k.ptx")
    ptxas("13.6.9", registers=39, barriers=2)
    code, text = invoke(*CHECK)
    assert (code, ids(text)) == (1, ["PB003"])
    assert "ptxas is 13.6.9, and the baseline was recorded with 13.5.37" in text
    code, text = invoke(*CHECK, "--accept-ptxas-change")
    assert code == 0
    assert "info PB003" in text
    invoke("baseline", "k.ptx")
    assert invoke(*CHECK)[0] == 0


def test_a_kernel_keeps_its_figures_if_its_file_moves_unless_two_could_be_meant(ptxas: Ptxas) -> None:
    invoke("baseline", "k.ptx")
    ptxas(loads=4)
    Path("k.ptx").rename("moved.ptx")
    check = (*CHECK[:-1], "moved.ptx")
    assert ids(invoke(*check)[1]) == ["PB002"]
    document = json.loads(Path("tclint-baseline.json").read_text())
    document["kernels"].append(document["kernels"][0] | {"path": "gone.ptx"})
    Path("tclint-baseline.json").write_text(json.dumps(document))
    assert invoke(*check)[0] == 0
    invoke("baseline", ".")
    kernels = json.loads(Path("tclint-baseline.json").read_text())["kernels"]
    assert [kernel["path"] for kernel in kernels] == ["moved.ptx"]


def test_figures_of_what_a_run_did_not_see_are_kept(ptxas: Ptxas) -> None:
    Path("other.ptx").write_text(TEXT)
    invoke("baseline", "k.ptx", "other.ptx")
    before = Path("tclint-baseline.json").read_text()
    invoke("baseline", "k.ptx")
    assert Path("tclint-baseline.json").read_text() == before
    invoke("baseline", "--isolated", "k.ptx")
    assert Path("tclint-baseline.json").read_text() == before
    ptxas(end="exit 1")
    assert invoke("baseline", "k.ptx", "other.ptx")[0] == 2
    assert Path("tclint-baseline.json").read_text() == before


@pytest.mark.parametrize(
    "kernels",
    [
        "7",
        "[7]",
        "[{}]",
        '[{"path": "k.ptx", "ptxas": "1", "target": "sm_90a", "registers": "9"}]',
        '[{"path": 1}]',
    ],
)
def test_a_damaged_baseline_is_refused(ptxas: Ptxas, kernels: str) -> None:
    Path("b.json").write_text(f'{{"schema": 1, "findings": [], "kernels": {kernels}}}')
    code, text = invoke("check", "--baseline", "b.json", "k.ptx")
    assert code == 2
    assert re.search(r"^the baseline \S*b\.json: (kernel 1|'kernels') ", text)


# ---------------------------------------------------------------- several files, and what is kept


def test_the_report_does_not_depend_on_the_number_of_processes_or_on_the_cache(
    ptxas: Ptxas, own_cache: Path
) -> None:
    for name in "abcd":
        Path(f"{name}.ptx").write_text(f"{TEXT}// {name}\n")
    invoke("baseline", "--no-cache", ".")
    ptxas(stores=4)
    calls = Path("bin/ptxas.calls")
    calls.unlink()
    check = ("check", "--baseline", "tclint-baseline.json", "--output-format", "json", ".")
    first = invoke(*check, "--jobs", "3", "--no-cache")
    assert (first[0], len(calls.read_text().splitlines())) == (1, 5)
    assert invoke(*check, "--jobs", "1") == first
    number = len(calls.read_text().splitlines())
    assert invoke(*check, "--jobs", "1") == first
    assert invoke(*check, "--jobs", "2") == first
    assert invoke(*check[:-1], "--config", "accept-ptxas-change = true", ".")[0] == 1
    assert len(calls.read_text().splitlines()) == number


def test_another_baseline_is_another_report(ptxas: Ptxas, own_cache: Path) -> None:
    invoke("baseline", "k.ptx")
    check = ("check", "--baseline", "tclint-baseline.json", "k.ptx")
    assert [invoke(*check)[0], invoke(*check)[0]] == [0, 0]
    text = Path("tclint-baseline.json").read_text()
    Path("tclint-baseline.json").write_text(text.replace('"barriers": 1', '"barriers": 0'))
    assert [invoke(*check)[0], invoke(*check)[0]] == [1, 1]
    assert invoke("check", "k.ptx")[0] == 0


def test_a_fix_and_commands_without_a_gate_leave_comments_about_it_alone(ptxas: Ptxas) -> None:
    wrong = (ROOT / "fixtures" / "wgmma_unwaited.ptx").read_text()
    entry = re.search(r"\.entry (\w+)", wrong)
    assert entry is not None
    fake_ptxas(Path("bin/ptxas"), printed(entry[1], registers=99), shared={entry[1]: 0})
    Path("k.ptx").write_text(
        wrong.replace(".visible .entry", "// tclint: ignore-entry[PB001] big\n.visible .entry", 1)
    )
    code, text = invoke("check", "--output-format", "concise", "k.ptx")
    assert (code, "SU001" in text, ids(text)) == (1, False, [])
    code, text = invoke("check", "--fix", "--output-format", "concise", "k.ptx")
    assert "SU001" not in text
    assert "fixed" in text


def test_the_parts_of_a_run_have_the_figures(ptxas: Ptxas) -> None:
    Path("l.ptx").write_text(TEXT)
    whole = invoke("check", ".")
    for part in "12":
        invoke("check", "--shard", f"{part}/2", "--output", f"json=p{part}.json", ".")
    assert invoke("merge", "p1.json", "p2.json") == whole


# ---------------------------------------------------------------- two builds


@pytest.fixture
def builds(ptxas: Ptxas) -> Callable[..., tuple[int, str]]:
    """Compares two builds, of which the second has other figures: the stand-in looks at the text."""
    Path("old.ptx").write_text(TEXT)
    Path("new.ptx").write_text(f"{TEXT}// new\n")

    def compare(*arguments: str, **amounts: int) -> tuple[int, str]:
        old, new = Path("bin/old"), Path("bin/new")
        fake_ptxas(old, printed("k"))
        fake_ptxas(new, printed("k", **amounts))
        Path("bin/ptxas").write_text(
            '#!/bin/sh\nfor last; do :; done\ngrep -q "// new" "$last" && exec '
            f'"{new.absolute()}" "$@"\nexec "{old.absolute()}" "$@"\n'
        )
        return invoke("diff", *arguments, "old.ptx", "new.ptx")

    return compare


@pytest.mark.parametrize("arguments", [(), ("--no-findings",)])
def test_two_builds_differ_only_by_what_has_grown(
    builds: Callable[..., tuple[int, str]], arguments: tuple[str, ...]
) -> None:
    assert builds(*arguments) == (0, "1 kernel compared: no change in synchronisation.\n")
    code, text = builds(*arguments, registers=32)
    assert code == 0
    assert "kernel k: ptxas\n    registers: 40 -> 32\n" in text
    code, text = builds(*arguments, barriers=2)
    assert (code, ids(text)) == (1, ["PB002"])
    assert "    barriers: 1 -> 2\n" in text
    allowed = ("--config", "ptxas-budget = { allowance = { barriers = 1 } }")
    assert builds(*arguments, *allowed, barriers=2)[0] == 0
    code, text = builds(*arguments, registers=41)
    assert (code, ids(text)) == (1, ["PB001"])  # the limit is 40


def test_the_json_and_the_sarif_of_two_builds_have_the_regression(
    builds: Callable[..., tuple[int, str]],
) -> None:
    document = json.loads(builds("--output-format", "json", barriers=2)[1])
    (file,) = document["files"]
    assert file["figures"] == [
        {"old": "k", "new": "k", "changes": [{"what": "barriers", "old": 1, "new": 2}]}
    ]
    assert [finding["id"] for finding in file["came"]] == ["PB002"]
    assert ids(builds("--output-format", "sarif", barriers=2)[1])


def test_two_builds_are_not_compared_with_the_baseline(builds: Callable[..., tuple[int, str]]) -> None:
    invoke("baseline", "k.ptx")
    Path("tclint-ptx.toml").write_text(f'baseline = "tclint-baseline.json"\n{LIMIT}')
    assert builds(registers=32)[0] == 0


def test_the_command_without_a_new_build_has_no_budget(
    builds: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TCLINT_NVDISASM", "/bin/true")
    builds(registers=41)
    assert invoke("diff", "--ptxas", "bin/old,bin/new", "old.ptx")[0] == 1
    assert "PB" not in invoke("diff", "--ptxas", "bin/old,bin/new", "old.ptx")[1]


def test_a_drop_in_for_ptxas_on_the_path_is_asked_once(
    ptxas: Ptxas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sees that tclint has called it, and neither lints nor calls itself."""
    real = os.environ["TCLINT_PTXAS"]
    Path("bin/wrapper").write_text(
        f'#!/bin/sh\necho "$TCLINT_PTXAS_TRIED" >> "{tmp_path}/tried"\nexec "{real}" "$@"\n'
    )
    Path("bin/wrapper").chmod(0o755)
    monkeypatch.setenv("TCLINT_PTXAS", str(tmp_path / "bin" / "wrapper"))
    assert invoke("check", "k.ptx")[0] == 0
    assert set(Path("tried").read_text().split()) == {str(tmp_path / "bin" / "wrapper")}


def test_folders_of_builds_are_compiled_once_and_leave_no_temporary_files(
    ptxas: Ptxas, own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    for build in ("old", "new"):
        Path(build).mkdir()
        for name in "abc":
            Path(build, f"{name}.ptx").write_text(f"{TEXT}// {name} {build if name != 'c' else ''}\n")
    assert invoke("diff", "--config", "jobs = 2", "old", "new")[0] == 0
    calls = Path("bin/ptxas.calls").read_text().splitlines()
    assert len(calls) == 4  # c is the same in both
    assert all(f"{tmp_path}/tmp/tclint-" in call for call in calls)
    assert invoke("check", "--no-cache", "--jobs", "2", "old")[0] == 0
    assert list((tmp_path / "tmp").iterdir()) == []
