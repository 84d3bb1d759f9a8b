"""Environments, workers and the manifest of the corpus."""

from __future__ import annotations

import importlib
import json
import os
import platform
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.corpus.protocol import Producer

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["Builder", "Skipped", "default_cache", "locked"]

ROOT = Path(__file__).resolve().parents[2]
READY = "tclint-packages.json"
"""In an environment: what it was made of, written when it is complete."""

Entry = dict[str, Any]
Make = Callable[[Path, tuple[str, ...]], Path]


class Skipped(RuntimeError):
    """A producer cannot be used here; the text says why."""


def default_cache() -> Path:
    """``$XDG_CACHE_HOME/tclint/corpus``, or that below ``~/.cache``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tclint" / "corpus"


@contextmanager
def locked(cache: Path) -> Iterator[None]:
    """Keep other builds away from *cache*: two of them would overwrite each other's manifest."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise Skipped(f"{cache} is in use by another build") from None
        yield


def environment(folder: Path, packages: tuple[str, ...]) -> Path:
    """The Python of a virtual environment in *folder* with exactly *packages*, made anew where it has others."""
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    wanted = json.dumps([platform.python_version(), *packages])
    ready = folder / READY
    if ready.is_file() and ready.read_text(encoding="utf-8") == wanted:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(folder)])
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--no-deps"]
    if packages:
        _run([*pip, "--only-binary=:all:", "--quiet", *packages])
    ready.write_text(wanted, encoding="utf-8")
    return python


def _run(command: list[str]) -> None:
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    if run.returncode:
        raise Skipped(_why_pip_failed(run.stderr + run.stdout))


def _why_pip_failed(said: str) -> str:
    lines = [line.removeprefix("ERROR: ") for line in said.splitlines() if line.startswith("ERROR: ")]
    why = (lines or said.split("\n") or ["no message"])[0]
    unreachable = ("NewConnectionError", "NameResolutionError", "ConnectTimeoutError", "ProxyError")
    if any(word in said for word in unreachable):
        return f"no network: {why}"
    return f"pip: {why}"


