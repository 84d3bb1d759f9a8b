"""The command on odd inputs: enormous and deep texts, odd encodings, damaged containers, settings and comments.

Each is a process ``tclint check``, with options and an output format drawn at random. It fails when it ends otherwise
than with 0, 1 or 2, shows a traceback or speaks of an internal error, says nothing at all when it ends with 2, takes
longer than a minute, or ends with 0 although the text is broken.
"""

from __future__ import annotations

import gzip
import os
import random
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.fuzz.kernels import Kernel
from benchmarks.fuzz.runs import made
from benchmarks.fuzz.text import BYTES
from tclint.report.formats import formats
from tclint.syntax import parse
from tclint.syntax.source import GZIP, Source, SourceError

__all__ = ["EXTREMES", "Case", "cases", "extreme", "failure"]

SECONDS = 60
"""Of wall-clock time, after which a process counts as a hang."""
ROOT = Path(__file__).resolve().parents[2]
_INTERNAL = "TCLINT_DEBUG=1 shows where"
"""Ends what the command says of an exception; cuobjdump has internal errors of its own."""


@dataclass(frozen=True)
class Case:
    """One process: what is on its standard input, which other files exist, and its options."""

    name: str
    data: bytes
    options: tuple[str, ...] = ()
    files: dict[str, bytes] = field(default_factory=dict)
    """By name, in the folder in which the process runs."""
    path: str = "-"


# ---------------------------------------------------------------- enormous and deep texts

HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"
_REGISTERS = ".reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .shared .align 8 .b64 bar;\n"


def _kernel(body: str) -> str:
    return f"{HEAD}.visible .entry k(.param .u64 a)\n{{\n{_REGISTERS}{body}\nret;\n}}\n"


def _calls(count: int, body: str) -> str:
    """Functions each of which calls the next one."""
    functions = "".join(f".func f{i}() {{ call f{i + 1}, (); ret; }}\n" for i in reversed(range(count)))
    declared = "".join(f".func f{i}();\n" for i in range(count + 1))
    last = f".func f{count}() {{ {_REGISTERS} {body} ret; }}\n"
    return f"{HEAD}{declared}{last}{functions}.visible .entry k() {{ call f0, (); ret; }}\n"


def _doubling_calls(count: int) -> str:
    """Functions each of which calls the next one twice: an inliner would make two to the power of *count*."""
    functions = "".join(
        f".func f{i}() {{ call f{i + 1}, (); call f{i + 1}, (); ret; }}\n" for i in range(count)
    )
    declared = "".join(f".func f{i}();\n" for i in range(count + 1))
    last = f".func f{count}() {{ wgmma.commit_group.sync.aligned; ret; }}\n"
    return f"{HEAD}{declared}{last}{functions}.visible .entry k() {{ call f0, (); ret; }}\n"


def _diamonds(count: int) -> str:
    """Branches one after the other, with what the analyses look at on one side of each."""
    return _kernel(
        "".join(
            f"setp.eq.u32 %p1, %r{i % 8}, {i};\n@%p1 bra L{i};\nwgmma.fence.sync.aligned;\n"
            f"wgmma.commit_group.sync.aligned;\nL{i}:\n"
            for i in range(count)
        )
    )


def _loops(depth: int) -> str:
    """Loops one in another."""
    opened = "".join(f"L{i}:\nadd.s32 %r1, %r1, 1;\n" for i in range(depth))
    closed = "".join(
        f"wgmma.wait_group.sync.aligned 0;\nsetp.lt.s32 %p1, %r1, {i};\n@%p1 bra L{i};\n"
        for i in reversed(range(depth))
    )
    return _kernel(opened + closed)


