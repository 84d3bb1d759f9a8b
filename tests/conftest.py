"""What several test modules share: a rule, a source and findings made by hand, and the command as a subprocess."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tclint
from tclint.findings.finding import FileReport, Finding, Span, Step
from tclint.findings.rules import Rule
from tclint.findings.scales import Confidence, Severity
from tclint.syntax.source import Source

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path(tclint.__file__).resolve().parent

os.environ.pop("PYTEST_ADDOPTS", None)  # it is for this run, not for those that tests start


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The file that takes longest comes first: where several processes share the files, none waits for it at the end."""
    items.sort(key=lambda item: item.path.name != "test_real_kernels.py")


RULE = Rule(
    id="WG001",
    name="wgmma-unwaited-accumulator-read",
    family="wgmma",
    severity=Severity.ERROR,
    confidence=Confidence.HIGH,
    since="0.1.0",
    manual=("9.7.15.7.3",),
    words={},
    summary="An accumulator is read too early.",
    body="",
    examples=(),
    corrections=(),
)


def finding(source: Source, words: str, **changes: Any) -> Finding:
    """A finding on the first occurrence of ``words`` in the source."""
    fields: dict[str, Any] = {
        "rule": RULE,
        "severity": RULE.severity,
        "confidence": RULE.confidence,
        "span": span(source, words),
        "message": f"{words} is wrong",
        "entry": "gemm",
        "fingerprint": "0123456789abcdef:1",
    }
    return Finding(**(fields | changes))


def span(source: Source, words: str) -> Span:
    start = source.data.index(words.encode())
    return Span(start, start + len(words.encode()))


def step(source: Source, words: str, message: str, **changes: Any) -> Step:
    return Step(span(source, words), message, **({"entry": "gemm"} | changes))


def report(source: Source, *findings: Finding, **changes: Any) -> FileReport:
    return FileReport(path=source.path, findings=findings, source=source, **changes)


@pytest.fixture
def run_tclint(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the command in an empty folder; keyword arguments are those of ``subprocess.run``, ``env`` adds to it."""

    def run(
        *args: str, env: dict[str, str] | None = None, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        quiet = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR")}
        quiet |= {"PYTHONPATH": str(PACKAGE.parent), "PYTHONIOENCODING": "utf-8"}
        defaults = {
            "cwd": tmp_path,
            "capture_output": True,
            "text": True,
            "stdin": subprocess.DEVNULL,
            "timeout": 60,
        }
        command = [sys.executable, "-m", "tclint", *args]
        return subprocess.run(command, check=False, env=quiet | (env or {}), **(defaults | options))

    return run
