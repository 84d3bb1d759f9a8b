"""Runs a program with the injection library, and completes the folder that the library wrote."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tclint._dataclass import dataclass
from tclint._json import to_json
from tclint.injection.build import CaptureError, cupti_libraries, injection_library

__all__ = ["LIMIT", "SECONDS", "Captured", "Wanted", "complete", "launched", "record", "scratch"]

LIMIT = 1 << 30
"""Bytes of memory that are recorded at most, unless the user gives another limit."""
SECONDS = 10.0
"""How long a recorded launch may take before it counts as hanging."""
_NEVER = 1 << 62
"""The number of a launch that no program reaches."""
_POLL = 0.2
_GRACE = 5.0
"""Seconds that a program with a hanging kernel has to end."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which launch to record."""

    kernel: str = "*"
    """A glob of names."""
    nth: int = 1
    """The number of the launch among those of such kernels, from 1."""
    limit: int = LIMIT
    seconds: float = SECONDS


@dataclass(frozen=True, slots=True)
class Captured:
    """A folder that was completed."""

    folder: Path
    launch: Mapping[str, Any]
    """The contents of its ``launch.json``."""
    problems: tuple[str, ...]
    """What could not be recorded."""
    code: int = 0
    """The exit code of the program."""


def scratch(folder: Path) -> Path:
    """A temporary folder beside *folder*, which must not exist. Raises :class:`CaptureError`."""
    if folder.exists():
        raise CaptureError(f"{folder} exists")
    try:
        return Path(tempfile.mkdtemp(prefix=f"{folder.name}.incomplete-", dir=folder.absolute().parent))
    except OSError as error:
        raise CaptureError(f"{error.filename}: {error.strerror}") from None


def record(command: Sequence[str], folder: Path, wanted: Wanted) -> Captured:
    """Run *command* and record the launch that is *wanted* to *folder*. Raises :class:`CaptureError`."""
    temporary = scratch(folder)
    try:
        code, environment = _injected(command, temporary, wanted)
        return complete(temporary, folder, wanted, environment, code)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def launched(command: Sequence[str]) -> tuple[list[str], list[str]]:
    """Run *command* and record nothing: the names of the kernels that it launches, in the order of their first launches,
    and of those that a CUDA graph launches. Raises :class:`CaptureError`, also if no kernel was launched."""
    nothing = Wanted(nth=_NEVER)
    with tempfile.TemporaryDirectory(prefix="tclint.list-") as name:
        temporary = Path(name)
        code, _ = _injected(command, temporary, nothing)
        logs = [line.partition(" ") for path in sorted(temporary.iterdir()) for line in _log(path)]
        found = [
            list(dict.fromkeys(n for word, _, n in logs if word == w)) for w in ("kernel", "graph-kernel")
        ]
        if not any(found):
            raise CaptureError(_nothing(temporary, nothing, code))
    return found[0], found[1]


def _injected(command: Sequence[str], temporary: Path, wanted: Wanted) -> tuple[int, dict[str, str]]:
    """The exit code of *command*, run with the library that records to *temporary*, and its environment."""
    if other := os.environ.get("CUDA_INJECTION64_PATH"):
        raise CaptureError(
            f"CUDA_INJECTION64_PATH is set: the driver loads {other}, and one such library only"
        )
    environment = os.environ | {
        "CUDA_INJECTION64_PATH": str(injection_library()),
        "TCLINT_CAPTURE_FOLDER": str(temporary),
        "TCLINT_CAPTURE_KERNEL": wanted.kernel,
        "TCLINT_CAPTURE_NTH": str(wanted.nth),
        "TCLINT_CAPTURE_LIMIT": str(wanted.limit),
        "TCLINT_CAPTURE_SECONDS": str(wanted.seconds),
        "TCLINT_CAPTURE_CUPTI": ":".join(cupti_libraries()),
    }
    return _run(command, environment, temporary), environment


