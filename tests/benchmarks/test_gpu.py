"""What a launcher needs on a machine with a GPU goes there with it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks import gpu, hangs, needed

JOB = json.dumps({"cubin": "missing", "n": 1})


@pytest.mark.parametrize(
    ("of", "arguments", "said"),
    [(hangs, ("missing", "k", "1", "1", "1", "0", "1"), "outcome"), (needed, (JOB, "1"), "error")],
)
def test_a_launcher_runs_without_tclint(
    of: ModuleType, arguments: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    gpu.stand_alone(tmp_path, Path(str(of.__file__)).parent / "launcher.py")
    run = subprocess.run(
        [sys.executable, "-S", tmp_path / "launcher.py", "--one", *arguments],
        check=False, cwd="/", env={}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)[said]
    assert "libcuda" in found or "missing" in found or "cuInit" in found


def test_a_machine_without_a_gpu_says_why_the_driver_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert gpu.machine()["gpu"] == "unknown"
    assert "nvidia-smi" in gpu.machine()["driver"]
