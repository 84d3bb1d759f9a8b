"""Make the files of one producer, in its own environment: what ``builder`` starts as a process.

The order comes as JSON on standard input, and each event goes as one line of JSON to standard output. What compilers
print goes to standard error. A job that takes too long ends the process; ``builder`` starts another one without it.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.corpus.protocol import Job, Producer, Refused, key

__all__ = ["JOB_SECONDS", "work"]

ROOT = Path(__file__).resolve().parents[2]
JOB_SECONDS = 900
"""After which a job is given up."""

_TARGET = re.compile(r"^\s*\.target\s+(\w+)", re.MULTILINE)
_FUNCTION = re.compile(r"^[^/\n]*\.(?:entry|func)\b", re.MULTILINE)
_VERSION = re.compile(r"^\s*\.version\s+([\d.]+)", re.MULTILINE)

Say = Callable[[dict[str, Any]], None]


def work(producer: Producer, order: Mapping[str, Any], say: Say) -> None:
    """Carry out *order*: the jobs of one shard, except those that are there unchanged."""
    versions = _versions()
    say({"event": "versions", "versions": versions})
    if obstacle := producer.obstacle():
        say({"event": "obstacle", "reason": obstacle})
        return
    jobs = list(islice(producer.jobs(), order["limit"]))
    say({"event": "jobs", "names": [job.name for job in jobs]})
    shard, shards = order["shard"]
    for job in jobs[shard::shards]:
        if job.name not in order["skip"]:
            say(_done(job, Path(order["out"]), order["have"].get(job.name), versions, say))


def _done(
    job: Job, out: Path, have: Mapping[str, Any] | None, versions: Mapping[str, str], say: Say
) -> dict[str, Any]:
    path = out / f"{job.name}.ptx"
    about = {"name": job.name, "target": job.target, "command": job.command}
    say({"event": "begin", **about})
    began = time.monotonic()
    try:
        about["key"] = key(job, versions)
        if have and have["key"] == about["key"] and path.is_file() and _sha256(path) == have["sha256"]:
            return {"event": "kept", "name": job.name}
        _alarm(JOB_SECONDS)
        text = _placeless(job.make())
        target, version = _TARGET.search(text), _VERSION.search(text)
        if target is None or version is None:
            raise Refused("the output is not a PTX module")
        if not _FUNCTION.search(text):
            raise Refused("there is no function in it: the source has templates or code of the host alone")
    except Exception as error:  # noqa: BLE001  # whatever a compiler raises is what the manifest says
        return {"event": "failed", **about, "reason": _reason(error)}
    finally:
        _alarm(0)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
    about.update(target=target[1], version=version[1], sha256=_sha256(path))
    seconds = round(time.monotonic() - began, 2)
    return {"event": "built", **about, "bytes": path.stat().st_size, "seconds": seconds}


def _placeless(text: str) -> str:
    """Without the folders of this machine, which compilers write into ``.file``: the same everywhere."""
    for folder in (ROOT, os.environ.get("TCLINT_CORPUS", ROOT)):
        text = text.replace(f"{folder}{os.sep}", "")
    return text


def _alarm(seconds: int) -> None:
    if hasattr(signal, "alarm"):  # without a handler: the process ends, also inside of a compiler
        signal.alarm(seconds)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _reason(error: Exception) -> str:
    """The message of *error* in one line: that of the compiler, or of what lies at the root of it."""
    if isinstance(error, Refused):
        return str(error)
    while error.__cause__ is not None and isinstance(error.__cause__, Exception):
        error = error.__cause__
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]


def _versions() -> dict[str, str]:
    """Every package of this environment with its version, but for those that every environment has.

    A checkout on ``PYTHONPATH`` may contain tclint itself, which compiles nothing.
    """
    found = {d.metadata["Name"]: d.version for d in importlib.metadata.distributions()}
    others = ("pip", "setuptools", "wheel", "tclint-ptx")
    return {name: found[name] for name in sorted(found) if name not in others}


def main() -> None:
    """``python -m benchmarks.corpus.worker MODULE``"""
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(event: dict[str, Any]) -> None:
        lines.write(json.dumps(event) + "\n")
        lines.flush()

    producer: Any = importlib.import_module(sys.argv[1])
    work(producer, json.load(sys.stdin), say)


if __name__ == "__main__":
    main()
