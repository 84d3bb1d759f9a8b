"""What pytest does for all tests: the order of the files, hypothesis without a clock, and the command as a process."""

from __future__ import annotations

import gc
import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.tools import command
from tests.tools.project import PACKAGE

# A busy machine is not a defect: no test fails because the clock ran on while an example was made.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

os.environ.pop("PYTEST_ADDOPTS", None)  # it is for this run, not for those that tests start
os.environ["TCLINT_NO_CACHE"] = "1"  # tests replace parts of tclint, and none may see the results of another


LONGEST = (
    "test_real_kernels.py", "test_hardware.py", "test_contributing.py", "test_pre_commit.py", "test_lowered.py",
    "test_edits.py", "test_rule_pages.py", "test_accepted_operands.py",
)  # fmt: skip
"""The files whose slow tests take longest, the longest first."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest comes first: where several processes share the files, none waits for another at the end."""
    rank = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.name, len(rank)))


def pytest_collection_finish() -> None:
    """The tests themselves stay until the end: the collector need not look through them again and again."""
    gc.freeze()


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a cache for this test alone, into which this process writes even if tclint is edited meanwhile."""
    from tclint.cache.program import ProgramFiles

    monkeypatch.delenv("TCLINT_NO_CACHE")
    monkeypatch.setenv("TCLINT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(ProgramFiles, "unchanged", lambda _: True)
    return tmp_path / "cache"


@pytest.fixture
def run_tclint(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the command in an empty folder; keyword arguments are those of ``subprocess.run``, ``env`` adds to it.

    It runs in a fork of this process, unless a keyword asks for what only a new process has.
    """

    def run(
        *args: str, env: dict[str, str] | None = None, cwd: Path = tmp_path, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        quiet = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR")}
        quiet |= {"PYTHONPATH": str(PACKAGE.parent), "PYTHONIOENCODING": "utf-8"} | (env or {})
        known = options.keys() <= {"input", "stdin"} and options.get("stdin") is None
        alone = hasattr(os, "fork") and threading.current_thread() is threading.main_thread()
        if known and alone and quiet["PYTHONIOENCODING"] == "utf-8":
            return command.forked(args, cwd, quiet, options.get("input", ""))
        return command.started(args, cwd, quiet, **options)

    return run
