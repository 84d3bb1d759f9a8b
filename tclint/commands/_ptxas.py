"""A drop-in for ``ptxas``: what of its command line is PTX, and the ptxas that compiles it.

:func:`main` is the program ``tclint-ptxas``, for compilers that are given the path of a ptxas. Nothing of tclint is
imported where there is no PTX to lint: compilers ask a ptxas for its version first.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

__all__ = ["Given", "PtxasMissing", "execute", "find", "given", "main", "release"]

STDIN = "-"
TRIED = "TCLINT_PTXAS_TRIED"
"""An environment variable: the programs that were taken for ptxas on the way here, so that none is taken twice."""

TRITON = {"TRITON_PTXAS_PATH": "ptxas", "TRITON_PTXAS_BLACKWELL_PATH": "ptxas-blackwell"}
"""What Triton calls instead of which of its own programs."""

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
"""The options whose value is the next argument, unless it follows a ``=``."""


class PtxasMissing(Exception):
    """There is no ptxas to run; the message says what to do about it."""


@dataclass(frozen=True, slots=True)
class Given:
    """The PTX that a command line of ptxas gives it."""

    paths: tuple[str, ...]
    """Its inputs, whether they exist or not; ``-`` is standard input."""
    texts: tuple[str, ...]
    """PTX that is itself an argument (``--input-as-string``)."""

    def __bool__(self) -> bool:
        return bool(self.paths or self.texts)


def given(arguments: Sequence[str]) -> Given:
    """What *arguments*, those after the name of the program, give ptxas to compile, files of options included."""
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
    """The arguments in a file of options; none of one that ptxas will not be able to read either."""
    import shlex

    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lexer = shlex.shlex(file.read(), posix=True)
        lexer.commenters, lexer.quotes, lexer.whitespace_split = "", '"', True
        yield from lexer
    except (OSError, ValueError):
        return


def find(program: str | None = None) -> str:
    """The ptxas that *program* (by default this one) stands in for. Raises PtxasMissing.

    ``TCLINT_PTXAS`` names it. Without that, it is the program of Triton's own that Triton calls *program* instead of,
    then the ptxas that nvcc has, if *program* is called ptxas and stands beside a link to nvcc, then the first of
    :func:`tclint.driver.cuda_tools.candidates`. What is this program under another name, or has called it, is left out.
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
            refused = f"{candidate} is no program"
    because = f" ({refused})" if refused else ""
    raise PtxasMissing(f"there is no ptxas to run{because}: name one in TCLINT_PTXAS, or put it on PATH")


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
    """The CUDA release of a ptxas, ``(13, 5)``; None where it does not say."""
    import re
    import subprocess

    try:
        said = subprocess.run(
            [path, "--version"],
            env=_environment(path),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=10,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"release (\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else None


def execute(path: str, arguments: Sequence[str]) -> NoReturn:
    """Become the program at *path*, so that its output, exit status and signals are nobody else's. Raises OSError."""
    environment = _environment(path)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    if os.name == "nt":  # there, exec does not wait for the program
        import subprocess

        sys.exit(subprocess.run([path, *arguments], env=environment, check=False).returncode)
    for name in ("SIGPIPE", "SIGXFSZ"):  # which Python ignores, and what it executes would too
        if (number := getattr(signal, name, None)) is not None:
            signal.signal(number, signal.SIG_DFL)
    os.execve(path, [path, *arguments], environment)


def _environment(path: str) -> dict[str, str]:
    """That of a program which may be a script that calls tclint again."""
    return {**os.environ, TRIED: os.pathsep.join(filter(None, (os.environ.get(TRIED), path)))}


def main() -> None:
    """``tclint-ptxas ARGUMENTS...``: all of them are for ptxas."""
    arguments = sys.argv[1:]
    if not given(arguments):
        try:
            execute(find(), arguments)
        except (PtxasMissing, OSError) as error:
            sys.exit(f"tclint-ptxas: {error}")  # exit status 1
    from tclint.commands._cli import main as tclint

    tclint(["ptxas", "--", *arguments])
