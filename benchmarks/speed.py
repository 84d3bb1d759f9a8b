"""How much time and memory tclint needs, and how both grow with the input.

    python -m benchmarks.speed FOLDER [--ptxas] [--growth] [--jobs] [--largest 10] [--record]

Everything is measured on one core and in CPU seconds, which other work on the machine changes least; wall seconds
are beside them. All PTX below FOLDER is linted in this one process; whole runs of the command, and what grows, are
measured in a fresh process each. README.md in this folder says what each of the tables means.
"""

from __future__ import annotations

import atexit
import json
import re
import resource
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib import metadata
from itertools import chain, pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any
from unittest import mock

from benchmarks import grow, processes, results
from benchmarks.arguments import command_line
from benchmarks.corpus.builder import default_cache
from benchmarks.ptxas import Ptxas, PtxasMissing, find
from tclint import syntax
from tclint.analyses import model
from tclint.checks import kernel_checks, module_checks
from tclint.dataflow import Found, Search, find_paths, kernel, next_answer
from tclint.driver.pool import cores
from tclint.findings.finding import FileReport
from tclint.findings.selection import Selected
from tclint.ir import rebuild
from tclint.linting import check
from tclint.report.fold import fold
from tclint.report.formats import renderer
from tclint.report.summary import FormatContext, present
from tclint.syntax.source import Source

__all__ = [
    "ABOUT",
    "COMMAND",
    "TITLE",
    "Measured",
    "Stopwatch",
    "check_command",
    "figure",
    "lint",
    "measure",
    "process",
    "ptxas_seconds",
    "split",
    "tables",
]

TITLE = "Speed"
COMMAND = "python -m benchmarks.speed --ptxas --growth --jobs --record"
SLICE = ""
ABOUT = """\
How long tclint takes for the corpus in one process, beside ptxas, and how time and memory grow with the input. CPU seconds
of one core, except where marked wall."""

PER_100K = 1.5
"""Goal: CPU seconds per 100,000 instructions."""
AGAINST_PTXAS = 0.2
"""Goal: CPU seconds of tclint for each one of ptxas."""
PER_DOUBLING = 2.4
"""Goal: by what the time may grow when the input doubles; 2 is linear."""
BASE_MEMORY, MEMORY_PER_BYTE = 40e6, 60
"""Goal: peak memory in bytes, and in bytes for each byte of the file."""
START = 0.15
"""Goal: wall seconds of ``tclint --version``, and of ``tclint check`` of a small file."""

SMALLEST, DOUBLINGS = 100_000, 7
"""Concatenated kernels: bytes of the smallest module (the largest has 12.8 MB)."""
REPETITIONS = (1, 2, 4, 8, 16)
"""How often a function is repeated inside itself."""
LONG = 5.0
"""Wall seconds of a process from which on one run is enough."""
FORMATS = ("text", "json", "sarif")
"""The reports whose writing is measured."""


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
        """The stages that are passed to :meth:`clock` begin now."""
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

    path: str
    size: int
    instructions: int
    cpu: float
    wall: float
    ptxas: float | None = None
    """CPU seconds of ptxas, None when it was not asked or refused the file."""


STAGES = {
    "read": "bytes and lines of the file",
    "parse": "tree-sitter",
    "syntax problems": "words for what is not PTX",
    "IR": "instructions, operands, names, the ISA table",
    "parse and build": "everything else about the module",
    "inline": "calls of functions with bodies",
    "CFG": "blocks, edges, dominators, loops",
    "values": "set up; values are made when asked for, in the stage that asks",
    "views": "the threads that reach each block",
    "survey of paths": "what all searches share",
    "witness paths": "the search for a path to each candidate",
    "findings": "spans, source lines, fingerprints, suppressions",
}
"""Stages that are neither an analysis nor a rule, in the order of the pipeline."""


