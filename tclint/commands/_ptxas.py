"""The drop-in replacement for ``ptxas``: finds the PTX in its command line, and the real ptxas.

:func:`main` is the program ``tclint-ptxas``, for compilers that take the path of a ptxas. Without PTX to lint, nothing
else of tclint is imported, since compilers first ask ptxas for its version.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

from tclint.driver.cuda_tools import TRIED, ToolError, environment, run

__all__ = ["TRIED", "Given", "PtxasMissing", "Started", "execute", "find", "given", "main", "release"]

STDIN = "-"
PIPED = (STDIN, "/dev/stdin")
"""The paths of standard input."""
TRITON = {"TRITON_PTXAS_PATH": "ptxas", "TRITON_PTXAS_BLACKWELL_PATH": "ptxas-blackwell"}
"""Environment variable -> the program bundled with Triton that it replaces."""

AS_TEXT = ("--input-as-string", "-ias")
FROM_FILE = ("--options-file", "-optf")
VALUED = frozenset(
    (
        *AS_TEXT,
        *FROM_FILE,
        *"--Ofast-compile -Ofc --allow-expensive-optimizations -allow-expensive-optimizations".split(),
        *"--apply-controls -apply-controls --def-load-cache -dlcm --def-store-cache -dscm".split(),
        *"--device-function-maxrregcount -func-maxrregcount --device-stack-protector -device-stack-protector".split(),
        *"--enable-func-clone-sc -enable-func-clone-sc --entry -e --fmad -fmad".split(),
        *"--force-load-cache -flcm --force-store-cache -fscm --gpu-name -arch --machine -m".split(),
        *"--maxntid -maxntid --maxrregcount -maxrregcount --minnctapersm -minnctapersm".split(),
        *"--opt-level -O --output-file -o --position-independent-code -pic".split(),
        *"--register-usage-level -regUsageLevel --sanitize -sanitize --split-compile -split-compile".split(),
    )
)
"""The options of ptxas whose value is the next argument, unless it follows ``=``."""


class PtxasMissing(Exception):
    """No ptxas was found. The message says how to provide one."""


@dataclass(frozen=True, slots=True)
class Given:
    """The PTX in a command line of ptxas."""

    paths: tuple[str, ...]
    """Input files, whether they exist or not; ``-`` is standard input."""
    texts: tuple[str, ...]
    """PTX passed as an argument (``--input-as-string``)."""

    def __bool__(self) -> bool:
        return bool(self.paths or self.texts)

    @property
    def standard_input(self) -> bool:
        """Whether standard input is one of the files."""
        return not set(PIPED).isdisjoint(self.paths)


def given(arguments: Sequence[str]) -> Given:
    """The PTX in *arguments*, which exclude the name of the program. Options files are followed."""
    paths: list[str] = []
    texts: list[str] = []
    read: set[str] = set()

    def take(words: Iterator[str]) -> None:
        for word in words:
            if word == STDIN or not word.startswith("-"):
                paths.append(word)
                continue
            option, equals, value = word.partition("=")
            if option not in VALUED:
                continue
            if not equals:
                value = next(words, "")
            if option in AS_TEXT:
                texts.append(value)
            elif option in FROM_FILE:
                for path in value.split(","):
                    if path not in read:
                        read.add(path)
                        take(_words(path))

    take(iter(arguments))
    return Given(tuple(dict.fromkeys(paths)), tuple(texts))


def _words(path: str) -> Iterator[str]:
    """The arguments in an options file; none if it cannot be read, which ptxas will report."""
    import shlex

    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lexer = shlex.shlex(file.read(), posix=True)
        lexer.commenters, lexer.quotes, lexer.whitespace_split = "", '"', True
        yield from lexer
    except (OSError, ValueError):
        return


def find(program: str | None = None) -> str:
    """The ptxas that *program* (by default this one) replaces. Raises PtxasMissing.

    ``TCLINT_PTXAS`` gives it. Without that, the first of these that is executable: the program bundled with Triton that
    *program* replaces; nvcc's ptxas, if *program* is called ptxas and is beside a link to nvcc; and
    :func:`tclint.driver.cuda_tools.candidates`. *program* itself under another name, and programs that have called it,
    are skipped.
    """
    program = sys.argv[0] if program is None else program
    tried = os.environ.get(TRIED, "").split(os.pathsep)
    refused = ""
    for candidate in _candidates(program):
        if candidate in tried or os.path.realpath(candidate) == os.path.realpath(program):
            refused = f"{candidate} is tclint itself, or has called it"
        elif os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
        else:
            refused = f"{candidate} is not an executable"
    because = f" ({refused})" if refused else ""
    raise PtxasMissing(f"ptxas was not found{because}: set TCLINT_PTXAS to its path, or put it on PATH")


def _candidates(program: str) -> Iterator[str]:
    from tclint.driver.cuda_tools import candidates, packaged, variable

    asked = [name for key, name in TRITON.items() if os.environ.get(key) == program]
    named = os.path.splitext(os.path.basename(program))[0].removeprefix("tclint-")
    name = asked[0] if len(asked) == 1 else named if named in TRITON.values() else "ptxas"
    for known in dict.fromkeys((name, "ptxas")):
        if os.environ.get(variable(known)):
            yield from candidates(known)
            return
    if asked:
        yield from (os.path.join(folder, name) for folder in packaged("triton", "backends/nvidia/bin"))
    folder, own = os.path.split(program)
    if own == name and os.path.islink(nvcc := os.path.join(folder, "nvcc")):
        yield os.path.join(os.path.dirname(os.path.realpath(nvcc)), name)
    for known in dict.fromkeys((name, "ptxas")):
        yield from candidates(known)


def release(path: str) -> tuple[int, int] | None:
    """The CUDA release of a ptxas, ``(13, 5)``; None if it cannot be determined."""
    import re

    try:
        output = run(path, "--version", seconds=10).stdout
    except ToolError:
        return None
    found = re.search(r"release (\d+)\.(\d+)", output)
    return (int(found[1]), int(found[2])) if found else None


def execute(path: str, arguments: Sequence[str]) -> NoReturn:
    """Replaces this process by the program at *path*, whose output, exit status and signals are then its own.

    Raises OSError.
    """
    changed = environment(path)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    if os.name == "nt":  # exec does not wait for the program on Windows
        import subprocess

        sys.exit(subprocess.run([path, *arguments], env=changed, check=False).returncode)
    for name in ("SIGPIPE", "SIGXFSZ"):  # Python ignores them, and the program would inherit that
        if (number := getattr(signal, name, None)) is not None:
            signal.signal(number, signal.SIG_DFL)
    os.execve(path, [path, *arguments], changed)


class Started:
    """The program at *path*, which has been started with this process's streams. Raises OSError."""

    def __init__(self, path: str, arguments: Sequence[str], mask: Iterable[int] | None) -> None:
        """*mask* are the signals that it blocks; None where none can be."""
        from subprocess import Popen

        restore = None if mask is None else lambda: signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        # There is no other thread that could hold a lock.
        self._process = Popen([path, *arguments], env=environment(path), preexec_fn=restore)  # noqa: PLW1509

    def wait(self) -> None:
        """Wait for its end; if an exception such as that of a signal ends this, end it."""
        try:
            self._process.wait()
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """End it, if it still runs."""
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait()

    def status(self) -> int:
        """Its exit status. If a signal has ended it, that ends this process, too."""
        status = self._process.wait()
        if status < 0:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
            number = signal.Signals(-status)
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            status = 128 - status  # process 1 of a container survives signals from itself
        return status


def main() -> None:
    """``tclint-ptxas ARGUMENTS...``, where all arguments belong to ptxas."""
    arguments = sys.argv[1:]
    if not given(arguments):
        try:
            execute(find(), arguments)
        except (PtxasMissing, OSError) as error:
            sys.exit(f"tclint-ptxas: {error}")  # exit status 1
    from tclint.commands._cli import main as tclint

    tclint(["ptxas", "--", *arguments])
