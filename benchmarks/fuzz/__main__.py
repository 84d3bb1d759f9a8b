"""Fuzz tclint with pieces of real kernels, count what came of it, and record it.

    python -m benchmarks.fuzz [FOLDER...] [--runs 2000] [--seed N] [--ask 100] [--commands 0] [--keep FOLDER] [--record]

Each run takes a small kernel, or a stretch of a large one, and changes it: bytes, tokens, or what the syntax tree and
the ISA table know about it. Then the whole pipeline runs and a report is written. A run fails when

- an exception leaves the pipeline or an output format (only SourceError may, for what is not text),
- it takes more than ten times as long as the kernel did, and more than two seconds, or does not end,
- the interpreter dies, a report is not well-formed, or
- the tree has an error and the report says that everything was analysed.

With ``--commands N``, N processes ``tclint check`` are run on odd inputs, files and options as well.

A run depends on its number, the seed, the kernels and the version of this tool alone. ``--record`` adds the runs to
those that were recorded before, and saves them after each ten thousand. Exit 1 if anything failed.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.arguments import command_line
from benchmarks.corpus.builder import default_cache
from benchmarks.fuzz.commands import cases, failure
from benchmarks.fuzz.kernels import draw
from benchmarks.fuzz.oracle import ASKED, ENDS, Judge
from benchmarks.fuzz.runs import STRATEGIES, Tally, in_process
from benchmarks.ptxas import Ptxas, PtxasMissing, find

__all__ = ["ABOUT", "COMMAND", "TITLE", "figure", "main", "tables"]

PART = "fuzz"
TITLE = "Fuzzing"
COMMAND = "python -m benchmarks.fuzz --runs 200000 --commands 300 --record"
SLICE = "python -m benchmarks.fuzz fixtures --runs 500"
ABOUT = """\
Small pieces of real kernels are changed at random and go through the whole pipeline and an output format. A run fails when
anything crashes, hangs or takes ten times as long as its kernel did, when a report is malformed, or when text that the
grammar refuses looks clean. Inputs that failed and were fixed are tests (`tests/benchmarks/test_fuzz.py`)."""

KERNELS = 400
SAVED = 10_000
"""After so many runs the record is saved."""
WANTED = 200_000
"""The goal, in runs."""
REFUSED = 0.98
"""The goal: the share of the inputs that ptxas refuses, and tclint too."""


def _recorded() -> list[dict[str, Any]]:
    path = results.RECORDS / f"{PART}.json"
    if not path.is_file():
        return []
    sessions: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["data"]["sessions"]
    return sessions


# ---------------------------------------------------------------- the page


def _counts(sessions: Iterable[dict[str, Any]], key: str) -> Counter[str]:
    total: Counter[str] = Counter()
    for session in sessions:
        total.update(session.get(key, {}))
    return total


def figure(data: Any) -> str:
    """How many runs there were and how many failed; and what ptxas refuses, in the last session that asked it."""
    sessions = data["sessions"]
    runs = sum(session["runs"] for session in sessions)
    failures = _counts(sessions, "failures")
    verdict = "met" if runs >= WANTED else "**missed**"
    said = f"{runs:,} runs (goal: {WANTED:,}, {verdict}), {failures.total():,} failures."
    if judged := [session for session in sessions if session["asked"]]:
        counts: Counter[str] = Counter(judged[-1]["agreement"])
        refused = counts["refuses/refuses"] + counts["accepts/refuses"]
        share = counts["refuses/refuses"] / max(refused, 1)
        goal = "met" if share >= REFUSED and not counts["refuses/accepts"] else "**missed**"
        said += (
            f" In the last session that asked ptxas, tclint refuses {counts['refuses/refuses']:,} of the {refused:,} inputs that"
            f" ptxas refuses ({share:.1%}), and {counts['refuses/accepts']} that it accepts (goal: {REFUSED:.0%} and none,"
            f" {goal})."
        )
    return said


def tables(data: Any) -> Iterator[str]:
    """All recorded runs by strategy, end, failure and session."""
    sessions = data["sessions"]
    runs = sum(session["runs"] for session in sessions)
    failures = _counts(sessions, "failures")
    longest = max((session["longest"] for session in sessions), key=lambda found: float(found["seconds"]))
    if "kernel" in longest:
        yield (
            f"The longest run took {longest['seconds']:.2f} s, its kernel unchanged {longest['usual']:.2f} s"
            f" ({longest['kernel']}, {longest['bytes']:,} bytes, {longest['strategy']})."
        )
    yield ""
    strategies = _counts(sessions, "strategies")
    rows = [(name, STRATEGIES[name], f"{strategies[name]:,}") for name in STRATEGIES if strategies[name]]
    yield from results.table(["strategy", "what it changes", "runs"], rows)
    ends = _counts(sessions, "ends")
    yield from results.table(
        ["end of a run", "runs", "share"],
        [(f"{name}: {ENDS[name]}", f"{ends[name]:,}", f"{ends[name] / runs:.1%}") for name in ENDS],
    )
    if failures:
        yield from results.table(
            ["failure", "runs"], [(what, f"{n:,}") for what, n in failures.most_common(20)]
        )
    yield from _sessions(sessions)
    yield from _commands(sessions)
    yield from _ptxas(sessions)


def _sessions(sessions: list[dict[str, Any]]) -> Iterator[str]:
    yield from results.table(
        ["seed", "tclint", "kernels", "runs", "failures"],
        [
            (s["seed"], s["tclint"], _words(s["kernels"]), f"{s['runs']:,}", sum(s["failures"].values()))
            for s in sessions
        ],
    )


def _words(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.items())


def _commands(sessions: list[dict[str, Any]]) -> Iterator[str]:
    commands = _counts(sessions, "commands")
    if not commands:
        return
    said = ", ".join(f"{number:,} with {what}" for what, number in commands.most_common())
    yield f"{commands.total():,} processes on odd inputs, files and options: {said}."
    yield ""


def _ptxas(sessions: list[dict[str, Any]]) -> Iterator[str]:
    judged = [session for session in sessions if session["asked"]]
    if not judged:
        return
    yield (
        f"ptxas judged {sum(s['asked'] for s in judged):,} of these inputs, those of a limit of the machine apart. tclint"
        " *refuses* one that it does not analyse as a whole, or with an error of PX or AV. The goal for the last session:"
        f" at least {REFUSED:.0%} of what ptxas refuses, and nothing that it accepts."
    )
    yield ""
    rows = []
    for session in judged:
        counts: Counter[str] = Counter(session["agreement"])
        refused, accepted = (
            counts[f"refuses/{theirs}"] + counts[f"accepts/{theirs}"] for theirs in ("refuses", "accepts")
        )
        both = counts["refuses/refuses"]
        rows.append(
            (
                session["seed"], session["tclint"], f"{refused:,}", f"{both:,} ({both / max(refused, 1):.1%})",
                f"{accepted:,}", f"{counts['refuses/accepts']:,}", f"{sum(session.get('limits', {}).values()):,}",
            )
        )  # fmt: skip
    yield from results.table(
        [
            "seed",
            "tclint",
            "ptxas refuses",
            "of these tclint",
            "ptxas accepts",
            "of these tclint refuses",
            "limits",
        ],
        rows,
    )
    last = judged[-1:]
    gaps, strict = _counts(last, "gaps"), _counts(last, "strict")
    if gaps:
        yield "What ptxas says in the last session of inputs in which tclint sees nothing that an assembler would refuse:"
        yield ""
        yield from results.table(["ptxas", "inputs"], [(f"`{what}`", n) for what, n in gaps.most_common(12)])
    if strict:
        yield "What tclint says of inputs that ptxas accepts:"
        yield ""
        yield from results.table(["rule", "inputs"], strict.most_common(12))


# ---------------------------------------------------------------- the command


def _ptxas_here(skipped: list[str]) -> Ptxas | None:
    try:
        found = find()
        found.release  # noqa: B018  # that it runs
    except PtxasMissing as error:
        skipped.append(f"inputs were not shown to ptxas: {error}")
        return None
    return found


def main(arguments: list[str] | None = None) -> int:
    """Fuzz, print what failed by kind; the exit status."""
    parser = command_line("benchmarks.fuzz", __doc__)
    parser.add_argument("folders", type=Path, nargs="*", help="where .ptx files are (default: the corpus)")
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, help="1; with --record the first that is not in the record")
    parser.add_argument("--kernels", type=int, default=KERNELS, help=f"to begin with ({KERNELS})")
    parser.add_argument("--commands", type=int, default=0, help="processes on odd inputs (0)")
    parser.add_argument("--ask", type=int, default=ASKED, help=f"ptxas is asked every so many runs ({ASKED})")
    parser.add_argument("--keep", type=Path, help="where inputs that fail are written")
    parser.add_argument("--record", action="store_true", help="add what came of it to the record")
    options = parser.parse_args(arguments)
    before = _recorded()
    known = {session["seed"] for session in before}
    seed: int = options.seed or (max(known, default=0) + 1 if options.record else 1)
    if options.record and seed in known:
        parser.error(f"the runs of seed {seed} are recorded: counting them twice would be wrong")
    folders: list[Path] = options.folders or [default_cache()]
    kernels = draw(folders, options.kernels, seed)
    if not kernels:
        print(f"{', '.join(map(str, folders))}: no .ptx file to begin with", file=sys.stderr)
        return 2
    skipped: list[str] = []
    ptxas = _ptxas_here(skipped)
    judge = Judge(ptxas, options.ask) if ptxas else None
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
    about = {
        "seed": seed,
        "tclint": results.commit(),
        "kernels": dict(sorted(Counter(kernel.producer for kernel in kernels).items())),
    }
    for kernel in kernels:
        kernel.parts  # noqa: B018  # before the processes fork, so that each of them has it
    total = Tally()
    commands: Counter[str] = Counter()

    def save() -> None:
        if options.record:
            sessions = [*before, about | total.record() | {"commands": dict(commands)}]
            results.save(PART, {"sessions": sessions}, {"ptxas": ptxas.release} if ptxas else {}, skipped)

    saved = 0
    for part in in_process(kernels, seed, 0, options.runs, judge, options.keep):
        total.add(part)
        print(f"{total.runs} runs, {total.seconds:.0f} s, {total.failures.total()} failures", flush=True)
        if total.runs - saved >= SAVED:
            save()
            saved = total.runs
    for case in cases(kernels, seed, options.commands):
        code, said = failure(case)
        commands[f"exit {code}"] += 1
        if said:
            total.failures[said] += 1
            print(f"{said}: {' '.join(case.options)}", flush=True)
            if options.keep is not None:
                name = re.sub(r"\W+", "-", case.name)
                data = case.files.get(case.path, case.data)
                (options.keep / f"{seed}-command-{commands.total()}-{name}").write_bytes(data)
    save()
    for what, times in total.failures.most_common():
        print(f"{times:6}  {what}: runs {', '.join(map(str, total.examples.get(what, ())))} of seed {seed}")
    return 1 if total.failures else 0


if __name__ == "__main__":
    sys.exit(main())