def _run(command: Sequence[str], environment: Mapping[str, str], temporary: Path) -> int:
    """The exit code of the program. It is ended if the recorded kernel hangs: nothing else would end it."""
    try:
        process = subprocess.Popen(command, env=environment)
    except OSError as error:
        raise CaptureError(f"{command[0]} cannot be run: {error.strerror}") from None
    try:
        while True:
            try:
                return process.wait(_POLL)
            except subprocess.TimeoutExpired:
                if any(_launch(path).get("end") == "unfinished" for path in temporary.glob("*/launch.json")):
                    return _ended(process)
    except BaseException:
        _ended(process)
        raise


def _ended(process: subprocess.Popen[bytes]) -> int:
    process.terminate()
    try:
        return process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def complete(
    temporary: Path, folder: Path, wanted: Wanted, environment: Mapping[str, str], code: int = 0
) -> Captured:
    """Add the PTX to what a process recorded in *temporary*, and rename it to *folder*.

    Raises :class:`CaptureError`, which says why nothing was recorded, if that is so.
    """
    from tclint.injection.ptx import find, not_found

    recorded = sorted(temporary.glob("*/launch.json"), key=lambda path: path.stat().st_mtime)
    if not recorded:
        raise CaptureError(_nothing(temporary, wanted, code))
    chosen = recorded[0].parent
    launch = _launch(recorded[0])
    unused: dict[Path, str] = {}
    found = find(chosen, launch, dict(environment), unused)
    launch.pop("objects", None)
    if found:
        (chosen / "kernel.ptx").write_text(found[0], "utf-8")
        launch |= {"ptx": "kernel.ptx", "ptx_origin": found[1]}
    problems = [line.removeprefix("error ") for line in _log(chosen) if line.startswith("error ")]
    if not found:
        final = {folder / path.name if path.parent == chosen else path: why for path, why in unused.items()}
        problems.append(not_found(final))
    launch["problems"] = problems
    try:
        (chosen / "launch.json").write_text(to_json(launch, indent=1), "utf-8")
        (chosen / "log").unlink(missing_ok=True)
        os.rename(chosen, folder)
    except OSError as error:
        raise CaptureError(f"{error.filename}: {error.strerror}") from None
    return Captured(folder, launch, tuple(problems), code)


def _launch(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(os.fsdecode(path.read_bytes()))
    return found


def _log(folder: Path) -> list[str]:
    try:
        return (folder / "log").read_text("utf-8", "replace").splitlines()
    except OSError:
        return []


def _nothing(temporary: Path, wanted: Wanted, code: int) -> str:
    """Why no launch was recorded."""
    logs = [_log(path) for path in sorted(temporary.iterdir())]
    lines = [line for log in logs for line in log]

    def said(word: str) -> list[str]:
        return [line.partition(" ")[2] for line in lines if line.startswith(f"{word} ")]

    ended = f"; the program ended with exit code {code}" if code else ""
    if errors := said("error"):
        return "; ".join(dict.fromkeys(errors)) + ended
    if said("recording"):
        return f"the program ended before the launch was recorded completely{ended}"
    if "ready" not in lines:
        return f"the program did not initialise CUDA{ended}"
    if names := said("graph-kernel"):
        return (
            f"{names[0]} is launched by a CUDA graph (cuGraphLaunch), which cannot be recorded:"
            f" run the program without graphs{ended}"
        )
    graphs = (
        " and CUDA graphs (cuGraphLaunch), whose launches cannot be recorded"
        if "graph-launch" in lines
        else ""
    )
    if matches := sum(map(int, said("matches"))):
        return f"kernels named {wanted.kernel!r} were launched {matches} times, not {wanted.nth}{ended}"
    names = list(dict.fromkeys(said("kernel")))
    shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    return f"no kernel named {wanted.kernel!r} was launched; launched were {shown or 'no kernels'}{graphs}{ended}"
