"""Whether tclint does more work than it did: counts of bytecode instructions, which a busy machine does not change.

    python -m benchmarks.bytecodes [--update]

One build of each kernel of ``fixtures/kernels``, large ones left out, is linted in a process of its own while every
bytecode instruction is counted, and so are the start and reading the ISA table. The counts are held against
``records/bytecodes.json``: more than a few per cent above it is a failure that names the functions that grew. Functions
of these kernels are also repeated inside themselves, kernels in a module, and single constructs in a kernel, and the
lines executed may hardly more than double when the size does. ``--update`` records the counts of now; the record counts
for the minor version of CPython that it was made with, growth for all of them.

What runs in C (a copy of a set, sorting) is one instruction; ``benchmarks.speed --growth`` measures that in seconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from multiprocessing import get_context
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from benchmarks import grow
from benchmarks.arguments import command_line
from benchmarks.results import RECORDS, ROOT
from tclint.findings.rules import all_rules
from tclint.isa.table import table
from tclint.linting.check import check_source
from tclint.syntax.source import Source

__all__ = ["compare", "count", "counts", "kernels", "main"]

KERNELS = ROOT / "fixtures" / "kernels"
RECORD = RECORDS / "bytecodes.json"
SEED = "PYTHONHASHSEED"

TOLERANCE = 0.03
"""By what share a count may exceed the recorded one."""
LARGE = 80_000
"""A kernel with more bytes takes a third of the time, and does what the others do."""
LINES = "-lineinfo"
"""What ends the name of a kernel that has the lines of its source."""
PER_DOUBLING = 2.2
"""By what the count may grow when the size doubles."""
FEW = 300
"""A function with less than one in so many instructions of a kernel is not recorded by itself."""
START = b".version 8.0\n.target sm_80\n.visible .entry k() { ret; }\n"

Counts = Mapping[str, int]
"""Bytecode instructions by function."""


def count(work: Callable[[], object], *, lines: bool = False) -> Counts:
    """The bytecode instructions of *work*; with *lines*, which takes half as long, the lines executed if a trace counts.

    A line of a loop, and of a comprehension, counts once for each iteration.
    """
    counted = "line" if lines else "opcode"
    cells: defaultdict[int, list[int]] = defaultdict(lambda: [0])
    codes: dict[int, CodeType] = {}  # by identity: code objects compare by content, which takes long

    def executed(code: CodeType, offset: int) -> None:
        cells[id(code)][0] += 1
        codes[id(code)] = code

    def enter(frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
        frame.f_trace_opcodes, frame.f_trace_lines = not lines, lines
        codes[id(frame.f_code)] = frame.f_code
        cell = cells[id(frame.f_code)]

        def step(frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
            cell[0] += event == counted
            return step

        return step

    if sys.version_info >= (3, 12):  # a trace function no longer sees them all
        monitoring = sys.monitoring
        monitoring.use_tool_id(monitoring.PROFILER_ID, "tclint")
        monitoring.register_callback(monitoring.PROFILER_ID, monitoring.events.INSTRUCTION, executed)
        monitoring.set_events(monitoring.PROFILER_ID, monitoring.events.INSTRUCTION)
    else:
        before = sys.gettrace()
        sys.settrace(enter)
    try:
        work()
    finally:
        if sys.version_info >= (3, 12):
            monitoring.set_events(monitoring.PROFILER_ID, 0)
            monitoring.free_tool_id(monitoring.PROFILER_ID)
        else:
            sys.settrace(before)
    found: Counter[str] = Counter()
    for identity, (number,) in cells.items():
        code = codes[identity]
        found[f"{_file(code)}:{getattr(code, 'co_qualname', code.co_name)}"] += number
    return found


def _file(code: CodeType) -> str:
    path = Path(code.co_filename)
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name


def _apart(work: Callable[[], object], *, lines: bool = False) -> Counts:
    """:func:`count` in a copy of this process, so that what *work* leaves in caches does not help others."""
    context = get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=lambda: sender.send(count(work, lines=lines)))
    process.start()
    sender.close()
    try:
        found: Counts = receiver.recv()
    except EOFError:
        raise RuntimeError("the process that counts died") from None
    finally:
        process.join()
    return found


def _lint(name: str, data: bytes) -> Callable[[], object]:
    return lambda: check_source(Source.from_bytes(data, name))


def _most(counts: Counts) -> Counts:
    """The functions that make up all but a little, and the others together."""
    total = sum(counts.values())
    most = {name: number for name, number in counts.items() if number * FEW >= total}
    return {**most, "elsewhere": total - sum(most.values())}


def counts() -> dict[str, Counts]:
    """The counts of the start, of reading the whole ISA table, and of every kernel when that is done."""
    start = _lint("start.ptx", START)
    _apart(start)  # where Python has not compiled the modules yet
    found = {"start": _apart(start), "ISA table": _apart(lambda: table().forms)}
    start()
    [*table(), *all_rules().values()]  # read once for all kernels
    for path in kernels():
        found[path.name] = _apart(_lint(path.name, path.read_bytes()))
    return found


def kernels() -> list[Path]:
    """What is counted: the last of the files that differ in nothing but the target and the lines of the source
    (``a.sm_90.ptx``, ``a.sm_80.ptx``, ``a-lineinfo.sm_80.ptx``)."""
    paths = sorted(path for path in KERNELS.glob("*.ptx") if path.stat().st_size <= LARGE)
    return list({path.name.partition(".")[0].removesuffix(LINES): path for path in paths}.values())


def doublings() -> Iterator[tuple[str, Counts, Counts]]:
    """Inputs that were doubled: what grew, and the counts before and after."""

    def both(make: Callable[[int], str]) -> tuple[Counts, Counts]:
        once, twice = (_lint("grown.ptx", make(times).encode()) for times in (1, 2))
        once()  # what the ISA table says of its opcodes is paid once
        return _apart(once, lines=True), _apart(twice, lines=True)

    paths = sorted(KERNELS.glob("*.ptx"))
    for family, path in grow.repeatable(paths):
        data = path.read_bytes()
        yield f"{path.name} inside itself ({family})", *both(lambda n, data=data: grow.repeated(data, n))  # type: ignore[misc]
    sources, header = grow.alike(paths, 20_000)
    size = sum(map(len, sources))
    yield "kernels in one module", *both(lambda n: grow.concatenated(sources, n * size, header))
    for name, (make, number) in grow.SHAPES.items():
        yield name, *both(lambda n, make=make, number=number: make(n * number))  # type: ignore[misc]


def _grew(before: Counts, after: Counts, factor: float = 1.0, shown: int = 5) -> str:
    """The functions that grew most beyond *factor* times what they were."""
    # What the record does not name was less than this.
    unnamed = sum(before.values()) // FEW if "elsewhere" in before else 0
    more = {name: number - round(factor * before.get(name, unnamed)) for name, number in after.items()}
    most = sorted((name for name in more if more[name] > 0), key=lambda name: -more[name])[:shown]
    return ", ".join(
        f"{name} +{more[name]:,}" + (f" ({after[name] / before[name]:.2f} times)" if before.get(name) else "")
        for name in most
    )


def compare(recorded: Mapping[str, Counts], now: Mapping[str, Counts]) -> Iterator[tuple[bool, str]]:
    """What differs from the record: whether it is a failure, and words for it."""
    for name in sorted(recorded.keys() - now.keys()):
        yield True, f"{name}: is in the record only; --update it"
    for name, found in now.items():
        if name not in recorded:
            yield True, f"{name}: is not in the record; --update it"
            continue
        before, after = sum(recorded[name].values()), sum(found.values())
        by = after / before - 1
        if by > TOLERANCE:
            grew = _grew(recorded[name], found)
            yield True, f"{name}: {after:,} bytecode instructions, {by:.1%} more than recorded; most: {grew}"
        elif by < -TOLERANCE:
            yield False, f"{name}: {after:,} bytecode instructions, {-by:.1%} fewer than recorded"


def too_steep(name: str, before: Counts, after: Counts) -> str:
    """Words for growth that is too steep, "" when it is not."""
    ratio = sum(after.values()) / sum(before.values())
    if ratio <= PER_DOUBLING:
        return ""
    grew = _grew(before, after, 2.0)
    return f"{name}: {ratio:.2f} times the work for twice the size (allowed: {PER_DOUBLING}); beyond twice: {grew}"


def _version() -> str:
    return "{}.{}".format(*sys.version_info)


def main(arguments: list[str] | None = None) -> int:
    """Compare with the record, or make it; the exit status."""
    parser = command_line("benchmarks.bytecodes", __doc__)
    parser.add_argument("--update", action="store_true", help="record the counts of now")
    options = parser.parse_args(arguments)
    if os.environ.get(SEED) != "0":  # the order of a set of texts must be the same each time
        command = [sys.executable, "-m", "benchmarks.bytecodes", *(["--update"] if options.update else [])]
        return subprocess.run(command, check=False, cwd=ROOT, env={**os.environ, SEED: "0"}).returncode
    record = (
        json.loads(RECORD.read_text(encoding="utf-8"))
        if RECORD.is_file()
        else {"CPython": None, "counts": {}}
    )
    now = counts() if options.update or record["CPython"] == _version() else None
    failed = False
    for name, before, after in doublings():
        message = too_steep(name, before, after)
        failed |= bool(message)
        ratio = sum(after.values()) / sum(before.values())
        print(message or f"{name}: {ratio:.2f} times the work for twice the size")
    if now is None:
        print(f"the record is of CPython {record['CPython']}, this is {_version()}: only growth is checked")
    elif options.update:
        record = {"CPython": _version(), "counts": {name: _most(found) for name, found in now.items()}}
        RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    else:
        for failure, message in compare(record["counts"], now):
            failed |= failure
            print(message)
    if now is not None:
        every = sum(sum(found.values()) for found in now.values())
        print(f"{len(now)} counts, {every:,} bytecode instructions")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