EXTREMES: dict[str, Callable[[int], str]] = {
    "braces": lambda n: _kernel("{" * n + "}" * n),
    "unclosed braces": lambda n: _kernel("{" * n),
    "unopened braces": lambda n: _kernel("}" * n),
    "parentheses": lambda n: _kernel("mov.u32 %r1, " + "(" * n + "1" + ")" * n + ";"),
    "unclosed parentheses": lambda n: _kernel("mov.u32 %r1, " + "(" * n + ";"),
    "brackets": lambda n: _kernel("ld.global.u32 %r1, " + "[" * n + "%rd1" + "]" * n + ";"),
    "vectors": lambda n: _kernel("mov.b64 %rd1, " + "{" * n + "%r1" + "}" * n + ";"),
    "initialisers": lambda n: f"{HEAD}.global .b32 g[1] = {'{' * n}1{'}' * n};\n",
    "signs": lambda n: _kernel("mov.u32 %r1, " + "-" * n + "1;"),
    "negations": lambda n: _kernel("mov.pred %p1, " + "!" * n + "%p2;"),
    "casts": lambda n: _kernel("mov.u32 %r1, " + "(.s64)" * n + "1;"),
    "pairs": lambda n: _kernel("setp.eq.s32 " + "%p1|" * n + "%p2, %r1, 0;"),
    "lists in lists": lambda n: _kernel("call k, " + "(1," * n + "1" + ")" * n + ";"),
    "a sum": lambda n: _kernel("mov.u32 %r1, " + "1+" * n + "1;"),
    "a condition": lambda n: _kernel("mov.u32 %r1, " + "1?2:" * n + "1;"),
    "an opcode": lambda n: _kernel("add" + ".s32" * n + " %r1, %r1, 1;"),
    "an unknown opcode": lambda n: _kernel("a" * n + ".b %r1;"),
    "a modifier": lambda n: _kernel("add." + "s" * n + " %r1, %r1, 1;"),
    "a name": lambda n: _kernel(f"mov.u32 %{'r' * n}, 1;"),
    "an integer": lambda n: _kernel(f"mov.u32 %r1, {'9' * n};"),
    "a hexadecimal integer": lambda n: _kernel(f"mov.u32 %r1, 0x{'f' * n};"),
    "a float": lambda n: _kernel(f"mov.f32 %r1, {'9' * n}.{'9' * n}e{'9' * n};"),
    "an integer of a range": lambda n: _kernel(f"wgmma.wait_group.sync.aligned {'9' * n};"),
    "a number of registers": lambda n: _kernel(f".reg .b32 %x<{'9' * n}>;"),
    "an alignment": lambda n: _kernel(f".shared .align {'9' * n} .b8 x[{'9' * n}];"),
    "a version": lambda n: _kernel("ret;").replace("8.6", f"{'9' * n}.{'9' * n}"),
    "a target": lambda n: _kernel("ret;").replace("sm_90a", "sm_" + "9" * n),
    "a directive's numbers": lambda n: _kernel("ret;").replace("\n{", "\n.maxntid " + "9" * n + "\n{"),
    "a string": lambda n: f'{HEAD}.file 1 "{"x" * n}"\n' + _kernel(".loc 1 1 1\nwgmma.wait_group.sync.aligned 99;"),
    "a comment": lambda n: _kernel("/*" + "*" * n + "/"),
    "a comment that does not end": lambda n: _kernel("/*" * n),
    "comments": lambda n: _kernel("/**/" * n + "//\n" * n),
    "comments for tclint": lambda n: _kernel("// tclint: ignore[WG001] x\n" * n),
    "a comment for tclint": lambda n: _kernel(f"// tclint: ignore[{'WG001,' * n}] x"),
    "lines": lambda n: _kernel("\n" * n),
    "blanks": lambda n: _kernel(" " * n),
    "operands": lambda n: _kernel("add.s32 " + "%r1, " * n + "%r1;"),
    "commas": lambda n: _kernel("add.s32 " + "," * n + ";"),
    "semicolons": lambda n: _kernel(";" * n),
    "at signs": lambda n: _kernel("@" * n + "%p1 ret;"),
    "guards": lambda n: _kernel("@%p1 " * n + "ret;"),
    "labels": lambda n: _kernel("".join(f"L{i}:\n" for i in range(n))),
    "the same label": lambda n: _kernel("L:\n" * n + "bra L;"),
    "targets of a branch": lambda n: _kernel(
        "L: T: .branchtargets " + "L, " * n + "L;\nbrx.idx %r1, T;"
    ),
    "functions": lambda n: HEAD + "".join(f".func f{i}() {{ ret; }}\n" for i in range(n // 10)),
    "functions of one name": lambda n: HEAD + ".func f() { ret; }\n" * (n // 10),
    "parameters": lambda n: f"{HEAD}.func f({', '.join(f'.reg .b32 a{i}' for i in range(n))}) {{ ret; }}\n",
    "variables": lambda n: HEAD + "".join(f".global .b32 g{i};\n" for i in range(n)),
    "scopes with a register each": lambda n: _kernel("{ .reg .b32 %r1;" * n + "}" * n),
    "undeclared registers": lambda n: _kernel("".join(f"mov.u32 %q{i}, 1;\n" for i in range(n // 10))),
    "unknown instructions": lambda n: _kernel("".join(f"addd{i} %r1;\n" for i in range(n // 100))),
    "a chain of values": lambda n: _kernel("add.s32 %r1, %r1, 1;\n" * (n // 5) + "bar.sync %r1;"),
    "a chain of predicates": lambda n: _kernel(
        "xor.pred %p1, %p1, %p2;\n" * (n // 5) + "@%p1 wgmma.fence.sync.aligned;"
    ),
    "a chain of selections": lambda n: _kernel(
        "selp.b32 %r1, %r1, %r2, %p1;\n" * (n // 5) + "setp.eq.s32 %p2, %r1, 0;\n@%p2 wgmma.fence.sync.aligned;"
    ),
    "addresses of a chain": lambda n: _kernel(
        "mov.u32 %r1, bar;\n" + "shl.b32 %r2, %r1, 1;\nadd.s32 %r1, %r2, %r1;\n" * (n // 10)
        + "mbarrier.init.shared.b64 [%r1], 1;\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%r1], [%rd1], 16, [%r1];\nst.shared.u32 [%r1], 0;"
    ),
    "branches": lambda n: _diamonds(n // 50),
    "loops": lambda n: _loops(n // 100),
    "copies in flight": lambda n: _kernel(
        "cp.async.ca.shared.global [%r1], [%rd1], 16;\ncp.async.commit_group;\n" * (n // 20) + "ld.shared.u32 %r2, [%r1];"
    ),
    "calls in a row": lambda n: _calls(n // 50, "wgmma.commit_group.sync.aligned;"),
    "calls without an event": lambda n: _calls(n // 20, ""),
    "calls that double": lambda n: _doubling_calls(n // 3000),
    "a function that calls itself": lambda n: _kernel("call k, ();\n" * (n // 50)),
    "sections": lambda n: HEAD + ".section .debug_x { .b8 1 }\n" * n,
    "places inlined": lambda n: f'{HEAD}.file 1 "a.cu"\n' + _kernel(
        "".join(f".loc 1 {i + 2} 1, function_name $f, inlined_at 1 {i + 1} 1\n" for i in range(n))
        + "wgmma.wait_group.sync.aligned 99;"
    ),
    "control characters": lambda n: _kernel("mov.u32 %r1, " + "\x01\x07\x08\x0b\x1b\x7f" * (n // 6) + ";"),
    "marks of direction": lambda n: _kernel("// \u202e\u2066\N{GRINNING FACE}" * n + "\nwgmma.wait_group.sync.aligned 99;"),
}  # fmt: skip
"""Texts that grow with a number: deep, long, or many of something."""


def extreme(name: str, size: int) -> bytes:
    """The text of :data:`EXTREMES` with about *size* of what it has many of."""
    return EXTREMES[name](size).encode()


# ---------------------------------------------------------------- encodings, containers, settings


def _encoded(rng: random.Random, data: bytes) -> bytes:
    text = data.decode(errors="replace")
    way = rng.randrange(8)
    if way < 4:
        return text.encode(("utf-16", "utf-16-le", "utf-32", "utf-8-sig")[way])
    at = rng.randrange(len(data) + 1)
    odd = (b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"\xf0\x9f\x98")[way - 4]
    return data[:at] + odd + data[at:]


_MAGIC = (
    b"\x7fELF", b"\x7fELF\2\1\1\x33\7" + bytes(7) + b"\2\0\xbe\0", b"\x50\xed\x55\xba\1\0\x10\0", b"!<arch>\n", b"MZ\x90",
    b"PK\3\4", b"\x1f\x8b\x08\0", b"\x28\xb5\x2f\xfd", b"BC\xc0\xde", b"\x7fTileIR\0",
)  # fmt: skip


def _contained(rng: random.Random, data: bytes) -> bytes:
    """*data* after the first bytes of a container, or packed and then damaged."""
    if rng.randrange(2):
        return rng.choice(_MAGIC) + data[: rng.randrange(len(data) + 1)]
    packed = gzip.compress(data, mtime=0)
    return rng.choice(BYTES)(rng, packed) if rng.randrange(4) else packed + rng.choice((b"\0", b"x", packed))


_SETTINGS = (
    'select = ["WG", "PX"]', "pedantic = true", 'min-severity = "warning"', 'fail-on = "error"', "exit-zero = true",
    'exclude = ["*.x", "a/**"]', "jobs = 2", 'entry = ["k*"]', 'ignore = ["ALL"]', 'min-confidence = "low"',
    "[per-file-ignores]\n'*.ptx' = [\"WG\"]", "[per-entry-ignores]\n'k' = [\"TC\"]", 'select = "WG"', "jobs = -1",
    "jobs = 99999999999999999999", "select = [1, {}]", "x = 1", 'entry = [""]', "exclude = ['[', '\\0']", "nul = \0",
)  # fmt: skip


def _settings(rng: random.Random) -> bytes:
    text = "\n".join(rng.sample(_SETTINGS, rng.randrange(1, 4))).encode()
    return rng.choice(BYTES)(rng, text) if rng.randrange(3) else text


_COMMENTS = (
    "// tclint: ignore[WG001] why", "// tclint: ignore[", "// tclint: ignore[]", "// tclint: ignore[XX999]",
    "// tclint:ignore-entry[ALL]", "/* tclint: ignore[PX] */", "/* tclint: ignore[PX]", "// tclint: ignore[\x1b[31m]",
    "// tclint: ignore[WG001,,]", "// tclint: tclint: ignore[WG001]", "// tclint: ignore[\N{GRINNING FACE}] x",
    "// tclint: ignore-entry[wg001] //",
)  # fmt: skip


def _commented(rng: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    for _ in range(rng.randrange(1, 5)):
        lines.insert(rng.randrange(len(lines) + 1), rng.choice(_COMMENTS).encode())
    return b"\n".join(lines)


def _options(rng: random.Random) -> tuple[str, ...]:
    found = ["--output-format", rng.choice(formats())]
    for option in (
        "--pedantic", "--exit-zero", "--timings", "--isolated", "--color=always", "--locate=source", "--jobs=2",
        "--entry=*", "--select=WG,PX", "--ignore=ALL", "--min-severity=error", "--statistics",
        f"--output={rng.choice(formats())}=report.txt", "--stdin-filename=\x1b[1m odd\tname.ptx", "--config=pedantic=true",
    ):  # fmt: skip
        if rng.randrange(8) == 0:
            found.append(option)
    return tuple(found)


def cases(kernels: Sequence[Kernel], seed: int, count: int) -> Iterator[Case]:
    """First every text of :data:`EXTREMES`, then odd inputs and files of all kinds; *count* in all."""
    rng = random.Random(f"{seed}:commands")
    for name in list(EXTREMES)[:count]:
        yield Case(f"extreme: {name}", extreme(name, 10_000), _options(rng))
    for number in range(max(0, count - len(EXTREMES))):
        kernel, _, _, changed = made(kernels, seed, number)
        kind = ("changed", "encoded", "contained", "settings", "commented", "file")[number % 6]
        options = _options(rng)
        files: dict[str, bytes] = {}
        data, path = changed, "-"
        if kind == "encoded":
            data = _encoded(rng, kernel.data)
        elif kind == "contained":
            data = _contained(rng, kernel.data)
        elif kind == "settings":
            data = kernel.data
            files["tclint-ptx.toml"] = _settings(rng)
        elif kind == "commented":
            data = _commented(rng, kernel.data)
        elif kind == "file":
            path = rng.choice(("k.ptx", "k.ptx.gz", "k.cubin", "k.fatbin", "odd \x1b name.ptx"))
            files[path] = rng.choice((changed, _contained(rng, kernel.data), _encoded(rng, kernel.data), b""))
            data = b""
        yield Case(kind, data, options, files, path)


# ---------------------------------------------------------------- judging


def _broken(data: bytes) -> bool:
    """Whether the grammar refuses a text, packed or not."""
    try:
        if data.startswith(GZIP):
            data = gzip.decompress(data)
        return parse(Source.from_bytes(data, "").data).root_node.has_error
    except (SourceError, OSError, EOFError, zlib.error):
        return True


def failure(case: Case) -> tuple[int, str]:
    """The exit code of the process of *case*, and what went wrong ("": nothing)."""
    with tempfile.TemporaryDirectory() as folder:
        for name, data in case.files.items():
            Path(folder, name).write_bytes(data)
        command = [sys.executable, "-m", "tclint", "check", case.path, *case.options]
        if case.path != "-":
            command = [word for word in command if not word.startswith("--stdin-filename")]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        try:
            run = subprocess.run(
                command,
                input=case.data,
                check=False,
                capture_output=True,
                cwd=folder,
                env=environment,
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired:
            return -1, f"{case.name}: more than {SECONDS} s"
    said = (run.stdout + run.stderr).decode(errors="replace")
    code = run.returncode
    if code not in (0, 1, 2):
        return code, f"{case.name}: exit {code}"
    if "Traceback (most recent call last)" in said or _INTERNAL in said:
        words = next((line for line in said.splitlines() if _INTERNAL in line), said.splitlines()[-1])
        return code, f"{case.name}: {words.strip()[:120]}"
    if code == 2 and not said.strip():
        return code, f"{case.name}: exit 2 without a word"
    if code == 0 and _broken(case.files.get(case.path, case.data)):
        return code, f"{case.name}: broken text that looks clean"
    return code, ""
