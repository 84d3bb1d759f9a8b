"""The kernels that measure shared memory, and what their launcher does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks import gpu, wavefronts
from tclint.findings.scales import Severity
from tests.tools.support import lint


def test_the_kernels_have_no_error() -> None:
    findings = lint(wavefronts.kernels({**wavefronts.INSTRUCTIONS, "empty": wavefronts.EMPTY})).findings
    assert [f.message for f in findings if f.severity is Severity.ERROR] == []


def test_each_instruction_has_cases_within_the_memory_of_its_kernel() -> None:
    assert {case.instruction for case in wavefronts.CASES} == wavefronts.INSTRUCTIONS.keys()
    assert len({case.name for case in wavefronts.CASES}) == len(wavefronts.CASES)
    for case in wavefronts.CASES:
        assert max(offset for offset in case.offsets if offset != wavefronts.OFF) + 16 <= wavefronts.APART


def test_the_launcher_needs_nothing_but_its_folder(tmp_path: Path) -> None:
    gpu.stand_alone(tmp_path, Path(str(wavefronts.__file__)).parent / "launcher.py")
    run = subprocess.run(
        [sys.executable, "-S", tmp_path / "launcher.py"], check=False, cwd="/", env={}, capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip
    assert "cases.json" in run.stderr
