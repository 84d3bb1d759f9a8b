"""NVIDIA's ptxas as an oracle: does it accept these instructions under this version and target?

For single instructions ptxas is asked to parse only (``-arch compute_XX``): it then reports every error of a file with its line, so
thousands of independent instructions go into one run (about 100,000 lines a second). :meth:`Ptxas.compile` compiles a
whole file, with everything that ptxas has to say of it. Where ptxas is looked for: :mod:`tclint.driver.cuda_tools`.

    echo 'tcgen05.wait::ld.sync.aligned;' | python -m benchmarks.ptxas 9.1 sm_100a
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tclint.driver.cuda_tools import candidates
from tclint.isa.target import RELEASED, RENAMED, Version, dotted

__all__ = [
    "OLDEST",
    "Compilation",
    "Message",
    "Ptxas",
    "PtxasMissing",
    "before",
    "find",
    "needing_ptxas",
    "target_of",
    "without_target",
]

OLDEST: Version = (6, 3)
"""The first ``.version`` of the oldest target that ptxas 13 knows (sm_75): nothing older can be asked."""


def before(version: Version) -> Version:
    """The ``.version`` one step below *version* (itself when there is none)."""
    lower = [v for v in RELEASED if v < version]
    return lower[-1] if lower else version


class PtxasMissing(RuntimeError):
    """No ptxas was found, or the one named does not run."""


@contextmanager
def needing_ptxas() -> Iterator[None]:
    """Where this raises PtxasMissing, the program ends with its message and status 1."""
    try:
        yield
    except PtxasMissing as error:
        sys.exit(str(error))


PRELUDE = """\
.version {version}
.target {target}
.address_size 64
.shared .align 1024 .b8 smem[32768];
.shared .align 8 .b64 mbar;
.global .align 1024 .b8 gmem[65536];
.const .align 16 .b8 cmem[256];
.global .texref tex0;
.global .surfref surf0;
.func fn(.reg .b32 a) {{ ret; }}
.visible .entry k(.param .u64 P0, .param .u32 P1, .param .align 64 .b8 tm[128]) {{
.reg .pred %p<32>; .reg .b16 %h<64>; .reg .b32 %r<400>; .reg .f32 %f<300>;
.reg .b64 %rd<64>; .reg .f64 %fd<64>; {wide}
.reg .b8 %b<16>; .local .align 16 .b8 lmem[256]; .param .align 16 .b8 lparam[64];
TS: .branchtargets L0, L1;
"""
"""The module around the instructions under test: registers by type, and a symbol in every state space."""

SENTINEL = "tclint_read_to_the_end;"
"""An instruction that does not exist: when ptxas does not complain about it, it stopped reading before it."""

EPILOGUE = f"{SENTINEL}\nL0: bra L1;\nL1: ret;\n}}\n"

_ERROR = re.compile(r"ptxas [^\n]*?, line (\d+); (?:error|fatal)\s*: (.*)")
_SAID = re.compile(
    r"ptxas (?:[^\n]*?, line (?P<at>\d+); )?(?P<kind>error|fatal|warning|info)\s*: (?P<text>.*)"
)
_CODE = re.compile(r"\((C\d+)\) *")
_FUNCTION = re.compile(r"in (?:the )?function '([^']*)'")
_LINE = re.compile(r"\bline (\d+)")
_TARGET = re.compile(rb"^\s*\.target\s+(\w+)", re.MULTILINE)


def target_of(data: bytes) -> str:
    """The first name after ``.target``. Raises ValueError when there is none."""
    match = _TARGET.search(data)
    if match is None:
        raise ValueError("there is no .target in it")
    return match[1].decode()


def without_target(error: str) -> str:
    """An error of ptxas without the name of the target, so that it reads the same for all targets."""
    return re.sub(r"'(compute|sm)_\w+'", "TARGET", error)


@dataclass(frozen=True, slots=True)
class Message:
    """Something that ptxas says of a file."""

    kind: str
    """``error``, ``fatal``, ``warning`` or ``info``."""
    text: str
    """Without code and file name."""
    code: str = ""
    """``C7517``; empty where ptxas gives none."""
    function: str = ""
    line: int = 0
    """In the PTX; 0 where ptxas does not know it."""


@dataclass(frozen=True)
class Compilation:
    """How ptxas compiled a file."""

    status: int
    """Its exit status: 0 when it made machine code; below 0 when it crashed."""
    said: tuple[str, ...]
    """The lines that it printed."""
    seconds: float
    """CPU seconds."""

    @property
    def accepted(self) -> bool:
        return self.status == 0

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        """What it printed, in its order. Lines that are no message are left out."""
        found = []
        for match in filter(None, map(_SAID.match, self.said)):
            code = _CODE.match(match["text"])
            text = match["text"][code.end() if code else 0 :]
            function, line = _FUNCTION.search(text), match["at"] or (_LINE.findall(text) or ["0"])[-1]
            found.append(
                Message(
                    match["kind"],
                    text,
                    code[1] if code else "",
                    function[1] if function else "",
                    int(line),
                )
            )
        return tuple(found)

    @property
    def errors(self) -> tuple[Message, ...]:
        """Why it refuses the file. ``fatal`` stands for itself only where no error came before it."""
        errors = tuple(m for m in self.messages if m.kind == "error")
        return errors or tuple(m for m in self.messages if m.kind == "fatal")

    @property
    def advisories(self) -> tuple[Message, ...]:
        """What it did to wgmma: C7504 to C7520, but for C7508, which is about setmaxnreg."""
        codes = {f"C{number}" for number in range(7504, 7521)} - {"C7508"}
        return tuple(m for m in self.messages if m.code in codes)


@dataclass(frozen=True)
class Ptxas:
    """One ptxas program."""

    path: Path

    @cached_property
    def release(self) -> str:
        """Its release, ``"13.5"``. Raises :class:`PtxasMissing` when it does not run."""
        return self._say("--version", r"release (\d+\.\d+)")[0]

    @cached_property
    def build(self) -> str:
        """Its release with the build, ``"13.5.37"``, which is the version of its package."""
        return self._say("--version", r"V(\d+\.\d+\.\d+)")[0]

    @cached_property
    def targets(self) -> tuple[str, ...]:
        """Every ``.target`` it knows, ``sm_75`` first."""
        names = {f"sm_{n}" for n in self._say("--help", r"'compute_(\d+[af]?)'")}
        return tuple(sorted(names, key=lambda n: (int(re.sub(r"\D", "", n)), n)))

    def _say(self, option: str, pattern: str) -> list[str]:
        try:
            said = subprocess.run(
                [self.path, option], check=False, capture_output=True, text=True, timeout=60
            ).stdout
        except OSError as error:
            raise PtxasMissing(f"{self.path} does not run: {error}") from error
        found: list[str] = re.findall(pattern, said)
        if not found:
            raise PtxasMissing(f"{self.path} does not answer {option} as ptxas does")
        return found

    def arch(self, data: bytes) -> str:
        """What to write after ``-arch`` to compile a file for its own target. Raises ValueError where it has none."""
        target = target_of(data)
        for old, new in RENAMED.items():
            renamed = re.sub(rf"sm_{old}(?=[af]?$)", f"sm_{new}", target)
            if renamed != target and target not in self.targets:
                return renamed
        return target

    def compile(self, data: bytes, timeout: float = 600) -> Compilation:
        """Compile a file for its own target.

        Raises ValueError for a file without a target, or one that takes more than *timeout* seconds.
        """
        import resource  # not on Windows

        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "kernel.ptx")
            source.write_bytes(data)
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            command: list[str | Path] = [self.path, "-arch", self.arch(data), source, "-o", os.devnull]
            try:
                run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=timeout)
            except subprocess.TimeoutExpired:
                raise ValueError(f"it takes ptxas more than {timeout:.0f} s") from None
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
        said = (run.stdout + run.stderr).replace(str(source), "kernel.ptx").splitlines()
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Compilation(run.returncode, tuple(said), round(seconds, 3))

    def errors(self, lines: Sequence[str], version: Version, target: str, chunk: int = 10_000) -> list[str]:
        """The first error of each of *lines* (one instruction with its ``;`` each), ``""`` when accepted.

        *target* is what follows ``.target``, so that it may continue with ``, texmode_independent``.
        The lines are in one kernel after :data:`PRELUDE`. Raises ValueError when ptxas refuses the prelude,
        which means that *target* does not exist in *version*.
        """
        found: list[str] = []
        for start in range(0, len(lines), chunk):
            found += self._errors(lines[start : start + chunk], version, target)
        return found

    def _errors(self, lines: Sequence[str], version: Version, target: str) -> list[str]:
        number = int(re.sub(r"\D", "", target.partition(",")[0]))
        wide = ".reg .b128 %rq<16>;" if version >= (8, 3) and number >= 70 else ""
        prelude = PRELUDE.format(version=dotted(version), target=target, wide=wide)
        first = prelude.count("\n") + 1

        def ask(some: Sequence[str]) -> list[tuple[int, str]]:
            text = prelude + "".join(f"{line}\n" for line in some) + EPILOGUE
            return [(number - first, message) for number, message in self._parse(text, target)]

        left, errors = list(lines), [""] * len(lines)
        start = 0
        while True:
            said = ask(left[start:])
            reported = [index for index, _ in said]
            if len(lines) - start in reported:
                break
            # ptxas stopped at a syntax error, the last thing it reported: take that line out and continue after it.
            if not reported or not 0 <= max(reported) < len(lines) - start:
                return self._stray(lines, version, target, said[0][1] if said else "ptxas crashes")
            start += max(reported)
            errors[start] = said[reported.index(max(reported))][1]
            left[start] = ""
            start += 1
        for index, message in ask(left) if start else said:
            if 0 <= index < len(lines):
                errors[index] = errors[index] or message
            elif index != len(lines):
                return self._stray(lines, version, target, message)
        return errors

    def _stray(self, lines: Sequence[str], version: Version, target: str, message: str) -> list[str]:
        """The errors of *lines* when ptxas put one of them outside: the fault of one of them, or of the prelude."""
        if not lines:
            raise ValueError(f"ptxas refuses .version {dotted(version)}, .target {target}: {message}")
        if len(lines) == 1:
            self._errors([], version, target)
            return [message]
        half = len(lines) // 2
        return self._errors(lines[:half], version, target) + self._errors(lines[half:], version, target)

    def _parse(self, text: str, target: str) -> list[tuple[int, str]]:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "t.ptx")
            source.write_text(text)
            command: list[str | Path] = [
                self.path,
                "-arch",
                "compute_" + target.partition(",")[0].removeprefix("sm_"),
                source,
                "-o",
                os.devnull,
            ]
            run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
        if run.returncode < 0:
            return []  # a crash: what was said before it is worth nothing
        return [(int(line), message) for line, message in _ERROR.findall(run.stdout + run.stderr)]


def find() -> Ptxas:
    """The ptxas to use. Raises :class:`PtxasMissing` with what to do about it."""
    for path in candidates("ptxas"):
        if os.access(path, os.X_OK):
            return Ptxas(Path(path))
        if "TCLINT_PTXAS" in os.environ:
            raise PtxasMissing(f"TCLINT_PTXAS names {path}, which is not a program")
    raise PtxasMissing("no ptxas: set TCLINT_PTXAS to one, or pip install 'nvidia-cuda-nvcc>=13'")


def main() -> None:
    """Print what ptxas says to each line of standard input under the version and target given."""
    version, target = sys.argv[1:3]
    major, minor = version.split(".")
    lines = [line.strip() for line in sys.stdin if line.strip()]
    try:
        errors = find().errors(lines, (int(major), int(minor)), target)
    except (PtxasMissing, ValueError) as error:
        sys.exit(str(error))
    for line, said in zip(lines, errors, strict=True):
        print(f"{line}\n    {said or 'accepted'}")


if __name__ == "__main__":
    main()
