"""Fuzz what tclint reads besides kernels: settings, baselines, launches, containers and messages of an editor.

    python -m benchmarks.fuzz.surfaces [NAME...] [--runs 20000] [--seed 1] [--keep FOLDER] [--record]

A run takes a good input, or one that reached new lines, changes it by bytes, tokens and odd values, and reads it in this
process. It fails when anything but the error for users leaves the reader, when it takes longer than a minute, or when a
request of an editor gets no answer, several, or one about an internal error. The lines of tclint that any run reached are
counted, so the growth of coverage shows when more runs stop paying. A run depends on the seed and on the runs before it.
``--record`` adds the runs to those that were recorded before. Exit 1 if anything failed.
"""

from __future__ import annotations

import gzip
import json
import logging
import random
import re
import signal
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from time import process_time
from types import CodeType, FrameType
from typing import Any

from benchmarks import results
from benchmarks.arguments import command_line
from benchmarks.fuzz import messages, recordings
from benchmarks.fuzz.oracle import PACKAGE, Hang, where
from benchmarks.fuzz.text import BYTES, TOKENS
from tclint.driver import cuda_tools, inputs
from tclint.syntax.source import SourceError

__all__ = [
    "ABOUT",
    "COMMAND",
    "SURFACES",
    "TITLE",
    "Coverage",
    "Surface",
    "figure",
    "main",
    "session",
    "tables",
]

PART = "surfaces"
TITLE = "Fuzzing of everything else that is read"
COMMAND = "python -m benchmarks.fuzz.surfaces --runs 100000 --record"
SLICE = "python -m benchmarks.fuzz.surfaces --runs 50"
ABOUT = """\
What tclint reads besides kernels is changed at random and read in one process. A run fails when anything but the error for
users leaves a reader, when memory or time run out, when a container is read without a module and without an error, or when
a request of an editor gets no answer, several, or one about an internal error."""

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60
"""Of wall-clock time, after which a run counts as a hang."""
_MEMORY = 6 * 2**30
"""Bytes of address space of the process: an input that needs more fails, where the system can limit it."""
LIMIT = 2**20
"""``max-input`` in bytes for containers."""
_MAX_POOL = 2000
"""Inputs that are kept because they reached new lines."""
_MAX_INPUT = 20_000
WANTED = 100_000
"""The goal, in inputs of each kind that a stranger can send."""
WANTED_TOGETHER = 1_000_000
"""The goal for these and the kernels that :mod:`benchmarks.fuzz` changed."""
_COLUMNS = (16, 256, 4096, 32768)
"""Numbers of runs after which the page has the lines that were reached."""
_TOKEN = re.compile(rb'"(?:[^"\\\n]|\\.)*"|[\w.+-]+|[^\s\w]')
_ODD = (
    b"null", b"true", b"-1", b"0", b"1e999", b"NaN", b"18446744073709551616", b"9" * 5000, b'""', b'"\\u0000"', b'"\\ud800"',
    b"[]", b"{}", b"[[]]", b"[" * 5000, b'"' + b"a" * 5000 + b'"', b'"../../x"', b'"/dev/zero"', b'"ALL"', b'"WG001"', b"1979-05-27",
    b"'''", b"[[x]]", b"\xff", b"sm_90a", b'"*"', b'"["', b"inf", b"0x10", b"a.b.c", b"1.5", b"\r\n",
)  # fmt: skip
"""Values at the edge of what JSON and TOML can say, and of what tclint expects."""


@lru_cache(maxsize=64)
def _tokens(data: bytes) -> list[tuple[int, int]]:
    return [match.span() for match in _TOKEN.finditer(data)]


def _odd_value(rng: random.Random, data: bytes) -> bytes:
    spans = _tokens(data)
    if not spans:
        return data + rng.choice(_ODD)
    start, end = rng.choice(spans)
    return data[:start] + rng.choice(_ODD) + data[end:]


_ODD_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1.5, float("nan"), 2**31, 2**64, 10**400, "", "\0", "\ud800", "a" * 5000, [], {}, [[]], "../../x", "ALL",
    "WG001", "file:///work/k.ptx", "file://[", {"line": 0, "character": 0}, "textDocument/hover", "$/x", "2.0", [1, 2, 3],
)  # fmt: skip


