"""What ptxas makes of a module, in figures: for the gate of ``tclint check`` and ``tclint diff``, and for ``diff --ptxas``.

ptxas prints registers, barriers, stack, spills and its messages with ``-v``. The shared memory is that of the cubin, as
``cuobjdump -res-usage`` shows it: with the kibibyte that CUDA reserves in a CTA from sm_90 on, which ``-v`` leaves out. The
figures of a text are kept in the cache (:mod:`tclint.cache`), under the version of ptxas, its options and the text. A ptxas
that fails in any way, or whose output is not understood, makes no figures but a problem of the module.
"""

from __future__ import annotations

import json
import os
import re
import signal
import struct
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, BinaryIO

from tclint._named_tuple import NamedTuple
from tclint.driver.cuda_tools import ToolError, candidates, complaint, run
from tclint.findings.figures import (
    ANYWHERE,
    RULES,
    WORDS,
    Assembled,
    Figure,
    Gate,
    Judged,
    KernelFigures,
    Recorded,
)
from tclint.findings.selection import SettingsError
from tclint.syntax.source import Source, SourceError

if TYPE_CHECKING:
    from tclint.config.config import Config

__all__ = [
    "MAX_SECONDS",
    "Built",
    "Program",
    "compiled",
    "figures",
    "folder_of",
    "gated",
    "judged",
    "sections",
    "understood",
]

MAX_SECONDS = 300
"""How long a tool may take for a module, unless the budget says otherwise."""
_VERSION_SECONDS = 10
_MISSING = (
    "ptxas-budget needs ptxas, which was not found: put it on PATH, set TCLINT_PTXAS to its path or CUDA_HOME to its "
    "toolkit, or install nvidia-cuda-nvcc beside tclint"
)
_VERSION = re.compile(r"release \d+\.\d+, V(\d+(?:\.\d+)+)")
_TARGET = re.compile(rb"^\s*\.target\s+(sm_\w+)", re.MULTILINE)
_ERROR = re.compile(r", line (\d+); (?:error|fatal)\s*: (.*)")
_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_UNKNOWN_STACK = re.compile(r"Stack size for entry function '([^']+)' cannot be statically determined")
_MESSAGE = re.compile(r"\((C7\d{3})\)(?:.*\bfunction '([^']+)')?")
_NUMBERS = {
    "registers": re.compile(r"\bUsed (\d+) registers"),
    "barriers": re.compile(r"\bused (\d+) barriers"),
    "stack": re.compile(r"\b(\d+) bytes cumulative stack size"),
    "local": re.compile(r"\b(\d+) bytes lmem"),
    "spill-stores": re.compile(r"\b(\d+) bytes spill stores"),
    "spill-loads": re.compile(r"\b(\d+) bytes spill loads"),
}
"""Number -> how ``-v`` prints it for a kernel and, after the kernel, for each function that it calls."""
_FRAME = re.compile(r"\b(\d+) bytes stack frame")
_SHARED, _CODE = ".nv.shared.", ".text."
"""How the sections of a cubin begin that have the shared memory and the code of a kernel."""


# ---------------------------------------------------------------- the gate


def gated(config: Config, known: Iterable[Recorded] = ()) -> Config:
    """*config* with the gate, if the settings have a budget and its rules are on, for which *known* figures are compared.

    Raises SettingsError if there is no ptxas, or if its version is not known.
    """
    if config.ptxas_budget is None or config.gate is not None or config.selected.on.isdisjoint(RULES):
        return config
    path = next(candidates("ptxas"), None)
    if path is None:
        raise SettingsError(_MISSING)
    banner = _banner(path)
    version = _VERSION.search(banner)
    if version is None:
        raise SettingsError(f"ptxas-budget needs the version of ptxas, which {path} --version does not print")
    return replace(config, gate=Gate(path, version[1], banner, _grouped(known)))


@contextmanager
def folder_of(gate: Gate) -> Iterator[Gate]:
    """*gate* with a folder for the temporary files of all processes of a run."""
    with TemporaryDirectory(
        prefix="tclint-", ignore_cleanup_errors=True
    ) as folder:  # a ptxas may still be writing
        yield replace(gate, folder=folder)


def _grouped(known: Iterable[Recorded]) -> dict[tuple[str, str | None], tuple[Recorded, ...]]:
    """*known* as a gate has them."""
    found = defaultdict[tuple[str, str | None], list[Recorded]](list)
    for each in known:
        found[(each.path, each.member) if each.path else ANYWHERE].append(each)
    return {key: tuple(some) for key, some in found.items()}