@contextmanager
def split(watch: Stopwatch, modules: list[Any]) -> Iterator[None]:
    """Time the stages that the driver does not separate; *modules* collects what ``build`` made.

    They are replaced where the driver and the model look them up, so what is measured is the program as it is. A
    name that is no longer there is an AttributeError, not a stage that silently vanished.
    """

    def timed(function: Callable[..., Any], stage: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            name = f"analysis {type(arguments[0]).__name__}" if stage == "analysis" else stage
            with watch.stage(name):
                result = function(*arguments, **options)
            if stage == "IR":
                modules.append(result)
            return result

        return call

    def searched(*arguments: Any, **options: Any) -> Search[Any]:
        paths = find_paths(*arguments, **options)  # which searches only when it is asked
        while True:
            with watch.stage("witness paths"):
                answer = next_answer(paths)
            if not isinstance(answer, Found):
                return answer
            yield answer.witness

    parts: list[tuple[object, str, str]] = [
        (rebuild, "parse", "parse"),
        (syntax, "problems", "syntax problems"),
        (rebuild, "build", "IR"),
        (check, "inline", "inline"),
        (kernel, "CFG", "CFG"),
        (kernel, "Values", "values"),
        (kernel, "Views", "views"),
        (kernel, "PathSearchCache", "survey of paths"),
        (model, "solve", "analysis"),
    ]
    with ExitStack() as stack:
        for owner, attribute, stage in parts:
            stack.enter_context(mock.patch.object(owner, attribute, timed(getattr(owner, attribute), stage)))
        stack.enter_context(mock.patch.object(model, "find_paths", searched))
        yield


def lint(path: Path, watch: Stopwatch) -> tuple[Measured, FileReport]:
    """Lint one file, from its bytes to its findings. Raises SourceError when it cannot be read."""
    modules: list[Any] = []
    with split(watch, modules):
        wall, cpu = perf_counter(), process_time()
        with watch.stage("read"):
            source = Source.read(path)
        watch.start()
        report = check.check_source(source, clock=watch.clock)
        cpu, wall = process_time() - cpu, perf_counter() - wall
    instructions = sum(len(f.instructions) for module in modules for f in module.functions)
    return Measured(path.name, len(source.data), instructions, cpu, wall), report


def measure(
    paths: Iterable[Path], folder: Path, notes: list[str]
) -> tuple[list[Measured], dict[str, float], dict[str, float]]:
    """Lint *paths* one after the other: each of them, and CPU seconds by stage and by output format.

    *notes* collects what could not be read, or not analysed as a whole.
    """
    watch, measured, reports = Stopwatch(), [], []
    _start()
    for path in paths:
        _progress(f"tclint {path.name}")
        try:
            one, report = lint(path, watch)
        except Exception as error:  # noqa: BLE001  (one file must not cost the measurement of all others)
            notes.append(f"{path.name} is left out: {type(error).__name__}: {error}")
            continue
        measured.append(replace(one, path=str(path.relative_to(folder))))
        # As `tclint check` does: without findings nothing is shown of the text.
        reports.append(report if report.findings else replace(report, source=None))
    partial = Counter(report.status for report in reports if report.status != "analysed")
    notes += [f"{count} files are {status}, not analysed as a whole." for status, count in partial.items()]
    output = Stopwatch()
    shown, summary = fold(*present(reports, Selected()))
    for name in FORMATS:
        with output.stage(name):
            renderer(name)(shown, FormatContext(summary))
    return measured, dict(watch.seconds), dict(output.seconds)


def _start() -> None:
    """Everything that is paid once: the rules, the ISA table, what is imported when it is needed."""
    text = b".version 8.0\n.target sm_80\n.visible .entry k() { ret; }\n"
    check.check_source(Source.from_bytes(text, "start.ptx"))


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

    ``stages`` are the CPU seconds of each stage; ``start`` is what the process took before it read the first file.
    """

    cpu: float
    instructions: int
    peak: int
    stages: dict[str, float] = field(default_factory=dict)
    start: float = 0.0


def worker() -> None:
    """What a fresh process does: ``worker REPEAT FILE...``; prints a :class:`Run` as JSON."""
    repeat, *files = sys.argv[1:]
    _start()
    run = Run(0.0, 0, 0, start=process_time())
    for file in files:
        best = float("inf")
        stages: dict[str, float] = {}
        for _ in range(int(repeat)):
            began, watch = process_time(), Stopwatch()
            done, _ = lint(Path(file), watch)
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


def fresh(files: Sequence[Path], repeat: int = 1) -> Run:
    """Lint *files* in a fresh process; of *repeat* runs the fastest counts. Raises RuntimeError when it fails."""
    code = "from benchmarks.speed import worker; worker()"
    names = [str(file.resolve()) for file in files]
    command = [sys.executable, "-c", code, str(repeat), *names]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=results.ROOT)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise RuntimeError(last)
    return Run(**json.loads(done.stdout))


@cache
def _launcher() -> processes.Launcher:
    launcher = processes.Launcher()
    atexit.register(launcher.__exit__)
    return launcher


def process(command: Sequence[str | Path]) -> processes.Run:
    """Run *command*. Raises ValueError after ten minutes."""
    done = _launcher().run(command, 600)
    if done.status is None:
        raise ValueError("it takes more than ten minutes")
    return done


def _tclint(*arguments: str | Path) -> list[str | Path]:
    return [sys.executable, "-m", "tclint", *arguments]


def check_command(*arguments: str | Path) -> list[str | Path]:
    """``tclint check`` with *arguments*, whatever it finds and whatever is configured."""
    return _tclint("check", "--isolated", "--fail-on", "never", *arguments)


def ptxas_seconds(ptxas: Ptxas, path: Path) -> float:
    """CPU seconds of *ptxas* compiling *path* for its own target. Raises ValueError when it refuses."""
    done = ptxas.compile(path.read_bytes())
    if not done.accepted:
        raise ValueError(done.said[0] if done.said else f"exit code {done.status}")
    return done.seconds


def commands(paths: Sequence[Path], folder: Path, runs: int = 5) -> list[dict[str, Any]]:
    """``tclint check`` of a small, the middle and the largest of *paths*, in each format, in a process of its own.

    Of *runs* the median counts; what takes long is run once.
    """
    by_size = sorted(paths, key=lambda p: p.stat().st_size)
    found = []
    for path in dict.fromkeys((by_size[len(by_size) // 20], by_size[len(by_size) // 2], by_size[-1])):
        for name in FORMATS:
            _progress(f"tclint check {path.name} as {name}")
            command = check_command("--output-format", name, path.resolve())
            done = [process(command)]
            if done[0].wall < LONG:
                done += [process(command) for _ in range(runs - 1)]
            found.append(
                {
                    "path": str(path.relative_to(folder)),
                    "size": path.stat().st_size,
                    "format": name,
                    "wall": median(d.wall for d in done),
                    "cpu": median(d.cpu for d in done),
                    "peak": max(d.peak for d in done),
                }
            )
    return found


def scaling(folder: Path) -> list[dict[str, Any]]:
    """``tclint check FOLDER`` by 1, 2, 4 ... processes, up to one for each core."""
    counts = sorted({min(1 << n, cores()) for n in range(cores().bit_length() + 1)})
    found = []
    for jobs in counts:
        _progress(f"--jobs {jobs}")
        done = process(check_command("--jobs", str(jobs), folder.resolve()))
        found.append({"jobs": jobs, "wall": done.wall, "cpu": done.cpu})
    return found


# ------------------------------------------------------------ growth


@dataclass
class Growth:
    """How time and memory grow from one input to the next, which is twice as large."""

    title: str
    rows: list[tuple[int, Run]] = field(default_factory=list)
    """Size of the file in bytes, and what linting it took."""

    @property
    def ratios(self) -> list[float]:
        """By what the time grew at each doubling, scaled to an exact one."""
        return [b.cpu / a.cpu * 2 * before / size for (before, a), (size, b) in pairwise(self.rows)]


def _grow(title: str, texts: Iterable[str], notes: list[str]) -> Growth:
    growth = Growth(title)
    for text in texts:
        data = text.encode()
        _progress(f"{title}: {len(data) / 1e6:.1f} MB")
        with TemporaryDirectory() as folder:
            path = Path(folder, "grown.ptx")
            path.write_bytes(data)
            try:
                # Short runs are repeated: their time is noise for the most part.
                run = fresh([path], repeat=3 if len(data) < 2_000_000 else 1)
            except RuntimeError as error:
                notes.append(f"{title}: stopped at {len(data)} bytes: {error}")
                break
        most = sorted(run.stages.items(), key=lambda item: -item[1])[:8]
        growth.rows.append((len(data), replace(run, stages=dict(most))))
    return growth


def grown(paths: Sequence[Path], notes: list[str]) -> list[Growth]:
    """Both kinds of growth: more kernels in a module, and more code in a function."""
    found = []
    try:
        sources, header = grow.alike(paths, SMALLEST)
        texts = (grow.concatenated(sources, SMALLEST << step, header) for step in range(DOUBLINGS + 1))
        found.append(_grow(f"{len(sources)} kernels, again and again in one module", texts, notes))
    except ValueError as error:
        notes.append(f"Concatenated kernels: {error}.")
    missing = set(grow.FAMILIES)
    for family, path in grow.repeatable(paths):
        missing.discard(family)
        title = f"One function inside itself: `{family}`, {path.name}"
        data = path.read_bytes()
        found.append(_grow(title, (grow.repeated(data, times) for times in REPETITIONS), notes))
    notes += [f"No function with `{f}` can be repeated inside itself." for f in sorted(missing)]
    return found


# ------------------------------------------------------------ measuring


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text[:100]}", end="", file=sys.stderr, flush=True)


def _compile(ptxas: Ptxas, measured: Sequence[Measured], folder: Path, notes: list[str]) -> None:
    """Note for each file how long *ptxas* takes."""
    refused: defaultdict[str, list[str]] = defaultdict(list)
    for one in measured:
        _progress(f"ptxas {one.path}")
        try:
            one.ptxas = ptxas_seconds(ptxas, folder / one.path)
        except ValueError as error:
            refused[str(error)].append(one.path)
    for reason, left_out in refused.items():
        others = f" and {len(left_out) - 1} more" if len(left_out) > 1 else ""
        notes.append(f"ptxas does not compile {left_out[0]}{others}: {reason}")


def _sum(measured: Sequence[Measured], start: float) -> dict[str, float | None]:
    """*measured* together, with what is paid once; ``ptxas`` is None when it did not compile all of them."""
    return {
        "files": len(measured),
        "size": sum(m.size for m in measured),
        "instructions": sum(m.instructions for m in measured),
        "cpu": sum(m.cpu for m in measured) + start,
        "wall": sum(m.wall for m in measured) + start,
        "ptxas": None if any(m.ptxas is None for m in measured) else sum(m.ptxas or 0.0 for m in measured),
    }


def speed(
    folder: Path, notes: list[str], *, ptxas: Ptxas | None, growth: bool, jobs: bool, largest: int
) -> dict[str, Any]:
    """Measure, as :func:`tables` reads it. *notes* collects what was left out.

    Raises ValueError when there is no PTX below *folder*.
    """
    paths = results.kernels(folder)
    if not paths:
        raise ValueError(f"there is no .ptx file below {folder}")
    version = median(process(_tclint("--version")).wall for _ in range(15))
    start = fresh([]).start
    whole = commands(paths, folder)
    measured, stages, output = measure(paths, folder, notes)
    if ptxas is not None:
        _compile(ptxas, measured, folder, notes)
    compiled = [m for m in measured if m.ptxas is not None]
    slower = sorted((m for m in compiled if m.cpu > (m.ptxas or 0.0)), key=lambda m: (m.ptxas or 0.0) / m.cpu)
    most = sorted(measured, key=lambda m: -m.size)[:largest]
    together = [*(check.rules for check in kernel_checks()), *(check.rules for check in module_checks())]
    return {
        "all": _sum(measured, start),
        "compiled": _sum(compiled, start) if compiled else None,
        "slower": len(slower),
        "slowest": [asdict(m) for m in slower[:largest]],
        "largest": [asdict(m) for m in most],
        "stages": stages,
        "rules": {names[0]: names for names in together},
        "output": output,
        "version": version,
        "start": start,
        "commands": whole,
        "growth": [asdict(g) | {"ratios": g.ratios} for g in (grown(paths, notes) if growth else ())],
        "jobs": scaling(folder) if jobs else [],
    }


# ------------------------------------------------------------ the page


def _verdict(met: bool) -> str:
    return "met" if met else "**missed**"


def _per(seconds: float, instructions: float) -> float:
    """Seconds per 100,000 instructions."""
    return seconds / max(instructions, 1) * 1e5


def figure(data: Mapping[str, Any]) -> str:
    """The time for all files, beside ptxas and the goals, and the steepest growth."""
    every, compiled = data["all"], data["compiled"]
    rate = _per(every["cpu"], every["instructions"])
    head = f"{every['files']:,} files, {every['size'] / 1e6:.1f} MB, {every['instructions']:,} instructions"
    met = _verdict(rate <= PER_100K)
    said = [f"{head}: {every['cpu']:.2f} s, {rate:.2f} s per 100,000 instructions (goal: {PER_100K}, {met})."]
    if compiled and compiled["ptxas"]:
        ratio = compiled["cpu"] / compiled["ptxas"]
        said.append(
            f"ptxas takes {compiled['ptxas']:.2f} s for {compiled['files']:,} of them, so tclint takes {ratio:.3f} times as"
            f" long (goal: {AGAINST_PTXAS}, {_verdict(ratio <= AGAINST_PTXAS)})."
        )
        if "slower" in data:
            said.append(f"{data['slower']} files take longer than ptxas does (goal: none).")
    said.append(
        f"`tclint --version` takes {data['version']:.3f} s wall (goal: {START}, {_verdict(data['version'] <= START)})."
    )
    if ratios := [ratio for growth in data["growth"] for ratio in growth["ratios"]]:
        said.append(
            f"Where the input doubles, the time grows {min(ratios):.2f} to {max(ratios):.2f} times (goal: {PER_DOUBLING},"
            f" {_verdict(max(ratios) <= PER_DOUBLING)})."
        )
        grown = [row for growth in data["growth"] for row in growth["rows"]]
        over = sum(run["peak"] > BASE_MEMORY + MEMORY_PER_BYTE * size for size, run in grown)
        said.append(f"{over} of these {len(grown)} inputs take more memory than the goal allows.")
    return " ".join(said)


def tables(data: Mapping[str, Any]) -> list[str]:
    """What :func:`speed` measured, by file, stage, process and size of the input."""
    stages: dict[str, float] = data["stages"]
    return [
        *_files(data),
        *_stages(data, sum(stages.values())),
        "### Whole processes",
        "",
        f"`tclint --version`: {data['version']:.3f} s wall (≤ {START}: {_verdict(data['version'] <= START)}).",
        "",
        *results.table(
            ["`tclint check FILE`", "MB", "format", "wall s", "CPU s", "peak MB"],
            (
                [
                    run["path"],
                    f"{run['size'] / 1e6:.3f}",
                    run["format"],
                    *(f"{run[unit]:.3f}" for unit in ("wall", "cpu")),
                    f"{run['peak'] / 1e6:.0f}",
                ]
                for run in data["commands"]
            ),
        ),
        *_jobs(data["jobs"]),
        *chain.from_iterable(_growth(growth) for growth in data["growth"]),
    ]


def _files(data: Mapping[str, Any]) -> list[str]:
    sums = [(f"all {data['all']['files']} files", data["all"])]
    if data["compiled"]:
        sums.append((f"the {data['compiled']['files']} that ptxas compiles", data["compiled"]))
    rows = [
        [
            name,
            f"{one['size'] / 1e6:.1f}",
            f"{one['instructions']:,}",
            f"{one['cpu']:.2f}",
            f"{one['wall']:.2f}",
            f"{_per(one['cpu'], one['instructions']):.2f}",
            _verdict(_per(one["cpu"], one["instructions"]) <= PER_100K),
            *_against(one),
        ]
        for name, one in sums
    ]
    head = ["MB", "instructions", "CPU s", "wall s", "s per 100,000 instructions", f"≤ {PER_100K}"]
    lines = results.table(["in one process", *head, "ptxas s", "ratio", f"≤ {AGAINST_PTXAS}"], rows)
    found = lines + _listed("the largest files", data["largest"])
    if data["compiled"] and "slower" in data:
        found += [f"{data['slower']} files take longer than ptxas does (goal: none).", ""]
        found += _listed("longest for what ptxas takes", data["slowest"]) if data["slowest"] else []
    return found


def _listed(title: str, measured: Iterable[Mapping[str, Any]]) -> list[str]:
    rows = [
        [
            one["path"],
            f"{one['size'] / 1e6:.2f}",
            f"{one['instructions']:,}",
            f"{one['cpu']:.2f}",
            f"{_per(one['cpu'], one['instructions']):.2f}",
            *_against(one)[:2],
        ]
        for one in measured
    ]
    head = ["MB", "instructions", "CPU s", "s per 100,000", "ptxas s", "ratio"]
    return results.table([title, *head], rows)


def _against(one: Mapping[str, Any]) -> list[str]:
    """Seconds of ptxas, the ratio to them, and whether it is good; empty for what ptxas did not compile."""
    if not one["ptxas"]:
        return ["", "", ""]
    ratio = one["cpu"] / one["ptxas"]
    return [f"{one['ptxas']:.2f}", f"{ratio:.3f}", _verdict(ratio <= AGAINST_PTXAS)]


def _stages(data: Mapping[str, Any], total: float) -> list[str]:
    stages: dict[str, float] = data["stages"]
    analyses = {n.removeprefix("analysis "): s for n, s in stages.items() if n.startswith("analysis ")}
    rules = {n.removeprefix("check "): s for n, s in stages.items() if n.startswith("check ")}
    rows = [(name, about, stages[name]) for name, about in STAGES.items() if name in stages]
    rows.insert(-1, ("analyses", "the solver, all of them", sum(analyses.values())))
    rows.insert(-1, ("rules", "without what they ask for first", sum(rules.values())))
    count = data["all"]["instructions"]
    head = ["stage", "", "CPU s", "share", "s per 100,000 instructions"]
    return [
        "### Stages",
        "",
        f"Of {total:.1f} s CPU for all files; a stage does not count the stages inside it.",
        "",
        *results.table(
            head,
            (
                [name, about, f"{s:.2f}", f"{s / total:.1%}", f"{_per(s, count):.3f}"]
                for name, about, s in rows
            ),
        ),
        f"Output, all findings at once: {_each(data['output'])}.",
        "",
        f"Each analysis: {_each(analyses)}.",
        "",
        "Each rule, those that one check decides together: "
        + _each(
            {", ".join(data["rules"].get(name, [name])): seconds for name, seconds in rules.items()}, "; "
        )
        + ".",
        "",
    ]


def _each(seconds: Mapping[str, float], between: str = ", ") -> str:
    """``Fences 0.22 s`` of each, the longest first; what takes less than a hundredth of a second is named together."""
    ordered = sorted(seconds.items(), key=lambda item: -item[1])
    slow = [f"{name} {took:.2f} s" for name, took in ordered if took >= 0.01]
    rest = [name for name, took in ordered if took < 0.01]
    return between.join([*slow, *([f"less than 0.01 s each {between.join(rest)}"] if rest else [])]) or "none"


def _jobs(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    if not runs:
        return []
    one = runs[0]["wall"]
    rows = (
        [
            str(run["jobs"]),
            f"{run['wall']:.2f}",
            f"{run['cpu']:.2f}",
            f"{one / run['wall']:.2f}",
            f"{one / run['wall'] / run['jobs']:.0%}",
        ]
        for run in runs
    )
    head = ["`tclint check --jobs`", "wall s", "CPU s", "times as fast", "efficiency"]
    return ["### Several processes", "", *results.table(head, rows)]


def _growth(growth: Mapping[str, Any]) -> list[str]:
    rows = []
    for (size, run), ratio in zip(growth["rows"], [None, *growth["ratios"]], strict=True):
        allowed = BASE_MEMORY + MEMORY_PER_BYTE * size
        rows.append(
            [
                f"{size / 1e6:.2f}",
                f"{run['instructions']:,}",
                f"{run['cpu']:.2f}",
                f"{_per(run['cpu'], run['instructions']):.2f}",
                "" if ratio is None else f"{ratio:.2f}",
                "" if ratio is None else _verdict(ratio <= PER_DOUBLING),
                f"{run['peak'] / 1e6:.0f}",
                f"{allowed / 1e6:.0f}",
                _verdict(run["peak"] <= allowed),
            ]
        )
    head = ["MB", "instructions", "CPU s", "s per 100,000", "per doubling", f"≤ {PER_DOUBLING}"]
    return [
        f"### Growth: {growth['title']}",
        "",
        *results.table([*head, "peak MB", "allowed MB", "memory"], rows),
        *_steepest(growth["rows"]),
    ]


def _steepest(rows: Sequence[tuple[int, Mapping[str, Any]]], shown: int = 4) -> list[str]:
    """The stages that took most of the largest input, each with its growth over the last doubling."""
    if len(rows) < 2:
        return []
    (_, before), (_, last) = rows[-2:]
    parts = []
    for name, seconds in list(last["stages"].items())[:shown]:
        earlier = before["stages"].get(name, 0.0)
        parts.append(f"{name} {seconds:.2f} s" + (f" ({seconds / earlier:.1f} times)" if earlier else ""))
    return [f"Most of the largest, with the growth over the last doubling: {', '.join(parts)}.", ""]


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


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; the exit status."""
    parser = command_line("benchmarks.speed", __doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=default_cache(), help="default: the corpus")
    parser.add_argument("--ptxas", action="store_true", help="compare with ptxas (slow)")
    parser.add_argument("--growth", action="store_true", help="measure how time and memory grow")
    parser.add_argument("--jobs", action="store_true", help="measure what more processes are worth")
    parser.add_argument("--largest", type=int, default=10, metavar="N", help="files shown one by one")
    parser.add_argument("--record", action="store_true", help="write the record and docs/results.md")
    options = parser.parse_args(arguments)
    notes: list[str] = []
    for option, about in (
        ("growth", "Growth and memory were not measured"),
        ("jobs", "Several processes were not compared"),
    ):
        if not getattr(options, option):
            notes.append(f"{about} (`--{option}`).")
    try:
        ptxas = _oracle(options.ptxas, notes)
        wanted = {name: getattr(options, name) for name in ("growth", "jobs", "largest")}
        data = speed(options.folder, notes, ptxas=ptxas, **wanted)
    except (OSError, ValueError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    finally:
        _progress("")
    if options.record:
        versions = {name: metadata.version(name) for name in ("tree-sitter", "click")}
        results.save("speed", data, versions | ({"ptxas": ptxas.release} if ptxas else {}), notes)
    else:
        print("\n".join([figure(data), "", *tables(data), *(f"- {note}" for note in notes)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
