"""The tools that are compared: how each is started for one file, and what its answer means."""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from benchmarks.corpus.builder import environment
from benchmarks.corpus.producers import pyptx as pyptx_producer
from benchmarks.processes import Launcher, Run
from benchmarks.ptxas import Ptxas, find
from tclint import __version__ as tclint_version

__all__ = ["Answer", "PtxasTool", "Pyptx", "SentryWard", "Tclint", "Tool", "fresh", "judged"]

TIMEOUT = 300.0
"""Seconds after which a process is ended."""
BUDGET = 60
"""Seconds that SentryWard may take at most."""

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Answer:
    """What a tool said of one file."""

    refused: str = ""
    """Why it did not take the file; empty if it did."""
    said: tuple[str, ...] = ()
    """Errors, warnings and advice, one each; those about a line name it."""


class Tool(Protocol):
    """A program that reads one PTX file."""

    name: str

    @property
    def version(self) -> str: ...

    def command(self, path: Path) -> list[str]: ...

    def answer(self, run: Run, path: Path) -> Answer: ...


def judged(tool: Tool, launcher: Launcher, path: Path) -> tuple[Run, Answer]:
    """Run *tool* on *path*."""
    run = launcher.run(tool.command(path), TIMEOUT)
    if run.status is None:
        return run, Answer(refused=f"it takes more than {TIMEOUT:.0f} seconds")
    return run, tool.answer(run, path)


def fresh(before: Answer, after: Answer) -> list[str]:
    """What is said of a mutant and not of its original."""
    new = list((Counter(after.said) - Counter(before.said)).elements())
    return [after.refused, *new] if after.refused and not before.refused else new


def _object(run: Run) -> dict[str, Any]:
    """The first JSON object of what a process said. Raises ValueError when there is none."""
    found: dict[str, Any] = json.JSONDecoder().raw_decode(run.output[run.output.index("{") :])[0]
    return found


def _last(run: Run) -> str:
    lines = run.output.strip().splitlines()
    return lines[-1].strip() if lines else f"status {run.status}"


@dataclass
class Tclint:
    """The linter of this checkout, at its default settings."""

    name: str = "tclint"
    version: str = tclint_version

    def command(self, path: Path) -> list[str]:
        return [sys.executable, "-m", "tclint", "check", "--output-format", "json", str(path)]

    def answer(self, run: Run, path: Path) -> Answer:
        try:
            (file,) = _object(run)["files"]
        except (ValueError, KeyError):
            return Answer(refused=_last(run))
        if file["status"] == "failed":
            return Answer(refused=file["problems"][0]["message"])
        said = [f"line {p['line']}: {p['message']}" for p in file["problems"]]
        said += [
            f"{f['severity']}: {f['id']} line {f['line']}: {f['message']}"
            for f in file["findings"]
            if f["severity"] != "info"
        ]
        return Answer(said=tuple(said))


_SAYS = re.compile(r"^ptxas .*?\b(error|fatal|warning|info|advisory)\s*:\s*(.*)$")


@dataclass
class PtxasTool:
    """NVIDIA's assembler, compiling the file for its own target and throwing the result away."""

    name: str = "ptxas"
    ptxas: Ptxas = field(default_factory=find)

    @property
    def version(self) -> str:
        """Its release. Raises :class:`benchmarks.ptxas.PtxasMissing` when it does not run."""
        return self.ptxas.release

    def command(self, path: Path) -> list[str]:
        match = re.search(rb"^\s*\.target\s+(sm_\w+)", path.read_bytes(), re.MULTILINE)
        target = match[1].decode() if match else "sm_90"
        return [str(self.ptxas.path), "-arch", target, str(path), "-o", os.devnull]

    def answer(self, run: Run, path: Path) -> Answer:
        lines = [line.replace(str(path), path.name) for line in run.output.splitlines()]
        said = [line for line in lines if _SAYS.match(line)]
        if run.status:
            errors = [m[2] for line in said if (m := _SAYS.match(line)) and m[1] in ("error", "fatal")]
            return Answer(refused=(errors or [_last(run)])[0], said=tuple(said))
        return Answer(said=tuple(said))


class _FromPyPI:
    """A tool with a virtual environment of its own. Making it raises :class:`benchmarks.corpus.builder.Skipped`."""

    name: str
    packages: tuple[str, ...]

    def __init__(self, cache: Path) -> None:
        self.python = environment(cache / self.name, self.packages)
        self.version = self.packages[0].partition("==")[2]


class Pyptx(_FromPyPI):
    """pyptx's parser, and its validator on every instruction that the parser read."""

    name = "pyptx"
    packages = pyptx_producer.PACKAGES
    reader = Path(__file__).with_name("pyptx_reader.py")

    def command(self, path: Path) -> list[str]:
        return [str(self.python), str(self.reader), str(path)]

    def answer(self, run: Run, path: Path) -> Answer:
        try:
            said = _object(run)
        except ValueError:
            return Answer(refused=_last(run))
        return Answer(said["refused"], tuple(said["said"]))


class SentryWard(_FromPyPI):
    """SentryWard, given by a JSON file how one kernel of the file is started."""

    name = "sentryward"
    packages = ("sentryward==0.1.1",)

    PASSED = "race_free"
    DEFECTS = ("not_wellsynced", "potential_race", "invalid_lifecycle", "invalid_input")
    """Results that call the kernel wrong."""
    SILENT = ("timeout", "memory_budget_exceeded", "analysis_budget_exceeded", "allocation_failed")
    """Results that say nothing about the kernel."""

    def command(self, path: Path, launch: Path | None = None) -> list[str]:
        assert launch is not None
        module = [str(self.python), "-m", "sentryward", str(path)]
        return [*module, "--input", str(launch), "--timeout", str(BUDGET)]

    def verdict(self, launcher: Launcher, path: Path, launch: Path) -> dict[str, Any]:
        """Result, the first reason that it gives, and what the process took."""
        run = launcher.run(self.command(path, launch), TIMEOUT)
        about = {"wall": run.wall, "cpu": run.cpu, "peak": run.peak}
        try:
            said = _object(run)
        except ValueError:
            return {"result": "no answer", "reason": _last(run)} | about
        first: dict[str, str] = next(iter(said.get("diagnostics") or ()), {})
        reason = ": ".join(filter(None, (first.get("code"), first.get("message"))))
        return {"result": said.get("result", "no answer"), "reason": reason.replace(path.name, "")} | about
