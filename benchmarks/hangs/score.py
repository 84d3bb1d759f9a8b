"""What a GPU answered, and what ``tclint hang`` makes of it."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks import hangs
from benchmarks.hangs.plants import HELD_OUT, PLANTS, UNSEEN, Plant
from benchmarks.results import table
from tclint.executor.launch import Buffer, Launch, LaunchFile, Pointer
from tclint.hang.explain import Explanation, Hang, chosen, explain
from tclint.hang.launched import execute
from tclint.hang.positions import CodePosition, PositionError
from tclint.ir.frontend import analyse
from tclint.syntax.source import Source

__all__ = [
    "ABOUT",
    "COMMAND",
    "SLICE",
    "TITLE",
    "collect",
    "explained",
    "judge",
    "positions",
    "read",
    "tables",
]

TITLE = "Hangs: from program counters to the cause"
COMMAND = "python -m benchmarks.hangs judge --record"
SLICE = ""
ABOUT = """\
Deadlocks are planted in small kernels for sm_90a and launched on a GPU. `tclint hang` gets the kernel and the lines at
which its threads wait. *Cycle*: its chain of waits has the waits that it must have, as found by reading the kernel.
*Place*: a cause, or a finding, names a line that was changed or the barrier that it is about. The analysis was made with
most of these kernels; those written later are counted by themselves where they were launched. Kernels that complete, trap
or fail in spite of the planted deadlock are not counted."""
FIRST = (
    "At first sight: 54 of the 72 in the kernels that it was made with, before causes were added for the others;"
    " 14 of the 27 in the kernels written later, or 16 with two that were expected under a name that the kernel does"
    " not have. What was missed there has been worked on since, so these are no longer unseen. In the kernels written"
    " last, 11 of 12, and nothing has been changed since; one of these two kernels has a single wait, so its cycle is"
    " not hard to show."
)
"""Both cycle and place, when tclint was first asked about these hangs."""

LIMIT = 60.0
"""Seconds for the execution of a launch."""

Record = dict[str, Any]


def positions(text: str, marks: list[int], block: int) -> list[CodePosition]:
    """The positions of the threads of a hang, by the line that each stored last.

    A barrier is for whole warps: lanes whose last line is a barrier that other lanes of their warp have left are
    somewhere after it, which the marks do not show.
    """
    lines = text.splitlines()
    found: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    for index, line in enumerate(marks):
        cta, thread = divmod(index, block)
        if line not in (0, hangs.EXITED):
            warp = found[cta, thread // 32]
            warp[line] = warp.get(line, 0) | 1 << thread % 32
    made = []
    for (cta, number), here in sorted(found.items()):
        for line, lanes in sorted(here.items()):
            left = len(here) > 1 and re.search(r"\b(bar\.sync|barrier\.)", lines[line - 1])
            if not left:
                made.append(CodePosition(line, cta=cta, warp=number, lanes=lanes))
    return made


def explained(plant: Plant, at: list[CodePosition]) -> Explanation:
    """What ``tclint hang`` makes of a planted kernel whose threads are at the positions *at*."""
    source = Source.from_bytes(hangs.planted(plant).encode(), f"{plant.kernel}.ptx")
    module, _ = analyse(source)
    return explain(source, module, chosen(source, module, None, at), Hang(at))


def launched(plant: Plant, n: int) -> Explanation | None:
    """What ``tclint hang`` makes of a launch of a planted kernel, without positions; None if it does not deadlock."""
    text = hangs.planted(plant)
    source = Source.from_bytes(text.encode(), f"{plant.kernel}.ptx")
    module, _ = analyse(source)
    grid, block = (hangs.ctas_of(text), 1, 1), (hangs.threads_of(text), 1, 1)
    launch = Launch(plant.kernel, grid, block, None, 0, (Pointer("data"), n.to_bytes(4, "little")))
    file = LaunchFile(Path(plant.job), None, {"data": Buffer("u8", (hangs.DATA,), 0)}, {}, (launch,))
    try:
        found = execute(source, module, plant.kernel, file, LIMIT)
    except PositionError:
        return None
    function = chosen(source, module, plant.kernel, ())
    return explain(source, module, function, Hang(found.positions, None, block, found))


def cycle_shown(plant: Plant, found: Explanation) -> bool:
    """Whether the chain of waits has all the waits that it should have."""
    if found.chain is None or not found.decided:
        return False
    waiters = (found.waiters[n] for n in found.chain.waiters)
    shown = {found.locations.line(found.stops[waiter.stop].site) for waiter in waiters}
    return shown >= {hangs.line_of(plant.kernel, tag) for tag in plant.waits}


def place_shown(plant: Plant, found: Explanation) -> str:
    """``cause`` or ``finding`` if one names a changed line or its barrier; else empty."""
    tags = (*(edit.tag for edit in plant.edits), *plant.places)
    lines = {hangs.line_of(plant.kernel, tag) for tag in tags}
    names = set(map(_called, plant.objects))
    for cause in found.causes:
        objects = {re.sub(r"\[\d+\]$", "", name) for name in cause.objects}
        if names & objects or lines & set(found.locations.lines(cause.sites)):
            return "cause"
    for finding in found.findings[: found.about]:
        arrivals = [step for party in finding.deadlock for step in party.arrivals]
        spans = [finding.span, *(step.span for step in (*finding.steps, *arrivals))]
        if lines & {found.source.position(span.start).line for span in spans}:
            return "finding"
    return ""


def _called(name: str) -> str:
    """What a report calls an object."""
    if name == "registers":
        return "registers of the CTA"
    return f"barrier {name}" if name.isdigit() else f"mbarrier {name}"


def collect(answer: Mapping[str, Any], known: Mapping[str, Any] | None = None) -> Record:
    """The record of an answer of ``launcher.py``, without what tclint shows; *known* is a record to extend."""
    jobs = answer["jobs"]
    data: Record = {key: answer[key] for key in ("gpu", "driver", "ptxas", "n")}
    old = known or {"kernels": {}, "planted": []}
    data["kernels"] = old["kernels"] | {k: jobs[k]["outcome"] for k in hangs.kernels() if k in jobs}
    data["planted"] = [record for record in old["planted"] if _name(record) not in jobs]
    for plant in PLANTS:
        job = jobs.get(plant.job)
        if job is None:
            continue
        record: Record = {
            "kernel": plant.kernel,
            "name": plant.name,
            "kind": plant.kind,
            "outcome": job["outcome"],
        }
        if job["outcome"] == job.get("marked") == "hang":
            text = hangs.planted(plant)
            at = positions(text, job["marks"], hangs.threads_of(text))
            record["at"] = " ".join(f"{p.cta}:{p.warp}:{p.lanes:x}={p.line}" for p in at)
        data["planted"].append(record)
    return data


def _position(word: str) -> CodePosition:
    """The position that the record has as ``CTA:WARP:LANES=LINE``."""
    warp, line = word.split("=")
    cta, number, lanes = warp.split(":")
    return CodePosition(int(line), cta=int(cta), warp=int(number), lanes=int(lanes, 16))


def _name(record: Mapping[str, Any]) -> str:
    return f"{record['kernel']}-{record['name']}"


def judge(data: Record) -> None:
    """Asks tclint about every hang of a record."""
    plants = {plant.job: plant for plant in PLANTS}
    for record in data["planted"]:
        if "at" in record:
            plant = plants[_name(record)]
            found = explained(plant, [_position(word) for word in record["at"].split()])
            record |= {"cycle": cycle_shown(plant, found), "place": place_shown(plant, found)}
            executed = launched(plant, data["n"])
            record["launched"] = executed is not None and bool(
                cycle_shown(plant, executed) and place_shown(plant, executed)
            )


def figure(data: Mapping[str, Any]) -> str:
    """What hangs, and of how many hangs the cause is shown."""
    planted = data["planted"]
    hanging = [record for record in planted if "at" in record]
    count, cycles, places, both = _counts(hanging)
    alone = sum(r["launched"] for r in hanging)
    return (
        f"{len(planted)} deadlocks in {len(data['kernels'])} kernels, on an {data['gpu']} (driver {data['driver']}, cubins"
        f" by ptxas {data['ptxas']}): {count} hang. The cycle is shown of {cycles}, the place of {places}, both of {both};"
        f" from the launch alone, without program counters, both of {alone}. {FIRST}"
    )


def tables(data: Mapping[str, Any]) -> Iterator[str]:
    """The same by kind of deadlock, and what is not shown or not counted."""
    planted = data["planted"]
    hanging = [record for record in planted if "at" in record]
    rows = [
        (kind, *_counts(r for r in hanging if r["kind"] == kind))
        for kind in dict.fromkeys(r["kind"] for r in hanging)
    ]
    first = [r for r in hanging if r["kernel"] not in (*HELD_OUT, *UNSEEN)]
    later = [r for r in hanging if r["kernel"] in HELD_OUT]
    unseen = [r for r in hanging if r["kernel"] in UNSEEN]
    totals: list[tuple[str, int, int, int, int]] = [("all", *_counts(hanging))]
    if later:
        totals += [("of these, in the kernels it was made with", *_counts(first))]
        totals += [("of these, in kernels written later", *_counts(later))]
    if unseen:
        totals += [("of these, in kernels written last", *_counts(unseen))]
    yield from table(("planted", "hang", "cycle", "place", "both"), [*rows, *totals])
    missed = [r for r in hanging if not (r["cycle"] and r["place"])]
    if missed:
        yield "Not shown: " + ", ".join(f"{r['kernel']} {r['name']}" for r in missed) + "."
        yield ""
    others = Counter(r["outcome"] for r in planted if "at" not in r)
    yield "Not counted: " + ", ".join(f"{count} {outcome}" for outcome, count in sorted(others.items())) + "."


def _counts(records: Iterable[Record]) -> tuple[int, int, int, int]:
    found = list(records)
    cycles, places = [r["cycle"] for r in found], [bool(r["place"]) for r in found]
    return len(found), sum(cycles), sum(places), sum(c and p for c, p in zip(cycles, places, strict=True))


def read(folder: Path) -> dict[str, Any]:
    """The answer in a folder that ``run.sh`` wrote. Raises OSError and ValueError."""
    found: dict[str, Any] = json.loads((folder / "hangs.json").read_text(encoding="utf-8"))
    return found
