"""Change real kernels at random and see that tclint neither crashes, nor hangs, nor calls broken input clean.

    python -m benchmarks.fuzz FOLDER [--runs 2000] [--seed 1] [--keep FOLDER]

Each run takes a kernel and makes one to four changes: bytes flipped, removed or doubled, or statements and operands
moved, dropped, doubled or exchanged, which keeps most of the text PTX. Then the whole pipeline runs. A run fails when

- an exception leaves ``check_source`` (it may only raise SourceError),
- it takes more than ten times as long as the kernel did, and more than two seconds, or
- the tree has an error or a missing node and the report says that everything was analysed.

Inputs that fail are written to the folder of ``--keep``; those that failed once and were mended are kept as a test.
"""

from __future__ import annotations

import argparse
import random
import re
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time
from types import FrameType

from tclint.driver import check_source
from tclint.source import Source, SourceError
from tclint.syntax import parse

__all__ = ["CHANGES", "changed", "failure", "main"]

LARGEST = 60_000
"""Bytes of the largest kernel that is taken: small ones give more runs, and break no other way."""
SECONDS = 30
"""After which a run counts as a hang."""

Change = Callable[[random.Random, bytes], bytes]
_STATEMENT = re.compile(rb"[^;{}\n]*;")
_TOKEN = re.compile(rb"[%$\w.:]+|[^\s\w]")


class Hang(Exception):
    """A run was stopped after ``SECONDS``."""


def _flip(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + bytes((data[at] ^ 1 << rng.randrange(8),)) + data[at + 1 :]


def _cut(rng: random.Random, data: bytes) -> bytes:
    start = rng.randrange(len(data))
    return data[:start] + data[start + rng.randrange(1, 40) :]


def _double(rng: random.Random, data: bytes) -> bytes:
    start = rng.randrange(len(data))
    end = start + rng.randrange(1, 200)
    return data[:end] + data[start:end] + data[end:]


def _truncate(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data))]


def _pieces(pattern: re.Pattern[bytes], data: bytes) -> list[tuple[int, int]]:
    return [match.span() for match in pattern.finditer(data)]


def _drop_statement(rng: random.Random, data: bytes) -> bytes:
    pieces = _pieces(_STATEMENT, data)
    if not pieces:
        return data
    start, end = rng.choice(pieces)
    return data[:start] + data[end:]


def _move_statement(rng: random.Random, data: bytes) -> bytes:
    pieces = _pieces(_STATEMENT, data)
    if len(pieces) < 2:
        return data
    (start, end), (_, place) = sorted(rng.sample(pieces, 2))
    return data[:start] + data[end:place] + data[start:end] + data[place:]


def _repeat_statement(rng: random.Random, data: bytes) -> bytes:
    pieces = _pieces(_STATEMENT, data)
    if not pieces:
        return data
    (start, end), (_, place) = rng.choice(pieces), rng.choice(pieces)
    return data[:place] + b" " + data[start:end] + data[place:]


def _exchange_tokens(rng: random.Random, data: bytes) -> bytes:
    pieces = _pieces(_TOKEN, data)
    if len(pieces) < 2:
        return data
    (a, b), (c, d) = sorted(rng.sample(pieces, 2))
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def _replace_token(rng: random.Random, data: bytes) -> bytes:
    pieces = _pieces(_TOKEN, data)
    if len(pieces) < 2:
        return data
    (a, b), (c, d) = rng.sample(pieces, 2)
    return data[:a] + data[c:d] + data[b:]


_ODD = (
    b"0",
    b"-1",
    b"4294967296",
    b"0xffffffffffffffff",
    b"18446744073709551616",
    b"0f7F800000",
    b"_",
    b"%tid.x",
    b"",
)


def _odd_operand(rng: random.Random, data: bytes) -> bytes:
    pieces = _pieces(re.compile(rb"%\w+|\b\d+\b"), data)
    if not pieces:
        return data
    start, end = rng.choice(pieces)
    return data[:start] + rng.choice(_ODD) + data[end:]


CHANGES: tuple[Change, ...] = (
    _flip, _cut, _double, _truncate, _drop_statement, _move_statement, _repeat_statement, _exchange_tokens,
    _replace_token, _odd_operand,
)  # fmt: skip
"""The last six keep most of the text PTX."""


def changed(rng: random.Random, data: bytes) -> bytes:
    """*data* after one to four random changes; two of three times of those that keep most of it PTX."""
    changes = CHANGES if rng.randrange(3) == 0 else CHANGES[4:]
    for _ in range(rng.randrange(1, 5)):
        if data:
            data = rng.choice(changes)(rng, data)
    return data


def failure(data: bytes, usual: float) -> str:
    """What went wrong when *data* was linted, or "". *usual* are the CPU seconds of the kernel it was made from."""
    began = process_time()
    try:
        source = Source.from_bytes(data, "fuzz.ptx")
        report = check_source(source)
    except SourceError:
        return ""
    except Hang:
        return f"hang: more than {SECONDS} s"
    except Exception as error:  # noqa: BLE001  # that is what is looked for
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} in {Path(last.filename).name}:{last.lineno}"
    took = process_time() - began
    if took > 2 and took > 10 * usual:
        return f"slow: {took:.1f} s instead of {usual:.1f} s"
    if report.status == "analysed" and parse(source.data).root_node.has_error:
        return "broken text that looks clean"
    return ""


def _kernels(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.ptx") if path.stat().st_size <= LARGEST)


def runs(paths: list[Path], count: int, seed: int) -> Iterator[tuple[Path, int, bytes, str]]:
    """``(kernel, run, input, failure)`` of *count* runs; a run depends on its number and *seed* alone."""

    def stop(signum: int, frame: FrameType | None) -> None:
        raise Hang

    usual: dict[Path, float] = {}
    signal.signal(signal.SIGALRM, stop)
    for number in range(count):
        rng = random.Random(f"{seed}:{number}")
        path = rng.choice(paths)
        data = path.read_bytes()
        if path not in usual:
            began = process_time()
            failure(data, 1e9)
            usual[path] = process_time() - began
        made = changed(rng, data)
        signal.alarm(SECONDS)
        try:
            said = failure(made, usual[path])
        finally:
            signal.alarm(0)
        yield path, number, made, said


def main() -> None:
    """Fuzz, print what failed by kind, exit 1 if anything did."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="where inputs that fail are written")
    options = parser.parse_args()
    paths = _kernels(options.folder)
    if not paths:
        sys.exit(f"{options.folder}: no .ptx file of at most {LARGEST} bytes")
    kinds: Counter[str] = Counter()
    for path, number, data, said in runs(paths, options.runs, options.seed):
        if said:
            kinds[said] += 1
            if kinds[said] <= 3:
                print(f"run {number} ({path.name}): {said}", flush=True)
                if options.keep:
                    options.keep.mkdir(parents=True, exist_ok=True)
                    (options.keep / f"{options.seed}-{number}.ptx").write_bytes(data)
    print(f"{options.runs} runs over {len(paths)} kernels, {sum(kinds.values())} failures")
    for said, times in kinds.most_common():
        print(f"{times:6}  {said}")
    sys.exit(1 if kinds else 0)


if __name__ == "__main__":
    main()
