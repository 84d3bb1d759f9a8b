"""The runs: strategies, the numbers that are kept, and the process in which they happen."""

from __future__ import annotations

import multiprocessing
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, process_time
from types import FrameType
from typing import Any

from benchmarks.fuzz import structure
from benchmarks.fuzz.kernels import Kernel
from benchmarks.fuzz.oracle import LIMIT, SECONDS, Hang, Judge, Outcome, ask, extras, lint, message_class
from benchmarks.fuzz.text import BYTES, TOKENS

__all__ = ["STRATEGIES", "Tally", "in_process", "made", "run"]

STRATEGIES = {
    "bytes": "bytes flipped, removed, doubled, inserted, the rest cut off, line ends changed",
    "tokens": "statements and tokens dropped, moved, doubled, exchanged",
    "structure": "operands, modifiers, names, immediates, guards, labels, blocks, scopes, directives, functions",
    "mixed": "structure, then tokens or bytes",
}
"""What a run does to its kernel; the later ones keep more of it PTX, the last one breaks what they made."""
_WEIGHTS = (2, 3, 8, 3)
LEAST = 1000
"""Kernels of fewer bytes are as frequent as those of so many."""
CHUNK = 2000
"""Runs of one process; its memory is given back, and what a crash of the interpreter can cost."""


@dataclass
class Tally:
    """The numbers of some runs."""

    runs: int = 0
    seconds: float = 0.0
    """CPU seconds of everything."""
    strategies: Counter[str] = field(default_factory=Counter)
    changes: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    formats: int = 0
    """Reports written."""
    dumps: int = 0
    asked: int = 0
    """Inputs that ptxas judged."""
    agreement: Counter[str] = field(default_factory=Counter)
    """``TCLINT/PTXAS``, each ``accepts`` or ``refuses``."""
    limits: Counter[str] = field(default_factory=Counter)
    """What ptxas says of inputs that exceed a limit of the machine; they are in no other count of agreement."""
    gaps: Counter[str] = field(default_factory=Counter)
    """What ptxas says of inputs that tclint calls analysed, without an error about what an assembler refuses."""
    strict: Counter[str] = field(default_factory=Counter)
    """Rules that refuse what ptxas takes, and ``grammar``."""
    longest: dict[str, Any] = field(default_factory=lambda: {"seconds": 0.0})
    examples: dict[str, list[int]] = field(default_factory=dict)
    """A few run numbers for each failure, gap and rule that is too strict."""

    def add(self, other: Tally) -> None:
        """Count what *other* counted as well."""
        self.runs += other.runs
        self.seconds += other.seconds
        self.formats += other.formats
        self.dumps += other.dumps
        self.asked += other.asked
        for name in ("strategies", "changes", "ends", "failures", "agreement", "limits", "gaps", "strict"):
            getattr(self, name).update(getattr(other, name))
        self.longest = max(self.longest, other.longest, key=lambda longest: float(longest["seconds"]))
        for what, numbers in other.examples.items():
            self.examples[what] = [*self.examples.get(what, ()), *numbers][:3]

    def record(self) -> dict[str, Any]:
        """All of it, as JSON has it; the most frequent first."""
        return {
            name: dict(value.most_common()) if isinstance(value, Counter) else value
            for name, value in vars(self).items()
        } | {"seconds": round(self.seconds, 3)}

    def example(self, what: str, number: int) -> None:
        """Remember a run that shows *what*."""
        numbers = self.examples.setdefault(what, [])
        if len(numbers) < 3:
            numbers.append(number)


def _name(change: Callable[..., object]) -> str:
    return change.__name__.strip("_").replace("_", " ")


def made(kernels: Sequence[Kernel], seed: int, number: int) -> tuple[Kernel, str, list[str], bytes]:
    """The kernel of a run, its strategy, the changes, and the input: by *seed* and *number* alone."""
    rng = random.Random(f"{seed}:{number}")
    # As much time for the small ones as for the large ones: more runs for the same time.
    kernel = rng.choice(kernels)
    while rng.random() * len(kernel.data) > LEAST:
        kernel = rng.choice(kernels)
    strategy = rng.choices(list(STRATEGIES), _WEIGHTS)[0]
    data, names = kernel.data, []
    if strategy in ("structure", "mixed"):
        edits: list[structure.Edit] = []
        for change in rng.choices(structure.CHANGES, k=rng.choice((1, 1, 2, 2, 3, 4))):
            edits += change(rng, kernel, kernels)
            names.append(_name(change))
        data = structure.apply(data, edits)
    if strategy != "structure":
        simple = BYTES if strategy == "bytes" or (strategy == "mixed" and rng.randrange(3) == 0) else TOKENS
        for textual in rng.choices(simple, k=rng.choice((1, 1, 2, 3))):
            data = textual(rng, data) if data else data
            names.append(_name(textual))
    return kernel, strategy, names, data


