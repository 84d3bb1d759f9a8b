"""The list of sources, and fetching: wheels are unpacked, repositories are checked out, nothing is installed or run."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tclint import _toml

__all__ = ["HEADERS", "LIST", "Compile", "Source", "Unreachable", "fetch", "listed", "load"]

LIST = Path(__file__).with_name("sources.toml")
HEADERS = ".headers"
"""The folder, in that of a source, of the wheels that its compile jobs include headers from."""
SECONDS = 900
"""How long pip or git may take for a source."""
PLATFORMS = tuple(
    f"manylinux{version}_x86_64"
    for version in (
        "_2_39",
        "_2_35",
        "_2_34",
        "_2_31",
        "_2_28",
        "_2_27",
        "_2_24",
        "_2_17",
        "2014",
        "2010",
        "1",
    )
)


class Unreachable(RuntimeError):
    """A source cannot be fetched here; the text says why."""


@dataclass(frozen=True)
class Compile:
    """Files of a source that nvcc compiles, or instances of its templates."""

    targets: tuple[str, ...]
    files: tuple[str, ...] = ()
    """Patterns below the folder of the source."""
    instances: tuple[str, ...] = ()
    """Kernels with template arguments, for a source that has only headers: those that its own just-in-time compiler
    asks for."""
    prelude: str = ""
    """What precedes the instances in their file: the headers."""
    options: tuple[str, ...] = ()
    """Options of nvcc; ``{source}`` stands for the folder of the source."""


@dataclass(frozen=True)
class Source:
    """A package or a repository: exactly one of *package* and *repository* is given."""

    name: str
    gives: str
    """What is expected of it, for readers of the list."""
    package: str = ""
    """A wheel, as a requirement with its version."""
    python: str = ""
    """The version of Python that the wheel is for, such as 3.12; the running one by default."""
    repository: str = ""
    """The address of a git repository."""
    commit: str = ""
    headers: tuple[str, ...] = ()
    """Wheels of other projects, as requirements, whose headers the compile jobs include from ``{source}/.headers``. No
    kernel is taken from them."""
    compile: tuple[Compile, ...] = ()
    programs: int = 0
    """How many parts of a path name a program, where the repository is a collection of programs; 0: it is none."""
    made: str = ""
    """The compiler, where this program does not run it: the PTX of the source is then in ``made/NAME`` of the cache, and
    nothing is fetched."""

    @property
    def version(self) -> str:
        """What fixes the kernels of the source: its contents, and what is compiled of them."""
        compiled = f" {zlib.crc32(repr(self.compile).encode()):08x}" if self.compile else ""
        compiled += f" programs {self.programs}" if self.programs else ""
        origin = self.package or f"{self.repository}@{self.commit}"
        return " ".join((origin, *self.headers, *self.made.split())) + compiled


def load(path: Path) -> dict[str, Any]:
    """A TOML file."""
    return _toml.parse(path.read_text(encoding="utf-8"))


def listed(path: Path = LIST) -> tuple[Source, ...]:
    """The sources in *path*, in its order. Raises ValueError for a name that is used twice, or an unknown field."""
    found = tuple(_source(entry) for entry in load(path)["source"])
    names = [source.name for source in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{path}: {', '.join(twice)} is listed twice")
    return found


def _source(entry: Mapping[str, Any]) -> Source:
    try:
        jobs = tuple(_job(job) for job in entry.get("compile", ()))
        source = Source(**{**entry, "headers": tuple(entry.get("headers", ())), "compile": jobs})
    except TypeError as error:
        raise ValueError(f"{entry.get('name')}: {error}") from None
    if bool(source.package) == bool(source.repository) or bool(source.repository) != bool(source.commit):
        raise ValueError(f"{source.name}: give a package, or a repository with a commit")
    if source.made and source.compile:
        raise ValueError(f"{source.name}: give compile jobs, or the compiler that made the PTX")
    if source.programs and not source.compile:
        raise ValueError(f"{source.name}: give compile jobs for the programs")
    if not all(job.files or job.instances for job in source.compile):
        raise ValueError(f"{source.name}: give files or instances for each compile job")
    return source


def _job(entry: Mapping[str, Any]) -> Compile:
    fields: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()
    }
    return Compile(**fields)


def fetch(source: Source, folder: Path) -> None:
    """Unpack or check out a source into *folder*, which is empty. Raises Unreachable."""
    if source.package:
        _download(source, source.package, folder)
    else:
        git = ["git", "-C", str(folder), "-c", "core.hooksPath=/dev/null", "-c", "filter.lfs.smudge=", "-c", "filter.lfs.required=false"]  # fmt: skip
        _run([*git, "init", "--quiet"])
        _run([*git, "fetch", "--quiet", "--depth", "1", "--no-tags", source.repository, source.commit])
        _run([*git, "-c", "core.symlinks=false", "checkout", "--quiet", "FETCH_HEAD"])
    for package in source.headers:
        _download(source, package, folder / HEADERS)


def _download(source: Source, package: str, folder: Path) -> None:
    """Unpack a wheel of *package*, for the Python of *source*, into *folder*."""
    with_pip = folder / ".wheel"
    _run([*_pip(source), "--dest", str(with_pip), package])
    for wheel in with_pip.glob("*.whl"):
        _unpack(wheel, folder)
        wheel.unlink()


def _pip(source: Source) -> list[str]:
    """A download of a wheel for any Python: pip runs the build of a source distribution, but no part of a wheel."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
    command += ["--only-binary=:all:", *(word for name in PLATFORMS for word in ("--platform", name))]
    return [*command, *(["--python-version", source.python] if source.python else [])]


def _unpack(wheel: Path, folder: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
    except (zipfile.BadZipFile, OSError) as error:
        raise Unreachable(f"{wheel.name} cannot be unpacked: {error}") from None


def _run(command: list[str]) -> None:
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1"}
    try:
        run = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=SECONDS, env=environment
        )
    except subprocess.TimeoutExpired:
        raise Unreachable(f"{command[0]} took more than {SECONDS} s") from None
    except OSError as error:
        raise Unreachable(f"{command[0]}: {error.strerror}") from None
    if run.returncode:
        lines = [line for line in (run.stderr + run.stdout).splitlines() if line.strip()]
        said = next(
            (line for line in lines if line.startswith(("ERROR", "fatal"))), (lines or ["no message"])[0]
        )
        raise Unreachable(said.strip()[:200])