@dataclass
class Builder:
    """Builds producers into *cache* and keeps ``manifest.json`` there up to date."""

    cache: Path
    limit: int | None = None
    workers: int = 1
    say: Callable[[str], None] = print
    make_environment: Make = environment
    manifest: dict[str, Any] = field(init=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, init=False)

    def __post_init__(self) -> None:
        empty: dict[str, Any] = {"format": 1, "producers": {}, "files": [], "failures": []}
        path = self.cache / "manifest.json"
        self.manifest = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else empty
        if self.manifest.get("format") != 1:
            raise Skipped(
                f"{path}: made by another version of this program; remove it or name another --cache"
            )

    def build(self, name: str, module: str) -> bool:
        """Make what *module* has to make. False if some of it, or all, is missing; the manifest says what."""
        began = time.monotonic()
        about: Entry = {"status": "skipped", "reason": "", "packages": {}}
        try:
            producer: Producer = importlib.import_module(module)
            python = self.make_environment(self.cache / "environments" / name, tuple(producer.PACKAGES))
            self._drop("failures", name, lambda entry: True)
            self._work(name, module, python, about)
            failed = sum(entry["producer"] == name for entry in self.manifest["failures"])
            about["status"] = "partial" if failed or self.limit is not None else "complete"
            if failed:
                about["reason"] = f"{failed} of the files could not be made, see failures"
            elif self.limit is not None:
                about["reason"] = f"--limit {self.limit}"
        except Skipped as skipped:
            about["reason"] = str(skipped)
            failed = 0
        about["seconds"] = round(time.monotonic() - began, 1)
        self.manifest["producers"][name] = about
        self._write()
        counts = f"{about['files']} files, {about['bytes']:,} bytes" if about["files"] else "no files"
        reason = f" ({about['reason']})" if about["reason"] else ""
        self.say(f"{name}: {about['status']}{reason}, {counts}, {about['seconds']} s")
        return about["status"] != "skipped" and not failed

    def _work(self, name: str, module: str, python: Path, about: Entry) -> None:
        skipped: list[Skipped] = []

        def shard(number: int) -> None:
            try:
                self._shard(name, module, python, about, number)
            except Skipped as why:
                skipped.append(why)

        threads = [threading.Thread(target=shard, args=(number,)) for number in range(self.workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if skipped:
            raise skipped[0]

    def _shard(self, name: str, module: str, python: Path, about: Entry, number: int) -> None:
        """One worker, and another one after each that was ended by a job."""
        skip: list[str] = []
        while True:
            order = {
                "out": str(self.cache / name),
                "have": {e["name"]: e for e in self.manifest["files"] if e["producer"] == name},
                "skip": skip,
                "limit": self.limit,
                "shard": (number, self.workers),
            }
            running = self._one_worker(name, module, python, about, order)
            if running is None:
                return
            skip.append(running["name"])
            running["reason"] = f"the compiler did not return: {running.pop('ended')}"
            self._record(name, "failures", running)

    def _one_worker(
        self, name: str, module: str, python: Path, about: Entry, order: dict[str, Any]
    ) -> Entry | None:
        """Run a worker and record what it says; the job that ended it, if one did."""
        command = [str(python), "-m", "benchmarks.corpus.worker", module]
        path = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH", "")) if p)
        log_path = self.cache / "logs" / f"{name}.{order['shard'][0]}.log"
        log_path.parent.mkdir(parents=True, exist_ok=True)
        running: Entry | None = None
        with log_path.open("w", encoding="utf-8") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=log_path.parent,
                env={**os.environ, "PYTHONPATH": path, "TCLINT_CORPUS": str(self.cache)},
            )
            assert process.stdin is not None
            assert process.stdout is not None
            with process:
                process.stdin.write(json.dumps(order))
                process.stdin.close()
                for line in process.stdout:
                    event = json.loads(line)
                    kind = event.pop("event")
                    running = event if kind == "begin" else None
                    with self._lock:
                        self._event(name, kind, event, about)
        if process.returncode == 0:
            return None
        ended = f"status {process.returncode}, see {log_path}"
        if running is None:
            raise Skipped(f"the worker ended with {ended}")
        return {**running, "ended": ended}

    def _event(self, name: str, kind: str, event: Entry, about: Entry) -> None:
        if kind == "versions":
            about["packages"] = event["versions"]
        elif kind == "obstacle":
            raise Skipped(event["reason"])
        elif kind == "jobs" and self.limit is None:
            names = set(event["names"])
            self._drop("files", name, lambda entry: entry["name"] not in names)
        elif kind == "built":
            self._record(name, "files", event)
            self.say(f"{name}: {event['name']} ({event['bytes']:,} bytes, {event['seconds']} s)")
        elif kind == "failed":
            self._record(name, "failures", event)
            self.say(f"{name}: {event['name']} could not be made: {event['reason']}")

    def _record(self, name: str, kind: str, event: Entry) -> None:
        with self._lock:
            self._drop("files", name, lambda entry: entry["name"] == event["name"], keep_file=kind == "files")
            path = {"path": f"{name}/{event['name']}.ptx"} if kind == "files" else {}
            self.manifest[kind].append({"producer": name, **event, **path})
            self._write()

    def _drop(self, kind: str, name: str, which: Callable[[Entry], bool], *, keep_file: bool = False) -> None:
        gone = [e for e in self.manifest[kind] if e["producer"] == name and which(e)]
        for entry in gone:
            self.manifest[kind].remove(entry)
            if kind == "files" and not keep_file:
                (self.cache / entry["path"]).unlink(missing_ok=True)

    def _write(self) -> None:
        """Update the sums and replace the manifest in one step."""
        self.manifest["files"].sort(key=lambda entry: entry["path"])
        for name, about in self.manifest["producers"].items():
            own = [e for e in self.manifest["files"] if e["producer"] == name]
            about["files"] = len(own)
            about["bytes"] = sum(e["bytes"] for e in own)
            about["targets"] = dict(sorted(Counter(e["target"] for e in own).items()))
        self.manifest["python"] = platform.python_version()
        self.manifest["system"] = f"{platform.system()} {platform.machine()}"
        self.cache.mkdir(parents=True, exist_ok=True)
        fresh = self.cache / "manifest.json.new"
        fresh.write_text(json.dumps(self.manifest, indent=1) + "\n", encoding="utf-8")
        fresh.replace(self.cache / "manifest.json")