def _banner(path: str) -> str:
    """What the ptxas at *path* prints about its version. Raises SettingsError."""
    try:
        done = run(path, "--version", seconds=_VERSION_SECONDS)
    except ToolError as error:
        raise SettingsError(f"ptxas-budget needs ptxas: {path} --version {error}") from None
    if done.returncode:
        raise SettingsError(f"{path} --version {_ended(done.returncode)}")
    return done.stdout


def judged(source: Source, config: Config) -> Judged | None:
    """What the gate knows of a module; None if there is no gate, or if the module is not PTX in a file of its own."""
    from tclint.inline.hosts import is_host

    gate, budget = config.gate, config.ptxas_budget
    if gate is None or budget is None or is_host(source.path, source.member):
        return None
    before = gate.of(source.path, source.member)
    found = Judged(budget, Assembled(gate.version), before, config.accept_ptxas_change)
    try:
        return replace(found, made=_kept(source, config))
    except SourceError as error:
        return replace(found, problem=str(error), line=error.line)


def _kept(source: Source, config: Config) -> Assembled:
    """What the ptxas of the gate makes of a module, now or in an earlier run. Raises SourceError."""
    from tclint.cache.hashing import digest
    from tclint.cache.results import chosen

    gate, budget = config.gate, config.ptxas_budget
    assert gate is not None
    assert budget is not None
    store = chosen(config)
    key = digest("ptxas", gate.banner, *budget.options, source.data)
    if store is not None and (data := store.get(key)) is not None and (known := _decoded(data)) is not None:
        return known
    with TemporaryDirectory(
        prefix="tclint-", dir=gate.folder if os.path.isdir(gate.folder) else None
    ) as folder:
        program = Program(gate.path, f"ptxas {gate.version}", budget.options, budget.seconds)
        built = compiled(source, program, folder)
        made = Assembled(gate.version, built.target, figures(built))
    if store is not None:
        store.put(key, _encoded(made))
    return made


def _encoded(made: Assembled) -> bytes:
    kernels = [(kernel.kernel, kernel.figures) for kernel in made.kernels]
    return json.dumps((made.ptxas, made.target, kernels)).encode()


def _decoded(data: bytes) -> Assembled | None:
    """What :func:`_encoded` made *data* of; None for anything else."""
    try:
        ptxas, target, kernels = json.loads(data)
        return Assembled(
            str(ptxas),
            str(target),
            tuple(
                KernelFigures(
                    str(kernel), tuple(Figure(str(n), None if a is None else int(a)) for n, a in found)
                )
                for kernel, found in kernels
            ),
        )
    except (ValueError, TypeError):
        return None


# ---------------------------------------------------------------- ptxas


class Program(NamedTuple):
    """A ptxas, and how it is called."""

    path: str
    name: str
    """What messages call it."""
    options: tuple[str, ...] = ()
    seconds: int = MAX_SECONDS
    """How long it may take for a module."""


class Built(NamedTuple):
    """What a ptxas printed and wrote."""

    program: Program
    target: str
    text: str
    cubin: str
    """The path."""


def compiled(source: Source, program: Program, folder: str) -> Built:
    """What *program* makes of a module, for the target that the module names, in *folder*.

    Raises SourceError if it rejects the module, crashes, takes too long, or cannot be run.
    """
    target = _TARGET.search(source.data)
    if target is None:
        raise SourceError(".target is missing, so it cannot be assembled")
    arch = target[1].decode()
    text, cubin = os.path.join(folder, "k.ptx"), os.path.join(folder, "k.cubin")
    with open(text, "wb") as file:
        file.write(source.data)
    command = (program.path, "-v", *program.options, f"-arch={arch}", "-o", cubin, text)
    try:
        done = run(*command, seconds=program.seconds)
    except ToolError as error:
        raise SourceError(f"{program.name} {error}") from None
    output = done.stderr + done.stdout
    if done.returncode > 0 and (refusal := _ERROR.search(output)):
        raise SourceError(
            f"{program.name} rejects it ({_status(done.returncode)}): {refusal[2].strip()}", int(refusal[1])
        )
    if done.returncode:
        raise SourceError(
            f"{program.name} {_ended(done.returncode)}: {complaint(done).replace(text, source.path)}"
        )
    return Built(program, arch, output, cubin)


def _status(code: int) -> str:
    return f"exit status {code}"


def _ended(code: int) -> str:
    """How a program that failed ended."""
    if code > 0:
        return f"failed with {_status(code)}"
    try:
        name = f" ({signal.Signals(-code).name})"
    except ValueError:
        name = ""
    return f"was ended by signal {-code}{name}"


