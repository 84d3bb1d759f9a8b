"""How much time and memory tclint needs, and how both grow with the input.

    python -m benchmarks.speed FOLDER [--ptxas] [--growth] [--gc] [--largest 10] [--output docs/performance.md]

Everything is measured on one core and in CPU seconds, which other work on the machine changes least; wall seconds
stand beside them. All PTX below FOLDER is linted in this one process; what grows is measured in a fresh process for
each size. The report is Markdown. README.md in this folder says what each of its tables means.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import re
import resource
import subprocess
import sys
import sysconfig
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any
from unittest import mock

from benchmarks.ptxas import Ptxas, PtxasMissing, find

__all__ = ["Measured", "Stopwatch", "concatenated", "lint", "measure", "repeated"]

ROOT = Path(__file__).resolve().parent.parent

PER_100K = 1.5
"""Goal: CPU seconds per 100,000 instructions."""
AGAINST_PTXAS = 0.2
"""Goal: CPU seconds of ``tclint check`` for each one of ptxas."""
PER_DOUBLING = 2.4
"""Goal: by what the time may grow when the input doubles; 2 is linear."""
BASE_MEMORY, MEMORY_PER_BYTE = 40e6, 60
"""Goal: peak memory in bytes, and in bytes for each byte of the file."""
VERSION_SECONDS = 0.15
"""Goal: wall seconds of ``tclint --version``."""

SMALLEST, DOUBLINGS = 100_000, 7
"""Concatenated kernels: bytes of the smallest module (the largest has 12.8 MB)."""
REPETITIONS = (1, 2, 4, 8, 16)
FAMILIES = {"wgmma": b"wgmma.", "tcgen05": b"tcgen05.", "cp.async": b"cp.async.c", "mbarrier": b"mbarrier."}
"""Each has analyses of its own, so a large function of each is repeated inside itself: name, and what it contains."""


# ------------------------------------------------------------ one process


class Stopwatch:
    """CPU seconds by stage; what a stage spends inside another counts for the inner one alone."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._inner = [0.0]
        self._mark = process_time()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count what runs inside as *name*."""
        began = process_time()
        self._inner.append(0.0)
        try:
            yield
        finally:
            took = process_time() - began
            self.seconds[name] += took - self._inner.pop()
            self._inner[-1] += took

    def start(self) -> None:
        """The stages that :meth:`clock` is told of begin now."""
        self._mark, self._inner[-1] = process_time(), 0.0

    def clock(self, name: str, seconds: float) -> None:
        """For ``check_source``: everything since the last call that no stage inside took was *name*.

        *seconds* is wall time and is not used.
        """
        now = process_time()
        self.seconds[name] += now - self._mark - self._inner[-1]
        self._mark, self._inner[-1] = now, 0.0


@dataclass
class Measured:
    """What linting one file took: CPU and wall seconds, and its size in bytes and instructions."""

    path: Path
    size: int
    instructions: int
    cpu: float
    wall: float
    status: str
    ptxas: float | None = None
    """CPU seconds of ptxas, None when it was not asked or refused the file."""


@contextmanager
def _split(watch: Stopwatch, modules: list[Any]) -> Iterator[None]:
    """Time the stages that the driver does not tell apart; *modules* collects what ``build`` made.

    They are replaced where the driver and the model look them up, so what is measured is the program as it is. A
    name that is no longer there is an AttributeError, not a stage that silently vanished.
    """
    from tclint import driver, model, syntax

    def timed(function: Callable[..., Any], stage: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            name = f"analysis {type(arguments[0]).__name__}" if stage == "analysis" else stage
            with watch.stage(name):
                result = function(*arguments, **options)
            if stage == "build":
                modules.append(result)
            return result

        return call

    parts: list[tuple[object, str, str]] = [
        (syntax, "parse", "parse"),
        (syntax, "problems", "syntax problems"),
        (driver, "build", "build"),
        (driver, "inline", "inline"),
        (model, "CFG", "graph"),
        (model, "Values", "values"),
        (model, "Views", "views"),
        (model, "Survey", "survey of paths"),
        (model, "find_path", "witness paths"),
        (model, "solve", "analysis"),
    ]
    with ExitStack() as stack:
        for owner, attribute, stage in parts:
            stack.enter_context(mock.patch.object(owner, attribute, timed(getattr(owner, attribute), stage)))
        yield


def lint(path: Path, watch: Stopwatch) -> Measured:
    """Lint one file, from its bytes to its findings. Raises SourceError when it cannot be read."""
    from tclint.driver import check_source
    from tclint.source import Source

    modules: list[Any] = []
    with _split(watch, modules):
        wall, cpu = perf_counter(), process_time()
        with watch.stage("read"):
            source = Source.read(path)
        watch.start()
        report = check_source(source, clock=watch.clock)
        cpu, wall = process_time() - cpu, perf_counter() - wall
    instructions = sum(len(f.instructions) for module in modules for f in module.functions)
    return Measured(path, len(source.data), instructions, cpu, wall, report.status)


def measure(paths: Iterable[Path]) -> tuple[list[Measured], Stopwatch, list[str]]:
    """Lint *paths* one after the other; also CPU seconds by stage, and what could not be read.

    What is paid once, imports and the ISA table, is the stage "start".
    """
    watch, measured, troubles = Stopwatch(), [], []
    with watch.stage("start"):
        _start()
    for path in paths:
        _progress(f"tclint {path.name}")
        try:
            measured.append(lint(path, watch))
        except Exception as error:  # noqa: BLE001  (one file must not cost the measurement of all others)
            troubles.append(f"{path.name} is left out: {type(error).__name__}: {error}")
    return measured, watch, troubles


def _start() -> None:
    """Everything that is paid once: imports, the ISA table, the rules."""
    from tclint.driver import check_source
    from tclint.source import Source

    text = b".version 8.0\n.target sm_80\n.visible .entry k() { ret; }\n"
    check_source(Source.from_bytes(text, "start.ptx"))


def _peak() -> int:
    """The most memory in bytes that this process ever held."""
    # ru_maxrss begins with what the parent held when it started this process; VmHWM does not, but is of Linux only.
    try:
        match = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    except OSError:
        match = None
    if match:
        return int(match[1]) * 1024
    usage = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return usage if sys.platform == "darwin" else usage * 1024


# ------------------------------------------------------------ fresh processes


@dataclass
class Run:
    """Files linted one after the other in a fresh process: CPU seconds, instructions, peak memory in bytes.

    ``stages`` are the CPU seconds of each stage.
    """

    cpu: float
    instructions: int
    peak: int
    stages: dict[str, float] = field(default_factory=dict)


def worker() -> None:
    """What a fresh process does: ``worker MODE REPEAT FILE...``; prints a :class:`Run` as JSON."""
    mode, repeat, *files = sys.argv[1:]
    _start()
    if mode == "freeze":
        gc.collect()
        gc.freeze()
    run = Run(0.0, 0, 0)
    for file in files:
        best = float("inf")
        stages: dict[str, float] = {}
        for _ in range(int(repeat)):
            if mode == "disable":
                gc.disable()
            began, watch = process_time(), Stopwatch()
            done = lint(Path(file), watch)
            if mode == "disable":
                gc.enable()
                gc.collect()  # the price of what was put off counts
            took = process_time() - began
            if took < best:
                best, stages = took, watch.seconds
            run.peak = run.peak or (_peak() if len(files) == 1 else 0)  # before a repetition can raise it
        run.cpu += best
        for name, seconds in stages.items():
            run.stages[name] = run.stages.get(name, 0.0) + seconds
        run.instructions += done.instructions
    run.peak = run.peak or _peak()
    print(json.dumps(vars(run)))


def fresh(files: Sequence[Path], mode: str = "default", repeat: int = 1) -> Run:
    """Lint *files* in a fresh process; of *repeat* runs the fastest counts. Raises RuntimeError when it fails."""
    code = "from benchmarks.speed import worker; worker()"
    names = [str(file.resolve()) for file in files]
    command = [sys.executable, "-c", code, mode, str(repeat), *names]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise RuntimeError(last)
    return Run(**json.loads(done.stdout))


def version_seconds(runs: int = 15) -> float:
    """Median of the wall seconds of ``tclint --version``."""
    script = Path(sysconfig.get_path("scripts"), "tclint")
    command = [str(script)] if script.exists() else [sys.executable, "-m", "tclint"]
    times = []
    for _ in range(runs):
        began = perf_counter()
        subprocess.run([*command, "--version"], check=True, capture_output=True, cwd=ROOT)
        times.append(perf_counter() - began)
    return median(times)


def ptxas_seconds(ptxas: Ptxas, path: Path) -> float:
    """CPU seconds of *ptxas* compiling *path* for its own target. Raises ValueError when it refuses."""
    done = ptxas.compile(path.read_bytes())
    if not done.accepted:
        raise ValueError(done.said[0] if done.said else f"exit code {done.status}")
    return done.seconds


# ------------------------------------------------------------ inputs that grow

_WORD = re.compile(r"(?<![\w$%.:])[A-Za-z_$%][\w$%]*")
_LOC = re.compile(r"^[ \t]*\.loc\b[^\n]*\n", re.MULTILINE)
_REGISTERS = re.compile(r"\.reg\s+(?:\.\w+\s+)+([^;]*);")
_LABEL = re.compile(r"(?:^|[;{}])\s*([A-Za-z_$%][\w$]*)\s*:(?!:)", re.MULTILINE)
_LEAVE = re.compile(r"\b(?:ret(?:\.uni)?|exit)\s*;")
_DIGITS = "0123456789"


def _functions_and_variables(data: bytes) -> tuple[list[str], frozenset[str]] | None:
    """The functions and variables of a module without line information, and the names that they define.

    None when there is more in the module than these can stand for: declarations of other modules' functions,
    aliases, something that tclint takes exception to.
    """
    from tclint.ir import build
    from tclint.syntax import parse

    tree = parse(data)
    module = build(tree, data)
    if tree.root_node.has_error or any(f.declared_only or f.troubles for f in module.functions):
        return None
    if any(node.type == "alias_directive" for node in tree.root_node.named_children):
        return None
    kept = [n for n in tree.root_node.named_children if n.type in ("function", "variable_declaration")]
    parts = [_LOC.sub("", data[n.start_byte : n.end_byte].decode() + "\n") for n in kept]
    return parts, frozenset({f.name for f in module.functions} | set(module.variables))


def concatenated(sources: Sequence[bytes], size: int, header: str) -> str:
    """One module of at least *size* bytes behind *header*: *sources* over and over, each time under new names.

    The same kernels at every size, so that only the size changes. Raises ValueError when a source cannot be used.
    """
    modules = []
    for data in sources:
        found = _functions_and_variables(data)
        if found is None:
            raise ValueError("a module that cannot be repeated")
        modules.append(found)
    if not modules:
        raise ValueError("no module to repeat")
    text, length, copy = [header], len(header), 0
    while length < size:
        parts, names = modules[copy % len(modules)]

        def rename(match: re.Match[str], names: frozenset[str] = names, copy: int = copy) -> str:
            return f"{match[0]}_{copy}" if match[0] in names else match[0]

        for part in parts:
            text.append(_WORD.sub(rename, part))
            length += len(text[-1])
        copy += 1
    return "".join(text)


def repeated(data: bytes, times: int) -> str:
    """The module *data* with the body of its only function *times* over, each time with new registers and labels.

    Leaving the function becomes a branch to the next copy. Raises ValueError when the module has another number of
    functions, or cannot be repeated.
    """
    from tclint.ir import build
    from tclint.syntax import parse

    tree = parse(data)
    module = build(tree, data)
    nodes = [n for n in tree.root_node.named_children if n.type == "function"]
    if _functions_and_variables(data) is None or len(nodes) != 1:
        raise ValueError("not a module of one function that can be repeated")
    node, function = nodes[0], module.functions[0]
    block = node.child_by_field_name("body")
    assert block is not None
    body = _LOC.sub("", data[block.start_byte + 1 : block.end_byte - 1].decode())
    declared = [d.strip() for found in _REGISTERS.findall(body) for d in found.split(",")]
    stems = {d.partition("<")[0].strip() for d in declared if "<" in d}
    plain = {d for d in declared if "<" not in d} | set(_LABEL.findall(body))
    plain |= function.variables.keys() - {p.name for p in function.parameters}

    copies = []
    for copy in range(times):

        def rename(match: re.Match[str], copy: int = copy) -> str:
            name = match[0]
            stem = name.rstrip(_DIGITS)
            if name in plain:
                return f"{name}_c{copy}"
            return f"{stem}c{copy}_{name[len(stem) :]}" if stem in stems else name

        text = _WORD.sub(rename, body)
        copies.append(_LEAVE.sub(f"bra $next_copy_{copy};", text) + f"$next_copy_{copy}:\n")
    before = data[node.start_byte : block.start_byte].decode()
    variables = [
        data[n.start_byte : n.end_byte].decode() + "\n"
        for n in tree.root_node.named_children
        if n.type == "variable_declaration"
    ]
    return f"{_header(data)}{''.join(variables)}{before}{{\n{''.join(copies)}\tret;\n}}\n"


def _header(data: bytes, version: str = "") -> str:
    """The three directives that a module begins with (PTX ISA 11.1), as *data* has them."""
    found = []
    for directive in ("version", "target", "address_size"):
        match = re.search(rf"^\s*\.{directive}\s+([^\n/]+)".encode(), data, re.MULTILINE)
        value = version if directive == "version" and version else match[1].decode().strip() if match else ""
        if value:
            found.append(f".{directive} {value}\n")
    return "".join(found)


def _base(paths: Sequence[Path]) -> tuple[list[bytes], str]:
    """Kernels of about 100 kB together and of one target, the commonest, and the header of their module."""
    by_target: dict[str, list[Path]] = {}
    for path in paths:
        if 4_000 <= path.stat().st_size <= SMALLEST // 2:
            match = re.search(r"\.target (.*)", _header(path.read_bytes()))
            if match:
                by_target.setdefault(match[1], []).append(path)
    if not by_target:
        raise ValueError("no file of 4 to 50 kB to concatenate")
    candidates = max(by_target.values(), key=len)
    step = max(1, len(candidates) // 8)
    # Evenly spaced through the folders, which hold one compiler each; then the ones between.
    chosen: list[bytes] = []
    versions = []
    for path in [path for start in range(step) for path in candidates[start::step]]:
        data = path.read_bytes()
        if _functions_and_variables(data) is not None:
            chosen.append(data)
            versions.append(tuple(int(n) for n in re.findall(r"\d+", _header(data).splitlines()[0])))
        if sum(map(len, chosen)) >= SMALLEST:
            break
    major, minor = max(versions)
    return chosen, _header(chosen[0], f"{major}.{minor}")


@dataclass
class Growth:
    """How time and memory grow from one input to the next, which is twice as large."""

    title: str
    rows: list[tuple[int, Run]] = field(default_factory=list)
    """Size of the file in bytes, and what linting it took."""

    @property
    def ratios(self) -> list[float]:
        """By what the time grew at each doubling."""
        return [
            b.cpu / a.cpu * 2 * size_a / size_b
            for (size_a, a), (size_b, b) in zip(self.rows, self.rows[1:], strict=False)
        ]


def _grow(title: str, texts: Iterable[str], notes: list[str]) -> Growth:
    growth = Growth(title)
    for text in texts:
        data = text.encode()
        _progress(f"{title}: {len(data) / 1e6:.1f} MB")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "grown.ptx")
            path.write_bytes(data)
            try:
                # Short runs are repeated: their time is noise for the most part.
                run = fresh([path], repeat=3 if len(data) < 2_000_000 else 1)
            except RuntimeError as error:
                notes.append(f"{title}: stopped at {len(data)} bytes: {error}")
                break
        growth.rows.append((len(data), run))
    return growth


def grown(paths: Sequence[Path], notes: list[str]) -> list[Growth]:
    """Both ways to grow: more kernels in a module, and more code in a function."""
    found = []
    try:
        sources, header = _base(paths)
        texts = (concatenated(sources, SMALLEST << step, header) for step in range(DOUBLINGS + 1))
        title = f"Concatenated kernels ({len(sources)} of them, again and again)"
        found.append(_grow(title, texts, notes))
    except ValueError as error:
        notes.append(f"Concatenated kernels: {error}.")
    sizes = sorted((p for p in paths if p.stat().st_size <= 250_000), key=lambda p: -p.stat().st_size)
    used = set()
    for family, words in FAMILIES.items():
        for path in sizes:
            data = path.read_bytes()
            if path in used or words not in data:
                continue
            try:
                repeated(data, 1)
            except ValueError:
                continue
            used.add(path)
            title = f"One function repeated inside itself: `{family}`, {path.name}"
            found.append(_grow(title, (repeated(data, times) for times in REPETITIONS), notes))
            break
        else:
            notes.append(f"No function with `{family}` and less than 250 kB to repeat inside itself.")
    return found


# ------------------------------------------------------------ report


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table whose first column is text and whose others are numbers."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' + '---:|' * (len(head) - 1)}"]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows), ""]


def _verdict(met: bool) -> str:
    return "met" if met else "**missed**"


def _per(seconds: float, instructions: int) -> float:
    """Seconds per 100,000 instructions."""
    return seconds / max(instructions, 1) * 1e5


def _machine(ptxas: Ptxas | None) -> list[str]:
    try:
        match = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    except OSError:
        match = None
    processor = match[1] if match else platform.processor() or platform.machine()
    today = datetime.now(timezone.utc).date().isoformat()
    tools = [
        f"tclint {_version('tclint-ptx')}",
        f"{platform.python_implementation()} {platform.python_version()}",
        *(f"{name} {_version(name)}" for name in ("tree-sitter", "networkx", "click")),
        *([f"ptxas {ptxas.release}"] if ptxas else []),
    ]
    load = f"{os.getloadavg()[0]:.1f} at the end, with this measurement" if hasattr(os, "getloadavg") else "?"
    cores = os.cpu_count() or 1
    return [
        f"{today}; {', '.join(tools)}; {processor}, {cores} cores, of which one is used; load {load}.",
        "",
    ]


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        import tclint

        return tclint.__version__ if distribution == "tclint-ptx" else "(unknown)"


def _files_report(measured: list[Measured], start: float, largest: int, root: Path) -> list[str]:
    chosen = sorted(measured, key=lambda m: -m.size)[:largest]
    rows = []
    for name, some, extra in (
        (f"all {len(measured)} files", measured, start),
        (f"the {len(chosen)} largest", chosen, 0.0),
    ):
        count, cpu = sum(m.instructions for m in some), sum(m.cpu for m in some) + extra
        wall = sum(m.wall for m in some) + extra
        rows.append(
            [
                name,
                f"{sum(m.size for m in some) / 1e6:.1f}",
                f"{count:,}",
                f"{cpu:.2f}",
                f"{wall:.2f}",
                f"{_per(cpu, count):.2f}",
                _verdict(_per(cpu, count) <= PER_100K),
            ]
        )
    head = ["", "MB", "instructions", "CPU s", "wall s", "s per 100,000 instructions", f"≤ {PER_100K}"]
    lines = ["## All files in one process", "", *_table(head, rows)]
    lines += [f"## The {len(chosen)} largest files", ""]
    single = [
        [
            str(m.path.relative_to(root)),
            f"{m.size / 1e6:.2f}",
            f"{m.instructions:,}",
            f"{m.cpu:.2f}",
            f"{_per(m.cpu, m.instructions):.2f}",
            "" if m.ptxas is None else f"{m.ptxas:.2f}",
            "" if m.ptxas is None else f"{m.cpu / m.ptxas:.2f}",
        ]
        for m in chosen
    ]
    return lines + _table(
        ["file", "MB", "instructions", "CPU s", "s per 100,000", "ptxas s", "ratio"], single
    )


def _stages_report(watch: Stopwatch, instructions: int) -> list[str]:
    total = sum(watch.seconds.values())
    rows = [
        [name, f"{seconds:.2f}", f"{seconds / max(total, 1e-9):.1%}", f"{_per(seconds, instructions):.3f}"]
        for name, seconds in sorted(watch.seconds.items(), key=lambda item: -item[1])
        if seconds >= 0.001 * total
    ]
    head = ["stage", "CPU s", "share", "s per 100,000 instructions"]
    about = "Each without the stages inside it; below a thousandth of the whole left out."
    return ["## By stage", "", about, "", *_table(head, rows)]


def _ptxas_report(measured: list[Measured], start: float, largest: int) -> list[str]:
    rows = []
    chosen = sorted(measured, key=lambda m: -m.size)[:largest]
    for name, some, extra in (("all files", measured, start), (f"the {len(chosen)} largest", chosen, 0.0)):
        both = [m for m in some if m.ptxas is not None]
        ours, theirs = sum(m.cpu for m in both) + extra, sum(m.ptxas or 0.0 for m in both)
        if not theirs:
            continue
        count = sum(m.instructions for m in both)
        rows.append(
            [
                f"{name}: {len(both)} of {len(some)}",
                f"{ours:.2f}",
                f"{theirs:.2f}",
                f"{_per(ours, count):.2f}",
                f"{_per(theirs, count):.2f}",
                f"{ours / theirs:.3f}",
                _verdict(ours / theirs <= AGAINST_PTXAS),
            ]
        )
    head = [
        "compiled by ptxas",
        "tclint s",
        "ptxas s",
        "tclint s per 100,000",
        "ptxas s per 100,000",
        "ratio",
    ]
    return ["## Against ptxas", "", *_table([*head, f"≤ {AGAINST_PTXAS}"], rows)]


def _growth_report(found: list[Growth]) -> list[str]:
    lines = ["## Growth", "", "The ratio is that of the times, scaled to an exact doubling of the size.", ""]
    head = ["MB", "instructions", "CPU s", "s per 100,000", "ratio", f"≤ {PER_DOUBLING}"]
    for growth in found:
        rows = []
        for (size, run), ratio in zip(growth.rows, [None, *growth.ratios], strict=False):
            allowed = BASE_MEMORY + MEMORY_PER_BYTE * size
            rows.append(
                [
                    f"{size / 1e6:.2f}",
                    f"{run.instructions:,}",
                    f"{run.cpu:.2f}",
                    f"{_per(run.cpu, run.instructions):.2f}",
                    "" if ratio is None else f"{ratio:.2f}",
                    "" if ratio is None else _verdict(ratio <= PER_DOUBLING),
                    f"{run.peak / 1e6:.0f}",
                    f"{allowed / 1e6:.0f}",
                    _verdict(run.peak <= allowed),
                ]
            )
        lines += [f"### {growth.title}", ""]
        lines += _table([*head, "peak MB", "allowed MB", "memory"], rows)
        lines += _steepest(growth)
    return lines


def _steepest(growth: Growth, shown: int = 4) -> list[str]:
    """The stages that took most of the largest input, each with its growth over the last doubling."""
    if len(growth.rows) < 2:
        return []
    (_, before), (_, last) = growth.rows[-2:]
    parts = []
    for name, seconds in sorted(last.stages.items(), key=lambda item: -item[1])[:shown]:
        earlier = before.stages.get(name, 0.0)
        parts.append(f"{name} {seconds:.2f} s" + (f" ({seconds / earlier:.1f} times)" if earlier else ""))
    return [f"Most of the largest, with the growth over the last doubling: {', '.join(parts)}.", ""]


def _collector_report(files: Sequence[Path], notes: list[str]) -> list[str]:
    """The largest files under three settings of the cyclic garbage collector."""
    rows = []
    for mode, meaning in (
        ("default", "as Python sets it"),
        ("freeze", "`gc.freeze()` once everything is imported"),
        ("disable", "`gc.disable()` during a file, `gc.collect()` after it"),
    ):
        _progress(f"garbage collector: {mode}")
        try:
            run = fresh(files, mode)
        except RuntimeError as error:
            notes.append(f"Garbage collector, {mode}: {error}")
            continue
        rows.append([meaning, f"{run.cpu:.2f}", f"{run.peak / 1e6:.0f}"])
    about = f"The {len(files)} largest files in one fresh process for each setting."
    return ["## Garbage collector", "", about, "", *_table(["setting", "CPU s", "peak MB"], rows)]


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text[:100]}", end="", file=sys.stderr, flush=True)


def _oracle(wanted: bool, notes: list[str]) -> Ptxas | None:
    if not wanted:
        notes.append("ptxas was not asked (`--ptxas`).")
        return None
    try:
        ptxas = find()
        ptxas.release  # noqa: B018  (does it run?)
    except PtxasMissing as error:
        notes.append(f"ptxas is skipped: {error}.")
        return None
    return ptxas


def report(folder: Path, *, ptxas: bool, growth: bool, collector: bool, largest: int) -> str:
    """Measure and write the report as Markdown. Raises ValueError when there is no PTX below *folder*."""
    paths = sorted(folder.rglob("*.ptx"))
    if not paths:
        raise ValueError(f"there is no .ptx file below {folder}")
    notes: list[str] = []
    oracle = _oracle(ptxas, notes)
    version = version_seconds()
    measured, watch, troubles = measure(paths)
    notes += troubles
    start = watch.seconds["start"]
    if oracle is not None:
        refused: dict[str, list[Path]] = {}
        for one in measured:
            _progress(f"ptxas {one.path.name}")
            try:
                one.ptxas = ptxas_seconds(oracle, one.path)
            except ValueError as error:
                refused.setdefault(str(error), []).append(one.path)
        for reason, left_out in refused.items():
            others = f" and {len(left_out) - 1} more" if len(left_out) > 1 else ""
            notes.append(f"ptxas does not compile {left_out[0].relative_to(folder)}{others}: {reason}")
    lines = _files_report(measured, start, largest, folder)
    lines += _stages_report(watch, sum(m.instructions for m in measured))
    lines += _ptxas_report(measured, start, largest) if oracle is not None else []
    lines += ["## Start", ""]
    lines += [f"`tclint --version`: {version:.3f} s wall, median of 15 (≤ {VERSION_SECONDS}: "]
    lines[-1] += (
        f"{_verdict(version <= VERSION_SECONDS)}). Imports, ISA table and rules: {start:.2f} s CPU.\n"
    )
    if growth:
        lines += _growth_report(grown(paths, notes))
    else:
        notes.append("Growth and memory were not measured (`--growth`).")
    if collector:
        lines += _collector_report(sorted(paths, key=lambda p: -p.stat().st_size)[:largest], notes)
    else:
        notes.append("The garbage collector's settings were not compared (`--gc`).")
    partial = Counter(m.status for m in measured if m.status != "analysed")
    notes += [f"{count} files are {status}, not analysed as a whole." for status, count in partial.items()]
    head = ["# Performance", "", "Written by `python -m benchmarks.speed`; do not edit.", ""]
    lines = [*head, *_machine(oracle), *lines]
    lines += ["## Skipped", "", *(f"- {note}" for note in notes), ""] if notes else []
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines))


def main() -> None:
    """The command line."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("folder", type=Path, help="a folder with .ptx files")
    arguments.add_argument("--ptxas", action="store_true", help="compare with ptxas (slow)")
    arguments.add_argument("--growth", action="store_true", help="measure how time and memory grow")
    arguments.add_argument("--gc", action="store_true", help="compare settings of the garbage collector")
    arguments.add_argument("--largest", type=int, default=10, metavar="N", help="files shown one by one")
    arguments.add_argument("--output", type=Path, metavar="FILE", help="default: standard output")
    options = arguments.parse_args()
    try:
        text = report(
            options.folder,
            ptxas=options.ptxas,
            growth=options.growth,
            collector=options.gc,
            largest=options.largest,
        )
        _progress("")
        if options.output:
            options.output.parent.mkdir(parents=True, exist_ok=True)
            options.output.write_text(text, "utf-8")
        else:
            print(text)
    except (OSError, ValueError) as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    main()
