"""The checkout that is tested."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import tclint

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(tclint.__file__).resolve().parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What ``tclint`` of this project with *arguments* ends with in *folder*."""
    return subprocess.run(
        [sys.executable, "-m", "tclint", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )
