"""Locates NVIDIA's command-line tools (``cuobjdump``, ``ptxas``) and runs them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from glob import glob
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from subprocess import CompletedProcess

TRIED = "TCLINT_PTXAS_TRIED"
"""An environment variable that lists the programs already run as ptxas in this chain of calls; none is run twice."""


class ToolError(Exception):
    """A tool cannot be run, or took too long. The message is to follow its name."""


def candidates(name: str) -> Iterator[str]:
    """The executables called *name*, in order of preference.

    If the environment variable ``TCLINT_<NAME>`` is set, it gives the only candidate, which may not exist. Otherwise
    they are searched for on ``PATH``, in the toolkits of ``CUDA_HOME``, ``CUDA_PATH`` and ``/usr/local/cuda``, and in
    Python packages installed beside tclint.
    """
    if named := os.environ.get(variable(name)):
        yield shutil.which(named) or named
        return
    for folder in _folders():
        if found := shutil.which(name, path=folder):
            yield found


def variable(name: str) -> str:
    """The environment variable that gives the path of a tool: ``TCLINT_PTXAS_BLACKWELL``."""
    return f"TCLINT_{name.upper().replace('-', '_')}"


def toolkits() -> list[str]:
    """The folders in which a CUDA toolkit may be, in order of preference."""
    return [*filter(None, map(os.environ.get, ("CUDA_HOME", "CUDA_PATH"))), "/usr/local/cuda"]


def _folders() -> Iterator[str]:
    yield from filter(None, os.get_exec_path())
    yield from (os.path.join(home, "bin") for home in toolkits())
    yield from packaged("nvidia", "*/bin")
    yield from packaged("triton", "backends/nvidia/bin")


def packaged(package: str, below: str) -> Iterator[str]:
    """The folders that match the pattern *below* in a Python package, without importing it."""
    from importlib.util import find_spec

    spec = find_spec(package)
    for folder in spec.submodule_search_locations or () if spec else ():
        yield from sorted(glob(os.path.join(folder, below)))


def environment(path: str) -> dict[str, str]:
    """The environment for the ptxas at *path*, which may be a script that calls tclint again."""
    return {**os.environ, TRIED: os.pathsep.join(filter(None, (os.environ.get(TRIED), path)))}


def run(*command: str, seconds: float) -> CompletedProcess[str]:
    """What a tool printed, and its exit status. Raises ToolError, also after that many *seconds*."""
    import subprocess

    try:
        return subprocess.run(
            command,
            env=environment(command[0]),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ToolError(f"took longer than {seconds} s and was stopped") from None
    except OSError as error:
        raise ToolError(f"cannot be run: {error.strerror or error}") from None


def complaint(done: CompletedProcess[str]) -> str:
    """The first line that names an error in the output of a tool that failed, else its first line, else its exit code."""
    lines = [line for line in (done.stderr or done.stdout).splitlines() if line]
    line = next((line for line in lines if "error" in line), (lines or [f"exit code {done.returncode}"])[0])
    return " ".join(line.split())