def _odd_node(rng: random.Random, data: bytes) -> bytes:
    """*data*, if it is JSON, with a value replaced, removed, renamed or doubled somewhere in it."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return _odd_value(rng, data)
    node, choices = document, rng.randrange(1, 8)
    for _ in range(choices):
        inside = [key for key, value in _items(node) if isinstance(value, dict | list) and value]
        if not inside:
            break
        node = node[rng.choice(inside)]
    items = _items(node)
    if items:
        key, value = rng.choice(items)
        if isinstance(node, dict) and rng.randrange(4) == 0:
            del node[key]
            if rng.randrange(2):
                node[rng.choice(("id", "x", "jsonrpc", "params", ""))] = value
        elif rng.randrange(3) == 0:
            node[key] = _near(rng, value)
        else:
            node[key] = rng.choice(_ODD_VALUES) if rng.randrange(6) else [value, value]
    return json.dumps(document).encode()


def _near(rng: random.Random, value: Any) -> Any:
    """A value that a reader may still accept in place of *value*."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + rng.choice((-1, 1, -value, value, 7, 64, 128, 2**32))
    if isinstance(value, str) and value:
        at = rng.randrange(len(value))
        return value[:at] + rng.choice("0123456789abcdef") + value[at + rng.randrange(2) :]
    return value


def _items(node: Any) -> list[tuple[Any, Any]]:
    if isinstance(node, dict):
        return list(node.items())
    return list(enumerate(node)) if isinstance(node, list) else []


def mutated(rng: random.Random, pool: list[bytes]) -> bytes:
    """An input made from one of *pool*, or from parts of two of them."""
    data = rng.choice(pool)
    if data[:1] in b"{[" and rng.randrange(8):
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            data = _odd_node(rng, data)
        return data[:_MAX_INPUT]
    if rng.randrange(8) == 0:
        other = rng.choice(pool)
        data = data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]
    for _ in range(rng.choice((1, 1, 1, 1, 2, 3, 6))):
        kinds = (BYTES, TOKENS, (_odd_value,), (_odd_value,))
        data = rng.choice(rng.choice(kinds))(rng, data) if data else data
    return data[:_MAX_INPUT]


_ALL_TRACED = 1024
"""Runs of a session that are all traced."""
_TRACED = 8
"""Of those that follow, every so many: tracing takes as long as reading."""


