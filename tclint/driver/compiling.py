"""The PTX that nvcc makes of CUDA C++: a source is like a container whose modules nvcc extracts.

nvcc keeps the PTX of every architecture among its intermediate files, even where ptxas rejects it. ``-lineinfo`` is added,
which changes no instruction, so that findings name the lines of the source.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from tclint._named_tuple import NamedTuple
from tclint.driver.compile_commands import Call, calls, nearest
from tclint.driver.cuda_tools import candidates, complaint
from tclint.driver.inputs import read
from tclint.driver.one import Input
from tclint.inline.hosts import CPP
from tclint.syntax.source import Source, SourceError, read_bytes

__all__ = ["MISSING", "Kept", "compiled", "find_nvcc", "kept"]

MISSING = (
    "nvcc was not found: put it on PATH, set TCLINT_NVCC to its path or CUDA_HOME to its toolkit, or install "
    "nvidia-cuda-nvcc, nvidia-cuda-crt, nvidia-nvvm, nvidia-cuda-runtime and nvidia-cuda-cccl beside tclint"
)
_LINES = frozenset(("-lineinfo", "--generate-line-info", "-G", "--device-debug"))
_PHASES = frozenset(
    ("-c", "--compile", "-dc", "--device-c", "-dw", "--device-w", "-ptx", "--ptx", "-cubin", "--cubin")
)
"""What a compilation is to make. Of the PTX, a fatbin is made instead, which may have several architectures."""
_OUTPUT = frozenset(("-o", "--output-file"))
_KEEP_FOLDER = ("-keep-dir", "--keep-dir")


def find_nvcc() -> str | None:
    """The nvcc of ``TCLINT_NVCC``, ``PATH``, a toolkit or a Python package; None if there is none."""
    return next(candidates("nvcc"), None)


def compiled(
    chosen: Iterable[tuple[str, str]],
    nvcc: str,
    arguments: Sequence[str],
    limit: int,
    database: str | None = None,
) -> Iterator[Input]:
    """What :func:`tclint.driver.inputs.read` yields, but for CUDA C++ its modules as *nvcc* compiles them.

    Without *arguments*, those of the ``compile_commands.json`` at *database* are used, or else of the nearest one, if it has the
    source.
    """
    known: dict[str | None, dict[str, Call]] = {None: {}}
    for path, name in chosen:
        if not path.lower().endswith(CPP):
            yield from read([(path, name)], limit)
            continue
        try:
            described = None if arguments else database or nearest(path)
            if described not in known:
                known[described] = _described(str(described))
            call = known[described].get(os.path.realpath(path), Call(os.curdir, tuple(arguments)))
            for source in _modules(path, name, nvcc, call, limit):
                yield name, source
        except SourceError as error:
            yield name, error


def _described(database: str) -> dict[str, Call]:
    """The calls in a ``compile_commands.json``. Raises SourceError."""
    try:
        return calls(database)
    except SourceError as error:
        raise SourceError(f"{database} {error}; arguments after '--' take its place") from None


def _modules(path: str, name: str, nvcc: str, call: Call, limit: int) -> Iterator[Source]:
    """The PTX modules of the source at *path*. Raises SourceError, after the modules that there are."""
    with TemporaryDirectory(prefix="tclint-") as folder:
        made = os.path.join(folder, "made.fatbin")
        source_path = path if call.folder == os.curdir else os.path.abspath(path)
        command = [*_without_result(call.arguments), "-fatbin", "-o", made, source_path]
        with kept([nvcc, *command]) as run:
            done = subprocess.run(
                run.command,
                capture_output=True,
                text=True,
                errors="replace",
                stdin=subprocess.DEVNULL,
                check=False,
                cwd=call.folder,
            )
            found = list(run.modules(limit))
        for member, data in found:
            yield Source.from_bytes(data, name, member)
    if done.returncode:
        raise SourceError(f"nvcc failed: {complaint(done).replace(run.folder + os.sep, '')}")
    if not found:
        raise SourceError(
            "nvcc made no PTX of it; '-- -x cu' makes it compile other suffixes than .cu as CUDA C++"
        )


class Kept(NamedTuple):
    """A call of nvcc that keeps its PTX."""

    command: list[str]
    folder: str
    before: Mapping[str, int]
    """The PTX that is in the folder already, with the time of its last change, if the call names one of its own."""

    def modules(self, limit: int) -> Iterator[tuple[str, bytes]]:
        """The name and the text of each module that was kept. Raises SourceError if one has more than *limit* bytes."""
        for name, changed in sorted(_texts(self.folder).items()):
            if self.before.get(name) != changed:
                yield name, read_bytes(os.path.join(self.folder, name), limit)


@contextmanager
def kept(command: Sequence[str]) -> Iterator[Kept]:
    """*command*, a call of nvcc, with the options that keep its PTX and its line information.

    If it names a folder for intermediate files itself, that one is used.
    """
    own = _value(command, _KEEP_FOLDER)
    lines = [] if _LINES.intersection(command) else ["-lineinfo"]
    with TemporaryDirectory(prefix="tclint-") as folder:
        if own is not None:
            yield Kept([*command, *lines], own, _texts(own) if os.path.isdir(own) else {})
        else:
            yield Kept([*command, *lines, "--keep", "--keep-dir", folder], folder, {})


def _texts(folder: str) -> dict[str, int]:
    """The PTX files in a folder, with the time in nanoseconds at which each was last changed."""
    with os.scandir(folder) as entries:
        return {e.name: e.stat(follow_symlinks=False).st_mtime_ns for e in entries if e.name.endswith(".ptx")}


def _value(arguments: Sequence[str], names: Sequence[str]) -> str | None:
    """The value of the last option among *arguments* that is called one of *names*."""
    found = None
    for at, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name in names:
            found = value if equals else arguments[at + 1] if at + 1 < len(arguments) else None
    return found


def _without_result(arguments: Sequence[str]) -> Iterator[str]:
    """*arguments* without those that name what is to be made."""
    left = iter(arguments)
    for argument in left:
        if argument in _OUTPUT:
            next(left, None)
        elif argument not in _PHASES and argument.partition("=")[0] not in _OUTPUT:
            yield argument
