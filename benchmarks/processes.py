"""What one process took: wall and CPU seconds, peak memory, what it said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Launcher", "Run"]

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Run:
    """One process and its children."""

    status: int | None
    """Exit status, negative for a signal, None when it was ended because it took too long."""
    wall: float
    cpu: float
    """User and system seconds of the process and of the children that it waited for."""
    peak: int
    """Bytes of memory that the largest of these processes held at a time."""
    output: str
    """Standard output and error, as they came."""


class Launcher(AbstractContextManager["Launcher"]):
    """Runs commands through ``launcher.py``. A context manager; one command at a time.

    Compiled modules of Python are kept between commands, as those of an installed package are, but not in the checkout.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        command = [sys.executable, "-I", "-S", str(Path(__file__).with_name("launcher.py"))]
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment = {**kept, "PYTHONPYCACHEPREFIX": self._folder.name, "PYTHONPATH": str(ROOT)}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def __exit__(self, *_: object) -> None:
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()
        self._folder.cleanup()

    def run(self, command: Sequence[str | os.PathLike[str]], timeout: float) -> Run:
        """Run *command*; after *timeout* seconds it is ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        output = Path(self._folder.name, "output")
        order = {"command": [os.fspath(word) for word in command], "timeout": timeout, "output": str(output)}
        print(json.dumps(order), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline())
        return Run(**answer, output=output.read_text(encoding="utf-8", errors="replace"))