class Coverage:
    """The lines of tclint that traced runs reached; a function is traced until each of its lines was."""

    def __init__(self) -> None:
        self.reached = 0
        self._runs = 0
        self._left: dict[CodeType, set[int]] = {}

    @contextmanager
    def traced(self) -> Iterator[None]:
        """Counts what is reached inside, if this is one of the runs that are traced."""
        self._runs += 1
        if self._runs > _ALL_TRACED and self._runs % _TRACED:
            yield
            return
        threading.settrace(self._enter)
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(None)
            threading.settrace(None)

    def _enter(self, frame: FrameType, event: str, argument: object) -> Any:
        code = frame.f_code
        left = self._left.get(code)
        if left is None:
            own = code.co_filename.startswith(PACKAGE)
            left = self._left[code] = {line for _, _, line in code.co_lines() if line} if own else set()
        return self._line if left else None

    def _line(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            left = self._left[frame.f_code]
            if frame.f_lineno in left:
                left.discard(frame.f_lineno)
                self.reached += 1
        return self._line


@dataclass(frozen=True)
class Surface:
    """A kind of input."""

    seeds: Callable[[], list[bytes]]
    read: Callable[[bytes, Path], str]
    """Reads an input in a folder of its own; returns how that ended. Any exception is a failure."""


# ---------------------------------------------------------------- files


def _config_seeds() -> list[bytes]:
    from tclint.config.settings import resolve, show

    page = (ROOT / "docs" / "configuration.md").read_bytes()
    return [show(resolve([])).encode(), *re.findall(rb"```toml\n(.*?)```", page, re.DOTALL)]


def _config(data: bytes, folder: Path) -> str:
    from tclint.config.settings import load, resolve, show
    from tclint.findings.selection import SettingsError

    path = folder / "tclint-ptx.toml"
    path.write_bytes(data)
    try:
        layer = load(path)
        assert layer is not None
        show(resolve([layer])).encode("utf-8", "surrogateescape")
    except SettingsError:
        return "refused"
    return "accepted"


def _baseline_seeds() -> list[bytes]:
    entry = {
        "path": "k.ptx", "member": None, "entry": "k", "rule": "WG001", "fingerprint": "0123456789abcdef:1", "line": 3,
        "message": "%f1 is read",
    }  # fmt: skip
    other = {**entry, "path": "gone.ptx", "rule": "TC005", "fingerprint": "fedcba9876543210:2"}
    _report()
    return [json.dumps({"schema": 1, "findings": found}).encode() for found in ([], [entry], [entry, other])]


def _baseline(data: bytes, folder: Path) -> str:
    from tclint.findings.selection import Selected, SettingsError
    from tclint.report import baseline

    path = folder / "b.json"
    path.write_bytes(data)
    try:
        known = baseline.read(path)
    except SettingsError:
        return "refused"
    shown, compared = known.compared([_report()], Selected(), [str(folder)])
    path.write_text(str(compared.updated(shown, Selected(), prune=False)))
    json.loads(path.read_text().encode("utf-8"))
    baseline.read(path)
    return "accepted"


def _report() -> Any:
    from tclint.linting.check import check_source
    from tclint.syntax.source import Source

    if not _MADE:
        text = (ROOT / "fixtures" / "wgmma_unwaited.ptx").read_bytes()
        _MADE.append(check_source(Source.from_bytes(text, "k.ptx")))
    return _MADE[0]


_MADE: list[Any] = []


def _launch_seeds() -> list[bytes]:
    page = (ROOT / "docs" / "launch-files.md").read_bytes()
    return [
        *re.findall(rb"```toml\n(.*?)```", page, re.DOTALL),
        *(
            path.read_bytes()
            for path in sorted((ROOT / "benchmarks" / "launches").glob("*.launch.toml"))[:40]
        ),
    ]


def _launch(data: bytes, folder: Path) -> str:
    from tclint.executor.launch import LaunchError, read

    path = folder / "k.launch.toml"
    path.write_bytes(data)
    try:
        file = read(path)
        if sum(file.sizes.values()) <= LIMIT:
            file.arrays()
            for launch in file.launches:
                file.parameters(launch, dict.fromkeys(file.sizes, 2**20))
    except LaunchError:
        return "refused"
    return "accepted"


# ---------------------------------------------------------------- containers


def _container_seeds() -> list[bytes]:
    text = b".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n"
    packed = gzip.compress(text, mtime=0)
    heads = (b"\x7fELF\x02", b"\x50\xed\x55\xba\x01\0\x10\0", b"!<arch>\n", b"MZ\x90")
    plain = [
        text,
        packed,
        packed * 3,
        gzip.compress(packed, mtime=0),
        gzip.compress(bytes(2 * LIMIT), mtime=0),
    ]
    return [
        *plain,
        *(head + text for head in heads),
        *(gzip.compress(head + text, mtime=0) for head in heads),
    ]


def _container(data: bytes, folder: Path) -> str:
    """Reads a file; what follows the head of a container are its modules, as a cuobjdump would write them."""
    path = folder / "k.ptx"
    path.write_bytes(data)

    def extract(tool: str, *arguments: str, folder: str, limit: int) -> str:
        inside = Path(folder, "ptx")
        inside.mkdir(exist_ok=True)
        if "-xptx" in arguments:
            for number, part in enumerate(Path(arguments[-1]).read_bytes()[8:].split(b"\n\n")):
                (inside / f"{number}.ptx").write_bytes(part)
        return ""

    run, candidates = inputs._run, cuda_tools.candidates
    inputs._run, cuda_tools.candidates = extract, lambda name: iter(("cuobjdump",))
    try:
        found = list(inputs.read_sources(str(path), "k.ptx", LIMIT))
    except SourceError as error:
        str(error).encode()
        return "refused"
    finally:
        inputs._run, cuda_tools.candidates = run, candidates
    if not found:
        raise AssertionError("nothing was read, and no error says so")
    if sum(len(source.data) for source in found) > LIMIT:
        raise AssertionError("more than the limit")
    return "accepted"


SURFACES = {
    "config": Surface(_config_seeds, _config),
    "baseline": Surface(_baseline_seeds, _baseline),
    "launch": Surface(_launch_seeds, _launch),
    "recording": Surface(recordings.seeds, recordings.read),
    "container": Surface(_container_seeds, _container),
    "message": Surface(messages.seeds, messages.read),
}
"""By name."""


# ---------------------------------------------------------------- runs


@dataclass
class Session:
    """The numbers of some runs over a surface."""

    runs: int = 0
    seconds: float = 0.0
    ends: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    examples: dict[str, bytes] = field(default_factory=dict)
    growth: dict[int, int] = field(default_factory=dict)
    """Runs -> the lines reached by then; each number of runs is twice the one before."""


def session(name: str, runs: int, seed: int) -> Session:
    """Fuzz a surface, until an interrupt at most."""
    surface, rng, coverage = SURFACES[name], random.Random(f"{seed}:{name}"), Coverage()
    pool = [data for data in surface.seeds() if data]
    found, seeds = Session(), len(pool)
    with tempfile.TemporaryDirectory() as folder:
        surface.read(pool[0], Path(folder))  # imports what runs need, untraced
    began, step = process_time(), 1
    signal.signal(signal.SIGALRM, _stop)
    with tempfile.TemporaryDirectory() as folder, suppress(KeyboardInterrupt):
        for number in range(runs):
            # Half of the inputs come from the seeds: much that reaches new lines is refused soon, and so is what it becomes.
            chosen = pool if rng.randrange(2) else pool[:seeds]
            data = pool[number] if number < min(seeds, 40) else mutated(rng, chosen)
            before = coverage.reached
            failure = _one(surface, data, Path(folder), coverage, found)
            if failure:
                found.failures[failure] += 1
                found.examples.setdefault(failure, data)
            elif coverage.reached > before and len(pool) < _MAX_POOL:
                pool.append(data)
            found.runs += 1
            if found.runs == step:
                found.growth[found.runs] = coverage.reached
                step *= 2
    found.growth[found.runs] = coverage.reached
    found.seconds = process_time() - began
    return found


def _one(surface: Surface, data: bytes, folder: Path, coverage: Coverage, found: Session) -> str:
    """One run; what went wrong, or ""."""
    signal.alarm(SECONDS)
    try:
        with coverage.traced():
            found.ends[surface.read(data, folder)] += 1
    except Hang:
        return f"hang: more than {SECONDS} s"
    except Exception as error:  # noqa: BLE001  # that is what is looked for
        return where(error)
    finally:
        signal.alarm(0)
    return ""


def _stop(signum: int, frame: FrameType | None) -> None:
    raise Hang


# ---------------------------------------------------------------- the record


def _recorded() -> list[dict[str, Any]]:
    sessions: list[dict[str, Any]] = results.records().get(PART, {"data": []})["data"]
    return sessions


def _kinds(data: Any) -> dict[str, list[dict[str, Any]]]:
    """The sessions of each kind of input; kernels are those of :mod:`benchmarks.fuzz`."""
    kernels = results.records().get("fuzz", {"data": {"sessions": []}})["data"]["sessions"]
    kinds: dict[str, list[dict[str, Any]]] = {"kernel": kernels}
    for found in data:
        kinds.setdefault(found["name"], []).append(found)
    return kinds


def figure(data: Any) -> str:
    """How many inputs there were, and how many failed."""
    kinds = _kinds(data)
    together = sum(found["runs"] for sessions in kinds.values() for found in sessions)
    failures = {
        kind: _added(sessions, "failures").total() for kind, sessions in kinds.items() if kind != "kernel"
    }
    verdict = "met" if together >= WANTED_TOGETHER else "**missed**"
    each = ", ".join(f"{kind} {count}" for kind, count in failures.items())
    return f"{together:,} inputs with the kernels of the part before (goal: {WANTED_TOGETHER:,}, {verdict}). Failures: {each}."


def tables(data: Any) -> Iterator[str]:
    """How the inputs of each kind ended, what failed, and which lines of tclint they reached."""
    kinds = _kinds(data)
    runs = {kind: sum(found["runs"] for found in sessions) for kind, sessions in kinds.items()}
    rows = []
    for kind, sessions in kinds.items():
        ends, failures = _added(sessions, "ends"), _added(sessions, "failures")
        said = ", ".join(f"{number:,} {end}" for end, number in ends.most_common())
        rows.append((kind, f"{runs[kind]:,}", f"{failures.total():,}", said))
    yield from results.table(["kind", "inputs", "failures", "how they ended"], rows)
    yield from results.table(
        ["kind", "failure", "inputs"],
        [
            (kind, f"`{what}`", times)
            for kind, sessions in kinds.items()
            if kind != "kernel"
            for what, times in _added(sessions, "failures").most_common()
        ],
    )
    yield (
        f"Lines of tclint that were reached after so many inputs of a session; {_ALL_TRACED:,} are traced, and every"
        f" {_TRACED}th of those that follow:"
    )
    yield ""
    yield from results.table(
        ["kind", "seed", "tclint", "inputs", *(f"after {count:,}" for count in _COLUMNS), "at the end"],
        [
            (
                found["name"], found["seed"], found["tclint"], f"{found['runs']:,}",
                *(_lines(found, count) for count in _COLUMNS), f"{max(found['growth'].values()):,}",
            )
            for found in data
        ],
    )  # fmt: skip


def _lines(found: dict[str, Any], runs: int) -> str:
    """The lines that a session had reached after so many *runs*; empty if it is shorter."""
    lines = found["growth"].get(str(runs))
    return "" if lines is None else f"{lines:,}"


def _added(sessions: list[dict[str, Any]], key: str) -> Counter[str]:
    return sum((Counter(found[key]) for found in sessions), Counter[str]())


def _record(name: str, seed: int, found: Session) -> None:
    about = {"name": name, "seed": seed, "tclint": results.commit(), "runs": found.runs}
    counts = {
        "seconds": round(found.seconds, 1), "ends": dict(found.ends.most_common()),
        "failures": dict(found.failures.most_common()), "growth": {str(runs): lines for runs, lines in found.growth.items()},
    }  # fmt: skip
    results.save(PART, sorted([*_recorded(), about | counts], key=lambda session: str(session["name"])))


def main(arguments: list[str] | None = None) -> int:
    """Fuzz the surfaces that are named, and print what came of it; the exit status."""
    parser = command_line("benchmarks.fuzz.surfaces", __doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SURFACES)} (all)")
    parser.add_argument("--runs", type=int, default=20_000, help="of each (20000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="where an input of each failure is written")
    parser.add_argument("--record", action="store_true", help="add what came of it to the record")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - SURFACES.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    names = options.names or list(SURFACES)
    if options.record and any(f["seed"] == options.seed and f["name"] in names for f in _recorded()):
        parser.error(f"runs of seed {options.seed} are recorded: counting them twice would be wrong")
    logging.disable(logging.CRITICAL)
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    failed = False
    for name in names:
        found = session(name, options.runs, options.seed)
        ends = ", ".join(f"{number:,} {end}" for end, number in found.ends.most_common())
        growth = ", ".join(f"{lines:,} after {runs:,}" for runs, lines in list(found.growth.items())[-8:])
        print(
            f"{name}: {found.runs:,} runs of seed {options.seed} in {found.seconds:.0f} CPU s: {ends}",
            flush=True,
        )
        print(f"{name}: lines reached: {growth}", flush=True)
        if options.record:
            _record(name, options.seed, found)
        for number, (what, times) in enumerate(found.failures.most_common()):
            failed = True
            print(f"{name}: {times} x {what}: {found.examples[what][:200]!r}", flush=True)
            if options.keep is not None:
                options.keep.mkdir(parents=True, exist_ok=True)
                (options.keep / f"{name}-{options.seed}-{number}").write_bytes(found.examples[what])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