def run(
    kernels: Sequence[Kernel],
    seed: int,
    number: int,
    usual: dict[str, float],
    tally: Tally,
    judge: Judge | None = None,
) -> str:
    """One run, counted in *tally*; what went wrong, or "". *usual* are the seconds of the kernels met so far."""
    began = process_time()
    kernel, strategy, names, data = made(kernels, seed, number)
    if kernel.name not in usual:
        usual[kernel.name] = lint(kernel.data).seconds
    formats, stages = extras(random.Random(f"{seed}:{number}:extras"), number)
    outcome = lint(data, usual[kernel.name], formats, stages)
    tally.runs += 1
    tally.strategies[strategy] += 1
    tally.changes.update(names)
    tally.formats += len(formats)
    tally.dumps += len(stages)
    if outcome.failure:
        tally.failures[outcome.failure] += 1
        tally.example(outcome.failure, number)
    else:
        tally.ends[outcome.end] += 1
    if outcome.seconds > tally.longest["seconds"]:
        tally.longest = {
            "seconds": round(outcome.seconds, 3), "usual": round(usual[kernel.name], 3), "bytes": len(data),
            "kernel": kernel.name, "strategy": strategy, "seed": seed, "run": number,
        }  # fmt: skip
    if judge is not None and number % judge.every == 0 and outcome.end:
        _compare(ask(judge.ptxas, data, outcome.refused), outcome, number, tally)
    tally.seconds += process_time() - began
    return outcome.failure


def _compare(said: str | None, outcome: Outcome, number: int, tally: Tally) -> None:
    if said is None:
        return
    tally.asked += 1
    if LIMIT.search(said):
        tally.limits[message_class(said)] += 1
        return
    refused = outcome.refused
    tally.agreement[f"{'refuses' if refused else 'accepts'}/{'refuses' if said else 'accepts'}"] += 1
    if said and not refused:
        what = message_class(said)
        tally.gaps[what] += 1
        tally.example(what, number)
    elif refused and not said:
        for rule in outcome.refusals or ["grammar"]:
            tally.strict[rule] += 1
            tally.example(rule, number)


def _stop(signum: int, frame: FrameType | None) -> None:
    raise Hang


def _work(
    kernels: Sequence[Kernel],
    seed: int,
    numbers: Sequence[int],
    judge: Judge | None,
    keep: Path | None,
    at: Any,
    usual: dict[str, float],
    end: Any,
) -> None:
    tally = Tally()
    signal.signal(signal.SIGALRM, _stop)
    for number in numbers:
        at.value = number
        signal.alarm(SECONDS)
        try:
            said = run(kernels, seed, number, usual, tally, judge)
        except Hang:  # while a mutant was made, or ptxas asked
            said = ""
        finally:
            signal.alarm(0)
        if said and keep is not None and tally.failures[said] <= 3:
            (keep / f"{seed}-{number}.ptx").write_bytes(made(kernels, seed, number)[3])
    at.value = -1
    end.send((tally, usual))
    end.close()


def in_process(
    kernels: Sequence[Kernel], seed: int, first: int, count: int, judge: Judge | None, keep: Path | None
) -> Iterator[Tally]:
    """Run *count* runs from number *first* on, ``CHUNK`` at a time in a process of their own; the numbers of each.

    A process that dies, or that no signal of Python stops, costs the run that it was at, which counts as a failure, and
    the numbers of those before it in its chunk, which are run again.
    """
    context = multiprocessing.get_context("fork")
    usual: dict[str, float] = {}
    waiting = [
        range(start, min(start + CHUNK, first + count)) for start in range(first, first + count, CHUNK)
    ]
    while waiting:
        numbers = waiting.pop(0)
        at = context.Value("q", numbers[0])
        receive, send = context.Pipe(duplex=False)
        process = context.Process(
            target=_work, args=(kernels, seed, numbers, judge, keep, at, usual, send), daemon=True
        )
        process.start()
        send.close()
        last, since = numbers[0], monotonic()
        answer: tuple[Tally, dict[str, float]] | None = None
        while answer is None:
            try:
                if receive.poll(1):
                    answer = receive.recv()
            except EOFError:
                break
            if at.value != last:
                last, since = at.value, monotonic()
            elif monotonic() - since > 20 * SECONDS:  # wall-clock time of a machine that may be busy
                process.kill()
                break
        process.join()
        if answer is not None:
            usual |= answer[1]
            yield answer[0]
            continue
        number = int(at.value)
        said = f"the interpreter ended with {process.exitcode}"
        if keep is not None:
            (keep / f"{seed}-{number}.ptx").write_bytes(made(kernels, seed, number)[3])
        failed = Tally(runs=1, failures=Counter({said: 1}), examples={said: [number]})
        failed.strategies[made(kernels, seed, number)[1]] += 1
        yield failed
        rest = [range(numbers[0], number), range(number + 1, numbers[-1] + 1)]
        waiting = [part for part in rest if part] + waiting