# ---------------------------------------------------------------- figures


def figures(built: Built) -> tuple[KernelFigures, ...]:
    """The figures of each kernel, by name. Raises SourceError if what ptxas printed or wrote is not understood."""
    try:
        with open(built.cubin, "rb") as file:
            return understood(built.text, sections(file))
    except (OSError, ValueError) as error:
        reason = "wrote no cubin" if isinstance(error, OSError) else error
        raise SourceError(f"{built.program.name} ended with {_status(0)}, but {reason}") from None


def understood(text: str, sizes: Mapping[str, int]) -> tuple[KernelFigures, ...]:
    """The figures of each kernel, by name, from what ``-v`` prints and the *sizes* of the sections of the cubin.

    Raises ValueError if there is no code or no figure of a kernel.
    """
    found = _printed(text)
    made = {section.removeprefix(_CODE) for section in sizes if section.startswith(_CODE)}
    for kernel, printed in found.kernels.items():
        if kernel not in made:
            raise ValueError(f"its cubin has no code of {kernel}")
        if "registers" not in printed:
            raise ValueError(f"it printed no figures of {kernel}")
    rows = [
        KernelFigures(
            kernel, (*_figures(printed, sizes.get(_SHARED + kernel, 0)), *_messages(found.messages[kernel]))
        )
        for kernel, printed in sorted(found.kernels.items())
    ]
    if found.messages[""]:
        rows.append(KernelFigures("", _messages(found.messages[""])))
    return tuple(rows)


class _Found(NamedTuple):
    """What ``-v`` prints, by kernel."""

    kernels: Mapping[str, Mapping[str, int | None]]
    messages: Mapping[str, Counter[str]]
    """Kernel -> its messages by code; "" has those that name no kernel, unless there is only one."""


def _printed(text: str) -> _Found:
    kernels: dict[str, Counter[str]] = {}
    frames: dict[str, list[int]] = {}
    codes: list[tuple[str, str]] = []
    kernel = ""
    for line in text.splitlines():
        if message := _MESSAGE.search(line):
            codes.append((message[2] or "", message[1]))
        elif entry := _ENTRY.search(line):
            kernel = entry[1]
            kernels[kernel], frames[kernel] = Counter(), []
        elif kernel:
            for name, pattern in _NUMBERS.items():
                if number := pattern.search(line):
                    kernels[kernel][name] += int(number[1])
            if frame := _FRAME.search(line):
                frames[kernel].append(int(frame[1]))
    messages: dict[str, Counter[str]] = {"": Counter(), **{name: Counter() for name in kernels}}
    only = next(iter(kernels)) if len(kernels) == 1 else ""
    for name, code in codes:
        messages[name if name in kernels else only][code] += 1
    unknown = set(_UNKNOWN_STACK.findall(text))
    return _Found(
        {
            name: {**counts, "stack": None if name in unknown else _stack(counts, frames[name])}
            for name, counts in kernels.items()
        },
        messages,
    )


def _stack(counts: Counter[str], frames: list[int]) -> int | None:
    """The bytes of local memory of a thread: those of the kernel and of the functions that it calls; None if ptxas does
    not state their sum."""
    own, *others = frames or [0]
    if "stack" not in counts and any(others):
        return None
    return counts.get("stack", own) + counts["local"]


def _figures(printed: Mapping[str, int | None], shared: int) -> tuple[Figure, ...]:
    amounts = {**printed, "shared": shared}
    return tuple(Figure(name, amounts.get(name, 0)) for name in WORDS)


def _messages(codes: Counter[str]) -> tuple[Figure, ...]:
    return tuple(Figure(code, number) for code, number in sorted(codes.items()))


def sections(file: BinaryIO) -> dict[str, int]:
    """The size in bytes of each section of a 64-bit ELF file, by name. Raises ValueError if *file* is none."""
    try:
        head = file.read(64)
        if head[:6] != b"\x7fELF\x02\x01":
            raise ValueError("the file that it wrote is not a cubin")
        (table,) = struct.unpack_from("<Q", head, 0x28)
        step, number, names = struct.unpack_from("<HHH", head, 0x3A)
        file.seek(table)
        data = file.read(step * number)
        headers = [struct.unpack_from("<IIQQQQ", data, step * at) for at in range(number)]
        start, size = headers[names][4:]
        file.seek(start)
        text = file.read(size)
        return {text[header[0] :].split(b"\0", 1)[0].decode(): header[5] for header in headers}
    except (struct.error, IndexError, OverflowError, UnicodeDecodeError):
        raise ValueError("the sections of its cubin cannot be read") from None
